"""Memory as a dial: from codes only to everything in memory."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

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
IN_MEMORY = ("qps", "cpu_us", "hops", "exact_distances", "peak_rss_bytes")


def take_in_memory_vs_hnsw(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Queries a second with everything in memory over those of the faster HNSW."""
    settings, lists = job.settings, job.lists[vectors.name]
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
            "hnswlib": lambda: rivals.search_hnswlib(
                hnswlib, vectors, settings["ef"], threads=threads
            ),
            "faiss": lambda: rivals.search_faiss_hnsw(
                faiss, vectors, settings["ef"], threads=threads
            ),
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


def limits_of(floor: Row, whole: Row, steps: int) -> list[str]:
    """Memory limits in equal steps between those of two rows, as the command takes them."""
    low, high = (sum(row["pools"].values()) for row in (floor, whole))
    between = [low + (high - low) * step // (steps - 1) for step in range(1, steps - 1)]
    return ["floor", *map(str, between), "all"]


def is_monotone(values: list[float], falls: bool, tolerance: float) -> bool:
    """Whether values rise (or fall) from step to step, but for a share that is noise."""
    if falls:
        values = [-value for value in values]
    return all(
        later >= earlier - tolerance * abs(earlier)
        for i, earlier in enumerate(values)
        for later in values[i + 1 :]
    )


def asked_by_held_out(vectors: VectorSet, count: int) -> VectorSet:
    """The set without its last rows, asked by the first of these."""
    indexed = sets.rows_in(vectors.base) - HELD_OUT
    return pipeann.shrunk(sets.asked_by_rows(vectors, indexed, count), indexed)


def take_dial(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """One index under more and more memory: by itself, in a database, behind the server."""
    take_engine(job, vectors, verdict)
    take_doors(job, vectors, verdict)


def take_doors(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Rates through `Database` and through the server over those of the engine on the same graph.

    The limits are the same bytes for all three, between what the database needs and what it takes
    with all pages. All are asked the same queries again and again, after a round that does not
    count. The engine searches as those beside it do: one query in flight on each thread beside
    the database, some beside the server, whose requests hold many.
    """
    settings, threads = job.settings, job.settings["threads"]
    rows = min(settings["door_rows"], sets.rows_in(vectors.base))
    data = doors.Behind(pipeann.shrunk(vectors, rows), rows)
    (length,) = job.lists[vectors.name]
    graph = doors.graph(data)
    asked = sets.with_queries(data.vectors, min(settings["door_queries"], job.queries))
    data = replace(data, vectors=asked)
    count = sets.rows_in(asked.queries)
    as_floats = replace(asked, queries=doors.as_floats(asked.queries))

    def engine(limit: str, in_flight: int) -> Row:
        options = SearchOptions(
            policy="auto",
            threads=threads,
            in_flight=in_flight,
            memory_limit=limit,
            repeat=job.rounds,
        )
        return pipeann.search(graph, as_floats, [length], options)[-1]

    def database(limit: str) -> Row:
        return doors.engine_own(
            data, [length], threads, memory_limit=limit, rounds=job.rounds, count=count
        )[-1]

    def server(limit: str) -> Row:
        with doors.serving(doors.OURS, data, limit) as running:
            # What fits is read ahead of the first searches.
            time.sleep(settings["settle_s"])
            return doors.in_batches(
                running, data, length, count=count, threads=threads, rounds=job.rounds
            )

    limits = limits_of(database("floor"), database("all"), settings["steps"])
    table, ratios, above = [], {"database": [], "server": []}, 0
    for limit in limits:
        alone, some = engine(limit, 1), engine(limit, settings["in_flight"])
        through = {"database": database(limit), "server": server(limit)}
        line = [limit]
        for name, beside in (("database", alone), ("server", some)):
            ratios[name].append(through[name]["qps"] / beside["qps"])
            line += [beside["qps"], through[name]["qps"], ratios[name][-1]]
            peak = through[name]["peak_rss_bytes"]
            line.append(peak / MEGABYTE)
            if limit.isdigit():
                above = max(above, peak - int(limit))
        table.append(line)
    columns = ["engine_qps", "database_qps", "over", "peak_mb"]
    columns += ["engine_many_qps", "server_qps", "over", "peak_mb"]
    print_table(
        f"The dial through the doors, {vectors.name}, {rows:,} rows, list {length}",
        ["limit", *columns],
        table,
    )
    for name, found in ratios.items():
        middle = statistics.median(found)
        off = max(abs(ratio / middle - 1) for ratio in found)
        verdict.add(f"{name} over the engine, from its median", Check(off, settings["doors_within"]))
    verdict.add("doors: mb above", Check(above / MEGABYTE, settings["spare_bytes"] / MEGABYTE))


def take_engine(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Rate, latency, reads and resident memory of one index under more and more memory."""
    settings, lists = job.settings, job.lists[vectors.name]
    if held_out := settings["asked_by_rows"].get(vectors.name):
        vectors = asked_by_held_out(vectors, min(held_out, job.queries))
    index = pipeann.index_of(vectors, job.build)
    # The first half of the queries tells which pages are hot; the others are new to them. What
    # fits and none of them used has been read ahead of searches when measuring begins.
    warm = sets.rows_in(vectors.queries) // 2

    def search(limit: str) -> Row:
        options = SearchOptions(
            policy="auto",
            threads=settings["threads"],
            in_flight=settings["in_flight"],
            memory_limit=limit,
            warm=warm,
        )
        return pipeann.search(index, vectors, lists, options)[-1]

    limits = limits_of(search("floor"), search("all"), settings["steps"])
    taken: dict[str, list[Row]] = {limit: [] for limit in limits}
    for _ in range(job.rounds):
        for limit in limits:
            taken[limit].append(search(limit))
    rows = {limit: median_row(found) for limit, found in taken.items()}
    columns = ("recall", "qps", "mean_us", "p99_us", "reads", "from_memory", "pages_in_memory")
    print_table(
        f"The dial on {vectors.name}, list {lists[-1]}, {settings['threads']} threads",
        ["limit", "held_mb", "peak_mb", *columns],
        [
            [
                limit,
                sum(row["pools"].values()) / MEGABYTE,
                row["peak_rss_bytes"] / MEGABYTE,
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
    # Beside the pools stand the program itself, the queries, their truth and the answers.
    above = max(
        max(row["peak_rss_bytes"] for row in found) - int(limit)
        for limit, found in taken.items()
        if limit.isdigit()
    )
    verdict.add("mb above the limit", Check(above / MEGABYTE, settings["spare_bytes"] / MEGABYTE))
