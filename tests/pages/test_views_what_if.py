"""What What if says of a method at one epsilon: it is computed once, and everything reads it."""

import pytest

from dpmc_core import registry
from dpmc_core.model import Task
from dpmc_core.privacy import Guarantee
from dpmc_core.privacy.accounting import Loss
from dpmc_core.ratings import PublicFacts
from dpmc_lab.sweep.presets import EPSILONS
from dpmc_lab.views import lines, numbers, trade
from dpmc_lab.views.what_if import build_stop
from pages.ui import scene
from pages.ui.charts import DARK, LIGHT


@pytest.fixture
def calls(monkeypatch):
    """Count by name how often limits are computed, and guarantees of these mechanisms are built."""
    counts = dict.fromkeys(("attacker_accuracy", "guarantee"), 0)

    def count(owner, name):
        function = getattr(owner, name)

        def counted(*args, **options):
            counts[name] += 1
            return function(*args, **options)

        monkeypatch.setattr(owner, name, counted)

    count(Loss, "attacker_accuracy")
    for id in ("input-flip", "private-effects"):
        count(registry.get_mechanism(id), "guarantee")
    return counts


@pytest.mark.parametrize("id", ["input-flip", "private-effects"])
def test_a_scene_builds_each_guarantee_and_each_limit_once(id, calls):
    """Of one person: a limit about one rating and one about the person, at every epsilon."""
    chart = lines.load_shipped_charts("restaurants", id)[0]
    public = chart.lines[0].info.public
    calls.update(dict.fromkeys(calls, 0))  # reading the rows needs guarantees as well
    shown = scene.build_scene(id, chart, public)
    for theme in (LIGHT, DARK):
        scene.build_view(shown, theme)
    assert calls == {"guarantee": len(EPSILONS), "attacker_accuracy": 2 * len(EPSILONS)}


def test_a_stop_has_the_numbers_of_its_epsilon():
    chart = lines.load_shipped_charts("restaurants", "input-flip")[0]
    line, public = chart.lines[0], chart.lines[0].info.public
    mechanism = registry.create("input-flip", epsilon=0.5)
    stop = build_stop(mechanism, 0.5, chart, public, rated=(3, 8))
    assert isinstance(stop.guarantee, Guarantee)
    assert stop.guarantee.claimed.epsilon == 0.5
    assert stop.value == line.interval_at(0.5).mean
    assert stop.benefit == numbers.compute_gain_share(chart, line, 0.5)
    for rated, risk in stop.person_risks.items():
        question = trade.list_questions(stop.guarantee, Task.BINARY, rated)[1]
        assert risk == question.assess(stop.guarantee)
    rates = [stop.risk.success_rate, *(risk.success_rate for risk in stop.person_risks.values())]
    assert rates == sorted(rates)
    assert rates[0] < rates[1] < rates[2]


def test_before_the_first_run_a_stop_has_a_limit_alone():
    public = PublicFacts(users=50, items=40, low=-1, high=1)
    chart = lines.CurveChart(lines.list_plotted_metrics(Task.BINARY)[0])
    stop = build_stop(registry.create("input-flip", epsilon=1.0), 1.0, chart, public)
    assert (stop.interval, stop.benefit, stop.value) == (None, None, None)
    assert stop.risk.label == "73.2 %"
