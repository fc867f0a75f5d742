"""Pictures of a protocol: the parties with the message on its way, and bytes against size."""

from __future__ import annotations

from collections.abc import Sequence

from dpmc_core.lab.protocol import RECOMMENDER, THIRD_PARTY, Message
from dpmc_core.lab.protocol.federated import SERVER
from dpmc_core.lab.views.protocol import NAMES, BytesCurve, bytes_text
from dpmc_core.mechanisms.dpimf import Profiles
from pages.ui.charts import ACCENT, GRID, INK, MUTED, PAPER, Figure, Style, faded, figure, powers
from pages.ui.text import in_chart

_STYLES = {
    "scenario 2": Style("#0072b2", "circle", "solid"),
    "scenario 3": Style("#d55e00", "square", "longdash"),
    NAMES[Profiles.ITEMS]: Style("#009e73", "diamond", "solid"),
    NAMES[Profiles.USERS]: Style("#cc79a7", "triangle-up", "longdash"),
}
_SYMBOLS = {RECOMMENDER: "square", SERVER: "square", THIRD_PARTY: "diamond"}


def stage(parties: Sequence[str], before: Sequence[Message], now: Message | None) -> Figure:
    """The parties in place; faint lines where messages went, an arrow for the one on its way."""
    places = _places(parties)
    fig = figure(showlegend=False, margin={"l": 8, "r": 8, "t": 8, "b": 8})
    for pair in dict.fromkeys(frozenset((m.sender, m.receiver)) for m in before):
        (x0, y0), (x1, y1) = (places[name] for name in sorted(pair))
        fig.shape(
            type="line",
            x0=x0,
            y0=y0,
            x1=x1,
            y1=y1,
            line={"color": GRID, "width": 2},
            layer="below",
        )
    speaking = set() if now is None else {now.sender, now.receiver}
    fig.draw(
        "scatter",
        x=[places[name][0] for name in parties],
        y=[places[name][1] for name in parties],
        mode="markers+text",
        text=[
            f"<b>{in_chart(name)}</b>" if name in speaking else in_chart(name) for name in parties
        ],
        textposition=["top center" if places[n][1] > 0.5 else "bottom center" for n in parties],
        textfont={"color": INK, "size": 15},
        marker={
            "size": 40,
            "symbol": [_SYMBOLS.get(name, "circle") for name in parties],
            "color": [ACCENT if name in speaking else PAPER for name in parties],
            "line": {"color": MUTED, "width": 2},
        },
        cliponaxis=False,
    )
    if now is not None:
        _arrow(fig, places[now.sender], places[now.receiver], now.kind)
    fig.x(visible=False, range=[-0.08, 1.08], fixedrange=True)
    fig.y(visible=False, range=[-0.2, 1.2], fixedrange=True)
    return fig


def _arrow(fig: Figure, start: tuple[float, float], end: tuple[float, float], kind: str) -> None:
    (x0, y0), (x1, y1) = start, end
    fig.note(
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
        arrowcolor=ACCENT,
        standoff=28,
        startstandoff=28,
    )
    fig.note(
        x=(x0 + x1) / 2,
        y=(y0 + y1) / 2,
        text=in_chart(kind),
        color=INK,
        size=16,
        bgcolor=PAPER,
        bordercolor=faded(ACCENT, 0.6),
        borderpad=4,
    )


def _places(parties: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Who computes above, everybody else in a row below."""
    above = {RECOMMENDER: 0.15, THIRD_PARTY: 0.85, SERVER: 0.5}
    below = [name for name in parties if name not in above]
    places = {name: (above[name], 1.0) for name in parties if name in above}
    return places | {name: ((k + 0.5) / len(below), 0.0) for k, name in enumerate(below)}


def communication(along: str, lines: Sequence[BytesCurve], now: int) -> Figure:
    """Bytes of a whole run against one measure of its size, both axes logarithmic."""
    fig = figure(height=340)
    hover = "%{x:,} " + along + ": <b>%{text}</b><extra>%{fullData.name}</extra>"
    for one in lines:
        texts = [bytes_text(count) for count in one.bytes]
        fig.line(one.x, one.bytes, _STYLES[one.name], hover, name=one.name, text=texts)
    fig.rule(now)
    fig.x(type="log", title=along, dtick=1, tickformat=",d")
    marks = powers(0, 19)
    marks["ticktext"] = [bytes_text(power) for power in marks["tickvals"]]
    fig.y(type="log", title="sent in a whole run", **marks)
    return fig
