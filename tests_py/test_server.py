"""The launcher finds the server in the order that it names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeann import server


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho {says} "$@"\n')
    path.chmod(0o755)
    return path


def test_the_named_program_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = program(tmp_path / "own" / "pipeann", "named")
    monkeypatch.setenv(server.VARIABLE, str(named))
    assert server.command() == [str(named), "serve"]
    monkeypatch.setenv(server.VARIABLE, str(tmp_path / "nothing"))
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "nothing")):
        server.command()


def test_the_path_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = program(tmp_path / "bin" / server.SERVER, "found")
    monkeypatch.delenv(server.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(found.parent))
    monkeypatch.setattr(server, "_folders", lambda: iter([tmp_path / "package"]))
    assert server.command() == [str(found)]
    packaged = program(tmp_path / "package" / server.COMMAND, "packaged")
    assert server.command() == [str(packaged), "serve"]


def test_arguments_are_passed_on(tmp_path: Path) -> None:
    named = program(tmp_path / "pipeann", "serving")
    environment = {**os.environ, server.VARIABLE: str(named)}
    arguments = ["--data_dir", "./data", "--port", "19530", "--threads", "8"]
    ran = subprocess.run(
        [sys.executable, "-m", "pipeann.server", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == ["serving", "serve", *arguments]
