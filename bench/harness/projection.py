"""A model of what a query costs a cluster, and what that makes of more servers than there are.

    processor time = query + reads * read + hops * (message + waking)
    queries a second = the least of servers * cores * 1e6 / processor time and
                       servers * device / reads, over skew

The constants of a query and of a read are a line through what one server takes with longer and
longer lists; those of a hop come from `pipeann-lab hop`. Nothing is fitted to several servers.
Links between servers, and whoever asks, are taken to have room.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from .processes import Row


@dataclass(frozen=True)
class Costs:
    """Processor time in us."""

    query: float
    read: float
    message: float
    waking: float

    @classmethod
    def fitted(cls, one: Sequence[Row], message: float, waking: float) -> Costs:
        """From rows of one server, which have `pages` and `server_us`."""
        line = statistics.linear_regression(
            [row["pages"] for row in one], [row["server_us"] for row in one]
        )
        return cls(line.intercept, line.slope, message, waking)

    def relay(self, reads: float, hops: float) -> float:
        """A query that travels."""
        return self.query + reads * self.read + hops * (self.message + self.waking)

    def scatter(self, reads: float, servers: int) -> float:
        """A query that every server answers from a graph of its own, `reads` in all."""
        return servers * self.query + reads * self.read

    def orchestrated(self, reads: float, messages: float) -> float:
        """A query whose state stays where it is: of its messages each second one asks a server,
        which has to make ready for the query, and the others answer."""
        return self.query + reads * self.read + messages * (self.message + self.waking / 2)


def error(predicted: float, measured: float) -> float:
    """How far a prediction is off, as a share of what was measured."""
    return abs(predicted - measured) / measured


def speed_up(servers: int, one: float, each: float, skew: float) -> float:
    """Rate of so many servers over that of one, where a query takes `each` of what limits them
    and took `one`, and the busiest server has `skew` of the mean to do."""
    return servers * one / each / skew
