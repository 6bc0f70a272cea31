"""Search an HNSW index of FAISS in memory and print one JSON line per `efSearch`.

All queries go into a single call, which FAISS spreads over its threads.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import faiss
import numpy as np
from vectors import Spent, Truth, read_bin


def main() -> None:
    """One JSON line for each value of `efSearch`."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--index", required=True, type=Path)
    p.add_argument("--queries", required=True)
    p.add_argument("--truth", required=True)
    p.add_argument("--k", type=int, default=10)
    p.add_argument("--list", required=True, help="values of efSearch: 16,32,64")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--warm-up", type=int, default=200, help="queries before the clock starts")
    a = p.parse_args()
    queries, truth = read_bin(a.queries).astype(np.float32), Truth.read(a.truth)
    index = faiss.read_index(str(a.index / "hnsw.faiss"))
    faiss.omp_set_num_threads(a.threads)
    for ef in (int(word) for word in a.list.split(",")):
        how = faiss.SearchParametersHNSW(efSearch=ef)
        index.search(queries[: a.warm_up], a.k, params=how)
        spent = Spent()
        _, found = index.search(queries, a.k, params=how)
        cost = spent.so_far()
        row = {
            "system": "faiss hnsw",
            "list": ef,
            "threads": a.threads,
            "queries": len(queries),
            "recall": truth.recall(found),
            "qps": len(queries) / cost["wall_s"],
            "mean_us": cost["wall_s"] * 1e6 * a.threads / len(queries),
            "cpu_us": cost["cpu_s"] * 1e6 / len(queries),
            "peak_rss_bytes": cost["peak_rss_bytes"],
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
