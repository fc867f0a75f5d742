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
from dpmc_core.model import Task

Floats = NDArray[np.float64]

HEADLINE = {Task.BINARY: "accuracy", Task.RATINGS: "rmse", Task.RANKING: "hr@10"}
LOWER_IS_BETTER = {"rmse", "mae", "are"}


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
    metric: str
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
    metric = HEADLINE[cls.task]
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


def curve(curves: Curves, mechanism: str, metric: str) -> Curve | None:
    """The mechanism's curve, or None where no row has it."""
    found: dict[float, list[float]] = {}
    for row in curves.rows:
        if row.mechanism == mechanism and row.metric == metric and not math.isnan(row.epsilon):
            found.setdefault(row.epsilon, []).append(row.value)
    if not found:
        return None
    grid = sorted(found)
    intervals = [interval(found[epsilon]) for epsilon in grid]
    mean = np.array([i.mean for i in intervals])
    half = np.array([i.half_width for i in intervals])
    seeds = np.array([i.seeds for i in intervals], dtype=np.int64)
    return Curve(mechanism, metric, np.array(grid), mean, mean - half, mean + half, seeds)


def reference(curves: Curves, mechanism: str, metric: str) -> Interval | None:
    """The metric of a method without epsilon (the floor or the twin), or None."""
    values = [r.value for r in curves.rows if r.mechanism == mechanism and r.metric == metric]
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


def is_share(metric: str) -> bool:
    """Whether the metric is a share of ratings, shown in percent."""
    return metric.startswith(("accuracy", "hr@", "ndcg@"))


def title(metric: str) -> str:
    """A metric's name at the head of a sentence: Accuracy, RMSE, HR@10."""
    return metric.capitalize() if metric.startswith("accuracy") else metric.upper()


def spoken(metric: str) -> str:
    """The same within a sentence: accuracy, RMSE, HR@10."""
    return metric if metric.startswith("accuracy") else metric.upper()


def axis(metric: str) -> str:
    """The name of an axis of held-out quality, with the direction where smaller is better."""
    lower = " (lower is better)" if metric in LOWER_IS_BETTER else ""
    return f"{title(metric)} on held-out ratings{lower}"


def amount(metric: str, value: float) -> str:
    """A metric's value for people."""
    return f"{100 * value:.1f} %" if is_share(metric) else f"{value:.3f}"


def comparison(view: Situation) -> list[str]:
    """How far the chosen epsilon is from no privacy and from guessing, one sentence each."""
    lines = []
    for other, words in ((view.twin, "no privacy"), (view.floor, "guessing")):
        if view.here is None or other is None:
            continue
        gap = view.here.mean - other.mean
        if view.curve.metric in LOWER_IS_BETTER:
            gap = -gap
        share = is_share(view.curve.metric)
        size = f"{100 * abs(gap):.1f} points" if share else f"{abs(gap):.3f}"
        level = float(size.split()[0]) == 0
        side = "better" if gap > 0 else "worse"
        lines.append(f"**Level** with {words}" if level else f"**{size}** {side} than {words}")
    return lines


def words(view: Situation) -> str:
    """The picture as text."""
    c = view.curve
    parts = [
        f"{title(c.metric)} of {view.name} against epsilon: {amount(c.metric, c.mean[0])} at"
        f" epsilon {c.epsilon[0]:g}, {amount(c.metric, c.mean[-1])} at epsilon {c.epsilon[-1]:g}"
    ]
    if view.here is not None:
        parts.append(f"at the chosen epsilon {view.epsilon:g}: {amount(c.metric, view.here.mean)}")
    for other, name in ((view.twin, "no privacy"), (view.floor, "guessing")):
        if other is not None:
            parts.append(f"{name}: {amount(c.metric, other.mean)}")
    return "; ".join(parts) + "."


def table(view: Situation) -> dict[str, list[float]]:
    """The curve as columns."""
    c = view.curve
    return {
        "epsilon": c.epsilon.tolist(),
        f"mean {spoken(c.metric)}": c.mean.round(4).tolist(),
        "interval from": c.low.round(4).tolist(),
        "to": c.high.round(4).tolist(),
        "seeds": c.seeds.tolist(),
    }
