"""What servers that hold the same rows cost beside one, and how far behind they are.

Prints one line of JSON. `replicas` asks three servers of a cluster and one server the same, without
writers and beside some; `ingest` writes and reads for so many seconds, to both.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from bench_processes import Server as Watched
from clusters import Cluster, Server, free_port
from joins import bytes_below, fill, vectors
from outages import Balancer, client
from pymilvus import DataType, MilvusClient, MilvusException

# Keys of what is looked for elsewhere, above all others.
MARKERS = itertools.count(1 << 40)
WRITERS = 2
READERS = 2
# How often what takes seconds is repeated; the middle one counts.
ROUNDS = 3
BATCH = 100


def create(of: MilvusClient, dim: int) -> None:
    """`c`, whose keys are the numbers of its rows."""
    schema = of.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("v", DataType.FLOAT_VECTOR, dim=dim)
    index = of.prepare_index_params()
    index.add_index("v", index_type="DISKANN", metric_type="L2")
    of.create_collection("c", schema=schema, index_params=index)


def growing(server: Server) -> float:
    """Rows of a server that are not in its graph; another one's are its own affair."""
    name = "pipeann_growing_rows"
    return sum(n for of, n in server.figures().items() if of.startswith(name))


def link_all(servers: list[Server]) -> None:
    """Waits until all rows are in the graphs of all servers."""
    deadline = time.monotonic() + 3600
    # Each look counts rows, which is not to count.
    while any(growing(server) for server in servers):
        assert time.monotonic() < deadline, "rows do not enter the graphs"
        time.sleep(0.25)


# Threads that answer calls: those that search, and those of connections.
ANSWERING = ("search", "milvus")


def answering_s(servers: list[Server]) -> dict[tuple[int, int], float]:
    """Processor time up to now of each thread that answers calls. What is done behind the writes comes
    in lumps, in other threads, and is told apart."""
    found = {}
    for server in servers:
        assert server.process is not None
        for task in Path(f"/proc/{server.process.pid}/task").iterdir():
            with suppress(FileNotFoundError):
                name, _, rest = (task / "stat").read_text().rpartition(")")
                if name.partition("(")[2] in ANSWERING:
                    fields = rest.split()
                    ticks = int(fields[11]) + int(fields[12])
                    found[server.process.pid, int(task.name)] = ticks / os.sysconf("SC_CLK_TCK")
    return found


def spent(servers: list[Server], before: dict[tuple[int, int], float]) -> float:
    """Processor time of threads that answer calls, since then; one that has ended had nothing to do."""
    now = answering_s(servers)
    return sum(spent - before.get(thread, 0.0) for thread, spent in now.items())


def cpu_s(servers: list[Server]) -> float:
    """Processor time of servers up to now."""
    assert all(server.process is not None for server in servers)
    watched = (Watched("", "", server.process.pid) for server in servers if server.process)
    return sum(found.cpu_s() or 0.0 for found in watched)


def percentile(times: list[float], share: float) -> float:
    """Of some times; nothing of none."""
    return float(np.percentile(times, share)) if times else 0.0


@contextmanager
def arrangement(root: Path, count: int) -> Iterator[list[Server]]:
    """So many servers of a cluster; one that is alone is of none."""
    if count > 1:
        cluster = Cluster(root, count)
        for server in cluster.servers:
            server.watched = free_port()
        with cluster.running():
            yield cluster.servers
        return
    server = Server(root / "alone", "")
    server.flags = []
    server.watched = free_port()
    server.start()
    try:
        yield [server]
    finally:
        server.kill()


class Writer(threading.Thread):
    """Writes batches at a rate, as fast as it can where that is 0, in turn by each server. Of eight
    batches six are new rows and two replace the one before; then an old one is deleted."""

    def __init__(
        self,
        servers: list[Server],
        rows: np.ndarray,
        first: int,
        rate: float,
        stop: threading.Event,
    ) -> None:
        super().__init__(daemon=True)
        self.clients = [client(server) for server in servers]
        self.rows, self.next, self.rate, self.stopped = rows, first, rate, stop
        self.written = self.deleted = 0
        self.took: list[float] = []
        self.failed: MilvusException | None = None

    def run(self) -> None:
        began = time.monotonic()
        for turn in itertools.count():
            due = began + self.written / self.rate if self.rate else 0.0
            if self.stopped.wait(max(0.0, due - time.monotonic())):
                return
            try:
                self.write(turn, self.clients[turn % len(self.clients)])
            except MilvusException as error:
                self.failed = error
                return

    def write(self, turn: int, of: MilvusClient) -> None:
        first = self.next
        rows = [
            {"id": first + at, "v": self.rows[(first + at) % len(self.rows)]} for at in range(BATCH)
        ]
        began = time.monotonic()
        if turn % 4 == 3:
            of.upsert("c", rows)
        else:
            of.insert("c", rows)
        self.took.append(time.monotonic() - began)
        # The third of four is replaced by the fourth.
        self.next += BATCH if turn % 4 != 2 else 0
        self.written += BATCH
        if turn % 8 == 7:
            old = first - 3 * BATCH
            of.delete("c", ids=list(range(old, old + BATCH)))
            self.deleted += BATCH


class Reader(threading.Thread):
    """Searches in turn by each server, and keeps when and how long."""

    def __init__(
        self,
        servers: list[Server],
        asked: np.ndarray,
        number: int,
        most: int | None,
        stop: threading.Event,
    ) -> None:
        super().__init__(daemon=True)
        self.clients = [client(server) for server in servers]
        self.asked, self.number, self.most, self.stopped = asked, number, most, stop
        self.took: list[tuple[float, float]] = []
        self.failed: MilvusException | None = None

    def run(self) -> None:
        try:
            self.read()
        except MilvusException as error:
            self.failed = error

    def read(self) -> None:
        for turn in itertools.count(self.number):
            if self.stopped.is_set() or self.most is not None and len(self.took) >= self.most:
                return
            ask = [self.asked[turn % len(self.asked)]]
            began = time.monotonic()
            of = self.clients[turn % len(self.clients)]
            found = of.search("c", ask, limit=10, consistency_level="Eventually")
            assert len(found[0]) == 10
            self.took.append((began, time.monotonic() - began))


def searches(servers: list[Server], asked: np.ndarray, most: int) -> float:
    """Processor time for so many searches of each reader, of threads that answer calls."""
    stop = threading.Event()
    readers = [Reader(servers, asked, number * 7919, most, stop) for number in range(READERS)]
    before = answering_s(servers)
    for reader in readers:
        reader.start()
    ended(readers)
    assert all(len(reader.took) == most for reader in readers), "a reader ended early"
    return spent(servers, before)


def ended(threads: list[Writer] | list[Reader]) -> None:
    """Waits for threads, and fails as one of them has failed."""
    for thread in threads:
        thread.join()
    for thread in threads:
        if thread.failed is not None:
            raise thread.failed


@contextmanager
def writing(
    servers: list[Server], rows: np.ndarray, first: int, rate: float
) -> Iterator[list[Writer]]:
    """Writers of so many rows a second together, of as many as they can where that is 0."""
    stop = threading.Event()
    apart = 1 << 32
    writers = [
        Writer(servers, rows, first + number * apart, rate / WRITERS, stop)
        for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    try:
        yield writers
    finally:
        stop.set()
        ended(writers)


@dataclass
class Lag:
    """How long after a write was acknowledged another server has it."""

    behind: list[float] = field(default_factory=list)
    own_seen: int = 0
    own_asked: int = 0

    def sample(self, servers: list[Server], row: np.ndarray, count: int) -> None:
        """Writes markers by one server, and looks for them at the next."""
        clients = [client(server) for server in servers]
        # A session is known by the address that it calls, whoever answers there.
        balancer = Balancer(servers)
        session = MilvusClient(uri=balancer.uri)
        for number in range(count):
            key = next(MARKERS)
            if number % 2:
                session.insert("c", [{"id": key, "v": row}])
                turns = balancer.turn
                balancer.cut()
                self.own_seen += len(session.query("c", ids=[key], consistency_level="Session"))
                self.own_asked += 1
                assert balancer.turn == turns + 1, "it was another server's turn"
                continue
            first, second = (clients[(number + of) % len(clients)] for of in (0, 1))
            first.insert("c", [{"id": key, "v": row}])
            written = time.monotonic()
            while not second.query("c", ids=[key], consistency_level="Eventually"):
                assert time.monotonic() - written < 60, "a write is not seen within a minute"
            self.behind.append(time.monotonic() - written)


class Load:
    """Writers beside something: what threads take meanwhile that answer calls, and what all take until
    all rows are in the graphs of all servers, with what was put off."""

    def __init__(self, servers: list[Server], rows: np.ndarray, number: int, rate: float) -> None:
        self.servers, self.rows, self.rate = servers, rows, rate
        # Keys of its own.
        self.first = len(rows) + (number + 1) * (1 << 36)
        self.cpu_s = self.answering_s = self.took_s = 0.0
        self.written = 0
        self.growing: list[float] = []

    def run(self, work: Callable[[], object]) -> None:
        before, began = cpu_s(self.servers), time.monotonic()
        answering = answering_s(self.servers)
        with writing(self.servers, self.rows, self.first, self.rate) as writers:
            work()
            self.growing = [growing(server) for server in self.servers]
        self.took_s = time.monotonic() - began
        self.answering_s = spent(self.servers, answering)
        link_all(self.servers)
        self.cpu_s = cpu_s(self.servers) - before
        self.written = sum(writer.written for writer in writers)


def asked_of(servers: list[Server], base: np.ndarray, queries: int, rate: float) -> dict:
    """Processor time a query without writers and beside them, and how far behind the others are."""
    rows = base.astype(np.float32)
    first = client(servers[0])
    create(first, rows.shape[1])
    fill(first, base)
    link_all(servers)
    asked = rows[:: max(1, len(rows) // 1000)]
    searches(servers, asked, queries // 10)
    quiet = [searches(servers, asked, queries) for _ in range(ROUNDS)]
    quiet_us = statistics.median(quiet) / (queries * READERS) * 1e6
    lag, beside = Lag(), Lag()
    if len(servers) > 1:
        lag.sample(servers, rows[0], 100)
    loads = [Load(servers, rows, number, rate) for number in range(2 * ROUNDS + 1)]
    parts = []
    for without, within in zip(loads[:ROUNDS], loads[ROUNDS:], strict=False):
        without.run(lambda: time.sleep(10))
        within.run(lambda: searches(servers, asked, queries))
        parts.append((without, within))
    if len(servers) > 1:
        loads[-1].run(lambda: beside.sample(servers, rows[0], 200))
    each = [
        (within.answering_s - without.answering_s / without.written * within.written)
        / (queries * READERS)
        for without, within in parts
    ]
    return {
        "busy_us": statistics.median(each) * 1e6,
        # What is done behind the writes comes in lumps: all of it together.
        "row_us": sum(load.cpu_s for load, _ in parts)
        / sum(load.written for load, _ in parts)
        * 1e6,
        "rows_s": statistics.median(load.written / load.took_s for _, load in parts),
        "growing": max(max(load.growing) for _, load in parts),
        "quiet_us": quiet_us,
        "quiet_lag_s": percentile(lag.behind, 99),
        "lag_s": percentile(beside.behind, 99),
        "lag_middle_s": percentile(beside.behind, 50),
        "own_asked": lag.own_asked + beside.own_asked,
        "own_seen": lag.own_seen + beside.own_seen,
    }


def replicas(root: Path, base: np.ndarray, queries: int, rate: float) -> dict:
    """Three servers and one, in turn."""
    found = {}
    for count in (1, 3):
        with arrangement(root / str(count), count) as servers:
            found[str(count)] = asked_of(servers, base, queries, rate)
    return {"rows": len(base), **found}


def uploaded(servers: list[Server]) -> float:
    """Bytes that servers put into the store up to now."""
    name = 'pipeann_store_bytes_total{operation="put"}'
    return sum(server.figures().get(name, 0.0) for server in servers)


def written_to(servers: list[Server], base: np.ndarray, seconds: float) -> dict:
    """Writes and reads for so long, as fast as they go."""
    rows = base.astype(np.float32)
    create(client(servers[0]), rows.shape[1])
    asked = rows[:: max(1, len(rows) // 1000)]
    cluster = len(servers) > 1
    before = uploaded(servers) if cluster else 0.0
    stop = threading.Event()
    began = time.monotonic()
    with writing(servers, rows, 0, 0.0) as writers:
        time.sleep(min(5, seconds / 10))
        readers = [Reader(servers, asked, number * 7919, None, stop) for number in range(READERS)]
        for reader in readers:
            reader.start()
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        stop.set()
        ended(readers)
    took = time.monotonic() - began
    acknowledged = [each for writer in writers for each in writer.took]
    reads = sorted(pair for reader in readers for pair in reader.took)
    window = min(300.0, seconds / 6)
    first = [each for at, each in reads if at < reads[0][0] + window]
    last = [each for at, each in reads if at > reads[-1][0] - window]
    written = sum(writer.written for writer in writers)
    changed = written + sum(writer.deleted for writer in writers)
    put = uploaded(servers) - before if cluster else 0.0
    return {
        "rows_s": changed / took,
        "ack_p50_s": percentile(acknowledged, 50),
        "ack_p99_s": percentile(acknowledged, 99),
        "reads": len(reads),
        "read_p50_s": statistics.median(each for _, each in reads),
        "read_p99_first_s": percentile(first, 99),
        "read_p99_last_s": percentile(last, 99),
        # A row as its client sends it: its vector and its key.
        "put_over_size": put / (written * (rows.shape[1] * 4 + 8)),
    }


def ingest(root: Path, base: np.ndarray, seconds: float) -> dict:
    """One server and three, in turn."""
    found = {}
    for count in (1, 3):
        with arrangement(root / str(count), count) as servers:
            found[str(count)] = written_to(servers, base, seconds)
        found[str(count)]["bytes"] = bytes_below(root / str(count))
    return {"seconds": seconds, **found}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["replicas", "ingest"])
    parser.add_argument("base", type=Path)
    parser.add_argument("rows", type=int)
    parser.add_argument("--queries", type=int, default=3000)
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--seconds", type=float, default=1800.0)
    asked = parser.parse_args()
    base = vectors(asked.base, asked.rows)
    with tempfile.TemporaryDirectory(prefix="pipeann-copies-") as made:
        if asked.what == "replicas":
            print(json.dumps(replicas(Path(made), base, asked.queries, asked.rate)))
        else:
            print(json.dumps(ingest(Path(made), base, asked.seconds)))
