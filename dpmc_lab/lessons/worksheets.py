"""Render the lessons without the app: the plans of a class to print, and an interactive page.

All of it is HTML from the texts and numbers of the lessons and of plans.toml, and loads nothing.
Printed files have no scripts.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import cache, partial
from html import escape
from importlib import resources
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from dpmc_lab import glossary
from dpmc_lab.classroom import pictures
from dpmc_lab.lessons import (
    CLASSES,
    LABELS,
    LESSONS,
    PLANS,
    Lesson,
    LessonPlan,
    Predict,
    Slide,
    get_slide,
    schedule_steps,
)
from dpmc_lab.views import text

_STYLE = """
@page { size: A4; margin: 14mm; } @page wide { size: A4 landscape; margin: 11mm; }
body { max-width: 46rem; background: white; color: black; line-height: 1.3; }
h1 { font-size: 1.2rem; margin: 0 0 1rem; } .illustration { width: 15rem; } p { margin: .2rem 0; }
h2 { font-size: 1.3rem; margin: 0 0 .6rem; } h3 { font-size: 1.05rem; margin: 1rem 0 .3rem; }
section { margin-bottom: 3rem; } li, tr { break-inside: avoid; } ol { padding-left: 1.5rem; }
ol > li { margin-bottom: 1rem; }
td, th { vertical-align: top; padding: .2rem .8rem .2rem 0; font-size: .92em; }
td:first-child { white-space: nowrap; } td:nth-child(2) { width: 14%; }
td:nth-child(3) { width: 26%; } td:nth-child(5) { width: 22%; }
ul { list-style: none; margin: .3rem 0; padding: 0; }
ul li { display: inline-block; margin: 0 2rem .2rem 0; padding-left: 1.4em; text-indent: -1.4em; }
ul li::before { content: ""; display: inline-block; width: .75em; height: .75em;
  border: 1.5px solid black; margin-right: .6em; }
.line { border-bottom: 1px solid var(--baseline); height: 1.7rem; padding-top: .5rem;
  color: var(--note); font-size: .9em; }
.name { display: flex; gap: 2rem; margin-bottom: 1rem; }
.name span { flex: 1; border-bottom: 1px solid var(--baseline); }
@media print { body { font-size: 10.5pt; margin: 0; padding: 0; max-width: none; }
  h1 { display: none; } section { margin: 0; } section ~ section { break-before: page; }
  .plan { page: wide; font-size: 9pt; line-height: 1.15; }
  .plan td { padding: .1rem .8rem .1rem 0; } }
"""

# --- plans of a class ----------------------------------------------------------------------------


def list_questions(plan: LessonPlan) -> tuple[list[Slide], list[Slide]]:
    """Return slides with the questions for the class, the exit question last, and for home."""
    in_class, at_home = (
        [get_slide(name)[1] for name in names if name and not name.startswith("class/")]
        for names in ([step.sheet for step in plan.steps], plan.home)
    )
    return in_class, at_home


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
    questions = "".join(
        f"<li>{_render_question(slide, slide.predict)}</li>"
        for slide in lesson.slides
        if slide.predict
    )
    picture = f"<style>{pictures.STYLE_SHEET}</style>{pictures.render_illustration(lesson.id)}"
    sections = (picture, f"<ol>{questions}</ol>", text.render_paragraphs(lesson.take_home))
    return text.render_page(lesson.title, sections, _STYLE)


def _render_plan(plan: LessonPlan) -> str:
    """Render what is on the wall, what to ask and to say, and what pupils say, by minutes."""
    rows = [
        (f"{step.start}-{step.start + step.minutes}", step.screen, step.ask, step.say, step.expect)
        for step in schedule_steps(plan)
    ]
    columns = dict(zip(LABELS["columns"], zip(*rows, strict=True), strict=True))
    return text.render_paragraphs(*plan.goals, *plan.needs) + text.render_table(columns)


def _render_worksheet(plan: LessonPlan) -> str:
    """Render the questions of a plan with space for answers."""
    fields = "".join(f"<span>{escape(label)}</span>" for label in LABELS["fields"])
    return f'<div class="name">{fields}</div>' + _render_questions(plan, _render_question)


def _render_question(slide: Slide, question: Predict) -> str:
    """Render a question with its options and lines for the reason."""
    options = "".join(f"<li>{escape(option)}</li>" for option in question.options)
    return (
        f"{text.render_paragraphs(slide.said)}<p><b>{escape(question.question)}</b></p>"
        f'<ul>{options}</ul><div class="line">{escape(LABELS["reason"])}</div>'
        '<div class="line"></div>'
    )


def _render_key(plan: LessonPlan) -> str:
    """Render the answers to a plan's worksheet."""
    return text.render_paragraphs(LABELS["throws"]) + _render_questions(plan, _render_answer)


def _render_answer(slide: Slide, question: Predict) -> str:
    """Render a question with its right option and what the slide reveals."""
    right = LABELS["open"] if question.right is None else question.options[question.right]
    answer = f"<p>{escape(question.question)} <b>{escape(right)}</b></p>"
    return answer + text.render_paragraphs(*slide.reveal(slide.start_values).sentences)


def _render_questions(plan: LessonPlan, render: Callable[[Slide, Predict], str]) -> str:
    """Render a plan's questions as a numbered list, those for home under a heading."""
    lists, number = "", 1
    for heading, slides in zip(("", LABELS["home"]), list_questions(plan), strict=True):
        items = [f"<li>{render(slide, slide.predict)}</li>" for slide in slides if slide.predict]
        if items:
            lists += f'<h3>{escape(heading)}</h3><ol start="{number}">{"".join(items)}</ol>'
        number += len(items)
    return lists


# --- to click on ---------------------------------------------------------------------------------


def _read_file(name: str) -> str:
    """Read a file of this folder."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


TURNS = _read_file("turns.js")  # how keys turn the steps, also on the page Learn
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

    def encode_reveals(
        slide: Slide, stops: list[list[Any]]
    ) -> Iterator[tuple[tuple[int, ...], list[int]]]:
        """Yield the picture, the note and each sentence at all combinations of the controls' stops.

        Each is a shape and the indices of its texts in that shape. The shape has a length for each
        control, which is 1 if the control does not change it.

        Args:
            slide: the slide.
            stops: the values of each control.
        """
        rows = []
        for stop in product(*stops):
            reveal = slide.reveal(dict(zip(slide.start_values, stop, strict=True)))
            drawing = pictures.render_picture(reveal.picture) if reveal.picture else ""
            piece_indices = tuple(map(store_once, _HTML_BOUNDARIES.split(drawing)))
            rows.append((piece_indices, reveal.note, *reveal.sentences))
        for positions in zip(*(map(store_once, row) for row in rows), strict=True):
            grid = np.reshape(positions, [*map(len, stops)])
            for axis in range(grid.ndim):  # drop axes along which nothing changes
                first = grid.take([0], axis)
                grid = first if (grid == first).all() else grid
            yield grid.shape, grid.ravel().tolist()

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
        fields = {name: getattr(slide, name) for name in ("key", "title", "said", "teacher")}
        question = slide.predict and asdict(slide.predict)
        return {
            **fields,
            "asked": question,
            "move": move,
            "shown": list(encode_reveals(slide, stops)),
        }

    lessons = [
        {name: getattr(lesson, name) for name in ("id", "number", "title", "minutes", "take_home")}
        | {"slides": list(map(encode_slide, lesson.slides))}
        for lesson in LESSONS.values()
    ]
    definitions = {term.name: term.words for term in glossary.search_terms()}
    content = {"lessons": lessons, "words": definitions, "held": list(index_by_text)}
    page = _read_file("lessons.html").replace("/* turns */", TURNS)
    content_json = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    page = page.replace("/* colours */", text.CSS_PROPERTIES)
    page = page.replace("/* pictures */", pictures.STYLE_SHEET)
    return page.replace("{content}", content_json.replace("</", "<\\/"))


# --- the files -----------------------------------------------------------------------------------


class Sheet(NamedTuple):
    """A file to write.

    Attributes:
        title: text of its button.
        render: returns its HTML.
    """

    title: str
    render: Callable[[], str]


SHEETS: Mapping[str, Sheet] = {
    f"class-{minutes}.html": Sheet(
        LABELS["button"].format(minutes=minutes), partial(render_class, minutes)
    )
    for minutes in CLASSES
}
FILES = {**SHEETS, "lessons.html": Sheet(LABELS["lessons"], render_lessons_page)}
