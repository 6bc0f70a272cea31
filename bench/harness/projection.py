"""A model of what a query costs a cluster, and what that makes of more servers than there are.

    processor time = query + reads * read + distances * distance + hops * (message + waking)
    queries a second = the least of servers * cores * 1e6 / processor time and
                       servers * device / reads, over skew

What our query and its reads take is a line through what one server takes with longer and longer
lists; what a hop takes comes from `pipeann-lab hop`. Where a list stays with whoever asks, servers
are priced by what one took of that way itself: there a page is read for many more distances, or
for fewer, which also tells what a distance takes. Nothing is fitted to several servers. Links
between servers, and whoever asks, are taken to have room.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from .fits import relative
from .processes import Row


@dataclass(frozen=True)
class Scoring:
    """Processor time in us of servers that read and score for whoever keeps the list: their ends of
    messages alone, with what they have to make ready for each."""

    query: float
    read: float
    distance: float
    message: float

    @classmethod
    def fitted(cls, one: Sequence[Row]) -> Scoring:
        """From rows of one server asked in several ways; none of its constants is below zero."""
        terms = [[1.0, row["pages"], row["code_distances"], row["messages"]] for row in one]
        return cls(*relative(terms, [row["server_us"] for row in one]))

    def cost(self, reads: float, distances: float, messages: float) -> float:
        """A query of so many reads, distances and messages."""
        made = reads * self.read + distances * self.distance
        return self.query + made + messages * self.message


@dataclass(frozen=True)
class Costs:
    """Processor time in us. Without `distance` that of a read has its distances in it."""

    query: float
    read: float
    message: float
    waking: float
    distance: float = 0.0

    @classmethod
    def fitted(
        cls, one: Sequence[Row], message: float, waking: float, distance: float = 0.0
    ) -> Costs:
        """From rows of one server, which have `pages`, `code_distances` and `server_us`; what a
        distance takes is told, since in them it goes with the pages."""
        rest = [row["server_us"] - distance * row["code_distances"] for row in one]
        line = statistics.linear_regression([row["pages"] for row in one], rest)
        return cls(line.intercept, line.slope, message, waking, distance)

    @property
    def sound(self) -> bool:
        """Whether nothing takes less than no time."""
        return min(self.query, self.read, self.distance) >= 0

    def relay(self, reads: float, distances: float, hops: float) -> float:
        """A query that travels."""
        return self.scatter(reads, distances, 1) + hops * (self.message + self.waking)

    def scatter(self, reads: float, distances: float, servers: int) -> float:
        """A query that so many servers answer, each from a graph of its own; all of its reads."""
        return servers * self.query + reads * self.read + distances * self.distance


def error(predicted: float, measured: float) -> float:
    """How far a prediction is off, as a share of what was measured."""
    return abs(predicted - measured) / measured


def speed_up(servers: int, one: float, each: float, skew: float) -> float:
    """Rate of so many servers over that of one, where a query takes `each` of what limits them
    and took `one`, and the busiest server has `skew` of the mean to do."""
    return servers * one / each / skew
