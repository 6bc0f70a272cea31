"""Schemas as plain dicts, with types by name."""

from collections.abc import Mapping
from typing import Any

from pymilvus import CollectionSchema, DataType, FieldSchema
from pymilvus.exceptions import ParamError

_OF_SCHEMA = {"auto_id", "description", "enable_dynamic_field", "fields"}
_OF_FIELD = {
    "auto_id",
    "default_value",
    "description",
    "dim",
    "element_type",
    "is_partition_key",
    "is_primary",
    "max_capacity",
    "max_length",
    "nullable",
}


def _check(found: Mapping[str, Any], known: set[str], what: str) -> None:
    unknown = sorted(set(found) - known)
    if unknown:
        raise ParamError(message=f"{what} has no {unknown[0]!r}; it may have {sorted(known)}")


def data_type(name: Any) -> DataType:
    """A type by its name, in any case, or as it is."""
    if isinstance(name, str):
        found = DataType.__members__.get(name.upper())
        if found is None:
            raise ParamError(message=f"{name!r} is no data type; FLOAT_VECTOR and VARCHAR are some")
        return found
    return DataType(name)


def _field(field: Mapping[str, Any], auto_id: bool) -> FieldSchema:
    """A field from a dict. Whatever stands in `params` may as well stand beside it."""
    given = {**field, **(field.get("params") or {})}
    given.pop("params", None)
    try:
        name = given.pop("name")
        dtype = data_type(given.pop("dtype", None) or given.pop("type"))
    except KeyError as missing:
        raise ParamError(message=f"a field needs {missing}: {dict(field)!r}") from None
    _check(given, _OF_FIELD, f"field {name!r}")
    if "element_type" in given:
        given["element_type"] = data_type(given["element_type"])
    if given.get("is_primary") and auto_id:
        given.setdefault("auto_id", True)
    return FieldSchema(name, dtype, **given)


def collection_schema(schema: Mapping[str, Any]) -> CollectionSchema:
    """A schema from a dict.

    Raises:
        ParamError: A name or a type that nobody knows.
    """
    _check(schema, _OF_SCHEMA, "a schema")
    auto_id = bool(schema.get("auto_id", False))
    fields = [_field(field, auto_id) for field in schema.get("fields", [])]
    return CollectionSchema(
        fields,
        description=schema.get("description", ""),
        enable_dynamic_field=bool(schema.get("enable_dynamic_field", False)),
        auto_id=auto_id,
    )
