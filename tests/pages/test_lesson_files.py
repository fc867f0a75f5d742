"""What is printed of the lessons: from the same texts and numbers, and opens without a network."""

import json
import re
from html import unescape
from itertools import pairwise
from random import Random

import pytest

from app import SECTIONS
from dpmc_lab import glossary
from dpmc_lab.classroom.pictures import render_picture
from dpmc_lab.cli import main
from dpmc_lab.lessons import LESSONS
from dpmc_lab.lessons import worksheets as paper
from dpmc_lab.lessons.worksheets import FILES, SHEETS
from pages.ui import classroom
from tests.page_helpers import HtmlFile, open_page, read_all_text
from tests.page_helpers import unescape_markdown as plain_markdown


@pytest.fixture(scope="module")
def sheets():
    return {name: sheet.render() for name, sheet in SHEETS.items()}


def read_plain_text(text):
    return " ".join(" ".join(HtmlFile(text).texts).split())


@pytest.mark.parametrize("name", SHEETS)
def test_a_file_is_whole_and_fetches_nothing(sheets, name):
    text = sheets[name]
    file = HtmlFile(text)
    for _, attrs in file.elements:
        assert not {"src", "href", "srcset", "action"} & set(attrs)
        assert not [name for name in attrs if name.startswith("on")]
        assert not [value for value in attrs.values() if "url(" in (value or "")]
    assert not {*file.tags} & {"script", "link", "img", "iframe", "object", "form"}
    assert "size: A4" in text
    assert "@media print" in text
    assert "@import" not in text
    assert not re.search(r"https?://", text)


def test_the_worksheet_asks_everything_and_answers_nothing(sheets):
    text = read_plain_text(sheets["worksheet.html"])
    boxes = re.findall(r"<li>(.*?)</li>", sheets["worksheet.html"])
    for lesson in LESSONS.values():
        assert lesson.take_home not in text
        for slide in lesson.slides:
            assert slide.title in text
            assert slide.teacher not in text
            for sentence in slide.reveal(slide.start).sentences:
                assert sentence not in text
            if slide.predict is not None:
                assert slide.predict.question in text
                assert {*slide.predict.options} <= {unescape(box) for box in boxes}
    assert 'class="drawing"' not in sheets["worksheet.html"]
    assert "<b>" not in re.sub(r"<p><b>.*?</b></p>", "", sheets["worksheet.html"])
    options = sum(len(s.predict.options) for x in LESSONS.values() for s in x.slides if s.predict)
    assert len(boxes) == options


def test_the_key_answers_everything(sheets):
    text = read_plain_text(sheets["answer-key.html"])
    for lesson in LESSONS.values():
        assert lesson.take_home in text
        for slide in lesson.slides:
            for sentence in (slide.teacher, *slide.reveal(slide.start).sentences):
                assert " ".join(sentence.split()) in text
            question = slide.predict
            if question is not None and question.right is not None:
                assert f"{question.question} {question.options[question.right]}" in text
    pictures = sum(
        slide.reveal(slide.start).picture is not None
        for lesson in LESSONS.values()
        for slide in lesson.slides
    )
    assert sheets["answer-key.html"].count('class="drawing"') == pictures > 20


@pytest.mark.parametrize("minutes", paper.HOURS)
def test_a_plan_adds_up(sheets, minutes):
    turns = list(paper.schedule_turns(minutes))
    assert turns[0].start == 0
    assert turns[-1].end == minutes
    for current, following in pairwise(turns):
        assert current.end == following.start
        assert current.end - current.start >= 3
    text = read_plain_text(sheets[f"plan-{minutes}.html"])
    for turn in turns:
        assert f"{turn.start}-{turn.end}" in text
    for lesson in LESSONS.values():
        planned = [slide for section in paper._PLANS[minutes] for slide in section.slides]
        planned_slides = [slide for slide in lesson.slides if slide in planned]
        assert (lesson.take_home in text) == bool(planned_slides)
        home = text.partition("For homework")[2].partition("Minute")[0]
        assert (lesson.title in home) == (len(planned_slides) < len(lesson.slides))
        for slide in lesson.slides if planned_slides else ():  # told at home, or here
            assert (slide.title in home) == (slide not in planned_slides)
        for slide in planned_slides:
            assert slide.predict is None or slide.predict.question in text


def test_a_lesson_hour_can_be_taught():
    """Few steps, each slide with twice the time somebody alone takes; a room that is locked, and a
    second round that is locked before it is shown."""
    assert set(paper.HOURS) == {45, 90}
    turns = list(paper.schedule_turns(45))
    steps = [turn.step for turn in turns]
    assert len(turns) <= 8
    assert steps.index("Lock") < steps.index("Ask again")
    teacher_text = turns[steps.index("Ask again")].teacher
    assert (
        teacher_text.index("Ask again (A)")
        < teacher_text.index("Lock (L)")
        < teacher_text.index("Show ")
    )
    report_steps = [turn.step for turn in turns if "your own reports" in turn.all]
    assert report_steps
    assert all(steps.index(step) > steps.index("Lock") for step in report_steps)
    minutes = {turn.step: turn.end - turn.start for turn in turns}
    for number, (id, lesson) in enumerate(LESSONS.items(), 1):
        slides = [
            slide
            for section in paper._PLANS[45]
            if section.lesson == id
            for slide in section.slides
        ]
        if slides:
            expected_minutes = lesson.minutes / len(lesson.slides) * len(slides)
            assert minutes[f"{number}. {lesson.title}"] >= 1.7 * expected_minutes
    all_slides = [slide for section in paper._PLANS[90] for slide in section.slides]
    assert all_slides == [slide for lesson in LESSONS.values() for slide in lesson.slides]


def test_papers_name_pages_as_the_app_does(sheets, capsys):
    titles = {entry.title for section in SECTIONS.values() for entry in section}
    assert main(["lessons"]) == 0
    texts = [read_plain_text(text) for text in sheets.values()] + [capsys.readouterr().out]
    named = {name for text in texts for name in re.findall(r"\bpage ([A-Z]\w+)", text)}
    assert named
    assert named <= titles


def test_the_command_lists_them(capsys):
    assert main(["lessons"]) == 0
    output = capsys.readouterr().out
    for lesson in LESSONS.values():
        assert lesson.id in output
        assert lesson.title in output
    assert main(["lessons", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [entry["id"] for entry in report["lessons"]] == list(LESSONS)
    assert report["files"] == []


def test_the_command_writes_them_and_overwrites_nothing(tmp_path, capsys, sheets):
    folder = tmp_path / "paper"
    assert main(["lessons", "--out", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(sheets)
    assert all((folder / name).read_text("utf-8") == text for name, text in sheets.items())
    (folder / "worksheet.html").write_text("mine")
    (folder / "plan-45.html").unlink()
    capsys.readouterr()
    assert main(["lessons", "--out", str(folder)]) == 1
    message = capsys.readouterr().err
    assert "worksheet.html is there already" in message
    assert "--force" in message
    assert not (folder / "plan-45.html").exists()  # all or nothing
    assert (folder / "worksheet.html").read_text() == "mine"
    assert main(["lessons", "--out", str(folder), "--force"]) == 0
    assert (folder / "worksheet.html").read_text("utf-8") == sheets["worksheet.html"]
    assert main(["lessons", "--out", str(folder / "worksheet.html")]) == 1
    assert "is a file" in capsys.readouterr().err


@pytest.fixture(scope="module")
def page():
    return paper.render_lessons_page()


@pytest.fixture(scope="module")
def content(page):
    (content_text,) = re.findall(
        r'<script type="application/json" id="content">(.*?)</script>', page, re.S
    )
    return json.loads(content_text)


@pytest.mark.slow
def test_the_page_without_server_fetches_nothing_and_is_small(page, content):
    assert "default-src 'none'" in page
    assert set(re.findall(r"(?:https?:)?//[\w.]+\.[a-z]+", page)) <= {"http://www.w3.org"}
    code = page.partition('id="content"')[0] + page.rpartition("<script>")[2]
    assert not re.search(
        r"fetch\(|XMLHttp|WebSocket|sendBeacon|import\(|@import|url\(|\b(src|href)=", code
    )
    assert len(page.encode()) < 3e6
    assert "{content}" not in page
    assert content["words"] == {term.name: term.words for term in glossary.TERMS.values()}


def reveal_text(texts, slot, stops):
    """Return the text of a slot as the page's script reads it."""
    index = 0
    for n_stops, stop in zip(slot[0], stops, strict=True):
        index = index * n_stops + (stop if n_stops > 1 else 0)
    value = texts[slot[1][index]]
    return "".join(texts[key] for key in value) if isinstance(value, list) else value


@pytest.mark.slow
def test_the_page_without_server_says_what_the_slides_reveal(content):
    """At stops drawn at random too, where one that was taken for another would show."""
    texts, rng = content["held"], Random(0)
    assert [entry["id"] for entry in content["lessons"]] == list(LESSONS)
    for lesson_data, lesson in zip(content["lessons"], LESSONS.values(), strict=True):
        assert lesson_data["take_home"] == lesson.take_home
        for slide_data, slide in zip(lesson_data["slides"], lesson.slides, strict=True):
            assert (slide_data["key"], slide_data["title"], slide_data["said"]) == (
                slide.key,
                slide.title,
                slide.said,
            )
            if slide.predict is None:
                assert slide_data["asked"] is None
            else:
                assert slide_data["asked"]["options"] == list(slide.predict.options)
                assert slide_data["asked"]["right"] == slide.predict.right
            starts = [control["start"] for control in slide_data["move"]]
            counts = [len(control["names"]) for control in slide_data["move"]]
            for stops in (starts, *([rng.randrange(n) for n in counts] for _ in range(12))):
                setting = {
                    control.key: [*(control.values or control.options or range(paper.N_THROWS))][
                        stop
                    ]
                    for control, stop in zip(slide.move, stops, strict=True)
                }
                drawing, note, *sentences = (
                    reveal_text(texts, slot, stops) for slot in slide_data["shown"]
                )
                finding = slide.reveal(setting)
                assert sentences == list(finding.sentences)
                assert note == finding.note
                assert drawing == (render_picture(finding.picture) if finding.picture else "")


@pytest.mark.slow
def test_the_page_without_server_holds_nothing_of_a_room(page, content):
    fields = {"key", "title", "said", "teacher", "asked", "move", "shown"}
    assert all(
        slide_data.keys() == fields
        for lesson_data in content["lessons"]
        for slide_data in lesson_data["slides"]
    )
    for text in ("Reports of your phones", "Your hands", "Your room", "are the opposite of the"):
        assert text not in page


@pytest.mark.slow
def test_the_command_writes_the_page_and_overwrites_nothing(tmp_path, capsys, page):
    file, folder = tmp_path / "new" / "lessons.html", tmp_path / "paper"
    assert main(["lessons", "--html", str(file)]) == 0
    assert file.read_text("utf-8") == page
    capsys.readouterr()
    assert main(["lessons", "--html", str(file), "--out", str(folder)]) == 1
    assert "lessons.html is there already" in capsys.readouterr().err
    assert not folder.exists()  # all or nothing
    assert main(["lessons", "--html", str(tmp_path), "--force"]) == 1
    assert "is a folder" in capsys.readouterr().err


def test_titles_of_others_are_escaped():
    """Texts are plain; what looks like a tag in one stays text."""
    slide = LESSONS["again"].slides[0]
    odd = type(slide)(**{**vars(slide), "title": "<b>a & b</b>"})
    assert "&lt;b&gt;a &amp; b&lt;/b&gt;" in paper._render_question(odd)


def test_the_page_offers_them():
    app = open_page("learn")
    labels = {button.proto.label for button in app.get("download_button")}
    assert labels == {sheet.title for sheet in FILES.values()}


def test_in_a_class_they_are_for_the_teacher(monkeypatch):
    monkeypatch.setattr(classroom, "is_teacher", lambda: False)
    assert not open_page("learn").get("download_button")


def test_words_are_searched_on_the_page():
    app = open_page("learn", word="flip")
    page_text = read_all_text(app)
    for term in glossary.TERMS.values():
        assert (f"**{term.name}**" in page_text) == (term in glossary.search_terms("flip"))
    (field,) = app.text_input
    field.set_value("<b>*nothing*").run()
    assert not app.exception
    assert "no word like" in plain_markdown(read_all_text(app))
    field.set_value("").run()
    assert "**sensitivity**" not in read_all_text(app)  # folded
