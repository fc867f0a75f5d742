"""Alternating least squares for ratings: exact batched ridge problems. No privacy here.

Rows are regressed on the factors of the other side: minimise ||y_i - F u||^2 + penalty ||u||^2 over
u, F the factors of row i's observed cells, free or within the unit ball.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.solvers.linalg import Pattern

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


def user_ridge(cells: Pattern, values: Floats, right: Floats, ridge: float) -> Floats:
    """Every user's exact ridge solution: argmin sum_j (x_ij - u . v_j)^2 + ridge ||u||^2.

    values: at the cells; right: n x r. Returns m x r; a user without cells gets zeros.
    """
    squares = _squares(cells.by_user(np.ones_like(values)), right)
    return solve_ridge(squares, np.asarray(cells.by_user(values) @ right), ridge)


def item_statistics(
    cells: Pattern, values: Floats, left: Floats, weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """A_j = sum_i w_ij u_i u_i' (n x r x r) and b_j = sum_i w_ij x_ij u_i (n x r) of every item.

    values, weights: at the cells; left: m x r.
    """
    w = np.ones_like(values) if weights is None else weights
    return _squares(cells.by_item(w), left), np.asarray(cells.by_item(values * w) @ left)


def solve_ridge(squares: Floats, moments: Floats, ridge: ArrayLike) -> Floats:
    """Batched (A + ridge I)^-1 b; squares: k x r x r, moments: k x r, ridge: a number or k."""
    r = moments.shape[1]
    shifted = squares + np.asarray(ridge, dtype=np.float64)[..., None, None] * np.eye(r)
    return np.linalg.solve(shifted, moments[..., None])[..., 0].astype(np.float64, copy=False)


def nearest_positive(squares: Floats) -> Floats:
    """Each symmetric matrix of a k x r x r batch projected to the positive semidefinite cone."""
    values, vectors = np.linalg.eigh(squares)
    projected: Floats = np.einsum(
        "kij,kj,klj->kil", vectors, np.maximum(values, 0.0), vectors, optimize=True
    )
    return projected


def bounded_scale(right: Floats) -> Floats:
    """Item factors scaled down until their largest singular value is <= sqrt(n); n x r.

    The entries along it are then about one and user factors are in rating points. Factors that a
    ridge has shrunk, because noise drowned them, stay small: nobody fits them.
    """
    most = math.sqrt(len(right))
    top = float(np.linalg.norm(right, 2))
    return right * (most / top) if top > most else right


def random_factors(items: int, rank: int, rng: np.random.Generator) -> Floats:
    """Starting item factors, independent standard normal entries; items x rank."""
    return rng.standard_normal((items, rank))


def _squares(weights: csr_array, factors: Floats) -> Floats:
    """sum_j w_ij f_j f_j' for each row i of the sparse weights; rows x r x r."""
    r = factors.shape[1]
    first, second = np.triu_indices(r)
    packed = np.asarray(weights @ (factors[:, first] * factors[:, second]))  # each pair once
    squares = np.empty((len(packed), r, r))
    squares[:, first, second] = packed
    squares[:, second, first] = packed
    return squares
