"""Databases, properties, added fields, errors: what applications do beside searching."""

import pytest
from pymilvus import DataType, MilvusClient, MilvusException

DIM = 4


def test_databases_keep_collections_apart(client: MilvusClient, address: str, name: str) -> None:
    client.create_database("apart")
    assert "apart" in client.list_databases()
    inside = MilvusClient(uri=f"http://{address}", db_name="apart")
    inside.create_collection(name, dimension=DIM)
    inside.insert(name, [{"id": 1, "vector": [0.5] * DIM}])
    assert inside.list_collections() == [name]
    assert not client.has_collection(name)
    assert client.describe_database("apart")["name"] == "apart"
    with pytest.raises(MilvusException, match="not empty"):
        client.drop_database("apart")
    inside.drop_collection(name)
    inside.close()
    client.drop_database("apart")
    assert "apart" not in client.list_databases()


def test_aliases_partitions_and_names(client: MilvusClient, name: str) -> None:
    client.create_collection(name, dimension=DIM)
    client.create_alias(name, f"{name}_a")
    assert client.describe_alias(f"{name}_a")["collection_name"] == name
    assert client.list_aliases(name)["aliases"] == [f"{name}_a"]
    client.create_partition(name, "p")
    assert client.list_partitions(name) == ["_default", "p"]
    client.insert(name, [{"id": 1, "vector": [0.5] * DIM}], partition_name="p")
    assert client.get_partition_stats(name, "p") == {"row_count": 1}
    with pytest.raises(MilvusException, match="loaded"):
        client.drop_partition(name, "p")
    client.release_partitions(name, ["p"])
    client.drop_partition(name, "p")
    assert not client.has_partition(name, "p")
    client.drop_alias(f"{name}_a")
    client.rename_collection(name, f"{name}_b")
    assert client.has_collection(f"{name}_b")
    client.drop_collection(f"{name}_b")


def test_partition_keys(client: MilvusClient, name: str) -> None:
    schema = client.create_schema()
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIM)
    schema.add_field("tenant", DataType.VARCHAR, max_length=16, is_partition_key=True)
    index = client.prepare_index_params()
    index.add_index("vector", index_type="AUTOINDEX", metric_type="COSINE")
    client.create_collection(name, schema=schema, index_params=index, num_partitions=4)
    assert len(client.list_partitions(name)) == 4
    rows = [{"id": i, "vector": [i + 1.0] * DIM, "tenant": f"t{i % 3}"} for i in range(9)]
    client.insert(name, rows)
    found = client.query(name, filter="tenant == 't1'", output_fields=["tenant"])
    assert [row["id"] for row in found] == [1, 4, 7]
    with pytest.raises(MilvusException, match="partition key mode"):
        client.insert(name, rows, partition_name="_default_0")


def test_properties_and_added_fields(client: MilvusClient, name: str) -> None:
    client.create_collection(name, dimension=DIM)
    client.insert(name, [{"id": 1, "vector": [0.5] * DIM}])
    client.alter_collection_properties(name, {"mmap.enabled": "true"})
    assert client.describe_collection(name)["properties"]["mmap.enabled"] == "true"
    client.drop_collection_properties(name, ["mmap.enabled"])
    assert "mmap.enabled" not in client.describe_collection(name)["properties"]
    client.add_collection_field(name, "size", DataType.INT32, nullable=True)
    client.insert(name, [{"id": 2, "vector": [0.5] * DIM, "size": 7}])
    found = client.query(name, filter="id > 0", output_fields=["size"])
    assert [row["size"] for row in found] == [None, 7]
    with pytest.raises(MilvusException, match="TTL is out of range"):
        client.alter_collection_properties(name, {"collection.ttl.seconds": "soon"})
    client.alter_collection_properties(name, {"collection.ttl.seconds": 3600})
    assert len(client.query(name, filter="id > 0")) == 2
    client.upsert(name, [{"id": 1, "size": 9}], partial_update=True)
    assert client.get(name, ids=[1], output_fields=["size", "vector"])[0]["size"] == 9
    client.alter_index_properties(name, "vector", {"mmap.enabled": True})
    client.truncate_collection(name)
    assert client.query(name, output_fields=["count(*)"])[0]["count(*)"] == 0


def test_segments_and_compactions(client: MilvusClient, name: str) -> None:
    client.create_collection(name, dimension=DIM)
    client.insert(name, [{"id": i, "vector": [0.5] * DIM} for i in range(5)])
    client.flush(name)
    assert sum(s.num_rows for s in client.list_persistent_segments(name)) == 5
    assert sum(s.num_rows for s in client.list_loaded_segments(name)) == 5
    assert client.get_compaction_state(client.compact(name)) == "Completed"
    assert client.get_server_version().startswith("v2.6")
    assert len(client.describe_replica(name)) == 1
    client.refresh_load(name)


def test_errors_have_the_codes_that_clients_know(client: MilvusClient, name: str) -> None:
    def code_of(call: object) -> int:
        with pytest.raises(MilvusException) as refused:
            call()  # type: ignore[operator]
        return refused.value.code

    assert code_of(lambda: client.describe_collection(name)) == 100
    assert code_of(lambda: client.insert(name, [{"id": 1, "vector": [0.0] * DIM}])) == 100
    client.create_collection(name, dimension=DIM)
    assert code_of(lambda: client.search(name, [[0.5] * DIM], limit=16385)) == 1100
    assert code_of(lambda: client.search(name, [[0.5] * 3], limit=1)) == 1100
    assert code_of(lambda: client.query(name, filter="id ==")) == 1100
    assert code_of(lambda: client.query(name, filter="id > 0", partition_names=["x"])) == 200
    assert code_of(lambda: client.describe_alias("nobody")) == 1600
    other = client.create_schema()
    other.add_field("id", DataType.INT64, is_primary=True)
    other.add_field("vector", DataType.FLOAT_VECTOR, dim=DIM + 1)
    with pytest.raises(MilvusException, match="create duplicate collection"):
        client.create_collection(name, schema=other)
