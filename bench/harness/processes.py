"""Run a program that prints JSON lines, say what went wrong when it fails, and end what it began.

Whatever a run starts inherits a mark of that run in its environment. By that it is found and ended
when the run ends, also where the one that started it was killed and can no longer end it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

Row = dict[str, Any]
Command = Sequence[str | Path]

MARK = "BENCH_RUN"
# For a script that was told to end, to end what it has started itself.
GRACE_S = 20.0


def json_lines(command: Command, cwd: Path | None = None) -> list[Row]:
    """All JSON objects that a command prints on its own lines; it must succeed."""
    words = [str(word) for word in command]
    done = run(words, cwd)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise SystemExit(f"{shlex.join(words)}\nfailed with {done.returncode}:\n{tail}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not rows:
        raise SystemExit(f"{shlex.join(words)}\nprinted no JSON line")
    return rows


def run(words: Sequence[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` with both outputs kept, but that a command which is not waited for to its
    end is asked to end before it is killed."""
    # In files: of a pipe the end comes only when whatever the command has started has ended too.
    with TemporaryFile("w+") as said, TemporaryFile("w+") as complained:
        with subprocess.Popen(words, cwd=cwd, stdout=said, stderr=complained) as process:
            try:
                code = process.wait()
            except BaseException:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE_S)
                process.kill()
                raise
        for file in (said, complained):
            file.seek(0)
        return subprocess.CompletedProcess(words, code, said.read(), complained.read())


def begin_run() -> None:
    """Marks what this process will start as its own."""
    os.environ[MARK] = f"{os.getpid()}-{time.time_ns()}"


def started() -> list[int]:
    """Processes with the mark of this run that are still there, but for this one."""
    mark = os.environ.get(MARK)
    if not mark:
        return []
    wanted, found = f"{MARK}={mark}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        # Those of others cannot be read, and some end meanwhile.
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


def end_started() -> list[int]:
    """Ends all that this run has started and that is still there; which they were."""
    first = started()
    for pid in first:
        signalled(pid, signal.SIGTERM)
    until = time.monotonic() + GRACE_S
    while started() and time.monotonic() < until:
        time.sleep(0.1)
    # What is started while others are killed has to go as well.
    until = time.monotonic() + GRACE_S
    while (left := started()) and time.monotonic() < until:
        for pid in left:
            signalled(pid, signal.SIGKILL)
        time.sleep(0.1)
    return first


def signalled(pid: int, number: signal.Signals) -> None:
    """Signals a process that may have ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
