"""Generators of rating data with a known or believable structure, pure functions of a seed.

Believable ratings come from a low-rank model of taste: who rates what, and how. Clicks on books are
implicit feedback with long tails and times.

JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).
LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy" (2022).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core import facts
from dpmc_core.errors import check_number
from dpmc_core.links import LOGISTIC, Link
from dpmc_core.model import Factors
from dpmc_core.ratings import PublicFacts, Ratings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Genres = list[tuple[str, ...]]
Titles = tuple[str, ...] | None

# Words, and patterns of titles by genre, in which {a} is an adjective and {n} a noun.
_WORDS: Mapping[str, Any] = facts.load("dpmc_core.data", "names.toml")
_FILMS = ("films", (0.45, 0.4, 0.15))  # patterns, and shares of those with 1, 2, ... genres
_BOOKS = ("books", (0.7, 0.3))

ROWS = 512  # users drawn at once: bounds memory at ROWS x items
BLOCK = 4096  # the same for `rank_one`


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Who takes what: the part that generated ratings and clicks share.

    least: fewest items of a user; most: the most, as a share of all items. user_tail, item_tail:
    log-normal spread of activity and popularity; bend: keeps the most popular item from being
    taken by all. rank: dimension of taste; scatter: how far items lie from their genres; fade:
    weight of each direction of taste over that of the one before; drawn: how strongly people take
    what they like.
    """

    users: int
    items: int
    least: int
    most: float = 0.45
    user_tail: float
    item_tail: float
    bend: float = 0.08
    rank: int
    scatter: float = 0.5
    fade: float = 0.6
    drawn: float


@dataclass(frozen=True, kw_only=True)
class Shape(Crowd):
    """What generated ratings look like.

    histogram: how many ratings of each level, lowest first; their sum is the number of ratings.
    user, item, taste, noise: standard deviations of the four parts of a score, relative to each
    other; whim: log-normal spread of the noise over users.
    """

    low: int
    histogram: tuple[int, ...]
    user: float
    item: float
    taste: float
    noise: float
    whim: float

    @property
    def total(self) -> int:
        return sum(self.histogram)

    @property
    def public(self) -> PublicFacts:
        high = self.low + len(self.histogram) - 1
        return PublicFacts(users=self.users, items=self.items, low=self.low, high=high)


@dataclass(frozen=True, kw_only=True)
class Shop(Crowd):
    """What generated clicks look like."""

    users: int = 2500
    items: int = 1200
    clicks: int = 50_000
    least: int = 5
    most: float = 0.3
    user_tail: float = 0.9
    item_tail: float = 1.3
    bend: float = 0.1
    rank: int = 8
    scatter: float = 0.4
    fade: float = 1.0
    drawn: float = 1.6


def draw(shape: Shape, genres: Genres, rng: np.random.Generator) -> tuple[Ints, Ints, Floats]:
    """Cells and values: score = user + item + taste . genre position + noise, cut into levels."""
    liking, fame = _liking(shape, genres, rng)
    quality = 0.6 * fame + 0.8 * rng.normal(size=shape.items)
    kindness = rng.normal(size=shape.users)
    whim = np.exp(shape.whim * rng.normal(size=shape.users))  # some people are hard to predict
    users, items = _taken(shape, shape.total, liking, fame, rng)
    score = (
        shape.user * kindness[users]
        + shape.item * quality[items]
        + shape.taste * liking.predict(users, items)
        + shape.noise * whim[users] * rng.normal(size=len(users))
    )
    values = np.empty(len(users))
    levels = np.arange(shape.low, shape.low + len(shape.histogram))
    values[np.argsort(score, kind="stable")] = np.repeat(levels, shape.histogram)
    return users, items, values


def _liking(crowd: Crowd, genres: Genres, rng: np.random.Generator) -> tuple[Factors, Floats]:
    """How users like items, taste . position among genres, and the fame of the items."""
    names = sorted({name for own in genres for name in own})
    centre = dict(zip(names, rng.normal(size=(len(names), crowd.rank)), strict=True))
    position = np.array([np.mean([centre[g] for g in own], axis=0) for own in genres])
    position += crowd.scatter * rng.normal(size=position.shape)
    position *= crowd.fade ** np.arange(crowd.rank)
    position /= np.sqrt(np.mean(np.sum(position**2, axis=1)))
    taste = rng.normal(size=(crowd.users, crowd.rank))
    return Factors(taste, position), rng.normal(size=crowd.items)


def _taken(
    crowd: Crowd, total: int, liking: Factors, fame: Floats, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """`total` cells, in proportion to exp(popularity + drawn x liking) in each user's row."""
    tail = np.exp(crowd.user_tail * rng.normal(size=crowd.users))
    counts = integers(tail, total, crowd.least, int(crowd.most * crowd.items))
    appeal = crowd.item_tail * (fame - crowd.bend * fame**2)
    items = np.concatenate(
        [
            choose(appeal + crowd.drawn * liking.left[rows] @ liking.right.T, counts[rows], rng)
            for rows in np.array_split(np.arange(crowd.users), -(-crowd.users // ROWS))
        ]
    )
    return np.repeat(np.arange(crowd.users), counts), everything_once(items, crowd.items, rng)


def integers(weights: Floats, total: int, least: int, most: int) -> Ints:
    """Integers in least..most with the given sum, roughly least + weights x a constant."""
    low, high = 0.0, float(total)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.minimum(np.floor(least + middle * weights), most).sum() <= total:
            low = middle
        else:
            high = middle
    counts = np.minimum(np.floor(least + low * weights), most).astype(np.int64)
    short = total - int(counts.sum())
    counts[np.flatnonzero(counts < most)[:short]] += 1
    return counts


def choose(appeal: Floats, counts: Ints, rng: np.random.Generator) -> Ints:
    """For each row, `counts` distinct columns drawn in proportion to exp(appeal), one row after
    another: the first finishers of a race of exponential clocks."""
    race = rng.standard_exponential(appeal.shape) * np.exp(-appeal)
    return np.concatenate(
        [np.argpartition(row, n - 1)[:n] for row, n in zip(race, counts, strict=True)]
    )


def everything_once(items: Ints, n_items: int, rng: np.random.Generator) -> Ints:
    """Give every item a rating: users of the most rated item swap it for an unrated one."""
    items = items.copy()
    counts = np.bincount(items, minlength=n_items)
    missing = np.flatnonzero(counts == 0)
    swaps = rng.permutation(np.flatnonzero(items == counts.argmax()))[: len(missing)]
    items[swaps] = missing[: len(swaps)]
    return items


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
    names: dict[str, tuple[str, ...]] = {}
    while len(names) < RESTAURANTS.items:
        kitchen = str(rng.choice(list(_WORDS["restaurants"])))
        pattern = str(rng.choice(_WORDS["restaurants"][kitchen]))
        adjective, noun = rng.choice(_WORDS["adjectives"]), rng.choice(_WORDS["nouns"])
        names.setdefault(pattern.format(a=adjective, n=noun), (kitchen,))
    kitchens = list(names.values())
    users, items, values = draw(RESTAURANTS, kitchens, rng)
    return Generated(_build(RESTAURANTS.public, users, items, values, tuple(names)), kitchens)


def jokes(seed: int) -> Generated:
    """Jokes rated -10..10 with two decimals, dense: 10 that all rate, others in part.

    People differ in mean and in spread; jokes differ in mean; taste has rank 3.
    """
    rng = np.random.default_rng(seed)
    titles = [
        f"{'An' if who[0] in 'aeiou' else 'A'} {who} walks into a {where}..."
        for who in _WORDS["who"]
        for where in _WORDS["where"]
    ]
    users, items, gauge = 12_000, len(titles), 10
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
    public = PublicFacts(users=users, items=items, low=-10, high=10)
    return Generated(_build(public, u, i, values[u, i], tuple(titles)))


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


def rank_one(
    *,
    users: int = 300,
    items: int = 100,
    per_user: int = 30,
    levels: int = 0,
    rng: np.random.Generator,
) -> Generated:
    """Ratings that are the entries of a matrix of rank 1 themselves, `per_user` of every row.

    Y = u v' with entries in -1..1 (unit infinity norm; u and v uniform on -1..1, scaled), seen
    without noise; levels > 1: rounded to so many values, evenly from -1 to 1. The synthetic data
    of JTT18, section 4, which leave the law of u and v open. Rows are drawn in blocks: of the whole
    matrix nothing is held but the seen cells, 16 bytes each.
    """
    check_number("users", users, at_least=1, integer=True)
    check_number("items", items, at_least=1, integer=True)
    check_number("ratings per user", per_user, at_least=1, at_most=items, integer=True)
    if levels != 0:
        check_number("levels", levels, at_least=2, at_most=1000, integer=True)
    left, right = rng.uniform(-1, 1, users), rng.uniform(-1, 1, items)
    left, right = left / np.abs(left).max(), right / np.abs(right).max()
    seen = np.empty(users * per_user, dtype=np.int32)
    values = np.empty(users * per_user)
    for start in range(0, users, BLOCK):
        stop = min(start + BLOCK, users)
        keys = rng.random((stop - start, items), dtype=np.float32)
        chosen = np.sort(np.argpartition(keys, per_user - 1, axis=1)[:, :per_user], axis=1)
        found = left[start:stop, None] * right[chosen]
        if levels:
            step = 2 / (levels - 1)
            found = np.rint((found + 1) / step) * step - 1
        block = slice(start * per_user, stop * per_user)
        seen[block] = chosen.ravel()
        values[block] = found.ravel()
    public = PublicFacts(users=users, items=items, low=-1, high=1, cap=per_user)
    who = np.repeat(np.arange(users, dtype=np.int32), per_user)
    # Sorted and valid as drawn: `Ratings.build` would hold three more columns to find that out.
    ratings = Ratings(users=who, items=seen, values=values, public=public)
    return Generated(ratings, truth=Factors(left[:, None], right[:, None]))


def jtt18(
    *, users: int = 500_000, items: int = 400, per_user: int = 80, rng: np.random.Generator
) -> Generated:
    """`rank_one` at the size of JTT18, section 4: 80 of the 400 (or 900) ratings of every user."""
    return rank_one(users=users, items=items, per_user=per_user, rng=rng)


def films(shape: Shape, seed: int) -> Generated:
    """Films of any shape, with evening times; more than 2000 have no titles."""
    rng = np.random.default_rng(seed)
    titles, genres = _stock(_FILMS, shape.items, rng)
    users, items, values = draw(shape, genres, rng)
    times = _evenings(users, shape.users, rng)
    return Generated(_build(shape.public, users, items, values, titles, times), genres)


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


def _stock(
    kind: tuple[str, tuple[float, ...]], count: int, rng: np.random.Generator
) -> tuple[Titles, Genres]:
    """Distinct titles, none for more than 2000 items, and genres of each, the first of which shapes
    the title."""
    patterns, shares = _WORDS[kind[0]], kind[1]
    adjectives, nouns = _WORDS["adjectives"], _WORDS["nouns"]
    titles, genres = [], []
    pairs = rng.choice(len(adjectives) * len(nouns), size=min(count, 2000), replace=False)
    for adjective, noun in zip(*np.divmod(pairs, len(nouns)), strict=True):
        many = rng.choice(len(shares), p=shares) + 1
        own = rng.choice(list(patterns), size=many, replace=False)
        pattern = str(rng.choice(patterns[own[0]]))
        titles.append(pattern.format(a=adjectives[adjective], n=nouns[noun]))
        genres.append(tuple(map(str, own)))
    repeated = [genres[k % len(genres)] for k in range(count)]
    return (tuple(titles) if count <= 2000 else None), repeated


def _build(
    public: PublicFacts,
    users: Ints,
    items: Ints,
    values: Floats,
    titles: Titles,
    times: Ints | None = None,
) -> Ratings:
    return Ratings.build(
        users,
        items,
        values,
        public,
        times=times,
        user_ids=names(public.users),
        item_ids=names(public.items),
        titles=titles,
    )


def names(count: int) -> tuple[str, ...]:
    """Ids of generated users or items: 1, 2, ..., count."""
    return tuple(str(k) for k in range(1, count + 1))


_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
_ACTIVITY = (20, 27, 44, 96, 208, 400, 907, 1_800)  # ratings of a user, at those shares of users
_FAME = (1, 7, 33, 124, 350, 730, 1_785, 3_000)  # ratings of an item, at those shares of items


def long_tail(
    seed: int, *, users: int = 6_000, items: int = 3_700, ratings: int = 1_000_000
) -> Generated:
    """Many users, a long tail of items and whole-numbered ratings 1..5, as catalogues have them.

    A score is user (sd .35) + item (sd .55) + taste (rank 12, variance .14) + noise, in points;
    taste also sways who rates what, as strongly as on film sites; active users are a little
    stricter, known items better liked.
    """
    rng = np.random.default_rng(seed)
    titles, genres = _stock(_FILMS, items, rng)
    activity, fame = (
        np.interp(rng.permutation((np.arange(size) + 0.5) / size), _SHARES, np.log(known))
        for size, known in ((users, _ACTIVITY), (items, _FAME))
    )
    spread = np.sqrt(0.14 * 0.75 ** np.arange(12) / (0.75 ** np.arange(12)).sum())
    liking = Factors(rng.normal(size=(users, 12)) * spread, rng.normal(size=(items, 12)))
    counts = integers(np.exp(activity) - 20, ratings, 20, int(0.6 * items))
    chosen = [
        choose(1.2 * fame + 3 * liking.left[rows] @ liking.right.T, counts[rows], rng)
        for rows in np.array_split(np.arange(users), -(-users // ROWS))
    ]
    u, i = np.repeat(np.arange(users), counts), everything_once(np.concatenate(chosen), items, rng)
    score = (
        (0.35 * _leaning(activity, -0.08, rng))[u]
        + (0.55 * _leaning(fame, 0.22, rng))[i]
        + liking.predict(u, i)
        + 0.75 * rng.normal(size=len(u))
    )
    levels = np.cumsum(np.array([0.06, 0.11, 0.26, 0.35])) / 1.01
    values = 1.0 + np.searchsorted(np.quantile(score, levels), score).astype(float)
    public = PublicFacts(users=users, items=items, low=1, high=5)
    times = _evenings(u, users, rng)
    return Generated(_build(public, u, i, values, titles, times), genres)


def _leaning(towards: Floats, correlation: float, rng: np.random.Generator) -> Floats:
    """Standard normal numbers with this correlation with another column."""
    own = rng.normal(size=len(towards))
    other = (towards - towards.mean()) / towards.std()
    leaning: Floats = correlation * other + np.sqrt(1 - correlation**2) * own
    return leaning


def known_truth(rng: np.random.Generator, *, density: float) -> Generated:
    """Whole-numbered ratings 1..5 of a low-rank matrix of true opinions, with noise of one point.

    300 users and 200 items. The truth is a mean of 3.3 and three tastes, in rating points, before
    rounding and cutting.
    """
    users, items = 300, 200
    left = np.column_stack([rng.normal(size=(users, 3)) / np.sqrt(3), np.full(users, 3.3)])
    right = np.column_stack([rng.normal(size=(items, 3)), np.ones(items)])
    u, i = np.nonzero(rng.random((users, items)) < density)
    truth = Factors(left, right)
    opinions = truth.predict(u, i) + rng.normal(size=len(u))
    public = PublicFacts(users=users, items=items, low=1, high=5)
    ratings = Ratings.build(u, i, np.clip(np.rint(opinions), 1, 5), public)
    return Generated(ratings, truth=truth)


def bookshop_clicks(seed: int) -> Generated:
    """2500 readers, 1200 books, 50,000 clicks within a year."""
    return shop(Shop(), seed)


def shop(shape: Shop, seed: int) -> Generated:
    """A reader clicks in proportion to exp(popularity + drawn x taste . place among genres)."""
    rng = np.random.default_rng(seed)
    titles, genres = _stock(_BOOKS, shape.items, rng)
    liking, fame = _liking(shape, genres, rng)
    users, items = _taken(shape, shape.clicks, liking, fame, rng)
    public = PublicFacts(users=shape.users, items=shape.items, low=0, high=1)
    times = _visits(users, shape.users, rng)
    ratings = _build(public, users, items, np.ones(len(users)), titles, times)
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
