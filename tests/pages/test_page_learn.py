"""The page of lessons: predict, move, see, and home again; its address; and a class beside it."""

import pytest

from dpmc_lab.classroom import pictures
from dpmc_lab.lessons import LESSONS
from pages.ui import classroom
from tests.page_helpers import (
    find_button,
    open_page,
    read_all_text,
    read_drawing,
    unescape_markdown,
)


def press_key(app, key):
    app.button(key=key).click().run()
    assert not app.exception


def list_drawings(app):
    """Return the pictures as the page was given them, without one that waits for the answer."""
    bodies = [html.body for html in app.get("html") if 'class="drawing"' in html.body]
    return [body for body in bodies if 'class="drawing" aria-hidden' not in body]


def read_heading(app):
    return unescape_markdown(app.header[0].value)


@pytest.mark.slow
def test_all_lessons_stand_there():
    app = open_page("learn")
    path = read_drawing(app)
    for lesson in LESSONS.values():
        title = lesson.title.partition(":")[0]
        label = f"Lesson {lesson.number}: {title}, {lesson.minutes} minutes"
        assert f'data-open="{lesson.id}" aria-label="{label}"' in path
        assert pictures.render_illustration(lesson.id) in path
        assert lesson.take_home not in path  # it is the end of the lesson
    assert find_button(app, "Start with lesson 1") is not None
    press_key(app, "continue")
    assert read_heading(app) == LESSONS["coin"].slides[0].title
    assert app.query_params["lesson"] == "coin"
    assert app.query_params["step"] == LESSONS["coin"].slides[0].key


def test_an_answer_says_that_a_control_was_moved_since():
    """The answer is that of the question as it was asked."""
    app = open_page("learn", lesson="claim", step="promise")
    press_key(app, "next")
    asked = f"How sure can this person really become? {find_slide('claim', 'promise')}."
    assert f"**{asked[:39]}**{asked[39:]}" in read_all_text(app)
    assert "Before you moved a control" not in read_all_text(app)
    app.select_slider[0].set_value(3.0).run()
    assert "Before you moved a control: **How sure can" in read_all_text(app)


def find_slide(lesson, key):
    (slide,) = (slide for slide in LESSONS[lesson].slides if slide.key == key)
    return slide.predict.options[slide.predict.right]


@pytest.fixture
def by_chance(monkeypatch):
    """A visitor whose chance is the one on paper."""
    monkeypatch.setattr("secrets.randbelow", lambda _: 0)


@pytest.mark.usefixtures("by_chance")
@pytest.mark.parametrize("lesson", LESSONS.values(), ids=list(LESSONS))
def test_a_lesson_is_walked_through(lesson):
    app = open_page("learn", lesson=lesson.id)
    for index, slide in enumerate(lesson.slides):
        assert app.query_params.get("step", lesson.slides[0].key) == slide.key
        assert read_heading(app) == slide.title
        assert slide.said in read_all_text(app)
        finding = slide.reveal(slide.start_values)
        if slide.predict is not None:
            assert not list_drawings(app)
            assert not app.select_slider
            assert finding.sentences[0] not in read_all_text(app)
            press_key(app, f"option {lesson.id} {slide.key} {len(slide.predict.options) - 1}")
            if slide.predict.right is not None:
                assert slide.predict.options[slide.predict.right] in read_all_text(app)
        for sentence in (slide.said, *finding.sentences):
            assert sentence in read_all_text(app)
        assert len(list_drawings(app)) == (finding.picture is not None)
        assert app.button(key="back").disabled == (index == 0)
        press_key(app, "next")
    assert read_heading(app) == "To take home"
    assert lesson.take_home in read_all_text(app)
    press_key(app, "back")
    assert read_heading(app) == lesson.slides[-1].title
    assert lesson.slides[-1].reveal(lesson.slides[-1].start_values).sentences[0] in read_all_text(
        app
    )
    press_key(app, "next")
    press_key(app, "all")
    path = read_drawing(app)
    assert path.count('<li class="done">') == 1
    assert f"{lesson.minutes} minutes, done" in path
    assert lesson.take_home in path
    assert "lesson" not in app.query_params


def test_one_goes_on_where_one_left_off():
    app = open_page("learn", lesson="coin", step="deny")
    press_key(app, "all")
    assert find_button(app, "Continue with lesson 1") is not None
    press_key(app, "continue")
    assert read_heading(app) == LESSONS["coin"].get_slide("deny").title


@pytest.mark.parametrize(
    ("link", "expected", "note"),
    [
        ({"lesson": "junk <b>"}, None, "the lesson “junk <b>”"),
        ({"lesson": "coin", "step": "junk"}, 0, "the step “junk”"),
        ({"lesson": "coin", "step": "9" * 5000}, 0, "the step “999"),
        ({"step": "deny"}, None, ""),
        ({"lesson": "coin", "step": "2"}, 0, "the step “2”"),
        ({"lesson": "coin", "step": "evidence"}, 3, ""),
        ({"lesson": "coin", "projector": "perhaps"}, 0, "projector mode “perhaps”"),
    ],
)
def test_what_the_address_says(link, expected, note):
    app = open_page("learn", **link)
    warned = unescape_markdown(" ".join(warning.value for warning in app.warning))
    assert note in warned
    assert bool(note) == bool(warned)
    if expected is None:
        assert read_heading(app) == "Words"  # under all lessons
    else:
        assert read_heading(app) == LESSONS["coin"].slides[expected].title


def test_a_control_in_a_link_stands_where_the_link_says():
    app = open_page("learn", lesson="attacker", step="suspicion", **{"suspicion.epsilon": "3"})
    press_key(app, "next")
    assert "From 90 % to 99.4 % sure." in read_all_text(app)
    assert any("99.4\u00a0% sure" in entry.value for entry in app.markdown)  # on one line
    app = open_page("learn", lesson="attacker", step="suspicion", **{"suspicion.epsilon": "junk"})
    press_key(app, "next")
    assert "From 90 % to 96 % sure." in read_all_text(app)


@pytest.mark.usefixtures("by_chance")
def test_the_teachers_line_is_never_projected():
    slide = LESSONS["coin"].slides[0]
    app = open_page("learn", lesson="coin")
    assert slide.teacher in read_all_text(app)
    app = open_page("learn", lesson="coin", projector="true")
    assert slide.teacher not in read_all_text(app)
    press_key(app, "next")
    assert slide.teacher not in read_all_text(app)
    assert slide.reveal(slide.start_values).sentences[0] in read_all_text(app)


def test_in_a_class_the_teachers_line_is_the_teachers(monkeypatch):
    slide = LESSONS["coin"].slides[0]
    monkeypatch.setattr(classroom, "is_teacher", lambda: False)
    app = open_page("learn", lesson="coin")
    assert slide.said in read_all_text(app)
    assert slide.teacher not in read_all_text(app)
    assert not [expander.label for expander in app.expander]
    monkeypatch.setattr(classroom, "is_teacher", lambda: True)
    assert slide.teacher in read_all_text(app.run())
