"""Text files of ratings: what one looks like, recognised from its beginning, and its columns.

Separator, header, shape and roles are found in the first lines. All lines are then cut by pyarrow,
and by Python's csv and json where that asks care. A line ends at \\n, \\r\\n or a lone \\r and
nowhere else. Quotes join lines only in a record that is well formed from its first to its last
field; any other quote left open spoils its own line.
"""

from __future__ import annotations

import codecs
import csv
import enum
import io
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

import numpy as np

from dpmc_core.arrays import Ints, LateModule
from dpmc_core.data.public_sets import PublicSet
from dpmc_core.data.source import (
    BLOCK_BYTES,
    NO_COLUMN,
    SEPARATORS,
    Fault,
    FileShape,
    Header,
    ReadOptions,
    ReadProgress,
    Refused,
    Source,
)
from dpmc_core.errors import BadRatings
from dpmc_core.ratings import ColumnRoles, number_ids
from dpmc_core.stopping import check_cancelled

pa, compute = LateModule("pyarrow"), LateModule("pyarrow.compute")
arrow_csv, arrow_json = LateModule("pyarrow.csv"), LateModule("pyarrow.json")

Row = Sequence[str]  # fields as text
Rows = tuple[tuple[str, ...], ...]
Record = tuple[Sequence[Sequence[str | None]], int, str]  # rows, line of the next, what is wrong
Cut = tuple[list[Any], Ints]  # the used columns, as arrays of pyarrow, and the line of each row

ROLES = ("user", "item", "rating", "time")
KNOWLEDGE: Any = tomllib.loads(Path(__file__).with_name("reading.toml").read_text("utf-8"))
_NAMES = KNOWLEDGE["roles"]
_NAMES["user"] += "".join(f" {name} {name}id" for name in _NAMES.pop("person").split()) + " u"
_ROLE_OF = {  # known names of columns, the most telling of each role first
    name: role for role, names in _NAMES.items() for name in names.split()
}
_WORDS = KNOWLEDGE["words"]
_GUESSABLE = 4  # columns without names that may be user, item, rating and time in this order
_MATRIX = 5  # columns of numbers of one range from which on they are a matrix
_SMALL_MATRIX = 3  # the same where no name says something else
_OFFERS = 4  # readings to choose from at most
MATRICES = (FileShape.WIDE, FileShape.TRANSPOSED)
OTHERS = "every other column"  # where the items of a matrix are
_SPREAD = 20  # ratings of an item from which on they are not all of one kind
MISSING = {"", *_WORDS["missing"]}  # in a cell, small letters
_NO_RATINGS = MISSING | {"99", "999", "-1", "-9", "-99"}  # with numbers that often are none
_LOOK, _LOOK_CHARACTERS = 200, 2_000_000  # filled lines looked at, fewer where they are long
_SHOWN = 8  # rows of a first look
_INDEX, _COMMENT, _JSON, _NUMBER, _COMMA, LEADING, _INFINITE = map(
    re.compile, KNOWLEDGE["patterns"].values()
)


def parse_decimal(text: str) -> float | None:
    """A number as people write it, ASCII only, with a decimal point or comma; infinite where it is
    too large for a float; None where it is none."""
    if _NUMBER.fullmatch(text):
        return float(text)
    if _COMMA.fullmatch(text):
        return float(text.replace(",", "."))
    return math.copysign(math.inf, -(text[0] == "-")) if _INFINITE.fullmatch(text) else None


def parse_dates(texts: Any) -> list[float | None]:
    """Return Unix seconds of dates, in UTC where they name no zone, None where one is none.

    They are of ISO 8601, or all of one other known form alone.
    """
    dates = list(map(parse_date, texts.to_pylist()))
    if None not in dates:
        return dates
    zone = r"\s*(?:UTC|GMT)(?P<hours>[+-]\d{1,2})?$"
    plain = compute.replace_substring_regex(texts, zone, "")
    hours = compute.struct_field(compute.extract_regex(texts, zone), "hours").to_pylist()
    readings = []
    for form in KNOWLEDGE["dates"]["forms"]:
        stamps = compute.strptime(plain, format=form, unit="s", error_is_null=True)
        if not stamps.null_count:
            readings.append(stamps.cast("int64").to_pylist())
    if not readings or any(other != readings[0] for other in readings):
        return dates
    return [second - 3600 * int(hour or 0) for second, hour in zip(readings[0], hours, strict=True)]


def parse_date(text: str) -> float | None:
    """Return Unix seconds of an ISO 8601 date, in UTC where it names no zone, or None."""
    try:
        date = datetime.fromisoformat(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


class Format(enum.Enum):
    """What a file is made of, in words."""

    FIELDS = "between columns"
    JSON = "JSON lines"
    PARQUET = "Parquet"


@dataclass(frozen=True)
class Layout:
    """How a file is to be cut and which column holds what: found before it is read.

    encoding: of text, "" where there is none. skip: lines before the first row. columns: names, or
    1, 2, ... where there is no header. roles: position from 0 of each; without a rating each row is
    a click. rows: the first few, as text. guessed: roles that neither a name nor a person gave to
    their columns. faults: what nobody can guess, beside the range. known: the public set it is.
    ratings: of a matrix, the columns that hold them. written: in a way of `rewrite`, after which a
    row is a line. missing: the number for "not rated".
    """

    columns: tuple[str, ...]
    encoding: str = ""
    format: Format = Format.FIELDS
    separator: str = ","
    skip: int = 0
    header: bool = False
    roles: Mapping[str, int] = field(default_factory=dict)
    rows: tuple[tuple[str, ...], ...] = ()
    shape: FileShape = FileShape.ROWS
    guessed: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    known: PublicSet | None = None
    ratings: range = range(0)
    written: str = ""
    missing: float = math.nan

    @property
    def clicks(self) -> bool:
        has_columns = bool(self.roles) or len(self.columns) == 2
        return not self.is_matrix and "rating" not in self.roles and has_columns

    def ask(self, problem: str, advice: str, *answers: str) -> Layout:
        """Return the layout with this as its only fault."""
        return replace(self, faults=(Fault(problem, advice, answers),))

    @property
    def is_matrix(self) -> bool:
        return self.shape in MATRICES

    @property
    def is_whole(self) -> bool:
        """Whether who rated nothing, and what nobody rated, counts as well."""
        return not math.isnan(self.missing)

    @property
    def is_named(self) -> bool:
        """Whether the columns have names of their own."""
        return self.header or self.format is not Format.FIELDS

    @property
    def axes(self) -> tuple[str, str]:
        """Of a matrix, whose the lines are, and whose the columns."""
        return ("user", "item") if self.shape is FileShape.WIDE else ("item", "user")

    def name_of(self, role: str) -> str:
        """What a person would call the column: its name, or its number."""
        if role not in self.roles:
            return f"the {role}s"
        name = self.columns[self.roles[role]]
        return f"'{name}'" if self.is_named else f"column {name}"

    @property
    def used(self) -> ColumnRoles:
        """Which columns hold what, as ratings keep it."""
        used = {
            role: self.columns[k] if self.is_named else f"column {k + 1}"
            for role, k in self.roles.items()
        }
        if self.is_matrix:
            lines, columns = self.axes
            full = len(self.ratings) in (0, len(self.columns) - 1)
            span = OTHERS if full else f"columns {self.ratings[0] + 1} to {self.ratings[-1] + 1}"
            used = {lines: "the number of the line", **used, columns: span}
        return ColumnRoles(
            tuple((role, used[role]) for role in ROLES if role in used), self.guessed
        )

    @property
    def words(self) -> str:
        """The layout in words."""
        cut = self.format.value
        if self.format is Format.FIELDS:
            names = {mark: name for name, mark in SEPARATORS.items()}
            cut = f"{names.get(self.separator, self.separator)} {cut}"
        if self.shape is FileShape.ADJACENCY:
            return f"{cut}; on each line a user and then the items"
        if self.is_matrix:
            lines, columns = self.axes
            amount = f"{len(self.ratings):,}"
            return f"{cut}; a line for each {lines}, a column for each of {amount} {columns}s"
        order = ", ".join(f"{role} = {self.name_of(role)}" for role in self.roles)
        taken = " (guessed by position: choose them by hand if they are wrong)"
        clicks = "; every row is a click" * self.clicks
        return f"{cut}; {order}{clicks}{taken * bool(self.guessed)}"


def recognise(source: Source, options: ReadOptions) -> Layout:
    """The layout of a text file. Raises BadRatings where it is no table at all."""
    head = source.read_head()
    for magic, problem in KNOWLEDGE["binary"].items():
        if head.startswith(magic.encode("latin-1")):
            raise BadRatings(f"{source.name} is {problem}")
    half = "utf-16-le" if head[1::2].count(0) > len(head) / 4 else "utf-8-sig"  # without a mark
    marks = KNOWLEDGE["encodings"].items()
    marked = (name for mark, name in marks if head.startswith(mark.encode("latin-1")))
    encoding = options.encoding or next(marked, half)
    filled = list(_read_first_lines(read_blocks(source, encoding)))
    if not filled:
        raise BadRatings(f"{source.name} holds no ratings, only blank lines")
    written = ""
    if options.separator is None:
        text = "\n".join(line for _, line in filled)
        for begins, problem in KNOWLEDGE["markup"].items():
            if re.match(begins, text.lstrip(), re.IGNORECASE | re.MULTILINE):
                raise BadRatings(f"{source.name} is {problem.strip()}")
        ways = KNOWLEDGE["written"].items()
        written = next((way for way, begins in ways if re.match(begins, text, re.I | re.M)), "")
    if written:
        filled = list(_read_first_lines([rewrite(written, "".join(read_blocks(source, encoding)))]))
    lines = [line for _, line in filled]
    if _JSON.match(lines[0].strip()):
        layout = _recognise_objects(options, lines)
    else:
        layout = _recognise_table(source, options, filled)
        if written == "blocks" and not {"user", "item"} <= {*options.columns}:
            layout = layout.ask(
                "the number above each block may name what is rated, or the person",
                "say which",
                "user=2 and item=1",
                "user=1 and item=2",
            )
    skip = layout.skip or filled[0][0]
    return replace(layout, encoding=encoding, written=written, skip=skip)


def _read_first_lines(chunks: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(lines before it, line) of the first filled lines."""
    count = size = number = 0
    for chunk in chunks:
        for line in chunk.split("\n")[:-1]:
            if line.strip():
                yield number, line
                count, size = count + 1, size + len(line)
                if count == _LOOK or (count > 1 and size > _LOOK_CHARACTERS):
                    return
            number += 1


def _guess_separator(lines: Row) -> str:
    """What cuts the lines most evenly into more than one field; blanks where nothing else does."""
    best, best_even = "", (0.0, 0)
    for separator in ("::", "\t", ";", ",", "|", " "):
        if separator == " " and best_even[0] >= 0.5:
            break
        if separator == " " and all("\t" in line for line in lines):
            return "\t"  # hidden by quotes that stay open
        records = read_first_records(lines, separator)
        widths = [len(row) for _, row in records if row is not None]
        common = Counter(width for width in widths if width > 1).items()
        even = max(((n / len(widths), width) for width, n in common), default=(0.0, 0))
        if even > best_even:
            best, best_even = separator, even
    return best


def _recognise_table(source: Source, options: ReadOptions, filled: list[tuple[int, str]]) -> Layout:
    separator = options.separator
    while len(filled) > 1 and _COMMENT.match(filled[0][1]):
        del filled[0]
    if (mark := re.fullmatch(r"sep=(\W)", filled[0][1])) and len(filled) > 1:
        separator = separator or mark[1]
        del filled[0]
    separator = separator or _guess_separator([line for _, line in filled])
    if not separator:
        advice = (
            "user, item and rating stand side by side; if something else than comma,"
            " semicolon, tab, bar, :: or blanks lies between them, say it"
        )
        raise Refused(source.name, [Fault("one column only", advice, ("separator=CHARACTER",))])
    lines = [line for _, line in filled]
    cut = [(filled[k][0], row) for k, row in read_first_records(lines, separator)]
    rows = [row for _, row in cut if row is not None]
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    start = next((k for k, (_, row) in enumerate(cut) if len(_drop_empty(row)) > 1), 0)
    if sum(_normalise_name(text) in _ROLE_OF for text in cut[start][1] or ()) > 1:
        del cut[:start]  # titles above a header
    while len(cut) > 1 and not _drop_empty(cut[0][1]):
        del cut[0]  # separators alone
    # The names of a matrix may go over several lines.
    below = [tuple(row for _, row in cut[k:] if row) for k in (1, 2, 3)]
    fits = [len(_find_rating_columns(lower, width)) >= _MATRIX for lower in below]
    titles = cut[: [*fits, True].index(True) % 3 + 1]
    if not any(parse_decimal(text) is not None for _, row in titles for text in row or ()):
        del cut[: len(titles) - 1]
    before, first = cut[0]
    if first is None:
        fault = Fault(
            "its first line has a quote that is not closed",
            f"close it, or remove the quotes: tr -d '\"' < {source.name}",
        )
        raise Refused(source.name, [fault])
    rows_below = tuple(row for _, row in cut[1:] if row is not None)
    body = (first, *rows_below)
    layout = Layout(number_ids(width), separator=separator, skip=before, rows=body[:_SHOWN])
    if options.layout is FileShape.ADJACENCY:
        return replace(layout, shape=options.layout, roles={"user": 0, "item": 1})
    counted = width > 20 and options.layout is FileShape.GUESS and all(map(_is_counted, rows))
    if counted and (width == 101 or parse_decimal(rows[0][0]) != width - 1):
        return replace(layout, shape=FileShape.WIDE, ratings=range(1, width), missing=99)
    even = sum(len(row) == width for row in rows) / max(len(rows), 1)
    whole = all(text.isdecimal() for row in rows for text in row)
    if options.layout is FileShape.GUESS and whole and even < 0.5 and len(rows) > 2:
        return layout.ask(
            "its lines have different numbers of columns, all of them whole numbers",
            "if each is a user and then the items, say it",
            "layout=adjacency",
        )
    header, asked = _is_header(options, first, rows_below)
    if header and len(cut) == 1:
        raise BadRatings(f"{source.name} has a header line but no ratings below it")
    names = first
    if header:
        names = _drop_empty_tail(first)
        longer = [row[0] for row in rows_below if len(_drop_empty_tail(row)) == len(names) + 1]
        distinct = len({*longer}) == len(longer) > len(rows_below) / 2
        if distinct and options.header is Header.GUESS:
            names = ("", *names)  # the rows have names of their own, each another
    layout = replace(
        layout,
        columns=names if header else number_ids(len(names)),
        skip=before + header,
        header=header,
        rows=body[header:][:_SHOWN],
        faults=(asked,) if asked else (),
    )
    return _recognise_layout(layout, options, body[header:])


def _is_counted(row: Row) -> bool:
    """Whether a line says how many of its ratings are there, 99 where one is not."""
    numbers = list(map(parse_decimal, row))
    return numbers[0] == len(row) - 1 - numbers.count(99)


def rewrite(written: str, text: str) -> str:
    """Return a text with a rating on each line; every line has the place that it had.

    Args:
        written: "drawn", as a table with lines and marks around its rows; "blocks", below the
            number of a user or an item; or "records", a rating over several lines of "name: value".
        text: whole lines; of blocks and records all of them.
    """

    def join_record(record: re.Match[str]) -> str:
        pairs = [line.partition(":")[::2] for line in record[0].split("\n")[:-1]]
        joined = json.dumps({name: value.strip() for name, value in pairs})
        return "\n" * (len(pairs) - 1) + f"{joined}\n"

    def join_block(block: re.Match[str]) -> str:
        return "\n" + re.sub("^(?=.)", f"{block[1]},", block[2], flags=re.MULTILINE)

    if written == "records":
        return re.sub(r"(?:.+\n)+", join_record, text)
    if written == "blocks":
        return re.sub(r"^(\d+):[ \t]*\n((?:.*[^:\n]\n|\n)*)", join_block, text, flags=re.MULTILINE)
    for pattern, replacement in KNOWLEDGE["clean"].items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def _drop_empty(row: Row | None) -> Row:
    """The fields that are not empty; of a line that cannot be cut one that says so."""
    return ["?"] if row is None else [text for text in row if text]


def _drop_empty_tail(names: tuple[str, ...]) -> tuple[str, ...]:
    """A header without empty names at its end."""
    while len(names) > 1 and not names[-1]:
        names = names[:-1]
    return names


def _normalise_name(name: str) -> str:
    """A name as names are compared: case, blanks and punctuation aside."""
    # Types, as RecBole writes them, and what a name is of, as in SNAP's records.
    name = re.sub(r":(token|float)(_seq)?$|^[a-z]+/", "", normalize("NFC", name.lower()))
    return "".join(c for c in name if category(c)[0] not in "PSZ")


def _is_header(
    options: ReadOptions, first: tuple[str, ...], rows: Rows
) -> tuple[bool, Fault | None]:
    """Whether the first line names columns, and what to ask where it could be either."""
    if options.header is not Header.GUESS:
        return options.header is Header.YES, None
    wanted = {name for name in options.columns.values() if name and not _is_column_number(name)}
    names = [name for name in map(_normalise_name, first) if name in _ROLE_OF]
    roles = {_ROLE_OF[name] for name in names}
    numbers = any(parse_decimal(text) is not None or parse_date(text) is not None for text in first)
    matrix = options.layout is not FileShape.ROWS and not options.columns
    either, wide = ("header=yes", "header=no"), ("layout=wide", "header=no")
    run = _find_rating_columns(rows, len(_drop_empty_tail(first))) if len(rows) > 1 else ()
    heads = [number for k in run if (number := parse_decimal(first[k])) is not None]
    # Numbers over ratings name the columns where they count up.
    names_items = len(run) >= _MATRIX and len(heads) in (0, len(run)) and heads == sorted({*heads})
    names_items = names_items and len({first[k] for k in run} - {*_WORDS["nothing"]}) == len(run)
    index = not first[0] and _counts_up(_extract_column(rows, 0))
    rules: Sequence[tuple[object, bool, tuple[str, ...]]] = (  # when, header, what to ask
        (options.layout in MATRICES or wanted & {*first} - {NO_COLUMN}, True, ()),
        (names_items or index, True, ()),
        (matrix and any(first[3:]) and not first[0] and not roles, False, wide),
        (({"user", "item"} <= roles or len(names) > 2) and not numbers, True, ()),
        (
            numbers or any(text.lower() in _WORDS["nothing"] for text in first),
            False,
            either * any(len(name) > 1 for name in names),
        ),
        # In two columns of clicks one such word may be somebody's name.
        (roles and len(first) > 2, True, ()),
        (True, False, either),
    )
    header, asked = next((header, asked) for when, header, asked in rules if when)
    problem = f"the first line, '{', '.join(first)[:60]}', may name the columns or be a rating"
    return header, Fault(problem, "say which", asked) if asked else None


def _recognise_layout(layout: Layout, options: ReadOptions, rows: Rows) -> Layout:
    """The layout as a matrix or as rows with roles, with what to ask where it could be another."""
    names, said = layout.columns, options.layout
    plain = [_normalise_name(name) if layout.header else "" for name in names]
    roles = [_ROLE_OF.get(name) for name in plain]
    # A letter or a word over one of many columns of ratings is an item's name and says nothing.
    run = _find_rating_columns(rows, len(names))
    if roles[0] == "user" and len(plain[0]) > 1:
        run = run[run.start == 0 :]  # numbers of people may look like ratings
    outer = [k for k in run if plain[k] not in _WORDS["about_people"]]
    run = range(outer[0], outer[-1] + 1) if outer else run[:0]
    full = len(run) == len(names) - 1
    if said in MATRICES:
        whole = len(run) < _MATRIX or (run.start == 1 and (full or roles[0] == "user"))
        if whole or options.columns or not layout.header:
            return _apply_matrix(replace(layout, shape=said), options.columns)
    elif said is not FileShape.GUESS or options.columns:
        return assign_roles(layout, options, rows)
    places = [k for k in range(len(names)) if k not in run and len(plain[k]) > 1]
    named = {role: k for k in reversed(places) if (role := roles[k])}
    # Without a name of another role three columns are enough.
    min_columns = _MATRIX if any(roles[1:]) or not layout.header else _SMALL_MATRIX
    many = len(run) >= min_columns and not {"user", "item"} <= {*named}
    if many and "user" in named:  # who is on many lines has no line of his own
        people = len({*_extract_column(rows, named["user"])})
        many = people > 0.9 * len(rows) or people == 1
        if people == 1 < len(rows):
            del named["user"]  # all are anonymous
    if not many and said is FileShape.GUESS:
        return assign_roles(layout, options, rows)
    if not many:
        return _apply_matrix(replace(layout, shape=said), options.columns)
    others = [k for k in range(len(names)) if k not in run]
    aside = [k for k in others if k != named.get("user") and roles[k] != "time"]
    if "user" in named and not aside:
        given: dict[str, Any] = {"user": named["user"] + 1, "item": f"{run.start + 1}:{run.stop}"}
        return _apply_matrix(replace(layout, shape=FileShape.WIDE), given)
    lines: list[Any] = [named["user"]] if "user" in named else []
    if not lines:  # whatever is another on each line
        columns = {k: _extract_column(rows, k) for k in others if roles[k] != "time"}
        lines = [
            k
            for k, texts in columns.items()
            if len({*texts}) == len(rows) and not _hold_times(texts)
        ] or [NO_COLUMN]
    shapes = ["transposed", "wide"] if "item" in named else ["wide", "transposed"]
    if "user" in named or not others:
        shapes = ["wide"]
    answers = [_format_matrix_answer(layout, shape, k, run) for k in lines[:2] for shape in shapes]
    texts = [_drop_empty(_extract_column(rows, k)) for k in aside]
    if len(run) < _MATRIX or any(
        1 < len({*column}) < len(column) and parse_rating(column[0]) is None for column in texts
    ):
        answers.append("layout=rows")  # one of these may be the item
    return _ask_layout(layout, *answers)


def _ask_layout(layout: Layout, *answers: str) -> Layout:
    problem = "each line may be one rating, or all ratings of a user or of an item"
    return replace(layout, faults=(*layout.faults, Fault(problem, "say which", answers)))


def _format_matrix_answer(layout: Layout, shape: str, line: int | str, run: range) -> str:
    """The options that read a matrix so, as few as can be."""
    answer = f"layout={shape}" + " and header=no" * (not layout.header)
    if line == 0 and layout.header and len(run) == len(layout.columns) - 1:
        return answer
    lines, columns = ("user", "item") if shape == "wide" else ("item", "user")
    number = line if isinstance(line, str) else line + 1
    return f"{answer} and {lines}={number} and {columns}={run[0] + 1}:{run[-1] + 1}"


def _apply_matrix(layout: Layout, given: Mapping[str, str | int]) -> Layout:
    """The layout of a matrix of which somebody said so."""
    names, (lines, columns) = layout.columns, layout.axes
    span = re.fullmatch(r"(\d{1,9}):(\d{1,9})", str(given.get(columns, "")))
    run = range(int(span[1]) - 1, int(span[2])) if span else range(1, len(names))
    line: int | Fault | None = None if given.get(lines) == NO_COLUMN else 0
    if line == 0 and lines in given:
        line = _find_column(lines, given[lines], names, layout.header)
    counts = Counter(names[k] for k in run if k < len(names))
    repeated = [name for name, count in counts.items() if count > 1]
    fault = line if isinstance(line, Fault) else None
    if not layout.header and not span:
        problem = "a users x items matrix needs a first line that names the items"
        fault = Fault(problem, "add it", ("header=yes",))
    elif (
        line in run
        or not 0 <= run.start < run.stop <= len(names)
        or ({"rating", "time", columns} & {*given} and not span)
    ):
        problem = f"in a matrix a column is the {lines}, and a range of others are the {columns}s"
        fault = Fault(problem, f"say {columns}=FIRST:LAST, and leave rating and time out")
    elif repeated:
        fault = Fault(
            f"two columns are called '{repeated[0]}'", "give every item a name of its own"
        )
    return replace(
        layout,
        roles={lines: line} if isinstance(line, int) else {},
        ratings=run,
        faults=(*layout.faults, fault) if fault else layout.faults,
    )


@lru_cache(maxsize=1)
def _find_rating_columns(rows: Rows, width: int) -> range:
    """The longest run of columns with numbers of one range, where they are not missing."""
    columns: list[Any] = []
    filled: list[int] = []
    for k in range(width):
        cells = Counter(_extract_column(rows, k))
        texts = [text for text in cells if text.lower() not in _NO_RATINGS]
        numbers = list(map(parse_rating, texts))
        counting = len(texts) == len(rows) > _MATRIX and _counts_up(texts)
        columns.append(None if None in numbers or counting or not cells else numbers)
        filled.append(sum(cells[text] for text in texts))
    ends = [(min(column), max(column)) for column in columns if column]
    if not ends:
        return range(0)
    k = len(ends) // 4  # so many may be of another range
    low, high = sorted(low for low, _ in ends)[k], sorted(high for _, high in ends)[-1 - k]
    wide = max(high - low, 1)
    good = [
        column is not None and all(low - wide / 2 <= x <= high + wide / 2 for x in column)
        for column in columns
    ]
    runs = [[*run] for alike, run in groupby(range(width), good.__getitem__) if alike]
    longest = max(runs, key=len, default=[])
    narrow = [
        filled[k] >= _SPREAD and 4 * (max(columns[k]) - min(columns[k])) < high - low
        for k in longest
        if columns[k]
    ]
    few = sum(narrow) <= len(longest) / 3
    return range(longest[0], longest[-1] + 1) if longest and few else range(0)


def assign_roles(layout: Layout, options: ReadOptions, rows: Rows = ()) -> Layout:
    """The layout with the role of each column, and with what is wrong with them: as asked for, else
    by known names, else by order, unless an object's, which mean nothing.

    Nobody is a user by order under a header, nor among many columns, nor by a number of the row;
    an item is taken so under a header only where no column is left over.
    """
    if layout.faults:
        return layout
    names, header, given = layout.columns, layout.is_named, options.columns
    absent = [role for role in ("rating", "time") if given.get(role) == NO_COLUMN]
    if options.event is not None:
        column = options.event.rpartition(":")[0]
        given["event"] = int(column) if _is_column_number(column) else column
    places = {r: _find_column(r, given[r], names, header) for r in given if r not in absent}
    # Of a role that no column is to have, the place is none.
    roles = dict.fromkeys(absent, -1) | {r: k for r, k in places.items() if isinstance(k, int)}
    faults = [place for place in places.values() if isinstance(place, Fault)]
    if faults:
        return replace(layout, faults=tuple(faults))
    plain = [_normalise_name(name) for name in names]
    known = [header and _ROLE_OF.get(name) for name in plain]
    for role in ROLES:
        mine = [k for k, its in enumerate(known) if its == role and k not in roles.values()]
        columns = [_extract_column(rows, k) for k in mine]
        pairs = len({*zip(*columns, strict=False)})
        either = role == "user" and pairs > max(map(len, map(set, columns)), default=0)
        if mine and role not in roles and not either:  # of judges and players either may rate
            roles[role] = min(mine, key=lambda k: list(_ROLE_OF).index(plain[k]))
    others = [k for k in range(len(names)) if k not in roles.values()]
    free = [  # what numbers the rows and what is to be left alone hold no role
        k
        for k in others
        if not header
        or not (known[k] in absent or plain[k] in _WORDS["row_numbers"] or _INDEX.match(names[k]))
    ]
    missing = [role for role in ROLES[:3] if role not in roles]
    if header:
        unsaid = layout.format is Format.JSON or "user" in missing
        unsaid |= "item" in missing and len(free) > len(missing)
        if "item" in missing:  # what holds no ratings comes first
            free.sort(key=lambda k: all(map(_can_rate, _extract_column(rows, k))))
    else:
        counting = bool(free) and _counts_up(_extract_column(rows, free[0]))
        unsaid = "user" in missing and (len(names) > _GUESSABLE or counting)
    taken = {} if unsaid else dict(zip(missing, free, strict=False))
    if (k := taken.get("rating")) is not None and rows:
        texts = _drop_empty(_extract_column(rows, k))
        if layout.header and texts and not any(map(_can_rate, texts)):
            del taken["rating"]  # words that say something else
        elif not header and "time" not in roles and _hold_times(texts):
            taken["time"] = taken.pop("rating")
    roles |= taken
    last = (
        not header
        and len(names) == 4
        and rows
        and not unsaid
        and parse_decimal(rows[0][3]) is not None
    )
    if last and not {"time", 3} & {*roles, *roles.values()}:
        taken["time"] = roles["time"] = 3
    unknown = [k for k in others if k not in roles.values() and "__index_level_" not in names[k]]
    candidates = ", ".join(names[k] for k in free if k not in roles.values())[:200]
    there = ", ".join(names)[:200] if header else f"{len(names)} without names"
    lost = [role for role in missing if role not in ("rating", *roles)]
    if lost:
        problem = f"no column holds the {' and the '.join(lost)} for certain; " + (
            f"candidates are {candidates}" if candidates and header else f"its columns are {there}"
        )
        advice = "say which column names what is rated"
        if "user" in lost:
            advice = "say which column names the person; a file of one person's ratings has none"
        offers = _offer_roles(roles, unknown, rows)
        faults.append(Fault(problem, advice, (*offers, *(f"{role}=COLUMN" for role in lost))))
    # Who gives a range expects ratings in it.
    elif (unknown or options.low is not None) and "rating" not in roles:
        events = [f"rating=none{event}" for event in _offer_events(unknown, rows)]
        raters = [f"rating={k + 1}" for k in _find_raters(unknown, rows)[:_OFFERS]]
        problem = f"no column holds the rating; its columns are {there}"
        answers = (*raters, "rating=none", *events, "rating=COLUMN")
        faults.append(Fault(problem, "say which does, or that each row is a click", answers))
    roles = {role: roles[role] for role in (*ROLES, "event") if roles.get(role, -1) >= 0}
    if len({*roles.values()}) < len(roles):
        faults.append(Fault("user, item, rating and time must be different columns"))
    for role, k in roles.items():
        alike = plain if role not in given and known[k] else names
        if header and alike.count(alike[k]) > 1 and not _is_column_number(given.get(role)):
            problem = f"two columns are called '{names[k]}'"
            advice = f"say by its number which holds the {role}"
            faults.append(Fault(problem, advice, (f"{role}={k + 1}",)))
    return replace(
        layout,
        roles=roles,
        guessed=tuple(taken),
        faults=tuple(faults),
    )


def _offer_roles(roles: Mapping[str, int], free: Sequence[int], rows: Rows) -> list[str]:
    """Answers that name user and item, and what else is missing, by what the columns hold."""
    values = {k: {*_extract_column(rows, k)} for k in {*free, *roles.values()}}
    raters = _find_raters(free, rows)
    events = [] if "rating" in roles else _offer_events([k for k in free if k not in raters], rows)
    ids = [
        k
        for k in free
        if 1 < len(values[k]) < len(rows)
        and not any(event.startswith(f" and event={k + 1}:") for event in events)
        and not _hold_times([*values[k]])
        and not all("." in text and parse_decimal(text) is not None for text in values[k])
    ]
    users, items = ([roles[role]] if role in roles else ids for role in ("user", "item"))
    pairs = [(user, item) for user in users for item in items if user != item]
    # Nobody rates an item often.
    counts = {
        (j, k): len({(row[j], row[k]) for row in rows if len(row) > max(j, k)}) for j, k in pairs
    }
    pairs.sort(key=lambda pair: -counts[pair])
    answers = []
    for user, item in pairs[:_OFFERS]:
        pair = [
            f"{role}={k + 1}" for role, k in (("user", user), ("item", item)) if role not in roles
        ]
        rates = [f"rating={k + 1}" for k in raters if k not in (user, item)][:1]
        ways = [""] if "rating" in roles else [*rates, "rating=none"][: 1 if events else 2]
        answers += [
            " and ".join(filter(None, [*pair, way])) + event
            for way in ways
            for event in ("", *events)
        ]
    return answers[:_OFFERS]


def _find_raters(columns: Sequence[int], rows: Sequence[Row]) -> list[int]:
    """Columns that can hold ratings: of numbers, the last first, and then of words."""
    values = {k: {*_extract_column(rows, k)} for k in columns}
    able = [
        k
        for k in columns
        if len(values[k]) > 1 and all(map(_can_rate, values[k])) and not _hold_times([*values[k]])
    ]
    return sorted(able, key=lambda k: (None in map(parse_decimal, values[k]), -k))


def _offer_events(columns: Sequence[int], rows: Sequence[Row]) -> list[str]:
    """Of the first column with a few words again and again: what reads the rows with each alone."""
    for k in columns:
        counts = Counter(_drop_empty(_extract_column(rows, k)))
        few = 1 < len(counts) <= _OFFERS and 5 * len(counts) <= len(rows)
        if few and all(":" not in text and parse_decimal(text) is None for text in counts):
            return [f" and event={k + 1}:{text}" for text in counts]
    return []


def _can_rate(text: str) -> bool:
    """Whether a text can be a rating: a number, a word of a scale, or one for 'not rated'."""
    return parse_rating(text) is not None or text.lower() in MISSING


def parse_leading_number(text: str) -> float | None:
    """A number, or that with which a text such as 3/5 begins."""
    leading = LEADING.match(text)
    return parse_decimal(leading[1] if leading else text)


def parse_rating(text: str) -> float | None:
    """A number, that with which a text begins, or what a word of a scale stands for."""
    number = parse_leading_number(text)
    scales = KNOWLEDGE["scales"].values() if number is None else ()
    return next((scale[text.lower()] for scale in scales if text.lower() in scale), number)


def _hold_times(texts: Row) -> bool:
    """Return whether texts are more likely times than ratings: dates, or many seconds."""
    texts = _drop_empty(texts)
    numbers = [*map(parse_decimal, texts)]
    if None not in numbers:
        return all(1e8 <= (n or 0) < 1e20 for n in numbers)
    return {*numbers} == {None} and None not in parse_dates(pa.array(texts, pa.string()))


def _extract_column(rows: Sequence[Row], k: int) -> list[str]:
    return [row[k] for row in rows if k < len(row)]


def _counts_up(texts: Row) -> bool:
    """Whether a column numbers the rows: at least three numbers, each larger than the last."""
    numbers: list[Any] = [*map(parse_decimal, texts)]
    return len(texts) > 2 and None not in numbers and all(a < b for a, b in pairwise(numbers))


def _is_column_number(wanted: str | int | None) -> bool:
    return wanted is not None and re.fullmatch(r"\d{1,9}", str(wanted), re.ASCII) is not None


def _find_column(role: str, wanted: str | int, names: Row, header: bool) -> int | Fault:
    """Of a column by its name or its number from 1, from 0; or what is wrong with it."""
    text, columns = str(wanted).strip(), f"1..{len(names)}"
    if not text:
        return Fault(f"the {role} needs the name or the number of a column")
    if header and text in names and not isinstance(wanted, int):
        return names.index(text)
    if _is_column_number(text):
        inside = 1 <= int(text) <= len(names)
        problem = f"the columns are {columns}, so {role} = {text} is none"
        return int(text) - 1 if inside else Fault(problem)
    there = f"column '{text[:60]}' for the {role}"
    if header:
        return Fault(f"no {there}; its columns are {', '.join(names[:20])}")
    return Fault(f"no header line, so there is no {there}: give its number, {columns}")


def _recognise_objects(options: ReadOptions, lines: Row) -> Layout:
    """Of JSON lines: their keys are the columns."""
    objects = [parsed for line in lines if (parsed := parse_json_object(line)) is not None]
    names = tuple(dict.fromkeys(name for parsed in objects for name in parsed))
    rows = [
        tuple(format_plain_value(parsed.get(name)) or "" for name in names)
        for parsed in objects[:_SHOWN]
    ]
    layout = Layout(names, format=Format.JSON, rows=tuple(rows))
    if not objects or not lines[0].rstrip().endswith("}"):
        return layout.ask("its first line is no JSON object", "write one object per line, or CSV")
    layout = assign_roles(layout, options)
    nested = [name for name, value in objects[0].items() if isinstance(value, dict)]
    if layout.faults and nested:
        return layout.ask(
            f"'{nested[0][:40]}' holds an object of its own",
            "write one object per rating, with user, item and rating",
        )
    return layout


# Lines cut into columns ---------------------------------------------------------------------------

LONGEST = 16_000_000  # characters of a line
QUOTE = "with a quote that is not closed"
FIELD = f"with a field of more than {csv.field_size_limit():,} characters"


def read_blocks(source: Source, encoding: str, tell: ReadProgress | None = None) -> Iterator[str]:
    """The text in pieces of whole lines, each ended by one newline. Raises BadRatings."""
    decode = io.IncrementalNewlineDecoder(
        codecs.getincrementaldecoder(encoding)(), translate=True
    ).decode
    rest, lines, done, chunk = "", 0, 0, b"begin"
    with source.open() as file:
        while chunk:
            chunk = file.read(BLOCK_BYTES)
            try:
                fresh = decode(chunk, final=not chunk)
                fresh.encode()  # some encodings can write half a character
            except UnicodeError as error:
                raise _explain_encoding(source, encoding, lines, error) from None
            if "\0" in fresh:
                raise BadRatings(f"{source.name} is not a text file: save the ratings as CSV")
            cut = fresh.rfind("\n") + 1
            if cut:
                lines += fresh.count("\n")
                yield rest + fresh[:cut]
                rest = ""
            rest += fresh[cut:]
            if len(rest) > LONGEST:
                raise BadRatings(
                    f"line {lines + 1} of {source.name} has more than {LONGEST:,} characters, the"
                    " limit"
                )
            done += len(chunk)
            check_cancelled()
            if tell is not None:
                tell(done, source.size)
    if rest:
        yield rest + "\n"


def _explain_encoding(source: Source, encoding: str, lines: int, error: UnicodeError) -> Refused:
    name = "UTF-8" if encoding.startswith("utf-8") else encoding
    if isinstance(error, UnicodeDecodeError):
        before = bytes(error.object[: error.start]).decode(encoding, errors="ignore")
        lines += len(re.findall("\r\n|\r|\n", before))
    other = "cp1252" if name == "UTF-8" else "utf-8"
    advice = "save it as UTF-8, or say its encoding"
    return Refused(
        source.name, [Fault(f"not {name} text in line {lines + 1}", advice, (f"encoding={other}",))]
    )


def read_records(lines: Iterable[str], separator: str, *, strict: bool = False) -> Iterator[Row]:
    """Yield the fields of one record after the other; a run of blanks between fields is one.

    Args:
        lines: lines without their ends; several are one record while a quote is open.
        separator: what stands between fields.
        strict: whether a quote inside a field raises csv.Error.
    """
    mark = separator if len(separator) == 1 else "\0"  # which no text holds
    ended = (line.rstrip(" ") if mark == " " else line.replace(separator, mark) for line in lines)
    records = csv.reader(
        map("{}\n".format, ended), delimiter=mark, skipinitialspace=True, strict=strict
    )
    return ([text.replace(mark, separator) for text in record] for record in records)


def cut_line(line: str, separator: str) -> tuple[str, ...] | None:
    """Return the fields of one line, trimmed; None if a quote stays open or a field is too long."""
    try:
        record = next(read_records([line], separator), [])
    except csv.Error:
        return None
    return None if _is_open(record) else tuple(field.strip() for field in record)


def read_record(
    lines: Row, k: int, separator: str, width: int, *, final: bool
) -> tuple[Row, int, str]:
    """Return the fields of the record that begins in line k, where the next begins, and its fault.

    Lines are joined only in a record that is well formed to its end; where a width is given, only
    in one of so many fields, and only where none of them could be a row of its own. The next record
    begins in line k again where the text ends too early, unless it is final.
    """
    try:
        record = next(read_records([lines[k]], separator), [])
    except csv.Error:
        return [], k + 1, FIELD
    if not _is_open(record):
        return record, k + 1, ""
    rest = map(lines.__getitem__, range(k, len(lines)))
    try:
        record = next(read_records(rest, separator, strict=True))
    except csv.Error as error:
        waits = "unexpected end" in str(error) and not final
        waits = waits and sum(map(len, lines[k:])) < BLOCK_BYTES
        return [], k if waits else k + 1, QUOTE
    end = k + 1 + sum(text.count("\n") for text in record)
    rows = [cut_line(line, separator) or () for line in lines[k + 1 : end]]
    if width and (width in map(len, rows) or not _has_width(record, width)):
        return [], k + 1, QUOTE
    return record, end, ""


def read_first_records(lines: Row, separator: str) -> list[tuple[int, tuple[str, ...] | None]]:
    """Return the first line of each record and its fields, None where it cannot be cut."""
    records = [(0, cut_line(lines[0], separator))]
    end = 1
    while end < len(lines):  # a long answer of a survey goes over several lines
        start = end
        record, end, fault = read_record(lines, start, separator, 0, final=True)
        records.append((start, None if fault else tuple(map(str.strip, record))))
    return records


def _has_width(record: Row, width: int) -> bool:
    """Return whether it has a field for each column, and nothing but empty ones beyond."""
    return len(record) >= width and not "".join(record[width:]).strip()


def _is_open(record: Row) -> bool:
    """Return whether a quote was open at the end of the line."""
    return bool(record) and record[-1].endswith("\n")


def _may_exceed(text: str, length: int) -> bool:
    """Return whether a line may be longer; it is not where each half as many characters end one."""
    half = length // 2
    return not all("\n" in text[k : k + half] for k in range(0, len(text) - half, half))


@dataclass
class Broken:
    """Lines that cannot be cut, of one kind."""

    count: int = 0
    line: int = 0  # of the first
    example: str = ""


@dataclass
class Lines:
    """Cuts a text into columns and counts what becomes of its lines. skip: those before any row."""

    skip: int
    lines: int = field(default=0, init=False)
    blank: int = field(default=0, init=False)
    continued: int = field(default=0, init=False)
    broken: dict[str, Broken] = field(default_factory=dict, init=False)
    files: list[tuple[int, str]] = field(default_factory=list, init=False)

    @property
    def unusable(self) -> int:
        """How many lines cannot be cut."""
        return sum(kind.count for kind in self.broken.values())

    def cut(self, chunks: Iterable[str]) -> Iterator[Cut]:
        """Yield columns of text, piece by piece; blank and unusable lines are only counted."""
        rest = ""
        for chunk in chain(chunks, [""]):
            text = rest + chunk
            while self.skip and text:
                text = text[text.index("\n") + 1 :]
                self.lines, self.skip = self.lines + 1, self.skip - 1
            rest, count = "", text.count("\n")
            if text and (columns := self._cut_quickly(text, count)):
                yield columns, self.lines + np.arange(1, count + 1)
            elif text:
                cut, rest = self._cut_carefully(text.split("\n")[:-1], not chunk)
                if cut[0]:
                    yield cut
            self.lines += count - rest.count("\n")

    def _cut_quickly(self, text: str, count: int) -> list[Any] | None:  # noqa: ARG002
        """Cut by pyarrow; return None where that might see other rows than the careful way does."""
        return None

    def _cut_carefully(self, lines: list[str], final: bool) -> tuple[Cut, str]:
        """Cut line by line; return the end of the text as well, where that must wait for more."""
        rows: list[Sequence[str | None]] = []
        numbers: list[int] = []
        end = 0
        while end < len(lines):
            k = end
            records, end, fault = self._read_record(lines, k, final)
            if end == k:
                break
            rows += records
            numbers += [self.lines + k + 1] * len(records)
            self.continued += end - k - 1
            self.blank += not records and not fault
            if fault:
                example = lines[k].strip()[:40]
                self.broken.setdefault(fault, Broken(0, self.lines + k + 1, example)).count += 1
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        return (columns, np.array(numbers)), "".join(f"{line}\n" for line in lines[end:])

    def _read_record(self, lines: list[str], k: int, final: bool) -> Record:
        """Return the rows that begin in line k, where the next begins, and what is wrong.

        The next begins in line k again where the text ends too early, unless it is final.
        """
        raise NotImplementedError


@dataclass
class Fields(Lines):
    """Rows of `width` fields, of which those at the places `used` are read, with each distinct text
    kept once; not of those at `plain`, whose texts are hardly ever the same."""

    separator: str
    width: int
    used: Sequence[int]
    plain: set[int] = field(default_factory=set)

    def _cut_quickly(self, text: str, count: int) -> list[Any] | None:
        mark, several = self.separator[0], len(self.separator) > 1
        if several:
            mark = "\x1f"  # between units
        odd = rf'(?:^|{re.escape(mark)}) +"' if mark != " " else r"^ |  | $"
        if (
            not mark.isascii()
            or text.startswith("\ufeff")  # pyarrow would take it for a mark of the encoding
            or (several and ('"' in text or mark in text))
            or ((mark == " " or ' "' in text) and re.search(odd, text, re.MULTILINE))
            or _may_exceed(text, csv.field_size_limit())
        ):
            return None
        marked = text.replace(self.separator, mark)
        names = [str(k) for k in range(self.width)]
        kinds = dict.fromkeys(names, pa.dictionary(pa.int32(), pa.string()))
        kinds |= dict.fromkeys(map(str, self.plain), pa.string())
        # A quote left open takes the empty row at the end.
        content = f"{marked}{mark * (self.width - 1)}\n".encode()
        try:
            table = arrow_csv.read_csv(
                io.BytesIO(content),
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=len(content), column_names=names
                ),
                arrow_csv.ParseOptions(
                    delimiter=mark, ignore_empty_lines=False, newlines_in_values=True
                ),
                arrow_csv.ConvertOptions(
                    include_columns=[names[k] for k in dict.fromkeys(self.used)],
                    column_types=kinds,
                ),
            )
        except pa.ArrowInvalid:
            return None
        columns = [table[names[k]].combine_chunks().slice(0, count) for k in self.used]
        firsts = compute.utf8_trim_whitespace(columns[0].cast(pa.string()))
        # Of spreadsheets, some lines may hold separators alone.
        if len(table) != count + 1 or compute.any(compute.equal(firsts, "")).as_py():
            return None
        return columns

    def _read_record(self, lines: list[str], k: int, final: bool) -> Record:
        record, end, fault = read_record(lines, k, self.separator, self.width, final=final)
        if fault or not "".join(record).strip():
            return [], end, fault
        if not _has_width(record, self.width):
            return [], end, f"with another number of columns than {self.width}"
        row = [record[index] for index in self.used]
        return ([], end, QUOTE) if "\n" in "".join(row) else ([row], end, "")


@dataclass
class Adjacency(Lines):
    """Lines of a user and then the items."""

    separator: str

    def _read_record(self, lines: list[str], k: int, final: bool) -> Record:  # noqa: ARG002
        user, *items = _drop_empty(cut_line(lines[k], self.separator)) or ("",)
        fault = "without an item" if user and not items else ""
        return [(user, item) for item in items], k + 1, fault


# JSON lines ---------------------------------------------------------------------------------------

_DEEPEST = 10_000  # characters of a line: what nests some ten thousand deep can end the process


def _reject_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)


_DECODER = json.JSONDecoder(
    parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_reject_repeated_keys
)


def parse_json_object(line: str) -> dict[str, Any] | None:
    """The object in a line, numbers as the text they are; None where it is no such object, or has
    a key twice, or half a character."""
    try:
        one = _DECODER.decode(line)
        if "\\u" in line:
            json.dumps(one, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return one if isinstance(one, dict) else None


def format_plain_value(value: object) -> str | None:
    """A JSON value as the text of a field; None for a list or an object."""
    if value is None or isinstance(value, bool):
        return str(value).lower() if value is not None else ""
    return value if isinstance(value, str) else None


@dataclass
class Objects(Lines):
    """JSON objects, one a line, whose values under `keys` are read: user, item and further ones."""

    keys: Row

    def _cut_quickly(self, text: str, count: int) -> list[Any] | None:
        begun, ended = text.startswith("{"), text.endswith("}\n")
        if not (begun and ended) or text.count("}\n{") + 1 < count or _may_exceed(text, _DEEPEST):
            return None
        # Ids are text: of their numbers only whole ones can be read without loss.
        kinds = [{str: pa.string(), int: pa.int64()}] * 2
        kinds += [{str: pa.string(), int: pa.float64(), float: pa.float64()}] * len(self.keys)
        try:
            first = json.loads(text[: text.index("\n")])
            schema = [
                (key, kind[type(first[key])]) for key, kind in zip(self.keys, kinds, strict=False)
            ]
            table = arrow_json.read_json(
                io.BytesIO(text.encode()),
                arrow_json.ReadOptions(use_threads=False, block_size=5 * len(text)),
                arrow_json.ParseOptions(explicit_schema=pa.schema(schema)),
            )
        except (ValueError, KeyError, RecursionError):
            return None
        columns = [table[key].combine_chunks() for key, _ in schema]
        for column in columns:  # NaN is a text here, and a number would lose the sign of -0
            if pa.types.is_floating(column.type) and compute.any(compute.is_nan(column)).as_py():
                return None
            if pa.types.is_integer(column.type) and re.search(r":\s*-0", text):
                return None
        return columns if len(table) == count else None

    def _read_record(self, lines: list[str], k: int, final: bool) -> Record:  # noqa: ARG002
        if not lines[k].strip():
            return [], k + 1, ""
        values = parse_json_object(lines[k])
        row = [format_plain_value((values or {}).get(key)) for key in self.keys]
        fault = values is None or None in row
        return [row] * (not fault), k + 1, "without a JSON object of plain values" * fault
