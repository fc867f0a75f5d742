"""Accuracy against epsilon: the main picture."""

from __future__ import annotations

import math

import plotly.graph_objects as go

from dpmc_core.views.lines import GUESSING, Line, Picture, Reference
from pages.ui.charts import (
    EPSILON_AXIS,
    Theme,
    band,
    faded,
    figure,
    horizontal,
    line,
    marker,
    rule,
    style,
)


def curve(picture: Picture, epsilon: float, *, certified: bool, theme: Theme) -> go.Figure:
    """The mean of its lines with bands over seeds, what they run between, and a rule at epsilon.

    The first line is what this program makes of the reports; a second one, of the same reports and
    the same certificate, what the paper makes of them. Markers are solid where the claim is
    certified and hollow where it is only claimed.
    """
    only, metric = picture.lines[0], picture.metric
    here, look = only.at(epsilon), style(only.mechanism)
    fig = figure(theme, height=400, showlegend=False)
    lowest = min(float(one.epsilon[0]) for one in picture.lines)
    highest = max(float(one.epsilon[-1]) for one in picture.lines)
    ends = (min(lowest, epsilon), max(highest, epsilon))
    for name, level in picture.levels:
        _level(fig, name, level, ends, theme)
    for guess in picture.guesses:
        _guess(fig, guess, theme)
    reach = [level.level.mean for _, level in picture.levels]
    reach += [float(v) for guess in picture.guesses for v in guess.band.mean]
    for one in reversed(picture.lines):
        over, first = one.band, one is only
        reach += [*over.low, *over.high]
        band(fig, over, faded(look.color, 0.22 if first else 0.1))
        line(
            fig,
            over.x,
            over.mean,
            look if first else look._replace(dash="dot"),
            f"{one.label}<br>epsilon %{{x:g}}<br><b>%{{y:{metric.form}}}</b>, interval"
            f" %{{customdata[0]:{metric.form}}} to %{{customdata[1]:{metric.form}}}<extra></extra>",
            name=one.label,
            width=2.5 if first else 1.5,
            marker=marker(look, theme, solid=certified, size=9 if first else 5),
            customdata=list(zip(over.low, over.high, strict=True)),
        )
        if not first:
            middle = len(over.x) // 2
            _note(fig, over.x[middle], over.mean[middle], "the paper's own estimate", theme)
    rule(fig, epsilon, theme)
    if here is not None:
        text = metric.text(here.mean)
        _spot(fig, epsilon, here.mean, text, look.color, certified, theme)
    room = [math.log10(ends[0]) - 0.06, math.log10(ends[1]) + 0.06]
    fig.update_xaxes(**EPSILON_AXIS, range=room)
    fig.update_yaxes(range=_reach(reach), tickformat=metric.ticks, title_text=metric.axis)
    return fig


def _guess(fig: go.Figure, guess: Line, theme: Theme) -> None:
    """A private guess, which needs epsilon too."""
    over = guess.band
    fig.add_scatter(
        x=over.x,
        y=over.mean,
        mode="lines",
        line={"color": theme.muted, "dash": "dot", "width": 2},
        hovertemplate=f"guessing: {guess.label}<br>epsilon %{{x:g}}"
        f"<br><b>%{{y:{guess.metric.form}}}</b><extra></extra>",
    )
    text = f"guessing: {guess.metric.text(over.mean[-1])}"
    _note(fig, over.x[-1], over.mean[-1], text, theme, xanchor="right")


def _note(
    fig: go.Figure, x: float, y: float, text: str, theme: Theme, xanchor: str = "left"
) -> None:
    fig.add_annotation(
        x=math.log10(x),
        y=y,
        text=text,
        showarrow=False,
        xanchor=xanchor,
        yanchor="top",
        font={"color": theme.muted, "size": 13},
        bgcolor=theme.paper,
        opacity=0.85,
    )


def _level(
    fig: go.Figure, name: str, level: Reference, ends: tuple[float, float], theme: Theme
) -> None:
    above, value = name != GUESSING, level.level.mean
    text, color = f"{name}: {level.metric.text(value)}", theme.ink if above else theme.muted
    horizontal(fig, ends, value, (color, "dash" if above else "dot"), text)
    fig.add_annotation(
        x=math.log10(ends[0 if above else 1]),
        y=value,
        text=text,
        showarrow=False,
        xanchor="left" if above else "right",
        yanchor="bottom" if above else "top",
        font={"color": color, "size": 13},
        bgcolor=theme.paper,
        opacity=0.85,
    )


def _spot(
    fig: go.Figure,
    epsilon: float,
    value: float,
    text: str,
    color: str,
    certified: bool,
    theme: Theme,
) -> None:
    fig.add_scatter(
        x=[epsilon],
        y=[value],
        mode="markers",
        marker={
            "size": 17,
            "color": color if certified else theme.paper,
            "line": {"color": theme.paper if certified else color, "width": 3},
        },
        hoverinfo="skip",
    )
    left = epsilon > 3  # the label stays inside the frame
    fig.add_annotation(
        x=math.log10(epsilon),
        y=value,
        text=f"<b>{text}</b>",
        showarrow=False,
        xanchor="right" if left else "left",
        xshift=-14 if left else 14,
        yshift=18 if left else -16,
        font={"size": 17},
        bgcolor=theme.paper,
        opacity=0.9,
    )


def _reach(values: list[float]) -> list[float]:
    low, high = min(values), max(values)
    room = 0.08 * (high - low) or 0.01
    return [low - room, high + room]
