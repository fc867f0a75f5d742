"""Guarantees in one look, and one answer to what a person with so many ratings gets."""

import dataclasses
import functools
import html
import json
import math
import re
import time

import pytest

from dpmc_core import registry
from dpmc_core.lab.refute import refute
from dpmc_core.lab.views import audits, cards, groups
from dpmc_core.privacy import ROW_VALUES, USER_EMPTIED
from dpmc_core.ratings import PublicFacts
from pages.ui import runs
from tests.page_helpers import all_text, button, charts_of, open_page, plain

FACTS = PublicFacts(users=943, items=1682, low=1, high=5)
CARDS, _ = groups.cards_of(registry.offered(), FACTS)


def table_of(app):
    """The table of the first look, as HTML."""
    return next(e.proto.body for e in app.get("html") if "promises" in e.proto.body)


def test_the_first_look_holds_every_mechanism_in_its_cell_with_its_mark():
    shown = table_of(open_page("guarantees", data="movie-night"))
    found, _ = groups.cards_of(registry.offered(), FACTS)
    placed = groups.grouped(found)
    cells = re.findall(r"<td>(.*?)</td>", shown)
    filled = [cell for cell in cells if cell]
    assert len(filled) == len(placed)
    by_title = {re.search(r'"title">(.*?)<', cell)[1]: cell for cell in filled}
    for group in placed:
        cell = by_title[html.escape(group.title)]
        assert cell.count('class="one"') == len(group.choices)
        assert cell.count('"only claimed"') == sum(not c.upheld for c in group.choices)
        for choice in group.choices:
            name = html.escape(registry.short_name(choice.id))
            assert f"{name}</span>" in cell
            assert html.escape(choice.publishes) in cell
    rows = re.findall(r'<th scope="row">(.*?)</th>', shown)
    assert len(set(rows)) == len(rows) == 3


def test_the_title_counts_what_is_not_proved_and_follows_epsilon():
    app = open_page("guarantees", data="movie-night", epsilon="2")
    unproved = sum(not cards.upheld(card) for card in CARDS.values())
    assert app.title[0].value == f"{unproved} of {len(CARDS)} claims are not proved at epsilon 2"
    app.select_slider(key="epsilon").set_value(5.0).run()
    assert app.title[0].value.endswith("at epsilon 5")
    proved = {id: card for id, card in CARDS.items() if cards.upheld(card)}
    assert groups.summary(groups.grouped(proved), 1.0).startswith(f"All {len(proved)} claims are")


def test_the_full_table_is_one_click_away():
    app = open_page("guarantees", data="movie-night")
    before = len(charts_of(app))
    assert not any("certified" in t.value.columns for t in app.dataframe)
    app.session_state["every claim"] = True
    app.run()
    table = next(t.value for t in app.dataframe if "certified" in t.value.columns)
    assert len(table) == len(CARDS)
    assert len(charts_of(app)) == before + 1


@pytest.mark.parametrize("id", CARDS)
@pytest.mark.parametrize("cap", [None, 7, 50])
def test_a_person_with_so_many_ratings_is_told_the_same_everywhere(id, cap):
    card = dataclasses.replace(CARDS[id], public=dataclasses.replace(CARDS[id].public, cap=cap))
    words = cards.person(card)
    shown = dict(cards.card(card).facts)
    if card.certified().finite:
        assert shown["one person"] == words
        assert "per user" not in shown
    if card.change.per_user or not card.certified().finite:
        return
    assert card.certified(ROW_VALUES).finite  # by the cap, or else by the number of items
    ratings = min(20, cap or 20)
    row = cards.row_of_ratings(card, ratings).epsilon
    assert words.startswith(f"{ratings} ratings together: epsilon {cards.epsilon_text(row)}")
    whole = cards.epsilon_text(card.certified(ROW_VALUES).epsilon)
    assert whole in words  # what no person can exceed
    assert "no bound" not in words  # beside a number of the same person's
    assert ("not protected" in shown) == math.isinf(card.certified(USER_EMPTIED).epsilon)
    table = cards.table([cards.card_row("name", card)])
    assert table[cards.PERSON] == [cards.epsilon_text(cards.row_of_ratings(card, 20).epsilon)]


@pytest.mark.parametrize("unit", ["value", "row-values", "user"])
def test_the_card_and_the_ledger_on_the_page_say_the_same_of_a_person(unit):
    app = open_page("guarantees", data="movie-night", mechanism="input-flip", unit=unit)
    words = cards.person(CARDS["input-flip"])
    assert all_text(app).count(words) == 2
    assert "epsilon 20" in words
    assert "1,682" in words


# --- the attempt to refute a claim ----------------------------------------------------------


def audited(app):
    """The page once the audit is over."""
    button(app, "Try to refute it").click().run()
    end = time.monotonic() + 150
    while app.progress or button(app, "Try to refute it").disabled:
        assert time.monotonic() < end
        time.sleep(0.1)
        app.run()
        assert not app.exception
    return app


def test_an_audit_that_finds_nothing_confirms_nothing(monkeypatch):
    monkeypatch.setattr(runs, "refute", functools.partial(refute, runs=20))
    app = audited(open_page("guarantees", data="movie-night", mechanism="input-flip"))
    told = [head.value for head in app.subheader]
    assert any("No contradiction found (at least" in text for text in told)
    assert any("privacy is not confirmed by this" in text for text in told)
    least = next(float(t.split("at least ")[1].split(")")[0]) for t in told if "at least" in t)
    assert 0.5 < least < 1
    (chart,) = [c for c in charts_of(app) if "at least" in c.proto.spec]
    bars = [t for t in json.loads(chart.proto.spec)["data"] if t["type"] == "bar"]
    assert bars[0]["x"][0] + bars[0]["base"][0] == pytest.approx(least, rel=0.01)


def test_a_planted_fault_is_noticed_and_the_card_stays(monkeypatch):
    monkeypatch.setattr(runs, "refute", functools.partial(refute, runs=20))
    app = open_page("guarantees", data="movie-night", mechanism="private-mean", fault="halved")
    audited(app)
    assert "The audit has noticed it" in all_text(app)
    assert any(head.value.startswith("Refuted: ") for head in app.subheader)
    assert "certified: epsilon 1" in all_text(app) or "certified 1" in all_text(app)


def test_output_perturbation_lights_up(monkeypatch):
    monkeypatch.setattr(runs, "refute", functools.partial(refute, runs=4))
    app = audited(open_page("guarantees", data="movie-night", mechanism="output"))
    told = " ".join(head.value for head in app.subheader)
    least = float(told.split("Refuted: at least ")[1].split(" where 1 is claimed")[0])
    assert least > 3
    assert "the proof allows 2" in told
    (heat,) = [c for c in charts_of(app) if '"heatmap"' in c.proto.spec]
    assert "the rating that changed" in heat.proto.spec


def test_a_fault_is_offered_only_where_it_changes_something():
    app = open_page("guarantees", data="movie-night", mechanism="dplcf")
    offered = next(c for c in app.get("button_group") if "fault" in str(c.proto.label))
    assert not any("clip" in str(option.content) for option in offered.proto.options)


def test_what_was_measured_stands_on_cards_and_in_the_picture_of_claims():
    app = open_page("guarantees", data="movie-night", mechanism="input-flip")
    assert "Measured: at least" in plain(" ".join(c.value for c in app.caption)).replace("*", "")
    found = audits.shipped_of("input-flip")
    assert found is not None
    assert 0.5 < found.measured < 1
    assert audits.shipped_of("svd") is None
