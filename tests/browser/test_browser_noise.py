"""The picker and the noise in Chromium: by mouse, keyboard and address bar."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from dpmc_core import registry
from dpmc_lab.views import groups
from tests.browser_helpers import navigate_to, open_and_settle, settle

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HEADS = """() => [...document.querySelectorAll(
  '.st-key-mechanism [data-testid="stRadioGroup"] > div')].map(
  e => getComputedStyle(e, '::before').content).filter(t => t !== 'none')"""


def read_params(page):
    return parse_qs(urlsplit(page.url).query)


def get_name(id):
    return registry.get_mechanism(id).name


def test_the_picker_shows_its_groups_and_what_is_picked_is_in_the_address(page, server):
    open_and_settle(page, server + "noise?mechanism=output")
    opener = page.get_by_role("button", name="Mechanism")
    assert get_name("output") in opener.inner_text()
    opener.click()
    settle(page)
    guarantees, _ = groups.build_guarantees(
        registry.list_suitable_mechanisms(), groups.ANY_PUBLIC_FACTS
    )
    headings = [head.strip('"') for head in page.evaluate(HEADS)]
    assert headings == [group.title for group in groups.group_mechanisms(guarantees)]
    assert page.get_by_role("radio", name=get_name("output"), exact=True).is_checked()
    page.get_by_text(get_name("dpals"), exact=True).click()
    settle(page)
    assert read_params(page)["mechanism"] == [get_name("dpals")]
    # it stays open, and the arrows go on from there
    page.get_by_role("radio", name=get_name("dpals"), exact=True).press("ArrowDown")
    settle(page)
    chosen = page.get_by_role("radio", checked=True)
    assert get_name("dpals") not in opener.inner_text()
    page.keyboard.press("Escape")
    settle(page)
    assert not chosen.is_visible()
    selected_id = read_params(page)["mechanism"][0]
    assert selected_id in opener.inner_text()
    navigate_to(page, "Train")
    settle(page)
    assert selected_id in page.get_by_role("button", name="Mechanism").inner_text()


def measure_figure(tab):
    """Return the box of the first chart, and how far the page reaches sideways."""
    box = tab.locator(".st-key-figure .stPlotlyChart").bounding_box()
    return box, tab.evaluate("() => document.documentElement.scrollWidth")


@pytest.mark.parametrize(
    "path", ["noise?mechanism=private-effects", "guarantees", "protocol?message=2"]
)
@pytest.mark.parametrize(
    ("width", "height", "min_share"),
    [(1366, 768, 0.5), (1280, 720, 0.6), (1920, 1080, 0.6), (390, 844, 0.4)],
)
def test_the_figure_grows_with_the_window_and_is_seen_whole(
    browser, server, path, width, height, min_share
):
    tab = browser.new_page(viewport={"width": width, "height": height})
    open_and_settle(tab, server + path)
    box, reach = measure_figure(tab)
    assert box["height"] >= min_share * height - 1
    assert reach <= width
    if width > 800:
        assert box["y"] + box["height"] <= height
        panel = tab.locator(".st-key-panel").bounding_box()
        assert panel["x"] >= box["x"] + box["width"]
        assert panel["width"] < 0.3 * width
    clipped = tab.evaluate("""() => {
      const svg = document.querySelector('.st-key-figure .main-svg');
      const box = svg.closest('.stElementContainer');
      return svg.getBoundingClientRect().bottom - box.getBoundingClientRect().bottom; }""")
    assert clipped <= 1
    tab.close()


def test_a_click_on_a_line_of_the_claims_takes_its_mechanism_up(browser, server):
    tab = browser.new_page(viewport={"width": 1366, "height": 768})
    open_and_settle(tab, server + "guarantees?mechanism=input-flip")
    for id in ("output", "gradient", "output"):
        line = tab.locator(".st-key-figure .yaxislayer-above text, .st-key-figure .ytick text")
        box = line.filter(
            has_text=re.compile(f"^{registry.get_short_name(id)}(?=[●○⊗]|$)")
        ).bounding_box()
        tab.mouse.click(box["x"] + 500, box["y"] + box["height"] / 2)
        tab.wait_for_url(f"**mechanism={get_name(id).replace(' ', '+')}**")
        settle(tab)
        assert get_name(id) in tab.get_by_role("button", name="Mechanism").inner_text()
    tab.close()


def test_the_protocol_plays_by_itself_until_it_is_stopped(browser, server):
    tab = browser.new_page(viewport={"width": 1366, "height": 768})
    open_and_settle(tab, server + "protocol?data=restaurants")
    tab.get_by_role("button", name="Play").click()
    tab.get_by_text("Message 4 of").wait_for()
    tab.get_by_role("button", name="Stop").click()
    tab.get_by_role("button", name="Play").wait_for()
    settle(tab)
    step_text = tab.get_by_text(re.compile("Message .* of")).first.inner_text()
    tab.wait_for_timeout(3000)
    assert tab.get_by_text(re.compile("Message .* of")).first.inner_text() == step_text
    tab.close()
