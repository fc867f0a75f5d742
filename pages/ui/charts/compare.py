"""Several mechanisms in one picture: curves with bands, the price of a quality, who is better.

All three have the same axis of epsilon, and name what they draw in a column at their right: outside
the frame, where a name covers nothing, in lines so short that there is room on a phone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmc_core import registry
from dpmc_core.metrics import Metric
from dpmc_lab.curves.comparison import Standing, standing_words
from dpmc_lab.curves.lines import (
    AS_CLAIMED,
    Band,
    Picture,
    Placed,
    short_label,
    uses_facts,
)
from dpmc_lab.curves.measurements import tick_of
from dpmc_lab.curves.numbers import Answer, reach_words, span_words
from dpmc_lab.curves.trade import MOST, Bead, Stand, Track, Trade, log_odds, said
from pages.ui.charts import (
    EPSILON_AXIS,
    FINE,
    INK,
    LOG,
    LOOK,
    MUTED,
    PAPER,
    TOLD,
    Ends,
    Figure,
    Style,
    Values,
    faded,
    figure,
    style,
)
from pages.ui.charts.lines import Tag, beside, between, reach

_FRAME = {"l": 48, "r": 118, "b": 46}  # pixels around what is drawn
_LEAST = 360  # pixels that curves are high
_ROW = 46  # of a mechanism among several
_LEADER = 0.07  # of the width: from the ends of curves to their names
_NEAR = 0.75  # of the width: from here on a curve is led to its name
MISSING = "no curve yet"


# --- curves ------------------------------------------------------------------------------------


def compare(
    picture: Picture,
    placed: Sequence[Placed],
    ends: Ends,
    waiting: Sequence[str] = (),
    guesses: Sequence[Placed] = (),
) -> Figure:
    """Markers are solid where an epsilon is certified in the unit of the axis, else hollow.

    placed, guesses: the lines of the picture. ends: epsilons that always have room, and waiting:
    mechanisms without a point yet, so that the picture stands still while it fills.
    """
    across, text = axis(ends, [*placed, *guesses]), picture.metric.text
    fig = _framed(_LEAST, across, placed)
    ids = [*{one.line.mechanism for one in placed}, *waiting]
    drawn = [
        (one.line, one.band, [f"epsilon {x:.4g} {one.counts}<br>" for x in one.x])
        for one in guesses
    ]
    tags = between(fig, picture, across, drawn, ids)
    told = {one.line.mechanism for one in placed if uses_facts(one.line)}
    for name, one in zip(_names(placed), placed, strict=True):
        line, look = one.line, style(one.line.mechanism)
        before = not uses_facts(line) and line.mechanism in told
        x, mean, low, high, seeds = (part.tolist() for part in one.band)
        fig.curve(
            one.band,
            look._replace(dash="dot") if before else look,
            f"{line.label}<br>epsilon %{{x:.4g}} {_counted(one)}<br><b>%{{customdata[0]}}</b>,"
            " band %{customdata[1]} to %{customdata[2]}, seeds: %{customdata[3]}<extra></extra>",
            name=f"{line.label} · {_counted(one)}",
            marker=fig.marker(look, solid=one.solid),
            customdata=[*zip(map(text, mean), map(text, low), map(text, high), seeds, strict=True)],
        )
        tags.append(Tag(name, mean[-1], look, one.solid, x[-1]))
        if (found := tick_of(line)) and found.counts == one.counts and found.measured < across[1]:
            here = line.at(found.epsilon)
            fig.tick(found.measured, here and here.mean, look, found)
    tags += [Tag(f"{registry.short_name(id)}\n{MISSING}", None, style(id), True) for id in waiting]
    lines, guessed = ([one.line for one in side] for side in (placed, guesses))
    high = max(_LEAST, sum(tag.high for tag in tags))
    fig.layout["height"] += high - _LEAST
    _column(fig, picture.metric, tags, reach(picture, lines, guessed), high)
    return fig


def axis(ends: Ends, placed: Sequence[Placed]) -> Ends:
    """The axis of epsilon: all of the grid, and whatever a change of unit moves beyond it."""
    inside = [*ends, *(float(x) for one in placed for x in one.x)]
    return min(inside) / 1.15, max(inside) * 1.15


def roomy(fig: Figure) -> Figure:
    """The same with names that fit in whatever letters a reader has, where a page is no phone."""
    fig.update(margin_r=_FRAME["r"] + 40)
    return fig


def room(fig: Figure) -> str:
    """A style that keeps the page's figure as high as its names need, on whatever window."""
    return f"<style>.st-key-figure {{ --least: {fig.layout['height']}px; }}</style>"


def _framed(high: float, across: Ends, placed: Sequence[Placed], above: int = 34) -> Figure:
    """An empty picture over epsilon whose frame is so many pixels high, with some above."""
    low, end = map(math.log10, across)
    units = {one.counts for one in placed}
    counted = f"epsilon {units.pop()}" if len(units) == 1 else "epsilon"
    return figure(
        "framed",
        height=high + above + _FRAME["b"],
        margin=_FRAME | {"t": above},
        # an epsilon per user may be thousands
        xaxis=LOG if across[1] > 200 else EPSILON_AXIS,
        xaxis_title_text=f"{counted} (left: more private)",
        xaxis_range=[low, end + _LEADER * (end - low)],  # beyond it are names
    )


def _names(placed: Sequence[Placed]) -> list[str]:
    """Their names in the column, with what epsilon counts where that differs."""
    return [short_label(one.line) + _unit(one, placed, "\n") for one in placed]


def _unit(one: Placed, placed: Sequence[Placed], before: str) -> str:
    """What an epsilon counts, for a narrow place; nothing where all count the same."""
    counts = one.counts.removesuffix(AS_CLAIMED).replace("user-item cell", "cell")
    return f"{before}{counts}" * (len({other.counts for other in placed}) > 1)


def _counted(one: Placed) -> str:
    return one.counts + ", not certified" * (not one.solid)


def _column(
    fig: Figure, metric: Metric, tags: Sequence[Tag], up: Sequence[float], high: float
) -> None:
    """The upright axis, and names beside the frame, as near as may be to what they name, and led
    to it."""
    fig.update(yaxis_range=up, yaxis_tickformat=metric.ticks and FINE)
    fig.note("axis", text=metric.axis)
    low, right = fig.layout["xaxis"]["range"]
    near, edge = low + _NEAR * (right - low), right
    if "type" in fig.layout["xaxis"]:
        near, edge = 10**near, 10**edge
    for tag, y in zip(tags, beside(fig, tags, up, high), strict=True):
        led = tag.at is not None and tag.end >= near
        mark = fig.marker(tag.look, solid=bool(tag.solid))
        fig.stroke(
            [tag.end if led else None, edge],
            [tag.at, y],
            tag.look.color,
            line_width=1,
            mode="lines" if tag.solid is None else "lines+markers",
            marker=mark | {"size": [0, mark["size"]], "opacity": 0.4 if tag.at is None else 1},
            cliponaxis=False,
        )


# --- the trade ---------------------------------------------------------------------------------

_EDGE = log_odds(MOST)  # where the axis ends and the gutter begins
_NO_BOUND, _RAW = _EDGE + 1.3, _EDGE + 3.0  # lanes of the gutter
_SOLID = (Stand.BOUND, Stand.USELESS)  # certified
_APART = 0.2  # on the axis: nearer ones need no arrow


def trade(shown: Trade, epsilon: float, high: float = _LEAST) -> Figure:
    """What is predicted against how often an attacker is right at most, who starts with a coin.

    The last three traces are what an epsilon moves: arrows, where papers put the methods (hollow),
    where their releases do.
    """
    picture, metric = shown.picture, shown.picture.metric
    lines, guessed = ([one.line for one in side] for side in (shown.tracks, shown.guesses))
    up = reach(picture, lines, guessed)
    up = up[::-1] if metric.lower else up  # the better is above
    raw = any(bead.stand is Stand.RAW for one in shown.tracks for bead in one.beads)
    end = (_RAW if raw else _NO_BOUND) + 0.9
    named = {log_odds(right): f"{100 * right:g}" for right in (0.75, 0.9, 0.99, MOST)}
    named |= {0.0: "50<br>coin", _NO_BOUND: "<br>no<br>bound"} | ({_RAW: "<br>raw"} if raw else {})
    fig = figure(
        "trade",
        height=high + 110,
        xaxis_range=[-0.25, end * (1 + _LEADER)],
        xaxis_tickvals=list(named),
        xaxis_ticktext=list(named.values()),
    )
    fig.shape("gutter", x0=_EDGE + 0.4, x1=end)
    fig.stroke([0, 0], up, MUTED, line_dash="dot", line_width=1)
    guesses = [
        (one.line, _placed(one), [f"attacker {said(bead)}<br>" for bead in one.beads])
        for one in shown.guesses
    ]
    tags = between(fig, picture, (0, end), guesses, [line.mechanism for line in lines])
    for one in shown.tracks:
        look, over, last = style(one.line.mechanism), _placed(one), one.beads[-1]
        if one.tick is not None:
            here, least = one.at(one.tick.epsilon), log_odds(min(one.least, MOST))
            if here.stand is not Stand.BOUND:
                ends = [least, _across(here)]
                fig.stroke(ends, [here.value.mean] * 2, faded(look.color, 0.4), line_width=7)
            fig.tick(least, here.value.mean, look, one.tick)
        fig.curve(
            over,
            look,
            TOLD,
            line_width=2,
            marker_size=6,
            marker_line_color=look.color,
            marker_line_width=1.5,
            marker_color=[_fill(one, bead) for bead in one.beads],
            text=[_told(one, bead) for bead in one.beads],
        )
        end = _across(last)
        tags.append(Tag(short_label(one.line), last.value.mean, look, last.stand in _SOLID, end))
    _column(fig, metric, tags, up, high)
    beads = [one.at(epsilon) for one in shown.tracks]
    mean, at = [bead.value.mean for bead in beads], [*map(_across, beads)]
    papers = [None if bead.claimed is None else _odds(bead.claimed) for bead in beads]
    arrows: list[float | None] = []
    for paper, own in zip(papers, at, strict=True):
        apart = paper is not None and abs(paper - own) > _APART
        arrows += (paper, own, None) if apart else (None,) * 3
    looks = [style(line.mechanism) for line in lines]
    fig.draw("arrows", x=arrows, y=np.repeat(mean, 3).tolist(), marker_size=[0, 9, 0] * len(looks))
    mark = {"symbol": [look.marker for look in looks], "opacity": 1}
    mark |= {"line_color": [look.color for look in looks], "line_width": 2.5}
    fig.dots(papers, mean, mark | {"size": 18, "color": PAPER})
    texts, colors = ([*map(one, shown.tracks, beads)] for one in (_told, _fill))
    fig.dots(at, mean, mark | {"size": 15, "color": colors}, text=texts, hover=TOLD)
    return fig


def _fill(one: Track, bead: Bead) -> str:
    return style(one.line.mechanism).color if bead.stand in _SOLID else PAPER


def _odds(right: float) -> float:
    return _NO_BOUND if right > MOST else log_odds(right)


def _across(bead: Bead) -> float:
    return _RAW if bead.stand is Stand.RAW else _odds(bead.right)


def _placed(one: Track) -> Band:
    return one.line.band._replace(x=np.array([_across(bead) for bead in one.beads]))


def _told(one: Track, bead: Bead) -> str:
    value = one.line.metric.text(bead.value.mean)
    return f"{one.line.label}<br>epsilon {bead.epsilon:g}: {value}<br>attacker {said(bead)}"


# --- rows of mechanisms ------------------------------------------------------------------------


def price(answers: Sequence[Answer], across: Ends, waiting: Sequence[str] = ()) -> Figure:
    """What a wanted quality costs: a dot with its interval for each mechanism.

    The dot is filled where the epsilon is certified, else hollow. across: the axis of the curves.
    """
    placed = [one.placed for one in answers]
    fig, edge = _rows(placed, across, waiting)
    for k, one in enumerate(answers):
        here, (value, low, high, seeds) = one.placed, one.epsilon
        color, text = style(here.line.mechanism).color, reach_words(one)
        first, last = float(here.x[0]), float(here.x[-1])
        if math.isfinite(low) and seeds > 1:
            ends = (max(low, first), min(high, edge))
            # an arrow where it goes on beyond what was computed
            beyond = [10 * (low <= first < value), 10 * (high > last)]
            head = {"symbol": ["triangle-left", "triangle-right"], "size": beyond, "color": color}
            more = {"mode": "lines+markers", "marker": head, "cliponaxis": False}
            _stretch(fig, k, [ends], faded(color, 0.5), 7, **more)
        if math.isfinite(value):
            span = span_words(one.epsilon, first, last) if seeds > 1 else "unknown: one seed"
            _mark(fig, k, here, [value], [f"{text}, interval {span}"], size=12)
            _say(fig, k, value, f"<b>{text}</b>{_unit(here, placed, ' ')}")
        else:
            _say(fig, k, edge, f"{text}: best {here.line.metric.text(one.best)}", MUTED)
    return fig


def standing(found: Sequence[Standing], across: Ends, waiting: Sequence[str] = ()) -> Figure:
    """Where each mechanism is clearly the best (thick), where none is clearly better (thin)."""
    fig, edge = _rows([one.placed for one in found], across, waiting)
    for k, one in enumerate(found):
        x, color = one.placed.x, style(one.placed.line.mechanism).color
        if not any(one.rivals):
            _say(fig, k, edge, "nothing to compare with", MUTED)
        middle = np.sqrt(x[:-1] * x[1:])  # each reaches half way to its neighbours
        cells = np.clip([x[0] / 1.1, *middle, x[-1] * 1.1], *across).tolist()
        good = [some > 0 and not worse for some, worse in zip(one.rivals, one.behind, strict=True)]
        for width, there in ((4, good), (15, one.best)):
            pairs = zip(itertools.pairwise(cells), there, strict=True)
            _stretch(fig, k, [ends if yes else (None, None) for ends, yes in pairs], color, width)
        told = [standing_words(one, j) for j in range(len(x))]
        shown = [float(yes) for yes in good]
        _mark(fig, k, one.placed, x.tolist(), told, size=8, marker_opacity=shown)
    return fig


def _rows(placed: Sequence[Placed], across: Ends, waiting: Sequence[str]) -> tuple[Figure, float]:
    """A frame with a row for each mechanism, named at the right; those that wait come last."""
    looks = [style(one.line.mechanism) for one in placed] + [Style(MUTED, "")] * len(waiting)
    names = [*_names(placed), *map(registry.short_name, waiting)]
    tags = [
        Tag(name, -k, look, True) for k, (name, look) in enumerate(zip(names, looks, strict=True))
    ]
    high = len(tags) * max([_ROW, *(tag.high + 2 for tag in tags)])
    fig, up = _framed(high, across, placed, above=8), [0.5 - len(tags), 0.5]
    fig.update(**LOOK["figures"]["rows"], yaxis_range=up)
    beside(fig, tags, up, high)
    edge = 10 ** fig.layout["xaxis"]["range"][1]
    for k, look in enumerate(looks):
        _stretch(fig, k, [(across[0], edge)], faded(look.color, 0.45), 1.5, line_dash="dot")
        if k >= len(placed):
            _say(fig, k, edge, MISSING, MUTED)
    return fig, edge


def _stretch(
    fig: Figure, row: int, ends: Sequence[tuple[Any, Any]], color: str, width: float, **more: Any
) -> None:
    """Parts of a row."""
    x = [end for pair in ends for end in (*pair, None)][:-1]
    fig.stroke(x, [-row] * len(x), color, line_width=width, **more)


def _mark(
    fig: Figure, row: int, one: Placed, x: Values, texts: Sequence[str], size: int, **more: Any
) -> None:
    """A mechanism's marks in its row."""
    label, marker = one.line.label, style(one.line.mechanism)
    hover = f"{label}<br>epsilon %{{x:.4g}} {_counted(one)}<br>{TOLD}"
    mark = fig.marker(marker, solid=one.solid, size=size)
    fig.dots(x, [-row] * len(x), mark, name=label, text=texts, hover=hover, **more)


def _say(fig: Figure, row: int, x: float, text: str, color: str = INK) -> None:
    """Words above a row, at an epsilon."""
    low, right = fig.layout["xaxis"]["range"]
    x = (math.log10(x) - low) / (right - low)
    fig.note("row", text=text, x=x, y=-row, font_color=color)
