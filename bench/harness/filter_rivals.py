"""FAISS with selectors and Milvus Lite: their indexes and what they take for cells, all cached."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from . import rivals
from .cache import entry, file_identity, text_identity
from .filtered import Cell
from .processes import Row, json_lines
from .sets import VectorSet

REQUIREMENTS = rivals.COMPARE / "filtered-requirements.txt"
RIVALS = ("faiss", "milvus_lite")
LINKS, EF_CONSTRUCTION = 32, 100


def bags(vectors: VectorSet) -> Path:
    """The tags of the rows of a set."""
    return vectors.base.with_name(f"{vectors.name}.tags.base.spmat")


def built(rival: str, vectors: VectorSet) -> Path:
    """The cached index of a rival: `faiss` or `milvus_lite`."""
    script = rivals.COMPARE / f"{rival}_build.py"
    made = {"base": file_identity(vectors.base), "tags": file_identity(bags(vectors))}
    made |= {"script": text_identity([script]), "versions": REQUIREMENTS.read_text()}

    def make(out: Path) -> None:
        command: list[str | Path] = [rivals.filtered_python(), script, "--base", vectors.base]
        command += ["--links", str(LINKS), "--ef-construction", str(EF_CONSTRUCTION)]
        command += ["--tags", bags(vectors)] if rival == "milvus_lite" else []
        json_lines([*command, "--out", out])

    return entry(f"{rival.replace('_', '-')}-{vectors.name}", made, make)


def searched(
    rival: str, vectors: VectorSet, cells: Sequence[Cell], recall: float, threads: int
) -> list[Row]:
    """The rates of a rival in each cell, where it has the recall; taken once."""
    script = rivals.COMPARE / f"{rival}_search.py"
    shared = [rivals.COMPARE / "filtered_sets.py", rivals.COMPARE / "vectors.py"]
    index = built(rival, vectors)
    made = {
        "index": index.name,
        "cells": [file_identity(cell.folder / "truth.bin") for cell in cells],
        "script": text_identity([script, *shared]),
        "recall": recall,
        "threads": threads,
    }

    def make(out: Path) -> None:
        command: list[str | Path] = [rivals.filtered_python(), script, "--index", index]
        command += ["--tags", bags(vectors)] if rival == "faiss" else []
        command += ["--until", str(recall), "--threads", str(threads)]
        rows = json_lines([*command, "--cells", *(cell.folder for cell in cells)])
        (out / "rows.json").write_text(json.dumps(rows, indent=1) + "\n")

    folder = entry(f"{rival.replace('_', '-')}-rates-{vectors.name}", made, make)
    rows: list[Row] = json.loads((folder / "rows.json").read_text())
    return rows
