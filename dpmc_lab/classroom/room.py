"""A room: yes-or-no questions to a class that is itself the data.

Every answer is randomised where it is given, by a phone or with coins (randomised response: Warner
1965), and only reports arrive. A room lives in memory, and nothing of it is ever written down.
"""

from __future__ import annotations

import enum
import math
import re
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dpmc_core.arrays import Bools, Floats
from dpmc_core.errors import DpmcError, InvalidSetting, check_number
from dpmc_core.privacy import CELL, RandomizedResponse
from dpmc_core.privacy.audit import clopper_pearson
from dpmc_core.privacy.channels import flip_chance
from dpmc_lab.classroom import CLASS, EPSILON, PHONES

QUESTIONS = range(1, 6)
LONGEST = 140  # characters of a question
DRAWS = 2**32  # a phone draws 32 random bits
COINS = 4  # a person throws a coin no more often
_TOKEN = re.compile(r"[0-9a-f]{32}", re.ASCII)
MISSED = 0.05  # of 95 % intervals
SUPPORT = 2.0  # units of log-likelihood below the best value, for likelihood-ratio intervals
TWICE = 1.0  # seconds in which a key pressed again counts once
HERE = 20.0  # seconds since a phone has asked: it asks every 2, or every 15 in a pocket

# To begin with; nothing in them that one would not ask by show of hands.
READY: dict[str, tuple[str, ...]] = {
    "Warm-up": (
        "Have you already had breakfast today?",
        "Did you sleep fewer than seven hours?",
        "Would you rather be somewhere else right now?",
    ),
    "At school": (
        "Did you finish the last homework?",
        "Have you ever copied homework?",
        "Did you look at your phone in this lesson?",
        "Do you like this subject?",
    ),
    "Films": (
        "Have you ever liked a film that you called bad in front of others?",
        "Have you ever pretended to know a film?",
        "Do you finish films that bore you?",
    ),
}


# --- the coin -----------------------------------------------------------------------------------


def lies_below(epsilon: float) -> int:
    """A phone tells the opposite where its draw of 0..DRAWS-1 is below this: rounded up, which is
    the private side. Raises InvalidSetting."""
    check_number("epsilon per answer", epsilon, at_least=0.1, at_most=10)
    return math.ceil(flip_chance(epsilon) * DRAWS)


def coin(epsilon: float, times: int = 1) -> RandomizedResponse:
    """What one answer passes on a phone; its card. times: how often it is asked."""
    return _told(lies_below(epsilon) / DRAWS, times)


def truth() -> RandomizedResponse:
    """An answer as it is: what no privacy would be."""
    return _told(0.0)


def _told(chance: float, times: int = 1) -> RandomizedResponse:
    return RandomizedResponse.binary(
        chance, chance, query="one yes or no", shape=(), sensitivity={CELL: 1.0}, times=times
    )


def attacker(channel: RandomizedResponse, prior: float = 0.5) -> float:
    """How often one is right, on average, who guesses an answer from its reports; prior: how sure
    of a yes before."""
    return channel.loss(1).right(prior)


def equal_reports(
    channel: RandomizedResponse, times: int, prior: float = 0.5
) -> tuple[float, float]:
    """The chance that all reports of one phone to one question agree, for an answer given `times`
    times, and how often an attacker is then right; prior: how sure of a yes before."""
    opposite, honest = _flips(channel) ** times, (1 - _flips(channel)) ** times
    cases = (prior * honest, (1 - prior) * opposite), (prior * opposite, (1 - prior) * honest)
    return honest + opposite, sum(map(max, cases)) / (honest + opposite)


def weight(channel: RandomizedResponse) -> float:
    """How many people a report that somebody makes up moves the estimate by."""
    return 1 / (1 - 2 * _flips(channel))


def good_to(channel: RandomizedResponse, phones: int) -> float:
    """Half the 95 % interval for people like those, of a share of about one half; 0.5 where it says
    nothing."""
    return _half(Poll(phones // 2, phones, channel).of_people)


def class_to(channel: RandomizedResponse, phones: int) -> float:
    """The same for those themselves."""
    return _half(Poll(phones // 2, phones, channel).of_class)


def _half(found: Bounds | None) -> float:
    return 0.5 if found is None else (found.high - found.low) / 2


def _flips(channel: RandomizedResponse) -> float:
    return float(channel.matrix[0, 1])


class Coins(NamedTuple):
    """A fair coin thrown so often in place of a phone's tilted one: show the other hand at no more
    than so many heads."""

    coins: int
    heads: int

    @property
    def chance(self) -> float:
        """Of showing the other hand."""
        ways: int = sum(math.comb(self.coins, heads) for heads in range(self.heads + 1))
        return float(ways / 2**self.coins)

    @property
    def channel(self) -> RandomizedResponse:
        return _told(self.chance)


def coins(epsilon: float) -> Coins:
    """The rule that tells most at no more than an epsilon. Raises InvalidSetting."""
    least = lies_below(epsilon) / DRAWS
    rules = (Coins(n, heads) for n in range(1, COINS + 1) for heads in range(n))
    fit = [rule for rule in rules if least <= rule.chance < 0.5]
    if not fit:
        best = Coins(COINS, 1).channel.cell_epsilon
        raise InvalidSetting(
            "epsilon per answer", f"at least {best:.2g} for {COINS} throws", epsilon, "take phones"
        )
    return min(fit, key=lambda rule: (rule.chance, rule.coins))


# --- what reports say ---------------------------------------------------------------------------


class Bounds(NamedTuple):
    """A share with the ends of its 95 % interval."""

    share: float
    low: float
    high: float


class Linked(NamedTuple):
    """People who have reported equally often to one question. yes: of all these reports; chance:
    that one of them tells the opposite."""

    people: int
    times: int
    yes: int
    chance: float = 0.0

    @property
    def mirrored(self) -> Linked:
        """The same with yes for no."""
        return self._replace(yes=self.people * self.times - self.yes)

    @property
    def share(self) -> float:
        told = self.yes / (self.people * self.times)
        return (told - self.chance) / (1 - 2 * self.chance)


@dataclass(frozen=True)
class Poll:
    """Reports to one question, and the channel that each of them passed. yes: of them; linked: by
    how many people where some have reported more than once: the reports of one are one unit."""

    yes: int
    reports: int
    channel: RandomizedResponse
    linked: tuple[Linked, ...] = ()

    def __post_init__(self) -> None:
        check_number("reports", self.reports, at_least=0, integer=True)
        check_number("reports of yes", self.yes, at_least=0, at_most=self.reports, integer=True)

    @classmethod
    def joined(cls, linked: Iterable[Linked], channel: RandomizedResponse) -> Poll:
        told = tuple(one for one in sorted(linked) if one.people)
        reports = sum(one.people * one.times for one in told)
        return cls(sum(one.yes for one in told), reports, channel, told)

    @property
    def parts(self) -> tuple[Linked, ...]:
        """People by how often they have reported."""
        linked = self.linked or (Linked(self.reports, 1, self.yes),)
        return tuple(one._replace(chance=_flips(self.channel)) for one in linked)

    @property
    def people(self) -> int:
        """Who have reported."""
        return sum(part.people for part in self.parts)

    @property
    def naive(self) -> Bounds | None:
        """The share of yes among the reports, as if nobody had been flipped; None without any."""
        if not self.reports:
            return None
        return Bounds(self.yes / self.reports, *_binomial(self.yes, self.reports, MISSED / 2))

    @property
    def share(self) -> float:
        """The share of yes among the answers: (reported - f) / (1 - 2f) for a flip chance f, each
        person counting once. It is unbiased and may leave 0..1; whatever is shown, and every
        interval, uses `shown_share`."""
        return _pooled_share(self.parts)

    @property
    def shown_share(self) -> float:
        """The most likely share within 0..1."""
        return min(max(self.share, 0.0), 1.0)

    @property
    def of_class(self) -> Bounds | None:
        """The share among those who have reported: their answers are fixed, and chance is their
        phones' alone. Covers it in at least 95 of 100 classes, whatever they answer."""
        if not self.reports:
            return None
        ends = _among(self.parts, MISSED / 2)
        return Bounds(self.shown_share, *(end / self.people for end in ends))

    @property
    def of_people(self) -> Bounds | None:
        """The share in a population that they are drawn from at random, as many as they like."""
        if not self.reports:
            return None
        return Bounds(self.shown_share, *_in_population(self.parts, MISSED / 2))

    def resolved_by(self, phones: int) -> Bounds:
        """The interval that so many phones of people like those would give, each asked once, if
        their reports had exactly this share. There must be reports."""
        chance = _flips(self.channel)
        yes = round(phones * (chance + self.shown_share * (1 - 2 * chance)))
        people = (Linked(phones, 1, yes, chance),)
        return Bounds(self.shown_share, *_in_population(people, MISSED / 2))


def difference(one: Poll, other: Poll, alarm: float = MISSED) -> Bounds | None:
    """By how much the share of `one` is above that of `other` among the same people; None where
    they are not as many.

    One who says no to the other question counts as one who says yes to it upside down, so the
    difference is a share of twice as many. Whatever the two answers of a person have to do with
    each other, they are fixed, and their reports are drawn apart.
    """
    people = one.people
    if not people or people != other.people:
        return None
    low, high = _among(one.parts + tuple(part.mirrored for part in other.parts), alarm / 2)
    return Bounds(one.share - other.share, low / people - 1, high / people - 1)


# --- their exact laws -----------------------------------------------------------------------------
#
# Each person weighs the same: the statistic is the sum over people of their share of yes. It stands
# on a grid of whole numbers. Where chances differ, weights are rounded to it, which costs width and
# never coverage: the law is that of the rounded statistic.

_FINEST = 64  # of the grid's steps in the smallest weight
_CLOSE = 1e-9  # what a tail may be off
_ROUNDING = 1e-12  # a smaller chance may be rounding error of a transform


def _binomial(count: int, of: int, tail: float) -> tuple[float, float]:
    """The ends of Clopper and Pearson's interval."""
    low, high = (clopper_pearson(count, of, lower=end, alarm=tail) for end in (True, False))
    return low, high


def _waves(times: int, chance: float, step: int, size: int) -> NDArray[np.complex128]:
    """What one person reports who answers yes, and no: Fourier coefficients of the two laws, each
    yes being so many steps of a grid."""
    wave = np.exp(-2j * np.pi * step * np.arange(size // 2 + 1) / size)
    flips = np.array([[chance], [1 - chance]])
    found: NDArray[np.complex128] = (flips + (1 - flips) * wave) ** times
    return found


@lru_cache(maxsize=2)
def _laws(people: int, times: int, chance: float, step: int) -> Floats:
    """Row N: the law of the yes reported where N of them would answer yes."""
    last = step * people * times
    size = _power_of_two(last + 1)
    yes, no = np.log(_waves(times, chance, step, size))
    many = np.arange(people + 1)[:, None]
    laws: Floats = np.fft.irfft(np.exp(many * yes + (people - many) * no), size)
    return np.maximum(laws[:, : last + 1], 0.0)


def _power_of_two(least: int) -> int:
    return max(2, 1 << (least - 1).bit_length())


def _steps(parts: Sequence[Linked]) -> list[int]:
    """The weight of a reported yes in each part, in steps of a grid: as 1/(times (1 - 2f))."""
    each = np.array([1 / (part.times * (1 - 2 * part.chance)) for part in parts])
    grids = np.arange(1, _FINEST + 1)[:, None] * (each / each.min())
    off = np.abs(np.round(grids) / grids - 1).max(axis=1)
    finest = np.flatnonzero(off <= max(off.min(), _CLOSE))[0]
    return [round(step) for step in grids[finest]]


@lru_cache(maxsize=1024)
def _among(parts: tuple[Linked, ...], tail: float) -> tuple[int, int]:
    """How many at least, and at most, would answer yes: those for whom neither so many reported yes
    nor so few had a chance of only `tail`, however they are spread over the parts."""
    people, mirrored = sum(part.people for part in parts), [part.mirrored for part in parts]
    low, few = (min(_fewest(side, tail), _fewest_supported(side)) for side in (parts, mirrored))
    high = people - few
    return (low, high) if low <= high else (min(low, people), min(low, people))


def _pooled_share(parts: Sequence[Linked]) -> float:
    """The unbiased share of all parts, each person counting once."""
    return sum(part.people * part.share for part in parts) / sum(part.people for part in parts)


# Past 0 or 1 no share explains the reports well, and the intervals above shrink to a point, as if
# the share were certain. There they are widened to the likelihood-ratio interval: every share whose
# log-likelihood is within SUPPORT of the best (Edwards, "Likelihood", 1972). Coverage only grows.
# Reports too unlikely for the precision of a transform are read as the last ones that are not,
# which leaves a wider interval.


def _fewest_supported(parts: Sequence[Linked]) -> int:
    """How many at least would answer yes, by the likelihood-ratio interval of a class; all of them
    unless the estimated share is above 1."""
    if _pooled_share(parts) <= 1:
        return sum(part.people for part in parts)
    best = np.zeros(1)  # of N: the largest log-likelihood, however N is spread over the parts
    for part in parts:
        laws = _laws(part.people, part.times, part.chance, 1)
        yes = min(part.yes, np.flatnonzero(laws[-1] > _ROUNDING)[-1])
        logs = np.log(np.maximum(laws[:, yes], _ROUNDING**2))
        spread = np.full(len(best) + len(logs) - 1, -math.inf)
        for k, before in enumerate(best):
            np.maximum(spread[k : k + len(logs)], before + logs, out=spread[k : k + len(logs)])
        best = spread
    return int(np.flatnonzero(best >= best.max() - SUPPORT - _CLOSE)[0])


def _fewest(parts: Sequence[Linked], tail: float) -> int:
    """How many at least; all of them where even that makes so many reports too unlikely."""
    *before, (last, step) = sorted(
        zip(parts, _steps(parts), strict=True), key=lambda one: one[0].people
    )
    unit = before[0][1] if len(before) == 1 else 1  # one part needs no grid
    above = np.ones((1, 1))  # [N, t]: the largest chance of t and more of those before, N say yes
    told = step * last.yes
    for part, weight in before:
        above = _worst(above, _laws(part.people, part.times, part.chance, weight // unit))
        told += weight * part.yes
    least = -((step * np.arange(last.people * last.times + 1) - told) // unit)  # of those before
    inside = np.clip(least, 0, above.shape[1] - 1)
    reached = np.where(least < above.shape[1], above[:, inside], 0.0)
    likely = reached @ _laws(last.people, last.times, last.chance, 1).T > tail - _CLOSE
    fewest = np.add(*np.nonzero(likely))
    return int(fewest.min(initial=sum(part.people for part in parts)))


def _worst(above: Floats, laws: Floats) -> Floats:
    """The largest tails of a sum, over all ways to spread N over its two parts.

    The largest tails of a part are themselves those of a law, and above every law of the part: so
    is their sum. above: tails of the one; laws: of the other.
    """
    last = above.shape[1] + laws.shape[1] - 1
    size = _power_of_two(last)
    one = np.fft.rfft(-np.diff(above, append=0.0), size)
    other = np.fft.rfft(laws, size)
    found = np.zeros((len(above) + len(laws) - 1, last))
    for k, wave in enumerate(one):
        law = np.fft.irfft(wave * other, size)[:, :last]
        rows = found[k : k + len(laws)]
        np.maximum(rows, law[:, ::-1].cumsum(axis=1)[:, ::-1], out=rows)
    return found


@lru_cache(maxsize=1024)
def _in_population(parts: tuple[Linked, ...], tail: float) -> tuple[float, float]:
    """As `_among`, for the share of a population."""
    mirrored = tuple(part.mirrored for part in parts)
    if all(part.times == 1 for part in parts):  # Clopper and Pearson, through the channel
        (part,) = parts
        ends = _binomial(part.yes, part.people, tail)
        low, high = ((told - part.chance) / (1 - 2 * part.chance) for told in ends)
    else:
        low = _least_share(parts, tail)
        high = 1 - _least_share(mirrored, tail)
    low, high = min(low, _least_supported(parts)), max(high, 1 - _least_supported(mirrored))
    return max(low, 0.0), min(high, 1.0)


def _least_supported(parts: Sequence[Linked]) -> float:
    """As `_fewest_supported`, for the share of a population."""
    if _pooled_share(parts) <= 1:
        return 1.0
    law, told = _mixed(parts)
    best = law(1.0)
    told = min(told, np.flatnonzero(best > _ROUNDING)[-1])

    def above(share: float) -> float:
        """By how much a share is supported."""
        return float(law(share)[told] / best[told]) - math.exp(-SUPPORT)

    return 0.0 if above(0.0) > 0 else float(brentq(above, 0, 1, xtol=1e-9))


def _least_share(parts: Sequence[Linked], tail: float) -> float:
    law, told = _mixed(parts)

    def above(share: float) -> float:
        """How much likelier than `tail` so many reported yes are."""
        return float(law(share)[told:].sum()) - tail

    if above(0.0) > 0:
        return 0.0
    return 1.0 if above(1.0) < 0 else float(brentq(above, 0, 1, xtol=1e-9))


def _mixed(parts: Sequence[Linked]) -> tuple[Callable[[float], Floats], int]:
    """The law of the statistic by the share of a population, and what it was."""
    weighed = list(zip(_steps(parts), parts, strict=True))
    told = sum(step * part.yes for step, part in weighed)
    last = sum(step * part.people * part.times for step, part in weighed)
    size = _power_of_two(last + 1)
    waves = [_waves(part.times, part.chance, step, size) for step, part in weighed]

    def law(share: float) -> Floats:
        each = (
            (share * yes + (1 - share) * no) ** part.people
            for part, (yes, no) in zip(parts, waves, strict=True)
        )
        whole: Floats = np.fft.irfft(math.prod(each), size)[: last + 1]
        return whole

    return law, told


def reports_of(
    answers: Bools, channel: RandomizedResponse, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """What simulated phones send, one of each."""
    told = replace(channel, shape=answers.shape).publish(answers.astype(np.uint8), rng)
    return np.asarray(told, dtype=np.uint8)


# --- the room -----------------------------------------------------------------------------------


class NotTaken(DpmcError):
    """A report that is not taken; says why."""


class Malformed(NotTaken):
    """It is no report at all."""


class Waits(NotTaken):
    """It may be sent again: the teacher has to let the phone in."""


class Receipt(enum.Enum):
    """What became of a report that is taken."""

    NEW = "new"
    AGAIN = "again"  # it had arrived before


class Sender(enum.Enum):
    """Who sends reports; those of two kinds never meet in one estimate."""

    PHONES = "phones"
    HANDS = "hands"
    SIMULATED = "simulated phones"


@dataclass(frozen=True)
class Asking:
    """One question, asked once. number: counts every asking of the room from 0; question: its place
    in the list; epsilon: of an answer to it; reports: by the token of a browser; counts: those that
    no phone sent."""

    number: int
    question: int
    epsilon: float
    locked: bool = False
    reports: dict[str, int] = field(default_factory=dict)
    counts: Mapping[Sender, Poll] = field(default_factory=dict)

    @property
    def heard(self) -> bool:
        """Whether somebody has answered."""
        return bool(self.reports or self.counts)


@dataclass(frozen=True, kw_only=True)
class Ballot:
    """A lesson's guess, asked beside the questions, which nothing hides.

    number: from -1 down; options: what there is to choose; right: the place of the right one;
    reports: the place chosen, by the token of a browser.
    """

    number: int
    title: str
    options: tuple[str, ...]
    right: int | None = None
    locked: bool = False
    reports: dict[str, int] = field(default_factory=dict)

    def counts(self) -> list[int]:
        """How many have chosen each option."""
        chosen = [*self.reports.values()]
        return [chosen.count(place) for place in range(len(self.options))]

    def sound(self, picks: Any) -> int | None:
        """The place that a phone sends, where it is what was asked for: [[place, 1]]."""
        try:
            ((place, bit),) = picks
        except (TypeError, ValueError):
            return None
        sound = type(place) is int and type(bit) is int and bit == 1
        return place if sound and 0 <= place < len(self.options) else None


@dataclass(frozen=True)
class View:
    """A room at one moment.

    epsilon: of questions that have not been asked yet; on: number of the asking that is on; hides:
    whether nothing is shown of a question while it takes reports; tested: whether a phone has been
    here; opened: when, in seconds of the monotonic clock; pretended: how many simulated phones
    answer yes, by the question; connected: pages of phones that are there now; waiting: phones that
    ask to be let in; beside: number of the ballot that is on in place of a question, else 0.
    """

    id: str
    questions: tuple[str, ...]
    epsilon: float
    opened: float
    askings: tuple[Asking, ...] = ()
    on: int = 0
    hides: bool = True
    ended: bool = False
    tested: bool = False
    pretended: Mapping[int, int] = field(default_factory=dict)
    connected: int = 0
    waiting: int = 0
    ballots: tuple[Ballot, ...] = ()
    beside: int = 0

    @property
    def now(self) -> Asking | None:
        return self.askings[self.on] if self.askings else None

    @property
    def ballot(self) -> Ballot | None:
        return self.ballots[-1 - self.beside] if self.beside else None

    @property
    def open(self) -> Asking | Ballot | None:
        """What phones are asked at the moment."""
        return self.ballot or self.now

    @property
    def locked(self) -> bool:
        return self.open is not None and self.open.locked

    @property
    def shown(self) -> View:
        """What a wall may show: without the reports to the round that is open, unless it is the
        first one and nothing is hidden."""
        now = self.now
        if now is None or now.locked or self.ended:
            return self
        if not self.hides and len(self.rounds(now.question)) == 1:
            return self
        return self.having(replace(now, reports={}, counts={}))

    def having(self, one: Asking | Ballot) -> View:
        """The same with another state of one asking, or of a ballot."""
        if isinstance(one, Ballot):
            found = {ballot.number: ballot for ballot in self.ballots} | {one.number: one}
            return replace(self, ballots=tuple(found.values()))
        before, after = self.askings[: one.number], self.askings[one.number + 1 :]
        return replace(self, askings=(*before, one, *after))

    def rounds(self, question: int) -> tuple[Asking, ...]:
        """Every asking of a question, in order."""
        return tuple(one for one in self.askings if one.question == question)

    def costs(self, question: int) -> float:
        """The epsilon of each answer to a question; that of the first time holds."""
        return next((one.epsilon for one in self.rounds(question)), self.epsilon)

    def phones(self, question: int) -> set[str]:
        """Who has sent a report to a question."""
        return set().union(*(one.reports for one in self.rounds(question)))

    def poll(
        self,
        question: int,
        rounds: int | None = None,
        sender: Sender = Sender.PHONES,
        among: Collection[str] | None = None,
    ) -> Poll:
        """All reports to a question, each phone's linked. rounds: the first so many; among: of
        these phones alone."""
        asked = self.answered(question, sender)[:rounds]
        if sender is not Sender.PHONES and asked:
            told = [one.counts[sender] for one in asked]
            linked = Linked(told[0].reports, len(told), sum(poll.yes for poll in told))
            return Poll.joined([linked], told[0].channel)
        sent: dict[int, list[int]] = {}
        for token in set().union(*(one.reports for one in asked)):
            if among is None or token in among:
                bits = [one.reports[token] for one in asked if token in one.reports]
                sent.setdefault(len(bits), []).append(sum(bits))
        parts = (Linked(len(yes), times, sum(yes)) for times, yes in sent.items())
        return Poll.joined(parts, coin(self.costs(question)))

    def answered(self, question: int, sender: Sender = Sender.PHONES) -> list[Asking]:
        """The rounds in which some sender has reported: one without any, begun by mistake say,
        takes nothing away from the others."""
        phones = sender is Sender.PHONES
        rounds = self.rounds(question)
        return [one for one in rounds if (one.reports if phones else sender in one.counts)]

    def latest(self, question: int) -> Collection[str]:
        """The phones that have answered a question the last time."""
        asked = self.answered(question)
        return asked[-1].reports.keys() if asked else ()

    @property
    def most(self) -> float:
        """The epsilon of somebody who answered every time."""
        return sum(coin(one.epsilon).loss(1).epsilon for one in self.askings)

    def public(self) -> dict[str, Any]:
        """What every phone may know."""
        now, ballot = self.open, self.ballot
        question = "" if self.now is None else self.questions[self.now.question]
        again = 0 if self.now is None or ballot else len(self.rounds(self.now.question)) - 1
        epsilon = 0.0 if ballot else self.epsilon if self.now is None else self.now.epsilon
        return {
            "room": self.id,
            "asking": None if now is None else now.number,
            "question": ballot.title if ballot else question,
            "options": ballot.options if ballot else (),
            "again": again,
            "epsilon": epsilon,
            "below": lies_below(epsilon) if epsilon else 0,
            "open": now is not None and not self.locked and not self.ended,
            "ended": self.ended,
        }


class Room:
    """Questions, and the reports that arrive; safe to use from several threads."""

    def __init__(
        self,
        questions: Sequence[str],
        epsilon: float = EPSILON,
        rng: np.random.Generator | None = None,
        expected: int = PHONES // 2,
    ) -> None:
        """rng: of simulated phones; expected: phones, of which twice as many have a place without
        being let in. Raises InvalidSetting."""
        lies_below(epsilon)
        check_number("phones expected", expected, at_least=1, at_most=PHONES // 2, integer=True)
        asked = _questions([text for text in questions if text.strip()])
        self._view = View(secrets.token_hex(4), asked, float(epsilon), time.monotonic())
        self._rng = rng or np.random.default_rng()
        self._lock = threading.RLock()
        self._pressed = -math.inf
        self._seen: dict[str, float] = {}  # when pages of phones have last asked; the latest last
        self._places = 2 * expected
        self._inside: set[str] = set()
        self._waiting: dict[str, str] = {}  # tokens in order, and the address each came from

    def view(self) -> View:
        """The room as it is now; what arrives later is not in it."""
        with self._lock:
            still = tuple(replace(one, reports=dict(one.reports)) for one in self._view.askings)
            beside = tuple(replace(one, reports=dict(one.reports)) for one in self._view.ballots)
            since = time.monotonic() - HERE
            here = sum(then > since for then in self._seen.values())
            return replace(self._view, askings=still, ballots=beside, connected=here)

    def _set(self, **changed: Any) -> None:
        with self._lock:
            self._view = replace(self._view, **changed)

    def visited(self, page: str = "") -> None:
        """A phone has asked; page: a random number of the page that is open on it, to count it."""
        with self._lock:
            self._set(tested=True)
            if _TOKEN.fullmatch(page):
                self._seen.pop(page, None)
                self._seen[page] = time.monotonic()
                if len(self._seen) > 2 * PHONES:
                    del self._seen[next(iter(self._seen))]

    def ask(self, question: int) -> None:
        """Ask a question, the first time or again; the one before it is over.

        The one that is on stays on while nobody has answered it: pressed twice, or in two tabs, a
        button asks once.
        """
        with self._lock:
            view = self._unended()
            last = len(view.questions) - 1
            check_number("question", question, at_least=0, at_most=last, integer=True)
            self._set(beside=0)
            if view.now is not None and view.now.question == question and not view.now.heard:
                self.lock(False)
                return
            asking = Asking(len(view.askings), question, view.costs(question))
            self._set(askings=(*view.askings, asking), on=asking.number)
            if question in view.pretended:  # they answer again, like everybody
                self._simulate(asking, view.pretended[question])

    def press(self, question: int, *, again: bool = False) -> None:
        """What a teacher's key does: go to a question, which is as it was left, or new, or ask it
        again. After the end it still leads to every question that was asked. A key that bounces,
        pressed twice in TWICE seconds, counts once."""
        with self._lock:
            now = time.monotonic()
            if now - self._pressed < TWICE:
                return
            rounds = self._view.rounds(question)
            if again or not rounds:
                self.ask(question)
            else:
                self._set(on=rounds[-1].number, beside=0)
            self._pressed = now

    def lock(self, locked: bool = True, ballot: int = 0) -> None:
        """Take no more reports to the question that is on, or take them again; ballot: the number
        of one to lock instead, whatever is on."""
        with self._lock:
            target = self._view.ballots[-1 - ballot] if ballot else self._view.open
            if target is not None:
                self._view = self._view.having(replace(target, locked=locked))

    def hide(self, hides: bool = True) -> None:
        """Whether a question's results wait until it is locked."""
        self._set(hides=hides)

    def add(self, question: str) -> None:
        """One question more, at the end. Raises InvalidSetting, NotTaken."""
        with self._lock:
            self._set(questions=_questions((*self._unended().questions, question)))

    def cost(self, epsilon: float) -> None:
        """Another epsilon for every answer to questions that have not been asked yet. Raises
        InvalidSetting, NotTaken."""
        lies_below(epsilon)
        with self._lock:
            self._unended()
            self._set(epsilon=float(epsilon))

    def vote(self, title: str, options: Sequence[str], right: int | None = None) -> None:
        """Ask all phones for a guess that nothing hides and that replaces no open question. Raises
        NotTaken."""
        with self._lock:
            view = self._unended()
            if isinstance(view.open, Asking) and not view.locked:
                raise NotTaken("A question is still open. Lock it on the page Class first.")
            number = -1 - len(view.ballots)
            ballot = Ballot(number=number, title=title, options=tuple(options), right=right)
            self._view = view.having(ballot)
            self._set(beside=number)

    def show(self, number: int) -> None:
        """Go back to a ballot, as it was left."""
        self._set(beside=number)

    def end(self) -> None:
        """Take no more reports at all."""
        self._set(ended=True)

    def count(self, yes: int, hands: int) -> None:
        """Hands shown to the question that is on, each after a throw of `coins`; the last count
        holds. Raises InvalidSetting, NotTaken."""
        check_number("hands", hands, at_least=1, at_most=PHONES, integer=True)
        check_number("hands that say yes", yes, at_least=0, at_most=hands, integer=True)
        with self._lock:
            asking = self._on()
            for one in self._view.answered(asking.question, Sender.HANDS):
                before = one.counts[Sender.HANDS].reports
                if one.number != asking.number and before != hands:
                    limit = f"{before}, as the first time"
                    raise InvalidSetting("hands", limit, hands, "the same people answer again")
            self._put(asking, Sender.HANDS, Poll(yes, hands, coins(asking.epsilon).channel))

    def simulate(self, yes: int) -> None:
        """CLASS simulated phones, of which so many answer yes, each time the question that is on is
        asked. Raises InvalidSetting, NotTaken."""
        check_number("simulated phones that say yes", yes, at_least=0, at_most=CLASS, integer=True)
        with self._lock:
            for one in self._view.rounds(self._on().question):
                self._simulate(one, yes)

    def _simulate(self, asking: Asking, yes: int) -> None:
        channel = coin(asking.epsilon)
        told = reports_of(np.arange(CLASS) < yes, channel, self._rng)
        self._put(asking, Sender.SIMULATED, Poll(int(told.sum()), CLASS, channel))
        self._set(pretended={**self._view.pretended, asking.question: yes})

    def _put(self, asking: Asking, sender: Sender, told: Poll) -> None:
        counts = {**asking.counts, sender: told}
        self._view = self._view.having(replace(asking, counts=counts))

    def _on(self) -> Asking:
        now = self._unended().now
        if now is None:
            raise NotTaken("No question has been asked yet.")
        return now

    def _unended(self) -> View:
        if self._view.ended:
            raise NotTaken("The room is closed.")
        return self._view

    def report(
        self,
        room: Any,
        asking: Any,
        token: Any,
        bit: Any = None,
        address: str = "",
        picks: Any = None,
    ) -> Receipt:
        """Take what a phone sends, a bit or, to a ballot, picks; the same twice counts once. Raises
        NotTaken, with a sentence."""
        if room != self._view.id:
            raise NotTaken("This is a report to another room; open the link of this one.")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise Malformed("The report has no valid token: 32 hexadecimal digits.")
        if type(asking) is not int:
            raise Malformed("The report does not say which question it answers.")
        if asking >= 0 and (type(bit) is not int or bit not in (0, 1)):
            raise Malformed("The report must be 0 or 1.")
        with self._lock:
            view = self._view
            there: Sequence[Asking | Ballot] = (*view.askings, *view.ballots)
            known = next((one for one in there if one.number == asking), None)
            if known is None:
                raise NotTaken("This question has not been asked.")
            guesses = asking < 0
            told: Any = known.sound(picks) if isinstance(known, Ballot) else bit
            if told is None:
                raise Malformed("The report must be one of the options.")
            before = known.reports.get(token)
            if before == told:
                return Receipt.AGAIN
            if before is not None:
                raise NotTaken("This browser has already answered; its first report counts.")
            self._unended()
            if known is not view.open:
                raise NotTaken("This question is over; the report came too late.")
            if known.locked:
                raise NotTaken("The teacher has closed this question; the report came too late.")
            most = self._places if guesses else PHONES
            if len(known.reports) >= most:
                raise NotTaken(f"The room is full: {most} phones have answered.")
            if not guesses:  # who guesses does so under a name of its own
                self._enter(token, address)
            known.reports[token] = told
            self._set(tested=True)
        return Receipt.NEW

    def _enter(self, token: str, address: str) -> None:
        """Give a browser its place. Raises Waits where the teacher has to.

        One address asks for no more places than there were, so that it hides no other's phones.
        """
        if token not in self._inside and len(self._inside) < self._places:
            self._inside.add(token)
        if token in self._inside:
            return
        same = sum(one == address for one in self._waiting.values())
        if token not in self._waiting and same < self._places and len(self._waiting) < PHONES:
            self._waiting[token] = address
            self._set(waiting=len(self._waiting))
        raise Waits(
            "More phones are here than the teacher expects. This one waits to be let in, and then"
            " sends its report by itself."
        )

    def let_in(self, phones: int) -> None:
        """Give a place to so many of the phones that wait, first come, first served."""
        with self._lock:
            for token in list(self._waiting)[:phones]:
                del self._waiting[token]
                self._inside.add(token)
            self._set(waiting=len(self._waiting))


def _questions(texts: Sequence[str]) -> tuple[str, ...]:
    """Each on one line, neither too long nor too many. Raises InvalidSetting."""
    asked = tuple(" ".join(text.split()) for text in texts)
    for question in asked:
        if not 0 < len(question) <= LONGEST:
            raise InvalidSetting("question", f"1 to {LONGEST} characters", len(question))
    if len(asked) not in QUESTIONS:
        limit = f"{QUESTIONS[0]} to {QUESTIONS[-1]}"
        raise InvalidSetting("number of questions", limit, len(asked))
    return asked
