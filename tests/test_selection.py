"""The price of a private choice against outputs worked out one by one.

The only statistical test raises a false alarm once in a million runs.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from dpmc_core.errors import InvalidSetting
from dpmc_core.privacy import Loss
from dpmc_core.privacy.accounting import gaussian_epsilon, gaussian_mu
from dpmc_core.privacy.selection import _ORDERS, RandomRuns, Selection, renyi
from tests.statistics_helpers import assert_frequencies

LONG = 50_000  # terms of a distribution: what is left out is below any rounding


def chances(runs):
    return np.array(list(itertools.islice(runs.chances(), LONG)))


def generating(runs, s):
    """E[s^K], term by term."""
    found = chances(runs)
    return float(found @ np.power(s, np.arange(1, len(found) + 1)))


def best(runs, channel):
    """The exact law of the best of K draws from each row; outputs are ordered from worst to best.

    The best is at most an output where all draws are.
    """
    rows = []
    for row in channel:
        below = [generating(runs, s) for s in np.minimum(np.cumsum(row), 1.0)]
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


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("mean", [1.0, 2.0, 10.0, 300.0])
def test_the_number_of_runs_has_its_mean(mean, eta):
    found = chances(RandomRuns(mean=mean, eta=eta))
    assert found.sum() == pytest.approx(1, abs=1e-9)
    assert found @ np.arange(1, len(found) + 1) == pytest.approx(mean, rel=1e-8)


def test_runs_are_drawn_by_their_chances():
    runs, draws = RandomRuns(mean=4.0, eta=1.0), 20_000
    rng = np.random.default_rng(5)
    drawn = np.bincount([runs.draw(rng) for _ in range(draws)], minlength=13)[1:]
    first = chances(runs)[:12]
    assert_frequencies([*drawn[:12], draws - drawn[:12].sum()], [*first, 1 - first.sum()])


@pytest.mark.parametrize("mean", [0.5, math.inf, math.nan])
def test_an_impossible_number_of_runs_is_refused(mean):
    with pytest.raises(InvalidSetting, match="expected number of runs"):
        RandomRuns(mean=mean)


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
    priced = Selection(RandomRuns(mean=1000.0, eta=eta), (Loss(epsilon),)).pure
    assert priced == pytest.approx((2 + eta) * epsilon)
    law = best(RandomRuns(mean=1000.0, eta=eta), worst_for_the_choice(epsilon))
    spent = float(np.abs(np.log(law[0] / law[1])).max())
    assert 0.97 * priced < spent <= priced * (1 + 1e-9)


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_every_divergence_of_the_output_stays_below_its_bound(eta):
    runs, epsilon = RandomRuns(mean=5.0, eta=eta), 0.5
    bounds = Selection(runs, (Loss(epsilon),)).renyi()
    flip = 1 / (1 + math.exp(epsilon))
    for channel in (worst_for_the_choice(epsilon), [[1 - flip, flip], [flip, 1 - flip]]):
        law = best(runs, channel)
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
    price = Selection(RandomRuns(mean=mean), (Loss(mu=mu),)).epsilon_at(delta)

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
    runs = RandomRuns(mean=5.0, eta=eta)
    for cheap, dear in (
        (Loss(0.1), Loss(1.0)),
        (Loss(0.1), Loss(mu=1.0)),
        (Loss(), Loss(0.1, 0.1)),
    ):
        price = Selection(runs, (dear,)).epsilon_at(delta)
        for both in ((cheap, dear), (dear, cheap)):
            assert Selection(runs, both).epsilon_at(delta) == price


def test_the_best_of_ten_costs_less_than_publishing_ten():
    """The figures that are promised: 2.15 where publishing all costs 3.52."""
    mu = gaussian_mu(1.0, 1e-6)
    best_of = {
        eta: Selection(RandomRuns(mean=10.0, eta=eta), (Loss(mu=mu),)).epsilon_at(1e-6)
        for eta in (0.0, 1.0)
    }
    assert round(best_of[1.0], 2) == 2.15
    assert best_of[0.0] < best_of[1.0]
    assert round(gaussian_epsilon(mu * math.sqrt(10), 1e-6), 2) == 3.52


def test_one_run_is_no_choice():
    alone = RandomRuns(mean=1.0)
    assert Selection(alone, (Loss(0.3),)).epsilon_at(0.0) == 0.3
    assert chances_of_one(alone) == [1.0]
    runs, mu = RandomRuns(mean=6.0), 0.3
    assert Selection(runs, (Loss(mu=mu),)).epsilon_at(0.0) == math.inf
    assert Selection(runs, (Loss(math.inf),)).epsilon_at(1e-6) == math.inf


def chances_of_one(runs):
    return list(itertools.islice(runs.chances(), 5))
