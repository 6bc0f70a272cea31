"""Types of the compiled half of pipeann. Import from `pipeann`, which re-exports them."""

import os
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

__version__: Final[str]

Vectors: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.uint8]
Metric: TypeAlias = Literal["l2", "ip", "cosine"]

class Index:
    """An index on disk, opened for searching. Threads may share it; a forked child may not."""

    @staticmethod
    def build(
        path: str | os.PathLike[str],
        vectors: Vectors,
        metric: Metric = "l2",
        *,
        degree: int = 64,
        list_length: int = 96,
        alpha: float = 1.2,
        code_bytes: int | None = None,
        threads: int = 0,
        partitions: int = 1,
        seed: int = 42,
        overwrite: bool = False,
    ) -> Index:
        """Builds an index over `vectors` in the directory `path`, and opens it.

        Parameters
        ----------
        path: directory to make. One that holds an index is refused unless `overwrite`.
        vectors: shape (rows, dimension), C-contiguous, float32 or uint8; at least one row.
            A row's id is its position.
        metric: "l2" (squared Euclidean distance), "ip" (inner product) or "cosine".
        degree: most edges of a node (R).
        list_length: candidate list of the build (L).
        alpha: slack of the robust prune, at least 1.
        code_bytes: bytes per vector kept in memory; chosen from the dimension where None.
        threads: 0 for one per core.
        partitions: directories that the pages are spread over.
        seed: of everything random.

        Raises
        ------
        ValueError: no rows, NaN or infinity, a zero vector with "cosine", an option out of range.
        TypeError: another dtype.
        FileExistsError: `path` holds an index already.
        OSError: the disk is full or refuses; nothing that opens is left behind.
        KeyboardInterrupt: Ctrl-C; nothing that opens is left behind.
        """

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        memory_limit: int | None = None,
        direct: bool = True,
    ) -> Index:
        """Opens the index in the directory `path`.

        Parameters
        ----------
        memory_limit: bytes that codes, head index, page map, scratch and resident pages may
            take together. What is left above the floor keeps pages in memory. None: no limit,
            and no pages in memory.
        direct: read past the page cache of the operating system (O_DIRECT). Pass False on file
            systems that refuse it.

        Raises
        ------
        FileNotFoundError: `path` holds no index.
        MemoryError: `memory_limit` is below the floor; the message names the number needed.
        OSError: a file is missing, truncated or damaged, or a build is at work there.
        ValueError: the index was written by a newer version.
        """

    def search(
        self,
        queries: Vectors,
        k: int = 10,
        *,
        list_length: int = 64,
        policy: Literal["pipe", "beam", "page"] = "pipe",
        width: int | None = None,
        max_width: int = 32,
        threads: int = 1,
        in_flight: int | None = None,
        allowed: Sequence[int] | npt.NDArray[np.integer[Any]] | None = None,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Searches the nearest rows of each query, with the GIL released.

        Parameters
        ----------
        queries: shape (n, dimension), C-contiguous, of the index's dtype.
        k: results per query.
        list_length: candidate list (L); raised to `k` where shorter. Longer finds more and
            reads more.
        policy: "pipe" (PipeSearch; the default), "beam" (best-first, one record per page read)
            or "page" (best-first, every record of a page).
        width: reads in flight per query; None: as the policy chooses.
        max_width: widest pipeline of "pipe" while it chooses.
        threads: threads for this batch; 0 for one per core.
        in_flight: queries interleaved on each thread (1 to 64); None: 1 for a single query,
            8 for a batch.
        allowed: ids of the rows that may be answered; None: all.

        Returns
        -------
        ids: shape (n, k), int64, nearest first; -1 where there are fewer than `k`.
        distances: shape (n, k), float32: squared Euclidean distance, negated inner product, or
            1 - cosine similarity; infinity where the id is -1.

        Raises
        ------
        ValueError: wrong dimension, NaN or infinity, a parameter out of range, an unknown row.
        TypeError: another dtype than the index's.
        OSError: a page could not be read or is corrupt; the message names file and page.
        RuntimeError: the process was forked after the index was opened.
        """

    def stats(self) -> dict[str, Any]:
        """Sizes and counts: rows, pages, memory_bytes by pool, and sums over all queries of
        this object (reads, reads_wasted, bytes_read, hops, distances, compute_ns, wait_ns)."""

    def __len__(self) -> int: ...
    @property
    def dim(self) -> int:
        """Components of a vector."""
    @property
    def metric(self) -> Metric:
        """How vectors are compared."""
    @property
    def dtype(self) -> Literal["float32", "uint8"]:
        """numpy's name of the component type."""
