"""Memory while searching, the cost of building, the time to open."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

from harness import cold, pipeann, places, rivals, sets
from harness.curves import Curve
from harness.pipeann import SearchOptions
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import print_curve

MEGABYTE = 1_000_000
# Below the recall: lists that find less are searched as well.
AROUND = 0.03


def counts_of(named: list[int], rows: int) -> list[int]:
    """Rows of the two indexes: those that are named, if the set has as many, else a quarter and all."""
    return named if max(named) <= rows else [rows // 4, rows]


def take_memory_floor(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Peak resident memory at the floor, and what each further vector adds."""
    options = SearchOptions(policy="pipe", threads=job.settings["threads"])
    rows, peaks = [], {}
    for count in counts_of(job.settings["rows"], sets.rows_in(vectors.base)):
        part = sets.base_rows(vectors, count)
        index = pipeann.index_of(vectors, job.build, base=part)
        found = pipeann.search(index, vectors, job.lists[vectors.name], options)[-1]
        pools = found["pools"]
        needed = sum(pools.get(name, 0) for name in job.settings["pools"])
        peaks[count] = (found["peak_rss_bytes"], needed)
        rows.append([count, *(v / MEGABYTE for v in peaks[count]), str(pools)])
    print_table("Memory at the floor, MB", ["rows", "peak", "needed pools", "pools"], rows)
    (few, (small, _)), (many, (large, needed)) = sorted(peaks.items())
    allowed = needed + job.settings["spare_bytes"]
    slope = (large - small) / (many - few)
    verdict.add("peak_mb", Check(large / MEGABYTE, allowed / MEGABYTE))
    verdict.add("bytes_per_vector", Check(slope, job.settings["slope_at_most"]))


def take_build_cpu(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """CPU seconds of a fresh build over diskannpy's; then recall at equal reads."""
    theirs = rivals.diskannpy_index(vectors, job.degree, job.build_list, compared=True)
    theirs_cost = rivals.cost(theirs)
    with tempfile.TemporaryDirectory(dir=places.cache(), prefix="build-cpu-") as folder:
        index = Path(folder) / "index"
        build = replace(job.build, metric=vectors.metric)
        ours = pipeann.build(vectors.base, index, vectors.code_bytes, build)
        width, around = job.settings["width"], (job.recall - AROUND, job.recall)
        # The graphs alone are compared: no head index, no use of packed companions.
        plain = SearchOptions(policy="beam", width=width, switches={"head": "off", "packed": "off"})
        mine = Curve.of_rounds(
            f"beam W={width} on {vectors.name}",
            # What is read at the rival's recall may find less.
            [pipeann.search(index, vectors, job.around(vectors.name, *around), plain)],
        )
    rival = Curve.of_rounds(
        f"diskannpy W={width} on {vectors.name}",
        [
            rivals.search_diskannpy(
                theirs, vectors, job.around(job.settings["rival_lists"]), width=width, threads=2
            )
        ],
    )
    print_table(
        f"Build of {vectors.name}, R={job.degree} L={job.build_list}",
        ["system", "cpu_s", "wall_s", "peak_rss_bytes"],
        [
            [name, cost["cpu_s"], cost["wall_s"], cost["peak_rss_bytes"]]
            for name, cost in (("pipeann", ours), ("diskannpy", theirs_cost))
        ],
    )
    print_curve(mine)
    print_curve(rival)
    reads = rival.at("reads", job.recall)
    # More than that of the job where its shortest list finds more.
    wanted = rival.at("recall", job.recall)
    recall = mine.between("recall", "reads", reads)
    print(f"at {reads:.1f} reads: recall {recall:.4f}, diskannpy {wanted:.4f}")
    ratio = ours["cpu_s"] / theirs_cost["cpu_s"]
    verdict.add("cpu", Check(ratio, job.settings["cpu_at_most"]))
    verdict.add("recall", Check(recall, round(wanted, 6), at_most=False))


def take_open(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """First answer from a cold open, less what opening an index of one row takes.

    No index can be built of no rows, so the smallest stands for the empty one."""
    index = pipeann.index_of(vectors, job.build)
    empty = pipeann.index_of(vectors, job.build, base=sets.base_rows(vectors, 1))
    times: dict[str, list[float]] = {"full": [], "empty": []}
    opened: dict[str, list[float]] = {"full": [], "empty": []}
    raw = []
    for _ in range(job.rounds):
        raw.append(pipeann.raw_reads(index, depth=1)["mean_us"])
        for name, folder in (("full", index), ("empty", empty)):
            cold.evict(folder)
            row = pipeann.open_time(folder, vectors.queries)
            times[name].append(row["first_answer_us"])
            opened[name].append(row["open_us"])
    full, nothing, read = (statistics.median(v) for v in (times["full"], times["empty"], raw))
    print_table(
        f"Cold open on {vectors.name}; a raw read: {read:.0f} us",
        ["index", "open_us", "first_answer_us"],
        [[name, statistics.median(opened[name]), statistics.median(times[name])] for name in times],
    )
    limit = job.settings["extra_us"] + job.settings["raw_reads"] * read
    verdict.add("extra_us", Check(full - nothing, limit))
