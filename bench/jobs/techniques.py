"""What each technique of pipelined search gains, and what it costs in recall."""

from __future__ import annotations

from functools import partial
from typing import Any

from harness import pipeann
from harness.curves import Curve, interleave
from harness.pipeann import SearchOptions
from harness.processes import Row
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import print_curve


def step_options(step: dict[str, Any], threads: int, in_flight: int) -> SearchOptions:
    """The search that a step of the breakdown describes."""
    return SearchOptions(
        policy=step["policy"],
        width=step.get("width"),
        threads=threads,
        in_flight=in_flight,
        switches=step["switches"],
    )


def take_breakdown(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Latency, throughput, reads and waste as the techniques are added one by one."""
    index = pipeann.index_of(vectors, job.build)
    steps = job.settings["steps"]
    lists = job.around(vectors.name, job.recall, *job.settings["recalls"])

    def curves(threads: int, in_flight: int) -> dict[str, Curve]:
        def run(step: dict[str, Any]) -> list[Row]:
            return pipeann.search(index, vectors, lists, step_options(step, threads, in_flight))

        runs = {step["name"]: partial(run, step) for step in steps}
        return interleave(runs, job.rounds)

    alone = curves(threads=1, in_flight=1)
    busy = curves(threads=job.settings["threads"], in_flight=job.settings["in_flight"])
    for recall in job.settings["recalls"]:
        rows, last = [], None
        for step in steps:
            name = step["name"]
            one, many = alone[name].row_at(recall), busy[name].row_at(recall)
            now = (one["mean_us"], many["qps"])
            gains = ["-", "-"]
            if last:
                gains = [f"{now[0] / last[0] - 1:+.1%}", f"{now[1] / last[1] - 1:+.1%}"]
            rows.append(
                [name, now[0], gains[0], now[1], gains[1], one["reads"], one["reads_wasted"]]
            )
            last = now
        header = ["step", "mean_us", "change", "qps", "change", "reads", "wasted"]
        print_table(f"Breakdown at {recall} on {vectors.name}", header, rows)
    first, final = (alone[steps[i]["name"]].at("mean_us", job.recall) for i in (0, -1))
    verdict.add("latency", Check(final / first))


def take_equal_l(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Recall of `pipe` over that of `beam` with the same candidate list."""
    index = pipeann.index_of(vectors, job.build)
    lists = job.lists[vectors.name]
    beam = SearchOptions(policy="beam", width=job.settings["width"], switches={"head": "on"})
    ours = pipeann.search(index, vectors, lists, SearchOptions(policy="pipe"))
    base = pipeann.search(index, vectors, lists, beam)
    for name, rows in (("pipe", ours), ("beam", base)):
        print_curve(Curve.of_rounds(f"{name} on {vectors.name}", [rows]))
    pairs = [(b["list"], p["recall"], b["recall"]) for p, b in zip(ours, base, strict=True)]
    print_table(
        f"Recall at equal L on {vectors.name}",
        ["L", "pipe", "beam", "ratio"],
        [[length, p, b, p / b] for length, p, b in pairs],
    )
    everywhere = min(p / b for _, p, b in pairs)
    verdict.add("everywhere", Check(everywhere, job.settings["at_least"], at_most=False))
    if high := [p / b for _, p, b in pairs if b >= job.settings["high_recall"]]:
        verdict.add("high", Check(min(high), job.settings["high_at_least"], at_most=False))
