"""Render the lessons without the app: the plans of a class to print, and an interactive page.

All of it is HTML from the texts and numbers of the lessons and of plans.toml, and loads nothing.
Printed files have no scripts.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import cache, partial
from html import escape
from importlib import resources
from itertools import product
from typing import Any

from dpmc_lab import glossary
from dpmc_lab.classroom import pictures
from dpmc_lab.lessons import (
    BOXES,
    CLASSES,
    LABELS,
    LESSONS,
    PAGE_LABELS,
    PLANS,
    Lesson,
    LessonPlan,
    LessonValues,
    Slide,
    Table,
    fill_text,
    get_slide,
    schedule_steps,
)
from dpmc_lab.views import text

_STYLE = """
@page { margin: 12mm; } @page wide { size: landscape; margin: 10mm; }
body { max-width: 46rem; background: white; color: black; line-height: 1.3; }
h1 { font-size: 1.2rem; margin: 0 0 1rem; } .illustration.illustration { width: 15rem; }
p { margin: .2rem 0; }
h2 { font-size: 1.3rem; margin: 0 0 .4rem; } h3 { font-size: 1.05rem; margin: .6rem 0 .2rem; }
h3:empty { display: none; } h3 { break-after: avoid; }
section { margin-bottom: 3rem; } li, tr { break-inside: avoid; }
ol { padding-left: 1.5rem; margin: 0; }
ol > li { margin-bottom: .8rem; } td, th { vertical-align: top; }
.plan td, .plan th { padding: .2rem .8rem .2rem 0; font-size: .92em; } .plan li { margin: 0; }
.plan ol { list-style: disc; }
.plan td:first-child { white-space: nowrap; } .plan td:nth-child(2) { width: 14%; }
.plan td:nth-child(3) { width: 26%; } .plan td:nth-child(5) { width: 22%; }
ul { list-style: none; margin: .2rem 0; padding: 0; }
ul li { display: inline-block; margin: 0 1.4rem .2rem 0; padding-left: 1.4em; text-indent: -1.4em; }
ul li::before { content: ""; display: inline-block; width: .75em; height: .75em;
  border: 1.5px solid black; margin-right: .6em; }
.line { border-bottom: 1px solid var(--baseline); height: 1.7rem; padding-top: .5rem;
  color: var(--note); font-size: .9em; }
.name { display: flex; gap: 1.2rem; margin-bottom: .6rem; align-items: end; }
.name span { flex: 1; border-bottom: 1px solid var(--baseline); }
.name span:last-of-type { flex: 2; }
.name.name .illustration { width: 9rem; margin-top: -2rem; }
.worksheet table { width: 100%; }
.worksheet td { border: 1px solid var(--baseline); padding: .4rem .5rem; }
.worksheet td + td { width: 35%; }
.strip { display: flex; border-bottom: 2px solid black; height: 2.6rem;
  margin: .2rem 1.4rem 1.6rem 0; counter-reset: percent -10; }
.strip i { flex: 1; border-left: 1px solid var(--baseline); position: relative;
  counter-increment: percent 10; }
.strip i:last-child { border-right: 1px solid var(--baseline); }
.strip i::after, .strip i:last-child::before { content: counter(percent); position: absolute;
  top: 110%; left: 0; translate: -50%; font: .8em var(--font); white-space: nowrap; }
.strip i:last-child::before { content: "100 %"; left: 100%; }
@media print { body { font-size: 10pt; margin: 0; padding: 0; max-width: none; }
  h1 { display: none; } section { margin: 0; } section ~ section { break-before: page; }
  .worksheet ol:not(:last-child) { columns: 2; column-gap: 8mm; }
  .plan { page: wide; font-size: 9pt; line-height: 1.15; }
  .plan td { padding: .1rem .8rem .1rem 0; } }
"""
# A sheet is printed in grey: shape and fill still tell.
_GREY = """:root { --noise: silver; --noise-edge: dimgray; --noise-text: black; --risk: dimgray;
  --act: dimgray; --usefulness: darkgray; }"""
_LINE = '<div class="line"></div>'

# --- plans of a class ----------------------------------------------------------------------------


def list_tasks(plan: LessonPlan) -> dict[str, tuple[str, ...]]:
    """Return the names of boxes and questions by their heading; the exit question comes last."""
    *names, exit_question = (step.sheet for step in plan.steps if step.sheet)
    return {"": tuple(names), LABELS["home"]: plan.home, LABELS["exit"]: (exit_question,)}


def render_class(minutes: str) -> str:
    """Render all that a class needs on paper: plan, worksheet and key of each of its plans."""
    sections = []
    for plan in (PLANS[name] for name in CLASSES[minutes]):
        for kind, render in (
            ("plan", _render_plan),
            ("worksheet", _render_worksheet),
            ("key", _render_key),
        ):
            heading = text.render_heading(LABELS[kind].format(title=plan.title))
            sections.append(f'<section class="{kind}">{heading}{render(plan)}</section>')
    return text.render_page(LABELS["title"].format(minutes=minutes), sections, _STYLE)


def render_lesson(lesson: Lesson) -> str:
    """Render a lesson on paper: its picture, its questions, and the sentence to take home."""
    questions = [
        _render_task(f"{lesson.id}/{slide.key}", {}) for slide in lesson.slides if slide.predict
    ]
    own_words = text.render_paragraphs(LABELS["own_words"], lesson.take_home) + _LINE * 3
    items = _render_items({"": questions, LABELS["exit"]: [own_words]}, str)
    heading = text.render_heading(lesson.title) + _render_picture(lesson.id)
    return text.render_page(lesson.title, (heading, items), _STYLE)


def _render_picture(name: str) -> str:
    """Render an illustration with its style, in the greys of a sheet."""
    return f"<style>{pictures.STYLE_SHEET}{_GREY}</style>{pictures.render_illustration(name)}"


def _render_plan(plan: LessonPlan) -> str:
    """Render goals and needs, and what is shown, asked and said, minute by minute."""
    rows = [
        (f"{step.start}-{step.start + step.minutes}", step.screen, step.ask, step.say, step.expect)
        for step in schedule_steps(plan)
    ]
    columns = dict(zip(LABELS["columns"], zip(*rows, strict=True), strict=True))
    lists = {LABELS["goals"]: plan.goals, LABELS["needs"]: plan.needs}
    return _render_items(lists, escape) + text.render_table(columns)


def _render_worksheet(plan: LessonPlan) -> str:
    """Render the boxes and questions of a plan with space for answers."""
    address = os.environ.get("DPMC_CLASS_URL", "")
    fields = "".join(
        f"<span>{escape(label.format(address=address))}</span>" for label in LABELS["fields"]
    )
    head = f'<div class="name">{fields}{_render_picture(plan.picture)}</div>'
    return head + _render_items(list_tasks(plan), partial(_render_task, given=plan.given))


def _render_key(plan: LessonPlan) -> str:
    """Render the answers to a plan's worksheet."""
    items = _render_items(list_tasks(plan), partial(_render_answer, given=plan.given))
    return text.render_paragraphs(LABELS["throws"]) + items


def _render_items(lists: Mapping[str, Iterable[str]], render: Callable[[str], str]) -> str:
    """Render lists under their headings, numbered through; an empty list has no heading."""
    page, number = "", 1
    for heading, names in lists.items():
        items = [f"<li>{render(name)}</li>" for name in names]
        if items:
            page += f'<h3>{escape(heading)}</h3><ol start="{number}">{"".join(items)}</ol>'
        number += len(items)
    return page


def _render_task(name: str, given: Table) -> str:
    """Render a box with rows to fill in, or a question with its options and room for a reason.

    Args:
        name: such as 'class/tally' or 'coin/throw'.
        given: numbers of the plan.
    """
    if box := BOXES.get(name):
        values = LessonValues(given)
        rows = "".join(
            f"<tr><td>{escape(fill_text(row, values))}</td><td></td></tr>" for row in box["rows"]
        )
        strip = f'<div class="strip">{"<i></i>" * 10}</div>' * box.get("strip", False)
        said = text.render_paragraphs(fill_text(box["said"], values))
        return f"<b>{escape(box['title'])}</b>{said}<table>{rows}</table>{strip}"
    slide = get_slide(name)[1]
    question: Any = slide.predict
    options = "".join(f"<li>{escape(option)}</li>" for option in question.options)
    return (
        f"{text.render_paragraphs(slide.said)}<p><b>{escape(question.question)}</b></p>"
        f'<ul>{options}</ul><div class="line">{escape(LABELS["reason"])}</div>{_LINE}'
    )


def _render_answer(name: str, given: Table) -> str:
    """Render the answer to a box, or a question with its right option and what the slide reveals.

    Args:
        name: of the box or the question.
        given: numbers of the plan.
    """
    if box := BOXES.get(name):
        sentence = fill_text(box["answer"], LessonValues(given))
        return f"<p>{escape(box['title'])}</p>{text.render_paragraphs(sentence)}"
    slide = get_slide(name)[1]
    question: Any = slide.predict
    right = LABELS["open"] if question.right is None else question.options[question.right]
    answer = f"<p>{escape(question.question)} <b>{escape(right)}</b></p>"
    return answer + text.render_paragraphs(*slide.reveal(slide.start_values).sentences)


# --- to click on ---------------------------------------------------------------------------------

_FOLDER = resources.files(__package__)
# How keys turn the steps, on the page Learn, too.
TURNS = (_FOLDER / "turns.js").read_text("utf-8")
N_THROWS = 5  # simulations of every button, since the page cannot compute others
_HTML_BOUNDARIES = re.compile(r"(?<=>)(?=<(?:div|i class=.yes))")


@cache
def render_lessons_page() -> str:
    """Render all lessons as one page that needs no server.

    It has everything that the controls of the same slides can reveal. Each text, and each piece of
    a picture, is stored once.
    """
    index_by_text: dict[Any, int] = {}

    def store_once(element: Any) -> int:
        """Return the index under which a text is stored, storing it if it is new."""
        return index_by_text.setdefault(element, len(index_by_text))

    def encode_slide(slide: Slide) -> dict[str, Any]:
        """Return a slide, its controls and all that they can reveal, as plain JSON values."""
        stops = [
            [*(control.values or control.options or range(N_THROWS))] for control in slide.move
        ]
        move = [
            {
                "label": control.label,
                "kind": "range" if control.values else "radio" if control.options else "button",
                "names": list(map(control.format_value, control_stops)),
                "ends": control.ends,
                "start": control_stops.index(control.start),
            }
            for control, control_stops in zip(slide.move, stops, strict=True)
        ]
        rows = []
        for stop in product(*stops):
            reveal = slide.reveal(dict(zip(slide.start_values, stop, strict=True)))
            drawing = pictures.render_picture(reveal.picture) if reveal.picture else ""
            pieces = tuple(map(store_once, _HTML_BOUNDARIES.split(drawing)))
            rows.append(map(store_once, (pieces, reveal.note, *reveal.sentences)))
        fields = {name: getattr(slide, name) for name in ("key", "title", "said", "teacher")}
        # The picture, the note and each sentence, at all combinations of the controls' stops.
        shown = [[*texts[:1]] if len({*texts}) == 1 else texts for texts in zip(*rows, strict=True)]
        return {
            **fields,
            "asked": slide.predict and asdict(slide.predict),
            "move": move,
            "shown": shown,
        }

    lessons = [
        {name: getattr(lesson, name) for name in ("id", "number", "title", "minutes", "take_home")}
        | {"slides": list(map(encode_slide, lesson.slides))}
        for lesson in LESSONS.values()
    ]
    definitions = {term.name: term.words for term in glossary.search_terms()}
    content = {"lessons": lessons, "words": definitions, "held": list(index_by_text)}
    page = (_FOLDER / "lessons.html").read_text("utf-8").replace("/* turns */", TURNS)
    for name, label in PAGE_LABELS.items():
        page = page.replace(f"[[{name}]]", label)
    content_json = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    page = page.replace("/* colours */", text.CSS_PROPERTIES)
    page = page.replace("/* pictures */", pictures.STYLE_SHEET)
    return page.replace("{content}", content_json.replace("</", "<\\/"))


# --- the files -----------------------------------------------------------------------------------


SHEETS: Mapping[str, tuple[str, Callable[[], str]]] = {  # the title and the HTML of each file
    f"class-{minutes}.html": (
        LABELS["button"].format(minutes=minutes),
        partial(render_class, minutes),
    )
    for minutes in CLASSES
}
