"""Memory as a dial: from codes only to everything in memory.

A limit is for what an index holds; a process holds itself, its queries, their truth and answers
beside that. What these take is measured, by the same process on an index of next to no rows, and
the rest of the most that was resident has to be within the limit.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness import doors, pipeann, rivals, sets
from harness.curves import interleave, median_row
from harness.pipeann import SearchOptions
from harness.plots import Panel, draw
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import print_curve

MEGABYTE = 1_000_000
# Rows at the end of a set that its index does not hold where rows ask.
HELD_OUT = 8_000
# Rows of an index that holds next to nothing.
BARE = 1_000
IN_MEMORY = ("qps", "cpu_us", "hops", "exact_distances", "peak_rss_bytes")


def take_in_memory_vs_hnsw(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Queries a second with everything in memory over those of the faster HNSW."""
    settings = job.settings
    lists, efs = (
        job.around(of, *settings["recalls"]) for of in (vectors.name, settings["ef"])
    )
    threads, graph = settings["threads"], (settings["links"], settings["ef_construction"])
    index = pipeann.index_of(vectors, job.build)
    hnswlib = rivals.hnswlib_index(vectors, *graph)
    faiss = rivals.faiss_hnsw_index(vectors, *graph)
    ours = SearchOptions(
        policy="auto", threads=threads, in_flight=settings["in_flight"], memory_limit="all"
    )
    curves = interleave(
        {
            "pipeann": lambda: pipeann.search(index, vectors, lists, ours),
            "hnswlib": lambda: rivals.search_hnswlib(hnswlib, vectors, efs, threads=threads),
            "faiss": lambda: rivals.search_faiss_hnsw(faiss, vectors, efs, threads=threads),
        },
        job.rounds,
    )
    for curve in curves.values():
        print_curve(curve, IN_MEMORY)
    rows = []
    for recall in settings["recalls"]:
        qps = {name: curve.reaching("qps", recall) for name, curve in curves.items()}
        ratio = qps["pipeann"] / max(qps["hnswlib"], qps["faiss"])
        rows.append([recall, *qps.values(), ratio])
        verdict.add(f"at {recall}", Check(ratio, settings["ratio_at_least"], at_most=False))
    print_table(
        f"Queries a second in memory on {vectors.name}, {threads} threads",
        ["recall", *curves, "ratio"],
        rows,
    )


def limits_of(floor: Row, whole: Row, steps: int) -> dict[str, int]:
    """Memory limits in equal steps between those of two rows, as the command takes them, and their
    bytes: at either end what the index said that it holds."""
    low, high = (sum(row["pools"].values()) for row in (floor, whole))
    between = [low + (high - low) * step // (steps - 1) for step in range(1, steps - 1)]
    return {"floor": low, **{str(limit): limit for limit in between}, "all": high}


def is_monotone(values: list[float], falls: bool, tolerance: float) -> bool:
    """Whether values rise (or fall) from step to step, but for a share that is noise."""
    if falls:
        values = [-value for value in values]
    return all(
        later >= earlier - tolerance * abs(earlier)
        for i, earlier in enumerate(values)
        for later in values[i + 1 :]
    )


def beside_pools(row: Row) -> int:
    """The most that a process had resident, without what its index holds."""
    return int(row["peak_rss_bytes"]) - sum(row.get("pools", {}).values())


@dataclass
class Resident:
    """What processes had resident above what they have without an index, over their limits."""

    bare: int
    shares: list[float] = field(default_factory=list)

    def note(self, limit: int, peak: int) -> float:
        """A process's peak under a limit in bytes; megabytes of it that count for the index."""
        own = peak - self.bare
        self.shares.append(own / limit)
        return own / MEGABYTE

    @property
    def most(self) -> float:
        """The largest share of a limit."""
        return max(self.shares)


def asked_by_held_out(vectors: VectorSet, count: int) -> VectorSet:
    """The set without its last rows, asked by the first of these."""
    indexed = sets.rows_in(vectors.base) - HELD_OUT
    return pipeann.shrunk(sets.asked_by_rows(vectors, indexed, count), indexed)


def take_dial(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """One index under more and more memory: by itself, in a database, behind the server."""
    take_engine(job, vectors, verdict)
    take_doors(job, vectors, verdict)


@dataclass(frozen=True)
class Asking:
    """The same queries asked again and again, after a round that does not count, of collections of
    some of a set's rows: by the engine alone, through a database, and through the server."""

    job: Job
    length: int
    data: doors.Behind

    @classmethod
    def of(cls, job: Job, vectors: VectorSet, rows: int) -> Asking:
        """Of the first rows."""
        few = pipeann.shrunk(vectors, rows)
        asked = sets.with_queries(few, min(job.settings["door_queries"], job.queries))
        (length,) = job.lists[vectors.name]
        return cls(job, length, doors.Behind(asked, rows))

    @property
    def count(self) -> int:
        """How many queries."""
        return sets.rows_in(self.data.vectors.queries)

    def engine(self, limit: str, in_flight: int) -> Row:
        """The graph of the collection, opened by itself."""
        asked = self.data.vectors
        asked = replace(asked, queries=doors.as_floats(asked.queries))
        options = SearchOptions(
            policy="auto",
            threads=self.job.settings["threads"],
            in_flight=in_flight,
            memory_limit=limit,
            repeat=self.job.rounds,
        )
        return pipeann.search(doors.graph(self.data), asked, [self.length], options)[-1]

    def database(self, limit: str) -> Row:
        """The collection in a database of a process of its own."""
        threads, rounds = self.job.settings["threads"], self.job.rounds
        how = {"memory_limit": limit, "rounds": rounds, "count": self.count}
        return doors.engine_own(self.data, [self.length], threads, **how)[-1]

    def server(self, limit: str) -> Row:
        """The collection behind a server."""
        settings = self.job.settings
        with doors.serving(doors.OURS, self.data, limit) as running:
            # What fits is read ahead of the first searches.
            time.sleep(settings["settle_s"])
            how = {"count": self.count, "threads": settings["threads"], "rounds": self.job.rounds}
            return doors.in_batches(running, self.data, self.length, **how)


def take_doors(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Rates through `Database` and through the server over those of the engine on the same graph.

    The limits are the same bytes for all three, between what the database needs and what it takes
    with all pages. The engine searches as those beside it do: one query in flight on each thread
    beside the database, some beside the server, whose requests hold many.
    """
    settings = job.settings
    rows = min(settings["door_rows"], sets.rows_in(vectors.base))
    asking, bare = Asking.of(job, vectors, rows), Asking.of(job, vectors, BARE)
    resident = {
        "database": Resident(beside_pools(bare.database("floor"))),
        "server": Resident(beside_pools(bare.server("floor"))),
    }
    limits = limits_of(asking.database("floor"), asking.database("all"), settings["steps"])
    table, ratios = [], {name: list[float]() for name in resident}
    for limit, held in limits.items():
        alone, some = asking.engine(limit, 1), asking.engine(limit, settings["in_flight"])
        through = {"database": asking.database(limit), "server": asking.server(limit)}
        line: list[Any] = [limit]
        for name, beside in (("database", alone), ("server", some)):
            ratios[name].append(through[name]["qps"] / beside["qps"])
            line += [beside["qps"], through[name]["qps"], ratios[name][-1]]
            peak = through[name]["peak_rss_bytes"]
            line += [peak / MEGABYTE, resident[name].note(held, peak)]
        table.append(line)
    columns = ["engine_qps", "database_qps", "over", "peak_mb", "own_mb"]
    columns += ["engine_many_qps", "server_qps", "over", "peak_mb", "own_mb"]
    print_table(
        f"The dial through the doors, {vectors.name}, {rows:,} rows, list {asking.length}",
        ["limit", *columns],
        table,
    )
    for name, found in ratios.items():
        middle = statistics.median(found)
        off = max(abs(ratio / middle - 1) for ratio in found)
        verdict.add(f"{name} over the engine, from its median", Check(off, settings["doors_within"]))
        verdict.add(f"{name}: of its limit", Check(resident[name].most, 1.0))


def take_engine(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Rate, latency, reads and resident memory of one index under more and more memory."""
    settings, lists = job.settings, job.lists[vectors.name]
    if held_out := settings["asked_by_rows"].get(vectors.name):
        vectors = asked_by_held_out(vectors, min(held_out, job.queries))
    index = pipeann.index_of(vectors, job.build)
    # The first half of the queries tells which pages are hot; the others are new to them. What
    # fits and none of them used has been read ahead of searches when measuring begins.
    warm = sets.rows_in(vectors.queries) // 2

    def search(limit: str, of: Path = index, asked: VectorSet = vectors) -> Row:
        options = SearchOptions(
            policy="auto",
            threads=settings["threads"],
            in_flight=settings["in_flight"],
            memory_limit=limit,
            warm=warm,
        )
        return pipeann.search(of, asked, lists, options)[-1]

    few = pipeann.shrunk(vectors, BARE)
    bare = pipeann.index_of(few, job.build)
    # The least of some, so that none is taken for more than it needs.
    resident = Resident(min(beside_pools(search("floor", bare, few)) for _ in range(job.rounds)))
    limits = limits_of(search("floor"), search("all"), settings["steps"])
    taken: dict[str, list[Row]] = {limit: [] for limit in limits}
    for _ in range(job.rounds):
        for limit in limits:
            taken[limit].append(search(limit))
    rows = {limit: median_row(found) for limit, found in taken.items()}
    columns = ("recall", "qps", "mean_us", "p99_us", "reads", "from_memory", "pages_in_memory")
    print_table(
        f"The dial on {vectors.name}, list {lists[-1]}, {settings['threads']} threads",
        ["limit", "held_mb", "peak_mb", "own_mb", *columns],
        [
            [
                limit,
                sum(row["pools"].values()) / MEGABYTE,
                row["peak_rss_bytes"] / MEGABYTE,
                max(resident.note(limits[limit], one["peak_rss_bytes"]) for one in taken[limit]),
                *(row[column] for column in columns),
            ]
            for limit, row in rows.items()
        ],
    )
    if job.plots is not None:
        held = [sum(row["pools"].values()) / MEGABYTE for row in rows.values()]
        draw(
            job.plots / f"dial-{vectors.name}.svg",
            f"{vectors.name}, list {lists[-1]}, {settings['threads']} threads",
            "memory limit, MB",
            [
                Panel(label, list(zip(held, (row[column] for row in rows.values()), strict=True)))
                for label, column in (("queries a second", "qps"), ("page reads a query", "reads"))
            ],
        )
    tolerance = settings["tolerance"]
    for column, falls in (("qps", False), ("mean_us", True), ("reads", True)):
        steady = is_monotone([row[column] for row in rows.values()], falls, tolerance)
        verdict.add(f"{column} monotone", Check(float(steady), 1.0, at_most=False))
    print(f"a process without an index: {resident.bare / MEGABYTE:.1f} MB, which own_mb leaves out")
    verdict.add("resident, of the limit", Check(resident.most, 1.0))
