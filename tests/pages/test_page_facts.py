"""The switch for public facts about items, on every page that has it."""

import json

import pytest

from dpmc_core import experiment, registry
from dpmc_core.data import datasets
from dpmc_core.data.transforms import parse_step
from dpmc_core.metrics import METRICS
from dpmc_core.model import Task
from dpmc_core.problem import build_problem
from dpmc_lab.curves import lines
from tests.page_helpers import at_stop, charts_of, instrument, open_page, press, run_until_done

REFERENCE = registry.REFERENCES[Task.RATINGS]
MOVIES = {"data": "movie-night", "mechanism": "private-effects", "epsilon": "1"}


def switch(app):
    found = [one for one in app.toggle if one.label == "Public facts"]
    return found[0] if found else None


def turned(app, value):
    switch(app).set_value(value).run()
    assert not app.exception
    return app


@pytest.mark.slow
@pytest.mark.parametrize(
    "link",
    [
        {"data": "jokes", "mechanism": "private-effects"},  # nothing is known of its items
        {"data": "movie-night", "mechanism": "objective"},  # uses nothing
    ],
)
def test_there_is_no_switch_where_it_would_do_nothing(link):
    for page in ("what_if", "train", "compare"):
        assert switch(open_page(page, known="true", **link)) is None


@pytest.mark.slow
def test_the_switch_has_a_place_of_its_own_in_the_address():
    """Guarantees asks for public facts, too: how many users and items there are."""
    app = open_page("guarantees", **MOVIES)
    (way,) = (one for one in app.get("button_group") if one.label == "Public facts")
    way.set_value("typed").run()
    for page in ("train", "answer"):
        app.switch_page(f"pages/{page}.py").run()
        app.run()  # with what the page before had chosen
        assert not app.exception
        assert not switch(app).value, page
    turned(app, True)
    app.switch_page("pages/guarantees.py").run()
    assert not app.exception


def test_what_if_draws_both_curves_and_counts_the_gain_from_public_facts_alone():
    app = open_page(**MOVIES)
    before = at_stop(app)
    assert not switch(app).value
    turned(app, True)
    picture = lines.shipped("movie-night", "private-effects", facts=True)[0]
    told, plain = picture.lines
    assert [level.mechanism for level in picture.floors] == ["alone"]
    assert picture.baseline(told) == "private-alone"
    now = at_stop(app)
    assert now["kept"] != before["kept"]
    assert f"over {lines.guess_name('private-alone')}" in now["kept"]
    drawn = [trace.get("y") for trace in instrument(app)["picture"]["figure"]["data"]]
    for line in (told, plain):
        assert line.band.mean.tolist() in drawn
    names = [trace.get("name", "") for trace in instrument(app)["picture"]["figure"]["data"]]
    assert not any(name.startswith("guessing") for name in names)
    again = turned(app, False)
    assert at_stop(again) == before


@pytest.mark.slow
def test_compare_sets_every_curve_beside_itself_without_facts():
    link = {"data": "bookshop-clicks", "task": "ranking", "known": "true"}
    app = open_page("compare", mechanisms=["private-taste", "dplcf", "dpimf-optimal"], **link)
    assert switch(app).value
    drawn = json.loads(charts_of(app)[0].proto.spec)["layout"]["annotations"]
    named = [note["text"].replace("<br>", " ") for note in drawn]
    for id in ("private-taste", "dplcf"):
        short = registry.get(id).short or registry.get(id).name
        assert sum(note.startswith(f"{short} (public facts)") for note in named) == 1
    assert any(note.startswith("public facts alone") for note in named)
    assert sum(note.startswith("DPIMF") for note in named) == 1  # it uses none


@pytest.mark.slow
def test_a_run_with_facts_is_what_the_core_measures_against_facts_alone():
    app = open_page("train", known="true", **(MOVIES | {"data": "restaurants"}))
    press(app, "Train")
    run_until_done(app)
    problem = build_problem(
        datasets.load("restaurants"), Task.RATINGS, steps=[parse_step("features")], seed=1
    )
    alone = experiment.run(registry.create("private-effects", epsilon=1.0), problem, 1)
    assert alone.guess in registry.BASELINES["private-own-mean"]
    (film,) = (
        one.proto.json
        for one in app.get("bidi_component")
        if one.proto.component_name == "dpmc_film"
    )
    assert lines.guess_name(alone.guess) in film
    assert "guessing" not in film
    rmse = METRICS["rmse"]
    assert [tile.value for tile in app.metric] == [
        rmse.on(problem.train.public).full(found["rmse"])
        for found in (alone.metrics, alone.baselines[alone.guess], alone.baselines[REFERENCE])
    ]


def test_the_answer_counts_from_facts_alone_where_they_are_used():
    app = open_page("answer", **MOVIES, known="true")
    assert switch(app).value
    assert lines.guess_name("private-alone") in charts_of(app)[0].proto.spec
    turned(app, False)
    assert lines.guess_name("private-alone") not in charts_of(app)[0].proto.spec
    assert lines.guess_name("private-own-mean") in charts_of(app)[0].proto.spec
