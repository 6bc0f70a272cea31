"""Measured cases of an estimate: sets of a shape under a limit, searched idle and busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from . import pipeann, sets
from .pipeann import BuildOptions, SearchOptions
from .processes import Row
from .sets import VectorSet

# Bytes that are noted of each page where some are kept.
PAGE_NOTES = 9
RAW_SECONDS = 0.5
THREADS, IN_FLIGHT = 2, 8
IDLE, BUSY = "idle", "busy"
LOADS = {
    IDLE: {"threads": 1, "in_flight": 1},
    BUSY: {"threads": THREADS, "in_flight": IN_FLIGHT},
}


@dataclass(frozen=True)
class Case:
    """A set, its index, and the share of its pages that memory has room for."""

    vectors: VectorSet
    index: Path
    shape: Row
    share: float

    @property
    def name(self) -> str:
        """What a table calls it."""
        return f"{self.vectors.name} {self.shape['rows']:,} at {self.share:.0%}"

    @property
    def limit(self) -> str:
        """The memory limit, as the command takes it."""
        if self.share in (0.0, 1.0):
            return "all" if self.share else "floor"
        page = self.share * self.shape["page_bytes"] + PAGE_NOTES
        room = page * self.shape["pages"]
        return str(int(self.shape["memory_floor_bytes"] + room))


def case_of(vectors: VectorSet, rows: int, share: float, build: BuildOptions) -> Case:
    """The case of a set's first rows, whose index is built where it is not in the cache."""
    whole = sets.rows_in(vectors.base)
    part = vectors if rows == whole else pipeann.shrunk(vectors, rows)
    index = pipeann.index_of(part, build)
    return Case(part, index, pipeann.inspect(index), share)


@dataclass(frozen=True)
class Device:
    """What raw reads of an index's pages take: one alone, and many in flight."""

    read_us: float
    reads_per_s: float

    @classmethod
    def under(cls, case: Case) -> Device:
        """Measured now: devices drift within minutes."""
        alone = pipeann.raw_reads(case.index, depth=1, seconds=RAW_SECONDS)
        many = pipeann.raw_reads(case.index, depth=64, seconds=RAW_SECONDS)
        return cls(alone["mean_us"], many["reads_per_s"])


def measure(case: Case, lists: Sequence[int]) -> list[Row]:
    """Rows of a case by load and list, each with the case's shape and the raw device beside it."""
    device = Device.under(case)
    names = ("rows", "dim", "type", "code_bytes", "records_per_page", "page_bytes", "pages")
    own = {name: case.shape[name] for name in names}
    own |= {"set": case.vectors.name, "limit": case.limit, "share": case.share}
    own |= {"read_us": device.read_us, "raw_reads_per_s": device.reads_per_s}
    found = []
    for load, how in LOADS.items():
        options = SearchOptions(policy="auto", memory_limit=case.limit, **how)
        if 0.0 < case.share < 1.0:
            options = replace(options, warm=sets.rows_in(case.vectors.queries) // 2)
        rows = pipeann.search(case.index, case.vectors, lists, options)
        found += [row | own | {"load": load} for row in rows]
    return found
