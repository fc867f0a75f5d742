"""The third lesson: what an attacker knew before matters, and epsilon limits what is added."""

from __future__ import annotations

import math

from dpmc_core.lab.sweep.presets import EPSILONS
from dpmc_core.lab.teach.lessons.frame import (
    HUNDRED,
    Bend,
    Elsewhere,
    Lesson,
    Moved,
    Pick,
    Predict,
    Reveal,
    Slide,
    Stops,
    Worlds,
    over_epsilon,
    stops,
)
from dpmc_core.lab.teach.room import attacker, coin
from dpmc_core.lab.views.cards import hundred

_EPSILON = 1.0
_EVEN, _STRONG, _KNOWN = 0.5, 0.9, 0.8  # what was believed before
_PRIORS = tuple(k / 20 for k in range(1, 20))


def prior(start: float) -> Stops:
    """How sure of a yes one is before any report."""
    ends = ("suspects no", "suspects yes")
    return Stops("before", "Sure of a yes before", _PRIORS, start, sure, ends)


def slides() -> tuple[Slide, ...]:
    before = prior(_STRONG)
    class_says = before._replace(
        label="The class says yes", start=_KNOWN, ends=("nobody", "everybody")
    )
    even, strong = after(_EVEN, _EPSILON), after(_STRONG, _EPSILON)
    against = after(_STRONG, _EPSILON, says_yes=False)
    return (
        Slide(
            key="even",
            title="Somebody wants to know",
            said="An attacker sees the report your phone sent and knows everything else, but of"
            " your answer only this: yes is as likely as no.",
            predict=Predict.number(
                f"At epsilon {_EPSILON:g}: how many times in {HUNDRED} is the best guess right?",
                even,
                (_EVEN, 1.0),
                hundred,
            ),
            move=(prior(_EVEN), stops(_EPSILON)),
            reveal=_even,
            teacher="The best guess is simply to believe the report. No cleverer attack exists:"
            " this is a limit on all who begin at even, with methods not yet invented. Then move"
            " what was believed before: from some point on the report changes no guess.",
            after=Elsewhere(
                "This limit for every mechanism", "guarantees", {"epsilon": f"{_EPSILON:g}"}
            ),
        ),
        Slide(
            key="suspicion",
            title="Somebody who suspects already",
            said=f"This attacker was {sure(_STRONG)} sure that you would say yes, before your phone"
            " sent anything. Then a yes arrives from you.",
            predict=Predict.number(
                f"At epsilon {_EPSILON:g}: how sure now?",
                strong,
                (even, _STRONG),
                sure,
            ),
            move=(before, stops(_EPSILON)),
            reveal=_suspicion,
            teacher="Ask which attacker learned more: this one, or the one before, who began at"
            " even? In odds both took the same step.",
        ),
        Slide(
            key="against",
            title="The report speaks against it",
            said=f"The same suspicion, {sure(_STRONG)}, but now a no arrives.",
            predict=Predict.number(
                f"At epsilon {_EPSILON:g}: how sure of a yes is the attacker still?",
                against,
                (1 - even, 1 - _STRONG),
                sure,
            ),
            move=(
                before,
                Pick("sent", "What arrives", {"yes": "a yes", "no": "a no"}, "no"),
                stops(_EPSILON),
            ),
            reveal=_against,
            teacher="A suspicion survives a noisy report. Privacy does not clear anybody; it"
            " keeps the report from deciding.",
        ),
        Slide(
            key="without",
            title="You never took part",
            said=f"You sent nothing. The class did, and it turns out: {sure(_KNOWN)} say"
            " yes. The attacker knows nothing else of you.",
            predict=Predict.number(
                "How sure is the attacker now that you would say yes?",
                _KNOWN,
                (after(_KNOWN, _EPSILON), 1.0),
                sure,
            ),
            move=(class_says, stops(_EPSILON)),
            reveal=_without,
            teacher="What science learns of everybody, it learns of you, whether you take part or"
            " not. Differential privacy limits the difference that taking part makes: no more.",
        ),
    )


def after(before: float, epsilon: float, says_yes: bool = True) -> float:
    """How sure of a yes one is after a report, by Bayes' rule: odds times e^epsilon, or through it.

    The channel of one answer is the room's coin.
    """
    matrix = coin(epsilon).matrix  # [answer, report]
    told = int(says_yes)
    yes, no = before * float(matrix[1, told]), (1 - before) * float(matrix[0, told])
    return yes / (yes + no)


def sure(share: float) -> str:
    return f"{hundred(share)} %"


def _even(moved: Moved) -> Reveal:
    before, epsilon = moved["before"], moved["epsilon"]
    curve = tuple(attacker(coin(stop), before) for stop in EPSILONS)
    alone = max(before, 1 - before)
    return Reveal(
        (
            f"Right {hundred(attacker(coin(epsilon), before))} times in {HUNDRED}; with no report"
            f" it was {hundred(alone)}.",
            f"On average over what the phone may send; it holds for any computer, and for whoever"
            f" was {sure(before)} sure of a yes before.",
        ),
        over_epsilon(
            epsilon,
            {"with the report": curve},
            f"Right so many times in {HUNDRED}",
            low=_EVEN,
            levels={"without it": alone},
        ),
    )


def _moved(moved: Moved, says_yes: bool) -> tuple[float, Bend]:
    before, epsilon = moved["before"], moved["epsilon"]
    return after(before, epsilon, says_yes), Bend(
        "sure before",
        tuple(map(sure, _PRIORS)),
        {
            "after the report": tuple(after(prior, epsilon, says_yes) for prior in _PRIORS),
            "before": _PRIORS,
        },
        _PRIORS.index(before),
        "Sure of a yes",
        sure,
        high=1.0,
    )


def _suspicion(moved: Moved) -> Reveal:
    before, epsilon = moved["before"], moved["epsilon"]
    now, bend = _moved(moved, True)
    return Reveal(
        (
            f"From {sure(before)} to {sure(now)} sure.",
            f"In odds: {odds(before)} becomes {odds(now)}, times {math.exp(epsilon):,.3g}. Epsilon"
            f" allows this one step, from wherever an attacker starts.",
        ),
        bend,
    )


def _against(moved: Moved) -> Reveal:
    before, epsilon, sent = moved["before"], moved["epsilon"], moved["sent"]
    now, bend = _moved(moved, sent == "yes")
    way = "times" if sent == "yes" else "divided by"
    return Reveal(
        (
            f"From {sure(before)} to {sure(now)} sure.",
            f"The odds of a yes, {odds(before)}, are {way} {math.exp(epsilon):,.3g}:"
            f" {odds(now)}. The report adds or takes one step; what was known before stays.",
        ),
        bend,
    )


def _without(moved: Moved) -> Reveal:
    before, epsilon = moved["before"], moved["epsilon"]
    low, high = after(before, epsilon, says_yes=False), after(before, epsilon)
    return Reveal(
        (
            f"{sure(before)}: as sure as of anybody in such a class.",
            f"Had you taken part, it would be {sure(high)} after a yes and {sure(low)} after a no."
            " Epsilon limits how far these lie from the middle, not the middle.",
        ),
        Worlds(
            ("",),
            {
                "Your phone sent no": (low,),
                "You did not take part": (before,),
                "Your phone sent yes": (high,),
            },
        ),
        f"How sure of your yes, in {HUNDRED}",
    )


def odds(share: float) -> str:
    """For and against, the smaller one as one."""
    ratio = share / (1 - share)
    return f"{ratio:,.3g} : {1:g}" if ratio >= 1 else f"{1:g} : {1 / ratio:,.3g}"


LESSON = Lesson(
    "attacker",
    "The attacker: what was known before",
    7,
    "Epsilon does not limit what others believe of me, only how far my report can move it.",
    slides,
)
