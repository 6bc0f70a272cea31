"""Runs that end as they should not: their last line, exit code, and what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import clusters, ports, processes, sets
from harness.curves import OutOfRange
from harness.verdict import Check, Verdict
from jobs import catalogue

BENCH = Path(__file__).resolve().parents[1]
# A run whose script starts a server, says so, and waits for both.
SCRIPT = """
import subprocess, sys
server = subprocess.Popen(["sleep", "600"])
print(server.pid, file=sys.stderr, flush=True)
open(sys.argv[1], "w").write(str(server.pid))
server.wait()
"""
RUN = """
import sys
sys.path.insert(0, {bench!r})
from harness import processes
from harness.runs import concluded
def measure(verdict):
    processes.json_lines([sys.executable, "-c", {script!r}, {told!r}])
sys.exit(concluded("figure", measure))
"""


class Errors(unittest.TestCase):
    """A job that fails on some of its sets."""

    def run_on(self, *reasons: BaseException | None) -> tuple[Verdict, str]:
        """A job on as many sets, each of which fails in a way of its own or does not."""
        names = [f"set {i}" for i in range(len(reasons))]
        job = replace(catalogue.job("reads"), sets=names, sides=())
        failing = dict(zip(names, reasons, strict=True))

        def take(_: catalogue.Job, vectors: sets.VectorSet, verdict: Verdict) -> None:
            if reason := failing[vectors.name]:
                raise reason
            verdict.add("reads", Check(20, 22))

        def vectors(_: catalogue.Job, name: str) -> sets.VectorSet:
            return sets.VectorSet(name, Path("b"), Path("q"), Path("t"), 32)

        with (
            mock.patch.object(catalogue.Job, "code", lambda _: take),
            mock.patch.object(catalogue.Job, "vectors", vectors),
            redirect_stdout(StringIO()),
            redirect_stderr(StringIO()) as said,
        ):
            return job.run(names), said.getvalue()

    def test_any_error_on_a_set_is_a_problem_and_the_others_go_on(self) -> None:
        reasons = (OutOfRange("no list"), SystemExit("no data"), KeyError("qps"), AssertionError())
        verdict, said = self.run_on(*reasons, None)
        self.assertEqual(verdict.line("reads"), "reads 20 <=22 short")
        self.assertEqual(verdict.problems[0], "reads on set 0: no list")
        self.assertEqual(verdict.problems[1], "reads on set 1: no data")
        self.assertEqual(verdict.problems[2], "reads on set 2: KeyError: 'qps'")
        # Where in the code is told of what nobody has foreseen.
        self.assertIn("Traceback", said)

    def test_a_set_without_an_error_holds(self) -> None:
        verdict, _ = self.run_on(None)
        self.assertTrue(verdict.holds)

    def test_who_ends_a_run_ends_it(self) -> None:
        with self.assertRaises(KeyboardInterrupt):
            self.run_on(KeyboardInterrupt(), None)


class Ends(unittest.TestCase):
    """Whole runs."""

    def last_line(self, *words: str, **environment: str) -> tuple[str, int]:
        """How `bench/run` ends."""
        ended = subprocess.run(
            [sys.executable, BENCH / "run", *words],
            capture_output=True,
            text=True,
            env=os.environ | environment,
            timeout=60,
        )
        return ended.stdout.splitlines()[-1], ended.returncode

    def test_an_unknown_figure_or_set_ends_with_the_named_line(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            places = {"PIPEANN_DATA": folder, "PIPEANN_CACHE": folder}
            self.assertEqual(self.last_line("none", **places), ("none - - short", 1))
            ended = self.last_line("reads", "--set", "none", **places)
            self.assertEqual(ended, ("reads - - short", 1))

    def ended_by(self, end: Callable[[subprocess.Popen[str]], None]) -> tuple[str, int, int]:
        """A run that was ended while a server of its script ran: what it said, its exit code, and
        the server."""
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "server"
            text = RUN.format(bench=str(BENCH), script=SCRIPT, told=str(told))
            process = subprocess.Popen(
                [sys.executable, "-c", text], stdout=subprocess.PIPE, text=True
            )
            until = time.monotonic() + 20
            while not told.exists() or not told.read_text():
                self.assertLess(time.monotonic(), until)
                time.sleep(0.02)
            server = int(told.read_text())
            end(process)
            said, _ = process.communicate(timeout=60)
            return said, process.returncode, server

    def test_ended_from_outside_a_run_ends_what_its_scripts_started_and_says_so(self) -> None:
        said, code, server = self.ended_by(lambda run: run.terminate())
        self.assertEqual(said.splitlines()[-1], "figure - - short")
        self.assertIn("problem: ended by SIGTERM", said)
        self.assertEqual(code, 128 + signal.SIGTERM)
        self.assertFalse(alive(server))

    def test_after_an_error_what_was_started_ends_as_well(self) -> None:
        def kill_script(run: subprocess.Popen[str]) -> None:
            children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
            os.kill(int(children[0]), signal.SIGKILL)

        said, code, server = self.ended_by(kill_script)
        self.assertEqual((said.splitlines()[-1], code), ("figure - - short", 1))
        self.assertFalse(alive(server))


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be fetched does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Started(unittest.TestCase):
    """What a run finds again by its mark."""

    def test_what_somebody_else_has_started_is_left_alone(self) -> None:
        with mock.patch.dict(os.environ), subprocess.Popen(["sleep", "60"]) as before:
            processes.begin_run()
            with subprocess.Popen(["sleep", "60"]) as own:
                self.assertEqual(processes.end_started(), [own.pid])
                self.assertEqual(own.wait(), -signal.SIGTERM)
            self.assertIsNone(before.poll())
            before.terminate()

    def test_without_a_mark_nothing_is_ended(self) -> None:
        with mock.patch.dict(os.environ):
            os.environ.pop(processes.MARK, None)
            self.assertEqual(processes.end_started(), [])

    def test_what_does_not_end_is_killed(self) -> None:
        stubborn = "trap '' TERM; echo on; while :; do sleep 0.1; done"
        with (
            mock.patch.dict(os.environ),
            mock.patch.object(processes, "GRACE_S", 0.3),
        ):
            processes.begin_run()
            with subprocess.Popen(["sh", "-c", stubborn], stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                process.stdout.readline()
                processes.end_started()
                self.assertEqual(process.wait(), -signal.SIGKILL)


class Ports(unittest.TestCase):
    """Ports for servers."""

    def test_ports_are_different_and_none_that_the_kernel_gives_away(self) -> None:
        found = ports.free_ports(20)
        self.assertEqual(len(set(found)), 20)
        self.assertTrue(all(ports.LOW <= port < ports.HIGH for port in found))


class Servers(unittest.TestCase):
    """Servers of a cluster that begin, or do not at once."""

    def begun(self, failures: int) -> tuple[int, str]:
        """Two servers of which the second lacks its port so many times: how often they moved, and
        what was said."""
        moves: list[int] = []
        with (
            tempfile.TemporaryDirectory() as folder,
            ExitStack() as kept,
            redirect_stdout(StringIO()) as said,
        ):
            moved = Path(folder) / "moved"
            moved.write_text("0")

            def elsewhere() -> None:
                moves.append(1)
                moved.write_text(str(len(moves)))

            fine = "echo it listens; echo it is connected; cat"
            other = f'test "$(cat {moved})" -ge {failures} || {{ echo taken; exit 1; }}; {fine}'
            commands = [["sh", "-c", fine], ["sh", "-c", other]]
            try:
                begun = clusters.begun(commands, kept, elsewhere)
                self.assertTrue(all(process.poll() is None for process in begun))
            except SystemExit as reason:
                print(reason)
        return len(moves), said.getvalue()

    def test_servers_try_elsewhere_where_one_does_not_get_its_port(self) -> None:
        self.assertEqual(self.begun(0), (0, ""))
        moves, said = self.begun(1)
        self.assertEqual(moves, 1)
        self.assertIn("'taken'", said)

    def test_they_do_not_try_for_ever(self) -> None:
        moves, said = self.begun(10)
        self.assertEqual(moves, clusters.ATTEMPTS - 1)
        self.assertIn("did not begin", said)


if __name__ == "__main__":
    unittest.main()
