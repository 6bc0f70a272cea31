"""Build an HNSW index by FAISS and record what it cost.

Vectors of bytes are kept as they are (`QT_8bit_direct`, `QT_8bit_direct_signed`): a quarter of the
memory of floats, and faster. Of the cosine they are brought to length one, as floats.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import faiss
import numpy as np
from vectors import Spent, add_metric, leave_cost, of_length_one, read_bin

ADDED_AT_ONCE = 50_000
DIRECT = {
    np.dtype(np.uint8): faiss.ScalarQuantizer.QT_8bit_direct,
    np.dtype(np.int8): faiss.ScalarQuantizer.QT_8bit_direct_signed,
}


def main() -> None:
    """One JSON object, also left as `cost.json` beside the index."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--base", required=True)
    p.add_argument("--out", required=True, type=Path)
    p.add_argument("--links", type=int, default=32, help="M")
    p.add_argument("--ef-construction", type=int, default=100)
    add_metric(p)
    a = p.parse_args()
    base = read_bin(a.base)
    dim, metric = base.shape[1], faiss.METRIC_INNER_PRODUCT if a.metric == "ip" else faiss.METRIC_L2
    if a.metric == "cosine":
        base = of_length_one(base)
    if base.dtype in DIRECT:
        index = faiss.IndexHNSWSQ(dim, DIRECT[base.dtype], a.links, metric)
        index.train(base[:1000].astype(np.float32))
    else:
        index = faiss.IndexHNSWFlat(dim, a.links, metric)
    index.hnsw.efConstruction = a.ef_construction
    spent = Spent()
    for start in range(0, len(base), ADDED_AT_ONCE):
        index.add(base[start : start + ADDED_AT_ONCE].astype(np.float32))
    cost = {"system": "faiss hnsw", "rows": len(base), "links": a.links, **spent.so_far()}
    faiss.write_index(index, str(a.out / "hnsw.faiss"))
    leave_cost(cost, a.out)


if __name__ == "__main__":
    main()
