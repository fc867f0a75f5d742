"""Show a run in pictures, and as one HTML file that opens without a network."""

from dpmc_core.errors import format_sentence
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.model import Task
from dpmc_core.problem import format_split
from dpmc_lab import glossary
from dpmc_lab.views import cards, lines, run_card, text
from dpmc_lab.views import train as train_views
from dpmc_lab.views.run_card import FinishedRun
from pages.ui import report
from pages.ui.charts import curve as charts_curve
from pages.ui.charts import train as charts_train
from pages.ui.report import Exhibit


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
        term = glossary.TERMS["hr@10"]
        return [
            Exhibit(
                "ranking",
                "Next items among ten suggestions",
                "How often is the next item among ten suggestions?",
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
            "Errors",
            "How large are its errors?",
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
