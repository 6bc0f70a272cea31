"""FAISS with selectors and Milvus Lite: their indexes and what they take for cells, all cached."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from . import rivals
from .cache import entry, file_identity, result, text_identity
from .filtered import Cell
from .processes import Row, json_lines
from .sets import VectorSet, tags_of

REQUIREMENTS = rivals.COMPARE / "filtered-requirements.txt"
FAISS, MILVUS = "faiss", "milvus_lite"
LINKS, EF_CONSTRUCTION = 32, 100


def bags(vectors: VectorSet) -> Path:
    """The tags of the rows of a set."""
    return tags_of(vectors)[0]


def built(rival: str, vectors: VectorSet) -> Path:
    """The cached index of a rival: `faiss` or `milvus_lite`."""
    script = rivals.COMPARE / f"{rival}_build.py"
    made = {"base": file_identity(vectors.base), "tags": file_identity(bags(vectors))}
    made |= {"script": text_identity([script]), "versions": REQUIREMENTS.read_text()}

    def make(out: Path) -> None:
        command: list[str | Path] = [rivals.filtered_python(), script, "--base", vectors.base]
        if rival == FAISS:
            command += ["--links", str(LINKS), "--ef-construction", str(EF_CONSTRUCTION)]
        else:
            command += ["--tags", bags(vectors)]
        json_lines([*command, "--out", out])

    return entry(f"{rival.replace('_', '-')}-{vectors.name}", made, make)


def searched(
    rival: str, vectors: VectorSet, cells: Sequence[Cell], recall: float, callers: Sequence[int]
) -> list[Row]:
    """The rates of a rival in each cell, where it has the recall."""
    index = built(rival, vectors)
    script = rivals.COMPARE / f"{rival}_search.py"
    command: list[str | Path] = [rivals.filtered_python(), script, "--index", index]
    command += ["--threads", *map(str, callers)]
    if rival == FAISS:
        command += ["--tags", bags(vectors), "--until", str(recall)]
    return json_lines([*command, "--cells", *(cell.folder for cell in cells)])


def searched_once(
    rival: str, vectors: VectorSet, cells: Sequence[Cell], recall: float, threads: int
) -> list[Row]:
    """The same, kept in the cache: of a rival that is so far away that the day does not matter."""
    scripts = [rivals.COMPARE / f"{name}.py" for name in (f"{rival}_search", "filtered_sets")]
    made = {"index": built(rival, vectors).name, "scripts": text_identity(scripts)}
    made |= {"cells": [file_identity(cell.folder / "truth.bin") for cell in cells]}
    made |= {"recall": recall, "threads": threads}

    def make(out: Path) -> None:
        rows = searched(rival, vectors, cells, recall, [threads])
        (out / "rows.json").write_text(json.dumps(rows, indent=1) + "\n")

    folder = result(f"{rival.replace('_', '-')}-rates-{vectors.name}", made, make)
    rows: list[Row] = json.loads((folder / "rows.json").read_text())
    return rows
