"""Ports on the loopback that nobody listens on."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress

# Below those that the kernel gives to outgoing connections: one of these could be given a port
# between its being found free and its being listened on, or while its server is started again.
LOW, HIGH = 10_000, 32_000
TRIES = 1000


def free_ports(count: int) -> list[int]:
    """Ports that nobody has just now, each another one."""
    drawn = random.SystemRandom()
    found: list[int] = []
    with ExitStack() as stack:
        for _ in range(TRIES):
            if len(found) == count:
                return found
            port = drawn.randrange(LOW, HIGH)
            with suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
    raise SystemExit(f"no {count} ports from {LOW} to {HIGH} are free")


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]
