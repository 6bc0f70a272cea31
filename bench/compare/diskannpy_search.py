"""Search a diskannpy disk index, no node cached, and print one JSON line per list length.

The queries go through `batch_search`, by which it is fastest whatever the threads. With one
thread they are asked again, each by a call of its own, which gives the latencies. Reads are what
the kernel counted as read from storage, in pages of 4 KiB.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import diskannpy
import numpy as np
from vectors import Spent, Truth, add_metric, latency_columns, of_length_one, read_bin

PAGE_BYTES = 4096


def storage_bytes_read() -> int:
    """Bytes that this process has caused to be read from storage so far."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["read_bytes"])


def compared(rows: np.ndarray, metric: str) -> np.ndarray:
    """Rows as its disk index takes them: inner products of floats alone, and no cosine."""
    if metric == "cosine":
        return of_length_one(rows)
    return rows.astype(np.float32) if metric == "ip" else rows


def alone(
    index: diskannpy.StaticDiskIndex, queries: np.ndarray, how: tuple[int, int, int]
) -> np.ndarray:
    """Seconds of each query, one after the other."""
    seconds = np.zeros(len(queries))
    for i, query in enumerate(queries):
        start = time.perf_counter()
        index.search(query, *how)
        seconds[i] = time.perf_counter() - start
    return seconds


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--index", required=True)
    p.add_argument("--queries", required=True)
    p.add_argument("--truth", required=True)
    p.add_argument("--k", type=int, default=10)
    p.add_argument("--list", required=True, help="list lengths: 20,30,40")
    p.add_argument("--width", type=int, default=4, help="beam width")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--warm-up", type=int, default=100, help="queries before the clock starts")
    add_metric(p)
    a = p.parse_args()

    queries, truth = compared(read_bin(a.queries), a.metric), Truth.read(a.truth)
    # Opening with num_threads=1 never returns: the only scratch space is taken while the
    # medoids are loaded. A single search uses one thread whatever the number.
    index = diskannpy.StaticDiskIndex(
        index_directory=a.index,
        num_threads=max(2, a.threads),
        num_nodes_to_cache=0,
        cache_mechanism=0,
    )
    for length in (int(word) for word in a.list.split(",")):
        for query in queries[: a.warm_up]:
            index.search(query, a.k, length, a.width)
        before, spent = storage_bytes_read(), Spent()
        found = index.batch_search(queries, a.k, length, a.threads, a.width).identifiers
        cost = spent.so_far()
        row = {
            "system": "diskannpy",
            "list": length,
            "width": a.width,
            "threads": a.threads,
            "queries": len(queries),
            "recall": truth.recall(found),
            "qps": len(queries) / cost["wall_s"],
            "reads": (storage_bytes_read() - before) / PAGE_BYTES / len(queries),
            "user_us": cost["user_s"] * 1e6 / len(queries),
            "sys_us": cost["sys_s"] * 1e6 / len(queries),
            "cpu_us": cost["cpu_s"] * 1e6 / len(queries),
            "peak_rss_bytes": cost["peak_rss_bytes"],
        }
        if a.threads == 1:
            row |= latency_columns(alone(index, queries, (a.k, length, a.width)))
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
