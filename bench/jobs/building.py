"""What a build costs: time against a rival's, memory under a limit."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from harness import pipeann, places, rivals
from harness.cache import entry, file_identity
from harness.curves import Curve
from harness.pipeann import SearchOptions
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import print_curve
from .footprint import take_build_cpu

GIBIBYTE = 1 << 30


def grown(vectors: VectorSet, rows: int) -> VectorSet:
    """The set with more rows made from its own, and the exact truth of its queries."""
    script = places.REPO.parent / "shared" / "data" / "scale.py"

    def make(folder: Path) -> None:
        command = [rivals.python(), script, vectors.base, folder / "base.u8bin", rows]
        subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr)
        truth = folder / "truth.bin"
        pipeann.exact_truth(folder / "base.u8bin", vectors.queries, truth)

    made_from = {
        "base": file_identity(vectors.base),
        "queries": file_identity(vectors.queries),
        "rows": rows,
    }
    folder = entry(f"grown-{vectors.name}-{rows}", made_from, make)
    return replace(vectors, base=folder / "base.u8bin", truth=folder / "truth.bin")


def take_build_memory(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Peak memory of a build under a limit, and its reads over those of a build without one."""
    memory, rows = job.settings["memory"], job.settings.get("rows")
    chosen = grown(vectors, rows) if rows else vectors
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


def take_build_fast(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """As `build-cpu`, against the target of the builder that starts from leaves."""
    take_build_cpu(job, vectors, verdict)
