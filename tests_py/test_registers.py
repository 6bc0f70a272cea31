"""What tests and jobs of servers look at histories and logs with, on made-up ones."""

import math
import struct
from pathlib import Path

import pytest

pytest.importorskip("pymilvus")

from logs import HEAD, LogObject, LogWatch, StoredLog
from registers import History, Operation, is_linearizable


def write(value: int | None, begin: float, end: float = math.inf) -> Operation:
    return Operation(False, value, begin, end)


def read(value: int | None, begin: float, end: float) -> Operation:
    return Operation(True, value, begin, end)


@pytest.mark.parametrize(
    ("operations", "is_one"),
    [
        ([], True),
        ([write(1, 1, 2), read(1, 3, 4)], True),
        # Stale; at once; from the future.
        ([write(1, 1, 2), read(None, 3, 4)], False),
        ([write(1, 1, 4), read(None, 2, 3)], True),
        ([read(1, 1, 2), write(1, 3, 4)], False),
        # Seen, and then not seen.
        ([write(1, 1, 8), read(1, 2, 3), read(None, 4, 5)], False),
        # Answers that were lost: made late, or never, and not before they were asked for.
        ([write(1, 1), read(None, 2, 3), read(1, 4, 5)], True),
        ([write(1, 1), write(2, 2, 3), read(2, 4, 5)], True),
        ([write(1, 4), read(1, 2, 3)], False),
        # Deleted; made again.
        ([write(1, 1, 2), write(None, 3, 4), read(1, 5, 6)], False),
        ([write(1, 1), write(2, 2, 3), read(1, 4, 5), read(2, 6, 7)], False),
        # Two writes at once are in either order, and in one of them.
        ([write(1, 1, 4), write(2, 2, 3), read(1, 5, 6), read(1, 7, 8)], True),
        ([write(1, 1, 4), write(2, 2, 3), read(1, 5, 6), read(2, 7, 8)], False),
    ],
)
def test_registers_are_told_from_others(operations: list[Operation], is_one: bool) -> None:
    assert is_linearizable(operations) is is_one
    assert is_linearizable(operations[::-1]) is is_one


def test_long_histories_with_lost_answers_are_looked_at_soon() -> None:
    lost = [write(-1 - n, n + 0.5) for n in range(12)] + [write(None, n + 0.7) for n in range(3)]
    known = [it for n in range(0, 400, 2) for it in (write(n, n, n + 1.2), read(n, n + 1.3, n + 1.4))]
    known.append(read(None, 450, 451))
    assert is_linearizable(lost + known)
    assert not is_linearizable([*lost, *known, read(2, 500, 501)])


def test_histories_that_are_none_of_registers_are_told() -> None:
    history = History()
    for key, seen in [(0, 1), (1, None)]:
        history.note(key, write(1, 1, 2))
        history.note(key, read(seen, 3, 4))
    told = history.told()
    assert (told["registers"], told["operations"], told["not_linearizable"]) == (2, 4, 1)
    assert "value=None" in str(told["histories"])


class Log:
    """A log that a test puts."""

    def __init__(self, store: Path) -> None:
        self.read = StoredLog(store)
        for folder in (self.read.objects, self.read.cuts):
            folder.mkdir(parents=True)
        self.checksum = 0

    def put(self, number: int, term: int, before: int | None = None) -> None:
        before = self.checksum if before is None else before
        self.checksum = 1000 * term + number
        fields = (b"pastolog", 1, 2, bytes(16), 0, number, term, bytes(16), 0, 0)
        head = HEAD.pack(*fields, before, 1, 0, 0, len(b"a:1"))
        data = head + b"a:1" + struct.pack("<Q", self.checksum)
        (self.read.objects / f"{number:020}").write_bytes(data)

    def cut(self, begin: int) -> None:
        (self.read.cuts / f"{begin:020}").touch()
        for number in range(1, begin):
            (self.read.objects / f"{number:020}").unlink(missing_ok=True)


def watched(log: Log) -> LogWatch:
    """One that looks when a test wants it to."""
    watch = LogWatch(log.read)
    watch.start()
    return watch


def test_a_log_that_is_cut_while_it_is_read_is_whole(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.put(1, 1)
    assert log.read.newest() == LogObject(1, False, 1, "a:1", 0, 1001)
    watch = watched(log)
    for number in range(2, 9):
        log.put(number, 1 + number // 5)
    while 8 not in watch.seen:
        watch.join(0.01)
    log.cut(4)
    told = watch.end()
    assert (told["objects"], told["terms"], told["cuts"], log.read.begin()) == (8, 2, 1, 4)
    wrong = ("old_records", "broken_chain", "replaced", "void", "unseen")
    assert [told[kind] for kind in wrong] == [0] * 5


def test_what_is_wrong_with_a_log_is_told(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for number, term in [(1, 1), (2, 2), (3, 1), (4, 2)]:
        log.put(number, term)
    log.put(5, 2, before=7)
    watch = watched(log)
    while 5 not in watch.seen:
        watch.join(0.01)
    log.cut(3)
    # Of who was stopped before the cut, and of who replaces what is there.
    log.put(2, 1)
    log.put(4, 3)
    log.cut(0)
    told = watch.end()
    assert (told["old_records"], told["broken_chain"]) == (1, 1)
    assert (told["void"], told["replaced"], told["unseen"]) == (1, 1, 0)


def test_objects_that_were_cut_before_they_were_read_are_counted(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for number in range(1, 6):
        log.put(number, 1)
    log.cut(4)
    told = watched(log).end()
    assert (told["unseen"], told["objects"], told["broken_chain"]) == (3, 2, 0)
