"""Guarantees in one look, and one answer to what a person with so many ratings gets."""

import dataclasses
import html
import math
import re

import pytest

from dpmc_core import registry
from dpmc_core.privacy import ROW_VALUES, USER_EMPTIED
from dpmc_core.ratings import PublicFacts
from dpmc_core.views import cards, groups
from tests.page_helpers import all_text, charts_of, open_page

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
            name = html.escape(cards.SHORT.get(choice.id, choice.name))
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
    assert ("no bound per user" in words) == math.isinf(card.certified(USER_EMPTIED).epsilon)
    table = cards.table([cards.card_row("name", card)])
    assert table[cards.PERSON] == [cards.epsilon_text(cards.row_of_ratings(card, 20).epsilon)]


@pytest.mark.parametrize("unit", ["value", "row-values", "user"])
def test_the_card_and_the_ledger_on_the_page_say_the_same_of_a_person(unit):
    app = open_page("guarantees", data="movie-night", mechanism="input-flip", unit=unit)
    words = cards.person(CARDS["input-flip"])
    assert all_text(app).count(words) == 2
    assert "epsilon 20" in words
    assert "1,682" in words
