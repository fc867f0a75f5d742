"""Accuracy against the fourteen epsilons of the slider: the chart of the instrument.

Its epsilons stand equally spaced, at the places of the slider's stops, and its margins are fixed:
the slider, the rule and the dot are one thing on one axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpmc_core.lab.views.audits import tick_of
from dpmc_core.lab.views.lines import ALONE, GUESSING, WITHOUT, Line, Picture, uses_facts
from pages.ui.charts import (
    INK,
    MUTED,
    PAPER,
    Figure,
    Style,
    Theme,
    faded,
    figure,
    shaded,
    spread,
    style,
)

PUBLISHED, WITHOUT_FACTS = "the paper's estimate", "without public facts"
HEIGHT = 340  # at least: the component gives it what room the window has
MARGIN = {"l": 44, "r": 158, "t": 8, "b": 48}  # the component places its slider by them
ROOM = 0.5  # of a stop, left of the first and right of the last one
_LABEL = 17  # pixels that a label takes


def instrument(picture: Picture, epsilons: Sequence[float], *, certified: bool) -> Figure:
    """Its lines with bands over seeds, what they run between, a rule, and last of all the dot.

    The first line is what this program makes of the reports; a second one, of the same reports and
    the same certificate, what the paper makes of them. Markers are solid where the claim is
    certified and hollow where it is only claimed.
    """
    metric, places = picture.metric, {e: k for k, e in enumerate(epsilons)}
    across = [-ROOM, len(epsilons) - 1 + ROOM]
    fig = figure(
        height=HEIGHT,
        margin=MARGIN,
        showlegend=False,
        hovermode="x",
        dragmode=False,
    )
    fig.x(
        range=across,
        tickmode="array",
        tickvals=list(places.values()),
        ticktext=[f"{e:g}" for e in epsilons],
        automargin=False,
        ticklabelstandoff=12,  # the slider's knob lies on the axis
        showgrid=False,
        fixedrange=True,
    )
    fig.y(tickformat=metric.ticks, automargin=False, nticks=5, fixedrange=True)
    if not picture.lines:
        fig.y(range=[0, 1], showticklabels=False)
        fig.draw("scatter", x=[], y=[], mode="markers")
        fig.rule(0)
        return fig
    low, high = _reach(picture)
    fig.y(range=[low, high])
    named: list[tuple[float, str]] = []
    for name, level in picture.levels:
        value = level.level.mean
        known = {WITHOUT: (INK, "dash"), **dict.fromkeys((GUESSING, ALONE), (MUTED, "dot"))}
        color, dash = known.get(name, (style(picture.lines[0].mechanism).color, "dash"))
        fig.stroke(across, [value] * 2, color, dash=dash, name=f"{name}: {metric.text(value)}")
        words = name if name in known else "the paper's, no privacy"
        named.append((value, f"{words} {metric.text(value)}"))
    for guess in picture.guesses:
        x, y = _placed(guess, places)
        if x:
            fig.stroke(x, y, MUTED, dash="dot", name=f"{GUESSING} ({guess.label})")
            named.append((y[-1], f"{GUESSING} {metric.text(y[-1])}"))
    other = WITHOUT_FACTS if uses_facts(picture.lines[0]) else PUBLISHED
    for one in reversed(picture.lines):
        first = one is picture.lines[0]
        look = style(one.mechanism)
        over = one.band._replace(x=[places.get(e, -9) for e in one.epsilon.tolist()])
        fig.band(over, faded(look.color, 0.22 if first else 0.1))
        x, y = _placed(one, places)
        fig.line(
            x,
            y,
            look if first else look._replace(dash="dot"),
            f"<b>%{{y:{metric.form}}}</b> (%{{customdata}})<extra>{'' if first else other}</extra>",
            width=2.5 if first else 1.5,
            marker=fig.marker(look, solid=certified, size=8 if first else 4),
            customdata=[
                f"{metric.text(at.low)} to {metric.text(at.high)}"
                for e, at in zip(one.epsilon.tolist(), one.intervals, strict=True)
                if e in places
            ],
        )
        if not first:
            named.append((y[-1], other))
    found = tick_of(picture.lines[0])
    if found is not None and epsilons[0] <= found.measured <= epsilons[-1]:
        at = float(np.interp(math.log(found.measured), np.log(epsilons), range(len(epsilons))))
        here = picture.lines[0].at(found.epsilon)
        assert here is not None
        fig.tick(at, here.mean, style(picture.lines[0].mechanism), found)
    _labels(fig, named, low, high)
    fig.rule(0)
    _dot(fig, picture.lines[0], certified=certified)
    return fig


def standing(fig: Figure, stops: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """The instrument's picture with its dot and its rule at each stop."""
    if not fig.data[-1]["x"]:
        return [fig] * len(stops)
    *others, rule = fig.layout["shapes"]
    return [
        Figure(
            fig.layout | {"shapes": [*others, rule | {"x0": k, "x1": k}]},
            [*fig.data[:-1], fig.data[-1] | {"x": [k], "y": [stop["value"]]}],
        )
        for k, stop in enumerate(stops)
    ]


def over_slider(fig: Figure) -> Figure:
    """Another picture in the same place: its own axis on top, since the slider lies below it."""
    axis = fig.layout.get("xaxis", {})
    legend = {"orientation": "v", "x": 1.02, "xanchor": "left", "y": 1, "yanchor": "top"}
    more = {"height": HEIGHT, "margin": MARGIN | {"t": 48}, "legend": legend, "dragmode": False}
    sides = {"side": "top", "fixedrange": True, "automargin": False}
    upright = fig.layout.get("yaxis", {}) | {"fixedrange": True, "automargin": False}
    return Figure(fig.layout | more | {"xaxis": axis | sides, "yaxis": upright}, fig.data)


def _dot(fig: Figure, only: Line, *, certified: bool) -> None:
    """Where the slider stands; the component moves it."""
    look = style(only.mechanism)
    fig.dots(
        [0],
        [None],
        {
            "size": 16,
            "color": look.color if certified else PAPER,
            "line": {"color": PAPER if certified else look.color, "width": 3},
        },
    )


def _placed(one: Line, places: dict[float, int]) -> tuple[list[int], list[float]]:
    pairs = zip(one.epsilon.tolist(), one.band.mean.tolist(), strict=True)
    found = [(places[e], value) for e, value in pairs if e in places]
    return [x for x, _ in found], [y for _, y in found]


def _labels(fig: Figure, named: Sequence[tuple[float, str]], low: float, high: float) -> None:
    """Names at the right of the lines' ends, in the margin, where they cover nothing."""
    whole = fig.layout["height"] - MARGIN["t"] - MARGIN["b"]
    scale = (high - low) / whole
    named = sorted(named, reverse=True)
    places = spread([(high - value) / scale for value, _ in named], [_LABEL] * len(named), whole)
    for place, (_, text) in zip(places, named, strict=True):
        fig.note(
            x=1,
            xref="paper",
            xanchor="left",
            y=high - place * scale,
            yanchor="middle",
            text=text,
            color=INK if text.startswith(WITHOUT) else MUTED,
            size=12,
        )


def _reach(picture: Picture) -> tuple[float, float]:
    values = [level.level.mean for _, level in picture.levels]
    values += [float(v) for guess in picture.guesses for v in guess.band.mean]
    values += [float(v) for one in picture.lines for v in (*one.band.low, *one.band.high)]
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.01
    return low - room, high + room


def colors(theme: Theme, mechanism: str) -> dict[str, Any]:
    """What the component around the chart draws with."""
    look: Style = style(mechanism)
    found = {"ink": INK, "muted": MUTED, "method": look.color, "paper": PAPER}
    return {name: shaded(color, theme) for name, color in found.items()}
