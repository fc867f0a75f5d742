"""Shallow autoencoders over items: each item regressed on all others, in closed form.

Steck, "Embarrassingly shallow autoencoders for sparse data" (2019). No privacy here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.solvers.lapack import inverse_triangle
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import gram
from dpmc_core.stopping import look

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]

_BLOCK = 2_000_000  # scores held at once: 16 MB


def item_weights(rows: csr_array, ridge: float) -> Floats:
    """The B (n x n) of least ||X - X B||^2 + ridge ||B||^2 whose diagonal is zero.

    B = -P / diag(P) off the diagonal, P = (X'X + ridge I)^-1: column j predicts item j.
    """
    inverse = gram(Pattern.of_matrix(rows), rows.data)
    inverse.flat[:: len(inverse) + 1] += ridge
    look()
    inverse = inverse_triangle(inverse)  # the matrix is positive definite by its ridge
    weights: Floats = np.triu(inverse, 1)
    look()
    weights += weights.T
    look()
    weights /= -inverse.diagonal()
    return weights


@dataclass(frozen=True, eq=False)
class Autoencoder:
    """score(u, i) = sum of the weights with which the user's items predict i.

    rows: users x items, the users' own ones. weights: items x items.
    """

    rows: csr_array
    weights: Floats
    factors: ClassVar[None] = None

    @classmethod
    def of(cls, rows: csr_array, ridge: float) -> Autoencoder:
        return cls(rows, item_weights(rows, ridge))

    @property
    def lowest(self) -> float:
        """No score is lower, whatever items a user has."""
        return float(np.minimum(self.weights, 0.0).sum(axis=0).min())

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:
        wanted, row = np.unique(np.asarray(users), return_inverse=True)
        where, which = np.broadcast_arrays(row.reshape(np.shape(users)), np.asarray(items))
        scores = np.empty(where.shape)
        size = max(1, _BLOCK // len(self.weights))
        for start in range(0, len(wanted), size):
            look()
            block = np.asarray(self.rows[wanted[start : start + size]] @ self.weights)
            inside = (where >= start) & (where < start + size)
            scores[inside] = block[where[inside] - start, which[inside]]
        return scores
