"""A run while it trains, and the trained model on held-out ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dpmc_core.views.training import CalibrationCurve, ErrorCdf
from pages.ui.charts import Style, Theme, figure, line, style

View = TypeVar("View")
Lines = Mapping[str, tuple[Sequence[int], Sequence[float]]]


def live(mechanism: str, lines: Lines, total: int, theme: Theme) -> go.Figure:
    """One panel per line (its rounds and values), in order; a fixed height, so nothing jumps."""
    look = style(mechanism)
    count = len(lines)
    fig = make_subplots(rows=count, cols=1, shared_xaxes=True, vertical_spacing=0.09)
    fig.update_layout(template=theme.name, height=400, showlegend=False)
    last = min(total, 10)
    for row, (name, (rounds, values)) in enumerate(lines.items(), start=1):
        fig.add_scatter(
            x=list(rounds),
            y=list(values),
            mode="lines+markers" if len(rounds) < 40 else "lines",
            line={"color": look.color, "width": 2.5},
            marker={"symbol": look.marker, "size": 6},
            hovertemplate="round %{x}: <b>%{y:.4~g}</b><extra></extra>",
            row=row,
            col=1,
        )
        fig.update_yaxes(title_text=name, row=row, col=1)
        last = max([last, *rounds])
    fig.update_xaxes(range=[0.5, last + 0.5])
    fig.update_xaxes(title_text="round", row=count, col=1)
    return fig


def _both(
    mechanism: str, name: str, private: View, clear: View | None, theme: Theme
) -> list[tuple[View, str, Style]]:
    """(view, label, look) of what is drawn, without privacy first."""
    found = [(private, name, style(mechanism)._replace(dash="solid"))]
    if clear is not None:
        found.insert(0, (clear, "no privacy", Style(theme.ink, "circle-open", "dash")))
    return found


def errors(
    mechanism: str,
    private: ErrorCdf,
    clear: ErrorCdf | None,
    name: str,
    axis: str,
    theme: Theme,
) -> go.Figure:
    """Share of held-out ratings within an error, with and without privacy."""
    fig = figure(theme, height=340)
    hover = "error up to %{x:.2f}: <b>%{y:.1%}</b> of ratings<extra></extra>"
    for view, label, look in _both(mechanism, name, private, clear, theme):
        line(fig, view.error, view.share, look, hover, mode="lines", name=label)
    fig.update_xaxes(title_text=axis)
    fig.update_yaxes(title_text="share of held-out ratings", tickformat=".0%", range=[0, 1.02])
    return fig


def calibration(
    mechanism: str,
    private: CalibrationCurve,
    clear: CalibrationCurve | None,
    name: str,
    chances: bool,
    theme: Theme,
) -> go.Figure:
    """Mean truth against mean prediction in equal groups; on the diagonal a model is honest."""
    fig = figure(theme, height=340)
    drawn = _both(mechanism, name, private, clear, theme)
    low = min(float(min(v.predicted.min(), v.observed.min())) for v, *_ in drawn)
    high = max(float(max(v.predicted.max(), v.observed.max())) for v, *_ in drawn)
    low, high = (0.0, 1.0) if chances else (low, high)
    fig.add_scatter(
        x=[low, high],
        y=[low, high],
        name="perfect",
        mode="lines",
        line={"color": theme.muted, "dash": "dot"},
        hoverinfo="skip",
    )
    hover = "predicted %{x:.2f}, true <b>%{y:.2f}</b> (%{customdata:,} ratings)<extra></extra>"
    for view, label, look in drawn:
        whole = look._replace(dash="solid")  # steps between groups, no curve
        points = {"customdata": view.size, "name": label, "width": 2}
        line(fig, view.predicted, view.observed, whole, hover, **points)
    form = {"tickformat": ".0%"} if chances else {}
    fig.update_xaxes(title_text="predicted chance of +1" if chances else "predicted rating", **form)
    fig.update_yaxes(title_text="true share of +1" if chances else "true rating", **form)
    return fig


def spectrum(
    mechanism: str,
    private: Sequence[float],
    clear: Sequence[float] | None,
    name: str,
    theme: Theme,
) -> go.Figure:
    """Singular values of the completed matrix, from large to small."""
    fig = figure(theme, height=340)
    hover = "number %{x}: <b>%{y:.4~g}</b><extra></extra>"
    for values, label, look in _both(mechanism, name, private, clear, theme):
        whole, number = look._replace(dash="solid"), range(1, len(values) + 1)
        line(fig, number, values, whole, hover, width=2, name=label)
    fig.update_xaxes(title_text="number, largest first")
    fig.update_yaxes(title_text="singular value", rangemode="tozero")
    return fig
