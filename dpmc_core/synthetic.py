"""Generators of rating data with a known or believable structure, pure functions of a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpmc_core import invented
from dpmc_core.errors import check_number
from dpmc_core.links import LOGISTIC, Link
from dpmc_core.model import Factors
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.taste import Floats, Genres, Ints, Shape, draw


class Generated(NamedTuple):
    """Ratings, the genres of each item, the true matrix: the last two where there are any."""

    ratings: Ratings
    genres: Genres | None = None
    truth: Factors | None = None


MOVIE_NIGHT = Shape(
    users=943,
    items=1682,
    low=1,
    histogram=(6110, 11370, 27145, 34174, 21201),
    least=20,
    user_tail=1.1,
    item_tail=1.7,
    user=0.45,
    item=0.55,
    taste=0.5,
    noise=0.75,
    whim=0.4,
    rank=4,
    drawn=0.5,
)
RESTAURANTS = Shape(
    users=138,
    items=130,
    low=0,
    histogram=(254, 421, 486),
    least=3,
    user_tail=0.5,
    item_tail=0.7,
    user=0.5,
    item=0.25,
    taste=0.3,
    noise=0.4,
    whim=0.0,
    rank=2,
    drawn=0.5,
)


def movie_night(seed: int) -> Generated:
    """Films rated 1..5 in MovieLens 100K's shape and rating histogram, with evening times."""
    return films(MOVIE_NIGHT, seed)


def restaurants(seed: int) -> Generated:
    """Neighbourhood restaurants rated 0, 1 or 2: few ratings, generous and strict guests."""
    rng = np.random.default_rng(seed)
    titles, genres = invented.restaurants(RESTAURANTS.items, rng)
    users, items, values = draw(RESTAURANTS, genres, rng)
    return Generated(_build(RESTAURANTS, users, items, values, None, titles), genres)


def jokes(seed: int, users: int = 12_000) -> Generated:
    """Jokes rated -10..10 with two decimals, dense: 10 that all rate, others in part.

    People differ in mean and in spread; jokes differ in mean; taste has rank 3.
    """
    rng = np.random.default_rng(seed)
    titles = invented.jokes()
    items, gauge = len(titles), 10
    counts = np.where(rng.random(users) < 0.28, items, rng.integers(36, 86, users))
    order = rng.random((users, items))
    order[:, rng.choice(items, gauge, replace=False)] = -1.0  # these come first for everybody
    seen = order.argsort(axis=1).argsort(axis=1) < counts[:, None]
    taste = rng.normal(size=(users, 3)) @ rng.normal(size=(3, items)) / np.sqrt(3)
    score = (
        0.7
        + 2.6 * rng.normal(size=(users, 1))
        + 1.7 * rng.normal(size=items)
        + np.exp(0.3 * rng.normal(size=(users, 1)))
        * (2.0 * taste + 3.8 * rng.normal(size=(users, items)))
    )
    values = np.round(10 * np.tanh(score / 7.5), 2) + 0.0  # no negative zero
    u, i = np.nonzero(seen)
    shape = PublicFacts(users=users, items=items, low=-10, high=10)
    ratings = Ratings.build(
        u, i, values[u, i], shape, user_ids=names(users), item_ids=names(items), titles=titles
    )
    return Generated(ratings)


def one_bit_lab(
    *,
    d1: int = 100,
    d2: int = 100,
    rank: int = 1,
    alpha: float = 1.0,
    observed: float = 0.15,
    link: Link = LOGISTIC,
    rng: np.random.Generator,
) -> Generated:
    """The one-bit model of LWHM22 (section 5): signs of a low-rank matrix, and that matrix.

    M = M1 M2' with entries of M1 (d1 x rank) and M2 (d2 x rank) uniform on [-1/2, 1/2], scaled to
    max |M| = alpha; round(observed d1 d2) cells, chosen uniformly, are +1 with probability
    link(M), else -1. With the defaults, the paper's, recovery is worse than answering 0 (too few
    observations for so small an alpha); observed = 0.8, alpha = 5 is a setting where it works.
    """
    check_number("d1", d1, at_least=1, integer=True)
    check_number("d2", d2, at_least=1, integer=True)
    check_number("rank", rank, at_least=1, at_most=min(d1, d2), integer=True)
    check_number("alpha", alpha, above=0)
    check_number("observed", observed, above=0, at_most=1)
    left, right = rng.uniform(-0.5, 0.5, (d1, rank)), rng.uniform(-0.5, 0.5, (d2, rank))
    left *= alpha / np.abs(left @ right.T).max()
    count = max(1, round(observed * d1 * d2))
    users, items = np.divmod(np.sort(rng.choice(d1 * d2, size=count, replace=False)), d2)
    truth = Factors(left, right)
    chance = link.probability(truth.predict(users, items))
    signs = np.where(rng.random(count) < chance, 1.0, -1.0)
    facts = PublicFacts(users=d1, items=d2, low=-1, high=1)
    return Generated(Ratings.build(users, items, signs, facts), truth=truth)


def films(shape: Shape, seed: int) -> Generated:
    """Films of any shape, with evening times; more than 2000 have no titles."""
    rng = np.random.default_rng(seed)
    titled = shape.items <= 2000
    titles, genres = invented.films(min(shape.items, 2000), rng)
    genres = [genres[k % len(genres)] for k in range(shape.items)]
    users, items, values = draw(shape, genres, rng)
    times = _evenings(users, shape.users, rng)
    return Generated(_build(shape, users, items, values, times, titles if titled else None), genres)


def _evenings(users: Ints, n_users: int, rng: np.random.Generator) -> Ints:
    """Unix seconds: each person has a first Friday within 30 weeks and rates on Friday evenings,
    one more evening per 60 ratings or so."""
    first_friday = 1_694_196_000  # 8 September 2023, 18:00 UTC
    week, evening = 7 * 86_400, 4 * 3600
    counts = np.bincount(users, minlength=n_users)
    evenings = 1 + rng.poisson(counts / 60)
    joined = rng.integers(0, 30, n_users)
    which = (rng.random(len(users)) * evenings[users]).astype(np.int64)
    return first_friday + (joined[users] + which) * week + rng.integers(0, evening, len(users))


def _build(
    shape: Shape,
    users: Ints,
    items: Ints,
    values: Floats,
    times: Ints | None,
    titles: Sequence[str] | None,
) -> Ratings:
    high = shape.low + len(shape.histogram) - 1
    return Ratings.build(
        users,
        items,
        values,
        PublicFacts(users=shape.users, items=shape.items, low=shape.low, high=high),
        times=times,
        user_ids=names(shape.users),
        item_ids=names(shape.items),
        titles=None if titles is None else tuple(titles),
    )


def names(count: int) -> tuple[str, ...]:
    """Ids of generated users or items: 1, 2, ..., count."""
    return tuple(str(k) for k in range(1, count + 1))


def known_truth(
    rng: np.random.Generator, users: int = 300, items: int = 200, density: float = 0.08
) -> Generated:
    """Whole-numbered ratings 1..5 of a low-rank matrix of true opinions, with noise of one point.

    The truth is a mean of 3.3 and three tastes, in rating points, before rounding and cutting.
    """
    left = np.column_stack([rng.normal(size=(users, 3)) / np.sqrt(3), np.full(users, 3.3)])
    right = np.column_stack([rng.normal(size=(items, 3)), np.ones(items)])
    u, i = np.nonzero(rng.random((users, items)) < density)
    opinions = np.einsum("kr,kr->k", left[u], right[i]) + rng.normal(size=len(u))
    public = PublicFacts(users=users, items=items, low=1, high=5)
    ratings = Ratings.build(u, i, np.clip(np.rint(opinions), 1, 5), public)
    return Generated(ratings, truth=Factors(left, right))
