"""Filtered searches of a collection: recall, rate, equal answers to equal questions, memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness import filtered, sets
from harness.filtered import Cell, FilteredSet, SearchOptions, way_words
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

COLUMNS = ("list", "recall", "qps", "mean_us", "reads", "cpu_us")
# Cells between two searches without a filter.
BATCH = 7


def filtered_set(job: Job, vectors: VectorSet) -> FilteredSet:
    """The set of a job: its cells have queries of their own, whatever the job's other ones are."""
    whole = sets.vector_set(vectors.name)
    queries = min(100, job.queries)
    rows = sets.at_most(job.settings["rows"], whole)
    return filtered.filtered_set(whole, rows, queries, job.seed)


def percent(share: float) -> str:
    """A share for people."""
    return f"{100 * share:.3g}%"


def no_wrong(cell: Cell, rows: Sequence[Row], verdict: Verdict) -> None:
    """Answers that do not match make a figure void."""
    wrong = sum(row["wrong"] for row in rows)
    if wrong:
        verdict.problems.append(f"{cell.name}: {wrong} rows were answered that do not match")


def take_filter_recall(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Recall in each cell with the settings of a search that gives none."""
    data = filtered_set(job, vectors)
    options = SearchOptions(threads=job.settings["threads"], rounds=job.rounds)
    lines = []
    for cell in data.named(job.only):
        rows, _ = filtered.search(data.database, cell.searched, options)
        no_wrong(cell, rows, verdict)
        row = rows[-1]
        verdict.add("recall", Check(row["recall"], job.recall, at_most=False))
        columns = [row[name] for name in ("recall", "mean_us", "p99_us", "reads", "cpu_us")]
        lines.append([cell.name, percent(cell.matched), *columns, way_words(row)])
    print_table(
        f"{data.rows:,} rows of {vectors.name}, default settings, {options.threads} threads",
        ["cell", "match", "recall", "mean_us", "p99_us", "reads", "cpu_us", "ways"],
        lines,
    )
    short = [str(line[0]) for line in lines if line[2] < job.recall]
    print(f"{len(short)} of {len(lines)} cells are below {job.recall}: {', '.join(short) or '-'}")


def take_filter_qps(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Queries a second in each cell over those without a filter, both at the recall.

    Searches without a filter take turns with the cells, since the machine drifts within minutes."""
    data = filtered_set(job, vectors)
    settings, lists = job.settings, job.lists[vectors.name]
    threads, rounds = settings["threads"], job.rounds
    options = SearchOptions(lists, threads, rounds, until=job.recall)
    found = filtered.search(data.database, data.plain, options)[0]
    print_table("Without a filter", COLUMNS, [[row[name] for name in COLUMNS] for row in found])
    enough = first_at(found, job.recall)
    if enough is None:
        verdict.problems.append(f"no list has {job.recall} without a filter")
        return
    plain = SearchOptions([enough["list"]], threads, rounds)
    lines: list[list[Any]] = []
    for some in batches(data.named(job.only, data.made)):
        rates = [filtered.search(data.database, data.plain, plain)[0][0]["qps"]]
        taken = [(c, filtered.search(data.database, c.searched, options)) for c in some]
        rates.append(filtered.search(data.database, data.plain, plain)[0][0]["qps"])
        for cell, (rows, _) in taken:
            no_wrong(cell, rows, verdict)
            line = line_of(cell, rows, sum(rates) / 2, job)
            verdict.add(cell.kind, Check(line[-3], line[-2], at_most=False))
            lines.append([*line, way_words(first_at(rows, job.recall) or rows[-1])])
    print_table(
        f"{data.rows:,} rows of {vectors.name}, {threads} threads, recall {job.recall}",
        ["cell", "match", *COLUMNS, "plain qps", "over plain", "limit", "", "ways"],
        lines,
    )
    short = sum(line[-2] == "short" for line in lines)
    print(f"{short} of {len(lines)} cells are short")


def batches(cells: Sequence[Cell]) -> list[Sequence[Cell]]:
    """The cells in small groups."""
    return [cells[start : start + BATCH] for start in range(0, len(cells), BATCH)]


def line_of(cell: Cell, rows: Sequence[Row], plain_qps: float, job: Job) -> list[Any]:
    """What was reached in a cell, over what is reached without a filter, and the limit of that."""
    found, limit = first_at(rows, job.recall), limit_of(cell, job.settings)
    ratio = found["qps"] / plain_qps if found else 0.0
    columns = [(found or rows[-1])[name] for name in COLUMNS]
    state = "" if ratio >= limit else "short"
    return [cell.name, percent(cell.matched), *columns, plain_qps, ratio, limit, state]


def first_at(rows: Sequence[Row], recall: float) -> Row | None:
    """The row of the shortest list that has a recall."""
    return next((row for row in rows if row["recall"] >= recall), None)


def limit_of(cell: Cell, settings: dict[str, Any]) -> float:
    """What a cell has to reach."""
    if cell.share < settings["rare_below"]:
        return float(settings["rare_at_least"])
    if cell.kind == "far" and settings["far_from"] <= cell.share <= settings["far_to"]:
        return float(settings["far_at_least"])
    return float(settings["at_least"])
