"""A chart of an experiment, as what to draw and as a picture that needs no script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from dpmc_core import registry
from dpmc_core.papers.frame import Axis, Experiment, Series
from dpmc_core.papers.words import Look
from dpmc_core.views.lines import short
from dpmc_core.views.looks import Style, style

WIDE, HIGH = 760, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 44
_PLAIN = Style("currentColor", "circle", "dash")  # of what is no private method
_STEPS = (1.0, 2.0, 5.0)
_SIZE = 4.5


class Span(NamedTuple):
    """The range of an axis and where its ticks stand."""

    low: float
    high: float
    ticks: tuple[float, ...]


def drawn(found: Look) -> bool:
    """Whether there is something to draw: a table has no chart."""
    one = found.experiment
    there = found.made is not None or bool(one.printed)
    return there and not one.x.names


def looks(found: Look) -> dict[str, Style]:
    """How each curve is drawn, by its label."""
    return {label: _look(label, id) for label, id in _mechanisms(found).items()}


def _look(label: str, mechanism: str | None) -> Style:
    """How a curve is drawn; what is no private method's has a look of its own."""

    if mechanism is None:
        return style(label)
    if mechanism in registry.MECHANISMS and not registry.adds_noise(registry.get(mechanism)):
        return _PLAIN
    return style(mechanism)


def _mechanisms(found: Look) -> dict[str, str | None]:
    """The method behind each label, also of curves that are only printed."""
    methods = found.experiment.methods
    known = {one.series: methods.get(one.series) for one in found.experiment.printed}
    if found.made is not None:
        known |= {one.label: one.mechanism for one in found.made.series}
    return known


def svg(found: Look) -> str:
    """The chart with its text alternative; empty where there is none."""
    if not drawn(found):
        return ""
    one = found.experiment
    series = found.made.series if found.made is not None else ()
    xs = [x for s in series for x in s.x] + [p.x for p in one.printed]
    ys = [y for s in series for y in (*s.low, *s.high)]
    ys += [y for p in one.printed for y in (p.value - p.error, p.value + p.error)]
    across, up = place(one.x, xs), place(one.y, ys)
    drawn_as = looks(found)
    parts = [*_frame(one.x, one.y, across, up)]
    for curve in series:
        parts += _curve(curve, drawn_as[curve.label], one, across, up)
    for printed in one.printed:
        color = drawn_as[printed.series].color
        x = _x(printed.x, one.x, across)
        low, high = (_y(printed.value + sign * printed.error, one.y, up) for sign in (-1, 1))
        y = _y(printed.value, one.y, up)
        parts.append(
            f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{low:.1f}' y2='{high:.1f}'"
            f" stroke='{color}' stroke-width='2'/>"
        )
        parts.append(_mark(x, y, drawn_as[printed.series], hollow=True))
    words = escape(f"{one.y.title} over {one.x.title}: {one.title}", quote=True)
    picture = (
        f"<svg viewBox='0 0 {WIDE} {HIGH}' width='{WIDE}' role='img' aria-label='{words}'>"
        + "".join(parts)
        + "</svg>"
    )
    return picture + _legend(drawn_as, {p.series for p in one.printed})


def place(axis: Axis, values: Sequence[float]) -> Span:
    """The range of an axis over values, with ticks at round numbers."""
    there = [v for v in values if math.isfinite(v) and (v > 0 or not axis.log)]
    low, high = min(there, default=0.0), max(there, default=1.0)
    if axis.log:
        first, last = math.floor(math.log10(low) - 0.02), math.ceil(math.log10(high) + 0.02)
        every = [m * 10.0**k for k in range(first, last + 1) for m in (1.0, 3.0)]
        if last - first > 4:
            every = [10.0**k for k in range(first, last + 1)]
        room = (high / low) ** 0.04 if high > low else 2.0
        low, high = low / room, high * room
        return Span(low, high, tuple(v for v in every if low <= v <= high))
    room = 0.04 * (high - low) or abs(high) * 0.1 or 1.0
    low, high = low - room, high + room
    step = _step((high - low) / 6)
    first = math.ceil(low / step)
    ticks = tuple(k * step for k in range(first, math.floor(high / step) + 1))
    return Span(low, high, ticks)


def _step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next((m * power for m in _STEPS if m * power >= least), 10 * power)


def _share(value: float, axis: Axis, over: Span) -> float:
    if axis.log:
        value = max(value, over.low)
        return math.log(value / over.low) / math.log(over.high / over.low)
    return (value - over.low) / (over.high - over.low)


def _x(value: float, axis: Axis, over: Span) -> float:
    return LEFT + _share(value, axis, over) * (WIDE - LEFT - RIGHT)


def _y(value: float, axis: Axis, over: Span) -> float:
    return HIGH - BOTTOM - _share(value, axis, over) * (HIGH - TOP - BOTTOM)


def _frame(x: Axis, y: Axis, across: Span, up: Span) -> list[str]:
    parts = []
    for value in across.ticks:
        at = _x(value, x, across)
        parts.append(
            f"<line class='axis' x1='{at:.1f}' x2='{at:.1f}' y1='{TOP}' y2='{HIGH - BOTTOM}'/>"
        )
        parts.append(
            f"<text x='{at:.1f}' y='{HIGH - BOTTOM + 16}' text-anchor='middle'>"
            f"{short(value, 3)}</text>"
        )
    for value in up.ticks:
        at = _y(value, y, up)
        parts.append(
            f"<line class='axis' x1='{LEFT}' x2='{WIDE - RIGHT}' y1='{at:.1f}' y2='{at:.1f}'/>"
        )
        parts.append(
            f"<text x='{LEFT - 6}' y='{at + 4:.1f}' text-anchor='end'>{short(value, 3)}</text>"
        )
    middle = (TOP + HIGH - BOTTOM) / 2
    parts.append(
        f"<text x='{(LEFT + WIDE - RIGHT) / 2}' y='{HIGH - 8}' text-anchor='middle'>"
        f"{escape(x.title)}</text>"
    )
    parts.append(
        f"<text transform='translate(14 {middle}) rotate(-90)' text-anchor='middle'>"
        f"{escape(y.title)}</text>"
    )
    return parts


def _curve(curve: Series, look: Style, one: Experiment, across: Span, up: Span) -> list[str]:
    xs = [_x(x, one.x, across) for x in curve.x]

    def line(values: Sequence[float]) -> list[str]:
        return [f"{x:.1f},{_y(v, one.y, up):.1f}" for x, v in zip(xs, values, strict=True)]

    color, parts = look.color, []
    if any(high > low for high, low in zip(curve.high, curve.low, strict=True)):
        outline = " ".join([*line(curve.high), *reversed(line(curve.low))])
        parts.append(f"<polygon points='{outline}' fill='{color}' opacity='.18'/>")
    dash = {"dash": "6 4", "longdash": "10 4", "dot": "2 3"}.get(look.dash, "")
    dashed = f" stroke-dasharray='{dash}'" if dash else ""
    parts.append(
        f"<polyline points='{' '.join(line(curve.mean))}' fill='none' stroke='{color}'"
        f" stroke-width='2'{dashed}/>"
    )
    if not curve.level and len(xs) <= 40:
        parts += [_mark(x, _y(v, one.y, up), look) for x, v in zip(xs, curve.mean, strict=True)]
    return parts


_CORNERS = {  # of a mark, from its middle
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "diamond-tall": ((0, -1.5), (0.9, 0), (0, 1.5), (-0.9, 0)),
    "triangle-up": ((0, -1.2), (1.2, 1), (-1.2, 1)),
    "triangle-down": ((0, 1.2), (1.2, -1), (-1.2, -1)),
    "triangle-left": ((-1.2, 0), (1, -1.2), (1, 1.2)),
    "triangle-right": ((1.2, 0), (-1, -1.2), (-1, 1.2)),
    "hourglass": ((-1.1, -1.1), (1.1, -1.1), (-1.1, 1.1), (1.1, 1.1)),
    "bowtie": ((-1.1, -1.1), (-1.1, 1.1), (1.1, -1.1), (1.1, 1.1)),
    "pentagon": ((0, -1.2), (1.14, -0.37), (0.7, 0.97), (-0.7, 0.97), (-1.14, -0.37)),
    "hexagon": ((1.2, 0), (0.6, 1.04), (-0.6, 1.04), (-1.2, 0), (-0.6, -1.04), (0.6, -1.04)),
}


_ARMS = {"x": ((-1, -1, 1, 1), (-1, 1, 1, -1)), "cross": ((-1, 0, 1, 0), (0, -1, 0, 1))}


def _mark(x: float, y: float, look: Style, *, hollow: bool = False) -> str:
    fill = "var(--paper)" if hollow else look.color
    pen = f"fill='{fill}' stroke='{look.color}' stroke-width='{2 if hollow else 1}'"
    size = _SIZE + hollow
    if look.marker in _ARMS:
        arms = (
            ((-1, -1, 1, 1), (-1, 1, 1, -1))
            if look.marker == "x"
            else ((-1, 0, 1, 0), (0, -1, 0, 1))
        )
        path = " ".join(
            f"M{x + a * size:.1f} {y + b * size:.1f}L{x + c * size:.1f} {y + d * size:.1f}"
            for a, b, c, d in arms
        )
        return f"<path d='{path}' stroke='{look.color}' stroke-width='{1.5 if hollow else 3}'/>"
    if look.marker not in _CORNERS:
        return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{size:.1f}' {pen}/>"
    corners = " ".join(f"{x + a * size:.1f},{y + b * size:.1f}" for a, b in _CORNERS[look.marker])
    return f"<polygon points='{corners}' {pen}/>"


def _legend(drawn_as: dict[str, Style], printed: set[str]) -> str:
    parts = []
    for label, look in drawn_as.items():
        mark = f"<svg width='18' height='14' aria-hidden='true'>{_mark(9, 7, look)}</svg>"
        also = " (○ printed)" if label in printed else ""
        parts.append(f"<span>{mark} {escape(label)}{also}</span>")
    return f"<p class='small'>{' &nbsp; '.join(parts)}</p>"
