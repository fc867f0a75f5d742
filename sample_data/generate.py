"""Draw the samples of this folder from a fixed seed and write their files, byte for byte.

    python sample_data/generate.py

Generators are pure functions of `rng`, a seed or a generator as `np.random.default_rng` takes it,
and of a shape. Believable ratings come from a low-rank model of taste: who rates what, and how.
Clicks on books are implicit feedback with long tails and times. The program itself reads the files
only: it never needs this script.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.arrays import Floats, Ints, Rng
from dpmc_core.data.synthetic import FOLDER, SAMPLES, SEED, Generated, Genres, Titles, one_bit_lab
from dpmc_core.model import Factors
from dpmc_core.ratings import PublicFacts, Ratings, numbered

Seed = int | Rng

# Words, and patterns of titles by genre, in which {a} is an adjective and {n} a noun.
_WORDS: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("names.toml").read_text(encoding="utf-8")
)
_FILMS = ("films", (0.45, 0.4, 0.15))  # patterns, and shares of those with 1, 2, ... genres
_BOOKS = ("books", (0.7, 0.3))

ROWS = 512  # users drawn at once: bounds memory at ROWS x items


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
    preferences, popularity = _liking(shape, genres, rng)
    item_effects = 0.6 * popularity + 0.8 * rng.normal(size=shape.items)
    user_effects = rng.normal(size=shape.users)
    user_noise = np.exp(
        shape.whim * rng.normal(size=shape.users)
    )  # some people are hard to predict
    users, items = _taken(shape, shape.total, preferences, popularity, rng)
    score = (
        shape.user * user_effects[users]
        + shape.item * item_effects[items]
        + shape.taste * preferences.predict(users, items)
        + shape.noise * user_noise[users] * rng.normal(size=len(users))
    )
    values = np.empty(len(users))
    levels = np.arange(shape.low, shape.low + len(shape.histogram))
    values[np.argsort(score, kind="stable")] = np.repeat(levels, shape.histogram)
    return users, items, values


def _liking(crowd: Crowd, genres: Genres, rng: Rng) -> tuple[Factors, Floats]:
    """How users like items, taste . position among genres, and the fame of the items."""
    names = sorted({name for item_genres in genres for name in item_genres})
    genre_centres = dict(zip(names, rng.normal(size=(len(names), crowd.rank)), strict=True))
    item_factors = np.array(
        [np.mean([genre_centres[genre] for genre in item_genres], axis=0) for item_genres in genres]
    )
    item_factors += crowd.scatter * rng.normal(size=item_factors.shape)
    item_factors *= crowd.fade ** np.arange(crowd.rank)
    item_factors /= np.sqrt(np.mean(np.sum(item_factors**2, axis=1)))
    user_factors = rng.normal(size=(crowd.users, crowd.rank))
    return Factors(user_factors, item_factors), rng.normal(size=crowd.items)


def _taken(
    crowd: Crowd, total: int, preferences: Factors, popularity: Floats, rng: Rng
) -> tuple[Ints, Ints]:
    """`total` cells, in proportion to exp(popularity + drawn x liking) in each user's row."""
    activity = np.exp(crowd.user_tail * rng.normal(size=crowd.users))
    counts = integers(activity, total, crowd.least, int(crowd.most * crowd.items))
    item_scores = crowd.item_tail * (popularity - crowd.bend * popularity**2)
    return _chosen(counts, item_scores, crowd.drawn, preferences, rng)


def integers(weights: Floats, total: int, min_count: int, max_count: int) -> Ints:
    """Integers in least..most with the given sum, roughly least + weights x a constant."""

    def cut(scale: float) -> Ints:
        return np.minimum(np.floor(min_count + scale * weights), max_count).astype(np.int64)

    low, high = 0.0, float(total)
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cut(middle).sum() <= total else (low, middle)
    counts = cut(low)
    counts[np.flatnonzero(counts < max_count)[: total - int(counts.sum())]] += 1
    return counts


def _chosen(
    counts: Ints, item_scores: Floats, taste_strength: float, preferences: Factors, rng: Rng
) -> tuple[Ints, Ints]:
    """Cells of each user, `counts` of them, in proportion to exp(appeal + drawn x liking): the
    first finishers of a race of exponential clocks. Every item is in one: users of the one that
    most have swap it for one that nobody has."""
    chosen_items: list[Ints] = []
    for rows in np.array_split(np.arange(len(counts)), -(-len(counts) // ROWS)):
        score = item_scores + taste_strength * preferences.left[rows] @ preferences.right.T
        finish_times = rng.standard_exponential(score.shape) * np.exp(-score)
        chosen_items += [
            np.argpartition(row, n - 1)[:n]
            for row, n in zip(finish_times, counts[rows], strict=True)
        ]
    items = np.concatenate(chosen_items)
    n_takers = np.bincount(items, minlength=len(item_scores))
    missing = np.flatnonzero(n_takers == 0)
    swaps = rng.permutation(np.flatnonzero(items == n_takers.argmax()))[: len(missing)]
    items[swaps] = missing[: len(swaps)]
    return np.repeat(np.arange(len(counts)), counts), items


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
    users, items, n_common = 12_000, len(titles), 10
    counts = np.where(rng.random(users) < 0.28, items, rng.integers(36, 86, users))
    order = rng.random((users, items))
    order[:, rng.choice(items, n_common, replace=False)] = -1.0  # these come first for everybody
    is_rated = order.argsort(axis=1).argsort(axis=1) < counts[:, None]
    preferences = rng.normal(size=(users, 3)) @ rng.normal(size=(3, items)) / np.sqrt(3)
    score = (
        0.7
        + 2.6 * rng.normal(size=(users, 1))
        + 1.7 * rng.normal(size=items)
        + np.exp(0.3 * rng.normal(size=(users, 1)))
        * (2.0 * preferences + 3.8 * rng.normal(size=(users, items)))
    )
    values = np.round(10 * np.tanh(score / 7.5), 2) + 0.0  # no negative zero
    user_indices, item_indices = np.nonzero(is_rated)
    public = PublicFacts(users=users, items=items, low=-10, high=10)
    return _named(
        public, (user_indices, item_indices, values[user_indices, item_indices]), tuple(titles)
    )


def _evenings(users: Ints, n_users: int, rng: Rng) -> Ints:
    """Unix seconds: each person has a first Friday within 30 weeks and rates on Friday evenings,
    one more evening per 60 ratings or so."""
    first_friday = 1_694_196_000  # 8 September 2023, 18:00 UTC
    week, evening = 7 * 86_400, 4 * 3600
    counts = np.bincount(users, minlength=n_users)
    evenings = 1 + rng.poisson(counts / 60)
    first_weeks = rng.integers(0, 30, n_users)
    evening_index = (rng.random(len(users)) * evenings[users]).astype(np.int64)
    return (
        first_friday
        + (first_weeks[users] + evening_index) * week
        + rng.integers(0, evening, len(users))
    )


def _stock(kind: tuple[str, tuple[float, ...]], count: int, rng: Rng) -> tuple[Titles, Genres]:
    """Distinct titles, none for more than 2000 items, and genres of each, the first of which shapes
    the title."""
    patterns, shares = _WORDS[kind[0]], kind[1]
    adjectives, nouns = _WORDS["adjectives"], _WORDS["nouns"]
    titles, genres = [], []
    pairs = rng.choice(len(adjectives) * len(nouns), size=min(count, 2000), replace=False)
    for adjective, noun in zip(*np.divmod(pairs, len(nouns)), strict=True):
        n_genres = rng.choice(len(shares), p=shares) + 1
        item_genres = rng.choice(list(patterns), size=n_genres, replace=False)
        pattern = str(rng.choice(patterns[item_genres[0]]))
        titles.append(pattern.format(a=adjectives[adjective], n=nouns[noun]))
        genres.append(tuple(map(str, item_genres)))
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
    activity, popularity = (
        np.interp(rng.permutation((np.arange(size) + 0.5) / size), _SHARES, np.log(quantile_values))
        for size, quantile_values in ((users, _ACTIVITY), (items, _FAME))
    )
    factor_std = np.sqrt(0.14 * 0.75 ** np.arange(12) / (0.75 ** np.arange(12)).sum())
    preferences = Factors(rng.normal(size=(users, 12)) * factor_std, rng.normal(size=(items, 12)))
    counts = integers(np.exp(activity) - 20, ratings, 20, int(0.6 * items))
    user_indices, item_indices = _chosen(counts, 1.2 * popularity, 3, preferences, rng)
    score = (
        (0.35 * _leaning(activity, -0.08, rng))[user_indices]
        + (0.55 * _leaning(popularity, 0.22, rng))[item_indices]
        + preferences.predict(user_indices, item_indices)
        + 0.75 * rng.normal(size=len(user_indices))
    )
    levels = np.cumsum(np.array([0.06, 0.11, 0.26, 0.35])) / 1.01
    values = 1.0 + np.searchsorted(np.quantile(score, levels), score).astype(float)
    public = PublicFacts(users=users, items=items, low=1, high=5)
    times = _evenings(user_indices, users, rng)
    return _named(public, (user_indices, item_indices, values), titles, times, genres)


def _leaning(target: Floats, correlation: float, rng: Rng) -> Floats:
    """Standard normal numbers with this correlation with another column."""
    independent = rng.normal(size=len(target))
    standardised = (target - target.mean()) / target.std()
    correlated: Floats = correlation * standardised + np.sqrt(1 - correlation**2) * independent
    return correlated


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
    visit_index = (rng.random(len(users)) * days[users]).astype(np.int64)
    seconds_of_day = np.clip(rng.normal(20 * 3600, 3 * 3600, len(users)), 0, day - 1).astype(
        np.int64
    )
    return first_day + visits[users, visit_index] * day + seconds_of_day


# How each sample is drawn from a seed.
MAKERS: Mapping[str, Callable[[int], Generated]] = {
    "movie-night": films,
    "restaurants": restaurants,
    "jokes": jokes,
    "one-bit-lab": one_bit_lab,
    "one-bit-lab-strong": partial(one_bit_lab, alpha=5.0, observed=0.8),
    "long-tail": partial(long_tail, users=600, items=1_200, ratings=100_000),
    "bookshop-clicks": shop,
}


def write(folder: Path) -> list[Path]:
    """Generate every sample into a folder; returns the files, whose bytes depend on SEED only."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, sample in SAMPLES.items():
        ratings, genres, truth = MAKERS[name](SEED)
        public = ratings.public
        arrays: dict[str, NDArray[Any]] = {
            "facts": np.array([*public.shape, public.low, public.high], dtype=np.int64),
            "counts": np.diff(ratings.indptr).astype(np.uint16),
            "items": _small(ratings.items),
            "values": _small(np.rint(ratings.values * 10**sample.decimals)),
        }
        if ratings.times is not None:
            arrays["times"] = ratings.times.astype(np.uint32)
        if truth is not None:
            arrays |= {"left": truth.left, "right": truth.right}
        files.append(folder / f"{name}.npz")
        # Not compressed: the bytes of a compressed file would depend on the zlib at hand.
        np.savez(files[-1], allow_pickle=False, **arrays)
        if ratings.titles is not None:
            files.append(folder / f"{name}-items.csv")
            genre_texts = map("|".join, genres or [()] * public.items)
            with files[-1].open("w", encoding="utf-8", newline="") as file:
                rows = [("title", "genres"), *zip(ratings.titles, genre_texts, strict=True)]
                csv.writer(file, lineterminator="\n").writerows(rows)
    return files


def _small(values: NDArray[Any]) -> NDArray[Any]:
    """The same integers in the smallest signed type that holds them."""
    dtypes = (np.int8, np.int16, np.int32)
    return next(shrunk for dtype in dtypes if ((shrunk := values.astype(dtype)) == values).all())


if __name__ == "__main__":
    for written in write(FOLDER):
        print(f"{written}  {written.stat().st_size:,} bytes")
