"""Latency of a cluster that is asked at a rate, whether earlier queries were answered or not."""

from __future__ import annotations

from dataclasses import replace

from harness import pipeann
from harness.clusters import serving
from harness.curves import Curve, interleave
from harness.plots import Panel, Points, draw
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cluster import cheapest, servers_of

# Mean latency at 1,000 queries a second on five and ten servers, BIGANN of a billion rows, us.
PAPER = {"baton": "2,737 and 2,973", "scatter": "2,902 and 2,782"}
SHOWN = ("qps", "mean_us", "p25_us", "p50_us", "p75_us", "p99_us", "late", "reads", "hops")


def take_cluster_rates(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Each mode at each rate, in turn, with the list that its recall wants at the lowest rate."""
    settings = job.settings
    servers = servers_of(settings["servers"], settings["memory_limit"])
    mother = replace(job.build, partitions=settings["partitions"])
    options = replace(mother, partitions=servers.count)
    index = pipeann.partitioned(vectors, options, mother)
    modes: dict[str, list[str]] = settings["modes"]
    rates: list[int] = settings["rates"]
    with serving(index, servers.count, servers, separate=True) as cluster:

        def at(mode: str, lists: list[int], rate: int) -> list[Row]:
            policy = [*modes[mode], "--rate", str(rate)]
            return cluster.search(vectors, lists, in_flight=settings["in_flight"], policy=policy)

        lists = {}
        for mode in modes:
            curve = Curve.of_rounds(mode, [at(mode, settings["lists_of_modes"][mode], rates[0])])
            row = cheapest(curve, job.recall)
            if row is None:
                raise SystemExit(f"{mode} never finds {job.recall:g}; change its lists")
            # The shortest list that finds as much: a rate is not kept between two lists.
            lists[mode] = min(r["list"] for r in curve.rows if r["recall"] >= job.recall)
        systems = {
            f"{mode} {rate}": lambda mode=mode, rate=rate: at(mode, [lists[mode]], rate)
            for rate in rates
            for mode in modes
        }
        curves = interleave(systems, job.rounds)
    rows = {name: curve.rows[0] for name, curve in curves.items()}
    print_table(
        f"{servers.count} servers on one machine, memory {servers.memory_limit}, {vectors.name} at "
        f"{job.recall:g} or a little more (paper, figures 14 and 15: at 1,000 a second on five and "
        "on ten machines)",
        ["mode, asked a second", "list", "recall", *SHOWN, "paper, mean us"],
        [
            [name, row["list"], row["recall"], *(row[column] for column in SHOWN)]
            + [PAPER.get(name.split()[0]) if name.endswith(" 1000") else None]
            for name, row in rows.items()
        ],
    )
    for mode in modes:
        verdict.add(f"mean us, {mode}", Check(rows[f"{mode} {rates[0]}"]["mean_us"]))
    if job.plots is not None:
        panels = [
            Panel(label, {mode: over_rates(rows, mode, rates, column) for mode in modes})
            for label, column in (("mean, us", "mean_us"), ("99 in 100 within, us", "p99_us"))
        ]
        path = job.plots / f"cluster-rates-{vectors.name}.svg"
        draw(path, f"Latency by rate, {servers.count} servers, {vectors.name}", "asked a second", panels)


def over_rates(rows: dict[str, Row], mode: str, rates: list[int], column: str) -> Points:
    """A column of a mode at each rate that it kept up with: of others times only tell how long it
    was asked."""
    kept = [(rate, rows[f"{mode} {rate}"]) for rate in rates]
    return [(rate, row[column]) for rate, row in kept if row["qps"] >= 0.95 * rate]
