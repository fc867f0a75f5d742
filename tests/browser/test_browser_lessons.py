"""All lessons as one HTML file, in Chromium, from the disk, with the network off."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from dpmc_lab.lessons import LESSONS
from dpmc_lab.lessons import worksheets as paper
from tests.browser_helpers import open_offline_tabs

pytestmark = [pytest.mark.browser, pytest.mark.slow_unless_planted]

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("lessons") / "lessons.html"
    path.write_text(paper.render_lessons_page(), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def opened(browser, address):
    with open_offline_tabs(browser, "#here > *") as open_:
        yield lambda fragment="", **style: open_(address, fragment, **style)


def press_button(tab, name):
    tab.get_by_role("button", name=name, exact=True).click()


def check_finding(tab, slide, setting):
    """Check that the page shows what the slide reveals."""
    finding = slide.reveal(setting)
    paragraphs = [tab.locator(".first"), *tab.locator(".shows > div:not(.picture) > p").all()]
    assert [paragraph.text_content() for paragraph in paragraphs] == list(finding.sentences)
    note, drawing = tab.locator(".shows small"), tab.locator(".picture > .drawing")
    assert note.text_content() == finding.note
    if finding.picture is None:
        assert drawing.count() == 0
    else:
        assert drawing.get_attribute("aria-label") == finding.picture.description


def walk_through(tab, lesson):
    """Walk through a whole lesson: predict, move every control, and go on to its last sentence."""
    for k, slide in enumerate(lesson.slides):
        expect(tab.locator("h1")).to_have_text(slide.title)
        assert tab.locator(".said").text_content() == slide.said
        if slide.predict is not None:
            # Nothing is revealed before it is predicted: the picture is there, grey and unnamed.
            assert tab.locator(".shows p").count() == 0
            assert tab.locator(".shows [aria-label]").count() == 0
            has_picture = slide.reveal(slide.start_values).picture is not None
            assert tab.locator('[aria-hidden="true"] > .veiled').count() == has_picture
            for kind in (".bar span", ".key", ".plot .point", ".rule", ".range"):
                assert tab.locator(f".veiled {kind}").filter(visible=True).count() == 0
            press_button(tab, slide.predict.options[0])
            verdict = tab.locator(".verdict")
            expect(verdict).to_be_focused()
            right = slide.predict.right
            assert ("As you predicted" in verdict.inner_text()) == (right == 0)
            assert right is None or slide.predict.options[right] in verdict.inner_text()
        setting = dict(slide.start_values)
        check_finding(tab, slide, setting)
        for control in slide.move:
            if control.values:
                slider = tab.get_by_role("slider", name=control.label)
                for key, value in (("Home", control.values[0]), ("End", control.values[-1])):
                    slider.press(key)
                    setting[control.key] = value
                    check_finding(tab, slide, setting)
                    assert slider.get_attribute("aria-valuetext") == control.format_value(value)
            elif control.options:
                setting[control.key] = list(control.options)[-1]
                tab.get_by_label(control.options[setting[control.key]], exact=True).check()
                check_finding(tab, slide, setting)
            else:
                for throw in (*range(1, paper.N_THROWS), 0):
                    press_button(tab, control.label)
                    setting[control.key] = throw
                    check_finding(tab, slide, setting)
                expect(
                    tab.get_by_text(f"throw 1 of the {paper.N_THROWS} in this file")
                ).to_be_visible()
        assert f"step={slide.key}" in tab.url or k == 0
        press_button(tab, "Next")
    expect(tab.locator(".home")).to_have_text(lesson.take_home)


@pytest.mark.parametrize(
    "id",
    [
        lesson if lesson in ("again", "public") else pytest.param(lesson, marks=pytest.mark.slow)
        for lesson in LESSONS
    ],
)
def test_a_whole_lesson_says_what_its_slides_reveal(opened, id):
    tab = opened(f"#lesson={id}")
    walk_through(tab, LESSONS[id])


def test_from_all_lessons_to_one_and_on_to_the_next(opened):
    tab = opened()
    assert tab.locator("h2").count() == len(LESSONS)
    press_button(tab, "Start lesson 1")
    expect(tab.locator("h1")).to_be_focused()
    lesson, after, *_ = LESSONS.values()
    for slide in lesson.slides:  # Without predicting, by keys alone
        if slide.predict:
            tab.keyboard.press("ArrowRight")
            expect(tab.locator(".verdict")).to_be_focused()
        tab.keyboard.press("ArrowRight")
    expect(tab.locator(".home")).to_have_text(lesson.take_home)
    press_button(tab, f"Next lesson: {after.title}")
    expect(tab.locator("h1")).to_have_text(after.slides[0].title)
    tab.go_back()
    expect(tab.locator(".home")).to_be_visible()
    press_button(tab, "All lessons")
    tab.get_by_role("button", name="Repeat lesson 1").wait_for()


def test_arrows_turn_no_step_where_they_move_something(opened):
    tab = opened("#lesson=coin&step=dial")
    press_button(tab, "Up")
    slider = tab.get_by_role("slider", name="epsilon")
    slider.press("ArrowRight")
    assert "step=dial" in tab.url
    tab.get_by_label("Projector").check()
    tab.keyboard.press("PageUp")  # of a clicker
    tab.wait_for_url(re.compile("step=evidence"))
    tab.keyboard.press("ArrowLeft")
    tab.wait_for_url(re.compile("step=deny"))


def test_a_reload_and_a_copied_address_stand_at_the_step(opened):
    tab = opened("#lesson=claim&step=sum")
    expect(tab.locator("h1")).to_have_text(LESSONS["claim"].get_slide("sum").title)
    tab.reload()
    expect(tab.locator("h1")).to_have_text(LESSONS["claim"].get_slide("sum").title)


@pytest.mark.parametrize(
    ("junk", "heading"),
    [
        ("#lesson=%00&step=%", None),
        ("#lesson=constructor&step=throw", None),
        ("#<img src=x onerror=alert(1)>", None),
        ("#lesson=coin&step=9999", LESSONS["coin"].slides[0].title),
        ("#step=end&lesson=coin&lesson=x", "To take home"),
    ],
)
def test_junk_in_the_address_is_ignored(opened, junk, heading):
    tab = opened(junk)
    if heading is None:
        expect(tab.get_by_role("button", name="Start lesson 1")).to_be_visible()
    else:
        expect(tab.locator("h1")).to_have_text(heading)
    assert tab.locator("img").count() == 0


def test_the_projector_has_large_letters_and_nothing_for_the_teacher(opened):
    tab = opened("#lesson=attacker&step=suspicion")
    teacher, size = tab.get_by_text("For the teacher"), "getComputedStyle(document.body).fontSize"
    assert teacher.is_visible()
    assert tab.evaluate(size) == "16px"
    tab.get_by_label("Projector").check()
    assert teacher.is_hidden()
    assert tab.evaluate(size) == "22px"
    press_button(tab, "Show the answer")
    for selector in (
        ".first",
        ".picture",
        "input[type=range] >> nth=-1",
        "#next",
    ):  # without scrolling
        box = tab.locator(selector).bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 650 or selector == ".picture"


@pytest.mark.parametrize("style", ["light", "dark"])
def test_nothing_in_it_keeps_people_out(opened, style):
    axe = pytest.importorskip("axe_playwright_python", reason="pip install axe-playwright-python")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    for fragment in (
        "",
        "#lesson=coin&step=evidence",
        "#lesson=crowd&step=undo",
        "#lesson=coin&step=end",
    ):
        tab = opened(fragment, color_scheme=style)
        if "step=" in fragment and "end" not in fragment:
            tab.locator(".options button").first.click()
        for fold in tab.locator("summary:visible").all():
            fold.click()
        tab.evaluate(script)
        violations = tab.evaluate("async () => (await axe.run(document)).violations")
        assert not [
            (violation["impact"], violation["id"], violation["nodes"][0]["html"])
            for violation in violations
        ]


def test_on_a_phone_nothing_is_wider_than_the_screen(opened):
    for lesson in LESSONS.values():
        tab = opened(f"#lesson={lesson.id}", **PHONE)
        for slide in lesson.slides:
            assert tab.evaluate("document.documentElement.scrollWidth") <= 390
            if slide.predict is not None:
                press_button(tab, "Show the answer")
            assert tab.evaluate("document.documentElement.scrollWidth") <= 390, slide.key
            press_button(tab, "Next")


# --- paper ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["A4", "Letter"])
@pytest.mark.parametrize("minutes", paper.CLASSES)
def test_a_class_fits_on_its_pages(browser, minutes, size):
    """A plan and a worksheet are one sheet each, front and back, and a key has three pages."""
    for kind, limit in (("plan", 2), ("worksheet", 2), ("key", 3)):
        page = browser.new_page()
        page.set_content(paper.render_class(minutes))
        sections = page.locator(f"section.{kind}")
        for number in range(sections.count()):
            page.evaluate(
                "([kind, number]) => { const kept = document.querySelectorAll('section.' + kind)"
                "[number]; for (const section of document.querySelectorAll('section'))"
                " section.hidden = section !== kept; }",
                [kind, number],
            )
            printed = page.pdf(format=size)
            assert 1 <= len(re.findall(rb"/Type\s*/Page\b(?!s)", printed)) <= limit, (kind, number)
        page.close()
