"""Make files cold: drop their pages from the page cache, which needs no privilege."""

from __future__ import annotations

import os
from pathlib import Path


def evict(path: Path) -> None:
    """Write back and drop the cached pages of a file, or of all files below a directory."""
    files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    for file in files:
        fd = os.open(file, os.O_RDONLY)
        try:
            os.fsync(fd)  # only clean pages can be dropped
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
