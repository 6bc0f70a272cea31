"""Searches with filters over several servers, counted in one process."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from harness import pipeann, places, rivals
from harness.cache import entry, file_identity, text_identity
from harness.processes import json_lines
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cluster import policy_of

COLUMNS = ("servers", "list", "recall", "reads", "hops_to_entry", "hops", "bytes_a_hop", "differ")


def windows(vectors: VectorSet, share: float, queries: int, seed: int) -> Path:
    """The cached column, filters and truth of a share of the rows."""
    scripts = [places.BENCH / "data" / f"{name}.py" for name in ("filter_windows", "exact")]
    made = {"base": file_identity(vectors.base), "queries": file_identity(vectors.queries)}
    made |= {"share": share, "count": queries, "seed": seed, "maker": text_identity(scripts)}

    def make(folder: Path) -> None:
        command = [rivals.python(), scripts[0], "--base", vectors.base, "--queries"]
        command += [vectors.queries, "--count", queries, "--share", share, "--seed", seed]
        words = [str(word) for word in (*command, "--out", folder / "made")]
        subprocess.run(words, check=True, stdout=sys.stderr)

    return entry(f"filter-windows-{vectors.name}-{share:g}", made, make) / "made"


def take_cluster_filters(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Recall of several servers against one, by the share of rows that pass."""
    settings = job.settings
    servers: list[int] = settings["servers"]
    index = pipeann.index_of(vectors, replace(job.build, partitions=settings["partitions"]))
    worst = 0.0
    for share in settings["shares"]:
        made = windows(vectors, share, settings["asked"], job.seed)
        command = [pipeann.program(), "cluster", "count", "--index", index, "--queries"]
        command += [vectors.queries, "--limit-queries", str(settings["asked"])]
        command += ["--truth", made / "truth.bin", "--column", f"chance={made / 'chance.npy'}"]
        command += ["--filters", made / "filters.txt", *policy_of(settings["policy"]), "--json"]
        command += ["--list", ",".join(map(str, settings["filtered_lists"]))]
        command += ["--servers", ",".join(map(str, servers))]
        # Which plan it is follows what a read costs in codes: given, it is the same for all.
        for plan, codes_per_read in settings["plans"].items():
            rows = json_lines([*command, "--codes-per-read", str(codes_per_read)])
            one = {row["list"]: row["recall"] for row in rows if row["servers"] == servers[0]}
            worst = max(worst, *(one[row["list"]] - row["recall"] for row in rows))
            print_table(
                f"{share:.1%} of rows pass, {plan}, {settings['policy']} on {vectors.name}",
                list(COLUMNS),
                [[row[column] for column in COLUMNS] for row in rows],
            )
    # Recalls are told to five digits; their difference has a remainder beyond.
    verdict.add("recall lost to one server", Check(round(worst, 5), settings["at_most"]))
