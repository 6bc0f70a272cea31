"""The tests that stock clients of Milvus have here, against each of three servers of a cluster and
against one server. Prints one line of JSON: how many passed, and which did not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from clusters import Cluster

TESTS = Path(__file__).parent / "milvus"
# Those that take the address of a server, whichever it is.
SUITES = ["administration", "orm", "quick_start", "sdks", "searching", "vector_types"]


def passed(root: Path, suites: list[str], address: str | None) -> dict:
    """Runs the suites against a server that runs, or against one of their own."""
    report = root / "report.xml"
    files = [str(TESTS / f"test_{suite}.py") for suite in suites]
    environment = dict(os.environ) | ({"PIPEANN_ADDRESS": address} if address else {})
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *files]
    ran = subprocess.run(command, cwd=TESTS.parents[1], env=environment, stdout=subprocess.PIPE)
    if not report.is_file():
        raise SystemExit(ran.stdout.decode())
    found: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        kinds = {child.tag for child in case}
        failed, skipped = kinds & {"failure", "error"}, "skipped" in kinds
        found["failed" if failed else "skipped" if skipped else "passed"].append(name)
    report.unlink()
    if found["failed"]:
        print(ran.stdout.decode()[-4000:], file=sys.stderr)
    return found


def run(root: Path, suites: list[str]) -> dict:
    """One server, then each of three."""
    told = {"one": passed(root, suites, None)}
    for number in range(3):
        # Each with servers of its own: some names are the tests' own, and not made up anew.
        of = root / f"edge-{number}"
        cluster = Cluster(of, 3)
        with cluster.running():
            told[f"edge {number}"] = passed(of, suites, cluster.servers[number].address)
    return told


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("suites", nargs="*")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeann-suites-") as made:
        print(json.dumps(run(Path(made), asked.suites or SUITES)))
