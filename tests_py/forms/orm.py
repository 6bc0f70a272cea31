"""The older interface, `connections`, `Collection`, `utility` and their like, against the server.

Each function is called with what it requires, in its place and by name, and with a timeout where it
takes one. One that is served returns; one that is not says so at once. `orm_objects` makes the
objects and reads their properties.
"""

import contextlib
import datetime
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pymilvus
from pymilvus import AnnSearchRequest, Collection, RRFRanker, connections, db, utility
from pymilvus.exceptions import MilvusException

from forms import orm_objects, scene
from forms.limited import Summary, take
from forms.values import OTHER, VECTOR, row

ALIAS = "default"
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

SERVED: dict[str, set[str]] = {
    "collection": {
        "alter_index",
        "compact",
        "create_index",
        "create_partition",
        "delete",
        "describe",
        "drop",
        "drop_index",
        "drop_partition",
        "flush",
        "get_compaction_plans",
        "get_compaction_state",
        "get_replicas",
        "has_index",
        "has_partition",
        "hybrid_search",
        "index",
        "insert",
        "load",
        "partition",
        "query",
        "query_iterator",
        "release",
        "search",
        "search_iterator",
        "set_properties",
        "truncate",
        "upsert",
        "wait_for_compaction_completed",
    },
    "partition": {
        "delete",
        "drop",
        "flush",
        "get_replicas",
        "hybrid_search",
        "insert",
        "load",
        "query",
        "release",
        "search",
        "upsert",
    },
    "index": {"drop", "to_dict"},
    "role": {
        "add_privileges_to_group",
        "add_user",
        "create",
        "create_privilege_group",
        "drop",
        "drop_privilege_group",
        "get_users",
        "grant",
        "grant_v2",
        "is_exist",
        "list_grant",
        "list_grants",
        "list_privilege_groups",
        "remove_privileges_from_group",
        "remove_user",
        "revoke",
        "revoke_v2",
    },
    "connections": {
        "connect",
        "disconnect",
        "get_connection_addr",
        "has_connection",
        "list_connections",
        "remove_connection",
    },
    "utility": {
        "alter_alias",
        "create_alias",
        "create_user",
        "delete_user",
        "drop_alias",
        "drop_collection",
        "flush_all",
        "get_query_segment_info",
        "get_server_type",
        "get_server_version",
        "has_collection",
        "has_partition",
        "hybridts_to_datetime",
        "hybridts_to_unixtime",
        "index_building_progress",
        "list_aliases",
        "list_collections",
        "list_indexes",
        "list_resource_groups",
        "list_roles",
        "list_user",
        "list_usernames",
        "list_users",
        "load_state",
        "loading_progress",
        "mkts_from_datetime",
        "mkts_from_hybridts",
        "mkts_from_unixtime",
        "rename_collection",
        "reset_password",
        "truncate_collection",
        "update_password",
        "wait_for_index_building_complete",
        "wait_for_loading_complete",
    },
    "db": {
        "create_database",
        "describe_database",
        "drop_database",
        "list_database",
        "set_properties",
        "using_database",
    },
}
REFUSED: dict[str, set[str]] = {
    "utility": {
        "create_resource_group",
        "describe_resource_group",
        "do_bulk_insert",
        "drop_resource_group",
        "get_bulk_insert_state",
        "list_bulk_insert_tasks",
        "load_balance",
        "transfer_node",
        "transfer_replica",
        "update_resource_groups",
    },
}
# What calls no server, or wants packages of its own or a loop.
PASSED_OVER: dict[str, set[str]] = {
    "collection": {"construct_from_dataframe"},
    "connections": {"add_connection", "async_disconnect", "async_remove_connection"},
}


def _index() -> dict[str, Any]:
    return {"index_type": "HNSW", "metric_type": "L2", "params": {"M": 8}}


def _searches() -> list[Any]:
    each = {"anns_field": "vector", "param": {"metric_type": "L2"}, "limit": 3}
    return [AnnSearchRequest(data=[list(one)], **each) for one in (VECTOR, OTHER)]


VALUES: dict[str, Callable[[], Any]] = {
    "alias": lambda: "a",
    "anns_field": lambda: "vector",
    "batch_size": lambda: 2,
    "collection_name": lambda: "c",
    "configs": dict,
    "d_time": lambda: datetime.datetime(2026, 1, 1),
    "data": lambda: [row(200)],
    "db_name": lambda: "d",
    "epoch": lambda: 1_700_000_000.0,
    "expr": lambda: "n > 1",
    "extra_params": lambda: {"mmap.enabled": True},
    "field_name": lambda: "vector",
    "files": lambda: ["none.parquet"],
    "hybridts": lambda: 450_000_000_000_000_000,
    "include_role_info": lambda: True,
    "include_user_info": lambda: True,
    "index_name": lambda: "vector",
    "index_params": _index,
    "limit": lambda: 3,
    "name": lambda: "x",
    "new_collection_name": lambda: "renamed",
    "new_password": lambda: "Secret-2",
    "num_nodes": lambda: 1,
    "num_replicas": lambda: 1,
    "object": lambda: "Collection",
    "object_name": lambda: "c",
    "old_collection_name": lambda: "bare",
    "old_password": lambda: "Secret-1",
    "output_fields": lambda: ["n"],
    "param": lambda: {"metric_type": "L2"},
    "partition_name": lambda: "p",
    "partition_names": lambda: ["p"],
    "password": lambda: "Secret-1",
    "privilege": lambda: "Query",
    "privilege_group": lambda: "g",
    "privileges": lambda: ["Query"],
    "properties": lambda: {"mmap.enabled": True},
    "replica_number": lambda: 1,
    "reqs": _searches,
    "rerank": RRFRanker,
    "source_group": lambda: "__default_resource_group",
    "src_node_id": lambda: 1,
    "target_group": lambda: "x",
    "task_id": lambda: 1,
    "timeout": lambda: 10.0,
    "user": lambda: "u",
    "username": lambda: "u",
    "using": lambda: ALIAS,
}
_QUERY = {"data": lambda: [list(VECTOR)]}
OF_CALLS: dict[tuple[str, str], dict[str, Callable[[], Any]]] = {
    ("collection", "create_index"): {"field_name": lambda: "n"},
    ("collection", "create_partition"): {"partition_name": lambda: "q"},
    ("collection", "search"): _QUERY,
    ("collection", "search_iterator"): _QUERY,
    ("connections", "connect"): {"alias": lambda: "other", "db_name": lambda: "default"},
    ("connections", "disconnect"): {"alias": lambda: "other"},
    ("connections", "get_connection_addr"): {"alias": lambda: ALIAS},
    ("connections", "has_connection"): {"alias": lambda: ALIAS},
    ("connections", "remove_connection"): {"alias": lambda: "other"},
    ("db", "create_database"): {"db_name": lambda: "e"},
    ("db", "drop_database"): {"db_name": lambda: "empty"},
    ("partition", "search"): _QUERY,
    ("role", "create_privilege_group"): {"privilege_group": lambda: "h"},
    ("utility", "create_alias"): {"alias": lambda: "b"},
    ("utility", "create_user"): {"user": lambda: "w"},
    ("utility", "drop_collection"): {"collection_name": lambda: "bare"},
}
# What has to be done first, to what the call is made on.
BEFORE: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("collection", "drop"): lambda _: utility.drop_alias("a"),
    ("collection", "drop_index"): lambda one: one.release(),
    ("collection", "drop_partition"): lambda one: one.release(),
    ("collection", "get_compaction_plans"): lambda one: one.compact(),
    ("collection", "get_compaction_state"): lambda one: one.compact(),
    ("collection", "wait_for_compaction_completed"): lambda one: one.compact(),
    ("index", "drop"): lambda _: Collection("c").release(),
    ("partition", "drop"): lambda _: Collection("c").release(),
    ("role", "create"): lambda one: (one.revoke("Collection", "c", "Search"), one.drop()),
    ("role", "drop"): lambda one: one.revoke("Collection", "c", "Search"),
}


def _targets() -> dict[str, Callable[[], Any]]:
    """What the functions are of."""
    return {
        "collection": lambda: Collection("c"),
        "partition": lambda: Collection("c").partition("p"),
        "index": lambda: Collection("c").index(),
        "role": lambda: pymilvus.Role("r"),
        "utility": lambda: utility,
        "db": lambda: db,
        "connections": lambda: connections,
    }


def _names(group: str, target: Any) -> list[str]:
    """Public functions of a target."""
    if inspect.ismodule(target):
        found = inspect.getmembers(target, inspect.isfunction)
        return [n for n, f in found if not n.startswith("_") and f.__module__ == target.__name__]
    kind = type(target)
    names = [name for name, member in inspect.getmembers(kind) if callable(member)]
    return [name for name in names if not name.startswith("_")]


def _forms(group: str, name: str, call: Any) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    every = [p for p in inspect.signature(call).parameters.values() if p.kind in _NAMED]
    makes = VALUES | OF_CALLS.get((group, name), {})
    given = {p.name: makes[p.name] for p in every if p.name in makes}
    required = [p.name for p in every if p.default is p.empty]
    if missing := [p for p in required if p not in given]:
        raise LookupError(f"{group}.{name}: no value is listed for {missing[0]!r}")
    yield "in its place", [given[p]() for p in required], {}
    if required:
        yield "by name", [], {p: given[p]() for p in required}
    if "timeout" in given:
        yield "timeout", [], {p: given[p]() for p in (*required, "timeout")}


def run(admin: Any, address: str) -> Summary:
    """Calls everything. The scene is put back by `admin` around each call that changes it."""
    summary = Summary()
    host, port = address.split(":")
    connections.connect(ALIAS, host=host, port=port)
    connections.connect("other", host=host, port=port)
    for group, make in _targets().items():
        for part in scene.PARTS:
            admin.build(part)
        for name in _names(group, make()):
            listed = [
                lists for lists in (SERVED, REFUSED, PASSED_OVER) if name in lists.get(group, ())
            ]
            if not listed:
                summary.not_listed.append(f"{group}.{name}")
            elif listed[0] is not PASSED_OVER:
                try:
                    each = list(_forms(group, name, getattr(make(), name)))
                except LookupError as missing:
                    summary.not_listed.append(str(missing))
                    continue
                for label, args, kwargs in each:
                    call = _call((group, name), make, args, kwargs)
                    take(f"{group}.{name}, {label}", call, listed[0] is SERVED, summary)
                    unseen = {"user u"} if "password" in name else set()
                    for part in scene.PARTS:
                        admin.mend(part, admin.state(part), unseen if part == "people" else set())
                    with contextlib.suppress(MilvusException):
                        connections.connect("other", host=host, port=port)
    orm_objects.run(admin, _targets(), summary)
    connections.disconnect(ALIAS)
    return summary


def _call(
    which: tuple[str, str], make: Callable[[], Any], args: list[Any], kwargs: dict[str, Any]
) -> Callable[[], None]:
    """A function with all that has to be done around it."""
    if which == ("connections", "connect"):
        kwargs = {**kwargs, "uri": f"http://{connections.get_connection_addr(ALIAS)['address']}"}

    def call() -> None:
        target = make()
        BEFORE.get(which, lambda _: None)(target)
        answer = getattr(target, which[1])(*args, **kwargs)
        if callable(getattr(answer, "next", None)):
            answer.next()
            answer.close()

    return call
