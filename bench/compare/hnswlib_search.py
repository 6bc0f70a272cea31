"""Search an hnswlib index in memory and print one JSON line per `ef`.

The queries are answered inside a single call, so that the cost of calling from Python is not
charged to hnswlib.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import hnswlib
import numpy as np
from vectors import Spent, Truth, read_bin


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--index", required=True, type=Path)
    p.add_argument("--queries", required=True)
    p.add_argument("--truth", required=True)
    p.add_argument("--k", type=int, default=10)
    p.add_argument("--list", required=True, help="values of ef: 16,32,64")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--warm-up", type=int, default=200, help="queries before the clock starts")
    a = p.parse_args()

    queries, truth = read_bin(a.queries).astype(np.float32), Truth.read(a.truth)
    index = hnswlib.Index(space="l2", dim=queries.shape[1])
    index.load_index(str(a.index / "index.bin"))
    for ef in (int(word) for word in a.list.split(",")):
        index.set_ef(ef)
        index.knn_query(queries[: a.warm_up], k=a.k, num_threads=a.threads)
        spent = Spent()
        found, _ = index.knn_query(queries, k=a.k, num_threads=a.threads)
        cost = spent.so_far()
        print(
            json.dumps(
                {
                    "system": "hnswlib",
                    "list": ef,
                    "threads": a.threads,
                    "queries": len(queries),
                    "recall": truth.recall(found),
                    "qps": len(queries) / cost["wall_s"],
                    "mean_us": cost["wall_s"] * 1e6 * a.threads / len(queries),
                    "cpu_us": cost["cpu_s"] * 1e6 / len(queries),
                    "peak_rss_bytes": cost["peak_rss_bytes"],
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
