"""What collections are made of, and which graphs they have: easier than pymilvus has it."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from pymilvus import DataType
from pymilvus.exceptions import MilvusException
from pymilvus.milvus_client.index import IndexParams

from pipeann import errors
from pipeann.milvus import homes, schemas
from pipeann.milvus.opened import Opened

_NOT_LOADED = 101
_INVALID = 1100
_UNEXPECTED = 65535
# Seconds between looks at a build.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
# Properties of collections begin so that only the client of a directory looks at, which hides them.
_OURS = "pipeann."
# Of collections whose type of key the first insert decides.
_OPEN_KEY = "pipeann.key_type"
# Of collections that have to be loaded before they are read.
_RELEASED = "pipeann.released"
# Of collections whose vectors got an index since somebody read: which vectors.
_ASSUMED = "pipeann.assumed_metric"
# Of collections that were created with a schema and a metric: the metric of such an index.
_METRIC = "pipeann.metric"
_DEFAULT_METRIC = "COSINE"
_TEXT_KEY_BYTES = 65_535
# Vectors that have an index, and how they are compared where nobody says.
_METRICS = {
    "float_vector": _DEFAULT_METRIC,
    "float16_vector": _DEFAULT_METRIC,
    "bfloat16_vector": _DEFAULT_METRIC,
    "int8_vector": _DEFAULT_METRIC,
    "uint8_vector": _DEFAULT_METRIC,
    "binary_vector": "HAMMING",
}
_OF_BITS = {"HAMMING", "JACCARD"}
_OF_NUMBERS = {"L2", "IP", "COSINE"}

_KEY_TYPES: dict[Any, DataType] = {
    "int": DataType.INT64,
    DataType.INT64: DataType.INT64,
    "string": DataType.VARCHAR,
    "str": DataType.VARCHAR,
    DataType.VARCHAR: DataType.VARCHAR,
}


def _known_metric(name: Any) -> str:
    """A metric by its name, in any case."""
    known = str(name).upper()
    if known not in _OF_NUMBERS | _OF_BITS:
        supported = ", ".join(sorted(_OF_NUMBERS | _OF_BITS))
        raise MilvusException(_INVALID, f"metric type: {name} is not supported; use {supported}")
    return known


class Declaring(Opened):
    """Collections and their indexes."""

    def create_collection(
        self,
        collection_name: str,
        dimension: int | None = None,
        primary_field_name: str = "id",
        id_type: Any = None,
        vector_field_name: str = "vector",
        metric_type: str | None = None,
        auto_id: bool = False,
        timeout: float | None = None,
        schema: Any = None,
        index_params: Any = None,
        **kwargs: Any,
    ) -> None:
        """Creates a collection: with a schema, which may be a plain dict, or with a key, a vector
        of `dimension` components and a dynamic field. Beside a schema `metric_type` is the metric
        of indexes that nobody declares before rows are read."""
        if schema is not None and metric_type is not None and not index_params:
            properties = {**(kwargs.get("properties") or {}), _METRIC: _known_metric(metric_type)}
            kwargs["properties"] = properties
        if own := self._own_properties(collection_name):
            # One that is there and is the same in all that is given is fine.
            kwargs["properties"] = {**(kwargs.get("properties") or {}), **own}
        if isinstance(schema, Mapping):
            schema = schemas.collection_schema(schema)
        if schema is not None:
            super().create_collection(
                collection_name, schema=schema, index_params=index_params, timeout=timeout, **kwargs
            )
            return
        metric = metric_type or _DEFAULT_METRIC
        if type(dimension) is not int or id_type not in (None, *_KEY_TYPES):
            # pymilvus says what is wrong with it.
            given = (primary_field_name, id_type or "int", vector_field_name, metric, auto_id)
            super().create_collection(collection_name, dimension, *given, timeout, **kwargs)
            return
        if id_type is None and not auto_id:
            properties = {**(kwargs.pop("properties", None) or {}), _OPEN_KEY: "open"}
            kwargs["properties"] = properties
        kwargs.setdefault("enable_dynamic_field", True)
        schema = self.create_schema(auto_id=auto_id, **kwargs)
        key = _KEY_TYPES[id_type] if id_type is not None else self._known_key_type(collection_name)
        of_key = {}
        if key == DataType.VARCHAR:
            of_key["max_length"] = kwargs.get("max_length", _TEXT_KEY_BYTES)
        schema.add_field(primary_field_name, key, is_primary=True, **of_key)
        schema.add_field(vector_field_name, DataType.FLOAT_VECTOR, dim=dimension)
        super().create_collection(collection_name, schema=schema, timeout=timeout, **kwargs)
        if metric_type is not None:
            self._check_metric(collection_name, vector_field_name, _known_metric(metric_type))
        self._declare(collection_name, metric)

    def _check_metric(self, collection_name: str, field: str, metric: str) -> None:
        """Refuses another metric than that of a collection that was there."""
        described = self._collection(collection_name).describe()
        assumed = described["properties"].get(_ASSUMED, "").split(",")
        for index in described["indexes"]:
            if index["field"] == field and field not in assumed and index["metric"]:
                found = index["metric"].upper()
                if found != metric:
                    raise MilvusException(
                        _UNEXPECTED,
                        f"at most one distinct index is allowed per field: that of {field} is by "
                        f"{found}, not {metric}",
                    )

    def _own_properties(self, collection_name: Any) -> dict[str, str]:
        """The properties of a collection, if it is there, that only this client looks at."""
        if not self._exists(collection_name):
            return {}
        properties = self._collection(collection_name).describe()["properties"]
        return {name: value for name, value in properties.items() if name.startswith(_OURS)}

    def _known_key_type(self, collection_name: str) -> DataType:
        """Of a collection that is there, what its first insert decided."""
        try:
            _, is_text = self._home.door.primary_key(self._place(), collection_name)
        except errors.Error:
            return DataType.INT64
        return DataType.VARCHAR if is_text else DataType.INT64

    def _adopt_key_type(self, collection_name: Any, rows: Any) -> bool:
        """Creates a collection anew where its first rows decide that keys are texts."""
        if type(rows) is dict:
            rows = [rows]
        if type(rows) is not list or not rows or not self._exists(collection_name):
            return False
        collection = self._collection(collection_name)
        if collection.stats()["next_row"] > 0:
            return False
        described = collection.describe()
        fields = described["fields"]
        is_as_made = (
            _OPEN_KEY in described["properties"]
            and len(fields) - described["dynamic"] == 2
            and len(described["indexes"]) <= 1
            and len(described["partitions"]) == 1
            and not described["aliases"]
        )
        if not is_as_made:
            # Whatever was added to it since would be lost.
            return False
        key = next(field for field in fields if field["primary_key"])
        if key["type"] != "int64" or not all(
            isinstance(row, dict) and type(row.get(key["name"])) is str for row in rows
        ):
            return False
        vector = next(field for field in fields if field["type"] == "float_vector")
        metric = next((index["metric"] for index in described["indexes"]), None)
        # Under another name at first: whatever ends the process in between, one of them is there.
        name, other = described["name"], f"{homes.UNDER_WAY}{described['id']}"
        if self._exists(other):
            self.drop_collection(other)
        self.create_collection(
            other,
            vector["dim"],
            key["name"],
            "string",
            vector["name"],
            (metric or _DEFAULT_METRIC).upper(),
            enable_dynamic_field=described["dynamic"],
            description=described["description"],
            properties={**described["properties"], homes.INSTEAD_OF: name},
        )
        self.drop_collection(name)
        self._home.database.rename_collection(other, name, database=self._place())
        return True

    def describe_collection(
        self, collection_name: str, timeout: float | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """What a collection is made of."""
        described = super().describe_collection(collection_name, timeout=timeout, **kwargs)
        properties = described.get("properties", {})
        for name in [name for name in properties if name.startswith(_OURS)]:
            del properties[name]
        return described

    def _declare(
        self,
        collection_name: str,
        metric: str | None = None,
        asked: Mapping[str, str] | None = None,
    ) -> None:
        """Declares an index on each vector that has none, and loads. Nothing is built yet. Where no
        metric is named, one is assumed until indexes are declared with parameters: that of the
        collection, that which a search `asked` for on the field, or the usual one."""
        collection = self._collection(collection_name)
        described = collection.describe()
        assumed = described["properties"].get(_METRIC)

        def metric_of(name: str) -> str:
            default = _METRICS[kinds[name]]
            fits = _OF_BITS if default in _OF_BITS else _OF_NUMBERS
            others = (assumed, *((asked or {}).get(field) for field in (name, "")))
            return metric or next((one for one in others if one in fits), default)

        indexed = {index["field"] for index in described["indexes"]}
        kinds = {field["name"]: field["type"] for field in described["fields"]}
        missing = [name for name in kinds if kinds[name] in _METRICS and name not in indexed]
        try:
            if missing and metric is None:
                collection.alter_properties(set={_ASSUMED: ",".join(missing)})
            for name in missing:
                collection.create_index(name, metric_of(name).lower())
            collection.load()
            if _RELEASED in described["properties"]:
                collection.alter_properties(remove=[_RELEASED])
        except errors.InputError as error:
            raise MilvusException(_INVALID, str(error)) from error

    def _begin(self, collection_name: str) -> list[str]:
        """Has the graphs built that nobody asked for so far; names their indexes."""
        collection = self._collection(collection_name)
        indexes = collection.describe()["indexes"]
        unbuilt = [index["name"] for index in indexes if index["state"] == "not_built"]
        for name in unbuilt:
            collection.build_index(name)
        return unbuilt

    def _build(self, collection_name: str, timeout: float | None = None) -> None:
        """Builds the graphs that nobody asked for so far, and waits for all."""
        self._wait(collection_name, self._begin(collection_name), timeout)

    def describe_index(
        self,
        collection_name: str,
        index_name: str,
        timeout: float | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """What an index is, and how far. Whoever looks may wait for it, so it is begun."""
        if self._exists(collection_name):
            self._begin(collection_name)
        return super().describe_index(collection_name, index_name, timeout=timeout, **kwargs)

    def _wait(self, collection_name: str, indexes: list[str], timeout: float | None) -> None:
        """Waits for graphs that are being built, as long as that may take. Rows that wait to enter
        one are searched exactly meanwhile."""
        collection = self._collection(collection_name)
        until = None if timeout is None else time.monotonic() + timeout
        for name in indexes:
            pause = _SHORTEST_PAUSE
            while (status := collection.index_status(name)).state == "building":
                if until is not None and time.monotonic() > until:
                    raise MilvusException(
                        message=f"collection {collection_name} create index {name} timeout in "
                        f"{timeout}s"
                    )
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            if status.state == "failed":
                raise MilvusException(message=status.failure)

    def create_index(
        self,
        collection_name: str,
        index_params: Any = None,
        timeout: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Declares indexes and builds their graphs; without parameters, those of all vectors."""
        if index_params is None and isinstance(collection_name, str):
            if not self._exists(collection_name):
                # It says that there is none.
                super().describe_collection(collection_name, timeout=timeout)
            self._declare(collection_name)
            self._build(collection_name, timeout)
            return
        fields: set[str] = set()
        if isinstance(index_params, IndexParams):
            fields = {one.field_name for one in index_params}
        self._retract(collection_name, fields)
        # The service has each of them built. pymilvus would look half a second later how far it is.
        waits = kwargs.pop("sync", True)
        super().create_index(collection_name, index_params, timeout=timeout, sync=False, **kwargs)
        if waits:
            indexes = self._collection(collection_name).describe()["indexes"]
            names = [index["name"] for index in indexes if index["field"] in fields]
            self._wait(collection_name, names, timeout)

    def _retract(self, collection_name: str, fields: set[str]) -> None:
        """Drops the indexes of fields that were declared only since somebody read."""
        if not self._exists(collection_name):
            return
        collection = self._collection(collection_name)
        described = collection.describe()
        assumed = described["properties"].get(_ASSUMED, "").split(",")
        given_way = [index for index in described["indexes"] if index["field"] in fields]
        given_way = [index for index in given_way if index["field"] in assumed]
        if not given_way:
            return
        # The next read loads it again.
        collection.release()
        for index in given_way:
            collection.drop_index(index["name"])
        if rest := set(assumed) - fields:
            collection.alter_properties(set={_ASSUMED: ",".join(sorted(rest))})
        else:
            collection.alter_properties(remove=[_ASSUMED])

    def load_collection(
        self, collection_name: str, timeout: float | None = None, **kwargs: Any
    ) -> None:
        """Loads a collection, with a graph for each of its vectors."""
        if self._exists(collection_name):
            self._declare(collection_name)
            self._build(collection_name, timeout)
        super().load_collection(collection_name, timeout=timeout, **kwargs)

    def release_collection(
        self, collection_name: str, timeout: float | None = None, **kwargs: Any
    ) -> None:
        """Releases a collection. It has to be loaded before it is read again, unless nobody has
        declared an index: such a collection is there without being loaded, as in Milvus Lite."""
        super().release_collection(collection_name, timeout=timeout, **kwargs)
        collection = self._collection(collection_name)
        described = collection.describe()
        assumed = described["properties"].get(_ASSUMED, "").split(",")
        vectors = {f["name"] for f in described["fields"] if f["type"] in _METRICS}
        declared = {index["field"] for index in described["indexes"]} - set(assumed)
        if declared & vectors:
            collection.alter_properties(set={_RELEASED: "true"})

    def _is_released(self, collection_name: str) -> bool:
        return _RELEASED in self._collection(collection_name).describe()["properties"]

    def _read(
        self,
        collection_name: str,
        read: Callable[[], Any],
        asked: Callable[[], Mapping[str, str]] = dict,
    ) -> Any:
        """Reads; a collection that has to be loaded for it is, unless it was released. `asked`
        tells by which metric which vector is searched."""
        try:
            return read()
        except MilvusException as refused:
            if refused.code != _NOT_LOADED or not self._exists(collection_name):
                raise
            if self._is_released(collection_name):
                raise
        self._declare(collection_name, asked=asked())
        return read()
