"""Two verdicts on an experiment, computed: on its accuracy, and on what its methods promise."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dpmc_core import registry
from dpmc_core.errors import DpmcError, sentence
from dpmc_core.papers.frame import Experiment, Made, Paper, Printed, Promise, Statement
from dpmc_core.privacy import RATING, USER_REPLACED, Certified, Change, Guarantee
from dpmc_core.refute import Refuted
from dpmc_core.views import as_published, audits, cards, theory
from dpmc_core.views.lines import Interval, short

_SLACK = 1 + 1e-9  # rounding in sums of epsilons


class Accuracy(enum.Enum):
    """How our result stands beside the printed one."""

    AGREES = "agrees"
    TREND = "same trend"
    DIFFERS = "differs"
    OPEN = "cannot tell"
    NOT_RUN = "not run"
    UNJUDGED = "no verdict"


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
    told = tuple((one, one.holds(made)) for one in experiment.statements)
    if paper.unjudged:
        return Judged(Accuracy.UNJUDGED, sentence(paper.unjudged), compared, told)
    return Judged(*_verdict(compared, [held for _, held in told]), compared, told)


def _compared(printed: Printed, made: Made) -> Compared:
    ours = made.at(printed.series, printed.x)
    if ours is None:
        return Compared(printed, None, None)
    room = ours.half_width + printed.error
    off = abs(printed.value - ours.mean)
    return Compared(printed, ours, off <= room + 1e-9 * abs(printed.value))


def _verdict(compared: Sequence[Compared], held: Sequence[bool | None]) -> tuple[Accuracy, str]:
    inside = [one.within for one in compared if one.within is not None]
    numbers = f"{sum(inside)} of {len(inside)} printed numbers within our intervals"
    known = [one for one in held if one is not None]
    claims = f"{sum(known)} of {len(held)} statements hold"
    said = "; ".join(
        text for text, there in ((numbers, bool(inside)), (claims, bool(held))) if there
    )
    if not inside and not known:
        return Accuracy.OPEN, "Nothing that is printed can be told from this result."
    if not all(known):
        return Accuracy.DIFFERS, sentence(said)
    if inside and len(inside) == len(compared) and all(inside) and len(known) == len(held):
        return Accuracy.AGREES, sentence(said)
    if known:
        return Accuracy.TREND, sentence(said)
    return (Accuracy.OPEN if all(inside) else Accuracy.DIFFERS), sentence(said)


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
    return cards.SHORT.get(id, registry.get(id).name)


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
