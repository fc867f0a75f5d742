"""A run in pictures, and as one HTML file that opens without a network."""

from __future__ import annotations

from dpmc_core.errors import sentence
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.model import Task
from dpmc_core.problem import split_words
from dpmc_lab import glossary
from dpmc_lab.curves import cards, lines, run_card, text, training
from dpmc_lab.curves.run_card import Run
from pages.ui import report
from pages.ui.charts import curve as charts_curve
from pages.ui.charts import train as charts_train
from pages.ui.report import Exhibit


def pictures(run: Run) -> list[Exhibit]:
    """What a model learned, on held-out ratings."""
    found, id, name = run.result, run.result.mechanism.id, run.result.mechanism.name
    task, test, link = found.mechanism.task, found.problem.test, training.link_of(found.mechanism)
    if task is Task.RANKING:  # scores are no ratings: there is no error to draw
        methods = run_card.methods(found)
        bars = lines.bars(methods)
        labels, term = next(iter(bars.values())), glossary.TERMS["hr@10"]
        return [
            Exhibit(
                "ranking",
                "Held-out items among the first ten",
                "How often is the next item among the first ten?",
                charts_curve.run_bars(id, methods),
                " ".join((term.words, term.more)),
                lines.bars_words(methods),
                {"method": list(bars)} | {m.panel: [b[m] for b in bars.values()] for m in labels},
            )
        ]
    binary = task is Task.BINARY

    private, *clear = (
        training.cdf(model, task, test, link)
        for model in (found.model, run.clear)
        if model is not None
    )
    errors = private, clear[0] if clear else None
    axis = "error of the chance of +1" if binary else f"error ({run_card.metric_of(found).unit})"
    return [
        Exhibit(
            "errors",
            "Errors",
            "How large are its errors?",
            charts_train.errors(id, *errors, name, axis),
            "Further up and left is better. Held-out ratings, not private.",
            training.cdf_words(*errors),
            {"error up to": private.error.round(3), "share": private.share.round(4)},
        )
    ]


def html(run: Run) -> str:
    """A run as one file, charts and their library included."""
    found = run.result
    description = cards.card(found.guarantee, columns=found.problem.train.columns)
    titled_figures = [
        (exhibit.title, exhibit.fig) for exhibit in pictures(run) if exhibit.fig is not None
    ]
    return report.page(
        f"{found.mechanism.name} on {run.title}",
        [
            text.paragraphs(
                f"Tested on {split_words(found.problem.split)}. {sentence(EVALUATION_ONLY)}"
            ),
            text.table(run_card.metrics_table(run_card.methods(found))),
            text.heading("Guarantee"),
            text.paragraphs(
                description.protects, *(f"{name}: {text}" for name, text in description.facts)
            ),
            *report.charts(titled_figures),
        ],
        run_card.command(run),
        "" if run.fresh else run_card.SEED_NOTE,
    )
