"""Which method: one certified method for a unit, a trust and a task, by a rule that reads no data.

The rule knows the sizes that are public and how many ratings a user gives, typed or measured with
noise. It was fixed on generated data (`python benchmarks/recommend.py` prints what it rests on).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmc_core.model import Mechanism
from dpmc_core.privacy import (
    RATING,
    ROW_VALUES,
    Change,
    Laplace,
)
from dpmc_core.ratings import PublicFacts, Ratings

COUNT_SHARE = 0.05  # of epsilon, for a noisy number of ratings per user
_HEARD = 0.5  # item effects over their noise, from which item effects pay
_TASTE = 0.5


@dataclass(frozen=True)
class Advice:
    """mechanism: with the epsilon setting that certifies no more than was asked for."""

    mechanism: Mechanism
    certified: float
    reason: str


def ratings_per_user(change: Change, public: PublicFacts, epsilon: float) -> Laplace:
    """A noisy typical number of ratings per user: the sum of log(1 + own ratings) over the users.

    Where the unit leaves public which ratings exist the number needs no noise, nor this.
    """
    most = math.log1p(public.items)
    moves = most if change.per_user else math.log(2.0)
    return Laplace(
        query="sum over users of log(1 + number of ratings)",
        shape=(),
        sensitivity={change: moves},
        scale=moves / (COUNT_SHARE * epsilon),
    )


def noisy_per_user(
    ratings: Ratings, change: Change, epsilon: float, rng: np.random.Generator
) -> float:
    """What `ratings_per_user` publishes, as a number of ratings: their geometric mean."""
    counts = np.diff(ratings.indptr)
    total = float(np.log1p(counts).sum())
    if change not in (RATING, ROW_VALUES):
        total = float(ratings_per_user(change, ratings.public, epsilon).publish(total, rng))
    most = math.log1p(ratings.public.items)
    return math.expm1(min(max(total / len(counts), math.log(2.0)), most))
