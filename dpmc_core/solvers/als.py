"""Least squares of many rows at once: normal equations and ridge solutions. No privacy here.

Row i is regressed on the factors of the other side: minimise
sum_j w_ij (y_ij - f_j'u)^2 + penalty ||u||^2 over u, j over the row's stored cells.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpmc_core.arrays import Floats, Rng
from dpmc_core.privacy import Harmless, harmless
from dpmc_core.solvers.linalg import MANY, Pattern
from dpmc_core.stopping import cancellable, check_cancelled

_PRODUCTS = 64  # of two factors, summed at once


def normal_equations(rows: Any, factors: Floats, weights: Any = None) -> tuple[Floats, Floats]:
    """A (m x d x d) and b (m x d) of all rows, zeros where a row has no cell.

    rows: w_ij y_ij, compressed either way; weights: w_ij on the same cells, None: ones. Cell after
    cell, so no row changes the last bit of another's.
    """
    (m, _), d = rows.shape, factors.shape[1]
    if weights is None:
        weights = type(rows)((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape)
    squares, lower = np.empty((m, d, d)), np.transpose(np.tril_indices(d))
    for start in range(0, len(lower), _PRODUCTS):
        check_cancelled()
        i, j = lower[start : start + _PRODUCTS].T
        squares[:, i, j] = squares[:, j, i] = weights @ (factors[:, i] * factors[:, j])
    return squares, np.asarray(rows @ factors)


def ridge(squares: Floats, moments: Floats, penalty: ArrayLike) -> Floats:
    """(A_i + penalty I)^-1 b_i, m x d.

    squares: m x d x d, or d x d shared by all; moments: m x d; penalty > 0: a number or m.
    """
    shifted = squares.copy()
    diagonal = np.arange(squares.shape[-1])
    shifted[..., diagonal, diagonal] += np.asarray(penalty)[..., None]
    if squares.ndim == 2:
        return np.asarray(np.linalg.solve(shifted, moments.T).T)
    return cancellable(np.linalg.solve, shifted, moments[..., None])[..., 0]


def item_equations(
    cells: Pattern,
    values: Floats,
    factors: Floats,
    weights: ArrayLike = 1.0,
    bound: float = math.inf,
) -> tuple[Floats, Floats]:
    """Those of every column, of values cut to +-bound; factors: of the rows."""
    (_, n), d = cells.shape, factors.shape[1]
    squares, moments = np.zeros((n, d, d)), np.zeros((n, d))
    weights = np.broadcast_to(weights, len(values))
    for rows, k, part in cells.parts(MANY):
        cut = weights[k] * np.clip(values[k], -bound, bound)
        weighted, alone = (part.by_user(x).T for x in (cut, weights[k]))
        more = normal_equations(weighted, factors[rows], alone)
        squares, moments = squares + more[0], moments + more[1]
    return squares, moments


def ridge_rows(cells: Pattern, values: Floats, factors: Floats, *penalties: float) -> Floats:
    """The ridge solutions of every row, penalties x m x d; zeros for a row without cells."""
    found = np.empty((len(penalties), cells.shape[0], factors.shape[1]))
    for rows, k, part in cells.parts(MANY):
        squares, moments = normal_equations(part.by_user(values[k]), factors)
        for index, penalty in enumerate(penalties):
            found[index, rows] = ridge(squares, moments, penalty)
    return found


def nearest_positive(squares: Floats) -> Floats:
    """Each symmetric matrix of a k x r x r batch projected to the positive semidefinite cone."""
    values, vectors = np.linalg.eigh(squares)
    found: Floats = np.einsum(
        "kij,kj,klj->kil", vectors, np.maximum(values, 0.0), vectors, optimize=True
    )
    return found


def full_scale(right: Floats) -> float:
    """What takes the largest singular value of item factors, n x r, to sqrt(n); 1 for zeros."""
    top = float(np.linalg.norm(right, 2))
    return math.sqrt(len(right)) / top if top > 0 else 1.0


def bounded_scale(right: Floats) -> Floats:
    """Item factors scaled down until their largest singular value is <= sqrt(n); n x r.

    The entries along it are then about one and user factors are in rating points. Factors that a
    ridge has shrunk, because noise drowned them, stay small: nobody fits them.
    """
    return right * min(full_scale(right), 1.0)


def random_factors(count: int, rank: int, rng: Rng, spread: float = 1.0) -> Floats:
    """Starting factors that look at no data: independent N(0, spread^2), count x rank."""
    return harmless(rng, Harmless.START).normal(0.0, spread, (count, rank))
