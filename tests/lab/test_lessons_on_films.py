"""Lessons four to seven: what adds up, what was measured of a claim, what a choice costs, and what
is public."""

import csv
import math
import re
from pathlib import Path

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.model import Task
from dpmc_core.privacy import RATING, USER_EMPTIED
from dpmc_lab.audit import generate_one_rating_example
from dpmc_lab.classroom import numbers
from dpmc_lab.classroom.pictures import format_percent
from dpmc_lab.classroom.room import Room
from dpmc_lab.curves.cards import format_epsilon
from dpmc_lab.lessons import LESSONS
from dpmc_lab.sweep.presets import EPSILONS

pytestmark = pytest.mark.slow

CURVE = Path(__file__).resolve().parents[2] / "sample_data" / "curves" / "movie-night.csv"


def reveal_slide(name, **setting):
    lesson, key = name.split("/")
    slide = LESSONS[lesson].get_slide(key)
    return slide.reveal(slide.start | setting)


def compute_majority_success(flip, times):
    """Return how often the majority of the reports is right; a tie is right half of the time."""
    chances = [math.comb(times, k) * flip**k * (1 - flip) ** (times - k) for k in range(times + 1)]
    wrong = sum(chance for k, chance in enumerate(chances) if 2 * k > times)
    tie = sum(chance for k, chance in enumerate(chances) if 2 * k == times)
    return 1 - wrong - tie / 2


def flip(epsilon):
    return 1 / (1 + math.exp(epsilon))


def read_scores(mechanism):
    """Return the mean accuracy by epsilon, read off the file as it ships."""
    by_epsilon = {}
    with CURVE.open(encoding="utf-8") as stream:
        for row in csv.DictReader(line for line in stream if not line.startswith("#")):
            if row["mechanism"] == mechanism and row["metric"] == "accuracy":
                by_epsilon.setdefault(row["epsilon"], []).append(float(row["value"]))
    return {epsilon: float(np.mean(values)) for epsilon, values in by_epsilon.items()}


def test_a_room_says_what_it_has_spent():
    room = Room(["Have you had breakfast?"], 2.0)
    in_class = LESSONS["again"].get_slide("add").in_class
    assert in_class(room.view()) is None
    room.ask(0)
    assert "1 time at epsilon 2" in in_class(room.view()).sentences[0]
    room.report(room.view().id, 0, "0" * 32, 1)
    room.ask(0)
    assert in_class(room.view()).sentences[0].endswith("has spent 4.")


def test_what_one_rating_lights_up():
    lit, guarantee, rated = numbers.load_audit_example()
    ratings, position = generate_one_rating_example()
    assert (lit.user, lit.item) == (ratings.users[position], ratings.items[position])
    assert rated == 1
    assert lit.cells == (lit.changes >= 1e-3).sum()
    assert guarantee.change is RATING
    assert lit.epsilon == pytest.approx(lit.changes.sum() / guarantee.releases.matrix.scale)
    assert lit.epsilon > 20 * lit.claimed
    assert guarantee.certified().epsilon == 40 * 400 * lit.claimed
    other_example, _, max_rated = numbers.load_audit_example("many")
    assert max_rated == np.bincount(ratings.users).max()
    assert other_example.cells > 10 * lit.cells  # of other people too
    assert other_example.epsilon > lit.claimed


def test_the_audit_refutes_the_claim():
    audit = numbers.load_audit()
    assert audit.refuted == "claim"
    assert audit.epsilon < audit.measured < numbers.load_audit_example()[1].certified().epsilon
    assert (
        f"found {format_epsilon(audit.measured, round_down=True)} where 1 is claimed"
        in reveal_slide("claim/promise").sentences[1]
    )


def test_the_gain_that_is_kept_is_that_of_the_shipped_rows():
    private_scores, baseline_scores, nonprivate = (
        read_scores(id)
        for id in ("input-flip", "majority", registry.NONPRIVATE_REFERENCES[Task.BINARY])
    )
    baseline = max(baseline_scores[""], read_scores("private-majority")["1"])
    expected = (private_scores["1"] - baseline) / (nonprivate[""] - baseline)
    assert numbers.compute_lesson_gain("input-flip", 1.0).share == pytest.approx(expected, abs=1e-6)
    question = LESSONS["choose"].get_slide("price").predict
    assert question.options[question.right] == format_percent(expected)


def test_what_is_public_costs_nothing_and_is_not_always_worth_something():
    """Words and numbers agree at every stop: the certificate, what is clear of chance, the end."""
    for epsilon in EPSILONS:
        plain, with_features = (
            numbers.build_lesson_guarantee(numbers.PER_PERSON, epsilon, with_item_features=k)
            for k in (False, True)
        )
        assert plain.public != with_features.public
        certified = [guarantee.certified() for guarantee in (plain, with_features)]
        assert certified[0].change is certified[1].change is USER_EMPTIED
        assert certified[0].epsilon == pytest.approx(certified[1].epsilon, rel=1e-9)
        assert certified[0].delta == certified[1].delta
        finding = reveal_public_slide("poster", epsilon)
        certified_text, without = re.findall(r"epsilon [^:]*? per user", finding.sentences[2])
        assert certified_text == without == f"epsilon {epsilon:g}, delta 1e-6 per user"
        bought = numbers.epsilon_without_features(epsilon)
        assert bought > epsilon
        assert reveal_public_slide("worth", epsilon).sentences[0].startswith(
            "More than 10"
        ) == math.isinf(bought)
        items_only = reveal_public_slide("alone", epsilon)
        line, level = (
            items_only.picture.lines["genres and others' ratings"],
            items_only.picture.levels,
        )
        above = line[items_only.picture.stop_index] > level["alone"]
        assert above or "not clearly more" in items_only.sentences[1]
        assert ("not clearly" in items_only.sentences[1]) == (
            "not worth" in items_only.sentences[2]
        )
    assert "not clearly" in reveal_public_slide("alone", EPSILONS[0]).sentences[1]
    assert "not clearly" not in reveal_public_slide("alone", 1.0).sentences[1]
    assert numbers.count_feature_gains("movie-night") > 10
    assert numbers.count_feature_gains("restaurants") == 0
    question = LESSONS["public"].get_slide("worth").predict
    assert question.options == ("1", "2.2", "10")
    assert question.right == 1


def reveal_public_slide(key, epsilon):
    return reveal_slide(f"public/{key}", epsilon=epsilon)
