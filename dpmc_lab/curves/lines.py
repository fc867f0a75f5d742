"""Curves of mechanisms out of a result store: their bands over seeds, and what an epsilon counts.

Precomputed curves are rows of a store too, and are read by the same code.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.special import stdtrit

from dpmc_core import registry
from dpmc_core.arrays import Floats, Ints
from dpmc_core.errors import sentence
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.metrics import RANKING, Metric, headline
from dpmc_core.model import Task
from dpmc_core.privacy import RATING, USER_EMPTIED, Change
from dpmc_core.problem import split_words
from dpmc_lab import shipped as files
from dpmc_lab.curves.text import Table, columns
from dpmc_lab.store import Claim, CurveInfo, Store, certified, curves, points

Curve = TypeVar("Curve", "Line", "Reference")

LEVEL = 0.95
MOST_SEEDS = 200  # drawn of a curve, where the caller does not say which
_SLACK = 1 + 1e-9  # claimed and certified may differ in the last digits


class Interval(NamedTuple):
    """A mean over seeds with its 95 % t interval.

    Where there is a single seed the interval is the mean itself: it says nothing.
    """

    mean: float
    half_width: float
    seeds: int

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width


class Band(NamedTuple):
    """The interval at each x; seeds: how many each rests on."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    seeds: Ints


@dataclass(frozen=True, eq=False)
class Line:
    """A metric of one mechanism with its settings, by epsilon and seed.

    info: the curve in its store. label: the name with what is not default. epsilon: the setting,
    increasing (E). seeds: (S). values: E x S, NaN where there is none yet. claimed: (E), NaN where
    nothing is claimed. change: of the claim. certified: (E) by the change's column name, inf where
    infinite; reasons: why, by the same names. prepared: what was read off the data, in
    words; version: of the program that computed it; both of the smallest epsilon.
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

    @property
    def key(self) -> str:
        return self.info.key

    @property
    def mechanism(self) -> str:
        return self.info.mechanism

    @cached_property
    def intervals(self) -> tuple[Interval, ...]:
        """Its interval at each epsilon."""
        return tuple(interval(row) for row in self.values)

    @cached_property
    def band(self) -> Band:
        """Its intervals at the setting."""
        mean, half, seeds = np.array(self.intervals).T
        return Band(self.epsilon, mean, mean - half, mean + half, seeds.astype(int))

    def at(self, epsilon: float) -> Interval | None:
        """The interval at a computed epsilon; None elsewhere: values are never interpolated."""
        matches = np.flatnonzero(np.abs(self.epsilon - epsilon) <= 1e-9 * epsilon)
        return self.intervals[matches[0]] if len(matches) else None

    def has(self, epsilons: Iterable[float], seeds: Iterable[int]) -> bool:
        """Whether every seed has a value at every epsilon."""
        rows, columns = ([*expected] for expected in (epsilons, seeds))
        selected = self.values[np.isin(self.epsilon, rows)][:, np.isin(self.seeds, columns)]
        return selected.shape == (len(rows), len(columns)) and not bool(np.isnan(selected).any())


@dataclass(frozen=True, eq=False)
class Reference:
    """A method without epsilon: the same at every epsilon. values: one per seed."""

    key: str
    mechanism: str
    label: str
    values: Floats

    @cached_property
    def level(self) -> Interval:
        return interval(self.values)

    def at(self, epsilon: float) -> Interval:  # noqa: ARG002
        """Its interval, as a line has it at an epsilon."""
        return self.level


WITHOUT, GUESSING, ALONE = "no privacy", "guessing", "public facts alone"
POPULAR = "a popular list"  # what guessing is where lists are made
_BASELINES = {
    "private-constant": "one number for all",
    "private-own-mean": "own averages",
    "private-alone": "public facts and own ratings",
}


class Picture(NamedTuple):
    """What a chart shows: lines, and between which floors and methods without privacy they run.

    floors: guesses that need no data of others, or that are not private; guesses: private ones,
    which depend on epsilon too. twins: the reference, and papers' own methods without privacy.
    errors: of methods without noise by id, from which a line's baseline follows.
    """

    metric: Metric
    lines: tuple[Line, ...] = ()
    floors: tuple[Reference, ...] = ()
    twins: tuple[Reference, ...] = ()
    guesses: tuple[Line, ...] = ()
    errors: Mapping[str, float] = MappingProxyType({})

    def baseline(self, line: Line) -> str:
        """The id of the baseline of a line."""
        return registry.floor_of(registry.get(line.mechanism), line.info.prepare, self.errors)

    @property
    def levels(self) -> list[tuple[str, Reference]]:
        """The lines without an epsilon, each with what it stands for."""
        named_lines = []
        for level in self.twins:
            is_baseline = (
                registry.get(level.mechanism).floor == level.mechanism
            )  # a private guess's twin
            kind = guess_name(level.mechanism) if is_baseline else WITHOUT
            counterpart_name = f"{kind}: {level.label.removesuffix(', no privacy')}"
            is_reference = level.mechanism in registry.REFERENCES.values()
            named_lines.append((WITHOUT if is_reference else counterpart_name, level))
        return named_lines + [(guess_name(level.mechanism), level) for level in self.floors]

    @property
    def without(self) -> Reference | None:
        """The line without privacy."""
        return next((level for name, level in self.levels if name == WITHOUT), None)

    def between(self, epsilon: float) -> list[tuple[str, Interval]]:
        """What its lines run between at an epsilon, as far as it is there."""
        named_baselines = [
            (guess_name(private_baseline.mechanism), private_baseline)
            for private_baseline in self.guesses
        ]
        endpoints: list[tuple[str, Line | Reference]] = [*self.levels, *named_baselines]
        return [
            (name, interval)
            for name, curve in endpoints
            if (interval := curve.at(epsilon)) is not None
        ]


def guess_name(id: str) -> str:
    """What a floor stands for."""
    default_name = POPULAR if registry.get(id).task is Task.RANKING else GUESSING
    return ALONE if id in registry.ALONE.values() else _BASELINES.get(id, default_name)


# --- out of a store ----------------------------------------------------------------------


class CurveRows(NamedTuple):
    """What is stored of a curve: values by metric, then by epsilon (None without one) and seed."""

    info: CurveInfo
    points: Mapping[str, Mapping[tuple[float | None, int], float]]
    claims: Mapping[float | None, Claim]

    def joined(self, other: CurveRows | None) -> CurveRows:
        """With what is known of the same curve from elsewhere, where this has nothing."""
        if other is None:
            return self
        points = {
            name: {**other.points.get(name, {}), **values} for name, values in self.points.items()
        }
        return CurveRows(self.info, points, {**other.claims, **self.claims})

    def only(self, seeds: Collection[int] | None) -> CurveRows:
        """With the values of these seeds alone."""
        if seeds is None:
            return self
        selected = {
            name: {place: value for place, value in values.items() if place[1] in seeds}
            for name, values in self.points.items()
        }
        return self._replace(points=selected)


def stored(
    store: Store,
    mechanisms: Sequence[str],
    metrics: Sequence[Metric],
    *,
    keys: Collection[str] | None = None,
    epsilons: Collection[float] | None = None,
    seeds: Collection[int] | None = None,
) -> dict[str, CurveRows]:
    """The rows of some mechanisms, their floors and twins, by the curve's key.

    keys: of the curves; else all that the store has. epsilons, seeds: only these.
    """
    mechanism_ids = {*mechanisms}.union(*map(registry.company_of, map(registry.get, mechanisms)))
    rows_by_key = {}
    for info in curves(store, keys=keys, count=False):
        if info.mechanism not in mechanism_ids:
            continue
        values = {
            metric.name: {
                place: value
                for place, value in points(
                    store, info.id, metric.name, MOST_SEEDS if seeds is None else seeds
                ).items()
                if place[0] is None or epsilons is None or place[0] in epsilons
            }
            for metric in metrics
        }
        noisy = registry.adds_noise(registry.get(info.mechanism))
        rows_by_key[info.key] = CurveRows(info, values, certified(store, info.id) if noisy else {})
    return rows_by_key


def picture(
    stored_rows: Mapping[str, CurveRows],
    mechanisms: Sequence[str],
    metric: Metric,
    shipped_rows: Mapping[str, CurveRows] | None = None,
) -> Picture:
    """The curves of some mechanisms with their floors and twins.

    shipped_rows: rows that came with the program; each fills in what is missing among the own ones.
    """
    shipped_rows = shipped_rows or {}
    curve_rows = [
        stored_rows[key].joined(shipped_rows.get(key)) if key in stored_rows else shipped_rows[key]
        for key in {**stored_rows, **shipped_rows}
    ]
    curve_rows.sort(
        key=uses_facts, reverse=True
    )  # of two lines without privacy the better informed
    metric = metric.on(curve_rows[0].info.public) if curve_rows else metric
    plotted = [*filter(None, (_line(curve, metric) for curve in curve_rows))]
    flat_lines = [*filter(None, (_reference(curve, metric) for curve in curve_rows))]
    classes = [registry.get(id) for id in mechanisms]
    steps = {step for curve in curve_rows for step in curve.info.prepare}
    errors = {flat_line.mechanism: flat_line.level.mean for flat_line in flat_lines}
    baselines = {registry.floor_of(cls, steps, errors) for cls in classes}
    feature_baselines = set()  # baselines that are drawn with features alone
    if registry.uses_facts(steps):
        baselines |= {registry.ALONE[cls.task] for cls in classes if registry.takes_facts(cls)}
        feature_baselines = {id for id in baselines if registry.takes_facts(registry.get(id))}
    baselines -= {*mechanisms}
    references = {registry.REFERENCES[cls.task] for cls in classes}
    counterparts = {cls.twin for cls in classes} - references

    def of(ids: Collection[str], curves: Iterable[Curve]) -> tuple[Curve, ...]:
        return tuple(curve for curve in curves if curve.mechanism in ids)

    return Picture(
        metric,
        tuple(
            sorted(
                of(mechanisms, plotted),
                key=lambda curve: (
                    mechanisms.index(curve.mechanism),
                    not uses_facts(curve),
                    len(curve.label),
                ),
            )
        ),
        of(baselines, flat_lines),
        of(references, flat_lines)[:1] + of(counterparts, flat_lines),
        tuple(
            curve
            for curve in of(baselines, plotted)
            if uses_facts(curve) or curve.mechanism not in feature_baselines
        ),
        errors,
    )


def read(
    store: Store, mechanisms: Sequence[str], metric: Metric, **filters: Collection[Any] | None
) -> Picture:
    """The curves of some mechanisms, as far as a store has them. only: as `stored` has it."""
    return picture(stored(store, mechanisms, [metric], **filters), mechanisms, metric)


def metrics_of(task: Task) -> tuple[Metric, ...]:
    """What is drawn of a task, the headline first."""
    return RANKING if task is Task.RANKING else (headline(task),)


def shipped_rows(data: str, mechanism: str) -> dict[str, CurveRows]:
    """What came with the program of a mechanism; empty where there is none. Raises DpmcError."""
    task = registry.get(mechanism).task
    file = files.load(data, task, [mechanism])
    if file is None:
        return {}
    with file:
        return stored(file, [mechanism], metrics_of(task))


def shipped(
    data: str, mechanism: str, seeds: Collection[int] | None = None, *, facts: bool = False
) -> tuple[Picture, ...] | None:
    """The curve that came with the program, in each metric; None where there was none.

    seeds: only these. facts: with public facts about items, and then, last, the line without.
    Raises DpmcError where its file cannot be read.
    """
    rows, metrics = shipped_rows(data, mechanism), metrics_of(registry.get(mechanism).task)

    def drawn(uses_features: bool) -> tuple[Picture, ...]:
        selected_rows = {
            key: entry.only(seeds)
            for key, entry in rows.items()
            if uses_facts(entry) == uses_features
        }
        return tuple(picture(selected_rows, [mechanism], metric) for metric in metrics)

    charts = plain_charts = drawn(False)
    if facts:
        pairs = zip(drawn(True), plain_charts, strict=True)
        charts = tuple(
            entry._replace(lines=entry.lines and (*entry.lines, *plain_chart.lines[:1]))
            for entry, plain_chart in pairs
        )
    return charts if charts[0].lines else None


def uses_facts(curve: CurveRows | Line) -> bool:
    """Whether a curve is with what is publicly known of the items."""
    return registry.uses_facts(curve.info.prepare)


def _line(rows: CurveRows, metric: Metric) -> Line | None:
    measured = {place: v for place, v in rows.points[metric.name].items() if place[0] is not None}
    if not measured:
        return None
    grid, seeds = (sorted(set(column)) for column in zip(*measured, strict=True))
    claims = [rows.claims[epsilon] for epsilon in grid]
    first_claim = claims[0]
    certified = {
        unit: np.array([claim.units[unit] for claim in claims], dtype=float)
        for unit in first_claim.units
    }
    return Line(
        info=rows.info,
        label=label(rows.info),
        metric=metric,
        epsilon=np.array(grid, dtype=float),
        seeds=np.array(seeds),
        values=np.array([[measured.get((e, s), math.nan) for s in seeds] for e in grid]),
        claimed=np.array([claim.claimed for claim in claims], dtype=float),
        change=first_claim.change,
        certified={
            unit: np.where(np.isnan(bounds), np.inf, bounds) for unit, bounds in certified.items()
        },
        reasons=first_claim.reasons,
        prepared=first_claim.prepared,
        version=first_claim.version,
    )


def _reference(rows: CurveRows, metric: Metric) -> Reference | None:
    measured, info = rows.points[metric.name], rows.info
    values = [measured[place] for place in sorted(p for p in measured if p[0] is None)]
    return Reference(info.key, info.mechanism, label(info), np.array(values)) if values else None


def label(info: CurveInfo) -> str:
    """The mechanism's name with the settings that are not its defaults."""
    cls = registry.MECHANISMS.get(info.mechanism)
    name = info.mechanism if cls is None else cls.name
    changed = registry.changed_settings(info.mechanism, info.settings)
    words = [f"{key} {str(value).lower()}" for key, value in changed.items()]
    noisy = cls is not None and registry.adds_noise(cls)
    words += ["public facts"] if noisy and registry.uses_facts(info.prepare) else []
    return f"{name} ({', '.join(words)})" if words else name


# --- over seeds --------------------------------------------------------------------------


def interval(values: Floats | Sequence[float], level: float = LEVEL) -> Interval:
    """Mean and half width of the t interval of the values that are there."""
    observed = np.asarray(values, dtype=float)
    observed = observed[~np.isnan(observed)]
    mean, n = float(np.mean(observed)), len(observed)
    if n < 2:
        return Interval(mean, 0.0, n)
    t = float(stdtrit(n - 1, 0.5 + level / 2))
    return Interval(mean, t * float(np.std(observed, ddof=1)) / math.sqrt(n), n)


def clearly_better(metric: Metric, first: Interval, second: Interval) -> bool:
    """Whether two intervals lie apart, and which: 'clearly', wherever bands are looked at."""
    return metric.sign * (first.mean - second.mean) > first.half_width + second.half_width


def band_words(band: Band) -> str:
    """What the band is, for the caption."""
    few, many = int(band.seeds.min()), int(band.seeds.max())
    if many == 1:
        return "one seed: no band"
    over = f"{few}" if few == many else f"{few} to {many}"
    return f"band: 95 % t interval of the mean over {over} seeds"


# --- on an axis --------------------------------------------------------------------------


class Count(enum.Enum):
    """What an epsilon on the axis counts."""

    PAPER = "as each paper counts"
    RATING = "same unit: per rating"
    USER = "same unit: per user"


AS_CLAIMED = ", as claimed"  # after the unit of a line that has nothing finite in the one asked for


class Placed(NamedTuple):
    """A line on an epsilon axis. x: (E). counts: the unit of x, in words.

    solid: whether x is certified in that unit; where not, x is what is claimed, the line is drawn
    hollow, and `reason` says why.
    """

    line: Line
    x: Floats
    counts: str
    solid: bool
    reason: str

    @property
    def band(self) -> Band:
        return self.line.band._replace(x=self.x)


def place(line: Line, epsilon_unit: Count) -> Placed:
    """The line on the axis of a unit. It is never dropped: where nothing finite is certified in
    that unit it stands, hollow, at what is claimed."""
    claimed_epsilons = np.where(np.isnan(line.claimed), line.epsilon, line.claimed)
    if epsilon_unit is Count.PAPER:
        certified_epsilons, why = line.certified[line.change.value], ""
        if not np.isfinite(certified_epsilons).all():
            why = f"claimed, not certified: {line.reasons.get(line.change.value, '')}"
        elif not (certified_epsilons <= claimed_epsilons * _SLACK).all():
            factor = short(float(np.max(certified_epsilons / claimed_epsilons)), 3)
            why = f"certified is up to {factor} times what is claimed {line.change.label}"
        return Placed(line, claimed_epsilons, line.change.label, not why, why)
    change = {Count.RATING: RATING, Count.USER: USER_EMPTIED}[epsilon_unit]
    x, words = line.certified[change.value], change.label
    if np.isfinite(x).all():
        return Placed(line, x, words, True, "")
    why = line.reasons.get(change.value, "some epsilons have no finite certified value")
    claimed_unit = line.change.label + AS_CLAIMED
    return Placed(
        line, claimed_epsilons, claimed_unit, False, f"nothing finite is certified {words}: {why}"
    )


def short(value: float, digits: int = 4) -> str:
    """A number for people, without powers of ten: 2,170,000 rather than 2.17e+06."""
    return f"{float(f'{value:.{digits}g}'):,.10g}"


# --- above the reference -----------------------------------------------------------------


def apart_words(picture: Picture) -> list[str]:
    """A sentence for the lines somewhere clearly better than the reference, and for those that are
    somewhere clearly worse than their own private guess at the same epsilon."""
    better, worse = ("Below", "Above") if picture.metric.lower else ("Above", "Below")
    labels_by_finding: dict[str, list[str]] = {}
    for line in picture.lines:
        private_baselines = [
            baseline for baseline in picture.guesses if baseline.mechanism == picture.baseline(line)
        ]
        without_others = [
            baseline for baseline in picture.floors if guess_name(baseline.mechanism) == ALONE
        ]
        if picture.without is not None and beats(line, picture.without):
            labels_by_finding.setdefault(f"{better} {_ABOVE}", []).append(line.label)
        for rivals, words in (
            (private_baselines, f"{guess_name(picture.baseline(line))} {_BELOW}"),
            (without_others, _UNDER),
        ):
            if any(beats(baseline, line) for baseline in rivals):
                labels_by_finding.setdefault(f"{worse} {words}", []).append(line.label)
    return [
        f"{words} ({'; '.join(labels)})." for words, labels in sorted(labels_by_finding.items())
    ]


_ABOVE = "the line without privacy in places: what that method believes fits less well here"
_BELOW = "in places: noise is taken for taste"
_UNDER = "public facts and one's own ratings alone in places: others' add nothing there"


def beats(first: Line | Reference, second: Line | Reference) -> bool:
    """Whether one of two, of which one is a line, is clearly better at an epsilon of that."""
    line = first if isinstance(first, Line) else second
    assert isinstance(line, Line)
    pairs = ((first.at(e), second.at(e)) for e in line.epsilon.tolist())
    return any(a and b and clearly_better(line.metric, a, b) for a, b in pairs)


# --- in words and numbers ----------------------------------------------------------------


def caption(plotted_lines: Sequence[Placed]) -> str:
    """What a band and a mark mean; nothing without lines."""
    said = "; ".join(sorted({band_words(plotted.band) for plotted in plotted_lines}))
    versions = ", ".join(sorted({plotted.line.version for plotted in plotted_lines}))
    return said and (
        f"{sentence(said)} Filled: certified; hollow: only claimed; a tick: measured at 1. Version"
        f" {versions}."
    )


def words(picture: Picture, plotted_lines: Sequence[Placed]) -> str:
    """Several lines as text."""
    phrases = [f"{picture.metric.title} against epsilon"]
    phrases += [
        f"{one.line.label} ({one.counts}{', not certified' * (not one.solid)}):"
        f" {ends_words(one.line, one.x)}"
        for one in plotted_lines
    ]
    phrases += [f"{name}: {picture.metric.text(one.level.mean)}" for name, one in picture.levels]
    phrases += [f"{guess_name(line.mechanism)}: {line.label}" for line in picture.guesses]
    return "; ".join(phrases) + "."


def table(plotted_lines: Sequence[Placed], *, bare: bool = False) -> Table:
    """Every point of several lines, values as people read them; bare: as numbers, what they are in
    the heads."""
    of = "".join({f" ({one.line.metric.bare})" for one in plotted_lines}) * bare
    heads = (f"mean{of}", f"from{of}", f"to{of}", "seeds")
    rows = []
    for one in plotted_lines:
        text = "{:.6g}".format if bare else one.line.metric.text
        for x, *bounds, seeds in zip(*one.band, strict=True):
            formatted = map(text, map(float, bounds))
            rows.append(
                (one.line.label, float(f"{x:.4g}"), one.counts, one.solid, *formatted, int(seeds))
            )
    return columns(("mechanism", "epsilon", "counts", "certified", *heads), rows)


def means_table(plotted_lines: Sequence[Placed]) -> Table:
    """Means by the epsilon each mechanism was run at; names are short, settings stay."""
    means_by_epsilon = {"mechanism": [short_label(plotted.line) for plotted in plotted_lines]}
    for epsilon in sorted({float(e) for plotted in plotted_lines for e in plotted.line.epsilon}):
        means_by_epsilon[f"{epsilon:g}"] = [
            ""
            if (interval := plotted.line.at(epsilon)) is None
            else plotted.line.metric.text(interval.mean)
            for plotted in plotted_lines
        ]
    return means_by_epsilon


def ends_words(line: Line, x: Floats | None = None) -> str:
    """Where it begins and ends: '51.0 % at epsilon 0.1, 76.5 % at epsilon 10'. x: else its own."""
    epsilons = line.epsilon if x is None else x
    ends = zip(line.band.mean[[0, -1]], epsilons[[0, -1]], strict=True)
    return ", ".join(f"{line.metric.text(mean)} at epsilon {at:.3g}" for mean, at in ends)


def short_label(line: Line) -> str:
    """Its label for a narrow place."""
    name = registry.get(line.mechanism).name
    return line.label.replace(name, registry.short_name(line.mechanism), 1)


# --- one line, looked at from one epsilon ------------------------------------------------


def measured_words(picture: Picture) -> list[str]:
    """What the numbers of its first line are, and what one would not expect of it."""
    line = picture.lines[0]
    measured = (
        f"{sentence(EVALUATION_ONLY)} {sentence(band_words(line.band))} Tested on"
        f" {split_words(line.info.split)}. Filled is certified, hollow only claimed, a tick"
        f" measured at 1. Version {line.version}, default settings."
    )
    return [measured, *apart_words(picture)]


def table_of(line: Line) -> Table:
    """One line, at the epsilons of its paper."""
    return table([place(line, Count.PAPER)])


# --- rankings under both candidate sets --------------------------------------------------------


def bars(methods: Mapping[str, Mapping[str, float]]) -> dict[str, dict[Metric, float]]:
    """Metrics of one run by method, in the order of the panels."""
    return {
        name: {metric: values[metric.name] for metric in RANKING if metric.name in values}
        for name, values in methods.items()
    }


def bars_words(methods: Mapping[str, Mapping[str, float]]) -> str:
    """The bars as text."""
    phrases = [
        f"{name}: " + ", ".join(f"{metric.panel} {metric.text(v)}" for metric, v in values.items())
        for name, values in bars(methods).items()
    ]
    return "; ".join(phrases) + "."


def panels_words(panels: Sequence[Picture]) -> str:
    """Pictures of one mechanism as text: each metric's ends."""
    return "; ".join(f"{one.metric.panel}: {ends_words(one.lines[0])}" for one in panels) + "."


def panels_table(panels: Sequence[Picture]) -> Table:
    """The same as columns."""
    return {"epsilon": panels[0].lines[0].epsilon.tolist()} | {
        panel.metric.panel: panel.lines[0].band.mean.round(4).tolist() for panel in panels
    }
