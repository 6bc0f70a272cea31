"""Three servers of one database: any takes any call, and each may die."""

import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from clusters import ROOT, Cluster, Server, binary, free_port, until
from copies import create as create_by_key
from joins import fill
from outages import Pusher, client, connected, create, fencing, leader, rows
from pymilvus import MilvusClient, MilvusException


def count(of: MilvusClient, name: str = "c", level: str = "Strong") -> int:
    found = of.query(name, filter="", output_fields=["count(*)"], consistency_level=level)
    return found[0]["count(*)"]


def row(key: int) -> dict:
    return {"id": key, "vector": [key, 1, 2, 3], "note": f"row {key}"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, 3)
    with made.running():
        yield made


def test_any_server_takes_any_call(cluster: Cluster) -> None:
    clients = [client(server) for server in cluster.servers]
    clients[0].create_collection("c", dimension=4, consistency_level="Session")
    for key in range(30):
        clients[key % 3].insert("c", [row(key)])
        # Its own write is seen at once, wherever it was sent.
        assert count(clients[key % 3], level="Session") == key + 1
    assert [count(each) for each in clients] == [30, 30, 30]
    clients[1].upsert("c", [{**row(7), "note": "other"}])
    clients[2].delete("c", ids=[8])
    for each in clients:
        found = each.query(
            "c", filter="id == 7", output_fields=["note"], consistency_level="Strong"
        )
        assert [r["note"] for r in found] == ["other"]
        near = each.search("c", [[9, 1, 2, 3]], limit=1, consistency_level="Strong")
        assert near[0][0]["id"] == 9
        assert each.list_collections() == ["c"]
        assert each.describe_collection("c") == clients[0].describe_collection("c")
    clients[2].create_alias("c", "other")
    assert [count(each, "other") for each in clients] == [29, 29, 29]
    clients[1].drop_alias("other")
    clients[0].drop_collection("c")
    for each in clients:
        assert not each.has_collection("c")
        each.close()


def test_no_answered_row_is_lost_when_leaders_die(cluster: Cluster) -> None:
    first = client(cluster.servers[0])
    first.create_collection("c", dimension=4)
    first.close()
    answered: list[int] = []
    stop = threading.Event()

    def write(thread: int) -> None:
        key = thread * 1_000_000
        clients = [client(server) for server in cluster.servers]
        while not stop.is_set():
            key += 1
            try:
                clients[key % 3].insert("c", [row(key)], timeout=5)
                answered.append(key)
            except MilvusException:
                continue
        for each in clients:
            each.close()

    writers = [threading.Thread(target=write, args=(thread,), daemon=True) for thread in range(3)]
    for writer in writers:
        writer.start()
    for _ in range(3):
        before = len(answered)
        until("writes", lambda before=before: len(answered) > before + 30)
        dead = leader(cluster)
        dead.kill()
        before = len(answered)
        until("writes after a leader's death", lambda before=before: len(answered) > before + 30)
        dead.start()
    stop.set()
    for writer in writers:
        writer.join()
    clients = [connected(server) for server in cluster.servers]
    there = [
        {
            r["id"]
            for r in each.query("c", filter="id >= 0", limit=16384, consistency_level="Strong")
        }
        for each in clients
    ]
    assert there[0] == there[1] == there[2]
    assert set(answered) <= there[0], "an answered row is lost"
    for each in clients:
        each.close()


def test_inserts_without_keys_are_stored_once_though_leaders_die_under_them(
    cluster: Cluster,
) -> None:
    create(client(cluster.servers[0]))
    answered: list[tuple[int, int]] = []
    for round in range(3):
        dead = leader(cluster)
        stop = threading.Event()
        pushers = [
            Pusher(server, 10 * round + number, stop)
            for server in cluster.servers
            if server is not dead
            for number in (1 + cluster.servers.index(server), 5 + cluster.servers.index(server))
        ]
        for pusher in pushers:
            pusher.start()
        until("writes", lambda pushers=pushers: all(len(p.answered) > 5 for p in pushers))
        dead.kill()
        before = [len(pusher.answered) for pusher in pushers]
        until(
            "writes by the next leader",
            lambda pushers=pushers, before=before: all(
                len(pusher.answered) > count + 2
                for pusher, count in zip(pushers, before, strict=True)
            ),
        )
        stop.set()
        for pusher in pushers:
            pusher.join()
            answered += pusher.answered
        dead.start()
    there = rows(connected(cluster.servers[0]))
    assert set(answered) <= set(there), "an answered row is lost"
    assert Counter(mark for _, mark in there).most_common(1)[0][1] == 1, "a row is there twice"


def test_a_call_with_an_id_is_made_once_by_whichever_server(cluster: Cluster) -> None:
    clients = [client(server) for server in cluster.servers]
    create(clients[0])
    data = [{"mark": mark, "v": [mark] * 8} for mark in range(3)]
    made = [each.insert("c", data, client_request_id="one")["ids"] for each in clients]
    assert made[0] == made[1] == made[2]
    for each in clients:
        # What was meant twice is there twice.
        each.insert("c", data)
    assert count(clients[0]) == 12
    for server in cluster.servers:
        # Whoever comes back knows what was made before.
        server.stop()
        server.start()
    assert (
        connected(cluster.servers[1]).insert("c", data, client_request_id="one")["ids"] == made[0]
    )
    assert count(connected(cluster.servers[2])) == 12


def test_what_is_taken_away_is_gone_everywhere_when_that_is_answered(cluster: Cluster) -> None:
    clients = [client(server) for server in cluster.servers]
    for name, rows_of in [("a", 1), ("b", 2)]:
        clients[0].create_collection(name, dimension=4)
        clients[0].insert(name, [row(key) for key in range(rows_of)])
        # All servers have them.
        assert [count(each, name) for each in clients] == [rows_of] * 3
    clients[0].create_alias("a", "x")
    for turn in range(12):
        clients[turn % 3].alter_alias("ab"[(turn + 1) % 2], "x")
        seen = [count(each, "x", level="Eventually") for each in clients]
        assert seen == [(turn + 1) % 2 + 1] * 3, f"turn {turn}"
    clients[1].drop_alias("x")
    clients[2].drop_collection("a")
    for each in clients:
        for gone in ("x", "a"):
            with pytest.raises(MilvusException):
                count(each, gone, level="Eventually")
    for each in clients:
        each.close()


def test_a_leader_that_was_stopped_neither_writes_nor_reads_what_is_old(tmp_path: Path) -> None:
    found = fencing(tmp_path, 2)
    assert (found["old_records"], found["stale_reads"]) == (0, 0), found
    assert (found["lost"], found["differ"]) == (0, 0), found


def test_reads_go_on_without_etcd_and_all_comes_back_when_it_was_emptied(cluster: Cluster) -> None:
    clients = [client(server) for server in cluster.servers]
    clients[0].create_collection("c", dimension=4)
    clients[0].insert("c", [row(key) for key in range(50)])
    assert [count(each) for each in clients] == [50, 50, 50]
    cluster.etcd.kill()
    assert [count(each, level="Eventually") for each in clients] == [50, 50, 50]
    cluster.etcd.wipe()
    cluster.etcd.start()

    def writes() -> bool:
        try:
            clients[2].insert("c", [row(100)], timeout=5)
        except MilvusException:
            return False
        return True

    until("writes", writes)
    assert {count(each) for each in clients} <= {51, 52, 53}
    for each in clients:
        each.close()


def first_number(store: Path) -> int:
    """The first object that is part of the log."""
    notes = store / "cut" / "0"
    # A file that is being put has another name.
    return max((int(note.name) for note in notes.glob("*") if note.name.isdigit()), default=1)


def test_a_wiped_server_comes_back_by_files_when_the_log_was_cut(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 3)
    for server in cluster.servers:
        server.flags += ["--generation-after", "50KiB"]
    with cluster.running():
        first = client(cluster.servers[0])
        first.create_collection("c", dimension=4, metric_type="L2")
        keys = 0

        def cut() -> bool:
            nonlocal keys
            first.insert("c", [row(key) for key in range(keys, keys + 500)])
            keys += 500
            return first_number(tmp_path / "store") > 1

        until("a cut of the log", cut)
        first.close()
        follower = next(server for server in cluster.servers if server is not leader(cluster))
        follower.kill()
        follower.wipe()
        # It takes calls at once, and others answer them.
        follower.start()
        back = client(follower)
        assert count(back) == keys
        assert follower.process is not None and follower.process.stdout is not None
        assert follower.process.stdout.readline().split()[:4] == ["all", "data", "is", "at"]
        assert count(back, level="Eventually") == keys
        near = back.search("c", [[keys - 1, 1, 2, 3]], limit=1)
        assert near[0][0]["id"] == keys - 1
        back.close()
        # What it lacks while it is away is cut, too.
        follower.kill()
        log = (tmp_path / "store" / "log" / "0").iterdir()
        newest = max(int(found.name) for found in log if found.name.isdigit())
        others = [server for server in cluster.servers if server is not follower]
        first = connected(others[0])

        def cut_again() -> bool:
            nonlocal keys
            first.insert("c", [row(key) for key in range(keys, keys + 500)])
            keys += 500
            return first_number(tmp_path / "store") > newest

        until("another cut", cut_again)
        follower.start()
        back = client(follower)
        assert count(back) == keys
        assert follower.process is not None and follower.process.stdout is not None
        assert follower.process.stdout.readline().split()[:4] == ["all", "data", "is", "at"]
        # Without those that have led, it has everything.
        for server in others:
            server.kill()
        until("all rows", lambda: count(back, level="Eventually") == keys)
        back.close()
        first.close()


def test_rows_enter_the_graphs_of_all_servers_by_the_links_of_the_leader(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 3)
    for server in cluster.servers:
        server.watched = free_port()
    rows = np.random.default_rng(7).integers(0, 255, (9_000, 16)).astype(np.float32)

    def figure(server: Server, name: str) -> float:
        return sum(n for of, n in server.figures().items() if of.startswith(name + "{"))

    def adopted(server: Server) -> float:
        return figure(server, "pipeann_adopted_links_total")

    def has_linked(server: Server, there: int) -> bool:
        named = [figure(server, f"pipeann_{kind}") for kind in ("rows", "growing_rows")]
        return named == [there, 0]

    def written(first: int, last: int) -> None:
        """Inserts rows by any server, and waits until servers that follow have linked most of them
        as the leader has."""
        servers = [server for server in cluster.servers if server.process]
        clients = [connected(server) for server in servers]

        def insert(keys: range) -> None:
            some = [{"id": key, "v": rows[key]} for key in keys]
            clients[keys.start // 50 % len(clients)].insert("c", some)

        insert(range(first, first + 50))
        # Who leads now has written that.
        follow = [server for server in servers if server is not leader(cluster)]
        before = [adopted(server) for server in follow]
        for key in range(first + 50, last, 50):
            insert(range(key, key + 50))
        enough = (last - first) * 0.8

        def taken_over() -> bool:
            now = [adopted(server) for server in follow]
            return all(n - b >= enough for n, b in zip(now, before, strict=True))

        until("links of the leader", taken_over)
        for of in clients:
            near = of.search("c", rows[first:last:100], limit=1, consistency_level="Strong")
            keys = [hits[0]["id"] for hits in near]
            assert keys == list(range(first, last, 100))
            of.close()

    with cluster.running():
        first = client(cluster.servers[0])
        create_by_key(first, 16)
        fill(first, rows[:5_000])
        first.close()
        # What comes while a server builds its graph is in that without the leader's links.
        for server in cluster.servers:
            until("a graph of each server", lambda of=server: has_linked(of, 5_000))
        written(5_000, 7_000)
        leader(cluster).kill()
        written(7_000, 9_000)


def test_the_guides_first_steps(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    guide = (ROOT / "docs" / "guide" / "servers.md").read_text()
    started, typed = (
        guide.split(f"```{language}\n")[1].split("```")[0] for language in ("bash", "python")
    )
    flags = [word for word in started.split("pipeann serve")[1].split() if word.startswith("--")]
    asked = subprocess.run([str(binary()), "serve", "--help"], capture_output=True, text=True)
    known = asked.stdout.replace("--data-dir", "--data_dir").replace("--metrics-", "--metrics_")
    assert flags and all(flag in known for flag in flags)
    for number, server in enumerate(cluster.servers):
        typed = typed.replace(f"127.0.0.1:1953{number}", server.address)
    exec(typed, {})
    assert "'id': 1" in capsys.readouterr().out


def test_reads_of_a_server_whose_device_is_slow_are_answered_by_another(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 2)
    for server in cluster.servers:
        server.watched = free_port()
    slow, quick = cluster.servers
    # A fiftieth of a second for each page.
    slow.flags += ["--backend", "injected:20000"]
    with cluster.running():
        create_by_key(client(quick), 16)
        fill(client(quick), np.random.default_rng(1).normal(0, 50, (3000, 16)))

        def forwarded(why: str) -> float:
            return slow.figures()[f'pipeann_forwarded_calls_total{{reason="{why}"}}']

        stop, reads = threading.Event(), []

        def read(thread: int) -> None:
            of = client(slow)
            while not stop.is_set():
                ask = [[float(thread)] * 16]
                found = of.search("c", ask, limit=5, consistency_level="Bounded")
                reads.append(len(found[0]))
            of.close()

        threads = [threading.Thread(target=read, args=(n,), daemon=True) for n in range(8)]
        for thread in threads:
            thread.start()
        until("reads that begin elsewhere", lambda: forwarded("slow_here") > 50, seconds=300)
        stop.set()
        for thread in threads:
            thread.join()
        assert set(reads) == {5}
        figures = slow.figures()
        hedged, won = (figures[f"pipeann_hedged_reads_{end}"] for end in ("total", "won_total"))
        assert 1 <= won <= hedged <= len(reads) / 20 + 1
        assert quick.figures()["pipeann_hedged_reads_total"] == 0, "it was asked once each time"
