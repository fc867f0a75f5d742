"""Pictures of a data set."""

from __future__ import annotations

import math

from dpmc_core.lab.views.data import Histogram, Sparsity, Tail
from pages.ui.charts import Figure, Theme, figure, powers


def sparsity(view: Sparsity, theme: Theme) -> Figure:
    """Share of cells rated, users down and items across, both from most to least rated."""
    fig = figure(theme, height=360)
    fig.draw(
        "heatmap",
        z=100 * view.share,
        x=(view.item_edges[:-1] + view.item_edges[1:]) / 2,
        y=(view.user_edges[:-1] + view.user_edges[1:]) / 2,
        colorscale=[[0, theme.paper], [0.02, "#56b4e9"], [0.3, "#0072b2"], [1, "#00334f"]]
        if theme.name.endswith("light")
        else [[0, theme.paper], [0.02, "#00466e"], [0.3, "#0072b2"], [1, "#a9dcff"]],
        zmin=0,
        zmax=100,
        colorbar={"title": {"text": "% rated"}, "thickness": 12, "outlinewidth": 0},
        hover="users around rank %{y:.0f}, items around rank %{x:.0f}<br>"
        "<b>%{z:.1f} %</b> of the cells are rated<extra></extra>",
    )
    fig.x(title="items, most rated first", showgrid=False)
    fig.y(title="users, busiest first", autorange="reversed", showgrid=False)
    return fig


def histogram(view: Histogram, theme: Theme) -> Figure:
    """How often each rating is given."""
    fig = figure(theme, height=300, showlegend=False)
    fig.draw(
        "bar",
        x=view.centers,
        y=view.counts,
        width=0.9 * view.width,
        marker={"color": "#0072b2"},
        hover="rating %{x:g}: <b>%{y:,}</b> times<extra></extra>",
    )
    few = len(view.centers) <= 12
    fig.x(
        title="rating (rating points)",
        **({"tickvals": view.centers, "tickmode": "array"} if few else {}),
    )
    fig.y(title="ratings")
    return fig


def tails(users: Tail, items: Tail, theme: Theme) -> Figure:
    """Ratings per user and per item against their rank, both logarithmic."""
    fig = figure(theme, height=300)
    for tail, name, color, dash in (
        (users, "users", "#e69f00", "solid"),
        (items, "items", "#009e73", "longdash"),
    ):
        some = tail.ratings > 0
        fig.stroke(
            tail.rank[some],
            tail.ratings[some],
            color,
            width=2.5,
            dash=dash,
            hover=f"{name[:-1]} of rank %{{x:,}}: <b>%{{y:,}}</b> ratings<extra></extra>",
            name=name,
        )
    fig.x(type="log", title="rank, most rated first", **powers(0, 8))
    most = math.log10(max(users.ratings[0], items.ratings[0]))
    fig.y(type="log", title="ratings", range=[-0.1, most + 0.15], **powers(0, 8))
    return fig
