"""Two verdicts on an experiment, computed: on its accuracy, and on what its methods promise.

Accuracy: two curves are told apart where their difference is beyond its 95 % t interval, paired by
seed where the draws are known (`reach`: wrong with chance 5 % at most). A statement holds
where each of its comparisons does. That it does not hold takes one of them only, so that one must
stand with intervals wide enough for all of them at once (Bonferroni): of a true statement it is
said with chance 5 % at most. Likewise for printed numbers: one that lies outside at 95 % is shown
as outside, but it takes one outside all at once to differ. A mean over a single seed has no
interval, and tells nothing.

What a paper leaves open is tried: a statement that holds at one of the settings and not at another
depends on them. Where no method is anywhere better than a guess, the order of curves tells nothing.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from dpmc_core import registry
from dpmc_core.archives import parse_json
from dpmc_core.errors import DpmcError, format_sentence
from dpmc_core.privacy import Certified
from dpmc_core.settings import format_setting
from dpmc_lab.curves import as_published, cards
from dpmc_lab.curves.lines import LEVEL
from dpmc_lab.papers.engine import (
    AT,
    ROUNDED,
    Experiment,
    Made,
    Paper,
    Point,
    Printed,
    Promise,
    Statement,
)

_SLACK = 1 + 1e-9  # rounding in sums of epsilons


# --- what a statement is made of ---------------------------------------------------------------


@dataclass
class Asked:
    """What a statement asked. count: comparisons made; among: how many are to hold at once."""

    count: int = 0
    among: int = 1


_ASKED: ContextVar[Asked] = ContextVar("asked")


@contextmanager
def asking(among: int = 1) -> Iterator[Asked]:
    """Comparisons made meanwhile are counted, and told only where so many hold at once."""
    asked = Asked(among=among)
    token = _ASKED.set(asked)
    try:
        yield asked
    finally:
        _ASKED.reset(token)


def wider(seeds: int, among: int) -> float:
    """By how much a t interval over so many seeds grows where so many are to hold at once."""
    if seeds < 2 or among < 2:
        return 1.0
    one, all_of_them = (float(stdtrit(seeds - 1, 1 - (1 - LEVEL) / (2 * n))) for n in (1, among))
    return all_of_them / one


def reach(*found: Point, signs: Sequence[float] = (1.0, -1.0)) -> float:
    """How far a signed sum of means may be off: with chance 5 % at most it is further to one side.

    Over the same seeds the interval is that of the sum in each draw, for the same seed draws the
    same data; else the half widths add up, which holds however the means depend on each other.
    Infinite where one of them rests on a single seed. Of several comparisons that are to hold at
    once (`asking`) each is wider (Bonferroni).
    """
    asked = _ASKED.get(Asked())
    asked.count += 1
    if any(one.seeds == 1 for one in found):
        return math.inf
    drawn = [(one, sign) for one, sign in zip(found, signs, strict=True) if one.seeds]
    draws, kept = [one.draws for one, _ in drawn], [sign for _, sign in drawn]
    if drawn and all(draws) and len(set(map(len, draws))) == 1:
        drawn = [(Point.of(list(kept @ np.asarray(draws))), 1.0)]
    return sum(one.half_width * wider(one.seeds, asked.among) for one, _ in drawn)


def surely_above(a: Point | None, b: Point | None) -> bool | None:
    """Whether a is above b by more than their difference may be off; None where nobody can tell."""
    if a is None or b is None:
        return None
    gap = a.mean - b.mean
    rounded = ROUNDED * max(abs(a.mean), abs(b.mean))
    return None if abs(gap) <= max(reach(a, b), rounded) else gap > 0


def apart(a: Point | None, b: Point | None) -> Point | None:
    """How far two means are apart."""
    if a is None or b is None:
        return None
    sign = math.copysign(1.0, a.mean - b.mean)
    paired = a.seeds == b.seeds and a.draws and b.draws
    draws = tuple((sign * np.subtract(a.draws, b.draws)).tolist()) if paired else ()
    few = min((one.seeds for one in (a, b) if one.seeds), default=0)
    return Point(abs(a.mean - b.mean), a.half_width + b.half_width, few, draws)


def every(found: Iterable[bool | None]) -> bool | None:
    """True where all are, False where one is, None where that cannot be told."""
    known = list(found)
    if False in known:
        return False
    return None if None in known or not known else True


def above(made: Made, label: str | float, other: str | float, at: Iterable[float]) -> bool | None:
    """A curve, or a number, is above another one at each x (inf: at its end); not where equal in
    every draw."""

    def beyond(a: Point | None, b: Point | None) -> bool | None:
        found = surely_above(a, b)
        if found is not None or a is None or b is None:
            return found
        same = len(a.draws) == len(b.draws) > 1 and np.allclose(a.draws, b.draws, ROUNDED, 0.0)
        return False if same else None

    return every(beyond(made.at(label, x), made.at(other, x)) for x in at)


def mostly_below(
    made: Made, label: str, share: float, at: Iterable[float], *others: str
) -> bool | None:
    """A curve is below the others at most places, a share of all of them at least."""
    pairs = [(made.at(other, x), made.at(label, x)) for other in others for x in at]
    found = [surely_above(*pair) for pair in pairs if None not in pair]
    if found.count(False) > (1 - share) * len(found):
        return False
    return True if found and found.count(True) >= share * len(found) else None


def rises(made: Made, label: str) -> bool | None:
    """A curve ends higher than it begins."""
    return surely_above(made.at(label, math.inf), made.at(label, -math.inf))


def falls(made: Made, label: str) -> bool | None:
    """A curve ends lower than it begins."""
    return surely_above(made.at(label, -math.inf), made.at(label, math.inf))


def steadier(made: Made, label: str, other: str) -> bool | None:
    """A curve's ends are nearer to each other than another one's."""
    gaps = (apart(*(made.at(one, x) for x in (-math.inf, math.inf))) for one in (other, label))
    return surely_above(*gaps)


def near(
    made: Made, label: str, other: str | float, at: Iterable[float], within: float
) -> bool | None:
    """A curve is as close to another one, or to a number, at each x as `within`, in units of y."""

    def close(a: Point | None, b: Point | None) -> bool | None:
        if a is None or b is None:
            return None
        gap = abs(a.mean - b.mean)
        return None if abs(gap - within) <= reach(a, b) else gap < within

    return every(close(made.at(label, x), made.at(other, x)) for x in at)


def farther(
    made: Made, one: str, other: str, first: str, second: str, at: Iterable[float] = ()
) -> bool | None:
    """Two curves are farther apart than two others at each x, or wherever the first one is."""
    found = made.get(one)
    places = at or (found.x if found is not None else ())
    return every(
        surely_above(
            apart(made.at(one, x), made.at(other, x)), apart(made.at(first, x), made.at(second, x))
        )
        for x in places
    )


def approaches(made: Made, label: str, goal: str, first: float, last: float) -> bool | None:
    """A curve is nearer to another one at `last` than at `first`."""
    return surely_above(*(apart(made.at(label, x), made.at(goal, x)) for x in (first, last)))


def mean_lead(
    made: Made, label: str, other: str, printed: float, error: float, at: Sequence[float]
) -> bool | None:
    """The mean lead over another curve is the printed one, as far as ours and `error` tell.

    None where ours may be off by more than it is: no lead would be as good.
    """
    ends = [made.at(name, x) for x in at for name in (label, other)]
    known = [one for one in ends if one is not None]
    if len(known) < len(ends):
        return None
    signs = [1.0, -1.0] * len(at)
    lead = np.dot(signs, [one.mean for one in known]) / len(at)
    unsure = reach(*known, signs=signs) / len(at)
    if abs(lead - printed) > unsure + error:
        return False
    return True if abs(lead) > unsure else None


def closer_ratio(made: Made, label: str, goal: str, than: str) -> bool | None:
    """The median ratio of a curve to another one is nearer to 1 than that of a third to it."""
    found = [one for one in map(made.get, (label, goal, than)) if one is not None]
    if len(found) < 3:
        return None
    ours, best, other = (np.log(one.mean) for one in found)
    return bool(np.median(np.abs(ours - best)) < np.median(np.abs(other - best)))


_CHECKS: Mapping[str, Callable[..., bool | None]] = {
    check.__name__: check
    for check in (
        *(above, mostly_below, rises, falls, steadier),
        *(near, farther, approaches, mean_lead, closer_ratio),
    )
}


def holds(checks: Sequence[Sequence[Any]], made: Made) -> bool | None:
    """Whether all checks hold of a result.

    checks: each a name and its arguments; of an argument that is a list of labels it is each.
    """
    return every(
        _CHECKS[name](made, *chosen)
        for name, *given in checks
        for chosen in itertools.product(
            *(one if isinstance(one, list) and isinstance(one[0], str) else [one] for one in given)
        )
    )


# --- on accuracy ---------------------------------------------------------------------------------


class Accuracy(enum.Enum):
    """How our result stands beside the printed one."""

    AGREES = "agrees"
    TREND = "same trend"
    DEPENDS = "depends on what is not printed"
    DIFFERS = "differs"
    SMALLER = "differs at this size"
    OPEN = "cannot tell"
    NOT_RUN = "not run"
    UNJUDGED = "no verdict"


MEANING = {
    Accuracy.AGREES: "every printed number lies within our 95 % interval and its reading error, and"
    " all that the paper says of it holds",
    Accuracy.TREND: "all that the paper says of it holds; printed numbers differ or are none",
    Accuracy.DEPENDS: "what the paper says holds at some of the settings that it leaves open, not"
    " at all of those tried",
    Accuracy.DIFFERS: "a printed number, or something that the paper says, does not hold here, at"
    " any setting tried",
    Accuracy.SMALLER: "so it is here, with less work than the paper's or with other data: that does"
    " not speak against the paper",
    Accuracy.OPEN: "our intervals are too wide, or our points too few, for some of it, or no method"
    " is anywhere better than a guess",
    Accuracy.NOT_RUN: "there is no result of ours",
    Accuracy.UNJUDGED: "the paper's numbers are not known here, or it says nothing about this one",
}


def meanings(found: Iterable[Accuracy]) -> list[str]:
    """A sentence for each verdict on accuracy that there is."""
    there = set(found)
    return [f"{one.value}: {words}." for one, words in MEANING.items() if one in there]


class Privacy(enum.Enum):
    """What becomes of what is promised, from the best to the worst."""

    PROVED = "proved"
    NARROWER = "proved for a narrower unit"
    UNPROVED = "not proved here"
    COUNTEREXAMPLE = "counterexample"


class Compared(NamedTuple):
    """A printed number beside ours, None where we have none. within: whether it lies within our
    interval and the reading error."""

    printed: Printed
    ours: Point | None
    within: bool | None


Held = Mapping[str, bool | None]  # whether something holds, by the settings tried, ours first
OURS = "ours"
HOLDS = {True: "holds", False: "does not hold", None: "cannot tell"}
SOME = "holds at a setting"


class Judged(NamedTuple):
    """The verdict on accuracy. reason: in words; statements: where each holds."""

    verdict: Accuracy
    reason: str
    compared: tuple[Compared, ...]
    statements: tuple[tuple[Statement, Held], ...]


class Upheld(NamedTuple):
    """The verdict on one promise. words: why; command: what shows it."""

    mechanism: str
    verdict: Privacy
    words: str
    command: str

    @property
    def name(self) -> str:
        """The method's short name."""
        return registry.get_short_name(self.mechanism)


def at_settings(made: Made, tried: Made | None) -> dict[str, Made]:
    """A result at ours and at every other setting: what that leaves as it is comes from ours."""
    found = {OURS: made}
    # The same seeds draw the same data; others are not paired.
    paired = tried is not None and tried.stamp.seeds == made.stamp.seeds
    for one in tried.series if tried is not None else ():
        name, _, label = one.label.partition(AT)
        own = replace(one, label=label, draws=one.draws if paired else ())
        before = found.get(name, made)
        others = (other for other in before.series if other.label != label)
        found[name] = replace(before, series=(*others, own))
    return found


FLOORS = {cls.baseline for cls in registry.MECHANISMS.values()}


def idle(experiment: Experiment, made: Made) -> bool:
    """Whether no method is anywhere better than all that looks at no person's taste."""
    sign, labels = experiment.y.better, experiment.guesses
    known = [one for one in made.series if one.label in labels or one.mechanism in FLOORS]
    return bool(sign and known) and not any(
        all(sign * (y - there.mean) > 0 for guess in known if (there := guess.at(x)))
        for one in made.series
        if one not in known
        for x, y in zip(one.x, one.mean, strict=True)
    )


def judge(
    paper: Paper, experiment: Experiment, made: Made | None, tried: Made | None = None
) -> Judged:
    """How a result stands beside what the paper prints and says. tried: the same at settings that
    are not printed."""
    if made is None:
        first = "".join(f" after dpmc data get {name}" for name in experiment.needs)
        reason = experiment.not_run or f"nobody has run it here yet: {experiment.command}{first}"
        nothing = tuple(Compared(one, None, None) for one in experiment.printed)
        unknown: Any = tuple((one, {}) for one in experiment.statements)
        return Judged(Accuracy.NOT_RUN, format_sentence(reason), nothing, unknown)
    found = {name: _judged(experiment, one) for name, one in at_settings(made, tried).items()}
    compared = found[OURS].compared
    told = tuple(
        (said, {name: one.statements[k][1][OURS] for name, one in found.items()})
        for k, said in enumerate(experiment.statements)
    )
    if paper.unjudged:
        return Judged(Accuracy.UNJUDGED, format_sentence(paper.unjudged), compared, told)
    if not (experiment.printed or experiment.statements):
        return Judged(Accuracy.UNJUDGED, "The paper says nothing about this one.", (), ())
    helds, each = [held for _, held in told], {name: one.verdict for name, one in found.items()}
    verdict, reason = _over_settings(each, helds), _reason(compared, helds, each)
    if idle(experiment, made):
        reason += " No method is anywhere better than a guess."
    if not {*(c.within for c in compared), *(one for h in helds for one in h.values())} - {None}:
        reason = "Nothing that is printed can be told from this result."
    other, cut = not experiment.makes(made), experiment.cut
    if other:
        reason = f"{reason} Made with other settings than the recipe has now."
    if verdict is Accuracy.DIFFERS and (cut or other):
        small = None if other or cut is True else cut  # labels; None: all curves
        whole = [c for c in compared if small and c.printed.series not in small]
        if not _apart(whole):
            verdict = Accuracy.SMALLER
    return Judged(verdict, reason, compared, told)


def _judged(experiment: Experiment, made: Made) -> Judged:
    """At one setting."""
    compared = tuple(_compared(one, made) for one in experiment.printed)
    told = tuple((one, {OURS: told_of(one, made)}) for one in experiment.statements)
    verdict = _verdict(compared, [held[OURS] for _, held in told])
    empty = verdict in _GOOD and idle(experiment, made)
    return Judged(Accuracy.OPEN if empty else verdict, "", compared, told)


_GOOD = (Accuracy.AGREES, Accuracy.TREND)


def _over_settings(each: Mapping[str, Accuracy], helds: Sequence[Held]) -> Accuracy:
    """One verdict from those at each setting, ours first: it differs where it does at all."""
    ours, told = each[OURS], [set(held.values()) for held in helds]
    if {False} in told:
        return Accuracy.DIFFERS
    good = any(one in _GOOD for one in each.values()) and ours not in _GOOD
    if good or any({True, False} <= one for one in told):
        return Accuracy.DEPENDS
    return ours if ours in _GOOD or len(set(each.values())) == 1 else Accuracy.OPEN


def _compared(printed: Printed, made: Made) -> Compared:
    ours = made.at(printed.series, printed.x)
    known = ours is not None and ours.seeds != 1
    return Compared(printed, ours, _within(printed, ours, 1) if ours and known else None)


def _within(printed: Printed, ours: Point, among: int) -> bool:
    room = ours.half_width * wider(ours.seeds, among) + printed.error
    return abs(printed.value - ours.mean) <= room + ROUNDED * abs(printed.value)


def told_of(statement: Statement, made: Made) -> bool | None:
    """Whether a statement holds of a result, None where that cannot be told."""
    with asking() as asked:
        first = statement.holds(made)
    if first is not False:
        return first
    with asking(among=asked.count):
        return False if statement.holds(made) is False else None


def _apart(compared: Sequence[Compared]) -> bool:
    """Whether a printed number differs: of many at 95 % some lie outside by chance, so all at once,
    as for a statement."""
    known = [(one.printed, one.ours) for one in compared if one.within is not None]
    return not all(ours is None or _within(printed, ours, len(known)) for printed, ours in known)


def _verdict(compared: Sequence[Compared], held: Sequence[bool | None]) -> Accuracy:
    inside = [one.within for one in compared]
    if all(held) and inside and all(inside):  # also where nothing is said
        return Accuracy.AGREES
    if held and all(held):
        return Accuracy.TREND
    return Accuracy.DIFFERS if _apart(compared) or False in held else Accuracy.OPEN


def stands(held: Held) -> str:
    """Whether a statement holds at all settings, at some, or at none of those run."""
    ones = set(held.values())
    if True in ones:
        return HOLDS[True] if len(ones) == 1 else SOME
    return Accuracy.NOT_RUN.value if not ones else HOLDS[None if None in ones else False]


def told_text(held: Held) -> str:
    """The same, with the settings at which it holds where these are some."""
    places = [name for name, one in held.items() if one]
    if stands(held) != SOME:
        return stands(held)
    return f"holds at {len(places)} of {len(held)} settings: {'; '.join(places)}"


def _reason(
    compared: Sequence[Compared], helds: Sequence[Held], each: Mapping[str, Accuracy]
) -> str:
    """How many of each there are."""
    inside = [one.within for one in compared if one.within is not None]
    parts = []
    if compared:
        parts.append(f"{sum(inside)} of {len(inside)} printed numbers within our intervals")
    if missing := len(compared) - len(inside):
        parts.append(f"{missing} without ours")
    if helds:
        told = ", ".join(f"{text} {n}" for text, n in Counter(map(stands, helds)).items())
        parts.append(f"of {len(helds)} statements: {told}")
    if len(each) > 1:
        good = [name for name, one in each.items() if one in _GOOD]
        parts.append("; ".join([f"all at {len(good)} of {len(each)} settings", *good]))
    return format_sentence("; ".join(parts))


# --- promises ----------------------------------------------------------------------------------


def promises(experiment: Experiment) -> tuple[Upheld, ...]:
    """What becomes of each promise of an experiment."""
    command = f"dpmc papers {experiment.id}"
    return tuple(
        Upheld(promise.mechanism, verdict, format_sentence(words), shown or command)
        for promise in experiment.promises
        for verdict, words, shown in (_kept(promise),)
    )


def _kept(promise: Promise) -> tuple[Privacy, str, str]:
    """The verdict on a promise, why, and the command that shows it where it has one of its own."""
    id, change, epsilon = promise.mechanism, promise.change, promise.epsilon
    settings = as_published.merge_published_settings(id, promise.settings)
    try:
        made = registry.create(id, epsilon=epsilon, delta=promise.delta, **settings)
        card = made.guarantee(promise.public)
    except DpmcError as error:
        return Privacy.UNPROVED, str(error), ""
    claimed = card.claimed.delta if card.claimed else 0.0
    delta = claimed if promise.delta is None else promise.delta
    proved, own = (card.certified(unit, delta) for unit in (change, card.change))

    def upheld(found: Certified) -> bool:
        return found.finite and found.epsilon <= epsilon * _SLACK

    if upheld(proved):
        return Privacy.PROVED, f"epsilon {cards.format_epsilon(proved.epsilon)} {change.label}", ""
    command = audit_command(promise)
    measured = _audits().get(command)
    if measured and measured["revision"] == made.revision and measured["epsilon"] > epsilon:
        least = cards.format_epsilon(measured["epsilon"], round_down=True)
        words = (
            f"as published at least {least} is lost where {epsilon:g} is promised"
            f" {change.label} ({change.relation}): {measured['pair']}"
        )
        if promise.note:
            words = f"{format_sentence(words)} {promise.note[0].upper()}{promise.note[1:]}"
        return Privacy.COUNTEREXAMPLE, words, command
    there = cards.format_certified(proved)
    if card.change is not change and upheld(own):
        words = f"proved {card.change.label}, promised {change.label}: there {there}"
        return Privacy.NARROWER, words, ""
    return Privacy.UNPROVED, f"{epsilon:g} is promised {change.label}: {there}", ""


def audit_command(promise: Promise) -> str:
    """What looks for neighbours that a method tells apart, set as its paper has it."""
    settings = as_published.merge_published_settings(promise.mechanism, promise.settings)
    given = [f"--set {name}={format_setting(value)}" for name, value in settings.items()]
    words = ["dpmc audit", promise.mechanism, f"--epsilon {promise.epsilon:g}", *given]
    return " ".join([*words, "--method probe --runs 12"])


@cache
def _audits() -> Mapping[str, Any]:
    """What those found that found something, by command; benchmarks/audits.py makes them."""
    text = files(__package__).joinpath("audits.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = parse_json(text)
    return found
