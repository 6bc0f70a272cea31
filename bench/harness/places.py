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


def data_script(name: str) -> Path:
    """A script that comes with the benchmark data."""
    script = REPO.parent / "shared" / "data" / name
    if not script.exists():
        raise SystemExit(f"{script} is missing: it comes with the data; see PIPEANN_DATA")
    return script


def given_data() -> Path:
    """The unpacked benchmark data: `$PIPEANN_DATA`, else unpacked into the cache.

    The former is a directory that holds sets, see `given`."""
    if named := os.environ.get("PIPEANN_DATA"):
        return Path(named).resolve()
    folder = cache() / "given"
    if not (folder / "sift1m.base.u8bin").exists():
        unpack = data_script("unpack.py")
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, str(unpack), str(folder)], check=True)
    return folder
