"""Search FAISS in memory with a bitmap of the rows that match, cell by cell.

The bitmap of a query is made from the postings of its tags, as a user has to, inside the time that
is measured; `qps_given` is the rate with bitmaps that are there already.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import faiss
import numpy as np
from filtered_sets import Cell, K, Postings, print_row, timed

SETTINGS = {
    "flat": [0],
    "ivf": [8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024],
    "hnsw": [32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048],
}


def parameters(kind: str, setting: int, bitmap: np.ndarray) -> faiss.SearchParameters:
    """How to search among the rows of a bitmap."""
    selector = faiss.IDSelectorBitmap(bitmap)
    if kind == "hnsw":
        return faiss.SearchParametersHNSW(sel=selector, efSearch=setting)
    if kind == "ivf":
        return faiss.SearchParametersIVF(sel=selector, nprobe=setting)
    return faiss.SearchParameters(sel=selector)


@dataclass(frozen=True)
class System:
    """An index of one kind, one setting of it, and a cell."""

    kind: str
    index: faiss.Index
    cell: Cell
    postings: Postings
    bitmaps: list[np.ndarray]

    def with_paid(self, setting: int, query: int) -> tuple[np.ndarray, np.ndarray]:
        """A search that makes its bitmap first."""
        return self.search(setting, query, self.postings.bitmap(self.cell.tags[query]))

    def with_given(self, setting: int, query: int) -> tuple[np.ndarray, np.ndarray]:
        """A search whose bitmap is there."""
        return self.search(setting, query, self.bitmaps[query])

    def search(self, setting: int, query: int, bitmap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest rows of a bitmap."""
        how = parameters(self.kind, setting, bitmap)
        wide = self.cell.queries[query : query + 1].astype(np.float32)
        near, ids = self.index.search(wide, K, params=how)
        return ids[0], near[0]

    def measure(self, until: float, callers: list[int], rounds: int) -> None:
        """Prints the figures of the least setting with the recall, or of the last one."""
        count, settings = len(self.cell.queries), SETTINGS[self.kind]
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
    postings = Postings.read(a.tags)
    cells = [Cell.read(folder) for folder in a.cells]
    for kind in SETTINGS:
        index = faiss.read_index(str(a.index / f"{kind}.faiss"))
        for cell in cells:
            bitmaps = [postings.bitmap(tags) for tags in cell.tags]
            System(kind, index, cell, postings, bitmaps).measure(a.until, a.threads, a.rounds)


if __name__ == "__main__":
    main()
