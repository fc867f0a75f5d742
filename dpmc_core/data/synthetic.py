"""Generated ratings with a known or believable structure, and the samples of the package.

Generators are pure functions of `rng`, a seed or a generator as `np.random.default_rng` takes it,
and keyword options. Believable ratings come from a low-rank model of taste: who rates what, and
how. Clicks on books are implicit feedback with long tails and times. `python -m dpmc_core.data`
writes every file of sample_data/ again, byte for byte.

JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).
LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy" (2022).
"""

from __future__ import annotations

import csv
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core import archives, facts
from dpmc_core.arrays import Floats, Ints, Rng
from dpmc_core.errors import BadRatings, check_number
from dpmc_core.links import LOGISTIC, Link
from dpmc_core.model import Factors
from dpmc_core.ratings import PublicFacts, Ratings, numbered

Genres = list[tuple[str, ...]]
Titles = tuple[str, ...] | None
Seed = int | Rng

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


def draw(shape: Shape, genres: Genres, rng: Rng) -> tuple[Ints, Ints, Floats]:
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


def _liking(crowd: Crowd, genres: Genres, rng: Rng) -> tuple[Factors, Floats]:
    """How users like items, taste . position among genres, and the fame of the items."""
    names = sorted({name for own in genres for name in own})
    centre = dict(zip(names, rng.normal(size=(len(names), crowd.rank)), strict=True))
    position = np.array([np.mean([centre[g] for g in own], axis=0) for own in genres])
    position += crowd.scatter * rng.normal(size=position.shape)
    position *= crowd.fade ** np.arange(crowd.rank)
    position /= np.sqrt(np.mean(np.sum(position**2, axis=1)))
    taste = rng.normal(size=(crowd.users, crowd.rank))
    return Factors(taste, position), rng.normal(size=crowd.items)


def _taken(crowd: Crowd, total: int, liking: Factors, fame: Floats, rng: Rng) -> tuple[Ints, Ints]:
    """`total` cells, in proportion to exp(popularity + drawn x liking) in each user's row."""
    tail = np.exp(crowd.user_tail * rng.normal(size=crowd.users))
    counts = integers(tail, total, crowd.least, int(crowd.most * crowd.items))
    appeal = crowd.item_tail * (fame - crowd.bend * fame**2)
    return _chosen(counts, appeal, crowd.drawn, liking, rng)


def integers(weights: Floats, total: int, least: int, most: int) -> Ints:
    """Integers in least..most with the given sum, roughly least + weights x a constant."""

    def cut(scale: float) -> Ints:
        return np.minimum(np.floor(least + scale * weights), most).astype(np.int64)

    low, high = 0.0, float(total)
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cut(middle).sum() <= total else (low, middle)
    counts = cut(low)
    counts[np.flatnonzero(counts < most)[: total - int(counts.sum())]] += 1
    return counts


def _chosen(
    counts: Ints, appeal: Floats, drawn: float, liking: Factors, rng: Rng
) -> tuple[Ints, Ints]:
    """Cells of each user, `counts` of them, in proportion to exp(appeal + drawn x liking): the
    first finishers of a race of exponential clocks. Every item is in one: users of the one that
    most have swap it for one that nobody has."""
    found: list[Ints] = []
    for rows in np.array_split(np.arange(len(counts)), -(-len(counts) // ROWS)):
        score = appeal + drawn * liking.left[rows] @ liking.right.T
        race = rng.standard_exponential(score.shape) * np.exp(-score)
        found += [
            np.argpartition(row, n - 1)[:n] for row, n in zip(race, counts[rows], strict=True)
        ]
    items = np.concatenate(found)
    having = np.bincount(items, minlength=len(appeal))
    missing = np.flatnonzero(having == 0)
    swaps = rng.permutation(np.flatnonzero(items == having.argmax()))[: len(missing)]
    items[swaps] = missing[: len(swaps)]
    return np.repeat(np.arange(len(counts)), counts), items


class Generated(NamedTuple):
    """Ratings, the genres of each item, the true matrix: the last two where there are any."""

    ratings: Ratings
    genres: Genres | None = None
    truth: Factors | None = None


def _named(
    public: PublicFacts,
    cells: tuple[Ints, Ints, Floats],
    titles: Titles,
    times: Ints | None = None,
    genres: Genres | None = None,
) -> Generated:
    ratings = Ratings.build(
        *cells,
        public,
        times=times,
        user_ids=numbered(public.users),
        item_ids=numbered(public.items),
        titles=titles,
    )
    return Generated(ratings, genres)


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


def films(rng: Seed, shape: Shape = MOVIE_NIGHT) -> Generated:
    """Films, with evening times; more than 2000 have no titles. By default rated 1..5 in MovieLens
    100K's shape and rating histogram."""
    rng = np.random.default_rng(rng)
    titles, genres = _stock(_FILMS, shape.items, rng)
    cells = draw(shape, genres, rng)
    times = _evenings(cells[0], shape.users, rng)
    return _named(shape.public, cells, titles, times, genres)


def restaurants(rng: Seed) -> Generated:
    """Neighbourhood restaurants rated 0, 1 or 2: few ratings, generous and strict guests."""
    rng = np.random.default_rng(rng)
    names: dict[str, tuple[str, ...]] = {}
    while len(names) < RESTAURANTS.items:
        kitchen = str(rng.choice(list(_WORDS["restaurants"])))
        pattern = str(rng.choice(_WORDS["restaurants"][kitchen]))
        adjective, noun = rng.choice(_WORDS["adjectives"]), rng.choice(_WORDS["nouns"])
        names.setdefault(pattern.format(a=adjective, n=noun), (kitchen,))
    kitchens = list(names.values())
    cells = draw(RESTAURANTS, kitchens, rng)
    return _named(RESTAURANTS.public, cells, tuple(names), genres=kitchens)


def jokes(rng: Seed) -> Generated:
    """Jokes rated -10..10 with two decimals, dense: 10 that all rate, others in part.

    People differ in mean and in spread; jokes differ in mean; taste has rank 3.
    """
    rng = np.random.default_rng(rng)
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
    return _named(public, (u, i, values[u, i]), tuple(titles))


def one_bit_lab(
    rng: Seed,
    *,
    d1: int = 100,
    d2: int = 100,
    rank: int = 1,
    alpha: float = 1.0,
    observed: float = 0.15,
    link: Link = LOGISTIC,
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
    rng = np.random.default_rng(rng)
    left, right = rng.uniform(-0.5, 0.5, (d1, rank)), rng.uniform(-0.5, 0.5, (d2, rank))
    left *= alpha / np.abs(left @ right.T).max()
    count = max(1, round(observed * d1 * d2))
    users, items = np.divmod(np.sort(rng.choice(d1 * d2, size=count, replace=False)), d2)
    truth = Factors(left, right)
    chance = link.probability(truth.predict(users, items))
    signs = np.where(rng.random(count) < chance, 1.0, -1.0)
    public = PublicFacts(users=d1, items=d2, low=-1, high=1)
    return Generated(Ratings.build(users, items, signs, public), truth=truth)


def rank_one(
    rng: Seed,
    *,
    users: int = 300,
    items: int = 100,
    per_user: int = 30,
    levels: int = 0,
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
    rng = np.random.default_rng(rng)
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


def _evenings(users: Ints, n_users: int, rng: Rng) -> Ints:
    """Unix seconds: each person has a first Friday within 30 weeks and rates on Friday evenings,
    one more evening per 60 ratings or so."""
    first_friday = 1_694_196_000  # 8 September 2023, 18:00 UTC
    week, evening = 7 * 86_400, 4 * 3600
    counts = np.bincount(users, minlength=n_users)
    evenings = 1 + rng.poisson(counts / 60)
    joined = rng.integers(0, 30, n_users)
    which = (rng.random(len(users)) * evenings[users]).astype(np.int64)
    return first_friday + (joined[users] + which) * week + rng.integers(0, evening, len(users))


def _stock(kind: tuple[str, tuple[float, ...]], count: int, rng: Rng) -> tuple[Titles, Genres]:
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


_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
_ACTIVITY = (20, 27, 44, 96, 208, 400, 907, 1_800)  # ratings of a user, at those shares of users
_FAME = (1, 7, 33, 124, 350, 730, 1_785, 3_000)  # ratings of an item, at those shares of items


def long_tail(
    rng: Seed, *, users: int = 6_000, items: int = 3_700, ratings: int = 1_000_000
) -> Generated:
    """Many users, a long tail of items and whole-numbered ratings 1..5, as catalogues have them.

    A score is user (sd .35) + item (sd .55) + taste (rank 12, variance .14) + noise, in points;
    taste also sways who rates what, as strongly as on film sites; active users are a little
    stricter, known items better liked.
    """
    rng = np.random.default_rng(rng)
    titles, genres = _stock(_FILMS, items, rng)
    activity, fame = (
        np.interp(rng.permutation((np.arange(size) + 0.5) / size), _SHARES, np.log(known))
        for size, known in ((users, _ACTIVITY), (items, _FAME))
    )
    spread = np.sqrt(0.14 * 0.75 ** np.arange(12) / (0.75 ** np.arange(12)).sum())
    liking = Factors(rng.normal(size=(users, 12)) * spread, rng.normal(size=(items, 12)))
    counts = integers(np.exp(activity) - 20, ratings, 20, int(0.6 * items))
    u, i = _chosen(counts, 1.2 * fame, 3, liking, rng)
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
    return _named(public, (u, i, values), titles, times, genres)


def _leaning(towards: Floats, correlation: float, rng: Rng) -> Floats:
    """Standard normal numbers with this correlation with another column."""
    own = rng.normal(size=len(towards))
    other = (towards - towards.mean()) / towards.std()
    leaning: Floats = correlation * other + np.sqrt(1 - correlation**2) * own
    return leaning


def known_truth(rng: Seed, *, density: float) -> Generated:
    """Whole-numbered ratings 1..5 of a low-rank matrix of true opinions, with noise of one point.

    300 users and 200 items. The truth is a mean of 3.3 and three tastes, in rating points, before
    rounding and cutting.
    """
    rng = np.random.default_rng(rng)
    users, items = 300, 200
    left = np.column_stack([rng.normal(size=(users, 3)) / np.sqrt(3), np.full(users, 3.3)])
    right = np.column_stack([rng.normal(size=(items, 3)), np.ones(items)])
    u, i = np.nonzero(rng.random((users, items)) < density)
    truth = Factors(left, right)
    opinions = truth.predict(u, i) + rng.normal(size=len(u))
    public = PublicFacts(users=users, items=items, low=1, high=5)
    ratings = Ratings.build(u, i, np.clip(np.rint(opinions), 1, 5), public)
    return Generated(ratings, truth=truth)


def shop(rng: Seed, shape: Shop = Shop()) -> Generated:
    """A reader clicks in proportion to exp(popularity + drawn x taste . place among genres). By
    default 2500 readers, 1200 books, 50,000 clicks within a year."""
    rng = np.random.default_rng(rng)
    titles, genres = _stock(_BOOKS, shape.items, rng)
    users, items = _taken(shape, shape.clicks, *_liking(shape, genres, rng), rng)
    public = PublicFacts(users=shape.users, items=shape.items, low=0, high=1)
    times = _visits(users, shape.users, rng)
    return _named(public, (users, items, np.ones(len(users))), titles, times, genres)


def _visits(users: Ints, n_users: int, rng: Rng) -> Ints:
    """Unix seconds: each reader comes on some days of one year, once per 8 clicks or so."""
    first_day, day = 1_672_531_200, 86_400  # 1 January 2023, 0:00 UTC
    counts = np.bincount(users, minlength=n_users)
    days = 1 + rng.poisson(counts / 8)
    width = int(days.max())
    visits = rng.integers(0, 365, (n_users, width))
    which = (rng.random(len(users)) * days[users]).astype(np.int64)
    clock = np.clip(rng.normal(20 * 3600, 3 * 3600, len(users)), 0, day - 1).astype(np.int64)
    return first_day + visits[users, which] * day + clock


# Samples of the package: stored, read back --------------------------------------------------------

FOLDER = Path(__file__).resolve().parents[2] / "sample_data"  # the same in a wheel
LICENCE = "CC0 1.0: generated, free for any use"
SEED = 20_240_501


@dataclass(frozen=True)
class Sample:
    """A generated data set. generate: from a seed, and options where it can be drawn anew.

    decimals: digits after the point that its ratings keep in the file. clicks: interactions without
    a value, for ranking. facts: what its genres tell of the truth; "" where there are none, or
    they tell nothing. items: what is rated, in a word.
    """

    title: str
    made: str
    generate: Callable[..., Generated]
    decimals: int = 0
    clicks: bool = False
    facts: str = ""
    items: str = "titles"


_TOLD = "its genre tells around which centres of taste an item lies, not where; nothing of quality"
SAMPLES: Mapping[str, Sample] = {
    "movie-night": Sample(
        "Movie night",
        "generated: a score is the sum of the user's kindness, the film's quality, taste (rank 4)"
        " times the film's place among its genres, and noise that differs between users; scores"
        " are cut into 1..5 with MovieLens 100K's numbers of users, films and ratings of each"
        " level; titles are invented",
        films,
        facts=_TOLD,
        items="films",
    ),
    "restaurants": Sample(
        "Neighbourhood restaurants",
        "generated like movie night, smaller: 0, 1 or 2 for 130 invented restaurants, with the"
        " numbers of ratings of each level of the UCI restaurant data; guests differ much in"
        " kindness, taste has rank 2",
        restaurants,
        facts=_TOLD,
        items="restaurants",
    ),
    "jokes": Sample(
        "Jokes",
        "generated: 12,000 people rate most of 100 jokes from -10 to 10; they differ in mean and"
        " in spread, jokes in mean, taste has rank 3, and most of the rest is noise, as in Jester",
        jokes,
        decimals=2,
        items="jokes",
    ),
    "one-bit-lab": Sample(
        "One-bit lab",
        "generated in the setting of LWHM22, section 5: signs of a 100 x 100 matrix of rank 1 with"
        " entries up to 1, 15 % observed through the logistic link; the true matrix is known. The"
        " signs are nearly coin flips: even without privacy nothing beats guessing. Where it can"
        " be learned: One-bit lab, strong signal",
        one_bit_lab,
    ),
    "one-bit-lab-strong": Sample(
        "One-bit lab, strong signal",
        "generated by the model of LWHM22, section 5, where it can be learned: signs of a 100 x 100"
        " matrix of rank 1 with entries up to 5 instead of 1, 80 % observed instead of 15 %,"
        " through the logistic link; the true matrix is known",
        partial(one_bit_lab, alpha=5.0, observed=0.8),
    ),
    "long-tail": Sample(
        "Long tail",
        "generated: 600 people, 1,200 films, 100,000 ratings 1..5 with long tails of activity and"
        " of fame; a score is the sum of the user's and the film's effect, taste (rank 12), which"
        " also sways who rates what, and noise; titles are invented. At ten times the size:"
        " long-tail-full",
        partial(long_tail, users=600, items=1_200, ratings=100_000),
        items="films",
    ),
    "bookshop-clicks": Sample(
        "Bookshop clicks",
        "generated: 2500 readers click on 1200 invented books in proportion to exp(popularity +"
        " taste (rank 8) times the book's place among its shelves); activity and popularity are"
        " log-normal, clicks fall on a few days of one year",
        shop,
        clicks=True,
        facts=_TOLD,
        items="books",
    ),
}


# Not shipped: generated when opened, the largest in some ten seconds.
ON_DEMAND: Mapping[str, Sample] = {
    "long-tail-full": Sample(
        "Long tail, a million ratings",
        "generated like long-tail: 6,000 people, 3,700 films, a million ratings",
        long_tail,
    ),
    "rank-one": Sample(
        "Rank one",
        "generated: ratings are entries of a 300 x 100 matrix of rank 1 with entries up to 1"
        " themselves, 30 of every user, without noise; the true matrix is known",
        rank_one,
    ),
    "jtt18-synthetic": Sample(
        "Rank one at the size of JTT18",
        "generated as in JTT18, section 4: 80 entries a user of a 500,000 x 400 matrix of rank 1"
        " with entries up to 1 (900 items for its figure 3: items=900); the true matrix is known",
        partial(rank_one, users=500_000, items=400, per_user=80),
    ),
}

ALL = {**SAMPLES, **ON_DEMAND}
# Those that can be drawn anew, NAME:OPTION=VALUE,..., with the options of their generators.
DRAWN = ("one-bit-lab", "rank-one", "jtt18-synthetic")


def _defaults(name: str) -> dict[str, Any]:
    _, *own = inspect.signature(ALL[name].generate).parameters.values()
    return {parameter.name: parameter.default for parameter in own}


def options_of(name: str) -> tuple[str, ...]:
    """The options with which one of DRAWN can be drawn anew."""
    return *_defaults(name), "seed"


def cells_of(name: str, options: Mapping[str, Any]) -> float:
    """Users x items of one of DRAWN with these options."""
    given = _defaults(name) | dict(options)
    return math.prod(float(given[key]) for key in ("users", "items", "d1", "d2") if key in given)


def read(name: str) -> Generated:
    """A sample as stored, or generated on demand. Raises BadRatings where its file is missing."""
    if name in ON_DEMAND:
        return ON_DEMAND[name].generate(SEED)
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        raise BadRatings(
            f"the sample '{name}' is not at {path}: write it with 'python -m dpmc_core.data'"
        )
    parts = archives.arrays(path)
    titles, genres = _read_items(FOLDER / f"{name}-items.csv")
    users, items, low, high = parts["facts"].tolist()
    ratings = Ratings.build(
        np.repeat(np.arange(users, dtype=np.int32), parts["counts"]),
        parts["items"].astype(np.int32),
        parts["values"] / 10 ** SAMPLES[name].decimals,
        PublicFacts(users=users, items=items, low=low, high=high),
        times=parts.get("times"),
        user_ids=titles and numbered(users),
        item_ids=titles and numbered(items),
        titles=titles,
    )
    truth = Factors(parts["left"], parts["right"]) if "left" in parts else None
    return Generated(ratings, genres, truth)


def write(folder: Path) -> list[Path]:
    """Generate every sample into a folder; returns the files, whose bytes depend on SEED only."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, sample in SAMPLES.items():
        ratings, genres, truth = sample.generate(SEED)
        public = ratings.public
        parts: dict[str, NDArray[Any]] = {
            "facts": np.array([*public.shape, public.low, public.high], dtype=np.int64),
            "counts": np.diff(ratings.indptr).astype(np.uint16),
            "items": _small(ratings.items),
            "values": _small(np.rint(ratings.values * 10**sample.decimals)),
        }
        if ratings.times is not None:
            parts["times"] = ratings.times.astype(np.uint32)
        if truth is not None:
            parts |= {"left": truth.left, "right": truth.right}
        files.append(folder / f"{name}.npz")
        # Not compressed: the bytes of a compressed file would depend on the zlib at hand.
        np.savez(files[-1], allow_pickle=False, **parts)
        if ratings.titles is not None:
            files.append(folder / f"{name}-items.csv")
            joined = map("|".join, genres or [()] * public.items)
            with files[-1].open("w", encoding="utf-8", newline="") as file:
                rows = [("title", "genres"), *zip(ratings.titles, joined, strict=True)]
                csv.writer(file, lineterminator="\n").writerows(rows)
    return files


def _read_items(path: Path) -> tuple[Titles, Genres | None]:
    if not path.exists():
        return None, None
    with path.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    titles, joined = zip(*rows, strict=True)
    return titles, [tuple(text.split("|")) for text in joined] if any(joined) else None


def _small(values: NDArray[Any]) -> NDArray[Any]:
    """The same integers in the smallest signed type that holds them."""
    kinds = (np.int8, np.int16, np.int32)
    return next(found for kind in kinds if ((found := values.astype(kind)) == values).all())
