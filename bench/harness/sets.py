"""The data sets of the figures, and smaller files cut from them."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from . import given, places, rivals
from .cache import entry, file_identity

NAMES = ("sift1m", "minilm", "manifold", "minilm-i8", "keywords")


@dataclass(frozen=True)
class VectorSet:
    """Base vectors, queries and their exact truth by a metric; `code_bytes` is what all systems use."""

    name: str
    base: Path
    queries: Path
    truth: Path
    code_bytes: int
    metric: str = "l2"


@dataclass(frozen=True)
class Made:
    """A set that is made by a script of the benchmark: how, the bytes of its codes, the suffix of its
    files, and how vectors are compared."""

    make: Callable[[Path], None]
    code_bytes: int
    suffix: str = ".fbin"
    metric: str = "l2"


MADE = {
    "minilm": Made(rivals.make_minilm, 48),
    "manifold": Made(rivals.make_manifold, 32),
    "minilm-i8": Made(rivals.make_relatives, 48, suffix=".i8bin"),
    "keywords": Made(rivals.make_relatives, 48, metric="ip"),
}


def vector_set(name: str) -> VectorSet:
    """A data set by name: one that lies in PIPEANN_DATA, or one of the benchmark's own, of which
    those that are made are when they are not in the cache yet."""
    folder = places.given_data() if name == "sift1m" else given.folder_of_data()
    made = MADE.get(name)
    metric = made.metric if made else "l2"
    if folder and (found := given.given(folder, name, metric)):
        truth = found.truth or given.made_truth(found.base, found.queries, found.metric)
        return VectorSet(name, found.base, found.queries, truth, found.code_bytes, found.metric)
    if made:
        folder = places.cache() / "data"
        base, queries = (folder / f"{name}.{what}{made.suffix}" for what in ("base", "query"))
        truth = folder / f"{name}.gt100.bin"
        if not truth.exists():
            made.make(folder)
        return VectorSet(name, base, queries, truth, made.code_bytes, made.metric)
    there = [*NAMES, *(given.names_in(folder) if folder else [])]
    raise SystemExit(f"no data set {name}; there are {', '.join(dict.fromkeys(there))}")


def compared_by(vectors: VectorSet, metric: str) -> VectorSet:
    """The same rows and queries compared by a metric, with the truth by that."""
    if vectors.metric == metric:
        return vectors
    print(f"{vectors.name} is compared by {metric} here")
    truth = given.made_truth(vectors.base, vectors.queries, metric)
    return replace(vectors, truth=truth, metric=metric)


def tags_of(vectors: VectorSet) -> tuple[Path, Path]:
    """The files of tags of the rows and of the queries that a set may have come with."""
    base, query = (f"{vectors.name}.tags.{what}.spmat" for what in ("base", "query"))
    return vectors.base.with_name(base), vectors.base.with_name(query)


def has_tags(vectors: VectorSet) -> bool:
    """Whether it came with them."""
    return all(path.exists() for path in tags_of(vectors))


def rows_in(source: Path) -> int:
    """How many vectors a file has."""
    return given.shape(source)[0]


def dim_of(source: Path) -> int:
    """The dimension of the vectors of a file."""
    return given.shape(source)[1]


def at_most(rows: int, vectors: VectorSet, share: float = 1.0) -> int:
    """So many rows, or that share of a set that has fewer."""
    return min(rows, int(share * rows_in(vectors.base)))


def first_rows(source: Path, rows: int, target: Path, skip: int = 0) -> None:
    """Copy the first rows of a vector file, or those behind some that are skipped."""
    element = array(given.TYPES[source.suffix]).itemsize
    with source.open("rb") as f:
        have, dim = struct.unpack("<II", f.read(8))
        rows = min(rows, have - skip)
        f.seek(skip * dim * element, 1)
        target.write_bytes(struct.pack("<II", rows, dim) + f.read(rows * dim * element))


def first_truth(source: Path, queries: int, target: Path) -> None:
    """Copy the truth of the first queries: ids, then distances."""
    with source.open("rb") as f:
        have, k = struct.unpack("<II", f.read(8))
        queries = min(queries, have)
        ids = f.read(4 * k * queries)
        f.seek(8 + 4 * k * have)
        target.write_bytes(struct.pack("<II", queries, k) + ids + f.read(4 * k * queries))


def with_queries(whole: VectorSet, queries: int) -> VectorSet:
    """The same set with only its first queries and their truth."""

    def make(folder: Path) -> None:
        first_rows(whole.queries, queries, folder / f"query{whole.queries.suffix}")
        first_truth(whole.truth, queries, folder / "truth.bin")

    made_from = {
        "queries": file_identity(whole.queries),
        "truth": file_identity(whole.truth),
        "count": queries,
    }
    folder = entry(f"queries-{whole.name}-{queries}", made_from, make)
    return replace(
        whole, queries=folder / f"query{whole.queries.suffix}", truth=folder / "truth.bin"
    )


def asked_by_rows(whole: VectorSet, first: int, count: int) -> VectorSet:
    """The set asked by rows of its own that no smaller index of its first rows holds, where the
    queries that came with it are too few. It has no truth until it is `pipeann.shrunk`."""
    name = f"query{whole.queries.suffix}"
    folder = entry(
        f"asked-{whole.name}-{first}-{count}",
        {"base": file_identity(whole.base), "first": first, "count": count},
        lambda folder: first_rows(whole.base, count, folder / name, skip=first),
    )
    return replace(whole, queries=folder / name, truth=folder / "none")


def base_rows(whole: VectorSet, rows: int) -> Path:
    """A file with the first rows of the base vectors."""
    name = f"base{whole.base.suffix}"
    folder = entry(
        f"base-{whole.name}-{rows}",
        {"base": file_identity(whole.base), "rows": rows},
        lambda folder: first_rows(whole.base, rows, folder / name),
    )
    return folder / name
