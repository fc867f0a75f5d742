"""Rankings under both candidate sets: 99 sampled negatives, and all unseen items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dpmc_core.curves import Curves
from dpmc_core.views.curves import Curve, Interval, curve, reference

CANDIDATES = {"": "99 sampled negatives", "_full": "all unseen items"}
METRICS = tuple(f"{metric}{ending}" for ending in CANDIDATES for metric in ("hr@10", "ndcg@10"))


class Panel(NamedTuple):
    """One metric under one candidate set, against epsilon, with its reference lines."""

    title: str
    curve: Curve
    floor: Interval | None
    twin: Interval | None


def title(metric: str) -> str:
    """A metric's name with its candidates in words."""
    plain, _, full = metric.partition("_")
    return f"{plain.upper()}, {CANDIDATES['_full' if full else '']}"


def panels(curves: Curves, mechanism: str, floor: str, twin: str) -> tuple[Panel, ...]:
    """The four ranking metrics of a mechanism; empty where its curve has not been computed."""
    found = []
    for metric in METRICS:
        line = curve(curves, mechanism, metric)
        if line is not None:
            lines = (reference(curves, other, metric) for other in (floor, twin))
            found.append(Panel(title(metric), line, *lines))
    return tuple(found)


def bars(methods: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Metrics of one run by method, in the order of METRICS, under their titles."""
    return {
        name: {title(metric): values[metric] for metric in METRICS if metric in values}
        for name, values in methods.items()
    }


def bars_words(methods: Mapping[str, Mapping[str, float]]) -> str:
    """The bars as text."""
    parts = []
    for name, values in bars(methods).items():
        parts.append(
            f"{name}: " + ", ".join(f"{label} {100 * v:.1f} %" for label, v in values.items())
        )
    return "; ".join(parts) + "."


def panels_words(panels: tuple[Panel, ...]) -> str:
    """The panels as text: each metric's ends."""
    return (
        "; ".join(
            f"{p.title}: {100 * p.curve.mean[0]:.1f} % at epsilon {p.curve.epsilon[0]:g},"
            f" {100 * p.curve.mean[-1]:.1f} % at epsilon {p.curve.epsilon[-1]:g}"
            for p in panels
        )
        + "."
    )


def panels_table(panels: tuple[Panel, ...]) -> dict[str, list[float]]:
    """The panels as columns."""
    table: dict[str, list[float]] = {}
    for p in panels:
        table.setdefault("epsilon", p.curve.epsilon.tolist())
        table[p.title] = p.curve.mean.round(4).tolist()
    return table
