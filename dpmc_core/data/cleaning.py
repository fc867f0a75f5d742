"""From rows as read to validated ratings, with a report of what was found and done."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmc_core.data.reading import Column, Table, natural_order
from dpmc_core.data.source import BadRows, Duplicates, ReadOptions
from dpmc_core.errors import BadRatings
from dpmc_core.ratings import PublicFacts, Ratings

FEW = 5  # a user with fewer ratings is worth a sentence
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class _Problem:
    """Rows that cannot be used. what: completes '3 rows ...'; remedy: what a person can do."""

    rows: Mask
    what: str
    remedy: str


def clean(table: Table, options: ReadOptions) -> tuple[Ratings, tuple[str, ...]]:
    """Validate rows against the public range; raise BadRatings at the first kind of bad row, or
    leave such rows out where the options say so; resolve duplicate pairs likewise.

    Returns the ratings and what was done to the rows to get them.
    """
    low, high, origin = _range(table, options)
    name = table.source.name
    report = [f"{len(table.ratings):,} entries read from {name}: {table.how}"]
    report.append(f"ratings lie in {low:g}..{high:g} ({origin})")
    keep = ~_blank(table)
    if not keep.any():
        raise BadRatings(f"{name} holds no ratings, only blank lines")
    for problem in _problems(table, low, high):
        bad = problem.rows & keep
        count = int(bad.sum())
        if not count:
            continue
        first = int(np.argmax(bad))
        rows = "1 row" if count == 1 else f"{count:,} rows"
        sentence = f"{rows} {problem.what}, first {_show(table, first)}"
        if options.bad_rows is BadRows.ERROR:
            raise BadRatings(f"{sentence}: {problem.remedy}")
        report.append(f"left out: {sentence}")
        keep &= ~bad
    if not keep.any():
        raise BadRatings(f"no row of {name} can be used: {report[-1]}")
    ratings, note = _build(table, keep, options.duplicates, low, high)
    return ratings, (*report, note)


def facts_of(ratings: Ratings) -> tuple[str, ...]:
    """What is worth knowing about valid ratings: size, empty and short rows, a single value."""
    public = ratings.public
    counts = np.diff(ratings.indptr)
    lines = [
        f"{public.users:,} users, {public.items:,} items, {len(ratings):,} ratings:"
        f" {100 * ratings.density:.3g} % of all cells",
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


def merge(first: Table, second: Table) -> tuple[Table, Table]:
    """The same rows with codes into shared lists of users and items."""
    users = _union(first.user, second.user)
    items = _union(first.item, second.item)
    left, right = (
        dataclasses.replace(table, user=users[k], item=items[k])
        for k, table in enumerate((first, second))
    )
    return left, right


def _union(first: Column, second: Column) -> tuple[Column, Column]:
    names = list(dict.fromkeys((*first.names, *second.names)))
    names = [names[k] for k in natural_order(names)]
    return _recode(first, names), _recode(second, names)


def _recode(column: Column, names: list[str]) -> Column:
    place = {name: k for k, name in enumerate(names)}
    codes = np.array([*(place[name] for name in column.names), -1], dtype=np.int64)
    return Column(codes[column.codes], tuple(names))


def _range(table: Table, options: ReadOptions) -> tuple[float, float, str]:
    if options.low is not None and options.high is not None:
        return options.low, options.high, "the public range as given"
    if table.known is not None:
        known = table.known
        return known.low, known.high, f"the public range of {known.title}"
    raise BadRatings(
        f"the public rating range of {table.source.name} is not known: give its low and high end,"
        " for example 1 and 5. It is not taken from the data, because the smallest and the largest"
        " rating are somebody's private values"
    )


def _blank(table: Table) -> Mask:
    return (table.user.codes < 0) & (table.item.codes < 0) & np.isnan(table.ratings) & ~table.text


def _problems(table: Table, low: float, high: float) -> list[_Problem]:
    text = table.text
    missing = np.isnan(table.ratings) & ~text
    finite = np.isfinite(table.ratings)
    fill = "fill it in, or leave such rows out"
    all_text = bool((text | missing).all())
    other = f"{table.rating_name} may be the wrong column: choose the one that holds the ratings"
    return [
        _Problem(table.user.codes < 0, "without a user", fill),
        _Problem(table.item.codes < 0, "without an item", fill),
        _Problem(
            text,
            "with a rating that is no number",
            other if all_text else "correct it, or leave such rows out",
        ),
        _Problem(missing, "without a rating", fill),
        _Problem(~finite & ~text & ~missing, "with a rating that is not finite", fill),
        _Problem(
            finite & ((table.ratings < low) | (table.ratings > high)),
            f"with a rating outside {low:g}..{high:g}",
            "correct the range or the rating, or leave such rows out",
        ),
    ]


def _show(table: Table, row: int) -> str:
    """A row's rating and place, for a sentence."""
    if row in table.examples:
        return f"'{table.examples[row][:30]}' in {table.place(row)}"
    value = table.ratings[row]
    return f"in {table.place(row)}" if np.isnan(value) else f"{value:g} in {table.place(row)}"


def _build(
    table: Table, keep: Mask, duplicates: Duplicates, low: float, high: float
) -> tuple[Ratings, str]:
    users, items = _catalogue(table)
    rows = np.flatnonzero(keep)
    cells = users.codes[rows] * len(items.names) + items.codes[rows]
    if (np.diff(cells) <= 0).any():
        keys = (cells,) if table.times is None else (table.times[rows], cells)
        order = np.lexsort(keys)  # stable: rows of one cell stay in file order
        rows, cells = rows[order], cells[order]
    last = np.append(np.diff(cells) > 0, True)
    values, note = table.ratings[rows], "no user-item pair appears twice"
    if not last.all():
        again = np.flatnonzero(~last)
        user, item = (c.names[c.codes[rows[again[0]]]] for c in (users, items))
        sentence = (
            f"{len(again):,} rows repeat a user-item pair, first user '{user}' with item '{item}'"
        )
        if duplicates is Duplicates.ERROR:
            raise BadRatings(
                f"{sentence} ({table.place(int(rows[again[0]]))} and"
                f" {table.place(int(rows[again[0] + 1]))}): keep one rating per pair, or choose"
                " to use the last or the mean"
            )
        if duplicates is Duplicates.MEAN:
            group = np.concatenate(([0], np.cumsum(last)[:-1]))
            sums = np.bincount(group, values)
            values = np.clip(sums / np.bincount(group), low, high)
        else:
            values = values[last]
        note = f"{sentence}: the {duplicates.value} is used"
        rows = rows[last]
    ratings = Ratings.build(
        users.codes[rows],
        items.codes[rows],
        values,
        PublicFacts(users=len(users.names), items=len(items.names), low=low, high=high),
        times=None if table.times is None else table.times[rows],
        user_ids=users.names,
        item_ids=items.names,
    )
    return ratings, note


def _catalogue(table: Table) -> tuple[Column, Column]:
    """Users and items of the index space: all of a public catalogue, else those in the file."""
    if table.known is not None and table.known.catalogue is not None:
        sizes = table.known.catalogue
        full = [[str(k + 1) for k in range(size)] for size in sizes]
        if set(table.user.names) <= set(full[0]) and set(table.item.names) <= set(full[1]):
            return _recode(table.user, full[0]), _recode(table.item, full[1])
    return table.user, table.item
