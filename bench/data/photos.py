"""Make the demo's fallback set: real SIFT descriptors, u8 x 128, of packaged photographs.

The photographs are those that scikit-image and scikit-learn carry in their packages;
OpenCV finds keypoints in each at several scales. Queries come from photographs held out
of the base. Writes `photos.base.u8bin`, `photos.query.u8bin` and `photos.gt100.bin`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
from exact import exact_neighbours, write_rows, write_truth

PHOTOS = {
    "skimage": [
        "data/astronaut.png",
        "data/brick.png",
        "data/camera.png",
        "data/cell.png",
        "data/chelsea.png",
        "data/coffee.png",
        "data/coins.png",
        "data/grass.png",
        "data/gravel.png",
        "data/hubble_deep_field.jpg",
        "data/ihc.png",
        "data/motorcycle_left.png",
        "data/page.png",
        "data/retina.jpg",
        "data/rocket.jpg",
    ],
    "sklearn": ["datasets/images/china.jpg", "datasets/images/flower.jpg"],
}
HELD_OUT = {"camera.png", "china.jpg", "coffee.png"}
SCALES = (0.6, 1.0, 1.7)
TRUTH_K = 100


def photographs() -> Iterator[Path]:
    """Paths of the photographs, found without importing the packages."""
    for package, names in PHOTOS.items():
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise SystemExit(f"install {package} first (bench/data/photos-requirements.txt)")
        yield from (Path(spec.origin).parent / name for name in names)


def descriptors(path: Path) -> np.ndarray:
    """Distinct SIFT descriptors of a photograph at all scales, rounded to u8."""
    grey = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    if grey is None:
        raise SystemExit(f"{path} cannot be read as an image")
    # A low contrast threshold keeps faint keypoints too: texture, not only corners.
    sift = cv2.SIFT_create(nOctaveLayers=4, contrastThreshold=0.006, edgeThreshold=20)
    found = []
    for scale in SCALES:
        kind = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
        _, rows = sift.detectAndCompute(
            cv2.resize(grey, None, fx=scale, fy=scale, interpolation=kind), None
        )
        if rows is not None:
            found.append(np.clip(np.rint(rows), 0, 255).astype(np.uint8))
    return np.unique(np.concatenate(found), axis=0)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", required=True, type=Path)
    p.add_argument("--queries", type=int, default=1_000)
    p.add_argument("--rows", type=int, default=120_000, help="base rows at most")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()

    rng = np.random.default_rng(a.seed)
    paths = list(photographs())
    with ThreadPoolExecutor() as pool:
        rows = dict(zip((path.name for path in paths), pool.map(descriptors, paths), strict=True))
    base = np.concatenate([d for name, d in rows.items() if name not in HELD_OUT])
    queries = np.concatenate([d for name, d in rows.items() if name in HELD_OUT])
    base = base[rng.permutation(len(base))[: a.rows]]
    queries = queries[rng.permutation(len(queries))[: a.queries]]
    ids, distances = exact_neighbours(base, queries, TRUTH_K)
    a.out.mkdir(parents=True, exist_ok=True)
    write_rows(a.out / "photos.base.u8bin", base)
    write_rows(a.out / "photos.query.u8bin", queries)
    write_truth(a.out / "photos.gt100.bin", ids, distances)
    print(f"{len(base)} base vectors and {len(queries)} queries in {a.out}")


if __name__ == "__main__":
    main()
