"""Collections behind the doors of Milvus, filled once and cached, and the benchmarks of clients.

The scripts in `tests_py` do the measuring; here is what they are run on.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache as remember
from pathlib import Path

from . import given, places, rivals, servers, sets
from .cache import entry, file_identity, result, text_identity
from .databases import maker_identity
from .pipeann import lab
from .processes import Command, Row, json_lines
from .sets import VectorSet

SCRIPTS = places.REPO / "tests_py"
OVER_NETWORK = SCRIPTS / "bench_milvus_vs_pipeann.py"
IN_PROCESS = SCRIPTS / "bench_milvus_lite_vs_pipeann_client.py"
IN_BATCHES = rivals.COMPARE / "search_batches.py"
CLIENT = [SCRIPTS / f"bench_{name}.py" for name in ("load", "processes")]
# Collections: one of vectors alone, and one whose rows have tags.
PLAIN, TAGGED = "bench", "tagged"
OURS, MILVUS, LITE = "pipeann", "milvus", "milvus-lite"
Opened = AbstractContextManager[servers.Server]


@dataclass(frozen=True)
class Behind:
    """The first rows of a set, in one or two collections."""

    vectors: VectorSet
    rows: int
    parts: tuple[str, ...] = (PLAIN,)

    @property
    def files(self) -> list[str | Path]:
        """As the benchmarks take them."""
        return ["--base", self.vectors.base, "--rows", str(self.rows)]

    def of(self, part: str) -> list[str | Path]:
        """A collection, and its tags where it has some."""
        words: list[str | Path] = [*self.files, "--collection", part]
        return [*words, *self.tags] if part == TAGGED else words

    @property
    def queries(self) -> Path:
        """All queries of the set, since tags are given for those."""
        return sets.vector_set(self.vectors.name).queries

    @property
    def tags(self) -> list[str | Path]:
        """The tags of rows and queries."""
        rows, queries = sets.tags_of(self.vectors)
        return ["--tags", rows, "--tag-queries", queries]


def over_network(server: servers.Server, behind: Behind, part: str, *words: object) -> list[Row]:
    """The benchmark of servers on one of them."""
    command: Command = [rivals.filtered_python(), OVER_NETWORK, "--server", server.word]
    given = [str(word) for word in words]
    return json_lines([*command, *behind.of(part), "--queries", behind.queries, *given, "--json"])


def opener(system: str, memory_limit: str = "floor") -> Callable[[Path], Opened]:
    """How a server is started on a directory."""
    if system == OURS:
        return lambda data: servers.pipeann(data, memory_limit)
    return servers.milvus


def filled(system: str, behind: Behind, compared: bool = False) -> tuple[Path, list[Row]]:
    """The cached directory of a server with its collections, and what filling them took, which
    is a result where it is `compared`."""
    made = {
        "base": file_identity(behind.vectors.base),
        "rows": behind.rows,
        "parts": list(behind.parts),
        "client": text_identity([OVER_NETWORK, *CLIENT]),
        "maker": maker_identity() if system == OURS else servers.REQUIREMENTS.read_text(),
    }

    def make(folder: Path) -> None:
        print(f"filling {system} with {behind.rows:,} rows", file=sys.stderr)
        with opener(system)(folder / "data") as server:
            rows = [
                row | {"part": part}
                for part in behind.parts
                for row in over_network(server, behind, part, "--fill", "--clients", 0)
            ]
        (folder / "cost.json").write_text(json.dumps(rows, indent=1) + "\n")

    parts = "-".join(behind.parts)
    keep = result if compared else entry
    folder = keep(f"doors-{system}-{parts}-{behind.vectors.name}-{behind.rows}", made, make)
    rows: list[Row] = json.loads((folder / "cost.json").read_text())
    return folder / "data", rows


@contextmanager
def serving(system: str, behind: Behind, memory_limit: str = "floor") -> Iterator[servers.Server]:
    """A server of such a directory."""
    data, _ = filled(system, behind)
    with opener(system, memory_limit)(data) as server:
        yield server


def kept(system: str, behind: Behind, part: str, *words: object) -> list[Row]:
    """What the benchmark says of a rival, kept in the cache."""
    data, _ = filled(system, behind)
    made = {"data": data.parent.name, "part": part, "words": [str(word) for word in words]}

    def make(folder: Path) -> None:
        with opener(system)(data) as server:
            rows = over_network(server, behind, part, *words)
        (folder / "rows.json").write_text(json.dumps(rows, indent=1) + "\n")

    folder = result(f"doors-rates-{system}", made, make)
    rows: list[Row] = json.loads((folder / "rows.json").read_text())
    return rows


@remember
def package() -> Path:
    """A folder with the Python package: `$PIPEANN_PACKAGE`, else compiled from this repository."""
    if named := os.environ.get("PIPEANN_PACKAGE"):
        return Path(named).resolve()
    environment = dict(os.environ)
    environment.setdefault("PYO3_PYTHON", sys.executable)
    subprocess.run(
        ["cargo", "build", "--release", "--package", "pipeann-python"],
        cwd=places.REPO,
        env=environment,
        check=True,
        stdout=sys.stderr,
    )
    release = Path(os.environ.get("CARGO_TARGET_DIR") or places.REPO / "target") / "release"
    folder = release / "python"
    target = folder / "pipeann"
    # The library in the working tree is that of the tests, a debug build, and under its longer name
    # it would be found before ours: nor may one be left there.
    for other in target.glob("_native.*so"):
        other.unlink()
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(
        places.REPO / "python" / "pipeann", target, ignore=ignored, dirs_exist_ok=True
    )
    shutil.copy2(release / "lib_native.so", target / "_native.so")
    return folder


def in_process(store: str, behind: Behind, *words: object, **environment: str) -> list[Row]:
    """The benchmark of clients in a process, on one store."""
    command: list[object] = [rivals.filtered_python(), IN_PROCESS, "--store", store]
    command += [*behind.files, "--queries", behind.queries, *words, "--json"]
    named = [f"{name}={value}" for name, value in environment.items()]
    return json_lines(["env", *named, *map(str, command)])


def ours_in_process(behind: Behind, *words: object) -> list[Row]:
    """`from pipeann import MilvusClient` on the directory that a server filled."""
    data, _ = filled(OURS, behind)
    return in_process(f"{OURS}={data}", behind, *words, PYTHONPATH=str(package()))


def lite_kept(behind: Behind, *words: object) -> list[Row]:
    """Milvus Lite with the same rows, taken once: it is far away, and needs minutes."""
    made = {
        "base": file_identity(behind.vectors.base),
        "rows": behind.rows,
        "words": [str(word) for word in words],
        "client": text_identity([IN_PROCESS, *CLIENT]),
        "versions": (rivals.COMPARE / "filtered-requirements.txt").read_text(),
    }

    def make(folder: Path) -> None:
        store = f"{LITE}={folder / 'lite.db'}"
        rows = in_process(store, behind, "--fill", *words)
        (folder / "rows.json").write_text(json.dumps(rows, indent=1) + "\n")

    folder = result(f"doors-rates-lite-{behind.vectors.name}-{behind.rows}", made, make)
    rows: list[Row] = json.loads((folder / "rows.json").read_text())
    return rows


def as_floats(queries: Path) -> Path:
    """The same vectors as the clients send them."""
    if queries.suffix == ".fbin":
        return queries

    def make(folder: Path) -> None:
        content = queries.read_bytes()
        floats = array("f", array(given.TYPES[queries.suffix], content[8:]))
        (folder / "queries.fbin").write_bytes(content[:8] + floats.tobytes())

    made = {"queries": file_identity(queries), "type": queries.suffix}
    return entry("queries-floats", made, make) / "queries.fbin"


def graph(behind: Behind) -> Path:
    """The graph of the collection without tags, an index that the engine opens by itself."""
    data, _ = filled(OURS, behind)
    (manifest,) = data.rglob("MANIFEST")
    return manifest.parent


def in_batches(
    server: servers.Server, behind: Behind, ef: int, *, count: int, threads: int, rounds: int
) -> Row:
    """A few callers of pymilvus, each of whose requests holds many queries."""
    command: list[object] = [rivals.filtered_python(), IN_BATCHES, "--server", server.word]
    command += ["--queries", behind.vectors.queries, "--count", count, "--ef", ef]
    command += ["--threads", threads, "--rounds", rounds]
    return json_lines([str(word) for word in command])[-1]


def engine_own(
    behind: Behind,
    lists: Sequence[int],
    threads: int,
    *,
    memory_limit: str = "floor",
    rounds: int = 1,
    count: int | None = None,
) -> list[Row]:
    """The same collection searched by the database itself, without a door; no truth is needed."""
    data, _ = filled(OURS, behind)
    command: list[str | Path] = [lab(), "collections", "search", "--dir", data]
    command += [
        "--collection",
        PLAIN,
        "--field",
        "vector",
        "--queries",
        as_floats(behind.vectors.queries),
    ]
    command += ["--list", ",".join(map(str, lists)), "--threads", str(threads), "--json"]
    command += ["--memory-limit", memory_limit, "--rounds", str(rounds)]
    if count is not None:
        command += ["--limit-queries", str(count)]
    return json_lines(command)
