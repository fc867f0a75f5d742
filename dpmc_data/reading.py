"""Files of ratings: from bytes to columns of user, item, rating and time, in one pass, and from
there to validated ratings, with a report of what was found and done.

Ids are text from the first byte to the last; nothing is turned into a number and back. Memory is
bounded by the distinct ids and four numbers per row, however a file is compressed or quoted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.arrays import Bools, Floats, Ints, LateModule
from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.ratings import PublicFacts, Ratings, number_ids
from dpmc_core.stopping import check_cancelled
from dpmc_data import public_sets
from dpmc_data.archives import READ_ERRORS
from dpmc_data.memory import explain_limit
from dpmc_data.readings import Candidate, Format, Layout, RowSample, decide, tells_apart
from dpmc_data.source import (
    MEGABYTE,
    NO_COLUMN,
    BadRows,
    Duplicates,
    Fault,
    FileShape,
    LineCount,
    ReadOptions,
    ReadProgress,
    Refused,
    Source,
)
from dpmc_data.tables import FIRST_ROWS, open_text
from dpmc_data.text import (
    KNOWLEDGE,
    MISSING,
    SHORT,
    Adjacency,
    Batch,
    Codes,
    Cutter,
    Fields,
    Objects,
    is_distinct,
    parse_dates,
    parse_decimal,
    parse_leading_number,
    read_text,
)

pa, compute = LateModule("pyarrow"), LateModule("pyarrow.compute")
parquet = LateModule("pyarrow.parquet")

_BATCH = 65_536  # rows
_DECODED = 1000 * MEGABYTE  # a row group's size once it is unpacked
_PARQUET = b"PAR1"
_DIGITS = {16: 11, 32: 24, 64: 53}  # of a float's bits those that tell whole numbers apart
_NO_DATE = -9.223372036854e18  # ns: what pandas writes for a missing date
RANGE_ASKED = Fault(
    "the public rating range is not known",
    "give its low and high end. It is not taken from the data, because the smallest and the"
    " largest rating are somebody's private values",
    ("range=LOW:HIGH",),
)

# Ids ----------------------------------------------------------------------------------------------


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
        return isinstance(other, Names | tuple) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Ids:
    """Texts of one column: names[code] for each row, in natural order; code -1: missing."""

    codes: Codes
    names: Names

    def select(self, mask: Bools) -> Ids:
        """Return the same rows over those of the names that a mask says, in natural order."""
        used = np.flatnonzero(mask)
        order = used[natural_order(self.names.texts.take(used))]
        positions = np.full(len(mask) + 1, -1, dtype=np.int32)  # the last is where code -1 points
        positions[order] = np.arange(len(order), dtype=np.int32)
        return Ids(positions[self.codes], Names(self.names.texts.take(order)))

    def recode(self, names: Names) -> Ids:
        """Return the same ids with codes into other names, which must hold them."""
        positions = compute.index_in(self.names.texts, value_set=names.texts).to_numpy()
        return Ids(np.append(positions, np.int32(-1))[self.codes], names)

    def match(self, texts: Sequence[str]) -> Bools:
        """Return which rows have one of the texts."""
        matches = compute.is_in(self.names.texts, value_set=pa.array(texts, pa.string()))
        return self._spread(matches)

    def match_pattern(self, pattern: str) -> Bools:
        """Return which rows have a text in which a pattern of RE2 is found."""
        return self._spread(compute.match_substring_regex(self.names.texts, pattern))

    def _spread(self, matches: Any) -> Bools:
        """Return for each row what holds of its text; a missing text has no match."""
        return np.append(matches.to_numpy(zero_copy_only=False), False)[self.codes]


def _encode_texts(column: Any) -> Any:
    """Return a column as trimmed text, each distinct text kept once."""
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    texts = compute.utf8_trim_whitespace(column.dictionary)
    if texts.equals(column.dictionary):
        return column
    encoded = texts.dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices.take(column.indices), encoded.dictionary)


def _index_texts(column: Any) -> Ids:
    """Return the rows and texts of a column of text; empty ones are missing."""
    is_plain = not pa.types.is_dictionary(column.type) and compute.index(column, "").as_py() < 0
    keys = _compute_sort_keys(column) if is_plain else None
    if keys is None:
        column = _encode_texts(column)
        codes = column.indices.fill_null(-1).to_numpy()
        mask = compute.not_equal(column.dictionary, "").to_numpy(zero_copy_only=False)
        return Ids(codes, Names(column.dictionary)).select(mask)
    order = np.argsort(keys)  # takes less time and memory than a dictionary of what comes once
    is_new = np.append(True, np.diff(keys[order]) != 0)[: len(order)]
    codes = np.empty(len(order), dtype=np.int32)
    codes[order] = np.cumsum(is_new) - 1
    return Ids(codes, Names(column.take(order[is_new])))


def _compute_sort_keys(texts: Any) -> NDArray[Any] | None:
    """Return numbers in the natural order of texts, equal where these are: whole numbers where all
    are, else of what follows a common beginning; None where that is longer than seven bytes."""
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
    # Seven bytes of text and one of its length make a number that sorts like the text. Buffer 2 of
    # an array of texts holds their bytes.
    words = np.frombuffer(compute.ascii_rpad(tails, 8, "\0").buffers()[2], dtype=">u8")
    keys: NDArray[Any] = words | lengths.astype(np.uint64)
    return keys


def natural_order(texts: Any) -> NDArray[np.intp]:
    """Return positions that sort ids: as numbers where all are whole numbers, else as text."""
    keys = _compute_sort_keys(texts)
    if keys is None:
        return np.asarray(compute.sort_indices(texts), dtype=np.intp)
    return np.argsort(keys)


def _number_names(count: int) -> Names:
    """Return the names "1" to the count."""
    return Names(pa.array(number_ids(count)))


# From bytes to columns ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Table:
    """Rows as read, not yet validated.

    Attributes:
        source: where they come from.
        layout: how they were cut.
        user, item: the ids.
        ratings: NaN where missing or no number.
        texts: those of the ratings; None where all are numbers.
        times: numbers, or Unix seconds where they are `dated`, NaN where neither; or None.
        event: what kind of row each is; or None.
        lines: the line of each row, or its number from 1 where a file has no lines.
        files: of a folder, the first row of each file and its name.
        broken: for each reason how many lines cannot be cut, and the first of them.
        count: of lines and entries, nothing used yet.
    """

    source: Source
    layout: Layout
    user: Ids
    item: Ids
    ratings: Floats
    texts: Ids | None
    times: Floats | None
    dated: bool
    event: Ids | None
    lines: Codes
    files: Sequence[tuple[int, str]]
    broken: Mapping[str, tuple[int, str]]
    count: LineCount

    def locate(self, row: int) -> str:
        """Return where a person finds the row."""
        unit = "line" if self.layout.encoding else "row"
        files = [f" of {name}" for start, name in self.files if start <= row]
        return f"{unit} {self.lines[row]}{''.join(files[-1:])}"


def read_table(
    source: Source,
    options: ReadOptions,
    on_progress: ReadProgress | None = None,
    *,
    ask_range: bool = True,
) -> Table:
    """Read a file in any known layout; the files of a folder are one table.

    Args:
        source: the file or folder.
        options: how to read it.
        on_progress: called several times a megabyte.
        ask_range: whether the public range is missing like anything else that is asked for before
            the file is read.

    Raises:
        BadRatings: in a sentence that names the file.
    """
    layout = layout_of(source, options)
    has_range = layout.known or layout.clicks or options.for_ranking or options.low is not None
    if faults := [*layout.faults, *[RANGE_ASKED] * (ask_range and not has_range)]:
        raise Refused(layout.file, faults)
    # Damaged texts come to light when they are looked at.
    is_parquet = layout.format is Format.PARQUET
    with _translate_errors(source) if is_parquet else nullcontext():
        return _read_rows(source, layout, options, on_progress)


def layout_of(source: Source, options: ReadOptions) -> Layout:
    """Return how a file is read, and which public set it is, before it is read.

    Raises:
        BadRatings: if it is no table, or too large.
    """
    return rank_readings(source, options)[0]


def rank_readings(source: Source, options: ReadOptions) -> tuple[Layout, list[Candidate]]:
    """Return how a file is read, and all its readings, the likeliest first.

    Raises:
        BadRatings: if it is no table, or too large.
    """
    public_set = None if source.parts else public_sets.recognise_public_set(source)
    # A public set on disk is what it is, up to two gigabytes; the limit guards uploads and unknown
    # files.
    on_disk = public_set and source.path
    parts = source.parts or [source]
    for part in parts:
        part.check_size(max(options.max_bytes, 2000 * MEGABYTE) if on_disk else options.max_bytes)
    is_parquet = parts[0].read_head().startswith(_PARQUET)
    samples = [_sample_parquet(parts, options)] if is_parquet else open_text(parts, options)
    layout, ranked = decide(samples, options)
    if public_set and layout.faults and not options.columns:
        # A set that is recognised is laid out as its makers say: the usual order.
        layout, ranked = decide(samples, replace(options, user=1, item=2, rating=3))
    if is_parquet and not layout.faults:
        layout = _check_kinds(parts[0], layout)
    return replace(layout, known=public_set, guessed=() if public_set else layout.guessed), ranked


def _read_rows(
    source: Source, layout: Layout, options: ReadOptions, on_progress: ReadProgress | None
) -> Table:
    """Read all rows of the used columns, batch by batch, and join them to one table.

    Each batch is compacted at once and joined last, because large files fill the memory.
    """
    used = [*layout.roles.values(), *layout.ratings]
    roles = [*layout.axes, "rating"] if layout.is_matrix else [*layout.roles]
    chunks: dict[str, list[Any]] = {role: [] for role in roles}
    line_chunks = [np.zeros(0, dtype=np.int32)]
    cutters: list[Cutter] = []
    broken: dict[str, tuple[int, str]] = {}  # of all files
    files: list[tuple[int, str]] = []
    n_rows = n_entries = n_bytes = 0
    size = sum(part.size for part in source.parts or [source])

    def report(n_done: int, n_all: int) -> None:
        """Tell how much of all files is read, in bytes."""
        if on_progress:
            on_progress(n_bytes + part.size * n_done // max(n_all, 1), size)

    for part in source.parts or [source]:
        cutter = _build_cutter(part, layout, used, options, report)
        cutter.broken = broken
        cutters.append(cutter)
        if source.parts:
            files.append((n_entries, part.name))
        text = read_text(part, layout.encoding, layout.form, report)  # of Parquet never begun
        for own, lines in cutter.iterate_batches(text):
            batch = _insert_keys(own, used, len(lines), part, layout) if part.keys else own
            columns = [*batch, lines]
            if layout.is_matrix:
                columns = _melt_cells(batch, lines, layout, n_rows)
            n_rows += int(np.count_nonzero(np.diff(lines, prepend=0)))
            for role, column in zip(roles, columns, strict=False):
                chunks[role].append(_compact_chunk(column, role, layout, chunks[role]))
            line_chunks.append(columns[-1])
            n_entries += len(columns[-1])
            # Of a matrix, its cells.
            _check_rows(source, n_entries + cutter.unusable, options.max_rows)
        n_bytes += part.size
    all_lines = np.concatenate(line_chunks)
    line_chunks.clear()

    def join(role: str) -> Any:
        return _join_chunks(chunks.pop(role))

    user, item = _index_texts(join("user")), _index_texts(join("item"))
    if layout.is_complete:  # some may have rated nothing
        user = user.recode(_number_names(n_rows))
    ratings, texts, times, dated = np.ones(n_entries), None, None, False
    if "rating" in roles:
        ratings, texts = _parse_ratings(join("rating"), rating_reader(options.values))
    if "time" in roles:
        times, dated = _parse_times(join("time"))
    return Table(
        source,
        layout,
        user,
        item,
        ratings,
        texts,
        times,
        dated,
        _index_texts(_encode_texts(join("event"))) if "event" in roles else None,
        all_lines,
        files,
        broken,
        _count_lines(cutters, layout, n_rows, n_entries),
    )


def _count_lines(
    cutters: Sequence[Cutter], layout: Layout, n_rows: int, n_entries: int
) -> LineCount:
    """Return what became of the lines of all files; the rest of them is blank."""
    n_lines = sum(cutter.lines for cutter in cutters)
    n_continued = sum(cutter.continued for cutter in cutters)
    n_unusable = cutters[-1].unusable  # of all files
    n_headers = layout.header * len(cutters)
    return LineCount(
        lines=n_lines,
        header=n_headers,
        blank=n_lines - n_headers - n_continued - n_rows - n_unusable,
        continued=n_continued,
        rows=n_rows + n_unusable,
        entries=n_entries + n_unusable,
    )


def _build_cutter(
    part: Source,
    layout: Layout,
    used: Sequence[int],
    options: ReadOptions,
    on_progress: ReadProgress,
) -> Cutter:
    """Return what cuts a file, or one file of a folder, into the columns that are used."""
    n_own = len(layout.columns) - len(part.keys)
    own = [k for k in used if k < n_own]
    names = [layout.columns[k] for k in own]
    if layout.format is Format.PARQUET:
        return Batches(0, part, names, options.max_rows, on_progress)
    if layout.format is Format.JSON:
        return Objects(layout.skip, names)
    if layout.shape is FileShape.ADJACENCY:
        return Adjacency(layout.skip, layout.separator)
    plain = {k for role, k in layout.roles.items() if role == "time"}
    return Fields(layout.skip, layout.separator, layout.quote, layout.width, own, plain)


def _insert_keys(
    own: Sequence[Any], used: Sequence[int], n_rows: int, part: Source, layout: Layout
) -> list[Any]:
    """Return the used columns, with those that the folders of a file name."""
    n_own = len(layout.columns) - len(part.keys)  # a key is a name and a value
    columns = iter(own)
    codes = pa.array(np.zeros(n_rows, dtype=np.int32))
    return [
        next(columns)
        if k < n_own
        else pa.DictionaryArray.from_arrays(codes, pa.array([part.keys[k - n_own][1]]))
        for k in used
    ]


def _melt_cells(batch: Sequence[Any], lines: Codes, layout: Layout, n_rows: int) -> list[Any]:
    """Return ids of lines and columns, and ratings, of a matrix's filled cells, and their lines.

    The cells come row by row. The names below are those of a matrix with a user on each line; of a
    transposed one a line is an item, and a column a user.

    Args:
        batch: the column of ids, if there is one, and then the columns of ratings.
        lines: the number of each line in the file.
        layout: how the file is read.
        n_rows: how many lines of it are read so far.
    """
    # Without a column of ids the lines are numbered.
    first = [] if layout.roles else [pa.array(map(str, range(n_rows + 1, n_rows + len(lines) + 1)))]
    users, *cells = [*first, *batch]
    names = [layout.columns[k] for k in layout.ratings]
    if not layout.is_named:
        names = [*number_ids(len(cells))]
    texts = _join_chunks([*map(_encode_texts, cells)])  # column by column
    codes = texts.indices.fill_null(-1).to_numpy()
    distinct = [*texts.dictionary.to_pylist(), ""]  # the last is where code -1 points
    filled = np.array([text != "" and parse_decimal(text) != layout.missing for text in distinct])
    row, item = np.nonzero(filled[codes].reshape(len(names), -1).T)
    items = pa.DictionaryArray.from_arrays(item.astype(np.int32), pa.array(names, pa.string()))
    # `texts` has the first column from top to bottom, and then the next one.
    return [users.take(row), items, texts.take(item * len(lines) + row), lines[row]]


def _compact_chunk(column: Any, role: str, layout: Layout, prior: Sequence[Any]) -> Any:
    """Return a part of a column after prior ones in the form that takes least memory, ids as text.

    Texts that hardly ever come twice are kept as they are, others once in a dictionary. Whole
    numbers that pandas turned into floats are whole numbers again.
    """
    is_id = role in ("user", "item")
    if role == "time" and pa.types.is_string(column.type):
        with suppress(pa.ArrowInvalid):
            return column.cast(pa.float64())
    if _has_kind(column.type, "text") or (is_id and pa.types.is_integer(column.type)):
        is_short = pa.types.is_string(column.type) and column.nbytes < SHORT * len(column)
        if is_id and is_short and prior and pa.types.is_string(prior[-1].type):
            return compute.utf8_trim_whitespace(column.fill_null(""))
        column = _encode_texts(column)
        return column.cast(pa.string()).fill_null("") if is_id and is_distinct(column) else column
    if not is_id:
        return column
    if pa.types.is_floating(column.type):
        bits, numbers = column.type.bit_width, _convert_to_floats(column)
        if (np.abs(numbers[~np.isnan(numbers)]) >= 2.0 ** _DIGITS[bits]).any():
            problem = (
                f"column {layout.name_of(role)} holds ids as float{bits}, where different ids have"
                f" become one from 2^{_DIGITS[bits]} = {2 ** _DIGITS[bits]:,} on"
            )
            raise Refused(layout.file, [Fault(problem, "write ids as text or as whole numbers")])
        column = column.cast(pa.float64())
    encoded = column.dictionary_encode()
    texts = [  # v != v: NaN
        "" if v is None or v != v else str(int(v) if isinstance(v, float) and v == int(v) else v)
        for v in encoded.dictionary.to_pylist()
    ]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))


def _join_chunks(chunks: Sequence[Any]) -> Any:
    """Return the parts of a column as one; as text where some are numbers and some are text."""
    if len({chunk.type for chunk in chunks}) != 1:
        chunks = [*map(_encode_texts, chunks)] or [_encode_texts(pa.array([], pa.string()))]
    return pa.chunked_array(chunks).unify_dictionaries().combine_chunks()


def _convert_to_floats(column: Any) -> Floats:
    """Return a column of pyarrow as an array of floats, NaN where it is null."""
    values = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
    return np.array(values, dtype=np.float64)  # a copy that can be written to


def _parse_ratings(column: Any, read: Callable[[str], float | None]) -> tuple[Floats, Ids | None]:
    """Return ratings, NaN where missing or no number, and their texts unless all are numbers.

    Where some have a decimal point, one with a comma may be in thousands: no number.
    """
    if not pa.types.is_dictionary(column.type):
        return _convert_to_floats(column), None
    texts = _index_texts(column)
    values = {text: read(text) for text in texts.names}
    if any("." in text for text, value in values.items() if value is not None):
        values |= {text: None for text in values if "," in text}
    return np.array([*values.values(), None], dtype=np.float64)[texts.codes], texts


def _parse_times(column: Any) -> tuple[Floats, bool]:
    """Return times as numbers, or as Unix seconds where they are dates, NaN where neither; and
    whether they are dates."""
    dated = str(column.type).startswith(("timestamp", "date"))
    if dated:  # whole seconds, as those of texts
        stamps = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        values = np.floor(_convert_to_floats(stamps) / 1000)
    else:
        try:
            values = _convert_to_floats(column)
        except pa.ArrowInvalid:
            texts = _index_texts(_encode_texts(column))
            numbers = [None if "," in text else parse_decimal(text) for text in texts.names]
            dated = {*numbers} == {None}
            seconds = parse_dates(texts.names.texts) if dated else numbers
            values = np.array([*seconds, None], dtype=np.float64)[texts.codes]
    # A missing date is the same moment in either unit: seconds of dates, nanoseconds of numbers.
    values[values <= _NO_DATE / (1e9 if dated else 1)] = np.nan
    return values, dated


def _check_rows(source: Source, rows: int, limit: int) -> None:
    """Raise BadRatings if there are more rows than the limit."""
    if rows > limit:
        reason = f"the limit{explain_limit(limit)}"
        raise BadRatings(
            f"{source.name} has more than {limit:,} rows, {reason}: use a part of it, or raise the"
            " limit with --read max_rows=N"
        )


# Parquet ------------------------------------------------------------------------------------------


def _sample_parquet(parts: Sequence[Source], options: ReadOptions) -> RowSample:
    """Return rows of the first Parquet file, and of some of the others and their row groups."""
    names: tuple[str, ...] = ()
    rows: list[Sequence[str]] = []
    for part in parts:
        with _open_parquet(part) as stored:
            schema = stored.schema_arrow
            n_groups = stored.metadata.num_row_groups
        own_names = tuple(map(str, schema.names))
        if names and own_names != names:
            raise BadRatings(
                f"{part.name} and {parts[0].name} in one folder have different columns: write all"
                " files alike"
            )
        names = own_names
        if len(rows) >= 2 * FIRST_ROWS:
            continue  # enough rows, but the columns of all files are compared
        plain = [
            column.name
            for column in schema
            if _has_kind(column.type, "time") and names.count(column.name) == 1
        ]
        # Of the first file some rows of about four row groups, of each other file those of one.
        groups = [*range(0, n_groups, max(n_groups // 4, 1))] if not rows else [n_groups // 2]
        for group in groups:
            size = FIRST_ROWS if not rows else FIRST_ROWS // 8
            batches = _iterate_batches(part, plain, size, [group])
            texts = dict(zip(plain, map(_format_cells, next(batches, [])), strict=False))
            values = [value for _, value in part.keys]
            cells = zip_longest(*(texts.get(name, []) for name in names), fillvalue="")
            rows += [(*row, *values) for row in cells]
    names += tuple(key for key, _ in parts[0].keys)
    layout = Layout(parts[0].name, names, format=Format.PARQUET, rows=tuple(rows[:8]))
    return RowSample(layout, rows).under(options)


def _check_kinds(source: Source, layout: Layout) -> Layout:
    """Return the layout with a fault for each column whose type cannot have its role."""
    with _open_parquet(source) as stored:
        schema = stored.schema_arrow
    faults = [
        Fault(
            f"column '{layout.columns[k]}' holds {schema.field(k).type}, which is no {role}",
            "choose another column",
            (f"{role}=COLUMN",),
        )
        for role, k in layout.roles.items()
        if k < len(schema) and not _has_kind(schema.field(k).type, role)
    ]
    return replace(layout, faults=tuple(faults))


def _format_cells(column: Any) -> list[str]:
    """Return the texts of a column of Parquet, empty ones where it has none."""
    try:
        return [text or "" for text in column.cast(pa.string()).to_pylist()]
    except pa.ArrowException:  # of a date that is none
        return [""] * len(column)


def _has_kind(kind: Any, role: str) -> bool:
    """Return whether a column of a type of pyarrow can have the role."""
    return re.fullmatch(KNOWLEDGE["kinds"][role], str(kind)) is not None


@contextmanager
def _translate_errors(source: Source) -> Iterator[None]:
    """Raise one sentence for whatever pyarrow finds wrong with a Parquet file."""
    try:
        yield
    except BadRatings:
        raise
    except (pa.ArrowException, *READ_ERRORS) as error:
        reason = (str(error).splitlines() or ["it is damaged"])[0][:200]
        raise BadRatings(f"{source.name} is not a readable Parquet file: {reason}") from None


@contextmanager
def _open_parquet(source: Source, strings: Sequence[str] = ()) -> Iterator[Any]:
    """Open a Parquet file, some columns as dictionaries; a damaged file is one sentence."""
    with source.open() as file, _translate_errors(source):
        yield parquet.ParquetFile(
            file, read_dictionary=list(strings), page_checksum_verification=True
        )


def _iterate_batches(
    source: Source,
    names: Sequence[str],
    rows: int = _BATCH,
    groups: Sequence[int] | None = None,
) -> Iterator[Any]:
    """Yield the columns of so many rows after the other, of all row groups or of some."""
    # As dictionaries, a column of a few long texts repeated a million times stays small.
    with _open_parquet(source, names) as stored:
        n_groups = stored.metadata.num_row_groups
        chosen = [k for k in (range(n_groups) if groups is None else groups) if k < n_groups]
        for k in chosen:
            # Not of its columns: these can end the process where a file is damaged.
            _check_decoded(source, stored.metadata.row_group(k).total_byte_size)
        for batch in stored.iter_batches(
            rows, columns=[*names], use_threads=False, row_groups=chosen
        ):
            _check_decoded(source, batch.nbytes)
            yield [_shorten_dictionary(batch.column(name)) for name in names]


def _check_decoded(source: Source, size: int) -> None:
    """Raise BadRatings if a part of a Parquet file is larger in memory than the limit."""
    if size > _DECODED:
        raise BadRatings(
            f"{source.name} holds a row group of {size / MEGABYTE:,.0f} MB once it is unpacked, the"
            f" limit is {_DECODED / MEGABYTE:,.0f} MB: write smaller row groups"
        )


def _shorten_dictionary(column: Any) -> Any:
    """Return a dictionary over the texts that are in it, and other values as they are."""
    if not pa.types.is_dictionary(column.type):
        return column
    used = compute.unique(column.indices).drop_null()
    codes = compute.index_in(column.indices, value_set=used, skip_nulls=True)
    values = column.dictionary.take(used)
    if not _has_kind(values.type, "text"):
        return values.take(codes)
    return pa.DictionaryArray.from_arrays(codes, values.cast(pa.string()).fill_null(""))


@dataclass
class Batches(Cutter):
    """Rows of a Parquet file, of which the columns `names` are read."""

    source: Source
    names: Sequence[str]
    max_rows: int
    on_progress: ReadProgress

    def iterate_batches(self, chunks: Iterable[str]) -> Iterator[Batch]:  # noqa: ARG002
        """Yield columns of the stored rows, batch by batch; there is no text to cut."""
        with _open_parquet(self.source) as stored:
            stated = stored.metadata.num_rows
        _check_rows(self.source, stated, self.max_rows)
        for columns in _iterate_batches(self.source, self.names):
            lines = self.lines + np.arange(1, len(columns[0]) + 1, dtype=np.int32)
            self.lines += len(lines)
            yield columns, lines
            check_cancelled()
            self.on_progress(self.lines, max(stated, self.lines))


# From columns to validated ratings ----------------------------------------------------------------

FEW = 5  # a user with fewer ratings is worth a sentence
_LATEST = 253_402_300_799.0  # Unix seconds at the end of the year 9999
_MOSTLY = 0.95  # share of the users with one rating from which on they may be no persons
_CLICKS = "clicks"  # where the range 0..1 comes from
CHOSEN = "not rated or of other events, as the options say"
_ZEROS = 0.3  # share of the cells of a full matrix from which on 0 may stand for none
_MAX_WORDS = 20  # as ratings
_MIN_COUNTED = 20  # ratings from which on their counts tell whether columns hold ids
_NOBODY = f"(?i)^({'|'.join(KNOWLEDGE['words']['nobody'])})$"
_TOTAL, _STATISTIC = KNOWLEDGE["summaries"].values()
_ROUNDED = 0.051  # by so much a mean may differ from its ratings
# Share of the lines whose sum or mean a column must hold to be one of sums or means.
_COMPUTED = 0.9
_MIN_COMPUTED = 5  # lines of different ratings from which on that is no chance
_MAX_MARKS = 2  # words for "not rated" that most columns of a matrix may share
_FEW_MARKS = 2  # so often a number beyond the range is a mistake, not a mark


@dataclass(frozen=True, eq=False)
class Checked:
    """A table judged by the options, nothing decided yet.

    Attributes:
        table: the table.
        faults: all that keeps it from being read.
        low, high: the public range; infinite where it is not known.
        rows: of the table, in the order of their cells; of a repeated pair the last.
        values, times: of these rows.
        clicks: whether every row is a click.
        report: what was found and done.
        count: what became of every line.
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
    """Return ratings, of several tables over one shared index space, and how rows were judged.

    Raises:
        Refused: with everything that is wrong, where the options do not say to leave such rows out
            or how to settle repeated pairs.
    """
    # Of test ratings everybody may have one.
    judged = [check(table, options, asks=not k) for k, table in enumerate(share_codes(tables))]
    for checked in judged:
        if checked.faults:
            raise Refused(checked.table.source.name, checked.faults)
    return build(judged), judged


def share_codes(tables: Sequence[Table]) -> list[Table]:
    """Return the same rows with codes into shared lists of users and items.

    A user then has one code in training and test ratings.
    """
    if len(tables) == 1:
        return [*tables]
    users, items = (
        _share_names(columns)
        for columns in zip(*((table.user, table.item) for table in tables), strict=True)
    )
    return [
        replace(table, user=user, item=item)
        for table, user, item in zip(tables, users, items, strict=True)
    ]


def _share_names(columns: Sequence[Ids]) -> list[Ids]:
    """Return the same ids with codes into the names of all of them together."""
    texts = pa.concat_arrays([ids.names.texts for ids in columns])
    names = _index_texts(_encode_texts(texts)).names
    return [ids.recode(names) for ids in columns]


def check(table: Table, options: ReadOptions, *, asks: bool = True) -> Checked:
    """Judge every row; nothing is raised for what is wrong with them.

    Args:
        table: the rows.
        options: the options of reading.
        asks: whether counts that say that the users may be no persons are a fault.
    """
    faults: list[Fault] = []
    public_set, clicks = table.layout.known, table.layout.clicks
    low, high, origin = _choose_range(table, options)
    if not origin:
        faults.append(RANGE_ASKED)
    elif origin == _CLICKS and not clicks:  # of ratings that are read for ranking, which exist
        clicks = True
        table = replace(table, ratings=np.where(np.isfinite(table.ratings), 1.0, table.ratings))
    if clicks and not low <= 1 <= high:
        faults.append(Fault(f"every row is a click, a 1, which {low:g}..{high:g} does not hold"))
    report = [f"ratings lie in {low:g}..{high:g} ({origin})"] * (not faults)
    if public_set:
        changed = "" if public_set.exact else "; the file itself may have been changed"
        report.append(f"from {public_set.description}{changed}")
    chosen = _select_rows(table, options)
    n_aside = int(np.count_nonzero(~chosen))
    left_out = {CHOSEN: n_aside} if n_aside else {}
    report += [f"left out: {count_words(n, 'row')} {kind}" for kind, n in left_out.items()]
    keep, unusable = _judge_rows(table, low, high, chosen)
    left_out |= {kind: number for kind, (number, _) in unusable.items()}
    problems = [fault for _, fault in unusable.values()]
    if options.bad_rows is BadRows.LEAVE_OUT:
        report += [f"left out: {fault.problem}" for fault in problems]
    else:
        faults += problems
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
    if options.duplicates is Duplicates.MEAN:
        values = np.clip(values, low, high)  # a mean of equal numbers can lie beyond them
    # Who says what an empty cell of a matrix is, or which column names the user, has been asked.
    answered = options.missing if table.layout.is_matrix else options.user
    if asks and answered is None and not public_set:
        faults += _recheck_facts(table, rows, options.item)
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
        (f"{table.source.name}: {table.layout.description}", line_words(count), *report),
        count,
    )


def _choose_range(table: Table, options: ReadOptions) -> tuple[float, float, str]:
    """Return the ends of the public range and where it comes from; without one no end, and ""."""
    public_set = table.layout.known
    if options.low is not None and options.high is not None:
        return options.low, options.high, "the public range as given"
    if public_set:
        return public_set.low, public_set.high, f"the public range of {public_set.title}"
    if table.layout.clicks or options.for_ranking:
        return 0.0, 1.0, _CLICKS
    return -np.inf, np.inf, ""


def _select_rows(table: Table, options: ReadOptions) -> Bools:
    """Return the rows that the options do not leave aside: not rated, or of other events."""
    chosen = np.ones(len(table.ratings), dtype=bool)
    if options.missing is not None:
        marks = [text.strip() for text in options.missing.split(",")]
        numbers = [number for number in map(parse_decimal, marks) if number is not None]
        chosen = ~np.isin(table.ratings, numbers)
        if table.texts:
            chosen &= ~table.texts.match(marks)
    if table.event:
        chosen &= table.event.match([str(options.event).rpartition(":")[2]])
    return chosen


def _judge_rows(
    table: Table, low: float, high: float, chosen: Bools
) -> tuple[Bools, dict[str, tuple[int, Fault]]]:
    """Return which of the chosen rows can be used; and for each kind of the others how many there
    are, and what is wrong, with options that may make sense of them."""
    leave = "or leave such rows out"
    leave_out = "several people may stand behind one name: leave such rows out"
    fill, correct = f"fill it in, {leave}", f"correct it, {leave}"
    empty, infinite = np.isnan(table.ratings), np.isinf(table.ratings)
    is_text, words = np.zeros_like(empty), dict[str, int]()
    if table.texts:
        is_text = empty & (table.texts.codes >= 0)
        codes, counts = np.unique(table.texts.codes[is_text & chosen], return_counts=True)
        words = {table.texts.names[k]: int(n) for k, n in zip(codes, counts, strict=True)}
    # First what the advice on texts is: other columns or other values may make sense of them.
    translations = _suggest_values(words, not empty.all())
    wrong_column = correct
    if is_text.any() and empty.all():
        name = table.layout.name_of("rating")
        wrong_column = f"{name} may be the wrong column: choose the one that holds the ratings"
        if 0 < len(words) <= _MAX_WORDS and not translations:
            translations = ["values=WORD:NUMBER,..."]
            wrong_column += ", or say what its words stand for"
    with np.errstate(invalid="ignore"):  # a missing rating, NaN, is judged as empty
        outside = ~infinite & ((table.ratings < low) | (table.ratings > high))
    # One whole number beyond the range, again and again, is a mark.
    beyond = np.unique(table.ratings[outside & chosen])
    is_mark = len(beyond) == 1 and not beyond[0] % 1 and outside.sum() > _FEW_MARKS
    marks = [f"missing={number:g}" for number in beyond if is_mark]
    kinds: Sequence[tuple[Any, ...]] = (  # which rows, the kind, advice, answers
        (table.user.codes < 0, "without a user", fill),
        (table.item.codes < 0, "without an item", fill),
        (table.user.match_pattern(_NOBODY), "of people without a name", leave_out),
        (_find_headers(table), "with the names of the columns", correct),
        (_find_totals(table), "with a total or a mean of other rows", f"delete it, {leave}"),
        (empty & ~is_text, "without a rating", fill),
        (is_text, "with a rating that is no number", wrong_column, *translations),
        (infinite, "with a rating that is not finite", correct),
        (
            outside,
            f"with a rating outside {low:g}..{high:g}",
            f"correct the range or the rating, {leave}",
            *marks,
        ),
    )
    # Rows that could not be cut come first; then each row counts for the first kind it is of.
    problems: list[Any] = [(kind, *first, correct) for kind, first in table.broken.items()]
    keep = chosen.copy()
    for mask, kind, *remedy in kinds:
        bad = mask & keep
        if bad.any():
            problems.append((kind, int(bad.sum()), _show_row(table, int(np.argmax(bad))), *remedy))
            keep &= ~bad
    return keep, {
        kind: (
            number,
            Fault(
                f"{count_words(number, 'row')} {kind}, first {example}",
                advice,
                (*answers, "bad_rows=leave-out"),
            ),
        )
        for kind, number, example, advice, *answers in problems
    }


def rating_reader(values: str | None) -> Callable[[str], float | None]:
    """Return what a text stands for, as the option of reading says. Raises InvalidSetting."""
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


def _suggest_values(counts: Mapping[str, int], has_numbers: bool) -> list[str]:
    """Return options under which texts that are no numbers are ratings, or stand for none.

    Args:
        counts: how often each text comes.
        has_numbers: whether numbers stand in the same column.
    """
    missing = {text for text in counts if text.lower() in MISSING}
    if len(counts) > _MAX_WORDS and None in map(parse_leading_number, {*counts} - missing):
        return []
    words = {*counts} - missing
    none = [f"missing={','.join(sorted(missing))}"] * bool(missing)
    if not words:
        return none
    is_mark = all(counts[text] > _FEW_MARKS and "," not in text for text in words)
    is_mark &= has_numbers and len(words) <= _MAX_MARKS
    marked = [f"missing={','.join(sorted(counts))}"] * is_mark
    # Texts as "4/5" are read by their number, if all have the same end.
    ends = {text.partition("/")[2] for text in words}
    scales = ["number"] * (len(ends) == 1) + [*KNOWLEDGE["scales"]]
    fitting = [
        name
        for name in scales
        if None not in map(rating_reader(name), words)
        and tells_apart(KNOWLEDGE["scales"].get(name, {}), map(str.lower, words))
    ]
    return [*marked, *(" and ".join([f"values={name}", *none]) for name in fitting)]


def _find_headers(table: Table) -> Bools:
    """Return rows that repeat the header, as in files that were put together."""
    layout = table.layout
    if not layout.header or layout.shape is not FileShape.ROWS:
        return np.zeros(len(table.lines), dtype=bool)
    user, item = ([layout.columns[layout.roles[role]]] for role in ("user", "item"))
    return table.user.match(user) & table.item.match(item)


def _find_totals(table: Table) -> Bools:
    """Return rows of a user or an item that is called a total or a mean: of the last lines of a
    file, or of a column of a matrix; there also of a column with the sum or mean of each line."""
    totals = np.zeros(len(table.lines), dtype=bool)
    early = table.lines < table.lines.max(initial=0) - _FEW_MARKS
    for ids in (table.user, table.item):
        named = ids.match_pattern(_TOTAL)
        if not table.layout.is_matrix:  # who is on earlier lines as well is called so
            named &= ~np.isin(ids.codes, ids.codes[named & early])
        totals |= named
    if table.layout.is_matrix:
        lines, columns = (getattr(table, axis) for axis in table.layout.axes)
        if totals.any():  # counts and deviations stand beside means
            totals |= lines.match_pattern(_STATISTIC) & ~early
        totals |= _find_computed(lines, columns, table.ratings, ~totals)
    return totals


def _find_computed(lines: Ids, columns: Ids, ratings: Floats, mask: Bools) -> Bools:
    """Return the cells of the columns that hold the sum or the mean of the rest of nearly each
    line, among the cells of a mask."""
    computed = np.zeros(len(ratings), dtype=bool)
    rows = np.flatnonzero(mask & np.isfinite(ratings))
    # Codes from 0, so that a cell without a line or a column, of code -1, counts as well.
    line, column, values = lines.codes[rows] + 1, columns.codes[rows] + 1, ratings[rows]
    n_rest = np.maximum(np.bincount(line)[line] - 1, 1)
    rest = np.bincount(line, values)[line] - values
    # The sum of squared deviations of the rest from its mean.
    deviation = np.bincount(line, values**2)[line] - values**2 - rest**2 / n_rest
    telling = deviation > 1e-6  # a mean of equal ratings says nothing
    equal = np.isclose(values, rest) | (np.abs(values - rest / n_rest) < _ROUNDED)
    n_telling, n_equal = np.bincount(column, telling), np.bincount(column, telling & equal)
    is_computed = (n_telling >= _MIN_COMPUTED) & (n_equal >= _COMPUTED * n_telling)
    computed[rows] = is_computed[column]
    return computed


def _show_row(table: Table, row: int) -> str:
    """Return a row's rating and place, for a sentence."""
    value, text = table.ratings[row], ""
    if table.texts and (code := table.texts.codes[row]) >= 0:
        text = f"'{table.texts.names[code][:30]}' "
    return f"{text if np.isnan(value) else f'{value:g} '}in {table.locate(row)}"


def _convert_to_seconds(table: Table, keep: Bools) -> tuple[Ints | None, str]:
    """Return Unix seconds of every row, sense only where kept; None and why where they cannot be
    used."""
    if table.times is None or not keep.any():
        return None, ""
    sizes = np.abs(table.times[np.isfinite(table.times) & keep])
    some = sizes[:: 1 + len(sizes) // FIRST_ROWS]
    usual = np.median(some) if len(some) and not table.dated else 0.0
    # The year 5138 in seconds, milliseconds, microseconds.
    unit = 1000.0 ** sum(usual > edge for edge in (1e11, 1e14, 1e17))
    with np.errstate(invalid="ignore", over="ignore"):  # what is no time counts as wrong
        seconds = np.floor(table.times / unit)
        wrong = ~(np.abs(seconds) <= _LATEST) & keep
    if wrong.any():
        first = table.locate(int(np.argmax(wrong)))
        return None, (
            f"{count_words(int(wrong.sum()), 'row')} without a time that is Unix seconds or a"
            f" date like 2024-03-31 18:00, first {first}"
        )
    seconds[~keep] = 0
    return seconds.astype(np.int64), ""


def _resolve_duplicates(
    table: Table, keep: Bools, times: Ints | None, options: ReadOptions, clicks: bool
) -> tuple[Ints, Floats, int, Fault]:
    """Return (rows, values, how many gave way, words): one for each pair of user and item.

    The words have options where a person must say which rating of a pair stays.
    """
    check_cancelled()
    rows = np.flatnonzero(keep)
    cells = table.user.codes[rows].astype(np.int64) * len(table.item.names)
    cells += table.item.codes[rows]
    order = _sort_stably(cells)
    # By position in that order: whether it is the last row of its cell. No row has no last one.
    is_last = np.append(np.diff(cells[order]) != 0, True)[: len(order)]
    n_repeated = len(order) - int(np.count_nonzero(is_last))
    if not n_repeated:
        rows = rows[order]
        return rows, table.ratings[rows], 0, Fault("no user-item pair appears twice")
    if times is not None:  # else rows of one cell stay in the order of the file
        order = np.lexsort((times[rows], cells))
    rows = rows[order]
    values = table.ratings[rows]
    pair = rows[np.argmin(is_last) :][:2]  # the first row that is not the last, and the next
    user, item = (ids.names[ids.codes[pair[0]]][:60] for ids in (table.user, table.item))
    sentence = (
        f"{count_words(n_repeated, 'row')} repeat{'s' * (n_repeated == 1)} a user-item pair, first"
        f" user '{user}' with item '{item}'"
    )
    rule = options.duplicates
    decision = "one click is counted" if clicks else f"the {rule.value} is used"
    fault = Fault(f"{sentence}: {decision}")
    if rule is Duplicates.ERROR and not clicks:
        lines = " and ".join(map(table.locate, sorted(pair.tolist())))
        advice = "keep one rating per pair, or use the last or the mean"
        fault = Fault(f"{sentence} ({lines})", advice, ("duplicates=last", "duplicates=mean"))
    if rule is Duplicates.MEAN:
        groups = np.cumsum(is_last) - is_last  # the number of the cell that each row has
        values = np.bincount(groups, values) / np.bincount(groups)
    else:
        values = values[is_last]
    return rows[is_last], values, n_repeated, fault


def _sort_stably(keys: Ints) -> Ints:
    """Return positions that sort whole numbers from 0, by sixteen bits after the other.

    NumPy sorts numbers of sixteen bits in linear time.
    """
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    for shift in range(16, int(keys.max(initial=0)).bit_length(), 16):
        digits = (keys >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def _recheck_facts(table: Table, rows: Ints, item: str | int | None) -> Iterator[Fault]:
    """Yield why zeros may be no ratings, or the columns that were taken hold no ids, by counts.

    Items that come once may be titles of reviews, unless their column is chosen.
    """
    layout = table.layout
    if layout.is_matrix:
        zeros = np.count_nonzero(table.ratings[rows] == 0) / max(len(rows), 1)
        if zeros >= _ZEROS and len(rows) == len(table.user.names) * len(table.item.names):
            problem = f"{zeros:.0%} of the cells are 0, and none is empty"
            advice = "say whether 0 stands for 'not rated'"
            yield Fault(problem, advice, ("missing=0", "missing=none"))
        return
    counts = [np.bincount(ids.codes[rows]) for ids in (table.user, table.item)]
    user_counts, item_counts = counts
    users, items = (int(np.count_nonzero(count)) for count in counts)
    if len(rows) <= _MIN_COUNTED:
        return
    if _are_mostly_ones(user_counts):
        problem = f"nearly all of the {users:,} users in {layout.name_of('user')} have one rating"
        advice, column = "say which column names the person", "user=COLUMN"
    elif item is None and layout.header and _are_mostly_ones(item_counts):
        problem = f"nearly all of the {items:,} items in {layout.name_of('item')} have one rating"
        advice, column = "say which column names what is rated", "item=COLUMN"
    else:
        return
    yield Fault(problem, advice, (*layout.others, column))


def has_single_ratings(checked: Checked) -> bool:
    """Return whether nearly all users, or nearly all items, of more than a few have one rating."""
    counts = (np.bincount(c.codes[checked.rows]) for c in (checked.table.user, checked.table.item))
    return len(checked.rows) > _MIN_COUNTED and any(map(_are_mostly_ones, counts))


def _are_mostly_ones(counts: Ints) -> bool:
    """Return whether nearly all of those that are counted at all are counted once."""
    return bool((counts == 1).sum() >= _MOSTLY * (counts > 0).sum())


def build(judged: Sequence[Checked]) -> list[Ratings]:
    """Return ratings over the users and items that have any, in their natural order; where a public
    catalogue holds all of them, over the catalogue.

    Of several tables over one list of users and items: over those of all of them.

    Raises:
        BadRatings: if their ranges differ.
    """
    first = judged[0]
    for checked in judged:
        if (checked.low, checked.high) != (first.low, first.high):
            raise BadRatings(
                f"{first.table.source.name} and {checked.table.source.name} have different rating"
                " ranges: give the range, low and high"
            )
    public_set = first.table.layout.known
    n_users, n_items = (public_set and public_set.catalogue) or (None, None)
    users = _select_rated(judged, [checked.table.user for checked in judged], n_users)
    items = _select_rated(judged, [checked.table.item for checked in judged], n_items)
    check_cancelled()
    public = PublicFacts(
        users=len(users[0].names), items=len(items[0].names), low=first.low, high=first.high
    )
    return [
        Ratings.build(
            user.codes[checked.rows],
            item.codes[checked.rows],
            checked.values,
            public,
            times=checked.times,
            user_ids=user.names,
            item_ids=item.names,
            columns=checked.table.layout.used,
        )
        for checked, user, item in zip(judged, users, items, strict=True)
    ]


def _select_rated(
    judged: Sequence[Checked], columns: list[Ids], catalogue: int | None
) -> list[Ids]:
    """Return columns over the ids that appear in the rows, or over a catalogue 1..n that holds
    them."""
    check_cancelled()
    names = columns[0].names
    if catalogue:
        full = _number_names(catalogue)
        if compute.all(compute.is_in(names.texts, value_set=full.texts)).as_py():
            return [ids.recode(full) for ids in columns]
    used = np.full(len(names), all(checked.table.layout.is_complete for checked in judged))
    for ids, checked in zip(columns, judged, strict=True):
        used[ids.codes[checked.rows]] = True
    check_cancelled()
    return columns if used.all() else [ids.select(used) for ids in columns]


# In words -----------------------------------------------------------------------------------------


def count_words(number: int | np.integer[Any], noun: str) -> str:
    """Return so many of a thing: '1 row', '2,000 rows'."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_words(ratings: Ratings) -> str:
    """Return how many users, items and ratings there are."""
    public = ratings.public
    return (
        f"{count_words(public.users, 'user')}, {count_words(public.items, 'item')},"
        f" {count_words(len(ratings), 'rating')}: {100 * ratings.density:.3g} % of all cells"
    )


def facts_of(ratings: Ratings) -> tuple[str, ...]:
    """Return what is worth knowing about valid ratings: size, empty and short rows, one value."""
    counts = np.diff(ratings.indptr)
    lines = [
        size_words(ratings),
        f"a user has {f'{counts.min():,} to ' * bool(np.ptp(counts))}"
        f"{count_words(counts.max(), 'rating')}, the median is {np.median(counts):g}",
    ]
    nothing = "no ratings: what is predicted for them rests on others alone"
    for number, noun, fact in (
        (np.count_nonzero(counts == 0), "user", nothing),
        (np.count_nonzero((counts > 0) & (counts < FEW)), "user", f"fewer than {FEW} ratings"),
        (
            np.count_nonzero(np.bincount(ratings.items, minlength=ratings.public.items) == 0),
            "item",
            "no ratings",
        ),
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
    """Return what became of every line, in words."""
    kinds = {
        "names the columns": count.header,
        "blank": count.blank,
        "continuing quoted text": count.continued,
    }
    counts = [f"{number:,} {kind}" for kind, number in kinds.items() if number]
    lines = ", ".join([count_words(count.rows, "row"), *counts])
    cells = f", with {count.entries:,} filled cells" * (count.entries != count.rows)
    return (
        f"{count_words(count.lines, 'line')}: {lines}{cells}. {count.used:,} used,"
        f" {sum(count.left_out.values()):,} left out, {count.repeated:,} repeated"
    )
