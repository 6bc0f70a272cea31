"""Memory as a dial: from codes only to everything in memory."""

from __future__ import annotations

from harness import pipeann, rivals
from harness.curves import interleave
from harness.pipeann import SearchOptions
from harness.sets import VectorSet
from harness.tables import print_table
from harness.verdict import Check, Verdict

from .catalogue import Job
from .cost import print_curve

IN_MEMORY = ("qps", "cpu_us", "hops", "exact_distances", "peak_rss_bytes")


def take_in_memory_vs_hnsw(job: Job, vectors: VectorSet, verdict: Verdict) -> None:
    """Queries a second with everything in memory over those of the faster HNSW."""
    settings, lists = job.settings, job.lists[vectors.name]
    threads, graph = settings["threads"], (settings["links"], settings["ef_construction"])
    index = pipeann.index_of(vectors, job.build)
    hnswlib = rivals.hnswlib_index(vectors, *graph)
    faiss = rivals.faiss_hnsw_index(vectors, *graph)
    ours = SearchOptions(
        policy="auto", threads=threads, in_flight=settings["in_flight"], memory_limit="all"
    )
    curves = interleave(
        {
            "pipeann": lambda: pipeann.search(index, vectors, lists, ours),
            "hnswlib": lambda: rivals.search_hnswlib(
                hnswlib, vectors, settings["ef"], threads=threads
            ),
            "faiss": lambda: rivals.search_faiss_hnsw(
                faiss, vectors, settings["ef"], threads=threads
            ),
        },
        job.rounds,
    )
    for curve in curves.values():
        print_curve(curve, IN_MEMORY)
    rows = []
    for recall in settings["recalls"]:
        qps = {name: curve.at("qps", recall) for name, curve in curves.items()}
        ratio = qps["pipeann"] / max(qps["hnswlib"], qps["faiss"])
        rows.append([recall, *qps.values(), ratio])
        verdict.add(f"at {recall}", Check(ratio, settings["ratio_at_least"], at_most=False))
    print_table(
        f"Queries a second in memory on {vectors.name}, {threads} threads",
        ["recall", *curves, "ratio"],
        rows,
    )
