"""Make the columns of a filtered set, the queries and filters of its cells, and their exact truth.

    python filter_cells.py --base sift1m.base.u8bin --queries sift.query.u8bin \\
        --tags sift1m.tags.base.spmat --tag-queries sift1m.tags.query.spmat --rows 1000000 --out DIR

Writes `columns.jsonl`, `cells.json`, for each cell a directory with `queries.u8bin` (or as the type
of the set is called), `filters.txt` and `truth.bin`, and the same without filters as `plain`. In
truth, by squared L2, 2^32 - 1 fills the places of queries that fewer rows match. Without tags there
are no cells of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from exact import SPARE, TYPES, write_rows, write_truth
from filter_columns import CENTRES, KINDS, NEAR_SHARES, SHARES, Cells, Columns, Filter

K = 10
NO_ROW = np.uint32(0xFFFFFFFF)
# Tag queries come in cells by the share of rows that match.
TAG_BOUNDS = (0.0, 0.0001, 0.001, 0.01, 0.05, 0.2, 1.0)
# Queries without filters, and how many of them are compared with all rows at once.
PLAIN = 1000
BLOCK = 100
# Far queries are drawn from this share of them, those farthest from a centre.
FAR = 0.1


def read_rows(path: Path, rows: int | None = None) -> np.ndarray:
    """The first rows of a file of vectors."""
    have, dim = (int(v) for v in np.fromfile(path, dtype="<u4", count=2))
    count = min(rows or have, have) * dim
    return np.fromfile(path, dtype=TYPES[path.suffix], offset=8, count=count).reshape(-1, dim)


def read_bags(path: Path | None, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The first rows of a `.spmat` file: where each ends, and the columns that it has. Empty rows
    where there is no file."""
    if path is None:
        return np.zeros(rows + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    have, _, entries = (int(v) for v in np.fromfile(path, dtype="<i8", count=3))
    ends = np.fromfile(path, dtype="<i8", offset=24, count=have + 1)
    tags = np.fromfile(path, dtype="<i4", offset=24 + 8 * (have + 1), count=entries)
    ends = ends[: min(rows, have) + 1]
    return ends, tags[: ends[-1]]


@dataclass
class Base:
    """Vectors with what distances to them need."""

    wide: np.ndarray
    norms: np.ndarray

    @classmethod
    def of(cls, base: np.ndarray) -> Base:
        """Of vectors."""
        wide = base.astype(np.float32)
        return cls(wide, np.einsum("ij,ij->i", wide, wide))

    def distances(self, queries: np.ndarray) -> np.ndarray:
        """Squared L2 between each query and each row."""
        wide = queries.astype(np.float32)
        own = np.einsum("ij,ij->i", wide, wide)
        return self.norms[None, :] - 2.0 * (wide @ self.wide.T) + own[:, None]


def nearest(
    base: Base, query: np.ndarray, distances: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The K nearest rows of a mask, ties to the smaller id, and their distances. Those that are
    given have rounding errors where vectors are no bytes, so some more rows are compared anew."""
    ids = np.full(K, NO_ROW)
    found = np.full(K, np.inf, dtype=np.float32)
    rows = np.flatnonzero(mask)
    if len(rows) > K + SPARE:
        rough = distances[rows]
        last = np.partition(rough, K + SPARE - 1)[K + SPARE - 1]
        rows = rows[rough <= last]
    gaps = base.wide[rows].astype(np.float64) - query.astype(np.float64)
    there = np.einsum("ij,ij->i", gaps, gaps)
    order = np.argsort(there, kind="stable")[:K]
    ids[: len(order)], found[: len(order)] = rows[order], there[order]
    return ids, found


@dataclass
class Writer:
    """Writes cells and remembers what they are."""

    out: Path
    base: Base
    suffix: str
    written: list[dict[str, object]]

    def cell(
        self,
        kind: str,
        share: float,
        queries: np.ndarray,
        distances: np.ndarray,
        filter_of: Callable[[int], Filter],
    ) -> None:
        """One cell: a filter and the truth for each query."""
        name = f"{kind}-{100 * share:g}"
        folder = self.out / "cells" / name
        folder.mkdir(parents=True)
        texts, ids, near, matches = [], [], [], []
        for i in range(len(queries)):
            text, mask = filter_of(i)
            texts.append(text)
            matches.append(int(mask.sum()))
            found = nearest(self.base, queries[i], distances[i], mask)
            ids.append(found[0])
            near.append(found[1])
        write_rows(folder / f"queries{self.suffix}", queries)
        (folder / "filters.txt").write_text("".join(f"{text}\n" for text in texts))
        write_truth(folder / "truth.bin", np.array(ids), np.array(near))
        cell = {"name": name, "kind": kind, "share": share, "queries": len(queries)}
        matched = float(np.mean(matches)) / len(self.base.wide)
        cell |= {"matched": matched, "filters": len(set(texts))}
        self.written.append(cell)
        print(f"{name}: {cell['matched']:.5%} match, {cell['filters']} filters", flush=True)


def write_plain(out: Path, base: Base, queries: np.ndarray, suffix: str) -> None:
    """Queries without filters, and their truth."""
    out.mkdir()
    everything = np.ones(len(base.wide), dtype=bool)
    found = []
    for start in range(0, len(queries), BLOCK):
        block = queries[start : start + BLOCK]
        pairs = zip(block, base.distances(block), strict=True)
        found += [nearest(base, query, row, everything) for query, row in pairs]
    write_rows(out / f"queries{suffix}", queries)
    write_truth(out / "truth.bin", *(np.array(part) for part in zip(*found, strict=True)))


def near_queries(
    queries: np.ndarray, centres: np.ndarray, count: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Queries near each centre and far from it; query i belongs to centre i modulo their number."""
    each = count // CENTRES
    chosen: dict[str, list[np.ndarray]] = {"near": [], "far": []}
    for centre in centres:
        order = np.argsort(Base.of(queries).distances(centre[None, :])[0], kind="stable")
        chosen["near"].append(order[:each])
        chosen["far"].append(rng.choice(order[-round(FAR * len(order)) :], each, replace=False))
    return {name: np.stack(some, axis=1).ravel() for name, some in chosen.items()}


def tag_cells(
    writer: Writer,
    base: Base,
    queries: np.ndarray,
    bags: tuple[np.ndarray, np.ndarray],
    asked: tuple[np.ndarray, np.ndarray],
    count: int,
) -> None:
    """The given tag queries, in cells by the share of rows that match."""
    (ends, tags), (starts, wanted) = bags, asked
    order = np.argsort(tags, kind="stable")
    owners = np.repeat(np.arange(len(ends) - 1), np.diff(ends))[order]
    edges = np.searchsorted(tags[order], np.arange(int(tags.max()) + 2))

    def mask(query: int) -> np.ndarray:
        """Rows with all the tags of a query."""
        found = np.ones(len(base.wide), dtype=bool)
        for tag in wanted[starts[query] : starts[query + 1]]:
            has = np.zeros(len(base.wide), dtype=bool)
            if tag + 1 < len(edges):
                has[owners[edges[tag] : edges[tag + 1]]] = True
            found &= has
        return found

    def text(query: int) -> str:
        names = wanted[starts[query] : starts[query + 1]].tolist()
        if len(names) == 1:
            return f"array_contains(tags, {names[0]})"
        return f"array_contains_all(tags, {names})"

    shares = np.array([mask(query).mean() for query in range(min(3000, len(starts) - 1))])
    for low, high in pairwise(TAG_BOUNDS):
        chosen = np.flatnonzero((shares > low) & (shares <= high))[:count]
        if len(chosen):
            distances = base.distances(queries[chosen])
            writer.cell(
                "tags",
                high,
                queries[chosen],
                distances,
                lambda i, chosen=chosen: (text(chosen[i]), mask(chosen[i])),
            )


def main() -> None:
    """Make everything."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("base", "queries", "out"):
        p.add_argument(f"--{name}", required=True, type=Path)
    for name in ("tags", "tag-queries"):
        p.add_argument(f"--{name}", type=Path)
    p.add_argument("--rows", type=int, required=True)
    p.add_argument("--count", type=int, default=100, help="queries of a cell")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()

    rng = np.random.default_rng(a.seed)
    vectors, queries = read_rows(a.base, a.rows), read_rows(a.queries)
    base = Base.of(vectors)
    centres = vectors[rng.choice(len(vectors), CENTRES, replace=False)]
    bags = read_bags(a.tags, len(vectors))
    columns = Columns.make(len(vectors), bags, base.distances(centres), rng)
    a.out.mkdir(parents=True, exist_ok=True)
    columns.write(a.out / "columns.jsonl")

    write_plain(a.out / "plain", base, queries[:PLAIN], a.base.suffix)
    writer, cells = Writer(a.out, base, a.base.suffix, []), Cells(columns, rng)
    some = queries[: a.count]
    distances = base.distances(some)
    for kind, make in KINDS.items():
        for share in SHARES:
            writer.cell(kind, share, some, distances, lambda i, m=make, s=share: m(cells, s, i))
    for kind, chosen in near_queries(queries, centres, a.count, rng).items():
        some = queries[chosen]
        distances = base.distances(some)
        for share in NEAR_SHARES:
            writer.cell(kind, share, some, distances, lambda i, s=share: cells.near(s, i))
    if a.tags is not None:
        asked = read_bags(a.tag_queries, len(queries))
        tag_cells(writer, base, queries, bags, asked, a.count)
    (a.out / "cells.json").write_text(json.dumps(writer.written, indent=1) + "\n")


if __name__ == "__main__":
    main()
