"""One script, called in the process and on a server: types, values and errors are the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pymilvus import (
    AnnSearchRequest,
    DataType,
    Function,
    FunctionType,
    RRFRanker,
    WeightedRanker,
)

Doors = tuple[Any, Any]
DIM = 8
ROWS = 40


def shape(value: Any) -> Any:
    """A value with the types of all of its parts. Sequences of numbers count as lists: pymilvus has
    several kinds of them."""
    if isinstance(value, dict):
        return type(value).__name__, {key: shape(part) for key, part in value.items()}
    if isinstance(value, (str, bytes, int, float, bool, type(None))):
        return type(value).__name__, value
    kind = type(value).__name__
    return ("list" if "Repeated" in kind else kind), [shape(part) for part in value]


def outcome(call: Callable[[Any], Any], client: Any) -> Any:
    """What a call returns, or how it is refused."""
    try:
        return "returned", shape(call(client))
    except Exception as error:
        text = str(error)
        return "raised", type(error).__name__, getattr(error, "code", None), text


def same(doors: Doors, call: Callable[[Any], Any], kind: str = "returned") -> Any:
    """The outcome, of this kind, which is that of both."""
    here, there = (outcome(call, client) for client in doors)
    assert here == there
    assert here[0] == kind, here
    return here


def vectors(rows: int = ROWS) -> np.ndarray:
    return np.random.default_rng(7).standard_normal((rows, DIM)).astype(np.float32)


def filled(client: Any) -> None:
    schema = client.create_schema(enable_dynamic_field=True)
    schema.add_field("key", DataType.INT64, is_primary=True)
    schema.add_field("v", DataType.FLOAT_VECTOR, dim=DIM)
    schema.add_field("flag", DataType.BOOL)
    schema.add_field("small", DataType.INT8)
    schema.add_field("ratio", DataType.FLOAT)
    schema.add_field("precise", DataType.DOUBLE, nullable=True)
    schema.add_field("text", DataType.VARCHAR, max_length=50)
    schema.add_field("json", DataType.JSON)
    schema.add_field(
        "tags", DataType.ARRAY, element_type=DataType.INT64, max_capacity=8
    )
    index = client.prepare_index_params()
    index.add_index("v", index_type="HNSW", metric_type="L2", M=8, efConstruction=64)
    client.create_collection("c", schema=schema, index_params=index)
    rows = [
        {
            "key": at,
            "v": vector.tolist(),
            "flag": at % 2 == 0,
            "small": at - 20,
            "ratio": at / 3,
            "precise": None if at % 5 == 0 else at / 7,
            "text": f"text {at}",
            "json": {"at": at, "list": [at, "x"]},
            "tags": [at, at % 3],
            "extra": at * 1.5,
            "other": f"o{at}",
        }
        for at, vector in enumerate(vectors())
    ]
    client.insert("c", rows)


@pytest.fixture
def both(doors: Doors) -> Doors:
    for client in doors:
        filled(client)
    return doors


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"output_fields": ["*"]},
        {"output_fields": ["text", "extra", "json"]},
        {"output_fields": ["v", "tags", "precise"]},
        {"filter": "small > 0 and flag", "limit": 3},
        {"filter": "array_contains(tags, 2)", "search_params": {"params": {"ef": 32}}},
        {"search_params": {"metric_type": "L2", "offset": 2}, "anns_field": "v"},
        {"partition_names": ["_default"], "round_decimal": 2},
        {"filter_params": {"least": 5}, "filter": "small >= {least}"},
    ],
)
def test_searches_find_the_same(both: Doors, given: dict[str, Any]) -> None:
    queries = vectors(3)
    same(both, lambda client: client.search("c", data=queries.tolist(), **given))
    same(both, lambda client: client.search("c", data=list(queries), **given))


def test_hits_are_those_of_pymilvus(both: Doors) -> None:
    here, there = (c.search("c", [vectors(1)[0].tolist()], limit=2) for c in both)
    assert type(here) is type(there)
    assert type(here[0]) is type(there[0])
    assert type(here[0][0]) is type(there[0][0])
    assert here[0].ids == list(there[0].ids)
    assert here[0].distances == list(there[0].distances)
    for of in (here, there):
        hit = of[0][0]
        assert (hit.id, hit.distance) == (hit["key"], hit["distance"])
    assert (here.extra, here.recalls, str(here)) == (there.extra, there.recalls, str(there))


@pytest.mark.parametrize(
    "given",
    [
        {"filter": "key in [3, 1, 2]"},
        {"filter": "text like 'text 1%'", "output_fields": ["text", "other"]},
        {"filter": "", "limit": 4, "offset": 3, "output_fields": ["v"]},
        {"filter": "", "output_fields": ["count(*)"]},
        {"filter": "precise is null", "output_fields": ["precise", "tags", "flag"]},
        {"ids": [5, 6]},
        {"filter": "key < 3", "output_fields": ["*", "extra"]},
        {"filter": "key < 3", "output_fields": ["$meta", "extra"]},
        {"ids": [1000]},
        {"filter": "key == 1", "partition_names": ["_default"]},
    ],
)
def test_queries_read_the_same(both: Doors, given: dict[str, Any]) -> None:
    same(both, lambda client: client.query("c", **given))


@pytest.mark.parametrize(
    "json", ['{"at": 7, "list": []}', '"text"', "7", "null", {"deep": '{"a": 1}'}]
)
def test_text_in_a_json_field_is_json(both: Doors, json: Any) -> None:
    row = {"key": 900, "v": [0.0] * DIM, "flag": True, "small": 1, "ratio": 1.0, "text": "t"}
    same(both, lambda client: client.insert("c", {**row, "json": json, "tags": []}))
    same(both, lambda client: client.query("c", "key == 900", output_fields=["json"]))
    same(both, lambda client: client.query("c", "json['at'] == 7", output_fields=["key"]))


@pytest.mark.parametrize("json", ["hello", "{", b'{"at": 8}', {1: 2}])
def test_text_that_is_no_json_is_refused(both: Doors, json: Any) -> None:
    row = {"key": 900, "v": [0.0] * DIM, "flag": True, "small": 1, "ratio": 1.0, "text": "t"}
    same(both, lambda client: client.insert("c", {**row, "json": json, "tags": []}), "raised")


def test_rows_come_by_key(both: Doors) -> None:
    same(both, lambda client: client.get("c", ids=[3, 1]))
    same(both, lambda client: client.get("c", ids=7, output_fields=["text"]))
    same(both, lambda client: client.get("c", ids=[]))


def several(limit: int = 5, anns_field: str = "v") -> list[AnnSearchRequest]:
    given = (anns_field, {"metric_type": "L2", "params": {"ef": 40}}, limit)
    first, second = vectors(2).tolist()
    return [AnnSearchRequest([first], *given), AnnSearchRequest([second], *given, expr="flag")]


@pytest.mark.parametrize("ranker", [RRFRanker(), RRFRanker(10), WeightedRanker(0.2, 0.8)])
def test_several_searches_are_ranked_as_one(both: Doors, ranker: Any) -> None:
    same(both, lambda client: client.hybrid_search("c", several(), ranker, limit=4))
    asked = {"output_fields": ["text", "extra"], "offset": 1}
    same(both, lambda client: client.hybrid_search("c", several(), ranker, 2, **asked))
    wrong = several(anns_field="text")
    same(both, lambda client: client.hybrid_search("c", wrong, ranker), "raised")
    same(both, lambda client: client.hybrid_search("c", several(), WeightedRanker(1.0)), "raised")
    same(both, lambda client: client.hybrid_search("c", several(), "rrf"), "raised")
    same(both, lambda client: client.hybrid_search("missing", several(), ranker), "raised")


def by_function(**params: Any) -> Function:
    return Function("rank", FunctionType.RERANK, input_field_names=[], params=params)


def test_functions_rank_as_rankers_do(both: Doors) -> None:
    if not hasattr(FunctionType, "RERANK"):
        return  # pymilvus 2.5 has no such functions.

    def ranked(ranker: Any) -> Any:
        asked = {"limit": 4, "output_fields": ["text"]}
        return same(both, lambda client: client.hybrid_search("c", several(), ranker, **asked))

    assert ranked(RRFRanker(100)) == ranked(by_function(reranker="rrf", k=100))
    weights = {"reranker": "weighted", "weights": [0.2, 0.8]}
    normalised = by_function(**weights, norm_score=True)
    assert ranked(WeightedRanker(0.2, 0.8)) == ranked(normalised)
    assert ranked(WeightedRanker(0.2, 0.8, norm_score=False)) == ranked(by_function(**weights))
    decay = by_function(reranker="decay", function="gauss", origin=0, scale=1)
    refused = same(both, lambda c: c.hybrid_search("c", several(), decay, limit=4), "raised")
    assert refused[2] == 3000 and "the reranker `decay` is not supported" in refused[3]


def test_raw_distances_are_ranked_with_the_smallest_first(both: Doors) -> None:
    ranker = WeightedRanker(0.5, 0.5, norm_score=False)
    first, second = vectors(2)
    requests = [
        AnnSearchRequest([query.tolist()], "v", {"params": {"ef": 100}}, limit=ROWS)
        for query in (first, second)
    ]
    same(both, lambda client: client.hybrid_search("c", requests, ranker, limit=5))
    expected = sum(((vectors() - query) ** 2).sum(axis=1) for query in (first, second)) / 2
    (hits,) = both[0].hybrid_search("c", requests, ranker, limit=5)
    order = np.argsort(expected)[:5]
    assert [hit["key"] for hit in hits] == order.tolist()
    assert [hit["distance"] for hit in hits] == pytest.approx(expected[order], rel=1e-5)


def test_an_order_of_hits_by_fields_is_refused(both: Doors) -> None:
    # pymilvus passes on what it does not know itself, under `params`.
    order = {"params": {"order_by_fields": "small:desc"}}
    query = [vectors(1)[0].tolist()]
    refused = same(both, lambda c: c.search("c", query, search_params=order), "raised")
    assert refused[2] == 3000 and "order_by_fields" in refused[3]


def test_partitions_of_a_partition_key_are_not_named(doors: Doors) -> None:
    for client in doors:
        schema = client.create_schema()
        schema.add_field("key", DataType.INT64, is_primary=True)
        schema.add_field("v", DataType.FLOAT_VECTOR, dim=2)
        schema.add_field("tenant", DataType.INT64, is_partition_key=True)
        index = client.prepare_index_params()
        index.add_index("v", index_type="FLAT", metric_type="L2")
        client.create_collection("k", schema=schema, index_params=index)
        client.insert("k", [{"key": at, "v": [at, at], "tenant": at} for at in range(9)])
    named: dict[str, Any] = {"partition_names": ["_default_0"]}
    for call in (
        lambda c: c.search("k", [[1.0, 1.0]], **named),
        lambda c: c.query("k", "key >= 0", **named),
        lambda c: c.get("k", ids=[1], **named),
        lambda c: c.delete("k", filter="key >= 0", partition_name="_default_0"),
        lambda c: c.release_partitions("k", ["_default_0"]),
    ):
        refused = same(doors, call, "raised")
        assert refused[2] == 1100 and "partition key mode" in refused[3], refused
    (_, (_, rows)) = same(doors, lambda c: c.query("k", "key >= 0", output_fields=["key"]))
    assert len(rows) == 9


def test_keys_that_are_assigned_are_given_where_the_collection_says_so(doors: Doors) -> None:
    for client in doors:
        schema = client.create_schema()
        schema.add_field("key", DataType.INT64, is_primary=True, auto_id=True)
        schema.add_field("v", DataType.FLOAT_VECTOR, dim=2)
        index = client.prepare_index_params()
        index.add_index("v", index_type="FLAT", metric_type="L2")
        client.create_collection("a", schema=schema, index_params=index)
    row = {"key": 4567, "v": [1.0, 2.0]}
    refused = same(doors, lambda c: c.insert("a", row), "raised")
    assert "allow_insert_auto_id" in refused[3]
    allowed = {"allow_insert_auto_id": "true"}
    same(doors, lambda c: c.alter_collection_properties("a", properties=allowed))
    same(doors, lambda c: c.insert("a", row))
    same(doors, lambda c: c.insert("a", [{"v": [float(at), 0.0]} for at in range(3)]))
    same(doors, lambda c: c.query("a", "key > 0", output_fields=["key", "v"]))
    for client in doors:
        assert client.get("a", ids=[4567])[0]["v"] == [1.0, 2.0]


def test_iterators_come_to_the_same_rows(both: Doors) -> None:
    def pages(client: Any) -> list[Any]:
        found = []
        query = {"data": [vectors(1)[0].tolist()], "limit": 20, "batch_size": 8}
        for iterator in (
            client.query_iterator("c", batch_size=15, filter="key >= 0", output_fields=["text"]),
            client.search_iterator("c", search_params={"metric_type": "L2"}, **query),
        ):
            while page := iterator.next():
                found += [row["key"] for row in page]
            iterator.close()
        return found

    same(both, pages)


def test_writes_answer_the_same(both: Doors) -> None:
    row = {
        "key": 1,
        "v": np.ones(DIM).tolist(),
        "flag": True,
        "small": 1,
        "ratio": 1,
        "text": "again",
        "json": [1, None, "x"],
        "tags": [],
        "color": "red",
    }
    same(both, lambda client: client.upsert("c", row))
    same(both, lambda client: client.upsert("c", [{**row, "v": np.zeros(DIM)}]))
    same(both, lambda client: client.insert("c", {**row, "key": 100}))
    same(both, lambda client: client.insert("c", []))
    same(both, lambda client: client.delete("c", ids=[2, 3, 999]))
    same(both, lambda client: client.delete("c", ids=4))
    same(both, lambda client: client.delete("c", filter="small == 1"))
    same(both, lambda client: client.query("c", limit=100))


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.search("c", [[1.0] * (DIM - 1)]),
        lambda c: c.search("c", [[1.0] * DIM], limit=0),
        lambda c: c.search("c", [[1.0] * DIM], limit=20_000),
        lambda c: c.search("c", [[1.0] * DIM], filter="small >"),
        lambda c: c.search("c", [[1.0] * DIM], filter="nothing.x > 1"),
        lambda c: c.search("c", [[1.0] * DIM], search_params={"metric_type": "IP"}),
        lambda c: c.search("c", [[1.0] * DIM], search_params={"params": {"ef": 1}}),
        lambda c: c.search("c", [[1.0] * DIM], anns_field="text"),
        lambda c: c.search("c", [[1.0] * DIM], search_params={"offset": 1}, offset=2),
        lambda c: c.search("c", [[1.0] * DIM], partition_names=["p"]),
        lambda c: c.search("c", [1.0] * DIM),
        lambda c: c.search("c", [["x"] * DIM]),
        lambda c: c.search("c", []),
        lambda c: c.search("missing", [[1.0] * DIM]),
        lambda c: c.search(7, [[1.0] * DIM]),
        lambda c: c.query("c"),
        lambda c: c.query("c", filter="small in 7"),
        lambda c: c.query("c", filter=7),
        lambda c: c.query("c", filter="key == 1", ids=[1]),
        lambda c: c.query("c", filter="key > 0", limit=0),
        lambda c: c.query("missing", filter="key == 1"),
        lambda c: c.get("missing", ids=[1]),
        lambda c: c.delete("c"),
        lambda c: c.delete("c", filter="key =="),
        lambda c: c.delete("c", ids=["x"]),
        lambda c: c.delete("c", ids=[1], filter="key == 1"),
        lambda c: c.delete("missing", ids=[1]),
        lambda c: c.insert("c", 7),
        lambda c: c.insert("c", [{"key": 1}]),
        lambda c: c.insert("c", [{"key": "x", "v": [1.0] * DIM}]),
        lambda c: c.insert("missing", [{"key": 1, "v": [1.0] * DIM}]),
        lambda c: c.describe_collection("missing"),
        lambda c: c.load_collection("missing"),
        lambda c: c.create_collection("d"),
    ],
)
def test_refusals_have_the_same_type_code_and_text(
    both: Doors, call: Callable[[Any], Any]
) -> None:
    same(both, call, "raised")


def test_what_was_released_has_to_be_loaded(both: Doors) -> None:
    for client in both:
        client.release_collection("c")
    refused = same(both, lambda client: client.query("c", filter="key == 1"), "raised")
    assert refused[2] == 101
    for client in both:
        client.load_collection("c")
    same(both, lambda client: client.query("c", filter="key == 1"))


def test_collections_are_described_the_same(doors: Doors) -> None:
    for client in doors:
        client.create_collection("quick", DIM)
    ours, theirs = (client.describe_collection("quick") for client in doors)
    changing = {"collection_id", "created_timestamp", "update_timestamp"}
    for name in set(ours) | set(theirs):
        if name not in changing:
            assert ours[name] == theirs[name], name
    same(doors, lambda client: client.list_collections())
    same(doors, lambda client: client.has_collection("quick"))
    same(doors, lambda client: client.get_load_state("quick"))
    same(doors, lambda client: client.list_indexes("quick"))


def test_every_method_is_there(doors: Doors) -> None:
    here, there = doors
    missing = [n for n in dir(there) if not n.startswith("_") and not hasattr(here, n)]
    assert missing == []
