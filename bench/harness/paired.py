"""Two systems run in turn many times: the ratio of each pair, and how sure their mean is.

Where one looks again and again until an interval decides, each look has a chance to err. So the
looks are few and agreed beforehand, and share the 5% that a single one may have.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

# Two-sided 95% quantiles of Student's t for few degrees of freedom, which no expansion tells.
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def student(freedom: int, error: float = 0.05) -> float:
    """The two-sided quantile of Student's t; of up to ten degrees only with an error of 5%."""
    if freedom <= len(T_95):
        if error != 0.05:
            raise ValueError(f"{freedom} degrees of freedom are too few for an error of {error}")
        return T_95[freedom - 1]
    z = NormalDist().inv_cdf(1 - error / 2)
    # Cornish and Fisher's expansion around the normal quantile.
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


@dataclass(frozen=True)
class Interval:
    """A mean ratio and the ends of its 95% interval."""

    mean: float
    low: float
    high: float

    def decides(self, limit: float) -> bool:
        """Whether a limit lies outside."""
        return not self.low <= limit <= self.high

    @classmethod
    def of(cls, ratios: Sequence[float], error: float = 0.05) -> Interval:
        """By Student's t on the logarithms, so that A over B is the inverse of B over A."""
        logs = [math.log(ratio) for ratio in ratios]
        mean, freedom = statistics.mean(logs), len(logs) - 1
        if freedom == 0:
            return cls(ratios[0], 0.0, math.inf)
        half = student(freedom, error) * statistics.stdev(logs) / math.sqrt(len(logs))
        return cls(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def in_pairs(
    first: Callable[[], float], second: Callable[[], float], pairs: int
) -> list[tuple[float, float]]:
    """Both values so many times, taken one right after the other; who begins alternates, so that
    a drift of the device favours neither."""
    found = []
    for pair in range(pairs):
        if pair % 2 == 0:
            value = first()
            found.append((value, second()))
        else:
            other = second()
            found.append((first(), other))
    return found


def until_decided(
    first: Callable[[], float], second: Callable[[], float], limit: float, looks: Sequence[int]
) -> tuple[Interval, int]:
    """The ratio of both values, and the pairs that it took: as many as the first of the `looks`
    (ascending) after which the limit lies outside of the interval, else as many as the last."""
    ratios: list[float] = []
    found = Interval(math.nan, 0.0, math.inf)
    for look in looks:
        # An even number of pairs, so that each look has gone A B B A.
        ratios += [a / b for a, b in in_pairs(first, second, look - len(ratios))]
        found = Interval.of(ratios, 0.05 / len(looks))
        if found.decides(limit):
            break
    return found, len(ratios)
