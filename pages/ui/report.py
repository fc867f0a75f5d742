"""A finished run in pictures, and as one HTML file that opens anywhere, without a network."""

from __future__ import annotations

import html as escape
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go
import plotly.io as pio

from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.metrics import METRICS
from dpmc_core.model import Task
from dpmc_core.problem import split_words
from dpmc_core.views import cards, ranking, run_card, training
from pages.ui import blocks
from pages.ui.charts import LIGHT, Theme
from pages.ui.charts import ranking as charts_ranking
from pages.ui.charts import train as charts_train
from pages.ui.runs import Run

STYLE = """
body { font: 16px/1.5 "Source Sans 3", "Source Sans Pro", system-ui, sans-serif; color: #1c1e21;
  background: #fdfdfc; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .3rem .8rem; text-align: left;
  border-bottom: 1px solid #dcdcd6; } pre { background: #f1f1ee; padding: 1rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.small { color: #6b7076; font-size: .9rem; }
"""


class Exhibit(NamedTuple):
    """A chart of a run with its words; fig is None where there is nothing to draw: see caption.

    title: above it in the report; question: above it on the page.
    """

    key: str
    title: str
    question: str
    fig: go.Figure | None
    caption: str
    alt: str = ""
    table: Mapping[str, Sequence[Any]] | None = None


def pictures(run: Run, theme: Theme) -> list[Exhibit]:
    """What a model learned, on held-out ratings."""
    found, id, name = run.result, run.result.mechanism.id, run.result.mechanism.name
    task, test, link = found.mechanism.task, found.problem.test, training.link_of(found.mechanism)
    if task is Task.RANKING:  # scores are no ratings: there is no error to draw
        bars = ranking.bars(run.methods)
        labels = next(iter(bars.values()))
        return [
            Exhibit(
                "ranking",
                "Held-out items among the first ten",
                "How often is the next item among the first ten?",
                charts_ranking.run_bars(id, run.methods, theme),
                "HR@10: the held-out item is among the first ten; NDCG@10 counts how far up. Among"
                " 99 items drawn at random it is a far easier race than among all unseen items.",
                ranking.bars_words(run.methods),
                {"method": list(bars)} | {m.panel: [b[m] for b in bars.values()] for m in labels},
            )
        ]
    binary = task is Task.BINARY
    mine = training.cdf(task, found.model, test, link)
    theirs = training.cdf(task, run.clear, test, link) if run.clear else None
    axis = "error of the chance of +1" if binary else "error (rating points)"
    honest = training.calibration(task, found.model, test, link)
    other = training.calibration(task, run.clear, test, link) if run.clear else None
    values = training.spectrum(found.model)
    question = "How much structure is left?"
    if values is None:
        spectrum = Exhibit(
            "spectrum",
            "",
            question,
            None,
            "This model is a whole noisy matrix without factors: its singular values would be those"
            " of the noise.",
        )
    else:
        clear = training.spectrum(run.clear) if run.clear else None
        spectrum = Exhibit(
            "spectrum",
            "Singular values",
            question,
            charts_train.spectrum(id, values, clear, name, theme),
            "Large values stand for strong patterns, small ones for detail or noise.",
            training.spectrum_words(values),
            {"number": range(1, len(values) + 1), "singular value": values.round(3)},
        )
    return [
        Exhibit(
            "errors",
            "Errors",
            "How large are its errors?",
            charts_train.errors(id, mine, theirs, name, axis, theme),
            "Further up and left is better. Held-out ratings, not private.",
            training.cdf_words(mine, theirs),
            {"error up to": mine.error.round(3), "share": mine.share.round(4)},
        ),
        Exhibit(
            "calibration",
            "Calibration",
            "Does it mean what it says?",
            charts_train.calibration(id, honest, other, name, binary, theme),
            "On the dotted line it is honest. Held-out ratings, not private.",
            training.calibration_words(honest),
            {
                "predicted": honest.predicted.round(3),
                "true": honest.observed.round(3),
                "ratings": honest.size,
            },
        ),
        spectrum,
    ]


def html(run: Run) -> str:
    """The page as one file, charts and their library included."""
    found, name = run.result, run.result.mechanism.name
    guarantee = found.guarantee
    own = guarantee.certified()
    text = escape.escape
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{text(name)} on {text(run.title)}</title><style>{STYLE}</style>",
        f"<h1>{text(name)} on {text(run.title)}</h1>",
        f"<p>Tested on {text(split_words(found.problem.split))}."
        f" <span class='small'>{text(EVALUATION_ONLY)}."
        "</span></p>",
        "<table><tr><th>method</th>",
        *(f"<th>{text(m)}</th>" for m in found.metrics),
        "</tr>",
        *(
            f"<tr><td>{text(k)}</td>"
            + "".join(f"<td>{METRICS[m].text(v[m])}</td>" for m in found.metrics)
            + "</tr>"
            for k, v in run.methods.items()
        ),
        "</table><h2>Guarantee</h2>",
        f"<p>{text(cards.protects(guarantee))} {text(cards.certainty(own.epsilon, own.delta))}</p>",
        f"<p>Claimed epsilon"
        f" {cards.epsilon_text(guarantee.claimed.epsilon if guarantee.claimed else None)},"
        f" certified {cards.epsilon_text(own.epsilon)}. "
        f" {text(blocks.sentence(own.reason))}</p>",
        *(f"<p class='small'>Mind: {text(c)}.</p>" for c in guarantee.caveats),
    ]
    drawn = [one for one in pictures(run, LIGHT) if one.fig is not None]
    for number, one in enumerate(drawn):
        chart = pio.to_html(
            one.fig, include_plotlyjs=number == 0, full_html=False, config={"displaylogo": False}
        )
        parts += [f"<h2>{text(one.title)}</h2>", chart]
    command = run_card.command(run_card.Repeat(found, run.data, run.split, run.fresh, run.reading))
    parts += ["<h2>Repeat it</h2>", f"<pre>{text(command)}</pre>"]
    if not run.fresh:
        parts.append(f"<p class='small'>{text(run_card.SEED_NOTE)}</p>")
    return "\n".join([*parts, "</html>"])
