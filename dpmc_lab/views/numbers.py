"""Compute the numbers that pages, commands and reports state about a curve, each by one rule.

The numbers are the baselines (`find_gain_ends`), the share of the gain that is kept
(`compute_gain_share`, `find_lasting_epsilon`), the epsilon that a target quality needs
(`find_required_epsilons`, `locate_targets`), what ± stands for (`format_margin`), and where a curve
is at an epsilon (`describe_at_epsilon`). The module `cards` formats budgets, deltas and chances;
`metrics` formats a metric with its unit.

The epsilon for a target is read off the means over seeds, between the epsilons computed. Its
uncertainty comes from resampling the seeds with replacement. The mean of a few resampled seeds
varies too little: by a factor sqrt((S - 1) / S), and without the tails of the t distribution.
Resampled means are therefore stretched about the mean until their 95 % interval is that of
Student's t, and then read like the mean itself. Measured on a sloped line, the interval covers the
truth 93 to 97 times in 100; without stretching it does so 54 times for two seeds and 84 times for
five.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from dpmc_core.arrays import Bools, Floats, Ints
from dpmc_core.errors import capitalise
from dpmc_core.metrics import Metric
from dpmc_lab.views.lines import (
    LEVEL,
    Curve,
    CurveChart,
    EpsilonUnit,
    Interval,
    PlottedLine,
    Role,
    compute_interval,
    format_baseline_name,
    format_curve_ends,
    format_short_number,
    is_clearly_better,
    place_on_axis,
)
from dpmc_lab.views.text import Table, build_table, format_count

N_RESAMPLES = 2_000
MIN_SEEDS = 3  # with fewer seeds an interval is too wide to be useful
UNCLEAR = "not clearly better than {}"
_SINGLE_SEED = "(one seed: no interval)"

# --- readings and their intervals --------------------------------------------------------


class Estimate(NamedTuple):
    """An epsilon with its 95 % interval from resampled and stretched means over seeds.

    Attributes:
        value: the epsilon that reaches a target; inf where no epsilon computed reaches it, and the
            smallest one computed where that one already does.
        low, high: ends of the interval.
        seeds: number of seeds behind it; with a single one the interval is the value itself.
    """

    value: float
    low: float
    high: float
    seeds: int


def find_complete_seeds(values: Floats) -> Bools:
    """Return for each seed (column) whether it has a value at every epsilon."""
    return np.asarray(~np.isnan(values).any(axis=0), dtype=np.bool_)


def sample_resamples(seeds: int) -> Ints:
    """Return the seeds that each resample takes; they are the same every time.

    Returns:
        Array of shape (N_RESAMPLES, seeds).
    """
    return np.random.default_rng(0).integers(0, seeds, (N_RESAMPLES, seeds))


def resample_means(values: Floats, resampled_seeds: Ints) -> Floats:
    """Compute the mean over each resample of the seeds, stretched about the mean.

    Args:
        values: array of shape (n_epsilons, n_seeds), with at least two seeds.
        resampled_seeds: array of shape (n_resamples, n_seeds).

    Returns:
        Array of shape (n_resamples, n_epsilons).
    """
    mean = values.mean(axis=1)
    seeds = values.shape[1]
    end = 0.5 + LEVEL / 2
    stretch = float(stdtrit(seeds - 1, end) / ndtri(end)) * math.sqrt(seeds / (seeds - 1))
    stretched: Floats = mean + stretch * (values[:, resampled_seeds].mean(axis=2).T - mean)
    return stretched


def compute_estimate(value: float, resampled: Floats, seeds: int) -> Estimate:
    """Return an epsilon with the percentile interval of its resamples, widened to contain it.

    The ends are resamples, never interpolated ones, because a resample may be infinite.

    Args:
        value: the epsilon.
        resampled: array of shape (n_resamples,), the epsilon of each resample.
        seeds: number of seeds behind it.
    """
    tail = (1 - LEVEL) / 2
    ordered = np.sort(resampled)
    low = ordered[int(np.floor(tail * (len(ordered) - 1)))]
    high = ordered[int(np.ceil((1 - tail) * (len(ordered) - 1)))]
    return Estimate(value, min(float(low), value), max(float(high), value), seeds)


def format_estimate(estimate: Estimate, first: float, last: float) -> str:
    """Return '1.4 (95 % bootstrap interval over 5 seeds, widened as a t interval: 1.2 to 1.7)'.

    Args:
        estimate: the estimate.
        first, last: the ends of the computed epsilons.
    """
    value = format_short_number(estimate.value, 2)
    if estimate.seeds < 2:
        return f"{value} {_SINGLE_SEED}"
    kind = f"95 % bootstrap interval over {estimate.seeds} seeds, widened as a t interval"
    return f"{value} ({kind}: {format_estimate_interval(estimate, first, last)})"


def format_estimate_interval(estimate: Estimate, first: float, last: float) -> str:
    """Return '1.2 to 1.7'; an end beyond the computed epsilons, first to last, is named so.

    Args:
        estimate: the estimate.
        first, last: ends of the computed epsilons.
    """
    return " to ".join(
        _format_interval_end(value, first, last) for value in (estimate.low, estimate.high)
    )


def _format_interval_end(value: float, first: float, last: float) -> str:
    """Return an end of an interval, or that it lies beyond the computed epsilons, first to last.

    Args:
        value: the end.
        first, last: ends of the computed epsilons.
    """
    if value < first:
        return f"below {format_short_number(first)}"
    return f"beyond {format_short_number(last)}" if value > last else format_short_number(value, 2)


def format_margin(metric: Metric, interval: Interval) -> str:
    """Return what ± stands for: half of the 95 % t interval, its unit and the number of seeds."""
    if interval.seeds < 2:
        return f"{metric.unit} {_SINGLE_SEED}".lstrip()
    return f"± {metric.format_with_unit(interval.half_width)} over {interval.seeds} seeds"


# --- the epsilon for a target quality ----------------------------------------------------


class RequiredEpsilon(NamedTuple):
    """The epsilon that a target value needs on one line.

    Attributes:
        plotted: the line.
        target: the target value of the metric.
        epsilon: the estimate, with value inf where the target is not reached.
        best: the best value of the monotone fit.
        best_epsilon: the smallest epsilon at which the fit has its best value.
    """

    plotted: PlottedLine
    target: float
    epsilon: Estimate
    best: float
    best_epsilon: float


def find_required_epsilons(plotted: PlottedLine, targets: Sequence[float]) -> list[RequiredEpsilon]:
    """Return the epsilon that each target value needs on a line.

    It is read off a monotone fit, since more epsilon cannot make a mechanism worse. The fit is
    isotonic least squares on the means over seeds, linear in log epsilon between the epsilons
    computed; it is never extended beyond them.

    Args:
        plotted: the line.
        targets: target values of the metric.

    Returns:
        One answer for each target.
    """
    line = plotted.line
    direction = line.metric.sign
    is_complete = find_complete_seeds(line.values)
    x = plotted.x
    seeds = max(1, int(is_complete.sum()))
    observed = line.values[:, is_complete] if seeds > 1 else line.values
    weights = np.sum(~np.isnan(observed), axis=1).astype(float)
    fitted = fit_isotonic(np.nanmean(direction * observed, axis=1), weights)
    resampled_fits = fitted[None]
    if seeds > 1:
        resampled_fits = fit_isotonic(
            resample_means(direction * observed, sample_resamples(seeds)), weights
        )
    threshold = fitted[-1] - 1e-12 * abs(fitted[-1])  # equal means differ by rounding
    best = direction * float(fitted[-1])
    best_epsilon = float(x[np.argmax(fitted >= threshold)])
    required = []
    for value in targets:
        goal = direction * value
        estimated = compute_estimate(
            float(_find_crossings(x, fitted[None], goal)[0]),
            _find_crossings(x, resampled_fits, goal),
            seeds,
        )
        required.append(RequiredEpsilon(plotted, value, estimated, best, best_epsilon))
    return required


def describe_required_epsilon(
    answer: RequiredEpsilon, nonprivate_reference: Curve | None = None
) -> str:
    """Describe the epsilon that a target needs.

    Args:
        answer: the epsilon and its target.
        nonprivate_reference: the line without privacy, if there is one.
    """
    line = answer.plotted.line
    x = answer.plotted.x
    target = f"{line.metric.label} {line.metric.format_with_unit(answer.target)}"
    unit = answer.plotted.unit
    epsilon = answer.epsilon
    if math.isinf(epsilon.value):
        text = (
            f"{line.label}: {target} is not reachable up to epsilon {format_short_number(x[-1])}"
            f" {unit}; the best is {line.metric.format_value(answer.best)} at epsilon"
            f" {format_short_number(answer.best_epsilon)}."
        )
        if nonprivate_reference is not None and not line.metric.is_reached(
            nonprivate_reference.interval.mean, answer.target
        ):
            best = line.metric.format_value(nonprivate_reference.interval.mean)
            text += f" Even without privacy it is {best}."
        elif epsilon.seeds > 1 and math.isfinite(epsilon.low):
            text += (
                " Some resampled seeds reach it, from epsilon"
                f" {format_short_number(epsilon.low, 2)} on."
            )
        return text
    if epsilon.value <= x[0]:
        smallest = format_short_number(x[0])
        return (
            f"{line.label}: {target} is reached already at the smallest epsilon computed,"
            f" {smallest} {unit}."
        )
    formatted = format_estimate(epsilon, *x[[0, -1]])
    caveat = "" if answer.plotted.is_certified else " This epsilon is claimed, not certified."
    return f"{line.label}: {target} needs epsilon {formatted} {unit}.{caveat}"


def tabulate_required_epsilons(answers: Sequence[RequiredEpsilon]) -> Table:
    """Return the epsilon that each line needs for the target, as columns."""
    names = ("mechanism", "wanted", "epsilon", "from", "to", "counts", "certified", "best")
    rows = [
        (
            answer.plotted.line.label,
            answer.plotted.line.metric.format_value(answer.target),
            format_required_epsilon(answer),
            *(_format_interval_end(end, *answer.plotted.x[[0, -1]]) for end in answer.epsilon[1:3]),
            answer.plotted.unit,
            answer.plotted.is_certified,
            answer.plotted.line.metric.format_value(answer.best),
        )
        for answer in answers
    ]
    return build_table(names, rows)


def format_required_epsilon(answer: RequiredEpsilon) -> str:
    """Return the epsilon without its interval: '1.2', '0.1 or less', 'not reached'."""
    if math.isinf(answer.epsilon.value):
        return "not reached"
    if answer.epsilon.value <= answer.plotted.x[0]:
        return f"{format_short_number(answer.plotted.x[0], 2)} or less"
    return format_short_number(answer.epsilon.value, 2)


# --- the finding, in a title ---------------------------------------------------------------


def describe_cost(
    answers: Sequence[RequiredEpsilon], nonprivate_reference: Curve | None = None
) -> str:
    """Return what the target quality costs as a title; empty without answers or with a single seed.

    What is certified comes before what is only claimed, and epsilons that count different changes
    are not ranked.

    Args:
        answers: the epsilon that each line needs for the same target.
        nonprivate_reference: the line without privacy, if there is one.
    """
    if not answers or min(answer.epsilon.seeds for answer in answers) < 2:
        return ""
    metric = answers[0].plotted.line.metric
    target = answers[0].target
    goal = f"{metric.label} {metric.format_with_unit(target)}"
    reached = [answer for answer in answers if math.isfinite(answer.epsilon.value)]
    proved = [answer for answer in reached if answer.plotted.is_certified]
    if not reached:
        if nonprivate_reference is not None and not metric.is_reached(
            nonprivate_reference.interval.mean, target
        ):
            return f"Not even without privacy does anything reach {goal}"
        single = f"{answers[0].plotted.line.label} does not reach"
        return f"{'Nothing here reaches' if len(answers) > 1 else single} {goal}"
    if not proved and all(answer.plotted.role is Role.AS_CLAIMED for answer in reached):
        return f"Nothing certified in this unit reaches {goal}"
    if not proved:
        return f"Only claims that are not proved reach {goal}"
    first = min(proved, key=lambda answer: answer.epsilon.value)
    name = first.plotted.line.label
    smallest = format_required_epsilon(first)
    if len(proved) == 1:
        remainder = (
            "nothing else gets there" if len(reached) == 1 else "others only claim to get there"
        )
        return f"{name} needs epsilon {smallest} for {goal}" + (
            f"; {remainder}" if len(answers) > 1 else ""
        )
    largest = format_required_epsilon(max(proved, key=lambda answer: answer.epsilon.value))
    span = f"epsilon {smallest}" if smallest == largest else f"epsilon {smallest} to {largest}"
    if len({answer.plotted.unit for answer in proved}) > 1:
        return f"{capitalise(goal)} takes {span}, counted in different units"
    rivals = [answer for answer in proved if answer is not first]
    if first.epsilon.seeds > 1 and all(
        first.epsilon.high < answer.epsilon.low for answer in rivals
    ):
        return f"{name} needs least for {goal}: epsilon {smallest}"
    if equal := find_equal_costs(answers):
        ends = (format_required_epsilon(answer) for answer in (equal[0], equal[-1]))
        span = " to ".join(dict.fromkeys(ends))
        number = _NUMBER_WORDS.get(len(equal), str(len(equal)))
        value = metric.format_with_unit(target)
        return f"These {number} cost the same at {value}: epsilon {span}"
    return (
        f"{capitalise(goal)} takes {span} with {len(proved)} certified mechanisms of {len(answers)}"
    )


_NUMBER_WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


def find_equal_costs(answers: Sequence[RequiredEpsilon]) -> list[RequiredEpsilon]:
    """Return the cheapest certified answers that cannot be told apart, if there are several.

    Their epsilons are at most 10 % above the cheapest, in one unit and within the epsilons
    computed, and all their intervals have an epsilon in common.

    Args:
        answers: the epsilon that each line needs for the same target.
    """
    equal: list[RequiredEpsilon] = []
    for answer in sorted(answers, key=lambda answer: answer.epsilon.value):
        candidates = [*equal, answer]
        if (
            answer.plotted.is_certified
            and answer.plotted.unit == candidates[0].plotted.unit
            and answer.epsilon.seeds >= MIN_SEEDS
            and answer.plotted.x[0] < answer.epsilon.value < math.inf
            # An epsilon that is a tenth larger is visibly different, whatever its interval.
            and answer.epsilon.value <= 1.1 * candidates[0].epsilon.value
            and max(c.epsilon.low for c in candidates) <= min(c.epsilon.high for c in candidates)
        ):
            equal = candidates
    return equal if len(equal) > 1 else []


# --- the slider of targets -----------------------------------------------------------------


class TargetRange(NamedTuple):
    """The targets that a slider offers, on its own scale.

    Attributes:
        low, high, step: its ends, and the step between its values.
        start: its first value, halfway between the levels that the lines run between.
        scale: what one unit of the metric is on it; a share is shown in percent.
    """

    low: float
    high: float
    step: float
    start: float
    scale: float


def choose_targets(chart: CurveChart, plotted_lines: Sequence[PlottedLine]) -> TargetRange:
    """Choose the targets that are worth asking for in a chart."""
    metric = chart.metric
    levels = [level.mean for _, level in chart.list_endpoints(1.0)]
    if metric.is_share:
        # In percent; a fair coin already reaches an accuracy of 50 %.
        low, high, step = 50.0 if metric.name == "accuracy" else 0.0, 100.0, 0.5
        start: float = round(100 * sum(levels) / len(levels)) if levels else 50
    else:
        curve_values = [float(value) for entry in plotted_lines for value in entry.band.mean]
        low, high, step = _choose_target_range([*levels, *curve_values])
        middle = sum(levels) / len(levels) if levels else (low + high) / 2
        start = step * round(middle / step)
    start = min(high, max(low, float(start)))
    return TargetRange(low, high, step, start, 100.0 if metric.is_share else 1.0)


def _choose_target_range(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the smallest and the largest target worth asking for, and a step between them.

    They are round numbers around all values, in about a hundred steps of 1, 2 or 5 times a power of
    ten.

    Args:
        values: values of the metric.
    """
    low = min(values)
    high = max(values)
    # Equal values still need a step above 0.
    min_step = max((high - low) / 100, 1e-6 * max(abs(low), abs(high)), 1e-6)
    step = choose_step(min_step)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    start = math.floor(low / step)
    end = math.ceil(high / step)
    if end == start:
        end += 1
    return round(start * step, digits), round(end * step, digits), round(step, digits)


def choose_step(width: float) -> float:
    """Return the smallest of 1, 2 or 5 times a power of ten that is at least a width."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(k * power for k in (1, 2, 5, 10) if k * power >= width * (1 - 1e-9))


def fit_isotonic(values: Floats | Sequence[float], weights: Floats | Sequence[float]) -> Floats:
    """Fit the nearest non-decreasing sequences by weighted least squares.

    Each value is the maximum over a <= k of the minimum over b >= k of the mean from a to b
    (Barlow, Bartholomew, Bremner, Brunk, "Statistical inference under order restrictions", 1972).

    Args:
        values: array of shape (..., n_epsilons).
        weights: array of shape (n_epsilons,).

    Returns:
        Array of the shape of `values`.
    """
    heights = np.asarray(values, dtype=float)
    masses = np.asarray(weights, dtype=float)
    sums = np.cumsum(heights * masses, axis=-1)
    fitted = np.full(heights.shape, -np.inf)
    for a in range(len(masses)):
        segment_sums = sums[..., a:] - sums[..., a : a + 1] + (heights * masses)[..., a : a + 1]
        segment_means = segment_sums / np.cumsum(masses[a:])
        running_minimum = np.minimum.accumulate(segment_means[..., ::-1], axis=-1)[..., ::-1]
        fitted[..., a:] = np.maximum(fitted[..., a:], running_minimum)
    return fitted


def _find_crossings(x: Floats, fitted: Floats, goal: float) -> Floats:
    """Return the smallest epsilon at which each fit reaches the goal; inf where none does.

    Args:
        x: array of shape (n_epsilons,).
        fitted: array of shape (n_fits, n_epsilons).
        goal: the value to reach.
    """
    above = fitted >= goal - 1e-12  # equal means differ by rounding
    first = np.argmax(above, axis=1)
    row = np.arange(len(first))
    previous = np.maximum(first - 1, 0)
    low = fitted[row, previous]
    high = fitted[row, first]
    share = (goal - low) / np.where(high > low, high - low, 1.0)
    between = np.exp(np.log(x[previous]) + share * np.log(x[first] / x[previous]))
    crossings: Floats = np.where(first == 0, x[0], between)
    crossings[~above.any(axis=1)] = np.inf
    return crossings


def compare_by_seed(metric: Metric, first: Curve, second: Curve, epsilon: float) -> int | None:
    """Compare two curves at an epsilon by the 95 % interval of their difference, seed by seed.

    All methods of a seed share its split. The seeds of curves count from 1.

    Returns:
        1 where the first curve is clearly better, -1 where it is clearly worse, 0 where the runs
        cannot tell, and None where they have too few seeds in common.
    """
    values = (curve.values_at(epsilon) for curve in (first, second))
    differences = [metric.sign * (a - b) for a, b in zip(*values, strict=False) if a - b == a - b]
    if len(differences) < MIN_SEEDS:
        return None
    interval = compute_interval(differences)
    return (interval.low > 0) - (interval.high < 0)


# --- the share of the gain that is kept --------------------------------------------------


class GainShare(NamedTuple):
    """The share of the gain over the baseline that is left at an epsilon.

    Attributes:
        share: the share, computed from the means over seeds.
        is_clear: whether the seeds distinguish the line from the baseline, and the gain from zero.
        label: the share in words, or why it is not clear.
        low, high: ends of the 95 % interval of the share, where it is clear.
    """

    share: float
    is_clear: bool
    label: str
    low: float = math.nan
    high: float = math.nan


def find_gain_ends(
    chart: CurveChart, line: Curve, epsilon: float
) -> tuple[Interval | None, Interval | None]:
    """Return the intervals of the line's baseline and of the nonprivate reference at an epsilon.

    An interval is None where it is missing, and where the line is a baseline itself.

    Args:
        chart: the chart with the baselines and the nonprivate reference.
        line: the line.
        epsilon: a computed epsilon.
    """
    baseline_id = chart.baseline_id(line)
    baselines = (
        curve.interval_at(epsilon)
        for curve in (*chart.baselines, *chart.lines)
        if curve.mechanism == baseline_id != line.mechanism
    )
    reference = chart.nonprivate_reference
    return next(filter(None, baselines), None), reference.interval if reference else None


def compute_gain_share(
    chart: CurveChart, line: Curve, epsilon: float, best: Interval | None = None
) -> GainShare | None:
    """Compute the share of the gain over the baseline that is left at an epsilon.

    The share is (metric - baseline) / (best - baseline).

    Args:
        chart: the chart with the baselines and the nonprivate reference.
        line: the line.
        epsilon: a computed epsilon.
        best: what the gain is measured against (default: the nonprivate reference).

    Returns:
        The share, or None where a number is missing. Its label is empty where there are too few
        seeds for an interval.
    """
    current, (baseline, reference) = line.interval_at(epsilon), find_gain_ends(chart, line, epsilon)
    best = best or reference
    metric = chart.metric
    if current is None or baseline is None or best is None:
        return None
    total_gain = metric.sign * (best.mean - baseline.mean)
    share = (
        metric.sign * (current.mean - baseline.mean) / total_gain if total_gain > 0 else math.nan
    )
    baseline_name = format_baseline_name(chart.baseline_id(line))
    unclear = UNCLEAR.format(baseline_name)
    if min(current.seeds, baseline.seeds) < MIN_SEEDS:
        label = ""
    elif not is_clearly_better(metric, best, baseline):
        label = f"nothing to keep: no privacy is {unclear} either"
    elif is_clearly_better(metric, current, baseline):
        # The error of the share to first order, as if the three means were independent.
        errors = (
            current.half_width,
            (1 - share) * baseline.half_width,
            share * best.half_width,
        )
        half_width = math.hypot(*errors) / total_gain
        label = format_gain_share(share, baseline_name)
        return GainShare(share, True, label, share - half_width, share + half_width)
    elif is_clearly_better(metric, best, current):
        label = unclear
    else:
        label = "nothing to keep: the gain is within the noise"
    return GainShare(share, is_clear=False, label=label)


def format_gain_share(share: float, baseline_name: str = "the baseline") -> str:
    """Return 'keeps 79 % of the gain over the baseline'."""
    return f"keeps {100 * share:.0f} % of the gain over {baseline_name}"


def find_clear_epsilon(chart: CurveChart, line: Curve) -> float | None:
    """Return the smallest epsilon at which a line is clearly better than its baseline.

    Returns:
        The epsilon; inf if there is none; None if it is not known, without a baseline or with too
        few seeds.
    """
    comparable = [
        (e, current, baseline)
        for e, current in zip(line.epsilon.tolist(), line.intervals, strict=True)
        if (baseline := find_gain_ends(chart, line, e)[0])
    ]
    if not comparable or any(
        min(current.seeds, baseline.seeds) < MIN_SEEDS for _, current, baseline in comparable
    ):
        return None
    clear_epsilons = (
        e
        for e, current, baseline in comparable
        if is_clearly_better(line.metric, current, baseline)
    )
    return next(clear_epsilons, math.inf)


def describe_baseline_limit(chart: CurveChart) -> str:
    """Describe below which epsilon no line is clearly better than its baseline.

    The text is empty where a line is always clearly better. Epsilon is the setting, which counts
    what each method protects.
    """
    baselines = {chart.baseline_id(line) for line in chart.lines}
    rivals = [line for line in chart.lines if line.mechanism not in baselines]
    starts = [find_clear_epsilon(chart, line) for line in rivals]
    known_starts = [start for start in starts if start is not None]
    if not known_starts or len(known_starts) < len(starts):
        return ""
    baseline_id = chart.baseline_id(rivals[0])
    caveat = UNCLEAR.format(format_baseline_name(baseline_id))
    if math.isinf(min(known_starts)):
        return f"{capitalise(caveat)} at any epsilon"
    if min(known_starts) <= min(float(line.epsilon[0]) for line in rivals):
        return ""
    return f"Below epsilon {format_short_number(min(known_starts))} {caveat}"


def find_lasting_epsilon(epsilons: Sequence[float], holds: Sequence[bool]) -> float | None:
    """Return the epsilon from which on a condition holds; None where it fails at the last.

    Args:
        epsilons: epsilons in increasing order.
        holds: whether the condition holds at each.
    """
    start = max((k + 1 for k, is_true in enumerate(holds) if not is_true), default=0)
    return epsilons[start] if start < len(epsilons) else None


# --- where a curve stands at an epsilon --------------------------------------------------


def describe_at_epsilon(chart: CurveChart, epsilon: float, *, with_endpoints: bool = True) -> str:
    """Describe the first line of a chart at an epsilon, as means over seeds.

    The text states the metric, the share of the gain, the baselines and the reference; it is empty
    where nothing is computed at this epsilon.

    Args:
        chart: the chart.
        epsilon: the setting.
        with_endpoints: whether baselines and reference are stated.
    """
    line = chart.lines[0]
    metric = chart.metric
    current = line.interval_at(epsilon)
    share = compute_gain_share(chart, line, epsilon)
    if current is None:
        return ""
    phrases = [
        f"{metric.format_value(current.mean)} {format_margin(metric, current)}",
        share.label if share else "",
    ]
    for name, level in chart.list_endpoints(epsilon) if with_endpoints else ():
        seed_note = f" over {format_count(level.seeds, 'seed')}" * (level.seeds != current.seeds)
        phrases.append(f"{name}: {metric.format_value(level.mean)}{seed_note}")
    return f"the curve at epsilon {epsilon:g}: {'; '.join(filter(None, phrases))}"


def describe_chart_at(chart: CurveChart, epsilon: float) -> str:
    """Describe the lines of a chart, and where its first line is at an epsilon."""
    title = f"{chart.metric.title} against epsilon, of"
    phrases = [f"{title} {line.label}: {format_curve_ends(line)}" for line in chart.lines]
    return "; ".join(filter(None, (*phrases, describe_at_epsilon(chart, epsilon)))) + "."


# --- targets on the slider ---------------------------------------------------------------


class SliderTarget(NamedTuple):
    """The epsilon that a target quality needs, as a position on the slider.

    A script in the browser reads these fields by their names.

    Attributes:
        goal: the target with its unit.
        words: the finding in a sentence.
        at, low, high: the epsilon and the ends of its interval as positions among the slider's
            epsilons, which may lie between two of them; None beyond the last epsilon computed.
    """

    goal: str
    words: str
    at: float | None
    low: float | None
    high: float | None


def locate_targets(
    line: Curve, slider_epsilons: Sequence[float], targets: Sequence[float]
) -> list[SliderTarget]:
    """Return the epsilon that each target needs, with its position on the slider.

    It is the epsilon that the page Compare states.

    Args:
        line: the line.
        slider_epsilons: the epsilons of the slider.
        targets: target values of the metric.
    """
    plotted = place_on_axis(line, EpsilonUnit.PAPER)
    metric = line.metric
    first, last = plotted.x[[0, -1]].tolist()

    def locate(epsilon: float) -> float | None:
        """Return the position of an epsilon on the slider; None beyond the last computed one."""
        if epsilon > last:
            return None
        return float(
            np.interp(
                math.log(max(epsilon, first)), np.log(slider_epsilons), range(len(slider_epsilons))
            )
        )

    slider_targets = []
    for required in find_required_epsilons(plotted, targets):
        goal = f"{'at most ' * metric.lower_is_better}{metric.format_with_unit(required.target)}"
        epsilon = required.epsilon
        if math.isinf(epsilon.value):
            text = f"{goal} is not reached up to epsilon {format_short_number(last)}."
        else:
            status = "proved" if plotted.is_certified else "only claimed"
            about = interval_text = slider_note = ""
            if epsilon.value > first:
                slider_epsilon = next(
                    (s for s in slider_epsilons if s >= epsilon.value * (1 - 1e-9)), last
                )
                about = "about "
                slider_note = f"; the next position of the slider is {slider_epsilon:g}"
                interval_text = f" ({format_estimate_interval(epsilon, first, last)})" * (
                    epsilon.seeds > 1
                )
            text = (
                f"{goal} needs a privacy budget of {about}{format_required_epsilon(required)}"
                f"{interval_text} {plotted.unit}, {status}{slider_note}."
            )
        slider_targets.append(SliderTarget(goal, capitalise(text), *map(locate, epsilon[:3])))
    return slider_targets
