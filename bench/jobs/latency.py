"""Latency with one query in flight: against diskannpy, our own beam search, memory."""

from __future__ import annotations

from harness import pipeann, rivals
from harness.curves import OutOfRange, interleave
from harness.pipeann import SearchOptions
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import print_curve

COLUMNS = ("mean_us", "p50_us", "p99_us", "reads", "hops", "compute_us", "wait_us", "cpu_us")


def take_latency(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Mean latency of `pipe` over diskannpy's, over our `beam`'s, over one raw read."""
    index = pipeann.index_of(vectors, job.build)
    theirs = rivals.diskannpy_index(vectors, job.degree, job.build_list)
    width, lists = job.settings["width"], job.lists[vectors.name]
    beam = SearchOptions(policy="beam", width=width, switches={"head": "on"})
    raw_us: list[float] = []

    def pipe() -> list[Row]:
        raw_us.append(pipeann.raw_reads(index, depth=1)["mean_us"])
        return pipeann.search(index, vectors, lists, SearchOptions(policy="pipe"))

    curves = interleave(
        {
            "pipe": pipe,
            "beam": lambda: pipeann.search(index, vectors, lists, beam),
            "diskannpy": lambda: rivals.search_diskannpy(
                theirs, vectors, job.settings["rival_lists"], width=width, threads=1
            ),
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
    limits = job.settings
    verdict.add("diskannpy", Check(mean["pipe"] / mean["diskannpy"], limits["diskannpy_at_most"]))
    verdict.add("beam", Check(mean["pipe"] / mean["beam"], limits["beam_at_most"]))


def take_latency_vs_memory(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Mean latency of `pipe` from the SSD over our index held whole in memory."""
    index = pipeann.index_of(vectors, job.build)
    lists = job.lists[vectors.name]
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
            # No list is shorter than k, so a low recall may lie below every curve.
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
