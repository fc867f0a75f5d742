"""`dpmc protocol`: the report, the JSON object, and sentences for what cannot be."""

import json

import pytest

from dpmc_lab.cli import main


def run(capsys, *argv):
    status = main(["protocol", *argv])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("scenario", ["2", "3"])
def test_json_holds_counts_that_agree_with_the_formula(capsys, scenario):
    status, out, _ = run(
        capsys, scenario, "restaurants", "--epsilon", "2", "--set", "iterations=5", "--json"
    )
    assert status == 0
    found = json.loads(out)
    assert found["scenario"] == scenario
    assert found["rounds"] == 5
    cost = found["communication"]
    assert cost["by formula"] == {"messages": cost["messages"], "bytes": cost["bytes"]}
    assert cost["bytes"] == sum(kind["bytes"] for kind in cost["by kind"].values())
    assert found["guarantee"]["trust"] == "aggregator"
    assert found["guarantee"]["certified"] is None
    assert {"rmse", "mae"} <= set(found["metrics"])
    assert set(found["baselines"]) == {"global-mean", "pmf"}
    assert "transcript" not in found


def test_attack_and_transcript_of_a_watched_item(capsys):
    status, out, _ = run(
        capsys,
        "2",
        "restaurants",
        "--set",
        "masks=false",
        "--set",
        "iterations=6",
        "--attack",
        "--watch",
        "3",
        "--json",
    )
    assert status == 0
    found = json.loads(out)
    attacks = found["attacks"]["difference"]
    assert attacks["recovered"] == attacks["users"] > 0
    assert found["attacks"]["active"] < 1e-8
    kinds = {message["kind"] for message in found["transcript"]}
    assert kinds == {"noise set-up", "item factors", "gradient", "sum", "published factors"}


def test_the_report_is_for_people(capsys):
    status, out, _ = run(capsys, "3", "restaurants", "--set", "shares=gamma", "--attack")
    assert status == 0
    assert "untrusted recommender, users come and go" in out
    assert "by formula" in out
    assert "0 of" in out
    assert "each user knows the own share only" in out


def test_the_same_seed_gives_the_same_run(capsys):
    results = [run(capsys, "2", "restaurants", "--seed", "4", "--json")[1] for _ in range(2)]
    assert results[0] == results[1]


def test_the_difference_from_scenario_1_is_taken_apart(capsys):
    settings = ("--epsilon", "50", "--set", "phases=3", "--set", "iterations=5")
    _, out, _ = run(capsys, "2", "restaurants", *settings, "--json")
    found = json.loads(out)
    assert (found["phases"], found["rounds"]) == (3, 15)
    gap = found["gap"]
    more = gap["distributed"]["mean"] - gap["trusted"]["mean"]
    assert gap["refit"]["mean"] + gap["split"]["mean"] == pytest.approx(more)
    _, out, _ = run(capsys, "2", "restaurants", *settings)
    words = " ".join(out.split())
    assert "15 rounds in 3 phases" in words
    assert "because epsilon is divided over 3 phases" in words
    assert f"{gap['refit']['mean']:.3f} ± {gap['refit']['error']:.3f} of it because users" in words


def test_user_factors_passed_in_are_held_and_their_consequence_told(capsys):
    for source, certified in (("pmf", None), ("random:1", 2.0)):
        options = ("--epsilon", "2", "--set", f"user_factors={source}", "--json")
        _, out, _ = run(capsys, "2", "restaurants", *options)
        found = json.loads(out)
        assert found["phases"] == 1
        assert found["gap"]["held"] is True
        told = found["guarantee"]["certified"]
        assert (told and told["epsilon"]) == (certified and pytest.approx(certified))


def test_picked_users_are_told_with_their_consequences(capsys):
    _, out, _ = run(capsys, "3", "restaurants", "--set", "picked=3", "--attack")
    words = " ".join(out.split())
    assert "With 3 picked of each item's raters" in words
    assert "up to one vector common to all" in words


def test_attendance_left_to_chance_has_no_formula(capsys):
    _, out, _ = run(capsys, "3", "restaurants", "--set", "online=0.7", "--json")
    assert json.loads(out)["communication"]["by formula"] is None


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--epsilon", "0"), "epsilon must be > 0 and <= 1e+06, got 0"),
        (("--set", "colour=red"), "--set must be a setting of scenario 2"),
        (("--set", "shares=best"), "shares must be one of gaussian, gamma"),
        (("--set", "modulus_bits=20", "--set", "fraction_bits=18"), "would wrap around mod P"),
        (("--watch", "9999"), "watched item must be"),
        (("--set", "colluding=1"), "colluding must be 0 with Gaussian shares"),
        (("--set", "shares=gamma", "--set", "colluding=5000"), "fewer than 5001 raters"),
        (("--set", "user_factors=best"), "user_factors must be pmf, random:SEED"),
        (("--set", "user_factors=pmf", "--set", "phases=2"), "phases must be 1 where user factors"),
        (("--set", "picked=3"), "--set must be a setting of scenario 2"),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(capsys, argv, message):
    status, out, err = run(capsys, "2", "restaurants", *argv)
    assert status == 1
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_a_user_who_leaves_ends_scenario_2_and_not_scenario_3(capsys):
    status, _, err = run(capsys, "2", "restaurants", "--set", "leaves=2:5")
    assert status == 1
    assert "round 2 is aborted" in err
    status, out, _ = run(capsys, "3", "restaurants", "--set", "leaves=2:5", "--json")
    assert status == 0
    assert json.loads(out)["communication"]["by kind"]["restart"]["messages"] > 0


def test_an_unknown_scenario_is_a_usage_error(capsys):
    assert run(capsys, "7", "restaurants")[0] == 2
