"""The numbers of the lessons, each by its name: what its arguments are called are other numbers, or
what is moved, so that text and picture ask for the same one, and nothing else is computed.

What a room that is open has to say comes from functions of its view. Texts, and which number a
picture shows where, stand in the lessons' files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_core.arrays import Floats
from dpmc_core.data import datasets
from dpmc_core.errors import DpmcError
from dpmc_core.mechanisms.one_bit import InputFlip, Output
from dpmc_core.mechanisms.private_effects import PrivateEffects
from dpmc_core.privacy import USER_EMPTIED, Guarantee
from dpmc_core.privacy.accounting import attacker_certainty
from dpmc_core.problem import SEED
from dpmc_lab.classroom import CLASS
from dpmc_lab.classroom.pictures import Dots
from dpmc_lab.classroom.room import (
    MISSED,
    Bounds,
    Poll,
    Sender,
    View,
    attacker,
    coin,
    good_to,
    reports_of,
    truth,
)
from dpmc_lab.classroom.room_view import FEWEST, senders, two_coins
from dpmc_lab.curves import cards, lines, numbers, trade
from dpmc_lab.curves.lines import Count, Picture, clearly_better
from dpmc_lab.curves.numbers import KeptShare
from dpmc_lab.measured import Shipped, shipped
from dpmc_lab.sweep.presets import EPSILONS

if TYPE_CHECKING:
    from dpmc_lab.curves.audits import Lights

SQUARES = 40  # across a picture of the table
_SEEN = 0.01  # of the brightest square: what is darker stays dark
DATA = "movie-night"
PER_RATING, PER_PERSON = InputFlip.id, PrivateEffects.id
RATED = 20  # ratings of the person whose values are asked about together


# --- one coin, and many -------------------------------------------------------------------------


@cache
def people(share: float, n_people: int, epsilon: float, throw: int) -> Dots:
    """A simulated class: what so many people report, of whom a share answers yes (rounded to whole
    people), and whose answers their coins have turned around. Fit to show and never to protect."""
    rng = np.random.default_rng((SEED, throw))
    answers = rng.permutation(np.arange(n_people) < round(share * n_people))
    reports = reports_of(answers, coin(epsilon), rng)
    return Dots(tuple(map(int, reports)), tuple(map(bool, reports != answers)))


@cache
def lie(epsilon: float) -> float:
    """The chance that the room's coin sends the opposite."""
    return float(coin(epsilon).matrix[1, 0])


@cache
def after(before: float, epsilon: float, sent: str = "yes") -> float:
    """How sure of a yes one is after a report, by Bayes' rule."""
    yes, no = coin(epsilon).matrix[::-1, int(sent == "yes")] * (before, 1 - before)
    return float(yes / (yes + no))


@cache
def around(people: float, epsilon: float) -> float:
    """Half the 95 % interval of the debiased share, for people like those, where half of the
    reports say yes: there it is widest."""
    return good_to(truth() if math.isinf(epsilon) else coin(epsilon), int(people))


@cache
def spent(epsilon: float, times: float = 1) -> float:
    """What so many answers through the room's coin add up to."""
    return coin(epsilon, int(times)).loss(1).epsilon


@cache
def best(epsilon: float, times: float = 1, before: float = 0.5) -> float:
    """How often the best guess from so many reports is right; before: how sure of a yes."""
    return min(attacker(coin(epsilon, int(times)), before), math.nextafter(1.0, 0.0))  # never sure


def holds(bounds: Bounds | None, true_share: float) -> bool:
    return bounds is not None and bounds.low <= true_share <= bounds.high


# --- a false claim ------------------------------------------------------------------------------


@cache
def example(which_rating: str = "only") -> tuple[Lights, Guarantee, int]:
    """One rating that changes, its person's only one or one of the person with the most: what it
    lights up in a small table, the method's card, and how many ratings the person has."""
    from dpmc_lab.curves.audits import known_instance, lights  # with the audits

    mechanism, ratings, position = known_instance(1.0)
    counts = np.bincount(ratings.users)
    if which_rating == "many":
        position = int(np.flatnonzero(ratings.users == counts.argmax())[0])
    lit = lights(mechanism, ratings, position)
    return lit, mechanism.guarantee(ratings.public), int(counts[lit.user])


class Squares(NamedTuple):
    """The table in squares of neighbouring cells, `side` of them each, as bright as the brightest;
    marked: that of the rating that changes."""

    rows: tuple[tuple[float, ...], ...]
    marked: tuple[int, int]
    side: int


def squares(lit: Lights) -> Squares:
    n_films = lit.moved.shape[1] // SQUARES
    blocks = lit.moved.reshape(len(lit.moved), SQUARES, n_films).max(axis=2)
    brightness = np.sqrt(blocks * (blocks >= _SEEN * blocks.max()) / blocks.max())
    return Squares(tuple(map(tuple, brightness.tolist())), (lit.user, lit.item // n_films), n_films)


def audited() -> Shipped:
    """What the shipped audit measured of the method at epsilon 1."""
    measured_bound = shipped(registry.create(Output.id, epsilon=1.0))
    if measured_bound is None:
        raise DpmcError(f"no measurement of {Output.id} came with this program")
    return measured_bound


# --- film ratings -------------------------------------------------------------------------------


@cache
def curve(mechanism: str) -> Picture:
    """The shipped curve of a mechanism. Raises DpmcError where it did not come along."""
    charts = lines.shipped(DATA, mechanism)
    if charts is None:
        raise DpmcError(f"the curve of {mechanism} on {DATA} did not come with this program")
    return charts[0]


def kept(mechanism: str, epsilon: float, other_values: Floats | None = None) -> KeptShare:
    """The share of the gain over guessing that is left at a stop of epsilon; other_values: by
    values that stand in place of the curve's."""
    chart = curve(mechanism)
    line = chart.lines[0]
    line = replace(
        line, values=line.values if other_values is None else line.values * 0 + other_values
    )
    gain_share = numbers.kept(chart, line, epsilon)
    if gain_share is None:
        raise DpmcError(
            f"the curve of {mechanism} on {DATA} has no gain at epsilon {epsilon:g}:"
            " if this epsilon is new, run make rows"
        )
    return gain_share


def keeps(found: KeptShare) -> str:
    """'keeps 30 % of the gain over guessing', or 'is not clearly better than guessing'."""
    return found.words if found.clear else f"is {found.words}"


@cache
def informed(data: str) -> Picture:
    """The shipped curve of the method per person with public facts about items, then without."""
    charts = lines.shipped(data, PER_PERSON, facts=True)
    if charts is None:
        raise DpmcError(f"no curve with public facts on {data} came with this program")
    return charts[0]


def helps(data: str) -> int:
    """At how many stops the facts clearly help."""
    chart = informed(data)
    interval_pairs = zip(*(line.intervals for line in chart.lines), strict=True)
    return sum(
        clearly_better(chart.metric, with_facts, without) for with_facts, without in interval_pairs
    )


def bought(epsilon: float) -> float:
    """The epsilon without facts for what is reached with them; inf beyond the last stop."""
    with_features, without_features = informed(DATA).lines
    target = with_features.intervals[with_features.epsilon.tolist().index(epsilon)].mean
    matches = numbers.smallest_epsilons(lines.place(without_features, Count.PAPER), [target])
    return matches[0].epsilon.value


@cache
def card(method: str, epsilon: float, *, known: bool = False) -> Guarantee:
    """The method's card on the ratings that its curve was measured on; known: with what is publicly
    known of the items."""
    public = curve(method).lines[0].info.public
    if known:
        public = replace(public, features=datasets.load(DATA).ratings.public.known)
    return registry.create(method, epsilon=epsilon).guarantee(public)


@cache
def taste(method: str, epsilon: float, rated: float) -> float:
    """How often the best attacker is right about all values of a person with so many ratings."""
    guarantee = card(method, epsilon)
    return trade.questions(guarantee, registry.get(method).task, int(rated))[1].right(guarantee)


def budget(found: Guarantee) -> str:
    """What is certified, and for what: 'epsilon 1, delta 1e-6 per user'."""
    own = found.certified()
    return f"epsilon {cards.budget_text(own.epsilon, own.delta)} {found.change.label}"


# --- by name ------------------------------------------------------------------------------------

NUMBERS: Mapping[str, Callable[..., Any]] = {
    # one coin
    "lies": lie,
    "honest": lambda lies: 1 - lies,
    "hundred": lambda epsilon, throw: people(1.0, 100, epsilon, throw),
    "two_coins": two_coins,
    "odds": lambda epsilon: math.exp(epsilon),
    "square": lambda epsilon: epsilon**2,
    "other": lambda sent: {"yes": "no", "no": "yes"}[sent],
    "lowest": lambda: EPSILONS[0],
    "highest": lambda: EPSILONS[-1],
    "most_lies": lambda lowest: lie(lowest),
    "least_lies": lambda highest: lie(highest),
    # a class, or more people
    "phones": lambda share, epsilon, throw: people(share, CLASS, epsilon, throw),
    "poll": lambda phones, epsilon: Poll(phones.yes, CLASS, coin(epsilon)),
    "truth": lambda share: round(share * CLASS) / CLASS,
    "pulled": lambda truth, lies: truth * (1 - lies) + (1 - truth) * lies,
    "stretch": lambda lies: 1 - 2 * lies,
    "counted_holds": lambda poll, truth: holds(poll.naive, truth),
    "this_holds": lambda poll, truth: holds(poll.of_class, truth),
    "missed": lambda: MISSED,
    "often": lambda: 1 - MISSED,
    "reach": around,
    "free": lambda people: around(people, math.inf),
    "aim": lambda: 3000,
    "aimed": lambda aim, epsilon: around(aim, epsilon),
    "crowd": lambda: 10_000,
    # an attacker, who was so sure before
    "best": best,
    "once": lambda epsilon, before=0.5: best(epsilon, 1, before),
    "alone": lambda before: max(before, 1 - before),
    "now": after,
    "even": lambda epsilon, sent="yes": after(0.5, epsilon, sent),
    "doubt": lambda before: 1 - before,
    "down": lambda before, epsilon: after(before, epsilon, "no"),
    # the same again
    "together": spent,
    "single": lambda epsilon: spent(epsilon),
    "power": lambda epsilon, times: epsilon**times,
    "own": lambda times, epsilon, throw: Dots(people(1.0, int(times), epsilon, throw).reports),
    "verdict": lambda own, times: 1 + (2 * own.yes > times) - (2 * own.yes < times),
    "limit": lambda alone, together: max(alone, attacker_certainty(together)),
    # a false claim
    "lit": lambda whose="only": example(whose)[0],
    "proof": lambda whose="only": example(whose)[1],
    "films": lambda whose: example(whose)[2],
    "squares": squares,
    "largest": lambda lit: float(lit.moved.max()),
    "moved": lambda lit, cells: float(np.sort(lit.moved, axis=None)[::-1][: int(cells)].sum()),
    "wider": lambda lit, proof: proof.certified().epsilon / lit.claimed,
    "least": lambda lit, epsilon: lit.epsilon / lit.claimed * epsilon,
    "certified": lambda wider, epsilon: wider * epsilon,
    "top": lambda wider, highest: wider * highest,
    "audit": audited,
    "there": lambda card, epsilon: card.certified().epsilon / epsilon,
    "scale": lambda there, card: there * card.releases.matrix.scale,
    "bound": lambda: Output(epsilon=1.0).bound,
    # film ratings: what a method keeps and what it risks
    "method": lambda promise=PER_RATING: promise,
    "card": card,
    "kept": lambda method, epsilon: kept(method, epsilon),
    "gain": lambda kept: kept.share,
    "bottom": lambda method: min(0.0, *(kept(method, stop).share for stop in EPSILONS)),
    "gain_bar": lambda gain: max(0.0, gain),
    "keeps": lambda kept: keeps(kept),
    "right": lambda card: card.attacker(),
    "rated": lambda: RATED,
    "taste": taste,
    "unit": lambda method: "person" if method == PER_PERSON else "rating",
    "budget": lambda card: budget(card),
    "all_rated": lambda card, rated: cards.row_of_ratings(card, int(rated)).epsilon,
    "each_rated": lambda epsilon, rated: epsilon / rated,
    "bounded": lambda card: card.certified(USER_EMPTIED).finite,
    "low_gain": lambda: kept(PER_RATING, EPSILONS[3]).share,
    "high_gain": lambda: kept(PER_RATING, EPSILONS[-5]).share,
    "flips_gain": lambda epsilon: kept(PER_RATING, epsilon).share,
    "flips_keep": lambda epsilon: keeps(kept(PER_RATING, epsilon)),
    "flips_budget": lambda epsilon: budget(card(PER_RATING, epsilon)),
    "between": lambda gain, flips_gain: (gain + flips_gain) / 2,
    # what is public
    "informed": lambda: informed(DATA),
    "told": lambda informed, epsilon: kept(PER_PERSON, epsilon, informed.lines[0].values),
    "told_gain": lambda told: told.share,
    "told_keeps": lambda told: keeps(told),
    "told_budget": lambda epsilon: budget(card(PER_PERSON, epsilon, known=True)),
    "bought": bought,
    "reached": lambda bought: math.isfinite(bought),
    "seeds": lambda informed: len(informed.lines[0].seeds),
    "own_gain": lambda informed: kept(PER_PERSON, EPSILONS[0], informed.floors[0].values).share,
    "more": lambda informed, epsilon: clearly_better(
        informed.metric, informed.lines[0].at(epsilon), informed.floors[0].level
    ),
    "adds": lambda told_gain, gain: told_gain - gain,
    "raw_adds": lambda informed: kept(PER_PERSON, EPSILONS[0], informed.without.values).share - 1,
    "plain": lambda: curve(PER_PERSON),
    "raw_helps": lambda informed, plain: clearly_better(
        informed.metric, informed.without.level, plain.without.level
    ),
    "stops": lambda: len(EPSILONS),
    "films_help": lambda: helps(DATA),
    "others_help": lambda: helps("restaurants"),
}


# --- in a room ----------------------------------------------------------------------------------

_WHOSE = {
    Sender.PHONES: "Reports of your phones, at epsilon {}, to “{}”",
    Sender.HANDS: "Your hands, by coins at epsilon {}, to “{}”",
    Sender.SIMULATED: "Reports of simulated phones, at epsilon {}, to “{}”",
}


def heard(view: View) -> dict[str, Any] | None:
    """What a room has heard to the question that is on: from phones, else from hands, else from
    simulated phones; None without any. Reports are sorted, so that none tells who has just sent
    it."""
    if view.now is None:
        return None
    question = view.now.question
    for sender in senders(view, question):
        poll = view.poll(question, sender=sender)
        if sender is Sender.PHONES and poll.people < FEWEST:
            continue
        epsilon = cards.epsilon_text(poll.channel.cell_epsilon)
        return {
            "poll": poll,
            "opposite": float(poll.channel.matrix[1, 0]) * poll.reports,
            "phones": Dots((1,) * poll.yes + (0,) * (poll.reports - poll.yes)),
            "whose": _WHOSE[sender].format(epsilon, view.questions[question]),
        }
    return None


def spending(view: View) -> dict[str, Any] | None:
    """What whoever answered every time has spent; None where nothing has been asked."""
    if not view.askings:
        return None
    epsilon_texts = [
        f"{epsilon:g}" for epsilon in sorted({asking.epsilon for asking in view.askings})
    ]
    return {"asked": len(view.askings), "each": listed(epsilon_texts), "total": view.most}


def listed(names: list[str]) -> str:
    """Names in a sentence: one, another and a last one. There must be some."""
    *some, last = names
    return f"{', '.join(some)} and {last}" if some else last
