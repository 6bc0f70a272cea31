"""Searching one graph that several servers hold.

The servers are processes of `pipeann cluster serve`, on this machine or others; `docs/guide/cluster.md`
tells how they are started. A query goes from server to server with its data, and its answer comes
from wherever it ends.
"""

import os
from types import TracebackType
from typing import Any, Literal, TypedDict, overload

import numpy as np
import numpy.typing as npt

from pipeann._native import ClusterClient
from pipeann.errors import InputError

__all__ = ["Client", "SearchStats"]

Ids = npt.NDArray[np.int64]
Distances = npt.NDArray[np.float32]


class SearchStats(TypedDict):
    """What each query of a batch took, arrays of int64 of shape (queries,).

    `reads` are pages read from disk and `pages_from_memory` others, on all servers together; `hops`
    nodes whose neighbours were looked at; `code_distances` rows compared by code; `moves` how often it
    went from one server to another; `attempts` how often it was begun. `servers` holds for each query
    the numbers of the servers that it was at, in order. `coverage` is the share of the partitions that
    were searched, float64, and `missing` holds the numbers of the others: 1 and none, unless `partial`
    was asked for and servers were missing.
    """

    reads: npt.NDArray[np.int64]
    pages_from_memory: npt.NDArray[np.int64]
    hops: npt.NDArray[np.int64]
    code_distances: npt.NDArray[np.int64]
    moves: npt.NDArray[np.int64]
    attempts: npt.NDArray[np.int64]
    servers: list[list[int]]
    coverage: npt.NDArray[np.float64]
    missing: list[list[int]]


class Client:
    """A client of a cluster. Threads may share it; a forked child may not.

    Parameters
    ----------
    topology: path of the topology, the TOML file that the servers were started with.
    tls_ca, tls_cert, tls_key: paths of PEM files: certificates of the cluster's authority, those of
        this client with its own first, and its private key. All or none.
    insecure: do without certificates. Everything is sent as it is, to whoever claims to be a server.
    timeout: seconds that a query has, unless a search says otherwise. It is begun anew, at another
        server, after a third of them without an answer.
    all_servers: whether all have to answer. Else the client opens after `connect_timeout` with those
        that did, one at least, for searches that are `partial`.
    connect_timeout: seconds that all servers have to answer in at first. As long, a query that ends
        because two servers have not met yet is begun again within its time.

    Raises
    ------
    errors.InputError: no such file, or not of that kind; neither certificates nor `insecure`.
    errors.RetryError: servers that did not answer within `connect_timeout`, by their numbers.
    """

    def __init__(
        self,
        topology: str | os.PathLike[str],
        *,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        timeout: float = 10.0,
        connect_timeout: float = 10.0,
        all_servers: bool = True,
    ) -> None:
        files = (tls_ca, tls_cert, tls_key)
        given = [os.fspath(file) for file in files if file is not None]
        if given and insecure:
            raise InputError("insecure=True does without certificates, but some were given")
        if not insecure and len(given) != len(files):
            raise InputError("tls_ca, tls_cert and tls_key are needed; or say insecure=True")
        self._native = ClusterClient.open(
            os.fspath(topology), given or None, timeout, connect_timeout, all_servers
        )

    @overload
    def search(
        self,
        queries: npt.NDArray[Any],
        k: int = 10,
        *,
        list_length: int = 64,
        mode: Literal["relay", "baton"] = "relay",
        width: int | None = None,
        ahead: int | None = None,
        filter: str = "",
        within: tuple[float | None, float | None] | None = None,
        partial: Literal[False] = False,
        in_flight: int = 32,
        timeout: float | None = None,
        stats: Literal[False] = False,
    ) -> tuple[Ids, Distances]: ...

    @overload
    def search(
        self,
        queries: npt.NDArray[Any],
        k: int = 10,
        *,
        list_length: int = 64,
        mode: Literal["relay", "baton"] = "relay",
        width: int | None = None,
        ahead: int | None = None,
        filter: str = "",
        within: tuple[float | None, float | None] | None = None,
        partial: bool = False,
        in_flight: int = 32,
        timeout: float | None = None,
        stats: Literal[True],
    ) -> tuple[Ids, Distances, SearchStats]: ...

    @overload
    def search(
        self,
        queries: npt.NDArray[Any],
        k: int = 10,
        *,
        list_length: int = 64,
        mode: Literal["relay", "baton"] = "relay",
        width: int | None = None,
        ahead: int | None = None,
        filter: str = "",
        within: tuple[float | None, float | None] | None = None,
        partial: Literal[True],
        in_flight: int = 32,
        timeout: float | None = None,
        stats: bool = False,
    ) -> tuple[Ids, Distances, SearchStats]: ...

    def search(
        self,
        queries: npt.NDArray[Any],
        k: int = 10,
        *,
        list_length: int = 64,
        mode: Literal["relay", "baton"] = "relay",
        width: int | None = None,
        ahead: int | None = None,
        filter: str = "",
        within: tuple[float | None, float | None] | None = None,
        partial: bool = False,
        in_flight: int = 32,
        timeout: float | None = None,
        stats: bool = False,
    ) -> tuple[Ids, Distances] | tuple[Ids, Distances, SearchStats]:
        """The `k` nearest rows of each query.

        Parameters
        ----------
        queries: shape (queries, dimension), C-contiguous, of the dtype of the index.
        k: rows wanted.
        list_length: of the candidate list, at least `k`: longer finds more and reads more.
        mode: "relay": a query goes to its data; "baton": as in BatANN, in rounds.
        width: reads in flight for each query; None: 2, and 64 with "baton", as in the paper.
        ahead: nearest candidates that are looked through for one at the same server; None: a fifth
            of the list, and 8 at least; 4 for the nearest row alone; with "baton" as many as `width`.
        filter: a condition on columns that the servers were given, such as `"price < 20"`; all rows
            where it is empty.
        within: (near, far), for rows with near <= distance < far only, the nearest `k` of them; None
            leaves an end open. With a far end, what is read depends on how many rows lie within and not
            on `k`; by inner product and with "baton" on `list_length`.
        partial: take answers that lack the partitions of servers that are missing: gone, unreachable,
            or not heard of for a third of the time. They are what one server without those partitions
            would answer. `stats` is returned as well, and tells the coverage.
        in_flight: queries under way at once.
        timeout: seconds that each query has.
        stats: also what each query took.

        Returns
        -------
        ids: int64, shape (queries, k), nearest first; -1 where fewer were found.
        distances: float32, the same shape; infinity there. Of the metric of the index, smaller is
            nearer; "l2" is squared.
        stats: only where it was asked for, or `partial` was.

        Raises
        ------
        TypeError: no array, or of no dtype of vectors.
        ValueError: another shape; `errors.InputError`, a ValueError too, for what a server refuses:
            another dimension or dtype than that of the index, NaN, a parameter out of range, a column
            that there is none of. Its `row` tells which query.
        errors.RetryError: no answer in time, or a server that holds what a query needs is gone; it
            names what is missing.
        errors.ClosedError: after `close`.
        KeyboardInterrupt: within a tenth of a second of Ctrl-C.
        """
        found, taken = self._native.search(
            queries, k, list_length, mode, width, ahead, filter, within, partial, in_flight, timeout
        )
        return (*found, taken) if stats or partial else found

    def missing(self) -> list[int]:
        """Numbers of the servers that cannot be asked now: out of reach, or with another index."""
        return self._native.missing()

    def close(self) -> None:
        """Ends the connections. Closing twice is once."""
        self._native.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
