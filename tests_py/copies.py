"""What servers that hold the same rows cost beside one, and how far behind they are.

Prints one line of JSON. `replicas` asks three servers of a cluster and one server the same, without
writers and beside some; `ingest` writes and reads for so many seconds, to both. Both are there at
the same time and take turns, so that neither has a quieter machine; what the one takes that rests is
told.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from answering import Answering, cores, cpu_s, rest
from clusters import Cluster, Server, free_port, until, unwind_at_end
from joins import add_metric, bytes_below, fill, vectors
from logs import StoredLog
from outages import Balancer, client
from pymilvus import DataType, MilvusClient, MilvusException

# Keys of what is looked for elsewhere, above all others.
MARKERS = itertools.count(1 << 40)
WRITERS = 2
READERS = 2
# How often what takes seconds is repeated; the middle one counts.
ROUNDS = 3
BATCH = 100


def create(of: MilvusClient, dim: int, metric: str = "l2") -> None:
    """`c`, whose keys are the numbers of its rows."""
    schema = of.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("v", DataType.FLOAT_VECTOR, dim=dim)
    index = of.prepare_index_params()
    index.add_index("v", index_type="DISKANN", metric_type=metric.upper())
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


def percentile(times: list[float], share: float) -> float:
    """Of some times; nothing of none."""
    return float(np.percentile(times, share)) if times else 0.0


@contextmanager
def arrangement(root: Path, count: int, *flags: str) -> Iterator[list[Server]]:
    """So many servers of a cluster, with these flags; one that is alone is of none."""
    if count > 1:
        cluster = Cluster(root, count)
        for server in cluster.servers:
            server.watched = free_port()
            server.flags += flags
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
    """Writers beside something: what threads take meanwhile that answer calls, and what all take
    until all rows are in the graphs of all servers, with what was put off."""

    def __init__(self, answering: Answering, rows: np.ndarray, number: int, rate: float) -> None:
        self.answering, self.servers = answering, answering.servers
        self.rows, self.rate = rows, rate
        # Keys of its own.
        self.first = len(rows) + (number + 1) * (1 << 36)
        self.cpu_s = self.answering_s = self.took_s = 0.0
        self.written = 0
        self.growing: list[float] = []

    def run(self, work: Callable[[], object]) -> None:
        before, began = cpu_s(self.servers), time.monotonic()
        answering = self.answering.total_s()
        with writing(self.servers, self.rows, self.first, self.rate) as writers:
            work()
            self.growing = [growing(server) for server in self.servers]
        self.took_s = time.monotonic() - began
        self.answering_s = self.answering.total_s() - answering
        link_all(self.servers)
        self.cpu_s = cpu_s(self.servers) - before
        self.written = sum(writer.written for writer in writers)
        rest(self.servers)


class Side:
    """One server, or several of a cluster, which are measured while the other side rests: processor
    time a query without writers and beside them, and how far behind other servers are."""

    def __init__(self, servers: list[Server], base: np.ndarray, queries: int, rate: float) -> None:
        self.servers, self.base, self.queries = servers, base, queries
        self.rows = base.astype(np.float32)
        self.asked = self.rows[:: max(1, len(base) // 1000)]
        self.answering = Answering(servers)
        loads = [Load(self.answering, self.rows, n, rate) for n in range(2 * ROUNDS + 1)]
        # Writers alone, and beside searches; and beside those who look for what was written.
        self.parts = list(zip(loads[:ROUNDS], loads[ROUNDS:], strict=False))
        self.looked_for = loads[-1]
        self.quiet: list[float] = []
        # Cores that it takes while others are measured.
        self.idle: list[float] = []
        self.lag, self.beside = Lag(), Lag()

    def begin(self) -> None:
        """Rows in graphs, which were searched."""
        fill(client(self.servers[0]), self.base)
        link_all(self.servers)
        rest(self.servers)
        self.searches(self.queries // 10)

    def searches(self, most: int) -> float:
        """Processor time for so many searches of each reader, of threads that answer calls."""
        stop = threading.Event()
        readers = [
            Reader(self.servers, self.asked, number * 7919, most, stop) for number in range(READERS)
        ]
        before = self.answering.total_s()
        for reader in readers:
            reader.start()
        ended(readers)
        assert all(len(reader.took) == most for reader in readers), "a reader ended early"
        return self.answering.total_s() - before

    def ask(self) -> None:
        """Without writers."""
        self.quiet.append(self.searches(self.queries))

    def load(self, turn: int) -> None:
        """Writers alone, then beside searches."""
        without, within = self.parts[turn]
        without.run(lambda: time.sleep(10))
        within.run(lambda: self.searches(self.queries))

    def look(self) -> None:
        """How long writes take to the others, without writers and beside them."""
        if len(self.servers) > 1:
            self.lag.sample(self.servers, self.rows[0], 100)
            self.looked_for.run(lambda: self.beside.sample(self.servers, self.rows[0], 200))

    def told(self) -> dict:
        """Of all rounds."""
        asked = self.queries * READERS
        each = [
            (within.answering_s - without.answering_s / without.written * within.written) / asked
            for without, within in self.parts
        ]
        loads = [load for load, _ in self.parts]
        within = [load for _, load in self.parts]
        return {
            "busy_us": statistics.median(each) * 1e6,
            # What is done behind the writes comes in lumps: all of it together.
            "row_us": sum(load.cpu_s for load in loads) / sum(load.written for load in loads) * 1e6,
            "rows_s": statistics.median(load.written / load.took_s for load in within),
            "growing": max(max(load.growing) for load in within),
            "quiet_us": statistics.median(self.quiet) / asked * 1e6,
            "quiet_each_us": [quiet / asked * 1e6 for quiet in self.quiet],
            "busy_each_us": [busy * 1e6 for busy in each],
            "idle_cores": max(self.idle),
            "quiet_lag_s": percentile(self.lag.behind, 99),
            "lag_s": percentile(self.beside.behind, 99),
            "lag_middle_s": percentile(self.beside.behind, 50),
            "own_asked": self.lag.own_asked + self.beside.own_asked,
            "own_seen": self.lag.own_seen + self.beside.own_seen,
        }


def in_turn(sides: tuple[Side, Side], what: Callable[[Side], None]) -> None:
    """One after the other; what the other one takes meanwhile, which rests, is kept."""
    for side, other in (sides, sides[::-1]):
        other.idle.append(cores(other.servers, lambda side=side: what(side)))


def replicas(root: Path, base: np.ndarray, metric: str, queries: int, rate: float) -> dict:
    """One server and three, which are there at the same time, in turn."""
    with arrangement(root / "1", 1) as one, arrangement(root / "3", 3) as three:
        for servers in (one, three):
            create(client(servers[0]), base.shape[1], metric)
        sides = (Side(one, base, queries, rate), Side(three, base, queries, rate))
        for side in sides:
            side.begin()
        for _ in range(ROUNDS):
            in_turn(sides, Side.ask)
        for turn in range(ROUNDS):
            in_turn(sides, lambda side, turn=turn: side.load(turn))
        for side in sides:
            side.look()
        return {"rows": len(base), "1": sides[0].told(), "3": sides[1].told()}


def uploaded(servers: list[Server]) -> float:
    """Bytes that servers put into the store up to now."""
    name = 'pipeann_store_bytes_total{operation="put"}'
    return sum(server.figures().get(name, 0.0) for server in servers)


class Ingest:
    """Writes and reads, as fast as they go, in one piece or in several with a rest between them."""

    def __init__(self, servers: list[Server], base: np.ndarray) -> None:
        self.servers, self.rows = servers, base.astype(np.float32)
        self.asked = self.rows[:: max(1, len(base) // 1000)]
        self.took_s = 0.0
        self.pieces = self.written = self.deleted = 0
        self.acknowledged: list[float] = []
        # When each began and how long it took.
        self.reads: list[tuple[float, float]] = []

    def run(self, seconds: float) -> None:
        """For so long, and then until nothing more comes of it, which is not counted."""
        stop, first = threading.Event(), self.pieces << 36
        self.pieces += 1
        began = time.monotonic()
        with writing(self.servers, self.rows, first, 0.0) as writers:
            time.sleep(min(5, seconds / 10))
            readers = [
                Reader(self.servers, self.asked, number * 7919, None, stop)
                for number in range(READERS)
            ]
            for reader in readers:
                reader.start()
            time.sleep(max(0.0, began + seconds - time.monotonic()))
            stop.set()
            ended(readers)
        self.took_s += time.monotonic() - began
        self.reads += sorted(pair for reader in readers for pair in reader.took)
        for writer in writers:
            self.acknowledged += writer.took
            self.written += writer.written
            self.deleted += writer.deleted
        rest(self.servers)

    def told(self) -> dict:
        """Of all pieces."""
        window = min(300.0, self.took_s / 6)
        begin, end = self.reads[0][0] + window, self.reads[-1][0] - window
        return {
            "rows_s": (self.written + self.deleted) / self.took_s,
            "ack_p50_s": percentile(self.acknowledged, 50),
            "ack_p99_s": percentile(self.acknowledged, 99),
            "reads": len(self.reads),
            "read_p50_s": statistics.median(took for _, took in self.reads),
            "read_p99_first_s": percentile([took for at, took in self.reads if at < begin], 99),
            "read_p99_last_s": percentile([took for at, took in self.reads if at > end], 99),
        }


def put_at_rest(servers: list[Server]) -> float:
    """Bytes that servers have put into the store when nothing more comes of what was written."""
    before = -1.0

    def rests() -> bool:
        nonlocal before
        then, before = before, uploaded(servers)
        time.sleep(5)
        return then == before

    until("a rest of the store", rests, seconds=600)
    return before


def ingest(
    root: Path, base: np.ndarray, metric: str, seconds: float, flags: list[str]
) -> dict:
    """Three servers, and one before them and after them, for half as long each."""
    with arrangement(root / "1", 1) as one, arrangement(root / "3", 3, *flags) as three:
        for servers in (one, three):
            create(client(servers[0]), base.shape[1], metric)
        alone, together = Ingest(one, base), Ingest(three, base)
        before = uploaded(three)
        resting = [cores(three, lambda: alone.run(seconds / 2))]
        idle = cores(one, lambda: together.run(seconds))
        put = put_at_rest(three) - before
        resting.append(cores(three, lambda: alone.run(seconds / 2)))
        found = {"1": alone.told(), "3": together.told()}
        found["1"]["idle_cores"], found["3"]["idle_cores"] = idle, max(resting)
    # A row as its client sends it: its vector and its key.
    sent = together.written * (base.shape[1] * 4 + 8)
    for count, told in found.items():
        told["bytes"] = bytes_below(root / count)
    found["3"] |= {
        "put_over_size": put / sent,
        "generations": len(StoredLog(root / "3" / "store").generations()),
    }
    return {"seconds": seconds, **found}


if __name__ == "__main__":
    unwind_at_end()
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["replicas", "ingest"])
    parser.add_argument("base", type=Path)
    parser.add_argument("rows", type=int)
    add_metric(parser)
    parser.add_argument("--queries", type=int, default=3000)
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--generation-after", help="of `ingest`, as servers take it")
    asked = parser.parse_args()
    base = vectors(asked.base, asked.rows)
    with tempfile.TemporaryDirectory(prefix="pipeann-copies-") as made:
        if asked.what == "replicas":
            found = replicas(Path(made), base, asked.metric, asked.queries, asked.rate)
        else:
            after = asked.generation_after
            flags = ["--generation-after", after] if after else []
            found = ingest(Path(made), base, asked.metric, asked.seconds, flags)
        print(json.dumps(found))
