"""Accuracy against epsilon: the main picture."""

from __future__ import annotations

import math

import numpy as np

from dpmc_core.views.lines import GUESSING, WITHOUT, Line, Picture, Reference
from pages.ui.charts import (
    EPSILON_AXIS,
    LONG_LEGEND,
    Figure,
    Room,
    Style,
    Theme,
    band,
    faded,
    figure,
    horizontal,
    line,
    marker,
    rule,
    style,
    wrapped,
)

PUBLISHED = "the paper's own estimate"


def curve(picture: Picture, epsilon: float, *, certified: bool, theme: Theme) -> Figure:
    """The mean of its lines with bands over seeds, what they run between, and a rule at epsilon.

    The first line is what this program makes of the reports; a second one, of the same reports and
    the same certificate, what the paper makes of them. Markers are solid where the claim is
    certified and hollow where it is only claimed.
    """
    only, metric = picture.lines[0], picture.metric
    here, look = only.at(epsilon), style(only.mechanism)
    own = [level for name, level in picture.levels if name not in (WITHOUT, GUESSING)]
    fig = figure(
        theme,
        height=400 + 18 * len(own),
        showlegend=len(picture.lines) + len(own) > 1,
        legend=LONG_LEGEND,
    )
    lowest = min(float(one.epsilon[0]) for one in picture.lines)
    highest = max(float(one.epsilon[-1]) for one in picture.lines)
    ends = (min(lowest, epsilon), max(highest, epsilon))
    across = [math.log10(ends[0]) - 0.06, math.log10(ends[1]) + 0.06]
    up = _reach(picture)
    room = Room(across, up)
    for name, level in picture.levels:
        _level(fig, name, level, ends, look, theme)
        room.line([math.log10(end) for end in ends], [level.level.mean] * 2)
    for guess in picture.guesses:
        _guess(fig, guess, theme)
        room.line(np.log10(guess.epsilon), guess.band.mean)
    for one in reversed(picture.lines):
        over, first = one.band, one is only
        room.line(np.log10(over.x), over.mean)
        band(fig, over, faded(look.color, 0.22 if first else 0.1), showlegend=False)
        line(
            fig,
            over.x,
            over.mean,
            look if first else look._replace(dash="dot"),
            f"{one.label}<br>epsilon %{{x:g}}<br><b>%{{y:{metric.form}}}</b>, interval"
            f" %{{customdata[0]:{metric.form}}} to %{{customdata[1]:{metric.form}}}<extra></extra>",
            name=wrapped(one.label if first else PUBLISHED),
            width=2.5 if first else 1.5,
            marker=marker(look, theme, solid=certified, size=9 if first else 5),
            customdata=list(zip(over.low, over.high, strict=True)),
        )
    _names(fig, room, picture, ends, theme)
    rule(fig, epsilon, theme)
    if here is not None:
        text = metric.text(here.mean)
        _spot(fig, room, epsilon, here.mean, text, look.color, certified, theme)
    fig.x(**EPSILON_AXIS, range=across)
    fig.y(range=up, tickformat=metric.ticks, title=metric.axis)
    return fig


def _guess(fig: Figure, guess: Line, theme: Theme) -> None:
    """A private guess, which needs epsilon too."""
    over = guess.band
    fig.draw(
        "scatter",
        x=over.x.tolist(),
        y=over.mean.tolist(),
        mode="lines",
        line={"color": theme.muted, "dash": "dot", "width": 2},
        hovertemplate=f"{GUESSING}: {guess.label}<br>epsilon %{{x:g}}"
        f"<br><b>%{{y:{guess.metric.form}}}</b><extra></extra>",
        showlegend=False,
    )


def _level(
    fig: Figure,
    name: str,
    level: Reference,
    ends: tuple[float, float],
    look: Style,
    theme: Theme,
) -> None:
    """A paper's method without privacy is named in the legend, where its name has room."""
    text = f"{name}: {level.metric.text(level.level.mean)}"
    looks = {WITHOUT: (theme.ink, "dash"), GUESSING: (theme.muted, "dot")}
    shown = {} if name in looks else {"name": wrapped(text)}
    drawn = looks.get(name, (look.color, "dash"))
    horizontal(fig, ends, level.level.mean, drawn, text, showlegend=bool(shown), **shown)


def _names(
    fig: Figure, room: Room, picture: Picture, ends: tuple[float, float], theme: Theme
) -> None:
    """What its lines run between, named where no curve is: outside rather than between them."""
    sign, text = picture.metric.sign, picture.metric.text
    wanted = []
    for name, level in picture.levels:
        if name in (WITHOUT, GUESSING):
            mean = level.level.mean
            wanted.append((f"{name}: {text(mean)}", (mean, mean), name == WITHOUT))
    for guess in picture.guesses:
        mean = guess.band.mean
        level = text(mean[0]) == text(mean[-1])
        words = f"{GUESSING}: {text(mean[-1])}" if level else GUESSING
        wanted.append((words, (mean[0], mean[-1]), False))
    for words, levels, best in wanted:
        sides = ["bottom", "top"] if (sign > 0) == best else ["top", "bottom"]
        places = [
            (math.log10(ends[k]), float(levels[k]), ("left", "right")[k], side)
            for side in sides
            for k in ((0, 1) if best else (1, 0))
        ]
        x, y, xanchor, yanchor = room.place(words, places)
        fig.note(
            x=x,
            y=y,
            text=words,
            showarrow=False,
            xanchor=xanchor,
            yanchor=yanchor,
            font={"color": theme.ink if best else theme.muted, "size": 13},
        )


def _spot(
    fig: Figure,
    room: Room,
    epsilon: float,
    value: float,
    text: str,
    color: str,
    certified: bool,
    theme: Theme,
) -> None:
    fig.draw(
        "scatter",
        x=[epsilon],
        y=[value],
        mode="markers",
        marker={
            "size": 17,
            "color": color if certified else theme.paper,
            "line": {"color": theme.paper if certified else color, "width": 3},
        },
        hoverinfo="skip",
        showlegend=False,
    )
    at = math.log10(epsilon)
    places = [(at, value, x, y) for y in ("top", "bottom") for x in ("left", "right")]
    _, _, xanchor, yanchor = room.place(text, places, size=17, away=10)
    fig.note(
        x=at,
        y=value,
        text=f"<b>{text}</b>",
        showarrow=False,
        xanchor=xanchor,
        yanchor=yanchor,
        xshift=10 if xanchor == "left" else -10,
        yshift=-4 if yanchor == "top" else 4,
        font={"size": 17},
        bgcolor=faded(theme.paper, 0.6),
        borderpad=0,
    )


def _reach(picture: Picture) -> list[float]:
    values = [level.level.mean for _, level in picture.levels]
    values += [float(v) for guess in picture.guesses for v in guess.band.mean]
    values += [float(v) for one in picture.lines for v in (*one.band.low, *one.band.high)]
    low, high = min(values), max(values)
    room = 0.08 * (high - low) or 0.01
    return [low - room, high + room]
