"""Build the indexes that FAISS is searched with: HNSW, inverted lists, and a plain list.

Vectors are bytes, which all three keep as they are (`QT_8bit_direct`): a quarter of the memory of
floats, and faster.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import faiss
import numpy as np
from vectors import read_bin

# Bytes are kept as they are, floats as floats.
DIRECT = {
    np.dtype(np.uint8): faiss.ScalarQuantizer.QT_8bit_direct,
    np.dtype(np.int8): faiss.ScalarQuantizer.QT_8bit_direct_signed,
}
ADDED_AT_ONCE = 50_000


def made(kind: str, base: np.ndarray, a: argparse.Namespace) -> faiss.Index:
    """An empty index."""
    dim, direct = base.shape[1], DIRECT.get(base.dtype)
    if kind == "hnsw":
        if direct is None:
            index = faiss.IndexHNSWFlat(dim, a.links)
        else:
            index = faiss.IndexHNSWSQ(dim, direct, a.links)
        index.hnsw.efConstruction = a.ef_construction
        return index
    if kind == "ivf":
        coarse = faiss.IndexFlatL2(dim)
        if direct is None:
            return faiss.IndexIVFFlat(coarse, dim, a.lists)
        # Bytes are kept as they are, so not as differences from the centres of lists.
        return faiss.IndexIVFScalarQuantizer(coarse, dim, a.lists, direct, faiss.METRIC_L2, False)
    return faiss.IndexFlatL2(dim) if direct is None else faiss.IndexScalarQuantizer(dim, direct)


def main() -> None:
    """Build all, and write them with what they cost."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--base", required=True)
    p.add_argument("--out", required=True, type=Path)
    p.add_argument("--links", type=int, default=32)
    p.add_argument("--ef-construction", type=int, default=100)
    p.add_argument("--lists", type=int, default=1024)
    a = p.parse_args()
    base = read_bin(a.base)
    cost = {}
    for kind in ("flat", "ivf", "hnsw"):
        begun = time.perf_counter()
        index = made(kind, base, a)
        index.train(base[:: max(1, len(base) // 100_000)].astype(np.float32))
        for start in range(0, len(base), ADDED_AT_ONCE):
            index.add(base[start : start + ADDED_AT_ONCE].astype(np.float32))
        cost[f"{kind}_s"] = time.perf_counter() - begun
        faiss.write_index(index, str(a.out / f"{kind}.faiss"))
    (a.out / "cost.json").write_text(json.dumps(cost) + "\n")
    print(json.dumps(cost))


if __name__ == "__main__":
    main()
