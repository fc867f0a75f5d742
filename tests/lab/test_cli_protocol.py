"""`dpmc protocol`: the report, the JSON object, and sentences for what cannot be."""

import json

import pytest

from dpmc_lab.cli import main


def run_command(capsys, *argv):
    status = main(["protocol", *argv])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("scenario", ["2", "3"])
def test_json_holds_counts_that_agree_with_the_formula(capsys, scenario):
    status, out, _ = run_command(
        capsys, scenario, "restaurants", "--epsilon", "2", "--set", "iterations=5", "--json"
    )
    assert status == 0
    report = json.loads(out)
    assert report["scenario"] == scenario
    assert report["rounds"] == 5
    cost = report["communication"]
    assert cost["by formula"] == {"messages": cost["messages"], "bytes": cost["bytes"]}
    assert cost["bytes"] == sum(kind["bytes"] for kind in cost["by kind"].values())
    assert report["guarantee"]["trust"] == "aggregator"
    assert report["guarantee"]["certified"] is None
    assert {"rmse", "mae"} <= set(report["metrics"])
    assert set(report["baselines"]) == {"global-mean", "pmf"}
    assert "transcript" not in report


def test_attack_and_transcript_of_a_watched_item(capsys):
    options = "--set masks=false --set iterations=6 --attack --watch 3 --json"
    status, out, _ = run_command(capsys, "2", "restaurants", *options.split())
    assert status == 0
    report = json.loads(out)
    attacks = report["attacks"]["difference"]
    assert attacks["recovered"] == attacks["users"] > 0
    assert report["attacks"]["active"] < 1e-8
    message_kinds = {message["kind"] for message in report["transcript"]}
    assert message_kinds == {"noise set-up", "item factors", "gradient", "sum", "published factors"}


def test_the_same_seed_gives_the_same_run(capsys):
    argv = ("2", "restaurants", "--seed", "4", "--json")
    assert run_command(capsys, *argv)[1] == run_command(capsys, *argv)[1]


def test_attendance_left_to_chance_has_no_formula(capsys):
    _, out, _ = run_command(capsys, "3", "restaurants", "--set", "online=0.7", "--json")
    assert json.loads(out)["communication"]["by formula"] is None
