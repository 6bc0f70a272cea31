"""Build a diskannpy disk index in a process of its own and record what it cost."""

from __future__ import annotations

import argparse
import os
from importlib.metadata import version
from pathlib import Path

import diskannpy
from diskannpy_search import compared
from vectors import Spent, add_metric, leave_cost, read_bin


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--base", required=True)
    p.add_argument("--out", required=True, type=Path)
    p.add_argument("--degree", type=int, default=64)
    p.add_argument("--complexity", type=int, default=96)
    p.add_argument("--code-bytes", type=int, default=32)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    add_metric(p)
    a = p.parse_args()

    data = compared(read_bin(a.base), a.metric)
    a.out.mkdir(parents=True, exist_ok=True)
    spent = Spent()
    diskannpy.build_disk_index(
        data=data,
        distance_metric="mips" if a.metric == "ip" else "l2",
        index_directory=str(a.out),
        complexity=a.complexity,
        graph_degree=a.degree,
        # The library divides this budget by the rows to find the bytes of a code.
        search_memory_maximum=(a.code_bytes + 0.2) * len(data) / 2**30,
        build_memory_maximum=16,
        num_threads=a.threads,
        pq_disk_bytes=0,
        vector_dtype=data.dtype.type,
    )
    cost = {
        "system": "diskannpy",
        "version": version("diskannpy"),
        "rows": len(data),
        "dim": data.shape[1],
        "degree": a.degree,
        "complexity": a.complexity,
        "code_bytes": a.code_bytes,
        "threads": a.threads,
        **spent.so_far(),
    }
    leave_cost(cost, a.out)


if __name__ == "__main__":
    main()
