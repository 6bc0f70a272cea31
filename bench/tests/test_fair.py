"""What comparisons disclose: every job that compares, both sides, versions, the command, retaking.

Run with `python3 -m unittest discover bench/tests`.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import tempfile
import unittest
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import cache, fair, filtered, pipeann, rivals, sets
from harness.curves import Curve
from harness.fair import Side
from harness.sets import VectorSet
from harness.verdict import Check, Verdict
from jobs import catalogue, versus


def compares(job: catalogue.Job) -> bool:
    """Whether the code of a job, or what it calls in its module, names a rival."""
    code = job.code()
    module = sys.modules[code.__module__]
    text, seen, left = "", set(), [code]
    while left:
        function = left.pop()
        if function in seen:
            continue
        seen.add(function)
        source = inspect.getsource(function)
        text += source
        names = set(re.findall(r"\b(\w+)\(", source))
        own = (getattr(module, name, None) for name in names)
        left += [f for f in own if inspect.isfunction(f) and f.__module__ == module.__name__]
    return re.search(fair.RIVAL_WORDS, text) is not None


class Disclosure(unittest.TestCase):
    """Jobs that compare tell how."""

    def test_every_job_that_compares_describes_both_sides_and_no_other_does(self) -> None:
        found = {job.name: job for job in catalogue.all_jobs()}
        comparing = {name for name, job in found.items() if compares(job)}
        # So that a change to how code is looked at cannot empty the test.
        self.assertLessEqual({"qps-vs-diskann", "filter-vs-rivals", "ingest", "cpu"}, comparing)
        for name, job in found.items():
            with self.subTest(name):
                sides = [side.name for side in job.sides]
                self.assertEqual(name in comparing, bool(sides))
                if sides:
                    self.assertEqual(sides[0], fair.OURS)
                    self.assertGreater(len(sides), 1)
                    self.assertTrue(all(side.version for side in job.sides))

    def test_a_side_without_all_its_settings_is_refused(self) -> None:
        whole = {"name": "hnswlib", "threads": "{n}", "in_flight": "1", "memory": "all"}
        with self.assertRaises(SystemExit):
            Side.read(whole, {"n": 2})
        whole["warm_up"] = "none"
        self.assertEqual(Side.read(whole, {"n": 2}).threads, "2")
        with self.assertRaises(SystemExit):
            Side.read(whole, {})
        self.assertEqual(Side.read(whole, {"n": 2}).version, "0.8.0")

    def test_the_device_is_measured_before_and_after_and_the_command_told(self) -> None:
        side = Side(fair.OURS, "2", "32", "floor", "64 queries")
        order = []

        def raw(*_: object, **__: object) -> dict[str, float]:
            order.append("raw")
            return {"reads_per_s": 1000.0 * len(order)}

        def take(*_: object) -> None:
            order.append("job")
            verdicts[0].add("x", Check(1.0))

        verdicts: list[Verdict] = []
        job = catalogue.job("qps-vs-diskann", quick=True)
        vectors = VectorSet("sift1m", Path("b"), Path("q"), Path("t"), 32)

        def made() -> Verdict:
            verdicts.append(Verdict())
            return verdicts[0]

        with (
            mock.patch.object(pipeann, "raw_reads", raw),
            mock.patch.object(pipeann, "index_of", return_value=Path("i")),
            mock.patch.object(catalogue.Job, "vectors", return_value=vectors),
            mock.patch.object(catalogue.Job, "code", return_value=take),
            mock.patch.object(catalogue, "Verdict", made),
            mock.patch.object(sys, "argv", ["run", "qps-vs-diskann", "--quick"]),
            redirect_stdout(StringIO()) as said,
        ):
            job.run(["sift1m"])
        self.assertEqual(order, ["raw", "job", "raw"])
        for words in ("bench/run qps-vs-diskann --quick", "diskannpy", "0.7.0", side.warm_up):
            self.assertIn(words, said.getvalue())
        self.assertRegex(said.getvalue(), r"before +1,000\nafter +3,000")


class Best(unittest.TestCase):
    """A rival at its best."""

    def test_the_fastest_ways_are_found_and_those_without_the_recall_left_out(self) -> None:
        def way(qps: float, high: float = 0.99) -> versus.Asked:
            return lambda _: [
                {"list": n, "recall": r, "qps": qps} for n, r in ((10, 0.9), (20, high))
            ]

        ways = {"a": way(10), "b": way(30), "c": way(20), "d": way(90, high=0.94)}
        vectors = VectorSet("x", Path("b"), Path("q"), Path("t"), 32)
        with redirect_stdout(StringIO()):
            self.assertEqual(versus.best_ways(ways, vectors, 0.95, 2), ["b", "c"])
            least = versus.Aim("qps", most=False)
            self.assertEqual(versus.best_ways(ways, vectors, 0.95, 2, least), ["a", "c"])

    def test_the_best_curve_is_named(self) -> None:
        curves = {
            name: Curve.of_rounds(name, [[{"list": 1, "recall": 0.95, "qps": qps}] * 2])
            for name, qps in (("a", 1.0), ("b", 2.0))
        }
        for name, curve in curves.items():
            rows = (*curve.rows, {"list": 2, "recall": 0.96, "qps": curve.rows[0]["qps"]})
            curves[name] = Curve(name, rows)
        self.assertEqual(fair.best_of(curves, 0.95), ("b", 2.0))

    def test_one_core_is_given_back(self) -> None:
        before = os.sched_getaffinity(0)
        with fair.one_core():
            self.assertEqual(len(os.sched_getaffinity(0)), 1)
        self.assertEqual(os.sched_getaffinity(0), before)


class Versus(unittest.TestCase):
    """The whole of `qps-vs-diskann` on made-up systems."""

    def taken(self, device: float) -> dict[str, float]:
        """The checks where each system has one rate, by a device of so many reads a second."""
        job = catalogue.job("qps-vs-diskann", quick=True)
        vectors = VectorSet("sift1m", Path("b"), Path("q"), Path("t"), 32)
        pinned: list[int] = []
        raw_on: set[int] = set()

        def raw_reads(*_: object, threads: int, **__: object) -> dict[str, float]:
            raw_on.add(len(os.sched_getaffinity(0)))
            return {"reads_per_s": device * threads / fair.THREADS}

        def rows(qps: float, cpu: float, reads: float = 20.0) -> list[dict[str, float]]:
            own = {"qps": qps, "cpu_us": cpu, "reads_per_s": qps * reads}
            return [own | {"list": n, "recall": r} for n, r in ((10, 0.9), (20, 0.99))]

        def ours(
            _i: object, _v: object, _l: object, how: pipeann.SearchOptions
        ) -> list[dict[str, float]]:
            pinned.append(len(os.sched_getaffinity(0)))
            # A fixed policy that is faster is shown, and not judged.
            return rows(2000, 400) if how.policy == "auto" else rows(3000, 300)

        def rival(*_: object, width: int, threads: int) -> list[dict[str, float]]:
            # 16 threads with a width of 2 are the fastest; 32 take least of the processor.
            slower = (1 + abs(threads - 16)) * (1 + abs(width - 2))
            return rows(50 * threads / slower, 1000 - threads)

        verdict, names = Verdict(), ("diskannpy_index", "diskann_disk_index")
        searches = ("search_diskannpy", "search_diskann_disk")
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(mock.patch.object(rivals, name, return_value=Path("r")))
            for name in searches:
                stack.enter_context(mock.patch.object(rivals, name, rival))
            for name, value in (("index_of", lambda *_: Path("i")), ("search", ours)):
                stack.enter_context(mock.patch.object(pipeann, name, value))
            stack.enter_context(mock.patch.object(pipeann, "raw_reads", raw_reads))
            for name in ("with_queries", "vector_set"):
                stack.enter_context(mock.patch.object(sets, name, lambda *_: vectors))
            said = stack.enter_context(redirect_stdout(StringIO()))
            versus.take_qps_vs_diskann(job, vectors, verdict)
        self.assertEqual(pinned[-1], 1)
        # The device is read on all cores, also while everything else has one.
        self.assertEqual(raw_on, {len(os.sched_getaffinity(0))})
        self.assertIn("W=2, 16 threads", said.getvalue())
        return {name: checks[0].measured for name, checks in verdict.checks.items()} | {
            "holds": verdict.holds
        }

    def test_the_default_is_judged_against_the_best_way_and_both_shares_are(self) -> None:
        found = self.taken(device=42_000)
        self.assertAlmostEqual(found["ratio"], 2000 / 800)
        self.assertAlmostEqual(found["device"], 40_000 / 42_000)
        # On one core the rivals run as takes them least processor time, not as is fastest.
        self.assertAlmostEqual(found["cpu"], 400 / 968)
        # Used to 95%, the device is the limit, and so the processor was not.
        self.assertFalse(found["holds"])
        self.assertFalse(self.taken(device=60_000)["holds"])


class Retaking(unittest.TestCase):
    """Results of rivals that are kept."""

    def test_a_result_is_taken_again_once_a_run_and_an_entry_is_not(self) -> None:
        made: list[str] = []
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.dict(os.environ, {"PIPEANN_CACHE": folder}),
            mock.patch.object(cache, "RETAKING", cache.Retaking()) as retaking,
            redirect_stdout(StringIO()) as said,
        ):
            for name, keep in (("r", cache.result), ("e", cache.entry)):
                keep(name, {}, lambda _, name=name: made.append(name))
            # As a later run with `--retake`.
            retaking.done.clear()
            retaking.wanted = True
            for _ in range(2):
                cache.result("r", {}, lambda _: made.append("r"))
                cache.entry("e", {}, lambda _: made.append("e"))
        self.assertEqual(made, ["r", "e", "r"])
        self.assertRegex(said.getvalue(), r"taken \d{4}-\d\d-\d\d, .* cores")


class Unseen(unittest.TestCase):
    """Filters are asked as new ones unless a job wants repeated ones."""

    def test_cells_are_asked_with_unseen_filters(self) -> None:
        commands: list[list[object]] = []

        def ran(command: list[object]) -> list[dict[str, float]]:
            commands.append(command)
            return [{"recall": 1.0}]

        with (
            mock.patch.object(filtered, "json_lines", ran),
            mock.patch.object(filtered, "lab", return_value=Path("p")),
        ):
            asked = ["--queries", "q", "--filters", "f"]
            filtered.search(Path("d"), asked, filtered.SearchOptions())
            filtered.search(Path("d"), asked, filtered.SearchOptions(unseen=False))
            filtered.search(Path("d"), ["--queries", "q"], filtered.SearchOptions())
        self.assertEqual(["--unseen" in command for command in commands], [True, False, False])


if __name__ == "__main__":
    unittest.main()
