"""Looking after a cluster on this machine, counted: moments restored, versions exchanged, rest.

Prints one line of JSON. `restore` writes by three servers, kills leaders, and compares random
moments with what was written when; `upgrade` exchanges servers for those of another version and
back, one after the other, under load; `cost` loads collections and counts what servers ask of
store and etcd while nobody asks them, and while writers do.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path

from clusters import Cluster, Server, binary, free_port, running, until, unwind_at_end
from loads import FAILURES
from logs import StoredLog, cut_soon
from outages import Balancer, Reader, client, connected, half_load, leader
from pymilvus import DataType, MilvusClient, MilvusException

# When a change began and ended, by the clock of this machine; its key, and the mark that it has
# then, or none where it is deleted.
Change = tuple[float, float, int, int | None]


def create(of: MilvusClient, name: str = "c") -> None:
    """Rows with a key of the writer's own, and a mark."""
    schema = of.create_schema()
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("mark", DataType.INT64)
    schema.add_field("v", DataType.FLOAT_VECTOR, dim=8)
    index = of.prepare_index_params()
    index.add_index("v", index_type="AUTOINDEX", metric_type="L2")
    of.create_collection(name, schema=schema, index_params=index)


def marks(of: MilvusClient) -> dict[int, int]:
    """The mark of each key."""
    found: dict[int, int] = {}
    fields = ["id", "mark"]
    pages = of.query_iterator(
        "c", filter="id >= 0", output_fields=fields, batch_size=2000, consistency_level="Strong"
    )
    while page := pages.next():
        found |= {row["id"]: row["mark"] for row in page}
    pages.close()
    return found


class Historian(threading.Thread):
    """Puts and deletes rows of its own keys, and keeps when."""

    KEYS = 200

    def __init__(self, cluster: Cluster, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.clients = [client(server) for server in cluster.servers]
        self.first = number * 1000
        self.chance = random.Random(number)
        self.stopped = stop
        self.changes: list[Change] = []
        self.failed = 0

    def run(self) -> None:
        mark = 0
        while not self.stopped.is_set():
            mark += 1
            key = self.first + self.chance.randrange(self.KEYS)
            is_put = self.chance.random() < 0.7
            of = self.clients[mark % len(self.clients)]
            began, ended = time.time(), float("inf")
            try:
                if is_put:
                    of.upsert(
                        "c", [{"id": key, "mark": mark, "v": [float(key % 97)] * 8}], timeout=10
                    )
                else:
                    of.delete("c", ids=[key], timeout=10)
                ended = time.time()
            except MilvusException:
                # It may come about at any time from now on, or never.
                self.failed += 1
            self.changes.append((began, ended, key, mark if is_put else None))


def possible(changes: list[Change], at: float) -> dict[int, set[int | None]]:
    """Marks that each key may have at a moment: that of its last change that had ended, those
    under way, and those of changes before of which nobody knows what became of them."""
    found: dict[int, set[int | None]] = {}
    lost: dict[int, set[int | None]] = {}
    for began, ended, key, mark in changes:
        if ended < at:
            found[key] = {mark} | lost.get(key, set())
        elif began <= at:
            found.setdefault(key, {None}).add(mark)
            if ended == float("inf"):
                lost.setdefault(key, set()).add(mark)
    return found


# Of what is kept of the log, so much may pass until a restore has begun.
BEGINS_S = 5.0


def restore(root: Path, moments: int, kept_s: float) -> dict:
    """Compares so many moments of the last seconds, for which the log is kept, with what was written when."""
    cluster = cut_soon(Cluster(root, 3), "--keep-log", f"{kept_s:.0f}s")
    log = StoredLog.of(cluster)
    with cluster.running():
        create(client(cluster.servers[0]))
        began = time.time()
        stop = threading.Event()
        writers = [Historian(cluster, number, stop) for number in range(3)]
        for writer in writers:
            writer.start()

        def done() -> int:
            return sum(len(writer.changes) for writer in writers)

        until("changes", lambda: done() > 100)
        # A moment that is to be cut, and the last object of the log then.
        early, last_early = time.time(), log.numbers()[-1]
        for _ in range(2):
            before = done()
            until("changes", lambda before=before: done() > before + 100 * moments)
            dead = leader(cluster)
            dead.kill()
            before = done()
            until("changes again", lambda before=before: done() > before + 100)
            dead.start()
        until("a cut of the log", lambda: log.begin() > last_early + 1, seconds=2 * kept_s + 60)
        chance, ended = random.Random(1), None
        failed: list[str] = []
        # The first half while writers go on.
        for number in range(moments - 1):
            if number == moments // 2:
                stop.set()
                for writer in writers:
                    writer.join()
                ended = time.time()
            last = ended or time.time()
            moment = chance.uniform(max(began + 1, last - kept_s + BEGINS_S), last - 0.1)
            failed += check(cluster, root / f"made-{number}", moment, writers)
        # And all that there is.
        failed += check(cluster, root / "made-now", time.time() - 0.01, writers)
        return {
            "moments": moments,
            "changes": done(),
            "unknown": sum(writer.failed for writer in writers),
            "rows": len(marks(connected(cluster.servers[0]))),
            "generations": len(log.generations()),
            "begin": log.begin(),
            "early_refused": is_refused(cluster, root / "made-early", early),
            "wrong": len(failed),
            "said": failed[:5],
        }


def text_of(moment: float) -> str:
    """A moment as people write it."""
    return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="milliseconds")


def is_refused(cluster: Cluster, made: Path, moment: float) -> bool:
    """Whether a moment is one that the store does not cover, and nothing is made."""
    ran = cluster.command("restore", "--at", text_of(moment), "--to", str(made))
    return ran.returncode != 0 and "does not cover" in ran.stderr and not made.exists()


def check(cluster: Cluster, made: Path, moment: float, writers: list[Historian]) -> list[str]:
    """Keys that a moment has otherwise than they were written."""
    text = text_of(moment)
    # A whole millisecond belongs to the moment.
    least = datetime.fromisoformat(text).timestamp()
    ran = cluster.command("restore", "--at", text, "--to", str(made), "--json")
    if ran.returncode != 0:
        return [ran.stderr.strip()]
    alone = Server(made, "")
    alone.flags = []
    with running(alone):
        found = marks(client(alone))
    wrong = []
    for writer in writers:
        changes = list(writer.changes)
        before, after = possible(changes, least), possible(changes, least + 0.001)
        for key in range(writer.first, writer.first + writer.KEYS):
            may = before.get(key, {None}) | after.get(key, {None})
            if found.get(key) not in may:
                wrong.append(f"{text}: {key} has {found.get(key)}, not one of {may}")
    return wrong


def row(key: int) -> dict:
    """A row of `c`."""
    return {"id": key, "mark": 0, "v": [float(key % 97)] * 8}


class BalancedWriter(threading.Thread):
    """Writes rows through a balancer, with the SDK's own patience."""

    def __init__(self, uri: str, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.client = MilvusClient(uri=uri)
        self.key = number * 10_000_000
        self.stopped = stop
        self.answered: list[int] = []
        self.said: list[str] = []

    def run(self) -> None:
        while not self.stopped.is_set():
            self.key += 1
            try:
                self.client.insert("c", [row(self.key)])
                self.answered.append(self.key)
            except MilvusException as error:
                self.said.append(str(error)[:200])


def upgrade(root: Path, before: Path, rounds: int, load: bool = False) -> dict:
    """Exchanges all servers for those of another command and back, so often."""
    cluster = Cluster(root, 3)
    for server in cluster.servers:
        server.program = before
    with cluster.running():
        create(client(cluster.servers[0]))
        stop = threading.Event()
        uri = Balancer(cluster.servers).uri
        writers = [BalancedWriter(uri, number, stop) for number in range(2)]
        reader = Reader(uri, stop)

        def goes_on() -> None:
            written = sum(len(writer.answered) for writer in writers)
            read = reader.answered
            until(
                "answers",
                lambda: (
                    sum(len(w.answered) for w in writers) > written + 20
                    and reader.answered > read + 20
                ),
            )

        with half_load(cluster, load, row) as reads:
            for thread in [*writers, reader]:
                thread.start()
            goes_on()
            exchanged, codes = 0, []
            for program in [binary(), before] * rounds:
                # The leader last, so that it changes as seldom as it can.
                leads = leader(cluster)
                order = [s for s in cluster.servers if s is not leads] + [leads]
                for server in order:
                    codes.append(server.stop())
                    server.program = program
                    server.start()
                    exchanged += 1
                    goes_on()
            stop.set()
            for thread in [*writers, reader]:
                thread.join()
        there = [set(marks(connected(server))) for server in cluster.servers]
        answered = {key for writer in writers for key in writer.answered}
        said = [text for writer in writers for text in writer.said]
        said += [*reader.said, *(text for _, text in reads.failed)]
        return {
            "exchanged": exchanged,
            "codes": sum(code != 0 for code in codes),
            "writes": len(answered),
            "reads": reader.answered + len(reads.took),
            "failed_writes": sum(len(writer.said) for writer in writers),
            "failed_reads": reader.failed + len(reads.failed),
            "lost": sum(len(answered - each) for each in there),
            "differ": sum(each != there[0] for each in there),
            "said": said[:5],
        }


def bucket(stack: ExitStack) -> str:
    """A bucket of S3 as moto speaks it; what it is reached by goes to the environment."""
    port = free_port()
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=quiet, stderr=quiet)
    stack.callback(server.wait)
    stack.callback(server.kill)
    url = f"http://127.0.0.1:{port}"

    def made() -> bool:
        try:
            make = urllib.request.Request(f"{url}/bucket", method="PUT")
            make.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=x/1/us-east-1/s3/aws4")
            urllib.request.urlopen(make, timeout=5).close()
        except OSError:
            return False
        return True

    until("S3", made)
    os.environ |= {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    return "s3://bucket/cost"


def asked(cluster: Cluster) -> dict[str, float]:
    """What all servers have asked for so far."""
    sums: dict[str, float] = {}
    for server in cluster.servers:
        for name, value in server.figures().items():
            if name.startswith(("pipeann_store_requests", "pipeann_etcd_writes", "pipeann_lease")):
                short = name.replace("pipeann_", "").replace("_total", "")
                sums[short] = sums.get(short, 0) + value
    return sums


def rates(cluster: Cluster, seconds: float) -> dict[str, float]:
    """The same a second, over some time."""
    before, began = asked(cluster), time.monotonic()
    time.sleep(seconds)
    after, took = asked(cluster), time.monotonic() - began
    return {name: (after[name] - before[name]) / took for name in after}


def cost(root: Path, collections: int, seconds: float, store: str) -> dict:
    """What so many loaded collections cost at rest, and what writers cost."""
    with ExitStack() as stack:
        cluster = Cluster(root, 3)
        if store == "s3":
            cluster.store = bucket(stack)
            for server in cluster.servers:
                server.flags[server.flags.index("--store") + 1] = cluster.store
        for server in cluster.servers:
            server.watched = free_port()
        stack.enter_context(cluster.running())
        of = client(cluster.servers[0])
        for number in range(collections):
            of.create_collection(f"c{number}", dimension=8)
        of.insert("c0", [{"id": 1, "vector": [1.0] * 8}])
        # Graphs, and whatever else follows what was made.
        time.sleep(min(10.0, seconds))
        idle = rates(cluster, seconds)
        requests = sum(rate for name, rate in idle.items() if name.startswith("store_requests"))
        lone = lone_writes(cluster, of)
        busy = busy_writers(cluster, min(20.0, seconds))
        return {
            "store": store,
            "collections": collections,
            "seconds": seconds,
            "idle_store_requests_s": requests,
            "idle_store": {name: rate for name, rate in idle.items() if "store" in name},
            "idle_etcd_writes_s": idle["etcd_writes"],
            "idle_renewals_s": idle["lease_renewals"],
            **busy,
            **lone,
        }


def commits(cluster: Cluster) -> tuple[float, float]:
    """How many objects of the log all servers have put so far, and how long that took."""
    figures = [server.figures() for server in cluster.servers]
    name = "pipeann_cluster_commit_seconds"
    count, took = (sum(f.get(f"{name}_{of}", 0.0) for f in figures) for of in ("count", "sum"))
    return count, took


def put_s(before: tuple[float, float], after: tuple[float, float]) -> float:
    """How long an object took on average that was put in between; nothing where none was."""
    objects = after[0] - before[0]
    return (after[1] - before[1]) / objects if objects else 0.0


class BusyWriter(threading.Thread):
    """Writes a row of its own as soon as the one before is answered; an error ends it."""

    def __init__(self, of: MilvusClient, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.client, self.stopped = of, stop
        self.key = 1_000_000 * (number + 1)
        self.answered: list[float] = []
        self.said: str | None = None

    def run(self) -> None:
        while not self.stopped.is_set():
            self.key += 1
            try:
                self.client.insert("c0", [{"id": self.key, "vector": [1.0] * 8}])
                self.answered.append(time.monotonic())
            except FAILURES as error:
                self.said = repr(error)[:200]
                return


def busy_writers(cluster: Cluster, seconds: float, count: int = 16) -> dict:
    """Puts of as many writers as share objects, and how many of them were answered throughout."""
    stop = threading.Event()
    writers = [BusyWriter(client(cluster.servers[n % 3]), n, stop) for n in range(count)]
    for writer in writers:
        writer.start()
    until("writes", lambda: all(writer.answered or writer.said for writer in writers))
    before, began = commits(cluster), time.monotonic()
    found = rates(cluster, seconds)
    ended, after = time.monotonic(), commits(cluster)
    stop.set()
    for writer in writers:
        writer.join()
    rows = [sum(began <= at < ended for at in writer.answered) for writer in writers]
    failed = [writer.said for writer in writers if writer.said]
    going = [writer.said is None and n > 0 for writer, n in zip(writers, rows, strict=True)]
    return {
        "busy_puts_s": found['store_requests{operation="put"}'],
        "busy_rows_s": sum(rows) / (ended - began),
        "busy_put_s": put_s(before, after),
        "writers": count,
        "writers_going": sum(going),
        "said": sorted(set(failed))[:3],
    }


def lone_writes(cluster: Cluster, of: MilvusClient, count: int = 20) -> dict[str, float]:
    """Writes that come after a rest, and what each takes beside its own put."""
    took, puts, objects = [], [], []
    for key in range(count):
        time.sleep(0.3)
        before, began = commits(cluster), time.monotonic()
        of.insert("c0", [{"id": 100 + key, "vector": [1.0] * 8}])
        took.append(time.monotonic() - began)
        after = commits(cluster)
        objects.append(after[0] - before[0])
        # One put each: whoever has waited for another one has more beside its own.
        puts.append(put_s(before, after))
    beside = [write - put for write, put in zip(took, puts, strict=True)]
    return {
        "lone_write_s": statistics.median(took),
        "lone_put_s": statistics.median(puts),
        "lone_beside_put_s": statistics.median(beside),
        "lone_beside_put_worst_s": max(beside),
        "lone_objects": sum(objects) / count,
    }


if __name__ == "__main__":
    unwind_at_end()
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["restore", "upgrade", "cost"])
    parser.add_argument("count", type=int)
    parser.add_argument("--before", type=Path, help="the command of the version before")
    parser.add_argument("--load", action="store_true", help="of `upgrade`, with reads beside")
    parser.add_argument("--kept", type=float, default=60.0, help="seconds of the log that are kept")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--store", choices=["directory", "s3"], default="s3")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeann-upkeep-") as made:
        where = Path(made)
        if given.what == "restore":
            found = restore(where, given.count, given.kept)
        elif given.what == "upgrade":
            found = upgrade(where, given.before, given.count, given.load)
        else:
            found = cost(where, given.count, given.seconds, given.store)
        print(json.dumps(found))
