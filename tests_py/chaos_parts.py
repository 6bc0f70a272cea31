"""What becomes of queries over one graph in parts while a server is gone or states get lost.

Prints one line of JSON. `gone` kills a server that owns partitions and starts it again; `lost` cuts
connections between servers, so that states are lost in flight. With `asks` it is a process that
asks until its input ends.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from chaos import vectors
from clusters import binary, free_port, unwind_at_end
from copies import percentile
from faults import Wire
from loads import until_told

from pipeann import Index, errors
from pipeann.cluster import Client

SERVERS, PARTITIONS = 3, 6
ROWS, DIM, QUERIES = 20_000, 24, 500
TIMEOUT_S = 3.0
# One after the other and no look-ahead: the same pages in the same order wherever they are.
SAME = {"k": 10, "list_length": 40, "width": 1, "ahead": 1}


class Parts:
    """Servers of one graph on ports of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.index = folder, folder / "index"
        rows = vectors(ROWS, DIM).astype(np.float32)
        Index.build(self.index, rows, degree=32, list_length=48, partitions=PARTITIONS)
        self.queries = rows[:: ROWS // QUERIES] + np.float32(0.5)
        np.save(folder / "queries.npy", self.queries)
        self.ports = [free_port() for _ in range(SERVERS)]
        self.processes: dict[int, subprocess.Popen[str]] = {}
        # The topology of each server, and of those who ask.
        direct = [f"127.0.0.1:{port}" for port in self.ports]
        self.topologies = {who: self.topology(who, direct) for who in (*range(SERVERS), "asker")}

    def topology(self, who: int | str, addresses: Sequence[str]) -> Path:
        path = self.folder / f"{who}.toml"
        servers = "".join(
            f'\n[[server]]\nnumber = {n}\naddress = "{at}"\n' for n, at in enumerate(addresses)
        )
        path.write_text(f'cluster = "chaos"\npartitions = {PARTITIONS}\n{servers}')
        return path

    def start(self, number: int) -> None:
        """Starts a server; it listens."""
        command = [binary(), "cluster", "serve", "--topology", self.topologies[number]]
        command += ["--server", number, "--index", self.index, "--until-eof", "--threads", 1]
        command += ["--buffered", "--insecure"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen([str(word) for word in command], **pipes)
        self.processes[number] = process
        assert "listens" in process.stdout.readline()

    @contextmanager
    def running(self) -> Iterator[None]:
        """All servers, until the block ends."""
        try:
            for number in range(SERVERS):
                self.start(number)
            for process in self.processes.values():
                assert "is connected" in process.stdout.readline()
            yield
        finally:
            for number in list(self.processes):
                self.kill(number)

    def kill(self, number: int) -> None:
        process = self.processes.pop(number)
        process.kill()
        process.communicate()

    @contextmanager
    def asked(self, *, rate: float, partial: bool, timeout: float = TIMEOUT_S) -> Iterator[list]:
        """Batches by a process of its own; they are there when the block has ended."""
        words = [f"--rate={rate}", f"--timeout={timeout}", *(["--partial"] if partial else [])]
        command = [sys.executable, __file__, "asks", str(self.folder), *words]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        batches: list[dict] = []
        with subprocess.Popen(command, **pipes) as process:
            assert process.stdout.readline() == "begins\n", "it did not begin"
            yield batches
            batches += json.loads(process.communicate()[0])


@dataclass
class Asks:
    """Asks single queries on some threads; keeps when, how long, how much of the graph answered,
    and whether it is what one process answers."""

    folder: Path
    rate: float
    timeout: float
    partial: bool
    threads: int = 8

    def run(self) -> list[dict]:
        queries = np.load(self.folder / "queries.npy")
        told: list[dict] = []
        reference = Index.open(self.folder / "index", direct=False)
        alone = {"policy": "relay", "threads": 1, "in_flight": 1}
        options = {name: value for name, value in SAME.items() if name != "ahead"}
        wanted = reference.search(queries, **options, **alone)
        client = Client(
            self.folder / "asker.toml", insecure=True, connect_timeout=30, timeout=self.timeout
        )

        def ask(turn: int, due: float) -> None:
            at = turn % len(queries)
            sent = time.monotonic()
            row = {"due": due, "sent": sent, "coverage": 0.0, "right": False, "said": ""}
            try:
                ids, _, stats = client.search(
                    queries[at : at + 1], partial=self.partial, stats=True, **SAME
                )
                row["coverage"] = float(stats["coverage"][0])
                row["missing"] = stats["missing"][0]
                row["attempts"] = int(stats["attempts"][0])
                row["right"] = bool((ids[0] == wanted[0][at]).all())
            except errors.RetryError as error:
                row["said"] = str(error)[:200]
            row["took"] = time.monotonic() - sent
            told.append(row)

        with client:
            until_told(self.threads, self.rate, ask)
        return told


def half(parts: Parts) -> float:
    """Half of what can be asked for in a second."""
    with parts.asked(rate=0.0, partial=True) as told:
        began = time.monotonic()
        time.sleep(4)
        ended = time.monotonic()
    return sum(began + 1 <= each["sent"] < ended for each in told) / (ended - began - 1) / 2


def gone(folder: Path, rounds: int) -> dict:
    """Kills the server of two partitions and starts it again, so often."""
    parts = Parts(folder)
    dead = 1
    missing = [2 * dead, 2 * dead + 1]
    told: list[dict] = []
    strict: list[dict] = []
    lacking = unnamed = 0
    back_s = []
    with parts.running():
        rate = half(parts)
        for _ in range(rounds):
            share = {"rate": rate / 2}
            with (
                parts.asked(partial=True, **share) as some,
                parts.asked(partial=False, **share) as whole,
            ):
                time.sleep(2)
                parts.kill(dead)
                killed = time.monotonic()
                time.sleep(5)
                parts.start(dead)
                back = time.monotonic()
                time.sleep(5)
            short = [each for each in some if each["coverage"] < 1]
            lacking += sum(killed < each["sent"] < back for each in short)
            unnamed += sum(each.get("missing") != missing for each in short)
            late = [each["sent"] + each["took"] - back for each in short + fallen(whole)]
            back_s.append(max([0.0, *late]))
            told += some
            strict += whole
    both, refused = told + strict, fallen(strict)
    return {
        "rounds": rounds,
        "rate": rate,
        "queries": len(both),
        "longest_s": max(each["took"] for each in both),
        "timeout_s": TIMEOUT_S,
        "lacking": lacking,
        "failed_partial": len(fallen(told)),
        "unnamed": unnamed,
        "wrong": sum(each["coverage"] == 1 and not each["right"] for each in both),
        "errors": len(refused),
        "errors_without_a_name": sum(not names(each["said"], dead, missing) for each in refused),
        "words": sorted({each["said"] for each in refused})[:3],
        "back_s": max(back_s),
    }


def fallen(told: list[dict]) -> list[dict]:
    """Queries that had no answer."""
    return [each for each in told if each["said"]]


def names(text: str, server: int, partitions: list[int]) -> bool:
    """Whether an error tells what is missing."""
    wanted = [f"server {server}", *(f"partition {each}" for each in partitions)]
    return any(word in text for word in wanted)


def lost(folder: Path, seconds: int) -> dict:
    """Loses one in a thousand of the pieces that pass between servers."""
    parts = Parts(folder)
    with ExitStack() as stack:
        wires = []
        for number in range(SERVERS):
            addresses = [f"127.0.0.1:{port}" for port in parts.ports]
            for other in range(SERVERS):
                if other != number:
                    wire = Wire(("127.0.0.1", parts.ports[other]), 1000, len(wires))
                    stack.callback(wire.close)
                    wires.append(wire)
                    addresses[other] = wire.address
            parts.topologies[number] = parts.topology(number, addresses)
        stack.enter_context(parts.running())
        rate = half(parts)
        with parts.asked(rate=rate, partial=False) as told:
            time.sleep(4)
            began = time.monotonic()
            for wire in wires:
                wire.faulty = True
            time.sleep(seconds)
            for wire in wires:
                wire.faulty = False
    calm = [each["took"] for each in told if each["sent"] < began]
    under = [each for each in told if each["sent"] >= began]
    again = [each for each in under if each.get("attempts", 1) > 1]
    return {
        "rate": rate,
        "queries": len(under),
        "cuts": sum(wire.cuts for wire in wires),
        "wrong": sum(not each["said"] and not each["right"] for each in told),
        "errors": len(fallen(told)),
        "words": sorted({each["said"] for each in fallen(told)})[:3],
        "again": len(again),
        "calm_p95_s": percentile(calm, 95),
        "again_p50_s": percentile([each["took"] for each in again], 50),
        "again_p99_s": percentile([each["took"] for each in again], 99),
        "p99_s": percentile([each["took"] for each in under], 99),
    }


KINDS: dict[str, Callable[[Path, int], dict]] = {"gone": gone, "lost": lost}

if __name__ == "__main__":
    unwind_at_end()
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(dest="what", required=True)
    for kind in KINDS:
        kinds.add_parser(kind).add_argument("count", type=int, help="rounds, or seconds")
    asks = kinds.add_parser("asks")
    asks.add_argument("folder", type=Path)
    asks.add_argument("--rate", type=float, required=True)
    asks.add_argument("--timeout", type=float, required=True)
    asks.add_argument("--partial", action="store_true")
    given = vars(parser.parse_args())
    what = given.pop("what")
    if what == "asks":
        print(json.dumps(Asks(**given).run()))
    else:
        with tempfile.TemporaryDirectory(prefix="pipeann-chaos-") as made:
            print(json.dumps(KINDS[what](Path(made), given["count"])))
