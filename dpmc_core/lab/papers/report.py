"""All papers as one static page: it needs no server, no script and nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from dpmc_core.errors import sentence
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.lab.papers import picture, verdicts, words
from dpmc_core.lab.papers.verdicts import Accuracy, Privacy
from dpmc_core.lab.papers.words import Look
from dpmc_core.paths import version

_COLORS = {
    Accuracy.AGREES: "good",
    Accuracy.TREND: "fair",
    Accuracy.DIFFERS: "off",
    Privacy.PROVED: "good",
    Privacy.NARROWER: "fair",
    Privacy.UNPROVED: "off",
    Privacy.COUNTEREXAMPLE: "bad",
}
_LONG = 24  # letters, from which on a cell is of words that are wrapped
_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --muted: #5d646d; --grid: #dcdcd6;
  --paper: #fdfdfc; --accent: #4c5fd5; --good: #1a7f37; --fair: #0b63c5; --off: #96500a;
  --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e9ec; --muted: #9aa0a8; --grid: #2c3138;
  --paper: #14161a; --accent: #9aa6f2; --good: #4ac26b; --fair: #6cb0ff; --off: #e3a04a;
  --bad: #ff8a80; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.25; } h2 { margin-top: 3rem; } h3 { margin: 2.5rem 0 .3rem; }
a { color: var(--accent); } .small { color: var(--muted); font-size: .9rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .875rem; }
td, th { padding: .25rem .8rem .25rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--grid); }
.badge { display: inline-block; border: 1px solid currentColor; border-radius: 1rem;
  padding: 0 .6rem; margin-right: .4rem; font-size: .875rem; }
.good { color: var(--good); } .fair { color: var(--fair); } .off { color: var(--off); }
.bad { color: var(--bad); } .badge { margin-bottom: .3rem; }
td.words { min-width: 10rem; } td.short { white-space: nowrap; }
pre { background: color-mix(in srgb, var(--ink) 7%, transparent); padding: .6rem .8rem;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: .875rem; }
.chart { display: block; width: 100%; max-width: 44rem; height: auto; margin-top: .5rem; }
.chart text { fill: var(--ink); font-size: 13px; } .chart .axis { stroke: var(--grid); }
@media (max-width: 600px) { .chart text { font-size: 19px; } }
summary { cursor: pointer; } details { margin: .4rem 0; } p { margin: .5rem 0; }
"""


def html(found: Sequence[Look]) -> str:
    """The page of these experiments."""
    keys = list(dict.fromkeys(one.paper.key for one in found))
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Five papers, checked</title><style>{_STYLE}</style>",
        "<h1>Five papers: what is printed beside what is measured</h1>",
        _paragraph(words.count(list(found))),
        _paragraph(
            f"Made by dpmc papers --report, version {version()}, from stored results. Lines: ours,"
            " the mean over seeds in its 95 % band; hollow: printed, with the error of reading it."
            f" {sentence(EVALUATION_ONLY)}",
            "small",
        ),
        _meanings(found),
        _table(words.overview(list(found)), links=[one.experiment.id for one in found]),
    ]
    for key in keys:
        mine = [one for one in found if one.paper.key == key]
        paper = mine[0].paper
        parts.append(f"<h2>{escape(key)}: {escape(paper.title)}</h2>")
        parts.append(_paragraph(f"{', '.join(paper.authors)}. {paper.venue}, {paper.year}."))
        if paper.unjudged:
            parts.append(_paragraph(sentence(paper.unjudged)))
        parts += [_experiment(one) for one in mine]
        if paper.theory:
            parts.append(f"<h3>{escape(key)}: theorems beside measurements</h3>")
            parts.append(_table(words.theory_table(paper)))
            parts += [_paragraph(text, "small") for text in words.theory_notes(paper)]
        parts.append(f"<pre>{escape(paper.bibtex)}</pre>")
    return "\n".join([*parts, "</html>\n"])


def _experiment(found: Look) -> str:
    one = found.experiment
    badges = _badge("accuracy", found.judged.verdict)
    if found.worst is not None:
        badges += _badge("privacy", found.worst.verdict)
    name = f"{found.paper.key}, {one.place}: {one.title}"
    columns = words.numbers(found)
    numbers = _table(columns) if columns else ""
    parts = [
        f"<h3 id='{escape(one.id)}'>{escape(name)}</h3>",
        f"<p>{badges}</p>",
        _paragraph(found.judged.reason),
        numbers if one.x.names else picture.svg(found),
    ]
    said = words.statements(found)
    if said["the paper says"]:
        parts.append(_table(said))
    parts += [_fact(*fact) for fact in words.facts(found) if fact[0] not in _unsaid(found)]
    if text := words.command(found):
        parts.append(f"<pre>{escape(text)}</pre>")
    if numbers and not one.x.names:
        parts.append(f"<details><summary>Numbers</summary>{numbers}</details>")
    kept = words.promises_table(found)
    if kept["method"]:
        parts.append(f"<details><summary>Promises</summary>{_table(kept)}</details>")
    return "\n".join(part for part in parts if part)


def _meanings(found: Sequence[Look]) -> str:
    said = verdicts.meanings(one.judged.verdict for one in found)
    rows = "".join(f"<li>{escape(text)}</li>" for text in said)
    return (
        f"<details><summary>What the verdicts on accuracy mean</summary><ul>{rows}</ul></details>"
    )


def _unsaid(found: Look) -> set[str]:
    """Facts with a place of their own: what we see is in the picture, where there is one."""
    return {"command", "we see"} if picture.drawn(found) else {"command"}


def _fact(name: str, text: str) -> str:
    label = words.TOLD.get(name, name.capitalize())
    return f"<p class='small'><b>{escape(label)}</b>: {escape(text)}</p>"


def _badge(what: str, verdict: Accuracy | Privacy) -> str:
    color = _COLORS.get(verdict, "small")
    return f"<span class='badge {color}'>{what}: {escape(verdict.value)}</span>"


def _paragraph(text: str, kind: str = "") -> str:
    return f"<p{f' class={kind!r}' if kind else ''}>{escape(text)}</p>" if text else ""


def _table(columns: Mapping[str, Sequence[str]], links: Sequence[str] = ()) -> str:
    """links: the id of the place that `place` of each row leads to."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    wide = [max(map(len, texts), default=0) > _LONG for texts in columns.values()]
    rows = []
    for k, row in enumerate(zip(*columns.values(), strict=True)):
        cells = []
        for name, text, long in zip(columns, row, wide, strict=True):
            shown = escape(text)
            if links and name == "place":
                shown = f"<a href='#{escape(links[k])}'>{shown}</a>"
            cells.append(f"<td class='{'words' if long else 'short'}'>{shown}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<div class='scroll'><table><tr>{head}</tr>{''.join(rows)}</table></div>"
