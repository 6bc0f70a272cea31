"""What codes of other kinds and lengths change: reads and CPU for a query."""

from __future__ import annotations

from dataclasses import replace

from harness import pipeann, sets
from harness.curves import Curve
from harness.pipeann import SearchOptions
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import print_curve


def kind_and_bytes(codes: str) -> tuple[str, int]:
    """`pq:64` as its parts."""
    kind, _, length = codes.partition(":")
    return kind, int(length)


def take_reads_72b(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Reads per query at the recall, best of the policies and of the codes."""
    table: list[list[object]] = []
    best: float | None = None
    named: dict[str, list[str]] = job.settings["codes"]
    for codes in named.get(vectors.name) or [f"pq:{min(72, sets.dim_of(vectors.base))}"]:
        kind, code_bytes = kind_and_bytes(codes)
        coded = replace(vectors, code_bytes=code_bytes)
        index = pipeann.index_of(coded, replace(job.build, codes=kind))
        for policy in job.settings["policies"]:
            # Reads are counts: one round decides them.
            rows = pipeann.search(index, coded, job.around(vectors.name), SearchOptions.of(policy))
            curve = Curve.of_rounds(f"{policy} with {codes} on {vectors.name}", [rows])
            print_curve(curve)
            at = curve.row_at(job.recall)
            table.append([codes, policy, at["reads"], at["user_us"], at["sys_us"], at["mean_us"]])
            if code_bytes <= 72:
                best = at["reads"] if best is None else min(best, at["reads"])
    columns = ["codes", "policy", "reads", "user_us", "sys_us", "mean_us"]
    print_table(f"{vectors.name} at {job.recall}", columns, table)
    assert best is not None, "the job names codes of at most 72 bytes"
    limited = vectors.name == job.settings["limited"]
    limit = job.settings["reads_at_most"] if limited else None
    verdict.add("reads" if limited else f"reads on {vectors.name}", Check(best, limit))
