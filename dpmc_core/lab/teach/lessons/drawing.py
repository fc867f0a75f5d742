"""Pictures of lessons as SVG: for a page, and for paper.

Across everything is in percent and down in em, so that a picture fills the width it is given and
its letters keep the size of the text around it: on a phone, on a projector, on a printed page.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any, NamedTuple

from dpmc_core.lab.teach.lessons.frame import Bend, Cells, Dots, Drawing, Spans, Worlds, percent
from dpmc_core.lab.views.cards import hundred


class Colors(NamedTuple):
    """Of a surface. one, other: of two things that are compared."""

    ink: str
    muted: str
    grid: str
    paper: str
    one: str
    other: str


PAPER = Colors("#1c1e21", "#6b7076", "#d8d8d2", "#ffffff", "#0072b2", "#d55e00")
_SMALL = 0.85  # of the letters around
_DASHES = ("none", "7 4", "2 3")


def svg(picture: Drawing, colors: Colors = PAPER) -> str:
    """The picture, with its words as its label."""
    if isinstance(picture, Worlds):
        height, parts = _worlds(picture, colors)
    elif isinstance(picture, Dots):
        height, parts = _dots(picture, colors)
    elif isinstance(picture, Spans):
        height, parts = _spans(picture, colors)
    elif isinstance(picture, Bend):
        height, parts = _bend(picture, colors)
    else:
        height, parts = _cells(picture, colors)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="100%" height="{height:g}em"'
        f' style="overflow:visible;font-size:1em;display:block" fill="{colors.ink}"'
        f' aria-label="{html.escape(picture.words)}">{"".join(parts)}</svg>'
    )


def _text(
    x: float, y: float, text: str, anchor: str = "start", small: bool = False, **more: str
) -> str:
    """x in percent, y in em of the picture."""
    size = _SMALL if small else 1.0  # an em of the text itself is smaller
    return (
        f'<text x="{x:g}%" y="{y / size:.4g}em" font-size="{size:g}em" text-anchor="{anchor}"'
        f"{_said(more)}>"
        f"{html.escape(text, quote=False)}</text>"
    )


def _line(x0: float, y0: float, x1: float, y1: float, color: str, **more: str) -> str:
    return (
        f'<line x1="{x0:g}%" y1="{y0:g}em" x2="{x1:g}%" y2="{y1:g}em" stroke="{color}"'
        f"{_said(more)}/>"
    )


def _said(more: dict[str, str]) -> str:
    return "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())


def _worlds(picture: Worlds, colors: Colors) -> tuple[float, Iterable[str]]:
    parts: list[str] = []
    y, looks = 1.0, (colors.one, colors.other, colors.muted)
    for world, shares in picture.shares.items():
        parts.append(_text(0, y, world, font_weight="600"))
        y += 0.5
        for k, (name, share) in enumerate(zip(picture.outcomes, shares, strict=True)):
            long = share > 0.6  # the words have no room beside such a bar
            said = f"{name} {hundred(share)}".strip()
            parts.append(
                f'<rect x="0" y="{y:g}em" width="100%" height="1.6em" fill="{colors.grid}"'
                ' opacity="0.5"/>'
                f'<rect x="0" y="{y:g}em" width="{100 * share:.3g}%" height="1.6em"'
                f' fill="{looks[k % 3]}"/>'
            )
            at, anchor = (100 * share - 1, "end") if long else (100 * share + 1, "start")
            fill = colors.paper if long else colors.ink
            parts.append(_text(at, y + 1.15, said, anchor, fill=fill))
            y += 1.9
        y += 1.3
    return y - 1.0, parts


def _dots(picture: Dots, colors: Colors) -> tuple[float, Iterable[str]]:
    many = len(picture.reports)
    across = 10 if many <= 40 else 20 if many <= 120 else 40
    high = 2.0 if across == 10 else 1.5 if across == 20 else 1.0
    size = 0.3 * high
    parts = []
    for k, report in enumerate(picture.reports):
        row, column = divmod(k, across)
        x, y = 100 * (column + 0.5) / across, high * (row + 0.5)
        turned = bool(picture.flipped) and picture.flipped[k]
        color = colors.other if turned else colors.one
        parts.append(
            f'<circle cx="{x:g}%" cy="{y:g}em" r="{size:g}em" stroke="{color}" stroke-width="2"'
            f' fill="{color if report else "none"}"/>'
        )
        if turned:
            parts.append(
                f'<svg x="{x:g}%" y="{y:g}em" overflow="visible">'
                f'<line x1="-{size:g}em" y1="{size:g}em" x2="{size:g}em" y2="-{size:g}em"'
                f' stroke="{colors.paper if report else color}" stroke-width="2"/></svg>'
            )
    y = high * (-(-many // across)) + 1.2
    legend = f"filled: {picture.names[0]} · hollow: {picture.names[1]}"
    if picture.flipped:
        legend += " · struck: turned around"
    parts.append(_text(0, y, legend, fill=colors.muted, small=True))
    return y + 0.4, parts


def _spans(picture: Spans, colors: Colors) -> tuple[float, Iterable[str]]:
    bottom = 3.2 * len(picture.rows) + (1.6 if picture.truth is not None else 0.2)
    parts = [_line(0, bottom, 100, bottom, colors.grid)]
    for x, anchor in ((0, "start"), (50, "middle"), (100, "end")):
        parts.append(_line(x, bottom, x, bottom + 0.4, colors.muted))
        parts.append(
            _text(x, bottom + 1.4, percent(x / 100), anchor, fill=colors.muted, small=True)
        )
    top = 0.0
    if picture.truth is not None:
        true = 100 * picture.truth
        parts.append(_line(true, 1.3, true, bottom, colors.ink, stroke_dasharray="2 3"))
        anchor = "start" if true < 30 else "end" if true > 70 else "middle"
        parts.append(_text(true, 0.9, f"the truth: {percent(picture.truth)}", anchor))
        top = 1.4
    for k, (name, row) in enumerate(picture.rows.items()):
        color, y = colors.one if k else colors.other, top + 3.2 * k
        told = f"{name}: {percent(row.share)} ({percent(row.low)} to {percent(row.high)})"
        halo: dict[str, Any] = {
            "stroke": colors.paper,
            "stroke_width": "4",
            "paint_order": "stroke",
        }
        parts.append(_text(0, y + 1.1, told, **halo))
        low, high = (100 * min(max(end, 0.0), 1.0) for end in (row.low, row.high))
        at = 100 * min(max(row.share, 0.0), 1.0)
        parts.append(_line(low, y + 2.1, high, y + 2.1, color, stroke_width="3"))
        parts += [_line(end, y + 1.8, end, y + 2.4, color, stroke_width="3") for end in (low, high)]
        parts.append(f'<circle cx="{at:g}%" cy="{y + 2.1:g}em" r="0.4em" fill="{color}"/>')
    return bottom + 1.8, parts


_HIGH = 9.0  # em of a curve


def _bend(picture: Bend, colors: Colors) -> tuple[float, Iterable[str]]:
    low, top, last = picture.low, picture.top, max(len(picture.stops) - 1, 1)
    looks = [
        (color, dash) for dash in _DASHES for color in (colors.one, colors.other, colors.muted)
    ]
    named = [(name, *look) for name, look in zip(picture.lines, looks, strict=False)]
    keys = named if len(named) > 1 else []
    begin = 2.2 + 1.4 * len(keys)

    def x(k: int) -> float:
        return 9 + 88 * k / last

    def y(value: float) -> float:
        within = (min(max(value, low), top) - low) / (top - low)
        return begin + _HIGH * (1 - within)

    small: dict[str, Any] = {"small": True, "fill": colors.muted}
    parts = [_text(0, begin - 1.6, picture.up, **small)]
    for k, (name, color, dash) in enumerate(keys):
        told, y_key = name, 0.8 + 1.4 * k
        if picture.at is not None:
            told += f": {picture.form(picture.lines[name][picture.at])}"
        look = {"stroke_width": "3", "stroke_dasharray": dash}
        parts.append(_line(0, y_key - 0.3, 6, y_key - 0.3, color, **look))
        parts.append(_text(8, y_key, told))
    for value in (low, (low + top) / 2, top):
        parts.append(_line(0, y(value), 100, y(value), colors.grid))
        parts.append(_text(0, y(value) - 0.25, picture.form(value), **small))
    for (_, color, dash), line in zip(named, picture.lines.values(), strict=True):
        points = " ".join(f"{x(k):.2f},{y(value):.3f}" for k, value in enumerate(line))
        parts.append(
            f'<svg x="0" y="0" width="100%" height="{begin + _HIGH:g}em" overflow="visible"'
            f' viewBox="0 0 100 {begin + _HIGH:g}" preserveAspectRatio="none">'
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2.5"'
            f' stroke-dasharray="{dash}" vector-effect="non-scaling-stroke"/></svg>'
        )
    for name, level in picture.levels.items():
        parts.append(_line(0, y(level), 100, y(level), colors.ink, stroke_dasharray="2 3"))
        parts.append(_text(100, y(level) - 0.4, f"{name}: {picture.form(level)}", "end"))
    bottom = begin + _HIGH
    if picture.at is not None:
        at = x(picture.at)
        parts.append(_line(at, begin, at, bottom, colors.ink, opacity="0.55"))
        for (_, color, _), line in zip(named, picture.lines.values(), strict=True):
            value = line[picture.at]
            parts.append(f'<circle cx="{at:g}%" cy="{y(value):g}em" r="0.4em" fill="{color}"/>')
    several = len(picture.stops) > 8
    for k, stop in enumerate(picture.stops):
        if not several or k % 3 == 0 or k == picture.at or k == last:
            near = several and picture.at is not None and k != picture.at
            if near and abs(k - (picture.at or 0)) == 1:
                continue  # the chosen one is written there
            weight = "600" if k == picture.at else "400"
            parts.append(_text(x(k), bottom + 1.2, stop, "middle", font_weight=weight, **small))
    parts.append(_text(50, bottom + 2.4, picture.across, "middle", **small))
    return bottom + 3.0, parts


def _cells(picture: Cells, colors: Colors) -> tuple[float, Iterable[str]]:
    down, across = len(picture.rows), len(picture.rows[0])
    high = min(1.2, 14 / down)
    wide, parts = 100 / across, []
    for r, row in enumerate(picture.rows):
        for c, value in enumerate(row):
            place = (
                f'x="{wide * c:.3f}%" y="{high * r:.3f}em" width="{wide * 0.94:.3f}%"'
                f' height="{0.92 * high:.3f}em"'
            )
            parts.append(f'<rect {place} fill="{colors.grid}" opacity="0.5"/>')
            if value > 0:
                parts.append(f'<rect {place} fill="{colors.other}" opacity="{value:.2f}"/>')
            if picture.marked == (r, c):
                parts.append(
                    f'<rect {place} fill="none" stroke="{colors.ink}" stroke-width="2.5"/>'
                )
    y = high * down + 1.2
    parts.append(_text(0, y, picture.says, fill=colors.muted))
    return y + 0.4, parts
