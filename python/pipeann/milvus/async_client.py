"""`AsyncMilvusClient`: pymilvus's, with a directory instead of a server.

What `MilvusClient` does itself is done by it, on a thread: what takes long there releases the GIL,
so that awaited searches run beside each other and beside the loop. Everything else is called by
pymilvus's own client for asyncio, which does not answer in all as the other one does, over the
socket of the directory; by one for each running loop, since channels of gRPC belong to loops.
"""

import asyncio
import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

import pymilvus
from pymilvus.exceptions import MilvusException

from pipeann.milvus.client import MilvusClient
from pipeann.milvus.opened import OF_CHANNEL, Opened, reached_at

_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_STOCK = pymilvus.AsyncMilvusClient
# Earlier versions have few methods for asyncio, and clients of one address share a connection:
# there the other client makes all calls.
_HAS_CONNECTIONS = not hasattr(sys.modules[_STOCK.__module__], "create_connection")
# Parameters that the two clients of pymilvus name differently.
_OTHER_NAMES = {
    "get_load_state": {"partition_names": "partition_name"},
    "transfer_replica": {
        "source": "source_group",
        "target": "target_group",
        "num_replica": "num_replicas",
    },
}
_OWN = {"close", "use_database", "using_database"}
# What they answer is gone through without awaiting.
_NOT_AWAITED = {"query_iterator", "search_iterator", "session"}


def _is_ours(name: str) -> bool:
    """Whether the client of a directory has a method of its own, and not pymilvus's."""
    ours = MilvusClient.__mro__[: MilvusClient.__mro__.index(Opened) + 1]
    return any(name in vars(one) for one in ours)


def _on_a_thread(name: str, stock: Callable[..., Any]) -> Callable[..., Any]:
    """A method of `MilvusClient` on a thread, with the parameters of pymilvus's in their order."""
    every = list(inspect.signature(stock).parameters.values())[1:]
    renamed = _OTHER_NAMES.get(name, {})
    places = [renamed.get(one.name, one.name) for one in every if one.kind in _PLACED]

    @functools.wraps(stock)
    async def call(self: "AsyncMilvusClient", *args: Any, **kwargs: Any) -> Any:
        named = {renamed.get(key, key): value for key, value in kwargs.items()}
        if len(args) > len(places):
            given = f"{len(places) + 1} positional arguments but {len(args) + 1} were given"
            raise TypeError(f"{name}() takes {given}")
        for place, value in zip(places, args, strict=False):
            if place in named:
                raise TypeError(f"{name}() got multiple values for argument {place!r}")
            named[place] = value
        return await asyncio.to_thread(getattr(self._client(), name), **named)

    return call


def _over_the_socket(name: str, stock: Callable[..., Any]) -> Callable[..., Any]:
    """A method of pymilvus's client for asyncio."""

    @functools.wraps(stock)
    async def call(self: "AsyncMilvusClient", *args: Any, **kwargs: Any) -> Any:
        return await getattr(await self._connected(), name)(*args, **kwargs)

    return call


class AsyncMilvusClient(_STOCK):
    """A client of Milvus for asyncio, whose collections stand in a directory.

    `uri` is the directory. Calls, their arguments and what they answer are those of
    `pymilvus.AsyncMilvusClient`; how they differ is what `pipeann.MilvusClient` tells, which has
    the same parameters and errors.
    """

    def __init__(
        self, uri: str | os.PathLike[str] = "./pipeann-data", *args: Any, **kwargs: Any
    ) -> None:
        self._here: MilvusClient | None = MilvusClient(uri, *args, **kwargs)
        # pymilvus's own, of each loop.
        self._stock: dict[asyncio.AbstractEventLoop, Any] = {}

    def _client(self) -> MilvusClient:
        if self._here is None:
            raise MilvusException(message="should create connection first: the client is closed")
        return self._here

    async def _connected(self) -> Any:
        """pymilvus's own client, connected to the service in this process."""
        here, loop = self._client(), asyncio.get_running_loop()
        for other in [other for other in self._stock if other.is_closed()]:
            del self._stock[other]
        if loop not in self._stock:
            address = await asyncio.to_thread(here._home.address)
            # Others may have asked meanwhile.
            if loop not in self._stock:
                self._stock[loop] = _STOCK(
                    **reached_at(address),
                    db_name=here._place(),
                    timeout=here._timeout,
                    dedicated=True,
                    grpc_options=OF_CHANNEL,
                )
        return self._stock[loop]

    async def _disconnect(self) -> None:
        stock = self._stock.pop(asyncio.get_running_loop(), None)
        if stock is not None:
            await stock.close()

    async def _get_connection(self) -> Any:
        return await (await self._connected())._get_connection()

    @property
    def _config(self) -> Any:
        return self._client()._config

    async def __aenter__(self) -> "AsyncMilvusClient":
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the client, and the directory where no other client has it open."""
        here, self._here = self._here, None
        if here is not None:
            await self._disconnect()
            await asyncio.to_thread(here.close)

    async def count(self, collection_name: str, filter: str = "") -> int:
        """How many rows there are, of those that match a filter."""
        return await asyncio.to_thread(self._client().count, collection_name, filter)

    async def use_database(self, db_name: str, **kwargs: Any) -> None:
        """Makes this database of the directory the one that is meant."""
        await asyncio.to_thread(self._client().use_database, db_name, **kwargs)
        # Connected anew, it means the same.
        await self._disconnect()

    async def using_database(self, db_name: str, **kwargs: Any) -> None:
        """Makes this database of the directory the one that is meant."""
        await self.use_database(db_name, **kwargs)

    def get_server_type(self) -> str:
        """What answers."""
        return self._client().get_server_type()


def _complete() -> None:
    """Gives the client its methods, and those that earlier versions have without asyncio alone."""
    for name, stock in inspect.getmembers(_STOCK, inspect.iscoroutinefunction):
        if name.startswith("_") or name in _OWN:
            continue
        if not _HAS_CONNECTIONS or _is_ours(name):
            setattr(AsyncMilvusClient, name, _on_a_thread(name, stock))
        else:
            setattr(AsyncMilvusClient, name, _over_the_socket(name, stock))
    for name, stock in inspect.getmembers(pymilvus.MilvusClient, inspect.isfunction):
        if name.startswith("_") or hasattr(AsyncMilvusClient, name) or name in _NOT_AWAITED:
            continue
        setattr(AsyncMilvusClient, name, _on_a_thread(name, stock))


_complete()
