"""How reads grow with the number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness import pipeann, sets
from harness.curves import Curve
from harness.fits import Fit
from harness.pipeann import SearchOptions
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import print_curve


@dataclass(frozen=True)
class Growth:
    """Reads by rows, and how well a logarithm tells them."""

    rows: Sequence[int]
    reads: Sequence[float]

    @property
    def logarithm(self) -> Fit:
        """`reads = a + b ln n` through all points."""
        return Fit.logarithm(self.rows, self.reads)

    @property
    def power(self) -> Fit:
        """A power law through all points."""
        return Fit.power(self.rows, self.reads)

    def surprise(self) -> float:
        """Reads of the largest index over what the logarithm of the others foretells, less one."""
        foretold = Fit.logarithm(self.rows[:-1], self.reads[:-1]).at(self.rows[-1])
        return self.reads[-1] / foretold - 1.0


def at_recall(job: Job, vectors: VectorSet, policy: str, rows: int) -> Row:
    """Every column of a policy at the job's recall. Reads are counts: one round decides them."""
    index = pipeann.index_of(vectors, job.build)
    lists = job.around(vectors.name)
    found = pipeann.search(index, vectors, lists, SearchOptions.of(policy))
    curve = Curve.of_rounds(f"{policy} on {rows:,} rows of {vectors.name}", [found])
    print_curve(curve)
    return curve.row_at(job.recall)


def take_growth(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Reads at the recall by rows, and the fit that is judged."""
    settings = job.settings
    counts = counts_of(settings["rows"].get(vectors.name), sets.rows_in(vectors.base))
    made: list[int] = settings.get("made_rows", {}).get(vectors.name, [])
    if rows_asking := settings["asked_by_rows"].get(vectors.name):
        vectors = sets.asked_by_rows(vectors, counts[-1], rows_asking)
    fits = take_fits(job, vectors, counts, made)
    best = min(fits.values(), key=lambda growth: growth.reads[-1])
    r2 = best.logarithm.r_squared(best.rows, best.reads)
    judged = vectors.name == settings["judged_by_r2"]
    limit = settings["r2_at_least"] if judged else None
    verdict.add("r2" if judged else f"r2 of {vectors.name}", Check(r2, limit, at_most=False))
    verdict.add("surprise", Check(best.surprise(), settings["surprise_at_most"]))
    for code_bytes in settings.get("code_bytes", {}).get(vectors.name, []):
        take_fits(job, replace(vectors, code_bytes=code_bytes), counts, [])


def counts_of(named: list[int] | None, rows: int) -> list[int]:
    """Rows of the indexes: those that are named, if the set has as many, else five doublings."""
    if named and named[-1] <= rows:
        return named
    return [rows >> halvings for halvings in range(4, -1, -1)]


def take_fits(
    job: Job, vectors: VectorSet, counts: list[int], made: list[int]
) -> dict[str, Growth]:
    """Reads by rows and their fits, by policy; printed."""
    whole, name = sets.rows_in(vectors.base), f"{vectors.name}, codes of {vectors.code_bytes} bytes"
    parts = {n: vectors if n == whole else pipeann.shrunk(vectors, n) for n in counts}
    parts |= {n: pipeann.grown(vectors, n) for n in made}
    policies = job.settings["policies"]
    reads = {p: [at_recall(job, parts[n], p, n)["reads"] for n in parts] for p in policies}
    print_table(
        f"Reads at {job.recall} on {name}; more rows than {counts[-1]:,} are made",
        ["rows", *policies],
        [[f"{n:,}", *(reads[p][i] for p in policies)] for i, n in enumerate(parts)],
    )
    fits = {p: Growth(counts, reads[p][: len(counts)]) for p in policies}
    print_table(
        f"Fits of {name}: a + b ln n, and a power of n",
        ["policy", "a", "b", "a doubling", "r2", "surprise", "exponent", "r2 of the power"],
        [[p, *fit_cells(growth)] for p, growth in fits.items()],
    )
    return fits


def fit_cells(growth: Growth) -> list[float]:
    """A line of the table of fits."""
    log, power = growth.logarithm, growth.power
    explained = [fit.r_squared(growth.rows, growth.reads) for fit in (log, power)]
    doubling = log.at(2.0) - log.at(1.0)
    surprise = growth.surprise()
    return [log.base, log.slope, doubling, explained[0], surprise, power.slope, explained[1]]
