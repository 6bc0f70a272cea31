"""Partitioning under a memory limit and splitting by servers, cut short: a process that dies at a write,
a disk that takes no more. What was there stays, what is half made is nobody's index, and the same
command makes it again."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from limits import limited
from ssds import PIPEANN, run

from pipeann import Index

ROWS, DIM = 20_000, 64
PARTITIONS = 4
PARTITION = (
    *("partition", "--from", "index", "--index", "made", "--partitions", str(PARTITIONS)),
    *("--memory", "200MiB", "--buffered", "--threads", "1"),
)
SPLIT = (
    *("cluster", "split", "--topology", "cluster.toml", "--from", "parts", "--out", "made"),
    *("--buffered", "--threads", "1"),
)
TOPOLOGY = """cluster = "cut"
partitions = 4
[[server]]
number = 0
address = "127.0.0.1:7100"
[[server]]
number = 1
address = "127.0.0.1:7101"
"""
ASK = ("search", "--queries", "queries.npy", "--list", "40", "--buffered", "--out", "found.bin")
# Files of rows, lists and pages grow to some megabytes; no file is shorter than the first.
LIMITS = (4 << 10, 300 << 10, 1 << 20, 2 << 20)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index, the same in partitions, and queries, made once."""
    folder = tmp_path_factory.mktemp("whole")
    vectors = np.random.default_rng(5).random((ROWS, DIM), dtype=np.float32)
    np.save(folder / "queries.npy", vectors[:20])
    Index.build(folder / "index", vectors, metric="l2", degree=16, list_length=24)
    run(*PARTITION[:3], "--index", "parts", *PARTITION[5:7], "--buffered", cwd=folder)
    (folder / "cluster.toml").write_text(TOPOLOGY)
    return folder


def cut_short(words: tuple[str, ...], limit: int, *, told: bool, place: Path) -> tuple[int, str]:
    done = subprocess.run(
        limited([str(PIPEANN), *words], limit, told=told),
        cwd=place,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stderr


def entries(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def partitioned(place: Path) -> None:
    """The command goes through, and the index is whole and finds what the first one finds."""
    run(*PARTITION, cwd=place)
    assert "no damage" in run("inspect", "--index", "made", "--verify", "--buffered", cwd=place).stdout
    run(*ASK, "--index", "made", cwd=place)


def split(place: Path) -> None:
    run(*SPLIT, cwd=place)
    for number in (0, 1):
        server = f"made/server-{number}"
        assert "no damage" in run("inspect", "--index", server, "--verify", "--buffered", cwd=place).stdout
    assert (place / "made" / "centroids").stat().st_size == 24 + 2 * (4 + 4 * DIM) + 8


def removed(folder: Path) -> None:
    if folder.is_dir():
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()


@pytest.mark.parametrize(
    ("words", "made"), [(PARTITION, partitioned), (SPLIT, split)], ids=["partition", "split"]
)
def test_what_was_cut_short_is_nobodys_and_is_made_again(
    place: Path, words: tuple[str, ...], made: Callable[[Path], None]
) -> None:
    made(place)
    whole = entries(place)
    removed(place / "made")
    before = entries(place)
    cut = 0
    for limit in LIMITS:
        for told in (False, True):
            code, said = cut_short(words, limit, told=told, place=place)
            if code == 0:
                removed(place / "made")
                continue
            cut += 1
            if told:
                assert code == 1 and "File too large" in said, said
            else:
                assert code == -signal.SIGXFSZ, said
            # It is refused where it stands at all.
            for folder in ("made", "made/server-0", "made/server-1"):
                run("inspect", "--index", folder, "--buffered", cwd=place, ok=False)
            made(place)
            assert entries(place) == whole, "nothing else stays"
            removed(place / "made")
            assert entries(place) - before <= {"found.bin"}
    assert cut >= 4, "hardly any was cut short"
