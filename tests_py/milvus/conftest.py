"""A running server for stock pymilvus. Skipped only where pymilvus is not installed."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

pymilvus = pytest.importorskip("pymilvus")

ROOT = Path(__file__).resolve().parents[2]


def binary() -> Path:
    """The command as cargo builds it for tests."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    found = target / "debug" / "pipeann"
    assert found.is_file(), f"{found} is missing; `cargo build --package pipeann-cli` makes it"
    return found


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a server with an empty database."""
    data = tmp_path_factory.mktemp("served")
    command = [binary(), "serve", "--data_dir", data, "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline().split()
        assert said[:2] == ["listening", "on"], said
        yield said[2]
        process.terminate()
        assert process.wait(timeout=30) == 0


@pytest.fixture
def client(address: str) -> Iterator["pymilvus.MilvusClient"]:
    """A client as applications make it."""
    connected = pymilvus.MilvusClient(uri=f"http://{address}", token="root:Milvus")
    yield connected
    connected.close()


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"c_{uuid.uuid4().hex[:12]}"
