"""Filters in searches, queries, counts and deletes."""

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeann import Collection, Database, Field, errors

ROWS = 300
COLORS = ["red", "green", "blue"]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database.open(tmp_path / "db")


@pytest.fixture
def collection(database: Database) -> Collection:
    fields = [
        Field("id", "int64", primary_key=True),
        Field("v", "float_vector", dim=4),
        Field("price", "double", nullable=True),
        Field("color", "varchar", max_bytes=20),
        Field("tags", "array<int64>", max_capacity=5),
        Field("made", "timestamptz"),
    ]
    collection = database.create_collection("c", fields, dynamic=True)
    collection.load()
    collection.insert(rows())
    return collection


def rows() -> list[dict[str, Any]]:
    return [
        {
            "id": (i * 7) % ROWS,
            "v": np.array([i, i % 10, 0, 1], np.float32),
            "price": None if i % 5 == 0 else i / 2,
            "color": COLORS[i % 3],
            "tags": [i % 4, 10 + i % 3],
            "made": datetime(2025, 1, 1 + i % 28, tzinfo=timezone.utc),
            "size": i % 9,
        }
        for i in range(ROWS)
    ]


def keys_where(test: Any) -> list[int]:
    return sorted(row["id"] for row in rows() if test(row))


def test_queries_and_counts_take_filters(collection: Collection) -> None:
    def found(filter: str, **parameters: Any) -> list[int]:
        count = collection.count(filter=filter, filter_params=parameters or None)
        some = collection.query(
            ["id"], filter=filter, filter_params=parameters or None, order="key"
        )
        assert len(some) == count
        return [row["id"] for row in some]

    assert found('price < 80 and color == "red"') == keys_where(
        lambda row: row["price"] is not None and row["price"] < 80 and row["color"] == "red"
    )
    assert found("price is null") == keys_where(lambda row: row["price"] is None)
    assert found("size == 3 or size > 7") == keys_where(lambda row: row["size"] in (3, 8))
    assert found("array_contains_all(tags, [1, 11])") == keys_where(
        lambda row: {1, 11} <= set(row["tags"])
    )
    assert found("id in {ids}", ids=np.array([5, 3, 1000])) == [3, 5]
    assert found("color in {names}", names=["red", "blue"]) == keys_where(
        lambda row: row["color"] != "green"
    )
    assert found("made < {when}", when=datetime(2025, 1, 3, tzinfo=timezone.utc)) == keys_where(
        lambda row: row["made"].day < 3
    )
    assert found("price == {p}", p=np.float32(0.5)) == keys_where(lambda row: row["price"] == 0.5)
    assert found("true == {yes}", yes=True) == list(range(ROWS))
    assert found("") == list(range(ROWS))


def test_pages_follow_each_other(collection: Collection) -> None:
    pages = [
        collection.query(["id"], filter="color == 'red'", order="key", offset=at, limit=30)
        for at in range(0, 120, 30)
    ]
    keys = [row["id"] for page in pages for row in page]
    assert keys == keys_where(lambda row: row["color"] == "red")
    by_row = collection.query([], filter="color == 'red'", offset=1, limit=2)
    assert [row["id"] for row in by_row] == [(3 * 7) % ROWS, (6 * 7) % ROWS]
    with pytest.raises(errors.InputError, match='order "price"'):
        collection.query(order="price")


def test_searches_find_rows_that_match(collection: Collection) -> None:
    query = np.array([100, 0, 0, 1], np.float32)
    (hits,) = collection.search("v", query, 5, metric="l2", filter="color == 'blue'")
    blue = [row for row in rows() if row["color"] == "blue"]
    far = sorted(float(((row["v"] - query) ** 2).sum()) for row in blue)
    assert hits.distances.tolist() == far[:5]
    (hits,) = collection.search(
        "v", query, 5, metric="l2", filter="id in {ids}", filter_params={"ids": [1, 2]}
    )
    assert sorted(hits.keys) == [1, 2]


def test_deletes_by_filter(collection: Collection) -> None:
    expected = keys_where(lambda row: row["size"] < 3)
    assert collection.delete(filter="size < {n}", filter_params={"n": 3}) == len(expected)
    assert collection.count() == ROWS - len(expected)
    assert collection.count(filter="size < 3") == 0
    for arguments in [{}, {"keys": [1], "filter": "size == 4"}, {"keys": [1], "partitions": []}]:
        with pytest.raises(errors.InputError, match="give keys alone"):
            collection.delete(**arguments)
    with pytest.raises(errors.InputError, match="a delete needs an expression"):
        collection.delete(filter=" ")
    assert collection.count() == ROWS - len(expected)


def test_a_plan_tells_how_a_filter_is_answered(collection: Collection) -> None:
    plan = collection.explain("color == {color} and not (price <= 50)", filter_params={"color": "red"})
    matches = collection.count(filter="color == 'red' and price > 50")
    assert plan["expression"] == "((color == {color}) and (not (price <= 50)))"
    assert (plan["rows"], plan["source"], plan["rows_read"]) == (ROWS, "indexes", 0)
    assert plan["certain"] == plan["matches"] == matches > 0
    assert plan["estimate"]["least"] <= matches <= plan["estimate"]["most"]
    conditions = [(c["field"], c["operation"], c["negated"]) for c in plan["conditions"]]
    assert conditions == [("color", "==", False), ("price", "<=", True)]
    assert {c["answered_by"] for c in plan["conditions"]} == {"index"}
    assert plan["searches"] == [{"field": "v", "linked": None, "exact": matches, "walk": "none"}]
    assert "costs" not in plan
    queries = np.zeros((3, 4), dtype=np.float32)
    searched = collection.explain("color == 'red'", field="v", queries=queries, k=2, metric="l2")
    assert searched["costs"]["compared"] == 3, "without a graph all that match are compared"
    assert searched["costs"]["walked"] == searched["costs"]["pages_read"] == 0
    plan = collection.explain("size == 3", partitions=["_default"])
    assert (plan["source"], plan["rows_read"]) == ("scan", ROWS)
    assert plan["conditions"][0]["answered_by"] == "rows"
    with pytest.raises(errors.InputError, match="cannot parse expression"):
        collection.explain("size ==")


def test_errors_mark_the_place(collection: Collection) -> None:
    with pytest.raises(errors.InputError) as caught:
        collection.query(filter="price < 80 and color > 5")
    message = str(caught.value)
    assert "cannot parse expression: price < 80 and color > 5" in message
    assert "comparisons between VarChar and Int64 are not supported" in message
    shown, mark = message.splitlines()[1:3]
    assert shown[mark.index("^") :] == "color > 5"
    assert caught.value.field is None
    with pytest.raises(errors.InputError, match="filter_params without a filter"):
        collection.count(filter_params={"n": 1})
    with pytest.raises(errors.InputError, match="name {n} is not found"):
        collection.count(filter="size == {n}")
    endless: list[Any] = []
    endless.append(endless)
    for value in [None, {}, b"x", 2**63, endless, object()]:
        with pytest.raises(errors.InputError, match='filter_params, "n"'):
            collection.count(filter="size == {n}", filter_params={"n": value})
