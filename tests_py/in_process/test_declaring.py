"""`create_index` returns, whatever was declared before it, and release is what Milvus Lite makes of
it."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pymilvus import AnnSearchRequest, DataType, MilvusException, RRFRanker
from pymilvus.client.types import LoadState

from pipeann import AsyncMilvusClient, MilvusClient

# Seconds after which a call counts as one that never returns.
LIMIT = 20
QUERY = [[1.0, 0.0, 0.0, 0.0]]


def returned(call: Callable[[], Any]) -> Any:
    """What a call returns or raises, which it has to do."""
    ended: list[Any] = []

    def run() -> None:
        try:
            ended.append((call(), None))
        except BaseException as error:
            ended.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert ended, f"the call has not returned in {LIMIT} s"
    value, error = ended[0]
    if error is not None:
        raise error
    return value


def rows(count: int = 5) -> list[dict[str, Any]]:
    return [{"id": i, "vector": [float(i), 1.0, 0.0, 0.0]} for i in range(count)]


def schema() -> Any:
    made = MilvusClient.create_schema(enable_dynamic_field=True)
    made.add_field("id", DataType.INT64, is_primary=True)
    made.add_field("vector", DataType.FLOAT_VECTOR, dim=4)
    return made


def params(**given: Any) -> Any:
    made = MilvusClient.prepare_index_params()
    made.add_index("vector", **given)
    return made


HNSW = {"index_type": "HNSW", "metric_type": "L2", "M": 8, "efConstruction": 64}
AUTO = {"index_type": "AUTOINDEX", "metric_type": "COSINE"}

BEFORE = {
    "quick": lambda client: client.create_collection("demo", dimension=4),
    "schema": lambda client: client.create_collection("demo", schema=schema()),
    "metric": lambda client: client.create_collection("demo", schema=schema(), metric_type="L2"),
}
FORMS = {
    "positional": lambda client, index: client.create_index("demo", index),
    "named": lambda client, index: client.create_index(collection_name="demo", index_params=index),
    "seconds": lambda client, index: client.create_index("demo", index, 10),
    "timeout": lambda client, index: client.create_index("demo", index, timeout=10.0),
    "not waiting": lambda client, index: client.create_index("demo", index, sync=False),
}


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", BEFORE)
def test_an_index_is_declared_after_anything(
    client: Any, before: str, form: str, read: bool
) -> None:
    BEFORE[before](client)
    client.insert("demo", rows())
    if read:
        client.search("demo", QUERY)
    index = params(**(AUTO if before == "quick" else HNSW))
    returned(lambda: FORMS[form](client, index))
    told = client.describe_index("demo", "vector")
    assert told["metric_type"] == ("COSINE" if before == "quick" else "L2")
    returned(lambda: FORMS[form](client, index))
    assert len(client.search("demo", QUERY)[0]) == 5


@pytest.mark.parametrize("before", BEFORE)
def test_an_index_without_parameters_is_built(client: Any, before: str) -> None:
    BEFORE[before](client)
    client.insert("demo", rows())
    for call in (
        lambda: client.create_index("demo"),
        lambda: client.create_index(collection_name="demo", index_params=None),
        lambda: client.create_index("demo", timeout=10),
    ):
        returned(call)
        told = client.describe_index("demo", "vector")
        assert told["metric_type"] == ("L2" if before == "metric" else "COSINE")
        assert told["state"] == "Finished"
    client.insert("demo", [{**row, "id": row["id"] + 100} for row in rows()])
    assert len(client.search("demo", QUERY)[0]) == 10


def test_whoever_looks_how_far_an_index_is_can_wait_for_it(client: Any) -> None:
    client.create_collection("quick", dimension=4)
    client.insert("quick", [{"id": row, "vector": [row, 1.0, 0.0, 0.0]} for row in range(100)])
    until = time.monotonic() + 60
    while client.describe_index("quick", "vector")["state"] != "Finished":
        assert time.monotonic() < until, "the index is never begun"
        time.sleep(0.05)


def test_what_is_not_there_gets_no_index(client: Any) -> None:
    with pytest.raises(MilvusException, match="can't find collection"):
        returned(lambda: client.create_index("missing"))


def test_the_client_for_asyncio_declares_indexes_too(tmp_path: Path) -> None:
    async def program(before: str) -> None:
        async with AsyncMilvusClient(uri=str(tmp_path / before)) as client:
            await BEFORE[before](client)
            await client.insert("demo", rows())
            await client.create_index("demo")
            index = params(**(AUTO if before == "quick" else HNSW))
            await client.create_index("demo", index)
            await client.create_index(collection_name="demo", index_params=index, timeout=10)
            assert (await client.describe_index("demo", "vector"))["state"] == "Finished"

    for before in BEFORE:
        returned(lambda before=before: asyncio.run(program(before)))


def test_a_metric_beside_a_schema_is_that_of_reads(client: Any) -> None:
    client.create_collection("demo", schema=schema(), metric_type="l2")
    client.insert("demo", rows())
    assert client.list_indexes("demo") == [], "nobody has declared one, and nobody has read"
    (hits,) = client.search("demo", [[4.0, 1.0, 0.0, 0.0]], limit=2)
    assert [(hit["id"], hit["distance"]) for hit in hits] == [(4, 0.0), (3, 1.0)]
    with pytest.raises(MilvusException, match="metric type: CANBERRA is not supported"):
        client.create_collection("other", schema=schema(), metric_type="CANBERRA")
    assert client.list_collections() == ["demo"]


def test_a_read_without_an_index_is_by_the_metric_that_it_names(client: Any) -> None:
    searches = [
        lambda name: client.search(name, QUERY, search_params={"metric_type": "L2"}),
        lambda name: client.search(
            name, QUERY, anns_field="vector", timeout=10, search_params={"metric_type": "L2"}
        ),
        lambda name: client.hybrid_search(
            name, [AnnSearchRequest(QUERY, "vector", {"metric_type": "L2"}, 3)], RRFRanker()
        ),
        lambda name: client.search_iterator(
            name, QUERY, batch_size=3, search_params={"metric_type": "L2"}
        ).next(),
    ]
    for at, search in enumerate(searches):
        client.create_collection(f"demo{at}", schema=schema())
        client.insert(f"demo{at}", rows())
        assert search(f"demo{at}")
        assert client.describe_index(f"demo{at}", "vector")["metric_type"] == "L2"


def test_an_assumed_index_gives_way_to_one_of_its_own_field_alone(client: Any) -> None:
    declared = schema()
    declared.add_field("n", DataType.INT64, nullable=True)
    client.create_collection("demo", schema=declared, metric_type="L2")
    client.insert("demo", rows())
    assert len(client.search("demo", QUERY)[0]) == 5
    scalar = client.prepare_index_params()
    scalar.add_index("n", index_type="INVERTED")
    client.create_index("demo", scalar)
    assert client.describe_index("demo", "vector")["metric_type"] == "L2"
    client.create_index("demo", params(index_type="HNSW", metric_type="IP", M=8))
    assert client.describe_index("demo", "vector")["metric_type"] == "IP"
    assert sorted(client.list_indexes("demo")) == ["n", "vector"]


def test_what_was_released_is_not_read_where_an_index_was_declared(client: Any) -> None:
    client.create_collection("demo", schema=schema(), index_params=params(**HNSW))
    client.insert("demo", rows())
    client.release_collection("demo")
    assert client.get_load_state("demo")["state"] == LoadState.NotLoad
    for read in (
        lambda: client.search("demo", QUERY),
        lambda: client.query("demo", filter="id >= 0"),
        lambda: client.get("demo", ids=[1]),
    ):
        with pytest.raises(MilvusException) as refused:
            read()
        assert refused.value.code == 101
    client.insert("demo", [{"id": 100, "vector": QUERY[0]}])
    assert client.delete("demo", ids=[0])["delete_count"] == 1
    client.load_collection("demo")
    assert client.count("demo") == 5


def test_a_release_changes_nothing_where_nobody_has_declared_an_index(client: Any) -> None:
    client.create_collection("demo", schema=schema())
    client.insert("demo", rows())
    client.release_collection("demo")
    assert client.count("demo") == 5
    client.release_collection("demo")
    assert len(client.search("demo", QUERY)[0]) == 5
    client.create_index("demo", params(**HNSW))
    client.load_collection("demo")
    client.release_collection("demo")
    with pytest.raises(MilvusException) as refused:
        client.search("demo", QUERY)
    assert refused.value.code == 101


TEXT_ROWS = [{"id": "a", "vector": QUERY[0]}, {"id": "b", "vector": QUERY[0]}]


@pytest.mark.parametrize("given", [{}, {"timeout": 10}, {"partition_name": "_default"}])
def test_the_first_rows_decide_the_type_of_keys_however_they_are_given(
    client: Any, given: dict[str, Any]
) -> None:
    client.create_collection("c", dimension=4, description="what it is")
    client.insert("c", TEXT_ROWS, **given)
    assert [row["id"] for row in client.query("c", limit=5)] == ["a", "b"]
    assert client.list_collections() == ["c"]
    assert client.describe_collection("c")["description"] == "what it is"


MADE = [lambda c: c.create_partition("c", "p"), lambda c: c.create_alias("c", "al")]
# pymilvus has it from 2.6 on.
if hasattr(MilvusClient, "add_collection_field"):
    MADE.append(lambda c: c.add_collection_field("c", "more", DataType.INT64, nullable=True))


@pytest.mark.parametrize("made", MADE)
def test_what_was_made_of_a_collection_is_not_lost_with_its_type_of_keys(
    client: Any, made: Callable[[Any], Any]
) -> None:
    client.create_collection("c", dimension=4)
    made(client)
    before = client.describe_collection("c"), client.list_partitions("c")
    with pytest.raises(MilvusException):
        client.insert("c", TEXT_ROWS)
    assert (client.describe_collection("c"), client.list_partitions("c")) == before
    assert client.list_collections() == ["c"]
    client.insert("c", rows())
    assert len(client.query("c", limit=10)) == 5


def test_another_metric_than_that_of_a_collection_is_refused(client: Any) -> None:
    client.create_collection("c", dimension=4, metric_type="L2")
    client.create_collection("c", dimension=4, metric_type="L2")
    with pytest.raises(MilvusException, match="by L2, not IP"):
        client.create_collection("c", dimension=4, metric_type="IP")


def test_an_iterator_outlives_the_name_of_its_client(tmp_path: Path) -> None:
    def begun() -> Any:
        client = MilvusClient(str(tmp_path / "data"))
        client.create_collection("c", dimension=4)
        client.insert("c", rows(30))
        iterator = client.query_iterator("c", batch_size=10)
        assert len(iterator.next()) == 10
        return iterator

    iterator = begun()
    gc.collect()
    assert len(returned(iterator.next)) == 10
    iterator.close()


@pytest.mark.parametrize("uri", ["", "localhost:19530", "unix:/tmp/x.sock", "file:./x.db"])
def test_what_names_a_server_makes_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="is an address|is empty"):
        MilvusClient(uri)
    assert not list(tmp_path.iterdir())
