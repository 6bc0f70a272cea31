#!/usr/bin/env python3
"""Milvus Lite and pipeann's `MilvusClient`, both inside this process, by the same calls.

A store is `NAME=PATH`: a directory is pipeann's, a file that ends in `.db` is Milvus Lite's. Both
are called from threads of one interpreter; a probe from 1 to 64 threads shows what its lock leaves.
Milvus Lite takes no length of a candidate list into account, so it has one line.

    bench_milvus_lite_vs_pipeann_client.py --store pipeann=./data --store lite=./lite.db \\
        --base base.u8bin --queries q.u8bin --fill --ef 32,64,128,256
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench_load import (
    Asked,
    Row,
    Target,
    asked,
    create,
    index,
    insert,
    one_after_the_other,
    print_table,
    read_vectors,
)

COLUMNS = ["store", "ef", "recall", "threads", "qps", "one_qps", "p50_ms", "p99_ms", "one_cpu_us"]
PROBE = (1, 2, 4, 8, 16, 32, 64)
LITE = ".db"


def arguments() -> argparse.Namespace:
    """The command line."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--store", action="append", required=True, metavar="NAME=PATH")
    p.add_argument("--base", required=True, type=Path)
    p.add_argument("--queries", required=True, type=Path)
    p.add_argument("--rows", type=int, help="only the first rows")
    p.add_argument("--count", type=int, default=1000, help="queries")
    p.add_argument("--lite-count", type=int, default=200, help="queries to Milvus Lite")
    p.add_argument("--rounds", type=int, default=3, help="times that they are asked in turn")
    p.add_argument("--ef", type=lambda text: [int(v) for v in text.split(",")])
    p.add_argument("--threads", type=int, default=64)
    p.add_argument("--probe", action="store_true", help="also with 1 to 64 threads")
    p.add_argument("--collection", default="bench")
    p.add_argument("--field", default="vector")
    p.add_argument("--fill", action="store_true", help="first insert all rows and build the index")
    p.add_argument("--json", action="store_true", help="one JSON object a line, and no tables")
    return p.parse_args()


def opened(path: str) -> Any:
    """A client; which one is all that differs."""
    if path.endswith(LITE):
        from pymilvus import MilvusClient
    else:
        from pipeann import MilvusClient
    return MilvusClient(uri=path)


def by_threads(client: Any, target: Target, wanted: Asked, ef: int, threads: int) -> float:
    """Queries a second, dealt out to threads of this process."""
    whole = range(len(wanted.vectors))
    with ThreadPoolExecutor(threads) as pool:
        # One query a thread first, so that all are there.
        list(pool.map(lambda query: target.search(client, wanted, query, ef), whole[:threads]))
        began = time.perf_counter()
        shares = [whole[place::threads] for place in range(threads)]
        list(
            pool.map(
                lambda share: [target.search(client, wanted, query, ef) for query in share], shares
            )
        )
        return len(whole) / (time.perf_counter() - began)


def measure(name: str, client: Any, ef: int, a: argparse.Namespace, wanted: Asked) -> Row:
    """One query in flight, then many threads."""
    target = Target(a.collection, a.field)
    target.search(client, wanted, 0, ef)  # loads, and builds what is missing
    cpu = time.process_time()
    queries = list(range(len(wanted.vectors))) * a.rounds
    one = one_after_the_other(lambda query: target.search(client, wanted, query, ef), queries)
    cpu_us = (time.process_time() - cpu) / len(queries) * 1e6
    return {
        "store": name,
        "ef": ef,
        "recall": wanted.recall(one.found[: len(wanted.vectors)]),
        "threads": a.threads,
        "qps": by_threads(client, target, wanted, ef, a.threads),
        **one.columns,
        "one_qps": len(queries) / one.seconds.sum(),
        "one_cpu_us": cpu_us,
    }


def main() -> None:
    """Fills and measures one store after the other."""
    a = arguments()
    base, queries = read_vectors(a.base, a.rows), read_vectors(a.queries, a.count)
    whole = asked(base, queries)
    n = a.lite_count
    few = Asked(queries[:n], None, whole.farthest[:n], whole.expected[:n])
    target, rows, probed = Target(a.collection, a.field), [], []
    for name, _, path in (store.partition("=") for store in a.store):
        lite = path.endswith(LITE)
        client, wanted = opened(path), few if lite else whole
        if a.fill:
            create(client, target, base.shape[1], tags=False)
            insert(client, target, base, None)
            index(client, target, "AUTOINDEX" if lite else "HNSW", len(base))
        client.load_collection(a.collection)
        rows += [measure(name, client, ef, a, wanted) for ef in (a.ef or [])[: 1 if lite else None]]
        for threads in PROBE if a.probe and a.ef else ():
            qps = by_threads(client, target, wanted, a.ef[0], threads)
            probed.append({"store": name, "ef": a.ef[0], "probe_threads": threads, "qps": qps})
        client.close()
    if a.json:
        for row in rows + probed:
            print(json.dumps(row))
        return
    print(f"{os.cpu_count()} cores")
    print_table("Searching", rows, COLUMNS)
    print_table("Threads of one interpreter", probed, ["store", "ef", "probe_threads", "qps"])


if __name__ == "__main__":
    main()
