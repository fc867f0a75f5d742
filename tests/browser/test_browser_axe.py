"""Every page under the eyes of axe-core, in both themes: what keeps people out is not there."""

import itertools
from pathlib import Path

import pytest

from app import SECTIONS
from dpmc_lab.classroom.room import KEY_BOUNCE_SECONDS
from dpmc_lab.lessons import LESSONS
from tests.browser_helpers import DOWNLOAD, open_and_settle, settle
from tests.class_helpers import open_asked_room, serve_class
from tests.slow_helpers import mark_rest_slow

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]
axe = pytest.importorskip("axe_playwright_python", reason="pip install axe-playwright-python")

AXE = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
GRAVE = ("serious", "critical")
# (rule, selector): why it is not this app's to mend.
NOT_OURS = {("color-contrast", ".token"): "Streamlit's own colours of code"}
RUN = """async rules => {
  const found = await axe.run(document, {resultTypes: ["violations"]});
  const ours = (rule, node) => !rules.some(([r, selector]) =>
    r === rule && document.querySelector(node.target.flat().at(-1))?.closest(selector));
  return found.violations.map(v => ({...v, nodes: v.nodes.filter(n => ours(v.id, n))}))
    .filter(v => v.nodes.length).map(v => [v.impact, v.id,
      v.nodes.map(n => n.target.join(" ") + ": " + [...n.any, ...n.all, ...n.none][0]?.message)]);
}"""
PAGES = [entry.file for section in SECTIONS.values() for entry in section]
FIRST = [("what_if", "light"), ("train", "dark"), ("compare", "light"), ("data", "dark")]
EACH = [(page, theme) for page in PAGES for theme in ("light", "dark")]


def find_violations(tab):
    tab.evaluate(AXE)
    tab.evaluate("document.getAnimations().forEach(a => { try { a.finish() } catch {} })")
    return tab.evaluate(RUN, [list(pair) for pair in NOT_OURS])


def find_grave_violations(tab):
    """Return the app's own violations that are serious or critical."""
    return [violation for violation in find_violations(tab) if violation[0] in GRAVE]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lesson", "theme"),  # the other way round they take as long again, and draw the same
    list(zip(LESSONS.values(), ["light", "dark"] * len(LESSONS), strict=False)),
    ids=list(LESSONS),
)
def test_a_lesson_has_no_grave_violation(browser, server, lesson, theme):
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme=theme)
    tab = context.new_page()
    open_and_settle(tab, f"{server}learn?lesson={lesson.id}")
    for slide in lesson.slides:
        for _ in range(2 if slide.predict else 1):
            assert find_grave_violations(tab) == [], slide.key
            tab.keyboard.press("ArrowRight")
            settle(tab)
    assert find_grave_violations(tab) == []
    context.close()


@pytest.mark.parametrize(
    ("path", "theme"), mark_rest_slow(sorted(EACH, key=lambda path: path not in FIRST), len(FIRST))
)
def test_a_page_has_no_grave_violation(browser, server, path, theme):
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme=theme)
    tab = context.new_page()
    open_and_settle(tab, server + path)
    assert find_grave_violations(tab) == []
    check_heading_order(tab)
    for fold in tab.get_by_test_id("stExpander").all():
        fold.locator("summary").click()
    tab.get_by_role("button", name="Share", exact=True).click()
    settle(tab)
    assert find_grave_violations(tab) == []
    if theme == "dark":  # a phone has another menu
        tab.set_viewport_size({"width": 390, "height": 844})
        settle(tab)
        assert find_grave_violations(tab) == []
    context.close()


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.slow
def test_a_trained_model_has_no_grave_violation(browser, server, theme):
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme=theme)
    tab = context.new_page()
    open_and_settle(tab, server + "train?data=one-bit-lab&mechanism=output&epsilon=4")
    tab.get_by_role("button", name="Train", exact=True).click()
    tab.get_by_role("button", name=DOWNLOAD).wait_for()
    settle(tab)
    assert find_grave_violations(tab) == []
    context.close()


@pytest.mark.parametrize("theme", mark_rest_slow(["light", "dark"]))
def test_the_phones_page_has_no_violation(browser, theme):
    with serve_class() as server:
        room = open_asked_room()
        context = browser.new_context(viewport={"width": 320, "height": 640}, color_scheme=theme)
        tab = context.new_page()
        tab.emulate_media(reduced_motion="reduce")
        tab.goto(server + "phone")
        tab.get_by_role("button", name="Yes", exact=True).wait_for()
        assert find_violations(tab) == []
        tab.get_by_role("button", name="Yes", exact=True).press("Enter")
        tab.get_by_text("It has arrived.").wait_for()
        assert find_violations(tab) == []
        room.end()
        tab.get_by_role("button", name="Delete what this phone sent").wait_for()
        assert find_violations(tab) == []
        context.close()


def check_heading_order(page):
    """Check that the only h1 comes first and that headings go down one level at a time."""
    levels = page.locator(":is(h1, h2, h3, h4, h5, h6):visible").evaluate_all(
        "all => all.map(one => Number(one.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels)), levels


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.slow
def test_the_open_picker_has_no_grave_violation(browser, server, theme):
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme=theme)
    tab = context.new_page()
    open_and_settle(tab, server + "noise?mechanism=output")
    tab.get_by_role("button", name="Mechanism").click()
    settle(tab)
    assert tab.get_by_role("radio", checked=True).count()
    assert find_grave_violations(tab) == []
    context.close()


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.slow
def test_an_open_room_has_no_grave_violation(browser, server, theme):
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme=theme)
    tab = context.new_page()
    open_and_settle(tab, server + "room")
    button_names = ("Ask 30 simulated phones", "Lock")
    for label in (
        "Open the room",
        *button_names,
        "Ask again",
        "Lock",
        "Next question",
        *button_names,
    ):
        tab.get_by_role("button", name=label).click()
        settle(tab)
        tab.wait_for_timeout(1000 * KEY_BOUNCE_SECONDS)  # pressed at once, a button counts once
    tab.get_by_text("All questions so far").wait_for()
    tab.get_by_text("The chart in words and numbers").click()
    settle(tab)
    assert find_grave_violations(tab) == []
    context.close()
