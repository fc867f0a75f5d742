"""A finished unit as one record, and how it lies in the tables.

A record is the `dpmc fit --json` object without its baselines (they are records of their own), with
`key`, `version`, more about the data, and in `guarantee` the certified epsilon of every unit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpmc_core.errors import DpmcError
from dpmc_core.metrics import METRICS
from dpmc_core.store.schema import UNIT_COLUMNS

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
