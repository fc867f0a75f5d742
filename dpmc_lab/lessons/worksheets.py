"""Render the lessons without the app: files to print, and an interactive page.

All of it is HTML from the lessons' own texts and numbers, and loads nothing. Printed files have no
scripts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from html import escape
from importlib import resources
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.facts import build_from_table, load_toml
from dpmc_lab import glossary
from dpmc_lab.classroom import pictures
from dpmc_lab.classroom.numbers import join_names
from dpmc_lab.curves import text
from dpmc_lab.lessons import LESSONS, Lesson, Slide

_STYLE = """
@page { size: A4; margin: 15mm; }
body { max-width: 44rem; background: #fff; color: #000; line-height: 1.35;
  font-family: "Source Sans 3", "Source Sans Pro", Arial, "Liberation Sans", sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .6rem; } h2 { font-size: 1.3rem; margin: 1.6rem 0 .3rem; }
h3 { font-size: 1.05rem; margin: .8rem 0 .2rem; } p { margin: .25rem 0; }
section, tr { break-inside: avoid; }
td { vertical-align: top; font-size: .92em; } th:nth-child(2), th:nth-child(4) { width: 20%; }
section table { margin-top: .4rem; } section th { font-size: .92em; }
th:first-child, td:first-child { white-space: nowrap; padding-left: 0; }
ul.options { list-style: none; margin: .3rem 0; padding: 0; }
ul.options li { display: inline-block; margin-right: 2rem; }
ul.options li::before { content: ""; display: inline-block; width: .8em; height: .8em;
  border: 1.5px solid #000; margin-right: .5em; }
.lines div { border-bottom: 1px solid #999; height: 1.65rem; }
.name { display: flex; gap: 2rem; margin-bottom: .8rem; }
.name span { flex: 1; border-bottom: 1px solid #999; }
.picture { max-width: 28rem; margin: .6rem 0; font-size: .85rem; --ink: #1c1e21; --muted: #6b7076;
  --grid: #d8d8d2; --paper: #fff; --one: #0072b2; --other: #d55e00; }
.teacher { border-left: 3px solid #999; padding-left: .7rem; }
@media print { body { font-size: 10.5pt; margin: 0; padding: 0; max-width: none; }
  h2.lesson ~ h2.lesson { break-before: page; margin-top: 0; } }
"""

# --- what the class gets -------------------------------------------------------------------------


def render_worksheet() -> str:
    """Render every question with space to write, and no answer."""
    sections = ['<div class="name"><span>Name</span><span>Date</span></div>']
    for lesson in LESSONS.values():
        sections += [_render_lesson_heading(lesson), *map(_render_question, lesson.slides)]
        sections.append(f"<section><h3>To take home, in my own words</h3>{_LINES}</section>")
    return text.render_page("Differential privacy: worksheet", sections, _STYLE)


_LINES = '<div class="lines"><div></div><div></div></div>'


def _render_lesson_heading(lesson: Lesson) -> str:
    """Render the number and title of a lesson as HTML."""
    return f'<h2 class="lesson">{lesson.number}. {escape(lesson.title)}</h2>'


def _render_question(slide: Slide) -> str:
    """Render a slide's text and question as HTML, with lines for an answer."""
    blocks = [f"<h3>{escape(slide.title)}</h3>", text.render_paragraphs(slide.said)]
    if slide.predict is not None:
        options = "".join(f"<li>{escape(option)}</li>" for option in slide.predict.options)
        blocks.append(f"<p><b>{escape(slide.predict.question)}</b></p>")
        blocks.append(f'<ul class="options">{options}</ul>')
    control_names = join_names([f"“{control.label}”" for control in slide.move])
    prompt = "What do you see?" if slide.predict else "Write yours:"
    blocks.append(f"<p>{escape(f'Then try {control_names}. {prompt}')}</p>{_LINES}")
    return f"<section>{''.join(blocks)}</section>"


# --- what the teacher gets -----------------------------------------------------------------------


def render_answer_key() -> str:
    """Render the right options, what slides reveal at first, and the teacher's lines."""
    blocks = [
        text.render_paragraphs(
            "Texts and pictures show each step before anything is changed. A button that throws a"
            " coin gives every visitor another throw than the one printed here."
        )
    ]
    for lesson in LESSONS.values():
        *slides, last = map(_render_answer, lesson.slides)
        take_home = f"<p><b>To take home:</b> {escape(lesson.take_home)}</p>"
        sections = [
            f"<section>{section_html}</section>" for section_html in (*slides, last + take_home)
        ]
        blocks += [_render_lesson_heading(lesson), *sections]
    return text.render_page(
        "Differential privacy: answer key", blocks, _STYLE + pictures.STYLE_SHEET
    )


def _render_answer(slide: Slide) -> str:
    """Render a slide's question with the right option, and what it reveals at first, as HTML."""
    blocks = [f"<h3>{escape(slide.title)}</h3>"]
    question = slide.predict
    if question is not None:
        right = "There is no right answer, but give a reason."
        right = right if question.right is None else question.options[question.right]
        blocks.append(f"<p>{escape(question.question)} <b>{escape(right)}</b></p>")
    reveal = slide.reveal(slide.start)
    blocks.append(text.render_paragraphs(*reveal.sentences))
    if reveal.picture is not None:
        blocks.append(f'<div class="picture">{pictures.render_picture(reveal.picture)}</div>')
    if reveal.note:
        blocks.append(f"<p><small>{escape(reveal.note)}</small></p>")
    blocks.append(f'<p class="teacher">{escape(slide.teacher)}</p>')
    return "".join(blocks)


@dataclass(frozen=True)
class PlanPart:
    """A part of a plan: an activity on the page Class, or a lesson.

    Attributes:
        step: name of an activity.
        lesson: id of a lesson.
        keys: keys of its slides (default: all).
        minutes: duration of an activity.
        teacher: what the teacher does.
        all: what the class does.
    """

    step: str = ""
    lesson: str = ""
    keys: tuple[str, ...] = ()
    minutes: int = 0
    teacher: str = ""
    all: str = ""

    @property
    def slides(self) -> list[Slide]:
        """Return the slides of the part."""
        slides = LESSONS[self.lesson].slides if self.lesson else ()
        return [slide for slide in slides if not self.keys or slide.key in self.keys]

    @property
    def solo_minutes(self) -> float:
        """Return how many minutes the slides take a person alone."""
        lesson = LESSONS.get(self.lesson)
        return lesson.minutes * len(self.slides) / len(lesson.slides) if lesson else 0.0


def _load_plans() -> dict[int, tuple[PlanPart, ...]]:
    """Return the parts of each plan by its number of minutes."""
    named_parts = load_toml("dpmc_lab.classroom", "plans.toml")
    plans = named_parts.pop("plans")
    return {
        int(minutes): tuple(
            build_from_table(
                PlanPart,
                named_parts[part_table] if isinstance(part_table, str) else part_table,
                f"plan {minutes}",
            )
            for part_table in part_tables
        )
        for minutes, part_tables in plans.items()
    }


_PLANS = _load_plans()
HOURS = tuple(_PLANS)


def render_plan(minutes: int) -> str:
    """Render what the teacher and the class do, minute by minute."""
    plan_slides = [slide for plan_part in _PLANS[minutes] for slide in plan_part.slides]
    left_lessons = []
    for lesson in LESSONS.values():
        left_titles = [slide.title for slide in lesson.slides if slide not in plan_slides]
        if left_titles:
            detail = (
                "" if len(left_titles) == len(lesson.slides) else f": {join_names(left_titles)}"
            )
            left_lessons.append(f"{lesson.title}{detail}")
    instructions = [
        "Before the lesson, start the server with make class. Print a worksheet for everybody and"
        " the answer key for yourself. Open the page Learn with Projector on. Try one phone in the"
        " network of the room. If it does not arrive, let the class throw a real coin and count"
        " hands; the page Class says how.",
        "Do not ask what you would not ask by show of hands.",
    ]
    if left_lessons:
        instructions.append(f"For homework, alone on the page Learn: {'; '.join(left_lessons)}.")
    rows = [(f"{turn.start}-{turn.end}", *turn[2:]) for turn in schedule_turns(minutes)]
    columns = zip(("Minute", "Step", "Teacher", "Class"), zip(*rows, strict=True), strict=True)
    blocks = [text.render_paragraphs(*instructions), text.render_table(dict(columns))]
    return text.render_page(f"Differential privacy in {minutes} minutes", blocks, _STYLE)


class Turn(NamedTuple):
    """A row of a plan.

    Attributes:
        start, end: minutes from the start of the plan.
        step: name of the activity or the lesson.
        teacher: what the teacher does.
        all: what the class does.
    """

    start: int
    end: int
    step: str
    teacher: str
    all: str


def schedule_turns(minutes: int) -> Iterator[Turn]:
    """Yield the rows of a plan that takes this many minutes.

    Activities on the page Class take their own time; lessons share the remaining time in proportion
    to their length.

    Raises:
        KeyError: there is no such plan.
    """
    plan_parts = _PLANS[minutes]
    spent = sum(plan_part.minutes for plan_part in plan_parts)
    pace = (minutes - spent) / sum(plan_part.solo_minutes for plan_part in plan_parts)
    end, elapsed, locked = 0, 0.0, False
    for plan_part in plan_parts:
        start = end
        elapsed = elapsed + plan_part.minutes + pace * plan_part.solo_minutes
        end = round(elapsed)
        locked = locked or plan_part.step == "Lock"
        if not plan_part.lesson:
            yield Turn(start, end, plan_part.step, plan_part.teacher, plan_part.all)
            continue
        lesson = LESSONS[plan_part.lesson]
        slide_steps = [
            f"{slide.title}: “{slide.predict.question}”" if slide.predict else slide.title
            for slide in plan_part.slides
        ]
        sees_reports = locked and any(slide.in_class for slide in plan_part.slides)
        report_text = "look at your own reports, " if sees_reports else ""
        yield Turn(
            start,
            end,
            f"{lesson.number}. {lesson.title}",
            f"On the page Learn: {'; '.join(slide_steps)}. Read aloud: {lesson.take_home}",
            f"Predict by show of hands, {report_text}change something, write.",
        )


# --- to click on ---------------------------------------------------------------------------------

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
        """
        rows = []
        for stop in product(*stops):
            reveal = slide.reveal(dict(zip(slide.start, stop, strict=True)))
            drawing = pictures.render_picture(reveal.picture) if reveal.picture else ""
            piece_indices = tuple(map(store_once, _HTML_BOUNDARIES.split(drawing)))
            rows.append((piece_indices, reveal.note, *reveal.sentences))
        for positions in zip(*(map(store_once, row) for row in rows), strict=True):
            grid = np.reshape(positions, [*map(len, stops)])
            for axis in range(grid.ndim):
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
    page = resources.files(__package__).joinpath("lessons.html").read_text("utf-8")
    content_json = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
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
    "worksheet.html": Sheet("Worksheet", render_worksheet),
    "answer-key.html": Sheet("Answer key", render_answer_key),
    **{
        f"plan-{minutes}.html": Sheet(f"Plan, {minutes} minutes", partial(render_plan, minutes))
        for minutes in HOURS
    },
}
FILES = {**SHEETS, "lessons.html": Sheet("All lessons, without a server", render_lessons_page)}
