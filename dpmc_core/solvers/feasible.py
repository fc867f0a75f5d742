"""Feasible sets of one-bit completion with their Euclidean projections.

`NuclearBall` is {||X||_* <= radius}, whose points stay factored. `NuclearBox` is its intersection
with {||X||_inf <= bound}, which is dense by nature.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.model import Dense, Factors, Model
from dpmc_core.solvers.linalg import (
    Operator,
    Pattern,
    Shrinker,
    Triplets,
    dense_operator,
    l1_threshold,
    low_rank_plus_sparse,
)
from dpmc_core.solvers.sizes import check_dense
from dpmc_core.stopping import look

Floats = NDArray[np.float64]

_DUAL_ROUNDS = 1_000


class FeasiblePoint(ABC):
    """A feasible matrix. observed: its values on the pattern's cells; rank: None if not known."""

    observed: Floats

    @property
    def rank(self) -> int | None:
        return None

    @abstractmethod
    def dot(self, other: Any) -> float:
        """Frobenius inner product with a point of the same kind."""

    def norm(self) -> float:
        """||X||_F."""
        return math.sqrt(self.dot(self))

    @abstractmethod
    def towards(self, other: Any, share: float) -> Any:
        """(1 - share) self + share other."""

    @abstractmethod
    def model(self) -> Model: ...


@dataclass(frozen=True, eq=False)
class LowRankPoint(FeasiblePoint):
    """left @ right'."""

    left: Floats
    right: Floats
    observed: Floats

    @property
    def rank(self) -> int:
        return int(self.left.shape[1])

    def dot(self, other: LowRankPoint) -> float:
        return float(np.sum((self.left.T @ other.left) * (self.right.T @ other.right)))

    def towards(self, other: LowRankPoint, share: float) -> LowRankPoint:
        observed = (1 - share) * self.observed + share * other.observed
        left = np.hstack([(1 - share) * self.left, share * other.left])
        right = np.hstack([self.right, other.right])
        (ql, rl), (qr, rr) = np.linalg.qr(left), np.linalg.qr(right)
        u, s, vt = np.linalg.svd(rl @ rr.T)
        keep = s > 1e-13 * max(1.0, s[0])
        k = len(s)
        return LowRankPoint((ql @ u[:, :k] * s)[:, keep], (qr @ vt.T[:, :k])[:, keep], observed)

    def model(self) -> Factors:
        return Factors(self.left, self.right)


@dataclass(frozen=True, eq=False)
class DensePoint(FeasiblePoint):
    """A whole matrix."""

    matrix: Floats
    observed: Floats

    def dot(self, other: DensePoint) -> float:
        return float(np.vdot(self.matrix, other.matrix))

    def towards(self, other: DensePoint, share: float) -> DensePoint:
        return DensePoint(
            (1 - share) * self.matrix + share * other.matrix,
            (1 - share) * self.observed + share * other.observed,
        )

    def model(self) -> Dense:
        return Dense(self.matrix)


class FeasibleSet(ABC):
    """A convex set within {||X||_* <= radius}, with a pattern of observed cells."""

    def __init__(self, pattern: Pattern, radius: float, rng: np.random.Generator) -> None:
        self.pattern, self.radius = pattern, radius
        self._shrinker = Shrinker(rng)

    @abstractmethod
    def origin(self) -> Any:
        """The zero matrix."""

    @abstractmethod
    def project(self, point: Any, step: float, gradient: Floats, tolerance: float) -> Any:
        """P(point - step * gradient) to `tolerance` in Frobenius norm; gradient: observed cells."""

    def first_step(self, gradient: Floats) -> float:
        """A step length at which the first projection has a low rank: few values are kept.

        radius over a rough spectral norm of the gradient.
        """
        matrix, transposed = self.pattern.by_user(gradient), self.pattern.by_item(gradient)
        vector = np.ones(self.pattern.shape[1])
        for _ in range(4):
            vector = transposed @ (matrix @ vector)
            length = float(np.linalg.norm(vector))
            if length == 0:
                return 1.0
            vector /= length
        return self.radius / float(np.linalg.norm(matrix @ vector))

    def _onto_ball(self, operator: Operator, tolerance: float) -> Triplets:
        """Triplets of the projection onto {||X||_* <= radius}."""
        return self._shrinker.shrunk(operator, lambda v: l1_threshold(v, self.radius), tolerance)


class NuclearBall(FeasibleSet):
    """{||X||_* <= radius}."""

    def origin(self) -> LowRankPoint:
        rows, columns = self.pattern.shape
        nothing = np.zeros(len(self.pattern.users))
        return LowRankPoint(np.zeros((rows, 0)), np.zeros((columns, 0)), nothing)

    def project(
        self, point: LowRankPoint, step: float, gradient: Floats, tolerance: float
    ) -> LowRankPoint:
        operator = low_rank_plus_sparse(point.left, point.right, self.pattern, -step * gradient)
        left, values, right = self._onto_ball(operator, tolerance)
        left = left * values
        return LowRankPoint(left, right, self.pattern.sample(left, right))


class NuclearBox(FeasibleSet):
    """{||X||_* <= radius, ||X||_inf <= bound}, by accelerated dual ascent.

    Dykstra's alternating projections are dual coordinate ascent; the accelerated form needs far
    fewer of them. Every point lies in the box exactly and in the ball to the tolerance.
    """

    def __init__(
        self, pattern: Pattern, radius: float, bound: float, rng: np.random.Generator
    ) -> None:
        check_dense(pattern.shape, "the infinity-norm bound inside the solver")
        super().__init__(pattern, radius, rng)
        self.bound = bound
        self._multiplier, self._step = np.zeros(pattern.shape), 1.0

    def origin(self) -> DensePoint:
        return DensePoint(np.zeros(self.pattern.shape), np.zeros(len(self.pattern.users)))

    def project(
        self, point: DensePoint, step: float, gradient: Floats, tolerance: float
    ) -> DensePoint:
        cells = self.pattern.users, self.pattern.items
        start = point.matrix.copy()
        start[cells] -= step * gradient
        # Multipliers grow with the step, so the last call's, rescaled, are nearly right.
        multiplier = self._multiplier * (step / self._step)
        momentum, pace = multiplier, 1.0
        for _ in range(_DUAL_ROUNDS):
            look()
            left, values, right = self._onto_ball(dense_operator(start - momentum), 0.1 * tolerance)
            inner = (left * values) @ right.T
            shifted = inner + momentum
            box = np.clip(shifted, -self.bound, self.bound)
            before, multiplier = multiplier, shifted - box
            gap = float(np.linalg.norm(inner - box))
            if gap <= tolerance:
                break
            if np.vdot(momentum - multiplier, multiplier - before) > 0:
                pace = 1.0  # momentum points uphill: restart (O'Donoghue, Candes 2015)
            faster = (1 + math.sqrt(1 + 4 * pace * pace)) / 2
            momentum = multiplier + ((pace - 1) / faster) * (multiplier - before)
            pace = faster
        self._multiplier, self._step = multiplier, step
        return DensePoint(box, box[cells])
