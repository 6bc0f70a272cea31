"""The supported versions of pymilvus, in environments of their own, and all forms with each."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("2.5", "2.6", "3.0")
# Seconds for all forms of a version, several times what they take: each call has its own limit.
LIMIT = 600
# For what is told to end, to end by itself.
GRACE_S = 20.0


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
            look_here_as_well(folder)
            wanted = [f"pymilvus=={version}.*", "pytest>=8"]
            command = [folder / "bin" / "pip", "install", "--quiet", *wanted]
            subprocess.run(command, check=True)
            ready.touch()
    return folder / "bin" / "python"


def look_here_as_well(folder: Path) -> None:
    """Has an environment find what this interpreter has installed behind what it has itself, so
    that only what differs is installed, which takes seconds instead of minutes."""
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "behind.pth").write_text(f"{sysconfig.get_path('purelib')}\n")


def all_forms(
    binary: Path, package: Path, pythons: Sequence[Path], limit: float = LIMIT
) -> list[dict[str, Any]]:
    """What came of all forms with each interpreter's pymilvus. They run beside each other, each
    with a server of its own, and end with this call, however it ends; `package` is the folder that
    has the package pipeann."""
    paths = os.pathsep.join([str(ROOT / "tests_py"), str(package)])
    found = []
    with ended() as running:
        for python in pythons:
            process = subprocess.Popen(
                [python, "-W", "ignore", "-m", "forms", "--binary", binary],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": paths},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                # Its server is of its group, and is found by that.
                start_new_session=True,
            )
            running.append(process)
        while running:
            out, err = running[0].communicate(timeout=limit)
            if running[0].returncode != 0:
                raise RuntimeError(f"the forms ended with {running[0].returncode}: {err[-4000:]}")
            found.append(json.loads(out.splitlines()[-1]))
            # What has ended well has ended its server.
            running.pop(0)
    return found


@contextmanager
def ended() -> Iterator[list[subprocess.Popen[str]]]:
    """A list of processes that lead groups: those still in it end with their groups on leaving, by
    an error or by SIGTERM."""
    running: list[subprocess.Popen[str]] = []
    with unwinding():
        try:
            yield running
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                for process in running:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, number)
                until = time.monotonic() + GRACE_S
                while any(map(is_there, running)) and time.monotonic() < until:
                    time.sleep(0.05)
            for process in running:
                process.communicate()


def is_there(process: subprocess.Popen[str]) -> bool:
    """Whether anything is left of a process's group."""
    process.poll()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 0)
        return True
    return False


@contextmanager
def unwinding() -> Iterator[None]:
    """Has SIGTERM, where nobody else sees to it, end this process only after what is within has
    been left."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    came: list[int] = []

    def leave(number: int, _: object) -> None:
        # Once: another one would cut this short.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        came.append(number)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if came:
            os.kill(os.getpid(), signal.SIGTERM)
