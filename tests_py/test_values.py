"""Every type of a field goes in and comes out the same, as columns and as rows."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeann import Collection, Database, Field
from pipeann.errors import InputError

ZONE = timezone(timedelta(hours=5, minutes=30))
FIELDS = [
    Field("id", "int64", primary_key=True),
    Field("truth", "bool"),
    Field("tiny", "int8"),
    Field("small", "int16"),
    Field("medium", "int32"),
    Field("large", "int64", nullable=True),
    Field("single", "float"),
    Field("double", "double", nullable=True),
    Field("moment", "timestamptz", nullable=True),
    Field("text", "varchar", max_bytes=20, nullable=True),
    Field("object", "json", nullable=True),
    Field("numbers", "array<int32>", max_capacity=5),
    Field("words", "array<varchar>", max_capacity=5, max_bytes=20),
    Field("floats", "float_vector", dim=4),
    Field("bytes", "uint8_vector", dim=4),
    Field("signed", "int8_vector", dim=4),
    Field("halves", "float16_vector", dim=4),
    Field("uppers", "bfloat16_vector", dim=4),
    Field("bits", "binary_vector", dim=16),
    Field("sparse", "sparse_float_vector"),
]


def moment(day: int) -> datetime:
    return datetime(2026, 11, day, 12, 30, 1, 234567, tzinfo=ZONE)


def columns() -> dict[str, Any]:
    return {
        "id": np.array([3, 1, 2]),
        "truth": np.array([True, False, True]),
        "tiny": np.array([-128, 0, 127], np.int8),
        "small": np.array([-(2**15), 0, 2**15 - 1], np.int16),
        "medium": np.array([-(2**31), 0, 2**31 - 1], np.int32),
        "large": [-(2**63), None, 2**63 - 1],
        "single": np.array([0.1, -2.5, 3e38], np.float32),
        "double": [0.1, None, 1e300],
        "moment": [moment(1), None, moment(2)],
        "text": ["", None, "zwölf \U0001f600"],
        "object": [{"a": [1, None, "ä"]}, None, "text"],
        "numbers": [[1, -2], [], [7]],
        "words": [["a", ""], [], ["ä"]],
        "floats": np.arange(12, dtype=np.float32).reshape(3, 4) / 7,
        "bytes": np.arange(12, dtype=np.uint8).reshape(3, 4),
        "signed": np.arange(-6, 6, dtype=np.int8).reshape(3, 4),
        "halves": np.arange(12, dtype=np.float16).reshape(3, 4) / 8,
        "uppers": np.arange(12, dtype=np.uint16).reshape(3, 4) + 0x3F80,
        "bits": np.arange(6, dtype=np.uint8).reshape(3, 2),
        "sparse": [{7: 0.5, 2: -1.0}, {}, {0: 1.0}],
    }


def as_rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: column[i] for name, column in columns.items()} for i in range(3)]


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    else:
        assert found == expected


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Database.open(tmp_path / "db") as database:
        yield database.create_collection("c", FIELDS)


@pytest.mark.parametrize("form", [lambda c: c, as_rows], ids=["columns", "rows"])
def test_every_type_comes_back_as_it_was_given(collection: Collection, form: Any) -> None:
    given = columns()
    keys = collection.insert(form(given))
    same(keys, np.array([3, 1, 2]))
    found = collection.query(columns=True)
    assert list(found) == [field.name for field in FIELDS]
    for name, column in given.items():
        same(found[name], column)
    for at, row in enumerate(collection.get(keys)):
        assert row["id"] == keys[at]
        for name in ["floats", "bytes", "signed", "halves", "uppers", "bits"]:
            same(row[name], given[name][at])
        for name in ["large", "double", "moment", "text", "object", "numbers", "words", "sparse"]:
            same(row[name], given[name][at])
        assert row["truth"] is bool(given["truth"][at])


def test_times_keep_their_instant_and_come_in_utc(collection: Collection) -> None:
    given = columns() | {"moment": np.array(["2026-11-01T07:00", "NaT", "1969-12-31"], "M8[ms]")}
    collection.insert(given)
    collection.insert(columns() | {"id": [4, 5, 6], "moment": np.array([0, -1, 2**60])})
    found = collection.query(["moment"], columns=True)["moment"]
    utc = timezone.utc
    first = [datetime(2026, 11, 1, 7, tzinfo=utc), None, datetime(1969, 12, 31, tzinfo=utc)]
    assert found[:3] == first
    epoch = datetime(1970, 1, 1, tzinfo=utc)
    assert found[3:5] == [epoch, epoch - timedelta(microseconds=1)]
    assert found[5] == np.datetime64(2**60, "us"), "beyond the years of datetime"


def test_arrays_of_other_layouts_are_taken(collection: Collection) -> None:
    given = columns()
    other = given | {
        "floats": np.asfortranarray(given["floats"]),
        "single": given["single"].astype(">f4"),
        "large": np.ma.array([1, 2, 3], mask=[0, 1, 0]),
        "medium": np.array([1, 2, 3], np.uint32),
        "id": np.arange(6)[::2],
        "bytes": [b"\x00\x01\x02\x03", [4, 5, 6, 7], given["bytes"][2]],
    }
    collection.insert(other)
    found = collection.query(columns=True)
    for name in ["floats", "single", "bytes"]:
        same(found[name], given[name])
    assert found["large"] == [1, None, 3]
    assert found["medium"].tolist() == [1, 2, 3]


BAD: list[tuple[str, Any, int | None, str]] = [
    ("floats", np.zeros((3, 5), np.float32), None, "dimension 4, vectors of 5"),
    ("floats", np.zeros((3, 4)), None, "expected dtype float32, found float64"),
    ("floats", np.zeros(12, np.float32), None, "shape"),
    ("floats", np.array([[0] * 4, [0, np.nan, 0, 0], [0] * 4], np.float32), 1, "NaN"),
    ("floats", [[0.0] * 4, [0.0] * 4, [0.0] * 5], 2, "5 components"),
    ("floats", [[0.0] * 4, None, [0.0] * 4], 1, "null"),
    ("floats", [[0.0] * 4, [1e39] * 4, [0.0] * 4], 1, "too large"),
    ("bytes", [[0] * 4, [256, 0, 0, 0], [0] * 4], 1, "256 is out of the range"),
    ("bits", np.zeros((3, 3), np.uint8), None, "dimension 16, vectors of 24"),
    ("sparse", [{1: 1.0}, {-1: 1.0}, {}], 1, "-1 is out of the range"),
    ("sparse", [{1: float("nan")}, {}, {}], 0, "NaN"),
    ("tiny", [1, 2, 128], 2, "128 is out of the range of int8"),
    ("tiny", [1, True, 3], 1, "found a bool"),
    ("tiny", [1, 2.5, 3], 1, "expected an integer, found float"),
    ("tiny", np.array([1.0, 2.0, 3.0]), None, "dtype float64"),
    ("large", [1, 2**70, 3], 1, "does not fit 64 bits"),
    ("large", np.array([1, 2**63, 3], np.uint64), None, "does not fit int64"),
    ("truth", [True, "yes", False], 1, "expected a bool, found str"),
    ("truth", [True, None, False], 1, "null"),
    ("single", ["1", 2.0, 3.0], 0, "expected a number, found str"),
    ("text", ["a", "b", "c" * 21], 2, "21 bytes"),
    ("text", ["a", b"b", "c"], 1, "expected a str, found bytes"),
    ("text", "abc", None, "an entry for each row"),
    ("moment", [datetime(2026, 1, 1), None, None], 0, "no zone"),
    ("moment", [None, "2026", None], 1, "aware datetime"),
    ("object", [{"a": float("nan")}, None, None], 0, "JSON"),
    ("object", [None, b"{", None], 1, "JSON"),
    ("numbers", [[1], [1, "a"], []], 1, "element 1"),
    ("numbers", [[1], [2], [3] * 6], 2, "6 elements"),
    ("words", [["a"], "word", []], 1, "expected a list, found str"),
    ("id", [1, 2], None, "2 values, the batch has 3 rows"),
    ("unknown", [1, 2, 3], None, "no such field"),
]


@pytest.mark.parametrize(("field", "column", "row", "says"), BAD)
def test_what_does_not_fit_is_refused_by_field_and_row(
    collection: Collection, field: str, column: Any, row: int | None, says: str
) -> None:
    given = columns() | {field: column}
    if field == "id":
        given = {name: given[name] for name in ["truth", *given]}
    with pytest.raises(InputError, match=says) as caught:
        collection.insert(given)
    assert caught.value.action == "fix"
    assert (caught.value.field, caught.value.row) == (field, row)
    assert f"`{field}`" in str(caught.value)
    assert row is None or f"row {row}" in str(caught.value)
    assert collection.count() == 0


def test_a_row_that_lacks_a_field_is_refused_or_completed(tmp_path: Path) -> None:
    fields = [
        Field("id", "varchar", primary_key=True, max_bytes=9),
        Field("v", "float_vector", dim=2),
        Field("score", "double", default=0.5),
        Field("note", "varchar", max_bytes=9, nullable=True),
    ]
    with Database.open(tmp_path) as database:
        c = database.create_collection("c", fields)
        c.insert([{"id": "a", "v": [1, 2]}, {"id": "b", "v": [3, 4], "score": 2.0, "note": "x"}])
        found = c.get(["b", "a", "zzz"], ["score", "note"])
        assert found == [
            {"id": "b", "score": 2.0, "note": "x"},
            {"id": "a", "score": 0.5, "note": None},
        ]
        with pytest.raises(InputError, match="field `v`, row 1: null"):
            c.insert([{"id": "c", "v": [1, 2]}, {"id": "d"}])
        with pytest.raises(InputError, match="field `v` is missing"):
            c.insert({"id": ["e"]})
        with pytest.raises(InputError, match="no rows"):
            c.insert([])


def test_names_that_no_field_has_go_into_the_dynamic_field(tmp_path: Path) -> None:
    fields = [Field("id", "int64", primary_key=True, auto_id=True), Field("v", "float_vector", dim=2)]
    with Database.open(tmp_path) as database:
        c = database.create_collection("c", fields, dynamic=True)
        keys = c.insert([{"v": [1, 2], "colour": "red"}, {"v": [3, 4], "size": [1, 2]}])
        more = c.insert({"v": [[5, 6]], "colour": ["blue"]})
        found = c.get([*keys, *more], ["$meta"])
        extra = [row["$meta"] for row in found]
        assert extra == [{"colour": "red"}, {"size": [1, 2]}, {"colour": "blue"}]
        with pytest.raises(InputError, match="assigned automatically"):
            c.insert({"id": [1], "v": [[1, 2]]})
