"""Store results durably: one SQLite file (WAL), with one row per finished unit of work.

A record is the `dpmc fit --json` object without its baselines, which are records of their own. It
has `key`, `version` and more about the data, and in `guarantee` the certified epsilon of every
unit. `write_file` exports records as CSV, flattened to dotted column names.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import itertools
import json
import re
import sqlite3
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

from dpmc_core import registry
from dpmc_core.arrays import JsonObject
from dpmc_core.errors import DpmcError, InvalidSetting, format_value, unknown_name_error
from dpmc_core.metrics import METRICS
from dpmc_core.model import Mechanism
from dpmc_core.privacy import Change, Guarantee
from dpmc_core.ratings import FEATURES_REVISION, PublicFacts
from dpmc_core.settings import parse_setting
from dpmc_data import paths
from dpmc_lab.locks import Claims

Record = Mapping[str, Any]

VERSION = 2  # raised with every change of the tables; files of version 1 have no checksums
APPLICATION = 0x44504D43  # "DPMC": marks an SQLite file as one of ours
WAIT = 10.0  # seconds to wait for another program's lock
MEMORY = Path(":memory:")  # for rows that are kept elsewhere
PUBLIC_COLUMNS = ("users", "items", "low", "high", "cap")
UNIT_COLUMNS = tuple(change.value for change in Change)
_MAGIC = b"SQLite format 3\0"  # how every such file begins

# --- the tables ----------------------------------------------------------------------------------

# A curve is what stays the same along epsilon and seed; a card is the wording of a guarantee. Both
# are kept once, so a million results stay small and a page reads only the curves it draws.
_TABLES = (
    """CREATE TABLE curve (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,          -- hash of the columns from `source` to `settings`
    source TEXT NOT NULL,              -- fingerprint of the whole data set
    prepare TEXT NOT NULL,             -- steps as command-line text, a JSON list
    split TEXT NOT NULL,               -- in words
    mechanism TEXT NOT NULL,
    revision INTEGER NOT NULL,
    settings TEXT NOT NULL,            -- without epsilon, a JSON object
    task TEXT NOT NULL,
    name TEXT NOT NULL,                -- of the data
    title TEXT NOT NULL,
    users INTEGER NOT NULL, items INTEGER NOT NULL,
    low REAL NOT NULL, high REAL NOT NULL, cap INTEGER,
    checksum INTEGER                   -- of all other columns of the row
)""",
    "CREATE INDEX curve_of_data ON curve (source, mechanism)",
    "CREATE TABLE card (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, checksum INTEGER)",
    f"""CREATE TABLE result (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,          -- content hash of the unit of work
    curve INTEGER NOT NULL REFERENCES curve (id),
    card INTEGER NOT NULL REFERENCES card (id),
    epsilon REAL,                      -- the setting; null for methods without one
    seed INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,         -- of the prepared training ratings
    ratings INTEGER NOT NULL, test_ratings INTEGER NOT NULL,
    claimed_epsilon REAL, claimed_delta REAL,
    certified_epsilon REAL, certified_delta REAL,  -- null: infinite, the card says why
    {", ".join(f"certified_{unit} REAL" for unit in UNIT_COLUMNS)},
    {", ".join(f'"{metric}" REAL' for metric in METRICS)},
    rounds INTEGER NOT NULL, stopped INTEGER NOT NULL, seconds REAL NOT NULL,
    version TEXT NOT NULL,             -- of the package that computed it
    finished TEXT NOT NULL,            -- UTC
    checksum INTEGER
)""",
    "CREATE INDEX result_of_curve ON result (curve, epsilon, seed)",
    # Each of these has all columns that a curve of one metric needs, so that no row is read.
    *(
        f'CREATE INDEX "result_{metric}" ON result (curve, epsilon, seed, "{metric}")'
        f' WHERE "{metric}" IS NOT NULL'
        for metric in METRICS
    ),
    # Recommendation lists of sampled users, as JSON (see toplists), by the key of a unit.
    "CREATE TABLE shown (key TEXT PRIMARY KEY, lists TEXT NOT NULL, checksum INTEGER)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
_TABLE_NAMES = ("curve", "card", "result", "shown")
_INTACT = "intact"  # the column of a query that says whether the stored row is as it was written
# Lists the columns and unique indices of a file; other indices only save time.
_SHAPE = """
    SELECT 'column ' || t.name || '.' || c.name FROM sqlite_schema t, pragma_table_info(t.name) c
    UNION ALL SELECT 'unique index ' || i.name FROM sqlite_schema t, pragma_index_list(t.name) i
    WHERE i."unique" """


class Field(NamedTuple):
    """A value of a record.

    Attributes:
        name: dotted name, which is also that of its column in an exported file.
        table, column: where it is stored; a card is one JSON text.
        kind: 'string', 'float64', 'int64' or 'bool_'; 'json' for what a column holds as JSON text.
    """

    name: str
    table: str
    column: str
    kind: str


def _list_fields(
    table: str, kind: str, names: str, prefix: str = "", column_prefix: str = ""
) -> list[Field]:
    """Return fields of one table and kind; the prefixes stand before each name and column."""
    return [Field(prefix + name, table, column_prefix + name, kind) for name in names.split()]


_WORDING = "unit neighbours notion trust publishes source reason caveats"
_UNITS = " ".join(UNIT_COLUMNS)
# In the order of an exported file. `settings` are all but epsilon, which is a column of its own.
FIELDS = (
    *_list_fields("result", "string", "key version finished"),
    *_list_fields("curve", "string", "mechanism"),
    *_list_fields("curve", "int64", "revision"),
    *_list_fields("curve", "string", "task"),
    *_list_fields("result", "int64", "seed"),
    *_list_fields("curve", "string", "name title source", "data."),
    *_list_fields("result", "string", "fingerprint", "data."),
    *_list_fields("curve", "int64", "users items", "data."),
    *_list_fields("result", "int64", "ratings test_ratings", "data."),
    *_list_fields("curve", "float64", "low high", "data."),
    *_list_fields("curve", "int64", "cap", "data."),
    *_list_fields("curve", "string", "split", "data."),
    *_list_fields("curve", "json", "prepare", "data."),
    *_list_fields("card", "json", "prepared", "data."),
    *_list_fields("curve", "json", "settings"),
    *_list_fields("card", "string", _WORDING, "guarantee."),
    *_list_fields("result", "float64", "epsilon delta", "guarantee.claimed.", "claimed_"),
    *_list_fields("result", "float64", "epsilon delta", "guarantee.certified.", "certified_"),
    *_list_fields("result", "float64", _UNITS, "guarantee.units.", "certified_"),
    *_list_fields("card", "string", _UNITS, "guarantee.reasons."),
    *_list_fields("result", "float64", " ".join(METRICS), "metrics."),
    *_list_fields("result", "int64", "rounds"),
    *_list_fields("result", "bool_", "stopped"),
    *_list_fields("result", "float64", "seconds"),
)
_RECORD_FIELDS = [(field.name.split("."), field) for field in FIELDS if field.table != "card"]
_TYPES = {"string": str, "float64": int | float, "int64": int, "bool_": int, "json": str}


@cache
def _list_required_schema() -> tuple[str, ...]:
    """Return the columns and unique indices that a store must have."""
    with closing(sqlite3.connect(":memory:")) as empty:
        for statement in _TABLES:
            empty.execute(statement)
        return tuple(name for (name,) in empty.execute(_SHAPE))


@cache
def _build_checksum(table: str) -> str:
    """Return SQL for the checksum of a row of a table."""
    prefix = f"column {table}."
    columns = (name.removeprefix(prefix) for name in _list_required_schema() if prefix in name)
    values = ", ".join(f'{table}."{column}"' for column in columns if column != "checksum")
    return f"checksum({values})"


def _compute_checksum(*values: Any) -> int:
    """Return the checksum of a row's values, which finds accidents and no forgery."""
    return zlib.crc32(json.dumps(values, default=str).encode())


# --- records -------------------------------------------------------------------------------------


def digest_values(*values: Any) -> str:
    """Return a content hash (32 hex digits) of plain JSON values."""
    text = json.dumps(values, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def drop_epsilon(settings: Mapping[str, Any]) -> JsonObject:
    """Return the settings without epsilon."""
    return {name: value for name, value in settings.items() if name != "epsilon"}


def restore_mechanism(id: str, settings: Mapping[str, Any]) -> Mechanism:
    """Create the mechanism with stored settings.

    Raises:
        DpmcError: the mechanism does not have these settings.
    """
    changed_settings = registry.find_changed_settings(id, drop_epsilon(settings))
    cls = registry.get_mechanism(id)
    values = {
        name: parse_setting(cls, name, str(value)) for name, value in changed_settings.items()
    }
    return registry.create(id, epsilon=settings.get("epsilon"), **values)


def unit_key(
    source: str,
    prepare: Sequence[str],
    split: str,
    mechanism: str,
    revision: int,
    settings: Mapping[str, Any],
    *seed: int,
) -> str:
    """Return the key of a unit of work, from everything that determines its result except times.

    Without a seed, and with settings `drop_epsilon`, it is the key of the curve that the row
    belongs to.

    Args:
        source: fingerprint of the data.
        prepare: preparation as command-line text.
        split: in words.
        mechanism: id of the mechanism.
        revision: of the mechanism.
        settings: of the mechanism.
        *seed: of the unit.
    """
    steps = list(prepare)
    if registry.has_features_step(steps):
        steps.append(f"revision {FEATURES_REVISION}")
    return digest_values(source, steps, split, mechanism, revision, settings, *seed)


def list_certified_units(guarantee: Guarantee) -> JsonObject:
    """Return what a guarantee certifies for every privacy unit, as plain JSON values.

    `units` has the certified epsilon by the unit's column name, null where it is infinite;
    `reasons` has the reason by the same names.
    """
    certified = {change.value: guarantee.certified(change) for change in Change}
    return {
        "units": {
            unit: bound.epsilon if bound.finite else None for unit, bound in certified.items()
        },
        "reasons": {unit: bound.reason for unit, bound in certified.items() if not bound.finite},
    }


def _record_to_rows(record: Record) -> tuple[JsonObject, str, JsonObject]:
    """Return a record's row of `curve`, the text of its card, and its row of `result`.

    Raises:
        DpmcError: the record has a metric without a column.
    """
    guarantee = record["guarantee"]
    data = record["data"]
    settings = record["settings"]
    if unknown_metrics := sorted(set(record["metrics"]) - set(METRICS)):
        raise DpmcError(f"the result store has no column for the metric {unknown_metrics[0]}")
    flat_record = dict(flatten_record(record))
    curve, result = (
        {field.column: flat_record.get(field.name) for field in FIELDS if field.table == table}
        for table in ("curve", "result")
    )
    curve_settings = drop_epsilon(settings)
    curve_columns = (
        data["source"],
        data["prepare"],
        data["split"],
        record["mechanism"],
        record["revision"],
    )
    curve |= {
        "key": unit_key(*curve_columns, curve_settings),
        "settings": json.dumps(curve_settings),
    }
    result |= {
        "epsilon": settings.get("epsilon"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    wording = {name: guarantee[name] for name in (*_WORDING.split(), "reasons")}
    return curve, json.dumps(wording | {"prepared": list(data["prepared"])}), result


def _row_to_record(row: Mapping[str, Any]) -> JsonObject:
    """Return the record of a joined row of the three tables; the inverse of `_record_to_rows`.

    A value that `_record_to_rows` never wrote raises ValueError, TypeError or another Python error.
    """
    record: JsonObject = {}
    for (*groups, name), field in _RECORD_FIELDS:
        target = record
        for group in groups:
            target = target.setdefault(group, {})
        target[name] = _decode_value(field, row[field.column])
    wording = json.loads(row["text"])
    guarantee = record["guarantee"]
    record["data"]["prepared"] = wording.pop("prepared")
    guarantee |= wording
    for kind in ("claimed", "certified"):
        if guarantee[kind]["epsilon"] is None:
            guarantee[kind] = None
    metrics = record["metrics"].items()
    record["metrics"] = {name: value for name, value in metrics if value is not None}
    if _decode_number(row["epsilon"]) is not None:
        record["settings"]["epsilon"] = row["epsilon"]
    return record


def _decode_value(field: Field, value: Any) -> Any:
    """Return a record's value from a column, in which SQLite may hold anything.

    Raises:
        ValueError: the value has another type.
    """
    if value is not None and not isinstance(value, _TYPES[field.kind]):
        raise ValueError(f"{field.name} is {format_value(value)}")
    if field.kind == "json":
        value = json.loads(str(value or ""))
        if not isinstance(value, dict if field.name == "settings" else list):
            raise ValueError(f"{field.name} is {format_value(value)}")
    return bool(value) if field.kind == "bool_" else value


def _decode_number(value: Any) -> Any:
    """Return a number or None from a column.

    Raises:
        ValueError: the column holds something else.
    """
    if not isinstance(value, int | float | None):
        raise ValueError(f"a number is {format_value(value)}")
    return value


def flatten_record(record: Record, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of every leaf; lists become JSON text."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from flatten_record(value, f"{prefix}{name}.")
        else:
            yield prefix + name, json.dumps(value) if isinstance(value, list | tuple) else value


# --- what can go wrong, in words -----------------------------------------------------------------


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
_OTHER = "cannot be used: {}"
_SQLITE_MESSAGES = {
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: _READ_ONLY,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_NOTADB: "is not a result store: choose another file with --store",
    sqlite3.SQLITE_CORRUPT: _DAMAGED.format(""),
    sqlite3.SQLITE_IOERR: "cannot be read or written ({}): is its disk full or gone?",
    sqlite3.SQLITE_ERROR: _DAMAGED.format(" ({})"),  # a table or column is missing
}
_SYSTEM_MESSAGES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _FULL),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), _READ_ONLY),
}


@contextmanager
def translate_store_errors(path: Path) -> Iterator[None]:
    """Turn errors inside the block into StoreError.

    These are errors of SQLite, of the file system, and of Python over values that this program
    never wrote.
    """

    def build_error(
        template: str, detail: object, kind: type[StoreError] = StoreError
    ) -> StoreError:
        """Return an error of this kind that names the store's file.

        Args:
            template: the message, with a place for the detail.
            detail: what went wrong in particular.
            kind: class of the error.
        """
        return kind(f"the result store {path} {template.format(detail)}")

    try:
        yield
    except sqlite3.Error as cause:
        code = _get_error_code(cause)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise build_error("is locked by another program", "", StoreLocked) from None
        raise build_error(_SQLITE_MESSAGES.get(code, _OTHER), cause) from None
    except OSError as cause:
        raise build_error(
            _SYSTEM_MESSAGES.get(cause.errno or 0, _OTHER), cause.strerror or cause
        ) from None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as cause:
        detail = cause if isinstance(cause, ValueError) else "a row that cannot be read"
        raise build_error(_DAMAGED.format(" ({})"), detail) from None


def _get_error_code(error: Exception) -> int:
    """Return SQLite's primary code of an error."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte; the rest are details


def _build_missing_error(path: Path) -> StoreMissing:
    """Build the error that says that there is no store yet."""
    return StoreMissing(f"there is no result store at {path} yet: 'dpmc sweep' makes one")


# --- the file ------------------------------------------------------------------------------------


def default_path() -> Path:
    """Return the path of the shared store of this machine's user."""
    return paths.find_home_folder() / "results.sqlite"


class Store:
    """An open result store, for one thread; close it, or use it in a `with` block.

    Every committed row survives the death of this or any other process. Methods raise StoreError,
    whose sentence says what is wrong with the file, and StoreLocked where waiting may help.
    """

    def __init__(self, path: str | Path | None = None, *, read_only: bool = False) -> None:
        """Open the file, creating it unless `read_only`; ":memory:" stands for no file."""
        self.path = default_path() if path is None else Path(path).expanduser()
        self._sealed = False  # whether rows have checksums; nothing damages rows in memory
        with translate_store_errors(self.path):
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
        """Close the connection."""
        with translate_store_errors(self.path):
            self.connection.close()

    def find_stored_keys(self, keys: Iterable[str]) -> set[str]:
        """Return which of the unit keys have a row."""
        return self._select_keys(
            "WHERE key IN (SELECT value FROM json_each(?))", json.dumps(list(keys))
        )

    def list_unit_keys(self) -> set[str]:
        """Return the unit keys of all rows."""
        return self._select_keys("")

    def _select_keys(self, condition: str, *values: str) -> set[str]:
        """Return the unit keys of the rows that meet a condition in SQL."""
        with translate_store_errors(self.path):
            rows = self.connection.execute(f"SELECT key FROM result {condition}", values)
            return {row["key"] for row in rows}

    def stamp(self) -> int:
        """Return a number that changes whenever another connection has written."""
        with translate_store_errors(self.path):
            return self._read_pragma("data_version")

    def add(self, records: Iterable[Record]) -> int:
        """Write finished units, all or none; a unit that is stored already stays as it is.

        Returns:
            The number of new rows.
        """
        entries = [(_record_to_rows(record), record.get("lists")) for record in records]
        added = 0
        with translate_store_errors(self.path), self._transaction():
            self._seal()
            for (curve, wording, result), lists in entries:
                result["curve"] = self._get_or_insert_id("curve", curve, "key")
                result["card"] = self._get_or_insert_id("card", {"text": wording}, "text")
                added += self._insert("result", result, "key")
                if lists is not None:
                    self._insert("shown", {"key": result["key"], "lists": json.dumps(lists)}, "key")
        return added

    @contextmanager
    def claims(self) -> Iterator[Claims]:
        """Open claims on the keys of running units, so that no other process computes them too."""
        lock_path = None if self.path == MEMORY else self.path.with_name(f"{self.path.name}-claims")
        with translate_store_errors(self.path):
            # Whoever may use the store may use its lock file.
            claims = Claims(lock_path, 0 if lock_path is None else self.path.stat().st_mode & 0o777)
        with closing(claims):
            yield claims

    def prune(self, curves: Sequence[int], *, dry: bool = False) -> int:
        """Delete the rows of some curves; the file shrinks accordingly.

        Returns:
            The number of rows deleted, or that would be deleted without `dry`.
        """
        condition = "curve IN (SELECT value FROM json_each(?))"
        values = [json.dumps(list(curves))]
        execute = self.connection.execute
        with translate_store_errors(self.path):
            with self._transaction():
                query = f"SELECT COUNT(*) FROM result WHERE {condition}"
                n_deleted = int(execute(query, values).fetchone()[0])
                if not dry:
                    self._seal()
                    execute(f"DELETE FROM result WHERE {condition}", values)
                    for table in ("curve", "card"):
                        execute(f"DELETE FROM {table} WHERE id NOT IN (SELECT {table} FROM result)")
                    execute("DELETE FROM shown WHERE key NOT IN (SELECT key FROM result)")
            if n_deleted and not dry:
                execute("VACUUM")
        return n_deleted

    def _insert(self, table: str, columns: Mapping[str, Any], unique: str) -> int:
        """Insert a row unless its unique value exists, and return the number of new rows.

        Args:
            table: the table.
            columns: values by column.
            unique: the column whose value is unique.
        """
        names = ", ".join(f'"{name}"' for name in columns)
        query = (
            f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"
            f" ON CONFLICT ({unique}) DO NOTHING"
        )
        added = self.connection.execute(query, list(columns.values())).rowcount
        if added and self._sealed:
            query = f"UPDATE {table} SET checksum = {_build_checksum(table)} WHERE {unique} = ?"
            self.connection.execute(query, [columns[unique]])
        return added

    def _get_or_insert_id(self, table: str, columns: Mapping[str, Any], unique: str) -> int:
        """Return the id of the row with this value in the column `unique`, inserted if missing."""
        self._insert(table, columns, unique)
        query = f"SELECT id FROM {table} WHERE {unique} = ?"
        return int(self.connection.execute(query, [columns[unique]]).fetchone()["id"])

    def _seal(self) -> None:
        """Give every row of an older store a checksum, within a transaction."""
        if self._read_pragma("user_version") < VERSION:
            for table in _TABLE_NAMES:
                self.connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")
                self.connection.execute(f"UPDATE {table} SET checksum = {_build_checksum(table)}")
            self.connection.execute(f"PRAGMA user_version = {VERSION}")
        self._sealed = self.path != MEMORY

    def build_check(self, *tables: str) -> str:
        """Return SQL for the last column of a query, by which damaged rows raise ValueError."""
        return (
            " AND ".join(f"{table}.checksum IS {_build_checksum(table)}" for table in tables)
            if self._sealed
            else "1"
        ) + f" AS {_INTACT}"

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit what the block writes, or roll it back if the block fails."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:  # a full disk has rolled it back already
                self.connection.execute("ROLLBACK")
            raise

    def _prepare_patiently(self, read_only: bool) -> None:
        """Prepare the file, waiting where other programs create the same file at once."""
        end = time.monotonic() + WAIT
        while True:
            try:
                return self._prepare(read_only)
            except sqlite3.OperationalError as error:
                if _get_error_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def _prepare(self, read_only: bool) -> None:
        """Check that the file is a store of a known version; create the tables of a new one."""
        execute = self.connection.execute
        execute("PRAGMA foreign_keys = ON")
        execute("PRAGMA synchronous = FULL")  # a committed row is on the disk
        execute("PRAGMA wal_autocheckpoint = 250")  # pages: the log stays under 1 MB
        if not read_only and not self._has_tables():
            execute("PRAGMA journal_mode = WAL")
            with self._transaction():
                if not self._has_tables():  # no other program made them meanwhile
                    for statement in _TABLES:
                        execute(statement)
        elif not self._has_tables():  # about to be made by another program, or never begun
            raise _build_missing_error(self.path)
        version = self._read_pragma("user_version")
        if self._read_pragma("application_id") != APPLICATION:
            raise StoreError(f"{self.path} is not a result store: choose another file with --store")
        if version > VERSION:
            raise StoreError(
                f"the result store {self.path} is from a newer version of this program (its format"
                f" is {version}, this one knows {VERSION}): update dpmc-lab, or choose another file"
                " with --store"
            )
        self._sealed = version == VERSION and self.path != MEMORY
        existing = {name for (name,) in execute(_SHAPE)}
        if version < VERSION:
            existing |= {f"column {table}.checksum" for table in _TABLE_NAMES}
        if missing := next(
            (name for name in _list_required_schema() if name not in existing), None
        ):
            if missing == "column shown.key":  # the last table that was added
                raise StoreError(
                    f"the result store {self.path} is from an older version of this program, which"
                    " can still export its rows: choose another file with --store"
                )
            raise ValueError(f"no {missing}")

    def _read_pragma(self, name: str) -> int:
        """Return the value of an integer setting of SQLite."""
        return int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _has_tables(self) -> bool:
        """Return whether the file has any tables."""
        return bool(self.connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()[0])


def _connect(path: Path, read_only: bool) -> sqlite3.Connection:
    """Connect to a store's file, which may also be empty or, unless `read_only`, missing.

    Raises:
        StoreError: the file is no store, is missing, or cannot be read.
    """
    if path == MEMORY:
        return _open_connection(":memory:")
    if path.is_dir():
        raise StoreError(f"{path} is a folder: give the result store a file name")
    # SQLite would take a file that is shorter than the header for an empty one.
    if path.exists() and _read_header(path) not in (b"", _MAGIC):
        raise StoreError(f"{path} is not a result store: choose another file with --store")
    uri = path.absolute().as_uri()
    if not read_only:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _open_connection(f"{uri}?mode=rwc")
    if not path.is_file():
        raise _build_missing_error(path)
    connection = _open_connection(f"{uri}?mode=ro")
    try:
        connection.execute("SELECT COUNT(*) FROM sqlite_schema")
        return connection
    except Exception as error:  # damage can also raise an error of Python's own
        connection.close()
        if _get_error_code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
    wal_path = path.with_name(path.name + "-wal")
    if wal_path.exists():
        raise StoreError(
            f"the result store {path} cannot be read: rows that a killed program left in"
            f" {wal_path.name} have to be put into it, and its folder is read-only: copy both files"
            " to a folder that can be written"
        )
    # In a folder that nobody can write to, the file cannot change and needs no lock.
    return _open_connection(f"{uri}?immutable=1")


def _read_header(path: Path) -> bytes:
    """Return the first bytes of a file; b"none" for what is no regular file."""
    if not path.is_file():
        return b"none"  # reading a pipe could wait forever
    with path.open("rb") as file:
        return file.read(len(_MAGIC))


def _open_connection(uri: str) -> sqlite3.Connection:
    """Open a connection without implicit transactions, whose rows have names."""
    connection = sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None)
    connection.create_function("checksum", -1, _compute_checksum, deterministic=True)
    connection.row_factory = _build_row
    return connection


def _build_row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> sqlite3.Row:
    """Return a row whose columns have names.

    Raises:
        ValueError: its last column is a check that fails.
    """
    if cursor.description[-1][0] == _INTACT and not values[-1]:
        raise ValueError("a row differs from its checksum")
    return sqlite3.Row(cursor, values)


# --- queries of pages and the command line -------------------------------------------------------


class CurveInfo(NamedTuple):
    """A mechanism with its settings (except epsilon) on prepared and split data.

    Attributes:
        id: in this store.
        key: the same in every store.
        source: fingerprint of the data.
        name, title: of the data.
        public: public facts of the prepared training ratings.
        prepare: preparation as command-line text.
        split: in words.
        mechanism: id.
        revision: of the mechanism.
        settings: without epsilon.
        task: of the mechanism.
        rows: number of rows; 0 where they were not counted.
    """

    id: int
    key: str
    source: str
    name: str
    title: str
    public: PublicFacts
    prepare: tuple[str, ...]
    split: str
    mechanism: str
    revision: int
    settings: Mapping[str, Any]
    task: str
    rows: int = 0


class Claim(NamedTuple):
    """What is claimed and certified at one epsilon of a curve.

    Attributes:
        claimed: the claimed epsilon of the change.
        change: the change that the claim is about.
        units: certified epsilon by column name of the unit; None where it is infinite.
        reasons: why an epsilon is infinite, by the same names.
        prepared: what preparation read off the data, in words, for the lowest seed.
        version: of the program, for the lowest seed.
    """

    claimed: float | None
    change: Change
    units: Mapping[str, float | None]
    reasons: Mapping[str, str]
    prepared: tuple[str, ...]
    version: str


def list_curves(
    store: Store,
    *,
    keys: Collection[str] | None = None,
    source: str | None = None,
    data: str | None = None,
    mechanism: str | None = None,
    count: bool = True,
) -> list[CurveInfo]:
    """Return the curves of a store that match every given filter.

    Args:
        store: the store.
        keys: keys of the curves.
        source: fingerprint of the data.
        data: name of the data.
        mechanism: id of the mechanism.
        count: whether to count the rows of each curve.
    """
    filters = {
        "key IN (SELECT value FROM json_each(?))": None if keys is None else json.dumps(list(keys)),
        "source = ?": source,
        "name = ?": data,
        "mechanism = ?": mechanism,
    }
    conditions = {clause: value for clause, value in filters.items() if value is not None}
    rows = "(SELECT COUNT(*) FROM result WHERE result.curve = curve.id)" if count else "0"
    clause = " AND ".join(conditions) or "1"
    check = store.build_check("curve")
    query = f"SELECT *, {rows} AS rows, {check} FROM curve WHERE {clause} ORDER BY id"
    with translate_store_errors(store.path):
        if count:
            orphan_query = "SELECT 1 FROM result WHERE curve NOT IN (SELECT id FROM curve) LIMIT 1"
            if store.connection.execute(orphan_query).fetchone():
                raise ValueError("rows without their curve")
        curve_rows = [dict(row) for row in store.connection.execute(query, [*conditions.values()])]
        for row, field in itertools.product(curve_rows, FIELDS):
            if field.table == "curve":
                row[field.column] = _decode_value(field, row[field.column])
        for row in curve_rows:
            row["public"] = PublicFacts(**{name: row[name] for name in PUBLIC_COLUMNS})
            row["prepare"] = tuple(row["prepare"])
        return [CurveInfo(**{name: row[name] for name in CurveInfo._fields}) for row in curve_rows]


def load_points(
    store: Store, id: int, metric: str, seeds: Collection[int] | int = 200
) -> dict[tuple[float | None, int], float]:
    """Load the values of a metric by epsilon and seed of a curve.

    Args:
        store: the store.
        id: of the curve.
        metric: name of the metric.
        seeds: the seeds to load, or the maximum number of seeds per epsilon, the lowest first.
    """
    if metric not in METRICS:
        raise unknown_name_error("metric", metric, METRICS)
    if isinstance(seeds, int):
        seed_clause = "ORDER BY seed LIMIT ?"
        value = json.dumps(seeds)
    else:
        seed_clause = "AND seed IN (SELECT value FROM json_each(?)) ORDER BY seed"
        value = json.dumps([int(seed) for seed in seeds])
    query = f"""
        SELECT seed, "{metric}", {store.build_check("result")} FROM result
        WHERE curve = ? AND epsilon IS ? AND "{metric}" IS NOT NULL {seed_clause}"""
    with translate_store_errors(store.path):
        return {
            (epsilon, _decode_number(seed)): _decode_number(metric_value)
            for epsilon in _list_epsilons(store, id)
            for seed, metric_value, _ in store.connection.execute(query, [id, epsilon, value])
        }


def load_claims(store: Store, id: int) -> dict[float | None, Claim]:
    """Load what is claimed and certified at every epsilon of a curve.

    It follows from settings and public facts, so any row of an epsilon has it.
    """
    query = f"""
        SELECT *, {store.build_check("result", "card")}
        FROM result JOIN card ON card.id = result.card
        WHERE curve = ? AND epsilon IS ? ORDER BY seed LIMIT 1"""
    claims = {}
    with translate_store_errors(store.path):
        for epsilon in _list_epsilons(store, id):
            row = store.connection.execute(query, [id, epsilon]).fetchone()
            wording = json.loads(row["text"])
            claims[epsilon] = Claim(
                row["claimed_epsilon"],
                Change.from_json(wording["unit"], wording["neighbours"]),
                {unit: row[f"certified_{unit}"] for unit in UNIT_COLUMNS},
                wording["reasons"],
                tuple(wording["prepared"]),
                row["version"],
            )
    return claims


def _list_epsilons(store: Store, id: int) -> list[float | None]:
    """Return the epsilons of a curve, None first, by index lookups instead of a full scan."""
    query = "SELECT epsilon FROM result WHERE curve = ? AND epsilon IS NULL LIMIT 1"
    epsilons: list[float | None] = [epsilon for (epsilon,) in store.connection.execute(query, [id])]
    query = "SELECT MIN(epsilon) FROM result WHERE curve = ? AND epsilon > ?"
    last = -1.0  # every epsilon is positive
    while (row := store.connection.execute(query, [id, last]).fetchone()) and row[0] is not None:
        last = _decode_number(row[0])
        epsilons.append(last)
    return epsilons


def iterate_records(store: Store, ids: Sequence[int] | None = None) -> Iterator[JsonObject]:
    """Yield whole records by curve, epsilon and seed; of all curves where `ids` is None."""
    if ids is None:
        ids = [info.id for info in list_curves(store, count=False)]
    # Both tables have columns id and key. A row gives, by name, that of the first table, result.
    query = f"""
        SELECT result.*, curve.*, text, {store.build_check("result", "curve", "card")}
        FROM result JOIN curve ON curve.id = result.curve LEFT JOIN card ON card.id = result.card
        WHERE result.curve = ? ORDER BY epsilon, seed"""
    with translate_store_errors(store.path):
        for id in ids:
            for row in store.connection.execute(query, [id]):
                yield _row_to_record(row)


def load_top_lists(store: Store, id: int) -> dict[float | None, list[list[int]]]:
    """Load the recommendation lists of the sampled users, for one seed, by epsilon of a curve."""
    query = f"""
        SELECT epsilon, lists, {store.build_check("shown", "result")}
        FROM shown JOIN result ON result.key = shown.key
        WHERE curve = ? ORDER BY epsilon"""
    with translate_store_errors(store.path):
        rows = store.connection.execute(query, [id])
        return {_decode_number(epsilon): json.loads(lists) for epsilon, lists, _ in rows}


def get_last_row_id(store: Store) -> int:
    """Return the id of the newest row, which grows with every new one; 0 in an empty store."""
    with translate_store_errors(store.path):
        return int(store.connection.execute("SELECT MAX(id) FROM result").fetchone()[0] or 0)


# --- rows as a file ------------------------------------------------------------------------------

# Begins like a formula, perhaps after apostrophes; a lone sign without them is none.
_FORMULA = re.compile(r"'*[=+\-@\t\r].|'+[=+\-@\t\r]", re.DOTALL)


def write_file(store: Store, curves: Sequence[CurveInfo], path: Path) -> int:
    """Write the rows of some curves to a .csv file, all or none, and return how many there are.

    Raises:
        InvalidSetting: the name of the file does not end in .csv.
        StoreError: a row cannot be read.
        OSError: the file cannot be written.
    """
    if path.suffix.lower() != ".csv":
        raise InvalidSetting("export file", "named .csv", path.name)
    with (
        paths.write_atomically(path) as partial_path,
        partial_path.open("w", encoding="utf-8", newline="") as stream,
    ):
        return write_csv(store, curves, stream)


def write_csv(store: Store, curves: Sequence[CurveInfo], stream: IO[str]) -> int:
    """Write the rows of some curves as CSV with a header, and return how many rows there are.

    Texts that a spreadsheet would take for formulas are guarded.
    """
    names = list_columns(curves)
    ids = [info.id for info in curves]
    count = 0
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    # A damaged index hides rows that the table has.
    query = (
        "SELECT COUNT(*) FROM result NOT INDEXED WHERE curve IN (SELECT value FROM json_each(?))"
    )
    with translate_store_errors(store.path):
        n_rows = store.connection.execute(query, [json.dumps(ids)]).fetchone()[0]
    for count, record in enumerate(iterate_records(store, ids), 1):  # noqa: B007
        row = dict(flatten_record(record))
        writer.writerow([guard_formula(row.get(name)) for name in names])
    with translate_store_errors(store.path):
        if count < n_rows:
            raise ValueError("rows are missing")
    return count


def guard_formula(value: Any) -> Any:
    """Return a table cell that no spreadsheet runs: text that begins a formula gets an apostrophe.

    Numbers stay as they are, also as text, and so does a lone sign. To restore the text, remove one
    apostrophe where apostrophes lead to one of = + - @, a tab or a carriage return.
    """
    if not isinstance(value, str) or not _FORMULA.match(value):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def list_columns(curves: Sequence[CurveInfo]) -> list[str]:
    """Return the names of an exported file's columns in order, with every curve's settings."""
    settings = dict.fromkeys(["epsilon", *(name for info in curves for name in info.settings)])
    columns: list[str] = []
    for field in FIELDS:
        is_settings = field.name == "settings"
        columns += [f"settings.{name}" for name in settings] if is_settings else [field.name]
    return columns
