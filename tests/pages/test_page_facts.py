"""The switch for public facts about items, on every page that has it."""

from dpmc_lab.views import lines, numbers
from pages.ui import sentences
from tests.page_helpers import (
    open_page,
    read_current_stop,
    read_instrument,
)

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
    chart = lines.load_shipped_charts("movie-night", "private-effects", with_item_features=True)[0]
    with_features, _ = chart.lines
    assert [level.mechanism for level in chart.baselines if level.is_level] == ["alone"]
    assert chart.baseline_id(with_features) == "private-alone"
    current_stop = read_current_stop(app)
    assert current_stop["titles"] != before["titles"]
    gain = numbers.compute_gain_share(chart, with_features, 1.0)
    assert f": {100 * gain.share:.0f} %" in current_stop["titles"][1]
    assert current_stop["value"] == with_features.interval_at(1.0).mean
    assert sentences.name_baseline("private-alone", short=True) in list_levels(app)
    without_features = set_switch(app, False)
    assert read_current_stop(without_features) == before


def test_the_answer_counts_from_facts_alone_where_they_are_used():
    app = open_page("data", **MOVIES, known="true", answer_often="once")
    assert find_switch(app).value
    names = [
        sentences.name_baseline(id, short=True) for id in ("private-alone", "private-own-mean")
    ]
    assert [name in list_levels(app) for name in names] == [True, False]
    set_switch(app, False)
    assert [name in list_levels(app) for name in names] == [False, True]


def list_levels(app):
    return [name for _, name, _ in read_instrument(app)["usefulness"]["levels"]]
