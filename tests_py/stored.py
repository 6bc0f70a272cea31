"""What the store of a cluster holds beside what a server's directory holds, counted, on this machine.

Prints one line of JSON. Rows are linked; then a tenth of them is taken away and comes again otherwise, while
generations are published one after the other; then only a few small rows of another collection change, and
what nobody wants any more is collected.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np
from builds import DIM, rows
from clusters import Cluster, free_port, until, unwind_at_end
from copies import create, link_all
from logs import StoredLog, cut_soon, leader
from outages import client, connected
from pymilvus import MilvusClient

# What nobody wants stays for an hour, and so do pins of who has published; in a directory the store's time is
# that of its files.
GRACE_S = 2 * 3600
AFTER = "64KiB"
AT_ONCE = 1000
SMALL = "small"


def bytes_of(folder: Path) -> int:
    """Of all files in a folder, each once, whatever names it has."""
    found: dict[tuple[int, int], int] = {}
    for path, _, names in os.walk(folder):
        for name in names:
            # Files come and go.
            with suppress(FileNotFoundError):
                it = os.stat(Path(path) / name)
                found[it.st_dev, it.st_ino] = it.st_size
    return sum(found.values())


def fill(of: MilvusClient, keys: Iterable[int], base: np.ndarray) -> None:
    """Inserts rows of these keys."""
    of_rows = list(keys)
    for first in range(0, len(base), AT_ONCE):
        some = zip(of_rows[first : first + AT_ONCE], base[first : first + AT_ONCE], strict=True)
        of.insert("c", [{"id": key, "v": v} for key, v in some])
    of.flush("c")


def publish(of: MilvusClient, log: StoredLog) -> None:
    """Waits for a generation, and writes small rows until it is there."""
    before = log.generations()

    def comes() -> bool:
        of.upsert(SMALL, [{"id": key, "vector": [float(key)] * 8} for key in range(50)])
        return bool(log.generations() - before)

    until("a generation", comes, seconds=300)


def rests(folder: Path) -> bool:
    """Whether a folder has as many bytes as two seconds ago."""
    before = bytes_of(folder)
    time.sleep(2)
    return bytes_of(folder) == before


def age(folder: Path) -> None:
    """Lets more than the grace pass for all that is in a folder."""
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                found = Path(path) / name
                then = found.stat().st_mtime - GRACE_S
                os.utime(found, (then, then))


def stored(root: Path, count: int) -> dict:
    """After so many rows."""
    cluster, base = Cluster(root, 3), rows(count, 3)
    log, store = StoredLog.of(cluster), root / "store"
    for server in cluster.servers:
        server.watched = free_port()
    with cluster.running():
        of = client(cluster.servers[0])
        create(of, DIM)
        of.create_collection(SMALL, dimension=8)
        fill(of, range(count), base)
        link_all(cluster.servers)
    cut_soon(cluster, after=AFTER)
    with cluster.running():
        of = connected(cluster.servers[0])
        changed = range(3, count, 10)
        of.delete("c", ids=list(changed))
        fill(of, changed, base[3::10] + np.float32(0.5))
        link_all(cluster.servers)
        publish(of, log)
        most = bytes_of(store)
        # What is old is collected when the next ones are published, which cut the log too.
        for _ in range(2):
            until("a rest", lambda: rests(store), seconds=120)
            age(store)
            for _ in range(2):
                publish(of, log)
        until("a rest", lambda: rests(store), seconds=120)
        return {
            "rows": count,
            "most_bytes": most,
            "store_bytes": bytes_of(store),
            "local_bytes": bytes_of(leader(cluster).data),
            "log_bytes": bytes_of(log.objects),
            "generations": len(log.generations()),
            "begin": log.begin(),
        }


if __name__ == "__main__":
    unwind_at_end()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeann-stored-") as made:
        print(json.dumps(stored(Path(made), asked.rows)))
