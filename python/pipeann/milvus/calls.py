"""The calls that are made often, without a message or a socket.

Each takes what is plain, and leaves everything else to pymilvus: that knows what it means, or in
which words to refuse it.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pymilvus.exceptions import MilvusException

from pipeann import errors
from pipeann.milvus import answers, reading
from pipeann.milvus.declaring import Declaring


# Codes of Milvus for what helps against an error.
_CODES = {"fix": 1100, "retry": 2, "stop": 5}


def failed(error: errors.Error) -> MilvusException:
    """An error of the database as a server tells it."""
    return MilvusException(_CODES[error.action], str(error))


class Calls(Declaring):
    """Writes and reads."""

    def _write(self, collection_name: str, data: Any, what: str) -> Any:
        """Writes rows, or returns None where pymilvus has to look at them first."""
        self._opened()
        rows = [data] if isinstance(data, dict) else data
        if type(rows) is not list or not rows or not isinstance(collection_name, str):
            return None

        def attempt(rows: list[Any]) -> Any:
            collection = self._collection(collection_name)
            write = collection.insert if what == "insert_count" else collection.upsert
            try:
                return answers.written(what, write(rows))
            except errors.InputError:
                return None
            except errors.Error as error:
                raise failed(error) from error

        if not self._exists(collection_name):
            return None
        # What is JSON already, and what no JSON can be made of, is for pymilvus.
        if reading.any_json_text(rows, self._collection(collection_name).json_fields()):
            return None
        done = attempt(rows)
        if done is None and (narrow := reading.narrowed(rows)) is not None:
            rows = narrow
            done = attempt(rows)
        if done is None and self._adopt_key_type(collection_name, rows):
            done = attempt(rows)
        return done

    def _in_turn(self, collection_name: Any) -> AbstractContextManager[Any]:
        """Until a collection has rows, one writes after the other: the first rows may have it
        created anew, and no others may be in it then."""
        try:
            has_rows = self._collection(collection_name).stats()["next_row"] > 0
        except (errors.InputError, TypeError):
            # pymilvus says what is wrong with it.
            has_rows = False
        return nullcontext() if has_rows else self._home.first_rows

    def insert(self, collection_name: str, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Adds rows. They are on stable storage when this returns."""
        with self._in_turn(collection_name):
            done = None if args or kwargs else self._write(collection_name, data, "insert_count")
            if done is not None:
                return done
            self._adopt_key_type(collection_name, data)
            return super().insert(collection_name, data, *args, **kwargs)

    def upsert(self, collection_name: str, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Adds rows in the place of those that have their keys."""
        with self._in_turn(collection_name):
            done = None if args or kwargs else self._write(collection_name, data, "upsert_count")
            if done is not None:
                return done
            self._adopt_key_type(collection_name, data)
            return super().upsert(collection_name, data, *args, **kwargs)

    def delete(
        self,
        collection_name: str,
        ids: Any = None,
        timeout: float | None = None,
        filter: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Deletes rows by key or by filter."""
        plain = timeout is None and not args and not kwargs and self._exists(collection_name)
        if plain and (ids is None) != (not filter):
            keys = None if ids is None else reading.keys(ids)
            collection = self._collection(collection_name)
            try:
                if keys is not None:
                    return answers.deleted(collection.delete(keys))
                if ids is None and isinstance(filter, str):
                    return answers.deleted(collection.delete(filter=filter))
            except errors.InputError:
                # pymilvus says what is wrong with it.
                pass
            except errors.Error as error:
                raise failed(error) from error
        return super().delete(collection_name, ids, timeout, filter, *args, **kwargs)

    def search(
        self,
        collection_name: str,
        data: Any = None,
        filter: str = "",
        limit: int = 10,
        output_fields: list[str] | None = None,
        search_params: dict[str, Any] | None = None,
        timeout: float | None = None,
        partition_names: list[str] | None = None,
        anns_field: str | None = None,
        *others: Any,
        **kwargs: Any,
    ) -> Any:
        """The nearest rows of each vector."""
        self._opened()
        output, partitions = reading.names(output_fields), reading.names(partition_names)
        queries = reading.matrix(data)
        pairs = reading.search_pairs(limit, anns_field, search_params, dict(kwargs))
        plain = isinstance(collection_name, str) and isinstance(filter, str) and timeout is None
        # Later versions of pymilvus have more parameters.
        plain = plain and not others

        def asked() -> dict[str, str]:
            return reading.metric(anns_field, search_params)

        if not plain or output is None or partitions is None or queries is None or pairs is None:
            given = (collection_name, data, filter, limit, output_fields, search_params, timeout)
            rest, stock = (partition_names, anns_field, *others), super().search
            return self._read(collection_name, lambda: stock(*given, *rest, **kwargs), asked)
        door, place = self._home.door, self._place()
        return self._read(
            collection_name,
            lambda: answers.search_result(
                door.search(place, collection_name, queries, filter, output, partitions, pairs)
            ),
            asked,
        )

    def hybrid_search(
        self,
        collection_name: str,
        reqs: Any,
        ranker: Any,
        limit: int = 10,
        output_fields: list[str] | None = None,
        timeout: float | None = None,
        partition_names: list[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Several searches, ranked as one."""
        self._opened()
        output, partitions = reading.names(output_fields), reading.names(partition_names)
        ranking = reading.ranking(ranker, limit, dict(kwargs))
        plain = isinstance(collection_name, str) and isinstance(reqs, list) and timeout is None
        searches = [reading.one_search(request) for request in reqs] if plain else [None]

        def metrics() -> dict[str, str]:
            each = [reading.metric(one.anns_field, one.param) for one in reqs]
            return {field: metric for one in each for field, metric in one.items()}

        if None in (output, partitions, ranking) or any(one is None for one in searches):
            stock = super().hybrid_search
            given = (collection_name, reqs, ranker, limit, output_fields, timeout, partition_names)
            return self._read(collection_name, lambda: stock(*given, **kwargs), metrics)
        door, asked = self._home.door, (searches, output, partitions, ranking)
        return self._read(
            collection_name,
            lambda: answers.search_result(
                door.hybrid_search(self._place(), collection_name, *asked)
            ),
            metrics,
        )

    def query(
        self,
        collection_name: str,
        filter: str = "",
        output_fields: list[str] | None = None,
        timeout: float | None = None,
        ids: Any = None,
        partition_names: list[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """The rows that match a filter, in the order of their keys."""
        self._opened()
        output, partitions = reading.names(output_fields), reading.names(partition_names)
        pairs = reading.query_pairs(dict(kwargs))
        plain = isinstance(filter, str) and timeout is None and self._exists(collection_name)
        keys = None if ids is None else reading.keys(ids)
        door, place, name = self._home.door, self._place(), ""
        if ids is not None and plain:
            name, is_text = door.primary_key(place, collection_name)
            # pymilvus makes keys of the other type into keys of this one.
            plain = bool(keys) and not filter and is_text == isinstance(keys[0], str)
        if not plain or output is None or partitions is None or pairs is None:
            stock = super().query
            given = (collection_name, filter, output_fields, timeout, ids, partition_names)
            return self._read(collection_name, lambda: stock(*given, **kwargs))
        if keys is not None:
            filter = reading.keys_filter(name, keys)
        asked = (filter, output or ["*"], partitions, pairs)
        return self._read(
            collection_name, lambda: answers.rows(door.query(place, collection_name, *asked))
        )

    def get(
        self,
        collection_name: str,
        ids: Any,
        output_fields: list[str] | None = None,
        timeout: float | None = None,
        partition_names: list[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """The rows of these keys."""
        self._opened()
        if reading.keys(ids) is None or kwargs:
            stock = super().get
            given = (collection_name, ids, output_fields, timeout, partition_names)
            return self._read(collection_name, lambda: stock(*given, **kwargs))
        return self.query(collection_name, "", output_fields, timeout, ids, partition_names)

    def count(self, collection_name: str, filter: str = "") -> int:
        """How many rows there are, of those that match a filter."""
        return self.query(collection_name, filter, ["count(*)"])[0]["count(*)"]

    def search_iterator(self, collection_name: str, *args: Any, **kwargs: Any) -> Any:
        """Searches page by page."""
        stock = super().search_iterator

        def asked() -> dict[str, str]:
            return reading.metric(kwargs.get("anns_field"), kwargs.get("search_params"))

        return self._held(
            self._read(collection_name, lambda: stock(collection_name, *args, **kwargs), asked)
        )

    def query_iterator(self, collection_name: str, *args: Any, **kwargs: Any) -> Any:
        """Queries page by page."""
        stock = super().query_iterator
        return self._held(
            self._read(collection_name, lambda: stock(collection_name, *args, **kwargs))
        )

    def _held(self, iterator: Any) -> Any:
        """An iterator that keeps the client open as long as it is there."""
        iterator._pipeann_client = self
        return iterator
