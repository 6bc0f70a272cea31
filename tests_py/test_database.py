"""`pipeann.Database`: what there is, who has it open, and what is answered."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from pipeann import Collection, Database, Field, errors

FIELDS = [Field("id", "int64", primary_key=True), Field("v", "float_vector", dim=8)]


def some(rows: int, start: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(start)
    vectors = rng.normal(size=(rows, 8)).astype(np.float32)
    return {"id": np.arange(start, start + rows), "v": vectors}


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database.open(tmp_path / "db")


@pytest.fixture
def collection(database: Database) -> Collection:
    made = database.create_collection("c", FIELDS)
    made.load()
    return made


def test_rows_are_written_read_counted_and_found(collection: Collection) -> None:
    given = some(500)
    collection.insert(given)
    collection.upsert({"id": [7], "v": given["v"][:1]})
    assert collection.delete([3, 4, 9999]) == 2
    assert collection.count() == 498 and collection.stats()["rows"] == 498
    hits = collection.search("v", given["v"][:2], 5, metric="l2", fields=["v"])
    assert sorted(hits[0].keys[:2]) == [0, 7] and hits[1].keys[0] == 1
    assert hits[0].distances.dtype == np.float32 and hits[0].columns["v"].shape == (5, 8)
    rest = np.setdiff1d(np.arange(500), [3, 4])
    truth = ((given["v"][rest] - given["v"][1]) ** 2).sum(axis=1)
    nearest = [key for key in rest[np.argsort(truth)] if key != 7][:5]
    assert [key for key in hits[1].keys if key != 7] == nearest[: len(hits[1].keys)]
    assert collection.get([7])[0]["v"].tolist() == given["v"][0].tolist()
    some_rows = collection.query(["id"], start=10, stop=20, limit=3)
    assert some_rows == [{"id": 10}, {"id": 11}, {"id": 12}]
    collection.flush()
    assert collection.verify() == []


def test_rows_are_there_after_opening_again(tmp_path: Path) -> None:
    for level in ["sync", "group", "none"]:
        with Database.open(tmp_path, level=level, group_delay_ms=1) as database:
            made = database.has_collection("c")
            c = database.collection("c") if made else database.create_collection("c", FIELDS)
            before = c.count()
            c.insert(some(10, before))
    with Database.open(tmp_path) as database:
        assert database.collection("c").query(["id"], columns=True)["id"].tolist() == [*range(30)]


def test_names_change(database: Database, collection: Collection) -> None:
    database.rename_collection("c", "d")
    database.create_alias("e", "d")
    assert (database.collections(), database.aliases()) == (["d"], {"e": "d"})
    assert database.collection("e").name == collection.name == "d"
    database.create_collection("f", FIELDS)
    database.alter_alias("e", "f")
    assert database.aliases() == {"e": "f"}
    database.drop_alias("e")
    database.create_database("other", properties={"a": "b"})
    assert database.databases() == {"default": {}, "other": {"a": "b"}}
    database.rename_collection("f", "g", to_database="other")
    assert database.collections(database="other") == ["g"]
    database.drop_collection("g", database="other")
    database.drop_database("other")
    assert list(database.databases()) == ["default"]


def test_partitions_and_loading(collection: Collection) -> None:
    collection.create_partition("p")
    collection.insert(some(5), partition="p")
    collection.insert(some(5, 100))
    assert (collection.count(partition="p"), collection.count()) == (5, 10)
    found = collection.query(["id"], partitions=["p"])
    assert [row["id"] for row in found] == [0, 1, 2, 3, 4]
    query = some(1)["v"]
    collection.release()
    with pytest.raises(errors.NotLoadedError, match="load it first"):
        collection.search("v", query, metric="l2")
    collection.load(["p"])
    assert len(collection.search("v", query, 100, metric="l2")[0].keys) == 5
    collection.release()
    collection.drop_partition("p")
    assert collection.count() == 5


def test_describes_itself(database: Database) -> None:
    fields = [*FIELDS, Field("price", "double", default=1.5, description="in euros")]
    c = database.create_collection("shop", fields, dynamic=True, properties={"owner": "me"})
    c.create_index("v", "cosine", parameters={"degree": "32"})
    c.add_field(Field("late", "varchar", max_bytes=5, nullable=True))
    about = c.describe()
    assert [field["name"] for field in about["fields"]] == ["id", "v", "price", "$meta", "late"]
    assert about["fields"][2]["default"] == 1.5 and about["fields"][2]["description"] == "in euros"
    assert about["dynamic"] and not about["loaded"] and about["properties"] == {"owner": "me"}
    index = about["indexes"][0]
    assert (index["field"], index["metric"], index["state"]) == ("v", "cosine", "not_built")
    assert index["parameters"] == {"degree": "32"}
    c.drop_index(index["name"])
    assert c.describe()["indexes"] == []


def test_what_there_is_not_is_refused(database: Database, collection: Collection) -> None:
    query = some(1)["v"]
    for work in [
        lambda: database.collection("nothing"),
        lambda: database.drop_database("nothing"),
        lambda: collection.count(partition="nothing"),
        lambda: collection.query(["nothing"]),
        lambda: collection.search("nothing", query, metric="l2"),
        lambda: collection.search("id", query, metric="l2"),
        lambda: collection.drop_index("nothing"),
    ]:
        with pytest.raises(errors.NotFoundError) as caught:
            work()
        assert caught.value.action == "fix" and isinstance(caught.value, ValueError)
    with pytest.raises(errors.ExistsError, match="different parameters"):
        database.create_collection("c", [*FIELDS, Field("n", "int8")])
    with pytest.raises(errors.InputError, match="unknown field type"):
        database.create_collection("d", [Field("v", "vector", dim=3)])
    with pytest.raises(errors.InputError, match="no such property"):
        database.create_collection("d", [{"name": "v", "type": "float_vector", "size": 3}])
    with pytest.raises(errors.InputError, match="no primary key"):
        database.create_collection("d", FIELDS[1:])
    with pytest.raises(errors.InputError, match="unknown metric"):
        collection.create_index("v", "manhattan")
    with pytest.raises(errors.InputError, match="level is"):
        Database.open("unused", level="fast")


@pytest.mark.parametrize(
    ("queries", "says"),
    [
        (np.zeros((1, 7), np.float32), "7"),
        (np.zeros((1, 8)), "expected dtype float32"),
        (np.full((1, 8), np.nan, np.float32), "NaN"),
        (np.zeros((1, 2, 4), np.float32), "shape"),
        ([[0.0] * 8, [0.0] * 9], "row 1"),
    ],
)
def test_bad_queries_are_refused(collection: Collection, queries: object, says: str) -> None:
    collection.insert(some(3))
    with pytest.raises(errors.InputError, match=says) as caught:
        collection.search("v", queries, metric="l2")
    assert caught.value.field == "v"


def test_keys_are_of_their_type(collection: Collection) -> None:
    collection.insert(some(3))
    with pytest.raises(errors.InputError, match="key 0 is of type VarChar"):
        collection.get("a")
    with pytest.raises(errors.InputError, match="key 1: expected an integer, found float"):
        collection.delete([1, 1.5])
    with pytest.raises(errors.InputError, match="rows 0 and 2 .* same primary key 5") as caught:
        collection.upsert({"id": [5, 6, 5], "v": some(3)["v"]})
    assert caught.value.row == 2
    assert [row["id"] for row in collection.get(np.array([2, 0]), [])] == [2, 0]


def test_what_is_closed_or_dropped_says_so(tmp_path: Path) -> None:
    database = Database.open(tmp_path)
    c = database.create_collection("c", FIELDS)
    dropped = database.create_collection("d", FIELDS)
    database.drop_collection("d")
    with pytest.raises(errors.ClosedError, match="was dropped"):
        dropped.count()
    database.close()
    database.close()
    for work in [c.count, database.collections, lambda: c.insert(some(1))]:
        with pytest.raises(errors.ClosedError, match="database is closed"):
            work()
    assert repr(c) == "Collection(closed)"
    Database.open(tmp_path).close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    code = "import sys, pipeann; pipeann.Database.open(sys.argv[1])"
    with Database.open(tmp_path):
        command = [sys.executable, "-c", code, tmp_path]
        again = subprocess.run(command, capture_output=True, text=True)
        assert again.returncode != 0 and "LockedError" in again.stderr
        assert f"process {os.getpid()} on " in again.stderr
        with pytest.raises(errors.LockedError) as caught:
            Database.open(tmp_path)
        assert caught.value.action == "retry"
    Database.open(tmp_path).close()


def test_a_strange_or_damaged_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(errors.InputError, match="letter.txt"):
        Database.open(tmp_path)
    path = tmp_path / "db"
    Database.open(path).close()
    catalogue = path / "CATALOG"
    data = bytearray(catalogue.read_bytes())
    data[-9] ^= 1
    catalogue.write_bytes(data)
    with pytest.raises(errors.StopError, match="damaged") as caught:
        Database.open(path)
    assert caught.value.action == "stop" and isinstance(caught.value, OSError)


def test_a_memory_limit_that_is_too_low_names_the_number(tmp_path: Path) -> None:
    for limit in (1 << 16, 3 << 19):
        with pytest.raises(errors.MemoryLimitError, match="at least 4194304 bytes") as refused:
            Database.open(tmp_path / "db", memory_limit=limit)
        assert isinstance(refused.value, MemoryError)
    assert not (tmp_path / "db").exists()
    # Enough for writing to one collection, and not to two at once.
    with Database.open(tmp_path / "db", memory_limit=4 << 20) as database:
        first, second = (database.create_collection(name, FIELDS) for name in "cd")
        first.insert(some(100))
        with pytest.raises(errors.MemoryLimitError, match="bytes") as caught:
            second.insert(some(100))
        assert isinstance(caught.value, MemoryError)
        assert (first.count(), second.count()) == (100, 0)
    with Database.open(tmp_path / "db", memory_limit=64 << 20) as database:
        database.collection("d").insert(some(100))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_gets_a_clear_error_and_harms_nothing(tmp_path: Path) -> None:
    database = Database.open(tmp_path)
    c = database.create_collection("c", FIELDS)
    child = os.fork()
    if child == 0:
        caught = 0
        for work in [c.count, database.collections, database.close]:
            try:
                work()
            except errors.ForkedError:
                caught += 1
        del c, database, work
        os._exit(0 if caught == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0
    c.insert(some(3))
    with pytest.raises(errors.LockedError):
        Database.open(tmp_path)
    database.close()


def test_threads_share_a_collection_and_closing_waits_for_them(database: Database) -> None:
    c = database.create_collection("c", FIELDS)
    written = [0] * 4
    started = threading.Barrier(5)

    def write(thread: int) -> None:
        started.wait()
        try:
            for i in range(1000):
                c.insert(some(3, 10_000 * thread + 10 * i))
                written[thread] += 3
        except errors.ClosedError:
            pass

    threads = [threading.Thread(target=write, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    while sum(written) < 60:
        pass
    database.close()
    for thread in threads:
        thread.join()
    with Database.open(Path(repr(database)[10:-2])) as again:
        assert again.collection("c").count() == sum(written)


def test_an_index_is_built_searched_and_grows(tmp_path: Path) -> None:
    with Database.open(tmp_path, direct=False, build_on_read=True) as database:
        c = database.create_collection("c", FIELDS)
        c.load()
        given = some(4000)
        c.insert(given)
        c.create_index("v", "l2", parameters={"max_degree": "24"})
        assert c.index_status("v").state == "not_built"
        c.search("v", given["v"][:1])
        status = c.wait_for_index("v")
        assert (status.state, status.rows, status.linked) == ("finished", 4000, 4000)
        c.insert(some(500, 5000))
        c.delete([0, 1])
        assert c.wait_for_index("v").pending == 0
        hits = c.search("v", given["v"][:50], 1, list_length=100)
        assert sum(h.keys[0] == key for key, h in enumerate(hits)) >= 47
        assert all(0 not in h.keys and 1 not in h.keys for h in hits)
        c.build_index("v")
        assert c.wait_for_index("v").linked == 4498
        with pytest.raises(errors.InputError, match="indexed by l2, the search asks for cosine"):
            c.search("v", given["v"][:1], metric="cosine")
        c.release()
        c.drop_index("v")
        with pytest.raises(errors.NotFoundError):
            c.index_status("v")
