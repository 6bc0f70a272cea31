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
from functools import cache as remember
from pathlib import Path
from typing import Any

from . import places

SAMPLE_BYTES = 1 << 20


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


def entry(kind: str, made_from: dict[str, Any], make: Callable[[Path], None]) -> Path:
    """The directory of an entry; `make` fills it when it is not there yet."""
    text = json.dumps(made_from, sort_keys=True)
    name = f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    folder = places.cache() / name
    if folder.exists():
        return folder
    fresh = places.cache() / f"{name}.partial"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    make(fresh)
    (fresh / "made-from.json").write_text(text + "\n")
    fresh.rename(folder)
    return folder
