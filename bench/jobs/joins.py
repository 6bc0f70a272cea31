"""Servers of one database that come: three that begin, and an empty one that joins."""

from __future__ import annotations

from harness.clusters import counted
from harness.sets import VectorSet, at_most
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job


def take_cluster_join(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Three servers to their first answers, and a fourth beside their rows."""
    settings = job.settings
    rows = at_most(settings["rows"], vectors)
    found = counted("joins.py", vectors.base, rows, "--metric", vectors.metric)
    over_copy = found["local_s"] / found["copy_s"]
    print_table(
        "A fourth server, empty, beside three of one database",
        [
            "rows",
            "three answer, s",
            "fourth answers, s",
            "all local, s",
            "plain copy, s",
            "over it",
            "MB of a server",
            "MB of the store",
        ],
        [
            [
                found["rows"],
                found["three_s"],
                found["first_s"],
                found["local_s"],
                found["copy_s"],
                over_copy,
                found["bytes"] // 1_000_000,
                found["store_bytes"] // 1_000_000,
            ]
        ],
    )
    verdict.add("rows that the fourth lacks", Check(found["lacks"], 0))
    verdict.add("three servers answer, s", Check(found["three_s"], settings["three_s"]))
    verdict.add("the fourth answers, s", Check(found["first_s"], settings["first_s"]))
    verdict.add("all local, over a plain copy", Check(over_copy, settings["over_copy"]))
