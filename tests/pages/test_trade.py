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
from dpmc_lab.curves import lines, measurements, trade
from dpmc_lab.curves.trade import (
    AttackerPosition,
    BoundState,
    QuestionScope,
    QuestionSwitches,
    Relation,
)
from dpmc_lab.store import restore_mechanism
from pages.ui.charts import compare
from tests.page_helpers import list_charts, open_page, read_chart_spec, read_instrument

SAMPLES = (
    ("movie-night", Task.BINARY),
    ("movie-night", Task.RATINGS),
    ("bookshop-clicks", Task.RANKING),
)
QUESTIONS = [
    QuestionSwitches(*asked)
    for asked in itertools.product(QuestionScope, Relation, AttackerPosition)
]
REMOVED = QuestionSwitches(QuestionScope.PERSON, Relation.REMOVED)
TWENTY = QuestionSwitches(QuestionScope.PERSON)


@cache
def of(data, task):
    """All methods of a sample in one picture, as Compare draws them."""
    pictures = [
        found[0]
        for id in registry.list_private_mechanisms(task)
        if (found := lines.load_shipped_charts(data, id)) is not None
    ]
    first = tuple(picture.lines[0] for picture in pictures)
    return pictures[0]._replace(lines=first, private_baselines=())


@cache
def asked(data, task, switches=QuestionSwitches()):  # noqa: B008
    return trade.build_trade_chart(of(data, task), task, switches)


def track(switches, id, data="movie-night", task=Task.BINARY):
    return next(t for t in asked(data, task, switches).lines if t.line.mechanism == id)


def everything():
    for (data, task), switches in itertools.product(SAMPLES, QUESTIONS):
        for one in asked(data, task, switches).lines:
            yield switches, one


def card_of(line, epsilon):
    settings = {**line.info.settings, "epsilon": epsilon}
    return restore_mechanism(line.mechanism, settings).guarantee(line.info.public)


# --- against formulas of their own ---------------------------------------------------------------


def test_a_flip_and_one_number_of_laplace_noise():
    flip, number = (track(QuestionSwitches(), id).points for id in ("input-flip", "objective"))
    for a, b in zip(flip, number, strict=True):
        assert a.success_rate == pytest.approx(1 / (1 + math.exp(-a.epsilon)), rel=1e-12)
        assert [a.certificate_rate, a.claimed_rate] == pytest.approx([a.success_rate] * 2)
        assert b.success_rate == pytest.approx(1 - math.exp(-b.epsilon / 2) / 2, rel=1e-12)
        assert b.certificate_rate == pytest.approx(a.success_rate)


@pytest.mark.parametrize("id", ["private-effects", "private-frank-wolfe", "private-item-mean"])
def test_gaussian_noise_by_its_own_law_and_by_epsilon_and_delta_alone(id):
    def delta(mu, epsilon):
        gone = stats.norm.cdf(-epsilon / mu - mu / 2) * math.exp(epsilon)
        return stats.norm.cdf(mu / 2 - epsilon / mu) - gone - 1e-6

    for bead in track(REMOVED, id, task=Task.RATINGS).points:
        if bead.epsilon >= 0.5:  # below, the plain difference has no digits left
            mu = optimize.brentq(delta, 0.05, 10, args=(bead.epsilon,), xtol=1e-13)
            assert bead.success_rate == pytest.approx(stats.norm.cdf(mu / 2), abs=1e-4)
    here = track(REMOVED, id, task=Task.RATINGS).point_at(1.0)
    assert trade.format_success(here) == "is right at most 55 % of the time"
    assert here.certificate_rate == pytest.approx((math.e + 1e-6) / (1 + math.e))
    assert here.claimed_rate == pytest.approx((math.e + 1e-6) / (1 + math.e))


def test_twenty_ratings_are_twenty_flips():
    for bead in track(TWENTY, "input-flip").points[:6]:
        p = 1 / (1 + math.exp(-bead.epsilon))
        kept, turned = (stats.binom.pmf(np.arange(21), 20, share) for share in (p, 1 - p))
        assert bead.success_rate == pytest.approx(np.maximum(kept, turned).sum() / 2, rel=1e-9)
        assert bead.claimed_rate is None  # its paper says nothing of a person


def test_two_rows_of_clicks_differ_in_forty_cells():
    for bead in track(TWENTY, "dplcf", *SAMPLES[2]).points[:5]:
        p = 1 / (1 + math.exp(-bead.epsilon))
        kept, turned = (stats.binom.pmf(np.arange(41), 40, share) for share in (p, 1 - p))
        assert bead.success_rate == pytest.approx(np.maximum(kept, turned).sum() / 2, rel=1e-9)


# --- what must hold of all of them ---------------------------------------------------------------


def test_a_larger_epsilon_never_tells_less():
    for _, one in everything():
        right = [bead.success_rate for bead in one.points]
        assert right == sorted(right)
        assert all(
            0.5 <= bead.success_rate <= bead.certificate_rate * (1 + 1e-9) for bead in one.points
        )


def test_who_runs_the_server_sees_what_a_curator_sees_and_no_more_of_reports():
    seen = set()
    for switches, one in everything():
        if switches.position is AttackerPosition.READER:
            continue
        reader = asked_again(one, switches._replace(position=AttackerPosition.READER))
        trust = card_of(one.line, 1.0).trust
        seen.add(trust)
        if trust is Trust.CURATOR:
            assert {(b.state, b.success_rate, b.claimed_rate) for b in one.points} == {
                (BoundState.RAW, 1.0, None)
            }
            assert one.measured_point is None
        else:
            assert one == reader
        assert all(b.state is not BoundState.RAW for b in reader.points)
    assert seen == {Trust.CURATOR, Trust.LOCAL, Trust.FEDERATED}


def asked_again(one, switches):
    for data, task in SAMPLES:
        for other in asked(data, task, switches).lines:
            if other.line is one.line:
                return other
    raise AssertionError(one)


def test_a_recommender_beside_a_third_party_is_held_off_by_no_proof_of_ours():
    line = track(QuestionSwitches(), "objective").line
    card = dataclasses.replace(card_of(line, 1.0), trust=Trust.AGGREGATOR)
    question = QuestionSwitches().build_question(Task.BINARY)
    stands = [
        trade._build_trade_point(1.0, line.interval_at(1.0), card, question, seat).state
        for seat in AttackerPosition
    ]
    assert stands == [BoundState.BOUND, BoundState.NONE]


def test_what_is_not_proved_stands_nowhere_on_the_axis():
    for switches, one in everything():
        question = switches.build_question(registry.get_mechanism(one.line.mechanism).task)
        for bead in one.points:
            proved = question.guarantee_for(card_of(one.line, bead.epsilon)).certified(
                question.change
            )
            if not proved.finite:
                assert bead.state in (BoundState.NONE, BoundState.RAW)
            assert (bead.state is BoundState.BOUND) == (bead.success_rate <= 0.999)
            assert (compare._bead_position(bead) < compare._EDGE + 1e-9) == (
                bead.state is BoundState.BOUND
            )
    gone = track(QuestionSwitches(), "output")
    assert {bead.state for bead in gone.points} == {BoundState.USELESS}
    assert gone.point_at(1.0).claimed_rate == pytest.approx(0.7311, abs=1e-4)


def test_a_tick_lies_below_what_is_certified_and_only_where_it_tells_of_the_question():
    ticks = 0
    for switches, one in everything():
        if one.measured_point is None:
            continue
        ticks += 1
        bead = one.point_at(one.measured_point.epsilon)
        assert 0.5 <= one.min_success_rate <= bead.success_rate
        found = measurements.find_default_measured_bound(one.line.mechanism)
        if (
            switches == QuestionSwitches()
            and registry.get_mechanism(one.line.mechanism).task is not Task.RANKING
        ):
            assert found.change.value == "value"  # of a cell or a user it says nothing about this
    assert ticks > 20
    exact = track(QuestionSwitches(), "objective")
    assert exact.min_success_rate == pytest.approx(
        1 - math.exp(-0.5) / 2
    )  # measured to be 1, as certified


@pytest.mark.parametrize(("data", "task"), SAMPLES)
def test_every_method_of_a_sample_is_there_once(data, task):
    found = asked(data, task)
    there = [one.line.mechanism for one in found.lines]
    shipped = {
        id for id in registry.list_private_mechanisms(task) if lines.load_shipped_charts(data, id)
    }
    assert len(there) == len(set(there))
    assert set(there) == shipped
    guesses = [one.line.label for one in found.private_baselines]
    assert guesses == [line.label for line in found.chart.private_baselines]
    assert len(trade.tabulate_trade(found)["mechanism"]) == sum(
        len(one.points) for one in found.lines
    )
    for one in found.lines:
        assert [bead.value for bead in one.points] == list(one.line.intervals)
        assert one.line.label in trade.describe_trade_chart(found, 1.0)


@pytest.mark.parametrize(("data", "task"), SAMPLES)
def test_what_if_asks_the_same_and_gets_the_same_number(data, task):
    for line in of(data, task).lines:
        card = card_of(line, 1.0)
        both = (REMOVED, TWENTY) if card.change.per_user else (QuestionSwitches(), TWENTY)
        for switches, question in zip(both, trade.list_questions(card, task, 20), strict=True):
            bead = track(switches, line.mechanism, data, task).point_at(1.0)
            assert bead.success_rate == question.success_rate(card), (line.mechanism, question)


# --- drawn ---------------------------------------------------------------------------------------


def test_hollow_where_the_paper_puts_it_and_filled_where_the_releases_do():
    found = asked("movie-night", Task.RATINGS, REMOVED)
    k = [one.line.mechanism for one in found.lines].index("private-frank-wolfe")
    for epsilon in (0.5, 1.0, 2.0):
        *_, arrows, hollow, filled = compare.plot_accuracy_against_attacker(found, epsilon).data
        bead = found.lines[k].point_at(epsilon)
        assert filled["x"][k] == pytest.approx(
            math.log(bead.success_rate / (1 - bead.success_rate))
        )
        assert hollow["x"][k] == pytest.approx(
            math.log(bead.claimed_rate / (1 - bead.claimed_rate))
        )
        assert arrows["x"][3 * k : 3 * k + 3] == [hollow["x"][k], filled["x"][k], None]
        assert filled["y"][k] == hollow["y"][k] == bead.value.mean
    assert hollow["x"][k] > filled["x"][k]


@pytest.mark.parametrize(("data", "task"), SAMPLES)
def test_an_epsilon_moves_the_last_three_traces_and_nothing_else(data, task):
    found = asked(data, task)
    first, *rest = (
        compare.plot_accuracy_against_attacker(found, epsilon) for epsilon in (0.1, 1.0, 10.0)
    )
    for fig in rest:
        assert fig.data[:-3] == first.data[:-3]
        assert fig.layout == first.layout


def test_the_better_is_above_and_a_missing_proof_in_the_gutter():
    error = compare.plot_accuracy_against_attacker(asked("movie-night", Task.RATINGS), 1.0)
    share = compare.plot_accuracy_against_attacker(asked("movie-night", Task.BINARY), 1.0)
    low, high = error.layout["yaxis"]["range"]
    assert low > high
    low, high = share.layout["yaxis"]["range"]
    assert low < high
    (gutter,) = share.layout["shapes"]
    ids = [one.line.mechanism for one in asked("movie-night", Task.BINARY).lines]
    where = {id: share.data[-1]["x"][k] for k, id in enumerate(ids)}
    assert gutter["x0"] < where.pop("output") < gutter["x1"]
    assert max(where.values()) < gutter["x0"]
    server = trade.build_trade_chart(
        of(*SAMPLES[0]), Task.BINARY, QuestionSwitches(position=AttackerPosition.SERVER)
    )
    told = trade.describe_trade_chart(server, 1.0)
    assert "sees it raw" in told
    assert (
        "Input perturbation at epsilon 1: 70.8 %, attacker is right at most 73 % of the time"
        in told
    )


def test_the_layer_of_compare_keeps_its_switches_in_the_address():
    link = {"data": "movie-night", "task": "ratings", "layer": "Trade"}
    link |= {"asked about": "PERSON", "relation": "REMOVED"}
    app = open_page("compare", **link)
    assert not app.exception
    drawn = read_chart_spec(app)
    assert drawn["layout"]["xaxis"]["ticktext"][-2:] == ["50<br>coin", "<br>no<br>bound"]
    said = " ".join(one.value for one in app.markdown)
    assert "“Were this person's data used?”" in said
    assert "is right at most 55 % of the time" in said
    usual = list_charts(open_page("compare", data="movie-night", task="ratings"))
    assert len(usual) == len(list_charts(app))


def test_the_layer_of_compare_is_kept_while_what_if_is_open():
    app = open_page("compare", data="movie-night", layer="Trade")
    app.switch_page("pages/what_if.py").run()
    assert not app.exception
    assert not app.warning
    app.switch_page("pages/compare.py").run()
    assert not app.exception
    assert app.session_state["layer"] == "Trade"


def test_an_old_link_to_a_layer_of_what_if_is_noted():
    app = open_page(layer="Noise")
    (said,) = app.warning
    assert "the picture “Noise”, which is gone" in said.value
    assert "layer" not in app.query_params
    assert read_instrument(app)["picture"]["figure"]["data"]
