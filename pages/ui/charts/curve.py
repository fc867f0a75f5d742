"""Describe the lower chart of What if, and draw rankings under both candidate sets."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.metrics import Metric
from dpmc_lab.curves.lines import NO_PRIVACY, CurveChart, Interval, Line, select_ranking_metrics
from dpmc_lab.sweep.presets import EPSILONS
from pages.ui import sentences
from pages.ui.charts import (
    ACCENT,
    GRID,
    INK,
    MUTED,
    PAPER,
    Figure,
    Theme,
    apply_theme,
    create_figure,
    get_style,
    separate_labels,
)
from pages.ui.charts.lines import STEPS

Span = tuple[float, float]
Values = Sequence[float | None]


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
        levels: the nonprivate method and the baseline: a name, and a value for each stop.
        points: the curve's interval at each stop.
        certified: whether the claim is certified.
    """

    metric: Metric
    axis: Span
    ticks: list[tuple[float, str]]
    levels: list[tuple[str, Values]]
    points: list[Interval | None]
    certified: bool

    @classmethod
    def from_line(cls, picture: CurveChart, line: Line, *, certified: bool) -> Usefulness:
        """Collect what is drawn.

        The axis covers the baseline and the nonprivate method, and of the curve what lies less than
        half of their distance beyond them. In it up is better.
        """
        metric, baseline_id = picture.metric, picture.baseline_id(line)
        baselines = (*(level for _, level in picture.flat_lines), *picture.private_baselines)
        named = [(NO_PRIVACY, picture.nonprivate_reference)]
        if baseline_id != line.mechanism:
            baseline = next((b for b in baselines if b.mechanism == baseline_id), None)
            named.append((sentences.name_baseline(baseline_id, short=True), baseline))
        levels = [
            (name, [point and point.mean for point in map(level.interval_at, EPSILONS)])
            for name, level in named
            if level is not None
        ]
        means = line.band.mean.tolist()
        ends = [value for _, values in levels for value in values if value is not None]
        if len(levels) < 2:
            ends += means
        room = (max(ends) - min(ends) or 0.1) / 2
        values = np.clip([*ends, *means], min(ends) - room, max(ends) + room)
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
            certified,
        )

    def clip(self, value: float) -> float:
        """Return the value, or the end of the axis where it lies beyond."""
        return min(max(value, min(self.axis)), max(self.axis))


def draw_picture(
    layout: PictureLayout,
    alt: str,
    titles: tuple[str, str],
    risk: Sequence[float | None],
    usefulness: Usefulness | None,
    method: str,
) -> str:
    """Draw risk above usefulness over one axis, as SVG with the marks that the slider moves.

    Args:
        layout: where the charts stand.
        alt: what the picture shows.
        titles: of the two charts.
        risk: how often the attacker is right at most, by stop; None where nothing is proved.
        usefulness: the lower chart; None before the first run.
        method: name of the method.
    """
    upper, lower = layout.upper, layout.lower
    at = [layout.locate(k) for k in range(len(EPSILONS))]
    unproved = [x for x, share in zip(at, risk, strict=True) if share is None]
    shares = [(share, f"{100 * share:.0f} %") for share in (1.0, 0.75, 0.5)]
    chance = _place_between(upper, (0.5, 1.0))
    coin = [(["a coin flip"], [0.5] * len(at), "dot")]
    gap = "no limit is proved" * bool(unproved)
    numbers = [k for k in range(len(at)) if not layout.inside or k in (0, 3, 6, 9, 13)]
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {layout.width} {layout.height}"
class="dpmc-picture" role="img" aria-label="{escape(alt)}">{_PICTURE_STYLE}
{_write_title(layout, upper[0], titles[0])}{_write_title(layout, lower[0], titles[1])}
{"".join(_draw_gap(x, at[1] - at[0], upper) for x in unproved)}
{"".join(_draw_chart(layout, upper, chance, shares, coin))}{_draw_curve(at, chance, risk, "risk")}
{_write(sum(unproved[:1] + unproved[-1:]) / 2, sum(upper) / 2, gap, "middle bold")}
{_draw_usefulness(layout, usefulness, method, at) if usefulness else ""}
{"" if usefulness else _write(at[8], sum(lower) / 2, "not computed yet")}
{"".join(_write(at[k], layout.numbers, f"{EPSILONS[k]:g}", "middle") for k in numbers)}
<path class="moves rule" d="M0 {upper[0]}V{lower[1]}"/>
<circle class="moves risk" r="7"/><text class="moves big risk"/>
<circle class="moves method" r="7"/><text class="moves big method"/>
<text class="moves end" x="{layout.right}" y="{lower[0] - 9}"/></svg>"""


def _place_between(rows: Span, axis: Span) -> Callable[[float], float]:
    """Return the row of a value."""
    return lambda value: rows[1] + (value - axis[0]) / (axis[1] - axis[0]) * (rows[0] - rows[1])


def _write(x: float, y: float, words: str, name: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{name}">{escape(words)}</text>'


def _write_title(layout: PictureLayout, y: float, title: str) -> str:
    """Write the title of a chart, which is on a phone in several lines."""
    texts = textwrap.wrap(title, 40 if layout.inside else 80)
    rows = range(16 * (1 - len(texts)), 16, 16)
    return "".join(
        _write(layout.left, y - 9 + row, text, "bold")
        for row, text in zip(rows, texts, strict=True)
    )


def _draw_gap(x: float, width: float, rows: Span) -> str:
    """Draw that nothing is proved at a stop."""
    return (
        f'<rect x="{x - width / 2:.1f}" y="{rows[0]}" width="{width + 0.3:.1f}"'
        f' height="{rows[1] - rows[0]}" fill="url(#dpmc-unproved)"/>'
    )


def _draw_curve(
    at: Sequence[float], place: Callable[[float], float], values: Values, name: str
) -> str:
    """Draw a curve through the values that are there."""
    points = (f"{x:.1f} {place(value):.1f}" for x, value in zip(at, values, strict=True) if value)
    path = "L".join(points)
    return f'<path d="M{path}" class="curve {name}"/>' if path else ""


def _draw_chart(
    layout: PictureLayout,
    rows: Span,
    place: Callable[[float], float],
    ticks: Sequence[tuple[float, str]],
    curves: Sequence[tuple[list[str], Values, str]],
) -> tuple[str, str]:
    """Return a grid with curves, and the names of these near their ends, apart from each other."""
    left, right, inside = layout.left, layout.right, layout.inside
    at = [layout.locate(k) for k in range(len(EPSILONS))]
    grid = "".join(
        f'<path d="M{left} {place(v):.1f}H{right}" class="grid"/>'
        f"{_write(left - 8, place(v) + 4, words, 'end muted')}"
        for v, words in ticks
    )
    lines = "".join(_draw_curve(at, place, values, name) for _, values, name in curves)
    named = [
        # On a phone levels have their names above them, and the curve below it.
        (
            [" ".join(words)] if inside else words,
            place(known[-1]) + 24 * (inside and name == "method"),
            name,
        )
        for words, values, name in curves
        if (known := [value for value in values if value is not None])
    ]
    top, height = rows[0] - 8 + 6 * inside, rows[1] - rows[0] + 24
    centers = [y - top + 8 * (len(words) - 1) for words, y, _ in named]
    places = separate_labels(centers, [16 * len(words) for words, *_ in named], height)
    x, anchor = right if inside else right + 8, "end" * inside
    names = "".join(
        _write(
            x, top + center + 16 * k - 8 * len(words) + 12 - 8 * inside, line, f"{anchor} {name}"
        )
        for center, (words, _, name) in zip(places, named, strict=True)
        for k, line in enumerate(words)
    )
    return grid + lines, names


def _draw_usefulness(
    layout: PictureLayout, usefulness: Usefulness, method: str, at: Sequence[float]
) -> str:
    """Draw the lower chart: levels, and the curve with its band and its points."""
    metric, clip = usefulness.metric, usefulness.clip
    place = _place_between(layout.lower, usefulness.axis)
    drawn = [(k, point) for k, point in enumerate(usefulness.points) if point]
    means = [point and clip(point.mean) for point in usefulness.points]
    style = "" if usefulness.certified else "open"
    curves = [(textwrap.wrap(method, 17), means, "method")]
    for name, values in usefulness.levels:
        dash = "dash" if name == NO_PRIVACY else "dot"
        end = [metric.format_value(value) for value in values if value is not None][-1:]
        curves.append(([name, *end], values, dash))
    band = " ".join(
        f"{at[k]:.1f},{place(clip(end)):.1f}"
        for k, end in [(k, p.low) for k, p in drawn] + [(k, p.high) for k, p in reversed(drawn)]
    )
    points = "".join(
        f'<{_POINTS[clip(point.mean) == point.mean]} transform="translate({at[k]:.1f}'
        f' {place(clip(point.mean)):.1f})" class="point method {style}"'
        f"><title>epsilon {EPSILONS[k]:g}: {metric.format_value(point.mean)}"
        f" ({metric.format_value(point.low)} to {metric.format_value(point.high)})</title></path>"
        for k, point in drawn
    )
    chart, names = _draw_chart(layout, layout.lower, place, usefulness.ticks, curves)
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
.dpmc-picture path.point.open { fill: var(--paper); stroke: var(--method); stroke-width: 2; }
</style><defs><pattern id="dpmc-unproved" width="8" height="8" patternUnits="userSpaceOnUse"
patternTransform="rotate(45)"><path d="M0 0V8" stroke="#8b9098" stroke-width="2" opacity=".5"/>
</pattern></defs>"""


def get_instrument_colors(theme: Theme, mechanism: str) -> dict[str, Any]:
    """Return the colours that the component around the chart uses."""
    theme_colors = {
        "ink": INK,
        "muted": MUTED,
        "grid": GRID,
        "risk": ACCENT,
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
