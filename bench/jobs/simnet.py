"""Servers, logs and files of a cluster in simulations from seeds."""

from __future__ import annotations

import os
import re
import subprocess

from harness import places
from harness.verdict import Check, Verdict

from .catalogue import Job

# The crates whose simulations are run: logs and files of the store, then whole servers.
CRATES = ["pipeann-store", "pipeann-replica"]
# What became of a test, beside what it prints itself.
TEST = re.compile(r"^test (sim::\S+)(?: - should panic)? \.\.\. (ok|FAILED)\b", re.MULTILINE)
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.MULTILINE)
# The last word of tests of planted faults.
PLANTED = "noticed"


def take_simnet(job: Job, verdict: Verdict) -> None:
    """All seeds of all simulations, and all planted faults."""
    environment = {**os.environ, "PIPEANN_SIM_SEEDS": str(job.settings["seeds"])}
    passed, failed = 0, 0
    planted: dict[str, bool] = {}
    for crate in CRATES:
        command = ["cargo", "test", "--release", "--locked", "--package", crate, "--lib", "sim::"]
        command += ["--", "--test-threads", "2", "--nocapture", "--include-ignored"]
        ended = subprocess.run(
            command, cwd=places.REPO, env=environment, stdout=subprocess.PIPE, text=True
        )
        print(ended.stdout, end="")
        result = RESULT.search(ended.stdout)
        if result is None:
            verdict.problems.append(f"the simulation of {crate} did not come to its end")
            return
        of = TEST.findall(ended.stdout)
        planted |= {f"{crate} {name}": how == "ok" for name, how in of if name.endswith(PLANTED)}
        passed += int(result[1])
        failed += int(result[2])
    missed = sum(not noticed for noticed in planted.values())
    print(f"{passed} simulations hold, {failed} do not, {missed} planted faults were missed")
    verdict.add("simulations that do not hold", Check(failed - missed, 0))
    verdict.add("planted faults missed", Check(missed, 0))
    # Of tests that have another name by now none fails.
    least = job.settings["simulations"], job.settings["planted"]
    verdict.add("simulations run", Check(passed + failed, least[0], at_most=False))
    verdict.add("planted faults tried", Check(len(planted), least[1], at_most=False))
