"""Ranges, groups, iterators and hybrid search, against what numpy says."""

from collections.abc import Iterator

import numpy as np
import pytest
from pymilvus import (
    AnnSearchRequest,
    DataType,
    MilvusClient,
    MilvusException,
    RRFRanker,
    WeightedRanker,
)

ROWS, DIM = 400, 8
VECTORS = np.random.default_rng(3).standard_normal((ROWS, DIM)).astype(np.float32)
OTHERS = np.random.default_rng(4).standard_normal((ROWS, DIM)).astype(np.float32)
QUERY = np.random.default_rng(5).standard_normal(DIM).astype(np.float32)
L2 = ((VECTORS - QUERY) ** 2).sum(axis=1)
IP = OTHERS @ QUERY


@pytest.fixture(scope="module")
def filled(address: str) -> Iterator[tuple[MilvusClient, str]]:
    """A collection with two vectors in each row, one by L2 and one by IP."""
    client, name = MilvusClient(uri=f"http://{address}"), "searching"
    schema = client.create_schema()
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("v", DataType.FLOAT_VECTOR, dim=DIM)
    schema.add_field("w", DataType.FLOAT_VECTOR, dim=DIM)
    schema.add_field("shelf", DataType.INT32)
    index = client.prepare_index_params()
    index.add_index("v", index_type="HNSW", metric_type="L2")
    index.add_index("w", index_type="AUTOINDEX", metric_type="IP")
    client.create_collection(name, schema=schema, index_params=index)
    client.insert(
        name,
        [
            {"id": i, "v": VECTORS[i], "w": OTHERS[i], "shelf": i % 7}
            for i in range(ROWS)
        ],
    )
    yield client, name
    client.close()


def ids(hits: list[dict[str, object]]) -> list[object]:
    return [hit["id"] for hit in hits]


def test_offset(filled: tuple[MilvusClient, str]) -> None:
    client, name = filled
    (hits,) = client.search(name, [QUERY], anns_field="v", limit=5, search_params={"offset": 3})
    assert ids(hits) == np.argsort(L2)[3:8].tolist()


def test_several_queries_have_as_many_answers(filled: tuple[MilvusClient, str]) -> None:
    client, name = filled
    queries = [VECTORS[3], VECTORS[4], VECTORS[5]]
    found = client.search(name, queries, anns_field="v", limit=2, filter="id < 4")
    assert [ids(hits)[0] for hits in found][0] == 3
    assert [len(hits) for hits in found] == [2, 2, 2]
    none = client.search(name, queries, anns_field="v", limit=2, filter="id < 0")
    assert [len(hits) for hits in none] == [0, 0, 0]


def test_range(filled: tuple[MilvusClient, str]) -> None:
    client, name = filled
    near, far = np.sort(L2)[[20, 60]].tolist()
    params = {"params": {"radius": far, "range_filter": near}}
    (hits,) = client.search(name, [QUERY], anns_field="v", limit=100, search_params=params)
    expected = [int(i) for i in np.argsort(L2) if near <= L2[i] < far]
    assert set(ids(hits)) ^ set(expected) <= {int(np.argsort(L2)[20]), int(np.argsort(L2)[60])}
    least = float(np.sort(IP)[-30])
    params = {"params": {"radius": least}}
    (hits,) = client.search(name, [QUERY], anns_field="w", limit=100, search_params=params)
    assert len(hits) in (29, 30) and all(hit["distance"] > least for hit in hits)
    wrong = {"params": {"radius": 1.0, "range_filter": 2.0}}
    with pytest.raises(MilvusException, match="must be less than radius"):
        client.search(name, [QUERY], anns_field="v", limit=1, search_params=wrong)


def test_groups(filled: tuple[MilvusClient, str]) -> None:
    client, name = filled
    (hits,) = client.search(
        name, [QUERY], anns_field="v", limit=7, group_by_field="shelf", output_fields=["shelf"]
    )
    best = [min(range(shelf, ROWS, 7), key=lambda i: L2[i]) for shelf in range(7)]
    assert ids(hits) == sorted(best, key=lambda i: L2[i])
    (hits,) = client.search(
        name,
        [QUERY],
        anns_field="v",
        limit=3,
        group_by_field="shelf",
        group_size=4,
        strict_group_size=True,
        output_fields=["shelf"],
    )
    shelves = [hit["entity"]["shelf"] for hit in hits]
    assert len(shelves) == 12 and len(set(shelves)) == 3


def test_hybrid(filled: tuple[MilvusClient, str]) -> None:
    client, name = filled
    requests = [
        AnnSearchRequest([QUERY], "v", {"metric_type": "L2"}, limit=30),
        AnnSearchRequest([QUERY], "w", {"metric_type": "IP"}, limit=30),
    ]
    (hits,) = client.hybrid_search(name, requests, RRFRanker(60), limit=10)
    scores: dict[int, float] = {}
    for order in (np.argsort(L2)[:30], np.argsort(-IP)[:30]):
        for place, i in enumerate(order.tolist(), start=1):
            scores[i] = scores.get(i, 0.0) + 1 / (60 + place)
    expected = sorted(scores, key=lambda i: (-scores[i], i))[:10]
    assert [hit["distance"] for hit in hits] == pytest.approx([scores[i] for i in expected])
    assert ids(hits) == expected
    (hits,) = client.hybrid_search(
        name, requests, WeightedRanker(0.0, 1.0, norm_score=True), limit=5, output_fields=["shelf"]
    )
    assert ids(hits) == np.argsort(-IP)[:5].tolist()
    assert hits[0]["entity"]["shelf"] == hits[0]["id"] % 7
    with pytest.raises(MilvusException, match="weights"):
        client.hybrid_search(name, requests, WeightedRanker(1.0), limit=5)


def test_search_iterator_gives_each_row_once_in_order(filled: tuple[MilvusClient, str]) -> None:
    client, name = filled
    pages = client.search_iterator(
        name, [QUERY.tolist()], batch_size=70, anns_field="v", output_fields=["shelf"]
    )
    found: list[object] = []
    while page := pages.next():
        found += ids(page)
    pages.close()
    assert found == np.argsort(L2).tolist()


def test_query_iterator_gives_each_row_once(filled: tuple[MilvusClient, str]) -> None:
    client, name = filled
    pages = client.query_iterator(name, batch_size=70, filter="shelf > 2", output_fields=["shelf"])
    found: list[object] = []
    while page := pages.next():
        found += ids(page)
    pages.close()
    assert found == [i for i in range(ROWS) if i % 7 > 2]


def test_search_by_keys(filled: tuple[MilvusClient, str]) -> None:
    client, name = filled
    found = client.search(name, ids=[17, 3], anns_field="v", limit=4)
    for key, hits in zip([17, 3], found, strict=True):
        assert ids(hits) == np.argsort(((VECTORS - VECTORS[key]) ** 2).sum(axis=1))[:4].tolist()
    with pytest.raises(MilvusException, match="1 of 2 were found"):
        client.search(name, ids=[17, ROWS], anns_field="v", limit=4)


def test_templates(filled: tuple[MilvusClient, str]) -> None:
    client, name = filled
    found = client.query(name, filter="id in {ids}", filter_params={"ids": [5, 3, 9]})
    assert ids(found) == [3, 5, 9]
    with pytest.raises(MilvusException, match="cannot parse expression"):
        client.query(name, filter="id in in")


@pytest.mark.parametrize("level", ["Strong", "Session", "Bounded", "Eventually"])
def test_every_consistency_level_sees_all(filled: tuple[MilvusClient, str], level: str) -> None:
    client, name = filled
    found = client.query(name, output_fields=["count(*)"], consistency_level=level)
    assert found[0]["count(*)"] == ROWS


def test_what_lies_between_two_fields(filled: tuple[MilvusClient, str]) -> None:
    client, name = filled
    rows = client.query(name, "5 between shelf and id", limit=ROWS)
    assert {row["id"] for row in rows} == {i for i in range(ROWS) if i % 7 <= 5 <= i}
    rows = client.query(name, "shelf < 3000000000 and shelf not in [9000000000]", limit=ROWS)
    assert len(rows) == ROWS


def test_zones_are_refused(filled: tuple[MilvusClient, str], client: MilvusClient) -> None:
    _, name = filled
    shanghai, unknown = {"timezone": "Asia/Shanghai"}, "timezone .* is not supported"
    with pytest.raises(MilvusException, match=unknown):
        client.create_collection("zoned", dimension=4, properties=shanghai)
    with pytest.raises(MilvusException, match=unknown):
        client.alter_collection_properties(name, properties=shanghai)
    with pytest.raises(MilvusException, match=unknown):
        client.query(name, "id < 3", timezone="Asia/Shanghai")
    with pytest.raises(MilvusException, match=unknown):
        client.search(
            name, [QUERY], anns_field="v", limit=1, search_params={"timezone": "Asia/Shanghai"}
        )
    with pytest.raises(MilvusException, match=unknown):
        client.create_database("zoned", properties=shanghai)
    assert len(client.query(name, "id < 3", timezone="UTC")) == 3
