"""Alternating least squares for implicit feedback: exact, batched ridge solves.

With S the observed cells of an m x n matrix of zeros and ones, rows p_u and columns q_i,

    L = sum_S (p'q - 1)^2 + alpha sum_D (p'q)^2 + ridge,  D = all cells, or the missing ones

(Rendle, Krichene, Zhang, Koren, "Revisiting the performance of iALS on item recommendation
benchmarks", 2021; RYHH24, Eq. 1 and 11).
"""

from __future__ import annotations

import enum
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.ratings import Ratings
from dpmc_core.solvers.als import Equations, ridge
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.stopping import look

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
        observed = Pattern.of_matrix(matrix).sample(left, right)
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
    if not ratings.clicks:
        other = ratings.values != 1.0
        raise BadRatings(
            f"{int(other.sum())} of {len(ratings)} ratings are not 1, first"
            f" {ratings.values[other][0]:g}: ranking takes interactions of value 1, so prepare the"
            " ratings with implicit=all or implicit=VALUE (the lowest rating that counts)"
        )


def binary_matrix(ratings: Ratings) -> csr_array:
    """The interactions as a users x items matrix of ones. Raises BadRatings for other values."""
    check_interactions(ratings)
    return ratings.matrix


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
    from scipy.linalg import cho_factor, cho_solve

    counts = np.diff(matrix.indptr).astype(np.int64)
    gram = loss.alpha * (other.T @ other)
    penalty = loss.ridge(counts, matrix.shape[1])
    if loss.own_weight == 0 and np.ptp(penalty) == 0:  # all rows share one A
        gram.flat[:: len(gram) + 1] += penalty[0]
        return np.asarray(cho_solve(cho_factor(gram), (matrix @ other).T).T)
    kind = np.float32 if single else np.float64
    equations = Equations(matrix, other.astype(kind))
    gram, penalty = gram.astype(kind), penalty.astype(kind)
    found = np.zeros((matrix.shape[0], other.shape[1]))

    def solve(block: Ints) -> None:
        own, sums = equations.of(block)
        own *= kind(loss.own_weight)
        own += gram
        found[block] = ridge(own, sums, penalty[block])

    # NumPy releases the interpreter while it gathers and multiplies; long rows go first.
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for _ in pool.map(solve, reversed(list(equations.blocks()))):
            look()  # what is not begun by then is not done
    return found
