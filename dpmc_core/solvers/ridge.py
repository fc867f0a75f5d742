"""Batched ridge regressions of a matrix factorization, free or within the unit ball. No privacy.

Rows are regressed on the factors of the other side: minimise ||y_i - F u||^2 + penalty ||u||^2
over u, F the factors of row i's observed cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]

_BISECTIONS = 200  # halvings of the multiplier's bracket; the bracket ends far earlier


def normal_equations(rows: csr_array, factors: Floats) -> tuple[Floats, Floats]:
    """A_i = sum f_j f_j' (m x d x d) and b_i = sum y_ij f_j (m x d) over each row's stored cells.

    rows: m x n values, explicit zeros counted; factors: n x d.
    """
    from scipy.sparse import csr_array

    d = factors.shape[1]
    first, second = np.triu_indices(d)
    ones = csr_array((np.ones_like(rows.data), rows.indices, rows.indptr), shape=rows.shape)
    packed = np.asarray(ones @ (factors[:, first] * factors[:, second]))
    squares = np.empty((rows.shape[0], d, d))
    squares[:, first, second] = packed
    squares[:, second, first] = packed
    return squares, np.asarray(rows @ factors)


def ridge(squares: Floats, moments: Floats, penalty: float) -> Floats:
    """(A_i + penalty I)^-1 b_i; squares: m x d x d, moments: m x d, penalty > 0."""
    shifted = squares + penalty * np.eye(squares.shape[1])
    return np.asarray(np.linalg.solve(shifted, moments[..., None])[..., 0], dtype=np.float64)


def ridge_in_ball(squares: Floats, moments: Floats, penalty: float) -> Floats:
    """The ridge solutions under ||u||_2 <= 1, exact.

    Where the ball binds the solution is (A + (penalty + nu) I)^-1 b with the multiplier nu > 0 that
    makes its norm 1 (the secular equation of a trust region), found by bisection.
    """
    values, vectors = np.linalg.eigh(squares)
    along = np.einsum("mij,mi->mj", vectors, moments)
    values = np.maximum(values, 0.0) + penalty

    def too_long(nu: Floats) -> NDArray[np.bool_]:
        longer: NDArray[np.bool_] = np.square(along / (values + nu[:, None])).sum(axis=1) > 1
        return longer

    low = np.zeros(len(values))
    high = np.asarray(np.sqrt(np.square(moments).sum(axis=1)))  # there the norm is below 1
    binds = too_long(low)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        over = too_long(middle)
        low, high = np.where(over, middle, low), np.where(over, high, middle)
        if np.all(high - low <= 1e-15 * high):
            break
    nu = np.where(binds, high, 0.0)
    solved: Floats = np.einsum("mij,mj->mi", vectors, along / (values + nu[:, None]))
    return solved
