"""The accuracy-epsilon picture: means over seeds with their bands, and the two reference lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from dpmc_core import registry
from dpmc_core.curves import Curves
from dpmc_core.errors import DpmcError
from dpmc_core.metrics import Metric, headline

Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """A mean over seeds with its 95 % t interval (half width 0 for a single seed)."""

    mean: float
    half_width: float
    seeds: int


class Curve(NamedTuple):
    """A metric on a grid of epsilons with 95 % t intervals of the mean.

    seeds: how many each mean rests on; where it is one, the interval is the mean itself.
    """

    mechanism: str
    metric: Metric
    epsilon: Floats
    mean: Floats
    low: Floats
    high: Floats
    seeds: NDArray[np.int64]


class Situation(NamedTuple):
    """A curve looked at from one epsilon. here, floor, twin: None where not computed."""

    name: str
    curve: Curve
    epsilon: float
    here: Interval | None
    floor: Interval | None
    twin: Interval | None


def situation(curves: Curves, mechanism: str, epsilon: float) -> Situation:
    """Where an epsilon stands on a mechanism's curve. Raises DpmcError where it has no row."""
    cls = registry.get(mechanism)
    metric = headline(cls.task)
    view = curve(curves, mechanism, metric)
    if view is None:
        raise DpmcError(f"the curve of {cls.name} has not been computed")
    return Situation(
        cls.name,
        view,
        epsilon,
        at(view, epsilon),
        reference(curves, cls.floor, metric),
        reference(curves, cls.twin, metric),
    )


def curve(curves: Curves, mechanism: str, metric: Metric) -> Curve | None:
    """The mechanism's curve, or None where no row has it."""
    found: dict[float, list[float]] = {}
    for row in curves.rows:
        if row.mechanism == mechanism and row.metric == metric.name and not math.isnan(row.epsilon):
            found.setdefault(row.epsilon, []).append(row.value)
    if not found:
        return None
    grid = sorted(found)
    intervals = [interval(found[epsilon]) for epsilon in grid]
    mean = np.array([i.mean for i in intervals])
    half = np.array([i.half_width for i in intervals])
    seeds = np.array([i.seeds for i in intervals], dtype=np.int64)
    return Curve(mechanism, metric, np.array(grid), mean, mean - half, mean + half, seeds)


def reference(curves: Curves, mechanism: str, metric: Metric) -> Interval | None:
    """The metric of a method without epsilon (the floor or the twin), or None."""
    values = [r.value for r in curves.rows if r.mechanism == mechanism and r.metric == metric.name]
    return interval(values) if values else None


def at(curve: Curve, epsilon: float) -> Interval | None:
    """The curve at a computed epsilon; None elsewhere: values are never interpolated."""
    near = np.flatnonzero(np.isclose(curve.epsilon, epsilon, rtol=1e-9))
    if not len(near):
        return None
    k = int(near[0])
    return Interval(float(curve.mean[k]), float(curve.high[k] - curve.mean[k]), int(curve.seeds[k]))


def interval(values: Sequence[float]) -> Interval:
    """Mean and half width of the 95 % t interval."""
    n = len(values)
    mean = float(np.mean(values))
    if n < 2:
        return Interval(mean, 0.0, n)
    half = float(stdtrit(n - 1, 0.975)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return Interval(mean, half, n)


def comparison(view: Situation) -> list[str]:
    """How far the chosen epsilon is from no privacy and from guessing, one sentence each."""
    lines = []
    for other, words in ((view.twin, "no privacy"), (view.floor, "guessing")):
        if view.here is None or other is None:
            continue
        gap = view.curve.metric.sign * (view.here.mean - other.mean)
        size = view.curve.metric.distance(gap)
        side = "better" if gap > 0 else "worse"
        lines.append(f"**{size}** {side} than {words}" if size else f"**Level** with {words}")
    return lines


def words(view: Situation) -> str:
    """The picture as text."""
    c = view.curve
    parts = [
        f"{c.metric.title} of {view.name} against epsilon: {c.metric.text(c.mean[0])} at"
        f" epsilon {c.epsilon[0]:g}, {c.metric.text(c.mean[-1])} at epsilon {c.epsilon[-1]:g}"
    ]
    if view.here is not None:
        parts.append(f"at the chosen epsilon {view.epsilon:g}: {c.metric.text(view.here.mean)}")
    for other, name in ((view.twin, "no privacy"), (view.floor, "guessing")):
        if other is not None:
            parts.append(f"{name}: {c.metric.text(other.mean)}")
    return "; ".join(parts) + "."


def table(view: Situation) -> dict[str, list[float]]:
    """The curve as columns."""
    c = view.curve
    return {
        "epsilon": c.epsilon.tolist(),
        f"mean {c.metric.spoken}": c.mean.round(4).tolist(),
        "interval from": c.low.round(4).tolist(),
        "to": c.high.round(4).tolist(),
        "seeds": c.seeds.tolist(),
    }
