"""Figures of `--backend spdk` over files that stand in for SSDs.

They are taken on a file system: counts and answers are those of SSDs, rates are not, and say nothing
of the speed of NVMe.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from harness import pipeann, places, sets
from harness.pipeann import SearchOptions, lab, program
from harness.processes import Row, json_lines
from harness.sets import VectorSet
from harness.stripes import Stripe, stripe_of
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

NOTE = "over files on this machine's disk: rates here say nothing of NVMe"
# The document's table: SIFT100M, four Optane P5800X, two Xeon Gold 6330, R=96, W=32.
DOCUMENT = (
    (1, 30, 2315.65, 336.15, 443.0, 36.07, 89.89),
    (1, 50, 1647.64, 491.98, 601.0, 55.36, 95.59),
    (1, 80, 1146.62, 730.52, 868.0, 84.81, 98.19),
    (1, 100, 954.00, 889.73, 1046.0, 104.52, 98.81),
    (1, 150, 816.44, 1068.70, 1483.0, 154.02, 99.48),
    (1, 200, 658.33, 1343.15, 1615.0, 203.57, 99.72),
    (1, 300, 421.23, 2147.07, 3473.0, 302.82, 99.89),
    (50, 30, 103720.21, 422.83, 657.0, 36.49, 90.06),
    (50, 50, 67558.15, 648.18, 1557.0, 55.56, 95.64),
    (50, 80, 48001.59, 927.00, 1375.0, 84.91, 98.21),
    (50, 100, 39163.71, 1115.88, 1477.0, 104.59, 98.82),
    (50, 150, 27593.48, 1611.91, 2063.0, 154.07, 99.48),
    (50, 200, 20221.23, 2197.26, 3580.0, 203.61, 99.72),
    (50, 300, 14480.85, 3107.67, 4203.0, 302.85, 99.89),
)
COLUMNS = ("threads", "L", "I/O width", "QPS", "AvgLat(us)", "P99 Lat", "Mean IOs", "Recall@10")


def segment_bytes(index: Path) -> int:
    """Bytes of an index's pages."""
    return sum(path.stat().st_size for path in index.rglob("segment-*.pages"))


def room_for(index: Path, devices: int) -> int:
    """Bytes of each of so many devices that hold the index twice."""
    return 2 * segment_bytes(index) // devices + (64 << 20)


def over(stripe: Stripe, options: SearchOptions) -> SearchOptions:
    """The same search from the devices."""
    return replace(options, backend="spdk", spdk_config=stripe.config)


def take_raw_search(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Answers, rate and latency from a file as a device, over those of io_uring."""
    index = pipeann.index_of(vectors, job.build)
    wide = SearchOptions(policy="pipe", threads=2, in_flight=job.settings["in_flight"])
    alone = SearchOptions(policy="pipe")
    with stripe_of(1, room_for(index, 1)) as stripe:
        stripe.raw("copy", "--index", str(index))
        differing = sum(
            answers_differ(index, vectors, policy, stripe) for policy in job.settings["policies"]
        )
        rates: dict[str, list[float]] = {"io_uring": [], "spdk": []}
        means: dict[str, list[float]] = {"io_uring": [], "spdk": []}
        for _ in range(job.rounds):
            for name in rates:
                with_it = (lambda o: over(stripe, o)) if name == "spdk" else by_uring
                lists = job.lists[vectors.name]
                rates[name].append(pipeann.search(index, vectors, lists, with_it(wide))[0]["qps"])
                row = pipeann.search(index, vectors, lists, with_it(alone))[0]
                means[name].append(row["mean_us"])
    rows = [[name, median(rates[name]), median(means[name])] for name in rates]
    print_table(f"{vectors.name}, {NOTE}", ["backend", "QPS, two threads", "mean_us, one"], rows)
    (_, uring_rate, uring_mean), (_, raw_rate, raw_mean) = rows
    limits = job.settings
    verdict.add("answers that differ", Check(differing, 0))
    at_least = limits["rate_at_least"]
    verdict.add("rate over io_uring", Check(raw_rate / uring_rate, at_least, at_most=False))
    verdict.add("latency over io_uring", Check(raw_mean / uring_mean, limits["mean_at_most"]))


def by_uring(options: SearchOptions) -> SearchOptions:
    """The same search from the files."""
    return replace(options, backend="io_uring")


def answers_differ(index: Path, vectors: VectorSet, policy: str, stripe: Stripe) -> int:
    """1 where ids or distances of a fixed policy are not the same from device and file."""
    with TemporaryDirectory(dir=places.cache()) as folder:
        outs = []
        for backend in ("io_uring", "spdk"):
            out = Path(folder) / f"{backend}.bin"
            command: list[str | Path] = [program(), "search", "--index", index, "--k", "10"]
            command += ["--queries", vectors.queries, "--policy", policy, "--list", "60"]
            command += ["--backend", backend, "--out", out, "--json"]
            if backend == "spdk":
                command += ["--spdk-config", stripe.config]
            json_lines(command)
            outs.append(out)
        return int(not filecmp.cmp(*outs, shallow=False))


def take_raw_compare(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """io_uring, libaio and raw; one thread and many; 1, 2 and 4 devices: reads and recall."""
    index = pipeann.index_of(vectors, job.build)
    lists = job.lists[vectors.name]
    threads = (1, job.settings["threads"])
    rows: dict[str, list[Row]] = {}
    for count in threads:
        # A fixed width: reads of one that follows the load would tell of the load.
        options = SearchOptions(policy=job.settings["policy"], width=32, threads=count)
        for name in ("io_uring", "libaio"):
            found = pipeann.search(index, vectors, lists, replace(options, backend=name))
            rows[f"{name}, {count}"] = found
        for devices in job.settings["devices"]:
            with stripe_of(devices, room_for(index, devices)) as stripe:
                name = f"raw, {devices} devices, {count}"
                rows[name] = pipeann.search(index, vectors, lists, over(stripe, options))
    print_columns(f"{vectors.name}, {NOTE}", rows)
    document = [[str(t), l, 32, *rest] for t, l, *rest in DOCUMENT]
    title = "The document's table, SIFT100M on four Optane P5800X: its figures, not taken here"
    print_table(title, COLUMNS, document)
    base = rows[f"io_uring, {threads[0]}"]
    reads = recall = 0.0
    for found in rows.values():
        for row, first in zip(found, base, strict=True):
            reads = max(reads, abs(row["reads"] / first["reads"] - 1))
            recall = max(recall, abs(row["recall"] - first["recall"]))
    verdict.add("reads apart", Check(reads, job.settings["reads_apart_at_most"]))
    verdict.add("recall apart", Check(recall, job.settings["recall_apart_at_most"]))


def print_columns(title: str, rows: dict[str, list[Row]]) -> None:
    """Rows under the names that the document has for the columns."""
    table = [
        [name, row["list"], 32, row["qps"], row["mean_us"], row["p99_us"], row["reads"]]
        + [100 * row["recall"]]
        for name, found in rows.items()
        for row in found
    ]
    print_table(title, ("backend, threads", *COLUMNS[1:]), table)


def take_raw_stripe(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Reads of the most loaded of four devices over the mean, as their pollers count them."""
    index = pipeann.index_of(vectors, job.build)
    with stripe_of(4, room_for(index, 4)) as stripe:
        stripe.raw("copy", "--index", str(index))
        options = over(stripe, SearchOptions(policy="pipe", threads=2))
        found = pipeann.search(index, vectors, job.lists[vectors.name], options)[-1]
    reads = [device["reads"] for device in found["devices"]]
    mean = sum(reads) / len(reads)
    rows = [[f"device {i + 1}", count, count / mean] for i, count in enumerate(reads)]
    title = f"{found['queries']} queries of {vectors.name}, four devices, turns of 64 KiB"
    print_table(title, ["device", "reads", "over the mean"], rows)
    verdict.add("most loaded over mean", Check(max(reads) / mean, job.settings["at_most"]))
    least = 0 if job.quick else job.settings["queries_at_least"]
    verdict.add("queries", Check(found["queries"], least, at_most=False))


def take_raw_copy(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Writes of a second opening and of a checkpoint; the rate of a copy over a plain one."""
    # Without the last rows of the set, which a checkpoint will add.
    small = pipeann.shrunk(vectors, sets.at_most(job.settings["rows"], vectors, 0.998))
    index = pipeann.index_of(small, job.build)
    ratios = []
    second = checkpoint = 0.0
    for number in range(job.rounds):
        with stripe_of(1, room_for(index, 1)) as stripe:
            plain = stripe.config.with_name("plain")
            segment = next(index.rglob("segment-*.pages"))
            dd = ["dd", f"if={segment}", f"of={plain}", "bs=1M", "conv=fdatasync"]
            copy = [program(), "raw", "copy", "--index", index, "--spdk-config", stripe.config]
            # Who begins takes turns, as the disk may be slower after the other.
            seconds = {}
            for name, command in (("dd", dd), ("raw", copy))[:: 1 if number % 2 else -1]:
                drop_cached(index)
                seconds[name] = timed(command)
            ratios.append(seconds["dd"] / seconds["raw"])
            plain.unlink()
            second = max(second, sum(d["writes"] for d in counted(copy)))
            checkpoint = max(checkpoint, checkpoint_writes(index, stripe, vectors))
    print_table(
        f"Copy of {segment_bytes(index) >> 20} MiB of pages of {vectors.name}, {NOTE}",
        ["figure", "value"],
        [
            ["rate of the copy over dd with fdatasync", median(ratios)],
            ["writes of a second opening", second],
            ["bytes written for a checkpoint over those of its segment", checkpoint],
        ],
    )
    limits = job.settings
    verdict.add("writes of a second opening", Check(second, 0))
    verdict.add("writes of a checkpoint", Check(checkpoint, limits["checkpoint_at_most"]))
    verdict.add("rate", Check(median(ratios), limits["rate_at_least"], at_most=False))


def drop_cached(index: Path) -> None:
    """Takes an index's pages out of the page cache, so that both copies read the disk."""
    for path in index.rglob("segment-*.pages"):
        with path.open("rb") as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(command: Sequence[str | Path]) -> float:
    """Seconds that a command takes."""
    begin = time.monotonic()
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    return time.monotonic() - begin


def counted(command: Sequence[str | Path]) -> list[Row]:
    """What a command has asked the devices for."""
    return json_lines([*command, "--json"])[-1]["devices"]


def checkpoint_writes(index: Path, stripe: Stripe, vectors: VectorSet) -> float:
    """Bytes that a process writes to the devices that opens an index they hold, links rows and
    makes one checkpoint, over the bytes of the checkpoint's segment."""
    with TemporaryDirectory(dir=places.cache()) as folder:
        changed = Path(folder) / "index"
        # Other files of the same bytes, which are known by their checksum.
        shutil.copytree(index, changed)
        before = {path.name for path in changed.rglob("segment-*.pages")}
        command: list[str | Path] = [lab(), "updates", "insert", "--index", changed]
        command += ["--base", vectors.base]
        command += ["--backend", "spdk", "--spdk-config", stripe.config]
        written = sum(device["written_bytes"] for device in counted(command))
        fresh = [p for p in changed.rglob("segment-*.pages") if p.name not in before]
        return written / sum(path.stat().st_size for path in fresh)
