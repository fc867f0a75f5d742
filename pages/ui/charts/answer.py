"""What is kept, between the best guess and no privacy: at one epsilon, and at all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpmc_lab.curves.answer import AtEpsilon
from dpmc_lab.study.paired import Bracket
from pages.ui.charts import EPSILON_AXIS, INK, MUTED, Figure, figure, style

_ENDS = (-0.12, 1.12)  # what always shows of the axis, as a share of the gain
_FAR = (-0.6, 1.6)  # where an interval is cut


def _reach(low: float, high: float) -> list[float]:
    """The axis of shares: always a little beyond both ends, and as far as an interval."""
    ends = min(_ENDS[0], low - 0.05), max(_ENDS[1], high + 0.05)
    return [max(ends[0], _FAR[0] - 0.05), min(ends[1], _FAR[1] + 0.05)]


def _levels(guess: str, best: str, limit: float) -> tuple[tuple[float, str, str, str], ...]:
    return (
        (0.0, guess, MUTED, "dot"),
        (1.0, best, INK, "dash"),
        (limit, f"your limit: {100 * limit:g} %", INK, "solid"),
    )


def kept(mechanism: str, share: Bracket, limit: float, guess: str, best: str) -> Figure:
    """The share of the gain with its interval, and the limit.

    guess, best: what it is counted from, and up to.
    """
    color, (value, low, high) = style(mechanism).color, np.clip(share, *_FAR).tolist()
    fig = figure("kept", xaxis_range=_reach(low, high))
    for k, (at, name, ink, dash) in enumerate(_levels(guess, best, limit)):
        fig.stroke([at] * 2, [-1, 1], ink, line_dash=dash)
        # the limit has its name below, the others above
        place = {"y": int(k < 2), "yref": "paper", "yanchor": "bottom" if k < 2 else "top"}
        fig.note(text=name, x=at, font_color=ink, **place)
    text = f"{100 * share.value:.0f} %"
    fig.stroke([low, high], [0, 0], color, line_width=8)
    mark = fig.marker(style(mechanism), solid=True, size=20)
    fig.dots([value], [0], mark, hover=f"{text} of the gain<extra></extra>")
    fig.note("kept", text=f"<b>{text}</b>", x=value)
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
    there = [(one.epsilon, one.share) for one in found if one.clear and one.share is not None]
    x, y = zip(*there, strict=True)
    ends = (min(*x, epsilon), max(*x, epsilon))
    places = [math.log10(end) for end in ends]
    fig = figure(
        "shares",
        xaxis=EPSILON_AXIS,
        xaxis_title_text=f"epsilon {counted} (left: more private)",
        xaxis_range=[places[0] - 0.06, places[1] + 0.06],
        yaxis_range=_reach(min(y), max(y)),
    )
    sides = ((1, "right", "top"), (0, "left", "bottom"), (0, "left", "top"))
    for (at, name, ink, dash), side in zip(_levels(guess, best, limit), sides, strict=True):
        fig.level(ends, at, (ink, dash), name)
        place = {"x": places[side[0]], "xanchor": side[1], "yanchor": side[2]}
        fig.note(text=name, y=at, font_color=ink, **place)
    hover = "epsilon %{x:g}<br><b>%{y:.0%}</b> of the gain<extra></extra>"
    fig.line(x, y, style(mechanism), hover)
    fig.rule(epsilon)
    return fig
