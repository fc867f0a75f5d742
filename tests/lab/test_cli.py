"""The command line: the contract's names, clean output, a sentence for every mistake."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpmc_core import experiment, registry
from dpmc_lab.cli import app, main, methods
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def stars(tmp_path):
    """A file with four columns: user, item, rating, time."""
    return write_ratings(tmp_path / "stars.tsv", seed=1)


def write_ratings(path, seed, share=0.5):
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((25, 15)) < share)
    lines = [
        f"{u + 1}\t{i + 1}\t{rng.integers(1, 6)}\t{880000000 + k}"
        for k, (u, i) in enumerate(zip(users, items, strict=True))
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def fit(dpmc, stars):
    """`dpmc fit` on the small file, --json parsed."""

    def run(mechanism, *options):
        status, out, err = dpmc("fit", stars, mechanism, "--range", "1:5", "--json", *options)
        assert (status, err.count("\n")) == (0, 1), err
        assert err.startswith("columns: user = column 1 (guessed), ")
        return json.loads(out)

    return run


@pytest.mark.parametrize(
    "command",
    [
        "fit restaurants dpals --epsilon 1 --set epsilon=100",
        "fit restaurants dpals --epsilon 1 --set delta=0.1",
        "release restaurants dpals --epsilon=1 --set=epsilon=9 --out x.npz",
        "protocol 2 restaurants --epsilon 1 --set epsilon=100",
        "sweep --data=restaurants --mechanisms=dpals --epsilons=1 --set=dpals.epsilon=9",
    ],
)
def test_no_setting_overrides_the_budget_in_silence(dpmc, command):
    status, _, err = dpmc(*command.split())
    name = "delta" if "delta=0.1" in command else "epsilon"
    assert status == 1
    assert f"{name} is given with --{name}" in err


@pytest.mark.slow
def test_fit_reads_an_official_pair(dpmc, tmp_path):
    train = write_ratings(tmp_path / "train.tsv", 1, share=0.3)
    cells = {tuple(line.split("\t")[:2]) for line in train.read_text().splitlines()}
    spare = write_ratings(tmp_path / "spare.tsv", 2, share=0.3).read_text().splitlines()
    test_lines = [line for line in spare if tuple(line.split("\t")[:2]) not in cells]
    test = tmp_path / "test.tsv"
    test.write_text("\n".join(test_lines) + "\n")
    argv = ("fit", train, "clear", "--range", "1:5", "--test", test, "--set", "iterations=5")
    status, out, err = dpmc(*argv, "--json")
    assert status == 0, err
    data = json.loads(out)["data"]
    assert (data["ratings"], data["test_ratings"]) == (len(cells), len(test_lines))
    assert data["split"] == "the given test ratings"


def test_fit_options_reach_their_place(fit):
    report = fit("clear", "--set", "radius=0.5", "--set", "link=probit:2", "--leave-last")
    assert (report["settings"]["radius"], report["settings"]["link"]) == (0.5, "probit:2")
    assert report["data"]["split"] == "the latest rating of every user"
    assert report["rounds"] >= 1
    assert fit("clear", "--prepare", "binarise=4")["data"]["prepare"] == ["binarise=4"]
    held_out = fit("clear", "--holdout", "0.5")["data"]
    assert abs(held_out["ratings"] - held_out["test_ratings"]) <= 1


def test_the_mechanism_s_line_is_printed_before_its_references_are_fitted(capsys, monkeypatch):
    """What was printed when the first baseline begins, and what follows: together one table."""
    fit_model, printed = experiment.fit, {}

    def record_output(fitted, *arguments):
        printed[fitted.id] = capsys.readouterr().out
        return fit_model(fitted, *arguments)

    monkeypatch.setattr(experiment, "fit", record_output)
    argv = ["fit", "restaurants", "private-effects", "--epsilon", "1"]
    assert main(argv) == 0
    remainder = capsys.readouterr().out
    assert printed.pop("private-effects") == ""
    first, *later = printed.values()
    assert not any(later)
    head, line = first.splitlines()[-2:]
    columns = [line.index("0."), head.index("rmse")]
    assert line.startswith("  Private effects and taste  ")
    for name in ("Own averages", "No privacy"):
        row = next(row for row in remainder.splitlines() if row.startswith(f"  {name}  "))
        columns.append(row.index("0."))
    assert len({*columns}) == 1
    assert main([*argv, "--json"]) == 0
    assert json.loads("".join([*printed.values(), capsys.readouterr().out]))["metrics"]


def test_the_line_of_a_reference_says_on_how_many_users_it_was_fitted(dpmc, monkeypatch):
    """The users' training ratings reach the limit with the last user drawn."""
    argv = ("fit", "restaurants", "private-own-mean", "--epsilon", "1")
    full = json.loads(dpmc(*argv, "--json")[1])
    assert full["reference_users"] is None
    monkeypatch.setattr(methods, "MAX_REFERENCE_RATINGS", 300)
    report = json.loads(dpmc(*argv, "--json")[1])
    n_users = report["reference_users"]
    assert 20 < n_users < 80
    reference = "reference-ratings"
    assert report["baselines"][reference] != full["baselines"][reference]
    for document in (report, full):
        del document["baselines"][reference], document["reference_users"], document["seconds"]
    assert report == full  # the mechanism and its baselines get all ratings
    out = dpmc(*argv)[1]
    assert f"No privacy (on {n_users} of 138 users)  " in out
    assert out.count(" of 138 users)") == 1


def test_a_mechanism_can_be_trained_alone(dpmc):
    argv = ("fit", "restaurants", "private-effects", "--epsilon", "1")
    alone, full = (
        json.loads(dpmc(*argv, "--baselines", which, "--json")[1]) for which in ("none", "all")
    )
    assert alone["baselines"] == {}
    assert alone["metrics"] == full["metrics"]
    out = dpmc(*argv, "--baselines", "none")[1]
    assert "Private effects and taste" in out
    assert "No privacy" not in out
    assert dpmc(*argv, "--baselines", "some")[0] == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["input-flip"], "epsilon must be given"),
        (["clear", "--epsilon", "0"], "epsilon must be > 0"),
        (["input-flip", "--epsilon", "1", "--delta", "1"], "delta must be >= 0 and < 1"),
        (["input-flap", "--epsilon", "1"], "did you mean input-flip"),
        (["clear", "--prepare", "binarize=3"], "preparation step must be one of binarise"),
        (["clear", "--prepare", "binarise=9"], "only one class"),
        (["clear", "--set", "radius"], "--set must be NAME=VALUE"),
        (["clear", "--set", "radius=-1"], "radius must be > 0"),
        (["clear", "--holdout", "1.5"], "share of test ratings must be"),
        (["clear", "--seed", "-1"], "seed must be >= 0"),
        (["clear", "--range", "5:1"], "rating range must be a low end below its high end"),
        (["clear", "--test", "missing.tsv"], "missing.tsv"),
    ],
)
def test_a_mistake_gets_one_sentence_and_status_1(dpmc, stars, options, sentence):
    ends = [] if "--range" in options else ["--range", "1:5"]
    status, out, err = dpmc("fit", stars, *options, *ends)
    assert (status, out) == (1, "")
    assert err.startswith("dpmc: ")
    assert sentence in err


def test_guarantees_json_has_every_unit(dpmc):
    _, out, _ = dpmc("guarantees", "--epsilon", "2", "--json")
    cards = {entry["mechanism"]: entry for entry in json.loads(out)}
    assert set(cards) == {id for id, cls in registry.MECHANISMS.items() if registry.adds_noise(cls)}
    units = {(u["unit"], u["neighbours"]): u for u in cards["input-flip"]["units"]}
    assert units["value", "replace"]["epsilon"] == pytest.approx(2)
    assert units["user", "empty"]["epsilon"] is None
    assert units["user", "empty"]["reason"]
    assert cards["output"]["certified"]["epsilon"] > 1e6


def test_data_lists_and_describes(dpmc, stars):
    status, out, _ = dpmc("data")
    assert status == 0
    assert "movie-night" in out
    assert "ml-100k" in out
    assert out == dpmc("data", "list")[1]
    names = {entry["name"] for entry in json.loads(dpmc("data", "list", "--json")[1])}
    assert {"movie-night", "restaurants", "jokes", "one-bit-lab", "ml-100k"} <= names
    status, out, _ = dpmc("data", "describe", stars, "--range", "1:5", "--json")
    described = json.loads(out)
    assert (described["users"], described["items"]) == (25, 15)
    assert described["ratings"] == len(stars.read_text().splitlines())
    assert "25 users" in dpmc("data", "describe", stars, "--range", "1:5")[1]


def spawn(*argv, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "dpmc_lab", *map(str, argv)],
        cwd=ROOT,
        text=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options,
    )


def test_a_reader_that_leaves_early_sees_no_traceback():
    read, write = os.pipe()
    os.close(read)
    with spawn("list", "--json", stdout=write) as child:
        os.close(write)
        _, err = child.communicate(timeout=PATIENCE_SECONDS)
    assert (child.returncode, err) == (141, "")


@pytest.mark.skipif(os.name == "nt", reason="signals are sent another way on Windows")
def test_ctrl_c_ends_cleanly():
    """Interrupted in the middle of ten thousand rounds."""
    talking = (
        "from dpmc_lab.cli import interface; interface.REPEAT_SECONDS = 0.0;"  # of every round
    )
    argv = [sys.executable, "-c", f"{talking} from dpmc_lab.__main__ import entry; entry()"]
    argv += ["fit", "movie-night", "objective", "--epsilon", "1", "--set=iterations=10000"]
    argv += ["--set=tolerance=1e-300", "--set=estimator=published"]
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(argv, cwd=ROOT, text=True, **pipes) as child:
        message = child.stderr.readline()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=PATIENCE_SECONDS)
    assert "/10000" in message, err
    assert (child.returncode, out) == (130, "")
    assert "interrupted" in err
    assert "Traceback" not in err


def test_an_epsilon_too_small_to_be_told_from_none_is_blamed_itself(dpmc):
    _, _, err = dpmc("fit", "restaurants", "input-flip", "--epsilon", "1e-320")
    assert "dpmc: epsilon must be > 1e-15" in err
    assert "1e-320" in err or "9.99989e-321" in err
    assert dpmc("fit", "restaurants", "input-flip", "--epsilon", "1.1e-15")[0] == 0


def test_guarantees_leave_out_what_the_facts_do_not_suit_and_say_why(dpmc):
    argv = ("guarantees", "--users", 100, "--items", 2, "--range", "1:5")
    status, out, _ = dpmc(*argv)
    assert status == 0
    assert "dpals: no guarantee for these facts: rank must be <= items = 2, got 3" in " ".join(
        out.split()
    )
    _, out, _ = dpmc(*argv, "--json")
    assert "dpals" not in {entry["mechanism"] for entry in json.loads(out)}


@pytest.mark.parametrize(
    ("argv", "served"),
    [
        ((), "127.0.0.1"),
        (("--address", "::1"), "::1"),
        (("--class",), "0.0.0.0"),
        (("--class", "--address", "127.0.0.1"), "127.0.0.1"),
    ],
)
def test_the_app_checks_the_address_that_it_serves(dpmc, monkeypatch, argv, served):
    tried, started = [], []

    def try_to_listen(address, **_):
        tried.append(address)
        return io.BytesIO()  # something to close

    monkeypatch.delenv("STREAMLIT_SERVER_ADDRESS", raising=False)
    monkeypatch.setattr(app.socket, "create_server", try_to_listen)
    monkeypatch.setattr(app.sys, "platform", "linux")
    monkeypatch.setattr(app.os, "execve", lambda _, command, __: started.append(command))
    assert dpmc("app", "--port", 8765, *argv)[0] == 0
    assert tried == [(served, 8765)]
    assert started[0][started[0].index("--server.address") + 1] == served


def test_the_environment_names_an_address_too(dpmc, monkeypatch):
    monkeypatch.setenv("STREAMLIT_SERVER_ADDRESS", "192.0.2.1")  # of no machine
    monkeypatch.setattr(app.os, "execve", lambda *_: None)  # nothing starts
    monkeypatch.setattr(app.sys, "platform", "linux")
    status, _, err = dpmc("app", "--port", 8765)
    assert (status, "cannot listen at '192.0.2.1, port 8765'" in err) == (1, True), err


def test_of_a_taken_port_one_is_told_which_option_names_another(dpmc, monkeypatch):
    monkeypatch.delenv("STREAMLIT_SERVER_ADDRESS", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, _, err = dpmc("app", "--port", taken.getsockname()[1])
    assert (status, "Choose another one with --address or --port" in err) == (1, True), err


@pytest.mark.parametrize("provided", [{}, {"DPMC_HOME": "/somewhere"}])
def test_the_app_needs_a_home_folder(dpmc, monkeypatch, provided):
    """Streamlit looks for its settings there, and would end with a traceback."""

    def find_no_home():
        raise RuntimeError("Could not determine home directory.")

    for name in ("DPMC_HOME", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in provided.items():
        monkeypatch.setenv(name, value)
    started = []
    monkeypatch.setattr(Path, "home", find_no_home)
    monkeypatch.setattr(app.sys, "platform", "linux")
    monkeypatch.setattr(app.os, "execve", lambda *call: started.append(call[2].get("HOME")))
    status, _, err = dpmc("app")
    if provided:
        assert (status, started, err) == (0, ["/somewhere"], "")
    else:
        assert (status, started, "DPMC_HOME" in err) == (1, [], True)
