"""Generated clicks on books: implicit feedback with long tails and times, a function of a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmc_core import invented
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.synthetic import Generated, names
from dpmc_core.taste import ROWS, Ints, choose, everything_once, integers


@dataclass(frozen=True, kw_only=True)
class Shop:
    """What generated clicks look like.

    least: fewest clicks of a reader. user_tail, item_tail: log-normal spread of activity and
    popularity. rank: dimension of taste; drawn: how strongly readers click on what they like.
    """

    users: int = 2500
    items: int = 1200
    clicks: int = 50_000
    least: int = 5
    user_tail: float = 0.9
    item_tail: float = 1.3
    rank: int = 8
    drawn: float = 1.6


def bookshop_clicks(seed: int) -> Generated:
    """2500 readers, 1200 books, 50,000 clicks within a year."""
    return shop(Shop(), seed)


def shop(shape: Shop, seed: int) -> Generated:
    """A reader clicks in proportion to exp(popularity + drawn x taste . place among genres)."""
    rng = np.random.default_rng(seed)
    titles, genres = invented.books(min(shape.items, 2000), rng)
    genres = [genres[k % len(genres)] for k in range(shape.items)]
    own_names = sorted({name for own in genres for name in own})
    centre = dict(zip(own_names, rng.normal(size=(len(own_names), shape.rank)), strict=True))
    place = np.array([np.mean([centre[g] for g in own], axis=0) for own in genres])
    place += 0.4 * rng.normal(size=place.shape)
    place /= np.sqrt(np.mean(np.sum(place**2, axis=1)))
    taste = rng.normal(size=(shape.users, shape.rank))
    fame = rng.normal(size=shape.items)
    appeal = shape.item_tail * (fame - 0.1 * fame**2)

    tail = np.exp(shape.user_tail * rng.normal(size=shape.users))
    counts = integers(tail, shape.clicks, shape.least, int(0.3 * shape.items))
    users = np.repeat(np.arange(shape.users), counts)
    items = np.concatenate(
        [
            choose(appeal + shape.drawn * taste[rows] @ place.T, counts[rows], rng)
            for rows in np.array_split(np.arange(shape.users), -(-shape.users // ROWS))
        ]
    )
    items = everything_once(items, shape.items, rng)
    ratings = Ratings.build(
        users,
        items,
        np.ones(len(users)),
        PublicFacts(users=shape.users, items=shape.items, low=0, high=1),
        times=_visits(users, shape.users, rng),
        user_ids=names(shape.users),
        item_ids=names(shape.items),
        titles=tuple(titles) if shape.items <= len(titles) else None,
    )
    return Generated(ratings, genres)


def _visits(users: Ints, n_users: int, rng: np.random.Generator) -> Ints:
    """Unix seconds: each reader comes on some days of one year, once per 8 clicks or so."""
    first_day, day = 1_672_531_200, 86_400  # 1 January 2023, 0:00 UTC
    counts = np.bincount(users, minlength=n_users)
    days = 1 + rng.poisson(counts / 8)
    width = int(days.max())
    visits = rng.integers(0, 365, (n_users, width))
    which = (rng.random(len(users)) * days[users]).astype(np.int64)
    clock = np.clip(rng.normal(20 * 3600, 3 * 3600, len(users)), 0, day - 1).astype(np.int64)
    return first_day + visits[users, which] * day + clock
