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
# A test in the list of those that failed.
FAILED = re.compile(r"^    (sim::\S+)$", re.MULTILINE)
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.MULTILINE)


def take_simnet(job: Job, verdict: Verdict) -> None:
    """All seeds of all simulations, and all planted faults."""
    environment = {**os.environ, "PIPEANN_SIM_SEEDS": str(job.settings["seeds"])}
    passed, failed, missed = 0, 0, 0
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
        # They are told of twice.
        missed += sum(name.endswith("noticed") for name in set(FAILED.findall(ended.stdout)))
        passed += int(result[1])
        failed += int(result[2])
    print(f"{passed} simulations hold, {failed} do not, {missed} planted faults were missed")
    verdict.add("simulations that do not hold", Check(failed - missed, 0))
    verdict.add("planted faults missed", Check(missed, 0))
