"""Curves of a column over recall: medians of rounds, values interpolated to one recall."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .processes import Row

Ask = Callable[[Sequence[int]], list[Row]]


class OutOfRange(ValueError):
    """The lists searched do not bracket the recall asked for."""


# Lists are not extended beyond this, nor where recall no longer comes nearer to what is wanted.
MOST = 1000
NEARER = 0.95
# A recall so close to that of the shortest or the longest list may be outside in another round.
MARGIN = 0.001
# Of the lists within some, and by which more are tried.
STEP, DOUBLE = 1.4, 2.0


class Around(tuple[int, ...]):
    """List lengths to search, and recalls that they have to enclose: where they do not, shorter
    ones down to k and longer ones are searched as well."""

    recalls: tuple[float, ...]

    def __new__(cls, lists: Iterable[int], recalls: Iterable[float]) -> Around:
        """In order of length."""
        made = super().__new__(cls, sorted(set(lists)))
        made.recalls = tuple(recalls)
        return made


def enclosing(ask: Ask, lists: Sequence[int], k: int = 10) -> list[Row]:
    """The rows of some lists; where those are `Around` recalls, also those of the further lists
    that it takes to enclose these, for each number of servers; where none does, they end too."""
    rows = ask(lists)
    if not isinstance(lists, Around) or not all("recall" in row for row in rows):
        return rows
    asked, low, high = list(lists), min(lists.recalls), max(lists.recalls)
    while asked[0] > k and max(reached(rows, min)) > low - MARGIN:
        asked.insert(0, max(k, math.floor(asked[0] / STEP)))
        rows = ask(asked[:1]) + rows
    wanted = min(high + MARGIN, 1.0)
    while asked[-1] < MOST and (missed := wanted - min(reached(rows, max))) > 0:
        more = [min(MOST, math.ceil(asked[-1] * by)) for by in (STEP, DOUBLE)]
        asked += sorted(set(more))
        rows = rows + ask(asked[-len(set(more)) :])
        if wanted - min(reached(rows, max)) > NEARER * missed:
            break
    if len(asked) > len(lists):
        print(f"lists of {asked[0]} to {asked[-1]} around {', '.join(map(str, lists.recalls))}")
    return sorted(rows, key=lambda row: row["list"])


def reached(rows: Sequence[Row], end: Callable[..., float]) -> list[float]:
    """The least or the most recall of each number of servers."""
    by_servers: dict[Any, list[float]] = {}
    for row in rows:
        by_servers.setdefault(row.get("servers"), []).append(row["recall"])
    return [end(recalls) for recalls in by_servers.values()]


def longer(lists: Sequence[int]) -> list[int]:
    """Lists and longer ones, for a search that ends with the first that has a recall."""
    found = list(lists)
    while found[-1] < MOST:
        found.append(min(MOST, math.ceil(found[-1] * STEP)))
    return found


@dataclass(frozen=True)
class Curve:
    """One system's rows, one per list length, in order of recall."""

    name: str
    rows: tuple[Row, ...]

    @classmethod
    def of_rounds(cls, name: str, rounds: list[list[Row]]) -> Curve:
        """Column by column medians over rounds that searched the same lists."""
        by_list: dict[int, list[Row]] = {}
        for row in (row for rows in rounds for row in rows):
            by_list.setdefault(row["list"], []).append(row)
        merged = [median_row(rows) for rows in by_list.values()]
        return cls(name, tuple(sorted(merged, key=lambda row: row["recall"])))

    def at(self, column: str, recall: float) -> float:
        """The column's value at a recall, linear between the two rows around it. No list is shorter
        than k: where that finds more, it is the least that has the recall."""
        first = self.rows[0]
        if first["recall"] > recall and first["list"] <= first.get("k", 10):
            return float(first[column])
        return self.between(column, "recall", recall)

    def reaching(self, column: str, recall: float) -> float:
        """As `at`; where even the shortest list finds more, its row stands for the recall."""
        first = self.rows[0]
        return float(first[column]) if first["recall"] > recall else self.at(column, recall)

    def between(self, column: str, by: str, value: float) -> float:
        """The column's value where column `by` reaches a value."""
        rows = sorted(self.rows, key=lambda row: row[by])
        for low, high in pairwise(rows):
            if low[by] <= value <= high[by]:
                gap = high[by] - low[by]
                share = (value - low[by]) / gap if gap else 0.0
                return float(low[column] + share * (high[column] - low[column]))
        raise OutOfRange(
            f"{self.name}: {by} {value:g} is outside {rows[0][by]:.4g} to {rows[-1][by]:.4g};"
            " change the lists in the job file"
        )

    def row_at(self, recall: float) -> Row:
        """Every numeric column that all rows have, at a recall."""
        names = set.intersection(*(set(numbers(row)) for row in self.rows))
        return {name: self.at(name, recall) for name in sorted(names)}


def numbers(row: Row) -> dict[str, float]:
    """The numeric columns of a row."""
    return {
        name: value
        for name, value in row.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def median_row(rows: list[Row]) -> Row:
    """One row with the median of every numeric column; other columns from the first."""
    columns = [numbers(row) for row in rows]
    shared = set.intersection(*(set(c) for c in columns))
    return rows[0] | {name: statistics.median(c[name] for c in columns) for name in shared}


def interleave(systems: Mapping[str, Callable[[], list[Row]]], rounds: int) -> dict[str, Curve]:
    """Run the systems in turn (A B A B ...) and return each one's curve of medians.

    The device drifts within minutes; taking turns lets the drift fall on all alike.
    """
    taken: dict[str, list[list[Row]]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, run in systems.items():
            taken[name].append(run())
    return {name: Curve.of_rounds(name, rows) for name, rows in taken.items()}
