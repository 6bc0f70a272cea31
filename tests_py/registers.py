"""Registers of a cluster, and whether what clients saw of them is what registers do: each call has its effect at
one moment between its begin and its end.

The search is that of Wing and Gong, "Testing and verifying concurrent objects" (1993), which remembers where it
has been as Lowe does ("Testing for linearizability", 2017); the simulation of servers has the same in Rust. What
is read at `Strong` is looked at; a row of a key of its own is a register, and no row is one without a value.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from clusters import Cluster
from loads import FAILURES
from pymilvus import DataType, MilvusClient

NAME = "registers"
# Registers that are used at the same time.
KEYS = 3
# Between two calls of a client: others are measured beside it.
PAUSE_S = 0.03


@dataclass(frozen=True)
class Operation:
    """A call as its client saw it: a value that was written or read, or none of a row that is not there."""

    reads: bool
    value: int | None
    begin: float
    # For ever where its answer was lost: a write of which nobody knows whether and when it is made.
    end: float = math.inf


def is_linearizable(operations: Sequence[Operation]) -> bool:
    """Whether these could be the operations of one register that has no value at first."""
    read = {it.value for it in operations if it.reads}
    # A write of which nobody knows, and whose value nobody has read, may as well never be made.
    able_to_matter = (it for it in operations if it.end < math.inf or it.value in read)
    ordered = sorted(able_to_matter, key=lambda it: it.begin)
    known = sum(1 << n for n, it in enumerate(ordered) if it.end < math.inf)
    ways: list[tuple[int, int | None]] = [(0, None)]
    seen: set[tuple[int, int | None]] = set()
    while ways:
        done, value = ways.pop()
        if done & known == known:
            return True
        if (done, value) in seen:
            continue
        seen.add((done, value))
        left = [(n, it) for n, it in enumerate(ordered) if not done >> n & 1]
        # What has ended before another begins comes before it.
        first_end = min(it.end for _, it in left)
        able = [(n, it) for n, it in left if it.begin <= first_end]
        fitting = [n for n, it in able if it.reads and it.value == value]
        if fitting:
            # Nothing is lost by reading first what can be read.
            ways.append((done | 1 << fitting[0], value))
            continue
        ways += [(done | 1 << n, it.value) for n, it in able if not it.reads]
    return False


class History:
    """What clients saw of registers, of which some are used at a time."""

    def __init__(self) -> None:
        self.operations: dict[int, list[Operation]] = {}
        # Raised now and then: so histories stay short, and calls whose answers were lost few in each.
        self.turn = 0
        self._values, self._lock = 0, threading.Lock()

    def value(self) -> int:
        """One that was never written."""
        with self._lock:
            self._values += 1
            return self._values

    def note(self, key: int, operation: Operation) -> None:
        """Keeps what a client saw."""
        with self._lock:
            self.operations.setdefault(key, []).append(operation)

    def told(self) -> dict[str, object]:
        """How many there are, and which are none of registers."""
        wrong = [key for key, it in self.operations.items() if not is_linearizable(it)]
        return {
            "registers": len(self.operations),
            "operations": sum(map(len, self.operations.values())),
            "unknown": sum(
                it.end == math.inf for each in self.operations.values() for it in each
            ),
            "not_linearizable": len(wrong),
            "histories": [
                f"{key}: {sorted(self.operations[key], key=lambda it: it.begin)}"[:4000]
                for key in wrong[:2]
            ],
        }


def create(of: MilvusClient) -> None:
    """The collection of registers."""
    schema = of.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("value", DataType.INT64)
    schema.add_field("v", DataType.FLOAT_VECTOR, dim=2)
    index = of.prepare_index_params()
    index.add_index("v", index_type="AUTOINDEX", metric_type="L2")
    of.create_collection(NAME, schema=schema, index_params=index)


class Registrar(threading.Thread):
    """Writes, deletes and reads registers by any server, and keeps what it saw. Its writes have ids: without
    one, a client repeats a call under which its server died, and that is another one."""

    def __init__(
        self,
        cluster: Cluster,
        number: int,
        history: History,
        stop: threading.Event,
        patience_s: float = 10.0,
    ) -> None:
        super().__init__(daemon=True)
        self.clients = [MilvusClient(uri=f"http://{each.address}") for each in cluster.servers]
        self.chance = random.Random(number)
        self.number, self.history, self.stopped = number, history, stop
        self.patience_s = patience_s

    def run(self) -> None:
        turn = 0
        while not self.stopped.wait(PAUSE_S):
            turn += 1
            key = self.history.turn * KEYS + self.chance.randrange(KEYS)
            of = self.clients[self.chance.randrange(len(self.clients))]
            kind = self.chance.random()
            if kind < 0.5:
                self.read(of, key)
            else:
                self.write(of, key, None if kind < 0.6 else self.history.value(), turn)

    def read(self, of: MilvusClient, key: int) -> None:
        """What fails has read nothing."""
        asked = {"output_fields": ["value"], "consistency_level": "Strong"}
        begin = time.monotonic()
        try:
            found = of.query(NAME, ids=[key], timeout=self.patience_s, **asked)
        except FAILURES:
            return
        value = found[0]["value"] if found else None
        self.history.note(key, Operation(True, value, begin, time.monotonic()))

    def write(self, of: MilvusClient, key: int, value: int | None, turn: int) -> None:
        """What fails is made at any time, or never."""
        named = {"client_request_id": f"registrar {self.number} {turn}"}
        begin, end = time.monotonic(), math.inf
        try:
            if value is None:
                of.delete(NAME, ids=[key], timeout=self.patience_s, **named)
            else:
                row = {"id": key, "value": value, "v": [1.0, float(key % 97)]}
                of.upsert(NAME, [row], timeout=self.patience_s, **named)
            end = time.monotonic()
        except FAILURES:
            pass
        self.history.note(key, Operation(False, value, begin, end))


def registrars(cluster: Cluster, count: int, stop: threading.Event) -> list[Registrar]:
    """So many clients of registers that are made now; they share the history."""
    create(MilvusClient(uri=f"http://{cluster.servers[0].address}"))
    history = History()
    return [Registrar(cluster, number, history, stop) for number in range(count)]
