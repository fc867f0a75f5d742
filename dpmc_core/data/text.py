"""Text files of ratings: what one looks like, recognised from its beginning, and its columns.

Separator, header, shape and roles are found in the first lines. All lines are then cut by pyarrow,
and by Python's csv and json where that asks care. A line ends at \\n, \\r\\n or a lone \\r and
nowhere else. Quotes join lines only in a record that is well formed from its first to its last
field; any other quote left open spoils its own line.
"""

from __future__ import annotations

import abc
import codecs
import csv
import enum
import io
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, pairwise
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

Cut = tuple[list[Any], Ints]  # the used columns, as arrays of pyarrow, and the line of each row

ROLES = ("user", "item", "rating", "time")
_PEOPLE = (  # what a column of users is called, unmistakably; with "id" behind it as well
    "customer member reviewer person visitor rater reader viewer listener voter player buyer"
    " shopper borrower patron student pupil learner participant respondent evaluator assessor"
    " annotator judge critic subscriber consumer worker guest patient employee account email"
    " emailaddress benutzer nutzer kunde utilisateur usuario utente gebruiker"
)
_ROLE_OF = {  # known names of columns, the most telling of each role first
    name: role
    for role, names in {
        "user": " ".join(
            ["user userid uid username", *(f"{one} {one}id" for one in _PEOPLE.split()), "u"]
        ),
        "item": "item itemid iid movie movieid film filmid product productid place placeid business"
        " businessid book bookid isbn asin song songid track trackid artist artistid joke jokeid"
        " restaurant restaurantid title i",
        "rating": "rating ratings score stars star overall value rate grade preference r",
        "time": "timestamp time date datetime unixtime unixreviewtime reviewtime ratedat createdat"
        " t",
    }.items()
    for name in names.split()
}
_ROW_NUMBERS = {"", "id", "no", "nr", "index", "rank", "row", "rowid", "rownames"}  # and no users
_GUESSABLE = 4  # columns without names that may be user, item, rating and time in this order
OTHERS = "every other column"  # where the items of a matrix are
_NOTHING = {"", "nan", "na", "null", "none", "?"}  # no name of a column
_MARKS = {  # first bytes of texts that say their encoding
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_BINARY = {  # first bytes of files that are not text
    b"PK\x03\x04": "a ZIP archive or an Excel file: unpack it, or save the sheet as CSV",
    b"\x1f\x8b": "compressed (gzip): unpack it first",
    b"\xd0\xcf\x11\xe0": "an old Excel file: save the sheet as CSV",
    b"SQLite format 3\0": "a database: export the ratings as CSV",
    **{
        b"\x80" + bytes([version]): "a Python pickle, which is never read: save the ratings as CSV"
        for version in range(2, 6)
    },
    b"\x93NUMPY": "a NumPy array: save the ratings as CSV",
    b"%PDF-": "a PDF document: save the ratings as CSV",
}
_MARKUP = {  # how the first filled lines of texts begin that are no tables
    r"\[\s*([\[{\"\]]|$)": "a JSON array: write one object per line, or save the ratings as CSV",
    r"(%.*\n)*@relation\b": "an ARFF file: save the ratings as CSV, without its first lines",
    r"%%MatrixMarket\b": "a Matrix Market file: save the ratings as CSV, without its first lines",
    r"<(\?xml|!doctype|html|table|svg)\b": "HTML or XML: save the ratings as CSV",
}
_INDEX = re.compile(r"Unnamed: \d|__index_level_|$")  # what pandas calls an index
_JSON = re.compile(r"\{\s*(\"|\}|$)")
_LOOK, _LOOK_CHARACTERS = 200, 2_000_000  # filled lines looked at, fewer where they are long
_SHOWN = 8  # rows of a first look
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
# A comma between one to three digits and three more may be of thousands: no number.
_COMMA = re.compile(r"[+-]?(?![1-9]\d{0,2},\d{3}$)\d*,\d+", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)


def number_of(text: str) -> float | None:
    """A number as people write it, ASCII only, with a decimal point or comma; infinite where it is
    too large for a float; None where it is none."""
    if _NUMBER.fullmatch(text):
        return float(text)
    if _COMMA.fullmatch(text):
        return float(text.replace(",", "."))
    return math.copysign(math.inf, -(text[0] == "-")) if _INFINITE.fullmatch(text) else None


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
    JESTER = "one line per user: how many jokes, then 100 ratings, 99 where there is none"
    PARQUET = "Parquet"


@dataclass(frozen=True)
class Layout:
    """How a file is to be cut and which column holds what: found before it is read.

    encoding: of text, "" where there is none. skip: lines before the first row. columns: names, or
    1, 2, ... where there is no header. roles: position from 0 of each; without a rating each row is
    a click. rows: the first few, as text. guessed: roles that neither a name nor a person gave to
    their columns. faults: what nobody can guess, beside the range. known: the public set it is.
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

    @property
    def clicks(self) -> bool:
        found = bool(self.roles) or len(self.columns) == 2
        return self.shape is FileShape.ROWS and "rating" not in self.roles and found

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
        roles = {"user": 0} if self.shape is FileShape.WIDE else self.roles
        used = [(role, names[k] if names else f"column {k + 1}") for role, k in roles.items()]
        others = [("item", OTHERS)] * (self.shape is FileShape.WIDE)
        return ColumnRoles((*used, *others), self.guessed)

    @property
    def words(self) -> str:
        """The layout in words."""
        cut = self.format.value
        if self.format is Format.JESTER:
            return cut
        if self.format is Format.FIELDS:
            names = {mark: name for name, mark in SEPARATORS.items()}
            cut = f"{names.get(self.separator, self.separator)} {cut}"
        if self.shape is FileShape.WIDE:
            items = f"{len(self.columns) - 1:,}"
            return f"{cut}; a line for each user, a column for each of {items} items"
        taken = "; every row is a click" if self.clicks else ""
        if self.guessed:
            taken += " (guessed by position: choose them by hand if they are wrong)"
        order = ", ".join(f"{role} = {self.name_of(role)}" for role in self.roles)
        return f"{cut}; {order}{taken}"


def recognise(source: Source, options: ReadOptions) -> Layout:
    """The layout of a text file. Raises BadRatings where it is no table at all."""
    head = source.read_head()
    for magic, what in _BINARY.items():
        if head.startswith(magic):
            raise BadRatings(f"{source.name} is {what}")
    marked = (name for mark, name in _MARKS.items() if head.startswith(mark))
    encoding = options.encoding or next(marked, "utf-8-sig")
    filled = list(_beginning(source, encoding))
    if not filled:
        raise BadRatings(f"{source.name} holds no ratings, only blank lines")
    skip, line = filled[0]
    lines = [text for _, text in filled]
    if options.layout is FileShape.GUESS and _is_jester(line):
        found = Layout(number_ids(101), format=Format.JESTER, shape=FileShape.WIDE)
    elif _JSON.match(line.strip()):
        found = _objects(options, lines)
    else:
        text = "\n".join(lines).lstrip()
        for begins, what in _MARKUP.items():
            if re.match(begins, text, re.IGNORECASE) and options.separator is None:
                raise BadRatings(f"{source.name} is {what}")
        return replace(_table(source, options, filled), encoding=encoding)
    return replace(found, encoding=encoding, skip=skip)


def _is_jester(line: str) -> bool:
    """How many jokes were rated, then 100 columns, 99 where one was not."""
    try:
        count, *ratings = map(float, line.split(","))
    except ValueError:
        return False
    return len(ratings) == 100 and count == sum(number != 99 for number in ratings)


def _beginning(source: Source, encoding: str) -> Iterator[tuple[int, str]]:
    """(lines before it, line) of the first filled lines."""
    found = size = number = 0
    for piece in blocks(source, encoding):
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
        widths = [len(row) for line in lines if (row := cut_line(line, separator)) is not None]
        common = Counter(width for width in widths if width > 1).items()
        even = max(((n / len(widths), width) for width, n in common), default=(0.0, 0))
        if even > best_even:
            best, best_even = separator, even
    return best


def _table(source: Source, options: ReadOptions, filled: Sequence[tuple[int, str]]) -> Layout:
    separator = options.separator or _separator([line for _, line in filled])
    if not separator:
        advice = (
            "user, item and rating stand side by side; if something else than comma,"
            " semicolon, tab, bar, :: or blanks lies between them, say it"
        )
        fault = Fault("one column only", advice, ("separator=CHARACTER",))
        raise Refused(source.name, [fault])
    cut = [(before, cut_line(line, separator)) for before, line in filled]
    while len(cut) > 1 and not any(cut[0][1] or ["?"]):
        del cut[0]  # separators alone
    before, first = cut[0]
    if first is None:
        fault = Fault("its first line has a quote that is not closed", "close or remove it")
        raise Refused(source.name, [fault])
    below = tuple(row for _, row in cut[1:] if row is not None)
    header, asked = _is_header(options, first, below)
    if header and len(cut) == 1:
        raise BadRatings(f"{source.name} has a header line but no ratings below it")
    names, rows = (_without_tail(first), below) if header else (first, (first, *below))
    shape, doubt = _shape(options, names, header, rows)
    faults = [fault for fault in (asked, doubt) if fault is not None]
    found = Layout(
        columns=names if header else number_ids(len(names)),
        separator=separator,
        skip=before + header,
        header=header,
        rows=rows[:_SHOWN],
        shape=shape,
        faults=tuple(faults),
    )
    if shape is FileShape.WIDE:
        unsaid = options.layout is FileShape.GUESS and _ROLE_OF.get(_plain(names[0])) != "user"
        wrong = (*faults, *_wide_faults(options, names, header))
        return replace(found, faults=wrong, guessed=("user",) * unsaid)
    return found if asked else with_roles(found, options, rows)


def _without_tail(names: tuple[str, ...]) -> tuple[str, ...]:
    """A header without empty names at its end."""
    while len(names) > 1 and not names[-1]:
        names = names[:-1]
    return names


def _plain(name: str) -> str:
    """A name as names are compared: case, blanks and punctuation aside."""
    return "".join(c for c in name.lower() if unicodedata.category(c)[0] not in "PSZ")


def _is_header(
    options: ReadOptions, first: tuple[str, ...], rows: Sequence[Sequence[str]]
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
    long = any(len(name) > 1 for name in names)
    rules: Sequence[tuple[object, bool, tuple[str, ...]]] = (  # when, header, what to ask
        (options.layout is FileShape.WIDE or wanted & {*first} - {NO_COLUMN}, True, ()),
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


def _shape(
    options: ReadOptions, names: Sequence[str], header: bool, rows: Sequence[Sequence[str]]
) -> tuple[FileShape, Fault | None]:
    """One rating per line, or all of a user; and what to ask where it could be either."""
    if options.layout is not FileShape.GUESS:
        return options.layout, None
    corner, *others = (_ROLE_OF.get(_plain(name)) for name in names)
    told = options.columns or any(others) or corner not in (None, "user")
    if told or len(names) < 4 or not header:
        return FileShape.ROWS, None
    cells = [text for row in rows for text in row[1 : len(names)]]
    numbers = all(not text or number_of(text) is not None for text in cells)
    of_users = corner == "user" or not names[0]
    if numbers and of_users and not all(cells):
        return FileShape.WIDE, None
    numbered = all(number_of(name) is not None for name in names[1:])
    if not numbers and not (numbered and of_users):
        return FileShape.ROWS, None
    what = "each line may be one rating, or all ratings of a user with a column for each item"
    return FileShape.ROWS, Fault(what, "say which", ("layout=rows", "layout=wide"))


def _wide_faults(options: ReadOptions, names: Sequence[str], header: bool) -> list[Fault]:
    if not header:
        what = "a users x items matrix needs a first line that names the items"
        return [Fault(what, "add it", ("header=yes",))]
    if set(options.columns.values()) - {NO_COLUMN}:
        what = "in a matrix the first column is the user and every other an item"
        return [Fault(what, "leave user, item, rating and time out")]
    if len(names) < 2:
        return [Fault("no column holds an item", "say its separator", ("separator=CHARACTER",))]
    twice, times = Counter(names[1:]).most_common(1)[0]
    what = f"two columns are called '{twice}'"
    return [Fault(what, "give every item a name of its own")] if times > 1 else []


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
        first = [row[k] if k < len(row) else "" for row in rows for k in free[:1]]
        unsaid = len(names) > _GUESSABLE or _counts_up(first)
    taken = {} if unsaid else dict(zip(missing, free, strict=False))
    last = not header and len(names) == 4 and rows and not unsaid
    if last and not {"time", 3} & {*roles, *absent, *roles.values(), *taken.values()}:
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
        faults.append(Fault(what, advice, tuple(f"{role}=COLUMN" for role in lost)))
    elif expected and "rating" not in {*roles, *absent}:
        what = f"no column holds the rating; its columns are {there}"
        advice = "say which does, or that each row is a click"
        faults.append(Fault(what, advice, ("rating=none", "rating=COLUMN")))
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
        roles={role: roles[role] for role in ROLES if role in roles},
        guessed=tuple(taken),
        faults=(*layout.faults, *faults),
    )


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
        return with_roles(layout, options)
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
class Lines(abc.ABC):
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

    @abc.abstractmethod
    def _plainly(self, text: str, count: int) -> Cut | None:
        """By pyarrow; None where that might see other rows than the careful way does."""

    @abc.abstractmethod
    def _carefully(self, text: str, final: bool) -> tuple[Cut, str]:
        """Line by line; and the end of the text where that must wait for more."""

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
        ragged: list[Any] = []

        def skip(row: Any) -> str:
            ragged.append(row)
            return "skip"

        names = [str(k) for k in range(self.width)]
        kinds = dict.fromkeys(names, pa.dictionary(pa.int32(), pa.string()))
        kinds |= dict.fromkeys(map(str, self.plain), pa.string())
        content = f"{marked}\n".encode()  # a quote left open would take the line at the end
        try:
            table = arrow.read_csv(
                io.BytesIO(content),
                arrow.ReadOptions(use_threads=False, block_size=len(content), column_names=names),
                arrow.ParseOptions(
                    delimiter=mark,
                    ignore_empty_lines=False,
                    newlines_in_values=True,
                    invalid_row_handler=skip,
                ),
                arrow.ConvertOptions(
                    include_columns=[names[k] for k in dict.fromkeys(self.used)],
                    column_types=kinds,
                    null_values=[],
                ),
            )
        except pa.ArrowInvalid:
            return None
        cut = [next(_records([row.text], mark)) for row in ragged]
        if len(table) + len(cut) != count + 1 or any(self._fits(row) and any(row) for row in cut):
            return None  # a quote joins lines, or a row goes on with empty fields
        for row, fields in zip(ragged, cut, strict=True):
            self._is_row(fields, row.number, row.text.replace(mark, self.separator))
        numbers = np.delete(np.arange(1, count + 1), [row.number - 1 for row in ragged])
        table = table.slice(0, len(numbers)).combine_chunks()
        first = table[names[self.used[0]]].combine_chunks()
        texts = getattr(first, "dictionary", first)
        keep = compute.not_equal(compute.utf8_trim_whitespace(texts), "").to_numpy(False)
        if texts is not first:
            keep = keep[first.indices.to_numpy()]
        if not keep.all():  # spreadsheets end in lines of separators alone
            lines = marked.split("\n")
            for k in np.flatnonzero(~keep).tolist():
                line = lines[numbers[k] - 1]
                keep[k] = self._is_row(next(_records([line], mark), []), numbers[k], line)
            table, numbers = table.filter(pa.array(keep)), numbers[keep]
        columns = [table[names[k]].combine_chunks() for k in self.used]
        if texts is not first and mostly_once(first):
            self.plain.add(self.used[0])
        return columns, self.lines + numbers

    def _fits(self, row: Sequence[str]) -> bool:
        """Whether it has a field for each column, and nothing but empty ones beyond."""
        return len(row) >= self.width and not "".join(row[self.width :]).strip()

    def _is_row(self, row: Sequence[str], k: int, line: str) -> bool:
        """Whether the k-th line now at hand is a row; it is counted where it is none."""
        if not "".join(row).strip():
            self.blank += 1
            return False
        if not self._fits(row):
            words = f"with another number of columns than {self.width}"
            self.spoil(words, self.lines + k, line)
            return False
        return True

    def _carefully(self, text: str, final: bool) -> tuple[Cut, str]:
        marked, mark = _one_mark(text, self.separator)
        whole, lines = text.split("\n")[:-1], marked.split("\n")[:-1]
        rows: list[list[str]] = []
        numbers: list[int] = []
        row: list[str] | None
        k = end = 0
        while end < len(lines):
            k, end, row = end, end + 1, None
            with suppress(csv.Error):
                row = next(_records([lines[k]], mark), [])
            if row is None:
                self.spoil(FIELD, self.lines + k + 1, whole[k])
                continue
            if _is_open(row):
                try:
                    row, end = self._joined(lines, k, mark)
                except EOFError:
                    if not final and sum(map(len, lines[k:])) < BLOCK_BYTES:
                        end = k
                        break
                    row = None
                if row is None or any("\n" in row[place] for place in self.used):
                    self.spoil(QUOTE, self.lines + k + 1, whole[k])
                    row = None
                self.continued += end - k - 1
            if row is not None and self._is_row(row, k + 1, whole[k]):
                rows.append(_told(row, mark, self.separator))
                numbers.append(self.lines + k + 1)
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
