"""Servers of a cluster as processes on 127.0.0.1, for tests and benchmarks."""

from __future__ import annotations

import atexit
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
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


def unwind_at_end() -> None:
    """Has SIGTERM end this process as an error does, so that what it started ends before it."""

    def unwind(*_: object) -> None:
        # Once: another one would cut this short.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, unwind)


class Server:
    """One server: its directory, its flags, and its process while it runs."""

    def __init__(self, data: Path, store: str, *flags: str, cluster: str = "one") -> None:
        self.data = data
        self.flags = ["--cluster", cluster, "--store", store, *flags]
        self.address = ""
        # 0 for any that is free.
        self.port = 0
        # Where it tells its metrics; 0 for nowhere.
        self.watched = 0
        # The command it is of, where that is not the one that tests are of.
        self.program: Path | None = None
        self.process: subprocess.Popen[str] | None = None

    def command(self) -> list[str]:
        """What starts it."""
        here = ["--data_dir", str(self.data), "--host", "127.0.0.1", "--port", str(self.port)]
        watched = ["--metrics_port", str(self.watched)]
        return [str(self.program or binary()), "serve", *here, *watched, *self.flags]

    def start(self) -> str:
        """Starts it, and returns its address when it takes calls."""
        self.begin()
        return self.listens()

    def begin(self) -> None:
        """Starts it."""
        assert self.process is None
        self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, text=True)

    def listens(self) -> str:
        """Waits until it takes calls; its address."""
        assert self.process is not None and self.process.stdout is not None
        said = self.process.stdout.readline().split()
        ports = [port for port in (self.port, self.watched) if port]
        if not said and not all(map(is_free, ports)):
            # Somebody else has its port for now. Whatever else ends it is its own fault.
            self.kill()
            until("its port", lambda: all(map(is_free, ports)))
            self.begin()
            assert self.process is not None and self.process.stdout is not None
            said = self.process.stdout.readline().split()
        assert said[:2] == ["listening", "on"], said
        self.address = said[2]
        return self.address

    def says(self, seconds: float) -> str:
        """The next line that it prints, which has to come within a time."""
        assert self.process is not None and self.process.stdout is not None
        said: list[str] = []
        readline = self.process.stdout.readline
        reader = threading.Thread(target=lambda: said.append(readline()), daemon=True)
        reader.start()
        reader.join(seconds)
        assert said, f"it said nothing in {seconds:g} s"
        return said[0]

    def tells(self, path: str = "/metrics") -> str:
        """What it tells those who watch it."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.watched}{path}", timeout=30) as found:
            return found.read().decode()

    def figures(self) -> dict[str, float]:
        """Its metrics, by name and labels."""
        lines = (line for line in self.tells().splitlines() if not line.startswith("#"))
        pairs = (line.rsplit(" ", 1) for line in lines)
        return {name: float(value) for name, value in pairs}

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


# Below those that systems give to outgoing connections: who dials a server that was killed may
# otherwise be given that very port, which the server then cannot have again.
PORTS = range(20_000, 32_000)
# Whoever has one may not listen yet, or not now. Until this process ends no other one that draws
# here is given it either: its port for datagrams is taken.
_given: set[int] = set()
_claims = ExitStack()
atexit.register(_claims.close)


def is_free(port: int) -> bool:
    """Whether a server could listen there now; connections that have ended are no hindrance."""
    with socket.socket() as probe, suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return True
    return False


def free_port() -> int:
    """A port that nobody listens on now, each time another one."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        if port in _given or not is_free(port):
            continue
        claim = socket.socket(type=socket.SOCK_DGRAM)
        try:
            claim.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        _claims.enter_context(claim)
        _given.add(port)
        return port


class Etcd:
    """etcd on 127.0.0.1, with a directory of its own."""

    def __init__(self, data: Path) -> None:
        found = shutil.which("etcd")
        assert found, "etcd is missing; Debian's package etcd-server has it"
        self.data = data
        self.port, self.peers = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        peers = f"http://127.0.0.1:{self.peers}"
        self.command = [
            *(found, "--name", "one", "--data-dir", str(data), "--log-level", "error"),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"one={peers}"),
        ]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it takes calls."""
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(self.command, stdout=quiet, stderr=quiet)
        until("etcd", self._answers)

    def _answers(self) -> bool:
        # It listens before it has elected itself.
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=1) as found:
            return json.load(found)["health"] == "true"
        return False

    def kill(self) -> None:
        """Ends it at once; its data stays."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=30)
            self.process = None

    def wipe(self) -> None:
        """Takes its data away."""
        assert self.process is None
        shutil.rmtree(self.data)


class Cluster:
    """Some servers, one etcd, and a directory as the store."""

    def __init__(self, root: Path, count: int, name: str = "one") -> None:
        self.root = root
        self.etcd = Etcd(root / "etcd")
        self.store = f"file://{root / 'store'}"
        self.servers = [self.server(number, name) for number in range(count)]

    def server(self, number: int, name: str = "one") -> Server:
        """A server with a directory and a port of its own."""
        server = Server(
            self.root / f"server-{number}", self.store, "--etcd", self.etcd.url, cluster=name
        )
        server.port = free_port()
        return server

    def command(self, what: str, *words: str) -> subprocess.CompletedProcess[str]:
        """`pipeann cluster WHAT` for this cluster."""
        name = self.servers[0].flags[1]
        of = ["--cluster", name, "--store", self.store]
        if what != "restore":
            of += ["--etcd", self.etcd.url]
        return subprocess.run(
            [str(binary()), "cluster", what, *words, *of],
            capture_output=True,
            text=True,
            timeout=300,
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Starts etcd and all servers, and ends what still runs."""
        try:
            self.etcd.start()
            for server in self.servers:
                server.begin()
            for server in self.servers:
                server.listens()
            yield
        finally:
            for server in self.servers:
                server.kill()
            self.etcd.kill()
