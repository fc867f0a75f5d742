"""Results that cannot be lost: one SQLite file (WAL), one row per finished unit of work."""

from __future__ import annotations

from dpmc_core.store.connection import Store, default_path
from dpmc_core.store.errors import StoreError, StoreLocked
from dpmc_core.store.files import export, write_csv
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
from dpmc_core.store.rows import Record, curve_key, digest, flatten
from dpmc_core.store.schema import UNIT_COLUMNS

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
    "export",
    "flatten",
    "last_row",
    "points",
    "records",
    "summaries",
    "write_csv",
]
