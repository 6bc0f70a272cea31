"""What is passed: for each type of each parameter, values as programs write them.

A value is made anew for each call. Those of a method alone stand before those of the parameter. A
type without a value ends the test: it is to be listed here.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pymilvus
from pymilvus import AnnSearchRequest, DataType, Function, FunctionType, MilvusClient, RRFRanker

from forms import scene, words

# How a value is called in what is printed, and what makes it.
Value = tuple[str, Callable[[], Any]]
Values = dict[str, list[Any]]

VECTOR = [0.5, 1.0, 0.0, 0.0]
OTHER = [2.0, 1.0, 0.0, 0.0]


def row(key: int = 100) -> dict[str, Any]:
    return {"id": key, "vector": list(VECTOR), "n": 7, "color": "red", "more": 1}


def schema() -> Any:
    made = MilvusClient.create_schema(enable_dynamic_field=True)
    made.add_field("id", DataType.INT64, is_primary=True)
    made.add_field("vector", DataType.FLOAT_VECTOR, dim=scene.DIM)
    return made


def index(field: str = "vector", **given: Any) -> Any:
    made = MilvusClient.prepare_index_params()
    made.add_index(field, **(given or {"index_type": "HNSW", "metric_type": "L2", "M": 8}))
    return made


def searches() -> list[Any]:
    each = {"anns_field": "vector", "param": {"metric_type": "L2"}, "limit": 3}
    return [
        AnnSearchRequest(data=[list(VECTOR)], **each),
        AnnSearchRequest(data=[list(OTHER)], **each),
    ]


def text_function() -> Any:
    return Function(
        "text", FunctionType.BM25, input_field_names=["color"], output_field_names=["sparse"]
    )


def ranking() -> Any:
    kind = getattr(FunctionType, "RERANK", None)
    if kind is None:
        return text_function()
    return Function("rank", kind, input_field_names=["n"], params={"reranker": "boost"})


def function_chain() -> Any:
    from pymilvus.function_chain import FunctionChain, FunctionChainStage

    return FunctionChain(FunctionChainStage.L2_RERANK, name="chain").limit(2)


def aggregation() -> Any:
    from pymilvus.client.search_aggregation import SearchAggregation

    return SearchAggregation(fields=["color"], size=2)


def struct() -> Any:
    made = pymilvus.StructFieldSchema()
    made.add_field("part", DataType.INT64)
    return made


def segments() -> list[Any]:
    from pymilvus.client.types import SegmentState

    return [next(iter(SegmentState))]


OF_PARAMETERS: dict[str, Values] = {
    "alias": {"str": ["a"]},
    "analyzer_names": {"str": ["standard"], "list[str]": [["standard"]]},
    "analyzer_params": {"str": ['{"tokenizer": "standard"}'], "dict": [{"tokenizer": "standard"}]},
    "anns_field": {"str": ["vector"]},
    "auto_id": {"bool": [True, False]},
    "batch_size": {"int": [2]},
    "cluster_id": {"str": ["by-dev"]},
    "clusters": {"list[dict]": [[]]},
    "collection_name": {"str": ["c", "a", "missing"]},
    "compaction_protection_seconds": {"int": [0]},
    "configs": {"dict": [{}]},
    "cross_cluster_topology": {"list[dict]": [[]]},
    "data_type": {"DataType": [DataType.INT64]},
    "db_name": {"str": ["d"]},
    "desc": {"str": ["words"]},
    "description": {"str": ["words"]},
    "detail": {"bool": [True, False]},
    "dimension": {"int": [scene.DIM]},
    "end_timetick": {"int": [1]},
    "external_filter_func": {"callable": [lambda: lambda hits: hits]},
    "external_source": {"str": ["s3://bucket/path"]},
    "external_spec": {"str": ["{}"]},
    "field_id": {"int": [102]},
    "field_name": {"str": ["n"]},
    "field_params": {"dict": [{"max_length": 200}]},
    "field_schema": {
        "FieldSchema": [lambda: pymilvus.FieldSchema("sparse", DataType.SPARSE_FLOAT_VECTOR)]
    },
    "filter": {"str": ["n > 1", "color == 'red' and n < 5", ""]},
    "force_drop": {"bool": [True, False]},
    "force_promote": {"bool": [False]},
    "func": {"Function": [text_function]},
    "function": {"Function": [text_function]},
    "function_chains": {
        "FunctionChain": [function_chain],
        "list[FunctionChain]": [lambda: [function_chain()]],
    },
    "function_name": {"str": ["text"]},
    "group_name": {"str": ["g"]},
    "highlighter": {
        "LexicalHighlighter": [
            lambda: pymilvus.LexicalHighlighter(pre_tags=["<"], post_tags=[">"])
        ],
        "SemanticHighlighter": [lambda: pymilvus.SemanticHighlighter(["red"], ["color"])],
    },
    "id_type": {"str": ["int", "string"]},
    "ids": {
        "list": [[1, 2], [999]],
        "list[int]": [[1, 2]],
        "int": [2],
        "list[str]": [["1"]],
        "str": ["2"],
    },
    "index_name": {"str": ["vector"]},
    "index_params": {"IndexParams": [index]},
    "is_clustering": {"bool": [False, True]},
    "is_l0": {"bool": [False, True]},
    "job_id": {"int": [12345]},
    "limit": {"int": [3]},
    "max_capacity": {"int": [4]},
    "metric_type": {"str": ["L2", "IP", "COSINE"]},
    "name": {"str": ["x"]},
    "new_name": {"str": ["renamed"]},
    "new_password": {"str": ["Secret-2"]},
    "num_replica": {"int": [1]},
    "num_replicas": {"int": [1]},
    "object_name": {"str": ["c"]},
    "object_type": {"str": ["Collection"]},
    "old_name": {"str": ["c"]},
    "old_password": {"str": ["Secret-1"]},
    "output_fields": {"list[str]": [["n", "color"], ["*"], ["vector"]]},
    "partition_name": {"str": ["p", "_default"]},
    "partition_names": {"str": ["p"], "list[str]": [["p"], ["_default", "p"]]},
    "password": {"str": ["Secret-1"]},
    "path": {"str": ["/none/at/all"]},
    "pchannel": {"str": ["by-dev-rootcoord-dml_0"]},
    "pin_id": {"int": [1]},
    "primary_field_name": {"str": ["key"]},
    "privilege": {"str": ["Search"]},
    "privileges": {"list[str]": [["Search", "Query"]]},
    "properties": {"dict": [{"mmap.enabled": "true"}]},
    "property_keys": {"list[str]": [["mmap.enabled"]]},
    "ranker": {
        "BaseRanker": [RRFRanker, lambda: pymilvus.WeightedRanker(0.3, 0.7)],
        "Function": [ranking],
        "FunctionScore": [lambda: pymilvus.FunctionScore(ranking())],
    },
    "reqs": {"list[AnnSearchRequest]": [searches]},
    "reset_connection": {"bool": [False, True]},
    "role_name": {"str": ["r"]},
    "round_decimal": {"int": [2]},
    "schema": {"CollectionSchema": [schema]},
    "search_aggregation": {"SearchAggregation": [aggregation]},
    "search_params": {"dict": [{}, {"metric_type": "L2"}, {"params": {"ef": 16}}]},
    "snapshot_name": {"str": ["s"]},
    "source": {"str": ["__default_resource_group"]},
    "source_cluster_id": {"str": ["by-dev"]},
    "source_collection_name": {"str": ["c"]},
    "source_db_name": {"str": ["default"]},
    "source_group": {"str": ["__default_resource_group"]},
    "start_message_id": {"dict": [{"id": "1", "wal_name": "RocksMQ"}]},
    "start_timetick": {"int": [0]},
    "states": {"list[SegmentState]": [segments]},
    "struct_schema": {"StructFieldSchema": [struct]},
    "target": {"str": ["x"]},
    "target_collection_name": {"str": ["restored"]},
    "target_db": {"str": ["d"]},
    "target_db_name": {"str": ["default"]},
    "target_group": {"str": ["x"]},
    "target_pchannel": {"str": ["by-dev-rootcoord-dml_0"]},
    "target_size": {"int": [512], "str": ["512MB"]},
    "target_size_unit": {"str": ["mb", "gb"]},
    "texts": {"str": ["some words"], "list[str]": [["some words"]]},
    "timeout": {"float": [10.0], "int": [10]},
    "ttl_seconds": {"int": [1]},
    "user_name": {"str": ["u"]},
    "vector_field_name": {"str": ["v"]},
    "wait": {"bool": [True, False]},
    "with_detail": {"bool": [True]},
    "with_hash": {"bool": [True]},
}

_ROWS: Values = {"dict": [row], "list[dict]": [lambda: [row(100), row(101)], lambda: [row(1)], []]}
_QUERIES: Values = {
    "list[list]": [[VECTOR], [VECTOR, OTHER]],
    "list": [VECTOR, lambda: [np.array(VECTOR, dtype=np.float32)], lambda: [np.array(VECTOR)]],
}

_READ: Values = {"str": ["c", "a", "bare", "missing"]}

# Where a parameter means something else in a method.
OF_METHODS: dict[tuple[str, str], Values] = {
    ("add_collection_field", "field_name"): {"str": ["added"]},
    ("add_collection_struct_field", "field_name"): {"str": ["added"]},
    ("alter_collection_field", "field_name"): {"str": ["color"]},
    ("alter_collection_properties", "properties"): {
        "dict": [{"collection.ttl.seconds": 3600}, {"mmap.enabled": True}]
    },
    ("alter_database_properties", "properties"): {"dict": [{"database.replica.number": 1}]},
    ("create_alias", "alias"): {"str": ["b"]},
    ("create_collection", "collection_name"): {"str": ["new", "c", "a", "1new", ""]},
    ("create_database", "db_name"): {"str": ["e"]},
    ("create_database", "properties"): {"dict": [{"database.max.collections": 10}]},
    ("create_index", "collection_name"): {"str": ["bare", "c", "missing"]},
    ("create_index", "index_params"): {
        "IndexParams": [
            index,
            lambda: index(index_type="AUTOINDEX"),
            lambda: index(index_type="FLAT", metric_type="IP"),
            lambda: index("n", index_type="INVERTED"),
        ]
    },
    ("create_partition", "partition_name"): {"str": ["q"]},
    ("create_privilege_group", "group_name"): {"str": ["h"]},
    ("create_role", "role_name"): {"str": ["s"]},
    # The number of an alias's collection is remembered by pymilvus when that has gone.
    ("describe_replica", "collection_name"): {"str": ["c", "missing"]},
    ("drop_collection", "collection_name"): {"str": ["bare", "c", "a", "missing"]},
    ("drop_database", "db_name"): {"str": ["empty", "d", "missing"]},
    ("drop_partition", "collection_name"): {"str": ["bare", "c", "missing"]},
    ("drop_role", "role_name"): {"str": ["lone", "r", "missing"]},
    ("create_snapshot", "db_name"): {"str": ["default"]},
    ("create_user", "user_name"): {"str": ["w"]},
    ("drop_index", "collection_name"): {"str": ["bare", "c", "missing"]},
    ("get", "collection_name"): _READ,
    ("hybrid_search", "collection_name"): _READ,
    ("insert", "data"): _ROWS,
    ("list_indexes", "field_name"): {"str": ["vector", "n", ""]},
    ("list_resource_groups", "name"): {"str": ["__default_resource_group"]},
    ("load_collection", "collection_name"): {"str": ["c", "bare", "missing"]},
    ("query", "collection_name"): _READ,
    ("rename_collection", "old_name"): {"str": ["bare", "c", "missing"]},
    ("query_iterator", "collection_name"): _READ,
    ("query_iterator", "filter"): {"str": ["n > 1", ""]},
    ("search", "collection_name"): _READ,
    ("search", "data"): _QUERIES,
    ("search_iterator", "collection_name"): _READ,
    ("search_iterator", "data"): {"list[list]": [[VECTOR]], "list": _QUERIES["list"]},
    ("upsert", "data"): _ROWS,
}


class NotListed(LookupError):
    """A type of a parameter has no value here."""


def _named(value: Any) -> Value:
    if callable(value):
        name = getattr(value, "__name__", "made")
        return ("made" if name == "<lambda>" else name), value
    return repr(value), (lambda: value.copy() if isinstance(value, (dict, list)) else value)


def of_parameter(name: str, method: Any, parameter: inspect.Parameter) -> list[Value]:
    """Values of all types that a parameter is said to take, `None` last.

    Raises:
        NotListed: There is none for one of them.
    """
    listed = OF_METHODS.get((name, parameter.name), OF_PARAMETERS.get(parameter.name, {}))
    taken = words.of_parameter(method, parameter)
    if missing := [word for word in taken if word != "none" and word not in listed]:
        raise NotListed(f"{name}: no value of type {missing[0]} is listed for {parameter.name!r}")
    found = [
        (f"{word} {label}", make)
        for word in listed
        if word in taken
        for label, make in map(_named, listed[word])
    ]
    return [*found, ("None", lambda: None)] if "none" in taken else found
