"""Directions of taste from clicks: users' profiles, the moments of items, what stands out of noise.

A profile is where a user's row points among public item features; everything here is a sum over
users to which each adds a bounded part.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpmc_core.solvers.linalg import Pattern

Floats = NDArray[np.float64]

_BLOCK = 4_000_000  # numbers gathered at once: 32 MB
_ZERO = 1e-9  # a sum this much shorter than its terms is rounding


def profiles(pattern: Pattern, features: Floats) -> Floats:
    """Unit rows, users x d: the direction of the sum of each user's item features (items x d).

    A user whose features cancel, or without items, gets zeros.
    """
    return _directions(_sums(pattern, features), _shortest(features))


def cross_moments(pattern: Pattern, weights: Floats, features: Floats) -> Floats:
    """sum over a row's users of weight x (profile without this item), items x d.

    weights: one per observed cell. The part of one user has Frobenius norm at most the l2 norm of
    that user's weights, because each profile has length 1 or 0.
    """
    from scipy.sparse import csr_array

    sums, shortest = _sums(pattern, features), _shortest(features)
    items, d = features.shape
    moments = np.zeros((items, d))
    size = max(1, _BLOCK // max(1, d))
    for start in range(0, len(pattern.users), size):
        k = slice(start, start + size)
        u, i = pattern.users[k], pattern.items[k]
        others = _directions(sums[u] - features[i], shortest)
        cells = np.arange(len(u))
        moments += np.asarray(csr_array((weights[k], (i, cells)), shape=(items, len(u))) @ others)
    return moments


def signal_energy(values: Floats, noise: float, rows: int, columns: int) -> Floats:
    """Singular values of a rows x columns matrix with the noise taken out; 0 where it drowns them.

    values: of the matrix plus independent noise of that standard deviation. The shrinkage is
    optimal in Frobenius norm as the sizes grow (Gavish, Donoho, "Optimal shrinkage of singular
    values", 2017): with beta = columns/rows and y the value over noise sqrt(rows),
    sqrt((y^2 - beta - 1)^2 - 4 beta)/y above the edge 1 + sqrt(beta).
    """
    beta = columns / rows
    y = values / (noise * np.sqrt(rows))
    above = y > 1.02 * (1.0 + np.sqrt(beta))  # the edge itself wobbles a little
    root = np.sqrt(np.maximum((y**2 - beta - 1.0) ** 2 - 4.0 * beta, 0.0))
    clean: Floats = np.where(above, root / np.maximum(y, 1e-300), 0.0) * noise * np.sqrt(rows)
    return clean


def _sums(pattern: Pattern, features: Floats) -> Floats:
    return np.asarray(pattern.by_user(np.ones(len(pattern.users))) @ features)


def _shortest(features: Floats) -> float:
    return _ZERO * float(np.linalg.norm(features, axis=1).max())


def _directions(vectors: Floats, shortest: float) -> Floats:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        unit: Floats = np.where(length > shortest, vectors / length, 0.0)
    return unit
