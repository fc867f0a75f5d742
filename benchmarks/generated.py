"""Generated ratings and clicks at benchmark size, functions of a seed."""

from __future__ import annotations

from dataclasses import replace

from dpmc_core.errors import check_number
from dpmc_core.ratings import Ratings
from sample_data.generate import MOVIE_NIGHT, Shop, films, shop


def ml1m_like(seed: int) -> Ratings:
    """1,000,000 ratings of 6040 users and 3706 items, built like movie-night, without titles."""
    histogram = tuple(10 * count for count in MOVIE_NIGHT.histogram)
    shape = replace(MOVIE_NIGHT, users=6040, items=3706, histogram=histogram)
    return films(seed, shape).ratings


def netflix_like(seed: int, users: int = 191_668, items: int = 100) -> Ratings:
    """1,000,000 ratings 1..5 of a slice of Netflix's shape: many users, few items, no titles."""
    histogram = tuple(10 * count for count in MOVIE_NIGHT.histogram)
    shape = replace(MOVIE_NIGHT, users=users, items=items, histogram=histogram, least=1)
    return films(seed, shape).ratings


def large_bookshop(seed: int, users: int = 50_000, items: int = 2_000) -> Ratings:
    """The same kind of shop at benchmark size, 20 clicks a reader on average."""
    check_number("users", users, at_least=10, integer=True)
    check_number("items", items, at_least=50, integer=True)
    return shop(seed, Shop(users=users, items=items, clicks=20 * users)).ratings
