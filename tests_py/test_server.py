"""The launcher finds the server in the order that it names."""

import os
import stat
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


@pytest.mark.parametrize("program_name", ["pipeann-server", server.SERVER])
def test_the_package_is_a_server_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program_name: str
) -> None:
    """Without any program, in a directory of its own, with a file of flags."""
    if program_name == server.SERVER:
        (tmp_path / "data").mkdir(mode=0o755)
    (tmp_path / "server.toml").write_text(
        f'data_dir = "{tmp_path / "data"}"\nhost = "127.0.0.1"\nport = 0\n'
    )
    entry = "main" if program_name == "pipeann-server" else "serve_here"
    script = (
        "import sys, pipeann.server as s; s._folders = lambda: iter([]);"
        f"sys.argv[1:] = ['--config', 'server.toml']; s.{entry}()"
    )
    environment = {"PATH": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on 127.0.0.1:")
        process.terminate()
        assert process.wait(timeout=30) == 0
    catalog = tmp_path / "data" / "CATALOG"
    assert catalog.is_file()
    # Rows and hashes of passwords are for the server alone.
    assert stat.S_IMODE(catalog.stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE(catalog.parent.stat().st_mode) == 0o700


def test_a_wrong_flag_is_refused_as_the_program_does(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "import sys, pipeann.server as s; sys.argv[1:] = ['--prot', '1'];"
         " s.serve_here()"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 2
    assert "--prot" in ran.stderr


@pytest.mark.parametrize("called", ["pipeann-server", server.SERVER])
def test_the_server_calls_itself_as_it_was_called(called: str) -> None:
    script = (
        "import sys, pipeann.server as s; s._folders = lambda: iter([]);"
        f"sys.argv[:] = ['/bin/{called}', '--help']; s.main()"
    )
    environment = {"PATH": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert f"Usage: {called} " in ran.stdout
