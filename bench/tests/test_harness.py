"""The harness on made-up rows: interpolation, medians, verdict lines, cache entries.

Run with `python3 -m unittest discover bench/tests`.
"""

from __future__ import annotations

import inspect
import math
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import ClassVar
from unittest import mock
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import cache, doors, filtered, fits, pipeann, places, plots, servers, sets
from harness.curves import Curve, OutOfRange, interleave
from harness.paired import Interval, in_pairs, student, until_decided
from harness.verdict import Check, Verdict
from jobs import catalogue, checks, estimate, filter_answers, filter_rivals, filters
from jobs.doors import at
from jobs.growth import Growth as growth_of


class Plots(unittest.TestCase):
    """Figures as files."""

    def test_ticks_are_round_numbers_up_to_the_most(self) -> None:
        self.assertEqual(plots.ticks(9.7), [0, 2, 4, 6, 8])
        self.assertEqual(plots.ticks(24_000), [0, 5000, 10_000, 15_000, 20_000])
        self.assertEqual(plots.ticks(0), [0])

    def test_a_plot_is_well_formed_and_has_a_dot_for_each_point(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "figures" / "dial.svg"
            panels = [plots.Panel("rate", [(0, 10), (5, 40)]), plots.Panel("a < b", [(5, 0)])]
            plots.draw(path, "reads & rates", "MB", panels)
            found = ElementTree.parse(path)
        tags = [element.tag.rpartition("}")[2] for element in found.iter()]
        self.assertEqual((tags.count("circle"), tags.count("polyline")), (3, 2))


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
        longer = [row | {"list": 2 * row["list"]} for row in self.rows]
        with self.assertRaises(OutOfRange):
            Curve.of_rounds("x", [longer]).at("reads", 0.8)

    def test_a_list_of_k_stands_for_what_it_exceeds_since_none_is_shorter(self) -> None:
        curve = Curve.of_rounds("x", [self.rows])
        self.assertEqual(curve.row_at(0.8), {"list": 10, "recall": 0.9, "reads": 20})
        hundred = [row | {"k": 5} for row in self.rows]
        with self.assertRaises(OutOfRange):
            Curve.of_rounds("x", [hundred]).at("reads", 0.8)

    def test_lets_the_shortest_list_stand_for_what_lies_below_it_and_nothing_for_what_is_above(
        self,
    ) -> None:
        curve = Curve.of_rounds("x", [[*self.rows[:1], {"list": 20, "recall": 0.99, "reads": 40}]])
        self.assertEqual(curve.reaching("reads", 0.8), 20)
        self.assertAlmostEqual(curve.reaching("reads", 0.945), 30)
        with self.assertRaises(OutOfRange):
            curve.reaching("reads", 1.0)

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

    def test_queries_become_floats_under_the_same_header(self) -> None:
        bytes_of = self.folder / "q.u8bin"
        bytes_of.write_bytes(bytes([1, 0, 0, 0, 2, 0, 0, 0, 7, 255]))
        floats = doors.as_floats(bytes_of).read_bytes()
        self.assertEqual(struct.unpack("<II2f", floats), (1, 2, 7.0, 255.0))
        self.assertEqual(doors.as_floats(self.folder / "q.fbin"), self.folder / "q.fbin")
        signed = self.folder / "q.i8bin"
        signed.write_bytes(bytes_of.read_bytes())
        floats = doors.as_floats(signed).read_bytes()
        self.assertEqual(struct.unpack("<II2f", floats), (1, 2, 7.0, -1.0))


class Doors(unittest.TestCase):
    """Collections behind the doors of Milvus."""

    def test_only_the_collection_with_tags_is_asked_for_them(self) -> None:
        vectors = sets.VectorSet("x", Path("d/x.base.u8bin"), Path("q"), Path("t"), 32)
        data = doors.Behind(vectors, 10, (doors.PLAIN, doors.TAGGED))
        self.assertNotIn("--tags", data.of(doors.PLAIN))
        self.assertIn(Path("d/x.tags.base.spmat"), data.of(doors.TAGGED))
        self.assertIn(doors.TAGGED, data.of(doors.TAGGED))

    def test_the_shortest_list_with_the_recall_counts_else_the_best(self) -> None:
        rows = [{"ef": 10, "recall": 0.9}, {"ef": 20, "recall": 0.96}, {"ef": 30, "recall": 0.99}]
        self.assertEqual(at(rows, 0.95, "x"), rows[1])
        with redirect_stdout(StringIO()) as said:
            self.assertEqual(at(rows, 0.999, "x"), rows[2])
        self.assertIn("x does not reach 0.999", said.getvalue())

    def test_a_group_that_does_not_end_is_killed(self) -> None:
        stubborn = "trap '' TERM; sh -c \"trap '' TERM; echo on; sleep 60\"; sleep 60"
        process = subprocess.Popen(
            ["sh", "-c", stubborn], stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdout is not None
        process.stdout.readline()
        with mock.patch.object(servers, "GRACE_S", 0.3):
            servers.end(process)
        self.assertEqual(process.returncode, -signal.SIGKILL)
        process.stdout.close()


class Filters(unittest.TestCase):
    """Cells of filtered searches."""

    @staticmethod
    def cell(kind: str, share: float) -> filtered.Cell:
        """A cell without files."""
        name = f"{kind}-{100 * share:g}"
        return filtered.Cell(name, kind, share, 100, share, 100, Path(name))

    def test_limits_depend_on_how_many_rows_match_and_where(self) -> None:
        settings = catalogue.job("filter-qps").settings
        limits = {
            ("label", 0.0001): 1.0,
            ("label", 0.001): 0.33,
            ("near", 0.05): 0.33,
            ("far", 0.001): 0.33,
            ("far", 0.01): 0.2,
            ("far", 0.2): 0.2,
            ("far", 0.5): 0.33,
        }
        for (kind, share), limit in limits.items():
            with self.subTest(kind=kind, share=share):
                self.assertEqual(filters.limit_of(self.cell(kind, share), settings), limit)

    def test_the_shortest_list_with_the_recall_counts(self) -> None:
        rows = [{"list": 10, "recall": 0.9}, {"list": 20, "recall": 0.99}]
        self.assertEqual(filters.first_at(rows, 0.99), rows[1])
        self.assertIsNone(filters.first_at(rows, 0.999))

    def test_cells_are_chosen_by_name_and_kind(self) -> None:
        cells = tuple(self.cell(*c) for c in (("far", 0.01), ("far", 0.2), ("tags", 0.2)))
        data = filtered.FilteredSet(Path(), cells, Path(), 1000)
        self.assertEqual([c.name for c in data.named("far-*", data.made)], ["far-1", "far-20"])
        self.assertEqual([c.name for c in data.given], ["tags-20"])
        with self.assertRaises(SystemExit):
            data.named("near-*")

    def test_a_rival_counts_where_it_has_the_recall(self) -> None:
        rows = [
            {"system": "faiss hnsw", "cell": "far-1", "recall": 0.9, "qps": 9.0},
            {"system": "faiss ivf", "cell": "far-1", "recall": 0.99, "qps": 3.0},
            {"system": "faiss flat", "cell": "far-1", "recall": 1.0, "qps": 1.0},
        ]
        best = filter_rivals.best(rows, self.cell("far", 0.01), "faiss", 0.99)
        self.assertEqual(best, rows[1])
        self.assertIsNone(filter_rivals.best(rows, self.cell("far", 0.2), "faiss", 0.99))

    def test_laws_write_the_same_rows_in_two_ways(self) -> None:
        rng = random.Random(1)
        for name, law in filter_answers.LAWS.items():
            with self.subTest(name):
                one, other = law(rng, 1000)
                self.assertNotEqual(one, other)
        one, other = filter_answers.range_as_set(rng, 1000)
        low, high = (int(word) for word in re.findall(r"\d+", one))
        self.assertEqual([int(n) for n in re.findall(r"\d+", other)], list(range(low, high, 1000)))

    def test_ways_that_occurred_are_told(self) -> None:
        row = {"walked": 3, "ranked": 0, "changed": 1, "compared": 0}
        self.assertEqual(filtered.way_words(row), "walked 3, changed 1")

    def test_columns_are_chosen_by_name(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            whole, some = Path(folder) / "all.jsonl", Path(folder) / "some.jsonl"
            whole.write_text('[{"name": "a"}, {"name": "b"}]\n[1, [2]]\n[3, []]\n')
            filtered.choose(whole, some, ["b"])
            self.assertEqual(some.read_text(), '[{"name": "b"}]\n[[2]]\n[[]]\n')


class Growth(unittest.TestCase):
    """Fits of reads by rows."""

    rows = (1000, 2000, 4000, 8000)

    def test_a_logarithm_is_found_and_foretells_the_largest(self) -> None:
        growth = growth_of(self.rows, [3 + 2 * math.log(n) for n in self.rows])
        self.assertAlmostEqual(growth.logarithm.base, 3)
        self.assertAlmostEqual(growth.logarithm.slope, 2)
        self.assertAlmostEqual(growth.logarithm.r_squared(growth.rows, growth.reads), 1)
        self.assertAlmostEqual(growth.surprise(), 0)
        self.assertLess(growth.power.r_squared(growth.rows, growth.reads), 1)

    def test_a_power_takes_more_than_its_past_foretells(self) -> None:
        growth = growth_of(self.rows, [5 * n**0.3 for n in self.rows])
        self.assertAlmostEqual(growth.power.slope, 0.3)
        self.assertGreater(growth.surprise(), 0.03)


class Fits(unittest.TestCase):
    """Coefficients by least squares."""

    xs = (1.0, 2.0, 3.0, 5.0)

    def test_terms_get_back_the_coefficients_that_made_the_values(self) -> None:
        terms = [[1.0, x, x * x] for x in self.xs]
        found = fits.least_squares(terms, [4 - 2 * x + 0.5 * x * x for x in self.xs])
        for coefficient, expected in zip(found, (4, -2, 0.5), strict=True):
            self.assertAlmostEqual(coefficient, expected)

    def test_a_term_that_says_nothing_new_gets_no_coefficient(self) -> None:
        found = fits.least_squares([[1.0, x, 0.0, 2.0] for x in self.xs], [3 * x for x in self.xs])
        self.assertEqual([round(c, 6) for c in found], [0.0, 3.0, 0.0, 0.0])

    def test_costs_are_not_negative(self) -> None:
        terms = [[1.0, x, x * x] for x in self.xs]
        found = fits.relative(terms, [3 + x - 0.05 * x * x for x in self.xs])
        self.assertEqual(found[2], 0.0)
        self.assertGreater(min(found[:2]), 0.0)


class Estimates(unittest.TestCase):
    """How far off an estimate was."""

    def test_half_is_as_wrong_as_twice(self) -> None:
        self.assertAlmostEqual(estimate.error(50, 100), 1.0)
        self.assertAlmostEqual(estimate.error(200, 100), 1.0)

    def test_nine_in_ten_keep_to_it(self) -> None:
        self.assertEqual(estimate.kept_by([0.1, 0.2, 0.3] * 3 + [9.0], 0.9), 0.3)
        self.assertEqual(estimate.kept_by([0.5], 0.9), 0.5)


class Pairs(unittest.TestCase):
    """Ratios of systems run in turn."""

    def test_the_interval_holds_the_mean_and_is_wider_for_fewer_pairs(self) -> None:
        few, many = Interval.of([1.0, 1.1]), Interval.of([1.0, 1.1] * 10)
        self.assertAlmostEqual(few.mean, math.sqrt(1.1))
        self.assertLess(few.low, many.low)
        self.assertGreater(few.high, many.high)
        # By hand: logs 0 and ln 1.1, their deviation ln 1.1 / sqrt 2, t of one degree 12.706.
        self.assertAlmostEqual(few.high / few.mean, 1.1 ** (12.706 / 2), places=6)
        self.assertEqual(Interval.of([0.9]).high, math.inf)

    def test_who_begins_alternates(self) -> None:
        order: list[str] = []

        def taken(name: str, value: float) -> float:
            order.append(name)
            return value

        pairs = in_pairs(lambda: taken("a", 1.0), lambda: taken("b", 2.0), 3)
        self.assertEqual(pairs, [(1.0, 2.0)] * 3)
        self.assertEqual("".join(order), "abbaab")

    def test_quantiles_of_student(self) -> None:
        for freedom, expected in ((10, 2.228), (11, 2.201), (20, 2.086), (30, 2.042), (100, 1.984)):
            self.assertAlmostEqual(student(freedom), expected, places=3)
        self.assertAlmostEqual(student(15, 0.0125), 2.837, places=2)
        with self.assertRaises(ValueError):
            student(5, 0.01)

    def test_pairs_go_on_until_a_limit_is_decided_on(self) -> None:
        taken = iter(range(10_000))

        def first() -> float:
            return 1.0 + 0.1 * (next(taken) // 2 % 2)

        clear, pairs = until_decided(first, lambda: 2.0, 1.0, (16, 32))
        self.assertEqual(pairs, 16)
        self.assertTrue(clear.decides(1.0))
        # The mean ratio is 0.525, and no number of pairs tells it from itself.
        close, pairs = until_decided(first, lambda: 2.0, clear.mean, (16, 32, 64))
        self.assertEqual(pairs, 64)
        self.assertFalse(close.decides(clear.mean))
        self.assertLess(close.high - close.low, clear.high - clear.low)


class Jobs(unittest.TestCase):
    """The job files."""

    def test_every_job_names_code_and_lists_for_its_sets(self) -> None:
        for job in catalogue.all_jobs():
            with self.subTest(job.name):
                # The job, a set where it names some, and the verdict.
                parameters = inspect.signature(job.code()).parameters
                self.assertEqual(len(parameters), 3 if job.sets else 2)
                for name in job.lists:
                    self.assertIn(name, [*job.sets, "default"])
                if job.lists:
                    self.assertTrue(job.lists["a set of somebody"])

    def test_a_job_without_sets_runs_once(self) -> None:
        said = "rows  9 inputs, held\ncrashes 0 largest_share 0.250\n"
        ended = subprocess.CompletedProcess([], 0, stdout=said)
        with mock.patch.object(checks.subprocess, "run", return_value=ended) as run:
            verdict = catalogue.job("fuzz", only="rows,page").run([])
        self.assertTrue(verdict.holds)
        command = run.call_args.args[0]
        self.assertEqual(command[-2:], ["rows", "page"])
        self.assertIn("240", command)

    def test_the_newest_pymilvus_is_tried_with_all_that_the_tests_import(self) -> None:
        names = {"yaml": "pyyaml", "flask_cors": "flask-cors"}
        # They come with pymilvus, with Python's environment, or are the package itself.
        given = {"pymilvus", "grpc", "google", "pip", "pipeann", "numpy"}
        wanted = {re.split(r"[^\w-]", package)[0] for package in checks.test_packages()}
        self.assertNotIn("pymilvus", wanted)
        tests = places.REPO / "tests_py"
        own = {path.stem for path in tests.rglob("*.py")} | {"forms"}
        folders = [tests / name for name in catalogue.job("newest-pymilvus").settings["tests"]]
        files = [*tests.glob("*.py"), *(f for folder in folders for f in folder.glob("*.py"))]
        found: set[str] = set()
        for path in files:
            for line in re.findall(r"^(?:from|import) (\w+)", path.read_text(), re.MULTILINE):
                found.add(names.get(line, line))
        missing = found - own - given - wanted - set(sys.stdlib_module_names)
        self.assertEqual(missing, set())

    def test_fuzzing_falls_short_by_a_crash_and_by_no_end(self) -> None:
        for code, said in ((1, "crashes 1 largest_share 0.250\n"), (1, "no C++ compiler\n")):
            ended = subprocess.CompletedProcess([], code, stdout=said)
            with mock.patch.object(checks.subprocess, "run", return_value=ended):
                self.assertFalse(catalogue.job("fuzz").run([]).holds)


class Programs(unittest.TestCase):
    def test_the_lab_stands_beside_the_command_or_is_named(self) -> None:
        self.addCleanup(pipeann.lab.cache_clear)
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder).resolve()
            with mock.patch.dict(os.environ, {"PIPEANN_BIN": str(here / "pipeann")}):
                os.environ.pop("PIPEANN_LAB_BIN", None)
                with self.assertRaises(SystemExit) as missing:
                    pipeann.lab()
                self.assertIn("PIPEANN_LAB_BIN", str(missing.exception))
                (here / "pipeann-lab").touch()
                self.assertEqual(pipeann.lab(), here / "pipeann-lab")
                pipeann.lab.cache_clear()
                os.environ["PIPEANN_LAB_BIN"] = str(here / "older")
                self.assertEqual(pipeann.lab(), here / "older")


if __name__ == "__main__":
    unittest.main()
