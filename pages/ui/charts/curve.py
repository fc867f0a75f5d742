"""Accuracy against epsilon: the main picture."""

from __future__ import annotations

import math
from collections.abc import Iterable

import plotly.graph_objects as go

from dpmc_core.views.curves import Situation, amount, axis, is_share
from pages.ui.charts import EPSILON_AXIS, Theme, faded, figure, marker, rule, style


def curve(view: Situation, *, certified: bool, theme: Theme) -> go.Figure:
    """Mean with its band over seeds, the two reference lines and a rule at the chosen epsilon.

    Markers are solid where the claim is certified and hollow where it is only claimed.
    """
    c, look = view.curve, style(view.curve.mechanism)
    form = ":.1%" if is_share(c.metric) else ":.3f"
    fig = figure(theme, height=400, showlegend=False)
    ends = [float(min(c.epsilon[0], view.epsilon)), float(max(c.epsilon[-1], view.epsilon))]
    if view.twin is not None:
        text = f"no privacy: {amount(c.metric, view.twin.mean)}"
        _line(fig, text, view.twin.mean, ends, theme.ink, "dash", theme.paper, above=True)
    if view.floor is not None:
        text = f"guessing: {amount(c.metric, view.floor.mean)}"
        _line(fig, text, view.floor.mean, ends, theme.muted, "dot", theme.paper, above=False)
    for part in stretches(c.seeds > 1):  # one seed has no band
        fig.add_scatter(
            x=[*c.epsilon[part], *c.epsilon[part][::-1]],
            y=[*c.high[part], *c.low[part][::-1]],
            mode="lines",
            fill="toself",
            fillcolor=faded(look.color, 0.22),
            line={"width": 0},
            hoverinfo="skip",
        )
    fig.add_scatter(
        x=c.epsilon,
        y=c.mean,
        name=view.name,
        mode="lines+markers",
        line={"color": look.color, "width": 2.5, "dash": look.dash},
        marker=marker(look, theme, solid=certified),
        customdata=list(zip(c.low, c.high, strict=True)),
        hovertemplate=f"epsilon %{{x:g}}<br><b>%{{y{form}}}</b>, interval"
        f" %{{customdata[0]{form}}} to %{{customdata[1]{form}}}<extra></extra>",
    )
    rule(fig, view.epsilon, theme)
    if view.here is not None:
        text = amount(c.metric, view.here.mean)
        _spot(fig, view.epsilon, view.here.mean, text, look.color, certified, theme)
    room = [math.log10(ends[0]) - 0.06, math.log10(ends[1]) + 0.06]
    fig.update_xaxes(**EPSILON_AXIS, range=room)
    lines = [line.mean for line in (view.floor, view.twin) if line is not None]
    fig.update_yaxes(
        range=_reach([*c.low, *c.high, *lines]),
        tickformat=".0%" if is_share(c.metric) else None,
        title_text=axis(c.metric),
    )
    return fig


def stretches(there: Iterable[bool]) -> list[slice]:
    """The unbroken runs of what is there."""
    found: list[slice] = []
    for k, yes in enumerate(there):
        if yes and found and found[-1].stop == k:
            found[-1] = slice(found[-1].start, k + 1)
        elif yes:
            found.append(slice(k, k + 1))
    return found


def _line(
    fig: go.Figure,
    text: str,
    value: float,
    ends: list[float],
    color: str,
    dash: str,
    paper: str,
    *,
    above: bool,
) -> None:
    fig.add_scatter(
        x=ends,
        y=[value] * 2,
        mode="lines",
        line={"color": color, "dash": dash, "width": 2},
        hovertemplate=text + "<extra></extra>",
    )
    fig.add_annotation(
        x=math.log10(ends[0 if above else 1]),
        y=value,
        text=text,
        showarrow=False,
        xanchor="left" if above else "right",
        yanchor="bottom" if above else "top",
        font={"color": color, "size": 13},
        bgcolor=paper,
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
