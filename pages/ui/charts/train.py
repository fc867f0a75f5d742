"""A run while it trains, and the trained model on held-out ratings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dpmc_core.lab.views import training
from dpmc_core.lab.views.run_card import KeptRun
from dpmc_core.lab.views.training import CalibrationCurve, ErrorCdf
from dpmc_core.metrics import Metric
from pages.ui.charts import INK, MUTED, Figure, Style, figure, style, wrapped

View = TypeVar("View")
Points = Sequence[tuple[int, float]]  # round and value


def _held_out(metric: Metric) -> str:
    """The name of an axis in two lines."""
    return f"{metric.title}<br>(held out{', lower is better' if metric.lower else ''})"


def rounds(
    mechanism: str,
    objective: Points,
    quality: Points,
    metric: Metric,
    axis: tuple[float, float],
) -> Figure:
    """Objective and held-out metric by round, a panel for each that there is."""
    look = style(mechanism)
    free = {"title": "objective"}
    fixed = {"title": _held_out(metric), "range": list(axis), "tickformat": metric.ticks}
    shown = [(objective, ".4~g", free), (quality, metric.form, fixed)]
    shown = [(points, form, up) for points, form, up in shown if points]
    fig = figure(height=400, showlegend=False)
    panels = fig.panels(len(shown), 1, down=0.09)
    last = max(k for points, *_ in shown for k, _ in points)
    for panel, (points, form, up) in zip(panels, shown, strict=True):
        fig.draw(
            "scatter",
            x=[k for k, _ in points],
            y=[value for _, value in points],
            mode="lines+markers" if len(points) < 40 else "lines",
            line={"color": look.color, "width": 2.5},
            marker={"symbol": look.marker, "size": 6},
            hover=f"round %{{x}}: <b>%{{y:{form}}}</b><extra></extra>",
            panel=panel,
        )
        fig.y(**up, panel=panel)
        fig.x(panel=panel, range=[0.5, last + 0.5])
        if panel < len(shown):
            fig.x(panel=panel, matches=f"x{len(shown)}", showticklabels=False)
    fig.x("round", panel=len(shown))
    return fig


def both(one: KeptRun, other: KeptRun) -> Figure:
    """The metric of two runs by round, between their floors and what no privacy reaches."""
    metric, films = one.metric, (one.film, other.film)
    last = max(film.frames[-1].round for film in films)
    # a film's own axis was fixed before its reference was known
    ends = [end for f in films for end in training.axis(metric, f.floor, f.reference)]
    fig = figure(height=340)
    levels = {(film.guess, film.floor): (MUTED, "dot") for film in films}
    levels |= {(film.best, film.reference): (INK, "dash") for film in films}
    for (name, level), look in levels.items():
        if level is not None:
            text = f"{name}: {metric.text(level)}"
            fig.level((0, last + 1), level, look, text, name=text)
    alike = one.mechanism == other.mechanism
    for run, dash in ((one, "solid"), (other, "dash" if alike else "solid")):
        look = style(run.mechanism)._replace(dash=dash)
        hover = f"run {run.number}, round %{{x}}: <b>%{{y:{metric.form}}}</b><extra></extra>"
        name = wrapped(f"run {run.number}: {run.facts['mechanism']}")
        seen = [f for f in run.film.frames if f.metric is not None]
        large = len(seen) < 3 or (alike and run is other)  # hollow would mean: only claimed
        size = {"symbol": look.marker, "size": 10 if large else 6}
        fig.line(
            [f.round for f in seen],
            [f.metric for f in seen if f.metric is not None],
            look,
            hover,
            name=name,
            marker=size,
        )
    fig.x("round", range=[0, last + 1], **({"dtick": 1} if last < 15 else {}))  # no half rounds
    fig.y(_held_out(metric), range=[min(ends), max(ends)], tickformat=metric.ticks)
    return fig


def _both(
    mechanism: str, name: str, private: View, clear: View | None
) -> list[tuple[View, str, Style]]:
    """(view, label, look) of what is drawn, without privacy first."""
    found = [(private, name, style(mechanism)._replace(dash="solid"))]
    if clear is not None:
        found.insert(0, (clear, "no privacy", Style(INK, "circle-open", "dash")))
    return found


def errors(
    mechanism: str,
    private: ErrorCdf,
    clear: ErrorCdf | None,
    name: str,
    axis: str,
) -> Figure:
    """Share of held-out ratings within an error, with and without privacy."""
    fig = figure(height=340)
    hover = "error up to %{x:.2f}: <b>%{y:.1%}</b> of ratings<extra></extra>"
    for view, label, look in _both(mechanism, name, private, clear):
        fig.line(view.error, view.share, look, hover, mode="lines", name=label)
    fig.x(title=axis)
    fig.y(title="share of held-out ratings", tickformat=".0%", range=[0, 1.02])
    return fig


def calibration(
    mechanism: str,
    private: CalibrationCurve,
    clear: CalibrationCurve | None,
    name: str,
    chances: bool,
) -> Figure:
    """Mean truth against mean prediction in equal groups; on the diagonal a model is honest."""
    fig = figure(height=340)
    drawn = _both(mechanism, name, private, clear)
    low = min(float(min(v.predicted.min(), v.observed.min())) for v, *_ in drawn)
    high = max(float(max(v.predicted.max(), v.observed.max())) for v, *_ in drawn)
    low, high = (0.0, 1.0) if chances else (low, high)
    fig.draw(
        "scatter",
        x=[low, high],
        y=[low, high],
        name="perfect",
        mode="lines",
        line={"color": MUTED, "dash": "dot"},
    )
    hover = "predicted %{x:.2f}, true <b>%{y:.2f}</b> (%{customdata:,} ratings)<extra></extra>"
    for view, label, look in drawn:
        whole = look._replace(dash="solid")  # steps between groups, no curve
        points = {"customdata": view.size, "name": label, "width": 2}
        fig.line(view.predicted, view.observed, whole, hover, **points)
    form = {"tickformat": ".0%"} if chances else {}
    fig.x(title="predicted chance of +1" if chances else "predicted rating", **form)
    fig.y(title="true share of +1" if chances else "true rating", **form)
    return fig


def spectrum(
    mechanism: str,
    private: Sequence[float],
    clear: Sequence[float] | None,
    name: str,
) -> Figure:
    """Singular values of the completed matrix, from large to small."""
    fig = figure(height=340)
    hover = "number %{x}: <b>%{y:.4~g}</b><extra></extra>"
    for values, label, look in _both(mechanism, name, private, clear):
        whole, number = look._replace(dash="solid"), range(1, len(values) + 1)
        fig.line(number, values, whole, hover, width=2, name=label)
    fig.x(title="number, largest first")
    fig.y(title="singular value", rangemode="tozero")
    return fig
