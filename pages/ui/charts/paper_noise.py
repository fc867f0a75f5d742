"""Charts of what two papers say of the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpmc_core.arrays import Floats
from dpmc_lab.papers.ryhh24 import COEFFICIENTS, SamplingWeights, VariantNoise, variant
from dpmc_lab.papers.z16 import RecoveryBounds, near
from pages.ui.charts import EPSILON_AXIS, LOG, STYLES, Figure, figure, style

_SHOWN = 160  # users of a weights picture: more only cover each other


def residual(mechanism: str, view: RecoveryBounds, epsilon: float) -> Figure:
    """Distance of the reports from the truth: measured, by moments, and by each bound where that is
    near."""
    found = {
        "Theorem 3": near(view.theorem, view.rho),
        "our bound": near(view.tight, view.rho),
        "by the moments": view.moments,
        "measured": view.rho,
    }
    there = {name: values for name, values in found.items() if not np.isnan(values).all()}
    return _recovered("residual", mechanism, view, there, epsilon, yaxis=LOG)


def error(mechanism: str, view: RecoveryBounds, epsilon: float) -> Figure:
    """Distance of both recoveries from the truth, and of the zero matrix."""
    found = {
        "the zero matrix": view.size,
        "as they come": view.naive,
        "allowing for spurious": view.debiased,
    }
    return _recovered("error", mechanism, view, found, epsilon)


def _recovered(
    name: str,
    mechanism: str,
    view: RecoveryBounds,
    found: Mapping[str, Floats],
    epsilon: float,
    **layout: Any,
) -> Figure:
    """found: the values by name; what has no style of its own is the mechanism's."""
    fig, own = figure(name, xaxis=EPSILON_AXIS, **layout), style(mechanism)._replace(dash="solid")
    for name, values in found.items():
        hover = f"{name}<br>epsilon %{{x:g}}: <b>%{{y:.3g}}</b><extra></extra>"
        fig.line(view.epsilon, values, STYLES.get(name, own), hover, name=name)
    fig.rule(epsilon)
    return fig


def densities(view: Sequence[VariantNoise], coefficient: str) -> Figure:
    """Exact densities on a logarithmic axis; a variant without noise is a post at 0."""
    found = [one.density for one in view if one.density is not None]
    top = max(float(density.max()) for density in found)
    low = max(min(float(density.min()) for density in found), top * 1e-6)
    ends = [math.log10(low) - 0.1, math.log10(top) + 0.25]
    title = f"noise in one number of the {COEFFICIENTS[coefficient]}"
    fig = figure("densities", xaxis_title_text=title, yaxis=LOG, yaxis_range=ends)
    for one in view:
        name, x, y = variant(one.mechanism), one.x, one.density
        hover = f"noise %{{x:.3g}}: density <b>%{{y:.3g}}</b><extra>{name}, scale {one.scale:.3g}"
        if y is None:
            x, y, name = np.zeros(2), 10 ** np.array(ends), f"{name}: none"
            hover = f"{name}<extra>"
        look = style(one.mechanism)
        fig.line(x, y, look, f"{hover}</extra>", mode="lines", name=name)
    return fig


def weights(view: SamplingWeights) -> Figure:
    """Each strategy's weight of a user's click against the length of the user's factor."""
    fig = figure("weights", yaxis=LOG, yaxis_dtick="D2")
    at = np.unique(np.linspace(0, len(view.norm) - 1, _SHOWN).round().astype(int))
    for name, values in view.weights.items():
        fig.line(
            view.norm[at],
            values[at],
            STYLES[name],
            f"length %{{x:.3g}}: weight <b>%{{y:.3g}}</b><extra>{name}</extra>",
            name=name,
            mode="markers" if name == "utility-optimal" else "lines",  # it goes by another norm
            marker_size=5,
            marker_opacity=0.6,
        )
    return fig
