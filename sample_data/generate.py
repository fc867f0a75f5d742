"""Draw the samples of this folder from a fixed seed and write their files, byte for byte.

    python sample_data/generate.py

Generators are pure functions of a shape and of `rng`: a seed, or a generator as
`np.random.default_rng` takes it. Believable ratings come from a low-rank model of preferences: who
rates what, and how. Clicks on books are implicit feedback with long tails and times. The program
itself reads only the files and never needs this script.
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
from dpmc_core.model import Factors
from dpmc_core.ratings import PublicFacts, Ratings, number_ids
from dpmc_data.synthetic import (
    SAMPLE_FOLDER,
    SAMPLE_SEED,
    SAMPLES,
    Generated,
    Genres,
    Titles,
    generate_one_bit_lab,
)

Seed = int | Rng

# Words, and patterns of titles by genre, in which {a} is an adjective and {n} a noun.
_NAME_PARTS: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("names.toml").read_text(encoding="utf-8")
)
_FILMS = ("films", (0.45, 0.4, 0.15))  # patterns, and shares of those with 1, 2, ... genres
_BOOKS = ("books", (0.7, 0.3))

USERS_PER_BLOCK = 512  # users drawn at once: bounds memory at ROWS x items


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Who takes what: the settings that generated ratings and clicks share.

    Attributes:
        users: number of users.
        items: number of items.
        min_items: smallest number of items of a user.
        max_share: largest number of items of a user, as a share of all items.
        activity_std: standard deviation of the logarithm of users' activity.
        popularity_std: standard deviation of the logarithm of items' popularity.
        popularity_curvature: keeps the most popular item from being taken by everybody.
        rank: number of dimensions of preferences.
        genre_scatter: distance of items from their genres.
        direction_decay: weight of each dimension relative to the one before.
        preference_strength: how strongly users take what they like.
    """

    users: int
    items: int
    min_items: int
    max_share: float = 0.45
    activity_std: float
    popularity_std: float
    popularity_curvature: float = 0.08
    rank: int
    genre_scatter: float = 0.5
    direction_decay: float = 0.6
    preference_strength: float


@dataclass(frozen=True, kw_only=True)
class Shape(Crowd):
    """What generated ratings look like.

    Attributes:
        low: the lowest level.
        histogram: number of ratings of each level, lowest first.
        user_std: standard deviation of the user effects in a score; the four are relative to each
            other.
        item_std: standard deviation of the item effects.
        preference_std: standard deviation of the preferences.
        noise_std: standard deviation of the noise.
        noise_tail: standard deviation of the logarithm of the noise's scale over users.
    """

    low: int
    histogram: tuple[int, ...]
    user_std: float
    item_std: float
    preference_std: float
    noise_std: float
    noise_tail: float

    @property
    def total(self) -> int:
        """The number of ratings."""
        return sum(self.histogram)

    @property
    def public(self) -> PublicFacts:
        """The public facts of the ratings."""
        high = self.low + len(self.histogram) - 1
        return PublicFacts(users=self.users, items=self.items, low=self.low, high=high)


@dataclass(frozen=True, kw_only=True)
class Shop(Crowd):
    """What generated clicks look like.

    Attributes:
        clicks: number of clicks.
    """

    users: int = 2500
    items: int = 1200
    clicks: int = 50_000
    min_items: int = 5
    max_share: float = 0.3
    activity_std: float = 0.9
    popularity_std: float = 1.3
    popularity_curvature: float = 0.1
    rank: int = 8
    genre_scatter: float = 0.4
    direction_decay: float = 1.0
    preference_strength: float = 1.6


def draw_ratings(shape: Shape, genres: Genres, rng: Rng) -> tuple[Ints, Ints, Floats]:
    """Draw the cells and values of ratings.

    A score is user effect + item effect + preference . item position + noise; scores are cut into
    levels.

    Args:
        shape: the settings.
        genres: the genres of each item.
        rng: draws everything.

    Returns:
        Three arrays of shape (n_obs,): users, items, and values in rating points.
    """
    preferences, popularity = _draw_preferences(shape, genres, rng)
    item_effects = 0.6 * popularity + 0.8 * rng.normal(size=shape.items)
    user_effects = rng.normal(size=shape.users)
    # Some people are hard to predict.
    user_noise = np.exp(shape.noise_tail * rng.normal(size=shape.users))
    users, items = _draw_cells(shape, shape.total, preferences, popularity, rng)
    score = (
        shape.user_std * user_effects[users]
        + shape.item_std * item_effects[items]
        + shape.preference_std * preferences.predict(users, items)
        + shape.noise_std * user_noise[users] * rng.normal(size=len(users))
    )
    values = np.empty(len(users))
    levels = np.arange(shape.low, shape.low + len(shape.histogram))
    values[np.argsort(score, kind="stable")] = np.repeat(levels, shape.histogram)
    return users, items, values


def _draw_preferences(crowd: Crowd, genres: Genres, rng: Rng) -> tuple[Factors, Floats]:
    """Draw how much users like items, from positions among genres, and the items' popularity."""
    names = sorted({name for item_genres in genres for name in item_genres})
    genre_centres = dict(zip(names, rng.normal(size=(len(names), crowd.rank)), strict=True))
    item_factors = np.array(
        [np.mean([genre_centres[genre] for genre in item_genres], axis=0) for item_genres in genres]
    )
    item_factors += crowd.genre_scatter * rng.normal(size=item_factors.shape)
    item_factors *= crowd.direction_decay ** np.arange(crowd.rank)
    item_factors /= np.sqrt(np.mean(np.sum(item_factors**2, axis=1)))
    user_factors = rng.normal(size=(crowd.users, crowd.rank))
    return Factors(user_factors, item_factors), rng.normal(size=crowd.items)


def _draw_cells(
    crowd: Crowd, total: int, preferences: Factors, popularity: Floats, rng: Rng
) -> tuple[Ints, Ints]:
    """Draw `total` cells, in each row in proportion to exp(popularity + strength x preference)."""
    activity = np.exp(crowd.activity_std * rng.normal(size=crowd.users))
    counts = allocate_counts(activity, total, crowd.min_items, int(crowd.max_share * crowd.items))
    item_scores = crowd.popularity_std * (popularity - crowd.popularity_curvature * popularity**2)
    return _draw_cells_by_counts(counts, item_scores, crowd.preference_strength, preferences, rng)


def allocate_counts(weights: Floats, total: int, min_count: int, max_count: int) -> Ints:
    """Allocate a total to integer counts of roughly min_count + weight x a constant.

    Args:
        weights: array of shape (n,), positive.
        total: the sum of the counts.
        min_count: smallest count.
        max_count: largest count.

    Returns:
        Array of shape (n,).
    """

    def round_counts(scale: float) -> Ints:
        return np.minimum(np.floor(min_count + scale * weights), max_count).astype(np.int64)

    low, high = 0.0, float(total)
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if round_counts(middle).sum() <= total else (low, middle)
    counts = round_counts(low)
    counts[np.flatnonzero(counts < max_count)[: total - int(counts.sum())]] += 1
    return counts


def _draw_cells_by_counts(
    counts: Ints, item_scores: Floats, preference_strength: float, preferences: Factors, rng: Rng
) -> tuple[Ints, Ints]:
    """Draw `counts` cells of each user, in proportion to exp(item score + strength x preference).

    They are the first finishers of a race of exponential clocks. Every item is in a cell: users of
    the most frequent item swap it for one that nobody has.
    """
    chosen_items: list[Ints] = []
    for rows in np.array_split(np.arange(len(counts)), -(-len(counts) // USERS_PER_BLOCK)):
        score = item_scores + preference_strength * preferences.left[rows] @ preferences.right.T
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


def _build_generated(
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
        user_ids=number_ids(public.users),
        item_ids=number_ids(public.items),
        titles=titles,
    )
    return Generated(ratings, genres)


MOVIE_NIGHT = Shape(
    users=943,
    items=1682,
    low=1,
    histogram=(6110, 11370, 27145, 34174, 21201),
    min_items=20,
    activity_std=1.1,
    popularity_std=1.7,
    user_std=0.45,
    item_std=0.55,
    preference_std=0.5,
    noise_std=0.75,
    noise_tail=0.4,
    rank=4,
    preference_strength=0.5,
)
RESTAURANTS = Shape(
    users=138,
    items=130,
    low=0,
    histogram=(254, 421, 486),
    min_items=3,
    activity_std=0.5,
    popularity_std=0.7,
    user_std=0.5,
    item_std=0.25,
    preference_std=0.3,
    noise_std=0.4,
    noise_tail=0.0,
    rank=2,
    preference_strength=0.5,
)


def generate_films(rng: Seed, shape: Shape = MOVIE_NIGHT) -> Generated:
    """Generate films, rated at evening times; by default in MovieLens 100K's shape and histogram.

    More than 2000 films have no titles.
    """
    rng = np.random.default_rng(rng)
    titles, genres = _draw_titles(_FILMS, shape.items, rng)
    cells = draw_ratings(shape, genres, rng)
    times = _draw_evenings(cells[0], shape.users, rng)
    return _build_generated(shape.public, cells, titles, times, genres)


def generate_restaurants(rng: Seed) -> Generated:
    """Generate restaurants rated 0, 1 or 2: few ratings, by generous and strict guests."""
    rng = np.random.default_rng(rng)
    names: dict[str, tuple[str, ...]] = {}
    while len(names) < RESTAURANTS.items:
        kitchen = str(rng.choice(list(_NAME_PARTS["restaurants"])))
        pattern = str(rng.choice(_NAME_PARTS["restaurants"][kitchen]))
        adjective, noun = rng.choice(_NAME_PARTS["adjectives"]), rng.choice(_NAME_PARTS["nouns"])
        names.setdefault(pattern.format(a=adjective, n=noun), (kitchen,))
    kitchens = list(names.values())
    cells = draw_ratings(RESTAURANTS, kitchens, rng)
    return _build_generated(RESTAURANTS.public, cells, tuple(names), genres=kitchens)


def generate_jokes(rng: Seed) -> Generated:
    """Generate jokes rated -10..10 with two decimals: everybody rates 10 of them, some rate all.

    People differ in mean and in spread; jokes differ in mean; preferences have rank 3.
    """
    rng = np.random.default_rng(rng)
    titles = [
        f"{'An' if visitor[0] in 'aeiou' else 'A'} {visitor} walks into a {venue}..."
        for visitor in _NAME_PARTS["who"]
        for venue in _NAME_PARTS["where"]
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
    return _build_generated(
        public, (user_indices, item_indices, values[user_indices, item_indices]), tuple(titles)
    )


def _draw_evenings(users: Ints, n_users: int, rng: Rng) -> Ints:
    """Draw Unix seconds on Friday evenings.

    Each person has a first Friday within 30 weeks and about one more evening per 60 ratings.
    """
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


def _draw_titles(
    kind: tuple[str, tuple[float, ...]], count: int, rng: Rng
) -> tuple[Titles, Genres]:
    """Draw distinct titles and the genres of each item, the first of which shapes the title.

    More than 2000 items have no titles.
    """
    patterns, shares = _NAME_PARTS[kind[0]], kind[1]
    adjectives, nouns = _NAME_PARTS["adjectives"], _NAME_PARTS["nouns"]
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


FILM_SITE_SLOPES = (0.25, 0.5)
_QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
# Numbers of ratings of a user, and of an item, at these quantiles.
_ACTIVITY = (20, 27, 44, 96, 208, 400, 907, 1_800)
_POPULARITY = (1, 7, 33, 124, 350, 730, 1_785, 3_000)


def generate_long_tail(
    rng: Seed,
    *,
    users: int = 6_000,
    items: int = 3_700,
    ratings: int = 1_000_000,
    slope_stds: tuple[float, float] = (0.0, 0.0),
) -> Generated:
    """Generate integer ratings 1..5 of many users with a long tail of items, as in catalogues.

    A score is user (sd .35) + item (sd .55) + preference (rank 12, variance .14) + noise, in
    points. Preferences also sway who rates what, as strongly as on film sites; active users are a
    little stricter, popular items better liked.

    Args:
        rng: the seed, or the generator to draw from.
        users: number of users.
        items: number of items.
        ratings: number of ratings.
        slope_stds: standard deviations over users of their slopes on log popularity (points per
            standard deviation) and on the item's own part (points per point);
            `FILM_SITE_SLOPES` is as on film sites. Zeros draw nothing.

    Returns:
        The generated ratings, with the factors behind them.
    """
    rng = np.random.default_rng(rng)
    titles, genres = _draw_titles(_FILMS, items, rng)
    activity, popularity = (
        np.interp(
            rng.permutation((np.arange(size) + 0.5) / size), _QUANTILES, np.log(quantile_values)
        )
        for size, quantile_values in ((users, _ACTIVITY), (items, _POPULARITY))
    )
    factor_std = np.sqrt(0.14 * 0.75 ** np.arange(12) / (0.75 ** np.arange(12)).sum())
    preferences = Factors(rng.normal(size=(users, 12)) * factor_std, rng.normal(size=(items, 12)))
    counts = allocate_counts(np.exp(activity) - 20, ratings, 20, int(0.6 * items))
    user_indices, item_indices = _draw_cells_by_counts(
        counts, 1.2 * popularity, 3, preferences, rng
    )
    user_effects = 0.35 * _draw_correlated(activity, -0.08, rng)
    item_effects = 0.55 * _draw_correlated(popularity, 0.22, rng)
    score = (
        user_effects[user_indices]
        + item_effects[item_indices]
        + preferences.predict(user_indices, item_indices)
        + 0.75 * rng.normal(size=len(user_indices))
    )
    if any(slope_stds):
        fame = (popularity - popularity.mean()) / popularity.std()
        slopes = Factors(
            rng.normal(size=(users, 2)) * slope_stds, np.column_stack([fame, item_effects])
        )
        score += slopes.predict(user_indices, item_indices)
    levels = np.cumsum(np.array([0.06, 0.11, 0.26, 0.35])) / 1.01
    values = 1.0 + np.searchsorted(np.quantile(score, levels), score).astype(float)
    public = PublicFacts(users=users, items=items, low=1, high=5)
    times = _draw_evenings(user_indices, users, rng)
    return _build_generated(public, (user_indices, item_indices, values), titles, times, genres)


def _draw_correlated(target: Floats, correlation: float, rng: Rng) -> Floats:
    """Draw standard normal numbers with this correlation with another column."""
    independent = rng.normal(size=len(target))
    standardised = (target - target.mean()) / target.std()
    correlated: Floats = correlation * standardised + np.sqrt(1 - correlation**2) * independent
    return correlated


def generate_clicks(rng: Seed, shape: Shop = Shop()) -> Generated:
    """Generate clicks, drawn in proportion to exp(popularity + strength x preference).

    By default 2500 readers click 50,000 times on 1200 books within a year.
    """
    rng = np.random.default_rng(rng)
    titles, genres = _draw_titles(_BOOKS, shape.items, rng)
    users, items = _draw_cells(shape, shape.clicks, *_draw_preferences(shape, genres, rng), rng)
    public = PublicFacts(users=shape.users, items=shape.items, low=0, high=1)
    times = _draw_visits(users, shape.users, rng)
    return _build_generated(public, (users, items, np.ones(len(users))), titles, times, genres)


def _draw_visits(users: Ints, n_users: int, rng: Rng) -> Ints:
    """Draw Unix seconds: each reader comes on some days of one year, about once per 8 clicks."""
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
SAMPLE_GENERATORS: Mapping[str, Callable[[int], Generated]] = {
    "movie-night": generate_films,
    "restaurants": generate_restaurants,
    "jokes": generate_jokes,
    "one-bit-lab": generate_one_bit_lab,
    "one-bit-lab-strong": partial(generate_one_bit_lab, alpha=5.0, observed=0.8),
    "long-tail": partial(generate_long_tail, users=600, items=1_200, ratings=100_000),
    "bookshop-clicks": generate_clicks,
}


def write_samples(folder: Path) -> list[Path]:
    """Generate every sample into a folder; return the files, which depend on SAMPLE_SEED only."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, sample in SAMPLES.items():
        ratings, genres, truth = SAMPLE_GENERATORS[name](SAMPLE_SEED)
        public = ratings.public
        arrays: dict[str, NDArray[Any]] = {
            "facts": np.array([*public.shape, public.low, public.high], dtype=np.int64),
            "counts": np.diff(ratings.indptr).astype(np.uint16),
            "items": _shrink_integers(ratings.items),
            "values": _shrink_integers(np.rint(ratings.values * 10**sample.decimals)),
        }
        if ratings.times is not None:
            arrays["times"] = ratings.times.astype(np.uint32)
        if truth is not None:
            arrays |= {"left": truth.left, "right": truth.right}
        files.append(folder / f"{name}.npz")
        # The file is not compressed, because the compressed bytes would depend on the zlib version.
        np.savez(files[-1], allow_pickle=False, **arrays)
        if ratings.titles is not None:
            files.append(folder / f"{name}-items.csv")
            genre_texts = map("|".join, genres or [()] * public.items)
            with files[-1].open("w", encoding="utf-8", newline="") as file:
                rows = [("title", "genres"), *zip(ratings.titles, genre_texts, strict=True)]
                csv.writer(file, lineterminator="\n").writerows(rows)
    return files


def _shrink_integers(values: NDArray[Any]) -> NDArray[Any]:
    """Return the same integers in the smallest signed type that holds them."""
    dtypes = (np.int8, np.int16, np.int32)
    return next(shrunk for dtype in dtypes if ((shrunk := values.astype(dtype)) == values).all())


if __name__ == "__main__":
    for path in write_samples(SAMPLE_FOLDER):
        print(f"{path}  {path.stat().st_size:,} bytes")
