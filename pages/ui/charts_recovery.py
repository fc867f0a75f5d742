"""Pictures of recovery bounds: what a theorem allows beside what was measured."""

from __future__ import annotations

import plotly.graph_objects as go

from dpmc_core.views.recovery import RecoveryBounds
from pages.ui.charts import EPSILON_AXIS, Style, Theme, figure, rule, style, ticks

_POWERS = [10.0**k for k in range(8)]
_SECOND = Style("#d55e00", "x", "8px,3px")


def residual(mechanism: str, view: RecoveryBounds, epsilon: float, theme: Theme) -> go.Figure:
    """Distance of the reports from the truth: measured, by moments, by Theorem 3."""
    own = style(mechanism)
    fig = figure(theme, height=340)
    _line(fig, view.epsilon, view.theorem, "Theorem 3 allows", theme.muted, "dot", "line-ns-open")
    _line(fig, view.epsilon, view.moments, "by the moments", theme.ink, "dash", "circle-open")
    _line(fig, view.epsilon, view.rho, "measured", own.color, "solid", own.marker)
    return _axes(fig, "residual at the truth", epsilon, theme)


def error(mechanism: str, view: RecoveryBounds, epsilon: float, theme: Theme) -> go.Figure:
    """Distance of both recoveries from the truth, and what Equation 5 allows."""
    own = style(mechanism)
    fig = figure(theme, height=340)
    _line(fig, view.epsilon, view.equation_5, "Equation 5", theme.muted, "dot", "line-ns-open")
    second = _SECOND
    _line(fig, view.epsilon, view.naive, "as they come", second.color, second.dash, second.marker)
    _line(fig, view.epsilon, view.debiased, "allowing for spurious", own.color, "solid", own.marker)
    return _axes(fig, "error of the recovery", epsilon, theme)


def _line(fig: go.Figure, x, y, name: str, color: str, dash: str, marker: str) -> None:
    fig.add_scatter(
        x=x,
        y=y,
        name=name,
        mode="lines+markers",
        line={"color": color, "dash": dash, "width": 2.5},
        marker={"symbol": marker, "size": 8},
        hovertemplate=f"{name}<br>epsilon %{{x:g}}: <b>%{{y:.3g}}</b><extra></extra>",
    )


def _axes(fig: go.Figure, title: str, epsilon: float, theme: Theme) -> go.Figure:
    rule(fig, epsilon, theme)
    fig.update_xaxes(**EPSILON_AXIS)
    fig.update_yaxes(type="log", title_text=title, **ticks(_POWERS))
    return fig
