"""Baselines: one released number per user unit, its noise and its charge; the best kind is chosen
once, and no constant beats it."""

import dataclasses

import numpy as np
import pytest

from dpmc_core import privacy, registry
from dpmc_core.dataset import Dataset
from dpmc_core.metrics import rmse
from dpmc_core.model import Task
from dpmc_core.privacy import USER_EMPTIED, USER_REPLACED
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_lab import sweep
from dpmc_lab.study.answer import Inquiry, UserScoreCache, compute_finding, run_missing_units
from dpmc_lab.views import answer as answer_words
from tests.statistics_helpers import assert_release_noise

FAMILY = registry.BASELINE_ALTERNATIVES["private-own-mean"]
ITEMS = 120


def draw_ratings(counts, seed=0, *, person=0.4, n_features=0):
    """Draw training and test ratings: a user has `counts` of the former and one of the latter."""
    rng = np.random.default_rng(seed)
    m = len(counts)
    item_features = rng.normal(size=(ITEMS, n_features))
    users = np.repeat(np.arange(m), np.add(counts, 1))
    first = np.cumsum(np.add(counts, 1)) - np.add(counts, 1)
    items = np.concatenate([rng.choice(ITEMS, k + 1, replace=False) for k in counts])
    score = 3.7 + person * rng.normal(size=m)[users] + 0.3 * rng.normal(size=ITEMS)[items]
    score += np.einsum("kf,kf->k", rng.normal(0, 0.5, (m, n_features))[users], item_features[items])
    values = np.clip(np.rint(score + 0.8 * rng.normal(size=len(users))), 1, 5)
    held_out = np.zeros(len(users), dtype=bool)
    held_out[first] = True
    public = PublicFacts(users=m, items=ITEMS, low=1, high=5)
    splits = [Ratings.build(users[k], items[k], values[k], public) for k in (~held_out, held_out)]
    if n_features:
        splits = [
            split.with_item_features({"facts": item_features}).use_features(["facts"])
            for split in splits
        ]
    return tuple(splits)


def fit_model(id, ratings, seed=0, **settings):
    noise = {"epsilon": 1.0} | settings if registry.adds_noise(registry.get_mechanism(id)) else {}
    *_, last = registry.create(id, **noise).fit(ratings, np.random.default_rng(seed))
    return last.model


def test_own_means_are_shrunk_by_three_ratings_to_the_released_mean():
    train, test = draw_ratings([1, 2, 5, 13] * 50)
    model = fit_model("private-own-mean", train, epsilon=2.0)
    mean = float(model.user_arrays["mean"])
    guarantee = registry.create("private-own-mean", epsilon=2.0).guarantee(train.public)
    noise = guarantee.releases.mean.scale / len(np.unique(train.users))
    doubt = (noise * 2) ** 2 / (1 + (noise / 0.25) ** 2)  # of half a range of 2 points
    ridge = 3 / (1 + 3 * doubt / (0.21 * 4) ** 2)
    sums = np.bincount(train.users, train.values, 200)
    counts = np.bincount(train.users, minlength=200)
    expected = (sums + ridge * mean) / (counts + ridge)
    assert np.allclose(model.predict(test.users, test.items), expected[test.users])
    exact = np.mean(sums / counts)
    shrunk = (sums + 3 * exact) / (counts + 3)
    assert np.allclose(fit_model("own-mean", train).predict(test.users, 0), shrunk[test.users])
    assert np.allclose(fit_model("mean-of-users", train).predict(0, 0), exact)


def test_features_are_used_by_one_baseline_alone():
    """The others find the same with them as without."""
    train, test = draw_ratings([6] * 400, n_features=2)
    without_features = train.use_features([])
    for id in ("private-constant", "private-own-mean", "mean-of-users", "own-mean"):
        a, b = (
            fit_model(id, ratings).predict(test.users, test.items)
            for ratings in (train, without_features)
        )
        assert np.array_equal(a, b)
    ids = ("private-own-mean", "private-alone")
    errors = [rmse(fit_model(id, train).predict(test.users, test.items), test.values) for id in ids]
    assert errors[1] < errors[0] - 0.02
    a, b = (fit_model(id, without_features).predict(test.users, test.items) for id in ids)
    assert np.allclose(a, b)


# --- the adversary: who knows all others looks for one user in the released number ----------------


def record_fit(id, ratings, seed, **settings):
    with privacy.record_publications() as publications:
        fit_model(id, ratings, seed, **settings)
    return publications


@pytest.mark.parametrize("id", FAMILY)
def test_the_released_mean_has_the_noise_of_its_card(id):
    """Planted bugs: half the noise, no noise, one draw for both numbers; 400 fits, false alarm
    1e-6 each."""
    train, _ = draw_ratings([1, 2, 5, 13] * 10)
    (release,) = (r for _, r in registry.create(id, epsilon=1.0).guarantee(train.public).releases)
    z = []
    for seed in range(400):
        (publication,) = record_fit(id, train, seed)
        z.append((publication.published - publication.private) / release.scale)
    z = np.array(z)
    low, high = 0.83, 1.18  # of a standard deviation of 800 normal numbers, five errors away
    assert low < z.std() < high
    assert abs(np.corrcoef(z.T)[0, 1]) < 0.25
    assert_release_noise(release, np.random.default_rng(1))


@pytest.mark.parametrize("id", FAMILY)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_card_charges_the_released_mean_with_all_of_the_budget(id, epsilon):
    public = PublicFacts(users=50, items=9, low=1, high=5)
    guarantee = registry.create(id, epsilon=epsilon).guarantee(public)
    assert 0.999 * epsilon <= guarantee.certified(USER_EMPTIED, 1e-6).epsilon <= epsilon
    assert not guarantee.unaccounted
    assert len(list(guarantee.releases)) == 1


@pytest.mark.parametrize("id", FAMILY)
def test_one_user_moves_the_release_as_far_as_stated_and_no_further(id):
    train, _ = draw_ratings([4] * 20)
    other_users = train.users != 0

    def release_mean(values):
        count = len(values)
        users = np.append(train.users[other_users], np.zeros(count, dtype=int))
        items = np.append(train.items[other_users], np.arange(count))
        rows = np.append(train.values[other_users], values)
        (publication,) = record_fit(id, Ratings.build(users, items, rows, train.public), 0)
        return publication

    empty, top, bottom = release_mean([]), release_mean([5.0] * 7), release_mean([1.0])
    changes = {
        USER_EMPTIED: np.linalg.norm(top.private - empty.private),
        USER_REPLACED: np.linalg.norm(top.private - bottom.private),
    }
    for change, distance in changes.items():
        assert distance == pytest.approx(empty.release.sensitivity[change], rel=1e-9)


@pytest.mark.parametrize("id", FAMILY)
def test_nothing_but_the_release_and_the_own_row_reaches_a_prediction(id):
    """With the answer given, another user's row changes no prediction of user 0."""
    train, _ = draw_ratings([4] * 20, n_features=2)
    (answer,) = record_fit(id, train, 0)
    changed = dataclasses.replace(answer, published=np.array([3.0, 17.0]))
    predicted = []
    for values in (train.values, np.where(train.users == 1, 1.0, train.values)):
        with privacy.record_publications(replayed=[changed]):
            ratings = dataclasses.replace(train, values=values)
            predicted.append(fit_model(id, ratings).predict(0, np.arange(ITEMS)))
    assert np.array_equal(*predicted)


# --- one kind for a data set ----------------------------------------------------------------------


def test_the_kind_is_the_best_one_without_noise():
    cls = registry.get_mechanism("private-effects")
    errors = {"mean-of-users": 1.1, "own-mean": 1.0, "own-features": 0.9}
    assert registry.choose_baseline(cls, [], errors) == "private-own-mean"
    assert registry.choose_baseline(cls, ["features"], errors) == "private-alone"
    assert registry.choose_baseline(cls, ["features"], errors | {"mean-of-users": 0.8}) == FAMILY[0]
    assert registry.choose_baseline(cls, ["features"]) == "private-alone"
    assert registry.choose_baseline(registry.get_mechanism("dpmf"), [], errors) == "private-mean"


@pytest.mark.slow
@pytest.mark.parametrize(("person", "kind"), [(0.0, "private-constant"), (0.6, "private-own-mean")])
def test_the_answer_counts_from_the_best_kind_of_the_data(person, kind):
    """Where people rate alike one number is the better baseline, else each one's own average."""
    train, test = draw_ratings([3] * 600, person=person)
    columns = ("users", "items", "values")
    combined = [np.concatenate([getattr(s, name) for s in (train, test)]) for name in columns]
    ratings = Ratings.build(*combined, train.public)
    source = sweep.SplitSource(Dataset(ratings, "drawn"))
    baseline_ids = []
    for epsilon in (0.5, 5.0):
        question = Inquiry(task=Task.RATINGS, epsilon=epsilon)
        advice, cache = question.find_advice(ratings.public), UserScoreCache()
        units = sweep.build_plan(question.build_grid(advice, "drawn", seeds=(1, 2)), [source]).units
        run_missing_units(units, source, cache)
        finding = compute_finding(question, advice, units, cache, ratings)
        serialised = answer_words.serialise_finding(finding)
        assert serialised["baseline"] == finding.baseline_id
        assert serialised["floor"]["value"] == finding.baseline.value
        baseline_ids.append(finding.baseline_id)
    assert baseline_ids == [kind, kind]
