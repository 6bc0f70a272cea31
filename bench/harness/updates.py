"""Runs of `pipeann-lab updates`, on copies of indexes where they change one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from . import pipeann
from .processes import Row, json_lines


def copy_index(source: Path, target: Path) -> Path:
    """A copy that shares its files with the original: nothing in an index is overwritten in
    place, so a change of the copy replaces and removes its own names only."""

    def link(here: str, there: str) -> None:
        # The lock is a file that several may hold open, so each index has its own.
        if Path(here).name == "LOCK":
            shutil.copy2(here, there)
        else:
            os.link(here, there)

    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=link)
    return target


def insert(
    index: Path,
    base: Path,
    *,
    count: int,
    threads: int,
    memory_limit: str,
    others: Sequence[str | Path] = (),
) -> Row:
    """Link the rows behind those in the index; `others` are further options."""
    command: list[str | Path] = [pipeann.lab(), "updates", "insert", "--index", index]
    command += ["--base", base, "--count", str(count), "--threads", str(threads)]
    return json_lines([*command, "--memory-limit", memory_limit, *others, "--json"])[-1]


def truth_of(base: Path, queries: Path, out: Path, k: int = 10, metric: str = "l2") -> Path:
    """The exact nearest rows of queries."""
    command: list[str | Path] = [pipeann.program(), "gt", "--base", base, "--queries", queries]
    json_lines([*command, "--k", str(k), "--metric", metric, "--out", out, "--json"])
    return out
