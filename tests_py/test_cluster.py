"""`pipeann.cluster.Client` against servers that are processes, as a stranger would use it."""

import itertools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeann import Index, errors
from pipeann.cluster import Client

ROOT = Path(__file__).resolve().parents[1]
SERVERS = 3
ROWS = 3000
DIM = 24

# Clusters of other tests and of other runs listen elsewhere.
_addresses = itertools.count(1)


def binary() -> Path:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    found = target / "debug" / "pipeann"
    assert found.is_file(), f"{found} is missing; `cargo build --package pipeann-cli` makes it"
    return found


class Servers:
    """The processes of a cluster; they end with the files that they read from."""

    def __init__(self, folder: Path, index: Path, *flags: str | Path) -> None:
        pid = os.getpid()
        host = f"127.{pid >> 8 & 127 | 128}.{pid & 255}.{next(_addresses)}"
        self.topology = folder / "cluster.toml"
        servers = "".join(
            f'\n[[server]]\nnumber = {n}\naddress = "{host}:{7100 + n}"\n' for n in range(SERVERS)
        )
        self.topology.write_text(f'cluster = "test"\npartitions = 6\n{servers}')
        self._index, self._flags = index, flags
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, identities: Callable[[int], list[str | Path]]) -> None:
        for number in range(SERVERS):
            command = [binary(), "cluster", "serve", "--topology", self.topology]
            command += ["--server", str(number), "--index", self._index, "--until-eof"]
            command += ["--threads", "1", *self._flags, *identities(number)]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            self.processes.append(process)
        for number, process in enumerate(self.processes):
            assert process.stdout is not None
            assert process.stdout.readline().startswith(f"server {number} listens on")
        # Until then a query may need a second attempt.
        for number, process in enumerate(self.processes):
            assert process.stdout is not None
            met = process.stdout.readline()
            assert met == f"server {number} is connected to the {SERVERS - 1} others\n"

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    rng = np.random.default_rng(7)
    centres = rng.uniform(-1, 1, (30, DIM))
    rows = centres[rng.integers(0, 30, ROWS)] + rng.normal(0, 0.3, (ROWS, DIM))
    return rows.astype(np.float32)


@pytest.fixture(scope="module")
def index(vectors: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("built") / "index"
    Index.build(path, vectors, degree=32, list_length=48, partitions=6)
    return path


@pytest.fixture(scope="module")
def topology(
    vectors: np.ndarray, index: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cluster")
    np.save(folder / "price.npy", np.arange(ROWS) % 100)
    servers = Servers(folder, index, "--buffered", "--column", f"price={folder / 'price.npy'}")
    servers.start(lambda _: ["--insecure"])
    yield servers.topology
    servers.stop()


@pytest.fixture(scope="module")
def client(topology: Path) -> Iterator[Client]:
    with Client(topology, insecure=True, connect_timeout=60) as opened:
        yield opened


def test_answers_are_those_of_one_process(
    client: Client, index: Path, vectors: np.ndarray
) -> None:
    queries = vectors[::60] + np.float32(0.05)
    ids, distances, stats = client.search(
        queries, k=10, list_length=80, width=1, ahead=1, stats=True
    )
    assert ids.shape == distances.shape == (50, 10)
    assert ids.dtype == np.int64 and distances.dtype == np.float32
    own = Index.open(index, direct=False).search(
        queries, 10, list_length=80, policy="relay", width=1, threads=1, in_flight=1
    )
    np.testing.assert_array_equal(ids, own[0])
    np.testing.assert_array_equal(distances, own[1])
    assert [len(servers) for servers in stats["servers"]] == (stats["moves"] + 1).tolist()
    assert stats["moves"].sum() > 0 and (stats["attempts"] == 1).all()
    assert (stats["reads"] + stats["pages_from_memory"] > 0).all()
    assert {server for servers in stats["servers"] for server in servers} == {0, 1, 2}


@pytest.mark.parametrize("mode", ["relay", "baton"])
def test_finds_the_neighbours(client: Client, vectors: np.ndarray, mode: Any) -> None:
    queries = vectors[::60] + np.float32(0.05)
    ids, distances = client.search(queries, 10, list_length=80, mode=mode)
    every = ((queries[:, None, :] - vectors[None, :, :]) ** 2).sum(axis=2)
    truth = np.argsort(every, axis=1, kind="stable")[:, :10]
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(ids, truth)]) >= 0.95
    assert (np.diff(distances, axis=1) >= 0).all()


def test_rounds_are_as_wide_as_in_the_paper_unless_somebody_says_otherwise(
    client: Client, vectors: np.ndarray
) -> None:
    # As many as begin at the same servers each time.
    queries = vectors[:48] + np.float32(0.05)
    for given, wide in ((None, 64), (8, 8)):
        left = client.search(queries, mode="baton", width=given, stats=True)[2]
        said = client.search(queries, mode="baton", width=wide, ahead=wide, stats=True)[2]
        np.testing.assert_array_equal(left["hops"], said["hops"])
        np.testing.assert_array_equal(left["moves"], said["moves"])


def test_every_way_to_call_it(client: Client, vectors: np.ndarray) -> None:
    queries = vectors[:3]
    wanted = client.search(queries)[0]
    assert wanted.shape == (3, 10)
    np.testing.assert_array_equal(client.search(queries=queries)[0], wanted)
    np.testing.assert_array_equal(client.search(queries, 10)[0], wanted)
    np.testing.assert_array_equal(client.search(queries, k=np.int64(10))[0], wanted)
    np.testing.assert_array_equal(client.search(queries, in_flight=1, timeout=30)[0], wanted)
    assert client.search(queries, 100)[0].shape == (3, 100), "the list is as long as k"
    assert client.search(vectors[:0])[0].shape == (0, 10)
    assert client.missing() == []


def test_filters_are_those_of_the_servers(client: Client, vectors: np.ndarray) -> None:
    ids, _ = client.search(vectors[:20], 5, filter="price < 10")
    assert (ids % 100 < 10).all()
    ids, distances = client.search(vectors[:2], 5, filter="row in [4, 8]")
    assert {4, 8, -1} == set(ids[0]) and np.isinf(distances[0, 2:]).all()
    with pytest.raises(errors.InputError, match="colour"):
        client.search(vectors[:2], 5, filter="colour == 1")
    # One that no message holds is refused before it is sent, and stops nobody.
    with pytest.raises(errors.InputError, match="at most 65536"):
        client.search(vectors[:2], 5, filter=f"price in [{'1, ' * 1_000_000}1]")
    assert client.search(vectors[:2], 5)[0].shape == (2, 5)


def test_threads_share_a_client(client: Client, vectors: np.ndarray) -> None:
    wanted = client.search(vectors[:80], 5, width=1, ahead=1)[0]
    with ThreadPoolExecutor(8) as pool:
        parts = pool.map(
            lambda at: client.search(vectors[at : at + 10], 5, width=1, ahead=1)[0],
            range(0, 80, 10),
        )
        np.testing.assert_array_equal(np.concatenate(list(parts)), wanted)


@pytest.mark.parametrize(
    ("queries", "error", "text"),
    [
        (np.zeros((1, 23), np.float32), ValueError, "query 0: .*23 dimensions"),
        (np.zeros((1, 48), np.float16), ValueError, "f16 components, the index has f32"),
        (np.zeros((1, 96), np.uint8), ValueError, "u8 components, the index has f32"),
        (np.zeros(24, np.float32), ValueError, "shape"),
        (np.zeros((1, 24), np.float64), TypeError, "float64"),
        ([[1.0] * 24], TypeError, "numpy array"),
        (np.full((1, 24), np.nan, np.float32), ValueError, "NaN"),
    ],
)
def test_bad_queries_are_refused(client: Client, queries: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        client.search(queries)


def test_bad_parameters_are_refused(client: Client, vectors: np.ndarray) -> None:
    for parameters, text in [
        ({"k": 0}, "k is 0"),
        ({"mode": "spiral"}, "spiral"),
        ({"ahead": 0}, "ahead is 0"),
        ({"in_flight": 0}, "in_flight is 0"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
    ]:
        with pytest.raises(ValueError, match=text):
            client.search(vectors[:1], **parameters)
    good = client.search(vectors[:1])
    rows = vectors[:3].copy()
    rows[2, 5] = np.inf
    with pytest.raises(errors.InputError, match="query 2") as refused:
        client.search(rows)
    assert refused.value.row == 2
    np.testing.assert_array_equal(client.search(vectors[:1])[0], good[0])


def test_bad_connections_are_refused(topology: Path, tmp_path: Path) -> None:
    with pytest.raises(errors.InputError, match="insecure=True"):
        Client(topology)
    with pytest.raises(errors.InputError, match="nothing.toml"):
        Client(tmp_path / "nothing.toml", insecure=True)
    (tmp_path / "broken.toml").write_text("cluster = ")
    with pytest.raises(errors.InputError, match="broken.toml"):
        Client(str(tmp_path / "broken.toml"), insecure=True)
    with pytest.raises(errors.InputError, match="some were given"):
        Client(topology, insecure=True, tls_ca="ca.pem")
    with pytest.raises(errors.InputError, match="ca.pem"):
        Client(topology, tls_ca=tmp_path / "ca.pem", tls_cert="cert.pem", tls_key="key.pem")
    text = topology.read_text().replace(":7102", ":7199")
    (tmp_path / "other.toml").write_text(text)
    absent = r"5 s: server 2 at 127[.\d]+:7199 \(the connection failed"
    with pytest.raises(errors.RetryError, match=absent):
        Client(tmp_path / "other.toml", insecure=True, connect_timeout=5)


def test_a_closed_client_says_so(topology: Path, vectors: np.ndarray) -> None:
    opened = Client(topology, insecure=True, connect_timeout=60)
    opened.close()
    opened.close()
    with pytest.raises(errors.ClosedError):
        opened.search(vectors[:1])
    with pytest.raises(errors.ClosedError):
        opened.missing()


def test_certificates_are_asked_for(
    index: Path, vectors: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = Servers(tmp_path, index, "--buffered")
    made = tmp_path / "certificates"
    command = [binary(), "cluster", "certificates", "--topology", servers.topology, "--out", made]
    subprocess.run(command, check=True, capture_output=True)

    def shown(name: str) -> list[str | Path]:
        certificate, key = made / f"{name}.pem", made / f"{name}.key"
        return ["--tls-ca", made / "ca.pem", "--tls-cert", certificate, "--tls-key", key]

    try:
        servers.start(lambda number: shown(f"server-{number}"))
        files = {"tls_cert": made / "client.pem", "tls_key": made / "client.key"}
        with Client(
            servers.topology, tls_ca=made / "ca.pem", connect_timeout=60, **files
        ) as client:
            assert client.search(vectors[:5])[0][:, 0].tolist() == [0, 1, 2, 3, 4]
        # What the guide says, where its files are.
        for file in ["ca.pem", "client.pem", "client.key"]:
            (tmp_path / file).write_bytes((made / file).read_bytes())
        np.save(tmp_path / "queries.npy", vectors[:7])
        guide = (ROOT / "docs" / "guide" / "cluster.md").read_text()
        said = guide.split("```python\n")[1].split("```")[0]
        monkeypatch.chdir(tmp_path)
        names: dict[str, Any] = {}
        exec(said, names)
        assert names["ids"][:, 0].tolist() == list(range(7))
        # Which no time mends, so that it is told at once.
        begun = time.monotonic()
        with pytest.raises(errors.RetryError, match="cannot be asked: server 0 .*asks for cert"):
            Client(servers.topology, insecure=True, connect_timeout=300)
        assert time.monotonic() - begun < 200
    finally:
        servers.stop()


def test_a_killed_server_is_an_error_and_no_hang(
    index: Path, vectors: np.ndarray, tmp_path: Path
) -> None:
    servers = Servers(tmp_path, index, "--buffered")
    try:
        servers.start(lambda _: ["--insecure"])
        with Client(servers.topology, insecure=True, connect_timeout=60, timeout=6) as client:
            client.search(vectors[:50])
            killed = threading.Timer(0.2, lambda: servers.processes[1].send_signal(signal.SIGKILL))
            killed.start()
            with pytest.raises(errors.RetryError, match=r"query \d+: "):
                while True:
                    client.search(vectors[:200])
            killed.join()
            until = time.monotonic() + 60
            while client.missing() != [1] and time.monotonic() < until:
                time.sleep(0.05)
            assert client.missing() == [1]
            with pytest.raises(errors.RetryError):
                client.search(vectors[:200])
    finally:
        servers.stop()


def test_a_range_is_that_of_one_process(client: Client, index: Path, vectors: np.ndarray) -> None:
    queries = vectors[::150] + np.float32(0.05)
    own = Index.open(index, direct=False)
    for within in [(None, 3.0), (1.0, 4.0), (2.0, None), (None, None)]:
        options: dict[str, Any] = {"list_length": 200, "width": 1, "within": within}
        ids, distances = client.search(queries, 100, ahead=1, **options)
        wanted = own.search(queries, 100, policy="relay", threads=1, in_flight=1, **options)
        np.testing.assert_array_equal(ids, wanted[0])
        np.testing.assert_array_equal(distances, wanted[1])
        found = distances[ids >= 0]
        near, far = within
        assert (found >= (near or 0)).all() and (found < (far or np.inf)).all()
    with pytest.raises(errors.InputError, match="NaN"):
        client.search(queries, within=(float("nan"), None))


def test_partial_answers_name_what_they_lack(
    index: Path, vectors: np.ndarray, tmp_path: Path
) -> None:
    servers = Servers(tmp_path, index, "--buffered")
    rows = np.arange(ROWS)
    try:
        servers.start(lambda _: ["--insecure"])
        with Client(servers.topology, insecure=True, connect_timeout=60, timeout=9) as client:
            whole = client.search(vectors[:50], partial=True)[2]
            assert (whole["coverage"] == 1).all() and whole["missing"] == [[]] * 50
            # One that hangs has open connections and says nothing.
            servers.processes[1].send_signal(signal.SIGSTOP)
            ids, _, stats = client.search(vectors, 1, partial=True, timeout=30)
            assert (stats["coverage"][-10:] == 4 / 6).all() and stats["missing"][-1] == [2, 3]
            left = stats["coverage"] == 4 / 6
            there = ids[:, 0] == rows
            assert 0.5 < there[left].mean() < 0.9, "a third of the rows is on the server that hangs"
            servers.processes[1].kill()
            until = time.monotonic() + 60
            while client.missing() != [1] and time.monotonic() < until:
                time.sleep(0.05)
            again, _, stats = client.search(vectors, 1, partial=True)
            assert (stats["coverage"] == 4 / 6).all() and stats["missing"][0] == [2, 3]
            assert all(1 not in way for way in stats["servers"])
            # What is there is found by itself; a walk around what is missing may need a longer list.
            here = np.unique(again[:, 0])
            itself = client.search(vectors[here], 1, list_length=400, partial=True)[0][:, 0]
            assert (itself == here).all(), "nothing of what is missing"
            with pytest.raises(errors.RetryError, match="partition [23]"):
                client.search(vectors)
        with pytest.raises(errors.RetryError, match="server 1 at [^ ]+ \\(the connection failed"):
            Client(servers.topology, insecure=True, connect_timeout=5)
        with Client(
            servers.topology, insecure=True, connect_timeout=5, all_servers=False
        ) as client:
            _, _, stats = client.search(vectors[:20], partial=True)
            assert (stats["coverage"] == 4 / 6).all()
    finally:
        servers.stop()
