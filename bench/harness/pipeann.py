"""Runs of `pipeann` and `pipeann-lab`: build (cached), search, raw device reads, opening."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache as remember
from pathlib import Path
from typing import Any

from . import places, rivals
from .cache import entry, file_identity, text_identity
from .curves import enclosing
from .processes import Row, json_lines
from .rivals import lists_text
from .sets import VectorSet, base_rows

# The rooms of the engine that decide what an index contains.
INDEX_ROOMS = ("types", "distance", "quant", "format", "graph", "build")


@remember
def program() -> Path:
    """The pipeann command: `$PIPEANN_BIN`, else compiled from this repository."""
    if named := os.environ.get("PIPEANN_BIN"):
        return Path(named).resolve()
    return compiled("pipeann-cli", "pipeann")


@remember
def lab() -> Path:
    """The command `pipeann-lab`, which has what only benchmarks run: `$PIPEANN_LAB_BIN`, else what
    stands beside `$PIPEANN_BIN`, else compiled from this repository."""
    if named := os.environ.get("PIPEANN_LAB_BIN"):
        return Path(named).resolve()
    if named := os.environ.get("PIPEANN_BIN"):
        beside = Path(named).resolve().with_name("pipeann-lab")
        if not beside.is_file():
            raise SystemExit(f"{beside} is missing: put it there, or name it by PIPEANN_LAB_BIN")
        return beside
    return compiled("pipeann-lab", "pipeann-lab")


def compiled(package: str, name: str) -> Path:
    """A command, compiled from this repository."""
    command = ["cargo", "build", "--release", "--package", package]
    subprocess.run(command, cwd=places.REPO, check=True, stdout=sys.stderr)
    target = os.environ.get("CARGO_TARGET_DIR") or places.REPO / "target"
    return Path(target) / "release" / name


@remember
def builder_identity() -> str:
    """A hash of the engine's sources that an index depends on."""
    engine = places.REPO / "crates" / "engine" / "src"
    files = [f for room in INDEX_ROOMS for f in (engine / room).rglob("*.rs")]
    return text_identity(files or [program()])


@dataclass(frozen=True)
class BuildOptions:
    """Parameters of a pipeann build."""

    degree: int = 64
    list: int = 96
    seed: int = 1
    codes: str = "pq"
    page_bytes: int | None = None
    partitions: int = 1
    partition_by: str = "graph"
    metric: str = "l2"


def build(
    base: Path, index: Path, code_bytes: int, options: BuildOptions, memory: str | None = None
) -> Row:
    """Build an index now, within a memory limit if one is given, and return what it cost."""
    command: list[str | Path] = [
        program(),
        "build",
        "--base",
        base,
        "--index",
        index,
        "--metric",
        options.metric,
    ]
    command += ["--degree", str(options.degree), "--list", str(options.list)]
    command += ["--code-bytes", str(code_bytes), "--seed", str(options.seed)]
    command += ["--codes", options.codes]
    if options.page_bytes is not None:
        command += ["--page-bytes", str(options.page_bytes)]
    if options.partitions > 1:
        command += ["--partitions", str(options.partitions)]
        command += ["--partition-by", options.partition_by]
    if memory is not None:
        command += ["--memory", memory]
    return json_lines([*command, "--overwrite", "--json"])[-1]


def exact_truth(
    base: Path, queries: Path, out: Path, k: int = 100, metric: str = "l2"
) -> None:
    """Compare every query with every row."""
    command: list[str | Path] = [program(), "gt", "--base", base, "--queries", queries]
    command += ["--metric", metric, "--k", str(k), "--out", out]
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr)


def grown(vectors: VectorSet, rows: int) -> VectorSet:
    """The set with more rows made from its own, and the exact truth of its queries."""
    name = f"base{vectors.base.suffix}"

    def make(folder: Path) -> None:
        rivals.make_grown(vectors.base, rows, folder / name)
        exact_truth(
            folder / name, vectors.queries, folder / "truth.bin", metric=vectors.metric
        )

    made_from = {
        "base": file_identity(vectors.base),
        "queries": file_identity(vectors.queries),
        "rows": rows,
    } | rivals.metric_of(vectors)
    folder = entry(f"grown-{vectors.name}-{rows}", made_from, make)
    return replace(vectors, base=folder / name, truth=folder / "truth.bin")


def shrunk(vectors: VectorSet, rows: int) -> VectorSet:
    """The set with only its first rows, and the exact truth of its queries among them."""
    base = base_rows(vectors, rows)
    made_from = {"base": file_identity(base), "queries": file_identity(vectors.queries)}
    made_from |= rivals.metric_of(vectors)
    folder = entry(
        f"shrunk-{vectors.name}-{rows}",
        made_from,
        lambda folder: exact_truth(
            base, vectors.queries, folder / "truth.bin", metric=vectors.metric
        ),
    )
    return replace(vectors, base=base, truth=folder / "truth.bin")


def index_of(vectors: VectorSet, options: BuildOptions, base: Path | None = None) -> Path:
    """The cached index of a set (or of other base vectors with its parameters)."""
    source = base or vectors.base
    options = replace(options, metric=vectors.metric)
    made = {
        "base": file_identity(source),
        "code_bytes": vectors.code_bytes,
        "codes": options.codes,
        "degree": options.degree,
        "list": options.list,
        "seed": options.seed,
        "builder": builder_identity(),
    }
    if options.metric != "l2":
        made["metric"] = options.metric
    if options.page_bytes is not None:
        made["page_bytes"] = options.page_bytes
    if options.partitions > 1:
        made |= {"partitions": options.partitions, "partition_by": options.partition_by}

    def make(folder: Path) -> None:
        build(source, folder / "index", vectors.code_bytes, options)

    return entry(f"pipeann-{vectors.name}", made, make) / "index"


def partition(
    index: Path,
    out: Path,
    partitions: int,
    partition_by: str,
    seed: int,
    memory: str | None = None,
) -> Row:
    """Lay an index out in other partitions now, keeping its graph, within a memory limit if one is
    given, and return what it cost."""
    command: list[str | Path] = [program(), "partition", "--from", index, "--index", out]
    command += ["--partitions", str(partitions), "--partition-by", partition_by]
    if memory is not None:
        command += ["--memory", memory]
    return json_lines([*command, "--seed", str(seed), "--overwrite", "--json"])[-1]


def partitioned(vectors: VectorSet, options: BuildOptions, mother: BuildOptions) -> Path:
    """The cached index in the partitions of `options`, cut from that of `mother`, so that all have
    one graph: otherwise they would differ by more than their partitions."""
    if options == mother:
        return index_of(vectors, mother)
    source = index_of(vectors, mother)
    made = {"of": source.parent.name, "partitions": options.partitions, "seed": options.seed}
    made |= {"partition_by": options.partition_by, "builder": builder_identity()}

    def make(folder: Path) -> None:
        index = folder / "index"
        partition(source, index, options.partitions, options.partition_by, options.seed)

    return entry(f"pipeann-{vectors.name}", made, make) / "index"


@dataclass(frozen=True)
class SearchOptions:
    """How to search; `switches` names techniques of `pipe` to turn on or off."""

    policy: str
    width: int | None = None
    threads: int = 1
    in_flight: int = 1
    memory_limit: str = "floor"
    warm: int = 0
    switches: dict[str, str] = field(default_factory=dict)
    k: int = 10
    repeat: int = 1
    widths: Path | None = None
    backend: str | None = None
    spdk_config: Path | None = None
    cores: int | None = None

    @classmethod
    def of(cls, name: str, **others: Any) -> SearchOptions:
        """A policy by name: `page`, `pipe`, or `page:2`, `pipe:2` with a fixed width."""
        policy, _, width = name.partition(":")
        if not width:
            return cls(policy=policy, **others)
        switches = {"dynamic": "off"} if policy == "pipe" else {}
        return cls(policy=policy, width=int(width), switches=switches, **others)


def pinned(cores: int | None) -> list[str | Path]:
    """The words before a command that keep it to so many of the cores that we may use."""
    if cores is None:
        return []
    ours = sorted(os.sched_getaffinity(0))[:cores]
    return ["taskset", "--cpu-list", ",".join(map(str, ours))]


def search(
    index: Path, vectors: VectorSet, lists: Sequence[int], options: SearchOptions
) -> list[Row]:
    """One row per list length, with recall against the set's truth."""
    command: list[str | Path] = pinned(options.cores)
    command += [program(), "search", "--index", index, "--queries", vectors.queries]
    command += ["--truth", vectors.truth, "--k", str(options.k), "--policy", options.policy]
    command += ["--threads", str(options.threads)]
    command += ["--in-flight", str(options.in_flight), "--memory-limit", options.memory_limit]
    if options.repeat > 1:
        command += ["--repeat", str(options.repeat)]
    if options.warm:
        command += ["--warm", str(options.warm)]
    if options.width is not None:
        command += ["--width", str(options.width)]
    if options.widths is not None:
        command += ["--widths", options.widths]
    if options.switches:
        switches = ",".join(f"{name}={value}" for name, value in options.switches.items())
        command += ["--switches", switches]
    if options.backend is not None:
        command += ["--backend", options.backend]
    if options.spdk_config is not None:
        command += ["--spdk-config", options.spdk_config]

    def ask(chosen: Sequence[int]) -> list[Row]:
        return json_lines([*command, "--list", lists_text(chosen), "--json"])

    return enclosing(ask, lists, options.k)


def cluster_counts(
    index: Path,
    vectors: VectorSet,
    lists: Sequence[int],
    servers: Sequence[int],
    policy: Sequence[str],
    k: int = 10,
) -> list[Row]:
    """What searches over so many servers of one process read and send; `policy` as on the command
    line. A row for each number of servers and list."""
    command: list[str | Path] = [program(), "cluster", "count", "--index", index]
    command += ["--queries", vectors.queries, "--truth", vectors.truth]
    command += ["--servers", ",".join(map(str, servers)), "--k", str(k), *policy]

    def ask(chosen: Sequence[int]) -> list[Row]:
        found = json_lines([*command, "--list", lists_text(chosen), "--json"])
        return [{"k": k} | row for row in found]

    return enclosing(ask, lists, k)


def profile_width(
    index: Path, vectors: VectorSet, lists: Sequence[int], recall: float, out: Path
) -> Row:
    """Profile an index by width and searches in flight; the widths to take are written to `out`."""
    command: list[str | Path] = [lab(), "bench", "--profile-width", "--index", index]
    command += ["--queries", vectors.queries, "--truth", vectors.truth, "--recall", str(recall)]
    command += ["--lists", ",".join(map(str, lists)), "--limit-queries", "1000"]
    return json_lines([*command, "--save", out, "--json"])[-1]


def raw_reads(index: Path, *, depth: int, threads: int = 1, seconds: float = 2) -> Row:
    """Random page reads of the index's own files, as many in flight as `depth`."""
    command: list[str | Path] = [program(), "raw", "--index", index, "--depth", str(depth)]
    command += ["--threads", str(threads), "--seconds", str(seconds)]
    return json_lines([*command, "--json"])[-1]


def estimate(case: Row, options: BuildOptions) -> Row:
    """What is expected of an index of a measured case's shape, limit, list and device."""
    command: list[str | Path] = [program(), "estimate", "--rows", str(case["rows"])]
    command += ["--dim", str(case["dim"]), "--type", case["type"], "--limit", case["limit"]]
    command += ["--degree", str(options.degree), "--code-bytes", str(case["code_bytes"])]
    command += ["--list", str(case["list"]), "--threads", "2", "--read-us", str(case["read_us"])]
    command += ["--reads-per-s", str(case["raw_reads_per_s"])]
    return json_lines([*command, "--json"])[-1]


def inspect(index: Path) -> Row:
    """What an index consists of."""
    return json_lines([program(), "inspect", "--index", index, "--json"])[-1]


def open_time(index: Path, queries: Path) -> Row:
    """Time to open and to the first answer, in a process of its own."""
    return json_lines([lab(), "open-time", "--index", index, "--queries", queries, "--json"])[-1]
