"""Exact privacy accounting: Gaussian mechanisms, channels, their composition, and attackers.

Gaussian releases with sensitivity-to-noise ratios mu_1, mu_2, ... compose, also adaptively, to one
Gaussian mechanism with mu = sqrt(sum mu_i^2) (Dong, Roth, Su, "Gaussian differential privacy",
2022), whose exact curve is (Balle, Wang, "Improving the Gaussian mechanism", 2018)

    delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu).

Pure releases compose by the distribution of their privacy loss: no pure release distinguishes two
data sets better than a randomised response of its epsilon (Kairouz, Oh, Viswanath, "The composition
theorem for differential privacy", 2015), and no Laplace release better than one Laplace number that
moves by the whole l1 sensitivity (see `_laplace_masses`). Randomised responses of one epsilon are
summed exactly. Other distributions lie on a grid; each mass is split between its two neighbours so
that its probabilities with and without the change are preserved (Doroshenko, Ghazi, Kamath, Kumar,
Manurangsi, "Connect the dots: tighter discrete approximations of privacy loss distributions",
2022). The loss is therefore never understated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy  # loads scipy.special at its first use, which saves a third of this package's import

from dpmc_core.arrays import Floats
from dpmc_core.errors import InvalidSetting, check_number

_ROOT_TWO = math.sqrt(2)
_ROOT_HALF_PI = math.sqrt(math.pi / 2)
# Bound on the error of ln delta as it is evaluated here, for mu up to 100; promises leave this much
# room. A larger mu adds about 1e-15 mu, the rounding of u = eps/mu - mu/2 times u: less than the
# last digit of an epsilon of about mu^2/2.
_LOG_DELTA_ERROR = 1e-12
_CACHE_SIZE = 4096  # cached results: a guarantee needs the same ones again and again
# A calibrated budget, composed again in floating point, never exceeds its target.
_CALIBRATION_MARGIN = 1 - 1e-12


class PureReleases(NamedTuple):
    """A number of pure releases with the same epsilon.

    Attributes:
        epsilon: privacy loss of each release.
        times: how many releases there are.
        laplace: whether each publishes one Laplace number; else each counts as a randomised
            response.
    """

    epsilon: float
    times: int
    laplace: bool = False


@dataclass(frozen=True)
class Loss:
    """The privacy loss of releases, or a budget for it.

    Losses are added, also adaptively, starting from `Loss()`; a budget is divided the same way. The
    epsilons of pure releases add up, and so do the squares of Gaussian ratios. A Gaussian release
    that spends a budget has sigma = l2 sensitivity / budget.mu.

    Attributes:
        epsilon: sum of the epsilons of pure releases.
        mu: root of the sum of squares of the Gaussian ratios (l2 sensitivity / sigma).
        pure: the pure releases that epsilon is the sum of, for delta > 0; by default a single one.
    """

    epsilon: float = 0.0
    mu: float = 0.0
    pure: tuple[PureReleases, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not self.pure and self.epsilon > 0:
            object.__setattr__(self, "pure", (PureReleases(self.epsilon, 1),))

    @classmethod
    def from_pure(cls, *pure: PureReleases) -> Loss:
        """Return the loss of pure releases."""
        return cls(math.fsum(releases.epsilon * releases.times for releases in pure), 0.0, pure)

    def __add__(self, other: Loss) -> Loss:
        """Return the loss of both together; equal pure releases are counted together."""
        times: Counter[tuple[float, bool]] = Counter()
        for p in self.pure + other.pure:
            times[p.epsilon, p.laplace] += p.times
        pure = tuple(
            PureReleases(epsilon, n, laplace) for (epsilon, laplace), n in sorted(times.items())
        )
        return Loss(self.epsilon + other.epsilon, math.hypot(self.mu, other.mu), pure)

    def __mul__(self, share: float) -> Loss:
        """Return a share or a multiple; epsilon and the square of mu are scaled alike.

        The epsilon of the result counts as that of a single pure release.
        """
        return Loss(self.epsilon * share, self.mu * math.sqrt(share))

    def __truediv__(self, n_parts: float) -> Loss:
        """Return one of `n_parts` equal parts."""
        return self * (1 / n_parts)

    def split(self, *weights: float) -> tuple[Loss, ...]:
        """Split a budget in proportion to weights.

        Added again in floating point, the parts never exceed the budget: a calibrated mu has its
        margin from `gaussian_mu`, and epsilon gets one here.

        Raises:
            InvalidSetting: if a weight is not positive.
        """
        for weight in weights:
            check_number("weight of a share", weight, above=0)
        total = math.fsum(weights)
        shares = (self * (weight / total) for weight in weights)
        return tuple(Loss(share.epsilon * _CALIBRATION_MARGIN, share.mu) for share in shares)

    def epsilon_at(self, delta: float) -> float:
        """Return the epsilon of all releases together at a delta, never understated."""
        if self.epsilon == 0 or delta == 0 or math.isinf(self.epsilon):
            return self.epsilon + gaussian_epsilon(self.mu, delta)
        composed = composed_epsilon(self.pure, self.mu, delta)
        return min(composed, self.epsilon + gaussian_epsilon(self.mu, delta))

    def delta_at(self, epsilon: float) -> float:
        """Return the delta of all releases together at an epsilon, never understated."""
        if self.epsilon == 0:
            return gaussian_delta(epsilon, self.mu)
        if math.isinf(self.epsilon):
            return 1.0
        return composed_delta(self.pure, self.mu, epsilon)

    def attacker_accuracy(self, prior: float = 0.5) -> float:
        """Return the probability with which the best attacker guesses which data set was used.

        It is the sum over all outputs o of max(prior P(o | first), (1 - prior) P(o | second)),
        which is p + (1 - p) delta(ln(p / (1 - p))) with p = max(prior, 1 - prior). Without any
        release the attacker is right with probability p.

        Args:
            prior: probability of the first data set before the release.
        """
        check_number("prior", prior, at_least=0, at_most=1)
        prior_accuracy = max(prior, 1 - prior)
        if prior_accuracy == 1:
            return 1.0
        return prior_accuracy + (1 - prior_accuracy) * self.delta_at(
            math.log(prior_accuracy / (1 - prior_accuracy))
        )


def gaussian_log_delta(epsilon: float, mu: float) -> float:
    """Return ln delta(epsilon) of the Gaussian mechanism with ratio mu = l2 sensitivity / sigma.

    It is computed as ln phi(u) + ln(R(u) - R(u + mu)) with u = epsilon/mu - mu/2 and the Mills
    ratio R(x) = Phi(-x)/phi(x), because e^eps phi(u + mu) = phi(u): nothing underflows.

    Args:
        epsilon: at least 0.
        mu: at least 0; infinity stands for no noise.
    """
    check_number("epsilon", epsilon, at_least=0)
    _check_ratio(mu)
    if mu == 0:
        return -math.inf
    if math.isinf(mu):
        return 0.0
    u = epsilon / mu - mu / 2
    if u < -5:  # delta is close to one: the plain difference loses nothing
        return math.log(
            scipy.special.ndtr(-u) - math.exp(epsilon + scipy.special.log_ndtr(-u - mu))
        )
    gap = _mills_gap(np.array(u), mu)
    return -0.5 * u * u - 0.5 * math.log(2 * math.pi) + math.log(gap) if gap > 0 else -math.inf


def _mills_gap(u: Floats, mu: float) -> Floats:
    """Return R(u) - R(u + mu) of the Mills ratio R.

    Measured against 60 digits for u from -5 on, the relative error is below 1e-12 up to u = 40,
    3e-12 up to 100, 2e-10 up to 1,000 and 2e-8 up to 1e4. Digits are lost only where none is
    needed: above u = 39, delta is zero in double precision. Above 1e4 the result is an upper bound.

    Args:
        u: array of any shape.
        mu: l2 sensitivity / sigma, above 0.
    """
    # The bound above 1e4 is mu times the bound 1/t^2 on -R'(t).
    distance = np.maximum(np.abs(u), 1.0)
    tail_gap = mu / distance / distance
    if mu > 0.01:
        return np.where(u > 1e4, tail_gap, _mills(u) - _mills(u + mu))
    # A small mu makes both terms nearly equal, so -R'(t) = 1 - t R(t) is integrated instead.
    # It is about 1/t^2 for a large t, so rounding makes up about 1e-16 t^2 of it.
    nodes, weights = np.polynomial.legendre.leggauss(3)
    t = u[..., None] + 0.5 * mu * (1.0 + nodes)
    return np.where(u > 1e4, tail_gap, 0.5 * mu * ((1.0 - t * _mills(t)) @ weights))


def _mills(x: Any) -> Any:
    """Return the Mills ratio Phi(-x)/phi(x)."""
    return _ROOT_HALF_PI * scipy.special.erfcx(x / _ROOT_TWO)


def _check_ratio(mu: float) -> None:
    """Raise InvalidSetting unless mu is at least 0."""
    if not mu >= 0:  # also refuses NaN, which would otherwise certify epsilon 0
        raise InvalidSetting("Gaussian ratio mu", ">= 0", mu)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return delta(epsilon) of the Gaussian mechanism with ratio mu.

    Args:
        epsilon: at least 0.
        mu: l2 sensitivity / sigma.
    """
    return math.exp(gaussian_log_delta(epsilon, mu))


@lru_cache(maxsize=_CACHE_SIZE)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon at which ratio mu is (epsilon, delta)-DP, never understated.

    Args:
        mu: l2 sensitivity / sigma.
        delta: at least 0 and below 1; at 0 the epsilon is infinite unless mu is 0.
    """
    check_number("delta", delta, at_least=0, below=1)
    _check_ratio(mu)
    if mu == 0:
        return 0.0
    if delta == 0 or mu > 1e100:  # beyond that mu^2 / 2 overflows, and no epsilon means anything
        return math.inf
    target = math.log(delta) - _LOG_DELTA_ERROR

    def holds(epsilon: float) -> bool:
        return gaussian_log_delta(epsilon, mu) <= target

    if holds(0.0):
        return 0.0
    # Epsilon is of the order of mu^2 if mu is large. The start only shortens the search.
    return _find_boundary(holds, start=max(mu * mu, 1e-6))


@lru_cache(maxsize=_CACHE_SIZE)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest ratio mu that is (epsilon, delta)-DP, never overstated.

    Args:
        epsilon: above 0.
        delta: above 0 and below 1.
    """
    check_number("epsilon", epsilon, above=0)
    check_number("delta", delta, above=0, below=1)
    target = math.log(delta) - _LOG_DELTA_ERROR
    # In terms of x = 1/mu the condition holds from some point on, as `_find_boundary` requires.
    end = _find_boundary(lambda x: gaussian_log_delta(epsilon, 1.0 / x) <= target, start=1.0)
    return _CALIBRATION_MARGIN / end


def _find_boundary(holds: Callable[[float], bool], start: float) -> float:
    """Return the smallest positive x with holds(x), for a condition that holds from some x on.

    Doubling or halving encloses x between two ends, which are then bisected to a relative distance
    of 1e-14. The condition holds at the end that is returned.
    """
    high = start
    while not holds(high):
        high *= 2.0
    low = high / 2.0
    while holds(low):
        high, low = low, low / 2.0
    return bisect(lambda x: not holds(x), low, high, relative=1e-14)[1]


def bisect(
    condition: Callable[[float], bool],
    low: float,
    high: float,
    absolute: float = 0.0,
    relative: float = 0.0,
) -> tuple[float, float]:
    """Locate the end of the range in which a condition holds.

    Args:
        condition: holds at `low`, up to some point, and not at `high`.
        low: lower end of the search.
        high: upper end of the search.
        absolute: largest distance of the returned points, plus the relative part.
        relative: the same in proportion to the upper point.

    Returns:
        A point at which the condition holds and a higher one at which it does not.
    """
    while high - low > absolute + relative * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if condition(middle) else (low, middle)
    return low, high


def channel_epsilon(channel: Floats) -> float:
    """Return the pure epsilon of a channel: the largest |ln C[a, o] - ln C[b, o]|.

    Args:
        channel: array of shape (n_inputs, n_outputs), C[a, o] = P(output o | input a).
    """
    matrix = np.asarray(channel, dtype=float)
    possible = matrix[:, matrix.max(axis=0) > 0]
    if (possible == 0).any():
        return math.inf
    logs = np.log(possible)
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


def attacker_certainty(epsilon: float, delta: float = 0.0) -> float:
    """Return an attacker's best posterior from an even prior, (e^eps + delta)/(1 + e^eps) <= 1.

    Args:
        epsilon: at least 0; infinity means that the output may reveal the input.
        delta: at least 0 and below 1.
    """
    if math.isinf(epsilon):
        return 1.0
    odds = math.exp(-epsilon)
    return min(1.0, (1.0 + delta * odds) / (1.0 + odds))


# --- pure releases, and both kinds together, at delta > 0 ---------------------------------------

_GRID_POINTS = 2**17  # approximate limit of the points of a grid of losses
_ADDED_VARIANCE = 1e-5  # largest variance that a grid adds, as a share of the variance of the loss
_LOG_TAIL = math.log(1e18)  # at most one part in 1e18 of the mass lies beyond either end of a grid
_TRANSFORM_ERROR = 1e-15  # rounding of a transform and mass beyond the grid, of a total mass of 1
_MAX_EXACT_RELEASES = 10_000_000  # releases of one epsilon that are summed one by one

# Maps ln E[e^(t loss)] and the tilt t to the logarithm of Chernoff's bound, or to what it implies.
ChernoffBound = Callable[[float, float], float]


@lru_cache(maxsize=_CACHE_SIZE)
def composed_epsilon(pure: tuple[PureReleases, ...], mu: float, delta: float) -> float:
    """Return the smallest epsilon that all releases together have at a delta > 0, or slightly more.

    Args:
        pure: finite epsilons, at least one of them above 0.
        mu: ratio of the Gaussian releases; 0 without any.
        delta: above 0.
    """
    check_number("delta", delta, above=0, below=1)
    log_delta = math.log(delta)
    delta_at = _compose_delta(pure, mu, lambda log_moment, t: (log_moment - log_delta) / t)
    high = math.fsum(p.epsilon * p.times for p in pure) + gaussian_epsilon(mu, delta)
    target = delta * (1 - 1e-12)  # the margin covers the rounding of the delta that is compared
    if delta_at(0.0) <= target:
        return 0.0
    # `high` adds what both kinds spend by themselves. A coarse grid may say even more.
    if delta_at(high) > target:
        return high
    # The upper end, at which delta is not above the target: epsilon is never understated.
    return bisect(lambda epsilon: delta_at(epsilon) > target, 0.0, high, relative=1e-8)[1]


@lru_cache(maxsize=_CACHE_SIZE)
def composed_delta(pure: tuple[PureReleases, ...], mu: float, epsilon: float) -> float:
    """Return the smallest delta that all releases together have at an epsilon, or slightly more.

    Args:
        pure: finite epsilons, at least one of them above 0.
        mu: ratio of the Gaussian releases; 0 without any.
        epsilon: at least 0.
    """
    check_number("epsilon", epsilon, at_least=0)
    delta_at = _compose_delta(pure, mu, lambda log_moment, t: log_moment - t * epsilon)
    return min(1.0, delta_at(epsilon))


def _compose_delta(
    pure: tuple[PureReleases, ...], mu: float, bound: ChernoffBound
) -> Callable[[float], float]:
    """Return delta as a function of epsilon: exact if there is one kind of release, else on a grid.

    Args:
        pure: the pure releases.
        mu: ratio of the Gaussian releases; 0 without any.
        bound: chooses the tilt of the grid, see `_GridLoss`.
    """
    # Closed forms: a single Laplace release, and randomised responses, which need a sum.
    if mu == 0 and len(pure) == 1:
        epsilon, n, laplace = pure[0]
        if laplace and n == 1:
            return lambda x: max(0.0, -math.expm1((x - epsilon) / 2))
        if not laplace and n <= _MAX_EXACT_RELEASES:
            return _sum_randomised_responses(epsilon, n)
    return _GridLoss.from_releases(pure, mu, bound).delta


def _sum_randomised_responses(epsilon: float, n: int) -> Callable[[float], float]:
    """Return delta as a function of epsilon for n randomised responses of one epsilon.

    Their loss is (n - 2 i) epsilon with i ~ Bin(n, 1/(1 + e^epsilon)).
    """
    i = np.arange(n // 2 + 1.0)  # a larger i gives a negative loss, which adds nothing to delta
    log_coefficients = (
        scipy.special.gammaln(n + 1)
        - scipy.special.gammaln(i + 1)
        - scipy.special.gammaln(n - i + 1)
    )
    losses = (n - 2 * i) * epsilon
    logs = log_coefficients - i * epsilon - n * math.log1p(math.exp(-epsilon))

    def delta_at(x: float) -> float:
        is_above = losses > x
        return float(np.exp(logs[is_above]) @ -np.expm1(x - losses[is_above]))

    return delta_at


class _DiscreteLoss(NamedTuple):
    """The loss of each of a number of equal releases, a random multiple of a step.

    Attributes:
        times: how many releases there are.
        start: the smallest multiple.
        masses: array of shape (n,), the probabilities of that and the following multiples.
    """

    times: int
    start: int
    masses: Floats

    @classmethod
    def from_releases(cls, releases: PureReleases, step: float) -> _DiscreteLoss:
        """Discretise a loss.

        Mass between two grid points is split between both so that its probability under either data
        set stays. This spreads the likelihood ratio, which makes the two data sets no harder to
        distinguish.

        Args:
            releases: the releases.
            step: the distance of grid points.
        """
        end = releases.epsilon
        low, high = math.floor(-end / step), math.ceil(end / step)
        edges = step * np.arange(low, high + 1.0)
        # Single points at both ends: the two outputs of a randomised response, or the numbers
        # beyond both means, where the likelihood ratio of Laplace noise is constant.
        p, q = np.zeros((2, high - low))  # masses between grid points with and without the change
        end_probability = 0.5 if releases.laplace else 1 / (1 + math.exp(-end))
        for loss, mass in ((end, end_probability), (-end, end_probability * math.exp(-end))):
            # The last grid point has no interval above it.
            k = min(math.floor(loss / step) - low, len(p) - 1)
            p[k] += mass
            q[k] += mass * math.exp(edges[k] - loss)  # e^-loss as likely without the change
        masses = _split_mass(p, q, step)
        if releases.laplace:
            clipped_edges = np.clip(edges, -end, end)
            masses += _split_mass(*_laplace_masses(clipped_edges, edges[:-1], end), step)
        return cls(releases.times, low, masses)

    def tilt(self, t: float) -> tuple[_DiscreteLoss, float]:
        """Weight the masses by exp(t multiple), and normalise them.

        Returns:
            The weighted loss, and the logarithm of the mean weight.
        """
        with np.errstate(divide="ignore"):  # ln 0 of a loss that does not occur
            logs = np.log(self.masses) + t * (self.start + np.arange(len(self.masses)))
        max_log = logs.max()
        weights = np.exp(logs - max_log)
        total = weights.sum()
        return self._replace(masses=weights / total), max_log + math.log(total)


def _log_moment(losses: list[_DiscreteLoss], t: float) -> float:
    """Return ln E[exp(t x)] for the sum x of all losses, in steps."""
    return math.fsum(loss.times * loss.tilt(t)[1] for loss in losses)


def _sum_losses(losses: list[_DiscreteLoss]) -> tuple[int, Floats]:
    """Return the sum of all losses, but for 1e-18 of the mass beyond either end.

    Args:
        losses: the losses, in steps.

    Returns:
        The smallest multiple, and the probabilities of that and the following ones.
    """
    first = sum(loss.times * loss.start for loss in losses)
    last = first + sum(loss.times * (len(loss.masses) - 1) for loss in losses)
    # Chernoff: P[sign x > b] <= exp(log_moment(sign t) - t b), which is 1e-18 at these b.
    high, low = (
        sign
        * min((_log_moment(losses, sign * t) + _LOG_TAIL) / t for t in np.geomspace(1e-7, 10.0, 80))
        for sign in (1, -1)
    )
    low, high = max(first, math.floor(low)), min(last, math.ceil(high))
    # A Fourier transform multiplies the spectra. It is cyclic: indices count modulo its size.
    size = 1 << max(1, (high - low).bit_length())
    spectrum = np.ones(size // 2 + 1, dtype=complex)
    for loss in losses:
        wrapped = np.bincount(np.arange(len(loss.masses)) % size, loss.masses, size)
        spectrum *= np.fft.rfft(wrapped) ** loss.times
    # Index 0 of the inverse is the sum of all smallest multiples. It is turned to begin at `low`.
    masses = np.roll(np.fft.irfft(spectrum, size), (first - low) % size)
    return low, np.maximum(masses[: high - low + 1], 0.0)


@dataclass(frozen=True, eq=False)
class _GridLoss:
    """The distribution of a total loss on a grid, tilted towards the losses that matter.

    The probabilities are masses exp(-tilt loss + log_mean). The tilt puts the mass where delta
    comes from, so that rounding errors there are relative.

    Attributes:
        losses: array of shape (n,), the grid.
        masses: array of shape (n,), the tilted masses.
        tilt: the exponent of the tilt.
        log_mean: logarithm of the mean weight of the tilt.
        mu: ratio of the Gaussian releases that compose with the grid.
    """

    losses: Floats
    masses: Floats
    tilt: float
    log_mean: float
    mu: float

    @classmethod
    def from_releases(
        cls, pure: tuple[PureReleases, ...], mu: float, bound: ChernoffBound
    ) -> _GridLoss:
        """Return the loss on a grid, with the tilt at which a bound is smallest.

        Args:
            pure: the pure releases.
            mu: ratio of the Gaussian releases; 0 without any.
            bound: maps ln E[e^(t loss)] and t to Chernoff's bound on what is of interest: epsilon
                at a given delta, or the logarithm of delta at a given epsilon.
        """
        # One loss lies in -epsilon..epsilon, and its standard deviation never exceeds 2.
        variance = math.fsum(p.times * min(p.epsilon, 2.0) ** 2 for p in pure) + mu * mu
        std = math.sqrt(variance)
        # Splitting a mass between points of this distance adds a variance of at most step^2 / 4.
        step = 2 * math.sqrt(_ADDED_VARIANCE * variance / sum(p.times for p in pure))
        # The grid must span twenty standard deviations of the total, and every single loss.
        largest = max(p.epsilon for p in pure)
        step = max(step, 20 * std / _GRID_POINTS, 4 * largest / _GRID_POINTS)
        step = largest / max(1, math.floor(largest / step))  # so that the largest loss is on it
        losses = [_DiscreteLoss.from_releases(p, step) for p in pure]
        # Any tilt gives the same loss. The best of these keeps the effect of rounding small.
        tilts = np.geomspace(1e-3, 100.0, 120) / std
        bounds = [
            bound(_log_moment(losses, t * step) + _gaussian_log_bound(t, mu), t) for t in tilts
        ]
        tilt = tilts[np.argmin(bounds)]
        low, masses = _sum_losses([loss.tilt(tilt * step)[0] for loss in losses])
        grid = step * np.arange(low, low + len(masses), dtype=float)
        return cls(grid, masses, tilt, _log_moment(losses, tilt * step), mu)

    def delta(self, epsilon: float) -> float:
        """Return the delta of this loss at an epsilon."""
        excess = epsilon - self.losses
        # The probability of a loss is its mass times exp(log_mean - tilt loss), which is
        # exp(log_factor + tilt excess).
        log_factor = self.log_mean - self.tilt * epsilon
        # Rounding takes a few units in the last place of the larger terms from their difference.
        log_factor += 2.0**-50 * (abs(self.log_mean) + self.tilt * epsilon)
        logs = _gaussian_log_deltas(excess, self.mu) + self.tilt * excess
        max_log = float(logs.max())
        weighted_sum = float(self.masses @ np.exp(logs - max_log)) if max_log > -math.inf else 0.0
        # Errors of the masses are weighted like the masses. A larger exponent than 600 may
        # overflow, and a delta above 1 says nothing anyway.
        log_error = (
            log_factor + math.log(_TRANSFORM_ERROR) + _gaussian_log_bound(self.tilt, self.mu)
        )
        return weighted_sum * math.exp(min(log_factor + max_log, 600.0)) + math.exp(
            min(log_error, 600.0)
        )


def _gaussian_log_bound(t: float, mu: float) -> float:
    """Return an upper bound on t x + ln delta(x) of a Gaussian mechanism, over all epsilons x.

    In delta(x) = E[max(0, 1 - e^(x - L))] for the loss L, e^(-t y) (1 - e^-y) with y = L - x is at
    most t^t / (1 + t)^(1 + t) (Canonne, Kamath, Steinke, "The discrete Gaussian for differential
    privacy", 2020). Without this factor the tilt would grow without end where delta is less than
    the probability of the largest loss.

    Args:
        t: above 0.
        mu: the Gaussian ratio; 0 stands for no release, whose loss is 0.
    """
    return t * (t + 1) * mu * mu / 2 - t * math.log1p(1 / t) - math.log1p(t)


def _split_mass(p: Floats, q: Floats, step: float) -> Floats:
    """Split the mass between each two grid points between both.

    The upper share u keeps the probability without the change: (p - u) + u e^-step = q.

    Args:
        p: array of shape (n,), the probability of each mass with the change.
        q: array of shape (n,), its probability without the change, times e^(loss of the point
            below).
        step: the distance of grid points.

    Returns:
        Array of shape (n + 1,), the masses at the grid points.
    """
    upper = np.clip((p - q) / -math.expm1(-step), 0.0, p)
    return np.append(p - upper, 0.0) + np.append(0.0, upper)


def _laplace_masses(inside: Floats, edges: Floats, s: float) -> tuple[Floats, Floats]:
    """Return the masses between grid points of one Laplace number that moves by s scales.

    Several numbers that move by s in all are no easier to distinguish. For two, a + b = s, a >= b:
    with h_s(t) = 1 - e^((t - s)/2), |t| <= s, the delta of one at epsilon t, that of the two is
    E[h_a(t - loss of b)] = h_s(t) - e^((t - s)/2) x with x = b/2 for 0 <= t <= a - b and x = (a + b
    - t)/4 above, hence no more; negative t mirror it.

    Args:
        inside: array of shape (n + 1,), the grid points clipped to -s..s.
        edges: array of shape (n,), the grid point below each mass.
        s: the sensitivity in noise scales.

    Returns:
        The arrays p and q that `_split_mass` takes, both of shape (n,).
    """
    low, high = inside[:-1], inside[1:]
    # Integrals of the density of the loss t, e^((t - s)/2) / 4 with and e^(-(t + s)/2) / 4 without
    # the change.
    p = 0.5 * (np.exp((high - s) / 2) - np.exp((low - s) / 2))
    return p, 0.5 * (np.exp(edges - (low + s) / 2) - np.exp(edges - (high + s) / 2))


def _gaussian_log_deltas(epsilons: Floats, mu: float) -> Floats:
    """Return ln delta of a Gaussian mechanism at epsilons of any sign; see `gaussian_log_delta`.

    Args:
        epsilons: array of shape (n,).
        mu: the Gaussian ratio; 0 stands for no release, with delta 1 - e^epsilon below 0.
    """
    with np.errstate(divide="ignore"):  # delta 0 has the logarithm -inf
        if mu == 0:
            return np.log(-np.expm1(np.minimum(epsilons, 0.0)))
        u = epsilons / mu - mu / 2
        # The tail's expression is accurate from -5 on, see `_mills_gap`.
        is_near_one = u < -5  # delta is close to one: the plain difference loses nothing
        log_deltas = np.empty(len(u))
        log_deltas[is_near_one] = np.log(
            scipy.special.ndtr(-u[is_near_one])
            - np.exp(epsilons[is_near_one] + scipy.special.log_ndtr(-u[is_near_one] - mu))
        )
        tail = u[~is_near_one]
        log_deltas[~is_near_one] = (
            -0.5 * tail * tail - 0.5 * math.log(2 * math.pi) + np.log(_mills_gap(tail, mu))
        )
    return log_deltas
