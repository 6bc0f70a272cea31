"""Vectors that an index is built of: whatever holds them, as matrices of numpy piece by piece.

pyarrow and h5py are imported where something is given that needs them.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from pipeann.errors import InputError

__all__ = ["Rows", "dataset_of", "rows_of", "table_of"]

# Bytes of a piece, about.
_PIECE_BYTES = 8 << 20
# Files of the Arrow format; feather is another name of it.
_ARROW = (".arrow", ".feather", ".ipc")
_HDF5 = (".h5", ".hdf5")
_BACK_TO_BACK = (".npy", ".fbin", ".f16bin", ".bf16bin", ".u8bin", ".i8bin", ".bbin")
_KINDS = ("float32", "float16", "int8", "uint8")


class Rows:
    """Rows of one width and type, read from front to back as often as wanted.

    Attributes
    ----------
    rows: how many there are.
    """

    def __init__(self, rows: int, pieces: Callable[[], Iterator[np.ndarray]]) -> None:
        self.rows = rows
        self._pieces = pieces

    def __iter__(self) -> Iterator[np.ndarray]:
        """C-contiguous matrices."""
        return self._pieces()


def rows_of(given: Any, column: str | None = None, dataset: str | None = None) -> np.ndarray | Rows:
    """An array as it is, or the rows of what else vectors can come in.

    Parameters
    ----------
    given: an array; a Table, RecordBatch, ChunkedArray or Array of pyarrow, or anything else that
        has `__arrow_c_stream__`; a Dataset of h5py; or the path of a file: .npy, .fbin and its
        kin (which are mapped), .parquet, .arrow or .feather, .h5 or .hdf5.
    column: of a table, where it has several.
    dataset: of an HDF5 file, where it has several.

    Raises
    ------
    InputError: what is no matrix of one type: `row` tells where.
    TypeError: what holds no vectors, or components of another type.
    ImportError: the package that reads it is missing; the message tells its name.
    """
    if isinstance(given, np.ndarray):
        return given
    if isinstance(given, (str, os.PathLike)):
        return _of_path(Path(given), column, dataset)
    module = type(given).__module__.partition(".")[0]
    if module == "h5py":
        return _of_dataset(given, getattr(given, "name", None) or "the dataset")
    if module == "pyarrow" or hasattr(given, "__arrow_c_stream__"):
        return _of_arrow(given, column)
    raise TypeError(
        "expected a numpy array of shape (rows, dimension), columns of Arrow, a dataset of h5py, "
        f"or the path of a file; found {type(given).__name__}"
    )


def _of_path(path: Path, column: str | None, dataset: str | None) -> np.ndarray | Rows:
    suffix = path.suffix
    if suffix in _BACK_TO_BACK:
        from pipeann.bulk import mapped

        return mapped(path)
    if suffix == ".parquet":
        return _of_parquet(path, column)
    if suffix in _ARROW:
        return _of_arrow(table_of(path), column, str(path))
    if suffix in _HDF5:
        return _of_dataset(dataset_of(path, dataset), f"{path}: {dataset or 'the dataset'}")
    known = ", ".join([*_BACK_TO_BACK, ".parquet", *_ARROW, *_HDF5])
    raise InputError(f"{path}: the extension names no file of vectors; known are {known}")


# HDF5


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise ImportError("HDF5 needs h5py: pip install h5py") from error
    return h5py


def dataset_of(path: str | os.PathLike[str], name: str | None) -> Any:
    """The dataset of a name in a file; without a name the only one there is."""
    h5py = _h5py()
    file = h5py.File(path, "r")
    found: list[str] = []
    file.visititems(lambda n, o: found.append(n) if isinstance(o, h5py.Dataset) else None)
    if name is None and len(found) == 1:
        name = found[0]
    if name is None or not isinstance(file.get(name), h5py.Dataset):
        asked = "say which with dataset=" if name is None else f"no dataset {name!r}"
        raise InputError(f"{path}: {asked}; there are {', '.join(found) or 'none'}")
    return file[name]


def _of_dataset(dataset: Any, where: str) -> Rows:
    if len(dataset.shape or ()) != 2:
        raise InputError(f"{where} has shape {dataset.shape}, not (rows, dimension)")
    cast = _cast(dataset.dtype, where)
    rows, dim = dataset.shape
    step = max(1, _PIECE_BYTES // max(1, dim * dataset.dtype.itemsize))

    def pieces() -> Iterator[np.ndarray]:
        for first in range(0, rows, step):
            yield np.ascontiguousarray(dataset[first : first + step], dtype=cast)

    return Rows(rows, pieces)


def _cast(dtype: Any, where: str) -> np.dtype:
    """The type that components are read as: their own, and float32 for float64."""
    native = np.dtype(dtype).newbyteorder("=")
    if native == np.float64:
        return np.dtype(np.float32)
    if native.name not in _KINDS:
        known = f"{', '.join(_KINDS)} or float64"
        raise TypeError(f"{where} holds {np.dtype(dtype)}; vectors are of {known}")
    return native


# Arrow


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("Arrow and Parquet need pyarrow: pip install pyarrow") from error
    return pyarrow


def _of_parquet(path: Path, column: str | None) -> Rows:
    _pyarrow()
    import pyarrow.parquet as parquet

    file = parquet.ParquetFile(path, memory_map=True)
    field = _field(file.schema_arrow, column, str(path))
    about = f"{path}: column {field.name!r}"
    shape = _shape(field.type, about)

    def pieces() -> Iterator[np.ndarray]:
        batches = file.iter_batches(8192, columns=[field.name])
        return _matrices((batch.column(0) for batch in batches), shape, about)

    return Rows(file.metadata.num_rows, pieces)


def table_of(given: Any) -> Any:
    """A table: itself, made of what can be exchanged, or read of a file, which is mapped."""
    if isinstance(given, (str, os.PathLike)):
        return _arrow_file(Path(given))
    pa = _pyarrow()
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    try:
        return pa.table(given)
    except (TypeError, ValueError, pa.ArrowInvalid) as error:
        raise TypeError(f"{type(given).__name__} is no table of Arrow: {error}") from error


def _arrow_file(path: Path) -> Any:
    ipc = _pyarrow().ipc
    file = _pyarrow().memory_map(str(path), "r")
    try:
        return ipc.open_file(file).read_all()
    except _pyarrow().ArrowInvalid:
        file.seek(0)
    try:
        return ipc.open_stream(file).read_all()
    except _pyarrow().ArrowInvalid as error:
        raise InputError(f"{path}: neither a file nor a stream of Arrow: {error}") from error


def _of_arrow(given: Any, column: str | None, where: str = "the table") -> Rows:
    pa = _pyarrow()
    if isinstance(given, (pa.Array, pa.ChunkedArray)):
        about, array = "the column", given
    else:
        table = table_of(given)
        field = _field(table.schema, column, where)
        about, array = f"{where}: column {field.name!r}", table.column(field.name)
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    shape = _shape(array.type, about)
    return Rows(len(array), lambda: _matrices(iter(chunks), shape, about))


def _field(schema: Any, column: str | None, where: str) -> Any:
    names = list(schema.names)
    if column is None and len(names) == 1:
        column = names[0]
    if column is None or names.count(column) != 1:
        asked = "say which with column=" if column is None else f"no column {column!r}"
        raise InputError(f"{where}: {asked}; there are {', '.join(names) or 'none'}")
    return schema.field(column)


class _Shape:
    """What lists of a column become: components, and how many where the type tells."""

    def __init__(self, cast: np.dtype, dim: int | None) -> None:
        self.cast = cast
        self.dim = dim


def _shape(kind: Any, about: str) -> _Shape:
    types = _pyarrow().types
    fixed = types.is_fixed_size_list(kind)
    if not (fixed or types.is_list(kind) or types.is_large_list(kind)):
        raise TypeError(f"{about} is of type {kind}, not lists of numbers")
    value = kind.value_type
    if not (types.is_integer(value) or types.is_floating(value)):
        raise TypeError(f"{about} is of type {kind}, not lists of numbers")
    return _Shape(_cast(value.to_pandas_dtype(), about), kind.list_size if fixed else None)


def _matrices(chunks: Iterator[Any], shape: _Shape, about: str) -> Iterator[np.ndarray]:
    dim, first = shape.dim, 0
    for chunk in chunks:
        if not len(chunk):
            continue
        if chunk.null_count:
            _refuse(about, first, chunk.is_null(), "is null")
        lengths = chunk.value_lengths() if shape.dim is None else None
        if lengths is not None:
            dim = dim if dim is not None else lengths[0].as_py()
            other = np.flatnonzero(lengths.to_numpy(zero_copy_only=False) != dim)
            if len(other):
                at = int(other[0])
                why = f"has {lengths[at].as_py()} components, those before it {dim}"
                _refuse_row(about, first + at, why)
        values = chunk.flatten()
        if not dim:
            _refuse_row(about, first, "has no components")
        if values.null_count:
            nulls = values.is_null().to_numpy(zero_copy_only=False)
            at = int(np.flatnonzero(nulls)[0]) // dim
            _refuse_row(about, first + at, "has a component that is null")
        matrix = values.to_numpy(zero_copy_only=False).reshape(len(chunk), dim)
        yield np.ascontiguousarray(matrix, dtype=shape.cast)
        first += len(chunk)


def _refuse(about: str, first: int, wrong: Any, why: str) -> NoReturn:
    at = int(np.flatnonzero(wrong.to_numpy(zero_copy_only=False))[0])
    _refuse_row(about, first + at, why)


def _refuse_row(about: str, row: int, why: str) -> NoReturn:
    error = InputError(f"{about}, row {row}: it {why}")
    error.row = row
    raise error
