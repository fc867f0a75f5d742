"""The picker and the noise in Chromium: by mouse, keyboard and address bar."""

from urllib.parse import parse_qs, urlsplit

import pytest

from dpmc_core import registry
from dpmc_core.lab.views import groups
from tests.browser_helpers import settle, turn_to, visit

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HEADS = """() => [...document.querySelectorAll(
  '.st-key-mechanism [data-testid="stRadioGroup"] > div')].map(
  e => getComputedStyle(e, '::before').content).filter(t => t !== 'none')"""


def query(page):
    return parse_qs(urlsplit(page.url).query)


def name(id):
    return registry.get(id).name


def test_the_picker_shows_its_groups_and_what_is_picked_is_in_the_address(page, server):
    visit(page, server + "noise?mechanism=output")
    opener = page.get_by_role("button", name="Mechanism")
    assert name("output") in opener.inner_text()
    opener.click()
    settle(page)
    found, _ = groups.cards_of(registry.offered(), groups.ANY)
    shown = [head.strip('"') for head in page.evaluate(HEADS)]
    assert shown == [group.title for group in groups.grouped(found)]
    assert page.get_by_role("radio", name=name("output"), exact=True).is_checked()
    page.get_by_text(name("dpals"), exact=True).click()
    settle(page)
    assert query(page)["mechanism"] == [name("dpals")]
    # it stays open, and the arrows go on from there
    page.get_by_role("radio", name=name("dpals"), exact=True).press("ArrowDown")
    settle(page)
    chosen = page.get_by_role("radio", checked=True)
    assert name("dpals") not in opener.inner_text()
    page.keyboard.press("Escape")
    settle(page)
    assert not chosen.is_visible()
    again = query(page)["mechanism"][0]
    assert again in opener.inner_text()
    turn_to(page, "Train")
    settle(page)
    assert again in page.get_by_role("button", name="Mechanism").inner_text()


def pinned(page):
    return page.get_by_role("combobox", name="Pinned", exact=True)


def test_the_noise_at_two_epsilons_is_compared_by_following_the_screen(page, server):
    """Pin one, move the slider: the axes stay, a ghost is there, a sentence says by how much."""
    visit(page, server + "noise?mechanism=objective&epsilon=1")
    before = ranges(page)
    page.get_by_role("button", name="Pin this epsilon").click()
    settle(page)
    assert query(page)["pin"] == ["1"]
    slider = page.get_by_role("slider", name="epsilon")
    for _ in range(5):
        slider.press("ArrowRight")
        settle(page)
    assert query(page)["epsilon"] == ["5"]
    said = page.get_by_text("At epsilon 5, half of the noise is within ±0.139; at epsilon 1")
    assert "5 times larger" in said.inner_text()
    assert page.locator(".legendtext", has_text="epsilon 1, pinned").is_visible()
    assert ranges(page) == before
    address = page.url
    again = page.context.new_page()
    visit(again, address)
    assert pinned(again).input_value() == "1"
    assert again.locator(".legendtext", has_text="epsilon 1, pinned").is_visible()
    again.close()


def ranges(page):
    """The axes of every chart as Plotly has them."""
    return page.evaluate("""() => [...document.querySelectorAll('.js-plotly-plot')].map(
      e => [e._fullLayout.xaxis.range, e._fullLayout.yaxis.range])""")


def test_several_releases_stand_in_rows_on_a_screen_and_beneath_each_other_on_a_phone(
    browser, server
):
    for width, least in ((1366, 4), (390, 1)):
        tab = browser.new_page(viewport={"width": width, "height": 900})
        visit(tab, server + "noise?mechanism=private-effects")
        tops = tab.evaluate(
            "() => [...document.querySelectorAll('.js-plotly-plot')].slice(0, 7).map("
            "e => Math.round(e.getBoundingClientRect().top))"
        )
        assert max(tops.count(top) for top in tops) == least
        wide = tab.evaluate("() => document.documentElement.scrollWidth")
        assert wide <= width
        tab.close()


def test_the_promises_are_seen_without_scrolling(browser, server):
    tab = browser.new_page(viewport={"width": 1366, "height": 650})
    visit(tab, server + "guarantees")
    box = tab.locator(".promises").bounding_box()
    assert box["y"] + box["height"] <= 650
    dots = tab.locator(".promises i")
    assert dots.count() == len(registry.offered())
    tab.close()
