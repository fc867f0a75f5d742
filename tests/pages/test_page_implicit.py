"""The DPIMF paper's figures on the Noise page."""

import pytest

from tests.page_helpers import charts_of, open_page, texts


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_figures_are_drawn_with_what_they_say(theme):
    app = open_page("noise", theme=theme, data="bookshop-clicks", mechanism="dpimf-symmetric")
    drawn = charts_of(app)
    assert "What the paper reports" in texts(app)
    assert "symmetric noise is the sharpest curve" in texts(app)
    next(s for s in app.selectbox if s.label == "Longest factor L").select_index(2).run()
    assert "7.11 times less noise" in texts(app)  # (2 L + L L + 1) / (0.2 L L / 0.8) at L = 3
    assert len(charts_of(app)) == len(drawn)
    assert not app.exception


def test_other_mechanisms_have_none():
    app = open_page("noise", data="bookshop-clicks", mechanism="dplcf")
    assert "What the paper reports" not in texts(app)
