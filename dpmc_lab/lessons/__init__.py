"""Teach epsilon in lessons: predict, move, observe, and one sentence to take home.

A lesson is one TOML file in dpmc_lab/texts, with its texts, its slides, and the numbers that its
pictures show. A number is computed when a text or picture refers to its name in numbers.py. A page
and a worksheet use the same slides, so text and chart cannot disagree.

In a text, {name} is a number or the value of a control (at its start where nothing was moved), or
an attribute, as in {poll.reports}. {name:FORM} formats it by one of FORMS or by Python's own;
{name:none|one|more} selects a text by the number. {phrase} is a text of [phrases], or one of
several selected by the value that `by` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import resources
from inspect import signature
from string import Formatter
from types import MappingProxyType
from typing import Any, NamedTuple

from dpmc_data.facts import build_from_table
from dpmc_lab.classroom import EPSILON, LANGUAGE, load_texts
from dpmc_lab.classroom.numbers import NUMBERS, summarise_reports
from dpmc_lab.classroom.pictures import (
    CellGrid,
    CurvePlot,
    IntervalPlot,
    OutcomeBars,
    PeopleDots,
    Picture,
    format_percent,
)
from dpmc_lab.classroom.room import View
from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views.cards import (
    format_at_most,
    format_epsilon,
    format_limit_percent,
    format_share_percent,
)

ControlValues = Mapping[str, Any]
Table = Mapping[str, Any]


def format_odds(share: float) -> str:
    """Return the odds for and against, with the smaller as one."""
    ratio = share / (1 - share)
    return f"{ratio:,.3g} : 1" if ratio >= 1 else f"1 : {1 / ratio:,.3g}"


FORMS: Mapping[str, Callable[[float], str]] = {
    "hundred": format_share_percent,
    "%": format_percent,
    ".1%": lambda share: f"{100 * share:.1f} %",
    "points": lambda share: f"{100 * share:.0f}",
    "odds": format_odds,
    "times": lambda ratio: f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2g}",
    "epsilon": format_epsilon,
    "least": lambda epsilon: format_epsilon(epsilon, round_down=True),
    "limit": format_limit_percent,
    "most": format_at_most,
}


class _TextFormatter(Formatter):
    """Formatter with the rules for texts of lessons, see the module."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format a value by one of FORMS, or select one of several texts by it."""
        if "|" in format_spec:
            texts = format_spec.split("|")
            return texts[min(int(value), len(texts) - 1)]
        form = FORMS.get(format_spec)
        return form(value) if form else str(super().format_field(value, format_spec))


_FORMATTER = _TextFormatter()


def fill_text(text: str, current_values: Table) -> str:
    """Return a text with the values that it names filled in."""
    return _FORMATTER.vformat(text, (), current_values)


def _resolve_value(value: Any, current_values: Table) -> Any:
    """Return a value as it is, or look it up if it is a name, such as 'poll.reports'.

    A list holds several values. The keys of a table are texts, into which values are filled.
    """
    match value:
        case str():
            return _FORMATTER.get_field(value, (), current_values)[0]
        case list() | tuple():
            return tuple(_resolve_value(entry, current_values) for entry in value)
        case dict():
            return {
                fill_text(key, current_values): _resolve_value(entry, current_values)
                for key, entry in value.items()
            }
    return value


# The names of the numbers and controls that each number is computed from.
PARAMETERS = {name: (*signature(number).parameters,) for name, number in NUMBERS.items()}


class LessonValues(dict[str, Any]):
    """Values that a text may name: controls, phrases, and numbers that are computed on demand."""

    def __init__(
        self, control_values: ControlValues, phrases: Table = MappingProxyType({})
    ) -> None:
        super().__init__(control_values)
        self._phrases = phrases

    def __missing__(self, name: str) -> Any:
        """Return a phrase with its values filled in, or compute a number and keep it."""
        if phrase := self._phrases.get(name):
            # A phrase with variants names, under "by", the value that chooses one.
            text = phrase if isinstance(phrase, str) else phrase[self[phrase["by"]]]
            return fill_text(text, self)
        self[name] = NUMBERS[name](
            **{
                parameter: self[parameter]
                for parameter in PARAMETERS[name]
                if parameter in self or parameter in NUMBERS
            }
        )
        return self[name]


@dataclass(frozen=True, kw_only=True)
class Control:
    """A control that the reader moves: a slider over `values`, a choice of `options`, or a button.

    A button counts how often it was pressed, which is the seed of a simulation.

    Attributes:
        key: its name in the address.
        label: its name on the screen.
        start: its first value.
        values: values of a slider, in order.
        options: labels by the value in the address.
        form: format of a value.
        ends: labels beneath the ends of a slider.
    """

    key: str
    label: str
    start: float | str = 0
    values: tuple[float, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    form: str = "{:g}"
    ends: tuple[str, str] = ("", "")

    def format_value(self, value: Any) -> str:
        """Return a value as people read it."""
        return self.options[value] if self.options else _FORMATTER.format(self.form, value)


PAGE_LABELS = load_texts("learn.toml")
_CONTROLS = PAGE_LABELS.pop("controls")
_CONTROLS["epsilon"] |= {"values": list(EPSILONS), "start": EPSILON}


def say(name: str, **values: Any) -> str:
    """Return a label of the page Learn, with its values filled in."""
    return fill_text(PAGE_LABELS[name], values)


class Reveal(NamedTuple):
    """What a slide reveals.

    Attributes:
        sentences: the sentences, the first of which is the finding.
        picture: the picture, if any.
        note: what the picture shows, if it needs a note ("Simulated: ...").
    """

    sentences: tuple[str, ...]
    picture: Picture | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class SlideTemplate:
    """What a slide reveals, before numbers are filled in.

    The names of the fields are those in the lessons' files.

    Attributes:
        says: the sentences.
        picture: specification of the picture.
        note: what the picture shows.
    """

    says: tuple[str, ...]
    picture: Table = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Predict:
    """A question before anything is revealed.

    Attributes:
        question: the text.
        options: the answers.
        right: index of the right option; None where there is none, as in a question about wishes.
        numbers: names of numbers in place of options, of which the first is right; they are sorted.
        form: format of these numbers.
    """

    question: str
    options: tuple[str, ...] = ()
    right: int | None = None
    numbers: tuple[str | float, ...] = ()
    form: str = "{:g}"

    def fill_in_numbers(self, current_values: Table) -> Predict:
        """Return the question with its numbers filled in."""
        resolved = _resolve_value(self.numbers, current_values)
        options = [fill_text(entry, current_values) for entry in self.options]
        right = self.right
        if resolved:
            options = list(
                dict.fromkeys(_FORMATTER.format(self.form, entry) for entry in sorted(resolved))
            )
            right = options.index(_FORMATTER.format(self.form, resolved[0]))
        return Predict(
            question=fill_text(self.question, current_values),
            options=tuple(options),
            right=right,
        )


@dataclass(frozen=True, kw_only=True)
class Slide:
    """One step of a lesson.

    The names of the fields are those in the lessons' files.

    Attributes:
        key: its name in the address.
        minutes: how long it takes, in a class or for a single reader.
        title: its heading.
        said: the text.
        teacher: a line for the teacher, which is never projected.
        shows: what it reveals.
        predict: the question before, if any.
        move: the controls.
        after: a link to where the app shows the same: its words, a page, and its query.
        given: numbers that only this slide has.
        phrases: of the lesson.
    """

    key: str
    minutes: int
    title: str
    said: str
    teacher: str
    shows: SlideTemplate
    predict: Predict | None = None
    move: tuple[Control, ...] = ()
    after: Table = field(default_factory=dict)
    given: Table = field(default_factory=dict)
    phrases: Table

    @property
    def start_values(self) -> dict[str, Any]:
        """Return the value that each control has at first, by its key."""
        return {control.key: control.start for control in self.move}

    def compute_values(self, control_values: ControlValues) -> LessonValues:
        """Return the values that the texts may name."""
        names = {
            f"{control.key}_name": control.format_value(control_values[control.key])
            for control in self.move
            if control.options
        }
        return LessonValues({**self.given, **control_values, **names}, self.phrases)

    def reveal(self, control_values: ControlValues) -> Reveal:
        """Return what the slide reveals at these values of its controls."""
        current_values = self.compute_values(control_values)
        return Reveal(
            tuple(fill_text(template, current_values) for template in self.shows.says),
            self._build_picture(control_values, current_values),
            fill_text(self.shows.note, current_values),
        )

    def _build_picture(
        self, control_values: ControlValues, current_values: LessonValues
    ) -> Picture | None:
        """Return the slide's picture.

        A curve ('bend') shows a number at every value of one control, while the others stay.

        Args:
            control_values: values of the controls.
            current_values: the same, with phrases and numbers.
        """
        spec = self.shows.picture
        limits = frozenset(fill_text(text, current_values) for text in spec.get("limits", ()))
        meaning = spec.get("meaning", "usefulness")

        match spec.get("kind"):
            case "worlds":
                return OutcomeBars(
                    tuple(fill_text(entry, current_values) for entry in spec["outcomes"]),
                    _resolve_value(spec["shares"], current_values),
                    limits,
                    meaning,
                )
            case "dots":
                dots: PeopleDots = _resolve_value(spec["of"], current_values)
                return dots
            case "spans":
                return IntervalPlot(
                    *(_resolve_value(spec[name], current_values) for name in ("rows", "truth"))
                )
            case "bend":
                key, form = spec.get("over", "epsilon"), spec.get("form", "{:hundred}")
                (control,) = (control for control in self.move if control.key == key)
                stops = [
                    self.compute_values({**control_values, key: stop}) for stop in control.values
                ]
                return CurvePlot(
                    spec.get("across", control.label),
                    tuple(map(control.format_value, control.values)),
                    {
                        fill_text(text, current_values): tuple(
                            float(_resolve_value(name, values)) for values in stops
                        )
                        for text, name in spec["lines"].items()
                    },
                    control.values.index(control_values[key]),
                    fill_text(spec["up"], current_values),
                    lambda value: _FORMATTER.format(form, value),
                    spec.get("low", 0.0),
                    spec.get("high"),
                    _resolve_value(spec.get("levels", {}), current_values),
                    limits,
                    meaning,
                )
            case "cells":
                rows, marked, _ = current_values["squares"]
                return CellGrid(rows, marked, spec["says"])
        return None


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """Slides, and one sentence to take home.

    Attributes:
        id: name of its file.
        number: its position.
        title: its heading.
        take_home: the sentence.
        controls: controls that its slides may use, by name.
        phrases: texts that other texts may name.
        slide_tables: the slides as in the file.
    """

    id: str
    number: int
    title: str
    take_home: str
    controls: Mapping[str, Table] = field(default_factory=dict)
    phrases: Table = field(default_factory=dict)
    slide_tables: tuple[Table, ...]

    @property
    def minutes(self) -> int:
        """Return how long all slides take."""
        return sum(table["minutes"] for table in self.slide_tables)

    @cached_property
    def slides(self) -> tuple[Slide, ...]:
        """Return the slides with their texts filled in."""
        return tuple(map(self._build_slide, self.slide_tables))

    def get_slide(self, key: str) -> Slide:
        """Return the slide with this key.

        Raises:
            KeyError: there is no such slide.
        """
        return {slide.key: slide for slide in self.slides}[key]

    def _build_slide(self, table: Table) -> Slide:
        """Return the slide of a TOML table, with the controls that it moves."""
        control_tables = {**_CONTROLS, **self.controls}
        move = []
        for move_table in table["move"]:
            name = move_table["control"]
            overrides = {k: v for k, v in move_table.items() if k != "control"}
            first_option = next(iter(control_tables[name].get("options", [0])))
            move.append({"key": name, "start": first_option, **control_tables[name], **overrides})
        slide_table = {**table, "move": move, "phrases": self.phrases}
        slide = build_from_table(Slide, slide_table, f"lesson {self.id}")
        values = slide.compute_values(slide.start_values)
        return replace(
            slide,
            said=fill_text(slide.said, values),
            teacher=fill_text(slide.teacher, values),
            predict=slide.predict and slide.predict.fill_in_numbers(values),
        )


def _load_lesson(id: str) -> Lesson:
    """Load a lesson by the name of its file."""
    table = load_texts(f"lessons/{id}.toml")
    return build_from_table(Lesson, {"id": id, "slide_tables": table.pop("slides")} | table, id)


_FILES = resources.files("dpmc_lab").joinpath(f"texts/{LANGUAGE}/lessons").iterdir()
LESSONS: dict[str, Lesson] = {
    lesson.id: lesson
    for lesson in sorted(
        (_load_lesson(file.name.removesuffix(".toml")) for file in _FILES),
        key=lambda loaded: loaded.number,
    )
}


# --- plans of a class ----------------------------------------------------------------------------

_PLAN_TEXTS = load_texts("plans.toml")
LABELS: Mapping[str, Any] = _PLAN_TEXTS["labels"]
BOXES: Mapping[str, Table] = _PLAN_TEXTS["boxes"]  # of the sheets, by name
WALLS: Mapping[str, Any] = _PLAN_TEXTS["walls"]  # by the states of a room
CLASSES: Mapping[str, list[str]] = _PLAN_TEXTS["classes"]  # plans by the minutes of a class
EXITS = Lesson(
    id="exits", number=0, title="", take_home="", slide_tables=tuple(_PLAN_TEXTS["exits"])
)


@dataclass(frozen=True, kw_only=True)
class PlanStep:
    """A step of a plan; the names of the fields are those in plans.toml.

    Attributes:
        id: its name.
        minutes: duration.
        wall: what the wall shows: a state of the room's question, or lesson and key of a slide;
            empty while the pupils write.
        stage: what a slide shows: question or answer; empty for the room.
        question: number of the room's question, from 1.
        button: text of the button that leads to this step.
        ask: what the class is asked.
        say: what the teacher says.
        expect: what pupils tend to say.
        sheet: the question of the sheet, if there is one.
        refers: ids of earlier steps that the texts speak of.
        epsilon: of the room's answers.
        start: the minute at which it begins.
        screen: what the wall shows, in words.
    """

    id: str
    minutes: int
    wall: str = ""
    stage: str = ""
    question: int = 1
    button: str = ""
    ask: str = ""
    say: str = ""
    expect: str = ""
    sheet: str = ""
    refers: tuple[str, ...] = ()
    epsilon: float = EPSILON
    start: int = 0
    screen: str = ""

    def reveal(self) -> Reveal:
        """Return what the step shows of its slide: its question, or what the slide reveals."""
        slide = get_slide(self.wall)[1]
        reveal = slide.reveal(slide.start_values)
        if self.stage == "question" and slide.predict:
            asked = (slide.predict.question, slide.said, *slide.predict.options)
            reveal = Reveal(asked, reveal.picture)
        return reveal

    def describe_room(self, view: View) -> dict[str, Any]:
        """Return what the wall shows of the room: the texts of WALLS, and what its parts count."""
        now = view.now
        values: dict[str, Any] = {"step": self, "view": view, "now": now, "arrived": view.connected}
        values |= summarise_reports(view.visible) or {}
        values["question"] = view.questions[now.question if now else 0]
        if now:
            counted = sum(poll.reports for poll in now.counts.values())
            values["arrived"] = len(now.reports) + counted
        values["here"] = max(view.connected, values["arrived"])
        is_early = self.wall == "counted" and "poll" not in values
        wall = WALLS["locked" if is_early else self.wall or "nothing"]
        texts = {key: fill_text(text, values) for key, text in wall.items() if key != "parts"}
        return {**values, "parts": wall.get("parts", ()), **texts}


@dataclass(frozen=True, kw_only=True)
class LessonPlan:
    """A plan of a class; the names of the fields are those in plans.toml.

    Attributes:
        title: what it is about.
        goals: what pupils can say afterwards.
        needs: what is needed before.
        links: its lessons, in Markdown.
        given: numbers of its texts; `epsilon` is that of the room.
        steps: its steps, in order.
        home: slides with questions for home.
        picture: name of the sheet's illustration.
    """

    title: str
    picture: str
    goals: tuple[str, ...]
    needs: tuple[str, ...]
    links: str
    given: Table
    steps: tuple[PlanStep, ...]
    home: tuple[str, ...] = ()


PLANS = {
    name: build_from_table(LessonPlan, table, name) for name, table in _PLAN_TEXTS["plans"].items()
}


def get_slide(name: str) -> tuple[Lesson, Slide]:
    """Return the lesson and the slide of a name like 'coin/throw' or 'exits/rooms'."""
    id, _, key = name.partition("/")
    lesson = {**LESSONS, EXITS.id: EXITS}[id]
    return lesson, lesson.get_slide(key)


def schedule_steps(plan: LessonPlan, start: int = 0) -> Iterator[PlanStep]:
    """Yield the steps of a plan with their texts and minutes.

    Args:
        plan: the plan.
        start: the minute at which it begins.
    """
    for step in plan.steps:
        values = LessonValues(plan.given)
        usual_texts = {}
        wall = WALLS["slide" if step.stage else step.wall or "nothing"]
        if step.stage:
            values["lesson"], values["slide"] = get_slide(step.wall)
            usual_texts = LABELS["stages"][step.stage]
        texts: dict[str, Any] = {
            name: fill_text(getattr(step, name) or usual_texts.get(name, ""), values)
            for name in ("button", "ask", "say", "expect")
        }
        texts |= {"screen": fill_text(wall["screen"], values), "epsilon": plan.given["epsilon"]}
        yield replace(step, start=start, **texts)
        start += step.minutes


@cache
def schedule_class(minutes: str) -> tuple[PlanStep, ...]:
    """Return the steps of all plans of a class, one after the other."""
    steps: list[PlanStep] = []
    for name in CLASSES[minutes]:
        steps += schedule_steps(PLANS[name], steps[-1].start + steps[-1].minutes if steps else 0)
    return tuple(steps)
