"""Calls of the older interface, each on a thread of its own, within a limit; what came of them."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from forms import scene


@dataclass
class Summary:
    """What came of it."""

    forms: int = 0
    hangs: list[str] = field(default_factory=list)
    not_listed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    # Refusals that were not said at once.
    waited: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ended:
    """How a call ended, and how often it waited."""

    error: Exception | None
    waits: int


def take(form: str, call: Callable[[], Any], served: bool, summary: Summary) -> None:
    """Calls, and notes what should not have come of it."""
    ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()

    def run() -> None:
        before, error = scene.waits(), None
        try:
            call()
        except Exception as raised:
            error = raised
        ended.put(Ended(error, scene.waits() - before))

    summary.forms += 1
    began = time.monotonic()
    threading.Thread(target=run, daemon=True).start()
    try:
        found = ended.get(timeout=scene.LIMIT)
    except queue.Empty:
        summary.hangs.append(f"{form}: {time.monotonic() - began:.0f} s")
        return
    if served and found.error is not None:
        summary.wrong.append(f"{form}: {type(found.error).__name__}: {found.error}")
    elif not served and found.error is None:
        summary.wrong.append(f"{form}: returned, and is listed as refused")
    elif not served and found.waits:
        summary.waited.append(f"{form}: waited {found.waits} times")
