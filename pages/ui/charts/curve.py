"""Describe the lower chart of What if, and draw rankings under both candidate sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views.lines import Curve, CurveChart, Role, select_ranking_metrics
from pages.ui import sentences
from pages.ui.charts import BASELINE, INK, USEFULNESS, Figure, create_figure
from pages.ui.charts.lines import choose_ticks

Span = tuple[float, float]
Values = Sequence[float | None]


class Usefulness(NamedTuple):
    """The lower chart of What if.

    Attributes:
        axis: the worst and the best value on it.
        ticks: values with their texts.
        levels: the nonprivate method and the baseline: role, name, and a value for each stop.
    """

    axis: Span
    ticks: list[tuple[float, str]]
    levels: list[tuple[Role, str, Values]]

    @classmethod
    def from_line(cls, chart: CurveChart, line: Curve) -> Usefulness:
        """Collect what is drawn.

        The axis covers the baseline and the nonprivate method, and of the curve what lies less than
        half of their distance beyond them. In it up is better.
        """
        metric, baseline_id = chart.metric, chart.baseline_id(line)
        curves = [chart.nonprivate_reference]
        if baseline_id != line.mechanism:
            curves += [curve for curve in chart.endpoints if curve.mechanism == baseline_id][:1]
        levels = [
            (
                curve.role,
                "without privacy"
                if curve.role is Role.NO_PRIVACY
                else sentences.name_baseline(baseline_id, short=True),
                [point and point.mean for point in map(curve.interval_at, EPSILONS)],
            )
            for curve in curves
            if curve is not None
        ]
        mean_values = line.band.mean.tolist()
        ends = [value for *_, values in levels for value in values if value is not None]
        if len(levels) < 2:
            ends += mean_values
        room = (max(ends) - min(ends) or 0.1) / 2
        values = np.clip([*ends, *mean_values], min(ends) - room, max(ends) + room)
        margin = 0.08 * float(np.ptp(values))
        low, high = float(values.min()) - margin, float(values.max()) + margin
        return cls(
            (high, low) if metric.lower_is_better else (low, high),
            choose_ticks((low, high), is_share=metric.is_share),
            levels,
        )


# --- rankings: under both candidate sets ---------------------------------------------------------


def plot_ranking_bars(methods: Mapping[str, Mapping[str, float]]) -> Figure:
    """Plot four groups of bars: HR@10 and NDCG@10 under both candidate sets, the run's first."""
    fig = create_figure("run_bars")
    bar_styles = ((USEFULNESS, ""), (INK, "/"), (BASELINE, "."))
    for k, (name, values) in enumerate(select_ranking_metrics(methods).items()):
        fig.add_trace(
            "bars",
            x=[metric.panel_title for metric in values],
            y=list(values.values()),
            text=[f"{name} {metric.format_value(value)}" for metric, value in values.items()],
            name=name,
            marker_color=bar_styles[k % 3][0],
            marker_pattern_shape=bar_styles[k % 3][1],
            hover="%{x}: <b>%{text}</b><extra></extra>",
        )
    return fig
