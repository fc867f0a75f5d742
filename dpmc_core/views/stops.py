"""One curve, stop by stop of the slider: what is kept, what an attacker gets, what is needed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import (
    CELL,
    RATING,
    ROW_VALUES,
    USER_EMPTIED,
    USER_REPLACED,
    Additive,
    Change,
    Guarantee,
    LocalChannel,
    ModifiedLaplace,
    RandomizedResponse,
    SymbolChannel,
)
from dpmc_core.views.comparison import isotonic
from dpmc_core.views.lines import GUESSING, WITHOUT, Interval, Line, Picture
from dpmc_core.views.noise import main_release, two_values

NEAR = 0.9  # share of the gain from which on there is little left to gain


# --- what of the gain is kept ----------------------------------------------------------------


def ends(picture: Picture, epsilon: float) -> tuple[Interval | None, Interval | None]:
    """(guessing, no privacy) at an epsilon: the best guess that is there."""
    between = picture.between(epsilon)
    without = next((level for name, level in between if name == WITHOUT), None)
    guesses = [level for name, level in between if name == GUESSING]
    sign = picture.metric.sign
    return max(guesses, key=lambda level: sign * level.mean, default=None), without


def kept(picture: Picture, line: Line, epsilon: float) -> float | None:
    """The share of what the data give over guessing that is left at an epsilon.

    None where a number lacks, or where nothing is to be gained.
    """
    here = line.at(epsilon)
    guess, without = ends(picture, epsilon)
    if here is None or guess is None or without is None:
        return None
    gain = picture.metric.sign * (without.mean - guess.mean)
    if gain <= guess.half_width + without.half_width:
        return None
    return picture.metric.sign * (here.mean - guess.mean) / gain


def kept_words(share: float | None) -> str:
    """'keeps 79 % of the gain over guessing', or why not; nothing where it is not known."""
    if share is None:
        return ""
    if share <= 0.005:
        return "nothing gained over guessing"
    return f"keeps {100 * share:.0f} % of the gain over guessing"


def finding(picture: Picture, line: Line) -> str:
    """What the curve says, in a sentence; nothing where it says nothing for sure."""
    sign = picture.metric.sign
    better, near = [], []
    for epsilon in line.epsilon.tolist():
        here, (guess, _) = line.at(epsilon), ends(picture, epsilon)
        share = kept(picture, line, epsilon)
        if here is None or guess is None:
            return ""
        lead = sign * (here.mean - guess.mean)
        better.append(lead > here.half_width + guess.half_width)
        near.append(share is not None and share >= NEAR)
    stops = [f"{epsilon:g}" for epsilon in line.epsilon]
    said = []
    if not any(better):
        return f"No better than guessing up to epsilon {stops[-1]}"
    first = _from_there_on(better)
    if first is None:
        return ""
    if first > 0:
        said.append(f"below epsilon {stops[first]} no better than guessing")
    full = _from_there_on(near)
    if full is not None:
        where = f"from {stops[full]} on" if full else f"already at {stops[0]}"
        said.append(f"{where} nine tenths of the gain are kept")
    return "; ".join(said).capitalize() if said else ""


def _from_there_on(holds: Sequence[bool]) -> int | None:
    """The first place from which on it always holds; None where it does not hold at the end."""
    k = len(holds)
    while k and holds[k - 1]:
        k -= 1
    return k if k < len(holds) else None


class Needed(NamedTuple):
    """The monotone fit of a line: what it reaches at each of its epsilons, and the same of the ends
    of its intervals. The first place that reaches a wanted value is the epsilon it takes.
    """

    fit: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def needed(line: Line) -> Needed:
    """More epsilon cannot make a method worse: increasing fits, or decreasing where less is
    better."""
    sign, band = line.metric.sign, line.band
    weights = np.ones(len(band.x))
    fits = [sign * isotonic(sign * side, weights) for side in (band.mean, band.low, band.high)]
    return Needed(*(tuple(float(v) for v in fit) for fit in fits))


# --- the attacker ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """What an attacker asks. short: on a switch. answers: that it is so, and that it is not.

    change: what the two differ in. rated: of a person, whose ratings are asked for all at once;
    None for a question about less.
    """

    short: str
    text: str
    answers: tuple[str, str]
    change: Change
    rated: int | None = None

    def right(self, card: Guarantee) -> float:
        """How often the best attacker is right; a coin is right half of the time."""
        return self._of(card).attacker(self.change)

    def bounded(self, card: Guarantee) -> bool:
        """Whether any limit on the attacker is proved; certainty is not what replaces it."""
        return math.isfinite(self._of(card).loss(self.change).epsilon)

    def _of(self, card: Guarantee) -> Guarantee:
        if self.rated is None:
            return card
        public = dataclasses.replace(card.public, cap=self.rated)
        return dataclasses.replace(card, public=public)


def questions(card: Guarantee, task: Task, rated: int) -> tuple[Question, Question]:
    """What may be asked of a person: something small, and everything.

    rated: how many ratings the person gave.
    """
    if card.change.per_user:
        yes = ("yes", "no")
        return (
            Question("in the data?", "Was this person in the data?", yes, USER_EMPTIED),
            Question("which ratings?", "Which of two sets of ratings was it?", yes, USER_REPLACED),
        )
    one, name = (CELL, "click") if task is Task.RANKING else (RATING, "rating")
    if card.change is CELL:
        one = CELL
    which, answers = _WHICH[task]
    sets = f"Which of two sets of {name}s was it?"
    return (
        Question(f"this {name}", which, answers, one),
        Question(f"all {rated} {name}s", sets, answers, ROW_VALUES, rated),
    )


_WHICH = {
    Task.BINARY: ("Was this title liked?", ("liked", "not")),
    Task.RATINGS: ("Was it the best rating or the worst?", ("the best", "the worst")),
    Task.RANKING: ("Was this title clicked?", ("clicked", "not")),
}


def guess(mechanism: Mechanism, card: Guarantee, question: Question) -> dict[str, Any] | None:
    """What an attacker sees in each of the two worlds of a question, to be played in a browser.

    {"symbols": names, "no": chances, "yes": chances}, or {"shift": of a number whose noise has the
    scale 1, "law": "gaussian" or "laplace"}. None where nothing is proved, so nothing is a fair
    game. The releases are those of the card; a number is the one that tells most.
    """
    if question.rated is not None or not 0.5 <= question.right(card) < 1:
        return None
    releases = [release for _, release in card.releases]
    release = main_release(card)
    if isinstance(release, RandomizedResponse) and len(releases) == 1:
        no, yes = two_values(mechanism.task) or ("0", "1")
        chances = release.matrix
        return {"symbols": [no, yes], "no": chances[0].tolist(), "yes": chances[1].tolist()}
    if isinstance(release, SymbolChannel) and len(releases) == 1:
        public = card.public
        values = [public.middle + public.half_width * level for level in release.levels]
        names = ["no report", *(f"{value:.3g}" for value in values)]
        rows = release.matrix
        return {"symbols": names, "no": rows[1].tolist(), "yes": rows[-1].tolist()}
    if isinstance(release, ModifiedLaplace) and len(releases) == 1:
        return {"law": "laplace", "shift": 2 / release.scale}
    spent = card.loss(question.change)
    if any(isinstance(release, LocalChannel) for release in releases):
        return None
    if spent.epsilon == 0:
        return {"law": "gaussian", "shift": spent.mu}
    if spent.mu == 0 and all(isinstance(release, Additive) for release in releases):
        return {"law": "laplace", "shift": spent.epsilon}
    return None


def percent(share: float) -> str:
    """Out of a hundred, of a proved limit: never rounded up to certainty, which none gives."""
    return ">99" if share >= 0.995 else f"{100 * share:.0f}"
