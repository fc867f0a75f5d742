"""Train as a person uses it: an example first, a run to watch, runs that are remembered."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.model import Task
from dpmc_core.problem import build_problem
from dpmc_core.stopping import check_cancelled
from dpmc_data import datasets
from dpmc_data.synthetic import SAMPLES
from dpmc_lab.sweep.grid import DEFAULT_SEED
from dpmc_lab.views import cards as cards_of
from dpmc_lab.views.train import CORNER_SIZE
from pages.ui import blocks, classroom, jobs, runs
from pages.ui.shelf import RunHistory
from tests.page_helpers import (
    find_button,
    open_page,
    press_button,
    read_all_text,
    read_film,
    read_markdown,
    unescape_markdown,
    wait_until,
)

LAB = {"data": "one-bit-lab", "mechanism": "private-effects"}  # four rounds of a few ms


def is_finished(app):
    return not app.progress and not find_button(app, "Train").disabled


def run_training(app):
    press_button(app, "Train")
    wait_until(app, lambda: is_finished(app))


def list_run_cards(app):
    return [m.value for m in app.markdown if m.value.startswith("**Run ") and "·" in m.value]


def test_without_a_choice_train_opens_on_a_method_whose_curve_rises():
    for data, id in (("movie-night", "dp-sgd"), ("bookshop-clicks", "dpimf-optimal")):
        app = open_page("train", data=data)
        assert app.session_state["mechanism"] == id
        film = read_film(app)
        values = [f["value"] for f in film["frames"] if f["value"] is not None]
        worst, best = film["axis"]
        heights = [(value - worst) / (best - worst) for value in values]
        assert heights[-1] - heights[0] > 0.05


@pytest.mark.slow
def test_the_person_of_a_run_is_somebody_never_a_row_number():
    dataset = datasets.load("one-bit-lab")
    app = open_page("train", **LAB)
    for _ in range(2):
        run_training(app)
    problem = build_problem(
        dataset, registry.get_mechanism(LAB["mechanism"]).task, seed=DEFAULT_SEED
    )
    person = app.session_state["shelf"].runs[0].recording.corner.person
    rated = int((problem.train.users == person).sum())
    description = f"somebody who rated {rated} {SAMPLES['one-bit-lab'].items}"
    assert f"Recommendations for {description}: 10 in both" in read_markdown(app)


@pytest.mark.slow
def test_a_run_is_shown_between_guessing_and_no_privacy_and_its_last_round_is_its_result():
    app = open_page("train", epsilon="4", **LAB)
    run_training(app)
    film = read_film(app)
    assert [frame["round"] for frame in film["frames"]] == [1, 2, 3, 4]
    assert (film["rows"], film["columns"]) == (CORNER_SIZE, CORNER_SIZE)
    assert f"is off by {film['frames'][-1]['text']} rating points" in unescape_markdown(
        app.header[0].value
    )
    high, low = film["axis"]  # up is better
    for level in film["levels"]:
        assert low < level["at"] < high
    assert {level["dash"] for level in film["levels"]} == {"dash", "dot"}


@pytest.mark.slow
def test_pause_holds_a_run_and_stop_ends_it_while_it_waits():
    app = open_page("train", data="movie-night", mechanism="private-frank-wolfe")
    press_button(app, "Train")
    press_button(app, "Pause")
    wait_until(app, lambda: app.progress[0].text.startswith("paused"))
    rounds = len(read_film(app)["frames"])
    assert rounds
    time.sleep(0.3)
    app.run()
    assert len(read_film(app)["frames"]) == rounds
    assert "left" not in app.progress[0].text
    press_button(app, "Stop")
    wait_until(app, lambda: is_finished(app))
    assert "Stopped after" in app.warning[0].value
    assert "stopped" in " ".join(c.value for c in app.caption)


def test_a_run_stopped_before_its_noise_says_what_it_spent():
    """Output perturbation adds its noise last: what was trained by then is no private model."""
    problem = build_problem(datasets.load("one-bit-lab"), Task.BINARY)
    mechanism = registry.create("output", epsilon=1.0)

    def describe_spending(rounds):
        """Stopped once so many rounds are over."""
        reports = []

        def report(*args, **_):
            reports.extend(args[3:])

        with pytest.raises(DpmcError) as error:
            runs.Training(mechanism, lambda: problem, 0, {})(report, lambda: len(reports) >= rounds)
        return str(error.value)

    assert "no epsilon spent" in describe_spending(0)
    guarantee = mechanism.guarantee(problem.train.public)
    spent = cards_of.format_budget(guarantee.certified().epsilon)
    assert f"counts as spent, epsilon {spent} {guarantee.change.label}" in describe_spending(1)
    assert "no model to publish" in describe_spending(1)


@pytest.mark.slow
def test_two_runs_are_compared_with_only_what_differs():
    app = open_page("train", data="one-bit-lab", mechanism="private-effects", epsilon="1")
    run_training(app)
    assert "Train again" in read_all_text(app)
    assert read_film(app)["ghost"] is None
    app.select_slider(key="epsilon").set_value(10.0).run()
    run_training(app)
    assert len(list_run_cards(app)) == 2
    assert app.button(key="tick 1").label == "Compared"  # the second run joins it by itself
    assert app.button(key="tick 2").label == "Compared"
    better = next(s.value for s in app.header if " is better by " in s.value)
    assert better.startswith("Run ")
    ghost = read_film(app)["ghost"]
    assert ghost["text"] == "earlier: epsilon 1"
    assert [round for round, _ in ghost["points"]] == [1, 2, 3, 4]
    assert "the earlier run at epsilon 1 had" in unescape_markdown(app.header[0].value)
    (table,) = (f.value for f in app.dataframe if "what differs" in f.value.columns)
    assert table.to_dict("list") == {"what differs": ["epsilon"], "run 1": ["1"], "run 2": ["10"]}
    lists = [m.value for m in app.markdown if m.value.startswith("1. ")]
    assert len(lists) == 3  # run 1, run 2, no privacy
    assert read_film(app)["frames"]
    app.switch_page("pages/data.py").run()
    app.switch_page("pages/train.py").run()
    assert not app.exception
    assert app.button(key="tick 1").label == "Compared"
    app.button(key="tick 1").click().run()
    assert app.button(key="tick 1").label == "Compare"
    assert not [s for s in app.header if " is better by " in s.value]


@pytest.fixture
def uploaded():
    """The page on an upload of 40 people and 30 titles."""
    rows = [f"u{u},i{i},{1 + (u * i + u) % 5}" for u in range(40) for i in range(30) if (u + i) % 3]
    content = "\n".join(["who,what,stars", *rows]).encode()
    app = open_page("train")
    app.session_state["upload"] = datasets.load_upload(
        content, "mine.csv", low=1, high=5, user="who", item="what"
    )
    app.session_state["next data"] = "upload"
    return app.run()


def forget_upload(app):
    app.switch_page("pages/data.py").run()
    app.segmented_control(key="way").set_value("upload").run()
    press_button(app, "Forget this upload")


def test_the_example_on_an_upload_is_a_samples(uploaded):
    assert "part of Movie night" in read_all_text(uploaded)


def test_what_is_remembered_of_an_upload_goes_with_it_and_holds_no_ratings(uploaded):
    app = uploaded
    for _ in range(2):
        run_training(app)
    assert len(list_run_cards(app)) == 2
    assert read_film(app)["frames"]
    ratings = weakref.ref(app.session_state["upload"].ratings)
    references = [weakref.ref(app.session_state["shelf"].runs[0])]
    forget_upload(app)
    assert not app.session_state["shelf"].runs
    app.switch_page("pages/train.py").run()
    assert not list_run_cards(app)
    assert "An example" in read_all_text(app)
    gc.collect()
    assert ratings() is None
    assert not [reference for reference in references if reference() is not None]


@pytest.mark.slow
def test_a_run_on_a_sample_outlives_an_upload(uploaded):
    app = uploaded
    run_training(app)
    app.selectbox(key="data").set_value("one-bit-lab").run()
    run_training(app)
    app.session_state["data"] = "upload"
    forget_upload(app)
    assert [run.number for run in app.session_state["shelf"].runs] == [2]


class RunStub:
    """The part of a run that a history reads."""

    def __init__(self, number, data_key="movie-night"):
        self.number, self.data_key = number, data_key


def list_run_numbers(shelf):
    return [run.number for run in shelf.runs]


def test_the_oldest_run_that_is_not_pinned_makes_room():
    shelf = RunHistory()
    run_numbers = [shelf.number() for _ in range(RunHistory.LIMIT + 2)]
    for number in run_numbers[: RunHistory.LIMIT]:
        shelf.add_run(RunStub(number))
    shelf.pin(1)
    shelf.add_run(RunStub(run_numbers[-2]))
    shelf.add_run(RunStub(run_numbers[-1]))
    assert list_run_numbers(shelf) == [1, *range(4, RunHistory.LIMIT + 3)]
    assert shelf.ticked == run_numbers[-2:]
    shelf.forget_unpinned()
    assert list_run_numbers(shelf) == [1]


def test_a_run_that_is_known_better_replaces_itself_and_a_third_tick_the_first():
    shelf = RunHistory()
    for number in (1, 2, 3):
        shelf.add_run(RunStub(number))
    third_run = RunStub(2)
    shelf.add_run(third_run)
    for ticked in ([2], [2, 3]):
        shelf.tick(3)
        assert shelf.ticked == ticked
    assert shelf.pair == (third_run, shelf.runs[2])
    shelf.forget_data("movie-night")
    assert (shelf.runs, shelf.pair, shelf.ticked) == ([], None, [])


@pytest.mark.slow
def test_a_run_that_ends_while_the_page_is_drawn_leaves_no_button_behind(monkeypatch):
    """The page says what one look at the run said, and is drawn anew where that is over."""
    show_stop_button = blocks.show_stop_button

    def show_late(job, now):
        show_stop_button(job, now)
        if job is not None:
            job.wait(60)

    app = open_page("train", **LAB)
    monkeypatch.setattr(blocks, "show_stop_button", show_late)
    press_button(app, "Train")
    assert is_finished(app)
    assert find_button(app, "Stop").disabled


def test_train_is_available_while_the_reference_runs_and_then_ends_it(monkeypatch):
    def endless(self, ratings, rng):  # noqa: ARG001
        while True:
            check_cancelled()
            time.sleep(0.01)
        yield

    reference = registry.get_mechanism(
        registry.NONPRIVATE_REFERENCES[registry.get_mechanism(LAB["mechanism"]).task]
    )
    app = open_page("train", **LAB)
    monkeypatch.setattr(reference, "fit", endless)  # once the example is there
    press_button(app, "Train")
    (first,) = jobs._active
    wait_until(app, lambda: list_run_cards(app))
    assert first.snapshot().active
    assert app.progress
    press_button(app, "Train")
    first.wait(60)
    assert first.snapshot().state == "stopped"
    wait_until(app, lambda: len(list_run_cards(app)) == 2 and read_film(app)["frames"])
    press_button(app, "Step")  # as well as Train
    wait_until(app, lambda: app.progress and app.progress[0].text.startswith("paused"))
    assert len(list_run_cards(app)) == 2
    press_button(app, "Stop")


@pytest.fixture
def visitor(monkeypatch):
    """A class is on, and this session has not opened the teacher's link."""
    monkeypatch.setenv("DPMC_CLASS", "1")
    monkeypatch.setattr(classroom, "is_teacher", lambda: False)
    yield
    jobs.VISITOR_SLOTS.cancel_jobs()
    classroom._server.visitors = True


@pytest.mark.slow
@pytest.mark.usefixtures("visitor")
def test_a_visitor_of_a_class_waits_for_a_place_and_sees_it():
    go = threading.Event()
    before = [jobs.Job(lambda *_: go.wait(60), slots=jobs.VISITOR_SLOTS) for _ in range(4)]
    try:
        app = open_page("train", **LAB)
        press_button(app, "Train")
        assert "Place 3 in the queue" in app.get("progress")[0].proto.text
        go.set()
        wait_until(app, lambda: is_finished(app))
        assert list_run_cards(app)
    finally:
        go.set()
        for job in before:
            job.wait(60)


@pytest.mark.usefixtures("visitor")
def test_a_visitor_trains_on_samples_alone():
    app = open_page("train", data="rank-one")
    assert find_button(app, "Train").disabled
    assert find_button(app, "Step").disabled
    assert "only the teacher may" in read_all_text(app)
    app = open_page("train", **LAB)
    assert not find_button(app, "Train").disabled


@pytest.mark.usefixtures("visitor")
def test_the_teacher_switches_visitors_runs_off_and_what_they_began_ends(monkeypatch):

    def long(_, stopped):
        while not stopped():
            time.sleep(0.01)

    began = jobs.Job(long, slots=jobs.VISITOR_SLOTS)
    with monkeypatch.context() as patch:
        patch.setattr(classroom, "is_teacher", lambda: True)
        classroom.allow_visitor_training(False)
        app = open_page("train", **LAB)
        assert not find_button(app, "Train").disabled
    began.wait(60)
    assert began.snapshot().state == "stopped"
    app = open_page("train", **LAB)
    assert find_button(app, "Train").disabled
    assert "switched off" in read_all_text(app)


def test_a_setting_that_names_a_file_reads_it_or_a_note_says_why(tmp_path):
    options = {"data": "restaurants", "mechanism": "dpmf"}
    file = tmp_path / "users.npy"
    app = open_page("train", **options, **{"dpmf.user_factors": str(file)})
    (note,) = app.warning
    assert "factors must be a readable .npy file" in note.value
    np.save(file, np.ones((138, 3)))
    app = open_page("train", **options, **{"dpmf.user_factors": str(file)})
    assert not app.warning
    assert not app.error
