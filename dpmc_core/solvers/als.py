"""Alternating least squares for ratings: exact batched ridge solves. No privacy here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.linalg import Pattern

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]


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
