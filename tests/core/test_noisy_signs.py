"""The noise-aware one-bit estimator: its channels, what it learns, and what it may see."""

import math

import numpy as np
import pytest
from scipy import stats

from dpmc_core import registry
from dpmc_core.model import Estimator
from dpmc_core.privacy import RATING, RandomizedResponse
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers import noisy_reports as noisy_signs
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.noisy_reports import UserItemEffects
from dpmc_core.solvers.one_bit import SignReports, clipped_information
from tests.replay import fit_model, predict_all

IDS = ("input-flip", "objective", "objective-statistic")
EPSILONS = (0.01, 0.1, 1.0, 3.0, 10.0, 50.0)


def make_ratings(users, items, values, shape):
    public = PublicFacts(users=shape[0], items=shape[1], low=-1, high=1)
    return Ratings.build(users, items, values, public)


def draw_signs(seed=0, shape=(150, 120), share=0.4, user=0.3, item=0.3, low_rank=0.0, mean=0.1):
    """Signs with P(+1) = (1 + truth)/2, and the whole matrix of truths; a random pattern."""
    rng = np.random.default_rng(seed)
    m, n = shape
    truth = mean + user * rng.normal(size=(m, 1)) + item * rng.normal(size=n)
    truth = truth + low_rank * rng.normal(size=(m, 1)) * rng.normal(size=n)
    truth = np.clip(truth, -0.95, 0.95)
    users, items = np.nonzero(rng.random(shape) < share)
    signs = np.where(rng.random(len(users)) < (1 + truth[users, items]) / 2, 1.0, -1.0)
    return make_ratings(users, items, signs, shape), truth


def fit_scores(mechanism, ratings, seed=0):
    return predict_all(fit_model(mechanism, ratings, seed), ratings.shape)


# --- the channels, exactly ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plus", "minus"), [(0.3, 0.3), (0.05, 0.05), (0.35, 0.1), (0.0, 0.4), (0.8, 0.7)]
)
def test_debiased_flips_have_the_sign_as_mean_and_the_stated_second_moment(plus, minus):
    """By enumeration, also where the sign is flipped more often than not."""
    up, down = SignReports.from_flipped_signs(np.array([1.0, 0.0]), plus, minus).values
    chances = {1: (1 - plus, plus), -1: (minus, 1 - minus)}
    for sign, (of_up, of_down) in chances.items():
        assert of_up * up + of_down * down == pytest.approx(sign)
    # The second moment of a population whose debiased mean is exact.
    share = 0.3
    positive_rate = share * chances[1][0] + (1 - share) * chances[-1][0]
    flipped = (np.arange(100_000) < positive_rate * 100_000).astype(float)
    second = positive_rate * up**2 + (1 - positive_rate) * down**2
    assert SignReports.from_flipped_signs(flipped, plus, minus).second_moment == pytest.approx(
        second, rel=1e-3
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_clipped_laplace_has_the_sign_as_mean_and_the_stated_second_moment(epsilon):
    """By quadrature, with the atoms at 0 and 1."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    powers = np.array([1, 2])
    edge = min(0.5, 40 / epsilon)  # further in, the density is nothing
    for bit in (0, 1):
        distribution = stats.laplace(loc=bit, scale=1 / epsilon)
        atoms = SignReports.from_laplace(np.array([-1.0, 2.0]), epsilon).values
        moments = distribution.cdf(0) * atoms[0] ** powers + distribution.sf(1) * atoms[1] ** powers
        for low in (0.0, 1 - edge):
            z = low + edge * (nodes + 1) / 2
            x = SignReports.from_laplace(z, epsilon).values
            moments += [np.sum(edge / 2 * weights * distribution.pdf(z) * x**k) for k in powers]
        assert moments[0] == pytest.approx(2 * bit - 1, rel=1e-6)
        assert moments[1] == pytest.approx(1 / clipped_information(epsilon), rel=1e-6)


# --- what it learns -------------------------------------------------------------------------------


@pytest.mark.slow
def test_effect_variances_maximise_the_marginal_likelihood():
    """Against the whole covariance matrix of a small problem, on a grid of both variances."""
    rng = np.random.default_rng(3)
    m, n, noise = 20, 18, 4.0
    users, items = np.nonzero(rng.random((m, n)) < 0.7)
    a, b = rng.normal(size=m), 0.7 * rng.normal(size=n)
    x = a[users] + b[items] + math.sqrt(noise) * rng.normal(size=len(users))
    pattern = Pattern.from_ratings(make_ratings(users, items, np.ones(len(users)), (m, n)))
    same_user = (users[:, None] == users).astype(float)
    same_item = (items[:, None] == items).astype(float)
    grid = np.exp(np.linspace(math.log(0.05), 0.0, 6))

    def evidence(of_users, of_items):
        covariance = noise * np.eye(len(x)) + of_users * same_user + of_items * same_item
        prior = sum(math.log(t / noisy_signs._SIGN_EFFECT) ** 2 for t in (of_users, of_items)) / 2
        _, logdet = np.linalg.slogdet(covariance)
        return -(logdet + x @ np.linalg.solve(covariance, x)) / 2 - prior

    attained = evidence(*UserItemEffects.estimate(pattern, x, noise).variance)
    assert attained >= max(evidence(s, t) for s in grid for t in grid) - 0.5


# --- what it may see ------------------------------------------------------------------------------


@pytest.mark.parametrize("id", IDS)
def test_either_estimator_has_the_same_releases_and_certificate(id):
    public = draw_signs(0)[0].public
    guarantees = [
        registry.create(id, epsilon=0.7, estimator=estimator).guarantee(public)
        for estimator in Estimator
    ]
    first, second = (dict(guarantee.releases) for guarantee in guarantees)
    assert first == second
    for guarantee in guarantees:
        assert guarantee.certified(RATING).epsilon == pytest.approx(0.7, abs=1e-12)
    assert any("who rated what" in caveat for caveat in guarantees[0].caveats)
    assert not any("who rated what" in caveat for caveat in guarantees[1].caveats)


def test_the_channel_is_read_off_the_card():
    """Flips of the release itself debias: other flips on the card, other reports."""
    ratings, _ = draw_signs(0)
    mechanism = registry.create("input-flip", epsilon=1.5, p_plus=0.3, p_minus=0.25)
    releases = mechanism.guarantee(ratings.public).releases
    assert isinstance(releases.signs, RandomizedResponse)
    flipped, reports = releases.publish_reports(ratings, np.random.default_rng(0))
    assert np.allclose(reports.values, (2 * flipped - 1 + 0.3 - 0.25) / 0.45)


# --- edges ----------------------------------------------------------------------------------------


EDGES = {
    "one user": (np.zeros(9, int), np.arange(9), np.tile([1.0, -1.0, 1.0], 3), (1, 9)),
    "one item": (np.arange(9), np.zeros(9, int), np.tile([1.0, -1.0, 1.0], 3), (9, 1)),
    "one rating": ([0], [0], [1.0], (1, 1)),
    "two by two": ([0, 0, 1], [0, 1, 1], [1.0, -1.0, 1.0], (2, 2)),
    "all alike": (*np.nonzero(np.ones((12, 8))), np.ones(96), (12, 8)),
    "empty rows": ([2, 2, 5], [1, 3, 3], [1.0, -1.0, -1.0], (9, 7)),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", EDGES)
@pytest.mark.parametrize("id", [*IDS, "private-majority", "reference-binary"])
def test_edges_give_finite_scores(id, case):
    ratings = make_ratings(*EDGES[case])
    for epsilon in (0.01, 50.0):
        assert np.isfinite(fit_scores(registry.create(id, epsilon=epsilon), ratings)).all()
