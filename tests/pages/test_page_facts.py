"""The switch for public facts about items, on every page that has it."""

import pytest

from dpmc_core import experiment, registry
from dpmc_core.data import datasets
from dpmc_core.data.transforms import parse_step
from dpmc_core.metrics import METRICS
from dpmc_core.model import Task
from dpmc_core.problem import build_problem
from dpmc_lab.curves import lines, numbers
from pages.ui import sentences
from tests.page_helpers import (
    open_page,
    press_button,
    read_current_stop,
    read_html,
    read_instrument,
    run_until_done,
)

REFERENCE = registry.NONPRIVATE_REFERENCES[Task.RATINGS]
MOVIES = {"data": "movie-night", "mechanism": "private-effects", "epsilon": "1"}


def find_switch(app):
    switches = [toggle for toggle in app.toggle if toggle.label == "Public facts"]
    return switches[0] if switches else None


def set_switch(app, value):
    find_switch(app).set_value(value).run()
    assert not app.exception
    return app


def test_what_if_draws_both_curves_and_counts_the_gain_from_public_facts_alone():
    app = open_page(**MOVIES)
    before = read_current_stop(app)
    assert not find_switch(app).value
    set_switch(app, True)
    picture = lines.load_shipped_charts("movie-night", "private-effects", with_item_features=True)[
        0
    ]
    with_features, _ = picture.lines
    assert [level.mechanism for level in picture.baselines] == ["alone"]
    assert picture.baseline_id(with_features) == "private-alone"
    current_stop = read_current_stop(app)
    assert current_stop["kept"] != before["kept"]
    gain = numbers.compute_gain_share(picture, with_features, 1.0)
    assert current_stop["kept"].startswith(f"keeps {100 * gain.share:.0f} %")
    assert current_stop["value"] == with_features.interval_at(1.0).mean
    svg = read_instrument(app)["pictures"]["wide"]["svg"]
    assert sentences.name_baseline("private-alone", short=True) in svg
    without_features = set_switch(app, False)
    assert read_current_stop(without_features) == before


@pytest.mark.slow
def test_a_run_with_facts_is_what_the_core_measures_against_facts_alone():
    app = open_page("train", known="true", **(MOVIES | {"data": "restaurants"}))
    press_button(app, "Train")
    run_until_done(app)
    problem = build_problem(
        datasets.load("restaurants"), Task.RATINGS, steps=[parse_step("features")], seed=1
    )
    single_run = experiment.run(registry.create("private-effects", epsilon=1.0), problem, 1)
    assert single_run.baseline_id in registry.BASELINE_ALTERNATIVES["private-own-mean"]
    (film,) = (
        component.proto.json
        for component in app.get("bidi_component")
        if component.proto.component_name == "dpmc_film"
    )
    assert lines.format_baseline_name(single_run.baseline_id) in film
    assert "baseline" not in film
    rmse = METRICS["rmse"]
    assert [tile.value for tile in app.metric] == [
        rmse.in_units_of(problem.train.public).format_with_unit(metrics["rmse"])
        for metrics in (
            single_run.metrics,
            single_run.baselines[single_run.baseline_id],
            single_run.baselines[REFERENCE],
        )
    ]


def test_the_answer_counts_from_facts_alone_where_they_are_used():
    app = open_page("data", **MOVIES, known="true")
    assert find_switch(app).value
    names = [
        sentences.name_baseline(id, short=True) for id in ("private-alone", "private-own-mean")
    ]
    assert [name in read_html(app) for name in names] == [True, False]
    set_switch(app, False)
    assert [name in read_html(app) for name in names] == [False, True]
