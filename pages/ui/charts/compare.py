"""Several mechanisms in one picture: curves with bands, the price of a quality, who is better.

All three have the same axis of epsilon, and name what they draw in a column at their right: outside
the frame, where a name covers nothing, in lines so short that there is room on a phone.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_core.lab.views.audits import tick_of
from dpmc_core.lab.views.comparison import Standing, standing_words
from dpmc_core.lab.views.lines import (
    ALONE,
    AS_CLAIMED,
    ENVELOPE,
    GUESSING,
    WITHOUT,
    Band,
    Picture,
    Placed,
    envelope,
    short_label,
    uses_facts,
)
from dpmc_core.lab.views.numbers import Answer, reach_words, span_words
from dpmc_core.lab.views.trade import MOST, Bead, Stand, Track, Trade, log_odds, said
from dpmc_core.metrics import Metric
from pages.ui.charts import (
    EPSILON_AXIS,
    INK,
    MUTED,
    PAPER,
    Ends,
    Figure,
    Style,
    faded,
    figure,
    powers,
    spread,
    style,
)

_PAPER = {"xref": "paper", "yref": "paper"}  # places in shares of the frame
_FRAME = {"l": 48, "r": 118, "b": 46}  # pixels around what is drawn
_LEAST = 360  # pixels that curves are high
_ROW = 46  # of a mechanism among several
_WIDE = 17  # characters in a line of a name: all that a phone has room for
_SIZE, _HIGH = 12, 16  # of a name, and of its lines
_LEADER = 0.07  # of the width: from the ends of curves to their names
_NEAR = 0.75  # of the width: from here on a curve is led to its name
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of the axis: it seldom moves while rows arrive
MISSING = "no curve yet"


class _Tag(NamedTuple):
    """A name in the column. at: what it belongs to, on the vertical axis; None: nothing yet.

    look: of a mechanism; None for a level, in `color`. end: where the curve ends.
    """

    text: str
    at: float | None
    color: str = ""
    look: Style | None = None
    solid: bool = True
    end: float | None = None

    @property
    def lines(self) -> list[str]:
        return name_lines(self.text)


def name_lines(text: str) -> list[str]:
    """A name in lines for the column; a line break in it stays."""
    whole = {"break_long_words": False, "break_on_hyphens": False}
    parts = text.replace(" %", "\u00a0%").split("\n")
    return [line for part in parts for line in textwrap.wrap(part, _WIDE, **whole)]


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
    across, metric, levels = axis(ends, [*placed, *guesses]), picture.metric, picture.levels
    bands = [one.band for one in placed]
    reach = [level.level.mean for _, level in levels]
    reach += [float(v) for over in (*bands, *(one.band for one in guesses)) for v in over.mean]
    up, step = _round_range([*reach, *_bands(reach, bands)])
    ids = [*{one.line.mechanism for one in placed}, *waiting]
    several = sum(name == GUESSING for name, _ in levels) + len(guesses) > 1

    fig = _framed(_LEAST, across, placed)
    tags: list[_Tag] = []

    def tag(name: str, label: str, value: float, color: str, end: float) -> None:
        words = f"{name}: {label.lower()}" if several and name == GUESSING else name
        tags.append(_Tag(f"{words} {metric.text(value)}", value, color, end=end))

    for name, level in levels:
        color, at = _level_color(name, level.mechanism, ids), level.level.mean
        dash = "dot" if name in (ALONE, GUESSING) else "dash"
        fig.level(across, at, (color, dash), f"{name}: {metric.text(at)}")
        tag(name, level.label, at, color, across[1])
    best = envelope(placed)
    if best is not None:  # a broad pale line behind the others: what hindsight would have chosen
        texts = [metric.text(float(value)) for value in best.value]
        fig.stroke(
            best.x.tolist(),
            best.value.tolist(),
            faded(MUTED, 0.3),
            width=9,
            hover=f"{ENVELOPE}<br>epsilon %{{x:.4g}} {best.counts}: %{{customdata[0]}}"
            "<br><b>%{customdata[1]}</b> on the other seeds<extra></extra>",
            name=ENVELOPE,
            customdata=list(zip(best.winners, texts, strict=True)),
        )
    for one in guesses:  # several, each beside other methods, are told apart by their own colours
        color = style(one.line.mechanism).color if len(guesses) > 1 else MUTED
        mean, label = one.band.mean.tolist(), f"{GUESSING}: {one.line.label}"
        fig.stroke(
            one.x.tolist(),
            mean,
            color,
            dash="dot",
            hover=f"{label}<br>epsilon %{{x:.4g}} {one.counts}<br><b>%{{customdata}}</b>"
            "<extra></extra>",
            name=f"{label} · {one.counts}",
            customdata=[metric.text(value) for value in mean],
        )
        tag(GUESSING, one.line.label, mean[-1], color, float(one.x[-1]))
    told = {one.line.mechanism for one in placed if uses_facts(one.line)}
    for one, over in zip(placed, bands, strict=True):
        fig.band(over, faded(style(one.line.mechanism).color, 0.16))
    for name, one, over in zip(_names(placed), placed, bands, strict=True):
        look = style(one.line.mechanism)
        _line(fig, one, over, before=not uses_facts(one.line) and one.line.mechanism in told)
        end = float(one.x[-1])
        tags.append(_Tag(name, float(over.mean[-1]), look=look, solid=one.solid, end=end))
    for one in placed:
        found = tick_of(one.line)
        if found is not None and found.counts == one.counts and found.measured < across[1]:
            here = one.line.at(found.epsilon)
            assert here is not None
            fig.tick(found.measured, here.mean, style(one.line.mechanism), found)
    tags += [_Tag(f"{registry.short_name(id)}\n{MISSING}", None, look=style(id)) for id in waiting]
    high = max(_LEAST, sum(_HIGH * len(tag.lines) + 4 for tag in tags))
    fig.layout["height"] += high - _LEAST
    _column(fig, tags, up, high)
    fig.y(range=up, **_ticks(metric, up, step))
    left = {"x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "yshift": 8}
    fig.note(text=metric.axis, size=13, color=MUTED, **_PAPER, **left)
    return fig


def axis(ends: Ends, placed: Sequence[Placed]) -> Ends:
    """The axis of epsilon: all of the grid, and whatever a change of unit moves beyond it."""
    inside = [float(x) for one in placed for x in one.x]
    return min([ends[0], *inside]) / 1.15, max([ends[1], *inside]) * 1.15


def roomy(fig: Figure) -> Figure:
    """The same with names that fit in whatever letters a reader has, where a page is no phone."""
    margin = fig.layout["margin"] | {"r": _FRAME["r"] + 40}
    return Figure(fig.layout | {"margin": margin}, fig.data)


def room(fig: Figure) -> str:
    """A style that keeps the page's figure as high as its names need, on whatever window."""
    return f"<style>.st-key-figure {{ --least: {fig.layout['height']}px; }}</style>"


def _framed(high: float, across: Ends, placed: Sequence[Placed], above: int = 34) -> Figure:
    """An empty picture over epsilon whose frame is so many pixels high, with some above."""
    whole = high + above + _FRAME["b"]
    fig = figure(height=whole, margin=_FRAME | {"t": above}, showlegend=False)
    low, end = (math.log10(end) for end in across)
    units = {one.counts for one in placed}
    counted = f"epsilon {units.pop()}" if len(units) == 1 else "epsilon"
    wide = powers(-2, 9) if across[1] > 200 else {}  # an epsilon per user may be thousands
    fig.x(
        **EPSILON_AXIS | wide | {"title": f"{counted} (left: more private)"},
        range=[low, end + _LEADER * (end - low)],  # beyond it are names
        automargin=False,
    )
    return fig


def _names(placed: Sequence[Placed]) -> list[str]:
    """Their names in the column, with what epsilon counts where that differs."""
    mixed = len({one.counts for one in placed}) > 1
    return [short_label(one.line) + (f"\n{_unit(one)}" if mixed else "") for one in placed]


def _unit(one: Placed) -> str:
    """What an epsilon counts, for a narrow place."""
    return one.counts.removesuffix(AS_CLAIMED).replace("user-item cell", "cell")


def _level_color(name: str, level: str, mechanisms: Sequence[str]) -> str:
    """A line without privacy that belongs to a single mechanism has its colour."""
    if name in (WITHOUT, ALONE, GUESSING):
        return INK if name == WITHOUT else MUTED
    own = [id for id in mechanisms if registry.get(id).twin == level]
    return style(own[0]).color if len(own) == 1 else MUTED


def _column(fig: Figure, tags: Sequence[_Tag], up: Sequence[float], high: float) -> None:
    """Names beside the frame, as near as may be to what they name, and led to it."""
    scale = (up[1] - up[0]) / high
    wanted = [high if tag.at is None else (up[1] - tag.at) / scale for tag in tags]
    places = spread(wanted, [_HIGH * len(tag.lines) + 4.0 for tag in tags], high)
    low, right = fig.layout["xaxis"]["range"]
    near, edge = low + _NEAR * (right - low), right
    if fig.layout["xaxis"].get("type") == "log":
        near, edge = 10**near, 10**edge
    for tag, place in zip(tags, places, strict=True):
        y = up[1] - place * scale
        led = tag.at is not None and tag.end is not None and tag.end >= near
        look = tag.look
        shown = {} if look is None else fig.marker(look, solid=tag.solid)
        sizes = [0, shown.get("size", 0)]
        fig.draw(
            "scatter",
            x=[tag.end, edge] if led else [None, edge],
            y=[tag.at, y] if led else [None, y],
            mode="lines" if look is None else "lines+markers",
            line={"color": tag.color if look is None else look.color, "width": 1},
            marker=shown | {"size": sizes, "opacity": 1 if tag.at is not None else 0.4},
            cliponaxis=False,
        )
        color = MUTED if look is None else INK
        _name(fig, tag.text, 1 - place / high, color)


def _name(fig: Figure, text: str, y: float, color: str) -> None:
    """A name in the column at a height of the frame."""
    fig.note(
        text="<br>".join(name_lines(text)),
        align="left",
        size=_SIZE,
        color=color,
        borderpad=0,
        **_PAPER,
        x=1,
        y=y,
        xanchor="left",
        yanchor="middle",
        xshift=13,
    )


def _line(fig: Figure, one: Placed, over: Band, *, before: bool) -> None:
    """before: without the facts that another line of its method uses."""
    look, text = style(one.line.mechanism), one.line.metric.text
    look = look._replace(dash="dot") if before else look
    counts = one.counts if one.solid else f"{one.counts}, not certified"
    fig.line(
        over.x.tolist(),
        over.mean.tolist(),
        look,
        name=f"{one.line.label} · {counts}",
        marker=fig.marker(look, solid=one.solid),
        customdata=[
            [text(mean), text(low), text(high), int(seeds)]
            for mean, low, high, seeds in zip(
                over.mean, over.low, over.high, over.seeds, strict=True
            )
        ],
        hover=f"{one.line.label}<br>epsilon %{{x:.4g}} {counts}<br><b>%{{customdata[0]}}</b>,"
        " band %{customdata[1]} to %{customdata[2]}, seeds: %{customdata[3]}<extra></extra>",
    )


def _bands(reach: Sequence[float], bands: Sequence[Band]) -> list[float]:
    """How far bands go, up to a third of what means reach over: one wild seed hides no curve."""
    if not bands:
        return []
    room = (max(reach) - min(reach)) / 3
    least, most = min(reach) - room, max(reach) + room
    return [min(max(float(v), least), most) for over in bands for v in (*over.low, *over.high)]


def _round_range(values: Sequence[float]) -> tuple[list[float], float]:
    """A range that ends on round numbers, with some room, and the step between those."""
    if not values:
        return [0.0, 1.0], 0.1
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.01
    step = next((s for s in _STEPS if high - low <= 12 * s), _STEPS[-1])
    return [step * math.floor((low - room) / step), step * math.ceil((high + room) / step)], step


def _ticks(metric: Metric, up: Sequence[float], step: float) -> dict[str, object]:
    """Eight ticks at most, in the form that values have everywhere."""
    sizes = (step * k * 10.0**power for power in range(9) for k in (1, 2, 5))
    wide = next(size for size in sizes if up[1] - up[0] <= 8 * size)
    values = [wide * k for k in range(math.ceil(up[0] / wide - 1e-9), 1 + int(up[1] / wide + 1e-9))]
    texts = [f"{100 * v:.6g} %" if metric.share else f"{v:.6g}" for v in values]
    return {"tickmode": "array", "tickvals": values, "ticktext": texts, "automargin": False}


# --- the trade ---------------------------------------------------------------------------------

_EDGE = log_odds(MOST)  # where the axis ends and the gutter begins
_NO_BOUND, _RAW = _EDGE + 1.3, _EDGE + 3.0  # lanes of the gutter
_LANES = {Stand.USELESS: _NO_BOUND, Stand.NONE: _NO_BOUND, Stand.RAW: _RAW}


def trade(shown: Trade, epsilon: float, high: float = _LEAST) -> Figure:
    """What is predicted against how often an attacker is right at most, who starts with a coin.

    The last three traces are those of `trade_at`.
    """
    picture = shown.picture
    metric, levels = picture.metric, picture.levels
    lines = [one.line for one in (*shown.tracks, *shown.guesses)]
    reach = [level.level.mean for _, level in levels]
    reach += [value for line in lines for value in line.band.mean.tolist()]
    up, step = _round_range([*reach, *_bands(reach, [line.band for line in lines])])
    raw = any(bead.stand is Stand.RAW for one in shown.tracks for bead in one.beads)
    end = (_RAW if raw else _NO_BOUND) + 0.9
    up = up[::-1] if metric.lower else up  # the better is above
    fig = figure(height=high + 110, margin=_FRAME | {"t": 34, "b": 76}, showlegend=False)
    named = {log_odds(right): f"{100 * right:g}" for right in (0.75, 0.9, 0.99, MOST)}
    named |= {0.0: "50<br>coin", _NO_BOUND: "<br>no<br>bound"} | ({_RAW: "<br>raw"} if raw else {})
    fig.x(
        "attacker right at most, in 100",
        range=[-0.25, end * (1 + _LEADER)],
        tickmode="array",
        tickvals=list(named),
        ticktext=list(named.values()),
        tickangle=0,
        automargin=False,
    )
    fig.y(range=up, **_ticks(metric, sorted(up), step))
    gutter = {"type": "rect", "x0": _EDGE + 0.4, "x1": end, "y0": 0, "y1": 1, "yref": "y domain"}
    fig.shape(**gutter, fillcolor=faded(MUTED, 0.12), line={"width": 0}, layer="below")
    fig.stroke([0, 0], up, MUTED, dash="dot", width=1)
    tags = []
    for name, level in levels:
        color = _level_color(name, level.mechanism, [line.mechanism for line in lines])
        value, dash = level.level.mean, "dot" if name in (ALONE, GUESSING) else "dash"
        text = f"{name} {metric.text(value)}"
        fig.level((0, end), value, (color, dash), text)
        tags.append(_Tag(text, value, color, end=end))
    for guess in shown.guesses:
        x, mean = [_across(bead) for bead in guess.beads], guess.line.band.mean.tolist()
        fig.stroke(
            x, mean, MUTED, dash="dot", hover=f"{GUESSING}: {guess.line.label}<extra></extra>"
        )
        tags.append(_Tag(f"{GUESSING} {metric.text(mean[-1])}", mean[-1], MUTED, end=x[-1]))
    for one in shown.tracks:
        look, x = style(one.line.mechanism), [_across(bead) for bead in one.beads]
        mean = one.line.band.mean.tolist()
        fig.band(one.line.band._replace(x=np.array(x)), faded(look.color, 0.16))
        if one.tick is not None:
            here, least = one.at(one.tick.epsilon), log_odds(min(one.least, MOST))
            if here.stand is not Stand.BOUND:
                color = faded(look.color, 0.4)
                fig.stroke([least, _across(here)], [here.value.mean] * 2, color, width=7)
            fig.tick(least, here.value.mean, look, one.tick)
        solid = [bead.stand in _SOLID for bead in one.beads]
        texts = [_told(one, bead) for bead in one.beads]
        marker = {"symbol": look.marker, "size": 6, "line": {"color": look.color, "width": 1.5}}
        marker["color"] = [look.color if yes else PAPER for yes in solid]
        fig.line(x, mean, look, "%{text}<extra></extra>", width=2, marker=marker, text=texts)
        name = short_label(one.line)
        tags.append(_Tag(name, mean[-1], look=look, solid=solid[-1], end=x[-1]))
    _column(fig, tags, up, high)
    left = {"x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "yshift": 8}
    fig.note(text=metric.axis, size=13, color=MUTED, **_PAPER, **left)
    looks = [style(one.line.mechanism) for one in shown.tracks]
    mark = {"symbol": [look.marker for look in looks], "opacity": 1, "size": 18}
    mark |= {"line": {"color": [look.color for look in looks], "width": 2.5}}
    head = {"symbol": "arrow", "angleref": "previous", "size": [0, 9, 0] * len(looks)}
    moved = trade_at(shown, epsilon)
    x, y, texts, colors = moved.values()
    line = {"mode": "lines+markers", "line": {"color": MUTED, "width": 1.5}}
    fig.draw("scatter", x=x[0], y=y[0], **line, marker=head | {"color": colors[0]})
    fig.dots(x[1], y[1], mark | {"color": colors[1]})
    mark |= {"color": colors[2], "size": 15}
    fig.dots(x[2], y[2], mark, text=texts[2], hover="%{text}<extra></extra>")
    return fig


_SOLID = (Stand.BOUND, Stand.USELESS)  # certified


def trade_at(shown: Trade, epsilon: float) -> dict[str, list[Any]]:
    """What an epsilon moves, as `Plotly.restyle` takes it for the last three traces: arrows, where
    papers put the methods (hollow), where their releases do."""
    x: list[list[Any]] = [[], [], []]
    y: list[list[Any]] = [[], [], []]
    texts, fills = [], []
    for one in shown.tracks:
        bead, paper = one.at(epsilon), None
        at, mean = _across(bead), bead.value.mean
        if bead.claimed is not None:
            paper = _NO_BOUND if bead.claimed > MOST else log_odds(bead.claimed)
        apart = paper is not None and abs(paper - at) > _APART
        x[0] += [paper, at, None] if apart else [None] * 3
        x[1].append(paper)
        x[2].append(at)
        for k, many in enumerate((3, 1, 1)):
            y[k] += [mean] * many
        texts.append(_told(one, bead))
        fills.append(style(one.line.mechanism).color if bead.stand in _SOLID else PAPER)
    return {"x": x, "y": y, "text": ["", "", texts], "marker.color": [MUTED, PAPER, fills]}


_APART = 0.2  # on the axis: nearer ones need no arrow


def _across(bead: Bead) -> float:
    return _LANES[bead.stand] if bead.stand in _LANES else log_odds(bead.right)


def _told(one: Track, bead: Bead) -> str:
    value = one.line.metric.text(bead.value.mean)
    return f"{one.line.label}<br>epsilon {bead.epsilon:g}: {value}<br>attacker: {said(bead)}"


# --- rows of mechanisms ------------------------------------------------------------------------


def price(answers: Sequence[Answer], across: Ends, waiting: Sequence[str] = ()) -> Figure:
    """What a wanted quality costs: a dot with its interval for each mechanism.

    The dot is filled where the epsilon is certified, else hollow. across: the axis of the curves.
    """
    placed = [one.placed for one in answers]
    fig, edge = _rows(placed, across, waiting)
    mixed = len({one.counts for one in placed}) > 1
    for k, one in enumerate(answers):
        look = style(one.placed.line.mechanism)
        value, low, high = one.epsilon[:3]
        reached, first = math.isfinite(value), float(one.placed.x[0])
        if math.isfinite(low) and one.epsilon.seeds > 1:
            ends = (max(low, first), min(high, edge))
            fig.stroke(ends, [-k] * 2, faded(look.color, 0.5), width=7)
            beyond = (
                (first, "left", low <= first < value),
                (edge, "right", high > one.placed.x[-1]),
            )
            for x, side, there in beyond:  # an interval that goes on beyond the epsilons computed
                if there:
                    mark = {"symbol": f"triangle-{side}", "size": 10, "color": look.color}
                    fig.dots([x], [-k], mark, cliponaxis=False)
        text = reach_words(one)
        if reached:
            unit = f" {_unit(one.placed)}" if mixed else ""
            shown = f"<b>{text}</b>{unit}"
            fig.dots(
                [value],
                [-k],
                fig.marker(look, solid=one.placed.solid, size=12),
                hover=f"{one.placed.line.label}<br>epsilon {text} {one.placed.counts}"
                + ("" if one.placed.solid else ", not certified")
                + f"<br>interval {_span(one)}<extra></extra>",
                name=one.placed.line.label,
            )
        else:
            shown = f"{text}: best {one.placed.line.metric.text(one.best)}"
        _say(fig, -k, value if reached else edge, shown, faint=not reached)
    return fig


def standing(found: Sequence[Standing], across: Ends, waiting: Sequence[str] = ()) -> Figure:
    """Where each mechanism is clearly the best (thick), where none is clearly better (thin)."""
    fig, edge = _rows([one.placed for one in found], across, waiting)
    for k, one in enumerate(found):
        look, x = style(one.placed.line.mechanism), one.placed.x
        if not any(one.rivals):
            _say(fig, -k, edge, "nothing to compare with", faint=True)
            continue
        cells = _cells(x, across)
        told = [standing_words(one, j) for j in range(len(x))]
        good = [
            bool(rivals) and not behind
            for rivals, behind in zip(one.rivals, one.behind, strict=True)
        ]
        for width, there in ((4, good), (15, one.best)):
            places = [(cells[j] if yes else (None, None), None) for j, yes in enumerate(there)]
            fig.stroke(
                [end for pair, gap in places for end in (*pair, gap)],
                [-k] * (3 * len(places)),
                look.color,
                width=width,
            )
        shown = fig.marker(look, solid=one.placed.solid, size=8)
        fig.dots(
            x.tolist(),
            [-k] * len(x),
            shown | {"opacity": [float(yes) for yes in good]},
            name=one.placed.line.label,
            hover=f"{one.placed.line.label}<br>epsilon %{{x:.4g}} {one.placed.counts}"
            "<br>%{customdata}<extra></extra>",
            customdata=told,
        )
    return fig


def _rows(placed: Sequence[Placed], across: Ends, waiting: Sequence[str]) -> tuple[Figure, float]:
    """A frame with a row for each mechanism, named at the right; those that wait come last."""
    names = [*_names(placed), *map(registry.short_name, waiting)]
    row = max([_ROW, *(_HIGH * len(name_lines(name)) + 6 for name in names)])
    count = len(names)
    fig = _framed(count * row, across, placed, above=8)
    edge = 10 ** fig.layout["xaxis"]["range"][1]
    fig.y(range=[0.5 - count, 0.5], showticklabels=False, showgrid=False, automargin=False)
    colors = [style(one.line.mechanism).color for one in placed] + [MUTED] * len(waiting)
    for k, (name, color) in enumerate(zip(names, colors, strict=True)):
        ends = [across[0], edge]
        fig.stroke(ends, [-k] * 2, faded(color, 0.45), width=1.5, dash="dot")
        _name(fig, name, 1 - (k + 0.5) / count, INK)
        if k >= len(placed):
            _say(fig, -k, edge, MISSING, faint=True)
    return fig, edge


def _say(fig: Figure, row: float, x: float, text: str, *, faint: bool) -> None:
    """Words above a row, at an epsilon, inside the frame."""
    (low, right), at = fig.layout["xaxis"]["range"], math.log10(x)
    share = (at - low) / (right - low)
    side = "left" if share < 0.3 else "right" if share > 0.65 else "center"
    shift = {"left": -6, "right": 6, "center": 0}[side] if not faint else 0
    fig.note(
        x=at,
        y=row,
        text=text,
        xanchor=side,
        yanchor="bottom",
        xshift=shift,
        yshift=8,
        size=13,
        color=MUTED if faint else INK,
        borderpad=0,
    )


def _span(answer: Answer) -> str:
    if answer.epsilon.seeds < 2:
        return "unknown: one seed"
    x = answer.placed.x
    return span_words(answer.epsilon, float(x[0]), float(x[-1]))


def _cells(x: np.ndarray, across: Ends) -> list[Ends]:
    """From half way to the epsilon before to half way to the next, in logarithms."""
    at = np.log(x)
    middle = (at[:-1] + at[1:]) / 2
    first = 2 * at[0] - middle[0] if len(x) > 1 else at[0] - 0.1
    last = 2 * at[-1] - middle[-1] if len(x) > 1 else at[-1] + 0.1
    edges = np.clip(np.exp([first, *middle, last]), *across)
    return list(itertools.pairwise(edges.tolist()))
