"""Lessons in Chromium: by keyboard alone, on a phone, on a projector, in the dark."""

from urllib.parse import parse_qs, urlsplit

import pytest

from dpmc_lab.lessons import LESSONS
from tests.browser_helpers import open_and_settle, settle
from tests.slow_helpers import mark_rest_slow

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]

# The whole page, which can have the focus too, says everything.
FOCUSED = """(one => /^(BODY|MAIN)$/.test(one.tagName) ? '' : one.innerText || one.ariaLabel || ''
)(document.activeElement)"""
SLIDER = "document.activeElement.type === 'range'"
WIDER = """() => {
  const main = document.querySelector('[data-testid="stMain"]');
  return main.scrollWidth - main.clientWidth;
}"""
# What ends below the screen or behind the buttons.
COVERED = """height => {
  const turns = document.querySelector('.st-key-turns').getBoundingClientRect();
  const main = document.querySelector('[data-testid="stMain"]');
  return [...main.querySelectorAll('p, .st-key-drawing')].filter(one => {
    if (one.closest('.st-key-turns')) return false;
    const box = one.getBoundingClientRect();
    return box.bottom > height || (box.bottom > turns.top && box.right > turns.left);
  }).map(one => one.innerText || one.className);
}"""
MODES = {
    "laptop": ({"width": 1366, "height": 650}, "light", ""),
    "phone": ({"width": 390, "height": 844}, "dark", ""),
    "projector": ({"width": 1366, "height": 768}, "dark", "&projector=true"),
}


def read_params(page):
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def tab_to(page, name="", *, slider=False, back=False):
    """Press Tab until the element with this name, or a slider, has the focus."""
    for _ in range(60):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        if page.evaluate(SLIDER) if slider else name in page.evaluate(FOCUSED).split("\n"):
            return
    raise AssertionError(f"Tab does not reach {name or 'a slider'}")


def wait_for_focus(page, text):
    """Wait until the focus is on the element with this text."""
    page.wait_for_function(f"text => ({FOCUSED}).includes(text)", arg=text)


def press_key(page, key):
    page.keyboard.press(key)
    settle(page)


@pytest.mark.parametrize(
    ("name", "mode"),
    mark_rest_slow(
        [("coin", "laptop")] + [(name, mode) for name in LESSONS for mode in ("phone", "projector")]
    ),
)
def test_a_lesson_from_start_to_end_by_keyboard_alone(page, server, name, mode):
    lesson = LESSONS[name]
    size, scheme, link = MODES[mode]
    page.set_viewport_size(size)
    page.emulate_media(color_scheme=scheme)
    open_and_settle(page, f"{server}learn?lesson={lesson.id}{link}")
    for index, slide in enumerate(lesson.slides):
        page.get_by_role("heading", name=slide.title, level=2).wait_for()
        assert read_params(page).get("step", lesson.slides[0].key) == slide.key
        if index:
            wait_for_focus(page, slide.title)  # and so it is read aloud
        if slide.predict is not None:
            assert page.locator(".st-key-drawing [role=img]").count() == 0
            option = slide.predict.options[slide.predict.right or 0]
            tab_to(page, option)
            press_key(page, "Enter")
            wait_for_focus(page, slide.predict.question)
        finding, thrown = (
            slide.reveal(slide.start_values),
            any(c.key == "throw" for c in slide.move),
        )
        if finding.picture is not None:
            picture_label = page.locator(".st-key-drawing [role=img]").get_attribute("aria-label")
            assert thrown or picture_label == finding.picture.description
        assert page.evaluate(WIDER) <= 0
        if slide.move and slide.move[0].values:
            control = slide.move[0]
            before = control.values.index(control.start)
            key = "ArrowRight" if before < len(control.values) - 1 else "ArrowLeft"
            tab_to(page, slider=True)
            press_key(page, key)  # the slider keeps its arrows
            assert read_params(page).get("step", lesson.slides[0].key) == slide.key
            assert page.evaluate(SLIDER)
            after = control.values[before + (1 if key == "ArrowRight" else -1)]
            new = slide.reveal(slide.start_values | {control.key: after})
            if not thrown:
                page.locator(".st-key-finding", has_text=new.sentences[0]).wait_for()
        tab_to(page, "Next")
        press_key(page, "Enter")
    wait_for_focus(page, "To take home")
    assert lesson.take_home in page.locator(".st-key-home").inner_text()


@pytest.mark.slow
def test_the_header_comes_back_after_the_projector(page, server):
    open_and_settle(page, server + "learn?lesson=coin&projector=true")
    assert not page.get_by_test_id("stHeader").is_visible()
    page.locator(".st-key-all button").click()
    page.get_by_test_id("stHeader").wait_for()


def test_the_projector_shows_nothing_for_the_teacher_alone(page, server):
    open_and_settle(page, server + "learn?lesson=coin")
    slide = LESSONS["coin"].slides[0]
    page.get_by_text("For the teacher").click()
    assert page.get_by_text(slide.teacher).is_visible()
    page.get_by_text("Projector", exact=True).click()
    settle(page)
    assert read_params(page)["projector"] == "true"
    assert page.get_by_text(slide.teacher).count() == 0
    assert page.get_by_text("For the teacher").count() == 0
    for _ in range(2):  # a clicker's keys, while the switch still has the focus
        press_key(page, "PageDown")
    assert read_params(page)["step"] == LESSONS["coin"].slides[1].key


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS.values(), ids=list(LESSONS))
def test_a_class_sees_all_of_a_step_without_scrolling(page, server, lesson):
    page.set_viewport_size({"width": 1366, "height": 768})
    open_and_settle(page, f"{server}learn?lesson={lesson.id}&projector=true")
    for slide in lesson.slides:
        if slide.predict is not None:
            assert page.evaluate(COVERED, 768) == []
            press_key(page, "PageDown")
        finding = slide.reveal(slide.start_values)
        if finding.picture is not None:
            page.locator(".st-key-drawing [role=img]").wait_for()
        page_text = (
            page.locator("[data-testid=stMain]").inner_text().replace("\N{NO-BREAK SPACE}", " ")
        )
        if not any(control.key == "throw" for control in slide.move):
            assert all(sentence in page_text for sentence in (*finding.sentences, finding.note))
        assert slide.said in page_text
        assert page.evaluate(COVERED, 768) == []
        press_key(page, "PageDown")


@pytest.mark.slow
def test_back_in_the_browser_goes_back_a_step(page, server):
    open_and_settle(page, server + "learn?lesson=coin&step=deny")
    press_key(page, "ArrowRight")
    press_key(page, "ArrowRight")
    assert read_params(page)["step"] == "evidence"
    page.go_back()
    page.get_by_role("heading", name=LESSONS["coin"].get_slide("deny").title).wait_for()


def test_what_is_done_survives_a_reload_and_a_lesson_is_printed(page, server):
    page.add_init_script("window.print = () => { top.printed = document.body.innerText }")
    open_and_settle(page, server + "learn?lesson=coin&step=end")
    page.get_by_role("button", name="Print this lesson").click()
    page.wait_for_function("top.printed")
    printed = page.evaluate("top.printed")
    assert LESSONS["coin"].take_home in printed
    assert all(s.predict.question in printed for s in LESSONS["coin"].slides if s.predict)
    page.goto(server + "learn")  # a new session
    page.get_by_role("button", name="Continue with lesson 2").wait_for()
    assert page.locator(".path li.done").count() == 1
    page.locator(".path a", has_text="The crowd").click()
    page.get_by_role("heading", name=LESSONS["crowd"].slides[0].title, level=2).wait_for()
    page.go_back()
    page.get_by_role("button", name="Print worksheets").click()
    page.get_by_role("button", name="Print a class of 45 minutes").click()
    page.wait_for_function("top.printed?.includes('45 minutes')")


def test_the_bar_names_the_page_on_a_phone_and_share_leaves_its_menu_free(page, server):
    page.set_viewport_size({"width": 390, "height": 844})
    open_and_settle(page, server + "learn")
    bar = "getComputedStyle(document.querySelector('[data-testid=stHeader]'), '::after').content"
    assert page.evaluate(bar) == '"Learn"'
    share = page.locator(".st-key-share")
    assert share.is_visible()
    page.get_by_test_id("stExpandSidebarButton").click()
    share.wait_for(state="hidden")
