"""The notebooks of docs/: their cells run, and what is stored is what they print."""

import csv
import dataclasses
import io
import re

import pytest

from dpmc_lab.cli import build_parser
from dpmc_lab.views import lines
from pages.ui import report
from tests import notebooks
from tests.notebooks import ROOT

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
# A trained model may take another path where another build of BLAS rounds otherwise: per cents and
# bars may then differ by one and by three, smaller numbers by a hundredth of themselves.
TRAINED = ".metrics"


@pytest.fixture(scope="module")
def book():
    return notebooks.read_notebook(ROOT / "docs" / "first-steps.ipynb")


def split_output(text):
    """The words with a place for each number and each bar, and these as numbers."""
    bars = [len(bar) for bar in re.findall(r"#+", text)]
    remainder = re.sub(r" *#+", "", text)
    remainder = "\n".join(line.rstrip() for line in remainder.splitlines())
    numbers = [float(match.replace(",", "")) for match in NUMBER.findall(remainder)]
    return re.sub(r" +", " ", NUMBER.sub("0", remainder)), numbers, sum(bars)


@pytest.mark.slow
def test_its_cells_print_what_is_stored(book):
    printed = notebooks.run_notebook(book)
    for cell, text in zip(notebooks.list_code_cells(book), printed, strict=True):
        assert cell["outputs"] or not text
        if TRAINED not in "".join(cell["source"]):
            assert text == notebooks.read_stored_output(cell)
            continue
        text_frame, numbers, bars = split_output(text)
        kept_words, kept_numbers, kept_bars = split_output(notebooks.read_stored_output(cell))
        assert text_frame == kept_words
        for number, stored_number in zip(numbers, kept_numbers, strict=True):
            assert abs(number - stored_number) <= (
                1.01 if stored_number >= 5 else 0.01 * abs(stored_number)
            ), text
        assert abs(bars - kept_bars) <= 3


def test_it_is_a_notebook_that_says_how_it_was_run(book):
    assert book["nbformat"] == 4
    ids = [cell["id"] for cell in book["cells"]]
    assert len(set(ids)) == len(ids)
    counts = [cell["execution_count"] for cell in notebooks.list_code_cells(book)]
    assert counts == list(range(1, len(counts) + 1))
    outputs = [out for cell in notebooks.list_code_cells(book) for out in cell["outputs"]]
    assert {out["output_type"] for out in outputs} == {"stream"}


def test_its_links_and_commands_lead_somewhere(book):
    text = "".join("".join(cell["source"]) for cell in book["cells"])
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", text)
    commands = re.findall(r"`dpmc (\w[^`]+)`", text)
    assert links
    assert commands
    assert all((ROOT / "docs" / link).is_file() for link in links)
    for command in filter(lambda command: " " in command, commands):
        assert callable(build_parser().parse_args(command.split()).command)


def test_a_title_is_text_in_a_picture_too():
    (chart, *_) = lines.load_shipped_charts("jokes", "output")
    line = chart.lines[0]
    hostile = "<script>&\x00\u202e\"'"
    renamed = dataclasses.replace(line, info=line.info._replace(title=hostile))
    page = report.render_picture_page(chart._replace(lines=(renamed,)), "dpmc sweep")
    assert "<script>&" not in page


def test_a_curve_is_taken_away_as_a_picture_and_numbers_and_is_cited_with_its_papers():
    chart = lines.load_shipped_charts("movie-night", "input-flip")[0]
    placed = [lines.place_on_axis(line, lines.EpsilonUnit.PAPER) for line in chart.lines]
    table = lines.tabulate_chart(placed)
    head, *rows = csv.reader(io.StringIO(report.format_csv({**table, "more": ["=1+1"] * 28})))
    assert head == [*table, "more"]
    assert len(rows) == len(table["mean"]) == 28
    assert [row[-1] for row in rows] == ["'=1+1"] * 28
    numbers = lines.tabulate_chart(placed, numbers_only=True)
    head, *rows = csv.reader(io.StringIO(report.format_csv(numbers)))
    positions = [head.index(f"{name} (accuracy, share)") for name in ("mean", "from", "to")]
    means = [mean for line in chart.lines for mean in line.band.mean]
    for row, mean, mean_text in zip(rows, means, table["mean"], strict=True):
        low, high = float(row[positions[1]]), float(row[positions[2]])
        assert low <= float(row[positions[0]]) <= high <= 1
        assert float(row[positions[0]]) == pytest.approx(mean, rel=1e-5)
        assert mean_text == f"{100 * mean:.1f} %"
    (stars, *_) = lines.load_shipped_charts("movie-night", "private-effects")[0].lines
    placed = lines.place_on_axis(stars, lines.EpsilonUnit.PAPER)
    assert "mean (RMSE, stars)" in lines.tabulate_chart([placed], numbers_only=True)
    software_entry, paper = report.format_citation(chart, "dpmc sweep").split("\n\n")
    assert "note = {dpmc sweep}" in software_entry
    assert paper.startswith("@misc{lwhm22,")
