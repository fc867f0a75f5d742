"""Experiments of papers: every figure has a row, results are kept, verdicts are computed."""

import json
import math
import re
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import BadRatings, DpmcError
from dpmc_core.privacy import RATING, USER_EMPTIED
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import format_setting
from dpmc_core.stopping import Stopped
from dpmc_lab import citation, papers, sweep
from dpmc_lab.audit import AuditMethod, audit_mechanism
from dpmc_lab.cli import main
from dpmc_lab.cli import papers as cli_papers
from dpmc_lab.curves import as_published, audits
from dpmc_lab.curves.lines import compute_interval
from dpmc_lab.papers import engine, lwhm22, verdicts, views
from dpmc_lab.papers.engine import (
    Axis,
    Experiment,
    GridRecipe,
    Made,
    Paper,
    Point,
    Printed,
    Promise,
    Series,
    Stamp,
    Statement,
    Trial,
    TrialRecipe,
)
from dpmc_lab.papers.verdicts import Accuracy, Privacy
from dpmc_lab.store import Store
from dpmc_lab.sweep import Grid
from tests.page_helpers import HtmlFile, open_page, read_all_text

ROOT = Path(__file__).resolve().parents[2]
ALL = list(papers.experiments())
IDS = [one.id for _, one in ALL]
STAMP = Stamp(
    "0",
    "dpmc papers x --run",
    {},
    "1:3",
    {"output": registry.get_mechanism("output").revision},
    1.0,
)
# What each paper has, as it numbers it; the summary of HXZ15 has neither figures nor tables.
PLACES = {
    "LWHM22": {"table 1", *(f"figure {n}" for n in ("1a", "1b", "2a", "2b", "3a", "3b", "4", "5"))},
    "Z16": {"figure 1"},
    "RYHH24": {
        *(f"table {n}" for n in ("I", "II", "III", "IV", "V", "VI", "VII", "VIII")),
        *(f"figure {n}" for n in (1, 2, 3, 4, "6a", "6b")),
        *(f"figure {n}{part}" for n in (5, 7, 8) for part in "abcdef"),
    },
    "HXZ15": set(),
    "JTT18": {
        *("table 1", "table 2", "figure 1"),
        *(f"figure 2{part}" for part in "abcde"),
        *(f"figure 3{part}" for part in "abcd"),
    },
}


# --- what there is -------------------------------------------------------------------------------


@pytest.mark.parametrize("key", PLACES)
def test_every_figure_and_table_of_a_paper_has_a_row(key):
    assert PLACES[key] <= {one.place for one in papers.PAPERS[key].experiments}


def test_experiments_can_be_told_apart_and_found():
    assert len(set(IDS)) == len(IDS)
    assert set(papers.PAPERS) == set(PLACES)
    for paper, one in ALL:
        assert one.id.startswith(f"{paper.key.lower()}-")
        assert papers.find(one.id) == (paper, one)
        assert (one.recipe is None) == bool(one.not_run)
    with pytest.raises(DpmcError, match="lwhm22-1b"):
        papers.find("lwhm22-1bb")


@pytest.mark.parametrize(("paper", "one"), ALL, ids=IDS)
def test_what_is_printed_is_named_once_and_says_where(paper, one):
    places = [(p.series, p.x) for p in one.printed]
    assert len(set(places)) == len(places)
    for p in one.printed:
        assert p.place
        assert p.error >= 0
        assert math.isfinite(p.value)
    for said in one.statements:
        assert said.words
        assert said.place
    labels = {p.series for p in one.printed}
    assert set(one.methods.values()) <= set(registry.MECHANISMS)
    assert not one.methods or labels <= set(one.methods)
    assert one.title
    assert paper.title


def test_presets_take_the_papers_estimator():
    for _, one in ALL:
        if isinstance(one.recipe, GridRecipe):
            for id in one.recipe.grid.mechanisms:
                wanted = registry.get_published_settings(id).settings.get("estimator")
                found = (
                    {m.estimator for m in one.recipe.grid.create_variants(id)} if wanted else {None}
                )
                assert wanted in found, one.id


def test_the_printed_tables_are_complete_and_plausible():
    tables = {f"ryhh24-table-{n}": {} for n in range(3, 9)}
    for id, found in tables.items():
        for p in papers.find(id)[1].printed:
            found.setdefault(p.series, {})[p.x] = p.value
    curves = [curve for found in tables.values() for curve in found.values()]
    rows = [value for curve in curves for value in curve.values()]
    assert len(rows) == 6 * 4 * 10
    assert all(0 < value < 1 for value in rows)
    assert tables["ryhh24-table-3"]["opt"][1.0] == 0.5342
    assert tables["ryhh24-table-8"]["opt"][0.1] == 0.0933
    assert tables["ryhh24-table-5"]["str"][0.5] == 0.2708
    for n in (3, 5, 7):  # NDCG never exceeds HR
        hits, gains = tables[f"ryhh24-table-{n}"], tables[f"ryhh24-table-{n + 1}"]
        assert all(gains[c][e] < hits[c][e] for c in hits for e in hits[c])
    (last,) = {p.value for p in papers.find("ryhh24-rounds")[1].printed if p.series == "opt"}
    assert last == tables["ryhh24-table-3"]["opt"][1.0]


def test_what_is_written_once_stands_in_its_places():
    names = {"a": "A", "list": ["{a}", 1], "b": "{a} B"}
    found = papers._filled(["{b}", "{*list}", "{list}", {"x": "<{b}>"}], names)
    assert found == ["A B", "A", 1, ["A", 1], {"x": "<A B>"}]


# --- verdicts ------------------------------------------------------------------------------------


def made(**curves):
    """Curves by label: the mean at each x; each within 0.1 of it."""
    series = tuple(
        Series.of(label, {x: Point(y, 0.1, 3) for x, y in points.items()}, "output")
        for label, points in curves.items()
    )
    return Made(id="x", series=series, stamp=STAMP)


def experiment(*, printed=(), statements=(), promises=()):
    return Experiment(
        id="x",
        place="figure 1",
        title="x",
        printed=tuple(printed),
        statements=tuple(statements),
        promises=tuple(promises),
        not_run="a test",
    )


def paper(unjudged=""):
    return Paper(
        key="X",
        title="x",
        authors=("A B",),
        year=2000,
        venue="x",
        methods=(),
        experiments=(),
        unjudged=unjudged,
    )


def said(holds):
    return Statement("so it is", "page 1", lambda _: holds)


RIGHT, WRONG = Printed("a", 1.0, 2.14, 0.05, "page 1"), Printed("a", 2.0, 9.0, 0.05, "page 1")


@pytest.mark.parametrize(
    ("printed", "statements", "verdict"),
    [
        ([RIGHT], [True], Accuracy.AGREES),
        ([RIGHT], [], Accuracy.AGREES),
        ([RIGHT, WRONG], [True], Accuracy.TREND),
        ([RIGHT], [False], Accuracy.DIFFERS),
        ([WRONG], [], Accuracy.DIFFERS),
        ([RIGHT], [None], Accuracy.OPEN),
        ([], [True], Accuracy.TREND),
        ([], [True, None], Accuracy.OPEN),
        ([RIGHT], [True, None], Accuracy.OPEN),
        ([RIGHT, Printed("b", 1.0, 2.0, 0.0, "page 1")], [True], Accuracy.TREND),
        ([RIGHT, Printed("b", 1.0, 2.0, 0.0, "page 1")], [], Accuracy.OPEN),
        ([RIGHT], [None, False], Accuracy.DIFFERS),
        ([RIGHT, WRONG], [True, None], Accuracy.DIFFERS),
        ([], [True, False], Accuracy.DIFFERS),
        ([], [None], Accuracy.OPEN),
        ([], [], Accuracy.UNJUDGED),  # nothing is said that could be told
    ],
)
def test_the_verdict_on_accuracy(printed, statements, verdict):
    one = experiment(printed=printed, statements=[said(holds) for holds in statements])
    found = verdicts.judge(paper(), one, made(a={1.0: 2.0, 2.0: 2.0}))
    assert found.verdict is verdict
    assert found.reason.endswith(".")


def test_what_was_cut_down_does_not_contradict_a_paper():
    for held, verdict in ((False, Accuracy.SMALLER), (True, Accuracy.TREND), (None, Accuracy.OPEN)):
        one = experiment(statements=[said(held), said(held)])
        one = replace(one, changed=("half of the users",), cut=True)
        assert verdicts.judge(paper(), one, made(a={1.0: 2.0})).verdict is verdict
    ours = made(a={1.0: 2.0, 2.0: 2.0})
    for cut, verdict in ((("a",), Accuracy.SMALLER), (("b",), Accuracy.DIFFERS)):
        part = replace(experiment(printed=[WRONG]), changed=("half of b",), cut=cut)
        assert verdicts.judge(paper(), part, ours).verdict is verdict
    with pytest.raises(ValueError, match="what was changed"):
        replace(one, changed=())
    assert set(verdicts.MEANING) == set(Accuracy)


def draws(rng, n, effect=0.0, shared=0.0):
    """Of two methods over n seeds, means apart by `effect`; shared: what a seed does to both."""
    common = shared * rng.standard_normal(n)
    return [
        Point.of(common + rng.standard_normal(n) + shift) for shift in (effect, 0.0)
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 10])
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("shared", [0.0, 5.0])
def test_equal_methods_are_seldom_told_apart(n, paired, shared):
    """5 % at most to one side, 2.5 % paired. 2,000 draws: above both bounds by 4 sd with chance
    3e-5 in each of twelve cases; the seed is fixed."""
    rng, runs, wrong = np.random.default_rng(n), 2000, 0
    for _ in range(runs):
        a, b = draws(rng, n, shared=shared)
        if not paired:
            a, b = a._replace(draws=()), b._replace(draws=())
        wrong += verdicts.surely_above(a, b) is True
    bound = 0.025 if paired else 0.05
    assert wrong / runs <= bound + 4 * math.sqrt(bound * (1 - bound) / runs)


def test_pairing_by_seed_tells_more():
    rng = np.random.default_rng(1)
    a, b = draws(rng, 10, effect=4.0, shared=20.0)
    assert verdicts.surely_above(a, b) is True
    assert verdicts.surely_above(a._replace(draws=()), b._replace(draws=())) is None
    series = Series.of("a", {1.0: a, 2.0: b})
    assert series.at(1.0).draws == a.draws
    assert Series.of("a", {1.0: a, 2.0: b._replace(draws=())}).draws == ()


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 10])
def test_a_statement_that_is_true_is_seldom_called_wrong(n):
    """Six comparisons of equal methods, each true at its border: 5 % at most for all of them, where
    each alone would make it 14 %. 1,000 draws, above by 4 sd with chance 3e-5; fixed seed."""
    rng, runs = np.random.default_rng(n), 1000
    check = ["above", "a", "b", range(6)]
    statement = Statement("a is above b", "page 1", lambda made: verdicts.holds([check], made))
    wrong = once = 0
    for _ in range(runs):
        pairs = [draws(rng, n) for _ in range(6)]
        curves = (
            Series.of(label, {float(x): pair[k] for x, pair in enumerate(pairs)})
            for k, label in enumerate("ab")
        )
        ours = Made(id="x", series=tuple(curves), stamp=STAMP)
        wrong += verdicts.told_of(statement, ours) is False
        once += statement.holds(ours) is False
    assert wrong / runs <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / runs)
    assert once > 2 * wrong


def test_what_is_equal_in_every_draw_is_not_above():
    rng = np.random.default_rng(1)
    a, b = draws(rng, 5)
    curves = {"a": a, "same": Point.of(a.draws), "like": a._replace(draws=()), "b": b}
    series = tuple(Series.of(label, {1.0: one}) for label, one in curves.items())
    ours = Made(id="x", series=series, stamp=STAMP)
    assert verdicts.above(ours, "a", "same", [1.0]) is False
    assert verdicts.above(ours, "same", "a", [1.0]) is False
    assert verdicts.above(ours, "a", "like", [1.0]) is None
    assert verdicts.above(ours, "a", "b", [1.0]) is None


def test_a_single_seed_tells_nothing_and_what_is_not_drawn_all():
    one = Series.of("one", {x: Point(x, 0.0, 1) for x in (1.0, 2.0)})
    exact = Series.of("exact", {1.0: Point(10.0), 2.0: Point(20.0)})
    ours = Made(id="x", series=(one, exact), stamp=STAMP)
    assert verdicts.rises(ours, "one") is None
    assert verdicts.rises(ours, "exact") is True
    assert verdicts.above(ours, "exact", "one", [1.0]) is None
    assert verdicts.near(ours, "one", 1.0, [1.0], 5.0) is None
    assert verdicts.near(ours, "exact", 10.0, [1.0], 0.1) is True
    for label, value, within in (("one", 1.0, None), ("exact", 10.0, True), ("exact", 9.9, False)):
        printed = experiment(printed=[Printed(label, 1.0, value, 0.0, "page 1")])
        assert verdicts.judge(paper(), printed, ours).compared[0].within is within


def test_words_such_as_close_need_no_number_of_ours():
    ours = made(
        a={1.0: 9.0, 10.0: 3.0}, b={1.0: 1.0, 10.0: 2.0}, c={1.0: 0.0, 10.0: 4.0},
        d={1.0: 9.15, 10.0: 3.15},
    )  # fmt: skip
    assert verdicts.farther(ours, "b", "a", "b", "c", [1.0]) is True
    assert verdicts.farther(ours, "b", "c", "b", "a", [1.0]) is False
    assert verdicts.farther(ours, "b", "c", "b", "a", [1.0, 5.0]) is False
    assert verdicts.approaches(ours, "a", "b", 1.0, 10.0) is True
    assert verdicts.approaches(ours, "b", "c", 1.0, 10.0) is False
    assert verdicts.approaches(ours, "a", "nobody", 1.0, 10.0) is None
    assert verdicts.mean_lead(ours, "a", "b", 4.4, 0.05, [1.0, 10.0]) is True  # 4.5, off by .2
    assert verdicts.mean_lead(ours, "a", "b", 4.2, 0.05, [1.0, 10.0]) is False
    assert verdicts.mean_lead(ours, "d", "a", 0.15, 0.05, [1.0, 10.0]) is None
    assert verdicts.mean_lead(ours, "a", "b", 4.4, 0.05, [1.0, 5.0]) is None


def test_of_many_numbers_some_may_lie_outside():
    """At 95 % one of twenty does: without a statement that alone is no difference."""
    ours = made(a={float(x): 2.0 for x in range(20)})
    for off, verdict in ((0.14, Accuracy.OPEN), (9.0, Accuracy.DIFFERS)):
        numbers = [Printed("a", float(x), 2.0 + off * (x == 0), 0.0, "p") for x in range(20)]
        assert verdicts.judge(paper(), experiment(printed=numbers), ours).verdict is verdict


def test_a_printed_number_counts_within_our_interval_and_the_reading_error():
    ours = made(a={1.0: 2.0})
    for off, within in ((0.149, True), (0.151, False), (-0.149, True), (-0.151, False)):
        one = experiment(printed=[Printed("a", 1.0, 2.0 + off, 0.05, "page 1")])
        assert verdicts.judge(paper(), one, ours).compared[0].within is within
    (none,) = verdicts.judge(
        paper(), experiment(printed=[Printed("b", 1.0, 2.0, 0.0, "page 1")]), ours
    ).compared
    assert none.ours is none.within is None


def test_no_result_no_number_and_no_paper_are_no_verdict():
    one = experiment(printed=[RIGHT], statements=[said(True)])
    found = verdicts.judge(paper(), one, None)
    assert found.verdict is Accuracy.NOT_RUN
    assert found.reason == "A test."
    assert [held for _, held in found.statements] == [{}]
    found = verdicts.judge(paper("a summary only"), one, made(a={1.0: 2.0}))
    assert found.verdict is Accuracy.UNJUDGED


def test_statements_tell_only_what_the_intervals_can_tell():
    ours = made(low={1.0: 0.0, 2.0: 0.05}, high={1.0: 1.0, 2.0: 5.0}, near={1.0: 0.05, 2.0: 0.0})
    assert verdicts.above(ours, "high", "low", [1.0, 2.0]) is True
    assert verdicts.above(ours, "low", "high", [1.0, 2.0]) is False
    assert verdicts.above(ours, "low", "near", [1.0]) is None
    assert verdicts.above(ours, "high", 0.5, [1.0]) is True
    assert verdicts.above(ours, 0.5, "high", [1.0]) is False
    assert verdicts.rises(ours, "high") is True
    assert verdicts.falls(ours, "high") is False
    assert verdicts.rises(ours, "low") is None
    assert verdicts.near(ours, "low", "near", [1.0], 0.5) is True
    assert verdicts.near(ours, "low", "high", [1.0], 0.5) is False
    assert verdicts.near(ours, "low", "high", [1.0], 0.9) is None
    assert verdicts.above(ours, "nobody", "low", [1.0]) is None
    assert verdicts.every([True, None]) is None
    assert verdicts.every([True, None, False]) is False
    assert verdicts.every([]) is None
    assert verdicts.holds([["rises", ["high", "low"]]], ours) is None


SIGNS = PublicFacts(users=30, items=30, low=-1, high=1)


@pytest.mark.parametrize(
    ("id", "change", "verdict"),
    [
        ("input-flip", RATING, Privacy.PROVED),
        ("output", RATING, Privacy.UNPROVED),  # no experiment is set so
        ("input-flip", USER_EMPTIED, Privacy.NARROWER),
        ("private-frank-wolfe", USER_EMPTIED, Privacy.PROVED),
        ("dpmf", RATING, Privacy.COUNTEREXAMPLE),
        ("dpimf-sampled", USER_EMPTIED, Privacy.UNPROVED),
    ],
)
def test_the_verdict_on_a_promise(id, change, verdict):
    public = (
        SIGNS if id in ("input-flip", "output") else PublicFacts(users=30, items=30, low=0, high=1)
    )
    one = experiment(promises=[Promise(mechanism=id, change=change, public=public)])
    (found,) = verdicts.promises(one)
    assert found.verdict is verdict
    assert found.command.startswith("dpmc audit" if verdict is Privacy.COUNTEREXAMPLE else "dpmc p")
    assert looked(one, None)._replace(promises=(found,)).kept == [(f"1 {verdict.value}", verdict)]


def test_each_method_has_its_own_verdict_on_privacy():
    found = views.look(*papers.find("lwhm22-1b"))
    assert found.kept == [
        ("3 proved", Privacy.PROVED),
        ("1 counterexample", Privacy.COUNTEREXAMPLE),
    ]
    (worst,) = (one for one in found.promises if one.verdict is Privacy.COUNTEREXAMPLE)
    assert worst.mechanism == "output"
    assert views.overview([found])["privacy"] == ["3 proved, 1 counterexample"]
    assert found._replace(promises=()).kept == []
    assert found._replace(promises=()).privacy == ""


@pytest.mark.parametrize("id", ["ryhh24-table-3", "ryhh24-5b", "hxz15-cdf"])
def test_an_audit_behind_a_counterexample_is_as_published_and_can_be_had_again(id):
    """The command that stands beside it, on the mechanism that the experiment promises for."""
    _, one = papers.find(id)
    promise = one.promises[-1]
    (found,) = [p for p in verdicts.promises(one) if p.mechanism == promise.mechanism]
    assert found.verdict is Privacy.COUNTEREXAMPLE
    settings = as_published.merge_published_settings(promise.mechanism, promise.settings)
    mechanism = registry.create(promise.mechanism, epsilon=1.0, **settings)
    assert all(f"--set {name}={format_setting(v)}" in found.command for name, v in settings.items())
    report = audit_mechanism(mechanism, change=promise.change, runs=12, methods=[AuditMethod.PROBE])
    record = verdicts._audits()[found.command]
    assert record["epsilon"] == pytest.approx(report.measured, rel=1e-9)
    assert audits.describe_changed_row(report.best.pair) in record["pair"] in found.words
    assert promise.change.relation in found.words


def test_an_audit_of_another_revision_or_of_other_settings_is_none(monkeypatch):
    promise = papers.find("ryhh24-table-3")[1].promises[0]
    record = verdicts._audits()[verdicts.audit_command(promise)]
    for changed in ({"revision": record["revision"] + 1}, {"epsilon": 0.9}):
        told = {verdicts.audit_command(promise): record | changed}
        monkeypatch.setattr(verdicts, "_audits", lambda told=told: told)
        (found,) = verdicts.promises(experiment(promises=[promise]))
        assert found.verdict is Privacy.UNPROVED
    monkeypatch.undo()
    other = replace(promise, settings={**promise.settings, "rank": 3})
    (found,) = verdicts.promises(experiment(promises=[other]))
    assert found.verdict is Privacy.UNPROVED


def test_what_is_true_of_a_theorem_is_said_beside_what_is_not():
    for found in verdicts.promises(papers.find("ryhh24-table-3")[1]):
        assert "one cell of one solve" in found.words
        assert "whole row" in found.words


# --- what is not printed -------------------------------------------------------------------------


def at_settings(**values):
    """`a` at x = 1: ours, and at each setting."""
    ours, *_ = values.values()
    series = (
        Series.of(f"{name}{engine.AT}a", {1.0: Point(y, 0.1, 3)}, "output")
        for name, y in list(values.items())[1:]
    )
    return made(a={1.0: ours}), Made(id="x-settings", series=tuple(series), stamp=STAMP)


def high(limit):
    check = ["above", "a", float(limit), [1.0]]
    return Statement("a is high", "page 1", partial(verdicts.holds, [check]))


@pytest.mark.parametrize(
    ("values", "limits", "verdict"),
    [
        ({"ours": 2.0, "x": 2.0}, [1], Accuracy.TREND),
        ({"ours": 0.0, "x": 2.0}, [1], Accuracy.DEPENDS),
        ({"ours": 2.0, "x": 0.0}, [1], Accuracy.DEPENDS),
        ({"ours": 0.0, "x": 0.5}, [1], Accuracy.DIFFERS),
        ({"ours": 0.0, "x": 1.05}, [1], Accuracy.OPEN),  # x cannot tell
        ({"ours": 1.05, "x": 0.0}, [1], Accuracy.OPEN),
        ({"ours": 1.05, "x": 2.0}, [1], Accuracy.DEPENDS),
        ({"ours": 2.0, "x": 1.05}, [1], Accuracy.TREND),
        ({"ours": 0.0, "x": 2.0}, [1, 3], Accuracy.DIFFERS),  # one holds nowhere
        ({"ours": 0.0, "x": 2.0, "y": 4.0}, [1, 3], Accuracy.DEPENDS),
    ],
)
def test_it_differs_only_where_no_setting_shows_what_is_said(values, limits, verdict):
    ours, tried = at_settings(**values)
    one = experiment(statements=map(high, limits))
    assert verdicts.judge(paper(), one, ours, tried).verdict is verdict


def test_the_settings_at_which_something_holds_are_named():
    ours, tried = at_settings(ours=0.0, x=2.0, y=0.5, z=3.0)
    found = verdicts.judge(paper(), experiment(statements=[high(1)]), ours, tried)
    ((_, held),) = found.statements
    assert held == {"ours": False, "x": True, "y": False, "z": True}
    assert verdicts.told_text(held) == "holds at 2 of 4 settings: x; z"
    assert "2 of 4 settings" in found.reason
    assert verdicts.told_text({"ours": False, "x": None}) == "cannot tell"


def test_printed_numbers_that_are_right_at_a_setting_depend_on_it():
    ours, tried = at_settings(ours=9.0, x=2.0)
    right = Printed("a", 1.0, 2.05, 0.0, "page 1")
    assert verdicts.judge(paper(), experiment(printed=[right]), ours, tried).verdict is (
        Accuracy.DEPENDS
    )
    assert verdicts.judge(paper(), experiment(printed=[right]), ours).verdict is Accuracy.DIFFERS


def test_a_setting_leaves_what_it_does_not_name_and_pairs_the_same_seeds_alone():
    b = Series.of("b", {1.0: Point.of([1.0, 2.0, 3.0])}, "output")
    ours, tried = at_settings(ours=0.0, x=2.0)
    own = Series.of(f"x{engine.AT}a", {1.0: Point.of([2.0, 3.0, 4.0])}, "output")
    ours, tried = replace(ours, series=(*ours.series, b)), replace(tried, series=(own,))
    found = verdicts.at_settings(ours, tried)
    assert list(found) == ["ours", "x"]
    assert found["x"].get("b") == b
    assert found["x"].at("a", 1.0).draws == (2.0, 3.0, 4.0)
    assert verdicts.above(found["x"], "a", "b", [1.0]) is True  # by one in every draw
    others = replace(tried, stamp=STAMP._replace(seeds="4:6"))
    found = verdicts.at_settings(ours, others)
    assert found["x"].at("a", 1.0).draws == ()
    assert verdicts.above(found["x"], "a", "b", [1.0]) is None


def test_nothing_agrees_where_every_method_is_worse_than_a_guess():
    levels = {"zero": 1.0}
    for better, y, verdict in (
        (-1, 2.0, Accuracy.OPEN),
        (-1, 0.5, Accuracy.TREND),
        (1, 2.0, Accuracy.TREND),
        (1, 0.5, Accuracy.OPEN),
        (0, 2.0, Accuracy.TREND),
    ):
        one = replace(experiment(statements=[said(True)]), y=Axis(better=better), guesses=levels)
        ours = one.with_guesses(made(a={1.0: y}))
        assert verdicts.judge(paper(), one, ours).verdict is verdict
    one = replace(experiment(statements=[said(False)]), y=Axis(better=-1), guesses=levels)
    ours = one.with_guesses(made(a={1.0: 2.0}))
    assert verdicts.judge(paper(), one, ours).verdict is Accuracy.DIFFERS


def test_a_band_spans_what_all_settings_give():
    ours, tried = at_settings(ours=0.0, x=2.0, y=-1.0)
    one = experiment(statements=[high(1)])
    look = views.Look(paper(), one, ours, False, verdicts.judge(paper(), one, ours), (), tried)
    (band,) = look.ranges
    assert (band.label, band.low, band.high, band.seeds) == ("a", (-1.0,), (2.0,), (3,))
    assert look._replace(tried=None).ranges == []
    assert "settings" in views.legend(look)


def test_settings_are_named_with_their_reasons_and_made_by_a_command_of_their_own():
    tried = [(paper, one) for paper, one in ALL if one.tried]
    assert {"lwhm22-1a", "lwhm22-2b", "ryhh24-table-3", "ryhh24-rounds", "jtt18-2b"} <= {
        one.id for _, one in tried
    }
    for paper_, one in tried:
        assert len(one.tried) <= 8
        assert all(one.tried.values())
        labels = {trial.label.partition(engine.AT) for trial in one.sweep.trials}
        assert {name for name, _, _ in labels} == set(one.tried)
        assert len(one.sweep.seeds) > 1
        there, own = papers.find(f"{one.id}-settings")
        assert (there, own.recipe, own.tried) == (paper_, one.sweep, {})
        assert own.id not in IDS
        text = dict(views.facts(views.look(paper_, one)))["tried"]
        assert f"{own.id} --run" in text


@pytest.mark.parametrize("fit", ["cut", "one_round_10"])
def test_a_setting_of_a_grid_is_fitted_and_measured(tmp_path, fit):
    _, one = papers.find("lwhm22-1b")
    only = ["gradient", "clear"] if fit == "cut" else ["gradient"]
    small = "one-bit-lab:seed=each,observed=0.1875,link=logistic,d1=20,d2=15"
    recipe = replace(one.recipe, grid=replace(one.recipe.grid, data=[small]))
    rounds = {"gradient.rounds": ["1"]}
    sweep_ = engine.at_setting(
        recipe, lwhm22, only=only, epsilons=[1.0], seeds="1:2", settings=rounds, fit=fit
    )
    both = engine.joined({"x": sweep_, "y": replace(sweep_, trials=[])})
    assert len(both.pieces()) == 2
    found = engine.of_pieces(one.at_settings, both, folder=tmp_path)
    labels = {"x | GraP", "x | Clear"} if fit == "cut" else {"x | GraP"}
    assert {curve.label for curve in found.series} == labels
    assert all(n == 2 for curve in found.series for n in curve.seeds)
    at = {curve.label: curve for curve in found.series}
    assert at["x | GraP"].x == (1.0,)


# --- more promises -------------------------------------------------------------------------------


@pytest.mark.parametrize(("paper", "one"), ALL, ids=IDS)
def test_every_promise_has_a_verdict_and_a_command(paper, one):
    for found in verdicts.promises(one):
        assert found.words.endswith(".")
        assert found.command.startswith("dpmc ")
    assert views.as_dict(views.look(paper, one))["id"] == one.id


# --- results -------------------------------------------------------------------------------------


def test_a_result_is_read_as_it_was_written(tmp_path):
    ours = made(a={1.0: 2.0, 2.0: math.pi})
    path = engine.write(ours, tmp_path)
    again = engine.read(path)
    assert again.stamp == ours.stamp
    assert again.series[0].x == (1.0, 2.0)
    assert again.series[0].mean == pytest.approx((2.0, math.pi), rel=1e-6)
    assert again.current
    assert again.mark == ours.mark
    later = replace(ours, stamp=STAMP._replace(revisions={"output": 0}))
    assert not later.current
    assert later.mark != ours.mark
    whole = json.loads(path.read_text())
    bad = []
    for name, value in (("x", [1.0]), ("mean", ["a", 2]), ("draws", [[1.0], [2.0]]), ("low", None)):
        bad.append(json.dumps({**whole, "series": [{**whole["series"][0], name: value}]}))
    for text in ("", "[]", "5", '{"id": "x"}', *bad):
        path.write_text(text)
        with pytest.raises(BadRatings, match="no result"):
            engine.read(path)


@pytest.mark.parametrize("path", sorted(engine.FOLDER.glob("*")), ids=lambda path: path.stem)
def test_what_ships_is_a_result_of_an_experiment(path):
    found = engine.read(path)
    assert path.name == f"{found.id}.json"
    paper, one = papers.find(found.id)
    assert one.recipe is not None
    assert found.stamp.command.startswith(f"dpmc papers {found.id} --run")
    for curve in found.series:
        assert curve.mechanism is None or curve.mechanism in registry.MECHANISMS
        assert len({len(part) for part in (curve.x, curve.mean, curve.low, curve.high)}) == 1
        assert all(
            low <= mean <= high
            for low, mean, high in zip(curve.low, curve.mean, curve.high, strict=True)
        )
    looked = views.look(paper, one, found)
    assert looked.judged.verdict is not Accuracy.NOT_RUN
    assert {p.series for p in one.printed} & {curve.label for curve in found.series} or (
        not one.printed
    )


GRID = GridRecipe(
    grid=Grid(
        data=["one-bit-lab:seed=each"],
        mechanisms=["input-flip"],
        epsilons=[1, 4],
        seeds=[1, 2],
        settings={"iterations": ["2"], "estimator": ["published"]},
    ),
    metric="are",
    curves={"input-flip": "InP", "clear": "Clear"},
)


def ran(recipe, tmp_path, units=None):
    """The plan of a recipe, and the store with the rows of (some of) its units."""
    plan = engine.planned(recipe)
    store = Store(tmp_path / "run.sqlite")
    for unit in plan.units[:units]:
        _, record = sweep.run_unit_locally(unit, plan.sources[unit.source])
        store.add([record])
    return plan, store


def test_curves_are_means_over_the_seeds_of_the_rows(tmp_path):
    one = replace(experiment(), recipe=GRID, not_run="")
    plan, store = ran(GRID, tmp_path)
    assert {unit.mechanism.id for unit in plan.units} == {"input-flip", "clear"}
    with store:
        found = engine.of_rows(one, GRID, plan, store)
        values = {
            (unit.mechanism.id, unit.epsilon, unit.seed): sweep.run_unit_locally(
                unit, plan.sources[unit.source]
            )[0].metrics["are"]
            for unit in plan.units
        }
    flips, clear = found.get("InP"), found.get("Clear")
    for epsilon in (1.0, 4.0):
        wanted = compute_interval([values["input-flip", epsilon, seed] for seed in (1, 2)])
        assert found.at("InP", epsilon)[:3] == pytest.approx(wanted)
        assert clear.at(epsilon)[:3] == pytest.approx(
            compute_interval([values["clear", None, seed] for seed in (1, 2)])
        )
    assert flips.seeds == (2, 2)
    assert clear.level
    assert not flips.level
    assert found.at("InP", 2.0) is None
    assert found.stamp.settings["InP"]["iterations"] == "2"
    assert found.stamp.revisions == {
        id: registry.get_mechanism(id).revision for id in ("input-flip", "clear")
    }
    assert found.stamp.command == "dpmc papers x --run"


def test_a_curve_of_two_settings_is_refused_and_no_row_is_told(tmp_path):
    twice = replace(
        GRID.grid,
        settings={"iterations": ["1", "2"], "estimator": ["published"]},
        seeds=[1],
        epsilons=[1],
    )
    both = replace(GRID, grid=twice)
    plan, store = ran(both, tmp_path)
    with store:
        with pytest.raises(DpmcError, match="more than one setting"):
            engine.of_rows(experiment(), both, plan, store)
        with pytest.raises(DpmcError, match="no row"):
            engine.of_rows(
                experiment(), replace(both, metric="accuracy"), plan._replace(units=()), store
            )


# --- pieces --------------------------------------------------------------------------------------


def of_pieces(done, total=3, settings=None):
    """An experiment of pieces that write down when they are done."""

    def work(k, seed):
        done.append((k, seed))
        return {"y": np.float64(k * seed), "all": np.arange(2)}

    trials = [
        Trial("a", None, float(k), f"piece {k}", partial(work, k), itemgetter("y"))
        for k in range(total)
    ]
    recipe = TrialRecipe(trials=trials, settings=settings or {}, mechanisms=("output",))
    return Experiment(id="x", place="figure 1", title="x", recipe=recipe)


def test_a_piece_is_done_once_whoever_stops_it(tmp_path):
    done = []
    one = of_pieces(done)
    far = []
    with pytest.raises(Stopped):
        engine.of_pieces(one, one.recipe, folder=tmp_path, stop=lambda: len(done) == 2)
    assert done == [(0, 1), (1, 1)]
    found = engine.of_pieces(one, one.recipe, folder=tmp_path, tell=far.append)
    assert done == [(0, 1), (1, 1), (2, 1)]
    assert far == [(2, 3), (3, 3)]
    assert found.series[0].mean == (0.0, 1.0, 2.0)
    assert found.current
    engine.of_pieces(one, one.recipe, folder=tmp_path)
    assert len(done) == 3
    changed = of_pieces(done, settings={"size": 2})  # nothing of the old one counts
    engine.of_pieces(changed, changed.recipe, folder=tmp_path)
    assert len(done) == 6


def test_other_seeds_leave_the_pieces_of_the_first(tmp_path):
    done = []
    one = of_pieces(done)
    engine.of_pieces(one, one.recipe, folder=tmp_path)
    other = engine.of_pieces(one, engine.recipe_of(one, [1, 2]), folder=tmp_path)
    assert done[3:] == [(0, 2), (1, 2), (2, 2)]
    assert other.stamp.seeds == "1:2"
    assert other.stamp.command == "dpmc papers x --run --seeds 1:2"
    assert other.series[0].mean == (0.0, 1.5, 3.0)
    assert other.series[0].draws == ((0.0, 0.0), (1.0, 2.0), (2.0, 4.0))
    again = engine.of_pieces(one, one.recipe, folder=tmp_path)
    assert again.series[0].mean == (0.0, 1.0, 2.0)
    assert len(done) == 6


def test_a_line_that_was_cut_off_is_done_again(tmp_path):
    done = []
    one = of_pieces(done)
    engine.of_pieces(one, one.recipe, folder=tmp_path)
    path = tmp_path / "x.pieces.jsonl"
    path.write_text(path.read_text()[:-9])
    engine.of_pieces(one, one.recipe, folder=tmp_path)
    assert done[3:] == [(2, 1)]
    assert engine.of_pieces(one, one.recipe, folder=tmp_path).series[0].mean == (0.0, 1.0, 2.0)
    assert len(done) == 4


def test_a_result_of_other_settings_is_not_held_against_a_paper(tmp_path):
    one = of_pieces([], settings={"size": (1, 2)})
    ours = engine.of_pieces(one, one.recipe, folder=tmp_path)
    again = engine.read(engine.write(ours, tmp_path))
    assert one.makes(ours)
    assert one.makes(again)
    later = replace(one, recipe=replace(one.recipe, settings={"size": 3}))
    assert not later.makes(again)
    for made_by, verdict in ((one, Accuracy.DIFFERS), (later, Accuracy.SMALLER)):
        asked = replace(made_by, statements=(said(False), said(False)))
        assert verdicts.judge(paper(), asked, again).verdict is verdict


def test_what_has_no_recipe_says_why():
    with pytest.raises(DpmcError, match="a test"):
        engine.recipe_of(experiment())
    with pytest.raises(ValueError, match="recipe"):
        Experiment(id="x", place="figure 1", title="x")
    one = of_pieces([])
    assert engine.recipe_of(one, [4]).seeds == (4,)


# --- all of them by one command ------------------------------------------------------------------


def movielens_10m(home, users=40, items=150):
    """A few made-up ratings in the files of MovieLens 10M, where a download would put them."""
    folder = home / "data" / "ml-10m"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    rows = [
        f"{u}::{i}::{rng.integers(1, 11) / 2:g}::{u * items + i}"
        for u in range(1, users + 1)
        for i in rng.choice(np.arange(1, items + 1), 25, replace=False)
    ]
    (folder / "ratings.dat").write_text("\n".join(rows) + "\n")
    (folder / "movies.dat").write_text("1::A (2000)::Drama\n")
    (folder / "README.html").write_text("10000054 ratings")
    (folder / "tags.dat").write_text("")


def test_all_that_can_be_made_is_made_once_and_what_lacks_data_says_so(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "home"))
    folder = tmp_path / "made"
    words = ["papers", "hxz15", "--run", "--write", str(folder)]
    assert main(words) == 0
    assert "hxz15-cdf is left out: first dpmc data get ml-100k" in capsys.readouterr().err
    (path,) = folder.iterdir()
    assert path.stem == "hxz15-communication"
    before = path.stat().st_mtime_ns
    assert main(words) == 0
    assert path.stat().st_mtime_ns == before
    assert "hxz15-communication" not in capsys.readouterr().err
    made = engine.read(path)
    for changed in (
        replace(made, stamp=made.stamp._replace(seeds="1:2")),
        replace(made, stamp=made.stamp._replace(settings={"other": 1})),
        replace(made, stamp=made.stamp._replace(revisions={"dpmf": -1})),
    ):
        engine.write(changed, folder)
        assert main(words) == 0
        assert engine.read(path).stamp[:5] == made.stamp[:5]


def test_one_that_fails_does_not_stop_the_others(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "home"))
    asked = []

    def make(one, *_, **__):
        asked.append(one.id)
        if one.id == "z16-theorem-3":
            raise DpmcError("it is broken")
        return engine.shipped(one.id)

    monkeypatch.setattr(engine, "of_pieces", make)
    assert main(["papers", "z16", "--run", "--write", str(tmp_path / "made")]) == 1
    assert asked == ["z16-theorem-3", "z16-generated"]
    assert [path.stem for path in (tmp_path / "made").iterdir()] == ["z16-generated"]
    assert "z16-theorem-3: it is broken" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("id", "seeds"), [("jtt18-2a", 10), ("z16-generated", 10), ("hxz15-cdf", 3)]
)
def test_the_printed_number_of_draws_is_made_where_there_is_one(id, seeds, monkeypatch, tmp_path):
    asked = []

    def make(one, recipe, **_):
        asked.append(recipe.seeds)
        return engine.shipped(one.id)

    monkeypatch.setattr(engine, "of_pieces", make)
    words = ["papers", id, "--run", "--seeds", "printed", "--write", str(tmp_path)]
    assert main(words) == 0
    assert asked == [tuple(range(1, seeds + 1))]


def test_the_paper_s_draws_stand_beside_ours_with_what_all_would_take():
    one = replace(experiment(), not_run="", recipe=of_pieces([]).recipe, draws=30)
    stamp = STAMP._replace(seconds=120.0, seeds="1:3")
    ours = replace(made(a={1.0: 2.0}), stamp=stamp)
    assert views.draws(looked(one, ours)).endswith("all of them would take 20 min of computing.")
    assert "would take" not in views.draws(looked(replace(one, draws=3), ours))
    assert "not print" in views.draws(looked(replace(one, draws=0), ours))
    assert views.draws(looked(one, None)) == "The paper averages over 30."
    assert views.draws(looked(experiment(), None)) == ""
    printed = {one.id: one.draws for _, one in ALL if one.draws}
    assert {
        id: printed[f"lwhm22-{id}"] for id in ("1a", "1b", "2a", "2b", "3a", "3b", "4", "5")
    } == {
        **dict.fromkeys(("1a", "1b"), 40),
        **dict.fromkeys(("2a", "2b", "3a", "3b", "4", "5"), 10),
    }
    assert {id for id in printed if printed[id] == 10} >= {
        f"jtt18-{id}" for id in ("2b", "2c", "3a")
    }


@pytest.mark.slow
def test_figures_of_movielens_10m_are_made_once_it_is_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    before = {"jtt18-2c", "jtt18-3b"}
    assert {one.id for _, one in ALL if "ml-10m" in one.needs} == before
    at_size = {f"ryhh24-{id}" for id in ("5b", "7a", "7b", "8a", "8b")}
    assert {one.id for _, one in ALL if one.at_size} == at_size
    assert main(["papers", "jtt18-2c", "--run", "--seeds", "1"]) == 1
    assert "dpmc data get ml-10m" in capsys.readouterr().err
    movielens_10m(tmp_path)
    assert main(["papers", "jtt18-3b", "--run", "--seeds", "1", "--jobs", "1"]) == 0
    assert engine.own("jtt18-3b").get("Private FW")


@pytest.mark.slow
def test_what_another_set_stands_in_for_is_made_at_its_size_where_that_is_there(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    paper_, one = papers.find("ryhh24-5b")
    assert one.fullest is one
    assert one.at_size.id == one.id
    movielens_10m(tmp_path)
    assert one.fullest is one.at_size
    shipped = views.look(paper_, one)
    assert any("in place of MovieLens 10M" in text for text in shipped.experiment.changed)
    assert "other settings" not in shipped.judged.reason
    assert main(["papers", "ryhh24-5b", "--run", "--seeds", "1"]) == 0
    mine = views.look(paper_, one)
    assert mine.own
    assert all("ml-10m" in key for key in mine.made.stamp.settings["runs"])
    assert not any("in place of MovieLens 10M" in text for text in mine.experiment.changed)
    assert "other settings" not in mine.judged.reason


def test_what_keeps_a_figure_from_being_made_is_the_data_that_it_reads():
    assert papers.find("ryhh24-rounds")[1].needs == ("ml-100k", "amazon")
    for _, one in ALL:
        if isinstance(one.recipe, GridRecipe):
            read = {text.partition("/")[0].partition(":")[0] for text in one.recipe.grid.data}
            assert set(one.needs) == read - {"one-bit-lab"}, one.id
        for text in (
            one.recipe.settings.get("runs", ())
            if one.id.startswith("ryhh24") and (isinstance(one.recipe, TrialRecipe))
            else ()
        ):
            assert text.split()[0] in one.needs, one.id
    assert all(one.needs == ("ml-100k",) for _, one in ALL if one.id in ("hxz15-cdf", "ryhh24-6a"))


# --- words, pictures, the report -----------------------------------------------------------------


@pytest.mark.slow
def test_why_is_found_by_something_that_is_there_or_supposed():
    one = replace(experiment(), found=(("so it is", "dpmc papers x"),), why="who knows")
    known = "Found: so it is (shown by dpmc papers x)."
    assert views.why(one) == [known, "Supposed: Who knows."]
    assert views.why(replace(one, why="")) == [known]
    assert views.why(replace(one, found=())) == ["Supposed: Who knows."]
    assert views.why(experiment()) == []
    told = " ".join(views.why(papers.find("lwhm22-1a")[1]))
    assert told in dict(views.facts(views.look(*papers.find("lwhm22-1a"))))["why"]
    assert all(
        line in read_all_text(open_page("papers", experiment="lwhm22-3a"))
        for line in ("Found: without privacy", "shown by lwhm22-3a", "Supposed: So few ratings")
    )
    for _, one in ALL:
        for words, shown in one.found:
            assert words.strip()
            command = shown.split()
            if len(command) > 1:
                assert command[:2] in (["dpmc", "fit"], ["dpmc", "audit"]), one.id
                assert registry.get_mechanism(command[3 if command[1] == "fit" else 2])
                assert "--epsilon" in command
            else:
                assert papers.find(shown), one.id
                assert engine.shipped(shown), (one.id, shown)


def test_all_is_made_at_the_size_that_is_there(monkeypatch):
    """Planted bug: what is smaller for want of MovieLens 10M was left out where only that is."""
    made = []
    monkeypatch.setattr(engine.public_sets, "is_downloaded", "ml-10m".__eq__)
    monkeypatch.setattr(cli_papers, "_make_experiment", lambda one, *_, **__: made.append(one.id))
    cli_papers._make_all([papers.PAPERS["RYHH24"]], None, False)
    assert {f"ryhh24-{part}" for part in ("5b", "7a", "7b", "8a", "8b")} <= {*made}
    assert "ryhh24-table-3" not in made


@pytest.mark.slow
def test_what_holds_has_one_number_wherever_it_is_told(capsys):
    looks = views.all_looks(papers.PAPERS.values())
    told = views.opening(looks)
    held = [h for one in looks for _, h in one.judged.statements]
    assert f"{len(held)} statements" in told
    assert [int(n) for n in re.findall(r"(\d+) (?:hold|do|can|not)", told)] == [
        sum(bool(h) and all(h.values()) for h in held),
        sum(any(h.values()) and not all(h.values()) for h in held),
        sum({*h.values()} == {False} for h in held),
        sum(None in h.values() and not any(h.values()) for h in held),
        sum(not h for h in held),
    ]
    table = views.standing(looks)
    for name, texts in [*table.items()][1:]:
        *each, total = map(int, texts)
        assert total == sum(each), name
    assert main(["papers"]) == 0
    assert told in " ".join(capsys.readouterr().out.split())
    assert f"<p>{told}</p>" in views.html(looks)
    assert told in read_all_text(open_page("papers"))
    assert main(["papers", "z16"]) == 0
    z16 = [one for one in looks if one.paper.key == "Z16"]
    assert views.opening(z16) in " ".join(capsys.readouterr().out.split())
    assert views.opening(z16) in read_all_text(open_page("papers", paper="z16"))


def looked(one, ours):
    judged = verdicts.judge(paper(), one, ours)
    return views.Look(paper(), one, ours, False, judged, ())


def test_what_is_not_run_is_not_told_to_hold_or_not():
    not_run = [said(True), said(None)]
    found = looked(experiment(statements=not_run), None)
    assert {verdicts.told_text(h) for _, h in found.judged.statements} == {"not run"}
    assert views.opening([found]) == "X, 2 statements: 2 not run."


def test_the_numbers_hold_ours_and_the_printed_ones():
    one = experiment(printed=[RIGHT, Printed("b", 3.0, 1.0, 0.0, "page 2")])
    found = views.numbers(looked(one, made(a={1.0: 2.0, 2.0: 3.0})))
    rows = list(zip(*found.values(), strict=True))
    assert [row[:2] for row in rows] == [("a", "1"), ("a", "2"), ("b", "3")]
    assert rows[0][2:] == ("2 ± 0.1", "2.14 ± 0.05", "yes", "page 1")
    assert rows[1][3:] == ("", "", "")
    assert rows[2][2] == "none"
    exact = views.exact_numbers(looked(one, made(a={1.0: 2.0, 2.0: 3.0})))
    assert exact["whose"] == ["ours", "ours", "printed", "printed"]
    assert exact["value"][0] == 2.0


def test_the_report_stands_alone_and_holds_every_experiment():
    one = experiment(printed=[RIGHT])
    one = replace(one, title="<b>&", x=Axis("e"))
    no_theory = replace(paper(), theorems=())
    found = looked(one, made(a={1.0: 2.0, 2.0: 3.0}))._replace(paper=no_theory)
    text = views.html([found])
    elements = [attrs for _, attrs in HtmlFile(text).elements]
    assert [one["href"] for one in elements if "href" in one] == ["#x"]
    assert {one["id"] for one in elements if "id" in one} == {"x"}
    assert "<b>&" not in text
    assert "<script" not in text
    assert "http" not in text
    for number in views.numbers(found)["ours"]:
        assert f">{number}</td>" in text


@pytest.mark.slow
def test_dpmc_papers_lists_and_shows(capsys):
    assert main(["papers"]) == 0
    listed = capsys.readouterr().out
    assert all(id in listed for id in IDS)
    assert main(["papers", "lwhm22-1b"]) == 0
    assert "output" in capsys.readouterr().out.lower()
    assert main(["papers", "jtt18", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in shown] == [e.id for e in papers.PAPERS["JTT18"].experiments]
    assert main(["papers", "--bibtex"]) == 0
    assert capsys.readouterr().out.count("@") == len(papers.PAPERS)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["lwhm23"], "lwhm22"),
        (["lwhm22-1b", "--run", "--seeds", "print"], "--seeds"),
        (["jtt18-2d", "--run"], "Netflix"),
        (["lwhm22-1b", "--seeds", "1"], "--run"),
        (["lwhm22-1b", "--jobs", "1"], "--run"),
        (["lwhm22-1b", "--store", "x"], "left out without --run, got 'x'"),
        (["z16-generated", "--run", "--write", __file__], "is a file: name a folder"),
        pytest.param(["--report", str(ROOT)], "is a folder: name a file", marks=pytest.mark.slow),
        (["lwhm22-1b", "--run", "--seeds", "x"], "--seeds"),
        (["--csv", "x"], "papers --csv is gone"),
        pytest.param(["--report", "/nowhere/at/all.html"], "no folder", marks=pytest.mark.slow),
    ],
)
def test_dpmc_papers_says_what_is_wrong(argv, said, capsys):
    assert main(["papers", *argv]) == 1
    assert said in capsys.readouterr().err


def test_a_run_tells_programs_where_its_result_is(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "home"))
    words = ["papers", "jtt18-table-1", "--run", "--json", "--write", str(tmp_path / "new" / "one")]
    assert main(words) == 0
    told = capsys.readouterr()
    assert not told.err  # what a page takes for the last words of a run that failed
    *_, last = map(json.loads, told.out.splitlines())
    assert last["accuracy"] == "agrees"
    assert engine.read(Path(last["result"])).id == "jtt18-table-1"
    for more in (["--bibtex"], ["--theory"], []):
        assert main(["papers", "hxz15", "--json", *more]) == 0
        assert json.loads(capsys.readouterr().out)
    assert main(["papers", "--report", "x", "--bibtex"]) == 2


def test_the_citation_names_the_papers():
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["authors"] == [{"name": "DPMC Lab contributors"}]
    assert len(cited["references"]) == len(papers.PAPERS)
    for reference, paper in zip(cited["references"], papers.PAPERS.values(), strict=True):
        assert reference["title"] == paper.title
        assert reference["year"] == paper.year
        names = [f"{one['given-names']} {one['family-names']}" for one in reference["authors"]]
        assert tuple(names) == paper.authors
        assert paper.title in paper.bibtex
        assert {*paper.methods} == set().union(*(one.runs for one in paper.experiments))
    assert [one.key for one in citation.find_papers_running(["pmf", "objective"])] == [
        "HXZ15",
        "LWHM22",
    ]
