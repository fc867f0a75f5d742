"""Stop is heard: in every method, in every phase of a run, and nothing follows it."""

from __future__ import annotations

import itertools
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import eigh

from dpmc_core import experiment, privacy, registry
from dpmc_core import stopping as stops
from dpmc_core.errors import DpmcError
from dpmc_core.model import Estimator, Mechanism, Model, Task
from dpmc_core.preparation import TopItems
from dpmc_core.problem import Problem, build_problem
from dpmc_core.settings import list_settings
from dpmc_core.solvers.linalg import invert_upper_triangle, leading_eigenpairs
from dpmc_core.stopping import Stopped, allow_grace, call_cancellable, check_cancelled, stop_when
from dpmc_data import load
from pages.ui import runs
from pages.ui.jobs import Job
from tests.slow_helpers import mark_rest_slow
from tests.waiting import PATIENCE_SECONDS

# One pass over the ratings: there is nothing long in it.
AT_ONCE = {"majority", "global-mean", "item-mean", "user-mean", "popularity", "mean-of-users"}
METHODS = [
    (id, estimator)
    for id, cls in registry.MECHANISMS.items()
    for estimator in (None, Estimator.PUBLISHED)
    if estimator is None or "estimator" in {s.name for s in list_settings(cls)}
]


class Count:
    """A stop signal that counts the looks at it, and is given at one of them."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.looks, self.at = 0, stop_at

    def __call__(self) -> bool:
        self.looks += 1
        return self.at is not None and self.looks >= self.at


@pytest.fixture(autouse=True)
def _no_look_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long call is waited for without a look, so that looks can be counted."""
    monkeypatch.setattr(stops, "_POLL_SECONDS", 60.0)


@pytest.fixture(scope="module")
def problems() -> dict[Task, Problem]:
    data, steps = load("restaurants"), [TopItems(30)]
    return {task: build_problem(data, task, steps=steps, seed=1) for task in Task}


class Fit(NamedTuple):
    """A fit under a stop signal: looks before each step, the last model, releases published, how
    it ended."""

    before: list[int]
    model: Model | None
    published: int
    stopped: bool


def fit_until_stopped(mechanism: Mechanism, problem: Problem, stop: Count) -> Fit:
    before: list[int] = []
    model, stopped = None, False
    with privacy.record_publications() as published, stop_when(stop):
        try:
            for step in mechanism.fit(problem.train, np.random.default_rng(0)):
                before.append(stop.looks)
                model = step.model
        except Stopped:
            stopped = True
    return Fit(before, model, len(published), stopped)


@pytest.mark.parametrize(("id", "estimator"), mark_rest_slow(METHODS, 5))
def test_a_stop_at_any_look_ends_the_fit_there_and_looking_changes_nothing(id, estimator, problems):
    settings = {} if estimator is None else {"estimator": estimator}
    mechanism = registry.create(id, epsilon=4.0, delta=1e-6, **settings)
    problem, count = problems[mechanism.task], Count()
    *_, final = mechanism.fit(problem.train, np.random.default_rng(0))
    full_fit = fit_until_stopped(mechanism, problem, count)
    assert not full_fit.stopped
    cells = np.arange(problem.train.public.users)[:, None], np.arange(problem.train.public.items)
    assert np.array_equal(full_fit.model.predict(*cells), final.model.predict(*cells))
    if id in AT_ONCE:
        return
    # It looks before its first model and before each that follows; the last may be there already.
    assert all(a < b for a, b in itertools.pairwise([0, *full_fit.before[:-1]]))
    assert full_fit.before[0] > 0
    for stop_at in sorted({1, count.looks // 2 + 1, count.looks}):
        stop = Count(stop_at)
        stopped_fit = fit_until_stopped(mechanism, problem, stop)
        assert stopped_fit.stopped
        assert stop.looks == stop_at
        assert stopped_fit.before == [n_looks for n_looks in full_fit.before if n_looks < stop_at]
        assert stopped_fit.published <= full_fit.published


def test_what_was_told_before_a_stop_stays_and_nothing_follows(problems):
    mechanism, reports, stop = registry.create("private-popularity", epsilon=4.0), [], Count()
    problem = problems[mechanism.task]

    def run(stop: Count) -> Any:
        reports.clear()
        with stop_when(stop):
            fitted = experiment.fit(mechanism, problem, 1)
            reports.extend(experiment.fit_baselines(experiment.measure(fitted)))
        return reports[-1]

    full_run = run(stop)
    assert set(full_run.baselines) == {"popularity", "reference-ranking"}
    with pytest.raises(DpmcError, match="no model to publish"):
        run(Count(1))
    assert not reports
    stopped_late = run(Count(stop.looks // 2))  # amid the reference
    assert stopped_late.metrics == full_run.metrics
    assert len(stopped_late.baselines) < len(full_run.baselines)


def test_a_stop_while_the_data_is_prepared_ends_the_job(problems):
    """And one in a fit; the job says stopped, not failed."""
    mechanism = registry.create("input-flip", epsilon=4.0)
    details = {"data": "restaurants", "reading": {}, "title": "", "split": None, "fresh": False}

    def asked_now() -> Problem:
        job.cancel()
        check_cancelled()
        raise AssertionError("it went on")

    def asked_later() -> Problem:
        job.cancel()
        return problems[Task.BINARY]

    for make in (asked_now, asked_later):
        ready = threading.Event()
        train = runs.Training(mechanism, make, 1, details)

        def work(report: Any, stopped: Any, ready: Any = ready, train: Any = train) -> Any:
            ready.wait(120)  # until there is a job to cancel
            return train(report, stopped)

        job = Job(work)
        ready.set()
        job.wait(60)
        snapshot = job.snapshot()
        assert snapshot.state == "stopped"
        assert snapshot.result is None
        assert snapshot.message.startswith("Stopped before")


def test_without_a_stop_signal_nothing_looks():
    check_cancelled()
    assert call_cancellable(lambda a, b: a + b, 1, 2) == 3


def test_a_signal_holds_inside_its_block_and_none_leaves_the_one_around():
    with stop_when(lambda: True), stop_when(None), pytest.raises(Stopped):
        check_cancelled()
    check_cancelled()
    with stop_when(lambda: True):
        with stop_when(lambda: False):
            check_cancelled()
        with allow_grace(60):
            check_cancelled()
        with allow_grace(-1), pytest.raises(Stopped):
            check_cancelled()


def test_a_long_call_is_not_waited_for_once_it_is_asked_to_stop(monkeypatch):
    monkeypatch.setattr(stops, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(stops, "_CALL_SLOTS", threading.Semaphore(2))
    go, begun, ended = threading.Event(), threading.Semaphore(0), threading.Semaphore(0)

    def call() -> None:
        begun.release()
        go.wait(120)
        ended.release()

    for _ in range(2):
        called = Count(4)
        with stop_when(called), pytest.raises(Stopped):
            call_cancellable(call)
        assert begun.acquire(timeout=PATIENCE_SECONDS)
    with stop_when(Count(4)), pytest.raises(Stopped):  # a third does not begin beside those two
        call_cancellable(call)
    assert not begun.acquire(blocking=False)
    go.set()
    assert all(ended.acquire(timeout=PATIENCE_SECONDS) for _ in range(2))
    with stop_when(lambda: False):
        call_cancellable(call)
    assert begun.acquire(blocking=False)


def test_a_long_call_gives_what_it_gives_and_raises_what_it_raises():
    with stop_when(lambda: False), np.errstate(divide="raise"):
        assert call_cancellable(divmod, 7, 2) == (3, 1)
        with pytest.raises(FloatingPointError):  # the settings around it hold in it
            call_cancellable(np.divide, 1.0, 0.0)
        with pytest.raises(np.linalg.LinAlgError):
            call_cancellable(np.linalg.inv, np.zeros((2, 2)))


def draw_symmetric(n: int) -> NDArray[np.float64]:
    gaussian = np.random.default_rng(n).normal(size=(n, n))
    return gaussian + gaussian.T


@pytest.mark.parametrize(
    ("n", "count"), [(1, 1), (2, 1), (3, 3), (60, 1), (61, 1), (61, 35), (200, 7)]
)
def test_eigenpairs_and_inverse_are_those_of_scipy(n, count):
    symmetric = draw_symmetric(n)
    values, vectors = eigh(symmetric, subset_by_index=[n - count, n - 1])
    eigenpairs = leading_eigenpairs(symmetric.__matmul__, n, count)
    assert np.allclose(eigenpairs[0], values, rtol=1e-12)
    signs = np.sign((eigenpairs[1] * vectors).sum(axis=0))
    assert np.allclose(eigenpairs[1] * signs, vectors, atol=1e-9)
    assert np.array_equal(symmetric, draw_symmetric(n))  # left as it was
    positive = symmetric @ symmetric + np.eye(n)
    assert np.allclose(np.triu(invert_upper_triangle(positive)), np.triu(np.linalg.inv(positive)))
    with pytest.raises(np.linalg.LinAlgError):
        invert_upper_triangle(-np.eye(n))
