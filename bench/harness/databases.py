"""Runs of `pipeann-lab collections`: databases filled (cached), killed, reopened, loaded."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from . import places
from .cache import entry, file_identity, text_identity
from .pipeann import lab
from .processes import Row, json_lines
from .sets import VectorSet


def maker_identity() -> str:
    """A hash of the sources that a database depends on."""
    sources = places.REPO / "crates"
    rooms = [sources / "db" / "src", sources / "engine" / "src"]
    return text_identity([f for room in rooms for f in room.rglob("*.rs")])


def filled(name: str, parts: Sequence[tuple[str, VectorSet, int]]) -> Path:
    """The cached database with collections, each of the first rows of a set, with a graph."""
    made = {
        "parts": [[c, file_identity(vectors.base), rows] for c, vectors, rows in parts],
        "maker": maker_identity(),
    }

    def make(folder: Path) -> None:
        for collection, vectors, rows in parts:
            command: list[str | Path] = [lab(), "collections", "fill"]
            command += ["--dir", folder / "db", "--collection", collection]
            command += ["--base", vectors.base, "--count", str(rows), "--batch", "5000"]
            json_lines([*command, "--build"])

    return entry(f"database-{name}", made, make) / "db"


def copy(database: Path, target: Path) -> None:
    """A copy that may be changed."""
    shutil.copytree(database, target)


def fill_and_kill(
    database: Path,
    vectors: VectorSet,
    rows: range,
    *,
    batch: int,
    buffer: int,
    link: bool,
) -> Row:
    """Insert rows in a process of its own, and kill it when it has told that they are there."""
    command: list[str | Path] = [lab(), "collections", "fill", "--dir", database]
    command += ["--base", vectors.base, "--from", str(rows.start), "--count", str(len(rows))]
    command += ["--batch", str(batch), "--buffer-bytes", str(buffer)]
    command += ["--link-threads", "2", "--stay"]
    words = [str(word) for word in (*command, *(["--link"] if link else []))]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()
    if not line.startswith("{"):
        raise SystemExit(f"{' '.join(words)}\nended before it was done")
    row: Row = json.loads(line)
    return row


def reopen(database: Path, vectors: VectorSet, rows: int, *, buffer: int, link: bool) -> Row:
    """Open a database until the first correct answer, or until all is linked, in a process of
    its own."""
    command: list[str | Path] = [lab(), "collections", "reopen", "--dir", database]
    command += ["--buffer-bytes", str(buffer)]
    command += ["--base", vectors.base, "--rows", str(rows), *(["--link"] if link else [])]
    return json_lines(command)[-1]


def live(
    database: Path,
    parts: Sequence[tuple[str, VectorSet]],
    *,
    seconds: float,
    limit: int,
    buffer: int,
    dirty: int,
) -> Row:
    """Replace rows of collections while they are searched, under a memory limit."""
    command: list[str | Path] = [lab(), "collections", "live", "--dir", database]
    for collection, vectors in parts:
        command += ["--collection", f"{collection}={vectors.base}"]
    command += ["--seconds", str(seconds), "--memory-limit", str(limit)]
    command += ["--buffer-bytes", str(buffer), "--dirty-bytes", str(dirty)]
    return json_lines(command)[-1]
