"""Opening and closing a client, and connecting its inherited half when that is needed."""

import itertools
import os
import re
import sys
import weakref
from typing import Any

import grpc
import pymilvus
from pymilvus.exceptions import MilvusException

from pipeann import errors
from pipeann._native import Collection
from pipeann.milvus import homes

# As it is now: a program may put ours in its place for a library that imports it.
_STOCK = pymilvus.MilvusClient
# Earlier versions take options only as a channel; and clients of one address share a connection, so
# that closing one would close all.
_SHARES_CONNECTIONS = hasattr(sys.modules[_STOCK.__module__], "create_connection") or hasattr(
    _STOCK, "_create_connection"
)
# Takes a socket's path for the name of a host, unless it is given as an address as well.
_MISREADS_SOCKETS = pymilvus.__version__ == "2.6.10"
# Names of connections: `id` of a client comes again when it is gone.
_NUMBERS = itertools.count()
# Attributes of pymilvus's client that stand for its connection.
_OF_CONNECTION = frozenset({"_config", "_handler", "_manager", "_using", "is_self_hosted"})
# A socket's path is no authority of HTTP, which gRPC would make it. Messages are of any size.
OF_CHANNEL = {
    "grpc.default_authority": "localhost",
    "grpc.max_send_message_length": -1,
    "grpc.max_receive_message_length": -1,
}
_OF_DIRECTORY = ("memory_limit", "level", "threads", "direct", "backend", "spdk_config")


def _is_address(uri: str) -> bool:
    """Whether people who say so mean a server; a directory of such a name has a `/` before it."""
    is_socket = uri.startswith(("unix:", "file:")) or re.fullmatch(r"[\w.-]+:\d+", uri) is not None
    return "://" in uri or (is_socket and not os.path.exists(uri))


def reached_at(address: str) -> dict[str, str]:
    """How pymilvus's clients are told of a socket."""
    return {"uri": address} | ({"address": address} if _MISREADS_SOCKETS else {})


def _forget(alias: str) -> None:
    """Lets go of the connection of a client that nobody has closed."""
    if pymilvus.connections.has_connection(alias):
        pymilvus.connections.remove_connection(alias)


class Opened(_STOCK):
    """A client with an open directory."""

    def __init__(
        self,
        uri: str | os.PathLike[str] = "./pipeann-data",
        user: str = "",
        password: str = "",
        db_name: str = "",
        token: str = "",
        timeout: float | None = None,
        **kwargs: Any,
    ) -> None:
        if _is_address(os.fspath(uri)):
            raise errors.InputError(
                f"{uri} is an address, and pipeann.MilvusClient opens a directory; "
                "pymilvus.MilvusClient connects to addresses"
            )
        if not os.fspath(uri):
            raise errors.InputError("the uri is empty; it is the path of a directory")
        options = {name: kwargs[name] for name in _OF_DIRECTORY if kwargs.get(name) is not None}
        self._home = homes.acquire(uri, options)
        self._close = weakref.finalize(self, self._home.release)
        self._database = db_name
        self._timeout = timeout
        if db_name and db_name not in self._home.database.databases():
            self.close()
            raise MilvusException(800, f"database not found[database={db_name}]")

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_CONNECTION:
            kind = type(self).__name__
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")
        self._connect()
        return self.__dict__[name]

    def _connect(self) -> None:
        """Connects pymilvus's own half to the service in this process."""
        self._opened()
        address = self._home.address()
        given: dict[str, Any] = {"grpc_options": OF_CHANNEL}
        if _SHARES_CONNECTIONS:
            channel = grpc.insecure_channel(address, options=list(OF_CHANNEL.items()))
            # They copy what they are given; a channel is none to be copied.
            channel.__deepcopy__ = lambda _memo: channel
            alias = f"pipeann-{os.getpid()}-{next(_NUMBERS)}"
            weakref.finalize(self, _forget, alias).atexit = False
            given = {"alias": alias, "channel": channel}
        # Named always: some versions take an empty name for the first part of the socket's path.
        given |= reached_at(address)
        super().__init__(db_name=self._place(), timeout=self._timeout, **given)

    def _opened(self) -> None:
        if not self._close.alive:
            raise MilvusException(message="should create connection first: the client is closed")

    def close(self) -> None:
        """Closes the client, and the directory where no other client has it open."""
        if not self._close.alive:
            return
        if "_using" in self.__dict__:
            super().close()
        self._close()

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def use_database(self, db_name: str, **kwargs: Any) -> None:
        """Makes this database of the directory the one that is meant."""
        super().use_database(db_name, **kwargs)
        self._database = db_name

    def using_database(self, db_name: str, **kwargs: Any) -> None:
        """Makes this database of the directory the one that is meant."""
        super().using_database(db_name, **kwargs)
        self._database = db_name

    def _exists(self, collection_name: Any) -> bool:
        self._opened()
        return isinstance(collection_name, str) and self._home.database.has_collection(
            collection_name, database=self._place()
        )

    def _place(self) -> str:
        return self._database or "default"

    def _collection(self, collection_name: str) -> Collection:
        self._opened()
        return self._home.database.collection(collection_name, database=self._place())
