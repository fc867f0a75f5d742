"""The answer for own ratings: its numbers against direct computations, its words, its command."""

import dataclasses
import json
import math
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Future

import numpy as np
import pytest
from scipy.stats import norm

from dpmc_core import metrics, registry
from dpmc_core.errors import DpmcError
from dpmc_core.experiment import fit, measure, measure_model
from dpmc_core.mechanisms.user_ranking import ProtectedUnit
from dpmc_core.model import Task
from dpmc_core.privacy import USER_EMPTIED, Change
from dpmc_core.privacy.accounting import gaussian_epsilon, gaussian_mu
from dpmc_core.problem import build_problem
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_data import datasets
from dpmc_lab import sweep
from dpmc_lab.cli import main, promises
from dpmc_lab.store import Store
from dpmc_lab.study import answer as core
from dpmc_lab.study.advice import PrivacyUnit
from dpmc_lab.study.answer import Inquiry, UserScoreCache, UserScores, Verdict
from dpmc_lab.study.paired import IntervalEstimate
from dpmc_lab.study.release_command import ReleaseCommand
from dpmc_lab.sweep.engine import run_unit
from dpmc_lab.sweep.grid import format_command_options
from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views import answer as words
from dpmc_lab.views import cards, lines
from tests.slow_helpers import mark_rest_slow
from tests.waiting import PATIENCE_SECONDS, wait_for

PUBLIC_FACTS = PublicFacts(users=600, items=200, low=1, high=5)
QUESTION = Inquiry(task=Task.RATINGS)
SHARED_CACHE = UserScoreCache()  # by earlier tests: a run is the same whoever asks


@pytest.fixture(scope="module")
def restaurants():
    return datasets.load("restaurants")


def plan_units(dataset, seeds, question=QUESTION):
    advice = question.find_advice(dataset.ratings.public)
    source = sweep.drop_names(sweep.SplitSource(dataset))
    grid = question.build_grid(advice, dataset.name, seeds=seeds)
    units = core.add_later_publications(question, sweep.build_plan(grid, [source]).units)
    return question, advice, source, units


def run_units(question, dataset, cache=None, seeds=core.SEEDS):
    """Return the plan of a question on a data set, with its runs done."""
    _, advice, source, units = plan_units(dataset, seeds, question)
    cache = cache or SHARED_CACHE
    core.run_missing_units(units, source, cache)
    return advice, units, cache


@pytest.mark.parametrize(
    ("data", "method", "metric"),
    [
        ("restaurants", "private-effects", "rmse"),
        ("restaurants", "input-flip", "accuracy"),
        ("bookshop-clicks", "private-popularity", "hr@10_full"),
    ],
)
def test_each_rating_adds_up_to_the_metric(data, method, metric):
    mechanism = registry.create(method, epsilon=1.0)
    task = mechanism.task
    problem = build_problem(datasets.load(data), task)
    result = measure(fit(mechanism, problem, 0))
    values = metrics.score_test_ratings(task, result.model, problem.train, problem.test)
    mean = float(np.nanmean(values))
    metric_value = measure_model(result.mechanism, result.model, problem, 0)[metric]
    assert metrics.choose_headline_metric(task).name == metric
    assert (math.sqrt(mean) if metric == "rmse" else mean) == pytest.approx(metric_value, rel=1e-12)
    scores = UserScores.from_result(result)
    assert scores.totals.sum() / scores.counts.sum() == pytest.approx(mean)
    assert scores.given.sum() == len(problem.train)
    rated = np.bincount(problem.train.items, minlength=problem.train.public.items)
    popular = np.argsort(-rated, kind="stable")[: core.count_head_items(len(rated))]
    test_items = problem.test.items[~np.isnan(values)]
    assert scores.counts.sum(axis=0).tolist() == [
        m := np.isin(test_items, popular).sum(),
        len(test_items) - m,
    ]


def test_interactions_among_too_few_others_are_not_counted():
    """User 0 has 5 of 12 items and user 1 one: of the first's 7 others no list of ten is left."""
    users, items = [0, 0, 0, 0, 0, 1, 1], [0, 1, 2, 3, 4, 5, 6]
    held_out = np.arange(7) % 2 == 0
    held_out[[0, 2]] = False  # the last of either user
    public = PublicFacts(users=2, items=12, low=0, high=1)
    all_of = Ratings.build(users, items, np.ones(7), public)
    problem = build_problem((all_of.select(~held_out), all_of.select(held_out)), Task.RANKING)
    model = fit(registry.create("popularity"), problem, 0).model
    values = metrics.score_test_ratings(Task.RANKING, model, problem.train, problem.test)
    assert np.isnan(values).tolist() == [True, False]


def test_a_repeated_release_is_composed_exactly():
    guarantee = registry.create("private-effects", epsilon=1.0).guarantee(PUBLIC_FACTS)
    year = guarantee.repeat(52).certified(USER_EMPTIED, 1e-6).epsilon
    assert year == pytest.approx(gaussian_epsilon(math.sqrt(52) * gaussian_mu(1.0, 1e-6), 1e-6))
    assert year == pytest.approx(9.0946, abs=1e-3)
    flips = registry.create("input-flip", epsilon=0.5).guarantee(PUBLIC_FACTS)
    assert flips.repeat(12).certified().epsilon == pytest.approx(6.0)


@pytest.mark.parametrize("times", mark_rest_slow([1, 52, 12, 365], first=2))
@pytest.mark.parametrize("budget", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(
    ("task", "protect"),
    [
        (Task.RATINGS, PrivacyUnit.PERSON),
        (Task.RANKING, PrivacyUnit.PERSON),
        (Task.RATINGS, PrivacyUnit.RATING),
        (Task.RANKING, PrivacyUnit.RATING),
        (Task.BINARY, PrivacyUnit.RATING),
    ],
)
def test_what_a_budget_leaves_each_time_adds_up_to_it(task, protect, budget, times):
    question = Inquiry(task=task, privacy_unit=protect, epsilon=budget, times=times)
    advice = question.find_advice(PUBLIC_FACTS)
    guarantee = advice.mechanism.guarantee(question.prepare_public_facts(PUBLIC_FACTS))
    spent = guarantee.repeat(times).certified(question.change, 1e-6).epsilon
    if times > 1:
        assert 0.999 * budget <= spent <= budget
    else:
        assert advice.mechanism.epsilon == budget
    assert question.calibrate_curve(advice.mechanism.id, PUBLIC_FACTS)[budget] == advice.mechanism


def test_a_week_of_a_year_gets_what_the_composition_of_gaussians_leaves(restaurants):
    """The verdict and the attacker's number, against mu / sqrt(52) and a run at this epsilon."""
    mu = gaussian_mu(1.0, 1e-6)
    advice, units, cache = run_units(
        question := Inquiry(task=Task.RATINGS, times=52), restaurants, seeds=(1, 2)
    )
    each = advice.mechanism.epsilon
    assert each == pytest.approx(gaussian_epsilon(mu / math.sqrt(52), 1e-6), rel=1e-4)
    week = core.compute_finding(question, advice, units, cache, restaurants.ratings)
    once = dataclasses.replace(question, times=1, epsilon=each)
    advice, units, cache = run_units(once, restaurants, seeds=(1, 2))
    run = core.compute_finding(once, advice, units, cache, restaurants.ratings)
    assert (week.verdict, week.method, week.gain_share) == (run.verdict, run.method, run.gain_share)
    assert week.attack.right == pytest.approx(norm.cdf(mu / 2), rel=1e-4)
    guarantee = week.mechanism.guarantee(restaurants.ratings.public)
    assert week.attack.right == guarantee.repeat(52).attacker_accuracy(USER_EMPTIED)
    assert run.attack.right < week.attack.right
    assert (run.year, run.decision) == (None, (run.verdict, run.gain_share))
    sentences = words.format_answer(week)
    assert f"leaves epsilon {each:.5g} each time; every number here is at epsilon {each:.5g}" in (
        sentences.unit
    )
    assert "Budget: epsilon 1 for a year, delta 1e-6." in sentences.unit
    assert "at most 54.8 % of the time" in sentences.attacker
    assert "next year's add to it on the same ratings" in sentences.attacker


def test_a_year_is_the_average_of_its_publications_and_the_last_of_them(restaurants):
    """Squared errors of the runs themselves, weighted by hand for four publications."""
    question = Inquiry(task=Task.RATINGS, epsilon=20.0, times=4)
    advice, units, cache = run_units(question, restaurants, seeds=(1, 2))
    finding = core.compute_finding(question, advice, units, cache, restaurants.ratings)
    # The second and the third lie half and log 3 / log 4 of the way from the first to the fourth.
    last_share = (0.5 + math.log(3, 4) + 1) / 4
    source, errors = sweep.SplitSource(restaurants), {}
    for unit in units:
        if unit.mechanism.id == advice.mechanism.id:
            result = sweep.run_unit_locally(unit, source)[0]
            errors.setdefault(unit.seed, []).append(result.metrics["rmse"])
            publication = getattr(unit.mechanism, "publication", 1)
            assert publication == (1, 4)[len(errors[unit.seed]) - 1]
    first, last = np.array([*errors.values()]).T
    assert finding.method.value == pytest.approx(first.mean())
    assert finding.year.last.value == pytest.approx(last.mean())
    average = np.sqrt((1 - last_share) * first**2 + last_share * last**2)
    assert finding.year.method.value == pytest.approx(average.mean())
    gains = [estimate.value - finding.baseline.value for estimate in
             (finding.year.method, finding.reference)]  # fmt: skip
    assert finding.year.kept.value == pytest.approx(gains[0] / gains[1])
    assert finding.decision == (finding.year.verdict, finding.year.kept)
    sentences = words.format_answer(finding)
    assert f"off by {average.mean():.3f} (" in sentences.year
    assert f"the first publication alone: {finding.verdict.value}." in sentences.verdict
    alone = dataclasses.replace(finding, year=None, mechanism=registry.create("dpals", epsilon=1.0))
    assert "learns nothing from earlier ones" in words.format_answer(alone).year
    for catalogue, is_said in (("items.txt", True), ("from-data", False)):
        command = f"dpmc release ours.csv private-effects --catalogue {catalogue}"
        text = words.introduce_release(finding, ReleaseCommand(command, "", command))
        assert (f"to {average.mean():.3f} on average over the year" in text) is is_said
    # A later publication that is missing leaves the year out.
    partial = [u for u in units if u.seed == 1 or type(u.mechanism) is not core.LaterPublication]
    assert core.compute_finding(question, advice, partial, cache, restaurants.ratings).year is None


@pytest.mark.parametrize("times", [1, 2, 12, 52, 365, 100_000])
def test_the_publications_that_are_run_give_the_average_of_all(times):
    numbers = np.array(core.list_publications(times), dtype=float)
    weights = core.weigh_publications(times)
    assert (numbers[0], numbers[-1], len(numbers)) == (1, times, len({*numbers}))
    assert weights.sum() == pytest.approx(1)
    every = np.arange(1.0, times + 1)
    for shift in (1, 5, 20, 100):
        missed = weights @ (1 / (numbers + shift)) - (1 / (every + shift)).mean()
        assert abs(missed) * (1 + shift) < 0.02


def test_a_budget_for_each_publication_states_what_a_year_adds_up_to(restaurants):
    question = Inquiry(task=Task.RATINGS, times=52, per=core.BudgetPeriod.PUBLICATION)
    advice, units, cache = run_units(question, restaurants, seeds=(1, 2))
    assert advice.mechanism.epsilon == 1.0
    finding = core.compute_finding(question, advice, units, cache, restaurants.ratings)
    year = gaussian_epsilon(math.sqrt(52) * gaussian_mu(1.0, 1e-6), 1e-6)
    assert finding.cost.year.epsilon == pytest.approx(year)
    assert "for a year adds up to epsilon 9.1, delta 1e-6" in words.format_answer(finding).unit
    assert "--per publication" in " ".join(core.build_arguments(question, "restaurants"))


def test_a_curve_over_budgets_has_no_row_at_another_epsilon(restaurants, tmp_path):
    question = Inquiry(task=Task.RATINGS, times=52)
    advice, source = plan_units(restaurants, (1,), question)[1:3]
    curve = question.calibrate_curve(advice.mechanism.id, restaurants.ratings.public)
    each = curve[1.0].epsilon
    assert [*curve] == list(EPSILONS)
    methods = {1.0: curve[1.0], 9.0: registry.create(advice.mechanism.id, epsilon=1.0)}
    grid = question.build_grid(advice, "restaurants", seeds=(1, 2), curve=methods)
    with Store(tmp_path / "results.sqlite") as store:
        core.run_missing_units(
            sweep.build_plan(grid, [source]).units, source, UserScoreCache(), store=store
        )
        rows = lines.load_curve_rows(store, [advice.mechanism.id], [question.metric])
    chart = lines.build_curve_chart(rows, [advice.mechanism.id], question.metric)
    placed = words.place_on_budgets(chart, curve)
    assert placed.lines[0].epsilon.tolist() == [1.0]
    assert placed.lines[0].interval_at(1.0) == chart.lines[0].interval_at(each)
    (gain,) = words.list_gains_by_epsilon(placed, question, curve)
    assert (gain.epsilon, gain.each) == (1.0, each)
    table = words.tabulate_gains([gain], placed)
    assert [*table][:2] == ["epsilon for a year", "epsilon each time"]
    assert (table["epsilon for a year"], table["epsilon each time"]) == (["1"], [f"{each:g}"])


# --- beside one's own system ---------------------------------------------------------------------


def test_the_written_split_is_what_runs_learn_from_and_are_measured_on(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = {(u, i): rng.integers(1, 6) for u in range(30) for i in range(20) if rng.random() < 0.5}
    rows = [f"007-{u},b{i},{value}\n" for (u, i), value in table.items()]
    (tmp_path / "ours.csv").write_text("user,item,rating\n" + "".join(rows))
    argv = ["answer", "ours.csv", "--range", "1:5", "--seeds", "1:2", "--often", "once"]
    argv += ["--holdout", "0.3", "--no-curve", "--json"]
    assert main([*argv, "--write-split", "splits"]) == 0
    written = json.loads(capsys.readouterr().out)
    references = []
    for seed in "12":
        train, test = (f"{written['folder']}/{side}-{seed}.csv" for side in ("train", "test"))
        typed = ["--json", "--baselines", "none", "--range", "1:5"]
        assert main(["fit", train, "item-mean", "--test", test, *typed]) == 0
        read = json.loads(capsys.readouterr().out)["metrics"]
        fit_argv = ["fit", "ours.csv", "item-mean", "--holdout", "0.3", "--seed", seed]
        assert main([*fit_argv, *typed]) == 0
        run = json.loads(capsys.readouterr().out)["metrics"]
        references.append(read["rmse"])
        assert references[-1] == pytest.approx(run["rmse"])
        texts = ((tmp_path / name).read_text().splitlines(True)[1:] for name in (train, test))
        assert sorted([*next(texts), *next(texts)]) == sorted(rows)

    command = written["command"].replace("VALUE1,VALUE2", ",".join(map(str, references)))
    assert main([*shlex.split(command)[1:], "--no-curve", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["reference"]["value"] == pytest.approx(np.mean(references))
    assert report["reference"]["low"] < min(references)
    assert "by your own model" in report["said"]["found"]
    assert {*report} >= {"method", "floor", "reference"}

    assert main([*argv, "--write-split", "splits"]) == 1
    assert "splits is there already" in capsys.readouterr().err
    assert main([*argv, "--reference", "0.9,1,1.1"]) == 1
    message = "must be one value, or one for each of the 2 seeds in their order, got 3 values"
    assert message in " ".join(capsys.readouterr().err.replace("'", "").split())


@pytest.mark.parametrize(("task", "values"), [("ranking", {"1"}), ("binary", {"1", "-1"})])
def test_the_written_split_has_what_a_task_is_measured_on(tmp_path, capsys, task, values):
    folder, protect = tmp_path / "splits", {"ranking": "person", "binary": "rating"}[task]
    argv = ["answer", "restaurants", "--task", task, "--protect", protect, "--seeds", "4"]
    assert main([*argv, "--write-split", str(folder)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert metrics.choose_headline_metric(Task(task)).explanation in text
    rows = [line.split(",") for line in (folder / "train-4.csv").read_text().splitlines()]
    assert rows[0] == ["user", "item", "rating"]
    assert {row[2] for row in rows[1:]} == values
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_attacker_is_right_as_often_as_the_trade_off_says(restaurants):
    public = restaurants.ratings.public

    def attack(**options):
        question = Inquiry(**options)
        return core._compute_attack(
            question, question.find_advice(public).mechanism.guarantee(public)
        )

    person = attack(task=Task.RATINGS)
    assert person == (pytest.approx(norm.cdf(gaussian_mu(1.0, 1e-6) / 2)), True)
    assert round(100 * person.right) == 55
    local = {"privacy_unit": PrivacyUnit.RATING}
    assert attack(task=Task.BINARY, **local) == (pytest.approx(math.e / (1 + math.e)), True)
    assert attack(task=Task.RATINGS, **local) == (pytest.approx(math.e / (1 + math.e)), False)


@pytest.mark.parametrize(
    ("task", "protect", "change", "method"),
    [
        (Task.RANKING, PrivacyUnit.PERSON, "user_empty", "private-taste"),
        (Task.RATINGS, PrivacyUnit.PERSON, "user_empty", "private-effects"),
        (Task.BINARY, PrivacyUnit.RATING, "value", "input-flip"),
        (Task.RANKING, PrivacyUnit.RATING, "entry", "dplcf"),
        (Task.RATINGS, PrivacyUnit.RATING, "entry", "modified-laplace"),
    ],
)
def test_whom_to_protect_chooses_unit_and_method(task, protect, change, method):
    question = Inquiry(task=task, privacy_unit=protect, epsilon=0.7)
    advice = question.find_advice(PUBLIC_FACTS)
    assert (question.change, advice.mechanism.id) == (Change(change), method)
    assert advice.mechanism.epsilon == 0.7  # as on other pages, so that their runs are shared
    assert advice.certified.epsilon <= 0.7 * (1 + 1e-12)


def test_items_told_from_noise_are_those_counted_above_it(restaurants):
    """By hand: counts of 1/sqrt(k), against twice the scale on the card."""
    ratings = restaurants.ratings
    method = registry.create("private-effects", epsilon=30.0)
    distinguishable = core.count_distinguishable_items(method, ratings)
    ratings_per_user = np.bincount(ratings.users)
    counts = np.bincount(ratings.items, 1 / np.sqrt(ratings_per_user[ratings.users]))
    scale = method.guarantee(ratings.public).releases.effects.counts.scale
    assert distinguishable.n_distinguishable == np.count_nonzero(counts > 2 * scale)
    assert 0 < distinguishable.n_distinguishable < distinguishable.n_items == 130


def test_laplace_noise_on_a_count_deviates_by_root_two_scales(restaurants):
    method = registry.create("private-popularity", epsilon=0.5, delta=0.0, per=ProtectedUnit.CELL)
    counts = np.bincount(restaurants.ratings.items)
    distinguishable = core.count_distinguishable_items(method, restaurants.ratings)
    assert distinguishable == (np.count_nonzero(counts > 2 * math.sqrt(2) / 0.5), 130)


def test_locally_the_noise_is_that_of_a_debiased_count(restaurants):
    """Flips of m bits with chance f, told as a count: sd sqrt(m f (1 - f)) / (1 - 2 f)."""
    ratings, epsilon = restaurants.ratings, 2.0
    flip = 1 / (1 + math.exp(epsilon))
    each = math.sqrt(flip * (1 - flip)) / (1 - 2 * flip)
    rated = np.bincount(ratings.items, minlength=130)
    rows = core.count_distinguishable_items(registry.create("dplcf", epsilon=epsilon), ratings)
    assert rows.n_distinguishable == np.count_nonzero(rated > 2 * each * math.sqrt(138))
    signs = core.count_distinguishable_items(
        registry.create("input-flip", epsilon=epsilon), ratings
    )
    liked = np.bincount(ratings.items, np.where(ratings.values > 1, 1, -1), minlength=130)
    assert signs.n_distinguishable == np.count_nonzero(
        np.abs(liked) > 2 * 2 * each * np.sqrt(rated)
    )
    assert core.count_distinguishable_items(registry.create("global-mean"), ratings) is None


def test_the_share_kept_is_between_floor_and_reference(restaurants):
    question = Inquiry(task=Task.RATINGS, privacy_unit=PrivacyUnit.RATING, epsilon=10.0)
    advice, units, cache = run_units(question, restaurants, seeds=(1, 2))
    answer = core.compute_finding(question, advice, units, cache, restaurants.ratings)
    source = sweep.SplitSource(restaurants)
    means = {}
    for unit in units:
        metric = sweep.run_unit_locally(unit, source)[0].metrics["rmse"]
        means.setdefault(unit.mechanism.id, []).append(metric)
    mean = {id: np.mean(values) for id, values in means.items()}
    method, baseline, best = (
        mean[id] for id in (advice.mechanism.id, "local-mean", "reference-ratings")
    )
    assert answer.method.value == pytest.approx(method)
    assert answer.gain_share.value == pytest.approx((baseline - method) / (baseline - best))
    assert answer.gain_share.low < answer.gain_share.value < answer.gain_share.high
    assert (answer.seeds, answer.n_private_fits) == (2, 4)


@pytest.mark.parametrize(
    ("keep", "verdict"),
    [
        (0.05, Verdict.AFFORDABLE),
        (0.3, Verdict.CANNOT_TELL),
        (0.35, Verdict.CANNOT_TELL),
        (0.99, Verdict.NOT_AFFORDABLE),
    ],
)
def test_the_verdict_is_where_the_interval_lies(keep, verdict):
    share = IntervalEstimate(0.31, 0.24, 0.39)

    assert core.decide_verdict(share, keep, beaten=False) is verdict
    assert core.decide_verdict(share, keep, beaten=True) is Verdict.BEATEN


@pytest.mark.parametrize("provisional", [True, False])
def test_a_method_that_loses_is_called_worse_than_its_baseline(restaurants, provisional):
    question = Inquiry(task=Task.RATINGS, privacy_unit=PrivacyUnit.PERSON, epsilon=10.0)
    advice, units, cache = run_units(question, restaurants, seeds=(1, 2))
    finding = core.compute_finding(question, advice, units, cache, restaurants.ratings)
    finding = dataclasses.replace(
        finding,
        verdict=Verdict.NOT_AFFORDABLE,
        gain_share=IntervalEstimate(-0.38, -0.65, -0.16),
        provisional=provisional,
    )
    sentences = words.format_answer(finding)
    loss = "It is worse than own averages: use own averages instead."
    assert sentences.verdict.endswith(f"keep 80 % of the benefit. {loss}")
    assert (
        "**-38 % (-65 to -16 %)** of what personal predictions add: worse than own averages."
        in (sentences.found)
    )
    unclear = dataclasses.replace(finding, gain_share=IntervalEstimate(-0.2, -0.5, 0.1))
    assert "worse" not in words.format_verdict(unclear)
    assert "not clearly better than own averages" in words.format_answer(unclear).found


def test_who_pays_most_is_said_where_it_is_clear():
    """Rare items lose half their hits, popular ones none; users with few ratings lose more."""
    users, rng = 800, np.random.default_rng(0)
    ratings_per_user = np.where(np.arange(users) < 400, 4.0, 40.0)

    def scores(rare, few):
        counts = np.ones((users, 2))
        chance = np.full((users, 2), 0.8)
        chance[:, 1] *= rare
        chance[ratings_per_user < 10] *= few
        return UserScores((rng.random((users, 2)) < chance).astype(float), counts, ratings_per_user)

    question = Inquiry(task=Task.RANKING)
    public = PublicFacts(users=users, items=1000, low=0, high=1)
    even = [[scores(1, 1), scores(1, 1), scores(1, 1)] for _ in range(5)]
    assert core._find_payers(even, question, public) == ()
    runs = [[scores(0.5, 0.6), scores(1, 1), scores(1, 1)] for _ in range(5)]
    by_user, by_item = core._find_payers(runs, question, public)
    assert (by_user.by, by_user.limit) == ("users", 10)
    assert (by_item.by, by_item.limit) == ("items", 100)
    assert by_item.loss.value > by_item.others.value > 0
    assert words._format_payer(by_user) == "users with fewer than 10 ratings"


@pytest.mark.slow
def test_a_false_alarm_about_who_pays_is_rare():
    """Of 200 studies in which all lose alike, at most 5 % name a group."""
    rng, users = np.random.default_rng(1), 400
    ratings_per_user = np.where(np.arange(users) < 200, 4.0, 40.0)
    public = PublicFacts(users=users, items=1000, low=0, high=1)

    def scores(chance):
        return UserScores(
            (rng.random((users, 2)) < chance).astype(float), np.ones((users, 2)), ratings_per_user
        )

    named = [
        bool(core._find_payers([[scores(p) for p in (0.3, 0.2, 0.5)] for _ in range(3)],
                          Inquiry(task=Task.RANKING), public))
        for _ in range(200)
    ]  # fmt: skip
    assert sum(named) <= 10


@pytest.mark.slow
def test_what_runs_found_is_kept_for_this_user_alone(tmp_path, restaurants):
    question = Inquiry(task=Task.RATINGS)
    cache = UserScoreCache.from_store_path(tmp_path / "results.sqlite")
    _, units, _ = run_units(question, restaurants, cache, seeds=(1,))
    folder = tmp_path / "results-users"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    reloaded = UserScoreCache.from_store_path(tmp_path / "results.sqlite")
    for unit in units:
        assert np.array_equal(reloaded.get(unit.key).totals, cache.get(unit.key).totals)
    (folder / f"{units[0].key}.npz").write_bytes(b"broken")
    assert UserScoreCache.from_store_path(tmp_path / "results.sqlite").get(units[0].key) is None


@pytest.mark.slow
def test_runs_are_rows_that_a_sweep_need_not_compute(tmp_path, restaurants):
    """The answer first, then Compare's sweep: nothing is spent twice."""
    _, _, source, units = plan_units(restaurants, (1, 2))
    with Store(tmp_path / "results.sqlite") as store:
        core.run_missing_units(units, source, UserScoreCache(), store=store)
        grid_options = {"mechanisms": ["private-effects"], "epsilons": [1.0], "seeds": [1, 2]}
        grid = sweep.Grid(data=["restaurants"], **grid_options)
        units = sweep.build_plan(grid).units
        assert store.find_stored_keys(unit.key for unit in units) == {unit.key for unit in units}


@pytest.mark.slow
def test_runs_side_by_side_find_the_same(restaurants, tmp_path):
    question, advice, source, units = plan_units(restaurants, (1, 2))
    serial, parallel, progress = UserScoreCache(), UserScoreCache(), []
    core.run_missing_units(units, source, serial)
    with Store(tmp_path / "results.sqlite") as store:
        options = {"jobs": 2, "report_progress": lambda *now: progress.append(now)}
        core.run_missing_units(units, source, parallel, store=store, **options)
        assert store.find_stored_keys(unit.key for unit in units) == {unit.key for unit in units}
    assert progress == [(k, len(units)) for k in range(len(units) + 1)]
    findings = (
        core.compute_finding(question, advice, units, cache, restaurants.ratings)
        for cache in (serial, parallel)
    )
    assert next(findings) == next(findings)


def test_a_run_that_is_killed_goes_on_alone_and_is_then_given_up(restaurants, monkeypatch):
    _, _, source, units = plan_units(restaurants, (1,))
    requests = []

    class Killed:
        def __init__(self, _, jobs):
            requests.append(jobs)

        def submit(self, unit, also):
            answer = Future()
            if requests == [2] or unit == units[-1]:
                answer.set_exception(BrokenExecutor())
            else:
                answer.set_result(run_unit(unit, source, also=also))
            return answer

        def close(self, *, at_once):
            pass

    monkeypatch.setattr(core, "LocalPool", Killed)
    cache = UserScoreCache()
    with pytest.raises(DpmcError, match="killed twice"):
        core.run_missing_units(units, source, cache, jobs=2)
    assert requests == [2, 1]
    assert cache.get(units[-1].key) is None


def test_stopped_runs_are_not_kept(restaurants):
    _, _, source, units = plan_units(restaurants, core.SEEDS)
    cache = UserScoreCache()
    options = {"stop": lambda: cache.get(units[1].key) is not None}
    with pytest.raises(DpmcError, match="stopped"):
        core.run_missing_units(units, source, cache, **options)
    assert [cache.get(unit.key) is not None for unit in units[:3]] == [True, True, False]


def test_options_of_reading_are_typed_as_commands_take_them():
    """What the task decides is left out, and a table has an option of its own."""
    reading = {"low": 1.0, "high": 5.0, "items": "facts.csv", "for_ranking": True, "max_rows": 9}
    assert format_command_options(reading, (), None) == ["--range=1:5", "--items", "facts.csv"]
    assert format_command_options({"items": 50}, (), None) == ["--read", "items=50"]


# --- words ---------------------------------------------------------------------------------------


def test_epsilons_are_rounded_against_the_one_who_promises():
    text = cards.format_epsilon
    assert text(9.09457) == "9.1"
    assert text(2.01107) == "2.02"
    assert text(1.0) == text(1.0000000000001) == text(0.9999999999989) == "1"
    assert text(0.1206, round_down=True) == "0.12"
    assert text(0.0192399, round_down=True) == "0.0192"
    assert (text(52.0), text(99.91), text(999.2), text(12345.2)) == ("52", "100", "1,000", "12,346")
    assert text(1234.9, round_down=True) == "1,234"


# --- the command ---------------------------------------------------------------------------------


@pytest.mark.parametrize("watched", [True, False])
def test_whoever_watches_sees_a_coarse_curve_first(monkeypatch, watched):
    """The private runs of one seed at few epsilons; then the answer, of which no run is lost."""
    batches = []

    def record(units, *_, **__):
        batches.append(units)
        raise KeyboardInterrupt

    monkeypatch.setattr(core, "run_missing_units", record)
    argv = ["answer", "restaurants", *["--progress"] * watched]
    assert main([*argv, "--seeds", "1:3"]) == 130
    runs = [(unit.mechanism.id, unit.seed, unit.epsilon) for unit in batches[0]]
    public = datasets.load("restaurants").ratings.public
    methods = Inquiry(task=Task.RATINGS, times=52).calibrate_curve("private-effects", public)
    curve = [("private-effects", 1, methods[budget].epsilon) for budget in core.COARSE_EPSILONS]
    assert (runs[:5] == curve) is watched
    if watched:  # then what they are compared with
        assert all(registry.adds_noise(type(unit.mechanism)) for unit in batches[0][:15])
    assert {epsilon for _, seed, epsilon in runs if seed == 2} == {methods[1.0].epsilon, None}


@pytest.mark.parametrize(
    ("n_ratings", "shape", "processes", "measured"),
    [
        (300_000, (20_000, 5_000), 3, 499),  # of an answer on two cores
        (3_000_000, (200_000, 18_000), 3, 1_590),
        (3_000_000, (200_000, 18_000), 1, 550),  # of a release
    ],
)
def test_memory_is_said_before_training_as_it_was_measured(
    capsys, n_ratings, shape, processes, measured
):
    """Within a factor of two of the peaks of all processes together, in MB."""

    class LargeRatings:
        public = PublicFacts(users=shape[0], items=shape[1], low=1, high=5)

        def __len__(self):
            return n_ratings

    promises._announce_memory(LargeRatings(), processes)
    err = capsys.readouterr().err
    megabytes = float(re.search(r"takes about ([\d,]+) MB of memory", err)[1].replace(",", ""))
    assert measured / 2 < megabytes < 2 * measured
    assert "MB are free" in err


@pytest.mark.slow
def test_the_command_as_json_with_the_curve(capsys, tmp_path):
    store = tmp_path / "mine.sqlite"
    argv = ["answer", "restaurants", "--protect", "rating", "--often", "once", "--json"]
    argv += ["--seeds", "1:2", "--store", str(store)]
    assert main(argv) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["mechanism"] == "modified-laplace"
    assert report["told_from_noise"]["of"] == 130
    assert [point["epsilon"] for point in report["curve"]] == list(EPSILONS)
    point = next(point for point in report["curve"] if point["epsilon"] == 1.0)
    assert point["share"] == pytest.approx(report["kept"]["value"])
    assert report["epsilon_of_a_year"] == report["certified"]["epsilon"] == 1.0
    start = time.monotonic()
    assert main(argv) == 0
    assert json.loads(capsys.readouterr().out) == report  # all of it was there
    assert time.monotonic() - start < 20


@pytest.mark.slow
def test_ctrl_c_ends_it_with_what_is_there(tmp_path):
    command = [sys.executable, "-m", "dpmc_lab", "answer", "restaurants", "--seeds", "1:400"]
    command += ["--no-curve", "--store", str(tmp_path / "mine.sqlite")]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    folder = tmp_path / "mine-users"

    def has_four_seeds():
        assert child.poll() is None, child.stderr.read()
        return folder.is_dir() and len(list(folder.iterdir())) >= 24  # six a seed

    wait_for(has_four_seeds)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=PATIENCE_SECONDS)
    assert child.returncode == 130
    assert "Predictions are off by" in out
    assert "the same command goes on from there" in err
    assert "Traceback" not in err
