"""Runs all forms with whatever pymilvus is installed, and prints a line of JSON."""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import logging
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pymilvus

import pipeann
from forms import orm, run, scene
from forms.scene import Door

# pymilvus waits half a second between looks at what takes milliseconds here.
_LONGEST_SLEEP = 0.005


def _wait_less() -> None:
    """Cuts pymilvus's waits short, and counts them; what waits for ever still does."""
    sleep, sleep_async = time.sleep, asyncio.sleep

    def shorter(seconds):
        scene.note_wait()
        sleep(min(seconds, _LONGEST_SLEEP))

    def shorter_async(delay, *rest):
        # Without a delay it lets others run, and waits for nothing.
        if delay > 0:
            scene.note_wait()
        return sleep_async(min(delay, _LONGEST_SLEEP), *rest)

    time.sleep, asyncio.sleep = shorter, shorter_async


@contextlib.contextmanager
def serving(binary: Path, data: Path) -> Iterator[str]:
    """Host and port of a server with an empty database."""
    command = [binary, "serve", "--data_dir", data, "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline().split()
        assert said[:2] == ["listening", "on"], said
        try:
            yield said[2]
        finally:
            process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(prog="forms", description=__doc__)
    parser.add_argument("--binary", type=Path, required=True, help="the command pipeann")
    parser.add_argument("--only", default="", help="methods whose names have this in them")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    # The server and the databases go first.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    _wait_less()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = stack.enter_context(serving(args.binary, folder / "served"))
        uri, here = f"http://{address}", str(folder / "here")
        # Early clients of one address share a connection, which one of them closes for all; later
        # ones share what they remember of collections.
        early = pymilvus.__version__.startswith("2.5.")
        aside = f"http://localhost:{address.rpartition(':')[2]}" if early else uri
        doors = [
            Door(
                lambda: pipeann.MilvusClient(here),
                lambda: pipeann.AsyncMilvusClient(here),
                pipeann.MilvusClient(here),
            ),
            Door(
                lambda: pymilvus.MilvusClient(uri=uri),
                lambda: pymilvus.AsyncMilvusClient(uri=uri),
                pymilvus.MilvusClient(uri=aside),
            ),
        ]
        summary = {}
        if args.only != "orm":
            summary = dataclasses.asdict(run.run(*doors, args.only))
        if args.only in ("", "orm"):
            summary["orm"] = dataclasses.asdict(orm.run(doors[1], address))
        print(json.dumps(summary), flush=True)
        # A call that hangs would keep the process from ending.
        for door in doors:
            door.close()


if __name__ == "__main__":
    main()
