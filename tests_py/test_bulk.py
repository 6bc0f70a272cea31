"""Bulk loads: each kind of source, and going on after whatever ended the first attempt."""

import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeann import Collection, Database, Field, bulk, errors

DIM = 16
ROWS = 20_000
FIELDS = [
    Field("id", "int64", primary_key=True),
    Field("v", "float_vector", dim=DIM),
    Field("note", "varchar", max_bytes=20, nullable=True),
]
SMALL = 64 << 10


def rows(count: int = ROWS) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return {
        "id": np.arange(count),
        "v": rng.normal(size=(count, DIM)).astype(np.float32),
        "note": [None if i % 3 == 0 else f"note {i}" for i in range(count)],
    }


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Database.open(tmp_path / "db") as database:
        yield database.create_collection("c", FIELDS)


def check(collection: Collection, given: dict[str, Any]) -> None:
    found = collection.query(columns=True)
    for name, column in given.items():
        if isinstance(column, list):
            assert found[name] == column, name
        else:
            np.testing.assert_array_equal(found[name], column, name)


class Stop(Exception):
    pass


def stop_after(batches: int) -> Any:
    seen = []

    def progress(progress: Any) -> None:
        seen.append(progress.rows)
        if len(seen) == batches:
            raise Stop

    return progress


def test_columns_are_loaded_with_progress_and_an_estimate(collection: Collection) -> None:
    given = rows()
    estimate = collection.estimate_load(ROWS)
    assert estimate.disk_bytes > ROWS * (8 + 4 * DIM) and estimate.indexes == {}
    seen: list[Any] = []
    report = collection.bulk_load(given, batch_bytes=SMALL, progress=seen.append)
    assert (report.rows, report.resumed_at) == (ROWS, 0)
    assert len(seen) > 5 and seen[-1].rows == seen[-1].total == ROWS
    assert seen[-1].seconds_left == 0 and seen[0].rows_per_second > 0
    check(collection, given)
    again = collection.bulk_load(given)
    assert (again.resumed_at, again.logged_bytes) == (ROWS, 0)
    assert collection.count() == ROWS
    assert collection.loads() == [(report.name, ROWS, True)]
    assert collection.forget_load(report.name)
    collection.bulk_load(given)
    assert collection.count() == 2 * ROWS
    collection.create_partition("p")
    there = collection.bulk_load(given, partition="p")
    assert there.resumed_at == 0 and there.name != report.name, "another partition, another load"
    assert collection.bulk_load(given, partition="_default").resumed_at == ROWS
    assert collection.count(partition="p") == ROWS


def test_an_index_that_is_declared_is_estimated_and_built(tmp_path: Path) -> None:
    with Database.open(tmp_path, direct=False) as database:
        c = database.create_collection("c", FIELDS)
        c.create_index("v", "l2")
        index = c.estimate_load(5000).indexes["v"]
        assert index["cpu_seconds"] > 0 and index["disk_bytes"] > 5000 * 4 * DIM
        seen: list[Any] = []
        report = c.bulk_load(rows(5000), build_indexes=False)
        assert report.indexes == [] and c.index_status("v").state == "not_built"
        report = c.bulk_load(rows(5000), progress=seen.append)
        assert (report.resumed_at, report.indexes) == (5000, ["v"])
        assert all(p.rows == 5000 and p.index[0] == "v" for p in seen)
        status = c.index_status("v")
        assert (status.state, status.rows, status.failure) == ("finished", 5000, None)


def test_mapped_files_are_loaded(tmp_path: Path, collection: Collection) -> None:
    given = rows()
    np.save(tmp_path / "v.npy", given["v"])
    header = np.array([ROWS, DIM], "<u4").tobytes()
    (tmp_path / "v.fbin").write_bytes(header + given["v"].tobytes())
    source = bulk.vectors(tmp_path / "v.npy", "v", key="id")
    with pytest.raises(Stop):
        collection.bulk_load(source, batch_bytes=SMALL, progress=stop_after(3))
    # The same rows, whatever file they stand in.
    source = bulk.vectors(tmp_path / "v.fbin", "v", key="id")
    report = collection.bulk_load(source, batch_bytes=SMALL)
    assert 0 < report.resumed_at < ROWS
    check(collection, {"id": given["id"], "v": given["v"]})
    with pytest.raises(errors.InputError, match="`id` is missing"):
        collection.bulk_load(bulk.vectors(tmp_path / "v.fbin", "v"))
    wide = np.array([1, 32_769], "<u4").tobytes() + bytes(32_769)
    (tmp_path / "wide.u8bin").write_bytes(wide)
    with pytest.raises(errors.InputError, match="32768 at most"):
        bulk.vectors(tmp_path / "wide.u8bin", "v")
    (tmp_path / "cut.fbin").write_bytes(header + b"1234")
    with pytest.raises(errors.InputError, match="the file has 12 bytes"):
        bulk.vectors(tmp_path / "cut.fbin", "v")
    with pytest.raises(errors.InputError, match="known are .npy"):
        bulk.vectors(tmp_path / "v.txt", "v")
    with pytest.raises(errors.InputError, match="which field it is for"):
        collection.bulk_load(tmp_path / "v.fbin")
    with pytest.raises(FileNotFoundError):
        bulk.vectors(tmp_path / "none.fbin", "v")


def parquet(path: Path, columns: dict[str, Any], vector_type: Any = None) -> Path:
    pa = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    table = {}
    for name, column in columns.items():
        if isinstance(column, np.ndarray) and column.ndim == 2:
            item = pa.array(column.reshape(-1))
            array = pa.FixedSizeListArray.from_arrays(item, column.shape[1])
            table[name] = array if vector_type is None else array.cast(pa.list_(vector_type))
        else:
            table[name] = pa.array(column)
    write_table(pa.table(table), path, row_group_size=3000)
    return path


def test_parquet_files_are_loaded_and_resumed(tmp_path: Path, collection: Collection) -> None:
    given = rows()
    half = ROWS // 2 + 77
    first = {name: column[:half] for name, column in given.items()}
    second = {name: column[half:] for name, column in given.items()}
    paths = [parquet(tmp_path / "a.parquet", first), parquet(tmp_path / "b.parquet", second)]
    for batches in [2, 5]:
        with pytest.raises(Stop):
            progress = stop_after(batches)
            collection.bulk_load(bulk.Parquet(paths), batch_bytes=SMALL, progress=progress)
        assert 0 < collection.count() < ROWS
    report = collection.bulk_load(bulk.Parquet(paths), batch_bytes=SMALL)
    assert report.rows == ROWS and report.resumed_at > 0
    check(collection, given)


def test_a_parquet_file_that_changed_anywhere_is_another_source(tmp_path: Path) -> None:
    def identity(given: dict[str, Any], columns: Any = None) -> int:
        half = {name: column[: ROWS // 2] for name, column in given.items()}
        rest = {name: column[ROWS // 2 :] for name, column in given.items()}
        paths = [parquet(tmp_path / "a.parquet", half), parquet(tmp_path / "b.parquet", rest)]
        return bulk.Parquet(paths, columns).identity

    given = rows()
    seen = {identity(given)}
    assert identity(rows()) in seen, "the same rows have the same identity"
    for row in [5, 100, ROWS // 2 - 1, ROWS // 2 + 100, ROWS - 1]:
        changed = rows()
        changed["note"][row] = "corrected"
        found = identity(changed)
        assert found not in seen, row
        seen.add(found)
    for row in [0, ROWS - 1]:
        changed = rows()
        changed["v"][row] += 0.25
        found = identity(changed)
        assert found not in seen, row
        seen.add(found)
    changed = rows()
    changed["id"] = np.concatenate([changed["id"][1:], [ROWS]])
    assert identity(changed) not in seen, "rows that went and came"
    changed["note"][ROWS // 2] = "corrected"
    only = {"v": "v"}
    assert identity(changed, only) == identity(given, only), "a column that is not read"


def test_parquet_files_without_rows_are_passed_over(tmp_path: Path, collection: Collection) -> None:
    given = rows(500)
    whole = parquet(tmp_path / "b.parquet", given)
    from pyarrow.parquet import read_schema, write_table

    write_table(read_schema(whole).empty_table(), tmp_path / "a.parquet")
    paths = [tmp_path / "a.parquet", whole, tmp_path / "a.parquet"]
    report = collection.bulk_load(bulk.Parquet(paths))
    assert (report.rows, report.resumed_at) == (500, 0)
    check(collection, given)
    assert bulk.Parquet(tmp_path / "a.parquet").rows == 0


def test_parquet_of_every_type(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from datetime import datetime, timezone

    moment = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
    fields = [
        Field("id", "varchar", max_bytes=9, primary_key=True),
        Field("v", "float_vector", dim=2),
        Field("flag", "bool"),
        Field("small", "int16", nullable=True),
        Field("single", "float"),
        Field("moment", "timestamptz", nullable=True),
        Field("words", "array<varchar>", max_capacity=3, max_bytes=9),
        Field("object", "json", nullable=True),
    ]
    columns = {
        "id": ["a", "b"],
        "flag": np.array([True, False]),
        "small": [None, 3],
        "single": np.array([0.5, 1.5], np.float32),
        "moment": [moment, None],
        "words": [["x"], []],
        "object": [{"a": 1}, {"a": 2}],
    }
    given = columns | {"v": np.array([[1.5, 2.5], [3.5, 4.5]])}
    path = parquet(tmp_path / "a.parquet", given, pa.float64())
    with Database.open(tmp_path / "db") as database:
        c = database.create_collection("c", fields)
        with pytest.raises(errors.InputError, match="field `v`.*float32.*float64"):
            c.bulk_load(path)
        c.bulk_load(bulk.Parquet(path, doubles_as_floats=True), name="rounded")
        check(c, columns | {"v": given["v"].astype(np.float32)})
        with pytest.raises(errors.InputError, match="no column 'other'"):
            bulk.Parquet(path, {"id": "id", "other": "v"})


def test_bad_rows_are_named_by_their_place_in_the_source(
    tmp_path: Path, collection: Collection
) -> None:
    given = rows()
    given["note"][12_345] = "n" * 21
    with pytest.raises(errors.InputError, match="field `note`, row 12345: .* 21 bytes") as caught:
        collection.bulk_load(given, name="a", batch_bytes=SMALL)
    assert (caught.value.field, caught.value.row) == ("note", 12_345)
    given["note"][12_345] = 7
    with pytest.raises(errors.InputError, match="`note`, row 12345 of the source: .*int") as caught:
        collection.bulk_load(given, name="a", batch_bytes=SMALL)
    assert (caught.value.field, caught.value.row) == ("note", 12_345)
    assert 0 < collection.count() <= 12_345
    given["note"][12_345] = "mended"
    collection.bulk_load(given, name="a")
    check(collection, given)


def test_what_does_not_go_together_is_refused(collection: Collection) -> None:
    given = rows(1000)
    with pytest.raises(errors.InputError, match="different lengths"):
        collection.bulk_load(given | {"id": [1]})
    with pytest.raises(errors.InputError, match="no such field"):
        collection.bulk_load(given | {"other": given["id"]})
    with pytest.raises(errors.InputError, match="`v` is missing"):
        collection.bulk_load({"id": given["id"]})
    with pytest.raises(errors.InputError, match="int is no source"):
        collection.bulk_load(5)
    with pytest.raises(errors.InputError, match="another source"):
        collection.bulk_load(given, name="one")
        collection.bulk_load(rows(900), name="one")
    with pytest.raises(errors.NotFoundError, match="nowhere"):
        collection.bulk_load(given, partition="nowhere", name="two")


def test_a_source_of_ones_own_and_its_errors(collection: Collection) -> None:
    given = rows(3000)

    class Flaky:
        rows = None
        identity = 77
        fails = True

        def seek(self, row: int) -> None:
            self.at = row

        def next(self, most: int) -> Any:
            if self.fails and self.at > 1000:
                raise ConnectionError("the other side is gone")
            some = slice(self.at, self.at + min(most, 700))
            self.at = min(some.stop, 3000)
            batch = [dict(zip(given, row)) for row in zip(*(c[some] for c in given.values()))]
            return batch or None

    source = Flaky()
    with pytest.raises(ConnectionError, match="the other side is gone"):
        collection.bulk_load(source)
    assert collection.count() == 1400
    source.fails = False
    report = collection.bulk_load(source)
    assert (report.rows, report.resumed_at) == (3000, 1400)
    check(collection, given)


def test_a_database_is_not_closed_by_what_it_calls(tmp_path: Path) -> None:
    database = Database.open(tmp_path)
    c = database.create_collection("c", FIELDS)
    with pytest.raises(errors.InputError, match="by what it is calling"):
        c.bulk_load(rows(100), progress=lambda _: database.close())
    database.close()


CHILD = """
    import sys, time
    from pipeann import Database, bulk
    directory, file = sys.argv[1:]
    def told(progress):
        print(progress.rows, flush=True)
        # It does not end before it is killed.
        if progress.rows > 50_000:
            time.sleep(600)
    with Database.open(directory, level="none") as database:
        c = database.collection("c")
        print("ready", flush=True)
        c.bulk_load(bulk.vectors(file, "v", key="id"), batch_bytes=64 << 10,
                    progress=told)
"""


def test_a_killed_load_goes_on_with_the_right_row(tmp_path: Path) -> None:
    given = rows(60_000)
    np.save(tmp_path / "v.npy", given["v"])
    with Database.open(tmp_path / "db") as database:
        database.create_collection("c", FIELDS)
    killed_at = []
    for round in range(5):
        command = [sys.executable, "-c", textwrap.dedent(CHILD)]
        command += [str(tmp_path / "db"), str(tmp_path / "v.npy")]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        told = 0
        for line in child.stdout:
            told = 0 if line == "ready\n" else int(line)
            if told > (round + 1) * 8000:
                break
        time.sleep(0.003 * round)
        child.kill()
        child.wait()
        child.stdout.close()
        with Database.open(tmp_path / "db") as database:
            c = database.collection("c")
            (_, loaded, finished), count = c.loads()[0], c.count()
        assert told <= loaded == count and not finished
        killed_at.append(loaded)
    assert killed_at == sorted(killed_at) and killed_at[-1] < 60_000
    with Database.open(tmp_path / "db") as database:
        c = database.collection("c")
        report = c.bulk_load(bulk.vectors(tmp_path / "v.npy", "v", key="id"))
        assert (report.rows, report.resumed_at) == (60_000, killed_at[-1])
        check(c, {"id": given["id"], "v": given["v"]})
        assert c.verify() == []
