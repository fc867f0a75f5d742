"""Describe the lower chart of What if, and draw rankings under both candidate sets."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.metrics import Metric
from dpmc_lab.curves.lines import CurveChart, Interval, Line, select_ranking_metrics
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
from pages.ui.charts import Interval as Span
from pages.ui.charts.lines import STEPS


class Layout(NamedTuple):
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
    "wide": Layout(900, 434, 50, 770, (24, 136), (180, 364), 386, 418),
    # the slider stands first on a phone
    "narrow": Layout(360, 416, 42, 350, (76, 166), (212, 404), 16, 46, inside=True),
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
    levels: list[tuple[str, list[float | None]]]
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
        named = [("no privacy", picture.nonprivate_reference)]
        if baseline_id != line.mechanism:
            baseline = next((one for one in baselines if one.mechanism == baseline_id), None)
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
    layout: Layout,
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
    left, right = layout.left, layout.right

    def place_in(rows: tuple[int, int], axis: Span) -> Callable[[float], float]:
        return lambda value: rows[1] + (value - axis[0]) / (axis[1] - axis[0]) * (rows[0] - rows[1])

    def text(x: float, y: float, words: str, name: str = "") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" class="{name}">{escape(words)}</text>'

    def level(y: float, words: str, name: str = "grid") -> str:
        line = f'<path d="M{left} {y:.1f}H{right}" class="{name}"/>'
        return line + text(left - 8, y + 4, words, "end muted")

    def beside(y: float, words: str, name: str) -> str:
        x = (right, y - 4) if layout.inside else (right + 8, y + 4)
        return text(*x, words, f"{name} {'end' * layout.inside}")

    def curve(heights: Sequence[float | None], name: str) -> str:
        pairs = zip([None, *heights], heights, strict=False)
        steps = (
            f"{'M' if before is None else 'L'}{layout.locate(k):.1f} {y:.1f}"
            for k, (before, y) in enumerate(pairs)
            if y is not None
        )
        return f'<path d="{"".join(steps)}" class="curve {name}"/>'

    # risk
    chance = place_in(layout.upper, (0.5, 1.0))
    parts = [text(left, layout.upper[0] - 9, titles[0], "bold")]
    parts += [level(chance(share), f"{100 * share:.0f} %") for share in (1, 0.75)]
    parts += [level(chance(0.5), "50 %", "dot"), beside(chance(0.5), "a coin flip", "muted")]
    unproved = [layout.locate(k) for k, share in enumerate(risk) if share is None]
    if unproved:
        width = layout.locate(1) - layout.locate(0)
        parts += [
            f'<rect x="{x - width / 2:.1f}" y="{layout.upper[0]}" width="{width + 0.3:.1f}"'
            f' height="{layout.upper[1] - layout.upper[0]}" fill="url(#dpmc-unproved)"/>'
            for x in unproved
        ]
        x = (unproved[0] + unproved[-1]) / 2
        parts.append(text(x, sum(layout.upper) / 2, "no limit is proved", "middle bold"))
    parts.append(curve([share and chance(share) for share in risk], "risk"))
    # usefulness
    parts.append(text(left, layout.lower[0] - 9, titles[1], "bold"))
    if usefulness is None:
        parts.append(text((left + right) / 2, sum(layout.lower) / 2, "not computed yet", "middle"))
    else:
        value = place_in(layout.lower, usefulness.axis)
        parts += [level(value(number), words) for number, words in usefulness.ticks]
        points = usefulness.points
        heights = [point and value(usefulness.clip(point.mean)) for point in points]
        names = [
            (textwrap.wrap(method, 17), next(filter(None, reversed(heights)), None), "bold method")
        ]
        for (name, values), dash in zip(usefulness.levels, ("dash", "dot"), strict=False):
            parts.append(curve([number and value(number) for number in values], dash))
            end = next(filter(None, reversed(values)), None)
            lines = [name, usefulness.metric.format_value(end)] if end else [name]
            names.append((lines, end and value(end), "muted" if dash == "dot" else ""))
        drawn = [(layout.locate(k), point) for k, point in enumerate(points) if point]
        corners = [(x, value(usefulness.clip(point.low))) for x, point in drawn]
        corners += [(x, value(usefulness.clip(point.high))) for x, point in reversed(drawn)]
        band = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        parts += [f'<polygon points="{band}" class="band"/>', curve(heights, "method")]
        for k, (x, point) in enumerate(drawn):
            parts.append(_draw_point(usefulness, x, value(usefulness.clip(point.mean)), point, k))
        parts += _place_names(layout, names, beside)
    # epsilon, and what the slider moves
    last = len(EPSILONS) - 1
    for k, epsilon in enumerate(EPSILONS):
        if not layout.inside or k == last or (k % 3 == 0 and k < last - 1):
            parts.append(text(layout.locate(k), layout.numbers, f"{epsilon:g}", "middle"))
    parts.append(f'<path class="moves rule" d="M0 {layout.upper[0]}V{layout.lower[1]}"/>')
    parts += [
        f'<circle class="moves {name}" r="7"/><text class="moves big {name}"/>'
        for name in ("risk", "method")
    ]
    parts.append(f'<text class="moves end" x="{right}" y="{layout.lower[0] - 9}"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {layout.width} {layout.height}"'
        f' class="dpmc-picture" role="img" aria-label="{escape(alt)}">{_PICTURE_STYLE}'
        f"{''.join(parts)}</svg>"
    )


def _draw_point(usefulness: Usefulness, x: float, y: float, point: Interval, k: int) -> str:
    """Draw a point of the curve, or a triangle at the edge where it lies below."""
    low, high = map(usefulness.metric.format_value, (point.low, point.high))
    mean = usefulness.metric.format_value(point.mean)
    title = f"<title>epsilon {EPSILONS[k]:g}: {mean} ({low} to {high})</title>"
    name = "method" if usefulness.certified else "method open"
    if usefulness.clip(point.mean) != point.mean:
        return f'<path d="M{x - 5:.1f} {y - 4:.1f}h10l-5 9z" class="point {name}">{title}</path>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="point {name}">{title}</circle>'


def _place_names(
    layout: Layout,
    names: Sequence[tuple[list[str], float | None, str]],
    beside: Callable[[float, str, str], str],
) -> list[str]:
    """Write the names of lines near these, and apart from each other."""
    known = [([" ".join(n)] if layout.inside else n, y, c) for n, y, c in names if y is not None]
    known.sort(key=lambda name: name[1])
    top, bottom = layout.lower[0] - 8 + 18 * layout.inside, layout.lower[1] + 8
    centers = [y - top + 8 * (len(texts) - 1) for texts, y, _ in known]
    places = separate_labels(centers, [16 * len(texts) for texts, _, _ in known], bottom - top)
    return [
        beside(top + place + 16 * (k - (len(texts) - 1) / 2), words, name)
        for place, (texts, _, name) in zip(places, known, strict=True)
        for k, words in enumerate(texts)
    ]


_PICTURE_STYLE = """<style>
.dpmc-picture text { font-size: 13px; fill: var(--ink); stroke: var(--paper); stroke-width: 4px;
  stroke-linejoin: round; paint-order: stroke; }
.dpmc-picture .bold, .dpmc-picture .big { font-weight: 600; }
.dpmc-picture text.muted { fill: var(--muted); }
.dpmc-picture .end { text-anchor: end; }
.dpmc-picture .middle { text-anchor: middle; }
.dpmc-picture .big { font-size: 21px; }
.dpmc-picture path { fill: none; }
.dpmc-picture .grid { stroke: var(--grid); }
.dpmc-picture .dot { stroke: var(--muted); stroke-width: 2; stroke-dasharray: 2 4; }
.dpmc-picture .dash { stroke: var(--ink); stroke-width: 2; stroke-dasharray: 9 6; }
.dpmc-picture .rule { stroke: var(--ink); stroke-width: 1.5; }
.dpmc-picture path.risk { stroke: var(--risk); stroke-width: 2.5; }
.dpmc-picture path.method { stroke: var(--method); stroke-width: 2.5; }
.dpmc-picture .band { fill: var(--method); opacity: .2; }
.dpmc-picture circle.risk, .dpmc-picture text.big.risk { fill: var(--risk); }
.dpmc-picture circle.method, .dpmc-picture path.point { fill: var(--method); }
.dpmc-picture .moves:is(circle) { stroke: var(--paper); stroke-width: 2; }
.dpmc-picture .point.open { fill: var(--paper); stroke: var(--method); stroke-width: 2; }
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
