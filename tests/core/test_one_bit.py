"""The four perturbations: their noise, their cards, and where a paper's claim does not hold."""

import math

import numpy as np
import pytest
from scipy import stats

from dpmc_core import registry
from dpmc_core.errors import InvalidSetting
from dpmc_core.links import LOGISTIC, Probit
from dpmc_core.mechanisms.one_bit import InputLoss, OutputBound
from dpmc_core.model import Estimator
from dpmc_core.privacy import CELL, RATING, ROW_VALUES, USER_EMPTIED, USER_REPLACED, Calibration
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.one_bit import Completion
from tests.replay import fit_model, predict_all, record_fit
from tests.statistics_helpers import (
    FALSE_ALARM,
    assert_drawn_from,
    assert_frequencies,
    assert_independent,
)

USERS, ITEMS = 60, 50
EPSILON = 1.5
PUBLISHED = {"estimator": Estimator.PUBLISHED}
PROBIT = {"link": Probit(), "bound": 1.0} | PUBLISHED  # as published, on the raw loss


def draw_signs(seed=0, share=0.5):
    rng = np.random.default_rng(seed)
    truth = 2 * rng.normal(size=(USERS, 2)) @ rng.normal(size=(2, ITEMS))
    users, items = np.nonzero(rng.random((USERS, ITEMS)) < share)
    values = np.where(truth[users, items] > 0, 1.0, -1.0)
    public = PublicFacts(users=USERS, items=ITEMS, low=-1, high=1)
    return Ratings.build(users, items, values, public)


RATINGS = draw_signs()

# The scale each method owes, written from its theorem and not from its card.
ADDITIVE = {
    "objective": ({}, 1 / EPSILON, 1),
    "objective-probit": (PROBIT, 1.8127 / EPSILON, 1),
    "objective-statistic": ({}, 1 / EPSILON, 1),
    "gradient": ({"rounds": 3, "clamp": 0.5} | PUBLISHED, 3 * 1 / EPSILON, 3),
    "gradient-aware": ({"clamp": 0.5}, 1 / EPSILON, 1),
    "gradient-flat": ({"clamp": 0.5, "link": Probit(2.0)}, 0.79788456 / EPSILON, 1),
    "gradient-narrow": ({"rounds": 2, "clamp": 0.2} | PUBLISHED, 2 * 0.4 / EPSILON, 2),
    "gradient-probit": ({"rounds": 2, "clamp": 2.0, "link": Probit()} | PUBLISHED, 8 / EPSILON, 2),
    "output": ({"bound": 0.3}, 2 * 0.3 / EPSILON, 1),
}


def make(case, **changes):
    id = case if case in registry.MECHANISMS else case.rsplit("-", 1)[0]
    return registry.create(id, **({"epsilon": EPSILON} | ADDITIVE[case][0] | changes))


def record_noise(mechanism, seed=1):
    """What each publication of a real run added, in order."""
    return [p.published - p.private for p in record_fit(mechanism, RATINGS, seed)]


def assert_noise(case, added):
    """False alarm per call: 2 FALSE_ALARM over all publications."""
    _, scale, times = ADDITIVE[case]
    assert len(added) == times
    for values in added:
        assert_drawn_from(values, stats.laplace(scale=scale).cdf, FALSE_ALARM / times)
        flat = values.ravel()[: values.size // 2 * 2]
        assert_independent(flat.reshape(-1, 2), FALSE_ALARM / times)


@pytest.mark.parametrize("case", ADDITIVE)
def test_every_round_of_a_run_adds_the_noise_its_theorem_asks_for(case):
    assert_noise(case, record_noise(make(case)))


@pytest.mark.slow
@pytest.mark.parametrize(("plus", "minus"), [(None, None), (0.3, 0.2)])
def test_flips_happen_as_often_as_stated(plus, minus):
    chances = {"p_plus": plus, "p_minus": minus}
    mechanism = registry.create("input-flip", epsilon=EPSILON, iterations=1, **PUBLISHED, **chances)
    flip = 1 / (1 + math.exp(EPSILON))
    flipped = {1: [0, 0], 0: [0, 0]}
    for seed in range(20):
        publication = record_fit(mechanism, RATINGS, seed)[0]
        private, published = publication.private, publication.published
        for sign in (0, 1):
            mask = private == sign
            flipped[sign][0] += int((published[mask] != sign).sum())
            flipped[sign][1] += int((published[mask] == sign).sum())
    for sign, p in ((1, plus or flip), (0, minus or flip)):
        assert_frequencies(flipped[sign], [p, 1 - p])


@pytest.mark.parametrize(("epsilon", "settings"), [(0.8, {}), (20.0, {}), (20.0, PUBLISHED)])
@pytest.mark.parametrize("id", ["input-flip", "objective", "objective-statistic", "gradient"])
def test_claimed_is_certified_per_rating_and_nothing_per_user(id, epsilon, settings):
    """From epsilon 10 on, gradient as published takes several rounds, which share the budget."""
    guarantee = registry.create(id, epsilon=epsilon, **settings).guarantee(RATINGS.public)
    assert guarantee.claimed.epsilon == epsilon
    assert guarantee.certified().epsilon == pytest.approx(epsilon)
    assert guarantee.certified(ROW_VALUES).epsilon == pytest.approx(epsilon * ITEMS)
    for unit in (CELL, USER_EMPTIED):
        assert math.isinf(guarantee.certified(unit).epsilon)
        assert "public" in guarantee.certified(unit).reason


def test_asymmetric_flips_can_cost_more_than_the_theorem_claims():
    """p = (0.9, 0.5) meets the condition of Theorem 1 at epsilon 0.7; the channel is worth ln 5."""
    mechanism = registry.create("input-flip", epsilon=0.7, p_plus=0.9, p_minus=0.5)
    guarantee = mechanism.guarantee(RATINGS.public)
    assert guarantee.claimed.epsilon == 0.7
    assert guarantee.certified().epsilon == pytest.approx(math.log(5))


def test_probit_objective_is_claimed_but_not_certified():
    mechanism = registry.create("objective", epsilon=1.0, **PROBIT)
    guarantee = mechanism.guarantee(RATINGS.public)
    assert guarantee.claimed.epsilon == 1.0
    assert math.isinf(guarantee.certified().epsilon)
    assert "gradient to zero" in guarantee.certified().reason
    for id in ("objective", "objective-statistic"):  # whose noise-aware estimators need no link
        other = registry.create(id, epsilon=1.0, link=Probit())
        assert other.guarantee(RATINGS.public).certified().epsilon == pytest.approx(1.0)


@pytest.mark.parametrize(("bound", "radius"), [(0.1, 0.7), (1.0, 0.05)])
def test_output_certificate_is_the_diameter_of_what_it_publishes(bound, radius):
    mechanism = registry.create("output", epsilon=2.0, bound=bound, radius=radius)
    guarantee = mechanism.guarantee(RATINGS.public)
    cells = USERS * ITEMS
    expected = min(2 * bound * cells, 2 * radius * cells) * 2.0 / (2 * bound)
    for change in (RATING, CELL, USER_REPLACED):
        assert guarantee.certified(change).epsilon == pytest.approx(expected)


@pytest.mark.parametrize("output_bound", OutputBound)
def test_output_publishes_nothing_outside_its_diameter(output_bound):
    """Signs that want to be far outside the bound and are all alike, and a loose solver: what goes
    in is held to the bound and to half the diameter.
    Planted bugs: no clip; no scaling (the sum of `solver` is then 0.8 % too large)."""
    rng = np.random.default_rng(2)
    mask = rng.random((30, 20)) < 0.5
    mask[:15] = True
    users, items = np.nonzero(mask)
    public = PublicFacts(users=30, items=20, low=-1, high=1)
    data = Ratings.build(users, items, np.ones(len(users)), public)
    for bound, radius in ((0.707, 0.7), (0.1, 0.7)):
        mechanism = registry.create(
            "output", epsilon=1.0, bound=bound, radius=radius, tolerance=0.1, within=output_bound
        )
        release = mechanism.guarantee(public).releases.matrix
        private = record_fit(mechanism, data, 1)[0].private
        diameter = release.sensitivity[RATING]
        assert 0.95 * bound <= np.abs(private).max() <= bound
        assert 2 * np.abs(private).sum() <= diameter * (1 + 1e-12)


@pytest.mark.parametrize("link", [LOGISTIC, Probit()], ids=str)
@pytest.mark.parametrize("clamp", [0.2, 0.5, 3.0])
@pytest.mark.parametrize("estimator", Estimator)
def test_gradient_sensitivity_bounds_every_flip(link, clamp, estimator):
    """At any score; the noise-aware estimator asks at zero alone."""
    from dpmc_core.solvers.one_bit import likelihood_loss

    aware = estimator is Estimator.NOISE_AWARE
    x = np.zeros(1) if aware else np.linspace(-6, 6, 2001)
    negative, positive = (likelihood_loss(link, np.full_like(x, s))(x)[1] for s in (0.0, 1.0))
    distance = np.abs(np.clip(negative, -clamp, clamp) - np.clip(positive, -clamp, clamp)).max()
    settings = {"rounds": 1, "clamp": clamp, "link": link, "estimator": estimator}
    mechanism = registry.create("gradient", epsilon=1.0, **settings)
    release = mechanism.guarantee(RATINGS.public).releases.gradient
    stated = release.sensitivity[RATING]
    assert distance <= stated * (1 + 1e-12)
    if aware or link == LOGISTIC:
        assert distance >= 0.99 * stated


@pytest.mark.parametrize("clamp", [0.2, 0.6])
@pytest.mark.parametrize("estimator", Estimator)
def test_gradients_are_clamped_before_the_noise(clamp, estimator):
    """At zero every logistic gradient is 1/2 in size; later rounds reach further."""
    options = {"rounds": 4, "radius": 5.0, "clamp": clamp, "estimator": estimator}
    mechanism = registry.create("gradient", epsilon=5.0, **options)
    sizes = [np.abs(publication.private).max() for publication in record_fit(mechanism, RATINGS)]
    reached = clamp if estimator is Estimator.PUBLISHED else min(clamp, 0.5)
    assert max(sizes) == pytest.approx(reached, rel=1e-15)  # and never passed


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"link": Probit(2.0)}, {"clamp": 0.1}, {"radius": 9.0}])
def test_settings_of_the_published_gradients_leave_the_noise_aware_estimate_alone(settings):
    """Whatever the size of a gradient at zero, noise in proportion hides its sign as well."""
    default, changed = (
        predict_all(fit_model(registry.create("gradient", epsilon=2.0, **s), RATINGS, 4), (60, 50))
        for s in ({}, settings)
    )
    assert np.allclose(default, changed, rtol=1e-6)


FULL_RATINGS = Ratings.build(
    *np.nonzero(np.ones((200, 300))),
    np.where(np.random.default_rng(4).random(60_000) < 1 / (1 + math.exp(-0.8)), 1.0, -1.0),
    PublicFacts(users=200, items=300, low=-1, high=1),
)


@pytest.fixture
def loss_of(monkeypatch):
    """The loss that a mechanism's fit on FULL_RATINGS hands to the solver."""

    def capture_loss(mechanism, seed=0):
        losses = []
        monkeypatch.setattr(
            Completion, "solve", lambda _, loss, *__, **___: losses.append(loss) or iter(())
        )
        list(mechanism.fit(FULL_RATINGS, np.random.default_rng(seed)))
        return losses[0]

    return capture_loss


def assert_mean(values, truth):
    """Five standard errors: false alarm below 1e-6."""
    assert abs(values.mean() - truth) <= 5 * values.std() / math.sqrt(values.size)


UNBIASED = {
    "input-flip": {"p_plus": 0.35, "p_minus": 0.2, "loss": InputLoss.UNBIASED, "epsilon": 2.0},
    "objective": {"epsilon": 0.7},
    "objective-statistic": {"epsilon": 0.7, "debias": True},
}


@pytest.mark.parametrize("id", UNBIASED)
@pytest.mark.parametrize("x", [-1.0, 0.5])
def test_unbiased_losses_have_the_clean_gradient_on_average(id, x, loss_of):
    """For each true sign on its own. Planted bugs: wrong debiasing, no clip before it."""
    _, gradient = loss_of(registry.create(id, **UNBIASED[id], **PUBLISHED))(
        np.full(len(FULL_RATINGS), x)
    )
    for sign in (1.0, -1.0):
        mask = FULL_RATINGS.values == sign
        assert_mean(gradient[mask], 1 / (1 + math.exp(-x)) - (sign > 0))


@pytest.mark.parametrize("flips", [(None, None), (0.3, 0.1), (0.1, 0.3)])
def test_the_likelihood_of_flipped_signs_is_flat_at_the_truth(flips, loss_of):
    """Signs drawn at score 0.8 and flipped: the expected score function is zero there, and only
    with each flip in its own place."""
    plus, minus = flips
    mechanism = registry.create("input-flip", epsilon=2.3, p_plus=plus, p_minus=minus, **PUBLISHED)
    _, gradient = loss_of(mechanism)(np.full(len(FULL_RATINGS), 0.8))
    assert_mean(gradient, 0.0)


def test_the_statistic_is_clipped_to_labels(loss_of):
    """The logistic gradient is h(x) - label: labels stay in [0, 1], with the mean on the card."""
    mechanism = registry.create("objective-statistic", epsilon=0.7, **PUBLISHED)
    _, gradient = loss_of(mechanism)(np.zeros(len(FULL_RATINGS)))
    labels = 0.5 - gradient
    assert labels.min() == 0
    assert labels.max() == 1
    assert_mean(labels[FULL_RATINGS.values < 0], mechanism.clipping_bias)
    assert_mean(labels[FULL_RATINGS.values > 0], 1 - mechanism.clipping_bias)


def test_output_refuses_matrices_past_the_memory_limit():
    public = PublicFacts(users=100_000, items=100_000, low=-1, high=1)
    ratings = Ratings.build([0], [0], [1.0], public)
    with pytest.raises(InvalidSetting, match="cells for output perturbation"):
        next(iter(registry.create("output", epsilon=1.0).fit(ratings, np.random.default_rng(0))))


def test_probit_noise_scales():
    paper, tight = (
        registry.create("objective", epsilon=1.0, calibration=c, **PROBIT)
        for c in (Calibration.PAPER, Calibration.TIGHT)
    )
    assert paper.delta_h == pytest.approx(5.03, abs=5e-3)
    assert tight.delta_h == pytest.approx(1.81, abs=5e-3)
