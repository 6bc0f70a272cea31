"""What a cluster withstands: networks that fail, peers that lie."""

from __future__ import annotations

import re
import subprocess

from harness import places
from harness.verdict import Check, Verdict

from .catalogue import Job
from .checks import fuzz

# The line of the simulation in which it sums up.
SUMMED = re.compile(
    r"^seeds (\d+) queries (\d+) wrong (\d+) lost (\d+) hangs (\d+) stuck (\d+)"
    r" faults (\d+) of (\d+)$",
    re.MULTILINE,
)
TESTED = re.compile(r"^test result: ok\. (\d+) passed", re.MULTILINE)


def cluster_test(words: list[str]) -> tuple[int, str]:
    """A test of the cluster, optimised: how it ended, and what it printed."""
    command = ["cargo", "test", "--release", "--locked", "--package", "pipeann-cluster", *words]
    ended = subprocess.run(command, cwd=places.REPO, stdout=subprocess.PIPE, text=True)
    print(ended.stdout, end="")
    return ended.returncode, ended.stdout


def take_cluster_sim(job: Job, verdict: Verdict) -> None:
    """Seeds of the simulated network, and planted faults."""
    words = ["--test", "sim", "--", "--seeds", str(job.settings["seeds"])]
    code, printed = cluster_test(words)
    summed = SUMMED.search(printed)
    if summed is None:
        verdict.problems.append("the simulation did not come to its end")
        return
    _, _, wrong, lost, hangs, stuck, found, planted = map(int, summed.groups())
    for name, count in {"wrong": wrong, "lost": lost, "hangs": hangs, "stuck": stuck}.items():
        verdict.add(name, Check(count, 0))
    verdict.add("planted faults missed", Check(planted - found, 0))
    verdict.add("exit", Check(code, 0))


def take_cluster_frames(job: Job, verdict: Verdict) -> None:
    """Every byte of every message, then the fuzzer."""
    code, printed = cluster_test(["--lib", "wire::"])
    tested = TESTED.search(printed)
    verdict.add("tests missed", Check(0 if tested and int(tested[1]) > 0 else 1, 0))
    verdict.add("exit of tests", Check(code, 0))
    fuzz(job.settings["seconds"], ["frame", "portable"], verdict)
