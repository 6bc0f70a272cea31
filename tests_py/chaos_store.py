"""What becomes of reads and writes while the object store fails under load, counted.

Prints one line of JSON. Three servers share a bucket of S3 as moto speaks it, behind something that
makes it be gone, slow, refuse one request in ten, or answer a put with an error, or never, after it
was done.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from chaos import NAMED, balanced, leads, marked, said, summed, watched
from clusters import Cluster, until, unwind_at_end
from copies import percentile
from faults import FaultyStore
from loads import FAILURES, Asking, Reads, best_rate, reading
from outages import client, connected, rows
from upkeep import bucket

# As long as a writer waits for its answer, and where the store is gone: servers try for half a
# minute themselves, and whoever waits for less has no answer but the end of its time.
PATIENCE_S = 60.0
WITHOUT_STORE_S = 40.0


class Writer(threading.Thread):
    """Writes a row after the other by one server, none twice, and keeps how long each took."""

    def __init__(self, cluster: Cluster, number: int, patience_s: float) -> None:
        super().__init__(daemon=True)
        self.client = client(cluster.servers[number % len(cluster.servers)])
        self.mark, self.patience_s = (number + 1) * 10_000_000, patience_s
        self.stopped = threading.Event()
        self.answered: list[tuple[int, int]] = []
        self.took: list[tuple[float, float]] = []
        self.refused: list[tuple[float, str]] = []

    def run(self) -> None:
        while not self.stopped.is_set():
            self.mark += 1
            row = {"mark": self.mark, "v": [self.mark % 97.0] * 8}
            began = time.monotonic()
            try:
                made = self.client.insert("c", [row], timeout=self.patience_s)
                self.answered.append((made["ids"][0], self.mark))
                self.took.append((began, time.monotonic() - began))
            except FAILURES as error:
                self.refused.append((began, str(error)[:300]))


@contextmanager
def faulty(root: Path) -> Iterator[tuple[Cluster, FaultyStore]]:
    """Servers over a bucket that can fail."""
    with ExitStack() as stack:
        url = bucket(stack)
        store = FaultyStore(os.environ["AWS_ENDPOINT_URL"])
        stack.callback(store.close)
        os.environ["AWS_ENDPOINT_URL"] = store.url
        made = watched(root, 3, "--store", url)
        cluster = stack.enter_context(made)
        yield cluster, store


def fails(root: Path, mode: str, seconds: int) -> dict:
    """Has the store fail for so long under writers and reads at half of what can be read."""
    with faulty(root) as (cluster, store):
        marked(client(cluster.servers[0]))
        uris = balanced(cluster)
        rate = best_rate(uris, Asking()) / 2
        led = leads(cluster)
        writers = [
            Writer(cluster, n, WITHOUT_STORE_S if mode == "gone" else PATIENCE_S) for n in range(3)
        ]
        bounded = Asking(rate=rate / 2, threads=16, timeout=10.0)
        eventual = Asking(rate=rate / 2, threads=16, level="Eventually", timeout=10.0)
        if mode == "lies":
            store.one_in = 4
        for writer in writers:
            writer.start()
        until("writes", lambda: all(len(writer.answered) > 5 for writer in writers))
        elections = summed(cluster, "pipeann_elections_won_total")
        with reading(uris, bounded) as known, reading(uris, eventual) as local:
            store.mode, began = mode, time.monotonic()
            time.sleep(seconds)
            ended, store.mode = time.monotonic(), "well"
            counts = [len(writer.answered) for writer in writers]

            def all_again() -> bool:
                return all(
                    len(writer.answered) > count + 3
                    for writer, count in zip(writers, counts, strict=True)
                )

            until("writes again", all_again, seconds=120)
            again_s = time.monotonic() - ended
        for writer in writers:
            writer.stopped.set()
        for writer in writers:
            writer.join()
        there = [rows(connected(server)) for server in cluster.servers]
        given = [pair for writer in writers for pair in writer.answered]
        refused = [text for writer in writers for _, text in writer.refused]
        took = [t for writer in writers for at, t in writer.took if began <= at < ended]
        return {
            "mode": mode,
            "seconds": seconds,
            "rate": rate,
            "faults": store.faults,
            "written": len(given),
            "write_p50_s": percentile(took, 50),
            "write_worst_s": max(took, default=0.0),
            "refused": len(refused),
            "words": dict(Counter(refused).most_common(3)),
            "unnamed": sum(not re.search(NAMED, text) for text in refused),
            "reads": len(local.took),
            "failed_reads": len(local.failed),
            "read_p99_s": percentile(local.between(began, ended), 99),
            "bounded_reads": len(known.took),
            "failed_bounded": len(known.failed),
            "said": said(Reads(failed=local.failed + known.failed)),
            "elections": summed(cluster, "pipeann_elections_won_total") - elections,
            "same_leader": leads(cluster) is led,
            "lost": sum(len(set(given) - set(each)) for each in there),
            "twice": sum(n - 1 for n in Counter(mark for _, mark in there[0]).values())
            + sum(n - 1 for n in Counter(key for key, _ in there[0]).values()),
            "differ": sum(sorted(each) != sorted(there[0]) for each in there),
            "again_s": again_s,
        }


if __name__ == "__main__":
    unwind_at_end()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=[mode for mode in FaultyStore.MODES if mode != "well"])
    parser.add_argument("seconds", type=int)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeann-chaos-") as made:
        print(json.dumps(fails(Path(made), asked.mode, asked.seconds)))
