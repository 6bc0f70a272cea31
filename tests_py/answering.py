"""Processor time of servers, as their host counts it: of threads that answer calls, and of all."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bench_processes import Server as Watched
from clusters import Server

# Threads that answer calls: those that search, and those of connections.
ANSWERING = ("search", "milvus")
# A pool's thread ends when it had nothing to do for ten seconds.
LOOK_S = 1.0


class Answering(threading.Thread):
    """Looks at the processor time of each thread that answers calls, and keeps that of those that
    have ended. What is done behind the writes comes in lumps, in other threads, and is told apart."""

    def __init__(self, servers: list[Server]) -> None:
        super().__init__(daemon=True)
        self.servers = servers
        # By process, thread and when that began: numbers of threads come again.
        self.seen: dict[tuple[int, int, int], float] = {}
        self.looking = threading.Lock()
        self.start()

    def run(self) -> None:
        while any(server.process is not None for server in self.servers):
            time.sleep(LOOK_S)
            self.total_s()

    def total_s(self) -> float:
        """Of all up to now."""
        with self.looking:
            for server in self.servers:
                if (process := server.process) is not None:
                    self.seen |= answering_s(process.pid)
            return sum(self.seen.values())


def answering_s(process: int) -> dict[tuple[int, int, int], float]:
    """That of threads of a process that are there now."""
    found = {}
    # Threads come and go, and in the end the process does.
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):
                name, _, rest = (task / "stat").read_text().rpartition(")")
                if name.partition("(")[2] in ANSWERING:
                    fields = rest.split()
                    ticks = int(fields[11]) + int(fields[12])
                    thread = (process, int(task.name), int(fields[19]))
                    found[thread] = ticks / os.sysconf("SC_CLK_TCK")
    return found


def cpu_s(servers: list[Server]) -> float:
    """Processor time of servers up to now."""
    assert all(server.process is not None for server in servers)
    watched = (Watched("", "", server.process.pid) for server in servers if server.process)
    return sum(found.cpu_s() or 0.0 for found in watched)


def rest(servers: list[Server]) -> None:
    """Waits until next to nothing is done behind the writes any more, for half an hour at most."""
    deadline = time.monotonic() + 1800
    while time.monotonic() < deadline:
        before = cpu_s(servers)
        time.sleep(2)
        if cpu_s(servers) - before < 0.1 * len(servers):
            return


def cores(resting: list[Server], what: Callable[[], object]) -> float:
    """Those that servers take which rest while something else is measured."""
    before, began = cpu_s(resting), time.monotonic()
    what()
    return (cpu_s(resting) - before) / (time.monotonic() - began)
