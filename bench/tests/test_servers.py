"""Figures of servers of one database, and of simulations and suites, on made-up counts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import doors, pipeann, places
from harness.sets import VectorSet
from harness.verdict import Verdict
from jobs import catalogue, chaos, copies, joins, loop, simnet, suites, upkeep

VECTORS = VectorSet("sift1m", Path("base.u8bin"), Path("query.u8bin"), Path("truth.bin"), 32)


def taken(module: Any, name: str, counts: dict[str, Any], only: str | None = None) -> Verdict:
    """A figure of a script that counted so."""
    job = catalogue.job(name, quick=True, only=only)
    counted = mock.patch.object(module, "counted", return_value=counts)
    program = mock.patch.object(pipeann, "program", return_value=Path("pipeann"))
    package = mock.patch.object(doors, "package", return_value=Path("package"))
    rows = mock.patch.object(copies, "at_most", return_value=1000)
    verdict = Verdict()
    with counted, program, package, rows, redirect_stdout(StringIO()):
        job.code()(job, *([VECTORS] if job.sets else []), verdict)
    return verdict


class Rows(unittest.TestCase):
    """Rows of `chaos` do not hold where nothing failed."""

    def assert_needs(self, row: str, counts: dict[str, Any], *names: str) -> None:
        """All of these have to have happened."""
        self.assertTrue(taken(chaos, "chaos", counts, row).holds)
        for name in names:
            self.assertFalse(taken(chaos, "chaos", counts | {name: 0}, row).holds, name)

    def test_states_have_to_be_lost_and_queries_begun_again(self) -> None:
        times = {"calm_p95_s": 0.1, "again_p50_s": 0.1, "again_p99_s": 0.15}
        counts = {"wrong": 0, "errors": 0, "cuts": 3, "again": 2, "queries": 9, **times}
        self.assert_needs("states_lost", counts, "cuts", "again")

    def test_a_store_has_to_be_faulty_and_read_beside(self) -> None:
        names = ("refused", "elections", "lost", "twice", "differ", "failed_reads")
        counts = dict.fromkeys((*names, "failed_bounded"), 0)
        counts |= {"faults": 7, "reads": 9, "written": 3, "write_p50_s": 1, "write_worst_s": 2}
        self.assert_needs("store_slow", counts, "faults", "reads")

    def test_others_have_to_read_beside_a_kill(self) -> None:
        names = ("calm", "at_once", "later", "own")
        counts: dict[str, Any] = {f"{name}_p99_s": 0.1 for name in names}
        counts |= {"failed": 0, "reads": 9, "rate": 10, "own_worst_s": 0.2, "reads_at_once": 4}
        self.assert_needs("follower_killed", counts, "reads_at_once")

    def test_the_log_has_to_be_cut_beyond_a_leader_that_stands_still(self) -> None:
        log = dict.fromkeys(("old_records", "broken_chain", "replaced", "unseen"), 0) | {"cuts": 2}
        counts = dict.fromkeys(("lost", "differ", "stale_reads", "refused_reads"), 0)
        counts |= {"refused_writes": 0, "load_reads": 9, "load_failed": 0, "truncated": 1}
        counts |= {"runs": 4, "words": {}, "load_words": {}, "log": log}
        counts |= {"histories": {"histories": [], "not_linearizable": 0}}
        self.assert_needs("leader_stopped", counts, "truncated")
        uncut = counts | {"log": log | {"cuts": 0}}
        self.assertFalse(taken(chaos, "chaos", uncut, "leader_stopped").holds)

    def test_any_error_of_a_row_leaves_the_others(self) -> None:
        # Of all that is asked for nothing is there.
        verdict = taken(chaos, "chaos", {}, "part_gone,slow_server")
        self.assertEqual(
            verdict.problems,
            [f"{name} did not come to its end" for name in ("part_gone", "slow_server")],
        )

    def test_the_package_of_scripts_is_the_one_that_is_shipped(self) -> None:
        package = mock.patch.object(doors, "package", return_value=Path("made"))
        with package, mock.patch.dict(os.environ, {"PYTHONPATH": "other"}):
            with chaos.with_package():
                self.assertEqual(os.environ["PYTHONPATH"], os.pathsep.join(["made", "other"]))
            self.assertEqual(os.environ["PYTHONPATH"], "other")


class Costs(unittest.TestCase):
    """What servers cost."""

    def test_a_writer_that_died_makes_the_cost_short(self) -> None:
        cost = {f"idle_{name}_s": 0.5 for name in ("store_requests", "etcd_writes", "renewals")}
        cost |= {"busy_puts_s": 10.0, "busy_put_s": 0.09, "busy_rows_s": 90.0}
        cost |= {f"lone_{name}_s": 0.01 for name in ("write", "put", "beside_put")}
        cost |= {"lone_beside_put_worst_s": 9.0, "lone_objects": 1.0, "collections": 9}
        stored = dict.fromkeys(("rows", "most_bytes", "store_bytes", "log_bytes"), 100)
        stored |= {"local_bytes": 100, "generations": 2, "begin": 3}
        counts = cost | stored | {"writers": 16, "writers_going": 16, "said": []}
        # The worst of twenty is told, and the middle one held.
        self.assertTrue(taken(upkeep, "cluster-cost", counts).holds)
        self.assertFalse(taken(upkeep, "cluster-cost", counts | {"writers_going": 15}).holds)
        self.assertFalse(taken(upkeep, "cluster-cost", counts | {"lone_beside_put_s": 0.1}).holds)

    def test_bytes_of_the_log_alone_are_not_what_an_ingest_puts(self) -> None:
        names = ("rows_s", "ack_p50_s", "ack_p99_s", "reads", "read_p50_s", "idle_cores")
        side = dict.fromkeys((*names, "read_p99_first_s", "read_p99_last_s"), 1.0)
        three = side | {"put_over_size": 1.1, "generations": 2}
        counts = {"seconds": 60.0, "1": side, "3": three}
        self.assertTrue(taken(copies, "cluster-ingest", counts).holds)
        counts["3"] = three | {"generations": 0}
        self.assertFalse(taken(copies, "cluster-ingest", counts).holds)


class Sets(unittest.TestCase):
    """Sets that are compared by something else."""

    def test_scripts_are_told_the_metric(self) -> None:
        inner = replace(VECTORS, metric="ip")
        modules = {"replicas": copies, "cluster-ingest": copies, "cluster-join": joins}
        for name, module in modules.items():
            job = catalogue.job(name, quick=True)
            with (
                mock.patch.object(module, "counted", side_effect=KeyboardInterrupt) as counted,
                mock.patch.object(module, "at_most", return_value=1000),
                self.assertRaises(KeyboardInterrupt),
            ):
                job.code()(job, inner, Verdict())
            words = counted.call_args.args
            self.assertEqual(words[words.index("--metric") + 1], "ip")


class Package(unittest.TestCase):
    """The Python package that is measured."""

    def test_it_has_the_release_library_and_no_other(self) -> None:
        self.addCleanup(doors.package.cache_clear)
        doors.package.cache_clear()
        with tempfile.TemporaryDirectory() as folder:
            repository, target = Path(folder) / "repository", Path(folder) / "target"
            source, made = (
                repository / "python" / "pipeann",
                target / "release" / "python" / "pipeann",
            )
            for place in (source / "__pycache__", made):
                place.mkdir(parents=True)
            (source / "__init__.py").touch()
            # In the tree, and of an earlier run.
            for place in (source, made):
                for name in ("_native.abi3.so", "_native.cpython-311-x86_64-linux-gnu.so"):
                    (place / name).write_text("debug")
            (target / "release" / "lib_native.so").write_text("release")
            environment = {"CARGO_TARGET_DIR": str(target), "PIPEANN_PACKAGE": ""}
            with (
                mock.patch.dict(os.environ, environment),
                mock.patch.object(places, "REPO", repository),
                mock.patch.object(doors.subprocess, "run"),
            ):
                self.assertEqual(doors.package(), made.parent)
            files = {path.name: path.read_text() for path in made.iterdir()}
        self.assertEqual(files, {"__init__.py": "", "_native.so": "release"})


class Checks(unittest.TestCase):
    """What tests have to come to, and not only to fail in nothing."""

    def simulated(self, names: list[str], wrong: int = 0) -> Verdict:
        """Of tests of these names in each crate, of which the first ones fail."""
        how = ["FAILED"] * wrong + ["ok"] * (len(names) - wrong)
        lines = [f"test sim::{name} ... {each}" for name, each in zip(names, how, strict=True)]
        said = "\n".join(["seed 7 is fine", *lines, ""])
        said += f"\ntest result: x. {len(names) - wrong} passed; {wrong} failed; 0 ignored\n"
        ended = subprocess.CompletedProcess([], 0, stdout=said)
        run = mock.patch.object(simnet.subprocess, "run", return_value=ended)
        with run, redirect_stdout(StringIO()):
            return catalogue.job("simnet", quick=True).run([])

    def test_simulations_of_another_name_are_missed(self) -> None:
        names = [f"fault_{n}_is_noticed" for n in range(9)] + ["logs_hold", "servers_hold"]
        self.assertTrue(self.simulated(names).holds)
        self.assertFalse(self.simulated([]).holds)
        self.assertFalse(self.simulated([name.replace("noticed", "seen") for name in names]).holds)
        missed = self.simulated(names, wrong=1)
        self.assertEqual(missed.checks["planted faults missed"][0].measured, 2)
        self.assertEqual(missed.checks["simulations that do not hold"][0].measured, 0)

    def test_suites_that_are_skipped_make_too_few(self) -> None:
        told = {"passed": [f"t{n}" for n in range(20)], "failed": [], "skipped": []}
        counts = {"one": told, "edge 0": told}
        with mock.patch.object(suites, "tests_python", return_value=Path("python")):
            self.assertTrue(taken(suites, "cluster-suites", counts).holds)
            few = {where: told | {"passed": told["passed"][1:]} for where in counts}
            self.assertFalse(taken(suites, "cluster-suites", few).holds)
        self.assertGreater(catalogue.job("cluster-suites").settings["least"], 20)

    def test_a_clone_gets_no_variables_of_ours_and_the_demo_is_told(self) -> None:
        said = "vectors: .cache/demo/photos.base.u8bin\nrows  120000\n\nthe index (x)\n"
        run = mock.patch.object(loop.subprocess, "run")
        spent = mock.patch.object(loop, "spent", return_value=(5.0, 3.0, said))
        theirs = mock.patch.dict(os.environ, {"PIPEANN_DATA": "there", "OTHER": "kept"})
        printed = StringIO()
        with run, spent as asked, theirs, redirect_stdout(printed):
            loop.in_a_clone(1.5, Verdict())
        for call in asked.call_args_list:
            variables = call.args[2]
            self.assertEqual(variables["OTHER"], "kept")
            self.assertFalse([name for name in variables if name.startswith("PIPEANN_")])
        self.assertIn("photos.base.u8bin\nrows  120000\n", printed.getvalue())
        self.assertNotIn("the index", printed.getvalue())


if __name__ == "__main__":
    unittest.main()
