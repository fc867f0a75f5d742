"""Accuracy against epsilon: the main picture."""

from __future__ import annotations

import math

import plotly.graph_objects as go

from dpmc_core.views.lines import Picture, Reference
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
    """The mean of its line with the band over seeds, the two reference lines and a rule at epsilon.

    Markers are solid where the claim is certified and hollow where it is only claimed.
    """
    only, metric = picture.lines[0], picture.metric
    over, here, look = only.band, only.at(epsilon), style(only.mechanism)
    fig = figure(theme, height=400, showlegend=False)
    ends = (float(min(over.x[0], epsilon)), float(max(over.x[-1], epsilon)))
    for name, level in picture.levels:
        _level(fig, name, level, ends, theme)
    band(fig, over, faded(look.color, 0.22))
    line(
        fig,
        over.x,
        over.mean,
        look,
        f"epsilon %{{x:g}}<br><b>%{{y:{metric.form}}}</b>, interval"
        f" %{{customdata[0]:{metric.form}}} to %{{customdata[1]:{metric.form}}}<extra></extra>",
        name=only.label,
        marker=marker(look, theme, solid=certified),
        customdata=list(zip(over.low, over.high, strict=True)),
    )
    rule(fig, epsilon, theme)
    if here is not None:
        text = metric.text(here.mean)
        _spot(fig, epsilon, here.mean, text, look.color, certified, theme)
    room = [math.log10(ends[0]) - 0.06, math.log10(ends[1]) + 0.06]
    fig.update_xaxes(**EPSILON_AXIS, range=room)
    levels = [level.level.mean for _, level in picture.levels]
    fig.update_yaxes(
        range=_reach([*over.low, *over.high, *levels]),
        tickformat=metric.ticks,
        title_text=metric.axis,
    )
    return fig


def _level(
    fig: go.Figure, name: str, level: Reference, ends: tuple[float, float], theme: Theme
) -> None:
    above, value = name == "no privacy", level.level.mean
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
