"""Filtered searches of a collection beside FAISS with selectors and Milvus Lite.

What is judged are filters not asked before: ours compiles and answers each, FAISS pays for its
bitmap. Filters that come again are reported apart, beside FAISS with bitmaps that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness import filter_rivals, filtered, sets
from harness.filtered import Cell, SearchOptions
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .filters import filtered_set, first_at, no_wrong, percent


def take_filter_vs_rivals(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Queries a second on tag queries, all systems at the recall, cell by cell."""
    settings, whole = job.settings, sets.vector_set(vectors.name)
    data = filtered_set(job, vectors)
    if not data.given:
        verdict.problems.append(f"{vectors.name} came without tag queries: no cell is judged")
        return
    cells, callers = data.named(job.only, data.given), settings["callers"]
    theirs = filter_rivals.searched_once(filter_rivals.MILVUS, whole, cells, job.recall, callers[0])

    def rate(cell: Cell, threads: int, unseen: bool = True) -> float:
        """Our rate in a cell; none where no list has the recall."""
        lists = job.lists[vectors.name]
        options = SearchOptions(lists, threads, job.rounds, until=job.recall, unseen=unseen)
        rows, _ = filtered.search(data.database, cell.searched, options)
        no_wrong(cell, rows, verdict)
        found = first_at(rows, job.recall)
        return found["qps"] if found else 0.0

    def ours() -> dict[str, list[float]]:
        """Our rates in each cell, for each number of callers."""
        return {cell.name: [rate(cell, threads) for threads in callers] for cell in cells}

    # FAISS between two turns of ours, since the machine drifts within minutes.
    before = ours()
    theirs += filter_rivals.searched(filter_rivals.FAISS, whole, cells, job.recall, callers)
    after = ours()
    again = {cell.name: max(rate(cell, n, unseen=False) for n in callers) for cell in cells}
    lines: list[list[Any]] = []
    judged_by: dict[str, int] = {"milvus": 0, "faiss": 0}
    for cell in cells:
        means = [sum(turns) / 2 for turns in zip(before[cell.name], after[cell.name], strict=True)]
        most = max(means)
        faiss = best(theirs, cell, "faiss", job.recall)
        milvus = best(theirs, cell, "milvus", job.recall)
        over_faiss, over_milvus = (most / row["qps"] if row else None for row in (faiss, milvus))
        if over_milvus is not None:
            limit = settings["milvus_at_least"]
            verdict.add("milvus", Check(over_milvus, limit, at_most=False))
            judged_by["milvus"] += 1
        if over_faiss is not None:
            judged = settings["faiss_from"] <= cell.share <= settings["faiss_to"]
            limit = settings["faiss_at_least"] if judged else None
            verdict.add("faiss" if judged else "faiss-other", Check(over_faiss, limit, False))
            judged_by["faiss"] += judged
        lines.append(
            [cell.name, percent(cell.matched), *before[cell.name], *after[cell.name]]
            + [over_milvus, over_faiss, words(faiss), again[cell.name]]
            + [again[cell.name] / faiss["qps_given"] if faiss else None]
        )
    for rival, judged_cells in judged_by.items():
        if not judged_cells:
            verdict.problems.append(f"no cell of {vectors.name} is judged by {rival}")
    print_every(theirs)
    print_table(
        f"Tag queries of {vectors.name}, recall {job.recall}, by as many callers as suit each best",
        ["cell", "match", *(f"qps of {n}" for n in callers), *(f"{n} after" for n in callers)]
        + ["over Milvus Lite", "over FAISS", "best FAISS"]
        + ["qps of repeated filters", "over FAISS given its bitmaps"],
        lines,
    )


def best(rows: Sequence[Row], cell: Cell, system: str, recall: float) -> Row | None:
    """The fastest row of a system in a cell that has the recall."""
    there = [r for r in rows if r["cell"] == cell.name and r["system"].startswith(system)]
    return max(
        (row for row in there if row["recall"] >= recall), key=lambda r: r["qps"], default=None
    )


def words(row: Row | None) -> str:
    """Which index it was, and with how much effort."""
    return f"{row['system']} {row['list']}, {row['threads']} callers" if row else "none has the recall"


def print_every(rows: Sequence[Row]) -> None:
    """All that the rivals reached; the second rate leaves out the making of selectors."""
    columns = ("cell", "threads", "list", "recall", "qps", "qps_given", "mean_us", "p99_us")
    print_table(
        "The rivals",
        ["system", *columns],
        [[row["system"], *(row.get(name) for name in columns)] for row in rows],
    )
