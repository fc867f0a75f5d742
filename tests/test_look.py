"""What every chart and page looks like: colours that can be read and told apart."""

import itertools
import math
import tomllib
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import streamlit as st

from dpmc_core import registry
from dpmc_core.metrics import METRICS
from dpmc_core.model import Task
from dpmc_core.registry import noisy
from dpmc_core.sweep import Grid
from dpmc_core.views import noise
from dpmc_core.views.comparison import limits
from dpmc_core.views.lines import Picture, Reference
from dpmc_core.views.noise import BeforeAfter
from pages.ui import blocks, charts, report
from pages.ui.charts import compare as charts_compare
from pages.ui.charts import noise as charts_noise
from tests.page_helpers import placed_line

THEMES = (charts.LIGHT, charts.DARK)
ROUND, DASHED = {"circle", "hexagon", "pentagon"}, {"dash", "longdash", "8px,3px"}
READABLE = 4.5  # contrast of text, Web Content Accessibility Guidelines 2.2, criterion 1.4.3
CONFIG = tomllib.loads((Path(__file__).parents[1] / ".streamlit" / "config.toml").read_text())


def brightness(color: str) -> float:
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot((0.2126, 0.7152, 0.0722), parts))


def contrast(one: str, other: str) -> float:
    dark, bright = sorted((brightness(one), brightness(other)))
    return (bright + 0.05) / (dark + 0.05)


def kinds(style: charts.Style) -> tuple[str, str]:
    """Marker and dash, with those that look alike from afar under one name."""
    marker = "round" if style.marker in ROUND else style.marker
    return marker, "dashed" if style.dash in DASHED else style.dash


@pytest.mark.parametrize("task", Task)
def test_methods_that_may_share_a_chart_differ_in_colour_or_in_marker_and_dash(task):
    looks = {id: charts.style(id) for id in noisy(task)}
    for (a, one), (b, other) in itertools.combinations(looks.items(), 2):
        if one.color == other.color:
            marks = zip(kinds(one), kinds(other), strict=True)
            assert all(mine != theirs for mine, theirs in marks), (a, b)
    first = [looks[id].color for id in noisy(task)[:6]]  # what Compare opens with
    assert len(set(first)) == len(first)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_accent_can_be_read_as_text(name):
    theme = CONFIG["theme"][name]
    surfaces = [theme["backgroundColor"], theme["secondaryBackgroundColor"]]
    for surface in (*surfaces, theme["sidebar"]["backgroundColor"]):
        assert contrast(theme["primaryColor"], surface) >= READABLE
        assert contrast(theme["linkColor"], surface) >= READABLE
    assert theme["primaryColor"] == charts.shaded(charts.ACCENT, THEMES[name == "dark"])


@pytest.mark.parametrize("name", ["light", "dark"])
def test_captions_can_be_read(name):
    """Streamlit writes them in 60 % of the colour of text, charts in theme.muted."""
    theme = CONFIG["theme"][name]
    for surface in (theme["backgroundColor"], theme["secondaryBackgroundColor"]):
        parts = [
            round(0.6 * int(theme["textColor"][k : k + 2], 16) + 0.4 * int(surface[k : k + 2], 16))
            for k in (1, 3, 5)
        ]
        assert contrast("#{:02x}{:02x}{:02x}".format(*parts), surface) >= READABLE
    muted = charts.LIGHT.muted if name == "light" else charts.DARK.muted
    assert contrast(muted, theme["backgroundColor"]) >= READABLE


def test_methods_stand_out_from_a_dark_surface_and_from_each_other():
    looks = {look.color: charts.shaded(look.color, charts.DARK) for look in charts.STYLES.values()}
    assert len(set(looks.values())) == len(looks)
    assert all(contrast(color, charts.DARK.paper) >= READABLE for color in looks.values())
    fig = charts.figure(charts.DARK)
    blue = charts.style("objective").color
    fig.draw("scatter", x=[1], y=[1], line={"color": blue}, marker={"line": {"color": blue}})
    drawn = fig.data[0]["line"]["color"]
    assert drawn == fig.data[0]["marker"]["line"]["color"] == looks[blue] != blue
    assert charts.shaded(blue, charts.LIGHT) == blue


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_cells_without_a_value_are_grey_and_apart_from_the_surface(theme):
    assert contrast(theme.missing, theme.paper) > 1.8
    red, green, blue = (int(theme.missing[k : k + 2], 16) for k in (1, 3, 5))
    assert max(red, green, blue) - min(red, green, blue) < 20


def level(mechanism: str, mean: float) -> Reference:
    name = registry.get(mechanism).name
    return Reference(mechanism, mechanism, name, METRICS["rmse"], np.array([mean]))


def test_names_stand_apart_outside_their_lines_and_papers_twins_are_named_in_the_legend():
    twins = [level(id, 0.9) for id in ("reference-ratings", "pmf", "svd")]
    floors = [level("user-mean", 1.399), level("global-mean", 1.4)]
    picture = Picture(METRICS["rmse"], (), tuple(floors), tuple(twins))
    fig = charts_compare.compare(picture, [], (0.1, 10), waiting=["dpmf"])
    names = sorted(fig.layout["annotations"], key=lambda note: note["y"])
    low, high = fig.layout["yaxis"]["range"]
    gaps = np.diff([note["y"] for note in names])
    assert (gaps > 0.055 * (high - low)).all()
    assert low <= names[0]["y"] <= names[-1]["y"] <= high
    texts = [note["text"] for note in names]
    assert texts[0] == "no privacy: 0.900"
    assert names[0]["y"] < 0.9  # lower is better: guesses above, the reference below
    assert all(text.startswith("guessing (") for text in texts[1:])
    assert "user" in texts[1]
    assert names[2]["y"] > 1.4
    # a line that belongs to one method alone has its colour
    drawn = {t["hovertemplate"].split(": ")[1].split("<")[0]: t for t in fig.data[:5]}
    shown = [trace["name"] for trace in drawn.values() if "name" in trace]
    assert [name.split(":")[0] for name in shown] == ["no privacy"] * 2
    assert drawn["0.900"]["line"]["color"] == charts.LIGHT.ink
    own = {name: trace["line"]["color"] for name, trace in drawn.items()}
    assert next(c for n, c in own.items() if "PMF" in n) == charts.style("dpmf").color
    assert next(c for n, c in own.items() if "SVD" in n) == charts.LIGHT.muted


def test_several_guesses_are_told_apart():
    names = ("local-popularity", "private-popularity")
    placed = [placed_line(id, [[0.3, 0.3], [0.4, 0.4]]) for id in names]
    picture = Picture(METRICS["accuracy"], guesses=tuple(one.line for one in placed))
    for some in (placed, placed[:1]):
        fig = charts_compare.compare(picture, [], (0.1, 10), guesses=some)
        drawn = [t for t in fig.data if t.get("name", "").startswith("guessing: ")]
        assert all(trace["line"]["dash"] == "dot" for trace in drawn)
        own = [charts.style(one.line.mechanism).color for one in some]
        assert [t["line"]["color"] for t in drawn] == (
            own if len(some) > 1 else [charts.LIGHT.muted]
        )


def test_a_name_goes_where_no_line_and_no_other_name_is():
    room = charts.Room((-1, 1), (0, 1))
    room.line((-1, 1), (0.0, 1.0))  # rises through the middle
    spots = [(0.0, 0.5, x, y) for x in ("right", "left") for y in ("bottom", "top")]
    assert room.place("70.9 %", [(0.0, 0.5, "left", "bottom"), *spots]) == spots[0]
    assert room.place("70.9 %", spots) == spots[3]  # the first is taken by the other name
    assert room.place("a name that is longer", [(1, 0.2, "left", "top"), spots[1]]) == spots[1]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [((0.92, 1.21), 1.0), ((18.5, 41.0), 30.0), ((3.0, 3.0), 3.0), ((0.0, 1e-9), 0.0)],
)
def test_wanted_values_reach_over_all_that_is_drawn_in_about_a_hundred_steps(values, wanted):
    low, high, step = limits(values)
    assert low <= min(values)
    assert max(values) <= high
    assert low < high
    steps = (wanted - low) / step
    assert 0 <= steps == pytest.approx(round(steps))  # the slider can stop there
    assert (high - low) / step <= 104
    power = step / 10 ** math.floor(math.log10(step) + 1e-9)
    assert min(abs(power - k) for k in (1, 2, 5)) < 1e-6


def block(before: list[list[float]], after: list[list[float]]) -> BeforeAfter:
    grids = (np.array(side, dtype=float) for side in (before, after))
    return BeforeAfter("signs", *grids, ("a", "b"), ("x", "y"))


def test_two_values_have_one_coding_and_a_legend_and_missing_cells_are_named():
    view = block([[0, 1], [math.nan, 1]], [[1, 1], [math.nan, 0]])
    for id, words in (("input-flip", ("dislike", "like")), ("ldpicf", ("not clicked", "clicked"))):
        fig = charts_noise.heat(id, view, charts.LIGHT)
        entries = [trace["name"] for trace in fig.data if trace["type"] == "scatter"]
        assert entries == [*words, "no value"]
        assert fig.layout["coloraxis"]["showscale"] is False
        assert fig.layout["plot_bgcolor"] == charts.LIGHT.missing
        strip = charts_noise.strip(id, view, 0, charts.LIGHT)
        assert strip.layout["yaxis"]["ticktext"] == words
        assert "grey" in noise.block_caption(view)
    numbers = block([[1, 5], [3, 4]], [[1, 4], [2, 9]])
    fig = charts_noise.heat("randomised-response", numbers, charts.DARK)
    assert fig.layout["coloraxis"]["showscale"]
    assert all(trace["type"] == "heatmap" for trace in fig.data)
    assert "grey" not in noise.block_caption(numbers)


def test_a_single_line_is_not_told_apart_from_others():
    assert "Bold" not in noise.scales_caption({"output"}, ["Laplace"], "per rating")
    assert "Bold" in noise.scales_caption({"output", "gradient"}, [], "per rating")


def test_a_comparison_as_a_file_says_yes_and_no_and_repeats_with_the_command_that_wraps():
    grid = Grid(data=["restaurants"], mechanisms=["output"], epsilons=[0.5, 2.0], seeds=[1, 2])
    typed = " ".join(["dpmc", "sweep", *grid.argv()])
    table = {"mechanism": ["Output"], "certified": [True], "seeds": [1]}
    page = report.comparison("T", charts.figure(charts.LIGHT), [], table, typed)
    assert "<td>yes</td><td>1</td>" in page
    assert "True" not in page.split("<h2>Numbers</h2>")[1]
    assert "white-space: pre-wrap" in page


def test_the_head_of_a_column_is_never_cut_off():
    head = "per user: empty row, certified"
    narrow = st.column_config.TextColumn(width=64)
    shown = Mock()
    blocks.show_table({head: ["1"]}, place=shown, column_config={head: narrow})
    assert shown.dataframe.call_args.kwargs["column_config"][head]["width"] >= 7 * len(head)
