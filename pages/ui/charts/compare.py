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
    placed_lines: Sequence[Placed],
    ends: Ends,
    waiting: Sequence[str] = (),
    guesses: Sequence[Placed] = (),
) -> Figure:
    """Markers are solid where an epsilon is certified in the unit of the axis, else hollow.

    placed_lines, guesses: the lines of the picture. ends: epsilons that always have room, and
    waiting: mechanisms without a point yet, so that the picture stands still while it fills.
    """
    x_range, text = axis(ends, [*placed_lines, *guesses]), picture.metric.text
    fig = _framed(_LEAST, x_range, placed_lines)
    ids = [*{one.line.mechanism for one in placed_lines}, *waiting]
    baseline_lines = [
        (one.line, one.band, [f"epsilon {x:.4g} {one.counts}<br>" for x in one.x])
        for one in guesses
    ]
    tags = between(fig, picture, x_range, baseline_lines, ids)
    methods_with_features = {one.line.mechanism for one in placed_lines if uses_facts(one.line)}
    for name, one in zip(_names(placed_lines), placed_lines, strict=True):
        line, method_style = one.line, style(one.line.mechanism)
        is_earlier = not uses_facts(line) and line.mechanism in methods_with_features
        x, mean, low, height, seeds = (values.tolist() for values in one.band)
        fig.curve(
            one.band,
            method_style._replace(dash="dot") if is_earlier else method_style,
            f"{line.label}<br>epsilon %{{x:.4g}} {_counted(one)}<br><b>%{{customdata[0]}}</b>,"
            " band %{customdata[1]} to %{customdata[2]}, seeds: %{customdata[3]}<extra></extra>",
            name=f"{line.label} · {_counted(one)}",
            marker=fig.marker(method_style, solid=one.solid),
            customdata=[
                *zip(map(text, mean), map(text, low), map(text, height), seeds, strict=True)
            ],
        )
        tags.append(Tag(name, mean[-1], method_style, one.solid, x[-1]))
        if (
            (measurement := tick_of(line))
            and measurement.counts == one.counts
            and measurement.measured < x_range[1]
        ):
            point = line.at(measurement.epsilon)
            fig.tick(measurement.measured, point and point.mean, method_style, measurement)
    tags += [Tag(f"{registry.short_name(id)}\n{MISSING}", None, style(id), True) for id in waiting]
    lines, baseline_curves = (
        [one.line for one in line_group] for line_group in (placed_lines, guesses)
    )
    height = max(_LEAST, sum(tag.high for tag in tags))
    fig.layout["height"] += height - _LEAST
    _column(fig, picture.metric, tags, reach(picture, lines, baseline_curves), height)
    return fig


def axis(ends: Ends, placed_lines: Sequence[Placed]) -> Ends:
    """The axis of epsilon: all of the grid, and whatever a change of unit moves beyond it."""
    epsilons = [*ends, *(float(x) for placed_line in placed_lines for x in placed_line.x)]
    return min(epsilons) / 1.15, max(epsilons) * 1.15


def roomy(fig: Figure) -> Figure:
    """The same with names that fit in whatever letters a reader has, where a page is no phone."""
    fig.update(margin_r=_FRAME["r"] + 40)
    return fig


def room(fig: Figure) -> str:
    """A style that keeps the page's figure as high as its names need, on whatever window."""
    return f"<style>.st-key-figure {{ --least: {fig.layout['height']}px; }}</style>"


def _framed(
    height: float, x_range: Ends, placed_lines: Sequence[Placed], above: int = 34
) -> Figure:
    """An empty picture over epsilon whose frame is so many pixels high, with some above."""
    low, end = map(math.log10, x_range)
    units = {placed_line.counts for placed_line in placed_lines}
    counted = f"epsilon {units.pop()}" if len(units) == 1 else "epsilon"
    return figure(
        "framed",
        height=height + above + _FRAME["b"],
        margin=_FRAME | {"t": above},
        # an epsilon per user may be thousands
        xaxis=LOG if x_range[1] > 200 else EPSILON_AXIS,
        xaxis_title_text=f"{counted} (left: more private)",
        xaxis_range=[low, end + _LEADER * (end - low)],  # beyond it are names
    )


def _names(placed_lines: Sequence[Placed]) -> list[str]:
    """Their names in the column, with what epsilon counts where that differs."""
    return [
        short_label(placed_line.line) + _unit(placed_line, placed_lines, "\n")
        for placed_line in placed_lines
    ]


def _unit(placed_line: Placed, placed_lines: Sequence[Placed], before: str) -> str:
    """What an epsilon counts, for a narrow place; nothing where all count the same."""
    counts = placed_line.counts.removesuffix(AS_CLAIMED).replace("user-item cell", "cell")
    return f"{before}{counts}" * (len({other.counts for other in placed_lines}) > 1)


def _counted(placed_line: Placed) -> str:
    return placed_line.counts + ", not certified" * (not placed_line.solid)


def _column(
    fig: Figure, metric: Metric, tags: Sequence[Tag], y_range: Sequence[float], height: float
) -> None:
    """The upright axis, and names beside the frame, as near as may be to what they name, and led
    to it."""
    fig.update(yaxis_range=y_range, yaxis_tickformat=metric.ticks and FINE)
    fig.note("axis", text=metric.axis)
    low, right = fig.layout["xaxis"]["range"]
    label_start, edge = low + _NEAR * (right - low), right
    if "type" in fig.layout["xaxis"]:
        label_start, edge = 10**label_start, 10**edge
    for tag, y in zip(tags, beside(fig, tags, y_range, height), strict=True):
        is_connected = tag.at is not None and tag.end >= label_start
        mark = fig.marker(tag.look, solid=bool(tag.solid))
        fig.stroke(
            [tag.end if is_connected else None, edge],
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


def trade(tradeoff: Trade, epsilon: float, height: float = _LEAST) -> Figure:
    """What is predicted against how often an attacker is right at most, who starts with a coin.

    The last three traces are what an epsilon moves: arrows, where papers put the methods (hollow),
    where their releases do.
    """
    picture, metric = tradeoff.picture, tradeoff.picture.metric
    lines, baseline_curves = (
        [track.line for track in track_group] for track_group in (tradeoff.tracks, tradeoff.guesses)
    )
    y_range = reach(picture, lines, baseline_curves)
    y_range = y_range[::-1] if metric.lower else y_range  # the better is above
    raw = any(bead.stand is Stand.RAW for track in tradeoff.tracks for bead in track.beads)
    end = (_RAW if raw else _NO_BOUND) + 0.9
    tick_labels = {log_odds(right): f"{100 * right:g}" for right in (0.75, 0.9, 0.99, MOST)}
    tick_labels |= {0.0: "50<br>coin", _NO_BOUND: "<br>no<br>bound"} | (
        {_RAW: "<br>raw"} if raw else {}
    )
    fig = figure(
        "trade",
        height=height + 110,
        xaxis_range=[-0.25, end * (1 + _LEADER)],
        xaxis_tickvals=list(tick_labels),
        xaxis_ticktext=list(tick_labels.values()),
    )
    fig.shape("gutter", x0=_EDGE + 0.4, x1=end)
    fig.stroke([0, 0], y_range, MUTED, line_dash="dot", line_width=1)
    baselines = [
        (track.line, _placed(track), [f"attacker {said(bead)}<br>" for bead in track.beads])
        for track in tradeoff.guesses
    ]
    tags = between(fig, picture, (0, end), baselines, [line.mechanism for line in lines])
    for track in tradeoff.tracks:
        method_style, placed_band, last = (
            style(track.line.mechanism),
            _placed(track),
            track.beads[-1],
        )
        if track.tick is not None:
            bead_at_attack, measured_position = (
                track.at(track.tick.epsilon),
                log_odds(min(track.least, MOST)),
            )
            if bead_at_attack.stand is not Stand.BOUND:
                ends = [measured_position, _across(bead_at_attack)]
                fig.stroke(
                    ends,
                    [bead_at_attack.value.mean] * 2,
                    faded(method_style.color, 0.4),
                    line_width=7,
                )
            fig.tick(measured_position, bead_at_attack.value.mean, method_style, track.tick)
        fig.curve(
            placed_band,
            method_style,
            TOLD,
            line_width=2,
            marker_size=6,
            marker_line_color=method_style.color,
            marker_line_width=1.5,
            marker_color=[_fill(track, bead) for bead in track.beads],
            text=[_told(track, bead) for bead in track.beads],
        )
        end = _across(last)
        tags.append(
            Tag(short_label(track.line), last.value.mean, method_style, last.stand in _SOLID, end)
        )
    _column(fig, metric, tags, y_range, height)
    beads = [track.at(epsilon) for track in tradeoff.tracks]
    mean, positions = [bead.value.mean for bead in beads], [*map(_across, beads)]
    papers = [None if bead.claimed is None else _odds(bead.claimed) for bead in beads]
    arrows: list[float | None] = []
    for paper, position in zip(papers, positions, strict=True):
        is_far = paper is not None and abs(paper - position) > _APART
        arrows += (paper, position, None) if is_far else (None,) * 3
    method_styles = [style(line.mechanism) for line in lines]
    fig.draw(
        "arrows",
        x=arrows,
        y=np.repeat(mean, 3).tolist(),
        marker_size=[0, 9, 0] * len(method_styles),
    )
    mark = {"symbol": [method_style.marker for method_style in method_styles], "opacity": 1}
    mark |= {
        "line_color": [method_style.color for method_style in method_styles],
        "line_width": 2.5,
    }
    fig.dots(papers, mean, mark | {"size": 18, "color": PAPER})
    texts, colors = ([*map(track, tradeoff.tracks, beads)] for track in (_told, _fill))
    fig.dots(positions, mean, mark | {"size": 15, "color": colors}, text=texts, hover=TOLD)
    return fig


def _fill(track: Track, bead: Bead) -> str:
    return style(track.line.mechanism).color if bead.stand in _SOLID else PAPER


def _odds(right: float) -> float:
    return _NO_BOUND if right > MOST else log_odds(right)


def _across(bead: Bead) -> float:
    return _RAW if bead.stand is Stand.RAW else _odds(bead.right)


def _placed(track: Track) -> Band:
    return track.line.band._replace(x=np.array([_across(bead) for bead in track.beads]))


def _told(one: Track, bead: Bead) -> str:
    value = one.line.metric.text(bead.value.mean)
    return f"{one.line.label}<br>epsilon {bead.epsilon:g}: {value}<br>attacker {said(bead)}"


# --- rows of mechanisms ------------------------------------------------------------------------


def price(answers: Sequence[Answer], x_range: Ends, waiting: Sequence[str] = ()) -> Figure:
    """What a wanted quality costs: a dot with its interval for each mechanism.

    The dot is filled where the epsilon is certified, else hollow. x_range: the axis of the curves.
    """
    placed = [one.placed for one in answers]
    fig, edge = _rows(placed, x_range, waiting)
    for k, one in enumerate(answers):
        here, (value, low, high, seeds) = one.placed, one.epsilon
        color, text = style(here.line.mechanism).color, reach_words(one)
        first, last = float(here.x[0]), float(here.x[-1])
        if math.isfinite(low) and seeds > 1:
            ends = (max(low, first), min(high, edge))
            # an arrow where it goes on beyond what was computed
            beyond = [10 * (low <= first < value), 10 * (high > last)]
            arrow = {"symbol": ["triangle-left", "triangle-right"], "size": beyond, "color": color}
            trace = {"mode": "lines+markers", "marker": arrow, "cliponaxis": False}
            _stretch(fig, k, [ends], faded(color, 0.5), 7, **trace)
        if math.isfinite(value):
            span = span_words(one.epsilon, first, last) if seeds > 1 else "unknown: one seed"
            _mark(fig, k, here, [value], [f"{text}, interval {span}"], size=12)
            _say(fig, k, value, f"<b>{text}</b>{_unit(here, placed, ' ')}")
        else:
            _say(fig, k, edge, f"{text}: best {here.line.metric.text(one.best)}", MUTED)
    return fig


def standing(standings: Sequence[Standing], x_range: Ends, waiting: Sequence[str] = ()) -> Figure:
    """Where each mechanism is clearly the best (thick), where none is clearly better (thin)."""
    fig, edge = _rows([entry.placed for entry in standings], x_range, waiting)
    for k, entry in enumerate(standings):
        x, color = entry.placed.x, style(entry.placed.line.mechanism).color
        if not any(entry.rivals):
            _say(fig, k, edge, "nothing to compare with", MUTED)
        middle = np.sqrt(x[:-1] * x[1:])  # each reaches half way to its neighbours
        edges = np.clip([x[0] / 1.1, *middle, x[-1] * 1.1], *x_range).tolist()
        good = [
            n_rivals > 0 and not n_better
            for n_rivals, n_better in zip(entry.rivals, entry.behind, strict=True)
        ]
        for width, is_marked in ((4, good), (15, entry.best)):
            pairs = zip(itertools.pairwise(edges), is_marked, strict=True)
            _stretch(
                fig,
                k,
                [ends if is_drawn else (None, None) for ends, is_drawn in pairs],
                color,
                width,
            )
        hover_texts = [standing_words(entry, j) for j in range(len(x))]
        opacities = [float(is_drawn) for is_drawn in good]
        _mark(fig, k, entry.placed, x.tolist(), hover_texts, size=8, marker_opacity=opacities)
    return fig


def _rows(
    placed_lines: Sequence[Placed], x_range: Ends, waiting: Sequence[str]
) -> tuple[Figure, float]:
    """A frame with a row for each mechanism, named at the right; those that wait come last."""
    method_styles = [style(placed_line.line.mechanism) for placed_line in placed_lines] + [
        Style(MUTED, "")
    ] * len(waiting)
    names = [*_names(placed_lines), *map(registry.short_name, waiting)]
    tags = [
        Tag(name, -k, method_style, True)
        for k, (name, method_style) in enumerate(zip(names, method_styles, strict=True))
    ]
    height = len(tags) * max([_ROW, *(tag.high + 2 for tag in tags)])
    fig, y_range = _framed(height, x_range, placed_lines, above=8), [0.5 - len(tags), 0.5]
    fig.update(**LOOK["figures"]["rows"], yaxis_range=y_range)
    beside(fig, tags, y_range, height)
    edge = 10 ** fig.layout["xaxis"]["range"][1]
    for k, method_style in enumerate(method_styles):
        _stretch(
            fig, k, [(x_range[0], edge)], faded(method_style.color, 0.45), 1.5, line_dash="dot"
        )
        if k >= len(placed_lines):
            _say(fig, k, edge, MISSING, MUTED)
    return fig, edge


def _stretch(
    fig: Figure, row: int, ends: Sequence[tuple[Any, Any]], color: str, width: float, **trace: Any
) -> None:
    """Parts of a row."""
    x = [end for pair in ends for end in (*pair, None)][:-1]
    fig.stroke(x, [-row] * len(x), color, line_width=width, **trace)


def _mark(
    fig: Figure, row: int, one: Placed, x: Values, texts: Sequence[str], size: int, **trace: Any
) -> None:
    """A mechanism's marks in its row."""
    label, marker = one.line.label, style(one.line.mechanism)
    hover = f"{label}<br>epsilon %{{x:.4g}} {_counted(one)}<br>{TOLD}"
    mark = fig.marker(marker, solid=one.solid, size=size)
    fig.dots(x, [-row] * len(x), mark, name=label, text=texts, hover=hover, **trace)


def _say(fig: Figure, row: int, x: float, text: str, color: str = INK) -> None:
    """Words above a row, at an epsilon."""
    low, right = fig.layout["xaxis"]["range"]
    x = (math.log10(x) - low) / (right - low)
    fig.note("row", text=text, x=x, y=-row, font_color=color)
