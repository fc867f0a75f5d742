"""Files of ratings, from bytes to columns of user, item, value and time, in one pass.

Ids are text from the first byte to the last; nothing is turned into a number and back. Memory is
bounded by the distinct ids and four numbers per row, however a file is compressed or quoted.
"""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.data import public_sets
from dpmc_core.data.layout import (
    Layout,
    date_of,
    find_roles,
    number_of,
    objects,
    plain_fields,
    recognise,
)
from dpmc_core.data.lines import Broken, Cutter, blocks
from dpmc_core.data.public_sets import Known
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
from dpmc_core.errors import BadRatings
from dpmc_core.stopping import look

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_EXAMPLES = 20
_DISTINCT = 100_000  # distinct number texts remembered at a time


@dataclass(frozen=True, eq=False)
class Column:
    """Ids of one column: names[code] for each row, in order of appearance; code -1: missing."""

    codes: Codes
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows as read, not yet validated.

    ratings: NaN where missing or no number; text: where there was a text that is no number, of
    which examples holds some. times: as numbers or dates say, NaN where neither, or None where
    there is no column. dated: which of them are dates.
    lines: the line of each row, or its number from 1 where a file has no lines. broken: lines that
    could not be cut. count: of lines and entries, nothing used yet. words: the layout in words.
    whole: every user and item stays, rated or not: the file is a public matrix of known size.
    """

    source: Source
    known: Known | None
    user: Column
    item: Column
    ratings: Floats
    text: Bools
    examples: dict[int, str]
    times: Floats | None
    dated: Bools | None
    lines: Ints
    broken: dict[str, Broken]
    count: LineCount
    words: str
    rating_name: str
    clicks: bool = False
    row_name: str = "line"
    whole: bool = False

    def place(self, row: int) -> str:
        """Where a person finds the row."""
        return f"{self.row_name} {self.lines[row]}"


class _Ids:
    """A column of ids, each text given a code as it first appears."""

    def __init__(self) -> None:
        self._codes: list[Codes] = []
        self._known: defaultdict[str, int] = defaultdict()
        self._known.default_factory = self._known.__len__
        self._known[""]  # code 0, which becomes -1

    def code(self, texts: Iterable[str], count: int) -> Codes:
        return np.fromiter(map(self._known.__getitem__, map(str.strip, texts)), np.int32, count)

    def add(self, texts: Sequence[str]) -> None:
        self.append(self.code(texts, len(texts)))

    def append(self, codes: Codes) -> None:
        self._codes.append(codes)

    def column(self) -> Column:
        return Column(_joined(self._codes, np.int32) - np.int32(1), tuple(self._known)[1:])


class _Numbers:
    """A column of ratings as text: values, NaN where missing or no number, and which are texts."""

    def __init__(self) -> None:
        self._values: list[Floats] = []
        self._texts: list[int] = []
        self._commas: list[int] = []
        self._cache: dict[str, float] = {}
        self._points = False
        self._count = 0
        self.examples: dict[int, str] = {}

    def add(self, texts: Sequence[str]) -> None:
        cache = self._cache
        if len(cache) > _DISTINCT:
            cache.clear()
        trimmed = list(map(str.strip, texts))
        for text in set(trimmed) - cache.keys():
            value = number_of(text)
            cache[text] = np.nan if value is None else value
            self._points |= value is not None and "." in text
        values = np.fromiter(map(cache.__getitem__, trimmed), np.float64, len(trimmed))
        for k in np.flatnonzero(np.isnan(values)).tolist():
            if trimmed[k]:
                self._no_number(k, trimmed[k])
        if any("," in text for text in cache):
            self._commas += [
                self._count + k
                for k, text in enumerate(trimmed)
                if "," in text and not np.isnan(values[k])
            ]
            for k in self._commas[:_EXAMPLES]:
                if k >= self._count:
                    self.examples.setdefault(k, trimmed[k - self._count])
        self._append(values)

    def add_values(self, values: Floats) -> None:
        """Numbers that a file holds as such; NaN: missing."""
        self._append(values)

    def _no_number(self, k: int, text: str) -> None:
        self._texts.append(self._count + k)
        if len(self.examples) < _EXAMPLES:
            self.examples[self._count + k] = text

    def _append(self, values: Floats) -> None:
        self._values.append(values)
        self._count += len(values)

    def column(self) -> tuple[Floats, Bools]:
        """Where some ratings have a decimal point, one with a comma may be in thousands: no
        number."""
        values = _joined(self._values, np.float64)
        text = np.zeros(len(values), dtype=bool)
        text[self._texts] = True
        if self._points and self._commas:
            text[self._commas] = True
            values[self._commas] = np.nan
        return values, text


class _Times:
    """A column of times as numbers or as dates."""

    def __init__(self) -> None:
        self._values: list[Floats] = []
        self._dated: list[Bools] = []

    def add(self, texts: Sequence[str]) -> None:
        whole = "".join(texts)
        if whole.isascii() and "_" not in whole:
            try:
                values = np.fromiter(map(float, texts), np.float64, len(texts))
            except ValueError:
                pass
            else:
                self.add_values(values, dated=False)
                return
        values, dated = np.full(len(texts), np.nan), np.zeros(len(texts), dtype=bool)
        for k, text in enumerate(map(str.strip, texts)):
            value = None if "," in text else number_of(text)
            if value is None:
                value, dated[k] = date_of(text), True
            if value is not None:
                values[k] = value
        self._values.append(values)
        self._dated.append(dated)

    def add_values(self, values: Floats, *, dated: bool) -> None:
        self._values.append(values)
        self._dated.append(np.full(len(values), dated))

    def column(self) -> tuple[Floats, Bools]:
        return _joined(self._values, np.float64), _joined(self._dated, np.bool_)


class _Columns:
    """The columns of a table while they are read."""

    def __init__(self) -> None:
        self.users, self.items, self.numbers, self.times = _Ids(), _Ids(), _Numbers(), _Times()

    def table(self, source: Source, *, timed: bool, clicks: bool, **about: Any) -> Table:
        """The table they make. clicks: no ratings were read, each row is a 1."""
        users, items = self.users.column(), self.items.column()
        values, text = self.numbers.column()
        if clicks:
            values, text = np.ones(len(users.codes)), np.zeros(len(users.codes), dtype=bool)
        times, dated = self.times.column()
        return Table(
            source=source,
            user=users,
            item=items,
            ratings=values,
            text=text,
            examples=self.numbers.examples,
            times=times if timed else None,
            dated=dated,
            clicks=clicks,
            **about,
        )


def _joined(parts: Sequence[NDArray[Any]], kind: type[Any]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=kind)


def read_table(
    source: Source, options: ReadOptions, tell: Tell | None = None, *, ask_range: bool = True
) -> Table:
    """Parse a file in any known layout. Raises BadRatings in a sentence that names the file.

    tell: told how far the reading is, several times a megabyte. What is missing is asked for before
    the file is read, the public range included unless ask_range is False.
    """
    known = known_set(source, options)
    head = parquet_head(source, options) if is_parquet(source) else None
    layout = head or recognise(source, options)
    faults = list(layout.faults)
    ranged = options.low is not None or known is not None or layout.clicks or options.for_ranking
    if ask_range and not ranged:
        faults.append(RANGE_ASKED)
    if faults:
        raise Refused(source.name, faults)
    if isinstance(layout, ParquetHead):
        return _read_parquet(source, layout, options, tell)
    if layout.jester:
        return _read_jester(source, layout, known, tell)
    return _read_text(source, layout, options, known, tell)


def known_set(source: Source, options: ReadOptions) -> Known | None:
    """The public set that a file is. Raises BadRatings where the file is too large."""
    known = public_sets.recognise(source)
    # A public set on disk is what it is; the limit guards uploads and unknown files.
    on_disk = known is not None and source.path is not None
    source.check_size(max(options.max_bytes, 2000 * MEGABYTE) if on_disk else options.max_bytes)
    return known


def is_parquet(source: Source) -> bool:
    return source.head().startswith(b"PAR1")


RANGE_ASKED = Fault(
    "the public rating range is not known",
    "give its low and high end. It is not taken from the data, because the smallest and the"
    " largest rating are somebody's private values",
    ("range=LOW:HIGH",),
)


def _read_text(
    source: Source, layout: Layout, options: ReadOptions, known: Known | None, tell: Tell | None
) -> Table:
    wide = layout.shape is FileShape.WIDE
    roles = layout.roles
    used = tuple(range(layout.width)) if wide else tuple(roles.values())
    cutter = Cutter(layout.separator, layout.width, used, layout.skip)
    pieces = blocks(source, layout.encoding, tell)
    read = _Columns()
    lines: list[Ints] = []
    rows = entries = 0

    def take(columns: Sequence[Sequence[str]], at: Ints) -> None:
        nonlocal entries
        entries += len(at)
        _check_rows(source, entries, options.max_rows)  # of a matrix, its cells
        read.users.add(columns[0])
        read.items.add(columns[1])
        if not layout.clicks:
            read.numbers.add(columns[2])
        if "time" in roles:
            read.times.add(columns[-1])
        lines.append(at)

    places = tuple(roles.values())
    cut = cutter.rows(pieces)
    if layout.json:
        cut = _object_rows(pieces, cutter, [(layout.columns or ())[k] for k in places])
        places = tuple(range(len(places)))
    for found, at in cut:
        spoilt = sum(kind.count for kind in cutter.broken.values())
        _check_rows(source, entries + spoilt + len(found), options.max_rows)
        if not found:
            continue
        if not layout.json:
            found, at = _without_blank(found, at, cutter)
        rows += len(found)
        if wide:
            take(*_cells(found, at, layout))
            continue
        take([list(map(itemgetter(k), found)) for k in places], at)
    unusable = sum(kind.count for kind in cutter.broken.values())
    return read.table(
        source,
        timed="time" in roles,
        clicks=layout.clicks,
        known=known,
        lines=_joined(lines, np.int64),
        broken=cutter.broken,
        count=LineCount(
            lines=cutter.lines,
            header=int(layout.header),
            blank=cutter.blank + layout.skip - layout.header,
            continued=cutter.continued,
            rows=rows + unusable,
            entries=entries + unusable,
        ),
        words=layout.words,
        rating_name="the ratings" if wide or layout.clicks else layout.name_of("rating"),
    )


def _without_blank(rows: list[list[str]], at: Ints, cutter: Cutter) -> tuple[list[list[str]], Ints]:
    """Rows that hold anything: spreadsheets end in lines of separators alone."""
    if all(map(str.strip, map(itemgetter(0), rows))):
        return rows, at
    filled = [k for k, row in enumerate(rows) if any(text.strip() for text in row)]
    cutter.blank += len(rows) - len(filled)
    return [rows[k] for k in filled], at[filled]


def _cells(
    rows: list[list[str]], at: Ints, layout: Layout
) -> tuple[tuple[list[str], list[str], list[str]], Ints]:
    """The filled cells of a users x items matrix as (users, items, ratings), and their lines."""
    names = layout.columns or ()
    cells = [
        (row[0], name, text, line)
        for row, line in zip(rows, at.tolist(), strict=True)
        for name, text in zip(names[1:], row[1:], strict=True)
        if text.strip()
    ]
    users, items, texts, lines = (list(part) for part in zip(*cells, strict=True)) if cells else (
        [], [], [], []
    )  # fmt: skip
    return (users, items, texts), np.array(lines, dtype=np.int64)


def _object_rows(
    pieces: Iterator[str], cutter: Cutter, wanted: Sequence[str]
) -> Iterator[tuple[list[list[str]], Ints]]:
    """The wanted fields of JSON lines, as rows of text."""
    for piece in pieces:
        rows, numbers = [], []
        lines = piece.split("\n")[:-1]
        for line, one in zip(lines, objects(lines), strict=True):
            cutter.lines += 1
            if not line.strip():
                cutter.blank += cutter.lines > cutter.skip
                continue
            row = None if one is None else plain_fields(one, wanted)
            if row is None:
                cutter.spoil("without a JSON object of plain values", cutter.lines, line)
            else:
                rows.append(row)
                numbers.append(cutter.lines)
        yield rows, np.array(numbers, dtype=np.int64)


def _read_jester(source: Source, layout: Layout, known: Known | None, tell: Tell | None) -> Table:
    cutter = Cutter(",", 101, tuple(range(101)), layout.skip)
    parts: list[Floats] = []
    for rows, at in cutter.rows(blocks(source, layout.encoding, tell)):
        try:
            parts.append(np.array(rows, dtype=np.float64).reshape(len(rows), 101))
        except ValueError:
            raise BadRatings(
                f"{source.name} has a rating that is no number between line {at[0]} and {at[-1]}"
            ) from None
    if cutter.broken:
        what, kind = next(iter(cutter.broken.items()))
        raise BadRatings(f"line {kind.line} of {source.name} is {what}")
    cells = np.concatenate(parts)
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
    return Table(
        source=source,
        known=known,
        user=Column(users, tuple(str(k + 1) for k in range(len(values)))),
        item=Column(items, tuple(str(k + 1) for k in range(100))),
        ratings=values[seen],
        text=np.zeros(len(users), dtype=bool),
        examples={},
        times=None,
        dated=None,
        lines=users.astype(np.int64) + 1,
        broken={},
        count=LineCount(
            lines=cutter.lines,
            blank=cutter.blank + layout.skip,
            rows=len(values),
            entries=len(users),
        ),
        words=layout.words,
        rating_name="the ratings",
        whole=True,
    )


# Parquet ------------------------------------------------------------------------------------------

_DECODED = 1000 * MEGABYTE  # a row group's size once it is unpacked
_BATCH = 65_536  # rows
_DIGITS = {16: 11, 32: 24, 64: 53}  # of a float's bits those that tell whole numbers apart
_NO_DATE = -9.223372036854e18  # ns: what pandas writes for a missing date


@dataclass(frozen=True)
class ParquetHead:
    """names: of the columns; rows: how many the file says it has; roles: as of a text layout."""

    names: tuple[str, ...]
    rows: int
    roles: dict[str, int]
    faults: tuple[Fault, ...]
    words: str

    @property
    def clicks(self) -> bool:
        return "rating" not in self.roles


def parquet_head(source: Source, options: ReadOptions) -> ParquetHead:
    """The columns of a Parquet file. Raises BadRatings."""
    with _parquet(source) as (stored, pa):
        schema, rows = stored.schema_arrow, stored.metadata.num_rows
        names = tuple(str(name) for name in schema.names)
        roles, guessed, faults = find_roles(options, names, header=True)
        for role, k in roles.items():
            kind = schema.field(k).type
            if not faults and not _usable(pa, kind, role):
                what = f"column '{names[k]}' holds {kind}, which is no {role}"
                faults.append(Fault(what, "choose another column", (f"{role}=COLUMN",)))
    order = ", ".join(f"{role} = '{names[k]}'" for role, k in roles.items())
    taken = " (guessed by position: choose them by hand if they are wrong)" if guessed else ""
    clicks = "" if "rating" in roles else "; every row is a click"
    return ParquetHead(names, rows, roles, tuple(faults), f"Parquet; {order}{taken}{clicks}")


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


class _parquet:
    """Opens a Parquet file; whatever pyarrow finds wrong with it becomes one sentence."""

    def __init__(self, source: Source, strings: Sequence[str] = ()) -> None:
        self._source, self._strings = source, strings

    def __enter__(self) -> tuple[Any, Any]:
        try:
            self._pa = importlib.import_module("pyarrow")
            parquet = importlib.import_module("pyarrow.parquet")
        except ImportError:
            raise BadRatings(
                f"{self._source.name} is a Parquet file; reading it needs the package pyarrow"
                " (pip install pyarrow), or save the ratings as CSV"
            ) from None
        self._file = self._source.open()
        try:
            stored = parquet.ParquetFile(
                self._file,
                read_dictionary=list(self._strings),
                page_checksum_verification=True,
            )
        except Exception as error:
            self.__exit__(type(error), error, None)
            raise
        return stored, self._pa

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: object) -> None:
        self._file.close()
        ours = (BadRatings,)
        theirs = (
            self._pa.ArrowException,
            OSError, ValueError, TypeError, LookupError, ArithmeticError, RuntimeError, MemoryError,
        )  # fmt: skip
        if isinstance(error, theirs) and not isinstance(error, ours):
            reason = (str(error).splitlines() or ["it is damaged"])[0][:200]
            raise BadRatings(
                f"{self._source.name} is not a readable Parquet file: {reason}"
            ) from None


def _read_parquet(
    source: Source, head: ParquetHead, options: ReadOptions, tell: Tell | None
) -> Table:
    _check_rows(source, head.rows, options.max_rows)
    names = [head.names[k] for k in head.roles.values()]
    read = _Columns()
    done = 0
    # As dictionaries, a column of a few long texts repeated a million times stays small.
    with _parquet(source, names) as (stored, pa):
        for k in range(stored.metadata.num_row_groups):
            # Not of its columns: to look at these can end the process where a file is damaged.
            _check_decoded(source, stored.metadata.row_group(k).total_byte_size)
        for batch in stored.iter_batches(_BATCH, columns=names, use_threads=False):
            _check_decoded(source, batch.nbytes)
            done += len(batch)
            _check_rows(source, done, options.max_rows)
            columns = {role: batch.column(head.names[k]) for role, k in head.roles.items()}
            for role, ids in (("user", read.users), ("item", read.items)):
                _add_ids(pa, ids, columns[role], f"'{head.names[head.roles[role]]}'", source)
            if "rating" in columns:
                _add_numbers(pa, read.numbers, columns["rating"])
            if "time" in columns:
                _add_times(pa, read.times, columns["time"])
            look()
            if tell is not None:
                tell(done, max(head.rows, done))
    return read.table(
        source,
        timed="time" in head.roles,
        clicks=head.clicks,
        known=None,
        lines=np.arange(1, done + 1),
        broken={},
        count=LineCount(lines=done, rows=done, entries=done),
        words=head.words,
        rating_name="the ratings" if head.clicks else f"'{head.names[head.roles['rating']]}'",
        row_name="row",
    )


def _check_decoded(source: Source, size: int) -> None:
    if size > _DECODED:
        raise BadRatings(
            f"{source.name} holds a row group of {size / MEGABYTE:,.0f} MB once it is unpacked, the"
            f" limit is {_DECODED / MEGABYTE:,.0f} MB: write smaller row groups"
        )


def _add_ids(pa: Any, ids: _Ids, column: Any, name: str, source: Source) -> None:
    """Ids as text; whole numbers that pandas turned into floats as whole numbers again."""
    if pa.types.is_dictionary(column.type):
        places = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        distinct, back = np.unique(places, return_inverse=True)
        present = distinct[distinct >= 0]
        texts = column.dictionary.take(pa.array(present)).to_pylist()
        words = ["" if text is None else str(text) for text in texts]
        words = words if len(present) == len(distinct) else ["", *words]
        ids.append(ids.code(words, len(words))[back])
        return
    if pa.types.is_floating(column.type):
        values = column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
        bits = column.type.bit_width
        digits = _DIGITS[bits]
        if (np.abs(values[~np.isnan(values)]) >= 2.0**digits).any():
            what = (
                f"column {name} holds ids as float{bits}, where different ids have become one from"
                f" 2^{digits} = {2**digits:,} on"
            )
            raise Refused(source.name, [Fault(what, "write ids as text or as whole numbers")])
        ids.add(
            ["" if v != v else str(int(v)) if v == int(v) else repr(v) for v in values.tolist()]
        )
        return
    ids.add(["" if v is None else str(v) for v in column.to_pylist()])


def _add_numbers(pa: Any, numbers: _Numbers, column: Any) -> None:
    column = _plain_column(pa, column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        numbers.add(["" if text is None else text for text in column.to_pylist()])
        return
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    numbers.add_values(np.array(values, dtype=np.float64))


def _add_times(pa: Any, times: _Times, column: Any) -> None:
    column = _plain_column(pa, column)
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        times.add(["" if text is None else text for text in column.to_pylist()])
        return
    dated = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    if dated:
        column = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    floats = np.array(values, dtype=np.float64)
    floats[floats <= (_NO_DATE / 1e6 if dated else _NO_DATE)] = np.nan
    times.add_values(np.floor(floats / 1000) if dated else floats, dated=dated)


def _plain_column(pa: Any, column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _check_rows(source: Source, rows: int, limit: int) -> None:
    if rows > limit:
        raise BadRatings(f"{source.name} has more than {limit:,} rows, the limit: use a part of it")


# A first look -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Preview:
    """A first look at a file before it is read: for choosing columns by hand.

    columns: names, or 1, 2, ... where there is no header; roles: role -> position from 0;
    rows: the first few as text; known: the public set it is and how it was recognised; low, high:
    its public range; None where it is none.
    columns_matter: each line is one rating, so that there are columns to choose. text: a text file,
    with an encoding. faults: what has to be said before it can be read, beside the range.
    """

    columns: tuple[str, ...]
    roles: dict[str, int]
    rows: tuple[tuple[str, ...], ...]
    words: str
    known: str | None = None
    low: float | None = None
    high: float | None = None
    columns_matter: bool = True
    text: bool = True
    faults: tuple[Fault, ...] = ()


def preview(source: Source, options: ReadOptions) -> Preview:
    """Recognise the file's layout from its beginning. Raises BadRatings as reading would."""
    known = known_set(source, options)
    if is_parquet(source):
        head = parquet_head(source, options)
        return Preview(head.names, head.roles, (), head.words, text=False, faults=head.faults)
    layout = recognise(source, options)
    return Preview(
        columns=layout.columns or tuple(str(k + 1) for k in range(layout.width)),
        roles=dict(layout.roles),
        rows=layout.rows[:8],
        words=layout.words,
        known=f"{known.title}, {known.by}" if known else None,
        low=known.low if known else None,
        high=known.high if known else None,
        columns_matter=not layout.jester and layout.shape is FileShape.ROWS,
        faults=layout.faults,
    )


# Both parts of an official pair -------------------------------------------------------------------


def merge(first: Table, second: Table) -> tuple[Table, Table]:
    """The same rows with codes into shared lists of users and items."""
    users, items = _union(first.user, second.user), _union(first.item, second.item)
    return (
        replace(first, user=users[0], item=items[0]),
        replace(second, user=users[1], item=items[1]),
    )


def _union(first: Column, second: Column) -> tuple[Column, Column]:
    names = tuple(dict.fromkeys((*first.names, *second.names)))
    return recode(first, names), recode(second, names)


def recode(column: Column, names: tuple[str, ...]) -> Column:
    """The same ids with codes into other names, which must hold them."""
    place = {name: k for k, name in enumerate(names)}
    codes = np.array([*(place[name] for name in column.names), -1], dtype=np.int32)
    return Column(codes[column.codes], names)


def natural_order(names: Sequence[str]) -> NDArray[np.intp]:
    """Positions that sort ids: as numbers where all are whole numbers, else as text."""
    lines, whole = "\n".join(("", *names, "")), "".join(names)
    longest = max(map(len, names), default=0)
    # No digit but ASCII ones and no leading zero: two texts are never one number.
    plain = whole.isascii() and whole.isdecimal() and lines.count("\n0") == lines.count("\n0\n")
    if plain and longest <= 18:
        return np.argsort(np.array(list(map(int, names)), dtype=np.int64))
    if longest <= 64:  # UTF-8 sorts as its characters do; NumPy lets other threads run meanwhile
        return np.argsort(np.array([name.encode() for name in names]), kind="stable")
    return np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.intp)
