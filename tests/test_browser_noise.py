"""The picker and the noise in Chromium: by mouse, keyboard and address bar."""

from urllib.parse import parse_qs, urlsplit

import pytest

from dpmc_core import registry
from dpmc_core.views import groups
from tests.browser_helpers import settle, visit

pytestmark = pytest.mark.browser

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
    page.get_by_role("link", name="Train").click()
    settle(page)
    assert again in page.get_by_role("button", name="Mechanism").inner_text()
