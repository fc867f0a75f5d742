"""Audits: lower bounds on epsilon from outside, as pure functions of counts and scores.

A certified value above the bound is consistent with it; a claimed value below it is refuted.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, ndtri

from dpmc_core.arrays import Bools, Floats, Ints
from dpmc_core.errors import check_number
from dpmc_core.privacy.accounting import bisect


def count_right_guesses(scores: Floats, planted: Bools, guesses: int) -> int:
    """Count how many of the surest guesses are right; the guess is "planted" if the score is > 0.

    Args:
        scores: array of shape (n_canaries,), how strongly the output indicates each canary.
        planted: mask of shape (n_canaries,), the canaries that were planted.
        guesses: how many canaries are guessed, those with the largest absolute scores.
    """
    surest = np.argsort(-np.abs(scores), kind="stable")[:guesses]
    return int(((scores > 0) == planted)[surest].sum())


def _check_counts(canaries: int, guesses: int, right: int, confidence: float) -> None:
    """Raise InvalidSetting unless the counts and the confidence are possible."""
    check_number("canaries", canaries, at_least=1, integer=True)
    check_number("guesses", guesses, at_least=1, at_most=canaries, integer=True)
    check_number("right guesses", right, at_least=0, at_most=guesses, integer=True)
    check_number("confidence", confidence, at_least=1e-6, below=1)


def canary_bound(
    canaries: int, guesses: int, right: int, *, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """Return a lower confidence bound on epsilon from the guesses about one run.

    Each canary was planted by its own fair coin and guessed from the published output alone; the
    number of guesses was fixed before, and the surest ones count (Steinke, Nasr, Jagielski,
    "Privacy auditing with one (1) training run", 2023). If the run is (epsilon, delta)-DP, the
    bound exceeds epsilon with probability at most 1 - confidence.

    Args:
        canaries: how many canaries there were, planted or not.
        guesses: how many of them were guessed.
        right: how many guesses were right.
        delta: the delta of the tested promise.
        confidence: the confidence of the bound.
    """
    _check_counts(canaries, guesses, right, confidence)
    check_number("delta", delta, at_least=0, below=1)

    def is_refuted(epsilon: float) -> bool:
        return canary_p_value(epsilon, canaries, guesses, right, delta) <= 1 - confidence

    # With delta > 0 the p-value need not be monotone: the bound ends at the first epsilon that is
    # not refuted. k right of k guesses have a probability of at least 1 - k e^-eps, so they refute
    # nothing from ln(k/confidence) on.
    end = math.log(guesses) + max(10.0, 1.0 - math.log(confidence))
    grid = np.linspace(0.0, end, 201).tolist()
    first_consistent = next(k for k, epsilon in enumerate(grid) if not is_refuted(epsilon))
    if first_consistent == 0:
        return 0.0
    # The end that is refuted: the bound is never overstated.
    return bisect(is_refuted, grid[first_consistent - 1], grid[first_consistent], 1e-9)[0]


def canary_p_value(
    epsilon: float, canaries: int, guesses: int, right: int, delta: float = 0.0
) -> float:
    """Bound the probability of at least `right` right guesses about an (epsilon, delta)-DP run.

    With W ~ Bin(guesses, e^eps/(1 + e^eps)) the bound is P[W >= right] + 2 canaries delta max_i
    P[right - i <= W < right] / i over i = 1..right.

    Args:
        epsilon: the epsilon of the tested promise.
        canaries: how many canaries there were, planted or not.
        guesses: how many of them were guessed.
        right: how many guesses were right.
        delta: the delta of the tested promise.
    """
    q = 1.0 / (1.0 + math.exp(-epsilon))
    tail = _binomial_tail(np.array([right]), guesses, q)[0]
    if delta == 0 or right == 0:
        return float(tail)
    i = np.arange(1, right + 1)
    slack = ((_binomial_tail(right - i, guesses, q) - tail) / i).max()
    return min(1.0, float(tail + 2 * canaries * delta * slack))


def gaussian_canary_bound(
    canaries: int, guesses: int, right: int, *, confidence: float = 0.95
) -> float:
    """Return a lower confidence bound on the ratio mu from the guesses about one run.

    If the run is mu-GDP, as Gaussian releases are, the bound exceeds mu with probability at most 1
    - confidence (Mahloujifar, Melis, Chaudhuri, "Auditing f-differential privacy in one run", 2024,
    for the trade-off curve of a Gaussian mechanism; `gaussian_epsilon` converts it into epsilon at
    a delta). It is close to the bound for pure epsilon at mu = 0, and well above what (epsilon,
    delta) alone can show elsewhere.

    Args:
        canaries: how many canaries there were, planted or not.
        guesses: how many of them were guessed.
        right: how many guesses were right.
        confidence: the confidence of the bound.
    """
    _check_counts(canaries, guesses, right, confidence)

    def is_refuted(mu: float) -> bool:
        # The recursion of the paper starts at `right` and counts i down to 0. In it r and h are the
        # probabilities of at least i right guesses, weighted by the shares of canaries that are
        # guessed right and wrong. The trade-off curve of mu bounds h from below by r. Both only
        # grow, and their sum cannot exceed the share of canaries that are guessed.
        share = (1 - confidence) / canaries
        r, h = share * right, share * (guesses - right)
        for i in range(right - 1, -1, -1):
            min_h = float(ndtr(ndtri(min(r, 1.0)) - mu))
            if min_h > h:
                r += i / (guesses - i) * (min_h - h)
                h = min_h
            if r + h > guesses / canaries:
                return True
        return False

    if not is_refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while is_refuted(high):
        low, high = high, 2.0 * high
    return bisect(is_refuted, low, high, relative=1e-6)[0]  # the end that is refuted


def clopper_pearson(count: int, total: int, *, lower: bool, error_probability: float) -> float:
    """Return one end of the Clopper-Pearson interval of a probability.

    The end lies on the wrong side of the probability with probability at most `error_probability`.

    Args:
        count: how many draws were successes.
        total: how many draws there were.
        lower: whether to return the lower end.
        error_probability: the error probability of this end.
    """
    if lower:
        return float(betaincinv(count, total - count + 1, error_probability)) if count else 0.0
    return (
        float(betaincinv(count + 1, total - count, 1 - error_probability)) if count < total else 1.0
    )


def _binomial_tail(counts: Ints, n: int, q: float) -> Floats:
    """Return P[Bin(n, q) >= count] for each count.

    Args:
        counts: array of any shape, integers up to n.
        n: number of trials.
        q: probability of a success.
    """
    return np.where(counts <= 0, 1.0, betainc(np.maximum(counts, 1), n - counts + 1, q))
