"""Exact nearest neighbours of a small query set, and the files that hold a data set.

Layouts as in the Big ANN benchmarks: `.u8bin`, `.i8bin` and `.fbin` are u32 rows, u32 dimension,
then the rows; truth is u32 queries, u32 k, the u32 ids, then the f32 distances.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

TYPES = {".u8bin": np.uint8, ".i8bin": np.int8, ".fbin": np.float32}
SPARE = 32  # candidates beyond k that the float32 product keeps for the exact pass
QUERY_BLOCK = 250


def write_rows(path: Path, rows: np.ndarray) -> None:
    """Write rows x dimension in the layout that the suffix of `path` names."""
    if rows.dtype != TYPES[path.suffix]:
        raise TypeError(f"{path.name} cannot hold {rows.dtype}")
    with path.open("wb") as out:
        np.array(rows.shape, dtype="<u4").tofile(out)
        rows.tofile(out)


def write_truth(path: Path, ids: np.ndarray, distances: np.ndarray) -> None:
    """Write exact neighbours (queries x k each)."""
    with path.open("wb") as out:
        np.array(ids.shape, dtype="<u4").tofile(out)
        ids.astype("<u4").tofile(out)
        distances.astype("<f4").tofile(out)


def candidates(rough: np.ndarray, k: int) -> np.ndarray:
    """The k + SPARE rows of each query with the least values, by id; else all."""
    if rough.shape[1] <= k + SPARE:
        return np.tile(np.arange(rough.shape[1]), (len(rough), 1))
    near = np.argpartition(rough, k + SPARE, axis=1)[:, : k + SPARE]
    near.sort(axis=1)
    return near


def exact_neighbours(
    base: np.ndarray, queries: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest rows of each query by squared L2, or all, ties to the smaller id.

    A blocked matrix product picks k + SPARE candidates; their distances are then
    computed again in float64, where u8 data is exact.
    """
    wide = base.astype(np.float32)
    norms = np.einsum("ij,ij->i", wide, wide, dtype=np.float64)
    all_ids, all_distances = [], []
    for start in range(0, len(queries), QUERY_BLOCK):
        block = queries[start : start + QUERY_BLOCK].astype(np.float32)
        rough = norms[None, :].astype(np.float32) - 2.0 * (block @ wide.T)
        near = candidates(rough, k)
        gaps = base[near].astype(np.float64) - block[:, None, :].astype(np.float64)
        exact = np.einsum("qcd,qcd->qc", gaps, gaps)
        order = np.argsort(exact, axis=1, kind="stable")[:, :k]
        all_ids.append(np.take_along_axis(near, order, axis=1))
        all_distances.append(np.take_along_axis(exact, order, axis=1))
    return np.concatenate(all_ids), np.concatenate(all_distances)


def most_alike(base: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k rows of each query with the greatest inner products, ties to the smaller id, and these
    with the other sign, so that the nearest has the least.

    As `exact_neighbours`: a product in float32 picks k + SPARE candidates, float64 decides.
    """
    all_ids, all_distances = [], []
    for start in range(0, len(queries), QUERY_BLOCK):
        block = queries[start : start + QUERY_BLOCK]
        near = candidates(-(block @ base.T), k)
        exact = -np.einsum("qcd,qd->qc", base[near].astype(np.float64), block.astype(np.float64))
        order = np.argsort(exact, axis=1, kind="stable")[:, :k]
        all_ids.append(np.take_along_axis(near, order, axis=1))
        all_distances.append(np.take_along_axis(exact, order, axis=1))
    return np.concatenate(all_ids), np.concatenate(all_distances)
