"""An experiment of a paper on the paper's axes: our curves, what is printed laid over them."""

from __future__ import annotations

import numpy as np

from dpmc_core.papers import picture
from dpmc_core.papers.frame import Axis, Made, Series
from dpmc_core.papers.words import Look
from dpmc_core.views.lines import Band
from pages.ui.charts import Figure, Style, Theme, band, faded, figure, line, ticks

HEIGHT = 420
_MANY = 40  # points, beyond which a curve has no markers


def experiment(found: Look, theme: Theme) -> Figure:
    """Our curves with their bands; what is printed as hollow marks with the error of reading."""
    one, fig = found.experiment, figure(theme, height=HEIGHT)
    looks = {
        label: look._replace(color=theme.muted) if look.color == "currentColor" else look
        for label, look in picture.looks(found).items()
    }
    for curve in found.made.series if found.made is not None else ():
        _curve(fig, curve, looks[curve.label])
    for label in dict.fromkeys(p.series for p in one.printed):
        _printed(fig, found, label, looks[label], theme)
    _axes(fig, one.x, one.y, found.made)
    return fig


def _axes(fig: Figure, x: Axis, y: Axis, made: Made | None) -> None:
    for axis, say in ((x, fig.x), (y, fig.y)):
        say(axis.title, **({"type": "log"} if axis.log else {}))
    here = sorted({at for curve in made.series for at in curve.x}) if made else []
    if x.log and 2 <= len(here) <= 8:
        fig.x(**ticks(here))


def _curve(fig: Figure, curve: Series, look: Style) -> None:
    grid = [np.array(part) for part in (curve.x, curve.mean, curve.low, curve.high, curve.seeds)]
    band(fig, Band(*grid), faded(look.color, 0.16), showlegend=False)
    line(
        fig,
        curve.x,
        curve.mean,
        look,
        f"{curve.label}<br>%{{x:.4g}}<br><b>%{{y:.4g}}</b>, band %{{customdata[0]:.4g}} to"
        " %{customdata[1]:.4g}<extra></extra>",
        name=curve.label,
        mode="lines" if curve.level or len(curve.x) > _MANY else "lines+markers",
        customdata=[list(ends) for ends in zip(curve.low, curve.high, strict=True)],
    )


def _printed(fig: Figure, found: Look, label: str, look: Style, theme: Theme) -> None:
    """Hollow, whatever is proved: the legend says what it stands for."""
    mine = [p for p in found.experiment.printed if p.series == label]
    fig.draw(
        "scatter",
        x=[p.x for p in mine],
        y=[p.value for p in mine],
        mode="markers",
        marker={
            "symbol": look.marker,
            "size": 11,
            "color": theme.paper,
            "line": {"color": look.color, "width": 2},
        },
        error_y={"type": "data", "array": [p.error for p in mine], "color": look.color},
        name=f"{label}, printed",
        hovertemplate=f"{label}, printed<br>%{{x:.4g}}<br><b>%{{y:.4g}}</b><extra></extra>",
    )
