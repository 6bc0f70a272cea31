"""Reads of a collection `c` at a rate, by processes of their own, and what became of each.

Run as a script it is one such process: it searches until its input ends, and prints one line of
JSON. A read is timed from when it was due, so one that had to wait for those before it counts with
its wait.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import logging
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
from pymilvus import MilvusClient, MilvusException
from pymilvus.client.prepare import Prepare
from pymilvus.grpc_gen import milvus_pb2

# So that what reads ask for is the same in each run.
SEED = 7
# The SDK does not wrap everything: a deadline is gRPC's own error.
FAILURES = (MilvusException, grpc.RpcError)


@dataclass(frozen=True)
class Asking:
    """What is asked, and how often."""

    dim: int = 8
    # All processes together; as fast as they are answered where it is 0.
    rate: float = 0.0
    # How many each process has under way at most.
    threads: int = 4
    vectors: int = 1
    level: str = "Bounded"
    # As long as the SDK waits by itself, where it is 0.
    timeout: float = 0.0
    # Whether bytes made before are sent, without the SDK, which costs more than a search.
    bare: int = 0


@dataclass
class Reads:
    """Reads by when they were due, how long they took from then, and how they failed."""

    took: list[tuple[float, float]] = field(default_factory=list)
    failed: list[tuple[float, str]] = field(default_factory=list)

    def between(self, begin: float, end: float = float("inf")) -> list[float]:
        """How long those took that were due in a time."""
        return [took for due, took in self.took if begin <= due < end]


@contextmanager
def reading(uris: Sequence[str], asking: Asking) -> Iterator[Reads]:
    """Reads by a process for each address while the block runs; they are there when it ended."""
    reads = Reads()
    words = [f"--{name}={value}" for name, value in vars(asking).items() if name != "rate"]
    words.append(f"--rate={asking.rate / len(uris)}")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([sys.executable, __file__, uri, *words], **pipes) for uri in uris]
    try:
        for process in started:
            assert process.stdout.readline() == "begins\n", "a reader did not begin"
        yield reads
        for process in started:
            process.stdin.close()
        for process in started:
            told = json.loads(process.stdout.read())
            reads.took += [(due, took) for due, took in told["took"]]
            reads.failed += [(due, said) for due, said in told["failed"]]
    finally:
        for process in started:
            process.kill()
            process.wait()
            process.stdout.close()


def best_rate(uris: Sequence[str], asking: Asking, seconds: float = 4.0) -> float:
    """How many reads a second are answered where each process asks again at once."""
    with reading(uris, asking) as reads:
        began = time.monotonic()
        time.sleep(seconds)
        ended = time.monotonic()
    # The first ones make connections.
    return len(reads.between(began + seconds / 4, ended)) / (ended - began - seconds / 4)


def vectors(asking: Asking, turn: int) -> list[list[float]]:
    """What the read of this turn asks for."""
    chance = random.Random(SEED + turn)
    return [[chance.uniform(0, 97)] * asking.dim for _ in range(asking.vectors)]


def by_sdk(uri: str, asking: Asking) -> Callable[[int], None]:
    """Reads as clients do."""
    of = MilvusClient(uri=uri)
    within = {"timeout": asking.timeout} if asking.timeout else {}

    def search(turn: int) -> None:
        data = vectors(asking, turn)
        found = of.search("c", data, limit=10, consistency_level=asking.level, **within)
        assert len(found) == asking.vectors

    return search


def bare(uri: str, asking: Asking) -> Callable[[int], None]:
    """Reads by one call of gRPC each, whose answer is not looked into unless it is short."""
    channel = grpc.insecure_channel(uri.removeprefix("http://"))
    search = channel.unary_unary("/milvus.proto.milvus.MilvusService/Search")

    @functools.cache
    def request(turn: int) -> bytes:
        eventually = {"consistency_level": 3, "guarantee_timestamp": 1}
        made = Prepare.search_requests_with_expr(
            "c", "v", {}, 10, vectors(asking, turn), use_default_consistency=False, **eventually
        )
        return made.SerializeToString()

    def ask(turn: int) -> None:
        told = search(request(turn % 8), timeout=asking.timeout)
        if len(told) < 1000 and (status := milvus_pb2.SearchResults.FromString(told).status).code:
            raise MilvusException(status.code, status.reason)

    return ask


def until_told(count: int, rate: float, read: Callable[[int, float], None]) -> None:
    """Has so many threads call `read` with its turn and when that was due: so many a second, or as
    fast as it returns where that is 0; until the input ends."""
    turns, stop = itertools.count(), threading.Event()
    began = time.monotonic()

    def take() -> None:
        for turn in turns:
            due = began + turn / rate if rate else time.monotonic()
            if stop.wait(max(0.0, due - time.monotonic())):
                return
            read(turn, due)

    threads = [threading.Thread(target=take, daemon=True) for _ in range(count)]
    print("begins", flush=True)
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()


def ask(uri: str, asking: Asking) -> Reads:
    """Reads until the input ends."""
    reads, search = Reads(), (bare if asking.bare else by_sdk)(uri, asking)

    def read(turn: int, due: float) -> None:
        # Whoever asks for more than can be answered is late himself; what is late then is the call.
        due = time.monotonic() if asking.bare else due
        try:
            search(turn)
            reads.took.append((due, time.monotonic() - due))
        except FAILURES as error:
            reads.failed.append((due, str(error)[:300]))

    until_told(asking.threads, asking.rate, read)
    return reads


if __name__ == "__main__":
    # What failed is told at the end, without where in the SDK that was.
    logging.disable(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("uri")
    for name, default in vars(Asking()).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    given = vars(parser.parse_args())
    print(json.dumps(vars(ask(given.pop("uri"), Asking(**given)))))
