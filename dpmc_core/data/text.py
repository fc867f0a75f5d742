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
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dpmc_core.arrays import Ints
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
from dpmc_core.errors import BadRatings, make_printable
from dpmc_core.ratings import ColumnRoles, number_ids
from dpmc_core.stopping import check_cancelled

Rows = tuple[tuple[str, ...], ...]  # fields as text
Cut = tuple[list[Any], Ints]  # the used columns, as arrays of pyarrow, and the line of each row

ROLES = ("user", "item", "rating", "time")
KNOWLEDGE: Any = tomllib.loads(Path(__file__).with_name("reading.toml").read_text("utf-8"))
_NAMES = KNOWLEDGE["roles"]
_NAMES["user"] += "".join(f" {name} {name}id" for name in _NAMES.pop("person").split()) + " u"
_ROLE_OF = {  # known names of columns, the most telling of each role first
    name: role for role, names in _NAMES.items() for name in names.split()
}
_ROW_NUMBERS = {"", "id", "no", "nr", "index", "rank", "row", "rowid", "rownames"}  # and no users
_GUESSABLE = 4  # columns without names that may be user, item, rating and time in this order
_MATRIX = 5  # columns of numbers of one range from which on they are a matrix
_OFFERS = 4  # readings to choose from at most
OTHERS = "every other column"  # where the items of a matrix are
_NOTHING = {"", "nan", "na", "null", "none", "?"}  # no name of a column
_SPREAD = 20  # ratings of an item from which on they are not all of one kind
MISSING = {"", *KNOWLEDGE["words"]["missing"]}  # in a cell, small letters
_NO_RATINGS = MISSING | {"99", "999", "-1", "-9", "-99"}  # with numbers that often are none
_MARKS = {  # first bytes of texts that say their encoding
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_INDEX = re.compile(r"Unnamed: \d|__index_level_|$")  # what pandas calls an index
_COMMENT = re.compile(r"[#%][#% ]")
_JSON = re.compile(r"\{\s*(\"|\}|$)")
_LOOK, _LOOK_CHARACTERS = 200, 2_000_000  # filled lines looked at, fewer where they are long
_SHOWN = 8  # rows of a first look
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
# A comma between one to three digits and three more may be of thousands: no number.
_COMMA = re.compile(r"[+-]?(?![1-9]\d{0,2},\d{3}$)\d*,\d+", re.ASCII)
LEADING = re.compile(  # a number and what it is of
    r"\s*([+-]?\d+(?:[.,]\d+)?)\s*(?:/\s*\d+|stars?|points?|sterne?|punkte?|[-\u2013:=(].*)$",
    re.IGNORECASE,
)
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)


def number_of(text: str) -> float | None:
    """A number as people write it, ASCII only, with a decimal point or comma; infinite where it is
    too large for a float; None where it is none."""
    if _NUMBER.fullmatch(text):
        return float(text)
    if _COMMA.fullmatch(text):
        return float(text.replace(",", "."))
    return math.copysign(math.inf, -(text[0] == "-")) if _INFINITE.fullmatch(text) else None


def dates_of(texts: Any) -> list[float | None] | None:
    """Unix seconds of dates that are written alike, in one known form alone; else None."""
    from pyarrow import compute

    zone = r"\s*(?:UTC|GMT)(?P<hours>[+-]\d{1,2})?$"
    plain = compute.replace_substring_regex(texts, zone, "")
    hours = compute.struct_field(compute.extract_regex(texts, zone), "hours").to_pylist()
    found = []
    for form in ("%Y-%m-%d %H:%M:%S", *KNOWLEDGE["dates"]["forms"]):
        stamps = compute.strptime(plain, format=form, unit="s", error_is_null=True)
        if not stamps.null_count:
            found.append(stamps.cast("int64").to_pylist())
    if not found or any(other != found[0] for other in found):
        return None
    return [second - 3600 * int(hour or 0) for second, hour in zip(found[0], hours, strict=True)]


def date_of(text: str) -> float | None:
    """Unix seconds of an ISO 8601 date, in UTC where it names no zone; None where it is none."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


class Format(enum.Enum):
    """What a file is made of, in words."""

    FIELDS = "between columns"
    JSON = "JSON lines"
    JESTER = "one line per user: how many ratings, then the ratings, 99 where there is none"
    PARQUET = "Parquet"


@dataclass(frozen=True)
class Layout:
    """How a file is to be cut and which column holds what: found before it is read.

    encoding: of text, "" where there is none. skip: lines before the first row. columns: names, or
    1, 2, ... where there is no header. roles: position from 0 of each; without a rating each row is
    a click. rows: the first few, as text. guessed: roles that neither a name nor a person gave to
    their columns. faults: what nobody can guess, beside the range. known: the public set it is.
    ratings: of a matrix, the columns that hold them. written:
    in a way of `rewrite`, after which a row is a line.
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

    @property
    def clicks(self) -> bool:
        found = bool(self.roles) or len(self.columns) == 2
        return not self.is_matrix and "rating" not in self.roles and found

    @property
    def is_matrix(self) -> bool:
        return self.shape in (FileShape.WIDE, FileShape.TRANSPOSED)

    @property
    def axes(self) -> tuple[str, str]:
        """Of a matrix, whose the lines are, and whose the columns."""
        return ("user", "item") if self.shape is FileShape.WIDE else ("item", "user")

    def name_of(self, role: str) -> str:
        """What a person would call the column: its name, or its number."""
        if role not in self.roles:
            return f"the {role}s"
        name = self.columns[self.roles[role]]
        named = self.header or self.format is not Format.FIELDS
        return f"'{name}'" if named else f"column {name}"

    @property
    def used(self) -> ColumnRoles:
        """Which columns hold what, as ratings keep it."""
        names = self.columns if self.header or self.format in (Format.JSON, Format.PARQUET) else ()
        used = {role: names[k] if names else f"column {k + 1}" for role, k in self.roles.items()}
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
        if self.format is Format.JESTER:
            return cut
        if self.format is Format.FIELDS:
            names = {mark: name for name, mark in SEPARATORS.items()}
            cut = f"{names.get(self.separator, self.separator)} {cut}"
        if self.shape is FileShape.ADJACENCY:
            return f"{cut}; on each line a user and then the items"
        if self.is_matrix:
            lines, columns = self.axes
            amount = f"{len(self.ratings):,}"
            return f"{cut}; a line for each {lines}, a column for each of {amount} {columns}s"
        taken = "; every row is a click" if self.clicks else ""
        if self.guessed:
            taken += " (guessed by position: choose them by hand if they are wrong)"
        order = ", ".join(f"{role} = {self.name_of(role)}" for role in self.roles)
        return f"{cut}; {order}{taken}"


def recognise(source: Source, options: ReadOptions) -> Layout:
    """The layout of a text file. Raises BadRatings where it is no table at all."""
    head = source.read_head()
    for magic, what in KNOWLEDGE["binary"].items():
        if head.startswith(magic.encode("latin-1")):
            raise BadRatings(f"{source.name} is {what}")
    marked = (name for mark, name in _MARKS.items() if head.startswith(mark))
    half = "utf-16-le" if head[1::2].count(0) > len(head) / 4 else "utf-8-sig"  # without a mark
    encoding = options.encoding or next(marked, half)
    filled = list(_beginning(blocks(source, encoding)))
    if not filled:
        raise BadRatings(f"{source.name} holds no ratings, only blank lines")
    text = "\n".join(line for _, line in filled)
    written = ""
    if options.separator is None:
        ways = KNOWLEDGE["written"].items()
        written = next((way for way, begins in ways if re.match(begins, text, re.I | re.M)), "")
    if written:
        whole = rewrite(written, "".join(blocks(source, encoding)))
        filled = list(_beginning([whole]))
    skip, line = filled[0]
    lines = [text for _, text in filled]
    counted = _counted_separator(line) if options.layout is FileShape.GUESS else ""
    if counted:
        names = number_ids(line.count(counted) + 1)
        shape, ratings = FileShape.WIDE, range(1, len(names))
        found = Layout(names, format=Format.JESTER, separator=counted, shape=shape, ratings=ratings)
    elif _JSON.match(line.strip()):
        found = _objects(options, lines)
    else:
        text = text.lstrip()
        for begins, what in KNOWLEDGE["markup"].items():
            if re.match(begins, text, re.IGNORECASE | re.MULTILINE) and options.separator is None:
                raise BadRatings(f"{source.name} is {what.strip()}")
        found = _table(source, options, filled)
        if written == "blocks" and not {"user", "item"} <= {*options.columns}:
            what = "the number above each block may name what is rated, or the person"
            fault = Fault(what, "say which", ("user=2 and item=1", "user=1 and item=2"))
            found = replace(found, faults=(fault,))
        return replace(found, encoding=encoding, written=written)
    return replace(found, encoding=encoding, skip=skip, written=written)


def _counted_separator(line: str) -> str:
    """Of a line that says how many of its ratings are there, 99 where one is not: what cuts it."""
    for separator in (",", ";", "\t"):
        with suppress(ValueError):
            numbers = line if separator == "," else line.replace(",", ".")
            count, *ratings = map(float, numbers.split(separator))
            there = sum(number != 99 for number in ratings)
            if there == count and (len(ratings) == 100 or 20 <= len(ratings) != there):
                return separator
    return ""


def _beginning(pieces: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(lines before it, line) of the first filled lines."""
    found = size = number = 0
    for piece in pieces:
        for line in piece.split("\n")[:-1]:
            if line.strip():
                yield number, line
                found, size = found + 1, size + len(line)
                if found == _LOOK or (found > 1 and size > _LOOK_CHARACTERS):
                    return
            number += 1


def _separator(lines: Sequence[str]) -> str:
    """What cuts the lines most evenly into more than one field; blanks where nothing else does."""
    best, best_even = "", (0.0, 0)
    for separator in ("::", "\t", ";", ",", "|", " "):
        if separator == " " and best_even[0] >= 0.5:
            break
        if separator == " " and all("\t" in line for line in lines):
            return "\t"  # hidden by quotes that stay open
        widths = [len(row) for line in lines if (row := cut_line(line, separator)) is not None]
        common = Counter(width for width in widths if width > 1).items()
        even = max(((n / len(widths), width) for width, n in common), default=(0.0, 0))
        if even > best_even:
            best, best_even = separator, even
    return best


def _table(source: Source, options: ReadOptions, filled: list[tuple[int, str]]) -> Layout:
    separator = options.separator
    while len(filled) > 1 and _COMMENT.match(filled[0][1]):
        del filled[0]
    if (mark := re.fullmatch(r"sep=(\W|\t)", filled[0][1].strip("\r\n"))) and len(filled) > 1:
        separator = separator or mark[1]
        del filled[0]
    lines = [line for _, line in filled]
    separator = separator or _separator(lines)
    if not separator:
        advice = (
            "user, item and rating stand side by side; if something else than comma,"
            " semicolon, tab, bar, :: or blanks lies between them, say it"
        )
        fault = Fault("one column only", advice, ("separator=CHARACTER",))
        raise Refused(source.name, [fault])
    cut = [(before, cut_line(line, separator)) for before, line in filled]
    rows = [row for _, row in cut if row is not None]
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    start = next((k for k, (_, row) in enumerate(cut) if len(_filled(row)) > 1), 0)
    if sum(_plain(text) in _ROLE_OF for text in cut[start][1] or ()) > 1:
        del cut[:start]  # titles above a header
    while len(cut) > 1 and not _filled(cut[0][1]):
        del cut[0]  # separators alone
    before, first = cut[0]
    if first is None:
        advice = f"close it, or remove the quotes: tr -d '\"' < {source.name}"
        fault = Fault("its first line has a quote that is not closed", advice)
        raise Refused(source.name, [fault])
    below = tuple(row for _, row in cut[1:] if row is not None)
    shown = (first, *below[: _SHOWN - 1])
    found = Layout(number_ids(width), separator=separator, skip=before, rows=shown)
    if options.layout is FileShape.ADJACENCY:
        return replace(found, shape=options.layout, roles={"user": 0, "item": 1})
    even = sum(len(row) == width for row in rows) / max(len(rows), 1)
    whole = all(text.isdecimal() for row in rows for text in row)
    if options.layout is FileShape.GUESS and whole and even < 0.5 and len(rows) > 2:
        fault = Fault(
            "its lines have different numbers of columns, all of them whole numbers",
            "if each is a user and then the items, say it",
            ("layout=adjacency",),
        )
        return replace(found, faults=(fault,))
    header, asked = _is_header(options, first, below)
    if header and len(cut) == 1:
        raise BadRatings(f"{source.name} has a header line but no ratings below it")
    names = first
    if header:
        names = _without_tail(first)
        longer = [row[0] for row in below if len(_without_tail(row)) == len(names) + 1]
        distinct = len({*longer}) == len(longer) > len(below) / 2
        if distinct and options.header is Header.GUESS:
            names = ("", *names)  # the rows have names of their own, each another
    body = below if header else (first, *below)
    found = replace(
        found,
        columns=names if header else number_ids(len(names)),
        skip=before + header,
        header=header,
        rows=body[:_SHOWN],
        faults=tuple([asked] if asked else ()),
    )
    matrix = _matrix(found, options, body)
    if matrix is not None:
        return matrix
    return found if asked else with_roles(found, options, body)


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


def _filled(row: Sequence[str] | None) -> Sequence[str]:
    """The fields that are not empty; of a line that cannot be cut one that says so."""
    return ["?"] if row is None else [text for text in row if text]


def _without_tail(names: tuple[str, ...]) -> tuple[str, ...]:
    """A header without empty names at its end."""
    while len(names) > 1 and not names[-1]:
        names = names[:-1]
    return names


def _plain(name: str) -> str:
    """A name as names are compared: case, blanks and punctuation aside."""
    # Types, as RecBole writes them, and what a name is of, as in SNAP's records.
    name = re.sub(r":(token|float)(_seq)?$|^[a-z]+/", "", name.lower())
    return "".join(c for c in name if unicodedata.category(c)[0] not in "PSZ")


def _is_header(
    options: ReadOptions, first: tuple[str, ...], rows: Rows
) -> tuple[bool, Fault | None]:
    """Whether the first line names columns, and what to ask where it could be either."""
    if options.header is not Header.GUESS:
        return options.header is Header.YES, None
    wanted = {name for name in options.columns.values() if name and not _by_number(name)}
    plain = [_plain(text) for text in first]
    names = [name for name in plain if name in _ROLE_OF]
    roles = {_ROLE_OF[name] for name in names}
    numbers = any(number_of(text) is not None or is_time(text) for text in first)
    filled = _without_tail(first)
    width, items = len(filled), filled[1:]
    matrix = width > 3 and options.layout is not FileShape.ROWS and not options.columns
    user = _ROLE_OF.get(plain[0]) == "user" and len(plain[0]) > 1
    distinct = len({*items} - {""}) == len(items)
    gaps = any(not text for row in rows for text in row[1:width])
    sure = gaps and width > 4 and all(number_of(text) is not None for text in items)
    either, wide = ("header=yes", "header=no"), ("layout=wide", "header=no")
    run = _alike(rows, len(first)) if len(rows) > 1 else ()
    known = [number for k in run if (number := number_of(first[k])) is not None]
    texts = {text for k in run if known for text in _column(rows, k)}
    cells = [number for text in texts if (number := value_of(text)) is not None]
    far = sum(not min(cells) <= number <= max(cells) for number in known if cells)
    names_items = len(run) >= _MATRIX and (not known or 2 * far > len(run))
    names_items = names_items and len({first[k] for k in run} - _NOTHING) == len(run)
    index = not first[0] and _counts_up(_column(rows, 0))
    long = any(len(name) > 1 for name in names)
    rules: Sequence[tuple[object, bool, tuple[str, ...]]] = (  # when, header, what to ask
        (
            options.layout in (FileShape.WIDE, FileShape.TRANSPOSED)
            or wanted & {*first} - {NO_COLUMN},
            True,
            (),
        ),
        (names_items or index, True, ()),
        (matrix and user and numbers and distinct, sure, () if sure else either),
        (matrix and not first[0] and not roles, False, wide),
        (({"user", "item"} <= roles or len(names) > 2) and not numbers, True, ()),
        (numbers or any(text.lower() in _NOTHING for text in first), False, either * long),
        # In two columns of clicks one such word may be somebody's name.
        (roles and len(first) > 2, True, ()),
        (True, False, either),
    )
    header, asked = next((header, asked) for when, header, asked in rules if when)
    what = f"the first line, '{', '.join(first)[:60]}', may name the columns or be a rating"
    return header, Fault(what, "say which", asked) if asked else None


def _matrix(layout: Layout, options: ReadOptions, rows: Rows) -> Layout | None:
    """The layout of a matrix, with what to ask where it could be another; None where it is none."""
    names, said = layout.columns, options.layout
    # A letter or a word over one of many columns of ratings is an item's name and says nothing.
    run = _alike(rows, len(names))
    if layout.header and _ROLE_OF.get(_plain(names[0])) == "user" and len(names[0]) > 1:
        run = run[run.start == 0 :]  # numbers of people may look like ratings
    if said in (FileShape.WIDE, FileShape.TRANSPOSED):
        alone = run.stop == len(names) or _ROLE_OF.get(_plain(names[0])) == "user"
        full = len(run) < _MATRIX or options.columns or (run.start == 1 and alone)
        if full or not layout.header:
            return _chosen_matrix(replace(layout, shape=said), options.columns)
    elif said is not FileShape.GUESS or options.columns:
        return None
    roles = [_ROLE_OF.get(_plain(name)) if layout.header else None for name in names]
    named = {
        role: k
        for k, role in reversed([*enumerate(roles)])
        if k not in run and len(_plain(names[k])) > 1
    }
    many = len(run) >= _MATRIX and not {"user", "item"} <= {*named}
    if many and "user" in named:  # who is on many lines has no line of his own
        people = len({*_column(rows, named["user"])})
        many = people > 0.9 * len(rows) or people == 1
        if people == 1 < len(rows):
            del named["user"]  # all are anonymous
    cells = [text for row in rows for text in row[1 : len(names)]]
    numbers = all(not text or number_of(text) is not None for text in cells)
    corner = not names[0] and not _counts_up(_column(rows, 0))
    of_users = roles[0] == "user" or corner
    sure = False
    if layout.header and len(names) > 3 and roles[0] in (None, "user") and not any(roles[1:]):
        sure = numbers and of_users and not all(cells)
        if sure and corner and options.header is Header.GUESS:
            fault = _which("layout=wide", "layout=transposed")
            return replace(layout, faults=(*layout.faults, fault))
        numbered = of_users and all(number_of(name) is not None for name in names[1:])
        full = len(run) == len(names) - 1
        if not sure and not many and ((numbers and full) or (numbered and not numbers)):
            return replace(layout, faults=(*layout.faults, _which("layout=rows", "layout=wide")))
    if sure:
        run, named = range(1, len(names)), {"user": 0}
    elif not many:
        chosen = replace(layout, shape=said)
        return None if said is FileShape.GUESS else _chosen_matrix(chosen, options.columns)
    others = [k for k in range(len(names)) if k not in run]
    aside = [k for k in others if k != named.get("user") and roles[k] != "time"]
    if sure or ("user" in named and not aside):
        given = {"user": named["user"] + 1, "item": f"{run.start + 1}:{run.stop}"}
        chosen = _chosen_matrix(replace(layout, shape=FileShape.WIDE), given)
        return replace(chosen, guessed=("user",) * (roles[named["user"]] != "user"))
    lines: list[Any] = [named["user"]] if "user" in named else []
    if not lines:  # whatever is another on each line
        lines = [k for k in others if len({*_column(rows, k)}) == len(rows)]
        lines = [k for k in lines if not is_time(_column(rows, k)[0])] or others[:1] or [NO_COLUMN]
    shapes = ["transposed", "wide"] if "item" in named else ["wide", "transposed"]
    answers = [_matrix_answer(layout, shape, k, run) for k in lines[:2] for shape in shapes]
    if "user" in named or not others:
        answers = [answer for answer in answers if "=wide" in answer]
    texts = [_filled(_column(rows, k)) for k in aside]
    if any(1 < len({*column}) < len(column) and value_of(column[0]) is None for column in texts):
        answers.append("layout=rows")  # one of these may be the item
    return replace(layout, faults=(*layout.faults, _which(*answers)))


def _which(*answers: str) -> Fault:
    what = "each line may be one rating, or all ratings of a user or of an item"
    return Fault(what, "say which", answers)


def _matrix_answer(layout: Layout, shape: str, line: int | str, run: range) -> str:
    """The options that read a matrix so, as few as can be."""
    answer = f"layout={shape}" + " and header=no" * (not layout.header)
    if line == 0 and layout.header and len(run) == len(layout.columns) - 1:
        return answer
    lines, columns = ("user", "item") if shape == "wide" else ("item", "user")
    number = line if isinstance(line, str) else line + 1
    return f"{answer} and {lines}={number} and {columns}={run[0] + 1}:{run[-1] + 1}"


def _chosen_matrix(layout: Layout, given: Mapping[str, str | int]) -> Layout:
    """The layout of a matrix of which somebody said so."""
    names, (lines, columns) = layout.columns, layout.axes
    faults: list[Fault] = []
    span = re.fullmatch(r"(\d{1,9}):(\d{1,9})", str(given.get(columns, "")))
    run = range(int(span[1]) - 1, int(span[2])) if span else range(1, len(names))
    line = 0 if given.get(lines) is None else None
    if given.get(lines) not in (None, NO_COLUMN):
        place = _position(lines, given[lines], names, layout.header)
        line, faults = (place, []) if isinstance(place, int) else (None, [place])
    if not layout.header and not span:
        what = "a users x items matrix needs a first line that names the items"
        faults = [Fault(what, "add it", ("header=yes",))]
    elif {"rating", "time", columns} & {*given} and not span:
        what = f"in a matrix a column is the {lines}, and a range of others are the {columns}s"
        faults = [Fault(what, f"say {columns}=FIRST:LAST, and leave rating and time out")]
    elif not 0 <= run.start < run.stop <= len(names):
        faults = [Fault("no column holds an item", "say its separator", ("separator=CHARACTER",))]
    elif line in run:
        faults = [Fault(f"the {lines} is among the columns {columns}={given.get(columns)}")]
    counts = Counter(names[k] for k in run if k < len(names))
    twice = [name for name, count in counts.items() if count > 1]
    if twice and not faults:
        what = f"two columns are called '{twice[0]}'"
        faults = [Fault(what, "give every item a name of its own")]
    roles = {} if line is None else {lines: line}
    return replace(layout, roles=roles, ratings=run, faults=(*layout.faults, *faults))


@lru_cache(maxsize=1)
def _alike(rows: Rows, width: int) -> range:
    """The longest run of columns with numbers of one range, where they are not missing."""
    columns: list[list[float] | None] = []
    filled: list[int] = []
    for k in range(width):
        cells = Counter(_column(rows, k))
        texts = [text for text in cells if text.lower() not in _NO_RATINGS]
        numbers = [number for text in texts if (number := value_of(text)) is not None]
        counting = len(texts) == len(rows) > _MATRIX and _counts_up(texts)
        columns.append(None if len(numbers) < len(texts) or counting or not cells else numbers)
        filled.append(sum(cells[text] for text in texts))
    ends = [(min(column), max(column)) for column in columns if column]
    if not ends:
        return range(0)
    k = len(ends) // 4 or len(ends) // 2  # so many may be of another range
    low, high = sorted(low for low, _ in ends)[k], sorted(high for _, high in ends)[-1 - k]
    wide = max(high - low, 1)
    good = [
        column is not None and all(low - wide / 2 <= x <= high + wide / 2 for x in column)
        for column in columns
    ]
    runs = [[*run] for alike, run in groupby(range(width), good.__getitem__) if alike]
    longest = max(runs, key=len, default=[])
    narrow = [
        filled[k] >= _SPREAD and 4 * (max(column) - min(column)) < high - low
        for k in longest
        if (column := columns[k])
    ]
    if not longest or sum(narrow) > len(longest) / 3:
        return range(0)
    return range(longest[0], longest[-1] + 1)


def with_roles(layout: Layout, options: ReadOptions, rows: Sequence[Sequence[str]] = ()) -> Layout:
    """The layout with the role of each column, and with what is wrong with them: as asked for, else
    by known names, else by order, unless an object's, which mean nothing.

    Nobody is a user by order under a header, nor among many columns, nor by a number of the row;
    an item is taken so under a header only where no column is left over.
    """
    names, header = layout.columns, layout.header or layout.format is not Format.FIELDS
    given = options.columns
    absent = {role for role in ("rating", "time") if given.get(role) == NO_COLUMN}
    places = {r: _position(r, given[r], names, header) for r in given if r not in absent}
    roles = {role: k for role, k in places.items() if isinstance(k, int)}
    faults = [
        Fault(make_printable(one.problem)) for one in places.values() if isinstance(one, Fault)
    ]
    if faults:
        return replace(layout, roles=roles, faults=(*layout.faults, *faults))
    plain = [_plain(name) for name in names]
    if options.event is not None:
        column = str(options.event).rpartition(":")[0]
        place = _position("event", int(column) if _by_number(column) else column, names, header)
        if isinstance(place, Fault):
            return replace(layout, roles=roles, faults=(*layout.faults, place))
        roles["event"] = place
    known = [_ROLE_OF.get(name) if header else None for name in plain]
    for role in ROLES:
        mine = [k for k, its in enumerate(known) if its == role and k not in roles.values()]
        if mine and role not in {*roles, *absent}:
            roles[role] = min(mine, key=lambda k: list(_ROLE_OF).index(plain[k]))
    others = [k for k in range(len(names)) if k not in roles.values()]
    free = [
        k
        for k in others
        if not header
        or not (known[k] in absent or plain[k] in _ROW_NUMBERS or _INDEX.match(names[k]))
    ]  # what numbers the rows and what is to be left alone hold no role
    missing = [role for role in ROLES[:3] if role not in {*roles, *absent}]
    unsaid = layout.format is Format.JSON or (header and "user" in missing)
    unsaid |= header and "item" in missing and len(free) > len(missing)
    if not header and "user" in missing:
        first = _column(rows, free[0]) if free else []
        unsaid = len(names) > _GUESSABLE or _counts_up(first)
    if header and "item" in missing:  # what holds no ratings comes first
        free.sort(key=lambda k: all(map(_may_rate, _column(rows, k))))
    taken = {} if unsaid else dict(zip(missing, free, strict=False))
    if (k := taken.get("rating")) is not None and rows:
        texts = _filled(_column(rows, k))
        if layout.header and texts and not any(map(_may_rate, texts)):
            del taken["rating"]  # words that say something else
        elif not header and "time" not in {*roles, *absent} and all(map(_is_moment, texts)):
            taken["time"] = taken.pop("rating")
    last = not header and len(names) == 4 and rows and not unsaid
    if last and not {"time", 3} & {*roles, *absent, *roles.values(), *taken.values(), *taken}:
        taken |= {"time": 3} if is_time(rows[0][3]) else {}
    roles |= taken
    lost = [role for role in ("user", "item") if role not in roles]
    there = ", ".join(names)[:200] if header else f"{len(names)} without names"
    unknown = [
        k for k in others if k not in roles.values() and not names[k].startswith("__index_level_")
    ]
    # Who gives a range expects ratings in it.
    expected = bool(unknown) or options.low is not None
    if lost:
        could = ", ".join(names[k] for k in free if k not in roles.values())[:200]
        what = f"no column holds the {' and the '.join(lost)} for certain; " + (
            f"candidates are {could}" if could and header else f"its columns are {there}"
        )
        advice = "say which column names what is rated"
        if "user" in lost:
            advice = "say which column names the person; a file of one person's ratings has none"
        offers = _offers(roles, absent, unknown, rows)
        faults.append(Fault(what, advice, (*offers, *(f"{role}=COLUMN" for role in lost))))
    elif expected and "rating" not in {*roles, *absent}:
        what = f"no column holds the rating; its columns are {there}"
        advice = "say which does, or that each row is a click"
        events = [f"rating=none{event}" for event in _events(unknown, rows)]
        raters = [f"rating={k + 1}" for k in _raters(unknown, rows)[:_OFFERS]]
        faults.append(Fault(what, advice, (*raters, "rating=none", *events, "rating=COLUMN")))
    if len({*roles.values()}) < len(roles):
        got = ", ".join(f"{role} = {k + 1}" for role, k in roles.items())
        faults.append(Fault(f"user, item, rating and time must be different columns, got {got}"))
    for role, k in roles.items():
        alike = plain if role not in given and known[k] else names
        if header and alike.count(alike[k]) > 1 and not _by_number(given.get(role)):
            what = f"two columns are called '{names[k]}'"
            advice = f"say by its number which holds the {role}"
            faults.append(Fault(what, advice, (f"{role}={k + 1}",)))
    return replace(
        layout,
        roles={role: roles[role] for role in (*ROLES, "event") if role in roles},
        guessed=tuple(taken),
        faults=(*layout.faults, *faults),
    )


def _offers(
    roles: Mapping[str, int], absent: set[str], free: Sequence[int], rows: Sequence[Sequence[str]]
) -> list[str]:
    """Answers that name user and item, and what else is missing, by what the columns hold."""
    columns = {k: _column(rows, k) for k in free}
    values = {k: {*texts} for k, texts in columns.items()}
    clocks = [k for k in free if all(map(_is_moment, values[k]))]
    raters = _raters(free, rows)
    # Of one person's own export the items are all different, and no column repeats.
    if "item" in roles and len({*_column(rows, roles["item"])}) == len(rows) > 2:
        return []
    events = _events([k for k in free if k not in raters], rows)
    ids = [
        k
        for k in free
        if 1 < len(values[k]) < len(rows)
        and k not in clocks
        and not any(event.startswith(f" and event={k + 1}:") for event in events)
        and not all("." in text and number_of(text) is not None for text in values[k])
    ]
    users, items = ([roles[r]] if r in roles else ids for r in ("user", "item"))
    pairs = [(u, i) for u in users for i in items if u != i]
    answers = []
    sizes = {k: -len({*_column(rows, k)}) for k in {*users, *items}}  # few ids are a category
    ranked = sorted(pairs, key=lambda pair: (sizes[pair[0]] + sizes[pair[1]], pair))
    for user, item in ranked[:_OFFERS]:
        chosen = {"user": user, "item": item} | dict(roles)
        left = [k for k in raters if k not in chosen.values()]
        if "rating" not in {*chosen, *absent} and left:
            chosen["rating"] = left[0]
        text = " and ".join(f"{r}={k + 1}" for r, k in chosen.items() if r not in roles)
        none = " and rating=none" * ("rating" not in {*chosen, *absent})
        answers += [f"{text}{none}{event}" for event in ("", *events)]
        if "rating" in chosen and "rating" not in roles and not events:
            answers.append(text.replace(f"rating={chosen['rating'] + 1}", "rating=none"))
    return answers[:_OFFERS]


def _raters(columns: Sequence[int], rows: Sequence[Sequence[str]]) -> list[int]:
    """Columns that can hold ratings: of numbers, the last first, and then of words."""
    values = {k: {*_column(rows, k)} for k in columns}
    able = [k for k in columns if len(values[k]) > 1 and all(map(_may_rate, values[k]))]
    able = [k for k in able if not all(map(_is_moment, values[k]))]
    return sorted(able, key=lambda k: (None in map(number_of, values[k]), -k))


def _events(columns: Sequence[int], rows: Sequence[Sequence[str]]) -> list[str]:
    """Of the first column with a few words again and again: what reads the rows with each alone."""
    for k in columns:
        counts = Counter(_filled(_column(rows, k)))
        few = 1 < len(counts) <= _OFFERS and 5 * len(counts) <= len(rows)
        if few and all(number_of(text) is None for text in counts):
            return [f" and event={k + 1}:{text}" for text in counts]
    return []


def _may_rate(text: str) -> bool:
    """Whether a text can be a rating: a number, a word of a scale, or one for 'not rated'."""
    return value_of(text) is not None or text.lower() in MISSING


def value_of(text: str) -> float | None:
    """A number, that with which a text begins, or what a word of a scale stands for."""
    number = number_of(text)
    if number is None and (leading := LEADING.match(text)):
        number = number_of(leading[1])
    scales = KNOWLEDGE["scales"].values() if number is None else ()
    return next((scale[text.lower()] for scale in scales if text.lower() in scale), number)


def _is_moment(text: str) -> bool:
    """Whether a text is more likely a time than a rating: a date, or many seconds."""
    number = number_of(text)
    return is_time(text) and (number is None or 1e8 <= number < 1e20)


def _column(rows: Sequence[Sequence[str]], k: int) -> list[str]:
    return [row[k] for row in rows if k < len(row)]


def _counts_up(texts: Sequence[str]) -> bool:
    """Whether a column numbers the rows: at least three numbers, each larger than the last."""
    numbers = [number_of(text) for text in texts]
    known = [number for number in numbers if number is not None]
    return len(known) == len(texts) > 2 and all(a < b for a, b in pairwise(known))


def is_time(text: str) -> bool:
    """Whether a text can be a time, where no name says so: a number, or a date."""
    return _NUMBER.fullmatch(text) is not None or date_of(text) is not None


def _by_number(wanted: str | int | None) -> bool:
    return wanted is not None and re.fullmatch(r"\d{1,9}", str(wanted), re.ASCII) is not None


def _position(role: str, wanted: str | int, names: Sequence[str], header: bool) -> int | Fault:
    """Of a column by its name or its number from 1, from 0; or what is wrong with it."""
    text, columns = str(wanted).strip(), f"1..{len(names)}"
    if not text:
        return Fault(f"the {role} needs the name or the number of a column")
    if header and text in names and not isinstance(wanted, int):
        return names.index(text)
    if _by_number(text):
        inside = 1 <= int(text) <= len(names)
        what = f"the columns are {columns}, so {role} = {text} is none"
        return int(text) - 1 if inside else Fault(what)
    there = f"column '{text[:60]}' for the {role}"
    if header:
        return Fault(f"no {there}; its columns are {', '.join(names[:20])}")
    return Fault(f"no header line, so there is no {there}: give its number, {columns}")


def _objects(options: ReadOptions, lines: Sequence[str]) -> Layout:
    """Of JSON lines: their keys are the columns."""
    found = [one for line in lines if (one := json_object(line)) is not None]
    names = tuple(dict.fromkeys(name for one in found for name in one))
    rows = [tuple(plain_text(one.get(name)) or "" for name in names) for one in found[:_SHOWN]]
    layout = Layout(names, format=Format.JSON, rows=tuple(rows))
    if found and lines[0].rstrip().endswith("}"):
        layout = with_roles(layout, options)
        nested = [name for name, value in found[0].items() if isinstance(value, dict)]
        if layout.faults and nested:
            what = f"'{nested[0][:40]}' holds an object of its own"
            advice = "write one object per rating, with user, item and rating"
            return replace(layout, faults=(Fault(what, advice),))
        return layout
    fault = Fault("its first line is no JSON object", "write one object per line, or CSV")
    return replace(layout, faults=(fault,))


# Lines cut into columns ---------------------------------------------------------------------------

LONGEST = 16_000_000  # characters of a line
SHORT = 16  # bytes of an id, two numbers, that may be kept for each row
QUOTE = "with a quote that is not closed"
FIELD = f"with a field of more than {csv.field_size_limit():,} characters"


def blocks(source: Source, encoding: str, tell: ReadProgress | None = None) -> Iterator[str]:
    """The text in pieces of whole lines, each ended by one newline. Raises BadRatings."""
    decode = io.IncrementalNewlineDecoder(
        codecs.getincrementaldecoder(encoding)(), translate=True
    ).decode
    rest, lines, done, piece = "", 0, 0, b"begin"
    with source.open() as file:
        while piece:
            piece = file.read(BLOCK_BYTES)
            try:
                fresh = decode(piece, final=not piece)
                fresh.encode()  # some encodings can write half a character
            except UnicodeError as error:
                raise _not_text(source, encoding, lines, error) from None
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
            done += len(piece)
            check_cancelled()
            if tell is not None:
                tell(done, source.size)
    if rest:
        yield rest + "\n"


def _not_text(source: Source, encoding: str, lines: int, error: UnicodeError) -> Refused:
    name = "UTF-8" if encoding.startswith("utf-8") else encoding
    if isinstance(error, UnicodeDecodeError):
        before = bytes(error.object[: error.start]).decode(encoding, errors="ignore")
        lines += len(re.findall("\r\n|\r|\n", before))
    other = "cp1252" if name == "UTF-8" else "utf-8"
    advice = "save it as UTF-8, or say its encoding"
    return Refused(
        source.name, [Fault(f"not {name} text in line {lines + 1}", advice, (f"encoding={other}",))]
    )


def cut_line(line: str, separator: str) -> tuple[str, ...] | None:
    """The fields of one line, trimmed; None where a quote stays open or a field is too long."""
    text, mark = _one_mark(line, separator)
    try:
        row: list[str] = next(_records([text], mark), [])
    except csv.Error:
        return None
    return None if _is_open(row) else tuple(field.strip() for field in _told(row, mark, separator))


def _one_mark(text: str, separator: str) -> tuple[str, str]:
    """The text with one character between fields, and that character."""
    if separator != "::":
        return text, separator
    marks = map(chr, chain([0x1F], range(0xE000, 0xF000)))  # between units, or private
    mark = next(mark for mark in marks if mark not in text)
    return text.replace("::", mark), mark


def _told(row: list[str], mark: str, separator: str) -> list[str]:
    """Fields as they were before one mark took the place of the separator."""
    return row if mark == separator else [text.replace(mark, separator) for text in row]


def _records(lines: Iterable[str], mark: str, *, strict: bool = False) -> Any:
    """Reads the fields of one record after the other; a run of blanks between fields is one."""
    ended = (f"{line.rstrip(' ') if mark == ' ' else line}\n" for line in lines)
    return csv.reader(ended, delimiter=mark, skipinitialspace=True, strict=strict)


def _is_open(row: Sequence[str]) -> bool:
    """Whether a quote was open at the end of the line."""
    return bool(row) and row[-1].endswith("\n")


def _may_exceed(text: str, length: int) -> bool:
    """Whether a line may have more characters; surely not where each half of as many has an end."""
    half = length // 2
    return not all("\n" in text[k : k + half] for k in range(0, len(text) - half, half))


def _columns(rows: Sequence[Sequence[str | None]], lines: list[int], used: Sequence[int]) -> Cut:
    import pyarrow as pa

    columns = [pa.array([row[place] for row in rows], pa.string()) for place in used]
    return columns, np.array(lines, dtype=np.int64)


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

    def cut(self, pieces: Iterable[str]) -> Iterator[Cut]:
        """Columns of text, piece by piece; blank and unusable lines are only counted."""
        rest = ""
        for piece in chain(pieces, [""]):
            text = rest + piece
            while self.skip and text:
                text = text[text.index("\n") + 1 :]
                self.lines, self.skip = self.lines + 1, self.skip - 1
            if text:
                count = text.count("\n")
                found = self._plainly(text, count)
                cut, rest = (found, "") if found else self._carefully(text, not piece)
                self.lines += count - rest.count("\n")
                yield cut

    def _plainly(self, text: str, count: int) -> Cut | None:
        """Cut by pyarrow; return None where that might see other rows than the careful way does."""
        raise NotImplementedError

    def _carefully(self, text: str, final: bool) -> tuple[Cut, str]:
        """Cut line by line; return the end of the text as well, where that must wait for more."""
        raise NotImplementedError

    def spoil(self, what: str, line: int, example: str) -> None:
        kind = self.broken.setdefault(what, Broken(line=line, example=example.strip()[:40]))
        kind.count += 1


def mostly_once(column: Any) -> bool:
    """Whether to keep each distinct text of a dictionary once costs more than it saves."""
    from pyarrow import compute

    size = len(column.dictionary)
    longest = compute.max(compute.binary_length(column.dictionary)).as_py() or 0
    return 2 * size > len(column) and longest <= SHORT


@dataclass
class Fields(Lines):
    """Rows of `width` fields, of which those at the places `used` are read, with each distinct text
    kept once; not of those at `plain`, whose texts are hardly ever the same."""

    separator: str
    width: int
    used: Sequence[int]
    plain: set[int] = field(default_factory=set)

    def _plainly(self, text: str, count: int) -> Cut | None:
        import pyarrow as pa
        from pyarrow import compute
        from pyarrow import csv as arrow

        marked, mark = _one_mark(text, self.separator)
        odd = rf'(?:^|{re.escape(mark)}) +"' if mark != " " else r"^ |  | $"
        if (
            not mark.isascii()
            or text.startswith("\ufeff")  # pyarrow would take it for a mark of the encoding
            or (mark != self.separator and '"' in text)
            or ((mark == " " or ' "' in text) and re.search(odd, text, re.MULTILINE))
            or _may_exceed(text, csv.field_size_limit())
        ):
            return None
        names = [str(k) for k in range(self.width)]
        kinds = dict.fromkeys(names, pa.dictionary(pa.int32(), pa.string()))
        kinds |= dict.fromkeys(map(str, self.plain), pa.string())
        # A quote left open takes the empty row at the end.
        content = f"{marked}{mark * (self.width - 1)}\n".encode()
        try:
            table = arrow.read_csv(
                io.BytesIO(content),
                arrow.ReadOptions(use_threads=False, block_size=len(content), column_names=names),
                arrow.ParseOptions(
                    delimiter=mark, ignore_empty_lines=False, newlines_in_values=True
                ),
                arrow.ConvertOptions(
                    include_columns=[names[k] for k in dict.fromkeys(self.used)],
                    column_types=kinds,
                    null_values=[],
                ),
            )
        except pa.ArrowInvalid:
            return None
        columns = [table[names[k]].combine_chunks().slice(0, count) for k in self.used]
        firsts = compute.utf8_trim_whitespace(columns[0].cast(pa.string()))
        empty = rf'^(?:[^\S\n]|["{re.escape(mark)}])*$'  # spreadsheets end in separators alone
        if len(table) != count + 1 or (
            compute.any(compute.equal(firsts, "")).as_py() and re.search(empty, marked, re.M)
        ):
            return None
        if hasattr(columns[0], "dictionary") and mostly_once(columns[0]):
            self.plain.add(self.used[0])
        return columns, self.lines + np.arange(1, count + 1)

    def _fits(self, row: Sequence[str]) -> bool:
        """Whether it has a field for each column, and nothing but empty ones beyond."""
        return len(row) >= self.width and not "".join(row[self.width :]).strip()

    def _carefully(self, text: str, final: bool) -> tuple[Cut, str]:
        marked, mark = _one_mark(text, self.separator)
        whole, lines = text.split("\n")[:-1], marked.split("\n")[:-1]
        rows: list[list[str]] = []
        numbers: list[int] = []
        k = end = 0
        while end < len(lines):
            k, end, fault = end, end + 1, ""
            row: list[str] | None = []
            try:
                row = next(_records([lines[k]], mark), [])
            except csv.Error:
                fault = FIELD
            if _is_open(row or ()):
                try:
                    row, end = self._joined(lines, k, mark)
                except EOFError:
                    if not final and sum(map(len, lines[k:])) < BLOCK_BYTES:
                        end = k
                        break
                    row = None
                if row is None or any("\n" in row[place] for place in self.used):
                    fault = QUOTE
                self.continued += end - k - 1
            if not fault and not "".join(row or ()).strip():
                self.blank += 1
            elif not fault and row and self._fits(row):
                rows.append(_told(row, mark, self.separator))
                numbers.append(self.lines + k + 1)
            else:
                columns = f"with another number of columns than {self.width}"
                self.spoil(fault or columns, self.lines + k + 1, whole[k])
        return _columns(rows, numbers, self.used), "".join(f"{line}\n" for line in whole[end:])

    def _joined(self, lines: list[str], k: int, mark: str) -> tuple[list[str] | None, int]:
        """A record over several lines and where it ends; None where it is not well formed, or a
        line in it could be a row of its own. Raises EOFError where the text ends in it."""
        reader = _records((lines[at] for at in range(k, len(lines))), mark, strict=True)
        try:
            row = next(reader)
        except csv.Error as error:
            if "unexpected end" in str(error):
                raise EOFError from None
            return None, k + 1
        end = k + reader.line_num
        alone = [cut_line(line, mark) or () for line in lines[k + 1 : end]]
        if not self._fits(row) or any(len(fields) == self.width for fields in alone):
            return None, k + 1
        return row, end


@dataclass
class Adjacency(Lines):
    """Lines of a user and then the items."""

    separator: str

    def _plainly(self, text: str, count: int) -> Cut | None:  # noqa: ARG002 - lines count
        pairs: list[tuple[str, str]] = []
        numbers: list[int] = []
        for k, line in enumerate(text.split("\n")[:-1], self.lines + 1):
            user, *items = _filled(cut_line(line, self.separator)) or ("",)
            self.blank += not user
            if user and not items:
                self.spoil("without an item", k, line)
            pairs += [(user, item) for item in items]
            numbers += [k] * len(items)
        return _columns(pairs, numbers, (0, 1))


# JSON lines ---------------------------------------------------------------------------------------

_DEEPEST = 10_000  # characters of a line: what nests some ten thousand deep can end the process


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)


_DECODER = json.JSONDecoder(
    parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_once
)


def json_object(line: str) -> dict[str, Any] | None:
    """The object in a line, numbers as the text they are; None where it is no such object, or has
    a key twice, or half a character."""
    try:
        one = _DECODER.decode(line)
        if "\\u" in line:
            json.dumps(one, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return one if isinstance(one, dict) else None


def plain_text(value: object) -> str | None:
    """A JSON value as the text of a field; None for a list or an object."""
    if value is None or isinstance(value, bool):
        return str(value).lower() if value is not None else ""
    return value if isinstance(value, str) else None


@dataclass
class Objects(Lines):
    """JSON objects, one a line, whose values under `keys` are read: user, item and further ones."""

    keys: Sequence[str]

    def _plainly(self, text: str, count: int) -> Cut | None:
        import pyarrow as pa
        from pyarrow import compute
        from pyarrow import json as arrow

        begun, ended = text.startswith("{"), text.endswith("}\n")
        if not (begun and ended) or text.count("}\n{") + 1 < count or _may_exceed(text, _DEEPEST):
            return None
        try:
            first = json.loads(text[: text.index("\n")])
            schema = [(key, self._kind(k, first[key])) for k, key in enumerate(self.keys)]
            table = arrow.read_json(
                io.BytesIO(text.encode()),
                arrow.ReadOptions(use_threads=False, block_size=5 * len(text)),
                arrow.ParseOptions(explicit_schema=pa.schema(schema)),
            )
        except (ValueError, KeyError, RecursionError):
            return None
        if len(table) != count:
            return None
        columns = [table[key].combine_chunks() for key, _ in schema]
        for column in columns:  # NaN is a text here, and a number would lose the sign of -0
            if pa.types.is_floating(column.type) and compute.any(compute.is_nan(column)).as_py():
                return None
            if pa.types.is_integer(column.type) and re.search(r":\s*-0", text):
                return None
        return columns, self.lines + np.arange(1, count + 1)

    def _kind(self, k: int, value: object) -> Any:
        """What pyarrow makes of values like the k-th of the first object. Raises KeyError where
        that would lose anything: ids are text, so of their numbers only whole ones can be read."""
        import pyarrow as pa

        if k < 2:
            return {str: pa.string(), int: pa.int64()}[type(value)]
        return {str: pa.string(), int: pa.float64(), float: pa.float64()}[type(value)]

    def _carefully(self, text: str, final: bool) -> tuple[Cut, str]:  # noqa: ARG002 - no line waits
        rows: list[list[str | None]] = []
        numbers: list[int] = []
        for k, line in enumerate(text.split("\n")[:-1], self.lines + 1):
            one = json_object(line)
            row = [plain_text((one or {}).get(key)) for key in self.keys]
            if not line.strip():
                self.blank += 1
            elif one is None or None in row:
                self.spoil("without a JSON object of plain values", k, line)
            else:
                rows.append(row)
                numbers.append(k)
        return _columns(rows, numbers, range(len(self.keys))), ""
