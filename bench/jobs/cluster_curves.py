"""Rate and latency over recall of each mode, on processes of this machine."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from harness.clusters import Servers
from harness.curves import Curve, interleave
from harness.plots import Panel, draw
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cluster import cheapest, servers_of
from .cluster_rivals import served, with_best_width

COLUMNS = {"qps": "QPS", "mean_us": "mean latency, us"}
SHOWN = ("recall", "qps", "mean_us", "p99_us", "reads", "hops", "messages")


def take_cluster_curves(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Every mode over the same servers in turn, by how many servers there are."""
    settings = job.settings
    for words in settings["servers"]:
        servers = servers_of(words, settings["memory_limit"])
        curves = taken(job, vectors, servers)
        rows = {name: cheapest(curve, job.recall) for name, curve in curves.items()}
        print_table(
            f"At {job.recall:g} on {vectors.name}, {words} (servers x threads x searches in "
            f"flight), memory {servers.memory_limit}, {settings['in_flight']} queries under way; "
            "scatter in the way that reads least, DistributedANN with its fastest width",
            ["mode", *SHOWN],
            [
                [name, *(row[column] for column in SHOWN)]
                for name, row in rows.items()
                if row is not None
            ],
        )
        for name, row in rows.items():
            if row is not None:
                verdict.add(f"QPS of {name}, {servers.count} servers", Check(row["qps"]))
        if job.plots is not None:
            panels = [
                Panel(label, {name: points(curve, column) for name, curve in curves.items()})
                for column, label in COLUMNS.items()
            ]
            path = job.plots / f"cluster-curves-{servers.count}-{vectors.name}.svg"
            title = f"{servers.count} servers on one machine, {vectors.name}"
            draw(path, title, "recall@10", panels, 0.8)


def taken(job: Job, vectors: VectorSet, servers: Servers) -> dict[str, Curve]:
    """All modes, list by list, after a round that nobody counts but to tell a width."""
    with ExitStack() as stack:
        modes = served(job, vectors, servers, job.around(vectors.name), stack)
        asked = {
            name: partial(mode.ask, vectors, job.settings["in_flight"])
            for name, mode in modes.items()
        }
        rates = {}
        for name, ask in asked.items():
            row = cheapest(Curve.of_rounds(name, [ask()]), job.recall)
            rates[name] = row["qps"] if row is not None else 0.0
        print_table(f"One round, QPS at {job.recall:g}", ["mode", "qps"], list(rates.items()))
        chosen = with_best_width(rates, most=True)
        return interleave({name: asked[name] for name in chosen}, job.rounds)


def points(curve: Curve, column: str) -> list[tuple[float, float]]:
    """A column over recall, from where plots begin."""
    return [(row["recall"], row[column]) for row in curve.rows if row["recall"] >= 0.8]
