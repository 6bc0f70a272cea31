"""Copies to raw SSDs, for which files stand in, that are cut short: a process that is killed, a disk
that takes no more, devices that are too small."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from limits import limited
from ssds import COPIED, NAMES, PIPEANN, claimed, copies, run

from pipeann import Index

# Where the stripe begins on each device.
STRIPE = 1 << 20
DEVICE = 40 << 20
ASK = ("search", "--index", "index", "--queries", "queries.npy", "--list", "40", "--policy", "beam")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of some 25 MB and queries, made once."""
    folder = tmp_path_factory.mktemp("source")
    vectors = np.random.default_rng(1).random((3000, 1536), dtype=np.float32)
    np.save(folder / "queries.npy", vectors[:30])
    Index.build(folder / "index", vectors, metric="l2", degree=16, list_length=24)
    return folder


@pytest.fixture
def place(source: Path, tmp_path: Path) -> Path:
    for name in ("index", "queries.npy"):
        (tmp_path / name).symlink_to(source / name)
    claimed(tmp_path, DEVICE)
    return tmp_path


def search(place: Path, backend: str) -> tuple[bytes, str]:
    """Answers as bytes, and what was said."""
    out = place / f"{backend}.bin"
    said = run(*ASK, "--backend", backend, "--out", out, "--buffered", cwd=place).stderr
    return out.read_bytes(), said


def copying(
    place: Path, limit: int | None = None, *, told: bool = False
) -> subprocess.Popen[bytes]:
    command = [str(word) for word in (PIPEANN, "raw", "copy", "--index", "index")]
    if limit is not None:
        command = limited(command, limit, told=told)
    return subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE)


def written(place: Path, offset: int) -> bool:
    """Whether the stripe has something there on its first device."""
    with (place / NAMES[0]).open("rb") as f:
        f.seek(STRIPE + offset)
        return f.read(4096).strip(b"\0") != b""


def killed(place: Path, process: subprocess.Popen[bytes]) -> None:
    """Kills it, and waits until nothing of it is left."""
    process.send_signal(signal.SIGKILL)
    process.communicate()
    freed(place)


def freed(place: Path) -> None:
    """Waits until writes that a process had under way are over: its devices are its until then."""
    for name in NAMES:
        with (place / name).open("rb") as device:
            fcntl.flock(device, fcntl.LOCK_EX)


def emptied(place: Path) -> None:
    """Devices as they were claimed, of whose stripe nothing is left."""
    run("raw", "release", "--index", "index", cwd=place)
    for name in NAMES:
        os.truncate(place / name, STRIPE)
        os.truncate(place / name, DEVICE)


def recovered(place: Path) -> None:
    """The next start copies what is not there, with right answers, and the one after it nothing."""
    expected, _ = search(place, "io_uring")
    found, said = search(place, "spdk")
    assert found == expected and COPIED not in said
    found, said = search(place, "spdk")
    assert found == expected and COPIED in said


def test_a_copy_that_was_killed_is_made_again(place: Path) -> None:
    cut = 0
    # From the first bytes on; a copy that was faster than the signal is whole.
    for offset in (0, 0, 1 << 20, 4 << 20, 8 << 20):
        process = copying(place)
        deadline = time.monotonic() + 60
        while not written(place, offset) and process.poll() is None:
            assert time.monotonic() < deadline
        killed(place, process)
        held = copies(place)
        if held:
            assert COPIED in search(place, "spdk")[1]
        else:
            cut += 1
            assert written(place, 0), "it was under way"
            recovered(place)
        emptied(place)
    assert cut >= 1, "no copy was cut short"


def test_a_process_that_dies_at_a_write_leaves_no_copy(place: Path) -> None:
    """Wherever that is: the system ends a process that writes beyond its limit of file sizes."""
    for limit in (STRIPE + (64 << 10), STRIPE + (5 << 20), STRIPE + (11 << 20)):
        process = copying(place, limit=limit, told=False)
        _, said = process.communicate()
        assert process.returncode == -signal.SIGXFSZ, said
        freed(place)
        assert copies(place) == []
        recovered(place)
        emptied(place)


def test_a_disk_that_takes_no_more_is_told_of_and_the_files_are_read(place: Path) -> None:
    limit = STRIPE + (5 << 20)
    process = copying(place, limit=limit, told=True)
    _, said = process.communicate()
    assert process.returncode == 1
    # Whichever device has met its limit first.
    assert b"stays on the file system" in said and b".raw: write of" in said, said
    assert b"File too large" in said, said
    assert copies(place) == []
    command = [str(word) for word in (PIPEANN, *ASK, "--backend", "spdk", "--buffered")]
    command += ["--out", "full.bin"]
    done = subprocess.run(limited(command, limit, told=True), cwd=place, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (place / "full.bin").read_bytes() == search(place, "io_uring")[0]
    recovered(place)


def test_devices_that_are_too_small_leave_an_index_on_its_files(source: Path, tmp_path: Path) -> None:
    for name in ("index", "queries.npy"):
        (tmp_path / name).symlink_to(source / name)
    claimed(tmp_path, 4 << 20)
    done = run("raw", "copy", "--index", "index", cwd=tmp_path, ok=False)
    assert "the stripe is full" in done.stderr and "1 segments stay" in done.stderr
    assert copies(tmp_path) == []
    found, said = search(tmp_path, "spdk")
    assert found == search(tmp_path, "io_uring")[0] and "stays on the file system" in said
