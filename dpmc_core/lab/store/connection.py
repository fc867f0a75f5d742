"""Opening a result store, adding rows to it and taking rows out; what can go wrong, in words."""

from __future__ import annotations

import errno
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpmc_core import paths
from dpmc_core.errors import DpmcError
from dpmc_core.lab.locks import Claims
from dpmc_core.lab.store import rows
from dpmc_core.lab.store.rows import Record, to_tables

WAIT = 10.0  # seconds to wait for another program's lock
_MAGIC = b"SQLite format 3\0"  # how every such file begins
MEMORY = Path(":memory:")  # for rows that are kept elsewhere
_BATCH = 500  # keys asked for in one query


class StoreError(DpmcError):
    """The result store cannot be used; what was stored before is still there."""


class StoreLocked(StoreError):
    """Another program holds the store; trying again later may help."""


class StoreMissing(StoreError):
    """There is no store yet, or another program is about to make its tables."""


_READ_ONLY = "cannot be written: the file or its folder is read-only; choose another with --store"
_DAMAGED = "is damaged{}: move it away, or choose another file with --store"
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
    if code == sqlite3.SQLITE_ERROR:  # a table or column is not there
        return damaged(path, error)
    words = {
        sqlite3.SQLITE_READONLY: _READ_ONLY,
        sqlite3.SQLITE_CANTOPEN: _READ_ONLY,
        sqlite3.SQLITE_FULL: _FULL,
        sqlite3.SQLITE_NOTADB: "is not a result store: choose another file with --store",
        sqlite3.SQLITE_CORRUPT: _DAMAGED.format(""),
        sqlite3.SQLITE_IOERR: f"cannot be read or written ({error}): is its disk full or gone?",
    }
    return StoreError(f"the result store {path} {words.get(code, f'cannot be used: {error}')}")


def _from_system(path: Path, error: OSError) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(f"the result store {path} {_FULL}")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StoreError(f"the result store {path} {_READ_ONLY}")
    return StoreError(f"the result store {path} cannot be used: {error.strerror or error}")


def damaged(path: Path, what: object) -> StoreError:
    """The error for a store with something in it that this program never wrote."""
    return StoreError(f"the result store {path} {_DAMAGED.format(f' ({what})')}")


def default_path() -> Path:
    """The shared store of this machine's user."""
    return paths.home() / "results.sqlite"


class Store:
    """An open result store; close it, or use it in a `with` block. For one thread.

    Every committed row survives the death of this or any other process. Raises StoreError, whose
    sentence says what is wrong with the file, and StoreLocked where waiting may help.
    """

    def __init__(self, path: str | Path | None = None, *, read_only: bool = False) -> None:
        """Open the file, made where it is missing (not when read_only); ":memory:" is no file."""
        self.path = default_path() if path is None else Path(path).expanduser()
        with sentences(self.path):
            self.connection = _connect(self.path, read_only)
            try:
                self._prepare_patiently(read_only)
            except BaseException:
                self.connection.close()
                raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with sentences(self.path):
            self.connection.close()

    def present(self, keys: Iterable[str]) -> set[str]:
        """Which of the unit keys have a row."""
        wanted, found = list(keys), set()
        with sentences(self.path):
            for start in range(0, len(wanted), _BATCH):
                some = wanted[start : start + _BATCH]
                marks = ", ".join("?" * len(some))
                query = f"SELECT key FROM result WHERE key IN ({marks})"
                found |= {row["key"] for row in self.connection.execute(query, some)}
        return found

    def stamp(self) -> int:
        """A number that changes whenever another connection has written."""
        with sentences(self.path):
            return self._pragma("data_version")

    def units(self) -> set[str]:
        """The unit keys of all rows."""
        with sentences(self.path):
            return {row["key"] for row in self.connection.execute("SELECT key FROM result")}

    def add(self, records: Iterable[Record]) -> int:
        """Write finished units, all or none; a unit that is there already stays as it is.

        Returns how many were new.
        """
        found = list(records)
        split = [to_tables(record) for record in found]
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with sentences(self.path), self._transaction():
            added = 0
            for curve, card, result in split:
                result["curve"] = self._id("curve", curve, "key")
                result["card"] = self._id("card", {"text": card}, "text")
                result["finished"] = now
                added += self._insert("result", result, "key")
            for record in found:
                if "lists" in record:
                    shown = {"key": record["key"], "lists": json.dumps(record["lists"])}
                    self._insert("shown", shown, "key")
        return added

    @contextmanager
    def claims(self) -> Iterator[Claims]:
        """For keys of units that are being computed, so that no other process computes them too."""
        beside = None if self.path == MEMORY else self.path.with_name(f"{self.path.name}-claims")
        with sentences(self.path):
            claims = Claims(beside, 0 if beside is None else self.path.stat().st_mode & 0o777)
        try:
            yield claims
        finally:
            claims.close()

    def prune(self, curves: Sequence[int], before: str | None = None, *, dry: bool = False) -> int:
        """Delete the rows of some curves (those finished before an ISO time, where given).

        Returns how many rows went, or would with `dry`. The file shrinks by what they took.
        """
        with sentences(self.path):
            with self._transaction():
                gone = 0
                values: tuple[int | str, ...]
                for id in curves:
                    where, values = "curve = ?", (id,)
                    if before is not None:
                        where, values = "curve = ? AND finished < ?", (id, before)
                    if dry:
                        query = f"SELECT COUNT(*) FROM result WHERE {where}"
                        gone += self.connection.execute(query, values).fetchone()[0]
                    else:
                        query = f"DELETE FROM result WHERE {where}"
                        gone += self.connection.execute(query, values).rowcount
                if not dry:
                    for table in ("curve", "card"):
                        self.connection.execute(
                            f"DELETE FROM {table} WHERE id NOT IN (SELECT {table} FROM result)"
                        )
                    left = "SELECT key FROM result"
                    self.connection.execute(f"DELETE FROM shown WHERE key NOT IN ({left})")
            if gone and not dry:
                self.connection.execute("VACUUM")
        return gone

    def _insert(self, table: str, columns: Mapping[str, Any], unique: str) -> int:
        """Returns how many rows are new: none where one has the same value in a unique column."""
        names = ", ".join(f'"{name}"' for name in columns)
        query = (
            f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"
            f" ON CONFLICT ({unique}) DO NOTHING"
        )
        return self.connection.execute(query, list(columns.values())).rowcount

    def _id(self, table: str, columns: Mapping[str, Any], unique: str) -> int:
        self._insert(table, columns, unique)
        query = f"SELECT id FROM {table} WHERE {unique} = ?"
        return int(self.connection.execute(query, [columns[unique]]).fetchone()["id"])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:  # a full disk has rolled it back already
                self.connection.execute("ROLLBACK")
            raise

    def _prepare_patiently(self, read_only: bool) -> None:
        """SQLite does not wait where several programs make the same new file at once: we do."""
        end = time.monotonic() + WAIT
        while True:
            try:
                return self._prepare(read_only)
            except sqlite3.OperationalError as error:
                locked = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not locked or time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def _prepare(self, read_only: bool) -> None:
        """Check that the file is a store of a version we know; make the tables of a new one."""
        if not read_only and not self._has_tables():
            self.connection.execute("PRAGMA journal_mode = WAL")
            with self._transaction():
                if not self._has_tables():  # nobody was quicker
                    rows.create_tables(self.connection)
        elif not self._has_tables():  # about to be made by another program, or never begun
            raise _missing(self.path)
        version, application = self._pragma("user_version"), self._pragma("application_id")
        if application != rows.APPLICATION:
            raise StoreError(f"{self.path} is not a result store: choose another file with --store")
        if version > rows.VERSION:
            raise StoreError(
                f"the result store {self.path} is from a newer version of this program (its format"
                f" is {version}, this one knows {rows.VERSION}): update dpmc-lab, or choose"
                " another file with --store"
            )
        if (lost := rows.lacking(self.connection)) is not None:
            raise damaged(self.path, f"no {lost}")
        if not read_only:
            self.connection.execute(rows.LISTS)

    def _pragma(self, name: str) -> int:
        return int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _has_tables(self) -> bool:
        return bool(self.connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()[0])


def _connect(path: Path, read_only: bool) -> sqlite3.Connection:
    if path == MEMORY:
        return _open(":memory:")
    _check_kind(path)
    if read_only:
        if not path.is_file():
            raise _missing(path)
        connection = _open(_uri(path, "mode=ro"))
        try:
            connection.execute("SELECT COUNT(*) FROM sqlite_schema")
        except sqlite3.OperationalError as error:
            connection.close()
            beside = path.with_name(path.name + "-wal")
            unreadable = sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY
            if error.sqlite_errorcode & 0xFF not in unreadable:
                raise
            if beside.exists():
                raise StoreError(
                    f"the result store {path} cannot be read: rows that a killed program left in"
                    f" {beside.name} have to be put into it, and its folder is read-only: copy both"
                    " files to a folder that can be written"
                ) from None
            # A folder nobody can write to cannot change under us, and needs no lock.
            connection = _open(_uri(path, "immutable=1"))
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = _open(_uri(path, "mode=rwc"))
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")  # a row is on the disk before the next
        connection.execute("PRAGMA wal_autocheckpoint = 250")  # pages: the log stays under 1 MB
    except BaseException:
        connection.close()
        raise
    return connection


def _missing(path: Path) -> StoreMissing:
    return StoreMissing(f"there is no result store at {path} yet: 'dpmc sweep' makes one")


def _check_kind(path: Path) -> None:
    """Raise StoreError for another kind of file; SQLite takes a short one for an empty database."""
    if path.is_dir():
        raise StoreError(f"{path} is a folder: give the result store a file name")
    if path.exists():
        head = b"none"  # of a pipe, which nobody may ever write to, or a device
        if path.is_file():
            with path.open("rb") as file:
                head = file.read(len(_MAGIC))
        if head and head != _MAGIC:
            raise StoreError(f"{path} is not a result store: choose another file with --store")


def _uri(path: Path, how: str) -> str:
    return f"{path.absolute().as_uri()}?{how}"


def _open(where: str) -> sqlite3.Connection:
    connection = sqlite3.connect(where, uri=True, timeout=WAIT, isolation_level=None)
    connection.row_factory = sqlite3.Row
    return connection
