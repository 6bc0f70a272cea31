"""Files that stand in for SSDs, and the command over them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

TARGET = os.environ.get("CARGO_TARGET_DIR", Path(__file__).resolve().parents[1] / "target")
PIPEANN = Path(TARGET) / "debug" / "pipeann"
# It has loads.
LAB = PIPEANN.with_name("pipeann-lab")
LOADS = ("updates", "collections")
NAMES = ("a.raw", "b.raw")
COPIED = "SPDK index already copied"


def run(*words: str | Path, cwd: Path, ok: bool = True) -> subprocess.CompletedProcess[str]:
    """The command, in a working directory; its failure is the test's unless it is expected."""
    program = LAB if words[0] in LOADS else PIPEANN
    command = [str(word) for word in (program, *words)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)
    assert (done.returncode == 0) == ok, done.stderr + done.stdout
    return done


def listed(folder: Path, entries: list[str], **others: str) -> Path:
    """The list of SSDs in a working directory."""
    path = folder / "spdk_bdevs.json"
    path.write_text(json.dumps({"ssds": entries, "hugedir": "/dev/hugepages", **others}))
    return path


def claimed(
    folder: Path, size: int = 16 << 20, names: tuple[str, ...] = NAMES, **others: str
) -> Path:
    """Devices in a working directory that are claimed, and the list of them."""
    for name in names:
        with (folder / name).open("wb") as f:
            f.truncate(size)
    config = listed(folder, [f"./{name}" for name in names], **others)
    run("raw", "claim", cwd=folder)
    return config


def content(folder: Path) -> list[bytes]:
    """All that stands on the devices."""
    return [(folder / name).read_bytes() for name in NAMES]


def directories(folder: Path) -> tuple[bytes, bytes]:
    """What stands where the first device tells its copies, twice."""
    with (folder / NAMES[0]).open("rb") as f:
        found = []
        for place in (64 << 10, 512 << 10):
            f.seek(place)
            found.append(f.read(4096))
    return found[0], found[1]


def until_copied(folder: Path, before: tuple[bytes, bytes]) -> None:
    """Waits until the devices, which another may have, tell of other copies than before."""
    deadline = time.monotonic() + 120
    while True:
        first, second = directories(folder)
        if first == second and first != before[0]:
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)


def copies(folder: Path) -> list[dict[str, object]]:
    """The copies that they hold."""
    return json.loads(run("raw", "status", "--json", cwd=folder).stdout)["copies"]
