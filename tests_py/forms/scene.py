"""What is there when a form is called, the same at both doors, and putting it back.

A door calls on a thread of its own, so that a call that never returns costs a client and a thread,
and no more. What stands around a call, building and looking, goes through clients of their own.
"""

import asyncio
import inspect
import queue
import threading
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import pymilvus
from pymilvus import DataType

from forms import shapes

DIM = 4
# Seconds after which a call counts as one that never returns.
LIMIT = 20.0
_PAGES = 10
COLLECTIONS = ("bare", "c")
HUNG = ("hung",)
# How often each thread has waited by pymilvus's own sleeps.
_WAITS: Counter[int] = Counter()


def note_wait() -> None:
    """This thread waits, for an answer that is not there or before it asks again."""
    _WAITS[threading.get_ident()] += 1


def waits(thread: int | None = None) -> int:
    """How often a thread has waited so far, or this one."""
    return _WAITS[thread or threading.get_ident()]


class Door:
    """A way in: what makes its clients."""

    def __init__(self, sync: Callable[[], Any], asynch: Callable[[], Any], admin: Any) -> None:
        self._make = {"sync": sync, "async": asynch}
        self._clients: dict[str, Any] = {}
        self._work: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._begin()
        self.admin = admin
        self.pristine: dict[str, Any] = {}
        # Whether collections were made anew since the clients were.
        self.mended = False

    def _begin(self) -> None:
        self._work = queue.SimpleQueue()
        self._thread = threading.Thread(target=_serve, args=(self._work,), daemon=True)
        self._thread.start()

    @property
    def waits(self) -> int:
        """How often the thread that calls has waited so far."""
        return waits(self._thread.ident if self._thread else None)

    def within_limit(self, act: Callable[[asyncio.AbstractEventLoop], Any]) -> Any:
        """What an act on the door's thread returns, or `HUNG`."""
        ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._work.put((act, ended))
        try:
            value, error = ended.get(timeout=LIMIT)
        except queue.Empty:
            # The thread is left to itself, with the clients that it may be in.
            self._clients.clear()
            self._begin()
            return HUNG
        if error is not None:
            raise error
        return value

    def client(self, kind: str) -> Any:
        """The client that forms are called on."""
        if kind not in self._clients:
            make = self._make[kind]
            made = self.within_limit(lambda loop: loop.run_until_complete(_made(make)))
            assert made is not HUNG, f"no {kind} client in {LIMIT} s"
            self._clients[kind] = made
        return self._clients[kind]

    def forget(self) -> None:
        """Closes the clients that forms were called on."""
        self.mended = False
        for client in self._clients.values():
            self.within_limit(
                lambda loop, client=client: loop.run_until_complete(_answer(client.close))
            )
        self._clients.clear()

    def outcome(self, kind: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a form returns, or how it is refused, as it is compared."""
        method = getattr(self.client(kind), name)

        async def called() -> Any:
            return shapes.shape(await _drained(await _answer(lambda: method(*args, **kwargs))))

        try:
            found = self.within_limit(lambda loop: loop.run_until_complete(called()))
        except Exception as error:
            return shapes.refusal(error)
        return HUNG if found is HUNG else ("returned", found)

    def build(self, part: str) -> None:
        """Makes a part of the scene."""
        _BUILD[part](self.admin, set(COLLECTIONS))
        self.pristine[part] = self.state(part)

    def mend(self, part: str, seen: dict[str, Any], unseen: set[str]) -> None:
        """Puts back of a part of the scene what is not as it has to be."""
        right = self.pristine[part]
        names = seen.keys() | right.keys()
        if spoilt := unseen | {name for name in names if seen.get(name) != right.get(name)}:
            _BUILD[part](self.admin, spoilt)
            self.mended |= part == "collections"

    def state(self, part: str) -> dict[str, Any]:
        """What can be seen of a part of the scene, by name."""
        return {name: shapes.shape(told) for name, told in _SEEN[part](self.admin).items()}

    def close(self) -> None:
        self.forget()
        self.admin.close()


def _serve(work: "queue.SimpleQueue[Any]") -> None:
    loop = asyncio.new_event_loop()
    while True:
        act, ended = work.get()
        try:
            ended.put((act(loop), None))
        except Exception as error:
            ended.put((None, error))


async def _made(make: Callable[[], Any]) -> Any:
    """A client for asyncio wants a running loop."""
    return make()


async def _answer(call: Callable[[], Any]) -> Any:
    answer = call()
    return await answer if inspect.isawaitable(answer) else answer


async def _drained(answer: Any) -> Any:
    """What is behind an answer that is gone through step by step, or waited for."""
    if inspect.isasyncgen(answer):
        return [part async for part in answer]
    if inspect.isgenerator(answer):
        return list(islice(answer, _PAGES))
    # Some objects have every attribute, which is None.
    if callable(getattr(answer, "next", None)) and callable(getattr(answer, "close", None)):
        pages = []
        while len(pages) < _PAGES and (page := answer.next()):
            pages.append(page)
        answer.close()
        return {"iterator": type(answer).__name__, "pages": pages}
    if callable(getattr(answer, "result", None)) and callable(getattr(answer, "done", None)):
        return await _answer(answer.result)
    return answer


def _schema(client: Any) -> Any:
    schema = client.create_schema(enable_dynamic_field=True)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIM)
    return schema


def _collections(client: Any, spoilt: set[str]) -> None:
    """Makes collections anew that are not as they should be, and drops what should not be there."""
    for name in spoilt & set(client.list_collections()):
        _drop(client, name)
    if "bare" in spoilt:
        client.create_collection("bare", schema=_schema(client))
        client.create_partition("bare", "p")
    if "c" in spoilt:
        _fill(client)


def _fill(client: Any) -> None:
    schema = _schema(client)
    schema.add_field("n", DataType.INT64, nullable=True)
    schema.add_field("color", DataType.VARCHAR, max_length=100)
    client.create_collection("c", schema=schema)
    index = client.prepare_index_params()
    index.add_index("vector", index_type="HNSW", metric_type="L2", M=8)
    client.create_index("c", index)
    client.create_partition("c", "p")
    for partition, keys in (("_default", (1, 3, 5)), ("p", (2, 4, 6))):
        rows = [
            {
                "id": key,
                "vector": [float(key), 1.0, 0.0, 0.0],
                "n": key,
                "color": "red" if key < 4 else "blue",
                "extra": key,
            }
            for key in keys
        ]
        client.insert("c", rows, partition_name=partition)
    client.load_collection("c")
    client.create_alias("c", "a")


def _drop(client: Any, name: str) -> None:
    for alias in client.list_aliases(name)["aliases"]:
        client.drop_alias(alias)
    client.drop_collection(name)


def _databases(client: Any, _spoilt: set[str]) -> None:
    for name in client.list_databases():
        if name != "default":
            client.use_database(name)
            for collection in client.list_collections():
                _drop(client, collection)
            client.use_database("default")
            client.drop_database(name)
    client.create_database("empty")
    client.create_database("d")
    client.use_database("d")
    client.create_collection("c", schema=_schema(client))
    client.use_database("default")


def _people(client: Any, spoilt: set[str]) -> None:
    """Makes users, roles and groups anew that are not as they should be."""
    every = spoilt == set(COLLECTIONS)
    spoilt = {"user u", "role r", "role lone", "group g"} if every else spoilt
    drops = {
        "user": client.drop_user,
        "role": lambda name: client.drop_role(name, force_drop=True),
        "group": client.drop_privilege_group,
    }
    there = _seen_people(client)
    # A role that a user has goes with what the user has of it.
    for told in sorted(spoilt & there.keys(), reverse=True):
        kind, _, name = told.partition(" ")
        drops[kind](name)
    if "user u" in spoilt:
        client.create_user("u", "Secret-1")
    if "role r" in spoilt:
        client.create_role("r")
        client.grant_privilege("r", "Collection", "Search", "c")
    if "role lone" in spoilt:
        client.create_role("lone")
    if {"user u", "role r"} & spoilt:
        client.grant_role("u", "r")
    if "group g" in spoilt:
        client.create_privilege_group("g")
        client.add_privileges_to_group("g", ["Search"])


def _seen_collections(client: Any) -> dict[str, Any]:
    seen = {}
    for name in sorted(client.list_collections()):
        indexes = client.list_indexes(name)
        told = [client.describe_index(name, index) for index in sorted(indexes)]
        for one in filter(None, told):
            # How far a build is behind the answer.
            for changing in ("state", "indexed_rows", "pending_index_rows"):
                one.pop(changing, None)
        state = client.get_load_state(name)["state"]
        seen[name] = {
            "described": client.describe_collection(name),
            "indexes": told,
            "loaded": state,
            "partitions": client.list_partitions(name),
            "aliases": client.list_aliases(name)["aliases"],
            "counted": client.get_collection_stats(name),
        }
        if state == pymilvus.client.types.LoadState.Loaded:
            asked = {"filter": "", "limit": 20, "output_fields": ["*"]}
            seen[name]["rows"] = client.query(name, **asked)
    return seen


def _seen_databases(client: Any) -> dict[str, Any]:
    seen = {}
    for name in sorted(client.list_databases()):
        client.use_database(name)
        seen[name] = [client.describe_database(name), sorted(client.list_collections())]
        client.use_database("default")
    return seen


def _seen_people(client: Any) -> dict[str, Any]:
    groups = client.list_privilege_groups()
    return (
        {f"user {name}": client.describe_user(name) for name in client.list_users()}
        | {f"role {name}": client.describe_role(name) for name in client.list_roles()}
        | {f"group {group['privilege_group']}": group for group in groups}
    )


_BUILD = {"collections": _collections, "databases": _databases, "people": _people}
_SEEN = {
    "collections": _seen_collections,
    "databases": _seen_databases,
    "people": _seen_people,
}
PARTS = tuple(_BUILD)
