"""The Papers page in Chromium: a row is clicked, a figure is run, stopped, resumed, and linked."""

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
def test_the_first_screen_opens_with_what_holds_in_few_words(page, server, paper):
    page.set_viewport_size({"width": 1366, "height": 768})
    open_and_settle(page, f"{server}papers?paper={paper}")
    n_words, controls, _ = page.evaluate(FIRST_SCREEN_SCRIPT)
    assert n_words <= 120
    assert controls <= 20
    summary_box = page.get_by_text(re.compile(r"\d+ statements: \d+ hold")).bounding_box()
    table = page.get_by_test_id("stDataFrame").first.bounding_box()
    assert summary_box["y"] < table["y"] < 768


def test_a_click_on_a_row_shows_its_figure(page, server):
    open_and_settle(page, server + "papers?paper=z16")
    table = page.get_by_test_id("stDataFrame").first  # drawn on a canvas
    for x, row, title in ((20, 1, "Z16, theorem 3"), (400, 0, "Z16, figure 1")):
        table.click(position={"x": x, "y": ROW * (row + 1.5)})
        page.get_by_role("heading", name=title, exact=True).wait_for()
        settle(page)
        field = page.get_by_label("Figure or table", exact=True)
        assert field.input_value().startswith(title)


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
    link = page.get_by_test_id("stCode").filter(has_text=f"experiment={SHORT}").inner_text()
    heading = page.get_by_role("heading", level=2).first.inner_text()
    open_and_settle(page, link.strip())
    assert page.get_by_role("heading", level=2).first.inner_text() == heading
    page.get_by_text("Your own run").wait_for()
    assert not page.get_by_text("another result").count()
    find_button(page, "Forget my run").click()
    page.get_by_text("Came with the app").wait_for()
