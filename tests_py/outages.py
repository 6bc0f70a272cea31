"""Outages of a cluster on this machine, counted: leaders that are killed, disks that are emptied.

Prints one line of JSON. `failover` kills the leader again and again while three writers write and a
reader reads through a balancer; `fencing` stops it and lets it go on when another one leads; `steady` leaves it
alone for so many seconds while all processors are busy; `wiped` empties every disk, and then etcd.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from clusters import Cluster, Server, until
from pymilvus import DataType, MilvusClient, MilvusException


class Balancer:
    """Passes each connection on to a server that takes it, in turn, as balancers of TCP do."""

    def __init__(self, servers: list[Server]) -> None:
        self.servers = servers
        self.turn = 0
        self.passing: set[socket.socket] = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            with suppress(OSError):
                client, _ = self.listener.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _server(self) -> socket.socket | None:
        # Its own turn, since others come meanwhile: it tries each server once.
        self.turn += 1
        first = self.turn
        for turn in range(first, first + len(self.servers)):
            host, port = self.servers[turn % len(self.servers)].address.rsplit(":", 1)
            with suppress(OSError):
                return socket.create_connection((host, int(port)), timeout=1)
        return None

    def cut(self) -> None:
        """Ends all connections: whoever comes again comes to another server."""
        while self.passing:
            with suppress(OSError):
                self.passing.pop().shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _noted(self, client: socket.socket) -> Iterator[None]:
        """Keeps a connection among those that can be cut, as long as it is passed on."""
        self.passing.add(client)
        try:
            yield
        finally:
            self.passing.discard(client)

    def _pass_on(self, client: socket.socket) -> None:
        server = self._server()
        if server is None:
            client.close()
            return
        with client, server, selectors.DefaultSelector() as ready, self._noted(client):
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            with suppress(OSError):
                while True:
                    for key, _ in ready.select():
                        data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                        if not data:
                            return
                        key.data.sendall(data)


def client(server: Server) -> MilvusClient:
    return MilvusClient(uri=f"http://{server.address}")


def connected(server: Server) -> MilvusClient:
    """A client of a server that was down until now: gRPC waits longer and longer between tries."""
    made: list[MilvusClient] = []

    def answers() -> bool:
        with suppress(MilvusException):
            of = client(server)
            of.list_collections()
            made.append(of)
        return bool(made)

    until("a connection", answers)
    return made[0]


def leader(cluster: Cluster) -> Server:
    """Who put the newest object of the log, which names it."""
    objects = (Path(cluster.store.removeprefix("file://")) / "log" / "0").iterdir()
    # What is being put has another name until it is whole.
    newest = max(found for found in objects if found.name.isdigit())
    head = newest.read_bytes()[112:192]
    return next(server for server in cluster.servers if server.address.encode() in head)


def create(of: MilvusClient) -> None:
    """`c`, whose keys are given out by the server; `mark` tells what was written."""
    schema = of.create_schema(auto_id=True)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("mark", DataType.INT64)
    schema.add_field("v", DataType.FLOAT_VECTOR, dim=8)
    index = of.prepare_index_params()
    index.add_index("v", index_type="AUTOINDEX", metric_type="L2")
    of.create_collection("c", schema=schema, index_params=index)


def rows(of: MilvusClient) -> list[tuple[int, int]]:
    """Key and mark of all rows."""
    found: list[tuple[int, int]] = []
    pages = of.query_iterator(
        "c",
        filter="id >= 0",
        output_fields=["id", "mark"],
        batch_size=2000,
        consistency_level="Strong",
    )
    while page := pages.next():
        found += [(row["id"], row["mark"]) for row in page]
    pages.close()
    return found


@dataclass
class Call:
    """A write: the server that it was sent to, whether it had an id, and when."""

    server: Server
    named: bool
    began: float
    ended: float = math.inf

    def unnamed_under(self, kills: list[tuple[Server, float]]) -> bool:
        """Whether its server was killed under it and nobody can tell that it came again."""
        under = (of is self.server and self.began <= at <= self.ended for of, at in kills)
        return not self.named and any(under)


class Writer(threading.Thread):
    """Writes row after row, each by another server, and keeps what was answered. The first one of
    several gives its calls ids of its own; the others leave all to the SDK and the servers."""

    def __init__(self, cluster: Cluster, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.servers = cluster.servers
        self.named = number == 0
        self.calls: dict[int, Call] = {}
        self.clients = [client(server) for server in cluster.servers]
        self.mark = number * 10_000_000
        self.stopped = stop
        self.answered: list[tuple[int, int]] = []
        self.failed = 0

    def run(self) -> None:
        while not self.stopped.is_set():
            self.mark += 1
            row = {"mark": self.mark, "v": [float(self.mark % 97)] * 8}
            names = {"client_request_id": f"write {self.mark}"} if self.named else {}
            call = Call(self.servers[self.mark % 3], self.named, time.monotonic())
            self.calls[self.mark] = call
            try:
                made = self.clients[self.mark % 3].insert("c", [row], timeout=10, **names)
                self.answered.append((made["ids"][0], self.mark))
            except MilvusException:
                self.failed += 1
            call.ended = time.monotonic()


class Reader(threading.Thread):
    """Searches through a balancer, with no more patience than the SDK has of its own."""

    def __init__(self, uri: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.client = MilvusClient(uri=uri)
        self.stopped = stop
        self.answered = self.failed = 0
        self.said: Counter[str] = Counter()

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                self.client.search("c", [[1.0] * 8], limit=3)
                self.answered += 1
            except MilvusException as error:
                self.failed += 1
                self.said[str(error)[:200]] += 1


def failover(root: Path, kills: int) -> dict:
    """Kills the leader so often."""
    cluster = Cluster(root, 3)
    with cluster.running():
        create(client(cluster.servers[0]))
        stop = threading.Event()
        writers = [Writer(cluster, number, stop) for number in range(3)]
        reader = Reader(Balancer(cluster.servers).uri, stop)
        for thread in [*writers, reader]:
            thread.start()

        def answered() -> int:
            return sum(len(writer.answered) for writer in writers)

        again = []
        killed: list[tuple[Server, float]] = []
        for _ in range(kills):
            before = answered()
            until("writes", lambda before=before: answered() > before + 20)
            dead = leader(cluster)
            killed.append((dead, time.monotonic()))
            dead.kill()
            began, before = time.monotonic(), answered()
            # Those that were under way may still be counted.
            until("writes again", lambda before=before: answered() > before + 3)
            again.append(time.monotonic() - began)
            dead.start()
        stop.set()
        for thread in [*writers, reader]:
            thread.join()
        there = [rows(connected(server)) for server in cluster.servers]
        keys = Counter(key for key, _ in there[0])
        marks = Counter(mark for _, mark in there[0])
        given = [pair for writer in writers for pair in writer.answered]
        calls = {mark: call for writer in writers for mark, call in writer.calls.items()}
        twice = {mark: count - 1 for mark, count in marks.items() if count > 1}
        unnamed = {mark: n for mark, n in twice.items() if calls[mark].unnamed_under(killed)}
        return {
            "kills": kills,
            "answered": len(given),
            "failed_writes": sum(writer.failed for writer in writers),
            "lost": len(set(given) - set(there[0])),
            "differ": sum(sorted(each) != sorted(there[0]) for each in there),
            "keys_twice": sum(n - 1 for n in keys.values())
            + len(given)
            - len({key for key, _ in given}),
            "rows_twice": sum(twice.values()) - sum(unnamed.values()),
            "unnamed_at_killed": sum(unnamed.values()),
            "reads": reader.answered,
            "failed_reads": reader.failed,
            "said": dict(reader.said.most_common(3)),
            "again_s": sorted(again),
        }


def log_terms(cluster: Cluster) -> list[int]:
    """The terms of all objects of the log, in the order of their numbers."""
    objects = (Path(cluster.store.removeprefix("file://")) / "log" / "0").iterdir()
    numbered = sorted(
        (found for found in objects if found.name.isdigit()), key=lambda o: int(o.name)
    )
    terms = []
    for found in numbered:
        with suppress(FileNotFoundError), found.open("rb") as file:
            terms.append(int.from_bytes(file.read(56)[48:56], "little"))
    return terms


class Pusher(threading.Thread):
    """Writes at one server as fast as it answers, so that a put is under way at any time."""

    def __init__(self, server: Server, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.client = client(server)
        self.mark = number * 1_000_000
        self.stopped = stop
        self.answered: list[tuple[int, int]] = []

    def run(self) -> None:
        while not self.stopped.is_set():
            self.mark += 1
            row = {"mark": self.mark, "v": [float(self.mark % 97)] * 8}
            with suppress(MilvusException):
                made = self.client.insert("c", [row], timeout=15)
                self.answered.append((made["ids"][0], self.mark))
        self.client.close()


def fencing(root: Path, runs: int) -> dict:
    """Stops the leader under writes so often, lets it go on when another one leads, and asks it at once."""
    cluster = Cluster(root, 3)
    answered: list[tuple[int, int]] = []
    stale, refused, resumed_s = 0, 0, []
    with cluster.running():
        clients = {server.address: client(server) for server in cluster.servers}
        create(clients[cluster.servers[0].address])
        for run in range(1, runs + 1):
            old = leader(cluster)
            assert old.process is not None
            stop = threading.Event()
            pushers = [Pusher(old, 1000 * run + each, stop) for each in range(3)]
            for pusher in pushers:
                pusher.start()
            until("writes", lambda pushers=pushers: all(pusher.answered for pusher in pushers))
            old.process.send_signal(signal.SIGSTOP)
            try:
                if run % 5 == 0:
                    cluster.etcd.kill()
                    cluster.etcd.wipe()
                    cluster.etcd.start()
                until("another leader", lambda old=old: leader(cluster) is not old)
                other = next(server for server in cluster.servers if server is not old)
                mark = 1_000_000 * (1000 * run + 999)
                row = {"mark": mark, "v": [1.0] * 8}
                newest = clients[other.address].insert("c", [row], timeout=30)
                answered.append((newest["ids"][0], mark))
            finally:
                # Asked while it is stopped, it finds the question when it goes on.
                found: list[bool | None] = []
                asked = threading.Thread(target=ask, args=(old, mark, found))
                asked.start()
                time.sleep(0.05)
                old.process.send_signal(signal.SIGCONT)
            began = time.monotonic()
            asked.join()
            resumed_s.append(time.monotonic() - began)
            stale += found == [False]
            refused += found == [None]
            stop.set()
            for pusher in pushers:
                pusher.join()
                answered += pusher.answered
        there = [rows(connected(server)) for server in cluster.servers]
        terms = log_terms(cluster)
        newest_before = itertools.accumulate(terms, max)
        return {
            "runs": runs,
            "answered": len(answered),
            "terms": len(set(terms)),
            "old_records": sum(
                term < most for term, most in zip(terms, newest_before, strict=True)
            ),
            "lost": len(set(answered) - set(there[0])),
            "differ": sum(sorted(each) != sorted(there[0]) for each in there),
            "stale_reads": stale,
            "refused_reads": refused,
            "resumed_s": sorted(resumed_s),
        }


def ask(server: Server, mark: int, found: list[bool | None]) -> None:
    """Whether a server has a row that another one has answered; nothing where it does not say."""
    try:
        of = client(server)
        hits = of.query("c", filter=f"mark == {mark}", consistency_level="Strong", timeout=20)
        found.append(len(hits) == 1)
    except MilvusException:
        found.append(None)


def steady(root: Path, seconds: int) -> dict:
    """Leaves the leader alone while all processors are busy, as with a build; counts who led."""
    cluster = Cluster(root, 3)
    spin = [sys.executable, "-c", "while True: pass"]
    with cluster.running():
        create(client(cluster.servers[0]))
        before = set(log_terms(cluster))
        stop = threading.Event()
        writer = Writer(cluster, 0, stop)
        writer.start()
        busy = [subprocess.Popen(spin) for _ in range(2 * (os.cpu_count() or 1))]
        try:
            time.sleep(seconds)
        finally:
            for each in busy:
                each.kill()
                each.wait()
        stop.set()
        writer.join()
        failovers = len(set(log_terms(cluster)) - before)
    return {"seconds": seconds, "failovers": failovers, "answered": len(writer.answered)}


def wiped(root: Path, count: int) -> dict:
    """Empties all disks, and then etcd, and compares rows and answers."""
    cluster = Cluster(root, 3)
    queries = [[float(q)] * 8 for q in range(50)]

    def answers(of: MilvusClient) -> list[list[int]]:
        found = of.search("c", queries, limit=10, consistency_level="Strong")
        return [[hit["id"] for hit in hits] for hits in found]

    with cluster.running():
        first = client(cluster.servers[0])
        create(first)
        for begin in range(0, count, 1000):
            some = range(begin, min(begin + 1000, count))
            first.insert("c", [{"mark": m, "v": [m % 89, m / 7, *[1.0] * 6]} for m in some])
        wanted, near = sorted(rows(first)), answers(first)
    lost, differ = [], []
    for what in ["disks", "etcd"]:
        if what == "disks":
            for server in cluster.servers:
                server.wipe()
        else:
            cluster.etcd.wipe()
        with cluster.running():
            for server in cluster.servers:
                found = connected(server)
                lost.append(len(set(wanted) - set(rows(found))))
                same = zip(answers(found), near, strict=True)
                differ.append(sum(a != b for a, b in same))
    return {"rows": len(wanted), "lost": sum(lost), "queries": len(near), "differ": sum(differ)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["failover", "fencing", "steady", "wiped"])
    parser.add_argument("count", type=int)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeann-outages-") as made:
        outage = {"failover": failover, "fencing": fencing, "steady": steady, "wiped": wiped}
        print(json.dumps(outage[asked.what](Path(made), asked.count)))
