"""A client's directory whose graphs are on raw SSDs, for which files stand in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ssds import claimed, content, copies, directories, until_copied

from pipeann import MilvusClient, errors

ROWS, DIM = 2500, 16
VECTORS = np.random.default_rng(4).random((ROWS, DIM), dtype=np.float32)


def answers(client: MilvusClient) -> list[object]:
    found = []
    for condition in ("", "price < 300"):
        hits = client.search(
            "c", data=VECTORS[:30].tolist(), limit=10, filter=condition,
            search_params={"params": {"search_list": 150}},
        )
        found.append([[(hit["id"], hit["distance"]) for hit in of] for of in hits])
    return found


def test_a_client_reads_from_the_devices(tmp_path: Path) -> None:
    config = claimed(tmp_path)
    spdk = {"backend": "spdk", "spdk_config": config}
    empty = directories(tmp_path)
    data = [{"id": i, "vector": VECTORS[i].tolist(), "price": i % 1000} for i in range(ROWS)]
    with MilvusClient(uri=str(tmp_path / "data"), **spdk) as client:
        client.create_collection("c", dimension=DIM, metric_type="L2")
        client.insert("c", data)
        client.flush("c")
        first = answers(client)
        until_copied(tmp_path, empty)
        with pytest.raises(errors.InputError, match="other options"):
            MilvusClient(uri=str(tmp_path / "data"), backend="io_uring")
    assert copies(tmp_path)
    before = content(tmp_path)
    with MilvusClient(uri=str(tmp_path / "data"), **spdk) as client:
        assert answers(client) == first
    assert content(tmp_path) == before
    with MilvusClient(uri=str(tmp_path / "data"), backend="io_uring") as client:
        assert answers(client) == first
