"""What an index can be built of beside arrays, and how what is wrong in it is refused."""

import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest

from pipeann import Collection, Database, Field, Index, bulk, errors

ROWS, DIM = 4_000, 8


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 255, (ROWS, DIM)).astype(np.uint8)


def lists(vectors: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])


def table(vectors: np.ndarray) -> pa.Table:
    return pa.table({"id": np.arange(len(vectors)), "v": lists(vectors)})


def check(index: Index, vectors: np.ndarray) -> None:
    assert (len(index), index.dim, index.dtype) == (*vectors.shape, str(vectors.dtype))
    some = vectors[:: len(vectors) // 20]
    ids, distances = index.search(np.ascontiguousarray(some), 1, list_length=64)
    assert (distances == 0).all()
    assert (vectors[ids[:, 0]] == some).all()


def build(path: Path, given: Any, **options: Any) -> Index:
    return Index.build(path, given, degree=16, list_length=24, **options)


def files(directory: Path, vectors: np.ndarray) -> list[tuple[Path, dict[str, str]]]:
    """A file of each kind, and what has to be said of it."""
    header = np.array(vectors.shape, "<u4").tobytes()
    (directory / "v.u8bin").write_bytes(header + vectors.tobytes())
    np.save(directory / "v.npy", vectors)
    rows = table(vectors)
    pa.parquet.write_table(rows, directory / "v.parquet", row_group_size=700)
    pa.feather.write_feather(rows, str(directory / "v.feather"), chunksize=700)
    with pa.ipc.new_stream(directory / "v.arrow", rows.schema) as stream:
        stream.write_table(rows, max_chunksize=700)
    with h5py.File(directory / "v.hdf5", "w") as file:
        file.create_dataset("train", data=vectors, chunks=(500, DIM), compression="gzip")
        file.create_dataset("test", data=vectors[:10])
    column, dataset = {"column": "v"}, {"dataset": "train"}
    return [
        (directory / "v.u8bin", {}),
        (directory / "v.npy", {}),
        (directory / "v.parquet", column),
        (directory / "v.feather", column),
        (directory / "v.arrow", column),
        (directory / "v.hdf5", dataset),
    ]


def test_files_of_every_kind_are_built(tmp_path: Path, vectors: np.ndarray) -> None:
    for path, named in files(tmp_path, vectors):
        index = build(tmp_path / "i", path, **named, overwrite=True)
        check(index, vectors)
        index = build(tmp_path / "i", str(path), **named, overwrite=True, memory=80 << 20)
        check(index, vectors)
    assert not [p.name for p in tmp_path.iterdir() if "i." in p.name], "nothing else is left"


def test_objects_of_arrow_and_h5py_are_built(tmp_path: Path, vectors: np.ndarray) -> None:
    rows = table(vectors)

    class Exchanged:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return rows.__arrow_c_stream__(requested_schema)

    given: list[tuple[Any, dict[str, str]]] = [
        (rows, {"column": "v"}),
        (rows.select(["v"]), {}),
        (rows.combine_chunks().to_batches()[0], {"column": "v"}),
        (rows.column("v"), {}),
        (lists(vectors), {}),
        (pa.chunked_array([lists(vectors[:7]), lists(vectors[:0]), lists(vectors[7:])]), {}),
        (pa.array(vectors.tolist(), pa.large_list(pa.uint8())), {}),
        (Exchanged(), {"column": "v"}),
    ]
    for what, named in given:
        check(build(tmp_path / "i", what, **named, overwrite=True), vectors)
    with h5py.File(tmp_path / "v.h5", "w") as file:
        dataset = file.create_dataset("only", data=vectors)
        check(build(tmp_path / "i", dataset, overwrite=True), vectors)
    check(build(tmp_path / "i", tmp_path / "v.h5", overwrite=True), vectors)


def test_doubles_become_floats_and_types_are_kept(tmp_path: Path, vectors: np.ndarray) -> None:
    doubles = vectors[:300].astype(np.float64)
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["v"] = doubles.astype(">f8")
    for what in (pa.array(doubles.tolist()), tmp_path / "v.h5"):
        index = build(tmp_path / "i", what, overwrite=True)
        check(index, doubles.astype(np.float32))
    for dtype in (np.float16, np.float32, np.int8):
        narrow = (vectors[:300] // 2).astype(dtype)
        check(build(tmp_path / "i", lists(narrow), overwrite=True), narrow)


def nested(rows: list[Any]) -> pa.Array:
    return pa.array(rows, pa.list_(pa.float32()))


@pytest.mark.parametrize(
    ("column", "row", "message"),
    [
        (nested([[1, 2], [3, 4], [5]]), 2, "1 components, those before it 2"),
        (nested([[1, 2], None, [5, 6]]), 1, "it is null"),
        (nested([[1, 2], [3, None], [5, 6]]), 1, "component that is null"),
        (nested([[], [], []]), 0, "no components"),
        (pa.chunked_array([nested([[1, 2]]), nested([[1, 2], [1, 2, 3]])]), 2, "3 components"),
        (pa.array([[1, 2], None], pa.list_(pa.float32(), 2)), 1, "it is null"),
    ],
)
def test_wrong_rows_are_named(tmp_path: Path, column: Any, row: int, message: str) -> None:
    rows = pa.table({"v": column, "w": np.arange(len(column))})
    pa.parquet.write_table(rows, tmp_path / "v.parquet")
    for given in (rows, tmp_path / "v.parquet"):
        for memory in (None, 80 << 20):
            with pytest.raises(errors.InputError, match=message) as refused:
                Index.build(tmp_path / "i", given, column="v", memory=memory)
            assert refused.value.row == row and f"row {row}" in str(refused.value)
            assert "'v'" in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["v.parquet"]


def test_wrong_columns_and_types_are_named(tmp_path: Path, vectors: np.ndarray) -> None:
    def refused(error: type[Exception], message: str, given: Any, **named: str) -> None:
        with pytest.raises(error, match=message):
            Index.build(tmp_path / "i", given, **named)

    rows = table(vectors[:10])
    refused(errors.InputError, "say which with column=; there are id, v", rows)
    refused(errors.InputError, "no column 'w'; there are id, v", rows, column="w")
    refused(TypeError, "'id' is of type int64, not lists", rows, column="id")
    refused(TypeError, "'v' holds int64", pa.table({"v": [[1, 2]]}))
    refused(TypeError, "of type list<.*string", pa.table({"v": [["a", "b"]]}))
    refused(TypeError, "expected a numpy array", [[1.0, 2.0]])
    refused(errors.InputError, "no file of vectors", tmp_path / "v.csv")
    refused(FileNotFoundError, "none.parquet", tmp_path / "none.parquet", column="v")
    (tmp_path / "v.arrow").write_bytes(b"something else")
    refused(errors.InputError, "neither a file nor a stream", tmp_path / "v.arrow")
    path = tmp_path / "v.h5"
    with h5py.File(path, "w") as file:
        file["train"], file["one"] = vectors, vectors[0]
        file["texts"] = np.array([[b"a"]])
    refused(errors.InputError, "say which with dataset=; there are one, texts, train", path)
    refused(errors.InputError, "no dataset 'other'", path, dataset="other")
    refused(errors.InputError, "not .rows, dimension", path, dataset="one")
    refused(TypeError, "holds .S1", path, dataset="texts")
    empty = pa.table({"v": pa.array([], pa.list_(pa.float32(), 4))})
    refused(ValueError, "no vectors", empty)
    assert not (tmp_path / "i").exists()


@pytest.mark.parametrize(
    ("package", "name"),
    [("pyarrow", "v.parquet"), ("pyarrow", "v.feather"), ("h5py", "v.h5")],
)
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {package}$"):
        Index.build(tmp_path / "i", tmp_path / name)


def test_a_limit_too_small_is_refused_by_number(tmp_path: Path, vectors: np.ndarray) -> None:
    with pytest.raises(MemoryError, match="needs"):
        Index.build(tmp_path / "i", vectors, memory=1 << 20)
    mapped = np.memmap(tmp_path / "v", np.uint8, "w+", shape=vectors.shape)
    mapped[:] = vectors
    check(build(tmp_path / "i", mapped, memory=80 << 20), vectors)


@pytest.fixture
def collection(tmp_path: Path) -> Any:
    fields = [
        Field("id", "int64", primary_key=True),
        Field("v", "float_vector", dim=DIM),
    ]
    with Database.open(tmp_path / "db") as database:
        yield database.create_collection("c", fields)


def loaded(collection: Collection, source: Any, vectors: np.ndarray) -> None:
    report = collection.bulk_load(source, name="again", batch_bytes=16 << 10)
    assert report.rows == len(vectors)
    found = collection.query(columns=True)
    np.testing.assert_array_equal(found["v"], vectors)
    collection.delete(filter="true")
    collection.forget_load("again")


def test_collections_are_loaded_of_arrow_and_hdf5(
    tmp_path: Path, vectors: np.ndarray, collection: Collection
) -> None:
    floats = vectors.astype(np.float32)
    rows = table(floats)
    pa.feather.write_feather(rows, str(tmp_path / "v.feather"), chunksize=700)
    doubles = tmp_path / "v.h5"
    with h5py.File(doubles, "w") as file:
        file["train"] = vectors.astype(">f8")
    loaded(collection, rows, floats)
    loaded(collection, tmp_path / "v.feather", floats)
    renamed = rows.rename_columns(["key", "vector"])
    loaded(collection, bulk.Arrow(renamed, {"key": "id", "vector": "v"}), floats)
    loaded(collection, bulk.hdf5(doubles, {"train": "v"}, key="id"), floats)
    with pytest.raises(errors.InputError, match="no column 'w'"):
        bulk.Arrow(rows, {"w": "v"})
    with pytest.raises(errors.InputError, match="no dataset 'w'"):
        bulk.hdf5(doubles, {"w": "v"})


def disk_index(vectors: np.ndarray, degree: int) -> bytes:
    """A ring with chords, as DiskANN lays out an index."""
    rows, dim = vectors.shape
    node = dim * vectors.itemsize + 4 * (degree + 1)
    in_sector = 4096 // node
    sectors = -(-rows // in_sector)
    numbers = [rows, dim, 0, node, in_sector, 0, 0, 0, 4096 * (1 + sectors)]
    head = np.array([9, 1], "<u4").tobytes() + np.array(numbers, "<u8").tobytes()
    out = np.zeros((1 + sectors, 4096), np.uint8)
    out[0, : len(head)] = np.frombuffer(head, np.uint8)
    steps = 1 + np.arange(degree) ** 3
    for i in range(rows):
        list_ = np.concatenate([[degree], (i + steps) % rows]).astype("<u4")
        bytes_ = vectors[i].tobytes() + list_.tobytes()
        at = i % in_sector * node
        out[1 + i // in_sector, at : at + node] = np.frombuffer(bytes_, np.uint8)
    return out.tobytes()


def test_an_index_of_diskann_is_imported(tmp_path: Path, vectors: np.ndarray) -> None:
    small = vectors[:500]
    image = disk_index(small, 12)
    path = tmp_path / "ann_disk.index"
    path.write_bytes(image)
    with pytest.raises(ValueError, match="vector type"):
        Index.import_diskann(tmp_path / "i", tmp_path / "ann", metric="l2")
    index = Index.import_diskann(tmp_path / "i", tmp_path / "ann", metric="l2", dtype="uint8")
    check(index, small)
    assert index.metric == "l2"
    with pytest.raises(FileExistsError):
        Index.import_diskann(tmp_path / "i", tmp_path / "ann", metric="l2", dtype="uint8")
    path.write_bytes(image[:-1])
    with pytest.raises(ValueError, match=r"ann_disk.index.*cut off"):
        Index.import_diskann(tmp_path / "j", tmp_path / "ann", metric="l2", dtype="uint8")
    assert not (tmp_path / "j").exists()


@pytest.mark.parametrize("backend", ["auto", "io_uring", "libaio", "threads"])
def test_backends_are_chosen_by_name(tmp_path: Path, vectors: np.ndarray, backend: str) -> None:
    build(tmp_path / "i", vectors[:500])
    check(Index.open(tmp_path / "i", direct=False, backend=backend), vectors[:500])
    with pytest.raises(ValueError, match="io_uring"):
        Index.open(tmp_path / "i", backend="nvme")
