"""The shim against SPDK's own target on this machine: NVMe over TCP on 127.0.0.1, memory devices.

It says that answers are right and no command fails. Its rates are those of two processes that share
this machine's cores, and say nothing of NVMe.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import pipeann, places
from harness.processes import json_lines
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

PORT = 4420
SUBSYSTEM = "nqn.2016-06.io.spdk:pipeann{}"


def installed() -> tuple[Path, Path] | None:
    """SPDK's target and the script that talks to it, by `$SPDK_DIR` or the path; and a library that
    pkg-config knows."""
    folder = os.environ.get("SPDK_DIR")
    target = Path(folder) / "build" / "bin" / "nvmf_tgt" if folder else shutil.which("nvmf_tgt")
    script = Path(folder) / "scripts" / "rpc.py" if folder else shutil.which("rpc.py")
    if not (target and script and Path(target).exists() and Path(script).exists()):
        return None
    found = subprocess.run(["pkg-config", "--exists", "spdk_nvme"], check=False)
    return (Path(target), Path(script)) if found.returncode == 0 else None


@contextmanager
def served(job: Job, lba_bytes: int, folder: Path) -> Iterator[Path]:
    """A target with memory devices of a block size; yields the list of SSDs."""
    found = installed()
    assert found is not None, "asked before"
    target, script = found
    socket = folder / "rpc.sock"
    command = [str(target), "--no-huge", "-s", "1024", "-m", "0x2", "-r", str(socket)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def rpc(*words: str) -> None:
        subprocess.run([str(script), "-s", str(socket), *words], check=True, capture_output=True)

    try:
        deadline = time.monotonic() + 60
        while not socket.exists() and time.monotonic() < deadline:
            time.sleep(0.2)
        rpc("nvmf_create_transport", "-t", "TCP")
        ssds = []
        for number in range(job.settings["devices"]):
            name, subsystem = f"Malloc{number}", SUBSYSTEM.format(number)
            rpc("bdev_malloc_create", "-b", name, "256", str(lba_bytes))
            rpc("nvmf_create_subsystem", subsystem, "-a", "-s", f"PIPEANN{number}")
            rpc("nvmf_subsystem_add_ns", subsystem, name)
            where = ["-t", "TCP", "-a", "127.0.0.1", "-s", str(PORT)]
            rpc("nvmf_subsystem_add_listener", subsystem, *where)
            address = f"trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:{PORT} subnqn:{subsystem}"
            ssds.append(address)
        config = folder / "spdk_bdevs.json"
        config.write_text(json.dumps({"ssds": ssds}))
        yield config
    finally:
        process.terminate()
        process.wait()


def program() -> Path:
    """The command with the feature `spdk`."""
    build = ["cargo", "build", "--release", "--locked", "--package", "pipeann-cli"]
    target = places.cache() / "tools" / "spdk-target"
    build += ["--features", "spdk", "--target-dir", str(target)]
    subprocess.run(build, cwd=places.REPO, check=True)
    return target / "release" / "pipeann"


def take_spdk_nvmf(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Answers of two fixed policies from NVMe devices and from files, for each block size."""
    if installed() is None:
        print("skipped: SPDK is not installed (SPDK_DIR, and PKG_CONFIG_PATH for its libraries)")
        # A skip is no acceptance.
        verdict.problems.append("skipped")
        return
    ours = program()
    small = pipeann.shrunk(vectors, job.settings["rows"])
    index = pipeann.index_of(small, job.build)
    rows, differing, errors = [], 0, 0
    for lba_bytes in job.settings["lba_bytes"]:
        with TemporaryDirectory(dir=places.cache()) as folder, served(
            job, lba_bytes, Path(folder)
        ) as config:
            subprocess.run([ours, "raw", "claim", "--spdk-config", config], check=True)
            for policy in ("beam", "page"):
                outs = []
                for backend in ("io_uring", "spdk"):
                    out = Path(folder) / f"{backend}.bin"
                    command = [ours, "search", "--index", index, "--queries", small.queries]
                    command += ["--policy", policy, "--list", "60", "--out", out, "--json"]
                    command += ["--backend", backend, "--spdk-config", config]
                    found = json_lines(command)[-1]
                    outs.append(out)
                same = filecmp.cmp(*outs, shallow=False)
                failed = sum(device["errors"] for device in found["devices"])
                rows.append([lba_bytes, policy, found["reads"], failed, "yes" if same else "NO"])
                differing, errors = differing + (not same), errors + failed
    rows_shown = [[str(row[0]), *row[1:]] for row in rows]
    title = "NVMe over TCP on 127.0.0.1, memory devices: no speed of NVMe"
    print_table(title, ["LBA", "policy", "reads", "errors", "answers equal"], rows_shown)
    verdict.add("answers that differ", Check(differing, 0))
    verdict.add("errors", Check(errors, 0))
