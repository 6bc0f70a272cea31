"""Search FAISS in memory among the rows that match, cell by cell.

The rows of a query come from the postings of its tags, as a user has to find them, inside the time
that is measured; `qps_given` is the rate with a selector's rows that are there already. Three
indexes take a bitmap. The fourth, a plain list of floats, takes the matching rows' ids: it compares
these alone, so that where few match nothing of FAISS is faster.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import faiss
import numpy as np
from filtered_sets import Cell, K, Postings, print_row, timed

SETTINGS = {
    "listed": [0],
    "flat": [0],
    "ivf": [8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024],
    "hnsw": [32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048],
}
LISTED = "listed"


def parameters(kind: str, setting: int, rows: np.ndarray) -> faiss.SearchParameters:
    """How to search among rows: ids where they are listed, else a bitmap."""
    if kind == LISTED:
        return faiss.SearchParameters(sel=faiss.IDSelectorArray(rows))
    selector = faiss.IDSelectorBitmap(rows)
    if kind == "hnsw":
        return faiss.SearchParametersHNSW(sel=selector, efSearch=setting)
    if kind == "ivf":
        return faiss.SearchParametersIVF(sel=selector, nprobe=setting)
    return faiss.SearchParameters(sel=selector)


def matching(lists: Sequence[np.ndarray]) -> np.ndarray:
    """The ids that all of one or two ascending lists have; one alone is there already."""
    few, *others = sorted(lists, key=len)
    for many in others:
        at = np.searchsorted(many, few)
        few = few[many[np.minimum(at, len(many) - 1)] == few]
    return few


@dataclass(frozen=True)
class System:
    """An index of one kind, and a cell with what its selectors are made of."""

    kind: str
    index: faiss.Index
    cell: Cell
    postings: Postings
    # As many as the cell has queries, each of floats, which is what FAISS takes.
    queries: np.ndarray
    given: list[np.ndarray]

    @classmethod
    def of(cls, kind: str, index: faiss.Index, cell: Cell, postings: Postings) -> System:
        """With the rows of each query, for where these are there already."""
        rows = [selected(kind, postings, tags) for tags in cell.tags]
        return cls(kind, index, cell, postings, cell.queries.astype(np.float32), rows)

    def with_paid(self, setting: int, query: int) -> tuple[np.ndarray, np.ndarray]:
        """A search that finds its rows first."""
        rows = selected(self.kind, self.postings, self.cell.tags[query])
        return self.search(setting, query, rows)

    def with_given(self, setting: int, query: int) -> tuple[np.ndarray, np.ndarray]:
        """A search whose rows are there."""
        return self.search(setting, query, self.given[query])

    def search(self, setting: int, query: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest of some rows."""
        how = parameters(self.kind, setting, rows)
        near, ids = self.index.search(self.queries[query : query + 1], K, params=how)
        return ids[0], near[0]

    def measure(self, until: float, callers: list[int], rounds: int) -> None:
        """Prints the figures of the least setting with the recall, or of the last one."""
        count, settings = len(self.queries), SETTINGS[self.kind]
        for setting in settings:
            given = partial(self.with_given, setting)
            # One round tells whether the recall is there; only then rates are taken.
            recall = self.cell.recall(timed(given, count, max(callers), 1)[0])
            if recall < until and setting != settings[-1]:
                continue
            for threads in callers:
                _, paid = timed(partial(self.with_paid, setting), count, threads, rounds)
                _, free = timed(given, count, threads, rounds)
                rates = paid | {"qps_given": free["qps"], "threads": threads}
                system = f"faiss {self.kind}"
                print_row(system=system, cell=self.cell.name, list=setting, recall=recall, **rates)
            return


def selected(kind: str, postings: Postings, tags: Sequence[int]) -> np.ndarray:
    """The rows that have all tags, as an index of this kind takes them."""
    if kind == LISTED:
        return matching([postings.of(tag) for tag in tags])
    return postings.bitmap(tags)


def opened(folder: Path, kind: str) -> faiss.Index:
    """An index; the plain list of floats is made of that of bytes."""
    if kind != LISTED:
        return faiss.read_index(str(folder / f"{kind}.faiss"))
    rows = faiss.read_index(str(folder / "flat.faiss"))
    floats = faiss.IndexFlatL2(rows.d)
    floats.add(rows.reconstruct_n(0, rows.ntotal))
    return floats


def print_calls(index: faiss.Index, cell: Cell, callers: list[int], rounds: int) -> None:
    """What a call from Python takes at least: searches among a single row."""
    queries, row = cell.queries.astype(np.float32), np.zeros(1, dtype=np.int64)

    def call(query: int) -> tuple[np.ndarray, np.ndarray]:
        how = parameters(LISTED, 0, row)
        near, ids = index.search(queries[query : query + 1], 1, params=how)
        return ids[0], near[0]

    for threads in callers:
        _, figures = timed(call, len(queries), threads, rounds)
        print_row(system="faiss, one row", cell="-", list=1, recall=0.0, threads=threads, **figures)


def main() -> None:
    """One JSON line for each index and cell."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--index", required=True, type=Path)
    p.add_argument("--tags", required=True, type=Path)
    p.add_argument("--cells", required=True, type=Path, nargs="+")
    p.add_argument("--until", type=float, default=0.99)
    p.add_argument("--threads", type=int, nargs="+", default=[2])
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    faiss.omp_set_num_threads(1)
    read = Postings.read(a.tags)
    # Ids as FAISS takes them, so that no search pays for another width.
    postings = Postings(read.rows, read.edges, read.owners.astype(np.int64))
    cells = [Cell.read(folder) for folder in a.cells]
    for kind in SETTINGS:
        index = opened(a.index, kind)
        if kind == LISTED:
            print_calls(index, cells[0], a.threads, a.rounds)
        for cell in cells:
            System.of(kind, index, cell, postings).measure(a.until, a.threads, a.rounds)


if __name__ == "__main__":
    main()
