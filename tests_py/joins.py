"""Servers that join a cluster on this machine, by the clock: three that begin, and a fourth with an empty
disk beside their rows.

Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from clusters import Cluster, Server, until, unwind_at_end
from outages import client
from pymilvus import DataType, MilvusClient, MilvusException

ROWS_AT_ONCE = 5000
# A build of a million rows takes long on a slow machine.
BUILD_S = 4 * 3600
# Many times what a copy of a million rows takes.
LOCAL_S = 3600


def vectors(path: Path, most: int) -> np.ndarray:
    """The first vectors of a file of bytes or floats."""
    kind = {".u8bin": "u1", ".i8bin": "i1", ".fbin": "<f4"}[path.suffix]
    with path.open("rb") as f:
        count, dim = struct.unpack("<II", f.read(8))
    mapped = np.memmap(path, dtype=kind, mode="r", offset=8, shape=(count, dim))
    return mapped[:most]


def add_metric(parser: argparse.ArgumentParser) -> None:
    """How rows are compared."""
    parser.add_argument("--metric", choices=["l2", "ip", "cosine"], default="l2")


def answered(server: Server, ask: list[float]) -> bool:
    """Whether a server answers a search."""
    with suppress(MilvusException):
        of = MilvusClient(uri=f"http://{server.address}", timeout=5)
        found = of.search("c", [ask], limit=1, timeout=5)
        of.close()
        return bool(found[0])
    return False


def fill(first: MilvusClient, rows: np.ndarray) -> None:
    """Inserts all rows, and waits until they are in the graph."""
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[begin : begin + ROWS_AT_ONCE].astype(np.float32)
        first.insert("c", [{"id": begin + i, "v": v} for i, v in enumerate(some)])
    first.flush("c")
    until(
        "the graph",
        lambda: first.describe_index("c", "v")["pending_index_rows"] == 0,
        seconds=BUILD_S,
    )


def bytes_below(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def copied(source: Path, target: Path) -> float:
    """How long a plain copy takes until it is on stable storage."""
    began = time.monotonic()
    shutil.copytree(source, target)
    for file in target.rglob("*"):
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    took = time.monotonic() - began
    shutil.rmtree(target)
    return took


def join(root: Path, base: Path, most: int, metric: str) -> dict:
    """Three servers to their first answers, and a fourth beside their rows."""
    rows = vectors(base, most)
    ask = rows[0].astype(np.float32).tolist()
    cluster = Cluster(root, 3)
    # So that the newest generation is not far behind, at any size.
    after = max(len(rows) * rows.shape[1] * 4 // 8, 1 << 20)
    for server in cluster.servers:
        server.flags += ["--generation-after", str(after)]
    began = time.monotonic()
    with cluster.running():
        first = client(cluster.servers[0])
        schema = MilvusClient.create_schema(auto_id=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("v", DataType.FLOAT_VECTOR, dim=rows.shape[1])
        index = first.prepare_index_params()
        index.add_index("v", index_type="DISKANN", metric_type=metric.upper())
        first.create_collection("c", schema=schema, index_params=index)
        first.insert("c", [{"id": 0, "v": ask}])
        for server in cluster.servers:
            until("an answer", lambda server=server: answered(server, ask))
        three_s = time.monotonic() - began
        first.delete("c", ids=[0])
        fill(first, rows)
        store = root / "store" / "manifest" / "0"
        until("a generation", lambda: store.is_dir() and any(store.iterdir()))
        # What is under way is published before anything is measured.
        newest: list[str] = []

        def rests() -> bool:
            nonlocal newest
            before, newest = newest, sorted(file.name for file in store.iterdir())
            time.sleep(5)
            return before == newest

        until("the last generation", rests, seconds=600)
        fourth = cluster.server(3)
        cluster.servers.append(fourth)
        began = time.monotonic()
        fourth.start()
        until("an answer", lambda: answered(fourth, ask))
        first_s = time.monotonic() - began
        said = fourth.says(LOCAL_S)
        local_s = time.monotonic() - began
        assert said.startswith("all data is at"), said
        back = client(fourth)
        found = back.query(
            "c", filter="", output_fields=["count(*)"], consistency_level="Eventually"
        )
        lacks = len(rows) - found[0]["count(*)"]
        described = back.describe_index("c", "v")
        back.close()
        first.close()
    copy_s = copied(fourth.data, root / "copy")
    return {
        "rows": len(rows),
        "three_s": three_s,
        "first_s": first_s,
        "local_s": local_s,
        "copy_s": copy_s,
        "bytes": bytes_below(fourth.data),
        "store_bytes": bytes_below(root / "store"),
        "lacks": lacks,
        "unlinked": described["pending_index_rows"],
    }


if __name__ == "__main__":
    unwind_at_end()
    parser = argparse.ArgumentParser()
    parser.add_argument("base", type=Path)
    parser.add_argument("rows", type=int)
    add_metric(parser)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeann-joins-") as made:
        print(json.dumps(join(Path(made), asked.base, asked.rows, asked.metric)))
