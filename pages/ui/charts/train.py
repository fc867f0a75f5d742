"""A run while it trains, and the trained model on held-out ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from dpmc_core.views.training import CalibrationCurve, ErrorCdf
from pages.ui.charts import Figure, Style, Theme, figure, line, style

View = TypeVar("View")
Lines = Mapping[str, tuple[Sequence[int], Sequence[float]]]


def live(mechanism: str, lines: Lines, total: int, theme: Theme) -> Figure:
    """One panel per line (its rounds and values), in order; a fixed height, so nothing jumps."""
    look = style(mechanism)
    count = len(lines)
    fig = figure(theme, height=400, showlegend=False)
    panels = fig.panels(count, 1, down=0.09)
    last = min(total, 10)
    for k, (name, (rounds, values)) in zip(panels, lines.items(), strict=True):
        fig.draw(
            "scatter",
            x=list(rounds),
            y=list(values),
            mode="lines+markers" if len(rounds) < 40 else "lines",
            line={"color": look.color, "width": 2.5},
            marker={"symbol": look.marker, "size": 6},
            hovertemplate="round %{x}: <b>%{y:.4~g}</b><extra></extra>",
            panel=k,
        )
        fig.y(name, panel=k)
        last = max([last, *rounds])
    for k in panels:
        fig.x(panel=k, range=[0.5, last + 0.5])
        if k < count:
            fig.x(panel=k, matches=f"x{count}", showticklabels=False)
    fig.x("round", panel=count)
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
) -> Figure:
    """Share of held-out ratings within an error, with and without privacy."""
    fig = figure(theme, height=340)
    hover = "error up to %{x:.2f}: <b>%{y:.1%}</b> of ratings<extra></extra>"
    for view, label, look in _both(mechanism, name, private, clear, theme):
        line(fig, view.error, view.share, look, hover, mode="lines", name=label)
    fig.x(title=axis)
    fig.y(title="share of held-out ratings", tickformat=".0%", range=[0, 1.02])
    return fig


def calibration(
    mechanism: str,
    private: CalibrationCurve,
    clear: CalibrationCurve | None,
    name: str,
    chances: bool,
    theme: Theme,
) -> Figure:
    """Mean truth against mean prediction in equal groups; on the diagonal a model is honest."""
    fig = figure(theme, height=340)
    drawn = _both(mechanism, name, private, clear, theme)
    low = min(float(min(v.predicted.min(), v.observed.min())) for v, *_ in drawn)
    high = max(float(max(v.predicted.max(), v.observed.max())) for v, *_ in drawn)
    low, high = (0.0, 1.0) if chances else (low, high)
    fig.draw(
        "scatter",
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
    fig.x(title="predicted chance of +1" if chances else "predicted rating", **form)
    fig.y(title="true share of +1" if chances else "true rating", **form)
    return fig


def spectrum(
    mechanism: str,
    private: Sequence[float],
    clear: Sequence[float] | None,
    name: str,
    theme: Theme,
) -> Figure:
    """Singular values of the completed matrix, from large to small."""
    fig = figure(theme, height=340)
    hover = "number %{x}: <b>%{y:.4~g}</b><extra></extra>"
    for values, label, look in _both(mechanism, name, private, clear, theme):
        whole, number = look._replace(dash="solid"), range(1, len(values) + 1)
        line(fig, number, values, whole, hover, width=2, name=label)
    fig.x(title="number, largest first")
    fig.y(title="singular value", rangemode="tozero")
    return fig
