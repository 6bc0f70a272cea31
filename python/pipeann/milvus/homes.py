"""Directories that clients have open.

A process has a directory open once, whoever asks for it; the last client to go closes it. What is
not served natively goes through a socket in a directory that only this user can enter, which is
made when it is first needed.
"""

import atexit
import os
import shlex
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

from pipeann._native import Database, MilvusDoor
from pipeann.errors import InputError

_SOCKET = "milvus.sock"
# Begins the names of collections that take the place of others, and the property that tells which.
UNDER_WAY = "_pipeann_"
INSTEAD_OF = "pipeann.instead_of"
# A socket's path has to fit 107 bytes.
_LONGEST_FOLDER = 90

# How each file of SQLite begins, and with it those of Milvus Lite 2.
_SQLITE = b"SQLite format 3\0"
# What Milvus Lite 3 keeps in its directories beside a lock, and we in ours.
_LITE_DIRECTORY, _OUR_FILE = "collections", "CATALOG"

_open: dict[str, "Home"] = {}
_lock = threading.RLock()


class Home:
    """An open directory and the service in front of it."""

    def __init__(self, path: str, options: dict[str, Any]) -> None:
        self.database = Database.open(path, build_on_read=True, **options)
        self.door = MilvusDoor(self.database)
        # Held while a collection gets its first rows, which may decide on the type of its key.
        self.first_rows = threading.RLock()
        self._path = path
        self._options = options
        self._process = os.getpid()
        self._clients = 0
        self._folder: str | None = None
        self._finish_switches()

    def _finish_switches(self) -> None:
        """Ends what a killed process began: a collection that takes the place of another one has its
        name, or is gone where the other one is still there."""
        for place in self.database.databases():
            for name in self.database.collections(database=place):
                if not name.startswith(UNDER_WAY):
                    continue
                found = self.database.collection(name, database=place)
                meant = found.describe()["properties"].get(INSTEAD_OF)
                if meant is None:
                    continue
                if self.database.has_collection(meant, database=place):
                    self.database.drop_collection(name, database=place)
                else:
                    self.database.rename_collection(name, meant, database=place)

    def address(self) -> str:
        """Where the service listens, for clients that know nothing but gRPC."""
        with _lock:
            if self._folder is None:
                long = len(os.fsencode(tempfile.gettempdir())) > _LONGEST_FOLDER
                folder = tempfile.mkdtemp(prefix="pipeann-", dir="/tmp" if long else None)
                self.door.listen(Path(folder, _SOCKET))
                self._folder = folder
            return f"unix:{self._folder}/{_SOCKET}"

    def release(self) -> None:
        """One client less; the last one closes the directory."""
        if self._process != os.getpid():
            return
        with _lock:
            self._clients -= 1
            if self._clients > 0:
                return
            _open.pop(self._path, None)
            self.door.stop()
            self.database.close()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)


def _check_place(path: str) -> None:
    """Refuses what Milvus Lite has left there, by name.

    Raises:
        InputError: A file or a directory of Milvus Lite, or a file of something else.
    """
    if os.path.isdir(path):
        ours = os.path.exists(os.path.join(path, _OUR_FILE))
        if not ours and os.path.isdir(os.path.join(path, _LITE_DIRECTORY)):
            raise InputError(
                f"{path} is a directory of Milvus Lite 3, which is not read here; another path "
                "makes a new database"
            )
    elif os.path.isfile(path):
        with open(path, "rb") as file:
            begin = file.read(len(_SQLITE))
        if begin != _SQLITE:
            raise InputError(f"{path} is a file; a database is a directory")
        root, ending = os.path.splitext(path)
        other = root if ending else f"{path}-pipeann"
        raise InputError(
            f"{path} is a file of Milvus Lite; `pipeann db import-milvus-lite {shlex.quote(path)} "
            f"--data-dir {shlex.quote(other)}` takes its collections over, and {other} is the "
            "path to be opened then"
        )


def acquire(path: str | os.PathLike[str], options: dict[str, Any]) -> Home:
    """The home in this directory, with one client more.

    Raises:
        InputError: It is open with other options, or is of Milvus Lite.
        pipeann.errors.Error: It cannot be opened.
    """
    real = os.path.realpath(os.fspath(path))
    with _lock:
        home = _open.get(real)
        if home is None:
            _check_place(real)
            home = _open[real] = Home(real, options)
        elif options and options != home._options:
            raise InputError(f"{real} is open in this process already, with other options")
        home._clients += 1
        return home


def _forget() -> None:
    """A forked child has nothing open; what its parent has open stays the parent's."""
    global _lock
    _lock = threading.RLock()
    _open.clear()


os.register_at_fork(after_in_child=_forget)


@atexit.register
def _close_all() -> None:
    for home in list(_open.values()):
        home._clients = 1
        home.release()
