"""Entries of the cache, each named by a hash of everything that made it.

An entry is a directory. It is made under a temporary name and renamed when complete, so
an interrupted build leaves nothing that a later run would take for finished. `made-from.json`
inside says in words what the hash stands for.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache as remember
from pathlib import Path
from typing import Any

from . import places
from .machine import machine, today

SAMPLE_BYTES = 1 << 20
# Where an entry says when and where it was made, which does not belong to its identity.
TAKEN = "taken.json"


@remember
def file_identity(path: Path) -> str:
    """Size and a hash of the first and last mebibyte of a file."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as f:
        digest.update(f.read(SAMPLE_BYTES))
        f.seek(max(0, size - SAMPLE_BYTES))
        digest.update(f.read(SAMPLE_BYTES))
    return digest.hexdigest()[:16]


def text_identity(files: list[Path]) -> str:
    """A hash of the contents and names of source files."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@dataclass
class Retaking:
    """Whether results of rivals that are kept are taken again, and which were, by this run."""

    wanted: bool = False
    done: set[str] = field(default_factory=set)
    told: set[str] = field(default_factory=set)


RETAKING = Retaking()


def taken(folder: Path) -> str:
    """When and where an entry was made."""
    path = folder / TAKEN
    if not path.exists():
        return "unknown: --retake tells"
    told = json.loads(path.read_text())
    return f"{told['date']}, {told['machine']}"


def result(kind: str, made_from: dict[str, Any], make: Callable[[Path], None]) -> Path:
    """An entry that holds what was measured of a rival: made again where that is asked for, once
    a run, and printed with when and where it was taken."""
    folder = entry(kind, made_from, make, fresh=RETAKING.wanted)
    if folder.name not in RETAKING.told:
        print(f"{folder.name}: taken {taken(folder)}")
        RETAKING.told.add(folder.name)
    return folder


def entry(
    kind: str, made_from: dict[str, Any], make: Callable[[Path], None], fresh: bool = False
) -> Path:
    """The directory of an entry; `make` fills it when it is not there yet, and where it has to be
    `fresh` and was not made by this run."""
    text = json.dumps(made_from, sort_keys=True)
    name = f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    folder = places.cache() / name
    if folder.exists() and (not fresh or name in RETAKING.done):
        return folder
    partial = places.cache() / f"{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    make(partial)
    (partial / "made-from.json").write_text(text + "\n")
    (partial / TAKEN).write_text(json.dumps({"date": today(), "machine": machine()}) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    RETAKING.done.add(name)
    return folder
