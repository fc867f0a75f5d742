"""Describe the lower chart of What if, and draw rankings under both candidate sets."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.metrics import Metric
from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views.cards import ClaimState
from dpmc_lab.views.lines import Curve, CurveChart, Interval, Role, select_ranking_metrics
from dpmc_lab.views.what_if import Stop
from pages.ui import sentences
from pages.ui.charts import (
    BASELINE,
    GRID,
    INK,
    MUTED,
    PAPER,
    RISK,
    USEFULNESS,
    Figure,
    Theme,
    apply_theme,
    create_figure,
    separate_labels,
)
from pages.ui.charts.lines import STEPS

Span = tuple[float, float]
Values = Sequence[float | None]
ToRow = Callable[[float], float]


class PictureLayout(NamedTuple):
    """Where the two charts of What if stand in their picture, which grows with the window.

    Attributes:
        width, height: of the picture.
        left, right: ends of both charts.
        upper, lower: first and last row of each chart.
        track: row of the slider.
        numbers: row of its numbers.
        inside: whether names stand above their lines instead of beside them.
    """

    width: int
    height: int
    left: int
    right: int
    upper: tuple[int, int]
    lower: tuple[int, int]
    track: int
    numbers: int
    inside: bool = False

    def locate(self, k: float) -> float:
        """Return the column of a stop."""
        return self.left + (k + 0.5) * (self.right - self.left) / len(EPSILONS)

    @property
    def columns(self) -> list[float]:
        """Return the column of each stop."""
        return [self.locate(k) for k in range(len(EPSILONS))]


LAYOUTS = {
    "wide": PictureLayout(900, 434, 50, 770, (24, 136), (180, 364), 386, 418),
    # the slider stands first on a phone
    "narrow": PictureLayout(360, 446, 46, 350, (92, 182), (244, 434), 16, 46, inside=True),
}


class Usefulness(NamedTuple):
    """The lower chart of What if.

    Attributes:
        axis: the worst and the best value on it.
        ticks: values with their texts.
        levels: the nonprivate method and the baseline: role, name, and a value for each stop.
        points: the curve's interval at each stop.
        claim_state: of the method.
    """

    metric: Metric
    axis: Span
    ticks: list[tuple[float, str]]
    levels: list[tuple[Role, str, Values]]
    points: list[Interval | None]
    claim_state: ClaimState

    @classmethod
    def from_line(cls, chart: CurveChart, line: Curve, claim_state: ClaimState) -> Usefulness:
        """Collect what is drawn.

        The axis covers the baseline and the nonprivate method, and of the curve what lies less than
        half of their distance beyond them. In it up is better.
        """
        metric, baseline_id = chart.metric, chart.baseline_id(line)
        curves = [chart.nonprivate_reference]
        if baseline_id != line.mechanism:
            curves += [curve for curve in chart.endpoints if curve.mechanism == baseline_id][:1]
        levels = [
            (
                curve.role,
                curve.name
                if curve.role is Role.NO_PRIVACY
                else sentences.name_baseline(baseline_id, short=True),
                [point and point.mean for point in map(curve.interval_at, EPSILONS)],
            )
            for curve in curves
            if curve is not None
        ]
        mean_values = line.band.mean.tolist()
        ends = [value for *_, values in levels for value in values if value is not None]
        if len(levels) < 2:
            ends += mean_values
        room = (max(ends) - min(ends) or 0.1) / 2
        values = np.clip([*ends, *mean_values], min(ends) - room, max(ends) + room)
        margin = 0.08 * float(np.ptp(values))
        low, high = float(values.min()) - margin, float(values.max()) + margin
        step = next((s for s in STEPS if high - low <= 5 * s), 2.0)
        ticks = [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
        return cls(
            metric,
            (high, low) if metric.lower_is_better else (low, high),
            [(v, f"{100 * v:.3g} %" if metric.is_share else f"{v:.4g}") for v in ticks],
            levels,
            [line.interval_at(epsilon) for epsilon in EPSILONS],
            claim_state,
        )

    @property
    def marker_class(self) -> str:
        """Return the CSS class of markers: filled, an open ring, or a crossed ring."""
        return ("", "open", "open refuted")[list(ClaimState).index(self.claim_state)]

    def clip(self, value: float) -> float:
        """Return the value, or the end of the axis where it lies beyond."""
        return min(max(value, min(self.axis)), max(self.axis))


def render_picture(
    layout: PictureLayout,
    alt: str,
    titles: tuple[str, str],
    stops: Sequence[Stop],
    usefulness: Usefulness | None,
    method: str,
) -> str:
    """Draw risk above usefulness over one axis, as SVG with the marks that the slider moves.

    Args:
        layout: where the charts stand.
        alt: what the picture shows.
        titles: of the two charts.
        stops: the method at each epsilon.
        usefulness: the lower chart; None before the first run.
        method: name of the method.
    """
    upper, lower = layout.upper, layout.lower
    columns = layout.columns
    risk = [stop.risk.success_rate if stop.risk.is_bounded else None for stop in stops]
    unproved = [x for x, share in zip(columns, risk, strict=True) if share is None]
    shares = [(share, f"{100 * share:.0f} %") for share in (1.0, 0.75, 0.5)]
    to_row = _scale_to_rows(upper, (0.5, 1.0))
    coin = [(["a coin flip"], [0.5] * len(columns), "dot")]
    gap = "no limit is proved" * bool(unproved)
    numbers = [0, 3, 6, 9, 13] if layout.inside else range(len(columns))
    style = usefulness.marker_class if usefulness else ""
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {layout.width} {layout.height}"
class="dpmc-picture" role="img" aria-label="{escape(alt)}">{_PICTURE_STYLE}
{"".join(_render_gap(x, columns[1] - columns[0], upper) for x in unproved)}
{"".join(_render_chart(layout, upper, to_row, shares, coin))}
{_render_curve(columns, to_row, risk, "risk")}
{_render_usefulness(layout, usefulness, method) if usefulness else ""}
{"" if usefulness else _write(columns[8], sum(lower) / 2, "not computed yet")}
{"".join(_write(columns[k], layout.numbers, f"{EPSILONS[k]:g}", "middle") for k in numbers)}
<path class="moves rule" d="M0 {upper[0]}V{lower[1]}"/>
{_write_title(layout, upper[0], titles[0])}{_write_title(layout, lower[0], titles[1])}
{_write(sum(unproved[:1] + unproved[-1:]) / 2, sum(upper) / 2, gap, "middle bold")}
<circle class="moves risk" r="7"/><text class="moves big risk"/>
<circle class="moves method {style}" r="7"/><text class="moves big method"/>
<text class="moves end" x="{layout.right}" y="{lower[0] - 9}"/></svg>"""


def _scale_to_rows(rows: Span, axis: Span) -> ToRow:
    """Return the function from a value on an axis to its row."""
    return lambda value: rows[1] + (value - axis[0]) / (axis[1] - axis[0]) * (rows[0] - rows[1])


def _write(x: float, y: float, text: str, name: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{name}">{escape(text)}</text>'


def _write_title(layout: PictureLayout, y: float, title: str) -> str:
    """Write the title of a chart, which is on a phone in several lines."""
    texts = textwrap.wrap(title, 40 if layout.inside else 80)
    rows = range(16 * (1 - len(texts)), 16, 16)
    return "".join(
        _write(layout.left, y - 9 + row, text, "bold")
        for row, text in zip(rows, texts, strict=True)
    )


def _render_gap(x: float, width: float, rows: Span) -> str:
    """Draw that nothing is proved at a stop."""
    return (
        f'<rect x="{x - width / 2:.1f}" y="{rows[0]}" width="{width + 0.3:.1f}"'
        f' height="{rows[1] - rows[0]}" fill="url(#dpmc-unproved)"/>'
    )


def _render_curve(columns: Sequence[float], to_row: ToRow, values: Values, name: str) -> str:
    """Draw a curve through the values that are there."""
    points = (
        f"{x:.1f} {to_row(value):.1f}" for x, value in zip(columns, values, strict=True) if value
    )
    path = "L".join(points)
    return f'<path d="M{path}" class="curve {name}"/>' if path else ""


def _render_chart(
    layout: PictureLayout,
    rows: Span,
    to_row: ToRow,
    ticks: Sequence[tuple[float, str]],
    curves: Sequence[tuple[list[str], Values, str]],
) -> tuple[str, str]:
    """Return a grid with curves, and the names of the curves.

    Names stand right of the ends, apart from each other; on a phone above the levels, and where no
    line passes.
    """
    left, right, inside, columns = layout.left, layout.right, layout.inside, layout.columns
    grid = "".join(
        f'<path d="M{left} {to_row(v):.1f}H{right}" class="grid"/>'
        f"{_write(left - 8, to_row(v) + 4, text, 'end muted')}"
        for v, text in ticks
    )
    lines = "".join(_render_curve(columns, to_row, values, name) for _, values, name in curves)
    named = [
        (name_lines, points, name)
        for name_lines, values, name in curves
        if (
            points := [
                (x, to_row(v)) for x, v in zip(columns, values, strict=True) if v is not None
            ]
        )
    ]
    levels = [points for _, points, name in named if name != "method"]
    heights = [16 * len(name_lines) for name_lines, *_ in named]
    top = rows[0] - 8 + 6 * inside
    targets = [
        (
            _find_free_row((right - 7 * len(name_lines[0]), right), rows, points, levels)
            if inside and name == "method"
            else points[-1][1]
        )
        - top
        + height / 2
        - 8
        for (name_lines, points, name), height in zip(named, heights, strict=True)
    ]
    centers = separate_labels(targets, heights, rows[1] - rows[0] + 24)
    x, anchor = right if inside else right + 8, "end" * inside
    names = "".join(
        _write(x, top + center + 16 * k - height / 2 + 12 - 8 * inside, text, f"{anchor} {name}")
        for center, height, (name_lines, _, name) in zip(centers, heights, named, strict=True)
        for k, text in enumerate(name_lines)
    )
    return grid + lines, names


def _find_free_row(
    span: Span, rows: Span, curve: Sequence[Span], levels: Sequence[Sequence[Span]]
) -> float:
    """Return the row nearest to the end of a curve at which no line crosses its name.

    Args:
        span: first and last column of the name.
        rows: first and last row of the chart.
        curve: column and row of each of its points.
        levels: the same of each level, whose name stands above its end.
    """
    x = np.linspace(*span, 40)
    # rows, with the room that they need above and below
    obstacles = [(np.interp(x, *zip(*points, strict=True)), 5) for points in (curve, *levels)]
    obstacles += [(np.array([points[-1][1] - 9]), 9) for points in levels]
    moving_number = np.interp(x + 40, *zip(*curve, strict=True)) - 18
    end = curve[-1][1]
    for avoided in ([*obstacles, (moving_number, 10)], obstacles):
        free = [
            row
            for row in range(int(rows[0]) + 8, int(rows[1]) - 8)
            if all(np.abs(line_rows - row).min() > 7 + margin for line_rows, margin in avoided)
        ]
        if free:
            return 9 + min(free, key=lambda row: abs(row - end))
    return end


def _render_usefulness(layout: PictureLayout, usefulness: Usefulness, method: str) -> str:
    """Draw the lower chart: levels, and the curve with its band and its points."""
    metric, clip, columns = usefulness.metric, usefulness.clip, layout.columns
    to_row = _scale_to_rows(layout.lower, usefulness.axis)
    computed = [(k, point) for k, point in enumerate(usefulness.points) if point]
    mean_values = [point and clip(point.mean) for point in usefulness.points]
    style = usefulness.marker_class
    name_lines = [textwrap.shorten(method, 42)] if layout.inside else textwrap.wrap(method, 17)
    curves = [(name_lines, mean_values, "method")]
    for role, name, values in usefulness.levels:
        dash = "dash" if role is Role.NO_PRIVACY else "dot"
        end = [metric.format_value(value) for value in values if value is not None][-1:]
        name_lines = [name, *end]
        curves.append(([" ".join(name_lines)] if layout.inside else name_lines, values, dash))
    band = " ".join(
        f"{columns[k]:.1f},{to_row(clip(end)):.1f}"
        for k, end in [(k, p.low) for k, p in computed] + [(k, p.high) for k, p in computed[::-1]]
    )
    points = "".join(
        f'<{_POINTS[clip(point.mean) == point.mean]} transform="translate({columns[k]:.1f}'
        f' {to_row(clip(point.mean)):.1f})" class="point method {style}"'
        f"><title>epsilon {EPSILONS[k]:g}: {metric.format_value(point.mean)}"
        f" ({metric.format_value(point.low)} to {metric.format_value(point.high)})</title></path>"
        for k, point in computed
    )
    chart, names = _render_chart(layout, layout.lower, to_row, usefulness.ticks, curves)
    return f'<polygon points="{band}" class="band"/>{chart}{points}{names}'


# of a curve: where its value lies beyond the axis, and on it
_POINTS = ('path d="M-5 -4h10l-5 9z"', 'path d="M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0"')
_PICTURE_STYLE = """<style>
.dpmc-picture text { font-size: 13px; fill: var(--ink); stroke: var(--paper); stroke-width: 4px;
  stroke-linejoin: round; paint-order: stroke; }
.dpmc-picture .bold, .dpmc-picture .big { font-weight: 600; }
.dpmc-picture text:is(.muted, .dot) { fill: var(--muted); }
.dpmc-picture text.method { font-weight: 600; }
.dpmc-picture .end { text-anchor: end; }
.dpmc-picture .middle { text-anchor: middle; }
.dpmc-picture .big { font-size: 21px; }
.dpmc-picture path { fill: none; }
.dpmc-picture .grid { stroke: var(--grid); }
.dpmc-picture path.dot { stroke: var(--muted); stroke-width: 2; stroke-dasharray: 2 4; }
.dpmc-picture path.dash { stroke: var(--ink); stroke-width: 2; stroke-dasharray: 9 6; }
.dpmc-picture .rule { stroke: var(--ink); stroke-width: 1.5; }
.dpmc-picture path.risk { stroke: var(--risk); stroke-width: 2.5; }
.dpmc-picture path.curve.method { stroke: var(--method); stroke-width: 2.5; }
.dpmc-picture .band { fill: var(--method); opacity: .2; }
.dpmc-picture circle.risk, .dpmc-picture text.big.risk { fill: var(--risk); }
.dpmc-picture circle.method, .dpmc-picture path.point { fill: var(--method); }
.dpmc-picture circle { stroke: var(--paper); stroke-width: 2; }
.dpmc-picture .method.open { fill: var(--paper); stroke: var(--method); stroke-width: 2; }
.dpmc-picture .method.refuted { fill: url(#dpmc-refuted); stroke-width: 1.3; }
</style><defs><pattern id="dpmc-unproved" width="8" height="8" patternUnits="userSpaceOnUse"
patternTransform="rotate(45)"><path d="M0 0V8" stroke="var(--muted)" stroke-width="2" opacity=".5"/>
</pattern><pattern id="dpmc-refuted" width="1" height="1" patternContentUnits="objectBoundingBox">
<path d="M0 0H1V1H0" fill="var(--paper)"/><path d="M0 0L1 1M0 1L1 0" stroke="var(--method)"
stroke-width=".17"/></pattern></defs>"""


def get_instrument_colors(theme: Theme, _mechanism: str) -> dict[str, Any]:
    """Return the colours that the component around the chart uses."""
    theme_colors = {
        "ink": INK,
        "muted": MUTED,
        "grid": GRID,
        "risk": RISK,
        "method": USEFULNESS,
        "paper": PAPER,
    }
    return dict(apply_theme(theme_colors, theme))


# --- rankings: under both candidate sets ---------------------------------------------------------


def plot_ranking_bars(methods: Mapping[str, Mapping[str, float]]) -> Figure:
    """Plot four groups of bars: HR@10 and NDCG@10 under both candidate sets, the run's first."""
    fig = create_figure("run_bars")
    bar_styles = ((USEFULNESS, ""), (INK, "/"), (BASELINE, "."))
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
