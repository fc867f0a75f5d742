"""The tables of a result store, and the only place that knows their version."""

from __future__ import annotations

import sqlite3

from dpmc_core.privacy import Change

VERSION = 1  # raised with every change of the tables; older files are then migrated on opening
APPLICATION = 0x44504D43  # "DPMC": marks an SQLite file as one of ours

METRICS = ("accuracy", "are", "rmse", "mae", "hr@10", "ndcg@10", "hr@10_full", "ndcg@10_full")
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


def create(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty file, inside a transaction of the caller."""
    for statement in _TABLES:
        connection.execute(statement)
