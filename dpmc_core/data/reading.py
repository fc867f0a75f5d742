"""Files of ratings: from bytes to columns of user, item, value and time, in one pass, and from
there to validated ratings, with a report of what was found and done.

Ids are text from the first byte to the last; nothing is turned into a number and back. Memory is
bounded by the distinct ids and four numbers per row, however a file is compressed or quoted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.arrays import Bools, Floats, Ints
from dpmc_core.data import public_sets
from dpmc_core.data.source import (
    MEGABYTE,
    NO_COLUMN,
    BadRows,
    Duplicates,
    Fault,
    FileShape,
    Header,
    LineCount,
    ReadOptions,
    ReadProgress,
    Refused,
    Source,
)
from dpmc_core.data.text import (
    KNOWLEDGE,
    LEADING,
    MISSING,
    ROLES,
    SHORT,
    Adjacency,
    Broken,
    Cut,
    Fields,
    Format,
    Layout,
    Lines,
    Objects,
    blocks,
    date_of,
    dates_of,
    mostly_once,
    number_of,
    recognise,
    rewrite,
    with_roles,
)
from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.ratings import PublicFacts, Ratings, number_ids
from dpmc_core.stopping import check_cancelled

Codes = NDArray[np.int32]


class Names(Sequence[str]):
    """Distinct ids, kept as one array of pyarrow: a million of them in a few megabytes."""

    def __init__(self, texts: Any) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return tuple(self.texts[k].to_pylist())
        return self.texts[int(k)].as_py()

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BATCH):
            yield from self[start : start + _BATCH]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Names):
            return bool(self.texts.equals(other.texts))
        return isinstance(other, tuple) and tuple(self) == other

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Column:
    """Ids of one column: names[code] for each row, in natural order; code -1: missing."""

    codes: Codes
    names: Names


@dataclass(frozen=True, eq=False)
class Table:
    """Rows as read, not yet validated.

    ratings: NaN where missing or no number; written: their texts, None where all are numbers.
    times: as numbers or dates say, NaN where neither, or None where there is no column. dated:
    which of them are dates. lines: the line of each row, or its number from 1 where a file has no
    lines. count: of lines and entries, nothing used yet. broken: lines that could not be cut.
    files: of a folder, which one each row is from. event: what kind of row each is.
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
    files: Column | None = None
    event: Column | None = None

    def place(self, row: int) -> str:
        """Where a person finds the row."""
        found = f"{'line' if self.layout.encoding else 'row'} {self.lines[row]}"
        return f"{found} of {self.files.names[self.files.codes[row]]}" if self.files else found


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
    from pyarrow import compute

    if not hasattr(column, "dictionary"):
        keys = _keys(column)
        if keys is None:
            return _ids(column.dictionary_encode())
        order = np.argsort(keys)  # faster than to look each of many texts up
        new = np.diff(keys[order], prepend=keys[order[:1]] + 1) != 0
        codes = np.empty(len(keys), dtype=np.int32)
        codes[order] = np.cumsum(new) - 1
        names = column.take(order[new])
        if "" not in names[:1].to_pylist():
            return Column(codes, Names(names))
    else:
        names, codes = column.dictionary, column.indices.fill_null(-1).to_numpy()
    filled = compute.not_equal(names, "").to_numpy(zero_copy_only=False)
    return _placed([Column(codes, Names(names))], filled)[0]


def _floats(column: Any) -> Floats:
    values = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
    return np.array(values, dtype=np.float64)  # a copy that can be written to


def _numbers(column: Any, rate: Callable[[str], float | None]) -> tuple[Floats, Column | None]:
    """Ratings, NaN where missing or no number, and the texts of those that were no plain number.

    rate: what a text stands for. Where some have a decimal point, one with a comma may be in
    thousands: no number.
    """
    if not hasattr(column, "dictionary"):
        return _floats(column), None
    written = _ids(column)
    found = list(map(rate, written.names))
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
    if dates and all(dates) and None in found:
        found = dates_of(written.names.texts) or found
    return (
        np.array([*found, None], dtype=np.float64)[written.codes],
        np.array([*dates, True])[written.codes],
    )


def _joined(parts: Sequence[Any]) -> Any:
    """The parts of a column as one; as text where some are numbers and some are text."""
    import pyarrow as pa

    kinds = {part.type for part in parts}
    long = pa.string() in kinds and sum(part.nbytes for part in parts) > _DECODED
    if len(kinds) != 1 or long:
        parts = list(map(_texts, parts)) or [_texts(pa.array([], pa.string()))]
    return pa.chunked_array(parts).unify_dictionaries().combine_chunks()


class _Columns(defaultdict[str, list[Any]]):
    """The parts of each column of a table, by role, while they are read."""

    count = 0

    def add(self, columns: Mapping[str, Any]) -> None:
        import pyarrow as pa
        from pyarrow import compute

        for role, column in columns.items():
            plain = pa.types.is_string(column.type)
            if role == "time" and plain:
                with suppress(pa.ArrowInvalid):
                    column = column.cast(pa.float64())
            elif role in ("user", "item") or (role != "time" and _is_text(column)):
                again = role == "user" and {part.type for part in self[role]} == {column.type}
                if again and plain and column.nbytes <= 2 * SHORT * len(column):
                    column = compute.utf8_trim_whitespace(column.fill_null(""))
                else:
                    column = _texts(column)
                    if role == "user" and mostly_once(column):
                        column = column.cast(pa.string()).fill_null("")
            self[role].append(column)
        self.count += len(columns["user"])

    def table(self, source: Source, layout: Layout, options: ReadOptions, **about: Any) -> Table:
        values, written, times, dated = np.ones(self.count), None, None, None
        if not layout.clicks:
            values, written = _numbers(_joined(self["rating"]), rating_reader(options.values))
        if "event" in layout.roles:
            about["event"] = _ids(_texts(_joined(self["event"])))
        if "time" in layout.roles:
            times, dated = _times(_joined(self["time"]))
        user, item = (_ids(_joined(self[role])) for role in ("user", "item"))
        return Table(
            source, layout, user, item, values, written=written, times=times, dated=dated, **about
        )


def read_table(
    source: Source,
    options: ReadOptions,
    tell: ReadProgress | None = None,
    *,
    ask_range: bool = True,
) -> Table:
    """Parse a file in any known layout. Raises BadRatings in a sentence that names the file.

    tell: told how far the reading is, several times a megabyte. What is missing is asked for before
    the file is read, the public range included unless ask_range is False. A folder's files are one
    table, whose users and pairs may be in several.
    """
    parts = source.parquet_files or [source]
    layouts = [layout_of(part, options) for part in parts]
    layout = layouts[0]
    for part, other in zip(parts, layouts, strict=True):
        if (other.roles, other.columns) != (layout.roles, layout.columns):
            raise BadRatings(
                f"{part.name} and {parts[0].name} in the folder {source.name} have different"
                " columns: write all files alike"
            )
    ranged = layout.known is not None or layout.clicks or options.for_ranking
    asked = ask_range and not ranged and options.low is None
    if faults := [*layout.faults, *[RANGE_ASKED] * asked]:
        raise Refused(parts[0].name, faults)
    if layout.is_matrix and parts[0].read_head().startswith(b"PAR1"):
        source = _as_text(parts[0])
    read = _read_parquet if layout.format is Format.PARQUET else _read_text
    return read(source, layout, options, tell)


def layout_of(source: Source, options: ReadOptions) -> Layout:
    """What is found of a file before it is read: how it is built, and which public set it is.

    Raises BadRatings where it is no table, or too large.
    """
    known = public_sets.recognise_public_set(source)
    # A public set on disk is what it is; the limit guards uploads and unknown files.
    on_disk = known is not None and source.path is not None
    source.check_size(max(options.max_bytes, 2000 * MEGABYTE) if on_disk else options.max_bytes)
    parquet = source.read_head().startswith(b"PAR1")
    layout = (_parquet_layout if parquet else recognise)(source, options)
    # A set that is recognised is laid out as its makers say.
    return replace(layout, known=known, guessed=() if known else layout.guessed)


RANGE_ASKED = Fault(
    "the public rating range is not known",
    "give its low and high end. It is not taken from the data, because the smallest and the"
    " largest rating are somebody's private values",
    ("range=LOW:HIGH",),
)


def _read_text(
    source: Source, layout: Layout, options: ReadOptions, tell: ReadProgress | None
) -> Table:
    import pyarrow as pa

    names, places = layout.columns, [*layout.roles.values()]
    counted = layout.format is Format.JESTER
    cutter: Lines
    if layout.format is Format.JSON:
        cutter = Objects(layout.skip, [names[k] for k in places])
    elif layout.shape is FileShape.ADJACENCY:
        cutter = Adjacency(layout.skip, layout.separator)
    else:
        plain = {layout.roles["time"]} if "time" in layout.roles else set()
        used = [*([0] * counted), *places, *layout.ratings]
        cutter = Fields(layout.skip, layout.separator, len(names), used, plain)
    pieces: Iterable[str] = blocks(source, layout.encoding, tell)
    if layout.written:
        pieces = [rewrite(layout.written, "".join(pieces))]
    read = _Columns(list)
    lines = [np.zeros(0, dtype=np.int64)]
    stated: list[float | None] = []
    rows = unusable = 0
    for columns, at in cutter.cut(pieces):
        unusable = sum(kind.count for kind in cutter.broken.values())
        roles: Iterable[str] = layout.roles
        if layout.is_matrix:
            if counted:
                stated += map(number_of, columns.pop(0).to_pylist())
            if not places:  # each line is somebody, or an item, without a name
                columns = [pa.array(map(str, range(rows + 1, rows + len(at) + 1))), *columns]
            items = [names[k] for k in layout.ratings]
            if not layout.header:
                items = [str(k) for k in range(1, len(items) + 1)]
            rows += len(at)
            columns, at = _cells(columns, at, items, "99" * counted)
            roles = (*layout.axes, "rating")
        else:
            rows += len(at)
        read.add(dict(zip(roles, columns, strict=True)))
        _check_rows(source, read.count + unusable, options.max_rows)  # of a matrix, its cells
        lines.append(at)
    if layout.shape is FileShape.ADJACENCY:
        rows = len(np.unique(np.concatenate(lines)))
    count = LineCount(
        lines=cutter.lines,
        header=int(layout.header),
        blank=cutter.blank + layout.skip - layout.header,
        continued=cutter.continued,
        rows=rows + unusable,
        entries=read.count + unusable,
    )
    at = np.concatenate(lines)
    table = read.table(source, layout, options, lines=at, broken=cutter.broken, count=count)
    if not counted:
        return table
    table = replace(table, user=recode(table.user, _numbered(rows)))  # some may have rated nothing
    seen = np.bincount(table.user.codes, minlength=rows)
    for row in np.flatnonzero(np.array(stated, dtype=float) != seen):
        raise BadRatings(
            f"line {row + 1} of {source.name} says {stated[row]:g} jokes were rated,"
            f" but {seen[row]} are (99 stands for not rated)"
        )
    return table


def _cells(columns: Sequence[Any], at: Ints, items: Sequence[str], missing: str) -> Cut:
    """Users, items and ratings of the filled cells of a matrix, row by row, and their lines.

    missing: the number, as text, that stands for "not rated"; "" if there is none.
    """
    import pyarrow as pa

    users, *cells = columns
    texts = _joined(list(map(_texts, cells)))  # column by column
    absent = number_of(missing)
    filled = np.array([
        text != "" and (absent is None or number_of(text) != absent)
        for text in texts.dictionary.to_pylist()
    ])  # fmt: skip
    row, item = np.nonzero(filled[texts.indices.to_numpy()].reshape(len(items), -1).T)
    items_of = pa.DictionaryArray.from_arrays(item.astype(np.int32), pa.array(items, pa.string()))
    return [_texts(users).take(row), items_of, texts.take(item * len(at) + row)], at[row]


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
        chosen = options.layout in (FileShape.WIDE, FileShape.TRANSPOSED)
        numbers = sum(_is_number(pa, field.type) for field in schema)
        if chosen or (layout.faults and not options.columns and numbers > len(ROLES)):
            found = recognise(_as_text(source), replace(options, header=Header.YES))
            if found.is_matrix or (found.faults and found.faults[0].option == "layout"):
                return found
    return replace(layout, faults=layout.faults or tuple(faults[:1]))


def _as_text(source: Source) -> Source:
    """A Parquet file as CSV: so a matrix is read."""
    from pyarrow import csv

    with _parquet(source) as (stored, pa):
        groups = map(stored.metadata.row_group, range(stored.metadata.num_row_groups))
        _check_decoded(source, sum(group.total_byte_size for group in groups))
        stream = pa.BufferOutputStream()
        csv.write_csv(stored.read(use_threads=False), stream)
        return Source(source.name, stream.getvalue().to_pybytes())


def _is_number(pa: Any, kind: Any) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _usable(pa: Any, kind: Any, role: str) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    number = _is_number(pa, kind)
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


def _read_parquet(
    source: Source, layout: Layout, options: ReadOptions, tell: ReadProgress | None
) -> Table:
    names = {role: layout.columns[k] for role, k in layout.roles.items()}
    read, counts = _Columns(list), []
    parts = source.parquet_files or [source]
    for part in parts:
        before = read.count
        # As dictionaries, a column of a few long texts repeated a million times stays small.
        with _parquet(part, list(names.values())) as (stored, pa):
            stated = before + stored.metadata.num_rows
            _check_rows(source, stated, options.max_rows)
            for k in range(stored.metadata.num_row_groups):
                # Not of its columns: to look at these can end the process where a file is damaged.
                _check_decoded(part, stored.metadata.row_group(k).total_byte_size)
            for batch in stored.iter_batches(_BATCH, columns=[*names.values()], use_threads=False):
                _check_decoded(part, batch.nbytes)
                _check_rows(source, read.count + len(batch), options.max_rows)
                columns = {role: _present(pa, batch.column(name)) for role, name in names.items()}
                for role in ("user", "item"):
                    columns[role] = _as_ids(pa, columns[role], names[role], part)
                read.add(columns)
                check_cancelled()
                if tell is not None:
                    tell(read.count, max(stated, read.count))
        counts.append(read.count - before)
    count = LineCount(lines=read.count, rows=read.count, entries=read.count)
    at = np.concatenate([np.arange(1, rows + 1) for rows in counts])
    files = None
    if source.parquet_files:
        codes = np.repeat(np.arange(len(parts), dtype=np.int32), counts)
        files = Column(codes, Names(pa.array([part.name for part in parts])))
    with _parquet(parts[0]):  # damaged texts come to light when they are looked at
        return read.table(source, layout, options, lines=at, count=count, files=files)


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
        _shared(columns)
        for columns in zip(*((table.user, table.item) for table in tables), strict=True)
    )
    return [
        replace(table, user=recode(table.user, users), item=recode(table.item, items))
        for table in tables
    ]


def _shared(columns: Sequence[Column]) -> Names:
    """The ids of all of them, each once."""
    import pyarrow as pa

    return _ids(pa.chunked_array([one.names.texts for one in columns]).combine_chunks()).names


def recode(column: Column, names: Names) -> Column:
    """The same ids with codes into other names, which must hold them."""
    from pyarrow import compute

    place = compute.index_in(column.names.texts, value_set=names.texts).to_numpy()
    return Column(np.append(place, np.int32(-1))[column.codes], names)


def _keys(texts: Any) -> NDArray[Any] | None:
    """Numbers in the natural order of texts, equal where these are: whole numbers where all are,
    else of what follows a common beginning; None where that is longer than seven bytes."""
    import pyarrow as pa
    from pyarrow import compute

    if not len(texts):
        return np.zeros(0, dtype=np.int64)
    ends = [end.encode() for end in compute.min_max(texts).as_py().values()]
    if all(end[:1].isdigit() for end in ends):
        with suppress(pa.ArrowInvalid):
            # No leading zero and no sign: two texts are never one number.
            whole = texts.cast(pa.int64())
            values: NDArray[Any] = whole.to_numpy()
            if values.max() < 10**18 and whole.cast(pa.string()).equals(texts):
                return values
    alike = (one == other for one, other in zip(*ends, strict=False))
    begin = sum(takewhile(bool, alike))
    _, places, content = texts.buffers()
    bounds = np.frombuffer(places, dtype=np.int32)[texts.offset :][: len(texts) + 1]
    lengths = (np.diff(bounds) - begin).astype(np.uint64)
    if lengths.max() > 7:
        return None
    padded = np.append(np.frombuffer(content or b"", dtype=np.uint8), np.zeros(8, np.uint8))
    words = np.ndarray(len(padded) - 7, dtype=">u8", buffer=padded, strides=(1,))
    rest = 64 - 8 * lengths
    found: NDArray[Any] = words[bounds[:-1] + begin].astype(np.uint64) >> rest << rest | lengths
    return found


def natural_order(texts: Any) -> NDArray[np.intp]:
    """Positions that sort ids: as numbers where all are whole numbers, else as text."""
    import pyarrow as pa
    from pyarrow import compute

    texts = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
    keys = _keys(texts)
    if keys is None:
        return np.asarray(compute.sort_indices(texts), dtype=np.intp)
    return np.argsort(keys)


def _placed(columns: Sequence[Column], used: Bools) -> list[Column]:
    """Columns over those of their names that are used, in natural order."""
    names = columns[0].names.texts
    there = np.flatnonzero(used)
    order = there[natural_order(names.take(there))]
    place = np.full(len(names) + 1, -1, dtype=np.int32)  # the last is where code -1 points
    place[order] = np.arange(len(order), dtype=np.int32)
    found = Names(names.take(order))
    return [Column(place[column.codes], found) for column in columns]


def _numbered(count: int) -> Names:
    import pyarrow as pa

    return Names(pa.array(number_ids(count)))


# From rows as read to validated ratings -----------------------------------------------------------

FEW = 5  # a user with fewer ratings is worth a sentence
_LATEST = 253_402_300_799.0  # Unix seconds at the end of the year 9999
_ENOUGH = 100  # ratings from which on their counts say who may be the person
_ONCE = 0.95  # share of the users with one rating from which on they may be no persons
CHOSEN = "not rated or of other events, as the options say"
_ZEROS = 0.3  # share of the cells of a full matrix from which on 0 may stand for none
_WORDS = 20  # as ratings at most
_FEW_MARKS = 2  # so often a number beyond the range is a mistake, not a mark
_REPEATS = ("duplicates=last", "duplicates=mean")


@dataclass(frozen=True, eq=False)
class Checked:
    """A table judged by the options, nothing decided yet.

    faults: all that keeps it from being read. rows: of the table, in the order of their cells, the
    last of a repeated pair where it stands; values, times: of these. report: what was found and
    done; count: what became of every line. low, high: infinite where no range is known.
    """

    table: Table
    faults: tuple[Fault, ...]
    low: float
    high: float
    rows: Ints
    values: Floats
    times: Ints | None
    clicks: bool
    report: tuple[str, ...]
    count: LineCount


def clean(options: ReadOptions, *tables: Table) -> tuple[list[Ratings], list[Checked]]:
    """Ratings of a table, or of training and test rows over one shared index space; and how each
    row was judged. Raises Refused with everything that is wrong, where the options do not say to
    leave such rows out or how to settle repeated pairs.
    """
    first, *others = merge(tables)  # of test ratings everybody may have one
    judged = [check(first, options), *(check(one, options, asks=False) for one in others)]
    for one in judged:
        if one.faults:
            raise Refused(one.table.source.name, one.faults)
    return build(judged), judged


def check(table: Table, options: ReadOptions, *, asks: bool = True) -> Checked:
    """Judge every row; nothing is raised for what is wrong with them.

    asks: whether counts that say that the users may be no persons are a fault.
    """
    faults: list[Fault] = []
    known, clicks = table.layout.known, table.layout.clicks
    low, high, origin = 0.0, 1.0, "clicks"
    if options.low is not None and options.high is not None:
        low, high, origin = options.low, options.high, "the public range as given"
    elif known is not None:
        low, high, origin = known.low, known.high, f"the public range of {known.title}"
    elif not clicks and options.for_ranking:
        clicks = True
        table = replace(table, ratings=np.where(np.isfinite(table.ratings), 1.0, table.ratings))
    elif not clicks:
        faults.append(RANGE_ASKED)
        low, high = -np.inf, np.inf
    if clicks and not low <= 1 <= high:
        faults.append(Fault(f"every row is a click, a 1, which {low:g}..{high:g} does not hold"))
    report = [f"{table.source.name}: {table.layout.words}"]
    if not faults:
        report.append(f"ratings lie in {low:g}..{high:g} ({origin})")
    if known is not None:
        changed = "" if known.exact else "; the file itself may have been changed"
        report.append(f"from {known.description}{changed}")
    chosen = _chosen(table, options)
    keep, unusable = _judged(table, low, high, chosen)
    left_out: dict[str, int] = {}
    if not chosen.all():
        left_out[CHOSEN] = int(np.count_nonzero(~chosen))
        report.append(f"left out: {count_words(left_out[CHOSEN], 'row')} {CHOSEN}")
    for what, number, shown, advice, answers in unusable:
        left_out[what] = number
        told = f"{count_words(number, 'row')} {what}, first {shown}"
        if options.bad_rows is BadRows.ERROR:
            faults.append(Fault(told, advice, (*answers, "bad_rows=leave-out")))
        else:
            report.append(f"left out: {told}")
    if not keep.any() and (options.bad_rows is BadRows.LEAVE_OUT or not left_out):
        why = f": {report[-1]}" if left_out else ""
        faults.append(Fault(f"no row of it can be used{why}"))
    check_cancelled()
    times, note = _seconds(table, keep)
    if note and options.time not in (None, NO_COLUMN):
        faults.append(Fault(note, "choose another column, or none", ("time=none",)))
    elif note:
        report.append(f"times are left alone: {note}")
    rows, values, repeated, words = _settle(table, keep, times, options, clicks, faults)
    report.append(words)
    said = options.missing if table.layout.is_matrix else options.user
    asks = asks and said is None
    if asks and (doubt := _doubt(table, rows)) is not None:
        faults.append(doubt)
    for what, column in (("users", table.user), ("items", table.item)):
        if column.names and all(re.fullmatch(r"-?\d+\.0+", name) for name in column.names):
            report.append(
                f"the ids of the {what} look like {column.names[0]}: whole numbers written with"
                " decimals, kept as they are"
            )
    count = replace(table.count, used=len(rows), left_out=left_out, repeated=repeated)
    report.insert(1, line_words(count))
    times = None if times is None else times[rows]
    return Checked(
        table, tuple(faults), low, high, rows, values, times, clicks, tuple(report), count
    )


def _doubt(table: Table, rows: Ints) -> Fault | None:
    """Why the users may be no persons, by how many ratings they have, where nobody said it."""
    layout = table.layout
    if layout.known is not None or not len(rows):
        return None
    if layout.is_matrix:
        zeros = np.count_nonzero(table.ratings[rows] == 0) / len(rows)
        full = len(rows) == len(table.user.names) * len(table.item.names)
        what = f"{zeros:.0%} of the cells are 0, and none is empty"
        advice = "say whether 0 stands for 'not rated'"
        asked = full and zeros >= _ZEROS and layout.format is not Format.JESTER
        return Fault(what, advice, ("missing=0", "missing=none")) if asked else None
    if len(rows) < _ENOUGH:
        return None
    counts = [np.bincount(column.codes[rows]) for column in (table.user, table.item)]
    users, items = (np.count_nonzero(count) for count in counts)
    name = layout.name_of("user")
    answers: list[str] = []
    if np.count_nonzero(counts[0] == 1) >= _ONCE * users:
        what = f"nearly all of the {users:,} users in {name} have one rating"
    elif "user" in layout.guessed and 2 * users <= items:
        other = layout.name_of("item")
        what = f"{name} would be {users:,} users, and {other} {items:,} items with fewer ratings"
        first, second = (layout.roles[role] + 1 for role in ("user", "item"))
        answers = [f"user={second} and item={first}", f"user={first} and item={second}"]
    else:
        return None
    return Fault(what, "say which column names the person", (*answers, "user=COLUMN"))


def count_words(number: int, what: str) -> str:
    """So many of a thing: '1 row', '2,000 rows'."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def size_words(ratings: Ratings) -> str:
    """How many users, items and ratings there are."""
    public = ratings.public
    return (
        f"{public.users:,} users, {public.items:,} items, {len(ratings):,} ratings:"
        f" {100 * ratings.density:.3g} % of all cells"
    )


def facts_of(ratings: Ratings) -> tuple[str, ...]:
    """What is worth knowing about valid ratings: size, empty and short rows, a single value."""
    public = ratings.public
    counts = np.diff(ratings.indptr)
    lines = [
        size_words(ratings),
        f"a user has {counts.min():,} to {counts.max():,} ratings, the median is"
        f" {np.median(counts):g}",
    ]
    few = (counts > 0) & (counts < FEW)
    unrated = public.items - len(np.unique(ratings.items))
    for number, who, what in (
        (
            int(np.count_nonzero(counts == 0)),
            "user",
            "no ratings: what is predicted for them rests on others alone",
        ),
        (int(np.count_nonzero(few)), "user", f"fewer than {FEW} ratings"),
        (unrated, "item", "no ratings"),
    ):
        if number:
            lines.append(f"{count_words(number, who)} {'has' if number == 1 else 'have'} {what}")
    if ratings.values.min() == ratings.values.max():
        value = float(ratings.values[0])
        clicks, equal = "as clicks are: items can be ranked", "so there is nothing to tell apart"
        lines.append(f"all ratings are equal ({value:g}), {clicks if value == 1 else equal}")
    if ratings.times is None:
        lines.append("no times: the latest rating of a user is not known")
    return tuple(lines)


def line_words(count: LineCount) -> str:
    """What became of every line, in words."""
    parts = {
        "names the columns": count.header,
        "blank": count.blank,
        "continuing quoted text": count.continued,
    }
    found = [f"{number:,} {what}" for what, number in parts.items() if number]
    lines = ", ".join([count_words(count.rows, "row"), *found])
    if count.entries != count.rows:
        lines += f", with {count.entries:,} filled cells"
    out = sum(count.left_out.values())
    return (
        f"{count_words(count.lines, 'line')}: {lines}. {count.used:,} used, {out:,} left out,"
        f" {count.repeated:,} repeated"
    )


def rating_reader(values: str | None) -> Callable[[str], float | None]:
    """What a text stands for, as the option of reading says. Raises InvalidSetting."""
    if values is None:
        return number_of
    if values == "number":
        return lambda text: number_of(m[1]) if (m := LEADING.match(text)) else number_of(text)
    scale = KNOWLEDGE["scales"].get(values)
    if scale is None:
        pairs = [text.rpartition(":")[::2] for text in values.split(",")]
        scale = {word.strip().lower(): number_of(number.strip()) for word, number in pairs}
        if None in scale.values() or "" in scale:
            names = ", ".join(["number", *KNOWLEDGE["scales"]])
            raise InvalidSetting("values", f"WORD:NUMBER,... or one of {names}", values)
    return lambda text: scale.get(text.lower(), number_of(text))


def _chosen(table: Table, options: ReadOptions) -> Bools:
    """The rows that the options do not leave aside: not rated, or of other events."""
    chosen = np.ones(len(table.ratings), dtype=bool)
    if options.missing is not None:
        marks = [text.strip() for text in options.missing.split(",")]
        chosen = ~np.isin(table.ratings, [n for n in map(number_of, marks) if n is not None])
        if table.written is not None:
            is_mark = [name in marks for name in table.written.names]
            chosen &= ~np.array([*is_mark, False])[table.written.codes]
    if table.event is not None:
        value = str(options.event).rpartition(":")[2]
        is_value = [name == value for name in table.event.names]
        chosen &= np.array([*is_value, False])[table.event.codes]
    return chosen


def _translate(texts: set[str]) -> list[str]:
    """Options under which texts that are no numbers are ratings, or stand for none."""
    missing = {text for text in texts if text.lower() in MISSING}
    words = {text.lower() for text in texts - missing}
    none = [f"missing={','.join(sorted(missing))}"] if missing else []
    if not words:
        return none
    scales = [name for name, scale in KNOWLEDGE["scales"].items() if words <= {*scale}]
    ends = {text.partition("/")[2] for text in words}
    if all(LEADING.fullmatch(text) for text in words) and ("" in ends or len(ends) == 1):
        scales = ["number"]
    return [" and ".join([f"values={name}", *none]) for name in scales]


def _judged(
    table: Table, low: float, high: float, chosen: Bools
) -> tuple[Bools, list[tuple[str, int, str, str, list[str]]]]:
    """Of the chosen rows those that can be used, and for each kind of the others: what is wrong,
    how many, an example, what to do, and options that may make sense of them."""
    leave = "or leave such rows out"
    fill, correct = f"fill it in, {leave}", f"correct it, {leave}"
    empty, infinite = np.isnan(table.ratings), np.isinf(table.ratings)
    text = empty & (table.written.codes >= 0) if table.written else np.zeros_like(empty)
    words: list[str] = []
    if table.written and text.any():
        words = [
            table.written.names[code] for code in np.unique(table.written.codes[text & chosen])
        ]
    few = len(words) <= _WORDS
    wrong_column, translations = correct, _translate({*words}) if few else []
    if text.any() and empty.all():
        name = table.layout.name_of("rating")
        wrong_column = f"{name} may be the wrong column: choose the one that holds the ratings"
        if few and not translations:
            translations = ["values=WORD:NUMBER,..."]
            wrong_column += ", or say what its words stand for"
    with np.errstate(invalid="ignore"):
        outside = ~infinite & ((table.ratings < low) | (table.ratings > high))
    # One number beyond the range, again and again, is a mark.
    beyond = np.unique(table.ratings[outside & chosen])
    marks = [f"missing={beyond[0]:g}"] if len(beyond) == 1 and outside.sum() > _FEW_MARKS else []
    kinds: tuple[tuple[Bools, str, str, list[str]], ...] = (
        (table.user.codes < 0, "without a user", fill, []),
        (table.item.codes < 0, "without an item", fill, []),
        (_summaries(table), "with a total or a mean of other rows", f"delete it, {leave}", []),
        (empty & ~text, "without a rating", fill, []),
        (text, "with a rating that is no number", wrong_column, translations),
        (infinite, "with a rating that is not finite", correct, []),
        (
            outside,
            f"with a rating outside {low:g}..{high:g}",
            f"correct the range or the rating, {leave}",
            marks,
        ),
    )
    keep = chosen.copy()
    found: list[tuple[str, int, str, str, list[str]]] = [
        (what, broken.count, f"'{broken.example}' in line {broken.line}", correct, [])
        for what, broken in table.broken.items()
    ]
    for rows, what, advice, answers in kinds:
        bad = rows & keep
        if bad.any():
            example = _show(table, int(np.argmax(bad)))
            found.append((what, int(np.count_nonzero(bad)), example, advice, answers))
            keep &= ~bad
    return keep, found


def _summaries(table: Table) -> Bools:
    """Rows of a user or an item that is called a total or a mean: of the last lines of a file, or
    of a column of a matrix."""
    import pyarrow as pa
    from pyarrow import compute

    rows = np.zeros(len(table.lines), dtype=bool)
    last = table.lines.max(initial=0) - _FEW_MARKS
    words = pa.array(KNOWLEDGE["words"]["summary"].split())
    for column in (table.user, table.item):
        is_word = compute.is_in(compute.utf8_lower(column.names.texts), value_set=words)
        for code in np.flatnonzero(is_word.to_numpy(zero_copy_only=False)):
            mine = column.codes == code
            if table.layout.is_matrix or table.lines[mine].min() >= last:
                rows |= mine
    return rows


def _show(table: Table, row: int) -> str:
    """A row's rating and place, for a sentence."""
    value, place, text = table.ratings[row], f"in {table.place(row)}", ""
    if table.written and (code := table.written.codes[row]) >= 0:
        text = table.written.names[code]
    if text and (np.isnan(value) or "," in text):
        return f"'{text[:30]}' {place}"
    return place if np.isnan(value) else f"{value:g} {place}"


def _seconds(table: Table, keep: Bools) -> tuple[Ints | None, str]:
    """Unix seconds of every row, sense only where kept; None and why where they cannot be used."""
    if table.times is None or not keep.any():
        return None, ""
    stamps = table.times
    finite = np.isfinite(stamps) & keep
    dated = np.zeros(len(stamps), dtype=bool) if table.dated is None else table.dated
    if dated[finite].any() and not dated[finite].all():
        return None, "some are numbers and some are dates"
    numbers = np.abs(stamps[finite & ~dated])
    usual = float(np.median(numbers)) if len(numbers) else 0.0
    # The year 5138 in seconds, milliseconds, microseconds.
    unit = next((10.0**k for edge, k in ((1e17, 9), (1e14, 6), (1e11, 3)) if usual > edge), 1.0)
    with np.errstate(invalid="ignore", over="ignore"):
        seconds = np.floor(stamps / unit)
        wrong = ~(np.abs(seconds) <= _LATEST) & keep
    if wrong.any():
        first = int(np.argmax(wrong))
        return None, (
            f"{count_words(int(wrong.sum()), 'row')} without a time that is Unix seconds or a"
            f" date like 2024-03-31 18:00, first {table.place(first)}"
        )
    return np.where(keep, seconds, 0).astype(np.int64), ""


def _settle(
    table: Table,
    keep: Bools,
    times: Ints | None,
    options: ReadOptions,
    clicks: bool,
    faults: list[Fault],
) -> tuple[Ints, Floats, int, str]:
    """(rows, values, how many gave way, words): one for each pair of user and item."""
    check_cancelled()
    rows = np.flatnonzero(keep)
    cells = table.user.codes[rows].astype(np.int64) * len(table.item.names)
    cells += table.item.codes[rows]
    order = np.argsort(cells)
    if (np.diff(cells[order]) == 0).any():
        order = np.argsort(cells, kind="stable")  # rows of one cell stay in file order
        if times is not None:
            order = np.lexsort((times[rows], cells))
    rows, cells = rows[order], cells[order]
    last = np.append(np.diff(cells) != 0, True)[: len(cells)]
    values = table.ratings[rows]
    again = np.flatnonzero(~last)
    if not len(again):
        return rows, values, 0, "no user-item pair appears twice"
    user, item = (c.names[c.codes[rows[again[0]]]][:60] for c in (table.user, table.item))
    sentence = (
        f"{count_words(len(again), 'row')} repeat{'s' * (len(again) == 1)} a user-item pair, first"
        f" user '{user}' with item '{item}'"
    )
    how = options.duplicates
    if how is Duplicates.ERROR and not clicks:
        at = sorted(int(rows[k]) for k in (again[0], again[0] + 1))
        places = " and ".join(table.place(k) for k in at)
        advice = "keep one rating per pair, or use the last or the mean"
        faults.append(Fault(f"{sentence} ({places})", advice, _REPEATS))
    if how is Duplicates.MEAN:
        group = np.concatenate(([0], np.cumsum(last)[:-1]))
        values = np.bincount(group, values) / np.bincount(group)
    else:
        values = values[last]
    used = "one click is counted" if clicks else f"the {how.value} is used"
    return rows[last], values, len(again), f"{sentence}: {used}"


def build(pair: Sequence[Checked]) -> list[Ratings]:
    """Ratings over the users and items that have any, in their natural order; where a public
    catalogue holds all of them, over the catalogue.

    Of several tables over one list of users and items: over those of all of them. Raises
    BadRatings where their ranges differ.
    """
    first = pair[0]
    for one in pair[1:]:
        if (one.low, one.high) != (first.low, first.high):
            raise BadRatings(
                f"{first.table.source.name} and {one.table.source.name} have different rating"
                " ranges: give the range, low and high"
            )
    known, rows = first.table.layout.known, [one.rows for one in pair]
    whole = all(one.table.layout.format is Format.JESTER for one in pair)
    users, items = (
        _kept(columns, rows, catalogue, whole=whole)
        for columns, catalogue in zip(
            ([one.table.user for one in pair], [one.table.item for one in pair]),
            (known and known.catalogue) or (None, None),
            strict=True,
        )
    )
    check_cancelled()
    public = PublicFacts(
        users=len(users[0].names), items=len(items[0].names), low=first.low, high=first.high
    )
    return [
        Ratings.build(
            user.codes[one.rows],
            item.codes[one.rows],
            # A mean of equal numbers can lie beyond them by rounding.
            np.clip(one.values, one.low, one.high),
            public,
            times=one.times,
            user_ids=user.names,
            item_ids=item.names,
            columns=one.table.layout.used,
        )
        for one, user, item in zip(pair, users, items, strict=True)
    ]


def _kept(
    columns: Sequence[Column], rows: Sequence[Ints], catalogue: int | None, *, whole: bool
) -> list[Column]:
    """Columns over the ids that appear in the rows, or over a catalogue 1..n that holds them."""
    from pyarrow import compute

    check_cancelled()
    names = columns[0].names
    if catalogue is not None:
        full = _numbered(catalogue)
        if compute.all(compute.is_in(names.texts, value_set=full.texts)).as_py():
            return [recode(column, full) for column in columns]
    used = np.full(len(names), whole)
    for column, mine in zip(columns, rows, strict=True):
        used[column.codes[mine]] = True
    check_cancelled()
    return [*columns] if used.all() else _placed(columns, used)
