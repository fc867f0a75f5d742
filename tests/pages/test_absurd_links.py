"""Links that no person would write: the page opens, says what it left out, and works on."""

from random import Random

import pytest
from streamlit.runtime.state.query_params import QueryParams

from app import SECTIONS
from dpmc_core import registry
from dpmc_core.settings import list_settings
from dpmc_data import public_sets
from dpmc_data.synthetic import GENERATORS, SAMPLES, list_sample_options
from tests.hostile import HOSTILE
from tests.page_helpers import open_page
from tests.slow_helpers import mark_rest_slow

# A page with what else its address must hold for all of its controls to be there.
ABSURD_LINKS = (
    ("train", {}),
    ("what_if", {}),
    ("data", {"way": "public"}),
    ("data", {"way": "sample"}),
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
NUMBERS = ("1e400", "-inf", "nan", "9" * 5000, "1e300", "-0", "\u00b2", "x" * 100_000, "")
TEXTS = (
    *("1e400", "\0", b"\xed\xa0\x80", "x" * 100_000, "![a](//host/x.png)", "$1$", "1,1e400", " "),
    "",
)


@pytest.fixture
def bound(monkeypatch):
    """The keys of the controls that were kept in the address, as pages are opened."""
    controls = {}
    bind = QueryParams.bind_widget

    def spy(self, param_key, widget_id, value_type, script_hash):
        controls[param_key] = value_type
        bind(self, param_key, widget_id, value_type, script_hash)

    monkeypatch.setattr(QueryParams, "bind_widget", spy)
    return controls


@pytest.mark.parametrize(("page", "absurd_link"), mark_rest_slow(ABSURD_LINKS, 2))
def test_a_page_opens_whatever_its_controls_are_asked_for(page, absurd_link, bound):
    heading = open_page(page, **absurd_link).title[0].value
    remaining = {key: kind for key, kind in bound.items() if key not in absurd_link}
    for values in zip(NUMBERS, TEXTS, strict=True):
        link = {key: values[kind != "double_value"] for key, kind in remaining.items()}
        app = open_page(page, **absurd_link, **link)
        assert len(app.title) == 1
        if page not in ("compare", "guarantees"):  # whose titles say what they find
            assert app.title[0].value == heading
        assert app.selectbox or app.number_input or page == "papers"  # which opens with cards
        if values == ("1e400", "1e400") and "epsilons" not in remaining:
            messages = [e.value for e in (*app.warning, *app.error)]
            # a mechanism that cannot be built has no rows to choose from
            noted = [text for text in messages if "1e400" in text and "the row " not in text]
            assert len(noted) == len([key for key in remaining if not key.startswith("row")]), (
                messages
            )


@pytest.mark.slow
@pytest.mark.parametrize("clicks", [False, True])
def test_settings_of_every_method_may_be_absurd(clicks):
    data = "bookshop-clicks" if clicks else "movie-night"
    for id in registry.list_suitable_mechanisms(clicks=clicks):
        names = [
            f"{id}.{s.name}"
            for s in list_settings(registry.get_mechanism(id))
            if s.name != "epsilon"
        ]
        app = open_page("train", data=data, mechanism=id, **dict.fromkeys(names, "1e400"))
        messages = [e.value for e in (*app.warning, *app.error)]
        visible_settings = [name for name in names if not name.endswith(".delta")]
        assert len(messages) == len(visible_settings), (id, messages)


# --- addresses from a seed ------------------------------------------------------------------------

PAGES = [entry.file for section in SECTIONS.values() for entry in section]
UNBOUND = {"person", "asked", "need", "target", "layer", "lesson", "step", "made", "embed"}
OPTIONS = ("-1", "0", "1", "2", "8", "20", "60", "1e9", "2.5", "nan", "1e400", "x", "", "each")
JUNK = (*NUMBERS[:-2], "", *TEXTS[:3], *HOSTILE, "-1", "0", "1e-9", "true", "0.1:10:0", "1,2,,3")
UNREADABLE = ("rank-one:users=20,items=8", "one-bit-lab:seed=1e9")
DAMAGED = {  # public sets that are there and cannot be read
    "ml-100k": {"u.data": "1\t1\tfive\t0\n"},
    "ml-latest-small": {"ratings.csv": "userId,movieId,rating,timestamp\n1,1\n"},
    "ml-1m": {"ratings.dat": "\0\0\0"},
    "jester": {},
}


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """Public sets that cannot be read lie where this program looks for them."""
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    for name, files in DAMAGED.items():
        folder = public_sets.get_set_folder(name)
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(text)


def draw_data_text(draw):
    """Draw a sample, a damaged set, junk, or mostly a generated sample with odd options."""
    kind = draw.randrange(6)
    if kind < 3:
        return draw.choice([(*SAMPLES, "rank-one", "upload"), (*DAMAGED,), JUNK][kind])
    name = draw.choice([*GENERATORS])
    options = draw.sample(list_sample_options(name), draw.randint(1, 3))
    return f"{name}:" + ",".join(f"{option}={draw.choice(OPTIONS)}" for option in options)


def draw_link(seed, keys):
    """Draw an address's query: mostly data, often a mechanism, and junk for a few of the keys."""
    draw = Random(seed)
    link = {"data": draw_data_text(draw)} if draw.random() < 0.8 else {}
    if draw.random() < 0.5:
        link["mechanism"] = draw.choice([*registry.MECHANISMS])
    for key in draw.sample(sorted(keys), min(draw.randint(0, 8), len(keys))):
        link[key] = draw.choice((*JUNK, *registry.MECHANISMS, draw_data_text(draw)))
    return link


EMPTY_CHOICES = {"mechanisms", "epsilons", "word"}  # where nothing chosen or typed is a choice


@pytest.mark.parametrize(
    ("page", "link"), [*ABSURD_LINKS, *((page, {}) for page in PAGES if page in ("learn", "room"))]
)
def test_an_empty_value_leaves_the_address(page, link, bound):
    open_page(page, **link)
    keys = {*bound, *UNBOUND} - {*link}
    app = open_page(page, **link, **dict.fromkeys(keys - EMPTY_CHOICES, ""))
    assert len(app.title) == 1
    assert not {*app.query_params} & {*bound} - {*link}
    app = open_page(page, **link, **dict.fromkeys(keys & EMPTY_CHOICES, ""))
    assert not app.warning


# A thousand for each page, in parts that several processes share.
CASES_PER_PAGE = [
    pytest.param(page, range(first, first + 125), marks=pytest.mark.slow)
    for page in PAGES
    for first in range(0, 1000, 125)
]


@pytest.mark.usefixtures("damaged")
@pytest.mark.parametrize(("page", "seeds"), [*((page, [0]) for page in PAGES), *CASES_PER_PAGE])
def test_a_page_opens_at_absurd_addresses(page, seeds, bound):
    for link in [link for name, link in ABSURD_LINKS if name == page] or [{}]:
        open_page(page, **link)
    keys = {*bound, *UNBOUND}
    for seed in seeds:
        app = open_page(page, **draw_link(seed, keys))
        assert len(app.title) == 1, seed


@pytest.mark.usefixtures("damaged")
@pytest.mark.parametrize("data", [*UNREADABLE, *DAMAGED])
def test_the_answer_on_data_that_cannot_be_read_is_the_sentence_of_other_pages(data):
    errors = [[e.value for e in open_page(page, data=data).error] for page in ("train", "data")]
    assert len(errors[0]) == 1
    assert errors[1] == errors[0]
