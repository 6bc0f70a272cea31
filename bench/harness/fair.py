"""What a comparison has to disclose: both sides' settings and versions, the device, the command.

A job that compares describes each side in its file, `[[sides]]` with the fields of `Side`; words
in braces are settings of the job, so that what is printed is what is run. `Job.run` prints all of
it around the measurement.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from . import pipeann, places, rivals
from .curves import Curve
from .machine import machine, today
from .tables import print_table

OURS = "pipeann"
# Reads in flight on each of some threads, and seconds, by which the raw device is measured around a
# comparison. One thread alone does not reach what searches on two do.
DEPTH, THREADS, SECONDS = 64, 2, 1.0
# Code that names one of these compares with a rival.
RIVAL_WORDS = (
    r"\brivals\.(?:search|add|diskannpy|hnswlib|faiss|diskann_disk)|\bMILVUS\b|\blite_kept\b"
)
# Packages that are pinned elsewhere than in a file of requirements.
PINNED = {"diskann-disk": rivals.COMPARE / "diskann-disk" / "Cargo.lock"}


@dataclass(frozen=True)
class Side:
    """One side of a comparison, as its job's file describes it."""

    name: str
    threads: str
    in_flight: str
    memory: str
    warm_up: str

    @classmethod
    def read(cls, text: Mapping[str, Any], settings: Mapping[str, Any]) -> Side:
        """From a job's file; a key that is missing, or a setting that is not there, is an error."""
        try:
            words = {f.name: str(text[f.name]).format_map(settings) for f in fields(cls)}
        except KeyError as missing:
            raise SystemExit(f"a side of a comparison lacks {missing}: {dict(text)}") from None
        return cls(**words)

    @property
    def version(self) -> str:
        """What is compared; of rivals the version that is pinned."""
        return own_version() if self.name == OURS else pinned_version(self.name)


def own_version() -> str:
    """The version of this repository and its commit, where git knows one."""
    text = (places.REPO / "Cargo.toml").read_text()
    found = re.search(r'^version = "([^"]+)"', text, re.MULTILINE)
    command = ["git", "describe", "--always", "--dirty"]
    told = subprocess.run(command, cwd=places.REPO, capture_output=True, text=True)
    return " ".join(filter(None, [found.group(1) if found else "", told.stdout.strip()]))


def pinned_version(package: str) -> str:
    """The version of a rival, from where it is pinned."""
    if path := PINNED.get(package):
        found = re.search(rf'name = "{package}"\nversion = "([^"]+)"', path.read_text())
    else:
        texts = [path.read_text() for path in sorted(rivals.COMPARE.glob("*requirements.txt"))]
        found = re.search(rf"^{re.escape(package)}==(\S+)", "\n".join(texts), re.MULTILINE)
    if found is None:
        raise SystemExit(f"no version of {package} is pinned")
    return found.group(1)


def command_line(arguments: Sequence[str] | None = None) -> str:
    """The line by which a reader repeats what runs now."""
    words = sys.argv[1:] if arguments is None else arguments
    named = ("PIPEANN_BIN", "PIPEANN_LAB_BIN", "PIPEANN_PACKAGE")
    said = [f"{name}={shlex.quote(os.environ[name])}" for name in named if name in os.environ]
    return " ".join([*said, "bench/run", shlex.join(words)])


@contextmanager
def disclosed(sides: Sequence[Side], index: Path | None, title: str) -> Iterator[None]:
    """Prints both sides' settings, the raw device before and after, and the command."""
    print_table(
        f"{title}: {machine()}, {today()}",
        ["side", "version", "threads", "in flight", "memory", "warm-up"],
        [[s.name, s.version, s.threads, s.in_flight, s.memory, s.warm_up] for s in sides],
    )
    before = raw(index)
    yield
    after = raw(index)
    print_table(
        f"The raw device around it, {DEPTH} reads in flight on each of {THREADS} threads",
        ["", "reads/s"],
        [["before", before], ["after", after]],
    )
    print(f"Repeat it by: {command_line()}")


def raw(index: Path | None) -> float | None:
    """Random reads a second of an index's files."""
    if index is None:
        return None
    found = pipeann.raw_reads(index, depth=DEPTH, threads=THREADS, seconds=SECONDS)
    return float(found["reads_per_s"])


def best_of(curves: Mapping[str, Curve], recall: float) -> tuple[str, float]:
    """The curve with the highest rate at a recall, of those that have it, and the rate."""
    rates = {name: curve.at("qps", recall) for name, curve in curves.items()}
    name = max(rates, key=rates.__getitem__)
    return name, rates[name]


@contextmanager
def pinned(cores: set[int]) -> Iterator[None]:
    """Pins this process, and so all that it starts meanwhile, to some cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def one_core() -> AbstractContextManager[None]:
    """Pins this process, and so all that it starts meanwhile, to one core."""
    return pinned({min(os.sched_getaffinity(0))})
