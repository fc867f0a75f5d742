"""The instrument in Chromium, moved by mouse, finger and keys."""

import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from dpmc_lab.sweep.presets import EPSILONS
from tests.browser_helpers import open_and_settle, settle

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]

PICTURE = ".dpmc-picture"
LAYOUT_SCRIPT = """() => JSON.stringify([
  ...document.querySelectorAll('.dpmc-picture text:not(.moves)')
].map(e => [e.textContent, e.getBoundingClientRect().x, e.getBoundingClientRect().y]).concat(
  [...document.querySelectorAll('.dpmc-chart, .dpmc-frame, .dpmc-panel, .dpmc-say')]
    .map(e => [e.className, e.getBoundingClientRect().y, e.getBoundingClientRect().height])))"""


@pytest.fixture
def instrument(page, server):
    page.set_viewport_size({"width": 1366, "height": 650})

    def opened(query=""):
        open_and_settle(page, server + query)
        page.wait_for_selector(PICTURE, state="attached")
        return page

    return opened


def locate_epsilon(page, epsilon):
    """Return where the stop of an epsilon lies on the chart's axis, in pixels of the window."""
    box = page.locator(f"{PICTURE} text", has_text=re.compile(f"^{epsilon:g}$")).bounding_box()
    return box["x"] + box["width"] / 2


def locate_knob(page):
    box = page.locator(".dpmc-knob").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


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
    names = ("say", "lists", "note")
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
    assert page.evaluate(LAYOUT_SCRIPT) == current_layout
    assert [entry[:2] for entry in json.loads(layout)[:5]] == [
        entry[:2] for entry in json.loads(current_layout)[:5]
    ]


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
    assert position.startswith("epsilon 1.5: risk 81.8 %, usefulness ")
    slider.press("End")
    assert slider.get_attribute("aria-valuenow") == str(len(EPSILONS) - 1)
    page.wait_for_url(re.compile("epsilon=10"))
    slider.press("Home")
    page.wait_for_url(re.compile("epsilon=0.1"))


@pytest.mark.slow
def test_all_it_is_set_to_is_in_the_address_and_a_link_opens_it(instrument, server):
    page = instrument()
    page.get_by_role("button", name="Show another person").click()
    page.get_by_role("button", name="Set a target").click()
    drag_to(page, 3.0)
    page.mouse.up()
    page.wait_for_url(re.compile("epsilon=3"))
    page.wait_for_url(re.compile("target=.*limit="))
    settle(page)
    params = {k: v[0] for k, v in parse_qs(urlsplit(page.url).query).items()}
    assert (params["epsilon"], params["person"], params["limit"]) == ("3", "1", "0.74")
    texts = [read_text(page, n) for n in ("say", "who", "answer")]
    link = page.url
    open_and_settle(page, server + "guarantees")
    open_and_settle(page, link)
    page.wait_for_selector(PICTURE, state="attached")
    assert [read_text(page, n) for n in ("say", "who", "answer")] == texts


def enter_target(page, name, value):
    field = page.get_by_label(f"{name} target")
    field.fill(value)
    field.press("Enter")
    return field


@pytest.mark.slow
def test_a_target_moves_the_knob_to_the_epsilon_that_meets_it(instrument):
    page = instrument()
    page.get_by_role("button", name="Set a target").click()
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


def test_a_saved_picture_says_what_it_shows(instrument):
    page = instrument()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save picture").click()
    svg = Path(saved.value.path()).read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
    for phrase in ("At epsilon 1, ", "Input perturbation, Movie night", "epsilon, per rating"):
        assert phrase in svg
    assert "var(" not in svg


def test_on_a_phone_the_slider_stands_above_the_curves_with_its_last_number(page, server):
    page.set_viewport_size({"width": 390, "height": 844})
    open_and_settle(page, server)
    page.wait_for_selector(PICTURE, state="attached")
    texts = page.locator(f"{PICTURE} text").all_text_contents()
    assert [text for text in texts if re.fullmatch(r"[\d.]+", text)] == [
        "0.1",
        "0.3",
        "1",
        "3",
        "10",
    ]
    titles = page.locator(f"{PICTURE} text.bold:not(:empty)").all()
    tops = [part.bounding_box()["y"] for part in (page.locator(".dpmc-knob"), *titles[:2])]
    assert tops == sorted(tops)


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
