"""The trade: what an attacker may know, against what is predicted all the same."""

import dataclasses
import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy import optimize, stats

from dpmc_core import registry
from dpmc_core.model import Task
from dpmc_core.privacy import Trust
from dpmc_lab.store import restore_mechanism
from dpmc_lab.views import lines, measurements, trade
from dpmc_lab.views.trade import (
    AttackerPosition,
    BoundState,
    QuestionScope,
    QuestionSwitches,
    Relation,
)
from pages.ui.charts import compare
from tests.page_helpers import open_page

SAMPLES = (
    ("movie-night", Task.BINARY),
    ("movie-night", Task.RATINGS),
    ("bookshop-clicks", Task.RANKING),
)
QUESTIONS = [
    QuestionSwitches(*question)
    for question in itertools.product(QuestionScope, Relation, AttackerPosition)
]
REMOVED = QuestionSwitches(QuestionScope.PERSON, Relation.REMOVED)
TWENTY = QuestionSwitches(QuestionScope.PERSON)


@cache
def load_chart(data, task):
    """Load all methods of a sample in one picture, as Compare draws them."""
    charts = [
        metric_charts[0]
        for id in registry.list_private_mechanisms(task)
        if (metric_charts := lines.load_shipped_charts(data, id)) is not None
    ]
    levels = tuple(baseline for baseline in charts[0].baselines if baseline.is_level)
    return charts[0]._replace(lines=tuple(chart.lines[0] for chart in charts), baselines=levels)


@cache
def build_trade_chart(data, task, switches=QuestionSwitches()):  # noqa: B008
    return trade.build_trade_chart(load_chart(data, task), task, switches)


def find_line(switches, id, data="movie-night", task=Task.BINARY):
    return next(t for t in build_trade_chart(data, task, switches).lines if t.line.mechanism == id)


def list_all_lines():
    for (data, task), switches in itertools.product(SAMPLES, QUESTIONS):
        for trade_line in build_trade_chart(data, task, switches).lines:
            yield switches, trade_line


def build_guarantee(line, epsilon):
    settings = {**line.info.settings, "epsilon": epsilon}
    return restore_mechanism(line.mechanism, settings).guarantee(line.info.public)


# --- against formulas of their own ---------------------------------------------------------------


def test_a_flip_and_one_number_of_laplace_noise():
    flip, number = (find_line(QuestionSwitches(), id).points for id in ("input-flip", "objective"))
    for a, b in zip(flip, number, strict=True):
        assert a.success_rate == pytest.approx(1 / (1 + math.exp(-a.epsilon)), rel=1e-12)
        assert [a.certificate_rate, a.claimed_rate] == pytest.approx([a.success_rate] * 2)
        assert b.success_rate == pytest.approx(1 - math.exp(-b.epsilon / 2) / 2, rel=1e-12)
        assert b.certificate_rate == pytest.approx(a.success_rate)


@pytest.mark.parametrize("id", ["private-effects", "private-frank-wolfe", "private-item-mean"])
def test_gaussian_noise_by_its_own_law_and_by_epsilon_and_delta_alone(id):
    def delta(mu, epsilon):
        tail = stats.norm.cdf(-epsilon / mu - mu / 2) * math.exp(epsilon)
        return stats.norm.cdf(mu / 2 - epsilon / mu) - tail - 1e-6

    for chart_point in find_line(REMOVED, id, task=Task.RATINGS).points:
        if chart_point.epsilon >= 0.5:  # below, the plain difference has no digits left
            mu = optimize.brentq(delta, 0.05, 10, args=(chart_point.epsilon,), xtol=1e-13)
            assert chart_point.success_rate == pytest.approx(stats.norm.cdf(mu / 2), abs=1e-4)
    point = find_line(REMOVED, id, task=Task.RATINGS).point_at(1.0)
    assert trade.format_success(point) == "is right at most 54.8 % of the time"
    assert point.certificate_rate == pytest.approx((math.e + 1e-6) / (1 + math.e))
    assert point.claimed_rate == pytest.approx((math.e + 1e-6) / (1 + math.e))


def test_twenty_ratings_are_twenty_flips():
    for point in find_line(TWENTY, "input-flip").points[:6]:
        p = 1 / (1 + math.exp(-point.epsilon))
        unflipped, turned = (stats.binom.pmf(np.arange(21), 20, share) for share in (p, 1 - p))
        assert point.success_rate == pytest.approx(
            np.maximum(unflipped, turned).sum() / 2, rel=1e-9
        )
        assert point.claimed_rate is None  # its paper says nothing of a person


def test_two_rows_of_clicks_differ_in_forty_cells():
    for point in find_line(TWENTY, "dplcf", *SAMPLES[2]).points[:5]:
        p = 1 / (1 + math.exp(-point.epsilon))
        unflipped, turned = (stats.binom.pmf(np.arange(41), 40, share) for share in (p, 1 - p))
        assert point.success_rate == pytest.approx(
            np.maximum(unflipped, turned).sum() / 2, rel=1e-9
        )


# --- what must hold of all of them ---------------------------------------------------------------


def test_who_runs_the_server_sees_what_a_curator_sees_and_no_more_of_reports():
    cases = set()
    for switches, trade_line in list_all_lines():
        if switches.position is AttackerPosition.READER:
            continue
        reader = find_same_line(trade_line, switches._replace(position=AttackerPosition.READER))
        trust = build_guarantee(trade_line.line, 1.0).trust
        cases.add(trust)
        if trust is Trust.CURATOR:
            assert {(b.state, b.success_rate, b.claimed_rate) for b in trade_line.points} == {
                (BoundState.RAW, 1.0, None)
            }
            assert trade_line.measured_point is None
        else:
            assert trade_line == reader
        assert all(b.state is not BoundState.RAW for b in reader.points)
    assert cases == {Trust.CURATOR, Trust.LOCAL, Trust.FEDERATED}


def find_same_line(trade_line, switches):
    for data, task in SAMPLES:
        for candidate in build_trade_chart(data, task, switches).lines:
            if candidate.line is trade_line.line:
                return candidate
    raise AssertionError(trade_line)


def test_a_recommender_beside_a_third_party_is_held_off_by_no_proof_of_ours():
    line = find_line(QuestionSwitches(), "objective").line
    guarantee = dataclasses.replace(build_guarantee(line, 1.0), trust=Trust.AGGREGATOR)
    question = QuestionSwitches().build_question(Task.BINARY)
    positions = [trade._limit_attacker(guarantee, question, seat)[0] for seat in AttackerPosition]
    assert positions == [BoundState.BOUND, BoundState.NONE]


def test_what_is_not_proved_stands_nowhere_on_the_axis():
    for switches, trade_line in list_all_lines():
        question = switches.build_question(registry.get_mechanism(trade_line.line.mechanism).task)
        for point in trade_line.points:
            proved = question.guarantee_for(
                build_guarantee(trade_line.line, point.epsilon)
            ).certified(question.change)
            if not proved.finite:
                assert point.state in (BoundState.NONE, BoundState.RAW)
            assert (point.state is BoundState.BOUND) == (point.success_rate <= 0.999)
            assert (compare._point_position(point) < compare._EDGE + 1e-9) == (
                point.state is BoundState.BOUND
            )
    unproved = find_line(QuestionSwitches(), "output")
    assert {point.state for point in unproved.points} == {BoundState.USELESS}
    assert unproved.point_at(1.0).claimed_rate == pytest.approx(0.7311, abs=1e-4)


def test_a_tick_lies_below_what_is_certified_and_only_where_it_tells_of_the_question():
    ticks = 0
    for switches, trade_line in list_all_lines():
        if trade_line.measured_point is None:
            continue
        ticks += 1
        point = trade_line.point_at(trade_line.measured_point.epsilon)
        assert 0.5 <= trade_line.min_success_rate <= point.success_rate
        bound = measurements.find_default_measured_bound(trade_line.line.mechanism)
        if (
            switches == QuestionSwitches()
            and registry.get_mechanism(trade_line.line.mechanism).task is not Task.RANKING
        ):
            assert bound.change.value == "value"  # of a cell or a user it says nothing about this
    assert ticks > 20
    exact = find_line(QuestionSwitches(), "objective")
    # Measured to be 1, as certified.
    assert exact.min_success_rate == pytest.approx(1 - math.exp(-0.5) / 2)


@pytest.mark.parametrize(("data", "task"), SAMPLES)
def test_every_method_of_a_sample_is_there_once(data, task):
    chart = build_trade_chart(data, task)
    mechanism_ids = [trade_line.line.mechanism for trade_line in chart.lines]
    shipped = {
        id for id in registry.list_private_mechanisms(task) if lines.load_shipped_charts(data, id)
    }
    assert len(mechanism_ids) == len(set(mechanism_ids))
    assert set(mechanism_ids) == shipped
    guesses = [trade_line.line.label for trade_line in chart.private_baselines]
    assert guesses == [line.label for line in chart.chart.private_baselines]
    assert len(trade.tabulate_trade(chart)["mechanism"]) == sum(
        len(trade_line.points) for trade_line in chart.lines
    )
    for trade_line in chart.lines:
        assert [point.value for point in trade_line.points] == list(trade_line.line.intervals)
        assert trade_line.line.label in trade.describe_trade_chart(chart, 1.0)
    table = trade.tabulate_trade(chart)
    for epsilon in (0.1, 1.0, 10.0):
        limits = [
            float(limit.removesuffix(" %"))
            for limit, x in zip(table["right at most"], table["epsilon"], strict=True)
            if x == epsilon and limit.endswith("%") and "no limit" not in limit
        ]
        title = trade.conclude_trade(chart, epsilon)
        if limits:
            total = "" if len(limits) == len(chart.lines) else f" of {len(chart.lines)}"
            limit = f"{max(limits):.1f} % at epsilon {epsilon:g}"
            assert title == f"{len(limits)}{total} limit this attacker to {limit}"
        else:
            assert title == f"No mechanism limits this attacker at epsilon {epsilon:g}"


# --- drawn ---------------------------------------------------------------------------------------


def test_hollow_where_the_paper_puts_it_and_filled_where_the_releases_do():
    chart = build_trade_chart("movie-night", Task.RATINGS, REMOVED)
    k = [trade_line.line.mechanism for trade_line in chart.lines].index("private-frank-wolfe")
    for epsilon in (0.5, 1.0, 2.0):
        *_, arrows, hollow, filled = compare.plot_accuracy_against_attacker(chart, epsilon).data
        point = chart.lines[k].point_at(epsilon)
        assert filled["x"][k] == pytest.approx(
            math.log(point.success_rate / (1 - point.success_rate))
        )
        assert hollow["x"][k] == pytest.approx(
            math.log(point.claimed_rate / (1 - point.claimed_rate))
        )
        assert arrows["x"][3 * k : 3 * k + 3] == [hollow["x"][k], filled["x"][k], None]
        assert filled["y"][k] == hollow["y"][k] == point.value.mean
    assert hollow["x"][k] > filled["x"][k]


def test_the_layer_of_compare_is_kept_while_what_if_is_open():
    app = open_page("compare", data="movie-night", layer="Trade")
    app.switch_page("pages/what_if.py").run()
    assert not app.exception
    assert not app.warning
    app.switch_page("pages/compare.py").run()
    assert not app.exception
    assert app.session_state["layer"] == "Trade"
