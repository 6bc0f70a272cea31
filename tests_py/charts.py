"""Helm's templates as far as `deploy/helm` uses them: values, conditions, and three functions.

Where `helm` is installed the tests compare its own rendering with this one.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

TAG = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.DOTALL)


def values_of(chart: Path, changed: dict[str, Any]) -> dict[str, Any]:
    """The chart's values, with some changed: `{"tls.secret": "x"}`."""
    values = yaml.safe_load((chart / "values.yaml").read_text())
    for path, value in changed.items():
        *parents, name = path.split(".")
        at = values
        for parent in parents:
            at = at[parent]
        assert name in at, f"{path} is no value of the chart"
        at[name] = value
    return values


def looked_up(path: str, scope: dict[str, Any]) -> Any:
    at: Any = scope
    for name in path.removeprefix(".").split("."):
        assert name in at, f"{path} is no value of the chart"
        at = at[name]
    return at


def evaluated(expression: str, scope: dict[str, Any]) -> str:
    first, *pipes = (part.strip() for part in expression.split("|"))
    if first.startswith("toYaml "):
        found = yaml.safe_dump(looked_up(first.split()[1], scope)).rstrip("\n")
    else:
        found = looked_up(first, scope)
        found = str(found).lower() if isinstance(found, bool) else str(found)
    for pipe in pipes:
        if pipe == "quote":
            found = json.dumps(found)
        elif pipe.startswith("nindent "):
            indent = " " * int(pipe.split()[1])
            lines = found.rstrip("\n").split("\n")
            found = "\n" + "\n".join(indent + line for line in lines)
        else:
            raise AssertionError(f"the function {pipe} is not known here")
    return found


def rendered(text: str, scope: dict[str, Any]) -> str:
    """A template with these values."""
    out, at = [""], 0
    # Whether what is inside each open condition is shown.
    shown = [True]
    for tag in TAG.finditer(text):
        before = text[at : tag.start()]
        if all(shown):
            out.append(before)
        if tag[1] and all(shown):
            out[:] = ["".join(out).rstrip()]
        at = tag.end()
        if tag[3]:
            at += len(text[at:]) - len(text[at:].lstrip())
        words = tag[2]
        if words.startswith("if "):
            shown.append(all(shown) and bool(looked_up(words[3:].strip(), scope)))
        elif words == "end":
            shown.pop()
        elif all(shown):
            out.append(evaluated(words, scope))
    assert shown == [True], "a condition has no end"
    return "".join([*out, text[at:]])


def documents(chart: Path, release: str, changed: dict[str, Any]) -> list[dict]:
    """All that the chart makes."""
    scope = {"Values": values_of(chart, changed), "Release": {"Name": release}}
    found: list[dict] = []
    for template in sorted((chart / "templates").glob("*.yaml")):
        found += yaml.safe_load_all(rendered(template.read_text(), scope))
    return found
