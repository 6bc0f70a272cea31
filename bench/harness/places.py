"""Where things are: the repository, the cache, the given data. Nothing else knows paths."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
BENCH = REPO / "bench"


def cache() -> Path:
    """The cache directory: `$PIPEANN_CACHE`, else `.cache` in the repository."""
    folder = Path(os.environ.get("PIPEANN_CACHE") or REPO / ".cache").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def given_data() -> Path:
    """The unpacked benchmark data: `$PIPEANN_DATA`, else unpacked into the cache."""
    if named := os.environ.get("PIPEANN_DATA"):
        return Path(named).resolve()
    folder = cache() / "given"
    if not (folder / "sift1m.base.u8bin").exists():
        unpack = REPO.parent / "shared" / "data" / "unpack.py"
        if not unpack.exists():
            raise SystemExit("set PIPEANN_DATA to a directory that holds sift1m.base.u8bin")
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, str(unpack), str(folder)], check=True)
    return folder
