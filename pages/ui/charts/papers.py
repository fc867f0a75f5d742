"""An experiment of a paper on the paper's axes: our curves, what is printed laid over them."""

from __future__ import annotations

import textwrap

import numpy as np

from dpmc_lab.curves.lines import Band
from dpmc_lab.papers import views
from dpmc_lab.papers.engine import Axis, Series
from dpmc_lab.papers.views import Look
from pages.ui.charts import INK, LOG, MUTED, Figure, Style, faded, figure, wrapped

_FRAME, _ROW = 360, 21  # pixels of the frame with its axes, and of a row of the legend
_LINE = 52  # letters that stand beside the axis, one above the other


def looks(found: Look) -> dict[str, Style]:
    """How each curve is drawn, by its label, with the colours of this surface."""
    own = {views.OPEN.color: INK, views.GUESS.color: MUTED}
    return {
        label: look._replace(color=own.get(look.color, look.color))
        for label, look in views.looks(found).items()
    }


def experiment(found: Look) -> Figure:
    """Our curves with their bands; what is printed as hollow marks with the error of reading."""
    one, drawn = found.experiment, looks(found)
    # A name may take a row of the legend, above a frame of the same height.
    fig = figure("experiment", height=_FRAME + _ROW * len(drawn))
    for curve in found.series:
        _curve(fig, curve, drawn[curve.label], one.y)
    for over in found.ranges:
        ends = map(np.array, (over.x, over.mean, over.low, over.high, over.seeds))
        fig.band(Band(*ends), faded(drawn[over.label].color, 0.1))
    for label in dict.fromkeys(p.series for p in one.printed):
        _printed(fig, found, label, drawn[label])
    sides = (views.titles(found), (one.x, one.y), ("xaxis", "yaxis"))
    for title, axis, name in zip(*sides, strict=True):
        # On two decades or fewer 2 and 5 have labels too.
        scale = {"type": "log", "tickformat": LOG["tickformat"], "nticks": 4} if axis.log else {}
        fig.update(**{name: scale | {"title_text": "<br>".join(textwrap.wrap(title, _LINE))}})
    return fig


def _curve(fig: Figure, curve: Series, look: Style, y: Axis) -> None:
    grid = [np.array(part) for part in (curve.x, curve.mean, curve.low, curve.high, curve.seeds)]
    if y.log:  # which has no place for what is not above 0
        grid[2] = np.maximum(grid[2], grid[1] / 1000)
    fig.curve(
        Band(*grid),
        look,
        f"{curve.label}<br>%{{x:.4g}}<br><b>%{{y:.4g}}</b>, band %{{customdata[0]:.4g}} to"
        " %{customdata[1]:.4g}<extra></extra>",
        name=wrapped(curve.label),
        mode="lines+markers" if views.marked(curve) else "lines",
        customdata=[list(ends) for ends in zip(curve.low, curve.high, strict=True)],
    )


def _printed(fig: Figure, found: Look, label: str, look: Style) -> None:
    """Hollow, whatever is proved: the legend says what it stands for."""
    mine = [p for p in found.experiment.printed if p.series == label]
    fig.dots(
        [p.x for p in mine],
        [p.value for p in mine],
        fig.marker(look, solid=False, size=8),
        hover=f"{label}, printed<br>%{{x:.4g}}<br><b>%{{y:.4g}}</b><extra></extra>",
        name=wrapped(f"{label}, printed"),
        showlegend=label not in views.curves(found),
    )
    error = {"type": "data", "array": [p.error for p in mine], "color": look.color}
    fig.data[-1]["error_y"] = error
