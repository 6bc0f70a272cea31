"""Filtered queries for the rivals' scripts: bags of tags, cells, and how a search is timed."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from vectors import latency_columns, read_bin

K = 10
NO_ROW = 0xFFFFFFFF


@dataclass(frozen=True)
class Postings:
    """The rows of each tag, ascending: what a user keeps beside an index without filters."""

    rows: int
    edges: np.ndarray
    owners: np.ndarray

    @classmethod
    def read(cls, path: Path) -> Postings:
        """From a `.spmat` file of bags."""
        rows, columns, entries = (int(v) for v in np.fromfile(path, dtype="<i8", count=3))
        ends = np.fromfile(path, dtype="<i8", offset=24, count=rows + 1)
        tags = np.fromfile(path, dtype="<i4", offset=24 + 8 * (rows + 1), count=entries)
        order = np.argsort(tags, kind="stable")
        owners = np.repeat(np.arange(rows, dtype=np.int32), np.diff(ends))[order]
        return cls(rows, np.searchsorted(tags[order], np.arange(columns + 1)), owners)

    def of(self, tag: int) -> np.ndarray:
        """The rows of a tag."""
        return self.owners[self.edges[tag] : self.edges[tag + 1]]

    def bitmap(self, tags: Sequence[int]) -> np.ndarray:
        """One bit for each row: whether it has all of one or two tags."""
        lists = sorted((self.of(tag) for tag in tags), key=len)
        has = np.zeros(self.rows, dtype=bool)
        has[lists[0]] = True
        if len(lists) > 1:
            both = lists[1][has[lists[1]]]
            has[lists[0]] = False
            has[both] = True
        return np.packbits(has, bitorder="little")


@dataclass(frozen=True)
class Cell:
    """Queries, the expressions of their filters, the tags in those, and the truth."""

    name: str
    queries: np.ndarray
    filters: list[str]
    tags: list[list[int]]
    ids: np.ndarray
    distances: np.ndarray

    @classmethod
    def read(cls, folder: Path) -> Cell:
        """From a cell's directory."""
        filters = (folder / "filters.txt").read_text().splitlines()
        tags = [[int(word) for word in re.findall(r"\d+", text)] for text in filters]
        header = np.fromfile(folder / "truth.bin", dtype="<u4", count=2)
        count = int(header[0] * header[1])
        ids = np.fromfile(folder / "truth.bin", dtype="<u4", offset=8, count=count)
        near = np.fromfile(folder / "truth.bin", dtype="<f4", offset=8 + 4 * count, count=count)
        (file,) = folder.glob("queries.*bin")
        queries = read_bin(file)
        shape = (len(queries), -1)
        return cls(folder.name, queries, filters, tags, ids.reshape(shape), near.reshape(shape))

    def recall(self, found: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
        """Share of the expected rows in answers of ids and distances; ties are not misses."""
        correct = expected = 0
        for (ids, near), truth, far in zip(found, self.ids, self.distances, strict=False):
            there = truth[truth != NO_ROW]
            hit = np.isin(ids[:K], there)
            if len(there) == K:
                hit |= (ids[:K] >= 0) & (np.abs(near[:K] - far[K - 1]) <= 1e-6 * far[K - 1])
            correct += min(int(hit.sum()), len(there))
            expected += len(there)
        return correct / expected if expected else 1.0


Search = Callable[[int], tuple[np.ndarray, np.ndarray]]


def timed(
    search: Search, queries: int, threads: int, rounds: int, warm_up: int = 1
) -> tuple[list[tuple[np.ndarray, np.ndarray]], dict[str, float]]:
    """Answers, and figures of the round with the median time; one query in flight a thread."""
    taken = []
    for _ in range(warm_up + rounds):
        answers: list[tuple[np.ndarray, np.ndarray]] = [None] * queries  # type: ignore[list-item]
        spent = np.zeros(queries)
        left = iter(range(queries))
        lock = threading.Lock()

        def work(answers=answers, spent=spent, left=left, lock=lock) -> None:
            while True:
                with lock:
                    query = next(left, None)
                if query is None:
                    return
                begun = time.perf_counter()
                answers[query] = search(query)
                spent[query] = time.perf_counter() - begun

        begun = time.perf_counter()
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        wall = time.perf_counter() - begun
        taken.append((wall, answers, {"qps": queries / wall} | latency_columns(spent)))
    _, answers, figures = sorted(taken[warm_up:], key=lambda round: round[0])[rounds // 2]
    return answers, figures


def print_row(**columns: object) -> None:
    """One JSON line."""
    print(json.dumps(columns), flush=True)
