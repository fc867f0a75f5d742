"""The attacker, and the trade: how often one may be right, against what is predicted all the same.

One question is asked of all curves. Across stands how often the best attacker, who starts at 50:50,
is right *at most*: by the law of the noise where it is known, else a bound. A certificate that is
infinite, or useless, stands beyond the axis: a missing proof is no success of an attacker.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from dpmc_core.errors import InvalidSetting, capital, sentence
from dpmc_core.model import Task
from dpmc_core.privacy import (
    CELL,
    RATING,
    ROW_VALUES,
    USER_EMPTIED,
    USER_REPLACED,
    Additive,
    Budget,
    Change,
    Guarantee,
    LocalChannel,
    ModifiedLaplace,
    RandomizedResponse,
    SymbolChannel,
    Trust,
    calibrate,
    sensitivity_at,
)
from dpmc_core.privacy.accounting import attacker_certainty
from dpmc_lab.curves import cards
from dpmc_lab.curves.cards import MOST, TYPICAL, capped, of_hundred
from dpmc_lab.curves.lines import Interval, Line, Picture
from dpmc_lab.curves.measurements import Tick, shipped_of, tick_of
from dpmc_lab.curves.noise import symbols
from dpmc_lab.curves.text import Table, columns
from dpmc_lab.store import restored


class About(enum.Enum):
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
    USELESS = "no limit below 99.9 %"  # a finite one beyond the axis
    NONE = "no limit is proved"
    RAW = "sees it raw"


class Question(NamedTuple):
    """What an attacker asks. short: on a switch. answers: that it is so, and that it is not.

    change: what the two differ in. rated: of a person, whose ratings are asked for all at once;
    None for a question about less.
    """

    short: str
    text: str
    answers: tuple[str, str]
    change: Change
    rated: int | None = None

    def right(self, guarantee: Guarantee) -> float:
        """How often the best attacker is right; a coin is right half of the time."""
        return self.of(guarantee).attacker(self.change)

    def bounded(self, guarantee: Guarantee) -> bool:
        """Whether any limit on the attacker is proved; certainty is not what replaces it."""
        return math.isfinite(self.of(guarantee).loss(self.change).epsilon)

    def answer(self, card: Guarantee) -> str:
        """How often the attacker is right, and the epsilon where it is not the card's own."""
        if not self.bounded(card):
            return sentence(cards.limit(self.text, 1.0, proved=False))
        told = cards.limit(self.text, self.right(card))
        if self.change is not USER_REPLACED and self.rated is None:
            return told
        name = capital(self.short) if self.rated else "Between two such sets"
        return f"{told} {name}: {cards.spent(self.of(card), self.change)}."

    def of(self, guarantee: Guarantee) -> Guarantee:
        """The card for a person of so many ratings, where all of them are asked for at once."""
        return guarantee if self.rated is None else capped(guarantee, self.rated)


class Switches(NamedTuple):
    """The question of three switches."""

    about: About = About.RATING
    relation: Relation = Relation.REPLACED
    seat: Seat = Seat.READER

    def question(self, task: Task, rated: int | None = TYPICAL) -> Question:
        """What is asked of every card alike.

        rated: how many ratings the person gave, which counts where single ones are protected. A
        click has no value: it is there or not, and only all clicks of a person may become others.
        """
        clicks, removed = task is Task.RANKING, self.relation is Relation.REMOVED
        name, yes = "click" if clicks else "rating", ("yes", "no")
        if self.about is About.RATING:
            change = CELL if removed or clicks else RATING
            answers = ("high", "low") if change is RATING else yes
            return Question(f"this {name}", cards.question(change, clicks=clicks), answers, change)
        if removed:
            text = cards.question(USER_EMPTIED)
            return Question("in the data?", text, yes, USER_EMPTIED, rated)
        short = f"all {rated} {name}s" if rated else f"which {name}s?"
        other = ROW_VALUES if rated and not clicks else USER_REPLACED
        return Question(short, cards.question(other, clicks=clicks), yes, other, rated)


def questions(guarantee: Guarantee, task: Task, rated: int) -> tuple[Question, Question]:
    """What may be asked of a person: something small, and everything.

    rated: how many ratings the person gave.
    """
    if guarantee.change.per_user:
        small, count = Switches(About.PERSON, Relation.REMOVED), None
    else:
        small, count = Switches(About.RATING), rated
    return small.question(task, count), Switches(About.PERSON).question(task, count)


class Bead(NamedTuple):
    """A method at one epsilon.

    right: how often the attacker is right at most. alone: the same by epsilon and delta of the
    certificate alone; claimed: by those of the paper, None where it claims nothing about this;
    delta: of the certificate.
    """

    epsilon: float
    value: Interval
    stand: Stand
    right: float
    alone: float
    claimed: float | None
    delta: float = 0.0


class Track(NamedTuple):
    """A line of the trade. tick: what was measured of it; no proof can put it left of `least`."""

    line: Line
    beads: tuple[Bead, ...]
    tick: Tick | None = None
    least: float = 0.5

    def at(self, epsilon: float) -> Bead:
        """The bead at an epsilon, or at the nearest computed."""
        return min(self.beads, key=lambda point: abs(math.log(point.epsilon / epsilon)))


class Trade(NamedTuple):
    """All lines under one question, and what they run between. guesses: private ones."""

    seat: Seat
    question: Question
    picture: Picture
    tracks: tuple[Track, ...]
    guesses: tuple[Track, ...]


def log_odds(success_rate: float) -> float:
    """Where it stands on the axis: a coin at 0."""
    return math.log(success_rate / (1 - success_rate))


def trade(chart: Picture, task: Task, switches: Switches) -> Trade:
    """The lines of a picture under the question of three switches. Raises DpmcError."""
    question, position = switches.question(task), switches.seat
    trade_lines, baseline_lines = (
        tuple(_track(line, question, position) for line in curve_lines)
        for curve_lines in (chart.lines, chart.guesses)
    )
    return Trade(position, question, chart, trade_lines, baseline_lines)


def _track(line: Line, question: Question, position: Seat) -> Track:
    def card(epsilon: float) -> Guarantee:
        settings = {**line.info.settings, "epsilon": epsilon}
        return restored(line.mechanism, settings).guarantee(line.info.public)

    points = tuple(
        _bead(epsilon, value, question.of(card(epsilon)), question, position)
        for epsilon, value in zip(line.epsilon.tolist(), line.intervals, strict=True)
    )
    raw = any(point.stand is Stand.RAW for point in points)
    return Track(line, points, *(() if raw else _measured(line, question, card)))


def _bead(
    epsilon: float, value: Interval, guarantee: Guarantee, question: Question, position: Seat
) -> Bead:
    proved, is_reader = guarantee.certified(question.change), position is Seat.READER
    if not is_reader and guarantee.trust is Trust.CURATOR:
        return Bead(epsilon, value, Stand.RAW, 1.0, 1.0, None)
    # A recommender that sees shares is held off only while the third party does not side with it,
    # and by the paper's Gaussian shares not even then. Of a federation the server gets what the
    # releases cover; each party, which sees its own users' ratings, is not the server.
    if not proved.finite or not (is_reader or guarantee.trust is not Trust.AGGREGATOR):
        return Bead(epsilon, value, Stand.NONE, 1.0, 1.0, _claimed(guarantee, question))
    success_rate = guarantee.attacker(question.change)
    state = Stand.BOUND if success_rate <= MOST else Stand.USELESS
    certificate_rate = attacker_certainty(proved.epsilon, proved.delta)
    return Bead(
        epsilon,
        value,
        state,
        success_rate,
        certificate_rate,
        _claimed(guarantee, question),
        proved.delta,
    )


def _claimed(guarantee: Guarantee, question: Question) -> float | None:
    """By the paper's epsilon and delta alone; None where it claims less than is asked about."""
    steps = sensitivity_at({guarantee.change: 1.0}, question.change, guarantee.public)
    if guarantee.claimed is None or steps > 1:
        return None
    return attacker_certainty(guarantee.claimed.epsilon, guarantee.claimed.delta)


def _measured(
    line: Line, question: Question, build_guarantee: Callable[[float], Guarantee]
) -> tuple[Tick, float] | tuple[()]:
    """What an audit found, where what it changed is within what is asked about.

    It stands where the method itself would with as much noise as the audit allows at most.
    """
    bound, point = shipped_of(line.mechanism), tick_of(line)
    if bound is None or point is None:
        return ()
    public_facts = question.of(build_guarantee(bound.epsilon)).public
    if sensitivity_at({question.change: 1.0}, bound.change, public_facts) > 1:
        return ()
    success_rate = attacker_certainty(bound.measured, bound.delta)
    with suppress(InvalidSetting):  # nothing is certified, so the law of the noise tells nothing
        setting = calibrate(build_guarantee, Budget(bound.measured, bound.delta), bound.change)
        success_rate = build_guarantee(setting).attacker(bound.change)
    return point, success_rate


LEGEND = (
    "Filled: by what is certified; hollow: where its paper puts it; a tick: measured at 1, with a"
    " bar to where a proof is missing."
)


# --- in words and numbers ----------------------------------------------------------------------


def said(bead: Bead) -> str:
    """'is right at most 55 % of the time', or why there is no number."""
    if bead.stand is not Stand.BOUND:
        return str(bead.stand.value)
    return f"{cards.right_text(bead.right)} of the time"


def sentences(trade: Trade, epsilon: float) -> list[str]:
    """The question, what it counts, and what each method lets an attacker know at an epsilon."""
    question, metric = trade.question, trade.picture.metric
    counts = f"{question.change.protects}: {question.change.relation}"
    many = f"; of a person {question.rated} ratings are counted" if question.rated else ""
    text_lines = [
        f"The attacker asks “{question.text}”, {trade.seat.value} and knows everything else."
        f" The question is about {counts}{many}. A coin flip gets 50 %."
    ]
    for track in trade.tracks:
        bead = track.at(epsilon)
        text_lines.append(
            f"{track.line.label} at epsilon {bead.epsilon:g}: {metric.text(bead.value.mean)},"
            f" attacker {said(bead)}."
        )
    states = {bead.stand for track in trade.tracks for bead in track.beads}
    if states & {Stand.NONE, Stand.USELESS}:
        text_lines.append("No bound is a proof that is missing, not an attacker who is right.")
    if Stand.RAW in states:
        text_lines.append("A server that is trusted with raw ratings need not guess.")
    return text_lines


def words(trade: Trade, epsilon: float) -> str:
    """The chart as text."""
    metric = trade.picture.metric
    levels = [f"{name}: {metric.text(at.mean)}" for name, at in trade.picture.between(epsilon)]
    ticks = [
        f"{track.line.label}: {track.tick.words}, so no proof below {cards.percent(track.least)}"
        for track in trade.tracks
        if track.tick is not None
    ]
    head = f"{metric.title} against how often an attacker is right at most"
    return " ".join(map(sentence, [head, *sentences(trade, epsilon), *levels, *ticks]))


def table(trade: Trade) -> Table:
    """Every bead of every line."""
    rows = (
        (
            trade_line.line.label,
            point.epsilon,
            of_hundred(point.right) if point.stand is Stand.BOUND else point.stand.value,
            of_hundred(point.alone) if point.stand is Stand.BOUND else "",
            "" if point.claimed is None else of_hundred(point.claimed),
            *map(
                trade_line.line.metric.text, (point.value.mean, point.value.low, point.value.high)
            ),
        )
        for trade_line in trade.tracks
        for point in trade_line.beads
    )
    names = ("mechanism", "epsilon", "right at most (%)", "by epsilon and delta alone (%)")
    return columns((*names, "as claimed (%)", "mean", "from", "to"), rows)


# --- to be played in a browser -----------------------------------------------------------------


def guess(guarantee: Guarantee, question: Question) -> dict[str, Any] | None:
    """What an attacker sees in each of the two worlds of a question, to be played in a browser.

    {"symbols": names, "no": chances, "yes": chances}, or {"shift": of a number whose noise has the
    scale 1, "law": "gaussian" or "laplace"}. None where nothing is proved, so nothing is a fair
    game. The releases are those of the card; a number is the one that tells most.
    """
    if question.rated is not None or not 0.5 <= question.right(guarantee) < 1:
        return None
    releases = [release for _, release in guarantee.releases]
    single_release = releases[0] if len(releases) == 1 else None
    if isinstance(single_release, RandomizedResponse | SymbolChannel):
        no, yes = single_release.matrix[
            [int(isinstance(single_release, SymbolChannel)), -1]
        ].tolist()
        return {"symbols": symbols(single_release, guarantee.public), "no": no, "yes": yes}
    if isinstance(single_release, ModifiedLaplace):
        return {"law": "laplace", "shift": 2 / single_release.scale}
    loss = guarantee.loss(question.change)
    if any(isinstance(release, LocalChannel) for release in releases):
        return None
    if loss.epsilon == 0:
        return {"law": "gaussian", "shift": loss.mu}
    if loss.mu == 0 and all(isinstance(release, Additive) for release in releases):
        return {"law": "laplace", "shift": loss.epsilon}
    return None
