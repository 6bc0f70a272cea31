"""What the benchmarks of clients compute by themselves, on a few made-up rows."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("pymilvus")
sys.path.insert(0, str(Path(__file__).parent))

from bench_load import (
    K,
    Target,
    asked,
    asked_for_tags,
    one_after_the_other,
    read_bags,
    read_vectors,
)
from bench_processes import Server, tree

COMPARE = Path(__file__).resolve().parents[1] / "bench" / "compare"
BASE = np.arange(40, dtype=np.float32)[:, None] * np.ones(4, dtype=np.float32)


def test_recall_counts_rows_as_near_as_the_last_to_be_found() -> None:
    wanted = asked(BASE, BASE[[0, 20]] + 0.25)
    exact = [np.sort(((BASE - query) ** 2).sum(axis=1)) for query in wanted.vectors]
    right = [distances[:K].tolist() for distances in exact]
    assert wanted.recall(right) == 1
    as_near = [[float(distances[K - 1])] * (K + 2) for distances in exact]
    assert wanted.recall(as_near) == 1
    half = [distances[:K:2].tolist() + distances[K : K + 5].tolist() for distances in exact]
    assert wanted.recall(half) == 0.5


def test_queries_for_tags_have_only_rows_with_all_of_them_as_truth() -> None:
    bags = [[row % 2, 2 + row % 3] for row in range(len(BASE))]
    wanted = asked_for_tags(BASE, bags, BASE[:3], [[0], [1, 2], [7]])
    assert wanted.filters == ["array_contains_all(tags, [0])", "array_contains_all(tags, [1, 2])"]
    both = [row for row, bag in enumerate(bags) if 1 in bag and 2 in bag]
    assert wanted.expected.tolist() == [K, len(both)]
    distances = ((BASE[both] - BASE[1]) ** 2).sum(axis=1)
    assert wanted.farthest[1] == pytest.approx(distances.max())
    assert len(wanted.vectors) == 2


class Client:
    """Remembers the filters that it was asked with."""

    def __init__(self) -> None:
        self.filters: list[str] = []

    def search(self, _collection: str, **how: object) -> list[list[dict[str, float]]]:
        self.filters.append(str(how["filter"]))
        return [[]]


def test_filters_are_written_as_never_before_unless_they_repeat() -> None:
    bags = [[0] for _ in BASE]
    wanted, client = asked_for_tags(BASE, bags, BASE[:1], [[0]]), Client()
    for _ in range(100):
        Target().search(client, wanted, 0, 10)
    assert len(set(client.filters)) == 100
    assert {text.rstrip() for text in client.filters} == set(wanted.filters)
    client.filters.clear()
    for _ in range(2):
        Target(repeats=True).search(client, wanted, 0, 10)
    assert client.filters == wanted.filters * 2


def test_files_are_read_up_to_some_rows(tmp_path: Path) -> None:
    vectors = tmp_path / "rows.u8bin"
    rows = np.arange(12, dtype=np.uint8).reshape(4, 3)
    vectors.write_bytes(np.array([4, 3], dtype="<u4").tobytes() + rows.tobytes())
    assert read_vectors(vectors, 2).tolist() == [[0, 1, 2], [3, 4, 5]]
    signed = tmp_path / "rows.i8bin"
    signed.write_bytes(np.array([1, 2], dtype="<u4").tobytes() + np.int8([-1, 7]).tobytes())
    assert read_vectors(signed).tolist() == [[-1, 7]]
    bags = tmp_path / "bags.spmat"
    head = np.array([3, 9, 4], dtype="<i8").tobytes() + np.array([0, 2, 2, 4], "<i8").tobytes()
    bags.write_bytes(head + np.array([5, 6, 7, 8], dtype="<i4").tobytes())
    assert read_bags(bags) == [[5, 6], [], [7, 8]]
    assert read_bags(bags, 1) == [[5, 6]]


def test_a_server_is_all_of_its_processes() -> None:
    command = ["sh", "-c", "sleep 60 & echo $!; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            assert set(tree(process.pid)) == {process.pid, child}
            server = Server.parse(f"sh=http://127.0.0.1:1@{process.pid}")
            alone = Server("sleep", "", child)
            assert (server.name, server.uri) == ("sh", "http://127.0.0.1:1")
            # The child's is read first: it may still become `sleep`.
            one, rss = alone.rss_bytes(), server.rss_bytes()
            assert rss is not None and one is not None and rss > one > 0
        finally:
            os.kill(child, 15)
    assert Server.parse("x=http://h:1").cpu_s() is None


def test_calls_are_timed_in_their_order() -> None:
    times = one_after_the_other(lambda query: [float(query)], [3, 1])
    assert times.found == [[3.0], [1.0]]
    assert (times.seconds >= 0).all() and times.columns["p50_ms"] <= times.columns["p99_ms"]


def test_rows_of_several_tags_are_those_that_all_lists_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Which packages the rivals need is no matter of this environment.
    monkeypatch.setitem(sys.modules, "faiss", ModuleType("faiss"))
    monkeypatch.syspath_prepend(str(COMPARE))
    matching = import_module("faiss_search").matching
    lists = [np.array(ids, dtype=np.int64) for ids in ([1, 4, 6, 9], [4, 9], [])]
    assert matching(lists[:1]) is lists[0]
    assert matching(lists[:2]).tolist() == [4, 9]
    assert matching([lists[1], np.array([0, 4, 5])]).tolist() == [4]
    assert matching(lists).tolist() == []
    assert matching([lists[0], np.array([10, 11])]).tolist() == []


def test_a_row_that_is_found_twice_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(COMPARE))
    recall = import_module("scaled_rows").recall
    rows = np.arange(1.0, 41.0)[:, None] * np.ones(4)
    nearest = list(range(10))
    assert recall("L2", rows[:1] - 0.5, rows, [nearest]) == 1
    assert recall("L2", rows[:1] - 0.5, rows, [nearest[:5] * 2]) == 0.5
