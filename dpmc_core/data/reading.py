"""Parsers of rating files: from bytes to columns of user, item, value and time.

First the layout of a text file is recognised (encoding, separator, header, columns). Large files go
through the pandas C engine; ids become categories while parsing, so a file of 25 million rows never
holds its ids as text.
"""

from __future__ import annotations

import codecs
import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.data import public_sets as sets
from dpmc_core.data.public_sets import Known
from dpmc_core.data.source import HEAD, ReadOptions, Source
from dpmc_core.errors import BadRatings

if TYPE_CHECKING:
    import pandas as pd


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

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
_GUESSED = " (guessed by position: choose them by hand if they are wrong)"
_SEPARATOR_WORDS = {",": "comma", "\t": "tab", ";": "semicolon", " ": "blanks", "|": "bar"}


@dataclass(frozen=True, eq=False)
class Column:
    """Ids of one column: names[code] for each row, code -1 where the id is missing."""

    codes: Ints
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows as read, not yet validated.

    ratings: NaN where missing or no number; text: where there was a text that is no number;
    examples: some of these texts, by row.
    times: Unix seconds or None. line: of row k is first_line + k, or None where there are none.
    """

    source: Source
    known: Known | None
    user: Column
    item: Column
    ratings: Floats
    text: NDArray[np.bool_]
    examples: dict[int, str]
    times: Ints | None
    first_line: int | None
    how: str  # layout and columns, in words
    rating_name: str

    def place(self, row: int) -> str:
        """Where a person finds the row."""
        if self.first_line is None:
            return f"row {row + 1} of {self.source.name}"
        return f"line {self.first_line + row} of {self.source.name}"


def numbers(column: pd.Series[Any]) -> tuple[Floats, NDArray[np.bool_], dict[int, str]]:
    """Values as floats, NaN where missing or text; where text is; and the first such texts."""
    import pandas as pd

    if column.dtype.kind in "iuf":
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return values, np.zeros(len(values), dtype=bool), {}
    texts = column.astype("object").where(column.notna(), None)
    values = pd.to_numeric(texts.map(_plain), errors="coerce").to_numpy(dtype=np.float64)
    wrong = np.isnan(values) & column.notna().to_numpy()
    first = np.flatnonzero(wrong)[:20]
    return values, wrong, {int(row): str(texts.iloc[row]) for row in first}


def _plain(value: Any) -> Any:
    """True and False are no ratings, though pandas would read them as 1 and 0."""
    return str(value) if isinstance(value, bool | np.bool_) else value


def _categories(column: pd.Series[Any]) -> Column:
    """Ids read as a categorical column of text, re-coded in their natural order."""
    names = [str(name) for name in column.cat.categories]
    return _in_order(column.cat.codes.to_numpy().astype(np.int64), names)


def _factorise(column: pd.Series[Any]) -> Column:
    import pandas as pd

    codes, names = pd.factorize(column)
    whole = [str(int(x)) if isinstance(x, float) and x.is_integer() else str(x) for x in names]
    return _in_order(codes.astype(np.int64), whole)


def _in_order(codes: Ints, names: Sequence[str]) -> Column:
    order = natural_order(names)
    rank = np.empty(len(names) + 1, dtype=np.int64)
    rank[order] = np.arange(len(names))
    rank[-1] = -1  # where code -1 points
    return Column(rank[codes], tuple(names[k] for k in order))


def natural_order(names: Sequence[str]) -> list[int]:
    """Positions that sort ids: as numbers where all are whole numbers, else as text."""
    if all(re.fullmatch(r"0|[1-9]\d{0,17}", name) for name in names):
        return sorted(range(len(names)), key=lambda k: int(names[k]))
    return sorted(range(len(names)), key=lambda k: names[k])


def times(column: pd.Series[Any], source: Source, asked: bool) -> tuple[Ints | None, str]:
    """Unix seconds, from seconds, milliseconds or dates, and a note where a guess went wrong."""
    import pandas as pd

    if column.dtype.kind in "iuf":
        seconds = column.to_numpy(dtype=np.float64, na_value=np.nan)
        if np.isfinite(seconds).all():
            if len(seconds) and np.median(seconds) > 1e11:  # the year 5138 in seconds
                seconds = seconds / 1000.0
            return seconds.astype(np.int64), ""
    dates = pd.to_datetime(column, errors="coerce", utc=True, format="ISO8601")
    missing = dates.isna().to_numpy()
    if not missing.any():
        return dates.dt.as_unit("s").astype(np.int64).to_numpy().astype(np.int64), ""
    problem = (
        f"{int(missing.sum())} times are neither Unix seconds nor dates like 2024-03-31 18:00,"
        f" first {str(column.iloc[int(np.argmax(missing))])!r}"
    )
    if asked:
        raise BadRatings(f"{problem} in {source.name}: choose another column or none")
    return None, f"; times are left out: {problem}"


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


def _find_layout(source: Source, options: ReadOptions, known: Known | None = None) -> Layout:
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


def _pick_columns(
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
        raise _not_text(source, encoding, head[: error.start].count(b"\n") + 1) from None
    lines = text.splitlines()
    return (lines[:-1] if len(head) == HEAD and len(lines) > 1 else lines)[:200], encoding


def _not_text(source: Source, encoding: str, line: int | None = None) -> BadRatings:
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


@dataclass(frozen=True)
class Preview:
    """A first look at a file before it is read: for choosing columns by hand.

    columns: names, or 1, 2, ... where there is no header; guess: role -> position from 0;
    rows: the first few as text; low, high: the known public range of a recognised set, else None.
    """

    columns: tuple[str, ...]
    guess: dict[str, int]
    rows: tuple[tuple[str, ...], ...]
    known: str | None
    low: float | None
    high: float | None
    dense: bool  # one row per user (Jester): there are no columns to choose


def preview(source: Source, options: ReadOptions) -> Preview:
    """Recognise the file's layout from its beginning. Raises BadRatings as reading would."""
    source.check_size(options.max_bytes)
    head = source.head()
    if head.startswith(b"PAR1"):
        names = _parquet_schema(source)
        guess, _ = _pick_columns(source, options, names)
        return Preview(names, guess, (), None, None, None, dense=False)
    known = sets.recognise(source, head)
    layout = _find_layout(source, options, known)
    return Preview(
        columns=layout.header or tuple(str(k + 1) for k in range(layout.width)),
        guess=layout.columns,
        rows=layout.rows[:8],
        known=known.title if known else None,
        low=known.low if known else None,
        high=known.high if known else None,
        dense=known is sets.JESTER,
    )


def read_table(source: Source, options: ReadOptions) -> Table:
    """Parse a file in any known layout. Raises BadRatings in a sentence that names the file."""
    head = source.head()
    known = sets.recognise(source, head)
    if known is not None and source.path is not None:
        # A public set on disk is what it is; the limit guards uploads and unknown files.
        source.check_size(max(options.max_bytes, 2_000_000_000))
    else:
        source.check_size(options.max_bytes)
    if head.startswith(b"PAR1"):
        return _read_parquet(source, options)
    if known is sets.JESTER:
        return _read_jester(source, known)
    return _read_text(source, options, known)


def _read_text(source: Source, options: ReadOptions, known: Known | None) -> Table:
    layout = _find_layout(source, options, known)
    step = 1
    separator = layout.separator
    if separator == "::":
        separator, step = ":", 2  # the C engine wants one character: every second field is empty
    position = {role: step * place for role, place in layout.columns.items()}
    how: dict[str, Any] = {
        "sep": r"\s+" if separator == " " else separator,
        "dtype": {position["user"]: "category", position["item"]: "category"},
        "nrows": options.max_rows + 1,
    }
    columns = sorted(position.values())
    if known is None:
        _check_widths(source, layout, step * layout.width, columns, how)
    frame = _read_csv(source, layout, usecols=columns, **how)
    _check_rows(source, len(frame), options.max_rows)
    ratings, text, examples = numbers(frame[position["rating"]])
    users, items = (_categories(frame[position[role]]) for role in ("user", "item"))
    stamps, note = None, ""
    if "time" in position:
        stamps, note = times(frame[position["time"]], source, asked=options.time is not None)
    order = ", ".join(f"{role} = {layout.name_of(role)}" for role in layout.columns)
    return Table(
        source=source,
        known=known,
        user=users,
        item=items,
        ratings=ratings,
        text=text,
        examples=examples,
        times=stamps,
        first_line=layout.skip + 1,
        how=f"{_SEPARATOR_WORDS.get(layout.separator, layout.separator)} between columns; {order}"
        + (_GUESSED if layout.guessed else "")
        + note,
        rating_name=layout.name_of("rating"),
    )


def _read_jester(source: Source, known: Known) -> Table:
    layout = Layout(",", "utf-8", None, {}, 0, ".", (), False)
    frame = _read_csv(source, layout, sep=",", dtype=np.float64)
    cells = frame.to_numpy()
    if cells.shape[1] != 101:
        raise BadRatings(f"{source.name} must have 101 columns, got {cells.shape[1]}")
    values = cells[:, 1:]
    seen = values != 99
    wrong = np.flatnonzero(seen.sum(axis=1) != cells[:, 0])
    if len(wrong):
        row = int(wrong[0])
        raise BadRatings(
            f"line {row + 1} of {source.name} says {cells[row, 0]:g} jokes were rated,"
            f" but {int(seen[row].sum())} are (99 stands for not rated)"
        )
    users, items = np.nonzero(seen)
    return Table(
        source=source,
        known=known,
        user=Column(users, tuple(str(k + 1) for k in range(len(values)))),
        item=Column(items, tuple(str(k + 1) for k in range(100))),
        ratings=values[seen],
        text=np.zeros(len(users), dtype=bool),
        examples={},
        times=None,
        first_line=None,
        how="one line per user: how many jokes, then 100 ratings, 99 where there is none",
        rating_name="the ratings",
    )


def _read_parquet(source: Source, options: ReadOptions) -> Table:
    import pandas as pd

    names = _parquet_schema(source, options.max_rows)
    columns, guessed = _pick_columns(source, options, names)
    with source.open() as file:
        frame = pd.read_parquet(file, columns=[names[k] for k in columns.values()])
    chosen = {role: frame[names[position]] for role, position in columns.items()}
    ratings, text, examples = numbers(chosen["rating"])
    stamps, note = None, ""
    if "time" in chosen:
        stamps, note = times(chosen["time"], source, asked=options.time is not None)
    order = ", ".join(f"{role} = '{names[position]}'" for role, position in columns.items())
    return Table(
        source=source,
        known=None,
        user=_factorise(chosen["user"]),
        item=_factorise(chosen["item"]),
        ratings=ratings,
        text=text,
        examples=examples,
        times=stamps,
        first_line=None,
        how=f"Parquet; {order}" + (_GUESSED if guessed else "") + note,
        rating_name=f"'{names[columns['rating']]}'",
    )


def _parquet_schema(source: Source, max_rows: int | None = None) -> tuple[str, ...]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise BadRatings(
            f"{source.name} is a Parquet file; reading it needs the package pyarrow"
            " (pip install pyarrow), or save the ratings as CSV"
        ) from None
    try:
        with source.open() as file:
            stored = parquet.ParquetFile(file)
            rows, names = stored.metadata.num_rows, tuple(stored.schema_arrow.names)
    except (ValueError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise BadRatings(f"{source.name} is not a readable Parquet file: {reason}") from None
    if max_rows is not None:
        _check_rows(source, rows, max_rows)
    return names


def _read_csv(source: Source, layout: Layout, **how: Any) -> pd.DataFrame:
    import pandas as pd

    read: Any = pd.read_csv
    try:
        with source.open() as file:
            frame: pd.DataFrame = read(
                file,
                header=None,
                skiprows=layout.skip,
                encoding=layout.encoding,
                decimal=layout.decimal,
                keep_default_na=False,
                na_values=[""],
                skipinitialspace=True,
                skip_blank_lines=False,
                low_memory=False,
                engine="c",
                **how,
            )
            return frame
    except UnicodeError:
        raise _not_text(source, layout.encoding) from None
    except (pd.errors.ParserError, ValueError) as error:
        if "Too many columns specified" in str(error):
            raise _TooFewColumns from None
        raise BadRatings(f"{source.name} cannot be read: {_explain(str(error))}") from None


def _check_widths(
    source: Source, layout: Layout, beyond: int, columns: list[int], how: dict[str, Any]
) -> None:
    """Raise BadRatings where a line has more columns than the first: its values may be shifted.

    Asking the C engine for one column too many fails unless some line has it.
    """
    try:
        frame = _read_csv(
            source, layout, names=range(beyond + 1), usecols=[*columns, beyond], **how
        )
    except _TooFewColumns:
        return
    longer = frame[beyond].notna().to_numpy()
    if longer.any():
        line = layout.skip + 1 + int(np.argmax(longer))
        raise BadRatings(
            f"line {line} of {source.name} has more columns than the {layout.width} of the first"
            " line: put quotes around text that holds the separator"
        )


class _TooFewColumns(Exception):
    """No line of the file has the last column asked for."""


def _explain(message: str) -> str:
    """A parser's complaint without its internals."""
    return message.removeprefix("Error tokenizing data. C error: ").splitlines()[0]


def _check_rows(source: Source, rows: int, limit: int) -> None:
    if rows > limit:
        raise BadRatings(f"{source.name} has more than {limit:,} rows, the limit: use a part of it")
