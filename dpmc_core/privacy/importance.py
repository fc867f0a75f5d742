"""Weights of Poisson importance sampling (RYHH24, section IV-C): the term k is drawn with
probability 1/w_k and then counted w_k times, which leaves the expected sum as it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dpmc_core.arrays import Bools, Floats
from dpmc_core.errors import check_number
from dpmc_core.privacy.accounting import bisect
from dpmc_core.stopping import look

_BISECTIONS = 200
_EXPONENT = 700.0  # e to it is a float
_LARGEST = 2.0**1023  # the largest power of two that is a float


def importance_weights(losses: ArrayLike, epsilon: float) -> Floats:
    """The largest weights w >= 1 at which sampling with probability 1/w keeps the loss at epsilon.

    losses: a >= 0, the privacy loss of each term at weight 1; at weight w it is a w. A term drawn
    with probability 1/w and then counted w times has the loss ln(1 + (e^{a w} - 1)/w), which is
    epsilon where (e^{a w} - 1)/w = e^epsilon - 1 (RYHH24, Theorem 2 and Problem 1; its Algorithm 3
    drops the -1/w). A term with a >= epsilon keeps w = 1; one with a = 0 has no largest weight
    and gets infinity, so it is never drawn; so does one whose weight no float can hold. By
    bisection, all terms at once.
    """
    check_number("epsilon", epsilon, above=0)
    a = np.asarray(losses, dtype=float)
    target = _log_expm1(np.asarray(float(epsilon)))

    def too_large(w: Floats) -> Bools:
        return _log_expm1(a * w) > target + np.log(w)

    low = np.ones_like(a)
    high = np.full_like(a, 2.0)
    open_end = (a > 0) & (a < epsilon)
    while (growing := open_end & (high < _LARGEST) & ~too_large(high)).any():
        low = np.where(growing, high, low)
        high = np.where(growing, 2.0 * high, high)
    endless = (a == 0) | (open_end & ~too_large(high))
    for _ in range(_BISECTIONS):
        look()
        middle = 0.5 * (low + high)
        above = too_large(middle)
        high = np.where(above, middle, high)
        low = np.where(above, low, middle)
        if np.all(high - low <= 1e-14 * high):
            break
    return np.where(endless, np.inf, np.where(open_end, low, 1.0))


def uniform_weights(count: int, sample: float) -> Floats:
    """The same weight for each of `count` terms, at an expected sample of that size."""
    check_number("sample size", sample, above=0, at_most=count)
    return np.full(count, count / sample)


def utility_weights(norms: ArrayLike, sample: float) -> Floats:
    """The weights w >= 1 that minimise the variance sum norm^2 (w - 1) of a sampled sum of vectors.

    At an expected sample sum 1/w of the given size: 1/w is min(1, norm / level).
    """
    size = np.asarray(norms, dtype=float)
    check_number("sample size", sample, above=0, at_most=int(np.count_nonzero(size)))
    high = float(size.sum() / sample) + float(size.max())

    def too_many(level: float) -> bool:
        return bool(np.minimum(1.0, size / level).sum() > sample)

    high = bisect(too_many, float(size[size > 0].min()), high, relative=1e-15)[1]
    with np.errstate(divide="ignore"):
        return np.maximum(1.0, high / size)


def amplified_losses(losses: ArrayLike, weights: ArrayLike) -> Floats:
    """The privacy loss of each term that is drawn with chance 1/w and counted w times.

    ln(1 + (e^{a w} - 1)/w) (RYHH24, Theorem 2), without overflow; 0 where the loss a at weight 1
    is 0, and for an infinite weight: that term is never drawn.
    """
    a, w = np.broadcast_arrays(np.asarray(losses, float), np.asarray(weights, float))
    found: Floats = np.zeros(a.shape)
    small = np.isfinite(w)
    with np.errstate(over="ignore"):
        grown = np.multiply(a, w, where=small, out=np.zeros(a.shape))
    large = grown > _EXPONENT
    small &= ~large
    found[small] = np.log1p(np.expm1(grown[small]) / w[small])
    with np.errstate(divide="ignore"):  # a term that is always drawn: ln 0
        never = np.log1p(-1.0 / w[large])
    found[large] = np.logaddexp(never, grown[large] - np.log(w[large]))
    return found


def weights_of_sample(losses: ArrayLike, sample: float) -> tuple[Floats, float]:
    """Importance weights with an expected sample of that size, and the epsilon they keep.

    A larger epsilon lets weights grow, so the sample shrinks: found by bisection.
    """
    a = np.asarray(losses, dtype=float)
    check_number("sample size", sample, above=0, at_most=int(np.count_nonzero(a)))

    def too_many(epsilon: float) -> bool:
        return bool((1.0 / importance_weights(a, epsilon)).sum() > sample)

    low, high = float(a[a > 0].min()) * 1e-6, float(a.max())
    while too_many(high):
        low, high = high, 2.0 * high
    high = bisect(too_many, low, high, relative=1e-14)[1]
    return importance_weights(a, high), high


def _log_expm1(x: Floats) -> Floats:
    """ln(e^x - 1) without overflow; -inf at 0."""
    with np.errstate(divide="ignore"):
        logs: Floats = np.where(
            x > 1.0, x + np.log1p(-np.exp(-x)), np.log(np.expm1(np.minimum(x, 1.0)))
        )
    return logs
