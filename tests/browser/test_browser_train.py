"""Train in Chromium: a run goes by, is stepped through, scrubbed, remembered and compared."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser_helpers import DOWNLOAD, navigate_to, open_and_settle, settle

pytestmark = pytest.mark.browser


def find_scrubber(page):
    return page.get_by_role("slider", name="Round")


def press_button(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def locate_scrubber_text(page):
    """Return the text beside the scrubber, as a locator."""
    return page.locator(".matrix output")


def wait_for_result(page):
    expect(page.get_by_role("button", name=DOWNLOAD)).to_be_visible()
    expect(page.get_by_role("button", name="Train", exact=True)).to_be_enabled()
    settle(page)


def expect_end(page, rounds):
    expect(locate_scrubber_text(page)).to_have_text(f"round {rounds} of {rounds}")


@pytest.mark.slow
def test_an_example_plays_and_can_be_scrubbed_without_the_server(page, server):
    open_and_settle(page, server + "train?data=one-bit-lab&mechanism=private-frank-wolfe")
    expect_end(page, 15)
    expect(page.get_by_role("button", name="Replay")).to_be_visible()
    assert page.get_by_role("img", name=re.compile("^RMSE: .*no privacy")).count() == 1
    end = page.locator(".run canvas").last.evaluate("e => e.toDataURL()")
    sent = []
    page.on("websocket", lambda _: sent.append("new"))
    find_scrubber(page).focus()
    for _ in range(15):
        find_scrubber(page).press("ArrowLeft")
    expect(locate_scrubber_text(page)).to_have_text("before round 1")
    assert page.locator(".run canvas").last.evaluate("e => e.toDataURL()") != end
    find_scrubber(page).press("ArrowRight")
    expect(locate_scrubber_text(page)).to_have_text("round 1 of 15")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    state = page.locator('[data-testid="stApp"]').get_attribute("data-test-script-state")
    assert state == "notRunning"
    assert not sent


# Pairs of texts of which one covers more than a hair of the other. Boxes are higher than letters.
COVERED_SCRIPT = """texts => {
  const boxes = texts.map(e => [e.textContent, e.getBBox()]);
  const meet = (a, b) => a.x < b.x + b.width - 2 && b.x < a.x + a.width - 2
    && a.y < b.y + b.height - 6 && b.y < a.y + a.height - 6;
  return boxes.flatMap(([one, a], k) => boxes.slice(k + 1)
    .filter(([_, b]) => meet(a, b)).map(([other]) => `${one} / ${other}`));
}"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "link",
    [
        "data=movie-night&mechanism=input-flip",
        "data=movie-night&mechanism=private-effects",
        "data=bookshop-clicks&mechanism=private-taste",
    ],
)
def test_no_text_of_the_curve_covers_another(page, server, link):
    """At one epsilon after the other, so that an earlier run stands beside each."""
    open_and_settle(page, f"{server}train?{link}&epsilon=0.5")
    scrubber, texts = find_scrubber(page), page.locator(".run svg text")
    slider = page.locator('[data-testid="stSlider"] input').first
    for epsilon_before in ("", "0.5", "1", "2", "4"):
        press_button(page, "Train")
        if epsilon_before:
            name = page.get_by_text(f"earlier: epsilon {epsilon_before}", exact=True)
            expect(name).to_be_visible()
        wait_for_result(page)
        scrubber.press("End")
        for _ in range(int(scrubber.get_attribute("max"))):
            assert texts.count() > 5
            assert not texts.evaluate_all(COVERED_SCRIPT)
            scrubber.press("ArrowLeft")
        for _ in range(2):
            slider.press("ArrowRight")
        settle(page)


@pytest.mark.slow
def test_step_stop_reset_and_train_again(page, server):
    """Task: train, stop, train again, compare both."""
    open_and_settle(page, server + "train?data=movie-night&mechanism=private-frank-wolfe&epsilon=3")
    for rounds in (1, 2):
        press_button(page, "Step")
        expect(page.get_by_text(f"paused · Private Frank-Wolfe: round {rounds} of")).to_be_visible()
        expect(locate_scrubber_text(page)).to_have_text(f"round {rounds} of at most 15")
    press_button(page, "Stop")
    wait_for_result(page)
    expect(page.get_by_text("Stopped after")).to_be_visible()
    press_button(page, "Reset")
    expect(page.get_by_text("An example at epsilon")).to_be_visible()
    expect(page.get_by_text("Stopped after")).not_to_be_visible()
    page.get_by_label("epsilon").first.focus()
    page.locator('[data-testid="stSlider"] input').first.press("ArrowRight")
    settle(page)
    press_button(page, "Train")
    wait_for_result(page)
    finding = re.compile("^Run [12]( and run 2 are| is better)")
    expect(page.get_by_role("heading", name=finding)).to_be_visible()
    earlier = page.locator(".run path.ghost")
    assert earlier.count() == 1
    for column in ("Run 1", "Run 2"):
        expect(page.get_by_text(column, exact=True).first).to_be_visible()
    # They wait while one looks elsewhere.
    navigate_to(page, "Noise")
    settle(page)
    navigate_to(page, "Train")
    expect(page.locator(".st-key-card-2")).to_be_visible()
    expect_end(page, 15)
    assert earlier.count() == 1


@pytest.mark.slow
def test_with_reduced_motion_nothing_plays(browser, server):
    context = browser.new_context(reduced_motion="reduce")
    tab = context.new_page()
    open_and_settle(tab, server + "train?data=one-bit-lab&mechanism=private-effects")
    assert locate_scrubber_text(tab).inner_text() == "round 4 of 4"
    context.close()
