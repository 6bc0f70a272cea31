"""Search FAISS in memory with a bitmap of the rows that match, cell by cell.

The bitmap of a query is made from the postings of its tags, as a user has to, inside the time that
is measured; `qps_given` is the rate with bitmaps that are there already.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
from filtered_sets import K, Cell, Postings, print_row, timed

SETTINGS = {
    "flat": [0],
    "ivf": [1, 2, 4, 8, 16, 32, 64, 128, 256, 1024],
    "hnsw": [16, 32, 64, 128, 256, 512, 1024, 2048],
}


def parameters(kind: str, setting: int, bitmap: np.ndarray) -> faiss.SearchParameters:
    """How to search among the rows of a bitmap."""
    selector = faiss.IDSelectorBitmap(bitmap)
    if kind == "hnsw":
        return faiss.SearchParametersHNSW(sel=selector, efSearch=setting)
    if kind == "ivf":
        return faiss.SearchParametersIVF(sel=selector, nprobe=setting)
    return faiss.SearchParameters(sel=selector)


def main() -> None:
    """One JSON line for each index, cell and setting, until the recall is reached."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--index", required=True, type=Path)
    p.add_argument("--tags", required=True, type=Path)
    p.add_argument("--cells", required=True, type=Path, nargs="+")
    p.add_argument("--until", type=float, default=0.99)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    faiss.omp_set_num_threads(1)
    postings = Postings.read(a.tags)
    cells = [Cell.read(folder) for folder in a.cells]
    for kind, settings in SETTINGS.items():
        index = faiss.read_index(str(a.index / f"{kind}.faiss"))
        for cell in cells:
            wide = cell.queries.astype(np.float32)
            bitmaps = [postings.bitmap(tags) for tags in cell.tags]
            made: list[Callable[[int], np.ndarray]] = [
                lambda query, cell=cell: postings.bitmap(cell.tags[query]),
                lambda query, bitmaps=bitmaps: bitmaps[query],
            ]
            for setting in settings:

                def search(
                    query: int, bitmap: Callable[[int], np.ndarray], wide=wide, setting=setting
                ) -> tuple[np.ndarray, np.ndarray]:
                    how = parameters(kind, setting, bitmap(query))
                    near, ids = index.search(wide[query : query + 1], K, params=how)
                    return ids[0], near[0]

                count = len(cell.queries)
                # One round tells whether the recall is there; only then rates are taken.
                answers, _ = timed(lambda q: search(q, made[1]), count, a.threads, 1)
                recall = cell.recall(answers)
                if recall < a.until and setting != settings[-1]:
                    continue
                _, paid = timed(lambda q: search(q, made[0]), count, a.threads, a.rounds)
                _, given = timed(lambda q: search(q, made[1]), count, a.threads, a.rounds)
                print_row(
                    system=f"faiss {kind}",
                    cell=cell.name,
                    list=setting,
                    recall=recall,
                    qps_given=given["qps"],
                    **paid,
                )
                break
        del index


if __name__ == "__main__":
    main()
