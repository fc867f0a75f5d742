"""What is kept, between the best guess and no privacy: at one epsilon, and at all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpmc_core.lab.study.paired import Bracket
from dpmc_core.lab.views.answer import AtEpsilon
from pages.ui.charts import EPSILON_AXIS, INK, MUTED, PAPER, Figure, faded, figure, style

_ENDS = (-0.12, 1.12)  # what always shows of the axis, as a share of the gain
_FAR = (-0.6, 1.6)  # where an interval is cut


def kept(mechanism: str, share: Bracket, limit: float, guess: str, best: str) -> Figure:
    """The share of the gain with its interval, and the limit.

    guess, best: what it is counted from, and up to.
    """
    fig, look = figure(height=150, showlegend=False), style(mechanism)
    value, low, high = (min(max(part, _FAR[0]), _FAR[1]) for part in share)
    across = [min(_ENDS[0], low - 0.05), max(_ENDS[1], high + 0.05)]
    for at, name, color, dash, side in (
        (0.0, guess, MUTED, "dot", "bottom"),
        (1.0, best, INK, "dash", "bottom"),
        (limit, f"your limit: {100 * limit:g} %", INK, "solid", "top"),
    ):
        fig.stroke([at] * 2, [-1, 1], color, dash=dash)
        _name(fig, at, name, color, side)
    hover = f"{100 * share.value:.0f} % of the gain<extra></extra>"
    fig.stroke([low, high], [0, 0], look.color, width=8)
    fig.dots([value], [0], fig.marker(look, solid=True, size=20), hover=hover)
    fig.note(
        x=value,
        y=0,
        text=f"<b>{100 * share.value:.0f} %</b>",
        yshift=24,
        size=17,
        bgcolor=faded(PAPER, 0.8),
        borderpad=0,
    )
    fig.x(range=across, visible=False, fixedrange=True)
    fig.y(range=[-1, 1], visible=False, fixedrange=True)
    fig.layout["margin"] = {"l": 8, "r": 8, "t": 26, "b": 26}
    return fig


def shares(
    mechanism: str,
    found: Sequence[AtEpsilon],
    limit: float,
    epsilon: float,
    guess: str,
    best: str,
    *,
    counted: str,
) -> Figure:
    """The share of the gain against epsilon, with the limit and the epsilon asked about.

    guess, best: what it is counted from, and up to. counted: what an epsilon counts.
    """
    fig, look = figure(height=320, showlegend=False), style(mechanism)
    there = [(one.epsilon, one.share) for one in found if one.clear and one.share is not None]
    x = [e for e, _ in there]
    ends = (min([*x, epsilon]), max([*x, epsilon]))
    for at, name, color, dash, end, side in (
        (0.0, guess, MUTED, "dot", 1, "top"),
        (1.0, best, INK, "dash", 0, "bottom"),
        (limit, f"your limit: {100 * limit:g} %", INK, "solid", 0, "top"),
    ):
        fig.level(ends, at, (color, dash), name)
        fig.note(
            x=math.log10(ends[end]),
            y=at,
            text=name,
            xanchor=("left", "right")[end],
            yanchor=side,
            color=color,
            size=13,
        )
    hover = "epsilon %{x:g}<br><b>%{y:.0%}</b> of the gain<extra></extra>"
    fig.line(x, [share for _, share in there], look, hover)
    fig.rule(epsilon)
    low, high = (pick(share for _, share in there) for pick in (min, max))
    title = {"title": f"epsilon {counted} (left: more private)"}
    fig.x(**EPSILON_AXIS | title, range=[math.log10(ends[0]) - 0.06, math.log10(ends[1]) + 0.06])
    fig.y(
        "share of the gain kept",
        range=[max(min(_ENDS[0], low - 0.05), _FAR[0]), min(max(_ENDS[1], high + 0.05), _FAR[1])],
        tickformat=".0%",
    )
    return fig


def _name(fig: Figure, at: float, text: str, color: str, held: str) -> None:
    """A name above the rule where it is held at its bottom, else below it."""
    fig.note(
        x=at,
        y=1 if held == "bottom" else 0,
        yref="paper",
        yanchor=held,
        text=text,
        color=color,
        size=13,
    )
