"""What people who run several servers of one database do with them."""

import base64
import json
import re
import signal
import subprocess
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from clusters import ROOT, Cluster, Server, binary, free_port, running, until
from outages import Balancer, client, leader
from pymilvus import MilvusClient, MilvusException

METRICS = ROOT / "docs" / "guide" / "metrics.md"
DASHBOARD = ROOT / "deploy" / "grafana" / "pipeann-servers.json"


def row(key: int) -> dict:
    return {"id": key, "vector": [key, 1, 2, 3]}


def keys(of: MilvusClient) -> set[int]:
    found = of.query("c", filter="id >= 0", limit=16384, consistency_level="Strong")
    return {each["id"] for each in found}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, 3)
    for server in made.servers:
        server.watched = free_port()
    with made.running():
        yield made


def named(figures: dict[str, float]) -> set[str]:
    """Names of metrics, without labels and what histograms add."""
    names = {name.split("{")[0] for name in figures}
    return {re.sub("_(bucket|sum|count)$", "", name) for name in names}


def status(cluster: Cluster) -> dict:
    return json.loads(cluster.command("status", "--json").stdout)


def test_figures_of_servers_are_told_and_written_down(cluster: Cluster) -> None:
    first = client(cluster.servers[0])
    first.create_collection("c", dimension=4)
    for key in range(30):
        client_of = first if key % 2 else client(cluster.servers[key % 3])
        client_of.insert("c", [row(key)])
    leads = leader(cluster)
    follows = next(server for server in cluster.servers if server is not leads)
    of_leader, of_other = leads.figures(), follows.figures()
    assert (of_leader["pipeann_cluster_leads"], of_other["pipeann_cluster_leads"]) == (1, 0)
    assert of_leader["pipeann_cluster_log_written"] > 30
    assert of_other["pipeann_cluster_log_written"] == 0
    assert of_leader["pipeann_cluster_log_age_seconds"] == 0
    assert of_leader["pipeann_cluster_term"] == of_other["pipeann_cluster_term"] > 0
    assert of_leader["pipeann_cluster_commit_changes_count"] > 30
    assert of_leader["pipeann_cluster_commit_bytes_sum"] > 30 * 16
    assert of_leader['pipeann_cluster_commit_seconds_bucket{le="+Inf"}'] > 30
    assert of_leader['pipeann_store_requests_total{operation="put"}'] > 30
    assert of_leader['pipeann_store_bytes_total{operation="put"}'] > 0
    assert of_leader["pipeann_lease_left_seconds"] > 0
    forwarded = sum(
        server.figures()['pipeann_forwarded_calls_total{reason="leader"}']
        for server in cluster.servers
    )
    assert forwarded > 0
    written = of_leader["pipeann_cluster_log_written"]
    until("the log", lambda: follows.figures()["pipeann_cluster_log_applied"] >= written)
    renewals = of_other["pipeann_lease_renewals_total"]
    until("a renewal", lambda: follows.figures()["pipeann_lease_renewals_total"] > renewals)
    # What the page lists is told, and what is told stands there.
    listed = set(re.findall(r"^\| `((?:pipeann|process)_\w+)`", METRICS.read_text(), re.MULTILINE))
    # Those of devices are told where there are raw ones, and the limit where there is one.
    absent = {name for name in listed if "_device_" in name} | {"pipeann_memory_limit_bytes"}
    # A failure is told when there was one.
    with pytest.raises(MilvusException):
        first.search("c", [[1.0, 2.0]])
    told = set().union(*(named(server.figures()) for server in cluster.servers))
    assert told == listed - absent


def test_the_dashboard_names_what_is_told() -> None:
    listed = set(re.findall(r"^\| `((?:pipeann|process)_\w+)`", METRICS.read_text(), re.MULTILINE))
    board = json.loads(DASHBOARD.read_text())
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    targets = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(targets) > 10
    for expression in targets:
        used = set(re.findall(r"\b(?:pipeann|process)_\w+", expression))
        assert used, expression
        of = {re.sub("_(bucket|sum|count)$", "", name) for name in used}
        assert of <= listed, (expression, of - listed)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_status_tells_who_is_there_and_what_is_wrong(cluster: Cluster) -> None:
    client(cluster.servers[0]).create_collection("c", dimension=4)
    leads = leader(cluster)
    until("all of the log", lambda: all(s["behind"] == 0 for s in status(cluster)["servers"]))
    found = status(cluster)
    assert [each["address"] for each in found["servers"] if each["leads"]] == [leads.address]
    assert {each["address"] for each in found["servers"]} == {s.address for s in cluster.servers}
    assert found["etcd"] == {"answers": True} and found["complaints"] == []
    assert found["store"]["log_begin"] == 1 and found["log_end"] == found["store"]["log_end"]
    table = cluster.command("status")
    assert table.returncode == 0, table.stderr
    for server in cluster.servers:
        assert server.address in table.stdout
    assert f"{leads.address} leads" in table.stdout
    # One that hangs is there by its lease, and says nothing.
    assert leads.process is not None
    hangs = next(server for server in cluster.servers if server is not leads)
    assert hangs.process is not None
    # Just renewed, so that it lasts until it was looked at.
    until("a lease", lambda: hangs.figures()["pipeann_lease_left_seconds"] > 3)
    hangs.process.send_signal(signal.SIGSTOP)
    try:
        asked = cluster.command("status", "--within", "1")
    finally:
        hangs.process.send_signal(signal.SIGCONT)
    assert asked.returncode == 1
    assert f"{hangs.address} does not answer" in asked.stderr
    # Nothing of a cluster that there is not begins by being looked at.
    made = [
        str(binary()),
        "cluster",
        "status",
        "--store",
        cluster.store,
        "--etcd",
        cluster.etcd.url,
    ]
    other = subprocess.run([*made, "--cluster", "two"], capture_output=True, text=True, timeout=60)
    assert other.returncode == 1 and "two" in other.stderr


class Load:
    """Rows written and read through a balancer, with the SDK's own patience, and what failed."""

    def __init__(self, cluster: Cluster) -> None:
        self.uri = Balancer(cluster.servers).uri
        self.stop = threading.Event()
        self.answered: list[int] = []
        self.reads = 0
        self.failed: list[str] = []
        self.threads = [
            threading.Thread(target=of, args=(number,), daemon=True)
            for number, of in enumerate([self.write, self.write, self.read])
        ]

    def write(self, thread: int) -> None:
        of, key = MilvusClient(uri=self.uri), thread * 1_000_000
        while not self.stop.is_set():
            key += 1
            try:
                of.insert("c", [row(key)])
                self.answered.append(key)
            except MilvusException as error:
                self.failed.append(str(error))

    def read(self, _thread: int) -> None:
        of = MilvusClient(uri=self.uri)
        while not self.stop.is_set():
            try:
                of.search("c", [[1, 1, 2, 3]], limit=3)
                self.reads += 1
            except MilvusException as error:
                self.failed.append(str(error))

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def goes_on(self) -> None:
        """Waits for more answers of both kinds."""
        written, read = len(self.answered), self.reads
        until("answers", lambda: len(self.answered) > written + 20 and self.reads > read + 20)

    def end(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()


def test_servers_that_are_drained_end_without_an_error(cluster: Cluster) -> None:
    client(cluster.servers[0]).create_collection("c", dimension=4)
    load = Load(cluster)
    load.start()
    load.goes_on()
    for how in ["drain", "signal", "drain"]:
        leads = leader(cluster)
        assert leads.process is not None
        if how == "drain":
            done = cluster.command("drain", leads.address)
            assert done.returncode == 0, done.stderr
            assert "has ended" in done.stdout
            assert leads.process.wait(timeout=60) == 0
            leads.kill()
        else:
            assert leads.stop() == 0
        load.goes_on()
        assert leader(cluster) is not leads
        leads.start()
        # What is asked of a process is not asked of the next one.
        load.goes_on()
        assert leads.process is not None and leads.process.poll() is None
    load.end()
    assert load.failed == []
    assert set(load.answered) <= keys(client(cluster.servers[0]))
    unknown = cluster.command("drain", "nobody")
    assert unknown.returncode == 1 and "no server nobody" in unknown.stderr


def test_the_last_server_is_not_drained_by_mistake(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 1)
    with cluster.running():
        refused = cluster.command("drain", cluster.servers[0].address)
        assert refused.returncode == 1 and "--last" in refused.stderr
        done = cluster.command("drain", cluster.servers[0].address, "--last")
        assert done.returncode == 0, done.stderr


def put_into_etcd(cluster: Cluster, key: str, value: bytes, lease: int) -> None:
    ask(cluster, "kv/put", {"key": b64(key.encode()), "value": b64(value), "lease": str(lease)})


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def ask(cluster: Cluster, call: str, body: dict) -> dict:
    """One call of etcd, by its gateway."""
    request = urllib.request.Request(
        f"{cluster.etcd.url}/v3/{call}", json.dumps(body).encode(), {"content-type": "text/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_a_server_does_not_join_beside_one_that_cannot_read_what_it_writes(
    tmp_path: Path,
) -> None:
    cluster = Cluster(tmp_path, 2)
    one, two = cluster.servers
    try:
        cluster.etcd.start()
        with running(one):
            # A server of a version to come, which reads no format of today.
            lease = int(ask(cluster, "lease/grant", {"TTL": "600"})["ID"])
            told = {
                "format": 1,
                "id": str(uuid.uuid4()),
                "instance": str(uuid.uuid4()),
                "name": "tomorrow",
                "address": "127.0.0.1:9",
                "peer_address": "127.0.0.1:9",
                "version": "9.0.0",
                "formats": {"writes": 3, "oldest_read": 2, "newest_read": 3},
                "started_ms": 1,
            }
            key = f"/pipeann/one/servers/{told['id']}"
            put_into_etcd(cluster, key, json.dumps(told).encode(), lease)
            said = two.refused()
            assert "tomorrow at 127.0.0.1:9, of version 9.0.0" in said
            assert "this one writes 1" in said
            # One that reads today's is welcome, also where it tells more than is known here.
            told["formats"] = {"writes": 1, "oldest_read": 1, "newest_read": 9, "more": [1]}
            put_into_etcd(cluster, key, json.dumps(told).encode(), lease)
            with running(two):
                assert any(each["name"] == "tomorrow" for each in status(cluster)["servers"])
    finally:
        cluster.etcd.kill()


def moment() -> str:
    """Now, so that nothing before or after has the same millisecond."""
    time.sleep(0.01)
    now = datetime.now(timezone.utc)
    time.sleep(0.01)
    return now.isoformat(timespec="milliseconds")


def test_a_moment_comes_back_from_the_store(cluster: Cluster, tmp_path: Path) -> None:
    early = moment()
    of = client(cluster.servers[0])
    of.create_collection("c", dimension=4)
    of.insert("c", [row(key) for key in range(50)])
    at = moment()
    of.delete("c", ids=[1, 2])
    of.insert("c", [row(key) for key in range(50, 60)])
    made = tmp_path / "made"
    done = cluster.command("restore", "--at", at, "--to", str(made), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["changes"] >= 2
    alone = Server(made, "")
    alone.flags = []
    with running(alone):
        assert keys(client(alone)) == set(range(50))
    # The cluster did not notice.
    assert keys(of) == set(range(60)) - {1, 2}
    other = f"file://{tmp_path / 'other'}"
    done = cluster.command("restore", "--at", at, "--into", other, "--as", "other")
    assert done.returncode == 0, done.stderr
    again = Server(tmp_path / "again", other, cluster="other")
    with running(again):
        assert keys(client(again)) == set(range(50))
    for words, why in [
        (["--at", early, "--to", str(tmp_path / "none")], "the earliest moment is 20"),
        (["--at", "2999-01-01T00:00:00Z", "--to", str(tmp_path / "none")], "yet to come"),
        (["--at", at, "--to", str(made)], "is not empty"),
        (["--at", at, "--into", other, "--as", "other"], "is not empty"),
        (["--at", "yesterday", "--to", str(tmp_path / "none")], "is no moment"),
    ]:
        refused = cluster.command("restore", *words)
        assert refused.returncode != 0 and why in refused.stderr, refused.stderr
        assert not (tmp_path / "none").exists()
