"""Pictures of the lessons: plain numbers that tell themselves in words, as a table and as SVG."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from dpmc_lab.classroom.room import Bounds
from dpmc_lab.curves import svg
from dpmc_lab.curves.cards import hundred
from dpmc_lab.curves.svg import Extent, Plot, circle, element, line, rect, text

Columns = dict[str, list[str]]
Drawn = tuple[float, list[str]]  # the height in em, and what is in it


class Colors(NamedTuple):
    """Of a surface. one, other: of two things that are compared."""

    ink: str
    muted: str
    grid: str
    paper: str
    one: str
    other: str


PAPER = Colors("#1c1e21", "#6b7076", "#d8d8d2", "#ffffff", "#0072b2", "#d55e00")
_DASHES = ("none", "7 4", "2 3")
_HIGH = 9.0  # em of a curve


def percent(share: float) -> str:
    """A share in whole percent: an estimate, which may lie outside 0..1."""
    return f"{round(100 * share)} %"


def _halo(colors: Colors) -> dict[str, Any]:
    """Of words that stand on lines."""
    return {"stroke": colors.paper, "stroke_width": 4, "paint_order": "stroke"}


class Worlds(NamedTuple):
    """Bars: of each world (a name), the chance of everything that may be seen in it.

    outcomes: what may be seen; shares: of a world, in their order, in 0..1. A world with one
    outcome is a single bar, and needs no name for it.
    """

    outcomes: tuple[str, ...]
    shares: Mapping[str, tuple[float, ...]]

    def table(self) -> Columns:
        shares = zip(*self.shares.values(), strict=True)
        told = [[f"{hundred(share)} of 100" for share in row] for row in shares]
        names = [name or "share" for name in self.outcomes]
        return {"": list(self.shares), **dict(zip(names, told, strict=True))}

    @property
    def words(self) -> str:
        worlds, *outcomes = self.table().values()
        named = [
            [f"{name} {one}".strip() for name, one in zip(self.outcomes, row, strict=True)]
            for row in zip(*outcomes, strict=True)
        ]
        return ". ".join(f"{w}: {', '.join(row)}" for w, row in zip(worlds, named, strict=True))

    def drawn(self, colors: Colors) -> Drawn:
        parts: list[str] = []
        y, fills = 1.0, (colors.one, colors.other, colors.muted)
        for world, shares in self.shares.items():
            parts.append(text(0, y, world, font_weight="600"))
            y += 0.5
            for k, (name, share) in enumerate(zip(self.outcomes, shares, strict=True)):
                inside = share > 0.6  # the words have no room beside such a bar
                at, anchor = (100 * share - 1, "end") if inside else (100 * share + 1, "start")
                fill = colors.paper if inside else colors.ink
                told = f"{name} {hundred(share)}".strip()
                parts += [
                    rect(0, y, 100, 1.6, colors.grid, opacity=0.5),
                    rect(0, y, 100 * share, 1.6, fills[k % 3]),
                    text(at, y + 1.15, told, anchor, fill=fill),
                ]
                y += 1.9
            y += 1.3
        return y - 1.0, parts


class Dots(NamedTuple):
    """People, one dot each: filled says yes, hollow no, struck through has been turned around.

    reports: what each sends, 0 or 1. flipped: whether the coin turned it around; empty where
    nobody can know.
    """

    reports: tuple[int, ...]
    flipped: tuple[bool, ...] = ()

    @property
    def yes(self) -> int:
        return sum(self.reports)

    @property
    def turned(self) -> int:
        return sum(self.flipped)

    def table(self) -> Columns:
        told = {"yes": [str(self.yes)], "no": [str(len(self.reports) - self.yes)]}
        return told | ({"turned around": [str(self.turned)]} if self.flipped else {})

    @property
    def words(self) -> str:
        turned = f"; {self.turned} turned around" if self.flipped else ""
        return f"{len(self.reports)} dots, {self.yes} of them yes{turned}"

    @lru_cache  # noqa: B019 - a page without server asks a thousand times for the same few
    def drawn(self, colors: Colors) -> Drawn:
        many = len(self.reports)
        across, high = (10, 2.0) if many <= 40 else (20, 1.5) if many <= 120 else (40, 1.0)
        size, parts = 0.3 * high, []
        for k, report in enumerate(self.reports):
            turned = bool(self.flipped) and self.flipped[k]
            color = colors.other if turned else colors.one
            x, y = 100 * (k % across + 0.5) / across, high * (k // across + 0.5)
            fill = color if report else "none"
            parts.append(circle(x, y, size, fill, stroke=color, stroke_width=2))
            if turned:
                stroke = colors.paper if report else color
                struck = {"x1": -size, "y1": size, "x2": size, "y2": -size}
                ends = {name: f"{end:g}em" for name, end in struck.items()}
                stroke = element("line", **ends, stroke=stroke, stroke_width=2)
                parts.append(element("svg", stroke, x=f"{x:g}%", y=f"{y:g}em", overflow="visible"))
        y = high * -(-many // across) + 1.2
        turns = " · struck: turned around" if self.flipped else ""
        parts.append(text(0, y, f"filled: yes · hollow: no{turns}", small=True, fill=colors.muted))
        return y + 0.4, parts


class Spans(NamedTuple):
    """Estimates of one share, each with its interval, on one line from 0 to 1.

    truth: a rule at what is being estimated, where it is known.
    """

    rows: Mapping[str, Bounds]
    truth: float | None = None

    def table(self) -> Columns:
        told = [list(map(percent, ends)) for ends in zip(*self.rows.values(), strict=True)]
        return {"": list(self.rows), **dict(zip(("share", "from", "to"), told, strict=True))}

    @property
    def words(self) -> str:
        rows = zip(*self.table().values(), strict=True)
        told = [f"{name}: {share}, interval {low} to {high}" for name, share, low, high in rows]
        truth = [] if self.truth is None else [f"The truth: {percent(self.truth)}"]
        return ". ".join(told + truth)

    def drawn(self, colors: Colors) -> Drawn:
        top = 0.0 if self.truth is None else 1.4
        bottom = 3.2 * len(self.rows) + top + 0.2
        parts = [line(0, bottom, 100, bottom, colors.grid)]
        for x, anchor in ((0, "start"), (50, "middle"), (100, "end")):
            name = percent(x / 100)
            parts.append(line(x, bottom, x, bottom + 0.4, colors.muted))
            parts.append(text(x, bottom + 1.4, name, anchor, small=True, fill=colors.muted))
        if self.truth is not None:
            at = 100 * self.truth
            anchor = "start" if at < 30 else "end" if at > 70 else "middle"
            parts.append(line(at, 1.3, at, bottom, colors.ink, stroke_dasharray="2 3"))
            parts.append(text(at, 0.9, f"the truth: {percent(self.truth)}", anchor))
        halo = _halo(colors)
        for k, (name, row) in enumerate(self.rows.items()):
            color, y = colors.one if k else colors.other, top + 3.2 * k
            told = f"{name}: {percent(row.share)} ({percent(row.low)} to {percent(row.high)})"
            share, low, high = (100 * min(max(end, 0.0), 1.0) for end in row)
            parts += [
                text(0, y + 1.1, told, **halo),
                line(low, y + 2.1, high, y + 2.1, color, stroke_width=3),
                *(line(x, y + 1.8, x, y + 2.4, color, stroke_width=3) for x in (low, high)),
                circle(share, y + 2.1, 0.4, color),
            ]
        return bottom + 1.8, parts


class Bend(NamedTuple):
    """Curves over equally spaced stops, with a rule and dots at one of them.

    across: what the stops are; stops: their labels; lines: a value for each stop, by name; at: the
    number of the chosen stop, or None; up: what the values are; form: how they are written; low and
    high: ends of the axis, by default 0 and the largest value; levels: lines without a bend.
    """

    across: str
    stops: tuple[str, ...]
    lines: Mapping[str, tuple[float, ...]]
    at: int | None
    up: str
    form: Callable[[float], str]
    low: float = 0.0
    high: float | None = None
    levels: Mapping[str, float] = {}

    def table(self) -> Columns:
        levels = {name: (level,) * len(self.stops) for name, level in self.levels.items()}
        lines = {
            name: list(map(self.form, line)) for name, line in ({**self.lines, **levels}).items()
        }
        return {self.across: list(self.stops), **lines}

    @property
    def words(self) -> str:
        table, at = self.table(), self.at
        stops = table.pop(self.across)
        told = [
            f"{name}: {table[name][0]} to {table[name][-1]}"
            f" from {self.across} {stops[0]} to {stops[-1]}"
            + ("" if at is None else f", {table[name][at]} at {stops[at]}")
            for name in self.lines
        ]
        told += [f"{name}: {table[name][0]}" for name in self.levels]
        return f"{self.up}. {'. '.join(told)}"

    def drawn(self, colors: Colors) -> Drawn:
        at, last, levels = self.at, len(self.stops) - 1, self.levels
        highest = max(value for line in (levels.values(), *self.lines.values()) for value in line)
        top = highest if self.high is None else self.high
        looks = [(color, dash) for dash in _DASHES for color in (*colors[4:], colors.muted)]
        named = dict(zip(self.lines, looks, strict=False))
        begin = 2.2 + 1.4 * len(named) * (len(named) > 1)
        plot = Plot(Extent(0, max(last, 1)), Extent(self.low, top), begin, _HIGH)
        small: dict[str, Any] = {"small": True, "fill": colors.muted}
        parts = [text(0, begin - 1.6, self.up, **small)]
        for value in (self.low, (self.low + top) / 2, top):
            _, y = plot.at(0, value)
            parts.append(line(0, y, 100, y, colors.grid))
            parts.append(text(0, y - 0.25, self.form(value), **small))
        if at is not None:
            x, _ = plot.at(at, top)
            parts.append(line(x, begin, x, plot.bottom, colors.ink, opacity=0.55))
        for k, (name, (color, dash)) in enumerate(named.items()):
            curve, row = self.lines[name], 0.8 + 1.4 * k
            places = map(plot.at, range(last + 1), curve)
            look: dict[str, Any] = {"stroke": color, "stroke_dasharray": dash}
            parts.append(svg.bent(places, fill="none", stroke_width=2.5, **look))
            if len(named) > 1:
                told = name if at is None else f"{name}: {self.form(curve[at])}"
                parts.append(
                    line(0, row - 0.3, 6, row - 0.3, color, stroke_width=3, stroke_dasharray=dash)
                )
                parts.append(text(8, row, told))
            if at is not None:
                parts.append(circle(*plot.at(at, curve[at]), 0.4, color))
        for name, level in levels.items():
            _, y = plot.at(0, level)
            parts.append(line(0, y, 100, y, colors.ink, stroke_dasharray="2 3"))
            told = f"{name}: {self.form(level)}"
            parts.append(text(100, y - 0.4, told, "end", **_halo(colors)))
        for k, stop in enumerate(self.stops):
            beside = at is not None and abs(k - at) == 1  # the chosen one is written there
            if last < 8 or k == at or (not beside and (k % 3 == 0 or k == last)):
                x, _ = plot.at(k, top)
                bold = "600" if k == at else "400"
                parts.append(text(x, plot.bottom + 1.2, stop, "middle", font_weight=bold, **small))
        parts.append(text(50, plot.bottom + 2.4, self.across, "middle", **small))
        return plot.bottom + 3.0, parts


class Cells(NamedTuple):
    """A matrix, row by row, that lights up where its values (0..1) are large.

    says: what a lit cell means; marked: row and column of a cell with a frame.
    """

    rows: tuple[tuple[float, ...], ...]
    says: str
    marked: tuple[int, int] | None = None

    def table(self) -> Columns:
        lit = [str(sum(value > 0 for value in row)) for row in self.rows]
        return {"row": [str(k + 1) for k in range(len(lit))], "lit": lit}

    @property
    def words(self) -> str:
        lit = sum(map(int, self.table()["lit"]))
        return f"{self.says}: {lit} of {len(self.rows) * len(self.rows[0])} cells are lit"

    def drawn(self, colors: Colors) -> Drawn:
        down, across = len(self.rows), len(self.rows[0])
        wide, high, parts = 100 / across, min(1.2, 14 / down), []
        for r, row in enumerate(self.rows):
            for c, value in enumerate(row):
                place = (wide * c, high * r, 0.94 * wide, 0.92 * high)
                parts.append(rect(*place, colors.grid, opacity=0.5))
                if value > 0:
                    parts.append(rect(*place, colors.other, opacity=f"{value:.2f}"))
                if self.marked == (r, c):
                    parts.append(rect(*place, "none", stroke=colors.ink, stroke_width=2.5))
        y = high * down + 1.2
        return y + 0.4, [*parts, text(0, y, self.says, fill=colors.muted)]


Picture = Worlds | Dots | Spans | Bend | Cells


def drawn(picture: Picture, colors: Colors = PAPER) -> str:
    """The picture as SVG, with its words as its label."""
    height, parts = picture.drawn(colors)
    return svg.picture(parts, height, picture.words, fill=colors.ink, **svg.NAMESPACE)
