"""What a collection is made of."""

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Field"]


@dataclass
class Field:
    """A field of a collection.

    Parameters
    ----------
    name: unique in the collection.
    type: "bool", "int8", "int16", "int32", "int64", "float", "double", "timestamptz", "varchar",
        "json", "array<T>" of any of the scalars, or "float_vector", "uint8_vector", "int8_vector",
        "float16_vector", "bfloat16_vector", "binary_vector", "sparse_float_vector". All but sparse
        ones can be searched.
    primary_key: the key of a row; int64 or varchar.
    auto_id: the key is assigned, and not given.
    partition_key: rows are spread over partitions by this field.
    nullable: a row may have None.
    default: the value of rows to which none is given.
    max_bytes: of a text in UTF-8; needed for varchar.
    max_capacity: elements of an array.
    dim: components of a dense vector.
    description, properties: kept for the reader.
    """

    name: str
    type: str
    primary_key: bool = False
    auto_id: bool = False
    partition_key: bool = False
    nullable: bool = False
    default: Any = None
    max_bytes: int | None = None
    max_capacity: int | None = None
    dim: int | None = None
    description: str = ""
    properties: dict[str, str] = field(default_factory=dict)
