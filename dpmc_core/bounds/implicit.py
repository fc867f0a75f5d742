"""Utility bounds of RYHH24 for implicit matrix factorisation, and where one variant beats another.

RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024). N =
sqrt(1/lambda) bounds a profile's norm, c the largest |entry| of a fixed factor, d the rank.
"""

from __future__ import annotations

import math

from dpmc_core.errors import InvalidSetting, check_number


def loss_change(
    alpha: float, positives: int, regularisation: float, rank: int, largest: float
) -> float:
    """Theorem 4, corrected: what the complementary loss costs against iALS's own loss.

    alpha |U_i| N^2 (lambda + 4 d c^2); the paper prints 2 d c^2, but two profiles of norm at most N
    are up to 2N apart, and ||q - q'||^2 <= 4 N^2.
    """
    check_number("alpha", alpha, at_least=0, at_most=1)
    check_number("positives", positives, at_least=0)
    _check(1.0, rank, regularisation, largest)
    return alpha * positives / regularisation * (regularisation + 4 * rank * largest**2)


def strawman(
    epsilon: float, rank: int, regularisation: float, largest: float, *, printed: bool = False
) -> float:
    """Theorem 5, expected excess loss of the strawman.

    Delta (N^2 sqrt(2) d + 2 N sqrt(2 d) + 1) / eps with Delta = c^2 d^2 + 2 c d + 1, from
    E||B||_F <= sqrt(2) d Delta / eps, E||b||_2 <= sqrt(2 d) Delta / eps and, for the noise eta on
    the ridge, lambda N^2 E|eta| = Delta / eps. printed: Eq. 25, which leaves eta out, drops one c
    and takes 1 <= c d.
    """
    _check(epsilon, rank, regularisation, largest)
    n, d, c = math.sqrt(1 / regularisation), rank, largest
    if printed:
        return math.sqrt(2) * c * d * n * (n + 2 / math.sqrt(d)) * (d + 1) ** 2 / epsilon
    delta = (c * d) ** 2 + 2 * c * d + 1
    return delta * (n**2 * math.sqrt(2) * d + 2 * n * math.sqrt(2 * d) + 1) / epsilon


def complementary(
    epsilon: float,
    rank: int,
    regularisation: float,
    largest: float,
    *,
    alpha: float,
    beta1: float,
    beta2: float,
    symmetric: bool = False,
    printed: bool = False,
) -> float:
    """Theorem 5, expected excess loss with the complementary loss.

    The second-order sensitivity is (1 - alpha) c^2 d^2; with symmetric noise only the d (d + 1)/2
    entries of a triangle count. The ridge has the rest of the budget, beta3 = 1 - beta1 - beta2,
    and adds lambda N^2 E|eta| = (1 - alpha)/(beta3 eps), infinite without any. printed: Eq. 26 and
    27, which drop one c and leave the ridge out.
    """
    _check(epsilon, rank, regularisation, largest)
    check_number("alpha", alpha, at_least=0, at_most=1)
    check_number("beta1", beta1, above=0, at_most=1)
    check_number("beta2", beta2, at_least=0, at_most=1)
    if beta1 + beta2 > 1 + 1e-9:
        raise InvalidSetting("beta1 + beta2", "<= 1", beta1 + beta2)
    first = optimal(epsilon, rank, regularisation, largest) / beta1
    if alpha == 1:
        return first
    beta3 = 1 - beta1 - beta2
    if beta2 == 0 or (not printed and beta3 < 1e-9):
        return math.inf
    entries = rank * (rank + 1) / 2 if symmetric else rank**2
    moved = (1 - alpha) * entries * largest ** (1 if printed else 2)
    second = math.sqrt(2) * rank * moved / (regularisation * beta2 * epsilon)
    ridge = 0.0 if printed else (1 - alpha) / (beta3 * epsilon)
    return first + second + ridge


def optimal(epsilon: float, rank: int, regularisation: float, largest: float) -> float:
    """Theorem 5, Eq. 28: expected excess loss at alpha = 1, 4 sqrt(2 d) c d N / eps."""
    _check(epsilon, rank, regularisation, largest)
    n = math.sqrt(1 / regularisation)
    return 4 * math.sqrt(2 * rank) * largest * rank * n / epsilon


def complementary_wins(
    alpha: float, beta1: float, beta2: float, rank: int, *, printed: bool = False
) -> bool:
    """Whether the complementary loss's printed bound is below the strawman's for every N > 0.

    Comparing Eq. 25 and 26 term by term: (1 - alpha) d^2 <= beta2 (d + 1)^2 and
    (d + 1)^2 >= 2 d / beta1. printed: Corollary 1 as it stands, alpha >= 1 - beta2 and
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


def amplified(loss: float, weight: float) -> float:
    """Theorem 2: epsilon after drawing a term with chance 1/weight, ln(1 + (e^loss - 1)/weight)."""
    check_number("loss", loss, at_least=0)
    check_number("weight", weight, at_least=1)
    return float(math.log1p(math.expm1(loss) / weight))


def unique_weight_exists(loss: float, epsilon: float) -> bool:
    """Theorem 6 with its condition corrected: a largest weight w >= 1 exists for 0 < loss <= eps.

    (e^{a w} - 1)/w grows in w from e^a - 1, so it meets e^eps - 1 once, at w >= 1, where
    a <= eps; the paper states the opposite inequality.
    """
    check_number("loss", loss, at_least=0)
    check_number("epsilon", epsilon, above=0)
    return 0 < loss <= epsilon


def _check(epsilon: float, rank: int, regularisation: float, largest: float) -> None:
    check_number("epsilon", epsilon, above=0)
    check_number("rank", rank, at_least=1, integer=True)
    check_number("regularisation", regularisation, above=0)
    check_number("largest entry", largest, above=0)
