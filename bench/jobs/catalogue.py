"""Reads job descriptions and finds the code that runs them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import fair, pipeann, sets
from harness.fair import Side
from harness.pipeann import BuildOptions
from harness.sets import VectorSet
from harness.verdict import Verdict

if sys.version_info >= (3, 11):
    import tomllib
else:  # pip carries the same parser
    from pip._vendor import tomli as tomllib

FOLDER = Path(__file__).parent
QUICK_QUERIES = 500


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
    lists: dict[str, list[int]]
    settings: dict[str, Any]
    quick: bool = False
    only: str | None = None
    plots: Path | None = None
    sides: tuple[Side, ...] = ()

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
        with path.open("rb") as f:
            text = tomllib.load(f)
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
            lists=text.get("lists", {}),
            settings=settings,
            sides=tuple(Side.read(side, settings) for side in text.get("sides", [])),
            quick=quick,
            only=only,
            plots=plots,
        )

    @property
    def build(self) -> BuildOptions:
        """How the pipeann index of this job is built."""
        return BuildOptions(degree=self.degree, list=self.build_list, seed=self.seed)

    def vectors(self, name: str) -> VectorSet:
        """A data set with as many queries as the job takes."""
        return sets.with_queries(sets.vector_set(name), self.queries)

    def code(self) -> Callable[..., None]:
        """The function that takes this figure: given the job, a set unless it names none, and the
        verdict."""
        module = importlib.import_module(f"jobs.{self.module}")
        take: Callable[..., None] = getattr(module, self.function)
        return take

    def run(self, names: list[str]) -> Verdict:
        """Take the figure on the sets named and collect the checks."""
        take = self.code()
        verdict = Verdict()
        if not self.sets:
            take(self, verdict)
        for name in names if self.sets else []:
            if name not in self.sets:
                print(f"{self.name} is not taken on {name}")
                continue
            vectors = self.vectors(name)
            if not self.sides:
                take(self, vectors, verdict)
                continue
            index = pipeann.index_of(vectors, self.build)
            with fair.disclosed(self.sides, index, f"{self.name} on {name}"):
                take(self, vectors, verdict)
        if not verdict.checks:
            verdict.problems.append("nothing was measured")
        return verdict


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
