"""Your data without a browser: the question, the verdict, what is refused."""

import csv
import html
import io
import json
import re
import shlex
from datetime import date
from importlib.util import find_spec

import pytest
import streamlit as st

from dpmc_core.errors import DpmcError
from dpmc_core.model import Task
from dpmc_data import datasets
from dpmc_lab import sweep
from dpmc_lab.cli import main
from dpmc_lab.study import answer as core
from dpmc_lab.study.advice import PrivacyUnit
from dpmc_lab.views import answer as answer_text
from pages.ui import private, report, sources, sweeps
from tests.page_helpers import find_button, open_page, read_all_text, unescape_markdown
from tests.waiting import wait_for

DATA = {"data": "restaurants"}
SHIPPED_MESSAGE = "On average over 3 seeds, no benefit shows clearly"  # the curve came with the app


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    return tmp_path


def wait_for_runs():
    folders = private.upload_folders
    wait_for(lambda: not any(sweep.running for folder in folders for sweep in find_sweeps(folder)))


def find_sweeps(folder):
    return sweeps.list_sweeps(folder._folder.path / "sweeps") if folder._folder else []


def list_headers(app):
    return [unescape_markdown(head.value) for head in app.header]


def test_it_tells_what_noise_hides_before_any_run(home):
    app = open_page("data", **DATA, answer_often="once")
    assert (
        "At epsilon 1, none of the 130 items have enough ratings to stand out from the noise."
        in read_all_text(app).replace("**", "")
    )
    assert find_button(app, "Get the answer") is not None
    assert not list_headers(app)
    assert SHIPPED_MESSAGE in read_all_text(app)
    assert "The runs cannot distinguish" not in read_all_text(app)  # a comparison of the verdict
    assert not list(home.iterdir())


# Of one publication at the usual delta the curve came along.
@pytest.mark.parametrize(("delta", "times"), [("1e-6", 1), ("1e-5", 1), ("1e-6", 52)])
def test_the_runs_that_are_announced_are_those_that_the_command_does(home, delta, times):
    public = datasets.load("restaurants").ratings.public
    question = core.Inquiry(task=Task.RATINGS, delta=float(delta), times=times)
    advice = question.find_advice(public)
    grids = [question.build_grid(advice, "restaurants")]
    if (delta, times) != ("1e-6", 1):
        few = core.SEEDS[: core.N_CURVE_SEEDS]
        curve = question.calibrate_curve(advice.mechanism.id, public)
        grids.append(question.build_grid(advice, "restaurants", seeds=few, curve=curve))
    runs = {unit.key for grid in grids for unit in sweep.build_plan(grid).units}
    often = answer_text.FREQUENCY_LABELS[times]
    app = open_page("data", **DATA, answer_delta=delta, answer_often=often)
    n_verdict = len(sweep.build_plan(grids[0]).units)
    n_later = len(core.SEEDS) * (
        len(core.list_publications(times)) - 1
    )  # of a year, for the verdict
    announced = f"({n_verdict + n_later} for the verdict, {len(runs) - n_verdict} for the curve)"
    assert f"{len(runs) + n_later} short training runs {announced}: " in read_all_text(app)
    assert not list(home.iterdir())


@pytest.mark.slow
def test_a_half_done_answer_goes_on(home):
    argv = ["answer", "restaurants", "--store", str(home / "results.sqlite"), "--no-curve"]
    assert main([*argv, "--seeds", "1"]) == 0
    app = open_page("data", **DATA)
    assert find_button(app, "Go on") is not None
    assert list_headers(app) == ["We cannot tell yet: an interval needs two seeds and two users."]


def test_links_choose_and_junk_is_noted():
    link = {"answer_protect": "rating", "answer_task": "binary", "answer_often": "daily"}
    app = open_page("data", **DATA, **link)
    assert not app.warning
    assert "input-flip" in read_all_text(app) or "Input perturbation" in read_all_text(app)
    app = open_page("data", **DATA, answer_keep="200", answer_protect="nobody")
    assert len(app.warning) == 2
    assert app.number_input(key="answer_keep").value == 80


def test_what_no_method_protects_is_not_offered():
    app = open_page("data", **DATA, answer_task="likes")
    assert "which this page does not have" in app.warning[0].value
    assert app.selectbox(key="answer_task").options == ["top lists", "ratings"]
    app = open_page("data", **DATA, answer_task="likes", answer_protect="rating")
    assert "likes" in app.selectbox(key="answer_task").options
    app.segmented_control(key="answer_protect").set_value(PrivacyUnit.PERSON).run()
    assert not app.exception
    assert not app.error
    assert app.selectbox(key="answer_task").value is Task.RATINGS


@pytest.fixture
def offered(monkeypatch):
    """What makes each file that a page offers, by its label."""
    downloads = {}
    monkeypatch.setattr(
        st, "download_button", lambda label, make, *_, **__: downloads.update({label: make})
    )
    return downloads


def open_upload(dataset, **choices):
    """Open the answer on an upload, with these choices made."""
    app = open_page("data")
    app.session_state[sources.UPLOAD] = dataset
    app.session_state["next data"] = sources.UPLOAD
    for key, value in choices.items():
        app.session_state[key] = value
    app.run()
    assert not app.exception
    return app


def test_the_printed_page_of_an_upload_has_what_repeats_its_verdict(
    tmp_path, monkeypatch, capsys, offered
):
    lines = [
        f"u{u};i{i};{1 + (u * i + u) % 5}" for u in range(30) for i in range(20) if (u + i) % 3
    ]
    file = tmp_path / "our ratings.csv"
    file.write_text("\n".join(["who;what;stars", *lines]) + "\n")
    options = {"user": "who", "item": "what", "rating": "stars", "low": 1.0, "high": 5.0}
    dataset = datasets.load_upload(file.read_bytes(), file.name, separator="semicolon", **options)
    choices = {"epsilon": 3.0, "answer_keep": 100 / 3, "answer_often": 12, "answer_delta": 1e-5}
    app = open_upload(dataset, answer_task=Task.RATINGS, **choices)
    find_button(app, "Get the answer").click().run()
    wait_for_runs()
    app.run()
    assert not app.exception

    page = offered["One page to print (HTML)"]()  # as in a thread that has no session
    assert re.search(rf"\b{date.today().day} \w+ {date.today().year}\b", page)
    assert len(re.findall(r"Plotly\.newPlot\(\s*[\"']", page)) == 1
    assert not re.search(r"src=|href=.?http", page.rpartition("Plotly.newPlot")[2])
    assert f"<h2>{html.escape(list_headers(app)[0])}</h2>" in page
    command = html.unescape(re.search("<pre>(.*)</pre>", page)[1])
    assert command in [block.value for block in app.code]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "elsewhere"))
    release, following = (
        block.value for block in app.code if block.value.startswith("dpmc release")
    )
    options = "--catalogue items.txt --users 30 --budget 3"
    assert release.endswith(f"{options} --out model-1.npz")
    assert following.endswith(f"{options} --after model-1.npz --out model-2.npz")
    if find_spec("opendp"):  # the extra "release" is installed
        (tmp_path / "items.txt").write_text("".join(f"i{i}\n" for i in range(20)))
        for line, number in ((release, 1), (following, 2)):
            assert main(shlex.split(line)[1:]) == 0
            out, err = capsys.readouterr()
            assert "import numpy as np" in out  # the ten lines that read the file
            assert ("averages its noisy statistics with those of 1." in out) is (number == 2), err
            assert (tmp_path / f"model-{number}.npz").exists()
    assert main([*shlex.split(command)[1:], "--no-curve", "--json"]) == 0
    repeated = json.loads(capsys.readouterr().out)
    assert (repeated["release"]["command"], repeated["release"]["next"]) == (release, following)
    page_text = answer_text.strip_bold(read_all_text(app))
    for name in ("unit", "attacker", "found", "year", "against"):
        assert repeated["said"][name] in page_text
    app.toggle[-1].set_value(True).run()
    weaker = next(block.value for block in app.code if block.value.startswith("dpmc release"))
    assert "--catalogue from-data --budget 3 --out" in weaker
    assert "weakens the promise" in read_all_text(app)
    for text in repeated["said"].values():
        assert f">{html.escape(text)}<" in page
    table = {row["what"]: row for row in csv.DictReader(io.StringIO(offered["Numbers (CSV)"]()))}
    assert table["verdict"]["name"] == repeated["verdict"]
    assert table["metric"]["name"] == "RMSE"
    named = {"with privacy": "method", "baseline": "floor", "reference": "reference"}
    repeated |= {"average": repeated["year"]["method"], "last": repeated["year"]["last"]}
    named |= {"with privacy over the year": "average", "with privacy at the end": "last"}
    for kind, name in named.items():
        ends = [float(table[kind][end]) for end in ("value", "from", "to")]
        assert ends == pytest.approx([*repeated[name].values()], rel=1e-9)
    assert float(table["share to keep"]["value"]) == repeated["keep"] == 100 / 3 / 100


@pytest.mark.slow
def test_a_file_that_cannot_be_made_is_a_sentence_on_the_page(home, monkeypatch, offered):
    argv = ["answer", "restaurants", "--store", str(home / "results.sqlite"), "--no-curve"]
    assert main(argv) == 0
    app = open_page("data", **DATA)

    def fails(*_):
        raise DpmcError("the disk is full")

    monkeypatch.setattr(report, "render_report_page", fails)
    with pytest.raises(DpmcError):
        offered["One page to print (HTML)"]()
    app.run()
    assert "One page to print (HTML) could not be made. The disk is full." in unescape_markdown(
        " ".join(error.value for error in app.error)
    )
    offered["Numbers (CSV)"]()
    app.run()
    assert not app.error
