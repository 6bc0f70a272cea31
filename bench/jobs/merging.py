"""Searches that wait and are done together, beside the same searches each alone."""

from __future__ import annotations

import statistics

from harness import many_clients, servers
from harness.processes import Row
from harness.sets import VectorSet, at_most
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

COLUMNS = ["qps", "p50_ms", "p99_ms", "cpu_us", "refused", "failed"]
MERGE = ("on", "off")


def take_merge(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Rates of many clients and the latency of one, merging on and off in turn."""
    settings = job.settings
    data = many_clients.filled(vectors, at_most(settings["rows"], vectors))
    for memory in settings["memory"]:
        found: dict[tuple[str, int, str], list[Row]] = {}
        for turn in range(job.rounds):
            # Whoever comes second finds the other's pages in the page cache.
            for merge in MERGE if turn % 2 == 0 else MERGE[::-1]:
                with servers.pipeann(data, memory, "--merge", merge) as server:
                    for expression in ("", settings["filter"]):
                        for clients in (1, settings["clients"]):
                            row = ask(job, server, vectors, expression, clients)
                            found.setdefault((expression, clients, merge), []).append(row)
        conclude(job, memory, found, verdict)


def ask(
    job: Job, server: servers.Server, vectors: VectorSet, expression: str, clients: int
) -> Row:
    """One load, after a short one that fills what a server keeps."""
    ef, settings = job.lists[vectors.name][0], job.settings
    words = ["--queries", vectors.queries, "--ef", ef, "--filter", expression]
    many_clients.ask(server, *words, "--clients", 8, "--seconds", settings["warm_s"])
    words += ["--clients", clients, "--seconds", settings["seconds"]]
    return many_clients.ask(server, *words)


def conclude(
    job: Job, memory: str, found: dict[tuple[str, int, str], list[Row]], verdict: Verdict
) -> None:
    """Medians over the rounds, on over off."""
    lines = []
    for (expression, clients, merge), rows in found.items():
        medians = [statistics.median(row[column] for row in rows) for column in COLUMNS]
        lines.append([expression or "no filter", clients, merge, *medians])
        lost = sum(row["refused"] + row["failed"] for row in rows)
        if lost:
            verdict.problems.append(f"{lost} searches of {clients} clients were not answered")
    header = ["", "clients", "merge", *COLUMNS]
    print_table(f"Pages in memory: {memory}", header, lines)
    for expression in ("", job.settings["filter"]):
        for clients, column, name, limit, at_most in (
            (job.settings["clients"], "qps", "qps", job.settings["qps_at_least"], False),
            (1, "p50_ms", "one_p50", job.settings["p50_at_most"], True),
        ):
            on, off = (found[expression, clients, merge] for merge in MERGE)
            # Each round by itself, since the machine changes from one to the next.
            over = [a[column] / b[column] for a, b in zip(on, off, strict=True)]
            check = Check(statistics.median(over), limit, at_most)
            print(f"{name}, {memory}, {expression or 'no filter'}: {check.measured:.3f} of off")
            verdict.add(name, check)
