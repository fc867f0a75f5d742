"""Pictures of the implicit family: noise of its variants, and sampling weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from dpmc_core.views.implicit import COEFFICIENTS, SamplingWeights, VariantNoise, variant
from pages.ui.charts import Style, Theme, figure, style, ticks

_STRATEGIES = {
    "importance": Style("#009e73", "cross", "solid"),
    "utility-optimal": Style("#d55e00", "circle", "dot"),
    "uniform": Style("#0072b2", "square", "longdash"),
}
_SHOWN = 160  # users of a weights picture: more only cover each other


def densities(view: Sequence[VariantNoise], coefficient: str, theme: Theme) -> go.Figure:
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
            fig.add_scatter(
                x=[0, 0],
                y=[10**bottom, 10**top],
                name=f"{name}: none",
                mode="lines",
                line={"color": look.color, "width": 3, "dash": look.dash},
                hovertemplate=f"{name}: no noise<extra></extra>",
            )
            continue
        fig.add_scatter(
            x=one.x,
            y=one.density,
            name=name,
            mode="lines",
            line={"color": look.color, "width": 2.5, "dash": look.dash},
            hovertemplate=f"noise %{{x:.3g}}: density <b>%{{y:.3g}}</b><extra>{name}, scale"
            f" {one.scale:.3g}</extra>",
        )
    fig.update_xaxes(title_text=f"noise in one number of the {COEFFICIENTS[coefficient]}")
    fig.update_yaxes(
        type="log",
        title_text="density, per unit of noise",
        range=[bottom, top],
        **ticks([10.0**k for k in range(-9, 5)]),
    )
    return fig


def weights(view: SamplingWeights, theme: Theme) -> go.Figure:
    """Each strategy's weight of a user's click against the length of the user's factor."""
    fig = figure(theme, height=340)
    at = np.unique(np.linspace(0, len(view.norm) - 1, _SHOWN).round().astype(int))
    for name, values in view.weights.items():
        look = _STRATEGIES[name]
        scattered = name == "utility-optimal"  # it goes by another norm
        fig.add_scatter(
            x=view.norm[at],
            y=values[at],
            name=name,
            mode="markers" if scattered else "lines",
            line={"color": look.color, "width": 2.5, "dash": look.dash},
            marker={"color": look.color, "symbol": look.marker, "size": 5, "opacity": 0.6},
            hovertemplate=f"length %{{x:.3g}}: weight <b>%{{y:.3g}}</b><extra>{name}</extra>",
        )
    fig.update_xaxes(title_text="length of the user's factor (sum of sizes)")
    fig.update_yaxes(
        type="log",
        title_text="how often a drawn click counts",
        **ticks([m * 10.0**k for k in range(5) for m in (1, 2, 5)]),
    )
    return fig
