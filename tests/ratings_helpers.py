"""Ratings made from others, from matrices and at random."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.linalg import Pattern


def with_values(ratings: Ratings, values: ArrayLike, low: float, high: float) -> Ratings:
    """Return the same cells with new values and another public range."""
    public = replace(ratings.public, low=low, high=high)
    return replace(ratings, values=np.asarray(values, dtype=float), public=public)


def clicks(cells: NDArray[Any]) -> Ratings:
    """An interaction in every cell that is not zero."""
    users, items = np.nonzero(cells)
    public = PublicFacts(users=cells.shape[0], items=cells.shape[1], low=0, high=1)
    return Ratings.build(users, items, np.ones(len(users)), public)


def random_stars(users: int, items: int, share: float, rng: np.random.Generator) -> Ratings:
    """Whole ratings of 1 to 5 in about this share of the cells."""
    u, i = np.nonzero(rng.random((users, items)) < share)
    public = PublicFacts(users=users, items=items, low=1, high=5)
    return Ratings.build(u, i, rng.integers(1, 6, len(u)).astype(float), public)


def make_pattern(mask: NDArray[np.bool_]) -> Pattern:
    """The pattern of a boolean matrix."""
    indptr = np.concatenate(([0], np.cumsum(mask.sum(axis=1))))
    return Pattern(np.nonzero(mask)[1].astype(np.int32), indptr, mask.shape)
