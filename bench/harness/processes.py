"""Run a program that prints JSON lines, and say what went wrong when it fails."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Command = Sequence[str | Path]


def json_lines(command: Command, cwd: Path | None = None) -> list[Row]:
    """All JSON objects that a command prints on its own lines; it must succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise SystemExit(f"{shlex.join(words)}\nfailed with {done.returncode}:\n{tail}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not rows:
        raise SystemExit(f"{shlex.join(words)}\nprinted no JSON line")
    return rows
