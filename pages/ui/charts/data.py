"""Draw pictures of a data set."""

import math

from dpmc_lab.views.data import Histogram, Tail
from pages.ui.charts import BASELINE, LOG, STYLES, Figure, create_figure


def plot_histogram(view: Histogram) -> Figure:
    """Plot how often each rating is given."""
    fig = create_figure("histogram")
    if len(view.centers) <= 12:
        fig.update_layout(xaxis_tickvals=view.centers)
    stems = {"type": "data", "symmetric": False, "array": 0 * view.counts, "width": 0}
    stems |= {"arrayminus": view.counts, "thickness": 1, "color": BASELINE}
    fig.add_trace("counts", x=view.centers, y=view.counts, error_y=stems)
    return fig


def plot_long_tails(users: Tail, items: Tail) -> Figure:
    """Plot ratings per user and per item against their rank, both logarithmic."""
    max_log_count = math.log10(max(users.ratings[0], items.ratings[0]))
    fig = create_figure("tails", xaxis=LOG, yaxis=LOG, yaxis_range=[-0.1, max_log_count + 0.15])
    for name, tail in (("users", users), ("items", items)):
        mask = tail.ratings > 0
        hover = f"{name[:-1]} of rank %{{x:,}}: <b>%{{y:,}}</b> ratings<extra></extra>"
        points = tail.rank[mask], tail.ratings[mask]
        fig.add_line(*points, STYLES[name], hover, mode="lines", name=name)
        x, y = (math.log10(values[len(values) // 3]) for values in points)  # on logarithmic axes
        fig.add_annotation("curve", text=name, x=x, y=y)
    return fig
