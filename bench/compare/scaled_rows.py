"""Rows of which each has a norm of its own, from 1 to 1e18, searched before and after they join the graph.

The rows of a file are brought to norms drawn evenly from the decades. They come either all at once,
or those of norm 1 first, which the graph is built of, and then the others. A query is a row of the
file brought to a norm likewise; what is right is told by exact distances in 64 bits, where a hit
counts once, and if it is no farther than the k-th but for what 32 bits cannot tell apart. A JSON
line for each metric, order of coming and moment, with the rows that waited for the graph when the
last query had been answered: before they join, some have to.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from pipeann import MilvusClient

METRICS = ("L2", "IP", "COSINE")
K = 10
BATCH = 1000
# What sums of products in 32 bits are off by, as a share of the products of the norms.
ROUNDING = 1e-5
DECADES = 19


def vectors(path: Path, first: int, count: int) -> np.ndarray:
    """Vectors of a file, as 64-bit floats of norm 1; rows of zeros are left out."""
    _, dim = (int(n) for n in np.fromfile(path, dtype=np.uint32, count=2))
    kind = {".u8bin": np.uint8, ".i8bin": np.int8, ".fbin": np.float32}[path.suffix]
    offset = 8 + first * dim * np.dtype(kind).itemsize
    found = np.memmap(path, dtype=kind, mode="r", offset=offset, shape=(count, dim))
    rows = found.astype(np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(norms > 0, norms, 1))[norms[:, 0] > 0]


def scaled(rows: np.ndarray, decades: np.ndarray) -> np.ndarray:
    """The rows with these norms, as they are stored."""
    return (rows * 10.0 ** decades[:, None]).astype(np.float32)


def losses(metric: str, query: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """How far the rows are, the nearest first the least."""
    if metric == "L2":
        return ((rows - query) ** 2).sum(axis=1)
    products = rows @ query
    if metric == "IP":
        return -products
    return 1 - products / (np.linalg.norm(rows, axis=1) * np.linalg.norm(query))


def recall(metric: str, queries: np.ndarray, rows: np.ndarray, answers: list[list[int]]) -> float:
    """The share of the nearest that are among the hits, each of which counts once."""
    norms = np.linalg.norm(rows, axis=1)
    right = 0
    for query, ids in zip(queries, answers, strict=True):
        far = losses(metric, query, rows)
        norm = np.linalg.norm(query)
        off = {"L2": (norms + norm) ** 2, "IP": norms * norm, "COSINE": np.ones_like(norms)}
        kth = np.partition(far, K - 1)[K - 1]
        found = np.unique(np.array(ids, dtype=np.int64))
        right += int((far[found] <= kth + ROUNDING * off[metric][found]).sum())
    return right / (K * len(queries))


class Store:
    """A collection in a directory of its own."""

    def __init__(self, folder: str, dim: int, metric: str) -> None:
        """Makes the collection."""
        self.client = MilvusClient(uri=folder)
        self.client.create_collection("rows", dimension=dim, metric_type=metric)
        self.client.load_collection("rows")
        self.refused = 0

    def insert(self, rows: np.ndarray, ids: np.ndarray) -> None:
        """Inserts rows in batches; a batch that is refused counts as its rows."""
        for first in range(0, len(ids), BATCH):
            part = slice(first, first + BATCH)
            pairs = zip(ids[part], rows[part], strict=True)
            data = [{"id": int(i), "vector": row} for i, row in pairs]
            try:
                self.client.insert("rows", data)
            except Exception as error:
                print(json.dumps({"refusal": str(error)}), flush=True)
                self.refused += len(data)

    def join(self) -> None:
        """Waits until all rows are in the graph."""
        while self.waiting() or self.told()["state"] != "Finished":
            time.sleep(0.1)

    def told(self) -> dict[str, Any]:
        """What is said of the index."""
        return self.client.describe_index("rows", "vector")

    def waiting(self) -> int:
        """Rows that are not in the graph yet."""
        return int(self.told()["pending_index_rows"])

    def search(self, queries: np.ndarray) -> list[list[int]]:
        """The nearest, with the parameters that a collection has of itself."""
        answers: list[list[int]] = []
        for first in range(0, len(queries), 100):
            batch = list(queries[first : first + 100])
            found = self.client.search("rows", data=batch, limit=K)
            answers += [[hit["id"] for hit in hits] for hits in found]
        return answers


def main() -> None:
    """Searches."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--base", required=True, type=Path)
    p.add_argument("--rows", type=int, default=20_000)
    p.add_argument("--queries", type=int, default=500)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--metric", choices=METRICS, action="append")
    a = p.parse_args()
    random = np.random.default_rng(a.seed)
    units = vectors(a.base, 0, a.rows)
    asked = vectors(a.base, a.rows, a.queries)
    decades = random.integers(0, DECADES, len(units))
    rows = scaled(units, decades)
    # Half of them are rows that are stored.
    queries = scaled(asked, random.integers(0, DECADES, len(asked)))
    queries[::2] = rows[random.choice(len(rows), len(queries[::2]), replace=False)]
    exact, exact_queries = rows.astype(np.float64), queries.astype(np.float64)
    ids = np.arange(len(rows))
    for metric in a.metric or METRICS:
        for order in ("at once", "later"):
            with tempfile.TemporaryDirectory() as folder:
                store = Store(folder, rows.shape[1], metric)
                first = ids if order == "at once" else ids[decades == 0]
                rest = ids[:0] if order == "at once" else ids[decades > 0]
                if len(rest):
                    # A graph of rows that are alike in length.
                    more = np.arange(len(rows), len(rows) + a.rows // 2) % len(units)
                    alike = scaled(units[more], np.zeros(len(more)))
                    store.insert(alike, len(rows) + np.arange(len(more)))
                    store.insert(rows[first], first)
                    store.join()
                    store.client.delete("rows", filter=f"id >= {len(rows)}")
                    store.insert(rows[rest], rest)
                else:
                    store.insert(rows, ids)
                for moment in ("before", "after"):
                    if moment == "after":
                        store.join()
                    answers = store.search(queries)
                    said = {"metric": metric, "order": order, "moment": moment}
                    said |= {"waiting": store.waiting(), "refused": store.refused}
                    said["recall"] = recall(metric, exact_queries, exact, answers)
                    print(json.dumps(said), flush=True)
                store.client.close()


if __name__ == "__main__":
    main()
