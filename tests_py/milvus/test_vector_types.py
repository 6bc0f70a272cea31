"""Vectors of every type: as clients give them, by every metric, against what numpy says."""

from typing import Any

import numpy as np
import pytest
from pymilvus import AnnSearchRequest, DataType, MilvusClient, MilvusException, RRFRanker
from pymilvus.client import entity_helper

ROWS, DIM = 400, 32
NUMBERS = np.random.default_rng(11).standard_normal((ROWS, DIM)).astype(np.float32)
QUERY = np.random.default_rng(12).standard_normal((1, DIM)).astype(np.float32)

FLOATS = ("L2", "IP", "COSINE")
BITS = ("HAMMING", "JACCARD")


class Brain(np.ndarray):
    """bfloat16 as the package ml_dtypes has it, as far as pymilvus looks: the name of the type, and
    the bytes, which are the upper half of each number."""

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return "bfloat16"


def brain(numbers: np.ndarray) -> list[bytes]:
    """bfloat16, which numpy does not have."""
    halves = (np.ascontiguousarray(numbers).view(np.uint32) >> 16).astype(np.uint16)
    return [row.tobytes() for row in halves]


def narrow(kind: DataType, numbers: np.ndarray) -> list[Any]:
    """Vectors as clients give them."""
    match kind:
        case DataType.FLOAT16_VECTOR:
            return list(numbers.astype(np.float16))
        case DataType.BFLOAT16_VECTOR:
            return brain(numbers)
        case DataType.INT8_VECTOR:
            return list((numbers * 40).round().clip(-128, 127).astype(np.int8))
        case DataType.BINARY_VECTOR:
            return [row.tobytes() for row in np.packbits(numbers > 0, axis=1)]
    return list(numbers)


def asked(kind: DataType, numbers: np.ndarray) -> list[Any]:
    """Queries as clients give them: bytes alone would be bits."""
    given = narrow(kind, numbers)
    if kind is DataType.BFLOAT16_VECTOR:
        return [np.frombuffer(row, np.uint16).view(Brain) for row in given]
    return given


def widened(kind: DataType, numbers: np.ndarray) -> np.ndarray:
    """The numbers that these vectors hold."""
    given = narrow(kind, numbers)
    match kind:
        case DataType.BFLOAT16_VECTOR:
            halves = np.frombuffer(b"".join(given), np.uint16).astype(np.uint32) << 16
            return halves.view(np.float32).reshape(numbers.shape)
        case DataType.BINARY_VECTOR:
            return (numbers > 0).astype(np.float32)
    return np.array(given).astype(np.float32)


def scores(metric: str, base: np.ndarray, query: np.ndarray) -> np.ndarray:
    base, query = base.astype(np.float64), query.astype(np.float64)
    common = base @ query
    match metric:
        case "L2":
            return ((base - query) ** 2).sum(axis=1)
        case "IP":
            return common
        case "COSINE":
            return common / np.linalg.norm(base, axis=1) / np.linalg.norm(query)
        case "HAMMING":
            return (base != query).sum(axis=1)
    return 1 - common / (base.sum(axis=1) + query.sum() - common)


def create(
    client: MilvusClient, name: str, kind: DataType, metric: str, index_type: str
) -> None:
    schema = client.create_schema()
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("v", kind, dim=DIM)
    index = client.prepare_index_params()
    index.add_index("v", index_type=index_type, metric_type=metric)
    client.create_collection(name, schema=schema, index_params=index)


CASES = [
    (kind, metric, index_type)
    for kind, metrics, index_types in [
        (DataType.FLOAT16_VECTOR, FLOATS, ("HNSW", "FLAT", "AUTOINDEX")),
        (DataType.BFLOAT16_VECTOR, FLOATS, ("IVF_FLAT", "DISKANN", "FLAT")),
        (DataType.INT8_VECTOR, FLOATS, ("HNSW", "AUTOINDEX", "HNSW")),
        (DataType.BINARY_VECTOR, BITS, ("BIN_FLAT", "BIN_IVF_FLAT")),
        (DataType.BINARY_VECTOR, BITS, ("HNSW", "DISKANN")),
        (DataType.BINARY_VECTOR, BITS, ("AUTOINDEX", "AUTOINDEX")),
    ]
    for metric, index_type in zip(metrics, index_types, strict=True)
]


@pytest.mark.parametrize(("kind", "metric", "index_type"), CASES)
def test_the_nearest_are_found(
    client: MilvusClient, name: str, kind: DataType, metric: str, index_type: str
) -> None:
    create(client, name, kind, metric, index_type)
    vectors = narrow(kind, NUMBERS)
    client.insert(name, [{"id": i, "v": vector} for i, vector in enumerate(vectors)])
    described = client.describe_index(name, "v")
    assert (described["metric_type"], described["index_type"]) == (metric, index_type)
    expected = scores(metric, widened(kind, NUMBERS), widened(kind, QUERY)[0])
    best = np.sort(-expected if metric in ("IP", "COSINE") else expected)[:10]
    best = -best if metric in ("IP", "COSINE") else best
    (hits,) = client.search(name, asked(kind, QUERY), limit=10, output_fields=["v"])
    found = np.array([hit["distance"] for hit in hits])
    assert np.allclose(found, best, rtol=1e-3, atol=1e-4), (found, best)
    assert np.allclose([expected[hit["id"]] for hit in hits], found, rtol=1e-3, atol=1e-4)
    for hit in hits:
        # pymilvus wraps bytes of a vector in a list.
        there = hit["entity"]["v"]
        there = there[0] if isinstance(there, list) else there
        raw = there if isinstance(there, bytes) else np.asarray(there).tobytes()
        given = vectors[hit["id"]]
        assert raw == (given if isinstance(given, bytes) else given.tobytes())
    client.drop_collection(name)


@pytest.mark.parametrize("kind", [DataType.FLOAT16_VECTOR, DataType.BFLOAT16_VECTOR])
def test_floats_are_taken_for_halves(client: MilvusClient, name: str, kind: DataType) -> None:
    create(client, name, kind, "L2", "HNSW")
    # Clients before 2.6.17 refuse to write floats themselves.
    floats = hasattr(entity_helper, "_pack_fp32_vector_value")
    rows = NUMBERS.tolist() if floats else narrow(kind, NUMBERS)
    client.insert(name, [{"id": i, "v": row} for i, row in enumerate(rows)])
    expected = np.argsort(scores("L2", NUMBERS, QUERY[0]))[:3]
    (hits,) = client.search(name, QUERY.tolist(), limit=3)
    assert [hit["id"] for hit in hits] == expected.tolist()
    client.drop_collection(name)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (DataType.BINARY_VECTOR, "HAMMING"),
        (DataType.INT8_VECTOR, "COSINE"),
        (DataType.FLOAT16_VECTOR, "COSINE"),
    ],
)
def test_a_metric_is_chosen_by_type(
    client: MilvusClient, name: str, kind: DataType, expected: str
) -> None:
    schema = client.create_schema()
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("v", kind, dim=DIM)
    client.create_collection(name, schema=schema)
    index = client.prepare_index_params()
    index.add_index("v")
    client.create_index(name, index)
    assert client.describe_index(name, "v")["metric_type"] == expected


@pytest.mark.parametrize(
    ("kind", "metric", "text"),
    [
        (DataType.BINARY_VECTOR, "L2", "binary vector index does not support metric type: L2"),
        (DataType.BINARY_VECTOR, "SUBSTRUCTURE", "metric type: SUBSTRUCTURE"),
        (DataType.BINARY_VECTOR, "SUPERSTRUCTURE", "metric type: SUPERSTRUCTURE"),
        (DataType.FLOAT16_VECTOR, "HAMMING", "float vector index does not support metric type"),
        (DataType.INT8_VECTOR, "JACCARD", "int vector index does not support metric type"),
    ],
)
def test_a_metric_of_another_type_is_refused(
    client: MilvusClient, name: str, kind: DataType, metric: str, text: str
) -> None:
    with pytest.raises(MilvusException, match=text):
        create(client, name, kind, metric, "AUTOINDEX")


def test_an_index_of_another_type_is_refused(client: MilvusClient, name: str) -> None:
    with pytest.raises(MilvusException, match="IVF_PQ"):
        create(client, name, DataType.BINARY_VECTOR, "HAMMING", "IVF_PQ")
    with pytest.raises(MilvusException, match="BIN_FLAT"):
        create(client, f"{name}_floats", DataType.FLOAT16_VECTOR, "L2", "BIN_FLAT")


def test_ranges_filters_and_changes(client: MilvusClient, name: str) -> None:
    kind = DataType.BINARY_VECTOR
    create(client, name, kind, "HAMMING", "HNSW")
    vectors = narrow(kind, NUMBERS)
    client.insert(name, [{"id": i, "v": vector} for i, vector in enumerate(vectors)])
    expected = scores("HAMMING", widened(kind, NUMBERS), widened(kind, QUERY)[0])
    params = {"params": {"radius": 14, "range_filter": 10}}
    (hits,) = client.search(name, narrow(kind, QUERY), limit=ROWS, search_params=params)
    wanted = [i for i in range(ROWS) if 10 <= expected[i] < 14]
    assert sorted(hit["id"] for hit in hits) == wanted
    (hits,) = client.search(name, narrow(kind, QUERY), limit=5, filter="id < 5")
    assert [hit["distance"] for hit in hits] == sorted(expected[:5].tolist())
    client.delete(name, ids=list(range(100)))
    client.upsert(name, [{"id": 7, "v": narrow(kind, QUERY)[0]}])
    (hits,) = client.search(name, narrow(kind, QUERY), limit=3)
    assert (hits[0]["id"], hits[0]["distance"]) == (7, 0)
    assert all(hit["id"] >= 100 for hit in hits[1:])
    wrong = {"metric_type": "JACCARD"}
    with pytest.raises(MilvusException, match="metric type not match"):
        client.search(name, narrow(kind, QUERY), limit=3, search_params=wrong)
    with pytest.raises(MilvusException, match="vector type must be the same"):
        client.search(name, [QUERY[0].tolist()], limit=3)


def test_several_types_are_searched_as_one(client: MilvusClient, name: str) -> None:
    kinds = {
        "half": (DataType.FLOAT16_VECTOR, "L2"),
        "small": (DataType.INT8_VECTOR, "COSINE"),
        "bits": (DataType.BINARY_VECTOR, "JACCARD"),
        "plain": (DataType.FLOAT_VECTOR, "IP"),
    }
    schema = client.create_schema()
    schema.add_field("id", DataType.INT64, is_primary=True)
    index = client.prepare_index_params()
    for field, (kind, metric) in kinds.items():
        schema.add_field(field, kind, dim=DIM)
        index.add_index(field, index_type="AUTOINDEX", metric_type=metric)
    client.create_collection(name, schema=schema, index_params=index)
    columns = {field: narrow(kind, NUMBERS) for field, (kind, _) in kinds.items()}
    rows = [{"id": i, **{f: column[i] for f, column in columns.items()}} for i in range(ROWS)]
    client.insert(name, rows)
    near = NUMBERS[42:43]
    requests = [
        AnnSearchRequest(narrow(kind, near), field, {"metric_type": metric}, limit=20)
        for field, (kind, metric) in kinds.items()
    ]
    (hits,) = client.hybrid_search(name, requests, RRFRanker(), limit=5)
    assert hits[0]["id"] == 42
    (row,) = client.query(name, filter="id == 42", output_fields=["half", "small", "bits"])
    (bits,) = row["bits"]
    assert bits == columns["bits"][42]
