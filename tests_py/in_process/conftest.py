"""Clients of directories, and a real server to compare with."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pymilvus = pytest.importorskip("pymilvus")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Any]:
    """A client of an empty directory."""
    from pipeann import MilvusClient

    with MilvusClient(uri=str(tmp_path / "data")) as opened:
        yield opened


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a server with an empty database."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    binary = target / "debug" / "pipeann"
    assert binary.is_file(), f"{binary} is missing; `cargo build --package pipeann-cli` makes it"
    data = tmp_path_factory.mktemp("served")
    command = [binary, "serve", "--data_dir", data, "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline().split()
        assert said[:2] == ["listening", "on"], said
        yield said[2]
        process.terminate()
        assert process.wait(timeout=30) == 0


@pytest.fixture
def doors(client: Any, address: str) -> Iterator[Callable[[], tuple[Any, Any]]]:
    """The client of a directory, and stock pymilvus's of a server whose collections are dropped."""
    stock = pymilvus.MilvusClient(uri=f"http://{address}")
    for name in stock.list_collections():
        stock.drop_collection(name)
    yield client, stock
    stock.close()
