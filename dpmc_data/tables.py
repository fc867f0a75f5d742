"""Tables: what a text file is made of, and every way to cut its first lines into columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dpmc_core.errors import BadRatings
from dpmc_core.ratings import number_ids
from dpmc_data.readings import ROLE_OF, Column, Format, Layout, RowSample, is_column_number
from dpmc_data.source import NO_COLUMN, Fault, FileShape, Header, ReadOptions, Refused, Source
from dpmc_data.text import (
    KNOWLEDGE,
    Record,
    Row,
    format_plain_value,
    has_nested_values,
    normalise_name,
    parse_date,
    parse_decimal,
    parse_json_object,
    parse_rating,
    read_first_records,
    read_text,
)

FIRST_ROWS, _FIRST_CHARACTERS = 400, 2_000_000  # that are looked at, fewer where lines are long
_PREVIEWED = 8  # rows
_BLOCKS, _BLOCK_BYTES, _BLOCK_ROWS = 10, 65_536, 30  # of a large file, at random places
_LARGE = 4_000_000  # bytes from which on a file is looked at in other places than its head
_CUTS = 3  # separators, and headers for each of them, that are tried
_MAX_TITLES = 8  # lines above a table
_MAX_COLUMNS = 5_000  # of which more are a matrix, or no table
_JSON, _PREAMBLE = (re.compile(KNOWLEDGE["patterns"][name]) for name in ("json", "preamble"))


def open_text(parts: Sequence[Source], options: ReadOptions) -> list[RowSample]:
    """Return the first rows of a text file, or of a folder of them, cut in every likely way.

    Raises:
        BadRatings: if it is no table at all.
    """
    samples = _open_first(parts[0], options)
    if not parts[0].keys and len(parts) == 1:
        return samples
    heads = {tuple(_read_heads(part, samples[0].layout)) for part in parts}
    if any(sample.layout.header for sample in samples) and len(heads) > 1:
        raise BadRatings(
            f"the files of the folder of {parts[0].name} have different first lines: write all"
            " files alike"
        )
    if not parts[0].keys:
        return samples
    keys = tuple(key for key, _ in parts[0].keys)
    extended = []
    for sample in samples:
        columns = sample.layout.columns
        more = keys if sample.layout.is_named else number_ids(len((*columns, *keys)))[-len(keys) :]
        columns = (*columns, *more)
        rows = [
            (*row, *(value for _, value in part.keys))
            for part in parts[:50]  # enough to see which keys there are
            for row in (sample.rows if part is parts[0] else _read_some(part, sample.layout))
        ]
        layout = replace(sample.layout, columns=columns, rows=tuple(rows[:_PREVIEWED]))
        extended.append(replace(sample, layout=layout, rows=rows))
    return extended


def _read_heads(part: Source, layout: Layout) -> list[str]:
    """Return the lines of a file that stand above its rows."""
    lines = [line for _, line in _read_first_lines(read_text(part, layout.encoding))]
    return lines[: layout.skip]


def _read_some(part: Source, layout: Layout) -> list[Row]:
    """Return the first rows of another file of a folder."""
    lines = _read_first_lines(read_text(part, layout.encoding))[layout.skip :][:_BLOCK_ROWS]
    records = read_first_records(lines, layout.separator, layout.quote)
    return [row for _, row in records if row is not None and len(row) == layout.width]


def _open_first(source: Source, options: ReadOptions) -> list[RowSample]:
    """Return the first rows of a text file, cut in every likely way. Raises BadRatings."""
    head = source.read_head()
    for magic, problem in KNOWLEDGE["binary"].items():
        if head.startswith(magic.encode("latin-1")):
            raise BadRatings(f"{source.name} is {problem}")
    # In UTF-16 every second byte of Latin letters is 0.
    unmarked = "utf-16-le" if head[1::2].count(0) > len(head) / 4 else "utf-8-sig"
    marks = KNOWLEDGE["encodings"].items()
    marked = (name for mark, name in marks if head.startswith(mark.encode("latin-1")))
    encoding, form = options.encoding or next(marked, unmarked), ""
    lines = _read_first_lines(read_text(source, encoding))
    if not lines:
        raise BadRatings(f"{source.name} holds no ratings, only blank lines")
    if options.separator is None:
        text = "\n".join(line for _, line in lines)
        for pattern, problem in KNOWLEDGE["markup"].items():
            if re.match(pattern, text.lstrip(), re.IGNORECASE | re.MULTILINE):
                raise BadRatings(f"{source.name} is {problem.strip()}")
        forms = KNOWLEDGE["forms"].items()
        form = next((form for form, pattern in forms if re.match(pattern, text, re.I | re.M)), "")
        if not form and _JSON.match(lines[0][1].strip()) and has_nested_values(lines[0][1]):
            form = "nested"
    if form:
        lines = _read_first_lines(read_text(source, encoding, form))
        if not lines:
            raise BadRatings(f"{source.name} holds no table in its {form}")
    skipped, first_line = lines[0]
    layout = Layout(source.name, (), encoding, form=form, skip=skipped)
    if _JSON.match(first_line.strip()):
        sample = _sample_objects(layout, [line for _, line in lines])
        return [sample.under(options)]
    samples = [*_cut_lines(layout, options, lines)]
    # A block from the middle of a file can be cut only where a byte shows the end of a line.
    if source.path and not form and source.size > _LARGE and "16" not in encoding:
        samples = [
            replace(sample, rows=[*sample.rows, *_read_blocks(source, encoding, sample.layout)])
            for sample in samples
        ]
    return [sample.under(options) for sample in samples]


def _read_first_lines(chunks: Iterable[str]) -> list[tuple[int, str]]:
    """Return the first filled lines, each with the number of lines before it."""
    lines: list[tuple[int, str]] = []
    size = 0
    for number, line in enumerate(line for chunk in chunks for line in chunk.split("\n")[:-1]):
        if line.strip():
            lines.append((number, line))
            size += len(line)
        if len(lines) == FIRST_ROWS or (len(lines) > 1 and size > _FIRST_CHARACTERS):
            break
    return lines


def _read_blocks(source: Source, encoding: str, layout: Layout) -> Iterator[Row]:
    """Yield rows from random places of a large file, which are always the same."""
    rng = np.random.default_rng(source.size)
    with source.open() as file:
        for start in np.sort(rng.integers(0, source.size - _BLOCK_BYTES, _BLOCKS)):
            file.seek(int(start))
            block = file.read(_BLOCK_BYTES).decode(encoding, errors="ignore")
            lines = block.replace("\r\n", "\n").split("\n")[1 : _BLOCK_ROWS + 1]
            numbered = [(0, line) for line in lines[:-1] if line.strip()]
            for _, row in read_first_records(numbered, layout.separator, layout.quote):
                if row is not None and len(row) == layout.width:
                    yield row


def _sample_objects(layout: Layout, lines: Row) -> RowSample:
    """Return the sample of JSON lines, whose keys are the columns."""
    objects = [parsed for line in lines if (parsed := parse_json_object(line)) is not None]
    layout = replace(layout, format=Format.JSON)
    if not objects or not lines[0].rstrip().endswith("}"):
        fault = Fault("its first line is no JSON object", "write one object per line, or CSV")
        raise Refused(layout.file, [fault])
    names = tuple(dict.fromkeys(name for parsed in objects for name in parsed))
    rows = [
        tuple(format_plain_value(parsed.get(name)) or "" for name in names) for parsed in objects
    ]
    layout = replace(layout, columns=names, rows=tuple(rows[:_PREVIEWED]))
    return RowSample(layout, rows, lost=len(lines) - len(objects))


# Separators, quotes and headers -------------------------------------------------------------------


def _cut_lines(
    layout: Layout, options: ReadOptions, lines: list[tuple[int, str]]
) -> Iterator[RowSample]:
    """Yield the samples of lines of fields, for each separator, quote and header."""
    separator = options.separator
    while len(lines) > 1 and (preamble := _PREAMBLE.match(lines[0][1])):
        separator = separator or preamble["separator"]
        del lines[0]
    cuts = []
    for mark in [separator] if separator else ["::", "\t", ";", ",", "|", " "]:
        for quote in _list_quotes(lines, mark):
            records = read_first_records(lines, mark, quote)
            widths = Counter(len(row) if row else 0 for _, row in records)
            width, count = max(((w, n) for w, n in widths.items() if w > 1),
                               key=lambda pair: (pair[1], pair[0]), default=(0, 0))  # fmt: skip
            if width or (separator and options.layout is not FileShape.GUESS):
                # Texts hold blanks and quotes, too, so these must cut the lines more evenly.
                penalty = 0.5 * (mark == " ") + 0.2 * (quote == "")
                cuts.append((count / len(records) - penalty, width, mark, quote, records))
    if not cuts or (max(cuts)[0] < 0.2 and options.layout is not FileShape.ADJACENCY):
        # Hardly any lines have one width: an adjacency list, as one between blanks may be.
        uneven = [cut for cut in cuts if cut[2] == " " or separator]
        cuts = uneven or cuts
    if not cuts:
        advice = (
            "user, item and rating stand side by side; if something else than comma,"
            " semicolon, tab, bar, :: or blanks lies between them, say it"
        )
        fault = Fault("one column only", advice, ("separator=CHARACTER",))
        raise Refused(layout.file, [fault])
    # The evenest first, and of equally even ones that with the most columns.
    cuts.sort(key=lambda cut: (-round(cut[0], 2), -cut[1]))
    best = cuts[0]
    n_samples = 0
    for evenness, width, mark, quote, records in cuts[:_CUTS]:
        if evenness < best[0] - 0.4 and n_samples:
            continue
        base = replace(layout, separator=mark, quote=quote, width=width)
        for sample in _cut_records(base, options, records):
            n_samples += 1
            yield replace(sample, cut=sample.cut - 2 * (best[0] - evenness))


def _list_quotes(lines: Sequence[tuple[int, str]], mark: str) -> list[str]:
    """Return what may stand around fields: double quotes, single ones, or nothing."""
    # An apostrophe in a name is no quote, so a single one must stand at an edge of a field.
    texts = [line.strip() for _, line in lines]
    edge = re.escape(mark)
    single = sum(bool(re.match(rf"'.*'{edge}|.*{edge}'.*'", text)) for text in texts)
    if single > 0.5 * len(texts):
        return ["'"]
    # Quotes join lines rarely: many lines with an odd number of them have quotes as letters.
    odd = sum(text.count('"') % 2 for text in texts)
    return ['"', ""] if odd > max(0.2 * len(texts), 4) else ['"']


def _cut_records(
    layout: Layout, options: ReadOptions, records: list[Record]
) -> Iterator[RowSample]:
    """Yield the samples of records for each likely header.

    Two shapes have no header and are told by their numbers: the lines of the Jester sets, and an
    adjacency list, whose lines differ in length.
    """
    _, first = records[0]
    rows = [row for _, row in records if row is not None]
    # A record without fields has an open quote. If most have none, those few are left out.
    if not rows or (first is None and layout.quote):
        if len(rows) * 2 > len(records):
            records = [record for record in records if record[1] is not None] or records
            _, first = records[0]
        if first is None:
            fault = Fault(
                "its first line has a quote that is not closed",
                f"close it, or remove the quotes: tr -d '\"' < {layout.file}",
            )
            raise Refused(layout.file, [fault])
    if options.layout is FileShape.ADJACENCY:
        yield _build_adjacency(layout, records)
        return
    width = layout.width
    if options.layout is FileShape.GUESS:
        # In the Jester sets a line is the number of its ratings and 100 ratings, 99 for none. Of
        # another width the first line must lack a rating, or its number says nothing.
        counted = width > 20 and sum(map(_counts_ratings, rows)) > 0.95 * len(rows)
        if counted and (width == 101 or parse_decimal(rows[0][0]) != width - 1):
            base = replace(
                layout,
                columns=number_ids(width),
                skip=records[0][0],
                shape=FileShape.WIDE,
                ratings=range(1, width),
                missing=99,
                rows=tuple(rows[:_PREVIEWED]),
            )
            yield RowSample(base, rows, cut=5.0)
            return
        is_uneven = len(rows) > 2 and sum(len(row) == width for row in rows) < len(rows) / 2
        if is_uneven and all(text.isdecimal() for row in rows for text in row):
            yield _build_adjacency(layout, records)
            return
    if options.header is Header.YES and len(records) == 1:
        raise BadRatings(f"{layout.file} has a header line but no ratings below it")
    yield from _propose_headers(layout, options, records)


def _build_adjacency(layout: Layout, records: list[Record]) -> RowSample:
    """Return the sample of lines that each hold a user and then any number of items."""
    rows = [row for _, row in records if row]
    width = max(map(len, rows))
    layout = replace(
        layout,
        columns=number_ids(width),
        width=width,
        shape=FileShape.ADJACENCY,
        roles={"user": 0, "item": 1},
        skip=records[0][0],
        rows=tuple(rows[:_PREVIEWED]),
    )
    return RowSample(layout, rows)


def _counts_ratings(row: Row) -> bool:
    """Return whether a line begins with the number of its ratings, 99 being none."""
    numbers = list(map(parse_decimal, row))
    return numbers[0] == len(row) - 1 - numbers.count(99)


def _propose_headers(
    layout: Layout, options: ReadOptions, records: list[Record]
) -> Iterator[RowSample]:
    """Yield samples with each of the likeliest headers, and without any."""
    width = layout.width
    # Lines that may be titles are no rows of the body; a short file has a header at most.
    n_titles = _MAX_TITLES if len(records) > 2 * _MAX_TITLES else 1
    table = [row for _, row in records[n_titles:] if row and len(row) == width]
    # The last rows are the farthest from any lines above the table.
    body = [Column(k, "", cells, False) for k, cells in enumerate(zip(*table[-500:], strict=True))]
    if not body:
        body = [Column(k, "", (), False) for k in range(width)]
    is_numeric = [_holds_numbers(column) for column in body]
    trials = _try_headers(options, records, body, is_numeric)
    for fit, start, header in sorted(trials, key=lambda trial: -trial[0])[:_CUTS]:
        if header is not None and start >= len(records):
            continue
        rows = [row for _, row in records[start:] if row is not None]
        good = [row for row in rows if len(row) >= width and not any(row[width:])]
        columns = number_ids(width) if header is None else header
        while (  # without a last column that has neither a name nor a text
            len(columns) > 1
            and header is not None
            and not columns[-1]
            and not any(row[len(columns) - 1] for row in good)
        ):
            columns = columns[:-1]
        if len(columns) > _MAX_COLUMNS and not all(is_numeric[1:]):
            raise BadRatings(
                f"{layout.file} has {len(columns):,} columns that hold no ratings: keep those of"
                " the user, the item and the rating"
            )
        cut = replace(
            layout,
            columns=tuple(columns),
            skip=records[start][0],
            header=header is not None,
            rows=tuple(good[:_PREVIEWED]),
        )
        # Lines above a header are titles; without a header they are lost rows.
        lost = len(records) - len(good) - (header is not None) * start
        # A header beyond doubt must not outweigh what the columns hold.
        yield RowSample(cut, good, cut=min(fit, 6.0), lost=lost)


def _try_headers(
    options: ReadOptions,
    records: Sequence[Record],
    body: Sequence[Column],
    is_numeric: Sequence[bool],
) -> Iterator[tuple[float, int, tuple[str, ...] | None]]:
    """Yield how likely each header is, the record below it, and its names; None without a header.

    A header is rated against the rows below it, in the unit of `FEATURES`. Lines that it skips make
    it less likely, most of all if they look like rows. A name that a person gave speaks for it.

    Args:
        options: the options of reading.
        records: the first lines, cut into fields.
        body: the columns of the rows below.
        is_numeric: whether each of these columns holds numbers.
    """
    width = len(body)
    requested = {str(name) for name in options.columns.values() if not is_column_number(name)} - {
        NO_COLUMN,
        "",
    }
    if options.header is not Header.YES:
        start = next((k for k, (_, row) in enumerate(records) if row and len(row) == width), 0)
        yield -0.3 * start, start, None
    if options.header is not Header.NO and len(records) > 1:
        for k in range(min(_MAX_TITLES, len(records) - 1)):
            _, below = records[k + 1]
            # One filled cell below may be the last line of a header, with the name of the ids.
            is_part = width > 3 and sum(map(bool, below or ())) == 1
            for names in _merge_names([row for _, row in records[: k + 1]], body, is_numeric):
                fit = _rate_header(names, body, is_numeric)
                skipped = [row for _, row in records[:k] if row]
                fit -= sum(0.05 + 1.2 * _is_data(row, body, is_numeric) for row in skipped)
                fit -= 0.6 * is_part
                fit += 3.0 * bool(requested & {*names})
                yield fit, k + 1, names


def _merge_names(
    rows: Sequence[Row | None], body: Sequence[Column], is_numeric: Sequence[bool]
) -> Iterator[tuple[str, ...]]:
    """Yield the names that the last of some lines gives, and all of them together.

    A spreadsheet may spread its header over several lines, as in "Film | Alien | Brazil" below
    "Ratings". Each column then has the name in whichever line fills its cell.

    Args:
        rows: the lines above the table, down to the last one of its header.
        body: the columns of the rows below.
        is_numeric: whether each of these columns holds numbers.
    """
    last, width = rows[-1], len(body)
    if last is None or not any(last):
        return
    plain: tuple[str, ...] = tuple(last[:width])
    if len(plain) == width - 1:
        plain = ("", *plain)  # the rows have names of their own
    if len(plain) == width and not any(last[width:]) and sum(map(bool, last)) > 1:
        yield plain
    # All lines together only if each is as wide as the table and none is one of its rows.
    titles = [row for row in rows if row and len(row) >= width]
    if len(titles) < 2 or len(titles) != len(rows):
        return
    fullest = max(titles, key=lambda row: len({*row}))
    if any(_is_data(row, body, is_numeric) for row in titles if row is not fullest):
        return
    names = tuple(max(column, key=bool) for column in zip(fullest, *titles, strict=False))[:width]
    if [text for text in last if text] == [last[0]]:  # only the ids are named there
        names = (last[0], *names[1:])
    if names != plain:
        yield names


def _holds_numbers(column: Column) -> bool:
    """Return whether nearly all filled cells are numbers, ratings or dates."""
    some = [text for text in column.filled if text][:200]
    good = sum(map(_is_value, some))
    return len(some) > 0 and good >= 0.8 * len(some)


def _is_value(text: str) -> bool:
    """Return whether a text is a number, a date, or a rating with words."""
    return _is_number_or_date(text) or parse_rating(text) is not None


def _is_number_or_date(text: str) -> bool:
    """Return whether a text is a number or a date."""
    return parse_decimal(text) is not None or parse_date(text) is not None


def _is_data(row: Row, body: Sequence[Column], is_numeric: Sequence[bool]) -> bool:
    """Return whether a line looks like one of the rows.

    One cell is enough: a number in a column of numbers, or a text that the column holds. Few rows
    may repeat a name by chance.
    """
    return len(row) >= len(body) and any(
        text
        and ((numeric and _is_value(text)) or (len(column.cells) > 20 and text in column.filled))
        for text, column, numeric in zip(row, body, is_numeric, strict=False)
    )


def _rate_header(
    names: tuple[str, ...], body: Sequence[Column], is_numeric: Sequence[bool]
) -> float:
    """Return how likely a line names the columns below it rather than being one of the rows.

    The numbers are rough, in the unit of `FEATURES`. For it speak known names, words over numbers,
    and numbers that count up; against it any text that its own column repeats as a value.
    """
    keys = [key for key in map(normalise_name, names) if key in ROLE_OF]
    long_keys = [key for key in keys if len(key) > 1]
    roles = {ROLE_OF[key] for key in long_keys}
    fit = 0.8 * min(len(roles), 3) + 0.2 * len({*keys} - {*long_keys})
    filled = [name for name in names if name]
    heads = [*zip(names, body, is_numeric, strict=False)]
    n_rows = max((len(column.cells) for column in body), default=0)
    over_numbers = [(name, column) for name, column, numeric in heads if numeric and name]
    contrast = [name for name, _ in over_numbers if not _is_value(name)]
    if contrast and n_rows > 2:
        fit += 1.2
    elif contrast:
        fit += 0.4
    numbers = [name for name in filled if _is_number_or_date(name)]
    values = [*map(parse_decimal, numbers)]
    # Numbers over a matrix name its columns where they count up, or lie beyond its ratings.
    counts_up = len(values) > 2 and None not in values and all(a < b for a, b in pairwise(values))  # type: ignore[operator]
    beyond = sum(name not in column.filled for name, column in over_numbers)
    is_run = counts_up and len(numbers) >= 3 and values[-1] - values[0] == len(values) - 1  # type: ignore[operator]
    if (
        (is_run and len(numbers) > 4)
        or (counts_up and len(numbers) > 2 and is_run and beyond > 0.5 * len(over_numbers))
        or (counts_up and len(numbers) > 4 and beyond > 0.5 * len(over_numbers))
    ):
        fit += 1.5
    elif len(numbers) > 4 and len({*numbers}) == len(numbers) and beyond > 0.9 * len(over_numbers):
        fit += 1.0
    elif numbers:
        fit -= 2.0
    recurs = sum(name in column.filled for name, column, _ in heads if name)
    fit -= 2.5 * (recurs > 0 and not counts_up)
    fit -= 1.0 * any(name.lower() in KNOWLEDGE["words"]["nothing"] for name in filled)
    fit -= 0.7 * (len({*filled}) < len(filled))
    empty = sum(not name and bool(column.filled) for name, column, _ in heads[1:])
    return fit - min(0.3 * empty, 1.5)
