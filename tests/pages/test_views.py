"""Views agree with direct computations on small data."""

import dataclasses
import json
import shlex

import numpy as np
import pytest
from scipy import stats

from dpmc_core import registry
from dpmc_core.experiment import run
from dpmc_core.links import LOGISTIC, Probit
from dpmc_core.metrics import METRICS
from dpmc_core.model import Factors, Task
from dpmc_core.privacy import (
    RATING,
    USER_EMPTIED,
    USER_REPLACED,
    Budget,
    Gaussian,
    Laplace,
    Releases,
)
from dpmc_core.problem import RandomShare, SharePerUser, build_problem
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_data import datasets
from dpmc_lab.cli import main
from dpmc_lab.views import cards, data, lines, noise, run_card
from dpmc_lab.views import train as train_views
from pages.ui import learned

MECHANISMS = [id for id, cls in registry.MECHANISMS.items() if registry.adds_noise(cls)]
BINARY = [id for id in MECHANISMS if registry.get_mechanism(id).task is Task.BINARY]


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    rng = np.random.default_rng(7)
    observed = rng.random((40, 30)) < np.linspace(0.9, 0.1, 30)
    users, items = np.nonzero(observed)
    values = np.where(rng.random(len(users)) < 0.6, 1.0, -1.0)
    return Ratings.build(users, items, values, PublicFacts(users=40, items=30, low=-1, high=1))


@pytest.fixture(scope="module")
def model() -> Factors:
    rng = np.random.default_rng(8)
    return Factors(rng.normal(size=(40, 3)), rng.normal(size=(30, 3)))


def test_the_busiest_come_first():
    assert data.rank_by_count(np.array([1, 5, 0, 5]), 3).tolist() == [1, 3, 0]


def test_tails_fall(ratings):
    for tail in data.compute_tails(ratings):
        assert (np.diff(tail.ratings) <= 0).all()
        assert tail.rank[0] == 1
    users, items = data.compute_tails(ratings)
    first_count, last_count = users.ratings[0], users.ratings[-1]
    assert (
        f"busiest user has {first_count} ratings, the least busy {last_count};"
        in data.describe_tails(users, items)
    )


def test_chances_go_through_the_mechanisms_own_link(ratings, model):
    probit = registry.create("input-flip", epsilon=1.0, link=Probit(2.0))
    assert train_views.find_link(probit) == Probit(2.0)
    assert train_views.find_link(registry.create("majority")) == LOGISTIC
    errors = train_views.compute_errors(model, Task.BINARY, ratings, Probit(2.0))
    chance = Probit(2.0).probability(model.predict(ratings.users, ratings.items))
    np.testing.assert_allclose(errors, np.abs(chance - (ratings.values > 0)))


def test_top_items_are_the_best_unrated(ratings, model):
    top_items = train_views.list_top_items(model, ratings, user=3)
    rated = set(ratings.items[ratings.users == 3].tolist())
    scores = {i: model.left[3] @ model.right[i] for i in range(30) if i not in rated}
    expected = sorted(scores, key=scores.get, reverse=True)[:10]
    assert [item.item for item in top_items] == expected


def test_interval_is_scipys():
    values = [0.61, 0.64, 0.6, 0.66]
    view = lines.compute_interval(values)
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (view.low, view.high) == pytest.approx((low, high))
    assert lines.compute_interval([0.5]).half_width == 0


def test_a_line_that_is_chosen_is_not_drawn_as_a_guess_as_well():
    metric, shipped_rows = METRICS["accuracy"], lines.load_shipped_rows("restaurants", "input-flip")
    single_chart = lines.build_curve_chart({}, ["input-flip"], metric, shipped_rows)
    (baseline,) = single_chart.private_baselines
    assert baseline.mechanism == "private-majority"
    assert (lines.BASELINE, baseline.interval_at(1.0)) in single_chart.list_endpoints(1.0)
    joint_chart = lines.build_curve_chart(
        {}, ["input-flip", "private-majority"], metric, shipped_rows
    )
    assert {line.mechanism for line in joint_chart.lines} == {"input-flip", "private-majority"}
    assert joint_chart.private_baselines == ()


def test_the_noise_of_every_release_is_told_at_an_epsilon():
    public = PublicFacts(users=943, items=1682, low=1, high=5)
    scales = noise.compute_noise_scales("private-effects", [0.1, 1.0], public, {})
    table = noise.tabulate_noise_scales(scales)
    assert len({release.name for release in scales}) == len(scales) == 7
    for release in scales:
        column = table[f"{release.name}: {release.query}"]
        assert column == pytest.approx(release.scale.tolist(), rel=1e-3)
    assert f"({scales[0].name})" in noise.conclude_noise_scales(scales)


@pytest.mark.parametrize("id", MECHANISMS)
def test_card_row_shows_what_is_certified(ratings, id):
    guarantee = registry.create(id, epsilon=1.5).guarantee(ratings.public)
    row = cards.build_guarantee_row("name", guarantee)
    assert row.claimed == 1.5
    assert row.per_rating == guarantee.certified(RATING).epsilon
    assert row.per_user == guarantee.certified(USER_EMPTIED).epsilon
    assert cards.is_upheld(guarantee) == (row.certified <= 1.5 * (1 + 1e-9))
    if not cards.is_upheld(guarantee):
        assert row.reason


def test_ledger_costs_add_up_to_the_certified_value(ratings):
    for id in MECHANISMS:
        guarantee = registry.create(id, epsilon=1.5).guarantee(ratings.public)
        total = sum(row.epsilon for row in cards.build_ledger(guarantee, RATING))
        certified = guarantee.certified(RATING).epsilon
        if any(isinstance(release, Gaussian) for _, release in guarantee.releases):
            assert total >= certified  # Gaussian releases compose better than by adding up
        else:
            assert total == pytest.approx(certified)


@dataclasses.dataclass(frozen=True)
class Sum(Releases):
    sum: Laplace | Gaussian


@pytest.mark.parametrize("relation", [USER_EMPTIED, USER_REPLACED])
def test_ledger_counts_the_claims_own_unit_under_its_own_relation(relation, ratings):
    table = {USER_EMPTIED: 1, USER_REPLACED: 2}
    release = Laplace(query="sum", shape=(3,), sensitivity=table, scale=5.0)
    guarantee = registry.create("input-flip", epsilon=1.0).guarantee(ratings.public)
    guarantee = dataclasses.replace(guarantee, change=relation, releases=Sum(release))
    (row,) = cards.build_ledger(guarantee)
    assert (
        row.epsilon == guarantee.certified().epsilon == (0.2 if relation is USER_EMPTIED else 0.4)
    )


def test_ledger_prices_gaussian_noise_at_the_claims_delta(ratings):
    guarantee = registry.create("input-flip", epsilon=1.0).guarantee(ratings.public)
    release = Gaussian(query="sum", shape=(3,), sensitivity={RATING: 1}, scale=5.0)
    guarantee = dataclasses.replace(guarantee, releases=Sum(release), claimed=Budget(1.0, 1e-6))
    (row,) = cards.build_ledger(guarantee, RATING)
    assert row.epsilon == pytest.approx(guarantee.certified(RATING).epsilon)


def test_a_row_of_ratings_costs_as_many_epsilons(ratings):
    guarantee = registry.create("input-flip", epsilon=0.5).guarantee(ratings.public)
    assert cards.certify_ratings(guarantee, 20).epsilon == pytest.approx(10)


def build_finished_run(result, data, split, fresh=False, **options):
    return run_card.FinishedRun(
        result=result, data=data, title="data", split=split, fresh=fresh, **options
    )


def write_ratings(path):
    rng = np.random.default_rng(3)
    users, items = np.nonzero(rng.random((25, 20)) < 0.5)
    rows = [f"{u},i{i},{rng.integers(-4, 6) / 2}" for u, i in zip(users, items, strict=True)]
    path.write_text("\n".join(["who,what,stars", *rows]))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("split", [RandomShare(0.1 + 0.2), SharePerUser(1 / 3)])
def test_the_printed_command_repeats_a_run_on_a_file_to_the_last_digit(split, tmp_path, capsys):
    """Given: a range that begins with a minus, columns, numbers that six digits do not hold."""
    ratings_path = str(write_ratings(tmp_path / "my ratings.csv"))
    dataset = datasets.load(ratings_path, low=-2.0, high=2.5, user="who", item=2, rating=3)
    problem = build_problem(dataset, Task.RATINGS, split=split, seed=4)
    mechanism = registry.create("private-item-mean", epsilon=1 + 1 / 3, delta=1.23456789e-5)
    result = run(mechanism, problem, 4)
    repeat = build_finished_run(result, dataset.loaded_name, split, reading=dataset.reading)
    assert main(shlex.split(run_card.format_fit_command(repeat))[1:]) == 0
    repeated = json.loads(capsys.readouterr().out)
    assert repeated["settings"] == result.as_dict()["settings"]
    assert repeated["data"] | {"name": ""} == result.as_dict()["data"] | {"name": ""}
    assert repeated["metrics"] == dict(result.metrics)


def test_a_run_hides_a_fresh_seed_and_a_fixed_one_is_warned_of():
    problem = build_problem(datasets.load("restaurants"), Task.BINARY, seed=99)
    result = run(registry.create("gradient", epsilon=2.0), problem, 99)
    fresh = build_finished_run(result, "restaurants", RandomShare(), fresh=True)
    assert json.loads(run_card.format_run_json(fresh))["seed"] is None
    fixed = build_finished_run(result, "restaurants", RandomShare())
    assert json.loads(run_card.format_run_json(fixed))["seed"] == 99
    assert run_card.SEED_NOTE in learned.render_run_report(fixed)
    assert run_card.SEED_NOTE not in learned.render_run_report(fresh)
    assert "--seed" not in run_card.format_fit_command(fresh)
