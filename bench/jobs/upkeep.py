"""Looking after servers of one database: moments restored, versions exchanged, what rest costs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness import places
from harness.cache import entry
from harness.clusters import counted, tests_python
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

SCRIPT = "upkeep.py"


def setting(job: Job, name: str) -> int:
    """A setting, or its quick one."""
    return job.settings[f"quick_{name}" if job.quick else name]


def say(found: dict) -> None:
    for text in found["said"]:
        print(text)


def take_restore(job: Job, verdict: Verdict) -> None:
    """Random moments against what was written when."""
    found = counted(SCRIPT, "restore", setting(job, "moments"))
    print_table(
        "Moments restored from the log, leaders killed meanwhile",
        ["moments", "changes", "of unknown outcome", "rows at the end", "keys that differ"],
        [[found[n] for n in ("moments", "changes", "unknown", "rows", "wrong")]],
    )
    say(found)
    verdict.add("wrong", Check(found["wrong"], 0))


def before(revision: str) -> Path:
    """The command of the version before."""
    if named := os.environ.get("PIPEANN_BIN_BEFORE"):
        return Path(named).resolve()

    def make(folder: Path) -> None:
        tree = folder / "tree"
        git = ["git", "-C", str(places.REPO), "worktree"]
        subprocess.run([*git, "add", "--detach", str(tree), revision], check=True)
        try:
            build = ["cargo", "build", "--release", "--locked", "--package", "pipeann-cli"]
            target = {"CARGO_TARGET_DIR": str(folder / "target")}
            subprocess.run(build, cwd=tree, env=os.environ | target, check=True, stdout=sys.stderr)
            shutil.copy(folder / "target" / "release" / "pipeann", folder / "pipeann")
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
            shutil.rmtree(folder / "target", ignore_errors=True)

    return entry("version-before", {"revision": revision}, make) / "pipeann"


def take_upgrade(job: Job, verdict: Verdict) -> None:
    """All servers exchanged for those of another version and back."""
    old = before(job.settings["revision"])
    found = counted(SCRIPT, "upgrade", setting(job, "rounds"), "--before", old)
    print_table(
        "Servers exchanged for the other version's, one after the other, and back",
        ["exchanged", "writes", "reads", "failed writes", "failed reads", "lost"],
        [
            [
                found[n]
                for n in ("exchanged", "writes", "reads", "failed_writes", "failed_reads", "lost")
            ]
        ],
    )
    say(found)
    for name in ("failed_writes", "failed_reads", "lost", "differ", "codes"):
        verdict.add(name.replace("_", " "), Check(found[name], 0))


def take_cluster_cost(job: Job, verdict: Verdict) -> None:
    """What loaded collections cost at rest, and what writers cost."""
    words = [setting(job, "collections"), "--seconds", setting(job, "seconds")]
    # The environment of the tests has moto.
    found = counted(SCRIPT, "cost", *words, python=tests_python())
    print_table(
        f"{found['collections']} loaded collections on three servers, over S3",
        [
            "store, requests/s",
            "etcd, writes/s",
            "renewals/s",
            "puts/s of 16 writers",
            "a lone write, ms",
        ],
        [
            [
                f"{found['idle_store_requests_s']:.2f}",
                f"{found['idle_etcd_writes_s']:.2f}",
                f"{found['idle_renewals_s']:.2f}",
                f"{found['busy_puts_s']:.1f}",
                f"{found['lone_write_s'] * 1e3:.0f}",
            ]
        ],
    )
    print("Stored bytes after collection over a local directory's: not taken, no generations yet.")
    verdict.add("store, requests/s", Check(found["idle_store_requests_s"], job.settings["store_s"]))
    verdict.add("etcd, writes/s", Check(found["idle_etcd_writes_s"], job.settings["etcd_s"]))
    verdict.add("puts/s", Check(found["busy_puts_s"], job.settings["puts_s"]))
