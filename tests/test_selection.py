"""The price of a private choice, as a ledger of old notes it, against outputs worked out one by
one."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from dpmc_core.lab.study.ledger import _ORDERS, Selection, renyi
from dpmc_core.privacy import Loss
from dpmc_core.privacy.accounting import gaussian_epsilon, gaussian_mu

LONG = 50_000  # terms of a distribution: what is left out is below any rounding


def chances(mean, eta):
    """P[K = 1], P[K = 2], ... of the truncated negative binomial distribution with this mean."""
    k = np.arange(LONG)

    def law(gamma):
        # the chance of k + 1 beside that of k: (1 - gamma) (k + eta) / (k + 1)
        ratios = (1 - gamma) * (k[1:] + eta) / (k[1:] + 1)
        found = np.exp(np.concatenate([[0.0], np.cumsum(np.log(ratios))]))
        return found / found.sum()

    gamma = optimize.brentq(lambda g: law(g) @ (k + 1) - mean, 1e-3 / mean, 1 - 1e-12, xtol=1e-16)
    return law(gamma)


def generating(found, s):
    """E[s^K], term by term."""
    return float(found @ np.power(s, np.arange(1, len(found) + 1)))


def best(mean, eta, channel):
    """The exact law of the best of K draws from each row; outputs are ordered from worst to best.

    The best is at most an output where all draws are.
    """
    rows, found = [], chances(mean, eta)
    for row in channel:
        below = [generating(found, s) for s in np.minimum(np.cumsum(row), 1.0)]
        rows.append(np.diff([0.0, *below]))
    return np.array(rows)


def worst_for_the_choice(epsilon, rare=1e-4):
    """Rows that differ by epsilon: a rare output rises while all that beats it falls."""
    high = 1 / (1 + math.exp(epsilon))
    one = [0.0, rare * math.exp(epsilon), high]
    other = [0.0, rare, high * math.exp(epsilon)]
    for row in (one, other):
        row[0] = 1 - sum(row)
    logs = np.abs(np.log(np.array(one) / np.array(other)))
    assert logs.max() <= epsilon * (1 + 1e-9)
    return np.array([one, other])


def test_divergences_are_those_of_the_worst_mechanisms():
    orders = np.array([1.5, 2.0, 8.0])
    epsilon, mu = 0.7, 0.4
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    flips = np.array([[p, 1 - p], [1 - p, p]])
    for order, found in zip(orders, renyi(Loss(epsilon), orders), strict=True):
        direct = math.log(float((flips[0] ** order * flips[1] ** (1 - order)).sum())) / (order - 1)
        assert found == pytest.approx(direct, rel=1e-12)
    for order, found in zip(orders, renyi(Loss(mu=mu), orders), strict=True):
        density = lambda x, a=order: (  # noqa: E731
            math.exp(a * stats.norm.logpdf(x, mu) + (1 - a) * stats.norm.logpdf(x))
        )
        direct = math.log(integrate.quad(density, -20, 40)[0]) / (order - 1)
        assert found == pytest.approx(direct, rel=1e-9)
    both = renyi(Loss(epsilon, mu), orders)
    assert both == pytest.approx(renyi(Loss(epsilon), orders) + renyi(Loss(mu=mu), orders))


@pytest.mark.parametrize("eta", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_pure_price_holds_and_is_reached(epsilon, eta):
    """2 + eta times epsilon: three for the geometric number of Liu and Talwar."""
    priced = Selection(1000.0, eta, (Loss(epsilon),)).pure
    assert priced == pytest.approx((2 + eta) * epsilon)
    law = best(1000.0, eta, worst_for_the_choice(epsilon))
    spent = float(np.abs(np.log(law[0] / law[1])).max())
    assert 0.97 * priced < spent <= priced * (1 + 1e-9)


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_every_divergence_of_the_output_stays_below_its_bound(eta):
    mean, epsilon = 5.0, 0.5
    bounds = Selection(mean, eta, (Loss(epsilon),)).renyi()
    flip = 1 / (1 + math.exp(epsilon))
    for channel in (worst_for_the_choice(epsilon), [[1 - flip, flip], [flip, 1 - flip]]):
        law = best(mean, eta, channel)
        for one, other in (law, law[::-1]):
            for order, bound in list(zip(_ORDERS, bounds, strict=True))[::250]:
                if order > 500:
                    break
                logs = order * np.log(one) + (1 - order) * np.log(other)
                assert np.logaddexp.reduce(logs) / (order - 1) <= bound * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "mean"), [(1.0, 10.0), (4.0, 3.0)])
def test_the_best_of_gaussian_scores_spends_no_more_than_its_price(epsilon, mean):
    """delta of the largest of K Gaussian scores, integrated; E[s^K] of the geometric number."""
    delta, gamma = 1e-6, 1 / mean
    mu = gaussian_mu(epsilon, delta)
    price = Selection(mean, 1.0, (Loss(mu=mu),)).epsilon_at(delta)

    def density(x, shift):
        above = stats.norm.sf(x, shift)
        return stats.norm.pdf(x, shift) * gamma / (gamma + (1 - gamma) * above) ** 2

    for one, other in ((0.0, mu), (mu, 0.0)):
        x = np.linspace(-12, 20, 400_001)
        excess = np.maximum(density(x, one) - math.exp(price) * density(x, other), 0)
        assert integrate.trapezoid(excess, x) <= delta


@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-3])
@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_the_dearest_candidate_sets_the_price(delta, eta):
    """Whichever is drawn, and in whatever order they stand."""
    for cheap, dear in (
        (Loss(0.1), Loss(1.0)),
        (Loss(0.1), Loss(mu=1.0)),
        (Loss(), Loss(0.1, 0.1)),
    ):
        price = Selection(5.0, eta, (dear,)).epsilon_at(delta)
        for both in ((cheap, dear), (dear, cheap)):
            assert Selection(5.0, eta, both).epsilon_at(delta) == price


def test_the_best_of_ten_costs_less_than_publishing_ten():
    """The figures that are promised: 2.15 where publishing all costs 3.52."""
    mu = gaussian_mu(1.0, 1e-6)
    best_of = {eta: Selection(10.0, eta, (Loss(mu=mu),)).epsilon_at(1e-6) for eta in (0.0, 1.0)}
    assert round(best_of[1.0], 2) == 2.15
    assert best_of[0.0] < best_of[1.0]
    assert round(gaussian_epsilon(mu * math.sqrt(10), 1e-6), 2) == 3.52


def test_one_run_is_no_choice():
    assert Selection(1.0, 1.0, (Loss(0.3),)).epsilon_at(0.0) == 0.3
    assert Selection(6.0, 1.0, (Loss(mu=0.3),)).epsilon_at(0.0) == math.inf
    assert Selection(6.0, 1.0, (Loss(math.inf),)).epsilon_at(1e-6) == math.inf
