"""Servers of one database that die or stop: leaders under writes, all disks, and etcd."""

from __future__ import annotations

from harness.clusters import counted
from harness.processes import Row
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

SCRIPT = "outages.py"


def setting(job: Job, name: str) -> int:
    """A setting, or its quick one."""
    return job.settings[f"quick_{name}" if job.quick else name]


def of_log(log: Row) -> dict[str, Check]:
    """What is asked of a log that was read beside, object by object."""
    counts = ("old_records", "broken_chain", "replaced", "unseen")
    return {name.replace("_", " "): Check(log[name], 0) for name in counts}


def take_log(found: Row, cuts: int, verdict: Verdict) -> None:
    """The log, which was cut meanwhile, and what clients saw of registers."""
    log, histories = found["log"], found["histories"]
    names = ("objects", "terms", "generations", "cuts", "void")
    print_table(
        "The log, read beside, and registers",
        [*names, "registers", "calls", "of unknown outcome"],
        [
            [
                *(log[name] for name in names),
                *(histories[name] for name in ("registers", "operations", "unknown")),
            ]
        ],
    )
    for text in histories["histories"]:
        print(f"no register has this history: {text}")
    for name, check in of_log(log).items():
        verdict.add(name, check)
    verdict.add("cuts", Check(log["cuts"], cuts, at_most=False))
    verdict.add("not linearizable", Check(histories["not_linearizable"], 0))


def take_failover(job: Job, verdict: Verdict) -> None:
    """Three servers, three writers, a reader through a balancer; the leader is killed, often."""
    found = counted(SCRIPT, "failover", setting(job, "kills"))
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
    take_log(found, setting(job, "cuts"), verdict)


def take_fencing(job: Job, verdict: Verdict) -> None:
    """Leaders stopped and let go on; then one that is left alone beside builds."""
    found = counted(SCRIPT, "fencing", setting(job, "runs"))
    resumed = found["resumed_s"]
    print_table(
        "Leaders stopped under writes until another one led, and asked as soon as they went on",
        [
            "runs",
            "log cut beyond them",
            "terms",
            "writes answered",
            "writes refused",
            "strong reads refused",
            "answered after, s",
            "worst, s",
        ],
        [
            [
                found["runs"],
                found["truncated"],
                found["terms"],
                found["answered"],
                found["refused_writes"],
                found["refused_reads"],
                resumed[len(resumed) // 2],
                resumed[-1],
            ]
        ],
    )
    for said, times in found["words"].items():
        print(f"{times} x {said}")
    for name in ("lost", "differ", "stale_reads"):
        verdict.add(name.replace("_", " "), Check(found[name], 0))
    truncated = setting(job, "truncated")
    verdict.add("cut while stopped", Check(found["truncated"], truncated, at_most=False))
    take_log(found, truncated, verdict)
    take_steady(job, verdict)


def take_steady(job: Job, verdict: Verdict) -> None:
    """A leader that nobody stops, beside builds of the command and of the servers."""
    alone = counted("builds.py", setting(job, "seconds"))
    print_table(
        "A leader that is left alone beside builds",
        ["seconds", "writes answered", "indexes built", "graphs of servers", "other leaders"],
        [[alone[of] for of in ("seconds", "answered", "built", "grown", "failovers")]],
    )
    for said, times in alone["said"].items():
        print(f"{times} x {said}")
    verdict.add("false failovers", Check(alone["failovers"], 0))
    verdict.add("failed builds", Check(alone["failed_builds"], 0))
    verdict.add("graphs of servers", Check(alone["grown"], 1, at_most=False))


def take_wiped(job: Job, verdict: Verdict) -> None:
    """Three servers without their disks, then without etcd's data, then without both."""
    found = counted("emptied.py", setting(job, "rows"))
    print_table(
        "All disks emptied, then etcd, then both",
        [
            "rows",
            "generations",
            "the log began with",
            "lost, of three servers each time",
            "queries",
            "answers that differ",
        ],
        [
            [
                found["rows"],
                found["generations"],
                min(found["begins"]),
                found["lost"],
                found["queries"],
                found["differ"],
            ]
        ],
    )
    # What a server without a disk cannot have from the log.
    verdict.add("first object of the log", Check(min(found["begins"]), 2, at_most=False))
    verdict.add("lost", Check(found["lost"], 0))
    verdict.add("differ", Check(found["differ"], 0))
