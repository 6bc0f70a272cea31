"""`pipeann cluster demo`, as somebody tries it who wants to see several servers."""

import os

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clusters import binary
from pymilvus import MilvusClient, MilvusException


@contextmanager
def demo(*flags: str | Path, servers: int = 3) -> Iterator[tuple[Path, list[tuple[str, int]]]]:
    """Its directory, and of each server the URL and the process; ended by Ctrl-C."""
    command = [binary(), "cluster", "demo", "--port", "0", "--servers", str(servers), *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        folder = process.stdout.readline().strip().rpartition(" in ")[2]
        lines = [process.stdout.readline().split() for _ in range(servers)]
        assert process.stdout.readline().startswith("any client of Milvus")
        yield Path(folder), [(line[1].rstrip(","), int(line[-1])) for line in lines]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.stdout.close()


def runs(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False


def insert(into: MilvusClient, key: int) -> None:
    """Sends a row until it is answered: another server leads first where one was killed."""
    deadline = time.monotonic() + 60
    while True:
        try:
            into.insert("c", [{"id": key, "vector": [key, 1.0]}], timeout=10)
            return
        except MilvusException:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def keys(of: MilvusClient) -> list[int]:
    found = of.query("c", filter="id >= 0", consistency_level="Strong", timeout=30)
    return sorted(row["id"] for row in found)


def test_servers_of_one_database_go_on_when_one_is_killed() -> None:
    with demo() as (folder, servers):
        assert folder.is_dir()
        clients = [MilvusClient(uri=url) for url, _ in servers]
        clients[0].create_collection("c", dimension=2)
        insert(clients[1], 1)
        assert [keys(client) for client in clients] == [[1]] * 3
        os.kill(servers[0][1], signal.SIGKILL)
        insert(clients[1], 2)
        assert keys(clients[2]) == [1, 2]
        for client in clients:
            client.close()
    assert not folder.exists()
    assert not any(runs(process) for _, process in servers)


def test_a_directory_that_is_named_keeps_the_database(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with demo("--data-dir", kept, servers=1) as (folder, [(url, _)]):
        assert folder == kept
        client = MilvusClient(uri=url)
        client.create_collection("c", dimension=2)
        insert(client, 7)
        client.close()
    with demo("--data-dir", kept, servers=2) as (_, servers):
        clients = [MilvusClient(uri=url) for url, _ in servers]
        assert [keys(client) for client in clients] == [[7], [7]]
        for client in clients:
            client.close()


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    # With no etcd on its path.
    command = [binary(), "cluster", "demo", "--port", "0"]
    told = subprocess.run(
        command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60
    )
    assert told.returncode != 0 and "etcd is not on PATH: install it" in told.stderr
    for wrong, why in [
        (["--servers", "0"], "--servers is 0"),
        (["--servers", "9", "--port", "65530"], "there are no 9 ports from 65530 on"),
        (["--queries", "q.u8bin"], "--index"),
        (["--index", "i"], "--queries"),
    ]:
        command = [binary(), "cluster", "demo", *wrong]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert told.returncode != 0 and why in told.stderr, told.stderr

