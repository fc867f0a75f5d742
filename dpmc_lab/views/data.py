"""Compute pictures of a data set: where its ratings are, their values, and counts per user."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpmc_core.arrays import Floats, Ints
from dpmc_core.privacy import Release
from dpmc_core.ratings import Ratings
from dpmc_data.synthetic import SAMPLES
from dpmc_lab.views.text import Table, build_table, format_count


def format_item_title(ratings: Ratings, item: int) -> str:
    """Return the title of an item, or else its name in the source, or else its number."""
    for names in (ratings.titles, ratings.item_ids):
        if names is not None:
            return str(names[item])
    return f"item {item + 1}"


def describe_anonymous_user(n_rated: int, data: str, *, clicks: bool) -> str:
    """Describe a user of a data set by the number of ratings, never by a row number.

    Args:
        n_rated: number of the user's ratings.
        data: name of the data set.
        clicks: whether the ratings are clicks.
    """
    items = SAMPLES[data].items if data in SAMPLES else "titles"
    return f"somebody who {'clicked' if clicks else 'rated'} {n_rated} {items}"


def format_user_name(ratings: Ratings, user: int) -> str:
    """Return the name of a user in the source, or else the row number."""
    return str(ratings.user_ids[user]) if ratings.user_ids is not None else str(user + 1)


# --- a part of a data set ---------------------------------------------------------------------


def has_rating_values(release: Release) -> bool:
    """Return whether `extract_block` takes the answers of a release."""
    return release.is_matrix or release.shape == (None,)


def extract_block(values: Any, ratings: Ratings, users: Ints, items: Ints) -> Floats:
    """Return the block of some users and items from a matrix, or from one value per rating.

    A value that a sparse matrix does not store is not reported, so it is NaN.

    Args:
        values: array of shape (n_users, n_items), dense or sparse, or of shape (n_ratings,).
        ratings: the ratings that `values` belongs to.
        users: indices of the rows.
        items: indices of the columns.

    Returns:
        Array of shape (len(users), len(items)), NaN where there is no value.
    """
    if values.ndim == 1:
        values = arrange_by_rating(values, ratings)
    selection = values[users][:, items]
    if not hasattr(selection, "tocoo"):
        return np.asarray(selection, dtype=float)
    entries = selection.tocoo()
    filled = np.full(selection.shape, np.nan)
    filled[entries.row, entries.col] = entries.data
    return filled


def arrange_by_rating(values: NDArray[Any], ratings: Ratings) -> csr_array:
    """Return one value per rating as a sparse matrix of users x items."""
    return csr_array((values, ratings.items, ratings.indptr), shape=ratings.shape)


def rank_by_count(n_ratings: Ints, n_largest: int) -> Ints:
    """Return the indices of the users or items with the most ratings, in decreasing order."""
    return np.argsort(-n_ratings, kind="stable")[:n_largest]


class Histogram(NamedTuple):
    """Histogram of the values, with the position, width and count of its bars."""

    centers: Floats
    width: float
    counts: Ints


class Tail(NamedTuple):
    """Ratings per user or per item by rank, where rank 1 has the most."""

    rank: Ints
    ratings: Ints


def compute_histogram(ratings: Ratings, bins: int = 40) -> Histogram:
    """Return the histogram of the rating values.

    It has one bar per value if there are at most `bins` values, else `bins` equal bars over the
    public range.
    """
    values, counts = np.unique(ratings.values, return_counts=True)
    if len(values) <= bins:
        gaps = np.diff(values)  # the closest bars touch
        return Histogram(values, float(gaps.min()) if len(gaps) else 1.0, counts.astype(np.int64))
    low = ratings.public.low
    high = ratings.public.high
    counts, edges = np.histogram(ratings.values, bins=bins, range=(low, high))
    return Histogram((edges[:-1] + edges[1:]) / 2, (high - low) / bins, counts.astype(np.int64))


def compute_tails(ratings: Ratings, points: int = 400) -> tuple[Tail, Tail]:
    """Return the number of ratings by rank, for users and for items.

    Args:
        ratings: the ratings.
        points: how many ranks to keep at most, evenly spaced in the logarithm.
    """
    users, items = (_compute_tail(n_ratings, points) for n_ratings in count_ratings(ratings))
    return users, items


def describe_histogram(view: Histogram) -> str:
    """Describe the histogram in words."""
    top = int(np.argmax(view.counts))
    return (
        f"{format_count(int(view.counts.sum()), 'rating')}; most often around {view.centers[top]:g}"
        f" ({view.counts[top] / view.counts.sum():.0%})."
    )


def describe_tails(users: Tail, items: Tail) -> str:
    """Describe the long tails in words."""
    return (
        f"The busiest user has {format_count(users.ratings[0], 'rating')}, the least busy"
        f" {users.ratings[-1]:,}; the most rated item has {items.ratings[0]:,}, the least rated"
        f" {items.ratings[-1]:,}."
    )


def tabulate_tails(users: Tail, items: Tail) -> Table:
    """Return both tails as columns."""
    ends = (("user", users), ("item", items))
    rows = (
        (axis_name, *map(int, row)) for axis_name, tail in ends for row in zip(*tail, strict=True)
    )
    return build_table(("of", "rank", "ratings"), rows)


def count_ratings(ratings: Ratings) -> tuple[Ints, Ints]:
    """Count the ratings of each user and of each item."""
    return np.diff(ratings.indptr), np.bincount(ratings.items, minlength=ratings.public.items)


def _compute_tail(counts: Ints, points: int) -> Tail:
    """Return the largest counts by rank, at `points` log-spaced ranks at most."""
    rank = np.unique(np.geomspace(1, len(counts), points).round().astype(np.int64))
    return Tail(rank, np.sort(counts)[::-1][rank - 1].astype(np.int64))
