"""What every chart and page looks like: colours that can be read and told apart."""

import itertools
import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core import style as palette
from dpmc_core.metrics import METRICS
from dpmc_core.model import Task
from dpmc_core.registry import list_private_mechanisms
from dpmc_lab.classroom import pictures
from dpmc_lab.lessons import LESSONS
from dpmc_lab.lessons.worksheets import render_class, render_lessons_page
from dpmc_lab.views import numbers
from dpmc_lab.views.data import Tail
from dpmc_lab.views.lines import CurveChart
from dpmc_lab.views.text import COLORS, CSS_PROPERTIES
from dpmc_lab.views.train import ErrorCdf
from pages.ui import charts, shell
from pages.ui.charts import compare as charts_compare
from pages.ui.charts import data as charts_data
from pages.ui.charts import lines as charts_lines
from pages.ui.charts import train as charts_train
from pages.ui.classroom import build_phone_page
from tests.page_helpers import make_placed_line, open_page

ROOT = Path(__file__).parents[2]
THEMES = (charts.LIGHT, charts.DARK)
ROUND, DASHED = {"circle", "hexagon", "pentagon"}, {"dash", "longdash", "8px,3px"}
READABLE = 4.5  # contrast of text, Web Content Accessibility Guidelines 2.2, criterion 1.4.3
CONFIG = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
# Contrast of each colour with the card, light and dark, as the design prescribes it.
CONTRAST = {
    "act": (6.2, 7.2),
    "risk": (6.4, 7.5),
    "usefulness": (5.6, 8.2),
    "noise": (2.3, 9.0),
    "noise-text": (5.9, 9.0),
    "text": (18.1, 13.8),
    "note": (6.3, 7.1),
    "baseline": (3.6, 3.9),
}
HEX = re.compile(r"(?<![&\w])#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})\b", re.IGNORECASE)
HOME = "dpmc_lab/views/look.toml"


def compute_brightness(color: str) -> float:
    channels = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    channels = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in channels]
    return float(np.dot((0.2126, 0.7152, 0.0722), channels))


def compute_contrast(first: str, second: str) -> float:
    dark, bright = sorted((compute_brightness(first), compute_brightness(second)))
    return (bright + 0.05) / (dark + 0.05)


def get_marker_and_dash(style: charts.Style) -> tuple[str, str]:
    """Return marker and dash; those that look alike from afar have one name."""
    marker = "round" if style.marker in ROUND else style.marker
    return marker, "dashed" if style.dash in DASHED else style.dash


@pytest.mark.parametrize("task", Task)
def test_methods_that_may_share_a_chart_differ_in_colour_or_in_marker_and_dash(task):
    styles = {id: charts.get_style(id) for id in list_private_mechanisms(task)}
    for (a, style), (b, other_style) in itertools.combinations(styles.items(), 2):
        if style.color == other_style.color:
            marks = zip(get_marker_and_dash(style), get_marker_and_dash(other_style), strict=True)
            assert all(left != right for left, right in marks), (a, b)
    # The first four, most of what Compare opens with, have four colours.
    assert len({styles[id].color for id in list_private_mechanisms(task)[:4]}) == 4


@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_accent_can_be_read_as_text(name):
    theme = CONFIG["theme"][name]
    surfaces = [theme["backgroundColor"], theme["secondaryBackgroundColor"]]
    for surface in (*surfaces, theme["sidebar"]["backgroundColor"]):
        assert compute_contrast(theme["primaryColor"], surface) >= READABLE
        assert compute_contrast(theme["linkColor"], surface) >= READABLE
    assert theme["primaryColor"] == charts.apply_theme(charts.ACCENT, THEMES[name == "dark"])


@pytest.mark.parametrize("name", ["light", "dark"])
def test_captions_can_be_read(name):
    """Streamlit writes them in 60 % of the colour of text, charts in theme.muted."""
    theme = CONFIG["theme"][name]
    for surface in (theme["backgroundColor"], theme["secondaryBackgroundColor"]):
        colors = [
            round(0.6 * int(theme["textColor"][k : k + 2], 16) + 0.4 * int(surface[k : k + 2], 16))
            for k in (1, 3, 5)
        ]
        assert compute_contrast("#{:02x}{:02x}{:02x}".format(*colors), surface) >= READABLE
    muted = charts.LIGHT.muted if name == "light" else charts.DARK.muted
    assert compute_contrast(muted, theme["backgroundColor"]) >= READABLE


@pytest.mark.parametrize("name", CONTRAST)
def test_a_colour_has_the_contrast_with_the_card_that_its_meaning_needs(name):
    for theme, wanted in enumerate(CONTRAST[name]):
        contrast = compute_contrast(COLORS[name][theme], COLORS["card"][theme])
        assert contrast == pytest.approx(wanted, abs=0.06)
    for theme in range(2):
        assert compute_contrast(COLORS["noise-edge"][theme], COLORS["card"][theme]) >= 4.3
        assert compute_contrast(COLORS["on-act"][theme], COLORS["act"][theme]) >= READABLE
        assert compute_contrast(COLORS["on-act"][theme], COLORS["act-strong"][theme]) >= READABLE


def test_charts_and_css_have_their_colours_from_one_table():
    for name, (light, dark) in COLORS.items():
        assert f"--{name}: {light};" in CSS_PROPERTIES
        assert f"--{name}: light-dark({light}, {dark});" in CSS_PROPERTIES
        assert charts.apply_theme(light, charts.DARK) == dark or name == "on-act"
    for theme, at in ((charts.LIGHT, 0), (charts.DARK, 1)):
        drawn = (theme.ink, theme.muted, theme.grid, theme.paper)
        assert drawn == tuple(COLORS[name][at] for name in ("text", "note", "line", "card"))
    assert charts.STYLE_SHEET["template"]["layout"]["font"]["family"] in CSS_PROPERTIES
    assert CSS_PROPERTIES in shell.STYLESHEET
    for page in (build_phone_page()[0], render_lessons_page(), render_class("45")):
        assert CSS_PROPERTIES.strip() in page
        assert "{{" not in page.partition("<body")[0]


def test_the_theme_of_streamlit_repeats_the_table():
    keys = {
        "primaryColor": "act",
        "linkColor": "act",
        "blueColor": "act",
        "redColor": "risk",
        "greenColor": "usefulness",
        "orangeColor": "noise-text",
        "grayColor": "note",
        "textColor": "text",
        "backgroundColor": "paper",
        "borderColor": "line",
        "secondaryBackgroundColor": "soft",
    }
    for at, theme in enumerate(("light", "dark")):
        for key, name in keys.items():
            assert CONFIG["theme"][theme][key] == COLORS[name][at], (theme, key)


def test_no_other_colour_is_typed_anywhere():
    kinds = {".py", ".css", ".js", ".html", ".toml"}
    for folder in ("pages", "dpmc_lab"):
        for path in (ROOT / folder).rglob("*"):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in kinds and name != HOME:
                found = HEX.findall(path.read_text("utf-8"))
                assert not found, (name, found)


def test_methods_stand_out_from_a_dark_surface_and_from_each_other():
    colors = {charts.get_style(id).color for id in registry.MECHANISMS}
    assert colors == {palette.BLUE, palette.VERMILION, palette.SKY, palette.PURPLE}
    assert charts.get_style("input-flip").color == palette.BLUE
    assert charts.get_style("private-effects").color == palette.VERMILION
    assert not colors & {color for pair in COLORS.values() for color in pair}
    dark_colors = {color: charts.apply_theme(color, charts.DARK) for color in colors}
    assert len(set(dark_colors.values())) == len(dark_colors)
    # They are lines and marks, never text.
    assert all(compute_contrast(color, charts.DARK.paper) >= 3 for color in dark_colors.values())
    fig = charts.create_figure()
    blue = charts.get_style("input-flip").color
    fig.add_trace("scatter", x=[1], y=[1], line={"color": blue}, marker={"line": {"color": blue}})
    (trace,) = fig.to_plotly(charts.DARK)["data"]
    assert trace["line"]["color"] == trace["marker"]["line"]["color"] == dark_colors[blue] != blue
    faint = charts.with_opacity(charts.MUTED, 0.3)
    assert charts.apply_theme(faint, charts.DARK) == charts.with_opacity(charts.DARK.muted, 0.3)
    assert charts.apply_theme(blue, charts.LIGHT) == blue


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_cells_without_a_value_are_grey_and_apart_from_the_surface(theme):
    assert compute_contrast(theme.missing, theme.paper) > 1.8
    red, green, blue = (int(theme.missing[k : k + 2], 16) for k in (1, 3, 5))
    assert max(red, green, blue) - min(red, green, blue) < 20


def list_name_boxes(fig):
    """The names in the column at the right: (top, bottom) in pixels below the frame's upper edge,
    and their lines."""
    margin = fig.layout["margin"]
    high = fig.layout["height"] - margin["t"] - margin["b"]
    rectangles = []
    for note in fig.layout["annotations"]:
        if note.get("xref") == "paper" and note["xanchor"] == "left":
            lines = note["text"].split("<br>")
            middle, half = (1 - note["y"]) * high, 8 * len(lines)
            rectangles.append((middle - half, middle + half, lines))
    return sorted(rectangles), high


def check_names(fig):
    """Check that names are outside the frame, apart from each other, in lines that have room."""
    rectangles, high = list_name_boxes(fig)
    assert rectangles[0][0] >= 0
    assert rectangles[-1][1] <= high
    assert all(lower[0] >= upper[1] for upper, lower in itertools.pairwise(rectangles))
    widest = max(len(line) for *_, lines in rectangles for line in lines)
    assert 5.7 * widest + 13 < fig.layout["margin"]["r"]
    assert fig.layout["template"]["layout"]["showlegend"] is False


@pytest.mark.parametrize("task", Task)
def test_every_method_of_a_task_at_once_has_its_name_beside_the_frame(task):
    """Some ending alike, some waiting: nothing is covered, and the picture grows where it must."""
    ids = list_private_mechanisms(task)
    plotted = [
        make_placed_line(id, [[0.3, 0.31], [0.7, 0.7 + k / 500]]) for k, id in enumerate(ids[:-2])
    ]
    check_names(charts_compare.plot_comparison(CurveChart(METRICS["accuracy"]), plotted, (0.1, 10)))
    fig = charts_compare.plot_comparison(
        CurveChart(METRICS["accuracy"]), plotted, (0.1, 10), waiting=ids[-2:]
    )
    check_names(fig)
    assert len(list_name_boxes(fig)[0]) == len(ids)


def find_answers(target, *plotted):
    return [numbers.find_required_epsilons(line, [target])[0] for line in plotted]


def test_all_pictures_of_a_comparison_have_one_axis():
    plotted = [make_placed_line(id, [[0.5, 0.5], [0.9, 0.9]]) for id in ("input-flip", "output")]
    ends = (0.1, 10.0)
    across = charts_compare.get_epsilon_range(ends, plotted)
    figures = (
        charts_compare.plot_comparison(CurveChart(METRICS["accuracy"]), plotted, ends),
        charts_compare.plot_epsilon_needed(find_answers(0.7, *plotted), across),
        charts_compare.plot_differences(CurveChart(METRICS["accuracy"]), plotted, ends),
    )
    first_axis, *other_axes = ({**fig.layout["xaxis"]} for fig in figures)
    assert all(axis == first_axis for axis in other_axes)
    margins = {(fig.layout["margin"]["l"], fig.layout["margin"]["r"]) for fig in figures}
    assert len(margins) == 1


@pytest.mark.parametrize("page", ["noise", "guarantees"])
def test_a_picture_is_saved_by_download_alone(page):
    """No chart has a tool bar of its own, and what Download offers opens without a network."""
    app = open_page(page, data="one-bit-lab")
    for chart in app.get("plotly_chart"):
        assert json.loads(chart.proto.config)["displayModeBar"] is False
    assert "Picture (HTML)" in [button.proto.label for button in app.get("download_button")]


def test_no_chart_has_a_legend():
    assert charts.STYLE_SHEET["template"]["layout"]["showlegend"] is False
    for path in Path(charts.__file__).parent.iterdir():
        if path.suffix in (".py", ".toml"):
            assert "showlegend=True" not in path.read_text("utf-8")
            assert "showlegend = true" not in path.read_text("utf-8")


def test_lines_that_share_a_chart_have_their_names_in_it():
    cdf = ErrorCdf(np.linspace(0, 1, 11), np.linspace(0, 1, 11))
    tail = Tail(np.arange(1, 10), np.arange(10, 1, -1))
    for fig, names in (
        (charts_train.plot_error_cdfs(cdf, cdf, "A", "error"), ["no privacy", "A"]),
        (charts_train.plot_error_cdfs(cdf, None, "A", "error"), ["A"]),
        (charts_data.plot_long_tails(tail, tail), ["users", "items"]),
    ):
        assert [note["text"] for note in fig.layout["annotations"]] == names
        assert len(fig.data) == len(names)


@pytest.mark.parametrize("name", ["accuracy", "rmse"])
def test_up_is_better_on_the_axis_of_a_metric(name):
    metric = METRICS[name]
    line = make_placed_line("input-flip", [[0.5, 0.5], [0.9, 0.9]]).line
    worse, better = charts_lines.choose_y_range(CurveChart(metric), [line], [])
    assert metric.sign * (better - worse) > 0
    assert ("up is better" in metric.axis_title) == metric.lower_is_better
    ticks = charts_lines.choose_ticks((worse, better), is_share=metric.is_share)
    assert 2 <= len(ticks) <= 5
    for value, text in ticks:
        assert min(worse, better) <= value <= max(worse, better)
        number = float(text.removesuffix(" %").replace("\u2212", "-"))
        assert number == pytest.approx(100 * value if metric.is_share else value)


def test_the_help_of_a_heading_is_visible():
    """Streamlit puts it beside the link to the heading, which alone is hidden."""
    assert "[data-testid=stHeaderActionElements] > a { display: none; }" in shell.STYLESHEET
    assert shell.STYLESHEET.count("stHeaderActionElements") == 1


def test_every_illustration_is_drawn_of_the_parts_that_the_file_defines():
    table = pictures._ILLUSTRATIONS
    for name in table["pictures"]:
        drawing = pictures.render_illustration(name)
        used = set(re.findall(r'href="#(\w+)"', drawing))
        assert used <= set(table["parts"]), name
        classes = set(" ".join(re.findall(r'class="([^"]*)"', drawing)).split())
        styled = set(re.findall(r"\.([a-z]+)\b", pictures.STYLE_SHEET))
        assert classes <= styled, name
    assert {*LESSONS} <= {*table["pictures"]}
