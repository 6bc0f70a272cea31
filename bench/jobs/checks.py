"""What CI leaves out: longer fuzzing, and what others have published since."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from harness import places, toml
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

# The last line of `cargo xtask fuzz`: crashes of all targets, the largest share of a bound.
TOTALS = re.compile(r"^crashes (\d+) largest_share ([\d.]+)$", re.MULTILINE)
DENY = "cargo-deny@0.20.2"


def take_fuzz(job: Job, verdict: Verdict) -> None:
    """Each target from its seeds and what was found before, with another chance each time."""
    fuzz(job.settings["seconds"], job.only.split(",") if job.only else [], verdict)


def fuzz(seconds: int, targets: list[str], verdict: Verdict) -> None:
    """Fuzzes the targets of these names, or all."""
    command = ["cargo", "xtask", "fuzz", "--seconds", str(seconds), "--seed", "0", *targets]
    ended = subprocess.run(command, cwd=places.REPO, stdout=subprocess.PIPE, text=True)
    print(ended.stdout, end="")
    totals = TOTALS.search(ended.stdout)
    if totals is None:
        verdict.problems.append("the fuzzer did not come to its end")
        return
    verdict.add("crashes", Check(int(totals[1]), 0))
    verdict.add("bytes allocated over the bound", Check(float(totals[2]), 1.0))
    # A planted fault that was not found fails it too.
    verdict.add("exit", Check(ended.returncode, 0))


def take_advisories(_job: Job, verdict: Verdict) -> None:
    """Advisories and withdrawn versions among what is depended on; needs the network."""
    root = places.cache() / "tools" / DENY.replace("@", "-")
    program = root / "bin" / "cargo-deny"
    if not program.exists():
        install = ["cargo", "install", "--quiet", "--locked", "--debug", "--root", root, DENY]
        subprocess.run(install, cwd=places.REPO, check=True, stdout=sys.stderr)
    ended = subprocess.run([program, "check", "advisories"], cwd=places.REPO)
    verdict.add("findings", Check(ended.returncode, 0))


def test_packages() -> list[str]:
    """What the tests of the package need beside pymilvus, as the extra `test` has it."""
    text = toml.read(places.REPO / "pyproject.toml")
    wanted = text["project"]["optional-dependencies"]["test"]
    return [package for package in wanted if not package.startswith("pymilvus")]


def take_newest_pymilvus(job: Job, verdict: Verdict) -> None:
    """The package's tests of Milvus clients with the newest pymilvus that there is."""
    home = places.cache() / "newest-pymilvus"
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    subprocess.run([*pip, "maturin>=1.9.4,<2", *test_packages()], check=True)
    environment = {**os.environ, "VIRTUAL_ENV": str(home)}
    build = ["cargo", "build", "--quiet", "--locked", "--package", "pipeann-cli"]
    subprocess.run(build, cwd=places.REPO, check=True)
    develop = [home / "bin" / "maturin", "develop", "--quiet", "--locked"]
    subprocess.run(develop, cwd=places.REPO, env=environment, check=True)
    # Last, since the package has a bound of its own.
    subprocess.run([*pip, "pymilvus"], check=True)
    told = [python, "-c", "from importlib.metadata import version as v; print(v('pymilvus'))"]
    newest = subprocess.run(told, check=True, capture_output=True, text=True).stdout.strip()
    print_table("newest-pymilvus", ["pymilvus"], [[newest]])
    tests = [Path("tests_py") / name for name in job.settings["tests"]]
    ended = subprocess.run([python, "-m", "pytest", *tests], cwd=places.REPO)
    verdict.add(f"tests fail with pymilvus {newest}", Check(ended.returncode, 0))
