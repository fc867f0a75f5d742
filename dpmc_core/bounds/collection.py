"""How far reported ratings may lie from the truth: Theorem 3 and Equation 5 of Z16.

Z16: Zheng, "Two Differentially Private Rating Collection Mechanisms for Recommender Systems".
Each bound on rho = ||P(Theta - Z)||_F, over the reported cells, holds with chance 1 - gamma.
Ratings are in -1..1 for modified Laplace and in 1..d for randomised response.
"""

from __future__ import annotations

import math

from dpmc_core.errors import check_number


def modified_laplace_rho(
    epsilon: float,
    users: int,
    items: int,
    rated: float,
    *,
    intrinsic: float,
    gamma: float,
    tight: bool = False,
) -> float:
    """Theorem 3, modified Laplace: rho0 sqrt(s) + (4/eps) sqrt(s/gamma) + the spurious cells.

    rated: s, the number of rated cells (private: an estimate will do); intrinsic: rho0, the root
    mean square distance of a rating from the truth. Holds for truths in -1..1. tight: ours, with
    the expected squares of both kinds of reports under one root and neither counted too often.
    """
    _check(epsilon, users, items, rated, intrinsic, gamma)
    chance = 1 / (math.exp(min(epsilon / 2, 700.0)) + 1)
    noise = 8 / epsilon**2
    if tight:
        missing = users * items - rated
        squares = (1 - chance) * rated * noise + chance * missing * (1 + noise)
        return intrinsic * math.sqrt(rated) + math.sqrt(squares / gamma)
    genuine = 4 / epsilon * math.sqrt(rated / gamma)
    spurious = math.sqrt(2 * users * items * chance / gamma * (1 + noise))
    return intrinsic * math.sqrt(rated) + genuine + spurious


def randomised_response_rho(
    epsilon: float,
    users: int,
    items: int,
    rated: float,
    *,
    levels: int,
    intrinsic: float,
    gamma: float,
    tight: bool = False,
) -> float:
    """Theorem 3, randomised response: rho0 sqrt(s) + 2 (d-1) sqrt(2 m n d / ((e^eps + d) gamma)).

    levels: d, the number of different ratings; the rest as in `modified_laplace_rho`, for truths in
    1..d.
    """
    _check(epsilon, users, items, rated, intrinsic, gamma)
    check_number("levels", levels, at_least=2, integer=True)
    weight = math.exp(min(epsilon, 700.0)) + levels
    if tight:
        cells = (levels - 1) * rated + levels * (users * items - rated)
        return intrinsic * math.sqrt(rated) + (levels - 1) * math.sqrt(cells / (weight * gamma))
    changed = 2 * (levels - 1) * math.sqrt(2 * users * items * levels / (weight * gamma))
    return intrinsic * math.sqrt(rated) + changed


def recovery_error(rho: float, reported: float, constant: float = 1.0) -> float:
    """Equation 5: ||Theta^ - Theta||_F <= C0 p^(-1/2) rho, under restricted isometry.

    reported: p, the share of cells reported; constant: C0, which the paper leaves open. Its
    condition (Definition 4) asks that no matrix of low rank vanish on the reported cells. One that
    is zero but for a cell has rank one, so the condition fails as soon as a cell is not reported.
    """
    check_number("rho", rho, at_least=0)
    check_number("share of cells reported", reported, above=0, at_most=1)
    return constant * rho / math.sqrt(reported)


def _check(
    epsilon: float, users: int, items: int, rated: float, intrinsic: float, gamma: float
) -> None:
    check_number("epsilon", epsilon, above=0)
    check_number("users", users, at_least=1, integer=True)
    check_number("items", items, at_least=1, integer=True)
    check_number("rated", rated, at_least=0, at_most=users * items)
    check_number("intrinsic", intrinsic, at_least=0)
    check_number("gamma", gamma, above=0, at_most=1)
