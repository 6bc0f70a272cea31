"""One graph and the ways that it is compared with: a graph for each server, all or the nearest of them
asked, and one graph whose list stays with whoever asks (DistributedANN). All of it is counted in one
process, every frame with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness import pipeann
from harness.clusters import apart
from harness.curves import Curve
from harness.plots import Panel, Points, draw
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cluster import cheapest
from .cluster_rivals import Kept, at_best, kept_at, swept


def take_cluster_modes(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Pages read by a graph for each server, asked in the way that is cheapest for it, over those read
    by one graph."""
    settings = job.settings
    partitions: int = settings["partitions"]

    def index_by(partition_by: str) -> Path:
        options = replace(job.build, partitions=partitions, partition_by=partition_by)
        return pipeann.index_of(vectors, options)

    index = index_by("graph")
    relay = counted(job, vectors, index, ["--mode", "relay"]).row_at(job.recall)
    ours = {"as it comes": relay}
    ours |= {way: searched_by(job, vectors, index, way) for way in settings["relay_ways"]}
    print_table(
        f"relay at {job.recall:g} on {vectors.name}, {partitions} servers: width and look-ahead",
        ["", "recall", "reads", "messages", "bytes"],
        [
            [way, *(row[column] for column in ("recall", "reads", "messages", "bytes"))]
            for way, row in ours.items()
        ],
    )
    found = swept(vectors, index_by, partitions, settings["scatter"], job.recall)
    rival = at_best(f"{vectors.name}, {partitions} servers", found, job.recall)
    if rival is None:
        verdict.problems.append(f"no way of scatter finds {job.recall:g} on {vectors.name}")
    else:
        reads = reaching(rival.curve, job.recall)["reads"]
        # Both at their fewest reads, whatever else that costs them.
        least = min(row["reads"] for row in ours.values())
        ratio = Check(reads / least, settings["at_least"], at_most=False)
        verdict.add(f"reads of scatter ({rival.way.name}) over relay's fewest", ratio)
        verdict.add("those over relay's as it comes", Check(reads / relay["reads"]))
    by_messages(job, vectors, index, verdict)
    nearest(job, vectors, index, verdict)


def searched_by(job: Job, vectors: VectorSet, index: Path, way: str) -> Row:
    """relay with a width and a look-ahead, as `1:4`."""
    width, ahead = way.split(":")
    words = ["--mode", "relay", "--width", width, "--ahead", ahead]
    return counted(job, vectors, index, words).row_at(job.recall)


def reaching(curve: Curve, recall: float) -> Row:
    """A curve at a recall that it reaches."""
    row = cheapest(curve, recall)
    assert row is not None
    return row


def counted(job: Job, vectors: VectorSet, index: Path, words: Sequence[str]) -> Curve:
    """Every message of a mode on as many servers as there are partitions, over recall."""
    partitions: int = job.settings["partitions"]
    lists = job.around(vectors.name)
    rows = pipeann.cluster_counts(index, vectors, lists, [partitions], words)
    return Curve.of_rounds(" ".join(words), [rows])


def by_messages(job: Job, vectors: VectorSet, index: Path, verdict: Verdict) -> None:
    """Messages of DistributedANN over those of relay, its width swept in both of its ways, at the
    recall. As its paper has it, with one record of each page, it is held against the limit; what it
    sends where it uses whole pages and stops early, as relay does, is told beside."""
    settings = job.settings
    relay = counted(job, vectors, index, ["--mode", "relay"]).row_at(job.recall)
    lists, widths = job.around(vectors.name), settings["distributed_widths"]
    rivals = kept_at(vectors, index, settings["partitions"], widths, lists, job.recall)
    rows = {"relay": relay, **{way.name: row for way, row in rivals.items()}}
    columns = ("recall", "messages", "rounds", "bytes", "reads", "code_distances", "skew")
    print_table(
        f"At {job.recall:g} on {vectors.name}, {settings['partitions']} servers, every frame counted, "
        "those from and to the client among them",
        ["mode", *columns],
        [[name, *(row[column] for column in columns)] for name, row in rows.items()],
    )

    def fewest(column: str, ways: Sequence[Kept]) -> tuple[str, float]:
        best = min(ways, key=lambda way: rivals[way][column])
        return f"{column} of {best.name} over relay", rivals[best][column] / relay[column]

    paper = [way for way in rivals if not way.packed]
    packed = [way for way in rivals if way.packed]
    if paper:
        held, ratio = fewest("messages", paper)
        verdict.add(held, Check(ratio, settings["messages_at_least"], at_most=False))
    else:
        verdict.problems.append(f"DistributedANN finds {job.recall:g} in no way of its paper")
    for column, ways in (("messages", packed), ("bytes", packed), ("bytes", paper)):
        if ways:
            name, ratio = fewest(column, ways)
            verdict.add(name, Check(ratio))


def nearest(job: Job, vectors: VectorSet, index: Path, verdict: Verdict) -> None:
    """Pages read and the recall that is reached where only the nearest servers are asked (paper,
    figure 16: of use below 0.95 alone)."""
    settings = job.settings
    partitions: int = settings["partitions"]
    recalls: list[float] = settings["nearest_recalls"]
    separate = apart(index, partitions, partitions)
    words = ["--mode", "scatter", "--separate", str(separate), "--width", "1"]
    table, best = [], {}
    plotted: dict[str, Points] = {}
    for servers in range(1, partitions + 1):
        curve = counted(job, vectors, index, [*words, "--nearest", str(servers)])
        plotted[f"the nearest {servers}"] = [(row["recall"], row["reads"]) for row in curve.rows]
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
    plotted["relay"] = [(row["recall"], row["reads"]) for row in relay.rows]
    if job.plots is not None:
        path = job.plots / f"cluster-nearest-{vectors.name}.svg"
        title = f"The nearest servers alone, {partitions} servers, {vectors.name}"
        draw(path, title, "recall@10", [Panel("reads a query", plotted)], recalls[0])
    for recall, (_, servers) in best.items():
        verdict.add(f"servers to ask for the fewest reads at {recall:g}", Check(servers))
