"""Collections of a server whose graphs are on raw SSDs, for which files stand in."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pymilvus import DataType, MilvusClient
from ssds import COPIED, PIPEANN, claimed, content, copies

ROWS, DIM = 3000, 16
VECTORS = np.random.default_rng(5).random((ROWS + 100, DIM), dtype=np.float32)
QUERIES = VECTORS[:40] + np.float32(0.001)
FILTERS = ["", "price < 300", "color == 'red' and price >= 100"]
COLORS = ["red", "green", "blue"]
# A copy was made.
MADE = ".pages to the SPDK devices"
# Those of a second round of rows, and of rows that go.
LATER, GONE = range(ROWS, ROWS + 100), range(0, 60, 2)


@contextmanager
def started(folder: Path, backend: str, *flags: str) -> Iterator[tuple[MilvusClient, Path, int]]:
    """A client of a server, what the server says, and its process."""
    said = folder / f"{backend}.log"
    command = [PIPEANN, "serve", "--data_dir", "data", "--host", "127.0.0.1", "--port", "0"]
    command += ["--backend", backend, *flags]
    with said.open("w") as log, subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().split()
            assert line[:2] == ["listening", "on"], said.read_text()
            client = MilvusClient(uri=f"http://{line[2]}")
            yield client, said, process.pid
            client.close()
        finally:
            process.terminate()
        assert process.wait(timeout=60) == 0, said.read_text()


@contextmanager
def serving(folder: Path, backend: str) -> Iterator[tuple[MilvusClient, Path]]:
    """A client of a server, and what the server says."""
    with started(folder, backend) as (client, said, _):
        yield client, said


def places(pid: int, name: str) -> set[str]:
    """On which processors threads of this name may run; what ends meanwhile is left out."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            status = (task / "status").read_text().splitlines()
            if status[0].split()[1] == name:
                line = next(each for each in status if each.startswith("Cpus_allowed_list:"))
                found.add(line.split()[1])
    return found


def until(said: Path, *words: str) -> None:
    """Waits until the server has said one of these."""
    deadline = time.monotonic() + 120
    while not any(word in said.read_text() for word in words):
        assert time.monotonic() < deadline, said.read_text()
        time.sleep(0.02)


def rows(numbers: range) -> list[dict[str, Any]]:
    return [
        {"id": i, "vector": VECTORS[i].tolist(), "color": COLORS[i % 3], "price": i % 1000}
        for i in numbers
    ]


def fill(client: MilvusClient) -> None:
    """A collection with a graph over rows that are on disk."""
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIM)
    schema.add_field("color", DataType.VARCHAR, max_length=8)
    schema.add_field("price", DataType.INT64)
    client.create_collection("c", schema=schema)
    client.insert("c", rows(range(ROWS)))
    client.flush("c")
    index = client.prepare_index_params()
    index.add_index("vector", index_type="DISKANN", metric_type="L2")
    client.create_index("c", index)
    client.load_collection("c")


def answers(client: MilvusClient) -> list[Any]:
    """Of all queries with each filter: keys, distances and values."""
    found = []
    for condition in FILTERS:
        hits = client.search(
            "c", data=QUERIES.tolist(), limit=10, filter=condition, output_fields=["price"],
            search_params={"params": {"search_list": 200}}, consistency_level="Strong",
        )
        found.append([[(h["id"], h["distance"], h["entity"]["price"]) for h in of] for of in hits])
    return found


def exact(present: list[int], condition: str) -> list[set[int]]:
    """The nearest ten rows of each query that match."""
    def matches(i: int) -> bool:
        price, color = i % 1000, COLORS[i % 3]
        of = {"": True, FILTERS[1]: price < 300, FILTERS[2]: color == "red" and price >= 100}
        return of[condition]

    ids = np.array([i for i in present if matches(i)])
    distances = ((VECTORS[ids][None] - QUERIES[:, None]) ** 2).sum(axis=2)
    return [set(ids[np.argsort(of)[:10]].tolist()) for of in distances]


def check(found: list[Any], present: list[int]) -> None:
    """Answers of a server against what is nearest."""
    for condition, of_queries in zip(FILTERS, found, strict=True):
        expected = exact(present, condition)
        met = sum(
            len({hit[0] for hit in hits} & want)
            for hits, want in zip(of_queries, expected, strict=True)
        )
        assert met >= 0.97 * 10 * len(expected), (condition, met)
        kept = set(present)
        assert all(hit[0] in kept for hits in of_queries for hit in hits)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    claimed(tmp_path)
    return tmp_path


def test_collections_are_read_from_the_devices_and_answer_as_from_files(folder: Path) -> None:
    with serving(folder, "spdk") as (client, said):
        fill(client)
        until(said, MADE)
        first = answers(client)
    check(first, list(range(ROWS)))
    held = copies(folder)
    assert held and all(copy["segment"].startswith("segment-") for copy in held)
    # The second start finds its copies and writes nothing, whatever is searched.
    before = content(folder)
    with serving(folder, "spdk") as (client, said):
        assert COPIED in said.read_text()
        again = answers(client)
    assert content(folder) == before
    with serving(folder, "io_uring") as (client, _):
        assert answers(client) == again == first
    assert content(folder) == before


def test_pages_that_differ_on_the_devices_are_met(folder: Path) -> None:
    """Proof that collections read there: what was written over their copies is met, and answered exactly."""
    with serving(folder, "spdk") as (client, said):
        fill(client)
        until(said, MADE)
    for name in ("a.raw", "b.raw"):
        with (folder / name).open("r+b") as f:
            f.seek(1 << 20)
            f.write(bytes(8 << 20))
    with serving(folder, "spdk") as (client, said):
        check(answers(client), list(range(ROWS)))
        until(said, "a graph is damaged")
    with serving(folder, "io_uring") as (client, _):
        check(answers(client), list(range(ROWS)))


def test_rows_that_come_and_go_are_copied_behind_it(folder: Path) -> None:
    with serving(folder, "spdk") as (client, said):
        fill(client)
        until(said, MADE)
        client.insert("c", rows(LATER))
        assert client.delete("c", ids=list(GONE))["delete_count"] == len(GONE)
        present = sorted((set(range(ROWS)) | set(LATER)) - set(GONE))
        check(answers(client), present)
        client.flush("c")
        check(answers(client), present)
        client.compact("c")
    # Once more, so that whatever was written at the end is copied.
    with serving(folder, "spdk") as (client, said):
        until(said, COPIED, MADE)
        found = answers(client)
        check(found, present)
    with serving(folder, "io_uring") as (client, _):
        assert answers(client) == found


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
@pytest.mark.parametrize("pin", ["on", "off"])
def test_searches_and_links_run_behind_the_pollers(tmp_path: Path, pin: str) -> None:
    """With one device, and processors enough for it and one more thread."""
    claimed(tmp_path, names=("a.raw",), pin=pin)
    whole = places(os.getpid(), Path("/proc/self/comm").read_text().strip())
    first, second = (str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:2])
    with started(tmp_path, "spdk") as (client, said, pid):
        fill(client)
        until(said, MADE)
        answers(client)
        pollers, searches = places(pid, "raw-poller-0"), places(pid, "search")
        if pin == "off":
            assert pollers == searches == places(pid, "pipeann") == whole
            return
        assert pollers == {first} and second in searches
        assert first not in searches and not whole & searches
        # Threads that link come and go, named as what has begun them, which is not pinned.
        linking: set[str] = set()
        deadline = time.monotonic() + 120
        while not linking:
            assert time.monotonic() < deadline
            client.upsert("c", rows(range(500)))
            for _ in range(20):
                linking |= places(pid, "behind") - whole
                time.sleep(0.002)
        assert first not in linking and len(linking) == 1


def test_reads_of_devices_are_told_as_metrics(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def told() -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            lines = page.read().decode().splitlines()
        series = (line.rsplit(" ", 1) for line in lines if line.startswith("pipeann_device_"))
        return {name: float(value) for name, value in series}

    with started(folder, "spdk", "--metrics-port", port) as (client, said, _):
        fill(client)
        until(said, MADE)
        before = told()
        answers(client)
        after = told()
    for device in ("0", "1"):
        reads = f'pipeann_device_reads_total{{device="{device}"}}'
        assert after[reads] > before[reads]
        assert after[f'pipeann_device_errors_total{{device="{device}"}}'] == 0
        assert after[f'pipeann_device_reads_from_files_total{{device="{device}"}}'] == 0
    with started(folder, "io_uring", "--metrics-port", port) as _:
        assert told() == {}, "none without devices"


def test_devices_that_cannot_be_used_are_told_of(folder: Path) -> None:
    (folder / "spdk_bdevs.json").write_text('{"ssds": ["./absent.raw"]}')
    command = [PIPEANN, "serve", "--data_dir", "data", "--port", "0", "--backend", "spdk"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "absent.raw" in done.stderr, done.stderr
    assert not (folder / "data").exists()
