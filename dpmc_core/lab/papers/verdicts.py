"""Two verdicts on an experiment, computed: on its accuracy, and on what its methods promise.

Accuracy: two curves are told apart where their difference is beyond its 95 % t interval, paired by
seed where the draws are known (`frame.reach`: wrong with chance 5 % at most). A statement holds
where each of its comparisons does. That it does not hold takes one of them only, so that one must
stand with intervals wide enough for all of them at once (Bonferroni): of a true statement it is
said with chance 5 % at most. Likewise for printed numbers: one that lies outside at 95 % is shown
as outside, but it takes one outside all at once to differ. A mean over a single seed has no
interval, and tells nothing.
"""

from __future__ import annotations

import enum
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dpmc_core import registry
from dpmc_core.errors import DpmcError, sentence
from dpmc_core.lab.papers import theory
from dpmc_core.lab.papers.frame import (
    ROUNDED,
    Experiment,
    Made,
    Paper,
    Printed,
    Promise,
    Statement,
    asking,
    wider,
)
from dpmc_core.lab.refute import Refuted
from dpmc_core.lab.views import as_published, audits, cards
from dpmc_core.lab.views.lines import Interval, short
from dpmc_core.privacy import RATING, USER_REPLACED, Certified, Change, Guarantee

_SLACK = 1 + 1e-9  # rounding in sums of epsilons


class Accuracy(enum.Enum):
    """How our result stands beside the printed one."""

    AGREES = "agrees"
    TREND = "same trend"
    DIFFERS = "differs"
    SMALLER = "differs at this size"
    OPEN = "cannot tell"
    NOT_RUN = "not run"
    UNJUDGED = "no verdict"


MEANING = {
    Accuracy.AGREES: "every printed number lies within our 95 % interval and its reading error, and"
    " all that the paper says of it holds",
    Accuracy.TREND: "all that the paper says of it holds; printed numbers differ or are none",
    Accuracy.DIFFERS: "a printed number, or something that the paper says, does not hold here",
    Accuracy.SMALLER: "so it is here, with less work than the paper's or with other data: that does"
    " not speak against the paper",
    Accuracy.OPEN: "our intervals are too wide, or our points too few, for some of it",
    Accuracy.NOT_RUN: "there is no result of ours",
    Accuracy.UNJUDGED: "the paper's numbers are not known here",
}


def meanings(found: Iterable[Accuracy]) -> list[str]:
    """A sentence for each verdict on accuracy that there is."""
    there = set(found)
    return [f"{one.value}: {words}." for one, words in MEANING.items() if one in there]


class Privacy(enum.Enum):
    """What becomes of what is promised, from the best to the worst."""

    PROVED = "proved"
    NARROWER = "proved for a narrower unit"
    UNPROVED = "not proved here"
    COUNTEREXAMPLE = "counterexample"


class Compared(NamedTuple):
    """A printed number beside ours, None where we have none. within: whether it lies within our
    interval and the reading error."""

    printed: Printed
    ours: Interval | None
    within: bool | None


class Judged(NamedTuple):
    """The verdict on accuracy. reason: in words; statements: which hold."""

    verdict: Accuracy
    reason: str
    compared: tuple[Compared, ...]
    statements: tuple[tuple[Statement, bool | None], ...]


class Upheld(NamedTuple):
    """The verdict on one promise. words: why; command: what shows it."""

    mechanism: str
    verdict: Privacy
    words: str
    command: str


def judge(paper: Paper, experiment: Experiment, made: Made | None) -> Judged:
    """How a result stands beside what the paper prints and says."""
    if made is None:
        reason = experiment.not_run or f"nobody has run it here yet: {experiment.command}"
        nothing = tuple(Compared(one, None, None) for one in experiment.printed)
        unknown: list[tuple[Statement, bool | None]] = [(s, None) for s in experiment.statements]
        return Judged(Accuracy.NOT_RUN, sentence(reason), nothing, tuple(unknown))
    compared = tuple(_compared(one, made) for one in experiment.printed)
    told = tuple((one, told_of(one, made)) for one in experiment.statements)
    if paper.unjudged:
        return Judged(Accuracy.UNJUDGED, sentence(paper.unjudged), compared, told)
    verdict, reason = _verdict(compared, [held for _, held in told])
    other = not experiment.makes(made)
    if other:
        reason = f"{reason} Made with other settings than the recipe has now."
    if verdict is Accuracy.DIFFERS and (experiment.cut or other):
        whole = [] if other else [c for c in compared if not _cut(experiment, c.printed.series)]
        if not _apart(whole):
            verdict = Accuracy.SMALLER
    return Judged(verdict, reason, compared, told)


def _compared(printed: Printed, made: Made) -> Compared:
    ours = made.at(printed.series, printed.x)
    if ours is None or ours.seeds == 1:
        return Compared(printed, ours, None)
    return Compared(printed, ours, _within(printed, ours, 1))


def _within(printed: Printed, ours: Interval, among: int) -> bool:
    room = ours.half_width * wider(ours.seeds, among) + printed.error
    return abs(printed.value - ours.mean) <= room + ROUNDED * abs(printed.value)


def told_of(statement: Statement, made: Made) -> bool | None:
    """Whether a statement holds of a result, None where that cannot be told."""
    with asking() as asked:
        first = statement.holds(made)
    if first is not False:
        return first
    with asking(among=asked.count):
        return False if statement.holds(made) is False else None


def _apart(compared: Sequence[Compared]) -> bool:
    """Whether a printed number differs: of many at 95 % some lie outside by chance, so all at once,
    as for a statement."""
    known = [(one.printed, one.ours) for one in compared if one.within is not None]
    return not all(ours is None or _within(printed, ours, len(known)) for printed, ours in known)


def _cut(experiment: Experiment, label: str) -> bool:
    return experiment.cut is True or (experiment.cut is not False and label in experiment.cut)


def _verdict(compared: Sequence[Compared], held: Sequence[bool | None]) -> tuple[Accuracy, str]:
    inside = [one.within for one in compared if one.within is not None]
    said = _said(compared, held)
    if not inside and set(held) <= {None}:
        return Accuracy.OPEN, "Nothing that is printed can be told from this result."
    differs = _apart(compared)
    if all(held):  # also where nothing is said
        if inside and len(inside) == len(compared) and all(inside):
            return Accuracy.AGREES, said
        if held:
            return Accuracy.TREND, said
    return (Accuracy.DIFFERS if differs or False in held else Accuracy.OPEN), said


def _said(compared: Sequence[Compared], held: Sequence[bool | None]) -> str:
    """How many of each there are."""
    parts = []
    if compared:
        inside = [one.within for one in compared if one.within is not None]
        missing = len(compared) - len(inside)
        parts.append(f"{sum(inside)} of {len(inside)} printed numbers within our intervals")
        parts += [f"{missing} without ours"] if missing else []
    counts = [
        f"{n} {one if n == 1 else many}"
        for value, one, many in (
            (True, "holds", "hold"),
            (False, "does not", "do not"),
            (None, "cannot be told", "cannot be told"),
        )
        if (n := held.count(value))
    ]
    parts += [f"of {len(held)} statements {', '.join(counts)}"] if held else []
    return sentence("; ".join(parts))


# --- promises ----------------------------------------------------------------------------------


def promises(experiment: Experiment) -> tuple[Upheld, ...]:
    """What becomes of each promise of an experiment."""
    return tuple(_kept(experiment, promise) for promise in experiment.promises)


def summary(found: Sequence[Upheld]) -> str:
    """All of them in a line: each verdict with the methods it is on."""
    parts = []
    for verdict in Privacy:
        names = [name_of(one.mechanism) for one in found if one.verdict is verdict]
        if names:
            parts.append(f"{verdict.value}: {', '.join(names)}")
    return sentence("; ".join(parts))


def name_of(id: str) -> str:
    """A method's short name."""
    return registry.short_name(id)


def worst(found: Sequence[Upheld]) -> Upheld | None:
    """The one that says most against the experiment; None where nothing is promised."""
    order = list(Privacy)
    return max(found, key=lambda one: order.index(one.verdict), default=None)


def _kept(experiment: Experiment, promise: Promise) -> Upheld:
    command = f"dpmc papers {experiment.id}"
    try:
        card = _card(promise)
    except DpmcError as error:
        return Upheld(promise.mechanism, Privacy.UNPROVED, sentence(str(error)), command)
    proved = card.certified(promise.change, _delta(promise, card))
    if _upheld(proved, promise):
        words = f"epsilon {cards.epsilon_text(proved.epsilon)} {promise.change.label}"
        return Upheld(promise.mechanism, Privacy.PROVED, sentence(words), command)
    measured = audits.shipped_of(promise.mechanism) if promise.card is None else None
    # A rating is a part of whatever is promised, and all changes are of replacing a row.
    parts = (promise.change, RATING) if promise.change is not USER_REPLACED else tuple(Change)
    if (
        measured is not None
        and measured.refuted == Refuted.CLAIM.value
        and measured.change in parts
    ):
        words = (
            f"an audit of our default settings measures {audits.tick(measured)}"
            f" {measured.change.label} where {measured.epsilon:g} is claimed{_theorem(promise)}"
        )
        audit = shlex.join(["dpmc", "audit", promise.mechanism, "--epsilon", "1"])
        return Upheld(promise.mechanism, Privacy.COUNTEREXAMPLE, sentence(words), audit)
    own = card.certified(card.change, _delta(promise, card))
    if card.change is not promise.change and _upheld(own, promise):
        words = (
            f"proved {card.change.label}, promised {promise.change.label}: there"
            f" {cards.certified(proved)}"
        )
        return Upheld(promise.mechanism, Privacy.NARROWER, sentence(words), command)
    words = f"{promise.epsilon:g} is promised {promise.change.label}: {cards.certified(proved)}"
    if told := _theorem(promise):
        words, command = words + told, "dpmc papers lwhm22 --theory"
    return Upheld(promise.mechanism, Privacy.UNPROVED, sentence(words), command)


def _theorem(promise: Promise) -> str:
    """Where the theorem that a promise rests on is contradicted."""
    row = theory.broken_promise(promise.mechanism) if promise.card is None else None
    if row is None:
        return ""
    return (
        f"; {row.theorem} promises {row.printed:g} where {row.measured:.3g} is lost: {row.setting}"
    )


def _upheld(proved: Certified, promise: Promise) -> bool:
    return proved.finite and proved.epsilon <= promise.epsilon * _SLACK


def _delta(promise: Promise, card: Guarantee) -> float:
    if promise.delta is not None:
        return promise.delta
    return card.claimed.delta if card.claimed else 0.0


def _settings(promise: Promise) -> Mapping[str, Any]:
    return as_published.with_published(promise.mechanism, promise.settings)


def _card(promise: Promise) -> Guarantee:
    if promise.card is not None:
        return promise.card()
    made = registry.create(
        promise.mechanism,
        epsilon=promise.epsilon,
        delta=promise.delta,
        **_settings(promise),
    )
    return made.guarantee(promise.public)


def number(found: Interval | None) -> str:
    """Ours in words."""
    if found is None:
        return "none"
    half = f" ± {short(found.half_width, 2)}" if found.half_width else ""
    return f"{short(found.mean)}{half}"
