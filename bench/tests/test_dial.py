"""The dial of memory: its limits, what is held to them, and the doors beside the engine.

Run with `python3 -m unittest discover bench/tests`.
"""

from __future__ import annotations

import sys
import unittest
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import sets
from harness.verdict import Check, Verdict
from jobs import catalogue, dial


class Dial(unittest.TestCase):
    """Steps of a memory limit, and what is taken at them."""

    def test_limits_are_equal_steps_between_the_floor_and_all(self) -> None:
        rows = [{"pools": {"codes": 10}}, {"pools": {"codes": 10, "page_cache": 70}}]
        limits = dial.limits_of(rows[0], rows[1], 8)
        self.assertEqual(list(limits), ["floor", "20", "30", "40", "50", "60", "70", "all"])
        self.assertEqual(list(limits.values()), list(range(10, 90, 10)))

    def test_a_step_back_is_noise_only_while_it_is_small(self) -> None:
        self.assertTrue(dial.is_monotone([100, 98, 150], falls=False, tolerance=0.05))
        self.assertFalse(dial.is_monotone([100, 90, 150], falls=False, tolerance=0.05))
        self.assertTrue(dial.is_monotone([30, 20, 20.5, 0], falls=True, tolerance=0.05))
        self.assertFalse(dial.is_monotone([30, 20, 25, 0], falls=True, tolerance=0.05))

    def test_what_is_resident_without_an_index_is_no_part_of_a_limit(self) -> None:
        bare = {"peak_rss_bytes": 21_000_000, "pools": {"codes": 600_000, "head_index": 400_000}}
        resident = dial.Resident(dial.beside_pools(bare))
        self.assertEqual(resident.note(40_000_000, 61_000_000), 41.0)
        self.assertEqual(resident.note(100_000_000, 119_000_000), 99.0)
        self.assertAlmostEqual(resident.most, 41 / 40)
        # A megabyte too much is too much, whatever the limit.
        resident = dial.Resident(20_000_000)
        resident.note(200_000_000, 221_000_000)
        self.assertGreater(resident.most, 1.0)

    def test_the_doors_have_the_limits_of_the_engine_and_are_judged_like_it(self) -> None:
        job = catalogue.job("dial", quick=True)
        vectors = sets.VectorSet("sift1m", Path("b"), Path("q"), Path("t"), 32)
        bare, base = 20_000_000, 40_000_000

        class Asking:
            """Rates of 100 and 50, and processes that keep to their limits but for the server."""

            length = 25

            def __init__(self, rows: int) -> None:
                self.rows = rows

            @classmethod
            def of(cls, _j: object, _v: object, rows: int) -> object:
                return cls(rows)

            def held(self, limit: str) -> int:
                if self.rows == dial.BARE:
                    return 0
                return {"floor": base, "all": 3 * base}.get(limit) or int(limit)

            def engine(self, _limit: str, _in_flight: int) -> dict[str, float]:
                return {"qps": 100.0}

            def database(self, limit: str) -> dict[str, object]:
                held = self.held(limit)
                return {"qps": 50.0, "peak_rss_bytes": bare + held, "pools": {"codes": held}}

            def server(self, limit: str) -> dict[str, object]:
                more = 2_000_000 if limit.isdigit() else 0
                return {"qps": 50.0, "peak_rss_bytes": bare + self.held(limit) + more}

        verdict = Verdict()
        with (
            mock.patch.object(dial, "Asking", Asking),
            mock.patch.object(sets, "rows_in", lambda _: 10_000),
            redirect_stdout(StringIO()) as said,
        ):
            dial.take_doors(job, vectors, verdict)
        found = {name: checks[0] for name, checks in verdict.checks.items()}
        self.assertEqual(found["database: of its limit"], Check(1.0, 1.0))
        self.assertAlmostEqual(found["server: of its limit"].measured, 1.025)
        self.assertFalse(verdict.holds)
        self.assertIn("80000000", said.getvalue())

    def test_small_steps_back_do_not_add_up(self) -> None:
        falling = [100, 97, 94, 91]
        self.assertFalse(dial.is_monotone(falling, falls=False, tolerance=0.05))


if __name__ == "__main__":
    unittest.main()
