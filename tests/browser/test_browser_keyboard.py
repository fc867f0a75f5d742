"""The eleven tasks of the app by keyboard alone: the focus is always seen, named and never lost."""

import re
from pathlib import Path

import pytest

from tests.browser_helpers import open_and_settle, settle

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# What has the focus: its name, and what is wrong with it. Nothing smaller than a letter is seen,
# so a control that is drawn by another one counts as that one.
FOCUS_SCRIPT = """() => {
  let focused = document.activeElement;
  while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
  if (!focused || focused === document.body) return ['', 'it is lost'];
  const root = focused.getRootNode();
  const ids = (focused.getAttribute('aria-labelledby') ?? '').split(' ').filter(Boolean);
  const name = (focused.ariaLabel || ids.map(id => root.getElementById(id)?.textContent).join(' ')
    || focused.labels?.[0]?.textContent || focused.textContent || focused.title).trim();
  let seen = focused;
  const isSmall = ({ width, height }) => width < 4 || height < 4;
  while (seen.parentElement && (getComputedStyle(seen).opacity === '0'
    || isSmall(seen.getBoundingClientRect()))) seen = seen.parentElement;
  const box = seen.getBoundingClientRect();
  const isIn = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  let rim = focused;
  for (let k = 0; k < 4 && rim && getComputedStyle(rim).outlineStyle === 'none'; k++)
    rim = rim.parentElement;
  const hasRim = rim && getComputedStyle(rim).outlineStyle !== 'none';
  const wrong = !name || name.length > 200 ? 'it has no name' : !isIn ? 'it is out of sight'
    : !hasRim && !focused.closest('canvas') ? 'it has no rim' : '';
  return [name.slice(0, 200), wrong];
}"""
MAX_TABS = 90


class Keyboard:
    """A keyboard on a tab of the browser, which looks at the focus after each key.

    Attributes:
        page: the tab.
        name: of what has the focus.
    """

    def __init__(self, page):
        self.page, self.name = page, ""

    def look(self):
        """Wait a moment until all is well with what has the focus, and remember its name."""
        for _ in range(30):
            self.name, wrong = self.page.evaluate(FOCUS_SCRIPT)
            if not wrong:
                return self.name
            self.page.wait_for_timeout(100)
        raise AssertionError(f"the focus: {wrong}, after {self.name!r}")

    def press(self, *keys):
        """Press keys, with all that follows from each."""
        for key in keys:
            self.page.keyboard.press(key)
            settle(self.page)
            self.look()

    def type(self, text):
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)

    def find(self, name, *, back=False):
        """Press Tab until what has this name has the focus; outside the page it begins anew."""
        for _ in range(MAX_TABS):
            if re.search(name, self.name):
                return self
            self.page.keyboard.press("Shift+Tab" if back else "Tab")
            self.name, wrong = self.page.evaluate(FOCUS_SCRIPT)
            if wrong and wrong != "it is lost":
                self.look()
        raise AssertionError(f"Tab does not reach {name}, but {self.name!r}")

    def choose(self, name, key="Enter", **options):
        self.find(name, **options).press(key)

    def wait_for(self, text):
        self.page.get_by_text(text).first.wait_for()
        settle(self.page)
        self.look()


@pytest.fixture
def keys(page, server):
    def open_(address):
        open_and_settle(page, server + address)
        return Keyboard(page)

    return open_


def test_what_epsilon_1_per_user_costs(keys):
    keyboard = keys("")
    keyboard.press("Tab", "Enter")  # the link that skips the navigation
    assert keyboard.name == "privacy budget epsilon"
    keyboard.page.reload()
    settle(keyboard.page)
    keyboard.choose("each rating", "ArrowRight")
    keyboard.press("Space")
    assert "between two sets of ratings" in keyboard.page.locator(".dpmc-say").inner_text()
    keyboard.choose("The curves in numbers")
    for _ in range(3):
        keyboard.press("Tab")  # through the table and out of it
    keyboard.find("^Compare$", back=True)


def test_an_upload_is_read_and_its_answer_printed(keys, tmp_path):
    rows = [f"u{u},i{i},{1 + (u * i) % 5}" for u in range(30) for i in range(20) if (u + i) % 3]
    file = tmp_path / "mine.csv"
    file.write_text("\n".join(["user,item,stars", *rows]) + "\n")
    keyboard = keys("data")
    page = keyboard.page
    keyboard.find("^uploadUpload$")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files(file)
    page.get_by_text("is not read yet").wait_for()
    settle(page)
    # Away and back: the file is still there.
    keyboard.choose("What if", back=True)
    page.wait_for_function("!location.pathname.includes('data')")
    settle(page)
    keyboard.choose("Your data")
    page.get_by_text("is not read yet").wait_for()
    settle(page)
    keyboard.choose("^1 to 5$", "Space")
    keyboard.choose("Read the ratings")
    keyboard.wait_for("of your 20 items have enough ratings")
    keyboard.choose("Get the answer")
    keyboard.wait_for("private fits")
    page.get_by_test_id("stMain").get_by_role("button", name="Stop").wait_for(state="detached")
    settle(page)
    keyboard.choose("downloadDownload")
    with page.expect_download() as saved:
        keyboard.find("One page to print")
        page.keyboard.press("Enter")
    assert "dpmc answer ./mine.csv" in Path(saved.value.path()).read_text()
    keyboard.press("Escape")
    assert "Download" in keyboard.name


def test_why_output_perturbations_claim_fails(keys):
    keyboard = keys("guarantees")
    keyboard.choose("^Mechanism: ")
    for _ in range(30):
        if (
            "Output"
            in keyboard.page.get_by_test_id("stMain")
            .locator("button:has-text('Mechanism: ')")
            .inner_text()
        ):
            break
        keyboard.press("ArrowDown")
    keyboard.press("Escape")
    assert "Output perturbation" in keyboard.name
    keyboard.choose("Attack this claim")
    keyboard.wait_for("refuted")
    keyboard.choose("Read why", back=True)
    keyboard.press("Escape")
    assert "Read why" in keyboard.name


def test_the_smallest_epsilon_for_70_percent_goes_along_to_compare(keys):
    keyboard = keys("")
    keyboard.choose("More")
    keyboard.choose("Set a target")
    keyboard.find("Usefulness target").type("70")
    keyboard.press("Enter")
    page = keyboard.page
    assert "70.0 % needs a privacy budget" in page.locator(".dpmc-answer").inner_text()
    keyboard.choose("^Compare$")
    page.wait_for_url(re.compile("compare.*wanted"))
    settle(page)
    keyboard.find("Target accuracy")
    assert page.evaluate("document.activeElement.value") == "70"


def test_a_link_is_copied_and_all_pages_are_opened(keys):
    keyboard = keys("?epsilon=3")
    page = keyboard.page
    keyboard.choose("^Share$")
    keyboard.choose("Copy link")
    keyboard.press("Escape")
    assert keyboard.name == "Share"
    for title, path in (("Learn", "learn"), ("Class", "room"), ("Your data", "data")):
        keyboard.choose(f"{title}$", back=True)
        page.wait_for_url(re.compile(path))
        settle(page)
        keyboard.look()
    for section, moves, path in (
        *(("Try", n, path) for n, path in enumerate(("train", "compare", "noise"))),
        *(("Evidence", n, path) for n, path in enumerate(("guarantees", "protocol", "papers"))),
    ):
        keyboard.choose(f"^{section}$", back=True)
        keyboard.press(*["ArrowDown"] * moves)
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(path))
        settle(page)
        keyboard.look()


def test_two_runs_are_trained_and_compared(keys):
    keyboard = keys("train?data=restaurants&mechanism=private-frank-wolfe")
    page = keyboard.page
    keyboard.choose("Train$")
    keyboard.wait_for("Your runs")
    train = page.get_by_role("button", name="Train", exact=True)
    keyboard.choose("^epsilon$", "ArrowRight", back="Train" in keyboard.name)
    keyboard.choose("Step$")
    keyboard.wait_for("paused")
    keyboard.choose("Stop$")
    train.and_(page.locator(":enabled")).wait_for()
    settle(page)
    keyboard.look()
    keyboard.choose("Train$", back=True)
    keyboard.wait_for("Run 3")
    keyboard.choose("Compare$")
    keyboard.choose("Pin$")


def test_the_noise_at_two_epsilons(keys):
    keyboard = keys("noise")
    keyboard.choose("Second epsilon", "ArrowDown")
    keyboard.press("ArrowDown", "Enter")
    keyboard.choose("^epsilon$", "ArrowLeft", back=True)
    keyboard.choose("The chart in words and numbers")
    keyboard.find("See what this noise proves")


def test_a_person_with_and_without_privacy(keys):
    keyboard = keys("")
    keyboard.choose("of 5 recommended films")
    keyboard.choose("Show another person")
    page = keyboard.page
    page.wait_for_url(re.compile("person=1"))
    keyboard.choose("^Mechanism: ", back=True)
    keyboard.press("ArrowDown", "Escape")
    assert "Mechanism: " in keyboard.name


def test_the_attack_of_the_protocol(keys):
    keyboard = keys("protocol")
    keyboard.choose("Next$")
    keyboard.choose("Play$")
    assert "Stop" in keyboard.name
    keyboard.press("Enter")
    assert "Play" in keyboard.name
    keyboard.choose("Attack as the third party")
    assert "Masks" in keyboard.name
    keyboard.press("Space")
    keyboard.choose("What is promised")


def test_a_lesson_is_found_and_begun(keys):
    keyboard = keys("learn")
    keyboard.choose("Start with lesson 1")
    assert keyboard.name == "A coin answers with you"  # the heading
    keyboard.press("Tab", "Tab")


def test_what_epsilon_1_means_for_one_person(keys):
    keyboard = keys("")
    keyboard.choose("You guess")
    keyboard.press("Enter")
    keyboard.press("Tab", "Enter", "Escape")
    keyboard.choose("Why is this limit proved")
    keyboard.press("Tab")
