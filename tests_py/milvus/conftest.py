"""A running server for stock pymilvus. Skipped only where pymilvus is not installed."""

import os
import subprocess
import uuid
from collections.abc import Iterator

import pytest
from clusters import binary

pymilvus = pytest.importorskip("pymilvus")


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a server with an empty database; `$PIPEANN_ADDRESS` names one that runs."""
    if named := os.environ.get("PIPEANN_ADDRESS"):
        yield named
        return
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
