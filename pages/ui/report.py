"""A standalone HTML report of one run: opens anywhere, without a network."""

from __future__ import annotations

import html as escape
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio

from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.metrics import METRICS
from dpmc_core.model import Task
from dpmc_core.problem import split_words
from dpmc_core.views import cards, run_card, training
from pages.ui import blocks, charts_ranking, charts_train
from pages.ui.charts import LIGHT

STYLE = """
body { font: 16px/1.5 "Source Sans 3", "Source Sans Pro", system-ui, sans-serif; color: #1c1e21;
  background: #fdfdfc; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .3rem .8rem; text-align: left;
  border-bottom: 1px solid #dcdcd6; } pre { background: #f1f1ee; padding: 1rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.small { color: #6b7076; font-size: .9rem; }
"""


def html(run: Any) -> str:
    """The page as one file, charts and their library included."""
    found = run.result
    name, task = found.mechanism.name, found.mechanism.task
    roles = {found.mechanism.twin: "no privacy", found.mechanism.floor: "guessing"}
    rows = {name: found.metrics} | {roles.get(k, k): v for k, v in found.baselines.items()}
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
            for k, v in rows.items()
        ),
        "</table><h2>Guarantee</h2>",
        f"<p>{text(cards.protects(guarantee))} {text(cards.certainty(own.epsilon, own.delta))}</p>",
        f"<p>Claimed epsilon"
        f" {cards.epsilon_text(guarantee.claimed.epsilon if guarantee.claimed else None)},"
        f" certified {cards.epsilon_text(own.epsilon)}. "
        f" {text(blocks.sentence(own.reason))}</p>",
        *(f"<p class='small'>Mind: {text(c)}.</p>" for c in guarantee.caveats),
    ]
    for number, (title, fig) in enumerate(_figures(run, name, task)):
        chart = pio.to_html(
            fig, include_plotlyjs=number == 0, full_html=False, config={"displaylogo": False}
        )
        parts += [f"<h2>{text(title)}</h2>", chart]
    command = run_card.command(run_card.Repeat(found, run.data, run.split, run.fresh, run.reading))
    parts += ["<h2>Repeat it</h2>", f"<pre>{text(command)}</pre>"]
    if not run.fresh:
        parts.append(f"<p class='small'>{text(run_card.SEED_NOTE)}</p>")
    return "\n".join([*parts, "</html>"])


def _figures(run: Any, name: str, task: Task) -> list[tuple[str, go.Figure]]:
    if task is Task.RANKING:  # scores are no ratings: there is no error to draw
        methods = {name: run.result.metrics} | dict(run.result.baselines)
        bars = charts_ranking.run_bars(run.result.mechanism.id, methods, LIGHT)
        return [("Held-out items among the first ten", bars)]
    found, test, binary = run.result, run.result.problem.test, task is Task.BINARY
    id, clear, link = found.mechanism.id, run.clear, training.link_of(found.mechanism)
    mine = training.cdf(task, found.model, test, link)
    theirs = training.cdf(task, clear, test, link) if clear else None
    axis = "error of the chance of +1" if binary else "error (rating points)"
    honest = training.calibration(task, found.model, test, link)
    other = training.calibration(task, clear, test, link) if clear else None
    figures = [
        ("Errors", charts_train.errors(id, mine, theirs, name, axis, LIGHT)),
        ("Calibration", charts_train.calibration(id, honest, other, name, binary, LIGHT)),
    ]
    values = training.spectrum(found.model)
    if values is not None:
        spectrum = training.spectrum(clear) if clear else None
        figures.append(
            ("Singular values", charts_train.spectrum(id, values, spectrum, name, LIGHT))
        )
    return figures
