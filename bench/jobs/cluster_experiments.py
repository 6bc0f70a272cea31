"""The experiments of the paper on BatANN that counts answer, with its own numbers beside ours.

Each is a function that takes what it counts from a `Bench`, prints a table and draws a figure where a
folder is named. Counts are exact. Nothing here is a time, and nothing is projected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import pipeann
from harness.curves import Curve
from harness.plots import Panel, Points, draw
from harness.processes import Row
from harness.runs import noted
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cluster import cheapest, policy_of
from .cluster_rivals import Scattered, at_best, swept, swept_settings

# BatANN at recall@10 0.95, a billion rows and ten servers unless it says otherwise.
PAPER_SHARES = {2: None, 3: 0.116, 5: 0.1734, 7: 0.2122, 10: 0.243}
PAPER_HOPS = {1: (138.6, 0.219), 8: (32.5, 0.188), 64: (9.3, 0.305)}


@dataclass(frozen=True)
class Bench:
    """A job on a set: what it counts, and where figures go."""

    job: Job
    vectors: VectorSet

    @property
    def servers(self) -> int:
        """The most servers, each of which has one partition."""
        return int(self.job.settings["partitions"])

    def index(self, partitions: int, partition_by: str = "graph") -> Path:
        """The one graph in other partitions."""
        mother = replace(self.job.build, partitions=self.servers)
        options = replace(mother, partitions=partitions, partition_by=partition_by)
        return pipeann.partitioned(self.vectors, options, mother)

    def counts(
        self,
        policy: str,
        *,
        servers: int | None = None,
        lists: Sequence[int] | None = None,
        partition_by: str = "graph",
        k: int = 10,
        more: Sequence[str] = (),
    ) -> Curve:
        """What a policy reads and sends, on so many servers with a partition each."""
        count = servers or self.servers
        # One server reads the same pages whatever the partitions, but for how they are packed.
        index = self.index(self.servers if count == 1 else count, partition_by)
        chosen = lists or self.job.around(self.vectors.name)
        # The paper's search begins as in the paper.
        begin = "round-robin" if policy.startswith("baton") else "entry"
        words = [*policy_of(policy), "--begin", begin, *more]
        found = pipeann.cluster_counts(index, self.vectors, chosen, [count], words, k)
        rows = [row | {"crossed": row["hops"] + row["hops_to_entry"]} for row in found]
        return Curve.of_rounds(f"{policy} on {count} servers", [rows])

    def modes(self, words: Sequence[str], lists: Sequence[int], k: int = 10) -> Curve:
        """What a mode reads and sends, every frame counted."""
        rows = pipeann.cluster_counts(
            self.index(self.servers), self.vectors, lists, [self.servers], ["--mode", *words], k
        )
        # A query of one graph has a message to its asker and one from there beside its hops.
        rows = [row | {"crossed": row["messages"] - 2} for row in rows]
        return Curve.of_rounds(" ".join(words), [rows])

    def orchestrated(self, lists: Sequence[int], k: int = 10) -> dict[str, Curve]:
        """DistributedANN by its width."""
        return {
            f"DistributedANN, W = {width}": self.modes(
                ["distributed-ann", "--width", str(width)], lists, k
            )
            for width in self.job.settings["distributed_widths"]
        }

    def at_recall(self, curve: Curve, verdict: Verdict) -> Row:
        """A curve of ours at the recall; an empty row, which is noted, where no list finds it."""
        row = cheapest(curve, self.job.recall)
        if row is None:
            verdict.problems.append(
                f"{curve.name} never finds {self.job.recall:g} of {self.vectors.name}"
            )
        return row or {}

    def scattered(
        self,
        servers: int,
        *,
        lists: Sequence[int] | None = None,
        each: Sequence[int] | None = None,
        k: int = 10,
    ) -> Scattered | None:
        """A graph for each server in the way that is cheapest for it, after a table of all ways;
        none where none finds as much. Lists and results of each are those of cluster-modes unless
        given."""
        title = f"{self.vectors.name}, {servers} servers, k = {k}"
        settings = swept_settings(self.job.quick)["scatter"]
        found = swept(
            self.vectors,
            lambda how: self.index(servers, how),
            servers,
            settings,
            self.job.recall,
            lists=lists,
            each=each,
            k=k,
        )
        return at_best(title, found, self.job.recall)

    def draw(self, name: str, title: str, axis: str, panels: Sequence[Panel], left: float) -> None:
        """A figure, where a folder is named for them."""
        if self.job.plots is not None:
            path = self.job.plots / f"cluster-{name}-{self.vectors.name}.svg"
            draw(path, f"{title}, {self.vectors.name}", axis, panels, left)

    def draw_by_recall(
        self, name: str, title: str, curves: Mapping[str, Curve], columns: Mapping[str, str]
    ) -> None:
        """A panel for each column, with every curve over recall from the job's least."""
        least: float = self.job.settings["plotted_from"]
        panels = [
            Panel(label, {curve: points(rows, column, least) for curve, rows in curves.items()})
            for column, label in columns.items()
        ]
        self.draw(name, title, "recall@10", panels, least)


def points(curve: Curve, column: str, least: float) -> Points:
    """A column over recall, from a recall on."""
    return [(row["recall"], row[column]) for row in curve.rows if row["recall"] >= least]


def head_index(bench: Bench, verdict: Verdict) -> None:
    """Figure 3: searches that begin at the head index's best entry and at the medoid, by list."""
    lists = bench.job.settings["head_lists"]
    table = []
    for policy in ("baton:1:1", "baton:64:64"):
        ways = {}
        for way in ("on", "off"):
            more = ["--switches", f"head={way}"]
            curve = bench.counts(policy, lists=lists, more=more)
            ways[way] = sorted(curve.rows, key=lambda row: row["list"])
        for on, off in zip(ways["on"], ways["off"], strict=True):
            table.append(
                [policy.split(":")[1], on["list"], off["recall"], on["recall"]]
                + [off["reads"], on["reads"], on["reads"] / off["reads"]]
                + [off["crossed"], on["crossed"], on["crossed"] / off["crossed"]]
            )
    columns = ["W", "list", "recall, off", "on", "reads, off", "on", "over off"]
    columns += ["hops between servers, off", "on", "over off"]
    print_table(
        f"Head index (paper, figure 3: less than half the hops of both kinds at lists of 10 to 50, "
        f"little at 400 to 1,600), {bench.servers} servers, {bench.vectors.name}",
        columns,
        table,
    )
    draw_head_index(bench, table)
    verdict.add("reads with the head index over without, shortest list", Check(table[0][6]))


def draw_head_index(bench: Bench, table: Sequence[Sequence[Any]]) -> None:
    """What is left of reads and hops with the head index, from the rows of its table."""

    def shares(column: int) -> dict[str, Points]:
        widths = dict.fromkeys(row[0] for row in table)
        return {
            f"W = {width}": [(row[1], row[column]) for row in table if row[0] == width]
            for width in widths
        }

    panels = [
        Panel("reads with the head index over those without", shares(6)),
        Panel("hops between servers, the same", shares(9)),
    ]
    bench.draw("head-index", f"Head index, {bench.servers} servers", "candidate list", panels, 0.0)


def over(row: Row, column: str, other: Row, of: str | None = None) -> float | None:
    """A column over the same or another one of some row, where both are there."""
    measured, by = row.get(column), other.get(of or column)
    return measured / by if measured is not None and by else None


def by_servers(bench: Bench, verdict: Verdict) -> None:
    """Figure 4: best-first search, W = 1, on more and more servers, each cut for its own number."""
    curves = {count: bench.counts("baton:1:1", servers=count) for count in PAPER_SHARES}
    table = []
    for count, curve in curves.items():
        row = bench.at_recall(curve, verdict)
        share, all_share = over(row, "hops", row, "reads"), over(row, "crossed", row, "reads")
        shown = [row.get("reads"), row.get("hops"), share, all_share]
        table.append([count, *shown, PAPER_SHARES[count]])
        if share is not None:
            verdict.add(f"share of hops that cross, {count} servers", Check(share))
    print_table(
        f"Best-first search at {bench.job.recall:g}, {bench.vectors.name} (paper, figure 4)",
        ["servers", "hops", "between servers", "share", "with the one to the entry", "paper"],
        table,
    )
    named = {f"{count} servers": curve for count, curve in curves.items()}
    columns = {"reads": "hops a query (a read each)", "hops": "of them between servers"}
    bench.draw_by_recall("servers", "Best-first search, W = 1", named, columns)


def by_width(bench: Bench, verdict: Verdict) -> None:
    """Figures 5 and 6: the paper's search by its width, and ours."""
    curves = {f"W = {width}": bench.counts(f"baton:{width}:{width}") for width in PAPER_HOPS}
    curves["relay(2, 8)"] = bench.counts(bench.job.settings["relay"])
    table = []
    for width, (name, curve) in zip([*PAPER_HOPS, None], curves.items(), strict=True):
        row = bench.at_recall(curve, verdict)
        hops, share = PAPER_HOPS[width] if width is not None else (None, None)
        crossed = hops * share if hops is not None and share is not None else None
        columns = ("reads", "code_distances", "hops", "crossed")
        table.append([name, *(row.get(column) for column in columns), hops, crossed])
        if row:
            verdict.add(f"hops between servers, {name}", Check(row["hops"]))
    print_table(
        f"By width at {bench.job.recall:g} on {bench.servers} servers, {bench.vectors.name} "
        "(paper, figures 5 and 6; its hops are rounds, which are reads where W = 1 alone)",
        ["", "reads", "code distances", "hops between servers", "with the one to the entry"]
        + ["paper: hops", "between servers"],
        table,
    )
    drawn = {
        "hops": "hops between servers",
        "reads": "reads a query",
        "code_distances": "distances by codes",
    }
    bench.draw_by_recall("width", f"{bench.servers} servers, by width", curves, drawn)


def by_system(bench: Bench, verdict: Verdict) -> None:
    """Figure 11: distances and reads of one graph, of one whose list is kept by its asker, and of a
    graph for each server in the way that is cheapest for it."""
    settings, counts = bench.job.settings, bench.job.settings["servers"]
    curves = {
        f"{name}, {count} servers": bench.counts(settings[policy], servers=count)
        for name, policy in (("relay(2, 8)", "relay"), ("baton(64)", "baton"))
        for count in counts
    }
    lists = bench.job.around(bench.vectors.name)
    for name, curve in bench.orchestrated(lists).items():
        curves[f"{name}, {bench.servers} servers"] = curve
    for count in counts:
        if count > 1:
            found = bench.scattered(count)
            if found is not None:
                curves[f"scatter, {count} servers: {found.way.name}"] = found.curve
    rows = {
        name: bench.at_recall(curve, verdict)
        if name.startswith("relay")
        else cheapest(curve, bench.job.recall) or {}
        for name, curve in curves.items()
    }
    one = rows["relay(2, 8), 1 servers"]
    table = [
        [name, row.get("recall"), row.get("reads"), over(row, "reads", one)]
        + [row.get("code_distances"), over(row, "code_distances", one)]
        for name, row in rows.items()
    ]
    print_table(
        f"Reads and distances at {bench.job.recall:g}, {bench.vectors.name} (paper, figure 11: "
        "those of scatter-gather grow with the servers, those of one graph hardly)",
        ["", "recall", "reads", "over relay on one", "code distances", "over relay on one"],
        table,
    )
    columns = {"reads": "reads a query", "code_distances": "distances by codes"}
    plotted = {name.partition(":")[0]: curve for name, curve in curves.items()}
    bench.draw_by_recall("systems", "One graph and many", plotted, columns)
    relay = rows[f"relay(2, 8), {bench.servers} servers"]
    for name, row in rows.items():
        ratio = over(row, "reads", relay)
        if name.startswith(f"scatter, {bench.servers} ") and ratio is not None:
            verdict.add("reads of scatter over relay", Check(ratio))


def by_results(bench: Bench, verdict: Verdict) -> None:
    """Figure 13: more results. What each costs there is told as a rate, here as counts."""
    table: list[list[Any]] = []
    plotted: dict[str, list[tuple[float, float]]] = {}
    for text, lists in bench.job.settings["lists_of_results"].items():
        k, one = int(text), bench.job.around(lists["one"])
        found = {
            "relay(2, 8)": bench.counts(bench.job.settings["relay"], lists=one, k=k),
            "relay, as far ahead as by default": bench.modes(["relay"], one, k),
            "baton(64)": bench.counts(bench.job.settings["baton"], lists=one, k=k),
            **bench.orchestrated(one, k),
        }
        rival = bench.scattered(
            bench.servers, lists=lists.get("scatter"), each=lists.get("each"), k=k
        )
        if rival is not None:
            found[f"scatter: {rival.way.name}"] = rival.curve
        rows = {name: cheapest(curve, bench.job.recall) for name, curve in found.items()}
        relay = bench.at_recall(found["relay(2, 8)"], verdict)
        for name, row in rows.items():
            if row is None or not relay:
                table.append([k, name, found[name].rows[-1]["recall"], *([None] * 5)])
                continue
            ratio = row["reads"] / relay["reads"]
            crossed = row["crossed"] if name.startswith(("relay", "baton")) else None
            shown = [row["list"], row["reads"], ratio, row["code_distances"], crossed]
            table.append([k, name, row["recall"], *shown])
            short = name.partition(":")[0]
            plotted.setdefault(short, []).append((math.log10(k), row["reads"]))
            if short == "scatter":
                verdict.add(f"reads of scatter over relay, k = {k}", Check(ratio))
    print_table(
        f"By results at recall@k {bench.job.recall:g} on {bench.servers} servers, "
        f"{bench.vectors.name} (paper, figure 13: the order of systems is the same for every k); "
        "hops are those between servers, with the one to the entry",
        ["k", "", "recall", "list", "reads", "over relay", "code distances", "hops"],
        table,
    )
    panels = [Panel("reads a query", plotted)]
    bench.draw("results", f"{bench.servers} servers", "logarithm of k", panels, 0.0)


def by_partitioning(bench: Bench, verdict: Verdict) -> None:
    """Section 4.3: what rows of a server have in common."""
    table = []
    for partition_by in bench.job.settings["partition_by"]:
        for name in ("relay", "baton", "baton_one"):
            policy = bench.job.settings[name]
            row = bench.at_recall(bench.counts(policy, partition_by=partition_by), verdict)
            shown = [row.get(c) for c in ("reads", "hops", "hops_to_entry", "bytes_a_hop", "skew")]
            table.append([partition_by, policy, *shown])
            if row:
                verdict.add(f"hops, {policy} by {partition_by}", Check(row["hops"]))
    print_table(
        f"By partitioning at {bench.job.recall:g} on {bench.servers} servers, {bench.vectors.name}"
        " (paper, section 4.3: graph below k-means below random, without numbers)",
        ["by", "policy", "reads", "hops", "hops to entry", "bytes a hop", "skew"],
        table,
    )


def state_bytes(bench: Bench, verdict: Verdict) -> None:
    """Section 4.1: bytes of a state that goes to another server, by list."""
    lists = bench.job.settings["state_lists"]
    curves, table = {}, []
    for policy in (bench.job.settings["relay"], bench.job.settings["baton"]):
        rows = sorted(bench.counts(policy, lists=lists).rows, key=lambda row: row["list"])
        for row in rows:
            table.append([policy, row["list"], row["recall"], row["bytes_a_hop"]])
            table[-1].append(row["bytes_a_hop"] - row["vector_bytes"])
        curves[policy] = [(row["list"], row["bytes_a_hop"]) for row in rows]
    print_table(
        f"Bytes of a state on the way, mean, {bench.servers} servers, {bench.vectors.name} (paper, "
        "section 4.1: 4 to 8 KB with the vector, at lists that find more than 0.95)",
        ["policy", "list", "recall", "bytes", "beyond the vector"],
        table,
    )
    bench.draw("state", "A state on the way", "candidate list", [Panel("bytes", curves)], 0.0)
    verdict.add("bytes of a state, longest list", Check(table[-1][3]))


EXPERIMENTS: dict[str, Callable[[Bench, Verdict], None]] = {
    "head-index": head_index,
    "servers": by_servers,
    "width": by_width,
    "systems": by_system,
    "results": by_results,
    "partitioning": by_partitioning,
    "state": state_bytes,
}


def take_cluster_experiments(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """All of them, or those of `--only`, by names parted by commas."""
    for name in job.only.split(",") if job.only else EXPERIMENTS:
        if name not in EXPERIMENTS:
            raise SystemExit(f"no experiment {name}; there are {', '.join(EXPERIMENTS)}")
        with noted(verdict, f"{name} on {vectors.name}"):
            EXPERIMENTS[name](Bench(job, vectors), verdict)
