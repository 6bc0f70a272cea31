"""Reads a second on two threads against the device."""

from __future__ import annotations

import statistics

from harness import pipeann
from harness.curves import Curve
from harness.pipeann import SearchOptions
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job


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
