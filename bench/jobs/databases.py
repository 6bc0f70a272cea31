"""Whole collections: opened after a kill, and loaded under a memory limit."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from harness import databases, places, sets
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

MEGABYTE = 1_000_000


def take_reopen(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Time to insert rows over the time to the first correct answer after a kill.

    Twice: killed when the last row was acknowledged, and when all were linked as well."""
    prefix = "quick_" if job.quick else ""
    rows = sets.at_most(job.settings[f"{prefix}rows"], vectors, 0.9)
    logged = min(job.settings[f"{prefix}log_rows"], sets.rows_in(vectors.base) - rows)
    batch, buffer = job.settings["batch"], job.settings["buffer_bytes"]
    database = databases.filled(f"reopen-{vectors.name}", [("rows", vectors, rows)])
    lines = []
    for name in ("inserted", "linked"):
        ratios, inserts, answers = [], [], []
        for nth in range(job.rounds):
            # How long all rows take to be linked is told once.
            last = nth == job.rounds - 1
            with tempfile.TemporaryDirectory(dir=places.cache(), prefix="reopen-") as folder:
                copy = Path(folder) / "db"
                databases.copy(database, copy)
                link = name == "linked"
                new = range(rows, rows + logged)
                filled = databases.fill_and_kill(
                    copy, vectors, new, batch=batch, buffer=buffer, link=link
                )
                found = databases.reopen(copy, vectors, rows + logged, buffer=buffer, link=last)
            if found["records_replayed"] * batch < logged:
                verdict.problems.append(f"{found['records_replayed']} records were replayed")
            if found["missed"]:
                verdict.problems.append(f"{found['missed']} rows were not found")
            inserts.append(filled[f"{name}_s"])
            answers.append(found["first_answer_s"])
            ratios.append(filled[f"{name}_s"] / found["first_answer_s"])
        columns = [name, statistics.median(inserts), statistics.median(answers)]
        lines.append([*columns, statistics.median(ratios), found["linked_s"]])
        verdict.add(
            name, Check(statistics.median(ratios), job.settings["at_least"], at_most=False)
        )
    print_table(
        f"{logged:,} rows in the log beside {rows:,} of {vectors.name}",
        ["killed when all were", "inserts_s", "first_answer_s", "ratio", "all linked_s"],
        lines,
    )


def take_memory_live(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """The most memory of a process that writes to two collections and searches them."""
    other = sets.vector_set(job.settings["other"])
    rows = sets.at_most(job.settings["rows"], vectors)
    others = sets.at_most(job.settings["other_rows"], other)
    parts = [("rows", vectors, rows), ("other", other, others)]
    database = databases.filled(f"memory-live-{vectors.name}", parts)
    limit = job.settings["limit_bytes"]
    with tempfile.TemporaryDirectory(dir=places.cache(), prefix="memory-live-") as folder:
        copy = Path(folder) / "db"
        databases.copy(database, copy)
        found = databases.live(
            copy,
            [(name, part) for name, part, _ in parts],
            seconds=job.settings["quick_seconds" if job.quick else "seconds"],
            limit=limit,
            buffer=job.settings["buffer_bytes"],
            dirty=job.settings["dirty_bytes"],
        )
    print_table(
        f"Two collections under {limit / MEGABYTE:.0f} MB, {found['seconds']:.0f} s",
        ["collection", "rows", "written", "searched", "linked", "pending", "deleted"],
        [
            [c["name"], *(c[k] for k in ("rows", "written", "searched"))]
            + [c[k] for k in ("linked", "pending", "deleted")]
            for c in found["collections"]
        ],
    )
    columns = ["held_peak_bytes", "anonymous_peak_bytes", "peak_rss_bytes"]
    print_table("Memory, MB", columns, [[found[c] / MEGABYTE for c in columns]])
    for collection in found["collections"]:
        if collection["failed"]:
            verdict.problems.append(f"{collection['name']}: {collection['failed']}")
    peak = found["anonymous_peak_bytes"]
    verdict.add("anonymous_mb", Check(peak / MEGABYTE, limit / MEGABYTE))
