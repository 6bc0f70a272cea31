"""Queries a second and processor time against published DiskANN, each rival at its best.

Two things may be the limit, and a ratio says little without which it was. So it is taken twice: as
it comes, where the share of the raw device's reads that ours uses tells whether the device is the
limit; and with every system pinned to one core, where the processor is. The ways to run a rival
that are fastest need not be those that take the least processor time, so they are looked for in
both. The raw device is read on all cores, whoever is pinned meanwhile: it is what is measured.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness import fair, pipeann, rivals, sets
from harness.curves import Curve, OutOfRange, interleave
from harness.pipeann import SearchOptions
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import DEFAULT, print_curve

COLUMNS = ("qps", "mean_us", "p99_us", "reads", "reads_per_s", "cpu_us", "peak_rss_bytes")
Run = Callable[[], list[Row]]
Asked = Callable[[VectorSet], list[Row]]


def rival_systems(job: Job, vectors: VectorSet) -> dict[str, dict[str, Asked]]:
    """Each rival that takes the set with every beam width and number of threads."""
    settings = job.settings
    lists = job.around(settings["rival_lists"])
    python_index = rivals.diskannpy_index(vectors, job.degree, job.build_list)
    searches = {"diskannpy": (rivals.search_diskannpy, python_index)}
    if lacks := rivals.crate_lacks(vectors):
        print(f"left out: {lacks}")
    else:
        crate_index = rivals.diskann_disk_index(vectors, job.degree, job.build_list)
        searches["diskann-disk"] = (rivals.search_diskann_disk, crate_index)
    found: dict[str, dict[str, Asked]] = {}
    for name, (search, index) in searches.items():
        found[name] = {
            f"{name} W={width}, {threads} threads": partial(
                lambda search, index, width, threads, asked: search(
                    index, asked, lists, width=width, threads=threads
                ),
                search,
                index,
                width,
                threads,
            )
            for width in settings["widths"]
            for threads in settings["rival_threads"]
        }
    return found


@dataclass(frozen=True)
class Aim:
    """The column by which ways to run a rival are told apart, and whether more of it is better."""

    column: str
    most: bool


FASTEST, CHEAPEST = Aim("qps", most=True), Aim("cpu_us", most=False)


def best_ways(
    ways: Mapping[str, Asked], vectors: VectorSet, recall: float, keep: int, aim: Aim = FASTEST
) -> list[str]:
    """The best ways to run a rival, by one round of each with few queries."""
    found: dict[str, float] = {}
    for name, ask in ways.items():
        try:
            found[name] = Curve.of_rounds(name, [ask(vectors)]).at(aim.column, recall)
        except OutOfRange as reason:
            print(reason)
    if not found:
        raise OutOfRange("no way to run a rival has the recall; change the lists in the job file")
    order = sorted(found, key=found.__getitem__, reverse=aim.most)
    table = [[name, found[name]] for name in order]
    print_table("One round of each way", ["way", aim.column], table)
    return order[:keep]


def contenders(job: Job, vectors: VectorSet, aim: Aim) -> dict[str, Asked]:
    """The best ways to run each rival, as things are now: on all cores, or on one."""
    whole = sets.vector_set(vectors.name)
    few = sets.with_queries(whole, job.settings["probe_queries"])
    chosen: dict[str, Asked] = {}
    for ways in rival_systems(job, vectors).values():
        best = best_ways(ways, few, job.recall, job.settings["contenders"], aim)
        chosen |= {name: ways[name] for name in best}
    return chosen


def own_systems(job: Job, vectors: VectorSet) -> dict[str, Run]:
    """Ours: by default settings first, then the fixed policies."""
    index, settings = pipeann.index_of(vectors, job.build), job.settings

    def run(policy: str) -> list[Row]:
        options = SearchOptions.of(
            policy, threads=settings["threads"], in_flight=settings["in_flight"]
        )
        return pipeann.search(index, vectors, job.around(vectors.name), options)

    return {policy: partial(run, policy) for policy in (DEFAULT, *settings["policies"])}


class Device:
    """The raw device around rounds of ours, always read on all cores."""

    def __init__(self, index: Path) -> None:
        self.index, self.cores = index, os.sched_getaffinity(0)
        self.around: list[float] = []

    def reads_per_s(self) -> float:
        """What it gives now."""
        with fair.pinned(self.cores):
            return fair.raw(self.index) or 0.0

    def beside(self, run: Run) -> list[Row]:
        """A round of ours, and the device just before and after it."""
        before = self.reads_per_s()
        rows = run()
        self.around.append((before + self.reads_per_s()) / 2)
        return rows


def take_qps_vs_diskann(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Ours by default settings over each rival at its best, as it comes and on one core."""
    index = pipeann.index_of(vectors, job.build)
    chosen = contenders(job, vectors, FASTEST)
    raw, curves = taken(job, vectors, chosen, Device(index))
    share = curves[DEFAULT].at("reads_per_s", job.recall) / raw
    conclude(f"as it comes, {share:.0%} of the raw device", job, vectors, curves, share)
    own = curves[DEFAULT].at("qps", job.recall)
    _, rival = fair.best_of({name: curves[name] for name in chosen}, job.recall)
    limits = job.settings
    verdict.add("ratio", Check(own / rival, limits["ratio_at_least"], at_most=False))
    verdict.add("device", Check(share, limits["device_at_least"], at_most=False))
    device = Device(index)
    with fair.one_core():
        chosen = contenders(job, vectors, CHEAPEST)
        raw, curves = taken(job, vectors, chosen, device)
    share = curves[DEFAULT].at("reads_per_s", job.recall) / raw
    conclude(f"one core, {share:.0%} of the raw device", job, vectors, curves, share)
    least = min(curves[name].at("cpu_us", job.recall) for name in chosen)
    over = curves[DEFAULT].at("cpu_us", job.recall) / least
    verdict.add("cpu", Check(over, limits["cpu_at_most"]))
    verdict.add("device on one core", Check(share, limits["device_at_most"]))


def taken(
    job: Job, vectors: VectorSet, chosen: Mapping[str, Asked], device: Device
) -> tuple[float, dict[str, Curve]]:
    """The raw device around our default, and the curves of all systems, taken in turn."""
    own = own_systems(job, vectors)
    systems = {DEFAULT: partial(device.beside, own[DEFAULT])}
    systems |= {name: run for name, run in own.items() if name != DEFAULT}
    systems |= {name: partial(ask, vectors) for name, ask in chosen.items()}
    curves = interleave(systems, job.rounds)
    return statistics.median(device.around), curves


def conclude(
    how: str, job: Job, vectors: VectorSet, curves: Mapping[str, Curve], share: float
) -> None:
    """The table of one of both: every system, and ours by default and at its best over it."""
    for curve in curves.values():
        print_curve(curve, COLUMNS)
    best, rate = fair.best_of(
        {name: curves[name] for name in (DEFAULT, *job.settings["policies"])}, job.recall
    )
    own = curves[DEFAULT].at("qps", job.recall)
    lines = []
    for name, curve in curves.items():
        qps, cpu = curve.at("qps", job.recall), curve.at("cpu_us", job.recall)
        over = curves[DEFAULT].at("cpu_us", job.recall) / cpu
        lines.append([name, qps, cpu, own / qps, rate / qps, over])
    columns = ["system", "qps", "cpu_us", "default over it", f"{best} over it", "default's CPU"]
    print_table(f"{vectors.name} at {job.recall}, {how}", columns, lines)
    device = share >= job.settings["device_at_least"]
    print(f"the limit: {'the device' if device else 'not the device'}")
