"""Rankings under both candidate sets: 99 sampled negatives, and all unseen items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dpmc_core.curves import Curves
from dpmc_core.metrics import RANKING, Metric
from dpmc_core.views.curves import Curve, Interval, curve, reference


class Panel(NamedTuple):
    """One metric under one candidate set, against epsilon, with its reference lines."""

    curve: Curve
    floor: Interval | None
    twin: Interval | None


def panels(curves: Curves, mechanism: str, floor: str, twin: str) -> tuple[Panel, ...]:
    """The four ranking metrics of a mechanism; empty where its curve has not been computed."""
    found = []
    for metric in RANKING:
        line = curve(curves, mechanism, metric)
        if line is not None:
            lines = (reference(curves, other, metric) for other in (floor, twin))
            found.append(Panel(line, *lines))
    return tuple(found)


def bars(methods: Mapping[str, Mapping[str, float]]) -> dict[str, dict[Metric, float]]:
    """Metrics of one run by method, in the order of the panels."""
    return {
        name: {metric: values[metric.name] for metric in RANKING if metric.name in values}
        for name, values in methods.items()
    }


def bars_words(methods: Mapping[str, Mapping[str, float]]) -> str:
    """The bars as text."""
    parts = [
        f"{name}: " + ", ".join(f"{metric.panel} {metric.text(v)}" for metric, v in values.items())
        for name, values in bars(methods).items()
    ]
    return "; ".join(parts) + "."


def panels_words(panels: tuple[Panel, ...]) -> str:
    """The panels as text: each metric's ends."""
    return (
        "; ".join(
            f"{c.metric.panel}: {c.metric.text(c.mean[0])} at epsilon {c.epsilon[0]:g},"
            f" {c.metric.text(c.mean[-1])} at epsilon {c.epsilon[-1]:g}"
            for c in (panel.curve for panel in panels)
        )
        + "."
    )


def panels_table(panels: tuple[Panel, ...]) -> dict[str, list[float]]:
    """The panels as columns."""
    table: dict[str, list[float]] = {}
    for p in panels:
        table.setdefault("epsilon", p.curve.epsilon.tolist())
        table[p.curve.metric.panel] = p.curve.mean.round(4).tolist()
    return table
