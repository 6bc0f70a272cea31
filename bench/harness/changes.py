"""An index whose rows change: runs of the workloads, and their curves beside fresh builds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from . import pipeann, sets, updates
from .cache import entry, file_identity
from .curves import Curve, OutOfRange
from .pipeann import BuildOptions, SearchOptions
from .processes import Row, json_lines
from .sets import VectorSet


def churn(
    index: Path, vectors: VectorSet, *, by: str, times: int, step: float, lists: Sequence[int]
) -> list[Row]:
    """Replace all rows some times; a row for each time, its curve in `curve`."""
    command: list[str | Path] = [pipeann.lab(), "updates", "churn", "--index", index]
    command += ["--memory-limit", "all", "--base", vectors.base, "--queries", vectors.queries]
    command += ["--by", by, "--times", str(times), "--step", str(step)]
    return json_lines([*command, "--list", ",".join(map(str, lists)), "--json"])


def drift(index: Path, vectors: VectorSet, lists: Sequence[int]) -> Row:
    """Insert the rows of a set that are not in the index yet."""
    command: list[str | Path] = [pipeann.lab(), "updates", "drift", "--index", index]
    command += ["--memory-limit", "all", "--base", vectors.base, "--queries", vectors.queries]
    command += ["--truth", vectors.truth, "--list", ",".join(map(str, lists)), "--json"]
    return json_lines(command)[-1]


def part_of(whole: VectorSet, rows: int, part: int) -> VectorSet:
    """Some rows of a set, counted in parts of that many, with their exact truth."""

    def make(folder: Path) -> None:
        base = folder / f"base{whole.base.suffix}"
        sets.first_rows(whole.base, rows, base, skip=part * rows)
        updates.truth_of(base, whole.queries, folder / "truth.bin")

    made_from = {"base": file_identity(whole.base), "queries": file_identity(whole.queries)}
    folder = entry(f"part-{whole.name}-{rows}-{part}", made_from | {"part": part}, make)
    base, truth = folder / f"base{whole.base.suffix}", folder / "truth.bin"
    return VectorSet(whole.name, base, whole.queries, truth, whole.code_bytes)


def split(whole: VectorSet, rows: int, first: int) -> VectorSet:
    """The first rows of a set, those of some clusters before all others, with their truth."""

    def make(folder: Path) -> None:
        base = folder / f"base{whole.base.suffix}"
        command: list[str | Path] = [pipeann.lab(), "updates", "split", "--base", whole.base]
        json_lines([*command, "--rows", str(rows), "--first", str(first), "--out", base, "--json"])
        updates.truth_of(base, whole.queries, folder / "truth.bin")

    made_from = {"base": file_identity(whole.base), "queries": file_identity(whole.queries)}
    folder = entry(f"split-{whole.name}-{rows}-{first}", made_from, make)
    base, truth = folder / f"base{whole.base.suffix}", folder / "truth.bin"
    return VectorSet(whole.name, base, whole.queries, truth, whole.code_bytes)


def fresh_curve(vectors: VectorSet, build: BuildOptions, lists: Sequence[int]) -> Curve:
    """What a fresh build of a set finds and reads, searched as the changed index is: in rounds, so
    that reads do not depend on how busy the device is."""
    index = pipeann.index_of(vectors, build)
    found = pipeann.search(index, vectors, lists, SearchOptions.of("page:2", threads=2))
    return Curve.of_rounds("fresh build", [found])


def lost_at_equal_reads(changed: Curve, fresh: Curve, recalls: Sequence[float]) -> dict[float, float]:
    """By how much recall stays behind a fresh build's, at the reads with which that reaches each
    of `recalls`; recalls that one of the curves does not cover are left out."""
    lost = {}
    for recall in recalls:
        try:
            reads = fresh.at("reads", recall)
            lost[recall] = recall - changed.between("recall", "reads", reads)
        except OutOfRange:
            continue
    return lost
