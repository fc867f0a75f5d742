"""What noise costs implicit matrix factorisation: Theorems 4 to 6 and Corollary 1 of RYHH24.

RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024). N =
sqrt(1/lambda) bounds a profile's norm (Lemma 1), c the largest |entry| of a fixed factor, d the
rank. Losses are sums of squared scores.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import InvalidSetting, check_number

Floats = NDArray[np.float64]


class Scales(NamedTuple):
    """Laplace scales of a profile's loss: of each number of A1 (2 sum p) and A2 (sum pp'), and of
    the ridge's count. 0: no noise; infinite: no budget."""

    first: float
    second: float = 0.0
    ridge: float = 0.0


def loss_change(
    alpha: float,
    positives: int,
    regularisation: float,
    rank: int,
    largest: float,
    *,
    printed: bool = False,
) -> float:
    """Theorem 4, repaired: what minimising the complementary loss L costs in iALS's own loss L^O.

    L^O(q*) - L^O(q') <= alpha |U_i| N^2 (lambda + d c^2) for the minimisers q* of L, q' of L^O.
    For L^O - L = alpha (sum_{U_i} (p'q)^2 + lambda |U_i| ||q||^2), at most that for ||q|| <= N, and
    L(q*) <= L(q') <= L^O(q'). Printed (Eq. 24) is alpha |U_i| N^2 (lambda + 2 d c^2), for
    L(q*) - L^O(q'), which the same lines show never to be positive; its proof sets
    q*'Wq* - q''Wq' to (q* - q')'W(q* - q') and ||q* - q'||^2 to at most 2 N^2 (it is 4 N^2).
    """
    check_number("alpha", alpha, at_least=0, at_most=1)
    check_number("positives", positives, at_least=0)
    _check(1.0, rank, regularisation, largest)
    squares = (2 if printed else 1) * rank * largest**2
    return alpha * positives / regularisation * (regularisation + squares)


def laplace_norm(numbers: int, scale: float) -> float:
    """Lemma 2: ||x||_2 of that many Laplace numbers is sqrt(2 numbers) scale at most, on average.

    E||x||_2^2 = 2 d (Delta/eps)^2; our copy of the paper has Delta under the root.
    """
    return math.sqrt(2 * numbers) * scale


def strawman_scales(epsilon: float, rank: int, largest: float) -> Scales:
    """Eq. 9: one Delta = c^2 d^2 + 2 c d + 1 for all, at all of the budget."""
    scale = ((largest * rank) ** 2 + 2 * largest * rank + 1) / epsilon
    return Scales(scale, scale, scale)


def complementary_scales(
    epsilon: float,
    rank: int,
    largest: float,
    *,
    alpha: float,
    beta1: float,
    beta2: float,
    symmetric: bool = False,
) -> Scales:
    """Eq. 15 to 18: 2 c d/(beta1 eps), (1 - alpha) c^2 d^2/(beta2 eps) and (1 - alpha)/(beta3 eps).

    symmetric: d (d + 1)/2 for d^2. The ridge has the rest, beta3 = 1 - beta1 - beta2.
    """
    check_number("alpha", alpha, at_least=0, at_most=1)
    check_number("beta1", beta1, above=0, at_most=1)
    check_number("beta2", beta2, at_least=0, at_most=1)
    beta3 = 1 - beta1 - beta2
    if beta3 < -1e-9:
        raise InvalidSetting("beta1 + beta2", "<= 1", beta1 + beta2)
    first = 2 * largest * rank / (beta1 * epsilon)
    if alpha == 1:
        return Scales(first)
    entries = rank * (rank + 1) / 2 if symmetric else rank**2
    second = (1 - alpha) * entries * largest**2 / (beta2 * epsilon) if beta2 else math.inf
    return Scales(first, second, (1 - alpha) / (beta3 * epsilon) if beta3 > 1e-9 else math.inf)


def excess_loss(scales: Scales, rank: int, regularisation: float, sampled: float = 0.0) -> float:
    """Theorem 5, repaired: how much more a profile solved with noise loses on average.

    N^2 E||B||_F + N (E||b||_2 + E||s||_2) + lambda N^2 E|eta|: the noisy minimiser may follow B, b,
    eta and what a sample adds to A1, s; the true one cannot, and all have mean zero. sampled: a
    bound on E||s||_2 (`sampling_norm`). Equations 25 to 28 count b twice, which is true but loose;
    25 to 27 leave out the ridge's noise eta, 28 leaves out s, which is not.
    """
    check_number("regularisation", regularisation, above=0)
    n = math.sqrt(1 / regularisation)
    matrix = n**2 * laplace_norm(rank**2, scales.second)
    return matrix + n * (laplace_norm(rank, scales.first) + sampled) + scales.ridge


def sampling_norm(lengths: Floats, weights: Floats) -> float:
    """At most E||s||_2, s = sum (g w - 1) t over terms t drawn by coins g of chance 1/w.

    The root of sum (w - 1) ||t||_2^2. lengths: ||t||_2; weights: w, finite.
    """
    return math.sqrt(float(np.sum((weights - 1) * lengths**2)))


def printed_strawman(epsilon: float, rank: int, regularisation: float, largest: float) -> float:
    """Theorem 5, Eq. 25: sqrt(2) c d N (N + 2/sqrt d) (d + 1)^2/eps.

    Drops one c of c^2 d^2, takes 1/c for at most 1 and leaves the ridge's noise out.
    """
    _check(epsilon, rank, regularisation, largest)
    n, d, c = math.sqrt(1 / regularisation), rank, largest
    return math.sqrt(2) * c * d * n * (n + 2 / math.sqrt(d)) * (d + 1) ** 2 / epsilon


def printed_complementary(
    epsilon: float,
    rank: int,
    regularisation: float,
    largest: float,
    *,
    alpha: float,
    beta1: float,
    beta2: float,
    symmetric: bool = False,
) -> float:
    """Theorem 5, Eq. 26 and 27 (symmetric), with one c dropped and without the ridge.

    sqrt(2) c d N (N d^2 (1 - alpha)/beta2 + 4 sqrt(d)/beta1)/eps, or d (d + 1)/2 for d^2. Factors s
    times as long with s^2 times the lambda give the same losses, by scores alone, and here another
    first term: only c^2 N^2 stays the same. At alpha = beta1 = 1 it is Eq. 28, 4 sqrt(2 d) c d
    N/eps. That is true where all cells count; with importance sampling, for which it is stated as
    we read it, the profile minimises the loss of a sample, and what that costs does not vanish as
    epsilon grows.
    """
    _check(epsilon, rank, regularisation, largest)
    n, d, c = math.sqrt(1 / regularisation), rank, largest
    entries = d * (d + 1) / 2 if symmetric else d**2
    second = n * entries * (1 - alpha) / beta2 if alpha < 1 else 0.0
    return math.sqrt(2) * c * d * n * (second + 4 * math.sqrt(d) / beta1) / epsilon


def complementary_wins(
    alpha: float, beta1: float, beta2: float, rank: int, *, printed: bool = False
) -> bool:
    """Whether the complementary loss's printed bound is below the strawman's for every N > 0.

    Comparing Eq. 25 and 26 term by term: (1 - alpha) d^2 <= beta2 (d + 1)^2 and
    (d + 1)^2 >= 2 d/beta1. printed: Corollary 1 as it stands, alpha >= 1 - beta2 and
    d >= sqrt(1/beta1) - 1, which loses the factor 2 d of the first order and is too weak: at d = 4,
    lambda = 1, alpha = 0.8, beta = (0.1, 0.8, 0.1) the strawman's bound is the smaller one.
    """
    check_number("alpha", alpha, at_least=0, at_most=1)
    check_number("beta1", beta1, above=0, at_most=1)
    check_number("beta2", beta2, at_least=0, at_most=1)
    check_number("rank", rank, at_least=1, integer=True)
    if printed:
        return alpha >= 1 - beta2 and rank >= math.sqrt(1 / beta1) - 1
    second = (1 - alpha) * rank**2 <= beta2 * (rank + 1) ** 2
    return second and (rank + 1) ** 2 >= 2 * rank / beta1


def unique_weight_exists(loss: float, epsilon: float) -> bool:
    """Theorem 6 for the loss a w of a term counted w times: a largest weight w >= 1 for a <= eps.

    (e^{a w} - 1)/w grows in w from e^a - 1, so it meets e^eps - 1 once, at w >= 1 where a <= eps.
    The printed condition, a constant epsilon > ln(1 + w (e^eps' - 1)) for all w from some v on,
    holds nowhere: the right side has no limit. With phi(w) = a w for that constant it does.
    """
    check_number("loss", loss, at_least=0)
    check_number("epsilon", epsilon, above=0)
    return 0 < loss <= epsilon


def _check(epsilon: float, rank: int, regularisation: float, largest: float) -> None:
    check_number("epsilon", epsilon, above=0)
    check_number("rank", rank, at_least=1, integer=True)
    check_number("regularisation", regularisation, above=0)
    check_number("largest entry", largest, above=0)
