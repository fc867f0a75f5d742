"""Files of ratings: from bytes to columns of user, item, value and time, in one pass, and from
there to validated ratings, with a report of what was found and done.

Ids are text from the first byte to the last; nothing is turned into a number and back. Memory is
bounded by the distinct ids and four numbers per row, however a file is compressed or quoted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.arrays import Bools, Floats, Ints, LateModule
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
    MATRICES,
    MISSING,
    ROLES,
    Adjacency,
    Broken,
    Cut,
    Fields,
    Format,
    Layout,
    Lines,
    Objects,
    assign_roles,
    parse_dates,
    parse_decimal,
    parse_leading_number,
    read_blocks,
    recognise,
    rewrite,
)
from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.ratings import PublicFacts, Ratings, number_ids
from dpmc_core.stopping import check_cancelled

pa, compute = LateModule("pyarrow"), LateModule("pyarrow.compute")
arrow_csv, parquet = LateModule("pyarrow.csv"), LateModule("pyarrow.parquet")

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
    times: as numbers, or as Unix seconds where they are `dated`, NaN where neither; None where
    there is no column. lines: the line of each row, or its number from 1 where a file has no
    lines. count: of lines and entries, nothing used yet. broken: lines that could not be cut.
    files: of a folder, the first row of each file and its name. event: what kind of row each is.
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
    dated: bool = False
    broken: Mapping[str, Broken] = field(default_factory=dict)
    files: Sequence[tuple[int, str]] = ()
    event: Column | None = None

    def place(self, row: int) -> str:
        """Where a person finds the row."""
        unit = "line" if self.layout.encoding else "row"
        files = [f" of {name}" for start, name in self.files if start <= row]
        return f"{unit} {self.lines[row]}{''.join(files[-1:])}"


def _trim_texts(column: Any) -> Any:
    """A column as trimmed text, each distinct text kept once."""
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    texts = compute.utf8_trim_whitespace(column.dictionary)
    if texts.equals(column.dictionary):
        return column
    encoded = texts.dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices.take(column.indices), encoded.dictionary)


def _index_ids(column: Any) -> Column:
    """The rows and texts of a dictionary of text; empty ones are missing."""
    codes = column.indices.fill_null(-1).to_numpy()
    filled = compute.not_equal(column.dictionary, "").to_numpy(zero_copy_only=False)
    return _select_names([Column(codes, Names(column.dictionary))], filled)[0]


def _convert_to_floats(column: Any) -> Floats:
    values = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
    return np.array(values, dtype=np.float64)  # a copy that can be written to


def _parse_ratings(
    column: Any, rate: Callable[[str], float | None]
) -> tuple[Floats, Column | None]:
    """Ratings, NaN where missing or no number, and the texts of those that were no plain number.

    rate: what a text stands for. Where some have a decimal point, one with a comma may be in
    thousands: no number.
    """
    if not hasattr(column, "dictionary"):
        return _convert_to_floats(column), None
    written = _index_ids(column)
    values = {text: rate(text) for text in written.names}
    if any("." in text for text, value in values.items() if value is not None):
        values |= {text: None for text in values if "," in text}
    return np.array([*values.values(), None], dtype=np.float64)[written.codes], written


def _parse_times(column: Any) -> tuple[Floats, bool]:
    """Times as numbers, or as Unix seconds where they are dates, NaN where neither; and whether
    they are dates."""
    dated = str(column.type).startswith(("timestamp", "date"))
    if dated:
        stamps = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        values = np.floor(_convert_to_floats(stamps) / 1000)
    else:
        try:
            values = _convert_to_floats(column)
        except pa.ArrowInvalid:
            values, written = _parse_ratings(
                _trim_texts(column), lambda t: None if "," in t else parse_decimal(t)
            )
            dated = bool(np.isnan(values).all())
            if dated and written:
                dates = [*parse_dates(written.names.texts), None]
                values = np.array(dates, dtype=np.float64)[written.codes]
    values[values <= _NO_DATE / (1e9 if dated else 1)] = np.nan
    return values, dated


def _join_chunks(parts: Sequence[Any]) -> Any:
    """The parts of a column as one; as text where some are numbers and some are text."""
    kinds = {part.type for part in parts}
    long = pa.string() in kinds and sum(part.nbytes for part in parts) > _DECODED
    if len(kinds) != 1 or long:
        parts = list(map(_trim_texts, parts)) or [_trim_texts(pa.array([], pa.string()))]
    return pa.chunked_array(parts).unify_dictionaries().combine_chunks()


def _compact_chunk(column: Any, role: str) -> Any:
    """A part of a column in the form that takes least memory."""
    if role == "time" and pa.types.is_string(column.type):
        with suppress(pa.ArrowInvalid):
            return column.cast(pa.float64())
    elif role in ("user", "item") or (role != "time" and _is_text(column)):
        return _trim_texts(column)
    return column


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
    is_parquet = parts[0].read_head().startswith(_PARQUET)
    if is_parquet and layout.is_matrix:
        source = _convert_to_csv(parts[0])
    # Damaged texts come to light when they are looked at.
    with _translate_errors(parts[0]) if is_parquet else nullcontext():
        return _read_rows(source, layout, options, tell)


def layout_of(source: Source, options: ReadOptions) -> Layout:
    """What is found of a file before it is read: how it is built, and which public set it is.

    Raises BadRatings where it is no table, or too large.
    """
    known = public_sets.recognise_public_set(source)
    # A public set on disk is what it is; the limit guards uploads and unknown files.
    on_disk = known is not None and source.path is not None
    source.check_size(max(options.max_bytes, 2000 * MEGABYTE) if on_disk else options.max_bytes)
    is_parquet = source.read_head().startswith(_PARQUET)
    layout = (_recognise_parquet if is_parquet else recognise)(source, options)
    # A set that is recognised is laid out as its makers say.
    return replace(layout, known=known, guessed=() if known else layout.guessed)


RANGE_ASKED = Fault(
    "the public rating range is not known",
    "give its low and high end. It is not taken from the data, because the smallest and the"
    " largest rating are somebody's private values",
    ("range=LOW:HIGH",),
)


def _make_cutter(
    source: Source, layout: Layout, options: ReadOptions, tell: ReadProgress | None
) -> Lines:
    """What cuts the file into its used columns: those with a role, and of a matrix all ratings."""
    names, places = layout.columns, [*layout.roles.values()]
    if layout.format is Format.PARQUET:
        roles = {role: names[k] for role, k in layout.roles.items()}
        return Batches(0, source, roles, options.max_rows, tell)
    if layout.format is Format.JSON:
        return Objects(layout.skip, [names[k] for k in places])
    if layout.shape is FileShape.ADJACENCY:
        return Adjacency(layout.skip, layout.separator)
    plain = {layout.roles["time"]} if "time" in layout.roles else set()
    return Fields(layout.skip, layout.separator, len(names), [*places, *layout.ratings], plain)


def _read_rows(
    source: Source, layout: Layout, options: ReadOptions, tell: ReadProgress | None
) -> Table:
    cutter = _make_cutter(source, layout, options, tell)
    chunks: Iterable[str] = read_blocks(source, layout.encoding, tell)
    if layout.written:
        chunks = [rewrite(layout.written, "".join(chunks))]
    roles = [*layout.axes, "rating"] if layout.is_matrix else [*layout.roles]
    parts: dict[str, list[Any]] = {role: [] for role in roles}
    lines = [np.zeros(0, dtype=np.int64)]
    rows = entries = 0
    for cut, at in cutter.cut(chunks):
        columns = _melt_cells(cut, at, layout, rows) if layout.is_matrix else [*cut, at]
        rows += int(np.count_nonzero(np.diff(at, prepend=0)))
        for role, column in zip(roles, columns, strict=False):
            parts[role].append(_compact_chunk(column, role))
        lines.append(columns[-1])
        entries += len(lines[-1])
        _check_rows(source, entries + cutter.unusable, options.max_rows)  # of a matrix, its cells
    joined = {role: _join_chunks(parts[role]) for role in roles}
    user = _index_ids(joined["user"])
    if layout.is_whole:  # some may have rated nothing
        user = recode(user, _number_names(rows))
    ratings, written = np.ones(entries), None
    if "rating" in roles:
        ratings, written = _parse_ratings(joined["rating"], rating_reader(options.values))
    times, dated = _parse_times(joined["time"]) if "time" in roles else (None, False)
    return Table(
        source,
        layout,
        user,
        _index_ids(joined["item"]),
        ratings,
        np.concatenate(lines),
        LineCount(
            lines=cutter.lines,
            header=int(layout.header),
            blank=cutter.blank + layout.skip - layout.header,
            continued=cutter.continued,
            rows=rows + cutter.unusable,
            entries=entries + cutter.unusable,
        ),
        written,
        times,
        dated,
        cutter.broken,
        cutter.files if source.parquet_files else (),
        _index_ids(_trim_texts(joined["event"])) if "event" in roles else None,
    )


def _melt_cells(cut: Sequence[Any], at: Ints, layout: Layout, rows: int) -> list[Any]:
    """Users, items and ratings of the filled cells of a matrix, row by row, and their lines.

    rows: how many lines of it are read so far.
    """
    # Each line may be somebody, or an item, without a name.
    first = [] if layout.roles else [pa.array(map(str, range(rows + 1, rows + len(at) + 1)))]
    users, *cells = [*first, *cut]
    names = [layout.columns[k] for k in layout.ratings] if layout.header else number_ids(len(cells))
    texts = _join_chunks(list(map(_trim_texts, cells)))  # column by column
    distinct = texts.dictionary.to_pylist()
    filled = np.array([text != "" and parse_decimal(text) != layout.missing for text in distinct])
    row, item = np.nonzero(filled[texts.indices.to_numpy()].reshape(len(names), -1).T)
    items = pa.DictionaryArray.from_arrays(item.astype(np.int32), pa.array(names, pa.string()))
    return [_trim_texts(users).take(row), items, texts.take(item * len(at) + row), at[row]]


# Parquet ------------------------------------------------------------------------------------------

_PARQUET = b"PAR1"
_DECODED = 1000 * MEGABYTE  # a row group's size once it is unpacked
_BATCH = 65_536  # rows
_DIGITS = {16: 11, 32: 24, 64: 53}  # of a float's bits those that tell whole numbers apart
_NO_DATE = -9.223372036854e18  # ns: what pandas writes for a missing date


def _recognise_parquet(source: Source, options: ReadOptions) -> Layout:
    with _open_parquet(source) as stored:
        schema = stored.schema_arrow
        names = tuple(map(str, schema.names))
        layout = assign_roles(Layout(names, format=Format.PARQUET), options)
        faults = [
            Fault(
                f"column '{names[k]}' holds {schema.field(k).type}, which is no {role}",
                "choose another column",
                (f"{role}=COLUMN",),
            )
            for role, k in layout.roles.items()
            if not _can_hold(schema.field(k).type, role)
        ]
        numbers = sum(_can_hold(field.type, "number") for field in schema)
        if options.layout in MATRICES or (
            layout.faults and not options.columns and numbers > len(ROLES)
        ):
            matrix = recognise(_convert_to_csv(source), replace(options, header=Header.YES))
            if matrix.is_matrix or (matrix.faults and matrix.faults[0].option == "layout"):
                return matrix
    return replace(layout, faults=layout.faults or tuple(faults))


def _convert_to_csv(source: Source) -> Source:
    """A Parquet file as CSV: so a matrix is read."""
    with _open_parquet(source) as stored:
        groups = map(stored.metadata.row_group, range(stored.metadata.num_row_groups))
        _check_decoded(source, sum(group.total_byte_size for group in groups))
        stream = pa.BufferOutputStream()
        arrow_csv.write_csv(stored.read(use_threads=False), stream)
        return Source(source.name, stream.getvalue().to_pybytes())


def _can_hold(kind: Any, role: str) -> bool:
    """Whether a column of a type of pyarrow can have the role."""
    return re.fullmatch(KNOWLEDGE["kinds"][role], str(kind)) is not None


@contextmanager
def _translate_errors(source: Source) -> Iterator[None]:
    """Whatever pyarrow finds wrong with a Parquet file becomes one sentence."""
    try:
        yield
    except BadRatings:
        raise
    except (
        *(pa.ArrowException, OSError, ValueError, TypeError, LookupError),
        *(ArithmeticError, RuntimeError, MemoryError),
    ) as error:
        reason = (str(error).splitlines() or ["it is damaged"])[0][:200]
        raise BadRatings(f"{source.name} is not a readable Parquet file: {reason}") from None


@contextmanager
def _open_parquet(source: Source, strings: Sequence[str] = ()) -> Iterator[Any]:
    with source.open() as file, _translate_errors(source):
        yield parquet.ParquetFile(
            file, read_dictionary=list(strings), page_checksum_verification=True
        )


@dataclass
class Batches(Lines):
    """Rows of a Parquet file, or of those of a folder, of which the columns `names` are read."""

    source: Source
    names: Mapping[str, str]
    max_rows: int
    tell: ReadProgress | None

    def cut(self, chunks: Iterable[str]) -> Iterator[Cut]:  # noqa: ARG002
        for part in self.source.parquet_files or [self.source]:
            self.files.append((self.lines, part.name))
            start = self.lines
            # As dictionaries, a column of a few long texts repeated a million times stays small.
            with _open_parquet(part, [*self.names.values()]) as stored:
                stated = start + stored.metadata.num_rows
                _check_rows(self.source, stated, self.max_rows)
                for k in range(stored.metadata.num_row_groups):
                    # Not of its columns: these can end the process where a file is damaged.
                    _check_decoded(part, stored.metadata.row_group(k).total_byte_size)
                for batch in stored.iter_batches(
                    _BATCH, columns=[*self.names.values()], use_threads=False
                ):
                    _check_decoded(part, batch.nbytes)
                    columns = [
                        _convert_column(batch.column(name), role, name, part)
                        for role, name in self.names.items()
                    ]
                    at = self.lines - start + np.arange(1, len(batch) + 1)
                    self.lines += len(batch)
                    yield columns, at
                    check_cancelled()
                    if self.tell is not None:
                        self.tell(self.lines, max(stated, self.lines))


def _check_decoded(source: Source, size: int) -> None:
    if size > _DECODED:
        raise BadRatings(
            f"{source.name} holds a row group of {size / MEGABYTE:,.0f} MB once it is unpacked, the"
            f" limit is {_DECODED / MEGABYTE:,.0f} MB: write smaller row groups"
        )


def _convert_column(column: Any, role: str, name: str, source: Source) -> Any:
    """Texts as a dictionary of those that are there, ids as text; other values as they are.

    Whole numbers that pandas turned into floats are whole numbers again.
    """
    if pa.types.is_dictionary(column.type):
        used = compute.unique(column.indices).drop_null()
        codes = compute.index_in(column.indices, value_set=used, skip_nulls=True)
        values = column.dictionary.take(used)
        if _is_text(values):
            values = values.cast(pa.string()).fill_null("")
            return pa.DictionaryArray.from_arrays(codes, values)
        column = values.take(codes)
    if role not in ("user", "item") or _is_text(column):
        return _trim_texts(column) if _is_text(column) else column
    if pa.types.is_floating(column.type):
        bits, numbers = column.type.bit_width, _convert_to_floats(column)
        if (np.abs(numbers[~np.isnan(numbers)]) >= 2.0 ** _DIGITS[bits]).any():
            problem = (
                f"column '{name}' holds ids as float{bits}, where different ids have become one"
                f" from 2^{_DIGITS[bits]} = {2 ** _DIGITS[bits]:,} on"
            )
            raise Refused(source.name, [Fault(problem, "write ids as text or as whole numbers")])
        column = column.cast(pa.float64())
    encoded = column.dictionary_encode()
    texts = [
        "" if v is None or v != v else str(int(v) if isinstance(v, float) and v == int(v) else v)
        for v in encoded.dictionary.to_pylist()
    ]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))


def _is_text(column: Any) -> bool:
    """Whether a column of pyarrow holds text, each one apart or each distinct one once."""
    return _can_hold(column.type, "text")


def _check_rows(source: Source, rows: int, limit: int) -> None:
    if rows > limit:
        raise BadRatings(f"{source.name} has more than {limit:,} rows, the limit: use a part of it")


# Ids ----------------------------------------------------------------------------------------------


def merge(tables: Sequence[Table]) -> list[Table]:
    """The same rows with codes into shared lists of users and items."""
    merged = [*tables]
    for axis in ("user", "item") if len(merged) > 1 else ():
        columns: list[Column] = [getattr(table, axis) for table in merged]
        names = _index_ids(
            _trim_texts(pa.concat_arrays([column.names.texts for column in columns]))
        ).names
        merged = [
            replace(table, **dict[str, Any]({axis: recode(column, names)}))
            for table, column in zip(merged, columns, strict=True)
        ]
    return merged


def recode(column: Column, names: Names) -> Column:
    """The same ids with codes into other names, which must hold them."""
    place = compute.index_in(column.names.texts, value_set=names.texts).to_numpy()
    return Column(np.append(place, np.int32(-1))[column.codes], names)


def _compute_sort_keys(texts: Any) -> NDArray[Any] | None:
    """Numbers in the natural order of texts, equal where these are: whole numbers where all are,
    else of what follows a common beginning; None where that is longer than seven bytes."""
    if not len(texts):
        return np.zeros(0, dtype=np.int64)
    ends = [*compute.min_max(texts).as_py().values()]
    if all(end[:1].isdecimal() for end in ends):
        with suppress(pa.ArrowInvalid):
            # No leading zero and no sign: two texts are never one number.
            whole = texts.cast(pa.int64())
            values: NDArray[Any] = whole.to_numpy()
            if values.max() < 10**18 and whole.cast(pa.string()).equals(texts):
                return values
    begin = len(os.path.commonprefix(ends))  # noqa: RUF071 - of texts, not of paths
    tails = compute.utf8_slice_codeunits(texts, begin)
    lengths = compute.binary_length(tails).to_numpy()
    if lengths.max() > 7:
        return None
    words = np.frombuffer(compute.ascii_rpad(tails, 8, "\0").buffers()[2], dtype=">u8")
    keys: NDArray[Any] = words.astype(np.uint64) | lengths.astype(np.uint64)
    return keys


def natural_order(texts: Any) -> NDArray[np.intp]:
    """Positions that sort ids: as numbers where all are whole numbers, else as text."""
    texts = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
    keys = _compute_sort_keys(texts)
    if keys is None:
        return np.asarray(compute.sort_indices(texts), dtype=np.intp)
    return np.argsort(keys)


def _select_names(columns: Sequence[Column], used: Bools) -> list[Column]:
    """Columns over those of their names that are used, in natural order."""
    names = columns[0].names.texts
    there = np.flatnonzero(used)
    order = there[natural_order(names.take(there))]
    place = np.full(len(names) + 1, -1, dtype=np.int32)  # the last is where code -1 points
    place[order] = np.arange(len(order), dtype=np.int32)
    selected = Names(names.take(order))
    return [Column(place[column.codes], selected) for column in columns]


def _number_names(count: int) -> Names:
    return Names(pa.array(number_ids(count)))


# From rows as read to validated ratings -----------------------------------------------------------

FEW = 5  # a user with fewer ratings is worth a sentence
_LATEST = 253_402_300_799.0  # Unix seconds at the end of the year 9999
_ENOUGH = 100  # ratings from which on their counts say who may be the person
_ONCE = 0.95  # share of the users with one rating from which on they may be no persons
CHOSEN = "not rated or of other events, as the options say"
_ZEROS = 0.3  # share of the cells of a full matrix from which on 0 may stand for none
_MAX_WORDS = 20  # as ratings
_MIN_COUNTED = 20  # ratings from which on their counts tell whether columns hold ids
_SUMMARIES = KNOWLEDGE["words"]["summary"].split()
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
    report = [f"ratings lie in {low:g}..{high:g} ({origin})"] * (not faults)
    if known is not None:
        changed = "" if known.exact else "; the file itself may have been changed"
        report.append(f"from {known.description}{changed}")
    chosen = _select_rows(table, options)
    keep, unusable = _judge_rows(table, low, high, chosen)
    left_out: dict[str, int] = {}
    if not chosen.all():
        left_out[CHOSEN] = int(np.count_nonzero(~chosen))
        report.append(f"left out: {count_words(left_out[CHOSEN], 'row')} {CHOSEN}")
    for kind, (number, fault) in unusable.items():
        left_out[kind] = number
        if options.bad_rows is BadRows.ERROR:
            faults.append(fault)
        else:
            report.append(f"left out: {fault.problem}")
    if not keep.any() and (options.bad_rows is BadRows.LEAVE_OUT or not unusable):
        why = f": {report[-1]}" if left_out else ""
        faults.append(Fault(f"no row of it can be used{why}"))
    check_cancelled()
    times, note = _convert_to_seconds(table, keep)
    if note and options.time not in (None, NO_COLUMN):
        faults.append(Fault(note, "choose another column, or none", ("time=none",)))
    elif note:
        report.append(f"times are left alone: {note}")
    rows, values, repeated, fault = _resolve_duplicates(table, keep, times, options, clicks)
    report.append(fault.problem)
    faults += [fault] * bool(fault.options)
    said = options.missing if table.layout.is_matrix else options.user
    doubt = _find_doubt(table, rows) if asks and said is None else None
    faults += [doubt] if doubt else []
    for axis, column in (("users", table.user), ("items", table.item)):
        if column.names and all(re.fullmatch(r"-?\d+\.0+", name) for name in column.names):
            report.append(
                f"the ids of the {axis} look like {column.names[0]}: whole numbers written with"
                " decimals, kept as they are"
            )
    count = replace(table.count, used=len(rows), left_out=left_out, repeated=repeated)
    return Checked(
        table,
        tuple(faults),
        low,
        high,
        rows,
        values,
        None if times is None else times[rows],
        clicks,
        (f"{table.source.name}: {table.layout.words}", line_words(count), *report),
        count,
    )


def _find_doubt(table: Table, rows: Ints) -> Fault | None:
    """Why the users may be no persons, by how many ratings they have, where nobody said it.

    Where their column is only a guess by position, the items may as well be the persons, unless
    there are more users.
    """
    layout = table.layout
    if layout.is_matrix:
        zeros = np.count_nonzero(table.ratings[rows] == 0) / max(len(rows), 1)
        full = len(rows) == len(table.user.names) * len(table.item.names)
        problem = f"{zeros:.0%} of the cells are 0, and none is empty"
        fault = Fault(
            problem, "say whether 0 stands for 'not rated'", ("missing=0", "missing=none")
        )
        return fault if full and zeros >= _ZEROS and not layout.known else None
    counts = [np.bincount(column.codes[rows]) for column in (table.user, table.item)]
    users, items = (int(np.count_nonzero(count)) for count in counts)
    name, answers = layout.name_of("user"), ["user=COLUMN"]
    if layout.known or len(rows) <= _MIN_COUNTED:
        return None
    if _are_mostly_ones(counts[0]):
        problem = f"nearly all of the {users:,} users in {name} have one rating"
        if layout.header and "item" in layout.guessed:
            answers = ["layout=wide", *answers]
    elif "user" in layout.guessed and users <= items and len(rows) >= _ENOUGH:
        other = layout.name_of("item")
        problem = (
            f"{name} would be {users:,} users, and {other} {items:,} items, or the other way round"
        )
        pairs = list(permutations((layout.roles["user"] + 1, layout.roles["item"] + 1)))
        pairs.sort(reverse=users < items)
        answers = [*(f"user={user} and item={item}" for user, item in pairs), *answers]
    else:
        return None
    return Fault(problem, "say which column names the person", tuple(answers))


def has_single_ratings(checked: Checked) -> bool:
    """Return whether nearly all users, or nearly all items, of more than a few have one rating."""
    counts = (np.bincount(c.codes[checked.rows]) for c in (checked.table.user, checked.table.item))
    return len(checked.rows) > _MIN_COUNTED and any(map(_are_mostly_ones, counts))


def _are_mostly_ones(counts: Ints) -> bool:
    return bool((counts == 1).sum() >= _ONCE * (counts > 0).sum())


def count_words(number: int | np.integer[Any], noun: str) -> str:
    """So many of a thing: '1 row', '2,000 rows'."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
    for number, noun, fact in (
        (
            np.count_nonzero(counts == 0),
            "user",
            "no ratings: what is predicted for them rests on others alone",
        ),
        (np.count_nonzero((counts > 0) & (counts < FEW)), "user", f"fewer than {FEW} ratings"),
        (public.items - len(np.unique(ratings.items)), "item", "no ratings"),
    ):
        if number:
            lines.append(f"{count_words(number, noun)} {'has' if number == 1 else 'have'} {fact}")
    value = float(ratings.values[0])
    if (ratings.values == value).all():
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
    counts = [f"{number:,} {fact}" for fact, number in parts.items() if number]
    lines = ", ".join([count_words(count.rows, "row"), *counts])
    cells = f", with {count.entries:,} filled cells" * (count.entries != count.rows)
    return (
        f"{count_words(count.lines, 'line')}: {lines}{cells}. {count.used:,} used,"
        f" {sum(count.left_out.values()):,} left out, {count.repeated:,} repeated"
    )


def rating_reader(values: str | None) -> Callable[[str], float | None]:
    """What a text stands for, as the option of reading says. Raises InvalidSetting."""
    if values is None:
        return parse_decimal
    if values == "number":
        return parse_leading_number
    scale = KNOWLEDGE["scales"].get(values)
    if scale is None:
        pairs = [text.rpartition(":")[::2] for text in values.split(",")]
        scale = {word.strip().lower(): parse_decimal(number.strip()) for word, number in pairs}
        if None in scale.values() or "" in scale:
            names = ", ".join(["number", *KNOWLEDGE["scales"]])
            raise InvalidSetting("values", f"WORD:NUMBER,... or one of {names}", values)
    return lambda text: scale.get(text.lower(), parse_decimal(text))


def _match_rows(column: Column, texts: Sequence[str]) -> Bools:
    """Rows whose text is one of those."""
    matches = compute.is_in(column.names.texts, value_set=pa.array(texts, pa.string()))
    among: Bools = np.append(matches.to_numpy(zero_copy_only=False), False)[column.codes]
    return among


def _select_rows(table: Table, options: ReadOptions) -> Bools:
    """The rows that the options do not leave aside: not rated, or of other events."""
    chosen = np.ones(len(table.ratings), dtype=bool)
    if options.missing is not None:
        marks = [text.strip() for text in options.missing.split(",")]
        chosen = ~np.isin(table.ratings, [n for n in map(parse_decimal, marks) if n is not None])
        if table.written is not None:
            chosen &= ~_match_rows(table.written, marks)
    if table.event is not None:
        chosen &= _match_rows(table.event, [str(options.event).rpartition(":")[2]])
    return chosen


def _suggest_values(texts: set[str]) -> list[str]:
    """Options under which texts that are no numbers are ratings, or stand for none."""
    missing = {text for text in texts if text.lower() in MISSING}
    none = [f"missing={','.join(sorted(missing))}"] if missing else []
    words = texts - missing
    if not words:
        return none
    ends = {text.partition("/")[2] for text in words}
    scales = ["number"] * (len(ends) == 1) + [*KNOWLEDGE["scales"]]
    fitting = [name for name in scales if None not in map(rating_reader(name), words)]
    return [" and ".join([f"values={name}", *none]) for name in fitting]


def _judge_rows(
    table: Table, low: float, high: float, chosen: Bools
) -> tuple[Bools, dict[str, tuple[int, Fault]]]:
    """Of the chosen rows those that can be used; and for each kind of the others how many there
    are, and what is wrong with options that may make sense of them."""
    leave = "or leave such rows out"
    fill, correct = f"fill it in, {leave}", f"correct it, {leave}"
    empty, infinite = np.isnan(table.ratings), np.isinf(table.ratings)
    text, words = np.zeros_like(empty), set[str]()
    if table.written:
        text = empty & (table.written.codes >= 0)
        words = {table.written.names[k] for k in np.unique(table.written.codes[text & chosen])}
    few = len(words) <= _MAX_WORDS
    wrong_column, translations = correct, _suggest_values(words) if few else []
    if text.any() and empty.all():
        name = table.layout.name_of("rating")
        wrong_column = f"{name} may be the wrong column: choose the one that holds the ratings"
        if few and not translations:
            translations = ["values=WORD:NUMBER,..."]
            wrong_column += ", or say what its words stand for"
    with np.errstate(invalid="ignore"):
        outside = ~infinite & ((table.ratings < low) | (table.ratings > high))
    # One whole number beyond the range, again and again, is a mark.
    beyond = np.unique(table.ratings[outside & chosen])
    marks = (
        [f"missing={beyond[0]:g}"]
        if len(beyond) == 1 and not beyond[0] % 1 and outside.sum() > _FEW_MARKS
        else []
    )
    beyond_range = f"with a rating outside {low:g}..{high:g}"
    kinds: tuple[tuple[Bools, str, str, list[str]], ...] = (
        (table.user.codes < 0, "without a user", fill, []),
        (table.item.codes < 0, "without an item", fill, []),
        (_find_totals(table), "with a total or a mean of other rows", f"delete it, {leave}", []),
        (empty & ~text, "without a rating", fill, []),
        (text, "with a rating that is no number", wrong_column, translations),
        (infinite, "with a rating that is not finite", correct, []),
        (outside, beyond_range, f"correct the range or the rating, {leave}", marks),
    )
    faults: dict[str, tuple[int, Fault]] = {}

    def add(kind: str, number: int, example: str, advice: str, answers: list[str]) -> None:
        problem = f"{count_words(number, 'row')} {kind}, first {example}"
        faults[kind] = number, Fault(problem, advice, (*answers, "bad_rows=leave-out"))

    keep = chosen.copy()
    for kind, broken in table.broken.items():
        add(kind, broken.count, f"'{broken.example}' in line {broken.line}", correct, [])
    for rows, kind, advice, answers in kinds:
        bad = rows & keep
        if bad.any():
            example = _format_row(table, int(np.argmax(bad)))
            add(kind, int(bad.sum()), example, advice, answers)
            keep &= ~bad
    return keep, faults


def _find_totals(table: Table) -> Bools:
    """Rows of a user or an item that is called a total or a mean: of the last lines of a file, or
    of a column of a matrix."""
    words = [form for word in _SUMMARIES for form in (word, word.title(), word.upper())]
    rows = np.zeros(len(table.lines), dtype=bool)
    early = table.lines < table.lines.max(initial=0) - _FEW_MARKS
    for column in (table.user, table.item):
        named = _match_rows(column, words)
        if not table.layout.is_matrix:  # who is on other lines as well is called so
            named &= ~np.isin(column.codes, column.codes[named & early])
        rows |= named
    return rows


def _format_row(table: Table, row: int) -> str:
    """A row's rating and place, for a sentence."""
    value, place, text = table.ratings[row], f"in {table.place(row)}", ""
    if table.written and (code := table.written.codes[row]) >= 0:
        text = table.written.names[code]
    if text and (np.isnan(value) or "," in text):
        return f"'{text[:30]}' {place}"
    return place if np.isnan(value) else f"{value:g} {place}"


def _convert_to_seconds(table: Table, keep: Bools) -> tuple[Ints | None, str]:
    """Unix seconds of every row, sense only where kept; None and why where they cannot be used."""
    if table.times is None or not keep.any():
        return None, ""
    stamps = table.times
    numbers = np.abs(stamps[np.isfinite(stamps) & keep])
    usual = float(np.median(numbers)) if len(numbers) and not table.dated else 0.0
    # The year 5138 in seconds, milliseconds, microseconds.
    unit = 1000.0 ** sum(usual > edge for edge in (1e11, 1e14, 1e17))
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


def _resolve_duplicates(
    table: Table, keep: Bools, times: Ints | None, options: ReadOptions, clicks: bool
) -> tuple[Ints, Floats, int, Fault]:
    """(rows, values, how many gave way, words): one for each pair of user and item.

    The words have options where a person must say which rating of a pair stays.
    """
    check_cancelled()
    rows = np.flatnonzero(keep)
    cells = table.user.codes[rows].astype(np.int64) * len(table.item.names)
    cells += table.item.codes[rows]
    order = np.argsort(cells)
    if (np.diff(cells[order]) == 0).any():  # rows of one cell stay in the order of time or file
        order = np.lexsort((cells,) if times is None else (times[rows], cells))
    rows, cells = rows[order], cells[order]
    last = np.append(np.diff(cells) != 0, True)[: len(cells)]
    values = table.ratings[rows]
    again = np.flatnonzero(~last)
    if not len(again):
        return rows, values, 0, Fault("no user-item pair appears twice")
    user, item = (c.names[c.codes[rows[again[0]]]][:60] for c in (table.user, table.item))
    sentence = (
        f"{count_words(len(again), 'row')} repeat{'s' * (len(again) == 1)} a user-item pair, first"
        f" user '{user}' with item '{item}'"
    )
    how = options.duplicates
    fault = Fault(f"{sentence}: {'one click is counted' if clicks else f'the {how.value} is used'}")
    if how is Duplicates.ERROR and not clicks:
        places = " and ".join(map(table.place, sorted(rows[again[0] :][:2].tolist())))
        advice = "keep one rating per pair, or use the last or the mean"
        fault = Fault(f"{sentence} ({places})", advice, _REPEATS)
    if how is Duplicates.MEAN:
        group = np.concatenate(([0], np.cumsum(last)[:-1]))
        values = np.bincount(group, values) / np.bincount(group)
    else:
        values = values[last]
    return rows[last], values, len(again), fault


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
    whole = all(one.table.layout.is_whole for one in pair)
    users, items = (
        _keep_rated([getattr(one.table, axis) for one in pair], rows, catalogue, whole)
        for axis, catalogue in zip(
            ("user", "item"), (known and known.catalogue) or (None, None), strict=True
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


def _keep_rated(
    columns: Sequence[Column], rows: Sequence[Ints], catalogue: int | None, whole: bool
) -> list[Column]:
    """Columns over the ids that appear in the rows, or over a catalogue 1..n that holds them."""
    check_cancelled()
    names = columns[0].names
    if catalogue is not None:
        full = _number_names(catalogue)
        if compute.all(compute.is_in(names.texts, value_set=full.texts)).as_py():
            return [recode(column, full) for column in columns]
    used = np.full(len(names), whole)
    for column, mine in zip(columns, rows, strict=True):
        used[column.codes[mine]] = True
    check_cancelled()
    return [*columns] if used.all() else _select_names(columns, used)
