"""Mechanisms by what they promise: every one in its place, told apart by its card alone."""

import dataclasses
import itertools

import pytest

from dpmc_core import registry
from dpmc_core.data import datasets
from dpmc_core.data.synthetic import SAMPLES
from dpmc_core.model import Task
from dpmc_core.privacy import CELL, RATING, Trust
from dpmc_core.ratings import PublicFacts
from dpmc_lab import shipped
from dpmc_lab.curves import cards, groups, measurements
from dpmc_lab.store import list_curves
from dpmc_lab.study.advice import recommend_method
from dpmc_lab.sweep.presets import EPSILONS
from pages.ui import sources
from tests.page_helpers import open_page
from tests.slow_helpers import mark_rest_slow

PUBLIC_FACTS = PublicFacts(users=943, items=1682, low=1, high=5)


def find_picker(app):
    return app.radio(key="mechanism")


@pytest.mark.parametrize("clicks", [False, True])
def test_every_mechanism_has_one_place_told_by_its_card(clicks):
    ids = registry.list_suitable_mechanisms(clicks=clicks)
    guarantees, problems = groups.build_guarantees(ids, PUBLIC_FACTS)
    assert not problems
    grouped = groups.group_mechanisms(guarantees)
    assert sorted(c.id for g in grouped for c in g.choices) == sorted(ids)
    titles = [group.title for group in grouped]
    assert len(set(titles)) == len(titles)
    for group, choice in ((g, c) for g in grouped for c in g.choices):
        guarantee = guarantees[choice.id]
        refuted = measurements.is_refuted(measurements.find_default_measured_bound(choice.id))
        assert choice.state is cards.determine_claim_state(guarantee, refuted=refuted)
        assert (choice.state is cards.ClaimState.PROVED) == (
            cards.is_upheld(guarantee) and not refuted
        )
        assert choice.predicts == groups.TASK_LABELS[registry.get_mechanism(choice.id).task]
        assert ("even from the server" in group.trust) == (guarantee.trust is Trust.LOCAL)
        assert ("person" in group.protects) == guarantee.change.per_user
        assert choice.publishes in guarantee.publishes.value


def test_what_cannot_be_is_told_once_and_the_others_stay():
    huge = PublicFacts(users=10**7, items=10**7, low=1, high=5)
    guarantees, problems = groups.build_guarantees(registry.list_suitable_mechanisms(), huge)
    assert "input-flip" in guarantees
    assert "private-effects" not in guarantees
    assert len({str(problem) for problem in problems}) == len(problems)


@pytest.mark.parametrize(
    ("task", "change", "trust"),
    [
        (Task.BINARY, RATING, Trust.LOCAL),
        (Task.RATINGS, CELL, Trust.LOCAL),
        (Task.RANKING, CELL, Trust.LOCAL),
    ],
)
def test_the_mark_says_for_which_epsilons_the_rule_advises_it(task, change, trust):
    guarantees, _ = groups.build_guarantees(registry.list_private_mechanisms(task), PUBLIC_FACTS)
    marked = {c.id: c.recommended for g in groups.group_mechanisms(guarantees) for c in g.choices}
    advised = {}
    for epsilon in EPSILONS:
        public = next(guarantee.public for id, guarantee in guarantees.items())
        advice = recommend_method(task, change, public, epsilon=epsilon, trust=trust)
        advised.setdefault(advice.mechanism.id, []).append(epsilon)
    for id, expected_epsilons in advised.items():
        mark = marked[id]
        assert mark.startswith("recommended")
        assert ("up to" in mark) == (expected_epsilons[-1] < EPSILONS[-1])
        assert (" on" in mark) == (expected_epsilons[0] > EPSILONS[0])


def test_those_recommended_come_first_among_those_that_predict_the_same():
    guarantees, _ = groups.build_guarantees(registry.list_suitable_mechanisms(), PUBLIC_FACTS)
    for group in groups.group_mechanisms(guarantees):
        for _, choices in itertools.groupby(group.choices, key=lambda c: c.predicts):
            marks = [bool(choice.recommended) for choice in choices]
            assert marks == sorted(marks, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("data", SAMPLES)
def test_a_curve_is_ready_where_one_came_with_the_program(data):
    for task in Task:
        shipped_ids = shipped.list_shipped_mechanisms(data, task)
        for id in registry.list_private_mechanisms(task):
            file = shipped.load_curves(data, task, [id])
            if file is None:
                assert id not in shipped_ids
                continue
            with file:
                is_stored = any(info.mechanism == id for info in list_curves(file, count=False))
            assert (id in shipped_ids) == is_stored, id


# --- the picker -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "page"),
    mark_rest_slow(itertools.product(SAMPLES, ["noise", "train", "guarantees"]), 3),
)
def test_the_picker_offers_what_makes_sense_for_the_data_in_groups(page, data):
    app = open_page(page, data=data)
    offered = registry.list_suitable_mechanisms(clicks=SAMPLES[data].clicks)
    assert sorted(find_picker(app).options) == sorted(
        registry.get_mechanism(id).name for id in offered
    )
    assert find_picker(app).value == (
        "objective" if page == "noise" and "objective" in offered else offered[0]
    )
    captions = list(find_picker(app).proto.captions)
    assert all(
        caption.startswith(tuple(state.value for state in cards.ClaimState)) for caption in captions
    )
    if page != "guarantees":
        assert all(
            ("curve ready" in caption) != ("no curve yet" in caption) for caption in captions
        )
    for id in (offered[1], offered[-1]):
        find_picker(app).set_value(id).run()
        assert not app.exception
        assert not app.error
        assert find_picker(app).value == id


def test_a_link_may_name_it_by_id_by_name_or_as_it_once_did():
    name = registry.get_mechanism("output").name
    for requested in ("output", "OUTPUT", name, f"{name} · likes"):
        app = open_page("noise", data="movie-night", mechanism=requested)
        assert find_picker(app).value == "output"
        assert not app.warning
        labels = [p.proto.popover.label for p in app.get("popover")]
        assert any(name in label for label in labels)


def test_a_choice_that_other_data_lack_gives_way():
    app = open_page("noise", data="movie-night", mechanism="output")
    app.selectbox(key="data").set_value("bookshop-clicks").run()
    assert not app.exception
    assert find_picker(app).value in registry.list_suitable_mechanisms(clicks=True)


def test_what_needs_other_settings_for_these_sizes_can_be_chosen_all_the_same(monkeypatch):
    few = dataclasses.replace(datasets.load("one-bit-lab").ratings.public, items=2)
    # Of rank 3.
    assert "dpals" not in groups.build_guarantees(registry.list_suitable_mechanisms(), few)[0]
    app = open_page("noise", data="one-bit-lab")
    all_options = list(find_picker(app).options)
    dataset = datasets.load("one-bit-lab")
    retained = dataset.ratings.select(dataset.ratings.items < few.items)
    retained = dataclasses.replace(retained, public=few, item_ids=None, titles=None)
    small = dataclasses.replace(dataset, ratings=retained)
    monkeypatch.setattr(sources, "get_dataset", lambda _: small)
    app = open_page("guarantees", data="one-bit-lab")
    assert len(find_picker(app).options) < len(all_options)  # there is a card to show, or none
    app = open_page("train", data="one-bit-lab")
    assert list(find_picker(app).options) == all_options
