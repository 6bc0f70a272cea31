"""Servers that hold the same rows beside one server: what they cost, and how far behind they are."""

from __future__ import annotations

from harness.clusters import counted
from harness.sets import VectorSet, at_most
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

SCRIPT = "copies.py"


def rows_of(job: Job, vectors: VectorSet) -> list[object]:
    """Rows for a script, and how they are compared."""
    return [vectors.base, at_most(job.settings["rows"], vectors), "--metric", vectors.metric]


def take_replicas(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Processor time of a search and lag, without writers and beside them."""
    settings = job.settings
    words = ["--queries", settings["search_queries"], "--rate", settings["rate"]]
    found = counted(SCRIPT, "replicas", *rows_of(job, vectors), *words)
    one, three = found["1"], found["3"]
    print_table(
        f"{found['rows']} rows of {vectors.name}",
        [
            "servers",
            "us a search",
            "beside writers",
            "rows/s",
            "growing rows then",
            "us a row written",
            "cores at rest",
            "lag p99, ms",
            "beside writers p50",
            "and p99",
        ],
        [
            [
                servers,
                row["quiet_us"],
                row["busy_us"],
                row["rows_s"],
                row["growing"],
                row["row_us"],
                row["idle_cores"],
                row["quiet_lag_s"] * 1e3,
                row["lag_middle_s"] * 1e3,
                row["lag_s"] * 1e3,
            ]
            for servers, row in ((1, one), (3, three))
        ],
    )
    for what in ("quiet", "busy"):
        each = zip(one[f"{what}_each_us"], three[f"{what}_each_us"], strict=True)
        print(f"{what}, round by round, us: " + ", ".join(f"{a:.0f} and {b:.0f}" for a, b in each))
    quiet, busy = (three[of] / one[of] for of in ("quiet_us", "busy_us"))
    unseen = three["own_asked"] - three["own_seen"]
    print(f"{three['own_asked']} own writes were asked for by another server")
    verdict.add("own writes not seen", Check(unseen, 0))
    verdict.add("processor time over one", Check(quiet, settings["quiet"]))
    verdict.add("beside writers", Check(busy, settings["busy"]))
    verdict.add("lag, s", Check(three["lag_s"], settings["lag_s"]))


def take_cluster_ingest(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Writes beside reads, for long."""
    settings = job.settings
    words = [*rows_of(job, vectors), "--seconds", settings["seconds"]]
    if after := settings["generation_after"]:
        words += ["--generation-after", after]
    found = counted(SCRIPT, "ingest", *words)
    one, three = found["1"], found["3"]
    print_table(
        f"{found['seconds']:.0f} s of writes and reads on {vectors.name}",
        [
            "servers",
            "rows/s",
            "acknowledged p50, ms",
            "p99",
            "reads",
            "p50, ms",
            "p99 at first",
            "p99 at last",
            "cores at rest",
            "put over rows' size",
            "generations",
        ],
        [
            [
                servers,
                row["rows_s"],
                row["ack_p50_s"] * 1e3,
                row["ack_p99_s"] * 1e3,
                row["reads"],
                row["read_p50_s"] * 1e3,
                row["read_p99_first_s"] * 1e3,
                row["read_p99_last_s"] * 1e3,
                row["idle_cores"],
                row.get("put_over_size"),
                row.get("generations"),
            ]
            for servers, row in ((1, one), (3, three))
        ],
    )
    rate = three["rows_s"] / one["rows_s"]
    later = three["read_p99_last_s"] / three["read_p99_first_s"]
    verdict.add("rows/s over one server's", Check(rate, settings["rate_least"], at_most=False))
    verdict.add("p99 of reads over that at first", Check(later, settings["later"]))
    verdict.add("bytes put for each of a row", Check(three["put_over_size"], settings["put"]))
    # Without one these were the bytes of the log alone.
    verdict.add("generations", Check(three["generations"], 1, at_most=False))
