"""What a build under a memory limit holds, and what its index is worth."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness import pipeann, places
from harness.curves import Curve
from harness.pipeann import SearchOptions
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import print_curve

GIBIBYTE = 1 << 30


def take_build_memory(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Peak memory of a build under a limit, and its reads over those of a build without one."""
    memory, rows = job.settings["memory"], job.settings.get("rows")
    chosen = pipeann.grown(vectors, rows) if rows else vectors
    costs: dict[str, Row] = {}
    curves: dict[tuple[str, str], Curve] = {}
    with tempfile.TemporaryDirectory(dir=places.cache(), prefix="build-memory-") as folder:
        for name, limit in (("unlimited", None), (memory, memory)):
            index = Path(folder) / name
            costs[name] = pipeann.build(
                chosen.base, index, chosen.code_bytes, job.build, memory=limit
            )
            for policy in job.settings["policies"]:
                options = SearchOptions.of(policy)
                found = pipeann.search(index, chosen, job.lists[chosen.name], options)
                curves[name, policy] = Curve.of_rounds(f"{policy}, {name}", [found])
                print_curve(curves[name, policy])
    columns = ["cpu_s", "wall_s", "peak_rss_bytes", "disk_bytes", "mean_degree", "edges_in_page"]
    print_table(
        f"Builds of {chosen.base.name}",
        ["memory", *columns],
        [[name, *(cost[column] for column in columns)] for name, cost in costs.items()],
    )
    peak = costs[memory]["peak_rss_bytes"] / GIBIBYTE
    verdict.add("peak_gib", Check(peak, job.settings["peak_gib_at_most"]))
    for policy in job.settings["policies"]:
        reads = [curves[name, policy].at("reads", job.recall) for name in (memory, "unlimited")]
        print(f"{policy} at {job.recall}: {reads[0]:.2f} reads, unlimited {reads[1]:.2f}")
        verdict.add("reads", Check(reads[0] / reads[1], job.settings["reads_at_most"]))
