"""Servers of a cluster as processes on 127.0.0.1, for tests and benchmarks."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def binary() -> Path:
    """The command that PIPEANN_BIN names, or as cargo builds it for tests."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    found = Path(os.environ.get("PIPEANN_BIN", target / "debug" / "pipeann"))
    assert found.is_file(), f"{found} is missing; `cargo build --package pipeann-cli` makes it"
    return found


def until(what: str, comes: Callable[[], bool], seconds: float = 60) -> None:
    """Waits for what is to come; long enough for any machine."""
    deadline = time.monotonic() + seconds
    while not comes():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.02)


class Server:
    """One server: its directory, its flags, and its process while it runs."""

    def __init__(self, data: Path, store: str, *flags: str, cluster: str = "one") -> None:
        self.data = data
        self.flags = ["--cluster", cluster, "--store", store, *flags]
        self.address = ""
        self.process: subprocess.Popen[str] | None = None

    def command(self, port: int = 0) -> list[str]:
        """What starts it."""
        here = ["--data_dir", str(self.data), "--host", "127.0.0.1", "--port", str(port)]
        return [str(binary()), "serve", *here, *self.flags]

    def start(self, port: int = 0) -> str:
        """Starts it, and returns its address when it takes calls."""
        self.process = subprocess.Popen(self.command(port), stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        said = self.process.stdout.readline().split()
        assert said[:2] == ["listening", "on"], said
        self.address = said[2]
        return self.address

    def refused(self) -> str:
        """What it says where it does not start."""
        ran = subprocess.run(self.command(), capture_output=True, text=True, timeout=60)
        assert ran.returncode != 0, ran.stdout
        return ran.stderr

    def kill(self) -> None:
        """Ends it as a power cut of its machine does, but for its disk."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=30)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def stop(self) -> int:
        """Ends it in order; its exit code."""
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(timeout=60)
        self.kill()
        return code

    def wipe(self) -> None:
        """Takes its disk away."""
        assert self.process is None
        shutil.rmtree(self.data)


@contextmanager
def running(*servers: Server) -> Iterator[None]:
    """Starts servers, and ends those that still run."""
    try:
        for server in servers:
            server.start()
        yield
    finally:
        for server in servers:
            server.kill()
