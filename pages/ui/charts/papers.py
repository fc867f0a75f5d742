"""An experiment of a paper on the paper's axes: our curves, what is printed laid over them."""

from __future__ import annotations

import textwrap

import numpy as np

from dpmc_lab.curves import svg
from dpmc_lab.curves.lines import Band
from dpmc_lab.papers import views
from dpmc_lab.papers.engine import Axis, Series
from dpmc_lab.papers.views import Look
from pages.ui.charts import INK, LOG, MUTED, Figure, Style, Theme, faded, figure, shaded

_LINE = 52  # letters that stand beside the axis, one above the other


def looks(found: Look) -> dict[str, Style]:
    """How each curve is drawn, by its label, with the colours of this surface."""
    own = {views.OPEN.color: INK, views.GUESS.color: MUTED}
    return {
        label: look._replace(color=own.get(look.color, look.color))
        for label, look in views.looks(found).items()
    }


def legend(found: Look, theme: Theme) -> str:
    """What each curve is, above the chart: in it a long one would leave no room on a phone."""
    drawn = {
        label: look._replace(color=shaded(look.color, theme))
        for label, look in looks(found).items()
    }
    return svg.legend(views.keys(found, drawn))


def experiment(found: Look) -> Figure:
    """Our curves with their bands; what is printed as hollow marks with the error of reading."""
    one, fig = found.experiment, figure("experiment")
    drawn = looks(found)
    for curve in found.series:
        _curve(fig, curve, drawn[curve.label], one.y)
    for over in found.ranges:
        ends = map(np.array, (over.x, over.mean, over.low, over.high, over.seeds))
        fig.band(Band(*ends), faded(drawn[over.label].color, 0.1))
    for label in dict.fromkeys(p.series for p in one.printed):
        _printed(fig, found, label, drawn[label])
    sides = (views.titles(found), (one.x, one.y), views.spans(found), ("xaxis", "yaxis"))
    for title, axis, over, name in zip(*sides, strict=True):
        scale = LOG | {"tickvals": list(over.ticks)} if axis.log else {}
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
        name=curve.label,
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
        name=f"{label}, printed",
    )
    error = {"type": "data", "array": [p.error for p in mine], "color": look.color}
    fig.data[-1]["error_y"] = error
