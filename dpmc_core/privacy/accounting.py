"""Exact accounting as pure functions of numbers: Gaussian mechanisms, channels, attackers.

Gaussian releases with sensitivity-to-noise ratios mu_1, mu_2, ... compose, also adaptively, to one
Gaussian mechanism with mu = sqrt(sum mu_i^2) (Dong, Roth, Su, "Gaussian differential privacy",
2022), whose exact curve is (Balle, Wang, "Improving the Gaussian mechanism", 2018)

    delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr

from dpmc_core.errors import InvalidSetting, check_number

_ROOT_HALF_PI = math.sqrt(math.pi / 2)
_EVALUATION = 1e-12  # error of ln delta as evaluated here: what is promised stays this far inside
_KNOWN = 4096  # answers kept: a card asks for the same ones again and again
_ROUNDING = 1 - 1e-12  # a calibrated budget, composed again in floats, never exceeds its target


@dataclass(frozen=True)
class Loss:
    """What releases spend, or may spend: epsilons of pure ones add up, squares of Gaussian mus too.

    Losses are added (also adaptively; the start of a sum is `Loss()`), and a budget is divided the
    same way. A Gaussian release whose part of the budget is `part` has sigma = l2 / part.mu.
    """

    epsilon: float = 0.0
    mu: float = 0.0

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.epsilon + other.epsilon, math.hypot(self.mu, other.mu))

    def __mul__(self, share: float) -> Loss:
        """A share of it, or several of it: epsilon and the square of mu count alike."""
        return Loss(self.epsilon * share, self.mu * math.sqrt(share))

    def __truediv__(self, parts: float) -> Loss:
        """One of so many equal parts."""
        return self * (1 / parts)

    def split(self, *weights: float) -> tuple[Loss, ...]:
        """Parts in proportion to the weights.

        Added again in floats they never exceed the budget: a calibrated mu has its margin from
        `gaussian_mu`, epsilon gets it here.
        """
        for weight in weights:
            check_number("weight of a share", weight, above=0)
        total = math.fsum(weights)
        parts = (self * (weight / total) for weight in weights)
        return tuple(Loss(part.epsilon * _ROUNDING, part.mu) for part in parts)

    def epsilon_at(self, delta: float) -> float:
        """The epsilon of everything together at a delta, which the Gaussian part alone uses."""
        return self.epsilon + gaussian_epsilon(self.mu, delta)


def gaussian_log_delta(epsilon: float, mu: float) -> float:
    """ln delta(epsilon) of the Gaussian mechanism with ratio mu = l2 sensitivity / sigma.

    Written as ln phi(u) + ln(R(u) - R(u + mu)) with u = epsilon/mu - mu/2 and the Mills ratio
    R(x) = Phi(-x)/phi(x), because e^eps phi(u + mu) = phi(u): nothing underflows.
    """
    check_number("epsilon", epsilon, at_least=0)
    _check_ratio(mu)
    if mu == 0:
        return -math.inf
    if math.isinf(mu):
        return 0.0
    u = epsilon / mu - mu / 2
    if u < -5:  # delta is close to one: the plain difference loses nothing
        return math.log(float(ndtr(-u)) - math.exp(epsilon + float(log_ndtr(-u - mu))))
    gap = _mills_gap(u, mu)
    return -0.5 * u * u - 0.5 * math.log(2 * math.pi) + math.log(gap) if gap > 0 else -math.inf


def _mills_gap(u: float, mu: float) -> float:
    """R(u) - R(u + mu) for the Mills ratio R, to about 1e-12 relative where delta can be seen."""
    if u > 1e4:  # delta has underflowed long before; -R'(t) < 1/t^2 keeps this an upper bound
        return mu / u / u
    if mu > 0.01:
        return float(_mills(u) - _mills(u + mu))
    # The difference of two nearly equal numbers: integrate -R'(t) = 1 - t R(t) instead.
    nodes, weights = np.polynomial.legendre.leggauss(3)
    t = u + 0.5 * mu * (1.0 + nodes)
    return float(0.5 * mu * (weights @ (1.0 - t * _mills(t))))


def _mills(x: float | NDArray[np.float64]) -> NDArray[np.float64]:
    ratio: NDArray[np.float64] = _ROOT_HALF_PI * erfcx(np.asarray(x) / math.sqrt(2))
    return ratio


def _check_ratio(mu: float) -> None:
    if not mu >= 0:  # also refuses NaN, which would otherwise certify epsilon 0
        raise InvalidSetting("Gaussian ratio mu", ">= 0", mu)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """delta(epsilon) of the Gaussian mechanism with ratio mu."""
    return math.exp(gaussian_log_delta(epsilon, mu))


@lru_cache(maxsize=_KNOWN)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon at which ratio mu is (epsilon, delta)-DP, never understated."""
    check_number("delta", delta, at_least=0, below=1)
    _check_ratio(mu)
    if mu == 0:
        return 0.0
    if delta == 0 or mu > 1e100:  # beyond that mu^2 / 2 overflows, and no epsilon means anything
        return math.inf
    target = math.log(delta) - _EVALUATION

    def holds(epsilon: float) -> bool:
        return gaussian_log_delta(epsilon, mu) <= target

    if holds(0.0):
        return 0.0
    return _boundary(holds, start=max(mu * mu, 1e-6))


@lru_cache(maxsize=_KNOWN)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest ratio mu that is (epsilon, delta)-DP, never overstated."""
    check_number("epsilon", epsilon, above=0)
    check_number("delta", delta, above=0, below=1)
    target = math.log(delta) - _EVALUATION
    # In terms of x = 1/mu the condition holds from some point on, as _boundary wants.
    end = _boundary(lambda x: gaussian_log_delta(epsilon, 1.0 / x) <= target, start=1.0)
    return _ROUNDING / end


def _boundary(holds: Callable[[float], bool], start: float) -> float:
    """The smallest positive x with holds(x), for a condition that holds from some x on.

    Bisection on a geometric scale down to neighbouring floats; the returned end holds.
    """
    high = start
    while not holds(high):
        high *= 2.0
    low = high / 2.0
    while holds(low):
        high, low = low, low / 2.0
    while high - low > 1e-14 * high:
        middle = 0.5 * (low + high)
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def channel_epsilon(channel: NDArray[np.float64]) -> float:
    """Pure epsilon of a channel C[input, output]: the largest |ln C[a, o] - ln C[b, o]|."""
    matrix = np.asarray(channel, dtype=float)
    possible = matrix[:, matrix.max(axis=0) > 0]
    if (possible == 0).any():
        return math.inf
    logs = np.log(possible)
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


def attacker_certainty(epsilon: float, delta: float = 0.0) -> float:
    """Best posterior of an attacker with a 50/50 prior: (e^eps + delta)/(1 + e^eps), at most 1."""
    if math.isinf(epsilon):
        return 1.0
    odds = math.exp(-epsilon)
    return min(1.0, (1.0 + delta * odds) / (1.0 + odds))
