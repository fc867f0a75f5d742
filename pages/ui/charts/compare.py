"""Draw several mechanisms in one picture: curves with bands, differences, the cost of a quality.

All of them have the same axis of epsilon. Labels are in a column at the right, outside the frame,
where they cover nothing, in lines short enough for a phone.
"""

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np

from dpmc_core import registry
from dpmc_lab.views.compare import find_epsilon, subtract_best
from dpmc_lab.views.lines import (
    Band,
    CurveChart,
    PlottedLine,
    format_short_label,
    has_item_features,
)
from dpmc_lab.views.measurements import (
    find_default_measured_bound,
    find_line_bound,
    is_refuted,
)
from dpmc_lab.views.numbers import (
    RequiredEpsilon,
    format_estimate_interval,
    format_required_epsilon,
)
from dpmc_lab.views.trade import (
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
    LEVEL_STYLES,
    LOG,
    MUTED,
    PAPER,
    STYLE_SHEET,
    Figure,
    Interval,
    Style,
    create_figure,
    get_style,
    with_opacity,
)
from pages.ui.charts.lines import (
    Tag,
    add_reference_lines,
    choose_ticks,
    choose_y_range,
    place_labels,
)

_FRAME = {"l": 48, "r": 126, "b": 46}  # pixels around what is drawn
_MIN_HEIGHT = 360  # pixels that curves are high
_ROW = 46  # of a mechanism among several
_LEADER = 0.07  # of the width: from the ends of curves to their names
_LABEL_START = 0.75  # of the width: from here on a curve is led to its name
_LEADER_PIXELS = 30  # a label that is further from its curve has only its marker
MISSING = "no curve yet"


# --- curves ------------------------------------------------------------------------------------


def plot_comparison(
    chart: CurveChart,
    placed_lines: Sequence[PlottedLine],
    ends: Interval,
    waiting: Sequence[str] = (),
    baselines: Sequence[PlottedLine] = (),
    refuted: Collection[str] = (),
    epsilon: float | None = None,
) -> Figure:
    """Plot curves whose markers are solid where an epsilon is certified in the axis unit.

    Args:
        chart: the chart.
        placed_lines: its lines.
        ends: epsilons that are always within the axis.
        waiting: mechanisms without a point yet; with them the picture stays still while it fills.
        baselines: private baselines of the chart.
        refuted: ids of mechanisms whose claims an attack of this session refuted.
        epsilon: where a rule reads the value of each curve, beside its name (default: nowhere).
    """
    x_range = get_epsilon_range(ends, [*placed_lines, *baselines])
    fig = _create_frame(_MIN_HEIGHT, x_range, placed_lines)
    ids = [*{entry.line.mechanism for entry in placed_lines}, *waiting]
    baseline_lines = [
        (entry.line, entry.band, [f"epsilon {x:.4g} {entry.unit}<br>" for x in entry.x])
        for entry in baselines
    ]
    tags = add_reference_lines(fig, chart, x_range, baseline_lines, ids)
    measured: list[tuple[float, float]] = []
    tags += _add_curves(fig, placed_lines, refuted, epsilon, chart.metric.format_value)
    for entry in placed_lines:
        if (
            (measurement := find_line_bound(entry.line))
            and measurement.change.label == entry.unit
            and measurement.measured < x_range[1]
            and (point := entry.line.interval_at(measurement.epsilon))
        ):
            measured.append((measurement.measured, point.mean))
            fig.add_measurement(*measured[-1], get_style(entry.line.mechanism), measurement)
    tags += [
        Tag(f"{registry.get_short_name(id)}\n{MISSING}", None, get_style(id), True)
        for id in waiting
    ]
    curves = ([entry.line for entry in group] for group in (placed_lines, baselines))
    y_range, metric = choose_y_range(chart, *curves), chart.metric
    _draw_label_column(fig, metric.axis_title, tags, y_range, is_share=metric.is_share)
    for x, y in sorted(measured)[:1]:  # the others stand close to it
        fig.add_annotation("measured", x=math.log10(x), y=y)
    _draw_rule(fig, epsilon)
    return fig


def _add_curves(
    fig: Figure,
    placed_lines: Sequence[PlottedLine],
    refuted: Collection[str],
    epsilon: float | None,
    write: Callable[[float], str],
    *,
    fill: float = 0.16,
) -> list[Tag]:
    """Add curves with their bands, and return labels with the values at an epsilon.

    Args:
        fig: the figure.
        placed_lines: the lines.
        refuted: ids of mechanisms whose claims an attack of this session refuted.
        epsilon: where the values are read, if it was computed.
        write: formats a value.
        fill: opacity of the bands.
    """
    tags = []
    methods_with_features = {
        entry.line.mechanism for entry in placed_lines if has_item_features(entry.line)
    }
    for name, entry in zip(_list_names(placed_lines), placed_lines, strict=True):
        line = entry.line
        method_style = _get_claim_style(entry, refuted)
        is_earlier = not has_item_features(line) and line.mechanism in methods_with_features
        x, *values, seeds = (column.tolist() for column in entry.band)
        mean, low, high = ([*map(write, column)] for column in values)
        fig.add_curve(
            entry.band,
            method_style._replace(dash="dot") if is_earlier else method_style,
            f"{line.label}<br>epsilon %{{x:.4g}}"
            f" {_format_counts(entry)}<br><b>%{{customdata[0]}}</b>,"
            " band %{customdata[1]} to %{customdata[2]}, seeds: %{customdata[3]}<extra></extra>",
            fill=fill,
            name=f"{line.label} · {_format_counts(entry)}",
            marker=fig.make_marker(method_style, solid=entry.is_certified),
            customdata=[*zip(mean, low, high, seeds, strict=True)],
        )
        name += "".join(f"\n{mean[k]}" for k in find_epsilon(entry.x, epsilon or 0.0))
        tags.append(Tag(name, values[0][-1], method_style, entry.is_certified, x[-1]))
    return tags


def _draw_rule(fig: Figure, epsilon: float | None) -> None:
    """Draw the rule at an epsilon, with its name above."""
    if epsilon is not None:
        fig.add_vertical_line(epsilon)
        x = math.log10(epsilon)  # of a note, on a logarithmic axis
        fig.add_annotation("rule", text=f"epsilon {epsilon:g}", x=x)


def plot_differences(
    chart: CurveChart,
    placed_lines: Sequence[PlottedLine],
    ends: Interval,
    focus: Collection[str] = (),
    refuted: Collection[str] = (),
    epsilon: float | None = None,
) -> Figure:
    """Plot how far each mechanism is below the best at each epsilon.

    Args:
        chart: the chart.
        placed_lines: its lines.
        ends: epsilons that are always within the axis.
        focus: ids of the mechanisms that the axis fits; other lines may leave it (default: all).
        refuted: ids of mechanisms whose claims an attack of this session refuted.
        epsilon: where a rule reads the difference of each curve, beside its name.
    """
    differences, best = subtract_best(placed_lines)
    metric = chart.metric
    unit = "percentage points" if metric.is_share else metric.unit
    factor = metric.sign * (100 if metric.is_share else 1)
    in_focus = [entry for entry in differences if not focus or entry.line.mechanism in focus]
    low = min([-0.01, *(1.5 * float(entry.band.mean.min()) for entry in in_focus)])
    y_range = [low, -0.45 * low]
    x_range = get_epsilon_range(ends, placed_lines)
    fig = _create_frame(_MIN_HEIGHT, x_range, placed_lines)
    tags, x = [], [*best]
    for curve in chart.endpoints:
        color, dash = LEVEL_STYLES.get(curve.role, (MUTED, "dash"))
        y = [factor * (float(curve.band.mean[-1]) - level) for level in best.values()]
        fig.add_stroke(x, y, color, line_dash=dash, name=curve.name)
        tags.append(Tag(curve.name, y[-1], Style(color, "circle"), end=x[-1]))
    tags += _add_curves(
        fig,
        differences,
        refuted,
        epsilon,
        lambda value: f"{value:+.2f}".replace("-", "\u2212"),
        fill=0.08,
    )
    for k, tag in enumerate(tags):  # an arrow says that a line has left the frame
        y = min(max(tag.y_value or 0.0, low), y_range[1])
        arrow = "" if y == tag.y_value else "↓ " if y == low else "↑ "
        tags[k] = tag._replace(text=arrow + tag.text, y_value=y, end=tag.end * (not arrow))
    _draw_label_column(fig, f"{metric.title}, difference to the best ({unit})", tags, y_range)
    _draw_rule(fig, epsilon)
    return fig


def _get_claim_style(entry: PlottedLine, refuted: Collection[str]) -> Style:
    """Return the style of a line's method, with a crossed ring where its claim is refuted."""
    style = get_style(entry.line.mechanism)
    id = entry.line.mechanism
    is_crossed = id in refuted or is_refuted(find_default_measured_bound(id))
    return style._replace(marker="circle-x") if is_crossed and not entry.is_certified else style


def get_epsilon_range(ends: Interval, placed_lines: Sequence[PlottedLine]) -> Interval:
    """Return the ends of an axis of epsilon that shows the grid's ends and every point of lines.

    In another unit, a line may lie beyond the grid.
    """
    epsilons = [*ends, *(float(x) for placed_line in placed_lines for x in placed_line.x)]
    return min(epsilons) / 1.15, max(epsilons) * 1.15


def widen_margin(fig: Figure) -> Figure:
    """Widen the margin so that labels fit in any font, for pages that are wider than a phone."""
    fig.update_layout(margin_r=_FRAME["r"] + 40)
    return fig


def _create_frame(
    height: float, x_range: Interval, placed_lines: Sequence[PlottedLine], margin_top: int = 34
) -> Figure:
    """Create an empty picture over epsilon with a frame of this height and a margin above.

    Args:
        height: of the frame, in pixels.
        x_range: ends of the axis of epsilon.
        placed_lines: the lines, for the name of the axis.
        margin_top: above the frame, in pixels.
    """
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
    """Return a short label for each line, with the unit of its epsilon if the units differ."""
    return [
        format_short_label(placed_line.line) + _format_unit(placed_line, placed_lines, "\n")
        for placed_line in placed_lines
    ]


def _format_unit(
    placed_line: PlottedLine, placed_lines: Sequence[PlottedLine], separator: str
) -> str:
    """Return the unit of a line's epsilon after a separator; empty if all lines have the same."""
    counts = placed_line.counted.replace("user-item cell", "cell")
    return f"{separator}{counts}" * (len({other.unit for other in placed_lines}) > 1)


def _format_counts(placed_line: PlottedLine) -> str:
    """Return the unit of a line's epsilon, and that it is not certified if so."""
    return placed_line.unit + ", not certified" * (not placed_line.is_certified)


def _draw_label_column(
    fig: Figure,
    axis_title: str,
    tags: Sequence[Tag],
    y_range: Sequence[float],
    *,
    is_share: bool = False,
) -> None:
    """Draw the vertical axis, and labels at the right of the frame, which grows to hold them.

    A label is as near as possible to the curve or level that it names, and connected to it.

    Args:
        fig: the figure.
        axis_title: what the vertical axis measures.
        tags: the labels.
        y_range: ends of the vertical axis.
        is_share: whether its values are shares.
    """
    height = max(_MIN_HEIGHT, sum(tag.height for tag in tags))
    fig.layout["height"] += height - _MIN_HEIGHT
    ticks, texts = zip(*choose_ticks(y_range, is_share=is_share), strict=True)
    fig.update_layout(yaxis_range=y_range, yaxis_tickvals=ticks, yaxis_ticktext=texts)
    fig.add_annotation("axis", text=axis_title)
    low, right = fig.layout["xaxis"]["range"]
    label_start = low + _LABEL_START * (right - low)
    edge = right
    per_pixel = abs(y_range[1] - y_range[0]) / height
    if "type" in fig.layout["xaxis"]:
        label_start = 10**label_start
        edge = 10**edge
    for tag, y in zip(tags, place_labels(fig, tags, y_range, height), strict=True):
        is_near = tag.y_value is not None and abs(y - tag.y_value) <= _LEADER_PIXELS * per_pixel
        is_connected = is_near and tag.end >= label_start
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


def plot_accuracy_against_attacker(tradeoff: TradeChart, epsilon: float) -> Figure:
    """Plot the metric against how often an attacker, who starts with a coin, is right at most.

    The last three traces mark the chosen epsilon on every line: the position by the paper's claim
    (hollow), the position by the releases, and an arrow from the first to the second.

    Args:
        tradeoff: the lines under one question.
        epsilon: the chosen epsilon.
    """
    chart = tradeoff.chart
    metric = tradeoff.chart.metric
    lines, baseline_curves = (
        [trade_line.line for trade_line in line_group]
        for line_group in (tradeoff.lines, tradeoff.private_baselines)
    )
    y_range = choose_y_range(chart, lines, baseline_curves)
    raw = any(
        point.state is BoundState.RAW
        for trade_line in tradeoff.lines
        for point in trade_line.points
    )
    end = (_RAW if raw else _NO_BOUND) + 0.9
    tick_labels = {
        log_odds(right): f"{100 * right:g}" for right in (0.75, 0.9, 0.99, MAX_INFORMATIVE_RATE)
    }
    tick_labels |= {0.0: "50<br>coin", _NO_BOUND: "<br>no<br>bound"} | (
        {_RAW: "<br>raw"} if raw else {}
    )
    fig = create_figure(
        "trade",
        height=_MIN_HEIGHT + 110,
        xaxis_range=[-0.25, end * (1 + _LEADER)],
        xaxis_tickvals=list(tick_labels),
        xaxis_ticktext=list(tick_labels.values()),
    )
    fig.add_shape("gutter", x0=_EDGE + 0.4, x1=end)
    fig.add_stroke([0, 0], y_range, MUTED, line_dash="dot", line_width=1)
    baselines = [
        (
            trade_line.line,
            _place_band(trade_line),
            [f"attacker {format_success(point)}<br>" for point in trade_line.points],
        )
        for trade_line in tradeoff.private_baselines
    ]
    tags = add_reference_lines(fig, chart, (0, end), baselines, [line.mechanism for line in lines])
    for trade_line in tradeoff.lines:
        method_style = get_style(trade_line.line.mechanism)
        last = trade_line.points[-1]
        if trade_line.measured_point is not None:
            attacked_point = trade_line.point_at(trade_line.measured_point.epsilon)
            x = log_odds(min(trade_line.min_success_rate, MAX_INFORMATIVE_RATE))
            y = attacked_point.value.mean
            if attacked_point.state is not BoundState.BOUND:
                color = with_opacity(method_style.color, 0.4)
                fig.add_stroke([x, _point_position(attacked_point)], [y, y], color, line_width=7)
            fig.add_measurement(x, y, method_style, trade_line.measured_point)
        fig.add_curve(
            _place_band(trade_line),
            method_style,
            HOVER_TEXT,
            line_width=2,
            marker_size=6,
            marker_line_color=method_style.color,
            marker_line_width=1.5,
            marker_color=[_get_fill_color(trade_line, point) for point in trade_line.points],
            text=[_format_hover(trade_line, point) for point in trade_line.points],
        )
        end = _point_position(last)
        tags.append(
            Tag(
                format_short_label(trade_line.line),
                last.value.mean,
                method_style,
                last.state in _SOLID,
                end,
            )
        )
    _draw_label_column(fig, metric.axis_title, tags, y_range, is_share=metric.is_share)
    points = [trade_line.point_at(epsilon) for trade_line in tradeoff.lines]
    mean = [point.value.mean for point in points]
    positions = [*map(_point_position, points)]
    papers = [
        None if point.claimed_rate is None else _attacker_position(point.claimed_rate)
        for point in points
    ]
    arrows: list[float | None] = []
    for paper, position in zip(papers, positions, strict=True):
        is_far = paper is not None and abs(paper - position) > _MIN_GAP
        arrows += (paper, position, None) if is_far else (None,) * 3
    sizes = [0, 9, 0] * len(lines)
    fig.add_trace("arrows", x=arrows, y=np.repeat(mean, 3).tolist(), marker_size=sizes)
    line_colors, symbols, _ = zip(*(get_style(line.mechanism) for line in lines), strict=True)
    mark = {"symbol": symbols, "opacity": 1, "line_color": line_colors, "line_width": 2.5}
    fig.add_markers(papers, mean, mark | {"size": 18, "color": PAPER})
    texts, colors = (
        [*map(make, tradeoff.lines, points)] for make in (_format_hover, _get_fill_color)
    )
    fig.add_markers(
        positions, mean, mark | {"size": 15, "color": colors}, text=texts, hover=HOVER_TEXT
    )
    return fig


def _get_fill_color(trade_line: TradeLine, point: TradePoint) -> str:
    return get_style(trade_line.line.mechanism).color if point.state in _SOLID else PAPER


def _attacker_position(right: float) -> float:
    """Return where a success rate is on the attacker's axis, or in the strip for missing bounds."""
    return _NO_BOUND if right > MAX_INFORMATIVE_RATE else log_odds(right)


def _point_position(point: TradePoint) -> float:
    return _RAW if point.state is BoundState.RAW else _attacker_position(point.success_rate)


def _place_band(trade_line: TradeLine) -> Band:
    return trade_line.line.band._replace(
        x=np.array([_point_position(point) for point in trade_line.points])
    )


def _format_hover(trade_line: TradeLine, point: TradePoint) -> str:
    """Return the hover text of a point: mechanism, epsilon, metric and attacker."""
    value = trade_line.line.metric.format_value(point.value.mean)
    return (
        f"{trade_line.line.label}<br>epsilon {point.epsilon:g}: {value}<br>attacker"
        f" {format_success(point)}"
    )


# --- rows of mechanisms ------------------------------------------------------------------------


def plot_epsilon_needed(
    answers: Sequence[RequiredEpsilon],
    x_range: Interval,
    waiting: Sequence[str] = (),
    refuted: Collection[str] = (),
) -> Figure:
    """Plot the epsilon that a target quality needs: a dot with its interval for each mechanism.

    The dot is filled where the epsilon is certified, else hollow.

    Args:
        answers: the epsilons.
        x_range: the axis of the curves.
        waiting: mechanisms without a point yet.
        refuted: ids of mechanisms whose claims an attack of this session refuted.
    """
    placed_lines = [answer.plotted for answer in answers]
    fig, edge = _create_row_figure(placed_lines, x_range, waiting)
    for k, answer in enumerate(answers):
        placed_line, (value, low, high, seeds) = answer.plotted, answer.epsilon
        method_style = _get_claim_style(placed_line, refuted)
        color = method_style.color
        text = format_required_epsilon(answer)
        first = float(placed_line.x[0])
        last = float(placed_line.x[-1])
        if math.isfinite(low) and seeds > 1:
            ends = (max(low, first), min(high, edge))
            # an arrow where it goes on beyond what was computed
            beyond = [10 * (low <= first < value), 10 * (high > last)]
            fig.add_trace(
                "span",
                x=ends,
                y=[-k] * 2,
                line_color=with_opacity(color, 0.5),
                marker_size=beyond,
                marker_color=color,
            )
        if math.isfinite(value):
            span = (
                format_estimate_interval(answer.epsilon, first, last)
                if seeds > 1
                else "unknown: one seed"
            )
            label = placed_line.line.label
            fig.add_markers(
                [value],
                [-k],
                fig.make_marker(method_style, solid=placed_line.is_certified, size=12),
                name=label,
                text=[f"{text}, interval {span}"],
                hover=f"{label}<br>epsilon %{{x:.4g}} {_format_counts(placed_line)}<br>"
                + HOVER_TEXT,
            )
            _annotate_row(
                fig, k, value, f"<b>{text}</b>{_format_unit(placed_line, placed_lines, ' ')}"
            )
        else:
            best, target = map(placed_line.line.metric.format_value, (answer.best, answer.target))
            near = "just short of " * (best == target)  # where both are rounded alike
            _annotate_row(fig, k, edge, f"{text}: best {near}{best}", MUTED)
    return fig


def _create_row_figure(
    placed_lines: Sequence[PlottedLine], x_range: Interval, waiting: Sequence[str]
) -> tuple[Figure, float]:
    """Create a figure with a labelled row for each mechanism, and those without a point last.

    Args:
        placed_lines: the lines of the mechanisms.
        x_range: ends of the axis of epsilon.
        waiting: ids of mechanisms without a point yet.

    Returns:
        The figure, and the epsilon at its right edge.
    """
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
    place_labels(fig, tags, y_range, height)
    edge = 10 ** fig.layout["xaxis"]["range"][1]
    for k, method_style in enumerate(method_styles):
        color = with_opacity(method_style.color, 0.45)
        fig.add_stroke([x_range[0], edge], [-k] * 2, color, line_width=1.5, line_dash="dot")
        if k >= len(placed_lines):
            _annotate_row(fig, k, edge, MISSING, MUTED)
    return fig, edge


def _annotate_row(fig: Figure, row: int, x: float, text: str, color: str = INK) -> None:
    """Write text above a row, at an epsilon."""
    low, right = fig.layout["xaxis"]["range"]
    x = (math.log10(x) - low) / (right - low)
    fig.add_annotation("row", text=text, x=x, y=-row, font_color=color)
