"""Accuracy against the fourteen epsilons of the slider: the chart of the instrument.

Its epsilons stand equally spaced, at the places of the slider's stops, and its margins are fixed:
the slider, the rule and the dot are one thing on one axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpmc_lab.curves.cards import epsilon_text
from dpmc_lab.curves.lines import Band, Line, Picture, bars, uses_facts
from dpmc_lab.curves.measurements import tick_of
from pages.ui.charts import (
    EPSILON_AXIS,
    FINE,
    INK,
    MUTED,
    PAPER,
    Figure,
    Theme,
    figure,
    shaded,
    style,
)
from pages.ui.charts.lines import Tag, beside, between, reach

PUBLISHED, WITHOUT_FACTS = "the paper's estimate", "without public facts"
HEIGHT = 340  # at least: the component gives it what room the window has
MARGIN = {"l": 44, "r": 158, "t": 8, "b": 48}  # the component places its slider by them
ROOM = 0.5  # of a stop, left of the first and right of the last one


def instrument(picture: Picture, epsilons: Sequence[float], *, certified: bool) -> Figure:
    """Its lines with bands over seeds, what they run between, a rule, and last of all the dot.

    The first line is what this program makes of the reports; a second one, of the same reports and
    the same certificate, what the paper makes of them. Markers are solid where the claim is
    certified and hollow where it is only claimed.
    """
    places = {e: float(k) for k, e in enumerate(epsilons)}
    across, up = (-ROOM, len(epsilons) - 1 + ROOM), reach(picture, picture.lines, picture.guesses)
    fig = figure(
        "instrument",
        height=HEIGHT,
        margin=MARGIN,
        xaxis_range=list(across),
        xaxis_tickvals=list(places.values()),
        xaxis_ticktext=[f"{e:g}" for e in epsilons],
        yaxis_range=up,
        yaxis_tickformat=picture.metric.ticks and FINE,
    )
    fig.rule(0)
    if not picture.lines:
        fig.update(yaxis_range=[0, 1], yaxis_showticklabels=picture.metric.share)
        fig.dots([], [], {})
        return fig
    only = picture.lines[0]
    look, guesses = style(only.mechanism), [(one, _at(one, places), ()) for one in picture.guesses]
    tags = between(fig, picture, across, guesses, [only.mechanism])
    tags += _runs(fig, picture, places, certified=certified)
    frame = MARGIN["t"] + MARGIN["b"]
    beside(fig, tags, up, HEIGHT - frame)
    # where they stand in every height of the component, by its twenties of pixels
    fig.update(meta={str(k): beside(Figure({}), tags, up, 20 * k - frame) for k in range(14, 60)})
    if (found := tick_of(only)) and epsilons[0] <= found.measured <= epsilons[-1]:
        at = float(np.interp(math.log(found.measured), np.log(epsilons), range(len(epsilons))))
        here = only.at(found.epsilon)
        fig.tick(at, here and here.mean, look, found)
        least = epsilon_text(found.measured, least=True)
        fig.note("measured", x=at, y=here and here.mean, text=f"an attack shows {least}")
    fill, edge = (look.color, PAPER) if certified else (PAPER, look.color)
    # where the slider stands; the component moves it
    fig.dots([0], [None], {"size": 16, "color": fill, "line_color": edge, "line_width": 3})
    return fig


def _at(one: Line, places: Mapping[float, float]) -> Band:
    """Its band at those epsilons that have a place."""
    there = np.isin(one.epsilon, [*places])
    over = Band(*(part[there] for part in one.band))
    return over._replace(x=np.array([places[e] for e in over.x.tolist()]))


def _runs(
    fig: Figure,
    picture: Picture,
    places: Mapping[float, float],
    said: str = "",
    *,
    certified: bool,
    **more: Any,
) -> list[Tag]:
    """The lines of a mechanism: what this program makes of the reports, and behind it another.

    said: first of all where one points.
    """
    text, tags = picture.metric.text, []
    for one in reversed(picture.lines):
        look, over, name = style(one.mechanism), _at(one, places), ""
        if one is not picture.lines[0]:
            name = WITHOUT_FACTS if uses_facts(picture.lines[0]) else PUBLISHED
            tags.append(Tag(name, float(over.mean[-1]), look))
        fig.curve(
            over,
            look._replace(dash="dot") if name else look,
            f"{said}<b>%{{y:{picture.metric.form}}}</b> (%{{customdata}})<extra>{name}</extra>",
            fill=0.1 if name else 0.22,
            line_width=1.5 if name else 2.5,
            marker=fig.marker(look, solid=certified, size=4 if name else 8),
            customdata=[
                f"{text(low)} to {text(high)}"
                for low, high in zip(over.low, over.high, strict=True)
            ],
            **more,
        )
    return tags


def standing(fig: Figure, stops: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """The instrument's picture with its dot and its rule at each stop."""
    *others, dot = fig.data
    (rule,) = fig.layout["shapes"]
    return [
        Figure(
            fig.layout | {"shapes": [rule | {"x0": k, "x1": k}]},
            [*others, dot | {"x": [k], "y": [stop["value"]]}],
        )
        for k, stop in enumerate(stops)
    ]


def colors(theme: Theme, mechanism: str) -> dict[str, Any]:
    """What the component around the chart draws with."""
    found = {"ink": INK, "muted": MUTED, "method": style(mechanism).color, "paper": PAPER}
    return dict(shaded(found, theme))


# --- rankings: under both candidate sets ---------------------------------------------------------


def run_bars(mechanism: str, methods: Mapping[str, Mapping[str, float]]) -> Figure:
    """Four groups of bars: HR@10 and NDCG@10 under both candidate sets; the first is the run's."""
    fig = figure("run_bars")
    looks = ((style(mechanism).color, ""), (INK, "/"), (MUTED, "."))
    for k, (name, values) in enumerate(bars(methods).items()):
        fig.draw(
            "bars",
            x=[metric.panel for metric in values],
            y=list(values.values()),
            text=[metric.text(value) for metric, value in values.items()],
            name=name,
            marker_color=looks[k % 3][0],
            marker_pattern_shape=looks[k % 3][1],
            hover=f"{name}<br>%{{x}}: <b>%{{text}}</b><extra></extra>",
        )
    return fig


def against_epsilon(panels: Sequence[Picture], epsilon: float, *, certified: bool) -> Figure:
    """One small chart per metric, with no privacy dashed and popularity dotted."""
    fig = figure("against_epsilon")
    for panel, shown in zip(("", "2", "3", "4"), panels, strict=True):
        fig.title(panel, shown.metric.panel)
        epsilons = shown.lines[0].epsilon.tolist()
        places = dict(zip(epsilons, epsilons, strict=True))
        guesses = [(one, one.band, ()) for one in shown.guesses]
        between(fig, shown, (epsilons[0], epsilons[-1]), guesses, panel=panel)
        _runs(fig, shown, places, "epsilon %{x:g}: ", certified=certified, panel=panel)
        fig.rule(epsilon, panel=panel)
        axis = EPSILON_AXIS | {"title": {}}
        fig.update(
            **{f"xaxis{panel}": axis, f"yaxis{panel}_tickformat": shown.metric.ticks and FINE}
        )
    return fig
