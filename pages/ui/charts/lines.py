"""Draw baselines and references, choose the vertical axis, and label lines at the right."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_lab.views.lines import (
    Band,
    Curve,
    CurveChart,
)
from dpmc_lab.views.numbers import choose_step
from pages.ui.charts import (
    INK,
    LEVEL_STYLES,
    MUTED,
    Figure,
    Interval,
    Style,
    get_style,
    separate_labels,
)
from pages.ui.text import keep_units

_WIDE = 17  # characters in a line of a name: all that a phone has room for
_MIN_STEP = 0.01  # of the axis: it seldom moves while rows arrive


class Tag(NamedTuple):
    """A label in the column.

    Attributes:
        text: of the label.
        y_value: where the curve or level that it names is on the vertical axis; None before it has
            a value.
        method_style: style of the method.
        solid: whether the marker of a mechanism is solid; None for a level, which has no marker.
        end: where the curve ends on the horizontal axis.
    """

    text: str
    y_value: float | None
    method_style: Style
    solid: bool | None = None
    end: float = 0.0

    @property
    def lines(self) -> str:
        """Return the text in lines for the column; line breaks in it stay."""
        paragraphs = keep_units(self.text).split("\n")
        wrap_options = {"break_long_words": False, "break_on_hyphens": False}
        return "<br>".join(
            line
            for paragraph in paragraphs
            for line in textwrap.wrap(paragraph, _WIDE, **wrap_options)
        )

    @property
    def height(self) -> int:
        """Return the height of the label in pixels."""
        return 16 * self.lines.count("<br>") + 20


def place_labels(
    fig: Figure, tags: Sequence[Tag], y_range: Sequence[float], height: float
) -> list[float]:
    """Place labels at the right of the frame, near what they name and apart from each other.

    Args:
        fig: the figure.
        tags: the labels.
        y_range: ends of the vertical axis.
        height: of the frame, in pixels.

    Returns:
        The values on the vertical axis at which they are drawn.
    """
    scale = (y_range[1] - y_range[0]) / height
    targets = [
        height if tag.y_value is None else (y_range[1] - tag.y_value) / scale for tag in tags
    ]
    positions = separate_labels(targets, [tag.height for tag in tags], height)
    for position, tag in zip(positions, tags, strict=True):
        color = MUTED if tag.solid is None else INK
        fig.add_annotation("beside", text=tag.lines, y=1 - position / height, font_color=color)
    return [y_range[1] - position * scale for position in positions]


def add_reference_lines(
    fig: Figure,
    chart: CurveChart,
    ends: Interval,
    baselines: Sequence[tuple[Curve, Band, Sequence[str]]],
    ids: Sequence[str],
    **trace: Any,
) -> list[Tag]:
    """Add the methods without epsilon as levels and the private baselines, and return labels.

    Several baselines have the colours of their mechanisms; a single one is grey.

    Args:
        fig: the figure.
        chart: the chart.
        ends: ends of the horizontal axis.
        baselines: line, band on the axis, and hover texts (or none) of each private baseline.
        ids: ids of the mechanisms in the figure.
        **trace: further options of every line.
    """
    metric, tags = chart.metric, []
    for level in chart.levels:
        name, value = level.name, level.interval.mean
        color_and_dash = get_level_style(level, ids)
        fig.add_level(ends, value, color_and_dash, f"{name}: {metric.format_value(value)}", **trace)
        tags.append(Tag(name, value, Style(color_and_dash[0], "circle"), end=ends[1]))
    for line, placed_band, texts in baselines:
        color = get_style(line.mechanism).color if len(baselines) > 1 else MUTED
        x = placed_band.x.tolist()
        y = placed_band.mean.tolist()
        hover_start = "%{text}" * bool(texts)
        label = line.name
        hover = f"{label}<br>{hover_start}<b>%{{y:{metric.number_format}}}</b><extra></extra>"
        fig.add_stroke(x, y, color, line_dash="dot", name=label, text=texts, hover=hover, **trace)
        tags.append(Tag(label, y[-1], Style(color, "circle"), end=x[-1]))
    return tags


def get_level_style(level: Curve, ids: Iterable[str]) -> tuple[str, str]:
    """Return the colour and dash of the level of a method without epsilon.

    The nonprivate counterpart of just one of the mechanisms has the colour of that mechanism.

    Args:
        level: the level.
        ids: ids of the mechanisms in the figure.
    """
    method_colors = [
        get_style(other).color
        for other in ids
        if registry.get_mechanism(other).nonprivate_counterpart == level.mechanism
    ]
    return LEVEL_STYLES.get(level.role) or (
        method_colors[0] if len(method_colors) == 1 else MUTED,
        "dash",
    )


def choose_y_range(
    chart: CurveChart, lines: Sequence[Curve], baseline_lines: Sequence[Curve]
) -> list[float]:
    """Return a vertical axis over baselines, references and lines, rounded outwards; up is better.

    Bands count up to a third of the range beyond that, so one extreme seed does not hide a curve.

    Args:
        chart: the chart with its levels.
        lines: the lines, whose bands count too.
        baseline_lines: private baselines.
    """
    values = [level.interval.mean for level in chart.levels]
    values += [v for curve_line in (*lines, *baseline_lines) for v in curve_line.band.mean]
    if not values:
        return [0.0, 1.0]
    low, high = min(values), max(values)
    bands = [v for curve_line in lines for v in (*curve_line.band.low, *curve_line.band.high)]
    third = (high - low) / 3
    ends = np.clip([*values, *bands], low - third, high + third)
    low = float(ends.min())
    high = float(ends.max())
    room = 0.06 * (high - low) or 0.01
    step = choose_step(max(_MIN_STEP, (high - low) / 12))
    y_range = [step * math.floor((low - room) / step), step * math.ceil((high + room) / step)]
    return y_range[:: int(chart.metric.sign)]


def choose_ticks(ends: Sequence[float], *, is_share: bool) -> list[tuple[float, str]]:
    """Return at most five round values between two ends, with their texts."""
    low, high = sorted(ends)
    step = choose_step((high - low) / 4)
    digits = max(1, -math.floor(math.log10(step)))
    values = [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    form = (lambda v: f"{100 * v:.3g} %") if is_share else f"{{:.{digits}f}}".format
    return [(v, form(v).replace("-", "\u2212")) for v in values]
