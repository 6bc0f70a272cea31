"""The doors work beside other versions of pymilvus than the one that the other tests use."""

import os
import subprocess
from pathlib import Path

import pytest

from forms.versions import environment

ROOT = Path(__file__).resolve().parents[2]
# What is written for any version: how both doors answer, and what the specification shows.
TESTS = [
    "in_process/test_contract.py",
    "in_process/test_declaring.py",
    "in_process/test_imports.py",
    "in_process/test_snippets.py",
    "milvus/test_quick_start.py",
]


@pytest.mark.parametrize("version", ["2.5", "3.0"])
def test_the_doors_answer_another_version_alike(version: str) -> None:
    python = environment(version)
    tests = [str(ROOT / "tests_py" / name) for name in TESTS]
    # The package as it was installed for these tests; its native part is for any CPython.
    variables = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    ended = subprocess.run(
        [python, "-m", "pytest", *tests],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
    assert "skipped" not in ended.stdout.splitlines()[-1]
