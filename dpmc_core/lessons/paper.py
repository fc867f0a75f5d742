"""The lessons on paper: a worksheet, its answer key, and plans for one lesson hour and for two.

HTML to print, from the lessons' own texts and numbers. Nothing in them is fetched or runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from html import escape
from typing import NamedTuple

from dpmc_core.lessons import LESSONS
from dpmc_core.lessons.drawing import svg
from dpmc_core.lessons.frame import Lesson, Slide, listed
from dpmc_core.views import document

HOURS = (45, 90)  # minutes of a plan
PACE = 1.75  # of a class: as long as somebody alone, so many times
_BEGIN = _END = 5  # minutes around the lessons
_STYLE = """
@page { size: A4; margin: 15mm; }
body { max-width: 44rem; background: #fff; color: #000; line-height: 1.35;
  font-family: "Source Sans 3", "Source Sans Pro", Arial, "Liberation Sans", sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .6rem; } h2 { font-size: 1.3rem; margin: 1.6rem 0 .3rem; }
h3 { font-size: 1.05rem; margin: .8rem 0 .2rem; } p { margin: .25rem 0; }
section, tr { break-inside: avoid; }
td { vertical-align: top; font-size: .92em; } th:nth-child(2), th:nth-child(4) { width: 20%; }
th:first-child, td:first-child { white-space: nowrap; padding-left: 0; }
ul.options { list-style: none; margin: .3rem 0; padding: 0; }
ul.options li { display: inline-block; margin-right: 2rem; }
ul.options li::before { content: ""; display: inline-block; width: .8em; height: .8em;
  border: 1.5px solid #000; margin-right: .5em; }
.lines div { border-bottom: 1px solid #999; height: 1.65rem; }
.name { display: flex; gap: 2rem; margin-bottom: .8rem; }
.name span { flex: 1; border-bottom: 1px solid #999; }
.picture { max-width: 28rem; margin: .6rem 0; font-size: .85rem; }
.teacher { border-left: 3px solid #999; padding-left: .7rem; }
@media print { body { font-size: 10.5pt; margin: 0; padding: 0; max-width: none; }
  h2.lesson ~ h2.lesson { break-before: page; margin-top: 0; } }
"""


class Turn(NamedTuple):
    """A row of a plan, in minutes from its start. teacher, all: what the teacher does, and the
    class."""

    start: int
    end: int
    step: str
    teacher: str
    all: str


# --- what the class gets -------------------------------------------------------------------------


def worksheet() -> str:
    """Every question with room to write, and no answer."""
    parts = ['<div class="name"><span>Name</span><span>Date</span></div>']
    for number, lesson in enumerate(LESSONS.values(), 1):
        parts.append(_head(number, lesson))
        parts += [_asked(slide) for slide in lesson.slides]
        parts.append(f"<section><h3>To take home, in my own words</h3>{_lines(2)}</section>")
    return document.page("Differential privacy: worksheet", parts, _STYLE)


def _head(number: int, lesson: Lesson) -> str:
    return f'<h2 class="lesson">{number}. {escape(lesson.title)}</h2>'


def _asked(slide: Slide) -> str:
    parts = [f"<h3>{escape(slide.title)}</h3>", document.paragraphs(slide.said)]
    if slide.predict is not None:
        options = "".join(f"<li>{escape(option)}</li>" for option in slide.predict.options)
        parts.append(f"<p><b>{escape(slide.predict.question)}</b></p>")
        parts.append(f'<ul class="options">{options}</ul>')
    parts.append(f"<p>{escape(_try(slide))}</p>{_lines(2)}")
    return f"<section>{''.join(parts)}</section>"


def _try(slide: Slide) -> str:
    asked = "What do you see?" if slide.predict else "Write yours:"
    moved = [f"“{control.label}”" for control in slide.move]
    return f"Then try {listed(moved)}. {asked}" if moved else asked


def _lines(many: int) -> str:
    return f'<div class="lines">{"<div></div>" * many}</div>'


# --- what the teacher gets -----------------------------------------------------------------------


def answers() -> str:
    """The right options, what is revealed before anything is moved, and the teacher's lines."""
    parts = [document.paragraphs("Numbers are those before anything has been moved.")]
    for number, lesson in enumerate(LESSONS.values(), 1):
        parts.append(_head(number, lesson))
        *slides, last = [_answered(slide) for slide in lesson.slides]
        home = f"<p><b>To take home:</b> {escape(lesson.take_home)}</p>"
        parts += [*slides, f"<section>{last}{home}</section>"]
    return document.page("Differential privacy: answer key", parts, _STYLE)


def _answered(slide: Slide) -> str:
    parts = [f"<h3>{escape(slide.title)}</h3>"]
    if slide.predict is not None:
        asked = slide.predict
        right = (
            "there is no right answer; a reason counts."
            if asked.right is None
            else asked.options[asked.right]
        )
        parts.append(f"<p>{escape(asked.question)} <b>{escape(right)}</b></p>")
    found = slide.reveal(slide.start)
    parts.append(document.paragraphs(*found.says))
    if found.picture is not None:
        parts.append(f'<div class="picture">{svg(found.picture)}</div>')
    if found.note:
        parts.append(f"<p><small>{escape(found.note)}</small></p>")
    parts.append(f'<p class="teacher">{escape(slide.teacher)}</p>')
    return f"<section>{''.join(parts)}</section>"


def plan(minutes: int) -> str:
    """What the teacher and the class do, minute by minute."""
    lessons = fitting(minutes)
    turns = list(schedule(minutes))
    left = [lesson for id, lesson in LESSONS.items() if id not in lessons]
    before = [
        "Before: start the server with make class, print a worksheet for everybody and the answer"
        " key for yourself, and open the page Learn with Projector on. Try one phone in the network"
        " of the room. If it does not arrive, let the class throw real coins and count hands: the"
        " page Class says how.",
        "Ask nothing that you would not ask by show of hands.",
    ]
    if left:
        alone = ", ".join(f"{lesson.title} ({lesson.minutes} minutes)" for lesson in left)
        before.append(f"Left for home, alone on the page Learn: {alone}.")
    table = document.table(
        {
            "Minute": [f"{turn.start}-{turn.end}" for turn in turns],
            "Step": [turn.step for turn in turns],
            "Teacher": [turn.teacher for turn in turns],
            "Class": [turn.all for turn in turns],
        }
    )
    title = f"Differential privacy in {minutes} minutes: lessons 1 to {len(lessons)}"
    return document.page(title, [document.paragraphs(*before), table], _STYLE)


def fitting(minutes: int) -> dict[str, Lesson]:
    """The first lessons that a class gets through; each needs those before it."""
    found: dict[str, Lesson] = {}
    room = (minutes - _BEGIN - _END) / PACE
    for id, lesson in LESSONS.items():
        room -= lesson.minutes
        if room < 0:
            break
        found[id] = lesson
    return found


def schedule(minutes: int) -> Iterator[Turn]:
    """A plan row by row; the last one ends after so many minutes."""
    lessons = fitting(minutes)
    yield Turn(
        0,
        _BEGIN,
        "Begin",
        "Opens a room on the page Class and shows its code. Says: your answers are changed before"
        " they leave your phone; today you see what that is worth.",
        "Scans the code, answers the first question, gets the worksheet.",
    )
    slides = [(lesson, slide) for lesson in lessons.values() for slide in lesson.slides]
    weights = [lesson.minutes / len(lesson.slides) for lesson, _ in slides]
    numbers = {id: number for number, id in enumerate(LESSONS, 1)}
    start, done, there = _BEGIN, 0.0, minutes - _BEGIN - _END
    for (lesson, slide), weight in zip(slides, weights, strict=True):
        done += weight
        end = _BEGIN + round(there * done / sum(weights))
        teacher, everybody = _asks(slide)
        if slide is lesson.slides[-1]:
            teacher += f" Reads aloud: {lesson.take_home}"
            everybody += " Writes down the sentence to take home."
        yield Turn(start, end, f"{numbers[lesson.id]}. {slide.title}", teacher, everybody)
        start = end
    yield Turn(
        start,
        minutes,
        "End",
        "Asks three people for their sentence, and what they would still not answer. Ends the room:"
        " its reports are gone.",
        "Says what was new, and keeps the worksheet.",
    )


def _asks(slide: Slide) -> tuple[str, str]:
    """What the teacher and the class do at a slide."""
    if slide.predict is None:
        return f"{slide.said} {slide.teacher}", "Chooses, and writes it down."
    own = "looks at its own reports, " if slide.in_class is not None else ""
    options = " / ".join(slide.predict.options)
    return (
        f"Asks: {slide.predict.question} ({options}). {slide.teacher}",
        f"Predicts by show of hands, {own}moves, writes.",
    )


# --- the files -----------------------------------------------------------------------------------


class Sheet(NamedTuple):
    """A file to print. title: on a button."""

    title: str
    make: Callable[[], str]


SHEETS: Mapping[str, Sheet] = {
    "worksheet.html": Sheet("Worksheet", worksheet),
    "answer-key.html": Sheet("Answer key", answers),
    **{
        f"plan-{minutes}.html": Sheet(f"Plan, {minutes} minutes", partial(plan, minutes))
        for minutes in HOURS
    },
}
