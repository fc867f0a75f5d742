"""The instrument in Chromium, moved by mouse, finger and keys."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from dpmc_lab.sweep.presets import EPSILONS
from tests.browser_helpers import open_and_settle, settle

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]

PICTURE = ".dpmc-picture"
LAYOUT_SCRIPT = """() => JSON.stringify([
  ...document.querySelectorAll('.dpmc-line, .dpmc-panel, .dpmc-say, .dpmc-picture .grid')
].map(e => [e.getBoundingClientRect().y, e.getBoundingClientRect().height]))"""


@pytest.fixture
def instrument(page, server):
    page.set_viewport_size({"width": 1366, "height": 768})

    def opened(query=""):
        open_and_settle(page, server + query)
        page.wait_for_selector(PICTURE, state="attached")
        return page

    return opened


def locate_epsilon(page, epsilon):
    """Return where the stop of an epsilon lies on the chart's axis, in pixels of the window."""
    box = page.locator(".dpmc-ticks text", has_text=re.compile(f"^{epsilon:g}$")).bounding_box()
    return box["x"] + box["width"] / 2


def locate_knob(page):
    """Return the middle of the thumb, which stands under the rule."""
    knob = page.locator(".dpmc-knob").bounding_box()
    rule = page.locator(f"{PICTURE} .rule.now").bounding_box()
    return rule["x"] + rule["width"] / 2, knob["y"] + knob["height"] / 2


def drag_to(page, epsilon):
    page.locator(".dpmc-knob").scroll_into_view_if_needed()
    page.mouse.move(*locate_knob(page))
    page.mouse.down()
    page.mouse.move(locate_epsilon(page, epsilon), locate_knob(page)[1], steps=6)


def read_text(page, name):
    return page.locator(f".dpmc-{name}").inner_text().replace("\N{NO-BREAK SPACE}", " ")


def read_moving(page):
    """Return the two numbers beside the rule."""
    return page.locator(f"{PICTURE} .big").all_text_contents()


def test_dragging_moves_answer_numbers_and_panel_but_neither_axes_nor_layout(instrument):
    page = instrument("?epsilon=10")
    names = ("say", "opener", "give")
    layout, texts = page.evaluate(LAYOUT_SCRIPT), [read_text(page, name) for name in names]
    numbers = read_moving(page)
    drag_to(page, 0.5)
    page.wait_for_timeout(150)
    current_layout = page.evaluate(LAYOUT_SCRIPT)
    assert all(a != read_text(page, name) for a, name in zip(texts, names, strict=True))
    assert all(a != b for a, b in zip(numbers, read_moving(page), strict=True))
    assert "epsilon=10" in page.url  # nothing is told before the slider is let go
    page.mouse.up()
    page.wait_for_url(re.compile("epsilon=0.5"))
    settle(page)
    assert page.evaluate(LAYOUT_SCRIPT) == current_layout == layout


def test_the_server_and_the_browser_write_the_same_answer(instrument):
    page = instrument("?epsilon=3")
    before = read_text(page, "say")
    page.evaluate("""() => setInterval(() => {
        window.lost ||= !document.querySelector('.dpmc-say')?.textContent }, 10)""")
    slider = page.get_by_role("slider", name="epsilon")
    for key in ("ArrowRight", "ArrowLeft"):
        slider.press(key)
        page.wait_for_timeout(600)
        settle(page)
    assert read_text(page, "say") == before
    assert not page.evaluate("window.lost")
    assert page.locator(".dpmc-say").get_attribute("aria-live") == "polite"


@pytest.mark.slow
def test_arrows_move_it_and_say_where_it_is(instrument):
    page = instrument()
    slider = page.get_by_role("slider", name="epsilon")
    slider.focus()
    slider.press("ArrowRight")
    position = slider.get_attribute("aria-valuetext")
    assert position.startswith("epsilon 1.5: risk 81.8 %, all ratings > 99.9 %, usefulness ")
    slider.press("End")
    assert slider.input_value() == str(len(EPSILONS) - 1)
    page.wait_for_url(re.compile("epsilon=10"))
    slider.press("Home")
    page.wait_for_url(re.compile("epsilon=0.1"))


@pytest.mark.slow
def test_all_it_is_set_to_is_in_the_address_and_a_link_opens_it(instrument, server):
    page = instrument()
    page.get_by_role("button", name="Pin").click()
    page.locator(".dpmc-opener").click()
    page.get_by_role("button", name="Show another person").click()
    choose_entry(page, "Set a target")
    drag_to(page, 3.0)
    page.mouse.up()
    page.wait_for_url(re.compile("epsilon=3"))
    page.wait_for_url(re.compile("target=.*limit="))
    settle(page)
    params = {k: v[0] for k, v in parse_qs(urlsplit(page.url).query).items()}
    expected = {"epsilon": "3", "person": "1", "limit": "0.74", "pinned": "1"}
    assert {name: params[name] for name in expected} == expected
    texts = [read_text(page, n) for n in ("say", "who", "answer", "lists")]
    assert "A: epsilon 1" in texts[-1]
    assert "B: epsilon 3" in texts[-1]
    assert page.locator(".dpmc-ghost").is_visible()
    link = page.url
    open_and_settle(page, server + "guarantees")
    open_and_settle(page, link)
    page.wait_for_selector(PICTURE, state="attached")
    assert [read_text(page, n) for n in ("say", "who", "answer", "lists")] == texts


def choose_entry(page, name):
    """Open the menu of the chart and choose an entry."""
    page.locator(".dpmc-menu summary").click()
    page.get_by_role("button", name=name, exact=True).click()


def enter_target(page, name, value):
    field = page.get_by_label(f"{name} target")
    field.fill(value)
    field.press("Enter")
    return field


@pytest.mark.slow
def test_a_target_moves_the_knob_to_the_epsilon_that_meets_it(instrument):
    page = instrument()
    choose_entry(page, "Set a target")
    assert read_text(page, "say").startswith("At epsilon 1, ")  # which meets both
    assert "is too" not in read_text(page, "answer")
    field = enter_target(page, "Usefulness", "65.2")
    assert "The target 65.2 was rounded to 65." in read_text(page, "answer")
    assert read_text(page, "say").startswith("At epsilon 0.5, ")
    enter_target(page, "Usefulness", "70")
    assert re.match(
        r"70\.0 % needs a privacy budget of about 0\.\d+ \(.*\) per rating, proved;"
        r" the next position of the slider is 1\.",
        read_text(page, "answer"),
    )
    assert read_text(page, "say").startswith("At epsilon 1, ")
    field.press("ArrowUp")
    assert field.input_value() == "70.5"
    enter_target(page, "Usefulness", "90")
    assert float(field.input_value()) < 80  # the end of the axis
    assert "is not reached up to epsilon 10" in read_text(page, "answer")
    enter_target(page, "Risk", "50")
    assert "No epsilon here keeps the risk that low" in read_text(page, "answer")
    enter_target(page, "Risk", "60")
    assert "a risk of at most 60 % is 0.3." in read_text(page, "answer")
    assert read_text(page, "say").startswith("At epsilon 0.3, ")


def test_one_throw_turns_marks_one_by_one_and_the_menu_leads_to_the_files(instrument):
    page = instrument("?epsilon=0.1")

    def list_turned():
        page.wait_for_timeout(500)  # the first throw comes a moment later
        classes = page.locator(".dpmc-marks i").evaluate_all("all => all.map(i => i.className)")
        assert len(classes) == 59
        return {k for k, name in enumerate(classes) if "turned" in name}

    before = list_turned()
    assert read_text(page, "give").startswith(f"{len(before)} flipped, {59 - len(before)} true")
    slider = page.get_by_role("slider", name="epsilon")
    for key in ("ArrowRight", "PageUp", "End"):
        slider.press(key)
        turned = list_turned()
        assert turned <= before
        before = turned
    slider.press("Home")
    page.get_by_role("button", name="Throw again").click()
    assert len(list_turned()) > 5
    more = page.locator(".dpmc-menu summary")
    more.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Throw again"
    more.press("Enter")
    page.get_by_role("button", name="Download", exact=True).press("Enter")
    page.get_by_text("This page (HTML").wait_for()


def test_on_a_phone_the_knob_comes_first_and_stays_in_sight(page, server):
    page.set_viewport_size({"width": 390, "height": 844})
    open_and_settle(page, server)
    page.wait_for_selector(PICTURE, state="attached")
    names = (".dpmc-say", ".dpmc-knob", PICTURE, ".dpmc-panel", ".st-key-choices")
    tops = [page.locator(name).bounding_box()["y"] for name in names]
    assert tops == sorted(tops)
    titles = page.locator(f"{PICTURE} .title")
    assert titles.first.bounding_box()["y"] > page.locator(".dpmc-ticks").bounding_box()["y"] + 30
    for name in ("Throw again", "You guess", "Pin"):
        box = page.get_by_role("button", name=name).bounding_box()
        assert min(box["width"], box["height"]) >= 44
    page.locator(".dpmc-note").scroll_into_view_if_needed()
    page.locator("[data-testid=stMain]").evaluate("main => main.scrollBy(0, 300)")
    page.wait_for_timeout(200)
    knob = page.locator(".dpmc-knob").bounding_box()
    assert 50 < knob["y"] < 120  # below the app's bar
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
def test_titles_are_text(instrument):
    page = instrument()
    assert page.locator(".dpmc-what img, .dpmc-what a").count() == 0


def test_nothing_is_fetched_from_elsewhere_and_no_drawing_code(page, server):
    requested_urls = []
    page.on("request", lambda request: requested_urls.append(request.url))
    open_and_settle(page, server)
    page.wait_for_selector(PICTURE, state="attached")
    assert all(url.startswith((server, "data:", "blob:", "ws:")) for url in requested_urls)
    assert not any("plotly" in url.lower() for url in requested_urls)
