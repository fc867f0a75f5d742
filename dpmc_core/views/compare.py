"""Curves of several mechanisms side by side: bands over seeds, and what an epsilon counts."""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from dpmc_core import registry
from dpmc_core.privacy import RATING, USER_EMPTIED, Change
from dpmc_core.store import CurveInfo, Store, certified, points
from dpmc_core.views.resample import short

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVEL = 0.95
MOST_SEEDS = 200  # drawn of a curve, where the caller does not say which
_SLACK = 1 + 1e-9  # claimed and certified may differ in the last digits


class Line(NamedTuple):
    """A metric of one mechanism with its settings, by epsilon and seed.

    key: of the curve. label: the name with what is not default. epsilon: the setting, increasing
    (E). seeds: (S). values: E x S, NaN where there is none yet. claimed: (E), NaN where nothing is
    claimed. change: of the claim. certified: (E) by the change's column name, inf where infinite;
    reasons: why, by the same names.
    """

    key: str
    mechanism: str
    label: str
    metric: str
    epsilon: Floats
    seeds: Ints
    values: Floats
    claimed: Floats
    change: Change
    certified: Mapping[str, Floats]
    reasons: Mapping[str, str]


class Reference(NamedTuple):
    """A method without epsilon: the same at every epsilon. values: one per seed."""

    key: str
    mechanism: str
    label: str
    metric: str
    values: Floats


class Band(NamedTuple):
    """Mean over seeds with its 95 % t interval, at each x; seeds: how many each rests on.

    Where there is a single seed the interval is the mean itself: it says nothing.
    """

    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    seeds: Ints


class Count(enum.Enum):
    """What an epsilon on the axis counts."""

    PAPER = "as each paper counts"
    RATING = "same unit: per rating"
    USER = "same unit: per user"


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


def lines(
    store: Store,
    curves: Sequence[CurveInfo],
    metric: str,
    *,
    epsilons: Collection[float] | None = None,
    seeds: Collection[int] | None = None,
) -> tuple[Line, ...]:
    """The curves that have an epsilon and the metric, optionally at some epsilons and seeds."""
    found = []
    for info in curves:
        measured = {
            (row.epsilon, row.seed): row.value
            for row in points(store, [info.id], metric, MOST_SEEDS if seeds is None else seeds)
            if row.epsilon is not None and (epsilons is None or row.epsilon in epsilons)
        }
        if not measured:
            continue
        grid, drawn = (sorted(set(side)) for side in zip(*measured, strict=True))
        values = np.array([[measured.get((e, s), math.nan) for s in drawn] for e in grid])
        facts = {fact.epsilon: fact for fact in certified(store, [info.id])}
        there = [facts[epsilon] for epsilon in grid]
        found.append(
            Line(
                key=info.key,
                mechanism=info.mechanism,
                label=label(info),
                metric=metric,
                epsilon=np.array(grid, dtype=float),
                seeds=np.array(drawn),
                values=values,
                claimed=_numbers([fact.claimed for fact in there], math.nan),
                change=Change.of(there[0].unit, there[0].neighbours),
                certified={
                    unit: _numbers([fact.units[unit] for fact in there], math.inf)
                    for unit in there[0].units
                },
                reasons=there[0].reasons,
            )
        )
    return tuple(found)


def references(
    store: Store,
    curves: Sequence[CurveInfo],
    metric: str,
    *,
    seeds: Collection[int] | None = None,
) -> tuple[Reference, ...]:
    """The floors and twins among the curves: the methods without an epsilon."""
    found = []
    for info in curves:
        values = [
            row.value
            for row in points(store, [info.id], metric, MOST_SEEDS if seeds is None else seeds)
            if row.epsilon is None
        ]
        if values:
            found.append(Reference(info.key, info.mechanism, label(info), metric, np.array(values)))
    return tuple(found)


def label(info: CurveInfo) -> str:
    """The mechanism's name with the settings that are not its defaults."""
    cls = registry.MECHANISMS.get(info.mechanism)
    name = info.mechanism if cls is None else cls.name
    changed = registry.changed_settings(info.mechanism, info.settings)
    words = ", ".join(f"{key} {str(value).lower()}" for key, value in changed.items())
    return f"{name} ({words})" if words else name


def band(values: Floats, x: Floats) -> Band:
    """Mean and t interval over the seeds of each row of values (E x S, NaN where missing)."""
    counts = np.sum(~np.isnan(values), axis=1)
    mean = np.array([float(np.mean(row[~np.isnan(row)])) for row in values])
    half = np.zeros(len(values))
    for k, row in enumerate(values):
        if counts[k] > 1:
            there = row[~np.isnan(row)]
            t = float(stdtrit(counts[k] - 1, 0.5 + LEVEL / 2))
            half[k] = t * float(np.std(there, ddof=1)) / math.sqrt(counts[k])
    return Band(x, mean, mean - half, mean + half, counts)


def band_words(view: Band) -> str:
    """What the band is, for the caption."""
    few, many = int(view.seeds.min()), int(view.seeds.max())
    if many == 1:
        return "one seed: no band"
    over = f"{few}" if few == many else f"{few} to {many}"
    return f"band: 95 % t interval of the mean over {over} seeds"


def place(line: Line, count: Count) -> Placed:
    """The line on the axis of a unit. It is never dropped: where nothing finite is certified in
    that unit it stands, hollow, at what is claimed."""
    shown = np.where(np.isnan(line.claimed), line.epsilon, line.claimed)
    if count is Count.PAPER:
        own = line.certified[line.change.value]
        solid = bool((own <= shown * _SLACK).all())
        return Placed(line, shown, line.change.label, solid, "" if solid else _short_of(line, own))
    counted = {Count.RATING: RATING, Count.USER: USER_EMPTIED}[count]
    x, words = line.certified[counted.value], counted.label
    if np.isfinite(x).all():
        return Placed(line, x, words, True, "")
    why = line.reasons.get(counted.value, "some epsilons have no finite certified value")
    return Placed(
        line,
        shown,
        f"{line.change.label}, as claimed",
        False,
        f"nothing finite is certified {words}: {why}",
    )


def _short_of(line: Line, own: Floats) -> str:
    if not np.isfinite(own).all():
        why = line.reasons.get(line.change.value, "")
        return f"claimed, not certified: {why}"
    factor = float(np.max(own / np.where(np.isnan(line.claimed), line.epsilon, line.claimed)))
    return f"certified is up to {short(factor, 3)} times what is claimed {line.change.label}"


def _numbers(values: Sequence[float | None], missing: float) -> Floats:
    return np.array([missing if value is None else value for value in values], dtype=float)
