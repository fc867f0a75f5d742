"""Claims beside what is proved, and what an attacker can conclude."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpmc_core.views.cards import CardRow, epsilon_text
from pages.ui.charts import EPSILON_AXIS, Figure, Theme, figure, powers, rule, style


def claimed_and_certified(ids: Sequence[str], rows: Sequence[CardRow], theme: Theme) -> Figure:
    """One line per mechanism from its claim (hollow) to its certified epsilon (filled)."""
    fig = figure(theme, height=90 + 56 * len(rows), showlegend=False)
    finite = [e for r in rows for e in (r.claimed, r.certified) if e and math.isfinite(e)]
    end = 4 * max([*finite, 1.0])
    for id, row in zip(ids, rows, strict=True):
        look = style(id)
        proved = row.certified if math.isfinite(row.certified) else end
        arrow = not math.isfinite(row.certified)
        close = row.claimed is not None and proved < 3 * row.claimed
        if row.claimed is not None:
            fig.draw(
                "scatter",
                x=[row.claimed, proved],
                y=[row.mechanism] * 2,
                mode="lines",
                line={"color": look.color, "width": 2},
                hoverinfo="skip",
            )
            fig.draw(
                "scatter",
                x=[row.claimed],
                y=[row.mechanism],
                mode="markers",
                marker={
                    "symbol": "circle",
                    "size": 18,
                    "color": theme.paper,
                    "line": {"color": look.color, "width": 2.5},
                },
                hovertemplate=f"claimed: epsilon {epsilon_text(row.claimed)}<extra></extra>",
            )
        fig.draw(
            "scatter",
            x=[proved],
            y=[row.mechanism],
            mode="markers+text",
            marker={
                "symbol": "triangle-right" if arrow else "circle",
                "size": 10,
                "color": look.color,
            },
            text=["no bound" if arrow else f"   {epsilon_text(row.certified)}"],
            textposition="middle right" if close else "bottom left",
            hovertemplate=f"certified: epsilon {epsilon_text(row.certified)}<extra></extra>",
        )
        fig.note(
            text=row.mechanism,
            x=0,
            xref="x domain",
            xanchor="left",
            y=row.mechanism,
            yshift=19,
            showarrow=False,
            font={"size": 13},
        )  # above its line, so that a narrow screen keeps its width for the numbers
    low, far = math.log10(min([*finite, 1.0])) - 0.3, math.log10(end) + 0.35
    fig.x(
        type="log",
        title="epsilon (left: more private)",
        range=[low, far],
        tickangle=0,
        **powers(-2, 12, 1 if far - low < 4 else 2),
    )
    fig.y(autorange="reversed", showticklabels=False)
    return fig


def certainty(
    epsilons: Sequence[float], shares: Sequence[float], epsilon: float, theme: Theme
) -> Figure:
    """The attacker's best certainty against epsilon."""
    fig = figure(theme, height=320, showlegend=False)
    fig.draw(
        "scatter",
        x=list(epsilons),
        y=list(shares),
        mode="lines",
        line={"color": theme.ink, "width": 2.5},
        hovertemplate="epsilon %{x:g}: at most <b>%{y:.1%}</b> sure<extra></extra>",
    )
    rule(fig, epsilon, theme)
    fig.x(**EPSILON_AXIS)
    fig.y(title="at most sure", tickformat=".0%", range=[0.48, 1.02])
    return fig
