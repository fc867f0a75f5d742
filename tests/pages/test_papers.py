"""Experiments of papers: every figure has a row, results are kept, verdicts are computed."""

import json
import math
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import BadRatings, DpmcError
from dpmc_core.model import Task
from dpmc_core.privacy import RATING, USER_EMPTIED
from dpmc_core.problem import build_problem
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import format_setting
from dpmc_core.stopping import Stopped, stop_when
from dpmc_data import datasets
from dpmc_lab import citation, papers, sweep
from dpmc_lab.audit import AuditMethod, audit_mechanism
from dpmc_lab.cli import main
from dpmc_lab.cli import papers as cli_papers
from dpmc_lab.papers import engine, lwhm22, verdicts, views
from dpmc_lab.papers.engine import (
    Axis,
    Conclusion,
    CurveSet,
    Experiment,
    GridRecipe,
    Point,
    Printed,
    Promise,
    Series,
    Stamp,
    Statement,
    Trial,
    TrialRecipe,
)
from dpmc_lab.store import Store
from dpmc_lab.sweep import Grid
from dpmc_lab.views import as_published, audits
from dpmc_lab.views.lines import compute_interval
from tests.page_helpers import HtmlFile, open_page, read_all_text

ROOT = Path(__file__).resolve().parents[2]
ALL = list(papers.list_experiments())
IDS = [entry.id for _, entry in ALL]
REVISIONS = {"output": registry.get_mechanism("output").revision}
STAMP = Stamp("0", "dpmc papers x --run", {}, "1:3", REVISIONS, 1.0)
# --- what there is -------------------------------------------------------------------------------


def test_experiments_can_be_told_apart_and_found():
    assert len(set(IDS)) == len(IDS)
    for paper, entry in ALL:
        assert entry.id.startswith(f"{paper.key.lower()}-")
        assert papers.find_experiment(entry.id) == (paper, entry)
        assert (entry.recipe is None) == bool(entry.not_run)
    with pytest.raises(DpmcError, match="lwhm22-1b"):
        papers.find_experiment("lwhm22-1bb")


@pytest.mark.parametrize("entry", [entry for _, entry in ALL], ids=IDS)
def test_what_is_printed_is_named_once_and_says_where(entry):
    points = [(p.series, p.x) for p in entry.printed]
    assert len(set(points)) == len(points)
    assert all(p.place and p.error >= 0 and math.isfinite(p.value) for p in entry.printed)
    assert all(statement.text and statement.place for statement in entry.statements)
    assert set(entry.methods.values()) <= set(registry.MECHANISMS)
    assert not entry.methods or {p.series for p in entry.printed} <= set(entry.methods)


# --- verdicts ------------------------------------------------------------------------------------


def build_result(**curves):
    """Build curves by label: the mean at each x, each within 0.1 of it."""
    series = tuple(
        Series.from_points(label, {x: Point(y, 0.1, 3) for x, y in points.items()}, "output")
        for label, points in curves.items()
    )
    return CurveSet(id="x", series=series, stamp=STAMP)


def build_experiment(**fields):
    return Experiment(id="x", place="figure 1", title="x", not_run="a test", **fields)


def build_paper(unjudged=""):
    return replace(papers.PAPERS["Z16"], experiments=(), theorems=(), unjudged=unjudged)


def build_verdict(result, *outcomes, label="same trend", tried=None):
    rows = engine.digest_rows(result, tried)
    return Conclusion(
        label=label, sentence="so it is", statements=outcomes, rows=rows, commit="abc"
    )


RIGHT, WRONG = Printed("a", 1.0, 2.14, 0.05, "page 1"), Printed("a", 2.0, 9.0, 0.05, "page 1")
HIGH = Statement("a is high", "page 1", (["above", "a", 1.0, [1.0]],))


def draw_points(rng, n, effect=0.0, shared=0.0):
    """Draw two methods over n seeds, means apart by `effect`, with a `shared` effect of a seed."""
    common = shared * rng.standard_normal(n)
    return [Point.from_draws(common + rng.standard_normal(n) + shift) for shift in (effect, 0.0)]


def compare_points(a, b):
    return verdicts.combine((1, a), (-1, b)).get_sign()


def test_pairing_by_seed_tells_more():
    rng = np.random.default_rng(1)
    a, b = draw_points(rng, 10, effect=4.0, shared=20.0)
    assert compare_points(a, b) == 1
    assert compare_points(a._replace(draws=()), b._replace(draws=())) == 0
    series = Series.from_points("a", {1.0: a, 2.0: b})
    assert series.get_point(1.0).draws == a.draws
    assert Series.from_points("a", {1.0: a, 2.0: b._replace(draws=())}).draws == ()


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 10])
def test_a_statement_that_is_true_is_seldom_called_wrong(n):
    """Six comparisons of equal methods, each true at its border: 5 % at most for all of them, where
    each alone would make it 14 %. 1,000 draws, above by 4 sd with chance 3e-5; fixed seed."""
    rng, runs, x = np.random.default_rng(n), 1000, [*map(float, range(6))]
    wrong = n_single = 0
    for _ in range(runs):
        pairs = [draw_points(rng, n) for _ in x]
        columns = dict(zip("ab", zip(*pairs, strict=True), strict=True))
        curves = [Series.from_points(k, dict(zip(x, v, strict=True))) for k, v in columns.items()]
        result = CurveSet(id="x", series=tuple(curves), stamp=STAMP)
        wrong += verdicts.check_rows([["above", "a", "b", x]], result) is False
        n_single += any(compare_points(*pair) < 0 for pair in pairs)
    assert wrong / runs <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / runs)
    assert n_single > 2 * wrong


def test_a_single_seed_tells_nothing_and_what_is_not_random_all():
    single = Series.from_points("one", {x: Point(x, 0.0, 1) for x in (1.0, 2.0)})
    exact = Series.from_points("exact", {1.0: Point(10.0), 2.0: Point(20.0)})
    result = CurveSet(id="x", series=(single, exact), stamp=STAMP)
    assert verdicts.check_rows([["rises", "one"]], result) is None
    assert verdicts.check_rows([["rises", "exact"]], result) is True
    assert verdicts.check_rows([["above", "exact", "one", [1.0]]], result) is None
    assert verdicts.check_rows([["near", "exact", 10.0, [1.0], 0.1]], result) is True
    for label, value, expected in (("one", 1, None), ("exact", 10, True), ("exact", 9.9, False)):
        printed = Printed(label, 1.0, value, 0.0, "page 1")
        assert verdicts.compare_printed(printed, result).within is expected


CURVES = {
    "low": {1.0: 0.0, 10.0: 0.05},
    "high": {1.0: 1.0, 10.0: 5.0},
    "near": {1.0: 0.05, 10.0: 0.0},
    "fast": {1.0: 9.0, 10.0: 3.0},
    "slow": {1.0: 1.0, 10.0: 2.0},
    "goal": {1.0: 2.2, 10.0: 2.2},
    "steps": {1.0: 1.0, 3.0: 3.0, 5.0: 2.0, 10.0: 4.0},
}


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (["above", "high", "low", [1.0, 10.0]], True),
        (["above", "low", "high", [1.0, 10.0]], False),
        (["above", "low", "near", [1.0]], None),
        (["above", "high", 0.5, [1.0]], True),
        (["above", "high", "low", [5.0]], None),  # never interpolated
        (["above", "nobody", "low", [1.0]], None),
        (["above", "high", "low", [math.inf]], True),
        (["above", ["high", "fast"], ["low", "near"], [1.0]], True),
        (["rises", "high"], True),
        (["rises", ["high", "low"]], None),
        (["falls", "high"], False),
        (["falls", "fast"], True),
        (["climbs", "high"], True),
        (["climbs", "steps"], False),  # it falls between its ends
        (["climbs", "steps", -1], False),
        (["climbs", "fast"], False),
        (["climbs", ["fast", "goal"], -1], None),
        (["near", "low", "near", [1.0], 0.5], True),
        (["near", "low", "high", [1.0], 0.5], False),
        (["near", "low", "high", [1.0], 0.9], None),
        (["near", "fast", "goal", [10.0], "90 %"], True),
        (["near", "fast", "goal", [], "10 %"], False),
        (["near", "slow", "goal", [10.0], "10 %"], None),
        (["farther", "slow", "fast", "slow", "low", [1.0]], True),
        (["farther", "slow", "low", "slow", "fast"], False),
        (["steadier", "slow", "fast"], True),
        (["steadier", "fast", "slow"], False),
        (["approaches", "fast", "goal", 1.0, 10.0], True),
        (["approaches", "high", "goal", 1.0, 10.0], False),
        (["approaches", "fast", "nobody", 1.0, 10.0], None),
        (["leads", "fast", "slow", 4.5, 0.3, [1.0, 10.0]], True),
        (["leads", "fast", "slow", 4.1, 0.05, [1.0, 10.0]], False),
        (["leads", "fast", "slow", 4.5, 0.05, [1.0, 10.0]], None),  # ours may be off by more
    ],
    ids=str,
)
def test_checks_tell_only_what_the_intervals_can_tell(check, expected):
    assert verdicts.check_rows([check], build_result(**CURVES)) is expected


def test_one_fall_of_many_steps_suffices():
    check = [["climbs", "steps", -1], ["share", 0.1]]
    assert verdicts.check_rows(check, build_result(**CURVES)) is True
    assert verdicts.check_rows([["climbs", "high", -1], check[1]], build_result(**CURVES)) is False


def test_a_share_of_comparisons_suffices():
    x = (0.1, 0.2, 0.5, 1.0, 2.0)
    low, high = dict.fromkeys(x, 1.0), dict.fromkeys(x, 3.0)

    def check(**curves):
        checks = [["above", ["B", "C"], "A", x], ["share", 0.8]]
        return verdicts.check_rows(checks, build_result(**curves))

    assert check(A=low, B=high, C=high) is True
    assert check(A=low, B=high, C=high | {0.1: 0.5, 0.2: 0.5}) is True  # 8 of 10
    assert check(A=low, B=high, C=low) is None
    assert check(A=high, B=low, C=high) is False
    assert check(A=low) is None


@pytest.mark.parametrize(("paper", "entry"), ALL, ids=IDS)
def test_a_verdict_rests_on_the_stored_rows(paper, entry):
    """When this fails, rows or checks have changed: judge again, then renew digest and commit."""
    view = views.load_view(paper, entry)
    assessment = view.assessment
    assert views.convert_view(view)["id"] == entry.id
    for promise in view.promises:
        assert promise.reason.endswith(".")
        assert promise.command.startswith("dpmc ")
    assert not assessment.doubts
    assert assessment.label in verdicts.LABELS
    assert assessment.sentence.endswith(".")
    verdict = entry.verdict
    if verdict is None:
        can_be_judged = not paper.unjudged and (entry.printed or entry.statements)
        assert not (view.result and can_be_judged)
        return
    assert view.result
    assert len(verdict.statements) == len(entry.statements)
    assert set(verdict.statements) <= {*views.COUNTED} - {verdicts.NOT_RUN}
    if verdict.label == "agrees":
        assert all(compared.within for compared in assessment.compared)
    if verdict.label in ("agrees", "same trend"):
        assert set(verdict.statements) <= {verdicts.HOLDS}
    assert (verdict.label == "differs in our reduced run") <= bool(entry.cut)


def test_a_verdict_is_checked_again_where_its_rows_or_checks_have_changed():
    result = build_result(a={1.0: 2.0})
    entry = build_experiment(statements=(HIGH,), verdict=build_verdict(result, verdicts.HOLDS))
    assert verdicts.assess(build_paper(), entry, result).doubts == ()
    lower = build_result(a={1.0: 0.5})
    assessment = verdicts.assess(build_paper(), entry, lower)
    assert assessment.label == "same trend"  # what was concluded stays, and is doubted
    changed, contradicted = assessment.doubts
    assert "rows have changed since abc" in changed
    assert "'holds', the rows say 'does not hold'" in contradicted
    revised = replace(result, stamp=STAMP._replace(revisions={"output": 0}))
    (doubt,) = verdicts.assess(build_paper(), entry, revised).doubts
    assert "revised" in doubt
    without_checks = replace(entry, statements=(HIGH._replace(checks=()),))
    assert len(verdicts.assess(build_paper(), without_checks, lower).doubts) == 1
    view = build_view(entry, lower)
    assert view.labels == ["same trend", "check again"]
    assert "1 of 1 verdicts: check again" in views.summarise_statements([view])


@pytest.mark.parametrize(
    ("settings", "is_current"),
    [
        ({"private-frank-wolfe.item_share": "0.0", "users": 9}, True),
        ({"Private FW": {"item_share": "0.0", "estimator": "published"}}, True),
        ({"Private FW": {"item_share": "0.3", "estimator": "published"}}, False),
        ({"private-frank-wolfe.estimator": "noise-aware"}, False),
    ],
)
def test_rows_as_published_outlive_revisions_of_item_effects_alone(settings, is_current):
    frank_wolfe = registry.get_mechanism("private-frank-wolfe")
    revisions = {"private-frank-wolfe": frank_wolfe.published_revision}
    assert frank_wolfe.published_revision < frank_wolfe.revision
    stamp = STAMP._replace(settings=settings, revisions=revisions)
    assert replace(build_result(a={1.0: 2.0}), stamp=stamp).is_current == is_current


def test_verdicts_can_be_checked_by_a_command(capsys, monkeypatch):
    assert main(["papers", "z16", "--check"]) == 0
    assert "support all 4 verdicts" in capsys.readouterr().out
    _, entry = papers.find_experiment("z16-generated")
    other = engine.load_shipped_result("z16-restaurants")
    monkeypatch.setattr(
        engine,
        "load_shipped_result",
        lambda id: replace(other, id=entry.id) if id == entry.id else None,
    )
    assert main(["papers", "z16", "--check"]) == 1
    assert "z16-generated: its rows have changed" in capsys.readouterr().err


def test_a_printed_number_counts_within_our_interval_and_the_reading_error():
    result = build_result(a={1.0: 2.0})
    for off, expected in ((0.149, True), (0.151, False), (-0.149, True), (-0.151, False)):
        printed = Printed("a", 1.0, 2.0 + off, 0.05, "page 1")
        assert verdicts.compare_printed(printed, result).within is expected
    missing = verdicts.compare_printed(Printed("b", 1.0, 2.0, 0.0, "page 1"), result)
    assert missing.ours is missing.within is None


SIGNS = PublicFacts(users=30, items=30, low=-1, high=1)


@pytest.mark.parametrize(
    ("id", "change", "label"),
    [
        ("input-flip", RATING, verdicts.PROVED),
        ("output", RATING, verdicts.UNPROVED),  # no experiment is set so
        ("input-flip", USER_EMPTIED, verdicts.UNPROVED),
        ("private-frank-wolfe", USER_EMPTIED, verdicts.PROVED),
        ("dpmf", RATING, verdicts.COUNTEREXAMPLE),
        ("dpimf-sampled", USER_EMPTIED, verdicts.UNPROVED),
    ],
)
def test_the_verdict_on_a_promise(id, change, label):
    public = SIGNS if id in ("input-flip", "output") else replace(SIGNS, low=0)
    entry = build_experiment(promises=(Promise(mechanism=id, change=change, public=public),))
    (verdict,) = verdicts.judge_promises(entry)
    assert verdict.label == label
    is_audited = label == verdicts.COUNTEREXAMPLE
    assert verdict.command.startswith("dpmc audit" if is_audited else "dpmc p")
    assert ("by our reading" in verdict.reason.lower()) == is_audited
    assert build_view(entry, None)._replace(promises=(verdict,)).promise_counts == [
        (f"1 {label}", label)
    ]


@pytest.mark.parametrize("id", ["ryhh24-table-3", "ryhh24-5b", "hxz15-cdf"])
def test_an_audit_behind_a_counterexample_is_as_published_and_can_be_had_again(id):
    """The command that stands beside it, on the mechanism that the experiment promises for."""
    _, entry = papers.find_experiment(id)
    promise = entry.promises[-1]
    (verdict,) = [p for p in verdicts.judge_promises(entry) if p.mechanism == promise.mechanism]
    assert verdict.label == verdicts.COUNTEREXAMPLE
    settings = as_published.merge_published_settings(promise.mechanism, promise.settings)
    mechanism = registry.create(promise.mechanism, epsilon=1.0, **settings)
    assert all(
        f"--set {name}={format_setting(v)}" in verdict.command for name, v in settings.items()
    )
    report = audit_mechanism(mechanism, change=promise.change, runs=12, methods=[AuditMethod.PROBE])
    record = verdicts._load_audits()[verdict.command]
    assert record["epsilon"] == pytest.approx(report.measured, rel=1e-9)
    assert audits.describe_changed_row(report.best.pair) in record["pair"] in verdict.reason
    assert promise.change.relation in verdict.reason


def test_an_audit_of_another_revision_or_of_other_settings_is_none(monkeypatch):
    promise = papers.find_experiment("ryhh24-table-3")[1].promises[0]
    record = verdicts._load_audits()[verdicts.build_audit_command(promise)]
    for changed in ({"revision": record["revision"] + 1}, {"epsilon": 0.9}):
        measured = {verdicts.build_audit_command(promise): record | changed}
        monkeypatch.setattr(verdicts, "_load_audits", lambda measured=measured: measured)
        (verdict,) = verdicts.judge_promises(build_experiment(promises=(promise,)))
        assert verdict.label == verdicts.UNPROVED
    monkeypatch.undo()
    other_promise = replace(promise, settings={**promise.settings, "rank": 3})
    (verdict,) = verdicts.judge_promises(build_experiment(promises=(other_promise,)))
    assert verdict.label == verdicts.UNPROVED


def test_what_a_guarantee_covers_is_held_against_the_papers_table():
    """Table I of RYHH24 is made from guarantees, and the stored rows are what they say now."""
    _, entry = papers.find_experiment("ryhh24-table-1")
    ((key, make),) = entry.recipe.list_runs().items()
    made = {series.label: series.mean for series in entry.recipe.build_series({key: make()})}
    shipped = engine.load_shipped_result(entry.id)
    assert made == {series.label: series.mean for series in shipped.series}
    assert made == {"DPMF": (1, 0, 0, 1), "DPFW": (1, 1, 1, 0), "DPIMF": (1, 1, 0, 1)}


# --- what is not printed -------------------------------------------------------------------------


def build_settings_results(**values):
    """Build results of curve `a` at x = 1: ours, and at each setting."""
    result, *_ = values.values()
    series = (
        Series.from_points(f"{name}{engine.SETTING_SEPARATOR}a", {1.0: Point(y, 0.1, 3)}, "output")
        for name, y in list(values.items())[1:]
    )
    tried = CurveSet(id="x-settings", series=tuple(series), stamp=STAMP)
    return build_result(a={1.0: result}), tried


def test_the_settings_at_which_something_holds_are_named():
    result, tried = build_settings_results(ours=0.0, x=2.0, y=0.5, z=3.0)
    verdict = build_verdict(result, verdicts.HOLDS_SOMEWHERE, tried=tried)
    entry = build_experiment(statements=(HIGH,), verdict=verdict)
    assessment = verdicts.assess(build_paper(), entry, result, tried)
    (judged,) = assessment.statements
    assert judged.checked == {"ours": False, "x": True, "y": False, "z": True}
    assert views.format_outcome(judged) == "holds at 2 of 4 settings: x; z"
    assert not assessment.doubts
    assert len(verdicts.assess(build_paper(), entry, result).doubts) == 2  # other rows
    ours_alone = HIGH._replace(checks=(*HIGH.checks, ["ours"]))
    assert verdicts.check_statement(ours_alone, result, tried) == {"ours": False}
    for checked, expected in (
        ({"ours": False, "x": None}, verdicts.UNKNOWN),
        ({"ours": False, "x": False}, verdicts.FAILS),
        ({"ours": True, "x": None}, verdicts.HOLDS_SOMEWHERE),
        ({"ours": True, "x": True}, verdicts.HOLDS),
        ({}, verdicts.UNKNOWN),
    ):
        assert verdicts.summarise_checks(checked) == expected


def test_a_setting_leaves_what_it_does_not_name_and_pairs_the_same_seeds_alone():
    b = Series.from_points("b", {1.0: Point.from_draws([1.0, 2.0, 3.0])}, "output")
    result, tried = build_settings_results(ours=0.0, x=2.0)
    points, name = {1.0: Point.from_draws([2.0, 3.0, 4.0])}, f"x{engine.SETTING_SEPARATOR}a"
    changed = Series.from_points(name, points, "output")
    result = replace(result, series=(*result.series, b))
    tried = replace(tried, series=(changed,))
    by_setting = verdicts.split_settings(result, tried)
    assert list(by_setting) == ["ours", "x"]
    assert by_setting["x"].get_series("b") == b
    check = [["above", "a", "b", [1.0]]]
    assert verdicts.check_rows(check, by_setting["x"]) is True  # by one in every draw
    other_seeds = replace(tried, stamp=STAMP._replace(seeds="4:6"))
    by_setting = verdicts.split_settings(result, other_seeds)
    assert by_setting["x"].get_point("a", 1.0).draws == ()
    assert verdicts.check_rows(check, by_setting["x"]) is None


def test_a_band_spans_what_all_settings_give():
    result, tried = build_settings_results(ours=0.0, x=2.0, y=-1.0)
    figure_view = build_view(build_experiment(statements=(HIGH,)), result)._replace(tried=tried)
    (band,) = figure_view.ranges
    assert (band.label, band.low, band.high, band.seeds) == ("a", (-1.0,), (2.0,), (3,))
    assert figure_view._replace(tried=None).ranges == []
    assert "settings" in views.describe_marks(figure_view)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fit", "labels"), [("cut", {"GraP", "Clear"}), ("one_round_10", {"GraP"})]
)
def test_a_setting_of_a_grid_is_fitted_and_measured(tmp_path, fit, labels):
    _, entry = papers.find_experiment("lwhm22-1b")
    small = "one-bit-lab:seed=each,observed=0.1875,link=logistic,d1=20,d2=15"
    recipe = replace(entry.recipe, grid=replace(entry.recipe.grid, data=[small]))
    options = {"epsilons": [1.0], "seeds": "1:2", "settings": {"gradient.rounds": ["1"]}}
    only = ["gradient", "clear"] if fit == "cut" else ["gradient"]
    sweep_ = engine.make_setting_recipe(recipe, lwhm22, only=only, fit=fit, **options)
    joined = engine.join_setting_recipes({"x": sweep_, "y": replace(sweep_, trials=[])})
    assert len(joined.list_runs()) == 2
    result = engine.run_trials(entry.at_settings, joined, folder=tmp_path)
    assert {curve.label for curve in result.series} == {f"x | {label}" for label in labels}
    assert all(n == 2 for curve in result.series for n in curve.seeds)
    assert result.get_series("x | GraP").x == (1.0,)


# --- results -------------------------------------------------------------------------------------


def test_a_result_is_read_as_it_was_written(tmp_path):
    result = build_result(a={1.0: 2.0, 2.0: math.pi})
    path = engine.write_result(result, tmp_path)
    restored = engine.read_result(path)
    assert restored.stamp == result.stamp
    assert restored.series[0].mean == pytest.approx((2.0, math.pi), rel=1e-6)
    document = json.loads(path.read_text())
    bad = []
    for name, value in (("x", [1.0]), ("mean", ["a", 2]), ("draws", [[1.0], [2.0]]), ("low", None)):
        bad.append(json.dumps({**document, "series": [{**document["series"][0], name: value}]}))
    for text in ("", "[]", "5", '{"id": "x"}', *bad):
        path.write_text(text)
        with pytest.raises(BadRatings, match="no result"):
            engine.read_result(path)


@pytest.mark.parametrize("path", sorted(engine.FOLDER.glob("*")), ids=lambda path: path.stem)
def test_what_ships_is_a_result_of_an_experiment(path):
    result = engine.read_result(path)
    assert path.name == f"{result.id}.json"
    _, entry = papers.find_experiment(result.id)
    assert result.stamp.command.startswith(entry.command)
    for curve in result.series:
        assert curve.mechanism is None or curve.mechanism in registry.MECHANISMS
        assert (np.diff([curve.low, curve.mean, curve.high], axis=0) >= 0).all()
    labels = {curve.label for curve in result.series}
    assert not entry.printed or {p.series for p in entry.printed} & labels


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
    plan = engine.plan_grid(recipe)
    store = Store(tmp_path / "run.sqlite")
    for unit in plan.units[:units]:
        _, record = sweep.run_unit_locally(unit, plan.sources[unit.source])
        store.add([record])
    return plan, store


def test_curves_are_means_over_the_seeds_of_the_rows(tmp_path):
    entry = replace(build_experiment(), recipe=GRID, not_run="")
    plan, store = run_recipe(GRID, tmp_path)
    with store:
        result = engine.build_grid_result(entry, GRID, plan, store)
    values = {}
    for unit in plan.units:
        metrics = sweep.run_unit_locally(unit, plan.sources[unit.source])[0].metrics
        values.setdefault((unit.mechanism.id, unit.epsilon), []).append(metrics["are"])
    assert {id for id, _ in values} == {"input-flip", "clear"}
    for epsilon in (1.0, 4.0):
        for label, key in (("InP", ("input-flip", epsilon)), ("Clear", ("clear", None))):
            expected = compute_interval(values[key])
            assert result.get_point(label, epsilon)[:3] == pytest.approx(expected)
    assert result.get_series("Clear").level
    assert result.get_series("InP").seeds == (2, 2)
    assert result.get_point("InP", 2.0) is None
    assert result.stamp.settings["InP"]["iterations"] == "2"
    assert result.stamp.command == "dpmc papers x --run"
    assert result.is_current


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
    finished, progress = [], []
    entry = build_pieces_experiment(finished)
    with pytest.raises(Stopped):
        engine.run_trials(entry, entry.recipe, folder=tmp_path, stop=lambda: len(finished) == 2)
    assert finished == [(0, 1), (1, 1)]
    result = engine.run_trials(entry, entry.recipe, folder=tmp_path, report=progress.append)
    assert finished.pop() == (2, 1)
    assert [(r.total, r.skipped, r.done) for r in progress] == [(3, 2, 0), (3, 2, 1)]
    assert result.series[0].mean == (0.0, 1.0, 2.0)
    assert result.is_current
    path = tmp_path / "x.pieces.jsonl"
    path.write_text(path.read_text()[:-9])  # a line that was cut off is done again
    again = engine.run_trials(entry, entry.recipe, folder=tmp_path)
    assert again.series == result.series
    assert finished.pop() == (2, 1)
    # Nothing of the old one counts.
    changed = build_pieces_experiment(finished, settings={"size": 2})
    engine.run_trials(changed, changed.recipe, folder=tmp_path)
    assert len(finished) == 2 + 3


def test_a_stopped_fit_is_no_result():
    problem = build_problem(datasets.load("restaurants"), Task.BINARY, seed=1)
    mechanism, steps = registry.create("clear", iterations=50), iter([False] * 60)
    with stop_when(lambda: next(steps, True)), pytest.raises(Stopped, match="last round"):
        engine.fit_model(mechanism, problem, 1)


def test_other_seeds_leave_the_pieces_of_the_first(tmp_path):
    finished = []
    entry = build_pieces_experiment(finished)
    engine.run_trials(entry, entry.recipe, folder=tmp_path)
    other_result = engine.run_trials(entry, engine.choose_recipe(entry, [1, 2]), folder=tmp_path)
    assert finished[3:] == [(0, 2), (1, 2), (2, 2)]
    assert other_result.stamp.command == "dpmc papers x --run --seeds 1:2"
    assert other_result.series[0].draws == ((0.0, 0.0), (1.0, 2.0), (2.0, 4.0))
    repeated = engine.run_trials(entry, entry.recipe, folder=tmp_path)
    assert repeated.series[0].mean == (0.0, 1.0, 2.0)
    assert len(finished) == 6


# --- all of them by one command ------------------------------------------------------------------


def test_all_that_can_be_made_is_made_once_and_what_lacks_data_says_so(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "home"))
    folder = tmp_path / "made"
    argv = ["papers", "hxz15", "--run", "--write", str(folder)]
    assert main(argv) == 0
    errors = capsys.readouterr().err
    assert "hxz15-cdf is left out: first dpmc data get ml-100k" in errors
    assert "hxz15-netflix is left out: first dpmc data get netflix" in errors
    (path,) = folder.iterdir()
    before = path.stat().st_mtime_ns
    assert main(argv) == 0
    assert path.stat().st_mtime_ns == before
    result = engine.read_result(path)
    for changed in ({"seeds": "1:2"}, {"settings": {"other": 1}}, {"revisions": {"dpmf": -1}}):
        engine.write_result(replace(result, stamp=result.stamp._replace(**changed)), folder)
        assert main(argv) == 0
        assert engine.read_result(path).stamp[:5] == result.stamp[:5]


def test_one_that_fails_does_not_stop_the_others(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "home"))
    requests = []

    def make(entry, *_, **__):
        requests.append(entry.id)
        if entry.id == "z16-theorem-3":
            raise DpmcError("it is broken")
        return engine.load_shipped_result(entry.id)

    monkeypatch.setattr(engine, "run_trials", make)
    assert main(["papers", "z16", "--run", "--write", str(tmp_path / "made")]) == 1
    assert requests == ["z16-theorem-3", "z16-generated", "z16-algorithms"]
    made = {path.stem for path in (tmp_path / "made").iterdir()}
    assert made == {"z16-generated", "z16-algorithms"}
    assert "z16-theorem-3: it is broken" in capsys.readouterr().err


def test_what_keeps_a_figure_from_being_made_is_the_data_that_it_reads():
    for _, entry in ALL:
        if isinstance(entry.recipe, GridRecipe):
            read = {text.partition("/")[0].partition(":")[0] for text in entry.recipe.grid.data}
            assert set(entry.needs) == read - {"one-bit-lab"}, entry.id
        elif entry.recipe and entry.id.startswith("ryhh24"):
            for text in entry.recipe.settings.get("runs", ()):
                assert text.split()[0] in entry.needs, entry.id
    assert papers.find_experiment("ryhh24-rounds")[1].needs == ("ml-100k", "amazon")
    assert papers.find_experiment("hxz15-cdf")[1].needs == ("ml-100k",)


# --- words, pictures, the report -----------------------------------------------------------------


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


def test_what_holds_has_one_number_wherever_it_is_told(capsys):
    figure_views = views.load_views([papers.PAPERS["Z16"]])
    summary = views.summarise_statements(figure_views)
    assert summary == "Of 9 statements, 8 hold, 1 undecided."
    assert main(["papers", "z16"]) == 0
    assert summary in " ".join(capsys.readouterr().out.split())
    assert summary in views.render_report(figure_views)
    assert summary in read_all_text(open_page("papers", paper="z16"))


def build_view(entry, result):
    assessment = verdicts.assess(build_paper(), entry, result)
    return views.ExperimentView(build_paper(), entry, result, False, assessment, ())


def test_the_report_stands_alone_and_holds_every_experiment():
    entry = build_experiment(printed=(RIGHT,))
    entry = replace(entry, title="<b>&", x=Axis("e"))
    figure_view = build_view(entry, build_result(a={1.0: 2.0, 2.0: 3.0}))
    text = views.render_report([figure_view])
    elements = [attrs for _, attrs in HtmlFile(text).elements]
    assert [element["href"] for element in elements if "href" in element] == ["#x"]
    assert {element["id"] for element in elements if "id" in element} == {"x"}
    assert "<b>&" not in text
    assert "<script" not in text
    assert "http" not in text
    for number in views.tabulate_numbers(figure_view)["ours"]:
        assert f">{number}</td>" in text


@pytest.mark.slow
def test_dpmc_papers_lists_and_shows(capsys):
    assert main(["papers"]) == 0
    listed = capsys.readouterr().out
    assert all(id in listed for id in IDS)
    assert main(["papers", "jtt18", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert [entry["id"] for entry in output] == [e.id for e in papers.PAPERS["JTT18"].experiments]
    assert main(["papers", "--bibtex"]) == 0
    assert capsys.readouterr().out.count("@") == len(papers.PAPERS) + 1  # this program, too
    assert main(["papers", "lwhm22-1b"]) == 0


@pytest.mark.parametrize("id", ["lwhm22-5", "ryhh24-5c"])
def test_a_long_table_is_thinned_for_readers(capsys, id):
    view = views.load_view(*papers.find_experiment(id))
    columns = views.tabulate_numbers(view)
    assert len(columns["curve"]) > 40
    assert main(["papers", id]) == 0
    blocks = capsys.readouterr().out.split("\n\n")
    (table,) = [block for block in blocks if block.startswith("  curve")]
    n_rows = len(table.splitlines()) - 1
    assert 20 < n_rows <= 30 + len({*columns["curve"]})
    assert {line.split("  ")[1] for line in table.splitlines()[1:]} == {*columns["curve"]}
    note = f"{n_rows} of {len(columns['curve'])} rows are shown; the file of the result has all."
    assert blocks[-1].strip() == note
    assert repr(view.experiment) == f"Experiment({id}: {view.experiment.title})"
    assert len(repr(view.paper)) < 600


def test_a_run_tells_programs_where_its_result_is(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "home"))
    argv = ["papers", "jtt18-table-1", "--run", "--json", "--write", str(tmp_path / "new" / "one")]
    assert main(argv) == 0
    captured = capsys.readouterr()
    assert not captured.err
    *_, last = map(json.loads, captured.out.splitlines())
    assert last["accuracy"] == "agrees"
    assert engine.read_result(Path(last["result"])).id == "jtt18-table-1"
    for options in (["--bibtex"], ["--theory"], []):
        assert main(["papers", "hxz15", "--json", *options]) == 0
        assert json.loads(capsys.readouterr().out)
    assert main(["papers", "--report", "x", "--bibtex"]) == 2


def test_a_mechanism_is_cited_with_its_papers(capsys):
    assert main(["papers", "output", "--bibtex"]) == 0
    entries = capsys.readouterr().out.split("\n\n")
    assert [entry.partition(",")[0] for entry in entries] == ["@software{dpmc-lab", "@misc{lwhm22"]
    assert main(["papers", "output"]) == 1
    assert "'output'" in capsys.readouterr().err


NOT_ITS_METHODS = ("ryhh24-table-1", "z16-algorithms")


def test_the_citation_names_the_papers():
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["authors"] == [{"name": "DPMC Lab contributors"}]
    assert citation.format_software_entry() == (
        f"@software{{dpmc-lab,\n  title = {{{cited['title']}}},\n"
        f"  author = {{{{{cited['authors'][0]['name']}}}}},\n  version = {{{cited['version']}}}\n}}"
    )
    assert len(cited["references"]) == len(papers.PAPERS)
    for reference, paper in zip(cited["references"], papers.PAPERS.values(), strict=True):
        names = [f"{a['given-names']} {a['family-names']}" for a in reference["authors"]]
        assert (reference["title"], reference["year"]) == (paper.title, paper.year)
        assert tuple(names) == paper.authors
        assert paper.title in paper.bibtex
        assert {*paper.methods} == set().union(
            # The first runs none; the others are not the paper's.
            *(e.mechanisms for e in paper.experiments if e.id not in NOT_ITS_METHODS)
        )
    keys = [paper.key for paper in citation.find_papers_running(["pmf", "objective"])]
    assert keys == ["HXZ15", "LWHM22"]
