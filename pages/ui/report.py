"""A run in pictures; a run or a comparison as one HTML file that opens without a network."""

from __future__ import annotations

import csv as csv_files
import io
import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from dpmc_core import paths
from dpmc_core.errors import sentence
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.lab import papers
from dpmc_core.lab.store import guarded
from dpmc_core.lab.teach import glossary
from dpmc_core.lab.teach.pictures import Bend, drawn
from dpmc_core.lab.views import answer, cards, lines, run_card, text, training
from dpmc_core.lab.views.lines import Picture
from dpmc_core.lab.views.run_card import Run
from dpmc_core.model import Task
from dpmc_core.problem import split_words
from pages.ui.charts import LIGHT, Figure
from pages.ui.charts import curve as charts_curve
from pages.ui.charts import train as charts_train


class Exhibit(NamedTuple):
    """A chart of a run with its words; fig is None where there is nothing to draw: see caption.

    title: above it in the report; question: above it on the page.
    """

    key: str
    title: str
    question: str
    fig: Figure | None
    caption: str
    alt: str = ""
    table: Mapping[str, Sequence[Any]] | None = None


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

    def both(make: Callable[..., Any], *more: Any) -> tuple[Any, Any]:
        return make(found.model, *more), make(run.clear, *more) if run.clear else None

    errors = both(training.cdf, task, test, link)
    honest = both(training.calibration, task, test, link)
    values, clear = both(training.spectrum)
    axis = "error of the chance of +1" if binary else f"error ({run_card.metric_of(found).unit})"
    spectrum = Exhibit(
        "spectrum",
        "Singular values",
        "How much structure is left?",
        None,
        "This model is a whole noisy matrix without factors: its singular values would be those of"
        " the noise.",
    )
    if values is not None:
        spectrum = spectrum._replace(
            fig=charts_train.spectrum(id, values, clear, name),
            caption="Large values stand for strong patterns, small ones for detail or noise.",
            alt=training.spectrum_words(values),
            table={"number": range(1, len(values) + 1), "singular value": values.round(3)},
        )
    return [
        Exhibit(
            "errors",
            "Errors",
            "How large are its errors?",
            charts_train.errors(id, *errors, name, axis),
            "Further up and left is better. Held-out ratings, not private.",
            training.cdf_words(*errors),
            {"error up to": errors[0].error.round(3), "share": errors[0].share.round(4)},
        ),
        Exhibit(
            "calibration",
            "Calibration",
            "Does it mean what it says?",
            charts_train.calibration(id, *honest, name, binary),
            "On the dotted line it is honest. Held-out ratings, not private.",
            training.calibration_words(honest[0]),
            {
                "predicted": honest[0].predicted.round(3),
                "true": honest[0].observed.round(3),
                "ratings": honest[0].size,
            },
        ),
        spectrum,
    ]


def html(run: Run) -> str:
    """A run as one file, charts and their library included."""
    found = run.result
    shown = cards.card(found.guarantee)
    drawn = [(one.title, one.fig) for one in pictures(run) if one.fig is not None]
    return _file(
        f"{found.mechanism.name} on {run.title}",
        [
            text.paragraphs(
                f"Tested on {split_words(found.problem.split)}. {sentence(EVALUATION_ONLY)}"
            ),
            text.table(run_card.metrics_table(run_card.methods(found))),
            text.heading("Guarantee"),
            text.paragraphs(shown.protects, *(f"{name}: {text}" for name, text in shown.facts)),
            *_charts(drawn),
        ],
        run_card.command(run),
        "" if run.fresh else run_card.SEED_NOTE,
    )


def comparison(
    title: str,
    drawn: Sequence[tuple[str, Figure]],
    words: Sequence[str],
    table: Mapping[str, Sequence[object]],
    command: str,
) -> str:
    """A comparison as one file: charts by their titles, sentences, numbers and the command."""
    told = text.paragraphs(*words), text.heading("Numbers"), text.table(table)
    return _file(title, [*_charts(drawn), *told], command)


# --- what a curve is taken along as -----------------------------------------------------------


def svg(picture: Picture) -> str:
    """The curves as a picture without a script."""
    stops = sorted({float(e) for line in picture.lines for e in line.epsilon})
    whole = [line for line in picture.lines if len(line.epsilon) == len(stops)]
    levels = {name: level.level.mean for name, level in picture.levels}
    lines_of = {line.label: tuple(line.band.mean.tolist()) for line in whole}
    values = [*levels.values(), *(value for line in lines_of.values() for value in line)]
    metric = picture.metric
    return drawn(
        Bend(
            "epsilon",
            tuple(f"{stop:g}" for stop in stops),
            lines_of,
            None,
            metric.axis,
            metric.text,
            min(values),
            max(values),
            levels,
        )
    )


def csv(table: Mapping[str, Sequence[object]]) -> str:
    """A table as a file that no spreadsheet runs."""
    stream = io.StringIO()
    rows = (tuple(table), *zip(*table.values(), strict=True))
    csv_files.writer(stream, lineterminator="\n").writerows(map(guarded, row) for row in rows)
    return stream.getvalue()


def cited(picture: Picture, command: str) -> str:
    """How to cite a curve: the program with what makes it, and the papers that have its methods."""
    methods = {line.mechanism for line in picture.lines}
    known = {paper.key: paper for paper, one in papers.experiments() if methods & one.runs}
    names = ", ".join(line.label for line in picture.lines)
    fields = {
        "title": f"DPMC Lab: {names}, {picture.metric.spoken} against epsilon",
        "author": "{DPMC Lab contributors}",
        "version": paths.version(),
        "note": command,
    }
    own = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    entries = [f"@software{{dpmc-lab,\n{own}\n}}", *(paper.bibtex for paper in known.values())]
    return "\n\n".join(entries)


def verdict(title: str, said: Sequence[str], command: str) -> str:
    """An answer on one page to print, for those who decide; said: sentences, the verdict first."""
    first, *rest = (answer.plain(one) for one in said if one)
    return _file(title, [text.heading(first), text.paragraphs(*rest)], command)


def code(picture: Picture, argv: Sequence[str]) -> tuple[str, str]:
    """Python that computes the curves, and that reads them."""
    ids = list(dict.fromkeys(line.mechanism for line in picture.lines))
    return (
        "import subprocess\nimport sys\n\n"
        f"command = [sys.executable, '-m', 'dpmc_core', *{list(argv[1:])!r}]\n"
        "print(subprocess.run(command, check=True, capture_output=True, text=True).stdout)",
        "from dpmc_core.lab.store import Store, default_path\n"
        "from dpmc_core.lab.views import lines\n"
        "from dpmc_core.metrics import METRICS\n\n"
        "with Store(default_path(), read_only=True) as store:\n"
        f"    picture = lines.read(store, {ids!r}, METRICS[{picture.metric.name!r}])\n"
        "for line in picture.lines:\n"
        "    for epsilon, here in zip(line.epsilon, line.intervals, strict=True):\n"
        "        print(line.label, epsilon, here.mean, here.half_width, here.seeds)",
    )


def notebook(title: str, *cells: str) -> str:
    """Python cells under a title, as Jupyter opens them."""
    code = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    head = {"cell_type": "markdown", "metadata": {}, "source": f"# {title}"}
    body = [head, *({**code, "source": cell} for cell in cells)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": kernel, "cells": body})


def _file(title: str, parts: Sequence[str], command: str, note: str = "") -> str:
    """A page that opens anywhere, without a network. parts: HTML; the rest plain text."""
    repeat = f"{text.heading('Repeat it')}<pre>{escape(command)}</pre>"
    return text.page(title, [*parts, repeat, text.paragraphs(note) if note else ""])


def _charts(drawn: Sequence[tuple[str, Figure]]) -> list[str]:
    """Headed charts; the first brings the library along."""
    import plotly.io as pio  # no first page need wait for it

    return [
        text.heading(title)
        + pio.to_html(
            fig.on(LIGHT),
            include_plotlyjs=number == 0,
            full_html=False,
            config={"displaylogo": False},
            validate=False,
        )
        for number, (title, fig) in enumerate(drawn)
    ]
