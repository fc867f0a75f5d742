"""The numbers of a curve that several pages show, each by one rule: what is kept of the gain, from
which epsilon on anything is, which epsilon a wanted quality takes, what an attacker gets."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_core.errors import capital
from dpmc_core.lab.views.comparison import (
    FEWEST,
    reach_words,
    same_seeds,
    smallest_epsilons,
    span_words,
)
from dpmc_core.lab.views.lines import (
    WITHOUT,
    Count,
    Interval,
    Line,
    Picture,
    clearly_better,
    place,
    short,
)
from dpmc_core.lab.views.noise import main_release, two_values
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

UNCLEAR = "not clearly better than guessing"
NEAR = 0.9  # share of the gain from which on there is little left to gain


# --- what of the gain is kept ----------------------------------------------------------------


class KeptShare(NamedTuple):
    """What of the gain over guessing is left at an epsilon. share: by the means alone; clear:
    whether the seeds tell it from guessing, and the gain from nothing: else `words` say so."""

    share: float
    clear: bool
    words: str


def ends(picture: Picture, line: Line, epsilon: float) -> tuple[Interval | None, Interval | None]:
    """(what the line's own guess reaches at an epsilon, what is reached without privacy)."""
    own = registry.get(line.mechanism).floor
    guesses = [level.level for level in picture.floors if level.mechanism == own]
    guesses += [
        at
        for one in (*picture.guesses, *picture.lines)
        if one.mechanism == own != line.mechanism and (at := one.at(epsilon)) is not None
    ]
    without = [level.level for name, level in picture.levels if name == WITHOUT]
    return next(iter(guesses), None), next(iter(without), None)


def kept(
    picture: Picture, line: Line, epsilon: float, best: Interval | None = None
) -> KeptShare | None:
    """The share of what the data give over guessing that is left at an epsilon.

    best: what the gain is measured against, else no privacy. None where a number lacks; without
    words where one rests on too few seeds for an interval.
    """
    here, (guess, without) = line.at(epsilon), ends(picture, line, epsilon)
    best, metric = best or without, picture.metric
    if here is None or guess is None or best is None:
        return None
    gain = metric.sign * (best.mean - guess.mean)
    share = metric.sign * (here.mean - guess.mean) / gain if gain > 0 else math.nan
    if min(here.seeds, guess.seeds) < FEWEST:
        words = ""
    elif not clearly_better(metric, best, guess):
        words = "nothing to keep: no privacy is not clearly better than guessing either"
    elif clearly_better(metric, here, guess):
        return KeptShare(share, True, kept_words(share))
    elif clearly_better(metric, best, here):
        words = UNCLEAR
    else:
        words = f"nothing to keep: the gain ({metric.distance(gain)}) is within the noise"
    return KeptShare(share, False, words)


def kept_words(share: float) -> str:
    """'keeps 79 % of the gain over guessing'."""
    return f"keeps {100 * share:.0f} % of the gain over guessing"


def clear_from(picture: Picture, line: Line) -> float | None:
    """The smallest epsilon at which a line is clearly better than its own guess; inf for none.

    None where it is not known: without a guess, or of too few seeds.
    """
    points = [(e, line.at(e), ends(picture, line, e)[0]) for e in line.epsilon.tolist()]
    known = [(e, here, guess) for e, here, guess in points if here and guess]
    if not known or min(min(here.seeds, guess.seeds) for _, here, guess in known) < FEWEST:
        return None
    clear = (e for e, here, guess in known if clearly_better(line.metric, here, guess))
    return next(clear, math.inf)


def guess_words(picture: Picture) -> str:
    """Below which epsilon no line is clearly better than guessing; '' where one always is.

    By the setting, which counts what each method protects.
    """
    floors = {registry.get(line.mechanism).floor for line in picture.lines}
    rivals = [line for line in picture.lines if line.mechanism not in floors]
    starts = [clear_from(picture, line) for line in rivals]
    known = [start for start in starts if start is not None]
    if not known or len(known) < len(starts):
        return ""
    if math.isinf(min(known)):
        return f"{capital(UNCLEAR)} at any epsilon"
    if min(known) <= min(float(line.epsilon[0]) for line in rivals):
        return ""
    return f"Below epsilon {short(min(known))} {UNCLEAR}"


def finding(picture: Picture, line: Line) -> str:
    """What the curve says, in a sentence; nothing where it says nothing for sure."""
    said = [guess_words(picture._replace(lines=(line,)))]
    found = [kept(picture, line, epsilon) for epsilon in line.epsilon.tolist()]
    near = [one is not None and one.clear and one.share >= NEAR for one in found]
    full = next((k + 1 for k in reversed(range(len(near))) if not near[k]), 0)
    if full < len(near):
        stop = f"{line.epsilon[full]:g}"
        where = f"from {stop} on" if full else f"already at {stop}"
        said.append(f"{where} nine tenths of the gain are kept")
    return capital("; ".join(filter(None, said)))


# --- the epsilon that a wanted quality takes -------------------------------------------------


class Needed(NamedTuple):
    """What a wanted quality takes, in words; at, low, high: the epsilon and the ends of its
    interval as places among the stops, between two of them too; None beyond the last one."""

    goal: str
    words: str
    at: float | None
    low: float | None
    high: float | None


def needed(line: Line, stops: Sequence[float], wanted: Sequence[float]) -> list[Needed]:
    """The epsilon that Compare names, with the slider's stop from which on it is reached."""
    placed, metric = place(line, Count.PAPER), line.metric
    first, last = float(placed.x[0]), float(placed.x[-1])

    def among(epsilon: float) -> float | None:
        if epsilon > last:
            return None
        return float(np.interp(math.log(max(epsilon, first)), np.log(stops), range(len(stops))))

    found = []
    for one in smallest_epsilons(placed, wanted, same_seeds()):
        goal = f"{'at most ' * metric.lower}{metric.text(one.wanted)}"
        epsilon = one.epsilon
        if math.isinf(epsilon.value):
            text = f"{goal} is not reached up to epsilon {short(last)}."
        else:
            sure = "certified" if placed.solid else "claimed, not certified"
            ends = at = ""
            if epsilon.value > first:
                stop = next((s for s in stops if s >= epsilon.value * (1 - 1e-9)), last)
                at = f"; on the slider {stop:g}"
                ends = f" ({span_words(epsilon, first, last)})" * (epsilon.seeds > 1)
            text = f"{goal} takes epsilon {reach_words(one)}{ends} {placed.counts}, {sure}{at}."
        found.append(Needed(goal, capital(text), *map(among, epsilon[:3])))
    return found


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
