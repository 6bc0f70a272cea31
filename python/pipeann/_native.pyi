"""Types of the compiled half of pipeann. Import from `pipeann`, which re-exports them."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pipeann._values import Hits, IndexStatus, LoadEstimate, LoadProgress, LoadReport
from pipeann.bulk import Source
from pipeann.fields import Field

__version__: Final[str]

Vectors: TypeAlias = (
    npt.NDArray[np.float32]
    | npt.NDArray[np.float16]
    | npt.NDArray[np.int8]
    | npt.NDArray[np.uint8]
    | npt.NDArray[np.uint16]
)
Metric: TypeAlias = Literal["l2", "ip", "cosine", "hamming", "jaccard"]

class Index:
    """An index on disk, opened for searching. Threads may share it; a forked child may not."""

    @staticmethod
    def build(
        path: str | os.PathLike[str],
        vectors: Vectors | str | os.PathLike[str] | Any,
        metric: Metric = "l2",
        *,
        column: str | None = None,
        dataset: str | None = None,
        memory: int | str | None = None,
        degree: int = 64,
        list_length: int = 96,
        alpha: float = 1.2,
        codes: str = "pq",
        code_bytes: int | None = None,
        threads: int = 0,
        partitions: int = 1,
        partition_by: Literal["graph", "kmeans", "random", "order"] = "graph",
        seed: int = 42,
        overwrite: bool = False,
    ) -> Index:
        """Builds an index over `vectors` in the directory `path`, and opens it.

        Parameters
        ----------
        path: directory to make. One that holds an index is refused unless `overwrite`.
        vectors: shape (rows, dimension), C-contiguous, float32, float16, int8, uint8, or bfloat16
            of the package ml_dtypes; at least one row. A row's id is its position.
            Or columns of lists: a pyarrow Table, RecordBatch, ChunkedArray or Array, or whatever
            else has `__arrow_c_stream__`; an h5py Dataset; or the path of a file: .npy, .fbin,
            .f16bin, .bf16bin, .u8bin, .i8bin or .bbin, which are mapped, .parquet, .arrow or
            .feather (with pyarrow), .h5 or .hdf5 (with h5py). Of these
            float64 becomes float32.
        column: of a table that has several.
        dataset: of an HDF5 file that has several.
        memory: bytes, or a text as "1GiB", that the build takes at most. What does not fit is built
            in parts; rows that are neither an array nor mapped wait in a file beside the index
            meanwhile.
        metric: "l2" (squared Euclidean distance), "ip" (inner product) or "cosine". By "hamming" and
            "jaccard" uint8 holds bits, eight to an entry as numpy.packbits puts them.
        degree: most edges of a node (R).
        list_length: candidate list of the build (L).
        alpha: slack of the robust prune, at least 1.
        codes: what memory keeps of a vector: "pq" (trained centroids) or "rabitq" (bits of components).
        code_bytes: bytes per vector kept in memory, at most; chosen from the dimension where None.
        threads: 0 for one per core.
        partitions: directories that the pages are spread over, each of which can be on a server of
            its own.
        partition_by: what rows of a partition have in common: "graph" (near neighbours: the fewest of
            them are in other partitions), "kmeans" (the nearest centre), "random" or "order" (of pages).
        seed: of everything random.

        Raises
        ------
        ValueError: no rows, NaN or infinity, a squared norm above 3.4e38, an option out of range,
            lists of different lengths, nulls, no such column (an errors.InputError, whose `row`
            tells where).
        TypeError: another dtype.
        ImportError: the package that reads the source is missing; the message tells which.
        MemoryError: `memory` is too little; the message names the number needed.
        FileExistsError: `path` holds an index already.
        OSError: the disk is full or refuses; nothing that opens is left behind.
        KeyboardInterrupt: Ctrl-C; nothing that opens is left behind.
        """

    @staticmethod
    def import_diskann(
        path: str | os.PathLike[str],
        prefix: str | os.PathLike[str],
        *,
        metric: Literal["l2", "ip", "cosine"] | None = None,
        dtype: Literal["float32", "uint8", "int8"] | None = None,
        codes: str = "pq",
        code_bytes: int | None = None,
        threads: int = 0,
        partitions: int = 1,
        partition_by: Literal["graph", "kmeans", "random", "order"] = "graph",
        seed: int = 42,
        overwrite: bool = False,
    ) -> Index:
        """Makes an index in the directory `path` of a disk index of DiskANN 0.7, and opens it. Its
        edges, its medoid and the ids of its rows are kept; pages, codes and head index are made anew.

        Parameters
        ----------
        prefix: what the names of DiskANN's files begin with: `prefix_disk.index` is read, and where
            they exist `prefix_metadata.bin` and `prefix_disk.index_max_base_norm.bin`.
        metric, dtype: needed where `prefix_metadata.bin`, which diskannpy writes, is missing; else
            they have to agree with it.
        codes, code_bytes, threads, partitions, partition_by, seed, overwrite: as in `build`.

        Raises
        ------
        ValueError: another layout, damage, a metric or dtype that is not the index's; the message
            names the file and what is wrong.
        FileExistsError, OSError, KeyboardInterrupt: as in `build`.
        """

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        memory_limit: int | str | None = None,
        warm: bool = True,
        direct: bool = True,
        backend: Literal["auto", "io_uring", "libaio", "threads", "spdk"] = "auto",
        spdk_config: str | os.PathLike[str] | None = None,
    ) -> Index:
        """Opens the index in the directory `path`.

        Parameters
        ----------
        memory_limit: bytes, or a text as "512MiB", that codes, head index, page map, scratch and
            resident pages may take together. What is left above the floor keeps the pages that searches use most in
            memory. More than the machine has counts as what it has, with a warning in the log.
            None: no limit of this index's own, and no pages in memory.
        warm: read pages into memory behind searches until all are there that fit, on a thread of
            low priority that lets searches go first. False: only pages that searches read stay.
        direct: read past the page cache of the operating system (O_DIRECT). Pass False on file
            systems that refuse it.
        backend: by what pages are read; "auto" is the best that may be used, which is taken too
            where another is refused. "libaio" wants `direct`. "spdk" reads pages from raw SSDs, to
            which they are copied first.
        spdk_config: the list of these SSDs; None: `spdk_bdevs.json` in the working directory.

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
        within: tuple[float | None, float | None] | None = None,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Searches the nearest rows of each query, with the GIL released.

        Parameters
        ----------
        queries: shape (n, dimension), C-contiguous, of the index's dtype; bfloat16 may be uint16.
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
        within: (near, far), for rows with near <= distance < far only, the nearest `k` of them;
            None leaves an end open. With a far end, what is read depends on how many rows lie
            within and not on `k`; by inner product and with "beam" on `list_length`.

        Returns
        -------
        ids: shape (n, k), int64, nearest first; -1 where there are fewer than `k`.
        distances: shape (n, k), float32: squared Euclidean distance, negated inner product,
            1 - cosine similarity, bits that differ, or Jaccard distance; infinity where the id
            is -1.

        Raises
        ------
        ValueError: wrong dimension, NaN or infinity, a squared norm above 3.4e38, a parameter out
            of range, an unknown row.
        TypeError: another dtype than the index's.
        OSError: a page could not be read or is corrupt; the message names file and page.
        RuntimeError: the process was forked after the index was opened.
        """

    def set_memory_limit(self, limit: int | str | None) -> None:
        """Changes the memory limit while searches of other threads go on.

        A lower limit gives pages back, and has done so when this returns. Under a higher one the
        pages that searches read stay in memory from now on, as far as they fit, and others are
        read behind searches (unless opened with `warm=False`). None lifts the
        limit; what is in memory stays there. An index that was opened without a limit shares its
        memory with all such indexes of the process, and then the limit is that of all of them.

        Raises
        ------
        MemoryError: `limit` is below what is needed beside pages; the message names the number
            needed, and the limit stays as it was.
        """

    def wait_warm(self, timeout: float | None = None) -> bool:
        """Waits until no page is being read ahead of searches: those that fit are in memory then.
        False where that takes longer than `timeout` seconds."""

    def stats(self) -> dict[str, Any]:
        """Sizes and counts: rows, pages, memory_limit, memory_bytes by pool, and sums over all
        queries of this object (reads, reads_wasted, bytes_read, hops, distances, compute_ns,
        wait_ns). Of pages in memory: resident_pages and resident_bytes, resident_room (pages that
        fit), pages_displaced (that made room for others used more), pages_from_memory (uses found
        there) and share_from_memory of all uses, None before the first; pages_warmed (read ahead of
        searches), warming (whether more are coming) and pages_unreadable (that could not be)."""

    def __len__(self) -> int: ...
    @property
    def dim(self) -> int:
        """Components of a vector."""
    @property
    def metric(self) -> Metric:
        """How vectors are compared."""
    @property
    def dtype(self) -> Literal["float32", "float16", "bfloat16", "int8", "uint8"]:
        """numpy's name of the component type."""

Key: TypeAlias = int | str
Keys: TypeAlias = Key | Sequence[Key] | npt.NDArray[np.integer[Any]]
Batch: TypeAlias = Mapping[str, Any] | Sequence[dict[str, Any]]
"""Rows: columns by name of field, or a dict for each row.

A dense vector field takes an array of shape (rows, dim) and of its own dtype (float32, uint8,
int8, float16, uint16 for bfloat16; uint8 of shape (rows, dim / 8) for bits), or for each row a
one-dimensional array, bytes, or a list of numbers; a sparse one takes a dict of index and value.
Integers, bool and floats take arrays (floats only of no more bits than the field), or lists.
Timestamps take aware datetimes, datetime64 (in UTC) or int64 microseconds since 1970; they come
out in UTC. JSON takes any object that has a JSON text; bytes are such a text. None is null. In a
collection with a dynamic field, names that no field has go into `$meta`.
"""

class Database:
    """A directory of collections. Threads may share it; a forked child may not, and one process
    has it open at a time. A context manager, which closes it."""
    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        memory_limit: int | str | None = None,
        level: Literal["sync", "group", "none"] = "sync",
        group_delay_ms: int = 5,
        threads: int = 1,
        build_on_read: bool = False,
        direct: bool = True,
        backend: Literal["auto", "io_uring", "libaio", "threads", "spdk"] = "auto",
        spdk_config: str | os.PathLike[str] | None = None,
    ) -> Database:
        """Opens the database in the directory `path`, or makes an empty one there.

        Parameters
        ----------
        memory_limit: bytes, or a text as "512MiB", that buffers, caches and indexes of all
            collections take together; pages of the graphs that are used most fill what is left.
        level: when a write is answered. "sync": when it is on stable storage. "group": the same,
            but a sync waits `group_delay_ms` for other writers. "none": when the operating system
            has it; a killed process loses nothing, a power cut may lose what was written since
            the last flush.
        threads: of a search.
        build_on_read: the first search of a field has its index built, where nobody asked for it.
        direct: read graphs past the page cache of the operating system (O_DIRECT). Pass False on
            file systems that refuse it.
        backend, spdk_config: by what pages of graphs are read, as in `Index.open`. Everything else
            stays in the directory.

        Raises
        ------
        LockedError: somebody has it open; the message says who.
        InputError: a directory of something else, a newer version, an unknown level or backend,
            SSDs that cannot be used.
        MemoryLimitError: the limit is too low; the message names the number needed.
        StopError: a file is damaged or missing; the message names it.
        """
    def close(self) -> None:
        """Waits for what is under way in other threads and closes. Collections of it raise
        ClosedError from then on. Closing twice is fine."""
    def create_collection(
        self,
        name: str,
        fields: Sequence[Field | dict[str, Any]],
        *,
        dynamic: bool = False,
        description: str = "",
        partitions: int | None = None,
        shards: int = 1,
        consistency: Literal["strong", "session", "bounded", "eventually", "customized"] = "bounded",
        properties: dict[str, str] | None = None,
        database: str = "default",
    ) -> Collection:
        """Creates a collection; one that exists and is the same in all that is given is fine.

        Parameters
        ----------
        fields: one primary key and at least one vector among them.
        dynamic: rows may have names that no field has.
        partitions: where a field is the partition key; 16 by default.
        shards, consistency, properties: kept for whoever asks.

        Raises
        ------
        ExistsError: another collection or an alias has the name.
        InputError: a field that breaks a rule; `field` names it.
        """
    def collection(self, name: str, *, database: str = "default") -> Collection:
        """The collection of this name or alias; NotFoundError where there is none."""
    def collections(self, *, database: str = "default") -> list[str]:
        """Names of the collections of a database."""
    def has_collection(self, name: str, *, database: str = "default") -> bool:
        """Whether `collection` would find it."""
    def drop_collection(self, name: str, *, database: str = "default") -> None:
        """Drops a collection with its rows; one that has aliases is refused."""
    def rename_collection(
        self, name: str, to: str, *, database: str = "default", to_database: str | None = None
    ) -> None:
        """Renames a collection, or moves it to another database."""
    def create_alias(self, alias: str, collection: str, *, database: str = "default") -> None:
        """Gives a collection another name."""
    def alter_alias(self, alias: str, collection: str, *, database: str = "default") -> None:
        """Points an alias to another collection."""
    def drop_alias(self, alias: str, *, database: str = "default") -> None:
        """Drops an alias."""
    def aliases(self, *, database: str = "default") -> dict[str, str]:
        """The aliases of a database, with the names of their collections."""
    def create_database(self, name: str, *, properties: dict[str, str] | None = None) -> None:
        """Creates a database beside the default one, in the same directory."""
    def drop_database(self, name: str) -> None:
        """Drops an empty database."""
    def databases(self) -> dict[str, dict[str, str]]:
        """Names of all databases, with their properties."""
    def __enter__(self) -> Database: ...
    def __exit__(self, *_exception: object) -> None: ...

class Collection:
    """A collection of an open database. Threads may share it. After the database was closed or
    the collection dropped, everything raises ClosedError."""
    @property
    def name(self) -> str:
        """Its name now."""
    def insert(self, data: Batch, *, partition: str | None = None) -> Any:
        """Adds rows, all or none, and returns their keys: an int64 array or a list of str. Keys may
        be there already; each row stays one of its own.

        Raises
        ------
        InputError: `field` and `row` tell where; nothing was changed.
        StopError: a failed write; the collection accepts no more until it is opened again.
        """
    def upsert(self, data: Batch, *, partition: str | None = None) -> Any:
        """Adds rows in the place of all that have their keys, all or none. A key that comes twice
        is an InputError."""
    def delete(
        self,
        keys: Keys | None = None,
        *,
        filter: str | None = None,
        filter_params: Mapping[str, Any] | None = None,
        partitions: Sequence[str] | None = None,
    ) -> int:
        """Deletes all rows that have one of these keys, or that match a filter, and returns how
        many. A blank filter is refused; "true" means every row."""
    def get(
        self, keys: Keys, fields: Sequence[str] | None = None, *, columns: bool = False
    ) -> Any:
        """The newest row of each key, in the order of the keys; keys that no row has are passed
        over.

        Parameters
        ----------
        fields: to be read beside the primary key; all where None.
        columns: a dict of columns instead of a list of dicts: arrays for numbers without None,
            matrices for dense vectors, else lists.
        """
    def query(
        self,
        fields: Sequence[str] | None = None,
        *,
        filter: str | None = None,
        filter_params: Mapping[str, Any] | None = None,
        partitions: Sequence[str] | None = None,
        start: int = 0,
        stop: int | None = None,
        offset: int = 0,
        limit: int | None = None,
        order: Literal["row_id", "key"] = "row_id",
        columns: bool = False,
    ) -> Any:
        """The rows that match, of those with ids from `start` to before `stop`.

        Parameters
        ----------
        fields, columns: as in `get`.
        filter: an expression, as docs/filter-language.md describes them: `price < 80 and color ==
            "red"`.
        filter_params: values for `{name}` in it: bools, numbers, texts, aware datetimes, lists.
        offset, limit: how many rows are passed over first, and the most that come.
        order: by row id, which is that of insertion, or by primary key.

        Raises
        ------
        InputError: a filter that does not fit the fields; the message marks the place.
        """
    def count(
        self,
        *,
        partition: str | None = None,
        filter: str | None = None,
        filter_params: Mapping[str, Any] | None = None,
    ) -> int:
        """How many rows live, of those that match a filter. Exact."""
    def explain(
        self,
        filter: str,
        *,
        filter_params: Mapping[str, Any] | None = None,
        partitions: Sequence[str] | None = None,
        field: str | None = None,
        queries: Vectors | Sequence[Any] | None = None,
        k: int = 10,
        metric: str | None = None,
        list_length: int | None = None,
    ) -> dict[str, Any]:
        """Runs a filter and tells how: expression (with all brackets), rows (that live), estimate
        (least, guess and most rows that match), source ("indexes", "keys", "scan" or "constant"),
        conditions (field, operation, negated, answered_by, estimate), certain (rows that needed no
        look), rows_read, matches, and searches (for each vector field: linked rows that match, rows
        compared exactly, and walk: "list", "graph" or "none"). With a vector field and queries it
        searches too, and costs tells what that took in all: how often a graph was walked, the rows
        that match were ranked by their codes, a walk was changed to that, and rows were compared
        one by one; pages read and resident, and distances. docs/filter-language.md says how to
        read it."""
    def search(
        self,
        field: str,
        queries: Vectors | Sequence[Any],
        k: int = 10,
        *,
        filter: str | None = None,
        filter_params: Mapping[str, Any] | None = None,
        metric: Metric | None = None,
        list_length: int | None = None,
        partitions: Sequence[str] | None = None,
        fields: Sequence[str] = (),
    ) -> list[Hits]:
        """The nearest rows of each query, of those that match a filter.

        Parameters
        ----------
        queries: shape (n, dim) or (dim,), of the field's dtype; or a list of vectors.
        filter, filter_params: as in `query`.
        metric: that of the field's index where None.
        list_length: candidate list (L) in a graph: longer finds more and reads more. Twice `k`, and
            64 at least, where None.
        fields: to be read of each row.

        Raises
        ------
        NotLoadedError: the collection, or a partition asked for, is not loaded.
        InputError: wrong dimension or dtype, NaN, no metric; `row` is the query's position.
        """
    def bulk_load(
        self,
        source: Source | Mapping[str, Any] | str | os.PathLike[str],
        *,
        name: str | None = None,
        partition: str | None = None,
        batch_bytes: int | None = None,
        build_indexes: bool = True,
        progress: Callable[[LoadProgress], object] | None = None,
    ) -> LoadReport:
        """Loads a source from front to back, in large batches, each of which is on stable storage
        before the next is read, whatever the level. Interrupted in any way and begun again, it
        goes on behind the last of them; no row comes twice. Loaded to its end, repeating it adds
        nothing. Rows are visible batch by batch.

        Parameters
        ----------
        source: columns, a table of Arrow, a file of Parquet or Arrow, `pipeann.bulk.vectors(path,
            field)`, `pipeann.bulk.hdf5(path, columns)`, or anything else that pipeann.bulk calls a
            source.
        name: by which a load is continued; where None, made of the source's content and the
            partition.
        batch_bytes: of log for each batch; 8 MiB, at most 48. Five times that in memory.
        build_indexes: build the declared indexes when all rows are there, and wait for them.
        progress: is called after each batch. An exception of it ends the load, as Ctrl-C does.

        Raises
        ------
        InputError: `field` and `row` tell where in the source. Rows before that batch stay, and
            the load can be begun again when the source is mended; another source under the same
            name is refused.
        """
    def estimate_load(self, rows: int | None) -> LoadEstimate:
        """What a bulk load of so many rows takes: time, memory, disk. Rough."""
    def loads(self) -> list[tuple[str, int, bool]]:
        """Bulk loads that are remembered: name, rows, whether it came to its end."""
    def forget_load(self, name: str) -> bool:
        """Forgets a load, so that it can be made again; its rows stay. Whether there was one."""
    def flush(self) -> None:
        """Puts all parts on stable storage and cuts the log."""
    def stats(self) -> dict[str, Any]:
        """rows, next_row, visible and flushed (log records), vectors by field, stopped (why no
        write is accepted, or None)."""
    def verify(self) -> list[tuple[str, str]]:
        """Reads everything; what is wrong, by part. Writers wait meanwhile."""
    def describe(self) -> dict[str, Any]:
        """What the catalogue says: fields, partitions, indexes, aliases, properties."""
    def json_fields(self) -> list[str]:
        """Names of the fields of JSON; the dynamic field is among them."""
    def add_field(self, field: Field | dict[str, Any]) -> None:
        """Adds a field, which is nullable or has a default."""
    def alter_properties(
        self, *, set: dict[str, str] | None = None, remove: Sequence[str] | None = None
    ) -> None:
        """Changes the properties that are kept with it. `collection.ttl.seconds` says how long rows
        live; all others change nothing."""
    def create_partition(self, partition: str) -> None:
        """Creates a partition; one that exists is fine."""
    def drop_partition(self, partition: str) -> None:
        """Drops a partition that is not loaded, with its rows."""
    def load(self, partitions: Sequence[str] | None = None) -> None:
        """Makes partitions searchable; all, also later ones, where None."""
    def release(self, partitions: Sequence[str] | None = None) -> None:
        """Makes partitions unsearchable; all where None."""
    def create_index(
        self,
        field: str,
        metric: Metric | None = None,
        *,
        kind: str = "AUTOINDEX",
        name: str | None = None,
        parameters: dict[str, str] | None = None,
    ) -> None:
        """Declares an index; one that exists and is the same is fine. A vector needs a metric."""
    def build_index(self, index: str) -> None:
        """Has an index built, or built anew, from all rows, and returns at once. Searches and
        writes go on; until a first graph is there, searches are exact."""
    def index_status(self, index: str) -> IndexStatus:
        """How far an index is."""
    def wait_for_index(self, index: str) -> IndexStatus:
        """Waits until no build is under way and no row waits to enter the graph, or until either
        has failed. Ctrl-C ends the waiting, not the build."""
    def drop_index(self, index: str) -> None:
        """Drops an index by its name, that of its field unless it was given another."""

class MilvusDoor:
    """The service of Milvus over an open database, for `pipeann.milvus`. Answers are tuples, which
    begin with 0; refusals are tuples of an earlier code, which is not 0, the code and the reason."""
    def __init__(self, database: Database) -> None: ...
    def listen(self, path: str | os.PathLike[str]) -> None:
        """Serves gRPC on a socket in the file system too."""
    def stop(self) -> None:
        """Takes no more calls, and waits for those that came through the socket. Comes before the
        database is closed."""
    def primary_key(self, database: str, collection: str) -> tuple[str, bool]:
        """Name of a collection's primary key, and whether it is a text."""
    def search(
        self,
        database: str,
        collection: str,
        queries: npt.NDArray[np.float32],
        expression: str,
        output: Sequence[str],
        partitions: Sequence[str],
        parameters: Sequence[tuple[str, str]],
    ) -> tuple[Any, ...]:
        """0, the name of the key, for each query (keys, distances, entities), and a timestamp."""
    def hybrid_search(
        self,
        database: str,
        collection: str,
        searches: Sequence[tuple[npt.NDArray[np.float32], str, Sequence[tuple[str, str]]]],
        output: Sequence[str],
        partitions: Sequence[str],
        ranking: Sequence[tuple[str, str]],
    ) -> tuple[Any, ...]:
        """Several searches of queries, expression and parameters, ranked as one. As `search`."""
    def query(
        self,
        database: str,
        collection: str,
        expression: str,
        output: Sequence[str],
        partitions: Sequence[str],
        parameters: Sequence[tuple[str, str]],
    ) -> tuple[Any, ...]:
        """0, rows as dicts, and a timestamp."""

class ClusterClient:
    """A client of a cluster; `pipeann.cluster.Client` tells what it does."""
    @staticmethod
    def open(
        topology: str,
        certificates: Sequence[str] | None,
        timeout: float,
        connect_timeout: float,
        all_servers: bool,
    ) -> ClusterClient: ...
    def search(
        self,
        queries: npt.NDArray[Any],
        k: int,
        list_length: int,
        mode: str,
        width: int | None,
        ahead: int | None,
        filter: str,
        within: tuple[float | None, float | None] | None,
        partial: bool,
        in_flight: int,
        timeout: float | None,
    ) -> tuple[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]], Any]: ...
    def missing(self) -> list[int]: ...
    def close(self) -> None: ...

def serve(arguments: Sequence[str]) -> None:
    """Becomes the server with these arguments, the name of the program first, until it is
    interrupted. Wrong arguments end the process."""
