"""Clients of a server that speaks the protocol of Milvus, many at once, each on a connection.

Raw gRPC on asyncio in a few processes: a thousand clients of pymilvus would be a thousand
interpreters. Each asks one query after another, as soon as it has its answer, for some seconds;
all begin together. Prints a JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import statistics
import time
from pathlib import Path

import grpc
import numpy as np
from pymilvus import DataType, MilvusClient
from pymilvus.grpc_gen import common_pb2, milvus_pb2

CALL = "/milvus.proto.milvus.MilvusService/Search"
COLLECTION, FIELD, NUMBER = "rows", "vector", "number"
TYPES = {".u8bin": np.uint8, ".i8bin": np.int8, ".fbin": np.float32}
BATCH = 5000
K = 10


def vectors(path: Path, count: int) -> np.ndarray:
    """The first vectors of a file."""
    rows, dim = np.fromfile(path, dtype=np.uint32, count=2)
    shape = (min(int(rows), count), int(dim))
    return np.memmap(path, dtype=TYPES[path.suffix], mode="r", offset=8, shape=shape)


def fill(uri: str, path: Path, rows: int) -> None:
    """A collection of vectors and numbers below 100, indexed and loaded."""
    client = MilvusClient(uri=uri)
    base = vectors(path, rows)
    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field(NUMBER, DataType.INT64)
    schema.add_field(FIELD, DataType.FLOAT_VECTOR, dim=base.shape[1])
    client.create_collection(COLLECTION, schema=schema)
    for first in range(0, len(base), BATCH):
        floats = base[first : first + BATCH].astype(np.float32)
        client.insert(
            COLLECTION,
            [
                {"id": first + i, NUMBER: (first + i) * 7919 % 100, FIELD: vector}
                for i, vector in enumerate(floats)
            ],
        )
    index = client.prepare_index_params()
    index.add_index(FIELD, index_type="HNSW", metric_type="L2")
    client.create_index(COLLECTION, index)
    client.load_collection(COLLECTION)
    client.flush(COLLECTION)
    while client.describe_index(COLLECTION, FIELD)["pending_index_rows"] > 0:
        time.sleep(0.5)


def requests(path: Path, ef: int, expression: str) -> list[bytes]:
    """A request for each query, encoded."""

    def pair(key: str, value: str) -> common_pb2.KeyValuePair:
        return common_pb2.KeyValuePair(key=key, value=value)

    def request(query: np.ndarray) -> bytes:
        value = common_pb2.PlaceholderValue(
            tag="$0",
            type=common_pb2.PlaceholderType.FloatVector,
            values=[query.astype(np.float32).tobytes()],
        )
        group = common_pb2.PlaceholderGroup(placeholders=[value]).SerializeToString()
        params = [pair("topk", str(K)), pair("params", json.dumps({"ef": ef}))]
        params += [pair("anns_field", FIELD), pair("metric_type", "L2")]
        asked = milvus_pb2.SearchRequest(
            collection_name=COLLECTION,
            dsl=expression,
            dsl_type=common_pb2.DslType.BoolExprV1,
            placeholder_group=group,
            nq=1,
            search_params=params,
        )
        encoded: bytes = asked.SerializeToString()
        return encoded

    return [request(query) for query in vectors(path, 1000)]


async def ask(address: str, asked: list[bytes], clients: int, seconds: float, go) -> dict:
    """What some clients of this process measure."""
    # Channels to one address would share a connection.
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(address, options=options) for _ in range(clients)]
    await asyncio.gather(*[channel.channel_ready() for channel in channels])
    go.wait()
    until = time.monotonic() + seconds
    latencies, refused, failed = [], 0, 0

    async def client(number: int, channel: grpc.aio.Channel) -> None:
        nonlocal refused, failed
        call = channel.unary_unary(CALL)
        order = random.Random(os.getpid() * 1000 + number)
        while time.monotonic() < until:
            begun = time.perf_counter()
            try:
                answer = await call(asked[order.randrange(len(asked))])
            except grpc.RpcError:
                failed += 1
                continue
            latencies.append(time.perf_counter() - begun)
            # An answer is longer than a refusal with its reason; few of them are short.
            if len(answer) < 200:
                refused += milvus_pb2.SearchResults.FromString(answer).status.code != 0

    await asyncio.gather(*[client(i, channel) for i, channel in enumerate(channels)])
    return {"latencies": latencies, "refused": refused, "failed": failed}


def measured(*given) -> None:
    """As `ask`, in a process of its own."""
    *arguments, results = given
    results.put(asyncio.run(ask(*arguments)))


def cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(a: argparse.Namespace) -> dict:
    """All clients at once."""
    asked = requests(a.queries, a.ef, a.filter)
    go, results = multiprocessing.Event(), multiprocessing.Queue()
    processes = min(a.processes, a.clients)
    shares = [a.clients // processes + (i < a.clients % processes) for i in range(processes)]
    each = [
        multiprocessing.Process(
            target=measured, args=(a.address, asked, share, a.seconds, go, results)
        )
        for share in shares
    ]
    for process in each:
        process.start()
    # Connecting takes a while, and is not what is measured.
    time.sleep(1 + a.clients / 250)
    cpu, begun = cpu_s(a.pid), time.monotonic()
    go.set()
    found = [results.get() for _ in each]
    seconds, cpu = time.monotonic() - begun, cpu_s(a.pid) - cpu
    for process in each:
        process.join()
    latencies = sorted(latency for one in found for latency in one["latencies"])
    return {
        "clients": a.clients,
        "searches": len(latencies),
        "qps": len(latencies) / seconds,
        "p50_ms": statistics.median(latencies) * 1e3,
        "p99_ms": latencies[len(latencies) * 99 // 100] * 1e3,
        "cpu_us": cpu / len(latencies) * 1e6,
        "refused": sum(one["refused"] for one in found),
        "failed": sum(one["failed"] for one in found),
    }


def main() -> None:
    """Fills a server, or asks it."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", required=True, help="host and port")
    p.add_argument("--fill", type=Path, metavar="BASE", help="vectors to make a collection of")
    p.add_argument("--rows", type=int, default=100_000)
    p.add_argument("--queries", type=Path)
    p.add_argument("--pid", type=int, help="of the server, whose processor time is measured")
    p.add_argument("--clients", type=int, default=1)
    p.add_argument("--processes", type=int, default=2)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--ef", type=int, default=32)
    p.add_argument("--filter", default="")
    a = p.parse_args()
    if a.fill:
        fill(f"http://{a.address}", a.fill, a.rows)
        print(json.dumps({"rows": a.rows}))
    else:
        print(json.dumps(load(a)))


if __name__ == "__main__":
    main()
