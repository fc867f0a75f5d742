"""Claims beside what is proved, and what an attacker can conclude."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dpmc_core.lab.refute import Method, Refuted, Report
from dpmc_core.lab.views.audits import Lights, Tick
from dpmc_core.lab.views.cards import CardRow, epsilon_text
from pages.ui.charts import EPSILON_AXIS, GRID, INK, PAPER, Figure, figure, powers, style


def claimed_and_certified(
    ids: Sequence[str],
    rows: Sequence[CardRow],
    measured: Callable[[str], Tick | None],
) -> Figure:
    """One line per mechanism from its claim (hollow) to its certified epsilon (filled).

    measured: a tick, by id.
    """
    fig = figure(height=90 + 56 * len(rows), showlegend=False)
    finite = [e for r in rows for e in (r.claimed, r.certified) if e and math.isfinite(e)]
    end = 4 * max([*finite, 1.0])
    for id, row in zip(ids, rows, strict=True):
        look = style(id)
        proved = row.certified if math.isfinite(row.certified) else end
        arrow = not math.isfinite(row.certified)
        close = row.claimed is not None and proved < 3 * row.claimed
        if row.claimed is not None:
            fig.stroke([row.claimed, proved], [row.mechanism] * 2, look.color)
            fig.dots(
                [row.claimed],
                [row.mechanism],
                fig.marker(look._replace(marker="circle"), solid=False, size=15),
                hover=f"claimed: epsilon {epsilon_text(row.claimed)}<extra></extra>",
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
            hover=f"certified: epsilon {epsilon_text(row.certified)}<extra></extra>",
        )
        found = measured(id)
        if found is not None and 0 < found.measured < end:
            fig.tick(found.measured, row.mechanism, look, found)
        fig.note(
            text=row.mechanism,
            x=0,
            xref="x domain",
            xanchor="left",
            y=row.mechanism,
            yshift=19,
            size=13,
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


def attacker(epsilons: Sequence[float], shares: Sequence[float], epsilon: float) -> Figure:
    """How often the best attacker is right, against epsilon."""
    fig = figure(height=320, showlegend=False)
    fig.stroke(
        list(epsilons),
        list(shares),
        INK,
        width=2.5,
        hover="epsilon %{x:g}: right at most <b>%{y:.1%}</b><extra></extra>",
    )
    fig.rule(epsilon)
    fig.x(**EPSILON_AXIS)
    fig.y(title="attacker right", tickformat=".0%", range=[0.48, 1.02])
    return fig


_FOUND = {Refuted.NOTHING: "#009e73", Refuted.CLAIM: "#d55e00", Refuted.CERTIFICATE: "#d55e00"}


def audit(report: Report, words: Mapping[Method, str]) -> Figure:
    """What each method proves at least, beside the claim (hollow) and the certificate (filled).

    A bar that is grey is no bound yet. words: the names of the methods.
    """
    look, claimed, proved = style(report.mechanism.id), report.claimed, report.certified.epsilon
    bounds = {f.method: f for f in report.findings if f.epsilon is not None}
    rows = [*(words[method] for method in bounds), "the card"]
    known = [e for e in (claimed, proved, report.measured) if e and math.isfinite(e)]
    low, high = 0.02 * min([*known, 1.0]), 3 * max([*known, 1.0])
    fig = figure(height=110 + 46 * len(rows), showlegend=False)
    for method, found in bounds.items():
        ready = found.valid
        fig.draw(
            "bar",
            orientation="h",
            y=[words[method]],
            x=[max(found.epsilon or 0.0, low) - low / 2],
            base=[low / 2],
            width=[0.42],
            marker={"color": _FOUND[found.refuted] if ready else GRID},
            text=[
                f"at least {epsilon_text(found.epsilon, least=True)}"
                if ready
                else "not yet a bound"
            ],
            textposition="auto",
            insidetextanchor="end",
            insidetextfont={"color": "#ffffff" if ready else INK},
            cliponaxis=False,
        )
    ends = {"claimed": claimed, "certified": min(proved, high)}
    for name, at in ends.items():
        if at is None:
            continue
        certified, open_end = name == "certified", name == "certified" and math.isinf(proved)
        fig.dots(
            [at],
            ["the card"],
            {
                "symbol": "triangle-right" if open_end else "circle",
                "size": 11 if certified else 19,
                "color": look.color if certified and (not open_end) else PAPER,
                "line": {"color": look.color, "width": 2.5},
            },
            hover=f"{name}: {('no bound' if open_end else epsilon_text(at))}<extra></extra>",
        )
    told = [f"claimed {epsilon_text(claimed)}"] * (claimed is not None)
    told.append(f"certified {epsilon_text(proved)}")
    least = min(e for e in ends.values() if e is not None)
    fig.note(text=", ".join(told), x=math.log10(least), xshift=-14, xanchor="right", y="the card")
    if claimed is not None:
        fig.rule(claimed)
    counted = report.change.label
    first, last = math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1
    fig.x(
        f"epsilon, {counted}",
        type="log",
        range=[math.log10(low), math.log10(high)],
        **powers(first, last),
    )
    fig.y(categoryorder="array", categoryarray=rows[::-1], range=[-0.6, len(rows) - 0.3])
    return fig


def lights(view: Lights) -> Figure:
    """How far every published cell moves when one rating turns around."""
    fig = figure(height=300)
    fig.draw(
        "heatmap",
        z=view.moved,
        zmin=0,
        zmax=float(view.moved.max()),
        colorscale=[[0, PAPER], [1, style(view.mechanism.id).color]],
        colorbar={"thickness": 12, "outlinewidth": 0, "title": {"text": "moves by"}},
        hover="user %{y}, item %{x}: <b>%{z:.2f}</b><extra></extra>",
    )
    fig.note(
        text="the rating that changed",
        x=view.item,
        y=view.user,
        ax=90,
        ay=40,
        showarrow=True,
        arrowcolor=INK,
        bgcolor=PAPER,
    )
    fig.x("items", showgrid=False)
    fig.y("users", showgrid=False, autorange="reversed")
    return fig
