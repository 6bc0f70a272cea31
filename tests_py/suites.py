"""The tests that stock clients of Milvus have here, against each of three servers of a cluster and
against one server. Prints one line of JSON: how many passed, and which did not.

Left out is what is about no server's address: the door within the process (`in_process`), the definition of the
wire, raw devices, deployments, and tests that start servers of their own (`store`, `servers`, `operations`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pymilvus
import tenants
from clusters import ROOT, Cluster, Server, binary, running, unwind_at_end

from forms import versions

TESTS = Path(__file__).parent / "milvus"
# Those that take the address of a server, whichever it is.
SUITES = ["administration", "orm", "quick_start", "sdks", "searching", "vector_types"]
# Each of these has a server, or servers, of its own: all forms in which methods of clients are called with each
# version of pymilvus, the first steps with the older and the newer one, and who may what.
FORMS = [f"forms {version}" for version in versions.VERSIONS]
STEPS = [f"steps {version}" for version in versions.VERSIONS if version != "2.6"]
APART = [*STEPS, "tenants", *FORMS]
# Forms with one version against servers that wait for their store.
FORMS_S = 1800

Told = dict[str, list[str]]


def passed(root: Path, suites: list[str], address: str, python: str | Path | None = None) -> Told:
    """Runs suites against a server that runs."""
    report = root / "report.xml"
    files = [str(TESTS / f"test_{suite}.py") for suite in suites]
    environment = os.environ | {"PIPEANN_ADDRESS": address}
    if python is not None:
        environment["PYTHONPATH"] = str(ROOT / "python")
    command = [str(python or sys.executable), "-m", "pytest", "-q", f"--junitxml={report}", *files]
    ran = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE)
    if not report.is_file():
        raise SystemExit(ran.stdout.decode())
    found: Told = {"passed": [], "failed": [], "skipped": []}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        kinds = {child.tag for child in case}
        failed, skipped = kinds & {"failure", "error"}, "skipped" in kinds
        found["failed" if failed else "skipped" if skipped else "passed"].append(name)
    report.unlink()
    if found["failed"]:
        print(ran.stdout.decode()[-4000:], file=sys.stderr)
    return found


def judged(name: str, wrong: dict[str, list]) -> Told:
    """What is no test of pytest: a name for each thing that may be wrong, and for each that is."""
    found: Told = {"passed": [], "failed": [], "skipped": []}
    for what, those in wrong.items():
        found["failed"] += [f"{name}::{what}: {str(each)[:300]}" for each in those]
        found["passed"] += [] if those else [f"{name}::{what}"]
    return found


def forms_of(root: Path, version: str, address: str) -> Told:
    """All forms in the process and against a server, which have to agree."""
    # What starts a server there says where one is.
    door = root / "door"
    door.write_text(f"#!/bin/sh\necho listening on {address}\nexec sleep infinity\n")
    door.chmod(0o755)
    here = pymilvus.__version__.startswith(f"{version}.")
    python = Path(sys.executable) if here else versions.environment(version)
    (found,) = versions.all_forms(door, ROOT / "python", [python], FORMS_S)
    kinds = ("not_listed", "hangs", "waited", "served_after_all", "never_served", "disagreements")
    wrong = {kind: found[kind] for kind in kinds}
    older = {kind: found["orm"][kind] for kind in ("not_listed", "hangs", "wrong", "waited")}
    return judged(f"forms {version}", wrong | {f"older {kind}": of for kind, of in older.items()})


def tenants_of(address: str) -> Told:
    """Each call as each role."""
    found = tenants.measure_all(f"http://{address}")
    kinds = ("reached", "refused", "shown", "kept_back")
    return judged("tenants", {kind: getattr(found, kind) for kind in kinds})


def of_suite(root: Path, suite: str, address: str) -> Told:
    """One that has a server of its own."""
    what, _, version = suite.partition(" ")
    if what == "forms":
        return forms_of(root, version, address)
    if what == "tenants":
        return tenants_of(address)
    python = versions.environment(version)
    found = passed(root, ["quick_start"], address, python)
    return {kind: [f"{version} {name}" for name in names] for kind, names in found.items()}


def alone(root: Path, flags: list[str], run: Callable[[str], Told]) -> Told:
    """Against one server."""
    server = Server(root / "alone", "")
    server.flags = flags
    with running(server):
        return run(server.address)


def at_edge(root: Path, number: int, flags: list[str], run: Callable[[str], Told]) -> Told:
    """Against one of three servers of a cluster that begins."""
    cluster = Cluster(root, 3)
    for server in cluster.servers:
        server.flags += flags
    with cluster.running():
        return run(cluster.servers[number].address)


def everything(root: Path, suites: list[str], where: Callable[..., Told]) -> Told:
    """All suites: those of pytest together, each other one by itself."""
    together = [suite for suite in suites if suite in SUITES]
    told: Told = {"passed": [], "failed": [], "skipped": []}

    def take(name: str, flags: list[str], run: Callable[[Path, str], Told]) -> None:
        of = root / name.replace(" ", "-")
        of.mkdir(parents=True)
        for kind, names in where(of, flags, lambda address: run(of, address)).items():
            told[kind] += names

    # Servers of their own each time: some names are the tests' own, and not made up anew.
    if together:
        take("together", [], lambda of, address: passed(of, together, address))
    for suite in (each for each in suites if each not in SUITES):
        flags = ["--authorization"] if suite == "tenants" else []
        take(suite, flags, lambda of, address, suite=suite: of_suite(of, suite, address))
    return told


def run(root: Path, suites: list[str]) -> dict[str, Told]:
    """One server, then each of three."""
    assert binary().is_file()
    told = {"one": everything(root / "one", suites, alone)}
    for number in range(3):

        def edge(
            of: Path, flags: list[str], run: Callable[[str], Told], number: int = number
        ) -> Told:
            return at_edge(of, number, flags, run)

        told[f"edge {number}"] = everything(root / f"edge-{number}", suites, edge)
    return told


if __name__ == "__main__":
    unwind_at_end()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", help=", ".join([*SUITES, *APART]))
    asked = parser.parse_args()
    assert set(asked.suites) <= {*SUITES, *APART}, asked.suites
    with tempfile.TemporaryDirectory(prefix="pipeann-suites-") as made:
        print(json.dumps(run(Path(made), asked.suites or [*SUITES, *APART])))
