"""Users' rows as the user-level methods see them: capped, centred, clipped; blockwise Gram matrix.

Every step here looks at one row at a time, so a user can do it alone, and one changed row never
changes another row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import InvalidSetting
from dpmc_core.model import Factors
from dpmc_core.ratings import Ratings, kept_at_random
from dpmc_core.solvers.linalg import Pattern

Floats = NDArray[np.float64]

GRAM_LIMIT = 5_000  # items: their n x n Gram matrix then takes 200 MB
_BLOCK_CELLS = 2_000_000  # dense scratch of one block of rows: 16 MB
_SPARSE_GAIN = 60.0  # how much more one multiplication costs in a sparse product


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of an m x n matrix on its observed cells.

    cells: where they are. values: in rating points, less each user's own mean. means: those means,
    length m (the middle of the public range for a user without ratings).
    """

    cells: Pattern
    values: Floats
    means: Floats

    @property
    def counts(self) -> NDArray[np.int64]:
        """Ratings of each user, length m."""
        return np.diff(self.cells.indptr)


def user_rows(ratings: Ratings, cap: int, rng: np.random.Generator) -> Rows:
    """Each user keeps at most `cap` ratings, chosen by own randomness, and subtracts their mean.

    See `capped`.
    """
    ratings = capped(ratings, cap, rng)
    cells = Pattern.of(ratings)
    middle = 0.5 * (ratings.public.low + ratings.public.high)
    means = row_means(cells, ratings.values, middle)
    return Rows(cells, ratings.values - means[ratings.users], means)


def capped(ratings: Ratings, cap: int, rng: np.random.Generator) -> Ratings:
    """At most `cap` ratings of each user, chosen at random by a hash of the user's own cells.

    One number of `rng` keys the choice; the ratings of one user never decide those of another.
    """
    key = int(rng.integers(2**63))
    if np.diff(ratings.indptr).max() <= cap:
        return ratings
    return ratings.select(kept_at_random(ratings, cap, key))


def recentred(rows: Rows, item_means: Floats) -> Rows:
    """The rows less the item means (length n), then less each user's own mean again."""
    values = rows.values - item_means[rows.cells.items]
    shift = row_means(rows.cells, values, 0.0)
    return Rows(rows.cells, values - shift[rows.cells.users], rows.means + shift)


def row_means(cells: Pattern, values: Floats, empty: float) -> Floats:
    """Mean of each row, `empty` where a row has no cell; length m."""
    counts = np.diff(cells.indptr)
    means = row_sums(cells, values) / np.maximum(counts, 1)
    return np.where(counts > 0, means, empty)


def row_sums(cells: Pattern, values: Floats) -> Floats:
    """Sum of each row, length m."""
    sums = np.zeros(cells.shape[0])
    filled = np.diff(cells.indptr) > 0  # reduceat would give an empty row its neighbour's value
    if len(values):
        sums[filled] = np.add.reduceat(values, cells.indptr[:-1][filled])
    return sums


def item_sums(cells: Pattern, values: Floats) -> Floats:
    """Sum of each column, length n."""
    return np.bincount(cells.items, weights=values, minlength=cells.shape[1]).astype(float)


def row_shrinkage(cells: Pattern, values: Floats, norm: float) -> Floats:
    """The factor <= 1 that brings each row to l2 norm `norm` at most; length m."""
    norms = np.sqrt(row_sums(cells, values * values))
    shrinkage: Floats = norm / np.maximum(norms, norm)
    return shrinkage


def clip_rows(cells: Pattern, values: Floats, norm: float) -> tuple[Floats, int]:
    """The rows scaled to l2 norm `norm` at most, and how many rows were scaled."""
    shrinkage = row_shrinkage(cells, values, norm)
    cut = int((shrinkage < 1).sum())
    return (values * shrinkage[cells.users] if cut else values), cut


def check_gram(items: int, remedy: str = "") -> None:
    """Raise InvalidSetting where the n x n Gram matrix would be too large."""
    if items > GRAM_LIMIT:
        raise InvalidSetting(
            "items",
            f"<= {GRAM_LIMIT} for a method that builds the items x items matrix",
            items,
            remedy,
        )


def gram(cells: Pattern, values: Floats) -> Floats:
    """A'A of the m x n matrix A with these values on the cells, n x n, dense.

    Blocks of rows as dense matrices, or one sparse product where rows are nearly empty.
    """
    m, n = cells.shape
    counts = np.diff(cells.indptr).astype(float)
    if _SPARSE_GAIN * float(counts @ counts) < m * float(n) * n:
        sparse = cells.by_user(values)
        return np.asarray((sparse.T @ sparse).toarray())
    total = np.zeros((n, n))
    step = max(1, _BLOCK_CELLS // n)
    dense = np.empty((min(step, m), n))
    for start in range(0, m, step):
        stop = min(start + step, m)
        k = slice(cells.indptr[start], cells.indptr[stop])
        block = dense[: stop - start]
        block[:] = 0.0
        block[cells.users[k] - start, cells.items[k]] = values[k]
        total += block.T @ block
    return total


def times_vector(cells: Pattern, values: Floats, vector: Floats) -> Floats:
    """A v for the matrix A with these values on the cells; length m."""
    return row_sums(cells, values * vector[cells.items])


def with_offsets(left: Floats, right: Floats, user: Floats, item: Floats) -> Factors:
    """The model user_i + item_j + left_i . right_j as plain factors of rank r + 2."""
    ones_left, ones_right = np.ones((len(user), 1)), np.ones((len(item), 1))
    return Factors(
        np.hstack([left, user[:, None], ones_left]), np.hstack([right, ones_right, item[:, None]])
    )


def contributions(ratings: Ratings, count: int, norm: int = 2) -> Floats:
    """A weight in 0..1 for each rating, so that no user's weights are longer than a row of `count`.

    norm 2: l2 length <= sqrt(count), weights min(1, sqrt(count / own)), own = the user's ratings;
    norm 1: l1 length <= count, weights min(1, count / own). They depend on the user's row alone.
    """
    own = np.diff(ratings.indptr)[ratings.users]
    share = count / np.maximum(own, 1)
    weights: Floats = np.minimum(1.0, np.sqrt(share) if norm == 2 else share)
    return weights


_ITEM_SPREAD = 0.1  # how much item means differ, in widths of the rating range
_RATING_SPREAD = 0.2  # how much the ratings of one item differ, likewise


def shrunken_means(
    sums: Floats, counts: Floats, width: float, sums_noise: float = 0.0, counts_noise: float = 0.0
) -> Floats:
    """The best linear estimate of item means, in rating points about zero; length n.

    sums: of centred ratings; counts: how many (weighted) ratings they hold; both may carry
    independent noise of the standard deviations given. Item means are taken as spread by a tenth
    of the public range, ratings about them by a fifth: without noise the mean of C ratings is
    shrunk as by four more ratings of the average item, and noise shrinks it further.
    """
    weight = np.maximum(counts, 0.0)
    item, rating = (_ITEM_SPREAD * width) ** 2, (_RATING_SPREAD * width) ** 2
    uncertain = sums_noise**2 / item + counts_noise**2 + weight * rating / item
    means: Floats = weight * sums / np.maximum(weight**2 + uncertain, np.finfo(float).tiny)
    return means
