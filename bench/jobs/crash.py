"""What is left of a database that is killed, or loses its power."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness import places
from harness.pipeann import lab
from harness.processes import Row, json_lines
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

# Thousands of small directories are made and opened for the power cuts.
IN_MEMORY = Path("/dev/shm")


def outcome(title: str, words: list[str | Path], verdict: Verdict) -> Row | None:
    """What a run found, printed as a table; nothing, and a broken check, where it lost something."""
    try:
        row = json_lines([lab(), "crash", *words])[-1]
    except SystemExit as lost:
        print(f"\n{title}: {lost}")
        verdict.add(f"losses by {title}", Check(1, 0))
        return None
    print_table(title, list(row), [list(row.values())])
    verdict.add(f"losses by {title}", Check(0, 0))
    return row


def take_crash(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Kills in rounds over one database, then the power cut after each recorded operation."""
    s = job.settings
    with tempfile.TemporaryDirectory(prefix="crash-", dir=places.cache()) as folder:
        words: list[str | Path] = ["kill", "--dir", Path(folder) / "database"]
        words += ["--base", vectors.base, "--rounds", str(s["rounds"]), "--seed", str(job.seed)]
        words += ["--longest-ms", str(s["longest_ms"]), "--queries", str(s["searches"])]
        if row := outcome("kills", words, verdict):
            verdict.add("recall", Check(row["recall"], s["recall_at_least"], at_most=False))
    memory = IN_MEMORY if IN_MEMORY.is_dir() else places.cache()
    with tempfile.TemporaryDirectory(prefix="crash-", dir=memory) as folder:
        words = ["power-cut", "--dir", folder, "--writes", str(s["writes"])]
        outcome("power cuts", [*words, "--every", str(s["every"]), "--tears", str(s["tears"])], verdict)
