"""A finished unit as one record, and the tables it lies in: the only place that knows both.

A record is the `dpmc fit --json` object without its baselines (they are records of their own), with
`key`, `version`, more about the data, and in `guarantee` the certified epsilon of every unit.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from dpmc_core.errors import DpmcError, shown
from dpmc_core.metrics import METRICS
from dpmc_core.privacy import Change, Guarantee
from dpmc_core.ratings import PublicFacts

VERSION = 1  # raised with every change of the tables; files of a newer version are refused
APPLICATION = 0x44504D43  # "DPMC": marks an SQLite file as one of ours

PUBLIC = tuple(field.name for field in dataclasses.fields(PublicFacts))
UNIT_COLUMNS = tuple(change.value for change in Change)

# What people would be shown, as JSON (see toplists), by the key of a unit. An older store gets the
# table when it is opened to be written.
LISTS = "CREATE TABLE IF NOT EXISTS shown (key TEXT PRIMARY KEY, lists TEXT NOT NULL)"

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
    low REAL NOT NULL, high REAL NOT NULL, cap INTEGER
)""",
    "CREATE INDEX curve_of_data ON curve (source, mechanism)",
    "CREATE TABLE card (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)",
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
    finished TEXT NOT NULL             -- UTC
)""",
    LISTS,
    "CREATE INDEX result_of_curve ON result (curve, epsilon, seed)",
    # Each answers for one metric alone: no row of the table is touched.
    *(
        f'CREATE INDEX "result_{metric}" ON result (curve, epsilon, seed, "{metric}")'
        f' WHERE "{metric}" IS NOT NULL'
        for metric in METRICS
    ),
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)

Record = Mapping[str, Any]

_WORDING = ("unit", "neighbours", "notion", "trust", "publishes", "source", "reason", "caveats")


class Field(NamedTuple):
    """A value of a record. name: dotted, also of its column in an exported file.

    table, column: where it lies; a card is one JSON text. kind: 'string', 'float64', 'int64' or
    'bool_'; 'json' for what a column holds as JSON text.
    """

    name: str
    table: str
    column: str
    kind: str


def _fields(table: str, kind: str, names: Iterable[str], start: str = "") -> list[Field]:
    return [Field(start + name, table, name, kind) for name in names]


def _numbers(start: str, columns: str, names: Iterable[str]) -> list[Field]:
    return [Field(start + name, "result", columns + name, "float64") for name in names]


# In the order of an exported file.
FIELDS = (
    *_fields("result", "string", ("key", "version", "finished")),
    *_fields("curve", "string", ("mechanism",)),
    *_fields("curve", "int64", ("revision",)),
    *_fields("curve", "string", ("task",)),
    *_fields("result", "int64", ("seed",)),
    *_fields("curve", "string", ("name", "title", "source"), "data."),
    *_fields("result", "string", ("fingerprint",), "data."),
    *_fields("curve", "int64", ("users", "items"), "data."),
    *_fields("result", "int64", ("ratings", "test_ratings"), "data."),
    *_fields("curve", "float64", ("low", "high"), "data."),
    *_fields("curve", "int64", ("cap",), "data."),
    *_fields("curve", "string", ("split",), "data."),
    *_fields("curve", "json", ("prepare",), "data."),
    *_fields("card", "json", ("prepared",), "data."),
    *_fields("curve", "json", ("settings",)),  # all but epsilon, which is a column of its own
    *_fields("card", "string", _WORDING, "guarantee."),
    *_numbers("guarantee.claimed.", "claimed_", ("epsilon", "delta")),
    *_numbers("guarantee.certified.", "certified_", ("epsilon", "delta")),
    *_numbers("guarantee.units.", "certified_", UNIT_COLUMNS),
    *_fields("card", "string", UNIT_COLUMNS, "guarantee.reasons."),
    *_numbers("metrics.", "", METRICS),
    *_fields("result", "int64", ("rounds",)),
    *_fields("result", "bool_", ("stopped",)),
    *_fields("result", "float64", ("seconds",)),
)
_KINDS = {"string": str, "float64": int | float, "int64": int, "bool_": int, "json": str}
_STORED = [(field.name.split("."), field) for field in FIELDS if field.table != "card"]
# What must be there to read and write; other indices only save time.
_SHAPE = """
    SELECT 'column ' || t.name || '.' || c.name FROM sqlite_schema t, pragma_table_info(t.name) c
    UNION ALL SELECT 'unique index ' || i.name FROM sqlite_schema t, pragma_index_list(t.name) i
    WHERE i."unique" """


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty file, inside a transaction of the caller."""
    for statement in _TABLES:
        connection.execute(statement)


def lacking(connection: sqlite3.Connection) -> str | None:
    """A column or unique index that a store must have and this one has not, if any."""
    there = {name for (name,) in connection.execute(_SHAPE)}
    return next((name for name in _needed() if name not in there), None)


@cache
def _needed() -> tuple[str, ...]:
    empty = sqlite3.connect(":memory:")
    create_tables(empty)
    empty.execute("DROP TABLE shown")  # an older store has none
    found = tuple(name for (name,) in empty.execute(_SHAPE))
    empty.close()
    return found


def digest(*parts: Any) -> str:
    """A content hash (32 hex digits) of plain JSON values."""
    text = json.dumps(parts, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def without_epsilon(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "epsilon"}


def unit_key(
    source: str,
    prepare: Sequence[str],
    split: str,
    mechanism: str,
    revision: int,
    settings: Mapping[str, Any],
    *seed: int,
) -> str:
    """Names a unit of work: everything that decides its result, times aside."""
    return digest(source, list(prepare), split, mechanism, revision, settings, *seed)


def curve_key(
    source: str,
    prepare: Sequence[str],
    split: str,
    mechanism: str,
    revision: int,
    settings: Mapping[str, Any],
) -> str:
    """Names a curve: everything that decides its results but epsilon and seed."""
    return unit_key(source, prepare, split, mechanism, revision, without_epsilon(settings))


def every_unit(card: Guarantee) -> dict[str, dict[str, Any]]:
    """The certified epsilon of each unit by its column's name, and why it is infinite where so."""
    proved = {change.value: card.certified(change) for change in Change}
    return {
        "units": {name: found.epsilon if found.finite else None for name, found in proved.items()},
        "reasons": {name: found.reason for name, found in proved.items() if not found.finite},
    }


def to_tables(record: Record) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """(columns of its curve, text of its card, columns of its result but those of the store)."""
    data, guarantee, settings = record["data"], record["guarantee"], record["settings"]
    unknown = set(record["metrics"]) - set(METRICS)
    if unknown:
        raise DpmcError(f"the result store has no column for the metric {sorted(unknown)[0]}")
    flat = dict(flatten(record))
    curve, result = (
        {field.column: flat.get(field.name) for field in FIELDS if field.table == table}
        for table in ("curve", "result")
    )
    fixed = data["source"], data["prepare"], data["split"], record["mechanism"], record["revision"]
    curve["key"] = curve_key(*fixed, settings)
    curve["settings"] = json.dumps(without_epsilon(settings))
    result["epsilon"] = settings.get("epsilon")
    wording = {name: guarantee[name] for name in (*_WORDING, "reasons")}
    return curve, json.dumps(wording | {"prepared": list(data["prepared"])}), result


def from_tables(row: Mapping[str, Any]) -> dict[str, Any]:
    """The record behind a joined row of the three tables; the inverse of `to_tables`.

    Raises ValueError, TypeError or another error of Python's for what `to_tables` never wrote.
    """
    record: dict[str, Any] = {}
    for (*groups, name), field in _STORED:
        place = record
        for group in groups:
            place = place.setdefault(group, {})
        place[name] = from_column(field, row[field.column])
    card, guarantee = json.loads(row["text"]), record["guarantee"]
    record["data"]["prepared"] = card.pop("prepared")
    guarantee |= card
    for kind in ("claimed", "certified"):
        if guarantee[kind]["epsilon"] is None:
            guarantee[kind] = None
    metrics = record["metrics"].items()
    record["metrics"] = {name: value for name, value in metrics if value is not None}
    if number(row["epsilon"]) is not None:
        record["settings"]["epsilon"] = row["epsilon"]
    return record


def from_column(field: Field, value: Any) -> Any:
    """The value of a record in a column, which SQLite lets hold anything. Raises ValueError."""
    if value is not None and not isinstance(value, _KINDS[field.kind]):
        raise ValueError(f"{field.name} is {shown(value)}")
    if field.kind == "json":
        value = json.loads(str(value or ""))
        if not isinstance(value, dict if field.name == "settings" else list):
            raise ValueError(f"{field.name} is {shown(value)}")
    return bool(value) if field.kind == "bool_" else value


def number(value: Any) -> Any:
    """What a column of numbers holds, or nothing. Raises ValueError."""
    if not isinstance(value, int | float | None):
        raise ValueError(f"a number is {shown(value)}")
    return value


def flatten(record: Record, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted name, value) of every leaf; lists become JSON text."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, json.dumps(value) if isinstance(value, list | tuple) else value
