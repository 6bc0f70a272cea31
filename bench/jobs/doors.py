"""Searches through the doors of Milvus: recall and rates, beside Milvus and Milvus Lite."""

from __future__ import annotations

from collections.abc import Sequence

from harness import doors
from harness.curves import longer
from harness.doors import LITE, MILVUS, OURS, PLAIN, TAGGED, Behind
from harness.processes import Row
from harness.sets import VectorSet, at_most, has_tags
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

SERVER_COLUMNS = ["ef", "recall", "clients", "qps", "cpu_us", "one_qps", "p50_ms", "p99_ms"]
SERVER_COLUMNS += ["one_cpu_us", "peak_rss_mb"]
CLIENT_COLUMNS = ["ef", "recall", "threads", "qps", "one_qps", "p50_ms", "p99_ms", "one_cpu_us"]


def behind(job: Job, vectors: VectorSet, *parts: str) -> Behind:
    """The rows of a job; of a set that came without tags in a collection without them alone."""
    if TAGGED in parts and not has_tags(vectors):
        print(f"{vectors.name} came without tags: the collection of them is left out")
        parts = (PLAIN,)
    return Behind(vectors, at_most(job.settings["rows"], vectors), parts or (PLAIN,))


def words(job: Job, ef: Sequence[int]) -> list[object]:
    """What a job asks of the benchmark of servers."""
    count, clients = job.queries, job.settings["clients"]
    asked = ["--ef", ",".join(map(str, ef)), "--count", count, "--clients", clients]
    return [*asked, "--repeat", job.settings["repeat"]]


def show(title: str, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """The rows of one system."""
    print_table(title, ["", *columns], [["", *(row.get(name) for name in columns)] for row in rows])


def at(rows: Sequence[Row], recall: float, system: str) -> Row:
    """The row of the shortest list that has a recall; the best one where none has."""
    rows = [row for row in rows if "recall" in row]
    found = next((row for row in rows if row["recall"] >= recall), None)
    if found is None:
        print(f"{system} does not reach {recall}; its best is taken")
        return max(rows, key=lambda row: row["recall"])
    return found


def take_ef_sweep(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Recall at the lengths of the specification, through both doors, beside Milvus HNSW."""
    data, ef = behind(job, vectors), job.lists[vectors.name]
    with doors.serving(OURS, data) as server:
        network = doors.over_network(server, data, PLAIN, *words(job, ef))
    process = doors.ours_in_process(data, "--ef", ",".join(map(str, ef)), "--count", job.queries)
    milvus = doors.kept(MILVUS, data, PLAIN, *words(job, ef))
    show(f"Server, {data.rows:,} rows", network, SERVER_COLUMNS)
    show("In the process", process, CLIENT_COLUMNS)
    show("Milvus 2.3.5, HNSW M=16, kept", milvus, SERVER_COLUMNS)
    for door, rows in (("server", network), ("process", process)):
        asked = job.settings[f"{door}_recall"]
        for row, rival, wanted in zip(rows, milvus, asked, strict=True):
            if vectors.name in job.sets:
                over = row["recall"] / (wanted - job.settings["less"])
                verdict.add("specification", Check(over, 1.0, at_most=False))
            verdict.add("milvus", Check(row["recall"] / rival["recall"], 1.0, at_most=False))


def take_in_process(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """One caller a core over the engine itself, and 64 threads over Milvus Lite at its best."""
    data, ef, cores = behind(job, vectors), job.lists[vectors.name], job.settings["cores"]
    asked = ["--count", job.queries, "--rounds", job.rounds]
    ours = doors.ours_in_process(data, "--ef", ",".join(map(str, ef)), "--threads", cores, *asked)
    if max(row["recall"] for row in ours) < job.recall:
        further = ",".join(map(str, longer(ef)[len(ef) :]))
        ours += doors.ours_in_process(data, "--ef", further, "--threads", cores, *asked)
    found = at(ours, job.recall, OURS)
    engine = doors.engine_own(data, [found["ef"]], cores)[0]
    many = doors.ours_in_process(data, "--ef", found["ef"], "--probe", *asked)
    few = ["--lite-count", job.settings["lite_count"], "--probe"]
    lite = doors.lite_kept(data, "--ef", found["ef"], *few)
    show(f"In the process, {data.rows:,} rows", ours, CLIENT_COLUMNS)
    show("Threads of one interpreter", many[1:], ["ef", "probe_threads", "qps"])
    show("Milvus Lite, kept", lite[:1], CLIENT_COLUMNS)
    show("Threads of one interpreter, Milvus Lite, kept", lite[1:], ["probe_threads", "qps"])
    show("The engine itself", [engine], ["list", "qps", "mean_us", "cpu_us"])
    share = Check(found["qps"] / engine["qps"], job.settings["at_least"], at_most=False)
    verdict.add("engine", share)
    # Milvus Lite at whatever number of threads it is fastest.
    over = many[0]["qps"] / max(row["qps"] for row in lite)
    verdict.add(LITE, Check(over, job.settings["lite_at_least"], at_most=False))


def take_grpc_overhead(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Processor time of the server for a search, beyond that of the engine for the same."""
    data, ef = behind(job, vectors), longer(job.lists[vectors.name])
    with doors.serving(OURS, data) as server:
        rows = doors.over_network(server, data, PLAIN, *words(job, ef), "--until", job.recall)
    found = at(rows, job.recall, OURS)
    engine = doors.engine_own(data, [found["ef"]], 1)[0]
    show(f"Server, {data.rows:,} rows", rows, SERVER_COLUMNS)
    show("The engine itself, one query in flight", [engine], ["list", "qps", "mean_us", "cpu_us"])
    beyond = (found["one_cpu_us"] - engine["cpu_us"]) / engine["cpu_us"]
    verdict.add("one client", Check(beyond, job.settings["at_most"]))
    busy = (found["cpu_us"] - engine["cpu_us"]) / engine["cpu_us"]
    verdict.add("many clients", Check(busy))


def take_grpc_vs_milvus(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Many clients, one client and memory, at equal recall; the servers take turns."""
    data, ef, settings = behind(job, vectors), longer(job.lists[vectors.name]), job.settings
    asked = [*words(job, ef), "--until", job.recall]
    taken: dict[str, list[Row]] = {OURS: [], MILVUS: []}
    for _ in range(job.rounds):
        for system, limit in ((OURS, "all"), (MILVUS, "")):
            with doors.serving(system, data, limit) as server:
                rows = doors.over_network(server, data, PLAIN, *asked)
            show(f"{system}, {data.rows:,} rows", rows, SERVER_COLUMNS)
            taken[system].append(at(rows, job.recall, system))
    with doors.serving(OURS, data, "floor") as server:
        low = doors.over_network(server, data, PLAIN, *asked)
    show("pipeann, nothing kept in memory", low, SERVER_COLUMNS)

    def ratio(column: str) -> float:
        """The median of ours over Milvus's."""
        middle = job.rounds // 2
        ours, theirs = (sorted(r[column] for r in taken[s])[middle] for s in (OURS, MILVUS))
        return float(ours / theirs)

    verdict.add("qps", Check(ratio("qps"), settings["qps_at_least"], at_most=False))
    verdict.add("p50", Check(ratio("p50_ms"), settings["p50_at_most"]))
    memory = low[-1]["peak_rss_mb"] / taken[MILVUS][0]["peak_rss_mb"]
    verdict.add("memory", Check(memory, settings["memory_at_most"]))


def take_grpc_filter_vs_milvus(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Queries for rows with all of some tags, by filters not asked before; recall is the same at
    every length of the list.

    Both servers hold a collection without tags beside it, which nobody asks.
    """
    data, ef = behind(job, vectors, PLAIN, TAGGED), job.lists[vectors.name]
    if TAGGED not in data.parts:
        raise SystemExit("there is nothing to filter by")
    with doors.serving(OURS, data) as server:
        ours = doors.over_network(server, data, TAGGED, *words(job, ef))
        again = doors.over_network(server, data, TAGGED, *words(job, ef), "--repeat-filters")
    few = job.settings["milvus_count"]
    asked = [*words(job, ef), "--count", few, "--repeat", 1]
    theirs = doors.kept(MILVUS, data, TAGGED, *asked)
    show(f"pipeann, {data.rows:,} rows, filters not asked before", ours, SERVER_COLUMNS)
    show("pipeann, the filters again, which is not judged", again, SERVER_COLUMNS)
    show("Milvus, kept", theirs, SERVER_COLUMNS)
    equal = min(job.recall, max(row["recall"] for row in theirs))
    rate = at(ours, equal, OURS)["qps"] / at(theirs, equal, MILVUS)["qps"]
    verdict.add("qps", Check(rate, job.settings["at_least"], at_most=False))
