"""What a new user wants to take away, found by following the screen alone, with few clicks.

Other tasks that must work so are elsewhere: test_browser_links.py opens a copied link in another
place, test_browser_train.py trains, stops, trains again and compares, test_browser_learn.py
finishes a lesson, test_browser_data.py uploads a file, and test_browser_compare.py looks for the
smallest epsilon.
"""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser_helpers import (
    DOWNLOAD,
    FIRST_SCREEN_SCRIPT,
    navigate_to,
    open_and_settle,
    settle,
)

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]

# Whatever is pressed by mouse in a tab counts, on whichever page.
COUNT = """addEventListener('pointerdown', () => {
  sessionStorage.clicks = 1 + Number(sessionStorage.clicks ?? 0);
}, true)"""


@pytest.fixture
def start(page, server):
    """The start page, on a usual laptop, with clicks counted from here."""
    page.set_viewport_size({"width": 1366, "height": 768})
    page.add_init_script(COUNT)
    open_and_settle(page, server)
    page.locator(".dpmc-picture").wait_for(state="attached")
    return page


@pytest.mark.parametrize("name", ["", "compare", "compare?layer=Trade", "train", "noise"])
@pytest.mark.slow
def test_a_first_screen_has_few_words_and_controls_and_a_large_figure(start, server, name):
    open_and_settle(start, server + name)
    n_words, controls, share = start.evaluate(FIRST_SCREEN_SCRIPT)
    # A layer names more lines than the page it is on.
    assert n_words <= {"": 118, "compare?layer=Trade": 127}.get(name, 120)
    assert controls <= 20
    assert share >= 50


def count_clicks(page):
    return int(page.evaluate("sessionStorage.clicks ?? 0"))


def turn_to(page, title, heading):
    """Turn to another page and wait until its heading is there."""
    navigate_to(page, title)
    page.get_by_role("heading", name=heading, level=1).wait_for()
    settle(page)


def press_button(page, name):
    page.get_by_role("button", name=name, exact=True).click()
    settle(page)


@pytest.mark.slow
def test_a_report_of_a_run_is_taken_away(start):
    turn_to(start, "Train", "Train one mechanism")
    start.get_by_role("button", name="Train", exact=True).click()
    start.get_by_role("button", name=DOWNLOAD).wait_for()
    train = start.get_by_role("button", name="Train", exact=True)
    expect(train).to_be_enabled()
    settle(start)
    start.get_by_role("button", name=DOWNLOAD).click()
    with start.expect_download() as report:
        start.get_by_role("button", name="Report (HTML)").click()
    assert "Accuracy" in Path(report.value.path()).read_text()
    assert count_clicks(start) <= 5


@pytest.mark.slow
def test_a_picture_of_a_chart_is_taken_away(start, tmp_path):
    turn_to(start, "Compare", "Compare mechanisms")
    start.get_by_role("button", name=DOWNLOAD).click()
    with start.expect_download() as download:
        start.get_by_role("button", name="Charts and numbers (HTML)").click()
    report = tmp_path / "report.html"
    download.value.save_as(report)
    assert count_clicks(start) <= 4
    context = start.context.browser.new_context()  # the first one refuses all but the server
    tab = context.new_page()
    tab.goto(report.as_uri())
    tab.locator(".js-plotly-plot").first.hover()
    with tab.expect_download() as picture:
        tab.locator('[data-title="Download plot"]').first.click()
    assert b"<svg" in Path(picture.value.path()).read_bytes()[:1000]
    context.close()
