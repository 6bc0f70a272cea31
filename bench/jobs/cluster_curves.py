"""Rate and latency over recall of each mode, on processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness import pipeann
from harness.clusters import Cluster, serving
from harness.curves import Curve, interleave
from harness.plots import Panel, draw
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cluster import cheapest, servers_of

COLUMNS = {"qps": "QPS", "mean_us": "mean latency, us"}
SHOWN = ("recall", "qps", "mean_us", "p99_us", "reads", "hops", "messages")


def take_cluster_curves(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Every mode over the same servers in turn, by how many servers there are."""
    settings = job.settings
    mother = replace(job.build, partitions=settings["partitions"])
    for words in settings["servers"]:
        servers = servers_of(words, settings["memory_limit"])
        index = pipeann.partitioned(vectors, replace(mother, partitions=servers.count), mother)
        with serving(index, servers.count, servers, separate=True) as cluster:
            curves = taken(job, vectors, cluster)
        rows = {name: cheapest(curve, job.recall) for name, curve in curves.items()}
        print_table(
            f"At {job.recall:g} on {vectors.name}, {words} (servers x threads x searches in flight), "
            f"memory {servers.memory_limit}, {settings['in_flight']} queries under way",
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


def taken(job: Job, vectors: VectorSet, cluster: Cluster) -> dict[str, Curve]:
    """All modes, list by list, after a round that nobody counts."""

    def asked(policy: Sequence[str]) -> Callable[[], list[Row]]:
        return lambda: cluster.search(
            vectors,
            job.lists[vectors.name],
            in_flight=job.settings["in_flight"],
            policy=policy,
        )

    systems = {name: asked(policy) for name, policy in job.settings["modes"].items()}
    for warm in systems.values():
        warm()
    return interleave(systems, job.rounds)


def points(curve: Curve, column: str) -> list[tuple[float, float]]:
    """A column over recall, from where plots begin."""
    return [(row["recall"], row[column]) for row in curve.rows if row["recall"] >= 0.8]
