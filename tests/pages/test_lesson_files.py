"""What is printed of the lessons: from the same texts and numbers, and opens without a network."""

import json
import re
import tomllib
from html import unescape
from pathlib import Path

import pytest

from dpmc_lab import glossary
from dpmc_lab.cli import main
from dpmc_lab.lessons import BOXES, LESSONS, PAGE_LABELS, Predict, get_slide, say, schedule_class
from dpmc_lab.lessons import worksheets as paper
from dpmc_lab.lessons.worksheets import SHEETS
from pages.ui import classroom
from tests.page_helpers import HtmlFile, open_page

ROOT = Path(__file__).resolve().parents[2]
PLAN_FILE = ROOT / "dpmc_lab" / "texts" / "en" / "plans.toml"


@pytest.fixture(scope="module")
def sheets():
    return {name: render() for name, (_, render) in SHEETS.items()}


@pytest.fixture(scope="module")
def plan_file():
    """Return the plans as they are written."""
    return tomllib.loads(PLAN_FILE.read_text("utf-8"))


def read_plain_text(text):
    return " ".join(" ".join(HtmlFile(text).texts).split())


def split_sections(sheet):
    """Return the sections of a file as (kind, HTML): the plan, the worksheet, the key."""
    return re.findall(r'<section class="(\w+)">(.*?)</section>', sheet, re.S)


def split_tasks(section):
    """Return the HTML of each numbered question or box; inside it, options are lists, too."""
    lists = "".join(re.findall(r"<ol[^>]*>(.*?)</ol>", section, re.S))
    return re.findall(r"<li>(.*?(?:</div>|</table>|</p>))</li>", lists, re.S)


@pytest.mark.parametrize("name", SHEETS)
def test_a_file_is_whole_and_fetches_nothing(sheets, name):
    text = sheets[name]
    file = HtmlFile(text)
    for _, attrs in file.elements:
        assert not {"src", "srcset", "action"} & set(attrs)
        assert attrs.get("href", "#").startswith("#")  # a part of an illustration
        assert not [name for name in attrs if name.startswith("on")]
        assert not [value for value in attrs.values() if "url(" in (value or "")]
    assert not {*file.tags} & {"script", "link", "img", "iframe", "object", "form"}
    assert "@media print" in text
    assert "@import" not in text
    assert not re.search(r"https?://", text)


@pytest.mark.parametrize("minutes", paper.CLASSES)
def test_the_minutes_of_a_plan_add_up_and_are_those_of_the_lessons(sheets, plan_file, minutes):
    plans = [plan_file["plans"][name] for name in plan_file["classes"][minutes]]
    sections = [html for kind, html in split_sections(sheets[f"class-{minutes}.html"])]
    total = 0
    for plan, section in zip(plans, sections[::3], strict=True):
        end, slide_minutes = 0, {}
        spans = re.findall(r"<tr><td>(\d+)-(\d+)</td>", section)
        for step, (first, last) in zip(plan["steps"], spans, strict=True):
            assert int(first) == end
            end = int(last)
            assert end - int(first) == step["minutes"] >= 1
            if "stage" in step:
                minutes_so_far = slide_minutes.get(step["wall"], 0)
                slide_minutes[step["wall"]] = minutes_so_far + step["minutes"]
        for name, duration in slide_minutes.items():
            assert duration == get_slide(name)[1].minutes, name
        assert end in (10, 45)
        total += end
    assert total == int(minutes)
    steps = schedule_class(minutes)
    assert [step.start for step in steps] == [
        sum(step.minutes for step in steps[:k]) for k in range(len(steps))
    ]


def list_plan_tasks(name):
    """Return the boxes and questions of a plan's sheet: those of its steps, for home, the exit."""
    table = tomllib.loads(PLAN_FILE.read_text("utf-8"))["plans"][name]
    names = [step["sheet"] for step in table["steps"] if "sheet" in step]
    assert names[-1].startswith("exits/")
    return [*names[:-1], *table.get("home", []), names[-1]]


def find_question(name):
    """Return the slide of a task; None for a box."""
    return None if name in BOXES else get_slide(name)[1]


@pytest.mark.parametrize("name", paper.PLANS)
def test_a_worksheet_has_all_tasks_and_answers_none(name):
    html = paper._render_worksheet(paper.PLANS[name])
    text = read_plain_text(html)
    names, tasks = list_plan_tasks(name), split_tasks(html)
    assert len(set(names)) == len(names)
    for task_html, task in zip(tasks, names, strict=True):
        if not (slide := find_question(task)):
            assert BOXES[task]["title"] in task_html
            assert task_html.count("<tr>") == len(BOXES[task]["rows"])
            assert ('class="strip"' in task_html) == (task == "class/strip")
            continue
        assert slide.predict.question in unescape(task_html)
        assert slide.said in unescape(task_html)
        boxes = re.findall(r"<li>(.*?)</li>", task_html)
        assert tuple(map(unescape, boxes)) == slide.predict.options
        for sentence in (slide.teacher, *slide.reveal(slide.start_values).sentences):
            assert sentence not in text
    assert not [lesson for lesson in LESSONS.values() if lesson.take_home in text]
    assert html.count("<svg") == 1
    last_list = html.rpartition("<h3>")[2]
    assert last_list.startswith("Exit question</h3>")
    assert split_tasks(last_list) == tasks[-1:]


@pytest.mark.parametrize("name", paper.PLANS)
def test_a_key_answers_the_tasks_of_its_worksheet_in_their_order(name):
    worksheet = split_tasks(paper._render_worksheet(paper.PLANS[name]))
    key = split_tasks(paper._render_key(paper.PLANS[name]))
    for asked, answered, task in zip(worksheet, key, list_plan_tasks(name), strict=True):
        if not (slide := find_question(task)):
            assert BOXES[task]["title"] in answered
            continue
        (question,) = re.findall(r"<p><b>(.*?)</b></p>", asked)
        boxes = re.findall(r"<li>(.*?)</li>", asked)
        right = re.match(rf"<p>{re.escape(question)} <b>(.*?)</b></p>", answered)[1]
        index = slide.predict.right
        assert (right in boxes) == (index is not None)
        assert index is None or boxes.index(right) == index
        for sentence in slide.reveal(slide.start_values).sentences:
            assert sentence in unescape(answered)


def test_a_sheet_names_the_address_for_home_and_a_lesson_ends_with_its_exit_question(monkeypatch):
    monkeypatch.setenv("DPMC_CLASS_URL", "https://class.example")
    assert "for home: https://class.example<" in paper._render_worksheet(paper.PLANS["first"])
    last_list = paper.render_lesson(LESSONS["claim"]).rpartition("<h3>")[2]
    assert last_list.startswith("Exit question</h3>")
    assert LESSONS["claim"].take_home in last_list


def test_the_command_writes_them_and_overwrites_nothing(tmp_path, capsys, sheets):
    folder = tmp_path / "paper"
    assert main(["lessons", "--out", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(sheets)
    assert all((folder / name).read_text("utf-8") == text for name, text in sheets.items())
    (folder / "class-10.html").write_text("mine")
    (folder / "class-45.html").unlink()
    capsys.readouterr()
    assert main(["lessons", "--out", str(folder)]) == 1
    message = capsys.readouterr().err
    assert "class-10.html is there already" in message
    assert "--force" in message
    assert not (folder / "class-45.html").exists()  # all or nothing
    assert (folder / "class-10.html").read_text() == "mine"
    assert main(["lessons", "--out", str(folder), "--force"]) == 0
    assert (folder / "class-10.html").read_text("utf-8") == sheets["class-10.html"]
    assert main(["lessons", "--out", str(folder / "class-10.html")]) == 1
    assert "is a file" in capsys.readouterr().err


@pytest.fixture(scope="module")
def page():
    return paper.render_lessons_page()


def test_every_label_of_learn_is_shown_and_the_file_names_all_of_its_own():
    named = (ROOT / "pages" / "learn.py").read_text("utf-8")
    named += Path(paper.__file__).with_name("lessons.html").read_text("utf-8")
    named = re.sub(r"\[\[(\w+)\]\]", r'"\1"', named)
    assert not [name for name in PAGE_LABELS if not re.search(rf"[\"']{name}[\"']", named)]


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
        r"fetch\(|XMLHttp|WebSocket|sendBeacon|import\(|@import|url\((?!#)|\b(src|href)=", code
    )
    assert len(page.encode()) < 3e6
    assert "{content}" not in page
    assert "[[" not in page.partition('id="content"')[0]
    assert content["words"] == {term.name: term.words for term in glossary.TERMS.values()}


def test_texts_are_escaped(monkeypatch):
    """Texts are plain; what looks like a tag in one stays text."""
    slide = LESSONS["coin"].slides[0]
    question = Predict(question="<b>a & b</b>?", options=("<u>",), right=0)
    odd = type(slide)(**{**vars(slide), "said": "<i>", "predict": question})
    box = {"title": "<b>a & b</b>", "said": "<i>", "rows": ["<u>"], "answer": "<u>"}
    monkeypatch.setattr(paper, "get_slide", lambda _: (None, odd))
    monkeypatch.setitem(BOXES, "class/odd", box)
    for name in ("coin/odd", "class/odd"):
        for html in (paper._render_task(name, {}), paper._render_answer(name, {})):
            assert "&lt;b&gt;a &amp; b&lt;/b&gt;" in html
            assert not re.search("<(i|u)>", html)


def test_the_page_offers_them():
    """Sheets are printed by the browser, once their menu is open; the page of lessons is a file."""
    app = open_page("learn")
    (label,) = {button.proto.label for button in app.get("download_button")}
    assert label == say("download")
    app.session_state["print"] = True
    app.run()
    components = (element.proto for element in app.get("bidi_component"))
    printed = [json.loads(c.json) for c in components if c.component_name == "print"]
    for entry, (title, render) in zip(printed, SHEETS.values(), strict=True):
        assert (entry["label"], entry["page"]) == (title, render())


def test_in_a_class_they_are_for_the_teacher(monkeypatch):
    monkeypatch.setattr(classroom, "is_teacher", lambda: False)
    assert not open_page("learn").get("download_button")
