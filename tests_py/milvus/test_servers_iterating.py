"""Iterators of stock clients whose servers die under them, as docs/decisions/0047 has it: pages are of the
moment at which the iterator began, as long as the server lives that keeps it, and as of now behind that."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clusters import Cluster, Server, until
from outages import Balancer, client, connected, leader
from pymilvus import MilvusClient, MilvusException

ROWS, BATCH = 1000, 100
# Rows that go and rows that come while an iterator is on its way, both behind its first pages.
GONE, COME = range(400, 450), range(2000, 2050)


def row(key: int) -> dict:
    return {"id": key, "vector": [float(key), 1.0]}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, 3)
    with made.running():
        of = client(made.servers[0])
        of.create_collection("c", dimension=2, metric_type="L2", consistency_level="Strong")
        of.insert("c", [row(key) for key in range(ROWS)])
        of.close()
        yield made


def pages_of(of: MilvusClient) -> Callable[[], list[int]]:
    """Keys of one page after the other."""
    asked = {"filter": "id >= 0", "output_fields": ["id"], "batch_size": BATCH}
    pages = of.query_iterator("c", consistency_level="Strong", **asked)
    return lambda: [each["id"] for each in pages.next()]


def rest(page: Callable[[], list]) -> list:
    """What is left of pages; one that is refused is asked for again."""
    found: list = []

    def ended() -> bool:
        try:
            some = page()
        except MilvusException:
            # Its server is gone, and has a lease still.
            return False
        found.extend(some)
        return not some

    until("the last page", ended, seconds=120)
    return found


def changed(server: Server) -> None:
    """Rows go and come by a server, whoever leads by then."""
    of = connected(server)
    of.delete("c", ids=list(GONE), timeout=60)
    of.insert("c", [row(key) for key in COME], timeout=60)
    of.close()


def at_first(cluster: Cluster, server: Server) -> MilvusClient:
    """A client that comes to this server by a balancer, and to others when it is gone."""
    others = [each for each in cluster.servers if each is not server]
    # Its first connection is to the second one.
    return MilvusClient(uri=Balancer([others[0], server, others[1]]).uri)


def test_pages_are_of_their_moment_though_the_leader_dies(cluster: Cluster) -> None:
    dead = leader(cluster)
    follower = next(server for server in cluster.servers if server is not dead)
    of = client(follower)
    page = pages_of(of)
    found = [key for _ in range(3) for key in page()]
    dead.kill()
    changed(follower)
    found += rest(page)
    assert found == list(range(ROWS)), "the follower keeps the moment"
    of.close()


def test_pages_whose_server_died_are_as_of_now_and_unchanged_rows_come_once(
    cluster: Cluster,
) -> None:
    dead = leader(cluster)
    of = at_first(cluster, dead)
    page = pages_of(of)
    found = [key for _ in range(3) for key in page()]
    dead.kill()
    changed(next(server for server in cluster.servers if server is not dead))
    found += rest(page)
    assert found == [key for key in [*range(ROWS), *COME] if key not in GONE]
    of.close()


def test_a_search_goes_on_where_its_server_died(cluster: Cluster) -> None:
    dead = leader(cluster)
    of = at_first(cluster, dead)
    pages = of.search_iterator(
        "c",
        [[0.0, 1.0]],
        batch_size=BATCH,
        limit=ROWS,
        anns_field="vector",
        consistency_level="Strong",
    )
    found = [hit["id"] for _ in range(3) for hit in pages.next()]
    dead.kill()
    found += [hit["id"] for hit in rest(lambda: list(pages.next() or []))]
    # Nothing was changed, and no two rows are equally far.
    assert found == list(range(ROWS))
    of.close()
