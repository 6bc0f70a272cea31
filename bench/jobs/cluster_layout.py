"""What it takes to lay an index out in partitions, and what a build under a limit can do of it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness import pipeann, places
from harness.curves import Curve
from harness.processes import Row
from harness.sets import VectorSet, rows_in
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .building import grows
from .catalogue import Job
from .cluster import policy_of

MEBIBYTE = 1 << 20
COSTS = ("cpu_s", "wall_s", "peak_rss_bytes", "disk_bytes", "edges_in_page")


def at_recall(
    job: Job, index: Path, vectors: VectorSet, policy: str, servers: Sequence[int]
) -> list[Row]:
    """What a policy costs at the job's recall on each number of servers."""
    found = pipeann.cluster_counts(
        index, vectors, job.around(vectors.name), servers, policy_of(policy)
    )
    rows = []
    for count in servers:
        of = [row for row in found if row["servers"] == count]
        name = f"{policy} on {count} servers, {index.name}"
        rows.append(Curve.of_rounds(name, [of]).row_at(job.recall))
    return rows


def take_cluster_layout(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Partitions over none: reads, build, disk; then partitions of a build under a limit."""
    with tempfile.TemporaryDirectory(dir=places.cache(), prefix="cluster-layout-") as folder:
        cut = partitions_over_none(job, vectors, Path(folder), verdict)
        under_a_limit(job, vectors, Path(folder), cut, verdict)


@dataclass(frozen=True)
class Built:
    """An index that was built without a limit, and the most that took in memory."""

    index: Path
    peak_bytes: float

    def limit(self, share: float) -> int:
        """Whole MiB of about a share of it."""
        return max(1, round(share * self.peak_bytes / MEBIBYTE))


def partitions_over_none(job: Job, vectors: VectorSet, folder: Path, verdict: Verdict) -> Built:
    """The same rows built into one partition and into some, which are returned."""
    settings = job.settings
    many: int = settings["partitions"]
    table, costs, reads = [], [], []
    for count in (1, many):
        index = folder / f"of-{count}"
        options = replace(job.build, partitions=count, metric=vectors.metric)
        cost = pipeann.build(vectors.base, index, vectors.code_bytes, options)
        (row,) = at_recall(job, index, vectors, settings["width_one"], [1])
        table.append([count, row["reads"], *(cost[column] for column in COSTS)])
        costs.append(cost)
        reads.append(row["reads"])
    print_table(
        f"One server, {settings['width_one']} at {job.recall:g}, {vectors.name}; two builds, one "
        "after the other",
        ["partitions", "reads", *COSTS],
        table,
    )
    one, parts = costs
    verdict.add("reads at width 1", Check(reads[1] / reads[0], settings["reads_at_most"]))
    verdict.add("build CPU", Check(parts["cpu_s"] / one["cpu_s"], settings["cpu_at_most"]))
    disk = parts["disk_bytes"] / one["disk_bytes"]
    verdict.add("disk", Check(disk, settings["disk_at_most"]))
    return Built(folder / f"of-{many}", parts["peak_rss_bytes"])


def under_a_limit(
    job: Job, vectors: VectorSet, folder: Path, cut: Built, verdict: Verdict
) -> None:
    """Partitions by graph within a limit: of a build, and of an index that stands. The most that
    any of them held counts, and the most hops. The limit is that of the job, or a share of what a
    build without one takes of the same rows, so that it is one for every set."""
    settings = job.settings
    many, rows = settings["partitions"], settings["rows"]
    # Of other sets than those of descriptors no more rows can be made.
    rows = rows if rows and grows(vectors) else 0
    chosen = pipeann.grown(vectors, rows) if rows else vectors
    by_graph = replace(
        job.build, partitions=many, partition_by="graph", metric=vectors.metric
    )
    steps: dict[str, Row] = {}
    if rows:
        index = folder / "unlimited"
        cost = pipeann.build(chosen.base, index, chosen.code_bytes, by_graph)
        steps["unlimited"], cut = cost, Built(index, cost["peak_rss_bytes"])
    named: int = settings["memory_mib"] if rows else 0
    mebibytes = named or cut.limit(settings["memory_share"])
    memory = f"{mebibytes}MiB"
    limited, ordered, parted = (folder / name for name in ("limited", "ordered", "parted"))
    steps[f"build under {memory}, by graph"] = pipeann.build(
        chosen.base, limited, chosen.code_bytes, by_graph, memory=memory
    )
    steps[f"build under {memory}, by order"] = pipeann.build(
        chosen.base,
        ordered,
        chosen.code_bytes,
        replace(by_graph, partition_by="order"),
        memory=memory,
    )
    steps["then `pipeann partition` under it, by graph"] = pipeann.partition(
        ordered, parted, many, "graph", job.seed, memory=memory
    )
    print_table(
        f"{rows_in(chosen.base):,} rows of {chosen.name} under {memory}, "
        f"{cut.peak_bytes / MEBIBYTE:,.0f} MiB without a limit; 4,000,000 under 1GiB is asked for, "
        "which --full takes",
        ["", *COSTS],
        [[name, *(cost[column] for column in COSTS)] for name, cost in steps.items()],
    )
    built = {"unlimited": cut.index, "by graph": limited, "by order": ordered}
    built["then parted"] = parted
    hops = {}
    table = []
    for name, index in built.items():
        (row,) = at_recall(job, index, chosen, settings["relay"], [many])
        table.append([name, row["reads"], row["hops"], row["hops_to_entry"]])
        hops[name] = row["hops"]
    print_table(
        f"{settings['relay']} at {job.recall:g} on {many} servers",
        ["built", "reads", "hops", "hops to entry"],
        table,
    )
    peak = max(cost["peak_rss_bytes"] for name, cost in steps.items() if name != "unlimited")
    over = peak / (mebibytes * MEBIBYTE)
    verdict.add("peak over the limit", Check(over, settings["peak_at_most"]))
    for name in ("by graph", "then parted"):
        check = Check(hops[name] / hops["unlimited"], settings["hops_at_most"])
        verdict.add(f"hops over unlimited, {name}", check)
