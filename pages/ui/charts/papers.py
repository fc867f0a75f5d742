"""Draw an experiment of a paper on its axes: our curves, and beside them the printed ones."""

import math
import textwrap
from collections.abc import Collection, Sequence

import numpy as np

from dpmc_core.arrays import Floats
from dpmc_lab.papers import views
from dpmc_lab.papers.engine import Axis, Series
from dpmc_lab.papers.views import ExperimentView
from dpmc_lab.views.lines import Band
from pages.ui.charts import BASELINE, INK, LOG, Figure, Style, create_figure, with_opacity
from pages.ui.charts.lines import Tag, place_labels

_FRAME = 320  # pixels of the frame
_LINE = 52  # letters that stand beside the axis, one above the other


def get_curve_styles(view: ExperimentView) -> dict[str, Style]:
    """Return the style of each curve by its label, with the colours of this surface."""
    surface_colors = {views.NONPRIVATE.color: INK, views.BASELINE.color: BASELINE}
    return {
        label: curve_style._replace(color=surface_colors.get(curve_style.color, curve_style.color))
        for label, curve_style in views.choose_styles(view).items()
    }


def plot_experiment(
    view: ExperimentView, *, printed: bool = False, beside: Sequence[ExperimentView] = ()
) -> Figure:
    """Plot our curves with bands, or the values that the paper prints, on the same axes.

    Printed values are hollow marks with their reading error. Names stand at the right of the frame.

    Args:
        view: the experiment with its result.
        printed: whether the paper's values are drawn.
        beside: the same figure with other settings, which shares the vertical axis.
    """
    paper_experiment = view.experiment
    curve_styles = get_curve_styles(view)
    fig = create_figure("experiment", height=_FRAME + 80)
    if printed:
        curves = view.printed_series
        for curve in curves:
            _plot_printed(fig, curve, curve_styles[curve.label])
    else:
        curves = view.series
        for curve in curves:
            _draw_series(fig, curve, curve_styles[curve.label], paper_experiment.y)
        for range_series in view.ranges:
            fig.add_band(
                Band(*_list_arrays(range_series)),
                with_opacity(curve_styles[range_series.label].color, 0.1),
            )
    titles = views.format_axis_titles(view)
    axes = (paper_experiment.x, paper_experiment.y)
    for title, axis, name in zip(titles, axes, ("xaxis", "yaxis"), strict=True):
        scale = {"type": "log", "tickformat": LOG["tickformat"], "nticks": 4} if axis.log else {}
        if axis.log and name == "xaxis":
            scale["tickvals"] = _thin_out({x for curve in curves for x in curve.x})
        fig.update_layout(
            **{name: scale | {"title_text": "<br>".join(textwrap.wrap(title, _LINE))}}
        )
    low, high = y_range = _find_range([view, *beside])
    fig.update_layout(yaxis_range=y_range)
    is_log = paper_experiment.y.log
    ends = [curve.mean[-1] for curve in curves]
    if np.ptp(ends) < 0.02 * (high - low):  # of densities, which all end at nothing
        ends = [max(curve.mean) for curve in curves]
    tags = [
        Tag(curve.label, min(max(y, low), high), curve_styles[curve.label], True)
        for curve, end in zip(curves, ends, strict=True)
        for y in [math.log10(max(end, 1e-300)) if is_log else end]
    ]
    height = max(_FRAME, sum(tag.height for tag in tags))
    fig.layout["height"] += height - _FRAME
    place_labels(fig, tags, y_range, height)
    return fig


def _thin_out(values: Collection[float]) -> list[float]:
    """Return those of some positive values whose labels have room on a logarithmic axis."""
    ordered = sorted(value for value in values if value > 0)
    gap = math.log(ordered[-1] / ordered[0]) / 5
    kept = ordered[:1]
    for value in ordered:
        if math.log(value / kept[-1]) >= gap:
            kept.append(value)
    return kept


def _find_range(figures: Sequence[ExperimentView]) -> tuple[float, float]:
    """Return the ends of the vertical axis for our values and the printed ones, with some room."""
    y = figures[0].experiment.y
    curves = [curve for view in figures for curve in (*view.printed_series, *view.series)]
    values = [value for curve in curves for value in (*curve.low, *curve.mean, *curve.high)]
    array = np.array([v for v in values if np.isfinite(v) and (v > 0 or not y.log)])
    if y.log:
        array = np.log10(array)
    room = 0.06 * float(np.ptp(array)) or 0.1
    return float(array.min()) - room, float(array.max()) + room


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
        name=curve.label,
        mode="lines+markers" if views.has_markers(curve) else "lines",
        customdata=[list(ends) for ends in zip(curve.low, curve.high, strict=True)],
    )


def _plot_printed(fig: Figure, curve: Series, curve_style: Style) -> None:
    """Draw printed values as hollow marks on a line, with the errors of reading them."""
    error = {
        "type": "data",
        "array": np.subtract(curve.high, curve.mean).tolist(),
        "color": curve_style.color,
    }
    fig.add_line(
        curve.x,
        curve.mean,
        curve_style,
        f"{curve.label}, printed<br>%{{x:.4g}}<br><b>%{{y:.4g}}</b><extra></extra>",
        marker=fig.make_marker(curve_style, solid=False, size=8),
        name=curve.label,
        error_y=error,
    )
