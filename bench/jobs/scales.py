"""Rows of which each has a norm of its own, told from others whatever that is."""

from __future__ import annotations

from typing import Any

from harness import doors, rivals, sets
from harness.processes import json_lines
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

SCRIPT = rivals.COMPARE / "scaled_rows.py"
MOMENTS = ("before", "after")


def take_scales(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """By each metric, in both orders of coming, before and after they join the graph."""
    command: list[object] = ["env", f"PYTHONPATH={doors.package()}", rivals.filtered_python()]
    command += [SCRIPT, "--base", vectors.base, "--seed", job.seed]
    # Behind the rows are those that ask.
    asking: int = min(job.settings["queries"], sets.rows_in(vectors.base) // 10)
    rows = sets.at_most(job.settings["rows"], vectors, 0.9)
    command += ["--rows", rows, "--queries", asking]
    told: list[dict[str, Any]] = json_lines([str(word) for word in command])
    for refusal in (one["refusal"] for one in told if "refusal" in one):
        print(f"refused: {refusal}")
    found = [one for one in told if "recall" in one]
    columns = ["metric", "order", "moment", "waiting", "recall", "refused"]
    print_table(
        f"{rows:,} rows of {vectors.name}, norms of 1 to 1e18",
        columns,
        [[one[column] for column in columns] for one in found],
    )
    least = job.settings["recall_at_least"]
    verdict.add("recall", Check(min(one["recall"] for one in found), least, at_most=False))
    verdict.add("refused", Check(max(one["refused"] for one in found), 0))
    # Else what is called before they join was after it.
    before, after = (
        [one["waiting"] for one in found if one["moment"] == moment] for moment in MOMENTS
    )
    verdict.add("waiting before", Check(min(before), 1, at_most=False))
    verdict.add("waiting after", Check(max(after), 0))
