"""What programs import beside the client comes from one place, and without pymilvus the error says
what to install."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pymilvus
import pytest

import pipeann

ROOT = Path(__file__).resolve().parents[2]
# As the specification's tests and most programs of Milvus have them; some versions lack the last.
NAMES = [
    "AnnSearchRequest",
    "CollectionSchema",
    "DataType",
    "FieldSchema",
    "Function",
    "FunctionType",
    "Hit",
    "Hits",
    "IndexType",
    "MilvusException",
    "RRFRanker",
    "SearchResult",
    "Status",
    "WeightedRanker",
    "FieldOp",
    "LexicalHighlighter",
    "SemanticHighlighter",
]
OWN = {"AsyncMilvusClient", "Collection", "Index", "MilvusClient", "__version__"}
# Connections, the older objects behind them, what these answer with, functions that ask a server.
OF_SERVERS = {
    "Connections",
    "DefaultConfig",
    "Group",
    "MutationFuture",
    "Partition",
    "Prepare",
    "Replica",
    "ResourceGroupInfo",
    "Role",
    "SearchFuture",
    "Shard",
    "connections",
    "create_resource_group",
    "create_user",
    "db",
    "delete_user",
    "describe_resource_group",
    "drop_collection",
    "drop_resource_group",
    "has_collection",
    "has_partition",
    "index_building_progress",
    "list_collections",
    "list_resource_groups",
    "list_usernames",
    "loading_progress",
    "reset_password",
    "transfer_node",
    "transfer_replica",
    "update_password",
    "update_resource_groups",
    "utility",
    "wait_for_index_building_complete",
    "wait_for_loading_complete",
}


def bounds() -> str:
    """What the extra of the package asks for."""
    text = (ROOT / "pyproject.toml").read_text()
    found = re.search(r'^milvus = \["(.+)"\]$', text, re.MULTILINE)
    assert found is not None
    return found[1]


def ran(program: str) -> str:
    """What a program says."""
    command = [sys.executable, "-c", textwrap.dedent(program)]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_program_imports_from_one_place(tmp_path: Path) -> None:
    from pipeann import CollectionSchema, DataType, FieldSchema, MilvusClient

    fields = [
        FieldSchema("id", DataType.INT64, is_primary=True),
        FieldSchema("vector", DataType.FLOAT_VECTOR, dim=4),
    ]
    with MilvusClient(str(tmp_path / "data")) as client:
        client.create_collection("demo", schema=CollectionSchema(fields))
        client.insert("demo", [{"id": 1, "vector": [1.0, 0.0, 0.0, 0.0]}])
        assert client.count("demo") == 1


@pytest.mark.parametrize("name", NAMES)
def test_names_are_those_of_pymilvus(name: str) -> None:
    stock = getattr(pymilvus, name, None)
    if stock is None:
        with pytest.raises(AttributeError, match=re.escape(pymilvus.__version__)):
            getattr(pipeann, name)
        return
    assert getattr(pipeann, name) is stock


def test_all_that_pymilvus_has_is_handed_on_or_left_out_on_purpose() -> None:
    names = set(pymilvus.__all__)
    handed = {name for name in names - OWN - OF_SERVERS if hasattr(pipeann, name)}
    assert names - OWN - OF_SERVERS - handed == set()
    assert all(getattr(pipeann, name) is getattr(pymilvus, name) for name in handed)


def test_what_needs_a_server_or_is_our_own_is_not_pymilvus_s() -> None:
    for name in ("connections", "utility"):
        with pytest.raises(ImportError):
            exec(f"from pipeann import {name}")
    assert pipeann.Collection is not pymilvus.Collection
    assert pipeann.Index is not pymilvus.Index


def test_pymilvus_is_imported_only_when_it_is_needed() -> None:
    said = ran(
        """
        import sys
        import pipeann
        print("pymilvus" in sys.modules)
        from pipeann import DataType
        print("pymilvus" in sys.modules)
        """
    )
    assert said.split() == ["False", "True"]


@pytest.mark.parametrize("name", ["MilvusClient", "AsyncMilvusClient", "DataType", "FieldSchema"])
def test_without_pymilvus_the_error_says_what_to_install(name: str) -> None:
    said = ran(
        f"""
        import sys
        sys.modules["pymilvus"] = None
        import pipeann
        try:
            from pipeann import {name}
        except ImportError as error:
            print(error)
        """
    )
    assert f"`pip install '{bounds()}'`" in said


def test_an_older_pymilvus_is_refused_by_its_version() -> None:
    said = ran(
        """
        import pymilvus
        pymilvus.__version__ = "2.4.15"
        try:
            from pipeann import MilvusClient
        except ImportError as error:
            print(error)
        """
    )
    assert "2.4.15 is too old" in said
    assert f"`pip install '{bounds()}'`" in said


def test_clients_that_nobody_closes_are_no_burden_to_the_next(tmp_path: Path) -> None:
    for _ in range(4):
        client = pipeann.MilvusClient(str(tmp_path / "data"))
        # Over the socket, as all that is not searched or read.
        assert client.list_users(timeout=20) == ["root"]
        del client


def test_a_library_is_given_this_client_in_the_place_of_pymilvus_s(tmp_path: Path) -> None:
    said = ran(
        f"""
        import pipeann, pymilvus
        pymilvus.MilvusClient = pipeann.MilvusClient
        client = pymilvus.MilvusClient({str(tmp_path / "data")!r})
        client.create_collection("demo", dimension=4, timeout=20)
        print(client.list_collections(timeout=20))
        """
    )
    assert said.strip() == "['demo']"


def test_a_socket_s_path_is_never_taken_for_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some versions of pymilvus do so where they are given no name.
    from pipeann.milvus import opened

    given = []

    def connect(self: object, *_args: object, **kwargs: object) -> None:
        given.append(kwargs["db_name"])
        self.__dict__["_using"] = "somewhere"

    monkeypatch.setattr(opened._STOCK, "__init__", connect)
    monkeypatch.setattr(opened._STOCK, "close", lambda self: None)
    with pipeann.MilvusClient(str(tmp_path / "data")) as client:
        assert client._using == "somewhere"
    assert given == ["default"]
