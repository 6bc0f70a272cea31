"""What values become on their way in and out, and what searches and loads return."""

import json
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)

loads = json.loads


def dumps(value: object) -> str:
    """JSON text of a value; NaN and infinity have none."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def to_us(value: object) -> int:
    """Microseconds since 1970 of an aware datetime, or of a number of them."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(f"{value.isoformat()} has no zone; give it one, such as timezone.utc")
        return (value - _EPOCH) // _MICROSECOND
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise ValueError("NaT is no instant; give None")
        return int(value.astype("datetime64[us]").astype(np.int64))
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    raise TypeError(f"expected an aware datetime, found {type(value).__name__}")


def from_us(value: int) -> datetime | np.datetime64:
    """The instant in UTC; numpy's where it is beyond the years of datetime."""
    try:
        return _EPOCH + timedelta(microseconds=value)
    except OverflowError:
        return np.datetime64(value, "us")


class Hits(NamedTuple):
    """The nearest rows of one query, nearest first.

    keys: primary keys; an int64 array, or a list of str.
    distances: float32; squared Euclidean distance, negated inner product, 1 - cosine similarity,
        bits that differ, or Jaccard distance. Smaller is nearer.
    row_ids: uint64; what the rows are called inside the collection.
    columns: a column for the primary key and each field asked for.
    """

    keys: npt.NDArray[np.int64] | list[str]
    distances: npt.NDArray[np.float32]
    row_ids: npt.NDArray[np.uint64]
    columns: dict[str, Any]


class IndexStatus(NamedTuple):
    """How far an index is.

    state: "not_built", "building", "finished" or "failed".
    rows_done, rows: of the build under way, or of the last one.
    linked: rows in the graph; 0 where the collection is not loaded, or too small for one.
    pending: rows that wait to enter it, and are searched exactly meanwhile.
    deleted: rows that have not left it.
    failure: why the build failed, or rows enter the graph no more; None where all is well.
    """

    name: str
    state: str
    rows_done: int
    rows: int
    linked: int
    pending: int
    deleted: int
    failure: str | None


class LoadProgress(NamedTuple):
    """How far a bulk load has come.

    rows: rows of the source that are in the collection, those of earlier attempts included.
    resumed_at: of these, rows that earlier attempts loaded.
    total: rows of the source, or None.
    rows_per_second: of this attempt.
    seconds_left: for the rows, or None.
    index: name, rows in it, rows there will be; while an index is built.
    """

    rows: int
    resumed_at: int
    total: int | None
    rows_per_second: float
    seconds_left: float | None
    index: tuple[str, int, int] | None


class LoadReport(NamedTuple):
    """What a bulk load did.

    name: by which it is continued, and forgotten.
    rows: rows of the source, all of them in the collection.
    resumed_at: of these, rows that earlier attempts loaded; all where it had ended before.
    logged_bytes: that this attempt wrote to the log.
    rows_seconds, index_seconds: that this attempt took.
    indexes: names of those that were built.
    """

    name: str
    rows: int
    resumed_at: int
    logged_bytes: int
    rows_seconds: float
    index_seconds: float
    indexes: list[str]


class LoadEstimate(NamedTuple):
    """What a bulk load takes; rough.

    row_bytes: of a row on disk; texts, JSON and arrays count as a guess.
    seconds, disk_bytes, memory_bytes: for the rows.
    indexes: by field: cpu_seconds, memory_bytes and disk_bytes of its index in addition.
    """

    rows: int | None
    row_bytes: int
    seconds: float
    disk_bytes: int
    memory_bytes: int
    indexes: dict[str, dict[str, float]]
