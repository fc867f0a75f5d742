"""Read curves from a result store, with their bands over seeds and what an epsilon counts.

Precomputed curves are rows of a store too, and the same code reads them.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from dpmc_core import registry
from dpmc_core.arrays import Floats, Ints
from dpmc_core.errors import format_sentence
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.metrics import RANKING_METRICS, Metric, choose_headline_metric
from dpmc_core.model import Task
from dpmc_core.privacy import RATING, USER_EMPTIED, Change
from dpmc_lab import shipped as files
from dpmc_lab.store import Claim, CurveInfo, Store, list_curves, load_claims, load_points
from dpmc_lab.views.text import Table, build_table, format_split

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


NO_PRIVACY = "no privacy"
BASELINE = "one answer for all"
WITHOUT_OTHERS = "public facts alone"
POPULAR_LIST = "a popular list"  # the baseline where lists are made
_BASELINE_LABELS = {
    "private-own-mean": "own averages",
    "user-mean": "own averages",
    "private-alone": "public facts and own ratings",
}


class Role(enum.Enum):
    """What a curve stands for on a chart."""

    PRIVATE = enum.auto()
    AS_CLAIMED = enum.auto()  # private, at claimed epsilons: none is certified in the axis unit
    NO_PRIVACY = enum.auto()  # the nonprivate reference of a task
    COUNTERPART = enum.auto()  # a nonprivate method of a paper
    BASELINE = enum.auto()
    WITHOUT_OTHERS = enum.auto()  # a baseline that uses no ratings of other people


@dataclass(frozen=True, eq=False)
class Curve:
    """A metric of one method with its settings, by epsilon and seed.

    Attributes:
        info: the curve in its store.
        label: name of the mechanism with the settings that are not defaults.
        metric: the metric, in units of the data.
        role: what the curve stands for.
        epsilon: array of shape (n_epsilons,), the setting, increasing; of a method without
            epsilon a single NaN.
        seeds: array of shape (n_seeds,).
        values: array of shape (n_epsilons, n_seeds), NaN where there is no value yet.
        claimed: array of shape (n_epsilons,), NaN where nothing is claimed.
        change: the change that the claim is about, if there is a claim.
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
    role: Role
    epsilon: Floats
    seeds: Ints
    values: Floats
    claimed: Floats = field(default_factory=lambda: np.array([math.nan]))
    change: Change = RATING
    certified: Mapping[str, Floats] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
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

    @property
    def name(self) -> str:
        """Return what the curve stands for, in words."""
        if self.role in (Role.PRIVATE, Role.AS_CLAIMED):
            return self.label
        if self.role is Role.NO_PRIVACY:
            return NO_PRIVACY
        baseline_name = format_baseline_name(self.mechanism)
        if self.role is not Role.COUNTERPART:
            return baseline_name
        label = self.label.removesuffix(", no privacy")
        # The nonprivate counterpart of a private baseline is a baseline itself.
        is_baseline = registry.get_mechanism(self.mechanism).baseline == self.mechanism
        return f"{baseline_name}: {label}" if is_baseline else f"{label} without privacy"

    @property
    def is_level(self) -> bool:
        """Return whether the method has no epsilon, so that its metric is the same everywhere."""
        return bool(np.isnan(self.epsilon[0]))

    @cached_property
    def intervals(self) -> tuple[Interval, ...]:
        """Return the interval at each epsilon."""
        return tuple(compute_interval(row, self.level) for row in self.values)

    @property
    def interval(self) -> Interval:
        """Return the interval of a method without epsilon."""
        return self.intervals[0]

    @cached_property
    def band(self) -> Band:
        """Return the intervals by the epsilon that was set."""
        mean, half, seeds = np.array(self.intervals).T
        return Band(self.epsilon, mean, mean - half, mean + half, seeds.astype(int))

    def interval_at(self, epsilon: float) -> Interval | None:
        """Return the interval at a computed epsilon; None at others, as nothing is interpolated."""
        return next((self.intervals[k] for k in self._find_rows(epsilon)), None)

    def values_at(self, epsilon: float) -> Floats:
        """Return the values by seed at a computed epsilon, as an array; empty at others."""
        return self.values[self._find_rows(epsilon)].ravel()

    def _find_rows(self, epsilon: float) -> Ints:
        """Return the index of an epsilon, if it is computed; every epsilon has that of a level."""
        return np.flatnonzero(self.is_level | (np.abs(self.epsilon - epsilon) <= 1e-9 * epsilon))

    def has_values(self, epsilons: Iterable[float], seeds: Iterable[int]) -> bool:
        """Return whether every seed has a value at every epsilon."""
        rows = [*epsilons]
        columns = [*seeds]
        selected = self.values[np.isin(self.epsilon, rows)][:, np.isin(self.seeds, columns)]
        return selected.shape == (len(rows), len(columns)) and not bool(np.isnan(selected).any())


class CurveChart(NamedTuple):
    """The lines of a chart, with the baselines and the nonprivate methods that they run between.

    Attributes:
        metric: the metric of all curves.
        lines: the mechanisms.
        baselines: levels, which use no data of others or are not private; then private baselines,
            which depend on epsilon too.
        nonprivate_counterparts: the nonprivate reference, and nonprivate methods of papers.
        errors: mean metric of the methods without epsilon by id; it decides which of several
            baselines a line is compared with.
    """

    metric: Metric
    lines: tuple[Curve, ...] = ()
    baselines: tuple[Curve, ...] = ()
    nonprivate_counterparts: tuple[Curve, ...] = ()
    errors: Mapping[str, float] = MappingProxyType({})

    def baseline_id(self, line: Curve) -> str:
        """Return the id of the baseline of a line."""
        return registry.choose_baseline(
            registry.get_mechanism(line.mechanism), line.info.prepare, self.errors
        )

    @property
    def first_line(self) -> Curve | None:
        """Return the line that comes first; None where nothing is computed yet."""
        return self.lines[0] if self.lines else None

    @property
    def endpoints(self) -> tuple[Curve, ...]:
        """Return the curves that the lines run between."""
        return (*self.nonprivate_counterparts, *self.baselines)

    @property
    def levels(self) -> tuple[Curve, ...]:
        """Return the methods without epsilon."""
        return tuple(curve for curve in self.endpoints if curve.is_level)

    @property
    def private_baselines(self) -> tuple[Curve, ...]:
        """Return the baselines that depend on epsilon."""
        return tuple(curve for curve in self.baselines if not curve.is_level)

    @property
    def nonprivate_reference(self) -> Curve | None:
        """Return the level of the nonprivate reference."""
        levels = self.nonprivate_counterparts
        return next((level for level in levels if level.role is Role.NO_PRIVACY), None)

    def list_endpoints(self, epsilon: float) -> list[tuple[str, Interval]]:
        """Return the baselines and nonprivate methods that have a value at an epsilon."""
        return [
            (curve.name, interval)
            for curve in self.endpoints
            if (interval := curve.interval_at(epsilon)) is not None
        ]


def format_baseline_name(id: str) -> str:
    """Return what a baseline is, in words."""
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
        selected = {key: value for key, value in self.points.items() if key[-1] in seeds}
        return self._replace(points=selected)


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
    curves = [*filter(None, (_build_curve(rows, metric) for rows in curve_rows))]
    classes = [registry.get_mechanism(id) for id in mechanisms]
    steps = {step for curve in curve_rows for step in curve.info.prepare}
    errors = {curve.mechanism: curve.interval.mean for curve in curves if curve.is_level}
    baselines = {registry.choose_baseline(cls, steps, errors) for cls in classes}
    feature_baselines = set()  # baselines that are drawn only with features
    if registry.has_features_step(steps):
        baselines |= {
            registry.WITHOUT_OTHERS_BASELINES[cls.task] for cls in classes if cls.uses_item_features
        }
        feature_baselines = {
            id for id in baselines if registry.get_mechanism(id).uses_item_features
        }
    baselines -= {*mechanisms}
    references = {registry.NONPRIVATE_REFERENCES[cls.task] for cls in classes}
    counterparts = {cls.nonprivate_counterpart for cls in classes} - references

    def select(ids: Collection[str], role: Role, *, is_level: bool = True) -> list[Curve]:
        """Return the curves of these mechanisms, with or without an epsilon, in a role."""
        return [
            replace(curve, role=role)
            for curve in curves
            if curve.mechanism in ids and curve.is_level is is_level
        ]

    without_others = baselines & {*registry.WITHOUT_OTHERS_BASELINES.values()}
    return CurveChart(
        metric,
        tuple(
            sorted(
                select(mechanisms, Role.PRIVATE, is_level=False),
                key=lambda curve: (
                    mechanisms.index(curve.mechanism),
                    not has_item_features(curve),
                    len(curve.label),
                ),
            )
        ),
        (
            *select(baselines - without_others, Role.BASELINE),
            *select(without_others, Role.WITHOUT_OTHERS),
            *(
                curve
                for curve in select(baselines, Role.BASELINE, is_level=False)
                if has_item_features(curve) or curve.mechanism not in feature_baselines
            ),
        ),
        (
            *select(references, Role.NO_PRIVACY)[:1],
            *select(counterparts, Role.COUNTERPART),
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


def has_item_features(curve: CurveRows | Curve) -> bool:
    """Return whether the runs of a curve use public item features."""
    return registry.has_features_step(curve.info.prepare)


def _build_curve(rows: CurveRows, metric: Metric) -> Curve | None:
    """Return a curve as a private one, or as a level where it has no epsilon; None if empty."""
    measured = {key[1:]: value for key, value in rows.points.items() if key[0] == metric.name}
    if not measured:
        return None
    epsilons: list[float | None] = [*sorted({e for e, _ in measured if e is not None})] or [None]
    seeds = sorted({seed for epsilon, seed in measured if epsilon in epsilons})
    curve = Curve(
        rows.info,
        format_curve_label(rows.info),
        metric,
        Role.PRIVATE,
        np.array(epsilons, dtype=float),  # None becomes NaN
        np.array(seeds),
        np.array([[measured.get((e, s), math.nan) for s in seeds] for e in epsilons]),
    )
    if curve.is_level:
        return curve
    claims = [rows.claims[epsilon] for epsilon in epsilons]
    first_claim = claims[0]
    certified = {
        unit: np.array([claim.units[unit] for claim in claims], dtype=float)
        for unit in first_claim.units
    }
    return replace(
        curve,
        claimed=np.array([claim.claimed for claim in claims], dtype=float),
        change=first_claim.change,
        certified={  # a store has no value, which becomes NaN, for an infinite epsilon
            unit: np.where(np.isnan(bounds), np.inf, bounds) for unit, bounds in certified.items()
        },
        reasons=first_claim.reasons,
        prepared=first_claim.prepared,
        version=first_claim.version,
    )


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
    """Return the mean of the values that are not NaN, with its t interval at a confidence level.

    The interval of a single value has the half width 0, see `Interval`.
    """
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


# Follows what the epsilons of a line count that has no finite certified one in the axis unit.
AS_CLAIMED = ", as claimed"


class PlottedLine(NamedTuple):
    """A line on an epsilon axis.

    Attributes:
        line: the curve.
        x: array of shape (n_epsilons,), its epsilons on the axis.
        counted: the change that x counts, in words.
        role: whether x counts what the axis counts, or another change that is only claimed.
        reason: why x is not certified; empty if it is. If it is not, x is what is claimed and the
            line has open markers.
    """

    line: Curve
    x: Floats
    counted: str
    role: Role = Role.PRIVATE
    reason: str = ""

    @property
    def is_certified(self) -> bool:
        """Return whether x is certified in its unit."""
        return not self.reason

    @property
    def unit(self) -> str:
        """Return the unit of x, in words."""
        return self.counted + AS_CLAIMED * (self.role is Role.AS_CLAIMED)

    @property
    def band(self) -> Band:
        """Return the intervals by the epsilon of the axis."""
        return self.line.band._replace(x=self.x)


def place_on_axis(line: Curve, epsilon_unit: EpsilonUnit) -> PlottedLine:
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
        return PlottedLine(line, claimed_epsilons, line.change.label, reason=reason)
    change = {EpsilonUnit.RATING: RATING, EpsilonUnit.USER: USER_EMPTIED}[epsilon_unit]
    x = line.certified[change.value]
    if np.isfinite(x).all():
        return PlottedLine(line, x, change.label)
    reason = line.reasons.get(change.value, "some epsilons have no finite certified value")
    return PlottedLine(
        line,
        claimed_epsilons,
        line.change.label,
        Role.AS_CLAIMED,
        f"nothing finite is certified {change.label}: {reason}",
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
        baseline_id = chart.baseline_id(line)
        private_baselines = [
            baseline for baseline in chart.private_baselines if baseline.mechanism == baseline_id
        ]
        without_others = [
            baseline for baseline in chart.baselines if baseline.role is Role.WITHOUT_OTHERS
        ]
        if chart.nonprivate_reference is not None and is_somewhere_better(
            line, chart.nonprivate_reference
        ):
            labels_by_finding.setdefault(f"{better} {_BEYOND_NONPRIVATE}", []).append(line.label)
        for rivals, finding in (
            (private_baselines, f"{format_baseline_name(baseline_id)} {_WORSE_THAN_BASELINE}"),
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


def is_somewhere_better(first: Curve, second: Curve) -> bool:
    """Return whether the first is clearly better at some epsilon of the one that is no level."""
    line = second if first.is_level else first
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
        f"{level.name}: {chart.metric.format_value(level.interval.mean)}" for level in chart.levels
    ]
    phrases += [f"{baseline.name}: {baseline.label}" for baseline in chart.private_baselines]
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


def format_curve_ends(line: Curve, x: Floats | None = None) -> str:
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


def format_short_label(line: Curve) -> str:
    """Return the label of a line for a narrow place."""
    name = registry.get_mechanism(line.mechanism).name
    return line.label.replace(name, registry.get_short_name(line.mechanism), 1)


# --- one line ----------------------------------------------------------------------------


def describe_measurement(chart: CurveChart) -> list[str]:
    """Return how the first line was measured, and what is unexpected about it."""
    line = chart.lines[0]
    measured = (
        f"{format_sentence(EVALUATION_ONLY)} Tested on {format_split(line.info.split)}."
        f" {format_sentence(describe_band(line.band))} Version {line.version}, default settings."
    )
    return [measured, *describe_crossings(chart._replace(lines=chart.lines[:1]))]


def tabulate_line(line: Curve) -> Table:
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
