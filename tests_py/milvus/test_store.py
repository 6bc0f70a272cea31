"""A server whose changes stand in a store: killed, or without its disk, it has all it answered."""

import subprocess
from pathlib import Path

from clusters import Server, binary, running
from pymilvus import MilvusClient


def client(server: Server) -> MilvusClient:
    return MilvusClient(uri=f"http://{server.address}")


def rows(of: MilvusClient, name: str) -> list[dict]:
    found = of.query(name, filter="id >= 0", output_fields=["id", "note", "vector"], limit=1000)
    return sorted(({**row} for row in found), key=lambda row: row["id"])


def test_nothing_that_was_answered_is_lost_with_the_disk(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", f"file://{tmp_path / 'store'}")
    with running(server):
        first = client(server)
        first.create_collection("c", dimension=4)
        first.insert("c", [{"id": i, "vector": [i, 1, 2, 3], "note": "a"} for i in range(200)])
        first.upsert("c", [{"id": 3, "vector": [0, 0, 0, 9], "note": "b"}])
        first.delete("c", ids=[4, 5])
        first.create_alias("c", "other")
        first.create_collection("gone", dimension=4)
        first.drop_collection("gone")
        before = rows(first, "c")
        first.close()
    assert len(before) == 198
    # Killed, with its disk; then without it.
    with running(server):
        second = client(server)
        assert rows(second, "other") == before
        second.insert("c", [{"id": 900, "vector": [9, 9, 9, 9], "note": "later"}])
        before = rows(second, "c")
        second.close()
    server.wipe()
    with running(server):
        third = client(server)
        assert rows(third, "other") == before
        assert third.list_collections() == ["c"]
        nearest = third.search("c", [[0, 0, 0, 9]], limit=1)[0][0]
        assert nearest["id"] == 3
        third.close()
        assert server.stop() == 0


def test_what_does_not_belong_together_is_refused_by_name(tmp_path: Path) -> None:
    data, store = tmp_path / "data", f"file://{tmp_path / 'store'}"
    with running(Server(data, store)):
        pass
    said = Server(tmp_path / "new", store, cluster="another").refused()
    assert "another" in said, said
    alone = [str(binary()), "serve", "--data_dir", str(data), "--port", "0"]
    ran = subprocess.run(alone, capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0 and "--cluster" in ran.stderr, ran.stderr
    said = Server(data, f"file://{tmp_path / 'elsewhere'}").refused()
    assert "belongs to the cluster" in said, said
    ran = subprocess.run([*alone, "--cluster", "one"], capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0 and "--store" in ran.stderr, ran.stderr
    assert "ftp" in Server(tmp_path / "new", "ftp://somewhere").refused()
    single = tmp_path / "single"
    with subprocess.Popen(
        [str(binary()), "serve", "--data_dir", str(single), "--host", "127.0.0.1", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        process.wait(timeout=30)
    assert "belongs to no cluster" in Server(single, store).refused()


def test_one_signal_ends_a_server_that_cannot_begin(tmp_path: Path) -> None:
    store = tmp_path / "store"
    server = Server(tmp_path / "data", f"file://{store}")
    with running(server):
        client(server).create_collection("c", dimension=4)
    server.wipe()
    newest = max(each for each in store.rglob("*") if each.is_file() and "log" in each.parts)
    newest.write_bytes(newest.read_bytes()[:-3])
    with subprocess.Popen(server.command(), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = ""
            while "trying again" not in said:
                said = process.stderr.readline()
                assert said, "it says what keeps it, and goes on"
            process.terminate()
            assert process.wait(timeout=60) == 130
        finally:
            process.kill()
