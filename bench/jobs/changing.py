"""Recall while rows are replaced, and while their kind changes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness import changes, pipeann, places, sets, updates
from harness.curves import Curve
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job


def size(job: Job, name: str) -> int:
    """A count of the job, smaller for a quick run."""
    found: int = job.settings[f"quick_{name}" if job.quick else name]
    return found


def disk_bytes(index: Path) -> int:
    """Bytes of all files of an index."""
    return sum(f.stat().st_size for f in index.rglob("*") if f.is_file())


def lost(job: Job, changed: Curve, fresh: Curve, verdict: Verdict) -> list[float | None]:
    """Recall lost at equal reads, for each recall of the job, noted in the verdict."""
    recalls = job.settings["recalls"]
    found = changes.lost_at_equal_reads(changed, fresh, recalls)
    if not found:
        verdict.problems.append(f"the curve of {changed.name} covers none of {recalls}")
    for value in found.values():
        verdict.add("recall_lost", Check(value, job.settings["lost_at_most"]))
    return [found.get(recall) for recall in recalls]


def print_load(title: str, runs: dict[str, Row]) -> None:
    """What the changes took."""
    columns = ("insert_s", "upkeep_s", "passes", "rewrites", "retrained", "written_per_row")
    lines = [[name, *(row["load"][c] for c in columns)] for name, row in runs.items()]
    print_table(title, ["after", *columns], lines)


def take_churn(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """All rows replaced some times: recall at equal reads and disk beside fresh builds."""
    # Others take their place, as many more.
    rows, times = sets.at_most(size(job, "rows"), vectors, 0.2), size(job, "times")
    lists, step = job.lists[vectors.name], job.settings["step"]
    built = changes.part_of(vectors, rows, 0)
    index = pipeann.index_of(built, job.build)
    recalls = [f"lost at {recall}" for recall in job.settings["recalls"]]
    for by in ("same", "other"):
        with tempfile.TemporaryDirectory(dir=places.cache(), prefix="churn-") as name:
            place = updates.copy_index(index, Path(name) / "index")
            whole = VectorSet(
                vectors.name, vectors.base, vectors.queries, built.truth, vectors.code_bytes
            )
            found = changes.churn(place, whole, by=by, times=times, step=step, lists=lists)
        lines, runs = [], {}
        for row in found:
            of = changes.part_of(vectors, rows, row["part"])
            fresh = changes.fresh_curve(of, job.build, lists)
            changed = Curve.of_rounds(f"{by}, {row['replacement']} times", [row["curve"]])
            disk = row["load"]["disk_bytes"] / disk_bytes(pipeann.index_of(of, job.build))
            verdict.add("disk", Check(disk, job.settings["disk_at_most"]))
            lines.append([changed.name, *lost(job, changed, fresh, verdict), disk])
            runs[changed.name] = row
        print_load(f"{rows:,} rows replaced in steps of {step:.0%}", runs)
        print_table("Beside a fresh build, at equal reads", ["replaced", *recalls, "disk"], lines)


def take_drift(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Rows of some clusters, then those of all others: recall at equal reads."""
    rows = sets.at_most(size(job, "rows"), vectors)
    first = min(size(job, "first"), rows // 10)
    lists = job.lists[vectors.name]
    whole = changes.split(vectors, rows, first)
    part = sets.base_rows(whole, first)
    index = pipeann.index_of(whole, job.build, base=part)
    with tempfile.TemporaryDirectory(dir=places.cache(), prefix="drift-") as name:
        place = updates.copy_index(index, Path(name) / "index")
        row = changes.drift(place, whole, lists)
    fresh = changes.fresh_curve(whole, job.build, lists)
    changed = Curve.of_rounds(f"{first:,}, then {rows - first:,}", [row["curve"]])
    recalls = [f"lost at {recall}" for recall in job.settings["recalls"]]
    print_load("Rows of other clusters", {changed.name: row})
    line = [changed.name, *lost(job, changed, fresh, verdict)]
    print_table("Beside a fresh build, at equal reads", ["rows", *recalls], [line])
