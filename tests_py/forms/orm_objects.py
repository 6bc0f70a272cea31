"""The objects of the older interface: what they are made with, and what can be read of them.

A parameter of a constructor, or a property, that is not here is told, as a function is.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from pymilvus import Collection, Index, Partition, Role

from forms import scene
from forms.limited import Summary, take

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
CLASSES = {"collection": Collection, "partition": Partition, "index": Index, "role": Role}
MAKES: dict[str, dict[str, Callable[[], Any]]] = {
    "collection": {
        "name": lambda: "c",
        "schema": lambda: Collection("c").schema,
        "using": lambda: "default",
    },
    "partition": {
        "collection": lambda: Collection("c"),
        "name": lambda: "p",
        "description": lambda: "of rows",
    },
    "index": {
        "collection": lambda: Collection("c"),
        "field_name": lambda: "n",
        "index_params": lambda: {"index_type": "INVERTED"},
    },
    "role": {"name": lambda: "r", "using": lambda: "default"},
}
# What is made anew by making its object, and other types of what is passed.
MORE: dict[str, list[dict[str, Callable[[], Any]]]] = {
    "collection": [{"name": lambda: "x", "schema": lambda: Collection("bare").schema}],
    "partition": [
        {"collection": lambda: Collection("c"), "name": lambda: "q"},
        {"collection": lambda: "c", "name": lambda: "p"},
    ],
}
# Of what the scene has, how a property has to be.
READS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "collection": {
        "aliases": lambda found: found == ["a"],
        "description": lambda found: found == "",
        "indexes": lambda found: [index.field_name for index in found] == ["vector"],
        "is_empty": lambda found: found is False,
        "name": lambda found: found == "c",
        "num_entities": lambda found: found == 6,
        "num_shards": lambda found: found >= 1,
        "partitions": lambda found: sorted(part.name for part in found) == ["_default", "p"],
        "primary_field": lambda found: found.name == "id",
        "schema": lambda found: (
            [field.name for field in found.fields] == ["id", "vector", "n", "color"]
        ),
    },
    "partition": {
        "description": lambda found: found == "",
        "is_empty": lambda found: found is False,
        "name": lambda found: found == "p",
        "num_entities": lambda found: found == 3,
    },
    "index": {
        "collection_name": lambda found: found == "c",
        "field_name": lambda found: found == "vector",
        "index_name": lambda found: found == "vector",
        "params": lambda found: found["index_type"] == "HNSW",
    },
    "role": {"name": lambda found: found == "r"},
}
Made = dict[str, Callable[[], Any]]


def _properties(kind: type) -> list[str]:
    found = inspect.getmembers(kind, lambda member: isinstance(member, property))
    return [name for name, _ in found if not name.startswith("_")]


def _constructed(group: str) -> Iterator[tuple[str, list[Callable[[], Any]], Made]]:
    """The forms in which an object is made.

    Raises:
        LookupError: A parameter is not listed.
    """
    makes = MAKES[group]
    every = inspect.signature(CLASSES[group]).parameters.values()
    every = [p for p in every if p.kind in _NAMED]
    if missing := [p.name for p in every if p.name not in makes]:
        raise LookupError(f"{group}(..): no value is listed for {missing[0]!r}")
    required = [p.name for p in every if p.default is p.empty]
    yield "in its place", [makes[p] for p in required], {}
    yield "by name", [], {p: makes[p] for p in required}
    yield "all in their places", [makes[p.name] for p in every], {}
    for p in every:
        if p.name not in required:
            yield f"{p.name} by name", [makes[r] for r in required], {p.name: makes[p.name]}
    for more in MORE.get(group, []):
        yield f"with {', '.join(more)}", [], more


def run(admin: Any, targets: dict[str, Callable[[], Any]], summary: Summary) -> None:
    """Makes and reads everything; the scene is put back by `admin`."""
    for group, kind in CLASSES.items():
        try:
            each = list(_constructed(group))
        except LookupError as missing:
            summary.not_listed.append(str(missing))
            continue
        for label, args, kwargs in each:

            def make(args=args, kwargs=kwargs, kind=kind) -> Any:
                return kind(*(a() for a in args), **{name: a() for name, a in kwargs.items()})

            take(f"{group}(..), {label}", make, True, summary)
            for part in scene.PARTS:
                admin.mend(part, admin.state(part), set())
        for name in _properties(kind):
            if name not in READS[group]:
                summary.not_listed.append(f"{group}.{name}")
                continue

            def read(group=group, name=name) -> None:
                found = getattr(targets[group](), name)
                if not READS[group][name](found):
                    raise AssertionError(f"{found!r} was not expected")

            take(f"{group}.{name}", read, True, summary)
