"""From rows as read to validated ratings, with a report of what was found and done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpmc_core.data.reading import RANGE_ASKED, Column, Table, merge, natural_order, recode
from dpmc_core.data.source import NONE, BadRows, Duplicates, Fault, LineCount, ReadOptions, Refused
from dpmc_core.data.text import Format
from dpmc_core.errors import BadRatings
from dpmc_core.ratings import PublicFacts, Ratings, numbered
from dpmc_core.stopping import look

FEW = 5  # a user with fewer ratings is worth a sentence
_LATEST = 253_402_300_799.0  # Unix seconds at the end of the year 9999
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


def clean(options: ReadOptions, *tables: Table) -> tuple[list[Ratings], list[Checked]]:
    """Ratings of a table, or of training and test rows over one shared index space; and how each
    row was judged. Raises Refused with everything that is wrong, where the options do not say to
    leave such rows out or how to settle repeated pairs.
    """
    judged = [check(table, options) for table in merge(tables)]
    for one in judged:
        if one.faults:
            raise Refused(one.table.source.name, one.faults)
    return build(judged), judged


def check(table: Table, options: ReadOptions) -> Checked:
    """Judge every row; nothing is raised for what is wrong with them."""
    faults: list[Fault] = []
    known, clicks = table.layout.known, table.layout.clicks
    low, high, origin = 0.0, 1.0, "clicks"
    if options.low is not None and options.high is not None:
        low, high, origin = options.low, options.high, "the public range as given"
    elif known is not None:
        low, high, origin = known.low, known.high, f"the public range of {known.title}"
    elif not clicks and options.for_ranking:
        clicks = True
        table = replace(table, ratings=np.where(np.isfinite(table.ratings), 1.0, table.ratings))
    elif not clicks:
        faults.append(RANGE_ASKED)
        low, high = -np.inf, np.inf
    if clicks and not low <= 1 <= high:
        faults.append(Fault(f"every row is a click, a 1, which {low:g}..{high:g} does not hold"))
    report = [f"{table.source.name}: {table.layout.words}"]
    if not faults:
        report.append(f"ratings lie in {low:g}..{high:g} ({origin})")
    if known is not None:
        changed = "" if known.exact else "; the file itself may have been changed"
        report.append(f"from {known.words}{changed}")
    keep, unusable = _usable(table, low, high)
    left_out: dict[str, int] = {}
    for what, number, shown, advice in unusable:
        left_out[what] = number
        told = f"{count_words(number, 'row')} {what}, first {shown}"
        if options.bad_rows is BadRows.ERROR:
            faults.append(Fault(told, advice, ("bad_rows=leave-out",)))
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
    for what, column in (("users", table.user), ("items", table.item)):
        if column.names and all(re.fullmatch(r"-?\d+\.0+", name) for name in column.names):
            report.append(
                f"the ids of the {what} look like {column.names[0]}: whole numbers written with"
                " decimals, kept as they are"
            )
    count = replace(table.count, used=len(rows), left_out=left_out, repeated=repeated)
    report.insert(1, line_words(count))
    times = None if times is None else times[rows]
    return Checked(
        table, tuple(faults), low, high, rows, values, times, clicks, tuple(report), count
    )


def count_words(number: int, what: str) -> str:
    """So many of a thing: '1 row', '2,000 rows'."""
    return f"{number:,} {what}{'s' * (number != 1)}"


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
    few = (counts > 0) & (counts < FEW)
    unrated = public.items - len(np.unique(ratings.items))
    for number, who, what in (
        (
            int(np.count_nonzero(counts == 0)),
            "user",
            "no ratings: what is predicted for them rests on others alone",
        ),
        (int(np.count_nonzero(few)), "user", f"fewer than {FEW} ratings"),
        (unrated, "item", "no ratings"),
    ):
        if number:
            lines.append(f"{count_words(number, who)} {'has' if number == 1 else 'have'} {what}")
    if ratings.values.min() == ratings.values.max():
        value = float(ratings.values[0])
        clicks, equal = "as clicks are: items can be ranked", "so there is nothing to tell apart"
        lines.append(f"all ratings are equal ({value:g}), {clicks if value == 1 else equal}")
    if ratings.times is None:
        lines.append("no times: the latest rating of a user is not known")
    return tuple(lines)


def line_words(count: LineCount) -> str:
    """What became of every line, in words."""
    parts = {
        "names the columns": count.header,
        "blank": count.blank,
        "continuing quoted text": count.continued,
    }
    found = [f"{number:,} {what}" for what, number in parts.items() if number]
    lines = ", ".join([count_words(count.rows, "row"), *found])
    if count.entries != count.rows:
        lines += f", with {count.entries:,} filled cells"
    out = sum(count.left_out.values())
    return (
        f"{count_words(count.lines, 'line')}: {lines}. {count.used:,} used, {out:,} left out,"
        f" {count.repeated:,} repeated"
    )


def _usable(table: Table, low: float, high: float) -> tuple[Mask, list[tuple[str, int, str, str]]]:
    """Rows that can be used, and for each kind of those that cannot: what is wrong, how many, an
    example, what to do."""
    leave = "or leave such rows out"
    fill, correct = f"fill it in, {leave}", f"correct it, {leave}"
    empty, infinite = np.isnan(table.ratings), np.isinf(table.ratings)
    text = empty & (table.written.codes >= 0) if table.written else np.zeros_like(empty)
    wrong_column = correct
    if text.any() and empty.all():
        name = table.layout.name_of("rating")
        wrong_column = f"{name} may be the wrong column: choose the one that holds the ratings"
    with np.errstate(invalid="ignore"):
        outside = ~infinite & ((table.ratings < low) | (table.ratings > high))
    kinds = (
        (table.user.codes < 0, "without a user", fill),
        (table.item.codes < 0, "without an item", fill),
        (empty & ~text, "without a rating", fill),
        (text, "with a rating that is no number", wrong_column),
        (infinite, "with a rating that is not finite", correct),
        (
            outside,
            f"with a rating outside {low:g}..{high:g}",
            f"correct the range or the rating, {leave}",
        ),
    )
    keep = np.ones(len(table.ratings), dtype=bool)
    found = [
        (what, broken.count, f"'{broken.example}' in line {broken.line}", correct)
        for what, broken in table.broken.items()
    ]
    for rows, what, advice in kinds:
        bad = rows & keep
        if bad.any():
            example = _show(table, int(np.argmax(bad)))
            found.append((what, int(np.count_nonzero(bad)), example, advice))
            keep &= ~bad
    return keep, found


def _show(table: Table, row: int) -> str:
    """A row's rating and place, for a sentence."""
    value, place, text = table.ratings[row], f"in {table.place(row)}", ""
    if table.written and (code := table.written.codes[row]) >= 0:
        text = table.written.names[code]
    if text and (np.isnan(value) or "," in text):
        return f"'{text[:30]}' {place}"
    return place if np.isnan(value) else f"{value:g} {place}"


def _times(table: Table, keep: Mask) -> tuple[Ints | None, str]:
    """Unix seconds of every row, sense only where kept; None and why where they cannot be used."""
    if table.times is None or not keep.any():
        return None, ""
    stamps = table.times
    finite = np.isfinite(stamps) & keep
    dated = np.zeros(len(stamps), dtype=bool) if table.dated is None else table.dated
    if dated[finite].any() and not dated[finite].all():
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
            f"{count_words(int(wrong.sum()), 'row')} without a time that is Unix seconds or a"
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
    user, item = (c.names[c.codes[rows[again[0]]]][:60] for c in (table.user, table.item))
    sentence = (
        f"{count_words(len(again), 'row')} repeat{'s' * (len(again) == 1)} a user-item pair, first"
        f" user '{user}' with item '{item}'"
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
    known, rows = first.table.layout.known, [one.rows for one in pair]
    whole = all(one.table.layout.format is Format.JESTER for one in pair)
    users, items = (
        _kept(columns, rows, catalogue, whole=whole)
        for columns, catalogue in zip(
            ([one.table.user for one in pair], [one.table.item for one in pair]),
            (known and known.catalogue) or (None, None),
            strict=True,
        )
    )
    look()
    public = PublicFacts(
        users=len(users[0].names), items=len(items[0].names), low=first.low, high=first.high
    )
    return [
        Ratings.build(
            user.codes[one.rows],
            item.codes[one.rows],
            # A mean of equal numbers can lie beyond them by rounding.
            np.clip(one.values, one.low, one.high),
            public,
            times=one.times,
            user_ids=user.names,
            item_ids=item.names,
        )
        for one, user, item in zip(pair, users, items, strict=True)
    ]


def _kept(
    columns: Sequence[Column], rows: Sequence[Ints], catalogue: int | None, *, whole: bool
) -> list[Column]:
    """Columns over the ids that appear in the rows, or over a catalogue 1..n that holds them."""
    look()
    names = columns[0].names
    if catalogue is not None:
        full = numbered(catalogue)
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
