"""What the public methods of pymilvus's clients do. One that is not here fails the test."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

READS = {
    "create_field_schema",
    "create_schema",
    "create_struct_field_schema",
    "describe_alias",
    "describe_collection",
    "describe_database",
    "describe_index",
    "describe_replica",
    "describe_role",
    "describe_user",
    "flush_all",
    "get",
    "get_collection_stats",
    "get_compaction_plans",
    "get_compaction_state",
    "get_flush_all_state",
    "get_load_state",
    "get_partition_stats",
    "get_server_type",
    "get_server_version",
    "has_collection",
    "has_partition",
    "hybrid_search",
    "list_aliases",
    "list_collections",
    "list_compaction_tasks",
    "list_databases",
    "list_indexes",
    "list_loaded_segments",
    "list_partitions",
    "list_persistent_segments",
    "list_privilege_groups",
    "list_resource_groups",
    "list_roles",
    "list_segments",
    "list_users",
    "prepare_index_params",
    "query",
    "query_iterator",
    "search",
    "search_iterator",
    "session",
}

# Of what changes, which part of the scene.
CHANGES = {
    "add_collection_field": "collections",
    "alter_alias": "collections",
    "alter_collection_field": "collections",
    "alter_collection_properties": "collections",
    "alter_index_properties": "collections",
    "compact": "collections",
    "create_alias": "collections",
    "create_collection": "collections",
    "create_index": "collections",
    "create_partition": "collections",
    "delete": "collections",
    "drop_alias": "collections",
    "drop_collection": "collections",
    "drop_collection_properties": "collections",
    "drop_index": "collections",
    "drop_index_properties": "collections",
    "drop_partition": "collections",
    "flush": "collections",
    "insert": "collections",
    "load_collection": "collections",
    "load_partitions": "collections",
    "optimize": "collections",
    "refresh_load": "collections",
    "release_collection": "collections",
    "release_partitions": "collections",
    "rename_collection": "collections",
    "truncate_collection": "collections",
    "upsert": "collections",
    "alter_database_properties": "databases",
    "create_database": "databases",
    "drop_database": "databases",
    "drop_database_properties": "databases",
    "add_privileges_to_group": "people",
    "create_privilege_group": "people",
    "create_role": "people",
    "create_user": "people",
    "drop_privilege_group": "people",
    "drop_role": "people",
    "drop_user": "people",
    "grant_privilege": "people",
    "grant_privilege_v2": "people",
    "grant_role": "people",
    "remove_privileges_from_group": "people",
    "revoke_privilege": "people",
    "revoke_privilege_v2": "people",
    "revoke_role": "people",
    "update_password": "people",
}

# What changes the client alone, which is made anew.
OF_CLIENT = {"close", "use_database", "using_database"}

# What is refused, whatever is passed.
NOT_SERVED = {
    "add_collection_function",
    "add_collection_struct_field",
    "add_file_resource",
    "add_function_field",
    "alter_collection_function",
    "alter_role",
    "create_resource_group",
    "create_snapshot",
    "describe_resource_group",
    "describe_snapshot",
    "drop_collection_field",
    "drop_collection_function",
    "drop_function_field",
    "drop_resource_group",
    "drop_snapshot",
    "dump_messages",
    "get_refresh_external_collection_progress",
    "get_replicate_configuration",
    "get_replicate_info",
    "get_restore_snapshot_state",
    "list_file_resources",
    "list_refresh_external_collection_jobs",
    "list_restore_snapshot_jobs",
    "list_snapshots",
    "pin_snapshot_data",
    "refresh_external_collection",
    "remove_file_resource",
    "restore_snapshot",
    "run_analyzer",
    "transfer_replica",
    "unpin_snapshot_data",
    "update_replicate_configuration",
    "update_resource_groups",
    "update_user",
}

# What pymilvus itself has and cannot call.
FAILING = {
    "async flush_all",
    "async get_compaction_plans",
    "async get_flush_all_state",
    "sync get_flush_all_state",
}

LISTED = READS | set(CHANGES) | OF_CLIENT | NOT_SERVED

# What may answer otherwise on a client that has called nothing yet, on which it is called then.
UNCONNECTED = {"get_server_type"}

# What is answered by the number of a job, which is another one each time.
COUNTED = {"compact"}

# Parameters without which a call means nothing, and beside which they are not passed.
BESIDE: dict[str, list[tuple[str, set[str]]]] = {
    "create_collection": [("dimension", {"schema", "index_params"})],
    "delete": [("ids", {"filter"})],
    "query": [("filter", {"ids"})],
    "search": [("data", {"ids"})],
}
# What is always passed beside the parameters of the signature.
ALWAYS: dict[str, dict[str, Any]] = {"add_collection_field": {"nullable": True}}
# What is spoilt of the scene without being seen.
SPOILS = {"update_password": {"user u"}}
# Parameters that another one needs.
NEEDS = {("create_collection", "index_params"): "schema"}

# What is passed beside the parameters of the signature, as programs do.
MORE: dict[str, list[dict[str, Any]]] = {
    "create_collection": [
        {"consistency_level": "Strong"},
        {"enable_dynamic_field": False},
        {"num_shards": 1},
        {"id_type": "string", "max_length": 100},
        {"auto_id": True, "metric_type": "IP", "timeout": 10},
        {"properties": {"collection.ttl.seconds": 60}},
    ],
    "create_index": [{"sync": False}],
    "hybrid_search": [{"offset": 1}, {"consistency_level": "Strong"}, {"round_decimal": 2}],
    "query": [{"limit": 2, "offset": 1}, {"consistency_level": "Eventually"}],
    "search": [
        {"consistency_level": "Strong"},
        {"offset": 1},
        {"group_by_field": "color"},
        {"round_decimal": 2},
        {"filter": "n > {least}", "filter_params": {"least": 2}},
    ],
    "upsert": [{"partial_update": True}],
}


@dataclass(frozen=True)
class Difference:
    """A way in which the two doors may answer differently, and why."""

    reason: str
    methods: set[str]
    # Of the form's words, and of what was answered in the process and by the server.
    fits: Callable[[str, Any, Any], bool]


def _code(outcome: Any) -> Any:
    return outcome[2] if outcome[0] == "raised" else None


# At most twenty. What pymilvus refuses before it calls anybody cannot differ.
DIFFERENCES = [
    Difference(
        "reading needs no preparation: an index is declared and the collection loaded",
        {"get", "hybrid_search", "query", "query_iterator", "search", "search_iterator"},
        lambda form, ours, theirs: (
            "bare" in form and ours[0] == "returned" and _code(theirs) == 101
        ),
    ),
    Difference(
        "loading needs no index: one is declared on a vector that has none",
        {"load_collection", "refresh_load"},
        lambda form, ours, theirs: (
            "bare" in form and ours[0] == "returned" and _code(theirs) == 700
        ),
    ),
    Difference(
        "create_index(name) needs no parameters",
        {"create_index"},
        lambda form, ours, theirs: (
            form == "sync create_index: without index_params"
            or form == "async create_index: without index_params"
        ),
    ),
    Difference(
        "keys that are texts have room for 65,535 bytes unless max_length is given",
        {"create_collection"},
        lambda form, ours, theirs: (
            "id_type=str 'string'" in form and ours[0] == "returned" and _code(theirs) == 1100
        ),
    ),
    Difference(
        "the client for asyncio refuses a missing dimension as the other one does",
        {"create_collection"},
        lambda form, ours, theirs: (
            form.startswith("async")
            and ours[:2] == ("raised", "ParamError")
            and theirs[:2] == ("raised", "TypeError")
        ),
    ),
    Difference(
        "the client for asyncio knows what answers before it is connected",
        {"get_server_type"},
        lambda form, ours, theirs: (
            form.startswith("async")
            and ours == ("returned", "milvus")
            and "Client not connected" in str(theirs)
        ),
    ),
    Difference(
        "an upsert by asyncio tells its keys, which pymilvus 2.5 leaves out",
        {"upsert"},
        lambda form, ours, theirs: (
            form.startswith("async upsert")
            and "primary_keys" in str(ours)
            and "primary_keys" not in str(theirs)
        ),
    ),
]
