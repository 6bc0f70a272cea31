"""How far off the estimator is on indexes that its model was not fitted to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness import cases, pipeann, sets
from harness.cases import BUSY, IDLE
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job


def measured(job: Job, vectors: VectorSet, kind: str) -> list[Row]:
    """The cases of a set under `fitted` or `unseen`, measured."""
    lists, whole = job.settings[f"{kind}_lists"], sets.rows_in(vectors.base)
    groups = [group for group in job.settings[kind] if group["set"] == vectors.name]
    if not groups or max(rows for group in groups for rows in group["rows"]) > whole:
        # A set that no fit has looked at.
        groups = [{"rows": [whole // 8, whole // 2], "shares": [0.0, 0.25, 0.75, 1.0]}]
    found: list[Row] = []
    for group in groups:
        for rows in group["rows"]:
            for share in group["shares"]:
                build = replace(job.build, page_bytes=group.get("page_bytes"))
                case = cases.case_of(vectors, rows, share, build)
                found += cases.measure(case, lists)
    return found


def error(told: float, found: float) -> float:
    """By which share an estimate is off, the same for half as for twice."""
    return math.exp(abs(math.log(told / found))) - 1.0


def kept_by(errors: Sequence[float], share: float) -> float:
    """The error that such a share of all keep to (nearest rank)."""
    ranked = sorted(errors)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def compare(job: Job, row: Row) -> dict[str, Any]:
    """A measured row beside what was foretold of it, and the errors."""
    told = pipeann.estimate(row, job.build)[row["load"]]
    pages = row["reads"] if row["share"] < 1 else None
    return {
        "case": f"{row['set']} {row['rows']:,} at {row['share']:.0%}",
        "list": row["list"],
        "load": row["load"],
        "recall": row["recall"],
        "told recall": told["recall"],
        "reads": row["reads"],
        "told reads": told["reads"],
        "mean_us": row["mean_us"],
        "told us": told["mean_us"],
        "qps": row["qps"],
        "told qps": told["qps"],
        "off recall": abs(told["recall"] - row["recall"]),
        "off reads": error(told["reads"], pages) if pages else 0.0,
        "off us": error(told["mean_us"], row["mean_us"]),
        "off qps": error(told["qps"], row["qps"]),
    }


def take_estimate(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Errors of recall, reads, latency and rate on cases not seen."""
    settings = job.settings
    found = [compare(job, row) for row in measured(job, vectors, "unseen")]
    columns = list(found[0])
    print_table(f"Estimates of {vectors.name}", columns, [list(row.values()) for row in found])
    share, busy = settings["kept_by"], [row for row in found if row["load"] == BUSY]
    idle = [row for row in found if row["load"] == IDLE]
    table = [
        ["qps, busy", [row["off qps"] for row in busy]],
        ["mean_us, idle", [row["off us"] for row in idle]],
        ["reads", [row["off reads"] for row in found if row["reads"]]],
        ["recall", [row["off recall"] for row in found]],
    ]
    rows = [[name, len(off), sum(off) / len(off), kept_by(off, share), max(off)] for name, off in table]
    print_table(
        f"How far off on {vectors.name}", ["what", "cases", "mean", f"{share:.0%} keep to", "most"], rows
    )
    limits = {"qps, busy": settings["qps_at_most"], "recall": settings["recall_at_most"]}
    for name, _, _, kept, _ in rows:
        if name in limits:
            verdict.add(name.partition(",")[0], Check(kept, limits[name]))
