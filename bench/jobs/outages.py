"""Servers of one database that die or stop: leaders under writes, all disks, and etcd."""

from __future__ import annotations

from harness.clusters import counted
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

SCRIPT = "outages.py"


def take_failover(job: Job, verdict: Verdict) -> None:
    """Three servers, three writers, a reader through a balancer; the leader is killed, often."""
    found = counted(SCRIPT, "failover", job.settings["quick_kills" if job.quick else "kills"])
    again = found["again_s"]
    print_table(
        "Leaders killed while three writers wrote and one reader read through a balancer",
        [
            "kills",
            "writes answered",
            "refused or lost in a call",
            "reads",
            "writes again, s",
            "worst, s",
        ],
        [
            [
                found["kills"],
                found["answered"],
                found["failed_writes"],
                found["reads"],
                again[len(again) // 2],
                again[-1],
            ]
        ],
    )
    for said, times in found["said"].items():
        print(f"{times} x {said}")
    # The SDK sent them again; nothing tells a server that they are the same.
    unnamed = found["unnamed_at_killed"]
    print(f"{unnamed} of the rows twice were sent, without an id, to a server that was killed")
    found["rows_twice"] += unnamed
    for name in ("lost", "differ", "keys_twice", "rows_twice", "failed_reads"):
        verdict.add(name.replace("_", " "), Check(found[name], 0))
    verdict.add("writes again, s", Check(again[-1], job.settings["again_s"]))


def take_fencing(job: Job, verdict: Verdict) -> None:
    """Leaders stopped and let go on; then one that is left alone while all processors are busy."""
    found = counted(SCRIPT, "fencing", job.settings["quick_runs" if job.quick else "runs"])
    resumed = found["resumed_s"]
    print_table(
        "Leaders stopped under writes until another one led, and asked as soon as they went on",
        [
            "runs",
            "terms",
            "writes answered",
            "strong reads refused",
            "answered after, s",
            "worst, s",
        ],
        [
            [
                found["runs"],
                found["terms"],
                found["answered"],
                found["refused_reads"],
                resumed[len(resumed) // 2],
                resumed[-1],
            ]
        ],
    )
    for name in ("old_records", "lost", "differ", "stale_reads"):
        verdict.add(name.replace("_", " "), Check(found[name], 0))
    alone = counted(SCRIPT, "steady", job.settings["quick_seconds" if job.quick else "seconds"])
    print_table(
        "A leader that is left alone beside busy processors",
        ["seconds", "writes answered", "other leaders"],
        [[alone["seconds"], alone["answered"], alone["failovers"]]],
    )
    verdict.add("false failovers", Check(alone["failovers"], 0))


def take_wiped(job: Job, verdict: Verdict) -> None:
    """Three servers without their disks, and then without etcd's data."""
    found = counted(SCRIPT, "wiped", job.settings["quick_rows" if job.quick else "rows"])
    print_table(
        "All disks emptied, then etcd",
        ["rows", "lost, of three servers twice", "queries", "answers that differ"],
        [[found["rows"], found["lost"], found["queries"], found["differ"]]],
    )
    verdict.add("lost", Check(found["lost"], 0))
    verdict.add("differ", Check(found["differ"], 0))
