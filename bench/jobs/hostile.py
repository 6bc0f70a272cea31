"""Servers among strangers: what attacks take of memory, processor and connections."""

from __future__ import annotations

import resource
import shutil
import tempfile
from pathlib import Path

from harness import rivals, servers
from harness.processes import Command, Row, json_lines
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

SCRIPT = rivals.COMPARE / "attacks.py"
MIB = 1 << 20


def attacked(job: Job, attack: str, limit: str, *flags: str) -> list[Row]:
    """What the script measures of a new server."""
    home = Path(tempfile.mkdtemp(prefix="pipeann-attacked-"))
    try:
        with servers.pipeann(home / "data", limit, *flags) as server:
            address = server.uri.removeprefix("http://")
            command: Command = [rivals.filtered_python(), SCRIPT, attack]
            named = ["seconds", "rest", "idle", "rows", "count"]
            words = [f"--{name}={job.settings[name]}" for name in named if name in job.settings]
            if job.only:
                words.append(f"--only={job.only}")
            return json_lines([*command, "--address", address, f"--pid={server.pid}", *words])
    finally:
        shutil.rmtree(home, ignore_errors=True)


def above(rows: list[Row], column: str, limit_mib: int) -> float:
    """MiB above the limit, of the row that has most."""
    return max(max(row[column] / MIB - limit_mib, 0) for row in rows if column in row)


def table(title: str, rows: list[Row], columns: list[str]) -> None:
    """Rows as they were told; what a row does not have is left out."""
    shown = [[row["name"], *(row.get(column, "") for column in columns)] for row in rows]
    print_table(title, ["", *columns], shown)


def over_quiet(rows: list[Row], column: str) -> float:
    """The worst of the others over the one without an attack."""
    quiet = next(row for row in rows if row["name"] == "quiet")
    worst = max(row[column] for row in rows if column in row and row is not quiet)
    return worst / quiet[column]


def conclude(job: Job, rows: list[Row], verdict: Verdict) -> None:
    """What both attacks have in common."""
    settings, limit = job.settings, job.settings["limit_mib"]
    verdict.add("peak", Check(above(rows, "peak", limit), settings["peak_mib_at_most"]))
    verdict.add("p50", Check(over_quiet(rows, "p50_ms"), settings["p50_at_most"]))
    verdict.add("p99", Check(over_quiet(rows, "p99_ms"), settings["p99_at_most"]))


def take_hostile_network(job: Job, verdict: Verdict) -> None:
    """Strangers who send much, little, or nothing."""
    limit = job.settings["limit_mib"]
    # Both ends of each connection are descriptors of this machine.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rows = attacked(job, "network", f"{limit}MiB", "--authorization")
    table("Strangers", rows, ["p50_ms", "p99_ms", "count", "peak", "rss", "descriptors"])
    conclude(job, rows, verdict)
    later = [row for row in rows if row["name"] == "a minute later"]
    verdict.add("later", Check(above(later, "rss", limit), job.settings["later_mib_at_most"]))


def take_runaway(job: Job, verdict: Verdict) -> None:
    """Calls that ask for much, and whose client leaves."""
    rows = attacked(job, "runaway", f"{job.settings['limit_mib']}MiB")
    table("Dear calls", rows, ["p50_ms", "p99_ms", "count", "peak", "rss", "after_ms"])
    conclude(job, rows, verdict)
    after = max(row["after_ms"] for row in rows if "after_ms" in row)
    verdict.add("after", Check(after, job.settings["after_ms_at_most"]))


def take_many_collections(job: Job, verdict: Verdict) -> None:
    """Many collections, open."""
    rows = attacked(job, "collections", "floor")
    table("While they are made", rows[:-1], ["at", "rate", "written"])
    found, settings = rows[-1], job.settings
    columns = ["threads", "descriptors", "each", "first_rate", "last_rate"]
    table("All of them", [found], [*columns, "first_written", "last_written", "mean_written"])
    if found["rows"] != 3:
        verdict.problems.append(f"a collection has {found['rows']} rows instead of 3")
    verdict.add("threads", Check(found["threads"], settings["threads_at_most"]))
    verdict.add("descriptors", Check(found["descriptors"], settings["descriptors_at_most"]))
    verdict.add("bytes each", Check(found["each"], settings["each_at_most"]))
    rate = found["last_rate"] / found["first_rate"]
    verdict.add("rate", Check(rate, settings["rate_at_least"], at_most=False))
    written = found["last_written"] / found["first_written"]
    verdict.add("written", Check(written, settings["written_at_most"]))
