"""Reads a second on two threads against the device.

The target asks for one thread's raw reads at some depth. One thread is no ceiling for two, so those
of as many threads stand beside them, as `fair.raw` reads them, and so does the default policy.
"""

from __future__ import annotations

import statistics

from harness import fair, pipeann
from harness.curves import Curve
from harness.pipeann import SearchOptions
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import DEFAULT


def take_qps_vs_device(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Reads a second while searching over what the raw device gives around it."""
    index = pipeann.index_of(vectors, job.build)
    settings = job.settings
    rows, best, best_of_all = [], 0.0, 0.0
    for policy in (DEFAULT, *settings["policies"]):
        options = SearchOptions.of(
            policy, threads=settings["threads"], in_flight=settings["in_flight"]
        )
        shares, speeds, devices, ceilings = [], [], [], []
        for _ in range(job.rounds):
            before = pipeann.raw_reads(index, depth=settings["depth"])
            found = pipeann.search(index, vectors, job.around(vectors.name), options)
            after = pipeann.raw_reads(index, depth=settings["depth"])
            curve = Curve.of_rounds(policy, [found])
            device = (before["reads_per_s"] + after["reads_per_s"]) / 2
            ceilings.append(curve.at("reads_per_s", job.recall) / (fair.raw(index) or 1.0))
            shares.append(curve.at("reads_per_s", job.recall) / device)
            speeds.append(curve.at("qps", job.recall))
            devices.append(device)
        share, of_all = statistics.median(shares), statistics.median(ceilings)
        rows.append([policy, statistics.median(speeds), statistics.median(devices), share, of_all])
        if policy != DEFAULT:
            best, best_of_all = max(best, share), max(best_of_all, of_all)
    print_table(
        f"Reads a second at {job.recall} on {vectors.name} over the raw device",
        ["policy", "qps", "raw reads/s", "share", f"of {fair.THREADS} threads' raw reads"],
        rows,
    )
    verdict.add("share", Check(best, settings["share_at_least"], at_most=False))
    verdict.add("share of all threads'", Check(best_of_all))
