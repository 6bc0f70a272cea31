"""The first steps of users of other SDKs and of LangChain, each by a program in tests_sdk.

A program runs wherever its tools are installed, and is skipped nowhere else. What it needs beside
them comes from the registry of its language, in pinned versions, into the build tree.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from forms.versions import look_here_as_well

ROOT = Path(__file__).resolve().parents[2]
# A first run downloads the SDK, and Go compiles it.
PATIENCE_S = 900
MAVEN = ("mvn", "--quiet", "--batch-mode", "--define=style.color=never")


@dataclass(frozen=True)
class Program:
    """How a program is made ready and run, and which of its steps is the last; whether it has an
    environment of Python of its own, in `venv`."""

    name: str
    tools: tuple[str, ...]
    prepare: tuple[tuple[str, ...], ...]
    run: tuple[str, ...]
    last: str = "refusals"
    venv: bool = False


PROGRAMS = [
    Program(
        "go",
        tools=("go",),
        prepare=(("go", "build", "-o", "first_contact", "."),),
        run=("./first_contact", "{address}"),
    ),
    Program(
        "java",
        tools=("javac", "mvn"),
        prepare=((*MAVEN, "compile"),),
        run=(*MAVEN, "exec:exec", "-Daddress={address}"),
    ),
    Program(
        "node",
        tools=("node", "npm"),
        prepare=(("npm", "ci", "--ignore-scripts"),),
        run=("node", "first_contact.mjs", "{address}"),
    ),
    # In an environment of its own: it wants another pymilvus than the one that is tested here.
    Program(
        "langchain",
        tools=(),
        prepare=(("venv/bin/pip", "install", "--quiet", "--requirement", "requirements.txt"),),
        run=("venv/bin/python", "first_contact.py", "{address}"),
        last="from_texts",
        venv=True,
    ),
]


def workshop(name: str) -> Path:
    """A copy of the program in the build tree, where its tools may leave what they make."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    copy = target / "sdk" / name
    shutil.copytree(ROOT / "tests_sdk" / name, copy, dirs_exist_ok=True)
    return copy


def succeed(command: tuple[str, ...], folder: Path) -> str:
    """What a command says, if it succeeds."""
    done = subprocess.run(
        command, cwd=folder, timeout=PATIENCE_S, capture_output=True, text=True, check=False
    )
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{said}"
    return done.stdout


def missing_tool(program: Program) -> str | None:
    """What would have to be installed."""
    return next((tool for tool in program.tools if shutil.which(tool) is None), None)


def make_ready(program: Program) -> Path:
    """The folder in which a program can run."""
    folder = workshop(program.name)
    if program.venv:
        succeed((sys.executable, "-m", "venv", "venv"), folder)
        look_here_as_well(folder / "venv")
    for command in program.prepare:
        succeed(command, folder)
    return folder


@pytest.fixture(scope="module")
def folders() -> Iterator[dict[str, Future[Path]]]:
    """Where the programs are ready; they are prepared side by side, since much of it is waiting."""
    with ThreadPoolExecutor() as side_by_side:
        able = [program for program in PROGRAMS if missing_tool(program) is None]
        yield {program.name: side_by_side.submit(make_ready, program) for program in able}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_first_contact(program: Program, address: str, folders: dict[str, Future[Path]]) -> None:
    if tool := missing_tool(program):
        pytest.skip(f"{tool} is not installed, so the {program.name} SDK is not tried")
    command = tuple(word.format(address=address) for word in program.run)
    said = succeed(command, folders[program.name].result())
    assert f"{program.last} passed" in said, said
