"""Figures of clusters on made-up counts and costs: the model, the layout, the plots."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import unittest
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import ClassVar
from unittest import mock
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import clusters, pipeann, places, plots, projection
from harness.curves import Curve
from harness.pipeann import BuildOptions
from harness.processes import Row
from harness.projection import Costs
from harness.sets import VectorSet
from harness.verdict import Verdict
from jobs import (
    catalogue,
    chaos,
    cluster,
    cluster_experiments,
    cluster_layout,
    cluster_model,
    cluster_modes,
    cluster_queueing,
    cluster_rivals,
)

VECTORS = VectorSet("sift1m", Path("base.u8bin"), Path("query.u8bin"), Path("truth.bin"), 32)


def rows_of(**columns: Sequence[float]) -> list[Row]:
    """Rows around the recall, by column."""
    lists: list[Row] = [{"list": 12, "recall": 0.93}, {"list": 16, "recall": 0.97}]
    return [
        row | {name: values[i] for name, values in columns.items()} for i, row in enumerate(lists)
    ]


class Models(unittest.TestCase):
    """Constants, and what they come to."""

    def test_constants_are_the_line_that_made_the_times(self) -> None:
        rows = [
            {"pages": pages, "code_distances": 90 * pages + 50, "server_us": 25 + 18 * pages}
            for pages in (10, 15, 25)
        ]
        costs = Costs.fitted(rows, message=10, waking=2, distance=0.1)
        self.assertAlmostEqual(costs.query, 20)
        self.assertAlmostEqual(costs.read, 9)
        self.assertAlmostEqual(costs.relay(20, 1000, 2), 20 + 180 + 100 + 24)
        self.assertAlmostEqual(costs.scatter(60, 5000, 10), 200 + 540 + 500)
        self.assertTrue(costs.sound)
        self.assertFalse(Costs.fitted(rows, 10, 2, distance=0.3).sound)
        # Without a price a read has its distances in it.
        self.assertAlmostEqual(Costs.fitted(rows, 10, 2).relay(20, 1000, 0), 25 + 360)

    def test_skew_and_cost_take_from_a_speed_up(self) -> None:
        self.assertAlmostEqual(projection.speed_up(10, 200, 250, 1.25), 6.4)
        self.assertAlmostEqual(projection.error(90, 100), 0.1)
        self.assertAlmostEqual(projection.error(110, 100), 0.1)

    def predict(self, server_us: float, qps: float) -> tuple[cluster_model.Prices | None, Verdict]:
        """Of two processes, which take what is told; 117 us and 7,042 a second are foretold."""
        job = catalogue.job("cluster-model", quick=True)
        one = rows_of(
            pages=(10, 20),
            code_distances=(1000, 2000),
            server_us=(80, 120),
            qps=(8000, 8000),
            client_us=(25, 25),
        )
        two = rows_of(pages=(10, 20), server_us=(server_us,) * 2, qps=(qps,) * 2)
        curves = {n: Curve.of_rounds(str(n), [rows]) for n, rows in ((1, one), (2, two))}
        exact: dict[int, Row] = {1: {"reads": 15.0, "code_distances": 1500.0}}
        exact[2] = exact[1] | {"hops": 1.0}
        verdict = Verdict()
        case = cluster_model.Case("made up", "all", 1, "processor", {})
        with (
            mock.patch.object(cluster_model, "alone", return_value={"relay": curves[1]}),
            mock.patch.object(cluster_model, "measured", return_value=curves),
            mock.patch.object(cluster_model, "hop_costs", return_value=(15.0, 2.0)),
            redirect_stdout(StringIO()) as said,
        ):
            prices = cluster_model.predicted(job, VECTORS, Path("index"), case, exact, verdict)
        text = said.getvalue()
        self.assertLess(text.index("constants"), text.index("foretold at"))
        self.assertLess(text.index("foretold at"), text.index("measured, in turn"))
        return prices, verdict

    def test_a_case_that_is_foretold_gives_constants(self) -> None:
        # 40 + 15 * 4 + 1 * 17 = 117 us; with who asks 142, on one core.
        prices, verdict = self.predict(117, 7042)
        assert prices is not None
        self.assertEqual(prices.costs, Costs(40, 4, 15, 2))
        self.assertTrue(verdict.holds)

    def test_a_case_that_is_off_in_either_gives_none(self) -> None:
        for server_us, qps in ((150, 7042), (117, 6000)):
            prices, verdict = self.predict(server_us, qps)
            self.assertIsNone(prices)
            self.assertFalse(verdict.holds)

    def test_what_was_not_measured_is_short_and_said(self) -> None:
        job = catalogue.job("cluster-model")
        verdict = Verdict()
        over = [cluster_model.Over("one server", 9.0), cluster_model.Over("scatter", 4.0)]
        over.append(cluster_model.over_least("distributed", [], lambda rival: rival.reads, 1.0))
        self.assertTrue(math.isnan(over[-1].ratio))
        with redirect_stdout(StringIO()) as said:
            cluster_model.conclude(job, "made up", "processor", over, verdict)
        self.assertIn("PROJECTED", said.getvalue())
        self.assertIn("not measured", said.getvalue())
        self.assertFalse(verdict.holds)

    def test_the_time_of_a_process_is_what_it_says_itself(self) -> None:
        before = clusters.cpu_s(os.getpid())
        sum(i * i for i in range(1_000_000))
        own = os.times()
        self.assertAlmostEqual(clusters.cpu_s(os.getpid()), own.user + own.system, delta=0.05)
        self.assertGreater(clusters.cpu_s(os.getpid()), before)


class Layouts(unittest.TestCase):
    """Ten partitions over one, and those of a build under a limit."""

    def take(
        self, peaks: dict[str, float], vectors: VectorSet = VECTORS, full: bool = False
    ) -> Verdict:
        """By what a build, one under a limit, and a cut have in memory at most, in GiB."""
        hops = {"of-1": 0.0, "of-10": 2.0, "limited": 1.9, "ordered": 6.0, "parted": 2.1}

        def build(base: Path, index: Path, *_: object, memory: str | None = None) -> Row:
            peak = peaks["limited" if memory else "build"] * (1 << 30)
            return dict.fromkeys(cluster_layout.COSTS, 100.0) | {"peak_rss_bytes": peak}

        def partition(source: Path, out: Path, *_: object, memory: str) -> Row:
            return build(source, out, memory=memory) | {"peak_rss_bytes": peaks["cut"] * (1 << 30)}

        def counts(index: Path, _: VectorSet, __: object, servers: list[int], ___: object) -> list[Row]:
            rows = rows_of(reads=(20, 20), hops=(hops[index.name],) * 2, hops_to_entry=(1, 1))
            return [row | {"servers": count} for count in servers for row in rows]

        verdict = Verdict()
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(places, "cache", return_value=Path(folder)),
            mock.patch.multiple(
                pipeann, build=build, partition=partition, cluster_counts=counts
            ),
            mock.patch.object(cluster_layout, "rows_in", return_value=1000),
            redirect_stdout(StringIO()),
        ):
            job = catalogue.job("cluster-layout", full=full)
            cluster_layout.take_cluster_layout(job, vectors, verdict)
        return verdict

    def test_the_most_of_build_and_cut_is_held_against_the_limit(self) -> None:
        for limited, cut, holds in ((0.2, 0.27, True), (0.2, 0.3, False), (0.3, 0.2, False)):
            # The limit is 256 MiB, a share of 0.19 of the build without.
            verdict = self.take({"build": 0.25 / 0.19, "limited": limited, "cut": cut})
            self.assertEqual(verdict.holds, holds)
            over = verdict.checks["peak over the limit"][0].measured
            self.assertAlmostEqual(over, max(limited, cut) / 0.25, places=2)
            for built, over in (("by graph", 0.95), ("then parted", 1.05)):
                (check,) = verdict.checks[f"hops over unlimited, {built}"]
                self.assertAlmostEqual(check.measured, over)

    def test_a_set_that_cannot_be_grown_is_taken_as_it_is_at_full_size(self) -> None:
        floats = replace(VECTORS, base=Path("base.fbin"))
        peaks = {"build": 10.0, "limited": 1.9, "cut": 2.0}
        verdict = self.take(peaks, floats, full=True)
        (check,) = verdict.checks["peak over the limit"]
        self.assertAlmostEqual(check.measured, 2.0 / 1.9, places=2)

    def test_partitions_are_cut_from_one_graph_and_kept(self) -> None:
        mother = BuildOptions(partitions=10)
        made: list[int] = []

        def partition(source: Path, out: Path, partitions: int, *_: object) -> Row:
            self.assertEqual(source, Path("mother-1/index"))
            out.mkdir()
            made.append(partitions)
            return {}

        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(places, "cache", return_value=Path(folder)),
            mock.patch.object(pipeann, "index_of", return_value=Path("mother-1/index")),
            mock.patch.object(pipeann, "partition", partition),
        ):
            same = pipeann.partitioned(VECTORS, mother, mother)
            self.assertEqual(same, Path("mother-1/index"))
            other = BuildOptions(partitions=3)
            found = {pipeann.partitioned(VECTORS, other, mother) for _ in range(2)}
        self.assertEqual((len(found), made), (1, [3]))


class Modes(unittest.TestCase):
    """DistributedANN and the nearest servers beside relay."""

    def taken(self, messages: dict[str, float]) -> tuple[Verdict, str]:
        """By the messages of each width, and of each that is packed; the nearest three of ten servers find
        0.95."""

        def counts(
            index: Path, _: VectorSet, __: object, servers: list[int], words: list[str]
        ) -> list[Row]:
            self.assertEqual(servers, [10])
            rows = rows_of(reads=(20, 20), rounds=(1, 1), code_distances=(9, 9), skew=(1, 1))
            if "relay" in words:
                return [row | {"messages": 5.0, "bytes": 2000.0} for row in rows]
            if "scatter" in words:
                near = int(words[words.index("--nearest") + 1])
                found = 0.97 if near >= 3 else 0.6 + near / 10
                return [row | {"recall": found, "reads": 8.0 * near, "messages": 0.0, "bytes": 0.0}
                        for row in rows]  # fmt: skip
            width = words[words.index("--width") + 1]
            way = width + (" packed" if "--packed" in words else "")
            return [row | {"messages": messages[way], "bytes": 9000.0} for row in rows]

        job, verdict = catalogue.job("cluster-modes"), Verdict()
        with (
            mock.patch.object(pipeann, "cluster_counts", counts),
            mock.patch.object(cluster_modes, "apart", return_value=Path("separate")),
            redirect_stdout(StringIO()) as said,
        ):
            cluster_modes.by_messages(job, VECTORS, Path("index"), verdict)
            cluster_modes.nearest(job, VECTORS, Path("index"), verdict)
        return verdict, said.getvalue()

    def ways(self) -> list[str]:
        """Widths, and those that are packed."""
        widths = [str(width) for width in catalogue.job("cluster-modes").settings["distributed_widths"]]
        return widths + [f"{width} packed" for width in widths]

    def test_the_papers_way_with_the_fewest_messages_is_held_against_the_limit(self) -> None:
        for fewest, ample in ((21.0, True), (19.0, False)):
            for way, named in (("16", "width 16"), ("8 packed", "packed, width 8")):
                verdict, said = self.taken(dict.fromkeys(self.ways(), 50.0) | {way: fewest})
                self.assertEqual(verdict.holds, ample or "packed" in way)
                name = f"messages of distributed-ann, {named} over relay"
                self.assertAlmostEqual(verdict.checks[name][0].measured, fewest / 5)
                for told in self.ways():
                    width = told.removesuffix(" packed")
                    packed = "packed, " if told != width else ""
                    self.assertIn(f"distributed-ann, {packed}width {width}", said)

    def test_what_it_sends_packed_is_told_beside(self) -> None:
        verdict, _ = self.taken(dict.fromkeys(self.ways(), 50.0) | {"4 packed": 30.0, "2": 40.0})
        measured = {
            name: checks[0].measured
            for name, checks in verdict.checks.items()
            if name.startswith("messages")
        }
        self.assertEqual(
            measured,
            {
                "messages of distributed-ann, packed, width 4 over relay": 6.0,
                "messages of distributed-ann, width 2 over relay": 8.0,
            },
        )

    def test_as_few_servers_are_told_as_reach_a_recall_at_the_fewest_reads(self) -> None:
        verdict, _ = self.taken(dict.fromkeys(self.ways(), 50.0))
        asked = {
            recall: verdict.checks[f"servers to ask for the fewest reads at {recall:g}"][0].measured
            for recall in (0.7, 0.8, 0.95)
        }
        self.assertEqual(asked, {0.7: 1, 0.8: 2, 0.95: 3})


class Rivals(unittest.TestCase):
    """A graph for each server, asked in every way."""

    SETTINGS: ClassVar = {
        "partition_by": ["graph", "random"],
        "widths": [1, 2],
        "wider": 2,
        "each": [4, 10],
        "lists": [10, 20],
        "nearest_by": ["graph"],
        "nearest": [6, 8, 10],
    }

    def test_the_nearest_are_a_share_of_the_servers(self) -> None:
        for servers, nearest in ((10, {6, 8}), (5, {3, 4})):
            ways = cluster_rivals.ways_of(self.SETTINGS, [4, 10], servers)
            self.assertEqual({way.nearest for way in ways if way.nearest is not None}, nearest)
            self.assertEqual({way.width for way in ways}, {1})
            self.assertEqual(len(ways), 2 * 2 + 2 * 2)

    def test_the_fewest_reads_that_find_as_much_are_its_best(self) -> None:
        reads = {"graph": 90.0, "random": 60.0}

        def counts(
            index: Path, _: VectorSet, lists: list[int], servers: list[int], words: list[str], k: int
        ) -> list[Row]:
            each = int(words[words.index("--each") + 1])
            self.assertTrue(all(length >= each for length in lists))
            # Four of each find too little where rows lie together; the nearest never find enough.
            short = "--nearest" in words or (each < 10 and index.name == "graph")
            columns = {"code_distances": 1.0, "messages": 20.0, "skew": 1.0}
            return [
                {"list": length, "recall": found - 0.2 * short, "reads": reads[index.name] + each}
                | columns
                for length, found in zip(lists, (0.9, 0.99), strict=True)
            ]

        with (
            mock.patch.object(pipeann, "cluster_counts", counts),
            mock.patch.object(cluster_rivals, "apart", return_value=Path("separate")),
            redirect_stdout(StringIO()) as said,
        ):
            found = cluster_rivals.swept(VECTORS, Path, 10, self.SETTINGS, 0.95)
            best = cluster_rivals.at_best("made up", found, 0.95)
            none = cluster_rivals.at_best("made up", found, 0.999)
        assert best is not None
        self.assertEqual(best.way, cluster_rivals.Way("random", 1, 4))
        self.assertIsNone(none)
        # Three ways of all servers find as much, and with another width the best two of these.
        self.assertEqual(
            [scattered.way for scattered in found if scattered.way.width == 2],
            [cluster_rivals.Way("random", 2, few) for few in (4, 10)],
        )
        self.assertIn("5 of 10 ways never find as much", said.getvalue())
        self.assertIn("all, by graph, width 1, 10 of each", said.getvalue())


class Equals(unittest.TestCase):
    """Answers of processes beside those of one."""

    def test_a_query_differs_by_a_row_a_distance_or_its_pages(self) -> None:
        one = {"hits": [[[1, 2.5], [3, 4.0]], [[5, 6.0]], []], "pages": [7, 8, 9]}
        both = ("hits", "pages")
        self.assertEqual(cluster.differing(one, one, both), 0)
        for changed in (
            {"hits": [[[2, 2.5], [3, 4.0]], [[5, 6.0]], []]},
            {"hits": [[[1, 2.5], [3, 4.0]], [[5, 6.0000005]], []]},
            {"pages": [7, 8, 10]},
        ):
            self.assertEqual(cluster.differing(one, one | changed, both), 1)
        self.assertEqual(cluster.distances_of(one), {"hits": [[2.5, 4.0], [6.0], []]})


class Queueing(unittest.TestCase):
    """The three ways of taking a search in."""

    def test_the_last_way_is_held_against_each_of_the_others(self) -> None:
        rates = {"one": 900.0, "batches": 1000.0, "always": 1000.0}

        def search(self: clusters.Cluster, *_: object, **__: object) -> list[Row]:
            rate = rates[self.servers.discipline]
            return rows_of(qps=(rate, rate), mean_us=(9, 9), p99_us=(9, 9))

        @contextmanager
        def serving(_: Path, __: int, servers: clusters.Servers) -> Iterator[clusters.Cluster]:
            yield clusters.Cluster(Path("topology"), Path("certificates"), servers)

        job, verdict = replace(catalogue.job("cluster-queueing"), lists={"sift1m": [12, 16]}), Verdict()
        with (
            mock.patch.object(pipeann, "index_of", return_value=Path("index")),
            mock.patch.object(cluster_queueing, "serving", serving),
            mock.patch.object(clusters.Cluster, "search", search),
            redirect_stdout(StringIO()),
        ):
            cluster_queueing.take_cluster_queueing(job, VECTORS, verdict)
            self.assertTrue(verdict.holds)
            rates["always"] = 950.0
            short = Verdict()
            cluster_queueing.take_cluster_queueing(job, VECTORS, short)
        self.assertAlmostEqual(verdict.checks["QPS of always over one"][0].measured, 10 / 9)
        self.assertFalse(short.holds)


class Experiments(unittest.TestCase):
    """The paper's experiments."""

    def test_some_are_chosen_by_name_and_unknown_ones_are_refused(self) -> None:
        taken: list[str] = []
        named = {name: lambda *_, name=name: taken.append(name) for name in ("width", "state")}
        with mock.patch.object(cluster_experiments, "EXPERIMENTS", named):
            for only in (None, "state"):
                job = catalogue.job("cluster-experiments", only=only)
                cluster_experiments.take_cluster_experiments(job, VECTORS, Verdict())
            with self.assertRaises(SystemExit):
                job = catalogue.job("cluster-experiments", only="none")
                cluster_experiments.take_cluster_experiments(job, VECTORS, Verdict())
        self.assertEqual(taken, ["width", "state", "state"])

    def test_curves_of_a_panel_are_named_and_the_axis_begins_where_it_is_told(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "figure.svg"
            curves = {"W = 1": [(0.8, 1.0), (1.0, 3.0)], "a < b": [(0.9, 2.0), (1.0, 2.0)]}
            plots.draw(path, "by width", "recall", [plots.Panel("hops", curves)], left=0.8)
            found = list(ElementTree.parse(path).iter())
        tags = [element.tag.rpartition("}")[2] for element in found]
        self.assertEqual((tags.count("circle"), tags.count("polyline")), (4, 2))
        texts = [element.text for element in found if element.tag.endswith("text")]
        self.assertTrue({"W = 1", "a < b", "0.8", "1"} <= set(texts))
        first = next(element for element in found if element.tag.endswith("circle"))
        self.assertEqual(float(first.attrib["cx"]), plots.LEFT)


class Chaos(unittest.TestCase):
    """Lines of the table, and what they come to."""

    def taken(self, only: str, **counts: float) -> tuple[Verdict, str]:
        """Rows of these names, of a script that counted so."""
        printed = StringIO()
        counted = mock.patch.object(chaos, "counted", return_value=counts)
        program = mock.patch.object(pipeann, "program", return_value=Path("pipeann"))
        with counted, program, redirect_stdout(printed):
            verdict = catalogue.job("chaos", quick=True, only=only).run([])
        return verdict, printed.getvalue()

    def test_a_row_that_is_short_makes_the_job_short(self) -> None:
        counts = dict.fromkeys(["failed_writes", "failed_reads", "lost", "differ", "codes"], 0)
        told = {"exchanged": 3, "writes": 10, "reads": 20}
        verdict, printed = self.taken("rolling_*", **counts, **told)
        self.assertTrue(verdict.holds)
        self.assertEqual(printed.splitlines()[-1].split(" | ")[-1], "holds")
        verdict, printed = self.taken("rolling_*", **counts | {"lost": 1}, **told)
        self.assertFalse(verdict.holds)
        self.assertIn("lost 1", printed)
        self.assertEqual(printed.splitlines()[-1].split(" | ")[-1], "short")

    def test_a_row_that_does_not_end_is_short_and_others_go_on(self) -> None:
        fails = mock.patch.object(chaos, "counted", side_effect=SystemExit("it failed with 1"))
        program = mock.patch.object(pipeann, "program", return_value=Path("pipeann"))
        with fails, program, redirect_stdout(StringIO()) as printed:
            verdict = catalogue.job("chaos", quick=True, only="rolling_*,store_gone").run([])
        self.assertFalse(verdict.holds)
        for name in ("rolling_restart", "store_gone"):
            self.assertIn(f"{name} did not come to its end", verdict.problems)
        self.assertEqual(printed.getvalue().count("it failed with 1"), 2)

    def test_every_setting_is_used_and_has_a_quick_one(self) -> None:
        whole, quick = catalogue.job("chaos"), catalogue.job("chaos", quick=True)
        self.assertEqual(set(whole.settings), set(quick.settings))
        source = Path(chaos.__file__).read_text()
        for name, value in whole.settings.items():
            self.assertIn(f'"{name}"', source)
            self.assertGreater(value, quick.settings[name])
        rows = {name for name in vars(chaos) if name.startswith("take_")}
        rows -= {"take_chaos", "take_cluster_frames"}
        self.assertEqual(rows, {row.__name__ for row in chaos.ROWS})


if __name__ == "__main__":
    unittest.main()
