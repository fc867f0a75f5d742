"""Links that no person would write: the page opens, says what it left out, and works on."""

import pytest
from streamlit.runtime.state.query_params import QueryParams

from dpmc_core import registry
from dpmc_core.settings import settings_of
from tests.page_helpers import open_page
from tests.slow_helpers import rest_slow

# A page with what else its address must hold for all of its controls to be there.
WAYS = (
    ("what_if", {}),
    ("data", {"way": "public"}),
    ("answer", {}),
    ("train", {}),
    ("train", {"data": "bookshop-clicks"}),
    ("compare", {}),
    ("compare", {"grid": "own"}),
    ("noise", {"wide": "true"}),
    ("noise", {"data": "bookshop-clicks", "mechanism": "dpimf-optimal"}),
    ("guarantees", {"facts": "typed"}),
    ("protocol", {"scenario": "2"}),
    ("protocol", {"scenario": "3"}),
    ("protocol", {"scenario": "federated"}),
    ("papers", {}),
)
# One of each in turn: for what holds a number, and for what holds a text or one of several.
NUMBERS = ("1e400", "-inf", "nan", "9" * 5000, "1e300", "-0", "\u00b2", "x" * 100_000)
TEXTS = ("1e400", "\0", b"\xed\xa0\x80", "x" * 100_000, "![a](//host/x.png)", "$1$", "1,1e400", " ")


@pytest.fixture
def bound(monkeypatch):
    """The keys of the controls that were kept in the address, as pages are opened."""
    found = {}
    bind = QueryParams.bind_widget

    def spy(self, param_key, widget_id, value_type, script_hash):
        found[param_key] = value_type
        bind(self, param_key, widget_id, value_type, script_hash)

    monkeypatch.setattr(QueryParams, "bind_widget", spy)
    return found


@pytest.mark.parametrize(("page", "way"), rest_slow(WAYS, 4))
def test_a_page_opens_whatever_its_controls_are_asked_for(page, way, bound):
    heading = open_page(page, **way).title[0].value
    kinds = {key: kind for key, kind in bound.items() if key not in way}
    for values in zip(NUMBERS, TEXTS, strict=True):
        link = {key: values[kind != "double_value"] for key, kind in kinds.items()}
        app = open_page(page, **way, **link)
        assert len(app.title) == 1
        if page not in ("compare", "guarantees"):  # whose titles say what they find
            assert app.title[0].value == heading
        assert app.selectbox or app.number_input
        if values == ("1e400", "1e400") and "epsilons" not in kinds:
            told = [e.value for e in (*app.warning, *app.error)]
            # a mechanism that cannot be built has no rows to choose from
            noted = [text for text in told if "1e400" in text and "the row " not in text]
            assert len(noted) == len([key for key in kinds if not key.startswith("row")]), told


@pytest.mark.slow
@pytest.mark.parametrize("clicks", [False, True])
def test_settings_of_every_method_may_be_absurd(clicks):
    data = "bookshop-clicks" if clicks else "movie-night"
    for id in registry.offered(clicks=clicks):
        names = [f"{id}.{s.name}" for s in settings_of(registry.get(id)) if s.name != "epsilon"]
        app = open_page("train", data=data, mechanism=id, **dict.fromkeys(names, "1e400"))
        told = [e.value for e in (*app.warning, *app.error)]
        shown = [name for name in names if not name.endswith(".delta")]
        assert len(told) == len(shown), (id, told)
