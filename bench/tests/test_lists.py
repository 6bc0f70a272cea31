"""Lists that are extended until they enclose a recall."""

from __future__ import annotations

import sys
import unittest
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import clusters, curves, pipeann, rivals
from harness.curves import Around, Curve, OutOfRange, enclosing
from harness.processes import Row
from harness.sets import VectorSet

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


if __name__ == "__main__":
    unittest.main()
