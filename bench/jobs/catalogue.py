"""Reads job descriptions and finds the code that runs them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import fair, pipeann, processes, sets, toml
from harness.curves import Around
from harness.fair import Side
from harness.pipeann import BuildOptions
from harness.runs import noted
from harness.sets import VectorSet
from harness.verdict import Verdict

FOLDER = Path(__file__).parent
QUICK_QUERIES = 500


class Lists(dict[str, list[int]]):
    """List lengths by the name of a set; those of `default` for a set that has none of its own."""

    def __missing__(self, name: str) -> list[int]:
        """Where a file names no default, those of its first set."""
        if not self:
            raise SystemExit("the job file has no [lists]")
        return self.get("default") or next(iter(self.values()))


@dataclass(frozen=True)
class Job:
    """One figure's description. `settings` holds what only its own code reads."""

    name: str
    target: str
    module: str
    function: str
    sets: list[str]
    recall: float
    seed: int
    rounds: int
    queries: int
    degree: int
    build_list: int
    lists: Mapping[str, list[int]]
    settings: dict[str, Any]
    quick: bool = False
    only: str | None = None
    plots: Path | None = None
    sides: tuple[Side, ...] = ()
    # By what the programs of this job compare, whatever the set; else by the set's own.
    metric: str | None = None

    @classmethod
    def read(
        cls,
        path: Path,
        quick: bool = False,
        full: bool = False,
        only: str | None = None,
        plots: Path | None = None,
    ) -> Job:
        """A job from its TOML file; `[quick]` and `[full]` replace some of its settings."""
        text = toml.read(path)
        settings = text.get("settings", {})
        settings |= text.get("quick", {}) if quick else {}
        settings |= text.get("full", {}) if full else {}
        return cls(
            name=path.stem,
            target=text["target"],
            module=text["module"],
            function=text.get("function", f"take_{path.stem.replace('-', '_').lower()}"),
            sets=text["sets"],
            recall=text.get("recall", 0.95),
            seed=text.get("seed", 1),
            rounds=1 if quick else text.get("rounds", 3),
            queries=min(QUICK_QUERIES, text.get("queries", 0)) if quick else text.get("queries", 0),
            degree=text.get("degree", 64),
            build_list=text.get("build_list", 96),
            lists=Lists(text.get("lists", {})),
            settings=settings,
            sides=tuple(Side.read(side, settings) for side in text.get("sides", [])),
            metric=text.get("metric"),
            quick=quick,
            only=only,
            plots=plots,
        )

    @property
    def build(self) -> BuildOptions:
        """How the pipeann index of this job is built."""
        return BuildOptions(degree=self.degree, list=self.build_list, seed=self.seed)

    def vectors(self, name: str) -> VectorSet:
        """A data set with as many queries as the job takes, compared as its programs do."""
        whole = sets.vector_set(name)
        return sets.with_queries(
            sets.compared_by(whole, self.metric or whole.metric), self.queries
        )

    def around(self, lists: str | Sequence[int], *recalls: float) -> Around:
        """Some lists, or those of a set, to be searched with further ones where they do not enclose
        the recall of the job, or the recalls that are given."""
        chosen = self.lists[lists] if isinstance(lists, str) else lists
        return Around(chosen, recalls or (self.recall,))

    def code(self) -> Callable[..., None]:
        """The function that takes this figure: given the job, a set unless it names none, and the
        verdict."""
        module = importlib.import_module(f"jobs.{self.module}")
        take: Callable[..., None] = getattr(module, self.function)
        return take

    def run(self, names: list[str], verdict: Verdict | None = None) -> Verdict:
        """Take the figure on the sets named and collect the checks. An error on one of them is
        noted, and the others go on."""
        verdict = Verdict() if verdict is None else verdict
        if not self.sets:
            with noted(verdict, self.name):
                self.code()(self, verdict)
        for name in names if self.sets else []:
            with noted(verdict, f"{self.name} on {name}"):
                self.take(name, verdict)
            # What an error has left behind would take part in the next.
            processes.end_started()
        if not verdict.checks:
            verdict.problems.append("nothing was measured")
        return verdict

    def take(self, name: str, verdict: Verdict) -> None:
        """Take the figure on one set, between what a comparison has to disclose."""
        take, vectors = self.code(), self.vectors(name)
        if not self.sides:
            take(self, vectors, verdict)
            return
        index = pipeann.index_of(vectors, self.build)
        with fair.disclosed(self.sides, index, f"{self.name} on {name}"):
            take(self, vectors, verdict)


def all_jobs() -> list[Job]:
    """Every job, in order of name."""
    return [Job.read(path) for path in sorted(FOLDER.glob("*.toml"))]


def job(
    name: str,
    quick: bool = False,
    full: bool = False,
    only: str | None = None,
    plots: Path | None = None,
) -> Job:
    """The job of a name."""
    path = FOLDER / f"{name}.toml"
    if not path.exists():
        known = ", ".join(p.stem for p in sorted(FOLDER.glob("*.toml")))
        raise SystemExit(f"no figure {name}; there are {known}")
    return Job.read(path, quick, full, only, plots)
