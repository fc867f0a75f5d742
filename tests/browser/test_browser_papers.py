"""The Papers page in Chromium: cards, rows and links; a figure is run, stopped and resumed."""

import re

import pytest

from tests.browser_helpers import FIRST_SCREEN_SCRIPT, open_and_settle, settle

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SHORT = "z16-generated"  # some seconds of computing, in many parts
PARTS_PATTERN = re.compile(r"(\d+) of (\d+) parts")
ROW = 35.0  # pixels, of the head too


def find_button(page, name):
    main = page.get_by_test_id("stMainBlockContainer")
    return main.get_by_role("button", name=name, exact=True)


def count_completed_parts(page, more=0):
    """Return how many parts are done once the page states more than `more`."""
    page.wait_for_function(
        """([pattern, more]) => {
          const found = document.body.innerText.match(new RegExp(pattern));
          return found !== null && Number(found[1]) > more;
        }""",
        arg=[PARTS_PATTERN.pattern, more],
    )
    return int(PARTS_PATTERN.search(page.inner_text("body"))[1])


@pytest.mark.parametrize("paper", ["all", "lwhm22", "ryhh24", "jtt18"])
def test_the_first_screen_opens_with_what_holds(page, server, paper):
    """Of all papers the cards are in sight: who wrote them, and what we found."""
    page.set_viewport_size({"width": 1366, "height": 768})
    open_and_settle(page, f"{server}papers?paper={paper}")
    n_words, controls, _ = page.evaluate(FIRST_SCREEN_SCRIPT)
    assert n_words <= (330 if paper == "all" else 220)
    assert controls <= 20
    summary = page.get_by_text(re.compile(r"Of \d+ statements, \d+ hold")).first.bounding_box()
    assert summary["y"] < 768


def test_a_card_and_a_row_lead_to_a_figure_and_that_to_train(page, server):
    open_and_settle(page, f"{server}papers")
    find_button(page, "Show its figures").first.click()
    page.get_by_role("heading", name="Li et al. 2022, figure 1a", exact=True).wait_for()
    settle(page)
    page.get_by_text("All its figures and tables").click()
    settle(page)
    table = page.get_by_test_id("stDataFrame").first  # drawn on a canvas
    table.click(position={"x": 500, "y": ROW * 4.5})
    page.get_by_role("heading", name="Li et al. 2022, figure 2b", exact=True).wait_for()
    settle(page)
    find_button(page, "Train this as published").click()
    page.get_by_role("link", name="Train Output perturbation").click()
    page.wait_for_url(re.compile(r"/train\?.*published=true"))
    settle(page)
    assert not page.get_by_role("alert").count()


def test_a_run_is_stopped_and_goes_on_and_its_link_opens_the_same(page, server):
    open_and_settle(page, f"{server}papers?experiment={SHORT}")
    page.get_by_text("Came with the app").wait_for()
    find_button(page, "Run it again").dblclick()  # once more does no harm
    before = count_completed_parts(page)
    find_button(page, "Stop").click()
    page.get_by_text("run it again for the others").wait_for()
    page.reload()
    completed_parts = count_completed_parts(page, before - 1)
    settle(page)
    find_button(page, "Run it again").click()
    assert count_completed_parts(page, completed_parts) > completed_parts
    page.get_by_text("Your own run").wait_for()
    settle(page)
    assert not page.get_by_role("alert").count()
    heading = page.get_by_role("heading", level=2).first.inner_text()
    open_and_settle(page, page.url)
    assert page.get_by_role("heading", level=2).first.inner_text() == heading
    page.get_by_text("Your own run").wait_for()
    find_button(page, "Forget my run").click()
    page.get_by_text("Came with the app").wait_for()
