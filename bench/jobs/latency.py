"""Latency with one query in flight: against diskannpy, our own beam search, memory."""

from __future__ import annotations

from functools import partial

from harness import pipeann, rivals, sets
from harness.curves import OutOfRange, interleave
from harness.pipeann import SearchOptions
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import DEFAULT, print_curve
from .versus import Aim, Asked, best_ways

QUICKEST = Aim("mean_us", most=False)
COLUMNS = ("mean_us", "p50_us", "p99_us", "reads", "hops", "compute_us", "wait_us", "cpu_us")


def diskannpy(job: Job, vectors: VectorSet) -> dict[str, Asked]:
    """diskannpy with the width of the job, and with the one that is quickest."""
    index = rivals.diskannpy_index(vectors, job.degree, job.build_list)

    def ask(width: int, asked: VectorSet) -> list[Row]:
        lists = job.around(job.settings["rival_lists"])
        return rivals.search_diskannpy(index, asked, lists, width=width, threads=1)

    ways = {f"diskannpy W={width}": partial(ask, width) for width in job.settings["widths"]}
    few = sets.with_queries(sets.vector_set(vectors.name), job.settings["probe_queries"])
    (best,) = best_ways(ways, few, job.recall, 1, QUICKEST)
    return {name: ways[name] for name in (f"diskannpy W={job.settings['width']}", best)}


def take_latency(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Mean latency of `pipe` over diskannpy's, over our `beam`'s, over one raw read."""
    index = pipeann.index_of(vectors, job.build)
    width, lists = job.settings["width"], job.around(vectors.name)
    theirs = diskannpy(job, vectors)
    beam = SearchOptions(policy="beam", width=width, switches={"head": "on"})
    raw_us: list[float] = []

    def pipe() -> list[Row]:
        raw_us.append(pipeann.raw_reads(index, depth=1)["mean_us"])
        return pipeann.search(index, vectors, lists, SearchOptions(policy="pipe"))

    curves = interleave(
        {
            "pipe": pipe,
            "beam": lambda: pipeann.search(index, vectors, lists, beam),
            DEFAULT: lambda: pipeann.search(index, vectors, lists, SearchOptions(policy=DEFAULT)),
            **{name: partial(ask, vectors) for name, ask in theirs.items()},
        },
        job.rounds,
    )
    for curve in curves.values():
        print_curve(curve, COLUMNS)
    mean = {name: curve.at("mean_us", job.recall) for name, curve in curves.items()}
    tail = {name: curve.at("p99_us", job.recall) for name, curve in curves.items()}
    raw = sorted(raw_us)[len(raw_us) // 2]
    print_table(
        f"Latency at {job.recall} on {vectors.name}, one query in flight; a raw read: {raw:.0f} us",
        ["system", "mean_us", "p99_us", "pipe over it", "over a raw read"],
        [[n, mean[n], tail[n], mean["pipe"] / mean[n], mean[n] / raw] for n in curves],
    )
    limits, quickest = job.settings, min(mean[name] for name in theirs)
    verdict.add("diskannpy", Check(mean["pipe"] / quickest, limits["diskannpy_at_most"]))
    verdict.add("beam", Check(mean["pipe"] / mean["beam"], limits["beam_at_most"]))
    # The targets are of `pipe`; what the default takes is reported beside.
    verdict.add("default over diskannpy", Check(mean[DEFAULT] / quickest))


def take_latency_vs_memory(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Mean latency of `pipe` from the SSD over our index held whole in memory."""
    index = pipeann.index_of(vectors, job.build)
    lists = job.around(vectors.name, *job.settings["recalls"])
    whole = SearchOptions.of(job.settings["memory_policy"], memory_limit="all")
    curves = interleave(
        {
            "pipe from SSD": lambda: pipeann.search(
                index, vectors, lists, SearchOptions(policy="pipe")
            ),
            "in memory": lambda: pipeann.search(index, vectors, lists, whole),
        },
        job.rounds,
    )
    for curve in curves.values():
        print_curve(curve, COLUMNS)
    rows = []
    for recall in job.settings["recalls"]:
        try:
            ssd, memory = (curve.at("mean_us", recall) for curve in curves.values())
        except OutOfRange as reason:
            print(reason)
            rows.append([recall, None, None, None])
            continue
        rows.append([recall, ssd, memory, ssd / memory])
        if recall == job.recall:
            verdict.add("ratio", Check(ssd / memory))
    print_table(
        f"Latency on {vectors.name}; the paper reports 1.14 to 2.02 times memory at 0.9",
        ["recall", "SSD mean_us", "memory mean_us", "ratio"],
        rows,
    )
