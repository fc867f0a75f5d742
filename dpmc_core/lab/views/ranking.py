"""Rankings under both candidate sets: 99 sampled negatives, and all unseen items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpmc_core.lab.views.lines import Picture
from dpmc_core.metrics import RANKING, Metric


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


def panels_words(panels: Sequence[Picture]) -> str:
    """Pictures of one mechanism as text: each metric's ends."""
    parts = []
    for panel in panels:
        (line, *_), text = panel.lines, panel.metric.text
        mean, epsilon = line.band.mean, line.epsilon
        parts.append(
            f"{panel.metric.panel}: {text(mean[0])} at epsilon {epsilon[0]:g}, {text(mean[-1])} at"
            f" epsilon {epsilon[-1]:g}"
        )
    return "; ".join(parts) + "."


def panels_table(panels: Sequence[Picture]) -> dict[str, list[float]]:
    """The same as columns."""
    table = {"epsilon": panels[0].lines[0].epsilon.tolist()}
    for panel in panels:
        table[panel.metric.panel] = panel.lines[0].band.mean.round(4).tolist()
    return table
