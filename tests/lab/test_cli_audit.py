"""`dpmc audit`, and what it measured in `dpmc guarantees`."""

import json

import pytest

from dpmc_lab.cli import main


def run_command(capsys, *argv):
    status = main(argv)
    out = capsys.readouterr()
    return status, out.out, out.err


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
