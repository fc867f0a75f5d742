"""Background jobs: bounded, first come first served, stoppable, never silent about failure."""

import threading
import time

import pytest

from dpmc_core import experiment, registry
from dpmc_core.errors import InvalidSetting
from dpmc_core.model import Estimator, Task
from dpmc_core.problem import build_problem
from dpmc_core.stopping import Stopped
from dpmc_data import datasets
from pages.ui import runs
from pages.ui.jobs import (
    TRAINING_SLOTS,
    VISITOR_SLOTS,
    Job,
    Jobs,
    Snapshot,
    WorkerSlots,
    cancel_all_jobs,
)
from tests.waiting import wait_for


def get_state(job):
    return job.snapshot().state


class Gate:
    """Work that reports, then waits until it is let go or stopped."""

    def __init__(self):
        self.go = threading.Event()

    def __call__(self, report, stopped):
        report(1, 4, "first", "point")
        while not self.go.is_set() and not stopped():
            time.sleep(0.005)
        return "result"


@pytest.fixture(autouse=True)
def ended():
    """A test that fails leaves no work behind: Python does not end before it does."""
    yield
    cancel_all_jobs()


def test_at_most_so_many_at_once_and_then_in_order():
    slots, gates = WorkerSlots(2), [Gate() for _ in range(4)]
    jobs = [Job(gate, slots=slots) for gate in gates]
    wait_for(lambda: [get_state(job) for job in jobs] == ["running"] * 2 + ["queued"] * 2)
    assert [job.snapshot().ahead for job in jobs] == [0, 0, 0, 1]
    gates[1].go.set()
    wait_for(lambda: get_state(jobs[2]) == "running")
    assert get_state(jobs[3]) == "queued"
    assert jobs[3].snapshot().ahead == 0
    for gate in gates:
        gate.go.set()
    wait_for(lambda: all(get_state(job) == "done" for job in jobs))
    assert all(job.snapshot().result == "result" for job in jobs)


@pytest.mark.parametrize(
    ("seconds", "n_done", "left"),
    [(300.0, 1, None), (300.0, 3, None), (11.9, 9, None), (22.0, 4, 120.0), (46.0, 13, 63.0)],
)
def test_time_left_is_told_after_three_rounds_and_two_seconds(seconds, n_done, left):
    """Counted from the first round, told at second 10: what came before says nothing of a pace."""
    snapshot = Snapshot("running", done=n_done, total=34, seconds=seconds, work_start=(10.0, 1))
    assert snapshot.seconds_left == left


class Rounds:
    """Work of four rounds, each of which may be waited at."""

    def __call__(self, report, stopped):
        for k in range(1, 5):
            if stopped():
                return "cut"
            report(k, 4, f"round {k}", k, halt=True)
        return "whole"


def test_step_pause_and_resume():
    gate, slots = Gate(), WorkerSlots(1)
    first = Job(gate, slots=slots)
    job = Job(Rounds(), slots=slots)
    job.pause()
    gate.go.set()
    wait_for(lambda: job.snapshot().paused)
    assert get_state(first) == "done"
    snapshot = job.snapshot()
    assert (snapshot.done, snapshot.state, snapshot.active) == (1, "running", True)
    for n_done in (2, 3):
        job.step()
        wait_for(lambda n_done=n_done: job.snapshot().done == n_done and job.snapshot().paused)
    before = job.snapshot().seconds
    time.sleep(0.5)
    assert job.snapshot().seconds == before  # a person's time is not the work's
    job.resume()
    wait_for(lambda: get_state(job) == "done")
    assert job.snapshot().seconds < before + 0.5
    assert job.snapshot().result == "whole"


def test_one_that_waits_for_a_person_keeps_nobody_waiting():
    slots, before = WorkerSlots(1), Gate()
    Job(before, slots=slots)
    waiting_job = Job(Rounds(), slots=slots)
    waiting_job.pause()
    before.go.set()
    wait_for(lambda: waiting_job.snapshot().paused)
    gates = [Gate(), Gate()]
    other_jobs = [Job(gate, slots=slots) for gate in gates]
    wait_for(lambda: get_state(other_jobs[0]) == "running")
    waiting_job.resume()  # its turn comes next, not at once
    time.sleep(0.1)
    assert (waiting_job.snapshot().done, get_state(other_jobs[1])) == (1, "queued")
    gates[0].go.set()
    wait_for(lambda: get_state(waiting_job) == "done")
    gates[1].go.set()
    wait_for(lambda: get_state(other_jobs[1]) == "done")


def test_a_running_and_a_queued_job_can_be_stopped():
    slots = WorkerSlots(1)
    running, queued = Job(Gate(), slots=slots), Job(Gate(), slots=slots)
    wait_for(lambda: get_state(running) == "running" and get_state(queued) == "queued")
    queued.cancel()
    wait_for(lambda: get_state(queued) == "stopped")
    queued.cancel()  # once more changes nothing
    assert queued.snapshot().message == "Stopped before it began."
    running.cancel()
    wait_for(lambda: get_state(running) == "stopped")
    later = Job(Gate(), slots=slots)
    wait_for(lambda: get_state(later) == "running")
    later.cancel()


def test_all_jobs_are_stopped_when_the_server_ends():
    slots = WorkerSlots(1)
    jobs = [Job(Gate(), slots=slots) for _ in range(3)]
    wait_for(lambda: get_state(jobs[0]) == "running")
    cancel_all_jobs()
    wait_for(lambda: [get_state(job) for job in jobs] == ["stopped"] * 3)
    wait_for(lambda: not [t for t in threading.enumerate() if t.name == "dpmc-job"])


def test_failures_are_sentences_and_free_their_slot(caplog):
    slots = WorkerSlots(1)

    def bad_setting(*_):
        raise InvalidSetting("epsilon", "> 0", 0)

    def too_large(*_):
        raise MemoryError

    def broken(*_):
        return [][1]

    messages = []
    for work in (bad_setting, too_large, broken):
        job = Job(work, slots=slots)
        wait_for(lambda job=job: get_state(job) == "failed")
        messages.append(job.snapshot().message)
    assert messages[0] == "Epsilon must be > 0, got 0."
    assert "not enough memory" in messages[1]
    assert "IndexError" not in messages[2]
    assert "a job failed" in caplog.text


def test_a_session_replaces_forgets_and_ends_its_jobs():
    jobs = Jobs()
    first = jobs.start("train", Gate())
    second = jobs.start("train", Gate())
    wait_for(lambda: get_state(first) == "stopped")
    assert jobs.get("train") is second
    other_job = jobs.start("curve", Gate(), data_id="upload")
    jobs.forget_data("upload")
    assert jobs.get("curve") is None
    assert jobs.get("train") is second
    wait_for(lambda: get_state(other_job) == "stopped")
    jobs.cancel()
    wait_for(lambda: get_state(second) == "stopped")


def build_rating_problem():
    return build_problem(datasets.load("restaurants"), Task.RATINGS, seed=1)


def build_small_problem():
    return build_problem(datasets.load("one-bit-lab"), Task.BINARY, seed=1)


def train_mechanism(mechanism="gradient", stop=lambda _: False, problem=build_small_problem):
    """Return all that a training job reports, and what it returns."""
    reports = []

    def report(_done, _total, label, point=None, result=None, **_):
        reports.append((label, point, result))

    details = {"data": "one-bit-lab", "reading": {}, "title": "", "split": None, "fresh": False}
    work = runs.Training(
        registry.create(mechanism, epsilon=4.0, rounds=6, estimator=Estimator.PUBLISHED),
        problem,
        1,
        details,
    )
    return reports, work(report, lambda: stop(reports))


def test_guessing_comes_first_then_the_private_result_then_no_privacy():
    """Where the picture starts from is known before its first round, and is cheap."""
    reports, last = train_mechanism()
    results = [result for _, _, result in reports if result is not None]
    comparison_ids = ["private-majority", "reference-binary", "clear"]
    assert [list(r.result.baselines) for r in results] == [comparison_ids[:k] for k in range(1, 4)]
    assert [r.nonprivate_model is not None for r in results] == [False, True, True]
    assert all(r.result.metrics == last.result.metrics for r in results)
    labels = [label for label, _, _ in reports]
    baseline_label = "Private majority, for comparison: starting"
    assert labels[:3] == ["preparing the data", baseline_label, "Gradient perturbation: starting"]
    assert [label for label in labels if label.endswith("for comparison: starting")]


def test_a_training_that_is_stopped_is_not_measured_on_the_way_nor_compared(monkeypatch):
    evaluations, real = [], experiment.measure_model
    monkeypatch.setattr(
        experiment, "measure_model", lambda *a: evaluations.append(a[0].id) or real(*a)
    )
    _, last = train_mechanism(
        stop=lambda reports: any(point is not None for _, point, _ in reports)
    )
    assert last.result.stopped
    assert list(last.result.baselines) == ["private-majority"]
    assert evaluations.count("gradient") <= 2  # the first round, and the model that is shown


def test_a_stop_during_the_comparisons_keeps_the_private_result():
    _, last = train_mechanism(
        stop=lambda reports: any(result is not None for *_, result in reports)
    )
    assert not last.result.stopped
    assert list(last.result.baselines) == ["private-majority"]
    assert last.nonprivate_model is None


def test_a_stopped_run_has_its_last_round_in_its_film(monkeypatch):
    """Also where it was not looked at any more, and every look says to stop by then."""
    monkeypatch.setattr(runs.RunRecorder, "needs_round", lambda *_: False)
    one_round = lambda reports: any(point is not None for _, point, _ in reports)  # noqa: E731
    _, last = train_mechanism("private-frank-wolfe", one_round, build_rating_problem)
    assert last.result.stopped
    (frame,) = last.recording.frames
    assert (frame.round, frame.metric) == (last.result.rounds, last.result.metrics["rmse"])


def test_a_reading_can_be_stopped_after_its_last_line():
    """Sorting a million ids takes as long as a third of the reading."""
    content, progress = b"user,item,rating\n" + b"".join(b"u%d,x,3\n" % k for k in range(20)), []
    work = runs.make_reading_work(content, "x.csv", {"low": 1, "high": 5})

    def report(done, total, label):  # noqa: ARG001
        if total and done >= total:
            progress.append(True)

    assert len(work(lambda *_: None, lambda: False).ratings) == 20
    with pytest.raises(Stopped):
        work(report, lambda: bool(progress))


def test_visitors_wait_for_each_other_and_the_teacher_for_none_of_them():
    gates = [Gate() for _ in range(4)]
    visitors = [Job(gate, slots=VISITOR_SLOTS) for gate in gates]
    teacher_gate = Gate()
    teachers = Job(teacher_gate, slots=TRAINING_SLOTS)
    try:
        wait_for(lambda: get_state(teachers) == "running")
        wait_for(lambda: [get_state(job) for job in visitors[:2]] == ["running"] * 2)
        assert [get_state(job) for job in visitors[2:]] == ["queued"] * 2
        assert [job.snapshot().ahead for job in visitors[2:]] == [0, 1]
        VISITOR_SLOTS.cancel_jobs()
        wait_for(lambda: [get_state(job) for job in visitors] == ["stopped"] * 4)
        assert get_state(teachers) == "running"
    finally:
        for gate in (*gates, teacher_gate):
            gate.go.set()
        teachers.wait(60)
