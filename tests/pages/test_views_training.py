"""A run as a film: a corner of the matrix, fixed axes, one person's list, and never too much."""

import dataclasses
import io
import pickle

import numpy as np
import pytest

from dpmc_core import experiment, registry
from dpmc_core.data import datasets
from dpmc_core.metrics import METRICS, choose_headline_metric
from dpmc_core.model import Constant, Factors, Step, Task
from dpmc_core.privacy import record_publications
from dpmc_core.problem import RandomShare, build_problem
from dpmc_lab.curves import run_card, training
from dpmc_lab.curves.training import CORNER_SIZE, MAX_FRAMES, RunRecorder
from pages.ui import runs


@pytest.fixture(scope="module")
def problem():
    return build_problem(datasets.load("restaurants"), Task.BINARY, seed=1)


def run_training(id, data="restaurants", seed=1, number=1, **settings):
    """Return a finished run as a training job returns it."""
    cls = registry.get_mechanism(id)
    dataset = datasets.load(data)
    split = RandomShare()
    work = runs.make_training_work(
        registry.create(id, **{"epsilon": 2.0} | settings),
        lambda: build_problem(dataset, cls.task, split=split, seed=seed),
        seed,
        number=number,
        data=data,
        title=dataset.title,
        split=split,
        fresh=False,
    )
    return work(lambda *_, **__: None, lambda: False)


def test_the_corner_goes_from_the_busiest_to_the_rest_and_its_middle_is_the_median(problem):
    corner = training.select_corner(Task.BINARY, problem)
    user_counts = [np.bincount(r.users, minlength=138) for r in (problem.train, problem.test)]
    counts = sum(user_counts)
    corner_counts = counts[corner.users]
    assert len(corner.users) == len(corner.items) == CORNER_SIZE
    assert (np.diff(corner_counts) <= 0).all()
    assert corner_counts[0] == counts.max()
    assert counts[corner.person] == np.median(counts[counts > 0])
    train = problem.train
    cells = {(u, i): v for u, i, v in zip(train.users, train.items, train.values, strict=True)}
    for row, user in enumerate(corner.users):
        for column, item in enumerate(corner.items):
            value = cells.get((user, item))
            cell = corner.rated[row, column]
            assert np.isnan(cell) if value is None else cell == (value + 1) / 2


def test_no_split_changes_whom_the_corner_shows(problem):
    other_problem = build_problem(datasets.load("restaurants"), Task.BINARY, seed=2)
    first, second = (training.select_corner(Task.BINARY, p) for p in (problem, other_problem))
    assert np.array_equal(first.users, second.users)
    assert np.array_equal(first.items, second.items)
    assert not np.array_equal(first.rated, second.rated, equal_nan=True)


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
    corner = training.select_corner(mechanism.task, problem)
    with record_publications() as publications:
        experiment.run(mechanism, problem, 1, with_baselines=False)
    released = training.extract_released_corner(publications[0], corner, problem.train)
    mask = ~np.isnan(corner.rated) & ~np.isnan(released)
    assert mask.sum() > 10
    assert np.abs(released - corner.rated)[mask].max() < 0.02  # hardly any noise: the same again


@pytest.mark.parametrize("task", Task)
def test_predictions_are_places_in_the_range(problem, task):
    rng = np.random.default_rng(0)
    model = Factors(rng.normal(size=(138, 3)), rng.normal(size=(130, 3)))
    mechanism = registry.create(registry.list_private_mechanisms(task)[0], epsilon=1.0)
    corner = training.select_corner(Task.BINARY, problem)
    public = dataclasses.replace(problem.train.public, low=1.0, high=5.0)
    predictions = training.predict_corner(mechanism, model, corner, public)
    assert predictions.shape == corner.rated.shape
    assert 0 <= predictions.min() <= predictions.max() <= 1
    scores = model.predict(corner.users[:, None], corner.items[None, :])
    if task is Task.RATINGS:
        assert predictions == pytest.approx(np.clip((scores - 1) / 4, 0, 1))
    else:
        assert np.array_equal(predictions.argmax(axis=1), scores.argmax(axis=1))


@pytest.mark.slow
def test_the_film_of_a_run_ends_with_what_the_run_measured():
    run = run_training("private-frank-wolfe")
    film = run.recording
    assert [frame.round for frame in film.frames] == list(range(1, run.result.rounds + 1))
    assert film.frames[-1].metric == run.result.metrics["rmse"]
    assert film.baseline == run.result.baselines[run.result.baseline_id]["rmse"]
    assert film.reference == run.result.baselines["reference-ratings"]["rmse"]
    top = training.list_top_items(run.result.model, run.result.problem.train, film.corner.person)
    assert film.frames[-1].top == top
    description = training.describe_recording(film)
    for value in (film.baseline, film.reference, film.frames[0].metric, film.frames[-1].metric):
        assert METRICS["rmse"].format_value(value) in description
    assert len(training.tabulate_recording(film)["round"]) == len(film.frames)


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
