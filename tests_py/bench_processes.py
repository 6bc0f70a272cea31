"""A server as its host sees it, and clients that are processes of their own.

The clients are forked before this process has a connection, since those do not survive it.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench_load import Asked, Row, Target, one_after_the_other

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def tree(pid: int) -> list[int]:
    """A process and those that it started."""
    found, parents = [pid], {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := stat(int(folder.name))):
            parents[int(folder.name)] = int(fields[1])
    for one in found:
        found.extend(child for child, parent in parents.items() if parent == one)
    return found


def stat(pid: int) -> list[str] | None:
    """What `/proc/PID/stat` says from the state on; nothing of a process that went."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


@dataclass(frozen=True)
class Server:
    """A server by name and address; without a process id its costs are not known."""

    name: str
    uri: str
    pid: int | None = None

    @classmethod
    def parse(cls, text: str) -> Server:
        """From `NAME=URI` or `NAME=URI@PID`."""
        name, _, rest = text.partition("=")
        uri, _, pid = rest.partition("@")
        return cls(name, uri, int(pid) if pid else None)

    def cpu_s(self) -> float | None:
        """Processor time until now."""
        if self.pid is None:
            return None
        fields = [found for pid in tree(self.pid) if (found := stat(pid))]
        return sum(int(each[11]) + int(each[12]) for each in fields) / TICKS

    def rss_bytes(self) -> int | None:
        """Resident memory now."""
        if self.pid is None:
            return None
        fields = [found for pid in tree(self.pid) if (found := stat(pid))]
        return sum(int(each[21]) for each in fields) * PAGE

    def cpu_us_each(self, before: float | None, calls: int) -> float | None:
        """Processor time of each of some calls since `before`."""
        now = self.cpu_s()
        return None if now is None or before is None else (now - before) / calls * 1e6


@contextmanager
def watched(server: Server) -> Iterator[Row]:
    """The most memory that a server has, as `peak_rss_mb`, which is filled in at the end."""
    seen: Row = {}
    if server.pid is None:
        yield seen
        return
    done = threading.Event()
    peak = 0

    def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max(peak, server.rss_bytes() or 0)
            done.wait(0.1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()
        seen["peak_rss_mb"] = peak / 1e6


@dataclass(frozen=True)
class Task:
    """Queries that one client asks, one after the other."""

    uri: str
    target: Target
    asked: Asked
    queries: list[int]
    ef: int


@dataclass
class Clients:
    """Processes with a connection each."""

    count: int
    pipes: list[Connection] = field(default_factory=list)
    processes: list[Any] = field(default_factory=list)

    def __enter__(self) -> Clients:
        context = multiprocessing.get_context("fork")
        for _ in range(self.count):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self.pipes:
            pipe.send(None)
        for process in self.processes:
            process.join()

    def run(self, server: Server, target: Target, asked: Asked, ef: int, repeat: int) -> Row:
        """Asks all queries, dealt out to the clients, so many times; all begin at once."""
        whole = list(range(len(asked.vectors))) * repeat
        for place, pipe in enumerate(self.pipes):
            pipe.send(Task(server.uri, target, asked, whole[place :: self.count], ef))
        self.answers()  # all are connected
        cpu = server.cpu_s()
        for pipe in self.pipes:
            pipe.send("go")
        ended = self.answers()
        cpu_us = server.cpu_us_each(cpu, len(whole))
        took = max(end for _, end, _ in ended) - min(start for start, _, _ in ended)
        found: list[list[float]] = [[] for _ in whole]
        for place, (_, _, answers) in enumerate(ended):
            found[place :: self.count] = answers
        recall = asked.recall(found[: len(asked.vectors)])
        return {"clients": self.count, "qps": len(whole) / took, "recall": recall, "cpu_us": cpu_us}

    def answers(self) -> list[Any]:
        """What each client says next; a failure of one is that of all."""
        said = [pipe.recv() for pipe in self.pipes]
        for answer in said:
            if isinstance(answer, Exception):
                raise answer
        return said


def serve(pipe: Connection) -> None:
    """What a client does until it is told to end."""
    from pymilvus import MilvusClient

    clients: dict[str, Any] = {}
    while task := pipe.recv():
        try:
            client = clients.get(task.uri) or MilvusClient(uri=task.uri)
            clients[task.uri] = client
            search = partial(task.target.search, client, task.asked, ef=task.ef)
            search(0)
            pipe.send("ready")
            pipe.recv()
            start = time.perf_counter()
            times = one_after_the_other(search, task.queries)
            pipe.send((start, time.perf_counter(), times.found))
        except Exception as error:  # told to the parent, which ends the run
            pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))
