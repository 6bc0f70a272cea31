"""`MilvusClient`: pymilvus's client with a directory instead of a server."""

import os
import weakref
from typing import Any

from pipeann import errors
from pipeann.milvus.calls import Calls

_clients: "weakref.WeakSet[MilvusClient]" = weakref.WeakSet()


class MilvusClient(Calls):
    """A client of Milvus whose collections stand in a directory, and whose server is this process.

    `uri` is the directory; it is made where it is not there, whatever its name ends with. A file of
    Milvus Lite is refused with the command that takes it over. Everything else is as in
    `pymilvus.MilvusClient`, of which this is a subclass, with these differences:

    - A collection can be read right after an insert. Its graph is built by the first search, or by
      `create_index` or `load_collection`. Only what `release_collection` released has to be loaded,
      where an index was declared; without one a collection is there at any time.
    - `create_collection` takes schemas as plain dicts with types by name, and `metric_type` beside
      a schema, which is that of an index that nobody declares. Without `id_type` the first insert
      decides whether keys are integers or texts.
    - `create_index(name)` needs no parameters, and `count(name)` counts rows.

    All clients of a directory in one process share it, and the last one to be closed closes it.
    Other processes are refused meanwhile, forked children too. Users and tokens are ignored.

    Parameters
    ----------
    uri: the directory.
    db_name: the database in it; "default" where none is named.
    memory_limit, level, threads, direct, backend, spdk_config: as in `pipeann.Database.open`.

    Raises
    ------
    pipeann.errors.LockedError: another process has the directory open.
    pipeann.errors.Error: the directory cannot be opened.
    """

    def __init__(self, uri: str | os.PathLike[str] = "./pipeann-data", *args: Any, **kwargs: Any):
        super().__init__(uri, *args, **kwargs)
        _clients.add(self)


class _Forked(MilvusClient):
    """What a client becomes in a forked child."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") or name == "close":
            return object.__getattribute__(self, name)
        raise errors.ForkedError(
            "the client was made before this process was forked; a forked child has to make its "
            "own, after the parent has closed all of its clients of the directory"
        )

    def close(self) -> None:
        """Closes nothing: it is the parent's."""


def _after_fork() -> None:
    for client in list(_clients):
        client.__class__ = _Forked


os.register_at_fork(after_in_child=_after_fork)
