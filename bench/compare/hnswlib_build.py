"""Build an hnswlib index in a process of its own and record what it cost."""

from __future__ import annotations

import argparse
import os
from importlib.metadata import version
from pathlib import Path

import hnswlib
from vectors import Spent, add_metric, leave_cost, read_bin


def main() -> None:
    """One JSON object, also left as `cost.json` beside the index."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--base", required=True)
    p.add_argument("--out", required=True, type=Path)
    p.add_argument("--links", type=int, default=16, help="M")
    p.add_argument("--ef-construction", type=int, default=100)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--seed", type=int, default=1)
    add_metric(p)
    a = p.parse_args()

    data = read_bin(a.base)
    a.out.mkdir(parents=True, exist_ok=True)
    spent = Spent()
    index = hnswlib.Index(space=a.metric, dim=data.shape[1])
    index.init_index(len(data), ef_construction=a.ef_construction, M=a.links, random_seed=a.seed)
    index.add_items(data, num_threads=a.threads)
    cost = {
        "system": "hnswlib",
        "version": version("hnswlib"),
        "rows": len(data),
        "dim": data.shape[1],
        "links": a.links,
        "ef_construction": a.ef_construction,
        "threads": a.threads,
        **spent.so_far(),
    }
    index.save_index(str(a.out / "index.bin"))
    leave_cost(cost, a.out)


if __name__ == "__main__":
    main()
