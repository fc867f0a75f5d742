"""Problems and runs: shared splits, keyed noise, honest results."""

import dataclasses
import math

import numpy as np
import pytest

from dpmc_core import metrics, registry
from dpmc_core.dataset import Dataset
from dpmc_core.errors import BadRatings, DpmcError, InvalidSetting
from dpmc_core.experiment import build_baselines, measure_model, run
from dpmc_core.links import Probit
from dpmc_core.model import Estimator, Factors, Task
from dpmc_core.preparation import (
    Binarise,
    CapPerUser,
    Implicit,
    Rescale,
    ThresholdRule,
    TopItems,
)
from dpmc_core.privacy import releases
from dpmc_core.problem import (
    LeaveLast,
    RandomShare,
    SharePerUser,
    build_problem,
    create_generator,
    prepare_public_facts,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_data import datasets, synthetic

USERS, ITEMS = 30, 20


def make_ratings(signs=False, seed=3):
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((USERS, ITEMS)) < 0.5)
    if signs:
        values, low, high = rng.choice([-1.0, 1.0], len(users)), -1, 1
    else:
        values, low, high = rng.integers(1, 6, len(users)).astype(float), 1, 5
    return Ratings.build(
        users,
        items,
        values,
        PublicFacts(users=USERS, items=ITEMS, low=low, high=high),
        times=rng.integers(0, 1000, len(users)),
    )


def make_data(ratings, truth=None):
    return Dataset(ratings, "tiny", "Tiny", truth)


@pytest.fixture
def stars():
    return make_data(make_ratings())


@pytest.fixture
def flips():
    return registry.create("input-flip", epsilon=1.0, iterations=8, estimator=Estimator.PUBLISHED)


def list_cells(ratings):
    return set(zip(ratings.users.tolist(), ratings.items.tolist(), strict=True))


@pytest.mark.parametrize("rule", ["middle", "mean"])
def test_signs_are_cut_above_the_middle_or_at_the_mean_of_the_training_part(stars, rule):
    steps = [Binarise(ThresholdRule.MEAN)] if rule == "mean" else []  # the default
    problem = build_problem(stars, Task.BINARY, steps=steps)
    assert problem.steps == (f"binarise={rule}",)
    raw = build_problem(stars, Task.RATINGS)
    mean, middle = raw.train.values.mean(), raw.train.public.middle
    for side in ("train", "test"):
        values = getattr(raw, side).values
        liked = values >= mean if rule == "mean" else values > middle
        assert np.array_equal(getattr(problem, side).values, np.where(liked, 1.0, -1.0))
    assert any("mean" in step for step in problem.train.prepared) == bool(steps)
    assert bool(problem.train.prepared) == bool(steps)


def test_named_steps_come_first_and_signs_are_made_once(stars):
    problem = build_problem(stars, Task.BINARY, steps=[TopItems(10), Binarise(4.0)])
    assert problem.steps == ("top-items=10", "binarise=4")
    assert problem.train.public.items == 10
    with_default = build_problem(stars, Task.BINARY, steps=[TopItems(10)])
    assert with_default.steps == ("top-items=10", "binarise=middle")


@pytest.mark.slow
@pytest.mark.parametrize("task", Task)
@pytest.mark.parametrize("name", synthetic.SAMPLES)
def test_public_facts_after_preparation_follow_from_those_before(name, task):
    sample = datasets.load(name)
    steps = [TopItems(50), CapPerUser(30), CapPerUser(20)]
    for chosen in ([], steps, [*steps, Rescale(0, 2)], [Implicit(1.0)], [TopItems(10**6)]):
        try:
            train = build_problem(sample, task, steps=chosen).train
        except BadRatings:  # all ratings are alike: only a ranking can be learnt
            assert task is not Task.RANKING
            continue
        assert prepare_public_facts(sample.ratings.public, task, chosen) == train.public


def test_the_split_depends_on_data_kind_and_seed_only(stars):
    binary = build_problem(stars, Task.BINARY, seed=5)
    rating = build_problem(stars, Task.RATINGS, steps=[CapPerUser(3)], seed=5)
    assert list_cells(binary.test) == list_cells(rating.test)
    assert list_cells(binary.test) != list_cells(build_problem(stars, Task.BINARY, seed=6).test)
    assert not list_cells(binary.test) & list_cells(binary.train)


def test_sampled_users_keep_all_of_their_ratings_in_their_order():
    problem = build_problem(datasets.load("rank-one:users=60,items=40"), Task.RATINGS)
    train = problem.train
    sample = problem.sample_users(200, np.random.default_rng(0))
    counts, sampled_counts = (np.diff(r.indptr) for r in (train, sample.train))
    assert sampled_counts.sum() - sampled_counts.max() < 200 <= sampled_counts.sum()
    assert sample.train.public == sample.test.public
    assert (sample.train.public.users, sample.train.public.items) == (len(sampled_counts), 40)
    rows, sampled_rows = (list_rows(p.train, p.test, p.truth.left) for p in (problem, sample))
    positions = [rows.index(row) for row in sampled_rows]
    assert positions == sorted(positions)
    assert len(positions) < len(counts)


def list_rows(train, test, factors):
    """Return each user's training and test ratings and true factors, as one value."""
    sides = [
        [str((r.items[r.users == user], r.values[r.users == user])) for r in (train, test)]
        for user in range(train.public.users)
    ]
    return [[*ratings, str(row)] for ratings, row in zip(sides, factors, strict=True)]


def test_all_ratings_equal_is_a_sentence():
    ratings = make_ratings()
    constant = dataclasses.replace(ratings, values=np.full(len(ratings), 3.0))
    with pytest.raises(BadRatings, match="every rating to learn from is 3"):
        build_problem(make_data(constant), Task.BINARY)


def test_what_changes_with_the_raw_ratings_is_named_as_raw(stars, flips):
    """Fewer ratings of the same people and items: what differs stands in `raw`, all that `raw`
    names is there, and settings and promises are not called raw."""
    half = dataclasses.replace(stars, ratings=stars.ratings.select(np.arange(0, 280, 2)))
    records = [run(flips, data, 4).as_dict() for data in (stars, half)]
    first, second = (flatten_record(record) for record in records)
    changed_fields = {name for name in first if first[name] != second[name]}
    assert {"data.ratings", "data.fingerprint", "data.test_ratings"} <= changed_fields
    raw = records[0]["raw"]
    assert all(any(f"{name}.".startswith(f"{field}.") for field in raw) for name in changed_fields)
    for field in raw:
        assert any(f"{name}.".startswith(f"{field}.") for name in first), field
    assert not any(field.split(".")[0] in {"settings", "guarantee", "seed"} for field in raw)


def flatten_record(record, start=""):
    flattened = {}
    for name, value in record.items():
        flattened |= (
            flatten_record(value, f"{start}{name}.")
            if isinstance(value, dict)
            else {start + name: value}
        )
    return flattened


@pytest.mark.slow
def test_a_run_prepares_a_data_set_or_a_pair_itself(stars, flips):
    problem = build_problem(stars, Task.BINARY, seed=4)
    result = run(flips, stars, seed=4)
    assert result.problem.steps == problem.steps
    assert result.problem.split == problem.split
    assert result.metrics == run(flips, problem, 4).metrics
    pair = stars.ratings.select(np.arange(200)), stars.ratings.select(np.arange(200, 280))
    pair_result = run(flips, pair, seed=4)
    assert pair_result.metrics == run(flips, build_problem(pair, Task.BINARY), 4).metrics
    assert pair_result.problem.split == "the given test ratings"
    pair_problem = build_problem(pair, Task.RATINGS, name="pair")
    sizes = len(pair_problem.train), len(pair_problem.test)
    assert (*sizes, pair_problem.name) == (200, 80, "pair")
    with pytest.raises(InvalidSetting, match="split"):
        build_problem(pair, Task.RATINGS, split=LeaveLast())


def test_metrics_are_those_of_the_model(stars, flips):
    problem = build_problem(stars, Task.BINARY)
    result = run(flips, problem, 4)
    scores = result.model.predict(problem.test.users, problem.test.items)
    assert result.metrics["accuracy"] == metrics.accuracy(scores, problem.test.values)
    majority = max(np.mean(problem.test.values > 0), np.mean(problem.test.values < 0))
    assert result.baselines["private-majority"]["accuracy"] in (majority, 1 - majority)


def test_all_methods_are_ranked_among_the_same_candidates(stars):
    public = dataclasses.replace(stars.ratings.public, items=400)  # more than are drawn
    wide = dataclasses.replace(stars, ratings=dataclasses.replace(stars.ratings, public=public))
    problem, rng = build_problem(wide, Task.RANKING), np.random.default_rng(0)
    model = Factors(rng.normal(size=(USERS, 3)), rng.normal(size=(400, 3)))
    first, second = (
        {
            seed: measure_model(registry.create(id), model, problem, seed)["ndcg@10"]
            for seed in range(5)
        }
        for id in ("popularity", "ials")
    )
    assert first == second
    assert len(set(first.values())) > 1


def test_noise_is_keyed_by_everything_that_names_a_run():
    draws = {key: create_generator(0, key).random() for key in ("a", "b")}
    assert draws["a"] != draws["b"]
    assert draws["a"] == create_generator(0, "a").random()
    assert draws["a"] != create_generator(1, "a").random()


def test_are_is_measured_where_the_truth_is_known():
    rng = np.random.default_rng(0)
    truth = Factors(rng.normal(size=(USERS, 1)), rng.normal(size=(ITEMS, 1)))
    data = make_data(make_ratings(signs=True), truth)
    mechanism = registry.create("clear", iterations=5)
    result = run(mechanism, build_problem(data, Task.BINARY), 0)
    all_cells = np.arange(USERS)[:, None], np.arange(ITEMS)
    matrix = truth.left @ truth.right.T
    error = np.square(result.model.predict(*all_cells) - matrix).sum()
    expected = error / np.square(matrix).sum()
    assert result.metrics["are"] == pytest.approx(expected)
    # Once the values have other units than the truth there is nothing to compare.
    stars = make_data(make_ratings(), truth)
    assert build_problem(stars, Task.BINARY).truth is None
    assert build_problem(stars, Task.RATINGS).truth is truth


def test_baselines_share_the_settings_that_mean_the_same():
    solver = {"link": Probit(), "radius": 0.5, "bound": 1.0}
    objective = registry.create("objective", epsilon=0.3, estimator=Estimator.PUBLISHED, **solver)
    baseline, reference, counterpart = build_baselines(objective)
    assert baseline == registry.create("private-majority", epsilon=0.3)  # the same promise
    assert reference == registry.create("reference-binary")
    assert (counterpart.id, counterpart.link, counterpart.radius, counterpart.bound) == (
        "clear",
        Probit(),
        0.5,
        1.0,
    )
    # Three noisy rounds and the noise's bound are no settings of the solver without privacy.
    default = registry.create("clear")
    paper_s = registry.create("gradient", epsilon=1.0, estimator=Estimator.PUBLISHED)
    assert build_baselines(paper_s)[2] == default
    assert build_baselines(registry.create("output", epsilon=1.0, bound=2.0))[2] == default


@pytest.mark.parametrize("id", sorted(registry.MECHANISMS))
def test_a_guess_a_reference_and_the_paper_s_twin_stand_beside_a_method(id):
    cls = registry.get_mechanism(id)
    for estimator in Estimator if registry.has_setting(cls, "estimator") else (None,):
        settings = {} if estimator is None else {"estimator": estimator}
        mechanism = registry.create(id, epsilon=0.3, **settings)
        # Of a baseline per user there are several, each with the one by which it is chosen.
        several = ["private-constant", "private-own-mean", "mean-of-users", "own-mean"]
        expected_baselines = several if cls.baseline == "private-own-mean" else [cls.baseline]
        expected = [*expected_baselines, registry.NONPRIVATE_REFERENCES[cls.task]]
        if estimator is not Estimator.NOISE_AWARE:
            expected.append(cls.nonprivate_counterpart)
        baselines = build_baselines(mechanism)
        assert [m.id for m in baselines] == [i for i in dict.fromkeys(expected) if i != id]
        assert {getattr(m, "epsilon", 0.3) for m in baselines} <= {0.3}


def test_a_run_can_be_stopped_and_keeps_what_is_publishable(stars, flips):
    steps = []
    result = run(
        flips,
        build_problem(stars, Task.BINARY),
        0,
        on_step=lambda _, step: steps.append(step),
        stop=lambda: len(steps) >= 3,
    )
    assert result.stopped
    assert result.rounds == 3
    assert result.model is steps[-1].model
    assert result.as_dict()["stopped"] is True
    assert not result.baselines


def test_stopped_before_the_noise_there_is_no_result(stars):
    output = registry.create("output", epsilon=1.0, iterations=10)
    with pytest.raises(DpmcError, match="no model to publish"):
        run(output, build_problem(stars, Task.BINARY), 0, stop=lambda: True)


def record_standard_noise(mechanism, problem, seed):
    """The noise of a run in units of its scale."""
    with releases.record_publications() as publications:
        run(mechanism, problem, seed, with_baselines=False)
    (publication,) = publications
    return (publication.published - publication.private) / publication.release.scale


def test_noise_is_fresh_for_every_epsilon_split_and_seed():
    """With one and the same noise the difference of two answers gives the data away.

    1200 cells: a correlation beyond 5 / sqrt(1200) has a false-alarm rate below 1e-6.
    """
    data = datasets.load("one-bit-lab")
    first, second = (build_problem(data, Task.BINARY, seed=seed) for seed in (1, 2))
    mechanism = registry.create("objective", epsilon=1.0, iterations=1)
    noise = record_standard_noise(mechanism, first, 1)
    assert np.array_equal(noise, record_standard_noise(mechanism, first, 1))
    for changed, problem, seed in (
        (dataclasses.replace(mechanism, epsilon=2.0), first, 1),
        (dataclasses.replace(mechanism, radius=0.5), first, 1),
        (mechanism, second, 1),
        (mechanism, first, 2),
    ):
        other_noise = record_standard_noise(changed, problem, seed)
        assert abs(np.corrcoef(noise, other_noise)[0, 1]) < 5 / math.sqrt(len(noise))


@pytest.mark.parametrize(
    ("split", "description"),
    [
        (RandomShare(0.25), "a random 0.25 of the ratings"),
        (SharePerUser(0.25), "a random 0.25 of every user's ratings"),
        (LeaveLast(), "the latest rating of every user"),
    ],
)
def test_every_split_says_what_it_is(stars, split, description):
    problem = build_problem(stars, Task.RATINGS, split=split)
    assert problem.split == description
    assert len(problem.train) + len(problem.test) == len(stars.ratings)
