"""Rows of a store as CSV or Parquet: every record flattened to dotted column names."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_core.lab.store.connection import Store
from dpmc_core.lab.store.queries import CurveInfo, records
from dpmc_core.lab.store.rows import FIELDS, flatten
from dpmc_core.paths import whole_file

_FORMULA = re.compile(r"'*[=+\-@\t\r].|'+[=+\-@\t\r]", re.DOTALL)
_BLOCK = 20_000  # rows of a Parquet file held at once


def write_file(store: Store, curves: Sequence[CurveInfo], path: Path) -> int:
    """Write a .csv or .parquet file, complete or not at all; returns how many rows."""
    writers = {".csv": _write_csv, ".parquet": _write_parquet}
    if path.suffix.lower() not in writers:
        raise InvalidSetting("export file", f"named {' or '.join(writers)}", path.name)
    with whole_file(path) as part:
        return writers[path.suffix.lower()](store, curves, part)


def write_csv(store: Store, curves: Sequence[CurveInfo], stream: IO[str]) -> int:
    """Write a header and the rows, text guarded; returns how many rows."""
    names, count = list(columns(curves)), 0
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    for row in _rows(store, curves, names):
        writer.writerow([guarded(value) for value in row])
        count += 1
    return count


def guarded(value: Any) -> Any:
    """A cell of a table that no spreadsheet runs: an apostrophe leads text that begins a formula.

    Numbers stay as they are, also as text, and so does a lone sign. To have the text back, take one
    apostrophe away where apostrophes lead to one of = + - @, a tab or a carriage return.
    """
    if not isinstance(value, str) or not _FORMULA.match(value):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def columns(curves: Sequence[CurveInfo]) -> dict[str, str]:
    """Name and kind ('string', 'float64', 'int64', 'bool_') of every column, in order."""
    settings: dict[str, set[str]] = {"epsilon": {"float64"}}
    for info in curves:
        for name, value in info.settings.items():
            settings.setdefault(name, set()).update(_kind(value))
    found: dict[str, str] = {}
    for field in FIELDS:
        if field.name == "settings":
            found |= {f"settings.{name}": _common(kinds) for name, kinds in settings.items()}
        else:
            found[field.name] = "string" if field.kind == "json" else field.kind
    return found


def _write_csv(store: Store, curves: Sequence[CurveInfo], path: Path) -> int:
    with path.open("w", encoding="utf-8", newline="") as stream:
        return write_csv(store, curves, stream)


def _write_parquet(store: Store, curves: Sequence[CurveInfo], path: Path) -> int:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise DpmcError("a Parquet file needs pyarrow: run 'pip install pyarrow'") from None
    kinds, count = columns(curves), 0
    # Types are fixed beforehand: a block of rows may hold nothing in some of its columns.
    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in kinds.items()])
    rows = _rows(store, curves, list(kinds))
    with pq.ParquetWriter(path, schema) as writer:
        while block := list(itertools.islice(rows, _BLOCK)):
            values = zip(*block, strict=True)
            arrays = [
                pa.array([_cast(v, kind) for v in column], getattr(pa, kind)())
                for column, kind in zip(values, kinds.values(), strict=True)
            ]
            writer.write_table(pa.table(arrays, schema=schema))
            count += len(block)
    return count


def _rows(
    store: Store, curves: Sequence[CurveInfo], names: Sequence[str]
) -> Iterator[Sequence[Any]]:
    for record in records(store, [info.id for info in curves]):
        flat = dict(flatten(record))
        yield [flat.get(name) for name in names]


def _kind(value: Any) -> set[str]:
    if value is None:
        return set()
    kinds: Mapping[type, str] = {bool: "bool_", int: "int64", float: "float64"}
    return {kinds.get(type(value), "string")}


def _common(kinds: set[str]) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    return "float64" if kinds == {"int64", "float64"} else "string"


def _cast(value: Any, kind: str) -> Any:
    if value is None or kind != "string":
        return value
    return str(value)
