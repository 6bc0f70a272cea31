"""Curves of a column over recall: medians of rounds, values interpolated to one recall."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from .processes import Row


class OutOfRange(ValueError):
    """The lists searched do not bracket the recall asked for."""


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
        """The column's value at a recall, linear between the two rows around it."""
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
