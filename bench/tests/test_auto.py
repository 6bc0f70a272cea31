"""What `auto` is compared with, on which devices, and between which lists.

Run with `python3 -m unittest discover bench/tests`.
"""

from __future__ import annotations

import sys
import unittest
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import ClassVar
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import pipeann, sets
from harness.curves import Curve, OutOfRange
from jobs import auto, catalogue


class AutoContest(unittest.TestCase):
    """Which fixed policies `auto` is compared with in pairs."""

    rates: ClassVar[dict[str, float]] = {"auto": 99, "pipe": 100, "pipe:1": 98, "page:1": 80}

    def contest(self, without: str = "") -> auto.Contest:
        """One in which each policy has one rate, and one of them not the recall."""
        job = catalogue.job("auto", quick=True)
        job.settings.update(fixed=["pipe", "pipe:1", "page:1"], finalists=2, near=0.05)
        vectors = sets.VectorSet("sift1m", Path("b"), Path("q"), Path("t"), 32)

        def rows(
            _i: object, _v: object, _l: object, how: pipeann.SearchOptions
        ) -> list[dict[str, float]]:
            name = how.policy if how.width is None else f"{how.policy}:{how.width}"
            columns = ("qps", "mean_us", "p99_us", "reads", "cpu_us", "reads_per_s")
            row = dict.fromkeys(columns, self.rates[name])
            high = 0.94 if name == without else 0.99
            return [row | {"list": n, "recall": r} for n, r in ((10, 0.9), (20, high))]

        for module, name, value in (
            (sets, "with_queries", lambda *_: vectors),
            (pipeann, "search", rows),
        ):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        return auto.Contest(job, vectors, Path("i"))

    def against(self, without: str = "") -> dict[str, float]:
        """The mean ratios."""
        with redirect_stdout(StringIO()) as said:
            found = auto.against_best(self.contest(without), "Busy", "qps", 0.98, at_most=False)
        self.assertEqual(f"left out: {without}:" in said.getvalue(), bool(without))
        return {policy: ratio.interval.mean for policy, ratio in found.items()}

    def test_all_that_a_scan_cannot_tell_from_the_best_are_compared(self) -> None:
        found = self.against()
        self.assertEqual(list(found), ["pipe", "pipe:1"])
        self.assertAlmostEqual(found["pipe"], 0.99)

    def test_a_policy_without_the_recall_is_left_out_and_ends_nothing(self) -> None:
        self.assertEqual(list(self.against(without="pipe")), ["pipe:1"])
        self.assertEqual(self.against(without="auto"), {})

    def test_least_is_best_where_that_is_asked(self) -> None:
        self.assertEqual(auto.finalists(self.rates, True, 2, 0.05), ["page:1"])
        self.assertEqual(auto.finalists(self.rates, True, 2, 0.3), ["page:1", "pipe:1"])


class Places(unittest.TestCase):
    """Devices, and lists around a recall."""

    def test_lists_around_a_recall(self) -> None:
        rows = [{"list": n, "recall": r} for n, r in ((10, 0.9), (20, 0.96), (30, 0.99))]
        curve = Curve.of_rounds("x", [rows])
        self.assertEqual(auto.around(curve, 0.95), [10, 20])
        with self.assertRaises(OutOfRange):
            auto.around(curve, 0.995)
        self.assertAlmostEqual(auto.along([(0.9, 10.0), (0.96, 16.0)], 0.95), 15.0)

    def test_devices_are_every_pair_and_those_of_the_seed(self) -> None:
        drawn = auto.drawn_devices(1, 2)
        self.assertEqual(drawn, auto.drawn_devices(1, 2))
        self.assertNotEqual(drawn, auto.drawn_devices(2, 2))
        job = catalogue.job("auto")
        places = auto.places(job)
        drawn = auto.drawn_devices(job.settings["drawn_seed"], 2)
        # Those were looked at while `auto` was made.
        self.assertFalse(set(drawn) & set(auto.drawn_devices(1, 2)))
        # The real one; three latencies with and without a rate and two drawn, on all cores and one.
        self.assertEqual(len(set(places)), 1 + 2 * (3 * 2 + 2))
        self.assertEqual(places[0], auto.Place())
        backends = {place.backend for place in places}
        self.assertLessEqual({"injected:30", "injected:1000:20000", *drawn}, backends)
        self.assertEqual(sum(place.cores == 1 for place in places), 8)


if __name__ == "__main__":
    unittest.main()
