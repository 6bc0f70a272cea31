"""Search a diskannpy disk index, no node cached, and print one JSON line per list length.

With one thread every query is a call of its own and is timed; with more, the queries go
through `batch_search` and only throughput is known. Reads are what the kernel counted as
read from storage, in pages of 4 KiB.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import diskannpy
import numpy as np
from vectors import Spent, Truth, latency_columns, read_bin

PAGE_BYTES = 4096


def storage_bytes_read() -> int:
    """Bytes that this process has caused to be read from storage so far."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["read_bytes"])


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
    a = p.parse_args()

    queries, truth = read_bin(a.queries), Truth.read(a.truth)
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
        found = np.zeros((len(queries), a.k), np.uint32)
        seconds = np.zeros(len(queries))
        before, spent = storage_bytes_read(), Spent()
        if a.threads == 1:
            for i, query in enumerate(queries):
                start = time.perf_counter()
                found[i] = index.search(query, a.k, length, a.width).identifiers
                seconds[i] = time.perf_counter() - start
        else:
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
            row |= latency_columns(seconds)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
