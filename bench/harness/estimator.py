"""Fits the coefficients of the estimator's model, whose terms are those of
`crates/engine/src/estimate/model.rs`, to measured cases."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .cases import BUSY, IDLE, IN_FLIGHT, THREADS
from .fits import least_squares, relative
from .processes import Row

MILLION = math.log(1e6)


def list_term(row: Row) -> float:
    """The list, relative to 25."""
    return math.log(row["list"] / 25)


def rows_term(row: Row) -> float:
    """The logarithm of the rows, relative to that of a million."""
    return math.log(math.log(max(row["rows"], 16)) / MILLION)


def dim_term(row: Row) -> float:
    """Components of a vector, relative to 128."""
    return math.log(row["dim"] / 128)


def records_term(row: Row) -> float:
    """Records in a page, relative to twelve."""
    return math.log(row["records_per_page"] / 12)


def vector_bytes(row: Row) -> int:
    """Bytes of a vector of the set."""
    return int(row["dim"]) * {"u8": 1, "f32": 4}[row["type"]]


def page_vectors(row: Row) -> float:
    """KiB of the vectors in a page."""
    return float(row["records_per_page"] * vector_bytes(row) / 1024)


def pages_of(row: Row) -> float:
    """Pages looked at, read or resident."""
    return float(row["reads"] + row["resident_pages"])


def terms(row: Row, records: float, shape: float) -> list[float]:
    """Terms of the logarithm of what is lost, looked at or taken."""
    l, n = list_term(row), rows_term(row)
    return [1.0, l, l**2, n, l * n, records, l * records, shape, l * shape]


def page_terms(row: Row) -> list[float]:
    """Terms of searches that read pages."""
    return terms(row, records_term(row), dim_term(row))


def memory_terms(row: Row) -> list[float]:
    """Terms of what searches find where every page is in memory."""
    return terms(row, 0.0, dim_term(row))


@dataclass
class Fitted:
    """Names of constants and their values, in the order of the table."""

    values: dict[str, float | list[float]] = field(default_factory=dict)

    def rust(self) -> str:
        """The part of `fitted.rs` that is numbers."""

        def number(value: float) -> str:
            return f"{value:.4f}"

        lines = []
        for name, value in self.values.items():
            text = (
                "[" + ", ".join(map(number, value)) + "]"
                if isinstance(value, list)
                else number(value)
            )
            lines.append(f"{name}: {text}")
        return "\n".join(lines)


def logarithms(
    rows: Sequence[Row],
    terms_of: Callable[[Row], list[float]],
    value: Callable[[Row], float],
    weight: Callable[[Row], float] = lambda _: 1.0,
) -> list[float]:
    """Coefficients of the logarithm of a value."""
    weighted = [[term * weight(row) for term in terms_of(row)] for row in rows]
    return least_squares(weighted, [math.log(value(row)) * weight(row) for row in rows])


def fit_lost(rows: Sequence[Row], terms_of: Callable[[Row], list[float]]) -> list[float]:
    """What is lost. An error of a share of little matters less than one of much, and where nearly
    nothing is lost the count of queries says little: hence the weight."""
    losing = [row for row in rows if row["recall"] < 0.9995]

    def lost(row: Row) -> float:
        return float(1 - row["recall"])

    return logarithms(losing, terms_of, lost, lambda row: math.sqrt(lost(row)))


def cpu_terms(row: Row) -> list[float]:
    """Terms of the CPU of a search that reads pages."""
    pages = pages_of(row)
    return [1.0, pages, pages * page_vectors(row), float(row["reads"])]


def fit_cpu(rows: Sequence[Row]) -> list[float]:
    """CPU of a search among many, since one alone computes while it waits: that of the program
    goes by the pages looked at and what they hold, that of the kernel by the pages read."""
    user = relative([cpu_terms(row)[:3] for row in rows], [row["user_us"] for row in rows])
    reading = [row for row in rows if row["reads"] > 1]
    kernel = relative([[row["reads"]] for row in reading], [row["sys_us"] for row in reading])
    return user + kernel


def fit(rows: Sequence[Row]) -> Fitted:
    """All coefficients from rows of both loads and of all limits."""
    found = Fitted()
    paged = [row for row in rows if row["share"] < 1]
    for load in (IDLE, BUSY):
        own = [row for row in paged if row["load"] == load]
        floor = [row for row in own if row["share"] == 0]
        found.values[f"{load}.lost"] = fit_lost(floor, page_terms)
        found.values[f"{load}.pages"] = logarithms(floor, page_terms, pages_of)
        if load == BUSY:
            found.values["CPU_US"] = fit_cpu(own)
    hits = [
        (math.log(1 - row["share"]), math.log(row["reads"] / pages_of(row)))
        for row in paged
        if row["share"] > 0
    ]
    if hits:
        found.values["HITS_BY_RESIDENT"] = sum(x * y for x, y in hits) / sum(x * x for x, _ in hits)
    fit_times(found, paged)
    fit_in_memory(found, [row for row in rows if row["share"] == 1])
    return found


def fit_times(found: Fitted, paged: Sequence[Row]) -> None:
    """What waiting adds to computing; reads and CPU as measured, the device as it was beside."""
    alone = [row for row in paged if row["load"] == IDLE]
    cpu_us = found.values["CPU_US"]
    assert isinstance(cpu_us, list)

    def computing(row: Row) -> float:
        return sum(c * t for c, t in zip(cpu_us, cpu_terms(row), strict=True))

    waits = [[row["read_us"], row["reads"] * row["read_us"], computing(row)] for row in alone]
    found.values["IDLE_US"] = relative(waits, [row["mean_us"] for row in alone])
    shares = []
    for row in paged:
        if row["load"] == BUSY:
            spacing = row["cpu_us"] / THREADS + row["reads"] / row["raw_reads_per_s"] * 1e6
            shares.append(1e6 / row["qps"] / spacing)
    found.values["BUSY_US"] = statistics.median(shares)


def fit_in_memory(found: Fitted, whole: Sequence[Row]) -> None:
    """Where every page is in memory."""
    alone = [row for row in whole if row["load"] == IDLE]

    def whole_terms(row: Row) -> list[float]:
        return terms(row, 0.0, math.log(vector_bytes(row) / 128))

    found.values["in_memory.lost"] = fit_lost(whole, memory_terms)
    cpu = logarithms(alone, whole_terms, lambda row: row["mean_us"])
    found.values["in_memory.cpu_us"] = cpu
    shares = []
    for row in whole:
        if row["load"] == BUSY:
            told = math.exp(sum(c * t for c, t in zip(cpu, whole_terms(row), strict=True)))
            shares.append(1e6 / row["qps"] * THREADS / told)
    found.values["in_memory.busy"] = statistics.median(shares)


assert IN_FLIGHT == 8, "the model's BUSY_IN_FLIGHT says the same"
