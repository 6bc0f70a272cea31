"""Errors of pipeann's database.

All are subclasses of `Error`. Each says what helps in `action`: "fix" the input, "retry" later, or
"stop" and look after the machine or the files. `kind` is a short name for programs.
"""

from typing import ClassVar, Literal

__all__ = [
    "ClosedError",
    "Error",
    "ExistsError",
    "ForkedError",
    "InputError",
    "InterruptedLoadError",
    "LockedError",
    "MemoryLimitError",
    "NotFoundError",
    "NotLoadedError",
    "RetryError",
    "StopError",
]


class Error(Exception):
    """Base of all errors of the database.

    Attributes
    ----------
    action: "fix" the input, "retry" later, or "stop".
    field: name of the field it is about, or None.
    row: position of the row in the batch or in the source of a load, from 0, or None.
    """

    action: ClassVar[Literal["fix", "retry", "stop"]] = "stop"
    kind: ClassVar[str] = "error"
    field: str | None = None
    row: int | None = None


class InputError(Error, ValueError):
    """What was asked for cannot be done; nothing was changed."""

    action = "fix"
    kind = "input"


class NotFoundError(InputError):
    """No database, collection, partition, alias, index or field of this name."""

    kind = "not_found"


class ExistsError(InputError):
    """The name is taken by something else."""

    kind = "exists"


class NotLoadedError(InputError):
    """A search of a collection or partition that is not loaded."""

    kind = "not_loaded"


class ClosedError(InputError):
    """The database was closed, or the collection dropped."""

    kind = "closed"


class ForkedError(InputError):
    """The process was forked after the database was opened: the child has to open it itself, after
    the parent has closed it."""

    kind = "forked"


class MemoryLimitError(InputError, MemoryError):
    """The memory limit is too low; the message names the number needed."""

    kind = "memory"


class RetryError(Error):
    """May work later, or after something else has ended."""

    action = "retry"
    kind = "retry"


class LockedError(RetryError):
    """Another process has the database open; the message says which."""

    kind = "locked"


class InterruptedLoadError(RetryError):
    """A load was ended by the caller. Begun again with the same source it goes on."""

    kind = "interrupted"


class StopError(Error, OSError):
    """The disk fails, is full, or a file is damaged; nothing acknowledged is lost. The message
    names the file and what helps."""

    kind = "stop"
