"""Search an HNSW index of FAISS in memory and print one JSON line per `efSearch`."""

from __future__ import annotations

import faiss
import numpy as np
from vectors import of_length_one, print_searches, read_bin, search_arguments


def main() -> None:
    """One JSON line for each value of `efSearch`."""
    a = search_arguments(__doc__, "efSearch")
    index = faiss.read_index(str(a.index / "hnsw.faiss"))
    # FAISS spreads the queries of a call over its threads.
    faiss.omp_set_num_threads(a.threads)

    def search(queries: np.ndarray, ef: int) -> np.ndarray:
        _, found = index.search(queries, a.k, params=faiss.SearchParametersHNSW(efSearch=ef))
        return found

    asked = read_bin(a.queries).astype(np.float32)
    print_searches("faiss hnsw", a, of_length_one(asked) if a.metric == "cosine" else asked, search)


if __name__ == "__main__":
    main()
