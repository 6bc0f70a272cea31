"""Search an hnswlib index in memory and print one JSON line per `ef`."""

from __future__ import annotations

import hnswlib
import numpy as np
from vectors import print_searches, read_bin, search_arguments


def main() -> None:
    """One JSON line for each value of `ef`."""
    a = search_arguments(__doc__, "ef")
    queries = read_bin(a.queries).astype(np.float32)
    index = hnswlib.Index(space=a.metric, dim=queries.shape[1])
    index.load_index(str(a.index / "index.bin"))

    def search(some: np.ndarray, ef: int) -> np.ndarray:
        index.set_ef(ef)
        found, _ = index.knn_query(some, k=a.k, num_threads=a.threads)
        return found

    print_searches("hnswlib", a, queries, search)


if __name__ == "__main__":
    main()
