"""The answer in one row: what is kept, between the best guess and no privacy."""

from __future__ import annotations

from dpmc_core.paired import Bracket
from dpmc_core.views.lines import GUESSING
from pages.ui.charts import Figure, Theme, faded, figure, marker, style

_ENDS = (-0.12, 1.12)  # what always shows of the axis, as a share of the gain
_FAR = (-0.6, 1.6)  # where an interval is cut


def kept(mechanism: str, share: Bracket, limit: float, best: str, theme: Theme) -> Figure:
    """The share of the gain with its interval, and the limit, from the guess to what is best."""
    fig, look = figure(theme, height=150, showlegend=False), style(mechanism)
    value, low, high = (min(max(part, _FAR[0]), _FAR[1]) for part in share)
    across = [min(_ENDS[0], low - 0.05), max(_ENDS[1], high + 0.05)]
    for at, name, color, dash in (
        (0.0, GUESSING, theme.muted, "dot"),
        (1.0, best, theme.ink, "dash"),
    ):
        _rule(fig, at, color, dash)
        _name(fig, at, name, color, "bottom")
    _rule(fig, limit, theme.ink, "solid")
    _name(fig, limit, f"your limit: {100 * limit:g} %", theme.ink, "top")
    hover = f"{100 * share.value:.0f} % of the gain<extra></extra>"
    wide = {"color": look.color, "width": 8}
    fig.draw("scatter", x=[low, high], y=[0, 0], mode="lines", line=wide, hoverinfo="skip")
    fig.draw(
        "scatter",
        x=[value],
        y=[0],
        mode="markers",
        marker=marker(look, theme, solid=True, size=20),
        hovertemplate=hover,
    )
    fig.note(
        x=value,
        y=0,
        text=f"<b>{100 * share.value:.0f} %</b>",
        yshift=24,
        showarrow=False,
        font={"size": 17},
        bgcolor=faded(theme.paper, 0.8),
        borderpad=0,
    )
    fig.x(range=across, visible=False, fixedrange=True)
    fig.y(range=[-1, 1], visible=False, fixedrange=True)
    fig.layout["margin"] = {"l": 8, "r": 8, "t": 26, "b": 26}
    return fig


def _rule(fig: Figure, at: float, color: str, dash: str) -> None:
    line = {"color": color, "dash": dash, "width": 2}
    fig.draw("scatter", x=[at, at], y=[-1, 1], mode="lines", line=line, hoverinfo="skip")


def _name(fig: Figure, at: float, text: str, color: str, held: str) -> None:
    """A name above the rule where it is held at its bottom, else below it."""
    fig.note(
        x=at,
        y=1 if held == "bottom" else 0,
        yref="paper",
        yanchor=held,
        text=text,
        showarrow=False,
        font={"color": color, "size": 13},
    )
