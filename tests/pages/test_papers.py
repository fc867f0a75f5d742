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
IDS = [entry.id for _, entry in ALL]
STAMP = Stamp(
    "0",
    "dpmc papers x --run",
    {},
    "1:3",
    {"output": registry.get_mechanism("output").revision},
    1.0,
)
# What each paper has, as it numbers it; the summary of HXZ15 has neither figures nor tables.
FIGURES_AND_TABLES = {
    "LWHM22": {"table 1", *(f"figure {n}" for n in ("1a", "1b", "2a", "2b", "3a", "3b", "4", "5"))},
    "Z16": {"figure 1"},
    "RYHH24": {
        *(f"table {n}" for n in ("I", "II", "III", "IV", "V", "VI", "VII", "VIII")),
        *(f"figure {n}" for n in (1, 2, 3, 4, "6a", "6b")),
        *(f"figure {n}{letter}" for n in (5, 7, 8) for letter in "abcdef"),
    },
    "HXZ15": set(),
    "JTT18": {
        *("table 1", "table 2", "figure 1"),
        *(f"figure 2{letter}" for letter in "abcde"),
        *(f"figure 3{letter}" for letter in "abcd"),
    },
}


# --- what there is -------------------------------------------------------------------------------


@pytest.mark.parametrize("key", FIGURES_AND_TABLES)
def test_every_figure_and_table_of_a_paper_has_a_row(key):
    assert FIGURES_AND_TABLES[key] <= {entry.place for entry in papers.PAPERS[key].experiments}


def test_experiments_can_be_told_apart_and_found():
    assert len(set(IDS)) == len(IDS)
    assert set(papers.PAPERS) == set(FIGURES_AND_TABLES)
    for paper, entry in ALL:
        assert entry.id.startswith(f"{paper.key.lower()}-")
        assert papers.find(entry.id) == (paper, entry)
        assert (entry.recipe is None) == bool(entry.not_run)
    with pytest.raises(DpmcError, match="lwhm22-1b"):
        papers.find("lwhm22-1bb")


@pytest.mark.parametrize(("paper", "entry"), ALL, ids=IDS)
def test_what_is_printed_is_named_once_and_says_where(paper, entry):
    points = [(p.series, p.x) for p in entry.printed]
    assert len(set(points)) == len(points)
    for p in entry.printed:
        assert p.place
        assert p.error >= 0
        assert math.isfinite(p.value)
    for statement in entry.statements:
        assert statement.words
        assert statement.place
    labels = {p.series for p in entry.printed}
    assert set(entry.methods.values()) <= set(registry.MECHANISMS)
    assert not entry.methods or labels <= set(entry.methods)
    assert entry.title
    assert paper.title


def test_presets_take_the_papers_estimator():
    for _, entry in ALL:
        if isinstance(entry.recipe, GridRecipe):
            for id in entry.recipe.grid.mechanisms:
                expected_estimator = registry.get_published_settings(id).settings.get("estimator")
                actual = (
                    {m.estimator for m in entry.recipe.grid.create_variants(id)}
                    if expected_estimator
                    else {None}
                )
                assert expected_estimator in actual, entry.id


def test_the_printed_tables_are_complete_and_plausible():
    tables = {f"ryhh24-table-{n}": {} for n in range(3, 9)}
    for id, table in tables.items():
        for p in papers.find(id)[1].printed:
            table.setdefault(p.series, {})[p.x] = p.value
    curves = [curve for table in tables.values() for curve in table.values()]
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
    filled = papers._filled(["{b}", "{*list}", "{list}", {"x": "<{b}>"}], names)
    assert filled == ["A B", "A", 1, ["A", 1], {"x": "<A B>"}]


# --- verdicts ------------------------------------------------------------------------------------


def build_result(**curves):
    """Build curves by label: the mean at each x, each within 0.1 of it."""
    series = tuple(
        Series.of(label, {x: Point(y, 0.1, 3) for x, y in points.items()}, "output")
        for label, points in curves.items()
    )
    return Made(id="x", series=series, stamp=STAMP)


def build_experiment(*, printed=(), statements=(), promises=()):
    return Experiment(
        id="x",
        place="figure 1",
        title="x",
        printed=tuple(printed),
        statements=tuple(statements),
        promises=tuple(promises),
        not_run="a test",
    )


def build_paper(unjudged=""):
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


def build_statement(holds):
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
    entry = build_experiment(
        printed=printed, statements=[build_statement(holds) for holds in statements]
    )
    judgement = verdicts.judge(build_paper(), entry, build_result(a={1.0: 2.0, 2.0: 2.0}))
    assert judgement.verdict is verdict
    assert judgement.reason.endswith(".")


def test_what_was_cut_down_does_not_contradict_a_paper():
    for outcome, verdict in (
        (False, Accuracy.SMALLER),
        (True, Accuracy.TREND),
        (None, Accuracy.OPEN),
    ):
        entry = build_experiment(statements=[build_statement(outcome), build_statement(outcome)])
        entry = replace(entry, changed=("half of the users",), cut=True)
        assert verdicts.judge(build_paper(), entry, build_result(a={1.0: 2.0})).verdict is verdict
    result = build_result(a={1.0: 2.0, 2.0: 2.0})
    for shortened, verdict in ((("a",), Accuracy.SMALLER), (("b",), Accuracy.DIFFERS)):
        partial = replace(build_experiment(printed=[WRONG]), changed=("half of b",), cut=shortened)
        assert verdicts.judge(build_paper(), partial, result).verdict is verdict
    with pytest.raises(ValueError, match="what was changed"):
        replace(entry, changed=())
    assert set(verdicts.MEANING) == set(Accuracy)


def draw_points(rng, n, effect=0.0, shared=0.0):
    """Draw two methods over n seeds, means apart by `effect`, with a `shared` effect of a seed."""
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
        a, b = draw_points(rng, n, shared=shared)
        if not paired:
            a, b = a._replace(draws=()), b._replace(draws=())
        wrong += verdicts.surely_above(a, b) is True
    bound = 0.025 if paired else 0.05
    assert wrong / runs <= bound + 4 * math.sqrt(bound * (1 - bound) / runs)


def test_pairing_by_seed_tells_more():
    rng = np.random.default_rng(1)
    a, b = draw_points(rng, 10, effect=4.0, shared=20.0)
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
    statement = Statement("a is above b", "page 1", lambda result: verdicts.holds([check], result))
    wrong = n_single = 0
    for _ in range(runs):
        pairs = [draw_points(rng, n) for _ in range(6)]
        curves = (
            Series.of(label, {float(x): pair[k] for x, pair in enumerate(pairs)})
            for k, label in enumerate("ab")
        )
        result = Made(id="x", series=tuple(curves), stamp=STAMP)
        wrong += verdicts.told_of(statement, result) is False
        n_single += statement.holds(result) is False
    assert wrong / runs <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / runs)
    assert n_single > 2 * wrong


def test_what_is_equal_in_every_draw_is_not_above():
    rng = np.random.default_rng(1)
    a, b = draw_points(rng, 5)
    curves = {"a": a, "same": Point.of(a.draws), "like": a._replace(draws=()), "b": b}
    series = tuple(Series.of(label, {1.0: point}) for label, point in curves.items())
    result = Made(id="x", series=series, stamp=STAMP)
    assert verdicts.above(result, "a", "same", [1.0]) is False
    assert verdicts.above(result, "same", "a", [1.0]) is False
    assert verdicts.above(result, "a", "like", [1.0]) is None
    assert verdicts.above(result, "a", "b", [1.0]) is None


def test_a_single_seed_tells_nothing_and_what_is_not_drawn_all():
    single = Series.of("one", {x: Point(x, 0.0, 1) for x in (1.0, 2.0)})
    exact = Series.of("exact", {1.0: Point(10.0), 2.0: Point(20.0)})
    result = Made(id="x", series=(single, exact), stamp=STAMP)
    assert verdicts.rises(result, "one") is None
    assert verdicts.rises(result, "exact") is True
    assert verdicts.above(result, "exact", "one", [1.0]) is None
    assert verdicts.near(result, "one", 1.0, [1.0], 5.0) is None
    assert verdicts.near(result, "exact", 10.0, [1.0], 0.1) is True
    for label, value, expected in (
        ("one", 1.0, None),
        ("exact", 10.0, True),
        ("exact", 9.9, False),
    ):
        printed = build_experiment(printed=[Printed(label, 1.0, value, 0.0, "page 1")])
        assert verdicts.judge(build_paper(), printed, result).compared[0].within is expected


def test_words_such_as_close_need_no_number_of_ours():
    result = build_result(
        a={1.0: 9.0, 10.0: 3.0}, b={1.0: 1.0, 10.0: 2.0}, c={1.0: 0.0, 10.0: 4.0},
        d={1.0: 9.15, 10.0: 3.15},
    )  # fmt: skip
    assert verdicts.farther(result, "b", "a", "b", "c", [1.0]) is True
    assert verdicts.farther(result, "b", "c", "b", "a", [1.0]) is False
    assert verdicts.farther(result, "b", "c", "b", "a", [1.0, 5.0]) is False
    assert verdicts.approaches(result, "a", "b", 1.0, 10.0) is True
    assert verdicts.approaches(result, "b", "c", 1.0, 10.0) is False
    assert verdicts.approaches(result, "a", "nobody", 1.0, 10.0) is None
    assert verdicts.mean_lead(result, "a", "b", 4.4, 0.05, [1.0, 10.0]) is True  # 4.5, off by .2
    assert verdicts.mean_lead(result, "a", "b", 4.2, 0.05, [1.0, 10.0]) is False
    assert verdicts.mean_lead(result, "d", "a", 0.15, 0.05, [1.0, 10.0]) is None
    assert verdicts.mean_lead(result, "a", "b", 4.4, 0.05, [1.0, 5.0]) is None


def test_of_many_numbers_some_may_lie_outside():
    """At 95 % one of twenty does: without a statement that alone is no difference."""
    result = build_result(a={float(x): 2.0 for x in range(20)})
    for off, verdict in ((0.14, Accuracy.OPEN), (9.0, Accuracy.DIFFERS)):
        numbers = [Printed("a", float(x), 2.0 + off * (x == 0), 0.0, "p") for x in range(20)]
        assert (
            verdicts.judge(build_paper(), build_experiment(printed=numbers), result).verdict
            is verdict
        )


def test_a_printed_number_counts_within_our_interval_and_the_reading_error():
    result = build_result(a={1.0: 2.0})
    for off, expected in ((0.149, True), (0.151, False), (-0.149, True), (-0.151, False)):
        entry = build_experiment(printed=[Printed("a", 1.0, 2.0 + off, 0.05, "page 1")])
        assert verdicts.judge(build_paper(), entry, result).compared[0].within is expected
    (none,) = verdicts.judge(
        build_paper(), build_experiment(printed=[Printed("b", 1.0, 2.0, 0.0, "page 1")]), result
    ).compared
    assert none.ours is none.within is None


def test_no_result_no_number_and_no_paper_are_no_verdict():
    entry = build_experiment(printed=[RIGHT], statements=[build_statement(True)])
    judgement = verdicts.judge(build_paper(), entry, None)
    assert judgement.verdict is Accuracy.NOT_RUN
    assert judgement.reason == "A test."
    assert [outcome for _, outcome in judgement.statements] == [{}]
    judgement = verdicts.judge(build_paper("a summary only"), entry, build_result(a={1.0: 2.0}))
    assert judgement.verdict is Accuracy.UNJUDGED


def test_statements_tell_only_what_the_intervals_can_tell():
    result = build_result(
        low={1.0: 0.0, 2.0: 0.05}, high={1.0: 1.0, 2.0: 5.0}, near={1.0: 0.05, 2.0: 0.0}
    )
    assert verdicts.above(result, "high", "low", [1.0, 2.0]) is True
    assert verdicts.above(result, "low", "high", [1.0, 2.0]) is False
    assert verdicts.above(result, "low", "near", [1.0]) is None
    assert verdicts.above(result, "high", 0.5, [1.0]) is True
    assert verdicts.above(result, 0.5, "high", [1.0]) is False
    assert verdicts.rises(result, "high") is True
    assert verdicts.falls(result, "high") is False
    assert verdicts.rises(result, "low") is None
    assert verdicts.near(result, "low", "near", [1.0], 0.5) is True
    assert verdicts.near(result, "low", "high", [1.0], 0.5) is False
    assert verdicts.near(result, "low", "high", [1.0], 0.9) is None
    assert verdicts.above(result, "nobody", "low", [1.0]) is None
    assert verdicts.every([True, None]) is None
    assert verdicts.every([True, None, False]) is False
    assert verdicts.every([]) is None
    assert verdicts.holds([["rises", ["high", "low"]]], result) is None


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
    entry = build_experiment(promises=[Promise(mechanism=id, change=change, public=public)])
    (promise_verdict,) = verdicts.promises(entry)
    assert promise_verdict.verdict is verdict
    assert promise_verdict.command.startswith(
        "dpmc audit" if verdict is Privacy.COUNTEREXAMPLE else "dpmc p"
    )
    assert build_view(entry, None)._replace(promises=(promise_verdict,)).kept == [
        (f"1 {verdict.value}", verdict)
    ]


def test_each_method_has_its_own_verdict_on_privacy():
    figure_view = views.look(*papers.find("lwhm22-1b"))
    assert figure_view.kept == [
        ("3 proved", Privacy.PROVED),
        ("1 counterexample", Privacy.COUNTEREXAMPLE),
    ]
    (worst,) = (
        candidate
        for candidate in figure_view.promises
        if candidate.verdict is Privacy.COUNTEREXAMPLE
    )
    assert worst.mechanism == "output"
    assert views.overview([figure_view])["privacy"] == ["3 proved, 1 counterexample"]
    assert figure_view._replace(promises=()).kept == []
    assert figure_view._replace(promises=()).privacy == ""


@pytest.mark.parametrize("id", ["ryhh24-table-3", "ryhh24-5b", "hxz15-cdf"])
def test_an_audit_behind_a_counterexample_is_as_published_and_can_be_had_again(id):
    """The command that stands beside it, on the mechanism that the experiment promises for."""
    _, entry = papers.find(id)
    promise = entry.promises[-1]
    (verdict,) = [p for p in verdicts.promises(entry) if p.mechanism == promise.mechanism]
    assert verdict.verdict is Privacy.COUNTEREXAMPLE
    settings = as_published.merge_published_settings(promise.mechanism, promise.settings)
    mechanism = registry.create(promise.mechanism, epsilon=1.0, **settings)
    assert all(
        f"--set {name}={format_setting(v)}" in verdict.command for name, v in settings.items()
    )
    report = audit_mechanism(mechanism, change=promise.change, runs=12, methods=[AuditMethod.PROBE])
    record = verdicts._audits()[verdict.command]
    assert record["epsilon"] == pytest.approx(report.measured, rel=1e-9)
    assert audits.describe_changed_row(report.best.pair) in record["pair"] in verdict.words
    assert promise.change.relation in verdict.words


def test_an_audit_of_another_revision_or_of_other_settings_is_none(monkeypatch):
    promise = papers.find("ryhh24-table-3")[1].promises[0]
    record = verdicts._audits()[verdicts.audit_command(promise)]
    for changed in ({"revision": record["revision"] + 1}, {"epsilon": 0.9}):
        measured = {verdicts.audit_command(promise): record | changed}
        monkeypatch.setattr(verdicts, "_audits", lambda measured=measured: measured)
        (verdict,) = verdicts.promises(build_experiment(promises=[promise]))
        assert verdict.verdict is Privacy.UNPROVED
    monkeypatch.undo()
    other_promise = replace(promise, settings={**promise.settings, "rank": 3})
    (verdict,) = verdicts.promises(build_experiment(promises=[other_promise]))
    assert verdict.verdict is Privacy.UNPROVED


def test_what_is_true_of_a_theorem_is_said_beside_what_is_not():
    for verdict in verdicts.promises(papers.find("ryhh24-table-3")[1]):
        assert "one cell of one solve" in verdict.words
        assert "whole row" in verdict.words


# --- what is not printed -------------------------------------------------------------------------


def build_settings_results(**values):
    """Build results of curve `a` at x = 1: ours, and at each setting."""
    result, *_ = values.values()
    series = (
        Series.of(f"{name}{engine.AT}a", {1.0: Point(y, 0.1, 3)}, "output")
        for name, y in list(values.items())[1:]
    )
    return build_result(a={1.0: result}), Made(id="x-settings", series=tuple(series), stamp=STAMP)


def build_limit_statement(limit):
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
    result, tried = build_settings_results(**values)
    entry = build_experiment(statements=map(build_limit_statement, limits))
    assert verdicts.judge(build_paper(), entry, result, tried).verdict is verdict


def test_the_settings_at_which_something_holds_are_named():
    result, tried = build_settings_results(ours=0.0, x=2.0, y=0.5, z=3.0)
    judgement = verdicts.judge(
        build_paper(), build_experiment(statements=[build_limit_statement(1)]), result, tried
    )
    ((_, outcome),) = judgement.statements
    assert outcome == {"ours": False, "x": True, "y": False, "z": True}
    assert verdicts.told_text(outcome) == "holds at 2 of 4 settings: x; z"
    assert "2 of 4 settings" in judgement.reason
    assert verdicts.told_text({"ours": False, "x": None}) == "cannot tell"


def test_printed_numbers_that_are_right_at_a_setting_depend_on_it():
    result, tried = build_settings_results(ours=9.0, x=2.0)
    right = Printed("a", 1.0, 2.05, 0.0, "page 1")
    assert verdicts.judge(
        build_paper(), build_experiment(printed=[right]), result, tried
    ).verdict is (Accuracy.DEPENDS)
    assert (
        verdicts.judge(build_paper(), build_experiment(printed=[right]), result).verdict
        is Accuracy.DIFFERS
    )


def test_a_setting_leaves_what_it_does_not_name_and_pairs_the_same_seeds_alone():
    b = Series.of("b", {1.0: Point.of([1.0, 2.0, 3.0])}, "output")
    result, tried = build_settings_results(ours=0.0, x=2.0)
    setting_series = Series.of(f"x{engine.AT}a", {1.0: Point.of([2.0, 3.0, 4.0])}, "output")
    result, tried = (
        replace(result, series=(*result.series, b)),
        replace(tried, series=(setting_series,)),
    )
    by_setting = verdicts.at_settings(result, tried)
    assert list(by_setting) == ["ours", "x"]
    assert by_setting["x"].get("b") == b
    assert by_setting["x"].at("a", 1.0).draws == (2.0, 3.0, 4.0)
    assert verdicts.above(by_setting["x"], "a", "b", [1.0]) is True  # by one in every draw
    other_trial = replace(tried, stamp=STAMP._replace(seeds="4:6"))
    by_setting = verdicts.at_settings(result, other_trial)
    assert by_setting["x"].at("a", 1.0).draws == ()
    assert verdicts.above(by_setting["x"], "a", "b", [1.0]) is None


def test_nothing_agrees_where_every_method_is_worse_than_a_guess():
    levels = {"zero": 1.0}
    for better, y, verdict in (
        (-1, 2.0, Accuracy.OPEN),
        (-1, 0.5, Accuracy.TREND),
        (1, 2.0, Accuracy.TREND),
        (1, 0.5, Accuracy.OPEN),
        (0, 2.0, Accuracy.TREND),
    ):
        entry = replace(
            build_experiment(statements=[build_statement(True)]),
            y=Axis(better=better),
            guesses=levels,
        )
        result = entry.with_guesses(build_result(a={1.0: y}))
        assert verdicts.judge(build_paper(), entry, result).verdict is verdict
    entry = replace(
        build_experiment(statements=[build_statement(False)]), y=Axis(better=-1), guesses=levels
    )
    result = entry.with_guesses(build_result(a={1.0: 2.0}))
    assert verdicts.judge(build_paper(), entry, result).verdict is Accuracy.DIFFERS


def test_a_band_spans_what_all_settings_give():
    result, tried = build_settings_results(ours=0.0, x=2.0, y=-1.0)
    entry = build_experiment(statements=[build_limit_statement(1)])
    figure_view = views.Look(
        build_paper(), entry, result, False, verdicts.judge(build_paper(), entry, result), (), tried
    )
    (band,) = figure_view.ranges
    assert (band.label, band.low, band.high, band.seeds) == ("a", (-1.0,), (2.0,), (3,))
    assert figure_view._replace(tried=None).ranges == []
    assert "settings" in views.legend(figure_view)


def test_settings_are_named_with_their_reasons_and_made_by_a_command_of_their_own():
    tried = [(paper, entry) for paper, entry in ALL if entry.tried]
    assert {"lwhm22-1a", "lwhm22-2b", "ryhh24-table-3", "ryhh24-rounds", "jtt18-2b"} <= {
        entry.id for _, entry in tried
    }
    for paper_, entry in tried:
        assert len(entry.tried) <= 8
        assert all(entry.tried.values())
        labels = {trial.label.partition(engine.AT) for trial in entry.sweep.trials}
        assert {name for name, _, _ in labels} == set(entry.tried)
        assert len(entry.sweep.seeds) > 1
        settings_paper, settings_entry = papers.find(f"{entry.id}-settings")
        assert (settings_paper, settings_entry.recipe, settings_entry.tried) == (
            paper_,
            entry.sweep,
            {},
        )
        assert settings_entry.id not in IDS
        text = dict(views.facts(views.look(paper_, entry)))["tried"]
        assert f"{settings_entry.id} --run" in text


@pytest.mark.parametrize("fit", ["cut", "one_round_10"])
def test_a_setting_of_a_grid_is_fitted_and_measured(tmp_path, fit):
    _, entry = papers.find("lwhm22-1b")
    only = ["gradient", "clear"] if fit == "cut" else ["gradient"]
    small = "one-bit-lab:seed=each,observed=0.1875,link=logistic,d1=20,d2=15"
    recipe = replace(entry.recipe, grid=replace(entry.recipe.grid, data=[small]))
    rounds = {"gradient.rounds": ["1"]}
    sweep_ = engine.at_setting(
        recipe, lwhm22, only=only, epsilons=[1.0], seeds="1:2", settings=rounds, fit=fit
    )
    joined = engine.joined({"x": sweep_, "y": replace(sweep_, trials=[])})
    assert len(joined.pieces()) == 2
    result = engine.of_pieces(entry.at_settings, joined, folder=tmp_path)
    labels = {"x | GraP", "x | Clear"} if fit == "cut" else {"x | GraP"}
    assert {curve.label for curve in result.series} == labels
    assert all(n == 2 for curve in result.series for n in curve.seeds)
    by_label = {curve.label: curve for curve in result.series}
    assert by_label["x | GraP"].x == (1.0,)


# --- more promises -------------------------------------------------------------------------------


@pytest.mark.parametrize(("paper", "entry"), ALL, ids=IDS)
def test_every_promise_has_a_verdict_and_a_command(paper, entry):
    for verdict in verdicts.promises(entry):
        assert verdict.words.endswith(".")
        assert verdict.command.startswith("dpmc ")
    assert views.as_dict(views.look(paper, entry))["id"] == entry.id


# --- results -------------------------------------------------------------------------------------


def test_a_result_is_read_as_it_was_written(tmp_path):
    result = build_result(a={1.0: 2.0, 2.0: math.pi})
    path = engine.write(result, tmp_path)
    restored = engine.read(path)
    assert restored.stamp == result.stamp
    assert restored.series[0].x == (1.0, 2.0)
    assert restored.series[0].mean == pytest.approx((2.0, math.pi), rel=1e-6)
    assert restored.current
    assert restored.mark == result.mark
    later = replace(result, stamp=STAMP._replace(revisions={"output": 0}))
    assert not later.current
    assert later.mark != result.mark
    document = json.loads(path.read_text())
    bad = []
    for name, value in (("x", [1.0]), ("mean", ["a", 2]), ("draws", [[1.0], [2.0]]), ("low", None)):
        bad.append(json.dumps({**document, "series": [{**document["series"][0], name: value}]}))
    for text in ("", "[]", "5", '{"id": "x"}', *bad):
        path.write_text(text)
        with pytest.raises(BadRatings, match="no result"):
            engine.read(path)


@pytest.mark.parametrize("path", sorted(engine.FOLDER.glob("*")), ids=lambda path: path.stem)
def test_what_ships_is_a_result_of_an_experiment(path):
    result = engine.read(path)
    assert path.name == f"{result.id}.json"
    paper, entry = papers.find(result.id)
    assert entry.recipe is not None
    assert result.stamp.command.startswith(f"dpmc papers {result.id} --run")
    for curve in result.series:
        assert curve.mechanism is None or curve.mechanism in registry.MECHANISMS
        assert len({len(values) for values in (curve.x, curve.mean, curve.low, curve.high)}) == 1
        assert all(
            low <= mean <= high
            for low, mean, high in zip(curve.low, curve.mean, curve.high, strict=True)
        )
    figure_view = views.look(paper, entry, result)
    assert figure_view.judged.verdict is not Accuracy.NOT_RUN
    assert {p.series for p in entry.printed} & {curve.label for curve in result.series} or (
        not entry.printed
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


def run_recipe(recipe, tmp_path, units=None):
    """Return the plan of a recipe, and the store with the rows of (some of) its units."""
    plan = engine.planned(recipe)
    store = Store(tmp_path / "run.sqlite")
    for unit in plan.units[:units]:
        _, record = sweep.run_unit_locally(unit, plan.sources[unit.source])
        store.add([record])
    return plan, store


def test_curves_are_means_over_the_seeds_of_the_rows(tmp_path):
    entry = replace(build_experiment(), recipe=GRID, not_run="")
    plan, store = run_recipe(GRID, tmp_path)
    assert {unit.mechanism.id for unit in plan.units} == {"input-flip", "clear"}
    with store:
        result = engine.of_rows(entry, GRID, plan, store)
        values = {
            (unit.mechanism.id, unit.epsilon, unit.seed): sweep.run_unit_locally(
                unit, plan.sources[unit.source]
            )[0].metrics["are"]
            for unit in plan.units
        }
    flips, nonprivate = result.get("InP"), result.get("Clear")
    for epsilon in (1.0, 4.0):
        expected = compute_interval([values["input-flip", epsilon, seed] for seed in (1, 2)])
        assert result.at("InP", epsilon)[:3] == pytest.approx(expected)
        assert nonprivate.at(epsilon)[:3] == pytest.approx(
            compute_interval([values["clear", None, seed] for seed in (1, 2)])
        )
    assert flips.seeds == (2, 2)
    assert nonprivate.level
    assert not flips.level
    assert result.at("InP", 2.0) is None
    assert result.stamp.settings["InP"]["iterations"] == "2"
    assert result.stamp.revisions == {
        id: registry.get_mechanism(id).revision for id in ("input-flip", "clear")
    }
    assert result.stamp.command == "dpmc papers x --run"


def test_a_curve_of_two_settings_is_refused_and_no_row_is_told(tmp_path):
    two_settings = replace(
        GRID.grid,
        settings={"iterations": ["1", "2"], "estimator": ["published"]},
        seeds=[1],
        epsilons=[1],
    )
    mixed_recipe = replace(GRID, grid=two_settings)
    plan, store = run_recipe(mixed_recipe, tmp_path)
    with store:
        with pytest.raises(DpmcError, match="more than one setting"):
            engine.of_rows(build_experiment(), mixed_recipe, plan, store)
        with pytest.raises(DpmcError, match="no row"):
            engine.of_rows(
                build_experiment(),
                replace(mixed_recipe, metric="accuracy"),
                plan._replace(units=()),
                store,
            )


# --- pieces --------------------------------------------------------------------------------------


def build_pieces_experiment(finished, total=3, settings=None):
    """Build an experiment of pieces that write down when they are done."""

    def work(k, seed):
        finished.append((k, seed))
        return {"y": np.float64(k * seed), "all": np.arange(2)}

    trials = [
        Trial("a", None, float(k), f"piece {k}", partial(work, k), itemgetter("y"))
        for k in range(total)
    ]
    recipe = TrialRecipe(trials=trials, settings=settings or {}, mechanisms=("output",))
    return Experiment(id="x", place="figure 1", title="x", recipe=recipe)


def test_a_piece_is_done_once_whoever_stops_it(tmp_path):
    finished = []
    entry = build_pieces_experiment(finished)
    progress = []
    with pytest.raises(Stopped):
        engine.of_pieces(entry, entry.recipe, folder=tmp_path, stop=lambda: len(finished) == 2)
    assert finished == [(0, 1), (1, 1)]
    result = engine.of_pieces(entry, entry.recipe, folder=tmp_path, tell=progress.append)
    assert finished == [(0, 1), (1, 1), (2, 1)]
    assert progress == [(2, 3), (3, 3)]
    assert result.series[0].mean == (0.0, 1.0, 2.0)
    assert result.current
    engine.of_pieces(entry, entry.recipe, folder=tmp_path)
    assert len(finished) == 3
    # Nothing of the old one counts.
    changed = build_pieces_experiment(finished, settings={"size": 2})
    engine.of_pieces(changed, changed.recipe, folder=tmp_path)
    assert len(finished) == 6


def test_other_seeds_leave_the_pieces_of_the_first(tmp_path):
    finished = []
    entry = build_pieces_experiment(finished)
    engine.of_pieces(entry, entry.recipe, folder=tmp_path)
    other_result = engine.of_pieces(entry, engine.recipe_of(entry, [1, 2]), folder=tmp_path)
    assert finished[3:] == [(0, 2), (1, 2), (2, 2)]
    assert other_result.stamp.seeds == "1:2"
    assert other_result.stamp.command == "dpmc papers x --run --seeds 1:2"
    assert other_result.series[0].mean == (0.0, 1.5, 3.0)
    assert other_result.series[0].draws == ((0.0, 0.0), (1.0, 2.0), (2.0, 4.0))
    repeated = engine.of_pieces(entry, entry.recipe, folder=tmp_path)
    assert repeated.series[0].mean == (0.0, 1.0, 2.0)
    assert len(finished) == 6


def test_a_line_that_was_cut_off_is_done_again(tmp_path):
    finished = []
    entry = build_pieces_experiment(finished)
    engine.of_pieces(entry, entry.recipe, folder=tmp_path)
    path = tmp_path / "x.pieces.jsonl"
    path.write_text(path.read_text()[:-9])
    engine.of_pieces(entry, entry.recipe, folder=tmp_path)
    assert finished[3:] == [(2, 1)]
    assert engine.of_pieces(entry, entry.recipe, folder=tmp_path).series[0].mean == (0.0, 1.0, 2.0)
    assert len(finished) == 4


def test_a_result_of_other_settings_is_not_held_against_a_paper(tmp_path):
    entry = build_pieces_experiment([], settings={"size": (1, 2)})
    result = engine.of_pieces(entry, entry.recipe, folder=tmp_path)
    restored = engine.read(engine.write(result, tmp_path))
    assert entry.makes(result)
    assert entry.makes(restored)
    later = replace(entry, recipe=replace(entry.recipe, settings={"size": 3}))
    assert not later.makes(restored)
    for made_by, verdict in ((entry, Accuracy.DIFFERS), (later, Accuracy.SMALLER)):
        changed = replace(made_by, statements=(build_statement(False), build_statement(False)))
        assert verdicts.judge(build_paper(), changed, restored).verdict is verdict


def test_what_has_no_recipe_says_why():
    with pytest.raises(DpmcError, match="a test"):
        engine.recipe_of(build_experiment())
    with pytest.raises(ValueError, match="recipe"):
        Experiment(id="x", place="figure 1", title="x")
    entry = build_pieces_experiment([])
    assert engine.recipe_of(entry, [4]).seeds == (4,)


# --- all of them by one command ------------------------------------------------------------------


def write_movielens_10m(home, users=40, items=150):
    """Write a few made-up ratings to MovieLens 10M's files, where a download would put them."""
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
    argv = ["papers", "hxz15", "--run", "--write", str(folder)]
    assert main(argv) == 0
    assert "hxz15-cdf is left out: first dpmc data get ml-100k" in capsys.readouterr().err
    (path,) = folder.iterdir()
    assert path.stem == "hxz15-communication"
    before = path.stat().st_mtime_ns
    assert main(argv) == 0
    assert path.stat().st_mtime_ns == before
    assert "hxz15-communication" not in capsys.readouterr().err
    result = engine.read(path)
    for changed in (
        replace(result, stamp=result.stamp._replace(seeds="1:2")),
        replace(result, stamp=result.stamp._replace(settings={"other": 1})),
        replace(result, stamp=result.stamp._replace(revisions={"dpmf": -1})),
    ):
        engine.write(changed, folder)
        assert main(argv) == 0
        assert engine.read(path).stamp[:5] == result.stamp[:5]


def test_one_that_fails_does_not_stop_the_others(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "home"))
    requests = []

    def make(entry, *_, **__):
        requests.append(entry.id)
        if entry.id == "z16-theorem-3":
            raise DpmcError("it is broken")
        return engine.shipped(entry.id)

    monkeypatch.setattr(engine, "of_pieces", make)
    assert main(["papers", "z16", "--run", "--write", str(tmp_path / "made")]) == 1
    assert requests == ["z16-theorem-3", "z16-generated"]
    assert [path.stem for path in (tmp_path / "made").iterdir()] == ["z16-generated"]
    assert "z16-theorem-3: it is broken" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("id", "seeds"), [("jtt18-2a", 10), ("z16-generated", 10), ("hxz15-cdf", 3)]
)
def test_the_printed_number_of_draws_is_made_where_there_is_one(id, seeds, monkeypatch, tmp_path):
    requests = []

    def make(entry, recipe, **_):
        requests.append(recipe.seeds)
        return engine.shipped(entry.id)

    monkeypatch.setattr(engine, "of_pieces", make)
    argv = ["papers", id, "--run", "--seeds", "printed", "--write", str(tmp_path)]
    assert main(argv) == 0
    assert requests == [tuple(range(1, seeds + 1))]


def test_the_paper_s_draws_stand_beside_ours_with_what_all_would_take():
    entry = replace(
        build_experiment(), not_run="", recipe=build_pieces_experiment([]).recipe, draws=30
    )
    stamp = STAMP._replace(seconds=120.0, seeds="1:3")
    result = replace(build_result(a={1.0: 2.0}), stamp=stamp)
    assert views.draws(build_view(entry, result)).endswith(
        "all of them would take 20 min of computing."
    )
    assert "would take" not in views.draws(build_view(replace(entry, draws=3), result))
    assert "not print" in views.draws(build_view(replace(entry, draws=0), result))
    assert views.draws(build_view(entry, None)) == "The paper averages over 30."
    assert views.draws(build_view(build_experiment(), None)) == ""
    printed = {entry.id: entry.draws for _, entry in ALL if entry.draws}
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
    assert {entry.id for _, entry in ALL if "ml-10m" in entry.needs} == before
    at_size = {f"ryhh24-{id}" for id in ("5b", "7a", "7b", "8a", "8b")}
    assert {entry.id for _, entry in ALL if entry.at_size} == at_size
    assert main(["papers", "jtt18-2c", "--run", "--seeds", "1"]) == 1
    assert "dpmc data get ml-10m" in capsys.readouterr().err
    write_movielens_10m(tmp_path)
    assert main(["papers", "jtt18-3b", "--run", "--seeds", "1", "--jobs", "1"]) == 0
    assert engine.own("jtt18-3b").get("Private FW")


@pytest.mark.slow
def test_what_another_set_stands_in_for_is_made_at_its_size_where_that_is_there(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    paper_, entry = papers.find("ryhh24-5b")
    assert entry.fullest is entry
    assert entry.at_size.id == entry.id
    write_movielens_10m(tmp_path)
    assert entry.fullest is entry.at_size
    shipped = views.look(paper_, entry)
    assert any("in place of MovieLens 10M" in text for text in shipped.experiment.changed)
    assert "other settings" not in shipped.judged.reason
    assert main(["papers", "ryhh24-5b", "--run", "--seeds", "1"]) == 0
    figure_view = views.look(paper_, entry)
    assert figure_view.own
    assert all("ml-10m" in key for key in figure_view.made.stamp.settings["runs"])
    assert not any("in place of MovieLens 10M" in text for text in figure_view.experiment.changed)
    assert "other settings" not in figure_view.judged.reason


def test_what_keeps_a_figure_from_being_made_is_the_data_that_it_reads():
    assert papers.find("ryhh24-rounds")[1].needs == ("ml-100k", "amazon")
    for _, entry in ALL:
        if isinstance(entry.recipe, GridRecipe):
            read = {text.partition("/")[0].partition(":")[0] for text in entry.recipe.grid.data}
            assert set(entry.needs) == read - {"one-bit-lab"}, entry.id
        for text in (
            entry.recipe.settings.get("runs", ())
            if entry.id.startswith("ryhh24") and (isinstance(entry.recipe, TrialRecipe))
            else ()
        ):
            assert text.split()[0] in entry.needs, entry.id
    assert all(
        entry.needs == ("ml-100k",) for _, entry in ALL if entry.id in ("hxz15-cdf", "ryhh24-6a")
    )


# --- words, pictures, the report -----------------------------------------------------------------


@pytest.mark.slow
def test_why_is_found_by_something_that_is_there_or_supposed():
    entry = replace(build_experiment(), found=(("so it is", "dpmc papers x"),), why="who knows")
    explanation = "Found: so it is (shown by dpmc papers x)."
    assert views.why(entry) == [explanation, "Supposed: Who knows."]
    assert views.why(replace(entry, why="")) == [explanation]
    assert views.why(replace(entry, found=())) == ["Supposed: Who knows."]
    assert views.why(build_experiment()) == []
    explanations = " ".join(views.why(papers.find("lwhm22-1a")[1]))
    assert explanations in dict(views.facts(views.look(*papers.find("lwhm22-1a"))))["why"]
    assert all(
        line in read_all_text(open_page("papers", experiment="lwhm22-3a"))
        for line in ("Found: without privacy", "shown by lwhm22-3a", "Supposed: So few ratings")
    )
    for _, entry in ALL:
        for sentence, shown_command in entry.found:
            assert sentence.strip()
            command = shown_command.split()
            if len(command) > 1:
                assert command[:2] in (["dpmc", "fit"], ["dpmc", "audit"]), entry.id
                assert registry.get_mechanism(command[3 if command[1] == "fit" else 2])
                assert "--epsilon" in command
            else:
                assert papers.find(shown_command), entry.id
                assert engine.shipped(shown_command), (entry.id, shown_command)


def test_all_is_made_at_the_size_that_is_there(monkeypatch):
    """Planted bug: what is smaller for want of MovieLens 10M was left out where only that is."""
    made_ids = []
    monkeypatch.setattr(engine.public_sets, "is_downloaded", "ml-10m".__eq__)
    monkeypatch.setattr(
        cli_papers, "_make_experiment", lambda entry, *_, **__: made_ids.append(entry.id)
    )
    cli_papers._make_all([papers.PAPERS["RYHH24"]], None, False)
    assert {f"ryhh24-{panel}" for panel in ("5b", "7a", "7b", "8a", "8b")} <= {*made_ids}
    assert "ryhh24-table-3" not in made_ids


@pytest.mark.slow
def test_what_holds_has_one_number_wherever_it_is_told(capsys):
    figure_views = views.all_looks(papers.PAPERS.values())
    opening_text = views.opening(figure_views)
    outcomes = [h for figure_view in figure_views for _, h in figure_view.judged.statements]
    assert f"{len(outcomes)} statements" in opening_text
    assert [int(n) for n in re.findall(r"(\d+) (?:hold|do|can|not)", opening_text)] == [
        sum(bool(h) and all(h.values()) for h in outcomes),
        sum(any(h.values()) and not all(h.values()) for h in outcomes),
        sum({*h.values()} == {False} for h in outcomes),
        sum(None in h.values() and not any(h.values()) for h in outcomes),
        sum(not h for h in outcomes),
    ]
    table = views.standing(figure_views)
    for name, texts in [*table.items()][1:]:
        *each, total = map(int, texts)
        assert total == sum(each), name
    assert main(["papers"]) == 0
    assert opening_text in " ".join(capsys.readouterr().out.split())
    assert f"<p>{opening_text}</p>" in views.html(figure_views)
    assert opening_text in read_all_text(open_page("papers"))
    assert main(["papers", "z16"]) == 0
    z16 = [figure_view for figure_view in figure_views if figure_view.paper.key == "Z16"]
    assert views.opening(z16) in " ".join(capsys.readouterr().out.split())
    assert views.opening(z16) in read_all_text(open_page("papers", paper="z16"))


def build_view(entry, result):
    judgement = verdicts.judge(build_paper(), entry, result)
    return views.Look(build_paper(), entry, result, False, judgement, ())


def test_what_is_not_run_is_not_told_to_hold_or_not():
    not_run = [build_statement(True), build_statement(None)]
    figure_view = build_view(build_experiment(statements=not_run), None)
    assert {verdicts.told_text(h) for _, h in figure_view.judged.statements} == {"not run"}
    assert views.opening([figure_view]) == "X, 2 statements: 2 not run."


def test_the_numbers_hold_ours_and_the_printed_ones():
    entry = build_experiment(printed=[RIGHT, Printed("b", 3.0, 1.0, 0.0, "page 2")])
    table = views.numbers(build_view(entry, build_result(a={1.0: 2.0, 2.0: 3.0})))
    rows = list(zip(*table.values(), strict=True))
    assert [row[:2] for row in rows] == [("a", "1"), ("a", "2"), ("b", "3")]
    assert rows[0][2:] == ("2 ± 0.1", "2.14 ± 0.05", "yes", "page 1")
    assert rows[1][3:] == ("", "", "")
    assert rows[2][2] == "none"
    exact = views.exact_numbers(build_view(entry, build_result(a={1.0: 2.0, 2.0: 3.0})))
    assert exact["whose"] == ["ours", "ours", "printed", "printed"]
    assert exact["value"][0] == 2.0


def test_the_report_stands_alone_and_holds_every_experiment():
    entry = build_experiment(printed=[RIGHT])
    entry = replace(entry, title="<b>&", x=Axis("e"))
    no_theory = replace(build_paper(), theorems=())
    figure_view = build_view(entry, build_result(a={1.0: 2.0, 2.0: 3.0}))._replace(paper=no_theory)
    text = views.html([figure_view])
    elements = [attrs for _, attrs in HtmlFile(text).elements]
    assert [element["href"] for element in elements if "href" in element] == ["#x"]
    assert {element["id"] for element in elements if "id" in element} == {"x"}
    assert "<b>&" not in text
    assert "<script" not in text
    assert "http" not in text
    for number in views.numbers(figure_view)["ours"]:
        assert f">{number}</td>" in text


@pytest.mark.slow
def test_dpmc_papers_lists_and_shows(capsys):
    assert main(["papers"]) == 0
    listed = capsys.readouterr().out
    assert all(id in listed for id in IDS)
    assert main(["papers", "lwhm22-1b"]) == 0
    assert "output" in capsys.readouterr().out.lower()
    assert main(["papers", "jtt18", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert [entry["id"] for entry in output] == [e.id for e in papers.PAPERS["JTT18"].experiments]
    assert main(["papers", "--bibtex"]) == 0
    assert capsys.readouterr().out.count("@") == len(papers.PAPERS)


@pytest.mark.parametrize(
    ("argv", "message"),
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
def test_dpmc_papers_says_what_is_wrong(argv, message, capsys):
    assert main(["papers", *argv]) == 1
    assert message in capsys.readouterr().err


def test_a_run_tells_programs_where_its_result_is(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "home"))
    argv = ["papers", "jtt18-table-1", "--run", "--json", "--write", str(tmp_path / "new" / "one")]
    assert main(argv) == 0
    captured = capsys.readouterr()
    assert not captured.err  # what a page takes for the last words of a run that failed
    *_, last = map(json.loads, captured.out.splitlines())
    assert last["accuracy"] == "agrees"
    assert engine.read(Path(last["result"])).id == "jtt18-table-1"
    for options in (["--bibtex"], ["--theory"], []):
        assert main(["papers", "hxz15", "--json", *options]) == 0
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
        names = [
            f"{author['given-names']} {author['family-names']}" for author in reference["authors"]
        ]
        assert tuple(names) == paper.authors
        assert paper.title in paper.bibtex
        assert {*paper.methods} == set().union(*(entry.runs for entry in paper.experiments))
    assert [paper.key for paper in citation.find_papers_running(["pmf", "objective"])] == [
        "HXZ15",
        "LWHM22",
    ]
