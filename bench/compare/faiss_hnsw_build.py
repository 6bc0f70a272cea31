"""Build an HNSW index by FAISS and record what it cost.

Vectors of bytes are kept as they are (`QT_8bit_direct`): a quarter of the memory of floats, and
faster.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import faiss
import numpy as np
from vectors import Spent, leave_cost, read_bin

ADDED_AT_ONCE = 50_000


def main() -> None:
    """One JSON object, also left as `cost.json` beside the index."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--base", required=True)
    p.add_argument("--out", required=True, type=Path)
    p.add_argument("--links", type=int, default=32, help="M")
    p.add_argument("--ef-construction", type=int, default=100)
    a = p.parse_args()
    base = read_bin(a.base)
    dim = base.shape[1]
    if base.dtype == np.uint8:
        direct = faiss.ScalarQuantizer.QT_8bit_direct
        index = faiss.IndexHNSWSQ(dim, direct, a.links)
        index.train(base[:1000].astype(np.float32))
    else:
        index = faiss.IndexHNSWFlat(dim, a.links)
    index.hnsw.efConstruction = a.ef_construction
    spent = Spent()
    for start in range(0, len(base), ADDED_AT_ONCE):
        index.add(base[start : start + ADDED_AT_ONCE].astype(np.float32))
    cost = {"system": "faiss hnsw", "rows": len(base), "links": a.links, **spent.so_far()}
    faiss.write_index(index, str(a.out / "hnsw.faiss"))
    leave_cost(cost, a.out)


if __name__ == "__main__":
    main()
