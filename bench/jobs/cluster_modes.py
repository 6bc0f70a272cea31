"""One graph and the ways that it is compared with: a graph for each server, all or the nearest of them
asked, and one graph whose list stays with whoever asks (DistributedANN)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness import pipeann
from harness.clusters import Servers, apart, serving
from harness.curves import Curve
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cluster import cheapest


def take_cluster_modes(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Pages read by a graph for each server, over those read by one graph."""
    settings, lists = job.settings, job.lists[vectors.name]
    partitions: int = settings["partitions"]
    servers = Servers(partitions, 1, 8)
    curves: dict[str, Curve] = {}
    for partition_by in ("graph", *settings["rival_partition_by"]):
        options = replace(job.build, partitions=partitions, partition_by=partition_by)
        index = pipeann.index_of(vectors, options)
        with serving(index, partitions, servers, separate=True) as cluster:

            def asked(name: str, lists: Sequence[int], policy: list[str]) -> None:
                rows = cluster.search(
                    vectors, lists, in_flight=settings["in_flight"], policy=policy
                )
                curves[name] = Curve.of_rounds(name, [rows])

            if partition_by == "graph" and "relay" not in curves:
                asked("relay", lists, [])
            for width in settings["rival_widths"]:
                for each in settings["rival_results"]:
                    policy = ["--mode", "scatter", "--width", str(width), "--each", str(each)]
                    name = f"scatter, by {partition_by}, width {width}, {each} of each"
                    asked(name, [n for n in settings["rival_lists"] if n >= each], policy)
    columns = ("reads", "hops", "code_distances")
    found = {name: row for name, curve in curves.items() if (row := cheapest(curve, job.recall))}
    print_table(
        f"At {job.recall:g} on {vectors.name}, {partitions} servers; what never finds as much is left out",
        ["mode", "recall", *columns],
        [[name, row["recall"], *(row[column] for column in columns)] for name, row in found.items()],
    )  # fmt: skip
    rival = min(row["reads"] for name, row in found.items() if name != "relay")
    ratio = rival / found["relay"]["reads"]
    verdict.add("reads of scatter over relay", Check(ratio, settings["at_least"], at_most=False))
    index = pipeann.index_of(vectors, replace(job.build, partitions=partitions))
    by_messages(job, vectors, index, verdict)
    nearest(job, vectors, index, verdict)


def counted(job: Job, vectors: VectorSet, index: Path, words: Sequence[str]) -> Curve:
    """Every message of a mode on as many servers as there are partitions, over recall."""
    partitions: int = job.settings["partitions"]
    lists = job.lists[vectors.name]
    rows = pipeann.cluster_counts(index, vectors, lists, [partitions], words)
    return Curve.of_rounds(" ".join(words), [rows])


def by_messages(job: Job, vectors: VectorSet, index: Path, verdict: Verdict) -> None:
    """Messages of DistributedANN over those of relay, its width swept, at the recall."""
    settings = job.settings
    relay = counted(job, vectors, index, ["--mode", "relay"]).row_at(job.recall)
    rows: dict[str, Row] = {"relay": relay}
    for width in settings["distributed_widths"]:
        words = ["--mode", "distributed-ann", "--width", str(width)]
        row = cheapest(counted(job, vectors, index, words), job.recall)
        if row is not None:
            rows[f"distributed-ann, width {width}"] = row
    columns = ("recall", "messages", "rounds", "bytes", "reads", "code_distances", "skew")
    print_table(
        f"At {job.recall:g} on {vectors.name}, {settings['partitions']} servers, every frame counted, "
        "those from and to the client among them",
        ["mode", *columns],
        [[name, *(row[column] for column in columns)] for name, row in rows.items()],
    )
    rivals = {name: row for name, row in rows.items() if name != "relay"}
    fewest = min(rivals, key=lambda name: rivals[name]["messages"])
    ratio = rivals[fewest]["messages"] / relay["messages"]
    least = settings["messages_at_least"]
    verdict.add(f"messages of {fewest} over relay", Check(ratio, least, at_most=False))
    fewest = min(rivals, key=lambda name: rivals[name]["bytes"])
    verdict.add(f"bytes of {fewest} over relay", Check(rivals[fewest]["bytes"] / relay["bytes"]))


def nearest(job: Job, vectors: VectorSet, index: Path, verdict: Verdict) -> None:
    """Pages read and the recall that is reached where only the nearest servers are asked (paper,
    figure 16: of use below 0.95 alone)."""
    settings = job.settings
    partitions: int = settings["partitions"]
    recalls: list[float] = settings["nearest_recalls"]
    separate = apart(index, partitions, partitions)
    words = ["--mode", "scatter", "--separate", str(separate), "--width", "1"]
    table, best = [], {}
    for servers in range(1, partitions + 1):
        curve = counted(job, vectors, index, [*words, "--nearest", str(servers)])
        reads: list[float | str] = []
        for recall in recalls:
            row = cheapest(curve, recall)
            reads.append(row["reads"] if row else "-")
            if row and row["reads"] < best.get(recall, (float("inf"), 0))[0]:
                best[recall] = (row["reads"], servers)
        table.append([servers, 2 * servers, max(row["recall"] for row in curve.rows), *reads])
    relay = counted(job, vectors, index, ["--mode", "relay"])
    at = [cheapest(relay, recall) for recall in recalls]
    of_relay = [row["reads"] if row else "-" for row in at]
    table.append(["relay", "-", max(row["recall"] for row in relay.rows), *of_relay])
    print_table(
        f"Pages read by the nearest servers alone, on {vectors.name}, {partitions} servers, by the "
        "recall that is wanted; the first row's reads where even that finds more",
        ["servers asked", "messages", "most recall", *(f"reads at {recall:g}" for recall in recalls)],
        table,
    )
    for recall, (_, servers) in best.items():
        verdict.add(f"servers to ask for the fewest reads at {recall:g}", Check(servers))
