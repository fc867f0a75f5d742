"""The theorems of JTT18 as functions of epsilon, users, items and rounds, up to constants.

JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018). The
constants and logarithms that their O() and O~() hide are left out: shapes and crossings mean
something, heights do not. Errors are mean squared errors of one entry.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpmc_core.errors import check_number
from dpmc_core.model import Factors


class Regime(NamedTuple):
    """What the bounds depend on.

    users m, items n, seen |Omega|, nuclear-norm bound k, bound L on the l2 norm of a row's seen
    part (rating points for both), epsilon, delta.
    """

    users: float
    items: float
    seen: float
    nuclear: float
    row: float
    epsilon: float
    delta: float = 1e-6


def rank_one(users: float, items: float, epsilon: float, delta: float = 1e-6) -> Regime:
    """Remarks 1, 3, 5: entries of size one, sqrt(n) of each row seen, k = sqrt(m n), L = n^1/4."""
    check_number("users", users, at_least=1)
    check_number("items", items, at_least=1)
    check_number("epsilon", epsilon, above=0)
    seen, nuclear = users * math.sqrt(items), math.sqrt(users * items)
    return Regime(users, items, seen, nuclear, math.pow(items, 0.25), epsilon, delta)


def optimisation(s: Regime, rounds: float, slack: float = 0.0) -> float:
    """Theorem A.1: Frank-Wolfe's excess empirical risk k^2/(|Omega| T) + the oracle's slack."""
    return s.nuclear**2 / (s.seen * rounds) + slack


def empirical_risk(s: Regime, rounds: float) -> float:
    """Theorem 3.2: optimisation error plus the price of privacy after `rounds` rounds."""
    noise = math.sqrt(math.sqrt(s.items * math.log(1 / s.delta)) * math.log(s.items))
    return optimisation(s, rounds) + s.nuclear * math.pow(rounds, 0.25) * s.row * noise / (
        s.seen * math.sqrt(s.epsilon)
    )


def best_rounds(s: Regime) -> float:
    """Theorem 3.2: T = k^(4/5) eps^(2/5) / (n^(1/5) L^(4/5))."""
    top = math.pow(s.nuclear, 0.8) * math.pow(s.epsilon, 0.4)
    return top / (math.pow(s.items, 0.2) * math.pow(s.row, 0.8))


def best_empirical_risk(s: Regime) -> float:
    """Theorem 3.2 at its best number of rounds: k^(6/5) n^(1/5) L^(4/5) / (|Omega| eps^(2/5))."""
    top = math.pow(s.nuclear, 1.2) * math.pow(s.items, 0.2) * math.pow(s.row, 0.8)
    return top / (s.seen * math.pow(s.epsilon, 0.4))


def generalisation(s: Regime) -> tuple[float, float]:
    """Corollary 3.1 as (price of privacy, error of completion); the bound is their sum."""
    both = s.users + s.items
    private = (
        math.pow(s.nuclear, 4 / 3)
        * s.row
        * math.pow(s.items, 0.25)
        / math.sqrt(s.epsilon * math.pow(s.seen, 13 / 6) * math.pow(both, 1 / 6))
    )
    return private, math.pow(s.nuclear * math.sqrt(both) / s.seen, 2 / 3)


def oja_gap(top: float, variance: float, updates: float) -> float:
    """Theorem 3.3: how far the Rayleigh quotient stays below the top eigenvalue.

    sqrt(V/Gamma) + ||W||/Gamma, with V = sigma^2 n for the private method.
    """
    return math.sqrt(variance / updates) + top / updates


def svd_risk(
    s: Regime, rank: float, incoherence: float, condition: float, spectral: float
) -> tuple[float, float]:
    """Theorem B.3 as (price of privacy, error of completion); spectral: ||Y*||_2."""
    spread = 64 * math.log(1 / s.delta) / s.epsilon**2
    private = (
        min(s.row**2, incoherence**2 * rank * s.items / s.users)
        * condition**4
        * s.users**3
        * s.items**4
        * rank
        * spread
        / s.seen**4
    )
    completion = incoherence * spectral**2 * rank**2 * math.log(s.users) / (s.items * s.seen)
    return private, completion


def incoherence(matrix: Factors) -> float:
    """Definition B.2: max(m/r max ||U U' e_i||, n/r max ||V V' f_j||) of a rank-r matrix."""
    found: list[float] = []
    for side in (matrix.left, matrix.right):
        basis = np.linalg.qr(side)[0]
        found.append(len(basis) / basis.shape[1] * float(np.linalg.norm(basis, axis=1).max()))
    return max(found)


def rank_one_errors(users: float, items: float) -> tuple[float, float]:
    """Remark 6: (Frank-Wolfe n^(13/24)/m^(5/12), SVD n^2/m^2 + 1/sqrt(n)) for incoherent data.

    The first is as printed and contradicts the paper's own Corollary 3.1, which in the same setting
    gives n^(5/8)/m^(1/2) (`generalisation`) and with it Remark 3's m > n^(5/4); the printed figure
    would need m > n^(13/10).
    """
    frank_wolfe = math.pow(items, 13 / 24) / math.pow(users, 5 / 12)
    return frank_wolfe, (items / users) ** 2 + 1 / math.sqrt(items)


def users_needed(items: float) -> float:
    """Remark 3: the error vanishes once m grows faster than n^(5/4)."""
    return math.pow(items, 1.25)


class SampleComplexity(NamedTuple):
    """A row of JTT18's table 1: growth rates beyond which the error vanishes; "" where unknown."""

    method: str
    users: str
    seen: str


TABLE_1 = (
    SampleComplexity("Nuclear-norm minimisation, no privacy", "n", "m sqrt(n)"),
    SampleComplexity("Noisy SVD with nearest neighbours", "", ""),
    SampleComplexity("Noisy stochastic gradient Langevin dynamics", "", ""),
    SampleComplexity("Private Frank-Wolfe", "n^(5/4)", "m sqrt(n)"),
)


class LowRankError(NamedTuple):
    """A row of table 2: Frobenius error of low-rank approximation, and its notion of privacy."""

    method: str
    error: str
    notion: str


TABLE_2 = (
    LowRankError("Randomised response", "sqrt(m + n)", "standard"),
    LowRankError("Gaussian measurement", "sqrt(m) + sqrt(mu n / m)", "standard"),
    LowRankError("Noisy power method", "sqrt(mu)", "standard"),
    LowRankError("Exponential mechanism", "m + n", "standard, pure"),
    LowRankError("Private Frank-Wolfe", "m^(3/10) n^(1/10)", "joint"),
    LowRankError("Private SVD", "sqrt(mu (n^2/m + m/n))", "joint"),
)
