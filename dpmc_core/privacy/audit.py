"""Audits: lower bounds on epsilon from outside, as pure functions of queries and scores.

A certified value above the bound is consistent with it; a claimed value below it is refuted.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc

from dpmc_core.errors import InvalidSetting, check_number
from dpmc_core.privacy.accounting import Loss
from dpmc_core.privacy.releases import Additive

Data = TypeVar("Data")


@dataclass(frozen=True)
class Probe:
    """The largest change of a query seen among neighbouring data sets, and what it proves.

    change: in the norm of the release's noise. index: which neighbour, counted from 0.
    loss: an exact lower bound on what one publication spends.
    """

    change: float
    index: int
    loss: Loss


def sensitivity_probe(
    query: Callable[[Data], ArrayLike],
    data: Data,
    neighbours: Iterable[Data],
    release: Additive,
) -> Probe:
    """How far `query` really moves between `data` and each neighbour, against the release's noise.

    The loss of Laplace noise reaches ||change||_1 / scale and of Gaussian noise has the ratio
    ||change||_2 / sigma, so both are exact for the pair, whatever the true sensitivity is. The
    query must be solved to tolerance: what a solver leaves over counts as change.
    """
    answer = query(data)
    changes = [release.distance(answer, query(other)) for other in neighbours]
    if not changes:
        raise InvalidSetting("neighbours", "at least one data set", 0)
    index = int(np.argmax(changes))
    change = changes[index]
    return Probe(change, index, dataclasses.replace(release, times=1).loss(change))


@dataclass(frozen=True)
class CanaryAudit:
    """One run with planted canaries: how many were guessed, how many rightly, and the bound."""

    canaries: int
    guesses: int
    right: int
    delta: float
    confidence: float
    epsilon: float  # lower bound at that confidence


def canary_audit(
    scores: ArrayLike,
    planted: ArrayLike,
    guesses: int,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> CanaryAudit:
    """Audit one run (Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training run", 2023).

    Each canary was planted by its own fair coin (`planted`, booleans) and scored from the published
    output alone: a positive score guesses that it was planted, a negative one that it was not, and
    only the `guesses` largest magnitudes count. `guesses` must be fixed before the scores are seen.
    """
    score, truth = np.asarray(scores, dtype=float), np.asarray(planted, dtype=bool)
    if score.ndim != 1 or score.shape != truth.shape:
        raise InvalidSetting("scores", f"one per canary ({truth.size})", score.shape)
    check_number("guesses", guesses, at_least=1, at_most=score.size, integer=True)
    surest = np.argsort(-np.abs(score), kind="stable")[:guesses]
    right = int(((score > 0) == truth)[surest].sum())
    epsilon = canary_bound(score.size, guesses, right, delta=delta, confidence=confidence)
    return CanaryAudit(score.size, guesses, right, delta, confidence, epsilon)


def canary_bound(
    canaries: int, guesses: int, right: int, *, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """The epsilon below which `right` of `guesses` right would be too good to be chance.

    If the run is (epsilon, delta)-DP, the bound exceeds epsilon with probability at most
    1 - confidence.
    """
    check_number("canaries", canaries, at_least=1, integer=True)
    check_number("guesses", guesses, at_least=1, at_most=canaries, integer=True)
    check_number("right guesses", right, at_least=0, at_most=guesses, integer=True)
    check_number("delta", delta, at_least=0, below=1)
    check_number("confidence", confidence, at_least=1e-6, below=1)

    def refuted(epsilon: float) -> bool:
        return canary_p_value(epsilon, canaries, guesses, right, delta) <= 1 - confidence

    # With delta > 0 the p-value need not be monotone: the bound ends at the first epsilon that
    # stands. k right of k guesses have a chance of at least 1 - k e^-eps, so from ln(k/confidence)
    # on they refute nothing.
    last = math.log(guesses) + max(10.0, 1.0 - math.log(confidence))
    grid = np.linspace(0.0, last, 201)
    standing = next(k for k, epsilon in enumerate(grid) if not refuted(float(epsilon)))
    if standing == 0:
        return 0.0
    low, high = float(grid[standing - 1]), float(grid[standing])
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        if refuted(middle):
            low = middle
        else:
            high = middle
    return low


def canary_p_value(
    epsilon: float, canaries: int, guesses: int, right: int, delta: float = 0.0
) -> float:
    """The chance of at least `right` right guesses of an (epsilon, delta)-DP run, at most.

    With W ~ Bin(guesses, e^eps/(1 + e^eps)) it is P[W >= right] +
    2 canaries delta max_i P[right - i <= W < right] / i, i = 1..right.
    """
    q = 1.0 / (1.0 + math.exp(-epsilon))
    tail = _at_least(np.array([right]), guesses, q)[0]
    if delta == 0 or right == 0:
        return float(tail)
    i = np.arange(1, right + 1)
    slack = ((_at_least(right - i, guesses, q) - tail) / i).max()
    return min(1.0, float(tail + 2 * canaries * delta * slack))


def _at_least(counts: NDArray[np.int64], n: int, q: float) -> NDArray[np.float64]:
    """P[Bin(n, q) >= count] for each count in 0..n."""
    tail: NDArray[np.float64] = np.where(
        counts <= 0, 1.0, betainc(np.maximum(counts, 1), n - counts + 1, q)
    )
    return tail
