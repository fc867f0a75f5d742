"""The instrument in Chromium, moved by mouse, finger and keys."""

import itertools
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from dpmc_lab.sweep.presets import EPSILONS
from tests.browser_helpers import open_and_settle, settle
from tests.slow_helpers import mark_rest_slow

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]

PLOTTED = ".dpmc-plot .scatterlayer .trace"
LAYOUT_SCRIPT = """() => JSON.stringify([
  ...document.querySelectorAll('.dpmc-plot .xtick, .dpmc-plot .ytick, .dpmc-plot .annotation')
].map(e => [e.textContent, e.getBoundingClientRect().x, e.getBoundingClientRect().y]).concat(
  [...document.querySelectorAll('.dpmc-what section, .dpmc-frame, .dpmc-rest')]
    .map(e => [e.className, e.getBoundingClientRect().y, e.getBoundingClientRect().height])))"""


@pytest.fixture
def instrument(page, server):
    page.set_viewport_size({"width": 1366, "height": 650})

    def opened(query=""):
        open_and_settle(page, server + query)
        page.wait_for_selector(PLOTTED, state="attached")
        return page

    return opened


def locate_epsilon(page, epsilon):
    """Return where the stop of an epsilon lies on the chart's axis, in pixels of the window."""
    ticks = page.locator(".dpmc-plot .xtick text")
    name = f"{epsilon:g}"
    box = next(t for t in ticks.all() if t.text_content() == name).bounding_box()
    return box["x"] + box["width"] / 2


def locate_knob(page):
    box = page.locator(".dpmc-knob").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag_to(page, epsilon):
    page.mouse.move(*locate_knob(page))
    page.mouse.down()
    page.mouse.move(locate_epsilon(page, epsilon), locate_knob(page)[1], steps=6)


def read_text(page, name):
    return page.locator(f".dpmc-{name}").inner_text()


@pytest.mark.slow
def test_knob_rule_and_dot_are_one_thing_on_one_axis(instrument):
    page = instrument()
    for epsilon in (0.1, 0.7, 10.0):
        drag_to(page, epsilon)
        page.mouse.up()
        page.wait_for_timeout(200)
        position = locate_epsilon(page, epsilon)
        rule = page.locator(".dpmc-plot .shapelayer path").first.bounding_box()
        dot = page.locator(f"{PLOTTED} .point").last.bounding_box()
        assert locate_knob(page)[0] == pytest.approx(position, abs=1.5)
        assert rule["x"] + rule["width"] / 2 == pytest.approx(position, abs=1.5)
        assert dot["x"] + dot["width"] / 2 == pytest.approx(position, abs=1.5)
        assert read_text(page, "epsilon") == f"epsilon {epsilon:g} per rating"


def test_dragging_moves_numbers_lists_and_tiles_but_neither_axes_nor_layout(instrument):
    page = instrument("?epsilon=10")
    layout, texts = (
        page.evaluate(LAYOUT_SCRIPT),
        [read_text(page, n) for n in ("value", "lists", "cells", "attack")],
    )
    drag_to(page, 0.1)
    page.wait_for_timeout(150)
    assert page.evaluate(LAYOUT_SCRIPT) == layout
    current_texts = [read_text(page, name) for name in ("value", "lists", "cells", "attack")]
    assert all(a != b for a, b in zip(current_texts, texts, strict=True))
    assert "epsilon=10" in page.url  # nothing is told before the slider is let go
    page.mouse.up()
    page.wait_for_url(re.compile("epsilon=0.1"))
    settle(page)
    assert page.evaluate(LAYOUT_SCRIPT) == layout


@pytest.mark.slow
def test_arrows_move_it_and_say_where_it_is(instrument):
    page = instrument()
    slider = page.get_by_role("slider", name="epsilon")
    slider.focus()
    slider.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext").startswith("epsilon 1.5: ")
    slider.press("End")
    assert slider.get_attribute("aria-valuenow") == str(len(EPSILONS) - 1)
    page.wait_for_url(re.compile("epsilon=10"))
    slider.press("Home")
    page.wait_for_url(re.compile("epsilon=0.1"))


@pytest.mark.slow
def test_all_it_is_set_to_is_in_the_address_and_a_link_opens_it(instrument, server):
    page = instrument()
    drag_to(page, 3.0)
    page.mouse.up()
    page.locator(".dpmc-link").click()
    page.get_by_role("button", name="all", exact=False).click()
    page.get_by_role("button", name="I need").click()
    page.wait_for_url(re.compile("need="))
    params = {k: v[0] for k, v in parse_qs(urlsplit(page.url).query).items()}
    assert (params["epsilon"], params["person"], params["asked"]) == ("3", "1", "1")
    texts = [read_text(page, n) for n in ("number", "who", "attack", "answer")]
    link = page.url
    open_and_settle(page, server + "guarantees")
    open_and_settle(page, link)
    page.wait_for_selector(PLOTTED, state="attached")
    assert [read_text(page, n) for n in ("number", "who", "attack", "answer")] == texts


@pytest.mark.slow
def test_the_card_below_follows_the_slider(instrument):
    page = instrument()
    drag_to(page, 3.0)
    page.mouse.up()
    page.wait_for_url(re.compile("epsilon=3"))
    settle(page)
    page.get_by_text("Why? The promise").click()
    expect(page.get_by_text("certified: epsilon 3")).to_be_visible()


@pytest.mark.slow
def test_a_dragged_wish_reads_the_epsilon_it_takes(instrument):
    page = instrument()
    page.get_by_role("button", name="I need").click()
    quality_slider = page.get_by_role("slider", name="the wanted quality")
    for _ in range(200):
        if quality_slider.get_attribute("aria-valuetext") == "70.0 %":
            break
        value = float(quality_slider.get_attribute("aria-valuenow"))
        quality_slider.press("ArrowUp" if value < 0.7 else "ArrowDown")
    assert re.match(
        r"70\.0 % takes epsilon 0\.\d+ \(.*\) per rating, certified; on the slider 1\.",
        read_text(page, "answer"),
    )
    for _ in range(40):
        quality_slider.press("ArrowUp")
    assert "is not reached up to epsilon 10" in read_text(page, "answer")


@pytest.mark.slow
def test_guessing_is_counted_against_the_bound(instrument):
    page = instrument()
    page.get_by_role("button", name="Guess").click()
    for count in range(1, 6):
        page.locator(".dpmc-game button").first.click()
        assert re.search(rf"You: \d of {count}\.", read_text(page, "game"))
        assert "is right at most 73 % of the time" in read_text(page, "game")
        page.get_by_role("button", name="Again").click()
    layout = page.evaluate(LAYOUT_SCRIPT)
    page.keyboard.press("Tab")
    assert page.evaluate(LAYOUT_SCRIPT) == layout


@pytest.mark.slow
def test_whom_to_protect_chooses_the_method(instrument):
    page = instrument()
    page.get_by_text("the whole person, server trusted").click()
    page.get_by_text("RMSE").wait_for()
    settle(page)
    assert "noisy" in read_text(page, "flips")
    assert page.get_by_role("button", name="in the data?").is_visible()
    page.get_by_text("each rating, even from the server").click()
    page.get_by_text("Accuracy on held-out").wait_for()


@pytest.mark.slow
def test_play_moves_by_itself_to_the_end(instrument):
    page = instrument("?epsilon=5")
    page.get_by_role("button", name="Play").click()
    page.wait_for_url(re.compile("epsilon=10"))
    assert page.get_by_role("button", name="Play").is_visible()


def test_a_saved_picture_says_what_it_shows(instrument):
    page = instrument()
    page.evaluate("""() => {
        Plotly.downloadImage = (figure, how) => { window.saved = [figure.layout, how, figure.data] }
    }""")
    page.get_by_role("button", name="Save picture").click()
    layout, config, data = page.evaluate("window.saved")
    title = layout["title"]["text"]
    for phrase in ("Movie night: Input perturbation, epsilon 1 per rating", "one rating"):
        assert phrase in title
    assert layout["xaxis"]["title"]["text"] == "epsilon per rating"
    assert layout["yaxis"]["title"]["text"] == "Accuracy on held-out ratings"
    names = [note["text"] for note in layout["annotations"] if note.get("xref") == "paper"]
    room = layout["margin"]["r"] - 20  # of letters that are nowhere wider than 8 pixels
    assert all(8 * len(line) < room for name in names for line in name.split("<br>"))
    assert config["width"] / config["height"] == pytest.approx(16 / 9)
    assert data


def test_on_a_phone_the_slider_s_last_stop_has_its_number(page, server):
    page.set_viewport_size({"width": 390, "height": 844})
    open_and_settle(page, server)
    page.wait_for_selector(PLOTTED, state="attached")
    marks = page.locator(".dpmc-plot .xtick text").all()
    visible_marks = [mark for mark in marks if mark.is_visible() and mark.text_content()]
    assert [mark.text_content() for mark in visible_marks] == ["0.1", "0.3", "1", "3", "10"]


@pytest.mark.slow
def test_titles_are_text(instrument):
    page = instrument()
    assert page.locator(".dpmc-what img, .dpmc-what a").count() == 0


def test_nothing_is_fetched_from_elsewhere(page, server):
    requested_urls = []
    page.on("request", lambda request: requested_urls.append(request.url))
    open_and_settle(page, server)
    page.wait_for_selector(PLOTTED, state="attached")
    assert all(url.startswith((server, "data:", "blob:", "ws:")) for url in requested_urls)
    assert sum("plotly" in url and "Plotly" not in url for url in requested_urls) == 1


@pytest.mark.slow
def test_on_a_phone_the_number_comes_first_then_slider_lists_and_card(page, server):
    page.set_viewport_size({"width": 390, "height": 844})
    open_and_settle(page, server)
    page.wait_for_selector(PLOTTED, state="attached")
    names = ("number", "chart", "who", "rest", "lists")
    tops = [page.locator(f".dpmc-{name}").bounding_box()["y"] for name in names]
    assert tops == sorted(tops)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth - e.clientWidth") <= 0


@pytest.mark.slow
def test_before_the_first_point_the_axis_stands_on_a_phone_too(page, server):
    page.set_viewport_size({"width": 390, "height": 844})
    open_and_settle(page, server + "?mechanism=private-taste")
    page.locator(".dpmc-plot .xtick").first.wait_for(state="attached")
    assert page.get_by_role("button", name="Compute the curve").is_visible()


@pytest.mark.slow
def test_a_quality_that_is_not_on_the_axis_is_not_asked_for(instrument):
    page = instrument("?need=5")
    goal, button = page.locator(".dpmc-goal"), page.get_by_role("button", name="I need")
    assert goal.is_hidden()
    button.click()
    assert goal.is_visible()
    for _ in range(60):
        goal.press("ArrowUp")
    assert page.locator(".dpmc-frame").bounding_box()["y"] - 12 <= goal.bounding_box()["y"]
    button.click()
    assert goal.is_hidden()


def test_what_is_only_claimed_limits_no_attacker(instrument):
    page = instrument("?mechanism=dpmf")
    assert read_text(page, "attack").startswith("No limit is proved for an attacker who asks")


# What a visitor's lists are made of is there.
LISTED = "document.querySelector('.dpmc-lists p').textContent.startsWith('without privacy ')"


def press_answers(page, *answers):
    for name in answers:
        page.get_by_role("button", name=name, exact=True).click()


def test_answers_never_leave_the_browser_and_reports_add_up(instrument, page):
    sent = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    page.on("request", lambda request: sent.append(request.url))
    instrument("?data=restaurants")
    page.get_by_role("button", name="Add yourself").click()
    page.wait_for_url(re.compile("person=you"))
    page.wait_for_function(LISTED)
    settle(page)
    sent.clear()
    page.evaluate("document.querySelectorAll('.dpmc-you button')[0].focus()")
    page.keyboard.press("Enter")  # liked
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # disliked
    press_answers(page, "Skip", "Like", "Like", "Like")
    assert page.evaluate("document.activeElement.textContent").startswith("Another coin")
    tiles = page.locator(".dpmc-cell .dpmc-tile:first-child").all_inner_texts()
    assert tiles == ["+", "\u2212", "+", "+", "+"]
    assert "right at most 73 % of the time; a coin flip gets 50 %." in read_text(page, "attack")
    assert "Epsilon: 1 for each answer, 5 in all" in read_text(page, "you")  # one was skipped
    for _ in range(2):
        page.get_by_role("button", name="Send again").click()
    assert "right at most 82 % of the time" in read_text(page, "attack")
    assert "Epsilon: 3 for each answer, 15 in all" in read_text(page, "you")
    page.get_by_role("button", name="Another coin").click()
    assert "15 in all" in read_text(page, "you")  # imagined, so nothing is spent
    assert sent == []
    page.locator(".dpmc-link").click()
    page.wait_for_url(lambda url: "person" not in url)
    assert page.locator(".dpmc-you").is_hidden()


@pytest.mark.slow
def test_a_visitor_s_lists_meet_where_reports_tell_the_truth(instrument, page):
    instrument("?person=you&data=restaurants&epsilon=10")
    press_answers(page, "Like", "Like", "Dislike", "Dislike", "Like", "Dislike")
    page.wait_for_function(LISTED)
    settle(page)
    tiles = page.locator(".dpmc-cell .dpmc-tile").all_inner_texts()
    plain_list, server_list = (page.locator(".dpmc-lists ol").nth(k).inner_text() for k in (0, 1))
    assert tiles[::2] == tiles[1::2]  # a flip is one of 22,000
    assert plain_list == server_list
    assert "barely changed" in read_text(page, "lists")  # too few judge


@pytest.mark.parametrize(
    ("width", "height"), mark_rest_slow([(1366, 768), (1920, 1080), (1366, 540)])
)
def test_names_stand_at_their_lines_in_a_window_of_any_height(instrument, width, height):
    page = instrument()
    page.set_viewport_size({"width": width, "height": height})
    settle(page)
    expect(page.locator(".dpmc-plot .main-svg").first).to_have_attribute(
        "height", str(page.locator(".dpmc-frame").evaluate("node => node.clientHeight"))
    )
    boxes = {
        note.text_content(): note.bounding_box()
        for note in page.locator(".dpmc-plot .annotation").all()
    }
    baseline_box = next(box for text, box in boxes.items() if text.startswith("guessing"))
    low, high = (
        page.locator(".dpmc-plot .ytick text", has_text=name).bounding_box()
        for name in ("50%", "60%")
    )
    middle = [box["y"] + box["height"] / 2 for box in (low, high, baseline_box)]
    line = middle[0] + (middle[1] - middle[0]) * 0.52  # 55.2 %: nothing else is near
    assert middle[2] == pytest.approx(line, abs=3)
    column = sorted((b for t, b in boxes.items() if "attack" not in t), key=lambda b: b["y"])
    for upper, lower in itertools.pairwise(column):
        assert lower["y"] >= upper["y"] + upper["height"] - 1
    top = next(box for text, box in boxes.items() if text.startswith("no privacy 73"))
    assert column[1]["y"] - top["y"] - top["height"] < 12  # pushed up no further than it must
