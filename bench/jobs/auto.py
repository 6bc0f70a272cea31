"""`auto` against the best fixed policy, idle and busy, on the real device and on injected ones."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from harness import pipeann, sets
from harness.curves import Curve, OutOfRange, interleave
from harness.paired import Interval, until_decided
from harness.pipeann import SearchOptions
from harness.processes import Row
from harness.runs import noted
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

AUTO = "auto"


def around(curve: Curve, recall: float) -> list[int]:
    """The two lists between which the recall lies; the one of k alone where that finds more, since
    none is shorter."""
    rows = sorted(curve.rows, key=lambda row: row["list"])
    if rows[0]["recall"] > recall and rows[0]["list"] <= rows[0].get("k", 10):
        return [rows[0]["list"]]
    for low, high in zip(rows, rows[1:], strict=False):
        if low["recall"] <= recall <= high["recall"]:
            return [low["list"], high["list"]]
    raise OutOfRange(
        f"{curve.name}: no two lists around recall {recall:g}; change those of the job"
    )


@dataclass(frozen=True)
class Ratio:
    """A ratio with its interval, the pairs that it took, and by how much the recall lay outside of
    the two lists around it at most."""

    interval: Interval
    pairs: int
    outside: float


class Contest:
    """Policies on one index under one load, compared at the job's recall."""

    def __init__(self, job: Job, vectors: VectorSet, index: Path, **load: Any) -> None:
        self.job, self.vectors, self.index, self.load = job, vectors, index, load
        self.curves: dict[str, Curve] = {}
        self.outside = 0.0
        # Runs of pairs are short, so that a drift of the device falls on both of a pair alike. One
        # query after the other takes longer. The scan asks the same queries: others have another
        # recall, and lists around that would not be around theirs.
        alone = load.get("in_flight") == 1
        few = job.settings["idle_queries" if alone else "pair_queries"]
        self.few = sets.with_queries(vectors, few)

    def options(self, policy: str) -> SearchOptions:
        """A policy by its name under the load; `auto:FILE` takes its widths from a file."""
        name, _, widths = policy.partition(":")
        if name == AUTO and widths:
            return SearchOptions(policy=name, widths=Path(widths), **self.load)
        return SearchOptions.of(policy, **self.load)

    def scan(self, policies: Sequence[str]) -> None:
        """Curves of the policies over the lists of the job, taken in turn; one that no list brings
        to the recall is told and left out."""

        def run(policy: str) -> list[Row]:
            lists = self.job.around(self.vectors.name)
            return pipeann.search(self.index, self.few, lists, self.options(policy))

        systems = {p: lambda p=p: run(p) for p in policies}
        for policy, curve in interleave(systems, self.job.rounds).items():
            try:
                around(curve, self.job.recall)
            except OutOfRange as reason:
                print(f"left out: {reason}")
            else:
                self.curves[policy] = curve

    def value(self, policy: str, column: str) -> float:
        """A fresh measurement of a column at the recall, by the lists around it."""
        lists = around(self.curves[policy], self.job.recall)
        rows = pipeann.search(self.index, self.few, lists, self.options(policy))
        # Recall wavers from run to run, and may leave the recall outside for once.
        recalls = sorted(row["recall"] for row in rows)
        if len(rows) == 1:
            self.outside = max(self.outside, self.job.recall - recalls[0])
            return float(rows[0][column])
        self.outside = max(self.outside, beyond(recalls, self.job.recall))
        return along([(row["recall"], row[column]) for row in rows], self.job.recall)

    def ratio(
        self, policies: tuple[str, str], column: str, limit: float, looks: Sequence[int]
    ) -> Ratio:
        """The first policy's column over the second's, by pairs until the limit is decided on."""
        first, second = (lambda p=p: self.value(p, column) for p in policies)
        self.outside = 0.0
        return Ratio(*until_decided(first, second, limit, looks), self.outside)


def along(points: Sequence[tuple[float, float]], x: float) -> float:
    """The value at `x` on the line between two points; outside of them that of the nearer one."""
    (x0, y0), (x1, y1) = points
    if x0 == x1:
        return y0
    return y0 + (y1 - y0) * min(1.0, max(0.0, (x - x0) / (x1 - x0)))


def beyond(ends: Sequence[float], x: float) -> float:
    """By how much `x` is outside of the ascending `ends`."""
    return max(0.0, ends[0] - x, x - ends[-1])


def print_scan(title: str, contest: Contest, recall: float) -> None:
    """What each policy of a contest gives at the recall."""
    columns = ("qps", "mean_us", "p99_us", "reads", "cpu_us", "reads_per_s")
    at = {name: curve.row_at(recall) for name, curve in contest.curves.items()}
    table = [[Path(name).stem, *(row[c] for c in columns)] for name, row in at.items()]
    print_table(title, ["policy", *columns], table)


def print_profile(title: str, profile: Row) -> None:
    """Rates by searches (down) and widths (across), and the widths that were chosen."""
    cells = {(cell["searches"], cell["width"]): cell["qps"] for cell in profile["cells"]}
    searches, widths = (sorted({key[i] for key in cells}) for i in (0, 1))
    table = [[str(n), *(cells[n, width] for width in widths)] for n in searches]
    print_table(title, ["searches", *map(str, widths)], table)
    print("chosen: " + ", ".join(f"from {n}: {width}" for n, width in profile["widths"]))


Named = list[tuple[str, Ratio]]


@dataclass(frozen=True)
class Place:
    """A device, and the cores that a search on it may use (all where none are named)."""

    backend: str | None = None
    cores: int | None = None

    def __str__(self) -> str:
        device = self.backend or "real device"
        return device if self.cores is None else f"{device}, cores: {self.cores}"


def drawn_devices(seed: int, count: int) -> list[str]:
    """Injected devices of the seed, evenly over the logarithms of latency and rate."""
    draw = random.Random(seed)

    def between(low: float, high: float) -> int:
        return round(math.exp(draw.uniform(math.log(low), math.log(high))))

    return [f"injected:{between(20, 2000)}:{between(10_000, 200_000)}" for _ in range(count)]


def places(job: Job) -> list[Place]:
    """The real device, and each injected one at full speed and on one core."""
    settings = job.settings
    backends = [
        f"injected:{latency}{rate}"
        for latency in settings["latencies_us"]
        for rate in ("", *(f":{rate}" for rate in settings["rates"]))
    ]
    backends += drawn_devices(settings["drawn_seed"], settings["drawn"])
    return [Place(), *(Place(backend, cores) for backend in backends for cores in (None, 1))]


def finalists(values: Mapping[str, float], at_most: bool, most: int, near: float) -> list[str]:
    """The best by their values, no more than so many: the first, and those so near to it that a
    scan does not tell which is best."""
    order = sorted(values, key=values.__getitem__, reverse=not at_most)
    first = values[order[0]]
    return [p for p in order[:most] if abs(values[p] / first - 1) <= near]


def against_best(
    contest: Contest, title: str, column: str, limit: float, at_most: bool
) -> dict[str, Ratio]:
    """`auto` over those fixed policies that a scan finds best, in a column, by pairs; none where it
    or all of these do not have the recall."""
    job, settings = contest.job, contest.job.settings
    contest.scan([AUTO, *settings["fixed"]])
    print_scan(f"{title}, at {job.recall} on {contest.vectors.name}", contest, job.recall)
    fixed = [p for p in settings["fixed"] if p in contest.curves]
    if AUTO not in contest.curves or not fixed:
        return {}
    values = {p: contest.curves[p].at(column, job.recall) for p in fixed}
    best = finalists(values, at_most, settings["finalists"], settings["near"])
    return {p: contest.ratio((AUTO, p), column, limit, settings["looks"]) for p in best}


def told(what: str, ratios: Mapping[str, Ratio], job: Job, verdict: Verdict) -> None:
    """Note ratios whose recalls were not equal: what they say is no more than that."""
    most = max(ratio.outside for ratio in ratios.values())
    if most > job.settings["recall_within"]:
        verdict.problems.append(f"{what}: recall was {most:.4f} outside of the lists around it")


def idle(job: Job, vectors: VectorSet, index: Path, verdict: Verdict) -> Named:
    """Mean latency over the best fixed policies, one query after the other."""
    found: Named = []
    at_most = job.settings["latency_at_most"]
    for place in places(job):
        alone = {"threads": 1, "in_flight": 1}
        contest = Contest(job, vectors, index, backend=place.backend, cores=place.cores, **alone)
        ratios = against_best(contest, f"Idle, {place}", "mean_us", at_most, at_most=True)
        if not ratios:
            verdict.problems.append(f"idle, {place}: nothing to compare at the recall")
            continue
        told(f"idle, {place}", ratios, job, verdict)
        worst = max(ratio.interval.high for ratio in ratios.values())
        verdict.add(f"latency, {place}", Check(worst, at_most))
        found += [(f"{place}: idle latency over {p}", ratio) for p, ratio in ratios.items()]
    return found


def busy(job: Job, vectors: VectorSet, index: Path, verdict: Verdict) -> Named:
    """Queries a second over the best fixed policies, many in flight."""
    found: Named = []
    settings = job.settings
    at_least = settings["qps_at_least"]
    for place in places(job):
        load = {"threads": place.cores or settings["threads"], "in_flight": settings["in_flight"]}
        contest = Contest(job, vectors, index, backend=place.backend, cores=place.cores, **load)
        ratios = against_best(contest, f"Busy {load}, {place}", "qps", at_least, at_most=False)
        if not ratios:
            verdict.problems.append(f"busy, {place}: nothing to compare at the recall")
            continue
        told(f"busy, {place}", ratios, job, verdict)
        worst = min(ratio.interval.low for ratio in ratios.values())
        verdict.add(f"qps, {place}", Check(worst, at_least, at_most=False))
        found += [(f"{place}: busy QPS over {p}", ratio) for p, ratio in ratios.items()]
    return found


def widths(job: Job, vectors: VectorSet, index: Path, verdict: Verdict) -> Named:
    """A profile of widths, and the rate of `auto` by its table over that of `auto`."""
    settings = job.settings
    load = {"threads": settings["threads"], "in_flight": settings["in_flight"]}
    contest = Contest(job, vectors, index, **load)
    # A profile takes its lists as they are: those that `auto` needs for the recall.
    contest.scan([AUTO])
    if not contest.curves:
        verdict.problems.append("widths: auto does not have the recall")
        return []
    lists = sorted(row["list"] for row in contest.curves[AUTO].rows)
    with tempfile.TemporaryDirectory(prefix="widths-") as folder:
        file = Path(folder) / "profiled.toml"
        profile = pipeann.profile_width(index, vectors, lists, job.recall, file)
        print_profile(f"Queries a second of widths on {vectors.name}", profile)
        by_table = f"{AUTO}:{file}"
        contest.scan([AUTO, by_table])
        if len(contest.curves) < 2:
            verdict.problems.append("widths: nothing to compare at the recall")
            return []
        ratio = contest.ratio((by_table, AUTO), "qps", 1.0, settings["looks"][:2])
    verdict.add("qps of a table", Check(ratio.interval.mean))
    return [("busy QPS of the table over auto", ratio)]


PARTS = {"idle": idle, "busy": busy, "widths": widths}


def take_auto(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Latency alone and queries a second among many over the best fixed policy, on each device;
    `--only` takes one of the parts."""
    index = pipeann.index_of(vectors, job.build)
    found: Named = []
    for name, part in PARTS.items():
        if fnmatch(name, job.only or "*"):
            # What one has found stands, whatever another one meets.
            with noted(verdict, f"{name} on {vectors.name}"):
                found += part(job, vectors, index, verdict)
    print_table(
        f"Ratios at {job.recall} on {vectors.name}, with the ends of their 95% intervals",
        ["ratio", "mean", "low", "high", "pairs", "recall outside"],
        [
            [name, r.interval.mean, r.interval.low, r.interval.high, r.pairs, r.outside]
            for name, r in found
        ],
    )
