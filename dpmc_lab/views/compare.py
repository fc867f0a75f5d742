"""Compare mechanisms seed by seed to see which is better, and at which epsilons."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import Floats, Ints
from dpmc_lab.views.lines import (
    AS_CLAIMED,
    LEVEL,
    Curve,
    PlottedLine,
    compute_interval,
    format_short_label,
    format_short_number,
)
from dpmc_lab.views.numbers import MIN_SEEDS, find_complete_seeds
from dpmc_lab.views.text import join_phrases

COMPARISON_NOTE = (
    "Each seed gives all mechanisms the same split. One is clearly better where the 95 % interval"
    " of the difference excludes zero, for all epsilons together."
)
TOO_FEW = "Choose two mechanisms or more to compare them."
NOT_COMPARABLE = (
    "These curves cannot be compared. Their epsilons count different things or do not overlap, or"
    " there are fewer than three seeds."
)
_SLACK = 1 + 1e-9  # factor by which equal epsilons may differ


# --- who is better, and where ------------------------------------------------------------


class PairComparison(NamedTuple):
    """Two lines compared at the epsilons that both cover.

    Attributes:
        first, second: the lines.
        x: array of shape (n_epsilons,), epsilons in the unit of the axis.
        seeds: number of seeds that both lines have at every epsilon.
        signs: for each x, +1 where `first` is clearly better, -1 where `second` is, else 0; empty
            where there are too few seeds.
    """

    first: Curve
    second: Curve
    x: Floats
    seeds: int
    signs: tuple[int, ...] = ()


def compare_pairs(plotted_lines: Sequence[PlottedLine]) -> list[PairComparison]:
    """Compare every pair of lines with the same metric whose epsilons count the same change."""
    return [
        compare_pair(a, b)
        for a, b in itertools.combinations(plotted_lines, 2)
        if a.unit == b.unit and a.line.metric == b.line.metric
    ]


class LineComparison(NamedTuple):
    """One line compared at each of its epsilons with the lines that count the same change.

    Attributes:
        plotted: the line.
        ahead: for each epsilon, the labels of the lines that it clearly beats.
        behind: for each epsilon, the labels of the lines that clearly beat it.
        rivals: for each epsilon, how many lines it was compared with.
    """

    plotted: PlottedLine
    ahead: tuple[tuple[str, ...], ...]
    behind: tuple[tuple[str, ...], ...]
    rivals: tuple[int, ...]

    @property
    def best(self) -> tuple[bool, ...]:
        """Return for each epsilon whether the line clearly beats every rival."""
        pairs = zip(self.ahead, self.rivals, strict=True)
        return tuple(0 < rivals == len(ahead) for ahead, rivals in pairs)

    def select_epsilon(self, epsilon: float) -> LineComparison:
        """Return the comparison at one epsilon; it is empty where the line has no such epsilon."""
        indices = find_epsilon(self.plotted.x, epsilon)
        plotted = self.plotted._replace(x=self.plotted.x[indices])
        _, *columns = self
        return LineComparison(plotted, *(tuple(column[k] for k in indices) for column in columns))


def compare_lines(
    plotted_lines: Sequence[PlottedLine], pair_comparisons: Sequence[PairComparison]
) -> list[LineComparison]:
    """Collect the comparisons of every line with its rivals, at each of its epsilons.

    Args:
        plotted_lines: the lines.
        pair_comparisons: their comparisons in pairs.

    Returns:
        One comparison per line, grouped by the change that the lines count.
    """
    units = list(dict.fromkeys(plotted.unit for plotted in plotted_lines))
    line_comparisons = []
    for plotted in sorted(plotted_lines, key=lambda plotted: units.index(plotted.unit)):
        # At each epsilon: 1 where the line is clearly better than a rival, by the rival's label;
        # -1 where it is clearly worse, else 0.
        signs: list[dict[str, int]] = [{} for _ in plotted.x]
        for comparison in pair_comparisons:
            rival, orientation = comparison.second, 1
            if comparison.second is plotted.line:
                rival, orientation = comparison.first, -1
            if plotted.line in (comparison.first, comparison.second) and comparison.signs:
                for sign_by_rival, x in zip(signs, plotted.x, strict=True):
                    for k in find_epsilon(comparison.x, x):
                        sign_by_rival[rival.label] = orientation * comparison.signs[k]
        ahead, behind = (
            tuple(
                tuple(label for label, sign in sign_by_rival.items() if sign == target_sign)
                for sign_by_rival in signs
            )
            for target_sign in (1, -1)
        )
        line_comparisons.append(LineComparison(plotted, ahead, behind, tuple(map(len, signs))))
    return line_comparisons


def find_unbeaten(comparisons: Sequence[LineComparison]) -> list[LineComparison]:
    """Return the comparisons of the lines that are clearly worse than none, at no epsilon."""
    return [entry for entry in comparisons if any(entry.rivals) and not any(entry.behind)]


def describe_leader(comparisons: Sequence[LineComparison], epsilon: float | None = None) -> str:
    """Return which of several lines is clearly best, and where; empty if none was compared.

    Args:
        comparisons: the comparison of every line.
        epsilon: the only epsilon to look at (default: all).
    """
    somewhere, ever = "somewhere", "at any epsilon"
    if epsilon is not None:
        comparisons = [
            entry for entry in (c.select_epsilon(epsilon) for c in comparisons) if entry.rivals
        ]
        somewhere = ever = f"at epsilon {epsilon:g}"
    if not any(rivals for comparison in comparisons for rivals in comparison.rivals):
        return ""
    leading = [comparison for comparison in comparisons if any(comparison.best)]
    unbeaten = find_unbeaten(comparisons)
    # The line that the text names, if it names a single one.
    sole = (leading or unbeaten)[0] if len(leading or unbeaten) == 1 else None
    claimed_suffix = AS_CLAIMED if sole is not None and not sole.plotted.is_certified else ""
    if not (leading or unbeaten):
        text = f"Each mechanism is clearly worse than another {somewhere}"
    elif not leading:
        text = f"No mechanism is clearly better {ever} than {_join_names(unbeaten)}"
        if len(unbeaten) > 1:
            text = f"{_join_names(unbeaten)} tie for best" + f" {ever}" * (epsilon is not None)
    elif sole is not None:
        positions = np.flatnonzero(sole.best)
        first, last = (
            format_short_number(float(sole.plotted.x[index]))
            for index in (positions[0], positions[-1])
        )
        unbroken = len(positions) == positions[-1] - positions[0] + 1
        location = f"from epsilon {first} to {last}" if first != last else f"at epsilon {first}"
        text = (
            f"{sole.plotted.line.label} is clearly best"
            f" {'' if unbroken else 'in places '}{location}"
        )
    else:
        text = f"{_join_names(leading)} are each clearly best {somewhere}"
    mixes_units = len({comparison.plotted.unit for comparison in comparisons}) > 1
    return text + claimed_suffix + (", among those counted alike" if mixes_units else "")


def conclude_comparison(
    plotted_lines: Sequence[PlottedLine], comparisons: Sequence[LineComparison], epsilon: float
) -> str:
    """Return what the curves show at an epsilon, as the title of their chart."""
    if leader := describe_leader(comparisons, epsilon):
        return leader
    values = [
        f"{format_short_label(entry.line)} has {entry.line.metric.label}"
        f" {entry.line.metric.format_value(float(entry.band.mean[index]))}"
        for entry in plotted_lines
        for index in find_epsilon(entry.x, epsilon)
    ]
    if len(values) > 1:
        return "These curves cannot be compared"
    return f"{values[0] if values else 'Nothing is computed'} at epsilon {epsilon:g}"


def find_epsilon(x: Floats, epsilon: float) -> Ints:
    """Return the index of an epsilon in a grid, as an array that is empty where it is missing."""
    return np.flatnonzero(np.isclose(x, epsilon, rtol=1e-6))


def _join_names(comparisons: Sequence[LineComparison]) -> str:
    return join_phrases([format_short_label(entry.plotted.line) for entry in comparisons])


def subtract_best(
    plotted_lines: Sequence[PlottedLine],
) -> tuple[list[PlottedLine], dict[float, float]]:
    """Return lines as differences to the best at each epsilon, seed by seed; better is higher.

    Their intervals are those by which `compare_pair` decides.

    Returns:
        The lines, and the best mean by epsilon. Differences of shares are in percentage points.
    """
    if not plotted_lines:
        return [], {}
    metric = plotted_lines[0].line.metric
    best: dict[float, tuple[float, dict[int, float]]] = {}  # its mean and its values by seed
    for plotted in plotted_lines:
        for x, row in zip(plotted.x.tolist(), plotted.line.values, strict=True):
            mean = float(np.nanmean(row))
            if x not in best or metric.sign * mean > metric.sign * best[x][0]:
                best[x] = mean, dict(zip(plotted.line.seeds.tolist(), row.tolist(), strict=True))
    # Better is higher, also of an error; shares are in percentage points.
    factor = metric.sign * (100.0 if metric.is_share else 1.0)
    differences = []
    for plotted in plotted_lines:
        seeds = plotted.line.seeds.tolist()
        best_by_seed = [by_seed for _, by_seed in map(best.__getitem__, plotted.x.tolist())]
        best_values = [[values.get(seed, np.nan) for seed in seeds] for values in best_by_seed]
        values = factor * (plotted.line.values - np.array(best_values))
        line = replace(plotted.line, values=values, level=adjust_level(len(plotted.x)))
        differences.append(plotted._replace(line=line))
    return differences, {x: mean for x, (mean, _) in best.items()}


def compare_pair(a: PlottedLine, b: PlottedLine) -> PairComparison:
    """Compare two lines seed by seed; all mechanisms of a seed share its split.

    They are compared at every epsilon of either line that both cover. The 95 % t interval of the
    mean difference decides, widened so that it holds for all epsilons at once.
    """
    low = max(a.x.min(), b.x.min())
    high = min(a.x.max(), b.x.max())
    x = np.unique(np.concatenate([a.x, b.x]))
    # Two units may give epsilons that differ in the last digits only.
    x = x[np.concatenate([[True], np.diff(np.log(x)) > 1e-9])]
    x = x[(x >= low / _SLACK) & (x <= high * _SLACK)]
    difference, seeds = _compute_differences(a, b, x)
    if not len(x) or seeds < MIN_SEEDS:
        return PairComparison(a.line, b.line, x, seeds)
    intervals = [compute_interval(row, adjust_level(len(x))) for row in difference]
    signs = [
        int(np.sign(estimate.mean) * (abs(estimate.mean) > estimate.half_width))
        for estimate in intervals
    ]
    return PairComparison(a.line, b.line, x, seeds, tuple(signs))


def adjust_level(n_epsilons: int) -> float:
    """Return the level of intervals that hold for all epsilons at once (Bonferroni)."""
    return 1 - (1 - LEVEL) / n_epsilons


def _compute_differences(a: PlottedLine, b: PlottedLine, x: Floats) -> tuple[Floats, int]:
    """Return how much better line a is than line b, for the seeds that both have at every epsilon.

    Args:
        a, b: the lines.
        x: array of shape (n_x,), the epsilons at which both lines are read, by interpolation in log
            epsilon.

    Returns:
        Array of shape (n_x, n_seeds), negative where a is worse, with the common seeds in
        increasing order, in which every line has its seeds; and the number of these seeds.
    """
    by_line = []
    first, second = (line.seeds[find_complete_seeds(line.values)] for line in (a.line, b.line))
    common = np.intersect1d(first, second)
    for plotted in (a, b):
        seed_values = plotted.line.values[:, np.isin(plotted.line.seeds, common)]
        log_x, log_line_x = np.log(x), np.log(plotted.x)  # lines are linear in log epsilon
        interpolated = [np.interp(log_x, log_line_x, column) for column in seed_values.T]
        by_line.append(np.reshape(interpolated, (len(common), len(x))).T)
    return a.line.metric.sign * (by_line[0] - by_line[1]), len(common)
