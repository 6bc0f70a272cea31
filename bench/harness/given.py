"""Sets that somebody has put into a directory: `NAME.base.u8bin` and company, found by name.

    NAME.base.{u8bin,i8bin,fbin}   the rows
    NAME.query.{u8bin,i8bin,fbin}  queries, of the type of the rows; also of NAME without its size
    NAME.gt100.bin                 their exact truth, made where it is missing or another one's
    NAME.toml                      what is not as usual: metric, code_bytes, queries, truth

Truth that is made is kept in the cache.
"""

from __future__ import annotations

import os
import re
import struct
from array import array
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from . import toml
from .cache import entry, file_identity

TYPES = {".u8bin": "B", ".i8bin": "b", ".fbin": "f"}
METRICS = ("l2", "ip", "cosine")
KEYS = {"metric", "code_bytes", "queries", "truth"}
HEADER_BYTES = 8
# Neighbours of each query in truth that is made, and the fewest of truth that is used.
TRUTH_K, LEAST_K = 100, 10
# Distances are told as f32.
NEAR = 1e-3


@dataclass(frozen=True)
class Given:
    """The files of a set; `truth` may be missing."""

    base: Path
    queries: Path
    truth: Path | None
    metric: str
    code_bytes: int


def default_code_bytes(dim: int) -> int:
    """As the program's own default: an eighth of the dimension, at least 32."""
    return min(dim, max(32, (dim + 32) // 64 * 8))


def shape(path: Path) -> tuple[int, int]:
    """The two numbers that a file of vectors or of truth begins with."""
    with path.open("rb") as f:
        head = f.read(HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        raise SystemExit(f"{path} is cut short")
    return struct.unpack("<II", head)


def base_of(folder: Path, name: str) -> Path | None:
    """The rows of a set, if a folder has some by its name."""
    found = [path for suffix in TYPES if (path := folder / f"{name}.base{suffix}").exists()]
    if len(found) > 1:
        raise SystemExit(f"{folder} has {name} as {' and as '.join(path.name for path in found)}")
    return found[0] if found else None


def names_in(folder: Path) -> list[str]:
    """The sets that a folder has."""
    return sorted({path.name.rsplit(".base.", 1)[0] for path in folder.glob("*.base.*bin")})


def described(path: Path) -> dict[str, Any]:
    """What is written beside a set; nothing where nothing is."""
    if not path.exists():
        return {}
    text = toml.read(path)
    if unknown := set(text) - KEYS:
        said, known = (", ".join(sorted(words)) for words in (unknown, KEYS))
        raise SystemExit(f"{path}: {said}? It may say {known}")
    if text.get("metric", "l2") not in METRICS:
        raise SystemExit(f"{path}: no metric {text['metric']}; there are {', '.join(METRICS)}")
    return text


def given(folder: Path, name: str, metric: str = "l2") -> Given | None:
    """A set in a folder, if it is there; the metric is that of a set without a description."""
    base = base_of(folder, name)
    if base is None:
        return None
    text = described(folder / f"{name}.toml")
    # Sets of some sizes may share their queries, as `sift.query.u8bin` of `sift1m`.
    stems = dict.fromkeys((name, re.sub(r"\d+[kmb]$", "", name)))
    names = [f"{stem}.query{base.suffix}" for stem in stems]
    if "queries" in text:
        names = [text["queries"]]
    queries = next((folder / each for each in names if (folder / each).exists()), None)
    if queries is None:
        raise SystemExit(f"{base} has no queries beside it: {' or '.join(names)}")
    truths = [folder / text["truth"]] if "truth" in text else sorted(folder.glob(f"{name}.gt*.bin"))
    chosen = str(text.get("metric", metric))
    fitting = [path for path in truths if why_not(path, base, queries, chosen) is None]
    for path in truths:
        if reason := why_not(path, base, queries, chosen):
            print(f"{path.name} {reason}")
    truth = max(fitting, key=lambda path: shape(path)[1], default=None)
    code_bytes = text.get("code_bytes", default_code_bytes(shape(base)[1]))
    return Given(base, queries, truth, chosen, int(code_bytes))


def why_not(truth: Path, base: Path, queries: Path, metric: str) -> str | None:
    """Why a file is no truth of some queries for some rows; nothing where it may well be."""
    if not truth.exists():
        return "is missing"
    count, k = shape(truth)
    rows, asked = shape(base)[0], shape(queries)[0]
    if count != asked or k < LEAST_K:
        return f"has {k} neighbours of {count} queries; there are {asked}"
    if truth.stat().st_size != HEADER_BYTES + 8 * count * k:
        return "has no distances"
    for query in sorted({0, count // 2, count - 1}):
        ids, distances = neighbours(truth, query)
        if max(ids) >= rows:
            return f"names row {max(ids)} of {rows}"
        if any(later < earlier for earlier, later in pairwise(distances)):
            return "does not begin with the nearest"
        asking = vector(queries, query)
        for place in (0, LEAST_K - 1):
            real = distance(metric, asking, vector(base, ids[place]))
            if abs(real - distances[place]) > NEAR * max(1.0, abs(real)):
                return f"tells another distance by {metric} than there is"
    return None


def neighbours(truth: Path, query: int) -> tuple[array[int], array[float]]:
    """Ids and distances of a query."""
    count, k = shape(truth)
    ids, distances = array("I"), array("f")
    with truth.open("rb") as f:
        f.seek(HEADER_BYTES + 4 * k * query)
        ids.frombytes(f.read(4 * k))
        f.seek(HEADER_BYTES + 4 * k * (count + query))
        distances.frombytes(f.read(4 * k))
    return ids, distances


def vector(path: Path, row: int) -> array[Any]:
    """A row of a file."""
    found = array(TYPES[path.suffix])
    size = shape(path)[1] * found.itemsize
    with path.open("rb") as f:
        f.seek(HEADER_BYTES + size * row)
        found.frombytes(f.read(size))
    return found


def distance(metric: str, a: array[Any], b: array[Any]) -> float:
    """As truth tells it, less where nearer."""
    if metric == "l2":
        return float(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
    alike = float(sum(x * y for x, y in zip(a, b, strict=True)))
    if metric == "ip":
        return -alike
    norms = [sum(x * x for x in each) ** 0.5 for each in (a, b)]
    return 1.0 - alike / (norms[0] * norms[1] or 1.0)


def made_truth(base: Path, queries: Path, metric: str) -> Path:
    """The cached exact truth of queries."""
    # What makes it looks for sets itself.
    from .pipeann import exact_truth

    k = min(TRUTH_K, shape(base)[0])
    made = {"base": file_identity(base), "queries": file_identity(queries), "metric": metric}
    made["type"] = base.suffix

    def make(folder: Path) -> None:
        exact_truth(base, queries, folder / "truth.bin", k=k, metric=metric)

    return entry("truth", made, make) / "truth.bin"


def folder_of_data() -> Path | None:
    """Where somebody has put sets of his own, if he says so."""
    named = os.environ.get("PIPEANN_DATA")
    return Path(named).resolve() if named else None
