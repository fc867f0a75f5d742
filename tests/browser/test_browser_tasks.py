"""What a new user wants to know, found by following the screen alone, with the clicks it takes.

Everybody begins at the start page, follows visible words by mouse and types on the keyboard. Of
the tasks that must work so, others are elsewhere: test_browser_links.py opens a copied link in
another place, test_browser_train.py trains, stops, trains again and compares, test_browser_learn.py
finishes a lesson, test_browser_data.py uploads a file, test_browser_compare.py looks for the
smallest epsilon, and test_browser_noise.py compares the noise at two of them.
"""

import re
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
    # The start page explains one rating, and a layer names more lines than the page it is on.
    assert n_words <= {"": 150, "compare?layer=Trade": 127}.get(name, 120)
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


def find_text(page, pattern):
    """Return the match of a pattern in the first visible text that contains it."""
    pattern = pattern.replace(" ", r"\s")  # some do not break
    element = page.get_by_text(re.compile(pattern)).filter(visible=True).first
    expect(element).to_be_visible()
    return re.search(pattern, element.text_content())


def read_lists(page):
    """Return the titles without and with privacy."""
    return [
        ordered_list.locator("li").all_inner_texts()
        for ordered_list in page.locator(".dpmc-lists ol").all()
    ]


@pytest.mark.slow
def test_what_epsilon_1_per_user_costs_on_a_sample(start):
    start.get_by_text("Protect the whole person").click()
    start.get_by_text("privacy budget epsilon, per user").wait_for()
    settle(start)
    answer = start.locator(".dpmc-say").inner_text().replace("\N{NO-BREAK SPACE}", " ")
    assert answer.startswith("At epsilon 1, ")
    assert "at most 55 % of the time" in answer
    picture = start.locator(".dpmc-picture").text_content()
    error = float(start.locator(".dpmc-picture .big.method").text_content())
    gain_share = int(re.search(r"keeps (\d+) %", picture)[1])
    texts = start.locator(".dpmc-picture text").all_text_contents()
    guessing, without = (
        float(texts[texts.index(name) + 1]) for name in ("own average", "no privacy")
    )
    assert without < error < guessing
    assert gain_share == pytest.approx(100 * (guessing - error) / (guessing - without), abs=1)
    assert count_clicks(start) <= 1


@pytest.mark.slow
def test_why_the_claim_of_output_perturbation_fails(start):
    turn_to(start, "Guarantees", "Which promises hold?")
    start.get_by_role("button", name="Mechanism: ").click()
    start.get_by_text("Output perturbation", exact=True).click()
    settle(start)
    start.keyboard.press("Escape")
    settle(start)
    proved = find_text(
        start, r"proved instead is epsilon\s([\d,]+)\. An attack .* measured at least ([\d.]+)"
    )
    assert int(proved[1].replace(",", "")) > 1000
    assert float(proved[2]) > 1
    start.get_by_role("button", name="Read why").click()
    settle(start)
    assert find_text(start, "one rating moves many cells")
    assert count_clicks(start) <= 5


@pytest.mark.slow
def test_the_attack_on_the_protocol_is_run_and_says_what_it_shows(start):
    turn_to(start, "Protocol", "Can a recommender learn without seeing ratings?")
    press_button(start, "Attack as the third party")
    assert find_text(start, "recovers 0 of 4 differences of answers.*Fresh masks")
    assert find_text(start, "Switch the masks off and compare")
    start.get_by_text("Masks", exact=True).click()
    settle(start)
    assert find_text(start, "recovers 4 of 4 differences of answers.*the difference is visible")
    assert find_text(start, "chooses what it sends computes A exactly")
    assert count_clicks(start) <= 4


@pytest.mark.slow
def test_a_picture_and_a_report_are_taken_away(start):
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
    start.keyboard.press("Escape")
    chart = start.get_by_test_id("stPlotlyChart").first
    chart.hover()
    with start.expect_download() as picture:
        chart.locator('[data-title="Download plot as a PNG"]').click()
    assert Path(picture.value.path()).read_bytes().startswith(b"\x89PNG")
    assert count_clicks(start) <= 6  # all but the picture stand behind one button
