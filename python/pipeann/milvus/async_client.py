"""`AsyncMilvusClient`: pymilvus's, with a directory instead of a server.

Each call is one of `MilvusClient`'s on a thread: what takes long there releases the GIL, so that
awaited searches run beside each other and beside the loop.
"""

import asyncio
import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

import pymilvus
from pymilvus.exceptions import MilvusException

from pipeann.milvus.client import MilvusClient

# Parameters that the two clients of pymilvus name differently.
_OTHER_NAMES = {
    "get_load_state": {"partition_names": "partition_name"},
    "transfer_replica": {
        "source": "source_group",
        "target": "target_group",
        "num_replica": "num_replicas",
    },
}
_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_OWN = {"close"}
# What they answer is gone through without awaiting.
_NOT_AWAITED = {"query_iterator", "search_iterator", "session"}


def _awaited(name: str, stock: Callable[..., Any]) -> Callable[..., Any]:
    """A method of the client on a thread, with the parameters of pymilvus's in their order."""
    every = list(inspect.signature(stock).parameters.values())[1:]
    renamed = _OTHER_NAMES.get(name, {})
    places = [renamed.get(one.name, one.name) for one in every if one.kind in _PLACED]

    @functools.wraps(stock)
    async def call(self: "AsyncMilvusClient", *args: Any, **kwargs: Any) -> Any:
        named = {renamed.get(key, key): value for key, value in kwargs.items()}
        if len(args) > len(places):
            given = f"{len(places)} positional arguments but {len(args)} were given"
            raise TypeError(f"{name}() takes {given}")
        for place, value in zip(places, args, strict=False):
            if place in named:
                raise TypeError(f"{name}() got multiple values for argument {place!r}")
            named[place] = value
        return await asyncio.to_thread(getattr(self._client(), name), **named)

    return call


class AsyncMilvusClient(pymilvus.AsyncMilvusClient):
    """A client of Milvus for asyncio, whose collections stand in a directory.

    `uri` is the directory. Calls, their arguments and what they answer are those of
    `pymilvus.AsyncMilvusClient`; how they differ is what `pipeann.MilvusClient` tells, which has the
    same parameters and errors.
    """

    def __init__(
        self, uri: str | os.PathLike[str] = "./pipeann-data", *args: Any, **kwargs: Any
    ) -> None:
        self._here: MilvusClient | None = MilvusClient(uri, *args, **kwargs)

    def _client(self) -> MilvusClient:
        if self._here is None:
            raise MilvusException(message="should create connection first: the client is closed")
        return self._here

    async def __aenter__(self) -> "AsyncMilvusClient":
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the client, and the directory where no other client has it open."""
        here, self._here = self._here, None
        if here is not None:
            await asyncio.to_thread(here.close)

    async def count(self, collection_name: str, filter: str = "") -> int:
        """How many rows there are, of those that match a filter."""
        return await asyncio.to_thread(self._client().count, collection_name, filter)

    def get_server_type(self) -> str:
        """What answers."""
        return self._client().get_server_type()


for _name, _stock in inspect.getmembers(pymilvus.AsyncMilvusClient, inspect.iscoroutinefunction):
    if not _name.startswith("_") and _name not in _OWN and hasattr(MilvusClient, _name):
        setattr(AsyncMilvusClient, _name, _awaited(_name, _stock))

# Earlier versions of pymilvus have fewer methods for asyncio than without.
for _name, _stock in inspect.getmembers(pymilvus.MilvusClient, inspect.isfunction):
    if not _name.startswith("_") and not hasattr(AsyncMilvusClient, _name):
        if _name not in _NOT_AWAITED:
            setattr(AsyncMilvusClient, _name, _awaited(_name, _stock))
