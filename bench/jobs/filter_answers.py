"""Filters that mean the same are answered alike, and what an index of tags takes in memory."""

from __future__ import annotations

import random
import struct
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from harness import filtered, places, sets
from harness.filtered import Cell, SearchOptions
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .filters import filtered_set, percent

# Values of the column `stamp` are multiples of this.
STEP = 1000
# Numbers in a set that stands for a range.
IN_SET = 200

Pair = tuple[str, str]
Lists = Sequence[int]


def term(rng: random.Random, rows: int) -> str:
    """A condition on any column."""
    bound = rng.randrange(rows) * STEP
    return rng.choice(
        [
            f"array_contains(marks, '{rng.choice([0.05, 0.2, 0.5, 0.9])}-{rng.randrange(2)}')",
            f"stamp < {bound}",
            f"score >= {rng.random():.3f}",
            f"size > {rng.randrange(20_000)}",
            f"path like '/home/{rng.choice('abcd')}/%'",
        ]
    )


def range_as_set(rng: random.Random, rows: int) -> Pair:
    """A range of numbers, and all of them."""
    low = rng.randrange(rows - IN_SET) * STEP
    numbers = ", ".join(str(low + i * STEP) for i in range(IN_SET))
    return f"{low} <= stamp < {low + IN_SET * STEP}", f"stamp in [{numbers}]"


def not_both(rng: random.Random, rows: int) -> Pair:
    """De Morgan's first law."""
    a, b = term(rng, rows), term(rng, rows)
    return f"not ({a} and {b})", f"not ({a}) or not ({b})"


def not_either(rng: random.Random, rows: int) -> Pair:
    """De Morgan's second law."""
    a, b = term(rng, rows), term(rng, rows)
    return f"not ({a} or {b})", f"not ({a}) and not ({b})"


def reordered(rng: random.Random, rows: int) -> Pair:
    """Terms in another order."""
    terms = [term(rng, rows) for _ in range(3)]
    others = terms[1:] + terms[:1]
    return " and ".join(terms), " and ".join(others)


LAWS: dict[str, Callable[[random.Random, int], Pair]] = {
    "range as set": range_as_set,
    "not (a and b)": not_both,
    "not (a or b)": not_either,
    "reordered": reordered,
}


def answers(database: Path, cell: Cell, filters: list[str], lists: Lists = ()) -> list[bytes]:
    """The answers to the queries of a cell with these filters, as bytes."""
    with tempfile.TemporaryDirectory(dir=places.cache(), prefix="answers-") as folder:
        texts, out = Path(folder) / "filters.txt", Path(folder) / "answers.bin"
        texts.write_text("".join(f"{text}\n" for text in filters))
        asked = ["--queries", filtered.queries_in(cell.folder), "--filters", texts, "--out", out]
        filtered.search(database, asked, SearchOptions(lists))
        data = out.read_bytes()
    queries, k = struct.unpack_from("<II", data)
    ids = [data[8 + 4 * k * i : 8 + 4 * k * (i + 1)] for i in range(queries)]
    start = 8 + 4 * k * queries
    near = [data[start + 4 * k * i : start + 4 * k * (i + 1)] for i in range(queries)]
    return [a + b for a, b in zip(ids, near, strict=True)]


def take_filter_equivalence(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Queries whose answers differ between two ways to write a filter.

    Pages arrive in another order each time, so a walk with the list of a search that names none answers
    a rare query in one of two ways. With the long list of the job it has one answer.
    """
    data, rng = filtered_set(job, vectors), random.Random(job.seed)
    cell, lists = data.made[0], job.lists[vectors.name]
    count = min(job.settings["pairs"], cell.queries)
    lines = []
    for name, law in LAWS.items():
        pairs = [law(rng, data.rows) for _ in range(cell.queries)]
        one, other = ([pair[side] for pair in pairs] for side in (0, 1))
        pair = [answers(data.database, cell, texts, lists) for texts in (one, other)]
        short = [answers(data.database, cell, texts) for texts in (one, other, one)]
        differ, in_short, noise = (
            sum(a != b for a, b in zip(x[:count], y, strict=False))
            for x, y in (pair, short[:2], short[::2])
        )
        lines.append([name, count, differ, in_short, noise])
        verdict.add("differ", Check(differ, 0))
    print_table(
        f"Filters on {data.rows:,} rows of {vectors.name}",
        ["written as", "queries", "answers differ", "unnamed list", "the same asked again"],
        lines,
    )


def take_filter_memory(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Bytes a row that the index of tags takes, and rows read in vain by the tag queries."""
    whole, settings = sets.vector_set(vectors.name), job.settings
    data = filtered_set(job, vectors)
    held = {
        name: filtered.held_bytes(
            filtered.with_columns(whole, data, wanted), settings["buffer_bytes"], data
        )
        for name, wanted in {"tags": ("tags",), "nothing": ()}.items()
    }
    taken = (held["tags"] - held["nothing"]) / data.rows
    lines = []
    for cell in data.named(job.only, data.given):
        _, plans = filtered.search(data.database, cell.searched, SearchOptions(explain=True))
        columns = [plans[name] for name in ("matches", "rows_read", "read_in_vain")]
        lines.append([cell.name, percent(cell.matched), *columns])
    print_table(
        "Rows read by a tag query to tell whether they match, at the width that signatures have",
        ["cell", "match", "matches", "rows read", "in vain"],
        lines,
    )
    print_table(
        f"Memory of scalar indexes, {data.rows:,} rows of {vectors.name}",
        ["fields", "bytes", "bytes a row"],
        [[name, value, value / data.rows] for name, value in held.items()],
    )
    verdict.add("bytes", Check(taken, settings["bytes_at_most"]))
