"""The Protocol page used as a person would, and the small play behind it."""

import pytest

from dpmc_core.errors import BadRatings
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_data import datasets
from dpmc_lab.classroom import pictures
from dpmc_lab.protocol.federated import FLOW
from dpmc_lab.views import protocol as views
from pages.ui.charts import protocol as charts_protocol
from tests.page_helpers import (
    find_button,
    list_charts,
    open_page,
    read_drawing,
    read_markdown,
    unescape_markdown,
)


@pytest.fixture(scope="module")
def ratings():
    return datasets.load("restaurants").ratings


def play_protocol(ratings, **options):
    item = next(iter(views.find_small_items(ratings)))
    return views.play_scenario(ratings, item, **{"scenario": "2", "epsilon": 1.0} | options)


@pytest.mark.parametrize("scenario", ["2", "3"])
def test_opens_and_steps_through_the_messages(scenario):
    app = open_page("protocol", data="restaurants", scenario=scenario)
    assert "Press Next to see" in read_markdown(app)
    assert find_button(app, "Back").disabled
    assert not list_charts(app)  # the story is told in pictures, of the parts of the lessons
    story = read_drawing(app)
    assert all(
        pictures.render_illustration(f"protocol-{name}") in story for name in ("why", "who", "sees")
    )
    find_button(app, "Next").click().run()
    assert app.header[0].value.startswith("Message 1 of")
    find_button(app, "Next").click().run()
    assert app.header[0].value.startswith("Message 2 of")
    assert not app.exception
    assert len(list_charts(app)) == 1
    find_button(app, "Back").click().run()
    assert app.header[0].value.startswith("Message 1 of")
    unfold_part(app, "sent")
    assert any("bytes" in table.value.columns for table in app.dataframe)


def unfold_part(app, key):
    """Return the page with a part unfolded that is folded at first."""
    app.session_state[key] = True
    app.run()
    assert not app.exception


def try_attacks(app):
    """Return the page with the attacks that nobody sees before asking for them."""
    assert "recovers" not in read_markdown(app)
    assert not app.metric
    find_button(app, "Attack as the third party").click().run()
    assert not app.exception
    return app


def test_without_masks_the_attack_succeeds():
    app = try_attacks(open_page("protocol", data="restaurants"))
    assert "recovers 0 of 4" in read_markdown(app)
    next(t for t in app.toggle if t.label == "Masks").set_value(False).run()
    assert "recovers 4 of 4" in read_markdown(app)
    assert not app.exception


def test_scenario_3_shows_the_attendance_attack_and_scenario_2_does_not():
    app = try_attacks(open_page("protocol", data="restaurants", scenario="3"))
    assert "recovers 0 of 4 differences" in read_markdown(app)
    assert "recovers 4 of 4 gradients" in read_markdown(app)
    assert "Noise still hides the ratings" not in read_markdown(app)
    assert any("with and without one user" in head.value for head in app.header)
    app = try_attacks(open_page("protocol", data="restaurants", scenario="2"))
    assert not any("with and without one user" in head.value for head in app.header)


def test_a_user_who_leaves_ends_scenario_2_with_a_sentence():
    app = open_page("protocol", data="restaurants")
    next(s for s in app.selectbox if s.label == "Leaves in round 2").select_index(1).run()
    slider = next(s for s in app.slider if s.label == "Message")
    slider.set_value(slider.max).run()
    assert any("Round 2 is aborted" in unescape_markdown(w.value) for w in app.warning)


@pytest.mark.parametrize("scenario", ["2", "3"])
def test_phases_are_played_and_paid_for_on_the_card(scenario):
    phase_app = open_page("protocol", data="restaurants", scenario=scenario, phases="1")
    three = open_page("protocol", data="restaurants", scenario=scenario, phases="3")
    last = [next(s for s in app.slider if s.label == "Message").max for app in (phase_app, three)]
    assert last[1] == 3 * last[0]
    for app in (phase_app, three):
        unfold_part(app, "promised")
    cards = [" ".join(c.value for c in app.caption) for app in (phase_app, three)]
    assert "3 phases publish item factors" in cards[1]
    assert "phases publish item factors" not in cards[0]


def test_the_price_in_accuracy_is_measured_on_request_and_can_be_dropped():
    app = open_page("protocol", data="restaurants")
    unfold_part(app, "accuracy")
    assert "test RMSE is" not in read_markdown(app)
    find_button(app, "Measure on all the data").click().run()
    assert "test RMSE is" in read_markdown(app)
    assert "because users fit their factors to published item factors" in read_markdown(app)
    assert "and nothing because epsilon is divided: there is one phase" in read_markdown(app)
    assert not [b for b in app.button if b.label == "Stop"]
    assert not app.exception


def test_when_no_item_has_two_raters_there_is_a_sentence():
    public = PublicFacts(users=2, items=2, low=1, high=5)
    lone_ratings = Ratings.build([0, 1], [0, 1], [3.0, 4.0], public)
    with pytest.raises(BadRatings, match="no item has two raters"):
        views.find_small_items(lone_ratings)


def test_names_with_markup_reach_the_picture_escaped(ratings):
    scenario_view = play_protocol(ratings)
    names = (*scenario_view.parties[:2], "<b>user</b>")
    fig = charts_protocol.plot_protocol(names, (), None)
    assert "<b>user" not in str(fig.data[0]["text"])


def test_clicks_have_no_ratings_to_hide_so_only_shops_play():
    app = open_page("protocol", data="bookshop-clicks", scenario="2")
    assert not app.error
    assert app.selectbox(key="scenario").value == FLOW
    assert "“2”" in unescape_markdown(app.warning[0].value)  # the link asked for another
