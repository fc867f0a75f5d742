"""Pictures of a data set."""

from __future__ import annotations

import math

from dpmc_core.lab.views.data import Histogram, Sparsity, Tail
from pages.ui.charts import BAR, DENSE, LOG, PAPER, THIN, Figure, figure


def sparsity(view: Sparsity) -> Figure:
    """Share of cells rated, users down and items across, both from most to least rated."""
    fig = figure("sparsity")
    fig.draw(
        "heatmap",
        z=100 * view.share,
        x=(view.item_edges[:-1] + view.item_edges[1:]) / 2,
        y=(view.user_edges[:-1] + view.user_edges[1:]) / 2,
        colorscale=[[0, PAPER], [0.02, THIN], [0.3, "#0072b2"], [1, DENSE]],
        zmin=0,
        zmax=100,
        colorbar=BAR,
        colorbar_title_text="% rated",
        hover="users around rank %{y:.0f}, items around rank %{x:.0f}<br>"
        "<b>%{z:.1f} %</b> of the cells are rated<extra></extra>",
    )
    return fig


def histogram(view: Histogram) -> Figure:
    """How often each rating is given."""
    fig = figure("histogram")
    if len(view.centers) <= 12:
        fig.update(xaxis_tickvals=view.centers)
    fig.draw(
        "bar",
        x=view.centers,
        y=view.counts,
        width=0.9 * view.width,
        marker_color="#0072b2",
        hover="rating %{x:g}: <b>%{y:,}</b> times<extra></extra>",
    )
    return fig


def tails(users: Tail, items: Tail) -> Figure:
    """Ratings per user and per item against their rank, both logarithmic."""
    most = math.log10(max(users.ratings[0], items.ratings[0]))
    fig = figure("tails", xaxis=LOG, yaxis=LOG, yaxis_range=[-0.1, most + 0.15])
    for tail, name, color, dash in (
        (users, "users", "#e69f00", "solid"),
        (items, "items", "#009e73", "longdash"),
    ):
        some = tail.ratings > 0
        hover = f"{name[:-1]} of rank %{{x:,}}: <b>%{{y:,}}</b> ratings<extra></extra>"
        x, y, told = tail.rank[some], tail.ratings[some], {"hover": hover, "name": name}
        fig.stroke(x, y, color, line_width=2.5, line_dash=dash, **told)
    return fig
