"""What a search costs that travels from server to server: counted in one process, and measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import product

from harness import pipeann
from harness.clusters import Cluster, Servers, even_shares, serving
from harness.curves import Curve, interleave
from harness.processes import Row, json_lines
from harness.sets import VectorSet, asked_by_rows, at_most, rows_in
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job

WAYS_OF_REPLICAS = ("round-robin", "region")
COLUMNS = ("reads", "hops", "hops_to_entry", "bytes_a_hop", "skew", "code_distances")


def policy_of(name: str) -> list[str]:
    """`relay:2:8` as words of the command line: two reads in flight, a look-ahead of eight."""
    policy, width, ahead = name.split(":")
    words = ["--policy", policy, "--width", width, "--ahead", ahead]
    # A fixed width is one that is not dynamic.
    return words if policy == "baton" else [*words, "--switches", "dynamic=off"]


def at_recall(
    job: Job, vectors: VectorSet, policy: str, servers: Sequence[int], begin: str = "entry"
) -> dict[int, Row]:
    """Every count at the job's recall, by number of servers; `begin` says where a query begins."""
    options = replace(job.build, partitions=job.settings["partitions"])
    index = pipeann.index_of(vectors, options)
    lists = job.around(vectors.name)
    words = [*policy_of(policy), "--begin", begin]
    found = pipeann.cluster_counts(index, vectors, lists, servers, words)
    rows = {}
    for count in servers:
        name = f"{policy} on {count} servers, {vectors.name}"
        of = [row for row in found if row["servers"] == count]
        rows[count] = Curve.of_rounds(name, [of]).row_at(job.recall)
    table = [[count, *(row[column] for column in COLUMNS)] for count, row in rows.items()]
    where = "at the owner of its nearest entry" if begin == "entry" else "at the servers in turn"
    title = f"{policy} at {job.recall:g} on {vectors.name}, {options.partitions} partitions"
    print_table(f"{title}; a query begins {where}", ["servers", *COLUMNS], table)
    most = [row for row in found if row["servers"] == servers[-1]]
    print_table(
        f"States of {policy} on {servers[-1]} servers by their bytes, {vectors.name}",
        ["list", *(f"to {most}" for most in most[0]["state_bytes_at_most"]), "beyond"],
        [[row["list"], *row["states"]] for row in most],
    )
    return rows


def take_cluster_counts(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Reads, hops and bytes of the default policy, and hops of the paper's."""
    settings = job.settings
    servers: list[int] = settings["servers"]
    most = servers[-1]
    relay = at_recall(job, vectors, settings["relay"], servers)
    over_one = relay[most]["reads"] / relay[1]["reads"]
    verdict.add("reads over one server's", Check(over_one, settings["reads_at_most"]))
    verdict.add("hops", Check(relay[most]["hops"], settings["hops_at_most"]))
    beyond = relay[most]["bytes_a_hop"] - relay[most]["vector_bytes"]
    verdict.add("bytes a hop", Check(beyond, settings["bytes_at_most"]))
    baton = at_recall(job, vectors, settings["baton"], [1, most])
    verdict.add("hops of baton", Check(baton[most]["hops"], settings["baton_hops_at_most"]))
    shares: dict[str, float] = settings["share_at_most"]
    one = at_recall(job, vectors, settings["baton_one"], [1, *map(int, shares)])
    for count, limit in shares.items():
        row = one[int(count)]
        check = Check(row["hops"] / row["reads"], limit)
        verdict.add(f"share of hops that cross, {count} servers", check)
    # As in the paper, where whoever gets a query begins.
    for name in ("relay", "baton"):
        row = at_recall(job, vectors, settings[name], [most], "round-robin")[most]
        crossed = row["hops"] + row["hops_to_entry"]
        verdict.add(f"hops of {name} in all, begun in turn", Check(crossed))
        row = (relay if name == "relay" else baton)[most]
        crossed = row["hops"] + row["hops_to_entry"]
        verdict.add(f"hops of {name} in all, begun at the entry's owner", Check(crossed))
    at_equal_lists(job, vectors, verdict)
    many_partitions(job, vectors, verdict)


def at_equal_lists(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Whether the paper's search over all servers does at each list what one server does: its reads,
    distances and recall."""
    settings = job.settings
    most = settings["servers"][-1]
    index = pipeann.index_of(vectors, replace(job.build, partitions=settings["partitions"]))
    words = policy_of(settings["baton"])
    found = pipeann.cluster_counts(index, vectors, job.lists[vectors.name], [1, most], words)
    one = {row["list"]: row for row in found if row["servers"] == 1}
    table = []
    for row in (row for row in found if row["servers"] == most):
        alone = one[row["list"]]
        over = [row[column] / alone[column] for column in ("reads", "code_distances")]
        table.append([row["list"], alone["recall"], row["recall"], *over])
    print_table(
        f"{settings['baton']} on {most} servers over one, list by list, {vectors.name} (paper: nearly "
        "the same reads and distances)",
        ["list", "recall of one", "recall", "reads", "code distances"],
        table,
    )
    lower = max(row[1] - row[2] for row in table)
    verdict.add("recall of baton below one server's", Check(lower, settings["recall_lower_at_most"]))
    more = max(row[3] for row in table)
    verdict.add("its reads over one server's", Check(more, settings["baton_reads_at_most"]))
    verdict.add("its distances over one server's", Check(max(row[4] for row in table)))


def many_partitions(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """The same graph in more partitions than servers, some on each: whether work is more even."""
    settings = job.settings
    most = settings["servers"][-1]
    mother = replace(job.build, partitions=settings["partitions"])
    table = []
    for partitions in (settings["partitions"], settings["many_partitions"]):
        index = pipeann.partitioned(vectors, replace(mother, partitions=partitions), mother)
        words = policy_of(settings["relay"])
        found = pipeann.cluster_counts(index, vectors, job.around(vectors.name), [most], words)
        row = Curve.of_rounds(f"{partitions} partitions", [found]).row_at(job.recall)
        table.append([partitions, *(row[column] for column in COLUMNS)])
        verdict.add(f"most work of a server over the mean, {partitions} partitions", Check(row["skew"]))
    print_table(
        f"{settings['relay']} at {job.recall:g} on {most} servers, {vectors.name}",
        ["partitions", *COLUMNS],
        table,
    )


def take_cluster_equal(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Queries that several servers answer otherwise than one, or at another cost."""
    settings, lists = job.settings, job.lists[vectors.name]
    partitions: int = settings["partitions"]
    for partition_by in settings["partition_by"]:
        options = replace(job.build, partitions=partitions, partition_by=partition_by)
        index = pipeann.index_of(vectors, options)
        table = []
        for policy, begin in product(settings["policies"], settings["begins"]):
            words = [*policy_of(policy), "--begin", begin]
            for row in pipeann.cluster_counts(index, vectors, lists, settings["servers"], words):
                shown = ("servers", "list", "recall", "reads", "hops", "differ")
                table.append([policy, begin, *(row[column] for column in shown)])
                if row["differ"] is not None:
                    verdict.add(f"queries that differ, {partition_by}", Check(row["differ"], 0))
        columns = ["policy", "begun", "servers", "list", "recall", "reads", "hops", "differ"]
        print_table(f"{vectors.name}, partitions by {partition_by}", columns, table)
    over_tls(job, vectors, verdict)
    undivided(job, vectors, verdict)


def over_tls(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """The same once as processes: hits bit for bit and pages of each query as one process that has
    everything gives them."""
    settings, lists = job.settings, job.lists[vectors.name]
    partitions: int = settings["partitions"]
    index = pipeann.index_of(vectors, replace(job.build, partitions=partitions))
    table = []
    with serving(index, partitions, Servers(partitions, 1, 8)) as cluster:
        for policy, begin in product(settings["policies"], settings["begins"]):
            mode, width, ahead = policy.split(":")
            words = ["--mode", mode, "--width", width, "--ahead", ahead, "--begin", begin, "--hits"]
            counts = [*policy_of(policy), "--hits"]
            alone = pipeann.cluster_counts(index, vectors, lists, [1], counts)
            asked = cluster.search(vectors, lists, in_flight=8, policy=words)
            for one, many in zip(alone, asked, strict=True):
                differ = differing(one, many, ("hits", "pages"))
                table.append([policy, begin, one["list"], one["recall"], many["recall"], differ])
                verdict.add("queries that processes answer otherwise", Check(differ, 0))
                verdict.add("queries that processes fail", Check(many["failed"], 0))
    columns = ["policy", "begun", "list", "recall", "of processes", "differ"]
    print_table(f"{partitions} processes over TLS, {vectors.name}", columns, table)


def differing(one: Row, many: Row, columns: Sequence[str]) -> int:
    """Queries for which two rows tell different things in one of some columns."""
    pairs = (zip(one[column], many[column], strict=True) for column in columns)
    return sum(any(a != b for a, b in query) for query in zip(*pairs, strict=True))


def distances_of(row: Row) -> Row:
    """A row whose hits are their distances alone."""
    return {"hits": [[distance for _, distance in query] for query in row["hits"]]}


def undivided(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Ten servers, one record of each page, against the graph as it is in one piece, laid out anew.

    Searches begin at the medoid: a head index is made anew with each layout, and others of its rows are
    entries. Nodes at the same coded distance are taken in the order of their numbers, which are others
    in another layout, so what may differ is told by distances and by rows.
    """
    settings, lists = job.settings, job.lists[vectors.name]
    partitions: int = settings["partitions"]
    mother = replace(job.build, partitions=partitions)
    words = [*policy_of("baton:1:1"), "--switches", "head=off", "--hits"]
    many = pipeann.cluster_counts(
        pipeann.index_of(vectors, mother), vectors, lists, [partitions], words
    )
    whole = replace(mother, partitions=1, partition_by="order")
    index = pipeann.partitioned(vectors, whole, mother)
    one = pipeann.cluster_counts(index, vectors, lists, [1], words)
    table = []
    for alone, cut in zip(one, many, strict=True):
        rows = differing(alone, cut, ("hits",))
        distances = differing(distances_of(alone), distances_of(cut), ("hits",))
        table.append([alone["list"], alone["recall"], cut["recall"], rows, distances])
        verdict.add("queries whose distances differ from the undivided graph's", Check(distances, 0))
        verdict.add("queries whose rows do", Check(rows))
    columns = ["list", "recall, undivided", f"on {partitions}", "rows differ", "distances differ"]
    print_table(f"The graph in one piece, baton:1:1 from the medoid, {vectors.name}", columns, table)


def servers_of(words: str, memory_limit: str) -> Servers:
    """`4x1x8` as four servers of one thread each with eight searches in flight."""
    count, threads, in_flight = map(int, words.split("x"))
    return Servers(count, threads, in_flight, memory_limit)


def compared(job: Job, vectors: VectorSet, memory_limit: str) -> dict[str, Row]:
    """One server and several in turn, through the same client, at the job's recall."""
    settings, lists = job.settings, job.around(vectors.name)
    partitions: int = settings["partitions"]
    index = pipeann.index_of(vectors, replace(job.build, partitions=partitions))
    ways: dict[str, str] = settings["servers"]
    with ExitStack() as stack:
        clusters = {
            name: stack.enter_context(
                serving(index, partitions, servers_of(words, memory_limit))
            )
            for name, words in ways.items()
        }

        def asked(cluster: Cluster) -> Callable[[], list[Row]]:
            return lambda: cluster.search(
                vectors, lists, in_flight=settings["in_flight"], policy=settings["policy"]
            )

        systems = {name: asked(cluster) for name, cluster in clusters.items()}
        for warm in systems.values():
            warm()
        curves = interleave(systems, job.rounds)
    rows = {name: curve.row_at(job.recall) for name, curve in curves.items()}
    columns = ("qps", "mean_us", "p99_us", "reads", "from_memory", "hops")
    print_table(
        f"At {job.recall:g} on {vectors.name}, memory {memory_limit}, over TLS, "
        f"{settings['in_flight']} queries under way; servers x threads x searches in flight",
        ["", "servers", *columns],
        [[name, ways[name], *(row[column] for column in columns)] for name, row in rows.items()],
    )
    return rows


def take_cluster_qps(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Queries a second of several processes over those of one with as many threads or fewer, on the
    same cores."""
    for memory_limit in job.settings["memory_limits"]:
        rows = compared(job, vectors, memory_limit)
        one = max(row["qps"] for name, row in rows.items() if name != "several")
        ratio = rows["several"]["qps"] / one
        verdict.add(f"QPS, memory {memory_limit}", Check(ratio, job.settings["at_least"], at_most=False))


def take_cluster_latency(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Mean latency of one query after the other over several processes, over that of one."""
    rows = compared(job, vectors, "floor")
    ratio = rows["several"]["mean_us"] / rows["one"]["mean_us"]
    verdict.add("mean latency", Check(ratio, job.settings["at_most"]))


def take_cluster_hop(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Processor time of a message between servers and of waking what it brings."""
    index = pipeann.index_of(vectors, replace(job.build, partitions=job.settings["partitions"]))
    lists = ",".join(map(str, job.lists[vectors.name]))
    command = [pipeann.lab(), "hop", "--index", index, "--json"]
    command += ["--queries", vectors.queries, "--list", lists]
    limits: dict[str, float] = job.settings["at_most"]
    # Between two processors a message alone also has one of them wake the other, which is a matter
    # of the machine: a byte shows it.
    for cores, where in ((1, "one core"), (None, "all cores")):
        rounds = [json_lines([*pipeann.pinned(cores), *command]) for _ in range(job.rounds)]
        table = []
        for rows in zip(*rounds, strict=True):
            what = rows[0]["what"]
            times = sorted(row["cpu_us"] for row in rows)
            median = times[len(times) // 2]
            limit = limits.get(what) if cores == 1 else None
            table.append([what, rows[0]["state_bytes"], times[0], median, times[-1], limit or "-"])
            verdict.add(f"{what}, {where}", Check(median, limit))
        columns = ["what", "bytes", "least", "median", "most", "at most"]
        print_table(f"Processor time, us, on {vectors.name}, {where}", columns, table)


def take_cluster_memory(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Disk reads where each server has memory for its share of all pages: one graph over all
    servers, and servers that each have everything, asked in turn or by region."""
    settings, lists = job.settings, job.around(vectors.name)
    partitions, count = settings["partitions"], settings["servers"]
    index = pipeann.index_of(vectors, replace(job.build, partitions=partitions))
    shown = pipeann.inspect(index)
    # What all pages take, less the other pages themselves.
    others = shown["pages"] - -(-shown["pages"] // count)
    limit = shown["memory_limits"][-1]["limit_bytes"] - others * shown["page_bytes"]
    shares = even_shares([partition["pages"] for partition in shown["partitions"]], count)
    servers = Servers(count, 1, 8, str(limit), shares=shares)
    warm = at_most(settings["warm_rows"], vectors, 0.5)
    warming = asked_by_rows(vectors, rows_in(vectors.base) - warm, warm)

    def measured(on: int, *mode: str) -> Row:
        """One list, and servers anew for each way: what was asked before is in memory."""
        counts = pipeann.cluster_counts(index, vectors, lists, [on], policy_of(settings["relay"]))
        enough = [row["list"] for row in counts if row["recall"] >= job.recall]
        if not enough:
            raise SystemExit(f"no list finds {job.recall:g} of {vectors.name}; change the lists")

        with serving(index, partitions, servers, replicas=on == 1) as cluster:

            def asked(queries: VectorSet) -> Row:
                flying: int = settings["in_flight"]
                return cluster.search(queries, enough[:1], in_flight=flying, policy=mode)[0]

            asked(warming)
            cluster.settle()
            return asked(vectors)

    held = [sum(shown["partitions"][each]["pages"] for each in share) for share in shares]
    relay = measured(count)
    replica, region = (measured(1, "--mode", "replicas", "--by", by) for by in WAYS_OF_REPLICAS)
    over = replica["reads"] / max(relay["reads"], 0.1)
    shown = ("list", "recall", "reads", "from_memory", "hops")
    print_table(
        f"At {job.recall:g} or a little more on {vectors.name}: {count} servers of "
        f"{limit >> 20} MiB, memory for 1 of {count} pages each, after {warm} rows were asked "
        f"for and until nothing was read ahead; pages of each {held}",
        ["", *shown],
        [
            ["relay, each its own pages", *(relay[column] for column in shown)],
            ["replicas in turn, each all pages", *(replica[column] for column in shown)],
            ["replicas by region", *(region[column] for column in shown)],
        ],
    )
    verdict.add("disk reads of relay", Check(relay["reads"], settings["reads_at_most"]))
    least = settings["replicas_at_least"]
    verdict.add("those of replicas over it", Check(over, least, at_most=False))
    by_region = region["reads"] / max(relay["reads"], 0.1)
    verdict.add("those of replicas by region over it", Check(by_region))


def cheapest(curve: Curve, recall: float) -> Row | None:
    """A curve at a recall; its first row where even that finds more, nothing where none does."""
    if curve.rows[-1]["recall"] < recall:
        return None
    return curve.rows[0] if curve.rows[0]["recall"] >= recall else curve.row_at(recall)
