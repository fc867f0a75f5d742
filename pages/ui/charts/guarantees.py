"""Draw claims beside what is proved, and what an attacker can conclude."""

import math
from collections.abc import Mapping, Sequence

from dpmc_lab.audit import AuditReport
from dpmc_lab.measured import AuditMethod, MeasuredBound, Refuted
from dpmc_lab.views.cards import ClaimState, GuaranteeRow, format_epsilon
from dpmc_lab.views.groups import MechanismGroup
from pages.ui.charts import (
    ACCENT,
    GRID,
    INK,
    LOG,
    PAPER,
    RISK,
    Figure,
    create_figure,
    get_style,
    with_opacity,
)


def plot_claims(
    groups: Sequence[MechanismGroup],
    rows: Mapping[str, GuaranteeRow],
    chosen: str,
    measured: Mapping[str, MeasuredBound],
) -> Figure:
    """Plot one line per mechanism from its claim (open) to its proved epsilon (filled).

    The state of the claim stands below the mechanism's name, numbers stand at the proved epsilon.
    The axis is linear and fits the claims and what is proved of proved ones. An arrow at its end
    means that what is proved lies beyond. The pointer reacts along the whole length of a row.

    Args:
        groups: the mechanisms by promise.
        rows: their guarantees by id.
        chosen: id of the highlighted mechanism.
        measured: measured bounds by id, drawn as short bars.
    """
    budgets = [
        budget
        for row in rows.values()
        for budget in (row.claimed, row.certified * (row.state is ClaimState.PROVED))
    ]
    end = 1.5 * max(filter(None, budgets), default=1.0)
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
            numbers = [proved if math.isinf(row.certified) else f"proved {proved}"]
            if row.measured is not None:
                numbers.append(f"measured {format_epsilon(row.measured, round_down=True)}")
            text = "<br>".join(f"   {number}" for number in numbers)
            proved_x, is_within = min(row.certified, end), row.certified < end
            if row.claimed is not None:
                symbol = "circle-x" if row.state is ClaimState.REFUTED else "circle"
                ring = method_style._replace(marker=symbol)
                fig.add_stroke([row.claimed, proved_x], [position] * 2, method_style.color)
                fig.add_markers(
                    [row.claimed], [position], fig.make_marker(ring, solid=False, size=12)
                )
            filled = method_style._replace(marker="circle" if is_within else "triangle-right")
            mark = fig.make_marker(filled, solid=True)
            fig.add_trace("promised", x=[proved_x], y=[position], marker=mark, text=[text])
            change = row.guarantee.change
            if measurement is not None and 0 < measurement.measured < end:
                fig.add_measurement(measurement.measured, position, method_style, measurement)
            hover_texts.append(
                f"<b>{row.mechanism}</b>: {row.state.word}<br>"
                f"claimed {format_epsilon(row.claimed)}, proved {proved}<br>"
                f"{change.label}: {change.relation}"
            )
        position += 1
    y = list(row_positions.values())
    fig.add_trace(
        "pointed",
        x=[1.02 * end] * len(y),
        y=y,
        customdata=[[id] for id in row_positions],
        marker_color=[with_opacity(ACCENT, 0.18 * (id == chosen)) for id in row_positions],
        hovertext=hover_texts,
    )
    fig.update_layout(
        xaxis_range=[-0.03 * end, 1.02 * end],
        yaxis_range=[position - 0.4, -0.7],
        yaxis_tickvals=y,
        yaxis_ticktext=[f"{rows[id].mechanism}<br>{rows[id].state.value}" for id in row_positions],
    )
    return fig


def plot_audit(report: AuditReport, method_names: Mapping[AuditMethod, str]) -> Figure:
    """Plot what each method measured, with the claim (open, crossed where refuted).

    A grey bar is not a bound yet.

    Args:
        report: the audit.
        method_names: names of the methods.
    """
    claimed = report.claimed
    findings = [f for f in report.findings if f.epsilon is not None]
    rows = [*(method_names[f.method] for f in findings), "promised"]
    finite_epsilons = [1.0, *filter(None, (claimed, report.measured))]
    low = 0.02 * min(finite_epsilons)
    high = 3 * max(finite_epsilons)
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
        marker_color=[RISK if f.valid else GRID for f in findings],
        text=[
            f"at least {format_epsilon(f.epsilon, round_down=True)}"
            if f.valid
            else "not yet a bound"
            for f in findings
        ],
        insidetextfont_color=[PAPER if f.valid else INK for f in findings],
    )
    # The proved epsilon is left out: it depends on the size of the data, and these are invented.
    if claimed is not None:
        fig.add_vertical_line(claimed)
        symbol = "circle" if report.refuted is Refuted.NOTHING else "circle-x"
        method_style = get_style(report.mechanism.id)._replace(marker=symbol)
        fig.add_trace(
            "promised",
            x=[claimed],
            y=rows[-1:],
            marker=fig.make_marker(method_style, solid=False),
            text=[f"claimed {format_epsilon(claimed)}   "],
            textposition="middle left",
        )
    return fig
