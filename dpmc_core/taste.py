"""Drawing believable ratings: who rates what, and how, from a low-rank model of taste."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Genres = list[tuple[str, ...]]

ROWS = 512  # users drawn at once: bounds memory at ROWS x items


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What generated ratings look like.

    histogram: how many ratings of each level, lowest first; their sum is the number of ratings.
    least: fewest ratings of a user. user_tail, item_tail: log-normal spread of activity and
    popularity. user, item, taste, noise: standard deviations of the four parts of a score,
    relative to each other; whim: log-normal spread of the noise over users. rank: dimension of
    taste. drawn: how strongly people rate what they like.
    """

    users: int
    items: int
    low: int
    histogram: tuple[int, ...]
    least: int
    user_tail: float
    item_tail: float
    user: float
    item: float
    taste: float
    noise: float
    whim: float
    rank: int
    drawn: float

    @property
    def total(self) -> int:
        return sum(self.histogram)


def draw(shape: Shape, genres: Genres, rng: np.random.Generator) -> tuple[Ints, Ints, Floats]:
    """Cells and values: score = user + item + taste . genre position + noise, cut into levels."""
    names = sorted({name for own in genres for name in own})
    centre = dict(zip(names, rng.normal(size=(len(names), shape.rank)), strict=True))
    position = np.array([np.mean([centre[g] for g in own], axis=0) for own in genres])
    position += 0.5 * rng.normal(size=position.shape)
    position *= 0.6 ** np.arange(shape.rank)  # some directions of taste matter more than others
    position /= np.sqrt(np.mean(np.sum(position**2, axis=1)))
    taste = rng.normal(size=(shape.users, shape.rank))
    fame = rng.normal(size=shape.items)
    quality = 0.6 * fame + 0.8 * rng.normal(size=shape.items)
    kindness = rng.normal(size=shape.users)
    whim = np.exp(shape.whim * rng.normal(size=shape.users))  # some people are hard to predict

    tail = np.exp(shape.user_tail * rng.normal(size=shape.users))
    counts = integers(tail, shape.total, shape.least, int(0.45 * shape.items))
    appeal = shape.item_tail * (fame - 0.08 * fame**2)  # bends the top: nothing is seen by all
    users = np.repeat(np.arange(shape.users), counts)
    items = np.concatenate(
        [
            choose(appeal + shape.drawn * taste[rows] @ position.T, counts[rows], rng)
            for rows in np.array_split(np.arange(shape.users), -(-shape.users // ROWS))
        ]
    )
    items = everything_once(items, shape.items, rng)
    score = (
        shape.user * kindness[users]
        + shape.item * quality[items]
        + shape.taste * np.einsum("kr,kr->k", taste[users], position[items])
        + shape.noise * whim[users] * rng.normal(size=len(users))
    )
    values = np.empty(len(users))
    levels = np.arange(shape.low, shape.low + len(shape.histogram))
    values[np.argsort(score, kind="stable")] = np.repeat(levels, shape.histogram)
    return users, items, values


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
