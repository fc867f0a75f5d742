"""Which of two mechanisms is better and where, and what a wanted quality costs.

Both are read off curves over seeds, between the epsilons computed; how certain the reading is, is
told by seeds drawn again with replacement.

The mean of few seeds drawn again spreads too little: by sqrt((S - 1) / S), and without the t
distribution's tails. Resampled means are therefore stretched about the mean until their 95 %
interval is that of Student's t, and then read like the mean itself. Measured on a sloped line, the
interval covers the truth 93 to 97 times in 100; unstretched 54 times for two seeds, 84 for five.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from dpmc_core.arrays import Bools, Floats, Ints
from dpmc_core.errors import capital
from dpmc_core.lab.views.lines import (
    AS_CLAIMED,
    GUESSING,
    LEVEL,
    Count,
    Interval,
    Line,
    Picture,
    Placed,
    Reference,
    clearly_better,
    floor_of,
    guess_name,
    interval,
    place,
    short,
)
from dpmc_core.lab.views.text import columns

DRAWS = 2_000
FEWEST = 3  # seeds: from two alone an interval is too wide to say anything
HOW = (
    "Pairs are compared seed by seed: in each seed all mechanisms train and are tested on the same"
    " split. A winner is named only where the 95 % interval of the difference leaves out zero, at"
    " all epsilons together."
)
_WHERE = "wherever the seeds tell them apart"


# --- readings and their intervals --------------------------------------------------------


class Estimate(NamedTuple):
    """An epsilon with its 95 % interval from resampled and stretched means over seeds.

    Not reached within the epsilons computed: inf (or 0 where already the smallest is enough).
    seeds: how many it rests on; with a single one the interval is the value itself.
    """

    value: float
    low: float
    high: float
    seeds: int


def same_seeds() -> np.random.Generator:
    """Randomness for resampling that says the same of the same rows each time."""
    return np.random.default_rng(0)


def complete(values: Floats) -> Bools:
    """Which seeds (columns) have a value at every epsilon."""
    return np.asarray(~np.isnan(values).any(axis=0), dtype=np.bool_)


def _at(x: Floats, values: Floats, wanted: Floats) -> Floats:
    """Values (E x S) at other epsilons, linear in log epsilon between neighbours: W x S."""
    place, grid = np.log(wanted), np.log(x)
    return np.stack([np.interp(place, grid, column) for column in values.T], axis=1)


def resamples(seeds: int, rng: np.random.Generator) -> Ints:
    """DRAWS x seeds: which seeds each resample takes."""
    return rng.integers(0, seeds, (DRAWS, seeds))


def means(values: Floats, drawn: Ints) -> Floats:
    """Mean over each resample of the seeds (values: X x S, S >= 2), stretched: draws x X."""
    mean, seeds = values.mean(axis=1), values.shape[1]
    stretched: Floats = mean + _stretch(seeds) * (values[:, drawn].mean(axis=2).T - mean)
    return stretched


def _stretch(seeds: int) -> float:
    end = 0.5 + LEVEL / 2
    return float(stdtrit(seeds - 1, end) / ndtri(end)) * math.sqrt(seeds / (seeds - 1))


def estimate(value: float, drawn: Floats, seeds: int) -> Estimate:
    """The percentile interval of values read off `means`; infinite ones count as such."""
    tail = (1 - LEVEL) / 2
    ordered = np.sort(drawn)
    low = ordered[int(np.floor(tail * (len(ordered) - 1)))]
    high = ordered[int(np.ceil((1 - tail) * (len(ordered) - 1)))]
    return Estimate(value, min(float(low), value), max(float(high), value), seeds)


def estimate_words(found: Estimate, first: float, last: float) -> str:
    """'1.4 (95 % bootstrap interval over 5 seeds, widened as a t interval: 1.2 to 1.7)'."""
    value = short(found.value, 2)
    if found.seeds < 2:
        return f"{value} (one seed: no interval)"
    kind = f"95 % bootstrap interval over {found.seeds} seeds, widened as a t interval"
    return f"{value} ({kind}: {span_words(found, first, last)})"


def span_words(found: Estimate, first: float, last: float) -> str:
    """Its interval alone: '1.2 to 1.7', or beyond which end of the epsilons computed it goes."""
    low = f"below {short(first)}" if found.low < first else short(found.low, 2)
    high = f"beyond {short(last)}" if found.high > last else short(found.high, 2)
    return f"{low} to {high}"


# --- who is better, and where ------------------------------------------------------------


class Lead(NamedTuple):
    """Epsilons from `first` to `last` at which one line beats the other beyond doubt.

    decided: whether it does at every epsilon computed between the two, or at some it is open.
    crossing: where the curves meet before `first`, after an opposite lead; None without one.
    """

    better: Line
    worse: Line
    first: float
    last: float
    decided: bool
    crossing: Estimate | None


class Duel(NamedTuple):
    """Two lines on the epsilons x that both cover, with every lead in order; seeds in common.

    claimed: the one whose epsilon is only claimed where the other's is certified, or empty.
    signs: at each x +1 where `one` is better beyond doubt, -1 where `other` is, else 0; empty where
    there are too few seeds.
    """

    one: Line
    other: Line
    x: Floats
    seeds: int
    leads: tuple[Lead, ...]
    claimed: str = ""
    signs: tuple[int, ...] = ()


def duels(placed: Sequence[Placed], rng: np.random.Generator) -> list[Duel]:
    """Every pair of lines whose epsilons count the same: units are never mixed."""
    return [
        duel(a, b, rng)
        for a, b in itertools.combinations(placed, 2)
        if a.counts == b.counts and a.line.metric == b.line.metric
    ]


def verdicts(placed: Sequence[Placed], found: Sequence[Duel]) -> tuple[list[str], list[str]]:
    """(pairs with a winner somewhere, pairs without one), a sentence each.

    found: their duels.
    """
    if len(placed) < 2:
        return ["Choose two mechanisms or more to see which is better where."], []
    found = sorted(found, key=lambda duel: -len(duel.leads))  # those that change places first
    won = [duel_words(duel) for duel in found if duel.leads]
    rest = [duel_words(duel) for duel in found if not duel.leads]
    if found and not won:
        won = ["No two of these can be told apart: more seeds may do it."]
    if len(found) < len(placed) * (len(placed) - 1) // 2:
        won.append("Pairs whose epsilons count different things are not compared.")
    return won, rest


class Standing(NamedTuple):
    """How a line stands at each of its epsilons among those whose epsilons count the same.

    ahead, behind: at each epsilon the labels of those it is better and worse than beyond doubt.
    rivals: at each epsilon, how many it was compared with.
    """

    placed: Placed
    ahead: tuple[tuple[str, ...], ...]
    behind: tuple[tuple[str, ...], ...]
    rivals: tuple[int, ...]

    @property
    def best(self) -> tuple[bool, ...]:
        """Where it is better than all it was compared with, beyond doubt."""
        pairs = zip(self.ahead, self.rivals, strict=True)
        return tuple(0 < rivals == len(ahead) for ahead, rivals in pairs)


def standings(placed: Sequence[Placed], found: Sequence[Duel]) -> list[Standing]:
    """Every line among the others, those whose epsilons count the same side by side.

    found: their duels.
    """
    units = list(dict.fromkeys(one.counts for one in placed))
    ordered = sorted(placed, key=lambda one: units.index(one.counts))
    return [_standing(one, [d for d in found if one.line in (d.one, d.other)]) for one in ordered]


def _standing(one: Placed, mine: Sequence[Duel]) -> Standing:
    ahead: list[tuple[str, ...]] = []
    behind: list[tuple[str, ...]] = []
    rivals = []
    for x in one.x:
        signs: dict[str, int] = {}
        for found in mine:
            rival, side = (found.other, 1) if found.one is one.line else (found.one, -1)
            near = np.flatnonzero(np.isclose(found.x, x, rtol=1e-8, atol=0))
            if len(near) and found.signs:
                signs[rival.label] = side * found.signs[near[0]]
        ahead.append(tuple(label for label, sign in signs.items() if sign > 0))
        behind.append(tuple(label for label, sign in signs.items() if sign < 0))
        rivals.append(len(signs))
    return Standing(one, tuple(ahead), tuple(behind), tuple(rivals))


def standing_words(one: Standing, k: int) -> str:
    """How it stands at its k-th epsilon."""
    if not one.rivals[k]:
        return "nothing to compare with"
    if one.best[k]:
        return "clearly better than all others"
    if one.behind[k]:
        return f"clearly worse than {', '.join(one.behind[k])}"
    return "nothing is clearly better"


def standings_table(found: Sequence[Standing]) -> dict[str, list[object]]:
    """Every epsilon of every line with what is clearly better and worse there."""
    rows = [
        (
            one.placed.line.label,
            float(f"{x:.4g}"),
            one.placed.counts,
            standing_words(one, k),
            ", ".join(one.ahead[k]),
        )
        for one in found
        for k, x in enumerate(one.placed.x)
    ]
    return columns(("mechanism", "epsilon", "counts", "stands", "clearly better than"), rows)


def leader_words(found: Sequence[Standing]) -> str:
    """Which of several is clearly best, and where, in a few words; '' where nothing can be said."""
    if not any(rivals for one in found for rivals in one.rivals):
        return ""
    leading = [one for one in found if any(one.best)]
    unbeaten = [one for one in found if any(one.rivals) and not any(one.behind)]
    only = (leading or unbeaten)[0] if len(leading or unbeaten) == 1 else None
    claimed = AS_CLAIMED if only is not None and not only.placed.solid else ""
    if not leading and len(unbeaten) == 1:
        text = f"{unbeaten[0].placed.line.label} is never clearly beaten"
    elif not leading and not unbeaten:
        text = "Each is clearly beaten somewhere"
    elif not leading:
        text = f"{len(unbeaten)} of {len(found)} are never clearly beaten"
    elif len(leading) == 1:
        (one,) = leading
        places = np.flatnonzero(one.best)
        first, last = (short(float(one.placed.x[k])) for k in (places[0], places[-1]))
        unbroken = len(places) == places[-1] - places[0] + 1
        where = f"from epsilon {first} to {last}" if first != last else f"at epsilon {first}"
        text = f"{one.placed.line.label} is clearly best {'' if unbroken else 'in places '}{where}"
    else:
        text = f"{len(leading)} are each clearly best somewhere"
    several = len({one.placed.counts for one in found}) > 1
    return text + claimed + (", among those counted alike" if several else "")


def duel(a: Placed, b: Placed, rng: np.random.Generator) -> Duel:
    """Compare two lines seed by seed: all mechanisms of a seed share its split.

    At each epsilon the 95 % t interval of the mean difference decides, widened so that it holds
    for all epsilons at once (Bonferroni). A crossing lies where the mean difference changes its
    sign, linear in log epsilon; its interval comes from resampled seeds, widened for their number.
    """
    x = _shared_axis(a.x, b.x)
    difference, seeds = _differences(a, b, x)
    if not len(x) or seeds < FEWEST:
        return Duel(a.line, b.line, x, seeds, ())
    level = 1 - (1 - LEVEL) / len(x)
    found = [interval(row, level) for row in difference]
    signs = np.array([np.sign(at.mean) * (abs(at.mean) > at.half_width) for at in found], int)
    drawn = resamples(seeds, rng)
    leads: list[Lead] = []
    for sign, places in itertools.groupby(np.flatnonzero(signs), key=signs.__getitem__):
        run = [int(k) for k in places]
        start, end = run[0], run[-1]
        decided = bool(signs[start : end + 1].all())
        better, worse = (a.line, b.line) if sign > 0 else (b.line, a.line)
        crossing = _crossing(x, sign * difference, start, drawn) if leads else None
        leads.append(Lead(better, worse, float(x[start]), float(x[end]), decided, crossing))
    hollow = [side.line.label for side in (a, b) if not side.solid]
    claimed = hollow[0] if len(hollow) == 1 else ""
    return Duel(a.line, b.line, x, seeds, tuple(leads), claimed, tuple(signs.tolist()))


def duel_words(found: Duel) -> str:
    """The duel in words."""
    text = _verdict(found)
    if found.leads and found.claimed:
        text += f" The epsilon of {found.claimed} is claimed, not certified."
    return text


def _verdict(found: Duel) -> str:
    one, other, x = found.one.label, found.other.label, found.x
    if not len(x):
        return f"{one} and {other} have no epsilon in common in this unit."
    if found.seeds < FEWEST:
        return f"{one} and {other}: three seeds or more are needed to tell them apart."
    ends = f"{short(x[0])} and {short(x[-1])}"
    span = f"between epsilon {ends}" if len(x) > 1 else f"at epsilon {short(x[0])}"
    if not found.leads:
        return f"{one} and {other} cannot be told apart {span} ({found.seeds} seeds)."
    last = found.leads[-1]
    better, worse = last.better.label, last.worse.label
    if len(found.leads) > 1:
        text = "; ".join(_turn(lead, x) for lead in found.leads[1:])
        first = found.leads[0]
        text += f"; before, {first.better.label} beats {first.worse.label}"
        ends_too = first.first == x[0] and last.last == x[-1]
        sure = ends_too and all(lead.decided for lead in found.leads)
        return f"{text}." if sure else f"{text}; {_WHERE}."
    if not last.decided:
        return f"{better} beats {worse} {_range(last, x)}, {_WHERE}."
    if last.first == x[0] and last.last == x[-1]:
        ends = f"{short(x[0])} to {short(x[-1])}"
        whole = f"at every epsilon from {ends}" if len(x) > 1 else span
        return f"{better} beats {worse} {whole}."
    return f"{better} beats {worse} {_range(last, x)}; elsewhere the seeds do not tell them apart."


def _turn(lead: Lead, x: Floats) -> str:
    assert lead.crossing is not None  # every lead but the first follows another
    where = estimate_words(lead.crossing, float(x[0]), float(x[-1]))
    return f"{lead.better.label} beats {lead.worse.label} above epsilon {where}"


def _range(lead: Lead, x: Floats) -> str:
    if lead.first == lead.last:
        return f"at epsilon {short(lead.first)}"
    if lead.last == x[-1] and lead.first > x[0]:
        return f"from epsilon {short(lead.first)} on"
    if lead.first == x[0] and lead.last < x[-1]:
        return f"up to epsilon {short(lead.last)}"
    return f"from epsilon {short(lead.first)} to {short(lead.last)}"


def _shared_axis(a: Floats, b: Floats) -> Floats:
    """The epsilons of both, where both have values."""
    low, high = max(a.min(), b.min()), min(a.max(), b.max())
    together = np.unique(np.concatenate([a, b]))
    # Two units may give epsilons that differ in the last digits only.
    together = together[np.concatenate([[True], np.diff(np.log(together)) > 1e-9])]
    slack = 1 + 1e-9
    inside: Floats = together[(together >= low / slack) & (together <= high * slack)]
    return inside


def _differences(a: Placed, b: Placed, x: Floats) -> tuple[Floats, int]:
    """a - b in the direction of better, at x, for the seeds that both have everywhere: X x S."""
    sides = []
    common = set(a.line.seeds[complete(a.line.values)].tolist())
    common &= set(b.line.seeds[complete(b.line.values)].tolist())
    for side in (a, b):
        kept = side.line.values[:, np.isin(side.line.seeds, sorted(common))]
        sides.append(_at(side.x, kept, x) if common and len(x) else np.empty((len(x), 0)))
    return a.line.metric.sign * (sides[0] - sides[1]), len(common)


def _crossing(x: Floats, lead: Floats, start: int, drawn: Ints) -> Estimate:
    """Where the lead (X x S), positive from `start` on, was last zero before."""
    value = _last_zero(x, lead.mean(axis=1), start)
    found = np.array([_last_zero(x, row, start) for row in means(lead, drawn)])
    return estimate(value, found, lead.shape[1])


def _last_zero(x: Floats, lead: Floats, start: int) -> float:
    """The epsilon nearest below the first positive place from `start` on; 0 or inf for none."""
    above = np.flatnonzero(lead[start:] > 0)
    if not len(above):
        return math.inf
    below = np.flatnonzero(lead[: start + above[0]] <= 0)
    if not len(below):
        return 0.0
    k = below[-1] + 1
    share = -lead[k - 1] / (lead[k] - lead[k - 1])
    return float(np.exp(np.log(x[k - 1]) + share * np.log(x[k] / x[k - 1])))


# --- the budget for a wanted quality -----------------------------------------------------


class Answer(NamedTuple):
    """What a wanted value costs on one line. epsilon: inf where it is not reached.

    best: the best value of the monotone fit; at: the epsilon it is first reached at.
    """

    placed: Placed
    wanted: float
    epsilon: Estimate
    best: float
    at: float


def smallest_epsilon(placed: Placed, wanted: float, rng: np.random.Generator) -> Answer:
    """What one wanted value costs; see `smallest_epsilons`."""
    return smallest_epsilons(placed, [wanted], rng)[0]


def smallest_epsilons(
    placed: Placed, wanted: Sequence[float], rng: np.random.Generator
) -> list[Answer]:
    """Invert the monotone fit of the means: more epsilon cannot make a mechanism worse.

    The fit is isotonic least squares on the means over seeds, linear in log epsilon
    between the epsilons computed; it is never extended beyond them. An answer for each wanted
    value.
    """
    line = placed.line
    direction = line.metric.sign
    whole = complete(line.values)
    x, seeds = placed.x, max(1, int(whole.sum()))
    if seeds > 1:
        values = direction * line.values[:, whole]
        weights = np.ones(len(x))
        fitted = isotonic(values.mean(axis=1), weights)
        drawn = isotonic(means(values, resamples(seeds, rng)), weights)
    else:
        weights = np.sum(~np.isnan(line.values), axis=1).astype(float)
        fitted = isotonic(direction * np.nanmean(line.values, axis=1), weights)
        drawn = fitted[None]
    best, at = direction * float(fitted[-1]), _first(x, fitted)
    found = []
    for value in wanted:
        goal = direction * value
        epsilon = float(_reach(x, fitted[None], goal)[0])
        where = estimate(epsilon, _reach(x, drawn, goal), seeds)
        found.append(Answer(placed, value, where, best, at))
    return found


def answer_words(answer: Answer, without: Reference | None = None) -> str:
    """The answer in words; without: the line without privacy."""
    line, x = answer.placed.line, answer.placed.x
    name = line.label
    wanted = f"{line.metric.spoken} {line.metric.text(answer.wanted)}"
    unit = answer.placed.counts
    epsilon = answer.epsilon
    if math.isinf(epsilon.value):
        text = (
            f"{name}: {wanted} is not reachable up to epsilon {short(x[-1])} {unit}; the best is"
            f" {line.metric.text(answer.best)} at epsilon {short(answer.at)}."
        )
        if without is not None and not line.metric.reached(without.level.mean, answer.wanted):
            best = line.metric.text(without.level.mean)
            text += f" Even without privacy it is {best}."
        elif epsilon.seeds > 1 and math.isfinite(epsilon.low):
            text += f" Some resampled seeds reach it, from epsilon {epsilon.low:.2g} on."
        return text
    if epsilon.value <= x[0]:
        least = short(x[0])
        return (
            f"{name}: {wanted} is reached already at the smallest epsilon computed, {least} {unit}."
        )
    found = estimate_words(epsilon, float(x[0]), float(x[-1]))
    hollow = "" if answer.placed.solid else " This epsilon is claimed, not certified."
    return f"{name}: {wanted} needs epsilon {found} {unit}.{hollow}"


def answers_table(answers: Sequence[Answer]) -> dict[str, list[object]]:
    """What each line needs for the wanted value."""
    names = ("mechanism", "wanted", "epsilon", "from", "to", "counts", "certified", "best")
    rows = [
        (
            one.placed.line.label,
            one.placed.line.metric.text(one.wanted),
            reach_words(one),
            "" if math.isinf(low) else short(max(low, one.placed.x[0]), 2),
            "not reached" if math.isinf(high) else short(high, 2),
            one.placed.counts,
            one.placed.solid,
            one.placed.line.metric.text(one.best),
        )
        for one in answers
        for _, low, high, _ in [one.epsilon]
    ]
    return columns(names, rows)


def reach_words(answer: Answer) -> str:
    """The epsilon alone, or why there is none: '1.2', '0.1 or less', 'not reached'."""
    if math.isinf(answer.epsilon.value):
        return "not reached"
    if answer.epsilon.value <= answer.placed.x[0]:
        return f"{short(float(answer.placed.x[0]), 2)} or less"
    return short(answer.epsilon.value, 2)


# --- the finding, in a title ---------------------------------------------------------------


def cost_words(answers: Sequence[Answer], without: Reference | None = None) -> str:
    """What the wanted quality costs, as a title; '' without answers, or from a single seed.

    What is certified goes before what is only claimed, and epsilons that count different things are
    not ranked. without: the line without privacy.
    """
    if not answers or min(one.epsilon.seeds for one in answers) < 2:
        return ""
    metric, wanted = answers[0].placed.line.metric, answers[0].wanted
    goal = f"{metric.spoken} {metric.text(wanted)}"
    there = [one for one in answers if math.isfinite(one.epsilon.value)]
    proved = [one for one in there if one.placed.solid]
    if not there:
        if without is not None and not metric.reached(without.level.mean, wanted):
            return f"Not even without privacy does anything reach {goal}"
        alone = f"{answers[0].placed.line.label} does not reach"
        return f"{'Nothing here reaches' if len(answers) > 1 else alone} {goal}"
    if not proved and all(one.placed.counts.endswith(AS_CLAIMED) for one in there):
        return f"Nothing certified in this unit reaches {goal}"
    if not proved:
        return f"Only claims that are not proved reach {goal}"
    first = min(proved, key=lambda one: one.epsilon.value)
    name, least = first.placed.line.label, reach_words(first)
    if len(proved) == 1:
        rest = "nothing else gets there" if len(there) == 1 else "others only claim to get there"
        return f"{name} needs epsilon {least} for {goal}" + (
            f"; {rest}" if len(answers) > 1 else ""
        )
    most = reach_words(max(proved, key=lambda one: one.epsilon.value))
    span = f"epsilon {least}" if least == most else f"epsilon {least} to {most}"
    if len({one.placed.counts for one in proved}) > 1:
        return f"{capital(goal)} takes {span}, counted in different units"
    rivals = [one for one in proved if one is not first]
    if first.epsilon.seeds > 1 and all(first.epsilon.high < one.epsilon.low for one in rivals):
        return f"{name} needs least for {goal}: epsilon {least}"
    many = f"{len(proved)} of {len(answers)} mechanisms"
    if len(proved) < len(there):
        many = f"{len(proved)} certified mechanisms of {len(answers)}"
    return f"{capital(goal)} takes {span} with {many}"


# --- the slider of wanted values -----------------------------------------------------------


def limits(values: Sequence[float]) -> tuple[float, float, float]:
    """The smallest and the largest wanted value worth asking for, and a step between them.

    Round numbers around all values, in about a hundred steps of 1, 2 or 5 times a power of ten.
    """
    low, high = min(values), max(values)
    least = max((high - low) / 100, 1e-6 * max(abs(low), abs(high)), 1e-6)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= least * (1 - 1e-9))
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    start, end = math.floor(low / step), math.ceil(high / step)
    if end == start:
        end += 1
    return round(start * step, digits), round(end * step, digits), round(step, digits)


def isotonic(values: Floats | Sequence[float], weights: Floats | Sequence[float]) -> Floats:
    """The nearest increasing sequences in weighted least squares; values: ... x E, weights: E.

    Each is max over a <= k of min over b >= k of the mean from a to b (Barlow, Bartholomew,
    Bremner, Brunk, "Statistical inference under order restrictions", 1972).
    """
    heights, masses = np.asarray(values, dtype=float), np.asarray(weights, dtype=float)
    sums = np.cumsum(heights * masses, axis=-1)
    fitted = np.full(heights.shape, -np.inf)
    for a in range(len(masses)):
        until = sums[..., a:] - sums[..., a : a + 1] + (heights * masses)[..., a : a + 1]
        means = until / np.cumsum(masses[a:])
        least = np.minimum.accumulate(means[..., ::-1], axis=-1)[..., ::-1]
        fitted[..., a:] = np.maximum(fitted[..., a:], least)
    return fitted


def _reach(x: Floats, fitted: Floats, goal: float) -> Floats:
    """The smallest epsilon at which each fit (draws x E) is at least the goal; inf for none."""
    above = fitted >= goal - 1e-12  # equal means differ by rounding
    k = np.argmax(above, axis=1)
    row, before = np.arange(len(k)), np.maximum(k - 1, 0)
    low, high = fitted[row, before], fitted[row, k]
    share = (goal - low) / np.where(high > low, high - low, 1.0)
    between = np.exp(np.log(x[before]) + share * np.log(x[k] / x[before]))
    found: Floats = np.where(k == 0, x[0], between)
    found[~above.any(axis=1)] = np.inf
    return found


def _first(x: Floats, fitted: Floats) -> float:
    near = 1e-12 * abs(float(fitted[-1]))  # equal means differ by rounding
    return float(x[int(np.flatnonzero(fitted >= fitted[-1] - near)[0])])


# --- what several pages say of a curve, each by one rule ---------------------------------------

UNCLEAR = "not clearly better than {}"
NEAR = 0.9  # share of the gain from which on there is little left to gain


# --- what of the gain is kept ------------------------------------------------------------


class KeptShare(NamedTuple):
    """What of the gain over guessing is left at an epsilon. share: by the means alone; clear:
    whether the seeds tell it from guessing, and the gain from nothing: else `words` say so."""

    share: float
    clear: bool
    words: str


def ends(picture: Picture, line: Line, epsilon: float) -> tuple[Interval | None, Interval | None]:
    """(what the line's own guess reaches at an epsilon, what is reached without privacy)."""
    own = floor_of(line)
    known: tuple[Line | Reference, ...] = (*picture.floors, *picture.guesses, *picture.lines)
    guesses = (one.at(epsilon) for one in known if one.mechanism == own != line.mechanism)
    without = picture.without
    return next(filter(None, guesses), None), without.level if without else None


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
    guessing = guess_name(floor_of(line))
    unclear = UNCLEAR.format(guessing)
    if min(here.seeds, guess.seeds) < FEWEST:
        words = ""
    elif not clearly_better(metric, best, guess):
        words = f"nothing to keep: no privacy is {unclear} either"
    elif clearly_better(metric, here, guess):
        return KeptShare(share, True, kept_words(share, guessing))
    elif clearly_better(metric, best, here):
        words = unclear
    else:
        words = "nothing to keep: the gain is within the noise"
    return KeptShare(share, False, words)


def kept_words(share: float, guess: str = GUESSING) -> str:
    """'keeps 79 % of the gain over guessing'."""
    return f"keeps {100 * share:.0f} % of the gain over {guess}"


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
    floors = {floor_of(line) for line in picture.lines}
    rivals = [line for line in picture.lines if line.mechanism not in floors]
    starts = [clear_from(picture, line) for line in rivals]
    known = [start for start in starts if start is not None]
    if not known or len(known) < len(starts):
        return ""
    told = UNCLEAR.format(guess_name(floor_of(rivals[0])))
    if math.isinf(min(known)):
        return f"{capital(told)} at any epsilon"
    if min(known) <= min(float(line.epsilon[0]) for line in rivals):
        return ""
    return f"Below epsilon {short(min(known))} {told}"


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


# --- the epsilon that a wanted quality takes ---------------------------------------------


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
