"""The figures of raw devices that tests of Rust take: they run them, and read what is printed."""

from __future__ import annotations

import os
import re
import subprocess
from statistics import median

from harness import places
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

PASSED = re.compile(r"^test result: ok\. (\d+) passed; (\d+) failed", re.MULTILINE)
CUTS = re.compile(r"^cuts (\d+) wrong_pages (\d+) copies_complete (\d+)$", re.MULTILINE)
RINGS = re.compile(r"^whole (\d+) bare (\d+) ratio ([\d.]+)$", re.MULTILINE)


def cargo(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of cargo in the repository; what it prints is shown."""
    ended = subprocess.run(
        ["cargo", *words],
        cwd=places.REPO,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    print(ended.stdout, end="")
    return ended


def tests(verdict: Verdict, name: str, *words: str, **environment: str) -> str:
    """Tests that all have to pass, and at least one."""
    ended = cargo("test", "--locked", *words, **environment)
    passed = sum(int(found[1]) for found in PASSED.finditer(ended.stdout))
    verdict.add(f"{name} failed", Check(ended.returncode, 0))
    verdict.add(f"{name} passed", Check(passed, 1, at_most=False))
    return ended.stdout


def take_raw_conformance(_job: Job, verdict: Verdict) -> None:
    """What every backend promises, over files and over simulated devices with faults."""
    tests(verdict, "conformance", "-p", "pipeann-engine", "--lib", "io::conformance")
    tests(verdict, "rings in every order", "-p", "pipeann-raw", "--lib", "model::")
    tests(verdict, "ports", "-p", "pipeann-raw", "--test", "raw", "ports::")


def take_raw_rings(job: Job, verdict: Verdict) -> None:
    """Commands a second through port, poller and back, over those of one bare ring."""
    seconds, rounds = str(job.settings["seconds"]), str(job.rounds)
    words = ("run", "--release", "--locked", "--quiet", "-p", "pipeann-raw")
    ended = cargo(*words, "--example", "rings", "--", seconds, rounds)
    found = [[float(value) for value in row] for row in RINGS.findall(ended.stdout)]
    if not found:
        verdict.problems.append("the example did not come to its end")
        return
    print_table(
        "A device that does nothing, one search thread, one poller; on this machine's cores",
        ["round", "whole way/s", "bare ring/s", "ratio"],
        [[str(i + 1), *row] for i, row in enumerate(found)],
    )
    at_least = job.settings["at_least"]
    verdict.add("ratio", Check(median(row[2] for row in found), at_least, at_most=False))


def take_raw_crash(_job: Job, verdict: Verdict) -> None:
    """The power fails at every write of a copy; pages of copies that a marker names then."""
    words = ("-p", "pipeann-raw", "--test", "raw", "crash::", "--", "--nocapture")
    found = CUTS.search(tests(verdict, "tests", *words))
    if found is None:
        verdict.problems.append("the test did not tell its cuts")
        return
    cuts, wrong, complete = (int(value) for value in found.groups())
    print(f"{cuts} cuts, {complete} stripes with the whole copy after one")
    verdict.add("wrong pages", Check(wrong, 0))
    verdict.add("cuts", Check(cuts, 1, at_most=False))


def take_raw_marker(_job: Job, verdict: Verdict) -> None:
    """Devices that are none of this stripe are refused by name, and not written to."""
    tests(verdict, "tests", "-p", "pipeann-raw", "--test", "raw", "markers::")
