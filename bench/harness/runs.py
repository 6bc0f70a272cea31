"""One run: whatever happens in it, what it started ends, and it says whether the figure holds."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from . import processes
from .curves import OutOfRange
from .verdict import Verdict


class Ended(KeyboardInterrupt):
    """Somebody ended the run by a signal: no error of what is measured."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


def ended(number: int, _: FrameType | None) -> None:
    """Leaves whatever is under way."""
    raise Ended(number)


@contextmanager
def noted(verdict: Verdict, what: str) -> Iterator[None]:
    """An error of any kind becomes a problem of the verdict, and what follows goes on."""
    try:
        yield
    except (OutOfRange, SystemExit) as reason:
        verdict.problems.append(f"{what}: {reason}")
    except Exception as reason:
        traceback.print_exc()
        verdict.problems.append(f"{what}: {type(reason).__name__}: {reason}")


def concluded(name: str, measure: Callable[[Verdict], None]) -> int:
    """Measures, ends all that was started and is still there, prints the verdict, and returns the
    exit code."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        signal.signal(number, ended)
    processes.begin_run()
    verdict, code = Verdict(), None
    try:
        with noted(verdict, name):
            measure(verdict)
    except Ended as reason:
        verdict.problems.append(str(reason))
        code = 128 + reason.number
    # One signal is enough.
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
    processes.end_started()
    for problem in verdict.problems:
        print(f"problem: {problem}")
    print(f"\n{verdict.line(name)}", flush=True)
    return code if code is not None else int(not verdict.holds)
