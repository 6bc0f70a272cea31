"""Make a column of chance beside vectors, filters that let a share of rows pass, and exact truth.

    python filter_windows.py --base B.fbin --queries Q.fbin --count 200 --share 0.1 --seed 1 --out DIR

Writes `chance.npy`, a float64 in [0, 1) for each row, and for the first queries `filters.txt`, each
the window of that share that begins at one of WINDOWS places, and `truth.bin`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from exact import TYPES, exact_neighbours, write_truth

K = 10
# In truth, where fewer rows pass.
NO_ROW = np.uint32(0xFFFFFFFF)
WINDOWS = 8


def read_rows(path: Path, rows: int | None = None) -> np.ndarray:
    """The first rows of a file of vectors."""
    have, dim = (int(v) for v in np.fromfile(path, dtype="<u4", count=2))
    count = min(rows or have, have)
    kind = TYPES[path.suffix]
    return np.fromfile(path, dtype=kind, offset=8, count=count * dim).reshape(count, dim)


def main() -> None:
    """See the module's description."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--share", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    base, queries = read_rows(args.base), read_rows(args.queries, args.count)
    chance = np.random.default_rng(args.seed).random(len(base))
    begins = np.arange(WINDOWS) * (1 - args.share) / WINDOWS
    ids = np.full((len(queries), K), NO_ROW)
    distances = np.full((len(queries), K), np.inf, dtype=np.float32)
    filters = [""] * len(queries)
    for window, begin in enumerate(begins):
        asked = np.arange(window, len(queries), WINDOWS)
        text = f"chance >= {begin:.6f} and chance < {begin + args.share:.6f}"
        low, high = float(f"{begin:.6f}"), float(f"{begin + args.share:.6f}")
        rows = np.flatnonzero((chance >= low) & (chance < high))
        near, found = exact_neighbours(base[rows], queries[asked], K)
        distances[asked, : found.shape[1]] = found
        ids[asked, : found.shape[1]] = rows[near]
        for query in asked:
            filters[query] = text
    args.out.mkdir(parents=True)
    np.save(args.out / "chance.npy", chance)
    (args.out / "filters.txt").write_text("\n".join(filters) + "\n")
    write_truth(args.out / "truth.bin", ids, distances)


if __name__ == "__main__":
    main()
