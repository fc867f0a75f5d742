"""`dpmc audit`, and what it measured in `dpmc guarantees`."""

import json

import pytest

from dpmc_lab.cli import main


def run_command(capsys, *argv):
    status = main(argv)
    out = capsys.readouterr()
    return status, out.out, out.err


@pytest.mark.slow
def test_audit_says_what_it_found_and_that_it_confirms_nothing(capsys):
    status, out, _ = run_command(capsys, "audit", "input-flip", "--epsilon", "1")
    assert status == 0
    assert "The attack measured at least 0.8" in out
    assert "proves nothing" in out


@pytest.mark.slow
def test_audit_on_data_of_ones_own_with_another_unit(capsys, tmp_path):
    file = tmp_path / "ratings.csv"
    rows = [f"{u},{i},{1 + (u * i) % 5}" for u in range(30) for i in range(8) if (u + i) % 3]
    file.write_text("user,item,rating\n" + "\n".join(rows))
    command = f"audit private-popularity {file} --epsilon 1 --delta 0 --unit user-replaced --json"
    status, out, _ = run_command(capsys, *command.split(), "--runs", "10")
    report = json.loads(out)
    assert status == 0
    assert (report["data"], report["unit"], report["neighbours"]) == (str(file), "user", "replace")
    assert report["claimed"] is None
    assert report["measured"] <= report["certified"] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("audit input-flip", "epsilon must be given"),
        ("audit --all", "audit --all is gone: name one mechanism"),
        ("audit input-flip --plant halved", "audit --plant is gone: planted faults are a tool"),
        ("audit clear", "one that adds noise, got 'clear'"),
    ],
)
def test_what_audit_cannot_do_is_said(capsys, argv, message):
    status, _, err = run_command(capsys, *argv.split())
    assert status == 1
    assert message in err


def test_guarantees_show_what_was_measured_where_it_was(capsys):
    _, out, _ = run_command(capsys, "guarantees", "--measured", "--json")
    measured = {entry["mechanism"]: entry["measured"] for entry in json.loads(out)}
    assert measured["output"]["refuted"] == "claim"
    assert measured["output"]["epsilon"] > 3
    _, out, _ = run_command(capsys, "guarantees", "--measured", "--json", "--epsilon", "2")
    assert {entry["measured"] for entry in json.loads(out)} == {None}
    _, out, _ = run_command(capsys, "guarantees", "--measured")
    assert "measured" in out.splitlines()[2]
    assert "measured" not in run_command(capsys, "guarantees")[1]
