"""Generated ratings and clicks at benchmark size, functions of a seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpmc_core.data.synthetic import MOVIE_NIGHT, Generated, Shop, films, shop
from dpmc_core.errors import check_number
from dpmc_core.model import Factors
from dpmc_core.ratings import PublicFacts, Ratings

_BLOCK_ROWS = 4096  # users of `rank_one` drawn at once


def ml1m_like(seed: int) -> Ratings:
    """1,000,000 ratings of 6040 users and 3706 items, built like movie-night, without titles."""
    histogram = tuple(10 * count for count in MOVIE_NIGHT.histogram)
    shape = replace(MOVIE_NIGHT, users=6040, items=3706, histogram=histogram)
    return films(shape, seed).ratings


def netflix_like(seed: int, users: int = 191_668, items: int = 100) -> Ratings:
    """1,000,000 ratings 1..5 of a slice of Netflix's shape: many users, few items, no titles."""
    histogram = tuple(10 * count for count in MOVIE_NIGHT.histogram)
    shape = replace(MOVIE_NIGHT, users=users, items=items, histogram=histogram, least=1)
    return films(shape, seed).ratings


def large_bookshop(seed: int, users: int = 50_000, items: int = 2_000) -> Ratings:
    """The same kind of shop at benchmark size, 20 clicks a reader on average."""
    check_number("users", users, at_least=10, integer=True)
    check_number("items", items, at_least=50, integer=True)
    return shop(Shop(users=users, items=items, clicks=20 * users), seed).ratings


def rank_one(
    users: int = 500_000, items: int = 400, per_user: int = 80, seed: int = 0
) -> Generated:
    """Y* = a b' with entries in -1..1 (unit infinity norm), `per_user` of each row seen.

    The synthetic data of Jain, Thakkar, Thakurta (2018), section 4. Rows are drawn in blocks: no
    users x items matrix is ever held, the seen cells are.
    """
    check_number("users", users, at_least=1, integer=True)
    check_number("items", items, at_least=1, integer=True)
    check_number("ratings per user", per_user, at_least=1, at_most=items, integer=True)
    rng = np.random.default_rng(seed)
    left, right = rng.uniform(-1, 1, users), rng.uniform(-1, 1, items)
    left, right = left / np.abs(left).max(), right / np.abs(right).max()
    seen = np.empty(users * per_user, dtype=np.int32)
    values = np.empty(users * per_user)
    for start in range(0, users, _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, users)
        keys = rng.random((stop - start, items), dtype=np.float32)
        chosen = np.sort(np.argpartition(keys, per_user - 1, axis=1)[:, :per_user], axis=1)
        block = slice(start * per_user, stop * per_user)
        seen[block] = chosen.ravel()
        values[block] = (left[start:stop, None] * right[chosen]).ravel()
    public = PublicFacts(users=users, items=items, low=-1, high=1, cap=per_user)
    who = np.repeat(np.arange(users, dtype=np.int32), per_user)
    truth = Factors(left[:, None], right[:, None])
    return Generated(Ratings.build(who, seen, values, public), truth=truth)
