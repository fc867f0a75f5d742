"""The bounds' shapes: exponents, optimal rounds, crossings."""

import itertools
import math

import numpy as np
import pytest

from dpmc_core.model import Factors
from dpmc_lab import papers
from dpmc_lab.papers.jtt18 import Regime, best_empirical_risk
from tests.theory import jtt18 as bounds

pytestmark = pytest.mark.slow


def slope(f, x, factor=1e3):
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

    assert slope(lambda m: error(m, 100), 1e6) == pytest.approx(3 / 10)
    assert slope(lambda n: error(1e9, n), 1e2) == pytest.approx(1 / 10)
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
        bare = bounds.low_rank_svd_error(m, n, mu, printed=False) ** 2
        assert bare <= row * (1 + 1e-9)
        terms = hidden * n / m + math.log(m) * mu * m / n
        assert first_form(m, n, mu) == pytest.approx(terms)
    n = 1e12
    m, mu = n**1.5, n**0.25
    second = min(n, mu**2 * n**2 / m) + mu * m / n
    assert second > 100 * bounds.low_rank_svd_error(m, n, mu) ** 2
    (told,) = [
        one for one in papers.PAPERS["JTT18"].theorems if one.theorem == "Table 2, Private SVD"
    ]
    assert told.measured <= told.bound
