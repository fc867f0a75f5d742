"""What pages, commands and reports say in numbers of a curve: one rule for each number.

The baselines (`ends`), the share of the gain that is kept (`kept`, `since`), the epsilon that a
wanted quality takes (`smallest_epsilons`, `needed`), what ± stands for (`around`), and where a
curve stands at an epsilon (`at_words`). How a budget, its delta and a chance are spelled is said in
`cards`, a metric with its unit in `metrics`.

What a wanted quality takes is read off the means over seeds, between the epsilons computed; how
certain the reading is, is told by seeds drawn again with replacement. The mean of few seeds drawn
again spreads too little: by sqrt((S - 1) / S), and without the t distribution's tails. Resampled
means are therefore stretched about the mean until their 95 % interval is that of Student's t, and
then read like the mean itself. Measured on a sloped line, the interval covers the truth 93 to 97
times in 100; unstretched 54 times for two seeds, 84 for five.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from dpmc_core.arrays import Bools, Floats, Ints
from dpmc_core.errors import capital
from dpmc_core.metrics import Metric
from dpmc_lab.curves.lines import (
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
    ends_words,
    guess_name,
    place,
    short,
)
from dpmc_lab.curves.text import Table, columns, many

DRAWS = 2_000
FEWEST = 3  # seeds: from two alone an interval is too wide to say anything
UNCLEAR = "not clearly better than {}"
NEAR = 0.9  # share of the gain from which on there is little left to gain
_ONE = "(one seed: no interval)"

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


def complete(values: Floats) -> Bools:
    """Which seeds (columns) have a value at every epsilon."""
    return np.asarray(~np.isnan(values).any(axis=0), dtype=np.bool_)


def resamples(seeds: int) -> Ints:
    """DRAWS x seeds: which seeds each resample takes; the same each time."""
    return np.random.default_rng(0).integers(0, seeds, (DRAWS, seeds))


def means(values: Floats, resampled_seeds: Ints) -> Floats:
    """Mean over each resample of the seeds (values: X x S, S >= 2), stretched: draws x X."""
    mean, seeds, end = values.mean(axis=1), values.shape[1], 0.5 + LEVEL / 2
    stretch = float(stdtrit(seeds - 1, end) / ndtri(end)) * math.sqrt(seeds / (seeds - 1))
    stretched: Floats = mean + stretch * (values[:, resampled_seeds].mean(axis=2).T - mean)
    return stretched


def estimate(value: float, resampled: Floats, seeds: int) -> Estimate:
    """The percentile interval of values read off `means`; infinite ones count as such."""
    tail = (1 - LEVEL) / 2
    ordered = np.sort(resampled)
    low = ordered[int(np.floor(tail * (len(ordered) - 1)))]
    high = ordered[int(np.ceil((1 - tail) * (len(ordered) - 1)))]
    return Estimate(value, min(float(low), value), max(float(high), value), seeds)


def estimate_words(found: Estimate, first: float, last: float) -> str:
    """'1.4 (95 % bootstrap interval over 5 seeds, widened as a t interval: 1.2 to 1.7)'."""
    value = short(found.value, 2)
    if found.seeds < 2:
        return f"{value} {_ONE}"
    kind = f"95 % bootstrap interval over {found.seeds} seeds, widened as a t interval"
    return f"{value} ({kind}: {span_words(found, first, last)})"


def span_words(estimate: Estimate, first: float, last: float) -> str:
    """Its interval alone: '1.2 to 1.7', or beyond which end of the epsilons computed it goes."""
    return " to ".join(_end(value, first, last) for value in (estimate.low, estimate.high))


def _end(value: float, first: float, last: float) -> str:
    if value < first:
        return f"below {short(first)}"
    return f"beyond {short(last)}" if value > last else short(value, 2)


def around(metric: Metric, found: Interval) -> str:
    """What ± stands for: half of the 95 % t interval, in its unit, and the seeds it is over."""
    if found.seeds < 2:
        return f"{metric.unit} {_ONE}".lstrip()
    return f"± {metric.full(found.half_width)} over {found.seeds} seeds"


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


def smallest_epsilons(plotted: Placed, targets: Sequence[float]) -> list[Answer]:
    """Invert the monotone fit of the means: more epsilon cannot make a mechanism worse.

    The fit is isotonic least squares on the means over seeds, linear in log epsilon
    between the epsilons computed; it is never extended beyond them. An answer for each wanted
    value.
    """
    line = plotted.line
    direction = line.metric.sign
    is_complete = complete(line.values)
    x, seeds = plotted.x, max(1, int(is_complete.sum()))
    observed = line.values[:, is_complete] if seeds > 1 else line.values
    weights = np.sum(~np.isnan(observed), axis=1).astype(float)
    fitted = isotonic(np.nanmean(direction * observed, axis=1), weights)
    resampled_fits = fitted[None]
    if seeds > 1:
        resampled_fits = isotonic(means(direction * observed, resamples(seeds)), weights)
    threshold = fitted[-1] - 1e-12 * abs(fitted[-1])  # equal means differ by rounding
    best, best_epsilon = direction * float(fitted[-1]), float(x[np.argmax(fitted >= threshold)])
    required = []
    for value in targets:
        goal = direction * value
        estimated = estimate(
            float(_reach(x, fitted[None], goal)[0]), _reach(x, resampled_fits, goal), seeds
        )
        required.append(Answer(plotted, value, estimated, best, best_epsilon))
    return required


def answer_words(answer: Answer, without: Reference | None = None) -> str:
    """The answer in words; without: the line without privacy."""
    line, x = answer.placed.line, answer.placed.x
    wanted = f"{line.metric.spoken} {line.metric.full(answer.wanted)}"
    unit, epsilon = answer.placed.counts, answer.epsilon
    if math.isinf(epsilon.value):
        text = (
            f"{line.label}: {wanted} is not reachable up to epsilon {short(x[-1])} {unit}; the best"
            f" is {line.metric.text(answer.best)} at epsilon {short(answer.at)}."
        )
        if without is not None and not line.metric.reached(without.level.mean, answer.wanted):
            best = line.metric.text(without.level.mean)
            text += f" Even without privacy it is {best}."
        elif epsilon.seeds > 1 and math.isfinite(epsilon.low):
            text += f" Some resampled seeds reach it, from epsilon {short(epsilon.low, 2)} on."
        return text
    if epsilon.value <= x[0]:
        least = short(x[0])
        return (
            f"{line.label}: {wanted} is reached already at the smallest epsilon computed, {least}"
            f" {unit}."
        )
    found = estimate_words(epsilon, *x[[0, -1]])
    hollow = "" if answer.placed.solid else " This epsilon is claimed, not certified."
    return f"{line.label}: {wanted} needs epsilon {found} {unit}.{hollow}"


def answers_table(answers: Sequence[Answer]) -> Table:
    """What each line needs for the wanted value."""
    names = ("mechanism", "wanted", "epsilon", "from", "to", "counts", "certified", "best")
    rows = [
        (
            answer.placed.line.label,
            answer.placed.line.metric.text(answer.wanted),
            reach_words(answer),
            *(_end(end, *answer.placed.x[[0, -1]]) for end in answer.epsilon[1:3]),
            answer.placed.counts,
            answer.placed.solid,
            answer.placed.line.metric.text(answer.best),
        )
        for answer in answers
    ]
    return columns(names, rows)


def reach_words(answer: Answer) -> str:
    """The epsilon alone, or why there is none: '1.2', '0.1 or less', 'not reached'."""
    if math.isinf(answer.epsilon.value):
        return "not reached"
    if answer.epsilon.value <= answer.placed.x[0]:
        return f"{short(answer.placed.x[0], 2)} or less"
    return short(answer.epsilon.value, 2)


# --- the finding, in a title ---------------------------------------------------------------


def cost_words(answers: Sequence[Answer], nonprivate_reference: Reference | None = None) -> str:
    """What the wanted quality costs, as a title; '' without answers, or from a single seed.

    What is certified goes before what is only claimed, and epsilons that count different things are
    not ranked. nonprivate_reference: the line without privacy.
    """
    if not answers or min(answer.epsilon.seeds for answer in answers) < 2:
        return ""
    metric, wanted = answers[0].placed.line.metric, answers[0].wanted
    goal = f"{metric.spoken} {metric.full(wanted)}"
    reached = [answer for answer in answers if math.isfinite(answer.epsilon.value)]
    proved = [answer for answer in reached if answer.placed.solid]
    if not reached:
        if nonprivate_reference is not None and not metric.reached(
            nonprivate_reference.level.mean, wanted
        ):
            return f"Not even without privacy does anything reach {goal}"
        alone = f"{answers[0].placed.line.label} does not reach"
        return f"{'Nothing here reaches' if len(answers) > 1 else alone} {goal}"
    if not proved and all(answer.placed.counts.endswith(AS_CLAIMED) for answer in reached):
        return f"Nothing certified in this unit reaches {goal}"
    if not proved:
        return f"Only claims that are not proved reach {goal}"
    first = min(proved, key=lambda answer: answer.epsilon.value)
    name, least = first.placed.line.label, reach_words(first)
    if len(proved) == 1:
        rest = "nothing else gets there" if len(reached) == 1 else "others only claim to get there"
        return f"{name} needs epsilon {least} for {goal}" + (
            f"; {rest}" if len(answers) > 1 else ""
        )
    most = reach_words(max(proved, key=lambda answer: answer.epsilon.value))
    span = f"epsilon {least}" if least == most else f"epsilon {least} to {most}"
    if len({answer.placed.counts for answer in proved}) > 1:
        return f"{capital(goal)} takes {span}, counted in different units"
    rivals = [answer for answer in proved if answer is not first]
    if first.epsilon.seeds > 1 and all(
        first.epsilon.high < answer.epsilon.low for answer in rivals
    ):
        return f"{name} needs least for {goal}: epsilon {least}"
    many = f"{len(proved)} of {len(answers)} mechanisms"
    if len(proved) < len(reached):
        many = f"{len(proved)} certified mechanisms of {len(answers)}"
    return f"{capital(goal)} takes {span} with {many}"


# --- the slider of wanted values -----------------------------------------------------------


def limits(values: Sequence[float]) -> tuple[float, float, float]:
    """The smallest and the largest wanted value worth asking for, and a step between them.

    Round numbers around all values, in about a hundred steps of 1, 2 or 5 times a power of ten.
    """
    low, high = min(values), max(values)
    min_step = max((high - low) / 100, 1e-6 * max(abs(low), abs(high)), 1e-6)
    power = 10.0 ** math.floor(math.log10(min_step))
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= min_step * (1 - 1e-9))
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
        segment_sums = sums[..., a:] - sums[..., a : a + 1] + (heights * masses)[..., a : a + 1]
        means = segment_sums / np.cumsum(masses[a:])
        running_minimum = np.minimum.accumulate(means[..., ::-1], axis=-1)[..., ::-1]
        fitted[..., a:] = np.maximum(fitted[..., a:], running_minimum)
    return fitted


def _reach(x: Floats, fitted: Floats, goal: float) -> Floats:
    """The smallest epsilon at which each fit (draws x E) is at least the goal; inf for none."""
    above = fitted >= goal - 1e-12  # equal means differ by rounding
    k = np.argmax(above, axis=1)
    row, previous = np.arange(len(k)), np.maximum(k - 1, 0)
    low, high = fitted[row, previous], fitted[row, k]
    share = (goal - low) / np.where(high > low, high - low, 1.0)
    between = np.exp(np.log(x[previous]) + share * np.log(x[k] / x[previous]))
    crossings: Floats = np.where(k == 0, x[0], between)
    crossings[~above.any(axis=1)] = np.inf
    return crossings


# --- what of the gain is kept ------------------------------------------------------------


class KeptShare(NamedTuple):
    """What of the gain over guessing is left at an epsilon. share: by the means alone; clear:
    whether the seeds tell it from guessing, and the gain from nothing: else `words` say so."""

    share: float
    clear: bool
    words: str


def ends(chart: Picture, line: Line, epsilon: float) -> tuple[Interval | None, Interval | None]:
    """(what the line's own guess reaches at an epsilon, what is reached without privacy)."""
    baseline_id = chart.baseline(line)
    curves: tuple[Line | Reference, ...] = (*chart.floors, *chart.guesses, *chart.lines)
    baselines = (
        curve.at(epsilon) for curve in curves if curve.mechanism == baseline_id != line.mechanism
    )
    reference = chart.without
    return next(filter(None, baselines), None), reference.level if reference else None


def kept(
    chart: Picture, line: Line, epsilon: float, best: Interval | None = None
) -> KeptShare | None:
    """The share of what the data give over guessing that is left at an epsilon.

    best: what the gain is measured against, else no privacy. None where a number lacks; without
    words where one rests on too few seeds for an interval.
    """
    current, (baseline, reference) = line.at(epsilon), ends(chart, line, epsilon)
    best, metric = best or reference, chart.metric
    if current is None or baseline is None or best is None:
        return None
    total_gain = metric.sign * (best.mean - baseline.mean)
    share = (
        metric.sign * (current.mean - baseline.mean) / total_gain if total_gain > 0 else math.nan
    )
    baseline_name = guess_name(chart.baseline(line))
    unclear = UNCLEAR.format(baseline_name)
    if min(current.seeds, baseline.seeds) < FEWEST:
        label = ""
    elif not clearly_better(metric, best, baseline):
        label = f"nothing to keep: no privacy is {unclear} either"
    elif clearly_better(metric, current, baseline):
        return KeptShare(share, True, kept_words(share, baseline_name))
    elif clearly_better(metric, best, current):
        label = unclear
    else:
        label = "nothing to keep: the gain is within the noise"
    return KeptShare(share, False, label)


def kept_words(share: float, guess: str = GUESSING) -> str:
    """'keeps 79 % of the gain over guessing'."""
    return f"keeps {100 * share:.0f} % of the gain over {guess}"


def clear_from(chart: Picture, line: Line) -> float | None:
    """The smallest epsilon at which a line is clearly better than its own guess; inf for none.

    None where it is not known: without a guess, or of too few seeds.
    """
    points = [(e, line.at(e), ends(chart, line, e)[0]) for e in line.epsilon.tolist()]
    comparable = [(e, current, baseline) for e, current, baseline in points if current and baseline]
    if (
        not comparable
        or min(min(current.seeds, baseline.seeds) for _, current, baseline in comparable) < FEWEST
    ):
        return None
    clear_epsilons = (
        e for e, current, baseline in comparable if clearly_better(line.metric, current, baseline)
    )
    return next(clear_epsilons, math.inf)


def guess_words(chart: Picture) -> str:
    """Below which epsilon no line is clearly better than guessing; '' where one always is.

    By the setting, which counts what each method protects.
    """
    baselines = {chart.baseline(line) for line in chart.lines}
    rivals = [line for line in chart.lines if line.mechanism not in baselines]
    starts = [clear_from(chart, line) for line in rivals]
    known = [start for start in starts if start is not None]
    if not known or len(known) < len(starts):
        return ""
    told = UNCLEAR.format(guess_name(chart.baseline(rivals[0])))
    if math.isinf(min(known)):
        return f"{capital(told)} at any epsilon"
    if min(known) <= min(float(line.epsilon[0]) for line in rivals):
        return ""
    return f"Below epsilon {short(min(known))} {told}"


def finding(chart: Picture, line: Line) -> str:
    """What the curve says, in a sentence; nothing where it says nothing for sure."""
    sentences = [guess_words(chart._replace(lines=(line,)))]
    gain_shares = [kept(chart, line, epsilon) for epsilon in line.epsilon.tolist()]
    is_nearly_full = [
        gain_share is not None and gain_share.clear and gain_share.share >= NEAR
        for gain_share in gain_shares
    ]
    stop = since(line.epsilon.tolist(), is_nearly_full)
    if stop is not None:
        even = "" if stop > line.epsilon[0] else "even "
        sentences.append(f"{even}epsilon {stop:g} keeps 90 % of the gain")
    return capital("; ".join(filter(None, sentences)))


def since(epsilons: Sequence[float], holds: Sequence[bool]) -> float | None:
    """The epsilon from which on something holds at all computed; None where not at the last."""
    first = max((k + 1 for k, is_true in enumerate(holds) if not is_true), default=0)
    return epsilons[first] if first < len(epsilons) else None


# --- where a curve stands at an epsilon --------------------------------------------------


def at_words(chart: Picture, epsilon: float) -> str:
    """Where its first line stands, what it keeps and what it runs between, as means over seeds; ""
    where nothing is computed."""
    line, metric = chart.lines[0], chart.metric
    here, share = line.at(epsilon), kept(chart, line, epsilon)
    if here is None:
        return ""
    told = [f"{metric.text(here.mean)} {around(metric, here)}", share.words if share else ""]
    for name, level in chart.between(epsilon):
        over = f" over {many(level.seeds, 'seed')}" * (level.seeds != here.seeds)
        told.append(f"{name}: {metric.text(level.mean)}{over}")
    return f"the curve at epsilon {epsilon:g}: {'; '.join(filter(None, told))}"


def words_at(picture: Picture, epsilon: float) -> str:
    """Its lines and where they stand there, as text."""
    of = f"{picture.metric.title} against epsilon, of"
    phrases = [f"{of} {line.label}: {ends_words(line)}" for line in picture.lines]
    return "; ".join(filter(None, (*phrases, at_words(picture, epsilon)))) + "."


# --- the epsilon that a wanted quality takes ---------------------------------------------


class Needed(NamedTuple):
    """What a wanted quality takes, in words; at, low, high: the epsilon and the ends of its
    interval as places among the stops, between two of them too; None beyond the last one."""

    goal: str
    words: str
    at: float | None
    low: float | None
    high: float | None


def needed(line: Line, slider_epsilons: Sequence[float], targets: Sequence[float]) -> list[Needed]:
    """The epsilon that Compare names, with the slider's stop from which on it is reached."""
    placed, metric = place(line, Count.PAPER), line.metric
    first, last = placed.x[[0, -1]].tolist()

    def among(epsilon: float) -> float | None:
        if epsilon > last:
            return None
        return float(
            np.interp(
                math.log(max(epsilon, first)), np.log(slider_epsilons), range(len(slider_epsilons))
            )
        )

    slider_targets = []
    for one in smallest_epsilons(placed, targets):
        goal = f"{'at most ' * metric.lower}{metric.full(one.wanted)}"
        epsilon = one.epsilon
        if math.isinf(epsilon.value):
            text = f"{goal} is not reached up to epsilon {short(last)}."
        else:
            sure = "certified" if placed.solid else "claimed, not certified"
            ends = at = ""
            if epsilon.value > first:
                stop = next((s for s in slider_epsilons if s >= epsilon.value * (1 - 1e-9)), last)
                at = f"; on the slider {stop:g}"
                ends = f" ({span_words(epsilon, first, last)})" * (epsilon.seeds > 1)
            text = f"{goal} takes epsilon {reach_words(one)}{ends} {placed.counts}, {sure}{at}."
        slider_targets.append(Needed(goal, capital(text), *map(among, epsilon[:3])))
    return slider_targets
