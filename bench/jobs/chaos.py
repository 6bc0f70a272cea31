"""What fails under load, row by row, and whether what was promised holds meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import cache

from harness import doors, pipeann, processes
from harness.clusters import counted, tests_python
from harness.processes import Row as Found
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cluster_checks import take_cluster_frames
from .outages import of_log

# Kinds of faults of the object store, for so long each.
STORE = "chaos_store.py"
PARTS = "chaos_parts.py"


@dataclass(frozen=True)
class Line:
    """One line of the table: what was done, under which load, what is asked, what was measured."""

    what: str
    load: str
    asked: str
    checks: dict[str, Check]
    # What was measured and is not judged.
    beside: str = ""

    @property
    def holds(self) -> bool:
        """Whether all of it is as asked."""
        return all(check.holds for check in self.checks.values())

    def text(self) -> str:
        """As it is printed."""
        measured = [f"{name} {short(check.measured)}" for name, check in self.checks.items()]
        if self.beside:
            measured.append(self.beside)
        cells = [self.what, self.load, self.asked, ", ".join(measured)]
        return " | ".join([*cells, "holds" if self.holds else "short"])


def short(number: float) -> str:
    """A count as it is, anything else with three digits."""
    return f"{number:.0f}" if number >= 1000 else f"{number:.3g}"


def at_most(limit: float, found: Found, *names: str) -> dict[str, Check]:
    """Counts that have the same limit."""
    return {name.replace("_", " "): Check(found[name], limit) for name in names}


def at_least_one(**counts: float) -> dict[str, Check]:
    """What has to have happened: where nothing failed, or nobody asked, nothing is proved."""
    checks = {name: Check(count, 1, at_most=False) for name, count in counts.items()}
    return {name.replace("_", " "): check for name, check in checks.items()}


@contextmanager
def with_package() -> Iterator[None]:
    """Has scripts find the package as it is shipped before that of the environment of the tests,
    which is not optimised and asks for less."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(doors.package()), before]))
    try:
        yield
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def chaos(what: str, count: int, script: str = "chaos.py") -> Found:
    """What a script of the tests counted; its environment has what stands in for S3."""
    found = counted(script, what, count, python=tests_python())
    for text in [*found.get("said", {}), *found.get("words", {})]:
        print(f"    {what}: {text}")
    return found


def take_follower_killed(job: Job) -> Line:
    """Servers that do not lead, killed while others read."""
    found = chaos("follower", job.settings["followers"])
    calm = found["calm_p99_s"]
    return Line(
        "kill -9 of a follower",
        "50%",
        "0 errors, p99 of the others' clients at most 3 times for at most 2 s",
        {
            "errors": Check(found["failed"], 0),
            **at_least_one(reads_in_each_2_s=found["reads_at_once"]),
            "p99 of 2 s over calm": Check(found["at_once_p99_s"] / calm, 3),
            "p99 later over calm": Check(found["later_p99_s"] / calm, 2),
        },
        f"{found['reads']} reads, {found['rate']:.0f}/s, calm p99 {calm * 1e3:.1f} ms; own clients"
        f" by a balancer: p99 {found['own_p99_s'] * 1e3:.0f} ms,"
        f" worst {found['own_worst_s'] * 1e3:.0f}",
    )


@cache
def leaders_killed(kills: int) -> Found:
    """Counted once, for what two rows say of it."""
    return counted("outages.py", "failover", kills, "--load", python=tests_python())


def of_registers(found: Found) -> dict[str, Check]:
    """The log, read object by object, and what clients saw of registers."""
    histories = found["histories"]
    for text in histories["histories"]:
        print(f"    no register has this history: {text}")
    wrong = Check(histories["not_linearizable"], 0)
    return of_log(found["log"]) | {"not linearizable": wrong}


def take_leader_killed(job: Job) -> Line:
    """Leaders killed while others write."""
    found = leaders_killed(job.settings["leaders"])
    return Line(
        f"kill -9 of a leader, {found['kills']} rounds",
        "50%, 3 writers, 3 clients of registers",
        "no row lost, all servers equal, the log whole, writes again within 5 s",
        at_most(0, found, "lost", "differ", "keys_twice", "rows_twice")
        | of_registers(found)
        | at_least_one(cuts_of_the_log=found["log"]["cuts"])
        | {"writes again, s": Check(found["again_s"][-1], 5)},
        f"{found['answered']} writes",
    )


def take_edge_killed(job: Job) -> Line:
    """What clients see of it: those of the server that was killed, and those of a balancer."""
    found = leaders_killed(job.settings["leaders"])
    return Line(
        "promise 17: a killed edge",
        "50%, 3 writers, 3 clients of registers",
        "through a balancer no read fails",
        at_most(0, found, "failed_reads") | at_least_one(reads=found["reads"]),
        f"apart: {found['failed_writes']} writes by clients of the killed",
    )


def take_leader_stopped(job: Job) -> Line:
    """Leaders that stand still beyond their lease, and go on."""
    stopped = job.settings["stopped"]
    found = counted("outages.py", "fencing", stopped, "--load", python=tests_python())
    for text in [*found["words"], *found["load_words"]]:
        print(f"    stopped: {text}")
    return Line(
        f"SIGSTOP of a leader beyond its lease, SIGCONT, {found['runs']} runs",
        "50%, 3 writers, 3 clients of registers",
        "0 records of the old term, no row lost; its clients are answered or told to try again",
        at_most(0, found, "lost", "differ", "stale_reads")
        | of_registers(found)
        | at_least_one(cuts_of_the_log=found["log"]["cuts"], cut_beyond_it=found["truncated"]),
        "told to try again:"
        f" {found['refused_reads']} of its first reads, {found['refused_writes']} of its writes;"
        f" {found['load_reads']} reads beside, {found['load_failed']} of them failed",
    )


def take_part_gone(job: Job) -> Line:
    """A server of one graph in parts that is killed and comes back."""
    with with_package():
        found = chaos("gone", job.settings["parts"], PARTS)
    return Line(
        "partitions gone, one owner",
        "50%",
        "no hang, coverage below 1 told, errors name it, back within 2 s",
        {
            "longest over its time": Check(found["longest_s"] / found["timeout_s"], 1.2),
            **at_least_one(partial_answers_meanwhile=found["lacking"], refused=found["errors"]),
            **at_most(0, found, "failed_partial", "unnamed", "wrong", "errors_without_a_name"),
            "back after, s": Check(found["back_s"], 2),
        },
        f"{found['queries']} queries",
    )


def take_states_lost(job: Job) -> Line:
    """Connections between servers cut, with what is on them."""
    with with_package():
        found = chaos("lost", job.settings["lost_s"], PARTS)
    return Line(
        "states lost in flight, 1 in 1,000 and its connection",
        "50%",
        "0 wrong, 0 errors, again within 2 times p95",
        at_most(0, found, "wrong", "errors")
        | at_least_one(cuts=found["cuts"], begun_again=found["again"])
        | {"again after, over p95": Check(found["again_p99_s"] / found["calm_p95_s"], 2)},
        f"{found['queries']} queries; of those begun again half"
        f" within {found['again_p50_s'] * 1e3:.1f} ms, p99 {found['again_p99_s'] * 1e3:.0f} ms",
    )


def take_slow_server(job: Job) -> Line:
    """One device that is ten times as slow."""
    found = chaos("slow", job.settings["slow_s"])
    usual, one = found["usual"], found["one"]
    return Line(
        "the device of one server 10 times as slow",
        "50%",
        "p99 at most 2 times with at most 5% of reads hedged",
        {
            "errors": Check(one["failed"], 0),
            "p99 over usual": Check(one["p99_s"] / usual["p99_s"], 2),
            "servers that hedge": Check(one["hedging"], 3, at_most=False),
            "hedged": Check(one["hedges"] / one["reads"], 0.05),
        },
        f"{one['reads']} reads, usual p99 {usual['p99_s'] * 1e3:.1f} ms",
    )


def take_etcd_gone(job: Job) -> Line:
    """The majority of etcd away for longer than leases."""
    found = chaos("etcd", job.settings["etcd_s"])
    return Line(
        f"two of etcd's three gone {found['seconds']} s, the one that led is left",
        "50%",
        "reads 100%, writes and changes of names until the lease ends, then refused by name",
        {
            **at_most(0, found, "failed_reads", "lost", "unnamed"),
            "writes until, s": Check(found["writes_until_s"], 4.5),
            "names until, s": Check(found["names_until_s"], 4.5),
            **at_least_one(
                reads=found["reads"],
                refused_writes=found["refused_writes"],
                refused_names=found["refused_names"],
            ),
        },
        f"{found['writes_meanwhile']} writes meanwhile,"
        f" again after {found['again_s']:.1f} s",
    )


def take_rolling_restart(job: Job) -> Line:
    """Servers ended in order and started again, in turn: an upgrade to the same version."""
    same = pipeann.program()
    words = ["upgrade", job.settings["restarts"], "--before", same, "--load"]
    found = counted("upkeep.py", *words, python=tests_python())
    return Line(
        f"rolling restart, {found['exchanged']} servers",
        "50%, 2 writers",
        "0 errors",
        at_most(0, found, "failed_writes", "failed_reads", "lost", "differ", "codes"),
        f"{found['writes']} writes, {found['reads']} reads",
    )


def take_overload(job: Job) -> Line:
    """Three times as many reads as can be answered."""
    found = chaos("overload", job.settings["overload_s"])
    return Line(
        "3 times overload",
        "300%",
        "goodput at least 80% of the best, memory within the limit",
        {
            "goodput over best": Check(found["goodput"] / found["best"], 0.8, at_most=False),
            "memory over limit": Check(found["memory"] / found["limit"], 1),
        },
        f"best {found['best']:.1f}/s of {found['vectors']} vectors each,"
        f" {found['asked']:.1f}/s asked for, {found['failed']} refused or late",
    )


def take_frames(job: Job) -> Line:
    """Bytes of messages flipped, cut and repeated."""
    verdict = Verdict()
    settings = {"seconds": job.settings["fuzz_s"]}
    take_cluster_frames(replace(job, settings=settings), verdict)
    checks = {name: found[0] for name, found in verdict.checks.items()}
    if verdict.problems:
        checks["problems"] = Check(len(verdict.problems), 0)
    return Line(
        "every byte of every frame flipped, cut, repeated",
        "-",
        "refused, bytes allocated within the bound",
        checks,
    )


def take_store_gone(job: Job) -> Line:
    """The object store away."""
    found = chaos("gone", job.settings["store_gone_s"], STORE)
    return Line(
        f"promise 18: the store gone {found['seconds']} s",
        "50%, 3 writers",
        "reads of local data go on, writes refused by name, nothing lost",
        {
            **at_most(0, found, "failed_reads", "lost", "twice", "differ", "unnamed"),
            **at_least_one(
                faults=found["faults"], refused=found["refused"], local_reads=found["reads"]
            ),
        },
        f"bounded by 5 s: {found['bounded_reads']} answered,"
        f" {found['failed_bounded']} refused; writes again after {found['again_s']:.1f} s",
    )


def goes_on(what: str, found: Found) -> Line:
    """A store that is not as it should be, and writes go on."""
    return Line(
        f"promise 18: {what}",
        "50%, 3 writers",
        "slow writes, none refused, no other leader, nothing lost, nothing twice",
        {
            **at_most(0, found, "refused", "elections", "lost", "twice", "differ"),
            **at_most(0, found, "failed_reads", "failed_bounded"),
            **at_least_one(faults=found["faults"], local_reads=found["reads"]),
        },
        f"{found['written']} writes, p50 {found['write_p50_s']:.2f} s,"
        f" worst {found['write_worst_s']:.1f} s",
    )


def take_store_slow(job: Job) -> Line:
    """Each request takes a second more."""
    found = chaos("slow", job.settings["store_s"], STORE)
    return goes_on("the store a second slower", found)


def take_store_refuses(job: Job) -> Line:
    """One request in ten is refused."""
    found = chaos("refuses", job.settings["store_s"], STORE)
    return goes_on("503 to one request in ten", found)


def take_store_lies(job: Job) -> Line:
    """One put in four is done, and answered with an error or not at all."""
    found = chaos("lies", job.settings["store_s"], STORE)
    return goes_on("500 or silence after a put that was done, one in four", found)


ROWS: tuple[Callable[[Job], Line], ...] = (
    take_follower_killed,
    take_leader_killed,
    take_leader_stopped,
    take_part_gone,
    take_states_lost,
    take_slow_server,
    take_etcd_gone,
    take_rolling_restart,
    take_overload,
    take_frames,
    take_edge_killed,
    take_store_gone,
    take_store_slow,
    take_store_refuses,
    take_store_lies,
)


def take_chaos(job: Job, verdict: Verdict) -> None:
    """All rows, or those that are asked for."""
    print("what | load | asked | measured | holds")
    for row in ROWS:
        name = row.__name__.removeprefix("take_")
        if job.only and not any(fnmatch(name, wanted) for wanted in job.only.split(",")):
            continue
        try:
            line = row(job)
        except (Exception, SystemExit) as reason:
            # Whatever ends one row, hours of others are not to be lost.
            print(f"{name} | - | - | {type(reason).__name__}: {reason} | short")
            verdict.problems.append(f"{name} did not come to its end")
            processes.end_started()
            continue
        print(line.text())
        for said, check in line.checks.items():
            verdict.add(f"{name}: {said}", check)
