"""Splits into training and test ratings over one shared index space.

Public facts pass to both sides unchanged. Official folds need no function here: load their two
files with `datasets.read_pair`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import BadRatings, check_number
from dpmc_core.ratings import Ratings

Split = tuple[Ratings, Ratings]


def random_share(ratings: Ratings, share: float, rng: np.random.Generator) -> Split:
    """Hold out round(share n_obs) ratings chosen uniformly; both sides keep at least one."""
    check_number("share of test ratings", share, above=0, below=1)
    total = len(ratings)
    if total < 2:
        raise BadRatings("a split needs at least 2 ratings, got 1")
    count = min(max(round(share * total), 1), total - 1)
    held = np.zeros(total, dtype=bool)
    held[rng.choice(total, size=count, replace=False)] = True
    return _split(ratings, held)


def per_user_share(ratings: Ratings, share: float, rng: np.random.Generator) -> Split:
    """Hold out a share of every user's ratings, chosen uniformly; one always stays in training.

    A user of n ratings loses floor(share n + U), U uniform on [0, 1): share n on average, also for
    users with few ratings.
    """
    check_number("share of test ratings", share, above=0, below=1)
    counts = np.diff(ratings.indptr)
    quota = np.floor(share * counts + rng.random(len(counts))).astype(np.int64)
    quota = np.minimum(quota, counts - 1)
    return _split(ratings, _place(ratings, rng.random(len(ratings))) < quota[ratings.users])


def leave_last_out(ratings: Ratings, rng: np.random.Generator) -> Split:
    """Hold out each user's latest rating (ties in time, or no times at all: a random one).

    A user with a single rating keeps it in training.
    """
    tie = rng.random(len(ratings))
    newest = _place(ratings, tie, None if ratings.times is None else -ratings.times) == 0
    return _split(ratings, newest & (np.diff(ratings.indptr)[ratings.users] > 1))


def _place(
    ratings: Ratings, tie: NDArray[np.float64], first: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Each rating's place (0, 1, ...) within its user's row, ordered by `first`, then `tie`."""
    keys = (tie, ratings.users) if first is None else (tie, first, ratings.users)
    order = np.lexsort(keys)
    place = np.empty(len(ratings), dtype=np.int64)
    place[order] = np.arange(len(ratings)) - ratings.indptr[ratings.users[order]]
    return place


def _split(ratings: Ratings, held: NDArray[np.bool_]) -> Split:
    if not held.any():
        raise BadRatings("no user has a second rating to hold out, so there is nothing to test on")
    return ratings.select(~held), ratings.select(held)
