"""Guarantees in one look, and one answer to what a person with so many ratings gets."""

import dataclasses
import functools
import json
import math
import re
import time

import pytest

from dpmc_core import registry
from dpmc_core.model import Task
from dpmc_core.privacy import CELL, RATING, ROW_VALUES, USER_EMPTIED, USER_REPLACED
from dpmc_core.ratings import PublicFacts
from dpmc_lab.audit import audit_mechanism
from dpmc_lab.cli import main
from dpmc_lab.curves import cards, groups, measurements, trade
from dpmc_lab.curves.cards import ClaimState
from pages.ui import audits
from pages.ui.charts import PAPER
from tests.page_helpers import (
    find_button,
    list_charts,
    open_page,
    read_all_text,
    read_chart_spec,
    unescape_markdown,
)

FACTS = PublicFacts(users=943, items=1682, low=1, high=5)
CARDS, _ = groups.build_guarantees(registry.list_suitable_mechanisms(), FACTS)


def figure_of(app):
    """The figure of the claims: its rows by id, its marks by their heights, its headings."""
    drawn = read_chart_spec(app)
    (rows,) = (t for t in drawn["data"] if t["type"] == "bar")
    places = {id: y for (id,), y in zip(rows["customdata"], rows["y"], strict=True)}
    tints = dict(zip(places, rows["marker"]["color"], strict=True))
    at_hand = [id for id, tint in tints.items() if not tint.endswith("00")]
    return drawn, places, at_hand, [note["text"] for note in drawn["layout"]["annotations"]]


def test_the_figure_holds_a_line_for_each_mechanism_with_its_marks():
    app = open_page("guarantees", data="movie-night", mechanism="output", every="true")
    drawn, places, at_hand, heads = figure_of(app)
    placed = groups.group_mechanisms(CARDS)
    assert list(places) == [choice.id for group in placed for choice in group.choices]
    assert len(heads) == len(placed)
    for group, head in zip(placed, heads, strict=True):
        assert group.title in head
        assert head.endswith(CARDS[group.choices[0].id].change.label)
    assert at_hand == ["output"]
    for id, card in CARDS.items():
        marks = [
            t
            for t in drawn["data"]
            if t.get("y") == [places[id]] and "color" in t.get("marker", {})
        ]
        claimed = [t["x"][0] for t in marks if t["marker"]["color"] == PAPER]
        (certified,) = (t for t in marks if t["mode"] == "markers+text")
        assert claimed == [card.claimed.epsilon]
        own = card.certified()
        if own.finite:
            assert certified["x"] == [own.epsilon]
            assert certified["marker"]["symbol"] == "circle"
        else:
            assert certified["marker"]["symbol"] == "triangle-right"
            assert certified["text"] == ["   no bound"]
        ticks = [t["x"][0] for t in drawn["data"] if t["y"] == [places[id]] and "line-ns" in str(t)]
        assert ticks == [measurements.find_default_measured_bound(id).measured]


def test_without_being_asked_it_shows_those_that_predict_the_same():
    app = open_page("guarantees", data="movie-night", mechanism="private-mean")
    _, places, at_hand, _ = figure_of(app)
    task = registry.get_mechanism("private-mean").task
    assert set(places) == {id for id in CARDS if registry.get_mechanism(id).task is task}
    assert at_hand == ["private-mean"]


@pytest.mark.parametrize("id", ["input-flip", "output", "dpmf", "dpals", "gradient"])
def test_the_attacker_follows_the_certificate_at_hand(id):
    app = open_page("guarantees", data="movie-night", mechanism=id)
    card = CARDS[id]
    small, everything = trade.list_questions(
        card, registry.get_mechanism(id).task, cards.TYPICAL_RATINGS
    )
    assert small.describe_answer(card) in unescape_markdown(read_all_text(app))
    assert (
        everything.describe_answer(card) in unescape_markdown(read_all_text(app))
    ) == card.certified().finite
    (chart,) = (c for c in list_charts(app) if c.proto.alt == small.describe_answer(card))
    line = json.loads(chart.proto.spec)["data"][0]
    at_one = line["y"][line["x"].index(1.0)]
    assert at_one == pytest.approx(card.attacker_accuracy())


@pytest.mark.parametrize("id", CARDS)
def test_the_question_decides_what_may_change(id):
    """Whether data were used: emptied. Which ratings they were: replaced."""
    card = CARDS[id]
    small, everything = trade.list_questions(card, registry.get_mechanism(id).task, 59)
    changes = (USER_EMPTIED, USER_REPLACED) if card.change.per_user else (RATING, ROW_VALUES)
    if registry.get_mechanism(id).task is Task.RANKING and not card.change.per_user:
        changes = (CELL, USER_REPLACED)
    for question, change in zip((small, everything), changes, strict=True):
        assert question.change is change
        mine = dataclasses.replace(card, public=dataclasses.replace(card.public, cap=59))
        used = card if question.rated is None else mine
        assert question.success_rate(card) == pytest.approx(used.attacker_accuracy(change))
        if question is everything and used.certified(change).finite:
            epsilon = cards.format_epsilon(used.certified(change).epsilon)
            assert f": epsilon {epsilon}" in question.describe_answer(card)


def test_a_refuted_claim_is_told_from_one_that_is_not_proved(capsys):
    app = open_page("guarantees", data="movie-night", mechanism="output", every="true")
    app.session_state["every claim"] = True
    app.run()
    drawn, places, *_ = figure_of(app)
    table = next(t.value for t in app.dataframe if "status" in t.value.columns)
    status = dict(zip(table["mechanism"], table["status"], strict=True))
    states = {}
    for id, y in places.items():
        found = measurements.find_default_measured_bound(id)
        refuted = found.measured > found.epsilon * (1 + 1e-9)
        state = ClaimState.REFUTED if refuted else cards.determine_claim_state(CARDS[id])
        states[id] = state
        assert status[registry.get_short_name(id)] == state.value
        rings = [t for t in drawn["data"] if t.get("y") == [y] and "marker" in t]
        symbols = [t["marker"].get("symbol") for t in rings]
        assert ("circle-x" in symbols) == refuted
    assert states["output"] is ClaimState.REFUTED
    assert states["dpimf-sampled"] is ClaimState.CLAIMED  # an attack found less: only not proved
    assert states["input-flip"] is ClaimState.PROVED
    counts = [[*states.values()].count(state) for state in ClaimState]
    told = re.search(
        r"(\d+) (?:is|are) proved, (\d+) .* claimed only and (\d+) .*", read_all_text(app)
    )
    assert [int(told[k].split()[0]) for k in (1, 2, 3)] == counts
    command = re.search(
        r"dpmc audit output --epsilon 1 --seed 1", unescape_markdown(read_all_text(app))
    )
    assert main([*command[0].split()[1:], "--method", "probe", "--json"]) == 0
    least = json.loads(capsys.readouterr().out)["measured"]
    assert least == pytest.approx(measurements.find_default_measured_bound("output").measured)


@pytest.mark.slow
def test_the_first_sentence_counts_what_is_not_proved_and_follows_epsilon():
    app = open_page("guarantees", data="movie-night", epsilon="2")
    task = registry.get_mechanism(app.session_state["mechanism"]).task  # of what the chart shows
    there = {id: card for id, card in CARDS.items() if registry.get_mechanism(id).task is task}
    assert groups.describe_claim_states(groups.group_mechanisms(there), 2.0) in read_all_text(app)
    app.toggle(key="every").set_value(True).run()
    unproved = sum(not cards.is_upheld(card) for card in CARDS.values())
    assert (
        f"Of {len(CARDS)} claims at epsilon 2, {len(CARDS) - unproved} are proved"
        in read_all_text(app)
    )
    app.select_slider(key="epsilon").set_value(5.0).run()
    assert f"Of {len(CARDS)} claims at epsilon 5, " in read_all_text(app)
    ticks = [t for t in figure_of(app)[0]["data"] if "line-ns" in str(t)]
    assert not ticks  # measured at epsilon 1 alone
    proved = {id: card for id, card in CARDS.items() if cards.is_upheld(card)}
    words = f"Of {len(proved)} claims at epsilon 1, {len(proved)} are proved"
    assert groups.describe_claim_states(groups.group_mechanisms(proved), 1.0) == words


@pytest.mark.parametrize("id", CARDS)
@pytest.mark.parametrize("cap", [None, 7, 50])
def test_a_person_with_so_many_ratings_is_told_the_same_everywhere(id, cap):
    card = dataclasses.replace(CARDS[id], public=dataclasses.replace(CARDS[id].public, cap=cap))
    words = cards.describe_person_guarantee(card)
    shown = dict(cards.build_privacy_card(card).details)
    if card.certified().finite:
        assert shown["one person"] == words
        assert "per user" not in shown
    if card.change.per_user or not card.certified().finite:
        return
    assert card.certified(ROW_VALUES).finite  # by the cap, or else by the number of items
    ratings = min(20, cap or 20)
    row, one = cards.certify_ratings(card, ratings).epsilon, card.certified().epsilon
    whole = cards.format_epsilon(card.certified(ROW_VALUES).epsilon)
    if id == "output":  # one rating may move all of the matrix already: said once, in words
        assert row == one == card.certified(ROW_VALUES).epsilon
        assert words.startswith("all ratings together: the same")
        assert whole not in words
    else:
        assert row > one
        assert words.startswith(f"{ratings} ratings together: epsilon {cards.format_epsilon(row)}")
        assert whole in words  # what no person can exceed
    assert "no bound" not in words  # beside a number of the same person's
    assert ("not protected" in shown) == math.isinf(card.certified(USER_EMPTIED).epsilon)
    table = cards.tabulate_guarantees([cards.build_guarantee_row("name", card)])
    assert table[cards.PER_PERSON] == [
        cards.format_epsilon(cards.certify_ratings(card, 20).epsilon)
    ]


def test_what_was_measured_is_one_number_on_the_card_and_beside_it():
    app = open_page("guarantees", data="movie-night", mechanism="output")
    least = cards.format_epsilon(
        measurements.find_default_measured_bound("output").measured, round_down=True
    )
    assert f"measured at least {least}" in read_all_text(app)
    assert read_all_text(app).count(f"at least {least}") == 3  # and where the claim is refuted
    assert (
        read_all_text(app).count("1,586,126") == 4
    )  # panel, its question, badge and the ledger's total


@pytest.mark.parametrize("unit", ["value", "row-values", "user"])
def test_the_card_and_the_ledger_on_the_page_say_the_same_of_a_person(unit):
    app = open_page("guarantees", data="movie-night", mechanism="input-flip", unit=unit)
    words = cards.describe_person_guarantee(CARDS["input-flip"])
    assert read_all_text(app).count(words) == 2
    assert "epsilon 20" in words
    assert "1,682" in words


# --- the attempt to refute a claim ----------------------------------------------------------


def audited(app):
    """The page once the audit is over."""
    find_button(app, "Try to refute it").click().run()
    end = time.monotonic() + 150
    while app.progress or find_button(app, "Try to refute it") is None:
        assert time.monotonic() < end
        time.sleep(0.1)
        app.run()
        assert not app.exception
    return app


def test_an_audit_that_finds_nothing_confirms_nothing(monkeypatch):
    monkeypatch.setattr(audits, "audit_mechanism", functools.partial(audit_mechanism, runs=20))
    app = audited(open_page("guarantees", data="movie-night", mechanism="input-flip"))
    told = [head.value for head in app.subheader]
    assert any("No contradiction found (at least" in text for text in told)
    assert any("privacy is not confirmed by this" in text for text in told)
    least = next(float(t.split("at least ")[1].split(")")[0]) for t in told if "at least" in t)
    assert 0.5 < least < 1
    (chart,) = [c for c in list_charts(app) if "at least" in c.proto.alt]
    bars = [t for t in json.loads(chart.proto.spec)["data"] if t["type"] == "bar"]
    assert bars[0]["x"][0] + bars[0]["base"][0] == pytest.approx(least, rel=0.01)
    found = [m.value for m in app.markdown if m.value.startswith("**")]
    named = [
        name for name in measurements.METHOD_LABELS.values() if f"**{name}.**" in " ".join(found)
    ]
    assert len(named) == len(bars[0]["x"])


def test_an_older_link_that_plants_a_fault_is_noted_and_opens_the_page():
    app = open_page("guarantees", data="movie-night", mechanism="private-mean", fault="halved")
    assert any("The link plants a fault" in unescape_markdown(w.value) for w in app.warning)
    assert find_button(app, "Try to refute it")
    assert "fault" not in app.query_params


@pytest.mark.slow
def test_output_perturbation_lights_up(monkeypatch):
    monkeypatch.setattr(audits, "audit_mechanism", functools.partial(audit_mechanism, runs=4))
    app = open_page("guarantees", data="movie-night", mechanism="output", epsilon="2")
    assert not [t for t in figure_of(app)[0]["data"] if "line-ns" in str(t)]  # none ships for 2
    app.session_state["every claim"] = True
    app = audited(app)
    told = " ".join(head.value for head in app.subheader)
    least = float(told.split("Refuted: at least ")[1].split(" where 2 is claimed")[0])
    # the attack's value stands in panel, card, chart and table at once
    words, known = unescape_markdown(read_all_text(app)), f"at least {least:g}"
    assert f"measured {known}." in words
    assert f"Measured: {known} (One change traced, exact), set to epsilon 2." in words.replace(
        "*", ""
    )
    (tick,) = [t["x"][0] for t in figure_of(app)[0]["data"] if "line-ns" in str(t)]
    assert cards.format_epsilon(tick, round_down=True) == f"{least:g}"
    table = next(t.value for t in app.dataframe if "measured" in t.value.columns)
    row = table[table["mechanism"] == registry.get_short_name("output")].iloc[0]
    assert row["measured"] == f"≥ {least:g}"
    assert least > 3
    assert "the proof allows 2" in told
    (heat,) = [c for c in list_charts(app) if '"heatmap"' in c.proto.spec]
    assert "the rating that changed" in heat.proto.spec
