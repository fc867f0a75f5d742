"""Render curves as files: a picture, numbers, a citation, and pages without a network."""

import csv
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from dpmc_core import registry
from dpmc_lab import citation
from dpmc_lab.store import guard_formula
from dpmc_lab.views import cards, lines, text
from dpmc_lab.views.lines import CurveChart, EpsilonUnit
from dpmc_lab.views.text import format_split
from pages.ui.charts import LIGHT, Figure


class Exhibit(NamedTuple):
    """A chart of a run with its text.

    Attributes:
        key: unique on the page.
        title: its title.
        fig: the chart; None where there is nothing to draw, which the caption explains.
        caption: plain text.
        alt: the text alternative.
        table: its numbers.
    """

    key: str
    title: str
    fig: Figure | None
    caption: str
    alt: str = ""
    table: Mapping[str, Sequence[Any]] | None = None


# --- what a curve is taken along as -----------------------------------------------------------

SAVE_HINT = "The camera above the chart saves it as a picture (SVG)."


def render_picture_page(chart: CurveChart, command: str) -> str:
    """Render curves as an HTML page, with what their methods promise and how they were measured."""
    from pages.ui.charts import compare  # a page that shows no such chart need not load it

    first = chart.lines[0]
    metric = chart.metric
    placed_lines, baseline_lines = (
        [lines.place_on_axis(curve_line, EpsilonUnit.PAPER) for curve_line in line_group]
        for line_group in (chart.lines, chart.private_baselines)
    )
    epsilons = [float(x) for curve_line in placed_lines for x in curve_line.x]
    ends = min(epsilons), max(epsilons)
    title = f"{first.info.title}: {metric.title} against epsilon"
    promises = {
        registry.get_mechanism(curve_line.mechanism).name: cards.describe_protection(
            registry.create(curve_line.mechanism, epsilon=1.0).guarantee(curve_line.info.public)
        )
        for curve_line in chart.lines
    }
    sentences = [f"{name}: {promise}" for name, promise in promises.items()]
    measured = f"Tested on {format_split(first.info.split)}; {lines.describe_band(first.band)}."
    sentences += [f"{measured} Filled circle: proved. Open circle: claimed only.", SAVE_HINT]
    fig = compare.widen_margin(
        compare.plot_comparison(chart, placed_lines, ends, baselines=baseline_lines)
    )
    return render_report_page(
        title, [*render_charts([("", fig)]), text.render_paragraphs(*sentences)], command
    )


def render_figure_page(title: str, fig: Figure, command: str) -> str:
    """Render a chart as an HTML page, from which it can be saved as a picture."""
    return render_report_page(
        title, [*render_charts([("", fig)]), text.render_paragraphs(SAVE_HINT)], command
    )


def format_csv(table: Mapping[str, Sequence[object]]) -> str:
    """Return a table as a CSV file whose formulas no spreadsheet runs."""
    stream = io.StringIO()
    rows = (tuple(table), *zip(*table.values(), strict=True))
    csv.writer(stream, lineterminator="\n").writerows(map(guard_formula, row) for row in rows)
    return stream.getvalue()


def format_citation(chart: CurveChart, command: str) -> str:
    """Return citations of a curve: the program with its command, and the papers of its methods."""
    methods = {line.mechanism for line in chart.lines}
    names = ", ".join(line.label for line in chart.lines)
    title = f"DPMC Lab: {names}, {chart.metric.label} against epsilon"
    papers = (paper.bibtex for paper in citation.find_papers_running(methods))
    return "\n\n".join([citation.format_software_entry(title, note=command), *papers])


def render_report_page(title: str, sections: Sequence[str], command: str, note: str = "") -> str:
    """Render a page that opens anywhere, without a network.

    Args:
        title: plain text.
        sections: HTML.
        command: the command that repeats the result.
        note: plain text at the end.
    """
    repeat = f"{text.render_heading('Repeat it')}<pre>{escape(command)}</pre>" if command else ""
    return text.render_page(
        title, [*sections, repeat, text.render_paragraphs(note) if note else ""]
    )


def render_charts(titled_figures: Sequence[tuple[str, Figure]]) -> list[str]:
    """Render titled charts, the first of which includes the library."""
    import plotly.io as pio  # no first page need wait for it

    return [
        text.render_heading(title)
        + pio.to_html(
            fig.to_plotly(LIGHT),
            include_plotlyjs=number == 0,
            full_html=False,
            config={"displaylogo": False, "toImageButtonOptions": {"format": "svg"}},
            validate=False,
        )
        for number, (title, fig) in enumerate(titled_figures)
    ]
