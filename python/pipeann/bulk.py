"""Sources of bulk loads: arrays in memory or mapped, files of vectors, HDF5, Arrow and Parquet.

A source has `rows` (their number, or None), `identity` (an integer below 2**128 that is the same
for the same rows and differs for others), `seek(row)`, and `next(most)`, which returns a dict of
columns, or None at the end. Anything with these can be loaded.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pipeann.errors import InputError

__all__ = ["Arrays", "Arrow", "Parquet", "Source", "hdf5", "source_of", "vectors"]

_SAMPLE_ROWS = 64
# numpy's type of what stands in a file, and how many components there are in one of these.
_TYPES = {
    ".fbin": (np.float32, 1),
    ".f16bin": (np.float16, 1),
    ".bf16bin": (np.uint16, 1),
    ".u8bin": (np.uint8, 1),
    ".i8bin": (np.int8, 1),
    ".bbin": (np.uint8, 8),
}
_HEADER_BYTES = 8
# The largest dimension of a field.
_MAX_DIM = 32_768
# Read from both ends of a column's values, to tell one Parquet file from another.
_END_BYTES = 64 << 10


class Source(Protocol):
    """What can be loaded; see the module."""

    @property
    def rows(self) -> int | None: ...
    @property
    def identity(self) -> int: ...
    def seek(self, row: int) -> None: ...
    def next(self, most: int) -> Mapping[str, Any] | None: ...


def _identity(*parts: object) -> int:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return int.from_bytes(digest.digest(), "little")


class Arrays:
    """Columns in memory or mapped (`numpy.load(..., mmap_mode="r")`): arrays or lists of one
    length. They are read in slices, so a mapped file is never held as a whole."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"columns of different lengths: {lengths}")
        self._columns = dict(columns)
        self._at = 0
        self.rows = next(iter(lengths.values()), 0)
        self.identity = _identity("arrays", self.rows, *map(_about, sorted(columns.items())))

    def seek(self, row: int) -> None:
        self._at = row

    def next(self, most: int) -> dict[str, Any] | None:
        some = slice(self._at, min(self._at + most, self.rows))
        if some.start >= some.stop:
            return None
        self._at = some.stop
        return {name: column[some] for name, column in self._columns.items()}


def _about(named: tuple[str, Any]) -> bytes:
    """Name, type, and the first and last rows of a column."""
    name, column = named
    ends = [column[:_SAMPLE_ROWS], column[-_SAMPLE_ROWS:]]
    if all(isinstance(end, np.ndarray) and end.dtype.kind != "O" for end in ends):
        shape = (ends[0].dtype.str, ends[0].shape[1:])
        sample = b"".join(np.ascontiguousarray(end).tobytes() for end in ends)
        return repr((name, shape)).encode() + sample
    return repr((name, ends)).encode()


class _Counted(Sequence[int]):
    """Counted keys, as a column that takes no memory."""

    def __init__(self, first: int, rows: int) -> None:
        self._range = range(first, first + rows)

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            some = self._range[at]
            return np.arange(some.start, some.stop, dtype=np.int64)
        return self._range[at]

    def __repr__(self) -> str:
        return repr(self._range)


def vectors(
    path: str | os.PathLike[str],
    field: str,
    *,
    key: str | None = None,
    first_key: int = 0,
) -> Arrays:
    """A file of vectors as a source: .npy, .fbin (float32), .f16bin, .bf16bin, .u8bin, .i8bin or
    .bbin (bits, eight in a byte), mapped.

    Parameters
    ----------
    field: the vector field.
    key: the int64 primary key, which counts from `first_key`; None where it is automatic.

    Raises
    ------
    InputError: an extension that is none of these, or a file whose length is not what its header
        says.
    OSError: the file cannot be read.
    """
    array = mapped(Path(path))
    columns: dict[str, Any] = {field: array}
    if key is not None:
        columns[key] = _Counted(first_key, len(array))
    return Arrays(columns)


def mapped(path: Path) -> np.ndarray:
    """A file of vectors that lie back to back, mapped; refused as `vectors` does."""
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r", allow_pickle=False)
    if path.suffix in _TYPES:
        return _bin(path, *_TYPES[path.suffix])
    raise InputError(
        f"{path}: the extension names no file of vectors; known are .npy, {', '.join(_TYPES)}"
    )


def _bin(path: Path, kind: type[np.generic], packed: int) -> np.ndarray:
    dtype = np.dtype(kind)
    header = np.fromfile(path, "<u4", 2)
    found = path.stat().st_size
    rows, dim = (int(word) for word in header) if len(header) == 2 else (0, 0)
    if dim > _MAX_DIM:
        raise InputError(
            f"{path}: the header tells of vectors of {dim} components; a field has {_MAX_DIM} "
            "at most"
        )
    entries = dim // packed
    announced = _HEADER_BYTES + rows * entries * dtype.itemsize
    if rows * dim == 0 or dim % packed or found != announced:
        raise InputError(
            f"{path}: the header tells of {rows} rows of {dim} {dtype} components, the file has "
            f"{found} bytes"
        )
    return np.memmap(path, dtype.newbyteorder("<"), "r", _HEADER_BYTES, (rows, entries))


def hdf5(
    path: str | os.PathLike[str],
    columns: Mapping[str, str],
    *,
    key: str | None = None,
    first_key: int = 0,
) -> Arrays:
    """Datasets of an HDF5 file as a source; needs h5py. Components of
    float64 become float32.

    Parameters
    ----------
    columns: names of fields by names of datasets: `{"train": "vector"}`.
    key: the int64 primary key, which counts from `first_key`; None where it is automatic or a
        dataset.

    Raises
    ------
    InputError: a dataset that the file lacks, or datasets of different lengths.
    ImportError: h5py is missing.
    """
    from pipeann.sources import dataset_of

    found: dict[str, Any] = {}
    for name, field in columns.items():
        dataset = dataset_of(path, name)
        dtype = dataset.dtype.newbyteorder("=")
        if dataset.ndim == 2 and dtype == np.float64:
            dtype = np.dtype(np.float32)
        found[field] = dataset if dtype == dataset.dtype else dataset.astype(dtype)
    if key is not None and found:
        found[key] = _Counted(first_key, len(next(iter(found.values()))))
    return Arrays(found)


class _Batches:
    """Batches of Arrow, handed out as columns by the names of fields."""

    rows: int

    def __init__(self, names: Mapping[str, str], doubles_as_floats: bool) -> None:
        self._names = dict(names)
        self._doubles_as_floats = doubles_as_floats

    def _read(self, row: int) -> Any:
        """Batches from `row` on."""
        raise NotImplementedError

    def seek(self, row: int) -> None:
        self._at = row
        self._batches = self._read(row)
        self._rest: Any = None

    def next(self, most: int) -> dict[str, Any] | None:
        batch = self._rest if self._rest is not None else next(self._batches, None)
        if batch is None:
            return None
        # One batch as it was read, or a part of it: small batches would cost a sync each.
        parts, rows = [], 0
        while batch is not None and rows < most:
            parts.append(batch.slice(0, most - rows))
            rows += parts[-1].num_rows
            rest = batch.slice(parts[-1].num_rows)
            batch = rest if rest.num_rows else next(self._batches, None)
        self._rest = batch
        self._at += rows
        return {
            field: self._column([part.column(name) for part in parts])
            for name, field in self._names.items()
        }

    def _column(self, parts: list[Any]) -> Any:
        column = _column(parts)
        is_matrix = isinstance(column, np.ndarray) and column.ndim == 2
        if self._doubles_as_floats and is_matrix and column.dtype == np.float64:
            return column.astype(np.float32)
        return column


class Arrow(_Batches):
    """A table of Arrow as a source: of pyarrow, of anything else with `__arrow_c_stream__`, or in a
    file (.arrow, .feather); needs pyarrow. Types as in `Parquet`.

    Parameters
    ----------
    table: the table, or the path of the file.
    columns: names of fields by names of columns, as in `Parquet`.

    Raises
    ------
    InputError: a column that is not there.
    ImportError: pyarrow is missing.
    """

    def __init__(
        self,
        table: Any,
        columns: Mapping[str, str] | None = None,
        *,
        doubles_as_floats: bool = False,
    ) -> None:
        from pipeann.sources import table_of

        self._table = table_of(table)
        names = list(self._table.schema.names)
        super().__init__(columns or {n: n for n in names}, doubles_as_floats)
        missing = [name for name in self._names if names.count(name) != 1]
        if missing:
            raise InputError(f"the table: no column {', '.join(map(repr, missing))}")
        self.rows = self._table.num_rows
        some = self._table.select(list(self._names))
        ends = [some.slice(0, _SAMPLE_ROWS), some.slice(max(0, self.rows - _SAMPLE_ROWS))]
        about = (str(some.schema), self.rows, sorted(self._names.items()))
        self.identity = _identity("arrow", about, repr([end.to_pylist() for end in ends]).encode())
        self.seek(0)

    def _read(self, row: int) -> Any:
        yield from self._table.slice(row).to_batches(8192)


class Parquet(_Batches):
    """Parquet files as one source, read group by group; needs pyarrow.

    They are known by sizes, bounds, and the first and last bytes of their columns: files that are
    written anew with other settings, as another compression, are another source.

    Lists become vectors or arrays, as the field asks; JSON fields take structs and maps, or binary
    columns of text that is JSON. A column of text is one of JSON strings.

    Parameters
    ----------
    paths: a file, or files in order.
    columns: names of fields by names of columns, of those columns that are to be read; all under
        their own names where None.

    Raises
    ------
    InputError: a column that a file lacks, or files of different schemas.
    ImportError: pyarrow is missing.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        columns: Mapping[str, str] | None = None,
        *,
        doubles_as_floats: bool = False,
    ) -> None:
        try:
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise ImportError("Parquet needs pyarrow: pip install pyarrow") from error
        if isinstance(paths, (str, os.PathLike)):
            paths = [paths]
        if not paths:
            raise InputError("no Parquet files were given")
        self._files = [parquet.ParquetFile(path, memory_map=True) for path in paths]
        first = self._files[0].schema_arrow
        names = columns if columns is not None else {n: n for n in first.names}
        super().__init__(names, doubles_as_floats)
        for path, file in zip(paths, self._files):
            missing = [name for name in self._names if name not in file.schema_arrow.names]
            if missing:
                raise InputError(f"{path}: no column {', '.join(map(repr, missing))}")
            for name in self._names:
                here, there = file.schema_arrow.field(name).type, first.field(name).type
                if here != there:
                    raise InputError(
                        f"{path}: column {name!r} is of type {here}, and of {there} in {paths[0]}"
                    )
        self.rows = sum(file.metadata.num_rows for file in self._files)
        self._tops = {name.split(".")[0] for name in self._names}
        about = [self._about(path, file) for path, file in zip(paths, self._files)]
        self.identity = _identity("parquet", sorted(self._names.items()), *about)
        self.seek(0)

    def _about(self, path: str | os.PathLike[str], file: Any) -> list[object]:
        """What tells a file from another without reading it: of each group the sizes and bounds of
        its columns, which stand in the footer, and of the first and last group their ends."""
        every = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        groups: list[Any] = [group for group in every if group.num_rows]
        about: list[object] = [str(file.schema_arrow), file.metadata.num_rows]
        for group in groups:
            about.append([group.num_rows, *map(_chunk, self._chunks(group))])
        # Nothing but the footer of what pyarrow finds by a URL.
        if groups and os.path.isfile(path):
            with open(path, "rb") as raw:
                for group in (groups[0], groups[-1]):
                    about += [_ends(raw, chunk) for chunk in self._chunks(group)]
        return about

    def _chunks(self, group: Any) -> list[Any]:
        """The parts of the columns that are read, in a group."""
        chunks = [group.column(i) for i in range(group.num_columns)]
        return [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in self._tops]

    def _read(self, row: int) -> Any:
        """Batches from `row` on; groups of rows before it are not read."""
        for file in self._files:
            groups = []
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if groups or row < rows:
                    groups.append(group)
                else:
                    row -= rows
            if not groups:
                continue
            for batch in file.iter_batches(8192, row_groups=groups, columns=list(self._names)):
                if row < batch.num_rows:
                    yield batch.slice(row)
                row = max(0, row - batch.num_rows)


def _chunk(chunk: Any) -> object:
    """Size and bounds of a column in a group."""
    size, known = (chunk.total_compressed_size, chunk.total_uncompressed_size), chunk.statistics
    if known is None or not known.has_min_max:
        return size
    return (*size, known.min_raw, known.max_raw, known.null_count)


def _ends(raw: Any, chunk: Any) -> bytes:
    """The first and last bytes of a column in a group, and of its dictionary before it."""
    values, dictionary = chunk.data_page_offset, chunk.dictionary_page_offset
    start = values if dictionary is None else min(dictionary, values)
    ends = b""
    for begin, end in [(start, values), (values, start + chunk.total_compressed_size)]:
        size = max(0, min(_END_BYTES, end - begin))
        for at in (begin, end - size):
            raw.seek(at)
            ends += raw.read(size)
    return ends


def _column(parts: list[Any]) -> Any:
    """An arrow column as an array where that is the same, else as a list with None for null."""
    import pyarrow as pa

    column = pa.concat_arrays(parts) if len(parts) > 1 else parts[0]
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if (is_list or pa.types.is_fixed_size_list(kind)) and column.null_count == 0:
        matrix = _matrix(column)
        if matrix is not None:
            return matrix
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if is_number and column.null_count == 0:
        return column.to_numpy(zero_copy_only=False)
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            raise InputError(f"a column of {kind} has no zone")
        column = column.cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64())
        return column.to_pylist()
    return column.to_pylist()


def _matrix(column: Any) -> np.ndarray | None:
    """Lists of one length as a matrix, without a Python object for each number."""
    import pyarrow as pa

    values = column.flatten()
    number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    if not number or values.null_count or not len(column) or len(values) % len(column):
        return None
    dim = len(values) // len(column)
    if not pa.types.is_fixed_size_list(column.type):
        lengths = column.value_lengths()
        if lengths.to_numpy(zero_copy_only=False).max() != dim:
            return None
    return values.to_numpy(zero_copy_only=False).reshape(len(column), dim) if dim else None


def source_of(given: Any) -> Source:
    """The source that is meant: itself, a dict of columns, a table of Arrow, or the path of a file
    of Parquet or Arrow."""
    if all(hasattr(given, name) for name in ("rows", "identity", "seek", "next")):
        return given
    if isinstance(given, Mapping):
        return Arrays(given)
    if hasattr(given, "__arrow_c_stream__"):
        return Arrow(given)
    if isinstance(given, (str, os.PathLike)):
        if Path(given).suffix == ".parquet":
            return Parquet(given)
        if Path(given).suffix in (".arrow", ".feather"):
            return Arrow(given)
        raise InputError(
            f"{given}: for a file of vectors say which field it is for: "
            "pipeann.bulk.vectors(path, field)"
        )
    raise InputError(f"{type(given).__name__} is no source; see pipeann.bulk")
