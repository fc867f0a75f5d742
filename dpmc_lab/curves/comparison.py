"""Compare mechanisms seed by seed to see which is better, and at which epsilons."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import Floats
from dpmc_lab.curves.lines import (
    AS_CLAIMED,
    LEVEL,
    Line,
    PlottedLine,
    compute_interval,
    format_short_number,
)
from dpmc_lab.curves.numbers import MIN_SEEDS, find_complete_seeds
from dpmc_lab.curves.text import Table, build_table

COMPARISON_NOTE = (
    "Pairs are compared seed by seed: in each seed all mechanisms train and are tested on the same"
    " split. A winner is named only where the 95 % interval of the difference leaves out zero, at"
    " all epsilons together."
)
TOO_FEW = "Choose two mechanisms or more to see which is better where."
NOT_COMPARABLE = (
    "Nothing here can be compared: the epsilons count different things or do not overlap, or there"
    " are fewer than three seeds."
)
_SLACK = 1 + 1e-9  # of epsilons


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

    first: Line
    second: Line
    x: Floats
    seeds: int
    signs: tuple[int, ...] = ()


def compare_pairs(plotted_lines: Sequence[PlottedLine]) -> list[PairComparison]:
    """Compare every pair of lines whose epsilons count the same change; units are never mixed."""
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


def compare_lines(
    plotted_lines: Sequence[PlottedLine], pair_comparisons: Sequence[PairComparison]
) -> list[LineComparison]:
    """Compare every line with the others; lines that count the same change come side by side.

    Args:
        plotted_lines: the lines.
        pair_comparisons: their comparisons in pairs.
    """
    units = list(dict.fromkeys(plotted.unit for plotted in plotted_lines))
    line_comparisons = []
    for plotted in sorted(plotted_lines, key=lambda plotted: units.index(plotted.unit)):
        signs: list[dict[str, int]] = [{} for _ in plotted.x]  # by the label of the rival
        for comparison in pair_comparisons:
            if plotted.line in (comparison.first, comparison.second) and comparison.signs:
                opponent, orientation = (
                    (comparison.second, 1)
                    if comparison.first is plotted.line
                    else (comparison.first, -1)
                )
                for sign_by_rival, x in zip(signs, plotted.x, strict=True):
                    matches = np.flatnonzero(np.isclose(comparison.x, x, rtol=1e-8, atol=0))
                    if len(matches):
                        sign_by_rival[opponent.label] = orientation * comparison.signs[matches[0]]
        ahead, behind = (
            tuple(
                tuple(label for label, sign in sign_by_rival.items() if sign == target_sign)
                for sign_by_rival in signs
            )
            for target_sign in (1, -1)
        )
        line_comparisons.append(LineComparison(plotted, ahead, behind, tuple(map(len, signs))))
    return line_comparisons


def describe_line_comparison(comparison: LineComparison, index: int) -> str:
    """Describe how a line compares at the epsilon of this index."""
    if not comparison.rivals[index]:
        return "nothing to compare with"
    if comparison.best[index]:
        return "clearly better than all others"
    if comparison.behind[index]:
        return f"clearly worse than {', '.join(comparison.behind[index])}"
    return "nothing is clearly better"


def tabulate_line_comparisons(comparisons: Sequence[LineComparison]) -> Table:
    """Return every epsilon of every line with what is clearly better and worse there."""
    rows = [
        (
            comparison.plotted.line.label,
            float(f"{x:.4g}"),
            comparison.plotted.unit,
            describe_line_comparison(comparison, index),
            ", ".join(comparison.ahead[index]),
        )
        for comparison in comparisons
        for index, x in enumerate(comparison.plotted.x)
    ]
    return build_table(("mechanism", "epsilon", "counts", "stands", "clearly better than"), rows)


def describe_leader(comparisons: Sequence[LineComparison]) -> str:
    """Return which of several lines is clearly best, and where; empty where nothing can be said."""
    if not any(rivals for comparison in comparisons for rivals in comparison.rivals):
        return ""
    leading = [comparison for comparison in comparisons if any(comparison.best)]
    unbeaten = [
        comparison
        for comparison in comparisons
        if any(comparison.rivals) and not any(comparison.behind)
    ]
    sole = (leading or unbeaten)[0] if len(leading or unbeaten) == 1 else None
    claimed = AS_CLAIMED if sole is not None and not sole.plotted.is_certified else ""
    if not leading and len(unbeaten) == 1:
        text = f"{unbeaten[0].plotted.line.label} is never clearly beaten"
    elif not leading and not unbeaten:
        text = "Each is clearly beaten somewhere"
    elif not leading:
        text = f"{len(unbeaten)} of {len(comparisons)} are never clearly beaten"
    elif len(leading) == 1:
        (comparison,) = leading
        positions = np.flatnonzero(comparison.best)
        first, last = (
            format_short_number(float(comparison.plotted.x[index]))
            for index in (positions[0], positions[-1])
        )
        unbroken = len(positions) == positions[-1] - positions[0] + 1
        location = f"from epsilon {first} to {last}" if first != last else f"at epsilon {first}"
        text = (
            f"{comparison.plotted.line.label} is clearly best"
            f" {'' if unbroken else 'in places '}{location}"
        )
    else:
        text = f"{len(leading)} are each clearly best somewhere"
    mixes_units = len({comparison.plotted.unit for comparison in comparisons}) > 1
    return text + claimed + (", among those counted alike" if mixes_units else "")


def compare_pair(a: PlottedLine, b: PlottedLine) -> PairComparison:
    """Compare two lines seed by seed; all mechanisms of a seed share its split.

    At each epsilon the 95 % t interval of the mean difference decides, widened so that it holds for
    all epsilons at once (Bonferroni).
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
    level = 1 - (1 - LEVEL) / len(x)
    intervals = [compute_interval(row, level) for row in difference]
    signs = [
        int(np.sign(estimate.mean) * (abs(estimate.mean) > estimate.half_width))
        for estimate in intervals
    ]
    return PairComparison(a.line, b.line, x, seeds, tuple(signs))


def _compute_differences(a: PlottedLine, b: PlottedLine, x: Floats) -> tuple[Floats, int]:
    """Return a - b in the direction of better at x, for the seeds that both lines have everywhere.

    Returns:
        Array of shape (n_x, n_seeds), and the number of seeds.
    """
    by_line = []
    common = set(a.line.seeds[find_complete_seeds(a.line.values)].tolist())
    common &= set(b.line.seeds[find_complete_seeds(b.line.values)].tolist())
    for plotted in (a, b):
        seed_values = plotted.line.values[:, np.isin(plotted.line.seeds, sorted(common))]
        log_x, log_own = np.log(x), np.log(plotted.x)  # linear in log epsilon between neighbours
        interpolated = [np.interp(log_x, log_own, column) for column in seed_values.T]
        by_line.append(
            np.stack(interpolated, axis=1) if common and len(x) else np.empty((len(x), 0))
        )
    return a.line.metric.sign * (by_line[0] - by_line[1]), len(common)
