"""A run while it trains, and the trained model on held-out ratings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpmc_core.lab.views import training
from dpmc_core.lab.views.run_card import KeptRun
from dpmc_core.lab.views.training import CalibrationCurve, ErrorCdf
from dpmc_core.metrics import Metric
from pages.ui.charts import INK, MUTED, Figure, Style, Values, figure, style, wrapped

Points = Sequence[tuple[int, float]]  # round and value


def _held_out(metric: Metric) -> str:
    """The name of an axis in two lines."""
    return f"{metric.title}<br>(held out{', lower is better' if metric.lower else ''})"


def objective(mechanism: str, points: Points) -> Figure:
    """The objective by round."""
    fig, look = figure(height=300), style(mechanism)._replace(dash="solid")
    hover = "round %{x}: <b>%{y:.4~g}</b><extra></extra>"
    few = {"mode": "lines+markers" if len(points) < 40 else "lines"}
    fig.line([k for k, _ in points], [value for _, value in points], look, hover, **few)
    fig.x("round", range=[0.5, points[-1][0] + 0.5])
    fig.y("objective")
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


def _learned(
    mechanism: str,
    name: str,
    hover: str,
    private: tuple[Values, Values],
    clear: tuple[Values, Values] | None,
    **more: Any,
) -> Figure:
    """Values against others, without privacy (first) and with."""
    fig = figure(height=340)
    if clear is not None:
        fig.line(*clear, Style(INK, "circle-open", "dash"), hover, name="no privacy", **more)
    fig.line(*private, style(mechanism)._replace(dash="solid"), hover, name=name, **more)
    return fig


def errors(
    mechanism: str, private: ErrorCdf, clear: ErrorCdf | None, name: str, axis: str
) -> Figure:
    """Share of held-out ratings within an error, with and without privacy."""
    hover = "error up to %{x:.2f}: <b>%{y:.1%}</b> of ratings<extra></extra>"
    fig = _learned(mechanism, name, hover, private, clear, mode="lines")
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
    hover = "predicted %{x:.2f}, true <b>%{y:.2f}</b><extra></extra>"
    fig = _learned(mechanism, name, hover, private[:2], clear and clear[:2], width=2)
    seen = [float(v) for view in (private, clear) if view for part in view[:2] for v in part]
    ends = [0.0, 1.0] if chances else [min(seen), max(seen)]
    fig.stroke(ends, ends, MUTED, dash="dot", name="perfect")
    form = {"tickformat": ".0%"} if chances else {}
    fig.x(title="predicted chance of +1" if chances else "predicted rating", **form)
    fig.y(title="true share of +1" if chances else "true rating", **form)
    return fig


def spectrum(
    mechanism: str, private: Sequence[float], clear: Sequence[float] | None, name: str
) -> Figure:
    """Singular values of the completed matrix, from large to small."""
    hover = "number %{x}: <b>%{y:.4~g}</b><extra></extra>"
    sides = (None if v is None else (range(1, len(v) + 1), v) for v in (private, clear))
    fig = _learned(mechanism, name, hover, *sides, width=2)
    fig.x(title="number, largest first")
    fig.y(title="singular value", rangemode="tozero")
    return fig
