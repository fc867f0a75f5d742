"""A standalone HTML page of a comparison: opens anywhere, without a network."""

from __future__ import annotations

import html as escape
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
import plotly.io as pio

from pages.ui.report import STYLE


def html(
    title: str,
    fig: go.Figure,
    words: Sequence[str],
    table: Mapping[str, Sequence[object]],
    command: str,
) -> str:
    """One file with the chart and its library, the sentences, the numbers and the command."""
    text = escape.escape
    rows = zip(*table.values(), strict=True)
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{text(title)}</title><style>{STYLE}</style><h1>{text(title)}</h1>",
        pio.to_html(fig, include_plotlyjs=True, full_html=False, config={"displaylogo": False}),
        *(f"<p>{text(line)}</p>" for line in words),
        "<h2>Numbers</h2><table><tr>",
        *(f"<th>{text(name)}</th>" for name in table),
        "</tr>",
        *(
            "<tr>" + "".join(f"<td>{text(_cell(value))}</td>" for value in row) + "</tr>"
            for row in rows
        ),
        f"</table><h2>Repeat it</h2><pre>{text(command)}</pre></html>",
    ]
    return "\n".join(parts)


def _cell(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
