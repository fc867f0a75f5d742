"""From rows as read to validated ratings, with a report of what was found and done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpmc_core.data.reading import RANGE_ASKED, Column, Table, merge, natural_order, recode
from dpmc_core.data.source import NONE, BadRows, Duplicates, Fault, LineCount, ReadOptions, Refused
from dpmc_core.errors import BadRatings
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.stopping import look

FEW = 5  # a user with fewer ratings is worth a sentence
_LATEST = 253_402_300_799.0  # Unix seconds at the end of the year 9999
_LEAVE_OUT = "bad_rows=leave-out"
_REPEATS = ("duplicates=last", "duplicates=mean")
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Checked:
    """A table judged by the options, nothing decided yet.

    faults: all that keeps it from being read. rows: of the table, in the order of their cells, the
    last of a repeated pair where it stands; values, times: of these. report: what was found and
    done; count: what became of every line. low, high: infinite where no range is known.
    """

    table: Table
    faults: tuple[Fault, ...]
    low: float
    high: float
    rows: Ints
    values: Floats
    times: Ints | None
    clicks: bool
    report: tuple[str, ...]
    count: LineCount


def clean(table: Table, options: ReadOptions) -> tuple[Ratings, Checked]:
    """Validate rows against the public range. Raises Refused with everything that is wrong, where
    the options do not say to leave such rows out or how to settle repeated pairs.

    Returns the ratings, and how each row was judged.
    """
    checked = check(table, options)
    if checked.faults:
        raise Refused(table.source.name, checked.faults)
    return build([checked])[0], checked


def clean_pair(tables: tuple[Table, Table], options: ReadOptions) -> tuple[Ratings, Ratings]:
    """The same for training and test rows, over one shared index space."""
    pair = [check(table, options) for table in merge(*tables)]
    for one in pair:
        if one.faults:
            raise Refused(one.table.source.name, one.faults)
    left, right = build(pair)
    return left, right


def check(table: Table, options: ReadOptions) -> Checked:
    """Judge every row; nothing is raised for what is wrong with them."""
    faults: list[Fault] = []
    clicks = table.clicks
    low, high, origin = 0.0, 1.0, "clicks"
    if options.low is not None and options.high is not None:
        low, high, origin = options.low, options.high, "the public range as given"
    elif table.known is not None:
        known = table.known
        low, high, origin = known.low, known.high, f"the public range of {known.title}"
    elif not clicks and options.for_ranking:
        clicks = True
        table = replace(table, ratings=_as_clicks(table.ratings))
    elif not clicks:
        faults.append(RANGE_ASKED)
        low, high = -np.inf, np.inf
    if clicks and not low <= 1 <= high:
        faults.append(Fault(f"every row is a click, a 1, which {low:g}..{high:g} does not hold"))
    report = [f"{table.source.name}: {table.words}"]
    if not faults:
        report.append(f"ratings lie in {low:g}..{high:g} ({origin})")
    if table.known is not None:
        changed = "" if table.known.exact else "; the file itself may have been changed"
        report.append(f"from {table.known.title}, {table.known.by}{changed}")
    keep, reasons = _usable(table, low, high)
    left_out: dict[str, int] = {}
    spoilt = [
        (
            what,
            broken.count,
            f"first '{broken.example}' in line {broken.line}",
            "correct it, or leave such rows out",
        )
        for what, broken in table.broken.items()
    ]
    for what, number, shown, advice in (*spoilt, *reasons):
        left_out[what] = number
        told = f"{_count(number)} {what}, {shown}"
        if options.bad_rows is BadRows.ERROR:
            faults.append(Fault(told, advice, (_LEAVE_OUT,)))
        else:
            report.append(f"left out: {told}")
    if not keep.any() and (options.bad_rows is BadRows.LEAVE_OUT or not left_out):
        why = f": {report[-1]}" if left_out else ""
        faults.append(Fault(f"no row of it can be used{why}"))
    look()
    times, note = _times(table, keep)
    if note and options.time not in (None, NONE):
        faults.append(Fault(note, "choose another column, or none", ("time=none",)))
    elif note:
        report.append(f"times are left alone: {note}")
    rows, values, repeated, words = _settle(table, keep, times, options, clicks, faults)
    report.append(words)
    report += [
        f"the ids of the {what} look like {names[0]}: whole numbers written with decimals, kept as"
        " they are"
        for what, column in (("users", table.user), ("items", table.item))
        if (names := column.names) and all(re.fullmatch(r"-?\d+\.0+", name) for name in names)
    ]
    count = replace(table.count, used=len(rows), left_out=left_out, repeated=repeated)
    report.insert(1, line_words(count))
    return Checked(
        table=table,
        faults=tuple(faults),
        low=low,
        high=high,
        rows=rows,
        values=values,
        times=None if times is None else times[rows],
        clicks=clicks,
        report=tuple(report),
        count=count,
    )


def _as_clicks(ratings: Floats) -> Floats:
    return np.where(np.isfinite(ratings), 1.0, ratings)


def size_words(ratings: Ratings) -> str:
    """How many users, items and ratings there are."""
    public = ratings.public
    return (
        f"{public.users:,} users, {public.items:,} items, {len(ratings):,} ratings:"
        f" {100 * ratings.density:.3g} % of all cells"
    )


def facts_of(ratings: Ratings) -> tuple[str, ...]:
    """What is worth knowing about valid ratings: size, empty and short rows, a single value."""
    public = ratings.public
    counts = np.diff(ratings.indptr)
    lines = [
        size_words(ratings),
        f"a user has {counts.min():,} to {counts.max():,} ratings, the median is"
        f" {np.median(counts):g}",
    ]
    for count, what in (
        (int((counts == 0).sum()), "no ratings: what is predicted for them rests on others alone"),
        (int(((counts > 0) & (counts < FEW)).sum()), f"fewer than {FEW} ratings"),
    ):
        if count:
            lines.append(f"{count:,} {'user has' if count == 1 else 'users have'} {what}")
    unrated = public.items - len(np.unique(ratings.items))
    if unrated:
        lines.append(f"{unrated:,} {'item has' if unrated == 1 else 'items have'} no ratings")
    if ratings.values.min() == ratings.values.max():
        value = float(ratings.values[0])
        clicks, equal = "as clicks are: items can be ranked", "so there is nothing to tell apart"
        lines.append(f"all ratings are equal ({value:g}), {clicks if value == 1 else equal}")
    if ratings.times is None:
        lines.append("no times: the latest rating of a user is not known")
    return tuple(lines)


def line_words(count: LineCount) -> str:
    """What became of every line, in words."""
    parts = [
        f"{number:,} {what}"
        for number, what in (
            (count.header, "names the columns"),
            (count.blank, "blank"),
            (count.continued, "continuing quoted text"),
        )
        if number
    ]
    lines = "1 line" if count.lines == 1 else f"{count.lines:,} lines"
    rows = "1 row" if count.rows == 1 else f"{count.rows:,} rows"
    lines = f"{lines}: {', '.join([rows, *parts])}"
    if count.entries != count.rows:
        lines += f", with {count.entries:,} filled cells"
    out = sum(count.left_out.values())
    return f"{lines}. {count.used:,} used, {out:,} left out, {count.repeated:,} repeated"


def _count(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"


def _usable(table: Table, low: float, high: float) -> tuple[Mask, list[tuple[str, int, str, str]]]:
    """Rows that can be used, and for each kind of those that cannot: what is wrong, how many, an
    example, what to do."""
    empty = np.isnan(table.ratings)
    text = empty & (table.written.codes >= 0) if table.written else np.zeros_like(empty)
    missing = empty & ~text
    infinite = np.isinf(table.ratings)
    fill = "fill it in, or leave such rows out"
    correct = "correct it, or leave such rows out"
    all_text = bool(text.any()) and bool((text | missing).all())
    other = f"{table.rating_name} may be the wrong column: choose the one that holds the ratings"
    with np.errstate(invalid="ignore"):
        outside = ~empty & ~infinite & ((table.ratings < low) | (table.ratings > high))
    kinds = (
        (table.user.codes < 0, "without a user", fill),
        (table.item.codes < 0, "without an item", fill),
        (missing, "without a rating", fill),
        (text, "with a rating that is no number", other if all_text else correct),
        (infinite, "with a rating that is not finite", correct),
        (
            outside,
            f"with a rating outside {low:g}..{high:g}",
            "correct the range or the rating, or leave such rows out",
        ),
    )
    keep = np.ones(len(table.ratings), dtype=bool)
    found = []
    for rows, what, advice in kinds:
        bad = rows & keep
        if count := int(np.count_nonzero(bad)):
            found.append((what, count, f"first {_show(table, int(np.argmax(bad)))}", advice))
            keep &= ~bad
    return keep, found


def _show(table: Table, row: int) -> str:
    """A row's rating and place, for a sentence."""
    value, code = table.ratings[row], table.written.codes[row] if table.written else -1
    if table.written and code >= 0 and (np.isnan(value) or "," in table.written.names[code]):
        return f"'{table.written.names[code][:30]}' in {table.place(row)}"
    return f"in {table.place(row)}" if np.isnan(value) else f"{value:g} in {table.place(row)}"


def _times(table: Table, keep: Mask) -> tuple[Ints | None, str]:
    """Unix seconds of every row, sense only where kept; None and why where they cannot be used."""
    if table.times is None or not keep.any():
        return None, ""
    stamps = table.times
    finite = np.isfinite(stamps) & keep
    dated = np.zeros(len(stamps), dtype=bool) if table.dated is None else table.dated
    if 0 < np.count_nonzero(dated & finite) < np.count_nonzero(finite):
        return None, "some are numbers and some are dates"
    numbers = np.abs(stamps[finite & ~dated])
    usual = float(np.median(numbers)) if len(numbers) else 0.0
    # The year 5138 in seconds, milliseconds, microseconds.
    unit = next((10.0**k for edge, k in ((1e17, 9), (1e14, 6), (1e11, 3)) if usual > edge), 1.0)
    with np.errstate(invalid="ignore", over="ignore"):
        seconds = np.floor(stamps / unit)
        wrong = ~(np.abs(seconds) <= _LATEST) & keep
    if wrong.any():
        first = int(np.argmax(wrong))
        return None, (
            f"{_count(int(wrong.sum()))} without a time that is Unix seconds or a"
            f" date like 2024-03-31 18:00, first {table.place(first)}"
        )
    return np.where(keep, seconds, 0).astype(np.int64), ""


def _settle(
    table: Table,
    keep: Mask,
    times: Ints | None,
    options: ReadOptions,
    clicks: bool,
    faults: list[Fault],
) -> tuple[Ints, Floats, int, str]:
    """(rows, values, how many gave way, words): one for each pair of user and item."""
    look()
    rows = np.flatnonzero(keep)
    cells = table.user.codes[rows].astype(np.int64) * len(table.item.names)
    cells += table.item.codes[rows]
    order = np.argsort(cells, kind="stable")  # rows of one cell stay in file order
    if times is not None and (np.diff(cells[order]) == 0).any():
        order = np.lexsort((times[rows], cells))
    rows, cells = rows[order], cells[order]
    last = np.append(np.diff(cells) != 0, True)[: len(cells)]
    values = table.ratings[rows]
    again = np.flatnonzero(~last)
    if not len(again):
        return rows, values, 0, "no user-item pair appears twice"
    user = table.user.names[table.user.codes[rows[again[0]]]]
    item = table.item.names[table.item.codes[rows[again[0]]]]
    sentence = (
        f"{_count(len(again))} repeat{'s' if len(again) == 1 else ''} a user-item pair, first user"
        f" '{user[:60]}' with item '{item[:60]}'"
    )
    how = options.duplicates
    if how is Duplicates.ERROR and not clicks:
        at = sorted(int(rows[k]) for k in (again[0], again[0] + 1))
        places = " and ".join(table.place(k) for k in at)
        advice = "keep one rating per pair, or use the last or the mean"
        faults.append(Fault(f"{sentence} ({places})", advice, _REPEATS))
    if how is Duplicates.MEAN:
        group = np.concatenate(([0], np.cumsum(last)[:-1]))
        values = np.bincount(group, values) / np.bincount(group)
    else:
        values = values[last]
    used = "one click is counted" if clicks else f"the {how.value} is used"
    return rows[last], values, len(again), f"{sentence}: {used}"


def build(pair: Sequence[Checked]) -> list[Ratings]:
    """Ratings over the users and items that have any, in their natural order; where a public
    catalogue holds all of them, over the catalogue.

    Of several tables over one list of users and items: over those of all of them. Raises
    BadRatings where their ranges differ.
    """
    first = pair[0]
    for one in pair[1:]:
        if (one.low, one.high) != (first.low, first.high):
            raise BadRatings(
                f"{first.table.source.name} and {one.table.source.name} have different rating"
                " ranges: give the range, low and high"
            )
    catalogue = first.table.known.catalogue if first.table.known is not None else None
    kept = [
        _kept(
            columns,
            [one.rows for one in pair],
            None if catalogue is None else catalogue[k],
            whole=all(one.table.whole for one in pair),
        )
        for k, columns in enumerate(
            ([one.table.user for one in pair], [one.table.item for one in pair])
        )
    ]
    users, items = kept
    look()
    public = PublicFacts(
        users=len(users[0].names), items=len(items[0].names), low=first.low, high=first.high
    )
    return [
        Ratings.build(
            users[k].codes[one.rows],
            items[k].codes[one.rows],
            # A mean of equal numbers can lie beyond them by rounding.
            np.clip(one.values, one.low, one.high),
            public,
            times=one.times,
            user_ids=users[k].names,
            item_ids=items[k].names,
        )
        for k, one in enumerate(pair)
    ]


def _kept(
    columns: Sequence[Column], rows: Sequence[Ints], catalogue: int | None, *, whole: bool
) -> list[Column]:
    """Columns over the ids that appear in the rows, or over a catalogue 1..n that holds them."""
    look()
    names = columns[0].names
    if catalogue is not None:
        full = tuple(str(k + 1) for k in range(catalogue))
        if set(names) <= set(full):
            return [recode(column, full) for column in columns]
    used = np.full(len(names), whole)
    for column, mine in zip(columns, rows, strict=True):
        used[column.codes[mine]] = True
    there = np.flatnonzero(used)
    look()
    order = there[natural_order([names[k] for k in there.tolist()])]
    place = np.full(len(names) + 1, -1, dtype=np.int32)  # the last is where code -1 points
    place[order] = np.arange(len(order), dtype=np.int32)
    kept = tuple(map(names.__getitem__, order.tolist()))
    return [Column(place[column.codes], kept) for column in columns]
