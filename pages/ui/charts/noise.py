"""Pictures of noise: its density and scale, data before and after it, and what is left of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dpmc_core import registry
from dpmc_core.lab.papers.ryhh24 import COEFFICIENTS, SamplingWeights, VariantNoise, variant
from dpmc_core.lab.papers.z16 import RecoveryBounds, near
from dpmc_core.lab.views.noise import (
    Axes,
    BeforeAfter,
    ChannelChances,
    Density,
    Ruler,
    Scale,
    coded,
    two_values,
)
from pages.ui.charts import (
    ENDS,
    EPSILON_AXIS,
    INK,
    LONG_LEGEND,
    MISSING,
    MUTED,
    PAPER,
    Figure,
    Style,
    faded,
    figure,
    powers,
    style,
    ticks,
    wrapped,
)
from pages.ui.text import in_chart

_LOW, _HIGH = ENDS
_SECOND = Style("#d55e00", "x", "8px,3px")  # a second recovery beside the mechanism's own
_STRATEGIES = {
    "importance": Style("#009e73", "cross", "solid"),
    "utility-optimal": Style("#d55e00", "circle", "dot"),
    "uniform": Style("#0072b2", "square", "longdash"),
}
_SHOWN = 160  # users of a weights picture: more only cover each other


def shape(
    mechanism: str,
    view: Density | ChannelChances,
    *,
    names: tuple[str, str] = ("exact density", ""),
    pinned: Any = None,
    ruler: Ruler | None = None,
) -> Figure:
    """One release's noise: a channel, or fresh draws as bars and the exact density as a line.

    names: of the line and of what is pinned: the same at another epsilon, a ghost behind it. ruler:
    drawn from 0 on, below the axis.
    """
    if isinstance(view, ChannelChances):
        return _channel(mechanism, view, names[1], pinned)
    look, top = style(mechanism), view.frame.top
    fig = figure(bargap=0)
    fig.draw(
        "bar",
        x=view.bar_centers,
        y=view.bar_heights,
        name="fresh draws",
        marker={"color": faded(look.color, 0.35), "line": {"width": 0}},
        hover="around %{x:.2f}: density %{y:.3g}<extra>draws</extra>",
    )
    for one, name, drawn in (
        (pinned, names[1], {"color": INK, "dash": "dot"}),
        (view, names[0], {"color": look.color, "width": 2.5}),
    ):
        if one is not None and one.density is not None:
            hover = f"noise %{{x:.2f}}: density <b>%{{y:.3g}}</b><extra>{name}</extra>"
            fig.stroke(one.x, one.density, **drawn, name=name, hover=hover)
    low = 0.0 if ruler is None else -0.25 * top
    if ruler is not None:
        _ruler(fig, ruler, view.frame, 0.25 * low)
    # what the fixed axes cut off: the peak of little noise, the ends of much
    peak = 0.0 if view.density is None else float(view.density.max())
    words = {"y": 1, "yref": "y domain", "yanchor": "top", "bgcolor": PAPER}
    words |= {"size": 12, "color": MUTED}
    if peak > top:
        text = f"↑ on to its peak at {peak:.3g}"
        fig.note(text=text, x=0, xshift=14, xanchor="left", **words)
    if view.beyond > 0.005:
        text = f"{view.beyond:.0%} of it lies beyond"
        fig.note(text=text, x=1, xref="x domain", xanchor="right", **words)
    reach = view.frame.reach
    fig.x(title="noise added to one number", range=[-reach, reach])
    # so few ticks that none is below 0, where the ruler lies
    fig.y(title="density", range=[low, top], nticks=4)
    return fig


def _ruler(fig: Figure, ruler: Ruler, frame: Axes, at: float) -> None:
    """From 0 as far as the ruler is long, or to the end of the axis; at: its height."""
    end = min(ruler.length, frame.reach)
    ends = {"symbol": "line-ns", "size": [12, 12 * (end == ruler.length)]}
    ends["line"] = {"color": INK, "width": 1.5}
    fig.stroke(
        [0, end], [at, at], INK, width=3, mode="lines+markers", marker=ends, showlegend=False
    )
    fig.note(text=ruler.words, x=0, y=1.5 * at, yanchor="top", size=12, color=INK)


def _channel(mechanism: str, view: ChannelChances, name: str, pinned: Any) -> Figure:
    """Chances of each answer for each true value; those at another epsilon as hollow bars."""
    look, count = style(mechanism), len(view.matrix)
    fig = figure(barmode="group", bargap=0.3)
    two = two_values(registry.get(mechanism).task) if count == 2 else None
    values = two or [*map(str, range(count))]
    true = [f"true: {value}" for value in values]
    for k, answer in enumerate(values):
        # dark on the full colour in either theme, the theme's own ink on a thin one
        fig.draw(
            "bar",
            x=true,
            y=view.matrix[:, k],
            name=f"answers: {answer}",
            offsetgroup=answer,
            marker={
                "color": faded(look.color, 1 - 0.7 * k / (count - 1)),
                "line": {"color": look.color, "width": 1.5},
            },
            text=[_chance(p) for p in view.matrix[:, k] if count == 2],
            textposition="inside",
            insidetextanchor="start",
            insidetextfont={"color": INK if k else "#101214"},
            constraintext="none",
            textangle=0,
            customdata=view.drawn[:, k],
            hover="%{x}: <b>%{y:.1%}</b> exactly, %{customdata:.1%} of the draws"
            f"<extra>answers: {answer}</extra>",
        )
    for k, answer in enumerate(values if pinned else ()):
        fig.draw(
            "bar",
            x=true,
            y=pinned.matrix[:, k],
            name=name,
            offsetgroup=answer,
            showlegend=not k,
            marker={"color": "rgba(0,0,0,0)", "line": {"color": INK, "width": 2}},
            hover=f"%{{x}}: <b>%{{y:.1%}}</b><extra>{name}, answers: {answer}</extra>",
        )
    fig.y(title="chance", tickformat=".0%", range=[0, 1])
    return fig


def _chance(p: float) -> str:
    return f"{p:.1%}" if 0.0005 < p < 0.9995 else f"{p:.3%}"


def scales(
    views: Sequence[tuple[str, str, Scale]],
    chosen: str,
    unit: str,
    epsilon: float,
    pinned: float | None = None,
) -> Figure:
    """Noise of releases against epsilon: (id, name, view). Those of the chosen method stand out.

    A second, dotted rule is at the pinned epsilon.
    """
    seen: set[str] = set()  # one entry of the legend for each method
    height = 320 + 12 * len({id for id, _, _ in views})
    fig = figure(height=height, legend=LONG_LEGEND)
    for id, name, view in views:
        look, own = style(id), id == chosen
        fig.line(
            view.epsilon,
            view.scale,
            look,
            f"{name}<br>{in_chart(view.query)}<br>epsilon %{{x:g}}: <b>%{{y:.3g}}</b>"
            "<extra></extra>",
            width=3 if own else 1.5,
            name=wrapped(name),
            legendgroup=id,
            showlegend=id not in seen,
            opacity=1 if own else 0.55,
            marker={"symbol": look.marker, "size": 8 if own else 6},
        )
        seen.add(id)
    fig.rule(epsilon)
    if pinned is not None:
        fig.rule(pinned, dash="dot")
    reach = [x for _, _, view in views for x in view.epsilon]
    fig.x(**EPSILON_AXIS, range=[math.log10(min(reach)) - 0.06, math.log10(max(reach)) + 0.06])
    if unit == "noise scale":
        fig.y(type="log", title=unit, **powers(-3, 7))
    else:
        fig.y(title=unit, tickformat=".0%", rangemode="tozero")
    return fig


def strip(
    mechanism: str,
    view: BeforeAfter,
    user: int,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """One row: every released value before and after the noise.

    limits: of the axis, whatever the noise; what lies beyond is an arrow at its edge.
    """
    look = style(mechanism)
    here = np.flatnonzero(~np.isnan(view.before[user]) | ~np.isnan(view.after[user]))
    before, after = view.before[user, here], view.after[user, here]
    names = [in_chart(view.items[i]) for i in here]
    low, high = limits or (-math.inf, math.inf)
    shown = np.clip(after, low, high)
    arrows = {-1: "triangle-down", 0: look.marker, 1: "triangle-up"}
    fig = figure(height=260)
    nothing = [None] * len(here)  # a gap after every pair
    fig.stroke(
        np.column_stack([here, here, nothing]).ravel(),
        np.column_stack([before, shown, nothing]).ravel(),
        faded(look.color, 0.4),
        showlegend=False,
    )
    fig.dots(
        here,
        shown,
        {
            "color": look.color,
            "symbol": [arrows[k] for k in np.sign(np.nan_to_num(after - shown))],
            "size": 10,
        },
        hover="%{customdata} after<extra></extra>",
        name="after the noise",
        customdata=[f"{name}: <b>{v:.2f}</b>" for name, v in zip(names, after, strict=True)],
    )
    fig.dots(
        here,
        before,
        {"color": INK, "symbol": "line-ew-open", "size": 13, "line": {"width": 2.5}},
        hover="%{customdata}: <b>%{y:.2f}</b> before<extra></extra>",
        name="before",
        customdata=names,
    )
    fig.x(title="items, most rated first", showticklabels=False)
    words = coded(view, registry.get(mechanism).task)
    if words is None:
        fig.y("released value", **({} if limits is None else {"range": _padded(low, high)}))
    else:
        fig.y("", tickvals=[0, 1], ticktext=words, range=[-0.2, 1.2])
    return fig


def _padded(low: float, high: float) -> list[float]:
    return [low - 0.04 * (high - low), high + 0.04 * (high - low)]


def heat(mechanism: str, view: BeforeAfter, usual: BeforeAfter | None = None) -> Figure:
    """A block of users x items, before on the left and after on the right, on one colour scale.

    Two values have a legend instead of the scale; cells without a value are grey. usual: the block
    whose values before the noise set the scale, the same for every epsilon.
    """
    names = coded(view, registry.get(mechanism).task)
    raw = (usual or view).before
    low, high = float(np.nanmin(raw)), float(np.nanmax(raw))
    # by what there was, whatever the noise: what lies twice as far out has the full colour
    middle, reach = (low + high) / 2, (high - low or abs(low) or 1.0)
    fig = figure(
        height=340,
        plot_bgcolor=MISSING,
        legend={"y": -0.12, "yanchor": "top"},  # the top has the halves' names
        coloraxis={
            "cmin": middle - reach if names is None else 0,
            "cmax": middle + reach if names is None else 1,
            "colorscale": [[0, _LOW], [0.5, PAPER], [1, _HIGH]],
            "colorbar": {"thickness": 12, "outlinewidth": 0},
            "showscale": names is None,
        },
    )
    halves = (("before", view.before), ("after", view.after))
    for k, (half, values) in zip(fig.panels(1, 2, across=0.03), halves, strict=True):
        fig.name(k, half)
        fig.x("items", panel=k, showgrid=False, showticklabels=False)
        fig.y(panel=k, showgrid=False, showticklabels=False, autorange="reversed")
        fig.draw(
            "heatmap",
            panel=k,
            z=values,
            coloraxis="coloraxis",
            **{} if names is None else {"text": _named(values, names)},
            hover="user %{y}, item %{x}: <b>"
            + ("%{z:.2f}" if names is None else "%{text}")
            + "</b><extra></extra>",
        )
    fig.y(view.rows)
    fig.y(panel=2, matches="y")
    entries = {} if names is None else {names[0]: _LOW, names[1]: _HIGH}
    if np.isnan(view.before).any() or np.isnan(view.after).any():
        entries["no value"] = MISSING
    for name, color in entries.items():
        square = {"symbol": "square", "size": 12, "color": color}
        fig.dots([None], [None], square, name=name, showlegend=True)  # a single entry too
    return fig


def _named(values: np.ndarray, names: tuple[str, str]) -> list[list[str]]:
    return [["" if np.isnan(v) else names[int(v)] for v in row] for row in values]


def residual(mechanism: str, view: RecoveryBounds, epsilon: float) -> Figure:
    """Distance of the reports from the truth: measured, by moments, and by each bound where that is
    near."""
    bounds = [
        (near(bound, view.rho), name, MUTED, mark, "dash")
        for bound, name, mark in (
            (view.theorem, "Theorem 3", "triangle-down-open"),
            (view.tight, "our bound", "diamond-open"),
        )
    ]
    lines = [
        *(one for one in bounds if not np.isnan(one[0]).all()),
        (view.moments, "by the moments", INK, "circle-open", "dot"),
        (view.rho, "measured", *style(mechanism)._replace(dash="solid")),
    ]
    axis = {"type": "log", **powers(0, 8)}
    return _recovered(view, lines, "residual at the truth", epsilon, axis)


def error(mechanism: str, view: RecoveryBounds, epsilon: float) -> Figure:
    """Distance of both recoveries from the truth, and of the zero matrix."""
    lines = [
        (view.size, "the zero matrix", MUTED, "line-ns-open", "dot"),
        (view.naive, "as they come", *_SECOND),
        (view.debiased, "allowing for spurious", *style(mechanism)._replace(dash="solid")),
    ]
    return _recovered(view, lines, "error of the recovery", epsilon, {"rangemode": "tozero"})


def _recovered(
    view: RecoveryBounds,
    lines: Iterable[tuple[Any, ...]],
    title: str,
    epsilon: float,
    axis: Mapping[str, Any],
) -> Figure:
    """lines: (values, name, colour, marker, dash)."""
    fig = figure(height=340)
    for values, name, *look in lines:
        hover = f"{name}<br>epsilon %{{x:g}}: <b>%{{y:.3g}}</b><extra></extra>"
        fig.line(view.epsilon, values, Style(*look), hover, name=name)
    fig.rule(epsilon)
    fig.x(**EPSILON_AXIS)
    fig.y(title, **axis)
    return fig


def densities(view: Sequence[VariantNoise], coefficient: str) -> Figure:
    """Exact densities on a logarithmic axis; a variant without noise is a post at 0."""
    fig = figure(height=360)
    tall = [float(one.density.max()) for one in view if one.density is not None]
    low = max(
        min(float(one.density.min()) for one in view if one.density is not None),
        max(tall) * 1e-6,
    )
    top, bottom = np.log10(max(tall)) + 0.25, np.log10(low) - 0.1
    for one in view:
        look = style(one.mechanism)
        name = variant(one.mechanism)
        if one.density is None:
            post, hover = [10**bottom, 10**top], f"{name}: no noise<extra></extra>"
            fig.line([0, 0], post, look, hover, width=3, mode="lines", name=f"{name}: none")
            continue
        hover = (
            f"noise %{{x:.3g}}: density <b>%{{y:.3g}}</b><extra>{name}, scale {one.scale:.3g}"
            "</extra>"
        )
        fig.line(one.x, one.density, look, hover, mode="lines", name=name)
    fig.x(title=f"noise in one number of the {COEFFICIENTS[coefficient]}")
    fig.y(
        type="log",
        title="density, per unit of noise",
        range=[bottom, top],
        **powers(-9, 5),
    )
    return fig


def weights(view: SamplingWeights) -> Figure:
    """Each strategy's weight of a user's click against the length of the user's factor."""
    fig = figure(height=340)
    at = np.unique(np.linspace(0, len(view.norm) - 1, _SHOWN).round().astype(int))
    for name, values in view.weights.items():
        look = _STRATEGIES[name]
        scattered = name == "utility-optimal"  # it goes by another norm
        fig.draw(
            "scatter",
            x=view.norm[at],
            y=values[at],
            name=name,
            mode="markers" if scattered else "lines",
            line={"color": look.color, "width": 2.5, "dash": look.dash},
            marker={"color": look.color, "symbol": look.marker, "size": 5, "opacity": 0.6},
            hover=f"length %{{x:.3g}}: weight <b>%{{y:.3g}}</b><extra>{name}</extra>",
        )
    fig.x(title="length of the user's factor (sum of sizes)")
    fig.y(
        type="log",
        title="how often a drawn click counts",
        **ticks([m * 10.0**k for k in range(5) for m in (1, 2, 5)]),
    )
    return fig
