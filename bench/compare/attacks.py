#!/usr/bin/env python3
"""Attacks on a server on this machine, and how well it serves others meanwhile.

`network`, `runaway` and `collections` print one line of JSON a measurement. Every attack ends by
itself. Only loopback addresses are taken: it is for a server of one's own.
"""

from __future__ import annotations

import argparse
import base64
import json
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import grpc
from pymilvus import DataType, MilvusClient
from pymilvus.grpc_gen import milvus_pb2 as wire
from pymilvus.grpc_gen import milvus_pb2_grpc as service

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"
DIM = 8
# Clients that are served, each in a process.
GOOD = ("searches", "reads")
MIB = 1 << 20


class Watched:
    """What the system tells of the server's process."""

    def __init__(self, pid: int) -> None:
        self.home = Path(f"/proc/{pid}")

    def status(self, name: str) -> int:
        """A number of its status; kB where it is memory."""
        for line in (self.home / "status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise KeyError(name)

    def rss(self) -> int:
        """Resident bytes."""
        return self.status("VmRSS") * 1024

    def descriptors(self) -> int:
        """Open ones."""
        return sum(1 for _ in (self.home / "fd").iterdir())

    def cpu_s(self) -> float:
        """Processor time so far."""
        fields = (self.home / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def written(self) -> int:
        """Bytes handed to the system to be written, so far."""
        for line in (self.home / "io").read_text().splitlines():
            if line.startswith("wchar:"):
                return int(line.split()[1])
        raise KeyError("wchar")


class Peak:
    """The largest resident size while it is watched."""

    def __init__(self, watched: Watched) -> None:
        self.watched, self.bytes, self.ending = watched, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self) -> None:
        while not self.ending.wait(0.02):
            self.bytes = max(self.bytes, self.watched.rss())

    def __enter__(self) -> Peak:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self.thread.join()


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def headers(stream: int, call: str, token: str | None) -> bytes:
    """The beginning of a call, in literals that no table keeps."""
    named = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", f"/milvus.proto.milvus.MilvusService/{call}"),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
    if token is not None:
        named.append(("authorization", base64.b64encode(token.encode()).decode()))
    block = b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in named
    )
    return frame(1, 4, stream, block)


class Sender:
    """Sends as much of each stream as the windows of the server let pass."""

    def __init__(self, held: socket.socket) -> None:
        self.held, self.heard = held, b""
        # Of the connection, and what streams begin with.
        self.connection, self.initial = 65_535, 65_535
        self.streams: dict[int, int] = {}
        held.settimeout(0.2)
        held.sendall(PREFACE)

    def listen(self) -> None:
        """Takes what the server says of its windows."""
        with suppress(TimeoutError):
            heard = self.held.recv(1 << 16)
            if not heard:
                raise ConnectionError
            self.heard += heard
        while len(self.heard) >= 9:
            length = int.from_bytes(self.heard[:3], "big")
            if len(self.heard) < 9 + length:
                return
            kind, flags, stream = struct.unpack(">BBI", self.heard[3:9])
            payload, self.heard = self.heard[9 : 9 + length], self.heard[9 + length :]
            if kind == 4 and not flags & 1:
                for at in range(0, length, 6):
                    name, value = struct.unpack(">HI", payload[at : at + 6])
                    if name == 4:
                        grown = value - self.initial
                        self.initial = value
                        self.streams = {of: left + grown for of, left in self.streams.items()}
            elif kind == 8:
                more = struct.unpack(">I", payload)[0]
                if stream == 0:
                    self.connection += more
                else:
                    self.streams[stream] = self.streams.get(stream, self.initial) + more
            elif kind in (3, 7):
                # The stream is over; nothing more can be sent on it.
                self.streams[stream] = -1

    def send(self, stream: int, part: bytes, ending: threading.Event) -> None:
        """Sends a part, as soon as it may; not on a stream that was ended."""
        while not ending.is_set():
            left = self.streams.setdefault(stream, self.initial)
            if left < 0:
                return
            if min(left, self.connection) >= len(part):
                self.streams[stream] -= len(part)
                self.connection -= len(part)
                self.held.sendall(frame(0, 0, stream, part))
                return
            self.listen()


class Load:
    """Threads that attack until they are told to end."""

    def __init__(self) -> None:
        self.ending = threading.Event()
        self.threads: list[threading.Thread] = []
        self.sockets: list[socket.socket] = []

    def start(self, work: Callable[[], None]) -> None:
        def until_the_end() -> None:
            while not self.ending.is_set():
                with suppress(OSError, grpc.RpcError):
                    work()

        thread = threading.Thread(target=until_the_end, daemon=True)
        thread.start()
        self.threads.append(thread)

    def end(self) -> None:
        self.ending.set()
        for held in self.sockets:
            held.close()
        for thread in self.threads:
            thread.join(30)


@contextmanager
def load() -> Iterator[Load]:
    """An attack that is over behind it."""
    attack = Load()
    try:
        yield attack
    finally:
        attack.end()


def search_times(uri: str, token: str, seconds: float, reconnects: bool) -> list[float]:
    """Milliseconds of searches one after the other, each tenth on a connection of its own."""
    times, until, client = [], time.monotonic() + seconds, None
    count = 0
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            if client is None or (reconnects and count % 10 == 0):
                if client is not None:
                    client.close()
                client = MilvusClient(uri, token=token, timeout=20)
            client.search("good", [[0.5] * DIM], limit=5, timeout=20)
        except Exception:  # counted as its whole timeout: it was not served
            times.append(20_000.0)
            client = None
            continue
        finally:
            count += 1
        times.append((time.monotonic() - began) * 1000)
    return times


def served(a: argparse.Namespace, what: str, token: str) -> dict[str, float]:
    """How a good client fares, in a process of its own: threads of this one would hold it up."""
    command = [sys.executable, __file__, what, "--address", a.address, "--pid", str(a.pid)]
    command += ["--seconds", str(a.seconds), "--token", token]
    found: dict[str, float] = json.loads(subprocess.check_output(command, text=True))
    return found


def reader_times(uri: str, token: str, seconds: float) -> list[float]:
    """Milliseconds of a query and a search, one pair after the other."""
    times, until = [], time.monotonic() + seconds
    client = MilvusClient(uri, token=token)
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            client.query("good", "id in [1, 2, 3]", timeout=20)
            client.search("good", [[0.5] * DIM], limit=5, timeout=20)
            times.append((time.monotonic() - began) * 1000)
        except Exception:  # not served
            times.append(20_000.0)
    return times


def good(a: argparse.Namespace) -> None:
    """One of the good clients."""
    uri = f"http://{a.address}"
    if a.attack == "searches":
        times = search_times(uri, a.token, a.seconds, reconnects=True)
    else:
        times = reader_times(uri, a.token, a.seconds)
    print(json.dumps(spread(times)))


def told(name: str, **figures: Any) -> None:
    """A line of what was measured."""
    print(json.dumps({"name": name, **figures}), flush=True)


def spread(times: list[float]) -> dict[str, float]:
    """Median and 99th percentile."""
    ordered = sorted(times)
    return {
        "p50_ms": statistics.median(ordered),
        "p99_ms": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))],
        "count": len(ordered),
    }


def fill(uri: str, token: str) -> None:
    """A collection for those who are served."""
    client = MilvusClient(uri, token=token)
    client.create_collection("good", dimension=DIM, metric_type="L2")
    rows = [{"id": i, "vector": [float(i + j) for j in range(DIM)]} for i in range(1000)]
    client.insert("good", rows)
    client.close()


def stub(address: str) -> tuple[grpc.Channel, Any]:
    """A channel of its own, without limits on messages."""
    options = [
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
    ]
    channel = grpc.insecure_channel(address, options=options)
    return channel, service.MilvusServiceStub(channel)


def network(a: argparse.Namespace) -> None:
    """Connections and messages of strangers."""
    host, port = a.address.rsplit(":", 1)
    uri, token, watched = f"http://{a.address}", "root:Milvus", Watched(a.pid)
    fill(uri, token)
    told("quiet", **served(a, "searches", token), rss=watched.rss())

    def connect() -> socket.socket:
        return socket.create_connection((host, int(port)), timeout=20)

    def bad_logins(attack: Load) -> None:
        left = threading.Semaphore(2000)

        def login() -> None:
            if not left.acquire(blocking=False):
                time.sleep(0.1)
                return
            channel, calls = stub(a.address)
            bad = base64.b64encode(b"nobody:wrong").decode()
            with channel:
                calls.GetVersion(
                    wire.GetVersionRequest(), metadata=[("authorization", bad)], timeout=20
                )

        for _ in range(8):
            attack.start(login)

    def unfinished(attack: Load) -> None:
        def send() -> None:
            with connect() as held:
                attack.sockets.append(held)
                sender = Sender(held)
                streams = range(1, 81, 2)
                for stream in streams:
                    held.sendall(headers(stream, "Insert", token))
                    sender.send(stream, b"\0" + struct.pack(">I", 60 * MIB), attack.ending)
                # All but the end of each.
                part = bytes(16 << 10)
                for _ in range(59 * MIB // len(part)):
                    for stream in streams:
                        sender.send(stream, part, attack.ending)
                attack.ending.wait()

        attack.start(send)

    def large(attack: Load) -> None:
        def send() -> None:
            channel, _ = stub(a.address)
            path = "/milvus.proto.milvus.MilvusService/Insert"
            call = channel.unary_unary(path, request_serializer=lambda _: bytes(60 * MIB))
            encoded = base64.b64encode(token.encode()).decode()
            with channel:
                call(None, metadata=[("authorization", encoded)], timeout=10)

        for _ in range(10):
            attack.start(send)

    def slow(attack: Load) -> None:
        def send() -> None:
            with connect() as held:
                attack.sockets.append(held)
                held.sendall(PREFACE + headers(1, "Insert", token))
                held.sendall(frame(0, 0, 1, b"\0" + struct.pack(">I", MIB)))
                while not attack.ending.wait(1):
                    held.sendall(frame(0, 0, 1, b"x"))

        for _ in range(100):
            attack.start(send)

    def half_open(attack: Load) -> None:
        def hold() -> None:
            with connect() as held:
                attack.sockets.append(held)
                held.sendall(PREFACE[:10])
                held.settimeout(30)
                # What the server says first is no end of it.
                while held.recv(1 << 10):
                    pass

        for _ in range(200):
            attack.start(hold)

    def idle(attack: Load) -> None:
        def hold() -> None:
            held = []
            try:
                for _ in range(a.idle // 4):
                    held.append(connect())
                    with suppress(OSError):
                        held[-1].sendall(PREFACE)
                attack.ending.wait()
            finally:
                for one in held:
                    one.close()

        for _ in range(4):
            attack.start(hold)

    attacks = {
        "bad logins": bad_logins,
        "unfinished messages": unfinished,
        "large messages": large,
        "slow bodies": slow,
        "half-open connections": half_open,
        "idle connections": idle,
    }
    for name, begin in attacks.items():
        if not fnmatch(name, a.only):
            continue
        with Peak(watched) as peak, load() as attack:
            begin(attack)
            time.sleep(1)
            times = served(a, "searches", token)
        told(name, **times, peak=peak.bytes, descriptors=watched.descriptors())
    time.sleep(a.rest)
    told("a minute later", rss=watched.rss())


def runaway(a: argparse.Namespace) -> None:
    """Calls that ask for much."""
    uri, watched = f"http://{a.address}", Watched(a.pid)
    fill(uri, "")
    client = MilvusClient(uri)
    schema = MilvusClient.create_schema()
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIM)
    schema.add_field("text", DataType.VARCHAR, max_length=65_535)
    schema.add_field("doc", DataType.JSON)
    indexes = client.prepare_index_params()
    indexes.add_index("vector", index_type="FLAT", metric_type="L2")
    client.create_collection("large", schema=schema, index_params=indexes)
    for first in range(0, a.rows, 100):
        rows = [
            {
                "id": i,
                "vector": [float(i)] * DIM,
                "text": f"{i}" + "a" * 60_000,
                "doc": {f"k{j}": j for j in range(50)},
            }
            for i in range(first, first + 100)
        ]
        client.insert("large", rows)
    client.flush("large")

    told("quiet", **served(a, "reads", ""), rss=watched.rss())

    def asking(expression: str, fields: list[str], **more: Any) -> Callable[[Any], Any]:
        request = wire.QueryRequest(
            collection_name="large", expr=expression, output_fields=fields, **more
        )
        return lambda calls: calls.Query.future(request, timeout=60)

    keys = ",".join(str(i * 7919) for i in range(1_000_000 if a.rows >= 1000 else 100_000))
    names = wire.BatchDescribeCollectionRequest(collection_name=["x"] * 1_000_000)
    calls: dict[str, tuple[int, Callable[[Any], Any]]] = {
        "queries without limit": (12, asking("id >= 0", ["*"])),
        "like": (40, asking(f'text like "%{"_a" * 500}b%"', ["id"])),
        "a million values": (4, asking(f"id + 0 in [{keys}]", ["id"])),
        "conditions": (
            12,
            asking(" or ".join(f'exists doc["x{i}"]' for i in range(10_000)), ["id"]),
        ),
        "a million names": (2, lambda of: of.BatchDescribeCollection.future(names, timeout=60)),
    }
    for name, (at_once, ask) in calls.items():
        channels = [stub(a.address) for _ in range(min(at_once, 8))]
        with Peak(watched) as peak:
            under_way = [ask(channels[i % len(channels)][1]) for i in range(at_once)]
            times = served(a, "reads", "")
            for call in under_way:
                call.cancel()
            for channel, _ in channels:
                channel.close()
            # A moment for the news to arrive, which is no processor time of the call.
            time.sleep(0.05)
            before = watched.cpu_s()
            time.sleep(2)
            after_ms = (watched.cpu_s() - before) * 1000
        told(name, **times, peak=peak.bytes, after_ms=after_ms)
    time.sleep(a.rest)
    told("a minute later", rss=watched.rss())


def collections(a: argparse.Namespace) -> None:
    """Many collections of a few rows each."""
    uri, watched = f"http://{a.address}", Watched(a.pid)
    client = MilvusClient(uri)
    empty = watched.rss()
    rows = [{"id": i, "vector": [float(i + j) for j in range(DIM)]} for i in range(3)]
    # Without an index: clients sleep between looks at whether one is there.
    schema = MilvusClient.create_schema()
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIM)
    rates: list[tuple[int, float, int]] = []
    for first in range(0, a.count, 100):
        written, began = 0, 0.0
        for i in range(first, first + 100):
            name, before, since = f"c{i}", watched.written(), time.monotonic()
            client.create_collection(name, schema=schema)
            began += time.monotonic() - since
            written += watched.written() - before
            client.insert(name, rows)
        rates.append((first, 100 / began, written // 100))
        if first % 1000 == 0:
            told("so far", at=first, rate=100 / began, written=written // 100)
    # What a connection took is no part of them, and threads that have nothing to do end.
    time.sleep(a.rest)
    found = client.get_collection_stats("c1")["row_count"]
    told(
        "all",
        rows=int(found),
        threads=watched.status("Threads"),
        descriptors=watched.descriptors(),
        each=(watched.rss() - empty) / a.count,
        first_rate=rates[0][1] if len(rates) == 1 else rates[1][1],
        last_rate=rates[-1][1],
        first_written=rates[0][2],
        last_written=rates[-1][2],
        # With what is written anew now and then.
        mean_written=statistics.mean(written for _, _, written in rates),
    )


def main() -> None:
    """One of them."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("attack", choices=("network", "runaway", "collections", *GOOD))
    p.add_argument("--token", default="")
    p.add_argument("--only", default="*", help="attacks of such names")
    p.add_argument("--address", required=True)
    p.add_argument("--pid", type=int, required=True)
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--rest", type=float, default=60)
    p.add_argument("--idle", type=int, default=10_000)
    p.add_argument("--rows", type=int, default=2000)
    p.add_argument("--count", type=int, default=10_000)
    a = p.parse_args()
    if not a.address.startswith("127."):
        raise SystemExit("only a server on this machine is attacked")
    if a.attack in GOOD:
        good(a)
        return
    {"network": network, "runaway": runaway, "collections": collections}[a.attack](a)


if __name__ == "__main__":
    main()
