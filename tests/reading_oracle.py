"""A slow, plain reader of rating files, row by row: what the fast reader is compared with.

It is written from the rules of reading alone and shares no code with dpmc_core. Where a rule leaves
room, the choice is the one under which different people are never merged and nothing is lost
silently; `doubts` then names the place, so that a test can allow the other choice.
"""

from __future__ import annotations

import codecs
import csv
import json
import math
import re
import statistics
import struct
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import count as count_from
from typing import Any

ROLES = ("user", "item", "rating", "time")
NAMES = {  # what a column of a role is called, most telling first
    "user": "user userid uid username customer customerid member memberid reviewer reviewerid"
    " person personid visitor visitorid rater raterid reader readerid viewer viewerid listener"
    " listenerid voter voterid player playerid buyer buyerid shopper shopperid borrower borrowerid"
    " patron patronid student studentid pupil pupilid learner learnerid participant participantid"
    " respondent respondentid evaluator evaluatorid assessor assessorid annotator annotatorid judge"
    " judgeid critic criticid subscriber subscriberid consumer consumerid worker workerid guest"
    " guestid patient patientid employee employeeid account accountid email emailid emailaddress"
    " emailaddressid benutzer benutzerid nutzer nutzerid kunde kundeid utilisateur utilisateurid"
    " usuario usuarioid utente utenteid gebruiker gebruikerid u",
    "item": "item itemid iid movie movieid film filmid product productid place placeid business"
    " businessid book bookid isbn asin song songid track trackid artist artistid joke jokeid"
    " restaurant restaurantid title i",
    "rating": "rating ratings score stars star overall value rate grade preference r",
    "time": "timestamp time date datetime unixtime unixreviewtime reviewtime ratedat createdat t",
}
SEPARATOR_NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "blanks": " "}
SEPARATORS = ("::", "\t", ";", ",", "|")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
COMMA_NUMBER = re.compile(r"[+-]?(?![1-9][0-9]?[0-9]?,[0-9]{3}$)[0-9]*,[0-9]+")  # 1,000: thousands?
INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
WHOLE_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
ROW_NUMBERS = ("", "id", "no", "nr", "index", "rank", "row", "rowid", "rownames")
UNUSUAL = ("", "nan", "na", "null", "none", "?")  # no name of a column
# Why a row is left out, the first that holds.
BAD_ROW_REASONS = (
    "json",
    "long",
    "quote",
    "columns",
    "user",
    "item",
    "rating",
    "number",
    "finite",
    "range",
)
DEFAULTS: dict[str, Any] = {
    "user": None, "item": None, "rating": None, "time": None, "low": None, "high": None,
    "duplicates": "error", "bad_rows": "error", "separator": None, "encoding": None,
    "header": "guess", "layout": "guess", "max_bytes": 200_000_000, "max_rows": 40_000_000,
}  # fmt: skip
NO_DATE = -9.223372036854e18  # ns: what pandas writes for a missing date, also as a whole number
STORED = {"float16": "<e", "float32": "<f", "float64": "<d"}  # as struct writes them
FIELD_LIMIT, LINE_LIMIT = 131_072, 16_000_000
YEAR_1, YEAR_5138, YEAR_10000 = -62_135_596_800, 1e11, 253_402_300_800  # in Unix seconds


@dataclass(frozen=True)
class Count:
    """Lines of the file and what became of them, as LineCount has them."""

    lines: int
    header: int = 0
    blank: int = 0
    continued: int = 0
    rows: int = 0
    entries: int = 0
    used: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    repeated: int = 0


@dataclass(frozen=True)
class Table:
    """A data set: rating and time of each (user, item), ids in their order."""

    values: dict[tuple[str, str], float]
    times: dict[tuple[str, str], int] | None
    users: tuple[str, ...]
    items: tuple[str, ...]
    low: float
    high: float
    count: Count
    doubts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Refused:
    """Kinds of what is wrong; bad: rows by their reason, where rows are what is wrong."""

    reasons: frozenset[str]
    bad: Mapping[str, int] = field(default_factory=dict)
    doubts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Column:
    """A Parquet column as it was written: plain Python values, None where null.

    kind: int, float16, float32, float64, text, bool, decimal, stamp, date, list or binary.
    """

    name: str
    kind: str
    values: Sequence[Any]


class _Refusal(Exception):
    def __init__(self, *reasons: str, bad_rows: Mapping[str, int] | None = None) -> None:
        self.reasons, self.bad = reasons, bad_rows or {}


@dataclass
class _Row:
    """Text of the used fields of one row, or what is wrong with the row as a whole."""

    user: str = ""
    item: str = ""
    rating: str = ""
    time: str = ""
    wrong: str = ""


def read(
    content: bytes, options: Mapping[str, Any], columns: Sequence[Column] | None = None
) -> Table | Refused:
    """The data set in a file, or why there is none. columns: what a Parquet file holds."""
    doubts: set[str] = set()
    try:
        table = _read(content, _check_options(options), columns, doubts)
    except _Refusal as no:
        return Refused(frozenset(no.reasons), no.bad, frozenset(doubts))
    return Table(**{**vars(table), "doubts": frozenset(doubts)})


def _read(
    content: bytes,
    checked_options: Mapping[str, Any],
    columns: Sequence[Column] | None,
    doubts: set[str],
) -> Table:
    if not content:
        raise _Refusal("empty")
    if len(content) > checked_options["max_bytes"]:
        raise _Refusal("too large")
    if content.startswith(b"PAR1"):
        if columns is None:
            raise _Refusal("damaged Parquet")
        return _read_parquet(columns, checked_options, doubts)
    text = _decode_text(content, checked_options["encoding"], doubts)
    lines = _split_lines(text)
    if max(map(len, lines), default=0) > LINE_LIMIT:
        raise _Refusal("limit")
    filled = [line for line in lines if line.strip()]
    if not filled:
        raise _Refusal("blank")
    _refuse_documents(text, filled, doubts)
    if filled[0].lstrip().startswith("{") and any(_parse_object(line) for line in filled[:200]):
        return _read_json_lines(lines, checked_options, doubts)
    return _read_delimited(lines, checked_options, doubts)


# Options ----------------------------------------------------------------------------------------


def _check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    o = {**DEFAULTS, **options}
    choices = {
        "duplicates": ("error", "last", "mean"),
        "bad_rows": ("error", "leave-out"),
        "header": ("guess", "yes", "no"),
        "layout": ("guess", "rows", "wide"),
    }
    if any(o[name] not in allowed for name, allowed in choices.items()):
        raise _Refusal("option")
    if (o["low"] is None) != (o["high"] is None):
        raise _Refusal("option")
    if o["low"] is not None:
        ends = [o["low"], o["high"]]
        if not all(type(end) in (int, float) and abs(end) < math.inf for end in ends):
            raise _Refusal("option")
        if not o["high"] - o["low"] >= 1e-15 or max(map(abs, ends)) > 1e15:
            raise _Refusal("option")
    for name in ("max_bytes", "max_rows"):
        if type(o[name]) is not int or o[name] < 1:
            raise _Refusal("option")
    separator = o["separator"]
    if separator is not None:
        if not isinstance(separator, str):
            raise _Refusal("option")
        separator = SEPARATOR_NAMES.get(separator, separator)
        if separator != "::" and (len(separator) != 1 or separator in "\"'\r\n\0+-."):
            raise _Refusal("option")
        if separator.isalnum():
            raise _Refusal("option")
        o["separator"] = separator
    if o["encoding"] is not None and not _is_encoding(o["encoding"]):
        raise _Refusal("option")
    return o


def _is_encoding(name: Any) -> bool:
    try:
        b"abcd".decode(name, "replace")  # refuses codecs that are no text encodings
    except (LookupError, TypeError, ValueError):
        return False
    return True


# Bytes, lines, documents ------------------------------------------------------------------------

MAGIC = (b"PK\3\4", b"PK\5\6", b"\x1f\x8b", b"\xd0\xcf\x11\xe0", b"SQLite format 3\0", b"\x80\4",
         b"\x80\5", b"\x93NUMPY")  # fmt: skip


def _decode_text(content: bytes, encoding: str | None, doubts: set[str]) -> str:
    if content.startswith(MAGIC):
        raise _Refusal("binary")
    if encoding is None:
        utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if not utf16 and content[1:65_536:2].count(0) > len(content[:65_536]) / 4:
            doubts.add("UTF-16 without a mark")
        encoding = "utf-16" if utf16 else "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeError:
        raise _Refusal("encoding") from None
    if "\0" in text:
        raise _Refusal("binary")
    if codecs.lookup(encoding).name in ("utf-16", "utf-32", "utf-8-sig"):
        return text  # these take the mark themselves
    return text.removeprefix("\ufeff")


def _split_lines(text: str) -> list[str]:
    lines = re.split(r"\r\n|\r|\n", text)
    return lines[:-1] if lines[-1] == "" else lines


def _refuse_documents(text: str, filled: Sequence[str], doubts: set[str]) -> None:
    first = filled[0].strip()
    document = _parse_json(text)
    if isinstance(document, list) or isinstance(_parse_json(first), list):
        raise _Refusal("JSON")
    if isinstance(document, dict) and len(filled) > 1:
        raise _Refusal("JSON")
    if first[0] in "[{" and not isinstance(_parse_json(first), dict):
        doubts.add("looks like JSON")
    content = next((line.strip() for line in filled if not line.strip().startswith("%")), "")
    if content.lower().startswith("@relation"):
        raise _Refusal("ARFF")
    if first.startswith("%"):
        doubts.add("looks like ARFF")
    if re.match(r"<(!doctype|html|\?xml|table)\b", first, re.IGNORECASE):
        raise _Refusal("HTML")
    if first.startswith("<"):
        doubts.add("looks like HTML")


def _parse_json(text: str) -> Any:
    """The value with its numbers as they are written, None where this is no JSON."""
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None


# Text with separators ---------------------------------------------------------------------------


def _split_records(lines: Sequence[str], separator: str, strict: bool = False) -> list[list[str]]:
    """The records of these lines, fields as they stand."""
    if separator == "::":
        letter = next(chr(k) for k in count_from(0xE000) if not any(chr(k) in x for x in lines))
        lines = [line.replace("::", letter) for line in lines]
        records = _split_records(lines, letter, strict)
        return [[text.replace(letter, "::") for text in record] for record in records]
    if separator == " ":
        lines = [line.strip(" ") for line in lines]
    ended = [f"{line}\n" for line in lines]
    return list(csv.reader(ended, delimiter=separator, skipinitialspace=True, strict=strict))


def _strip_fields(record: Sequence[str]) -> list[str]:
    return [text.strip() for text in record]


def _drop_empty_end(fields: Sequence[str]) -> list[str]:
    retained = list(fields)
    while retained and not retained[-1]:
        retained.pop()
    return retained


def _is_open(line: str, separator: str) -> bool:
    """Whether a quote that the line opens goes on in the next."""
    return len(_split_records([line, "x"], separator)) == 1


def _is_closed(line: str, separator: str) -> bool:
    try:
        return not _is_open(line, separator)
    except csv.Error:
        return False


def _guess_separator(lines: Sequence[str], doubts: set[str]) -> str:
    filled = [line for line in lines if line.strip()][:200]
    if not all(_is_closed(filled[0], separator) for separator in SEPARATORS):
        doubts.add("first line with an open quote")

    def agreement(separator: str) -> tuple[float, int]:
        """The share of lines, quotes closed, of the commonest number of fields beyond 1, and it."""
        widths = Counter(_count_fields(x, separator) for x in filled if _is_closed(x, separator))
        shares = [(n / widths.total(), width) for width, n in widths.items() if width > 1]
        return max(shares, default=(0.0, 0))

    best = max(SEPARATORS, key=agreement)
    if agreement(best)[0] <= 1 / 2:
        if agreement(best)[0] == 1 / 2:
            doubts.add("separators at odds")
        best = max((" ", best), key=lambda separator: agreement(separator)[0])
    if agreement(best) == (0, 0):
        raise _Refusal("one column")
    if agreement(best)[0] < 2 / 3:
        doubts.add("separators at odds")
    return best


def _count_fields(line: str, separator: str) -> int:
    try:
        return len(_split_records([line], separator)[0])
    except csv.Error:
        return 1


@dataclass(frozen=True)
class _Record:
    """Fields (stripped) of a record; raw_fields: as they stand, extra: its further lines.

    wrong: why its first line alone is bad, "long" or "quote".
    """

    fields: list[str]
    raw_fields: list[str]
    extra: int
    wrong: str = ""


def _read_record(lines: Sequence[str], k: int, separator: str) -> _Record:
    """The record that starts in line k."""
    try:
        is_open = _is_open(lines[k], separator)
    except csv.Error:
        return _Record(["..."], [], 0, "long")
    if not is_open:
        raw_fields = _split_records([lines[k]], separator)[0]
        return _Record(_strip_fields(raw_fields), raw_fields, 0)
    for end in range(k + 2, len(lines) + 1):
        try:
            records = _split_records(lines[k:end], separator, strict=True)
        except csv.Error as error:
            if "unexpected end" in str(error):
                continue  # still open
            break  # something else than a separator follows a closing quote, or too long a field
        return _Record(_strip_fields(records[0]), records[0], end - k - 1)
    raw_fields = _split_records([lines[k]], separator)[0]
    return _Record(_strip_fields(raw_fields), raw_fields, 0, "quote")


def _read_fields(line: str, separator: str) -> list[str]:
    """The fields of one line; none if a quote stays open in it."""
    closed = _is_closed(line, separator)
    return _strip_fields(_split_records([line], separator)[0]) if closed else []


def _read_delimited(lines: list[str], o: Mapping[str, Any], doubts: set[str]) -> Table:
    separator = o["separator"] or _guess_separator(lines, doubts)
    start, first = 0, _read_record(lines, 0, separator)
    while not any(first.fields) and not first.wrong:
        start += 1
        if start == len(lines):
            raise _Refusal("blank")
        first = _read_record(lines, start, separator)
    names_by_line = [_read_fields(line, separator) for line in lines]
    full = [
        k for k, fields in enumerate(names_by_line) if k >= start and sum(map(bool, fields)) > 1
    ]
    known_names = {name for role in ROLES for name in NAMES[role].split()}
    if full and sum(_normalise_name(name) in known_names for name in names_by_line[full[0]]) > 1:
        start, first = full[0], _read_record(lines, full[0], separator)  # titles above a header
    if first.wrong or first.extra:
        doubts.add("first line with an open quote")
    if _is_wide(first, lines[start + 1 + first.extra :], separator, o, doubts):
        return _read_wide(first, lines, start, separator, o, doubts)
    header = _has_header(first.fields, o, doubts)
    names = _drop_empty_end(first.fields) if header else None
    if not header and first.extra:
        first = _Record(first.fields, first.raw_fields, 0, "quote")
    if header and first.wrong:
        raise _Refusal("first line")
    width = len(names or first.fields)
    roles = _assign_roles(names, width, first.fields, o, doubts)
    if not header and o["user"] is None:
        column = [
            _strip_fields(_split_records([x], separator)[0])
            for x in lines
            if _is_closed(x, separator)
        ]
        values = [fields[roles["user"]] for fields in column if len(fields) > roles["user"]]
        numbers = [float(text) for text in values if NUMBER.fullmatch(text)]
        if len(numbers) > 2 and numbers == sorted(set(numbers)):
            doubts.add("a column that counts up")
        if any(values) and all(type(_parse_time(text)) is int for text in values if text):
            doubts.add("a column that counts up")  # dates are nobody's either
    if not header and width == 4 and separator == "," and {"rating", "time"} <= {*roles}:
        _refuse_decimals(names_by_line[start:], o)
    low, high = _choose_range("rating" not in roles, o)
    count = Counter(lines=len(lines), blank=start, header=int(header))
    rows = []
    k, n_longer = start, 0
    if header:
        k, count["continued"] = start + 1 + first.extra, first.extra
    while k < len(lines):
        record = _read_record(lines, k, separator)
        n_longer += header and len(_drop_empty_end(record.fields)) == width + 1
        further = lines[k + 1 : k + 1 + record.extra]
        if record.extra and (
            not _fits(record.fields, width)
            or any(_count_fields(line, separator) == width for line in further)
        ):
            record = _Record(["..."], [], 0, "quote")
        if record.extra and any(
            "\n" in record.raw_fields[column_index] for column_index in roles.values()
        ):
            record = _Record(record.fields, record.raw_fields, record.extra, "quote")
        k += 1 + record.extra
        count["continued"] += record.extra
        if record.wrong:
            rows.append(_Row(wrong=record.wrong))
        elif not any(record.fields):
            count["blank"] += 1
        elif not _fits(record.fields, width):
            rows.append(_Row(wrong="columns"))
        else:
            rows.append(_Row(**{role: record.fields[position] for role, position in roles.items()}))
    if 2 * n_longer >= len(rows) or n_longer > 2:
        doubts.add("rows with names of their own")
    return _build_table(rows, dict(count), roles, low, high, o, doubts)


def _refuse_decimals(rows: Sequence[Sequence[str]], o: Mapping[str, Any]) -> None:
    """Refuse lines in which the comma before the fourth field may be that of a decimal."""
    pairs = [row[2:4] for row in rows if len(row) >= 4]
    digits = all(text.isdecimal() for pair in pairs for text in pair if text)
    seconds = [float(pair[1]) for pair in pairs if NUMBER.fullmatch(pair[1])]
    if o["rating"] is None and o["time"] is None and digits and min(seconds, default=0) < 1e8:
        raise _Refusal("decimals?")


def _fits(fields: Sequence[str], width: int) -> bool:
    return len(fields) >= width and not any(fields[width:])


def _normalise_name(name: str) -> str:
    return "".join(x for x in name.lower() if unicodedata.category(x)[0] not in "PSZ")


def _is_number(text: str) -> bool:
    return bool(NUMBER.fullmatch(text) or COMMA_NUMBER.fullmatch(text))


def _has_header(fields: Sequence[str], o: Mapping[str, Any], doubts: set[str]) -> bool:
    if o["header"] != "guess":
        return bool(o["header"] == "yes")
    requested_names = [
        o[role] for role in ROLES if isinstance(o[role], str) and not o[role].isdigit()
    ]
    if any(name in fields for name in requested_names if name and name != "none"):
        return True
    known_names = {name for names in NAMES.values() for name in names.split()}
    names = sum(_normalise_name(name) in known_names for name in fields)
    number = any(
        _is_number(text) or INFINITE.fullmatch(text) or _parse_time(text) is not None
        for text in fields
    )
    unusual = any(text.lower() in UNUSUAL for text in fields)
    if names >= 3 and not number:  # an index without a name, empty columns at the end
        return True
    if names and (number or unusual):
        doubts.add("names beside numbers" if names == 1 or number else "names beside gaps")
    if number or unusual:
        return False
    if names and (len(fields) > 2 or names > 1):
        return True
    raise _Refusal("header?")


def _assign_roles(
    names: Sequence[str] | None,
    width: int,
    first: Sequence[str],
    o: Mapping[str, Any],
    doubts: set[str],
    by_place: bool = True,
) -> dict[str, int]:
    """Position from 0 of each role; without a rating where rows are clicks."""
    if width < 2:
        raise _Refusal("one column")
    off = {role for role in ("rating", "time") if o[role] == "none"}
    if names is not None and "none" in names and off:
        doubts.add("a column called none")
    roles: dict[str, int] = {}
    for role in ROLES:
        if o[role] is not None and role not in off:
            roles[role] = _find_column(o[role], names, width, doubts)
    if len(set(roles.values())) < len(roles):
        raise _Refusal("same column")
    reserved = set()  # a column that says it holds ratings or times holds no ids
    for role in ROLES if names is not None else ():
        if o[role] is not None and role not in off:
            continue
        for role_name in NAMES[role].split():
            positions = [
                k for k, name in enumerate(names or ()) if _normalise_name(name) == role_name
            ]
            positions = [k for k in positions if k not in roles.values()]
            if positions and role in off:
                reserved.add(positions[0])
            elif positions:
                if len(positions) > 1:  # Rating and rating
                    raise _Refusal("same name")
                roles[role] = positions[0]
            if positions:
                break
    numbers = {k for k, name in enumerate(names or ()) if _normalise_name(name) in ROW_NUMBERS}
    free = [k for k in range(width) if k not in {*roles.values(), *reserved, *numbers}]
    missing = [role for role in ("user", "item", "rating") if role not in {*roles, *off}]
    if names is None:  # in the usual order, unless there are many columns
        by_place = by_place and not ("user" in missing and width > 4)
    elif "user" in missing or len(free) > 1:  # a header names roles, else the person is asked
        by_place = False
    for role in missing if by_place else ():
        if free:
            roles[role] = free.pop(0)
    if "user" not in roles or "item" not in roles:
        raise _Refusal("no column left")
    for role, position in roles.items() if names is not None else ():
        if o[role] is None and names.count(names[position]) > 1:
            raise _Refusal("same name")
    if "rating" not in roles and "rating" not in off and width > len(roles):
        raise _Refusal("no column left")  # of an object: the values may be in one that is not known
    if names is None and width > 2 and 2 in roles.values() and len(first) > 2:
        third = first[2]
        if type(_parse_time(third)) is int or (NUMBER.fullmatch(third) and float(third) >= 1e8):
            doubts.add("a third column of times")
    fourth = names is None and width == 4 and 3 in free and "time" not in off
    if fourth and _parse_time(first[3]) is not None:
        roles.setdefault("time", 3)
    return roles


def _find_column(
    target: str | int, names: Sequence[str] | None, width: int, doubts: set[str]
) -> int:
    if type(target) not in (int, str):
        raise _Refusal("option")
    if target == "":
        raise _Refusal("no such column")
    if names is not None and str(target) in names and str(target).isdigit():
        doubts.add("a number that is a name")
    if names is not None and target in names:
        if list(names).count(str(target)) > 1:
            raise _Refusal("same name")
        return list(names).index(str(target))
    number = isinstance(target, int) or re.fullmatch("[0-9]{1,9}", target)
    if number and 1 <= int(target) <= width:
        return int(target) - 1
    raise _Refusal("no such column")


def _choose_range(clicks: bool, o: Mapping[str, Any]) -> tuple[float, float]:
    if clicks and o["low"] is not None and o["rating"] != "none":
        raise _Refusal("a range of no ratings")
    if o["low"] is not None:
        return float(o["low"]), float(o["high"])
    if clicks:
        return 0.0, 1.0
    raise _Refusal("range?")


# JSON lines -------------------------------------------------------------------------------------


def _parse_object(line: str) -> dict[str, Any] | None:
    """The object in a line; None if there is none, it says a thing twice, or in half characters."""
    value, repeated = _parse_json(line), []

    def record_repeats(fields: list[tuple[str, Any]]) -> None:
        repeated.append(len({key for key, _ in fields}) < len(fields))

    if not isinstance(value, dict):
        return None
    json.loads(line, object_pairs_hook=record_repeats)
    half = re.search("[\ud800-\udfff]", json.dumps(value, ensure_ascii=False))
    return None if any(repeated) or half else value


def _read_json_lines(lines: Sequence[str], o: Mapping[str, Any], doubts: set[str]) -> Table:
    filled = [line for line in lines if line.strip()]
    objects = [_parse_object(line) for line in filled]
    names = list(dict.fromkeys(key for parsed in objects[:200] for key in parsed or ()))
    if o["layout"] == "wide" or len(names) > 5:
        doubts.add("a matrix by its columns")
    # An object has no order.
    roles = _assign_roles(names, len(names), (), o, doubts, by_place=False)
    low, high = _choose_range("rating" not in roles, o)
    rows = []
    for parsed in objects:
        chosen = {role: (parsed or {}).get(names[position]) for role, position in roles.items()}
        if parsed is None or any(isinstance(value, list | dict) for value in chosen.values()):
            rows.append(_Row(wrong="json"))
        else:
            rows.append(_Row(**{role: _format_json_value(value) for role, value in chosen.items()}))
    count = {"lines": len(lines), "blank": len(lines) - len(filled)}
    return _build_table(rows, count, roles, low, high, o, doubts)


def _format_json_value(value: Any) -> str:
    if value is None:
        return ""
    return str(value).strip() if isinstance(value, str) else str(value).lower()


# Wide matrices ----------------------------------------------------------------------------------


def _is_wide(
    first: _Record,
    data_lines: Sequence[str],
    separator: str,
    o: Mapping[str, Any],
    doubts: set[str],
) -> bool:
    names = _drop_empty_end(first.fields)
    widths = [_count_fields(line, separator) for line in data_lines if line.strip()]
    if 2 * widths.count(len(names) + 1) > len(widths):
        doubts.add("rows with names of their own")
    if o["layout"] != "guess":
        return bool(o["layout"] == "wide")
    if len(names) >= 5 and all(map(_is_number, names[1:])):
        doubts.add("a matrix by its columns")  # numbers beyond the ratings name the items
    if len(names) >= 5 and sum(map(_is_many_numbers, _columns_of(data_lines, separator))) >= 5:
        doubts.add("a matrix by its columns")
    if o["header"] == "no" or any(o[role] is not None for role in ROLES) or len(names) < 4:
        return False
    if not names[0] and o["header"] == "guess":
        doubts.add("a matrix whose first line may be ratings")
    known_names = {name for role in ROLES for name in NAMES[role].split()}
    if any(_normalise_name(name) in known_names for name in names[1:]):
        return False
    if "" in first.fields[1:] or len(names) == 4:
        doubts.add("a matrix whose first line may be ratings")
    numbers = [_is_number(x) or INFINITE.match(x) or _parse_time(x) is not None for x in names[1:]]
    if any(numbers) and not all(numbers):
        doubts.add("a matrix whose first line may be ratings")
    closed = [line for line in data_lines[:200] if _is_closed(line, separator)]
    records = [_strip_fields(_split_records([line], separator)[0]) for line in closed]
    cells = [cell for record in records if any(record) for cell in record[1 : len(names)]]
    names_users = not names[0] or _normalise_name(names[0]) in NAMES["user"].split()
    if not all(_is_number(cell) or INFINITE.fullmatch(cell) for cell in cells if cell):
        if names_users:
            doubts.add("a matrix by its columns")
        return False
    if not names_users or "" not in cells:
        doubts.add("a matrix by its columns" if names_users else "rows or a matrix")
    if sum(map(bool, cells)) < 2 * len(names):
        doubts.add("a matrix of few ratings")
    return names_users and "" in cells


def _columns_of(lines: Sequence[str], separator: str) -> list[list[str]]:
    closed = [line for line in lines[:200] if line.strip() and _is_closed(line, separator)]
    records = [_strip_fields(_split_records([line], separator)[0]) for line in closed]
    width = max(map(len, records), default=0)
    return [[record[k] for record in records if k < len(record)] for k in range(width)]


def _is_many_numbers(column: Sequence[str]) -> bool:
    """Whether all of a column are numbers, or words where there is none."""
    return all(_is_number(x) or x.lower() in (*UNUSUAL, "n/a", "-", "--", ".") for x in column)


def _read_wide(
    first: _Record,
    lines: Sequence[str],
    start: int,
    separator: str,
    o: Mapping[str, Any],
    doubts: set[str],
) -> Table:
    names = _drop_empty_end(first.fields)
    if first.wrong or first.extra or o["header"] == "no":
        raise _Refusal("first line")
    if len(names) < 2:
        raise _Refusal("one column")
    if any(o[role] is not None for role in ROLES):
        doubts.add("columns of a wide matrix")
    if max(Counter(name for name in names[1:] if name).values(), default=0) > 1:
        raise _Refusal("same name")
    names_users = not names[0] or _normalise_name(names[0]) in NAMES["user"].split()
    values = any(_is_number(name) or name.lower() in UNUSUAL for name in names[1:])
    if o["header"] == "guess" and (not names_users or values):
        doubts.add("a matrix whose first line may be ratings")
    low, high = _choose_range(False, o)
    count = Counter(lines=len(lines), blank=start, header=1)
    rows, seen_users = [], set()
    for line in lines[start + 1 :]:
        if not _is_closed(line, separator):
            doubts.add("first line with an open quote")
            count["rows"] += 1
            rows.append(_Row(wrong="quote"))
            continue
        fields = _strip_fields(_split_records([line], separator)[0])
        if not any(fields):
            count["blank"] += 1
            continue
        count["rows"] += 1
        if not _fits(fields, len(names)):
            rows.append(_Row(wrong="columns"))
        else:
            if fields[0] and fields[0] in seen_users:
                doubts.add("a user twice in a wide matrix")
            seen_users.add(fields[0])
            cells = zip(names[1:], fields[1 : len(names)], strict=True)
            rows += [_Row(fields[0], item, cell) for item, cell in cells if cell]
    return _build_table(rows, dict(count), {"rating": 1}, low, high, o, doubts)


# Parquet ----------------------------------------------------------------------------------------


def _read_parquet(columns: Sequence[Column], o: Mapping[str, Any], doubts: set[str]) -> Table:
    columns = [c for c in columns if not re.fullmatch(r"__index_level_[0-9]+__", c.name)]
    names = [column.name for column in columns]
    if not all(name.strip() for name in names):
        doubts.add("Parquet without a name")
    roles = _assign_roles(names, len(names), (), o, doubts)
    low, high = _choose_range("rating" not in roles, o)
    if o["layout"] == "wide" or len(columns) > 5:
        doubts.add("a matrix by its columns")
    chosen = {role: columns[position] for role, position in roles.items()}
    if any(column.kind == "list" for column in chosen.values()):
        raise _Refusal("lists")
    if len({column.name for column in chosen.values()}) < len(chosen) or any(
        names.count(column.name) > 1 for column in chosen.values()
    ):
        raise _Refusal("same name")
    for role in ("user", "item"):
        if chosen[role].kind not in ("int", "text", *STORED):
            doubts.add("Parquet ids of another type")
    if "time" in chosen and chosen["time"].kind in ("binary", "bool", "decimal"):
        doubts.add("Parquet times of another type")
    texts = {
        role: [
            _format_id(value, column.kind) if role in ("user", "item") else _format_value(value)
            for value in column.values
        ]
        for role, column in chosen.items()
    }
    rows = [_Row(**dict(zip(texts, row, strict=True))) for row in zip(*texts.values(), strict=True)]
    return _build_table(rows, {"lines": len(rows)}, roles, low, high, o, doubts)


def _format_id(value: Any, kind: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and (math.isinf(value) or _stands_for_two(value, kind)):
        raise _Refusal("whole numbers beyond the floats")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _stands_for_two(value: float, kind: str) -> bool:
    """Whether whole numbers about it, or smaller ones, are written to a file as the same bytes."""
    if not value.is_integer():
        return False
    try:
        encodings = {struct.pack(STORED[kind], abs(int(value)) + step) for step in (-2, -1, 0, 1)}
    except OverflowError:
        return True  # at the end of the type
    return len(encodings) < 4


def _format_value(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, datetime | date):
        return value.isoformat()
    return repr(value) if isinstance(value, float) else str(value).strip()


# From rows to a data set ------------------------------------------------------------------------


def _build_table(
    rows: Sequence[_Row],
    count: dict[str, int],
    roles: Mapping[str, int],
    low: float,
    high: float,
    o: Mapping[str, Any],
    doubts: set[str],
) -> Table:
    clicks = "rating" not in roles
    if len(rows) > o["max_rows"] or count.get("rows", 0) > o["max_rows"]:
        raise _Refusal("too many rows")
    if count["lines"] > o["max_rows"]:
        doubts.add("more lines than rows allowed")
    points = any(NUMBER.fullmatch(row.rating) and "." in row.rating for row in rows)
    reasons = [row.wrong or _find_row_fault(row, clicks, points, low, high) for row in rows]
    bad = Counter(reason for reason in reasons if reason)
    if bad and o["bad_rows"] == "error":
        raise _Refusal(*bad, bad_rows=bad)
    good = [row for row, reason in zip(rows, reasons, strict=True) if not reason]
    if not good:
        raise _Refusal("no row left", *bad)
    times = _parse_times([row.time for row in good]) if "time" in roles else None
    if "time" in roles and times is None and o["time"] is not None:
        raise _Refusal("time")
    if times and _parse_times([row.time for row in rows if not row.wrong]) is None:
        doubts.add("a left-out row without a time")
    pairs: dict[tuple[str, str], list[tuple[int, int, float]]] = {}
    for k, row in enumerate(good):
        value = 1.0 if clicks else float(row.rating.replace(",", "."))
        pairs.setdefault((row.user, row.item), []).append((times[k] if times else 0, k, value))
    repeated = len(good) - len(pairs)
    if "user" in roles and o["user"] is None and len(pairs) >= 100:
        per_user = Counter(user for user, _ in pairs)
        if sum(number == 1 for number in per_user.values()) >= 0.95 * len(per_user):
            raise _Refusal("user?")
        if len(per_user) <= len({item for _, item in pairs}):
            doubts.add("users or items")
    per_item = Counter(item for _, item in pairs)
    if len(pairs) > 20 and sum(n == 1 for n in per_item.values()) >= 0.95 * len(per_item):
        doubts.add("users or items")  # titles of reviews
    if "a user twice in a wide matrix" in doubts and o["duplicates"] == "error":
        raise _Refusal("duplicates")
    if repeated and not clicks and o["duplicates"] == "error":
        raise _Refusal("duplicates")
    last = {pair: max(entries) for pair, entries in pairs.items()}
    values = {pair: value for pair, (_, _, value) in last.items()}
    if o["duplicates"] == "mean":
        for pair, entries in pairs.items():
            mean = float(sum(Fraction(value) for _, _, value in entries) / len(entries))
            values[pair] = min(max(mean, low), high)
    left_out = {reason: bad[reason] for reason in BAD_ROW_REASONS if bad[reason]}
    rows_of = {"rows": len(rows), "entries": len(rows), **count}
    return Table(
        values=values,
        times={pair: time for pair, (time, _, _) in last.items()} if times else None,
        users=_sort_ids({user for user, _ in pairs}),
        items=_sort_ids({item for _, item in pairs}),
        low=low,
        high=high,
        count=Count(used=len(pairs), left_out=left_out, repeated=repeated, **rows_of),
    )


def _find_row_fault(row: _Row, clicks: bool, points: bool, low: float, high: float) -> str:
    """The first reason why the row cannot be used, nothing if it can."""
    if not row.user:
        return "user"
    if not row.item:
        return "item"
    if clicks:
        return "" if low <= 1 <= high else "range"
    if not row.rating:
        return "rating"
    if INFINITE.fullmatch(row.rating):
        return "finite"
    comma = COMMA_NUMBER.fullmatch(row.rating)
    if not NUMBER.fullmatch(row.rating) and (points or not comma):
        return "number"
    value = float(row.rating.replace(",", "."))
    if not math.isfinite(value):
        return "finite"
    return "" if low <= value <= high else "range"


def _sort_ids(names: set[str]) -> tuple[str, ...]:
    all_numbers = all(WHOLE_NUMBER.fullmatch(name) for name in names)
    return tuple(sorted(names, key=int if all_numbers else None))


def _parse_times(texts: Sequence[str]) -> list[int] | None:
    """Unix seconds of all, or None if one of them is missing or no time."""
    if texts and all(re.fullmatch("[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}", text) for text in texts):
        triples = [tuple(map(int, text.split("/"))) for text in texts]
        readings = {_read_days([(y, m, d) for m, d, y in triples])}
        readings |= {_read_days([(y, m, d) for d, m, y in triples])}
        readings.discard(None)
        return list(readings.pop() or ()) if len(readings) == 1 else None
    moments = [_parse_time(text) for text in texts]
    if any(seconds is None for seconds in moments):
        return None
    numbers = [value for value in moments if isinstance(value, Decimal)]
    if numbers and len(numbers) < len(moments):
        return None  # numbers among dates: nobody knows their unit
    unit = 1
    if numbers:
        while unit < 10**9 and statistics.median(map(abs, numbers)) / unit > YEAR_5138:
            unit *= 1000
    seconds = [math.floor(float(value) / unit) for value in moments if value is not None]
    return seconds if min(seconds) >= YEAR_1 and max(seconds) < YEAR_10000 else None


def _read_days(days: Sequence[tuple[int, int, int]]) -> tuple[int, ...] | None:
    """Unix seconds of years, months and days; None if one is no day."""
    try:
        return tuple(int(datetime(*day, tzinfo=UTC).timestamp()) for day in days)
    except ValueError:
        return None


def _parse_time(text: str) -> Decimal | int | None:
    """A number as it stands, or the Unix seconds of a date."""
    if NUMBER.fullmatch(text):
        missing = float(text) <= NO_DATE or not math.isfinite(float(text))
        return None if missing else Decimal(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() // 1)
