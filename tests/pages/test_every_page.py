"""No page ends in an error: with every data set, task and mechanism, and at every epsilon."""

import pytest

from app import SECTIONS
from dpmc_core import registry
from dpmc_data.synthetic import SAMPLES
from dpmc_lab.store import Store, default_path
from dpmc_lab.sweep.presets import EPSILONS
from pages.ui import rows, sources, state
from tests.page_helpers import open_page, read_current_stop

PAGES = [entry.file for section in SECTIONS.values() for entry in section]
WITH_MECHANISM = ("what_if", "train", "noise", "guarantees")
OF_EACH_KIND = {"movie-night", "bookshop-clicks"}  # ratings and clicks; more samples take longer
DATA = [pytest.param(id, marks=() if id in OF_EACH_KIND else pytest.mark.slow) for id in SAMPLES]


def assert_no_error(app, context):
    assert not app.exception, context
    assert not app.error, (context, [error.value for error in app.error])


def list_options(id):
    return registry.list_suitable_mechanisms(clicks=SAMPLES[id].clicks)


@pytest.mark.slow
@pytest.mark.parametrize("data", SAMPLES)
@pytest.mark.parametrize("page", WITH_MECHANISM)
def test_with_every_mechanism(page, data):
    for id in list_options(data):
        app = open_page(page, data=data, epsilon="0.7", mechanism=id)
        assert_no_error(app, id)
        assert app.session_state["mechanism"] == id
        if page == "what_if":
            assert read_current_stop(app)["epsilon"] == 0.7


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("page", [page for page in PAGES if page not in WITH_MECHANISM])
def test_with_every_task(page, data):
    tasks = sources.list_available_tasks(data) if page == "compare" else [None]
    for task in tasks:
        link = {} if task is None else {"task": task.value}
        assert_no_error(open_page(page, data=data, **link), task)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_at_every_epsilon(page):
    app = open_page(page)
    for epsilon in EPSILONS:
        app.session_state["epsilon"] = epsilon
        app.run()
        assert_no_error(app, epsilon)


@pytest.mark.parametrize("page", PAGES)
def test_a_run_of_a_page_opens_the_store_at_most_once(page, monkeypatch):
    Store(default_path()).close()
    opened, open_store = [], Store.__init__

    def count(self, path=None, **options):
        opened.extend([path] if path == default_path() else [])
        open_store(self, path, **options)

    monkeypatch.setattr(Store, "__init__", count)
    app = open_page(page)
    for n_runs in (1, 2, 3):  # and again in each run, in which other rows may have arrived
        assert len(opened) == n_runs * (page in ("what_if", "compare", "data"))
        app.run()


def test_a_part_that_polls_reads_the_store_anew_each_time_but_the_first(monkeypatch):
    polls, runs_begun = [], []
    monkeypatch.setattr(rows.st, "fragment", lambda poll, run_every: polls.append(poll) or poll)  # noqa: ARG005
    monkeypatch.setattr(rows, "is_running", lambda *_: True)
    monkeypatch.setattr(state, "begin_run", lambda: runs_begun.append(1))
    rows.poll_runs(None, "a sweep", lambda: None, running=True)
    assert not runs_begun
    polls[0]()
    assert len(runs_begun) == 1
