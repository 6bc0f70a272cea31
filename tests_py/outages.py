"""Outages of a cluster on this machine, counted: leaders that are killed, and leaders that are stopped.

Prints one line of JSON. `failover` kills the leader again and again while three writers write and a reader
reads through a balancer; `fencing` stops it and lets it go on when another one leads. Generations are
published and the log is cut meanwhile, and each object is read before that. Others write and read registers,
whose histories are looked at. With `--load` reads beside that take half of what can be read.
"""

from __future__ import annotations

import argparse
import json
import math
import selectors
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from clusters import Cluster, Server, until, unwind_at_end
from loads import FAILURES, Asking, Reads, best_rate, reading
from logs import LogWatch, StoredLog, cut_soon, leader, names
from pymilvus import DataType, MilvusClient, MilvusException
from registers import Registrar, registrars

# Clients of registers beside those that are counted, and processes that read beside, where they do.
REGISTRARS = 3
READERS = 3
# Rows that these read.
ROWS = 2000
# Of the runs of `fencing`: etcd is emptied each so many, and the log cut beyond the stopped leader.
EMPTIED, TRUNCATED = 5, 4


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
            except FAILURES:
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
            except FAILURES as error:
                self.failed += 1
                self.said[str(error)[:200]] += 1


@contextmanager
def half_load(cluster: Cluster, wanted: bool, row: Callable[[int], dict]) -> Iterator[Reads]:
    """Reads through a balancer, half of what can be read by so many processes, of rows that are put for
    that; their marks are below zero."""
    if not wanted:
        yield Reads()
        return
    first = client(cluster.servers[0])
    first.insert("c", [row(-1 - number) for number in range(ROWS)])
    first.close()
    uris = [Balancer(cluster.servers).uri] * READERS
    with reading(uris, Asking(rate=best_rate(uris, Asking()) / 2, threads=8)) as reads:
        yield reads


def marked(mark: int) -> dict:
    """A row of `c`."""
    return {"mark": mark, "v": [float(mark % 97)] * 8}


# What the store shows of the moments at which leaders are killed: while it is written only, while files of a
# generation are put, when the log was just cut, when a generation was just published.
MOMENTS: tuple[Callable[[StoredLog], object], ...] = (
    lambda _: None,
    lambda log: names(log.files),
    StoredLog.begin,
    StoredLog.generations,
)


@dataclass(frozen=True)
class Written:
    """What writers were answered, and what became of it."""

    writers: list[Writer]
    killed: list[tuple[Server, float]]

    def told(self, cluster: Cluster) -> dict:
        """Compared with the rows of all servers."""
        there = [rows(connected(server)) for server in cluster.servers]
        keys = Counter(key for key, _ in there[0])
        marks = Counter(mark for _, mark in there[0])
        given = [pair for writer in self.writers for pair in writer.answered]
        calls = {mark: call for writer in self.writers for mark, call in writer.calls.items()}
        twice = {mark: count - 1 for mark, count in marks.items() if count > 1}
        unnamed = {mark: n for mark, n in twice.items() if calls[mark].unnamed_under(self.killed)}
        return {
            "answered": len(given),
            "failed_writes": sum(writer.failed for writer in self.writers),
            "lost": len(set(given) - set(there[0])),
            "differ": sum(sorted(each) != sorted(there[0]) for each in there),
            "keys_twice": sum(n - 1 for n in keys.values())
            + len(given)
            - len({key for key, _ in given}),
            "rows_twice": sum(twice.values()) - sum(unnamed.values()),
            "unnamed_at_killed": sum(unnamed.values()),
        }


def failover(root: Path, kills: int, load: bool = False) -> dict:
    """Kills the leader so often, at moments of all kinds."""
    cluster = cut_soon(Cluster(root, 3))
    log = StoredLog.of(cluster)
    with cluster.running():
        create(client(cluster.servers[0]))
        watch, stop = LogWatch(log), threading.Event()
        writers = [Writer(cluster, number, stop) for number in range(3)]
        reader = Reader(Balancer(cluster.servers).uri, stop)
        others = registrars(cluster, REGISTRARS, stop)
        killed: list[tuple[Server, float]] = []
        watch.start()
        with half_load(cluster, load, marked) as reads:
            for thread in [*writers, reader, *others]:
                thread.start()
            again = [kill(cluster, number, writers, killed, others) for number in range(kills)]
            stop.set()
            for thread in [*writers, reader, *others]:
                thread.join()
        return {
            "kills": kills,
            **Written(writers, killed).told(cluster),
            "reads": reader.answered + len(reads.took),
            "failed_reads": reader.failed + len(reads.failed),
            "said": dict((reader.said + words(reads)).most_common(3)),
            "again_s": sorted(again),
            "log": watch.end(),
            "histories": others[0].history.told(),
        }


def kill(
    cluster: Cluster,
    number: int,
    writers: list[Writer],
    killed: list[tuple[Server, float]],
    others: list[Registrar],
) -> float:
    """Kills the leader at a moment that is this one's turn; how long it takes until writes are answered."""
    log = StoredLog.of(cluster)

    def answered() -> int:
        return sum(len(writer.answered) for writer in writers)

    before = answered()
    until("writes", lambda: answered() > before + 20)
    shown = MOMENTS[number % len(MOMENTS)]
    as_before = shown(log)
    until("something to be published", lambda: as_before is None or shown(log) != as_before)
    dead = leader(cluster)
    killed.append((dead, time.monotonic()))
    dead.kill()
    others[0].history.turn += 1
    began, left = time.monotonic(), answered()
    # Those that were under way may still be counted.
    until("writes again", lambda: answered() > left + 3)
    again = time.monotonic() - began
    dead.start()
    return again


def words(reads: Reads) -> Counter[str]:
    """What was said of those that failed."""
    return Counter(text for _, text in reads.failed)


class Pusher(threading.Thread):
    """Writes at one server as fast as it answers, so that a put is under way at any time."""

    def __init__(
        self, server: Server, number: int, stop: threading.Event, patience_s: float = 15
    ) -> None:
        super().__init__(daemon=True)
        self.client = client(server)
        self.mark = number * 1_000_000
        self.stopped, self.patience_s = stop, patience_s
        self.answered: list[tuple[int, int]] = []
        self.refused: list[str] = []

    def run(self) -> None:
        while not self.stopped.is_set():
            self.mark += 1
            try:
                made = self.client.insert("c", [marked(self.mark)], timeout=self.patience_s)
                self.answered.append((made["ids"][0], self.mark))
            except FAILURES as error:
                self.refused.append(str(error)[:200])
                # A server that opens anew is away for a moment.
                self.stopped.wait(0.05)
        self.client.close()


class Fencing:
    """Leaders that are stopped, and go on when another one leads; what came of that."""

    # As long as a leader is stopped, and then some.
    PATIENCE_S = 60.0

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.log = cluster, StoredLog.of(cluster)
        self.clients = {server.address: client(server) for server in cluster.servers}
        self.answered: list[tuple[int, int]] = []
        self.resumed_s: list[float] = []
        self.words: Counter[str] = Counter()
        self.refused_writes = self.stale = self.refused = self.truncated = 0

    def run(self, number: int) -> None:
        """Stops the leader under writes, and asks it as soon as it goes on."""
        old, stop = leader(self.cluster), threading.Event()
        pushers = [
            Pusher(old, 1000 * number + each, stop, self.PATIENCE_S) for each in range(3)
        ]
        for pusher in pushers:
            pusher.start()
        until("writes", lambda: all(pusher.answered for pusher in pushers))
        assert old.process is not None
        old.process.send_signal(signal.SIGSTOP)
        mark = 1_000_000 * (1000 * number + 999)
        found: list[bool | str] = []
        # Asked while it is stopped, it finds the question when it goes on.
        asked = threading.Thread(target=ask, args=(old, mark, found), daemon=True)
        try:
            self.lead_elsewhere(old, number, mark)
        finally:
            asked.start()
            time.sleep(0.05)
            old.process.send_signal(signal.SIGCONT)
        began = time.monotonic()
        asked.join()
        self.resumed_s.append(time.monotonic() - began)
        self.stale += found == [False]
        self.refused += isinstance(found[0], str)
        stop.set()
        for pusher in pushers:
            pusher.join()
            self.answered += pusher.answered
            self.refused_writes += len(pusher.refused)
            self.words.update(pusher.refused)
        self.words.update(each for each in found if isinstance(each, str))
        # Where the log was cut beyond it, it opens anew.
        connected(old).close()

    def lead_elsewhere(self, old: Server, number: int, mark: int) -> None:
        """Waits for another leader, which writes a row of this mark, in some runs with etcd emptied, and in
        some until the log is cut beyond all that the stopped one knows."""
        if number % EMPTIED == 0:
            self.cluster.etcd.kill()
            self.cluster.etcd.wipe()
            self.cluster.etcd.start()
        until("another leader", lambda: leader(self.cluster) is not old)
        newest = self.log.newest().number
        other = next(server for server in self.cluster.servers if server is not old)
        if number % TRUNCATED == 0:
            marks = iter(range(mark - 1_000_000, mark))

            def cut() -> bool:
                self.insert(other, [next(marks) for _ in range(5)])
                return self.log.begin() > newest

            until("a cut beyond a stopped leader", cut)
            self.truncated += 1
        self.insert(other, [mark])

    def insert(self, server: Server, marks: list[int]) -> None:
        made = self.clients[server.address].insert("c", list(map(marked, marks)), timeout=30)
        self.answered += zip(made["ids"], marks, strict=True)


def fencing(root: Path, runs: int, load: bool = False) -> dict:
    """Stops the leader under writes so often, lets it go on when another one leads, and asks it at once."""
    cluster = cut_soon(Cluster(root, 3))
    with cluster.running():
        create(client(cluster.servers[0]))
        watch, stop = LogWatch(StoredLog.of(cluster)), threading.Event()
        fenced, others = Fencing(cluster), registrars(cluster, REGISTRARS, stop)
        watch.start()
        with half_load(cluster, load, marked) as reads:
            for other in others:
                other.start()
            for number in range(1, runs + 1):
                fenced.run(number)
                others[0].history.turn += 1
        stop.set()
        for other in others:
            other.join()
        there = [rows(connected(server)) for server in cluster.servers]
        log = watch.end()
        return {
            "runs": runs,
            "answered": len(fenced.answered),
            "terms": log["terms"],
            "old_records": log["old_records"],
            "lost": len(set(fenced.answered) - set(there[0])),
            "differ": sum(sorted(each) != sorted(there[0]) for each in there),
            "stale_reads": fenced.stale,
            "refused_reads": fenced.refused,
            "refused_writes": fenced.refused_writes,
            "words": dict(fenced.words.most_common(3)),
            "truncated": fenced.truncated,
            "resumed_s": sorted(fenced.resumed_s),
            "log": log,
            "histories": others[0].history.told(),
            "load_reads": len(reads.took),
            "load_failed": len(reads.failed),
            "load_words": dict(words(reads).most_common(3)),
        }


def ask(server: Server, mark: int, found: list[bool | str]) -> None:
    """Whether a server has a row that another one has answered; what it says where it does not answer."""
    try:
        of = client(server)
        hits = of.query("c", filter=f"mark == {mark}", consistency_level="Strong", timeout=20)
        found.append(len(hits) == 1)
    except FAILURES as error:
        found.append(str(error)[:200])


if __name__ == "__main__":
    unwind_at_end()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["failover", "fencing"])
    parser.add_argument("count", type=int)
    parser.add_argument("--load", action="store_true", help="with reads beside")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeann-outages-") as made:
        outage = {"failover": failover, "fencing": fencing}[asked.what]
        print(json.dumps(outage(Path(made), asked.count, asked.load)))
