"""What a query costs: pages read, CPU time."""

from __future__ import annotations

from harness import pipeann, rivals
from harness.curves import Curve, interleave
from harness.pipeann import SearchOptions
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

DEFAULT = "auto"
COLUMNS = ("reads", "bytes_read", "reads_wasted", "cpu_us", "user_us", "sys_us", "mean_us")


def print_curve(curve: Curve, columns: tuple[str, ...] = COLUMNS) -> None:
    """Every row of a curve, the columns it has."""
    shown = [c for c in columns if all(c in row for row in curve.rows)]
    rows = [[row["list"], row["recall"], *(row[c] for c in shown)] for row in curve.rows]
    print_table(curve.name, ["list", "recall", *shown], rows)


def take_reads(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Reads per query at the recall, best of `page` and `pipe`."""
    index = pipeann.index_of(vectors, job.build)
    lists = job.around(vectors.name)
    found: dict[str, float] = {}
    for policy in (DEFAULT, *job.settings["policies"]):
        # Reads are counts: one round decides them.
        rows = pipeann.search(index, vectors, lists, SearchOptions.of(policy))
        curve = Curve.of_rounds(f"{policy} on {vectors.name}", [rows])
        print_curve(curve)
        at = curve.row_at(job.recall)
        bytes_read = at.get("bytes_read", 0.0)
        print(f"{curve.name} at {job.recall}: {at['reads']:.2f} reads, {bytes_read:,.0f} bytes")
        found[policy] = at["reads"]
    # The target is of fixed policies; what the default reads is reported beside.
    by_default = found.pop(DEFAULT)
    verdict.add("reads", Check(min(found.values()), job.settings["reads_at_most"]))
    verdict.add("default", Check(by_default))


def take_cpu(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Process CPU per query on one thread with queries in flight, over hnswlib's."""
    index = pipeann.index_of(vectors, job.build)
    graph = rivals.hnswlib_index(vectors, job.settings["links"], job.settings["ef_construction"])
    lists, efs = job.around(vectors.name), job.around(job.settings["ef"])
    systems = {
        f"{policy} on {vectors.name}": lambda policy=policy: pipeann.search(
            index,
            vectors,
            lists,
            SearchOptions.of(policy, threads=1, in_flight=job.settings["in_flight"]),
        )
        for policy in (DEFAULT, *job.settings["policies"])
    }
    rival = f"hnswlib on {vectors.name}"
    curves = interleave(
        systems | {rival: lambda: rivals.search_hnswlib(graph, vectors, efs)}, job.rounds
    )
    for curve in curves.values():
        print_curve(curve)
    theirs = curves[rival].at("cpu_us", job.recall)
    ours = {name: curves[name].at("cpu_us", job.recall) for name in systems}
    print_table(
        f"CPU per query at {job.recall}",
        ["system", "cpu_us", "over hnswlib"],
        [[name, us, us / theirs] for name, us in (ours | {rival: theirs}).items()],
    )
    # The target is of fixed policies; what the default takes is reported beside.
    by_default = ours.pop(f"{DEFAULT} on {vectors.name}")
    verdict.add("ratio", Check(min(ours.values()) / theirs, job.settings["ratio_at_most"]))
    verdict.add("default", Check(by_default / theirs))
