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
from dpmc_core.solvers.empirical_bayes import PRIORS
from dpmc_core.solvers.linalg import (
    Pattern,
    SingularValueShrinker,
    Triplets,
    frobenius_distance,
    low_rank_plus_sparse,
)
from dpmc_core.solvers.rows import factors_with_offsets
from dpmc_core.stopping import check_cancelled

PENALTY_FACTOR = 0.7  # from one penalty to the next
_BISECTIONS = 6  # of the last interval: the residual then meets its goal within about a percent
_PROXIMAL_STEPS = 60  # per penalty, at most
_MARGIN = 1.25  # over the average spectral norm of pure noise
_OFFSET_STD = 4 * PRIORS.mean  # of the mean rating in -1..1; twice the prior, so it hardly shrinks
_TOLERANCE = 1e-2  # relative change of a proximal step


class Regression(NamedTuple):
    """The nuclear-norm regression of reports y on a (c + M), with a low-rank M and an offset c.

    Attributes:
        pattern: the reported cells.
        target: y, shape (n_cells,), on the scale -1..1.
        gain: a, above 0: y is on average about a times the rating.
        ridge: the weight of the term ridge c^2 / 2 in the loss, which keeps an uncertain offset
            small; None: there is no offset.
    """

    pattern: Pattern
    target: Floats
    gain: float
    ridge: float | None

    def residual(self, fitted: Floats) -> Floats:
        """Return y - a * fitted on the pattern.

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
        return (self.gain * self.residual(fitted).sum()) / (self.gain**2 * len(fitted) + self.ridge)

    def predict_entries(self, matrix: Triplets) -> Floats:
        """Return a matrix M at the reported cells, shape (n_cells,)."""
        return self.pattern.sample_product(matrix.left * matrix.values, matrix.right)


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


def iterate_penalties(
    problem: Regression,
    penalty: float | None = None,
    residual_goal: float = math.inf,
    *,
    steps: int,
    tolerance: float,
    rng: Rng,
) -> Iterator[Solution]:
    """Solve the regression for decreasing penalties, each solve started at the last solution.

    The penalties decrease to `penalty`, or until the residual meets its goal (discrepancy
    principle) and then come closer to the goal by bisection. The last solution is the answer: that
    of the largest penalty found that meets the goal, or M = 0 if that already does.

    Args:
        problem: the regression.
        penalty: the last penalty; None: the residual decides.
        residual_goal: the largest ||y - a (c + M)||_2 that is accepted.
        steps: the largest number of solutions.
        tolerance: the relative change of a step at which a solve stops.
        rng: draws where the search for singular vectors starts.

    Yields:
        The solution at each penalty; in the bisection only those that meet the goal.
    """
    shrinker = SingularValueShrinker(rng)
    rows, columns = problem.pattern.shape
    current = Triplets(np.empty((rows, 0)), np.empty(0), np.empty((columns, 0)))
    zeros = np.zeros(len(problem.target))

    def solve(penalty: float) -> Solution:
        nonlocal current
        solution = _solve_at_penalty(problem, penalty, current, tolerance, shrinker)
        current = Triplets(*solution[:3])
        return solution

    # The smallest penalty at which M = 0 is the spectral norm of the loss gradient there.
    gradient = problem.gain * problem.residual(zeros + problem.best_offset(zeros))
    operator = low_rank_plus_sparse(current.left, current.right, problem.pattern, gradient)
    leading = shrinker.find_leading_triplets(
        operator, lambda _: 1, 1e-3 * float(np.linalg.norm(gradient))
    )
    top = float(leading.values[0]) if leading.rank else 0.0
    if penalty is not None:
        count = max(1, math.ceil(math.log(max(top / penalty, 1.0)) / -math.log(PENALTY_FACTOR)))
        for k in range(max(0, count - steps) + 1, count + 1):  # the last `steps` of the penalties
            yield solve(max(penalty, penalty * PENALTY_FACTOR ** (k - count)))
        return
    solution = solve(top)
    yield solution
    n_solutions, above = 1, top
    while solution.residual > residual_goal and n_solutions < steps:
        above = solution.penalty
        solution = solve(above * PENALTY_FACTOR)
        n_solutions += 1
        yield solution
    if solution.residual > residual_goal or n_solutions == 1:
        return
    below = solution.penalty
    for _ in range(min(_BISECTIONS, steps - n_solutions)):
        solution = solve(math.sqrt(above * below))
        if solution.residual > residual_goal:
            above = solution.penalty
        else:
            below = solution.penalty
            yield solution


def _solve_at_penalty(
    problem: Regression,
    penalty: float,
    start: Triplets,
    tolerance: float,
    shrinker: SingularValueShrinker,
) -> Solution:
    """Solve the regression at a penalty by accelerated proximal gradient, from a start for M.

    Args:
        problem: the regression.
        penalty: of the nuclear norm.
        start: M at the start.
        tolerance: the relative change of a step at which it stops.
        shrinker: finds the singular vectors.
    """
    smoothness = problem.gain**2  # the Lipschitz constant of the loss gradient
    threshold = penalty / smoothness
    current = previous = start
    current_fit = previous_fit = problem.predict_entries(start)
    momentum = 1.0
    for _ in range(_PROXIMAL_STEPS):
        check_cancelled()
        next_momentum = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        beta, momentum = (momentum - 1) / next_momentum, next_momentum
        point = _extrapolate(current, previous, beta)
        fitted = current_fit + beta * (current_fit - previous_fit)
        slope = problem.gain * problem.residual(problem.best_offset(fitted) + fitted) / smoothness
        operator = low_rank_plus_sparse(*point, problem.pattern, slope)
        previous, previous_fit = current, current_fit
        # The error of a step stays well below the change at which the rounds end.
        accuracy = 0.1 * tolerance * max(threshold, float(np.linalg.norm(current.values)))
        current = shrinker.soft_threshold(operator, lambda _: threshold, accuracy)
        current_fit = problem.predict_entries(current)
        change = frobenius_distance(current, previous) / max(
            float(np.linalg.norm(current.values)), 1e-12
        )
        if change <= tolerance or current.rank == previous.rank == 0:
            break
        if (fitted - current_fit) @ (current_fit - previous_fit) > 0:
            momentum = 1.0  # the momentum points uphill (O'Donoghue, Candes 2015)
    offset = problem.best_offset(current_fit)
    residual_norm = float(np.linalg.norm(problem.residual(offset + current_fit)))
    return Solution(*current, offset, penalty, residual_norm)


def _extrapolate(current: Triplets, previous: Triplets, beta: float) -> tuple[Floats, Floats]:
    """Return left and right factors of the matrix current + beta (current - previous)."""
    if beta == 0 or previous.rank == 0:
        return (1 + beta) * current.left * current.values, current.right
    return (
        np.hstack(
            [(1 + beta) * current.left * current.values, -beta * previous.left * previous.values]
        ),
        np.hstack([current.right, previous.right]),
    )


class Regress(enum.Enum):
    """How the regression interprets reported values."""

    NAIVE = "naive"  # as ratings (as published)
    DEBIASED = "debiased"  # as ratings times the probability of a genuine report, with an offset


class Rule(enum.Enum):
    """How the penalty is chosen, from the reports and public facts only."""

    NOISE_LEVEL = "noise-level"  # the spectral norm of the noise: only larger directions remain
    EQUATION_3 = "equation-3"  # discrepancy principle; the goal follows from the channel's moments
    THEOREM = "theorem-3"  # discrepancy principle; the goal is the paper's Theorem 3


class Reports(NamedTuple):
    """What a server holds: reported values on a pattern, and the moments of their noise.

    Attributes:
        pattern: the reported cells.
        values: shape (n_cells,), on the scale -1..1.
        gain: g in E[report | cell reported] = g r, with r the rating of the cell.
        variance: E[report^2 | cell reported] - g r^2.
        rho: Theorem 3's bound on the residual ||y - r||_2 of the true ratings.
    """

    pattern: Pattern
    values: Floats
    gain: float
    variance: float
    rho: float

    def estimate_residual(self, gain: float) -> float:
        """Estimate ||y - a r||_2 of reports y and true ratings r from the channel's moments.

        E y^2 = variance + g r^2 and E y = g r, so E (y - a r)^2 = variance + (g - 2 a g + a^2) r^2,
        where the mean of r^2, in 0..1, is estimated from that of y^2. At a = 1 it is rho of Z16's
        Equation 3.

        Args:
            gain: the factor a.
        """
        count = len(self.values)
        square = (float(self.values @ self.values) / count - self.variance) / self.gain
        misfit_variance = (self.gain * (1 - 2 * gain) + gain**2) * min(max(square, 0.0), 1.0)
        return math.sqrt(count * (self.variance + misfit_variance))


@mechanism
class Recovery:
    """The settings of nuclear-norm recovery from reports, and its computation."""

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
        """Fit nuclear-norm regressions to the reports, and yield a step for each penalty.

        Args:
            reports: what the server holds.
            public: the public facts.
            rng: draws where the search for singular vectors starts.
            raw: whether the reports are raw ratings; then the trace is marked raw.
        """
        debiased = self.recovery is Regress.DEBIASED
        gain = reports.gain if debiased else 1.0
        ridge = reports.variance / _OFFSET_STD**2 if debiased else None
        problem = Regression(reports.pattern, reports.values, gain, ridge)
        count = len(reports.values)
        rows, columns = reports.pattern.shape
        penalty, residual = None, math.inf
        if self.rule is Rule.NOISE_LEVEL:
            noise_std = math.sqrt(reports.variance * count / (rows * columns))
            penalty = _MARGIN * gain * noise_std * (math.sqrt(rows) + math.sqrt(columns))
        elif self.rule is Rule.EQUATION_3:
            residual = reports.estimate_residual(gain)
        else:
            residual = reports.rho
        solutions = iterate_penalties(
            problem, penalty, residual, steps=self.steps, tolerance=_TOLERANCE, rng=rng
        )
        for index, (solution, following) in enumerate(pairwise(chain(solutions, (None,))), 1):
            assert solution is not None
            trace = {
                "penalty": solution.penalty,
                "residual": solution.residual,
                "rank": solution.rank,
            }
            left = public.half_width * solution.left * solution.values
            offset = public.middle + public.half_width * solution.offset
            model = factors_with_offsets(left, solution.right, offset)
            published_names = () if raw else trace
            yield Step.from_trace(
                index, self.steps, model, trace, published_names, converged=following is None
            )


def scale_to_unit_range(values: Floats, public: PublicFacts) -> Floats:
    """Map ratings so that the public range becomes -1..1.

    Args:
        values: shape (k,), in rating points.
        public: the public range.

    Returns:
        Array of shape (k,).
    """
    return (values - public.middle) / public.half_width
