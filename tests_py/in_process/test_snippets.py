"""First programs run as they are printed, and what surrounds them: two clients, forks, kills."""

import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pymilvus import MilvusException
from pymilvus.exceptions import ParamError

from pipeann import MilvusClient, errors


def test_the_first_program(tmp_path: Path) -> None:
    client = MilvusClient(uri=str(tmp_path / "pipeann-data"))
    client.create_collection("demo", dimension=128, metric_type="L2")
    data = [
        {"id": "v1", "vector": np.random.rand(128).tolist(), "color": "red", "price": 42},
        {"id": "v2", "vector": np.random.rand(128).tolist(), "color": "blue", "price": 99},
    ]
    client.insert("demo", data)
    results = client.search(
        "demo",
        data=[data[1]["vector"]],
        limit=5,
        search_params={"params": {"L": 64}},
        output_fields=["color", "price"],
    )
    assert [hit["id"] for hit in results[0]] == ["v2", "v1"]
    assert results[0][0]["entity"] == {"color": "blue", "price": 99}
    results = client.search("demo", data=[data[1]["vector"]], filter="price < 80", limit=5)
    assert [hit["id"] for hit in results[0]] == ["v1"]
    rows = client.query("demo", filter="color == 'red'", output_fields=["color", "price"])
    assert list(rows) == [{"id": "v1", "color": "red", "price": 42}]
    assert client.count("demo") == 2
    client.delete("demo", ids=["v1"])
    client.flush("demo")
    assert client.count("demo") == 1
    assert client.describe_collection("demo")["properties"] == {}
    client.close()


def test_a_schema_of_plain_dicts(client: Any) -> None:
    schema = {
        "auto_id": False,
        "fields": [
            {"name": "id", "dtype": "VARCHAR", "is_primary": True, "params": {"max_length": 64}},
            {"name": "vector", "dtype": "FLOAT_VECTOR", "params": {"dim": 128}},
            {"name": "category", "dtype": "VARCHAR", "params": {"max_length": 128}},
            {"name": "price", "dtype": "FLOAT"},
        ],
    }
    client.create_collection("products", schema=schema, metric_type="L2")
    vector = np.random.rand(128)
    client.insert("products", {"id": "a", "vector": vector, "category": "x", "price": 7.5})
    (hits,) = client.search("products", [vector], filter="price < 80 and category == 'x'")
    assert [(hit["id"], hit["distance"]) for hit in hits] == [("a", 0.0)]
    with pytest.raises(ParamError, match="'VARCHER' is no data type"):
        client.create_collection("p", schema={"fields": [{"name": "id", "dtype": "VARCHER"}]})


def test_a_schema_that_says_nothing_of_indexes_is_readable(client: Any) -> None:
    fields = [
        {"name": "id", "dtype": "INT64", "is_primary": True},
        {"name": "v", "dtype": "FLOAT_VECTOR", "params": {"dim": 4}},
    ]
    client.create_collection("c", schema={"fields": fields})
    client.insert("c", [{"id": 1, "v": [1, 0, 0, 0]}])
    assert client.search("c", [[1.0, 0.0, 0.0, 0.0]])[0].ids == [1]
    client.create_index("c")
    assert client.list_indexes("c") == ["v"]


def test_the_graph_is_built_by_the_first_search(client: Any) -> None:
    vectors = np.random.default_rng(3).random((3000, 16), dtype=np.float32)
    for name in ("read", "asked"):
        client.create_collection(name, 16, metric_type="L2")
        client.insert(name, [{"id": at, "vector": v} for at, v in enumerate(vectors)])
        (index,) = client._collection(name).describe()["indexes"]
        assert index["state"] == "not_built"
    assert client.search("read", vectors[7:8], limit=1)[0].ids == [7]
    client.create_index("asked")
    for name in ("read", "asked"):
        assert client._collection(name).wait_for_index("vector").linked == 3000
        assert client.search(name, vectors[9:10], limit=1)[0].ids == [9]


def test_keys_are_what_the_first_insert_has(client: Any) -> None:
    client.create_collection("c", dimension=4)
    client.insert("c", {"id": 1, "vector": [1, 0, 0, 0]})
    with pytest.raises(MilvusException):
        client.insert("c", {"id": "text", "vector": [1, 0, 0, 0]})
    client.create_collection("d", dimension=4)
    client.insert("d", {"id": "text", "vector": [1, 0, 0, 0]})
    client.create_collection("d", dimension=4)
    assert client.get("d", "text")[0]["vector"] == [1, 0, 0, 0]


def test_first_rows_of_many_threads_are_all_kept(client: Any) -> None:
    for attempt in range(10):
        name = f"c{attempt}"
        client.create_collection(name, dimension=4)
        kept = []

        def insert(key: int | str, name: str = name, kept: list[Any] = kept) -> None:
            try:
                client.insert(name, {"id": key, "vector": [1, 0, 0, 0]})
                kept.append(key)
            except MilvusException:
                pass  # The others decided on another type.

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(insert, [1, "one", 2, "two"]))
        assert len(kept) == 2
        assert sorted(row["id"] for row in client.get(name, kept)) == sorted(kept)


def test_clients_of_a_directory_share_it(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    first, second = MilvusClient(path), MilvusClient(uri=path)
    first.create_collection("c", 4)
    assert second.has_collection("c")
    first.insert("c", {"id": 1, "vector": [1, 0, 0, 0]})
    first.close()
    first.close()
    assert second.count("c") == 1
    assert second.list_collections() == ["c"]
    with pytest.raises(MilvusException, match="closed"):
        first.count("c")
    with pytest.raises(errors.InputError, match="other options"):
        MilvusClient(path, threads=7)
    second.close()
    with MilvusClient(path) as third:
        assert third.count("c") == 1


def test_a_database_of_the_directory_is_chosen(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    with MilvusClient(path) as client:
        client.create_database("own")
        client.use_database("own")
        client.create_collection("c", 4)
        client.insert("c", {"id": 1, "vector": [1, 0, 0, 0]})
        assert client.count("c") == 1
    with MilvusClient(path, db_name="own") as client:
        assert client.list_collections() == ["c"]
        assert client.count("c") == 1
    with pytest.raises(MilvusException, match="database not found"):
        MilvusClient(path, db_name="missing")
    with pytest.raises(errors.InputError, match="is an address"):
        MilvusClient("http://localhost:19530")


def run(path: Path, program: str, *, check: bool = True) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(path)],
        capture_output=True,
        text=True,
        check=check,
        timeout=120,
        env={**os.environ, "GRPC_VERBOSITY": "NONE"},
    )


def test_a_forked_child_is_refused_and_the_parent_goes_on(tmp_path: Path) -> None:
    ran = run(
        tmp_path / "data",
        """
        import os, sys
        from pipeann import MilvusClient, errors
        client = MilvusClient(sys.argv[1])
        client.create_collection("c", 4)
        client.insert("c", {"id": 1, "vector": [1, 0, 0, 0]})
        pid = os.fork()
        if pid == 0:
            refused = 0
            for call in (lambda: client.count("c"), lambda: client.list_collections()):
                try:
                    call()
                except errors.ForkedError:
                    refused += 1
            try:
                MilvusClient(sys.argv[1])
            except errors.LockedError:
                refused += 1
            client.close()
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
        assert client.count("c") == 1
        assert client.list_collections() == ["c"]
        """,
    )
    assert ran.returncode == 0


def test_a_program_that_closes_nothing_ends_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data"
    run(
        path,
        """
        import sys
        from pipeann import MilvusClient
        client = MilvusClient(sys.argv[1])
        client.create_collection("c", 4)
        client.insert("c", [{"id": at, "vector": [at, 0, 0, 1]} for at in range(100)])
        """,
    )
    with MilvusClient(str(path)) as client:
        assert client.count("c") == 100


def test_a_killed_process_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    path = tmp_path / "data"
    killed = run(
        path,
        """
        import os, signal, sys
        from pipeann import MilvusClient
        client = MilvusClient(sys.argv[1])
        client.create_collection("c", 4)
        client.insert("c", [{"id": at, "vector": [at, 0, 0, 1]} for at in range(100)])
        client.delete("c", ids=[7])
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    with MilvusClient(str(path)) as client:
        assert client.count("c") == 99
        assert client.search("c", [[8.0, 0, 0, 1]], limit=1)[0].ids == [8]


def test_text_keys_are_taken_as_they_are(tmp_path: Path) -> None:
    client = MilvusClient(uri=str(tmp_path / "d"))
    client.create_collection("k", dimension=2, id_type="string", max_length=64)
    keys = ["O'Brien", "C:\\new\\table", "x'] or id not in ['", "plain"]
    client.insert("k", [{"id": key, "vector": [n, 1.0]} for n, key in enumerate(keys)])
    for key in keys:
        assert [row["id"] for row in client.get("k", ids=[key])] == [key]
    assert {row["id"] for row in client.get("k", ids=keys)} == set(keys)
    client.close()
