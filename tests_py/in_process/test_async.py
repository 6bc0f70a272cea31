"""The client for asyncio does what the other one does, on threads."""

import asyncio
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pymilvus
import pytest
from pymilvus import MilvusException

from pipeann import AsyncMilvusClient, MilvusClient


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": i, "vector": [float(i), 1.0, 0.0, 0.0], "n": i % 3} for i in range(count)]


def test_a_program_as_of_pymilvus(tmp_path: Path) -> None:
    async def program() -> None:
        async with AsyncMilvusClient(uri=str(tmp_path / "data")) as client:
            schema = client.create_schema(enable_dynamic_field=True)
            schema.add_field("id", pymilvus.DataType.INT64, is_primary=True)
            schema.add_field("vector", pymilvus.DataType.FLOAT_VECTOR, dim=4)
            index = client.prepare_index_params()
            index.add_index("vector", index_type="AUTOINDEX", metric_type="L2")
            await client.create_collection("a", schema=schema, index_params=index)
            assert (await client.insert("a", rows(50)))["insert_count"] == 50
            queries = [np.array([[float(i), 1, 0, 0]], dtype=np.float32) for i in range(20)]
            found = await asyncio.gather(*(client.search("a", q, limit=1) for q in queries))
            assert [hits[0][0]["id"] for hits in found] == list(range(20))
            some = await client.query("a", filter="n == 1", output_fields=["n"], limit=2)
            assert list(some) == [{"id": 1, "n": 1}, {"id": 4, "n": 1}]
            assert await client.get("a", ids=[7], output_fields=["n"]) == [{"id": 7, "n": 1}]
            state = await client.get_load_state("a")
            assert state["state"] == pymilvus.client.types.LoadState.Loaded
            assert (await client.delete("a", ids=[0, 1]))["delete_count"] == 2
            assert await client.count("a") == 48
            assert await client.list_collections() == ["a"]
            await client.drop_collection("a")
        with pytest.raises(MilvusException, match="closed"):
            await client.list_collections()

    asyncio.run(program())


def test_both_clients_share_a_directory_and_refuse_alike(tmp_path: Path) -> None:
    async def program() -> None:
        here = AsyncMilvusClient(str(tmp_path / "data"))
        with MilvusClient(str(tmp_path / "data")) as other:
            await here.create_collection("a", dimension=4)
            other.insert("a", rows(3))
            assert await here.count("a") == 3
            for given in [("a", [[0.0] * 4], "n =="), ("missing", [[0.0] * 4], "")]:
                with pytest.raises(MilvusException) as refused:
                    await here.search(*given)
                with pytest.raises(MilvusException) as expected:
                    other.search(*given)
                assert (refused.value.code, refused.value.message) == (
                    expected.value.code,
                    expected.value.message,
                )
        assert await here.count("a") == 3, "the other one's end is not this one's"
        await here.close()
        await here.close()

    asyncio.run(program())


def test_the_loop_goes_on_while_a_call_waits(tmp_path: Path) -> None:
    async def program() -> None:
        async with AsyncMilvusClient(str(tmp_path / "data")) as client:
            await client.create_collection("a", dimension=4)
            writing = asyncio.create_task(client.insert("a", rows(2000)))
            turns = 0
            while not writing.done():
                turns += 1
                await asyncio.sleep(0)
            assert (await writing)["insert_count"] == 2000
            assert turns > 1

    asyncio.run(program())


def test_every_method_of_pymilvus_is_there(tmp_path: Path) -> None:
    stock = pymilvus.AsyncMilvusClient
    for name, _ in inspect.getmembers(stock, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            ours = inspect.getattr_static(AsyncMilvusClient, name)
            assert ours is not inspect.getattr_static(stock, name), f"{name} would need a server"
    assert issubclass(AsyncMilvusClient, stock)
