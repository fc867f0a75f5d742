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
from functools import cached_property
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

import numpy as np
from numpy.typing import NDArray

from dpmc_core.arrays import LateModule
from dpmc_core.errors import BadRatings
from dpmc_core.ratings import ColumnRoles, number_ids
from dpmc_core.stopping import check_cancelled
from dpmc_data.public_sets import PublicSet
from dpmc_data.source import (
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

pa, compute = LateModule("pyarrow"), LateModule("pyarrow.compute")
arrow_csv, arrow_json = LateModule("pyarrow.csv"), LateModule("pyarrow.json")

Row = Sequence[str]  # fields as text
Record = tuple[int, tuple[str, ...] | None]  # its first line from 0, and its fields if it has any
ReadRecord = tuple[Sequence[Sequence[str | None]], int, str]  # rows, line of the next, its fault
Codes = NDArray[np.int32]
Batch = tuple[list[Any], Codes]  # the used columns, as arrays of pyarrow, and the line of each row

ROLES = ("user", "item", "rating", "time")
KNOWLEDGE: Any = tomllib.loads(Path(__file__).with_name("reading.toml").read_text("utf-8"))
_NAMES = KNOWLEDGE["roles"]
_NAMES["user"] += "".join(f" {name} {name}id" for name in _NAMES.pop("person").split()) + " u"
_ROLE_OF = {  # names of columns, the most telling of each role first
    name: role for role, names in _NAMES.items() for name in names.split()
}
_WORDS = KNOWLEDGE["words"]
_HINTS = {role: {*words.split()} for role, words in KNOWLEDGE["hints"].items()}
_GUESSABLE = 4  # columns without names that may be user, item, rating and time in this order
_MATRIX = 5  # columns of numbers of one range from which on they are a matrix
_SMALL_MATRIX = 3  # the same where no name says something else
_OFFERS = 4  # readings to choose from at most
_ADVICE = {  # where a column with the role is missing
    "user": "say which column names the person; a file of one person's ratings has none",
    "item": "say which column names what is rated",
    "rating": "say which does, or that each row is a click",
}
MATRICES = (FileShape.WIDE, FileShape.TRANSPOSED)
OTHERS = "every other column"  # where the items of a matrix are
_MAX_TITLES = 5  # lines above a matrix, and one more
MAX_MARKS = 2  # words for "not rated" that most columns of a matrix may share
_ODD = 0.1  # share of its cells up to which a column of ratings may hold something else
_REPEATS = 20  # rows of a known item from which on its ratings must not all be the same
_SPREAD = 20  # ratings of an item from which on they are not all of one kind
MISSING = {"", *_WORDS["missing"]}  # in a cell, small letters
_NO_RATINGS = MISSING | {"99", "999", "-1", "-9", "-99"}  # with numbers that often are none
FIRST_ROWS, _FIRST_CHARACTERS = 200, 2_000_000  # that are looked at, fewer where lines are long
_PREVIEWED = 8  # rows
_INDEX, _PREAMBLE, _JSON, _NUMBER, _COMMA, LEADING = map(re.compile, KNOWLEDGE["patterns"].values())


def parse_decimal(text: str) -> float | None:
    """Return a number as people write it, ASCII only, with a decimal point or comma, infinite
    where it is too large for a float; None where it is none."""
    if _NUMBER.fullmatch(text):
        return float(text)
    return float(text.replace(",", ".")) if _COMMA.fullmatch(text) else None


def parse_leading_number(text: str) -> float | None:
    """Return a number, also in thousands, or that with which a text such as 3/5 begins."""
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    leading = LEADING.match(text)
    return parse_decimal(leading[1] if leading else text)


def parse_rating(text: str) -> float | None:
    """Return a number, that with which a text begins, or what a word of a scale stands for."""
    number = parse_leading_number(text)
    scales = KNOWLEDGE["scales"].values() if number is None else ()
    return next((scale[text.lower()] for scale in scales if text.lower() in scale), number)


def _can_rate(text: str) -> bool:
    """Return whether a text can be a rating, or a word for 'not rated'."""
    return parse_rating(text) is not None or text.lower() in MISSING


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
    if not readings or any(reading != readings[0] for reading in readings):
        return dates
    return [second - 3600 * int(hour or 0) for second, hour in zip(readings[0], hours, strict=True)]


def parse_date(text: str) -> float | None:
    """Return Unix seconds of an ISO 8601 date, in UTC where it names no zone, or None."""
    try:
        date = datetime.fromisoformat(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _is_ascending(texts: Iterable[str]) -> bool:
    """Return whether all texts are numbers, each larger than the last."""
    numbers: list[Any] = [*map(parse_decimal, texts)]
    return None not in numbers and all(a < b for a, b in pairwise(numbers))


def _is_number_or_date(text: str) -> bool:
    return parse_decimal(text) is not None or parse_date(text) is not None


class Format(enum.Enum):
    """What a file is made of, in words."""

    FIELDS = "between columns"
    JSON = "JSON lines"
    PARQUET = "Parquet"


@dataclass(frozen=True)
class Layout:
    """How a file is to be cut and which column holds what: found before it is read.

    Attributes:
        file: the name of the file.
        columns: names, or 1, 2, ... where there is no header.
        encoding: of text; "" where there is none.
        format: what the file is made of.
        form: in which `rewrite` makes a line of each row; "" if a row is one.
        separator: what lies between fields.
        skip: lines before the first row.
        header: whether one of these names the columns.
        rows: the first few, as text.
        shape: what a row holds.
        roles: the position from 0 of each; without a rating each row is a click.
        ratings: the columns of a matrix that hold them.
        missing: the number for "not rated".
        guessed: roles that neither a name nor a person gave to their columns.
        faults: what nobody can guess, beside the range.
        known: the public set it is.
    """

    file: str
    columns: tuple[str, ...]
    encoding: str = ""
    format: Format = Format.FIELDS
    form: str = ""
    separator: str = ","
    skip: int = 0
    header: bool = False
    rows: tuple[Row, ...] = ()
    shape: FileShape = FileShape.ROWS
    roles: Mapping[str, int] = field(default_factory=dict)
    ratings: range = range(0)
    missing: float = math.nan
    guessed: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    known: PublicSet | None = None

    def ask(self, problem: str, advice: str, *answers: str) -> Layout:
        """Return the layout with this as its only fault."""
        return replace(self, faults=(Fault(problem, advice, answers),))

    @property
    def clicks(self) -> bool:
        """Whether every row is a click."""
        has_columns = bool(self.roles) or len(self.columns) == 2
        return not self.is_matrix and "rating" not in self.roles and has_columns

    @property
    def is_matrix(self) -> bool:
        """Whether a row holds all ratings of a user or of an item."""
        return self.shape in MATRICES

    @property
    def is_complete(self) -> bool:
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
        """Return what a person would call the column: its name, or its number."""
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
    def description(self) -> str:
        """The layout in words."""
        form = self.format.value
        if self.format is Format.FIELDS:
            names = {mark: name for name, mark in SEPARATORS.items()}
            form = f"{names.get(self.separator, self.separator)} {form}"
        roles = ", ".join(f"{role} = {name}" for role, name in self.used.names)
        if self.shape is FileShape.ADJACENCY:
            roles = "on each line a user and then the items"
        clicks = "; every row is a click" * self.clicks
        guess = " (guessed by position: choose them by hand if they are wrong)" * bool(self.guessed)
        return f"{form}; {roles}{clicks}{guess}"


# What the first rows say --------------------------------------------------------------------------


class ColumnSample:
    """A column as the first rows show it, and what it may hold.

    Attributes:
        index: its position from 0.
        name: its name, or its number from 1 where there is no header.
        key: the name as names are compared; "" where there is no header.
        role: what the name says that it holds.
        cells: its texts; `distinct` and `filled` are the different and the filled ones.
    """

    def __init__(self, index: int, name: str, rows: Sequence[Row], is_named: bool) -> None:
        self.index, self.name = index, name
        self.key = _normalise_name(name) if is_named else ""
        self.role = _ROLE_OF.get(self.key)
        self.is_row_number = is_named and (
            self.key in _WORDS["row_numbers"] or _INDEX.match(name) is not None
        )
        self.cells = [row[index] for row in rows if index < len(row)]
        self.distinct = {*self.cells}
        self.filled = [text for text in self.cells if text]

    @property
    def number(self) -> int:
        """Its position from 1."""
        return self.index + 1

    def suggests(self, role: str) -> bool:
        """Whether a word of its name is one for the role."""
        words = re.findall(r"[^\W\d_]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", self.name))
        return not {word.lower() for word in words}.isdisjoint(_HINTS[role])

    def equals(self, other: ColumnSample) -> bool:
        """Whether each value stands beside one value of another column, and the reverse."""
        return len(self.distinct) == len(other.distinct) == _count_pairs(self, other)

    def follows(self, other: ColumnSample) -> bool:
        """Whether it says one thing of each of the repeated values of another column."""
        n_values = len(other.distinct)
        repeats = len(other.cells) - n_values >= max(_REPEATS, n_values)
        return repeats and len(self.distinct) > 1 and _count_pairs(self, other) == n_values

    @cached_property
    def counts_up(self) -> bool:
        """Whether it holds at least three numbers, each larger than the last."""
        return 2 < len(self.distinct) == len(self.cells) and _is_ascending(self.cells)

    @cached_property
    def holds_dates(self) -> bool:
        """Whether it holds dates and no numbers."""
        is_text = {*map(parse_decimal, self.filled)} == {None}
        return is_text and None not in parse_dates(pa.array(self.filled, pa.string()))

    @cached_property
    def holds_times(self) -> bool:
        """Whether it holds times rather than ratings: dates, or many seconds."""
        numbers = [*map(parse_decimal, self.filled)]
        return self.holds_dates or all(1e8 <= (number or 0) < 1e20 for number in numbers)

    @cached_property
    def can_rate(self) -> bool:
        """Whether every cell can be a rating, or says that there is none."""
        return all(map(_can_rate, self.distinct))

    @property
    def repeats(self) -> bool:
        """Whether there are several values, and one of them comes again."""
        return 1 < len({*self.filled}) < len(self.filled)


def sample_columns(names: Row, rows: Sequence[Row], is_named: bool) -> list[ColumnSample]:
    """Return the columns of the first rows."""
    return [ColumnSample(k, name, rows, is_named) for k, name in enumerate(names)]


def _normalise_name(name: str) -> str:
    """Return a name as names are compared: case, blanks and punctuation aside."""
    # Types, as RecBole writes them, and what a name is of, as in SNAP's records.
    name = re.sub(r":(token|float)(_seq)?$|^[a-z]+/", "", normalize("NFC", name.lower()))
    return "".join(c for c in name if category(c)[0] not in "PSZ")


def find_rating_columns(samples: Sequence[ColumnSample], odd_share: float = _ODD) -> range:
    """Return the longest run of columns with numbers of one range, where they are not missing.

    odd_share: of the cells of a column that may be something else.
    """
    columns: dict[int, list[float]] = {}
    readings = {
        sample.index: {
            text: parse_rating(text) for text in sample.distinct if text.lower() not in _NO_RATINGS
        }
        for sample in samples
        if "__index_level_" not in sample.name  # of pandas
    }
    words = Counter(
        text for reading in readings.values() for text, number in reading.items() if number is None
    )
    marks = [word for word, count in words.items() if count >= _MATRIX]
    for k, reading in readings.items():
        cells = samples[k].cells
        odd = {*reading} & {*words} - {*marks[:MAX_MARKS]}
        n_odd = sum(text in odd for text in cells)
        counts_up = len(cells) > _MATRIX and samples[k].counts_up
        if cells and n_odd <= len(cells) * odd_share and not counts_up:
            columns[k] = [number for number in reading.values() if number is not None]
    ends = [(min(numbers), max(numbers)) for numbers in columns.values() if numbers]
    if not ends:
        return range(0)
    k = len(ends) // 4  # so many may be of another range
    low, high = sorted(low for low, _ in ends)[k], sorted(high for _, high in ends)[-1 - k]
    margin = max(high - low, 2) / 2
    alike = {
        k
        for k, numbers in columns.items()
        if all(low - margin <= number <= high + margin for number in numbers)
    }
    positions = range(len(samples))
    runs = [[*run] for is_alike, run in groupby(positions, alike.__contains__) if is_alike]
    longest = max(runs, key=len, default=[])
    n_narrow = sum(
        4 * (max(columns[k]) - min(columns[k])) < high - low
        and sum(text in readings[k] for text in samples[k].cells) >= _SPREAD
        for k in longest
        if columns[k]
    )
    is_matrix = longest and n_narrow <= len(longest) / 3
    return range(longest[0], longest[-1] + 1) if is_matrix else range(0)


def choose_layout(layout: Layout, options: ReadOptions, rows: Sequence[Row]) -> Layout:
    """Return the layout as a matrix or as rows with roles, with what to ask where both fit."""
    if not layout.columns:
        raise BadRatings(f"{layout.file} has no columns")
    layout = replace(layout, rows=tuple(rows[:_PREVIEWED]))
    samples = sample_columns(layout.columns, rows, layout.is_named)
    corner, shape = samples[0], options.layout
    # A letter or a word over one of many columns of ratings is an item's name and says nothing.
    run = find_rating_columns(samples)
    if corner.role == "user" and len(corner.key) > 1:
        run = run[run.start == 0 :]  # numbers of people may look like ratings
    outer = [k for k in run if samples[k].key not in _WORDS["about_people"]]
    run = range(outer[0], outer[-1] + 1) if outer else range(0)
    beside = [sample for sample in samples if sample.index not in run]
    named = {sample.role: sample for sample in reversed(beside) if len(sample.key) > 1}
    user = named.get("user")
    # Without a name of another role three columns are enough.
    has_names = not layout.is_named or any(sample.role for sample in samples[1:])
    is_long = len(run) >= (_MATRIX if has_names else _SMALL_MATRIX)
    # A column of users among the ratings, or one of item ids, is a column of a rating's rows.
    inside = {samples[k].role for k in run if len(samples[k].key) > 1}
    roles = {sample.role for sample in samples}
    has_item_ids = any(sample.role == "item" and sample.key.endswith("id") for sample in samples)
    has_rows = any({"user", "item"} <= r for r in (inside, {*named})) or (
        "user" in roles and (has_item_ids or (not user and "item" in roles and "rating" in inside))
    )
    is_matrix = is_long and not has_rows
    if is_matrix and user:  # who is on many lines has no line of his own
        n_people = len(user.distinct)
        is_matrix = n_people > 0.9 * len(rows) or n_people == 1
        if n_people == 1 < len(rows):
            user = None  # all are anonymous
    if shape in MATRICES:
        # A first column that has no name, or that of users, holds no ratings.
        fills = layout.is_named and (corner.role == "user" or not corner.key)
        fills = fills or (run.start == 1 and len(run) == len(samples) - 1)
        if fills or len(run) < _MATRIX or not (is_matrix and layout.is_named) or options.columns:
            return _apply_matrix(replace(layout, shape=shape), options.columns)
    elif shape is not FileShape.GUESS or options.columns or not is_matrix:
        return assign_roles(layout, options, samples)
    aside = [s for s in beside if s is not user and s.role != "time"]
    if user and not aside:
        span: dict[str, Any] = {"user": user.number, "item": f"{run.start + 1}:{run.stop}"}
        return _apply_matrix(replace(layout, shape=FileShape.WIDE), span)
    lines: list[int | str] = [  # whatever is another on each line
        s.number for s in aside if len(s.distinct) == len(rows) and not s.holds_times
    ]
    shapes = ["transposed", "wide"] if "item" in named else ["wide", "transposed"]
    if user:
        lines = [user.number]
    if user or not beside:
        shapes = ["wide"]
    answers = [
        _format_matrix_answer(layout, shape, line, run)
        for line in lines[:2] or [NO_COLUMN]
        for shape in shapes
    ]
    if len(run) < _MATRIX or any(s.repeats and parse_rating(s.filled[0]) is None for s in aside):
        answers.append("layout=rows")  # one of these may be the item
    problem = "each line may be one rating, or all ratings of a user or of an item"
    return replace(layout, faults=(*layout.faults, Fault(problem, "say which", tuple(answers))))


def _format_matrix_answer(layout: Layout, shape: str, line: int | str, run: range) -> str:
    """Return the options that read a matrix so, as few as can be."""
    answer = f"layout={shape}" + " and header=no" * (not layout.is_named)
    if line == 1 and layout.is_named and len(run) == len(layout.columns) - 1:
        return answer
    lines, columns = ("user", "item") if shape == "wide" else ("item", "user")
    return f"{answer} and {lines}={line} and {columns}={run.start + 1}:{run.stop}"


def _apply_matrix(layout: Layout, requested: Mapping[str, str | int]) -> Layout:
    """Return the layout of a matrix whose lines and columns are as requested, or as usual."""
    names, (lines, columns) = layout.columns, layout.axes
    span = re.fullmatch(r"(\d{1,9}):(\d{1,9})", str(requested.get(columns, "")))
    run = range(int(span[1]) - 1, int(span[2])) if span else range(1, len(names))
    roles = {}
    if requested.get(lines) != NO_COLUMN:
        roles[lines] = _find_column(layout, lines, requested.get(lines, 1))
    counts = Counter(names[run.start : run.stop])
    repeated = [name for name, count in counts.items() if count > 1]
    faults = []
    if not layout.is_named and not span:
        problem = "a users x items matrix needs a first line that names the items"
        faults.append(Fault(problem, "add it", ("header=yes",)))
    elif (
        roles.get(lines) in run
        or not 0 <= run.start < run.stop <= len(names)
        or ({"rating", "time", columns} & {*requested} and not span)
    ):
        problem = f"in a matrix a column is the {lines}, and a range of others are the {columns}s"
        faults.append(Fault(problem, f"say {columns}=FIRST:LAST, and leave rating and time out"))
    elif repeated:
        problem = f"two columns are called '{repeated[0]}'"
        faults.append(Fault(problem, "give every item a name of its own"))
    return replace(layout, roles=roles, ratings=run, faults=(*layout.faults, *faults))


def assign_roles(layout: Layout, options: ReadOptions, samples: Sequence[ColumnSample]) -> Layout:
    """Return the layout with the role of each column, and with what is wrong with them.

    Roles are as requested, else by names, else by order.
    """
    if layout.faults:
        return layout
    requested = options.columns
    if options.event is not None:
        requested["event"] = options.event.rpartition(":")[0]
    absent = [role for role in ("rating", "time") if requested.get(role) == NO_COLUMN]
    roles: dict[str, ColumnSample | None] = {
        role: None if role in absent else samples[_find_column(layout, role, name)]
        for role, name in requested.items()
    }
    for role in ROLES:
        named = [s for s in samples if s.role == role and s not in roles.values()]
        n_together = len({*zip(*(s.cells for s in named), strict=False)})
        # Of judges and players either may rate.
        is_either = role == "user" and n_together > max((len(s.distinct) for s in named), default=0)
        if named and role not in roles and not is_either:
            roles[role] = min(named, key=lambda s: list(_ROLE_OF).index(s.key))
    # What numbers the rows and what is to be left alone hold no role.
    ids = [sample for role in ("user", "item") if (sample := roles.get(role))]
    named_rating = roles.get("rating")
    if named_rating and "rating" not in requested and any(map(named_rating.follows, ids)):
        del roles["rating"]  # a mean of the item, or an age
    free = [
        s
        for s in samples
        if s not in [*roles.values(), named_rating] and not s.is_row_number and s.role not in absent
    ]
    guessed = _guess_roles(layout, roles, free)
    roles |= guessed
    faults = []
    rating, time = guessed.get("rating"), guessed.get("time")
    digits = all(text.isdecimal() for s in samples[2:] for text in s.filled)
    if rating and time and layout.separator == "," and digits and not time.holds_times:
        problem = "columns 3 and 4 may be a rating and a time, or one rating such as 3,5"
        advice = "write decimals with a point, or say which column holds the rating"
        faults.append(Fault(problem, advice, (f"rating={rating.number}",)))
    unknown = [s for s in samples if s not in roles.values() and "__index_level_" not in s.name]
    lost = [role for role in ("user", "item") if role not in roles]
    # Who gives a range expects ratings in it.
    if not lost and "rating" not in roles and (unknown or options.low is not None):
        lost = ["rating"]
    if lost:
        candidates = [s.name for s in free if s in unknown]
        names = ", ".join(candidates or layout.columns)[:200]
        listing = f"{'candidates' if candidates else 'its columns'} are {names}"
        if not layout.is_named:
            listing = f"its columns are {len(samples)} without names"
        problem = f"no column holds the {' and the '.join(lost)} for certain; {listing}"
        answers = _offer_roles(roles, unknown, options) + [f"{role}=COLUMN" for role in lost]
        user = roles.get("user")
        if user and "item" in lost and len(user.distinct) == len(user.cells) and layout.is_named:
            answers = ["layout=wide", *answers]
        faults.append(Fault(problem, _ADVICE[lost[0]], tuple(answers)))
    used = {role: s for role in (*ROLES, "event") if (s := roles.get(role))}
    if len({*used.values()}) < len(used):
        faults.append(Fault("user, item, rating and time must be different columns"))
    for role, sample in used.items():
        keys = [s.key if sample.role and role not in requested else s.name for s in samples]
        if keys.count(keys[sample.index]) > 1 and not _is_column_number(requested.get(role)):
            problem = f"two columns are called '{sample.name}'"
            advice = f"say by its number which holds the {role}"
            faults.append(Fault(problem, advice, (f"{role}={sample.number}",)))
    return replace(
        layout,
        roles={role: sample.index for role, sample in used.items()},
        guessed=tuple(guessed),
        faults=tuple(faults),
    )


def _guess_roles(
    layout: Layout, roles: Mapping[str, ColumnSample | None], free: Sequence[ColumnSample]
) -> dict[str, ColumnSample]:
    """Return the columns that may have the missing roles by their order.

    Nobody is a user by order under a header, nor among many columns, nor by a date or a number of
    the row. An object has no order. Under a header a column is an item or holds ratings without
    saying so only where it is the only one left.
    """
    missing = [role for role in ROLES[:3] if role not in roles]
    if layout.is_named:
        is_odd = "user" in missing or len(free) > 1 or layout.format is Format.JSON
    else:
        is_odd = len(layout.columns) > _GUESSABLE or any(
            s.counts_up or s.holds_dates for s in free[:1]
        )
        is_odd &= "user" in missing
    if is_odd:
        return {}
    guessed = dict(zip(missing, free, strict=False))
    rating = guessed.get("rating")
    if rating and rating.filled:
        n_ratings = sum(map(_can_rate, rating.filled))
        is_better = any(s.can_rate for s in free if s.index > rating.index)
        if n_ratings <= is_better * len(rating.filled) / 2:
            del guessed["rating"]  # words that say something else
        elif not layout.is_named and rating.holds_times:
            guessed["time"] = guessed.pop("rating")
    is_missing = not layout.is_named and "time" not in {*roles, *guessed}
    for last in free[-1:] if is_missing else []:
        is_fourth = last.number == len(layout.columns) == 4 and last not in guessed.values()
        if is_fourth and "," not in last.cells[0] and _is_number_or_date(last.cells[0]):
            guessed["time"] = last
    return guessed


def _offer_roles(
    roles: Mapping[str, ColumnSample | None], unknown: Sequence[ColumnSample], options: ReadOptions
) -> list[str]:
    """Return answers that name user and item, and what else is missing, by what columns hold."""
    raters = _find_raters(unknown, options)
    events = [] if "rating" in roles else _offer_events([s for s in unknown if s not in raters])
    ids: list[ColumnSample] = []
    for column in unknown:
        is_id = column.repeats and not column.holds_times
        is_id &= not any(event.startswith(f" and event={column.number}:") for event in events)
        is_measure = all("." in text and parse_decimal(text) is not None for text in column.filled)
        is_measure |= column.suggests("rating") and not any(map(column.suggests, ROLES[:2]))
        # An id and a name of the same things give the same ratings.
        if is_id and not is_measure and not any(map(column.equals, ids)):
            ids.append(column)
    users, items = ([sample] if (sample := roles.get(role)) else ids for role in ("user", "item"))
    pairs = [(user, item) for user in users for item in items if user is not item]
    # Nobody rates an item often.
    pairs.sort(
        key=lambda pair: (
            -_count_pairs(*pair),
            -pair[0].suggests("user") - pair[1].suggests("item"),
        )
    )
    n_ratings = max(_OFFERS // max(len(pairs), 1), 2) - 1
    answers = []
    for user, item in pairs[:_OFFERS]:
        chosen = {"user": user, "item": item}
        ids_chosen = [f"{role}={s.number}" for role, s in chosen.items() if role not in roles]
        ratings = [
            f"rating={s.number}"
            for s in raters
            # Of a log of events only what is called so is more than a click.
            if s not in (user, item) and (not events or not s.key or s.suggests("rating"))
        ][:n_ratings]
        ratings = [*ratings, "rating=none"][: 1 if events else None]
        answers += [
            " and ".join(filter(None, [*ids_chosen, rating])) + event
            for rating in ([""] if "rating" in roles else ratings)
            for event in ("", *events)
        ]
    return answers[:_OFFERS]


def _count_pairs(*columns: ColumnSample) -> int:
    """Return how many different rows some columns have."""
    return len({*zip(*(sample.cells for sample in columns), strict=False)})


def _find_raters(samples: Sequence[ColumnSample], options: ReadOptions) -> list[ColumnSample]:
    """Return columns that can hold ratings, the most likely first.

    These are of numbers in the range and called so, the last first, and then of words.
    """

    low = -math.inf if options.low is None else options.low
    high = math.inf if options.high is None else options.high
    return sorted(
        [s for s in samples if s.repeats and s.can_rate and not s.holds_times],
        key=lambda sample: (
            any(
                not low <= number <= high
                for text in sample.distinct
                if (number := parse_rating(text)) is not None
            ),
            not sample.suggests("rating"),
            None in map(parse_decimal, sample.filled),
            -sample.index,
        ),
    )


def _offer_events(samples: Sequence[ColumnSample]) -> list[str]:
    """Return what reads the rows with each of the few words of the first column that has such."""
    for sample in samples:
        words = [*dict.fromkeys(sample.filled)]
        is_event = 1 < len(words) <= _OFFERS and 5 * len(words) <= len(sample.cells)
        is_event &= not sample.key or sample.suggests("event")
        if is_event and all(":" not in word and parse_decimal(word) is None for word in words):
            return [f" and event={sample.number}:{word}" for word in words]
    return []


def _is_column_number(column: str | int | None) -> bool:
    return re.fullmatch(r"\d{1,9}", str(column), re.ASCII) is not None


def _find_column(layout: Layout, role: str, column: str | int) -> int:
    """Return the position from 0 of a column by its name or its number from 1. Raises Refused."""
    text, names = str(column).strip(), layout.columns
    if layout.is_named and text in names and not isinstance(column, int):
        return names.index(text)
    problem = f"no column '{text[:60]}' for the {role}; "
    if _is_column_number(text):
        if 1 <= int(text) <= len(names):
            return int(text) - 1
        problem = f"the columns are 1..{len(names)}, so {role} = {text} is none"
    elif layout.is_named:
        problem += f"its columns are {', '.join(names[:20])}"
    else:
        problem += f"there is no header line: give its number, 1..{len(names)}"
    raise Refused(layout.file, [Fault(problem)])


# From the first lines to the layout ---------------------------------------------------------------


def recognise(source: Source, options: ReadOptions) -> Layout:
    """Return the layout of a text file.

    Raises:
        BadRatings: if it is no table at all.
    """
    head = source.read_head()
    for magic, problem in KNOWLEDGE["binary"].items():
        if head.startswith(magic.encode("latin-1")):
            raise BadRatings(f"{source.name} is {problem}")
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
    if form:
        lines = _read_first_lines(read_text(source, encoding, form))
    layout = Layout(source.name, (), encoding, form=form, skip=lines[0][0])
    if _JSON.match(lines[0][1].strip()):
        return _recognise_objects(layout, options, [line for _, line in lines])
    layout = _recognise_table(layout, options, lines)
    if form == "blocks" and not {"user", "item"} <= {*options.columns}:
        layout = layout.ask(
            "the number above each block may name what is rated, or the person",
            "say which",
            "user=2 and item=1",
            "user=1 and item=2",
        )
    return layout


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


def _recognise_objects(layout: Layout, options: ReadOptions, lines: Row) -> Layout:
    """Return the layout of JSON lines, whose keys are the columns."""
    objects = [parsed for line in lines if (parsed := parse_json_object(line)) is not None]
    layout = replace(layout, format=Format.JSON)
    if not objects or not lines[0].rstrip().endswith("}"):
        return layout.ask("its first line is no JSON object", "write one object per line, or CSV")
    names = tuple(dict.fromkeys(name for parsed in objects for name in parsed))
    rows = [
        tuple(format_plain_value(parsed.get(name)) or "" for name in names) for parsed in objects
    ]
    layout = choose_layout(replace(layout, columns=names), options, rows)
    nested = [name for name, value in objects[0].items() if isinstance(value, dict)]
    if layout.faults and nested:
        return layout.ask(
            f"'{nested[0][:40]}' holds an object of its own",
            "write one object per rating, with user, item and rating",
        )
    return layout


def _guess_separator(lines: Sequence[tuple[int, str]]) -> str:
    """Return what cuts the lines most evenly into several fields, blanks where nothing else does;
    "" where nothing cuts them."""

    def rate_evenness(separator: str) -> tuple[float, int]:
        widths = [len(row) for _, row in read_first_records(lines, separator) if row is not None]
        common = Counter(width for width in widths if width > 1).items()
        return max(((count / len(widths), width) for width, count in common), default=(0.0, 0))

    best = max(("::", "\t", ";", ",", "|"), key=rate_evenness)
    if rate_evenness(best)[0] < 0.5:
        if all("\t" in line for _, line in lines):
            return "\t"  # hidden by quotes that stay open
        best = max((best, " "), key=rate_evenness)
    return best if rate_evenness(best)[1] else ""


def _recognise_table(layout: Layout, options: ReadOptions, lines: list[tuple[int, str]]) -> Layout:
    """Return the layout of lines of fields."""
    separator = options.separator
    while len(lines) > 1 and (preamble := _PREAMBLE.match(lines[0][1])):
        separator = separator or preamble["separator"]
        del lines[0]
    separator = separator or _guess_separator(lines)
    if not separator:
        advice = (
            "user, item and rating stand side by side; if something else than comma,"
            " semicolon, tab, bar, :: or blanks lies between them, say it"
        )
        fault = Fault("one column only", advice, ("separator=CHARACTER",))
        raise Refused(layout.file, [fault])
    records, names_items = _drop_titles(read_first_records(lines, separator), options.header)
    skip, first = records[0]
    if first is None:
        fault = Fault(
            "its first line has a quote that is not closed",
            f"close it, or remove the quotes: tr -d '\"' < {layout.file}",
        )
        raise Refused(layout.file, [fault])
    rows = [row for _, row in records if row is not None]
    width = _count_columns(rows)
    layout = replace(
        layout,
        columns=number_ids(width),
        separator=separator,
        skip=skip,
        rows=tuple(rows[:_PREVIEWED]),
    )
    if options.layout is FileShape.ADJACENCY:
        return replace(layout, shape=options.layout, roles={"user": 0, "item": 1})
    if options.layout is FileShape.GUESS:
        counted = width > 20 and all(map(_counts_ratings, rows))
        if counted and (width == 101 or parse_decimal(first[0]) != width - 1):
            return replace(layout, shape=FileShape.WIDE, ratings=range(1, width), missing=99)
        is_uneven = len(rows) > 2 and sum(len(row) == width for row in rows) < len(rows) / 2
        if is_uneven and all(text.isdecimal() for row in rows for text in row):
            return layout.ask(
                "its lines have different numbers of columns, all of them whole numbers",
                "if each is a user and then the items, say it",
                "layout=adjacency",
            )
    header, answers = _find_header(options, first, rows[1:], names_items)
    if header and len(records) == 1:
        raise BadRatings(f"{layout.file} has a header line but no ratings below it")
    names = _drop_empty_tail(first) if header else number_ids(len(first))
    labels = [row[0] for row in rows[1:] if len(_drop_empty_tail(row)) == len(names) + 1]
    is_label = options.header is Header.GUESS and len({*labels}) == len(labels) > len(rows[1:]) / 2
    if header and is_label:
        names = ("", *names)  # the rows have names of their own, each another
    if answers:
        text = ", ".join(first)[:60]
        problem = f"the first line, '{text}', may name the columns or be a rating"
        layout = layout.ask(problem, "say which", *answers)
    skip = records[header][0]
    layout = replace(layout, columns=names, skip=skip, header=header)
    return choose_layout(layout, options, rows[header:])


def _drop_titles(records: list[Record], header: Header) -> tuple[list[Record], bool]:
    """Return the records without titles above a header, and whether it names those of a matrix."""
    start = next((k for k, (_, row) in enumerate(records) if len(_drop_empty(row)) > 1), 0)
    if sum(_normalise_name(text) in _ROLE_OF for text in records[start][1] or ()) > 1:
        records = records[start:]
    while len(records) > 1 and not _drop_empty(records[0][1]):
        records = records[1:]  # separators alone
    # The names of a matrix may go over several lines.
    for n_titles in range(1, 1 if header is Header.NO else _MAX_TITLES):
        rows = [row for _, row in records[n_titles:] if row]
        samples = sample_columns(number_ids(_count_columns(rows)), rows, is_named=False)
        run = find_rating_columns(samples, odd_share=0)
        if sum(bool(samples[k].filled) for k in run) < _MATRIX:
            continue
        titles = [row for _, row in records[:n_titles] if row and len(row) >= run.stop]
        if not titles:
            break
        fullest = max(titles, key=lambda row: len({*row}))
        heads = [fullest[k] for k in run]
        below = [row[k] for row in titles[titles.index(fullest) + 1 :] for k in run]
        words = {text for text in heads if parse_rating(text) is None} - {*_WORDS["nothing"]}
        # Numbers over ratings name the columns where they count up.
        if not (_is_ascending(filter(None, heads)) or 2 * len(words) > len(run)) or any(
            parse_rating(text) is not None for text in below
        ):
            break
        # What it leaves open stands in another line; what stands alone below it is the corner.
        names = [max(column, key=bool) for column in zip(fullest, *titles, strict=False)]
        if _drop_empty(titles[-1]) == [titles[-1][0]]:
            names[0] = titles[-1][0]
        return [(records[n_titles - 1][0], tuple(names)), *records[n_titles:]], True
    return records, False


def _count_columns(rows: Sequence[Row]) -> int:
    """Return how many fields most rows have."""
    return Counter(map(len, rows)).most_common(1)[0][0] if rows else 0


def _counts_ratings(row: Row) -> bool:
    """Return whether a line begins with the number of its ratings, 99 being none."""
    numbers = list(map(parse_decimal, row))
    return numbers[0] == len(row) - 1 - numbers.count(99)


def _drop_empty(row: Row | None) -> Row:
    """Return the fields that are not empty; one of a line that cannot be cut."""
    return ["?"] if row is None else [text for text in row if text]


def _drop_empty_tail(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a header without empty names at its end."""
    while len(names) > 1 and not names[-1]:
        names = names[:-1]
    return names


def _find_header(
    options: ReadOptions, first: tuple[str, ...], rows: Sequence[Row], names_items: bool
) -> tuple[bool, tuple[str, ...]]:
    """Return whether the first line names columns, and the answers where it could be either."""
    if options.header is not Header.GUESS:
        return options.header is Header.YES, ()
    requested = {name for name in options.columns.values() if not _is_column_number(name)}
    keys = [key for key in map(_normalise_name, first) if key in _ROLE_OF]
    roles = {_ROLE_OF[key] for key in keys}
    has_numbers = any(map(_is_number_or_date, first))
    samples = sample_columns(_drop_empty_tail(first), rows, is_named=False)
    # Over a column of ratings stands its name, unless the first rating is a mistake; but then who
    # gave it and what it is of come again.
    recurs = any(head in sample.filled for head, sample in zip(first, samples, strict=False))
    has_name = (
        not recurs
        and len(rows) > 2
        and any(
            parse_rating(head) is None
            and len(sample.filled) > 2
            and None not in map(parse_rating, sample.filled)
            for head, sample in zip(first, samples, strict=False)
            if head
        )
    )
    is_wide = options.layout is not FileShape.ROWS and not options.columns and any(first[3:])
    either = ("header=yes", "header=no")
    rules: Sequence[tuple[object, bool, tuple[str, ...]]] = (  # when, header, what to ask
        (options.layout in MATRICES or requested & {*first} - {NO_COLUMN, ""}, True, ()),
        (names_items or (not first[0] and samples[0].counts_up), True, ()),
        (is_wide and not first[0] and not roles, False, ("layout=wide", "header=no")),
        (({"user", "item"} <= roles or len(keys) > 2) and not has_numbers, True, ()),
        (
            has_numbers or any(text.lower() in _WORDS["nothing"] for text in first),
            False,
            either * any(len(key) > 1 for key in keys),
        ),
        # In two columns of clicks one such word may be somebody's name.
        ((roles and len(first) > 2) or has_name, True, ()),
        (True, False, either),
    )
    return next((header, answers) for when, header, answers in rules if when)


def rewrite(form: str, text: str) -> str:
    """Return a text with a rating on each line; every line keeps its place.

    Args:
        form: "drawn", as a table with lines and marks around its rows; "blocks", below the number
            of a user or an item; or "records", a rating over several lines of "name: value".
        text: all lines.
    """

    def join_record(record: re.Match[str]) -> str:
        pairs = [line.partition(":")[::2] for line in record[0].split("\n")[:-1]]
        joined = json.dumps({name: value.strip() for name, value in pairs})
        return "\n" * (len(pairs) - 1) + f"{joined}\n"

    def join_block(block: re.Match[str]) -> str:
        return "\n" + re.sub("^(?=.)", f"{block[1]},", block[2], flags=re.MULTILINE)

    if form == "records":
        return re.sub(r"(?:.+\n)+", join_record, text)
    if form == "blocks":
        return re.sub(r"^(\d+):[ \t]*\n((?:.*[^:\n]\n|\n)*)", join_block, text, flags=re.MULTILINE)
    for pattern, replacement in KNOWLEDGE["clean"].items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


# Lines cut into columns ---------------------------------------------------------------------------

LONGEST = 16_000_000  # characters of a line
SHORT = 32  # bytes of texts that may be kept more than once
QUOTE = "with a quote that is not closed"
FIELD = f"with a field of more than {csv.field_size_limit():,} characters"


def read_text(
    source: Source, encoding: str, form: str = "", on_progress: ReadProgress | None = None
) -> Iterable[str]:
    """Return the text in pieces of whole lines, each ended by one newline; of a form in one piece.

    Raises:
        BadRatings: if it is no text of the encoding, or a line is too long.
    """
    blocks = _read_blocks(source, encoding, on_progress)
    return [rewrite(form, "".join(blocks))] if form else blocks


def _read_blocks(source: Source, encoding: str, on_progress: ReadProgress | None) -> Iterator[str]:
    decode = io.IncrementalNewlineDecoder(
        codecs.getincrementaldecoder(encoding)(), translate=True
    ).decode
    tail, n_lines, n_bytes, block = "", 0, 0, b"begin"
    with source.open() as file:
        while block:
            block = file.read(BLOCK_BYTES)
            try:
                text = decode(block, final=not block)
                text.encode()  # some encodings can write half a character
            except UnicodeError:
                name = "UTF-8" if encoding.startswith("utf-8") else encoding
                usual = "cp1252" if name == "UTF-8" else "utf-8"
                advice = "save it as UTF-8, or say its encoding"
                fault = Fault(f"not {name} text", advice, (f"encoding={usual}",))
                raise Refused(source.name, [fault]) from None
            if "\0" in text:
                raise BadRatings(f"{source.name} is not a text file: save the ratings as CSV")
            lines, newline, end = text.rpartition("\n")
            if newline:
                n_lines += text.count("\n")
                yield f"{tail}{lines}\n"
                tail = ""
            tail += end
            if len(tail) > LONGEST:
                raise BadRatings(
                    f"line {n_lines + 1} of {source.name} has more than {LONGEST:,} characters, the"
                    " limit"
                )
            n_bytes += len(block)
            check_cancelled()
            if on_progress:
                on_progress(n_bytes, source.size)
    if tail:
        yield f"{tail}\n"


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


def read_record(
    lines: Row, k: int, separator: str, width: int = 0, *, final: bool = True
) -> tuple[Row, int, str]:
    """Return the fields of the record that begins in line k, where the next begins, and its fault.

    Lines are joined only in a record that is well formed to its end; where a width is given, only
    in one of so many fields, and only where none of them could be a row of its own. The next record
    begins in line k again where the text ends too early, unless it is final.
    """
    try:
        record = next(read_records([lines[k]], separator), [])
        if not record or not record[-1].endswith("\n"):
            return record, k + 1, ""
    except csv.Error:
        return [], k + 1, FIELD
    try:
        record = next(read_records(lines[k:], separator, strict=True))
    except csv.Error as error:
        waits = "unexpected end" in str(error) and not final
        waits = waits and sum(map(len, lines[k:])) < BLOCK_BYTES
        return [], k if waits else k + 1, QUOTE
    end = k + 1 + sum(text.count("\n") for text in record)
    widths = [len(cut_line(line, separator) or ()) for line in lines[k + 1 : end]]
    if width and (width in widths or not _has_width(record, width)):
        return [], k + 1, QUOTE
    return record, end, ""


def cut_line(line: str, separator: str) -> tuple[str, ...] | None:
    """Return the fields of one line, trimmed; None if a quote stays open or a field is too long."""
    fields, _, fault = read_record([line], 0, separator)
    return None if fault else tuple(map(str.strip, fields))


def read_first_records(lines: Sequence[tuple[int, str]], separator: str) -> list[Record]:
    """Return the records of the first lines, which come with their numbers."""
    texts = [line for _, line in lines]
    records: list[Record] = []
    k = 0
    while k < len(lines):  # a long question or answer of a survey goes over several lines
        fields, end, fault = read_record(texts, k, separator)
        records.append((lines[k][0], None if fault else tuple(map(str.strip, fields))))
        k = end
    return records


def _has_width(record: Row, width: int) -> bool:
    """Return whether it has a field for each column, and nothing but empty ones beyond."""
    return len(record) >= width and not "".join(record[width:]).strip()


def _may_exceed(text: str, length: int) -> bool:
    """Return whether a line may be longer; it is not where each half as many characters end one."""
    half = length // 2
    return not all("\n" in text[k : k + half] for k in range(0, len(text) - half, half))


def is_distinct(column: Any) -> bool:
    """Return whether a dictionary of pyarrow is of short texts that hardly ever come twice."""
    if not pa.types.is_dictionary(column.type):
        return False
    n_distinct, n_bytes = len(column.dictionary), column.dictionary.nbytes
    return bool(n_distinct > 0.9 * len(column) and n_bytes < SHORT * len(column))


@dataclass
class Cutter:
    """Cuts a text into columns and counts what becomes of its lines.

    Attributes:
        skip: lines before any row.
        lines, continued: how many lines there are, and continue the record of another.
        broken: for each reason how many lines cannot be cut, and the first of them.
        files: of a folder, the first row of each file and its name.
    """

    skip: int
    lines: int = field(default=0, init=False)
    continued: int = field(default=0, init=False)
    broken: dict[str, tuple[int, str]] = field(default_factory=dict, init=False)
    files: list[tuple[int, str]] = field(default_factory=list, init=False)

    @property
    def unusable(self) -> int:
        """How many lines cannot be cut."""
        return sum(count for count, _ in self.broken.values())

    def iterate_batches(self, chunks: Iterable[str]) -> Iterator[Batch]:
        """Yield columns of text, piece by piece; blank and unusable lines are only counted."""
        tail = ""
        for chunk in chain(chunks, [""]):
            text = tail + chunk
            while self.skip and text:
                text = text[text.index("\n") + 1 :]
                self.lines, self.skip = self.lines + 1, self.skip - 1
            tail, count = "", text.count("\n")
            if text and (columns := self._cut_quickly(text, count)):
                yield columns, self.lines + np.arange(1, count + 1, dtype=np.int32)
            elif text:
                batch, tail = self._cut_carefully(text.split("\n")[:-1], not chunk)
                if batch[0]:
                    yield batch
            self.lines += count - tail.count("\n")

    def _cut_quickly(self, text: str, count: int) -> list[Any] | None:  # noqa: ARG002
        """Cut by pyarrow; return None where that might see other rows than the careful way does."""
        return None

    def _cut_carefully(self, lines: list[str], final: bool) -> tuple[Batch, str]:
        """Cut line by line; return the end of the text as well, where that must wait for more."""
        rows: list[Sequence[str | None]] = []
        numbers: list[int] = []
        end = 0
        while end < len(lines):
            k = end
            records, end, fault = self._read_rows(lines, k, final)
            if end == k:
                break
            rows += records
            numbers += [self.lines + k + 1] * len(records)
            self.continued += end - k - 1
            if fault:
                example = f"'{lines[k].strip()[:40]}' in line {self.lines + k + 1}"
                count, example = self.broken.get(fault, (0, example))
                self.broken[fault] = count + 1, example
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        return (columns, np.array(numbers, dtype=np.int32)), "".join(
            f"{line}\n" for line in lines[end:]
        )

    def _read_rows(self, lines: list[str], k: int, final: bool) -> ReadRecord:
        """Return the rows that begin in line k, where the next begins, and what is wrong.

        The next begins in line k again where the text ends too early, unless it is final.
        """
        raise NotImplementedError


@dataclass
class Fields(Cutter):
    """Rows of `width` fields, of which those at the positions `used` are read, with each distinct
    text kept once; not of those at `plain`, whose texts are hardly ever the same."""

    separator: str
    width: int
    used: Sequence[int]
    plain: set[int] = field(default_factory=set)

    def _cut_quickly(self, text: str, count: int) -> list[Any] | None:
        several = len(self.separator) > 1
        mark = "\x1f" if several else self.separator  # between units
        odd = rf'(?:^|{re.escape(mark)}) +"' if mark != " " else r"^ |  | $"
        if (
            not mark.isascii()
            or text.startswith("\ufeff")  # pyarrow would take it for a mark of the encoding
            or (several and ('"' in text or mark in text))
            or ((mark == " " or ' "' in text) and re.search(odd, text, re.MULTILINE))
            or _may_exceed(text, csv.field_size_limit())
        ):
            return None
        # A quote left open takes the empty row at the end.
        content = f"{text.replace(self.separator, mark)}{mark * (self.width - 1)}\n".encode()
        names = [str(k) for k in range(self.width)]
        kinds = dict.fromkeys(names, pa.dictionary(pa.int32(), pa.string()))
        kinds |= dict.fromkeys(map(str, self.plain), pa.string())
        used = [names[k] for k in dict.fromkeys(self.used)]
        try:
            table = arrow_csv.read_csv(
                io.BytesIO(content),
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=len(content), column_names=names
                ),
                arrow_csv.ParseOptions(
                    delimiter=mark, ignore_empty_lines=False, newlines_in_values=True
                ),
                arrow_csv.ConvertOptions(include_columns=used, column_types=kinds),
            )
        except pa.ArrowInvalid:
            return None
        columns = [table[names[k]].combine_chunks().slice(0, count) for k in self.used]
        firsts = compute.utf8_trim_whitespace(columns[0].cast(pa.string()))
        # Of spreadsheets, some lines may hold separators alone.
        if len(table) != count + 1 or compute.any(compute.equal(firsts, "")).as_py():
            return None
        self.plain |= {
            k for k, column in zip(self.used, columns, strict=True) if is_distinct(column)
        }
        return columns

    def _read_rows(self, lines: list[str], k: int, final: bool) -> ReadRecord:
        record, end, fault = read_record(lines, k, self.separator, self.width, final=final)
        if fault or not "".join(record).strip():
            return [], end, fault
        if not _has_width(record, self.width):
            return [], end, f"with another number of columns than {self.width}"
        row = [record[index] for index in self.used]
        return ([], end, QUOTE) if "\n" in "".join(row) else ([row], end, "")


@dataclass
class Adjacency(Cutter):
    """Lines of a user and then the items."""

    separator: str

    def _read_rows(self, lines: list[str], k: int, final: bool) -> ReadRecord:  # noqa: ARG002
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
    """Return the object in a line, numbers as the text they are; None where it is no such object,
    or has a key twice, or half a character."""
    try:
        parsed = _DECODER.decode(line)
        if "\\u" in line:
            json.dumps(parsed, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def format_plain_value(value: object) -> str | None:
    """Return a JSON value as the text of a field; None for a list or an object."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else None


@dataclass
class Objects(Cutter):
    """JSON objects, one a line, whose values under `keys` are read: user, item and further ones."""

    keys: Row

    def _cut_quickly(self, text: str, count: int) -> list[Any] | None:
        is_plain = text.startswith("{") and text.endswith("}\n") and text.count("}\n{") + 1 >= count
        if not is_plain or _may_exceed(text, _DEEPEST):
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
                arrow_json.ParseOptions(pa.schema(schema), unexpected_field_behavior="ignore"),
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

    def _read_rows(self, lines: list[str], k: int, final: bool) -> ReadRecord:  # noqa: ARG002
        if not lines[k].strip():
            return [], k + 1, ""
        values = parse_json_object(lines[k])
        row = [format_plain_value((values or {}).get(key)) for key in self.keys]
        fault = values is None or None in row
        return [row] * (not fault), k + 1, "without a JSON object of plain values" * fault
