"""A server of ours, with merging on or off, and many clients at once (`compare/search_clients.py`)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import rivals
from .cache import entry, file_identity, text_identity
from .databases import maker_identity
from .pipeann import program
from .processes import Command, Row, json_lines
from .sets import VectorSet

SCRIPT = rivals.COMPARE / "search_clients.py"


@dataclass(frozen=True)
class Serving:
    """A running server."""

    address: str
    pid: int

    def ask(self, *words: object) -> Row:
        """What the script measures or does."""
        command: Command = [rivals.filtered_python(), SCRIPT, "--address", self.address]
        given = [str(word) for word in words]
        return json_lines([*command, "--pid", str(self.pid), *given])[-1]


@contextmanager
def serving(data: Path, memory_limit: str, merge: str = "on") -> Iterator[Serving]:
    """A server on a directory and a free port."""
    command = [program(), "serve", "--data_dir", data, "--host", "127.0.0.1", "--port", "0"]
    command += ["--metrics-port", "0", "--memory-limit", memory_limit, "--merge", merge]
    words = [str(word) for word in command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline().split()
            if said[:2] != ["listening", "on"]:
                raise SystemExit(f"{' '.join(words)}\ndid not start")
            yield Serving(said[2], process.pid)
        finally:
            process.terminate()


def filled(vectors: VectorSet, rows: int) -> Path:
    """The cached directory of a server with the first rows of a set."""
    made = {
        "base": file_identity(vectors.base),
        "rows": rows,
        "maker": maker_identity(),
        "client": text_identity([SCRIPT]),
    }

    def make(folder: Path) -> None:
        with serving(folder / "data", "floor") as server:
            server.ask("--fill", vectors.base, "--rows", rows)

    return entry(f"many-clients-{vectors.name}-{rows}", made, make) / "data"
