"""What a build under a memory limit holds, and what its index is worth."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from harness import pipeann, places
from harness.curves import Curve
from harness.pipeann import SearchOptions
from harness.processes import Row
from harness.sets import VectorSet, dim_of
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import print_curve

GIBIBYTE = 1 << 30
UNLIMITED, LIMITED = "unlimited", "limited"


def grows(vectors: VectorSet) -> bool:
    """Whether more rows can be made of those of a set, which have to be descriptors as of SIFT."""
    return vectors.base.suffix == ".u8bin" and dim_of(vectors.base) == 128


def limit_of(job: Job, peak: int) -> int:
    """The limit of a build, in bytes: that of the job, where it is between a tenth and a quarter of
    what a build without one held, else a fifth. A limit that is no strain would tell nothing."""
    named = int(job.settings["memory_gib"] * GIBIBYTE)
    return named if peak / 10 <= named <= peak / 4 else peak // 5


def take_build_memory(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Peak memory of a build under a limit, and its reads over those of a build without one."""
    rows = job.settings["rows"]
    chosen = pipeann.grown(vectors, rows) if rows and grows(vectors) else vectors
    build = replace(job.build, metric=chosen.metric)
    costs: dict[str, Row] = {}
    curves: dict[tuple[str, str], Curve] = {}
    limit = 0
    with tempfile.TemporaryDirectory(dir=places.cache(), prefix="build-memory-") as folder:
        for name in (UNLIMITED, LIMITED):
            index = Path(folder) / name
            costs[name] = pipeann.build(
                chosen.base, index, chosen.code_bytes, build, memory=str(limit) if limit else None
            )
            limit = limit or limit_of(job, costs[name]["peak_rss_bytes"])
            for policy in job.settings["policies"]:
                options = SearchOptions.of(policy)
                found = pipeann.search(index, chosen, job.around(chosen.name), options)
                curves[name, policy] = Curve.of_rounds(f"{policy}, {name}", [found])
                print_curve(curves[name, policy])
    columns = ["cpu_s", "wall_s", "peak_rss_bytes", "disk_bytes", "mean_degree", "edges_in_page"]
    print_table(
        f"Builds of {chosen.base.name}",
        ["memory", *columns],
        [[name, *(cost[column] for column in columns)] for name, cost in costs.items()],
    )
    print(f"the limit: {limit / GIBIBYTE:.4g} GiB")
    peak = costs[LIMITED]["peak_rss_bytes"] / limit
    verdict.add("peak over the limit", Check(peak, job.settings["peak_at_most"]))
    for policy in job.settings["policies"]:
        reads = [curves[name, policy].at("reads", job.recall) for name in (LIMITED, UNLIMITED)]
        print(f"{policy} at {job.recall}: {reads[0]:.2f} reads, {UNLIMITED} {reads[1]:.2f}")
        verdict.add("reads", Check(reads[0] / reads[1], job.settings["reads_at_most"]))
