"""A server whose changes stand in a store: killed, and its disk emptied, it has all that it answered."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests_py.milvus.conftest import binary

pymilvus = pytest.importorskip("pymilvus")


def command(data: Path, store: str, cluster: str = "one") -> list[str]:
    flags = ["--host", "127.0.0.1", "--port", "0", "--cluster", cluster, "--store", store]
    return [str(binary()), "serve", "--data_dir", str(data), *flags]


@contextmanager
def serving(data: Path, store: str) -> Iterator[tuple["pymilvus.MilvusClient", subprocess.Popen]]:
    with subprocess.Popen(command(data, store), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline().split()
            assert said[:2] == ["listening", "on"], said
            client = pymilvus.MilvusClient(uri=f"http://{said[2]}")
            yield client, process
            client.close()
        finally:
            process.kill()
            process.wait(timeout=30)


def refused(data: Path, store: str, cluster: str = "one") -> str:
    ran = subprocess.run(command(data, store, cluster), capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0
    return ran.stderr


def rows(client: "pymilvus.MilvusClient", name: str) -> list[dict]:
    found = client.query(name, filter="id >= 0", output_fields=["id", "note", "vector"], limit=1000)
    return sorted(({**row} for row in found), key=lambda row: row["id"])


def test_nothing_that_was_answered_is_lost_with_the_disk(tmp_path: Path) -> None:
    data, store = tmp_path / "data", f"file://{tmp_path / 'store'}"
    with serving(data, store) as (client, process):
        client.create_collection("c", dimension=4)
        client.insert("c", [{"id": i, "vector": [i, 1, 2, 3], "note": "a"} for i in range(200)])
        client.upsert("c", [{"id": 3, "vector": [0, 0, 0, 9], "note": "b"}])
        client.delete("c", ids=[4, 5])
        client.create_alias("c", "other")
        client.create_collection("gone", dimension=4)
        client.drop_collection("gone")
        before = rows(client, "c")
        process.kill()
    assert len(before) == 198
    # Killed, with its disk; then without it.
    with serving(data, store) as (client, process):
        assert rows(client, "other") == before
        client.insert("c", [{"id": 900, "vector": [9, 9, 9, 9], "note": "later"}])
        before = rows(client, "c")
        process.kill()
    shutil.rmtree(data)
    with serving(data, store) as (client, process):
        assert rows(client, "other") == before
        assert client.list_collections() == ["c"]
        nearest = client.search("c", [[0, 0, 0, 9]], limit=1)[0][0]
        assert nearest["id"] == 3
        process.terminate()
        assert process.wait(timeout=30) == 0


def test_what_does_not_belong_together_is_refused_by_name(tmp_path: Path) -> None:
    data, store = tmp_path / "data", f"file://{tmp_path / 'store'}"
    with serving(data, store) as (client, _):
        client.create_collection("c", dimension=4)
    assert "another" in (said := refused(tmp_path / "new", store, "another")), said
    alone = [str(binary()), "serve", "--data_dir", str(data), "--port", "0"]
    ran = subprocess.run(alone, capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0 and "--cluster" in ran.stderr, ran.stderr
    said = refused(data, f"file://{tmp_path / 'elsewhere'}")
    assert "belongs to the cluster" in said, said
    flags = [str(binary()), "serve", "--data_dir", str(data), "--cluster", "one"]
    ran = subprocess.run(flags, capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0 and "--store" in ran.stderr, ran.stderr
    assert "ftp" in refused(tmp_path / "new", "ftp://somewhere")
    if os.geteuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        assert "ermission" in refused(tmp_path / "new", f"file://{tmp_path / 'locked' / 'store'}")
