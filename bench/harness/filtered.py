"""A collection with columns, the cells of its filters, and `pipeann-lab collections search` on it.

A cell is a directory with `queries.u8bin` (or as the type of the set is called), `filters.txt` (one
expression a line) and `truth.bin`, made by `bench/data/filter_cells.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from . import places, rivals, sets
from .cache import entry, file_identity, text_identity
from .pipeann import INDEX_ROOMS, lab
from .processes import Row, json_lines
from .sets import VectorSet

# The rooms of the database that decide what a collection that is filled and built contains.
STORED_ROOMS = ("value", "schema", "wal", "docstore", "flat", "scalar", "field_index", "files")
# Files of these rooms that answer from what is stored; a change to them makes no other database.
ANSWERING = ("search", "estimate", "postings", "predicate", "view", "truth", "row_map", "cursor")
COLLECTION = "rows"
# The kind of the cells of given queries.
TAGS = "tags"


def queries_in(folder: Path) -> Path:
    """The queries of a cell, of whichever type the set is."""
    return next(folder.glob("queries.*bin"), folder / "queries.u8bin")


@dataclass(frozen=True)
class Cell:
    """Queries with one kind of filter, of which about the same share of rows matches."""

    name: str
    kind: str
    share: float
    queries: int
    matched: float
    filters: int
    folder: Path

    @property
    def searched(self) -> list[str | Path]:
        """The files of a cell as `pipeann-lab collections search` takes them."""
        files: list[str | Path] = ["--queries", queries_in(self.folder)]
        files += ["--filters", self.folder / "filters.txt"]
        return [*files, "--truth", self.folder / "truth.bin"]


@dataclass(frozen=True)
class FilteredSet:
    """Vectors with columns: the files that they are made from, the cells, the database."""

    folder: Path
    cells: tuple[Cell, ...]
    database: Path
    rows: int

    @property
    def plain(self) -> list[str | Path]:
        """The files of queries without a filter."""
        files = self.folder / "plain"
        return ["--queries", queries_in(files), "--truth", files / "truth.bin"]

    def named(self, pattern: str | None, cells: Sequence[Cell] | None = None) -> list[Cell]:
        """The cells, or some of them, whose names match a pattern such as `far-*`."""
        wanted = [c for c in cells or self.cells if fnmatch(c.name, pattern or "*")]
        if not wanted:
            raise SystemExit(f"no cell is named {pattern}; there are, say, {self.cells[0].name}")
        return wanted

    @property
    def made(self) -> list[Cell]:
        """The cells whose filters the harness made up."""
        return [cell for cell in self.cells if cell.kind != TAGS]

    @property
    def given(self) -> list[Cell]:
        """The cells of the tag queries that the set came with."""
        return [cell for cell in self.cells if cell.kind == TAGS]


def made_from(vectors: VectorSet, rows: int, queries: int, seed: int) -> Path:
    """The cached columns, queries, filters and truth of the first rows of a set."""
    scripts = [places.BENCH / "data" / f"{n}.py" for n in ("filter_cells", "filter_columns")]
    inputs = {"base": vectors.base, "queries": vectors.queries}
    tags: list[str | Path] = []
    if sets.has_tags(vectors):
        inputs["tags"], inputs["asked"] = sets.tags_of(vectors)
        tags = ["--tags", inputs["tags"], "--tag-queries", inputs["asked"]]
    made = {name: file_identity(path) for name, path in inputs.items()}
    made |= {"rows": rows, "count": queries, "seed": seed, "maker": text_identity(scripts)}

    def make(folder: Path) -> None:
        command = [rivals.python(), scripts[0], "--base", vectors.base]
        command += ["--queries", vectors.queries, *tags]
        numbers = ["--rows", rows, "--count", queries, "--seed", seed]
        words = [str(word) for word in (*command, *numbers, "--out", folder / "made")]
        subprocess.run(words, check=True, stdout=sys.stderr)

    return entry(f"filter-cells-{vectors.name}-{rows}", made, make) / "made"


def stored_identity() -> str:
    """A hash of the sources that a filled and built collection depends on."""
    sources = places.REPO / "crates"
    rooms = [sources / "engine" / "src" / room for room in INDEX_ROOMS]
    rooms += [sources / "db" / "src" / room for room in STORED_ROOMS]
    files = [f for room in rooms for f in room.rglob("*.rs")]
    return text_identity(
        [f for f in files if f.stem not in ANSWERING and "tests" not in (f.stem, *f.parts)]
    )


def fill(base: Path, columns: Path, rows: int, database: Path, build: bool = True) -> Row:
    """A database whose one collection has these rows and columns, written to disk."""
    command: list[str | Path] = [lab(), "collections", "fill", "--dir", database]
    command += ["--base", base, "--columns", columns, "--count", str(rows), "--batch", "5000"]
    # A large buffer, so that scalar indexes are one run rather than many.
    command += ["--buffer-bytes", str(1 << 30), "--build" if build else "--flush"]
    return json_lines(command)[-1]


def filtered_set(vectors: VectorSet, rows: int, queries: int, seed: int) -> FilteredSet:
    """The first rows of a set with columns, in a database, and the cells; all cached."""
    folder = made_from(vectors, rows, queries, seed)
    columns = folder / "columns.jsonl"
    made = {
        "base": file_identity(vectors.base),
        "columns": file_identity(columns),
        "rows": rows,
        "maker": stored_identity(),
    }

    def make(out: Path) -> None:
        print(f"filling a collection of {rows:,} rows: some minutes", file=sys.stderr)
        fill(vectors.base, columns, rows, out / "db")

    database = entry(f"database-filters-{vectors.name}-{rows}", made, make) / "db"
    described = json.loads((folder / "cells.json").read_text())
    cells = tuple(Cell(folder=folder / "cells" / c["name"], **c) for c in described)
    return FilteredSet(folder, cells, database, rows)


def with_columns(vectors: VectorSet, data: FilteredSet, wanted: Sequence[str]) -> Path:
    """A cached database of the same rows with some of the columns, and without a graph."""
    columns = data.folder / "columns.jsonl"
    made = {"columns": file_identity(columns), "wanted": list(wanted), "maker": stored_identity()}
    made |= {"base": file_identity(vectors.base), "rows": data.rows}

    def make(out: Path) -> None:
        some = out / "columns.jsonl"
        choose(columns, some, wanted)
        fill(vectors.base, some, data.rows, out / "db", build=False)
        some.unlink()

    name = "-".join(["database-columns", *wanted, vectors.name, str(data.rows)])
    return entry(name, made, make) / "db"


def choose(columns: Path, target: Path, wanted: Sequence[str]) -> None:
    """Copy a file of columns with only some of them."""
    with columns.open() as f, target.open("w") as out:
        fields = json.loads(f.readline())
        kept = [i for i, field in enumerate(fields) if field["name"] in wanted]
        print(json.dumps([fields[i] for i in kept]), file=out)
        for line in f:
            values = json.loads(line)
            print(json.dumps([values[i] for i in kept], separators=(",", ":")), file=out)


def held_bytes(database: Path, buffer_bytes: int, data: FilteredSet) -> int:
    """What scalar indexes hold once a database is open and has been searched without a filter."""
    queries = queries_in(data.folder / "plain")
    asked = ["--queries", queries, "--limit-queries", "1", "--metric", "l2"]
    asked += ["--buffer-bytes", str(buffer_bytes)]
    rows, _ = search(database, asked, SearchOptions())
    return int(rows[-1]["pools"]["postings"])


@dataclass(frozen=True)
class SearchOptions:
    """How to search; without lists, as a search that names none."""

    lists: Sequence[int] = ()
    threads: int = 1
    rounds: int = 1
    until: float | None = None
    explain: bool = False
    k: int = 10
    # Every filter is one that was not asked before, so that nothing kept of filters helps.
    unseen: bool = True


def search(
    database: Path, asked: Sequence[str | Path], options: SearchOptions
) -> tuple[list[Row], Row]:
    """A row for each list length, and what is told of the plans."""
    command: list[str | Path] = [lab(), "collections", "search", "--dir", database, *asked]
    command += ["--collection", COLLECTION, "--k", str(options.k)]
    command += ["--threads", str(options.threads), "--rounds", str(options.rounds)]
    if options.lists:
        command += ["--list", rivals.lists_text(options.lists)]
    if options.until is not None:
        command += ["--until", str(options.until)]
    if options.explain:
        command.append("--explain")
    if options.unseen and "--filters" in asked:
        command.append("--unseen")
    found = json_lines([*command, "--json"])
    plans = [row for row in found if "plans" in row]
    return [row for row in found if "plans" not in row], plans[-1] if plans else {}


def way_words(row: Row) -> str:
    """By which ways the queries of a row were answered, those that occurred."""
    ways = ("walked", "ranked", "changed", "compared")
    return ", ".join(f"{way} {row[way]}" for way in ways if row[way])
