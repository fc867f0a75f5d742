"""The fifth lesson: a claim is no proof; one rating lights up a whole matrix."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.lab.refute.shipped import Shipped, shipped
from dpmc_core.lab.sweep.presets import EPSILONS
from dpmc_core.lab.teach.lessons import films
from dpmc_core.lab.teach.lessons.frame import (
    Bend,
    Cells,
    Elsewhere,
    Lesson,
    Moved,
    Pick,
    Predict,
    Reveal,
    Slide,
    Stops,
    over_epsilon,
    percent,
    stops,
)
from dpmc_core.lab.views import cards
from dpmc_core.lab.views.audits import Lights, known_instance, lights
from dpmc_core.mechanisms.one_bit import Output
from dpmc_core.privacy import Guarantee

_CLAIM = 1.0  # the epsilon that is claimed
_SQUARES = 40  # across a picture of the table
_COUNTS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)  # of cells
_WHO = ("only", "many")


class OneChange(NamedTuple):
    """One rating that changes, in a small table: what it lights up, and the card of the method."""

    lit: Lights
    card: Guarantee
    rated: int  # ratings of the person whose rating it is


@cache
def example(whose: str = "only") -> OneChange:
    """A rating that is its person's only one, or one of the person with the most."""
    mechanism, ratings, position = known_instance(_CLAIM)
    counts = np.bincount(ratings.users)
    if whose == "many":
        position = int(np.flatnonzero(ratings.users == counts.argmax())[0])
    found = lights(mechanism, ratings, position)
    return OneChange(found, mechanism.guarantee(ratings.public), int(counts[found.user]))


def audited() -> Shipped:
    """What the shipped audit measured of the method at the claim."""
    found = shipped(registry.create(Output.id, epsilon=_CLAIM))
    if found is None:
        raise DpmcError(f"no measurement of {Output.id} came with this program")
    return found


def slides() -> tuple[Slide, ...]:
    lit, card, _ = example()
    cells = lit.moved.size
    certified = card.certified().epsilon
    largest = float(lit.moved.max())
    people, items = lit.moved.shape
    whose = Pick(
        "whose",
        "The rating that changes is",
        {"only": "Ana's only one", "many": "one of the busiest person's"},
        "only",
    )
    return (
        Slide(
            key="cells",
            title="One rating changes",
            said=f"A method learns from the likes of {people} people for {items} films, and"
            f" publishes a predicted score for every cell of that table: {cells:,} numbers, each"
            " with noise. Ana has rated one film. Her like becomes a dislike.",
            predict=Predict.number(
                f"Before the noise: how many of the {cells:,} scores move noticeably?",
                lit.cells,
                (1, cells),
                "{:,.0f}".format,
            ),
            move=(whose,),
            reveal=_cells,
            teacher="Nothing is wrong yet: learning means that one rating tells about other films."
            " The question is whether the noise was made for it.",
        ),
        Slide(
            key="sum",
            title="What the noise must hide",
            said="Noise has to hide all that one rating can move, in all published numbers"
            f" together. The paper's proof ({card.source}) takes {lit.allowed:g} for that.",
            predict=Predict.number(
                "How far do the scores really move, added up?",
                lit.total,
                (lit.allowed, largest),
                "{:.2g}".format,
            ),
            move=(
                whose,
                Stops("cells", "Scores added up", tuple(map(float, _COUNTS)), 300.0, _count),
            ),
            reveal=_sum,
            teacher="The proof bounds what one published cell can move. But all cells are"
            " published, and whoever looks may add up.",
        ),
        Slide(
            key="promise",
            title="Claimed, measured, certified",
            said=f"The method claims epsilon {_CLAIM:g} {card.change.label}: no output becomes more"
            f" than {math.exp(_CLAIM):.2g} times as likely when one rating changes.",
            predict=Predict.number(
                "What is the smallest epsilon that Ana's one rating still allows?",
                lit.epsilon,
                (_CLAIM, certified),
                _number,
            ),
            move=(whose, stops(_CLAIM)),
            reveal=_promise,
            teacher="One counterexample is enough to refute a claim; no number of failed attempts"
            " proves one. Certified is what a proof allows for every rating there could be: never"
            " too small, perhaps far too large.",
            after=Elsewhere(
                "Try to refute it yourself",
                "guarantees",
                {"mechanism": Output.id, "epsilon": f"{_CLAIM:g}"},
            ),
        ),
        Slide(
            key="repair",
            title="Can it be repaired?",
            said="Make the noise as much wider as the certified epsilon is larger than the claimed"
            " one: then the claim is proved. Less might do, but nobody has proved that.",
            predict=Predict.number(
                f"How many times as wide is that, for the {cells:,} scores?",
                certified / _CLAIM,
                (2.0, lit.epsilon / _CLAIM),
                _number,
            ),
            move=(stops(_CLAIM),),
            reveal=_repair,
            teacher="A method may look good because its promise is not kept, and here even that"
            " does not help it. Compare accuracy only at the same certified epsilon.",
            after=Elsewhere(
                "What each method promises, and what is proved",
                "guarantees",
                {"mechanism": films.PER_RATING, "epsilon": f"{_CLAIM:g}"},
            ),
        ),
    )


def _number(epsilon: float) -> str:
    return cards.epsilon_text(epsilon)


def _count(cells: float) -> str:
    return f"{cells:,.0f}"


def _squares(found: Lights) -> Cells:
    """The table in squares of neighbouring cells, each as bright as the brightest of them."""
    people, items = found.moved.shape
    blocks = found.moved.reshape(people, _SQUARES, items // _SQUARES).max(axis=2)
    seen = blocks * (blocks >= _SEEN * blocks.max())
    rows = tuple(tuple(float(v) for v in row) for row in np.sqrt(seen / blocks.max()))
    return Cells(
        rows, "a lit square moves noticeably", (found.user, found.item * _SQUARES // items)
    )


_SEEN = 0.01  # of the brightest square: what is darker stays dark


def _cells(moved: Moved) -> Reveal:
    lit, _, rated = example(moved["whose"])
    items = lit.moved.shape[1]
    who = "Ana's only rating" if rated == 1 else f"one rating of a person with {rated}"
    return Reveal(
        (
            f"{lit.cells:,} of {lit.moved.size:,} scores move noticeably, by {who}.",
            "It says something of this film for everybody, and of other films for this person."
            if rated > 1
            else "It is all that is known of her: nearly all of her scores are made of it.",
        ),
        _squares(lit),
        f"A row is a person. A square is {items // _SQUARES} films side by side, as bright as the"
        " one of them that moves most; the frame is the rating that changed. Noticeably: by a"
        " thousandth of the largest score there can be, or more.",
    )


def _sum(moved: Moved) -> Reveal:
    lit, _, _ = example(moved["whose"])
    added = np.cumsum(np.sort(lit.moved, axis=None)[::-1])
    line = tuple(float(added[count - 1]) for count in _COUNTS)
    at = _COUNTS.index(int(moved["cells"]))
    return Reveal(
        (
            f"{lit.total:.3g} together, where the proof takes {lit.allowed:g}.",
            f"No score moves by more than {float(lit.moved.max()):.2g}; the {_COUNTS[at]:,} that"
            f" move most, by {line[at]:.3g} together.",
        ),
        Bend(
            "scores, those that move most first",
            tuple(map(_count, _COUNTS)),
            {"moved together": line},
            at,
            "Moved together",
            "{:.3g}".format,
            levels={"the proof takes": lit.allowed},
        ),
    )


def _promise(moved: Moved) -> Reveal:
    lit, card, _ = example(moved["whose"])
    claimed, found = moved["epsilon"], audited()
    least, most = lit.epsilon / lit.claimed, card.certified().epsilon / lit.claimed
    lines = {"certified, at most": most, "at least, by this rating": least, "claimed": 1.0}
    return Reveal(
        (
            f"At least {_number(least * claimed)}, where {claimed:g} is claimed.",
            "Some published tables are e to that power times as likely with one rating as with the"
            f" other. An audit that searched for worse found {_number(found.measured)} where"
            f" {found.epsilon:g} is claimed.",
            f"Certified is {_number(most * claimed)}, an upper bound: the claim times the number of"
            f" scores, {lit.moved.size:,}. The true epsilon lies between.",
        ),
        over_epsilon(
            claimed,
            {name: tuple(math.log10(n * e) for e in EPSILONS) for name, n in lines.items()},
            f"Epsilon {card.change.label}, logarithmic scale",
            lambda power: _number(10**power),
            across="epsilon claimed",
            low=-1.0,
            high=math.log10(most * EPSILONS[-1]),
        ),
    )


def _repair(moved: Moved) -> Reveal:
    epsilon = moved["epsilon"]
    lit, card, _ = example()
    wider = card.certified().epsilon / lit.claimed
    method = Output(epsilon=epsilon)
    theirs = method.guarantee(films.card(Output.id, epsilon).public)
    there = theirs.certified().epsilon / epsilon
    scale = there * theirs.releases.matrix.scale
    low = min(0.0, *films.keeps(Output.id))
    honest, loose = (films.kept_words(id, epsilon) for id in (films.PER_RATING, Output.id))
    return Reveal(
        (
            f"{_number(wider)} times as wide.",
            f"For a table of film ratings {_number(there)} times: noise of scale {_number(scale)}"
            f" on scores between {-method.bound:g} and {method.bound:g}.",
            f"Unrepaired, set to epsilon {epsilon:g}, it {loose}. Flipping each rating"
            f" before it is sent {honest}, and there {epsilon:g} is certified.",
        ),
        over_epsilon(
            epsilon,
            {
                "flips, certified": films.keeps(films.PER_RATING),
                "this method, only claimed": films.keeps(Output.id),
            },
            "Gain kept",
            percent,
            across="epsilon it is set to",
            low=low,
        ),
        "Film ratings of the sample data; measured on held-out ratings.",
    )


LESSON = Lesson(
    "claim",
    "The false claim: one rating lights up a row",
    8,
    "A claimed epsilon is a sentence in a paper: ask what one change can move, and who has"
    " checked.",
    slides,
)
