"""Many clients at once of a server of ours (`compare/search_clients.py`)."""

from __future__ import annotations

from pathlib import Path

from . import rivals, servers
from .cache import entry, file_identity, text_identity
from .databases import maker_identity
from .processes import Command, Row, json_lines
from .sets import VectorSet

SCRIPT = rivals.COMPARE / "search_clients.py"


def ask(server: servers.Server, *words: object) -> Row:
    """What the script measures or does."""
    address = server.uri.removeprefix("http://")
    command: Command = [rivals.filtered_python(), SCRIPT, "--address", address]
    given = [str(word) for word in words]
    return json_lines([*command, "--pid", str(server.pid), *given])[-1]


def filled(vectors: VectorSet, rows: int) -> Path:
    """The cached directory of a server with the first rows of a set."""
    made = {
        "base": file_identity(vectors.base),
        "rows": rows,
        "maker": maker_identity(),
        "client": text_identity([SCRIPT]),
    }

    def make(folder: Path) -> None:
        with servers.pipeann(folder / "data") as server:
            ask(server, "--fill", vectors.base, "--rows", rows)

    return entry(f"many-clients-{vectors.name}-{rows}", made, make) / "data"
