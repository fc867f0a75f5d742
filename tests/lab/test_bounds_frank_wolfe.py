"""The bounds' shapes: exponents, optimal rounds, crossings."""

import math

import pytest

from dpmc_lab import papers
from tests.theory import jtt18 as bounds
from tests.theory.jtt18 import Regime, best_empirical_risk, price_of_privacy, rank_one

pytestmark = pytest.mark.slow


def compute_slope(f, x, factor=1e3):
    return math.log(f(x * factor) / f(x)) / math.log(factor)


def test_table_2_follows_from_theorem_3_2():
    """Rows of norm one instead of sqrt(n), all seen: m^(3/10) n^(1/10) in the Frobenius norm."""

    def error(m, n):
        s = Regime(m, n, m * n, math.sqrt(m), 1.0, 1.0)
        return math.sqrt(m * n * best_empirical_risk(s))

    assert compute_slope(lambda m: error(m, 100), 1e6) == pytest.approx(3 / 10)
    assert compute_slope(lambda n: error(1e9, n), 1e2) == pytest.approx(1 / 10)
    ratio = error(3e6, 70) / bounds.printed_low_rank_error(3e6, 70)
    assert ratio == pytest.approx(error(1e9, 400) / bounds.printed_low_rank_error(1e9, 400))


def test_the_powers_in_the_tables_are_those_of_the_bounds():
    for name, powers in (
        ("1", [bounds.users_needed()]),
        ("2", bounds.growth(bounds.low_rank_error)),
    ):
        recipe = papers.find_experiment(f"jtt18-table-{name}")[1].recipe
        ((key, make),) = recipe.list_runs().items()
        (curve,) = recipe.build_series({key: make()})
        assert curve.mean == pytest.approx(powers, rel=1e-6)


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
