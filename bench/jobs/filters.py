"""Filtered searches of a collection: recall, rate, equal answers to equal questions, memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness import filtered, sets
from harness.filtered import Cell, FilteredSet, SearchOptions, plan_words
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job


def filtered_set(job: Job, vectors: VectorSet) -> FilteredSet:
    """The set of a job: its cells have queries of their own, whatever the job's other ones are."""
    whole = sets.vector_set(vectors.name)
    queries = min(100, job.queries)
    return filtered.filtered_set(whole, job.settings["rows"], queries, job.seed)


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
    options = SearchOptions(threads=job.settings["threads"], rounds=job.rounds, explain=True)
    lines = []
    for cell in data.named(job.only):
        rows, plans = filtered.search(data.database, cell.searched, options)
        no_wrong(cell, rows, verdict)
        row = rows[-1]
        verdict.add("recall", Check(row["recall"], job.recall, at_most=False))
        columns = [row[name] for name in ("recall", "mean_us", "p99_us", "reads", "cpu_us")]
        lines.append([cell.name, percent(cell.matched), *columns, plan_words(plans)])
    print_table(
        f"{data.rows:,} rows of {vectors.name}, default settings, {options.threads} threads",
        ["cell", "match", "recall", "mean_us", "p99_us", "reads", "cpu_us", "plans"],
        lines,
    )
    short = [str(line[0]) for line in lines if line[2] < job.recall]
    print(f"{len(short)} of {len(lines)} cells are below {job.recall}: {', '.join(short) or '-'}")


def take_filter_qps(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Queries a second in each cell over those without a filter, both at the recall."""
    data = filtered_set(job, vectors)
    settings, lists = job.settings, job.lists[vectors.name]
    plain = unfiltered(job, vectors, data)
    plain_row = first_at(plain, job.recall)
    if plain_row is None:
        verdict.problems.append(f"no list has {job.recall} without a filter")
        return
    options = SearchOptions(lists, settings["threads"], job.rounds, until=job.recall, explain=True)
    lines: list[list[Any]] = []
    for cell in data.named(job.only, data.made):
        rows, plans = filtered.search(data.database, cell.searched, options)
        no_wrong(cell, rows, verdict)
        found, limit = first_at(rows, job.recall), limit_of(cell, settings)
        ratio = found["qps"] / plain_row["qps"] if found else 0.0
        verdict.add(f"{cell.kind}", Check(ratio, limit, at_most=False))
        row = found or rows[-1]
        columns = [row[name] for name in ("list", "recall", "qps", "mean_us", "reads", "cpu_us")]
        state = "" if ratio >= limit else "short"
        lines.append(
            [cell.name, percent(cell.matched), *columns, ratio, limit, state, plan_words(plans)]
        )
    columns = ["list", "recall", "qps", "mean_us", "reads", "cpu_us"]
    print_table("Without a filter", columns, [[row[name] for name in columns] for row in plain])
    print_table(
        f"{data.rows:,} rows of {vectors.name}, {options.threads} threads, recall {job.recall}",
        ["cell", "match", *columns, "over plain", "limit", "", "plans"],
        lines,
    )
    short = sum(line[-2] == "short" for line in lines)
    print(f"{short} of {len(lines)} cells are short")


def unfiltered(job: Job, vectors: VectorSet, data: FilteredSet) -> list[Row]:
    """The same collection without a filter, list by list until the recall."""
    settings = job.settings
    options = SearchOptions(
        job.lists[vectors.name],
        settings["threads"],
        settings["unfiltered_rounds"],
        until=job.recall,
    )
    return filtered.search(data.database, data.plain, options)[0]


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
