"""The theorems of JTT18 as functions of epsilon, users, items and rounds.

JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018). The
constants and logarithms that their O() and O~() hide are left out: shapes and crossings mean
something, heights do not. Only `optimisation`, `optimisation_decreasing` and `empirical_risk` have
numbers for them. Errors are mean squared errors of one entry, in squared rating points; the
empirical risk is half of that on the seen entries.
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


def printed_optimisation(s: Regime, rounds: float, slack: float = 0.0) -> float:
    """Theorem A.1: Frank-Wolfe's excess empirical risk is at most k^2/(|Omega| T) + the slack.

    False with the paper's steps of 1/T. Its proof drops (1 - 1/T)^T h(Y0), about h(Y0)/e, the
    weight at which the start stays, and takes the curvature for 2 k^2/|Omega|, half its bound.
    Where Y* has rank one and nuclear norm k, and all is seen, the excess is (1 - 1/T)^(2T) k^2/
    (2 |Omega|), more than is printed from T = 16 on, whatever k.
    """
    return s.nuclear**2 / (s.seen * rounds) + slack


def optimisation(s: Regime, rounds: float, slack: float = 0.0) -> float:
    """Theorem A.1, repaired for steps of 1/T from zero, where ||Y*||_nuc <= k.

    (k^2/|Omega|) (w/2 + 2 (1 - w)/T) + slack with w = (1 - 1/T)^T: the start's excess is at most
    k^2/(2 |Omega|), the curvature 4 k^2/|Omega|.
    """
    kept = math.pow(1 - 1 / rounds, rounds)
    return s.nuclear**2 / s.seen * (kept / 2 + 2 * (1 - kept) / rounds) + (1 - kept) * slack


def optimisation_decreasing(s: Regime, rounds: float, slack: float = 0.0) -> float:
    """The same for steps of 2/(t + 1): 8 k^2/(|Omega| (T + 2)) + slack, which does vanish.

    Jaggi, "Revisiting Frank-Wolfe" (2013), Theorem 1. h_t <= (1 - g) h_{t-1} + g^2 C/2 + g slack
    with g = 2/(t + 1) keeps h_t below 2 C/(t + 2) + slack, C = 4 k^2/|Omega|.
    """
    return 8 * s.nuclear**2 / (s.seen * (rounds + 2)) + slack


def printed_empirical_risk(s: Regime, rounds: float) -> float:
    """Theorem 3.2: optimisation error plus the price of privacy after `rounds` rounds.

    k^2/(|Omega| T) + k T^(1/4) L sqrt(sqrt(n log(1/delta)) log n)/(|Omega| sqrt(eps)), with one for
    the constant of its O(). It rests on Theorem A.1, and no constant makes it true for steps of
    1/T: where Y* is all ones and all seen, k = sqrt(m n), what is found has a nuclear norm of
    (1 - w) k at most, w = (1 - 1/T)^T, with the chance of `empirical_risk`. So the risk is w^2/2 or
    more, above 0.06 from T = 16 on, while with m growing, then T, what is printed vanishes. With
    the steps of `optimisation_decreasing` it does hold up to a constant.
    """
    noise = math.sqrt(math.sqrt(s.items * math.log(1 / s.delta)) * math.log(s.items))
    return printed_optimisation(s, rounds) + s.nuclear * math.pow(rounds, 0.25) * s.row * noise / (
        s.seen * math.sqrt(s.epsilon)
    )


def empirical_risk(s: Regime, rounds: int, scale: float) -> float:
    """Theorem 3.2 with constants, for steps of 1/T: holds with chance 2/3.

    scale: sigma of the Gaussian noise on a round's Gram matrix, which is averaged with its
    transpose. Its norm stays below e = sigma (sqrt(2 n) + sqrt(2 ln(6 T))) in all rounds, and a
    vector found in it, with the paper's addition a = sqrt(sigma ln(3 n)) n^(1/4) to the top
    singular value, has slack (k/|Omega|) (sqrt(e) + a): Lemma D.4 with numbers. It needs a^2 >= e,
    so that a step stays in the nuclear ball: true from 10 items on, for up to 1000 rounds.
    """
    norm = scale * (math.sqrt(2 * s.items) + math.sqrt(2 * math.log(6 * rounds)))
    added = math.sqrt(scale * math.log(3 * s.items)) * math.pow(s.items, 0.25)
    slack = s.nuclear / s.seen * (math.sqrt(norm) + added)
    return optimisation(s, rounds, slack)


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
    """Theorem 3.3: how far the Rayleigh quotient of Oja's vector stays below the top eigenvalue.

    sqrt(V/Gamma) + ||W||/Gamma, V = sigma^2 n for the private method and one for the constant. For
    steps of 1/sqrt(V Gamma), as the theorem has them; Algorithm 2 takes 1/(Gamma sigma sqrt(n)):
    all its steps together grow the leading direction e^(||W||/(sigma sqrt(n))) times, however many
    there are, and the gap stays.
    """
    return math.sqrt(variance / updates) + top / updates


def svd_risk(
    s: Regime, rank: float, incoherence: float, condition: float, spectral: float
) -> tuple[float, float]:
    """Theorem B.3 as (price of privacy, error of completion), with one for the constants.

    L^4 kappa^4 m^3 n^4 r Delta^2/(|Omega|^4 ||Y*||_2^2) with Delta^2 = 64 log(1/delta)/eps^2, and
    mu ||Y*||_2^2 r^2 log m/(n |Omega|). spectral: ||Y*||_2. Stated for the empirical risk, proved
    for the mean squared error of all entries.
    """
    spread = 64 * math.log(1 / s.delta) / s.epsilon**2
    cells = condition**4 * s.users**3 * s.items**4 * rank
    private = s.row**4 * cells * spread / (s.seen**4 * spectral**2)
    completion = incoherence * spectral**2 * rank**2 * math.log(s.users) / (s.items * s.seen)
    return private, completion


def incoherence(matrix: Factors, *, printed: bool = False) -> float:
    """Definition B.2, repaired: max(m/r max ||U U' e_i||^2, n/r max ||V V' f_j||^2) of a rank-r
    matrix, from 1 (flat) to max(m, n)/r (spiked).

    printed: without the squares, which makes it sqrt(m) for the flat rank-one matrix of Remark 5,
    where it is taken for O(1); Lemma B.4 uses it with them.
    """
    found: list[float] = []
    for side in (matrix.left, matrix.right):
        basis = np.linalg.qr(side)[0]
        longest = float(np.linalg.norm(basis, axis=1).max())
        found.append(len(basis) / basis.shape[1] * longest ** (1 if printed else 2))
    return max(found)


def low_rank_error(users: float, items: float) -> float:
    """Table 2, Private Frank-Wolfe: ||Y - Y*||_F ~ m^(3/10) n^(1/10), all seen, rows of norm 1."""
    return math.pow(users, 0.3) * math.pow(items, 0.1)


def rank_one_errors(users: float, items: float) -> tuple[float, float]:
    """Remark 6: (Frank-Wolfe n^(13/24)/m^(5/12), SVD n^2/m^2 + 1/sqrt(n)) for incoherent data.

    The first is as printed. The paper's own Corollary 3.1 gives n^(5/8)/m^(1/2) in the same setting
    (`generalisation`) and with it Remark 3's m > n^(5/4). What is printed is (m/n)^(1/12) times
    that: no contradiction while m >= n, as the paper assumes, only looser, and it would need m >
    n^(13/10).
    """
    frank_wolfe = math.pow(items, 13 / 24) / math.pow(users, 5 / 12)
    return frank_wolfe, (items / users) ** 2 + 1 / math.sqrt(items)


def users_needed(items: float) -> float:
    """Remark 3 and Table 1: the error vanishes once m grows faster than n^(5/4)."""
    return math.pow(items, 1.25)
