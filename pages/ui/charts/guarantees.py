"""Draw claims beside what is proved, and what an attacker can conclude."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpmc_core.style import GREEN, RED
from dpmc_lab.audit import AuditReport
from dpmc_lab.curves.audits import RatingInfluence
from dpmc_lab.curves.cards import ClaimState, GuaranteeRow, format_epsilon
from dpmc_lab.curves.groups import MechanismGroup
from dpmc_lab.curves.measurements import MeasuredPoint
from dpmc_lab.measured import AuditMethod, Refuted
from pages.ui.charts import (
    ACCENT,
    EPSILON_AXIS,
    GRID,
    INK,
    LOG,
    PAPER,
    Figure,
    Style,
    create_figure,
    get_style,
    with_opacity,
)


def plot_claims(
    groups: Sequence[MechanismGroup],
    rows: Mapping[str, GuaranteeRow],
    chosen: str,
    measured: Mapping[str, MeasuredPoint],
) -> Figure:
    """Plot one line per mechanism from its claim (hollow) to its certified epsilon (filled).

    The pointer reacts along the whole length of a row.

    Args:
        groups: the mechanisms by promise.
        rows: their guarantees by id.
        chosen: id of the highlighted mechanism.
        measured: measured bounds by id, drawn as ticks.
    """
    finite = [e for r in rows.values() for e in (r.claimed, r.certified) if e and math.isfinite(e)]
    end = 4 * max([*finite, 1.0])
    low = math.log10(min([*finite, 1.0])) - 0.5
    log_end = math.log10(end) + 0.4 * (math.log10(end) - low)
    fig = create_figure("claims")
    row_positions: dict[str, int] = {}
    hover_texts, position = [], 0
    for group in groups:
        title = f"<b>{group.title}</b>, {rows[group.choices[0].id].guarantee.change.label}"
        fig.add_annotation("group", text=title, y=position)
        for choice in group.choices:
            position = position + 1
            id = choice.id
            row, method_style, measurement, row_positions[id] = (
                rows[id],
                get_style(id),
                measured.get(id),
                position,
            )
            proved = format_epsilon(row.certified)
            refuted = row.state is ClaimState.REFUTED
            text = "" if row.state is ClaimState.PROVED else f"   {proved}"
            ends = row.claimed, row.certified
            _draw_promise(fig, method_style, ends, position, end, text, refuted=refuted)
            measured_text = ""
            change = row.guarantee.change
            if measurement is not None and 0 < measurement.measured < end:
                fig.add_measurement(measurement.measured, position, method_style, measurement)
                measured_text = f"<br>{measurement.label}"
            hover_texts.append(
                f"<b>{row.mechanism}</b>: {row.state.word}<br>"
                f"claimed {format_epsilon(row.claimed)}, certified {proved}"
                f"{measured_text}<br>{change.label}: {change.relation}"
            )
        position += 1
    y = list(row_positions.values())
    fig.add_trace(
        "pointed",
        base=10**low,
        x=[10**log_end] * len(y),
        y=y,
        customdata=[[id] for id in row_positions],
        marker_color=[with_opacity(ACCENT, 0.18 * (id == chosen)) for id in row_positions],
        hovertext=hover_texts,
    )
    fig.update_layout(
        xaxis=LOG | {"dtick": math.ceil((log_end - low) / 3)},
        xaxis_range=[low, log_end],
        yaxis_range=[position - 0.4, -0.7],
        yaxis_tickvals=y,
        yaxis_ticktext=[rows[id].mechanism for id in row_positions],
    )
    return fig


def _draw_promise(
    fig: Figure,
    method_style: Style,
    budgets: tuple[float | None, float],
    position: Any,
    end: float,
    text: str,
    *,
    refuted: bool,
) -> None:
    """Draw a claim (hollow, crossed where refuted) and what is certified (filled).

    An arrow at the end means that nothing finite is certified.
    """
    claimed, proved = budgets
    filled = "circle" if math.isfinite(proved) else "triangle-right"
    proved = min(proved, end)
    if claimed is not None:
        symbol = "circle-x" if refuted else "circle"
        ring = fig.make_marker(method_style._replace(marker=symbol), solid=False, size=12)
        fig.add_stroke([claimed, proved], [position, position], method_style.color)
        fig.add_markers([claimed], [position], ring)
    mark = fig.make_marker(method_style._replace(marker=filled), solid=True)
    fig.add_trace("promised", x=[proved], y=[position], marker=mark, text=[text])


def plot_attacker_success(
    epsilons: Sequence[float], shares: Sequence[float], epsilon: float
) -> Figure:
    """Plot how often the best attacker is right, by epsilon."""
    fig = create_figure("attacker", xaxis=EPSILON_AXIS)
    hover = "epsilon %{x:g}: right at most <b>%{y:.1%}</b><extra></extra>"
    fig.add_stroke(list(epsilons), list(shares), INK, line_width=2.5, hover=hover)
    fig.add_vertical_line(epsilon)
    return fig


def plot_audit(report: AuditReport, method_names: Mapping[AuditMethod, str]) -> Figure:
    """Plot what each method proves, beside the claim (hollow) and the certificate (filled).

    A grey bar is not a bound yet.

    Args:
        report: the audit.
        method_names: names of the methods.
    """
    claimed = report.claimed
    proved = report.certified.epsilon
    findings = [f for f in report.findings if f.epsilon is not None]
    rows = [*(method_names[f.method] for f in findings), "promised"]
    finite_epsilons = [
        1.0,
        *(e for e in (claimed, proved, report.measured) if e and math.isfinite(e)),
    ]
    low = 0.02 * min(finite_epsilons)
    high = 3 * max(finite_epsilons)
    colors = (RED, GREEN)
    fig = create_figure(
        "audit",
        height=110 + 46 * len(rows),
        xaxis=LOG,
        xaxis_title_text=f"epsilon, {report.change.label}",
        xaxis_range=[math.log10(low), math.log10(high)],
        yaxis_categoryarray=rows[::-1],
        yaxis_range=[-0.6, len(rows) - 0.3],
    )
    fig.add_trace(
        "least",
        y=rows[:-1],
        x=[max(f.epsilon or 0.0, low) - low / 2 for f in findings],
        base=[low / 2] * len(findings),
        marker_color=[colors[f.refuted is Refuted.NOTHING] if f.valid else GRID for f in findings],
        text=[
            f"at least {format_epsilon(f.epsilon, round_down=True)}"
            if f.valid
            else "not yet a bound"
            for f in findings
        ],
        insidetextfont_color=["#ffffff" if f.valid else INK for f in findings],
    )
    promise_text = f"  claimed {format_epsilon(claimed)}, certified {format_epsilon(proved)}"
    method_style = get_style(report.mechanism.id)
    refuted = report.refuted is not Refuted.NOTHING
    _draw_promise(
        fig, method_style, (claimed, proved), rows[-1], high, promise_text, refuted=refuted
    )
    if claimed is not None:
        fig.add_vertical_line(claimed)
    return fig


def plot_rating_influence(view: RatingInfluence) -> Figure:
    """Plot how far every published cell moves when one rating changes its sign."""
    fig = create_figure("lights")
    fig.add_trace(
        "moved",
        z=view.changes,
        zmax=float(view.changes.max()),
        colorscale=[[0, PAPER], [1, get_style(view.mechanism.id).color]],
    )
    fig.add_annotation("changed", x=view.item, y=view.user)
    return fig
