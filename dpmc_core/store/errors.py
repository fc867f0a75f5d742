"""What SQLite and the file system say, as sentences."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpmc_core.errors import DpmcError


class StoreError(DpmcError):
    """The result store cannot be used; what was stored before is still there."""


class StoreLocked(StoreError):
    """Another program holds the store; trying again later may help."""


_READ_ONLY = "cannot be written: the file or its folder is read-only; choose another with --store"
_FULL = (
    "is on a full disk: free some space and run the same command again; every row stored before is"
    " kept"
)


@contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite and of the file system inside the block into StoreError."""
    try:
        yield
    except sqlite3.Error as error:
        raise _from_sqlite(path, error) from None
    except OSError as error:
        raise _from_system(path, error) from None


def _from_sqlite(path: Path, error: sqlite3.Error) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte; the rest are details
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreLocked(f"the result store {path} is locked by another program")
    words = {
        sqlite3.SQLITE_READONLY: _READ_ONLY,
        sqlite3.SQLITE_CANTOPEN: _READ_ONLY,
        sqlite3.SQLITE_FULL: _FULL,
        sqlite3.SQLITE_NOTADB: "is not a result store: choose another file with --store",
        sqlite3.SQLITE_CORRUPT: "is damaged: move it away, or choose another file with --store",
        sqlite3.SQLITE_IOERR: f"cannot be read or written ({error}): is its disk full or gone?",
    }
    return StoreError(f"the result store {path} {words.get(code, f'cannot be used: {error}')}")


def _from_system(path: Path, error: OSError) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(f"the result store {path} {_FULL}")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StoreError(f"the result store {path} {_READ_ONLY}")
    return StoreError(f"the result store {path} cannot be used: {error.strerror or error}")
