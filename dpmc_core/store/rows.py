"""A finished unit as one record, and the tables it lies in: the only place that knows both.

A record is the `dpmc fit --json` object without its baselines (they are records of their own), with
`key`, `version`, more about the data, and in `guarantee` the certified epsilon of every unit.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpmc_core.errors import DpmcError
from dpmc_core.metrics import METRICS
from dpmc_core.privacy import Change, Guarantee

VERSION = 1  # raised with every change of the tables; older files are then migrated on opening
APPLICATION = 0x44504D43  # "DPMC": marks an SQLite file as one of ours

UNIT_COLUMNS = tuple(change.value for change in Change)

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
_RESULT = (
    *("key", "epsilon", "seed", "fingerprint", "ratings", "test_ratings"),
    *("claimed_epsilon", "claimed_delta", "certified_epsilon", "certified_delta"),
    *("rounds", "stopped", "seconds", "version"),
)
CURVE_COLUMNS = (
    *("key", "source", "prepare", "split", "mechanism", "revision", "settings", "task"),
    *("name", "title", "users", "items", "low", "high", "cap"),
)
RESULT_COLUMNS = (*_RESULT, *(f"certified_{unit}" for unit in UNIT_COLUMNS), *METRICS)


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty file, inside a transaction of the caller."""
    for statement in _TABLES:
        connection.execute(statement)


def digest(*parts: Any) -> str:
    """A content hash (32 hex digits) of plain JSON values."""
    text = json.dumps(parts, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def curve_key(
    source: str,
    prepare: Sequence[str],
    split: str,
    mechanism: str,
    revision: int,
    settings: Mapping[str, Any],
) -> str:
    """Names a curve: everything that decides its results but epsilon and seed."""
    fixed = {name: value for name, value in settings.items() if name != "epsilon"}
    return digest(source, list(prepare), split, mechanism, revision, fixed)


def unit_key(
    source: str,
    prepare: Sequence[str],
    split: str,
    mechanism: str,
    revision: int,
    settings: Mapping[str, Any],
    seed: int,
) -> str:
    """Names a unit of work: everything that decides its result, times aside."""
    return digest(source, list(prepare), split, mechanism, revision, settings, seed)


def every_unit(card: Guarantee) -> dict[str, dict[str, Any]]:
    """The certified epsilon of each unit by its column's name, and why it is infinite where so."""
    proved = {change.value: card.certified(change) for change in Change}
    return {
        "units": {name: found.epsilon if found.finite else None for name, found in proved.items()},
        "reasons": {name: found.reason for name, found in proved.items() if not found.finite},
    }


def to_tables(record: Record) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """(columns of its curve, text of its card, columns of its result)."""
    data, guarantee, settings = record["data"], record["guarantee"], record["settings"]
    unknown = set(record["metrics"]) - set(METRICS)
    if unknown:
        raise DpmcError(f"the result store has no column for the metric {sorted(unknown)[0]}")
    fixed = {name: value for name, value in settings.items() if name != "epsilon"}
    curve = {
        "key": curve_key(
            data["source"],
            data["prepare"],
            data["split"],
            record["mechanism"],
            record["revision"],
            settings,
        ),
        "prepare": json.dumps(list(data["prepare"])),
        "settings": json.dumps(fixed),
        **{name: record[name] for name in ("mechanism", "revision", "task")},
        **{
            name: data[name]
            for name in ("source", "split", "name", "title", "users", "items", "low", "high", "cap")
        },
    }
    wording = {name: guarantee[name] for name in (*_WORDING, "reasons")}
    card = json.dumps(wording | {"prepared": list(data["prepared"])})
    claimed, certified = guarantee["claimed"] or {}, guarantee["certified"] or {}
    result = {
        "epsilon": settings.get("epsilon"),
        "stopped": int(record["stopped"]),
        **{name: record[name] for name in ("key", "seed", "rounds", "seconds", "version")},
        **{name: data[name] for name in ("fingerprint", "ratings", "test_ratings")},
        **{f"claimed_{part}": claimed.get(part) for part in ("epsilon", "delta")},
        **{f"certified_{part}": certified.get(part) for part in ("epsilon", "delta")},
        **{f"certified_{unit}": guarantee["units"][unit] for unit in UNIT_COLUMNS},
        **{metric: record["metrics"].get(metric) for metric in METRICS},
    }
    return curve, card, result


def from_tables(row: Mapping[str, Any]) -> dict[str, Any]:
    """The record behind a joined row of the three tables; the inverse of `to_tables`."""
    card = json.loads(row["text"])
    prepared, reasons = card.pop("prepared"), card.pop("reasons")
    settings = json.loads(row["settings"])
    if row["epsilon"] is not None:
        settings["epsilon"] = row["epsilon"]
    return {
        "key": row["key"],
        "version": row["version"],
        "finished": row["finished"],
        **{name: row[name] for name in ("mechanism", "revision", "task", "seed")},
        "data": {
            **{name: row[name] for name in ("name", "title", "source", "fingerprint")},
            **{name: row[name] for name in ("users", "items", "ratings", "test_ratings")},
            **{name: row[name] for name in ("low", "high", "cap", "split")},
            "prepare": json.loads(row["prepare"]),
            "prepared": prepared,
        },
        "settings": settings,
        "guarantee": {
            **card,
            "claimed": _budget(row, "claimed"),
            "certified": _budget(row, "certified"),
            "units": {unit: row[f"certified_{unit}"] for unit in UNIT_COLUMNS},
            "reasons": reasons,
        },
        "metrics": {metric: row[metric] for metric in METRICS if row[metric] is not None},
        "rounds": row["rounds"],
        "stopped": bool(row["stopped"]),
        "seconds": row["seconds"],
    }


def flatten(record: Record, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted name, value) of every leaf; lists become JSON text."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, json.dumps(value) if isinstance(value, list | tuple) else value


def _budget(row: Mapping[str, Any], kind: str) -> dict[str, float] | None:
    if row[f"{kind}_epsilon"] is None:
        return None
    return {part: row[f"{kind}_{part}"] for part in ("epsilon", "delta")}
