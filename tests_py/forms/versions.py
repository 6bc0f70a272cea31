"""The supported versions of pymilvus, in environments of their own, and all forms with each."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("2.5", "2.6", "3.0")
# Seconds for all forms of a version, several times what they take: each call has its own limit.
LIMIT = 600


def environment(version: str) -> Path:
    """The interpreter of an environment with that version, which is made where there is none."""
    folder = ROOT / "target" / f"pymilvus-{version}"
    ready = folder / "ready"
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(f"{folder.suffix}.lock").open("w") as lock:
        # Somebody else may be making it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
            wanted = [f"pymilvus=={version}.*", "pytest>=8"]
            command = [folder / "bin" / "pip", "install", "--quiet", *wanted]
            subprocess.run(command, check=True)
            ready.touch()
    return folder / "bin" / "python"


def all_forms(
    binary: Path, package: Path, pythons: Sequence[Path], limit: float = LIMIT
) -> list[dict[str, Any]]:
    """What came of all forms with each interpreter's pymilvus. They run beside each other, each
    with a server of its own; `package` is the folder that has the package pipeann."""
    paths = os.pathsep.join([str(ROOT / "tests_py"), str(package)])
    running = [
        subprocess.Popen(
            [python, "-W", "ignore", "-m", "forms", "--binary", binary],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for python in pythons
    ]
    found = []
    try:
        for process in running:
            out, err = process.communicate(timeout=limit)
            if process.returncode != 0:
                raise RuntimeError(f"the forms ended with {process.returncode}: {err[-4000:]}")
            found.append(json.loads(out.splitlines()[-1]))
    finally:
        for process in running:
            process.kill()
            process.communicate()
    return found
