"""References without privacy: settings from training data alone, never beaten, exact, any size."""

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.mechanisms import plain, references
from dpmc_core.metrics import evaluate_ranking
from dpmc_core.problem import LeaveLast, create_generator
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.linalg import Pattern, leading_eigenpairs
from dpmc_core.solvers.ranking import ItemScores, ease_weights
from dpmc_core.solvers.rows import gram_products
from sample_data import generate

pytestmark = pytest.mark.slow


def fit_model(id, ratings, seed=0, **settings):
    *_, last = registry.create(id, **settings).fit(ratings, create_generator(seed, id))
    return last.model


def draw_clicks(seed, users=300, items=60, count=6_000):
    shop = generate.Shop(users=users, items=items, clicks=count)
    return generate.generate_clicks(seed, shop).ratings


def predict_all(model, shape):
    return model.predict(np.arange(shape[0])[:, None], np.arange(shape[1])[None, :])


# Ratings


# Clicks


def test_the_reference_of_clicks_is_no_worse_than_any_of_its_families():
    """Over four seeds of 600 held-out hits: two standard errors of a paired mean are .02 or so."""
    hits = {id: [] for id in ("reference-ranking", "ials", "ease", "item-knn", "popularity")}
    for seed in range(4):
        train, test = LeaveLast()(
            draw_clicks(seed, 600, 250, 12_000), create_generator(seed, "split")
        )
        for id, hit_ratios in hits.items():
            model = fit_model(id, train, seed)
            hit_ratios.append(
                evaluate_ranking(model, train, test, create_generator(seed, "negatives")).hr
            )
    means = {id: np.mean(hit_ratios) for id, hit_ratios in hits.items()}
    best = means.pop("reference-ranking")
    assert best > max(means.values()) - 0.01
    assert best > means["popularity"] + 0.05


@pytest.mark.parametrize("judges", [100, 700])
def test_settings_are_chosen_on_training_data_alone(judges, monkeypatch):
    """What the choice saw: every rating of the training data and nothing else. Whatever is held
    out of them is not learnt from while it judges, and learnt from in the end."""
    data = draw_clicks(3)
    train, test = LeaveLast()(data, create_generator(3, "split"))
    calls = []
    evaluate_ranking = references.evaluate_ranking

    def watched(model, learnt, held_out, rng, **settings):
        calls.append((learnt, held_out))
        return evaluate_ranking(model, learnt, held_out, rng, **settings)

    monkeypatch.setattr(references, "evaluate_ranking", watched)
    method = registry.create("reference-ranking", judges=judges)
    steps = list(method.fit(train, create_generator(3, "fit")))
    assert len(calls) == len(steps) - 1

    def cells(ratings):
        return set(zip(ratings.users.tolist(), ratings.items.tolist(), strict=True))

    for learnt, held_out in calls:
        assert cells(learnt) | cells(held_out) == cells(train)
        assert not cells(learnt) & cells(held_out)
        assert not cells(held_out) & cells(test)
        for user in np.unique(held_out.users):  # the latest, at most a fifth of anybody's
            user_times = np.sort(train.times[train.users == user])[::-1]
            held_out_times = np.sort(held_out.times[held_out.users == user])[::-1]
            assert np.array_equal(held_out_times, user_times[: len(held_out_times)])
            assert len(held_out_times) <= max(1, len(user_times) // 5)
        assert 0 < len(held_out) <= judges
    # The same training data with other test data: the same model, to the last digit.
    repeated = list(method.fit(train, create_generator(3, "fit")))[-1]
    assert np.array_equal(
        predict_all(steps[-1].model, data.shape), predict_all(repeated.model, data.shape)
    )
    assert all(step.model is None for step in steps[:-1])
    assert steps[-1].raw == set(steps[-1].trace)


# Size


@pytest.mark.parametrize(
    ("m", "n", "count"), [(90, 50, 3), (40, 70, 5), (90, 70, 2), (6, 9, 6), (9, 6, 6)]
)
def test_leading_vectors_of_the_sparse_matrix_are_those_of_the_dense_one(m, n, count):
    rng = np.random.default_rng(m)
    users, items = np.nonzero(rng.random((m, n)) < 0.4)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(users, minlength=m))))
    cells = Pattern(items.astype(np.int32), indptr, (m, n))
    values = rng.normal(size=len(users))
    dense = cells.build_matrix(values).toarray()
    eigenvalues, basis = leading_eigenpairs(gram_products(cells.build_matrix(values)), n, count)
    assert np.allclose(
        np.sqrt(eigenvalues[::-1]), np.linalg.svd(dense, compute_uv=False)[:count], atol=1e-9
    )
    exact = np.linalg.svd(dense)[2][:count].T
    assert np.allclose(basis @ basis.T, exact @ exact.T, atol=1e-7)


@pytest.mark.parametrize("id", ["pgd", "cleansed-svd"])
def test_beyond_the_limit_the_most_rated_items_are_solved_and_others_have_means(id, monkeypatch):
    data = generate.generate_restaurants(3).ratings
    means = predict_all(fit_model("item-mean", data), data.shape)
    counts = np.bincount(data.items, minlength=130)
    popular = np.sort(np.argsort(-counts, kind="stable")[:90])
    unpopular = np.setdiff1d(np.arange(130), popular)
    monkeypatch.setattr(plain, "GRAM_LIMIT", 90)
    predictions = predict_all(fit_model(id, data), data.shape)
    assert np.array_equal(predictions[:, unpopular], means[:, unpopular])
    position = np.full(130, -1)
    position[popular] = np.arange(90)
    inside = data.items
    few = Ratings.build(
        data.users[position[inside] >= 0],
        position[inside[position[inside] >= 0]],
        data.values[position[inside] >= 0],
        PublicFacts(users=138, items=90, low=0, high=2),
    )
    assert np.allclose(predictions[:, popular], predict_all(fit_model(id, few), few.shape))


def test_the_winner_learns_from_all_training_data(monkeypatch):
    data = draw_clicks(4)
    monkeypatch.setattr(references, "_CANDIDATES", (plain.Ease(ridge=300.0), plain.Popularity()))
    predictions = predict_all(fit_model("reference-ranking", data), data.shape)
    scores = ItemScores(data.matrix, ease_weights(data, 300.0))
    assert np.allclose(predictions, predict_all(scores, data.shape))
