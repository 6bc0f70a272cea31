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
    words = [setting(job, "moments"), "--kept", setting(job, "kept_s")]
    found = counted(SCRIPT, "restore", *words)
    names = ("moments", "changes", "unknown", "rows", "generations", "begin", "wrong")
    print_table(
        "Moments restored from generations and the log, leaders killed meanwhile",
        [
            "moments",
            "changes",
            "of unknown outcome",
            "rows at the end",
            "generations",
            "the log begins with",
            "keys that differ",
        ],
        [[found[name] for name in names]],
    )
    say(found)
    verdict.add("wrong", Check(found["wrong"], 0))
    verdict.add("first object of the log", Check(found["begin"], 2, at_most=False))
    verdict.add("early moments refused", Check(found["early_refused"], 1, at_most=False))


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
            "a put, ms",
            "rows/s",
        ],
        [
            [
                f"{found['idle_store_requests_s']:.2f}",
                f"{found['idle_etcd_writes_s']:.2f}",
                f"{found['idle_renewals_s']:.2f}",
                f"{found['busy_puts_s']:.1f}",
                f"{found['busy_put_s'] * 1e3:.0f}",
                f"{found['busy_rows_s']:.0f}",
            ]
        ],
    )
    print_table(
        "A lone write, p50 of 20",
        ["ms", "its put, ms", "beside its put, ms", "the worst beside", "puts of it"],
        [
            [
                f"{found['lone_write_s'] * 1e3:.1f}",
                f"{found['lone_put_s'] * 1e3:.1f}",
                f"{found['lone_beside_put_s'] * 1e3:.1f}",
                f"{found['lone_beside_put_worst_s'] * 1e3:.1f}",
                f"{found['lone_objects']:.2f}",
            ]
        ],
    )
    say(found)
    verdict.add("store, requests/s", Check(found["idle_store_requests_s"], job.settings["store_s"]))
    verdict.add("etcd, writes/s", Check(found["idle_etcd_writes_s"], job.settings["etcd_s"]))
    verdict.add("puts/s", Check(found["busy_puts_s"], job.settings["puts_s"]))
    # Writers that have died put less.
    going = Check(found["writers_going"], found["writers"], at_most=False)
    verdict.add("writers answered to the end", going)
    # One that waited for others would have waited for most of the time between two puts.
    beside = Check(found["lone_beside_put_s"], job.settings["lone_beside_put_s"])
    verdict.add("a lone write, beside its put, s", beside)
    take_stored(job, verdict)


def take_stored(job: Job, verdict: Verdict) -> None:
    """What a store holds after collection, over what the leader's directory holds."""
    found = counted("stored.py", setting(job, "rows"))
    names = ("most_bytes", "store_bytes", "log_bytes", "local_bytes")
    print_table(
        f"The store of {found['rows']} rows, of which a tenth was changed",
        ["before collection, MB", "after it", "of that the log", "the leader's directory"],
        [[f"{found[name] / 1e6:.1f}" for name in names]],
    )
    print(f"{found['generations']} generations, the log begins with object {found['begin']}")
    over = found["store_bytes"] / found["local_bytes"]
    verdict.add("stored bytes over local ones", Check(over, job.settings["stored"]))
