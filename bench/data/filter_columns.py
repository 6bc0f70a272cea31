"""Columns beside the vectors of a set, made from a seed, and the filters of every cell.

A cell is a kind of filter at a share of rows that match. Its filters differ from query to query
wherever there are enough ways to write one, so that kept answers to filters do not help.

| column | holds |
|---|---|
| `tags` | array of int64: the bag of tags that the set came with |
| `marks` | array of varchar: labels `SHARE-I` that many rows have by chance, and `near-SHARE-I` |
| `stamp` | int64, unique, multiples of 1000 in random order |
| `size` | int64, skewed: logarithms are normal |
| `score` | double, uniform in [0, 1) |
| `path` | varchar: half of the rows begin `/home/a/`, a thousandth `/var/12`, and so on |

The rows with `near-SHARE-I` are found around centre I: four fifths of those that are near enough.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

# How many labels there are of each share.
LABELS = {
    0.0001: 40,
    0.001: 40,
    0.01: 20,
    0.05: 20,
    0.1: 4,
    0.2: 8,
    0.5: 4,
    0.8: 2,
    0.9: 2,
    0.95: 3,
}
SHARES = (0.0001, 0.001, 0.01, 0.05, 0.2, 0.5, 0.9)
# Shares that give about the one wanted: by both of two, by either of two, by a range and a label.
BOTH = {0.0001: (0.01, 0.01), 0.001: (0.1, 0.01), 0.01: (0.05, 0.2), 0.05: (0.1, 0.5)}
BOTH |= {0.2: (0.2, 0.95), 0.5: (0.5, 0.95), 0.9: (0.95, 0.95)}
EITHER = {0.0001: (0.0001, 0.0001), 0.001: (0.001, 0.0001), 0.01: (0.01, 0.001)}
EITHER |= {0.05: (0.05, 0.01), 0.2: (0.1, 0.1), 0.5: (0.5, 0.05), 0.9: (0.8, 0.5)}
RANGE_AND = {0.0001: (0.01, 0.01), 0.001: (0.1, 0.01), 0.01: (0.2, 0.05), 0.05: (0.25, 0.2)}
RANGE_AND |= {0.2: (0.4, 0.5), 0.5: (0.55, 0.9), 0.9: (0.95, 0.95)}
# Places that rows are spread over, and the rest of a path: digits.
PLACES = {"/home/a/": 0.5, "/home/b/": 0.2, "/home/c/": 0.05, "/home/d/": 0.15, "/var/": 0.1}
PREFIXES = {0.9: ["/home/"], 0.5: ["/home/a/"], 0.2: ["/home/b/"], 0.05: ["/home/c/"]}
PREFIXES |= {
    0.1**digits / 10: [f"/var/{n:0{digits}}" for n in range(10**digits)] for digits in (1, 2, 3)
}
NEAR_SHARES = (0.0001, 0.001, 0.01, 0.05, 0.2, 0.5)
CENTRES = 10
# Of the rows that are near enough, those that have the label.
NEAR_HIT = 0.8
STEP = 1000

Filter = tuple[str, np.ndarray]


def label(share: float, number: int) -> str:
    """The name of a label that rows have by chance."""
    return f"{share}-{number}"


def near(share: float, centre: int) -> str:
    """The name of a label of rows around a centre."""
    return f"near-{share}-{centre}"


@dataclass
class Columns:
    """All columns of a set; labels by the ids of their rows."""

    rows: int
    tags: tuple[np.ndarray, np.ndarray]  # ends of rows, tags
    labels: dict[str, np.ndarray]
    stamp: np.ndarray
    size: np.ndarray
    score: np.ndarray
    path: list[str]

    @classmethod
    def make(
        cls,
        rows: int,
        tags: tuple[np.ndarray, np.ndarray],
        from_centres: np.ndarray,
        rng: np.random.Generator,
    ) -> Columns:
        """Columns from chance and from the distances of rows to the centres."""
        labels = {}
        for share, count in LABELS.items():
            for i in range(count):
                labels[label(share, i)] = np.flatnonzero(rng.random(rows) < share)
        for i, distances in enumerate(from_centres):
            order = np.argsort(distances, kind="stable")
            for share in NEAR_SHARES:
                ball = order[: round(share * rows / NEAR_HIT)]
                labels[near(share, i)] = np.sort(ball[rng.random(len(ball)) < NEAR_HIT])
        place = rng.choice(list(PLACES), size=rows, p=list(PLACES.values()))
        digits = rng.integers(0, 10**6, rows)
        return cls(
            rows,
            tags,
            labels,
            stamp=rng.permutation(rows) * STEP,
            size=np.exp(rng.normal(8, 2, rows)).astype(np.int64),
            score=rng.random(rows),
            path=[f"{p}{d:06}" for p, d in zip(place, digits, strict=True)],
        )

    def mask(self, name: str) -> np.ndarray:
        """Which rows have a label."""
        found = np.zeros(self.rows, dtype=bool)
        found[self.labels[name]] = True
        return found

    def write(self, path: Path) -> None:
        """Write a file of columns as `pipeann-lab collections fill` reads it."""
        marks: list[list[str]] = [[] for _ in range(self.rows)]
        for name, rows in self.labels.items():
            for row in rows.tolist():
                marks[row].append(name)
        numbers = [self.stamp.tolist(), self.size.tolist(), self.score.tolist()]
        with path.open("w") as out:
            print(json.dumps(FIELDS), file=out)
            columns = zip(self.tag_lists(), marks, *numbers, self.path, strict=True)
            for values in columns:
                print(json.dumps(values, separators=(",", ":")), file=out)

    def tag_lists(self) -> Iterator[list[int]]:
        """The tags of each row."""
        ends, tags = self.tags
        for start, end in pairwise(ends):
            yield tags[start:end].tolist()


FIELDS: list[dict[str, object]] = [
    {"name": "tags", "data_type": "array<int64>", "max_capacity": 64},
    {"name": "marks", "data_type": "array<varchar>", "max_capacity": 128, "max_bytes": 32},
    {"name": "stamp", "data_type": "int64"},
    {"name": "size", "data_type": "int64"},
    {"name": "score", "data_type": "double"},
    {"name": "path", "data_type": "varchar", "max_bytes": 64},
]


def contains(name: str) -> str:
    """The filter for rows with a label."""
    return f"array_contains(marks, '{name}')"


class Cells:
    """Filters by kind: each method makes the i-th one of a share."""

    def __init__(self, columns: Columns, rng: np.random.Generator) -> None:
        self.columns = columns
        self.rng = rng
        self.sizes = np.sort(columns.size)

    def label(self, share: float, i: int) -> Filter:
        """Rows with one label."""
        name = label(share, i % LABELS[share])
        return contains(name), self.columns.mask(name)

    def _two(self, shares: tuple[float, float], i: int) -> tuple[str, str]:
        a, b = shares
        if a != b:
            return label(a, i % LABELS[a]), label(b, (i // LABELS[a]) % LABELS[b])
        pairs = [(x, y) for x in range(LABELS[a]) for y in range(x)]
        x, y = pairs[i % len(pairs)]
        return label(a, x), label(b, y)

    def both(self, share: float, i: int) -> Filter:
        """Rows with both of two labels, in either way to write it."""
        a, b = self._two(BOTH[share], i)
        text = f"{contains(a)} and {contains(b)}"
        text = text if i % 2 else f"array_contains_all(marks, ['{a}', '{b}'])"
        return text, self.columns.mask(a) & self.columns.mask(b)

    def either(self, share: float, i: int) -> Filter:
        """Rows with one of two labels or both, in either way to write it."""
        a, b = self._two(EITHER[share], i)
        text = f"{contains(a)} or {contains(b)}"
        text = text if i % 2 else f"array_contains_any(marks, ['{a}', '{b}'])"
        return text, self.columns.mask(a) | self.columns.mask(b)

    def _stamps(self, share: float) -> tuple[int, int, np.ndarray]:
        rows = self.columns.rows
        width = round(share * rows)
        low = int(self.rng.integers(0, rows - width + 1))
        low, high, stamp = low * STEP, (low + width) * STEP, self.columns.stamp
        return low, high, (stamp >= low) & (stamp < high)

    def range(self, share: float, i: int) -> Filter:
        """Rows with a number in a range: integers and floating point numbers in turn."""
        if i % 2:
            low, high, mask = self._stamps(share)
            return f"{low} <= stamp < {high}", mask
        start = float(self.rng.random() * (1 - share))
        score, end = self.columns.score, start + share
        return f"score >= {start!r} and score < {end!r}", (score >= start) & (score < end)

    def range_and(self, share: float, i: int) -> Filter:
        """Rows whose skewed number is above a bound, and that have a label."""
        above, of_label = RANGE_AND[share]
        name = label(of_label, i % LABELS[of_label])
        # A bound a little off for each query, so that filters differ.
        at = round((1 - above) * self.columns.rows) - i * self.columns.rows // 200_000
        bound = int(self.sizes[max(0, at)])
        mask = (self.columns.size >= bound) & self.columns.mask(name)
        return f"size >= {bound} and {contains(name)}", mask

    def negated(self, share: float, i: int) -> Filter:
        """Rows outside two ranges where few match, else rows without a label."""
        if share < 0.05:
            low, high, mask = self._stamps(share)
            return f"not (stamp < {low} or stamp >= {high})", mask
        other = round(1 - share, 2)
        name = label(other, i % LABELS[other])
        return f"not {contains(name)}", ~self.columns.mask(name)

    def prefix(self, share: float, i: int) -> Filter:
        """Rows whose text begins so."""
        known = min(PREFIXES, key=lambda known: abs(known - share))
        choices = PREFIXES[known]
        start = choices[i * 7 % len(choices)]
        mask = np.fromiter((p.startswith(start) for p in self.columns.path), bool)
        return f"path like '{start}%'", mask

    def near(self, share: float, i: int) -> Filter:
        """Rows around the centre of the query's group."""
        name = near(share, i % CENTRES)
        return contains(name), self.columns.mask(name)


KINDS: dict[str, Callable[[Cells, float, int], Filter]] = {
    "label": Cells.label,
    "and": Cells.both,
    "or": Cells.either,
    "range": Cells.range,
    "range-and": Cells.range_and,
    "not": Cells.negated,
    "like": Cells.prefix,
}
