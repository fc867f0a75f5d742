"""Text from a link, as Chromium shows it: nothing in it is a picture, a link or a formula."""

import json
import random
from urllib.parse import urlencode, urlsplit

import pytest

from pages.ui.text import escape
from tests.browser_helpers import open_and_settle, serve_app, settle
from tests.hostile import FRAGMENTS, HOSTILE, render_text

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]

APP = """
import json, pathlib
import streamlit as st
texts = json.loads(pathlib.Path(__file__).with_name("texts.json").read_text())
for k, (plain, bold, label) in enumerate(texts):
    with st.container(key=f"text{k}"):
        st.markdown(plain)
        st.warning(bold)
        st.expander(label)
"""
READ_SCRIPT = """count => [...Array(count).keys()].map(k =>
  [...document.querySelectorAll(`.st-key-text${k} [data-testid="stMarkdownContainer"]`)].map(
    e => [e.textContent, [...e.querySelectorAll("*")].map(c => c.tagName).join(" ")]))"""
PAGES = {
    "": ("data", "mechanism", "epsilon"),
    "data": ("data", "way", "answer_protect", "answer_often", "answer_keep", "answer_delta"),
    "train": ("data", "mechanism", "epsilon", "wide", "fresh", "seed", "dp-sgd.rounds"),
    "compare": ("data", "task", "grid", "seeds", "mechanisms", "holdout", "count"),
    "noise": ("data", "mechanism", "epsilon", "wide", "objective.radius"),
    "guarantees": ("data", "facts", "cap", "unit", "epsilon", "wide"),
    "protocol": ("data", "scenario", "epsilon"),
}
FIRST = ("![a](//host/x.png)", "[text](//host)", "http://a.example/x", "a@b.example", "$a$ `b`")
FIRST += (":material/home: :red[x]", "<img src=//host/x.png>")


def test_escaped_text_is_read_as_it_was(browser, tmp_path):
    """Every text by itself, between stars, and as a label."""
    draw = random.Random(1)
    soups = ["".join(draw.choices(FRAGMENTS, k=draw.randint(1, 14))) for _ in range(200)]
    texts = [text for text in (*HOSTILE, *soups) if text.strip()]
    escaped = [escape(text) for text in texts]
    (tmp_path / "texts.json").write_text(json.dumps([(e, f"**{e}**", e) for e in escaped]))
    (tmp_path / "app.py").write_text(APP)
    with serve_app(tmp_path, tmp_path / "app.py") as (address, _):
        tab = browser.new_page()
        open_and_settle(tab, address)
        tab.locator(f".st-key-text{len(texts) - 1} details").wait_for(state="attached")
        settle(tab)
        rendered = tab.evaluate(READ_SCRIPT, len(texts))
        tab.close()
    for text, elements in zip(texts, rendered, strict=True):
        assert [element[0].strip() for element in elements] == [render_text(text)] * 3, text
        for _, tags in elements:
            assert set(tags.split()) <= {"P", "SPAN", "STRONG"}, (text, tags)


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.slow
def test_a_link_shows_its_text_and_fetches_nothing(page, server, path):
    open_and_settle(page, server + path)
    main = page.locator('[data-testid="stMain"]')
    links = main.locator("a").count()
    params = dict(zip(PAGES[path], FIRST, strict=False))
    open_and_settle(page, f"{server}{path}?{urlencode(params)}")
    alerts = main.locator('[data-testid="stAlert"]')
    for text in params.values():
        alerts.filter(has_text=text).first.wait_for()  # one thing left out may lead to another run
    assert main.locator("a").count() <= links
    selector = '[data-testid="stMarkdownContainer"] :is(img, a, code, em, b, .katex, [role=img])'
    assert alerts.locator(selector).count() == 0


@pytest.mark.slow
def test_going_back_to_an_absurd_link_shows_the_page(page, server):
    open_and_settle(page, server + "train?data=one-bit-lab")
    open_and_settle(page, server + "train?seed=inf&cap=1e400")
    assert urlsplit(page.url).query == ""
    while "seed" not in page.url or "cap" not in page.url:
        page.go_back()
        page.wait_for_function("() => location.search.includes('=')")
        settle(page)
        assert page.get_by_role("button", name="Train", exact=True).is_enabled()
        assert page.get_by_text("the seed “inf”").is_visible()
