"""Who may what: calls of tenants on what is theirs and what is not."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from harness import places, rivals, servers
from harness.processes import json_lines
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

SCRIPT = places.REPO / "tests_py" / "tenants.py"


def take_tenants(job: Job, verdict: Verdict) -> None:
    """All calls on a new server that asks who calls."""
    home = Path(tempfile.mkdtemp(prefix="pipeann-tenants-"))
    try:
        with servers.pipeann(home / "data", "floor", "--authorization") as server:
            (found,) = json_lines([rivals.filtered_python(), SCRIPT, server.uri])
    finally:
        shutil.rmtree(home, ignore_errors=True)
    counts = [len(found[kind]) for kind in ("reached", "refused", "shown", "kept_back")]
    print_table(
        "Calls of six roles on own and foreign collections",
        ["calls", "served", "tried", "reached without a right", "refused with it"],
        [[found["calls"], found["served"], found["tried"], *counts[:2]]],
    )
    print_table(
        "What is told of names, with nothing left to the role public",
        ["asked", "told without a right", "kept back with it"],
        [[found["asked_unseen"], *counts[2:]]],
    )
    for said in found["reached"] + found["refused"] + found["shown"] + found["kept_back"]:
        print(said)
    verdict.add("tried", Check(found["tried"], job.settings["tried_at_least"], at_most=False))
    verdict.add("reached", Check(counts[0], 0))
    verdict.add("refused", Check(counts[1], 0))
    verdict.add("shown", Check(counts[2], 0))
    verdict.add("kept back", Check(counts[3], 0))
