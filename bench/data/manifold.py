"""Make a set of a third dimension: rows on a smooth surface of few inner dimensions, with noise.

Each row is `tanh(A z)` of a normal `z` of 20 components, with noise of a twentieth on each of its
256, as f32. The inner dimension decides how hard a set is, as with real vectors; rows and queries
are of one distribution. Writes `manifold.base.fbin`, `manifold.query.fbin` and
`manifold.gt100.bin` to OUT.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from exact import exact_neighbours, write_rows, write_truth

ROWS, QUERIES, DIM, INNER, K = 100_000, 1_000, 256, 20, 100
SEED, NOISE = 20, 0.05
BLOCK = 20_000


def main() -> None:
    """Draw rows and queries, find the truth, write."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", type=Path, required=True)
    out: Path = p.parse_args().out
    rng = np.random.default_rng(SEED)
    surface = rng.standard_normal((INNER, DIM), dtype=np.float32) / np.sqrt(INNER)

    def draw(rows: int) -> np.ndarray:
        blocks = []
        for start in range(0, rows, BLOCK):
            count = min(BLOCK, rows - start)
            z = rng.standard_normal((count, INNER), dtype=np.float32)
            noise = rng.standard_normal((count, DIM), dtype=np.float32)
            blocks.append(np.tanh(z @ surface) + NOISE * noise)
        return np.concatenate(blocks).astype(np.float32)

    base, queries = draw(ROWS), draw(QUERIES)
    write_rows(out / "manifold.base.fbin", base)
    write_rows(out / "manifold.query.fbin", queries)
    # The truth comes last: where it stands, the set is whole.
    write_truth(out / "manifold.gt100.bin", *exact_neighbours(base, queries, K))


if __name__ == "__main__":
    main()
