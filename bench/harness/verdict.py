"""What a job concludes: measured values against their limits."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Check:
    """A measured value and the limit that it must keep; no limit means report only."""

    measured: float
    limit: float | None = None
    at_most: bool = True

    @property
    def holds(self) -> bool:
        """Whether the limit is kept."""
        if self.limit is None:
            return True
        return self.measured <= self.limit if self.at_most else self.measured >= self.limit

    @property
    def target(self) -> str:
        """The limit in words without spaces."""
        if self.limit is None:
            return "report"
        return f"{'<=' if self.at_most else '>='}{self.limit:.6g}"

    def strain(self) -> float:
        """How close the value is to its limit; above 1 it is broken."""
        if self.limit is None:
            return 0.0
        pair = (self.measured, self.limit) if self.at_most else (self.limit, self.measured)
        return pair[0] / pair[1] if pair[1] else float("inf")


@dataclass
class Verdict:
    """The checks of one figure, by name and data set."""

    checks: dict[str, list[Check]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, name: str, check: Check) -> None:
        """Record a check; the same name may come once per data set."""
        self.checks.setdefault(name, []).append(check)

    @property
    def holds(self) -> bool:
        """Whether every check holds and nothing went wrong."""
        return not self.problems and all(c.holds for cs in self.checks.values() for c in cs)

    def line(self, figure: str) -> str:
        """`NAME measured target holds|short`, with the most strained set of each check."""
        worst = [max(checks, key=Check.strain) for checks in self.checks.values()]
        measured = "/".join(f"{c.measured:.4g}" for c in worst) or "-"
        target = "/".join(c.target for c in worst) or "-"
        return f"{figure} {measured} {target} {'holds' if self.holds else 'short'}"
