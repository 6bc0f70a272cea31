"""Three servers of one database that show each other certificates, and ask clients who they are."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from clusters import Cluster, Server, binary, free_port, running, until
from copies import create as create_by_key
from copies import growing
from grpc import RpcError
from joins import fill
from outages import leader
from pymilvus import MilvusClient, MilvusException

TOKEN = "root:Milvus"
DIM = 16


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """What the guide's command makes."""
    out = tmp_path / "certificates"
    command = [binary(), "cluster", "certificates", "--cluster", "one", "--out", out]
    subprocess.run([*command, "--host", "127.0.0.1"], check=True, capture_output=True)
    return out


@pytest.fixture
def cluster(tmp_path: Path, made: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, 3)
    for server in cluster.servers:
        server.watched = free_port()
        server.flags += [
            *("--tls-cert", str(made / "127.0.0.1.pem"), "--tls-key", str(made / "127.0.0.1.key")),
            *("--peer-ca", str(made / "ca.pem"), "--tls-client-ca", str(made / "ca.pem")),
            "--authorization",
        ]
    with cluster.running():
        yield cluster


def client(server: Server, made: Path, token: str = TOKEN) -> MilvusClient:
    """A client of a server that may have been down until now."""
    found: list[MilvusClient] = []

    def connects() -> bool:
        with suppress(MilvusException):
            of = MilvusClient(
                uri=f"https://{server.address}",
                token=token,
                ca_pem_path=str(made / "ca.pem"),
                client_pem_path=str(made / "client.pem"),
                client_key_path=str(made / "client.key"),
                timeout=5,
            )
            of.list_collections()
            found.append(of)
        return bool(found)

    until("a connection", connects)
    return found[0]


def test_servers_that_show_certificates_do_all_that_others_do(cluster: Cluster, made: Path) -> None:
    rows = np.random.default_rng(5).integers(0, 255, (4_000, DIM)).astype(np.float32)
    clients = [client(server, made) for server in cluster.servers]
    create_by_key(clients[0], DIM)
    fill(clients[0], rows[:3_000])
    until("a graph everywhere", lambda: not any(map(growing, cluster.servers)))
    # Rows by any server, which sends them on; who follows asks the leader how they are linked.
    for first in range(3_000, 3_600, 50):
        some = [{"id": key, "v": rows[key]} for key in range(first, first + 50)]
        clients[first // 50 % 3].insert("c", some)

    def adopted() -> float:
        name = "pipeann_adopted_links_total"
        figures = [server.figures() for server in cluster.servers]
        return sum(n for found in figures for of, n in found.items() if of.startswith(name))

    until("links of the leader", lambda: adopted() > 0)
    # A user who is made at one server is known to all, and may do what he may.
    clients[1].create_user("reader", "secret-1")
    clients[2].create_role("reading")
    clients[2].grant_privilege_v2("reading", "Query", "c", "default")
    clients[0].grant_role("reader", "reading")
    for server in cluster.servers:
        reader = client(server, made, "reader:secret-1")
        key = reader.query("c", ids=[7], output_fields=["id"], consistency_level="Strong")
        assert [row["id"] for row in key] == [7]
        with pytest.raises(RpcError, match="permission deny"):
            reader.delete("c", ids=[7])
        reader.close()
    for each in clients:
        each.close()
    # Without its leader, and by whoever leads then.
    dead = leader(cluster)
    dead.kill()
    alive = [server for server in cluster.servers if server is not dead]
    first = client(alive[0], made)
    first.insert("c", [{"id": key, "v": rows[key]} for key in range(3_600, 4_000)], timeout=60)
    first.close()
    dead.start()
    for server in cluster.servers:
        of = client(server, made)
        near = of.search("c", rows[::400], limit=1, consistency_level="Strong")
        assert [hits[0]["id"] for hits in near] == list(range(0, 4_000, 400))
        of.close()


def test_who_shows_no_certificate_is_not_answered(cluster: Cluster, made: Path) -> None:
    server = cluster.servers[0]
    uri, ca = f"https://{server.address}", str(made / "ca.pem")
    with pytest.raises(MilvusException):
        # It knows the server; with `ca_pem_path` alone pymilvus would not.
        MilvusClient(uri=uri, token=TOKEN, server_pem_path=ca, secure=True, timeout=2)
    with pytest.raises(MilvusException):
        MilvusClient(uri=f"http://{server.address}", token=TOKEN, timeout=2)
    # Operators are clients.
    shown = ["--peer-ca", ca, "--token", TOKEN]
    shown += ["--tls-cert", str(made / "client.pem"), "--tls-key", str(made / "client.key")]
    told = cluster.command("status", *shown)
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("127.0.0.1:") >= 3, told.stdout
    drained = cluster.command("drain", leader(cluster).address, *shown)
    assert drained.returncode == 0, drained.stderr


def test_a_server_asks_what_the_others_ask_or_does_not_start(cluster: Cluster, made: Path) -> None:
    comes = cluster.server(3)
    plain = list(comes.flags)
    asked = cluster.servers[0].flags[len(plain) :]
    open_to_all = [word for word in asked if word != "--authorization"]
    comes.flags = plain + open_to_all
    assert "is there: it has --authorization, which this one lacks" in comes.refused()
    comes.flags = plain
    every = "--authorization, --peer-ca, --tls-cert, --tls-client-ca"
    assert f"it has {every}, which this one lacks" in comes.refused()
    comes.flags = [*plain, *open_to_all, "--token", "a-key"]
    assert "this one has --token, which it lacks" in comes.refused()
    # The others did not notice, and one that asks the same comes.
    comes.flags = plain + asked
    with running(comes):
        of = client(comes, made)
        of.create_collection("c", dimension=2, consistency_level="Strong")
        of.insert("c", [{"id": 1, "vector": [1.0, 2.0]}])
        of.close()
        assert comes.stop() == 0
    # What is asked changes when all have ended.
    for server in cluster.servers:
        assert server.stop() == 0
        server.flags = plain + open_to_all
    with running(*cluster.servers[:2]):
        of = client(cluster.servers[1], made, token="")
        assert [row["id"] for row in of.query("c", filter="id > 0")] == [1]
        of.close()
        # And neither does one join that asks more.
        comes.flags = plain + asked
        assert "this one has --authorization, which it lacks" in comes.refused()


@pytest.mark.parametrize("host", ["", "a/b", "a b", "-x", "ca", "[::1]", "h:1/"])
def test_what_is_no_host_gets_no_certificate(host: str, tmp_path: Path) -> None:
    out = tmp_path / "made"
    command = [binary(), "cluster", "certificates", "--cluster", "one", "--out", out]
    ran = subprocess.run([*command, f"--host={host}"], capture_output=True, text=True)
    assert ran.returncode != 0
    assert "host" in ran.stderr
    assert not out.exists()


def test_certificates_are_for_servers_of_one_kind(tmp_path: Path) -> None:
    out = tmp_path / "made"
    for words in [(), ("--host", "a"), ("--host", "a", "--host", "a", "--cluster", "one")]:
        command = [binary(), "cluster", "certificates", "--out", out, *words]
        assert subprocess.run(command, capture_output=True).returncode != 0
        assert not out.exists()
