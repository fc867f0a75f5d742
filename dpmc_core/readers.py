"""Parsers of rating files: from bytes to columns of user, item, value and time.

Large files go through the pandas C engine; ids become categories while parsing, so a file of
25 million rows never holds its ids as text.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmc_core import known as sets
from dpmc_core.errors import BadRatings
from dpmc_core.known import Known
from dpmc_core.layout import Layout, find_layout, not_text, pick_columns
from dpmc_core.sources import ReadOptions, Source
from dpmc_core.tables import Column, Table, categories, factorise, numbers, times

if TYPE_CHECKING:
    import pandas as pd


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
        guess, _ = pick_columns(source, options, names)
        return Preview(names, guess, (), None, None, None, dense=False)
    known = sets.recognise(source, head)
    layout = find_layout(source, options, known)
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
    layout = find_layout(source, options, known)
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
    users, items = (categories(frame[position[role]]) for role in ("user", "item"))
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


_GUESSED = " (guessed by position: choose them by hand if they are wrong)"
_SEPARATOR_WORDS = {",": "comma", "\t": "tab", ";": "semicolon", " ": "blanks", "|": "bar"}


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
    columns, guessed = pick_columns(source, options, names)
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
        user=factorise(chosen["user"]),
        item=factorise(chosen["item"]),
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
        raise not_text(source, layout.encoding) from None
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
