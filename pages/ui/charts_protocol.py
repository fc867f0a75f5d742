"""Pictures of a protocol: the parties with the message on its way, and bytes against size."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from dpmc_core.protocol.messages import Message
from dpmc_core.protocol.wire import RECOMMENDER, THIRD_PARTY
from dpmc_core.views.protocol import Line
from pages.ui.charts import Style, Theme, faded, figure

_STYLES = {
    "2": Style("#0072b2", "circle", "solid"),
    "3": Style("#d55e00", "square", "longdash"),
}
_ACCENT = "#5566d8"


def stage(
    parties: Sequence[str], before: Sequence[Message], now: Message | None, theme: Theme
) -> go.Figure:
    """The parties in place; faint lines where messages went, an arrow for the one on its way."""
    places = _places(parties)
    fig = figure(theme, height=330, showlegend=False, margin={"l": 8, "r": 8, "t": 8, "b": 8})
    for pair in dict.fromkeys(frozenset((m.sender, m.receiver)) for m in before):
        (x0, y0), (x1, y1) = (places[name] for name in sorted(pair))
        fig.add_shape(
            type="line",
            x0=x0,
            y0=y0,
            x1=x1,
            y1=y1,
            line={"color": theme.grid, "width": 2},
            layer="below",
        )
    speaking = set() if now is None else {now.sender, now.receiver}
    fig.add_scatter(
        x=[places[name][0] for name in parties],
        y=[places[name][1] for name in parties],
        mode="markers+text",
        text=[f"<b>{escape(name)}</b>" if name in speaking else escape(name) for name in parties],
        textposition=["top center"] * 2 + ["bottom center"] * (len(parties) - 2),
        textfont={"color": theme.ink, "size": 13},
        marker={
            "size": 30,
            "symbol": ["square", "diamond"] + ["circle"] * (len(parties) - 2),
            "color": [_ACCENT if name in speaking else theme.paper for name in parties],
            "line": {"color": theme.muted, "width": 2},
        },
        hoverinfo="skip",
        cliponaxis=False,
    )
    if now is not None:
        _arrow(fig, places[now.sender], places[now.receiver], now.kind, theme)
    fig.update_xaxes(visible=False, range=[-0.08, 1.08], fixedrange=True)
    fig.update_yaxes(visible=False, range=[-0.2, 1.2], fixedrange=True)
    return fig


def _arrow(
    fig: go.Figure, start: tuple[float, float], end: tuple[float, float], kind: str, theme: Theme
) -> None:
    (x0, y0), (x1, y1) = start, end
    fig.add_annotation(
        x=x1,
        y=y1,
        ax=x0,
        ay=y0,
        xref="x",
        yref="y",
        axref="x",
        ayref="y",
        text="",
        showarrow=True,
        arrowhead=2,
        arrowsize=1.1,
        arrowwidth=3,
        arrowcolor=_ACCENT,
        standoff=20,
        startstandoff=20,
    )
    fig.add_annotation(
        x=(x0 + x1) / 2,
        y=(y0 + y1) / 2,
        text=escape(kind),
        showarrow=False,
        font={"color": theme.ink, "size": 14},
        bgcolor=theme.paper,
        bordercolor=faded(_ACCENT, 0.6),
        borderpad=4,
    )


def _places(parties: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Recommender and third party above, the users in a row below."""
    places = {RECOMMENDER: (0.15, 1.0), THIRD_PARTY: (0.85, 1.0)}
    users = [name for name in parties if name not in places]
    for k, name in enumerate(users):
        places[name] = ((k + 0.5) / len(users), 0.0)
    return places


def communication(along: str, lines: Sequence[Line], now: int, theme: Theme) -> go.Figure:
    """Bytes of a whole run against one measure of its size, both axes logarithmic."""
    fig = figure(theme, height=340)
    for line in lines:
        look = _STYLES[line.scenario]
        fig.add_scatter(
            x=line.x,
            y=line.bytes,
            name=f"scenario {line.scenario}",
            mode="lines+markers",
            line={"color": look.color, "dash": look.dash, "width": 2.5},
            marker={"symbol": look.marker, "size": 8},
            hovertemplate="%{x:,} " + along + ": <b>%{y:.3s}B</b><extra>%{fullData.name}</extra>",
        )
    fig.add_vline(x=now, line={"color": theme.ink, "width": 1.5}, opacity=0.55)
    fig.update_xaxes(type="log", title_text=along, dtick=1, tickformat=",d")
    fig.update_yaxes(type="log", title_text="bytes of a whole run", tickformat=".2s", dtick=1)
    return fig
