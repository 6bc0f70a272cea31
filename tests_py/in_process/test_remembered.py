"""What the client of a directory remembers of a collection, and what ends it in between."""

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from pymilvus import MilvusException

from pipeann import Database, MilvusClient


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": i, "vector": [float(i), 1.0, 0.0, 0.0]} for i in range(count)]


def test_a_release_is_remembered(tmp_path: Path) -> None:
    with MilvusClient(str(tmp_path)) as client:
        client.create_collection("a", dimension=4)
        client.insert("a", rows(3))
        client.release_collection("a")
        assert client.describe_collection("a")["properties"] == {}
    with MilvusClient(str(tmp_path)) as client:
        with pytest.raises(MilvusException) as refused:
            client.query("a", filter="id >= 0")
        assert refused.value.code == 101
        client.load_collection("a")
        assert client.count("a") == 3
        # Creating it anew, which changes nothing, loads it, as in pymilvus.
        client.release_collection("a")
        client.create_collection("a", dimension=4)
    with MilvusClient(str(tmp_path)) as client:
        assert client.count("a") == 3


def test_a_metric_that_nobody_named_gives_way(client: Any) -> None:
    schema = {
        "fields": [
            {"name": "id", "dtype": "INT64", "is_primary": True},
            {"name": "vector", "dtype": "FLOAT_VECTOR", "dim": 4},
        ]
    }
    client.create_collection("a", schema=schema)
    client.insert("a", rows(5))
    hits = client.search("a", data=[[2.0, 1.0, 0.0, 0.0]], limit=1)[0]
    assert hits[0]["distance"] == pytest.approx(1.0), "by COSINE"
    params = client.prepare_index_params()
    params.add_index("vector", index_type="HNSW", metric_type="L2", M=8, efConstruction=64)
    client.create_index("a", params)
    hits = client.search("a", data=[[2.0, 1.0, 0.0, 0.0]], limit=2)[0]
    assert [hit["distance"] for hit in hits] == [0.0, 1.0], "by L2"
    assert client.describe_index("a", "vector")["metric_type"] == "L2"
    client.create_collection("a", schema=schema)
    # One that somebody has named stays.
    other = client.prepare_index_params()
    other.add_index("vector", index_type="HNSW", metric_type="IP", M=8, efConstruction=64)
    with pytest.raises(MilvusException, match="at most one distinct index"):
        client.create_index("a", other)


@pytest.mark.parametrize("step", ["drop_collection", "rename_collection"])
def test_a_kill_while_keys_become_texts_loses_no_collection(tmp_path: Path, step: str) -> None:
    """The process ends where the collection of texts is there, before or after the other one is
    gone."""
    program = f"""
        import os, sys
        from pipeann import MilvusClient
        from pipeann.milvus import homes

        client = MilvusClient(sys.argv[1])
        client.create_collection("a", dimension=4)
        if {step!r} == "drop_collection":
            MilvusClient.drop_collection = lambda *_args, **_kwargs: os._exit(9)
        else:
            class Ending:
                def __init__(self, inner):
                    self.inner = inner
                def __getattr__(self, name):
                    if name == "rename_collection":
                        os._exit(9)
                    return getattr(self.inner, name)
            client._home.database = Ending(client._home.database)
        client.insert("a", [{{"id": "x", "vector": [1.0, 2.0, 3.0, 4.0]}}])
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(tmp_path)])
    assert ended.returncode == 9
    with MilvusClient(str(tmp_path)) as client:
        assert client.list_collections() == ["a"]
        client.insert("a", [{"id": "x", "vector": [1.0, 2.0, 3.0, 4.0]}])
        assert [row["id"] for row in client.query("a", filter="id == 'x'")] == ["x"]


def test_names_of_others_are_left_alone(tmp_path: Path) -> None:
    with Database.open(tmp_path) as database:
        schema = [{"name": "id", "type": "int64", "primary_key": True}]
        schema.append({"name": "v", "type": "float_vector", "dim": 4})
        database.create_collection("_pipeann_mine", schema)
    with MilvusClient(str(tmp_path)) as client:
        assert client.list_collections() == ["_pipeann_mine"]
