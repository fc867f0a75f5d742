"""Rankings: bars of one run and small multiples against epsilon, under both candidate sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dpmc_core.views.lines import GUESSING, WITHOUT, Picture
from dpmc_core.views.ranking import bars
from pages.ui.charts import (
    EPSILON_AXIS,
    Style,
    Theme,
    band,
    faded,
    figure,
    horizontal,
    line,
    marker,
    rule,
    style,
)


def run_bars(mechanism: str, methods: Mapping[str, Mapping[str, float]], theme: Theme) -> go.Figure:
    """Four groups of bars: HR@10 and NDCG@10 under both candidate sets; the first is the run's."""
    fig = figure(theme, barmode="group")
    colors = [style(mechanism).color, theme.ink, theme.muted]
    patterns = ["", "/", "."]
    for k, (name, values) in enumerate(bars(methods).items()):
        fig.add_bar(
            x=[metric.panel for metric in values],
            y=list(values.values()),
            customdata=[metric.text(value) for metric, value in values.items()],
            name=name,
            marker={"color": colors[k % 3], "pattern": {"shape": patterns[k % 3]}},
            hovertemplate=f"{name}<br>%{{x}}: <b>%{{customdata}}</b><extra></extra>",
        )
    fig.update_yaxes(rangemode="tozero")
    return fig


def against_epsilon(
    panels: Sequence[Picture], epsilon: float, *, certified: bool, theme: Theme
) -> go.Figure:
    """One small chart per metric, with no privacy dashed and popularity dotted."""
    titles = [panel.metric.panel for panel in panels]
    grid = make_subplots(2, 2, subplot_titles=titles, vertical_spacing=0.2)
    fig = figure(theme, height=520, showlegend=False)
    fig = go.Figure(grid).update_layout(fig.layout)
    fig.update_layout(annotations=grid.layout.annotations)
    for k, panel in enumerate(panels):
        place = {"row": k // 2 + 1, "col": k % 2 + 1}
        look, form = style(panel.lines[0].mechanism), panel.metric.form
        ends = (panel.lines[0].epsilon[0], panel.lines[0].epsilon[-1])
        looks = {WITHOUT: (theme.ink, "dash"), GUESSING: (theme.muted, "dot")}
        for name, level in panel.levels:
            if name in looks:
                text = f"{name}: {panel.metric.text(level.level.mean)}"
                horizontal(fig, ends, level.level.mean, looks[name], text, **place)
        for guess in panel.guesses:
            own, hover = guess.band, f"guessing: <b>%{{y:{form}}}</b><extra></extra>"
            dots = Style(theme.muted, "circle", "dot")
            line(fig, own.x, own.mean, dots, hover, width=2, mode="lines", **place)
        for one in reversed(panel.lines):
            over, first = one.band, one is panel.lines[0]
            band(fig, over, faded(look.color, 0.22 if first else 0.1), **place)
            hover = f"{one.label}<br>epsilon %{{x:g}}: <b>%{{y:{form}}}</b><extra></extra>"
            spots = marker(look, theme, solid=certified, size=7 if first else 4)
            shown = look if first else look._replace(dash="dot")
            line(
                fig, over.x, over.mean, shown, hover, width=2 if first else 1, marker=spots, **place
            )
        fig.update_yaxes(tickformat=panel.metric.ticks, **place)
    fig.update_xaxes(**EPSILON_AXIS | {"title": None})
    rule(fig, epsilon, theme)
    return fig
