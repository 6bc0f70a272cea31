"""A model of a cluster's rate: its constants, its predictions and their error, and only then what
it projects for more servers than this machine can run."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness import pipeann
from harness.clusters import Cluster, Servers, serving
from harness.curves import Curve, interleave
from harness.processes import Row, json_lines
from harness.projection import Costs, error, speed_up
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cluster import cheapest, policy_of, servers_of
from .cluster_rivals import kept_ways, swept, ways_of

# Of BatANN over others on ten servers, 100 million rows, as the paper has it.
PAPER_OVER_SCATTER = "5.28 to 6.17"
PAPER_OVER_DISTRIBUTED = "1.32 to 2.58"


@dataclass(frozen=True, eq=False)
class Case:
    """Where a prediction is put to the test: memory for pages, cores of all processes, what is the
    limit there, and of how many threads and searches in flight each number of servers is."""

    name: str
    memory_limit: str
    cores: int | None
    bound: str
    servers: dict[str, str]

    def of(self, count: int) -> Servers:
        """So many servers."""
        return servers_of(self.servers[str(count)], self.memory_limit)

    def rate(self, query_us: float) -> float:
        """Queries a second where all cores are busy with them, client included."""
        return (self.cores or len(os.sched_getaffinity(0))) * 1e6 / query_us


def cases_of(job: Job) -> list[Case]:
    """The job's cases; no cores are all of them."""
    return [
        Case(name, case["memory_limit"], case.get("cores"), case["bound"], case["servers"])
        for name, case in job.settings["cases"].items()
    ]


def counted(job: Job, vectors: VectorSet, index: Path, servers: Sequence[int]) -> dict[int, Row]:
    """Reads, hops and skew at the recall by servers: exact, and from one process."""
    found = pipeann.cluster_counts(
        index, vectors, job.lists[vectors.name], servers, policy_of(job.settings["relay"])
    )
    rows = {}
    for count in servers:
        of = [row for row in found if row["servers"] == count]
        row = Curve.of_rounds(f"relay on {count} servers", [of]).row_at(job.recall)
        # A query begins at any server and goes to its entry first.
        rows[count] = row | {"hops": row["hops"] + row["hops_to_entry"]}
    return rows


def hop_costs(job: Job, vectors: VectorSet, index: Path, cores: int | None) -> tuple[float, float]:
    """Processor time of a message that is alone on its way, both ends, and of waking a state."""
    command: list[str | Path] = [*pipeann.pinned(cores), pipeann.lab(), "hop"]
    command += ["--index", index, "--queries", vectors.queries, "--list", "20", "--json"]
    rounds = [json_lines(command) for _ in range(job.rounds)]
    rows = [row for rows in rounds for row in rows]

    def median(what: str) -> float:
        times = sorted(row["cpu_us"] for row in rows if row["what"] == what)
        return float(times[len(times) // 2])

    return median("message, 1 under way"), median("waking, list 20")


def asked(job: Job, vectors: VectorSet, cluster: Cluster) -> list[Row]:
    """A round of a cluster that is asked for all it takes, with what a query took of processors."""
    servers = cluster.servers
    in_flight = servers.count * servers.threads * servers.in_flight
    found = cluster.timed(vectors, job.lists[vectors.name], in_flight=in_flight, policy=[])
    return [row | {"pages": row["reads"] + row["from_memory"]} for row in found]


def measured(
    job: Job, vectors: VectorSet, index: Path, case: Case, counts: Sequence[int]
) -> dict[int, Curve]:
    """Clusters of so many processes in turn."""
    partitions: int = job.settings["partitions"]
    with ExitStack() as stack:
        systems = {}
        for count in counts:
            serves = serving(index, partitions, case.of(count), cores=case.cores)
            cluster = stack.enter_context(serves)
            asked(job, vectors, cluster)
            systems[str(count)] = partial(asked, job, vectors, cluster)
        curves = interleave(systems, job.rounds)
    return {int(name): curve for name, curve in curves.items()}


def predicted(
    job: Job, vectors: VectorSet, index: Path, case: Case, exact: dict[int, Row], verdict: Verdict
) -> Costs | None:
    """The model's constants in a case, where it foretells several processes well enough there."""
    settings = job.settings
    limit: float = settings["error_at_most"]
    alone = measured(job, vectors, index, case, [1])[1]
    message, waking = hop_costs(job, vectors, index, case.cores)
    costs = Costs.fitted(alone.rows, message, waking)
    one = alone.row_at(job.recall)
    print_table(
        f"{case.name}: constants of one process and `pipeann-lab hop`, us of processor time; "
        f"{vectors.name}",
        ["", "query", "read", "message", "waking", "QPS at the recall", "client, a query"],
        [["", costs.query, costs.read, message, waking, one["qps"], one["client_us"]]],
    )
    foretold = {}
    for count in settings["predicted"]:
        pages = one["pages"] * exact[count]["reads"] / exact[1]["reads"]
        server_us = costs.relay(pages, exact[count]["hops"])
        processors = case.rate(server_us + one["client_us"])
        device = one["qps"] * exact[1]["reads"] / exact[count]["reads"]
        foretold[count] = (server_us, processors if case.bound == "processor" else device)
    print_table(
        f"{case.name}: foretold at {job.recall:g}, limited by the {case.bound}",
        ["processes", "servers' us a query", "QPS"],
        [[count, *values] for count, values in foretold.items()],
    )
    curves = measured(job, vectors, index, case, [1, *foretold])
    again = curves[1].row_at(job.recall)
    table = [[1, None, again["server_us"], None, None, again["qps"], None]]
    worst = {"processor": 0.0, "rate": 0.0}
    for count, (server_us, qps) in foretold.items():
        row = curves[count].row_at(job.recall)
        off = error(server_us, row["server_us"]), error(qps, row["qps"])
        table.append([count, server_us, row["server_us"], off[0], qps, row["qps"], off[1]])
        worst = {
            "processor": max(worst["processor"], off[0]),
            "rate": max(worst["rate"], off[1]),
        }
    print_table(
        f"{case.name}: measured, in turn, one process once more among them",
        ["processes", "servers' us, foretold", "measured", "off", "QPS, foretold", "measured"]
        + ["off"],
        table,
    )
    for what, off in worst.items():
        verdict.add(f"error of {what}, {case.name}", Check(off, limit))
    return costs if max(worst.values()) <= limit else None


@dataclass(frozen=True)
class Rival:
    """What another mode needs for a query at the recall: pages and messages."""

    reads: float
    messages: float

    @property
    def asked(self) -> int:
        """Servers that are asked at once: each has a message and gives one."""
        return round(self.messages / 2)


def scatters(job: Job, vectors: VectorSet) -> list[Rival]:
    """Ways of a graph for each server at the recall."""
    settings, found = job.settings, []
    partitions: int = settings["partitions"]
    mother = replace(job.build, partitions=partitions)

    def index_by(partition_by: str) -> Path:
        return pipeann.partitioned(vectors, replace(mother, partition_by=partition_by), mother)

    ways = ways_of(settings["scatter"], settings["scatter"]["each"], partitions)
    for way in swept(vectors, index_by, partitions, ways, settings["scatter"]["lists"]):
        row = cheapest(way.curve, job.recall)
        if row is not None:
            found.append(Rival(row["reads"], row["messages"]))
    return found


def distributed(job: Job, vectors: VectorSet, index: Path) -> list[Rival]:
    """Both ways of DistributedANN at the recall, by width; none where this program does not have it."""
    told = [str(pipeann.program()), "cluster", "search", "--help"]
    said = subprocess.run(told, check=True, capture_output=True, text=True).stdout
    if "distributed-ann" not in said:
        return []
    partitions: int = job.settings["partitions"]
    found = []
    with serving(index, partitions, Servers(partitions, 1, 8)) as cluster:
        for way in kept_ways(job.settings["distributed_widths"]):
            rows = cluster.search(vectors, job.lists[vectors.name], in_flight=8, policy=way.words)
            row = cheapest(Curve.of_rounds(way.name, [rows]), job.recall)
            if row is not None:
                found.append(Rival(row["reads"], row["messages"]))
    return found


def take_cluster_model(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Constants, predictions, their error, and projections of the cases that hold."""
    settings = job.settings
    most: int = settings["projected"]
    index = pipeann.index_of(vectors, replace(job.build, partitions=settings["partitions"]))
    exact = counted(job, vectors, index, [1, *settings["predicted"], most])
    print_table(
        f"Counts at {job.recall:g}, {settings['relay']}, {vectors.name}",
        ["servers", "reads", "hops, with that to the entry", "skew"],
        [[count, row["reads"], row["hops"], row["skew"]] for count, row in exact.items()],
    )
    cases = {case: predicted(job, vectors, index, case, exact, verdict) for case in cases_of(job)}
    scatter, orchestrated = scatters(job, vectors), distributed(job, vectors, index)
    for case, costs in cases.items():
        if costs is None:
            print(f"\n{case.name}: nothing is projected: the model is off by more than the limit")
        elif case.bound == "processor":
            project_processors(job, case.name, costs, exact, scatter, orchestrated, verdict)
        else:
            project_devices(job, exact, scatter, orchestrated, verdict)
    for bound in ("processor", "device"):
        if not any(costs for case, costs in cases.items() if case.bound == bound):
            verdict.problems.append(f"nothing is projected where the {bound} is the limit")


def project_processors(
    job: Job,
    name: str,
    costs: Costs,
    exact: dict[int, Row],
    scatter: Sequence[Rival],
    orchestrated: Sequence[Rival],
    verdict: Verdict,
) -> None:
    """Rates where processors are the limit, over one server's and over those of other modes."""
    most: int = job.settings["projected"]
    one, many = exact[1], exact[most]
    alone = costs.relay(one["reads"], 0.0)
    relay = costs.relay(many["reads"], many["hops"])
    over = {
        "one server": speed_up(most, alone, relay, many["skew"]),
        # All of a scattered query's servers have as much to do as each other.
        "scatter": least(costs.scatter(r.reads, r.asked) for r in scatter) / relay / many["skew"],
        # Scoring is where the pages are, so its skew is ours.
        "distributed": least(costs.orchestrated(r.reads, r.messages) for r in orchestrated) / relay,
    }
    conclude(job, f"{name}, limited by processors", "processor", over, verdict)


def project_devices(
    job: Job,
    exact: dict[int, Row],
    scatter: Sequence[Rival],
    orchestrated: Sequence[Rival],
    verdict: Verdict,
) -> None:
    """Rates where devices are the limit: reads and skew alone decide."""
    most: int = job.settings["projected"]
    one, many = exact[1], exact[most]
    over = {
        "one server": speed_up(most, one["reads"], many["reads"], many["skew"]),
        "scatter": least(r.reads for r in scatter) / many["reads"] / many["skew"],
        "distributed": least(r.reads for r in orchestrated) / many["reads"],
    }
    conclude(job, "limited by devices", "device", over, verdict)


def least(values: Iterable[float]) -> float:
    """The least of some numbers, and not a number where there are none."""
    return min(values, default=math.nan)


def conclude(job: Job, title: str, bound: str, over: dict[str, float], verdict: Verdict) -> None:
    """Print projections, always called that, and hold them to their targets."""
    targets: dict[str, float] = job.settings["at_least"][bound]
    paper = {"one server": "-", "scatter": PAPER_OVER_SCATTER, "distributed": PAPER_OVER_DISTRIBUTED}
    print_table(
        f"PROJECTED for {job.settings['projected']} servers, {title}: relay over",
        ["", "times", "at least", "paper, 100M rows"],
        [
            [what, "not measured" if math.isnan(ratio) else ratio, targets[what], paper[what]]
            for what, ratio in over.items()
        ],
    )
    for what, ratio in over.items():
        verdict.add(f"over {what}, {bound}", Check(ratio, targets[what], at_most=False))
