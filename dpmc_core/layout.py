"""Recognising the layout of a text file of ratings: encoding, separator, header, columns."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass

from dpmc_core.errors import BadRatings
from dpmc_core.known import Known
from dpmc_core.sources import HEAD, ReadOptions, Source

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
_SEPARATORS = ("::", "\t", ";", ",", "|")
_BINARY = {  # first bytes of files that are not text
    b"PK": "a ZIP archive or an Excel file: unpack it, or save the sheet as CSV",
    b"\x1f\x8b": "compressed (gzip): unpack it first",
    b"\xd0\xcf\x11\xe0": "an old Excel file: save the sheet as CSV",
    b"SQLite": "a database: export the ratings as CSV",
    b"\x80": "a Python pickle, which is never read: save the ratings as CSV",
    b"\x93NUMPY": "a NumPy array: save the ratings as CSV",
}


@dataclass(frozen=True)
class Layout:
    """How to parse a file. columns: position (from 0) of each role; skip: lines before the data.

    header: column names, or None; rows: the first few data rows, for a preview.
    """

    separator: str  # " " stands for any run of blanks
    encoding: str
    header: tuple[str, ...] | None
    columns: dict[str, int]
    skip: int
    decimal: str
    rows: tuple[tuple[str, ...], ...]
    guessed: bool  # the columns were taken by position under names that say nothing

    @property
    def width(self) -> int:
        return len(self.header or self.rows[0])

    def name_of(self, role: str) -> str:
        """What a person would call the column: its name, or its number."""
        position = self.columns[role]
        return f"'{self.header[position]}'" if self.header else f"column {position + 1}"


def find_layout(source: Source, options: ReadOptions, known: Known | None = None) -> Layout:
    """Recognise a text layout from the first lines. Raises BadRatings with what is missing."""
    lines, encoding = _first_lines(source, options)
    blank = next((k for k, line in enumerate(lines) if line.strip()), None)
    if blank is None:
        raise BadRatings(f"{source.name} holds no ratings, only blank lines")
    lines = lines[blank:]
    separator = options.separator or (known.separator if known else None)
    if separator is None or not any(separator in line for line in lines):
        separator = options.separator or _guess_separator(source, lines)
    table = [_split(line, separator) for line in lines if line.strip()]
    first = tuple(field.strip().strip("\"'") for field in table[0])
    header = None if any(_is_number(field) for field in first) else first
    rows = tuple(table[1 if header else 0 :][:20])
    if not rows:
        raise BadRatings(f"{source.name} has a header line but no ratings below it")
    columns, guessed = _columns(source, options, first, header)
    decimal = "."
    if separator == ";":
        ratings = [row[columns["rating"]] for row in rows if len(row) > columns["rating"]]
        if any(re.fullmatch(r"\s*-?\d+,\d+\s*", text) for text in ratings):
            decimal = ","
    return Layout(
        separator=separator,
        encoding=encoding,
        header=header,
        columns=columns,
        skip=blank + (1 if header else 0),
        decimal=decimal,
        rows=rows,
        guessed=guessed,
    )


def pick_columns(
    source: Source, options: ReadOptions, names: Sequence[str]
) -> tuple[dict[str, int], bool]:
    """Positions of the roles in a table with column names (Parquet)."""
    return _columns(source, options, tuple(names), tuple(names))


def _first_lines(source: Source, options: ReadOptions) -> tuple[list[str], str]:
    head = source.head()
    for magic, what in _BINARY.items():
        if head.startswith(magic):
            raise BadRatings(f"{source.name} is {what}")
    encoding = options.encoding
    if encoding is None:
        utf16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        encoding = "utf-16" if utf16 else "utf-8-sig"
    elif not _is_encoding(encoding):
        raise BadRatings(f"there is no text encoding called '{encoding}'; usual are utf-8, latin-1")
    if encoding != "utf-16" and b"\x00" in head:
        raise BadRatings(f"{source.name} is not a text file: save the ratings as CSV")
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError as error:
        raise not_text(source, encoding, head[: error.start].count(b"\n") + 1) from None
    lines = text.splitlines()
    return (lines[:-1] if len(head) == HEAD and len(lines) > 1 else lines)[:200], encoding


def not_text(source: Source, encoding: str, line: int | None = None) -> BadRatings:
    """The error for a file in another encoding than expected."""
    where = "" if line is None else f" in line {line}"
    name = "UTF-8" if encoding.startswith("utf-8") else encoding
    return BadRatings(
        f"{source.name} is not {name} text{where}: save it as UTF-8,"
        " or say its encoding, for example latin-1"
    )


def _is_encoding(name: str) -> bool:
    try:
        return codecs.lookup(name)._is_text_encoding
    except LookupError:
        return False


def _guess_separator(source: Source, lines: Sequence[str]) -> str:
    """The separator that cuts the first lines into one and the same number (> 1) of fields."""
    filled = [line for line in lines if line.strip()]
    best, agreement = "", 0.0
    for separator in (*_SEPARATORS, " "):
        widths = [len(_split(line, separator)) for line in filled]
        usual = max(set(widths), key=widths.count)
        share = widths.count(usual) / len(widths) if usual > 1 else 0.0
        if share > agreement:
            best, agreement = separator, share
    if not best:
        raise BadRatings(
            f"{source.name} has one column only; user, item and rating must stand side by side,"
            " separated by comma, semicolon, tab or ::"
        )
    return best


def _split(line: str, separator: str) -> tuple[str, ...]:
    if separator == " ":
        return tuple(line.split())
    if '"' not in line:
        return tuple(line.split(separator))
    quoted = re.escape(separator)
    fields = re.findall(rf'(?:^|{quoted})("(?:[^"]|"")*"|(?:(?!{quoted}).)*)', line)
    return tuple(fields)


def _columns(
    source: Source, options: ReadOptions, first: Sequence[str], header: Sequence[str] | None
) -> tuple[dict[str, int], bool]:
    """Position of each role: as asked for, else by known names, else by order."""
    width = len(first)
    if width < 3:
        amount = "one column" if width == 1 else f"{width} columns"
        raise BadRatings(
            f"{source.name} has {amount} only; user, item and rating are needed, a time is welcome"
        )
    asked = {role: getattr(options, role) for role in ROLES}
    columns = {
        role: _position(source, role, wanted, first, header)
        for role, wanted in asked.items()
        if wanted is not None
    }
    if header is not None:
        plain = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in header]
        for role in ROLES:
            for name in _NAMES[role].split():
                if role not in columns and name in plain:
                    position = plain.index(name)
                    if position not in columns.values():
                        columns[role] = position
    missing = [role for role in ROLES[:3] if role not in columns]
    guessed = bool(missing) and header is not None
    free = [k for k in range(width) if k not in columns.values()]
    columns |= dict(zip(missing, free, strict=False))
    if header is None and width == 4 and 3 not in columns.values() and _is_number(first[3]):
        columns.setdefault("time", 3)
    if len(set(columns.values())) < len(columns):
        raise BadRatings(
            "user, item, rating and time must be different columns, got "
            + ", ".join(f"{role} = {columns[role] + 1}" for role in ROLES if role in columns)
        )
    return columns, guessed


def _position(
    source: Source,
    role: str,
    wanted: str | int,
    first: Sequence[str],
    header: Sequence[str] | None,
) -> int:
    if header is not None and wanted in header:
        return list(header).index(str(wanted))
    if isinstance(wanted, int) or wanted.isdigit():
        if 1 <= int(wanted) <= len(first):
            return int(wanted) - 1
        raise BadRatings(f"{source.name} has columns 1..{len(first)}, so {role} = {wanted} is none")
    if header is None:
        raise BadRatings(
            f"{source.name} has no header line, so there is no column '{wanted}' for the {role}:"
            f" give its number, 1..{len(first)}"
        )
    raise BadRatings(
        f"{source.name} has no column '{wanted}' for the {role}; its columns are "
        + ", ".join(header[:20])
    )


def _is_number(text: str) -> bool:
    try:
        float(text.strip().replace(",", "."))
    except ValueError:
        return False
    return text.strip().lower() not in ("nan", "inf", "infinity")
