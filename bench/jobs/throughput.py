"""Queries a second on two threads: against published systems, against the device."""

from __future__ import annotations

import statistics

from harness import pipeann, rivals
from harness.curves import Curve, interleave
from harness.pipeann import SearchOptions
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import print_curve

COLUMNS = ("qps", "mean_us", "p99_us", "reads", "reads_per_s", "cpu_us")


def take_qps_vs_diskann(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Queries a second over those of the fastest published DiskANN configuration."""
    threads, settings = job.settings["threads"], job.settings
    index = pipeann.index_of(vectors, job.build)
    python_index = rivals.diskannpy_index(vectors, job.degree, job.build_list)
    crate_index = rivals.diskann_disk_index(vectors, job.degree, job.build_list)
    systems = {
        policy: lambda policy=policy: pipeann.search(
            index,
            vectors,
            job.lists[vectors.name],
            SearchOptions.of(policy, threads=threads, in_flight=settings["in_flight"]),
        )
        for policy in settings["policies"]
    }
    ours = list(systems)
    for width in settings["widths"]:
        systems[f"diskannpy W={width}"] = lambda width=width: rivals.search_diskannpy(
            python_index, vectors, settings["rival_lists"], width=width, threads=threads
        )
        systems[f"diskann-disk W={width}"] = lambda width=width: rivals.search_diskann_disk(
            crate_index, vectors, settings["rival_lists"], width=width, threads=threads
        )
    curves = interleave(systems, job.rounds)
    for curve in curves.values():
        print_curve(curve, COLUMNS)
    qps = {name: curve.at("qps", job.recall) for name, curve in curves.items()}
    fastest = max((name for name in qps if name not in ours), key=qps.__getitem__)
    print_table(
        f"Queries a second at {job.recall} on {vectors.name}, {threads} threads",
        ["system", "qps", f"over {fastest}"],
        [[name, value, value / qps[fastest]] for name, value in qps.items()],
    )
    ratio = max(qps[name] for name in ours) / qps[fastest]
    verdict.add("ratio", Check(ratio, settings["ratio_at_least"], at_most=False))


def take_qps_vs_device(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Reads a second while searching over what the raw device gives around it."""
    index = pipeann.index_of(vectors, job.build)
    settings = job.settings
    rows, best = [], 0.0
    for policy in settings["policies"]:
        options = SearchOptions.of(
            policy, threads=settings["threads"], in_flight=settings["in_flight"]
        )
        shares, speeds, devices = [], [], []
        for _ in range(job.rounds):
            before = pipeann.raw_reads(index, depth=settings["depth"])
            found = pipeann.search(index, vectors, job.lists[vectors.name], options)
            after = pipeann.raw_reads(index, depth=settings["depth"])
            curve = Curve.of_rounds(policy, [found])
            device = (before["reads_per_s"] + after["reads_per_s"]) / 2
            shares.append(curve.at("reads_per_s", job.recall) / device)
            speeds.append(curve.at("qps", job.recall))
            devices.append(device)
        share = statistics.median(shares)
        rows.append([policy, statistics.median(speeds), statistics.median(devices), share])
        best = max(best, share)
    print_table(
        f"Reads a second at {job.recall} on {vectors.name} over the raw device",
        ["policy", "qps", "raw reads/s", "share"],
        rows,
    )
    verdict.add("share", Check(best, settings["share_at_least"], at_most=False))
