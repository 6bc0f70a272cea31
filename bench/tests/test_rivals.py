"""Both sides of a projection, a contest and a queue at their best, on made-up counts and costs.

Run with `python3 -m unittest discover bench/tests`.
"""

from __future__ import annotations

import math
import sys
import unittest
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import ClassVar
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import clusters, filter_rivals, filtered, pipeann, sets
from harness.curves import Curve
from harness.filtered import Cell
from harness.processes import Row
from harness.projection import Costs, Scoring
from harness.sets import VectorSet
from harness.verdict import Verdict
from jobs import (
    auto,
    catalogue,
    cluster_model,
    cluster_queueing,
    cluster_rates,
    cluster_rivals,
)
from jobs import filter_rivals as filter_vs_rivals
from jobs.cluster_model import Case, Prices, Rival

VECTORS = VectorSet("sift1m", Path("base.u8bin"), Path("query.u8bin"), Path("truth.bin"), 32)


class Projected(unittest.TestCase):
    """Ours over others, each with the work of its busiest server."""

    ONE: ClassVar[Row] = {"reads": 20.0, "code_distances": 2000.0}
    MANY: ClassVar[Row] = ONE | {"hops": 2.0, "skew": 1.1}
    RIVALS: ClassVar[cluster_model.Rivals] = {
        # Fewest reads, but its busiest server has most to do.
        "scatter": [
            Rival("near", 50.0, 5000.0, 6.0, 1.5),
            Rival("all", 60.0, 6000.0, 20.0, 1.0),
        ],
        "distributed": [
            Rival("narrow", 30.0, 2200.0, 60.0, 1.1),
            Rival("wide", 40.0, 2600.0, 18.0, 1.1),
        ],
        "distributed, packed": [Rival("packed", 18.0, 3000.0, 40.0, 1.1)],
    }

    def projected(self, bound: str, scoring: Scoring | None = None) -> tuple[Verdict, str]:
        """By a made-up model."""
        job, verdict = catalogue.job("cluster-model"), Verdict()
        exact: dict[int, Row] = {1: self.ONE, 10: self.MANY}
        with redirect_stdout(StringIO()) as said:
            if bound == "device":
                cluster_model.project_devices(job, exact, self.RIVALS, verdict)
            else:
                prices = Prices(Costs(20, 2, 10, 2, distance=0.01), scoring)
                cluster_model.project_processors(
                    job, "made up", prices, exact, self.RIVALS, verdict
                )
        return verdict, said.getvalue()

    def measured(self, verdict: Verdict) -> dict[str, float]:
        """What each check measured, by what ours is over."""
        return {
            name.removeprefix("over ").rpartition(",")[0]: checks[0].measured
            for name, checks in verdict.checks.items()
        }

    def test_devices_are_held_to_the_busiest_of_both_sides(self) -> None:
        verdict, said = self.projected("device")
        found, ours = self.measured(verdict), 20 * 1.1
        self.assertAlmostEqual(found["one server"], 10 * 20 / ours)
        self.assertAlmostEqual(found["scatter"], 60 / ours)
        self.assertAlmostEqual(found["distributed"], 30 * 1.1 / ours)
        # Whole pages are told, and not judged.
        self.assertAlmostEqual(found["distributed, packed"], 18 * 1.1 / ours)
        self.assertIsNone(verdict.checks["over distributed, packed, device"][0].limit)
        self.assertIn("narrow", said)

    def test_processors_are_priced_by_distances_too_and_the_cheapest_counts(self) -> None:
        scoring = Scoring(query=10, read=2, distance=0.01, message=3)
        verdict, said = self.projected("processor", scoring)
        ours = (20 + 40 + 20 + 2 * 12) * 1.1
        found = self.measured(verdict)
        self.assertAlmostEqual(found["one server"], 10 * 80 / ours)
        self.assertAlmostEqual(found["scatter"], (3 * 20 + 100 + 50) * 1.5 / ours)
        self.assertAlmostEqual(found["distributed"], (10 + 80 + 26 + 54) * 1.1 / ours)
        self.assertIn("wide", said)

    def test_what_has_no_price_is_not_measured_and_short(self) -> None:
        verdict, said = self.projected("processor")
        self.assertTrue(math.isnan(self.measured(verdict)["distributed"]))
        self.assertIn("not measured", said)
        self.assertFalse(verdict.checks["over distributed, processor"][0].holds)

    def test_prices_of_scoring_are_those_that_made_the_times(self) -> None:
        made = Scoring(12, 3, 0.02, 4)
        needs = [(30, 2200, 60), (40, 2600, 18), (18, 2900, 38), (28, 6700, 14), (36, 7000, 15)]
        rows: list[Row] = [
            {"pages": pages, "code_distances": codes, "messages": messages}
            | {"server_us": made.cost(pages, codes, messages)}
            for pages, codes, messages in needs
        ]
        found = Scoring.fitted(rows)
        for name in ("query", "read", "distance", "message"):
            self.assertAlmostEqual(getattr(found, name), getattr(made, name), places=4)

    def test_a_price_that_is_off_is_not_used(self) -> None:
        job, case = catalogue.job("cluster-model"), Case("made up", "all", 1, "processor", {})
        needs = [(30, 2200, 60), (40, 2600, 18), (18, 2900, 38), (28, 6700, 14), (36, 7000, 15)]
        for times, held in (((400, 400, 400, 400, 400), True), ((400, 100, 400, 100, 400), False)):
            curves = {
                str(at): Curve.of_rounds(
                    str(at),
                    [
                        [
                            dict(zip(("pages", "code_distances", "messages"), need, strict=True))
                            | {"list": 10, "recall": 0.96, "server_us": us, "client_us": 9}
                        ]
                    ],
                )
                for at, (need, us) in enumerate(zip(needs, times, strict=True))
            }
            verdict = Verdict()
            with redirect_stdout(StringIO()):
                found = cluster_model.scoring_of(job, case, curves, verdict)
            self.assertEqual((found is not None, verdict.holds), (held, held))

    def test_no_more_cores_are_counted_on_than_there_are(self) -> None:
        for case in cluster_model.cases_of(catalogue.job("cluster-model")):
            least = min(case.of(count).count * case.of(count).threads for count in (2, 4))
            self.assertLessEqual(case.cores, least)
            with mock.patch("os.sched_getaffinity", return_value={0}):
                self.assertEqual(case.rate(100), 10_000)
            with mock.patch("os.sched_getaffinity", return_value=set(range(64))):
                self.assertEqual(case.rate(100), 10_000 * case.cores)

    def test_jobs_that_are_held_against_rivals_sweep_the_same(self) -> None:
        swept = cluster_rivals.swept_settings(quick=False)
        self.assertEqual(swept["scatter"]["nearest"], [2, 3, 4, 5, 6, 7, 8, 9])
        self.assertEqual(swept["distributed_widths"][0], 1)
        for name in ("cluster-model", "cluster-experiments"):
            self.assertNotIn("scatter", catalogue.job(name).settings)


class ServedModes(unittest.TestCase):
    """Modes of processes: rivals in the way that suits them best."""

    def served(self, name: str, nearest: int | None) -> tuple[Verdict, str, list[str]]:
        """A job whose rival reads least at random, or with some of the nearest."""
        asked: list[str] = []

        def search(
            self: clusters.Cluster, _: object, lists: list[int], *, policy: list[str], **__: object
        ) -> list[Row]:
            asked.append(f"{self.topology} {' '.join(policy)}")
            # Steps of eight are the fastest.
            wide = policy[1] == "distributed-ann" and int(policy[3]) != 8
            row = dict.fromkeys(cluster_rates.SHOWN, 100.0 - wide) | {"messages": 4.0}
            row |= {"mean_us": 500.0 + wide, "qps": 250.0 - wide}
            return [row | {"list": n, "recall": 0.9 + n / 400} for n in lists]

        @contextmanager
        def serving(
            index: Path, _: int, servers: clusters.Servers, **__: object
        ) -> Iterator[clusters.Cluster]:
            yield clusters.Cluster(index, Path("certificates"), servers)

        way = cluster_rivals.Way("graph" if nearest else "random", 1, 4, nearest)
        best = cluster_rivals.Scattered(way, Curve("x", ()))

        def partitioned(_: object, options: pipeann.BuildOptions, __: object) -> Path:
            return Path(f"{options.partition_by}-{options.partitions}")

        job, verdict = catalogue.job(name), Verdict()
        with (
            mock.patch.object(cluster_rivals, "swept", return_value=[]),
            mock.patch.object(cluster_rivals, "at_best", return_value=best),
            mock.patch.object(cluster_rivals, "apart", lambda index, *_: Path(f"{index}-apart")),
            mock.patch.object(cluster_rivals, "serving", serving),
            mock.patch.object(pipeann, "partitioned", partitioned),
            mock.patch.object(clusters.Cluster, "search", search),
            redirect_stdout(StringIO()) as said,
        ):
            job.code()(job, VECTORS, verdict)
        return verdict, said.getvalue(), asked

    def test_scatter_is_asked_in_its_best_way_and_one_width_is_judged(self) -> None:
        for name in ("cluster-curves", "cluster-rates"):
            verdict, said, asked = self.served(name, None)
            self.assertTrue(verdict.holds, verdict.problems)
            self.assertIn("scatter: all, by random, width 1, 4 of each", said)
            scatter = [words for words in asked if "scatter" in words]
            self.assertTrue(all(words.startswith("random-") for words in scatter))
            kept = {check for check in verdict.checks if "distributed-ann" in check}
            self.assertTrue(kept and all("width 8" in check for check in kept), kept)
            # Every width was asked once at least.
            for width in cluster_rivals.swept_settings(quick=False)["distributed_widths"]:
                self.assertTrue(any(f"distributed-ann --width {width}" in words for words in asked))

    def test_the_nearest_are_chosen_by_the_centroids_of_their_cluster(self) -> None:
        _, _, asked = self.served("cluster-rates", 2)
        scatter = [words for words in asked if "scatter" in words]
        self.assertIn("--nearest 2 --centroids graph-3-apart/centroids", scatter[0])
        self.assertTrue(all(words.startswith("graph-3 ") for words in asked))


class Contests(unittest.TestCase):
    """Recalls of pairs beside the lists that were chosen for them."""

    def taken(self, recalls: tuple[float, float]) -> tuple[auto.Ratio, auto.Contest, set[int]]:
        """A ratio of pairs with these recalls, after a scan that had 0.92 and 0.96."""
        job = catalogue.job("auto", quick=True)
        asked: set[int] = set()
        found = {"scan": (0.92, 0.96)}

        def with_queries(vectors: VectorSet, count: int) -> VectorSet:
            return replace(vectors, name=f"sift1m {count}")

        def search(
            _i: object, vectors: VectorSet, lists: list[int], _o: object
        ) -> list[dict[str, float]]:
            asked.add(int(vectors.name.split()[1]))
            pairs = zip(lists[:2], found["scan"], (4000.0, 3200.0), strict=True)
            return [{"list": n, "recall": r, "qps": qps} for n, r, qps in pairs]

        with (
            mock.patch.object(sets, "with_queries", with_queries),
            mock.patch.object(pipeann, "search", search),
            redirect_stdout(StringIO()),
        ):
            contest = auto.Contest(job, VECTORS, Path("i"))
            contest.scan(["auto", "pipe"])
            found["scan"] = recalls
            ratio = contest.ratio(("auto", "pipe"), "qps", 0.98, [2])
        return ratio, contest, asked

    def test_the_scan_asks_what_the_pairs_ask(self) -> None:
        _, _, asked = self.taken((0.92, 0.96))
        self.assertEqual(len(asked), 1)

    def test_a_recall_outside_stands_for_the_nearer_list_and_is_noted(self) -> None:
        ratio, contest, _ = self.taken((0.93, 0.935))
        self.assertAlmostEqual(ratio.outside, 0.015)
        self.assertEqual(ratio.interval.mean, 1.0)
        verdict = Verdict()
        auto.told("made up", {"pipe": ratio}, contest.job, verdict)
        self.assertEqual(len(verdict.problems), 1)
        ratio, contest, _ = self.taken((0.93, 0.96))
        verdict = Verdict()
        auto.told("made up", {"pipe": ratio}, contest.job, verdict)
        self.assertEqual((ratio.outside, verdict.problems), (0.0, []))

    def test_a_line_ends_at_its_points(self) -> None:
        for points in ([(0.92, 4000.0), (0.925, 3200.0)], [(0.96, 900.0), (0.97, 800.0)]):
            value = auto.along(points, 0.95)
            self.assertIn(value, (3200.0, 900.0))
        self.assertAlmostEqual(auto.along([(0.94, 10.0), (0.96, 20.0)], 0.95), 15.0)


class Queues(unittest.TestCase):
    """Each way of taking searches in with the threads that suit it best."""

    def test_the_best_server_of_each_way_is_held_against_the_others(self) -> None:
        rates = {"one": 100.0, "batches": 1000.0, "always": 1100.0}
        asked: list[str] = []

        def search(self: clusters.Cluster, *_: object, **__: object) -> list[Row]:
            servers = self.servers
            asked.append(f"{servers.discipline} {servers.threads}")
            # Sixteen threads suit one at a time best; two suit the others.
            alone = servers.discipline == "one"
            fit = 16 / abs(servers.threads - 15) if alone else 2 / servers.threads
            row = {"qps": rates[servers.discipline] * fit, "mean_us": 9.0, "p99_us": 9.0}
            return [row | {"list": n, "recall": r} for n, r in ((20, 0.97), (12, 0.93))]

        @contextmanager
        def serving(_: Path, __: int, servers: clusters.Servers) -> Iterator[clusters.Cluster]:
            yield clusters.Cluster(Path("topology"), Path("certificates"), servers)

        job, verdict = catalogue.job("cluster-queueing"), Verdict()
        with (
            mock.patch.object(pipeann, "index_of", return_value=Path("index")),
            mock.patch.object(cluster_queueing, "serving", serving),
            mock.patch.object(clusters.Cluster, "search", search),
            redirect_stdout(StringIO()) as said,
        ):
            cluster_queueing.take_cluster_queueing(job, VECTORS, verdict)
        over = {name: checks[0].measured for name, checks in verdict.checks.items()}
        self.assertAlmostEqual(over["QPS of always over one"], 1100 / 1600)
        self.assertAlmostEqual(over["QPS of always over batches"], 1.1)
        self.assertFalse(verdict.holds)
        self.assertEqual(asked.count("one 16"), 1 + job.rounds)
        self.assertEqual(asked.count("one 2"), 1)
        # A row of the table is that of its list, though rows are in order of recall.
        lines = [line.split() for line in said.getvalue().splitlines()]
        (twelve,) = [line for line in lines if line[:1] == ["12"]]
        self.assertEqual(twelve[1], "0.93")


class Tags(unittest.TestCase):
    """Cells of given queries, by which filters are judged."""

    def taken(self, shares: list[float], given: bool = True) -> Verdict:
        """With cells of these shares, in all of which ours is a hundred times as fast."""
        kind = filtered.TAGS if given else "label"
        cells = tuple(
            Cell(f"c-{share}", kind, share, 10, share, 10, Path(f"c-{share}")) for share in shares
        )
        data = filtered.FilteredSet(Path("f"), cells, Path("db"), 1000)
        row = {"list": 10, "recall": 1.0, "wrong": 0, "threads": 2, "qps_given": 10.0}

        def theirs(system: str, *_: object) -> list[Row]:
            return [row | {"cell": c.name, "system": system, "qps": 10.0} for c in cells]

        job, verdict = catalogue.job("filter-vs-rivals"), Verdict()
        with (
            mock.patch.object(sets, "vector_set", return_value=VECTORS),
            mock.patch.object(filter_vs_rivals, "filtered_set", return_value=data),
            mock.patch.object(filter_rivals, "searched_once", theirs),
            mock.patch.object(filter_rivals, "searched", theirs),
            mock.patch.object(filtered, "search", return_value=([row | {"qps": 1000.0}], {})),
            redirect_stdout(StringIO()),
        ):
            filter_vs_rivals.take_filter_vs_rivals(job, VECTORS, verdict)
        return verdict

    def test_it_holds_where_both_rivals_judge_a_cell(self) -> None:
        self.assertTrue(self.taken([0.1, 0.9]).holds)

    def test_it_is_short_where_faiss_judges_none(self) -> None:
        verdict = self.taken([0.5, 0.9])
        self.assertTrue(all(check.holds for found in verdict.checks.values() for check in found))
        self.assertEqual(verdict.problems, ["no cell of sift1m is judged by faiss"])

    def test_made_cells_do_not_stand_for_given_ones(self) -> None:
        self.assertFalse(self.taken([0.1], given=False).holds)


if __name__ == "__main__":
    unittest.main()
