"""Forms of every method, called through both doors and compared."""

import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pymilvus

from forms import listed, scene, values
from forms.scene import HUNG, Door

_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (*_PLACED, inspect.Parameter.KEYWORD_ONLY)
_CLASSES = {"sync": pymilvus.MilvusClient, "async": pymilvus.AsyncMilvusClient}


@dataclass(frozen=True)
class Form:
    """One way of writing a call."""

    kind: str
    method: str
    label: str
    args: list[Callable[[], Any]]
    kwargs: dict[str, Callable[[], Any]]

    def __str__(self) -> str:
        return f"{self.kind} {self.method}: {self.label}"

    def outcome(self, door: Door) -> Any:
        args = [make() for make in self.args]
        kwargs = {name: make() for name, make in self.kwargs.items()}
        return door.outcome(self.kind, self.method, args, kwargs)


@dataclass
class Summary:
    """What came of all forms."""

    version: str = pymilvus.__version__
    forms: int = 0
    methods: int = 0
    returned: int = 0
    seconds: float = 0.0
    hangs: list[str] = field(default_factory=list)
    not_listed: list[str] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)
    # Of each listed difference, how many forms.
    differences: dict[str, int] = field(default_factory=dict)
    # Methods that are listed as not served and return, or as served and never do.
    served_after_all: list[str] = field(default_factory=list)
    never_served: list[str] = field(default_factory=list)
    # What is not served and did not say so at once.
    waited: list[str] = field(default_factory=list)
    slowest: list[tuple[float, str]] = field(default_factory=list)


def methods(kind: str) -> list[str]:
    """The public methods of a client."""
    found = inspect.getmembers(_CLASSES[kind], callable)
    return [name for name, _ in found if not name.startswith("_")]


def forms(kind: str, name: str) -> Iterator[Form]:
    """All forms of a method.

    Raises:
        values.NotListed: A type of a parameter has no value.
    """
    method = getattr(_CLASSES[kind], name)
    every = [p for p in inspect.signature(method).parameters.values() if p.kind in _NAMED]
    every = [p for p in every if p.name != "self"]
    given = {p.name: values.of_parameter(name, method, p) for p in every}
    first = {name: each[0][1] for name, each in given.items()}
    required = [p.name for p in every if p.default is p.empty]
    placed = [p.name for p in every if p.kind in _PLACED]

    def form(label: str, args: list[Any], kwargs: dict[str, Any]) -> Form:
        return Form(kind, name, label, args, kwargs)

    def beside(*others: str) -> dict[str, Any]:
        """What the call needs beside these."""
        found = {p: first[p] for p, not_with in listed.BESIDE.get(name, []) if p in first}
        found |= {p: _same(value) for p, value in listed.ALWAYS.get(name, {}).items()}
        for p, not_with in listed.BESIDE.get(name, []):
            if not_with & set(others) or p in others:
                found.pop(p, None)
        for other in others:
            if needed := listed.NEEDS.get((name, other)):
                found[needed] = first[needed]
        return found

    plain = [first[p] for p in required]
    yield form("what is required, in its place", plain, {})
    if beside():
        yield form("what is needed", plain, beside())
    if required:
        named = {p: first[p] for p in required}
        yield form("what is required, by name", [], {**named, **beside()})
    if len(every) > len(required):
        always = {p: _same(value) for p, value in listed.ALWAYS.get(name, {}).items()}
        yield form("all in their places", [first[p] for p in placed], always)
        yield form("all by name", [], {**first, **always})
    for p in required:
        rest = {other: first[other] for other in required if other != p}
        yield form(f"without {p}", [], {**rest, **beside()})
    for p in every:
        others = {other: first[other] for other in required if other != p.name}
        for label, make in given[p.name][1 if p.name in required else 0 :]:
            yield form(f"{p.name}={label}", [], {**others, p.name: make, **beside(p.name)})
        if p.name in placed and p.name not in required:
            before = placed[len(required) : placed.index(p.name)]
            needed = beside(p.name)
            told = inspect.signature(method).parameters
            defaults = [needed.pop(b, _same(told[b].default)) for b in before]
            yield form(f"{p.name} in its place", [*plain, *defaults, first[p.name]], needed)
    for more in listed.MORE.get(name, []):
        made = {key: _same(value) for key, value in more.items()}
        yield form(f"with {more}", plain, {**beside(*more), **made})


def _same(value: Any) -> Callable[[], Any]:
    return lambda: value


def run(here: Door, there: Door, only: str = "") -> Summary:
    """Calls all forms through both doors."""
    summary, began = Summary(), time.monotonic()
    doors = (here, there)
    for part in scene.PARTS:
        for door in doors:
            door.build(part)
    for kind in _CLASSES:
        for name in methods(kind):
            if only and only not in name:
                continue
            if name not in listed.LISTED:
                summary.not_listed.append(f"{kind} {name}")
                continue
            summary.methods += 1
            try:
                each = list(forms(kind, name))
            except values.NotListed as missing:
                summary.not_listed.append(str(missing))
                continue
            # A client remembers what collections it has seen, which others made anew since.
            for door in doors:
                if door.mended or name in listed.UNCONNECTED:
                    door.forget()
            returned = summary.returned
            for form in each:
                begun = time.monotonic()
                _take(form, here, there, summary)
                summary.slowest.append((time.monotonic() - begun, str(form)))
            excused = name in listed.NOT_SERVED or f"{kind} {name}" in listed.FAILING
            if summary.returned == returned and not excused:
                summary.never_served.append(f"{kind} {name}")
    summary.slowest = sorted(summary.slowest, reverse=True)[:10]
    summary.seconds = time.monotonic() - began
    return summary


def _take(form: Form, here: Door, there: Door, summary: Summary) -> None:
    summary.forms += 1
    before = here.waits, there.waits
    ours, theirs = form.outcome(here), form.outcome(there)
    # What is not served is refused by the first answer: nobody waits, or asks again.
    waited = (here.waits, there.waits) != before
    if waited and form.method in listed.NOT_SERVED and HUNG not in (ours, theirs):
        summary.waited.append(str(form))
    for which, found in (("in the process", ours), ("on the server", theirs)):
        if found == HUNG:
            summary.hangs.append(f"{form}, {which}")
    summary.returned += ours[0] == "returned"
    if form.method in listed.NOT_SERVED and "returned" in (ours[0], theirs[0]):
        summary.served_after_all.append(str(form))
    if form.method in listed.COUNTED and (ours[0], theirs[0]) == ("returned", "returned"):
        ours, theirs = ("returned", type(ours[1])), ("returned", type(theirs[1]))
    told = f"{ours}\n  there: {theirs}"
    known = _known(form, ours, theirs) if ours != theirs else None
    # A read of what nobody has declared an index for declares one, in the process.
    part = listed.CHANGES.get(form.method) or ("collections" if "bare" in form.label else None)
    if part is not None:
        after = here.state(part), there.state(part)
        for door, seen in zip((here, there), after, strict=True):
            door.mend(part, seen, listed.SPOILS.get(form.method, set()))
        if after[0] != after[1] and known is None:
            told += f"\n  then here:  {after[0]}\n  then there: {after[1]}"
            known = None
            ours = after[0], "afterwards"
    if form.method in listed.OF_CLIENT:
        here.forget()
        there.forget()
    if ours != theirs and HUNG not in (ours, theirs):
        if known is None:
            summary.disagreements.append(f"{form}\n  here:  {told}")
        else:
            summary.differences[known] = summary.differences.get(known, 0) + 1


def _known(form: Form, ours: Any, theirs: Any) -> str | None:
    """The reason for which two outcomes may differ, if there is one."""
    for one in listed.DIFFERENCES:
        if form.method in one.methods and one.fits(str(form), ours, theirs):
            return one.reason
    return None
