"""Files that stand in for the SSDs of `--backend spdk`, claimed for one job."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from . import places
from .pipeann import program
from .processes import Row, json_lines


class Stripe:
    """So many files in a folder, and their list."""

    def __init__(self, folder: Path, devices: int, device_bytes: int) -> None:
        names = [f"./ssd{i}.raw" for i in range(devices)]
        for name in names:
            with (folder / name).open("wb") as f:
                f.truncate(device_bytes)
        self.files = [folder / name for name in names]
        self.config = folder / "spdk_bdevs.json"
        self.config.write_text(json.dumps({"ssds": names, "hugedir": "/dev/hugepages"}))

    def claim(self, stripe_bytes: int = 64 << 10) -> None:
        """Take the devices, with turns of so many bytes."""
        self.raw("claim", "--stripe", str(stripe_bytes))

    def raw(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`pipeann raw` about these devices; it must succeed."""
        command = [str(program()), "raw", *words, "--spdk-config", str(self.config)]
        return subprocess.run(command, check=True, capture_output=True, text=True)

    def status(self) -> Row:
        """What the devices hold."""
        command = [program(), "raw", "status", "--json", "--spdk-config", self.config]
        return json_lines(command)[-1]


@contextmanager
def stripe_of(devices: int, device_bytes: int) -> Iterator[Stripe]:
    """A claimed stripe over files beside the cache, gone afterwards."""
    with TemporaryDirectory(dir=places.cache(), prefix="stripe-") as folder:
        stripe = Stripe(Path(folder), devices, device_bytes)
        stripe.claim()
        yield stripe
