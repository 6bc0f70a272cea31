"""The log of a cluster whose store is a directory, read beside its servers: which objects there were, who put
them, what was cut. `docs/store-format.md` has the bytes."""

from __future__ import annotations

import itertools
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from clusters import Cluster, Server

# Magic, version, kind, cluster, shard, number, term, token, version of the catalogue, timestamp, checksum of
# the object before, opening, records, zero, length of the leader's name.
HEAD = struct.Struct("<8sII16sQQQ16sQQQQIHH")
OPENING = 1
# So much log makes a generation due where a test wants the log to be cut soon: some sixty changes of a row.
SOON = "8KiB"


@dataclass(frozen=True)
class LogObject:
    """One object of the log."""

    number: int
    opens: bool
    term: int
    leader: str
    # Checksums: of the object before, and its own.
    before: int
    checksum: int

    @classmethod
    def parsed(cls, data: bytes) -> LogObject:
        """Of the bytes of an object."""
        fields = HEAD.unpack_from(data)
        assert fields[0] == b"pastolog", "it is no object of a log"
        leader = data[HEAD.size : HEAD.size + fields[-1]].decode()
        checksum = int.from_bytes(data[-8:], "little")
        return cls(fields[5], fields[2] == OPENING, fields[6], leader, fields[10], checksum)


class StoredLog:
    """The log in a directory, and what else the store has of the same shard."""

    def __init__(self, store: Path) -> None:
        self.objects = store / "log" / "0"
        self.cuts, self.manifests = store / "cut" / "0", store / "manifest" / "0"
        self.files = store / "file"

    @classmethod
    def of(cls, cluster: Cluster) -> StoredLog:
        """That of a cluster."""
        return cls(Path(cluster.store.removeprefix("file://")))

    def numbers(self) -> list[int]:
        """Of the objects that are there, ascending."""
        # What is being put has another name until it is whole.
        return sorted(int(name) for name in names(self.objects) if name.isdigit())

    def get(self, number: int) -> LogObject | None:
        """An object, unless it is not there."""
        with suppress(FileNotFoundError):
            return LogObject.parsed((self.objects / f"{number:020}").read_bytes())
        return None

    def newest(self) -> LogObject:
        """The last one, which is never cut."""
        found = self.get(self.numbers()[-1])
        assert found is not None
        return found

    def begin(self) -> int:
        """The number that the log begins with; above 1 where it was cut."""
        return max((int(name) for name in names(self.cuts) if name.isdigit()), default=1)

    def generations(self) -> set[str]:
        """Names of those that are published."""
        return {name for name in names(self.manifests) if name.replace("-", "").isdigit()}


def names(folder: Path) -> set[str]:
    """Of what is in a folder, which may not be there yet."""
    with suppress(FileNotFoundError):
        return {each.name for each in folder.iterdir()}
    return set()


def cut_soon(cluster: Cluster, *flags: str, after: str = SOON) -> Cluster:
    """Has the servers publish generations after so much of the log, and cut it."""
    for server in cluster.servers:
        server.flags += ["--generation-after", after, *flags]
    return cluster


def leader(cluster: Cluster) -> Server:
    """Who put the newest object of the log, which names it."""
    address = StoredLog.of(cluster).newest().leader
    return next(server for server in cluster.servers if server.address == address)


class LogWatch(threading.Thread):
    """Reads each object as it comes, before it can be cut: that takes two generations, so a second at least."""

    def __init__(self, log: StoredLog) -> None:
        super().__init__(daemon=True)
        self.log = log
        self.seen: dict[int, LogObject] = {}
        # Cuts, and objects that were cut before they were read.
        self.cuts = self.unseen = 0
        self._next, self._begin = 1, 1
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(0.05):
            self._look()

    def _look(self) -> None:
        # First where it begins: what is missing from there on is yet to come.
        begin = self.log.begin()
        self.cuts += begin > self._begin
        self._begin = begin
        while True:
            while (found := self.log.get(self._next)) is not None:
                self.seen[self._next] = found
                self._next += 1
            if self._next >= begin:
                return
            self.unseen += 1
            self._next += 1

    def end(self) -> dict[str, int]:
        """Looks a last time, and tells what is wrong with what was read."""
        self._stopped.set()
        self.join()
        there = [self.log.get(number) for number in self.log.numbers()]
        self._look()
        found = sorted(self.seen.values(), key=lambda each: each.number)
        terms = [each.term for each in found]
        newest_before = itertools.accumulate(terms, max)
        pairs = [(a, b) for a, b in itertools.pairwise(found) if a.number + 1 == b.number]
        # Below a cut nobody reads, and whoever was stopped before it may still put what is void there.
        begin = self.log.begin()
        other = [each for each in there if each and self.seen.get(each.number) != each]
        return {
            "objects": len(found),
            "terms": len(set(terms)),
            "old_records": sum(t < most for t, most in zip(terms, newest_before, strict=True)),
            "broken_chain": sum(b.before != a.checksum for a, b in pairs),
            "replaced": sum(each.number >= begin for each in other),
            "void": sum(each.number < begin for each in other),
            "unseen": self.unseen,
            "cuts": self.cuts,
            "generations": len(self.log.generations()),
        }
