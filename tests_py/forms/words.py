"""Types that signatures and docstrings name, as plain words: `list[str]`, `int`, `none`."""

import inspect
import re
import types
import typing
from collections import abc
from typing import Any

_OPENING, _CLOSING = "[(", "])"
_SAME = {
    "string": "str",
    "any": "any",
    "sequence": "list",
    "nonetype": "none",
    "callable": "callable",
}
# Words of docstrings that are no types.
_NO_TYPES = {"", "optional"}


def _parts(text: str) -> list[str]:
    """What commas, bars and `or` part, outside of brackets."""
    found, depth, part = [], 0, ""
    for mark in re.split(r"(\bor\b|[\[\](),|])", text):
        depth += mark in _OPENING and mark != ""
        depth -= mark in _CLOSING and mark != ""
        if depth == 0 and mark in (",", "|", "or"):
            found.append(part)
            part = ""
        else:
            part += mark
    return [one.strip() for one in [*found, part] if one.strip()]


def of_text(text: str) -> set[str]:
    """Types that a docstring names."""
    found: set[str] = set()
    for part in _parts(text.replace("`", "").replace("typing.", "")):
        if part.lower() in _NO_TYPES:
            continue
        outer, _, inner = part.partition("[")
        outer, inner = outer.strip().lower(), inner.rstrip().removesuffix("]")
        if outer in ("union", "optional"):
            found |= of_text(inner) | ({"none"} if outer == "optional" else set())
        elif outer in ("list", "sequence") and inner:
            found |= {f"list[{word}]" for word in of_text(inner)}
        elif outer == "dict":
            found.add("dict")
        else:
            name = part.rpartition(".")[2]
            plain = name.lower() in ("str", "int", "float", "bool", "list", "none")
            found.add(_SAME.get(name.lower(), name.lower() if plain else name))
    return found


def of_annotation(annotation: Any) -> set[str]:
    """Types that an annotation names."""
    if annotation is inspect.Parameter.empty:
        return {"any"}
    if isinstance(annotation, str):
        return of_text(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return set().union(*(of_annotation(one) for one in arguments))
    if origin in (list, abc.Sequence) and arguments:
        return {f"list[{word}]" for one in arguments for word in of_annotation(one)}
    if origin is dict or annotation is dict:
        return {"dict"}
    if origin is abc.Callable:
        return {"callable"}
    if origin is typing.Literal:
        return {type(one).__name__ for one in arguments}
    name = getattr(annotation, "__name__", str(annotation).rpartition(".")[2])
    return {_SAME.get(name.lower(), name if name != "List" else "list")}


def of_docstring(text: str, parameter: str) -> set[str]:
    """Types that a docstring names for a parameter, in either of the two ways of writing them."""
    found: set[str] = set()
    for pattern in (
        rf"^\s*{parameter}\s*\((.+?)\)\s*:",
        rf":type\s+{parameter}\s*:\s*(.+)$",
        rf":param\s+([^:\s][^:]*?)\s+{parameter}\s*:",
    ):
        for words in re.findall(pattern, text, re.MULTILINE):
            found |= of_text(words)
    return found


def of_parameter(method: Any, parameter: inspect.Parameter) -> list[str]:
    """All types that a parameter is said to take."""
    text = inspect.getdoc(method) or ""
    found = of_annotation(parameter.annotation) | of_docstring(text, parameter.name)
    return sorted(found - {"any"} or {"any"})
