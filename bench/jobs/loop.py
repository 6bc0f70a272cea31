"""What checking a change takes: `make test` in an empty clone, and `make quick` where all is there."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
import time
from pathlib import Path

from harness import places
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

# How often what takes little is repeated; the least is taken.
REPEATED = 3
# What the demo says of its vectors and of the build of their index.
DEMO = re.compile(r"^vectors: .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)


def bare() -> dict[str, str]:
    """The environment without what names other vectors, commands and servers than a clone's."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PIPEANN_")}


def take_make_test(job: Job, verdict: Verdict) -> None:
    """Processor time of the commands that people type, over that of what they compare it with."""
    if job.settings["most_of_run"]:
        in_a_clone(job.settings["most_of_run"], verdict)
    warm(job.settings["most_of_check"], verdict)


def in_a_clone(most: float, verdict: Verdict) -> None:
    """`make run` and `make test`, each in an empty clone of what is committed."""
    rows, taken = [], {}
    for command in ("run", "test"):
        with tempfile.TemporaryDirectory(dir=places.cache()) as folder:
            clone = Path(folder) / "clone"
            subprocess.run(["git", "clone", "--quiet", places.REPO, clone], check=True)
            # What is compiled elsewhere does not count, and nothing is prepared for a second time.
            elsewhere = {"CARGO_TARGET_DIR": str(clone / "target"), "CARGO_INCREMENTAL": "0"}
            processor, wall, said = spent(["make", command], clone, bare() | elsewhere)
        taken[command] = processor
        # What was built and searched decides what the other is held to.
        for found in DEMO.findall(said):
            print(found)
        rows.append([f"make {command}", f"{processor:.0f}", f"{wall:.0f}"])
    print_table("an empty clone", ["command", "processor s", "wall s"], rows)
    verdict.add("make test over make run", Check(taken["test"] / taken["run"], most))


def warm(most: float, verdict: Verdict) -> None:
    """`make quick` and `cargo check` of everything, where nothing has changed since the last."""
    rows, least = [], {}
    for command in (["cargo", "check", "--workspace", "--all-targets"], ["make", "quick"]):
        name = " ".join(command)
        spent(command, places.REPO)
        times = [spent(command, places.REPO) for _ in range(REPEATED)]
        least[name] = min(processor for processor, _, _ in times)
        rows.append([name, f"{least[name]:.2f}", f"{min(wall for _, wall, _ in times):.2f}"])
    print_table("nothing changed", ["command", "processor s", "wall s"], rows)
    check, quick = least.values()
    verdict.add("make quick over cargo check", Check(quick / check, most))


def spent(
    command: list[str], folder: Path, variables: dict[str, str] | None = None
) -> tuple[float, float, str]:
    """Processor and wall time, in seconds, of a command and all that it starts, and its words."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    ended = subprocess.run(
        command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    wall = time.monotonic() - began
    if ended.returncode != 0:
        raise SystemExit(f"{' '.join(command)} fails:\n{ended.stdout[-4000:]}{ended.stderr[-4000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return processor, wall, ended.stdout
