"""Draw several mechanisms in one picture: curves with bands, the cost of a quality, who is better.

All three have the same axis of epsilon. Labels are in a column at the right, outside the frame,
where they cover nothing, in lines short enough for a phone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmc_core import registry
from dpmc_core.metrics import Metric
from dpmc_lab.curves.comparison import LineComparison, describe_line_comparison
from dpmc_lab.curves.lines import (
    AS_CLAIMED,
    Band,
    CurveChart,
    PlottedLine,
    format_short_label,
    has_item_features,
)
from dpmc_lab.curves.measurements import find_measured_point
from dpmc_lab.curves.numbers import (
    RequiredEpsilon,
    format_estimate_interval,
    format_required_epsilon,
)
from dpmc_lab.curves.trade import (
    MAX_INFORMATIVE_RATE,
    BoundState,
    TradeChart,
    TradeLine,
    TradePoint,
    format_success,
    log_odds,
)
from pages.ui.charts import (
    EPSILON_AXIS,
    HOVER_TEXT,
    INK,
    LOG,
    MUTED,
    PAPER,
    PERCENT_TICKS,
    STYLE_SHEET,
    Figure,
    Interval,
    Style,
    Values,
    create_figure,
    get_style,
    with_opacity,
)
from pages.ui.charts.lines import Tag, choose_y_range, draw_labels, draw_reference_lines

_FRAME = {"l": 48, "r": 118, "b": 46}  # pixels around what is drawn
_MIN_HEIGHT = 360  # pixels that curves are high
_ROW = 46  # of a mechanism among several
_LEADER = 0.07  # of the width: from the ends of curves to their names
_LABEL_START = 0.75  # of the width: from here on a curve is led to its name
MISSING = "no curve yet"


# --- curves ------------------------------------------------------------------------------------


def plot_comparison(
    picture: CurveChart,
    placed_lines: Sequence[PlottedLine],
    ends: Interval,
    waiting: Sequence[str] = (),
    baselines: Sequence[PlottedLine] = (),
) -> Figure:
    """Plot curves whose markers are solid where an epsilon is certified in the axis unit.

    Args:
        picture: the chart.
        placed_lines: its lines.
        ends: epsilons that are always within the axis.
        waiting: mechanisms without a point yet; with them the picture stays still while it fills.
        baselines: private baselines of the chart.
    """
    x_range = get_epsilon_range(ends, [*placed_lines, *baselines])
    text = picture.metric.format_value
    fig = _create_frame(_MIN_HEIGHT, x_range, placed_lines)
    ids = [*{entry.line.mechanism for entry in placed_lines}, *waiting]
    baseline_lines = [
        (entry.line, entry.band, [f"epsilon {x:.4g} {entry.unit}<br>" for x in entry.x])
        for entry in baselines
    ]
    tags = draw_reference_lines(fig, picture, x_range, baseline_lines, ids)
    methods_with_features = {
        entry.line.mechanism for entry in placed_lines if has_item_features(entry.line)
    }
    for name, entry in zip(_list_names(placed_lines), placed_lines, strict=True):
        line = entry.line
        method_style = get_style(entry.line.mechanism)
        is_earlier = not has_item_features(line) and line.mechanism in methods_with_features
        x, mean, low, height, seeds = (values.tolist() for values in entry.band)
        fig.add_curve(
            entry.band,
            method_style._replace(dash="dot") if is_earlier else method_style,
            f"{line.label}<br>epsilon %{{x:.4g}}"
            f" {_format_counts(entry)}<br><b>%{{customdata[0]}}</b>,"
            " band %{customdata[1]} to %{customdata[2]}, seeds: %{customdata[3]}<extra></extra>",
            name=f"{line.label} · {_format_counts(entry)}",
            marker=fig.make_marker(method_style, solid=entry.is_certified),
            customdata=[
                *zip(map(text, mean), map(text, low), map(text, height), seeds, strict=True)
            ],
        )
        tags.append(Tag(name, mean[-1], method_style, entry.is_certified, x[-1]))
        if (
            (measurement := find_measured_point(line))
            and measurement.unit == entry.unit
            and measurement.measured < x_range[1]
        ):
            point = line.interval_at(measurement.epsilon)
            fig.add_measurement(
                measurement.measured, point and point.mean, method_style, measurement
            )
    tags += [
        Tag(f"{registry.get_short_name(id)}\n{MISSING}", None, get_style(id), True)
        for id in waiting
    ]
    lines, baseline_curves = (
        [entry.line for entry in line_group] for line_group in (placed_lines, baselines)
    )
    height = max(_MIN_HEIGHT, sum(tag.height for tag in tags))
    fig.layout["height"] += height - _MIN_HEIGHT
    _draw_label_column(
        fig, picture.metric, tags, choose_y_range(picture, lines, baseline_curves), height
    )
    return fig


def get_epsilon_range(ends: Interval, placed_lines: Sequence[PlottedLine]) -> Interval:
    """Return the axis of epsilon: all of the grid, and what a change of unit moves beyond it."""
    epsilons = [*ends, *(float(x) for placed_line in placed_lines for x in placed_line.x)]
    return min(epsilons) / 1.15, max(epsilons) * 1.15


def widen_margin(fig: Figure) -> Figure:
    """Widen the margin so that labels fit in any font, for pages that are wider than a phone."""
    fig.update_layout(margin_r=_FRAME["r"] + 40)
    return fig


def format_figure_height(fig: Figure) -> str:
    """Return a style that keeps the page's figure as high as its labels need."""
    return f"<style>.st-key-figure {{ --least: {fig.layout['height']}px; }}</style>"


def _create_frame(
    height: float, x_range: Interval, placed_lines: Sequence[PlottedLine], margin_top: int = 34
) -> Figure:
    """Create an empty picture over epsilon with a frame of this height and a margin above."""
    low, end = map(math.log10, x_range)
    units = {placed_line.unit for placed_line in placed_lines}
    unit_text = f"epsilon {units.pop()}" if len(units) == 1 else "epsilon"
    return create_figure(
        "framed",
        height=height + margin_top + _FRAME["b"],
        margin=_FRAME | {"t": margin_top},
        # an epsilon per user may be thousands
        xaxis=LOG if x_range[1] > 200 else EPSILON_AXIS,
        xaxis_title_text=f"{unit_text} (left: more private)",
        xaxis_range=[low, end + _LEADER * (end - low)],  # beyond it are names
    )


def _list_names(placed_lines: Sequence[PlottedLine]) -> list[str]:
    """Return the labels in the column, with what epsilon counts where that differs."""
    return [
        format_short_label(placed_line.line) + _format_unit(placed_line, placed_lines, "\n")
        for placed_line in placed_lines
    ]


def _format_unit(
    placed_line: PlottedLine, placed_lines: Sequence[PlottedLine], separator: str
) -> str:
    """Return what an epsilon counts, for a narrow place; empty where all count the same."""
    counts = placed_line.unit.removesuffix(AS_CLAIMED).replace("user-item cell", "cell")
    return f"{separator}{counts}" * (len({other.unit for other in placed_lines}) > 1)


def _format_counts(placed_line: PlottedLine) -> str:
    return placed_line.unit + ", not certified" * (not placed_line.is_certified)


def _draw_label_column(
    fig: Figure, metric: Metric, tags: Sequence[Tag], y_range: Sequence[float], height: float
) -> None:
    """Draw the vertical axis, and labels beside the frame.

    A label is as near as possible to what it names, and connected to it.
    """
    fig.update_layout(yaxis_range=y_range, yaxis_tickformat=metric.tick_format and PERCENT_TICKS)
    fig.add_annotation("axis", text=metric.axis_title)
    low, right = fig.layout["xaxis"]["range"]
    label_start = low + _LABEL_START * (right - low)
    edge = right
    if "type" in fig.layout["xaxis"]:
        label_start = 10**label_start
        edge = 10**edge
    for tag, y in zip(tags, draw_labels(fig, tags, y_range, height), strict=True):
        is_connected = tag.y_value is not None and tag.end >= label_start
        mark = fig.make_marker(tag.method_style, solid=bool(tag.solid))
        fig.add_stroke(
            [tag.end if is_connected else None, edge],
            [tag.y_value, y],
            tag.method_style.color,
            line_width=1,
            mode="lines" if tag.solid is None else "lines+markers",
            marker=mark | {"size": [0, mark["size"]], "opacity": 0.4 if tag.y_value is None else 1},
            cliponaxis=False,
        )


# --- the trade ---------------------------------------------------------------------------------

_EDGE = log_odds(MAX_INFORMATIVE_RATE)  # where the axis ends and the gutter begins
_NO_BOUND, _RAW = _EDGE + 1.3, _EDGE + 3.0  # lanes of the gutter
_SOLID = (BoundState.BOUND, BoundState.USELESS)  # certified
_MIN_GAP = 0.2  # on the axis: nearer ones need no arrow


def plot_accuracy_against_attacker(
    tradeoff: TradeChart, epsilon: float, height: float = _MIN_HEIGHT
) -> Figure:
    """Plot the metric against how often an attacker, who starts with a coin, is right at most.

    The last three traces are what an epsilon moves: arrows, the positions by papers (hollow), and
    the positions by releases.
    """
    picture = tradeoff.chart
    metric = tradeoff.chart.metric
    lines, baseline_curves = (
        [track.line for track in track_group]
        for track_group in (tradeoff.lines, tradeoff.private_baselines)
    )
    y_range = choose_y_range(picture, lines, baseline_curves)
    y_range = y_range[::-1] if metric.lower_is_better else y_range  # the better is above
    raw = any(bead.state is BoundState.RAW for track in tradeoff.lines for bead in track.points)
    end = (_RAW if raw else _NO_BOUND) + 0.9
    tick_labels = {
        log_odds(right): f"{100 * right:g}" for right in (0.75, 0.9, 0.99, MAX_INFORMATIVE_RATE)
    }
    tick_labels |= {0.0: "50<br>coin", _NO_BOUND: "<br>no<br>bound"} | (
        {_RAW: "<br>raw"} if raw else {}
    )
    fig = create_figure(
        "trade",
        height=height + 110,
        xaxis_range=[-0.25, end * (1 + _LEADER)],
        xaxis_tickvals=list(tick_labels),
        xaxis_ticktext=list(tick_labels.values()),
    )
    fig.add_shape("gutter", x0=_EDGE + 0.4, x1=end)
    fig.add_stroke([0, 0], y_range, MUTED, line_dash="dot", line_width=1)
    baselines = [
        (
            track.line,
            _place_band(track),
            [f"attacker {format_success(bead)}<br>" for bead in track.points],
        )
        for track in tradeoff.private_baselines
    ]
    tags = draw_reference_lines(
        fig, picture, (0, end), baselines, [line.mechanism for line in lines]
    )
    for track in tradeoff.lines:
        method_style = get_style(track.line.mechanism)
        placed_band = _place_band(track)
        last = track.points[-1]
        if track.measured_point is not None:
            bead_at_attack = track.point_at(track.measured_point.epsilon)
            measured_position = log_odds(min(track.min_success_rate, MAX_INFORMATIVE_RATE))
            if bead_at_attack.state is not BoundState.BOUND:
                ends = [measured_position, _bead_position(bead_at_attack)]
                fig.add_stroke(
                    ends,
                    [bead_at_attack.value.mean] * 2,
                    with_opacity(method_style.color, 0.4),
                    line_width=7,
                )
            fig.add_measurement(
                measured_position, bead_at_attack.value.mean, method_style, track.measured_point
            )
        fig.add_curve(
            placed_band,
            method_style,
            HOVER_TEXT,
            line_width=2,
            marker_size=6,
            marker_line_color=method_style.color,
            marker_line_width=1.5,
            marker_color=[_get_fill_color(track, bead) for bead in track.points],
            text=[_format_hover(track, bead) for bead in track.points],
        )
        end = _bead_position(last)
        tags.append(
            Tag(
                format_short_label(track.line),
                last.value.mean,
                method_style,
                last.state in _SOLID,
                end,
            )
        )
    _draw_label_column(fig, metric, tags, y_range, height)
    beads = [track.point_at(epsilon) for track in tradeoff.lines]
    mean = [bead.value.mean for bead in beads]
    positions = [*map(_bead_position, beads)]
    papers = [
        None if bead.claimed_rate is None else _attacker_position(bead.claimed_rate)
        for bead in beads
    ]
    arrows: list[float | None] = []
    for paper, position in zip(papers, positions, strict=True):
        is_far = paper is not None and abs(paper - position) > _MIN_GAP
        arrows += (paper, position, None) if is_far else (None,) * 3
    method_styles = [get_style(line.mechanism) for line in lines]
    fig.add_trace(
        "arrows",
        x=arrows,
        y=np.repeat(mean, 3).tolist(),
        marker_size=[0, 9, 0] * len(method_styles),
    )
    mark = {"symbol": [method_style.marker for method_style in method_styles], "opacity": 1}
    mark |= {
        "line_color": [method_style.color for method_style in method_styles],
        "line_width": 2.5,
    }
    fig.add_markers(papers, mean, mark | {"size": 18, "color": PAPER})
    texts, colors = (
        [*map(track, tradeoff.lines, beads)] for track in (_format_hover, _get_fill_color)
    )
    fig.add_markers(
        positions, mean, mark | {"size": 15, "color": colors}, text=texts, hover=HOVER_TEXT
    )
    return fig


def _get_fill_color(track: TradeLine, bead: TradePoint) -> str:
    return get_style(track.line.mechanism).color if bead.state in _SOLID else PAPER


def _attacker_position(right: float) -> float:
    return _NO_BOUND if right > MAX_INFORMATIVE_RATE else log_odds(right)


def _bead_position(bead: TradePoint) -> float:
    return _RAW if bead.state is BoundState.RAW else _attacker_position(bead.success_rate)


def _place_band(track: TradeLine) -> Band:
    return track.line.band._replace(x=np.array([_bead_position(bead) for bead in track.points]))


def _format_hover(track: TradeLine, bead: TradePoint) -> str:
    """Return the hover text of a point: mechanism, epsilon, metric and attacker."""
    value = track.line.metric.format_value(bead.value.mean)
    return (
        f"{track.line.label}<br>epsilon {bead.epsilon:g}: {value}<br>attacker"
        f" {format_success(bead)}"
    )


# --- rows of mechanisms ------------------------------------------------------------------------


def plot_epsilon_needed(
    answers: Sequence[RequiredEpsilon], x_range: Interval, waiting: Sequence[str] = ()
) -> Figure:
    """Plot the epsilon that a target quality needs: a dot with its interval for each mechanism.

    The dot is filled where the epsilon is certified, else hollow.

    Args:
        answers: the epsilons.
        x_range: the axis of the curves.
        waiting: mechanisms without a point yet.
    """
    placed_lines = [answer.plotted for answer in answers]
    fig, edge = _create_row_figure(placed_lines, x_range, waiting)
    for k, answer in enumerate(answers):
        placed_line, (value, low, high, seeds) = answer.plotted, answer.epsilon
        color = get_style(placed_line.line.mechanism).color
        text = format_required_epsilon(answer)
        first = float(placed_line.x[0])
        last = float(placed_line.x[-1])
        if math.isfinite(low) and seeds > 1:
            ends = (max(low, first), min(high, edge))
            # an arrow where it goes on beyond what was computed
            beyond = [10 * (low <= first < value), 10 * (high > last)]
            arrow = {"symbol": ["triangle-left", "triangle-right"], "size": beyond, "color": color}
            trace = {"mode": "lines+markers", "marker": arrow, "cliponaxis": False}
            _draw_row_segments(fig, k, [ends], with_opacity(color, 0.5), 7, **trace)
        if math.isfinite(value):
            span = (
                format_estimate_interval(answer.epsilon, first, last)
                if seeds > 1
                else "unknown: one seed"
            )
            _draw_row_markers(fig, k, placed_line, [value], [f"{text}, interval {span}"], size=12)
            _annotate_row(
                fig, k, value, f"<b>{text}</b>{_format_unit(placed_line, placed_lines, ' ')}"
            )
        else:
            _annotate_row(
                fig,
                k,
                edge,
                f"{text}: best {placed_line.line.metric.format_value(answer.best)}",
                MUTED,
            )
    return fig


def plot_best_ranges(
    standings: Sequence[LineComparison], x_range: Interval, waiting: Sequence[str] = ()
) -> Figure:
    """Plot where each mechanism is clearly the best (thick), and where none is better (thin)."""
    fig, edge = _create_row_figure([entry.plotted for entry in standings], x_range, waiting)
    for k, entry in enumerate(standings):
        x = entry.plotted.x
        color = get_style(entry.plotted.line.mechanism).color
        if not any(entry.rivals):
            _annotate_row(fig, k, edge, "nothing to compare with", MUTED)
        middle = np.sqrt(x[:-1] * x[1:])  # each reaches half way to its neighbours
        edges = np.clip([x[0] / 1.1, *middle, x[-1] * 1.1], *x_range).tolist()
        good = [
            n_rivals > 0 and not n_better
            for n_rivals, n_better in zip(entry.rivals, entry.behind, strict=True)
        ]
        for width, is_marked in ((4, good), (15, entry.best)):
            pairs = zip(itertools.pairwise(edges), is_marked, strict=True)
            _draw_row_segments(
                fig,
                k,
                [ends if is_drawn else (None, None) for ends, is_drawn in pairs],
                color,
                width,
            )
        hover_texts = [describe_line_comparison(entry, j) for j in range(len(x))]
        opacities = [float(is_drawn) for is_drawn in good]
        _draw_row_markers(
            fig, k, entry.plotted, x.tolist(), hover_texts, size=8, marker_opacity=opacities
        )
    return fig


def _create_row_figure(
    placed_lines: Sequence[PlottedLine], x_range: Interval, waiting: Sequence[str]
) -> tuple[Figure, float]:
    """Create a frame with a labelled row for each mechanism; waiting ones come last."""
    method_styles = [get_style(placed_line.line.mechanism) for placed_line in placed_lines] + [
        Style(MUTED, "")
    ] * len(waiting)
    names = [*_list_names(placed_lines), *map(registry.get_short_name, waiting)]
    tags = [
        Tag(name, -k, method_style, True)
        for k, (name, method_style) in enumerate(zip(names, method_styles, strict=True))
    ]
    height = len(tags) * max([_ROW, *(tag.height + 2 for tag in tags)])
    fig = _create_frame(height, x_range, placed_lines, margin_top=8)
    y_range = [0.5 - len(tags), 0.5]
    fig.update_layout(**STYLE_SHEET["figures"]["rows"], yaxis_range=y_range)
    draw_labels(fig, tags, y_range, height)
    edge = 10 ** fig.layout["xaxis"]["range"][1]
    for k, method_style in enumerate(method_styles):
        _draw_row_segments(
            fig,
            k,
            [(x_range[0], edge)],
            with_opacity(method_style.color, 0.45),
            1.5,
            line_dash="dot",
        )
        if k >= len(placed_lines):
            _annotate_row(fig, k, edge, MISSING, MUTED)
    return fig, edge


def _draw_row_segments(
    fig: Figure, row: int, ends: Sequence[tuple[Any, Any]], color: str, width: float, **trace: Any
) -> None:
    """Draw segments of a row."""
    x = [end for pair in ends for end in (*pair, None)][:-1]
    fig.add_stroke(x, [-row] * len(x), color, line_width=width, **trace)


def _draw_row_markers(
    fig: Figure,
    row: int,
    placed_line: PlottedLine,
    x: Values,
    texts: Sequence[str],
    size: int,
    **trace: Any,
) -> None:
    """Draw a mechanism's markers in its row."""
    label = placed_line.line.label
    marker = get_style(placed_line.line.mechanism)
    hover = f"{label}<br>epsilon %{{x:.4g}} {_format_counts(placed_line)}<br>{HOVER_TEXT}"
    mark = fig.make_marker(marker, solid=placed_line.is_certified, size=size)
    fig.add_markers(x, [-row] * len(x), mark, name=label, text=texts, hover=hover, **trace)


def _annotate_row(fig: Figure, row: int, x: float, text: str, color: str = INK) -> None:
    """Write text above a row, at an epsilon."""
    low, right = fig.layout["xaxis"]["range"]
    x = (math.log10(x) - low) / (right - low)
    fig.add_annotation("row", text=text, x=x, y=-row, font_color=color)
