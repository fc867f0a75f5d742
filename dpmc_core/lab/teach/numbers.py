"""The numbers of the lessons: one function a slide, from what is moved to what its texts name.

A slide's function is called as its lesson and its key (coin_throw); what a room that is open has to
say comes from functions of its view. Texts, and which number a picture shows where, stand in the
lessons' files.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.lab.refute.report import Shipped, shipped
from dpmc_core.lab.sweep.presets import EPSILONS
from dpmc_core.lab.teach.room import (
    CLASS,
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
from dpmc_core.lab.teach.room_view import FEWEST, senders, two_coins
from dpmc_core.lab.views import cards, comparison, lines
from dpmc_core.lab.views.audits import Lights, known_instance, lights
from dpmc_core.lab.views.comparison import KeptShare
from dpmc_core.lab.views.lines import Picture
from dpmc_core.mechanisms.one_bit import InputFlip, Output
from dpmc_core.mechanisms.private_effects import PrivateEffects
from dpmc_core.privacy import USER_EMPTIED, Guarantee
from dpmc_core.privacy.accounting import attacker_certainty
from dpmc_core.problem import SEED

Numbers = dict[str, Any]
HUNDRED = 100


def people(
    share: float, many: int, epsilon: float, throw: int
) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """A simulated class: what so many people report, of whom a share answers yes (rounded to whole
    people), and whose answers their coins have turned around. Fit to show and never to protect."""
    rng = np.random.default_rng((SEED, throw))
    answers = rng.permutation(np.arange(many) < round(share * many))
    reports = reports_of(answers, coin(epsilon), rng)
    return tuple(map(int, reports)), tuple(map(bool, reports != answers))


def lie(epsilon: float) -> float:
    """The chance that the room's coin sends the opposite."""
    return float(coin(epsilon).matrix[1, 0])


def after(before: float, epsilon: float, sent: str = "yes") -> float:
    """How sure of a yes one is after a report, by Bayes' rule."""
    yes, no = coin(epsilon).matrix[::-1, int(sent == "yes")] * (before, 1 - before)
    return float(yes / (yes + no))


def around(many: float, epsilon: float) -> float:
    """Half the 95 % interval of the debiased share, for people like those, where half of the
    reports say yes: there it is widest."""
    return good_to(truth() if math.isinf(epsilon) else coin(epsilon), int(many))


def spent(epsilon: float, times: float) -> float:
    """What so many answers through the room's coin add up to."""
    return coin(epsilon, int(times)).loss(1).epsilon


def best(epsilon: float, times: float, before: float = 0.5) -> float:
    """How often the best guess from so many reports is right; before: how sure of a yes."""
    return min(attacker(coin(epsilon, int(times)), before), math.nextafter(1.0, 0.0))  # never sure


# --- the coin -----------------------------------------------------------------------------------


def coin_throw(epsilon: float, throw: int) -> Numbers:
    reports, flipped = people(1.0, HUNDRED, epsilon, throw)
    turned = {"turned": sum(flipped), "reports": reports, "flipped": flipped}
    return coin_deny(epsilon) | turned


def coin_deny(epsilon: float) -> Numbers:
    lies = lie(epsilon)
    return {"lies": lies, "truth": 1 - lies, "two_coins": two_coins(epsilon)}


def coin_evidence(epsilon: float, sent: str) -> Numbers:
    other = {"yes": "no", "no": "yes"}[sent]
    odds = {"odds": math.exp(epsilon), "square": epsilon**2, "other": other}
    return coin_deny(epsilon) | odds


def coin_dial(epsilon: float) -> Numbers:
    least, most = EPSILONS[0], EPSILONS[-1]
    ends = {"most_lies": lie(least), "least_lies": lie(most)}
    return {"lies": lie(epsilon), "least": least, "most": most} | ends


# --- the crowd ----------------------------------------------------------------------------------


def crowd_count(share: float, epsilon: float, throw: int) -> Numbers:
    reports, flipped = people(share, CLASS, epsilon, throw)
    poll, true = Poll(sum(reports), CLASS, coin(epsilon)), round(share * CLASS) / CLASS
    lies = lie(epsilon)
    return {
        "poll": poll,
        "truth": true,
        "pulled": true * (1 - lies) + (1 - true) * lies,
        "lies": lies,
        "stretch": 1 - 2 * lies,
        "counted_holds": holds(poll.naive, true),
        "this_holds": holds(poll.of_class, true),
        "reports": reports,
        "flipped": flipped,
        "missed": MISSED,
        "often": 1 - MISSED,
    }


def holds(found: Bounds | None, true: float) -> bool:
    return found is not None and found.low <= true <= found.high


crowd_undo = crowd_count


def crowd_more(people: float, epsilon: float) -> Numbers:
    reach, free = around(people, epsilon), around(people, math.inf)
    aim = {"aim": 3000, "aimed": around(3000, epsilon), "often": 1 - MISSED}
    return {"reach": reach, "free": free} | aim


def crowd_me(people: float, epsilon: float) -> Numbers:
    return {"reach": around(people, epsilon), "sure": attacker(coin(epsilon)), "crowd": 10_000}


# --- the attacker -------------------------------------------------------------------------------


def attacker_even(before: float, epsilon: float) -> Numbers:
    return {"right": attacker(coin(epsilon), before), "alone": max(before, 1 - before)}


def attacker_suspicion(before: float, epsilon: float) -> Numbers:
    return attacker_against(before, "yes", epsilon)


def attacker_against(before: float, sent: str, epsilon: float) -> Numbers:
    other = {"even": after(0.5, epsilon, sent), "doubt": 1 - before}
    return {"now": after(before, epsilon, sent), "step": math.exp(epsilon)} | other


def attacker_without(before: float, epsilon: float) -> Numbers:
    return {"up": after(before, epsilon), "down": after(before, epsilon, "no")}


# --- again and again ----------------------------------------------------------------------------


def again_add(times: float, epsilon: float) -> Numbers:
    single = {"single": spent(epsilon, 1), "power": epsilon**times}
    return {"together": spent(epsilon, times)} | single


def again_majority(times: float, before: float, epsilon: float, throw: int) -> Numbers:
    reports, _ = people(1.0, int(times), epsilon, throw)
    yes, together, alone = sum(reports), spent(epsilon, times), max(before, 1 - before)
    return {
        "right": best(epsilon, times, before),
        "once": best(epsilon, 1, before),
        "alone": alone,
        "yes": yes,
        "verdict": 1 + (2 * yes > times) - (2 * yes < times),
        "together": together,
        "limit": max(alone, attacker_certainty(together)),
        "reports": reports,
    }


def again_keep(times: float, epsilon: float) -> Numbers:
    return {"once": best(epsilon, 1), "anew": best(epsilon, times)}


def again_person(rated: float, epsilon: float) -> Numbers:
    found = card(PER_RATING, epsilon)
    return {
        "together": cards.row_of_ratings(found, int(rated)).epsilon,
        "share": epsilon / rated,
        "once": right(PER_RATING, epsilon),
        "taste": right(PER_RATING, epsilon, int(rated)),
        "card": found,
        "bounded": found.certified(USER_EMPTIED).finite,
    }


# --- the false claim ----------------------------------------------------------------------------

SQUARES = 40  # across a picture of the table
_SEEN = 0.01  # of the brightest square: what is darker stays dark


@cache
def example(whose: str = "only") -> tuple[Lights, Guarantee, int]:
    """One rating that changes, its person's only one or one of the person with the most: what it
    lights up in a small table, the method's card, and how many ratings the person has."""
    mechanism, ratings, position = known_instance(1.0)
    counts = np.bincount(ratings.users)
    if whose == "many":
        position = int(np.flatnonzero(ratings.users == counts.argmax())[0])
    found = lights(mechanism, ratings, position)
    return found, mechanism.guarantee(ratings.public), int(counts[found.user])


def audited() -> Shipped:
    """What the shipped audit measured of the method at epsilon 1."""
    found = shipped(registry.create(Output.id, epsilon=1.0))
    if found is None:
        raise DpmcError(f"no measurement of {Output.id} came with this program")
    return found


def claim_cells(whose: str) -> Numbers:
    """The table is shown in squares of neighbouring cells, as bright as the brightest of them."""
    lit, _, rated = example(whose)
    side = lit.moved.shape[1] // SQUARES
    blocks = lit.moved.reshape(len(lit.moved), SQUARES, side).max(axis=2)
    seen = np.sqrt(blocks * (blocks >= _SEEN * blocks.max()) / blocks.max())
    return {
        "lit": lit,
        "rated": rated,
        "side": side,
        "rows": tuple(map(tuple, seen.tolist())),
        "marked": (lit.user, lit.item // side),
    }


def claim_sum(whose: str, cells: float) -> Numbers:
    lit, found, _ = example(whose)
    moved = np.sort(lit.moved, axis=None)[::-1]
    added = {"largest": float(moved[0]), "moved": float(moved[: int(cells)].sum())}
    return {"lit": lit, "card": found} | added


def claim_promise(whose: str, epsilon: float) -> Numbers:
    lit, found, _ = example(whose)
    least, most = lit.epsilon / lit.claimed, found.certified().epsilon / lit.claimed
    allowed = {"claimed": epsilon, "least": least * epsilon, "certified": most * epsilon}
    logs = {f"log_{name}": math.log10(value) for name, value in allowed.items()}
    top = {"odds": math.exp(epsilon), "log_top": math.log10(most * EPSILONS[-1])}
    return {"lit": lit, "card": found, "audit": audited()} | allowed | logs | top


def claim_repair(epsilon: float) -> Numbers:
    lit, found, _ = example()
    method = Output(epsilon=epsilon)
    theirs = method.guarantee(card(Output.id, epsilon).public)
    there = theirs.certified().epsilon / epsilon
    return {
        "lit": lit,
        "wider": found.certified().epsilon / lit.claimed,
        "least": lit.epsilon / lit.claimed,
        "there": there,
        "scale": there * theirs.releases.matrix.scale,
        "lowest": -method.bound,
        "highest": method.bound,
        "keeps": keeps(Output.id, epsilon),
        "gain": kept(Output.id, epsilon).share,
        "bottom": min(0.0, *(kept(Output.id, stop).share for stop in EPSILONS)),
        **flips(epsilon),
    }


# --- choose -------------------------------------------------------------------------------------

DATA = "movie-night"
RATED = 20  # ratings of the person whose values are asked about together
PER_RATING, PER_PERSON = InputFlip.id, PrivateEffects.id


@cache
def curve(mechanism: str) -> Picture:
    """The shipped curve of a mechanism. Raises DpmcError where it did not come along."""
    found = lines.shipped(DATA, mechanism)
    if found is None:
        raise DpmcError(f"the curve of {mechanism} on {DATA} did not come with this program")
    return found[0]


def kept(mechanism: str, epsilon: float) -> KeptShare:
    """The share of the gain over guessing that is left at a stop of epsilon."""
    picture = curve(mechanism)
    found = comparison.kept(picture, picture.lines[0], epsilon)
    if found is None:
        raise DpmcError(f"the curve of {mechanism} on {DATA} has no gain at epsilon {epsilon:g}")
    return found


def keeps(mechanism: str, epsilon: float) -> str:
    """'keeps 30 % of the gain over guessing', or 'is not clearly better than guessing'."""
    found = kept(mechanism, epsilon)
    return found.words if found.clear else f"is {found.words}"


def card(mechanism: str, epsilon: float) -> Guarantee:
    """The mechanism's card on the ratings that its curve was measured on."""
    public = curve(mechanism).lines[0].info.public
    return registry.create(mechanism, epsilon=epsilon).guarantee(public)


def right(mechanism: str, epsilon: float, rated: int | None = None) -> float:
    """How often the best attacker is right about one protected unit; rated: about all values of a
    person with so many ratings."""
    found = card(mechanism, epsilon)
    if rated is None:
        return found.attacker()
    task = registry.get(mechanism).task
    return comparison.questions(found, task, rated)[1].right(found)


def budget(mechanism: str, epsilon: float) -> str:
    """What is certified at a stop, and for what: 'epsilon 1, delta 1e-06 per user'."""
    found = card(mechanism, epsilon)
    own = found.certified()
    return f"epsilon {cards.budget_text(own.epsilon, own.delta)} {found.change.label}"


def flips(epsilon: float) -> Numbers:
    """Of each rating that is flipped before it is sent."""
    told = {"flips_keep": keeps(PER_RATING, epsilon), "flips_budget": budget(PER_RATING, epsilon)}
    return {"flips_gain": kept(PER_RATING, epsilon).share} | told


def of_method(mechanism: str, epsilon: float) -> Numbers:
    """What it keeps and what it risks."""
    whole = mechanism == PER_PERSON
    return {
        "gain": kept(mechanism, epsilon).share,
        "keeps": keeps(mechanism, epsilon),
        "right": right(mechanism, epsilon),
        "taste": None if whole else right(mechanism, epsilon, RATED),
        "rated": RATED,
        "unit": "person" if whole else "rating",
        "budget": budget(mechanism, epsilon),
    }


def choose_price(epsilon: float) -> Numbers:
    low, high = (kept(PER_RATING, EPSILONS[k]).share for k in (3, -5))
    return of_method(PER_RATING, epsilon) | {"low_gain": low, "high_gain": high}


def choose_decide(who: str, epsilon: float) -> Numbers:
    found = of_method(PER_RATING, epsilon)
    return found | {"who": who, "gain_bar": max(0.0, found["gain"])}


def choose_unit(epsilon: float) -> Numbers:
    found = of_method(PER_PERSON, epsilon) | flips(epsilon)
    return found | {"between": (found["gain"] + found["flips_gain"]) / 2}


def choose_write(who: str, promise: str, epsilon: float) -> Numbers:
    return of_method(promise, epsilon) | {"who": who}


# --- in a room ----------------------------------------------------------------------------------

_WHOSE = {
    Sender.PHONES: "Reports of your phones, at epsilon {}, to “{}”",
    Sender.HANDS: "Your hands, by coins at epsilon {}, to “{}”",
    Sender.SIMULATED: "Reports of simulated phones, at epsilon {}, to “{}”",
}


def heard(view: View) -> Numbers | None:
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
            "lies": float(poll.channel.matrix[1, 0]) * poll.reports,
            "often": 1 - MISSED,
            "reports": (1,) * poll.yes + (0,) * (poll.reports - poll.yes),
            "whose": _WHOSE[sender].format(epsilon, view.questions[question]),
        }
    return None


def spending(view: View) -> Numbers | None:
    """What whoever answered every time has spent; None where nothing has been asked."""
    if not view.askings:
        return None
    each = [f"{epsilon:g}" for epsilon in sorted({one.epsilon for one in view.askings})]
    return {"asked": len(view.askings), "each": listed(each), "total": view.most}


def listed(names: list[str]) -> str:
    """Names in a sentence: one, another and a last one. There must be some."""
    *some, last = names
    return f"{', '.join(some)} and {last}" if some else last
