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
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dpmc_core import registry
from dpmc_core.errors import DpmcError, sentence
from dpmc_core.lab.papers import lwhm22
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
from dpmc_core.lab.views.lines import Interval
from dpmc_core.privacy import RATING, USER_REPLACED, Certified, Change

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

    @property
    def name(self) -> str:
        """The method's short name."""
        return registry.short_name(self.mechanism)


def judge(paper: Paper, experiment: Experiment, made: Made | None) -> Judged:
    """How a result stands beside what the paper prints and says."""
    if made is None:
        reason = experiment.not_run or f"nobody has run it here yet: {experiment.command}"
        nothing = tuple(Compared(one, None, None) for one in experiment.printed)
        unknown = tuple((one, None) for one in experiment.statements)
        return Judged(Accuracy.NOT_RUN, sentence(reason), nothing, unknown)
    compared = tuple(_compared(one, made) for one in experiment.printed)
    told = tuple((one, told_of(one, made)) for one in experiment.statements)
    if paper.unjudged:
        return Judged(Accuracy.UNJUDGED, sentence(paper.unjudged), compared, told)
    held = [one for _, one in told]
    verdict, reason = _verdict(compared, held), _reason(compared, held)
    if not any(one is not None for one in (*held, *(c.within for c in compared))):
        reason = "Nothing that is printed can be told from this result."
    other, cut = not experiment.makes(made), experiment.cut
    if other:
        reason = f"{reason} Made with other settings than the recipe has now."
    if verdict is Accuracy.DIFFERS and (cut or other):
        small = None if other or cut is True else cut  # labels; None: all curves
        whole = [c for c in compared if small and c.printed.series not in small]
        if not _apart(whole):
            verdict = Accuracy.SMALLER
    return Judged(verdict, reason, compared, told)


def _compared(printed: Printed, made: Made) -> Compared:
    ours = made.at(printed.series, printed.x)
    known = ours is not None and ours.seeds != 1
    return Compared(printed, ours, _within(printed, ours, 1) if ours and known else None)


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


def _verdict(compared: Sequence[Compared], held: Sequence[bool | None]) -> Accuracy:
    inside = [one.within for one in compared]
    if all(held) and inside and all(inside):  # also where nothing is said
        return Accuracy.AGREES
    if held and all(held):
        return Accuracy.TREND
    return Accuracy.DIFFERS if _apart(compared) or False in held else Accuracy.OPEN


def _reason(compared: Sequence[Compared], held: Sequence[bool | None]) -> str:
    """How many of each there are."""
    inside = [one.within for one in compared if one.within is not None]
    missing = len(compared) - len(inside)
    parts = []
    if compared:
        parts.append(f"{sum(inside)} of {len(inside)} printed numbers within our intervals")
    if missing:
        parts.append(f"{missing} without ours")
    words = {True: ("holds", "hold"), False: ("does not", "do not"), None: ("cannot be told",) * 2}
    counts = [f"{n} {words[value][n > 1]}" for value in words if (n := held.count(value))]
    if held:
        parts.append(f"of {len(held)} statements {', '.join(counts)}")
    return sentence("; ".join(parts))


# --- promises ----------------------------------------------------------------------------------


def promises(experiment: Experiment) -> tuple[Upheld, ...]:
    """What becomes of each promise of an experiment."""
    command = f"dpmc papers {experiment.id}"
    return tuple(
        Upheld(promise.mechanism, verdict, sentence(words), shown or command)
        for promise in experiment.promises
        for verdict, words, shown in (_kept(promise),)
    )


def _kept(promise: Promise) -> tuple[Privacy, str, str]:
    """The verdict on a promise, why, and the command that shows it where it has one of its own."""
    id, change, epsilon = promise.mechanism, promise.change, promise.epsilon
    settings = as_published.with_published(id, promise.settings)
    try:
        made = registry.create(id, epsilon=epsilon, delta=promise.delta, **settings)
        card = made.guarantee(promise.public)
    except DpmcError as error:
        return Privacy.UNPROVED, str(error), ""
    claimed = card.claimed.delta if card.claimed else 0.0
    delta = claimed if promise.delta is None else promise.delta
    proved, own = (card.certified(unit, delta) for unit in (change, card.change))

    def upheld(found: Certified) -> bool:
        return found.finite and found.epsilon <= epsilon * _SLACK

    if upheld(proved):
        return Privacy.PROVED, f"epsilon {cards.epsilon_text(proved.epsilon)} {change.label}", ""
    told = _contradicted(id)
    measured = audits.shipped_of(id)
    # A rating is a part of whatever is promised, and all changes are of replacing a row.
    parts = tuple(Change) if change is USER_REPLACED else (change, RATING)
    if measured and measured.refuted == Refuted.CLAIM.value and measured.change in parts:
        words = (
            f"an audit of our default settings measures {audits.tick(measured)}"
            f" {measured.change.label} where {measured.epsilon:g} is claimed{told}"
        )
        return Privacy.COUNTEREXAMPLE, words, shlex.join(["dpmc", "audit", id, "--epsilon", "1"])
    there = cards.certified(proved)
    if card.change is not change and upheld(own):
        words = f"proved {card.change.label}, promised {change.label}: there {there}"
        return Privacy.NARROWER, words, ""
    words = f"{epsilon:g} is promised {change.label}: {there}{told}"
    return Privacy.UNPROVED, words, "dpmc papers lwhm22 --theory" if told else ""


def _contradicted(mechanism: str) -> str:
    """Where the theorem that a promise rests on is contradicted."""
    rows = (row for row in lwhm22.promises() if row.mechanism == mechanism)
    row = next((row for row in rows if row.counterexample), None)
    if row is None:
        return ""
    return (
        f"; {row.theorem} promises {row.printed:g} where {row.measured:.3g} is lost: {row.setting}"
    )
