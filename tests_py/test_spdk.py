"""`--backend spdk` over files that stand in for SSDs, from the command line and from Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ssds import (
    COPIED,
    LAB,
    PIPEANN,
    claimed,
    content,
    copies,
    directories,
    listed,
    run,
    until_copied,
)

from pipeann import Database, Field, Index, errors

INITIALIZED = "SPDK initialized: {} pollers, LBA size 512 bytes"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A working directory with vectors, an index and two claimed devices."""
    more = np.random.default_rng(1).integers(0, 255, (3050, 32), dtype=np.uint8)
    vectors = more[:3000]
    np.save(tmp_path / "more.npy", more)
    np.save(tmp_path / "base.npy", vectors)
    np.save(tmp_path / "queries.npy", vectors[:50])
    Index.build(tmp_path / "index", vectors, metric="l2", degree=24, list_length=32)
    claimed(tmp_path)
    return tmp_path


def search(place: Path, backend: str, *words: str, policy: str = "beam") -> tuple[bytes, str]:
    """Answers as bytes, and what was said."""
    out = place / f"{backend}.bin"
    done = run(
        *("search", "--index", "index", "--queries", "queries.npy", "--list", "40"),
        *("--policy", policy, "--backend", backend, "--out", out, "--buffered", *words),
        cwd=place,
    )
    return out.read_bytes(), done.stderr


@pytest.mark.parametrize("policy", ["beam", "page"])
def test_searches_answer_the_same_and_copy_once(place: Path, policy: str) -> None:
    answers, _ = search(place, "io_uring", policy=policy)
    first, said = search(place, "spdk", policy=policy)
    assert INITIALIZED.format(2) in said and COPIED not in said
    assert "SPDK for vector I/O & io_uring for attribute I/O" in said or "threads for" in said
    devices = content(place)
    again, said = search(place, "spdk", policy=policy)
    assert COPIED in said.splitlines()[-1] or COPIED in said
    assert first == again == answers
    assert devices == content(place)


def test_pages_come_from_the_devices(place: Path) -> None:
    run("raw", "copy", "--index", "index", cwd=place)
    done = run(
        *("search", "--index", "index", "--queries", "queries.npy", "--list", "40", "--json"),
        *("--backend", "spdk", "--buffered"),
        cwd=place,
    )
    found = json.loads(done.stdout)
    assert found["backend"] == "spdk"
    assert all(d["reads"] > 0 and d["writes"] == 0 for d in found["devices"])


def test_status_copy_and_release(place: Path) -> None:
    def status() -> dict[str, object]:
        return json.loads(run("raw", "status", "--json", cwd=place).stdout)

    assert status()["copies"] == [] and status()["lba_bytes"] == 512
    run("raw", "copy", "--index", "index", cwd=place)
    [copy] = status()["copies"]
    assert copy["segment"] == "segment-000000.pages"
    assert "segment-000000.pages" in run("raw", "status", cwd=place).stdout
    assert "gave up 1" in run("raw", "release", "--index", "index", cwd=place).stdout
    assert status()["copies"] == []
    run("raw", "release", cwd=place)
    done = run("raw", "status", cwd=place, ok=False)
    assert "a.raw is not claimed" in done.stderr and "pipeann raw claim" in done.stderr


def test_updates_copy_their_checkpoint(place: Path) -> None:
    run("raw", "copy", "--index", "index", cwd=place)
    done = run(
        *("updates", "insert", "--index", "index", "--base", "more.npy", "--json"),
        *("--backend", "spdk", "--buffered"),
        cwd=place,
    )
    assert json.loads(done.stdout)["checkpoints"] == 1
    held = copies(place)
    assert any(copy["generation"] > 1 for copy in held), held
    assert search(place, "spdk")[0] == search(place, "io_uring")[0]
    assert COPIED in search(place, "spdk")[1]


def test_a_rebuilt_index_is_copied_again(place: Path) -> None:
    search(place, "spdk")
    build = ("build", "--base", "base.npy", "--metric", "l2", "--index", "index", "--overwrite")
    said = run(*build, "--backend", "spdk", cwd=place).stderr
    assert COPIED not in said and "copied" in said
    assert COPIED in search(place, "spdk")[1]
    assert search(place, "spdk")[0] == search(place, "io_uring")[0]


def test_python_reads_from_the_devices(place: Path) -> None:
    queries = np.load(place / "queries.npy")
    files = Index.open(place / "index", direct=False)
    index = Index.open(
        place / "index", direct=False, backend="spdk", spdk_config=place / "spdk_bdevs.json"
    )
    assert index.stats()["backend"] == "spdk"
    for policy in ("beam", "page"):
        for of in zip(index.search(queries, policy=policy), files.search(queries, policy=policy)):
            assert np.array_equal(*of)
    # A second index of the process shares the devices.
    other = Index.open(
        place / "index", direct=False, backend="spdk", spdk_config=place / "spdk_bdevs.json"
    )
    found = [each.search(queries, policy="beam")[0] for each in (other, index)]
    assert np.array_equal(*found)
    with pytest.raises(ValueError, match="absent.json"):
        Index.open(place / "index", backend="spdk", spdk_config=place / "absent.json")


def test_another_process_is_refused_while_one_has_the_devices(place: Path) -> None:
    index = Index.open(
        place / "index", direct=False, backend="spdk", spdk_config=place / "spdk_bdevs.json"
    )
    done = run("raw", "status", cwd=place, ok=False)
    assert "used by another process" in done.stderr
    del index
    run("raw", "status", cwd=place)


@pytest.mark.parametrize(
    ("entries", "others", "said"),
    [
        ([], {}, "empty"),
        (["./a.raw", "./a.raw"], {}, "twice"),
        (["./a.raw"], {"stripe": "4096"}, "stripe"),
        (["./b.raw", "./a.raw"], {}, "is number 2 of its stripe and stands at number 1"),
        (["./a.raw"], {}, "a stripe over 2 devices, and 1 are listed"),
        (["./absent.raw"], {}, "absent.raw"),
        (["nvme0n1"], {}, "nvme0n1"),
    ],
)
def test_lists_that_are_none_are_named(
    place: Path, entries: list[str], others: dict[str, str], said: str
) -> None:
    listed(place, entries, **others)
    words = ("search", "--index", "index", "--queries", "queries.npy", "--backend", "spdk")
    assert said in run(*words, cwd=place, ok=False).stderr


def test_nvme_without_spdk_is_refused_by_name(place: Path) -> None:
    listed(place, ["0000:66:00.0", "0000:67:00.0"])
    words = ("search", "--index", "index", "--queries", "queries.npy", "--backend", "spdk")
    said = run(*words, cwd=place, ok=False).stderr
    assert "0000:66:00.0" in said and "--features spdk" in said and "--backend io_uring" in said


def test_the_list_is_looked_for_in_the_working_directory(place: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    words = ("search", "--index", place / "index", "--queries", place / "queries.npy")
    said = run(*words, "--backend", "spdk", cwd=elsewhere, ok=False).stderr
    assert str(elsewhere / "spdk_bdevs.json") in said and "--spdk-config" in said
    config = place / "spdk_bdevs.json"
    run(*words, "--backend", "spdk", "--spdk-config", config, "--buffered", cwd=elsewhere)


def test_a_foreign_disk_is_never_written(place: Path) -> None:
    with (place / "b.raw").open("r+b") as f:
        f.write(b"XFSB" + os.urandom(8188))
    before = content(place)
    words = ("search", "--index", "index", "--queries", "queries.npy", "--backend", "spdk")
    said = run(*words, cwd=place, ok=False).stderr
    assert "b.raw is not claimed" in said and "an XFS file system" in said
    said = run("raw", "claim", cwd=place, ok=False).stderr
    assert "--overwrite" in said
    assert before == content(place)
    run("raw", "claim", "--overwrite", cwd=place)
    assert COPIED not in search(place, "spdk")[1]


FILL = ("collections", "fill", "--dir", "db", "--base", "base.npy", "--columns", "columns.jsonl")
ASK = ("collections", "search", "--dir", "db", "--queries", "queries.npy", "--list", "100")


def columns(place: Path) -> None:
    """Another file of the rows in `base.npy`: a number of each."""
    lines = [json.dumps([{"name": "n", "data_type": "int64"}])]
    lines += [json.dumps([i % 100]) for i in range(3000)]
    (place / "columns.jsonl").write_text("\n".join(lines))


def test_collections_are_read_from_the_devices(place: Path) -> None:
    columns(place)
    filled = json.loads(run(*FILL, "--build", "--backend", "spdk", cwd=place).stdout)
    assert any(device["writes"] > 0 for device in filled["devices"])
    held = copies(place)
    assert held
    before = content(place)
    for condition in ((), ("--filter", "n<20")):
        found = {}
        for backend in ("spdk", "io_uring"):
            words = (*ASK, *condition, "--backend", backend, "--out", f"{backend}.bin", "--json")
            [line] = run(*words, cwd=place).stdout.splitlines()
            found[backend] = (place / f"{backend}.bin").read_bytes()
            devices = json.loads(line)["devices"]
            assert len(devices) == (2 if backend == "spdk" else 0)
            assert all(device["reads"] > 0 and device["writes"] == 0 for device in devices)
        assert found["spdk"] == found["io_uring"]
    words = ("collections", "reopen", "--dir", "db", "--base", "base.npy", "--rows", "3000")
    assert COPIED in run(*words, "--backend", "spdk", cwd=place).stderr
    assert content(place) == before


def test_the_demo_reads_from_the_devices(place: Path) -> None:
    rng = np.random.default_rng(2)
    data = place / "set"
    data.mkdir()
    for name, rows in (("s.base", 2000), ("s.query", 50)):
        vectors = rng.integers(0, 255, (rows, 16), dtype=np.uint8)
        header = np.array(vectors.shape, dtype=np.uint32).tobytes()
        (data / f"{name}.u8bin").write_bytes(header + vectors.tobytes())
    words = ("--base", "set/s.base.u8bin", "--queries", "set/s.query.u8bin", "--metric", "l2")
    run("gt", *words, "--k", "100", "--out", "set/s.gt100.bin", cwd=place)
    done = run("demo", "--data", "set", "--work", "work", "--backend", "spdk", cwd=place)
    assert "copied" in done.stderr and "pipe" in done.stdout
    assert copies(place)
    config = place / "absent.json"
    words = ("demo", "--data", "set", "--work", "other", "--backend", "spdk")
    said = run(*words, "--spdk-config", config, cwd=place, ok=False).stderr
    assert "absent.json" in said and not (place / "other" / "index").exists()


FIELDS = [
    Field("id", "int64", primary_key=True),
    Field("v", "float_vector", dim=16),
    Field("n", "int64"),
]


def test_a_database_of_python_reads_from_the_devices(place: Path) -> None:
    vectors = np.random.default_rng(3).random((2500, 16), dtype=np.float32)
    queries = vectors[:30] + np.float32(0.001)
    config = place / "spdk_bdevs.json"

    def asked(database: Database) -> list[np.ndarray]:
        collection = database.collection("c")
        found = []
        for condition in (None, "n < 30"):
            hits = collection.search("v", queries, 10, list_length=150, filter=condition)
            found += [np.array([[*of.keys, *of.distances] for of in hits])]
        return found

    empty = directories(place)
    with Database.open(place / "db", backend="spdk", spdk_config=config) as database:
        collection = database.create_collection("c", FIELDS)
        collection.load()
        numbers = np.arange(2500)
        collection.insert({"id": numbers, "v": vectors, "n": numbers % 100})
        collection.create_index("v", metric="l2")
        collection.build_index("v")
        assert collection.wait_for_index("v").linked == 2500
        until_copied(place, empty)
        first = asked(database)
    assert copies(place)
    before = content(place)
    with Database.open(place / "db", backend="spdk", spdk_config=config) as database:
        second = asked(database)
    assert content(place) == before, "what is there is not written again"
    with Database.open(place / "db", backend="io_uring") as database:
        files = asked(database)
    assert first[0].shape == (30, 20)
    for of in zip(first, second, files, strict=True):
        assert all(np.array_equal(of[0], other) for other in of[1:])


def test_a_database_names_what_it_cannot_use(place: Path) -> None:
    for named, words in {
        "absent.json": {"backend": "spdk", "spdk_config": place / "absent.json"},
        "nvme": {"backend": "nvme"},
    }.items():
        with pytest.raises(errors.InputError, match=named):
            Database.open(place / "other", **words)
        assert not (place / "other").exists()


def threads(pid: int) -> dict[str, set[frozenset[int]]]:
    """On which processors the threads of a process may run, by name; what ends meanwhile is left out."""
    found: dict[str, set[frozenset[int]]] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            status = (task / "status").read_text().splitlines()
        except OSError:
            continue
        name = status[0].split()[1]
        [line] = [each for each in status if each.startswith("Cpus_allowed_list:")]
        cpus: set[int] = set()
        for part in line.split(":")[1].strip().split(","):
            first, _, last = part.partition("-")
            cpus |= set(range(int(first), int(last or first) + 1))
        found.setdefault(name, set()).add(frozenset(cpus))
    return found


ALL = frozenset(os.sched_getaffinity(0))
FIRST, BEHIND = frozenset(sorted(ALL)[:1]), frozenset(sorted(ALL)[1:])


@pytest.mark.skipif(len(ALL) < 2, reason="one processor: nothing can be told apart")
@pytest.mark.parametrize("pin", ["on", "off"])
def test_pollers_come_first_and_threads_of_a_load_behind_them(place: Path, pin: str) -> None:
    (place / "c.raw").write_bytes(b"")
    os.truncate(place / "c.raw", 16 << 20)
    listed(place, ["./c.raw"], pin=pin)
    run("raw", "claim", cwd=place)
    words = ("updates", "insert", "--index", "index", "--base", "more.npy", "--discard")
    words += ("--backend", "spdk", "--buffered", "--rate", "20")
    command = [str(word) for word in (LAB, *words)]
    with subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL) as process:
        seen: dict[str, set[frozenset[int]]] = {}
        # Until it has linked for some time, or has ended.
        while process.poll() is None:
            for name, cpus in threads(process.pid).items():
                seen.setdefault(name, set()).update(cpus)
            time.sleep(0.01)
        assert process.returncode == 0
    # A thread is where its parent was until it has pinned itself.
    assert "raw-poller-0" in seen and seen["raw-poller-0"] >= {FIRST if pin == "on" else ALL}
    # Of threads without a name of their own the first is not pinned, and those that link are.
    linked = seen[LAB.name] - {ALL}
    assert linked == ({BEHIND} if pin == "on" and BEHIND != ALL else set()), seen
    every = set().union(*seen.values())
    assert pin == "on" or every == {ALL}


def test_fewer_processors_than_pollers_are_a_warning(place: Path) -> None:
    listed(place, ["./a.raw", "./b.raw"], pin="on")
    words = ("search", "--index", "index", "--queries", "queries.npy", "--list", "40")
    words += ("--policy", "beam", "--backend", "spdk", "--buffered", "--out", "one.bin")
    # It keeps to a processor and becomes the command; `limits` says why not between fork and exec.
    keep = f"import os, sys; os.sched_setaffinity(0, {set(FIRST)}); "
    keep += "os.execv(sys.argv[1], sys.argv[1:])"
    command = [str(word) for word in (sys.executable, "-S", "-c", keep, PIPEANN, *words)]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "2 pollers on 1 processors: they share them" in done.stderr
    assert (place / "one.bin").read_bytes() == search(place, "io_uring")[0]
