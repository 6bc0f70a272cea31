"""TOML files, by whichever parser this Python has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # pip carries the same parser
    from pip._vendor import tomli as tomllib


def read(path: Path) -> dict[str, Any]:
    """What a file says."""
    with path.open("rb") as f:
        return dict(tomllib.load(f))
