"""Draw accuracy against the fourteen epsilons of the slider: the chart of the instrument.

Its epsilons are equally spaced, at the positions of the slider's stops, and its margins are fixed.
So the slider, the rule and the dot share one axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpmc_lab.curves.cards import format_epsilon
from dpmc_lab.curves.lines import Band, CurveChart, Line, has_item_features, select_ranking_metrics
from dpmc_lab.curves.measurements import find_measured_point
from pages.ui.charts import (
    EPSILON_AXIS,
    INK,
    MUTED,
    PAPER,
    PERCENT_TICKS,
    Figure,
    Theme,
    apply_theme,
    create_figure,
    get_style,
)
from pages.ui.charts.lines import Tag, choose_y_range, draw_labels, draw_reference_lines

PUBLISHED = "the paper's estimate"
WITHOUT_FACTS = "without public facts"
HEIGHT = 340  # at least: the component gives it what room the window has
MARGIN = {"l": 44, "r": 158, "t": 8, "b": 48}  # the component places its slider by them
EDGE_ROOM = 0.5  # of a stop, left of the first and right of the last one


def plot_instrument(picture: CurveChart, epsilons: Sequence[float], *, certified: bool) -> Figure:
    """Plot lines with bands over seeds, baselines and references, a rule, and finally the dot.

    The first line is this program's estimate from the reports. A second one, from the same reports
    and with the same certificate, is the paper's estimate. Markers are solid where the claim is
    certified and hollow where it is only claimed.
    """
    stop_positions = {e: float(k) for k, e in enumerate(epsilons)}
    x_range = (-EDGE_ROOM, len(epsilons) - 1 + EDGE_ROOM)
    y_range = choose_y_range(picture, picture.lines, picture.private_baselines)
    fig = create_figure(
        "instrument",
        height=HEIGHT,
        margin=MARGIN,
        xaxis_range=list(x_range),
        xaxis_tickvals=list(stop_positions.values()),
        xaxis_ticktext=[f"{e:g}" for e in epsilons],
        yaxis_range=y_range,
        yaxis_tickformat=picture.metric.tick_format and PERCENT_TICKS,
    )
    fig.add_vertical_line(0)
    if not picture.lines:
        fig.update_layout(yaxis_range=[0, 1], yaxis_showticklabels=picture.metric.is_share)
        fig.add_markers([], [], {})
        return fig
    first_line = picture.lines[0]
    method_style = get_style(first_line.mechanism)
    baselines = [
        (baseline_line, _select_band(baseline_line, stop_positions), ())
        for baseline_line in picture.private_baselines
    ]
    tags = draw_reference_lines(fig, picture, x_range, baselines, [first_line.mechanism])
    tags += _draw_lines(fig, picture, stop_positions, certified=certified)
    frame = MARGIN["t"] + MARGIN["b"]
    draw_labels(fig, tags, y_range, HEIGHT - frame)
    # where they stand in every height of the component, by its twenties of pixels
    fig.update_layout(
        meta={str(k): draw_labels(Figure({}), tags, y_range, 20 * k - frame) for k in range(14, 60)}
    )
    if (measurement := find_measured_point(first_line)) and epsilons[
        0
    ] <= measurement.measured <= epsilons[-1]:
        x_position = float(
            np.interp(math.log(measurement.measured), np.log(epsilons), range(len(epsilons)))
        )
        point = first_line.interval_at(measurement.epsilon)
        fig.add_measurement(x_position, point and point.mean, method_style, measurement)
        bound_text = format_epsilon(measurement.measured, round_down=True)
        fig.add_annotation(
            "measured", x=x_position, y=point and point.mean, text=f"an attack shows {bound_text}"
        )
    fill, edge = (method_style.color, PAPER) if certified else (PAPER, method_style.color)
    # where the slider stands; the component moves it
    fig.add_markers([0], [None], {"size": 16, "color": fill, "line_color": edge, "line_width": 3})
    return fig


def _select_band(curve_line: Line, stop_positions: Mapping[float, float]) -> Band:
    """Return the band at those epsilons that have a stop."""
    mask = np.isin(curve_line.epsilon, [*stop_positions])
    selected = Band(*(values[mask] for values in curve_line.band))
    return selected._replace(x=np.array([stop_positions[e] for e in selected.x.tolist()]))


def _draw_lines(
    fig: Figure,
    picture: CurveChart,
    stop_positions: Mapping[float, float],
    hover_start: str = "",
    *,
    certified: bool,
    **trace: Any,
) -> list[Tag]:
    """Draw the lines of a mechanism: this program's estimate, and behind it another.

    Args:
        fig: the figure.
        picture: the chart.
        stop_positions: positions by epsilon.
        hover_start: text at the beginning of every hover text.
        certified: whether the claim is certified.
        **trace: further options of the lines.
    """
    text = picture.metric.format_value
    tags = []
    for curve_line in reversed(picture.lines):
        method_style = get_style(curve_line.mechanism)
        line_band = _select_band(curve_line, stop_positions)
        name = ""
        if curve_line is not picture.lines[0]:
            name = WITHOUT_FACTS if has_item_features(picture.lines[0]) else PUBLISHED
            tags.append(Tag(name, float(line_band.mean[-1]), method_style))
        fig.add_curve(
            line_band,
            method_style._replace(dash="dot") if name else method_style,
            f"{hover_start}<b>%{{y:{picture.metric.number_format}}}</b>"
            f" (%{{customdata}})<extra>{name}</extra>",
            fill=0.1 if name else 0.22,
            line_width=1.5 if name else 2.5,
            marker=fig.make_marker(method_style, solid=certified, size=4 if name else 8),
            customdata=[
                f"{text(low)} to {text(high)}"
                for low, high in zip(line_band.low, line_band.high, strict=True)
            ],
            **trace,
        )
    return tags


def build_stop_figures(fig: Figure, stops: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """Return the instrument's picture with its dot and its rule at each stop."""
    *remainder, dot = fig.data
    (rule,) = fig.layout["shapes"]
    return [
        Figure(
            fig.layout | {"shapes": [rule | {"x0": k, "x1": k}]},
            [*remainder, dot | {"x": [k], "y": [stop["value"]]}],
        )
        for k, stop in enumerate(stops)
    ]


def get_instrument_colors(theme: Theme, mechanism: str) -> dict[str, Any]:
    """Return the colours that the component around the chart uses."""
    theme_colors = {
        "ink": INK,
        "muted": MUTED,
        "method": get_style(mechanism).color,
        "paper": PAPER,
    }
    return dict(apply_theme(theme_colors, theme))


# --- rankings: under both candidate sets ---------------------------------------------------------


def plot_ranking_bars(mechanism: str, methods: Mapping[str, Mapping[str, float]]) -> Figure:
    """Plot four groups of bars: HR@10 and NDCG@10 under both candidate sets, the run's first."""
    fig = create_figure("run_bars")
    bar_styles = ((get_style(mechanism).color, ""), (INK, "/"), (MUTED, "."))
    for k, (name, values) in enumerate(select_ranking_metrics(methods).items()):
        fig.add_trace(
            "bars",
            x=[metric.panel_title for metric in values],
            y=list(values.values()),
            text=[metric.format_value(value) for metric, value in values.items()],
            name=name,
            marker_color=bar_styles[k % 3][0],
            marker_pattern_shape=bar_styles[k % 3][1],
            hover=f"{name}<br>%{{x}}: <b>%{{text}}</b><extra></extra>",
        )
    return fig


def plot_metrics_by_epsilon(
    panels: Sequence[CurveChart], epsilon: float, *, certified: bool
) -> Figure:
    """Plot one small chart per metric, with no privacy dashed and popularity dotted."""
    fig = create_figure("against_epsilon")
    for panel, panel_picture in zip(("", "2", "3", "4"), panels, strict=True):
        fig.add_panel_title(panel, panel_picture.metric.panel_title)
        epsilons = panel_picture.lines[0].epsilon.tolist()
        stop_positions = dict(zip(epsilons, epsilons, strict=True))
        baselines = [
            (baseline_line, baseline_line.band, ())
            for baseline_line in panel_picture.private_baselines
        ]
        draw_reference_lines(
            fig, panel_picture, (epsilons[0], epsilons[-1]), baselines, panel=panel
        )
        _draw_lines(
            fig, panel_picture, stop_positions, "epsilon %{x:g}: ", certified=certified, panel=panel
        )
        fig.add_vertical_line(epsilon, panel=panel)
        axis = EPSILON_AXIS | {"title": {}}
        fig.update_layout(
            **{
                f"xaxis{panel}": axis,
                f"yaxis{panel}_tickformat": panel_picture.metric.tick_format and PERCENT_TICKS,
            }
        )
    return fig
