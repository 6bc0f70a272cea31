"""Rows linked into a large index: how fast, at what cost in bytes, and searches beside it."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

from harness import pipeann, places, rivals, sets, updates
from harness.pipeann import SearchOptions
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

LIMITS = {"resident": "all", "floor": "floor"}


def first_rows(job: Job, vectors: VectorSet) -> int:
    """How many rows the index has into which the others are linked."""
    return sets.at_most(job.settings["rows"], vectors, 0.9)


def part_index(job: Job, vectors: VectorSet) -> Path:
    """The index of the first rows, into which the others are linked."""
    part = sets.base_rows(vectors, first_rows(job, vectors))
    return pipeann.index_of(vectors, job.build, base=part)


def count(job: Job, vectors: VectorSet) -> int:
    """Rows to link."""
    wanted: int = job.settings["quick_count" if job.quick else "count"]
    return min(wanted, sets.rows_in(vectors.base) - first_rows(job, vectors))


def link(job: Job, vectors: VectorSet, index: Path, limit: str, *others: str | Path) -> Row:
    """Link the rows of the job on its threads."""
    return updates.insert(
        index,
        vectors.base,
        count=count(job, vectors),
        threads=job.settings["threads"],
        memory_limit=limit,
        others=others,
    )


def median(rows: list[Row], column: str) -> float:
    """The median of a column."""
    return statistics.median(float(row[column]) for row in rows)


def take_inserts(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Rows linked a second over hnswlib's, and the recall that they leave."""
    index = part_index(job, vectors)
    links, ef = job.settings["links"], job.settings["ef_construction"]
    part = sets.base_rows(vectors, first_rows(job, vectors))
    graph = rivals.hnswlib_index(vectors, links, ef, base=part)
    threads = job.settings["threads"]
    taken: dict[str, list[Row]] = {name: [] for name in (*LIMITS, "hnswlib")}
    for _ in range(job.rounds):
        for name, limit in LIMITS.items():
            taken[name].append(link(job, vectors, index, limit, "--discard"))
        taken["hnswlib"].append(
            rivals.add_hnswlib(
                graph, vectors, count=count(job, vectors), threads=threads, ef_construction=ef
            )
        )
    theirs = median(taken["hnswlib"], "rows_per_s")
    rates = {name: median(rows, "rows_per_s") for name, rows in taken.items()}
    print_table(
        f"Rows linked into {first_rows(job, vectors):,} of {vectors.name} on {threads} threads",
        ["system", "rows/s", "over hnswlib", "cpu_us"],
        [
            [name, rates[name], rates[name] / theirs, median(rows, "cpu_us")]
            for name, rows in taken.items()
        ],
    )
    for name in LIMITS:
        limit = job.settings[f"{name}_at_least"]
        verdict.add(name, Check(rates[name] / theirs, limit, at_most=False))
    lost = recall_lost(job, vectors, index)
    verdict.add("recall_lost", Check(lost, job.settings["recall_lost_at_most"]))


def recall_lost(job: Job, vectors: VectorSet, index: Path) -> float:
    """How far recall stays behind a fresh build of all rows at equal lists, at worst: of the
    set's queries, and of a sample of the new rows, each of which looks for its neighbours."""
    rows = first_rows(job, vectors) + count(job, vectors)
    whole = sets.base_rows(vectors, rows)
    fresh = pipeann.index_of(vectors, job.build, base=whole)
    with tempfile.TemporaryDirectory(dir=places.cache(), prefix="inserts-") as name:
        folder = Path(name)
        changed = updates.copy_index(index, folder / "index")
        link(job, vectors, changed, LIMITS["resident"])
        asked = {
            "queries": vectors.queries,
            "new rows": folder / f"new{vectors.base.suffix}",
        }
        sample = min(job.settings["sample"], count(job, vectors))
        sets.first_rows(vectors.base, sample, asked["new rows"], skip=rows - sample)
        lines, worst = [], 0.0
        for kind, queries in asked.items():
            truth = updates.truth_of(whole, queries, folder / "truth.bin", metric=vectors.metric)
            some = replace(vectors, base=whole, queries=queries, truth=truth)
            found = {
                system: pipeann.search(
                    place, some, job.lists[vectors.name], SearchOptions.of("pipe")
                )
                for system, place in (("linked", changed), ("fresh", fresh))
            }
            for mine, theirs in zip(found["linked"], found["fresh"], strict=True):
                lines.append(
                    [kind, mine["list"], mine["recall"], theirs["recall"]]
                    + [mine["reads"], theirs["reads"]]
                )
                worst = max(worst, theirs["recall"] - mine["recall"])
    header = ["asked for", "list", "recall", "fresh build", "reads", "fresh build"]
    print_table(f"Recall@10 after {count(job, vectors):,} rows were linked", header, lines)
    return worst


def take_write_bytes(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Bytes written for each row linked, with a checkpoint at each so many dirty rows."""
    index = part_index(job, vectors)
    dirty = job.settings["dirty_rows"]
    with tempfile.TemporaryDirectory(dir=places.cache(), prefix="write-bytes-") as folder:
        changed = updates.copy_index(index, Path(folder) / "index")
        row = link(job, vectors, changed, LIMITS["floor"], "--dirty-rows", str(dirty))
    print_table(
        f"Written for each of {row['rows']:,} rows, a checkpoint every {dirty:,}",
        ["what", "bytes a row"],
        [
            ["pages, codes and maps", row["checkpoint_bytes"] / row["rows"]],
            ["log", row["log_bytes"] / row["rows"]],
        ],
    )
    print(
        f"{row['checkpoints']} checkpoints took {row['checkpoint_s']:.1f} s, "
        f"links {row['link_s']:.1f} s; {row['copied_pages']:,} pages were copied unchanged"
    )
    verdict.add("bytes_per_row", Check(row["bytes_per_row"], job.settings["bytes_at_most"]))


def take_search_while_inserting(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Latency of one query in flight while rows are linked at half the rate, over none."""
    index = part_index(job, vectors)
    lines = []
    for name, limit in LIMITS.items():
        full = link(job, vectors, index, limit, "--discard")
        rate = full["rows_per_s"] / 2
        options: list[str | Path] = ["--discard", "--rate", f"{rate:.0f}"]
        options += ["--nice", str(job.settings["nice"])]
        options += ["--queries", vectors.queries, "--alone", str(job.settings["alone_s"])]
        options += ["--list", str(job.lists[vectors.name][0])]
        rounds = [link(job, vectors, index, limit, *options) for _ in range(job.rounds)]
        means = {
            part: statistics.median(row[part]["mean_us"] for row in rounds)
            for part in ("search_alone", "search_beside")
        }
        p99 = statistics.median(row["search_beside"]["p99_us"] for row in rounds)
        ratio = statistics.median(
            row["search_beside"]["mean_us"] / row["search_alone"]["mean_us"] for row in rounds
        )
        reached = median(rounds, "rows_per_s")
        if reached < 0.95 * rate:
            verdict.problems.append(f"{name}: {reached:.0f} rows/s instead of {rate:.0f}")
        lines.append([name, full["rows_per_s"], reached, *means.values(), p99, ratio])
        verdict.add(name, Check(ratio, job.settings["ratio_at_most"]))
    print_table(
        f"One query in flight on {vectors.name}, list {job.lists[vectors.name][0]}; "
        f"linking at niceness {job.settings['nice']}",
        ["setting", "rows/s", "beside it", "alone us", "beside us", "p99 us", "ratio"],
        lines,
    )
