"""Add rows to a built hnswlib index, in memory, and print one JSON object.

The index is loaded with room for the new rows and not saved again. Row i of the base gets
the label i. With queries, the recall after the rows were added is measured too.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import hnswlib
import numpy as np
from vectors import Spent, Truth, add_metric, read_bin


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--index", required=True, type=Path)
    p.add_argument("--base", required=True)
    p.add_argument("--count", required=True, type=int, help="rows behind those in the index")
    p.add_argument("--ef-construction", type=int, default=100)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--queries")
    p.add_argument("--truth")
    p.add_argument("--list", default="40", help="values of ef for the queries")
    p.add_argument("--k", type=int, default=10)
    add_metric(p)
    a = p.parse_args()

    rows = json.loads((a.index / "cost.json").read_text())["rows"]
    data = read_bin(a.base)[rows : rows + a.count].astype(np.float32)
    labels = np.arange(rows, rows + len(data))
    index = hnswlib.Index(space=a.metric, dim=data.shape[1])
    index.load_index(str(a.index / "index.bin"), max_elements=rows + len(data))
    # Loading keeps what was saved; the other settings of an insert are in the file.
    assert index.ef_construction == a.ef_construction, "the index was built with another ef"
    spent = Spent()
    index.add_items(data, labels, num_threads=a.threads)
    cost = spent.so_far()
    found = {}
    if a.queries:
        queries, truth = read_bin(a.queries).astype(np.float32), Truth.read(a.truth)
        for ef in (int(word) for word in a.list.split(",")):
            index.set_ef(ef)
            ids, _ = index.knn_query(queries, k=a.k)
            found[ef] = truth.recall(ids)
    print(
        json.dumps(
            {
                "system": "hnswlib",
                "rows": len(data),
                "threads": a.threads,
                "rows_per_s": len(data) / cost["wall_s"],
                "cpu_us": cost["cpu_s"] * 1e6 / len(data),
                "recall": found,
                **cost,
            }
        )
    )


if __name__ == "__main__":
    main()
