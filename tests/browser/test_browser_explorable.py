"""The HTML file of What if in Chromium, from the disk, with the network off."""

import re
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import expect

from pages.ui import explorable
from tests.browser_helpers import DOWNLOAD, open_and_settle, open_offline_tabs

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]

PLOTTED = ".dpmc-picture"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "what-if.html"
    path.write_text(explorable.render_sample("movie-night"), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def opened_file(browser):
    with open_offline_tabs(browser, PLOTTED) as open_:
        yield open_


@pytest.fixture
def opened(opened_file, address):
    """The same with the file of a sample."""
    return partial(opened_file, address)


def read_text(tab, name):
    return tab.locator(f".dpmc-{name}").inner_text().replace("\N{NO-BREAK SPACE}", " ")


def get_centre(box):
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def locate_epsilon(tab, epsilon):
    tick = tab.locator(".dpmc-ticks text", has_text=re.compile(f"^{epsilon:g}$"))
    return get_centre(tick.bounding_box())


def test_a_drag_moves_dot_number_tiles_and_lists(opened):
    tab = opened()
    assert read_text(tab, "say").startswith("At epsilon 1, ")
    names = ("say", "opener", "give")
    texts = [read_text(tab, name) for name in names]
    rule = get_centre(tab.locator(f"{PLOTTED} .rule.now").bounding_box())
    tab.mouse.move(rule[0], get_centre(tab.locator(".dpmc-knob").bounding_box())[1])
    tab.mouse.down()
    x, y = locate_epsilon(tab, 0.1)[0], get_centre(tab.locator(".dpmc-knob").bounding_box())[1]
    tab.mouse.move(x, y, steps=6)
    tab.wait_for_timeout(100)
    assert all(a != read_text(tab, name) for a, name in zip(texts, names, strict=True))
    dot = tab.locator(f"{PLOTTED} circle.use").bounding_box()
    assert get_centre(dot)[0] == pytest.approx(x, abs=1.5)
    tab.mouse.up()
    tab.wait_for_url(re.compile("epsilon=0.1&"))


@pytest.mark.slow
def test_a_reload_and_a_copied_address_stand_where_one_stood(opened):
    tab = opened()
    tab.get_by_role("slider", name="epsilon").press("End")
    tab.locator(".dpmc-opener").click()
    tab.get_by_role("button", name="Show another person").click()
    tab.locator(".dpmc-menu summary").click()
    tab.get_by_role("button", name="Set a target").click()
    tab.wait_for_url(re.compile("person=1&.*target="))
    names = ("say", "who", "answer")
    texts = [read_text(tab, name) for name in names]
    tab.reload()
    # The file's own sentence stands there until its script has drawn.
    expect(tab.locator(".dpmc-say")).to_have_text(texts[0], use_inner_text=True, timeout=60_000)
    assert [read_text(tab, name) for name in names] == texts
    copied_tab = opened("#" + tab.url.partition("#")[2])
    assert [read_text(copied_tab, name) for name in names] == texts


@pytest.mark.slow
@pytest.mark.parametrize(
    "junk", ["#epsilon=9", "#person=99&asked=x&need=Infinity", "#mechanism=%00&%", "#"]
)
def test_a_junk_address_shows_the_file_as_it_was_made(opened, junk):
    tab = opened(junk)
    assert read_text(tab, "say").startswith("At epsilon 1, ")
    assert not tab.locator(".dpmc-targets:visible").count()


def test_the_switch_of_promises_changes_curve_people_and_note(opened):
    tab = opened()
    tab.get_by_label("the whole person", exact=False).check()
    assert "stars" in read_text(tab, "say")
    assert "The server sees them" in read_text(tab, "give")
    tab.get_by_text("What the promise covers").locator("visible=true").click()
    expect(tab.locator("dd:visible").first).to_contain_text("everything one person rated")
    tab.get_by_label("each rating", exact=False).check()
    assert "Predictions are" in read_text(tab, "say")


@pytest.mark.slow
def test_the_button_of_the_page_saves_a_file_that_stands_where_the_slider_stands(
    page, server, opened_file, tmp_path
):
    open_and_settle(page, server + "?data=one-bit-lab&epsilon=3")
    page.wait_for_selector(PLOTTED, state="attached")
    number = read_text(page, "say")
    page.locator(".dpmc-menu summary").click()
    page.locator(".dpmc-menu").get_by_role("button", name=DOWNLOAD).click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="This page").click()
    assert saved.value.suggested_filename == "what-if-one-bit-lab.html"
    path = tmp_path / "saved.html"
    saved.value.save_as(path)
    tab = opened_file(path.as_uri())
    assert read_text(tab, "say") == number
    assert "epsilon 3" in number


@pytest.mark.slow
@pytest.mark.parametrize("style", ["light", "dark"])
def test_nothing_in_it_keeps_people_out(opened, style):
    axe = pytest.importorskip("axe_playwright_python", reason="pip install axe-playwright-python")
    tab = opened(color_scheme=style)
    for fold in tab.locator("summary:visible").all():  # the menu is one of them
        fold.click()
    for name in ("Set a target", "You guess", "Pin"):
        tab.get_by_role("button", name=name).click()
    tab.get_by_role("slider", name="epsilon").press("ArrowLeft")
    tab.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    violations = tab.evaluate("async () => (await axe.run(document)).violations")
    assert not [(violation["impact"], violation["id"]) for violation in violations]


def test_on_a_phone_nothing_is_wider_than_the_screen(opened):
    tab = opened(viewport={"width": 390, "height": 844}, has_touch=True)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tops = [
        tab.locator(f".dpmc-{n}").bounding_box()["y"] for n in ("say", "line", "chart", "panel")
    ]
    assert tops == sorted(tops)
    for fold in tab.locator("summary:visible").all():
        fold.click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


# Texts of the two charts and beneath the knob that leave the card or cover another.
MISPLACED = """() => {
  const edge = document.querySelector('.dpmc-chart').getBoundingClientRect()
  const all = [...document.querySelectorAll('.dpmc-picture text, .dpmc-ticks text:not([hidden])')]
  const boxes = all.filter(text => text.textContent.trim())
    .map(text => [text.textContent.trim(), text.getBoundingClientRect()])
  const cut = boxes.filter(([, box]) => box.left < edge.left - 1 || box.right > edge.right + 1)
  const covered = boxes.flatMap(([words, a], k) => boxes.slice(k + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)
    .map(([other]) => words + ' | ' + other))
  return [...cut.map(([words]) => words), ...covered]
}"""


@pytest.mark.parametrize("width", [340, 390, 740, 800, 1100, 1366])
def test_no_text_of_the_charts_leaves_the_card_or_covers_another(opened, width):
    tab = opened(viewport={"width": width, "height": 930})
    knob = tab.locator(".dpmc-knob")
    for choice in tab.locator("input[name=view]").all():
        choice.check()
        for stop in range(int(knob.get_attribute("max")) + 1):
            knob.evaluate(
                "(it, to) => { it.value = to; it.dispatchEvent(new Event('input')) }", stop
            )
            tab.wait_for_timeout(60)  # the next frame draws
            assert tab.evaluate(MISPLACED) == [], stop
