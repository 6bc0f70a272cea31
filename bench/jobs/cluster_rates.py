"""Latency of a cluster that is asked at a rate, whether earlier queries were answered or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from harness.curves import interleave
from harness.plots import Panel, Points, draw
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cluster import servers_of
from .cluster_rivals import Served, kind, served, with_best_width

# Mean latency at 1,000 queries a second on five and ten servers, BIGANN of a billion rows, us.
PAPER = {"baton": "2,737 and 2,973", "scatter": "2,902 and 2,782"}
SHOWN = ("qps", "mean_us", "p25_us", "p50_us", "p75_us", "p99_us", "late", "reads", "hops")
AtRate = Callable[[int], list[Row]]


def take_cluster_rates(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Each mode at each rate, in turn, with the shortest list that has the recall."""
    settings = job.settings
    servers = servers_of(settings["servers"], settings["memory_limit"])
    rates: list[int] = settings["rates"]
    with ExitStack() as stack:
        modes = served(job, vectors, servers, job.around(vectors.name), stack)
        asked = with_lists(job, vectors, modes, verdict)
        # A round at the lowest rate tells the width.
        means = {name: ask(rates[0])[0]["mean_us"] for name, ask in asked.items()}
        chosen = with_best_width(means, most=False)
        systems = {
            at(name, rate): partial(asked[name], rate) for rate in rates for name in chosen
        }
        curves = interleave(systems, job.rounds)
    rows = {name: curve.rows[0] for name, curve in curves.items()}
    print_table(
        f"{servers.count} servers on one machine, memory {servers.memory_limit}, {vectors.name} at "
        f"{job.recall:g} or a little more, scatter in the way that reads least, DistributedANN "
        "with its quickest width (paper, figures 14 and 15: at 1,000 a second on five and on ten "
        "machines)",
        ["mode", "asked a second", "list", "recall", *SHOWN, "paper, mean us"],
        [
            shown(name, rate, rows[at(name, rate)])
            for rate in rates
            for name in chosen
        ],
    )
    for name in chosen:
        verdict.add(f"mean us, {name}", Check(rows[at(name, rates[0])]["mean_us"]))
    if job.plots is not None:
        panels = [
            Panel(label, {name: over_rates(rows, name, rates, column) for name in chosen})
            for label, column in (("mean, us", "mean_us"), ("99 in 100 within, us", "p99_us"))
        ]
        path = job.plots / f"cluster-rates-{vectors.name}.svg"
        title = f"Latency by rate, {servers.count} servers, {vectors.name}"
        draw(path, title, "asked a second", panels)


def at(name: str, rate: int) -> str:
    """A mode that is asked at a rate."""
    return f"{name} at {rate}"


def shown(name: str, rate: int, row: Row) -> list[Any]:
    """A line of the table."""
    paper = PAPER.get(kind(name)) if rate == 1000 else None
    return [name, rate, row["list"], row["recall"], *(row[column] for column in SHOWN), paper]


def with_lists(
    job: Job, vectors: VectorSet, modes: Mapping[str, Served], verdict: Verdict
) -> dict[str, AtRate]:
    """Modes with the shortest list that finds as much, with a query under way for each server: a
    rate is not kept between two lists. One without is noted and left out."""
    in_flight: int = job.settings["in_flight"]
    asked: dict[str, AtRate] = {}
    for name, mode in modes.items():
        found = mode.ask(vectors, mode.cluster.servers.count)
        enough = [row["list"] for row in found if row["recall"] >= job.recall]
        if enough:
            asked[name] = partial(at_rate, vectors, mode, in_flight, min(enough))
        else:
            verdict.problems.append(f"{name} never finds {job.recall:g} of {vectors.name}")
    return asked


def at_rate(
    vectors: VectorSet, mode: Served, in_flight: int, length: int, rate: int
) -> list[Row]:
    """A round of a list at so many queries a second."""
    return mode.ask(vectors, in_flight, [length], ["--rate", str(rate)])


def over_rates(
    rows: Mapping[str, Row], name: str, rates: Sequence[int], column: str
) -> Points:
    """A column of a mode at each rate that it kept up with: of others times only tell how long it
    was asked."""
    kept = [(rate, rows[at(name, rate)]) for rate in rates]
    return [(rate, row[column]) for rate, row in kept if row["qps"] >= 0.95 * rate]
