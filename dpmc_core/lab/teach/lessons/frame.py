"""What a lesson is made of. One file a lesson: it defines `LESSON`, and lessons/__init__ lists it.

    LESSON = Lesson("coin", "The coin: ...", 6, TAKE_HOME, slides)

    def slides() -> tuple[Slide, ...]:      # called when the lesson is opened, once
        ...

A slide says little, asks for a prediction, gives something to move, and reveals. Its `reveal` takes
what is moved, by the keys of its controls, and computes text and picture from the same numbers:

    Slide(
        key="deny", title="What a yes proves", said="The teacher sees a yes from you.",
        predict=Predict("Can you deny it?", ("No", "Yes"), right=1),
        move=(stops(),), reveal=deny, teacher="...", after=Elsewhere("...", "what_if", {...}),
    )

    def deny(moved: Moved) -> Reveal:
        epsilon = moved["epsilon"]
        ...
        return Reveal((f"A yes comes from {hundred(share)} of 100 ...", "..."), Worlds(...))

Pictures are named by their kind, with plain numbers inside, and each tells itself in words and as a
table: Worlds (chances of what is seen, in one world and in another, as bars), Dots (people, one by
one), Spans (estimates with intervals on one line), Bend (curves over stops, with a rule at one) and
Cells (a matrix that lights up). drawing.svg draws each of them, on screen and on paper.

Texts are plain, without markup. No digit is typed in them: numbers come through `hundred` and
format strings (a test reads the source).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.lab.sweep.presets import EPSILONS
from dpmc_core.lab.teach.room import EPSILON, Bounds, Poll, Sender, View, coin
from dpmc_core.lab.teach.room_view import FEWEST, senders
from dpmc_core.lab.views.cards import epsilon_text, hundred
from dpmc_core.problem import SEED

Moved = Mapping[str, Any]


# --- what one moves -----------------------------------------------------------------------------


class Stops(NamedTuple):
    """One of several values in their order, on a slider. ends: words beneath its two ends."""

    key: str
    label: str
    values: tuple[float, ...]
    start: float
    form: Callable[[float], str] = "{:g}".format
    ends: tuple[str, str] = ("", "")


class Pick(NamedTuple):
    """One of a few by name. options: what the address and `Moved` say -> what people read."""

    key: str
    label: str
    options: Mapping[str, str]
    start: str


class Throws(NamedTuple):
    """A button. Its value counts how often it was pressed, from where a visitor's own chance began:
    the seed of a simulation. start: on paper."""

    key: str = "throw"
    label: str = "Throw again"
    start: int = 0


Control = Stops | Pick | Throws


def stops(start: float = EPSILON) -> Stops:
    """Epsilon on the stops that every page has."""
    return Stops("epsilon", "epsilon", EPSILONS, start, ends=("more private", "more accurate"))


def lie(epsilon: float) -> float:
    """The chance that the room's coin sends the opposite."""
    return float(coin(epsilon).matrix[1, 0])


class Heard(NamedTuple):
    """What a room has heard to the question that is on. bits: of each report, sorted, so that none
    tells who has just sent it; words: whose reports they are."""

    poll: Poll
    bits: tuple[int, ...]
    words: str


def heard(view: View) -> Heard | None:
    """The reports of phones, else of hands, else of simulated phones; None without any."""
    if view.now is None:
        return None
    question = view.now.question
    for sender in senders(view, question):
        poll = view.poll(question, sender=sender)
        if sender is Sender.PHONES and poll.people < FEWEST:
            continue
        whose = _WHOSE[sender].format(epsilon_text(poll.channel.cell_epsilon))
        bits = (1,) * poll.yes + (0,) * (poll.reports - poll.yes)
        return Heard(poll, bits, f"{whose}, to “{view.questions[question]}”")
    return None


_WHOSE = {
    Sender.PHONES: "Reports of your phones, at epsilon {}",
    Sender.HANDS: "Your hands, by coins at epsilon {}",
    Sender.SIMULATED: "Reports of simulated phones, at epsilon {}",
}


def rng(throw: int) -> np.random.Generator:
    """The randomness of a throw: fit to show and never to protect."""
    return np.random.default_rng((SEED, throw))


def people(share: float, many: int, epsilon: float, throw: int) -> Dots:
    """A simulated class: so many people, of whom a share answers yes (rounded to whole people), and
    what their coins make of it."""
    drawn = rng(throw)
    answers = drawn.permutation(np.arange(many) < round(share * many)).astype(np.uint8)
    reports = replace(coin(epsilon), shape=answers.shape).publish(answers, drawn)
    return Dots(tuple(map(int, reports)), tuple(map(bool, reports != answers)))


# --- what one sees ------------------------------------------------------------------------------


class Worlds(NamedTuple):
    """Bars: of each world (a name), the chance of everything that may be seen in it.

    outcomes: what may be seen; shares: of a world, in their order, in 0..1. A world with one
    outcome is a single bar, and needs no name for it.
    """

    outcomes: tuple[str, ...]
    shares: Mapping[str, tuple[float, ...]]

    @property
    def words(self) -> str:
        return ". ".join(
            f"{world}: "
            + ", ".join(
                f"{name} {hundred(share)} of {HUNDRED}".strip()
                for name, share in zip(self.outcomes, shares, strict=True)
            )
            for world, shares in self.shares.items()
        )

    def table(self) -> dict[str, list[str]]:
        return {
            "": list(self.shares),
            **{
                name or "share": [
                    f"{hundred(shares[k])} of {HUNDRED}" for shares in self.shares.values()
                ]
                for k, name in enumerate(self.outcomes)
            },
        }


class Dots(NamedTuple):
    """People, one dot each: filled says yes, hollow no, struck through has been turned around.

    reports: what each sends, 0 or 1. flipped: whether the coin turned it around; empty where
    nobody can know. names: of yes and of no.
    """

    reports: tuple[int, ...]
    flipped: tuple[bool, ...] = ()
    names: tuple[str, str] = ("yes", "no")

    @property
    def words(self) -> str:
        told = f"{len(self.reports)} dots, {sum(self.reports)} of them {self.names[0]}"
        return f"{told}; {sum(self.flipped)} turned around" if self.flipped else told

    def table(self) -> dict[str, list[str]]:
        yes = sum(self.reports)
        columns = {self.names[0]: [str(yes)], self.names[1]: [str(len(self.reports) - yes)]}
        return columns | ({"turned around": [str(sum(self.flipped))]} if self.flipped else {})


class Spans(NamedTuple):
    """Estimates of one share, each with its interval, on one line from 0 to 1.

    truth: a rule at what is being estimated, where it is known.
    """

    rows: Mapping[str, Bounds]
    truth: float | None = None

    @property
    def words(self) -> str:
        told = [
            f"{name}: {percent(row.share)}, interval {percent(row.low)} to {percent(row.high)}"
            for name, row in self.rows.items()
        ]
        if self.truth is not None:
            told.append(f"The truth: {percent(self.truth)}")
        return ". ".join(told)

    def table(self) -> dict[str, list[str]]:
        rows = self.rows.values()
        return {
            "": list(self.rows),
            "share": [percent(row.share) for row in rows],
            "from": [percent(row.low) for row in rows],
            "to": [percent(row.high) for row in rows],
        }


class Bend(NamedTuple):
    """Curves over equally spaced stops, with a rule and dots at one of them.

    across: what the stops are; stops: their labels; lines: a value for each stop, by name; at: the
    number of the chosen stop, or None; up: what the values are; form: how they are written; low and
    high: ends of the axis, by default 0 and the largest value; levels: lines without a bend.
    """

    across: str
    stops: tuple[str, ...]
    lines: Mapping[str, tuple[float, ...]]
    at: int | None
    up: str
    form: Callable[[float], str]
    low: float = 0.0
    high: float | None = None
    levels: Mapping[str, float] = {}

    @property
    def top(self) -> float:
        """The upper end of the axis."""
        if self.high is not None:
            return self.high
        return max([*(max(line) for line in self.lines.values()), *self.levels.values()])

    @property
    def words(self) -> str:
        ends = f"from {self.across} {self.stops[0]} to {self.stops[-1]}"
        told = [
            f"{name}: {self.form(line[0])} to {self.form(line[-1])} {ends}"
            + ("" if self.at is None else f", {self.form(line[self.at])} at {self.stops[self.at]}")
            for name, line in self.lines.items()
        ]
        told += [f"{name}: {self.form(level)}" for name, level in self.levels.items()]
        return f"{self.up}. " + ". ".join(told)

    def table(self) -> dict[str, list[str]]:
        lines = {name: [self.form(value) for value in line] for name, line in self.lines.items()}
        levels = {name: [self.form(level)] * len(self.stops) for name, level in self.levels.items()}
        return {self.across: list(self.stops)} | lines | levels


class Cells(NamedTuple):
    """A matrix, row by row, that lights up where its values (0..1) are large.

    marked: row and column of a cell with a frame; says: what a lit cell means.
    """

    rows: tuple[tuple[float, ...], ...]
    says: str
    marked: tuple[int, int] | None = None

    @property
    def words(self) -> str:
        values = [value for row in self.rows for value in row]
        lit = sum(value > 0 for value in values)
        return f"{self.says}: {lit} of {len(values)} cells are lit"

    def table(self) -> dict[str, list[str]]:
        return {
            "row": [str(k + 1) for k in range(len(self.rows))],
            "lit": [str(sum(value > 0 for value in row)) for row in self.rows],
        }


Drawing = Worlds | Dots | Spans | Bend | Cells


class Reveal(NamedTuple):
    """What comes out: sentences, of which the first is the finding, and a picture of it.

    note: what the picture is a picture of, where it needs saying ("Simulated: ...").
    """

    says: tuple[str, ...]
    picture: Drawing | None = None
    note: str = ""


# --- the lesson ---------------------------------------------------------------------------------


class Predict(NamedTuple):
    """A question before anything is shown. right: number of the right option; None where there is
    none to be had, as in a question of what one wants."""

    question: str
    options: tuple[str, ...]
    right: int | None

    @classmethod
    def number(
        cls, question: str, right: float, wrong: tuple[float, ...], form: Callable[[float], str]
    ) -> Predict:
        """Of numbers, in their order: the right one stands where it falls."""
        options = tuple(dict.fromkeys(form(value) for value in sorted((right, *wrong))))
        return cls(question, options, options.index(form(right)))


class Elsewhere(NamedTuple):
    """A page of the app in a state. page: its file's name; query: what its address says."""

    words: str
    page: str
    query: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class Slide:
    """One step of a lesson. key: its name in the address.

    move: what one moves; reveal: what comes out, by what is moved. teacher: a line for the teacher,
    never projected. in_class: the same by a room that is open, where it has something to say.
    after: where the app shows the same.
    """

    key: str
    title: str
    said: str
    predict: Predict | None
    reveal: Callable[[Moved], Reveal]
    teacher: str
    move: tuple[Control, ...] = ()
    in_class: Callable[[View], Reveal | None] | None = None
    after: Elsewhere | None = None

    @property
    def start(self) -> dict[str, Any]:
        """What is moved, before anything has been."""
        return {control.key: control.start for control in self.move}


@dataclass(frozen=True)
class Lesson:
    """Slides, and one sentence to take home. minutes: to go through it alone."""

    id: str
    title: str
    minutes: int
    take_home: str
    make: Callable[[], tuple[Slide, ...]]

    @cached_property
    def slides(self) -> tuple[Slide, ...]:
        return self.make()

    def slide(self, key: str) -> Slide:
        """Raises KeyError."""
        return {slide.key: slide for slide in self.slides}[key]


# --- numbers in words ---------------------------------------------------------------------------

HUNDRED = 100
EVEN = f"{HUNDRED // 2}:{HUNDRED // 2}"  # what an attacker starts from who knows nothing


def over_epsilon(
    epsilon: float,
    lines: Mapping[str, tuple[float, ...]],
    up: str,
    form: Callable[[float], str] = hundred,
    *,
    across: str = "epsilon",
    low: float = 0.0,
    high: float = 1.0,
    levels: Mapping[str, float] = {},
) -> Bend:
    """Curves over the stops of epsilon, the rule at one of them; see `Bend`."""
    at, stops = EPSILONS.index(epsilon), tuple(f"{stop:g}" for stop in EPSILONS)
    return Bend(across, stops, lines, at, up, form, low, high, levels)


def listed(names: Iterable[str]) -> str:
    """Names in a sentence: one, another and a last one. There must be some."""
    *some, last = names
    return f"{', '.join(some)} and {last}" if some else last


def percent(share: float) -> str:
    """A share in whole percent: an estimate, which may lie outside 0..1."""
    return f"{round(HUNDRED * share)} %"
