"""Forms of pymilvus's methods, called in the process and against a server, with each version."""

from __future__ import annotations

import sys
from typing import Any

from harness import doors, pipeann, places
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

COLUMNS = ["methods", "forms", "returned", "older", "hangs", "listed", "beyond"]


def row(found: dict[str, Any]) -> dict[str, int]:
    """What is told of one version."""
    older = found["orm"]
    # What is not listed was not compared, and what is listed falsely is a disagreement too.
    beyond = ("not_listed", "served_after_all", "never_served", "waited", "disagreements")
    return {
        "methods": found["methods"],
        "forms": found["forms"],
        "returned": found["returned"],
        "older": older["forms"],
        "hangs": len(found["hangs"]) + len(older["hangs"]),
        "listed": sum(found["differences"].values()),
        "beyond": sum(len(found[name]) for name in beyond)
        + sum(len(older[name]) for name in ("not_listed", "wrong", "waited")),
    }


def take_client_forms(job: Job, _vectors: VectorSet, verdict: Verdict) -> None:
    """All forms with each supported version; vectors of a set are not needed."""
    sys.path.insert(0, str(places.REPO / "tests_py"))
    from forms import versions

    pythons = [versions.environment(version) for version in versions.VERSIONS]
    found = versions.all_forms(pipeann.program(), doors.package(), pythons)
    rows = [row(one) for one in found]
    print_table(
        "Forms by version of pymilvus",
        ["", *COLUMNS],
        [
            [one["version"], *(told[column] for column in COLUMNS)]
            for one, told in zip(found, rows, strict=True)
        ],
    )
    reasons: dict[str, int] = {}
    for one in found:
        for reason, count in one["differences"].items():
            reasons[reason] = reasons.get(reason, 0) + count
    print_table("Listed differences", ["", "forms"], [list(each) for each in reasons.items()])
    for one in found:
        shown = one["hangs"] + one["disagreements"] + one["not_listed"] + one["waited"]
        for said in shown[: job.settings["shown"]]:
            print(f"\n{one['version']}: {said}")
    forms = sum(told["forms"] + told["older"] for told in rows)
    verdict.add("forms", Check(forms, job.settings["forms_at_least"], at_most=False))
    verdict.add("hangs", Check(sum(told["hangs"] for told in rows), 0))
    verdict.add("beyond", Check(sum(told["beyond"] for told in rows), 0))
    verdict.add("differences", Check(len(reasons), job.settings["differences_at_most"]))
