"""Show a run: its matrix and its curve, pictures of its errors, and one HTML file."""

from pathlib import Path

import streamlit as st

from dpmc_core.errors import format_sentence
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.model import Task
from dpmc_lab import glossary
from dpmc_lab.views import cards, lines, run_card, text
from dpmc_lab.views import train as train_views
from dpmc_lab.views.run_card import FinishedRun
from dpmc_lab.views.text import format_split
from dpmc_lab.views.train import RunRecording
from pages.ui import blocks, report
from pages.ui.charts import curve as charts_curve
from pages.ui.charts import train as charts_train
from pages.ui.report import Exhibit

# A run round by round: its matrix, and its metric on fixed axes. The server is not asked.
_HTML = """
<div class="run">
  <section class="matrix"><h2><b></b><output aria-live="off"></output></h2>
    <canvas role="img"></canvas>
    <div class="foot"><div class="key"></div><div class="scrub"><button type="button"></button>
      <input type="range" min="0" step="1" aria-label="Round"></div></div></section>
  <section class="curve"><h2><b></b><span></span></h2><svg role="img"></svg></section>
</div>
"""
_css, _js = (
    Path(__file__).with_name(f"run.{kind}").read_text(encoding="utf-8") for kind in ("css", "js")
)
_stage = st.components.v2.component("run", html=_HTML, css=_css, js=_js)


def show_stage(
    film: RunRecording, *, live: bool = False, earlier: tuple[RunRecording, str] | None = None
) -> None:
    """Show a run that plays when it is new, and can be replayed and moved through.

    Args:
        film: the recorded run.
        live: whether more rounds will follow.
        earlier: an earlier run with the same metric, and its name.
    """
    _stage(key="run", data=charts_train.build_stage(film, live=live, earlier=earlier))
    blocks.show_chart_numbers(
        train_views.describe_recording(film), train_views.tabulate_recording(film), "film"
    )


def build_exhibits(run: FinishedRun) -> list[Exhibit]:
    """Return charts of how well a run's model predicts held-out ratings.

    For the task RANKING it is how often the next item is among ten suggestions, otherwise the
    distribution of errors.
    """
    result = run.result
    mechanism = result.mechanism
    task = mechanism.task
    test = result.problem.test
    link = train_views.find_link(mechanism)
    if task is Task.RANKING:  # scores are no ratings: there is no error to draw
        methods = run_card.collect_metrics(result)
        bars = lines.select_ranking_metrics(methods)
        metrics = next(iter(bars.values()))
        first = next(iter(metrics))
        term = glossary.TERMS["hr@10"]
        return [
            Exhibit(
                "ranking",
                f"{first.panel_title}: "
                + ", ".join(
                    f"{name} {first.format_value(bar[first])}" for name, bar in bars.items()
                ),
                charts_curve.plot_ranking_bars(methods),
                " ".join((term.words, term.more)),
                lines.describe_bars(methods),
                {"method": list(bars)}
                | {
                    metric.panel_title: [bar[metric] for bar in bars.values()] for metric in metrics
                },
            )
        ]
    private, *nonprivate = (
        train_views.compute_error_cdf(model, task, test, link)
        for model in (result.model, run.nonprivate_model)
        if model is not None
    )
    errors = private, nonprivate[0] if nonprivate else None
    axis = (
        "error of the chance of +1"
        if task is Task.BINARY
        else f"error ({run_card.find_run_metric(result).unit})"
    )
    return [
        Exhibit(
            "errors",
            train_views.describe_error_cdf(*errors).removesuffix("."),
            charts_train.plot_error_cdfs(*errors, mechanism.name, axis),
            "Further up and left is better. Held-out ratings, not private.",
            train_views.describe_error_cdf(*errors),
            {"error up to": private.error.round(3), "share": private.share.round(4)},
        )
    ]


def render_run_report(run: FinishedRun) -> str:
    """Render a run as one HTML file, with its metrics, its guarantee and its charts."""
    result = run.result
    description = cards.build_privacy_card(result.guarantee, columns=result.problem.train.columns)
    titled_figures = [
        (exhibit.title, exhibit.fig) for exhibit in build_exhibits(run) if exhibit.fig is not None
    ]
    return report.render_report_page(
        f"{result.mechanism.name} on {run.title}",
        [
            text.render_paragraphs(
                f"Tested on {format_split(result.problem.split)}."
                f" {format_sentence(EVALUATION_ONLY)}"
            ),
            text.render_table(run_card.tabulate_metrics(run_card.collect_metrics(result))),
            text.render_heading("Guarantee"),
            text.render_paragraphs(
                description.protects, *(f"{name}: {text}" for name, text in description.details)
            ),
            *report.render_charts(titled_figures),
        ],
        run_card.format_fit_command(run),
        "" if run.fresh else run_card.SEED_NOTE,
    )
