"""Alternating least squares for implicit feedback: exact, batched ridge solves.

With S the observed cells of an m x n matrix of zeros and ones, rows p_u and columns q_i,

    L = sum_S (p'q - 1)^2 + alpha sum_D (p'q)^2 + ridge,  D = all cells, or the missing ones

(Rendle, Krichene, Zhang, Koren, "Revisiting the performance of iALS on item recommendation
benchmarks", 2021; RYHH24, Eq. 1 and 11).
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.ratings import Ratings

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_BLOCK = 20_000  # gathered rows of factors at once: they stay near the cache
_CELLS = 200_000  # cells whose scores are gathered at once


class Over(enum.Enum):
    """Which cells pull predictions to zero."""

    ALL = "all"  # every cell (iALS)
    MISSING = "missing"  # cells that were not observed (the complementary loss of RYHH24)


@dataclass(frozen=True)
class ImplicitLoss:
    """The weights of the loss.

    alpha: weight of the cells that pull to zero, >= 0. regularisation: lambda. frequency: a row
    with k ones among n cells is ridged by lambda (k + alpha n), or lambda (k + alpha (n - k)) over
    missing cells; without it by lambda alone.
    """

    alpha: float
    regularisation: float
    over: Over = Over.ALL
    frequency: bool = True

    def ridge(self, counts: Ints, cells: int) -> Floats:
        """The ridge of rows with that many ones among `cells` cells."""
        if not self.frequency:
            return np.full(len(counts), float(self.regularisation))
        rest = cells if self.over is Over.ALL else cells - counts
        return self.regularisation * (counts + self.alpha * rest)

    @property
    def own_weight(self) -> float:
        """Weight of an observed cell's p p' beyond alpha times the Gram matrix of all rows."""
        return 1.0 if self.over is Over.ALL else 1.0 - self.alpha

    def value(self, matrix: csr_array, left: Floats, right: Floats) -> float:
        """The loss, without a users x items array."""
        m, n = matrix.shape
        observed = _products(matrix, left, right)
        fit = np.sum((observed - 1.0) ** 2)
        pull = np.sum((left.T @ left) * (right.T @ right))
        if self.over is Over.MISSING:
            pull -= np.sum(observed**2)
        rows = np.diff(matrix.indptr).astype(np.int64)
        columns = np.bincount(matrix.indices, minlength=n).astype(np.int64)
        ridge = self.ridge(rows, n) @ np.sum(left**2, axis=1)
        ridge += self.ridge(columns, m) @ np.sum(right**2, axis=1)
        return float(fit + self.alpha * pull + ridge)


def check_interactions(ratings: Ratings) -> None:
    """Raise BadRatings unless every rating is an interaction, of value 1."""
    other = ratings.values != 1.0
    if other.any():
        raise BadRatings(
            f"{int(other.sum())} of {len(ratings)} ratings are not 1, first"
            f" {ratings.values[other][0]:g}: ranking takes interactions of value 1, so prepare the"
            " ratings with implicit=all or implicit=VALUE (the lowest rating that counts)"
        )


def binary_matrix(ratings: Ratings) -> csr_array:
    """The interactions as a users x items matrix of ones. Raises BadRatings for other values."""
    from scipy.sparse import csr_array

    check_interactions(ratings)
    ones = np.ones(len(ratings))
    return csr_array((ones, ratings.items, ratings.indptr), shape=ratings.shape)


def transposed(matrix: csr_array) -> csr_array:
    """The transpose, row-compressed too."""
    from scipy.sparse import csr_array

    return csr_array(matrix.T.tocsr())


def initial_factors(
    users: int, items: int, rank: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Independent N(0, 1/rank^2) entries: no data in them."""
    left = rng.normal(0.0, 1.0 / rank, (users, rank))
    return left, rng.normal(0.0, 1.0 / rank, (items, rank))


def solve_rows(
    matrix: csr_array, other: Floats, loss: ImplicitLoss, *, single: bool = False
) -> Floats:
    """The minimising factors of every row of `matrix` (r x c), given those of its columns (c x d).

    p = A^-1 sum_I q with A = w sum_I q q' + alpha Q'Q + ridge I, w the loss's `own_weight`. single:
    gather and solve in single precision, about twice as fast and good to six digits or so. Raises
    InvalidSetting where the ridge drowns in rounding, so that A has no inverse.
    """
    try:
        return _solved(matrix, other, loss, single)
    except np.linalg.LinAlgError:
        raise InvalidSetting(
            "regularisation",
            f"large enough for factors of length {other.shape[1]}: a row's equations have no single"
            " solution",
            loss.regularisation,
            "a smaller rank helps too",
        ) from None


def _solved(matrix: csr_array, other: Floats, loss: ImplicitLoss, single: bool) -> Floats:
    counts = np.diff(matrix.indptr).astype(np.int64)
    gram = loss.alpha * (other.T @ other)
    ridge = loss.ridge(counts, matrix.shape[1])
    if loss.own_weight == 0 and np.ptp(ridge) == 0:
        gram.flat[:: len(gram) + 1] += ridge[0] if len(ridge) else 0.0
        return _solve_shared(gram, matrix @ other)
    kind = np.float32 if single else np.float64
    found = np.zeros((matrix.shape[0], other.shape[1]))
    padded = np.vstack([other, np.zeros((1, other.shape[1]))]).astype(kind)
    gram, ridge = gram.astype(kind), ridge.astype(kind)
    diagonal = np.arange(len(gram))

    def solve(rows: Ints) -> None:
        own, sums = _moments(matrix, rows, padded)
        own *= kind(loss.own_weight)
        own += gram
        own[:, diagonal, diagonal] += ridge[rows][:, None]
        found[rows] = np.linalg.solve(own, sums[:, :, None])[:, :, 0]

    # NumPy releases the interpreter while it gathers and multiplies; long rows go first.
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        list(pool.map(solve, reversed(list(_blocks(counts)))))
    return found


def second_moments(matrix: csr_array, other: Floats) -> Floats:
    """sum_I q q' of every row of `matrix`: r x d x d."""
    counts = np.diff(matrix.indptr).astype(np.int64)
    padded = np.vstack([other, np.zeros((1, other.shape[1]))])
    found = np.zeros((matrix.shape[0], other.shape[1], other.shape[1]))
    for rows in _blocks(counts):
        found[rows] = _moments(matrix, rows, padded)[0]
    return found


def _moments(matrix: csr_array, rows: Ints, padded: NDArray[Any]) -> tuple[Floats, Floats]:
    """sum_I q q' and sum_I q of some rows of similar length; the last row of `padded` is zero."""
    start = matrix.indptr[rows].astype(np.int64)
    counts = matrix.indptr[rows + 1] - start
    place = np.arange(int(counts.max(initial=0)))
    inside = place < counts[:, None]
    positions = np.where(inside, start[:, None] + place, 0)
    index = np.where(inside, matrix.indices[positions] if positions.size else 0, len(padded) - 1)
    gathered = padded[index]
    ones = np.ones((1, len(place)), padded.dtype)
    sums: Floats = (ones @ gathered)[:, 0]  # quicker than a sum along the middle axis
    return np.swapaxes(gathered, 1, 2) @ gathered, sums


def _blocks(counts: Ints) -> Iterator[Ints]:
    """Rows with ones, in groups of similar length and bounded total size."""
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    lengths = counts[order]
    start = 0
    while start < len(order):
        longest = int(lengths[start]) * 9 // 8
        end = int(np.searchsorted(lengths, longest, side="right"))
        end = min(end, start + max(1, _BLOCK // longest))
        yield order[start:end]
        start = end


def _solve_shared(gram: Floats, right: Floats) -> Floats:
    from scipy.linalg import cho_factor, cho_solve

    solved: Floats = cho_solve(cho_factor(gram), right.T).T
    return solved


def _products(matrix: csr_array, left: Floats, right: Floats) -> Floats:
    """p'q on the observed cells, in blocks."""
    out = np.empty(matrix.nnz)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    for start in range(0, len(out), _CELLS):
        k = slice(start, start + _CELLS)
        np.einsum("kr,kr->k", left[rows[k]], right[matrix.indices[k]], out=out[k])
    return out
