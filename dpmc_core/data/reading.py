"""Files of ratings, from bytes to columns of user, item, value and time, in one pass.

Ids are text from the first byte to the last; nothing is turned into a number and back. Memory is
bounded by the distinct ids and four numbers per row, however a file is compressed or quoted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.data import public_sets
from dpmc_core.data.source import (
    MEGABYTE,
    Fault,
    FileShape,
    LineCount,
    ReadOptions,
    Refused,
    Source,
    Tell,
)
from dpmc_core.data.text import (
    ROLES,
    Broken,
    Cut,
    Fields,
    Format,
    Layout,
    Objects,
    blocks,
    date_of,
    number_of,
    recognise,
    with_roles,
)
from dpmc_core.errors import BadRatings
from dpmc_core.ratings import numbered
from dpmc_core.stopping import look

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Column:
    """Ids of one column: names[code] for each row, in order of appearance; code -1: missing."""

    codes: Codes
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows as read, not yet validated.

    ratings: NaN where missing or no number; written: their texts, None where all are numbers.
    times: as numbers or dates say, NaN where neither, or None where there is no column. dated:
    which of them are dates. lines: the line of each row, or its number from 1 where a file has no
    lines. count: of lines and entries, nothing used yet. broken: lines that could not be cut.
    """

    source: Source
    layout: Layout
    user: Column
    item: Column
    ratings: Floats
    lines: Ints
    count: LineCount
    written: Column | None = None
    times: Floats | None = None
    dated: Bools | None = None
    broken: Mapping[str, Broken] = field(default_factory=dict)

    def place(self, row: int) -> str:
        """Where a person finds the row."""
        return f"{'line' if self.layout.encoding else 'row'} {self.lines[row]}"


def _texts(column: Any) -> Any:
    """A column as trimmed text, each distinct text kept once."""
    import pyarrow as pa
    from pyarrow import compute

    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    texts = compute.utf8_trim_whitespace(column.dictionary)
    if texts.equals(column.dictionary):
        return column
    found = texts.dictionary_encode()
    return pa.DictionaryArray.from_arrays(found.indices.take(column.indices), found.dictionary)


def _ids(column: Any) -> Column:
    """The rows and texts of a column of text; empty ones are missing."""
    names, codes = column.dictionary.to_pylist(), column.indices.fill_null(-1).to_numpy()
    if "" in names:
        empty = names.index("")
        codes = np.where(codes == empty, -1, codes - (codes > empty)).astype(np.int32)
        names.remove("")
    return Column(codes, tuple(names))


def _floats(column: Any) -> Floats:
    values = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
    return np.array(values, dtype=np.float64)  # a copy that can be written to


def _numbers(column: Any) -> tuple[Floats, Column]:
    """Ratings, NaN where missing or no number, and the texts of those that were no plain number.

    Where some have a decimal point, one with a comma may be in thousands: no number.
    """
    if not hasattr(column, "dictionary"):
        return _floats(column), Column(np.full(len(column), -1, dtype=np.int32), ())
    written = _ids(column)
    found = list(map(number_of, written.names))
    told = list(zip(written.names, found, strict=True))
    points = any("." in text for text, value in told if value is not None)
    values = [None if points and "," in text else value for text, value in told]
    return np.array([*values, None], dtype=np.float64)[written.codes], written


def _times(column: Any) -> tuple[Floats, Bools]:
    """Times as numbers, or as Unix seconds where they are dates, and which are dates."""
    import pyarrow as pa

    kind = column.type
    stamps = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    if not stamps and not pa.types.is_dictionary(kind):
        with suppress(pa.ArrowInvalid):
            values = _floats(column)
            values[values <= _NO_DATE] = np.nan
            return values, np.zeros(len(values), dtype=bool)
    if stamps:
        values = _floats(column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64()))
        values[values <= _NO_DATE / 1e6] = np.nan
        return np.floor(values / 1000), np.ones(len(values), dtype=bool)
    written = _ids(_texts(column))
    numbers = [None if "," in text else number_of(text) for text in written.names]
    dates = [number is None for number in numbers]
    found = [date_of(t) if n is None else n for n, t in zip(numbers, written.names, strict=True)]
    return (
        np.array([*found, None], dtype=np.float64)[written.codes],
        np.array([*dates, True])[written.codes],
    )


def _joined(parts: Sequence[Any]) -> Any:
    """The parts of a column as one; as text where some are numbers and some are text."""
    import pyarrow as pa

    if len({part.type for part in parts}) != 1:
        parts = list(map(_texts, parts)) or [_texts(pa.array([], pa.string()))]
    return pa.chunked_array(parts).unify_dictionaries().combine_chunks()


class _Columns(defaultdict[str, list[Any]]):
    """The parts of each column of a table, by role, while they are read."""

    count = 0

    def add(self, columns: Mapping[str, Any]) -> None:
        for role, column in columns.items():
            text = role in ("user", "item") or _is_text(column)
            self[role].append(_texts(column) if text and role != "time" else column)
        self.count += len(columns["user"])

    def table(self, source: Source, layout: Layout, **about: Any) -> Table:
        values, written, times, dated = np.ones(self.count), None, None, None
        if not layout.clicks:
            values, written = _numbers(_joined(self["rating"]))
        if "time" in layout.roles:
            times, dated = _times(_joined(self["time"]))
        user, item = (_ids(_joined(self[role])) for role in ("user", "item"))
        return Table(
            source, layout, user, item, values, written=written, times=times, dated=dated, **about
        )


def read_table(
    source: Source, options: ReadOptions, tell: Tell | None = None, *, ask_range: bool = True
) -> Table:
    """Parse a file in any known layout. Raises BadRatings in a sentence that names the file.

    tell: told how far the reading is, several times a megabyte. What is missing is asked for before
    the file is read, the public range included unless ask_range is False.
    """
    layout = layout_of(source, options)
    ranged = layout.known is not None or layout.clicks or options.for_ranking
    asked = ask_range and not ranged and options.low is None
    if faults := [*layout.faults, *[RANGE_ASKED] * asked]:
        raise Refused(source.name, faults)
    special = {Format.PARQUET: _read_parquet, Format.JESTER: _read_jester}
    return special.get(layout.format, _read_text)(source, layout, options, tell)


def layout_of(source: Source, options: ReadOptions) -> Layout:
    """What is found of a file before it is read: how it is built, and which public set it is.

    Raises BadRatings where it is no table, or too large.
    """
    known = public_sets.recognise(source)
    # A public set on disk is what it is; the limit guards uploads and unknown files.
    on_disk = known is not None and source.path is not None
    source.check_size(max(options.max_bytes, 2000 * MEGABYTE) if on_disk else options.max_bytes)
    parquet = source.head().startswith(b"PAR1")
    layout = (_parquet_layout if parquet else recognise)(source, options)
    return replace(layout, known=known)


RANGE_ASKED = Fault(
    "the public rating range is not known",
    "give its low and high end. It is not taken from the data, because the smallest and the"
    " largest rating are somebody's private values",
    ("range=LOW:HIGH",),
)


def _read_text(source: Source, layout: Layout, options: ReadOptions, tell: Tell | None) -> Table:
    wide = layout.shape is FileShape.WIDE
    names, places = layout.columns, tuple(layout.roles.values())
    cutter: Fields | Objects
    if layout.format is Format.JSON:
        cutter = Objects(layout.skip, [names[k] for k in places])
    else:
        used = range(len(names)) if wide else places
        plain = layout.roles.get("time")
        cutter = Fields(layout.skip, layout.separator, len(names), used, plain)
    read = _Columns(list)
    lines = [np.zeros(0, dtype=np.int64)]
    rows = unusable = 0
    for columns, at in cutter.cut(blocks(source, layout.encoding, tell)):
        rows += len(at)
        unusable = sum(kind.count for kind in cutter.broken.values())
        if wide:
            columns, at = _cells(columns, at, names[1:])
        read.add(dict(zip(ROLES if wide else layout.roles, columns, strict=False)))
        _check_rows(source, read.count + unusable, options.max_rows)  # of a matrix, its cells
        lines.append(at)
    count = LineCount(
        lines=cutter.lines,
        header=int(layout.header),
        blank=cutter.blank + layout.skip - layout.header,
        continued=cutter.continued,
        rows=rows + unusable,
        entries=read.count + unusable,
    )
    at = np.concatenate(lines)
    return read.table(source, layout, lines=at, broken=cutter.broken, count=count)


def _cells(columns: Sequence[Any], at: Ints, items: Sequence[str]) -> Cut:
    """Users, items and ratings of the filled cells of a matrix, row by row, and their lines."""
    import pyarrow as pa

    users, *cells = columns
    texts = _joined(list(map(_texts, cells)))  # column by column
    filled = np.array([text != "" for text in texts.dictionary.to_pylist()])
    row, item = np.nonzero(filled[texts.indices.to_numpy()].reshape(len(items), -1).T)
    items_of = pa.DictionaryArray.from_arrays(item.astype(np.int32), pa.array(items, pa.string()))
    return [_texts(users).take(row), items_of, texts.take(item * len(at) + row)], at[row]


def _read_jester(source: Source, layout: Layout, options: ReadOptions, tell: Tell | None) -> Table:  # noqa: ARG001 - of whoever reads
    pieces = blocks(source, layout.encoding, tell)
    lines = [line for piece in pieces for line in piece.split("\n")[:-1]]
    filled = [line for line in lines if line.strip()]
    try:
        cells = np.loadtxt(filled, delimiter=",", comments=None, ndmin=2)
    except ValueError as error:
        raise BadRatings(f"{source.name} is no matrix of numbers as it begins: {error}") from None
    values = cells[:, 1:]
    seen = values != 99
    wrong = np.flatnonzero(seen.sum(axis=1) != cells[:, 0])
    if len(wrong):
        row = int(wrong[0])
        raise BadRatings(
            f"line {row + 1} of {source.name} says {cells[row, 0]:g} jokes were rated,"
            f" but {int(seen[row].sum())} are (99 stands for not rated)"
        )
    users, items = (codes.astype(np.int32) for codes in np.nonzero(seen))
    blank = len(lines) - len(filled)
    return Table(
        source,
        layout,
        Column(users, numbered(len(values))),
        Column(items, numbered(100)),
        values[seen],
        lines=users.astype(np.int64) + 1,
        count=LineCount(lines=len(lines), blank=blank, rows=len(values), entries=len(users)),
    )


# Parquet ------------------------------------------------------------------------------------------

_DECODED = 1000 * MEGABYTE  # a row group's size once it is unpacked
_BATCH = 65_536  # rows
_DIGITS = {16: 11, 32: 24, 64: 53}  # of a float's bits those that tell whole numbers apart
_NO_DATE = -9.223372036854e18  # ns: what pandas writes for a missing date


def _parquet_layout(source: Source, options: ReadOptions) -> Layout:
    with _parquet(source) as (stored, pa):
        schema = stored.schema_arrow
        names = tuple(map(str, schema.names))
        layout = with_roles(Layout(names, format=Format.PARQUET), options)
        faults = []
        for role, k in layout.roles.items():
            kind = schema.field(k).type
            if not _usable(pa, kind, role):
                what = f"column '{names[k]}' holds {kind}, which is no {role}"
                faults.append(Fault(what, "choose another column", (f"{role}=COLUMN",)))
    return replace(layout, faults=layout.faults or tuple(faults[:1]))


def _usable(pa: Any, kind: Any, role: str) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if types.is_string(kind) or types.is_large_string(kind) or number:
        return True
    if role == "time":
        return bool(types.is_timestamp(kind) or types.is_date(kind))
    return bool(role in ("user", "item") and types.is_boolean(kind))


@contextmanager
def _parquet(source: Source, strings: Sequence[str] = ()) -> Iterator[tuple[Any, Any]]:
    """Opens a Parquet file; whatever pyarrow finds wrong with it becomes one sentence."""
    import pyarrow as pa
    from pyarrow import parquet

    with source.open() as file:
        try:
            yield (
                parquet.ParquetFile(
                    file, read_dictionary=list(strings), page_checksum_verification=True
                ),
                pa,
            )
        except BadRatings:
            raise
        except (
            *(pa.ArrowException, OSError, ValueError, TypeError, LookupError),
            *(ArithmeticError, RuntimeError, MemoryError),
        ) as error:
            reason = (str(error).splitlines() or ["it is damaged"])[0][:200]
            raise BadRatings(f"{source.name} is not a readable Parquet file: {reason}") from None


def _read_parquet(source: Source, layout: Layout, options: ReadOptions, tell: Tell | None) -> Table:
    names = {role: layout.columns[k] for role, k in layout.roles.items()}
    read = _Columns(list)
    # As dictionaries, a column of a few long texts repeated a million times stays small.
    with _parquet(source, list(names.values())) as (stored, pa):
        stated = stored.metadata.num_rows
        _check_rows(source, stated, options.max_rows)
        for k in range(stored.metadata.num_row_groups):
            # Not of its columns: to look at these can end the process where a file is damaged.
            _check_decoded(source, stored.metadata.row_group(k).total_byte_size)
        for batch in stored.iter_batches(_BATCH, columns=[*names.values()], use_threads=False):
            _check_decoded(source, batch.nbytes)
            _check_rows(source, read.count + len(batch), options.max_rows)
            columns = {role: _present(pa, batch.column(name)) for role, name in names.items()}
            for role in ("user", "item"):
                columns[role] = _as_ids(pa, columns[role], names[role], source)
            read.add(columns)
            look()
            if tell is not None:
                tell(read.count, max(stated, read.count))
        count = LineCount(lines=read.count, rows=read.count, entries=read.count)
        return read.table(source, layout, lines=np.arange(1, read.count + 1), count=count)


def _check_decoded(source: Source, size: int) -> None:
    if size > _DECODED:
        raise BadRatings(
            f"{source.name} holds a row group of {size / MEGABYTE:,.0f} MB once it is unpacked, the"
            f" limit is {_DECODED / MEGABYTE:,.0f} MB: write smaller row groups"
        )


def _present(pa: Any, column: Any) -> Any:
    """Texts as a dictionary of those that are there; other values as they are."""
    from pyarrow import compute

    if not pa.types.is_dictionary(column.type):
        return _texts(column) if _is_text(column) else column
    used = compute.unique(column.indices).drop_null()
    codes = compute.index_in(column.indices, value_set=used, skip_nulls=True)
    values = column.dictionary.take(used)
    if not _is_text(values):
        return values.take(codes)
    return pa.DictionaryArray.from_arrays(codes, values.cast(pa.string()).fill_null(""))


def _as_ids(pa: Any, column: Any, name: str, source: Source) -> Any:
    """Ids as text; whole numbers that pandas turned into floats as whole numbers again."""
    if _is_text(column):
        return column
    if pa.types.is_floating(column.type):
        bits, values = column.type.bit_width, _floats(column)
        if (np.abs(values[~np.isnan(values)]) >= 2.0 ** _DIGITS[bits]).any():
            what = (
                f"column '{name}' holds ids as float{bits}, where different ids have become one"
                f" from 2^{_DIGITS[bits]} = {2 ** _DIGITS[bits]:,} on"
            )
            raise Refused(source.name, [Fault(what, "write ids as text or as whole numbers")])
        column = column.cast(pa.float64())
    found = column.dictionary_encode()
    texts = [
        "" if v is None or v != v else str(int(v) if isinstance(v, float) and v == int(v) else v)
        for v in found.dictionary.to_pylist()
    ]
    return pa.DictionaryArray.from_arrays(found.indices, pa.array(texts, pa.string()))


def _is_text(column: Any) -> bool:
    """Whether a column of pyarrow holds text, each one apart or each distinct one once."""
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _check_rows(source: Source, rows: int, limit: int) -> None:
    if rows > limit:
        raise BadRatings(f"{source.name} has more than {limit:,} rows, the limit: use a part of it")


# Ids ----------------------------------------------------------------------------------------------


def merge(tables: Sequence[Table]) -> list[Table]:
    """The same rows with codes into shared lists of users and items."""
    if len(tables) == 1:
        return [*tables]
    users, items = (
        tuple(dict.fromkeys(name for column in columns for name in column.names))
        for columns in zip(*((table.user, table.item) for table in tables), strict=True)
    )
    return [
        replace(table, user=recode(table.user, users), item=recode(table.item, items))
        for table in tables
    ]


def recode(column: Column, names: tuple[str, ...]) -> Column:
    """The same ids with codes into other names, which must hold them."""
    place = {name: k for k, name in enumerate(names)}
    codes = np.array([*(place[name] for name in column.names), -1], dtype=np.int32)
    return Column(codes[column.codes], names)


def natural_order(names: Sequence[str]) -> NDArray[np.intp]:
    """Positions that sort ids: as numbers where all are whole numbers, else as text."""
    import pyarrow as pa
    from pyarrow import compute

    texts = pa.array(names, pa.string())
    # No digit but ASCII ones and no leading zero: two texts are never one number.
    whole = compute.all(compute.match_substring_regex(texts, "^(0|[1-9][0-9]{0,17})$")).as_py()
    order = compute.sort_indices(texts.cast(pa.int64()) if whole else texts)
    return np.asarray(order, dtype=np.intp)
