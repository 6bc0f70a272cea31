"""A model of a cluster's rate: its constants, its predictions and their error, and only then what
it projects for more servers than this machine can run."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness import pipeann
from harness.clusters import Cluster, Servers, serving
from harness.curves import Curve, interleave
from harness.processes import Row, json_lines
from harness.projection import Costs, Scoring, error, speed_up
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cluster import cheapest, policy_of, servers_of
from .cluster_rivals import by_reads, kept_at, kept_ways, swept, swept_settings

# Of BatANN over others on ten servers, 100 million rows, as the paper has it.
PAPER = {"scatter": "5.28 to 6.17", "distributed": "1.32 to 2.58"}
OURS = "relay"
# Queries of those who keep the list under way for each of ours.
BETWEEN_STEPS = 4


@dataclass(frozen=True, eq=False)
class Case:
    """Where a prediction is put to the test: memory for pages, cores of all processes, what is the
    limit there, and of how many threads and searches in flight each number of servers is.

    There are no more cores than the fewest servers that are foretold have threads: cores that one
    arrangement leaves idle would be a gain of another."""

    name: str
    memory_limit: str
    cores: int
    bound: str
    servers: dict[str, str]

    def of(self, count: int) -> Servers:
        """So many servers."""
        return servers_of(self.servers[str(count)], self.memory_limit)

    def rate(self, query_us: float) -> float:
        """Queries a second where all cores are busy with them, client included."""
        return min(self.cores, len(os.sched_getaffinity(0))) * 1e6 / query_us


def cases_of(job: Job) -> list[Case]:
    """The job's cases."""
    return [
        Case(name, case["memory_limit"], case["cores"], case["bound"], case["servers"])
        for name, case in job.settings["cases"].items()
    ]


def counted(job: Job, vectors: VectorSet, index: Path, servers: Sequence[int]) -> dict[int, Row]:
    """Reads, hops and skew at the recall by servers: exact, and from one process."""
    found = pipeann.cluster_counts(
        index, vectors, job.around(vectors.name), servers, policy_of(job.settings["relay"])
    )
    rows = {}
    for count in servers:
        of = [row for row in found if row["servers"] == count]
        row = Curve.of_rounds(f"relay on {count} servers", [of]).row_at(job.recall)
        # A query begins at any server and goes to its entry first.
        rows[count] = row | {"hops": row["hops"] + row["hops_to_entry"]}
    return rows


def hop_costs(job: Job, vectors: VectorSet, index: Path, cores: int) -> tuple[float, float]:
    """Processor time of a message that is alone on its way, both ends, and of waking a state."""
    command: list[str | Path] = [*pipeann.pinned(cores), pipeann.lab(), "hop"]
    command += ["--index", index, "--queries", vectors.queries, "--list", "20", "--json"]
    rounds = [json_lines(command) for _ in range(job.rounds)]
    rows = [row for rows in rounds for row in rows]

    def median(what: str) -> float:
        times = sorted(row["cpu_us"] for row in rows if row["what"] == what)
        return float(times[len(times) // 2])

    return median("message, 1 under way"), median("waking, list 20")


def asked(
    job: Job, vectors: VectorSet, cluster: Cluster, policy: Sequence[str] = ()
) -> list[Row]:
    """A round of a cluster that is asked for all it takes, with what a query took of processors."""
    servers = cluster.servers
    in_flight = servers.count * servers.threads * servers.in_flight
    # Where the list stays with whoever asks, he is busy between steps: more of them keep servers so.
    in_flight *= BETWEEN_STEPS if policy else 1
    lists = job.around(vectors.name)
    found = cluster.timed(vectors, lists, in_flight=in_flight, policy=policy)
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


def alone(job: Job, vectors: VectorSet, index: Path, case: Case) -> dict[str, Curve]:
    """One process: our search, and where processors are the limit also what it does for those who
    keep the list, in turn."""
    ways: dict[str, Sequence[str]] = {OURS: ()}
    if case.bound == "processor":
        ways |= {way.name: way.words for way in kept_ways(job.settings["priced_widths"])}
    with serving(index, job.settings["partitions"], case.of(1), cores=case.cores) as cluster:
        systems = {
            name: partial(asked, job, vectors, cluster, words) for name, words in ways.items()
        }
        for warm in systems.values():
            warm()
        return interleave(systems, job.rounds)


def scoring_of(
    job: Job, case: Case, curves: dict[str, Curve], verdict: Verdict
) -> Scoring | None:
    """What a server takes for those who keep the list, where that is told well enough by reads,
    distances and messages."""
    rows = [row for name, curve in curves.items() if name != OURS for row in curve.rows]
    if not rows:
        return None
    scoring = Scoring.fitted(rows)
    table, worst = [], 0.0
    for name, curve in curves.items():
        row = cheapest(curve, job.recall)
        if name == OURS or row is None:
            continue
        needed = row["pages"], row["code_distances"], row["messages"]
        told, took = scoring.cost(*needed), row["server_us"]
        table.append([name, *needed, told, took, error(told, took), row["client_us"]])
        worst = max(worst, error(told, took))
    print_table(
        f"{case.name}: one process for those who keep the list, at {job.recall:g}: query "
        f"{scoring.query:.3g}, read {scoring.read:.3g}, distance {scoring.distance:.3g}, message "
        f"{scoring.message:.3g} us; what whoever asks takes is charged to nobody",
        ["", "pages", "distances", "messages", "us, modelled", "measured", "off", "who asks, us"],
        table,
    )
    limit: float = job.settings["error_at_most"]
    verdict.add(f"error of DistributedANN's price, {case.name}", Check(worst, limit))
    return scoring if table and worst <= limit else None


@dataclass(frozen=True)
class Prices:
    """What queries take of servers in a case that is foretold well enough: ours, and those whose
    list stays with whoever asks where that is known."""

    costs: Costs
    scoring: Scoring | None


def predicted(
    job: Job, vectors: VectorSet, index: Path, case: Case, exact: dict[int, Row], verdict: Verdict
) -> Prices | None:
    """The model's constants in a case, where it foretells several processes well enough there."""
    settings = job.settings
    curves = alone(job, vectors, index, case)
    scoring = scoring_of(job, case, curves, verdict)
    message, waking = hop_costs(job, vectors, index, case.cores)
    distance = scoring.distance if scoring else 0.0
    costs = Costs.fitted(curves[OURS].rows, message, waking, distance)
    one = curves[OURS].row_at(job.recall)
    print_table(
        f"{case.name}: constants of one process and `pipeann-lab hop`, us of processor time; "
        f"{vectors.name}",
        ["", "query", "read", "distance", "message", "waking", "QPS at the recall", "client"],
        [["", costs.query, costs.read, distance, message, waking, one["qps"], one["client_us"]]],
    )
    if not costs.sound:
        verdict.problems.append(f"{case.name}: constants below zero, so nothing is foretold")
        return None
    foretold = {}
    for count in settings["predicted"]:
        pages, distances = (
            one[mine] * exact[count][counted] / exact[1][counted]
            for mine, counted in (("pages", "reads"), ("code_distances", "code_distances"))
        )
        server_us = costs.relay(pages, distances, exact[count]["hops"])
        processors = case.rate(server_us + one["client_us"])
        device = one["qps"] * exact[1]["reads"] / exact[count]["reads"]
        foretold[count] = (server_us, processors if case.bound == "processor" else device)
    print_table(
        f"{case.name}: foretold at {job.recall:g}, limited by the {case.bound}",
        ["processes", "servers' us a query", "QPS"],
        [[count, *values] for count, values in foretold.items()],
    )
    several = measured(job, vectors, index, case, [1, *foretold])
    held = holds_up(job, case, foretold, several, verdict)
    return Prices(costs, scoring) if held else None


def holds_up(
    job: Job,
    case: Case,
    foretold: dict[int, tuple[float, float]],
    curves: dict[int, Curve],
    verdict: Verdict,
) -> bool:
    """Whether what was foretold of a case was measured, but for the error that is let pass."""
    limit: float = job.settings["error_at_most"]
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
    for what, most in worst.items():
        verdict.add(f"error of {what}, {case.name}", Check(most, limit))
    return max(worst.values()) <= limit


@dataclass(frozen=True)
class Rival:
    """What another way needs for a query at the recall, and pages of its busiest server over the
    mean, as for ours."""

    name: str
    reads: float
    distances: float
    messages: float
    skew: float

    @classmethod
    def of(cls, name: str, row: Row) -> Rival:
        """By counts."""
        return cls(name, row["reads"], row["code_distances"], row["messages"], row["skew"])

    @property
    def asked(self) -> int:
        """Servers that are asked at once: each has a message and gives one."""
        return round(self.messages / 2)


# By how they are told: ways of a graph for each server, of DistributedANN as its paper has it, and
# of that with every record of a page.
Rivals = dict[str, list[Rival]]


def rivals_of(job: Job, vectors: VectorSet, index: Path) -> Rivals:
    """Every way of the others that finds the recall, as cluster-modes sweeps them."""
    partitions: int = job.settings["partitions"]
    mother = replace(job.build, partitions=partitions)
    settings = swept_settings(job.quick)

    def index_by(partition_by: str) -> Path:
        return pipeann.partitioned(vectors, replace(mother, partition_by=partition_by), mother)

    scatter = swept(vectors, index_by, partitions, settings["scatter"], job.recall)
    widths, lists = settings["distributed_widths"], job.around(vectors.name)
    kept = kept_at(vectors, index, partitions, widths, lists, job.recall)
    return {
        "scatter": [Rival.of(of.way.name, row) for row, of in by_reads(scatter, job.recall)],
        "distributed": [Rival.of(way.name, row) for way, row in kept.items() if not way.packed],
        "distributed, packed": [Rival.of(way.name, row) for way, row in kept.items() if way.packed],
    }


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
    rivals = rivals_of(job, vectors, index)
    for case, prices in cases.items():
        if prices is None:
            print(f"\n{case.name}: nothing is projected: the model is off by more than the limit")
        elif case.bound == "processor":
            project_processors(job, case.name, prices, exact, rivals, verdict)
        else:
            project_devices(job, exact, rivals, verdict)
    for bound in ("processor", "device"):
        if not any(prices for case, prices in cases.items() if case.bound == bound):
            verdict.problems.append(f"nothing is projected where the {bound} is the limit")


def project_processors(
    job: Job, name: str, prices: Prices, exact: dict[int, Row], rivals: Rivals, verdict: Verdict
) -> None:
    """Rates where processors are the limit, over one server's and over those of other modes. The
    busiest server's work counts on all sides."""
    most: int = job.settings["projected"]
    one, many = exact[1], exact[most]
    costs, scoring = prices.costs, prices.scoring
    single = costs.relay(one["reads"], one["code_distances"], 0.0)
    relay = costs.relay(many["reads"], many["code_distances"], many["hops"])

    def scattered(r: Rival) -> float:
        return costs.scatter(r.reads, r.distances, r.asked) * r.skew

    def kept(r: Rival) -> float:
        cost = scoring.cost(r.reads, r.distances, r.messages) if scoring else math.nan
        return cost * r.skew

    over = [Over("one server", speed_up(most, single, relay, many["skew"]))]
    for what, of in rivals.items():
        price = scattered if what == "scatter" else kept
        over.append(over_least(what, of, price, relay * many["skew"]))
    conclude(job, f"{name}, limited by processors", "processor", over, verdict)


def project_devices(job: Job, exact: dict[int, Row], rivals: Rivals, verdict: Verdict) -> None:
    """Rates where devices are the limit: reads of the busiest server alone decide."""
    most: int = job.settings["projected"]
    one, many = exact[1], exact[most]
    over = [Over("one server", speed_up(most, one["reads"], many["reads"], many["skew"]))]
    ours = many["reads"] * many["skew"]
    over += [over_least(what, of, lambda r: r.reads * r.skew, ours) for what, of in rivals.items()]
    conclude(job, "limited by devices", "device", over, verdict)


@dataclass(frozen=True)
class Over:
    """How many times the rate of another ours is; which way of that is its fastest."""

    what: str
    ratio: float
    way: str = "-"


def over_least(
    what: str, ways: Sequence[Rival], price: Callable[[Rival], float], ours: float
) -> Over:
    """Ours over the way with the least price; not a number where there is none."""
    priced = [(price(way), way.name) for way in ways]
    least, name = min(priced, default=(math.nan, "-"))
    return Over(what, least / ours, name)


def conclude(job: Job, title: str, bound: str, over: Sequence[Over], verdict: Verdict) -> None:
    """Print projections, always called that, and hold to their targets those that have one."""
    targets: dict[str, float] = job.settings["at_least"][bound]
    print_table(
        f"PROJECTED for {job.settings['projected']} servers, {title}: relay over",
        ["", "times", "at least", "paper, 100M rows", "at its best"],
        [
            [o.what, "not measured" if math.isnan(o.ratio) else o.ratio, targets.get(o.what)]
            + [PAPER.get(o.what), o.way]
            for o in over
        ],
    )
    for o in over:
        check = Check(o.ratio, targets.get(o.what), at_most=False)
        verdict.add(f"over {o.what}, {bound}", check)
