"""Vectors of every type, in the process as on a server."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pymilvus import AnnSearchRequest, DataType, RRFRanker

Doors = tuple[Any, Any]
ROWS, DIM = 60, 16
NUMBERS = np.random.default_rng(21).standard_normal((ROWS, DIM)).astype(np.float32)

KINDS = {
    "half": (DataType.FLOAT16_VECTOR, "L2"),
    "small": (DataType.INT8_VECTOR, "IP"),
    "bits": (DataType.BINARY_VECTOR, "JACCARD"),
    "brain": (DataType.BFLOAT16_VECTOR, "COSINE"),
}


class Brain(np.ndarray):
    """bfloat16 as the package ml_dtypes has it, as far as pymilvus looks: the name of the type, and
    the bytes, which are the upper half of each number."""

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return "bfloat16"


def narrow(field: str, numbers: np.ndarray) -> list[Any]:
    """Vectors as clients give them."""
    match field:
        case "half":
            return list(numbers.astype(np.float16))
        case "small":
            return list((numbers * 40).round().astype(np.int8))
        case "bits":
            return [row.tobytes() for row in np.packbits(numbers > 0, axis=1)]
    halves = (np.ascontiguousarray(numbers).view(np.uint32) >> 16).astype(np.uint16)
    return [row.tobytes() for row in halves]


def asked(field: str, numbers: np.ndarray) -> list[Any]:
    """Queries as clients give them: bytes alone would be bits."""
    given = narrow(field, numbers)
    if field == "brain":
        return [np.frombuffer(row, np.uint16).view(Brain) for row in given]
    return given


def outcome(call: Callable[[Any], Any], client: Any) -> Any:
    """What a call returns, or how it is refused."""
    try:
        return "returned", str(call(client))
    except Exception as error:
        return "raised", type(error).__name__, getattr(error, "code", None), str(error)


@pytest.fixture
def both(doors: Doors) -> Doors:
    """A collection with a vector of each type, in both."""
    for client in doors:
        schema = client.create_schema()
        schema.add_field("id", DataType.INT64, is_primary=True)
        index = client.prepare_index_params()
        for field, (kind, metric) in KINDS.items():
            schema.add_field(field, kind, dim=DIM)
            index.add_index(field, index_type="AUTOINDEX", metric_type=metric)
        client.create_collection("types", schema=schema, index_params=index)
        columns = {field: narrow(field, NUMBERS) for field in KINDS}
        rows = [{"id": i, **{f: columns[f][i] for f in KINDS}} for i in range(ROWS)]
        assert client.insert("types", rows)["insert_count"] == ROWS
    return doors


@pytest.mark.parametrize("field", KINDS)
def test_searches_find_the_same(both: Doors, field: str) -> None:
    def search(client: Any) -> Any:
        queries = asked(field, NUMBERS[5:7])
        return client.search("types", queries, anns_field=field, limit=4, output_fields=["*"])

    here, there = (search(client) for client in both)
    assert [[(hit["id"], hit["distance"]) for hit in hits] for hits in here] == [
        [(hit["id"], hit["distance"]) for hit in hits] for hits in there
    ]
    assert str(here) == str(there)
    # By inner product another row may be nearer than the row itself.
    assert here[0][0]["id"] == 5 or field == "small"


def test_rankings_of_several_types_are_the_same(both: Doors) -> None:
    def search(client: Any) -> Any:
        requests = [
            AnnSearchRequest(asked(field, NUMBERS[9:10]), field, {}, limit=10) for field in KINDS
        ]
        return client.hybrid_search("types", requests, RRFRanker(), limit=3)

    here, there = (outcome(search, client) for client in both)
    assert here == there
    assert here[0] == "returned", here


def test_indexes_are_chosen_by_type(client: Any) -> None:
    """A collection whose indexes nobody declares, as the specification has it."""
    fields = [{"name": "id", "dtype": "INT64", "is_primary": True}]
    for field, (kind, _) in KINDS.items():
        fields.append({"name": field, "dtype": kind.name, "params": {"dim": DIM}})
    client.create_collection("plain", schema={"auto_id": False, "fields": fields})
    columns = {field: narrow(field, NUMBERS) for field in KINDS}
    client.insert("plain", [{"id": i, **{f: columns[f][i] for f in KINDS}} for i in range(ROWS)])
    for field in KINDS:
        (hits,) = client.search("plain", asked(field, NUMBERS[3:4]), anns_field=field, limit=1)
        assert hits[0]["id"] == 3
        expected = "HAMMING" if field == "bits" else "COSINE"
        assert client.describe_index("plain", field)["metric_type"] == expected


def test_refusals_are_the_same(both: Doors) -> None:
    calls: list[Callable[[Any], Any]] = [
        lambda c: c.search("types", [NUMBERS[0].tolist()], anns_field="bits", limit=1),
        lambda c: c.search("types", narrow("bits", NUMBERS[:1]), anns_field="half", limit=1),
        lambda c: c.search(
            "types",
            narrow("bits", NUMBERS[:1]),
            anns_field="bits",
            limit=1,
            search_params={"metric_type": "HAMMING"},
        ),
    ]
    for call in calls:
        here, there = (outcome(call, client) for client in both)
        assert here[0] == "raised"
        assert here == there
