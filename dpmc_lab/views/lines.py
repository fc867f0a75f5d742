"""Read curves from a result store, with their bands over seeds and what an epsilon counts.

Precomputed curves are rows of a store too, and the same code reads them.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import stdtrit

from dpmc_core import registry
from dpmc_core.arrays import Floats, Ints
from dpmc_core.errors import format_sentence
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.metrics import RANKING_METRICS, Metric, choose_headline_metric
from dpmc_core.model import Task
from dpmc_core.privacy import RATING, USER_EMPTIED, Change
from dpmc_core.problem import format_split
from dpmc_lab import shipped as files
from dpmc_lab.store import Claim, CurveInfo, Store, list_curves, load_claims, load_points
from dpmc_lab.views.text import Table, build_table

Curve = TypeVar("Curve", "Line", "FlatLine")

LEVEL = 0.95
MAX_SEEDS = 200  # seeds that are loaded for each epsilon of a curve, by default
_SLACK = 1 + 1e-9  # claimed and certified may differ in the last digits


class Interval(NamedTuple):
    """A mean over seeds with its 95 % t interval.

    For a single seed the interval is the mean itself, which is not an estimate of the error.
    """

    mean: float
    half_width: float
    seeds: int

    @property
    def low(self) -> float:
        """Return the lower end of the interval."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Return the upper end of the interval."""
        return self.mean + self.half_width


class Band(NamedTuple):
    """Intervals at every x.

    Attributes:
        x: array of shape (n_epsilons,).
        mean, low, high: arrays of shape (n_epsilons,), the mean and the ends of its interval.
        seeds: array of shape (n_epsilons,), the number of seeds behind each interval.
    """

    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    seeds: Ints


@dataclass(frozen=True, eq=False)
class Line:
    """A metric of one mechanism with its settings, by epsilon and seed.

    Attributes:
        info: the curve in its store.
        label: name of the mechanism with the settings that are not defaults.
        metric: the metric, in units of the data.
        epsilon: array of shape (n_epsilons,), the setting, increasing.
        seeds: array of shape (n_seeds,).
        values: array of shape (n_epsilons, n_seeds), NaN where there is no value yet.
        claimed: array of shape (n_epsilons,), NaN where nothing is claimed.
        change: the change that the claim is about.
        certified: arrays of shape (n_epsilons,) by the column name of the change, inf where
            infinite.
        reasons: why a certified value is infinite, by the same names.
        prepared: what preparation read off the data, in words, at the smallest epsilon.
        version: of the program that computed the smallest epsilon.
        level: confidence level of its intervals.
    """

    info: CurveInfo
    label: str
    metric: Metric
    epsilon: Floats
    seeds: Ints
    values: Floats
    claimed: Floats
    change: Change
    certified: Mapping[str, Floats]
    reasons: Mapping[str, str]
    prepared: tuple[str, ...] = ()
    version: str = ""
    level: float = LEVEL

    @property
    def key(self) -> str:
        """Return the key of the curve."""
        return self.info.key

    @property
    def mechanism(self) -> str:
        """Return the id of the mechanism."""
        return self.info.mechanism

    @cached_property
    def intervals(self) -> tuple[Interval, ...]:
        """Return the interval at each epsilon."""
        return tuple(compute_interval(row, self.level) for row in self.values)

    @cached_property
    def band(self) -> Band:
        """Return the intervals by the epsilon that was set."""
        mean, half, seeds = np.array(self.intervals).T
        return Band(self.epsilon, mean, mean - half, mean + half, seeds.astype(int))

    def interval_at(self, epsilon: float) -> Interval | None:
        """Return the interval at a computed epsilon; None at others, as nothing is interpolated."""
        matches = np.flatnonzero(np.abs(self.epsilon - epsilon) <= 1e-9 * epsilon)
        return self.intervals[matches[0]] if len(matches) else None

    def has_values(self, epsilons: Iterable[float], seeds: Iterable[int]) -> bool:
        """Return whether every seed has a value at every epsilon."""
        rows = [*epsilons]
        columns = [*seeds]
        selected = self.values[np.isin(self.epsilon, rows)][:, np.isin(self.seeds, columns)]
        return selected.shape == (len(rows), len(columns)) and not bool(np.isnan(selected).any())


@dataclass(frozen=True, eq=False)
class FlatLine:
    """A method without epsilon, whose metric is the same at every epsilon.

    Attributes:
        key: of the curve.
        mechanism: id of the method.
        label: name with the settings that are not defaults.
        values: array of shape (n_seeds,).
    """

    key: str
    mechanism: str
    label: str
    values: Floats

    @cached_property
    def interval(self) -> Interval:
        """Return the interval over seeds."""
        return compute_interval(self.values)

    def interval_at(self, epsilon: float) -> Interval:  # noqa: ARG002
        """Return the interval, which is the same at every epsilon."""
        return self.interval


NO_PRIVACY = "no privacy"
BASELINE = "baseline"
WITHOUT_OTHERS = "public facts alone"
POPULAR_LIST = "a popular list"  # the baseline where lists are made
_BASELINE_LABELS = {
    "private-constant": "one number for all",
    "private-own-mean": "own averages",
    "private-alone": "public facts and own ratings",
}


class CurveChart(NamedTuple):
    """The lines of a chart, with the baselines and the nonprivate methods that they run between.

    Attributes:
        metric: the metric of all lines.
        lines: the mechanisms.
        baselines: baselines without epsilon, which use no data of others or are not private.
        nonprivate_counterparts: the nonprivate reference, and nonprivate methods of papers.
        private_baselines: private baselines, which depend on epsilon too.
        errors: mean metric of the methods without epsilon by id; it decides which of several
            baselines a line is compared with.
    """

    metric: Metric
    lines: tuple[Line, ...] = ()
    baselines: tuple[FlatLine, ...] = ()
    nonprivate_counterparts: tuple[FlatLine, ...] = ()
    private_baselines: tuple[Line, ...] = ()
    errors: Mapping[str, float] = MappingProxyType({})

    def baseline_id(self, line: Line) -> str:
        """Return the id of the baseline of a line."""
        return registry.choose_baseline(
            registry.get_mechanism(line.mechanism), line.info.prepare, self.errors
        )

    @property
    def flat_lines(self) -> list[tuple[str, FlatLine]]:
        """Return the lines without epsilon, each with the name of what it stands for."""
        named_lines = []
        for flat_line in self.nonprivate_counterparts:
            # The nonprivate counterpart of a private baseline is a baseline itself.
            is_baseline = (
                registry.get_mechanism(flat_line.mechanism).baseline == flat_line.mechanism
            )
            label = flat_line.label.removesuffix(", no privacy")
            counterpart_name = f"{label} without privacy"
            if is_baseline:
                counterpart_name = f"{format_baseline_name(flat_line.mechanism)}: {label}"
            is_reference = flat_line.mechanism in registry.NONPRIVATE_REFERENCES.values()
            named_lines.append((NO_PRIVACY if is_reference else counterpart_name, flat_line))
        return named_lines + [
            (format_baseline_name(flat_line.mechanism), flat_line) for flat_line in self.baselines
        ]

    @property
    def nonprivate_reference(self) -> FlatLine | None:
        """Return the line of the nonprivate reference."""
        return next((level for name, level in self.flat_lines if name == NO_PRIVACY), None)

    def list_endpoints(self, epsilon: float) -> list[tuple[str, Interval]]:
        """Return the baselines and nonprivate methods that have a value at an epsilon."""
        named_baselines = [
            (format_baseline_name(private_baseline.mechanism), private_baseline)
            for private_baseline in self.private_baselines
        ]
        endpoints: list[tuple[str, Line | FlatLine]] = [*self.flat_lines, *named_baselines]
        return [
            (name, interval)
            for name, curve in endpoints
            if (interval := curve.interval_at(epsilon)) is not None
        ]


def refer_to_baseline(name: str) -> str:
    """Return the name of a baseline as it stands in a sentence."""
    return "the baseline" if name == BASELINE else name


def format_baseline_name(id: str) -> str:
    """Return what a baseline stands for, in words."""
    default_name = POPULAR_LIST if registry.get_mechanism(id).task is Task.RANKING else BASELINE
    return (
        WITHOUT_OTHERS
        if id in registry.WITHOUT_OTHERS_BASELINES.values()
        else _BASELINE_LABELS.get(id, default_name)
    )


# --- out of a store ----------------------------------------------------------------------


class CurveRows(NamedTuple):
    """Stored values of a curve, by the metric's name, epsilon (None without one) and seed."""

    info: CurveInfo
    points: Mapping[tuple[str, float | None, int], float]
    claims: Mapping[float | None, Claim]

    def merge(self, other: CurveRows) -> CurveRows:
        """Return these rows, completed by rows of the same curve from another store."""
        return CurveRows(
            self.info, {**other.points, **self.points}, {**other.claims, **self.claims}
        )

    def select_seeds(self, seeds: Collection[int]) -> CurveRows:
        """Return only the values of these seeds."""
        selected = {key: value for key, value in self.points.items() if key[2] in seeds}
        return self._replace(points=selected)

    def select_metric(self, metric: Metric) -> dict[tuple[float | None, int], float]:
        """Return the values of a metric, by epsilon and seed."""
        return {key[1:]: value for key, value in self.points.items() if key[0] == metric.name}


def load_curve_rows(
    store: Store,
    mechanisms: Sequence[str],
    metrics: Sequence[Metric],
    *,
    keys: Collection[str] | None = None,
    epsilons: Collection[float] | None = None,
    seeds: Collection[int] | None = None,
) -> dict[str, CurveRows]:
    """Load the rows of some mechanisms, their baselines and nonprivate counterparts.

    Args:
        store: the result store.
        mechanisms: ids of the mechanisms.
        metrics: the metrics to load.
        keys: keys of the curves (default: all that the store has).
        epsilons, seeds: the only ones to load, where given.

    Returns:
        The rows by the key of the curve.
    """
    mechanism_ids = {*mechanisms}.union(
        *map(registry.list_comparison_methods, map(registry.get_mechanism, mechanisms))
    )
    rows_by_key = {}
    for info in list_curves(store, keys=keys, count=False):
        if info.mechanism not in mechanism_ids:
            continue
        max_seeds = MAX_SEEDS if seeds is None else seeds
        values = {
            (metric.name, epsilon, seed): value
            for metric in metrics
            for (epsilon, seed), value in load_points(
                store, info.id, metric.name, max_seeds
            ).items()
            if epsilon is None or epsilons is None or epsilon in epsilons
        }
        noisy = registry.adds_noise(registry.get_mechanism(info.mechanism))
        rows_by_key[info.key] = CurveRows(
            info, values, load_claims(store, info.id) if noisy else {}
        )
    return rows_by_key


def build_curve_chart(
    stored_rows: Mapping[str, CurveRows],
    mechanisms: Sequence[str],
    metric: Metric,
    shipped_rows: Mapping[str, CurveRows] | None = None,
) -> CurveChart:
    """Build the chart of some mechanisms with their baselines and nonprivate counterparts.

    With item features there is one more baseline, which uses public facts and one's own ratings
    alone. Baselines that can use item features are then drawn with features only.

    Args:
        stored_rows: rows of the user's store, by the key of the curve.
        mechanisms: ids of the mechanisms, in the order of their lines.
        metric: the metric to plot.
        shipped_rows: rows that came with the program; each fills in what `stored_rows` lacks.
    """
    shipped_rows = shipped_rows or {}
    joint_rows = {**stored_rows, **shipped_rows}
    for key in stored_rows.keys() & shipped_rows.keys():
        joint_rows[key] = stored_rows[key].merge(shipped_rows[key])
    curve_rows = list(joint_rows.values())
    # Curves with item features come first: of two references only the first is drawn.
    curve_rows.sort(key=has_item_features, reverse=True)
    metric = metric.in_units_of(curve_rows[0].info.public) if curve_rows else metric
    plotted = [*filter(None, (_build_line(curve, metric) for curve in curve_rows))]
    flat_lines = [*filter(None, (_build_flat_line(curve, metric) for curve in curve_rows))]
    classes = [registry.get_mechanism(id) for id in mechanisms]
    steps = {step for curve in curve_rows for step in curve.info.prepare}
    errors = {flat_line.mechanism: flat_line.interval.mean for flat_line in flat_lines}
    baselines = {registry.choose_baseline(cls, steps, errors) for cls in classes}
    feature_baselines = set()  # baselines that are drawn only with features
    if registry.has_features_step(steps):
        baselines |= {
            registry.WITHOUT_OTHERS_BASELINES[cls.task]
            for cls in classes
            if registry.can_use_item_features(cls)
        }
        feature_baselines = {
            id for id in baselines if registry.can_use_item_features(registry.get_mechanism(id))
        }
    baselines -= {*mechanisms}
    references = {registry.NONPRIVATE_REFERENCES[cls.task] for cls in classes}
    counterparts = {cls.nonprivate_counterpart for cls in classes} - references

    def select_by_mechanism(ids: Collection[str], curves: Iterable[Curve]) -> tuple[Curve, ...]:
        """Return the curves of these mechanisms, in the order of the curves."""
        return tuple(curve for curve in curves if curve.mechanism in ids)

    return CurveChart(
        metric,
        tuple(
            sorted(
                select_by_mechanism(mechanisms, plotted),
                key=lambda curve: (
                    mechanisms.index(curve.mechanism),
                    not has_item_features(curve),
                    len(curve.label),
                ),
            )
        ),
        select_by_mechanism(baselines, flat_lines),
        select_by_mechanism(references, flat_lines)[:1]
        + select_by_mechanism(counterparts, flat_lines),
        tuple(
            curve
            for curve in select_by_mechanism(baselines, plotted)
            if has_item_features(curve) or curve.mechanism not in feature_baselines
        ),
        errors,
    )


def list_plotted_metrics(task: Task) -> tuple[Metric, ...]:
    """Return the metrics that are plotted for a task, the headline metric first."""
    return RANKING_METRICS if task is Task.RANKING else (choose_headline_metric(task),)


def load_shipped_rows(data: str, mechanism: str) -> dict[str, CurveRows]:
    """Load the rows of a mechanism that came with the program; empty where there are none.

    Raises:
        DpmcError: the file cannot be read.
    """
    task = registry.get_mechanism(mechanism).task
    file = files.load_curves(data, task, [mechanism])
    if file is None:
        return {}
    with file:
        return load_curve_rows(file, [mechanism], list_plotted_metrics(task))


def load_shipped_charts(
    data: str,
    mechanism: str,
    seeds: Collection[int] | None = None,
    *,
    with_item_features: bool = False,
) -> tuple[CurveChart, ...] | None:
    """Load the curve of a mechanism that came with the program, in each metric.

    Args:
        data: id of the sample data set.
        mechanism: id of the mechanism.
        seeds: the only seeds to keep, where given.
        with_item_features: whether to load the curve with public item features; the curve without
            them follows as the last line.

    Returns:
        One chart per metric, or None where there is no such curve.

    Raises:
        DpmcError: the file cannot be read.
    """
    rows = load_shipped_rows(data, mechanism)
    metrics = list_plotted_metrics(registry.get_mechanism(mechanism).task)

    def build_charts(uses_features: bool) -> tuple[CurveChart, ...]:
        """Return the charts of the rows with, or without, public item features, one per metric."""
        selected_rows = {
            key: entry if seeds is None else entry.select_seeds(seeds)
            for key, entry in rows.items()
            if has_item_features(entry) == uses_features
        }
        return tuple(build_curve_chart(selected_rows, [mechanism], metric) for metric in metrics)

    charts = plain_charts = build_charts(False)
    if with_item_features:
        charts = tuple(
            entry._replace(lines=entry.lines and (*entry.lines, *plain_chart.lines[:1]))
            for entry, plain_chart in zip(build_charts(True), plain_charts, strict=True)
        )
    return charts if charts[0].lines else None


def has_item_features(curve: CurveRows | Line) -> bool:
    """Return whether the runs of a curve use public item features."""
    return registry.has_features_step(curve.info.prepare)


def _build_line(rows: CurveRows, metric: Metric) -> Line | None:
    """Return the line of a curve by epsilon; None without values at an epsilon."""
    measured = rows.select_metric(metric)
    epsilons = sorted({epsilon for epsilon, _ in measured if epsilon is not None})
    if not epsilons:
        return None
    seeds = sorted({seed for epsilon, seed in measured if epsilon is not None})
    claims = [rows.claims[epsilon] for epsilon in epsilons]
    first_claim = claims[0]
    certified = {
        unit: np.array([claim.units[unit] for claim in claims], dtype=float)
        for unit in first_claim.units
    }
    return Line(
        info=rows.info,
        label=format_curve_label(rows.info),
        metric=metric,
        epsilon=np.array(epsilons, dtype=float),
        seeds=np.array(seeds),
        values=np.array([[measured.get((e, s), math.nan) for s in seeds] for e in epsilons]),
        claimed=np.array([claim.claimed for claim in claims], dtype=float),
        change=first_claim.change,
        certified={  # a store has no value, which becomes NaN, for an infinite epsilon
            unit: np.where(np.isnan(bounds), np.inf, bounds) for unit, bounds in certified.items()
        },
        reasons=first_claim.reasons,
        prepared=first_claim.prepared,
        version=first_claim.version,
    )


def _build_flat_line(rows: CurveRows, metric: Metric) -> FlatLine | None:
    """Return the flat line of a method without epsilon; None without such values."""
    info = rows.info
    value_by_seed = {
        seed: value
        for (epsilon, seed), value in rows.select_metric(metric).items()
        if epsilon is None
    }
    if not value_by_seed:
        return None
    values = np.array([value_by_seed[seed] for seed in sorted(value_by_seed)])
    return FlatLine(info.key, info.mechanism, format_curve_label(info), values)


def format_curve_label(info: CurveInfo) -> str:
    """Return the mechanism's name with the settings that are not its defaults."""
    cls = registry.MECHANISMS.get(info.mechanism)
    name = info.mechanism if cls is None else cls.name
    changed = registry.find_changed_settings(info.mechanism, info.settings)
    details = [f"{key} {str(value).lower()}" for key, value in changed.items()]
    noisy = cls is not None and registry.adds_noise(cls)
    details += ["public facts"] if noisy and registry.has_features_step(info.prepare) else []
    return f"{name} ({', '.join(details)})" if details else name


# --- over seeds --------------------------------------------------------------------------


def compute_interval(values: Floats | Sequence[float], level: float = LEVEL) -> Interval:
    """Return the mean of the values that are not NaN, with its t interval at a confidence level."""
    observed = np.asarray(values, dtype=float)
    observed = observed[~np.isnan(observed)]
    mean = float(np.mean(observed))
    n = len(observed)
    if n < 2:
        return Interval(mean, 0.0, n)
    t = float(stdtrit(n - 1, 0.5 + level / 2))
    return Interval(mean, t * float(np.std(observed, ddof=1)) / math.sqrt(n), n)


def is_clearly_better(metric: Metric, first: Interval, second: Interval) -> bool:
    """Return whether the first interval lies beyond the second in the better direction.

    Args:
        metric: the metric; for some, lower is better.
        first, second: means with their intervals.
    """
    return metric.sign * (first.mean - second.mean) > first.half_width + second.half_width


def describe_band(band: Band) -> str:
    """Describe the band for the caption."""
    min_seeds = int(band.seeds.min())
    max_seeds = int(band.seeds.max())
    if max_seeds == 1:
        return "one seed: no band"
    seed_range = f"{min_seeds}" if min_seeds == max_seeds else f"{min_seeds} to {max_seeds}"
    return f"band: 95 % t interval of the mean over {seed_range} seeds"


# --- on an axis --------------------------------------------------------------------------


class EpsilonUnit(enum.Enum):
    """The unit in which the axis counts epsilon."""

    PAPER = "as each paper counts"
    RATING = "same unit: per rating"
    USER = "same unit: per user"


# Follows the unit of a line that has no finite certified epsilon in the unit of the axis.
AS_CLAIMED = ", as claimed"


class PlottedLine(NamedTuple):
    """A line on an epsilon axis.

    Attributes:
        line: the line.
        x: array of shape (n_epsilons,), its epsilons in `unit`.
        unit: the unit of x, in words.
        is_certified: whether x is certified in that unit. If not, x is what is claimed and the line
            has open markers.
        reason: why x is not certified.
    """

    line: Line
    x: Floats
    unit: str
    is_certified: bool
    reason: str

    @property
    def band(self) -> Band:
        """Return the intervals by the epsilon of the axis."""
        return self.line.band._replace(x=self.x)


def place_on_axis(line: Line, epsilon_unit: EpsilonUnit) -> PlottedLine:
    """Return the line on the axis of a unit.

    A line is never dropped: where nothing finite is certified in that unit, it is drawn with open
    markers at what is claimed. What is claimed defaults to the setting of epsilon.
    """
    claimed_epsilons = np.where(np.isnan(line.claimed), line.epsilon, line.claimed)
    if epsilon_unit is EpsilonUnit.PAPER:
        certified_epsilons = line.certified[line.change.value]
        reason = ""
        if not np.isfinite(certified_epsilons).all():
            reason = f"its claim is not certified: {line.reasons.get(line.change.value, '')}"
        elif not (certified_epsilons <= claimed_epsilons * _SLACK).all():
            factor = format_short_number(float(np.max(certified_epsilons / claimed_epsilons)), 3)
            reason = f"its certified epsilon is up to {factor} times its claim {line.change.label}"
        return PlottedLine(line, claimed_epsilons, line.change.label, not reason, reason)
    change = {EpsilonUnit.RATING: RATING, EpsilonUnit.USER: USER_EMPTIED}[epsilon_unit]
    x = line.certified[change.value]
    unit_label = change.label
    if np.isfinite(x).all():
        return PlottedLine(line, x, unit_label, is_certified=True, reason="")
    reason = line.reasons.get(change.value, "some epsilons have no finite certified value")
    claimed_unit = line.change.label + AS_CLAIMED
    return PlottedLine(
        line,
        claimed_epsilons,
        claimed_unit,
        is_certified=False,
        reason=f"nothing finite is certified {unit_label}: {reason}",
    )


def format_short_number(value: float, digits: int = 4) -> str:
    """Return a number without powers of ten: 2,170,000 rather than 2.17e+06."""
    return f"{float(f'{value:.{digits}g}'):,.10g}"


# --- above the reference -----------------------------------------------------------------


def describe_crossings(chart: CurveChart) -> list[str]:
    """Describe which lines cross the nonprivate reference or their private baseline.

    A first sentence names the lines that are somewhere clearly better than the reference, another
    the lines that are somewhere clearly worse than their own baseline at the same epsilon.
    """
    better, worse = ("Below", "Above") if chart.metric.lower_is_better else ("Above", "Below")
    labels_by_finding: dict[str, list[str]] = {}
    for line in chart.lines:
        private_baselines = [
            baseline
            for baseline in chart.private_baselines
            if baseline.mechanism == chart.baseline_id(line)
        ]
        without_others = [
            baseline
            for baseline in chart.baselines
            if format_baseline_name(baseline.mechanism) == WITHOUT_OTHERS
        ]
        if chart.nonprivate_reference is not None and is_somewhere_better(
            line, chart.nonprivate_reference
        ):
            labels_by_finding.setdefault(f"{better} {_BEYOND_NONPRIVATE}", []).append(line.label)
        for rivals, finding in (
            (
                private_baselines,
                f"{refer_to_baseline(format_baseline_name(chart.baseline_id(line)))}"
                f" {_WORSE_THAN_BASELINE}",
            ),
            (without_others, _WORSE_THAN_WITHOUT_OTHERS),
        ):
            if any(is_somewhere_better(baseline, line) for baseline in rivals):
                labels_by_finding.setdefault(f"{worse} {finding}", []).append(line.label)
    return [
        f"{finding} ({'; '.join(labels)})." for finding, labels in sorted(labels_by_finding.items())
    ]


_BEYOND_NONPRIVATE = "the line without privacy in places: that method fits these data less well"
_WORSE_THAN_BASELINE = "in places: the model fits the noise"
_WORSE_THAN_WITHOUT_OTHERS = (
    "public facts and own ratings alone in places: other people's ratings add nothing there"
)


def is_somewhere_better(first: Line | FlatLine, second: Line | FlatLine) -> bool:
    """Return whether the first is clearly better at some epsilon of the one that is a `Line`."""
    line = first if isinstance(first, Line) else second
    assert isinstance(line, Line)
    pairs = ((first.interval_at(e), second.interval_at(e)) for e in line.epsilon.tolist())
    return any(
        first_interval
        and second_interval
        and is_clearly_better(line.metric, first_interval, second_interval)
        for first_interval, second_interval in pairs
    )


# --- in words and numbers ----------------------------------------------------------------


def format_caption(plotted_lines: Sequence[PlottedLine]) -> str:
    """Explain the bands and markers of a chart; the text is empty without lines."""
    bands = "; ".join(sorted({describe_band(plotted.band) for plotted in plotted_lines}))
    versions = ", ".join(sorted({plotted.line.version for plotted in plotted_lines}))
    return bands and (
        f"{format_sentence(bands)} Filled marker: proved. White middle: claimed only. Short"
        f" bar: what an attack on invented ratings measured at epsilon 1. Version {versions}."
    )


def describe_chart(chart: CurveChart, plotted_lines: Sequence[PlottedLine]) -> str:
    """Describe several lines in words."""
    phrases = [f"{chart.metric.title} against epsilon"]
    phrases += [
        f"{curve.line.label} ({curve.unit}{', not certified' * (not curve.is_certified)}):"
        f" {format_curve_ends(curve.line, curve.x)}"
        for curve in plotted_lines
    ]
    phrases += [
        f"{name}: {chart.metric.format_value(curve.interval.mean)}"
        for name, curve in chart.flat_lines
    ]
    phrases += [
        f"{format_baseline_name(line.mechanism)}: {line.label}" for line in chart.private_baselines
    ]
    return "; ".join(phrases) + "."


def tabulate_chart(plotted_lines: Sequence[PlottedLine], *, numbers_only: bool = False) -> Table:
    """Return every point of several lines as columns.

    Args:
        plotted_lines: the lines.
        numbers_only: whether values are plain numbers with their unit in the head of the column,
            instead of formatted text.
    """
    # All lines of a chart have the same metric, so the set has at most one element.
    unit_suffix = (
        "".join({f" ({plotted.line.metric.unit_label})" for plotted in plotted_lines})
        * numbers_only
    )
    heads = (f"mean{unit_suffix}", f"from{unit_suffix}", f"to{unit_suffix}", "seeds")
    rows = []
    for plotted in plotted_lines:
        format_value = "{:.6g}".format if numbers_only else plotted.line.metric.format_value
        for x, *values, seeds in zip(*plotted.band, strict=True):
            formatted = map(format_value, map(float, values))
            rows.append(
                (
                    plotted.line.label,
                    float(f"{x:.4g}"),
                    plotted.unit,
                    plotted.is_certified,
                    *formatted,
                    int(seeds),
                )
            )
    return build_table(("mechanism", "epsilon", "counts", "certified", *heads), rows)


def format_curve_ends(line: Line, x: Floats | None = None) -> str:
    """Return the ends of a curve: '51.0 % at epsilon 0.1, 76.5 % at epsilon 10'.

    Args:
        line: the line.
        x: its epsilons (default: those that were set).
    """
    epsilons = line.epsilon if x is None else x
    ends = zip(line.band.mean[[0, -1]], epsilons[[0, -1]], strict=True)
    return ", ".join(
        f"{line.metric.format_value(mean)} at epsilon {epsilon:.3g}" for mean, epsilon in ends
    )


def format_short_label(line: Line) -> str:
    """Return the label of a line for a narrow place."""
    name = registry.get_mechanism(line.mechanism).name
    return line.label.replace(name, registry.get_short_name(line.mechanism), 1)


# --- one line ----------------------------------------------------------------------------


def describe_measurement(chart: CurveChart) -> list[str]:
    """Return how the first line was measured, and what is unexpected about it."""
    line = chart.lines[0]
    measured = (
        f"{format_sentence(EVALUATION_ONLY)} Tested on {format_split(line.info.split)}."
        f" {format_sentence(describe_band(line.band))} Filled circles are proved, open ones only"
        f" claimed. Version {line.version}, default settings."
    )
    return [measured, *describe_crossings(chart._replace(lines=chart.lines[:1]))]


def tabulate_line(line: Line) -> Table:
    """Return one line as columns, at the epsilons as its paper counts them."""
    return tabulate_chart([place_on_axis(line, EpsilonUnit.PAPER)])


# --- rankings under both candidate sets --------------------------------------------------------


def select_ranking_metrics(
    methods: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[Metric, float]]:
    """Return the ranking metrics of one run by method, in the order of the panels."""
    return {
        name: {metric: values[metric.name] for metric in RANKING_METRICS if metric.name in values}
        for name, values in methods.items()
    }


def describe_bars(methods: Mapping[str, Mapping[str, float]]) -> str:
    """Describe the bars of ranking metrics in words, by method."""
    phrases = [
        f"{name}: "
        + ", ".join(
            f"{metric.panel_title} {metric.format_value(v)}" for metric, v in values.items()
        )
        for name, values in select_ranking_metrics(methods).items()
    ]
    return "; ".join(phrases) + "."


def tabulate_panels(panels: Sequence[CurveChart]) -> Table:
    """Return the panels of one mechanism as columns."""
    return {"epsilon": panels[0].lines[0].epsilon.tolist()} | {
        panel.metric.panel_title: panel.lines[0].band.mean.round(4).tolist() for panel in panels
    }
