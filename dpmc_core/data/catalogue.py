"""Ratings over a list of users and items that is known before any rating is read.

Without one the lists are read off the ratings, and the shape of what is published tells which
items somebody rated and how many users rated any.
"""

from __future__ import annotations

import dataclasses
import enum
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import BadRatings, InvalidSetting, check_number, shown
from dpmc_core.ratings import Catalogue, Origin, Ratings

_EXAMPLES = 5
MOST = 2**31 - 1  # users that an index of 32 bits counts


class Outside(enum.Enum):
    """What to do with ratings by users, or of items, that a catalogue does not hold."""

    ERROR = "error"
    LEAVE_OUT = "leave-out"


def read_ids(path: str | Path) -> tuple[str, ...]:
    """The ids of a text file in UTF-8, one a line; blank lines do not count. Raises BadRatings."""
    place = Path(path)
    if not place.is_file():
        raise BadRatings(f"there is no file {place} with one id a line")
    try:
        lines = place.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise BadRatings(f"{place.name} is no text in UTF-8: write one id a line") from None
    ids = tuple(line.strip() for line in lines if line.strip())
    if not ids:
        raise BadRatings(f"{place.name} has no ids: write one a line")
    return ids


def on_catalogue(
    ratings: Ratings,
    items: Sequence[str],
    users: Sequence[str] | int,
    outside: Outside = Outside.ERROR,
    shuffle: random.Random | None = None,
) -> tuple[Ratings, str]:
    """The ratings over all items and users of a catalogue, rated or not; and what was left out.

    Rows are in the order of the lists. users: their ids, or how many there are: then those with
    ratings come first, by id, or with `shuffle` at places drawn at random. A promise per cell or
    user needs that draw, from the operating system: whoever loses the last rating leaves the list,
    and all behind would move up by a row; drawn, only which rows there are matters.

    Raises BadRatings for ratings outside, where `outside` does not say to leave them out.
    """
    if ratings.item_ids is None or ratings.user_ids is None:
        raise BadRatings(
            "these users and items have no names, so no catalogue can list them: their numbers are"
            " taken as given with the ratings"
        )
    item_place = _places("items", items)
    of_item = np.array([item_place.get(id, -1) for id in ratings.item_ids], dtype=np.int64)
    if isinstance(users, int):
        of_user = _drawn(ratings, users, shuffle)
        total, names = users, None
    else:
        user_place = _places("users", users)
        of_user = np.array([user_place.get(id, -1) for id in ratings.user_ids], dtype=np.int64)
        total, names = len(users), tuple(users)
    u, i = of_user[ratings.users], of_item[ratings.items]
    inside = (u >= 0) & (i >= 0)
    told = _told(ratings, u, i)
    if told and outside is Outside.ERROR:
        raise BadRatings(f"{told}: list them, or leave these ratings out (--outside leave-out)")
    titles = dict(zip(ratings.item_ids, ratings.titles, strict=True)) if ratings.titles else {}
    public = dataclasses.replace(ratings.public, users=total, items=len(items))
    placed = Ratings.build(
        u[inside],
        i[inside],
        ratings.values[inside],
        public,
        times=None if ratings.times is None else ratings.times[inside],
        user_ids=names,
        item_ids=tuple(items),
        titles=tuple(titles.get(id, id) for id in items) if titles else None,
        prepared=ratings.prepared,
        catalogue=Catalogue(Origin.GIVEN, users_listed=names is not None),
    )
    return placed, told


def from_data(ratings: Ratings) -> Ratings:
    """The same ratings, their users and items said to be public though read off the ratings."""
    return dataclasses.replace(ratings, catalogue=Catalogue(Origin.FROM_DATA))


def _places(what: str, ids: Sequence[str]) -> dict[str, int]:
    found = {id: k for k, id in enumerate(ids)}
    if len(found) < len(ids):
        twice = next(id for k, id in enumerate(ids) if found[id] != k)
        raise BadRatings(f"the catalogue lists {what} twice, first {shown(twice)}")
    return found


def _drawn(ratings: Ratings, users: int, shuffle: random.Random | None) -> NDArray[np.int64]:
    """A place among so many for every user with ratings, in the order of their ids or drawn."""
    check_number("number of users", users, at_least=1, at_most=MOST, integer=True)
    rated = np.unique(ratings.users)
    if len(rated) > users:
        raise InvalidSetting("number of users", f">= {len(rated)}, who have ratings", users)
    places = np.full(ratings.public.users, -1, dtype=np.int64)
    chosen = range(len(rated)) if shuffle is None else shuffle.sample(range(users), len(rated))
    places[rated] = chosen
    return places


def _told(ratings: Ratings, users: NDArray[np.int64], items: NDArray[np.int64]) -> str:
    """How many ratings lie outside, and by whom or of what, in words; "": none."""
    count = int(np.count_nonzero((users < 0) | (items < 0)))
    if not count:
        return ""
    parts = []
    for what, index, place, ids in (
        ("items", ratings.items, items, ratings.item_ids),
        ("users", ratings.users, users, ratings.user_ids),
    ):
        missing = np.unique(index[place < 0]).tolist()
        if missing:
            first = ", ".join(shown((ids or ())[k]) for k in missing[:_EXAMPLES])
            more = ", ..." if len(missing) > _EXAMPLES else ""
            one = what.removesuffix("s") if len(missing) == 1 else what
            parts.append(f"{len(missing):,} {one} ({first}{more})")
    lie = "1 rating is" if count == 1 else f"{count:,} ratings are"
    return f"{lie} outside the catalogue, which lacks {' and '.join(parts)}"
