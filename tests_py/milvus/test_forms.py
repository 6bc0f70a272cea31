"""Every public method of pymilvus's clients, in the forms in which programs write them: in the
process and against a server, with each supported version. `forms` has what is called."""

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pymilvus
import pytest

from forms import scene, words
from forms.listed import DIFFERENCES
from forms.versions import ROOT, VERSIONS, all_forms, environment


@pytest.fixture(scope="module")
def summaries() -> dict[str, Any]:
    """What came of all forms, by version."""

    def python(version: str) -> Path:
        installed = pymilvus.__version__.startswith(f"{version}.")
        return Path(sys.executable) if installed else environment(version)

    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    binary = target / "debug" / "pipeann"
    assert binary.is_file(), f"{binary} is missing; `cargo build --package pipeann-cli` makes it"
    # The package as it was installed for these tests; its native part is for any CPython.
    found = all_forms(binary, ROOT / "python", [python(version) for version in VERSIONS])
    return dict(zip(VERSIONS, found, strict=True))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_form_answers_alike_in_the_process_and_on_a_server(
    summaries: dict[str, Any], version: str
) -> None:
    found = summaries[version]
    assert found["version"].startswith(version)
    assert found["not_listed"] == [], "methods and types that the lists of `forms` lack"
    assert found["hangs"] == []
    assert found["waited"] == [], "what is not served says so at once"
    assert found["served_after_all"] == found["never_served"] == []
    assert found["disagreements"] == [], "\n".join(found["disagreements"][:5])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_older_interface_is_served_or_refused_at_once(
    summaries: dict[str, Any], version: str
) -> None:
    found = summaries[version]["orm"]
    assert found["not_listed"] == []
    assert found["hangs"] == []
    assert found["wrong"] == []
    assert found["waited"] == []
    assert found["forms"] > 290


def test_forms_are_many_and_differences_few(summaries: dict[str, Any]) -> None:
    assert sum(found["forms"] for found in summaries.values()) > 6000
    assert len(DIFFERENCES) <= 20
    met = {reason for found in summaries.values() for reason in found["differences"]}
    assert met == {known.reason for known in DIFFERENCES}, "a difference that is gone is listed"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Optional[Union[List[list], list]]", {"list[list]", "list", "none"}),
        ("``List[Dict[str, any]]``", {"list[dict]"}),
        ("list, str, int, optional", {"list", "str", "int"}),
        (
            "FunctionChain or List[FunctionChain], optional",
            {"FunctionChain", "list[FunctionChain]"},
        ),
        ("``string``", {"str"}),
    ],
)
def test_types_are_read_from_docstrings(said: str, meant: set[str]) -> None:
    assert words.of_text(said) == meant


def test_waits_are_those_of_the_thread_that_calls() -> None:
    class Client:
        def ask_again(self) -> None:
            scene.note_wait()

        async def wait(self) -> None:
            scene.note_wait()

        def close(self) -> None:
            pass

    door, before = scene.Door(Client, Client, Client()), scene.waits()
    door.outcome("sync", "ask_again", [], {})
    door.outcome("async", "wait", [], {})
    assert (door.waits, scene.waits()) == (2, before)
    door.close()


def test_a_call_that_never_returns_is_told_and_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Client:
        async def hang(self) -> None:
            threading.Event().wait()

        def answer(self) -> int:
            return 7

        def close(self) -> None:
            pass

    monkeypatch.setattr(scene, "LIMIT", 0.2)
    door = scene.Door(Client, Client, Client())
    assert door.outcome("async", "hang", [], {}) == scene.HUNG
    assert door.outcome("sync", "answer", [], {}) == ("returned", ("int", 7))
    door.close()
