"""Soft-impute with continuation: nuclear-norm regression on reported cells. No privacy here.

Mazumder, Hastie, Tibshirani, "Spectral regularization algorithms for learning large incomplete
matrices" (2010), for the loss 1/2 sum (y_k - a (c + M_k))^2 + penalty ||M||_*, accelerated as in
Beck and Teboulle (2009). a = 1 and no offset c is soft-impute itself.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import Floats, Rng
from dpmc_core.model import Step, Steps
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import mechanism, setting
from dpmc_core.solvers.linalg import (
    Pattern,
    SingularValueShrinker,
    Triplets,
    frobenius_distance,
    low_rank_plus_sparse,
)
from dpmc_core.solvers.rows import factors_with_offsets
from dpmc_core.stopping import check_cancelled

FACTOR = 0.7  # from one penalty of the path to the next
_BISECTIONS = 6  # of the last gap: the residual then meets its goal within a percent or so
_INNER = 60  # proximal steps per penalty
_MARGIN = 1.25  # over the spectral norm that pure noise has on average
_PRIOR = 0.5  # standard deviation of a mean rating in -1..1, before any is seen
_TOLERANCE = 1e-2  # relative change of a proximal step


class Regression(NamedTuple):
    """Reports on a pattern.

    Attributes:
        pattern: the reported cells.
        target: y, shape (n_cells,), on the scale -1..1.
        gain: a, above 0: y is about a times the rating.
        ridge: adds ridge c^2 / 2 to the loss, which holds back an offset that little is known of;
            None: no offset.
    """

    pattern: Pattern
    target: Floats
    gain: float
    ridge: float | None

    def residual(self, fitted: Floats) -> Floats:
        """Return y - a fitted on the pattern.

        Args:
            fitted: shape (n_cells,).

        Returns:
            Array of shape (n_cells,).
        """
        return self.target - self.gain * fitted

    def best_offset(self, fitted: Floats) -> float:
        """Return the c that minimises the loss for given M on the pattern.

        Args:
            fitted: M, shape (n_cells,).
        """
        if self.ridge is None:
            return 0.0
        pull = self.gain * float(self.residual(fitted).sum())
        return pull / (self.gain**2 * len(fitted) + self.ridge)


class Solution(NamedTuple):
    """The minimiser offset + left diag(values) right' at one penalty.

    Attributes:
        left: shape (m, r).
        values: shape (r,), in descending order.
        right: shape (n, r).
        offset: c.
        penalty: of the nuclear norm.
        residual: ||y - a (c + M)||_2 on the pattern.
    """

    left: Floats
    values: Floats
    right: Floats
    offset: float
    penalty: float
    residual: float

    @property
    def rank(self) -> int:
        """The rank of M."""
        return len(self.values)


def path(
    problem: Regression,
    penalty: float | None = None,
    residual: float | None = None,
    *,
    steps: int,
    tolerance: float,
    rng: Rng,
) -> Iterator[Solution]:
    """Yield solutions along falling penalties, each started at the one before.

    The penalties fall to `penalty`, or until the residual meets its goal (discrepancy principle),
    then closer to it by bisection. The last solution is the answer: the largest penalty found that
    meets the goal, or M = 0 where that already does.

    Args:
        problem: the regression.
        penalty: the last penalty; None: the residual decides.
        residual: the goal, ||y - a (c + M)||_2; None: no goal.
        steps: the largest number of solutions.
        tolerance: the relative change of a step at which a solve stops.
        rng: draws where the search for singular vectors starts.
    """
    solver = _Solver(problem, tolerance, rng)
    top = solver.largest_penalty()
    goal = math.inf if residual is None else residual
    if penalty is not None:
        count = max(1, math.ceil(math.log(max(top / penalty, 1.0)) / -math.log(FACTOR)))
        for k in range(max(0, count - steps) + 1, count + 1):
            yield solver.solve(max(penalty, penalty * FACTOR ** (k - count)))
        return
    found = solver.solve(top)
    yield found
    taken, above = 1, top
    while found.residual > goal and taken < steps:
        above = found.penalty
        found = solver.solve(above * FACTOR)
        taken += 1
        yield found
    if found.residual > goal or taken == 1:
        return
    below, best = found.penalty, found
    for _ in range(min(_BISECTIONS, steps - taken)):
        found = solver.solve(math.sqrt(above * below))
        if found.residual > goal:
            above = found.penalty
        else:
            below, best = found.penalty, found
            yield best


class _Solver:
    """Warm-started accelerated proximal gradient for one regression."""

    def __init__(self, problem: Regression, tolerance: float, rng: Rng) -> None:
        self.problem, self.tolerance, self.shrinker = problem, tolerance, SingularValueShrinker(rng)
        self.smoothness = problem.gain**2
        rows, columns = problem.pattern.shape
        self.now = Triplets(np.empty((rows, 0)), np.empty(0), np.empty((columns, 0)))
        self.offset = problem.best_offset(np.zeros(len(problem.target)))

    def largest_penalty(self) -> float:
        """Return the smallest penalty with solution M = 0, the loss gradient's spectral norm."""
        nothing = np.full(len(self.problem.target), self.offset)
        gradient = self.problem.gain * self.problem.residual(nothing)
        empty = self.now.left, self.now.right
        operator = low_rank_plus_sparse(*empty, self.problem.pattern, gradient)
        accuracy = 1e-3 * float(np.linalg.norm(gradient))
        leading = self.shrinker.find_leading_triplets(operator, lambda _: 1, accuracy)
        return float(leading.values[0]) if leading.rank else 0.0

    def solve(self, penalty: float) -> Solution:
        """Return the solution at a penalty, started at the last one."""
        problem, before, momentum = self.problem, self.now, 1.0
        fitted_now = self._on_pattern(self.now)
        fitted_before = fitted_now
        for _ in range(_INNER):
            check_cancelled()
            grown = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            beta, momentum = (momentum - 1) / grown, grown
            point = _combine(self.now, before, beta)
            fitted = fitted_now + beta * (fitted_now - fitted_before)
            self.offset = problem.best_offset(fitted)
            slope = problem.gain * problem.residual(self.offset + fitted) / self.smoothness
            operator = low_rank_plus_sparse(*point, problem.pattern, slope)
            before, fitted_before = self.now, fitted_now
            threshold = penalty / self.smoothness
            size = max(threshold, float(np.linalg.norm(self.now.values)))
            accuracy = 0.1 * self.tolerance * size
            self.now = self.shrinker.soft_threshold(operator, lambda _: threshold, accuracy)  # noqa: B023
            fitted_now = self._on_pattern(self.now)
            size = max(float(np.linalg.norm(self.now.values)), 1e-12)
            change = frobenius_distance(self.now, before) / size
            if change <= self.tolerance or self.now.rank == before.rank == 0:
                break
            if float((fitted - fitted_now) @ (fitted_now - fitted_before)) > 0:
                momentum = 1.0  # the momentum points uphill (O'Donoghue, Candes 2015)
        self.offset = problem.best_offset(fitted_now)
        residual = float(np.linalg.norm(problem.residual(self.offset + fitted_now)))
        return Solution(*self.now, self.offset, penalty, residual)

    def _on_pattern(self, point: Triplets) -> Floats:
        if point.rank == 0:
            return np.zeros(len(self.problem.target))
        return self.problem.pattern.sample_product(point.left * point.values, point.right)


def _combine(now: Triplets, before: Triplets, beta: float) -> tuple[Floats, Floats]:
    """Factors of now + beta (now - before)."""
    if beta == 0 or before.rank == 0:
        return (1 + beta) * now.left * now.values, now.right
    return (
        np.hstack([(1 + beta) * now.left * now.values, -beta * before.left * before.values]),
        np.hstack([now.right, before.right]),
    )


class Regress(enum.Enum):
    """What the reported values are taken for."""

    NAIVE = "naive"  # ratings, as published
    DEBIASED = "debiased"  # ratings shrunk by the chance of being genuine, around an offset


class Rule(enum.Enum):
    """How the penalty is found; none looks at anything but the reports and public facts."""

    NOISE_LEVEL = "noise-level"  # the spectral norm of the noise: only what stands out is kept
    EQUATION_3 = "equation-3"  # discrepancy principle, the residual at the truth by the moments
    THEOREM = "theorem-3"  # discrepancy principle, residual from the paper's Theorem 3


class Reports(NamedTuple):
    """What a server holds: reported values on a pattern, and what is known of the channel.

    Attributes:
        pattern: the reported cells.
        values: shape (n_cells,), on the scale -1..1.
        gain: E[report | cell reported] = gain x the rating there.
        variance: of a report around that, but for whether it is genuine.
        rho: Theorem 3's bound on the residual at the truth.
    """

    pattern: Pattern
    values: Floats
    gain: float
    variance: float
    rho: float

    def residual(self, gain: float) -> float:
        """Return ||y - gain r||_2 of the true ratings r, as the channel's moments tell it.

        E y^2 = variance + g r^2 and E y = g r, so E (y - a r)^2 = variance + (g - 2 a g + a^2) r^2,
        where the mean of r^2, in 0..1, is told by that of y^2. At gain 1 it is rho of Z16's
        Equation 3.
        """
        count = len(self.values)
        square = (float(self.values @ self.values) / count - self.variance) / self.gain
        off = (self.gain * (1 - 2 * gain) + gain**2) * min(max(square, 0.0), 1.0)
        return math.sqrt(count * (self.variance + off))


@mechanism
class Recovery:
    """The settings of the recovery, and the recovery."""

    recovery: Regress = setting(
        Regress.DEBIASED,
        "take reports as they come (published), or allow for their chance of being genuine",
    )
    rule: Rule = setting(
        Rule.NOISE_LEVEL,
        "what sets the penalty: the noise's spectral norm, or a residual to be met",
    )
    intrinsic: float = setting(
        0.2,
        "how far ratings lie from any low-rank matrix, as a share of their range",
        above=0,
        at_most=1,
    )
    steps: int = setting(30, "most penalties tried on the way down", at_least=1, at_most=1_000)

    @property
    def misfit(self) -> float:
        """The setting `intrinsic` in units of the scale -1..1: the rho_0 of Theorem 3."""
        return 2 * self.intrinsic

    def recover(self, reports: Reports, public: PublicFacts, rng: Rng, *, raw: bool) -> Steps:
        """Yield a step for each penalty.

        Args:
            reports: what the server holds.
            public: the public facts.
            rng: draws where the search for singular vectors starts.
            raw: whether the reports are raw ratings; then the trace is marked raw.
        """
        debiased = self.recovery is Regress.DEBIASED
        gain = reports.gain if debiased else 1.0
        ridge = reports.variance / _PRIOR**2 if debiased else None
        problem = Regression(reports.pattern, reports.values, gain, ridge)
        count = len(reports.values)
        rows, columns = reports.pattern.shape
        penalty = residual = None
        if self.rule is Rule.NOISE_LEVEL:
            each = math.sqrt(reports.variance * count / (rows * columns))
            penalty = _MARGIN * gain * each * (math.sqrt(rows) + math.sqrt(columns))
        elif self.rule is Rule.EQUATION_3:
            residual = reports.residual(gain)
        else:
            residual = reports.rho
        found = path(problem, penalty, residual, steps=self.steps, tolerance=_TOLERANCE, rng=rng)
        for index, (now, following) in enumerate(pairwise(chain(found, (None,))), start=1):
            assert now is not None
            trace = {"penalty": now.penalty, "residual": now.residual, "rank": float(now.rank)}
            left = public.half_width * now.left * now.values
            offset = public.middle + public.half_width * now.offset
            model = factors_with_offsets(left, now.right, offset)
            told = () if raw else trace
            yield Step.from_trace(
                index, self.steps, model, trace, told, converged=following is None
            )


def on_unit_scale(values: Floats, public: PublicFacts) -> Floats:
    """Map ratings so that the public range becomes -1..1.

    Args:
        values: shape (k,), in rating points.
        public: the public range.

    Returns:
        Array of shape (k,).
    """
    return (values - public.middle) / public.half_width
