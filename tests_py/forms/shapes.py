"""What of an answer is compared: values with their types, but for what differs from run to run."""

import enum
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

# Names of what is counted or timed anew in each database.
_CHANGING = {
    "collection_id",
    "compaction_id",
    "cost",
    "created_time",
    "created_timestamp",
    "index_id",
    "node_ids",
    "partition_id",
    "schema_version",
    "segment_id",
    "update_timestamp",
}
# Objects whose id is that of a collection.
_NUMBERED = {"ReplicaInfo"}
_DEEPEST = 6
# Ids and moments, addresses of memory and of servers.
_IN_TEXTS = [
    (re.compile(r"\bchannel_\d+v"), "channel_#v"),
    (re.compile(r"\[collection=\d+\]"), "[collection=#]"),
    (re.compile(r"0x[0-9a-f]+"), "0x#"),
    (re.compile(r"\d{9,}"), "#"),
    (re.compile(r"\d+(\.\d+)? ?(us|ms|s)\b"), "#"),
    (re.compile(r"(ipv4|ipv6|unix|http|tcp)s?:(//)?[^\s\"',>)]+"), "address"),
    (re.compile(r"\blocalhost:\d+|127\.0\.0\.1:\d+"), "address"),
]


def text(said: str) -> str:
    """A text without what differs from run to run."""
    for pattern, instead in _IN_TEXTS:
        said = pattern.sub(instead, said)
    return said


def shape(value: Any, depth: int = 0) -> Any:
    """A value with the types of all of its parts. Sequences of numbers count as lists: pymilvus has
    several kinds of them."""
    kind = type(value).__name__
    if isinstance(value, enum.Enum):
        return kind, value.name
    if isinstance(value, (bool, type(None))):
        return value
    if isinstance(value, int):
        return "int", (value if abs(value) < 10**9 else "#")
    if isinstance(value, float):
        return kind, float(np.float32(value))
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bytes):
        return kind, value.hex()
    if depth > _DEEPEST:
        return kind
    if isinstance(value, np.ndarray):
        return kind, [shape(part, depth + 1) for part in value.tolist()]
    if isinstance(value, Mapping):
        parts = {str(key): shape(part, depth + 1) for key, part in value.items()}
        return kind, {key: "#" if key in _CHANGING else part for key, part in parts.items()}
    if isinstance(value, (list, tuple, set)) or "Repeated" in kind:
        kind = "list" if "Repeated" in kind else kind
        return kind, [shape(part, depth + 1) for part in value]
    inside = {name.lstrip("_"): part for name, part in _inside(value).items()}
    if kind in _NUMBERED:
        inside["id"] = "#"
    return kind, {
        name: "#" if name in _CHANGING else shape(part, depth + 1) for name, part in inside.items()
    }


def _inside(value: Any) -> dict[str, Any]:
    """What an object holds that is plain; what it works with is not compared."""
    plain = (bool, int, float, str, bytes, list, tuple, dict, enum.Enum, type(None))
    held = getattr(value, "__dict__", {})
    return {name: part for name, part in sorted(held.items()) if isinstance(part, plain)}


def refusal(error: BaseException) -> Any:
    """How a call was refused. Of a call that does not fit its parameters only that is compared:
    Python says the rest, with the name of the method's class."""
    kind = type(error).__name__
    if isinstance(error, TypeError):
        return "raised", kind, None, re.sub(r"^\w[\w.]*\(\)", "call()", text(str(error)))
    code = getattr(error, "code", None)
    code = code() if callable(code) else code
    return "raised", kind, getattr(code, "name", code), text(str(error))
