"""Claims beside what is proved, and what an attacker can conclude."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dpmc_core.lab.refute import Method, Refuted, Report
from dpmc_core.lab.views.audits import Lights, Tick
from dpmc_core.lab.views.cards import CardRow, epsilon_text
from dpmc_core.lab.views.groups import Group
from pages.ui.charts import (
    ACCENT,
    EPSILON_AXIS,
    GRID,
    INK,
    PAPER,
    Figure,
    Style,
    faded,
    figure,
    powers,
    style,
)


def claims(
    groups: Sequence[Group],
    rows: Mapping[str, CardRow],
    chosen: str,
    measured: Callable[[str], Tick | None],
) -> Figure:
    """One line per mechanism from its claim (hollow) to its certified epsilon (filled).

    measured: a tick, by id. A row can be pointed at in its whole length.
    """
    finite = [e for r in rows.values() for e in (r.claimed, r.certified) if e and math.isfinite(e)]
    end = 4 * max([*finite, 1.0])
    low = math.log10(min([*finite, 1.0])) - 0.5
    far = math.log10(end) + 0.2 * (math.log10(end) - low)
    fig = figure(showlegend=False, bargap=0, margin={"l": 8, "r": 8, "t": 4, "b": 8})
    places: dict[str, int] = {}
    told, at = [], 0
    for group in groups:
        title = f"<b>{group.title}</b>, {rows[group.choices[0].id].guarantee.change.label}"
        fig.note(text=title, x=0, xref="x domain", xanchor="left", xshift=-100, y=at)
        for choice in group.choices:
            at, id = at + 1, choice.id
            row, look, found, places[id] = rows[id], style(id), measured(id), at
            _claim(fig, look, row, at, end)
            words = ""
            if found is not None and 0 < found.measured < end:
                fig.tick(found.measured, at, look, found)
                words = f"<br>{found.words}"
            counted = row.guarantee.change
            told.append(
                f"<b>{row.mechanism}</b>: claimed {epsilon_text(row.claimed)}, certified"
                f" {epsilon_text(row.certified)}{words}<br>{counted.label}: {counted.relation}"
            )
        at += 1
    y = list(places.values())
    fig.draw(
        "bar",
        orientation="h",
        base=10**low,
        x=[10**far] * len(y),
        y=y,
        customdata=[[id] for id in places],
        marker={"color": [faded(ACCENT, 0.18 * (id == chosen)) for id in places]},
        hovertext=told,
        hover="%{hovertext}<extra></extra>",
    )
    fig.x(type="log", range=[low, far], tickangle=0, **powers(-2, 12, 1 if far - low < 4 else 2))
    names = [rows[id].mechanism for id in places]
    fig.y(range=[at - 0.4, -0.7], showgrid=False, tickvals=y, ticktext=names)
    return fig


def _claim(fig: Figure, look: Style, row: CardRow, at: int, end: float) -> None:
    bound = math.isfinite(row.certified)
    proved = row.certified if bound else end
    if row.claimed is not None:
        ring = fig.marker(look._replace(marker="circle"), solid=False, size=12)
        fig.stroke([row.claimed, proved], [at, at], look.color)
        fig.dots([row.claimed], [at], ring)
    look = look._replace(marker="circle" if bound else "triangle-right")
    fig.draw(
        "scatter",
        x=[proved],
        y=[at],
        mode="markers+text",
        marker=fig.marker(look, solid=True),
        text=["" if row.upheld else f"   {epsilon_text(row.certified)}"],
        textposition="middle right",
    )


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


PROMISED = "promised"  # beside what is measured
_FOUND = {Refuted.NOTHING: "#009e73", Refuted.CLAIM: "#d55e00", Refuted.CERTIFICATE: "#d55e00"}


def audit(report: Report, words: Mapping[Method, str]) -> Figure:
    """What each method proves at least, beside the claim (hollow) and the certificate (filled).

    A bar that is grey is no bound yet. words: the names of the methods.
    """
    look, claimed, proved = style(report.mechanism.id), report.claimed, report.certified.epsilon
    bounds = {f.method: f for f in report.findings if f.epsilon is not None}
    rows = [*(words[method] for method in bounds), PROMISED]
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
            text=[f"at least {epsilon_text(found.epsilon)}" if ready else "not yet a bound"],
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
            [PROMISED],
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
    fig.note(text=", ".join(told), x=math.log10(least), xshift=-14, xanchor="right", y=PROMISED)
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
