"""A chart of an experiment, as what to draw and as a picture that needs no script."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple
from urllib.parse import quote

from dpmc_core import registry
from dpmc_core.lab.papers.frame import EPSILON, Axis, Experiment, Promise, Series
from dpmc_core.lab.papers.words import Look
from dpmc_core.lab.views.cards import delta_text
from dpmc_core.lab.views.lines import short
from dpmc_core.registry import style
from dpmc_core.style import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, Style

WIDE, HIGH = 620, 360
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 30, 48
OPEN = Style("currentColor", "circle", "dash")  # of what keeps nothing private
GUESS = Style("var(--muted)", "circle", "dot")  # of what looks at no person's taste
# Of further curves of one method, whose colour stays.
_MARKS = ("square", "diamond", "triangle-up", "cross", "triangle-down", "pentagon")
_MORE_DASHES = ("dashdot", "solid", "longdash", "dash", "longdashdot", "dot")
_UNNAMED = (PURPLE, GREEN, ORANGE, BLUE, RED, SKY)  # curves of no method, in their order
_DASHES = {
    "dash": "6 4",
    "longdash": "10 4",
    "dot": "2 3",
    "dashdot": "6 3 2 3",
    "longdashdot": "10 3 2 3",
    "8px,3px": "8 3",
}
_MANY = 40  # points, beyond which a curve has no marks
_STEPS = (1.0, 2.0, 5.0)
_FEW = 3  # ticks, with fewer of which a scale is not seen
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
    """How each curve is drawn, by its label: never two alike, and one colour for each method."""
    levels = {one.label for one in found.made.series if one.level} if found.made else set()
    bases = {
        label: GUESS if label in found.experiment.guesses else _base(id, label in levels, place)
        for place, (label, id) in enumerate(_mechanisms(found).items())
    }
    taken = set(bases.values()) | {GUESS}
    marks = [mark for mark in _MARKS if mark not in {look.marker for look in taken}] or _MARKS
    dashes = [dash for dash in _MORE_DASHES if dash not in {look.dash for look in taken}]
    dashes = dashes or list(_MORE_DASHES)
    drawn: dict[str, Style] = {}
    further: Counter[str] = Counter()
    for label, base in bases.items():
        drawn[label] = base
        if base in list(drawn.values())[:-1]:
            k = further[base.color]  # what is alike of two methods looks alike
            drawn[label] = Style(base.color, marks[k % len(marks)], dashes[k % len(dashes)])
            further[base.color] += 1
    return drawn


def _base(mechanism: str | None, level: bool, place: int) -> Style:
    """level: whether it is the same whatever epsilon is, hence without noise."""
    if mechanism is None:
        color, mark = _UNNAMED[place % len(_UNNAMED)], _MARKS[place % len(_MARKS)]
        return Style(color, mark, _MORE_DASHES[(place + 1) % len(_MORE_DASHES)])
    if mechanism not in registry.MECHANISMS or registry.adds_noise(registry.get(mechanism)):
        base = style(mechanism)
        return base._replace(dash="dash") if level else base
    floors = {cls.floor for cls in registry.MECHANISMS.values()}
    return GUESS if mechanism in floors else OPEN


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
    across, up = spans(found)
    drawn_as, (x_title, y_title) = looks(found), titles(found)
    parts = [*_frame(one.x, one.y, across, up), *_words(x_title, y_title)]
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
    words = escape(f"{y_title} over {x_title}: {one.title}", quote=True)
    picture = (
        f"<svg class='chart' viewBox='0 0 {WIDE} {HIGH}' role='img' aria-label='{words}'>"
        + "".join(parts)
        + "</svg>"
    )
    return legend(found, drawn_as) + picture


def titles(found: Look) -> tuple[str, str]:
    """What stands at both axes; an epsilon with the unit that it is promised for."""
    one = found.experiment
    return _with_unit(one.x, one.promises), one.y.title


def _with_unit(axis: Axis, promises: Sequence[Promise]) -> str:
    units = {promise.change.label for promise in promises}
    if axis.title != EPSILON.title or len(units) != 1:
        return axis.title
    deltas = {promise.delta for promise in promises if promise.delta}
    also = f", delta {delta_text(deltas.pop())}" if len(deltas) == 1 else ""
    return f"{axis.title} {units.pop()}{also}"


def spans(found: Look) -> tuple[Span, Span]:
    """The ranges of both axes, over ours and what is printed."""
    one, series = found.experiment, found.made.series if found.made is not None else ()
    xs = [x for s in series for x in s.x] + [p.x for p in one.printed]
    ys = [y for s in series for y in (*s.low, *s.high)]
    ys += [y for p in one.printed for y in (p.value - p.error, p.value + p.error)]
    return place(one.x, xs), place(one.y, ys)


def place(axis: Axis, values: Sequence[float]) -> Span:
    """The range of an axis over values, with ticks at round numbers."""
    there = [v for v in values if math.isfinite(v) and (v > 0 or not axis.log)]
    low, high = min(there, default=float(axis.log)), max(there, default=1.0)
    if axis.log:
        room = (high / low) ** 0.04 if high > low else 2.0
        low, high = low / room, high * room
        return Span(low, high, _log_ticks(low, high))
    room = 0.04 * (high - low) or abs(high) * 0.1 or 1.0
    low, high = low - room, high + room
    return Span(low, high, _ticks(low, high))


def _ticks(low: float, high: float) -> tuple[float, ...]:
    step = _step((high - low) / 6)
    return tuple(k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1))


def _log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten; with few of them 3 and 2, 5 times those too, or steps as of a plain axis."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: tuple[float, ...] = ()
    for many in ((1.0,), (1.0, 3.0), _STEPS):
        found = tuple(v for k in powers for m in many if low <= (v := m * 10.0**k) <= high)
        if len(found) >= _FEW:
            return found
    return found if len(found) == _FEW - 1 else _ticks(low, high)


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
    return parts


def _words(x: str, y: str) -> list[str]:
    """What both axes show; the upright one's above the picture, where there is room for it."""
    return [
        f"<text x='{(LEFT + WIDE - RIGHT) / 2}' y='{HIGH - 8}' text-anchor='middle'>"
        f"{escape(x)}</text>",
        f"<text x='0' y='16'>{escape(y)}</text>",
    ]


def _curve(curve: Series, look: Style, one: Experiment, across: Span, up: Span) -> list[str]:
    xs = [_x(x, one.x, across) for x in curve.x]

    def line(values: Sequence[float]) -> list[str]:
        return [f"{x:.1f},{_y(v, one.y, up):.1f}" for x, v in zip(xs, values, strict=True)]

    color, parts = look.color, []
    if any(high > low for high, low in zip(curve.high, curve.low, strict=True)):
        outline = " ".join([*line(curve.high), *reversed(line(curve.low))])
        parts.append(f"<polygon points='{outline}' fill='{color}' opacity='.18'/>")
    parts.append(
        f"<polyline points='{' '.join(line(curve.mean))}' fill='none' stroke='{color}'"
        f" stroke-width='2'{_dashed(look)}/>"
    )
    if marked(curve):
        parts += [_mark(x, _y(v, one.y, up), look) for x, v in zip(xs, curve.mean, strict=True)]
    return parts


def _dashed(look: Style) -> str:
    dash = _DASHES.get(look.dash, "")
    return f" stroke-dasharray='{dash}'" if dash else ""


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
    fill = "var(--paper, none)" if hollow else look.color
    pen = f"fill='{fill}' stroke='{look.color}' stroke-width='{2 if hollow else 1}'"
    size = _SIZE + hollow
    if look.marker in _ARMS:
        arms = _ARMS[look.marker]
        path = " ".join(
            f"M{x + a * size:.1f} {y + b * size:.1f}L{x + c * size:.1f} {y + d * size:.1f}"
            for a, b, c, d in arms
        )
        return f"<path d='{path}' stroke='{look.color}' stroke-width='{1.5 if hollow else 3}'/>"
    if look.marker not in _CORNERS:
        return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{size:.1f}' {pen}/>"
    corners = " ".join(f"{x + a * size:.1f},{y + b * size:.1f}" for a, b in _CORNERS[look.marker])
    return f"<polygon points='{corners}' {pen}/>"


def legend(found: Look, drawn_as: Mapping[str, Style], *, images: bool = False) -> str:
    """What each curve is, as HTML; hollow where it is printed and has no curve of ours.

    images: each sample as an image of its own, for a surface that takes no other drawing: it knows
    no colour but those that are given.
    """
    ours = {one.label: one for one in found.made.series} if found.made is not None else {}
    parts = []
    for label, look in drawn_as.items():
        one = ours.get(label)
        pen = f"stroke='{look.color}' stroke-width='2'{_dashed(look)}"
        sample = f"<line x1='1' x2='35' y1='7' y2='7' {pen}/>" if one is not None else ""
        if one is None or marked(one):
            sample += _mark(18, 7, look, hollow=one is None)
        size = "width='36' height='14'"
        drawn = f"<svg {size} viewBox='0 0 36 14' aria-hidden='true'>{sample}</svg>"
        if images:
            alone = drawn.replace("<svg", "<svg xmlns='http://www.w3.org/2000/svg'", 1)
            drawn = f"<img alt='' {size} src='data:image/svg+xml,{quote(alone)}'>"
        name = escape(label if one is not None else f"{label}, printed")
        parts.append(
            "<span style='display: inline-flex; align-items: center; gap: .35rem'>"
            f"{drawn}{name}</span>"
        )
    rows = "display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; font-size: .875rem"
    return f"<div class='legend' style='{rows}'>{''.join(parts)}</div>"


def marked(curve: Series) -> bool:
    """Whether its points have marks: neither a level nor a density has."""
    return not curve.level and len(curve.x) <= _MANY
