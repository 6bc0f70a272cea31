"""Rivals at their best: every way of asking a graph for each server, counted in one process, and
the ways of one whose list stays with whoever asks (DistributedANN).

What a graph for each server costs depends on how rows are shared out, on how many results each
server is asked for, on reads in flight and on how many servers are asked. All of it is swept and
printed; the fewest reads at the recall are the rival's. What is swept stands in
`cluster-modes.toml`, for all jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import pipeann
from harness.clusters import Cluster, Servers, apart, serving
from harness.curves import Around, Curve
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table

from . import catalogue
from .catalogue import Job
from .cluster import cheapest

SCATTER, KEPT = "scatter", "distributed-ann"


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

    @property
    def words(self) -> list[str]:
        """As the command line has it."""
        words = ["--mode", "scatter", "--width", str(self.width), "--each", str(self.each)]
        return words if self.nearest is None else [*words, "--nearest", str(self.nearest)]

    def lists(self, chosen: Sequence[int]) -> list[int]:
        """Those of some lists that are long enough."""
        return [length for length in chosen if length >= self.each]


@dataclass(frozen=True)
class Scattered:
    """A way, over recall."""

    way: Way
    curve: Curve


@dataclass(frozen=True)
class Kept:
    """How servers are asked where the list stays with whoever asks: nodes of a step, and whether
    every record of a page is used and the search stops early, as relay does, or one record is, as
    in the paper."""

    width: int
    packed: bool

    @property
    def name(self) -> str:
        """As tables have it."""
        return f"{KEPT}, {'packed, ' if self.packed else ''}width {self.width}"

    @property
    def words(self) -> list[str]:
        """As the command line has it."""
        words = ["--mode", KEPT, "--width", str(self.width)]
        return [*words, "--packed"] if self.packed else words


def kept_ways(widths: Sequence[int]) -> list[Kept]:
    """Both ways, each by its width."""
    return [Kept(width, packed) for packed in (False, True) for width in widths]


def kept_at(
    vectors: VectorSet,
    index: Path,
    servers: int,
    widths: Sequence[int],
    lists: Sequence[int],
    recall: float,
) -> dict[Kept, Row]:
    """What every way that finds a recall needs on so many servers, every frame counted."""
    found = {}
    for way in kept_ways(widths):
        rows = pipeann.cluster_counts(index, vectors, lists, [servers], way.words)
        row = cheapest(Curve.of_rounds(way.name, [rows]), recall)
        if row is not None:
            found[way] = row
    return found


def swept_settings(quick: bool) -> dict[str, Any]:
    """What is swept of rivals, `scatter` and `distributed_widths`, the same in every job."""
    return catalogue.job("cluster-modes", quick=quick).settings


def ways_of(settings: Mapping[str, Any], each: Sequence[int], servers: int) -> list[Way]:
    """All that are swept with the first width. The nearest alone make sense where rows of a server
    lie together."""
    width: int = settings["widths"][0]
    # Given for ten servers.
    nearest = sorted({max(1, round(most * servers / 10)) for most in settings["nearest"]})
    ways = [Way(how, width, few) for how in settings["partition_by"] for few in each]
    return ways + [
        Way(how, width, few, most)
        for how in settings["nearest_by"]
        for few in each
        for most in nearest
        if most < servers
    ]


def swept(
    vectors: VectorSet,
    index_by: Callable[[str], Path],
    servers: int,
    settings: Mapping[str, Any],
    recall: float,
    *,
    lists: Sequence[int] | None = None,
    each: Sequence[int] | None = None,
    k: int = 10,
) -> list[Scattered]:
    """Every way over as many partitions as servers, by the table `scatter` of `swept_settings`;
    `index_by` has the index by how it is cut.

    A width is tried in all ways, and the others in those that read least with it.
    """

    def counted(way: Way) -> Scattered:
        index = index_by(way.partition_by)
        words = [*way.words, "--separate", str(apart(index, servers, servers))]
        chosen = Around(way.lists(lists or settings["lists"]), [recall])
        rows = pipeann.cluster_counts(index, vectors, chosen, [servers], words, k)
        return Scattered(way, Curve.of_rounds(way.name, [rows]))

    found = [counted(way) for way in ways_of(settings, each or settings["each"], servers)]
    best = [scattered.way for _, scattered in by_reads(found, recall)[: settings["wider"]]]
    wider = [replace(way, width=width) for width in settings["widths"][1:] for way in best]
    return found + [counted(way) for way in wider]


def by_reads(ways: Sequence[Scattered], recall: float) -> list[tuple[Row, Scattered]]:
    """Ways that find a recall, those with the fewest reads first, each with what it needs there."""
    rows: list[tuple[Row, Scattered]] = []
    for scattered in ways:
        row = cheapest(scattered.curve, recall)
        if row is not None:
            rows.append((row, scattered))
    return sorted(rows, key=lambda found: found[0]["reads"])


def at_best(title: str, ways: Sequence[Scattered], recall: float) -> Scattered | None:
    """The way with the fewest reads at a recall, after a table of all that find as much; none where
    none does."""
    rows = by_reads(ways, recall)
    columns = ("recall", "reads", "code_distances", "messages", "skew")
    print_table(
        f"{title}: a graph for each server at {recall:g}, cheapest first; {len(ways) - len(rows)} "
        f"of {len(ways)} ways never find as much",
        ["asked", *columns],
        [[of.way.name, *(row[column] for column in columns)] for row, of in rows],
    )
    return rows[0][1] if rows else None


@dataclass(frozen=True)
class Served:
    """A mode of servers that listen: how they are asked, and with which lists."""

    cluster: Cluster
    words: list[str]
    lists: Sequence[int]

    def ask(
        self,
        vectors: VectorSet,
        in_flight: int,
        lists: Sequence[int] = (),
        more: Sequence[str] = (),
    ) -> list[Row]:
        """A round, over all of its lists or some."""
        words = [*self.words, *more]
        return self.cluster.search(vectors, lists or self.lists, in_flight=in_flight, policy=words)


def served(
    job: Job, vectors: VectorSet, servers: Servers, lists: Sequence[int], stack: ExitStack
) -> dict[str, Served]:
    """Ours and the paper's by the job's table `modes`, DistributedANN by every width, and a graph
    for each server in the way that reads least, over servers of its own where that cuts rows
    otherwise."""
    mother = replace(job.build, partitions=job.settings["partitions"])
    count = servers.count

    def index_by(partition_by: str) -> Path:
        options = replace(mother, partitions=count, partition_by=partition_by)
        return pipeann.partitioned(vectors, options, mother)

    def listening(partition_by: str, separate: bool) -> Cluster:
        serves = serving(index_by(partition_by), count, servers, separate=separate)
        return stack.enter_context(serves)

    settings = swept_settings(job.quick)
    scatter: Mapping[str, Any] = settings["scatter"]
    found = swept(vectors, index_by, count, scatter, job.recall)
    rival = at_best(f"{vectors.name}, {count} servers", found, job.recall)
    way = rival.way if rival is not None else None
    graph = listening("graph", separate=way is not None and way.partition_by == "graph")
    modes = {name: Served(graph, words, lists) for name, words in job.settings["modes"].items()}
    for kept in (Kept(width, packed=False) for width in settings["distributed_widths"]):
        modes[kept.name] = Served(graph, kept.words, lists)
    if way is not None:
        how = way.partition_by
        cluster = graph if how == "graph" else listening(how, separate=True)
        words = way.words
        if way.nearest is not None:
            words += ["--centroids", str(apart(index_by(how), count, count) / "centroids")]
        # Few results of each make do with shorter lists than one graph.
        shorter = range(min(scatter["lists"]), min(lists))
        enough = Around(way.lists([*shorter, *lists]), [job.recall])
        modes[f"{SCATTER}: {way.name}"] = Served(cluster, words, enough)
    return modes


def kind(name: str) -> str:
    """Whose mode it is: the paper's name of it, without the way."""
    return next((of for of in (SCATTER, KEPT) if name.startswith(of)), name)


def with_best_width(values: Mapping[str, float], most: bool) -> list[str]:
    """All modes with a value, of DistributedANN the width alone that has the most, or the least."""
    widths = [name for name in values if kind(name) == KEPT]
    best = sorted(widths, key=values.__getitem__, reverse=most)[:1]
    return [name for name in values if name not in widths or name in best]
