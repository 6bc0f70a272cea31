"""Servers that clients of Milvus talk to, ours and Milvus; each on a directory and a free port."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from . import rivals
from .pipeann import program
from .ports import free_port

REQUIREMENTS = rivals.COMPARE / "milvus-requirements.txt"
HEALTH = "http://127.0.0.1:9091/healthz"
PATIENCE_S = 180
GRACE_S = 20


@dataclass(frozen=True)
class Server:
    """A running server."""

    name: str
    uri: str
    pid: int

    @property
    def word(self) -> str:
        """As the benchmark takes it."""
        return f"{self.name}={self.uri}@{self.pid}"


@contextmanager
def pipeann(data: Path, memory_limit: str = "floor", *flags: str) -> Iterator[Server]:
    """Our server."""
    command = [program(), "serve", "--data_dir", data, "--host", "127.0.0.1", "--port", "0"]
    words = [str(word) for word in (*command, "--memory-limit", memory_limit, *flags)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline().split()
            if said[:2] != ["listening", "on"]:
                raise SystemExit(f"{' '.join(words)}\ndid not start")
            yield Server("pipeann", f"http://{said[2]}", process.pid)
        finally:
            process.terminate()


def milvus_python() -> Path:
    """The interpreter that has embedded Milvus; `$PIPEANN_MILVUS` names another."""
    if named := os.environ.get("PIPEANN_MILVUS"):
        return Path(named)
    return rivals.environment("milvus", REQUIREMENTS, interpreters=["python3.10"])


@contextmanager
def milvus(data: Path) -> Iterator[Server]:
    """Embedded Milvus. It opens some fixed ports beside its own, so there can be one only."""
    if healthy():
        raise SystemExit(f"there is a Milvus already: {HEALTH} answers")
    port = free_port()
    data.mkdir(parents=True, exist_ok=True)
    command = [milvus_python().with_name("milvus-server"), "--data", data, "--proxy-port", port]
    with (data / "said.log").open("w") as log:
        # In a group of its own: the program that was started leaves the server behind when it ends.
        process = subprocess.Popen(
            [str(word) for word in command], stdout=log, stderr=log, start_new_session=True
        )
    try:
        until = time.monotonic() + PATIENCE_S
        while not healthy():
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"Milvus did not start; see {log.name}")
            time.sleep(0.5)
        yield Server("milvus", f"http://127.0.0.1:{port}", process.pid)
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and all of its group; a server that takes long is killed."""
    until = time.monotonic() + GRACE_S
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        # The group is gone when nobody can be signalled; its first process has to be fetched.
        while time.monotonic() < until:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def healthy() -> bool:
    """Whether Milvus says that it is well."""
    try:
        with urllib.request.urlopen(HEALTH, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
