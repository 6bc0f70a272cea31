"""Rivals at their best: every way of asking a graph for each server, counted in one process, and the
ways of one whose list stays with whoever asks (DistributedANN).

What a graph for each server costs depends on how rows are shared out, on how many results each server
is asked for, on reads in flight and on how many servers are asked. All of it is swept and printed; the
fewest reads at the recall are the rival's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import pipeann
from harness.clusters import apart
from harness.curves import Curve
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table

from .cluster import cheapest


@dataclass(frozen=True)
class Way:
    """How servers that each have a graph of their own rows are asked."""

    partition_by: str
    width: int
    each: int
    # The nearest servers by the means of their rows; all of them where there is none.
    nearest: int | None = None

    @property
    def name(self) -> str:
        """As tables have it."""
        asked = "all" if self.nearest is None else f"the nearest {self.nearest}"
        return f"{asked}, by {self.partition_by}, width {self.width}, {self.each} of each"


@dataclass(frozen=True)
class Scattered:
    """A way, over recall."""

    way: Way
    curve: Curve


@dataclass(frozen=True)
class Kept:
    """How servers are asked where the list stays with whoever asks: nodes of a step, and whether every
    record of a page is used and the search stops early, as relay does, or one record is, as in the
    paper."""

    width: int
    packed: bool

    @property
    def name(self) -> str:
        """As tables have it."""
        return f"distributed-ann, {'packed, ' if self.packed else ''}width {self.width}"

    @property
    def words(self) -> list[str]:
        """As the command line has it."""
        words = ["--mode", "distributed-ann", "--width", str(self.width)]
        return [*words, "--packed"] if self.packed else words


def kept_ways(widths: Sequence[int]) -> list[Kept]:
    """Both ways, each by its width."""
    return [Kept(width, packed) for packed in (False, True) for width in widths]


def ways_of(settings: Mapping[str, Any], each: Sequence[int], servers: int) -> list[Way]:
    """All that are swept. The nearest alone make sense where rows of a server lie together, and are
    asked with the first width."""
    widths: Sequence[int] = settings["widths"]
    ways = [
        Way(how, width, few)
        for how in settings["partition_by"]
        for width in widths
        for few in each
    ]
    # Given for ten servers.
    nearest = sorted({max(1, round(most * servers / 10)) for most in settings["nearest"]})
    ways += [
        Way(how, widths[0], few, most)
        for how in settings["nearest_by"]
        for few in each
        for most in nearest
        if most < servers
    ]
    return ways


def swept(
    vectors: VectorSet,
    index_by: Callable[[str], Path],
    servers: int,
    ways: Sequence[Way],
    lists: Sequence[int],
    k: int = 10,
) -> list[Scattered]:
    """Every way over as many partitions as servers; `index_by` has the index by how it is cut."""
    found = []
    for way in ways:
        index = index_by(way.partition_by)
        words = ["--mode", "scatter", "--separate", str(apart(index, servers, servers))]
        words += ["--width", str(way.width), "--each", str(way.each)]
        if way.nearest is not None:
            words += ["--nearest", str(way.nearest)]
        long_enough = [length for length in lists if length >= way.each]
        rows = pipeann.cluster_counts(index, vectors, long_enough, [servers], words, k)
        found.append(Scattered(way, Curve.of_rounds(way.name, [rows])))
    return found


def at_best(title: str, ways: Sequence[Scattered], recall: float) -> Scattered | None:
    """The way with the fewest reads at a recall, after a table of all that find as much; none where
    none does."""
    rows: list[tuple[Row, Scattered]] = []
    for scattered in ways:
        row = cheapest(scattered.curve, recall)
        if row is not None:
            rows.append((row, scattered))
    rows.sort(key=lambda found: found[0]["reads"])
    columns = ("recall", "reads", "code_distances", "messages", "skew")
    print_table(
        f"{title}: a graph for each server at {recall:g}, cheapest first; {len(ways) - len(rows)} of "
        f"{len(ways)} ways never find as much",
        ["asked", *columns],
        [[of.way.name, *(row[column] for column in columns)] for row, of in rows],
    )
    return rows[0][1] if rows else None
