"""Maximum-likelihood completion of a sign matrix within a nuclear-norm ball. No privacy here.

Davenport, Plan, van den Berg, Wootters, "1-bit matrix completion" (2014), by the non-monotone
spectral projected gradient of Birgin, Martinez, Raydan (2000).

In shapes, m is the number of users, n of items and n_entries of observed ratings, sorted by user.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.arrays import Floats, Rng
from dpmc_core.errors import BadRatings
from dpmc_core.links import LINK_CHOICES, LOGISTIC, Link, Logistic, parse_link
from dpmc_core.model import Dense, Factors, Step, Steps
from dpmc_core.ratings import Ratings
from dpmc_core.settings import mechanism, setting
from dpmc_core.solvers.linalg import (
    Operator,
    Pattern,
    SingularValueShrinker,
    Triplets,
    dense_operator,
    frobenius_distance,
    l1_threshold,
    low_rank_plus_sparse,
)
from dpmc_core.solvers.sizes import check_dense
from dpmc_core.stopping import check_cancelled

# Maps the scores of the observed entries to the loss and its gradient, both at these entries.
LossFunction = Callable[[Floats], tuple[float, Floats]]

STEP_LIMITS = (1e-3, 1e3)  # smallest and largest spectral step length
_LINE_SEARCH_MEMORY = 10  # last objectives, of which the line search must fall below the largest
_SUFFICIENT_DECREASE = 1e-4  # share of the decrease along the slope that must be reached
_MAX_BACKTRACKS = 40  # shares that a line search tries
_DUAL_ROUNDS = 1_000  # rounds of dual ascent of a projection to the box and the ball


# --- losses ----------------------------------------------------------------------------------


def positive_labels(ratings: Ratings) -> Floats:
    """Return 1{Y = +1} as 0/1 floats, shape (n_entries,).

    Raises:
        BadRatings: a rating is neither -1 nor +1.
    """
    is_invalid = np.abs(ratings.values) != 1
    if is_invalid.any():
        value = ratings.values[np.argmax(is_invalid)]
        raise BadRatings(f"one-bit methods need ratings -1 or +1, got {value:g}: binarise first")
    return (ratings.values > 0).astype(float)


class SignReports(NamedTuple):
    """Debiased reports of signs, one per entry.

    Attributes:
        values: shape (n_entries,), with E[values] = sign.
        second_moment: E[values^2].
    """

    values: Floats
    second_moment: float

    @classmethod
    def from_flipped_signs(
        cls, flipped_signs: Floats, p_plus: float, p_minus: float
    ) -> SignReports:
        """Debias flipped signs.

        Args:
            flipped_signs: shape (n_entries,), 0 or 1 after the flips.
            p_plus: the probability that +1 is reported as -1.
            p_minus: the probability that -1 is reported as +1.
        """
        debias_factor = 1 - p_plus - p_minus
        values = (2 * flipped_signs - 1 + p_plus - p_minus) / debias_factor
        # The variance of a debiased report is 4 p (1 - p) / debias_factor^2, which may differ
        # between the signs. It is averaged by the share of each sign.
        mean_sign = np.clip(values.mean(), -1.0, 1.0)
        plus_noise, minus_noise = (4 * p * (1 - p) / debias_factor**2 for p in (p_plus, p_minus))
        noise_variance = ((1 + mean_sign) * plus_noise + (1 - mean_sign) * minus_noise) / 2
        return cls(values, 1 + noise_variance)

    @classmethod
    def from_laplace(cls, noisy_signs: Floats, epsilon: float) -> SignReports:
        """Debias 1{sign = +1} + Laplace(1/epsilon).

        A report that is clipped to [0, 1] says as much about the sign s. With
        t = tanh(epsilon (clip - 1/2)), which is the posterior mean of s if both signs are equally
        likely, E[t | s] = s c with c = E[t^2] for either sign; so t / c is the debiased report.

        Args:
            noisy_signs: shape (n_entries,).
            epsilon: the inverse of the noise scale.
        """
        posterior_means = np.tanh(epsilon * (np.clip(noisy_signs, 0.0, 1.0) - 0.5))
        information = clipped_information(epsilon)
        return cls(posterior_means / information, 1 / information)

    @property
    def variance(self) -> float:
        """The variance of a report about the mean of all signs, at least 1e-3."""
        mean = float(self.values.mean())
        # The square of a noisy mean is too large, by about the second moment over n_entries.
        squared_mean = max(mean**2 - self.second_moment / len(self.values), 0.0)
        return max(self.second_moment - squared_mean, 1e-3)

    @property
    def mean(self) -> float:
        """The mean sign, shrunk to 0 for a uniform prior of the mean sign, of variance 1/3."""
        return self.values.mean() / (1 + 3 * self.variance / len(self.values))


def clipped_information(epsilon: float) -> float:
    """Return E[tanh^2(epsilon (clip(s + Laplace(1/epsilon), 0, 1) - 1/2))] for s = 0 or 1.

    With a = epsilon/2, reports inside (0, 1) contribute e^-a times the integral of
    tanh^2(t) cosh(t) over 0..a, and the reports at both ends tanh^2(a) each with probability.
    """
    half_epsilon = epsilon / 2
    if half_epsilon > 300:  # the limit, reached long before the products below could overflow
        return 1.0
    gudermannian = 2 * math.atan(math.tanh(half_epsilon / 2))
    from_inside = math.exp(-half_epsilon) * (math.sinh(half_epsilon) - gudermannian)
    end_probability = (1 + math.exp(-2 * half_epsilon)) / 2
    return from_inside + math.tanh(half_epsilon) ** 2 * end_probability


def likelihood_loss(link: Link, labels: Floats) -> LossFunction:
    """Return the loss -sum [s ln h(x) + (1 - s) ln(1 - h(x))], convex in x for labels s in [0, 1].

    For the logistic link it is sum softplus(x) - s x, linear in s and convex for every real s.

    Args:
        link: h, from a score to the probability of +1.
        labels: s, shape (n_entries,).

    Returns:
        A function from scores x of shape (n_entries,) to the loss and its gradient of that shape.
    """

    def loss(x: Floats) -> tuple[float, Floats]:
        if isinstance(link, Logistic):
            return float(np.sum(np.logaddexp(0.0, x) - labels * x)), link.probability(x) - labels
        value = labels * link.log_probability(x) + (1 - labels) * link.log_probability(-x)
        return -np.sum(value), (1 - labels) * link.score(-x) - labels * link.score(x)

    return loss


def flipped_likelihood_loss(
    link: Link, flipped: Floats, p_plus: float, p_minus: float
) -> LossFunction:
    """Return the exact negative log-likelihood of flipped signs (LWHM22, Algorithm 1).

    P(+1) = h(x) (1 - p_plus) + (1 - h(x)) p_minus. It is not convex: a solver finds stationary
    points.

    Args:
        link: h, from a score to the probability of +1.
        flipped: shape (n_entries,), 0 or 1 after the flips.
        p_plus: the probability that +1 is reported as -1.
        p_minus: the probability that -1 is reported as +1.

    Returns:
        A function from scores x of shape (n_entries,) to the loss and its gradient of that shape.
    """

    def loss(x: Floats) -> tuple[float, Floats]:
        h, complement = link.probability(x), link.probability(-x)
        up = h * (1 - p_plus) + complement * p_minus
        observed = np.where(flipped > 0, up, h * p_plus + complement * (1 - p_minus))
        slope = np.where(flipped > 0, -1.0, 1.0) * (1 - p_plus - p_minus)
        return -np.sum(np.log(observed)), slope * link.density(x) / observed

    return loss


# --- feasible sets and their Euclidean projections -------------------------------------------


class LowRank(NamedTuple):
    """The matrix left @ right', and its values at the observed entries.

    Attributes:
        left: shape (m, r).
        right: shape (n, r).
        observed: shape (n_entries,).
    """

    left: Floats
    right: Floats
    observed: Floats

    def dot(self, other: LowRank) -> float:
        """Return the Frobenius inner product."""
        return float(np.sum((self.left.T @ other.left) * (self.right.T @ other.right)))

    def move_towards(self, target: LowRank, share: float) -> LowRank:
        """Return (1 - share) self + share target, factored at its numerical rank."""
        observed = (1 - share) * self.observed + share * target.observed
        # The sum has both factors side by side. Their QR factors leave a small matrix to decompose.
        left = np.hstack([(1 - share) * self.left, share * target.left])
        (ql, rl), (qr, rr) = np.linalg.qr(left), np.linalg.qr(np.hstack([self.right, target.right]))
        u, s, vt = np.linalg.svd(rl @ rr.T)
        is_kept = s > 1e-13 * max(1.0, s[0])  # the others are rounding
        k = len(s)
        return LowRank((ql @ u[:, :k] * s)[:, is_kept], (qr @ vt.T[:, :k])[:, is_kept], observed)

    def build_model(self) -> Factors:
        """Return the model whose predictions are this matrix."""
        return Factors(self.left, self.right)


class FullMatrix(NamedTuple):
    """A dense matrix, and its values at the observed entries.

    Attributes:
        matrix: shape (m, n).
        observed: shape (n_entries,).
    """

    matrix: Floats
    observed: Floats

    def dot(self, other: FullMatrix) -> float:
        """Return the Frobenius inner product."""
        return float(np.vdot(self.matrix, other.matrix))

    def move_towards(self, target: FullMatrix, share: float) -> FullMatrix:
        """Return (1 - share) self + share target."""
        return FullMatrix(*((1 - share) * a + share * b for a, b in zip(self, target, strict=True)))

    def build_model(self) -> Dense:
        """Return the model whose predictions are this matrix."""
        return Dense(self.matrix)


class NuclearBall:
    """The set {||X||_* <= radius} of factored matrices, with a pattern of observed entries.

    Attributes:
        pattern: the observed entries.
        radius: the largest nuclear norm, in the unit of a score.
    """

    def __init__(self, pattern: Pattern, radius: float, rng: Rng) -> None:
        self.pattern, self.radius, self._shrinker = pattern, radius, SingularValueShrinker(rng)

    def origin(self) -> Any:
        """Return the zero matrix."""
        rows, columns = self.pattern.shape
        observed = np.zeros(len(self.pattern.users))
        return LowRank(np.zeros((rows, 0)), np.zeros((columns, 0)), observed)

    def project(self, point: Any, step: float, gradient: Floats, tolerance: float) -> Any:
        """Project point - step * gradient to the set, to `tolerance` in Frobenius norm.

        Args:
            point: a matrix of the set.
            step: the step length.
            gradient: shape (n_entries,), zero outside the observed entries.
            tolerance: the accuracy of the projection.
        """
        operator = low_rank_plus_sparse(point.left, point.right, self.pattern, -step * gradient)
        left, values, right = self._project_to_ball(operator, tolerance)
        left = left * values
        return LowRank(left, right, self.pattern.sample_product(left, right))

    def first_step_length(self, gradient: Floats) -> float:
        """Return a step length at which the first projection has a low rank.

        It is the radius over a rough spectral norm of the gradient.

        Args:
            gradient: shape (n_entries,).
        """
        matrix = self.pattern.build_matrix(gradient)
        transposed = self.pattern.build_transpose(gradient)
        vector = np.ones(self.pattern.shape[1])
        for _ in range(4):
            vector = transposed @ (matrix @ vector)
            norm = np.linalg.norm(vector)
            if norm == 0:
                return 1.0
            vector /= norm
        return self.radius / float(np.linalg.norm(matrix @ vector))

    def _project_to_ball(self, operator: Operator, tolerance: float) -> Triplets:
        """Project to the ball: lower the singular values by one threshold, but not below 0."""
        return self._shrinker.soft_threshold(
            operator, lambda v: l1_threshold(v, self.radius), tolerance
        )


class NuclearBox(NuclearBall):
    """The set {||X||_* <= radius, ||X||_inf <= bound} of dense matrices.

    A projection is computed by accelerated dual ascent. It alternates between projections to the
    ball and to the box, as Dykstra's method does, but needs far fewer of them. Every point lies in
    the box exactly and in the ball to the tolerance.

    Attributes:
        bound: the largest absolute score.
    """

    def __init__(self, pattern: Pattern, radius: float, bound: float, rng: Rng) -> None:
        check_dense(pattern.shape, "the infinity-norm bound inside the solver")
        super().__init__(pattern, radius, rng)
        self.bound = bound
        self._multiplier, self._step = np.zeros(pattern.shape), 1.0

    def origin(self) -> FullMatrix:
        """Return the zero matrix."""
        return FullMatrix(np.zeros(self.pattern.shape), np.zeros(len(self.pattern.users)))

    def project(
        self, point: FullMatrix, step: float, gradient: Floats, tolerance: float
    ) -> FullMatrix:
        """Project point - step * gradient to the set, to `tolerance` in Frobenius norm.

        Args:
            point: a matrix of the set.
            step: the step length.
            gradient: shape (n_entries,), zero outside the observed entries.
            tolerance: the accuracy of the projection.
        """
        indices = self.pattern.users, self.pattern.items
        start = point.matrix.copy()
        start[indices] -= step * gradient
        # The multiplier Z of the box constraint makes X = P_ball(start - Z) the minimiser. A step
        # of ascent is Z = (X + Z) - P_box(X + Z), from a Z that momentum has extrapolated.
        # Multipliers are nearly proportional to the step length, so the last ones are rescaled.
        multiplier = self._multiplier * (step / self._step)
        extrapolated, momentum = multiplier, 1.0
        for _ in range(_DUAL_ROUNDS):
            check_cancelled()
            left, values, right = self._project_to_ball(
                dense_operator(start - extrapolated), 0.1 * tolerance
            )
            ball_point = (left * values) @ right.T
            previous, multiplier = multiplier, ball_point + extrapolated
            box_point = np.clip(multiplier, -self.bound, self.bound)
            multiplier -= box_point
            ball_point -= box_point  # the difference of both, in the same memory
            if np.linalg.norm(ball_point) <= tolerance:
                break
            change = multiplier - previous
            if np.vdot(extrapolated - multiplier, change) > 0:
                momentum = 1.0  # it points uphill: restart (O'Donoghue, Candes 2015)
            next_momentum = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
            change *= (momentum - 1) / next_momentum
            extrapolated, momentum = multiplier + change, next_momentum
        self._multiplier, self._step = multiplier, step
        return FullMatrix(box_point, box_point[indices])


def build_feasible_set(
    ratings: Ratings, radius: float, bound: float | None, rng: Rng
) -> NuclearBall:
    """Return the feasible set of the scores.

    Args:
        ratings: the observed entries.
        radius: the nuclear norm, in units of sqrt(users x items).
        bound: the largest absolute score; None: no limit.
        rng: draws where the search for singular vectors starts.
    """
    pattern = Pattern.from_ratings(ratings)
    absolute_radius = radius * math.sqrt(math.prod(ratings.shape))
    if bound is None:
        return NuclearBall(pattern, absolute_radius, rng)
    return NuclearBox(pattern, absolute_radius, bound, rng)


# --- spectral projected gradient -------------------------------------------------------------


@dataclass(frozen=True)
class Iterate:
    """One accepted point of the solver.

    Attributes:
        index: 1, 2, ...
        point: a matrix of the feasible set.
        objective: the loss at the point.
        step: the step length that led to it.
        stationarity: an upper bound on ||P(X - gradient) - X||_F at the point before it.
        final: whether the tolerance is met or the rounds are used up.
    """

    index: int
    point: Any
    objective: float
    step: float
    stationarity: float
    final: bool


def minimise_loss(
    loss: LossFunction, constraint: NuclearBall, *, iterations: int, tolerance: float
) -> Iterator[Iterate]:
    """Minimise the loss over a set by spectral projected gradient.

    It stops when ||P(X - gradient) - X||_F <= tolerance max(1, ||X||_F), P the projection to the
    set. This norm is bounded through that of the step t which is taken anyway: ||P(X - t gradient)
    - X|| increases with t and, divided by t, decreases.

    Args:
        loss: maps scores of shape (n_entries,) to the loss and its gradient.
        constraint: the set.
        iterations: the largest number of rounds.
        tolerance: the relative accuracy at which it stops.

    Yields:
        The accepted point after each round.
    """
    point = constraint.origin()
    objective, gradient = loss(point.observed)
    history = [objective]
    step = constraint.first_step_length(gradient)
    last_distance = constraint.radius
    for index in range(1, iterations + 1):
        target_norm = tolerance * max(1.0, math.sqrt(point.dot(point)))
        # Long steps need no accurate projection: a small part of the last step is enough.
        accuracy = max(0.1 * target_norm, 0.02 * last_distance)
        while True:
            check_cancelled()
            target = constraint.project(point, step, gradient, accuracy)
            slope = gradient @ (target.observed - point.observed)
            if slope < 0 or accuracy < 1e-3 * target_norm:
                break
            accuracy /= 10  # not a descent direction: the projection was too coarse
        target_distance = frobenius_distance(target, point)
        previous, step_taken, previous_gradient = point, step, gradient
        share, objective, gradient = _line_search(
            loss, point.observed, target.observed, max(history[-_LINE_SEARCH_MEMORY:]), slope
        )
        point = target if share == 1 else previous.move_towards(target, share)
        step = spectral_step_length(point, previous, gradient - previous_gradient) or STEP_LIMITS[1]
        history.append(objective)
        last_distance = share * target_distance
        stationarity = target_distance * max(1.0, 1.0 / step_taken)
        final = stationarity <= target_norm or index == iterations
        yield Iterate(index, point, objective, step_taken, stationarity, final)
        if final:
            return


def spectral_step_length(point: Any, previous: Any, gradient_change: Floats) -> float | None:
    """Return the Barzilai-Borwein step ||s||^2 / <s, y> within its limits.

    Args:
        point: the current matrix.
        previous: the matrix before it; s is their difference.
        gradient_change: y, shape (n_entries,).

    Returns:
        The step length; None unless <s, y> > 0.
    """
    curvature = gradient_change @ (point.observed - previous.observed)
    if curvature <= 0:
        return None
    return float(np.clip(frobenius_distance(point, previous) ** 2 / curvature, *STEP_LIMITS))


def _line_search(
    loss: LossFunction, start: Floats, end: Floats, reference: float, slope: float
) -> tuple[float, float, Floats]:
    """Find a share of the way from start to end at which the loss has decreased enough.

    Args:
        loss: maps scores of shape (n_entries,) to the loss and its gradient.
        start: shape (n_entries,), the scores of the current point.
        end: shape (n_entries,), those of the target.
        reference: the objective from which the decrease is counted, the largest of the last ones.
        slope: the derivative of the loss along the whole way, below 0.

    Returns:
        The share in (0, 1], and the objective and gradient there.
    """
    share = 1.0
    objective, gradient = loss(end)
    for _ in range(_MAX_BACKTRACKS):
        check_cancelled()
        if objective <= reference + _SUFFICIENT_DECREASE * share * slope:
            break
        # The minimum of a parabola through the reference, its slope, and the current objective. It
        # is trusted only between a tenth and a half of the step, as is usual.
        curvature = objective - reference - share * slope
        minimum = -0.5 * slope * share * share / curvature if curvature > 0 else 0.5 * share
        share = min(max(minimum, 0.1 * share), 0.5 * share)
        objective, gradient = loss(start + share * (end - start))
    return share, objective, gradient


# --- settings --------------------------------------------------------------------------------


@mechanism
class Completion:
    """The settings of one-bit completion, and its solver (feasible set: LWHM22, section 3.2)."""

    link: Link = setting(
        LOGISTIC,
        "how a score becomes the chance of +1",
        parse=parse_link,
        choices=LINK_CHOICES,
    )
    radius: float = setting(
        0.7, "nuclear-norm radius, in units of sqrt(users x items)", above=0, at_most=1e3
    )
    bound: float | None = setting(
        None, "largest |score| allowed inside the solver (none: no limit)", above=0, at_most=1e3
    )
    iterations: int = setting(100, "most solver rounds", at_least=1, at_most=10_000)
    tolerance: float = setting(
        1e-3, "stop when the projected gradient is this small, relative to ||X||", above=0, below=1
    )

    @property
    def dense(self) -> bool:
        """Whether the solution is a dense matrix, not factors."""
        return self.bound is not None

    @property
    def solver_bound(self) -> float | None:
        """The largest |score| in the feasible set of the solver; None: no limit."""
        return self.bound

    def solve(self, loss: LossFunction, ratings: Ratings, rng: Rng, *, raw: bool) -> Steps:
        """Minimise a loss over the feasible set from zero, and yield a step for each round.

        Args:
            loss: maps scores of shape (n_entries,) to the loss and its gradient.
            ratings: the observed entries.
            rng: draws where the search for singular vectors starts.
            raw: whether the loss is of raw signs; then the trace is marked raw.
        """
        rounds = self.iterations
        constraint = build_feasible_set(ratings, self.radius, self.solver_bound, rng)
        for iterate in minimise_loss(loss, constraint, iterations=rounds, tolerance=self.tolerance):
            trace = {
                "objective": iterate.objective,
                "projected gradient": iterate.stationarity,
                "step length": iterate.step,
            }
            if isinstance(iterate.point, LowRank):
                trace["rank"] = float(iterate.point.left.shape[1])
            published_trace, model = () if raw else trace, iterate.point.build_model()
            yield Step.from_trace(
                iterate.index, rounds, model, trace, published_trace, converged=iterate.final
            )
