"""Results that cannot be lost: one SQLite file (WAL), one row per finished unit of work."""

from __future__ import annotations

from dpmc_core.lab.store.connection import (
    Store,
    StoreError,
    StoreLocked,
    StoreMissing,
    default_path,
)
from dpmc_core.lab.store.export import guarded, write_csv, write_file
from dpmc_core.lab.store.queries import (
    CurveInfo,
    certified,
    counts,
    curves,
    last_row,
    points,
    records,
    summaries,
    top_lists,
)
from dpmc_core.lab.store.rows import (
    Record,
    curve_key,
    digest,
    every_unit,
    unit_key,
    without_epsilon,
)

__all__ = [
    "CurveInfo",
    "Record",
    "Store",
    "StoreError",
    "StoreLocked",
    "StoreMissing",
    "certified",
    "counts",
    "curve_key",
    "curves",
    "default_path",
    "digest",
    "every_unit",
    "guarded",
    "last_row",
    "points",
    "records",
    "summaries",
    "top_lists",
    "unit_key",
    "without_epsilon",
    "write_csv",
    "write_file",
]
