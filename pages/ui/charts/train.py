"""A run while it trains, and the trained model on held-out ratings."""

from __future__ import annotations

from collections.abc import Sequence

from dpmc_lab.curves import training
from dpmc_lab.curves.lines import GUESSING, WITHOUT
from dpmc_lab.curves.run_card import KeptRun
from dpmc_lab.curves.training import ErrorCdf
from pages.ui.charts import LEVELS, STYLES, Figure, figure, style, wrapped

Points = Sequence[tuple[int, float]]  # round and value


def objective(mechanism: str, points: Points) -> Figure:
    """The objective by round."""
    rounds, values = zip(*points, strict=True)
    fig = figure("objective", xaxis_range=[0.5, rounds[-1] + 0.5])
    hover = "round %{x}: <b>%{y:.4~g}</b><extra></extra>"
    mode = "lines+markers" if len(points) < 40 else "lines"
    fig.line(rounds, values, style(mechanism)._replace(dash="solid"), hover, mode=mode)
    return fig


def both(first: KeptRun, second: KeptRun) -> Figure:
    """The metric of two runs by round, between their floors and what no privacy reaches."""
    metric, films = first.metric, (first.film, second.film)
    last = max(film.frames[-1].round for film in films)
    # a film's own axis was fixed before its reference was known
    ends = [end for f in films for end in training.axis(metric, f.floor, f.reference)]
    lower = ", lower is better" * metric.lower
    fig = figure(
        "both",
        xaxis_range=[0, last + 1],
        yaxis_title_text=f"{metric.title}<br>(held out{lower})",
        yaxis_range=[min(ends), max(ends)],
        yaxis_tickformat=metric.ticks,
    )
    if last < 15:
        fig.update(xaxis_dtick=1)  # no half rounds
    levels = {(film.guess, film.floor): GUESSING for film in films}
    levels |= {(film.best, film.reference): WITHOUT for film in films}
    for (name, level), kind in levels.items():
        if level is not None:
            text = f"{name}: {metric.text(level)}"
            fig.level((0, last + 1), level, LEVELS[kind], text, name=text)
    same_mechanism = first.mechanism == second.mechanism
    for run in (first, second):
        is_repeat = (
            same_mechanism and run is second
        )  # smaller or dashed, as hollow would mean: only claimed
        method_style = style(run.mechanism)._replace(dash="solid")
        points = [(f.round, f.metric) for f in run.film.frames if f.metric is not None]
        rounds, values = zip(*points, strict=True) if points else ((), ())
        fig.line(
            rounds,
            values,
            method_style._replace(dash="dash") if is_repeat else method_style,
            f"run {run.number}, round %{{x}}: <b>%{{y:{metric.form}}}</b><extra></extra>",
            name=wrapped(f"run {run.number}: {run.facts['mechanism']}"),
            marker_size=10 if is_repeat or len(points) < 3 else 6,
        )
    return fig


def errors(
    mechanism: str, private: ErrorCdf, nonprivate: ErrorCdf | None, name: str, axis: str
) -> Figure:
    """Share of held-out ratings within an error, with privacy and, drawn first, without."""
    hover = "error up to %{x:.2f}: <b>%{y:.1%}</b> of ratings<extra></extra>"
    fig = figure("errors", xaxis_title_text=axis)
    if nonprivate is not None:
        fig.line(*nonprivate, STYLES["no privacy"], hover, name="no privacy", mode="lines")
    fig.line(*private, style(mechanism)._replace(dash="solid"), hover, name=name, mode="lines")
    return fig
