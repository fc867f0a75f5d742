"""Draw a protocol: the parties, with the message on its way."""

from __future__ import annotations

from collections.abc import Sequence

from dpmc_lab.protocol import RECOMMENDER, THIRD_PARTY, Message
from dpmc_lab.protocol.federated import SERVER
from pages.ui.charts import ACCENT, GRID, PAPER, Figure, create_figure
from pages.ui.text import escape_for_chart

_SYMBOLS = {RECOMMENDER: "square", SERVER: "square", THIRD_PARTY: "diamond"}


def plot_protocol(
    parties: Sequence[str], earlier_messages: Sequence[Message], current_message: Message | None
) -> Figure:
    """Plot the parties, faint lines where messages went, and an arrow for the current one."""
    positions = _locate_parties(parties)
    fig = create_figure("stage")
    for pair in dict.fromkeys(frozenset((m.sender, m.receiver)) for m in earlier_messages):
        x, y = zip(*(positions[name] for name in sorted(pair)), strict=True)
        fig.add_stroke(x, y, GRID)
    speaking = (
        set() if current_message is None else {current_message.sender, current_message.receiver}
    )
    x, y = zip(*(positions[name] for name in parties), strict=True)
    fig.add_trace(
        "parties",
        x=x,
        y=y,
        text=[
            f"<b>{escape_for_chart(name)}</b>" if name in speaking else escape_for_chart(name)
            for name in parties
        ],
        textposition=["top center" if height > 0.5 else "bottom center" for height in y],
        marker_symbol=[_SYMBOLS.get(name, "circle") for name in parties],
        marker_color=[ACCENT if name in speaking else PAPER for name in parties],
    )
    if current_message is not None:
        (x0, y0), (x1, y1) = positions[current_message.sender], positions[current_message.receiver]
        fig.add_annotation("arrow", x=x1, y=y1, ax=x0, ay=y0)
        kind = escape_for_chart(current_message.kind)
        fig.add_annotation("message", text=kind, x=(x0 + x1) / 2, y=(y0 + y1) / 2)
    return fig


def _locate_parties(parties: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return positions: servers at the top, everybody else in a row below."""
    top_row = {RECOMMENDER: (0.15, 1.0), THIRD_PARTY: (0.85, 1.0), SERVER: (0.5, 1.0)}
    bottom_row = [name for name in parties if name not in top_row]
    return top_row | {name: ((k + 0.5) / len(bottom_row), 0.0) for k, name in enumerate(bottom_row)}
