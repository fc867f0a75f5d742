"""README's five minutes in one tab: every page opens and does what README says, without error."""

import re
from urllib.parse import urljoin

import pytest
from playwright.sync_api import expect

from app import SECTIONS
from dpmc_lab.lessons import LESSONS
from tests.browser_helpers import navigate_to, open_and_settle, read_ratings, settle

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def tab(browser, server):
    """The visitor's tab, at the start page."""
    context = browser.new_context(
        viewport={"width": 1400, "height": 900}, reduced_motion="reduce"
    )  # what moves costs time
    page = context.new_page()
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    open_and_settle(page, server)
    yield page
    context.close()


def press(page, name):
    page.get_by_test_id("stMain").get_by_role("button", name=name, exact=True).first.click()
    settle(page)


def move_epsilon(page, key="ArrowRight"):
    page.get_by_test_id("stMain").get_by_role("slider", name="epsilon").first.press(key)
    settle(page)


def wait_for_chart(page):
    page.locator('[data-testid="stPlotlyChart"] .main-svg').first.wait_for()


def use_what_if(page, _):
    """Drag the slider, guess, and protect the whole person."""
    sentence = page.locator(".dpmc-say")
    before = sentence.inner_text()
    assert "attacker" in page.get_by_test_id("stMain").inner_text()
    assert before.count("%") >= 2
    knob = page.locator(".dpmc-knob").bounding_box()
    rule = page.locator(".dpmc-picture .rule.now").bounding_box()
    page.mouse.move(rule["x"], knob["y"] + knob["height"] / 2)
    page.mouse.down()
    page.mouse.move(knob["x"] + 150, knob["y"] + knob["height"] / 2, steps=4)
    page.mouse.up()
    page.wait_for_url(re.compile("epsilon="))
    settle(page)
    after = sentence.inner_text()
    assert after != before
    assert page.locator(".dpmc-marks i").count() == 59
    page.locator(".dpmc-opener").click()
    assert page.locator(".dpmc-lists li").count() == 5
    press(page, "You guess")
    page.keyboard.press("Escape")
    page.get_by_text("the whole person", exact=True).first.click()
    settle(page)
    assert sentence.inner_text() != after


def use_learn(page, _):
    """Predict, see the answer and change something."""
    press(page, "Start with lesson 1")
    assert page.locator(".st-key-drawing [role=img]").count() == 0
    press(page, LESSONS["coin"].slides[0].predict.options[0])
    page.locator(".st-key-drawing [role=img]").wait_for()
    finding = page.locator(".st-key-finding").inner_text()
    page.get_by_test_id("stMain").get_by_role("slider").first.press("ArrowLeft")
    settle(page)
    assert page.locator(".st-key-finding").inner_text() != finding


def use_class(page, _):
    """Ask 30 simulated phones."""
    page.get_by_role("button", name="Open the room").click()  # and its key, N
    assert page.locator(".shares .dot").count() == 0
    press(page, "Ask 30 simulated phones")
    page.keyboard.press("l")  # lock
    page.locator(".shares .dot").first.wait_for()


def use_data(page, folder):
    """Upload ratings, read them, and after one click see a first curve or already the verdict."""
    read_ratings(page, folder)
    page.get_by_role("button", name="Get the answer").click()
    page.get_by_text(re.compile("a coarse curve|private fits")).first.wait_for()
    wait_for_chart(page)


def use_train(page, _):
    """Train twice, at two epsilons, on a small data set."""
    open_and_settle(page, urljoin(page.url, "train?data=restaurants&mechanism=private-effects"))
    for run in (1, 2):
        press(page, "Train")
        page.get_by_text(f"Run {run}", exact=True).first.wait_for(state="attached")  # folded
        expect(page.get_by_role("button", name="Train", exact=True)).to_be_enabled()
        settle(page)
        if run == 1:
            move_epsilon(page)
    assert page.locator(".st-key-card-1, .st-key-card-2").count() == 2


def use_compare(page, _):
    """Mechanisms stand side by side."""
    wait_for_chart(page)
    names = page.evaluate("document.querySelector('.js-plotly-plot').data.map(t => t.name)")
    assert len({*names}) > 5


def use_noise(page, _):
    """Another epsilon gives another noise."""
    wait_for_chart(page)
    before = page.get_by_test_id("stMain").inner_text()
    move_epsilon(page)
    assert page.get_by_test_id("stMain").inner_text() != before


def use_guarantees(page, _):
    """Attack output perturbation."""
    page.get_by_role("button", name="Mechanism: ").click()
    page.get_by_text("Output perturbation", exact=True).click()
    page.keyboard.press("Escape")
    settle(page)
    press(page, "Attack this claim")
    # While its bound grows, the old heading and the new one may stand side by side.
    page.get_by_text("Refuted: the attack measured").first.wait_for()
    stop = page.get_by_test_id("stMain").get_by_role("button", name="Stop")
    stop.evaluate_all("buttons => buttons.forEach(button => button.click())")


def use_protocol(page, _):
    """Follow the messages, and attack."""
    for k in (1, 2):
        press(page, "Next")
        page.get_by_text(f"Message {k} of").first.wait_for()
    press(page, "Attack as the third party")
    page.get_by_text(re.compile("It recovers")).wait_for()


def use_papers(page, _):
    """Open a figure beside our own measurement."""
    press(page, "Show its figures")
    page.get_by_role("heading", name=re.compile("figure 1a")).wait_for()
    wait_for_chart(page)


USES = {  # in README's order, so that the uploaded ratings come last
    "What if": use_what_if,
    "Train": use_train,
    "Compare": use_compare,
    "Noise": use_noise,
    "Guarantees": use_guarantees,
    "Papers": use_papers,
    "Protocol": use_protocol,
    "Learn": use_learn,
    "Class": use_class,
    "Your data": use_data,
}


def test_every_page_has_its_turn():
    assert {entry.title for section in SECTIONS.values() for entry in section} == USES.keys()


@pytest.mark.parametrize("title", USES)
def test_a_page_opens_and_does_its_main_task_without_an_error(tab, title, tmp_path):
    tab.errors.clear()
    if title != "What if":
        navigate_to(tab, title)
    settle(tab)
    assert tab.locator("h1").count() == 1
    USES[title](tab, tmp_path)
    assert tab.get_by_test_id("stException").count() == 0
    assert tab.get_by_test_id("stAlert").all_inner_texts() == []
    assert tab.errors == []
