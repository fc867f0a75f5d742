"""Draw pictures of the lessons: numbers with a description, a table and HTML.

A picture consists of boxes at percentages of its size, styled by pictures.css, without a script. It
fills the available width, and its letters have the size of the surrounding text.
"""

from collections.abc import Callable, Mapping
from html import escape
from importlib import resources
from typing import NamedTuple

import numpy as np

from dpmc_data import facts
from dpmc_lab.classroom.room import Bounds
from dpmc_lab.views.cards import format_limit_percent, format_share_percent

Columns = dict[str, list[str]]

# The style of all pictures, in the colours of views/look.toml.
STYLE_SHEET = resources.files(__package__).joinpath("pictures.css").read_text("utf-8")
_ILLUSTRATIONS = facts.load_toml(__package__, "illustrations.toml")
_MARKERS = ("", "square", "hollow")  # of curves, of which a picture has at most three


def format_percent(share: float) -> str:
    """Return a share in whole percent; an estimate may lie outside 0..1."""
    return f"{round(100 * share)} %"


def _box(kind: str, content: str = "", **percents: float) -> str:
    """Return a box of a picture as HTML.

    Args:
        kind: its CSS classes.
        content: HTML.
        **percents: left, bottom or width.
    """
    style = "; ".join(f"{name}: {value:.4g}%" for name, value in percents.items())
    style_attribute = f' style="{style}"' if style else ""
    return f'<div class="{kind}"{style_attribute}>{content}</div>'


def _describe_table(columns: Columns) -> str:
    """Describe the rows of a table in words, each cell after the head of its column."""
    _, *heads = columns
    return ". ".join(
        f"{name}: {', '.join(map(' '.join, zip(heads, cells, strict=True)))}"
        for name, *cells in zip(*columns.values(), strict=True)
    )


class OutcomeBars(NamedTuple):
    """Bars with the chance of each outcome in several worlds.

    Attributes:
        outcomes: names of the outcomes. A single outcome needs no name.
        shares: chance of each outcome, in 0..1, by the name of the world.
        limits: names of the worlds whose chances are upper limits of an attacker.
        meaning: what the chance of a single outcome is, as the name of its colour.
    """

    outcomes: tuple[str, ...]
    shares: Mapping[str, tuple[float, ...]]
    limits: frozenset[str]
    meaning: str

    def _format_share(self, world: str, share: float) -> str:
        """Return a chance in percent, without the unit unless it is an upper limit."""
        return (format_limit_percent if world in self.limits else format_share_percent)(share)

    def table(self) -> Columns:
        """Return the chances as columns of text."""
        rows = (
            [
                self._format_share(world, share) + " of 100" * (world not in self.limits)
                for share in shares
            ]
            for world, shares in self.shares.items()
        )
        texts = [list(column) for column in zip(*rows, strict=True)]
        names = [name or "share" for name in self.outcomes]
        return {"": list(self.shares), **dict(zip(names, texts, strict=True))}

    @property
    def description(self) -> str:
        """Return the chances in words."""
        return _describe_table(self.table())

    def to_html(self) -> str:
        """Return the bars as HTML."""
        boxes = []
        for world, shares in self.shares.items():
            boxes.append(_box("world", escape(world)))
            for name, share in zip(self.outcomes, shares, strict=True):
                label = escape(f"{name} {self._format_share(world, share)}".strip())
                bar = _box("fill", width=100 * share)
                color = name[-3:].strip() or ("risk" if world in self.limits else self.meaning)
                boxes.append(_box(f"bar {color}", f"{bar}<span>{label}</span>"))
        return "".join(boxes)


class PeopleDots(NamedTuple):
    """One mark for each person: filled for yes, hollow for no, an amber square where flipped.

    Attributes:
        reports: what each person sends, 0 or 1.
        flipped: whether the report was flipped; empty where nobody can know.
    """

    reports: tuple[int, ...]
    flipped: tuple[bool, ...] = ()

    @property
    def yes(self) -> int:
        """Return the number of reports that say yes."""
        return sum(self.reports)

    @property
    def turned(self) -> int:
        """Return the number of reports that were flipped."""
        return sum(self.flipped)

    def table(self) -> Columns:
        """Return the counts as columns of text."""
        counts = {"yes": [str(self.yes)], "no": [str(len(self.reports) - self.yes)]}
        return counts | ({"flipped": [str(self.turned)]} if self.flipped else {})

    @property
    def description(self) -> str:
        """Return the counts in words."""
        turned = f"; {self.turned} flipped" if self.flipped else ""
        return f"{len(self.reports)} dots, {self.yes} of them yes{turned}"

    def to_html(self) -> str:
        """Return the dots as HTML."""
        people = len(self.reports)
        # pictures.css has a class for each of these widths; at most four or six rows of dots.
        columns = 10 if people <= 40 else 20 if people <= 120 else 40
        flipped = self.flipped or (False,) * people
        dots = "".join(
            f'<i class="{"yes" if report else "no"}{" turned" if turned else ""}"></i>'
            for report, turned in zip(self.reports, flipped, strict=True)
        )
        legend = "filled: yes · hollow: no" + (" · amber square: flipped" if self.flipped else "")
        return _box(f"dots of-{columns}", dots) + _box("note", legend)


class IntervalPlot(NamedTuple):
    """Estimates of one share, each with its interval, on an axis from 0 to 1.

    Attributes:
        rows: estimates by name.
        truth: the share that is estimated.
    """

    rows: Mapping[str, Bounds]
    truth: float

    def table(self) -> Columns:
        """Return the estimates as columns of text."""
        percents = [
            list(map(format_percent, ends)) for ends in zip(*self.rows.values(), strict=True)
        ]
        return {"": list(self.rows), **dict(zip(("share", "from", "to"), percents, strict=True))}

    @property
    def description(self) -> str:
        """Return the estimates in words."""
        return f"{_describe_table(self.table())}. The truth: {format_percent(self.truth)}"

    def to_html(self) -> str:
        """Return the plot as HTML."""
        truth = _box("rule", left=100 * self.truth)
        note = _box("note", f"dashed: the truth, {format_percent(self.truth)}")
        boxes = []
        for k, (name, row) in enumerate(self.rows.items()):
            share, low, high = 100 * np.clip(row, 0, 1)
            marks = truth + _box("range", left=low, width=high - low) + _box("point", left=share)
            label = (
                f"{name}: {format_percent(row.share)} ({format_percent(row.low)} to"
                f" {format_percent(row.high)})"
            )
            boxes.append(escape(label) + _box(f"scale {'usefulness' if k else 'noise'}", marks))
        ends = "".join(f"<span>{format_percent(end)}</span>" for end in (0, 0.5, 1))
        return "".join(boxes) + _box("ends", ends) + note


class CurvePlot(NamedTuple):
    """Curves over equally spaced stops, with a rule and dots at the chosen one.

    Attributes:
        x_label: what the stops are.
        stops: their labels.
        lines: one value for each stop, by the name of the line.
        stop_index: index of the chosen stop.
        y_label: what the values are.
        format_value: formats a value.
        low, high: ends of the axis; high is None for the largest value.
        levels: horizontal lines by name.
        limits: names of the lines that are upper limits of an attacker, in 0..1.
        meaning: what the other lines are, as the name of their colour.
    """

    x_label: str
    stops: tuple[str, ...]
    lines: Mapping[str, tuple[float, ...]]
    stop_index: int
    y_label: str
    format_value: Callable[[float], str]
    low: float
    high: float | None
    levels: Mapping[str, float]
    limits: frozenset[str]
    meaning: str

    def _format(self, name: str, value: float) -> str:
        """Return a value of a line as text."""
        return (format_limit_percent if name in self.limits else self.format_value)(value)

    def table(self) -> Columns:
        """Return the curves as columns of text."""
        levels = {name: (level,) * len(self.stops) for name, level in self.levels.items()}
        lines = {
            name: [self._format(name, value) for value in line]
            for name, line in ({**self.lines, **levels}).items()
        }
        return {self.x_label: list(self.stops), **lines}

    @property
    def description(self) -> str:
        """Return the curves in words."""
        table = self.table()
        chosen = self.stop_index
        stops = table.pop(self.x_label)
        sentences = [
            f"{name}: {table[name][0]} to {table[name][-1]} from {self.x_label} {stops[0]} to"
            f" {stops[-1]}, {table[name][chosen]} at {stops[chosen]}"
            for name in self.lines
        ]
        sentences += [f"{name}: {table[name][0]}" for name in self.levels]
        return f"{self.y_label}. {'. '.join(sentences)}"

    def to_html(self) -> str:
        """Return the plot as HTML."""
        last_stop = len(self.stops) - 1
        chosen = self.stop_index
        values = [*self.levels.values(), *(value for line in self.lines.values() for value in line)]
        top = max(values) if self.high is None else self.high

        def left(stop: int) -> float:
            """Return the position of a stop in percent of the plot's width."""
            return 100 * stop / max(last_stop, 1)

        def bottom(value: float) -> float:
            """Return the position of a value in percent of the plot's height."""
            return float(np.interp(value, (self.low, top), (0, 100)))

        plot, legend = [], []
        for value in (self.low, (self.low + top) / 2, top):
            plot.append(_box("level", escape(self.format_value(value)), bottom=bottom(value)))
        plot.append(_box("rule", left=left(chosen)))
        for marker, (name, line) in zip(_MARKERS, self.lines.items(), strict=False):
            style = f"{'risk' if name in self.limits else self.meaning} {marker}"
            label = f"{name}: {self._format(name, line[chosen])}"
            legend.append(_box(f"key {style}", f'<i class="point"></i>{escape(label)}'))
            for stop, value in enumerate(line):
                kind = f"point {style}{' here' if stop == chosen else ''}"
                plot.append(_box(kind, left=left(stop), bottom=bottom(value)))
        for name, value in self.levels.items():
            label = escape(f"{name}: {self.format_value(value)}")
            plot.append(_box("level dashed", f"<span>{label}</span>", bottom=bottom(value)))
        for stop, label in enumerate(self.stops):
            # The label of the chosen one needs room on a phone.
            is_crowded = abs(stop - chosen) <= max(1, last_stop // 8)
            # Up to eight stops have a label each, more than that every third.
            if (
                last_stop < 8
                or stop == chosen
                or (not is_crowded and (stop % 3 == 0 or stop == last_stop))
            ):
                kind = "stop here" if stop == chosen else "stop"
                plot.append(_box(kind, escape(label), left=left(stop)))
        keys = "".join(legend) if len(legend) > 1 else ""
        heading = keys + _box("note", escape(self.y_label))
        return heading + _box("plot", "".join(plot)) + _box("across", escape(self.x_label))


class CellGrid(NamedTuple):
    """A matrix whose cells are lit where its values (0..1) are large.

    Attributes:
        rows: values, row by row.
        marked: row and column of a cell with a frame.
        caption: what a lit cell means.
    """

    rows: tuple[tuple[float, ...], ...]
    marked: tuple[int, int]
    caption: str

    def table(self) -> Columns:
        """Return the number of lit cells by row."""
        lit_counts = [str(sum(value > 0 for value in row)) for row in self.rows]
        return {"row": [str(k + 1) for k in range(len(lit_counts))], "lit": lit_counts}

    @property
    def description(self) -> str:
        """Return the number of lit cells in words."""
        n_lit = sum(map(int, self.table()["lit"]))
        return f"{self.caption}: {n_lit} of {len(self.rows) * len(self.rows[0])} cells are lit"

    def to_html(self) -> str:
        """Return the grid as HTML."""
        cells = []
        for r, row in enumerate(self.rows):
            for c, value in enumerate(row):
                kind = "marked" if self.marked == (r, c) else "cell"
                cells.append(f'<i class="{kind}" style="--lit: {value:.0%}"></i>')
        grid = f'<div class="cells" style="--columns: {len(self.rows[0])}">{"".join(cells)}</div>'
        return grid + _box("note", escape(self.caption))


Picture = OutcomeBars | PeopleDots | IntervalPlot | CurvePlot | CellGrid


def render_picture(picture: Picture) -> str:
    """Return the picture as HTML, labelled with its description."""
    label = escape(picture.description)
    return f'<div class="drawing" role="img" aria-label="{label}">{picture.to_html()}</div>'


def render_illustration(name: str) -> str:
    """Return a picture of illustrations.toml as SVG, with the parts that all of them share."""
    # A part is styled where it is defined, so that its own element has the class.
    parts = "".join(
        f'<g id="{key}" class="illustration">{part}</g>'
        for key, part in _ILLUSTRATIONS["parts"].items()
    )
    box, drawing = (_ILLUSTRATIONS[kind] for kind in ("boxes", "pictures"))
    return (
        f'<svg class="illustration" viewBox="{box[name.partition("-")[1]]}" aria-hidden="true">'
        f"<defs>{parts}{_ILLUSTRATIONS['tip']}</defs>{drawing[name]}</svg>"
    )
