"""Lessons on epsilon: predict, move, see, and one sentence to take home.

A lesson is one TOML file here: its words, its slides, and which of its numbers a picture shows
where. Every number is computed when it is asked for by its name in numbers.py: a page and a
worksheet draw from the same slides, so text and chart cannot disagree.

In a text, {name} is a number or what is moved, at its start where nothing has been, or what belongs
to it, as in {poll.reports};
{name:FORM} writes it by one of FORMS or by Python's own; {name:none|one|more} takes the text that
the number counts to; {phrase} is a text of [phrases], or one of several by what `by` names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import resources
from inspect import signature
from string import Formatter
from types import MappingProxyType
from typing import Any, NamedTuple

from dpmc_core.facts import into, load
from dpmc_lab.classroom import EPSILON, numbers
from dpmc_lab.classroom.numbers import NUMBERS
from dpmc_lab.classroom.pictures import Bend, Cells, Dots, Picture, Spans, Worlds, percent
from dpmc_lab.classroom.room import View
from dpmc_lab.curves.cards import epsilon_text, hundred
from dpmc_lab.sweep.presets import EPSILONS

Moved = Mapping[str, Any]
Table = Mapping[str, Any]


def odds(share: float) -> str:
    """For and against, the smaller one as one."""
    ratio = share / (1 - share)
    return f"{ratio:,.3g} : 1" if ratio >= 1 else f"1 : {1 / ratio:,.3g}"


FORMS: Mapping[str, Callable[[float], str]] = {
    "hundred": hundred,
    "%": percent,
    ".1%": lambda share: f"{100 * share:.1f} %",
    "points": lambda share: f"{100 * share:.0f}",
    "odds": odds,
    "times": lambda ratio: f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2g}",
    "epsilon": epsilon_text,
    "least": lambda epsilon: epsilon_text(epsilon, least=True),
    "power": lambda power: epsilon_text(10**power),
}


class _Text(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if "|" in format_spec:
            texts = format_spec.split("|")
            return texts[min(int(value), len(texts) - 1)]
        form = FORMS.get(format_spec)
        return form(value) if form else str(super().format_field(value, format_spec))


def _text(text: str, *values: Any, now: Table = MappingProxyType({})) -> str:
    return _Text().vformat(text, values, now)


def _named(given: Any, now: Table) -> Any:
    """A number as it is written, or by its name."""
    return _Text().get_field(given, (), now)[0] if isinstance(given, str) else given


@cache
def _asked(name: str) -> tuple[str, ...]:
    return tuple(signature(NUMBERS[name]).parameters)


class Now(dict[str, Any]):
    """What a text may name: what is moved, phrases, and numbers, which are computed when asked."""

    def __init__(self, moved: Moved, phrases: Table = MappingProxyType({})) -> None:
        super().__init__(moved)
        self._phrases = phrases

    def __missing__(self, name: str) -> Any:
        if phrase := self._phrases.get(name):
            text = phrase if isinstance(phrase, str) else phrase[self[phrase["by"]]]
            return _text(text, now=self)
        number, asked = NUMBERS[name], _asked(name)
        self[name] = number(**{one: self[one] for one in asked if one in self or one in NUMBERS})
        return self[name]


@dataclass(frozen=True, kw_only=True)
class Control:
    """What one moves: one of `values` in their order, on a slider; one of `options` by name, what
    the address says -> what people read; with neither a button, which counts how often it was
    pressed: the seed of a simulation. ends: words beneath the ends of a slider."""

    key: str
    label: str
    start: float | str = 0
    values: tuple[float, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    form: str = "{:g}"
    ends: tuple[str, str] = ("", "")

    def name(self, value: Any) -> str:
        """A value as people read it."""
        return self.options[value] if self.options else _text(self.form, value)


_CONTROLS: Mapping[str, Table] = {
    "epsilon": {
        "label": "epsilon",
        "values": list(EPSILONS),
        "start": EPSILON,
        "ends": ["more private", "more accurate"],
    },
    "throw": {"label": "Throw again"},
}


class Reveal(NamedTuple):
    """What comes out: sentences, of which the first is the finding, and a picture of it.

    note: what the picture is a picture of, where it needs saying ("Simulated: ...").
    """

    says: tuple[str, ...]
    picture: Picture | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a slide shows, as it is written. of: the function of a room's numbers."""

    says: tuple[str, ...]
    picture: Table = field(default_factory=dict)
    note: str = ""
    of: str = ""

    def __call__(self, view: View) -> Reveal | None:
        """By a room that is open, where it has something to say."""
        found = getattr(numbers, self.of)(view)
        return None if found is None else self.told(Now(found))

    def told(
        self, now: Table, over: Control | None = None, along: tuple[Table, ...] = ()
    ) -> Reveal:
        """By numbers. along: the same ones at every stop of the control `over`."""
        says = tuple(_text(one, now=now) for one in self.says)
        return Reveal(says, self._drawn(now, over, along), _text(self.note, now=now))

    def _drawn(self, now: Table, over: Control | None, along: tuple[Table, ...]) -> Picture | None:
        asked = self.picture
        scale = math.log10 if asked.get("log") else float

        def named(texts: str) -> dict[str, Any]:
            return {_text(text, now=now): found for text, found in asked.get(texts, {}).items()}

        match asked.get("kind"):
            case "worlds":
                shares = {
                    text: tuple(_named(k, now) for k in row)
                    for text, row in named("shares").items()
                }
                return Worlds(tuple(_text(one, now=now) for one in asked["outcomes"]), shares)
            case "dots":
                dots: Dots = _named(asked["of"], now)
                return dots
            case "spans":
                rows = {text: _named(row, now) for text, row in named("rows").items()}
                return Spans(rows, _named(asked.get("truth"), now))
            case "bend" if over is not None:
                form, high = asked.get("form", "{:hundred}"), asked.get("high")
                return Bend(
                    asked.get("across", over.label),
                    tuple(map(over.name, over.values)),
                    {
                        text: tuple(scale(_named(k, one)) for one in along)
                        for text, k in named("lines").items()
                    },
                    over.values.index(now[over.key]),
                    _text(asked["up"], now=now),
                    lambda value: _text(form, value),
                    scale(_named(asked.get("low", 0.0), now)),
                    high if high is None else scale(_named(high, now)),
                    {text: _named(level, now) for text, level in named("levels").items()},
                )
            case "cells":
                return Cells(now["squares"].rows, asked["says"], now["squares"].marked)
        return None


@dataclass(frozen=True, kw_only=True)
class Predict:
    """A question before anything is shown. right: number of the right option; None where there is
    none to be had, as in a question of what one wants. numbers: in place of options, of which the
    first is right; they stand in their order, written by `form`."""

    question: str
    options: tuple[str, ...] = ()
    right: int | None = None
    numbers: tuple[str | float, ...] = ()
    form: str = "{:g}"

    def at(self, now: Table) -> Predict:
        """The question with its numbers."""
        found = [_named(one, now) for one in self.numbers]
        options, right = [_text(one, now=now) for one in self.options], self.right
        if found:
            options = list(dict.fromkeys(_text(self.form, one) for one in sorted(found)))
            right = options.index(_text(self.form, found[0]))
        return Predict(question=_text(self.question, now=now), options=tuple(options), right=right)


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """A page of the app in a state. page: its file's name; query: what its address says."""

    words: str
    page: str
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Slide:
    """One step of a lesson. key: its name in the address.

    move: what one moves; shows: what comes out. teacher: a line for the teacher, never projected.
    in_class: the same by a room that is open. after: where the app shows the same. given: numbers
    of this slide alone. phrases: of the lesson.
    """

    key: str
    title: str
    said: str
    teacher: str
    shows: Written
    predict: Predict | None = None
    move: tuple[Control, ...] = ()
    in_class: Written | None = None
    after: Elsewhere | None = None
    given: Table = field(default_factory=dict)
    phrases: Table

    @property
    def start(self) -> dict[str, Any]:
        """What is moved, before anything has been."""
        return {control.key: control.start for control in self.move}

    def numbers(self, moved: Moved) -> Now:
        """What the texts may name."""
        names = {f"{one.key}_name": one.name(moved[one.key]) for one in self.move if one.options}
        return Now({**self.given, **moved, **names}, self.phrases)

    def reveal(self, moved: Moved) -> Reveal:
        """What comes out, by what is moved."""
        by = self.shows.picture.get("over", "epsilon")
        over = next((control for control in self.move if control.key == by), None)
        stops = over.values if over and self.shows.picture.get("kind") == "bend" else ()
        along = tuple(self.numbers({**moved, by: stop}) for stop in stops)
        return self.shows.told(self.numbers(moved), over, along)

    def opened(self) -> Slide:
        """The slide with its numbers at the start."""
        now, after = self.numbers(self.start), self.after
        return replace(
            self,
            said=_text(self.said, now=now),
            teacher=_text(self.teacher, now=now),
            predict=self.predict and self.predict.at(now),
            after=after
            and replace(after, query={k: _text(v, now=now) for k, v in after.query.items()}),
        )


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """Slides, and one sentence to take home. minutes: to go through it alone."""

    id: str
    number: int
    title: str
    minutes: int
    take_home: str
    controls: Mapping[str, Table] = field(default_factory=dict)
    phrases: Table = field(default_factory=dict)
    written: tuple[Table, ...]

    @cached_property
    def slides(self) -> tuple[Slide, ...]:
        return tuple(map(self._slide, self.written))

    def slide(self, key: str) -> Slide:
        """Raises KeyError."""
        return {slide.key: slide for slide in self.slides}[key]

    def _slide(self, table: Table) -> Slide:
        known = {**_CONTROLS, **self.controls}
        move = []
        for given in table["move"]:
            name, more = given["control"], {k: v for k, v in given.items() if k != "control"}
            first = next(iter(known[name].get("options", [0])))
            move.append({"key": name, "start": first, **known[name], **more})
        whole = {**table, "move": move, "phrases": self.phrases}
        return into(Slide, whole, f"lesson {self.id}").opened()


def _lesson(file: str) -> Lesson:
    table = load(__name__, file)
    id = file.removesuffix(".toml")
    return into(Lesson, {"id": id, "written": table.pop("slides")} | table, file)


_FILES = (path.name for path in resources.files(__name__).iterdir())
LESSONS: dict[str, Lesson] = {
    lesson.id: lesson
    for lesson in sorted(
        (_lesson(name) for name in _FILES if name.endswith(".toml")), key=lambda one: one.number
    )
}
