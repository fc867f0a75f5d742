"""What a file looks like, recognised from its beginning: separator, header, columns, shape."""

from __future__ import annotations

import codecs
import enum
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from dpmc_core.data.lines import blocks, cut_line, json_object, plain_text
from dpmc_core.data.source import (
    NONE,
    SEPARATORS,
    Fault,
    FileShape,
    Header,
    ReadOptions,
    Refused,
    Source,
)
from dpmc_core.errors import BadRatings

ROLES = ("user", "item", "rating", "time")
_NAMES = {
    "user": "user userid uid username customer customerid member memberid reviewer reviewerid"
    " person personid visitor visitorid u",
    "item": "item itemid iid movie movieid film filmid product productid place placeid business"
    " businessid book bookid isbn asin song songid track trackid artist artistid joke jokeid"
    " restaurant restaurantid i",
    "rating": "rating ratings score stars star overall value rate grade preference r",
    "time": "timestamp time date datetime unixtime unixreviewtime reviewtime ratedat createdat t",
}
_ROLE_OF = {name: role for role, names in _NAMES.items() for name in names.split()}
_NOTHING = {"", "nan", "na", "null", "none", "?"}  # no name of a column
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
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
# A comma between one to three digits and three more may be of thousands: no number.
_COMMA = re.compile(r"[+-]?(?![1-9]\d{0,2},\d{3}$)\d*,\d+", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_WORDS = {mark: name for name, mark in SEPARATORS.items()}


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
    """How a file is to be cut and which column holds what.

    skip: lines before the first row. columns: names, or None where there is no header.
    roles: position from 0 of each; without a rating each row is a click. rows: the first few, for a
    preview. guessed: columns taken by position under
    names that say nothing. faults: what nobody can guess.
    """

    encoding: str = ""
    format: Format = Format.FIELDS
    separator: str = ","
    skip: int = 0
    header: bool = False
    columns: tuple[str, ...] | None = None
    width: int = 0
    roles: Mapping[str, int] = field(default_factory=dict)
    rows: tuple[tuple[str, ...], ...] = ()
    shape: FileShape = FileShape.ROWS
    guessed: bool = False
    faults: tuple[Fault, ...] = ()

    @property
    def clicks(self) -> bool:
        found = bool(self.roles) or self.width == 2
        return self.shape is FileShape.ROWS and "rating" not in self.roles and found

    def name_of(self, role: str) -> str:
        """What a person would call the column: its name, or its number."""
        position = self.roles[role]
        return f"'{self.columns[position]}'" if self.columns else f"column {position + 1}"

    @property
    def words(self) -> str:
        """The layout in words."""
        cut = self.format.value
        if self.format is Format.JESTER:
            return cut
        if self.format is Format.FIELDS:
            cut = f"{_WORDS.get(self.separator, self.separator)} {cut}"
        if self.shape is FileShape.WIDE:
            return f"{cut}; a line for each user, a column for each of {self.width - 1:,} items"
        if self.guessed:
            taken = " (guessed by position: choose them by hand if they are wrong)"
        else:
            taken = "; every row is a click" if self.clicks else ""
        order = ", ".join(f"{role} = {self.name_of(role)}" for role in self.roles)
        return f"{cut}; {order}{taken}"


def recognise(source: Source, options: ReadOptions) -> Layout:
    """The layout of a text file. Raises BadRatings where it is no table at all."""
    head = source.head()
    for magic, what in _BINARY.items():
        if head.startswith(magic):
            raise BadRatings(f"{source.name} is {what}")
    encoding = options.encoding or _encoding(head)
    filled = list(_beginning(source, encoding))
    if not filled:
        raise BadRatings(f"{source.name} holds no ratings, only blank lines")
    first, line = filled[0]
    lines = [text for _, text in filled]
    if options.layout is FileShape.GUESS and _is_jester(line):
        return Layout(encoding=encoding, skip=first, width=101, format=Format.JESTER)
    if _JSON.match(lines[0].strip()):
        return _json(options, encoding, lines, first)
    text = "\n".join(lines).lstrip()
    for begins, what in _MARKUP.items():
        if re.match(begins, text, re.IGNORECASE) and options.separator is None:
            raise BadRatings(f"{source.name} is {what}")
    separator = options.separator or _separator(lines)
    if not separator:
        raise Refused(
            source.name,
            [
                Fault(
                    "one column only",
                    "user, item and rating stand side by side; if something else than comma,"
                    " semicolon, tab, bar, :: or blanks lies between them, say it",
                    ("separator=CHARACTER",),
                )
            ],
        )
    return _table(source, options, encoding, separator, filled)


def _is_jester(line: str) -> bool:
    """How many jokes were rated, then 100 columns, 99 where one was not."""
    fields = line.split(",")
    if len(fields) != 101:
        return False
    try:
        numbers = [float(field) for field in fields]
    except ValueError:
        return False
    return numbers[0] == sum(number != 99 for number in numbers[1:])


def _encoding(head: bytes) -> str:
    for mark, name in (
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(mark):
            return name
    return "utf-8-sig"


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
        cut = [row for line in lines if (row := cut_line(line, separator)) is not None]
        even = max(
            ((n / len(cut), width) for width, n in Counter(map(len, cut)).items() if width > 1),
            default=(0.0, 0),
        )
        if even > best_even:
            best, best_even = separator, even
    return best


def _table(
    source: Source,
    options: ReadOptions,
    encoding: str,
    separator: str,
    filled: Sequence[tuple[int, str]],
) -> Layout:
    numbered = [(before, cut_line(line, separator)) for before, line in filled]
    while len(numbered) > 1 and not any(numbered[0][1] or ["?"]):
        del numbered[0]  # separators alone
    before, first = numbered[0]
    cut = [row for _, row in numbered]
    if first is None:
        fault = Fault("its first line has a quote that is not closed", "close or remove it")
        raise Refused(source.name, [fault])
    faults: list[Fault] = []
    header, asked = _is_header(options, first, [row for row in cut[1:] if row is not None])
    if asked is not None:
        faults.append(asked)
    names = _without_tail(first) if header else first
    rows = tuple(row for row in cut[1 if header else 0 :] if row is not None)
    if header and len(cut) == 1:
        raise BadRatings(f"{source.name} has a header line but no ratings below it")
    shape, doubt = _shape(options, names, header, rows)
    if doubt is not None:
        faults.append(doubt)
    roles: dict[str, int] = {}
    guessed = False
    if shape is FileShape.WIDE:
        faults += _wide_faults(options, names, header)
    elif not asked:
        roles, guessed, wrong = find_roles(options, names, header, rows)
        faults += wrong
    return Layout(
        encoding=encoding,
        separator=separator,
        skip=before + header,
        header=header,
        columns=names if header else None,
        width=len(names),
        roles=roles,
        rows=rows[:20],
        shape=shape,
        guessed=guessed,
        faults=tuple(faults),
    )


def _without_tail(names: tuple[str, ...]) -> tuple[str, ...]:
    """A header without empty names at its end."""
    while len(names) > 1 and not names[-1]:
        names = names[:-1]
    return names


def _plain(name: str) -> str:
    """A name as names are compared: case, blanks and punctuation aside."""
    return "".join(c for c in name.lower() if unicodedata.category(c)[0] not in "PSZ")


def _is_header(
    options: ReadOptions, first: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[bool, Fault | None]:
    """Whether the first line names columns, and what to ask where it could be either."""
    if options.header is not Header.GUESS:
        return options.header is Header.YES, None
    wanted = [name for role in ROLES if isinstance(name := getattr(options, role), str) and name]
    if options.layout is FileShape.WIDE or any(
        name in first and name != NONE and not _by_number(name) for name in wanted
    ):
        return True, None
    names = [_plain(text) for text in first if _plain(text) in _ROLE_OF]
    roles = {_ROLE_OF[name] for name in names}
    numbers = [text for text in first if number_of(text) is not None or is_time(text)]
    shown = ", ".join(first)[:60]
    ask = Fault(
        f"the first line, '{shown}', may name the columns or be a rating",
        "say which",
        ("header=yes", "header=no"),
    )
    filled = _without_tail(tuple(first))
    items = set(filled[1:]) - {""}
    told = options.layout is FileShape.ROWS or any(getattr(options, role) for role in ROLES)
    if len(filled) > 3 and not told:  # it may be a matrix
        user = _ROLE_OF.get(_plain(first[0])) == "user" and len(_plain(first[0])) > 1
        if user and numbers and len(items) == len(filled) - 1:
            gaps = any(not text for row in rows for text in row[1 : len(filled)])
            plain = all(number_of(text) is not None for text in filled[1:])
            sure = gaps and plain and len(filled) > 4
            return sure, None if sure else ask
        if not first[0] and not roles:
            return False, replace(ask, options=("layout=wide", "header=no"))
    if ({"user", "item"} <= roles or len(names) > 2) and not numbers:
        return True, None
    if numbers or any(text.lower() in _NOTHING for text in first):
        return False, ask if any(len(name) > 1 for name in names) else None
    # In two columns of clicks one such word may be somebody's name.
    return (True, None) if roles and len(first) > 2 else (False, ask)


def _shape(
    options: ReadOptions, names: Sequence[str], header: bool, rows: Sequence[Sequence[str]]
) -> tuple[FileShape, Fault | None]:
    """One rating per line, or all of a user; and what to ask where it could be either."""
    if options.layout is not FileShape.GUESS:
        return options.layout, None
    roles = [_ROLE_OF.get(_plain(name)) for name in names]
    asked = any(getattr(options, role) is not None for role in ROLES)
    if asked or len(names) < 4 or any(roles[1:]) or roles[0] not in (None, "user") or not header:
        return FileShape.ROWS, None
    cells = [text for row in rows for text in row[1 : len(names)]]
    numbers = all(not text or number_of(text) is not None for text in cells)
    numbered = all(number_of(name) is not None for name in names[1:])
    corner = roles[0] == "user" or not names[0]
    if not numbers and not (numbered and corner):
        return FileShape.ROWS, None
    if numbers and corner and not all(cells):
        return FileShape.WIDE, None
    question = Fault(
        "each line may be one rating, or all ratings of a user with a column for each item",
        "say which",
        ("layout=rows", "layout=wide"),
    )
    return FileShape.ROWS, question


def _wide_faults(options: ReadOptions, names: Sequence[str], header: bool) -> list[Fault]:
    if not header:
        return [
            Fault(
                "a users x items matrix needs a first line that names the items",
                "add it",
                ("header=yes",),
            )
        ]
    if any(getattr(options, role) not in (None, NONE) for role in ROLES):
        what = "in a matrix the first column is the user and every other an item"
        return [Fault(what, "leave user, item, rating and time out")]
    if len(names) < 2:
        return [Fault("no column holds an item", "say its separator", ("separator=CHARACTER",))]
    twice, times = Counter(names[1:]).most_common(1)[0]
    if times > 1:
        return [Fault(f"two columns are called '{twice}'", "give every item a name of its own")]
    return []


def find_roles(
    options: ReadOptions,
    names: Sequence[str],
    header: bool,
    rows: Sequence[Sequence[str]] = (),
    by_name: bool = False,
) -> tuple[dict[str, int], bool, list[Fault]]:
    """(position of each role, whether some are guessed, what is wrong): as asked for, else by known
    names, else by order. by_name: columns have names but no order that means anything."""
    faults: list[Fault] = []
    roles: dict[str, int] = {}
    asked = {role: getattr(options, role) for role in ROLES}
    without = {role for role in ("rating", "time") if asked[role] == NONE}
    for role, wanted in asked.items():
        if wanted is not None and role not in without:
            try:
                roles[role] = _position(role, wanted, names, header)
            except BadRatings as error:
                faults.append(Fault(str(error)))
    if faults:
        return roles, False, faults
    known = [_ROLE_OF.get(_plain(name)) if header else None for name in names]
    for role in ROLES:
        mine = [k for k, its in enumerate(known) if its == role and k not in roles.values()]
        if mine and role not in {*roles, *without}:
            order = _NAMES[role].split()
            roles[role] = min(mine, key=lambda k: order.index(_plain(names[k])))
    others = [k for k in range(len(names)) if k not in roles.values()]
    free = [
        k for k in others if not (header and (known[k] in without or _INDEX.match(names[k])))
    ]  # an index of pandas and what is to be left alone hold no role
    missing = [role for role in ROLES[:3] if role not in {*roles, *without}]
    taken = {} if by_name else dict(zip(missing, free, strict=False))
    roles |= taken
    last = not header and len(names) == 4 and 3 not in roles.values() and rows
    if last and "time" not in {*roles, *without} and is_time(rows[0][3]):
        roles["time"] = 3
    lost = [role for role in ("user", "item") if role not in roles]
    there = ", ".join(names)[:200] if header else f"{len(names)} without names"
    if lost:
        faults.append(
            Fault(
                f"no column holds the {' and the '.join(lost)}; its columns are {there}",
                "user and item are needed, a rating and a time are welcome; choose by name or"
                " number",
                tuple(f"{role}=COLUMN" for role in lost),
            )
        )
    unknown = [
        k for k in others if k not in roles.values() and not names[k].startswith("__index_level_")
    ]
    # Who gives a range expects ratings in it.
    expected = bool(unknown) or options.low is not None
    if not lost and expected and "rating" not in {*roles, *without}:
        faults.append(
            Fault(
                f"no column holds the rating; its columns are {there}",
                "say which does, or that each row is a click",
                ("rating=none", "rating=COLUMN"),
            )
        )
    positions = list(roles.values())
    if len(set(positions)) < len(positions):
        faults.append(
            Fault(
                "user, item, rating and time must be different columns, got "
                + ", ".join(f"{role} = {k + 1}" for role, k in roles.items())
            )
        )
    for role, k in roles.items():
        alike = _plain if asked[role] is None and known[k] else str
        same = [alike(name) for name in names].count(alike(names[k])) > 1
        if header and same and not _by_number(asked[role]):
            what = f"two columns are called '{names[k]}'"
            faults.append(
                Fault(what, f"say by its number which holds the {role}", (f"{role}={k + 1}",))
            )
    found = {role: roles[role] for role in ROLES if role in roles}
    return found, header and bool(taken), faults


def is_time(text: str) -> bool:
    """Whether a text can be a time, where no name says so: a number, or a date."""
    return _NUMBER.fullmatch(text) is not None or date_of(text) is not None


def _by_number(wanted: str | int | None) -> bool:
    return wanted is not None and re.fullmatch(r"\d{1,9}", str(wanted), re.ASCII) is not None


def _position(role: str, wanted: str | int, names: Sequence[str], header: bool) -> int:
    text = str(wanted).strip()
    if not text:
        raise BadRatings(f"the {role} needs the name or the number of a column")
    if header and text in names and not isinstance(wanted, int):
        return list(names).index(text)
    if _by_number(text):
        if 1 <= int(text) <= len(names):
            return int(text) - 1
        raise BadRatings(f"the columns are 1..{len(names)}, so {role} = {text} is none")
    if not header:
        raise BadRatings(
            f"no header line, so there is no column '{text[:60]}' for the {role}: give its number,"
            f" 1..{len(names)}"
        )
    raise BadRatings(
        f"no column '{text[:60]}' for the {role}; its columns are {', '.join(names[:20])}"
    )


def _json(options: ReadOptions, encoding: str, lines: Sequence[str], before: int) -> Layout:
    found = [one for line in lines if (one := json_object(line)) is not None]
    names = tuple(dict.fromkeys(name for one in found for name in one))
    faults: list[Fault] = []
    roles: dict[str, int] = {}
    if not found or not lines[0].rstrip().endswith("}"):
        faults.append(
            Fault("its first line is no JSON object", "write one object per line, or CSV")
        )
    else:
        roles, _, faults = find_roles(options, names, header=True, by_name=True)
    rows = tuple(tuple(plain_text(one.get(name)) or "" for name in names) for one in found[:20])
    return Layout(
        encoding=encoding,
        skip=before,
        columns=names,
        width=len(names),
        roles=roles,
        rows=rows,
        format=Format.JSON,
        faults=tuple(faults),
    )
