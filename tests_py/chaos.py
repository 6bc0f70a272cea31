"""What becomes of reads and writes while something fails under load, counted, on this machine.

Prints one line of JSON. `follower` kills servers that do not lead; `etcd` kills two of its three members;
`overload` asks for three times as much as can be answered; `slow` reads from devices of which one
is ten times as slow as the others. All reads come through a balancer, with the SDK's own patience
where nothing else is said.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from clusters import Cluster, Server, free_port, until, unwind_at_end
from copies import create as create_by_key
from copies import link_all, percentile
from etcds import Etcds, with_members
from joins import fill
from loads import FAILURES, Asking, Reads, best_rate, reading
from outages import Balancer, client, connected, create
from pymilvus import MilvusClient

# Processes that read; each has one connection.
READERS = 3
ROWS = 2000
# What is said of a change that nobody can make now.
NAMED = "no server leads|does not lead|leads no more|the store does not answer"
# Reads that were sent to a second server too.
HEDGED = "pipeann_hedged_reads_total"
# Of a call, where more is asked than can be answered.
VECTORS = 400


@contextmanager
def watched(
    root: Path, count: int = 3, *flags: str, of_members: bool = False
) -> Iterator[Cluster]:
    """Servers that tell their figures; their etcd has one member, or three."""
    cluster = Cluster(root, count)
    for server in cluster.servers:
        server.watched = free_port()
        server.flags += flags
    if of_members:
        with_members(cluster)
    with cluster.running():
        yield cluster


def marked(of: MilvusClient, count: int = ROWS) -> None:
    """Makes `c` and so many rows."""
    create(of)
    for begin in range(0, count, 1000):
        of.insert("c", [{"mark": m, "v": [m % 97.0] * 8} for m in range(begin, begin + 1000)])


def leads(cluster: Cluster) -> Server | None:
    """Who says that it leads; nobody where none does, or more than one."""
    say = [s for s in cluster.servers if s.process and s.figures()["pipeann_cluster_leads"] == 1]
    return say[0] if len(say) == 1 else None


def balanced(cluster: Cluster) -> list[str]:
    """An address for each process that reads."""
    return [Balancer(cluster.servers).uri] * READERS


def direct(cluster: Cluster) -> list[str]:
    """A server for each process that reads."""
    return [f"http://{server.address}" for server in cluster.servers]


def summed(cluster: Cluster, name: str) -> float:
    """A figure of all servers together, over its labels."""
    figures = (server.figures().items() for server in cluster.servers)
    named = re.compile(rf"{name}(\{{|\}}|$)")
    return sum(value for each in figures for key, value in each if named.match(key))


def said(reads: Reads) -> dict[str, int]:
    """What was said most where reads failed."""
    return dict(Counter(text for _, text in reads.failed).most_common(3))


def follower(root: Path, rounds: int) -> dict:
    """Kills a server that does not lead, so often, at half of the load: under its own clients, who
    come by a balancer, and beside those of the others."""
    calm, at_once, later, own, failed = Reads(), Reads(), Reads(), Reads(), Reads()
    each_time = []
    with watched(root) as cluster:
        marked(client(cluster.servers[0]))
        rate = best_rate(direct(cluster), Asking()) / 2
        for turn in range(rounds):
            led = leads(cluster)
            followers = [server for server in cluster.servers if server is not led]
            dead = followers[turn % len(followers)]
            others = [server for server in cluster.servers if server is not dead]
            uris = [f"http://{server.address}" for server in others]
            # Its first connection is to the second one.
            under = [Balancer([others[0], dead, others[1]]).uri]
            with (
                reading(uris, Asking(rate=rate * 2 / 3, threads=8)) as beside,
                reading(under, Asking(rate=rate / 3, threads=8)) as its,
            ):
                # Until then clients begin, and the server that was killed before catches up.
                began = time.monotonic() + 3
                time.sleep(8)
                killed = time.monotonic()
                dead.kill()
                time.sleep(6)
            for kept, begin, end in [
                (calm, began, killed),
                (at_once, killed, killed + 2),
                (later, killed + 2, killed + 6),
            ]:
                kept.took += [pair for pair in beside.took if begin <= pair[0] < end]
            each_time.append(len(beside.between(killed, killed + 2)))
            own.took += [pair for pair in its.took if killed - 0.5 <= pair[0] < killed + 2]
            failed.failed += beside.failed + its.failed
            dead.start()
            connected(dead)
    return {
        "rounds": rounds,
        "rate": rate,
        "reads": len(calm.took) + len(at_once.took) + len(later.took),
        # Within two seconds of a kill, where these were fewest.
        "reads_at_once": min(each_time),
        "failed": len(failed.failed),
        "said": said(failed),
        "calm_p99_s": percentile(calm.between(0), 99),
        "at_once_p99_s": percentile(at_once.between(0), 99),
        "later_p99_s": percentile(later.between(0), 99),
        "own_p99_s": percentile(own.between(0), 99),
        "own_worst_s": max(own.between(0)),
    }


class Changes(threading.Thread):
    """Makes the same kind of change by one server again and again, with no more patience than told,
    and keeps when each was made or refused, and in what words."""

    def __init__(self, of: MilvusClient, kind: str, pause_s: float, patience_s: float) -> None:
        super().__init__(daemon=True)
        self.of, self.kind, self.pause_s, self.patience_s = of, kind, pause_s, patience_s
        self.stopped = threading.Event()
        self.made: list[tuple[float, int]] = []
        self.refused: list[tuple[float, str]] = []

    def run(self) -> None:
        number = 1_000_000
        while not self.stopped.wait(self.pause_s):
            number += 1
            try:
                self.change(number)
                self.made.append((time.monotonic(), number))
            except FAILURES as error:
                self.refused.append((time.monotonic(), str(error)[:300]))

    def change(self, number: int) -> None:
        if self.kind == "rows":
            self.of.insert("c", [{"mark": number, "v": [1.0] * 8}], timeout=self.patience_s)
        else:
            self.of.create_database(f"d{number}", timeout=self.patience_s)

    def ended(self) -> None:
        self.stopped.set()
        self.join()


def etcd(root: Path, seconds: int) -> dict:
    """Takes the majority of etcd away for so long. After a lease nobody leads for certain."""
    with watched(root, of_members=True) as cluster:
        members = cluster.etcd
        assert isinstance(members, Etcds)
        first = client(cluster.servers[0])
        marked(first)
        uris = balanced(cluster)
        rate = best_rate(uris, Asking()) / 2
        rows = Changes(client(cluster.servers[1]), "rows", 0.1, 2)
        names = Changes(client(cluster.servers[2]), "databases", 0.5, 2)
        level = Asking(rate=rate / 2, threads=8)
        exact = Asking(rate=rate / 2, threads=8, level="Eventually")
        with reading(uris, level) as bounded, reading(uris, exact) as eventually:
            rows.start()
            names.start()
            until("writes", lambda: len(rows.made) > 5 and bool(names.made))
            # The one that is left renews leases until it has noticed that it is alone.
            members.lose_majority()
            gone = time.monotonic()
            time.sleep(seconds)
            members.start()
            back = time.monotonic()
            until("writes again", lambda: rows.made[-1][0] > back)
            again_s = rows.made[-1][0] - back
            until("names again", lambda: names.made[-1][0] > back)
        rows.ended()
        names.ended()
        left = [made - gone for made, _ in rows.made if gone < made < back]
        named = [made - gone for made, _ in names.made if gone < made < back]
        # What began while the lease ran is refused a little after it.
        refused = [text for at, text in rows.refused + names.refused if gone < at < back]
        marks = {
            row["mark"]
            for row in connected(cluster.servers[0]).query(
                "c", filter="mark > 1000000", output_fields=["mark"], consistency_level="Strong"
            )
        }
        return {
            "seconds": seconds,
            "rate": rate,
            "reads": len(bounded.took) + len(eventually.took),
            "failed_reads": len(bounded.failed) + len(eventually.failed),
            "said": said(Reads(failed=bounded.failed + eventually.failed)),
            "writes_meanwhile": len(left),
            "writes_until_s": max(left, default=0.0),
            "names_until_s": max(named, default=0.0),
            "refused_writes": sum(gone < at < back for at, _ in rows.refused),
            "refused_names": sum(gone < at < back for at, _ in names.refused),
            "unnamed": sum(not re.search(NAMED, text) for text in refused),
            "words": dict(Counter(refused).most_common(3)),
            "lost": len({mark for _, mark in rows.made} - marks),
            "again_s": again_s,
        }


class Memory(threading.Thread):
    """Looks at the anonymous memory of servers, and keeps the most that one had."""

    def __init__(self, servers: list[Server]) -> None:
        super().__init__(daemon=True)
        self.processes = [server.process.pid for server in servers if server.process]
        self.stopped, self.most = threading.Event(), 0

    def run(self) -> None:
        while not self.stopped.wait(0.05):
            for process in self.processes:
                text = Path(f"/proc/{process}/status").read_text()
                anonymous = re.search(r"RssAnon:\s+(\d+) kB", text)
                self.most = max(self.most, int(anonymous[1]) * 1024 if anonymous else 0)


def vectors(count: int, dim: int) -> np.ndarray:
    """Rows around some centres."""
    chance = np.random.default_rng(1)
    centres = chance.uniform(0, 97, (100, dim))
    return centres[chance.integers(0, 100, count)] + chance.normal(0, 6, (count, dim))


def in_graphs(cluster: Cluster, base: np.ndarray) -> None:
    """Makes `c` of these rows, and waits until they are in a graph."""
    first = client(cluster.servers[0])
    create_by_key(first, base.shape[1])
    fill(first, base)
    link_all(cluster.servers)
    for server in cluster.servers:
        found = client(server).query(
            "c", filter="", output_fields=["count(*)"], consistency_level="Strong"
        )
        assert found[0]["count(*)"] == len(base)


def overload(root: Path, seconds: int) -> dict:
    """Asks for three times as much as can be answered; what is answered within a second counts."""
    limit, within_s = 256 << 20, 1.0
    with watched(root, 3, "--memory-limit", f"{limit >> 20}MiB") as cluster:
        in_graphs(cluster, vectors(20_000, 32))
        uris = direct(cluster)
        # Many vectors a call, so that servers are what is busy, and not those who ask: with 100
        # these take a fifth of two processors at three times the load, with 400 a twelfth.
        asking = {"dim": 32, "vectors": VECTORS, "timeout": within_s, "bare": 1}
        best = best_rate(uris, Asking(**asking), 8.0)
        memory = Memory(cluster.servers)
        memory.start()
        # As many threads as have calls under way where each is answered at the last moment.
        threads = int(3 * best * within_s / len(uris) * 1.2) + 1
        with reading(uris, Asking(**asking, rate=3 * best, threads=threads)) as reads:
            began = time.monotonic() + 2
            time.sleep(seconds + 2)
            ended = time.monotonic()
        memory.stopped.set()
        memory.join()
    good = [due for due, took in reads.took if began <= due + took < ended and took <= within_s]
    return {
        "best": best,
        "vectors": VECTORS,
        "asked": sum(began <= due < ended for due, _ in reads.took + reads.failed)
        / (ended - began),
        "goodput": len(good) / (ended - began),
        "failed": len(reads.failed),
        "said": said(reads),
        "memory": memory.most,
        "limit": limit,
    }


def slow(root: Path, seconds: int) -> dict:
    """Three servers on devices of the same speed, then one on a device ten times as slow: reads at
    half of what the former can answer."""
    usual_us = 500
    found: dict[str, dict] = {}
    with watched(root, 3, "--backend", f"injected:{usual_us}") as cluster:
        in_graphs(cluster, vectors(20_000, 32))
        uris = direct(cluster)
        asking = {"dim": 32, "level": "Eventually"}
        rate = best_rate(uris, Asking(**asking)) / 2
        for what in ["usual", "one"]:
            if what == "one":
                late = next(server for server in cluster.servers if server is not leads(cluster))
                late.stop()
                late.flags[late.flags.index("--backend") + 1] = f"injected:{10 * usual_us}"
                late.start()
                connected(late)
            # So that servers know how long reads take.
            with reading(uris, Asking(**asking, rate=rate, threads=16)):
                time.sleep(max(4, seconds / 2))
            hedges = summed(cluster, HEDGED)
            with reading(uris, Asking(**asking, rate=rate, threads=16)) as reads:
                began = time.monotonic()
                time.sleep(seconds)
            times = reads.between(began)
            found[what] = {
                "reads": len(times),
                "failed": len(reads.failed),
                "said": said(reads),
                "p50_s": percentile(times, 50),
                "p99_s": percentile(times, 99),
                # Servers that tell of none do not hedge.
                "hedging": sum(HEDGED in "".join(each.figures()) for each in cluster.servers),
                "hedges": summed(cluster, HEDGED) - hedges,
            }
    return found | {"rate": rate}


KINDS = {"follower": follower, "etcd": etcd, "overload": overload, "slow": slow}

if __name__ == "__main__":
    unwind_at_end()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=KINDS)
    parser.add_argument("count", type=int, help="rounds, or seconds")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeann-chaos-") as made:
        print(json.dumps(KINDS[asked.what](Path(made), asked.count)))
