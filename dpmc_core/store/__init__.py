"""Results that cannot be lost: one SQLite file (WAL), one row per finished unit of work."""

from __future__ import annotations

from dpmc_core.store.connection import Store, StoreError, StoreLocked, default_path
from dpmc_core.store.export import write_csv, write_file
from dpmc_core.store.queries import (
    Certified,
    CurveInfo,
    Point,
    Summary,
    certified,
    curves,
    last_row,
    points,
    records,
    summaries,
)
from dpmc_core.store.rows import (
    UNIT_COLUMNS,
    Record,
    curve_key,
    digest,
    every_unit,
    flatten,
    unit_key,
)

__all__ = [
    "UNIT_COLUMNS",
    "Certified",
    "CurveInfo",
    "Point",
    "Record",
    "Store",
    "StoreError",
    "StoreLocked",
    "Summary",
    "certified",
    "curve_key",
    "curves",
    "default_path",
    "digest",
    "every_unit",
    "flatten",
    "last_row",
    "points",
    "records",
    "summaries",
    "unit_key",
    "write_csv",
    "write_file",
]
