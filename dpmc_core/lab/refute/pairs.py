"""Data sets to try: ratings as a matrix, NaN where there is none, and rows that may change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import InvalidSetting
from dpmc_core.lab.refute.report import ChangedRow
from dpmc_core.privacy import CELL, RATING, ROW_VALUES, USER_EMPTIED, Change
from dpmc_core.ratings import PublicFacts, Ratings

Floats = NDArray[np.float64]
Rng = np.random.Generator

_LARGEST = 4_000_000  # cells


def check_cells(public: PublicFacts) -> None:
    """Raise InvalidSetting where a whole matrix of ratings would be too large."""
    cells = public.users * public.items
    if cells > _LARGEST:
        raise InvalidSetting("users x items", f"at most {_LARGEST:,} for an audit", cells)


@dataclass(frozen=True, eq=False)
class RatingTable:
    """Ratings as a matrix, and what a rating may be at its ends: (low, high), or 1 for clicks."""

    values: Floats
    public: PublicFacts
    prepared: tuple[str, ...]
    ends: tuple[float, ...]

    @classmethod
    def of(cls, ratings: Ratings) -> RatingTable:
        public = ratings.public
        values = np.full(public.shape, np.nan)
        values[ratings.users, ratings.items] = ratings.values
        ends = (1.0,) if ratings.clicks else (public.low, public.high)
        return cls(values, public, ratings.prepared, ends)

    def with_row(self, user: int, row: Floats) -> RatingTable:
        values = self.values.copy()
        values[user] = row
        return replace(self, values=values)

    def ratings(self) -> Ratings:
        users, items = np.nonzero(~np.isnan(self.values))
        return Ratings.build(
            users, items, self.values[users, items], self.public, prepared=self.prepared
        )

    @property
    def most(self) -> int:
        """The most ratings that a row may have."""
        return min(self.public.cap or self.public.items, self.public.items)


@dataclass(frozen=True, eq=False)
class RowPair:
    """One user's row in two neighbouring data sets; everybody else's are those of a table."""

    user: int
    before: Floats
    after: Floats

    def told(self) -> ChangedRow:
        same = (self.before == self.after) | (np.isnan(self.before) & np.isnan(self.after))
        items = np.flatnonzero(~same)
        return ChangedRow(
            self.user,
            tuple(items.tolist()),
            _plain(self.before[items]),
            _plain(self.after[items]),
            int((same & ~np.isnan(self.before)).sum()),
        )


def _plain(row: Floats) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(value) else float(value) for value in row)


def kinds_of_rows(table: RatingTable, rng: Rng) -> Iterator[Floats]:
    """Rows that push queries to their limits, then random ones: endless."""
    n, most, low, high = table.public.items, table.most, table.ends[0], table.ends[-1]
    place, half = np.arange(n), n // 2
    for row, items in (
        (np.full(n, high), most),
        (np.full(n, high), 1),
        (np.where(place < half, high, low), most),
        (np.where(place % 2 == 0, high, low), most),
        (np.where(place % 2 == 0, high, low), 2),
        (np.full(n, low), most),
        (np.full(n, low), 1),
        (np.where(place % 2 == 0, low, high), min(most, max(1, half))),
    ):
        yield np.where(place < items, row, np.nan)
    while True:
        items = int(rng.integers(1, most + 1))
        row = np.full(n, np.nan)
        row[rng.choice(n, items, replace=False)] = rng.choice(table.ends, items)
        yield row


def neighbours(table: RatingTable, change: Change, rng: Rng) -> Iterator[RowPair]:
    """Pairs of rows that the change turns into each other: known bad ones first. Endless."""
    counts = np.count_nonzero(~np.isnan(table.values), axis=1)
    fewest = int(np.argmin(np.where(counts > 0, counts, counts.max() + 1)))
    low, high = table.ends[0], table.ends[-1]
    kinds, first = kinds_of_rows(table, rng), True
    while True:
        user = fewest if first else int(rng.integers(table.public.users))
        own = table.values[user].copy()
        own = next(kinds) if not first or np.isnan(own).all() else own
        first = False
        rated = np.flatnonzero(~np.isnan(own))
        if change is USER_EMPTIED:
            yield RowPair(user, own, np.full(len(own), np.nan))
        elif change in (RATING, ROW_VALUES):
            moved = rated if change is ROW_VALUES else rng.choice(rated, 1)
            before, after = own.copy(), own.copy()
            before[moved] = low if change is RATING else own[moved]
            after[moved] = high if change is RATING else low + high - own[moved]
            yield RowPair(user, before, after)
        elif change is CELL:
            after = own.copy()
            free = np.flatnonzero(np.isnan(own))
            if len(free) and len(rated) < table.most:
                after[rng.choice(free)] = rng.choice(table.ends)
            else:
                after[rng.choice(rated)] = np.nan
            yield RowPair(user, own, after)
        else:
            yield RowPair(user, own, low + high - own if rng.random() < 0.3 else next(kinds))


def changed(rows: RowPair, table: RatingTable, change: Change, rng: Rng) -> RowPair:
    """The pair with one item's rating another one, or gone; still a pair of the change."""
    n = len(rows.before)
    before, after = rows.before.copy(), rows.after.copy()
    item = int(rng.integers(n))
    value = rng.choice([*table.ends, np.nan])
    same = (before[item] == after[item]) or (np.isnan(before[item]) and np.isnan(after[item]))
    if change is USER_EMPTIED:
        before[item] = value
    elif change in (RATING, CELL, ROW_VALUES):
        if same:
            before[item] = after[item] = value
    elif rng.random() < 0.5:
        before[item] = value
    else:
        after[item] = value
    found = RowPair(rows.user, before, after)
    sizes = [np.count_nonzero(~np.isnan(row)) for row in (before, after)]
    return found if max(sizes) <= table.most and len(found.told().items) else rows
