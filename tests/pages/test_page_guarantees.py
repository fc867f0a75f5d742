"""Guarantees in one look, and one answer to what a person with so many ratings gets."""

import dataclasses
import functools
import json
import math
import re

import pytest

from dpmc_core import registry
from dpmc_core.model import Task
from dpmc_core.privacy import CELL, RATING, ROW_VALUES, USER_EMPTIED, USER_REPLACED
from dpmc_core.ratings import PublicFacts
from dpmc_lab.audit import audit_mechanism
from dpmc_lab.cli import main
from dpmc_lab.views import cards, groups, measurements, trade
from dpmc_lab.views.cards import ClaimState
from pages.ui import audits
from pages.ui.charts import PAPER
from tests.page_helpers import (
    find_button,
    list_charts,
    open_page,
    read_all_text,
    read_chart_spec,
    unescape_markdown,
    wait_until,
)

PUBLIC_FACTS = PublicFacts(users=943, items=1682, low=1, high=5)
CARDS, _ = groups.build_guarantees(registry.list_suitable_mechanisms(), PUBLIC_FACTS)


def read_figure(app):
    """Return the figure of the claims: its rows by id, its marks by their heights, its headings."""
    spec = read_chart_spec(app)
    (rows,) = (t for t in spec["data"] if t["type"] == "bar")
    positions = {id: y for (id,), y in zip(rows["customdata"], rows["y"], strict=True)}
    tints = dict(zip(positions, rows["marker"]["color"], strict=True))
    at_hand = [id for id, tint in tints.items() if not tint.endswith("00")]
    return spec, positions, at_hand, [note["text"] for note in spec["layout"]["annotations"]]


def test_the_figure_holds_a_line_for_each_mechanism_with_its_marks():
    app = open_page("guarantees", data="movie-night", mechanism="output", every="true")
    spec, positions, at_hand, heads = read_figure(app)
    grouped = groups.group_mechanisms(CARDS)
    assert list(positions) == [choice.id for group in grouped for choice in group.choices]
    assert len(heads) == len(grouped)
    for group, head in zip(grouped, heads, strict=True):
        assert group.title in head
        assert head.endswith(CARDS[group.choices[0].id].change.label)
    assert at_hand == ["output"]
    for id, guarantee in CARDS.items():
        marks = [
            t
            for t in spec["data"]
            if t.get("y") == [positions[id]] and "color" in t.get("marker", {})
        ]
        claimed = [t["x"][0] for t in marks if t["marker"]["color"] == PAPER]
        (certified,) = (t for t in marks if t["mode"] == "markers+text")
        assert claimed == [guarantee.claimed.epsilon]
        certified_budget = guarantee.certified()
        end = spec["layout"]["xaxis"]["range"][1] / 1.02
        assert spec["layout"]["xaxis"].get("type") != "log"
        if certified_budget.epsilon < end:
            assert certified["x"] == [certified_budget.epsilon]
            assert certified["marker"]["symbol"] == "circle"
        else:
            assert certified["marker"]["symbol"] == "triangle-right"
            assert certified["x"] == [pytest.approx(end)]
            number = cards.format_epsilon(certified_budget.epsilon)
            assert number in certified["text"][0]  # also where it is off the scale
        ticks = [
            t["x"][0] for t in spec["data"] if t["y"] == [positions[id]] and "line-ns" in str(t)
        ]
        measured = measurements.find_default_measured_bound(id).measured
        assert ticks == [measured] * (measured < end)


@pytest.mark.parametrize("id", ["input-flip", "output", "dpmf", "dpals", "gradient"])
def test_the_attacker_follows_the_certificate_at_hand(id):
    app = open_page("guarantees", data="movie-night", mechanism=id)
    guarantee = CARDS[id]
    small, everything = trade.list_questions(
        guarantee, registry.get_mechanism(id).task, cards.TYPICAL_RATINGS
    )
    single_rate = small.assess(guarantee).success_rate
    assert small.assess(guarantee).describe() in unescape_markdown(read_all_text(app))
    assert (everything.assess(guarantee).describe() in unescape_markdown(read_all_text(app))) == (
        single_rate <= cards.MAX_INFORMATIVE_RATE
    )


@pytest.mark.parametrize("id", CARDS)
def test_a_row_gives_each_of_its_reasons_once(id):
    proved, per_user = CARDS[id].certified(), CARDS[id].certified(USER_EMPTIED)
    reason = cards.build_guarantee_row(id, CARDS[id]).reason
    assert not reason.startswith("; ")
    assert "; ; " not in reason
    if not proved.finite or not per_user.finite:
        assert reason.count(per_user.reason if proved.finite else proved.reason) == 1


@pytest.mark.parametrize("id", CARDS)
def test_the_question_decides_what_may_change(id):
    """Whether data were used: emptied. Which ratings they were: replaced."""
    guarantee = CARDS[id]
    small, everything = trade.list_questions(guarantee, registry.get_mechanism(id).task, 59)
    changes = (USER_EMPTIED, USER_REPLACED) if guarantee.change.per_user else (RATING, ROW_VALUES)
    if guarantee.change is CELL:  # that a rating exists is protected, too
        clicks = registry.get_mechanism(id).task is Task.RANKING
        changes = (CELL if clicks else RATING, USER_REPLACED)
    for question, change in zip((small, everything), changes, strict=True):
        assert question.change is change
        capped = dataclasses.replace(
            guarantee, public=dataclasses.replace(guarantee.public, cap=59)
        )
        used = guarantee if question.rated is None else capped
        assert question.assess(guarantee).success_rate == pytest.approx(
            used.attacker_accuracy(change)
        )
        if question is everything and used.certified(change).finite:
            epsilon = cards.format_epsilon(used.certified(change).epsilon)
            assert f": epsilon {epsilon}" in question.assess(guarantee).describe()


def test_a_refuted_claim_is_told_from_one_that_is_not_proved(capsys):
    app = open_page("guarantees", data="movie-night", mechanism="output", every="true")
    app.session_state["every claim"] = True
    app.run()
    spec, positions, *_ = read_figure(app)
    table = next(t.value for t in app.dataframe if "status" in t.value.columns)
    status = dict(zip(table["mechanism"], table["status"], strict=True))
    states = {}
    for id, y in positions.items():
        bound = measurements.find_default_measured_bound(id)
        refuted = bound.measured > bound.epsilon * (1 + 1e-9)
        state = ClaimState.REFUTED if refuted else cards.determine_claim_state(CARDS[id])
        states[id] = state
        assert status[registry.get_short_name(id)] == state.value
        rings = [t for t in spec["data"] if t.get("y") == [y] and "marker" in t]
        symbols = [t["marker"].get("symbol") for t in rings]
        assert ("circle-x" in symbols) == refuted
    assert states["output"] is ClaimState.REFUTED
    assert states["dpimf-sampled"] is ClaimState.CLAIMED  # an attack found less: only not proved
    assert states["input-flip"] is ClaimState.PROVED
    counts = [[*states.values()].count(state) for state in ClaimState]
    match = re.search(
        r"(\d+) (?:is|are) proved, (\d+) .* claimed only and (\d+) .*", read_all_text(app)
    )
    assert [int(match[k].split()[0]) for k in (1, 2, 3)] == counts
    command = re.search(
        r"dpmc audit output --epsilon 1 --seed 1", unescape_markdown(read_all_text(app))
    )
    assert main([*command[0].split()[1:], "--method", "probe", "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)["measured"]
    assert measured == pytest.approx(measurements.find_default_measured_bound("output").measured)


@pytest.mark.parametrize("id", CARDS)
@pytest.mark.parametrize("cap", [None, 7, 50])
def test_a_person_with_so_many_ratings_is_told_the_same_everywhere(id, cap):
    guarantee = dataclasses.replace(
        CARDS[id], public=dataclasses.replace(CARDS[id].public, cap=cap)
    )
    description = cards.describe_person_guarantee(guarantee)
    details = dict(cards.build_privacy_card(guarantee).details)
    if guarantee.certified().finite:
        assert details["one person"] == description
        assert "per user" not in details
    if guarantee.change.per_user or not guarantee.certified().finite:
        return
    assert guarantee.certified(ROW_VALUES).finite  # by the cap, or else by the number of items
    ratings = min(20, cap or 20)
    row, cell_epsilon = (
        cards.certify_ratings(guarantee, ratings).epsilon,
        guarantee.certified().epsilon,
    )
    if guarantee.change is CELL:  # at 20 ratings, 20 epsilons if they disappear and 40 if replaced
        emptied = ratings * cell_epsilon
        assert row == pytest.approx(2 * emptied)
        start = f"{cards.format_epsilon(emptied)} if they disappear, {cards.format_epsilon(row)}"
        row_text = cards.format_epsilon(guarantee.certified(USER_REPLACED).epsilon)
    else:
        start = cards.format_epsilon(row)
        row_text = cards.format_epsilon(guarantee.certified(ROW_VALUES).epsilon)
    if id == "output":  # one rating may move all of the matrix already: said once, in words
        assert row == cell_epsilon == guarantee.certified(ROW_VALUES).epsilon
        assert description.startswith("all ratings together: the same")
        assert row_text not in description
    else:
        assert row > cell_epsilon
        assert description.startswith(f"{ratings} ratings together: epsilon {start}")
        assert row_text in description  # what no person can exceed
    assert "no bound" not in description  # beside a number of the same person's
    assert ("not protected" in details) == math.isinf(guarantee.certified(USER_EMPTIED).epsilon)
    table = cards.tabulate_guarantees([cards.build_guarantee_row("name", guarantee)])
    assert table[cards.PER_PERSON] == [
        cards.format_epsilon(cards.certify_ratings(guarantee, 20).epsilon)
    ]


# --- the attempt to refute a claim ----------------------------------------------------------


def run_audit(app):
    """Return the page once the audit is over."""
    find_button(app, "Attack this claim").click().run()
    wait_until(app, lambda: not app.progress and find_button(app, "Attack this claim"))
    return app


def test_an_audit_that_finds_nothing_confirms_nothing(monkeypatch):
    monkeypatch.setattr(audits, "audit_mechanism", functools.partial(audit_mechanism, runs=20))
    app = run_audit(open_page("guarantees", data="movie-night", mechanism="input-flip"))
    headings = [head.value for head in app.header]
    assert any("stayed below the claim; that is no proof" in text for text in headings)
    lower_bound = next(
        float(t.split("at least ")[1].split(". It")[0]) for t in headings if "at least" in t
    )
    assert 0.5 < lower_bound < 1
    (chart,) = [c for c in list_charts(app) if "at least" in c.proto.alt]
    bars = [t for t in json.loads(chart.proto.spec)["data"] if t["type"] == "bar"]
    assert bars[0]["x"][0] + bars[0]["base"][0] == pytest.approx(lower_bound, rel=0.01)
    statements = [m.value for m in app.markdown if m.value.startswith("**")]
    named = [
        name
        for name in measurements.METHOD_LABELS.values()
        if f"**{name}.**" in " ".join(statements)
    ]
    assert len(named) == len(bars[0]["x"])
