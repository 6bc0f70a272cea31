"""The older, object-like interface of pymilvus."""

from collections.abc import Iterator

import numpy as np
import pytest
from pymilvus import (
    Collection,
    CollectionSchema,
    DataType,
    FieldSchema,
    connections,
    utility,
)

# Later versions say that they prefer the other interface.
pytestmark = pytest.mark.filterwarnings("ignore:.*ORM-style")

DIM = 8
VECTORS = np.random.default_rng(7).random((3000, DIM), dtype=np.float32)


@pytest.fixture
def connected(address: str) -> Iterator[None]:
    host, port = address.split(":")
    connections.connect("default", host=host, port=port)
    yield
    connections.disconnect("default")


@pytest.mark.usefixtures("connected")
def test_a_collection_from_its_making_to_its_end(name: str) -> None:
    fields = [
        FieldSchema("pk", DataType.INT64, is_primary=True),
        FieldSchema("random", DataType.DOUBLE),
        FieldSchema("embeddings", DataType.FLOAT_VECTOR, dim=DIM),
    ]
    collection = Collection(name, CollectionSchema(fields, "hello"), consistency_level="Strong")
    numbers = np.arange(3000, dtype=np.float64)
    inserted = collection.insert([list(range(3000)), numbers, VECTORS])
    assert inserted.insert_count == 3000
    collection.flush()
    assert collection.num_entities == 3000
    index = {"index_type": "IVF_FLAT", "metric_type": "L2", "params": {"nlist": 128}}
    collection.create_index("embeddings", index)
    assert utility.index_building_progress(name)["pending_index_rows"] == 0
    collection.load()
    assert utility.load_state(name).name == "Loaded"
    found = collection.search(
        [VECTORS[5]],
        "embeddings",
        {"metric_type": "L2", "params": {"nprobe": 16}},
        limit=3,
        expr="random > 4.5",
        output_fields=["random"],
    )
    assert found[0].ids[0] == 5
    assert found[0].distances[0] == 0
    assert found[0][0].entity.get("random") == 5.0
    rows = collection.query("random < 3.5", output_fields=["random", "embeddings"])
    assert [row["pk"] for row in rows] == [0, 1, 2, 3]
    assert rows[2]["embeddings"] == pytest.approx(VECTORS[2])
    assert collection.delete("pk in [0, 1]").delete_count == 2
    assert len(collection.query("random < 3.5")) == 2
    pages = collection.search_iterator(
        [VECTORS[5]], "embeddings", {"metric_type": "L2", "params": {"nprobe": 16}}, batch_size=100
    )
    first, second = pages.next(), pages.next()
    assert len(first) == 100 and len(second) > 0
    assert not set(first.ids()) & set(second.ids())
    pages.close()
    collection.release()
    collection.drop_index()
    utility.drop_collection(name)
    assert not utility.has_collection(name)


@pytest.mark.usefixtures("connected")
def test_partitions_and_aliases(name: str) -> None:
    fields = [
        FieldSchema("pk", DataType.VARCHAR, is_primary=True, max_length=16),
        FieldSchema("v", DataType.FLOAT_VECTOR, dim=DIM),
    ]
    collection = Collection(name, CollectionSchema(fields, enable_dynamic_field=True))
    collection.create_index("v", {"index_type": "FLAT", "metric_type": "IP"})
    first, second = collection.create_partition("first"), collection.create_partition("second")
    first.insert([{"pk": f"a{i}", "v": VECTORS[i], "n": i} for i in range(10)])
    second.insert([{"pk": f"b{i}", "v": VECTORS[i], "n": i} for i in range(20)])
    assert {p.name for p in collection.partitions} == {"_default", "first", "second"}
    assert (first.num_entities, second.num_entities) == (10, 20)
    first.load()
    assert len(collection.query("n >= 0", partition_names=["first"])) == 10
    collection.load()
    assert len(collection.query("n >= 0")) == 30
    found = collection.search([VECTORS[3]], "v", {}, limit=30, partition_names=["second"])
    assert all(key.startswith("b") for key in found[0].ids)
    utility.create_alias(name, f"{name}_alias")
    assert utility.list_aliases(name) == [f"{name}_alias"]
    assert Collection(f"{name}_alias").num_entities == 30
    utility.drop_alias(f"{name}_alias")
    collection.release()
    collection.drop_partition("second")
    assert not collection.has_partition("second")
    utility.rename_collection(name, f"{name}_b")
    assert utility.list_collections().count(f"{name}_b") == 1
    utility.drop_collection(f"{name}_b")
