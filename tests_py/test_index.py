"""`pipeann.Index` with numpy: build, open, search, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pipeann import Index

from test_cluster import binary


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    rng = np.random.default_rng(1)
    centres = rng.uniform(-1, 1, (30, 24))
    rows = centres[rng.integers(0, 30, 3000)] + rng.normal(0, 0.3, (3000, 24))
    return rows.astype(np.float32)


@pytest.fixture(scope="module")
def index(vectors: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Index:
    path = tmp_path_factory.mktemp("built") / "index"
    Index.build(path, vectors, degree=32, list_length=48)
    return Index.open(path, direct=False)


def exact(base: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    distances = ((queries[:, None, :] - base[None, :, :]) ** 2).sum(axis=2)
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("policy", ["pipe", "beam", "page"])
@pytest.mark.parametrize("threads", [1, 2])
def test_finds_the_neighbours(
    index: Index, vectors: np.ndarray, policy: str, threads: int
) -> None:
    queries = vectors[::60] + np.float32(0.05)
    ids, distances = index.search(queries, 10, list_length=80, policy=policy, threads=threads)
    assert ids.shape == distances.shape == (50, 10)
    assert ids.dtype == np.int64 and distances.dtype == np.float32
    assert (np.diff(distances, axis=1) >= 0).all()
    truth = exact(vectors, queries, 10)
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(ids, truth)])
    assert recall >= 0.95
    expected = ((vectors[ids] - queries[:, None, :]) ** 2).sum(axis=2)
    np.testing.assert_allclose(distances, expected, rtol=1e-4, atol=1e-5)


def test_allowed_rows_only(index: Index, vectors: np.ndarray) -> None:
    ids, _ = index.search(vectors[:20], 5, allowed=np.arange(0, 3000, 7))
    assert (ids % 7 == 0).all()
    ids, distances = index.search(vectors[:2], 5, allowed=[4, 8])
    assert set(ids[0]) == {4, 8, -1} and np.isinf(distances[0, 2:]).all()


@pytest.mark.parametrize("policy", ["pipe", "beam", "page"])
def test_rows_within_a_range_of_distances(
    index: Index, vectors: np.ndarray, policy: str
) -> None:
    queries = vectors[::300] + np.float32(0.05)
    for query in queries:
        every = ((vectors - query) ** 2).sum(axis=1)
        ranked = np.sort(every)
        for near, far in [(None, ranked[40]), (ranked[300], ranked[320]), (None, ranked[0] / 2)]:
            ids, distances = index.search(query[None], 500, within=(near, far), policy=policy)
            found = ids[0][ids[0] >= 0]
            there = distances[0][: len(found)]
            assert len(set(found)) == len(found)
            assert (there < far).all() and (near is None or (there >= near).all())
            assert np.isinf(distances[0][len(found) :]).all()
            wanted = (every < far * 1.00001) & (every >= (near or 0) * 0.99999)
            assert len(found) >= 0.9 * (wanted.sum() - 2)
    with pytest.raises(ValueError, match="NaN"):
        index.search(queries, within=(None, float("nan")))


def test_says_what_it_is(index: Index) -> None:
    assert (len(index), index.dim, index.dtype, index.metric) == (3000, 24, "float32", "l2")
    assert "rows=3000" in repr(index)
    stats = index.stats()
    assert stats["rows"] == 3000 and stats["memory_bytes"]["codes"] > 0


def test_builds_codes_of_either_kind(vectors: np.ndarray, tmp_path: Path) -> None:
    queries = vectors[::60] + np.float32(0.05)
    truth = exact(vectors, queries, 10)
    for codes, code_bytes in [("pq", 12), ("rabitq", 24), ("rabitq", 11)]:
        path = tmp_path / f"{codes}-{code_bytes}"
        options = {"degree": 32, "list_length": 48, "codes": codes, "code_bytes": code_bytes}
        built = Index.build(path, vectors, **options)
        # Of every slot one, shorter than asked or as long, beside a header and a page of checksums.
        slots = built.stats()["pages"] * built.stats()["records_per_page"]
        written = sum(file.stat().st_size for file in path.glob("part-*/codes-*"))
        assert 0.5 * code_bytes * slots < written <= code_bytes * slots + 3 * 4096
        ids, _ = built.search(queries, 10, list_length=80)
        recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(ids, truth)])
        assert recall >= 0.95, path.name
    with pytest.raises(ValueError, match="rabitq"):
        Index.build(tmp_path / "none", vectors, codes="lattice")
    with pytest.raises(ValueError, match="rabitq codes of 24 components have 11 to 32 bytes, not 4000"):
        Index.build(tmp_path / "long", vectors, codes="rabitq", code_bytes=4000)
    assert not (tmp_path / "none").exists() and not (tmp_path / "long").exists()


def test_says_by_what_rows_come_into_partitions(vectors: np.ndarray, tmp_path: Path) -> None:
    queries = vectors[::60] + np.float32(0.05)
    truth = exact(vectors, queries, 10)
    leaving = {}
    for by in ["graph", "kmeans", "random", "order"]:
        options = {"degree": 32, "list_length": 48, "partitions": 3, "partition_by": by}
        built = Index.build(tmp_path / by, vectors, **options)
        ids, _ = built.search(queries, 10, list_length=80)
        assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(ids, truth)]) >= 0.95, by
        command = [binary(), "inspect", "--index", tmp_path / by, "--buffered", "--json"]
        told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        assert len(told["partitions"]) == 3
        leaving[by] = np.mean([partition["edges_out"] for partition in told["partitions"]])
    # Of rows in three parts at random two of three edges leave; of neighbours fewest do.
    assert 0.6 < leaving["random"] < 0.75, leaving
    assert leaving["graph"] < leaving["kmeans"] < leaving["random"], leaving
    assert len(set(leaving.values())) == 4, leaving
    with pytest.raises(ValueError, match="known are graph, kmeans, random, order"):
        Index.build(tmp_path / "none", vectors, partitions=3, partition_by="colour")
    assert not (tmp_path / "none").exists()


def test_builds_each_metric_and_type(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    base = rng.integers(1, 255, (500, 16), dtype=np.uint8)
    for metric in ["l2", "ip", "cosine"]:
        built = Index.build(tmp_path / metric, base, metric, degree=16, list_length=32)
        del built
        ids, _ = Index.open(tmp_path / metric, direct=False).search(base[:50], 10, list_length=60)
        if metric != "ip":
            assert (ids[:, 0] == np.arange(50)).mean() >= 0.95


@pytest.mark.parametrize(
    ("queries", "error", "text"),
    [
        (np.zeros((1, 23), np.float32), ValueError, "23 dimensions"),
        (np.zeros(24, np.float32), ValueError, "shape"),
        (np.zeros((1, 24), np.float64), TypeError, "float64"),
        (np.zeros((1, 24), np.uint8), TypeError, "u8"),
        (np.zeros((24, 4), np.float32).T, ValueError, "contiguous"),
        (np.full((1, 24), np.nan, np.float32), ValueError, "NaN"),
        ([[1.0] * 24], TypeError, "numpy array"),
    ],
)
def test_bad_queries_are_refused(index: Index, queries: object, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        index.search(queries)  # type: ignore[arg-type]


def test_bad_parameters_are_refused(index: Index, vectors: np.ndarray) -> None:
    with pytest.raises(ValueError, match="k is 0"):
        index.search(vectors[:1], 0)
    with pytest.raises(ValueError, match="unknown search policy"):
        index.search(vectors[:1], policy="spiral")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="row 3000 does not exist"):
        index.search(vectors[:1], allowed=[3000])


def test_bad_builds_are_refused(tmp_path: Path, vectors: np.ndarray) -> None:
    with pytest.raises(ValueError, match="no vectors"):
        Index.build(tmp_path / "empty", np.zeros((0, 4), np.float32))
    with pytest.raises(ValueError, match="unknown metric"):
        Index.build(tmp_path / "metric", vectors, "manhattan")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="row 1"):
        bad = np.ones((3, 4), np.float32)
        bad[1, 2] = np.inf
        Index.build(tmp_path / "inf", bad)
    assert not any((tmp_path / name).exists() for name in ["empty", "metric", "inf"])
    Index.build(tmp_path / "twice", vectors[:100])
    with pytest.raises(FileExistsError):
        Index.build(tmp_path / "twice", vectors[:100])


def test_zero_vectors_have_no_similarity_by_cosine(tmp_path: Path) -> None:
    rows = np.array([[1, 0, 0, 0], [0, 0, 0, 0], [-1, 0, 0, 0]], np.float32)
    index = Index.build(tmp_path / "zero", rows, "cosine")
    ids, distances = index.search(np.array([[1, 0, 0, 0], [0, 0, 0, 0]], np.float32), 3)
    assert ids[0].tolist() == [0, 1, 2]
    assert distances.tolist() == [[0, 1, 2], [1, 1, 1]]


def test_a_directory_without_an_index(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no index"):
        Index.open(tmp_path)


def test_a_limit_below_the_floor_names_the_number_needed(
    tmp_path: Path, vectors: np.ndarray
) -> None:
    Index.build(tmp_path / "i", vectors[:500])
    with pytest.raises(MemoryError, match="at least"):
        Index.open(tmp_path / "i", memory_limit=1000, direct=False)
    with pytest.raises(ValueError, match="expected bytes, or a text as 512MiB"):
        Index.open(tmp_path / "i", memory_limit="all of it")
    with pytest.raises(TypeError, match="a number of bytes, or a text as 512MiB, not 0.5"):
        Index.open(tmp_path / "i", memory_limit=0.5)
    assert Index.open(tmp_path / "i", memory_limit="64MiB").stats()["memory_limit"] == 64 << 20
    index = Index.open(tmp_path / "i", memory_limit=64 << 20, direct=False)
    for _ in range(2):
        index.search(vectors[:500])
    stats = index.stats()
    assert stats["resident_pages"] > 0
    assert stats["resident_bytes"] == stats["resident_pages"] * stats["page_bytes"]
    assert stats["memory_limit"] == 64 << 20
    assert stats["share_from_memory"] > 0


def test_pages_come_into_memory_without_a_search(tmp_path: Path, vectors: np.ndarray) -> None:
    Index.build(tmp_path / "i", vectors[:500])
    index = Index.open(tmp_path / "i", memory_limit=64 << 20, direct=False)
    assert index.wait_warm(60)
    stats = index.stats()
    assert stats["resident_pages"] == stats["pages_warmed"] == stats["pages"]
    assert (stats["warming"], stats["pages_unreadable"]) == (False, 0)
    index.search(vectors[:50])
    assert index.stats()["reads"] == 0
    index = Index.open(tmp_path / "i", memory_limit=64 << 20, warm=False, direct=False)
    assert index.wait_warm()
    assert index.stats()["resident_pages"] == 0
    with pytest.raises(ValueError, match="timeout"):
        index.wait_warm(-1)


def test_a_memory_limit_changes_while_threads_search(
    tmp_path: Path, vectors: np.ndarray
) -> None:
    Index.build(tmp_path / "i", vectors[:500])
    index = Index.open(tmp_path / "i", memory_limit=64 << 20, direct=False)
    queries = vectors[:500]
    expected, _ = index.search(queries, k=1)
    floor = sum(n for pool, n in index.stats()["memory_bytes"].items() if pool != "page_cache")
    with ThreadPoolExecutor(2) as threads:
        for spare in (1 << 20, 200_000, 64 << 20, 100_000):
            searching = [threads.submit(index.search, queries, k=1) for _ in range(4)]
            index.set_memory_limit(floor + spare)
            assert sum(index.stats()["memory_bytes"].values()) <= floor + spare
            for search in searching:
                np.testing.assert_array_equal(search.result()[0], expected)
    with pytest.raises(MemoryError, match="at least"):
        index.set_memory_limit(1000)
    assert index.stats()["memory_limit"] == floor + 100_000
    index.set_memory_limit(None)
    assert index.stats()["memory_limit"] is None


BUILD_UNTIL_STOPPED = """
import signal
import sys
import numpy as np
from pipeann import Index
rows = np.random.default_rng(1).normal(size=(200_000, 64)).astype(np.float32)
memory = int(sys.argv[2]) or None
# Whoever runs the tests in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    Index.build(sys.argv[1], rows, list_length=400, memory=memory)
except KeyboardInterrupt:
    sys.exit(42)
"""


@pytest.mark.parametrize("memory", [0, 256 << 20])
def test_control_c_ends_a_build(tmp_path: Path, memory: int) -> None:
    path = tmp_path / "index"
    command = [sys.executable, "-c", BUILD_UNTIL_STOPPED, str(path), str(memory)]
    with subprocess.Popen(command) as build:
        while not list(tmp_path.glob("index.tmp-*")):
            assert build.poll() is None, "the build ended by itself"
            time.sleep(0.01)
        time.sleep(0.5)
        build.send_signal(signal.SIGINT)
        assert build.wait(60) == 42
    assert not list(tmp_path.iterdir()), "nothing is left"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_gets_a_clear_error(index: Index, vectors: np.ndarray) -> None:
    index.search(vectors[:1])
    child = os.fork()
    if child == 0:
        try:
            index.search(vectors[:1])
        except RuntimeError as e:
            os._exit(0 if "forked child" in str(e) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    index.search(vectors[:1])
