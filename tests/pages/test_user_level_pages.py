"""The pages show the user-level family as they show every other mechanism."""

import pytest

from dpmc_core import registry
from dpmc_core.model import Task
from tests.page_helpers import all_text, at_stop, charts_of, instrument, open_page
from tests.user_level_helpers import BASELINES

USER_LEVEL = [
    id
    for id, cls in registry.MECHANISMS.items()
    if cls.task is Task.RATINGS and registry.has_setting(cls, "delta")
]


@pytest.mark.parametrize("id", USER_LEVEL)
def test_noise_is_drawn(id):
    app = open_page("noise", data="restaurants", mechanism=id, epsilon="1")
    assert not app.exception
    assert not app.error
    assert len(charts_of(app)) >= (2 if id in BASELINES else 3)  # one release, one budget


@pytest.mark.parametrize("id", ["private-frank-wolfe", "dpals"])
def test_the_card_speaks_of_persons_and_both_relations(id):
    app = open_page("guarantees", data="jokes", mechanism=id, epsilon="1")
    assert not app.exception
    words = all_text(app)
    assert "Protects everything one person rated" in words
    assert "each person's own recommendations go only to them" in words
    assert "where a row becomes empty" in words
    assert "where it becomes any other row" in words


def test_what_if_opens_with_the_shipped_curve():
    app = open_page("what_if", data="jokes", mechanism="dpals", epsilon="1")
    assert not app.exception
    assert not app.error
    assert instrument(app)["title"].startswith("RMSE")
    assert at_stop(app)["value"] is not None
    assert instrument(app)["unit"] == "per user"
