"""Vectors, exact truth and recall for the rivals' scripts, and what a process has spent.

The layouts are those of the Big ANN benchmarks.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

TYPES = {".u8bin": np.uint8, ".i8bin": np.int8, ".fbin": np.float32}


def read_bin(path: str | Path) -> np.ndarray:
    """A `.u8bin`, `.i8bin` or `.fbin` file as an array of rows x dimension."""
    path = Path(path)
    dtype = TYPES[path.suffix]
    rows, dim = (int(v) for v in np.fromfile(path, dtype="<u4", count=2))
    return np.fromfile(path, dtype=dtype, offset=8).reshape(rows, dim)


METRICS = ("l2", "ip", "cosine")


def add_metric(p: argparse.ArgumentParser) -> None:
    """How vectors are compared."""
    p.add_argument("--metric", choices=METRICS, default="l2")


def of_length_one(rows: np.ndarray) -> np.ndarray:
    """Rows whose L2 and inner products order as their cosines do, for what knows no cosine."""
    wide = rows.astype(np.float32)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(norms == 0, 1, norms)


@dataclass(frozen=True)
class Truth:
    """Exact neighbours of each query, nearest first."""

    ids: np.ndarray
    distances: np.ndarray

    @classmethod
    def read(cls, path: str | Path) -> Truth:
        queries, k = (int(v) for v in np.fromfile(path, dtype="<u4", count=2))
        count = queries * k
        ids = np.fromfile(path, dtype="<u4", offset=8, count=count)
        distances = np.fromfile(path, dtype="<f4", offset=8 + 4 * count, count=count)
        return cls(ids.reshape(queries, k), distances.reshape(queries, k))

    def recall(self, found: np.ndarray) -> float:
        """Mean share of the k nearest among `found` (queries x k ids).

        An id as near as the k-th neighbour counts: ties are not misses.
        """
        k = found.shape[1]
        hits = 0
        for row, ids, distances in zip(found, self.ids, self.distances, strict=False):
            near = ids[distances <= distances[k - 1]]
            hits += min(k, np.isin(row, near).sum())
        return float(hits) / found.size


@dataclass
class Spent:
    """Wall and CPU seconds of this process (all threads) since it was made."""

    wall: float = field(default_factory=time.perf_counter)
    usage: resource.struct_rusage = field(
        default_factory=lambda: resource.getrusage(resource.RUSAGE_SELF)
    )

    def so_far(self) -> dict[str, float]:
        """`wall_s`, `user_s`, `sys_s`, `cpu_s` and `peak_rss_bytes` until now."""
        now = resource.getrusage(resource.RUSAGE_SELF)
        user = now.ru_utime - self.usage.ru_utime
        system = now.ru_stime - self.usage.ru_stime
        return {
            "wall_s": time.perf_counter() - self.wall,
            "user_s": user,
            "sys_s": system,
            "cpu_s": user + system,
            "peak_rss_bytes": now.ru_maxrss * 1024,
        }


def latency_columns(seconds: np.ndarray) -> dict[str, float]:
    """Mean, median and 99th percentile of per-query times, in microseconds."""
    micros = np.sort(np.asarray(seconds)) * 1e6
    return {
        "mean_us": float(micros.mean()),
        "p50_us": float(micros[int(0.50 * (len(micros) - 1))]),
        "p99_us": float(micros[int(0.99 * (len(micros) - 1))]),
    }


def search_arguments(description: str | None, breadth: str) -> argparse.Namespace:
    """The arguments of a script that searches a graph in memory; `breadth` is its parameter."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--index", required=True, type=Path)
    p.add_argument("--queries", required=True)
    p.add_argument("--truth", required=True)
    p.add_argument("--k", type=int, default=10)
    p.add_argument("--list", required=True, help=f"values of {breadth}: 16,32,64")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--warm-up", type=int, default=200, help="queries before the clock starts")
    add_metric(p)
    return p.parse_args()


def print_searches(
    system: str,
    arguments: argparse.Namespace,
    queries: np.ndarray,
    search: Callable[[np.ndarray, int], np.ndarray],
) -> None:
    """Print one JSON line for each breadth.

    `search` takes queries and a breadth and returns ids (queries x k). All queries go into a
    single call, so that the cost of calling from Python is not charged to the system."""
    truth = Truth.read(arguments.truth)
    for breadth in (int(word) for word in arguments.list.split(",")):
        search(queries[: arguments.warm_up], breadth)
        spent = Spent()
        found = search(queries, breadth)
        cost = spent.so_far()
        row = {
            "system": system,
            "list": breadth,
            "threads": arguments.threads,
            "queries": len(queries),
            "recall": truth.recall(found),
            "qps": len(queries) / cost["wall_s"],
            "mean_us": cost["wall_s"] * 1e6 * arguments.threads / len(queries),
            "cpu_us": cost["cpu_s"] * 1e6 / len(queries),
            "peak_rss_bytes": cost["peak_rss_bytes"],
        }
        print(json.dumps(row), flush=True)


def leave_cost(cost: dict[str, object], folder: Path) -> None:
    """Print what a build took, and leave it as `cost.json` beside the index.

    It is written last, so that its presence means that the build finished."""
    (folder / "cost.json").write_text(json.dumps(cost) + "\n")
    print(json.dumps(cost))
