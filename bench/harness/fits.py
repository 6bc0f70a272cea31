"""Least squares through few points: straight lines, and curves that a logarithm makes straight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fit:
    """`value = base + slope * x`, where a fit by powers takes `x` and `value` as logarithms."""

    base: float
    slope: float
    powers: bool = False

    @classmethod
    def line(cls, xs: Sequence[float], ys: Sequence[float]) -> Fit:
        """The straight line of least squares."""
        mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
        spread = sum((x - mean_x) ** 2 for x in xs)
        slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
        return cls(mean_y - slope * mean_x, slope)

    @classmethod
    def logarithm(cls, ns: Sequence[float], ys: Sequence[float]) -> Fit:
        """`y = base + slope ln n`."""
        return cls.line([math.log(n) for n in ns], ys)

    @classmethod
    def power(cls, ns: Sequence[float], ys: Sequence[float]) -> Fit:
        """`y = exp(base) n^slope`."""
        found = cls.line([math.log(n) for n in ns], [math.log(y) for y in ys])
        return cls(found.base, found.slope, powers=True)

    def at(self, n: float) -> float:
        """The value that the fit gives for `n` of a logarithm or of a power."""
        value = self.base + self.slope * math.log(n)
        return math.exp(value) if self.powers else value

    def r_squared(self, ns: Sequence[float], ys: Sequence[float]) -> float:
        """The share of the variance of `ys` that the fit explains."""
        mean = sum(ys) / len(ys)
        left = sum((y - self.at(n)) ** 2 for n, y in zip(ns, ys, strict=True))
        return 1.0 - left / sum((y - mean) ** 2 for y in ys)


def least_squares(terms: Sequence[Sequence[float]], ys: Sequence[float]) -> list[float]:
    """The coefficients by which the terms of each row add up to its `y` as nearly as they can.

    A coefficient whose term is always zero, or that the others tell, is zero."""
    count = len(terms[0])
    matrix = [
        [sum(row[i] * row[j] for row in terms) for j in range(count)]
        + [sum(row[i] * y for row, y in zip(terms, ys, strict=True))]
        for i in range(count)
    ]
    scale = max(abs(matrix[i][i]) for i in range(count))
    free: list[int] = []
    for i in range(count):
        if abs(matrix[i][i]) <= 1e-10 * scale:
            continue
        free.append(i)
        matrix[i] = [value / matrix[i][i] for value in matrix[i]]
        for j in range(count):
            if j != i:
                by = matrix[j][i]
                matrix[j] = [a - by * b for a, b in zip(matrix[j], matrix[i], strict=True)]
    return [matrix[i][count] if i in free else 0.0 for i in range(count)]


def relative(
    terms: Sequence[Sequence[float]], ys: Sequence[float], least: float = 0.0
) -> list[float]:
    """As `least_squares`, of errors relative to `y`; what would be below `least` is left out."""
    kept = list(range(len(terms[0])))
    while True:
        rows = [[row[i] / y for i in kept] for row, y in zip(terms, ys, strict=True)]
        found = least_squares(rows, [1.0] * len(ys))
        low = min(found, default=least)
        if low >= least:
            by_term = dict(zip(kept, found, strict=True))
            return [by_term.get(i, 0.0) for i in range(len(terms[0]))]
        del kept[found.index(low)]
