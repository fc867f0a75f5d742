"""Rankings: bars of one run and small multiples against epsilon, under both candidate sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpmc_core.lab.views.lines import ALONE, GUESSING, WITHOUT, Picture, bars
from pages.ui.charts import EPSILON_AXIS, INK, MUTED, Figure, Style, faded, figure, style


def run_bars(mechanism: str, methods: Mapping[str, Mapping[str, float]]) -> Figure:
    """Four groups of bars: HR@10 and NDCG@10 under both candidate sets; the first is the run's."""
    fig = figure(barmode="group")
    colors = [style(mechanism).color, INK, MUTED]
    patterns = ["", "/", "."]
    for k, (name, values) in enumerate(bars(methods).items()):
        fig.draw(
            "bar",
            x=[metric.panel for metric in values],
            y=list(values.values()),
            customdata=[metric.text(value) for metric, value in values.items()],
            name=name,
            marker={"color": colors[k % 3], "pattern": {"shape": patterns[k % 3]}},
            hover=f"{name}<br>%{{x}}: <b>%{{customdata}}</b><extra></extra>",
        )
    fig.y(rangemode="tozero")
    return fig


def against_epsilon(panels: Sequence[Picture], epsilon: float, *, certified: bool) -> Figure:
    """One small chart per metric, with no privacy dashed and popularity dotted."""
    fig = figure(height=520, showlegend=False)
    for k, panel in zip(fig.panels(2, 2), panels, strict=True):
        fig.name(k, panel.metric.panel)
        look, form = style(panel.lines[0].mechanism), panel.metric.form
        ends = (panel.lines[0].epsilon[0], panel.lines[0].epsilon[-1])
        looks = {WITHOUT: (INK, "dash"), **dict.fromkeys((GUESSING, ALONE), (MUTED, "dot"))}
        for name, level in panel.levels:
            if name in looks:
                text = f"{name}: {panel.metric.text(level.level.mean)}"
                fig.level(ends, level.level.mean, looks[name], text, panel=k)
        for guess in panel.guesses:
            own, hover = guess.band, f"guessing: <b>%{{y:{form}}}</b><extra></extra>"
            dots = Style(MUTED, "circle", "dot")
            fig.line(own.x, own.mean, dots, hover, width=2, mode="lines", panel=k)
        for one in reversed(panel.lines):
            over, first = one.band, one is panel.lines[0]
            fig.band(over, faded(look.color, 0.22 if first else 0.1), panel=k)
            hover = f"{one.label}<br>epsilon %{{x:g}}: <b>%{{y:{form}}}</b><extra></extra>"
            spots = fig.marker(look, solid=certified, size=7 if first else 4)
            shown = look if first else look._replace(dash="dot")
            fig.line(
                over.x, over.mean, shown, hover, width=2 if first else 1, marker=spots, panel=k
            )
        fig.x(panel=k, **EPSILON_AXIS | {"title": None})
        fig.y(panel=k, tickformat=panel.metric.ticks)
    fig.rule(epsilon)
    return fig
