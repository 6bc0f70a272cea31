"""Vectors of every type in `pipeann.Index` and in collections, against numpy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeann import Database, Field, Index, bulk
from pipeann.errors import InputError

ROWS, DIM = 1200, 32


def numbers(rows: int, seed: int) -> np.ndarray:
    """Rows around a few centres, which all seeds share."""
    centres = np.random.default_rng(99).normal(0, 1, (20, DIM))
    rng = np.random.default_rng(seed)
    return centres[rng.integers(0, 20, rows)] + rng.normal(0, 0.5, (rows, DIM))


def narrow(kind: str, values: np.ndarray) -> np.ndarray:
    match kind:
        case "float16_vector":
            return values.astype(np.float16)
        case "bfloat16_vector":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        case "int8_vector":
            return (values * 40).round().clip(-128, 127).astype(np.int8)
    return np.packbits(values > 0, axis=1)


def widened(kind: str, vectors: np.ndarray) -> np.ndarray:
    match kind:
        case "bfloat16_vector":
            return (vectors.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        case "binary_vector":
            return np.unpackbits(vectors, axis=1).astype(np.float64)
    return vectors.astype(np.float64)


def distances(metric: str, base: np.ndarray, queries: np.ndarray) -> np.ndarray:
    common = queries @ base.T
    lengths = (queries**2).sum(1)[:, None] + (base**2).sum(1)[None]
    match metric:
        case "l2" | "hamming":
            return lengths - 2 * common
        case "ip":
            return -common
        case "jaccard":
            return 1 - common / (lengths - common)
    of = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(base, axis=1)[None]
    return 1 - common / of


CASES = [
    (kind, metric)
    for kind in ("float16_vector", "bfloat16_vector", "int8_vector")
    for metric in ("l2", "ip", "cosine")
] + [("binary_vector", "hamming"), ("binary_vector", "jaccard")]


def check(metric: str, expected: np.ndarray, ids: np.ndarray, found: np.ndarray) -> None:
    """Distances are exact, and nearly all of the nearest are found, up to others as near."""
    exact = np.take_along_axis(expected, ids, axis=1)
    np.testing.assert_allclose(found, exact, rtol=1e-3, atol=1e-3)
    kth = np.sort(expected, axis=1)[:, ids.shape[1] - 1 :][:, :1]
    assert (exact <= kth + 1e-6).mean() >= 0.95, metric


@pytest.mark.parametrize(("kind", "metric"), CASES)
def test_an_index_finds_the_neighbours(tmp_path: Path, kind: str, metric: str) -> None:
    base, queries = narrow(kind, numbers(ROWS, 1)), narrow(kind, numbers(30, 2))
    if kind == "bfloat16_vector":
        # As uint16 only where the index says what it is.
        with pytest.raises(TypeError, match="uint16"):
            Index.build(tmp_path / "index", base, metric)
        return
    index = Index.build(tmp_path / "index", base, metric, degree=32, list_length=48)
    assert (index.dim, index.dtype, index.metric) == (DIM, base.dtype.name, metric)
    ids, found = index.search(queries, 10, list_length=80)
    check(metric, distances(metric, widened(kind, base), widened(kind, queries)), ids, found)


@pytest.mark.parametrize(("kind", "metric"), CASES)
def test_a_collection_finds_the_neighbours(tmp_path: Path, kind: str, metric: str) -> None:
    base, queries = narrow(kind, numbers(ROWS, 1)), narrow(kind, numbers(20, 2))
    expected = distances(metric, widened(kind, base), widened(kind, queries))
    with Database.open(tmp_path / "db") as database:
        fields = [Field("id", "int64", primary_key=True), Field("v", kind, dim=DIM)]
        collection = database.create_collection("c", fields)
        collection.load()
        source = bulk.Arrays({"id": np.arange(ROWS), "v": base})
        collection.bulk_load(source)

        def answers() -> tuple[np.ndarray, np.ndarray]:
            hits = collection.search("v", queries, 10, metric=metric)
            keys = np.array([one.keys for one in hits])
            return keys, np.array([one.distances for one in hits])

        check(metric, expected, *answers())
        collection.create_index("v", metric)
        collection.build_index("v")
        collection.wait_for_index("v")
        check(metric, expected, *answers())
        few = collection.search("v", queries, 10, filter="id < 15")
        assert all((np.array(one.keys) < 15).all() and len(one.keys) == 10 for one in few)
        other = "hamming" if metric != "hamming" else "l2"
        with pytest.raises(InputError):
            collection.search("v", queries, 10, metric=other)


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        ("float16_vector", ".f16bin"),
        ("bfloat16_vector", ".bf16bin"),
        ("int8_vector", ".i8bin"),
        ("binary_vector", ".bbin"),
        ("float16_vector", ".npy"),
        ("int8_vector", ".npy"),
        ("binary_vector", ".npy"),
    ],
)
def test_files_are_loaded(tmp_path: Path, kind: str, suffix: str) -> None:
    base = narrow(kind, numbers(50, 1))
    path = tmp_path / f"base{suffix}"
    if suffix == ".npy":
        np.save(path, base)
    else:
        path.write_bytes(np.array([50, DIM], "<u4").tobytes() + base.tobytes())
    with Database.open(tmp_path / "db") as database:
        fields = [Field("id", "int64", primary_key=True), Field("v", kind, dim=DIM)]
        collection = database.create_collection("c", fields)
        collection.bulk_load(bulk.vectors(path, "v", key="id"))
        rows: Any = collection.get([7], ["v"])
        np.testing.assert_array_equal(rows[0]["v"], base[7])


def test_a_file_of_bits_is_not_taken_for_bytes(tmp_path: Path) -> None:
    base = narrow("binary_vector", numbers(50, 1))
    path = tmp_path / "base.bbin"
    path.write_bytes(np.array([50, DIM], "<u4").tobytes() + base.tobytes())
    with pytest.raises(ValueError, match="binary vectors are not compared by l2"):
        Index.build(tmp_path / "i", path)
    index = Index.build(tmp_path / "i", path, metric="hamming")
    assert index.dim == DIM
