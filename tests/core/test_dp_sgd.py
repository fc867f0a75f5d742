"""DP-SGD per user: what its gradients are, what they cost, and what is left without noise."""

import math

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms import dp_sgd
from dpmc_core.mechanisms.dp_sgd import ItemParameters, sum_clipped_gradients
from dpmc_core.privacy import USER_EMPTIED, Gaussian
from dpmc_core.ratings import PublicFacts, hash_cells
from sample_data.generate import FILM_SITE_SLOPES, generate_long_tail
from tests.replay import fit_model
from tests.user_level_helpers import PUBLIC, build_ratings, make_rows

FILMS = PublicFacts(users=6040, items=3706, low=1, high=5)


def create(epsilon=1.0, **settings):
    return registry.create("dp-sgd", epsilon=epsilon, delta=1e-6, **settings)


@pytest.fixture(scope="module")
def split():
    """A generated set whose users have slopes, as people have: training and test ratings."""
    ratings = generate_long_tail(
        31, users=1_000, items=250, ratings=60_000, slope_stds=FILM_SITE_SLOPES
    ).ratings
    is_test = np.random.default_rng(0).random(len(ratings)) < 0.2
    return ratings.select(~is_test), ratings.select(is_test)


def predict(mechanism, train, test, seed=0):
    return fit_model(mechanism, train, seed).predict(test.users, test.items)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 10.0])
def test_the_composition_of_all_steps_is_what_dp_accounting_finds(epsilon):
    from dp_accounting.pld import privacy_loss_distribution as pld

    guarantee = create(epsilon).guarantee(FILMS)
    release = guarantee.releases.gradients
    noise_multiplier = release.scale / release.sensitivity[USER_EMPTIED]
    step = pld.from_gaussian_mechanism(noise_multiplier, value_discretization_interval=2e-4)
    oracle = step.self_compose(release.times).get_epsilon_for_delta(1e-6)
    certified = guarantee.certified(USER_EMPTIED, 1e-6).epsilon
    assert certified == pytest.approx(oracle, rel=2e-3)
    assert epsilon * (1 - 1e-9) <= certified <= epsilon


def test_unclipped_gradients_are_those_of_the_squared_error():
    """Against finite differences of sum e^2 / (2 sqrt(k)), the users' own factors held constant."""
    ratings, rng = build_ratings(make_rows()), np.random.default_rng(0)
    vector = np.append(rng.normal(0, 0.1, (PUBLIC.items, 3)), 3.2)
    parameters = ItemParameters.from_vector(vector, PUBLIC)
    norms = np.array([1e6, 1e6, 1.0])
    sums, n_clipped = sum_clipped_gradients(ratings, parameters, norms, key=5)
    assert n_clipped == 0

    is_first = hash_cells(ratings, 5) % np.uint64(2) == 0
    expected = np.zeros((PUBLIC.items, 3))
    for user in range(PUBLIC.users):
        row = np.flatnonzero(ratings.users == user)
        residuals = ratings.values[row] - vector[-1] - parameters.offsets[ratings.items[row]]
        features = parameters.features[ratings.items[row]]
        for half in (is_first[row], ~is_first[row]):
            others = features[~half]
            squares = others.T @ others + np.diag(parameters.ridge)
            theta = np.linalg.solve(squares, others.T @ residuals[~half])
            errors = residuals[half] - features[half] @ theta
            for item, error in zip(ratings.items[row][half], errors, strict=True):
                expected[item] += 1.5 * error / np.sqrt(len(row)) * np.append(1.0, theta[2:])
    assert sums[:-1].reshape(-1, 3) == pytest.approx(expected)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_published_item_has_its_factors_and_three_features(rank):
    mechanism = create(rank=rank, rounds=1)
    model = fit_model(mechanism, build_ratings(make_rows()))
    assert (
        mechanism.own_side(PUBLIC, 3 + rank).columns == [3 + rank] == [model.factors.right.shape[1]]
    )


def test_the_mean_decays_by_its_noise_over_its_prior(monkeypatch):
    """Two steps in which every sum but the mean's is zero, beside the formula with numbers."""
    mechanism, means = create(rounds=2, rank=0), []
    monkeypatch.setattr(
        Gaussian, "publish", lambda _, value, __: np.append(np.zeros(value.size - 1), 2.0)
    )
    monkeypatch.setattr(dp_sgd, "_build_model", lambda _, parameters: means.append(parameters.mean))
    list(mechanism.fit(build_ratings(make_rows()), np.random.default_rng(0)))
    clip = 0.15 * mechanism.clip * 4.0
    rate = 0.25 * 4.0 / (clip * PUBLIC.users)
    noise = mechanism.guarantee(PUBLIC).releases.gradients.scale / math.sqrt(2)
    decay = (noise * rate / (0.125 * 4.0)) ** 2
    first = 2 * rate / (1 + decay)
    second = first + (2 * rate - decay * first) / (1 + decay)
    assert means == pytest.approx([3.0 + first, 3.0 + second])


def test_the_rank_follows_from_public_facts_and_the_budget():
    ranks = {e: create(e).plan_factors(FILMS).rank for e in (0.5, 2.0, 1e3)}
    assert ranks == {0.5: 0, 2.0: 0, 1e3: 4}
    assert create(10.0).plan_factors(FILMS).rank == 2
    assert create(0.5, rank=7).plan_factors(FILMS).rank == 7
    assert create(1e3).plan_factors(PublicFacts(users=999, items=1, low=1, high=5)).rank == 1
    with pytest.raises(InvalidSetting, match="rank must be <= items = 12, got 13"):
        create(rank=13).guarantee(PUBLIC)
