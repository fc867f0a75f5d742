"""Lessons four to seven: what adds up, what was measured of a claim, what a choice costs, and what
is public."""

import math
import re

import pytest

from dpmc_core.privacy import USER_EMPTIED
from dpmc_lab.classroom import numbers
from dpmc_lab.classroom.room import Room
from dpmc_lab.lessons import LESSONS
from dpmc_lab.sweep.presets import EPSILONS

pytestmark = pytest.mark.slow


def reveal_slide(name, **setting):
    lesson, key = name.split("/")
    slide = LESSONS[lesson].get_slide(key)
    return slide.reveal(slide.start | setting)


def test_a_room_says_what_it_has_spent():
    room = Room(["Have you had breakfast?"], 2.0)
    in_class = LESSONS["again"].get_slide("add").in_class
    assert in_class(room.view()) is None
    room.ask(0)
    assert "1 time at epsilon 2" in in_class(room.view()).sentences[0]
    room.report(room.view().id, 0, "0" * 32, 1)
    room.ask(0)
    assert in_class(room.view()).sentences[0].endswith("has spent 4.")


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
        finding = reveal_public_slide("worth", epsilon).sentences[0]
        assert ("more than 10" in finding) == math.isinf(bought)
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
    assert question.options == ("1", "2", "10")
    assert question.right == 1


def reveal_public_slide(key, epsilon):
    return reveal_slide(f"public/{key}", epsilon=epsilon)
