"""The object store of a cluster over S3, as moto speaks it: a server for the test that Rust has."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

if importlib.util.find_spec("moto") is None:
    pytest.skip("moto is missing; the extra `test` has it", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (tmp_path_factory.mktemp("moto") / "log").open("wb")
    command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 60
        while True:
            assert server.poll() is None, Path(log.name).read_text()
            try:
                # S3's own call that makes a bucket.
                make = urllib.request.Request(f"{url}/bucket", method="PUT")
                make.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=x/1/us-east-1/s3/aws4")
                urllib.request.urlopen(make, timeout=5).close()
                break
            except OSError:
                assert time.monotonic() < until, Path(log.name).read_text()
                time.sleep(0.1)
        yield url
    finally:
        server.kill()
        server.wait()
        log.close()


def test_a_log_and_generations_over_s3(endpoint: str) -> None:
    settings = {
        "PIPEANN_TEST_S3": "s3://bucket/some/prefix",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    # As the tests of Rust were compiled, so nothing is compiled again.
    command = ["cargo", "test", "--quiet", "--locked", "--workspace", "--test", "s3"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | settings, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
