"""A cluster on this machine that loses what is not in its store, counted: every disk, etcd, and both.

Prints one line of JSON. The log was cut by then, so that rows come back by files of the store and what stands
in the log behind them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clusters import Cluster, Server, free_port, until, unwind_at_end
from logs import StoredLog, cut_soon
from outages import client, connected, create, rows
from pymilvus import MilvusClient

QUERIES = [[float(q)] * 8 for q in range(50)]
ROWS_AT_ONCE = 1000
# So many generations at least are published before anything is emptied: a thousand rows are 70 kB of log.
AFTER = "256KiB"


def answers(of: MilvusClient) -> list[list[int]]:
    """The nearest rows of all queries."""
    found = of.search("c", QUERIES, limit=10, consistency_level="Strong")
    return [[hit["id"] for hit in hits] for hits in found]


def row(mark: int) -> dict:
    return {"mark": mark, "v": [mark % 89, mark / 7, *[1.0] * 6]}


def by_itself(server: Server) -> MilvusClient:
    """A client of a server that has all data; until then others answer its calls."""

    def is_ready() -> bool:
        with suppress(urllib.error.URLError, ConnectionError):
            return server.tells("/readyz").strip() == "OK"
        return False

    until("all data", is_ready, seconds=600)
    return connected(server)


@contextmanager
def without(cluster: Cluster, what: str) -> Iterator[None]:
    """The cluster runs again, and has lost that."""
    if what in ("disks", "both"):
        for server in cluster.servers:
            server.wipe()
    if what in ("etcd", "both"):
        cluster.etcd.wipe()
    with cluster.running():
        yield


def wiped(root: Path, count: int) -> dict:
    """Empties all disks, then etcd, then both, and compares rows and answers."""
    cluster = cut_soon(Cluster(root, 3), after=AFTER)
    log = StoredLog.of(cluster)
    for server in cluster.servers:
        server.watched = free_port()
    with cluster.running():
        first = client(cluster.servers[0])
        create(first)
        for begin in range(0, count, ROWS_AT_ONCE):
            some = range(begin, min(begin + ROWS_AT_ONCE, count))
            first.insert("c", [row(mark) for mark in some])
        more = iter(range(count, 10 * count, 100))

        def cut() -> bool:
            begin = next(more)
            first.insert("c", [row(mark) for mark in range(begin, begin + 100)])
            return log.begin() > 1

        # And rows that stand in no generation.
        until("a cut of the log", cut, seconds=120)
        wanted, near = sorted(rows(first)), answers(first)
    begins, lost, differ = [], [], []
    for what in ["disks", "etcd", "both"]:
        begins.append(log.begin())
        with without(cluster, what):
            for server in cluster.servers:
                found = by_itself(server)
                lost.append(len(set(wanted) ^ set(rows(found))))
                same = zip(answers(found), near, strict=True)
                differ.append(sum(a != b for a, b in same))
                found.close()
    return {
        "rows": len(wanted),
        # What a server without a disk could not have from the log.
        "begins": begins,
        "generations": len(log.generations()),
        "lost": sum(lost),
        "queries": len(near),
        "differ": sum(differ),
    }


if __name__ == "__main__":
    unwind_at_end()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeann-emptied-") as made:
        print(json.dumps(wiped(Path(made), asked.rows)))
