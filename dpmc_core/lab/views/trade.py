"""The trade: how often an attacker may be right, against what a method predicts all the same.

One question is asked of all curves. Across stands how often the best attacker, who starts at 50:50,
is right *at most*: by the law of the noise where it is known, else a bound. A certificate that is
infinite, or useless, stands beyond the axis: a missing proof is no success of an attacker.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from dpmc_core.errors import InvalidSetting, sentence
from dpmc_core.lab.store import restored
from dpmc_core.lab.views.audits import shipped_of, tick_of
from dpmc_core.lab.views.cards import TYPICAL, of_hundred
from dpmc_core.lab.views.comparison import Question
from dpmc_core.lab.views.lines import Interval, Line, Picture
from dpmc_core.lab.views.text import columns
from dpmc_core.model import Task
from dpmc_core.privacy import (
    CELL,
    RATING,
    ROW_VALUES,
    USER_EMPTIED,
    USER_REPLACED,
    Budget,
    Guarantee,
    Trust,
    calibrate,
    sensitivity_at,
)
from dpmc_core.privacy.accounting import attacker_certainty

MOST = 0.999  # right so often: where the axis ends


class Unit(enum.Enum):
    """What is asked about."""

    RATING = "this rating"
    PERSON = "her whole row"


class Relation(enum.Enum):
    """What it may be instead."""

    REPLACED = "replaced"
    REMOVED = "removed"


class Seat(enum.Enum):
    """Where the attacker sits."""

    READER = "reads what is published"
    SERVER = "runs the server"


class Stand(enum.Enum):
    """What is known of an attacker, in words."""

    BOUND = "at most"
    USELESS = "above 99.9"  # a finite bound beyond the axis
    NONE = "no bound"
    RAW = "sees it raw"


class Asked(NamedTuple):
    """The question of three switches."""

    unit: Unit = Unit.RATING
    relation: Relation = Relation.REPLACED
    seat: Seat = Seat.READER

    def question(self, task: Task, rated: int = TYPICAL) -> Question:
        """What is asked of every card alike. rated: ratings of a person, where each is protected.

        A click has no value: it is there or not, so only a person's clicks may become others.
        """
        clicks, removed = task is Task.RANKING, self.relation is Relation.REMOVED
        name = "click" if clicks else "rating"
        if self.unit is Unit.PERSON:
            other = USER_REPLACED if clicks else ROW_VALUES
            text = f"Which of two sets of {name}s was hers?"
            if removed:
                other, text = USER_EMPTIED, f"Were her {name}s in the data?"
            return Question(f"all {rated} {name}s", text, ("yes", "no"), other, rated)
        text = "Was it liked or not?" if task is Task.BINARY else "Which of two ratings was it?"
        if removed or clicks:
            text = f"Is there a {name} at all?"
        return Question(f"this {name}", text, ("yes", "no"), CELL if removed or clicks else RATING)


class Bead(NamedTuple):
    """A method at one epsilon.

    right: how often the attacker is right at most. alone: the same by epsilon and delta of the
    certificate alone; claimed: by those of the paper, None where it claims nothing about this.
    """

    epsilon: float
    value: Interval
    stand: Stand
    right: float
    alone: float
    claimed: float | None


class Track(NamedTuple):
    """A line of the trade. measured: (epsilon, right, words): no proof can put it left of that."""

    line: Line
    beads: tuple[Bead, ...]
    measured: tuple[float, float, str] | None

    def at(self, epsilon: float) -> Bead:
        """The bead at an epsilon, or at the nearest computed."""
        return min(self.beads, key=lambda bead: abs(math.log(bead.epsilon / epsilon)))


class Trade(NamedTuple):
    """All lines under one question, and what they run between. guesses: private ones."""

    asked: Asked
    question: Question
    picture: Picture
    tracks: tuple[Track, ...]
    guesses: tuple[Track, ...]


def log_odds(right: float) -> float:
    """Where it stands on the axis: a coin at 0."""
    return math.log(right / (1 - right))


def trade(picture: Picture, task: Task, asked: Asked, rated: int = TYPICAL) -> Trade:
    """The lines of a picture under a question. Raises DpmcError."""
    question = asked.question(task, rated)
    tracks, guesses = (
        tuple(_track(line, question, asked.seat) for line in side)
        for side in (picture.lines, picture.guesses)
    )
    return Trade(asked, question, picture, tracks, guesses)


def _track(line: Line, question: Question, seat: Seat) -> Track:
    def card(epsilon: float) -> Guarantee:
        settings = {**line.info.settings, "epsilon": epsilon}
        return restored(line.mechanism, settings).guarantee(line.info.public)

    beads = tuple(
        _bead(epsilon, value, question.of(card(epsilon)), question, seat)
        for epsilon, value in zip(line.epsilon.tolist(), line.intervals, strict=True)
    )
    raw = any(bead.stand is Stand.RAW for bead in beads)
    return Track(line, beads, None if raw else _measured(line, question, card))


def _bead(epsilon: float, value: Interval, card: Guarantee, question: Question, seat: Seat) -> Bead:
    proved, held = card.certified(question.change), seat is Seat.READER
    if not held and card.trust is Trust.CURATOR:
        return Bead(epsilon, value, Stand.RAW, 1.0, 1.0, None)
    # A recommender that sees shares is held off only while the third party does not side with it,
    # and by the paper's Gaussian shares not even then. Of a federation the server gets what the
    # releases cover; each party, which sees its own users' ratings, is not the server.
    if not proved.finite or not (held or card.trust is not Trust.AGGREGATOR):
        return Bead(epsilon, value, Stand.NONE, 1.0, 1.0, _claimed(card, question))
    right = card.attacker(question.change)
    stand = Stand.BOUND if right <= MOST else Stand.USELESS
    alone = attacker_certainty(proved.epsilon, proved.delta)
    return Bead(epsilon, value, stand, right, alone, _claimed(card, question))


def _claimed(card: Guarantee, question: Question) -> float | None:
    """By the paper's epsilon and delta alone, put together for what is more than its own unit."""
    steps = sensitivity_at({card.change: 1.0}, question.change, card.public)
    if card.claimed is None or math.isinf(steps):
        return None
    epsilon, delta = card.claimed.epsilon, card.claimed.delta
    more = math.expm1(min(steps * epsilon, 700.0)) / math.expm1(min(epsilon, 700.0))
    return attacker_certainty(steps * epsilon, min(delta * more, 1.0))


def _measured(
    line: Line, question: Question, card: Callable[[float], Guarantee]
) -> tuple[float, float, str] | None:
    """What an audit found, where what it changed is within what is asked about.

    It stands where the method itself would with as much noise as the audit allows at most.
    """
    found, tick = shipped_of(line.mechanism), tick_of(line)
    if found is None or tick is None:
        return None
    here = question.of(card(found.epsilon)).public
    if sensitivity_at({question.change: 1.0}, found.change, here) > 1:
        return None
    right = attacker_certainty(found.measured, found.delta)
    with suppress(InvalidSetting):  # nothing is certified, so the law of the noise tells nothing
        setting = calibrate(card, Budget(found.measured, found.delta), found.change)
        right = card(setting).attacker(found.change)
    return found.epsilon, right, tick.words


# --- in words and numbers ----------------------------------------------------------------------


def said(bead: Bead) -> str:
    """'at most 54.7 in 100 (by epsilon and delta alone 73.1)', or why there is no such number."""
    if bead.stand in (Stand.NONE, Stand.RAW):
        return bead.stand.value
    best, alone = of_hundred(bead.right), of_hundred(bead.alone)
    rest = "" if best == alone else f" (by epsilon and delta alone {alone})"
    return f"{'at most' if bead.stand is Stand.BOUND else 'above'} {best} in 100{rest}"


def sentences(trade: Trade, epsilon: float) -> list[str]:
    """The question, what it counts, and what each method lets an attacker know at an epsilon."""
    asked, question, metric = trade.asked, trade.question, trade.picture.metric
    counts = f"{question.change.protects}: {question.change.relation}"
    many = f"; of a person {question.rated} ratings are counted" if question.rated else ""
    told = [
        f"{question.text} The attacker {asked.seat.value}, starts at 50 in 100 and knows"
        f" everything else ({counts}{many})."
    ]
    for track in trade.tracks:
        bead = track.at(epsilon)
        told.append(
            f"{track.line.label} at epsilon {bead.epsilon:g}: {metric.text(bead.value.mean)},"
            f" attacker right {said(bead)}."
        )
    stands = {bead.stand for track in trade.tracks for bead in track.beads}
    if stands & {Stand.NONE, Stand.USELESS}:
        told.append("No bound is a proof that is missing, not an attacker who is right.")
    if Stand.RAW in stands:
        told.append("A server that is trusted with raw ratings need not guess.")
    return told


def words(trade: Trade, epsilon: float) -> str:
    """The chart as text."""
    metric = trade.picture.metric
    levels = [f"{name}: {metric.text(at.mean)}" for name, at in trade.picture.between(epsilon)]
    ticks = [
        f"{track.line.label}: {words}, so no proof below {of_hundred(right)} in 100"
        for track in trade.tracks
        for _, right, words in filter(None, [track.measured])
    ]
    head = f"{metric.title} against how often an attacker is right at most"
    return " ".join(map(sentence, [head, *sentences(trade, epsilon), *levels, *ticks]))


def table(trade: Trade) -> dict[str, list[object]]:
    """Every bead of every line."""
    rows = (
        (
            track.line.label,
            bead.epsilon,
            of_hundred(bead.right) if bead.stand is Stand.BOUND else bead.stand.value,
            of_hundred(bead.alone) if bead.stand is Stand.BOUND else "",
            "" if bead.claimed is None else of_hundred(bead.claimed),
            *map(track.line.metric.text, (bead.value.mean, bead.value.low, bead.value.high)),
        )
        for track in trade.tracks
        for bead in track.beads
    )
    names = ("mechanism", "epsilon", "right at most, in 100", "by epsilon and delta alone")
    return columns((*names, "as claimed", "mean", "from", "to"), rows)
