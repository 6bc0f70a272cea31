"""When a thread takes in its next search: the three ways of the paper's figure 8, each with the
threads that suit it best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
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

SHOWN = ("recall", "qps", "mean_us", "p99_us")
Asked = Callable[[], list[Row]]


def take_cluster_queueing(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Rate and recall of each way, list by list, in turn."""
    settings = job.settings
    partitions: int = settings["partitions"]
    index = pipeann.index_of(vectors, replace(job.build, partitions=partitions))
    disciplines: list[str] = settings["disciplines"]
    with ExitStack() as stack:

        def asked(discipline: str, words: str) -> Asked:
            servers = servers_of(words, settings["memory_limit"])
            servers = replace(servers, discipline=discipline)
            cluster: Cluster = stack.enter_context(serving(index, partitions, servers))
            return lambda: cluster.search(
                vectors,
                job.around(vectors.name),
                in_flight=settings["in_flight"],
                policy=settings["policy"],
            )

        ways = {
            name: {words: asked(name, words) for words in settings["servers"][name]}
            for name in disciplines
        }
        # A round that warms all of them up tells how many threads suit each.
        chosen = {name: best_way(name, of, job.recall) for name, of in ways.items()}
        systems = {name: ways[name][words] for name, words in chosen.items()}
        curves = interleave(systems, job.rounds)
    print_curves(job, vectors, chosen, curves)
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


def best_way(discipline: str, ways: Mapping[str, Asked], recall: float) -> str:
    """The server with the highest rate at a recall, by one round of each."""
    rows = {
        words: cheapest(Curve.of_rounds(f"{discipline}, {words}", [ask()]), recall)
        for words, ask in ways.items()
    }
    rates = {words: row["qps"] for words, row in rows.items() if row is not None}
    title = f"One round, {discipline}: QPS at {recall:g}"
    print_table(title, ["server", "qps"], list(rates.items()))
    return max(rates, key=rates.__getitem__, default=next(iter(ways)))


def print_curves(
    job: Job, vectors: VectorSet, chosen: Mapping[str, str], curves: Mapping[str, Curve]
) -> None:
    """What each way gives, list by list."""
    by_list = {name: {row["list"]: row for row in curve.rows} for name, curve in curves.items()}
    lists = sorted(set().union(*by_list.values()))
    print_table(
        f"{vectors.name}, one server x threads x searches in flight {dict(chosen)}, memory "
        f"{job.settings['memory_limit']}, {job.settings['in_flight']} queries under way",
        ["list", *(f"{name}: {column}" for name in curves for column in SHOWN)],
        [
            [length, *(rows.get(length, {}).get(c) for rows in by_list.values() for c in SHOWN)]
            for length in lists
        ],
    )
