"""Search a file of Milvus Lite in its own process, cell by cell, with the filter as text."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np
from filtered_sets import Cell, K, print_row, timed
from milvus_lite_build import COLLECTION
from pymilvus import MilvusClient


def search(client: MilvusClient, cell: Cell, query: int) -> tuple[np.ndarray, np.ndarray]:
    """The nearest rows that match, and their distances."""
    (hits,) = client.search(
        COLLECTION,
        data=[cell.queries[query].astype(np.float32)],
        anns_field="v",
        filter=cell.filters[query],
        limit=K,
        output_fields=["id"],
    )
    ids = np.array([hit["id"] for hit in hits], dtype=np.int64)
    return ids, np.array([hit["distance"] for hit in hits], dtype=np.float32)


def main() -> None:
    """One JSON line for each cell."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--index", required=True, type=Path)
    p.add_argument("--cells", required=True, type=Path, nargs="+")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--queries", type=int, default=2, help="of each cell; one takes many seconds")
    a = p.parse_args()
    client = MilvusClient(str(a.index / "milvus.db"))
    client.load_collection(COLLECTION)
    for folder in a.cells:
        cell = Cell.read(folder)
        count = min(a.queries, len(cell.queries))
        answers, figures = timed(partial(search, client, cell), count, a.threads, 1, warm_up=0)
        recall = cell.recall(answers)
        print_row(system="milvus-lite", cell=cell.name, list="exact", recall=recall, **figures)


if __name__ == "__main__":
    main()
