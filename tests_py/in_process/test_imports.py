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
# As the specification's tests and most programs of Milvus have them.
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
    "WeightedRanker",
]


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
