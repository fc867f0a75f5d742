"""References without privacy: settings from training data alone, never beaten, exact, any size."""

import math

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.mechanisms import plain, references
from dpmc_core.metrics import evaluate_ranking, rmse
from dpmc_core.model import Task
from dpmc_core.preparation import TopItems
from dpmc_core.problem import LeaveLast, RandomShare, build_problem, create_generator
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.linalg import Pattern, leading_eigenpairs
from dpmc_core.solvers.ranking import ItemScores, ease_weights
from dpmc_core.solvers.rows import gram_products
from dpmc_data import datasets
from sample_data import generate
from tests.ratings_helpers import with_values

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


@pytest.mark.parametrize("name", ["small-tail", "restaurants", "movie-night", "jokes"])
def test_no_trivial_method_and_no_other_twin_is_better_than_the_reference_of_ratings(name):
    """Paired over seeds: means are worse by more than two standard errors of the difference, or by
    a thousandth where there are few seeds; the other twins are worse on average."""
    rivals = ("global-mean", "user-mean", "item-mean", "als", "cleansed-svd")
    seeds = {"restaurants": 8, "jokes": 1}.get(name, 2)
    ahead = {id: [] for id in rivals}
    for seed in range(seeds):
        if name == "small-tail":
            data = generate.generate_long_tail(seed, users=600, items=1_200, ratings=50_000).ratings
            train, test = RandomShare()(data, create_generator(seed, name))
        else:
            problem = build_problem(datasets.load(name), Task.RATINGS, seed=seed)
            train, test = problem.train, problem.test
        reference_error = measure_error("reference-ratings", train, test, seed)
        for id in rivals:
            ahead[id].append(measure_error(id, train, test, seed) - reference_error)
    for id, gains in ahead.items():
        margin = 2 * np.std(gains, ddof=1) / np.sqrt(seeds) if seeds > 2 else 1e-3
        assert np.mean(gains) > (margin if id.endswith("mean") else 0.0), (id, gains)


def measure_error(id, train, test, seed):
    predictions = fit_model(id, train, seed).predict(test.users, test.items)
    return rmse(np.clip(predictions, test.public.low, test.public.high), test.values)


# Clicks


def test_beyond_the_limit_the_most_popular_items_come_first(monkeypatch):
    data = draw_clicks(2)
    counts = np.bincount(data.items, minlength=60)
    full = predict_all(fit_model("ease", data), data.shape)
    monkeypatch.setattr(plain, "GRAM_LIMIT", 40)
    limited = predict_all(fit_model("ease", data), data.shape)
    popular = np.sort(np.argsort(-counts, kind="stable")[:40])
    unpopular = np.setdiff1d(np.arange(60), popular)
    assert limited[:, unpopular].max() < limited[:, popular].min()
    assert np.array_equal(
        np.argsort(-limited[0, unpopular], kind="stable"),
        np.argsort(-counts[unpopular], kind="stable"),
    )
    popular_clicks = TopItems(40).apply(data, data)
    scores = ItemScores(popular_clicks.matrix, ease_weights(popular_clicks, 1_000.0))
    assert np.allclose(limited[:, popular], predict_all(scores, (300, 40)))
    assert full.shape == limited.shape


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


def test_of_many_cells_one_of_each_kind_is_tried_and_then_the_best_kind(monkeypatch):
    rivals = (*(plain.Ease(ridge=ridge) for ridge in (1.0, 2.0, 3.0)), plain.Popularity())
    hit_ratios, tried = {1.0: 0.9, 2.0: 0.3, 3.0: 0.4}, []

    def get_hit_ratio(rival, *_):
        tried.append(rival)
        return hit_ratios[getattr(rival, "ridge", None)]

    monkeypatch.setattr(references, "_CANDIDATES", rivals)
    monkeypatch.setattr(references, "_measure_hit_ratio", get_hit_ratio)
    data = draw_clicks(4)
    for large_cells, popular, expected in (
        (math.prod(data.shape), 0.5, rivals),
        (math.prod(data.shape) - 1, 0.5, (rivals[1], rivals[3])),
        (math.prod(data.shape) - 1, 0.2, (rivals[1], rivals[3], rivals[0], rivals[2])),
    ):
        tried.clear()
        hit_ratios[None] = popular
        monkeypatch.setattr(references, "_LARGE_CELLS", large_cells)
        *_, last = registry.create("reference-ranking").fit(data, np.random.default_rng(0))
        assert tuple(tried) == expected
        assert last.final
        best = max(expected, key=get_hit_ratio)
        learnt = predict_all(fit_model(best.id, data), data.shape) if best == rivals[3] else None
        assert learnt is None or np.array_equal(predict_all(last.model, data.shape), learnt)


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


def test_the_unit_of_the_ratings_does_not_matter():
    ratings = datasets.load("restaurants").ratings
    points = with_values(ratings, 10 * ratings.values - 7, low=-7, high=13)
    first, second = (
        predict_all(fit_model("reference-ratings", r), r.shape) for r in (ratings, points)
    )
    # Which BLAS rounds how may choose another weight among models that say nearly the same: half a
    # percent of the range is let pass.
    assert np.allclose(10 * first - 7, second, atol=0.1)


def test_the_winner_learns_from_all_training_data(monkeypatch):
    data = draw_clicks(4)
    monkeypatch.setattr(references, "_CANDIDATES", (plain.Ease(ridge=300.0), plain.Popularity()))
    predictions = predict_all(fit_model("reference-ranking", data), data.shape)
    scores = ItemScores(data.matrix, ease_weights(data, 300.0))
    assert np.allclose(predictions, predict_all(scores, data.shape))


def test_users_with_one_rating_cost_no_matrix_each(monkeypatch):
    """With 400 or 4,000 of them as many matrices are inverted, but for effects alone."""
    counted, plain = [], np.linalg.inv

    def inv(a):
        counted.append(int(np.prod(a.shape[:-2])) if a.shape[-1] > 1 else 0)
        return plain(a)

    monkeypatch.setattr(np.linalg, "inv", inv)
    n_inverted = []
    for users in (400, 4_000):
        rng = np.random.default_rng(0)
        items = rng.integers(50, size=users)
        values = np.clip(np.rint(3.5 + rng.normal(size=users)), 1, 5)
        public = PublicFacts(users=users, items=50, low=1, high=5)
        ratings = Ratings.build(np.arange(users), items, values, public)
        list(registry.create("reference-ratings").fit(ratings, np.random.default_rng(0)))
        n_inverted.append(sum(counted))
        counted.clear()
    assert n_inverted[1] < 2 * max(n_inverted[0], 400)
