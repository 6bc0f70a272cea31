"""Which machine this is and which day, as figures are told with them."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path


def machine() -> str:
    """The processor and how many of its cores this process may use."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    kind = found.group(1) if found else platform.machine()
    return f"{kind}, {len(os.sched_getaffinity(0))} cores"


def today() -> str:
    """The date of a measurement."""
    return time.strftime("%Y-%m-%d")
