"""Tests of stock clients against servers of a cluster, as against one server."""

from __future__ import annotations

from harness.clusters import counted, tests_python
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job


def take_cluster_suites(job: Job, verdict: Verdict) -> None:
    """What passes against one server passes against each of three."""
    chosen = job.settings["quick_suites"] if job.quick else []
    found = counted("suites.py", *chosen, python=tests_python())
    one = set(found["one"]["passed"])
    print_table(
        "Tests of stock clients",
        ["against", "passed", "failed", "skipped", "pass against one server alone"],
        [
            [
                where,
                len(told["passed"]),
                len(told["failed"]),
                len(told["skipped"]),
                len(one - set(told["passed"])),
            ]
            for where, told in found.items()
        ],
    )
    for where, told in found.items():
        for name in told["failed"]:
            print(f"{where}: {name} failed")
    verdict.add("tests that pass", Check(len(one), job.settings["least"], at_most=False))
    lost = sum(len(one - set(told["passed"])) for told in found.values())
    verdict.add("pass against one server alone", Check(lost, 0))
    failed = sum(len(told["failed"]) for told in found.values())
    verdict.add("failed", Check(failed, 0))
