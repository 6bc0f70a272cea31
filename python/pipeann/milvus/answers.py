"""Answers of the service in the types of pymilvus, made without its messages."""

from typing import Any

from pymilvus import MilvusClient
from pymilvus.client.search_result import Hit, HybridHits, SearchResult
from pymilvus.client.types import HybridExtraList, OmitZeroDict
from pymilvus.exceptions import MilvusException

_SESSION = "iterator_session_ts"


def _name_of_keys(method: Any) -> str:
    """Versions of pymilvus name the keys of rows differently, and only their code tells."""
    constants = method.__code__.co_consts
    each = (part for one in constants for part in (one if isinstance(one, tuple) else (one,)))
    return "primary_keys" if "primary_keys" in each else "ids"


_KEYS = {
    "insert_count": _name_of_keys(MilvusClient.insert),
    "upsert_count": _name_of_keys(MilvusClient.upsert),
}


def refuse(answer: tuple[Any, ...]) -> None:
    """Raises what the service refused, if it did."""
    if answer[0] != 0:
        legacy, code, reason = answer
        raise MilvusException(code, reason, legacy)


def _hits(key: str, found: tuple[Any, ...]) -> HybridHits:
    keys, distances, entities = found
    hits = HybridHits.__new__(HybridHits)
    rows = zip(keys, distances, entities, strict=True)
    each = ({key: k, "distance": distance, "entity": entity} for k, distance, entity in rows)
    list.__init__(hits, [Hit(hit, pk_name=key) for hit in each])
    hits.ids = keys
    hits.distances = distances
    # Nothing is left to be decoded later.
    hits.lazy_field_data = []
    hits.has_materialized = True
    hits.dynamic_fields = set()
    hits.start = 0
    return hits


def search_result(answer: tuple[Any, ...]) -> SearchResult:
    """Hits of each query."""
    refuse(answer)
    _, key, queries, session = answer
    result = SearchResult.__new__(SearchResult)
    list.__init__(result, [_hits(key, found) for found in queries])
    result.recalls = None
    result.extra = {}
    result.agg_buckets = []
    result._session_ts = session
    result._search_iterator_v2_results = None
    return result


def rows(answer: tuple[Any, ...]) -> HybridExtraList:
    """Rows as dicts."""
    refuse(answer)
    _, found, session = answer
    return HybridExtraList([], found, extra={"cost": 0, _SESSION: session})


def written(what: str, keys: Any) -> OmitZeroDict:
    """What was inserted."""
    keys = keys if isinstance(keys, list) else keys.tolist()
    return OmitZeroDict({what: len(keys), _KEYS[what]: keys, "cost": 0})


def deleted(count: int) -> OmitZeroDict:
    """How many rows were deleted."""
    return OmitZeroDict({"delete_count": count, "cost": 0})
