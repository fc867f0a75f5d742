"""Feasible sets of one-bit completion with their Euclidean projections.

`NuclearBall` is {||X||_* <= radius}, whose points stay factored. `NuclearBox` is its intersection
with {||X||_inf <= bound}, which is dense by nature.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpmc_core.model import Dense, Factors, Model
from dpmc_core.solvers.linalg import (
    DenseOperator,
    LowRankPlusSparse,
    Operator,
    Pattern,
    Triplets,
    dense_triplets,
    l1_threshold,
    leading_triplets,
)
from dpmc_core.solvers.sizes import check_dense

Floats = NDArray[np.float64]

_DUAL_ROUNDS = 1_000


class Point(ABC):
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


class FeasibleSet(Protocol):
    """A convex set of matrices with a projection after a gradient step on the observed cells."""

    radius: float  # nuclear norm

    def origin(self) -> Any: ...

    def first_step(self, gradient: Floats) -> float:
        """A step length at which the first projection has a low rank."""
        ...

    def project(self, point: Any, step: float, gradient: Floats, tolerance: float) -> Any:
        """P(point - step * gradient) to `tolerance` in Frobenius norm; gradient: observed cells."""
        ...


@dataclass(frozen=True, eq=False)
class LowRankPoint(Point):
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
class DensePoint(Point):
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


class _Thresholder:
    """Singular values onto the l1 ball, warm-started by the vectors of the last call."""

    def __init__(self, radius: float, rng: np.random.Generator) -> None:
        self.radius, self.rng = radius, rng
        self.basis: Floats | None = None

    def __call__(self, operator: Operator, tolerance: float) -> Triplets:
        """Triplets of the projection: values already lowered by the threshold."""
        small = min(operator.shape)
        start = np.empty((small, 0)) if self.basis is None else self.basis

        def above(values: Floats) -> int:
            return int(np.sum(values > l1_threshold(values, self.radius)))

        found = leading_triplets(operator, start, above, tolerance, self.rng)
        if found is None:
            found = dense_triplets(operator)
        theta = l1_threshold(found.values, self.radius)
        keep = found.values > theta
        found = Triplets(found.left[:, keep], found.values[keep] - theta, found.right[:, keep])
        self.basis = found.left if operator.shape[0] <= operator.shape[1] else found.right
        return found


class NuclearBall:
    """{||X||_* <= radius} over a pattern of observed cells."""

    def __init__(self, pattern: Pattern, radius: float, rng: np.random.Generator) -> None:
        self.pattern, self.radius = pattern, radius
        self._threshold = _Thresholder(radius, rng)

    def origin(self) -> LowRankPoint:
        rows, columns = self.pattern.shape
        nothing = np.zeros(len(self.pattern.users))
        return LowRankPoint(np.zeros((rows, 0)), np.zeros((columns, 0)), nothing)

    def first_step(self, gradient: Floats) -> float:
        return _first_step(self.pattern, gradient, self.radius)

    def project(
        self, point: LowRankPoint, step: float, gradient: Floats, tolerance: float
    ) -> LowRankPoint:
        operator = LowRankPlusSparse(point.left, point.right, self.pattern, -step * gradient)
        left, values, right = self._threshold(operator, tolerance)
        left = left * values
        return LowRankPoint(left, right, self.pattern.sample(left, right))


class NuclearBox:
    """{||X||_* <= radius, ||X||_inf <= bound}, by accelerated dual ascent.

    Dykstra's alternating projections are dual coordinate ascent; the accelerated form needs far
    fewer of them. Every point lies in the box exactly and in the ball to the tolerance.
    """

    def __init__(
        self, pattern: Pattern, radius: float, bound: float, rng: np.random.Generator
    ) -> None:
        check_dense(pattern.shape, "the infinity-norm bound inside the solver")
        self.pattern, self.radius, self.bound = pattern, radius, bound
        self._threshold = _Thresholder(radius, rng)
        self._multiplier, self._step = np.zeros(pattern.shape), 1.0

    def origin(self) -> DensePoint:
        return DensePoint(np.zeros(self.pattern.shape), np.zeros(len(self.pattern.users)))

    def first_step(self, gradient: Floats) -> float:
        return _first_step(self.pattern, gradient, self.radius)

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
            left, values, right = self._threshold(DenseOperator(start - momentum), 0.1 * tolerance)
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


def _first_step(pattern: Pattern, gradient: Floats, radius: float) -> float:
    """radius over a rough spectral norm of the gradient: few singular values pass the threshold."""
    matrix, transposed = pattern.by_user(gradient), pattern.by_item(gradient)
    vector = np.ones(pattern.shape[1])
    for _ in range(4):
        vector = transposed @ (matrix @ vector)
        length = float(np.linalg.norm(vector))
        if length == 0:
            return 1.0
        vector /= length
    return radius / float(np.linalg.norm(matrix @ vector))
