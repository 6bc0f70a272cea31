"""Queries a second and processor time against published DiskANN, each rival at its best.

Two things may be the limit, and a ratio says little without which it was. So it is taken twice: as
it comes, where the share of the raw device's reads that ours uses tells whether the device is the
limit; and with every system pinned to one core, where the processor is.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from functools import partial

from harness import fair, pipeann, rivals, sets
from harness.curves import Curve, OutOfRange, interleave
from harness.pipeann import SearchOptions
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import print_curve

COLUMNS = ("qps", "mean_us", "p99_us", "reads", "reads_per_s", "cpu_us")
DEFAULT = "auto"
Run = Callable[[], list[Row]]
Asked = Callable[[VectorSet], list[Row]]


def rival_systems(job: Job, vectors: VectorSet) -> dict[str, dict[str, Asked]]:
    """Each rival with every beam width and number of threads."""
    lists, settings = job.settings["rival_lists"], job.settings
    python_index = rivals.diskannpy_index(vectors, job.degree, job.build_list)
    crate_index = rivals.diskann_disk_index(vectors, job.degree, job.build_list)
    searches = {
        "diskannpy": (rivals.search_diskannpy, python_index),
        "diskann-disk": (rivals.search_diskann_disk, crate_index),
    }
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


def best_ways(ways: Mapping[str, Asked], vectors: VectorSet, recall: float, keep: int) -> list[str]:
    """The fastest ways to run a rival, by one round of each with few queries."""
    rates: dict[str, float] = {}
    for name, ask in ways.items():
        try:
            rates[name] = Curve.of_rounds(name, [ask(vectors)]).at("qps", recall)
        except OutOfRange as reason:
            print(reason)
    if not rates:
        raise OutOfRange("no way to run a rival has the recall; change the lists in the job file")
    order = sorted(rates, key=rates.__getitem__, reverse=True)
    print_table("One round of each way", ["way", "qps"], [[name, rates[name]] for name in order])
    return order[:keep]


def own_systems(job: Job, vectors: VectorSet) -> dict[str, Run]:
    """Ours: by default settings first, then the fixed policies."""
    index, settings = pipeann.index_of(vectors, job.build), job.settings

    def run(policy: str) -> list[Row]:
        options = SearchOptions.of(
            policy, threads=settings["threads"], in_flight=settings["in_flight"]
        )
        return pipeann.search(index, vectors, job.lists[vectors.name], options)

    return {policy: partial(run, policy) for policy in (DEFAULT, *settings["policies"])}


def beside_device(run: Run, job: Job, vectors: VectorSet, raw: list[float]) -> list[Row]:
    """A round of ours, and the raw device just before and after it."""
    index = pipeann.index_of(vectors, job.build)
    around = [pipeann.raw_reads(index, depth=fair.DEPTH)["reads_per_s"]]
    rows = run()
    around.append(pipeann.raw_reads(index, depth=fair.DEPTH)["reads_per_s"])
    raw.append(sum(around) / 2)
    return rows


def take_qps_vs_diskann(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Ours by default settings over each rival at its best, as it comes and on one core."""
    few = sets.with_queries(sets.vector_set(vectors.name), job.settings["probe_queries"])
    theirs = rival_systems(job, vectors)
    chosen: dict[str, Asked] = {}
    for ways in theirs.values():
        best = best_ways(ways, few, job.recall, job.settings["contenders"])
        chosen |= {name: ways[name] for name in best}
    raw, curves = taken(job, vectors, chosen)
    share = curves[DEFAULT].at("reads_per_s", job.recall) / raw
    conclude(f"as it comes, {share:.0%} of the raw device", job, vectors, curves, share)
    own = curves[DEFAULT].at("qps", job.recall)
    _, rival = fair.best_of({name: curves[name] for name in chosen}, job.recall)
    limits = job.settings
    verdict.add("ratio", Check(own / rival, limits["ratio_at_least"], at_most=False))
    verdict.add("device", Check(share, limits["device_at_least"], at_most=False))
    with fair.one_core():
        raw, curves = taken(job, vectors, chosen)
    share = curves[DEFAULT].at("reads_per_s", job.recall) / raw
    conclude(f"one core, {share:.0%} of the raw device", job, vectors, curves, share)
    least = min(curves[name].at("cpu_us", job.recall) for name in chosen)
    over = curves[DEFAULT].at("cpu_us", job.recall) / least
    verdict.add("cpu", Check(over, limits["cpu_at_most"]))
    verdict.add("device on one core", Check(share, limits["device_at_most"]))


def taken(
    job: Job, vectors: VectorSet, chosen: Mapping[str, Asked]
) -> tuple[float, dict[str, Curve]]:
    """The raw device around our default, and the curves of all systems, taken in turn."""
    own, raw = own_systems(job, vectors), list[float]()
    systems = {DEFAULT: partial(beside_device, own[DEFAULT], job, vectors, raw)}
    systems |= {name: run for name, run in own.items() if name != DEFAULT}
    systems |= {name: partial(ask, vectors) for name, ask in chosen.items()}
    curves = interleave(systems, job.rounds)
    return statistics.median(raw), curves


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
