"""The bounds' shapes: exponents, optimal rounds, crossings."""

import itertools
import math

import numpy as np
import pytest

from dpmc_core.model import Factors
from dpmc_lab import papers
from dpmc_lab.papers.jtt18 import Regime, best_empirical_risk, price_of_privacy, rank_one
from tests.theory import jtt18 as bounds

pytestmark = pytest.mark.slow


def compute_slope(f, x, factor=1e3):
    return math.log(f(x * factor) / f(x)) / math.log(factor)


def test_incoherence_is_smallest_for_flat_and_largest_for_spiked_factors():
    """Definition B.2 as printed takes lengths for their squares."""
    flat = Factors(np.ones((50, 1)), np.ones((20, 1)))
    spiked = Factors(np.eye(50)[:, :1], np.ones((20, 1)))
    assert bounds.incoherence(flat) == pytest.approx(1)
    assert bounds.incoherence(spiked) == pytest.approx(50)
    assert bounds.incoherence(flat, printed=True) == pytest.approx(math.sqrt(50))
    assert bounds.incoherence(spiked, printed=True) == pytest.approx(50)


def test_table_2_follows_from_theorem_3_2():
    """Rows of norm one instead of sqrt(n), all seen: m^(3/10) n^(1/10) in the Frobenius norm."""

    def error(m, n):
        s = Regime(m, n, m * n, math.sqrt(m), 1.0, 1.0)
        return math.sqrt(m * n * best_empirical_risk(s))

    assert compute_slope(lambda m: error(m, 100), 1e6) == pytest.approx(3 / 10)
    assert compute_slope(lambda n: error(1e9, n), 1e2) == pytest.approx(1 / 10)
    ratio = error(3e6, 70) / bounds.printed_low_rank_error(3e6, 70)
    assert ratio == pytest.approx(error(1e9, 400) / bounds.printed_low_rank_error(1e9, 400))


def test_the_private_svd_row_of_table_2_follows_from_the_first_form_alone():
    """All seen, rank one, rows of norm 1; what the row hides: 64 ln(1/delta)/eps^2 and ln m."""

    def first_form(m, n, mu):
        size = Regime(m, n, m * n, math.sqrt(m), 1.0, epsilon=1.0)
        return m * n * bounds.svd_risk(size, mu, math.sqrt(m))

    hidden = 64 * math.log(1e6)  # above ln m here
    for m, n, mu in itertools.product((1e3, 1e5, 1e9), (10, 1e2, 1e3), (1, 4, 1e3)):
        row = bounds.low_rank_svd_error(m, n, mu) ** 2
        assert first_form(m, n, mu) <= hidden * row * (1 + 1e-9)
        error_bound = bounds.low_rank_svd_error(m, n, mu, printed=False) ** 2
        assert error_bound <= row * (1 + 1e-9)
        terms = hidden * n / m + math.log(m) * mu * m / n
        assert first_form(m, n, mu) == pytest.approx(terms)
    n = 1e12
    m, mu = n**1.5, n**0.25
    second = min(n, mu**2 * n**2 / m) + mu * m / n
    assert second > 100 * bounds.low_rank_svd_error(m, n, mu) ** 2
    (theorem,) = [
        statement
        for statement in papers.PAPERS["JTT18"].theorems
        if statement.theorem == "Table 2, Private SVD"
    ]
    assert theorem.measured <= theorem.bound


def test_the_best_rounds_balance_optimisation_and_noise():
    s = rank_one(1e6, 400, 1.0)
    best = bounds.best_rounds(s)
    # Where the derivative of a/T + b T^(1/4) vanishes, up to the constants and logs left out.
    grid = best * np.logspace(-3, 3, 601)
    best_rounds = grid[np.argmin([bounds.printed_empirical_risk(s, t) for t in grid])]
    assert 0.1 < best_rounds / best < 10
    risks = [rank_one(1e6, 400, e) for e in (1.0, 32.0)]
    assert bounds.best_rounds(risks[1]) / bounds.best_rounds(risks[0]) == pytest.approx(4)


def test_remark_six_and_what_privacy_costs_the_svd():
    # Remark 6 is printed; Corollary 3.1 in the same setting has other powers
    sizes = (1e9, 4e3), (1e9, 1e3)
    costs = [price_of_privacy(rank_one(*s, 1.0)) for s in sizes]
    assert costs[0] / costs[1] == pytest.approx(4 ** (5 / 8), rel=1e-5)
    printed = [bounds.rank_one_error(*s) for s in sizes]
    assert printed[0] / printed[1] == pytest.approx(4 ** (13 / 24))

    def price(users, epsilon=1.0):
        """Without the error of completion, which needs incoherence."""
        s = rank_one(users, 1e3, epsilon)
        return bounds.svd_risk(s, 0.0, math.sqrt(1e3 * users))

    assert price(1e7) / price(1e6) == pytest.approx(1e-2)  # n^2/m^2
    assert price(1e6, 2.0) / price(1e6) == pytest.approx(1 / 4)
    # with the completion's 1/sqrt(n) it is below the rank-one error on easy data
    assert (1e3 / 1e6) ** 2 + 1 / math.sqrt(1e3) < bounds.rank_one_error(1e6, 1e3)


def test_oja_gains_from_updates_and_frank_wolfe_from_rounds():
    assert bounds.oja_gap(10.0, 4.0, 4) == pytest.approx(1 + 2.5)
    s = rank_one(1e4, 100, 1.0)
    for bound in (bounds.printed_optimisation, bounds.optimisation_decreasing):
        assert bound(s, 2e6) == pytest.approx(bound(s, 1e6) / 2, rel=1e-5)
    left = bounds.optimisation(s, 1e9) * s.seen / s.nuclear**2
    assert left == pytest.approx(1 / (2 * math.e), rel=1e-6)  # steps of 1/T never lose the start
