"""Draw a run while it trains, and the trained model on held-out ratings."""

from collections.abc import Sequence

from dpmc_lab.views import train as train_views
from dpmc_lab.views.lines import Role
from dpmc_lab.views.run_card import RememberedRun, format_run_epsilon
from dpmc_lab.views.train import ErrorCdf
from pages.ui.charts import (
    LEVEL_STYLES,
    PERCENT_TICKS,
    STYLES,
    Figure,
    create_figure,
    get_style,
    wrap_label,
)
from pages.ui.charts.lines import Tag, place_labels

Points = Sequence[tuple[int, float]]  # round and value


def plot_objective(points: Points) -> Figure:
    """Plot the objective by round."""
    rounds, values = zip(*points, strict=True)
    fig = create_figure("objective", xaxis_range=[0.5, rounds[-1] + 0.5])
    hover = "round %{x}: <b>%{y:.4~g}</b><extra></extra>"
    mode = "lines+markers" if len(points) < 40 else "lines"
    fig.add_line(rounds, values, STYLES["usefulness"], hover, mode=mode)
    return fig


def plot_two_runs(first: RememberedRun, second: RememberedRun) -> Figure:
    """Plot the metric of two runs by round, with their baselines and nonprivate references."""
    metric = first.metric
    films = {run.number: run.recording for run in (second, first)}
    last = max(film.frames[-1].round for film in films.values())
    # a film's own axis was fixed before its reference was known
    ends = [
        end
        for f in films.values()
        for end in train_views.choose_metric_axis(metric, f.baseline, f.reference)
    ]
    lower = ", lower is better" * metric.lower_is_better
    fig = create_figure(
        "both",
        xaxis_range=[0, last + 1],
        yaxis_title_text=f"{metric.title}<br>(held out{lower})",
        yaxis_range=[min(ends), max(ends)],
        yaxis_tickformat=PERCENT_TICKS if metric.is_share else None,
    )
    if last < 15:
        fig.update_layout(xaxis_dtick=1)  # no half rounds
    levels = {(film.baseline_name, film.baseline): (k, Role.BASELINE) for k, film in films.items()}
    levels |= {(film.best, film.reference): (k, Role.NO_PRIVACY) for k, film in films.items()}
    names = [name for name, _ in levels]
    for (name, level), (number, kind) in levels.items():
        if level is not None:
            of_run = f", run {number}" * (names.count(name) > 1)  # on two splits
            text = f"{name}{of_run}: {metric.format_value(level)}"
            fig.add_level((0, last + 1), level, LEVEL_STYLES[kind], text, name=text)
    same_mechanism = first.mechanism == second.mechanism
    tags = []
    for run in (first, second):
        # Smaller or dashed, as hollow would mean: only claimed.
        is_repeat = same_mechanism and run is second
        method_style = STYLES["usefulness"] if same_mechanism else get_style(run.mechanism)
        method_style = method_style._replace(dash="solid")
        points = [(f.round, f.metric) for f in run.recording.frames if f.metric is not None]
        rounds, values = zip(*points, strict=True) if points else ((), ())
        fig.add_line(
            rounds,
            values,
            method_style._replace(dash="dash") if is_repeat else method_style,
            f"run {run.number}, round %{{x}}: <b>%{{y:{metric.number_format}}}</b><extra></extra>",
            name=wrap_label(
                f"run {run.number}{format_run_epsilon(run)}: {run.details['mechanism']}"
            ),
            marker_size=10 if is_repeat or len(points) < 3 else 6,
        )
        name = f"run {run.number}{format_run_epsilon(run).replace(' · ', chr(10))}"
        tags.append(Tag(name, values[-1] if values else None, method_style, True))
    place_labels(fig, tags, fig.layout["yaxis"]["range"], 260)
    return fig


def plot_error_cdfs(private: ErrorCdf, nonprivate: ErrorCdf | None, name: str, axis: str) -> Figure:
    """Plot the share of held-out ratings within an error, with privacy and without.

    Args:
        private: errors with privacy.
        nonprivate: errors without privacy, if known.
        name: of the mechanism.
        axis: name of the axis of errors.
    """
    hover = "error up to %{x:.2f}: <b>%{y:.1%}</b> of ratings<extra></extra>"
    fig = create_figure("errors", xaxis_title_text=axis)
    if nonprivate is not None:
        fig.add_line(*nonprivate, STYLES["no privacy"], hover, name="no privacy", mode="lines")
    fig.add_line(*private, STYLES["usefulness"], hover, name=name, mode="lines")
    return fig
