"""Search a file of Milvus Lite in its own process, cell by cell, with the filter as text."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from filtered_sets import Cell, K, print_row, timed
from milvus_lite_build import COLLECTION
from pymilvus import MilvusClient

EF = (16, 32, 64, 128, 256, 512, 1024)


def main() -> None:
    """One JSON line for each cell: the least `ef` that has the recall, or the largest."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--index", required=True, type=Path)
    p.add_argument("--cells", required=True, type=Path, nargs="+")
    p.add_argument("--until", type=float, default=0.99)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--queries", type=int, default=20, help="of each cell")
    a = p.parse_args()
    client = MilvusClient(str(a.index / "milvus.db"))
    client.load_collection(COLLECTION)
    for folder in a.cells:
        cell = Cell.read(folder)
        wide = cell.queries.astype(np.float32)
        count = min(a.queries, len(wide))
        for ef in EF:

            def search(query: int, cell=cell, wide=wide, ef=ef) -> tuple[np.ndarray, np.ndarray]:
                (hits,) = client.search(
                    COLLECTION,
                    data=[wide[query]],
                    anns_field="v",
                    filter=cell.filters[query],
                    limit=K,
                    output_fields=["id"],
                    search_params={"params": {"ef": ef}},
                )
                ids = np.array([hit["id"] for hit in hits], dtype=np.int64)
                return ids, np.array([hit["distance"] for hit in hits], dtype=np.float32)

            answers, figures = timed(search, count, a.threads, 1)
            recall = cell.recall(answers)
            if recall >= a.until or ef == EF[-1]:
                print_row(system="milvus-lite", cell=cell.name, list=ef, recall=recall, **figures)
                break


if __name__ == "__main__":
    main()
