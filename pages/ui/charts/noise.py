"""Pictures of noise: its density and scale, data before and after it, and what is left of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

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
    LONG_LEGEND,
    Figure,
    Style,
    Theme,
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
    theme: Theme,
    *,
    names: tuple[str, str],
    pinned: Density | ChannelChances | None,
    ruler: Ruler | None,
    title: str,
) -> Figure:
    """One release's noise as it is drawn on the Noise page, see `density` and `channel`."""
    if isinstance(view, ChannelChances):
        other = pinned if isinstance(pinned, ChannelChances) else None
        return channel(mechanism, view, theme, names=names, pinned=other)
    ghost = pinned if isinstance(pinned, Density) else None
    small = {"title": title, "height": 210} if title else {}
    return density(mechanism, view, theme, names=names, pinned=ghost, ruler=ruler, **small)


def density(
    mechanism: str,
    view: Density,
    theme: Theme,
    *,
    height: int = 320,
    names: tuple[str, str] = ("exact density", ""),
    pinned: Density | None = None,
    ruler: Ruler | None = None,
    title: str = "",
) -> Figure:
    """Fresh draws as bars, the exact density as a line, another epsilon's as a ghost behind it.

    names: of the line and of the ghost. ruler: drawn from 0 on, below the axis. title: of a small
    picture among several, which has room for neither a legend nor numbers beside it.
    """
    look, top = style(mechanism), view.frame.top
    fig = figure(theme, height=height, bargap=0, showlegend=not title)
    fig.draw(
        "bar",
        x=view.bar_centers,
        y=view.bar_heights,
        name="fresh draws",
        marker={"color": faded(look.color, 0.35), "line": {"width": 0}},
        hover="around %{x:.2f}: density %{y:.3g}<extra>draws</extra>",
    )
    for one, name, drawn in (
        (pinned, names[1], {"color": theme.ink, "width": 2, "dash": "dot"}),
        (view, names[0], {"color": look.color, "width": 2.5}),
    ):
        if one is not None and one.density is not None:
            fig.draw(
                "scatter",
                x=one.x,
                y=one.density,
                name=name,
                mode="lines",
                line=drawn,
                hover=f"noise %{{x:.2f}}: density <b>%{{y:.3g}}</b><extra>{name}</extra>",
            )
    low = 0.0
    if ruler is not None:
        low = -0.4 * top if title else -0.25 * top
        _ruler(fig, ruler, view.frame, 0.25 * low, theme)
    _notes(fig, view, theme, small=bool(title))
    reach = view.frame.reach
    fig.x(title=None if title else "noise added to one number", range=[-reach, reach])
    fig.y(title=None if title else "density", range=[low, top], showticklabels=not title)
    if title:
        step = _step(reach)
        fig.x(tickmode="array", tickvals=[-step, 0, step])
        fig.layout["title"] = {"text": in_chart(title), "font": {"size": 13}, "x": 0, "y": 0.98}
    elif low:
        fig.y(tick0=0, **_above(top))
    return fig


def _above(top: float) -> dict[str, object]:
    """Round ticks from 0 up: none below the axis, where the ruler lies."""
    step = _step(top / 3)
    at = [k * step for k in range(int(top / step) + 1)]
    return {"tickmode": "array", "tickvals": at, "ticktext": [f"{v:.3g}" for v in at]}


def _step(most: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is at most this."""
    power = 10.0 ** math.floor(math.log10(most))
    return power * max(m for m in (1, 2, 5) if m * power <= most * (1 + 1e-9))


def _ruler(fig: Figure, ruler: Ruler, frame: Axes, at: float, theme: Theme) -> None:
    """From 0 as far as the ruler is long, or to the end of the axis; at: its height."""
    end = min(ruler.length, frame.reach)
    fig.shape(type="line", x0=0, x1=end, y0=at, y1=at, line={"color": theme.ink, "width": 3})
    for x in (0, end) if end == ruler.length else (0,):
        tick = {"y0": 1.5 * at, "y1": 0.5 * at, "line": {"color": theme.ink, "width": 1.5}}
        fig.shape(type="line", x0=x, x1=x, **tick)
    words = {"size": 12, "color": theme.ink}
    fig.note(text=ruler.words, x=0, y=1.5 * at, yanchor="top", **words)


def _notes(fig: Figure, view: Density, theme: Theme, *, small: bool) -> None:
    """What the fixed axes cut off: the peak of little noise, the ends of much."""
    peak = 0.0 if view.density is None else float(view.density.max())
    words = {"yref": "y domain", "bgcolor": theme.paper}
    words |= {"size": 12, "color": theme.muted}
    if peak > view.frame.top:
        text = f"peak {peak:.3g} ↑" if small else f"↑ on to its peak at {peak:.3g}"
        fig.note(text=text, x=0, xshift=14, xanchor="left", y=1, yanchor="top", **words)
    if view.beyond > 0.005:
        text = f"{view.beyond:.0%} beyond" if small else f"{view.beyond:.0%} of it lies beyond"
        fig.note(text=text, x=1, xref="x domain", xanchor="right", y=1, yanchor="top", **words)


def channel(
    mechanism: str,
    view: ChannelChances,
    theme: Theme,
    *,
    height: int = 320,
    names: tuple[str, str] = ("", ""),
    pinned: ChannelChances | None = None,
) -> Figure:
    """Chances of each answer for each true value; those at another epsilon as hollow bars.

    names: of what is drawn and of the ghost.
    """
    look = style(mechanism)
    if len(view.matrix) > 2:
        return _matrix(view, theme, look.color, height, pinned)
    fig = figure(theme, height=height, barmode="group", bargap=0.3)
    values = two_values(registry.get(mechanism).task) or ("0", "1")
    fills = (look.color, faded(look.color, 0.3))
    # dark on the full colour in either theme, the theme's own ink on the thin one
    inks = ("#101214", theme.ink)
    true = [f"true: {name}" for name in values]
    for output, answer in enumerate(values):
        fig.draw(
            "bar",
            x=true,
            y=view.matrix[:, output],
            name=f"answers: {answer}",
            offsetgroup=answer,
            marker={"color": fills[output % 2], "line": {"color": look.color, "width": 1.5}},
            text=[_chance(p) for p in view.matrix[:, output]],
            textposition="inside",
            insidetextanchor="start",
            insidetextfont={"color": inks[output % 2]},
            constraintext="none",
            textangle=0,
            customdata=view.drawn[:, output],
            hover="%{x}: <b>%{y:.1%}</b> exactly, %{customdata:.1%} of the draws"
            f"<extra>answers: {answer}</extra>",
        )
    ghosts = [] if pinned is None else pinned.matrix.T
    for answer, chances in zip(values, ghosts, strict=False):
        fig.draw(
            "bar",
            x=true,
            y=chances,
            name=names[1],
            offsetgroup=answer,
            showlegend=answer == values[0],
            marker={"color": "rgba(0,0,0,0)", "line": {"color": theme.ink, "width": 2}},
            hover=f"%{{x}}: <b>%{{y:.1%}}</b><extra>{names[1]}, answers: {answer}</extra>",
        )
    fig.y(title="chance", tickformat=".0%", range=[0, 1])
    return fig


def _matrix(
    view: ChannelChances, theme: Theme, color: str, height: int, pinned: ChannelChances | None
) -> Figure:
    """A channel of many symbols: a cell for each true value and answer; the ghost in brackets."""
    fig = figure(theme, height=height)
    text = [[_chance(p) for p in row] for row in view.matrix]
    if pinned is not None:
        there = [[_chance(p) for p in row] for row in pinned.matrix]
        both = [zip(*rows, strict=True) for rows in zip(text, there, strict=True)]
        text = [[f"{now}<br>({then})" for now, then in row] for row in both]
    fig.draw(
        "heatmap",
        z=view.matrix,
        x=[str(k) for k in range(view.matrix.shape[1])],
        y=[str(k) for k in range(len(view.matrix))],
        zmin=0,
        zmax=1,
        colorscale=[[0, faded(color, 0.05)], [1, faded(color, 0.75)]],
        showscale=False,
        xgap=2,
        ygap=2,
        text=text,
        texttemplate="%{text}",
        textfont={"color": theme.ink, "size": 12},
        customdata=view.drawn,
        hover="true %{y}, answers %{x}: <b>%{z:.1%}</b> exactly, %{customdata:.1%} of the"
        " draws<extra></extra>",
    )
    fig.x(title="answer", type="category", showgrid=False)
    fig.y(title="true value", type="category", showgrid=False)
    fig.y(autorange="reversed")
    return fig


def _chance(p: float) -> str:
    return f"{p:.1%}" if 0.0005 < p < 0.9995 else f"{p:.3%}"


def scales(
    views: Sequence[tuple[str, str, Scale]],
    chosen: str,
    unit: str,
    epsilon: float,
    theme: Theme,
    pinned: float | None = None,
) -> Figure:
    """Noise of releases against epsilon: (id, name, view). Those of the chosen method stand out.

    A second, dotted rule is at the pinned epsilon.
    """
    seen: set[str] = set()  # one entry of the legend for each method
    height = 320 + 12 * len({id for id, _, _ in views})
    fig = figure(theme, height=height, legend=LONG_LEGEND)
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
    theme: Theme,
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
    fig = figure(theme, height=260)
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
        {"color": theme.ink, "symbol": "line-ew-open", "size": 13, "line": {"width": 2.5}},
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


def heat(
    mechanism: str, view: BeforeAfter, theme: Theme, usual: BeforeAfter | None = None
) -> Figure:
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
        theme,
        height=340,
        plot_bgcolor=theme.missing,
        legend={"y": -0.12, "yanchor": "top"},  # the top has the halves' names
        coloraxis={
            "cmin": middle - reach if names is None else 0,
            "cmax": middle + reach if names is None else 1,
            "colorscale": [[0, _LOW], [0.5, theme.paper], [1, _HIGH]],
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
        entries["no value"] = theme.missing
    for name, color in entries.items():
        fig.draw(
            "scatter",
            x=[None],
            y=[None],
            name=name,
            showlegend=True,  # a single entry too
            mode="markers",
            marker={"symbol": "square", "size": 12, "color": color},
        )
    return fig


def _named(values: np.ndarray, names: tuple[str, str]) -> list[list[str]]:
    return [["" if np.isnan(v) else names[int(v)] for v in row] for row in values]


def residual(mechanism: str, view: RecoveryBounds, epsilon: float, theme: Theme) -> Figure:
    """Distance of the reports from the truth: measured, by moments, and by each bound where that is
    near."""
    own = style(mechanism)
    fig = figure(theme, height=340)
    bounds = {
        "Theorem 3": (view.theorem, "triangle-down-open"),
        "our bound": (view.tight, "diamond-open"),
    }
    for name, (bound, marker) in bounds.items():
        shown = near(bound, view.rho)
        if not np.isnan(shown).all():
            _line(fig, view, shown, name, theme.muted, marker, "dash")
    _line(fig, view, view.moments, "by the moments", theme.ink, "circle-open", "dot")
    _line(fig, view, view.rho, "measured", own.color, own.marker, "solid")
    return _axes(fig, "residual at the truth", epsilon, type="log", **powers(0, 8))


def error(mechanism: str, view: RecoveryBounds, epsilon: float, theme: Theme) -> Figure:
    """Distance of both recoveries from the truth, and of the zero matrix."""
    own = style(mechanism)
    fig = figure(theme, height=340)
    _line(fig, view, view.size, "the zero matrix", theme.muted, "line-ns-open", "dot")
    _line(fig, view, view.naive, "as they come", *_SECOND)
    _line(fig, view, view.debiased, "allowing for spurious", own.color, own.marker, "solid")
    return _axes(fig, "error of the recovery", epsilon, rangemode="tozero")


def _line(fig: Figure, view: RecoveryBounds, values: Iterable[float], name: str, *look) -> None:
    hover = f"{name}<br>epsilon %{{x:g}}: <b>%{{y:.3g}}</b><extra></extra>"
    fig.line(view.epsilon, values, Style(*look), hover, name=name)


def _axes(fig: Figure, title: str, epsilon: float, **y) -> Figure:
    fig.rule(epsilon)
    fig.x(**EPSILON_AXIS)
    fig.y(title=title, **y)
    return fig


def densities(view: Sequence[VariantNoise], coefficient: str, theme: Theme) -> Figure:
    """Exact densities on a logarithmic axis; a variant without noise is a post at 0."""
    fig = figure(theme, height=360)
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


def weights(view: SamplingWeights, theme: Theme) -> Figure:
    """Each strategy's weight of a user's click against the length of the user's factor."""
    fig = figure(theme, height=340)
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
