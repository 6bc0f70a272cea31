"""One server whose etcd asks for a certificate and a user, and whose S3 is encrypted, as people have them."""

import importlib.util
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clusters import Server, binary, free_port, running, until
from etcds import GuardedEtcd
from outages import client, connected

if importlib.util.find_spec("moto") is None:
    pytest.skip("moto is missing; the extra `test` has it", allow_module_level=True)


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """Of one authority, for all of them."""
    out = tmp_path / "certificates"
    command = [binary(), "cluster", "certificates", "--cluster", "one", "--host", "127.0.0.1"]
    subprocess.run([*command, "--out", out], check=True, capture_output=True)
    return out


@contextmanager
def bucket(certificates: Path, log: Path) -> Iterator[str]:
    """The address of S3 as moto speaks it, over TLS, with a bucket."""
    port = free_port()
    identity = certificates / "127.0.0.1.pem", certificates / "127.0.0.1.key"
    command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--ssl-cert", str(identity[0]), "--ssl-key", str(identity[1])]
    url = f"https://127.0.0.1:{port}"
    make = urllib.request.Request(f"{url}/bucket", method="PUT")
    make.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=x/1/us-east-1/s3/aws4")
    with log.open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said) as moto:
        context = GuardedEtcd.tls(certificates)

        def made() -> bool:
            assert moto.poll() is None, log.read_text()
            try:
                urllib.request.urlopen(make, context=context, timeout=5).close()
            except urllib.error.URLError:
                return False
            return True

        try:
            until("S3", made)
            yield url
        finally:
            moto.kill()


@pytest.fixture
def etcd(tmp_path: Path, certificates: Path) -> Iterator[GuardedEtcd]:
    made = GuardedEtcd(tmp_path / "etcd", certificates)
    try:
        made.start()
        made.guard()
        yield made
    finally:
        made.kill()


def test_a_server_reaches_an_etcd_with_users_and_an_encrypted_bucket(
    tmp_path: Path,
    certificates: Path,
    etcd: GuardedEtcd,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with bucket(certificates, tmp_path / "moto") as url:
        for name, value in {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            # Whom this machine trusts.
            "SSL_CERT_FILE": str(certificates / "ca.pem"),
        }.items():
            monkeypatch.setenv(name, value)
        server = Server(tmp_path / "data", "s3://bucket/some/prefix", *etcd.flags())
        server.port = free_port()
        with running(server):
            of = client(server)
            of.create_collection("c", dimension=2, consistency_level="Strong")
            of.insert("c", [{"id": key, "vector": [float(key), 1.0]} for key in range(50)])
            of.close()
        # All of it stands in the bucket.
        server.wipe()
        with running(server):
            of = connected(server)
            found = of.query("c", filter="id >= 0", output_fields=["count(*)"])
            assert found[0]["count(*)"] == 50
            of.close()
            assert server.stop() == 0
        refuses(server, etcd, monkeypatch)


def refuses(server: Server, etcd: GuardedEtcd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another password, no certificate, and an authority that nobody trusts are told of by name."""
    flags = list(server.flags)
    for flag, value, says in [
        ("--etcd-user", "root:guess", "etcd"),
        ("--etcd-user", "nobody:etcd-secret", "etcd"),
    ]:
        server.flags[flags.index(flag) + 1] = value
        assert says in server.refused()
        server.flags = list(flags)
    without = ["--etcd-cert", str(etcd.certificates / "client.pem")]
    without += ["--etcd-key", str(etcd.certificates / "client.key")]
    server.flags = [word for word in flags if word not in without]
    assert "etcd" in server.refused()
    server.flags = flags
    monkeypatch.setenv("SSL_CERT_FILE", "/dev/null")
    assert "store" in server.refused()
