"""What the best of several private runs costs, where how many there are is drawn at random.

To publish every run costs their composition. To publish the best alone costs far less where the
number of runs K is drawn from a distribution that is declared beforehand, does not depend on the
data, and is never told (Liu, Talwar, "Private selection from private candidates", 2019; Papernot,
Steinke, "Hyperparameter tuning with Renyi differential privacy", 2022). Each run must be private as
a whole, the score by which it is judged included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import check_number
from dpmc_core.privacy.accounting import Loss

if TYPE_CHECKING:
    from collections.abc import Iterator

Floats = NDArray[np.float64]

_ORDERS = 1 + np.geomspace(1e-3, 1e6, 4000)  # of Renyi divergence: each of them gives a bound
_UNLIKELY = 1e-18  # a number of runs less likely than that is not drawn


@dataclass(frozen=True, kw_only=True)
class RandomRuns:
    """K = 1, 2, ... runs, of a truncated negative binomial distribution with a stated mean.

    eta: 1 is the geometric distribution, 0 the logarithmic one, with more luck in it and cheaper;
    the larger it is, the closer to a Poisson number, and the dearer.
    """

    mean: float
    eta: float = 1.0

    def __post_init__(self) -> None:
        check_number("expected number of runs", self.mean, at_least=1, at_most=1e6)
        check_number("eta of the number of runs", self.eta, at_least=0, at_most=100)

    @cached_property
    def log_odds(self) -> float:
        """ln(1/gamma) of Papernot and Steinke's parameter gamma, which decides the mean."""
        low, high = 0.0, 50.0
        while high - low > 1e-15 * high:
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            low, high = (middle, high) if self._mean(middle) < self.mean else (low, middle)
        return high if self.mean > 1 else 0.0

    def _mean(self, t: float) -> float:
        return math.expm1(t) / _rising(self.eta, t)

    def chances(self) -> Iterator[float]:
        """P[K = 1], P[K = 2], ..."""
        t, k = self.log_odds, 1
        if t == 0:
            yield 1.0
            return
        stays = -math.expm1(-t)
        chance = stays * math.exp(-self.eta * t) / _rising(self.eta, t)
        while True:
            yield chance
            chance *= stays * (k + self.eta) / (k + 1)
            k += 1

    def draw(self, rng: np.random.Generator) -> int:
        """How many runs are made this time; nobody is told."""
        left, u = 1.0, rng.random()
        for k, chance in enumerate(self.chances(), 1):
            left -= chance
            if u >= left or (k > self.mean and chance < _UNLIKELY):
                return k
        return 1


def _rising(eta: float, t: float) -> float:
    """(1 - e^(-eta t)) / eta, which is t at eta = 0."""
    return -math.expm1(-eta * t) / eta if eta > 0 else t


@dataclass(frozen=True)
class Selection:
    """The best of random runs, each of a candidate that spends one of these losses.

    The candidate of a run may itself be drawn, whatever the chances: a mixture spends no more than
    the worst of them.
    """

    runs: RandomRuns
    losses: tuple[Loss, ...]

    @property
    def pure(self) -> float:
        """The epsilon at delta 0: 2 + eta times that of the worst run (Theorem 2, in the limit)."""
        worst = max(math.inf if loss.mu > 0 else loss.epsilon for loss in self.losses)
        return worst if self.runs.mean == 1 else (2 + self.runs.eta) * worst

    def epsilon_at(self, delta: float) -> float:
        """The epsilon of publishing the best run alone, at a delta.

        Renyi divergences of the output (Theorem 2 of the paper, over both of its orders), turned
        into epsilon by Proposition 12 of Canonne, Kamath and Steinke ("The discrete Gaussian for
        differential privacy", 2020).
        """
        check_number("delta", delta, at_least=0, below=1)
        return self.pure if delta == 0 else min(self.pure, _epsilon(self, delta))

    def renyi(self) -> Floats:
        """A bound on the Renyi divergence of the output at each of `_ORDERS`."""
        one = np.max([renyi(loss, _ORDERS) for loss in self.losses], axis=0)
        eta, t = self.runs.eta, self.runs.log_odds
        # The inner order may approach 1, where the first term vanishes.
        inner = np.append((1 - 1 / _ORDERS) * one + t / _ORDERS, t)
        found: Floats = one + (1 + eta) * inner.min() + math.log(self.runs.mean) / (_ORDERS - 1)
        return found


@lru_cache(maxsize=256)
def _epsilon(selection: Selection, delta: float) -> float:
    orders, divergence = _ORDERS, selection.renyi()
    epsilons = (
        divergence + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    )
    return max(0.0, float(epsilons.min()))


def renyi(loss: Loss, orders: Floats) -> Floats:
    """The Renyi divergence, at orders > 1, of whatever spends a loss; attained by the worst.

    Gaussian: order mu^2 / 2. Pure: that of randomised response (Mironov, "Renyi differential
    privacy", 2017).
    """
    epsilon = loss.epsilon
    if math.isinf(epsilon) or math.isinf(loss.mu):
        return np.full(orders.shape, math.inf)
    right = -math.log1p(math.exp(-epsilon))
    wrong = right - epsilon
    terms = (orders * a + (1 - orders) * b for a, b in ((right, wrong), (wrong, right)))
    pure = np.logaddexp(*terms) / (orders - 1)
    found: Floats = np.minimum(pure, epsilon) + orders * loss.mu**2 / 2
    return found
