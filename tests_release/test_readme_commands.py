"""What README, CONTRIBUTING and the guide tell people to type, run once each, optimised.

The rest of the tests run what is compiled with assertions; an optimised build is another program.
`make optimised-test` builds one quickly and runs these, `make release-test` with what is shipped. A
command that these pages gain in a block of `sh` fails until it is listed here.
"""

import json
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROGRAM = Path(os.environ.get("PIPEANN_TESTED", TARGET / "release" / "pipeann"))
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *GUIDE]
ROWS, DIM = 2000, 16

# Commands of these pages that are tried elsewhere, or are these tests themselves.
ELSEWHERE = {
    "make run": "test_the_demo_answers runs its command",
    "make test": "runs everything",
    "make quick": "parts of make lint",
    "make python": "compiles the package, whose tests run on the other build",
    "make bench NAME=...": "tested in bench/tests",
    "cargo install --locked --path crates/cli": "make release-test builds the same",
    "cargo test --workspace": "a part of make test",
    "cargo xtask architecture": "a test of xtask",
    "cargo xtask words": "a test of xtask",
    "cargo xtask links": "a test of xtask",
    "cargo xtask features": "a test of xtask",
    "cargo xtask fuzz": "a part of make test",
}
# One after the other.
OF_DATABASES = [
    "pipeann db load my.db docs base.fbin --create l2",
    "pipeann db info my.db",
    "pipeann db verify my.db",
    "pipeann db backup my.db backup-1",
    "pipeann db backup my.db backup-2 --since backup-1",
    "pipeann db restore backup-2 other.db",
]
HERE = {
    *OF_DATABASES,
    "pipeann build --base base.fbin --index my.index --metric l2",
    "pipeann gt --base base.fbin --queries queries.fbin --k 10 --metric l2 --out truth.bin",
    "pipeann search --index my.index --queries queries.fbin --k 10 --truth truth.bin",
    "pipeann-server --data_dir ./data --host 127.0.0.1",
}


def typed() -> Iterator[str]:
    """Commands in the blocks of shell, without what is said about them."""
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            for line in block.splitlines():
                yield " ".join(line.split("#")[0].split())


def fbin(path: Path, rows: int, first: int) -> None:
    """Vectors that a generator of fixed numbers makes, in clusters."""
    values, state = [], first
    for row in range(rows):
        for component in range(DIM):
            state = (state * 1103515245 + 12345) % 2**31
            values.append(float((row * 7919 + component * 31) % 64) + state / 2**31)
    path.write_bytes(struct.pack(f"<II{len(values)}f", rows, DIM, *values))


def disk_index(path: Path, rows: int, degree: int) -> None:
    """A ring of u8 vectors as DiskANN 0.7 lays it out."""
    node = DIM + 4 * (degree + 1)
    in_sector = 4096 // node
    length = 4096 * (1 + -(-rows // in_sector))
    image = bytearray(length)
    numbers = [rows, DIM, 3, node, in_sector, 0, 0, 0, length]
    struct.pack_into("<II9Q", image, 0, 9, 1, *numbers)
    for row in range(rows):
        vector = [(row * 13 + component * 7) % 251 for component in range(DIM)]
        edges = [(row + 1 + edge**3) % rows for edge in range(degree)]
        at = 4096 * (1 + row // in_sector) + row % in_sector * node
        struct.pack_into(f"<{DIM}B{1 + degree}I", image, at, *vector, degree, *edges)
    path.write_bytes(image)


def run(place: Path, command: str) -> str:
    """What a command of the program prints; it has to succeed."""
    name, *words = shlex.split(command)
    assert name == "pipeann"
    argv = [PROGRAM, *words]
    ended = subprocess.run(argv, cwd=place, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, f"{command}: {ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with vectors, their index and the exact answers, by the pages' commands."""
    assert PROGRAM.is_file(), f"{PROGRAM} is missing; `make optimised-test` builds one"
    place = tmp_path_factory.mktemp("readme")
    fbin(place / "base.fbin", ROWS, 1)
    fbin(place / "queries.fbin", 20, 5)
    for command in sorted(HERE):
        if command.split()[:2] in (["pipeann", "build"], ["pipeann", "gt"]):
            run(place, command)
    return place


def test_every_command_is_known() -> None:
    assert set(typed()) == HERE | set(ELSEWHERE)


def test_searches_find_what_is_nearest(place: Path) -> None:
    command = next(command for command in HERE if command.startswith("pipeann search"))
    found = json.loads(run(place, command + " --json").splitlines()[0])
    assert found["recall"] >= 0.95


@pytest.mark.parametrize(
    "options", ["--memory 1GiB --search-memory 512MiB", "--codes rabitq", "--metric cosine"]
)
def test_builds_take_the_options_that_are_named(place: Path, options: str) -> None:
    metric = "" if "--metric" in options else "--metric l2"
    run(place, f"pipeann build --base base.fbin --index other.index --overwrite {metric} {options}")
    assert "rows" in run(place, "pipeann inspect --index other.index --verify")


@pytest.mark.parametrize("limit", ["floor", "64MiB", "all"])
def test_searches_take_every_kind_of_limit(place: Path, limit: str) -> None:
    command = f"pipeann search --index my.index --queries queries.fbin --memory-limit {limit}"
    assert run(place, command)


def test_estimates_are_made_without_data(place: Path) -> None:
    told = json.loads(run(place, "pipeann estimate --rows 1000000 --dim 128 --type u8 --json"))
    assert told


def test_a_database_is_loaded_checked_backed_up_and_restored(place: Path) -> None:
    for command in OF_DATABASES:
        run(place, command)
    told = json.loads(run(place, "pipeann db info other.db --json"))
    assert f'"rows": {ROWS}' in json.dumps(told)


def test_an_index_of_diskann_is_imported(place: Path) -> None:
    disk_index(place / "ann_disk.index", 300, 8)
    run(place, "pipeann import-diskann --from ann --index taken.index --metric l2 --type u8")
    run(place, "pipeann inspect --index taken.index --verify")


def test_the_demo_answers(place: Path) -> None:
    """On data that are made here, of which the demo of `make run` needs nothing else."""
    data = place / "vectors"
    data.mkdir()
    for name, rows in (("base", ROWS), ("query", 20)):
        places = ((row, c) for row in range(rows) for c in range(DIM))
        values = bytes((row * 101 + c * 31 + row * c) % 251 for row, c in places)
        (data / f"small.{name}.u8bin").write_bytes(struct.pack("<II", rows, DIM) + values)
    files = "--base vectors/small.base.u8bin --queries vectors/small.query.u8bin"
    run(place, f"pipeann gt {files} --k 100 --metric l2 --out vectors/small.gt100.bin")
    shown = run(place, "pipeann demo --data vectors --work work --buffered")
    assert "recall@10" in shown and "pipeann search" in shown


@contextmanager
def serving(command: list[str | Path], place: Path) -> Iterator[str]:
    """The address of a server, which ends when it is told to."""
    environment = {**os.environ, "PIPEANN_SERVER_BIN": str(PROGRAM)}
    command = [*command, "--port", "0", "--metrics_port", "0"]
    out = subprocess.PIPE
    with subprocess.Popen(command, cwd=place, env=environment, stdout=out, text=True) as server:
        try:
            assert server.stdout is not None
            said = server.stdout.readline().split()
            assert said[:2] == ["listening", "on"], said
            yield said[2]
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=30) == 0


FLAGS = next(command for command in HERE if command.startswith("pipeann-server")).split()[1:]


@pytest.mark.parametrize(
    "command", [[PROGRAM, "serve"], [sys.executable, "-m", "pipeann.server"]], ids=["serve", "-m"]
)
def test_a_server_answers_a_stock_client(place: Path, command: list[str | Path]) -> None:
    pymilvus = pytest.importorskip("pymilvus")
    with serving([*command, *FLAGS], place) as address:
        client = pymilvus.MilvusClient(uri=f"http://{address}")
        if client.has_collection("demo"):
            client.drop_collection("demo")
        client.create_collection("demo", dimension=8)
        client.insert("demo", [{"id": 1, "vector": [0.1] * 8, "text": "hello"}])
        found = client.search("demo", data=[[0.1] * 8], limit=5, output_fields=["text"])
        assert found[0][0]["entity"]["text"] == "hello"
        client.close()
