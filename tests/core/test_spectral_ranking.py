"""Rankings from flipped bits: unbiased products, the edge of the noise, planted tastes, memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpmc_core import registry
from dpmc_core.solvers import ranking
from dpmc_core.solvers.ranking import ClickFactors, FlippedBits, _NoiseSpectrum
from sample_data import generate
from tests.ratings_helpers import clicks, with_values
from tests.replay import fit_model, predict_all, replay_run


def flip_clicks(truth: np.ndarray, flip: float, rng: np.random.Generator) -> FlippedBits:
    bits = truth ^ (rng.random(truth.shape) < flip)
    return FlippedBits(np.packbits(bits, axis=1), truth.shape[1], flip)


def draw_two_crowds(rng: np.random.Generator, users: int = 1500, items: int = 120) -> np.ndarray:
    """Half of the users take the first half of the items more often, the others the second."""
    crowd = np.where(rng.random(users) < 0.5, 1, -1)[:, None]
    half = np.where(np.arange(items) < items // 2, 1, -1)
    fame = rng.uniform(0.1, 0.4, items)
    return rng.random((users, items)) < fame * (1 + 0.7 * crowd * half)


@pytest.mark.parametrize("block", [500, 4_000_000])
def test_products_are_those_of_the_unbiased_rows(block, monkeypatch):
    monkeypatch.setattr(ranking, "_CELLS", block)
    rng = np.random.default_rng(0)
    reports = flip_clicks(rng.random((50, 30)) < 0.3, 0.2, rng)
    unbiased = (reports.dense - 0.2) / 0.6
    right, left = rng.normal(size=(30, 4)), rng.normal(size=(50, 4))
    assert reports.multiply(right) == pytest.approx(unbiased @ right, abs=1e-4)
    assert reports.multiply_transposed(left) == pytest.approx(unbiased.T @ left, abs=1e-4)
    assert reports.shares == pytest.approx(unbiased.mean(axis=0))


def test_with_equal_variances_the_edge_and_shrinkage_are_marchenko_and_pasturs():
    n, m, s2 = 300, 700, 2.5
    edge, beta = _NoiseSpectrum(np.full(n, s2), m), n / m
    assert edge.height == pytest.approx(s2 * (1 + np.sqrt(beta)) ** 2)
    for y in (1.8, 2.5, 9.0):  # the spike's value over the noise, by the closed form
        signal = s2 * (y**2 - beta - 1 + np.sqrt((y**2 - beta - 1) ** 2 - 4 * beta)) / 2
        assert edge.invert_psi(s2 * y**2) - s2 == pytest.approx(signal)


@pytest.mark.slow
def test_a_planted_taste_is_found_at_its_strength_and_ranks_the_own_half_first():
    rng = np.random.default_rng(2)
    truth = draw_two_crowds(rng)
    low_rank = ClickFactors.from_reports(flip_clicks(truth, 0.2, rng))
    assert low_rank.loadings.shape[1] == 1
    half = np.where(np.arange(120) < 60, 1, -1)
    planted = 0.7 * low_rank.expected * half
    loading = low_rank.loadings[:, 0] * np.sign(low_rank.loadings[:, 0] @ planted)
    cosine = loading @ planted / np.linalg.norm(loading) / np.linalg.norm(planted)
    assert cosine > 0.85
    assert np.linalg.norm(loading) == pytest.approx(np.linalg.norm(planted), rel=0.15)
    profile = csr_array((np.arange(120) < 60).astype(float)[None, :])
    scores = low_rank.score_items(csr_array(profile)).predict(0, np.arange(120))
    assert scores[:60].mean() > 2 * scores[60:].mean()


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0, 1e6])
@pytest.mark.parametrize("shape", [(2, 1), (1, 3), (2, 2), (30, 4), (4, 30)])
def test_no_size_and_no_budget_breaks_it(epsilon, shape):
    truth = np.zeros(shape, dtype=bool)
    truth[0] = True  # every other row is empty
    for id in ("dplcf", "ldpicf", "local-popularity"):
        model = fit_model(registry.create(id, epsilon=epsilon), clicks(truth))
        assert np.isfinite(predict_all(model, shape)).all()


def test_the_same_reports_give_both_methods_the_same_ranking_and_a_row_moves_its_own_scores_alone():
    rng = np.random.default_rng(5)
    truth = draw_two_crowds(rng, users=400, items=60)
    models = [
        list(registry.create(id, epsilon=2.0).fit(clicks(truth), np.random.default_rng(6)))[-1]
        for id in ("dplcf", "ldpicf")
    ]
    dplcf, ldpicf = (predict_all(last.model, (400, 60)) for last in models)
    assert np.array_equal(dplcf, ldpicf)
    assert models[0].trace["tastes clear of the noise"] >= 1
    changed = truth.copy()
    changed[7] = ~changed[7]
    mechanism = registry.create("dplcf", epsilon=2.0)
    first, second = replay_run(mechanism, clicks(truth), clicks(changed), 7)
    assert first.public_traces == second.public_traces
    assert np.array_equal(first.other_predictions[-1], second.other_predictions[-1])
    assert not np.array_equal(first.user_predictions[-1], second.user_predictions[-1])


@pytest.mark.slow
def test_a_million_ratings_stay_below_400_megabytes():
    ratings = generate.generate_long_tail(0).ratings
    ratings = with_values(ratings, np.ones(len(ratings)), low=0, high=1)
    tracemalloc.start()
    model = fit_model(registry.create("dplcf", epsilon=1.0), ratings)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.factors is not None
    assert peak < 400e6


# Without noise: what is found through the sparse or the smaller side is what the text says


@pytest.mark.slow
@pytest.mark.parametrize("similarity", [ranking.jaccard, ranking.cosine])
@pytest.mark.parametrize("count", [1, 7, 200])
def test_items_that_share_users_are_the_nearest_of_all(similarity, count, monkeypatch):
    monkeypatch.setattr(ranking, "BLOCK", 500)
    rng = np.random.default_rng(2)
    for share in (0.02, 0.3):  # ties at few users, and items without one
        truth = (rng.random((40, 60)) < share).astype(float)
        counts = truth.sum(axis=0)

        def similarities(block, truth=truth, counts=counts):
            return similarity(truth.T[block] @ truth, counts[block][:, None], counts)

        exact = ranking.find_nearest_items(60, count, similarities).toarray()
        assert np.array_equal(
            ranking.find_items_sharing_users(csr_array(truth), count, similarity).toarray(), exact
        )


@pytest.mark.parametrize(("users", "items"), [(30, 80), (80, 30), (50, 50)])
def test_ease_regresses_every_item_on_all_others(users, items):
    truth = np.random.default_rng(3).random((users, items)) < 0.2
    x, weights = truth.astype(float), ranking.ease_weights(clicks(truth), 4.0)
    for item in range(items):
        rest_of_items = np.arange(items) != item
        square = x[:, rest_of_items].T @ x[:, rest_of_items] + 4.0 * np.eye(items - 1)
        exact = np.linalg.solve(square, x[:, rest_of_items].T @ x[:, item])
        assert np.allclose(weights[rest_of_items, item], exact)
    assert not weights.diagonal().any()
