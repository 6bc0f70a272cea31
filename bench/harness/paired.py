"""Two systems run in turn many times: the ratio of each pair, and how sure their mean is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Two-sided 95% quantiles of Student's t by degrees of freedom; beyond the last, the normal one.
T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
NORMAL_95 = 1.960


@dataclass(frozen=True)
class Interval:
    """A mean ratio and the ends of its 95% interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: Sequence[float]) -> Interval:
        """By Student's t on the logarithms, so that A over B is the inverse of B over A."""
        logs = [math.log(ratio) for ratio in ratios]
        mean, freedom = statistics.mean(logs), len(logs) - 1
        if freedom == 0:
            return cls(ratios[0], 0.0, math.inf)
        t = T_95[freedom - 1] if freedom <= len(T_95) else NORMAL_95
        half = t * statistics.stdev(logs) / math.sqrt(len(logs))
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
