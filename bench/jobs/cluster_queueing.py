"""When a thread takes in its next search: the three ways of the paper's figure 8."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from harness import pipeann
from harness.clusters import Cluster, serving
from harness.curves import interleave
from harness.plots import Panel, draw
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cluster import servers_of


def take_cluster_queueing(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Rate and recall of each way, list by list, in turn."""
    settings, lists = job.settings, job.lists[vectors.name]
    partitions: int = settings["partitions"]
    index = pipeann.index_of(vectors, replace(job.build, partitions=partitions))
    disciplines: list[str] = settings["disciplines"]
    with ExitStack() as stack:

        def asked(discipline: str) -> Callable[[], list[Row]]:
            servers = servers_of(settings["servers"], settings["memory_limit"])
            servers = replace(servers, discipline=discipline)
            cluster: Cluster = stack.enter_context(serving(index, partitions, servers))
            return lambda: cluster.search(
                vectors, lists, in_flight=settings["in_flight"], policy=settings["policy"]
            )

        systems = {discipline: asked(discipline) for discipline in disciplines}
        curves = interleave(systems, job.rounds)
    shown = ("recall", "qps", "mean_us", "p99_us")
    print_table(
        f"one server {settings['servers']}, memory {settings['memory_limit']}, {vectors.name}, "
        f"{settings['in_flight']} queries under way",
        ["list", *(f"{name}: {column}" for name in disciplines for column in shown)],
        [
            [length, *(curves[name].rows[at][column] for name in disciplines for column in shown)]
            for at, length in enumerate(lists)
        ],
    )
    rates = {name: curve.row_at(job.recall)["qps"] for name, curve in curves.items()}
    for name in disciplines[:-1]:
        over = rates[disciplines[-1]] / rates[name]
        verdict.add(f"QPS of {disciplines[-1]} over {name}", Check(over, 1.0, at_most=False))
    if job.plots is not None:
        points = {
            name: [(row["recall"], row["qps"]) for row in curve.rows]
            for name, curve in curves.items()
        }
        path = job.plots / f"cluster-queueing-{vectors.name}.svg"
        draw(path, f"One server, {vectors.name}", "recall@10", [Panel("QPS", points)])
