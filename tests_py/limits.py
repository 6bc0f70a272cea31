"""A command whose files may grow to a limit and no further.

It limits itself and becomes the command: limits set between fork and exec run what gRPC, which clients
have loaded, does in a forked process, and end it at times.
"""

from __future__ import annotations

import os
import resource
import signal
import sys


def limited(command: list[str], limit: int, *, told: bool) -> list[str]:
    """Words that run a command: beyond the limit in bytes a write fails where it is `told`, or else the
    process dies."""
    return [sys.executable, "-S", __file__, str(limit), "told" if told else "dies", *command]


def main() -> None:
    limit, at_limit, *command = sys.argv[1:]
    # Python ignores the signal of the limit, and what it becomes does so too unless it is told not to.
    ends = signal.SIG_IGN if at_limit == "told" else signal.SIG_DFL
    signal.signal(signal.SIGXFSZ, ends)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
