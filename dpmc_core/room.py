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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import DpmcError, InvalidSetting, check_number
from dpmc_core.privacy import CELL, RandomizedResponse
from dpmc_core.privacy.audit import clopper_pearson
from dpmc_core.privacy.channels import flip_chance

EPSILON = 2.0  # of an answer, where nobody says
PHONES = 1000  # a room has no place for more
QUESTIONS = range(1, 6)
LONGEST = 140  # characters of a question
DRAWS = 2**32  # a phone draws 32 random bits
COINS = 4  # a person throws no more of them
CLASS = 30  # simulated phones
_AS_IF = 14  # the seed of "if so many answered like these"
_TOKEN = re.compile(r"[0-9a-f]{32}", re.ASCII)
_MISSED = 0.05  # of 95 % intervals

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


def attacker(channel: RandomizedResponse) -> float:
    """How often one is right who guesses an answer from its reports, knowing nothing before."""
    return (1 + channel.loss(1).delta_at(0.0)) / 2


def weight(channel: RandomizedResponse) -> float:
    """How many people a report that somebody makes up moves the estimate by."""
    return 1 / (1 - 2 * _flips(channel))


def good_to(channel: RandomizedResponse, phones: int) -> float:
    """Half the 95 % interval of a share of about one half; 0.5 where it says nothing."""
    found = Poll(phones // 2, phones, channel).debiased
    return 0.5 if found is None else (found.high - found.low) / 2


def _flips(channel: RandomizedResponse) -> float:
    return float(channel.matrix[0, 1])


class Coins(NamedTuple):
    """Fair coins in place of a phone: show the other hand at no more than so many heads."""

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
            "epsilon per answer", f"at least {best:.2g} for {COINS} coins", epsilon, "take phones"
        )
    return min(fit, key=lambda rule: (rule.chance, rule.coins))


# --- what reports say ---------------------------------------------------------------------------


class Bounds(NamedTuple):
    """A share with the ends of its 95 % interval."""

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Poll:
    """Reports to one question, and the channel that each of them passed. yes: of them."""

    yes: int
    reports: int
    channel: RandomizedResponse

    def __post_init__(self) -> None:
        check_number("reports", self.reports, at_least=0, integer=True)
        check_number("reports of yes", self.yes, at_least=0, at_most=self.reports, integer=True)

    @property
    def naive(self) -> Bounds | None:
        """The share of yes among the reports, as if nobody had been flipped; None without any."""
        if not self.reports:
            return None
        low, high = (
            clopper_pearson(self.yes, self.reports, lower=lower, alarm=_MISSED / 2)
            for lower in (True, False)
        )
        return Bounds(self.yes / self.reports, low, high)

    @property
    def debiased(self) -> Bounds | None:
        """The share of yes among the answers: (reported - f) / (1 - 2f) for a flip chance f.

        The interval (Clopper and Pearson's, seen through the same line) covers the share in the
        class, and where it is asked once also that in a population it is drawn from, in at least 95
        of 100 classes. The share is not cut to 0..1: that would make it biased; the interval is.
        """
        told = self.naive
        if told is None:
            return None
        chance = _flips(self.channel)
        share, low, high = ((value - chance) / (1 - 2 * chance) for value in told)
        return Bounds(share, min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0))


def apart(one: Bounds, other: Bounds) -> bool:
    """Whether two shares may be ranked: their intervals have nothing in common."""
    return one.low > other.high or other.low > one.high


def simulated(
    share: float, phones: int, channel: RandomizedResponse, rng: np.random.Generator
) -> Poll:
    """So many answers drawn with a share of yes, each through the channel."""
    check_number("share", share, at_least=0, at_most=1)
    check_number("phones", phones, at_least=1, integer=True)
    return _sent(rng.random(phones) < share, channel, rng)


def as_if(share: float, phones: int, channel: RandomizedResponse) -> Poll:
    """What so many might report who answer like a share that was estimated.

    Drawn the same way every time: it moves with the share alone.
    """
    rng = np.random.default_rng((_AS_IF, phones))
    return simulated(min(max(share, 0.0), 1.0), phones, channel, rng)


def _sent(
    answers: NDArray[np.bool_], channel: RandomizedResponse, rng: np.random.Generator
) -> Poll:
    told = replace(channel, shape=answers.shape).publish(answers.astype(np.uint8), rng)
    return Poll(int(told.sum()), len(answers), channel)


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
    in the list; reports: by the token of a browser."""

    number: int
    question: int
    reports: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """A room at one moment.

    tested: whether a phone has been here; opened: when, in seconds of the monotonic clock; counts:
    reports that no phone sent, by the number of the asking; pretended: how many simulated phones
    answer yes, by the question; waiting: phones that ask to be let in.
    """

    id: str
    questions: tuple[str, ...]
    epsilon: float
    askings: tuple[Asking, ...]
    locked: bool
    ended: bool
    tested: bool
    opened: float
    counts: Mapping[tuple[int, Sender], Poll] = field(default_factory=dict)
    pretended: Mapping[int, int] = field(default_factory=dict)
    waiting: int = 0

    @property
    def now(self) -> Asking | None:
        return self.askings[-1] if self.askings else None

    def heard(self, asking: Asking) -> bool:
        """Whether somebody has answered it."""
        return bool(asking.reports) or any((asking.number, one) in self.counts for one in Sender)

    @property
    def phones(self) -> int:
        """Browsers that have sent a report."""
        return len({token for asking in self.askings for token in asking.reports})

    def rounds(self, question: int) -> tuple[Asking, ...]:
        """Every asking of a question, in order."""
        return tuple(one for one in self.askings if one.question == question)

    def poll(
        self, question: int, rounds: int | None = None, sender: Sender = Sender.PHONES
    ) -> Poll:
        """The reports of those who answered a question every time; rounds: the first so many."""
        channel = coin(self.epsilon)
        if sender is not Sender.PHONES:
            told = self.told(question, sender)[:rounds]
            channel = told[0].channel if told else channel
            return Poll(sum(p.yes for p in told), sum(p.reports for p in told), channel)
        asked = self._answered(question)[:rounds]
        if not asked:
            return Poll(0, 0, channel)
        faithful = set.intersection(*(set(one.reports) for one in asked))
        yes = sum(one.reports[token] for one in asked for token in faithful)
        return Poll(yes, len(faithful) * len(asked), channel)

    def _answered(self, question: int) -> list[Asking]:
        """The rounds to which some phone has sent a report: one without any, begun by mistake say,
        takes nothing away from the others."""
        return [one for one in self.rounds(question) if one.reports]

    def told(self, question: int, sender: Sender) -> list[Poll]:
        """What others than phones have sent to a question, each time there was something."""
        rounds = (self.counts.get((one.number, sender)) for one in self.rounds(question))
        return [poll for poll in rounds if poll is not None]

    def times(self, question: int, sender: Sender = Sender.PHONES) -> int:
        """How often somebody has answered a question who did so every time."""
        phones = sender is Sender.PHONES
        return len(self._answered(question) if phones else self.told(question, sender))

    def people(self, question: int, sender: Sender = Sender.PHONES) -> int:
        """How many have answered a question every time."""
        reports = self.poll(question, sender=sender).reports
        return reports // max(self.times(question, sender), 1)

    @property
    def most(self) -> float:
        """The epsilon of somebody who answered every time."""
        return coin(self.epsilon, len(self.askings)).loss(1).epsilon if self.askings else 0.0

    def public(self) -> dict[str, Any]:
        """What every phone may know."""
        now = self.now
        return {
            "room": self.id,
            "asking": None if now is None else now.number,
            "question": "" if now is None else self.questions[now.question],
            "again": 0 if now is None else len(self.rounds(now.question)) - 1,
            "epsilon": self.epsilon,
            "below": lies_below(self.epsilon),
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
        asked = tuple(one for text in questions if (one := " ".join(text.split())))
        if len(asked) not in QUESTIONS:
            limit = f"{QUESTIONS[0]} to {QUESTIONS[-1]}"
            raise InvalidSetting("number of questions", limit, len(asked))
        for text in asked:
            if len(text) > LONGEST:
                raise InvalidSetting("question", f"at most {LONGEST} characters", len(text))
        now = time.monotonic()
        self._view = View(secrets.token_hex(4), asked, float(epsilon), (), False, False, False, now)
        self._rng = rng or np.random.default_rng()
        self._places = 2 * expected
        self._inside: set[str] = set()
        self._waiting: dict[str, str] = {}  # tokens in order, and the address each came from
        self._lock = threading.Lock()

    def view(self) -> View:
        """The room as it is now; what arrives later is not in it."""
        with self._lock:
            *earlier, last = self._view.askings or (None,)
            if last is None:
                return self._view
            return replace(
                self._view, askings=(*earlier, replace(last, reports=dict(last.reports)))
            )

    def visited(self) -> None:
        """A phone has opened its page."""
        with self._lock:
            self._view = replace(self._view, tested=True)

    def ask(self, question: int) -> None:
        """Ask a question, the first time or again; the one before it is over.

        The one that is on stays on while nobody has answered it: pressed twice, or in two tabs, a
        button asks once.
        """
        check_number("question", question, at_least=0, integer=True)
        with self._lock:
            view = self._view
            check_number("question", question, at_most=len(view.questions) - 1)
            self._open(view)
            if view.now is not None and view.now.question == question and not view.heard(view.now):
                self._view = replace(view, locked=False)
                return
            asking = Asking(len(view.askings), question)
            self._view = replace(view, askings=(*view.askings, asking), locked=False)
            if question in view.pretended:  # they answer again, like everybody
                self._simulate(asking, view.pretended[question])

    def lock(self, locked: bool = True) -> None:
        """Take no more reports to the question that is on, or take them again."""
        with self._lock:
            self._view = replace(self._view, locked=locked)

    def end(self) -> None:
        """Take no more reports at all."""
        with self._lock:
            self._view = replace(self._view, ended=True)

    def count(self, yes: int, hands: int) -> None:
        """Hands shown to the question that is on, each after a throw of `coins`; the last count
        holds. Raises InvalidSetting, NotTaken."""
        check_number("hands", hands, at_least=1, at_most=PHONES, integer=True)
        check_number("hands that say yes", yes, at_least=0, at_most=hands, integer=True)
        channel = coins(self._view.epsilon).channel
        with self._lock:
            asking = self._on()
            for one in self._view.rounds(asking.question)[:-1]:
                before = self._view.counts.get((one.number, Sender.HANDS))
                if before is not None and before.reports != hands:
                    limit = f"{before.reports}, as the first time"
                    raise InvalidSetting("hands", limit, hands, "the same people answer again")
            self._put(asking, Sender.HANDS, Poll(yes, hands, channel))

    def simulate(self, yes: int) -> None:
        """CLASS simulated phones, of which so many answer yes, each time the question that is on is
        asked. Raises InvalidSetting, NotTaken."""
        check_number("simulated phones that say yes", yes, at_least=0, at_most=CLASS, integer=True)
        with self._lock:
            for one in self._view.rounds(self._on().question):
                self._simulate(one, yes)

    def _simulate(self, asking: Asking, yes: int) -> None:
        told = _sent(np.arange(CLASS) < yes, coin(self._view.epsilon), self._rng)
        self._put(asking, Sender.SIMULATED, told)
        pretended = {**self._view.pretended, asking.question: yes}
        self._view = replace(self._view, pretended=pretended)

    def _put(self, asking: Asking, sender: Sender, told: Poll) -> None:
        counts = {**self._view.counts, (asking.number, sender): told}
        self._view = replace(self._view, counts=counts)

    def _on(self) -> Asking:
        self._open(self._view)
        if self._view.now is None:
            raise NotTaken("No question has been asked yet.")
        return self._view.now

    def report(self, room: Any, asking: Any, token: Any, bit: Any, address: str = "") -> Receipt:
        """Take what a phone sends; the same twice counts once. Raises NotTaken, with a sentence."""
        if room != self._view.id:
            raise NotTaken("This is a report to another room; open the link of this one.")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise Malformed("The report has no valid token: 32 hexadecimal digits.")
        if type(bit) is not int or bit not in (0, 1):
            raise Malformed("The report must be 0 or 1.")
        if type(asking) is not int:
            raise Malformed("The report does not say which question it answers.")
        with self._lock:
            view = self._view
            known = next((one for one in view.askings if one.number == asking), None)
            if known is None:
                raise NotTaken("This question has not been asked.")
            before = known.reports.get(token)
            if before == bit:
                return Receipt.AGAIN
            if before is not None:
                raise NotTaken("This browser has already answered; its first report counts.")
            self._open(view)
            if known is not view.now:
                raise NotTaken("This question is over; the report came too late.")
            if view.locked:
                raise NotTaken("The teacher has closed this question; the report came too late.")
            if len(known.reports) >= PHONES:
                raise NotTaken(f"The room is full: {PHONES} phones have answered.")
            self._enter(token, address)
            known.reports[token] = bit
            self._view = replace(view, tested=True)
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
            self._view = replace(self._view, waiting=len(self._waiting))
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
            self._view = replace(self._view, waiting=len(self._waiting))

    @staticmethod
    def _open(view: View) -> None:
        if view.ended:
            raise NotTaken("The room is closed.")


def ranking(shares: Iterable[Bounds | None]) -> bool:
    """Whether shares may be put in an order: every two of them are apart."""
    there = [one for one in shares if one is not None]
    pairs = [(a, b) for k, a in enumerate(there) for b in there[:k]]
    return bool(pairs) and all(apart(a, b) for a, b in pairs)
