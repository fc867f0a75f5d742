"""A run as a film: a corner of the matrix, fixed axes, one person's list, and never too much."""

import dataclasses
import io
import pickle

import numpy as np
import pytest

from dpmc_core import experiment, registry
from dpmc_core.metrics import METRICS, choose_headline_metric
from dpmc_core.model import Constant, Step, Task
from dpmc_core.privacy import record_publications
from dpmc_core.problem import RandomShare, build_problem
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_data import datasets
from dpmc_lab.views import run_card
from dpmc_lab.views import train as train_views
from dpmc_lab.views.train import CORNER_SIZE, MAX_FRAMES, RunRecorder
from pages.ui import runs
from pages.ui.charts.train import build_stage


@pytest.fixture(scope="module")
def problem():
    return build_problem(datasets.load("restaurants"), Task.BINARY, seed=1)


def run_training(id, data="restaurants", seed=1, number=1, **settings):
    """Return a finished run as a training job returns it."""
    cls = registry.get_mechanism(id)
    dataset = datasets.load(data)
    split = RandomShare()
    work = runs.Training(
        registry.create(id, **{"epsilon": 2.0} | settings),
        lambda: build_problem(dataset, cls.task, split=split, seed=seed),
        seed,
        {
            "number": number,
            "data": data,
            "title": dataset.title,
            "split": split,
            "fresh": False,
        },
    )
    return work(lambda *_, **__: None, lambda: False)


@pytest.mark.parametrize("rounds", [1, MAX_FRAMES, MAX_FRAMES + 1, 5 * MAX_FRAMES + 7])
def test_a_film_keeps_an_even_choice_of_rounds_and_the_last_one(problem, rounds):
    camera = RunRecorder(registry.create("gradient", epsilon=1.0), problem)
    for k in range(1, rounds + 1):
        step = Step(k, rounds, Constant(0.1))
        if camera.needs_round(step):
            camera.add_round(k, step.model, 0.5)
    kept_rounds = [frame.round for frame in camera.recording.frames]
    assert len(kept_rounds) <= MAX_FRAMES
    assert kept_rounds[-1] == rounds
    assert min(rounds, MAX_FRAMES // 2) <= len(kept_rounds)
    gaps = np.diff(kept_rounds[:-1])
    assert not len(gaps) or (gaps == gaps[0]).all()
    assert len(pickle.dumps(camera.recording)) < 1e6


LOCAL = ("input-flip", "objective", "modified-laplace", "randomised-response", "private-majority")


@pytest.mark.parametrize("id", LOCAL)
def test_what_is_released_of_each_rating_is_in_the_units_of_the_ratings(id):
    mechanism = registry.create(id, epsilon=1e4 if id != "randomised-response" else 700.0)
    problem = build_problem(datasets.load("restaurants"), mechanism.task, seed=1)
    corner = train_views.select_corner(mechanism.task, problem)
    with record_publications() as publications:
        experiment.fit(mechanism, problem, 1)
    released = train_views.extract_released_corner(publications[0], corner, problem.train)
    mask = ~np.isnan(corner.rated) & ~np.isnan(released)
    assert mask.sum() > 10
    assert np.abs(released - corner.rated)[mask].max() < 0.02  # hardly any noise: the same again


def test_as_many_counts_as_ratings_are_no_ratings():
    public = PublicFacts(users=6, items=5, low=0, high=1)
    ratings = Ratings.build([0, 1, 2, 3, 4], [0, 1, 2, 3, 4], np.ones(5), public)
    mechanism = registry.create("private-popularity", epsilon=1.0)
    problem = dataclasses.replace(
        build_problem((ratings, ratings), mechanism.task), train=ratings, test=ratings
    )
    recorder = RunRecorder(mechanism, problem)
    assert not recorder.witnesses
    with record_publications() as publications:
        for _ in mechanism.fit(ratings, np.random.default_rng(0)):
            pass
    recorder.add_publications(publications)
    assert not recorder.recording.query


@pytest.mark.slow
def test_the_film_of_a_run_ends_with_what_the_run_measured():
    run = run_training("private-frank-wolfe")
    film = run.recording
    assert [frame.round for frame in film.frames] == list(range(1, run.result.rounds + 1))
    assert film.frames[-1].metric == run.result.metrics["rmse"]
    assert film.baseline == run.result.baselines[run.result.baseline_id]["rmse"]
    assert film.reference == run.result.baselines["reference-ratings"]["rmse"]
    top = train_views.list_top_items(run.result.model, run.result.problem.train, film.corner.person)
    assert film.frames[-1].top == top
    description = train_views.describe_recording(film)
    for value in (film.baseline, film.reference, film.frames[0].metric, film.frames[-1].metric):
        assert METRICS["rmse"].format_value(value) in description
    assert len(train_views.tabulate_recording(film)["round"]) == len(film.frames)


def make_recording(metric, value, baseline=None, reference=None):
    """A recording of three rounds, the last of which was not measured."""
    values = () if value is None else (0.123, value, None)
    frames = [train_views.RecordedRound(k + 1, None, v, ()) for k, v in enumerate(values)]
    return train_views.RunRecording(
        id="a",
        mechanism="gradient",
        task=Task.BINARY,
        corner=None,
        metric=METRICS[metric],
        axis=(0.0, 1.0),
        baseline=baseline,
        reference=reference,
        frames=tuple(frames),
    )


@pytest.mark.parametrize(
    ("values", "title"),
    [
        ((None, 0.55, 0.73), "accuracy"),  # no round yet
        ((0.6,), "accuracy"),  # nothing to compare with
        ((0.6, None, 0.73), "accuracy"),
        ((0.55, 0.55, 0.73), "No better than one answer for all"),
        ((0.5504, 0.5501, 0.73), "No better than one answer for all"),  # both read 55.0 %
        ((0.5, 0.55), "No better than one answer for all"),
        ((0.6, 0.55), "Better than one answer for all"),
        ((0.73, 0.55, 0.7301), "As good as without privacy"),
        ((0.74, 0.55, 0.73), "As good as without privacy"),
        ((0.56, 0.55, 0.5), "As good as without privacy"),  # learning gains nothing
        ((0.5511, 0.5499, 0.9), "Better than one answer for all"),  # one split tells no share
        ((0.8989, 0.5499, 0.9003), "Better than one answer for all"),
    ],
)
def test_the_title_of_a_curve_says_what_its_last_round_reached(values, title):
    shown = make_recording("accuracy", *values)
    if title == "accuracy":
        title = shown.metric.panel_title
    assert train_views.conclude_recording(shown) == title


def test_the_title_of_a_curve_compares_with_the_baseline_or_with_an_earlier_run():
    rng = np.random.default_rng(1)
    for _ in range(50):
        low, high = sorted(rng.uniform(0.5, 1.5, 2))
        share = rng.uniform(0.02, 0.98)
        for metric, baseline, reference in (("accuracy", low, high), ("rmse", high, low)):
            value = (1 - share) * baseline + share * reference
            shown = make_recording(metric, value, baseline, reference)
            if high - low < 0.1:  # what reads alike is alike
                continue
            title = train_views.conclude_recording(shown)
            assert title == f"Better than {shown.baseline_name}"
            for step, word in ((0.02, "Better than"), (-0.02, "Worse than"), (1e-9, "As good as")):
                worse = step if metric == "rmse" else -step
                earlier = make_recording(metric, value + worse)
                if word != "As good as" or shown.metric.format_value(
                    value
                ) == shown.metric.format_value(value + worse):
                    assert train_views.conclude_recording(shown, earlier) == f"{word} before"


@pytest.mark.parametrize("stopped", ["now", "earlier"])
def test_a_run_whose_reference_was_stopped_is_drawn_as_closely_as_the_other(problem, stopped):
    corner = train_views.select_corner(Task.BINARY, problem)
    whole = make_recording("accuracy", 0.6, 0.55, 0.73)
    whole = dataclasses.replace(whole, corner=corner, frames=())
    cut = dataclasses.replace(whole, reference=None)
    now, earlier = (cut, whole) if stopped == "now" else (whole, cut)
    stage = build_stage(now, live=False, earlier=(earlier, "earlier"))
    assert stage["axis"] == build_stage(whole, live=False)["axis"]


def test_what_is_remembered_holds_no_ratings_but_the_corner():
    run = run_training("input-flip", "movie-night")
    remembered = run_card.remember_run(run, "movie-night")
    size = len(pickle.dumps(remembered))
    assert size < 1e6 < run.result.problem.train.values.nbytes * 3
    arrays = []

    class Finder(pickle.Pickler):
        def reducer_override(self, value):
            if isinstance(value, np.ndarray):
                arrays.append(value.size)
            return NotImplemented

    Finder(io.BytesIO()).dump(remembered)
    assert max(arrays) <= CORNER_SIZE * CORNER_SIZE
    assert remembered.value == run.result.metrics[choose_headline_metric(Task.BINARY).name]


def test_without_its_own_reference_a_remembered_run_borrows_none():
    run = run_training("gradient")
    film = dataclasses.replace(run.recording, reference=0.9)
    result = dataclasses.replace(run.result, baselines={})
    remembered = run_card.remember_run(dataclasses.replace(run, recording=film, result=result), "x")
    assert remembered.recording.reference is None
