"""Projected gradient descent over the nuclear ball through the Gram matrix. No privacy here.

JTT18, Algorithm 5: a gradient step on the observed cells, the eigenpairs of Y'Y, soft-thresholding
of the singular values. The paper prints the gradient with the wrong sign.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpmc_core.metrics import rmse
from dpmc_core.model import Factors
from dpmc_core.solvers.linalg import Pattern, l1_threshold
from dpmc_core.solvers.rows import clip_dense_rows
from dpmc_core.solvers.sizes import check_descent

Floats = NDArray[np.float64]


class Schedule(enum.Enum):
    """Step size of round t = 1, 2, ..."""

    ROOT = "root"  # t^(-1/2)
    INVERSE = "inverse"  # 1/t
    CONSTANT = "constant"  # the setting `step`

    def step(self, index: int, constant: float) -> float:
        if self is Schedule.CONSTANT:
            return constant
        return 1 / math.sqrt(index) if self is Schedule.ROOT else 1 / index


class Descent:
    """Y = left right' (m x n, starts at zero) and the targets at the observed cells.

    ratio: by what the last projection multiplied the coordinates along the columns of right.
    """

    def __init__(self, cells: Pattern, target: Floats) -> None:
        check_descent(cells.shape)
        self.cells, self.target = cells, target
        self.left, self.right = np.zeros((cells.shape[0], 1)), np.zeros((cells.shape[1], 1))
        self.ratio = np.zeros(1)

    def stepped_gram(self, step: float, norm: float) -> tuple[Floats, int]:
        """Y'Y after the gradient step with rows clipped to `norm`; also how many were."""
        n = self.cells.shape[1]
        total, cut = np.zeros((n, n)), 0
        for _, rows, clipped in self._blocks(step, norm):
            total += rows.T @ rows
            cut += clipped
        return total, cut

    def project(
        self, step: float, norm: float, squares: Floats, vectors: Floats, radius: float
    ) -> None:
        """Y <- (stepped, clipped Y) V diag(Z/Lambda) V', Z the soft-thresholded Lambda.

        squares, vectors: eigenpairs of the (noisy) Gram matrix; negative eigenvalues are dropped
        and only positive ones inverted. The sum of Z is at most `radius`.
        """
        roots = np.sqrt(np.maximum(squares[::-1], 0.0))
        shrunken = np.maximum(roots - l1_threshold(roots, radius), 0.0)
        kept = shrunken > 0
        basis = vectors[:, ::-1][:, kept]
        ratio = shrunken[kept] / roots[kept]
        m, n = self.cells.shape
        left, right = np.zeros((m, 1)), np.zeros((n, 1))
        if kept.any():
            left, right = np.empty((m, basis.shape[1])), basis
            for where, rows, _ in self._blocks(step, norm):
                left[where] = (rows @ basis) * ratio
        self.left, self.right = left, right
        self.ratio = ratio if kept.any() else np.zeros(1)

    def factors(self) -> Factors:
        return Factors(self.left, self.right)

    def residual_rmse(self) -> float:
        """Root mean square of P(Y - Y*), in rating points."""
        return rmse(self.cells.sample(self.left, self.right), self.target)

    def _blocks(self, step: float, norm: float) -> Iterator[tuple[slice, Floats, int]]:
        """Blocks of rows of Y + step P(Y* - Y), each row scaled to l2 norm `norm` at most."""
        for block, k, where in self.cells.blocks():
            rows = self.left[block] @ self.right.T
            rows[where] += step * (self.target[k] - rows[where])
            yield block, *clip_dense_rows(rows, norm)
