#!/usr/bin/env python3
"""Servers that speak Milvus's protocol, side by side: what they answer, how fast, at what cost.

Stock pymilvus is the client of all; only the address differs. A server is `NAME=URI`, or
`NAME=URI@PID`, whose processor time and memory are read too. Throughput is that of many client
processes; latency that of one client with one query in flight.

    bench_milvus_vs_pipeann.py --server pipeann=http://127.0.0.1:19530@4711 \\
        --server milvus=http://127.0.0.1:29530@4712 --base base.u8bin --queries q.u8bin --fill
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pymilvus
from bench_load import (
    Asked,
    Row,
    Target,
    asked,
    asked_for_tags,
    create,
    index,
    insert,
    one_after_the_other,
    print_table,
    read_bags,
    read_vectors,
)
from bench_processes import Clients, Server, watched

COLUMNS = ["server", "ef", "recall", "clients", "qps", "cpu_us", "peak_rss_mb"]
COLUMNS += ["one_qps", "p50_ms", "p99_ms", "one_cpu_us"]
FILL_COLUMNS = ["server", "rows", "acknowledged_s", "rows_per_s", "searchable_s", "peak_rss_mb"]


def arguments() -> argparse.Namespace:
    """The command line."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--server", action="append", required=True, type=Server.parse)
    p.add_argument("--base", required=True, type=Path)
    p.add_argument("--queries", required=True, type=Path)
    p.add_argument("--tags", type=Path, help=".spmat: tags of the rows; searches are for tags")
    p.add_argument("--tag-queries", type=Path, help=".spmat: tags that the queries ask for")
    p.add_argument("--rows", type=int, help="only the first rows")
    p.add_argument("--count", type=int, default=1000, help="queries")
    p.add_argument("--repeat", type=int, default=3, help="times that the clients ask each")
    p.add_argument("--repeat-filters", action="store_true", help="ask each in the same words")
    p.add_argument("--ef", type=lambda text: [int(v) for v in text.split(",")])
    p.add_argument("--until", type=float, default=1.1, help="end after the first with this recall")
    p.add_argument("--clients", type=int, default=64)
    p.add_argument("--collection", default="bench")
    p.add_argument("--field", default="vector")
    p.add_argument("--index", default="HNSW")
    p.add_argument("--fill", action="store_true", help="first insert all rows and build the index")
    p.add_argument("--json", action="store_true", help="one JSON object a line, and no tables")
    return p.parse_args()


def fill(a: argparse.Namespace, server: Server, bags: list[list[int]] | None) -> Row:
    """A collection with all rows, and how long that took."""
    client = pymilvus.MilvusClient(uri=server.uri)
    base, target = read_vectors(a.base, a.rows), Target(a.collection, a.field)
    create(client, target, base.shape[1], bags is not None)
    with watched(server) as memory:
        acknowledged = insert(client, target, base, bags)
        indexed = index(client, target, a.index, len(base))
    client.close()
    return {
        "server": server.name,
        "rows": len(base),
        "acknowledged_s": acknowledged,
        "rows_per_s": len(base) / acknowledged,
        "searchable_s": acknowledged + indexed,
        **memory,
    }


def measure(server: Server, clients: Clients, target: Target, a: Any, wanted: Asked) -> list[Row]:
    """One line for each length of the candidate list, after all clients have asked once."""
    client = pymilvus.MilvusClient(uri=server.uri)
    client.load_collection(target.collection)
    clients.run(server, target, wanted, a.ef[0], 1)
    rows = []
    for ef in a.ef:
        with watched(server) as memory:
            many = clients.run(server, target, wanted, ef, a.repeat)
        cpu = server.cpu_s()
        one = one_after_the_other(
            lambda query, ef=ef: target.search(client, wanted, query, ef),
            range(len(wanted.vectors)),
        )
        row = {"server": server.name, "ef": ef, **many, **one.columns, **memory}
        row["one_qps"] = len(one.seconds) / one.seconds.sum()
        row["one_cpu_us"] = server.cpu_us_each(cpu, len(one.seconds))
        rows.append(row)
        if row["recall"] >= a.until:
            break
    client.close()
    return rows


def main() -> None:
    """Fills and measures one server after the other."""
    a = arguments()
    bags = read_bags(a.tags, a.rows) if a.tags else None
    filled: list[Row] = []
    measured: list[Row] = []
    # Forked now, when pymilvus is imported and nothing is connected.
    with Clients(a.clients if a.ef else 0) as clients:
        if a.fill:
            filled = [fill(a, server, bags) for server in a.server]
        if a.ef:
            base, queries = read_vectors(a.base, a.rows), read_vectors(a.queries, a.count)
            if bags is None:
                wanted = asked(base, queries)
            else:
                wanted = asked_for_tags(base, bags, queries, read_bags(a.tag_queries, a.count))
            target = Target(a.collection, a.field, a.repeat_filters)
            for server in a.server:
                measured += measure(server, clients, target, a, wanted)
    if a.json:
        for row in filled + measured:
            print(json.dumps(row))
        return
    if filled:
        print_table("Filling", filled, FILL_COLUMNS)
    if measured:
        print_table("Searching", measured, COLUMNS)


if __name__ == "__main__":
    main()
