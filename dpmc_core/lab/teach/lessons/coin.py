"""The first lesson: a coin stands between my answer and what is sent, so I can deny it."""

from __future__ import annotations

import math

from dpmc_core.lab.sweep.presets import EPSILONS
from dpmc_core.lab.teach.lessons.frame import (
    HUNDRED,
    Dots,
    Elsewhere,
    Lesson,
    Moved,
    Pick,
    Predict,
    Reveal,
    Slide,
    Throws,
    Worlds,
    heard,
    lie,
    over_epsilon,
    people,
    stops,
)
from dpmc_core.lab.teach.room import EPSILON, View
from dpmc_core.lab.teach.room_view import two_coins
from dpmc_core.lab.views.cards import hundred

_QUESTION = "Have you ever copied homework?"


def slides() -> tuple[Slide, ...]:
    lies = lie(EPSILON)
    return (
        Slide(
            key="throw",
            title="A coin answers with you",
            said=f"“{_QUESTION}” You tap your answer. Before it leaves, your phone throws one"
            " tilted coin: mostly it sends what you tapped, sometimes the opposite.",
            predict=Predict.number(
                f"All of {HUNDRED} people tap yes, at epsilon {EPSILON:g}. About how many phones"
                " send no?",
                lies,
                (0.5, 1 - lies),
                hundred,
            ),
            move=(stops(), Throws()),
            reveal=_throw,
            teacher="Do not ask who tapped what. Ask instead: could anybody tell, from one dot?",
            in_class=_phones,
        ),
        Slide(
            key="deny",
            title="What a yes proves",
            said="The teacher sees that your phone sent yes, and not what you tapped.",
            predict=Predict(
                "Can you deny that you tapped yes?",
                (
                    "No: my phone sent it",
                    "Yes: a phone also sends yes for some who tapped no",
                ),
                int(lies > 0),
            ),
            move=(stops(),),
            reveal=_deny,
            teacher="The excuse must hold for those who did tap no: only then does it help those"
            " who tapped yes.",
        ),
        Slide(
            key="evidence",
            title="Epsilon limits the evidence",
            said="A yes is evidence. Its weight: how many times as often somebody who tapped yes"
            " sends it as somebody who tapped no.",
            predict=Predict.number(
                f"At epsilon {EPSILON:g}: how many times as often?",
                math.exp(EPSILON),
                (EPSILON, EPSILON**2),
                "{:.2g}".format,
            ),
            move=(
                stops(),
                Pick("sent", "The phone sent", {"yes": "yes", "no": "no"}, "yes"),
            ),
            reveal=_evidence,
            teacher="This ratio is the definition: no matter what is sent and who looks, it stays"
            " at most e to the power of epsilon.",
            after=Elsewhere(
                "The same coin on film ratings", "what_if", {"epsilon": f"{EPSILON:g}"}
            ),
        ),
        Slide(
            key="dial",
            title="Who sets the coin?",
            said="Epsilon is the dial of the coin, and it is set before anybody answers.",
            predict=Predict(
                "You want a better excuse. Which way must epsilon go?",
                ("Down", "Up"),
                int(lie(EPSILONS[-1]) > lie(EPSILONS[0])),
            ),
            move=(stops(),),
            reveal=_dial,
            teacher="At the left end the phone sends almost nothing but noise; at the right end it"
            " hardly ever lies. One end is useless to the crowd, the other to you.",
        ),
    )


def _throw(moved: Moved) -> Reveal:
    epsilon, throw = moved["epsilon"], moved["throw"]
    told = people(1.0, HUNDRED, epsilon, throw)
    turned = told.flipped.count(True)
    return Reveal(
        (
            f"On average {hundred(lie(epsilon))} of {HUNDRED} phones send the opposite; in this"
            f" throw {turned}.",
            "The teacher sees the dots without the strokes: nobody knows which ones lie.",
        ),
        told,
        f"Simulated: {HUNDRED} people who all tapped yes.",
    )


def _phones(view: View) -> Reveal | None:
    """What the phones or coins of a room did, which nobody can see."""
    found = heard(view)
    if found is None:
        return None
    many = found.poll.reports
    lies = float(found.poll.channel.matrix[1, 0])
    return Reveal(
        (
            f"Of {many} reports {lies * many:.1f} are the opposite of the answer, on average."
            " Nobody knows which.",
        ),
        Dots(found.bits),
        found.words,
    )


def _deny(moved: Moved) -> Reveal:
    epsilon = moved["epsilon"]
    lies = lie(epsilon)
    return Reveal(
        (
            f"A yes arrives from {hundred(1 - lies)} of {HUNDRED} who tapped yes, and from"
            f" {hundred(lies)} of {HUNDRED} who tapped no.",
            "Whoever sent yes can say: that was the coin. The rarer a false yes, the poorer the"
            " excuse.",
            two_coins(epsilon),
        ),
        Worlds(
            ("sends yes", "sends no"),
            {"You tapped yes": (1 - lies, lies), "You tapped no": (lies, 1 - lies)},
        ),
        f"So many of {HUNDRED} phones",
    )


def _evidence(moved: Moved) -> Reveal:
    epsilon, sent = moved["epsilon"], moved["sent"]
    lies = lie(epsilon)
    tapped = {"yes": "no", "no": "yes"}
    return Reveal(
        (
            f"{_times(math.exp(epsilon))} times: {hundred(1 - lies)} against {hundred(lies)}.",
            f"That is e to the power of epsilon, e to the {epsilon:g}. It is what epsilon means: no"
            " report is stronger evidence than that.",
        ),
        Worlds(
            (f"sends {sent}",),
            {f"Tapped {sent}": (1 - lies,), f"Tapped {tapped[sent]}": (lies,)},
        ),
        f"So many of {HUNDRED} phones",
    )


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= HUNDRED else f"{ratio:.2g}"


def _dial(moved: Moved) -> Reveal:
    epsilon = moved["epsilon"]
    lies = tuple(map(lie, EPSILONS))
    return Reveal(
        (
            f"At epsilon {epsilon:g}, {hundred(lie(epsilon))} of {HUNDRED} phones send the"
            f" opposite; at {EPSILONS[0]:g} it is {hundred(lies[0])}, at {EPSILONS[-1]:g} it is"
            f" {hundred(lies[-1])}.",
            "Smaller epsilon: more lies, a better excuse, and less to be learned from the answers.",
        ),
        over_epsilon(
            epsilon,
            {"send the opposite": lies},
            f"Phones of {HUNDRED} that send the opposite",
            high=0.5,
        ),
    )


LESSON = Lesson(
    "coin",
    "The coin: I can deny my answer",
    6,
    "My phone may have lied for me, so I can deny my answer; epsilon says how good that excuse is.",
    slides,
)
