"""Data sets that somebody has put into a directory."""

from __future__ import annotations

import os
import struct
import sys
import tempfile
import unittest
from array import array
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import given, pipeann, sets
from jobs import building, catalogue, footprint, growth, inserting


def set_of(rows: int, folder: Path, suffix: str = ".u8bin", dim: int = 1) -> sets.VectorSet:
    """A set with a header alone."""
    base = folder / f"x.base{suffix}"
    base.write_bytes(struct.pack("<II", rows, dim))
    return sets.VectorSet("x", base, Path("q"), Path("t"), 32)


def write(path: Path, rows: Sequence[Sequence[float]]) -> None:
    """A file of vectors."""
    kind = given.TYPES[path.suffix]
    numbers = [int(x) if kind != "f" else x for row in rows for x in row]
    path.write_bytes(struct.pack("<II", len(rows), len(rows[0])) + array(kind, numbers).tobytes())


def truth_of(
    base: Path, queries: Path, out: Path, k: int = 100, metric: str = "l2"
) -> None:
    """What `pipeann gt` makes."""
    ids, distances = array("I"), array("f")
    count = given.shape(queries)[0]
    for query in range(count):
        asked = given.vector(queries, query)
        rows = range(given.shape(base)[0])
        near = sorted((given.distance(metric, asked, given.vector(base, r)), r) for r in rows)[:k]
        ids.extend(row for _, row in near)
        distances.extend(distance for distance, _ in near)
    out.write_bytes(struct.pack("<II", count, k) + ids.tobytes() + distances.tobytes())


class Given(unittest.TestCase):
    """Sets by name, with files of any type."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data, cached = Path(folder.name) / "data", Path(folder.name) / "cache"
        self.data.mkdir()
        self.made: list[str] = []

        def exact(base: Path, queries: Path, out: Path, k: int, metric: str) -> None:
            self.made.append(metric)
            truth_of(base, queries, out, k, metric)

        places = {"PIPEANN_DATA": str(self.data), "PIPEANN_CACHE": str(cached)}
        for patch in (
            mock.patch.dict(os.environ, places),
            mock.patch.object(pipeann, "exact_truth", exact),
            redirect_stdout(StringIO()),
        ):
            patch.__enter__()
            self.addCleanup(patch.__exit__, None, None, None)

    def put(self, name: str, suffix: str, dim: int = 3, rows: int = 40) -> tuple[Path, Path]:
        """Rows and queries of a set."""
        base, queries = (self.data / f"{name}.{what}{suffix}" for what in ("base", "query"))
        write(base, [[(7 * i + 3 * j) % 50 + 1 for j in range(dim)] for i in range(rows)])
        write(queries, [[(5 * i + 2 * j) % 40 + 1 for j in range(dim)] for i in range(4)])
        return base, queries

    def test_a_set_of_any_name_and_type_is_found_and_its_truth_made_once(self) -> None:
        for suffix in given.TYPES:
            name = f"own-{suffix[1:]}"
            base, queries = self.put(name, suffix)
            found = sets.vector_set(name)
            self.assertEqual((found.base, found.queries, found.metric), (base, queries, "l2"))
            # As many neighbours as there are rows.
            self.assertEqual(given.shape(found.truth), (4, 40))
            self.assertEqual(sets.vector_set(name), found)
        self.assertEqual(self.made, ["l2"] * 3)

    def test_truth_beside_a_set_is_used_where_it_is_that_of_the_set(self) -> None:
        base, queries = self.put("own", ".fbin")
        truth = self.data / "own.gt100.bin"
        truth_of(base, queries, truth, 20)
        self.assertEqual(sets.vector_set("own").truth, truth)
        (self.data / "own.toml").write_text('metric = "ip"\n')
        other = sets.vector_set("own")
        self.assertNotEqual(other.truth, truth)
        self.assertEqual((other.metric, self.made), ("ip", ["ip"]))
        for wrong in (b"", struct.pack("<II", 9, 20)):
            content = truth.read_bytes()
            truth.write_bytes(wrong + content[len(wrong) :] if wrong else content[:-4])
            self.assertEqual(sets.vector_set("own").truth, other.truth)

    def test_a_set_under_a_name_of_ours_takes_its_place(self) -> None:
        base, _ = self.put("sift1m", ".i8bin", dim=200)
        # The queries of the given set have a name of their own.
        queries = base.with_name("sift1m.query.i8bin").rename(self.data / "sift.query.i8bin")
        truth_of(*self.put("other", ".i8bin", dim=200, rows=60), self.data / "sift1m.gt100.bin", 50)
        found = sets.vector_set("sift1m")
        self.assertEqual((found.base, found.queries, found.code_bytes), (base, queries, 32))
        self.assertEqual(self.made, ["l2"])
        self.put("keywords", ".fbin")
        self.assertEqual(sets.vector_set("keywords").metric, "ip")

    def test_a_description_says_what_is_not_as_usual(self) -> None:
        _, queries = self.put("own", ".u8bin")
        queries.rename(self.data / "asked.u8bin")
        with self.assertRaises(SystemExit) as missing:
            sets.vector_set("own")
        self.assertIn("own.query.u8bin", str(missing.exception))
        told = self.data / "own.toml"
        told.write_text('metric = "cosine"\ncode_bytes = 2\nqueries = "asked.u8bin"\n')
        found = sets.vector_set("own")
        self.assertEqual((found.metric, found.code_bytes), ("cosine", 2))
        for text, said in (('metrik = "l2"', "metrik"), ('metric = "l3"', "l3")):
            told.write_text(text)
            with self.assertRaises(SystemExit) as refused:
                sets.vector_set("own")
            self.assertIn(said, str(refused.exception))

    def test_codes_are_as_long_as_those_of_the_sets_that_we_know(self) -> None:
        known = {128: 32, 256: 32, 384: 48}
        for dim, code_bytes in known.items():
            self.assertEqual(given.default_code_bytes(dim), code_bytes)
        self.assertEqual(given.default_code_bytes(16), 16)

    def test_an_unknown_set_is_refused_with_those_that_there_are(self) -> None:
        self.put("own", ".u8bin")
        with self.assertRaises(SystemExit) as refused:
            sets.vector_set("others")
        self.assertIn("own", str(refused.exception))
        self.assertIn("minilm", str(refused.exception))

    def test_every_job_takes_such_a_set_by_its_metric_or_by_that_of_its_programs(self) -> None:
        self.put("own", ".fbin")
        (self.data / "own.toml").write_text('metric = "ip"\n')
        for job in catalogue.all_jobs():
            if job.sets:
                found = job.vectors("own")
                self.assertEqual(found.metric, job.metric or "ip")
                self.assertEqual(sets.rows_in(found.queries), min(4, job.queries))
        self.assertEqual(sorted(self.made), ["ip", "l2"])


class Counts(unittest.TestCase):
    """Counts of rows of jobs on sets that have fewer, and limits on those that have more."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_rows_that_a_set_lacks_become_a_share_of_it(self) -> None:
        large, small = (set_of(rows, self.folder / str(rows)) for rows in self.folders(10**6, 5000))
        self.assertEqual(sets.at_most(900_000, large, 0.9), 900_000)
        self.assertEqual(sets.at_most(900_000, small, 0.9), 4500)
        self.assertEqual(sets.at_most(200, small), 200)
        job = catalogue.job("inserts")
        for whole, rows, more in ((large, 900_000, 100_000), (small, 4500, 500)):
            self.assertEqual(inserting.first_rows(job, whole), rows)
            self.assertEqual(inserting.count(job, whole), more)

    def folders(self, *rows: int) -> tuple[int, ...]:
        """A folder for each set."""
        for count in rows:
            (self.folder / str(count)).mkdir()
        return rows

    def test_indexes_of_growing_sets_are_those_named_or_doublings(self) -> None:
        named = [62500, 125000, 250000, 500000, 1000000]
        self.assertEqual(growth.counts_of(named, 10**6), named)
        self.assertEqual(growth.counts_of(named, 80_000), [5000, 10_000, 20_000, 40_000, 80_000])
        self.assertEqual(growth.counts_of(None, 32), [2, 4, 8, 16, 32])
        self.assertEqual(footprint.counts_of([250_000, 10**6], 10**6), [250_000, 10**6])
        self.assertEqual(footprint.counts_of([250_000, 10**6], 80_000), [20_000, 80_000])

    def test_a_limit_of_a_build_is_a_strain_whatever_the_set(self) -> None:
        job, gib = catalogue.job("build-memory"), 1 << 30
        self.assertEqual(building.limit_of(job, 5 * gib), gib)
        self.assertEqual(building.limit_of(job, 2 * gib), 2 * gib // 5)
        self.assertEqual(building.limit_of(job, 40 * gib), 8 * gib)
        self.assertTrue(building.grows(set_of(1, self.folder, dim=128)))
        self.assertFalse(building.grows(set_of(1, self.folder, ".fbin", dim=128)))


if __name__ == "__main__":
    unittest.main()
