"""How far reported ratings may lie from the truth: Theorem 3 and Equation 5 of Z16.

Z16: Zheng, "Two Differentially Private Rating Collection Mechanisms for Recommender Systems".
The bounds of Theorem 3 are settings of the mechanisms: `dpmc_core.mechanisms.collection`.
"""

from __future__ import annotations

import math

from dpmc_core.errors import check_number


def recovery_error(rho: float, reported: float, constant: float = 1.0) -> float:
    """Equation 5: ||Theta^ - Theta||_F <= C0 p^(-1/2) rho, under restricted isometry.

    reported: p, the share of cells reported; constant: C0, which the paper leaves open. Its
    condition (Definition 4) asks that no matrix of low rank vanish on the reported cells. One that
    is zero but for a cell has rank one, so the condition fails as soon as a cell is not reported.
    """
    check_number("rho", rho, at_least=0)
    check_number("share of cells reported", reported, above=0, at_most=1)
    return constant * rho / math.sqrt(reported)
