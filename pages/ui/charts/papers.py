"""Draw an experiment of a paper on the paper's axes: our curves, with printed values over them."""

import textwrap

import numpy as np

from dpmc_core.arrays import Floats
from dpmc_lab.papers import views
from dpmc_lab.papers.engine import Axis, Series
from dpmc_lab.papers.views import ExperimentView
from dpmc_lab.views.lines import Band
from pages.ui.charts import INK, LOG, MUTED, Figure, Style, create_figure, with_opacity, wrap_label

_FRAME, _ROW = 360, 21  # pixels of the frame with its axes, and of a row of the legend
_LINE = 52  # letters that stand beside the axis, one above the other


def get_curve_styles(view: ExperimentView) -> dict[str, Style]:
    """Return the style of each curve by its label, with the colours of this surface."""
    surface_colors = {views.NONPRIVATE.color: INK, views.BASELINE.color: MUTED}
    return {
        label: curve_style._replace(color=surface_colors.get(curve_style.color, curve_style.color))
        for label, curve_style in views.choose_styles(view).items()
    }


def plot_experiment(view: ExperimentView) -> Figure:
    """Plot our curves with bands; printed values are hollow marks with their reading error."""
    paper_experiment = view.experiment
    curve_styles = get_curve_styles(view)
    # A name may take a row of the legend, above a frame of the same height.
    fig = create_figure("experiment", height=_FRAME + _ROW * len(curve_styles))
    for curve in view.series:
        _draw_series(fig, curve, curve_styles[curve.label], paper_experiment.y)
    for range_series in view.ranges:
        fig.add_band(
            Band(*_list_arrays(range_series)),
            with_opacity(curve_styles[range_series.label].color, 0.1),
        )
    for label in dict.fromkeys(p.series for p in paper_experiment.printed):
        _draw_printed(fig, view, label, curve_styles[label])
    axes = (
        views.format_axis_titles(view),
        (paper_experiment.x, paper_experiment.y),
        ("xaxis", "yaxis"),
    )
    for title, axis, name in zip(*axes, strict=True):
        # On two decades or fewer 2 and 5 have labels too.
        scale = {"type": "log", "tickformat": LOG["tickformat"], "nticks": 4} if axis.log else {}
        fig.update_layout(
            **{name: scale | {"title_text": "<br>".join(textwrap.wrap(title, _LINE))}}
        )
    return fig


def _list_arrays(curve: Series) -> list[Floats]:
    """Return a series as the arrays of a `Band`."""
    return [*map(np.array, (curve.x, curve.mean, curve.low, curve.high, curve.seeds))]


def _draw_series(fig: Figure, curve: Series, curve_style: Style, y: Axis) -> None:
    """Draw one of our curves with its band, on the vertical axis `y`."""
    grid = _list_arrays(curve)
    if y.log:  # which has no place for what is not above 0
        grid[2] = np.maximum(grid[2], grid[1] / 1000)
    fig.add_curve(
        Band(*grid),
        curve_style,
        f"{curve.label}<br>%{{x:.4g}}<br><b>%{{y:.4g}}</b>, band %{{customdata[0]:.4g}} to"
        " %{customdata[1]:.4g}<extra></extra>",
        name=wrap_label(curve.label),
        mode="lines+markers" if views.has_markers(curve) else "lines",
        customdata=[list(ends) for ends in zip(curve.low, curve.high, strict=True)],
    )


def _draw_printed(fig: Figure, view: ExperimentView, label: str, curve_style: Style) -> None:
    """Draw printed values as hollow marks, whatever is proved; the legend explains them."""
    printed_points = [p for p in view.experiment.printed if p.series == label]
    fig.add_markers(
        [p.x for p in printed_points],
        [p.value for p in printed_points],
        fig.make_marker(curve_style, solid=False, size=8),
        hover=f"{label}, printed<br>%{{x:.4g}}<br><b>%{{y:.4g}}</b><extra></extra>",
        name=wrap_label(f"{label}, printed"),
        showlegend=label not in {series.label for series in view.series},
    )
    error = {"type": "data", "array": [p.error for p in printed_points], "color": curve_style.color}
    fig.data[-1]["error_y"] = error
