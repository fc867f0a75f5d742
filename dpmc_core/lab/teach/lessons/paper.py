"""The lessons on paper: a worksheet, its answer key, and plans for one lesson hour and for two.

HTML to print, from the lessons' own texts and numbers. Nothing in them is fetched or runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from html import escape
from typing import Any, NamedTuple

from dpmc_core.lab.teach.lessons import LESSONS
from dpmc_core.lab.teach.lessons.drawing import svg
from dpmc_core.lab.teach.lessons.frame import Lesson, Pick, Slide, Stops, listed
from dpmc_core.lab.views import text

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
    return text.page("Differential privacy: worksheet", parts, _STYLE)


def _head(number: int, lesson: Lesson) -> str:
    return f'<h2 class="lesson">{number}. {escape(lesson.title)}</h2>'


def _asked(slide: Slide) -> str:
    parts = [f"<h3>{escape(slide.title)}</h3>", text.paragraphs(slide.said)]
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
    """The right options, what is revealed before anything is moved and what at other settings, and
    the teacher's lines."""
    parts = [
        text.paragraphs(
            "Text and pictures are those before anything has been moved; the tables say what comes"
            " out where one control is moved and the others stay. Where a button throws, every"
            " visitor sees another throw than the one printed here."
        )
    ]
    for number, lesson in enumerate(LESSONS.values(), 1):
        parts.append(_head(number, lesson))
        *slides, last = [_answered(slide) for slide in lesson.slides]
        home = f"<p><b>To take home:</b> {escape(lesson.take_home)}</p>"
        parts += [*slides, f"<section>{last}{home}</section>"]
    return text.page("Differential privacy: answer key", parts, _STYLE)


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
    parts.append(text.paragraphs(*found.says))
    if found.picture is not None:
        parts.append(f'<div class="picture">{svg(found.picture)}</div>')
    if found.note:
        parts.append(f"<p><small>{escape(found.note)}</small></p>")
    parts.append(f'<p class="teacher">{escape(slide.teacher)}</p>')
    elsewhere = list(others(slide))
    if elsewhere:
        columns = zip(*elsewhere, strict=True)
        named = ("Moved", "To", "What one sees")
        parts.append(text.table(dict(zip(named, map(list, columns), strict=True))))
    return f"<section>{''.join(parts)}</section>"


def others(slide: Slide) -> Iterator[tuple[str, str, str]]:
    """What one sees where one control is moved: its label, where to, and the first sentence that is
    another than before."""
    before = slide.reveal(slide.start).says
    for control in slide.move:
        if isinstance(control, Stops):
            values = control.values
            ends = dict.fromkeys((values[0], values[len(values) // 2], values[-1]))
            to: dict[Any, str] = {value: control.form(value) for value in ends}
        elif isinstance(control, Pick):
            to = dict(control.options)
        else:
            continue
        for value, name in to.items():
            if value != control.start:
                says = slide.reveal(slide.start | {control.key: value}).says
                yield control.label, name, next((one for one in says if one not in before), says[0])


class PlanPart(NamedTuple):
    """A part of a plan: something done on the page Class in so many minutes, or a lesson.

    keys: of its slides; all of them where none is named.
    """

    step: str = ""
    lesson: str = ""
    keys: tuple[str, ...] = ()
    minutes: int = 0
    teacher: str = ""
    all: str = ""

    @property
    def slides(self) -> list[Slide]:
        if not self.lesson:
            return []
        lesson = LESSONS[self.lesson]
        return [one for one in lesson.slides if not self.keys or one.key in self.keys]

    @property
    def alone(self) -> float:
        """Minutes that the slides take somebody alone."""
        lesson = LESSONS.get(self.lesson)
        return lesson.minutes * len(self.slides) / len(lesson.slides) if lesson else 0.0


_BEGIN = PlanPart(
    "Begin",
    minutes=5,
    teacher="Opens a room on the page Class, shows its code and asks the first question; results"
    " stay hidden. Says: your answer is changed before it leaves your phone; today you see what"
    " that is worth.",
    all="Scans the code, answers, gets the worksheet.",
)
_LOCK = PlanPart(
    "Lock",
    minutes=4,
    teacher="On the page Class: waits until most phones have answered, then presses Lock (L), and"
    " the results appear. Asks first: how many of us do you expect?",
    all="Guesses, then compares the reports as sent with the estimate and its interval.",
)
_AGAIN = PlanPart(
    "Ask again",
    minutes=4,
    teacher="On the page Class: presses Ask again (A), waits until most have answered a second"
    " time, presses Lock (L). Shows what both gained: the class its shorter interval; the attacker"
    " who began at even nothing, and more with the slider on a suspicion.",
    all="Answers again, reads on the phone what has been spent, and says who gains by it.",
)
_END = PlanPart(
    "End",
    minutes=5,
    teacher="Asks three people for their sentence, and what they would still not answer. Ends the"
    " room: its reports are gone.",
    all="Says what was new, and keeps the worksheet.",
)
_PLANS: Mapping[int, tuple[PlanPart, ...]] = {
    45: (
        _BEGIN,
        PlanPart(lesson="coin", keys=("throw", "deny", "evidence")),
        _LOCK,
        PlanPart(lesson="crowd", keys=("count", "undo")),
        PlanPart(lesson="attacker", keys=("even", "suspicion")),
        _AGAIN,
        PlanPart(lesson="again", keys=("add",)),
        _END,
    ),
    90: (
        _BEGIN,
        PlanPart(lesson="coin"),
        _LOCK,
        PlanPart(lesson="crowd"),
        PlanPart(lesson="attacker"),
        _AGAIN,
        *(PlanPart(lesson=id) for id in ("again", "claim", "choose")),
        _END,
    ),
}
HOURS = tuple(_PLANS)


def plan(minutes: int) -> str:
    """What the teacher and the class do, minute by minute."""
    turns = list(schedule(minutes))
    shown = [slide for part in _PLANS[minutes] for slide in part.slides]
    alone = []
    for lesson in LESSONS.values():
        left = [slide for slide in lesson.slides if slide not in shown]
        if left:
            some = "" if len(left) == len(lesson.slides) else f": {listed(s.title for s in left)}"
            alone.append(f"{lesson.title}{some}")
    before = [
        "Before: start the server with make class, print a worksheet for everybody and the answer"
        " key for yourself, and open the page Learn with Projector on. Try one phone in the network"
        " of the room. If it does not arrive, let the class throw a real coin and count hands: the"
        " page Class says how.",
        "Ask nothing that you would not ask by show of hands.",
    ]
    if alone:
        before.append(f"Left for home, alone on the page Learn: {'; '.join(alone)}.")
    table = text.table(
        {
            "Minute": [f"{turn.start}-{turn.end}" for turn in turns],
            "Step": [turn.step for turn in turns],
            "Teacher": [turn.teacher for turn in turns],
            "Class": [turn.all for turn in turns],
        }
    )
    title = f"Differential privacy in {minutes} minutes"
    return text.page(title, [text.paragraphs(*before), table], _STYLE)


def schedule(minutes: int) -> Iterator[Turn]:
    """A plan row by row, the last one ending after so many minutes; what is done on the page Class
    takes its time, and slides share the rest by how long their lessons are. Raises KeyError."""
    parts = _PLANS[minutes]
    spent = sum(part.minutes for part in parts)
    pace = (minutes - spent) / sum(part.alone for part in parts)
    end, done = 0, 0.0
    for k, part in enumerate(parts):
        start, done = end, done + part.minutes + pace * part.alone
        end = round(done)
        yield Turn(start, end, *_done(part, _LOCK in parts[:k]))


def _done(part: PlanPart, locked: bool) -> tuple[str, str, str]:
    """What a part is called, and what the teacher and the class do in it; locked: whether the
    class's own reports are to be seen."""
    if not part.lesson:
        return part.step, part.teacher, part.all
    lesson, slides = LESSONS[part.lesson], part.slides
    asks = [
        f"{slide.title}: “{slide.predict.question}”" if slide.predict else slide.title
        for slide in slides
    ]
    seen = locked and any(slide.in_class for slide in slides)
    own = "looks at its own reports, " if seen else ""
    return (
        f"{list(LESSONS).index(part.lesson) + 1}. {lesson.title}",
        f"On the page Learn. {'; '.join(asks)}. Reads aloud: {lesson.take_home}",
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
