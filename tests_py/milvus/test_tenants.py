"""Nobody reaches what he was not granted, and nobody is refused what he was."""

import os
import subprocess
from pathlib import Path

import tenants

ROOT = Path(__file__).resolve().parents[2]


def test_each_call_as_each_role_on_own_and_foreign_collections(tmp_path: Path) -> None:
    binary = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "pipeann"
    command = [binary, "serve", "--data_dir", tmp_path, "--host", "127.0.0.1", "--port", "0"]
    command.append("--authorization")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline().split()
        assert said[:2] == ["listening", "on"], said
        try:
            found = tenants.measure_all(f"http://{said[2]}")
        finally:
            process.terminate()
        assert process.wait(timeout=30) == 0
    assert found.served >= 70 and found.tried > 1000, found
    assert found.reached == []
    assert found.refused == []
    # With nothing left to the role `public`, names of others are those of nothing.
    assert found.asked_unseen > 400, found
    assert found.shown == []
    assert found.kept_back == []
