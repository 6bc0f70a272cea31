"""Build a diskannpy disk index in a process of its own and record what it cost.

Prints one JSON object: wall and CPU seconds, peak resident bytes, versions, parameters.
The index lands in OUT; a file `cost.json` beside it is written last, so its presence
means that the build finished.
"""
import argparse
import json
import os
import resource
import time
from importlib.metadata import version

import numpy as np


def read_bin(path: str) -> np.ndarray:
    """A `.u8bin`, `.i8bin` or `.fbin` file as an array of rows x dimension."""
    dtype = {"u8bin": np.uint8, "i8bin": np.int8, "fbin": np.float32}[path.rsplit(".", 1)[1]]
    rows, dim = np.fromfile(path, dtype="<u4", count=2)
    return np.fromfile(path, dtype=dtype, offset=8).reshape(int(rows), int(dim))


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--base", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--degree", type=int, default=64)
    p.add_argument("--complexity", type=int, default=96)
    p.add_argument("--code-bytes", type=int, default=32)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    a = p.parse_args()
    import diskannpy

    data = read_bin(a.base)
    os.makedirs(a.out, exist_ok=True)
    wall, before = time.time(), resource.getrusage(resource.RUSAGE_SELF)
    diskannpy.build_disk_index(
        data=data,
        distance_metric="l2",
        index_directory=a.out,
        complexity=a.complexity,
        graph_degree=a.degree,
        search_memory_maximum=(a.code_bytes + 0.2) * len(data) / 2**30,
        build_memory_maximum=16,
        num_threads=a.threads,
        pq_disk_bytes=0,
        vector_dtype=data.dtype.type,
    )
    after = resource.getrusage(resource.RUSAGE_SELF)
    cost = {
        "system": "diskannpy",
        "version": version("diskannpy"),
        "rows": len(data),
        "dim": data.shape[1],
        "degree": a.degree,
        "complexity": a.complexity,
        "code_bytes": a.code_bytes,
        "threads": a.threads,
        "wall_s": time.time() - wall,
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_rss_bytes": after.ru_maxrss * 1024,
    }
    with open(os.path.join(a.out, "cost.json"), "w") as f:
        json.dump(cost, f)
    print(json.dumps(cost))


if __name__ == "__main__":
    main()
