"""What the server of Milvus's protocol takes in: rows, and memory; and whether the snippets run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import doors, places, servers
from harness.doors import MILVUS, OURS, PLAIN, TAGGED
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .doors import behind, words

CLIENT_MB = 1.5
SPARE_MB = 150
MIB = 1 << 20
SNIPPETS = ["in_process/test_snippets.py", "milvus/test_quick_start.py", "milvus/test_sdks.py"]


def resident_mb(server: servers.Server) -> float:
    """Resident memory of a server and the processes that it started, in megabytes."""
    found = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid=,rss="], capture_output=True, text=True, check=True
    )
    lines = [tuple(map(int, line.split())) for line in found.stdout.splitlines()]
    pids = [server.pid]
    for pid in pids:
        pids += [child for child, parent, _ in lines if parent == pid]
    return sum(rss for pid, _, rss in lines if pid in pids) * 1024 / 1e6


def take_memory_two(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Resident memory with two collections open: before, during and after many clients."""
    data, settings = behind(job, vectors, PLAIN, TAGGED), job.settings
    limit = settings["limit_mib"] * MIB
    ours = load_both(job, data, OURS, str(limit))
    theirs = load_both(job, data, MILVUS, "")
    columns = ["idle_mb", "peak_mb", "after_mb"]
    print_table(
        f"Two collections of {data.rows:,} rows, {settings['clients']} clients",
        ["", *columns],
        [[name, *(row[c] for c in columns)] for name, row in ((OURS, ours), (MILVUS, theirs))],
    )
    allowed = limit / 1e6 + CLIENT_MB * settings["clients"] + SPARE_MB
    verdict.add("milvus", Check(ours["peak_mb"] / theirs["peak_mb"], settings["at_most"]))
    verdict.add("limit", Check(ours["peak_mb"], allowed))
    grown = max(ours["peak_mb"] - ours["idle_mb"], 1.0)
    left = max(ours["after_mb"] - ours["idle_mb"], 0.0)
    verdict.add("kept", Check(left / grown, settings["kept_at_most"]))


def load_both(job: Job, data: doors.Behind, system: str, limit: str) -> Row:
    """The memory of one server while its two collections are searched one after the other."""
    asked = words(job, job.lists[data.vectors.name])
    of = dict.fromkeys(data.parts, asked)
    if system == MILVUS:
        # So long it takes for a filter by tags that all queries of all clients were half an hour.
        fewer = ["--count", job.settings["milvus_count"], "--repeat", 1]
        of[TAGGED] = [*asked, *fewer]
    with doors.serving(system, data, limit) as server:
        # Both are open and have answered.
        for part in data.parts:
            doors.over_network(server, data, part, *of[part], "--clients", 1, "--count", 10)
        time.sleep(job.settings["settle_s"])
        idle = resident_mb(server)
        rows = [
            row for part in data.parts for row in doors.over_network(server, data, part, *of[part])
        ]
        # Longer than our server waits before it returns what nobody has asked for.
        time.sleep(job.settings["rest_s"])
        after = resident_mb(server)
    peak = max(row["peak_rss_mb"] for row in rows)
    return {"idle_mb": idle, "peak_mb": peak, "after_mb": after}


def take_ingest(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Rows a second until they are acknowledged, and until all are searched by an index."""
    data = behind(job, vectors, PLAIN, TAGGED)
    _, kept = doors.filled(MILVUS, data, compared=True)
    for part in data.parts:
        ours = [fill(data, part) for _ in range(job.rounds)]
        theirs = [row for row in kept if row["part"] == part]
        columns = ["rows", "acknowledged_s", "rows_per_s", "searchable_s", "peak_rss_mb"]
        print_table(
            f"Filling: {part}",
            ["", *columns],
            [[row["server"], *(row[c] for c in columns)] for row in (*ours, *theirs)],
        )
        middle = job.rounds // 2
        for column, limit in (("acknowledged_s", "at_least"), ("searchable_s", "index_at_least")):
            mine = sorted(row[column] for row in ours)[middle]
            over = Check(theirs[0][column] / mine, job.settings[limit], at_most=False)
            verdict.add(f"{part} {column}", over)


def fill(data: doors.Behind, part: str) -> Row:
    """What filling our server takes, on an empty directory."""
    with (
        tempfile.TemporaryDirectory(dir=places.cache()) as folder,
        servers.pipeann(Path(folder) / "data") as server,
    ):
        return doors.over_network(server, data, part, "--fill", "--clients", 0)[0]


def take_snippets(_job: Job, _vectors: VectorSet, verdict: Verdict) -> None:
    """The specification's snippets, and the first steps with each SDK, as tests."""
    tests = [str(places.REPO / "tests_py" / name) for name in SNIPPETS]
    python = places.REPO / ".venv" / "bin" / "python"
    if not python.exists():
        raise SystemExit("the package is not installed: `make test` or `make python` does it")
    environment = dict(os.environ)
    ended = subprocess.run(
        [str(python), "-m", "pytest", *tests], cwd=places.REPO, env=environment, stdout=sys.stdout
    )
    verdict.add("failed", Check(float(ended.returncode != 0), 0.0))
