"""A leader that is left alone beside builds, counted, on this machine.

Prints one line of JSON: who led in so many seconds, in which a writer wrote, `pipeann build` built one index
after the other, and the servers themselves built graphs of collections that come and go.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
from clusters import Cluster, binary, unwind_at_end
from loads import FAILURES
from logs import LogWatch, StoredLog
from outages import Writer, client, create
from pymilvus import DataType, MilvusClient

# Of an index that is built beside, with all processors.
ROWS, DIM = 100_000, 64
# Of a collection whose graph each server builds.
ROWS_OF_EACH, AT_ONCE = 20_000, 2_000


def rows(count: int, seed: int) -> np.ndarray:
    """Rows around some centres."""
    chance = np.random.default_rng(seed)
    centres = chance.normal(0, 10, (200, DIM))
    return (centres[chance.integers(0, 200, count)] + chance.normal(0, 1, (count, DIM))).astype("f4")


class Builder(threading.Thread):
    """Builds an index by the command, again and again; an error is one too many."""

    def __init__(self, folder: Path, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        base, self.stopped = folder / "base.npy", stop
        np.save(base, rows(ROWS, 1))
        words = ["build", "--base", base, "--metric", "l2", "--index", folder / "index"]
        self.command = [str(word) for word in [binary(), *words, "--overwrite"]]
        self.built = self.failed = 0

    def run(self) -> None:
        while not self.stopped.is_set():
            quiet = subprocess.DEVNULL
            with subprocess.Popen(self.command, stdout=quiet, stderr=quiet) as process:
                while process.poll() is None and not self.stopped.wait(0.2):
                    pass
                if process.poll() is None:
                    process.kill()
                    return
            self.built += process.returncode == 0
            self.failed += process.returncode != 0


class Grower(threading.Thread):
    """Has the servers build graphs: fills a collection, waits for its graph, and drops it."""

    def __init__(self, of: MilvusClient, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.of, self.stopped, self.rows = of, stop, rows(ROWS_OF_EACH, 2)
        self.built = 0
        self.said: Counter[str] = Counter()

    def run(self) -> None:
        number = 0
        while not self.stopped.is_set():
            number += 1
            try:
                self.built += self.grow(f"grown_{number}")
            except FAILURES as error:
                self.said[str(error)[:200]] += 1
                self.stopped.wait(1)

    def grow(self, name: str) -> bool:
        """Whether a graph of all rows came before the end."""
        schema = self.of.create_schema(auto_id=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("v", DataType.FLOAT_VECTOR, dim=DIM)
        index = self.of.prepare_index_params()
        index.add_index("v", index_type="DISKANN", metric_type="L2")
        self.of.create_collection(name, schema=schema, index_params=index)
        for first in range(0, len(self.rows), AT_ONCE):
            some = self.rows[first : first + AT_ONCE]
            self.of.insert(name, [{"id": first + n, "v": v} for n, v in enumerate(some)])
        self.of.flush(name)
        whole = False
        while not whole and not self.stopped.wait(0.5):
            whole = self.of.describe_index(name, "v")["pending_index_rows"] == 0
        self.of.drop_collection(name)
        return whole


def steady(root: Path, seconds: int) -> dict:
    """Leaves the leader alone beside builds; counts who led."""
    cluster = Cluster(root, 3)
    with cluster.running():
        create(client(cluster.servers[0]))
        watch, stop = LogWatch(StoredLog.of(cluster)), threading.Event()
        before = watch.log.newest().term
        writer = Writer(cluster, 0, stop)
        builder = Builder(root, stop)
        grower = Grower(client(cluster.servers[1]), stop)
        for thread in [watch, writer, builder, grower]:
            thread.start()
        try:
            time.sleep(seconds)
        finally:
            stop.set()
            # What it builds ends with it.
            builder.join()
        for thread in [writer, grower]:
            thread.join()
        log = watch.end()
        led = {each.term for each in watch.seen.values() if each.term > before}
    return {
        "seconds": seconds,
        "failovers": len(led),
        "answered": len(writer.answered),
        "failed_writes": writer.failed,
        "built": builder.built,
        "failed_builds": builder.failed,
        "grown": grower.built,
        "said": dict(grower.said.most_common(3)),
        "log": log,
    }


if __name__ == "__main__":
    unwind_at_end()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=int)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeann-builds-") as made:
        print(json.dumps(steady(Path(made), asked.seconds)))
