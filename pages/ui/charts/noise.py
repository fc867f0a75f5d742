"""Draw noise: its density and scale, and data before and after it."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from dpmc_core import registry
from dpmc_lab.views.noise import (
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
    NOISE,
    NOISE_EDGE,
    NOISE_TEXT,
    PAPER,
    STYLES,
    Figure,
    create_figure,
    with_opacity,
)
from pages.ui.charts.lines import Tag, choose_ticks, place_labels
from pages.ui.text import escape_for_chart


def plot_noise(
    views: Mapping[float, Density | ChannelChances],
    *,
    label: str = "",
    sampled: Mapping[float, float] = MappingProxyType({}),
    ruler: SensitivityRuler | None = None,
) -> Figure:
    """Plot one release's noise at one or two epsilons, on axes that fit both.

    A channel is drawn as bars. Additive noise is drawn as its exact density, over fresh samples at
    the first epsilon.

    Args:
        views: the noise by epsilon; the first is the chosen one.
        label: what the noise is added to.
        sampled: the noise on one value by epsilon, drawn as a dot on its density.
        ruler: a length drawn from 0 on, below the axis.
    """
    view, *second = views.values()
    names = [f"epsilon {epsilon:g}" for epsilon in views]
    if isinstance(view, ChannelChances):
        return _plot_channel(view, names, second[0] if second else None)
    reach = float(view.x[-1])
    top = 1.1 * max(float(density.density.max()) for density in views.values())
    fig = create_figure(
        "shape",
        xaxis_range=[-reach, reach],
        yaxis_range=[-0.25 * top * (ruler is not None), top],
        xaxis_title_text=f"noise added to {escape_for_chart(label)}",
    )
    fig.add_trace("draws", x=view.bar_centers, y=view.bar_heights)
    line_styles = ((NOISE_EDGE, NOISE_TEXT, "solid"), (INK, INK, "dot"))
    for (epsilon, density), name, (line_color, text_color, dash) in zip(
        views.items(), names, line_styles, strict=False
    ):
        x, y = density.x, density.density
        hover = f"noise %{{x:.2f}}: density <b>%{{y:.3g}}</b><extra>{name}</extra>"
        fig.add_stroke(x, y, line_color, line_dash=dash, name=name, hover=hover)
        noise = sampled.get(epsilon, math.inf)
        if abs(noise) <= reach:
            mark = {"color": line_color, "size": 11, "line": {"color": PAPER, "width": 1.5}}
            hover = f"noise {noise:.3g} on this value<extra>{name}</extra>"
            height = float(np.interp(noise, x, y))
            fig.add_markers([noise], [height], mark, hover=hover)
            name += f"<br>● one value:<br>{noise:+.2g}"
        end = int(np.flatnonzero(y > 0.4 * y.max())[-1])  # where its name has room
        fig.add_annotation("curve", text=name, x=x[end], y=y[end], font_color=text_color)
    if ruler is not None:
        ends = [12, 12 * (ruler.length <= reach)]  # the other may lie beyond the axis
        x = [0, min(ruler.length, reach)]
        y = [-0.06 * top] * 2
        fig.add_trace("length", x=x, y=y, marker_size=ends)
        fig.add_annotation("ruler", text=ruler.label, y=-0.1 * top)
    return fig


def _plot_channel(view: ChannelChances, names: Sequence[str], second: Any) -> Figure:
    """Plot the chances of each answer for each true value; at the second epsilon as outlines."""
    values = view.symbols
    fig = create_figure("channel")
    true = [f"true: {value}" for value in values]
    for k, answer in enumerate(values):
        # what noise changed is amber, what it left alone is filled
        flipped = [value != answer for value in values]
        fig.add_trace(
            "answers",
            x=true,
            y=view.matrix[:, k],
            offsetgroup=answer,
            marker_color=[NOISE if changed else INK for changed in flipped],
            marker_line_color=[NOISE_EDGE if changed else INK for changed in flipped],
            text=[f"{answer}<br>{_format_probability(p)}" for p in view.matrix[:, k]],
            hover=f"%{{x}}: <b>%{{y:.1%}}</b><extra>{names[0]}, sends: {answer}</extra>",
        )
    for k, answer in enumerate(values if second else ()):
        fig.add_trace(
            "ghosts",
            x=true,
            y=second.matrix[:, k],
            offsetgroup=answer,
            text=[  # where it stands above the bar of the first epsilon
                f"{names[-1]}<br>{_format_probability(p)}" * int(p > first + 0.1)
                for first, p in zip(view.matrix[:, k], second.matrix[:, k], strict=True)
            ],
            hover=f"%{{x}}: <b>%{{y:.1%}}</b><extra>{names[-1]}, sends: {answer}</extra>",
        )
    return fig


def _format_probability(p: float) -> str:
    """Return a probability in percent, with more decimals near 0 and 100."""
    return f"{100 * p:.{1 if 0.0005 < p < 0.9995 else 3}f} %"


_SCALES_HEIGHT = 260  # pixels of the frame


def plot_noise_scales(scales: Sequence[NoiseScale], epsilons: Sequence[float]) -> Figure:
    """Plot the noise of a mechanism's releases by epsilon, each with its name.

    Args:
        scales: the noise of each release, in one unit.
        epsilons: where vertical lines are drawn; the second one is dotted.
    """
    is_log = scales[0].unit == "noise scale"
    x = scales[0].epsilon
    sizes = np.concatenate([release.scale for release in scales])
    low, high = float(sizes.min()), float(sizes.max())
    y_range = [math.log10(low) - 0.1, math.log10(high) + 0.1] if is_log else [0.0, 1.05 * high]
    ticks, texts = zip(*choose_ticks(y_range, is_share=True), strict=True)
    x_end = math.log10(x[-1]) + 0.06
    fig = create_figure(
        "scales",
        height=_SCALES_HEIGHT + 60,
        xaxis=EPSILON_AXIS,
        xaxis_range=[math.log10(x[0]) - 0.06, x_end],
        yaxis=LOG if is_log else {"tickvals": ticks, "ticktext": texts},
        yaxis_range=y_range,
        yaxis_title_text=scales[0].unit,
    )
    method_style = STYLES["noise"]
    lasts = [float(release.scale[-1]) for release in scales]
    tags = [
        Tag(release.name, math.log10(last) if is_log else last, method_style, True)
        for release, last in zip(scales, lasts, strict=True)
    ]
    label_positions = place_labels(fig, tags, y_range, _SCALES_HEIGHT)
    for release, last, y in zip(scales, lasts, label_positions, strict=True):
        ends = [float(x[-1]), 10**x_end]
        fig.add_stroke(ends, [last, 10**y if is_log else y], method_style.color, line_width=1)
        fig.add_line(
            x,
            release.scale,
            method_style,
            f"{release.name}: {escape_for_chart(release.query)}<br>epsilon %{{x:g}}:"
            " <b>%{y:.3g}</b><extra></extra>",
        )
    for epsilon, dash in zip(epsilons, ("solid", "dot"), strict=False):
        fig.add_vertical_line(epsilon, dash=dash)
    return fig


def plot_user_values(
    mechanism: str,
    view: BeforeAfter,
    user: int,
) -> Figure:
    """Plot every released value of one row before and after the noise.

    Args:
        mechanism: id of the mechanism.
        view: the block.
        user: index of the row.
    """
    columns = np.flatnonzero(~np.isnan(view.before[user]) | ~np.isnan(view.after[user]))
    noiseless = view.before[user, columns]
    noisy = view.after[user, columns]
    names = [escape_for_chart(view.items[i]) for i in columns]
    value_names = find_value_names(view, registry.get_mechanism(mechanism).task)
    axis: dict[str, Any] = {"title_text": "released value"}
    if value_names is not None:
        axis = {"tickvals": [0, 1], "ticktext": value_names, "range": [-0.2, 1.2]}
    fig = create_figure("strip", yaxis=axis)
    pairs = np.column_stack(
        [noiseless, noisy, [None] * len(columns)]
    ).ravel()  # a gap after every pair
    fig.add_stroke(np.repeat(columns, 3), pairs, with_opacity(NOISE_EDGE, 0.4))
    fig.add_trace(
        "after",
        x=columns,
        y=noisy,
        hover=HOVER_TEXT,
        text=[f"{name}: <b>{v:.2f}</b> after" for name, v in zip(names, noisy, strict=True)],
    )
    fig.add_trace("before", x=columns, y=noiseless, text=names)
    return fig
