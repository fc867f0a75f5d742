"""The Compare page without a browser: sweeps that survive, units, words, uploads, bad input."""

import dataclasses
import html
import os
import re
import sqlite3
import sys
from dataclasses import replace

import numpy as np
import pytest
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpmc_core import registry
from dpmc_core.metrics import METRICS
from dpmc_core.model import Task
from dpmc_data import datasets, paths
from dpmc_lab import shipped, sweep
from dpmc_lab.cli import sweep as cli_sweep
from dpmc_lab.store import Store, default_path, list_curves, load_points
from dpmc_lab.sweep import Grid
from dpmc_lab.sweep.presets import BOTH_ESTIMATORS, EPSILONS
from dpmc_lab.views import compare, lines, numbers
from pages.ui import private, rows, sweeps
from tests.page_helpers import (
    find_button,
    list_charts,
    open_page,
    read_all_text,
    read_chart_spec,
    read_current_stop,
    read_figure_help,
    read_instrument,
    read_markdown,
    unescape_markdown,
    wait_until,
)
from tests.store_helpers import load_curve_chart
from tests.sweep_helpers import InProcessPool
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the page starts no sweeps there")

DATA, IDS = "restaurants", ("input-flip", "output")
LINK = {"data": DATA, "mechanisms": list(IDS), "grid": "coarse", "seeds": "2"}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home of its own, where no sweep outlives its test."""
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "home"))
    rows._plan_shared_keys.clear()
    yield tmp_path / "home"
    sweeps.cancel_folder_sweeps(paths.find_home_folder() / "sweeps")


@pytest.fixture
def nothing_shipped(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "CURVE_FOLDER", tmp_path / "no curves")
    _forget_shipped_rows()
    yield
    _forget_shipped_rows()


def _forget_shipped_rows():
    rows.load_shipped.clear()
    rows.load_shipped_rows.clear()
    rows.load_shipped_units.clear()
    rows.list_ready_mechanisms.clear()


def fill_store(epsilons=(0.1, 0.3, 1.0, 3.0, 10.0), seeds=(1, 2), ids=IDS, data=DATA, **settings):
    """Compute a grid here and now, into the shared store."""
    grid = Grid(data=[data], mechanisms=ids, epsilons=epsilons, seeds=seeds, settings=settings)
    plan = sweep.build_plan(grid)
    with Store() as store:
        sweep.run(plan.units, store, lambda: InProcessPool(plan.sources))
    return plan


def list_traces(app):
    return [t for t in read_chart_spec(app)["data"] if "marker" in t and t.get("name")]


def find_traces(app, start):
    return [t for t in read_chart_spec(app)["data"] if (t.get("name") or "").startswith(start)]


def read_command(app):
    """Return the command line that does what the page shows."""
    return next(block.value for block in app.code if block.value.startswith("dpmc sweep"))


def read_heading(app):
    """Return the heading of the panel; the page keeps its name."""
    assert app.title[0].value == "Compare mechanisms"
    return unescape_markdown(app.header[0].value)


@pytest.mark.usefixtures("nothing_shipped")
def test_an_empty_store_says_what_it_takes_and_shows_the_command():
    app = open_page("compare", **LINK)
    assert not app.error
    assert "34 short training runs" in read_all_text(app)
    command_text = read_command(app)
    assert "dpmc sweep" in command_text
    assert "--mechanisms input-flip,output" in command_text
    assert "--seeds 1:2" in command_text
    assert "--json" not in command_text
    assert not default_path().exists()  # looking makes nothing


@pytest.mark.slow
def test_the_command_shown_computes_exactly_what_the_page_waits_for():
    import shlex
    import subprocess

    app = open_page("compare", **LINK | {"grid": "own", "epsilons": "1, 4"})
    argv = shlex.split(read_command(app))
    argv[:1] = [sys.executable, "-m", "dpmc_lab"]
    subprocess.run(argv, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    app.run()
    assert "All 16 runs of this grid are there" in read_figure_help(app)


def compute_means(store, id, metric):
    """Return means over seeds, by epsilon."""
    values = {}
    for (epsilon, _), value in load_points(store, id, metric).items():
        values.setdefault(epsilon, []).append(value)
    return {epsilon: np.mean(values) for epsilon, values in values.items()}


@pytest.mark.usefixtures("nothing_shipped")
def test_the_chart_is_the_store_and_every_curve_carries_its_unit():
    plan = fill_store()
    app = open_page("compare", **LINK)
    assert f"All {len(plan.units)} runs" in read_figure_help(app)
    plotted = list_traces(app)
    with Store(read_only=True) as store:
        infos = {info.mechanism: info for info in list_curves(store)}
        for id, trace in zip(IDS, plotted, strict=True):
            summary = compute_means(store, infos[id].id, "accuracy")
            assert trace["x"] == list(summary)
            assert trace["y"] == pytest.approx([*summary.values()])
            assert registry.get_mechanism(id).name in trace["name"]
            assert "per rating" in trace["name"]
    certified, claimed = (trace["marker"] for trace in plotted[:2])
    assert (certified["symbol"], claimed["symbol"]) == ("circle", "circle-x")  # refuted
    assert certified["color"] == certified["line"]["color"]
    assert claimed["color"] != claimed["line"]["color"]  # hollow: claimed, not certified
    assert claimed["line"]["width"] > certified["line"]["width"]
    assert "Output perturbation has markers with a white middle" in read_all_text(app)
    # Its name is beside it.
    unnamed = [t for t in read_chart_spec(app)["data"] if not t.get("name")]
    assert "dash" in {t.get("line", {}).get("dash") for t in unnamed}
    (baseline_trace,) = find_traces(app, "one answer for all")
    with Store(read_only=True) as store:
        majority = compute_means(store, infos["private-majority"].id, "accuracy")
    assert baseline_trace["x"] == list(majority)
    assert baseline_trace["y"] == pytest.approx([*majority.values()])
    assert baseline_trace["line"]["dash"] == "dot"
    (papers,) = (t for t in unnamed if "Maximum likelihood" in t.get("hovertemplate", ""))
    assert papers["line"]["dash"] == "dash"
    assert "95 % t interval of the mean over 2 seeds" in read_figure_help(app)
    assert registry.get_mechanism("output").name in list_charts(app)[0].proto.alt


def load_shipped_lines():
    with shipped.load_curves(DATA, Task.BINARY) as store:
        shipped_lines = load_curve_chart(store, IDS, METRICS["accuracy"]).lines
    assert len(shipped_lines) == 3  # the paper's own estimate is another grid
    return [
        line
        for line in shipped_lines
        if line.label in {registry.get_mechanism(id).name for id in IDS}
    ]


def test_shipped_curves_are_there_at_once_complete_and_count_as_there():
    app = open_page("compare", data=DATA, mechanisms=list(IDS))
    for line, trace in zip(load_shipped_lines(), list_traces(app), strict=True):
        assert trace["x"] == pytest.approx(line.epsilon)
        assert trace["y"] == pytest.approx(line.band.mean)
    text = read_figure_help(app)
    assert f"Version {load_shipped_lines()[0].version}." in text
    assert "All 220 runs of this grid are there; 220 came with the app" in text
    assert "No run" not in read_all_text(app)
    assert find_button(app, "Start") is None
    assert "one answer for all" in list_charts(app)[0].proto.spec
    assert not any("Rows (CSV)" in str(d.proto) for d in app.get("download_button"))


def test_more_seeds_are_computed_beside_the_shipped_ones():
    app = open_page("compare", **LINK | {"seeds": "6"})
    assert "85 of 102 runs are there: press Start for the others" in read_all_text(app)
    assert find_button(app, "Start")
    fill_store(ids=IDS[:1], seeds=(6,))
    app = open_page("compare", **LINK | {"seeds": "6"})
    updated, unchanged = list_traces(app)
    assert len(updated["x"]) == len(unchanged["x"]) == 14
    assert [seeds for *_, seeds in updated["customdata"]].count(6) == 5
    assert {seeds for *_, seeds in unchanged["customdata"]} == {5}
    app = open_page("compare", data=DATA, mechanisms=list(IDS), seeds="2", cap="5")
    assert "been computed here yet" in read_all_text(app)


def test_start_runs_only_what_is_missing_and_its_progress_never_goes_back():
    app, progress = open_page("compare", **LINK | {"seeds": "6"}), []
    find_button(app, "Start").click().run()

    def is_finished():
        assert not app.error
        progress.extend(int(bar.proto.text.split(" of ")[0]) for bar in app.get("progress"))
        return "All 102 runs" in read_figure_help(app)

    wait_until(app, is_finished)
    assert progress
    assert progress == sorted(progress)
    assert progress[0] >= 85
    with Store(read_only=True) as store:
        assert len(store.list_unit_keys()) == 102 - 85


def test_with_a_new_curve_the_reference_runs_once_more_for_its_lists():
    grid = Grid(data=[DATA], mechanisms=["input-flip"], epsilons=(1.0,), seeds=(1, 2))
    few = cli_sweep._drop_shipped(sweep.build_plan(grid)).units
    new = replace(grid, settings={"input-flip.radius": ("0.5",)})
    missing_units = cli_sweep._drop_shipped(sweep.build_plan(new)).units
    assert not few
    missing = sorted((unit.mechanism.id, unit.seed) for unit in missing_units)
    assert missing == [("input-flip", 1), ("input-flip", 2), ("reference-binary", 1)]


@pytest.mark.usefixtures("nothing_shipped")
def test_the_same_unit_uses_certified_values_and_drops_nothing():
    fill_store()
    app = open_page("compare", **LINK | {"count": "rating"})
    flip, output = list_traces(app)
    assert flip["x"] == pytest.approx([0.1, 0.3, 1, 3, 10])
    assert min(output["x"]) > 1000  # what is proved of the whole matrix
    assert output["marker"]["color"] == output["marker"]["line"]["color"]
    app.segmented_control(key="count").set_value(lines.EpsilonUnit.USER).run()
    flip, output = list_traces(app)
    assert flip["marker"]["color"] != flip["marker"]["line"]["color"]
    assert "not certified" in flip["name"]
    assert "nothing finite is certified per user" in unescape_markdown(read_all_text(app))
    assert flip["x"] == pytest.approx([0.1, 0.3, 1, 3, 10])
    assert compare.NOT_COMPARABLE in unescape_markdown(read_all_text(app))


@pytest.mark.usefixtures("nothing_shipped")
def test_chart_and_numbers_are_one_file_that_stands_alone(monkeypatch):
    offered = {}

    def offer(label, make, *_, **__):
        offered[label] = make

    monkeypatch.setattr(st, "download_button", offer)
    monkeypatch.setattr(DeltaGenerator, "download_button", lambda _, *a, **k: offer(*a, **k))
    fill_store()
    fill_store(epsilons=(1.0,), seeds=(1,), ids=("objective",))  # which is not drawn
    app = open_page("compare", **LINK)
    page = offered["Charts and numbers (HTML)"]()
    assert page.startswith("<!doctype html>")
    assert page.count("plotly-graph-div") == 2
    assert 'src="http' not in page
    target = app.slider[0].value
    assert re.search(rf"<h2>[^<]*accuracy {target:.1f} %[^<]*</h2>|at {target:.1f} %", page)
    assert f"<pre>{html.escape(read_command(app))}</pre>" in page
    assert all(registry.get_mechanism(id).name in page for id in IDS)
    rows = offered["Rows (CSV)"]()
    assert all(id in rows for id in IDS)
    assert "objective" not in rows


@pytest.mark.usefixtures("nothing_shipped")
def test_verdicts_and_budget_are_those_of_the_core():
    fill_store(seeds=(1, 2, 3))
    app = open_page("compare", **LINK | {"seeds": "3"})
    with Store(read_only=True) as store:
        chart = load_curve_chart(store, IDS, METRICS["accuracy"])
    plotted = [lines.place_on_axis(line, lines.EpsilonUnit.PAPER) for line in chart.lines]
    comparisons = compare.compare_lines(plotted, compare.compare_pairs(plotted))
    headline, title, *_ = (unescape_markdown(header.value) for header in app.header)
    assert headline == compare.describe_leader(comparisons)
    assert title.endswith(" at epsilon 1")
    app.select_slider(key="epsilon").set_value(0.1).run()
    title = unescape_markdown(app.header[1].value)
    assert title == compare.conclude_comparison(plotted, comparisons, 0.1)
    assert title.endswith(" at epsilon 0.1")
    for target in (55.0, 99.5):
        app.slider[0].set_value(target).run()
        answers = [
            numbers.find_required_epsilons(plotted_line, [target / 100])[0]
            for plotted_line in plotted
        ]
        sentences = [
            numbers.describe_required_epsilon(answer).split(" Even")[0] for answer in answers
        ]
        assert all(sentence in list_charts(app)[1].proto.alt for sentence in sentences)
        dots = {t["name"]: t["x"] for t in read_chart_spec(app, 1)["data"] if t.get("name")}
        reached = {a.plotted.line.label: a.epsilon.value for a in answers if a.epsilon.value < 1e9}
        assert dots == {label: [pytest.approx(value)] for label, value in reached.items()}
        without = chart.nonprivate_reference
        assert numbers.describe_cost(answers, without) in read_markdown(app)
    assert "not reachable" in list_charts(app)[1].proto.alt
    assert "not reached: best" in list_charts(app)[1].proto.spec
    assert "Not even without privacy" in read_markdown(app)


@pytest.mark.usefixtures("nothing_shipped")
def test_other_epsilons_and_seeds_of_the_store_stay_out():
    fill_store(epsilons=(0.1, 0.3, 0.6, 1.0, 3.0, 10.0), seeds=(1, 2, 3))
    app = open_page("compare", **LINK)
    assert all(trace["x"] == [0.1, 0.3, 1, 3, 10] for trace in list_traces(app))
    assert "over 2 seeds" in read_figure_help(app)


def test_a_store_from_a_newer_version_or_a_file_of_another_kind_is_a_sentence():
    fill_store(epsilons=(1.0,), seeds=(1,))
    with sqlite3.connect(default_path()) as file:
        file.execute("PRAGMA user_version = 99")
    file.close()
    app = open_page("compare", **LINK)
    assert "newer version" in unescape_markdown(app.error[0].value)
    assert not list_charts(app)
    for end in ("", "-wal", "-shm"):
        default_path().with_name(default_path().name + end).unlink(missing_ok=True)
    default_path().write_text("not a database, but long enough to be taken for one " * 50)
    assert "not a result store" in unescape_markdown(open_page("compare", **LINK).error[0].value)
    assert read_instrument(open_page(data="restaurants"))["needed"]  # the shipped curve is there


@pytest.mark.usefixtures("nothing_shipped")
def test_a_home_that_cannot_be_written_is_a_sentence(home):
    home.write_text("a file where a folder should be")
    app = open_page("compare", **LINK)
    find_button(app, "Start").click().run()
    assert not app.exception
    assert "cannot be written" in unescape_markdown(app.error[0].value)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_shipped")
def test_what_if_draws_what_the_store_has_of_a_curve():
    app = open_page(data=DATA, mechanism="input-flip")
    assert "been computed here yet" in read_all_text(app)
    assert not read_instrument(app)["needed"]
    fill_store(epsilons=(0.1, 1.0, 10.0), ids=("input-flip",))
    app = open_page(data=DATA, mechanism="input-flip")
    assert "14 of 132 runs are there" in read_all_text(app)  # not every stop of the slider is
    assert sum(stop["value"] is not None for stop in read_instrument(app)["stops"]) == 3
    fill_store(epsilons=EPSILONS, ids=("input-flip",), seeds=(1, 2, 3), **BOTH_ESTIMATORS)
    app = open_page(data=DATA, mechanism="input-flip")
    assert not app.info
    with Store(read_only=True) as store:
        summaries = {
            info.settings["estimator"]: compute_means(store, info.id, "accuracy")
            for info in list_curves(store, mechanism="input-flip")
        }
    aware, published = summaries["noise-aware"], summaries["published"]
    assert read_current_stop(app)["text"] == f"{100 * aware[1.0]:.1f} %"
    assert [stop["value"] for stop in read_instrument(app)["stops"]] == pytest.approx(
        [*aware.values()]
    )
    assert published[1.0] != aware[1.0]


@pytest.mark.slow
def test_what_if_rests_on_as_many_seeds_as_compare_whatever_is_in_the_store():
    fill_store(epsilons=EPSILONS, ids=("input-flip",), seeds=(1, 2, 3), **BOTH_ESTIMATORS)
    fill_store(epsilons=(1.0,), ids=("input-flip",), seeds=(6, 7), **BOTH_ESTIMATORS)
    assert "over 5 seeds" in read_all_text(open_page(data=DATA, mechanism="input-flip"))
    app = open_page("compare", data=DATA, mechanisms=["input-flip"])
    assert "over 5 seeds" in read_figure_help(app)
    assert app.number_input(key="seeds").value == 5


@pytest.mark.usefixtures("nothing_shipped")
def test_a_curve_begun_on_what_if_can_be_stopped_and_is_known_to_compare():
    app = open_page(data="movie-night", mechanism="output")
    find_button(app, "Compute the curve").click().run()
    assert not app.exception
    assert "of 90 runs" in app.get("progress")[0].proto.text
    link = {"data": "movie-night", "mechanisms": ["output"]}
    compare_app = open_page("compare", **link, grid="fine", seeds="3")
    assert find_button(compare_app, "Start") is None  # it is this very grid
    assert find_button(compare_app, "Stop")
    assert "Another grid runs on Movie night" in read_all_text(
        open_page("compare", **link, grid="coarse")
    )
    find_button(app, "Stop").click().run()
    assert not app.exception
    assert find_button(app, "Compute the curve") or find_button(app, "Go on")
    assert not any(s.running for s in sweeps.list_sweeps(paths.find_home_folder() / "sweeps"))


def test_an_upload_is_swept_in_a_folder_of_its_own():
    dataset = dataclasses.replace(datasets.load(DATA), name="mine", title="Mine")
    earlier = set(private.upload_folders)
    app = open_page("compare")
    app.session_state["upload"] = dataset
    app.session_state["next data"] = "upload"
    app.session_state["mechanisms"] = list(IDS)
    app.session_state["grid"] = "own"
    app.session_state["epsilons"] = "1, 4"
    app.session_state["seeds"] = 1
    app.run()
    assert not app.exception
    assert "YOUR_FILE" in read_command(app)
    assert "dpmc-private" not in read_command(app)
    (upload_folder,) = set(private.upload_folders) - earlier or earlier  # sessions may be one
    folder = upload_folder.open_folder(dataset).path
    assert not folder.exists()  # looking writes nothing
    assert rows.DISK_NOTICE in read_all_text(app)
    before = os.umask(0)  # whatever the server was started with
    try:
        find_button(app, "Start").click().run()
    finally:
        os.umask(before)
    wait_until(app, lambda: "All 8 runs" in read_figure_help(app))
    assert rows.DISK_NOTICE not in read_all_text(app)
    assert not default_path().exists()  # the shared store has seen nothing
    paths = [folder, *folder.rglob("*")]
    assert {"ratings.dpmc.npz", "results.sqlite", "sweeps"} < {path.name for path in paths}
    assert all((path.stat().st_mode & 0o077) == 0 for path in paths)
    app.switch_page("pages/data.py").run()
    find_button(app, "Forget this upload").click().run()
    assert not app.exception
    assert not folder.exists()


@pytest.mark.parametrize(
    ("task", "last", "options"),
    [
        (Task.RANKING, True, []),
        (Task.RANKING, False, ["--holdout", "0.2"]),
        (Task.RATINGS, True, ["--leave-last"]),
        (Task.RATINGS, False, []),
    ],
)
def test_the_hold_out_is_the_one_chosen_for_every_task(task, last, options):
    id = {Task.RANKING: "private-popularity", Task.RATINGS: "dpals"}[task]
    app = open_page("compare", data="restaurants", task=task.value, mechanisms=[id])
    key = "ranking_holdout" if task is Task.RANKING else "holdout"
    app.selectbox(key=key).set_value("last" if last else "share").run()
    typed = read_command(app).split()
    assert [w for w in typed if w in ("--leave-last", "--holdout", "0.2")] == options
