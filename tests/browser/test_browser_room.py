"""A class of thirty in Chromium: the teacher follows the screen, phones report over HTTP."""

import csv
import io
from functools import partial, reduce

import pytest

from dpmc_lab.classroom.room import EXAMPLE_QUESTIONS
from dpmc_lab.lessons import get_slide, schedule_class
from tests.browser_helpers import navigate_to, open_and_settle, serve_app, settle
from tests.class_helpers import SECRET, Phone, run_concurrently

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]
FIRST, SECOND, _ = EXAMPLE_QUESTIONS["Warm-up"]
# Every address and every text that the tab has shown.
RECORD_PAGE_SCRIPT = """() => {
  window.seen = [];
  const look = () => window.seen.push(location.href, document.body?.innerText ?? "");
  setInterval(look, 50);
}"""

# Two presses of a key that a busy machine cannot pull apart.
BOUNCE = """() => {
  for (const type of ['keydown', 'keyup', 'keydown', 'keyup']) document.body.dispatchEvent(
    new KeyboardEvent(type, { key: 'n', code: 'KeyN', keyCode: 78, bubbles: true }));
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server in class mode."""
    home = tmp_path_factory.mktemp("home")
    with serve_app(home, DPMC_CLASS="1", DPMC_CLASS_SECRET=SECRET) as (address, process):
        yield address
        process.terminate()
        process.wait(60)
    assert "Traceback" not in (home / "server.log").read_text()


@pytest.fixture
def teacher(page, server):
    """The teacher's page, entered by the link, without a room from before."""
    page.set_viewport_size({"width": 1366, "height": 650})
    page.add_init_script(f"({RECORD_PAGE_SCRIPT})()")
    page.goto(f"{server}teacher/{SECRET}")
    settle(page)
    heading = page.get_by_role("heading", name="Ask the class")
    button_names = (
        "End",
        "End the class",
        "Begin a new room",
        "Forget this room",
        "Change the questions",
    )
    buttons = [page.get_by_role("button", name=label, exact=True) for label in button_names]
    candidates = reduce(lambda first, second: first.or_(second), [heading, *buttons])
    for button in buttons:
        candidates.first.wait_for()
        if button.is_visible():
            button.click()
            settle(page)
    heading.wait_for()
    return page


def press_button(page, label):
    page.get_by_role("button", name=label).click()
    settle(page)


def wait_for_reports(page, count):
    """Wait for so many reports on the screen."""
    first = page.locator(".counted > div:first-of-type b", has_text=str(count))
    first.filter(visible=True).wait_for()
    return page.locator(".counted").inner_text()


def scan_codes(page):
    """Return what a phone's camera reads off the screen."""
    zxing = pytest.importorskip("zxingcpp", reason="pip install zxing-cpp")
    image = pytest.importorskip("PIL.Image")
    barcodes = zxing.read_barcodes(image.open(io.BytesIO(page.screenshot())))
    return [barcode.text for barcode in barcodes]


@pytest.mark.slow
def test_a_class_of_thirty_from_start_to_end(teacher, server):
    page, phones = teacher, [Phone(server, k) for k in range(31)]
    assert page.url == f"{server}room"

    press_button(page, "Open the room")
    page.get_by_role("heading", name="Take part: scan the code").wait_for()
    settle(page)
    assert scan_codes(page) == [f"{server}phone"]
    assert page.get_by_text(f"{server}phone".removeprefix("http://")).is_visible()
    page.locator(".counted", has_text="0 phones are here").wait_for()
    phones[0].fetch_question()
    page.locator(".counted", has_text="1 phone is here").wait_for()
    assert page.locator(".people .here").count() == 1

    page.keyboard.press("n")
    page.get_by_role("heading", name=FIRST).wait_for()
    settle(page)
    assert scan_codes(page) == [f"{server}phone"]  # in its corner
    answers = run_concurrently(
        *(partial(phone.send_report, int(k < 12)) for k, phone in enumerate(phones[:30]))
    )
    assert answers == [(200, {"receipt": "new"})] * 30
    assert "30 answered" in " ".join(wait_for_reports(page, 30).split())
    page.locator(".counted", has_text="30 connected").wait_for()
    assert page.locator(".shares .dot").count() == 0  # hidden
    page.keyboard.press("l")
    page.get_by_text("closed").wait_for()
    settle(page)
    interval_label = page.get_by_role("img", name="95 % interval").first.get_attribute("aria-label")
    assert "This class (30 phones): 37 %, 95 % interval 20 to 53" in interval_label
    assert "People like this class: 37 %, 95 % interval 14 to 62" in interval_label
    assert "Reports as sent: 40 %" in interval_label
    assert phones[30].send_report(1)[0] == 409
    press_button(page, "Unlock")
    phones[30].send_report(1)
    wait_for_reports(page, 31)

    page.evaluate(BOUNCE)  # at once: it counts once
    page.get_by_role("heading", name=SECOND).wait_for()
    run_concurrently(
        *(partial(phone.send_report, int(k < 20)) for k, phone in enumerate(phones[:30]))
    )
    wait_for_reports(page, 30)
    press_button(page, "Lock")
    page.get_by_role("heading", name="All questions so far").wait_for()
    page.get_by_text(f"“{SECOND}” has more yes in this class than “{FIRST}”").wait_for()
    press_button(page, "Back")
    page.get_by_role("heading", name=FIRST).wait_for()
    settle(page)
    page.wait_for_timeout(1100)
    press_button(page, "Next question")
    page.get_by_role("heading", name=SECOND).wait_for()
    settle(page)
    page.wait_for_timeout(1100)

    press_button(page, "Ask again")
    page.get_by_text(", round 2").wait_for()
    run_concurrently(
        *(partial(phone.send_report, int(k < 18)) for k, phone in enumerate(phones[:12]))
    )
    page.get_by_text("of 30 have answered again").wait_for()
    wait_for_reports(page, 12)
    page.get_by_text("The shares are from before it").wait_for()
    assert page.get_by_text("24 reports of 12 phones").count() == 0
    press_button(page, "Lock")
    page.get_by_text("24 reports of 12 phones that answered the last time").first.wait_for()
    page.get_by_text("42 reports of 30 phones, all that answered").first.wait_for()
    press_button(page, "Unlock")
    run_concurrently(
        *(partial(phone.send_report, int(k < 18)) for k, phone in enumerate(phones[12:30]))
    )
    wait_for_reports(page, 30)
    press_button(page, "Lock")
    page.get_by_text("60 reports of 30 phones").first.wait_for()

    page.reload()
    settle(page)
    page.get_by_text("60 reports of 30 phones").first.wait_for()  # the room lives in the server

    page.get_by_role("button", name="End", exact=True).click()
    press_button(page, "End the class")
    page.get_by_text("the class is over").wait_for()
    assert phones[30].send_report(1)[0] == 409
    assert scan_codes(page) == []
    with page.expect_download() as download_info:
        page.get_by_role("button", name="Results as CSV").filter(visible=True).click()
    rows = list(csv.DictReader(download_info.value.path().read_text().splitlines()))
    assert [(row["question"], row["round"]) for row in rows if row["kind"] == "asked"] == [
        (FIRST, "1"),
        (SECOND, "1"),
        (SECOND, "2"),
    ]
    press_button(page, "Begin a new room")
    page.get_by_text("the class is over").wait_for()  # it asks first
    press_button(page, "Forget this room")
    page.get_by_role("heading", name="Ask the class").wait_for()


def test_a_plan_is_played_by_one_key_and_the_secret_is_never_to_be_seen(teacher, server):
    """N opens, asks, locks, shows slides and ends; the wall follows and has nothing around it."""
    teacher.get_by_text("10 minutes", exact=True).click()
    settle(teacher)
    wall = teacher.context.new_page()
    wall.add_init_script(f"({RECORD_PAGE_SCRIPT})()")
    open_and_settle(wall, f"{server}room?wall=on")
    wall.get_by_role("heading", name="The class begins soon").wait_for()
    phones = [Phone(server, k) for k in range(30)]
    presses, steps = 0, schedule_class("10")
    for step in steps:
        teacher.bring_to_front()
        teacher.wait_for_timeout(1100)
        teacher.locator("body").press("n")
        presses += 1
        teacher.locator(".step .ask", has_text=step.ask).wait_for()
        settle(teacher)
        title = get_slide(step.wall)[1].title if step.stage else None
        titles = {"lobby": "Take part: scan the code", "open": FIRST, "result": FIRST}
        wall.get_by_role("heading", name=title or titles.get(step.wall, step.ask)).wait_for()
        settle(wall)
        assert not wall.get_by_test_id("stHeader").is_visible()
        assert not wall.get_by_test_id("stPageLink").filter(visible=True).count()
        if step.wall == "lobby":
            assert scan_codes(wall) == [f"{server}phone"]
            for phone in phones:
                phone.fetch_question()
            wall.locator(".counted", has_text="30 phones are here").wait_for()
        elif step.wall == "open":
            run_concurrently(
                *(partial(phone.send_report, int(k < 12)) for k, phone in enumerate(phones))
            )
            wall.locator(".counted", has_text="30 of 30 have answered").wait_for()
            wall.get_by_text("30 answers in 1 second: is this your class?").or_(
                wall.get_by_text("seconds: is this your class?")
            ).wait_for()
            assert wall.locator(".shares .dot").count() == 0  # hidden
        elif step.wall == "result":
            wall.get_by_text("20 to 53").wait_for()
    assert presses == len(steps)
    wall.bring_to_front()
    wall.wait_for_timeout(1100)
    wall.locator("body").press("b")  # the same keys, where there is one screen only
    wall.get_by_role("heading", name=steps[-2].ask).wait_for()
    wall.reload()
    wall.get_by_role("heading", name=steps[-2].ask).wait_for()
    teacher.get_by_role("button", name="Share", exact=True).click()
    settle(teacher)
    address = teacher.get_by_role("textbox", name="address").first.input_value()
    assert SECRET not in address
    for window in (teacher, wall):
        texts = window.evaluate("window.seen.concat(document.documentElement.outerHTML)")
        assert any(steps[-2].ask in text for text in texts)
        assert not any(SECRET in text for text in texts)
        assert SECRET not in window.evaluate("document.cookie")
    wall.close()


@pytest.mark.slow
def test_the_page_stands_still_while_reports_arrive(teacher, server):
    press_button(teacher, "Open the room")
    press_button(teacher, "Ask the first question")
    Phone(server, 0).send_report(1)
    wait_for_reports(teacher, 1)
    settle(teacher)
    teacher.evaluate("""() => {
      const picture = document.querySelector('.shares').closest('[data-testid="stHtml"]');
      picture.dataset.mine = 'kept';
      document.querySelector('[data-testid="stMain"]').scrollTop = 40;
    }""")
    run_concurrently(*(partial(Phone(server, k).send_report, 0) for k in range(1, 5)))
    wait_for_reports(teacher, 5)
    mark_script = (
        "document.querySelector('.shares').closest('[data-testid=\"stHtml\"]').dataset.mine"
    )
    assert teacher.evaluate(mark_script) == "kept"  # not mounted anew
    assert teacher.evaluate("document.querySelector('[data-testid=\"stMain\"]').scrollTop") == 40


@pytest.mark.slow
def test_a_stranger_is_led_to_the_phones_page(teacher, browser, server):
    press_button(teacher, "Open the room")
    press_button(teacher, "Ask the first question")
    context = browser.new_context()
    tab = context.new_page()
    open_and_settle(tab, server)
    navigate_to(tab, "Class")
    link = tab.get_by_role("link", name="Open the page for phones")
    link.wait_for()
    assert link.get_attribute("href") == f"{server}phone"
    assert tab.get_by_text(FIRST).count() == 0
    open_and_settle(tab, f"{server}data?way=upload")
    tab.get_by_text("only the teacher may upload files").wait_for()
    context.close()
