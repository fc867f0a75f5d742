"""What lines run between, the axis they need, and their names at the right of the frame."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_lab.curves.lines import (
    BASELINE,
    POPULAR_LIST,
    Band,
    CurveChart,
    Line,
    format_baseline_name,
)
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

_WIDE = 17  # characters in a line of a name: all that a phone has room for
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of the axis: it seldom moves while rows arrive


class Tag(NamedTuple):
    """A name in the column. y_value: what it belongs to, on the vertical axis; None: nothing yet.

    solid: of a mechanism, whose marker it has; None for a level. end: where the curve ends.
    """

    text: str
    y_value: float | None
    method_style: Style
    solid: bool | None = None
    end: float = 0.0

    @property
    def lines(self) -> str:
        """Its text in lines for the column; a line break in it stays."""
        paragraphs = self.text.replace(" %", "\u00a0%").split("\n")
        wrap_options = {"break_long_words": False, "break_on_hyphens": False}
        return "<br>".join(
            line
            for paragraph in paragraphs
            for line in textwrap.wrap(paragraph, _WIDE, **wrap_options)
        )

    @property
    def height(self) -> int:
        """The pixels it takes."""
        return 16 * self.lines.count("<br>") + 20


def draw_labels(
    fig: Figure, tags: Sequence[Tag], y_range: Sequence[float], height: float
) -> list[float]:
    """Names at the right of the frame, near what they name and apart from each other.

    y_range: the ends of the upright axis. height: the frame, in pixels. The heights they stand at.
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


def draw_reference_lines(
    fig: Figure,
    picture: CurveChart,
    ends: Interval,
    baselines: Sequence[tuple[Line, Band, Sequence[str]]],
    ids: Sequence[str] = (),
    **trace: Any,
) -> list[Tag]:
    """What lines run between: levels across the frame, and guesses with what is said of them.

    Several guesses, each beside other methods, have the colours of theirs.
    """
    metric, tags = picture.metric, []
    for name, level in picture.flat_lines:
        value, color_and_dash = level.interval.mean, get_level_style(name, level.mechanism, ids)
        fig.add_level(ends, value, color_and_dash, f"{name}: {metric.format_value(value)}", **trace)
        label_text = f"{name}: {level.label.lower()}" if name in (BASELINE, POPULAR_LIST) else name
        label_text += f" {metric.format_value(value)}"
        tags.append(Tag(label_text, value, Style(color_and_dash[0], "circle"), end=ends[1]))
    for line, placed_band, texts in baselines:
        color = get_style(line.mechanism).color if len(baselines) > 1 else MUTED
        x, y, name = (
            placed_band.x.tolist(),
            placed_band.mean.tolist(),
            format_baseline_name(line.mechanism),
        )
        hover_start = "%{text}" * bool(texts)
        label = f"{name}: {line.label}"
        hover = f"{label}<br>{hover_start}<b>%{{y:{metric.number_format}}}</b><extra></extra>"
        fig.add_stroke(x, y, color, line_dash="dot", name=label, text=texts, hover=hover, **trace)
        label_text = f"{name}: {line.label.lower()} {metric.format_value(y[-1])}"
        tags.append(Tag(label_text, y[-1], Style(color, "circle"), end=x[-1]))
    return tags


def get_level_style(name: str, id: str, ids: Iterable[str]) -> tuple[str, str]:
    """Colour and dash of a level; that of one of the mechanisms alone has its colour."""
    method_colors = [
        get_style(other).color
        for other in ids
        if registry.get_mechanism(other).nonprivate_counterpart == id
    ]
    return LEVEL_STYLES.get(name) or (
        method_colors[0] if len(method_colors) == 1 else MUTED,
        "dash",
    )


def choose_y_range(
    picture: CurveChart, lines: Sequence[Line], baseline_lines: Sequence[Line]
) -> list[float]:
    """An upright axis over what lines run between, with some room, to the next round numbers.

    Bands reach up to a third beyond that: one wild seed hides no curve.
    """
    values = [level.interval.mean for _, level in picture.flat_lines]
    values += [v for curve_line in (*lines, *baseline_lines) for v in curve_line.band.mean]
    if not values:
        return [0.0, 1.0]
    low, high = min(values), max(values)
    bands = [v for curve_line in lines for v in (*curve_line.band.low, *curve_line.band.high)]
    third = (high - low) / 3
    ends = np.clip([*values, *bands], low - third, high + third)
    low, high = float(ends.min()), float(ends.max())
    room = 0.06 * (high - low) or 0.01
    step = next((s for s in _STEPS if high - low <= 12 * s), _STEPS[-1])
    return [step * math.floor((low - room) / step), step * math.ceil((high + room) / step)]
