"""The core of the tasks by keyboard alone: the focus goes where one acts, and never gets lost."""

import re

import pytest

from tests.browser_helpers import open_and_settle, settle

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]

# The name of what has the focus. The page itself can have it, to be scrolled: its text is long.
FOCUSED = """() => {
  const focused = document.activeElement;
  const name = focused.ariaLabel || focused.labels?.[0]?.textContent || focused.textContent;
  return focused === document.body || name.length > 100 ? '' : name;
}"""
IN_POPOVER = "document.activeElement.closest('[data-testid=stPopoverBody]') !== null"


def tab_to(page, name, *, back=False):
    """Press Tab until the element with this name has the focus."""
    for _ in range(80):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        if name in page.evaluate(FOCUSED):
            return
    raise AssertionError(f"Tab does not reach {name}")


def press_key(page, key):
    page.keyboard.press(key)
    settle(page)


def wait_for_focus(page, name):
    page.wait_for_function(f"name => ({FOCUSED})().includes(name)", arg=name)


@pytest.mark.slow
def test_the_start_page_is_used_by_keyboard_alone(page, server):
    open_and_settle(page, server)
    page.keyboard.press("Tab")
    press_key(page, "Enter")  # the link that skips the navigation
    assert page.evaluate(FOCUSED) == "privacy budget epsilon"
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile("epsilon=0.7"))
    tab_to(page, "Set a target", back=True)
    press_key(page, "Enter")
    tab_to(page, "Usefulness target")
    page.keyboard.press("Control+a")
    page.keyboard.type("70")
    press_key(page, "Enter")
    assert "70.0 % needs a privacy budget" in page.locator(".dpmc-answer").inner_text()
    tab_to(page, "Download", back=True)
    for opener, inside in (("Download", "This page"), ("Mechanism", "Input perturbation")):
        if opener not in page.evaluate(FOCUSED):
            tab_to(page, opener, back=True)
        press_key(page, "Enter")
        page.wait_for_function(IN_POPOVER)
        assert inside in page.evaluate(FOCUSED)
        if opener == "Mechanism":
            press_key(page, "ArrowDown")
            assert page.evaluate(IN_POPOVER)
        page.keyboard.press("Escape")
        wait_for_focus(page, opener)
    assert "Input perturbation" not in page.evaluate(FOCUSED)


@pytest.mark.slow
def test_a_table_is_left_by_tab(page, server):
    open_and_settle(page, server)
    tab_to(page, "The curves in numbers")
    press_key(page, "Enter")
    page.get_by_test_id("stDataFrame").first.wait_for()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "CANVAS":
            break
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") not in ("CANVAS", "BODY")


@pytest.mark.slow
def test_what_a_rerun_takes_away_hands_the_focus_on(page, server):
    open_and_settle(page, server + "protocol")
    tab_to(page, "Play")
    page.keyboard.press("Enter")
    wait_for_focus(page, "Stop")
    page.keyboard.press("Enter")
    wait_for_focus(page, "Play")
    tab_to(page, "Attack as the third party")
    press_key(page, "Enter")
    page.wait_for_function("document.activeElement !== document.body")
    assert "Masks" in page.evaluate(FOCUSED)
