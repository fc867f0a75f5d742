"""Pictures of a protocol: the parties with the message on its way, and bytes against size."""

from __future__ import annotations

from collections.abc import Sequence

from dpmc_core.lab.protocol import RECOMMENDER, THIRD_PARTY, Message
from dpmc_core.lab.protocol.federated import SERVER
from dpmc_core.lab.views.protocol import NAMES, BytesCurve, bytes_text
from dpmc_core.mechanisms.dpimf import Profiles
from pages.ui.charts import ACCENT, GRID, INK, LOG, MUTED, PAPER, Figure, Style, figure
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
    fig = figure("stage")
    for pair in dict.fromkeys(frozenset((m.sender, m.receiver)) for m in before):
        x, y = zip(*(places[name] for name in sorted(pair)), strict=True)
        fig.stroke(x, y, GRID)
    speaking = set() if now is None else {now.sender, now.receiver}
    x, y = zip(*(places[name] for name in parties), strict=True)
    fig.draw(
        x=x,
        y=y,
        mode="markers+text",
        text=[
            f"<b>{in_chart(name)}</b>" if name in speaking else in_chart(name) for name in parties
        ],
        textposition=["top center" if at > 0.5 else "bottom center" for at in y],
        textfont_color=INK,
        textfont_size=15,
        marker_size=40,
        marker_symbol=[_SYMBOLS.get(name, "circle") for name in parties],
        marker_color=[ACCENT if name in speaking else PAPER for name in parties],
        marker_line_color=MUTED,
        marker_line_width=2,
        cliponaxis=False,
    )
    if now is not None:
        (x0, y0), (x1, y1) = places[now.sender], places[now.receiver]
        fig.note("arrow", x=x1, y=y1, ax=x0, ay=y0)
        kind = in_chart(now.kind)
        fig.note("message", text=kind, x=(x0 + x1) / 2, y=(y0 + y1) / 2)
    return fig


def _places(parties: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Who computes above, everybody else in a row below."""
    above = {RECOMMENDER: (0.15, 1.0), THIRD_PARTY: (0.85, 1.0), SERVER: (0.5, 1.0)}
    below = [name for name in parties if name not in above]
    return above | {name: ((k + 0.5) / len(below), 0.0) for k, name in enumerate(below)}


def communication(along: str, lines: Sequence[BytesCurve], now: int) -> Figure:
    """Bytes of a whole run against one measure of its size, both axes logarithmic."""
    marks = [10**k for k in range(19)]
    words = [*map(bytes_text, marks)]
    fig = figure("communication", xaxis=LOG, xaxis_title_text=along)
    fig.update(yaxis_tickvals=marks, yaxis_ticktext=words)
    hover = "%{x:,} " + along + ": <b>%{text}</b><extra>%{fullData.name}</extra>"
    for one in lines:
        texts = [*map(bytes_text, one.bytes)]
        fig.line(one.x, one.bytes, _STYLES[one.name], hover, name=one.name, text=texts)
    fig.rule(now)
    return fig
