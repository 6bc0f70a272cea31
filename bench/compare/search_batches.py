"""A server searched by requests of many queries each, from a few threads of one process.

What a request costs beside its queries is shared by all of them, so that the rate is that of the
searches. One round is not measured; of the others the median is printed, as a JSON line.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from pymilvus import MilvusClient

COLLECTION, FIELD = "bench", "vector"
TYPES = {".u8bin": np.uint8, ".i8bin": np.int8, ".fbin": np.float32}
BATCH = 100
K = 10


def vectors(path: Path, count: int) -> np.ndarray:
    """The first vectors of a file, as floats."""
    rows, dim = np.fromfile(path, dtype=np.uint32, count=2)
    shape = (min(int(rows), count), int(dim))
    found = np.memmap(path, dtype=TYPES[path.suffix], mode="r", offset=8, shape=shape)
    return found.astype(np.float32)


def peak_rss_bytes(pid: str) -> int:
    """The most memory that a process has had resident."""
    said = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", said)
    assert found is not None
    return int(found[1]) * 1024


def main() -> None:
    """Asks a server."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--server", required=True, help="NAME=URI@PID")
    p.add_argument("--queries", required=True, type=Path)
    p.add_argument("--count", type=int, default=2000)
    p.add_argument("--ef", type=int, required=True)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    uri, _, pid = a.server.partition("=")[2].partition("@")
    asked = vectors(a.queries, a.count)
    batches = [list(asked[first : first + BATCH]) for first in range(0, len(asked), BATCH)]
    client = MilvusClient(uri=uri)
    client.load_collection(COLLECTION)
    params = {"metric_type": "L2", "params": {"ef": a.ef}}

    def ask(batch: list[np.ndarray]) -> int:
        found = client.search(
            COLLECTION, data=batch, anns_field=FIELD, limit=K, search_params=params
        )
        return sum(len(hits) for hits in found)

    rates = []
    with ThreadPoolExecutor(a.threads) as threads:
        for _ in range(a.rounds + 1):
            begun = time.perf_counter()
            found = sum(threads.map(ask, batches))
            rates.append(len(asked) / (time.perf_counter() - begun))
            assert found == K * len(asked), "as many hits as were asked for"
    rate = statistics.median(rates[1:])
    print(json.dumps({"qps": rate, "rates": rates, "peak_rss_bytes": peak_rss_bytes(pid)}))


if __name__ == "__main__":
    main()
