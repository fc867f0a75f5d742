"""A run while it trains, and the trained model on held-out ratings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpmc_core.lab.views import training
from dpmc_core.lab.views.lines import GUESSING, WITHOUT
from dpmc_core.lab.views.run_card import KeptRun
from dpmc_core.lab.views.training import CalibrationCurve, ErrorCdf
from pages.ui.charts import INK, LEVELS, MUTED, Figure, Style, Values, figure, style, wrapped

Points = Sequence[tuple[int, float]]  # round and value


def objective(mechanism: str, points: Points) -> Figure:
    """The objective by round."""
    rounds, values = zip(*points, strict=True)
    fig = figure(
        height=300,
        xaxis_title_text="round",
        xaxis_range=[0.5, rounds[-1] + 0.5],
        yaxis_title_text="objective",
    )
    hover = "round %{x}: <b>%{y:.4~g}</b><extra></extra>"
    mode = "lines+markers" if len(points) < 40 else "lines"
    fig.line(rounds, values, _solid(mechanism), hover, mode=mode)
    return fig


def _solid(mechanism: str) -> Style:
    return style(mechanism)._replace(dash="solid")


def both(one: KeptRun, other: KeptRun) -> Figure:
    """The metric of two runs by round, between their floors and what no privacy reaches."""
    metric, films = one.metric, (one.film, other.film)
    last = max(film.frames[-1].round for film in films)
    # a film's own axis was fixed before its reference was known
    ends = [end for f in films for end in training.axis(metric, f.floor, f.reference)]
    lower = ", lower is better" * metric.lower
    fig = figure(
        height=340,
        xaxis_title_text="round",
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
    alike = one.mechanism == other.mechanism
    for run in (one, other):
        again = alike and run is other  # smaller or dashed, as hollow would mean: only claimed
        look = _solid(run.mechanism)
        seen = [(f.round, f.metric) for f in run.film.frames if f.metric is not None]
        rounds, values = zip(*seen, strict=True) if seen else ((), ())
        fig.line(
            rounds,
            values,
            look._replace(dash="dash") if again else look,
            f"run {run.number}, round %{{x}}: <b>%{{y:{metric.form}}}</b><extra></extra>",
            name=wrapped(f"run {run.number}: {run.facts['mechanism']}"),
            marker_size=10 if again or len(seen) < 3 else 6,
        )
    return fig


def _learned(
    mechanism: str,
    name: str,
    hover: str,
    sides: Sequence[tuple[Values, Values] | None],
    mode: str = "lines+markers",
    **layout: Any,
) -> Figure:
    """Values against others, with privacy and, drawn first, without."""
    fig = figure(height=340, **layout)
    looks = (_solid(mechanism), name), (Style(INK, "circle-open", "dash"), "no privacy")
    for side, (look, text) in list(zip(sides, looks, strict=True))[::-1]:
        if side is not None:
            fig.line(*side, look, hover, name=text, mode=mode)
    return fig


def errors(
    mechanism: str, private: ErrorCdf, clear: ErrorCdf | None, name: str, axis: str
) -> Figure:
    """Share of held-out ratings within an error, with and without privacy."""
    return _learned(
        mechanism,
        name,
        "error up to %{x:.2f}: <b>%{y:.1%}</b> of ratings<extra></extra>",
        (private, clear),
        "lines",
        xaxis_title_text=axis,
        yaxis_title_text="share of held-out ratings",
        yaxis_tickformat=".0%",
        yaxis_range=[0, 1.02],
    )


def calibration(
    mechanism: str,
    private: CalibrationCurve,
    clear: CalibrationCurve | None,
    name: str,
    chances: bool,
) -> Figure:
    """Mean truth against mean prediction in equal groups; on the diagonal a model is honest."""
    form = ".0%" if chances else None
    fig = _learned(
        mechanism,
        name,
        "predicted %{x:.2f}, true <b>%{y:.2f}</b><extra></extra>",
        (private[:2], clear and clear[:2]),
        xaxis_title_text="predicted chance of +1" if chances else "predicted rating",
        xaxis_tickformat=form,
        yaxis_title_text="true share of +1" if chances else "true rating",
        yaxis_tickformat=form,
    )
    seen = [float(v) for view in (private, clear) if view for part in view[:2] for v in part]
    ends = [0.0, 1.0] if chances else [min(seen), max(seen)]
    fig.stroke(ends, ends, MUTED, line_dash="dot", name="perfect")
    return fig


def spectrum(
    mechanism: str, private: Sequence[float], clear: Sequence[float] | None, name: str
) -> Figure:
    """Singular values of the completed matrix, from large to small."""
    return _learned(
        mechanism,
        name,
        "number %{x}: <b>%{y:.4~g}</b><extra></extra>",
        [None if v is None else (range(1, len(v) + 1), v) for v in (private, clear)],
        xaxis_title_text="number, largest first",
        yaxis_title_text="singular value",
        yaxis_rangemode="tozero",
    )
