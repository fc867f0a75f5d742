"""Several mechanisms in one picture: a metric against epsilon, with bands over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpmc_core import registry
from dpmc_core.views.comparison import isotonic
from dpmc_core.views.lines import (
    ENVELOPE,
    GUESSING,
    WITHOUT,
    Band,
    Envelope,
    Picture,
    Placed,
    envelope,
)
from pages.ui.charts import (
    EPSILON_AXIS,
    LIGHT,
    LONG_LEGEND,
    Figure,
    Room,
    Theme,
    band,
    faded,
    figure,
    horizontal,
    line,
    marker,
    powers,
    style,
    wrapped,
)

HEIGHT = 480
_LABEL = 0.06  # height of a line's name, as a share of the axis on a phone
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of the axis: it seldom moves while rows arrive


def compare(
    picture: Picture,
    placed: Sequence[Placed],
    ends: tuple[float, float],
    theme: Theme = LIGHT,
    waiting: Sequence[str] = (),
    guesses: Sequence[Placed] = (),
) -> Figure:
    """Markers are solid where an epsilon is certified in the unit of the axis, else hollow.

    placed, guesses: the lines of the picture. ends: epsilons that always have room, and waiting:
    mechanisms without a point yet, so that the picture stands still while it fills.
    """
    # on a phone the legend is a column, and takes its room from the picture
    named = [*placed, *waiting, *guesses, *picture.twins]
    fig = figure(theme, height=HEIGHT + 20 * len(named), legend=LONG_LEGEND)
    low, high = _axis(ends, [*placed, *guesses])
    bands = [one.band for one in placed]
    reach = [float(v) for over in bands for v in (*over.low, *over.high)]
    reach += [level.level.mean for _, level in picture.levels]
    reach += [float(v) for one in guesses for v in one.band.mean]
    up = _round_range(reach)
    drawn = {one.line.mechanism for one in placed}
    room = Room((math.log10(low), math.log10(high)), up)
    for one in (*placed, *guesses):
        room.line(np.log10(one.x), one.band.mean)
    _levels(fig, picture, [*drawn, *waiting], (low, high), (up[0], up[1]), room, theme)
    best = envelope(placed)
    if best is not None:
        _envelope(fig, best, picture.metric.form, theme)
    for one in guesses:
        # several of them, each beside other methods, are told apart by their own colours
        color = style(one.line.mechanism).color if len(guesses) > 1 else theme.muted
        _guess(fig, one, picture.metric.form, color)
    for one, over in zip(placed, bands, strict=True):
        color = faded(style(one.line.mechanism).color, 0.16)
        band(fig, over, color, showlegend=False, legendgroup=one.line.key)
    for one, over in zip(placed, bands, strict=True):
        _line(fig, one, over, picture.metric.form, theme)
    for id in waiting:
        # a place in the legend for a curve that is still to come
        line(fig, [None], [None], style(id), "", name=wrapped(f"{registry.get(id).name} · waiting"))
    fig.x(**EPSILON_AXIS | _round_ticks(high), range=[math.log10(low), math.log10(high)])
    fig.y(range=up, tickformat=picture.metric.ticks, title=picture.metric.axis)
    return fig


def _levels(
    fig: Figure,
    picture: Picture,
    mechanisms: Sequence[str],
    across: tuple[float, float],
    up: tuple[float, float],
    room: Room,
    theme: Theme,
) -> None:
    """The lines without an epsilon: guesses and the reference with their names beside them.

    Papers' own methods without privacy are named in the legend, where there is room for many; one
    that belongs to a single mechanism has its colour. across, up: the ends of the axes; room:
    with the curves in it.
    """
    gap, sign = _LABEL * (up[1] - up[0]), picture.metric.sign
    named: list[tuple[str, float, bool]] = []  # whether it is a guess
    for name, level in picture.levels:
        text = f"{name}: {picture.metric.text(level.level.mean)}"
        if name == GUESSING:
            text = text.replace(name, f"{name} ({level.label.lower()})", 1)
        if name in (WITHOUT, GUESSING):
            named.append((text, level.level.mean, name == GUESSING))
            color, dash = (theme.ink, "dash") if name == WITHOUT else (theme.muted, "dot")
            shown = {"showlegend": False}
        else:
            own = [id for id in mechanisms if registry.get(id).twin == level.mechanism]
            color, dash = style(own[0]).color if len(own) == 1 else theme.muted, "dash"
            shown = {"name": wrapped(text)}
        horizontal(fig, across, level.level.mean, (color, dash), text, **shown)
    # outside rather than between them
    wanted = [mean + (-sign if guess else sign) * gap / 2 for _, mean, guess in named]
    ends = [(math.log10(across[0]), "left"), (math.log10(across[1]), "right")]
    for (text, mean, guess), y in zip(named, _apart(wanted, gap), strict=True):
        yanchor = "bottom" if y > mean else "top"
        places = [(x, mean, side, yanchor) for x, side in (ends[::-1] if guess else ends)]
        x, _, xanchor, _ = room.place(text, places)
        fig.note(
            x=x,
            y=y,
            text=text,
            showarrow=False,
            xanchor=xanchor,
            yanchor="middle",
            font={"color": theme.muted if guess else theme.ink, "size": 13},
            bgcolor=faded(theme.paper, 0.75),
            borderpad=0,
        )


def _apart(wanted: Sequence[float], gap: float) -> list[float]:
    """The places nearest to the wanted ones that keep their order and a gap between any two."""
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(order))
    moved = isotonic(np.asarray(wanted)[order] - steps, np.ones(len(order))) if len(order) else []
    places = np.empty(len(order))
    places[order] = moved + steps
    return [float(place) for place in places]


def _line(fig: Figure, one: Placed, over: Band, form: str, theme: Theme) -> None:
    look = style(one.line.mechanism)
    counts = one.counts if one.solid else f"{one.counts}, not certified"
    line(
        fig,
        over.x.tolist(),
        over.mean.tolist(),
        look,
        name=wrapped(f"{one.line.label} · {counts}"),
        legendgroup=one.line.key,
        marker=marker(look, theme, solid=one.solid),
        customdata=np.stack([over.low, over.high, over.seeds], axis=1).tolist(),
        hover=f"{one.line.label}<br>epsilon %{{x:.4g}} {counts}<br><b>%{{y:{form}}}</b>,"
        f" band %{{customdata[0]:{form}}} to %{{customdata[1]:{form}}}, seeds: %{{customdata[2]}}"
        "<extra></extra>",
    )


def _guess(fig: Figure, one: Placed, form: str, color: str) -> None:
    """A private guess against its own epsilon."""
    fig.draw(
        "scatter",
        x=one.x.tolist(),
        y=one.band.mean.tolist(),
        mode="lines",
        line={"color": color, "dash": "dot", "width": 2},
        name=wrapped(f"guessing: {one.line.label} · {one.counts}"),
        hovertemplate=f"guessing: {one.line.label}<br>epsilon %{{x:.4g}} {one.counts}"
        f"<br><b>%{{y:{form}}}</b><extra></extra>",
    )


def _envelope(fig: Figure, best: Envelope, form: str, theme: Theme) -> None:
    """A broad pale line behind the others: what hindsight would have chosen."""
    fig.draw(
        "scatter",
        x=best.x.tolist(),
        y=best.value.tolist(),
        mode="lines",
        line={"color": faded(theme.muted, 0.3), "width": 9},
        name=wrapped(ENVELOPE),
        customdata=list(best.winners),
        hovertemplate=f"{ENVELOPE}<br>epsilon %{{x:.4g}} {best.counts}: %{{customdata}}"
        f"<br><b>%{{y:{form}}}</b> on the other seeds<extra></extra>",
    )


def _axis(ends: tuple[float, float], placed: Sequence[Placed]) -> tuple[float, float]:
    """All of the grid, and whatever a change of unit moves beyond it."""
    inside = [float(x) for one in placed for x in one.x]
    return min([ends[0], *inside]) / 1.15, max([ends[1], *inside]) * 1.15


def _round_ticks(high: float) -> dict[str, object]:
    """Powers of ten alone on wide axes: per user, an epsilon may be thousands of times larger."""
    return powers(-2, 9) if high > 200 else {}


def _round_range(values: Sequence[float]) -> list[float]:
    """A range that ends on round numbers, with some room."""
    if not values:
        return [0.0, 1.0]
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.01
    step = next((s for s in _STEPS if high - low <= 12 * s), _STEPS[-1])
    return [step * math.floor((low - room) / step), step * math.ceil((high + room) / step)]
