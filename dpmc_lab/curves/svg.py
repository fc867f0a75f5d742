"""Pictures that need no script, as SVG: lessons, legends, what is printed.

Across everything is in percent and down in em, so that a picture fills the width it is given and
its letters keep the size of the text around it: on a phone, on a projector, on a printed page.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import quote

from dpmc_core.style import Style

SMALL = 0.85  # of the letters around
LEFT, WIDTH = 9.0, 88.0  # percent, of the plotted part
DASHES = {
    "dash": "6 4",
    "longdash": "10 4",
    "dot": "2 3",
    "dashdot": "6 3 2 3",
    "longdashdot": "10 3 2 3",
    "8px,3px": "8 3",
}
MARKS = {  # around the middle, about one either way
    "circle": "M-1 0A1 1 0 1 1 1 0A1 1 0 1 1 -1 0Z",
    "square": "M-1 -1H1V1H-1Z",
    "diamond": "M0 -1.3 1.3 0 0 1.3 -1.3 0Z",
    "diamond-tall": "M0 -1.5 .9 0 0 1.5 -.9 0Z",
    "triangle-up": "M0 -1.2 1.2 1H-1.2Z",
    "triangle-down": "M0 1.2 1.2 -1H-1.2Z",
    "triangle-left": "M-1.2 0 1 -1.2V1.2Z",
    "triangle-right": "M1.2 0 -1 -1.2V1.2Z",
    "hourglass": "M-1.1 -1.1H1.1L-1.1 1.1H1.1Z",
    "bowtie": "M-1.1 -1.1V1.1L1.1 -1.1V1.1Z",
    "pentagon": "M0 -1.2 1.14 -.37 .7 .97H-.7L-1.14 -.37Z",
    "hexagon": "M1.2 0 .6 1.04H-.6L-1.2 0 -.6 -1.04H.6Z",
    "x": "M-1 -1 1 1M-1 1 1 -1",
    "cross": "M-1 0H1M0 -1V1",
}
NAMESPACE = {"xmlns": "http://www.w3.org/2000/svg"}  # of a picture that is a file of its own
_SIZE = 4.5  # pixels of one, in a mark
_FEW = 3  # ticks, with fewer of which a scale is not seen

Points = Iterable[tuple[float, float]]


def element(tag: str, content: str = "", **attributes: Any) -> str:
    """An element of SVG. content: SVG; attributes: in_this for in-this, class_ for class."""
    said = "".join(
        f' {name.strip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{said}>{content}</{tag}>"


def picture(parts: Iterable[str], height: float, words: str, **more: Any) -> str:
    """A whole picture, `height` em high, with its words as its label."""
    shape = {"width": "100%", "height": f"{height:g}em", "role": "img", "aria_label": words}
    style = "overflow:visible;font-size:1em;display:block"
    return element("svg", "".join(parts), **shape, style=style, **more)


def text(
    x: float, y: float, words: str, anchor: str = "start", *, small: bool = False, **more: Any
) -> str:
    """Words whose base line is at x percent and y em of the picture."""
    size = SMALL if small else 1.0  # an em of the text itself is smaller
    place = {"x": f"{x:.4g}%", "y": f"{y / size:.4g}em", "font_size": f"{size:g}em"}
    return element("text", html.escape(words, quote=False), **place, text_anchor=anchor, **more)


def line(x0: float, y0: float, x1: float, y1: float, color: str, **more: Any) -> str:
    """A straight line from (x0, y0) to (x1, y1)."""
    ends = {"x1": f"{x0:.4g}%", "y1": f"{y0:.4g}em", "x2": f"{x1:.4g}%", "y2": f"{y1:.4g}em"}
    return element("line", **ends, stroke=color, **more)


def rect(x: float, y: float, width: float, height: float, fill: str, **more: Any) -> str:
    """A bar, or a cell, with (x, y) as its upper left corner."""
    place = {"x": f"{x:.4g}%", "y": f"{y:.4g}em"}
    size = {"width": f"{width:.4g}%", "height": f"{height:.4g}em"}
    return element("rect", **place, **size, fill=fill, **more)


def circle(x: float, y: float, radius: float, fill: str, **more: Any) -> str:
    """radius: in em."""
    place = {"cx": f"{x:.4g}%", "cy": f"{y:.4g}em", "r": f"{radius:g}em"}
    return element("circle", **place, fill=fill, **more)


def bent(points: Points, **more: Any) -> str:
    """A line through points."""
    corners = " ".join(f"{x:.2f},{y:.3f}" for x, y in points)
    stretched = element(
        "polyline",
        points=corners,
        vector_effect="non-scaling-stroke",
        **more,
    )
    # Its own unit across is a percent, and an em down, however wide the picture is.
    shape = {"width": "100%", "height": "1em", "viewBox": "0 0 100 1", "overflow": "visible"}
    return element("svg", stretched, **shape, preserveAspectRatio="none")


def mark(x: float, y: float, style: Style, *, hollow: bool = False) -> str:
    """A style's marker around (x, y). hollow: as what is printed is drawn."""
    crossed = style.marker in ("x", "cross")
    width = (1.5 if hollow else 3) if crossed else 2 if hollow else 1
    shape = element(
        "path",
        d=MARKS.get(style.marker, MARKS["circle"]),
        transform=f"scale({_SIZE + hollow})",
        fill="none" if crossed or hollow else style.color,
        stroke=style.color,
        stroke_width=width,
        vector_effect="non-scaling-stroke",
    )
    return element("svg", shape, x=f"{x:.4g}%", y=f"{y:.4g}em", overflow="visible")


class Extent(NamedTuple):
    """The range of an axis. log: on a logarithmic scale."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, values: Iterable[float], *, log: bool = False) -> Extent:
        """Around values, with some room; those that it has no place for are left out."""
        there = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
        low, high = min(there, default=float(log)), max(there, default=1.0)
        if log:
            room = (high / low) ** 0.04 if high > low else 2.0
            return cls(low / room, high * room, log)
        room = 0.04 * (high - low) or abs(high) * 0.1 or 1.0
        return cls(low - room, high + room)

    def share(self, value: float) -> float:
        """Where a value stands, from 0 at the low end to 1; beyond the ends, at them."""
        low, high, _ = self
        value = min(max(value, low), high)
        if self.log:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)

    @property
    def ticks(self) -> tuple[float, ...]:
        """Round numbers: powers of ten on a logarithmic scale, and with few of them 3, or 2 and 5
        times those too, or steps as on a plain one."""
        low, high, log = self
        found: tuple[float, ...] = ()
        if log:
            powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for many in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
                found = tuple(v for k in powers for m in many if low <= (v := m * 10.0**k) <= high)
                if len(found) >= _FEW:
                    return found
        if len(found) == _FEW - 1:
            return found
        least = (high - low) / 6
        power = 10.0 ** math.floor(math.log10(least))
        step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= least)
        return tuple(k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1))


class Plot(NamedTuple):
    """Two scales and where they stand. top: em above the plotted part; high: em of it."""

    x: Extent
    y: Extent
    top: float = 2.2
    high: float = 20.0

    @property
    def bottom(self) -> float:
        return self.top + self.high

    def at(self, x: float, y: float) -> tuple[float, float]:
        """A place in percent and em."""
        return LEFT + WIDTH * self.x.share(x), self.bottom - self.high * self.y.share(y)


class Key(NamedTuple):
    """What is drawn, in a legend. line, mark: which of both it is drawn with."""

    name: str
    style: Style
    line: bool = True
    mark: bool = True
    hollow: bool = False


def legend(keys: Iterable[Key]) -> str:
    """As HTML: it wraps, which text in a picture does not.

    Each sample is an image of its own, so it knows no colour but those that are given.
    """
    size, parts = {"width": 36, "height": 14}, []
    for name, style, lined, marked, hollow in keys:
        look = {"stroke_width": 2, "stroke_dasharray": DASHES.get(style.dash, "none")}
        sample = line(3, 0.5, 97, 0.5, style.color, **look) if lined else ""
        sample += mark(50, 0.5, style, hollow=hollow) if marked else ""
        drawn = element("svg", sample, **NAMESPACE, **size, font_size="14px", aria_hidden="true")
        shown = f"<img alt='' width='36' height='14' src='data:image/svg+xml,{quote(drawn)}'>"
        around = "display: inline-flex; align-items: center; gap: .35rem"
        parts.append(f"<span style='{around}'>{shown}{html.escape(name)}</span>")
    rows = "display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; font-size: .875rem"
    return f"<div class='legend' style='{rows}'>{''.join(parts)}</div>"
