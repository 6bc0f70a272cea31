"""The harness on made-up rows: interpolation, medians, verdict lines, cache entries.

Run with `python3 -m unittest discover bench/tests`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import ClassVar
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import cache, sets
from harness.curves import Curve, OutOfRange, interleave
from harness.verdict import Check, Verdict
from jobs import catalogue


class Curves(unittest.TestCase):
    """Values at a recall."""

    rows: ClassVar[list[dict[str, float]]] = [
        {"list": 10, "recall": 0.9, "reads": 20},
        {"list": 20, "recall": 1.0, "reads": 40},
    ]

    def test_interpolates_between_the_two_rows_around_a_recall(self) -> None:
        curve = Curve.of_rounds("x", [self.rows])
        self.assertAlmostEqual(curve.at("reads", 0.95), 30)
        self.assertAlmostEqual(curve.between("recall", "reads", 25), 0.925)

    def test_refuses_a_recall_outside_the_lists(self) -> None:
        with self.assertRaises(OutOfRange):
            Curve.of_rounds("x", [self.rows]).at("reads", 0.8)

    def test_takes_medians_over_rounds_and_turns_between_systems(self) -> None:
        calls: list[str] = []

        def system(name: str, values: list[int]) -> list[dict[str, float]]:
            calls.append(name)
            return [{"list": 10, "recall": 0.9, "us": values.pop(0)}]

        a, b = [5, 1, 3], [7, 7, 7]
        curves = interleave({"a": lambda: system("a", a), "b": lambda: system("b", b)}, rounds=3)
        self.assertEqual(calls, ["a", "b"] * 3)
        self.assertEqual(curves["a"].rows[0]["us"], 3)


class Verdicts(unittest.TestCase):
    """The last line of a job."""

    def test_shows_the_most_strained_set_and_holds_only_if_all_do(self) -> None:
        verdict = Verdict()
        verdict.add("reads", Check(20, 22))
        self.assertEqual(verdict.line("reads"), "reads 20 <=22 holds")
        verdict.add("reads", Check(23, 22))
        self.assertEqual(verdict.line("reads"), "reads 23 <=22 short")

    def test_a_report_holds(self) -> None:
        verdict = Verdict()
        verdict.add("ratio", Check(9.0))
        self.assertEqual(verdict.line("breakdown"), "breakdown 9 report holds")


class Entries(unittest.TestCase):
    """The cache and the files cut from a set."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        patch = mock.patch.dict(os.environ, {"PIPEANN_CACHE": folder.name})
        patch.start()
        self.addCleanup(patch.stop)

    def test_an_entry_is_made_once_and_an_interrupted_one_again(self) -> None:
        made: list[Path] = []

        def fail(folder: Path) -> None:
            made.append(folder)
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            cache.entry("x", {"a": 1}, fail)
        first = cache.entry("x", {"a": 1}, made.append)
        self.assertEqual(first, cache.entry("x", {"a": 1}, made.append))
        self.assertEqual(len(made), 2)
        self.assertNotEqual(first, cache.entry("x", {"a": 2}, made.append))

    def test_first_rows_keep_the_header_true(self) -> None:
        whole, part = self.folder / "a.u8bin", self.folder / "b.u8bin"
        whole.write_bytes(bytes([3, 0, 0, 0, 2, 0, 0, 0]) + b"abcdef")
        sets.first_rows(whole, 2, part)
        self.assertEqual(part.read_bytes(), bytes([2, 0, 0, 0, 2, 0, 0, 0]) + b"abcd")


class Jobs(unittest.TestCase):
    """The job files."""

    def test_every_job_names_code_and_lists_for_its_sets(self) -> None:
        for job in catalogue.all_jobs():
            with self.subTest(job.name):
                self.assertTrue(callable(job.code()))
                for name in job.lists:
                    self.assertIn(name, job.sets)


if __name__ == "__main__":
    unittest.main()
