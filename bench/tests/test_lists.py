"""Lists that are extended until they enclose a recall."""

from __future__ import annotations

import sys
import unittest
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import clusters, curves, pipeann, rivals, sets
from harness.curves import Around, Curve, OutOfRange, enclosing
from harness.processes import Row
from harness.sets import VectorSet
from harness.verdict import Verdict
from jobs import (
    auto,
    catalogue,
    cluster_experiments,
    cluster_model,
    cluster_modes,
    cluster_rivals,
    versus,
)

VECTORS = VectorSet("x", Path("base.u8bin"), Path("query.u8bin"), Path("truth.bin"), 32)


def found(length: int, hardness: float) -> float:
    """A recall that rises with the list, the later the harder."""
    return max(0.0, 1.0 - hardness / length)


class Enclosing(unittest.TestCase):
    """What is searched beyond the lists of a job."""

    def asked(
        self, hardness: float, lists: Sequence[int], k: int = 10, most: float = 1.0
    ) -> tuple[list[int], Curve]:
        """The lists that were searched on a set so hard, and the curve."""
        calls: list[int] = []

        def ask(chosen: Sequence[int]) -> list[Row]:
            calls.extend(chosen)
            return [
                {"list": n, "recall": min(most, found(n, hardness)), "reads": n} for n in chosen
            ]

        with redirect_stdout(StringIO()):
            return calls, Curve.of_rounds("x", [enclosing(ask, lists, k)])

    def test_lists_that_enclose_the_recall_are_all_that_is_searched(self) -> None:
        calls, _ = self.asked(1.0, Around([12, 16, 24], [0.95]))
        self.assertEqual(calls, [12, 16, 24])

    def test_a_hard_set_gets_longer_lists(self) -> None:
        calls, curve = self.asked(10.0, Around([12, 16, 24, 45], [0.95]))
        self.assertEqual(calls, [12, 16, 24, 45, 63, 90, 126, 180, 252, 360])
        self.assertAlmostEqual(curve.at("recall", 0.95), 0.95)
        # Between two lists of 180 and 252, as near as those of the job are.
        self.assertAlmostEqual(curve.at("list", 0.95), 200, delta=10)

    def test_an_easy_set_gets_shorter_ones_down_to_k_which_then_stands_for_the_recall(self) -> None:
        calls, curve = self.asked(0.1, Around([24, 48], [0.95]))
        self.assertEqual(calls, [24, 48, 17, 12, 10])
        self.assertEqual(curve.at("list", 0.95), 10)

    def test_a_recall_that_is_never_reached_ends_the_search_for_it(self) -> None:
        calls, curve = self.asked(1.0, Around([16, 32], [0.95]), most=0.94)
        self.assertEqual(calls, [16, 32, 45, 64])
        with self.assertRaises(OutOfRange):
            curve.at("reads", 0.95)
        calls, _ = self.asked(60.0, Around([70, 100], [0.95]))
        self.assertEqual(max(calls), curves.MOST)

    def test_all_recalls_are_enclosed(self) -> None:
        _, curve = self.asked(2.0, Around([30, 40], [0.9, 0.95, 0.99]))
        for recall in (0.9, 0.95, 0.99):
            self.assertAlmostEqual(curve.at("recall", recall), recall)

    def test_plain_lists_are_searched_as_they_are(self) -> None:
        calls, _ = self.asked(10.0, [12, 16])
        self.assertEqual(calls, [12, 16])

    def test_every_number_of_servers_has_to_enclose_the_recall(self) -> None:
        def ask(chosen: Sequence[int]) -> list[Row]:
            return [
                {"list": n, "servers": servers, "recall": found(n, servers)}
                for servers in (1, 4)
                for n in chosen
            ]

        with redirect_stdout(StringIO()):
            rows = enclosing(ask, Around([12, 32], [0.95]))
        for servers in (1, 4):
            curve = Curve.of_rounds("x", [[row for row in rows if row["servers"] == servers]])
            self.assertAlmostEqual(curve.at("recall", 0.95), 0.95)


class Searches(unittest.TestCase):
    """Every search of the harness extends its lists."""

    def test_each_asks_again_with_longer_lists(self) -> None:
        commands: list[list[str]] = []

        def ran(command: Sequence[str | Path]) -> list[Row]:
            words = [str(word) for word in command]
            commands.append(words)
            lengths = [int(n) for n in words[words.index("--list") + 1].split(",")]
            common = {"servers": 1, "queries": 1}
            return [common | {"list": n, "recall": found(n, 3.0)} for n in lengths]

        lists, index = Around([12, 16], [0.95]), Path("i")
        cluster = clusters.Cluster(Path("t"), Path("c"), clusters.Servers(1, 1, 1))
        options = pipeann.SearchOptions.of("pipe")
        with (
            mock.patch.object(pipeann, "json_lines", ran),
            mock.patch.object(rivals, "json_lines", ran),
            mock.patch.object(clusters, "json_lines", ran),
            mock.patch.object(pipeann, "program", lambda: Path("p")),
            mock.patch.object(rivals, "python", lambda: Path("p")),
            mock.patch.object(rivals, "filtered_python", lambda: Path("p")),
            redirect_stdout(StringIO()),
        ):
            searches = (
                lambda: pipeann.search(index, VECTORS, lists, options),
                lambda: pipeann.cluster_counts(index, VECTORS, lists, [1], []),
                lambda: cluster.search(VECTORS, lists, in_flight=1, policy=[]),
                lambda: cluster.timed(VECTORS, lists, in_flight=1, policy=[]),
                lambda: rivals.search_diskannpy(index, VECTORS, lists, width=1, threads=1),
                lambda: rivals.search_hnswlib(index, VECTORS, lists),
                lambda: rivals.search_faiss_hnsw(index, VECTORS, lists, threads=1),
            )
            for search in searches:
                rows = search()
                self.assertEqual([row["list"] for row in rows], [12, 16, 23, 32, 45, 64])
        self.assertIn("--metric", commands[-1])


class Jobs(unittest.TestCase):
    """Jobs on a set that is harder than those that their lists are for."""

    HARD = 10.0

    def counts(
        self, _i: object, _v: object, lists: Sequence[int], servers: Sequence[int], _w: object,
        k: int = 10,
    ) -> list[Row]:  # fmt: skip
        """What searches over servers find of it."""
        names = ("reads", "hops", "hops_to_entry", "bytes_a_hop", "skew", "code_distances")
        row = dict.fromkeys((*names, "messages", "vector_bytes", "bytes", "rounds"), 9.0)

        def ask(chosen: Sequence[int]) -> list[Row]:
            recalls = {n: min(self.most, found(n, self.HARD)) for n in chosen}
            return [
                row | {"k": k, "list": n, "servers": count, "recall": recalls[n]}
                for count in servers
                for n in chosen
            ]

        return enclosing(ask, lists, k)

    def setUp(self) -> None:
        self.most = 1.0
        for patch in (
            mock.patch.object(pipeann, "cluster_counts", self.counts),
            mock.patch.object(pipeann, "index_of", return_value=Path("i")),
            mock.patch.object(pipeann, "partitioned", return_value=Path("i")),
            mock.patch.object(cluster_rivals, "apart", return_value=Path("i")),
            mock.patch.object(cluster_modes, "apart", return_value=Path("i")),
            mock.patch.object(sets, "with_queries", lambda vectors, _: vectors),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def test_counts_of_clusters_reach_the_recall(self) -> None:
        verdict, index = Verdict(), Path("i")
        with redirect_stdout(StringIO()):
            cluster_modes.take_cluster_modes(catalogue.job("cluster-modes"), VECTORS, verdict)
            job = catalogue.job("cluster-model")
            exact = cluster_model.counted(job, VECTORS, index, [1, 2, 10])
            rivals_of = cluster_model.rivals_of(job, VECTORS, index)
        self.assertEqual(verdict.problems, [])
        self.assertEqual([row["recall"] for row in exact.values()], [job.recall] * 3)
        self.assertTrue(all(rivals_of.values()))

    def experiments(self, only: str | None = None) -> tuple[Verdict, str]:
        """All of them, or one."""
        verdict = Verdict()
        with redirect_stdout(StringIO()) as said:
            job = catalogue.job("cluster-experiments", only=only)
            cluster_experiments.take_cluster_experiments(job, VECTORS, verdict)
        return verdict, said.getvalue()

    def test_experiments_reach_it_too(self) -> None:
        verdict, _ = self.experiments()
        self.assertEqual(verdict.problems, [])

    def test_what_never_reaches_it_is_no_end_of_an_experiment(self) -> None:
        self.most = 0.9
        for name in ("servers", "width", "systems", "results", "partitioning"):
            verdict, said = self.experiments(name)
            self.assertTrue(any("never finds 0.95" in problem for problem in verdict.problems))
            self.assertFalse(any("Error" in problem for problem in verdict.problems))
            self.assertRegex(said, r"(?m) - ")
        verdict, said = self.experiments()
        # The last one of all.
        self.assertIn("bytes of a state, longest list", verdict.checks)

    def search(
        self, _i: object, _v: object, lists: Sequence[int], *_: object, **__: object
    ) -> list[Row]:
        """What any program finds of it."""
        names = ("qps", "mean_us", "p99_us", "reads", "cpu_us", "reads_per_s")

        def ask(chosen: Sequence[int]) -> list[Row]:
            row = dict.fromkeys(names, 9.0)
            return [row | {"k": 10, "list": n, "recall": found(n, self.HARD)} for n in chosen]

        return enclosing(ask, lists)

    def test_auto_and_its_rivals_are_scanned_around_the_recall(self) -> None:
        job = catalogue.job("auto", quick=True)
        with mock.patch.object(pipeann, "search", self.search), redirect_stdout(StringIO()):
            contest = auto.Contest(job, VECTORS, Path("i"))
            contest.scan(["auto", "pipe"])
            self.assertEqual(set(contest.curves), {"auto", "pipe"})
            low, high = auto.around(contest.curves["auto"], job.recall)
            self.assertTrue(low < 200 <= high)
            self.assertEqual(contest.value("auto", "qps"), 9.0)
            self.assertEqual(contest.outside, 0.0)

    def test_no_list_is_shorter_than_k_for_auto_either(self) -> None:
        def easy(_i: object, _v: object, lists: Sequence[int], _o: object) -> list[Row]:
            return [{"k": 10, "list": n, "recall": 0.97, "qps": 1.0 * n} for n in lists]

        with mock.patch.object(pipeann, "search", easy), redirect_stdout(StringIO()):
            contest = auto.Contest(catalogue.job("auto", quick=True), VECTORS, Path("i"))
            contest.scan(["auto"])
            self.assertEqual((contest.value("auto", "qps"), contest.outside), (10.0, 0.0))

    def rivals_of(self, vectors: VectorSet) -> tuple[list[str], str]:
        """Those of qps-vs-diskann that have a way with the recall."""
        job = catalogue.job("qps-vs-diskann")
        with (
            mock.patch.object(rivals, "diskannpy_index", return_value=Path("i")),
            mock.patch.object(rivals, "diskann_disk_index", return_value=Path("i")),
            mock.patch.object(rivals, "search_diskannpy", self.search),
            mock.patch.object(rivals, "search_diskann_disk", self.search),
            redirect_stdout(StringIO()) as said,
        ):
            systems = versus.rival_systems(job, vectors)
            for ways in systems.values():
                versus.best_ways(ways, vectors, job.recall, 1)
        return list(systems), said.getvalue()

    def test_a_rival_that_lacks_the_metric_is_left_out_and_that_is_said(self) -> None:
        there, said = self.rivals_of(VECTORS)
        self.assertEqual(there, ["diskannpy", "diskann-disk"])
        self.assertNotIn("left out", said)
        there, said = self.rivals_of(replace(VECTORS, metric="ip"))
        self.assertEqual(there, ["diskannpy"])
        self.assertIn("left out: the program around diskann-disk compares by l2 alone", said)


if __name__ == "__main__":
    unittest.main()
