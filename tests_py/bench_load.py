"""What the benchmarks of the doors share: vectors, truth, calls of a client, timing.

Whatever is measured is reached by `MilvusClient` and the same calls; only the address differs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count as numbers
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

K = 10
BATCH = 5_000
QUERY_BLOCK = 250
TYPES = {".u8bin": np.uint8, ".i8bin": np.int8, ".fbin": np.float32}
Row = dict[str, Any]


def read_vectors(path: Path, rows: int | None = None) -> np.ndarray:
    """The first rows of a `.u8bin`, `.i8bin` or `.fbin` file, as float32."""
    have, dim = (int(v) for v in np.fromfile(path, dtype="<u4", count=2))
    count = min(rows or have, have)
    flat = np.fromfile(path, dtype=TYPES[path.suffix], offset=8, count=count * dim)
    return flat.reshape(count, dim).astype(np.float32)


def read_bags(path: Path, rows: int | None = None) -> list[list[int]]:
    """The tags of the first rows of a `.spmat` file."""
    have, _, entries = (int(v) for v in np.fromfile(path, dtype="<i8", count=3))
    count = min(rows or have, have)
    ends = np.fromfile(path, dtype="<i8", offset=24, count=count + 1)
    tags = np.fromfile(path, dtype="<i4", offset=24 + 8 * (have + 1), count=entries)
    return [tags[start:end].tolist() for start, end in pairwise(ends)]


@dataclass(frozen=True)
class Asked:
    """Queries, their filters where they have any, and how far the last right answer to each is."""

    vectors: np.ndarray
    filters: list[str] | None
    farthest: np.ndarray
    expected: np.ndarray

    def recall(self, found: Sequence[Sequence[float]]) -> float:
        """The share of the rows to be found among those found, by their distances: ties count."""
        near = [
            min(sum(d <= far for d in distances), wanted)
            for distances, far, wanted in zip(found, self.farthest, self.expected, strict=True)
        ]
        return float(sum(near) / self.expected.sum())


def asked(base: np.ndarray, queries: np.ndarray) -> Asked:
    """Queries without a filter, and the truth about them."""
    norms = (base**2).sum(axis=1)
    farthest = np.empty(len(queries))
    for start in range(0, len(queries), QUERY_BLOCK):
        block = queries[start : start + QUERY_BLOCK]
        squares = norms - 2 * (block @ base.T) + (block**2).sum(axis=1)[:, None]
        farthest[start : start + len(block)] = np.partition(squares, K - 1, axis=1)[:, K - 1]
    # Room for how sums are rounded; distances of bytes are whole numbers.
    return Asked(queries, None, farthest * (1 + 1e-6), np.full(len(queries), K))


def asked_for_tags(
    base: np.ndarray, bags: list[list[int]], queries: np.ndarray, wanted: list[list[int]]
) -> Asked:
    """Queries for rows that have all of some tags, and the truth; those that have an answer."""
    postings: dict[int, set[int]] = {}
    for row, bag in enumerate(bags):
        for tag in bag:
            postings.setdefault(tag, set()).add(row)
    filters, farthest, expected, kept = [], [], [], []
    for query, tags in enumerate(wanted):
        rows = sorted(set.intersection(*(postings.get(tag, set()) for tag in tags)))
        if not rows:
            continue
        near = np.sort(((base[rows] - queries[query]) ** 2).sum(axis=1))[:K]
        filters.append(f"array_contains_all(tags, {tags})")
        farthest.append(float(near[-1]) * (1 + 1e-6))
        expected.append(len(near))
        kept.append(query)
    return Asked(queries[kept], filters, np.array(farthest), np.array(expected))


WRITTEN = numbers()
# So many filters a process writes before one is as that of another process.
EACH = 1 << 32


def unseen(expression: str) -> str:
    """A filter as nobody wrote it before: white space behind it spells the process and a number,
    so that what a server keeps of filters, found by their text, does not help."""
    number = os.getpid() * EACH + next(WRITTEN)
    return expression + f"{number:b}".replace("0", " ").replace("1", "\t")


@dataclass(frozen=True)
class Target:
    """A collection, and the field that is searched; filters are new ones unless they repeat."""

    collection: str = "bench"
    field: str = "vector"
    repeats: bool = False

    def search(self, client: Any, asked: Asked, query: int, ef: int) -> list[float]:
        """The distances of what one query finds."""
        filtered = {}
        if asked.filters:
            text = asked.filters[query]
            filtered["filter"] = text if self.repeats else unseen(text)
        (hits,) = client.search(
            self.collection,
            data=[asked.vectors[query]],
            anns_field=self.field,
            limit=K,
            search_params={"metric_type": "L2", "params": {"ef": ef}},
            **filtered,
        )
        return [hit["distance"] for hit in hits]


def create(client: Any, target: Target, dim: int, tags: bool) -> None:
    """An empty collection, without an index."""
    from pymilvus import DataType

    if client.has_collection(target.collection):
        client.drop_collection(target.collection)
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field(target.field, DataType.FLOAT_VECTOR, dim=dim)
    if tags:
        schema.add_field("tags", DataType.ARRAY, element_type=DataType.INT64, max_capacity=4096)
    client.create_collection(target.collection, schema=schema)


def insert(client: Any, target: Target, base: np.ndarray, bags: list[list[int]] | None) -> float:
    """Inserts all rows, and returns the seconds until the last was acknowledged."""
    began = time.perf_counter()
    for start in range(0, len(base), BATCH):
        rows = [
            {"id": start + i, target.field: vector}
            for i, vector in enumerate(base[start : start + BATCH])
        ]
        if bags is not None:
            for row in rows:
                row["tags"] = bags[row["id"]]
        client.insert(target.collection, rows)
    return time.perf_counter() - began


def index(client: Any, target: Target, kind: str, count: int) -> float:
    """Builds the index of all rows and loads it, and returns the seconds until it answers."""
    from pymilvus import MilvusException

    began = time.perf_counter()
    client.flush(target.collection)
    wanted = client.prepare_index_params()
    params = {"M": 16, "efConstruction": 200} if kind == "HNSW" else {}
    wanted.add_index(target.field, index_type=kind, metric_type="L2", params=params)
    try:
        client.create_index(target.collection, wanted)
    except MilvusException as error:
        # A long call that lost its connection was sent again by the SDK; the first has built it.
        if "already exists" not in str(error):
            raise
    while True:
        # An embedded client has no such count: its index is there when the call returns.
        state = client.describe_index(target.collection, target.field)
        if not state.get("pending_index_rows") and state.get("indexed_rows", count) >= count:
            break
        time.sleep(0.2)
    client.load_collection(target.collection)
    client.query(target.collection, filter=f"id == {count - 1}", output_fields=["id"])
    return time.perf_counter() - began


@dataclass(frozen=True)
class Times:
    """How long each of some calls took, and what they found."""

    seconds: np.ndarray
    found: list[list[float]]

    @property
    def columns(self) -> Row:
        """The median and the 99th percentile, in milliseconds."""
        ordered = np.sort(self.seconds) * 1e3
        return {
            "p50_ms": float(ordered[int(0.50 * (len(ordered) - 1))]),
            "p99_ms": float(ordered[int(0.99 * (len(ordered) - 1))]),
        }


def one_after_the_other(call: Callable[[int], list[float]], queries: Sequence[int]) -> Times:
    """Calls in turn, each timed."""
    seconds, found = [], []
    for query in queries:
        began = time.perf_counter()
        found.append(call(query))
        seconds.append(time.perf_counter() - began)
    return Times(np.array(seconds), found)


def print_table(title: str, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Rows under a header."""
    print(f"\n{title}\n" + "".join(f"{name:>15}" for name in columns))
    for row in rows:
        values = (row.get(name, "-") for name in columns)
        print("".join(f"{v:>15.4g}" if isinstance(v, float) else f"{v!s:>15}" for v in values))
