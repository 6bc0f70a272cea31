"""Paths that Milvus Lite would take, and files that it has left."""

import os
import shlex
import sqlite3
import subprocess
from pathlib import Path

import pytest

from pipeann import MilvusClient
from pipeann.errors import InputError

ROOT = Path(__file__).resolve().parents[2]


def field(tag: int, value: int | bytes) -> bytes:
    """A field of a message of protobuf: a number below 128, or bytes fewer than that."""
    if isinstance(value, int):
        return bytes([tag << 3, value])
    return bytes([tag << 3 | 2, len(value)]) + value


def lite_file(path: Path) -> None:
    """A file of Milvus Lite with two rows of an empty schema's key and vector."""
    key = field(1, 100) + field(2, b"id") + field(3, 1) + field(5, 5)
    dim = field(6, field(1, b"dim") + field(2, b"2"))
    vector = field(1, 101) + field(2, b"v") + field(5, 101) + dim
    schema = field(1, b"rows") + field(4, key) + field(4, vector)
    of_index = [(b"index_type", b"FLAT"), (b"metric_type", b"L2")]
    pairs = b"".join(field(5, field(1, name) + field(2, value)) for name, value in of_index)
    index = field(1, 101) + field(3, b"v") + pairs
    with sqlite3.connect(path) as file:
        file.execute(
            "CREATE TABLE collection_meta (id INTEGER PRIMARY KEY, collection_name VARCHAR(1024), "
            "meta_type VARCHAR(1024), blob_field BLOB, string_field VARCHAR(1024))"
        )
        file.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, milvus_id VARCHAR, data BLOB)")
        add = "INSERT INTO collection_meta VALUES (NULL, 'rows', ?, ?, ?)"
        file.execute(add, ("schema", schema, "id"))
        file.execute(add, ("index", index, "v"))
        for number in (1, 2):
            long = field(3, field(3, field(1, bytes([number]))))
            floats = field(4, field(1, 2) + field(2, field(1, bytes(8))))
            values = field(1, field(2, b"id") + long), field(1, field(2, b"v") + floats)
            record = b"".join(values) + field(2, 1)
            file.execute("INSERT INTO rows VALUES (NULL, ?, ?)", (str(number), record))
    file.close()


def test_a_path_that_is_not_there_becomes_a_directory_whatever_its_ending(tmp_path: Path) -> None:
    path = tmp_path / "milvus_demo.db"
    with MilvusClient(str(path)) as client:
        client.create_collection("demo", dimension=2)
        client.insert("demo", [{"id": 1, "vector": [0.0, 1.0]}])
    assert path.is_dir()
    with MilvusClient(str(path)) as client:
        assert client.list_collections() == ["demo"]


def test_a_file_of_milvus_lite_is_refused_with_the_command_that_takes_it_over(
    tmp_path: Path,
) -> None:
    path = tmp_path / "milvus demo.db"
    lite_file(path)
    with pytest.raises(InputError, match="is a file of Milvus Lite") as refused:
        MilvusClient(str(path))
    command = shlex.split(str(refused.value).split("`")[1])
    assert command[:3] == ["pipeann", "db", "import-milvus-lite"]
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    binary = target / "debug" / "pipeann"
    assert binary.is_file(), f"{binary} is missing; `cargo build --package pipeann-cli` makes it"
    subprocess.run([binary, *command[1:]], check=True, timeout=60)
    with MilvusClient(str(tmp_path / "milvus demo")) as client:
        rows = client.query("rows", filter="id > 0", output_fields=["id", "v"])
        assert [(row["id"], list(row["v"])) for row in rows] == [(1, [0.0, 0.0]), (2, [0.0, 0.0])]
        assert len(client.search("rows", [[0.0, 1.0]], limit=2)[0]) == 2


def test_other_files_and_directories_of_milvus_lite_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("notes")
    with pytest.raises(InputError, match="is a file; a database is a directory"):
        MilvusClient(str(path))
    (tmp_path / "three.db" / "collections").mkdir(parents=True)
    with pytest.raises(InputError, match="Milvus Lite 3"):
        MilvusClient(str(tmp_path / "three.db"))
    assert not (tmp_path / "three.db" / "CATALOG").exists()
