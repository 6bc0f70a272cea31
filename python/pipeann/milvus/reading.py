"""Arguments of calls as the service takes them, or None where pymilvus itself has to look at them.

Only what is plain is taken. Everything else goes the way of pymilvus, which knows what it means and
in which words to refuse it.
"""

import json
from typing import Any

import numpy as np
from pymilvus.client.abstract import AnnSearchRequest, BaseRanker

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_SEARCH_PARAMS = {"metric_type", "offset", "params"}

Pairs = list[tuple[str, str]]


def matrix(data: Any) -> np.ndarray | None:
    """Query vectors as a matrix of float32."""
    if isinstance(data, list) and data:
        kind = type(data[0])
        if kind not in (list, np.ndarray) or any(type(row) is not kind for row in data):
            return None
        if kind is np.ndarray and any(row.dtype not in _FLOATS for row in data):
            return None
        try:
            data = np.array(data)
        except ValueError:
            return None
        if data.dtype.kind == "i":
            data = data.astype(np.float64)
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.dtype not in _FLOATS:
        return None
    with np.errstate(over="ignore"):
        data = np.ascontiguousarray(data, dtype=np.float32)
    return data if data.size and np.isfinite(data).all() else None


def names(given: Any) -> list[str] | None:
    """A list of names; empty where there are none."""
    if given is None:
        return []
    if isinstance(given, list) and all(isinstance(name, str) for name in given):
        return given
    return None


def _number(value: Any) -> bool:
    return type(value) is int


def any_json_text(rows: list[Any], fields: list[str]) -> bool:
    """Whether a row has text, or a dict with other keys than texts, in one of the fields of JSON."""

    def is_for_pymilvus(value: Any) -> bool:
        if isinstance(value, dict):
            return not all(isinstance(key, str) for key in value)
        return isinstance(value, (str, bytes, bytearray))

    return any(
        is_for_pymilvus(row.get(name)) for name in fields for row in rows if isinstance(row, dict)
    )


def search_pairs(
    limit: Any, anns_field: Any, search_params: Any, others: dict[str, Any]
) -> Pairs | None:
    """Parameters of a search."""
    given = dict(search_params or {}) if isinstance(search_params, (dict, type(None))) else None
    if given is None or not _number(limit) or limit < 1 or set(given) - _SEARCH_PARAMS:
        return None
    if "offset" in given and "offset" in others:
        return None
    offset = given.get("offset", others.pop("offset", None))
    if others or not (offset is None or _number(offset)):
        return None
    pairs = [("topk", str(limit)), ("round_decimal", "-1"), ("ignore_growing", "False")]
    if offset:
        pairs.append(("offset", str(offset)))
    for name, value in (("anns_field", anns_field), ("metric_type", given.get("metric_type"))):
        if value:
            if not isinstance(value, str):
                return None
            pairs.append((name, value))
    params = given.get("params")
    if params:
        if not isinstance(params, dict):
            return None
        try:
            pairs.append(("params", json.dumps(params)))
        except (TypeError, ValueError):
            return None
    return pairs


def metric(anns_field: Any, search_params: Any) -> dict[str, str]:
    """By which metric a search wants a field to be searched; the field has no name where there is
    but one."""
    named = search_params.get("metric_type") if isinstance(search_params, dict) else None
    return {str(anns_field or ""): named.upper()} if isinstance(named, str) else {}


def one_search(request: AnnSearchRequest) -> tuple[np.ndarray, str, Pairs] | None:
    """One search of several."""
    queries = matrix(request.data)
    pairs = search_pairs(request.limit, request.anns_field, request.param, {})
    expression = request.expr or ""
    if queries is None or pairs is None or not isinstance(expression, str):
        return None
    return None if getattr(request, "expr_params", None) else (queries, expression, pairs)


def ranking(ranker: Any, limit: Any, others: dict[str, Any]) -> Pairs | None:
    """How several searches are ranked as one."""
    # An offset is among the others: pymilvus passes it on to each of the searches too.
    if others or not isinstance(ranker, BaseRanker) or not _number(limit) or limit < 1:
        return None
    given = {**ranker.dict(), "limit": limit, "round_decimal": -1, "offset": 0}
    return [(name, json.dumps(value)) for name, value in given.items()]


def query_pairs(others: dict[str, Any]) -> Pairs | None:
    """Parameters of a query."""
    pairs = []
    for name in ("limit", "offset"):
        value = others.pop(name, None)
        if value is not None:
            if not _number(value):
                return None
            pairs.append((name, str(value)))
    return None if others else pairs


def keys(ids: Any) -> list[int] | list[str] | None:
    """Primary keys, of one type."""
    ids = ids if isinstance(ids, list) else [ids]
    for kind in (int, str):
        if ids and all(type(key) is kind for key in ids):
            return ids
    return None


def keys_filter(key: str, ids: list[Any]) -> str:
    """A filter for these keys, as pymilvus writes it, but for what ends a text or escapes in it."""
    return f"{key} in [{','.join(map(_literal, ids))}]"


def _literal(key: Any) -> str:
    if not isinstance(key, str):
        return str(key)
    escaped = key.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def narrowed(rows: list[Any]) -> list[Any] | None:
    """Rows with vectors of float64 as float32, where there are any."""
    if not isinstance(rows[0], dict):
        return None
    wide = [k for k, v in rows[0].items() if isinstance(v, np.ndarray) and v.dtype == np.float64]
    if not wide:
        return None
    try:
        with np.errstate(over="ignore"):
            return [{**row, **{k: row[k].astype(np.float32) for k in wide}} for row in rows]
    except (AttributeError, KeyError, TypeError):
        return None
