"""Draw noise: its density and scale, and data before and after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmc_core import registry
from dpmc_lab.curves.noise import (
    BeforeAfter,
    ChannelChances,
    Density,
    NoiseScale,
    SensitivityRuler,
    find_value_names,
)
from pages.ui.charts import (
    EPSILON_AXIS,
    HOVER_TEXT,
    INK,
    LOG,
    MISSING,
    VALUE_COLORS,
    Figure,
    create_figure,
    get_style,
    with_opacity,
    wrap_label,
)
from pages.ui.text import escape_for_chart


def plot_noise(
    mechanism: str,
    view: Density | ChannelChances,
    *,
    names: tuple[str, str] = ("exact density", ""),
    pinned: Any = None,
    ruler: SensitivityRuler | None = None,
) -> Figure:
    """Plot one release's noise: a channel, or draws as bars and the exact density as a line.

    Args:
        mechanism: id of the mechanism.
        view: the noise.
        names: names of the line, and of what is pinned.
        pinned: the noise at another epsilon, drawn behind.
        ruler: a length drawn from 0 on, below the axis.
    """
    if isinstance(view, ChannelChances):
        return _plot_channel(mechanism, view, names[1], pinned)
    color, (reach, top) = get_style(mechanism).color, view.axes
    ends = [-0.25 * top * (ruler is not None), top]
    fig = create_figure("shape", xaxis_range=[-reach, reach], yaxis_range=ends)
    fig.add_trace(
        "draws",
        x=view.bar_centers,
        y=view.bar_heights,
        marker_color=with_opacity(color, 0.35),
    )
    for density, name, *line_style in (
        (pinned, names[1], INK, "dot"),
        (view, names[0], color, "solid"),
    ):
        if density is not None and density.density is not None:
            hover = f"noise %{{x:.2f}}: density <b>%{{y:.3g}}</b><extra>{name}</extra>"
            fig.add_stroke(
                density.x,
                density.density,
                line_style[0],
                line_dash=line_style[1],
                name=name,
                hover=hover,
            )
    if ruler is not None:
        ends = [12, 12 * (ruler.length <= reach)]  # the other may lie beyond the axis
        x = [0, min(ruler.length, reach)]
        y = [-0.06 * top] * 2
        fig.add_trace("length", x=x, y=y, marker_size=ends)
        fig.add_annotation("ruler", text=ruler.label, y=-0.1 * top)
    # what the fixed axes cut off: the peak of little noise, the ends of much
    peak = 0.0 if view.density is None else float(view.density.max())
    for is_cut, text, x, anchor in (
        (peak > top, f"↑ on to its peak at {peak:.3g}", 0.51, "left"),
        (view.share_outside > 0.005, f"{view.share_outside:.0%} of it lies beyond", 1, "right"),
    ):
        if is_cut:
            fig.add_annotation("beyond", text=text, x=x, xanchor=anchor)
    return fig


def _plot_channel(mechanism: str, view: ChannelChances, name: str, pinned: Any) -> Figure:
    """Plot the chances of each answer for each true value; pinned ones are hollow bars."""
    color = get_style(mechanism).color
    values = view.symbols
    count = len(view.symbols)
    fig = create_figure("channel")
    true = [f"true: {value}" for value in values]
    for k, answer in enumerate(values):
        # dark on the full colour in either theme, the theme's own ink on a thin one
        fig.add_trace(
            "answers",
            x=true,
            y=view.matrix[:, k],
            name=f"answers: {answer}",
            offsetgroup=answer,
            marker_color=with_opacity(color, 1 - 0.7 * k / (count - 1)),
            marker_line_color=color,
            text=[_format_probability(p) for p in view.matrix[:, k] if count == 2],
            insidetextfont_color=INK if k else "#101214",
            customdata=view.sampled[:, k],
            hover="%{x}: <b>%{y:.1%}</b> exactly, %{customdata:.1%} of the draws"
            f"<extra>answers: {answer}</extra>",
        )
    for k, answer in enumerate(values if pinned else ()):
        fig.add_trace(
            "ghosts",
            x=true,
            y=pinned.matrix[:, k],
            name=name,
            offsetgroup=answer,
            showlegend=not k,
            hover=f"%{{x}}: <b>%{{y:.1%}}</b><extra>{name}, answers: {answer}</extra>",
        )
    return fig


def _format_probability(p: float) -> str:
    return f"{p:.1%}" if 0.0005 < p < 0.9995 else f"{p:.3%}"


def plot_noise_scales(
    views: Sequence[tuple[str, str, NoiseScale]],
    chosen: str,
    unit: str,
    epsilon: float,
    pinned: float | None = None,
) -> Figure:
    """Plot the noise of releases by epsilon, with those of the chosen method emphasised.

    Args:
        views: (id, name, noise) of each release.
        chosen: id of the chosen method.
        unit: what is measured.
        epsilon: the chosen one.
        pinned: an epsilon for a second, dotted rule.
    """
    listed_methods: set[str] = set()  # one entry of the legend for each method
    ends = [
        math.log10(pick(x for _, _, view in views for x in view.epsilon)) for pick in (min, max)
    ]
    fig = create_figure(
        "scales",
        height=320 + 12 * len({id for id, _, _ in views}),
        xaxis=EPSILON_AXIS,
        xaxis_range=[ends[0] - 0.06, ends[1] + 0.06],
        yaxis=LOG if unit == "noise scale" else {"tickformat": ".0%", "rangemode": "tozero"},
        yaxis_title_text=unit,
    )
    for id, name, view in views:
        is_chosen = id == chosen
        fig.add_line(
            view.epsilon,
            view.scale,
            get_style(id),
            f"{name}<br>{escape_for_chart(view.query)}<br>epsilon %{{x:g}}: <b>%{{y:.3g}}</b>"
            "<extra></extra>",
            line_width=3 if is_chosen else 1.5,
            name=wrap_label(name),
            legendgroup=id,
            showlegend=id not in listed_methods,
            opacity=1 if is_chosen else 0.55,
            marker_size=8 if is_chosen else 6,
        )
        listed_methods.add(id)
    fig.add_vertical_line(epsilon)
    if pinned is not None:
        fig.add_vertical_line(pinned, dash="dot")
    return fig


def plot_user_values(
    mechanism: str,
    view: BeforeAfter,
    user: int,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Plot every released value of one row before and after the noise.

    Args:
        mechanism: id of the mechanism.
        view: the block.
        user: index of the row.
        limits: ends of the axis, whatever the noise; a value beyond is an arrow at its edge.
    """
    method_style, (low, high) = get_style(mechanism), limits or (-math.inf, math.inf)
    columns = np.flatnonzero(~np.isnan(view.before[user]) | ~np.isnan(view.after[user]))
    noiseless = view.before[user, columns]
    noisy = view.after[user, columns]
    names = [escape_for_chart(view.items[i]) for i in columns]
    clipped = np.clip(noisy, low, high)
    value_names = find_value_names(view, registry.get_mechanism(mechanism).task)
    padding = 0.04 * (high - low)
    axis: dict[str, Any] = {"title_text": "released value"}
    if value_names is not None:
        axis = {"tickvals": [0, 1], "ticktext": value_names, "range": [-0.2, 1.2]}
    elif math.isfinite(padding):
        axis["range"] = [low - padding, high + padding]
    fig = create_figure("strip", yaxis=axis)
    pairs = np.column_stack(
        [noiseless, clipped, [None] * len(columns)]
    ).ravel()  # a gap after every pair
    fig.add_stroke(
        np.repeat(columns, 3), pairs, with_opacity(method_style.color, 0.4), showlegend=False
    )
    arrows = {-1: "triangle-down", 0: method_style.marker, 1: "triangle-up"}
    symbols = [arrows[k] for k in np.sign(np.nan_to_num(noisy - clipped))]
    fig.add_markers(
        columns,
        clipped,
        {"color": method_style.color, "symbol": symbols, "size": 10},
        hover=HOVER_TEXT,
        name="after the noise",
        text=[f"{name}: <b>{v:.2f}</b> after" for name, v in zip(names, noisy, strict=True)],
    )
    hover = "%{text}: <b>%{y:.2f}</b> before<extra></extra>"
    fig.add_trace("before", x=columns, y=noiseless, text=names, hover=hover)
    return fig


def plot_heatmaps(
    mechanism: str, view: BeforeAfter, scale_source: BeforeAfter | None = None
) -> Figure:
    """Plot a block of users x items before (left) and after (right) on one colour scale.

    Two values have a legend instead of the scale; cells without a value are grey.

    Args:
        mechanism: id of the mechanism.
        view: the block.
        scale_source: the block whose values before the noise set the scale at every epsilon.
    """
    names = find_value_names(view, registry.get_mechanism(mechanism).task)
    noiseless = (scale_source or view).before
    low = float(np.nanmin(noiseless))
    high = float(np.nanmax(noiseless))
    # by what there was, whatever the noise: what lies twice as far out has the full colour
    middle = (low + high) / 2
    half_range = high - low or abs(low) or 1.0
    if names is not None:
        middle = half_range = 0.5
    fig = create_figure(
        "heat",
        coloraxis={
            "cmin": middle - half_range,
            "cmax": middle + half_range,
            "showscale": names is None,
        },
        yaxis_title_text=view.rows,
    )
    for panel, half, values in (("", "before", view.before), ("2", "after", view.after)):
        fig.add_panel_title(panel, half)
        fig.add_trace(
            "corner",
            panel=panel,
            z=values,
            text=None if names is None else _name_values(values, names),
            hover="user %{y}, item %{x}: <b>"
            + ("%{z:.2f}" if names is None else "%{text}")
            + "</b><extra></extra>",
        )
    entries = {} if names is None else dict(zip(names, VALUE_COLORS, strict=True))
    if np.isnan([view.before, view.after]).any():
        entries["no value"] = MISSING
    for name, color in entries.items():
        fig.add_trace("square", x=[None], y=[None], name=name, marker_color=color)
    return fig


def _name_values(values: np.ndarray, names: tuple[str, str]) -> list[list[str]]:
    return [["" if np.isnan(v) else names[int(v)] for v in row] for row in values]
