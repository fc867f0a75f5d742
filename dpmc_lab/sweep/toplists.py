"""Compute recommendation lists: a model's best items for a user, and for a sample of the users."""

from collections.abc import Iterable, Sequence

import numpy as np

from dpmc_core.arrays import Floats, Ints
from dpmc_core.model import Model
from dpmc_core.ratings import Ratings
from dpmc_core.stopping import check_cancelled

LISTS_SEED = 1  # the seed whose recommendation lists are stored
LIST_LENGTH = 5  # items of a stored list
MAX_USERS = 300  # users whose lists are stored


def rank_items(model: Model, train: Ratings, user: int, length: int) -> tuple[Ints, Floats]:
    """Return the highest-scored items that a user did not rate in training, and their scores.

    The best come first; of equal scores, the lower index comes first.

    Args:
        model: the model.
        train: the training ratings.
        user: index of the user.
        length: number of items at most.
    """
    items = np.arange(train.public.items)
    scores = np.array(model.predict(np.full(len(items), user), items), dtype=float)
    best_items = _rank_unrated(scores, train, user, length)
    return best_items, scores[best_items]


def sample_users(train: Ratings) -> Ints:
    """Return the users whose lists are stored: at most 300 users with ratings, evenly spaced."""
    raters = np.flatnonzero(np.diff(train.indptr))
    return raters[np.linspace(0, len(raters) - 1, min(MAX_USERS, len(raters))).astype(np.int64)]


def list_recommendations(model: Model, train: Ratings) -> list[list[int]]:
    """Return a model's recommendation list for each user of `sample_users`, in this order."""
    lists = []
    for user in sample_users(train):
        check_cancelled()
        items, _ = rank_items(model, train, int(user), LIST_LENGTH)
        lists.append(items.tolist())
    return lists


def list_popular_items(train: Ratings) -> list[list[int]]:
    """Return, for each user of `sample_users`, the most rated items that the user did not rate."""
    counts = np.bincount(train.items, minlength=train.public.items).astype(float)
    return [
        _rank_unrated(counts, train, int(user), LIST_LENGTH).tolist()
        for user in sample_users(train)
    ]


def _rank_unrated(scores: Floats, train: Ratings, user: int, length: int) -> Ints:
    """Return the `length` items with the highest scores that a user did not rate, best first."""
    scores = scores.copy()
    scores[train.items[train.indptr[user] : train.indptr[user + 1]]] = -np.inf
    ranked = np.argsort(-scores, kind="stable")[:length]
    return ranked[scores[ranked] > -np.inf]


def count_shared_items(
    lists: Iterable[Sequence[int]], other_lists: Iterable[Sequence[int]]
) -> list[int]:
    """Count the items that each user's two lists have in common."""
    return [
        len({*items} & {*other_items})
        for items, other_items in zip(lists, other_lists, strict=True)
    ]
