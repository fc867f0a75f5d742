"""Readings of a table: every one that its columns allow, how likely each is, and which is taken.

`propose` lists readings, `score` adds weighted features of a sample of rows, and `decide` takes the
best reading if its user is named and no other comes near, or else offers the best ones. Nothing
else decides how a file is read. An option of reading removes the proposals that disagree with it.
"""

from __future__ import annotations

import enum
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, pairwise, product
from typing import Any

import numpy as np

from dpmc_core.arrays import Bools, Floats, Ints, LateModule
from dpmc_core.errors import BadRatings
from dpmc_core.ratings import LINE_NUMBER, OTHERS, ColumnRoles
from dpmc_data.public_sets import PublicSet
from dpmc_data.source import (
    COLUMNS,
    NO_COLUMN,
    SEPARATORS,
    Duplicates,
    Fault,
    FileShape,
    ReadOptions,
    Refused,
)
from dpmc_data.text import (
    KNOWLEDGE,
    MISSING,
    Row,
    normalise_name,
    parse_dates,
    parse_decimal,
    parse_leading_number,
    parse_rating,
)

pa = LateModule("pyarrow")

_NAMES = dict(KNOWLEDGE["roles"])
_NAMES["user"] += "".join(f" {name} {name}id" for name in _NAMES.pop("person").split()) + " u"
ROLE_OF = {name: role for role, names in _NAMES.items() for name in names.split()}
_WORDS = KNOWLEDGE["words"]
_HINTS = {role: {*words.split()} for role, words in KNOWLEDGE["hints"].items()}
_NO_RATINGS = MISSING | {"99", "999", "-1", "-9", "-99"}  # with numbers that often are none
MATRICES = (FileShape.WIDE, FileShape.TRANSPOSED)
OFFERS = 4  # readings to choose from at most
# By which a reading that is taken must be ahead of every other one. Of 221 real files a margin of 0
# took one wrong reading, and this one none.
MARGIN = 0.5
_HOPELESS = 4.0  # so far behind the best a reading is not offered
_FLOOR = -0.5  # what a reading must have for it to be offered
_CANDIDATES = 5  # columns that are tried in each role; the others cannot win
_FEW = 21  # values of a scale at most
_EVENTS = 4  # words of a column that may say what kind of row each is
_ADVICE = {  # where a column with the role is missing
    "user": "say which column names the person; a file of one person's ratings has none",
    "item": "say which column names what is rated",
    "rating": "say which does, or that each row is a click",
}


class Format(enum.Enum):
    """What a file is made of, in words."""

    FIELDS = "between columns"
    JSON = "JSON lines"
    PARQUET = "Parquet"


@dataclass(frozen=True)
class Layout:
    """A reading of a file: how it is cut and which column holds what.

    Attributes:
        file: the name of the file.
        columns: names, or 1, 2, ... where there is no header.
        encoding: of text; "" where there is none.
        format: what the file is made of.
        form: in which `rewrite` makes a line of each row; "" if a row is one.
        separator: what lies between fields.
        quote: what stands around fields; "" where a quote is a letter.
        width: fields of a row, of which the last ones may have no name and be empty.
        skip: lines before the first row.
        header: whether one of these names the columns.
        rows: the first few, as text.
        shape: what a row holds.
        roles: the position from 0 of each; without a rating each row is a click.
        ratings: the columns of a matrix that hold them.
        missing: the number for "not rated".
        event: the word of the rows that count, in the column with this role.
        guessed: roles that neither a name nor a person gave to their columns.
        faults: what nobody can guess, beside the range.
        others: options of other readings, where this one is taken.
        known: the public set it is.
    """

    file: str
    columns: tuple[str, ...]
    encoding: str = ""
    format: Format = Format.FIELDS
    form: str = ""
    separator: str = ","
    quote: str = '"'
    width: int = 0
    skip: int = 0
    header: bool = False
    rows: tuple[Row, ...] = ()
    shape: FileShape = FileShape.ROWS
    roles: Mapping[str, int] = field(default_factory=dict)
    ratings: range = range(0)
    missing: float = math.nan
    event: str = ""
    guessed: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    others: tuple[str, ...] = ()
    known: PublicSet | None = None

    @property
    def cut(self) -> tuple[Any, ...]:
        """How its lines are cut into columns."""
        return self.separator, self.quote, self.skip, self.header

    @property
    def clicks(self) -> bool:
        """Whether every row is a click."""
        return not self.is_matrix and "rating" not in self.roles

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
        return ("item", "user") if self.shape is FileShape.TRANSPOSED else ("user", "item")

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
            used = {lines: LINE_NUMBER, **used, columns: span}
        return ColumnRoles(
            tuple((role, used[role]) for role in COLUMNS if role in used), self.guessed
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

    @property
    def spelled(self) -> dict[str, Any]:
        """The options of reading that say the same, the most telling first."""
        if self.shape is FileShape.ADJACENCY:
            return {"layout": "adjacency"}
        roles = {role: k + 1 for role, k in self.roles.items() if role in COLUMNS[:3]}
        header = {"header": "yes" if self.header else "no"}
        if self.is_matrix:
            lines, columns = self.axes
            span = f"{self.ratings.start + 1}:{self.ratings.stop}"
            spelled: dict[str, Any] = {"layout": self.shape.value}
            return spelled | header | {lines: roles.get(lines, NO_COLUMN), columns: span}
        spelled = roles | ({"rating": NO_COLUMN} if self.clicks else {})
        if "event" in self.roles:
            spelled["event"] = f"{self.roles['event'] + 1}:{self.event}"
        return spelled | header | {"layout": "rows", "separator": self.separator}

    def allows(self, options: Mapping[str, Any]) -> bool:
        """Whether options of reading that its `spelled` has say the same."""
        spelled = self.spelled
        return all(spelled.get(name, value) == value for name, value in options.items())


# Columns ------------------------------------------------------------------------------------------
#
# A fit is a score from about -1 to 1. Its numbers are as rough as the weights in `FEATURES`: they
# say what counts more, and any limit at which a column changes its kind lies far from usual files.


class Column:
    """A column of a sample of rows, and what it may hold.

    Attributes:
        index: its position from 0.
        name: its name, or its number from 1 where there is no header.
        key: the name as names are compared; "" where there is no header.
        role: what the name says that it holds.
        cells: its texts.
    """

    def __init__(self, index: int, name: str, cells: Sequence[str], is_named: bool) -> None:
        self.index, self.name, self.cells = index, name, cells
        self.key = normalise_name(name) if is_named else ""
        self.role = ROLE_OF.get(self.key)
        self.is_named = is_named
        self.is_index = "__index_level_" in name  # of pandas
        self._fits: dict[str, float] = {}

    @cached_property
    def _coded(self) -> tuple[list[str], Ints]:
        """The different texts in the order of their first rows, and each cell's position there."""
        order: dict[str, int] = {}
        codes = [order.setdefault(text, len(order)) for text in self.cells]
        return [*order], np.array(codes, dtype=np.int64)

    @property
    def codes(self) -> Ints:
        """A number for each cell, equal where the texts are."""
        return self._coded[1]

    @property
    def distinct(self) -> list[str]:
        """The different texts."""
        return self._coded[0]

    @cached_property
    def filled(self) -> list[str]:
        """The different texts that are not empty."""
        return [text for text in self.distinct if text]

    @cached_property
    def n_filled(self) -> int:
        """How many cells are not empty."""
        return sum(map(bool, self.cells))

    def spread(self, values: Iterable[Any]) -> Floats:
        """Return for each cell the number that belongs to its text, NaN for None."""
        return np.array([*values], dtype=np.float64)[self.codes]

    @cached_property
    def numbers(self) -> list[float | None]:
        """The number of each distinct text."""
        return [*map(parse_decimal, self.distinct)]

    @cached_property
    def words(self) -> set[str]:
        """The texts, in small letters, that are neither numbers nor stand for 'not rated'."""
        return {
            text.lower()
            for text in self.distinct
            if text.lower() not in MISSING and parse_leading_number(text) is None
        }

    @cached_property
    def rated(self) -> Floats:
        """The rating in each cell, NaN where there is none; all words are of one scale."""
        values = [*map(parse_leading_number, self.distinct)]
        words = self.words
        if words:
            scales = [s for s in KNOWLEDGE["scales"].values() if tells_apart(s, words)]
            best: Mapping[str, float] = max(scales, key=lambda s: len(words & {*s}), default={})
            # Half of the words must be on the scale, or they are no ratings.
            if 2 * len(words & {*best}) >= len(words):
                values = [
                    best.get(text.lower()) if value is None else value
                    for text, value in zip(self.distinct, values, strict=True)
                ]
        return self.spread(values)

    @cached_property
    def is_missing(self) -> Bools:
        """Which cells are empty or hold a word for 'not rated'."""
        return np.array([text.lower() in MISSING for text in self.distinct], dtype=bool)[self.codes]

    def name_fit(self, role: str) -> float:
        """Return how well the name fits a role, from -1 to 1."""
        if role not in self._fits:
            self._fits[role] = self._rate_name(role)
        return self._fits[role]

    def says_other_than(self, role: str) -> bool:
        """Whether the name says something else than a role."""
        return self.role not in (None, role) or self.is_row_number

    def _rate_name(self, role: str) -> float:
        """Rate how well the name fits a role, from -1 to 1; see `name_fit`.

        A known name is certain unless it is one letter; a word within the name is only a hint.
        """
        if role in ("user", "item") and self.key in _WORDS["about_people"]:
            return -0.6  # an age or a sex is neither
        if self.role:
            sure = 1.0 if len(self.key) > 1 else 0.4
            return sure if self.role == role else -sure
        words = {
            w.lower()
            for w in re.findall(r"[^\W\d_]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", self.name))
        }
        if words & {"userid", "user"} and role != "user" and "id" in self.name.lower():
            return -0.5  # a user's id, whatever other hints the name holds
        fits = {name: bool(words & hints) for name, hints in _HINTS.items()}
        if fits.get(role):
            return 0.4
        return -0.3 * any(fits.values())

    @cached_property
    def holds_dates(self) -> bool:
        """Whether it holds dates and no numbers."""
        if not self.filled or any(number is not None for number in self.numbers):
            return False
        # Parsing is slow: three texts must look like dates before fifty are parsed.
        some = self.filled[:50]
        if not all(re.search(r"\d[-/.: ]|[a-z]+ \d", text) for text in some[:3]):
            return False
        return None not in parse_dates(pa.array(some, pa.string()))

    @cached_property
    def holds_times(self) -> bool:
        """Whether it holds dates, or seconds that many rows differ in."""
        if self.holds_dates:
            return True
        numbers = [number for number in self.numbers if number is not None]
        many = len(self.filled) > 0.2 * self.n_filled
        # Seconds or milliseconds of the years 1979 to 2128.
        seconds = all(3e8 <= number < 5e9 or 3e11 <= number < 5e12 for number in numbers)
        return many and len(numbers) == len(self.filled) > 0 and seconds

    @cached_property
    def is_row_number(self) -> bool:
        """Whether it is called like a number of the row, or counts up without a name."""
        if not self.is_named:
            return False
        if not self.key:
            return self.counts_up or not self.filled
        index = re.match(KNOWLEDGE["patterns"]["index"], self.name)
        return self.key in _WORDS["row_numbers"] or index is not None

    @cached_property
    def counts_up(self) -> bool:
        """Whether it holds at least three numbers, each larger than the last."""
        numbers = self.numbers
        if not 2 < len(numbers) == len(self.cells) or None in numbers:
            return False
        return all(a < b for a, b in pairwise(numbers))  # type: ignore[operator]

    @cached_property
    def id_fit(self) -> float:
        """How well the texts can be names of users or items, from -1 to 0."""
        n = len(self.cells)
        if not self.filled or self.holds_dates:
            return -1.0
        numbers = [number for number in self.numbers if number is not None]
        if any(number % 1 for number in numbers if math.isfinite(number)):
            return -1.0
        fit = -(1 - self.n_filled / n)
        # Long texts are reviews, and few different ones are categories.
        if sum(map(len, self.filled)) > 45 * len(self.filled):
            fit -= 0.7
        if len(self.filled) == 1 and n > 4:
            fit -= 1.0
        elif len(self.filled) <= 3 and n >= 20:
            fit -= 0.6
        if self.holds_times and self.role not in ("user", "item"):
            fit -= 0.5
        counts = self.counts_up and n > 4 and self.role not in ("user", "item")
        if self.is_row_number or counts:
            fit -= 0.5
        return max(fit, -1.0)

    @cached_property
    def can_rate(self) -> bool:
        """Whether half of what is not missing can be a rating."""
        n_present = np.count_nonzero(~self.is_missing)
        n_rated = np.count_nonzero(~self.is_missing & np.isfinite(self.rated))
        return not self.is_index and not self.holds_dates and bool(n_rated > 0.5 * n_present)

    @cached_property
    def rating_fit(self) -> float:
        """How well the texts can be ratings, from -1 to 1."""
        n_values = len(self.filled)
        if self.holds_times or (self.counts_up and n_values > 5) or self.is_row_number:
            return -1.0
        if n_values == 1:
            return -0.5 if len(self.cells) > 4 else 0.5
        if all("." in text and len(text) > 4 for text in self.filled) and n_values > _FEW:
            return -0.3  # many decimals: a measurement or a price
        return 1.0 if n_values <= _FEW else 0.0  # ratings have a scale of few values

    def equals(self, other: Column) -> bool:
        """Whether each value stands beside one value of another column, and the reverse."""
        return self is other or (
            len(self.distinct) == len(other.distinct) == count_pairs(self, other)
        )

    def follows(self, other: Column) -> bool:
        """Whether it says one thing of each of the repeated values of another column."""
        n_values = len(other.distinct)
        repeats = len(other.cells) - n_values >= max(20, n_values)
        return repeats and len(self.distinct) > 1 and count_pairs(self, other) == n_values


def tells_apart(scale: Mapping[str, float], words: Iterable[str]) -> bool:
    """Return whether no two of some words are one number on a scale."""
    numbers = [scale[word] for word in {*words} if word in scale]
    return len({*numbers}) == len(numbers)


def count_pairs(*columns: Column) -> int:
    """Return how many different rows some columns have."""
    return count_distinct(columns, slice(None))


def count_distinct(columns: Sequence[Column], mask: Any) -> int:
    """Return how many different rows some columns have in a part of the rows."""
    # A row becomes one number, whose digits are the codes of its columns.
    codes = columns[0].codes[mask]
    for column in columns[1:]:
        codes = codes * len(column.distinct) + column.codes[mask]
    return 1 + int(np.count_nonzero(np.diff(np.sort(codes)))) if len(codes) else 0


# Samples ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowSample:
    """Some rows of a file, cut in one way.

    Attributes:
        layout: how they are cut; no roles yet.
        rows: as text.
        cut: how likely the rows are cut so, in units of a score.
        lost: rows that cannot be cut so.
        low, high: the public range; infinite where it is not known.
        repeats: whether pairs of user and item may come again.
        counts: of different rows of some columns, once they are known.
    """

    layout: Layout
    rows: Sequence[Row]
    cut: float = 0.0
    lost: int = 0
    low: float = -math.inf
    high: float = math.inf
    repeats: bool = False
    counts: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def under(self, options: ReadOptions) -> RowSample:
        """Return the sample with what a person says of its ratings."""
        ends: dict[str, Any] = {}
        if options.low is not None:
            ends = {"low": options.low, "high": options.high}
        repeats = options.duplicates is not Duplicates.ERROR
        return replace(self, repeats=repeats, counts={}, **ends)

    @cached_property
    def columns(self) -> list[Column]:
        """Its columns."""
        names, is_named = self.layout.columns, self.layout.is_named
        width = len(names)
        padded = [(*row[:width], *[""] * (width - len(row))) for row in self.rows]
        cells = [*zip(*padded, strict=True)] or [()] * width
        return [Column(k, name, cells[k], is_named) for k, name in enumerate(names)]

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return len(self.rows)

    def has_odd_line(self, ratings: range) -> bool:
        """Whether a line at an end of a matrix lacks what nearly every other line has.

        It may hold the points that are possible, or counts, and is nobody's.
        """
        outer = [c for c in self.columns if c.index not in ratings and c.n_filled > 1]
        # Filled in nearly every line, of ten at least. Of these, two at each end are looked at.
        usual = [c for c in outer if c.n_filled >= 0.9 * self.n_rows and self.n_rows > 9]
        return any(not c.cells[k] for c in usual for k in (0, 1, -2, -1))

    def is_usable(self, column: Column) -> Bools:
        """Return which cells of a column hold a rating of the range."""
        ratings = column.rated
        with np.errstate(invalid="ignore"):  # a cell that holds no number is NaN, so not usable
            return ~column.is_missing & (ratings >= self.low) & (ratings <= self.high)

    @cached_property
    def evidence(self) -> float:
        """How much counts of so few rows say, from 0 to 1: all that they can from 30 rows on."""
        return min(1.0, self.n_rows / 30)


# Proposals ----------------------------------------------------------------------------------------


def propose(sample: RowSample, options: ReadOptions) -> Iterator[Layout]:
    """Yield every reading of a sample that types and options allow."""
    layout, requested = sample.layout, options.columns
    if layout.shape is not FileShape.ROWS:
        yield layout  # the cut says all
        return
    if options.layout in (FileShape.GUESS, FileShape.ROWS):
        yield from _propose_rows(sample, options, requested)
    if options.layout in (FileShape.GUESS, *MATRICES) and not {"rating", "event"} & {*requested}:
        yield from _propose_matrices(sample, options, requested)


def _propose_rows(
    sample: RowSample, options: ReadOptions, requested: Mapping[str, str | int]
) -> Iterator[Layout]:
    """Yield readings with one rating per row, for each choice of the columns that may be used."""
    layout = sample.layout
    able = [c for c in sample.columns if not (c.is_index or c.holds_dates)]
    roles_to_fill = ("user", "item", "rating")
    candidates = (_list_candidates(sample, role, requested, able) for role in roles_to_fill)
    for user, item, rating in product(*candidates):
        if user is None or item is None:
            continue
        used = [user, item] if rating is None else [user, item, rating]
        if len({*used}) < len(used):
            continue  # one column cannot have two roles
        roles = {"user": user.index, "item": item.index}
        if rating is not None:
            roles["rating"] = rating.index
        time = _choose_time(sample, used, requested)
        if time is not None:
            roles["time"] = time
        if options.event is None:
            yield replace(layout, roles=roles)
            for k, word in _list_events(sample, used):
                yield replace(layout, roles={**roles, "event": k}, event=word)
        else:
            event, _, word = options.event.rpartition(":")
            roles["event"] = find_column(layout, "event", event)
            yield replace(layout, roles=roles, event=word)


def _list_candidates(
    sample: RowSample, role: str, requested: Mapping[str, str | int], able: Sequence[Column]
) -> list[Column | None]:
    """Return the columns that are tried in a role, the best first, and None for no column.

    Args:
        sample: the rows.
        role: the role.
        requested: the columns that a person named, by role.
        able: the columns that may hold ids; ratings are sought in all columns.
    """
    columns = sample.columns
    if role in requested:
        if requested[role] == NO_COLUMN:
            return [None]
        return [columns[find_column(sample.layout, role, requested[role])]]
    if role == "rating":
        fits = {c: 1.5 * c.name_fit(role) + c.rating_fit for c in columns if c.can_rate}
        # Where nothing else can rate, a column of that name holds words to be explained.
        fits |= {c: 0.0 for c in columns if c.role == role and c not in fits}
    else:
        fits = {c: 2 * c.name_fit(role) + 3 * c.id_fit for c in able}
    return [*sorted(fits, key=lambda c: -fits[c])[:_CANDIDATES], None]


def _list_events(sample: RowSample, used: Sequence[Column]) -> Iterator[tuple[int, str]]:
    """Yield the position and each word of unused columns that may say what kind a row is."""
    for column in sample.columns:
        words = column.filled
        is_event = column not in used and 1 < len(words) <= _EVENTS
        # Each word comes often, and a name, if there is one, says so. A colon would be read as the
        # end of the column's name in the option `event`.
        is_event &= 5 * len(words) <= sample.n_rows
        is_event &= not column.key or column.name_fit("event") > 0
        if is_event and all(":" not in w and parse_decimal(w) is None for w in words):
            yield from ((column.index, word) for word in words)


def _choose_time(
    sample: RowSample, used: Sequence[Column], requested: Mapping[str, str | int]
) -> int | None:
    """Return the position of the column of times; None without one.

    Without names, only a fourth and last column of many large numbers is taken: the usual order.
    """
    if "time" in requested:
        name = requested["time"]
        return None if name == NO_COLUMN else find_column(sample.layout, "time", name)
    last = sample.columns[-1]
    if not sample.layout.is_named and last.index == 3 and last not in used:
        numbers = [number for number in last.numbers if number is not None]
        many = len(last.distinct) > 0.5 * sample.n_rows
        # Numbers below 10 may be a second rating.
        if many and len(numbers) == len(last.distinct) and max(numbers) >= 10:
            return 3
    fits = {  # a few values in many rows are no times
        c: c.name_fit("time") + 0.5 * c.holds_times - 2 * (len(c.distinct) <= 4 < sample.n_rows)
        for c in sample.columns
        if c not in used and (c.role == "time" or c.holds_times) and c.role in (None, "time")
    }
    best = max(fits, key=lambda c: fits[c], default=None)
    return None if best is None or fits[best] <= 0 else best.index


def _propose_matrices(
    sample: RowSample, options: ReadOptions, requested: Mapping[str, str | int]
) -> Iterator[Layout]:
    """Yield readings with all ratings of a user or an item in one row.

    Args:
        sample: the rows.
        options: the options of reading.
        requested: the columns that a person named, by role; those of the ratings as FIRST:LAST,
            counted from 1, under the role that is named across the columns.
    """
    columns = sample.columns
    shapes = MATRICES if options.layout is FileShape.GUESS else (options.layout,)
    for shape in shapes:
        layout = replace(sample.layout, shape=shape)
        lines, across = layout.axes
        span = re.fullmatch(r"(\d{1,9}):(\d{1,9})", str(requested.get(across, "")))
        if span:
            runs = {range(int(span[1]) - 1, int(span[2]))}
        elif across in requested:
            continue  # one column names them all, so it is a table of rows
        else:
            runs = _find_runs(sample)
            # With a header all columns but the first may hold ratings of any kind. Of two columns
            # one is left, which makes a matrix only if a person says so.
            is_asked = options.layout in MATRICES and not runs
            if sample.layout.is_named and (len(columns) > 2 or is_asked):
                runs |= {range(1, len(columns))}
        for run in runs:
            if not 0 <= run.start < run.stop <= len(columns):
                continue  # a person may ask for columns that the file does not have
            outer = [c for c in columns if c.index not in run and not c.is_index]
            for column in _list_candidates(sample, lines, requested, outer):
                if column is None or column.index not in run:
                    roles = {} if column is None else {lines: column.index}
                    yield replace(layout, roles=roles, ratings=run)


def _find_runs(sample: RowSample) -> set[range]:
    """Return the runs of columns that may be the ratings of a matrix.

    The longest run of columns with ratings in one range is a candidate, and so is the longest with
    ratings in any. Each is also tried without what may stand at its ends: the ids, what a file says
    about people, and the time.
    """
    columns = sample.columns
    ends: dict[int, tuple[float, float]] = {}
    rating: set[int] = set()
    texts = Counter(
        text for c in columns for text in c.filled if text.lower() not in _NO_RATINGS
        and parse_rating(text) is None
    )  # fmt: skip
    # A text that five columns share may stand for "not rated"; a file has one or two of these.
    marks = {text for text, count in texts.most_common(2) if count >= 5}
    for c in columns:
        odd = [t for t in c.filled if t not in marks and t.lower() not in _NO_RATINGS
               and parse_rating(t) is None]  # fmt: skip
        n_odd = sum(map({*odd}.__contains__, c.cells)) if odd else 0
        if (
            not c.is_index
            and n_odd <= 0.1 * len(c.cells)
            and not (c.counts_up and len(c.cells) > 5)
        ):
            rating.add(c.index)
            numbers = [
                number
                for t in c.filled
                if t.lower() not in _NO_RATINGS and (number := parse_rating(t)) is not None
            ]
            if numbers:
                ends[c.index] = (min(numbers), max(numbers))
    if not ends:
        return set()
    n_other = len(ends) // 4  # so many may be of another range
    low = sorted(low for low, _ in ends.values())[n_other]
    high = sorted(high for _, high in ends.values())[-1 - n_other]
    margin = max(high - low, 2) / 2
    alike = {
        k
        for k in rating
        if k not in ends or (low - margin <= ends[k][0] and ends[k][1] <= high + margin)
    }
    runs = set()
    for kind in (alike, rating):
        groups = [[*g] for is_in, g in groupby(range(len(columns)), kind.__contains__) if is_in]
        if groups:
            longest = max(groups, key=len)
            runs.add(range(longest[0], longest[-1] + 1))
    for run in [*runs]:
        outer = [k for k in run if columns[k].key not in _WORDS["about_people"]]
        if outer:
            runs.add(range(outer[0], outer[-1] + 1))
        first, last = columns[run.start], columns[run.stop - 1]
        if first.role in ("user", "item") or (sample.layout.is_named and not first.key):
            runs.add(range(run.start + 1, run.stop))
        if last.role == "time":
            runs.add(range(run.start, run.stop - 1))
    return {run for run in runs if len(run) >= 2}


def find_column(layout: Layout, role: str, column: str | int) -> int:
    """Return the position from 0 of a column by its name or its number from 1. Raises Refused."""
    text, names = str(column).strip(), layout.columns
    if layout.is_named and text in names and not isinstance(column, int):
        return names.index(text)
    problem = f"no column '{text[:60]}' for the {role}; "
    if is_column_number(text):
        if 1 <= int(text) <= len(names):
            return int(text) - 1
        problem = f"the columns are 1..{len(names)}, so {role} = {text} is none"
    elif layout.is_named:
        problem += f"its columns are {', '.join(names[:20])}"
    else:
        problem += f"there is no header line: give its number, 1..{len(names)}"
    raise Refused(layout.file, [Fault(problem)])


def is_column_number(column: str | int | None) -> bool:
    """Return whether a column is given by its number."""
    return re.fullmatch(r"\d{1,9}", str(column), re.ASCII) is not None


# Scores -------------------------------------------------------------------------------------------


class Evidence:
    """What the rows of a sample say about one reading; each property is a feature."""

    def __init__(self, layout: Layout, sample: RowSample) -> None:
        self.layout, self.sample = layout, sample
        self.role = {role: sample.columns[k] for role, k in layout.roles.items()}
        self.mask = np.ones(sample.n_rows, dtype=bool)
        if "event" in self.role:
            self.mask = np.array([text == layout.event for text in self.role["event"].cells])

    def _count(self, *roles: str) -> int:
        """Return how many different rows the columns of some roles have; counted once a sample."""
        event = self.layout.roles.get("event", -1), self.layout.event
        key = (*(self.layout.roles[role] for role in roles), *event)
        if key not in self.sample.counts:
            columns = [self.role[role] for role in roles]
            self.sample.counts[key] = count_distinct(columns, self.mask)
        return self.sample.counts[key]

    def fit_name(self, role: str) -> float:
        """Return how well the name of the column fits its role; 0 where no column has the role."""
        return self.role[role].name_fit(role) if role in self.role else 0.0

    def fit_texts(self, role: str) -> float:
        """Return how well the column's texts serve as ids; 0 where no column has the role."""
        return self.role[role].id_fit if role in self.role else 0.0

    def scale(self) -> float:
        """One scale of few values; of a matrix the same one in its columns."""
        if self.layout.is_matrix:
            columns = [self.sample.columns[k] for k in self.layout.ratings]
            some = [c for c in columns if c.filled]
            ends = [
                (np.nanmin(c.rated), np.nanmax(c.rated)) for c in some if np.isfinite(c.rated).any()
            ]
            if not ends:
                return -1.0
            low, high = np.median(ends, axis=0)
            margin = max(high - low, 2) / 2
            alike = sum(low - margin <= a and b <= high + margin for a, b in ends)
            n_words = sum(len(c.words) > 0.5 * len(c.filled) for c in some)
            # Words in some columns and numbers in others are no scale.
            alike -= min(n_words, len(some) - n_words)
            # So few columns with so many values are no ratings of one scale.
            if len(columns) < 5 and len({text for c in some for text in c.filled}) > 1.5 * _FEW:
                return -1.0
            named = sum(c.key in _WORDS["about_people"] for c in columns)
            named += 0.5 * sum(c.role == "time" for c in columns)
            return float(2 * alike / max(len(some), 1) - 1 - named)
        rating = self.role.get("rating")
        if rating is None:
            return 0.0
        is_one = "event" in self.role and len(np.unique(rating.codes[self.mask])) == 1
        return -0.5 if is_one else rating.rating_fit

    def several(self) -> float:
        """Whether people have several ratings, and items too; of a matrix one line each."""
        if self.layout.is_matrix:
            line = next(iter(self.role.values()), None)
            if line is None:
                return 0.0
            is_each = len(line.distinct) > 0.95 * len(line.cells)
            # Numbers that count up may be mere row numbers.
            fit = -1.0 if not is_each else 0.4 if line.counts_up else 1.0
            return fit * min(1.0, self.sample.n_rows / 10)
        if self.layout.shape is not FileShape.ROWS:
            return 0.0
        n = np.count_nonzero(self.mask)
        n_users, n_items = self._count("user"), self._count("item")
        # From 0 to 1, as half to nine tenths of the rows are of a new user, or of a new item. Items
        # that come once are less strange than users.
        users_once, items_once = np.clip(
            (np.array([n_users, n_items]) / max(n, 1) - 0.5) / 0.4, 0, 1
        )
        return -float(users_once + 0.5 * items_once) * self.sample.evidence

    def repeats(self) -> float:
        """The share of rows whose pair of user and item comes again."""
        if self.layout.shape is not FileShape.ROWS or not self.mask.any():
            return 0.0
        if self.sample.repeats:
            return 0.0
        share = 1 - self._count("user", "item") / np.count_nonzero(self.mask)
        return -share * (0.15 if self.layout.clicks else 1.0)  # people click again

    def more_people(self) -> float:
        """Whether there are more people than things."""
        if self.layout.shape is FileShape.ROWS:
            n_users, n_items = self._count("user"), self._count("item")
        elif self.layout.is_matrix:
            sizes = (self.sample.n_rows, len(self.layout.ratings))
            n_users, n_items = sizes if self.layout.shape is FileShape.WIDE else sizes[::-1]
        else:
            return 0.0
        # Few rows say little; those of a matrix, each with many ratings, say it sooner.
        strength = min(1.0, self.sample.n_rows / (10 if self.layout.is_matrix else 100))
        return float(np.clip(np.log2((n_users + 0.5) / (n_items + 0.5)), -1, 1)) * strength

    def used(self) -> float:
        """The share of rows and cells that are lost; everything dropped or missing counts."""
        sample, n = self.sample, max(self.sample.n_rows, 1)
        n_events = max(int(np.count_nonzero(self.mask)), 1)
        lost = sample.lost / (n + sample.lost)
        if "rating" in self.role:
            rating = self.role["rating"]
            usable = int(np.count_nonzero(sample.is_usable(rating) & self.mask))
            is_explained = rating.role == "rating" and not usable and len(rating.words) <= _FEW
            # A person can say what its words stand for.
            lost += 0.3 if is_explained else 1 - usable / n_events
        if "event" in self.role:
            lost += 0.3 * (1 - np.count_nonzero(self.mask) / n)
        if self.layout.is_matrix:
            columns = [sample.columns[k] for k in self.layout.ratings]
            n_filled = sum(c.n_filled for c in columns)
            n_usable = sum(np.count_nonzero(sample.is_usable(c)) for c in columns)
            lost += 1 - n_usable / max(n_filled, 1)
        return -min(lost, 1.0) * (0.4 + 0.6 * sample.evidence)

    def constant(self) -> float:
        """Whether the rating says one thing of each person, or of each item."""
        rating = self.role.get("rating")
        if rating is None or "user" not in self.role:
            return 0.0
        return -float(rating.follows(self.role["user"]) or rating.follows(self.role["item"]))

    def alias(self) -> float:
        """Whether user and item, or one of them and the rating, are two names of one thing."""
        roles = [self.role[r] for r in ("user", "item", "rating") if r in self.role]
        if len(roles) < 2 or self.layout.shape is not FileShape.ROWS:
            return 0.0
        user, item = roles[:2]
        # Hardly more pairs than values of one of them, although values come again.
        n = max(len(user.distinct), len(item.distinct))
        is_one = n > 4 and count_pairs(user, item) <= 1.05 * n and self.sample.n_rows > 1.5 * n
        return -float(is_one)

    def order(self) -> float:
        """Whether user, item and rating stand in this order."""
        if self.layout.shape is not FileShape.ROWS:
            return 0.0
        places = [self.role[r].index for r in ("user", "item", "rating") if r in self.role]
        user, item, *_ = places  # both are in every table of rows
        fit = 0.4 * float(np.sign(item - user)) + 0.4 * (places[-1] > min(user, item))
        if not self.layout.is_named and places == [0, 1, 2][: len(places)]:
            fit += 2 * (1 - min(1.0, self.sample.n_rows / 100))  # few rows say nothing else
        return fit

    def matrix(self) -> float:
        """How many columns a matrix has, and what it leaves unexplained."""
        layout = self.layout
        if layout.shape is FileShape.ADJACENCY:
            return 2.5
        if not layout.is_matrix:
            return 0.0
        width = len(layout.ratings)
        # A table of rows has few columns of numbers, and a matrix mostly names its columns.
        fit = 1.0 if width >= 5 else 0.3 if width >= 3 else -0.3
        if not layout.is_named:
            fit -= 0.6 if width >= 5 else 1.0
        # Columns beside the matrix should not hold ratings as well.
        outer = [c for c in self.sample.columns if c.index not in layout.ratings]
        aside = [c for c in outer if c not in self.role.values() and c.can_rate and c.filled]
        fit -= 0.3 * sum(c.rating_fit > 0 and c.key not in _WORDS["about_people"] for c in aside)
        inner = {c.role for k in layout.ratings if len((c := self.sample.columns[k]).key) > 1}
        named = {c.role for c in outer if len(c.key) > 1}
        if {"user", "item"} <= named | inner:  # a table of rows names both, a matrix only one
            fit -= 1.0
        if {"item", "rating"} <= inner:  # its header names the columns of a table of rows
            fit -= 3.0
        # Lines are numbered only if no column holds ids for them.
        if not layout.roles and any(c.id_fit > -0.4 and len(c.distinct) > 0.9 * len(c.cells)
                                    for c in outer):  # fmt: skip
            fit -= 0.4
        if layout.shape is FileShape.TRANSPOSED:
            fit -= 0.15  # a user on each line is the usual form
        return fit

    def unused(self) -> float:
        """Whether every row is a click although a column could hold ratings."""
        if not self.layout.clicks or self.layout.shape is not FileShape.ROWS:
            return 0.0
        # A known range says for certain that there are ratings.
        used = [*self.role.values()]
        free = [c for c in self.sample.columns if c not in used and c.can_rate]
        best = max((c.rating_fit + 1.5 * c.name_fit("rating") for c in free), default=-1.0)
        known = math.isfinite(self.sample.low)
        return -min(max(best, 0.0), 1.5) - 1.5 * known


# Weights are rough, and may be: times random factors of 0.5 to 1.5 they took no wrong reading of
# 221 real files. More people than things counts least: many sets have more items than users.
FEATURES: Mapping[str, tuple[float, Callable[[Evidence], float]]] = {
    "the name of the user's column": (2.0, lambda evidence: evidence.fit_name("user")),
    "the name of the item's column": (1.5, lambda evidence: evidence.fit_name("item")),
    "the name of the rating's column": (1.5, lambda evidence: evidence.fit_name("rating")),
    "the texts of the user's column": (3.0, lambda evidence: evidence.fit_texts("user")),
    "the texts of the item's column": (2.0, lambda evidence: evidence.fit_texts("item")),
    "one scale": (1.5, Evidence.scale),
    "several ratings a person": (2.5, Evidence.several),
    "repeated pairs": (4.0, Evidence.repeats),
    "more people than things": (0.6, Evidence.more_people),
    "the share of rows used": (5.0, Evidence.used),
    "a rating that says one thing of each": (2.0, Evidence.constant),
    "two names of one thing": (3.0, Evidence.alias),
    "the usual order": (0.6, Evidence.order),
    "the columns of a matrix": (2.0, Evidence.matrix),
    "a column of ratings left aside": (1.0, Evidence.unused),
}


@dataclass(frozen=True, eq=False)
class Candidate:
    """A proposal with its score and the sample that gave it."""

    layout: Layout
    sample: RowSample
    score: float

    @property
    def _key(self) -> tuple[Any, ...]:
        """What the roles of two readings must share before they are compared."""
        layout = self.layout
        return layout.shape, layout.ratings, layout.event, layout.separator

    def gives_way_to(self, other: Candidate) -> bool:
        """Whether a likelier reading is the same, or is the same but for how lines are cut."""
        is_alike = self._key == other._key and self.layout.roles == other.layout.roles
        return self.is_same_as(other) or (is_alike and other.score - self.score > MARGIN)

    def is_same_as(self, other: Candidate) -> bool:
        """Whether two readings give the same ratings: one may use another name of a thing.

        So a user's number and a user's name are one column, and a person need not choose. Times
        only order ratings; readings that differ in them alone are not worth a question.
        """
        ours, theirs = self.layout, other.layout
        if (self._key, ours.cut) != (other._key, theirs.cut):
            return False
        if {*ours.roles} - {"time"} != {*theirs.roles} - {"time"}:
            return False
        columns, others = self.sample.columns, other.sample.columns
        pairs = [(role, columns[k], others[theirs.roles[role]]) for role, k in ours.roles.items()
                 if role != "time"]  # fmt: skip
        return all(
            one.cells == other.cells if role == "rating" else one.equals(other)
            for role, one, other in pairs
        )


def score(layout: Layout, sample: RowSample) -> tuple[float, dict[str, float]]:
    """Return how likely a reading is, and what each feature adds to that."""
    evidence = Evidence(layout, sample)
    parts = {reason: weight * feature(evidence) for reason, (weight, feature) in FEATURES.items()}
    return sample.cut + sum(parts.values()), parts


def rank(samples: Sequence[RowSample], options: ReadOptions) -> list[Candidate]:
    """Return all readings of all samples, the most likely first. Raises Refused."""
    candidates, refusal = [], None
    for sample in samples:
        try:
            candidates += [
                Candidate(layout, sample, score(layout, sample)[0])
                for layout in propose(sample, options)
            ]
        except Refused as error:  # an option names no column of it
            refusal = refusal or error
    if not candidates and refusal:
        raise refusal
    return sorted(candidates, key=lambda candidate: -candidate.score)


# Decision -----------------------------------------------------------------------------------------


def decide(samples: Sequence[RowSample], options: ReadOptions) -> tuple[Layout, list[Candidate]]:
    """Return the reading that is taken, or the likeliest with faults that ask; and all of them.

    Raises:
        BadRatings: if there is no reading at all.
    """
    if not any(sample.layout.columns for sample in samples):
        raise BadRatings(f"{samples[0].layout.file} has no columns")
    ranked = rank(samples, options)
    best = ranked[0] if ranked else None
    if best is None or _is_taken(ranked, options):
        layout = best.layout if best else samples[0].layout
        layout = replace(layout, guessed=_list_guessed(layout, options))
        faults = () if best else (_ask(ranked, samples, options),)
        others = [_format_answer(offer) for offer in list_offers(ranked, options) if offer]
        layout = replace(layout, faults=faults, others=tuple(others[:OFFERS]))
        return _check_names(layout, options), ranked
    return replace(best.layout, faults=(_ask(ranked, samples, options),)), ranked


def _list_guessed(layout: Layout, options: ReadOptions) -> tuple[str, ...]:
    """Return the roles that neither a name nor a person gave to their columns."""
    if layout.shape is not FileShape.ROWS:
        return ()
    roles = ("user", "item", "rating", "time")
    return tuple(
        role
        for role in roles
        if role in layout.roles
        and role not in options.columns
        and (
            not layout.is_named
            or ROLE_OF.get(normalise_name(layout.columns[layout.roles[role]])) != role
        )
    )


def _is_taken(ranked: Sequence[Candidate], options: ReadOptions) -> bool:
    """Return whether the best reading is clear enough to be read without a question.

    It must be ahead of all others, and nothing in it may be a mere guess that changes whom the
    privacy of the ratings protects, or what counts as a rating.
    """
    best = ranked[0]
    layout, requested = best.layout, options.columns
    is_chosen = bool(requested) or options.layout is not FileShape.GUESS
    rivals = (c for c in ranked[1:] if not c.is_same_as(best))
    if is_chosen:  # no option tells these apart
        rivals = (c for c in rivals if c.layout.spelled != layout.spelled)
    rival = next(rivals, None)
    if rival is not None and best.score - rival.score < MARGIN:
        return False
    if layout.form == "blocks" and not {"user", "item"} <= {*requested}:
        return False  # the number above each block may name either
    # Of these, only the lines of the Jester sets prove by their numbers what they are.
    if layout.shape is FileShape.ADJACENCY or (layout.is_matrix and layout.is_complete):
        return layout.is_complete or options.layout is layout.shape
    if layout.is_matrix:
        if options.layout is layout.shape:
            return True
        if best.sample.has_odd_line(layout.ratings):
            return False
        k = layout.roles.get("user")
        is_named = k is not None and best.sample.columns[k].role == "user"
        return layout.shape is FileShape.WIDE and (is_named or "user" in requested)
    for role, k in layout.roles.items():
        column = best.sample.columns[k]
        is_open = role in ("user", "item", "rating") and role not in requested
        if is_open and column.says_other_than(role):
            return False
    # Rows are clicks only if no other column could hold ratings.
    if layout.clicks and requested.get("rating") != NO_COLUMN:
        free = [
            c
            for c in best.sample.columns
            if c.index not in layout.roles.values()
            and not (c.is_row_number or c.is_index)
            and c.role != "time"
        ]
        if free or options.low is not None:
            return False
    if "user" in requested:
        return True
    user = best.sample.columns[layout.roles["user"]]
    if layout.is_named:
        return user.role == "user"
    # Without names only the usual order is taken: user, item, rating and time, and nothing else.
    places = [layout.roles[r] for r in ("user", "item", "rating", "time") if r in layout.roles]
    return (
        places == [*range(len(layout.columns))]
        and "event" not in layout.roles
        and not (user.counts_up or user.holds_times)
    )


def list_offers(ranked: Sequence[Candidate], options: ReadOptions) -> list[dict[str, Any]]:
    """Return options that each lead to one of the likeliest readings, the likeliest first."""
    chosen: list[Candidate] = []
    for candidate in ranked:
        if ranked[0].score - candidate.score > _HOPELESS or len(chosen) == 2 * OFFERS:
            break
        if candidate.sample.cut < ranked[0].sample.cut - 2 * MARGIN:
            continue  # it is clear how the lines are cut
        if candidate.score - candidate.sample.cut < _FLOOR and not options.columns:
            continue  # nothing speaks for it but the way in which its lines are cut
        if not any(candidate.gives_way_to(other) for other in chosen):
            chosen.append(candidate)
    offers = [_spell(candidate, ranked, options) for candidate in chosen]
    return [offer for k, offer in enumerate(offers) if offer not in offers[:k]]


def _spell(
    candidate: Candidate, ranked: Sequence[Candidate], options: ReadOptions
) -> dict[str, Any]:
    """Return the fewest options under which a reading is the only likely one.

    Options are added in the order of `Layout.spelled` while a rival reads the file otherwise. A
    role that the name of its column does not tell is always said, so that a person can check it.
    """
    layout, columns = candidate.layout, candidate.sample.columns
    first = {"layout"}
    if layout.shape is FileShape.ROWS:
        is_named = columns[layout.roles["user"]].role == "user"
        first = {"rating"} if layout.clicks else set()
        first |= set() if is_named else {"user", "item", "rating", "event"}
        first |= {role for role, k in layout.roles.items() if columns[k].says_other_than(role)}
    answer: dict[str, Any] = {}
    for name, value in layout.spelled.items():
        rivals = [
            other.layout
            for other in ranked
            if other.score > candidate.score - MARGIN
            and not other.is_same_as(candidate)
            and other.layout.allows(answer)
        ]
        if name in options.columns or getattr(options, name, None) == value:
            continue
        is_chosen = "user" in answer and name in ("item", "rating", "event")
        if name in first or is_chosen or any(rival.spelled.get(name) != value for rival in rivals):
            answer[name] = value
    return answer


def _format_answer(offer: Mapping[str, Any]) -> str:
    """Return the options of an offer as a person types them."""
    return " and ".join(f"{name}={value}" for name, value in offer.items())


def _ask(ranked: Sequence[Candidate], samples: Sequence[RowSample], options: ReadOptions) -> Fault:
    """Return what nobody can guess, with the options of the likeliest readings.

    The first doubt that applies is named: others may vanish once it is settled.
    """
    offers = list_offers(ranked, options)[:OFFERS]
    answers = [_format_answer(offer) for offer in offers if offer]
    best = ranked[0] if ranked else None
    layout = best.layout if best else samples[0].layout
    columns = (best.sample if best else samples[0]).columns
    if best and layout.shape is FileShape.ADJACENCY:
        problem = "its lines have different numbers of columns"
        return Fault(problem, "if each is a user and then the items, say it", tuple(answers))
    rivals = [c for c in ranked[1:OFFERS] if best and best.score - c.score < MARGIN]
    if best and any(c.layout.header != layout.header for c in rivals):
        plain = [sample for sample in samples if not sample.layout.header] or samples
        text = ", ".join(plain[0].rows[0])[:60]
        problem = f"the first line, '{text}', may name the columns or be a rating"
        return Fault(problem, "say which", tuple(answers))
    if best and layout.is_matrix:
        problem = "each line may be one rating, or all ratings of a user or of an item"
        return Fault(problem, "say which", tuple(answers))
    roles = {c.role for c in columns} | {*options.columns}
    lost = [role for role in ("user", "item") if role not in roles]
    if not lost and best and layout.clicks:
        lost = ["rating"]
    if not lost:
        problem = "its columns can be read in several ways"
        return Fault(problem, "say which column holds what", tuple(answers or ["user=COLUMN"]))
    candidates = [c.name for c in columns if c.role is None and not c.is_index]
    names = ", ".join(candidates or layout.columns)[:200]
    listing = f"{'candidates' if candidates else 'its columns'} are {names}"
    if not layout.is_named:
        listing = f"its columns are {len(columns)} without names"
    problem = f"no column holds the {' and the '.join(lost)} for certain; {listing}"
    return Fault(problem, _ADVICE[lost[0]], (*answers, *(f"{role}=COLUMN" for role in lost)))


def _check_names(layout: Layout, options: ReadOptions) -> Layout:
    """Return the layout with a fault where two columns have the name of one that is used."""
    names = layout.columns
    faults = list(layout.faults)
    if len({*layout.roles.values()}) < len(layout.roles):
        faults.append(Fault("user, item, rating and time must be different columns"))
    if layout.is_matrix:
        inside = [names[k] for k in layout.ratings] if layout.is_named else []
        repeated = [name for name, count in Counter(inside).items() if count > 1]
        if repeated:
            problem = f"two columns are called '{repeated[0]}'"
            faults.append(Fault(problem, "give every item a name of its own"))
    for role, k in layout.roles.items():
        requested = options.columns.get(role)
        if layout.is_named and names.count(names[k]) > 1 and not is_column_number(requested):
            problem = f"two columns are called '{names[k]}'"
            advice = f"say by its number which holds the {role}"
            faults.append(Fault(problem, advice, (f"{role}={k + 1}",)))
    return replace(layout, faults=tuple(faults))
