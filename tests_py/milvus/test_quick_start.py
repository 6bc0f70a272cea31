"""The steps of every tutorial, with stock pymilvus."""

import numpy as np
import pytest
from pymilvus import DataType, MilvusClient, MilvusException

DIM = 8


def rows(count: int, seed: int = 1) -> list[dict[str, object]]:
    vectors = np.random.default_rng(seed).random((count, DIM), dtype=np.float32)
    colors = ["red", "green", "blue"]
    return [
        {"id": i, "vector": vectors[i].tolist(), "color": colors[i % 3], "price": i}
        for i in range(count)
    ]


def vectors_of(data: list[dict[str, object]]) -> np.ndarray:
    return np.array([row["vector"] for row in data], dtype=np.float32)


def test_quick_form(client: MilvusClient, name: str) -> None:
    assert not client.has_collection(name)
    client.create_collection(name, dimension=DIM, metric_type="L2")
    assert client.has_collection(name)
    assert name in client.list_collections()
    data = rows(300)
    inserted = client.insert(name, data)
    assert inserted["insert_count"] == 300
    assert list(inserted["ids"]) == list(range(300))
    client.flush(name)
    assert client.get_collection_stats(name) == {"row_count": 300}

    query = data[7]["vector"]
    (hits,) = client.search(name, data=[query], limit=5, output_fields=["color", "price"])
    all_vectors = vectors_of(data)
    distances = ((all_vectors - all_vectors[7]) ** 2).sum(axis=1)
    nearest = np.argsort(distances, kind="stable")[:5]
    assert [hit["id"] for hit in hits] == nearest.tolist()
    assert [hit["distance"] for hit in hits] == pytest.approx(distances[nearest], rel=1e-5)
    assert hits[0]["entity"] == {"color": "green", "price": 7}

    (cheap,) = client.search(name, data=[query], limit=10, filter="price < 5 and color == 'red'")
    assert {hit["id"] for hit in cheap} == {0, 3}
    found = client.query(name, filter="color == 'blue' and price < 9", output_fields=["price"])
    assert list(found) == [{"id": 2, "price": 2}, {"id": 5, "price": 5}, {"id": 8, "price": 8}]
    assert list(client.query(name, output_fields=["count(*)"])) == [{"count(*)": 300}]

    (row,) = client.get(name, ids=[9])
    assert row["vector"] == pytest.approx(data[9]["vector"])
    assert (row["color"], row["price"]) == ("red", 9)
    assert client.delete(name, ids=[9, 10])["delete_count"] == 2
    assert list(client.get(name, ids=[9, 10])) == []
    changed = {"id": 11, "vector": query, "color": "pink"}
    assert client.upsert(name, [changed])["upsert_count"] == 1
    (row,) = client.get(name, ids=[11], output_fields=["color"])
    assert row == {"id": 11, "color": "pink"}
    assert list(client.query(name, output_fields=["count(*)"])) == [{"count(*)": 298}]
    client.drop_collection(name)
    assert not client.has_collection(name)


def test_declared_schema(client: MilvusClient, name: str) -> None:
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False, description="d")
    schema.add_field("key", DataType.VARCHAR, is_primary=True, max_length=32)
    schema.add_field("embedding", DataType.FLOAT_VECTOR, dim=DIM)
    schema.add_field("small", DataType.INT8, nullable=True)
    schema.add_field("size", DataType.DOUBLE, default_value=1.5)
    schema.add_field("flag", DataType.BOOL)
    schema.add_field("doc", DataType.JSON)
    schema.add_field(
        "tags", DataType.ARRAY, element_type=DataType.VARCHAR, max_capacity=4, max_length=16
    )
    index = client.prepare_index_params()
    index.add_index("embedding", index_type="HNSW", metric_type="COSINE", M=16, efConstruction=64)
    client.create_collection(name, schema=schema, index_params=index)
    described = client.describe_collection(name)
    assert [field["name"] for field in described["fields"]] == [
        "key", "embedding", "small", "size", "flag", "doc", "tags",
    ]  # fmt: skip
    assert described["description"] == "d"
    assert not described["enable_dynamic_field"]
    data = [
        {
            "key": f"k{i}",
            "embedding": row["vector"],
            "small": None if i % 2 else i,
            "flag": i % 3 == 0,
            "doc": {"n": i, "f": float(i), "list": [1, "x"]},
            "tags": ["a", f"t{i % 4}"],
        }
        for i, row in enumerate(rows(40))
    ]
    assert client.insert(name, data)["ids"] == [row["key"] for row in data]
    found = client.query(name, filter="key in ['k3', 'k4']", output_fields=["*"])
    three, four = found
    assert (three["small"], four["small"]) == (None, 4)
    assert (three["size"], three["flag"], three["tags"]) == (1.5, True, ["a", "t3"])
    assert four["doc"] == {"n": 4, "f": 4.0, "list": [1, "x"]}
    assert isinstance(four["doc"]["f"], float) and isinstance(four["doc"]["n"], int)
    (hits,) = client.search(
        name,
        data=[data[5]["embedding"]],
        limit=3,
        filter="array_contains(tags, 't1')",
        search_params={"metric_type": "COSINE", "params": {"ef": 64}},
        output_fields=["tags"],
    )
    assert hits[0]["key"] == "k5"
    assert hits[0]["distance"] == pytest.approx(1, abs=1e-6)
    assert all(hit["entity"]["tags"][1] == "t1" for hit in hits)


def test_assigned_keys(client: MilvusClient, name: str) -> None:
    client.create_collection(name, dimension=DIM, auto_id=True)
    data = [{"vector": row["vector"]} for row in rows(10)]
    first, second = client.insert(name, data), client.insert(name, data)
    assert len(set(first["ids"]) | set(second["ids"])) == 20


def test_unloaded_collections_are_refused(client: MilvusClient, name: str) -> None:
    client.create_collection(name, dimension=DIM)
    client.insert(name, rows(5))
    client.release_collection(name)
    assert client.get_load_state(name)["state"].name == "NotLoad"
    for call in (
        lambda: client.search(name, data=[[0.5] * DIM], limit=1),
        lambda: client.query(name, filter="id >= 0"),
    ):
        with pytest.raises(MilvusException, match="collection not loaded") as refused:
            call()
        assert refused.value.code == 101
    client.load_collection(name)
    assert client.get_load_state(name)["state"].name == "Loaded"
    assert len(client.query(name, filter="id >= 0")) == 5


def test_indexes(client: MilvusClient, name: str) -> None:
    schema = client.create_schema(enable_dynamic_field=True)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIM)
    schema.add_field("color", DataType.VARCHAR, max_length=16)
    client.create_collection(name, schema=schema)
    client.insert(name, rows(2500))
    with pytest.raises(MilvusException, match="index not found"):
        client.load_collection(name)
    index = client.prepare_index_params()
    index.add_index("vector", index_type="DISKANN", metric_type="L2")
    index.add_index("color", index_type="INVERTED", index_name="by_color")
    client.create_index(name, index)
    assert sorted(client.list_indexes(name)) == ["by_color", "vector"]
    described = client.describe_index(name, "vector")
    assert described["index_type"] == "DISKANN"
    assert (described["total_rows"], described["pending_index_rows"]) == (2500, 0)
    client.load_collection(name)
    data = rows(2500)
    (hits,) = client.search(name, data=[data[99]["vector"]], limit=10, anns_field="vector")
    distances = ((vectors_of(data) - vectors_of(data)[99]) ** 2).sum(axis=1)
    truth = set(np.argsort(distances)[:10].tolist())
    assert len(truth & {hit["id"] for hit in hits}) >= 9
    with pytest.raises(MilvusException, match="vector index cannot be dropped on loaded"):
        client.drop_index(name, "vector")
    client.release_collection(name)
    client.drop_index(name, "vector")
    assert client.list_indexes(name) == ["by_color"]
