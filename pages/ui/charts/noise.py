"""Pictures of noise: its density and scale, data before and after it, and what is left of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from dpmc_core import registry
from dpmc_core.views.implicit import COEFFICIENTS, SamplingWeights, VariantNoise, variant
from dpmc_core.views.noise import (
    BeforeAfter,
    ChannelChances,
    Density,
    Scale,
    coded,
    two_values,
)
from dpmc_core.views.recovery import RecoveryBounds
from pages.ui.charts import (
    ENDS,
    EPSILON_AXIS,
    LONG_LEGEND,
    Figure,
    Style,
    Theme,
    faded,
    figure,
    line,
    powers,
    rule,
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


def density(mechanism: str, view: Density, theme: Theme, *, height: int = 320) -> Figure:
    """Fresh draws as bars, the exact density as a line."""
    look = style(mechanism)
    fig = figure(theme, height=height, bargap=0)
    fig.draw(
        "bar",
        x=view.bar_centers,
        y=view.bar_heights,
        name="fresh draws",
        marker={"color": faded(look.color, 0.35), "line": {"width": 0}},
        hovertemplate="around %{x:.2f}: density %{y:.3g}<extra>draws</extra>",
    )
    if view.density is not None:
        fig.draw(
            "scatter",
            x=view.x,
            y=view.density,
            name="exact density",
            mode="lines",
            line={"color": look.color, "width": 2.5},
            hovertemplate="noise %{x:.2f}: density <b>%{y:.3g}</b><extra>exact</extra>",
        )
    fig.x(title="noise added to one number")
    fig.y(title="density")
    return fig


def channel(mechanism: str, view: ChannelChances, theme: Theme, *, height: int = 320) -> Figure:
    """Chances of each answer for each true value, exact bars with fresh draws as ticks."""
    look = style(mechanism)
    if len(view.matrix) > 2:
        return _matrix(view, theme, look.color, height)
    fig = figure(theme, height=height, barmode="group", bargap=0.3)
    names = two_values(registry.get(mechanism).task) or ("0", "1")
    fills = (look.color, faded(look.color, 0.3))
    # dark on the full colour in either theme, the theme's own ink on the thin one
    inks = ("#101214", theme.ink)
    for output, answer in enumerate(names):
        fig.draw(
            "bar",
            x=[f"true: {name}" for name in names],
            y=view.matrix[:, output],
            name=f"answers: {answer}",
            marker={"color": fills[output % 2], "line": {"color": look.color, "width": 1.5}},
            text=[_chance(p) for p in view.matrix[:, output]],
            textposition="auto",
            insidetextfont={"color": inks[output % 2]},
            outsidetextfont={"color": theme.ink},
            customdata=view.drawn[:, output],
            hovertemplate="%{x}: <b>%{y:.1%}</b> exactly, %{customdata:.1%} of the draws"
            f"<extra>answers: {answer}</extra>",
        )
    fig.y(title="chance", tickformat=".0%", range=[0, 1])
    return fig


def _matrix(view: ChannelChances, theme: Theme, color: str, height: int) -> Figure:
    """A channel of many symbols: a cell for each true value and answer."""
    fig = figure(theme, height=height)
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
        text=[[_chance(p) for p in row] for row in view.matrix],
        texttemplate="%{text}",
        textfont={"color": theme.ink, "size": 12},
        customdata=view.drawn,
        hovertemplate="true %{y}, answers %{x}: <b>%{z:.1%}</b> exactly, %{customdata:.1%} of the"
        " draws<extra></extra>",
    )
    fig.x(title="answer", type="category", showgrid=False)
    fig.y(title="true value", type="category", showgrid=False)
    fig.y(autorange="reversed")
    return fig


def _chance(p: float) -> str:
    return f"{p:.1%}" if 0.0005 < p < 0.9995 else f"{p:.3%}"


def scales(
    views: Sequence[tuple[str, str, Scale]], chosen: str, unit: str, epsilon: float, theme: Theme
) -> Figure:
    """Noise of releases against epsilon: (id, name, view). Those of the chosen method stand out."""
    seen: set[str] = set()  # one entry of the legend for each method
    height = 320 + 12 * len({id for id, _, _ in views})
    fig = figure(theme, height=height, legend=LONG_LEGEND)
    for id, name, view in views:
        look, own = style(id), id == chosen
        line(
            fig,
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
    rule(fig, epsilon, theme)
    reach = [x for _, _, view in views for x in view.epsilon]
    fig.x(**EPSILON_AXIS, range=[math.log10(min(reach)) - 0.06, math.log10(max(reach)) + 0.06])
    if unit == "noise scale":
        fig.y(type="log", title=unit, **powers(-3, 7))
    else:
        fig.y(title=unit, tickformat=".0%", rangemode="tozero")
    return fig


def strip(mechanism: str, view: BeforeAfter, user: int, theme: Theme) -> Figure:
    """One row: every released value of one user before and after the noise."""
    look = style(mechanism)
    here = np.flatnonzero(~np.isnan(view.before[user]) | ~np.isnan(view.after[user]))
    before, after = view.before[user, here], view.after[user, here]
    names = [in_chart(view.items[i]) for i in here]
    fig = figure(theme, height=260)
    nothing = [None] * len(here)  # a gap after every pair
    fig.draw(
        "scatter",
        x=np.column_stack([here, here, nothing]).ravel(),
        y=np.column_stack([before, after, nothing]).ravel(),
        mode="lines",
        line={"color": faded(look.color, 0.4), "width": 2},
        hoverinfo="skip",
        showlegend=False,
    )
    fig.draw(
        "scatter",
        x=here,
        y=after,
        name="after the noise",
        mode="markers",
        marker={"color": look.color, "symbol": look.marker, "size": 10},
        customdata=names,
        hovertemplate="%{customdata}: <b>%{y:.2f}</b> after<extra></extra>",
    )
    fig.draw(
        "scatter",
        x=here,
        y=before,
        name="before",
        mode="markers",
        marker={"color": theme.ink, "symbol": "line-ew-open", "size": 13, "line": {"width": 2.5}},
        customdata=names,
        hovertemplate="%{customdata}: <b>%{y:.2f}</b> before<extra></extra>",
    )
    fig.x(title="items, most rated first", showticklabels=False)
    words = coded(view, registry.get(mechanism).task)
    if words is None:
        fig.y("released value")
    else:
        fig.y("", tickvals=[0, 1], ticktext=words, range=[-0.2, 1.2])
    return fig


def heat(mechanism: str, view: BeforeAfter, theme: Theme) -> Figure:
    """A block of users x items, before on the left and after on the right, on one colour scale.

    Two values have a legend instead of the scale; cells without a value are grey.
    """
    names = coded(view, registry.get(mechanism).task)
    low, high = float(np.nanmin(view.before)), float(np.nanmax(view.before))
    middle, reach = (low + high) / 2, (high - low) / 2 or 1.0
    farthest = float(np.nanmax(np.abs(view.after - middle)))
    # beyond three times what there was, colours are saturated; where all was one value, nothing
    reach = min(max(reach, farthest), 3 * reach) if high > low else farthest or 1.0
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
            hovertemplate="user %{y}, item %{x}: <b>"
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
    """Distance of the reports from the truth: measured, by moments, by Theorem 3."""
    own = style(mechanism)
    fig = figure(theme, height=340)
    _line(fig, view, view.theorem, "Theorem 3 allows", theme.muted, "line-ns-open", "dot")
    _line(fig, view, view.moments, "by the moments", theme.ink, "circle-open", "dash")
    _line(fig, view, view.rho, "measured", own.color, own.marker, "solid")
    return _axes(fig, "residual at the truth", epsilon, theme)


def error(mechanism: str, view: RecoveryBounds, epsilon: float, theme: Theme) -> Figure:
    """Distance of both recoveries from the truth, and what Equation 5 allows."""
    own = style(mechanism)
    fig = figure(theme, height=340)
    _line(fig, view, view.equation_5, "Equation 5", theme.muted, "line-ns-open", "dot")
    _line(fig, view, view.naive, "as they come", *_SECOND)
    _line(fig, view, view.debiased, "allowing for spurious", own.color, own.marker, "solid")
    return _axes(fig, "error of the recovery", epsilon, theme)


def _line(fig: Figure, view: RecoveryBounds, values: Iterable[float], name: str, *look) -> None:
    hover = f"{name}<br>epsilon %{{x:g}}: <b>%{{y:.3g}}</b><extra></extra>"
    line(fig, view.epsilon, values, Style(*look), hover, name=name)


def _axes(fig: Figure, title: str, epsilon: float, theme: Theme) -> Figure:
    rule(fig, epsilon, theme)
    fig.x(**EPSILON_AXIS)
    fig.y(type="log", title=title, **powers(0, 8))
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
            line(fig, [0, 0], post, look, hover, width=3, mode="lines", name=f"{name}: none")
            continue
        hover = (
            f"noise %{{x:.3g}}: density <b>%{{y:.3g}}</b><extra>{name}, scale {one.scale:.3g}"
            "</extra>"
        )
        line(fig, one.x, one.density, look, hover, mode="lines", name=name)
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
            hovertemplate=f"length %{{x:.3g}}: weight <b>%{{y:.3g}}</b><extra>{name}</extra>",
        )
    fig.x(title="length of the user's factor (sum of sizes)")
    fig.y(
        type="log",
        title="how often a drawn click counts",
        **ticks([m * 10.0**k for k in range(5) for m in (1, 2, 5)]),
    )
    return fig
