"""What pages and the command line ask a store: curves, means over seeds, values, whole records."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from dpmc_core.errors import unknown_name
from dpmc_core.lab.store.connection import Store, damaged, sentences
from dpmc_core.lab.store.rows import FIELDS, PUBLIC, UNIT_COLUMNS, from_column, from_tables, number
from dpmc_core.metrics import METRICS
from dpmc_core.privacy import Change
from dpmc_core.ratings import PublicFacts


class CurveInfo(NamedTuple):
    """A mechanism with its settings (epsilon aside) on prepared and split data.

    id: in this store; key: everywhere. public: facts of the prepared training ratings. rows: of
    the curve; 0 where they were not counted.
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


class Summary(NamedTuple):
    """How many seeds there are, and their mean."""

    seeds: int
    mean: float


class Claim(NamedTuple):
    """What holds at one epsilon of a curve. claimed: epsilon, of the change.

    units, reasons: what is certified, by column name of the unit: None where it is infinite, and
    why. prepared: what was read off the data, in words; version: of the program; both of the
    lowest seed.
    """

    claimed: float | None
    change: Change
    units: Mapping[str, float | None]
    reasons: Mapping[str, str]
    prepared: tuple[str, ...]
    version: str


def curves(
    store: Store,
    *,
    keys: Collection[str] | None = None,
    source: str | None = None,
    data: str | None = None,
    mechanism: str | None = None,
    count: bool = True,
) -> list[CurveInfo]:
    """The curves of a store, optionally by key, data fingerprint, data name and mechanism."""
    where, values = ["1"], []
    if keys is not None:
        where.append(f"key IN ({_marks(keys)})")
        values += list(keys)
    for column, value in (("source", source), ("name", data), ("mechanism", mechanism)):
        if value is not None:
            where.append(f"{column} = ?")
            values.append(value)
    rows = "(SELECT COUNT(*) FROM result WHERE result.curve = curve.id)" if count else "0"
    query = f"SELECT *, {rows} AS rows FROM curve WHERE {' AND '.join(where)} ORDER BY id"
    with _reading(store):
        if count:
            lost = "SELECT 1 FROM result WHERE curve NOT IN (SELECT id FROM curve) LIMIT 1"
            if store.connection.execute(lost).fetchone():
                raise ValueError("rows without their curve")
        return [_curve_info(row) for row in store.connection.execute(query, values)]


def summaries(store: Store, id: int, metric: str) -> dict[float | None, Summary]:
    """Count and mean over seeds by epsilon of a curve, computed by the database.

    None is the epsilon of methods without one, here and below.
    """
    name = _metric(metric)
    query = f"""
        SELECT epsilon, COUNT(*), AVG({name}), MAX({name}) FROM result
        WHERE curve = ? AND {name} IS NOT NULL GROUP BY epsilon ORDER BY epsilon"""
    with _reading(store):
        rows = store.connection.execute(query, [id])  # text is above all numbers, and counts as 0
        return {
            number(epsilon): Summary(seeds, mean)
            for epsilon, seeds, mean, most in rows
            if number(most) is not None
        }


def counts(store: Store, source: str) -> list[tuple[CurveInfo, float | None, int]]:
    """How many rows there are at each epsilon of the curves of a data set, by its fingerprint."""
    query = "SELECT epsilon, COUNT(*) FROM result WHERE curve = ? GROUP BY epsilon"
    with _reading(store):
        return [
            (info, number(epsilon), count)
            for info in curves(store, source=source, count=False)
            for epsilon, count in store.connection.execute(query, [info.id])
        ]


def points(
    store: Store, id: int, metric: str, seeds: Collection[int] | int = 200
) -> dict[tuple[float | None, int], float]:
    """The values of a metric by epsilon and seed of a curve.

    seeds: which ones, or how many of the lowest at every epsilon at most.
    """
    name = _metric(metric)
    where, order = f"curve = ? AND epsilon IS ? AND {name} IS NOT NULL", "ORDER BY seed LIMIT ?"
    values = [seeds] if isinstance(seeds, int) else [*sorted(set(seeds)), -1]
    if not isinstance(seeds, int):
        where += f" AND seed IN ({_marks(values[:-1])})"
    query = f"SELECT seed, {name} FROM result WHERE {where} {order}"
    with _reading(store):
        return {
            (epsilon, number(seed)): number(value)
            for epsilon in _epsilons(store, id)
            for seed, value in store.connection.execute(query, [id, epsilon, *values])
        }


def certified(store: Store, id: int) -> dict[float | None, Claim]:
    """What is claimed and certified at every epsilon of a curve.

    It follows from settings and public facts, so any one row of an epsilon tells it.
    """
    units = ", ".join(f"certified_{unit}" for unit in UNIT_COLUMNS)
    query = f"""
        SELECT claimed_epsilon, text, version, {units}
        FROM result JOIN card ON card.id = result.card
        WHERE curve = ? AND epsilon IS ? ORDER BY seed LIMIT 1"""
    found = {}
    with _reading(store):
        for epsilon in _epsilons(store, id):
            row = store.connection.execute(query, [id, epsilon]).fetchone()
            card = json.loads(row["text"])
            found[epsilon] = Claim(
                row["claimed_epsilon"],
                Change.of(card["unit"], card["neighbours"]),
                {unit: row[f"certified_{unit}"] for unit in UNIT_COLUMNS},
                card["reasons"],
                tuple(card["prepared"]),
                row["version"],
            )
    return found


def _epsilons(store: Store, id: int) -> list[float | None]:
    """The epsilons of a curve, None first: from one to the next, not through all its rows."""
    query = "SELECT epsilon FROM result WHERE curve = ? AND epsilon IS NULL LIMIT 1"
    found: list[float | None] = [None] * len(store.connection.execute(query, [id]).fetchall())
    query = "SELECT MIN(epsilon) FROM result WHERE curve = ? AND epsilon > ?"
    last = -1.0  # every epsilon is positive
    while (row := store.connection.execute(query, [id, last]).fetchone()) and row[0] is not None:
        last = number(row[0])
        found.append(last)
    return found


def records(store: Store, ids: Sequence[int] | None = None) -> Iterator[dict[str, Any]]:
    """Whole records, curve by curve, by epsilon and seed; all curves where ids is None."""
    if ids is None:
        ids = [info.id for info in curves(store, count=False)]
    # Both result and curve have an id and a key: by name, a row gives the first.
    query = """
        SELECT result.*, curve.*, text
        FROM result JOIN curve ON curve.id = result.curve LEFT JOIN card ON card.id = result.card
        WHERE result.curve = ? ORDER BY epsilon, seed"""
    with _reading(store):
        for id in ids:
            for row in store.connection.execute(query, [id]):
                yield from_tables(row)


def top_lists(store: Store, id: int) -> dict[float | None, list[list[int]]]:
    """What the sampled users would be shown, by epsilon of a curve (see toplists): one seed's."""
    query = """
        SELECT epsilon, lists FROM shown JOIN result ON result.key = shown.key
        WHERE curve = ? ORDER BY epsilon"""
    with _reading(store):
        known = "SELECT 1 FROM sqlite_schema WHERE name = 'shown'"
        if store.connection.execute(known).fetchone() is None:  # made by an older version
            return {}
        rows = store.connection.execute(query, [id])
        return {number(epsilon): json.loads(lists) for epsilon, lists in rows}


def last_row(store: Store) -> int:
    """A number that grows with every new row: has anything arrived since?"""
    with _reading(store):
        found = store.connection.execute("SELECT MAX(id) FROM result").fetchone()[0]
    return int(found or 0)


@contextmanager
def _reading(store: Store) -> Iterator[None]:
    """The errors of SQLite, and those of Python over what a store never wrote, as StoreError."""
    try:
        with sentences(store.path):
            yield
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        what = error if isinstance(error, ValueError) else "a row that cannot be read"
        raise damaged(store.path, what) from None


def _curve_info(row: Any) -> CurveInfo:
    found = dict(row)
    for field in FIELDS:
        if field.table == "curve":
            found[field.column] = from_column(field, found[field.column])
    found["prepare"] = tuple(found["prepare"])
    public = {name: found.pop(name) for name in PUBLIC}
    return CurveInfo(public=PublicFacts(**public), **found)


def _metric(metric: str) -> str:
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
    return f'"{metric}"'


def _marks(values: Collection[Any]) -> str:
    return ", ".join("?" * len(values))
